"""Positional encodings for attention, their mathematics and their evidence.

Nothing is imported here, so that ``import rollpe`` stays instant; see ``rollpe.encodings`` for the
encodings, ``rollpe.operators`` for the mathematics and ``rollpe_lab.training`` for the experiments.
"""

__version__ = "0.1.0"
