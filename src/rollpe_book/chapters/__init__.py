"""Notebooks with checked parameters: run, stamped and gated.

Here: the two files of a notebook (source.py), its parameters (parameters.py), running it (execute.py), the
stamp of its outputs and the gate (stamp.py). Not here: what a notebook computes, the book (rollpe_book.extension).
"""

from rollpe_book.chapters.execute import NotebookFailed, run
from rollpe_book.chapters.parameters import check_parameters, read_parameters
from rollpe_book.chapters.source import header, list_notebooks, sync
from rollpe_book.chapters.stamp import fingerprint, gate, read_stamp, stamp_digest
