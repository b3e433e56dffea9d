"""Notebooks with checked parameters: run, stamped, and refused where they are not whole.

source.py reads its two files, parameters.py what it takes, execute.py runs it, and stamp.py says what its
outputs came from and gates them.
"""

from rollpe.notebooks.execute import NotebookFailed, run
from rollpe.notebooks.parameters import check_parameters, read_parameters
from rollpe.notebooks.source import find_source, header, list_notebooks, sync
from rollpe.notebooks.stamp import fingerprint, gate, read_stamp, stamp_digest

__all__ = [
    "NotebookFailed",
    "check_parameters",
    "find_source",
    "fingerprint",
    "gate",
    "header",
    "list_notebooks",
    "read_parameters",
    "read_stamp",
    "run",
    "stamp_digest",
    "sync",
]
