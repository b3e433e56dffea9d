"""The two files of a notebook: its source and the copy beside it.

The ``.py`` file is the source; the ``.ipynb`` is a copy without outputs for work in Jupyter.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import json
from pathlib import Path
from typing import Any

import yaml

from rollpe.errors import InputError
from rollpe_lab.files import write_atomically
from rollpe_lab.hashes import find_root


def find_source(path: Path | str) -> Path:
    """The ``.py`` of a notebook, named by either file of its pair; a missing file is an InputError."""
    if not Path(path).name:
        raise InputError(f"{path}: no notebook; name one, for example notebooks/11-train.py.")
    source = Path(path).with_suffix(".py")
    if not source.is_file():
        stems = sorted(p.stem for p in source.parent.glob("*.py"))
        near = difflib.get_close_matches(source.stem, stems, 1)
        hint = f"did you mean {source.parent / near[0]}.py?" if near else f"there are: {', '.join(stems)}."
        raise InputError(f"{path}: no such notebook; {hint}")
    return source


def list_notebooks(root: Path) -> list[Path]:
    """The sources of all notebooks, in the order of their numbers."""
    return sorted((root / "notebooks").glob("*.py"))


def header(path: Path | str) -> dict[str, list[str]]:
    """What the notebook's header declares under ``rollpe``: ``{"after": [...], "reads": [...]}``."""
    _, *parts = Path(path).read_text(encoding="utf8").split("# ---\n", 2)
    text = parts[0].replace("# ", "", 1).replace("\n# ", "\n") if len(parts) == 2 else ""
    ours = (yaml.safe_load(text) or {}).get("jupyter", {}).get("rollpe", {})
    return {key: ours.get(key, []) for key in ("after", "reads")}


def sync(check: bool = False, root: Path | str = ".") -> list[Path]:
    """Write every ``.ipynb`` from its ``.py``, without outputs; return those that differed.

    All but layout is compared. With ``check`` nothing is written. An ``.ipynb`` without a ``.py`` is always
    reported and never changed.
    """
    root = find_root(root)
    differing = []
    for source in list_notebooks(root):
        pair = source.with_suffix(".ipynb")
        expected = extra("nbformat").writes(_pair_of(source)) + "\n"
        with contextlib.suppress(OSError, ValueError):
            if json.loads(pair.read_text(encoding="utf8")) == json.loads(expected):
                continue
        differing.append(pair)
        if not check:
            write_atomically(pair, expected.encode())
    return differing + [
        p for p in sorted((root / "notebooks").glob("*.ipynb")) if not p.with_suffix(".py").is_file()
    ]


def _pair_of(source: Path) -> Any:
    notebook = read_source(source)
    notebook.metadata.setdefault("kernelspec", kernelspec())
    notebook.metadata.pop("jupytext", None)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"  # random ids would make every writing a change
    return notebook


def read_source(path: Path) -> Any:
    return extra("jupytext").read(path, fmt="py:percent")


def extra(name: str) -> Any:
    """A module of the optional dependencies "notebooks"; InputError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed, which notebooks need. Repair: pip install -e '.[notebooks]'."
        ) from None


def kernelspec() -> dict[str, str]:
    return {"display_name": "Python 3", "language": "python", "name": "python3"}
