"""Notebooks with checked parameters: run, stamped, and refused where they are not whole.

parameters.py reads and checks what a notebook takes, execute.py runs it and keeps its pair in step, stamp.py
says what its outputs came from and gates them, page.py makes one file of HTML of a run.
"""

from rollpe.notebooks.execute import NotebookFailed, run, sync
from rollpe.notebooks.parameters.parameters import (
    check_parameters,
    find_source,
    list_notebooks,
    read_parameters,
)
from rollpe.notebooks.stamp import fingerprint, gate, header, read_stamp, stamp_digest

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
