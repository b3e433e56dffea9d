"""The project's root, and the files that a piece of code depends on, found without running anything."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rollpe.errors import InputError

SRC = Path(__file__).resolve().parents[1]
PACKAGES = ("rollpe", "rollpe_lab", "rollpe_book")
TRAINS = PACKAGES[:2]
"""The packages whose source a record names: the book trains nothing."""


def find_root(start: Path | str = ".") -> Path:
    """The project's root, the nearest folder upward that holds pyproject.toml; InputError without one."""
    start = Path(start).resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise InputError(f"{start} is not inside the project: no folder above it holds pyproject.toml.")


def imports(path: Path | str, src: Path = SRC) -> list[Path]:
    """The files of the packages that a notebook imports, directly or through another file.

    Read from the source text, so an import in a string is not found. They are the files that Python loads: a
    module with the ``__init__.py`` of its folder, and with the whole folder if that file imports names which
    it computes. The ``.yaml`` and ``.html`` files below a folder count with its ``__init__.py``, except a
    ``.yaml`` that is named after a module beside it and counts with that.
    """
    return module_files(*_imported_names(Path(path), src), src=src)


def module_files(*names: str, src: Path = SRC) -> list[Path]:
    """The files of modules such as ``rollpe_book.equations`` and all that they import from the packages."""
    files: set[Path] = set()
    waiting, known = list(names), set(names)
    while waiting:
        new = set(_files_of(waiting.pop(), src)) - files
        files |= new
        found = {name for f in new if f.suffix == ".py" for name in _imported_names(f, src)} - known
        waiting += found
        known |= found
    return sorted(files)


def _imported_names(file: Path, src: Path) -> Iterator[str]:
    here = file.relative_to(src).parts if file.is_relative_to(src) else ()
    for level, base, name in _imports_in(file.read_text(encoding="utf8")):
        above = ".".join(here[: len(here) - level]) if level else ""
        yield ".".join(filter(None, [above, base, name]))


@cache
def _imports_in(code: str) -> list[tuple[int, str, str]]:
    """The import statements of a text at any depth: (leading dots, module, name or "").

    Imports for type checkers alone are excluded, since they change no result.
    """
    code = re.sub(r"^(\s*)[%!].*$", r"\1pass", code, flags=re.MULTILINE)  # lines for Jupyter, not Python
    imported = []
    waiting: list[ast.AST] = [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            imported += [(0, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported += [(node.level, node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            for inside in ("body", "orelse", "finalbody", "handlers", "cases"):
                waiting += getattr(node, inside, [])
    return imported


@cache
def _files_of(name: str, src: Path) -> tuple[Path, ...]:
    return tuple(_loaded_by(name.split("."), src))


def _loaded_by(parts: list[str], src: Path) -> Iterator[Path]:
    if parts[0] not in PACKAGES:
        return
    yield src / parts[0] / "__init__.py"
    for depth in range(2, len(parts) + 1):
        module = src.joinpath(*parts[:depth])
        code = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
        if not code.is_file():
            return
        yield code
        if module.is_dir():
            data = (f for f in module.rglob("*") if f.suffix in (".yaml", ".html"))
            yield from (f for f in data if not f.with_suffix(".py").is_file())
            if "import_module(" in code.read_text(encoding="utf8"):
                yield from module.rglob("*.py")
        elif module.with_suffix(".yaml").is_file():
            yield module.with_suffix(".yaml")


def files_below(paths: Iterable[Path]) -> list[Path]:
    """Files, and those below folders, sorted, without hidden ones, which are unfinished work."""
    files = set()
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        shown = (f for f in inside if not any(p.startswith(".") for p in f.relative_to(path).parts))
        files |= {f for f in shown if f.is_file()}
    return sorted(files)


def hash_files(paths: Iterable[Path], root: Path, content: Callable[[Path], bytes] = Path.read_bytes) -> str:
    """sha256 over names (relative to root) and contents, in sorted order; folders count with all below.

    content: what of a file counts, all its bytes or what it means (`meaning`).
    """
    digest = hashlib.sha256()
    for file in files_below(paths):
        name = os.path.relpath(file, root).replace(os.sep, "/")
        digest.update(f"{name}\0{hashlib.sha256(content(file)).hexdigest()}\n".encode())
    return digest.hexdigest()


def meaning(file: Path) -> bytes:
    """What of a file can change a result: of other files than ``.py`` and ``.yaml``, all bytes.

    ``.py``: the syntax tree without docstrings; comments, blank lines and line breaks do not count. No
    chapter may show a docstring of the library or a number of a line. The form of the tree depends on the
    version of Python. ``.yaml``: the tokens; comments, blank lines and the depth of indentation do not count.
    A file that does not parse counts with its bytes.
    """
    content = file.read_bytes()
    if file.suffix not in (".py", ".yaml"):
        return content
    with contextlib.suppress(SyntaxError, ValueError, yaml.YAMLError):
        return _meaning_of(content.decode("utf8"), file.suffix)
    return content


@cache
def _meaning_of(text: str, suffix: str) -> bytes:
    if suffix == ".yaml":
        scanner = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
        return "\n".join(map(repr, yaml.scan(text, scanner))).encode()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return ast.dump(tree).encode()


def _is_text(line: ast.stmt) -> bool:
    """Whether a statement is a string alone, as docstrings are, also those below a variable."""
    value = line.value if isinstance(line, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def hash_json(content: Mapping[str, Any]) -> str:
    """sha256 over the content of a JSON object, whatever its layout and the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def source_hash(also: Sequence[Path] = ()) -> str:
    """sha256 over names and contents of the .py and .yaml files of ``TRAINS``, sorted by name.

    also: files outside of the packages that belong to them, such as an encoding's.
    """
    return _with_files(source_digest(SRC), also)


def loaded_hash(also: Sequence[Path] = ()) -> str:
    """`source_hash` of the code that this process runs: of the packages at the first call.

    A process keeps the code that it has imported, whatever is edited meanwhile.
    """
    return _with_files(_first_digest(SRC), also)


def training_hash(also: Sequence[Path] = ()) -> str:
    """sha256 over what `rollpe_lab.training.run`, all that it imports and the files ``also`` mean.

    See `meaning`. Of the code that this process runs, as `loaded_hash`. A run under another value may train
    something else.
    """
    meant = (f"\0{path.name}\0{hashlib.sha256(meaning(path)).hexdigest()}" for path in also)
    return hashlib.sha256("".join([_first_meaning(SRC), *meant]).encode()).hexdigest()


def encoding_hash(files: Sequence[Path]) -> str | None:
    """sha256 over what the files outside of the packages mean that define an encoding; None without any."""
    return hashlib.sha256(b"\0".join(map(meaning, files))).hexdigest() if files else None


def _training_meaning(src: Path) -> str:
    return hash_files(module_files("rollpe_lab.training.run", src=src), src, meaning)


def source_digest(src: Path) -> Any:
    files = (f for name in TRAINS for f in (src / name).rglob("*") if f.suffix in (".py", ".yaml"))
    inside = {path.relative_to(src).as_posix(): path for path in files}
    digest = hashlib.sha256()
    for name, path in sorted(inside.items()):
        _add_file(digest, name, path)
    return digest


def _with_files(digest: Any, also: Sequence[Path]) -> str:
    whole = digest.copy()
    for path in also:
        _add_file(whole, path.name, path)
    return str(whole.hexdigest())


def _add_file(digest: Any, name: str, path: Path) -> None:
    content = path.read_bytes()
    digest.update(f"{name}\0{len(content)}\0".encode() + content)


_first_digest, _first_meaning = cache(source_digest), cache(_training_meaning)
