"""Running a notebook with checked parameters."""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

from rollpe.errors import InputError
from rollpe_book.chapters.gate import fingerprint, first_line, stamp_digest
from rollpe_book.chapters.parameters import Value, check_parameters, read_parameters
from rollpe_book.chapters.source import extra, find_source, kernelspec, read_source
from rollpe_lab.files import write_atomically
from rollpe_lab.hashes import SRC, find_root, hash_files, source_hash

WITNESS = """\
import sys
torch = sys.modules.get("torch")
gpu = torch and torch.cuda.is_available() and torch.cuda.get_device_name()
{"gpu": gpu, "threads": torch and torch.get_num_threads(), "optimize": sys.flags.optimize}"""
"""Code that the kernel runs after all cells, to report its own settings."""
IMPORT = "from rollpe.encodings import import_encodings\n"
VERSIONS = ("torch", "timm", "numpy", "papermill", "ipykernel")


def comment_above(source: str, traceback: str) -> str:
    """The last comment of a cell above the line where it stopped, which says what an assert is about."""
    line = re.search(r"-> (\d+)", re.sub(r"\x1b\[[\d;]*m", "", traceback))
    above = source.splitlines()[: int(line[1]) if line else 0]
    comments = [text.removeprefix("# ") for text in above if text.startswith("# ")]
    return f" at “{comments[-1]}”" if comments else ""


class NotebookFailed(InputError):
    """A cell raised or the kernel died: one line with the cell, the reason and the path of what ran."""


def run(
    path: Path | str,
    values: Mapping[str, object] | None = None,
    output: Path | str | None = None,
    *,
    imports: Sequence[Path | str] = (),
) -> Path:
    """Run a notebook from a clean copy of its source and return the executed one.

    imports: Python files that register encodings; the kernel runs them first (``import_encodings``).

    With the default parameters it goes to ``book/executed/NN-name.ipynb``; with other values or imports to
    ``_build/runs/NN-name-<hash>/``, which leaves the book unchanged. For the same reason a notebook that
    writes ``records`` below ``_build/`` then works on a copy of them in that folder, unless ``records`` is
    given. The kernel starts in the project's root, so that a notebook finds ``data/``. A cell that fails
    raises NotebookFailed and leaves the previous output unchanged.
    """
    from rollpe_lab.records.provenance import now, processor  # noqa: PLC0415 (numpy and pydantic)

    source = find_source(path).resolve()
    root = find_root(source)
    if imports:
        from rollpe.encodings import import_encodings  # noqa: PLC0415 - needs torch, which takes seconds

        for file in imports:
            import_encodings(file)
    given = check_parameters(source, values or {})
    defaults = {p.name: p.default for p in read_parameters(source)}
    changed = {name: value for name, value in given.items() if value != defaults[name]}
    # paths as the kernel sees them, which starts in the root
    outside = {os.path.relpath(file, root): hash_files([Path(file)], root) for file in imports}
    own_run = changed | ({"--import": outside} if outside else {})
    digest = hashlib.sha256(json.dumps(own_run, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{source.stem}-{digest}" if own_run else source.stem
    folder = root / "_build/runs" / name if own_run else root / "book/executed"
    output = Path(output or folder / f"{source.stem}.ipynb").resolve()
    if output.suffix != ".ipynb":
        raise InputError(f"{output}: an executed notebook is an .ipynb file. Leave --output out for a page.")
    if output.exists() and not output.is_file():
        raise InputError(f"{output} is no regular file and is not written over: name another --output.")

    before = fingerprint(source, root)  # of the source that runs, even if it is edited meanwhile
    started = time.monotonic()
    own = _own_records(root, folder, defaults, given) if own_run else {}
    partial = root / "_build/failed" / f"{name}.ipynb"
    notebook, kernel = _execute(source, partial, root, changed | own, list(outside))
    threads = kernel["threads"]
    notebook.metadata["rollpe"] = {
        "notebook": source.relative_to(root).as_posix(),
        **before,
        "package": source_hash(),
        "parameters": defaults | given,
        "changed": changed,
        **({"outside": outside} if outside else {}),
        **({"records": own["records"]} if own else {}),
        "device": kernel["gpu"]
        or processor() + (f", {threads} thread{'s' * (threads > 1)}" if threads else ""),
        "optimize": kernel["optimize"],
        "seconds": round(time.monotonic() - started, 2),
        "date": now(),
        "versions": {"python": sys.version.split()[0], **{name: version(name) for name in VERSIONS}},
    }
    notebook.metadata["rollpe"]["digest"] = stamp_digest(notebook)
    write_atomically(output, (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode())
    return output


def _own_records(
    root: Path, folder: Path, defaults: Mapping[str, Value], given: Mapping[str, Value]
) -> dict[str, Value]:
    """``records`` for a rerun: a fresh copy, in its own folder, of those that the book's tables read."""
    shared = str(defaults.get("records", ""))
    if not shared.startswith("_build/") or "records" in given:
        return {}
    own = folder / "records"
    shutil.rmtree(own, ignore_errors=True)
    if (root / shared).is_dir():
        shutil.copytree(root / shared, own)
    return {"records": own.relative_to(root).as_posix()}


def _execute(
    source: Path, partial: Path, root: Path, changed: Mapping[str, Value], outside: Sequence[str]
) -> tuple[Any, dict[str, Any]]:
    """The executed notebook and the settings that its kernel reports.

    Papermill writes to ``partial``, which remains only if a cell fails. Asserts are on, whatever the
    environment says.
    """
    nbformat, papermill, client = map(extra, ("nbformat", "papermill", "nbclient.exceptions"))
    logging.getLogger("papermill").setLevel(logging.ERROR)  # it warns of parameters that were checked already

    clean = partial.with_suffix(".input.ipynb")
    notebook = read_source(source)
    notebook.metadata.setdefault("kernelspec", kernelspec())
    if outside:
        code = "\n".join([IMPORT, *(f"import_encodings({file!r})" for file in outside)])
        first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        notebook.cells.insert(first, nbformat.v4.new_code_cell(code))
    notebook.cells.append(nbformat.v4.new_code_cell(WITNESS))
    write_atomically(clean, nbformat.writes(notebook).encode())
    # the kernel imports this package, installed or not
    path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    settings = {"PYTHONPATH": path, "PYTHONOPTIMIZE": "", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    try:
        with mock.patch.dict(os.environ, settings):
            executed = papermill.execute_notebook(
                str(clean),
                str(partial),
                dict(changed),
                kernel_name="python3",
                cwd=str(root),
                progress_bar=sys.stderr.isatty(),
                request_save_on_cell_execute=False,  # once, at the end
                extra_arguments=["--IPKernelApp.log_level=50"],  # quiet
            )
    except (papermill.PapermillExecutionError, client.DeadKernelError) as error:
        reason = str(error).splitlines()[0]
        if not isinstance(error, client.DeadKernelError):
            stopped = first_line(error.ename, error.evalue)
            held = comment_above(error.source, "\n".join(error.traceback))
            reason = f"cell In [{error.exec_count}] stopped{held} with {stopped}"
        ran = f"(what ran before it: {partial.relative_to(root)})"
        raise NotebookFailed(f"{source.relative_to(root)}: {reason} {ran}") from None
    finally:
        clean.unlink(missing_ok=True)
    partial.unlink(missing_ok=True)
    # Paths of this machine do not belong in a result.
    executed.metadata["papermill"] = {k: executed.metadata.papermill.get(k) for k in ("version", "exception")}
    answer = executed.cells.pop().outputs[-1]["data"]["text/plain"]
    return executed, ast.literal_eval(answer)
