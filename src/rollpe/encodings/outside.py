"""Encodings that are defined outside of this package, and the files that they come from.

Here: how ``--import`` finds a class, and which files a record has to name by their contents. Not here: how
to write an encoding (base.py, CONTRIBUTING.md).
"""

from __future__ import annotations

import importlib.util
import inspect
import os.path
import sys
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb

from rollpe.encodings.registry import ENCODINGS, split_name
from rollpe.errors import InputError


def import_encodings(path: str | Path) -> None:
    """Run a Python file, whose classes under ``@register`` are encodings from then on.

    Raises InputError if there is no such file, it registers a name that the library or another file has, or
    it breaks or ends the program; the message names the line.
    """
    path = Path(path)
    if path.suffix != ".py" or not os.path.isfile(path):
        raise InputError(f"{path}: no such Python file to import encodings from.")
    path = path.resolve()  # by which modules of two files with one name differ
    name = f"encodings_of_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # a .py file has both
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        what = next(iter(str(error).splitlines()), "")
        if not isinstance(error, InputError):
            what = f"{type(error).__name__}: {what}. A file of encodings defines them and no more."
        raise InputError(f"{path}:{_line(error, path)}: {what}") from None


def _line(error: BaseException, path: Path) -> int:
    """The last line of the file that an error passed through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    return next(filter(None, reversed(lines)), 1)


def outside_files(encoding: str) -> list[Path]:
    """The files outside of this package that define an encoding, sorted; ``encoding`` may join two.

    A class that was typed into an interpreter has none.
    """
    files = set()
    for part in split_name(encoding):
        if ENCODINGS[part].__module__.partition(".")[0] != "rollpe":
            try:
                files.add(Path(inspect.getfile(ENCODINGS[part])))
            except (TypeError, OSError):
                continue
    return sorted(files)
