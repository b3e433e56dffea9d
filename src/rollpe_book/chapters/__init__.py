"""Notebooks with checked parameters: run, stamped and gated."""

from rollpe_book.chapters.execute import NotebookFailed, run
from rollpe_book.chapters.gate import fingerprint, gate, read_stamp, stamp_digest
from rollpe_book.chapters.parameters import check_parameters, read_parameters
from rollpe_book.chapters.source import header, list_notebooks, sync
