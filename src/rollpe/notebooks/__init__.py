"""Notebooks with checked parameters: run, stamped and gated.

Here: the two files of a notebook (source.py), its parameters (parameters.py), running it (execute.py), the
stamp of its outputs and the gate (stamp.py). Not here: what a notebook computes, the book (rollpe.book).
"""

from rollpe.notebooks.execute import NotebookFailed, run
from rollpe.notebooks.parameters import check_parameters, read_parameters
from rollpe.notebooks.source import header, list_notebooks, sync
from rollpe.notebooks.stamp import fingerprint, gate, read_stamp, stamp_digest
