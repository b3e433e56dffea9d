"""The stamp of an executed notebook, and the gate that compares it with the sources.

The promise: a notebook under ``book/executed`` was run from top to bottom, with its default parameters, by
the sources beside it. The promise breaks silently when a source changes and the notebook is not run again
(stale), when a shortened run is left in its place (reduced), when no cell ran (hollow) or the kernel ran
without asserts (unchecked), when a cell failed, when the file was changed afterwards (edited), or when it is
missing. So every run leaves a stamp in the notebook's metadata, under ``rollpe``, and :func:`gate` compares
it with the files on disk. It also refuses every other notebook in ``book``, and a notebook offered to readers
that is not its source.

A notebook declares in its header what it reads beside ``src/``::

    # jupyter:
    #   rollpe:
    #     after: [11-train]         # notebooks that must have run before
    #     reads: [data/records]     # files and folders whose change makes it stale
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rollpe_book.chapters.parameters import read_parameters
from rollpe_book.chapters.source import header, list_notebooks, read_source
from rollpe_lab.hashes import SRC, find_root, hash_files, hash_json, imports, meaning


def fingerprint(path: Path | str, root: Path, src: Path = SRC) -> dict[str, Any]:
    """The part of the stamp that :func:`gate` compares: hashes of everything the outputs depend on.

    The chapter's own source counts with every byte, since pages show it; the library and the data with what
    they mean (`rollpe_lab.hashes.meaning`).
    """
    path = Path(path)
    declared = header(path)
    return {
        "source": hash_files([path], root),
        "imports": hash_files(imports(path, src), src, meaning),
        "lock": hash_files([root / "requirements.lock"], root),
        "reads": {name: hash_files([root / name], root, meaning) for name in declared["reads"]},
        "after": {
            name: read_stamp(root / "book/executed" / f"{name}.ipynb").get("date")
            for name in declared["after"]
        },
    }


def read_stamp(executed: Path | str) -> dict[str, Any]:
    """The stamp that :func:`run` left in an executed notebook; {} for anything else."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return json.loads(Path(executed).read_text(encoding="utf8"))["metadata"].get("rollpe", {})
    return {}


def command(stamp: dict[str, Any]) -> str:
    """The command that repeats the run of a stamp, every parameter with its value."""
    words = ["rollpe", "notebook", stamp["notebook"]]
    for name, value in stamp.get("parameters", {}).items():
        words += ["-p", name, str(value).lower() if isinstance(value, bool) else str(value)]
    for file in stamp.get("outside", {}):
        words += ["--import", file]
    return shlex.join(words)


def stamp_digest(notebook: Mapping[str, Any]) -> str:
    """sha256 over an executed notebook, cells, outputs and stamp, except this digest in the stamp."""
    about = notebook["metadata"]
    stamp = {key: value for key, value in about["rollpe"].items() if key != "digest"}
    return hash_json({**notebook, "metadata": {**about, "rollpe": stamp}})


def gate(root: Path | str = ".") -> list[str]:
    """Why executed notebooks may not become the book; or [].

    The digest in a stamp covers cells, outputs and the stamp itself. It is no signature: an edited file with
    a new digest passes, and so does a run with a wrong clock, a manipulated kernel or forged data. Only a new
    run detects these.
    """
    root = find_root(root)
    folder = root / "book/executed"
    sources = list_notebooks(root)
    reasons = [reason for source in sources for reason in _refuse(source, folder, root)]
    return reasons if sources else [*reasons, "notebooks/ holds no notebook."]


def first_line(name: str, message: str) -> str:
    return f"{name}: {message}".strip(": \n").splitlines()[0]


def _refuse(source: Path, folder: Path, root: Path) -> Iterator[str]:
    executed = folder / f"{source.stem}.ipynb"
    name = executed.relative_to(root)
    again = f"run: rollpe notebook {source.relative_to(root)}"
    stamp = read_stamp(executed)
    if "digest" not in stamp:
        yield f"{name}: missing, damaged or without a stamp, so nobody knows what made it; {again}"
        return
    notebook = json.loads(executed.read_text(encoding="utf8"))
    if stamp["digest"] != stamp_digest(notebook):
        yield f"{name}: edited, it is not what its run left; {again}"
        return

    now = fingerprint(source, root)
    words = {
        "source": f"{source.relative_to(root)}",
        "imports": "a file of src/rollpe that it imports",
        "lock": "requirements.lock",
        "reads": "data that it reads",
        "after": "a notebook that it builds on",
    }
    stale = [words[key] for key in words if stamp.get(key) != now[key]]
    if stale:
        yield f"{name}: stale, {' and '.join(stale)} changed since; {again}"
    defaults = {p.name: p.default for p in read_parameters(source)}
    given = stamp.get("parameters", {})
    reduced = [f"{k}={given.get(k)!r} instead of {v!r}" for k, v in defaults.items() if given.get(k) != v]
    if reduced and not stale:
        yield f"{name}: reduced, it ran with {', '.join(reduced)}; {again}"
    if stamp.get("optimize") != 0:
        yield f"{name}: unchecked, it ran with asserts switched off; {again}"

    # A run with default parameters has no injected cell.
    if not (stale or reduced) and _cells(notebook) != _cells(read_source(source)):
        yield f"{name}: edited, its cells are not those of {source.relative_to(root)}; {again}"
    code = [c for c in notebook["cells"] if c["cell_type"] == "code" and "".join(c["source"]).strip()]
    outputs = [o for c in code for o in c.get("outputs", [])]
    failed = [o for o in outputs if o["output_type"] == "error"]
    if failed:
        yield f"{name}: failed, {first_line(failed[0]['ename'], failed[0]['evalue'])}; {again}"
    elif not code or not outputs or any(c.get("execution_count") is None for c in code):
        yield f"{name}: hollow, it has code cells that never ran or left no output at all; {again}"


def _cells(notebook: Mapping[str, Any]) -> list[tuple[str, str, list[str], Any]]:
    """Type, text, tags and figure or table of every cell: what an author wrote."""
    cells = [(cell["cell_type"], "".join(cell["source"]), cell["metadata"]) for cell in notebook["cells"]]
    return [(kind, text, about.get("tags", []), about.get("mystnb")) for kind, text, about in cells]
