"""Run a notebook with checked parameters, stamp what it came from, refuse what is not whole.

The promise: a notebook under ``book/executed`` was run from top to bottom, with its default parameters, by
the sources that lie beside it. The promise breaks silently when a source changes and the notebook is not
run again (stale), when a shortened run is left in its place (reduced), when the kernel was never asked
(hollow), when a cell failed, or when the file is not there. So every run leaves a stamp in the notebook's
metadata, under ``rollpe``, and :func:`gate` compares it with what is on disk now.

The ``.py`` file is the source of a notebook; the ``.ipynb`` beside it is a copy without outputs for those
who work in Jupyter. Nothing here knows what a notebook computes, and nothing here builds the book.

A notebook may say in its header what it reads beside ``src/``::

    # jupyter:
    #   rollpe:
    #     after: [11-train]         # notebooks that must have run before
    #     reads: [data/records]     # files and folders whose change makes it stale
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from rollpe.errors import InputError
from rollpe.records import now, source_hash, write_atomically

Value = int | float | bool | str
PACKAGE = Path(__file__).resolve().parent
VERSIONS = ("torch", "timm", "numpy", "papermill", "ipykernel")
TRUE, FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


class NotebookFailed(InputError):
    """A cell raised or the kernel died: one line that says which cell, why, and where the rest lies."""


@dataclass(frozen=True)
class Parameter:
    """One line ``name: type = value  # help [allowed]`` of the cell tagged ``parameters``.

    ``allowed`` is the bracket that may end the help: ``[1..1000]`` (a bound may be left out),
    ``[2..256 step 2]`` (counted from the lower bound), ``{a|b|c}``, or what the library knows:
    ``{encodings}``, ``{recipes}``, ``{nyquist}``, ``{device}``. With ``,...`` at its end, as in ``{a|b,...}``
    or ``{encodings,...}``, the value is a list of such names separated by commas. ``{options of encoding}``
    and ``{overrides of recipe}`` are pairs ``key=value`` for what the named parameter chooses.
    """

    name: str
    type: str
    default: Value
    help: str
    allowed: str = ""


# ------------------------------------------------------------------------------------- where things are


def find_root(start: Path | str = ".") -> Path:
    """The project's root: the nearest folder upward that holds pyproject.toml.

    A folder without one above it is an InputError.
    """
    start = Path(start).resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise InputError(f"{start} is not inside the project: no folder above it holds pyproject.toml.")


def find_source(path: Path | str) -> Path:
    """The ``.py`` of a notebook, named by either file of its pair; a missing file is an InputError."""
    source = Path(path).with_suffix(".py")
    if not source.is_file():
        there = sorted(p.stem for p in source.parent.glob("*.py"))
        near = difflib.get_close_matches(source.stem, there, 1)
        hint = f"did you mean {source.parent / near[0]}.py?" if near else f"there are: {', '.join(there)}."
        raise InputError(f"{path}: no such notebook; {hint}")
    return source


def list_notebooks(root: Path) -> list[Path]:
    """The sources of all notebooks, in the order of their numbers."""
    return sorted((root / "notebooks").glob("*.py"))


# ---------------------------------------------------------------------------------------------- parameters


def parameters(path: Path | str) -> list[Parameter]:
    """Read the parameters of a notebook; a notebook without a cell tagged ``parameters`` has none.

    A line of that cell that is not ``name: int|float|bool|str = literal`` is an InputError.
    """
    path = find_source(path)
    cells = [c for c in _read(path).cells if "parameters" in c.metadata.get("tags", [])]
    return [p for cell in cells for p in _parse_parameters(path, cell.source)]


def _parse_parameters(path: Path, code: str) -> Iterator[Parameter]:
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.COMMENT
    }
    for statement in ast.parse(code).body:
        line = code.splitlines()[statement.lineno - 1].strip()
        try:
            assert isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
            kind = ast.unparse(statement.annotation)
            default = ast.literal_eval(statement.value)  # type: ignore[arg-type]
            assert kind in ("int", "float", "bool", "str") and _fits(default, kind)
        except (AssertionError, ValueError):
            raise InputError(
                f"{path}: the parameter line {line!r} is not 'name: type = value  # help' "
                "with a type int, float, bool or str and a value of that type."
            ) from None
        comment = comments.get(statement.lineno, "")
        match = re.search(r"\s*([\[{][^\[\]{}]*[\]}])$", comment)
        allowed = match.group(1) if match else ""
        yield Parameter(statement.target.id, kind, default, comment.removesuffix(allowed).strip(), allowed)


def _fits(value: object, kind: str) -> bool:
    """Whether a Python value has the named type; an int counts as a float, a bool never as a number."""
    types: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "bool": (bool,)}
    return isinstance(value, types.get(kind, (str,))) and (kind == "bool" or type(value) is not bool)


def check_parameters(path: Path | str, given: Mapping[str, object]) -> dict[str, Value]:
    """Turn ``{name: text}`` into typed values, each inside what its parameter allows.

    Values that already have the type pass as they are. An unknown name, a text that is not of the type
    and a value that is not allowed are InputErrors of one line. Nothing is run and nothing is written.
    """
    path = find_source(path)
    known = {p.name: p for p in parameters(path)}
    values = {}
    for name, text in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}? " if near else ""
            takes = f"It takes: {', '.join(known)}." if known else "It takes none."
            raise InputError(f"{path} has no parameter {name!r}. {hint}{takes}")
        values[name] = _check_allowed(known[name], _convert(known[name], text))
    if values.keys() & _tried_out(known):
        _try_out({p.name: values.get(p.name, p.default) for p in known.values()}, known)
    return values


def _convert(parameter: Parameter, value: object) -> Value:
    if not isinstance(value, str) and _fits(value, parameter.type):
        return float(value) if parameter.type == "float" else value  # type: ignore[arg-type,return-value]
    text = str(value).strip()
    try:
        if parameter.type == "bool":
            if text.lower() not in TRUE | FALSE:
                raise ValueError
            return text.lower() in TRUE
        return {"int": int, "float": float, "str": str}[parameter.type](text)
    except ValueError:
        expected = {"int": "a whole number", "float": "a number", "bool": "true or false"}
        raise InputError(
            f"{parameter.name}={text!r}: expected {expected[parameter.type]}, "
            f"for example {parameter.default!r}."
        ) from None


def _check_allowed(parameter: Parameter, value: Value) -> Value:
    allowed = parameter.allowed[1:-1]
    if parameter.allowed.startswith("["):
        _check_range(parameter, float(value))
    elif allowed.endswith(",..."):
        names = [name.strip() for name in str(value).split(",")]
        for name in names:
            _check_name(parameter.name, allowed.removesuffix(",..."), name)
        if len(set(names)) < len(names):
            raise InputError(f"{parameter.name}={value!r} names something twice.")
        return ",".join(names)
    elif allowed and " of " not in allowed:
        _check_name(parameter.name, allowed, str(value))
    return value


def _check_range(parameter: Parameter, value: float) -> None:
    bounds, _, step = parameter.allowed[1:-1].partition(" step ")
    low, _, high = (bound.strip() for bound in bounds.partition(".."))
    if (low and not value >= float(low)) or (high and not value <= float(high)):
        raise InputError(
            f"{parameter.name}={value:g} is not allowed: {parameter.help} must lie between "
            f"{low or 'minus infinity'} and {high or 'infinity'}."
        )
    if step and (value - float(low or 0)) % float(step):
        raise InputError(
            f"{parameter.name}={value:g} is not allowed: it goes from {low or 0} in steps of {step} "
            f"({parameter.help})."
        )


def _check_name(parameter: str, allowed: str, name: str) -> None:
    """Whether a name is one of ``a|b|c``, or one that the library knows under ``allowed``."""
    if allowed == "encodings":
        from rollpe.encodings import create_encoding

        create_encoding(name, head_dim=32, heads=1, axes=2, grid=(2, 2))
    elif allowed == "device":
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?|mps", name):
            raise InputError(f"{parameter}={name!r} is not one of auto, cpu, cuda, cuda:N, mps.")
        if name not in ("auto", "cpu"):
            from rollpe.training import choose_device

            choose_device(name)
    elif allowed == "recipes":
        known = sorted(p.stem for p in (PACKAGE / "recipes").glob("*.yaml"))
        if name not in known and not (name.endswith(".yaml") and Path(name).is_file()):
            raise InputError(
                f"{parameter}={name!r} is not a recipe: use one of {', '.join(known)} or a YAML file."
            )
    else:
        choices = _nyquist_treatments() if allowed == "nyquist" else tuple(allowed.split("|"))
        if name not in (choice.strip() for choice in choices):
            raise InputError(f"{parameter}={name!r} is not one of {', '.join(choices)}.")


def _tried_out(known: Mapping[str, Parameter]) -> set[str]:
    """Names of the parameters that decide what model is built; none where nothing is overridden."""
    asked = {name: p.allowed[1:-1].partition(" of ")[2] for name, p in known.items()}
    found = {part for pair in asked.items() if pair[1] for part in pair}
    if not found:
        return set()
    from rollpe.recipes import Recipe

    return found | (known.keys() & Recipe.model_fields.keys())


def _try_out(values: Mapping[str, Value], known: Mapping[str, Parameter]) -> None:
    """Build, without data or training, what options and overrides ask for; raises InputError if it cannot be.

    Other parameters that bear the name of a recipe's key replace that key, unless they are 0.
    """
    asked = {}
    for name, parameter in known.items():
        what, _, of = parameter.allowed[1:-1].partition(" of ")
        if of:
            asked[what] = str(values[of]), _pairs(name, str(values[name]))
    from rollpe.recipes import Recipe, load_recipe
    from rollpe.records import Cell
    from rollpe.training import create_model

    recipe, changes = asked.get("overrides", ("quick", {}))
    keys = {key: value for key, value in values.items() if key in Recipe.model_fields and value}
    settings = load_recipe(recipe, keys | changes)
    encoding, options = asked.get("options", ("none", {}))
    side, channels, classes = {"digits": (8, 1, 10), "cifar100": (32, 3, 100)}[settings.data]
    shape = {"image_size": (side, side), "channels": channels, "classes": classes}
    cell = Cell(recipe=settings.name, encoding=encoding, encoding_options=options, seed=0)
    create_model(settings, cell, shape)


def _pairs(name: str, text: str) -> dict[str, Any]:
    """ "a=1,b=[x,y]" → {"a": 1, "b": ["x", "y"]}."""
    try:
        found = yaml.safe_load("{" + text.replace("=", ": ") + "}")
        if all(isinstance(key, str) and value is not None for key, value in found.items()):
            return found
    except yaml.YAMLError:
        pass
    raise InputError(f"{name}={text!r}: expected key=value, and commas between several.")


def _nyquist_treatments() -> tuple[str, ...]:
    from rollpe import operators

    return tuple(operators.NYQUIST)


# --------------------------------------------------------------------------------- what a notebook came from


def imports(path: Path | str, package: Path = PACKAGE) -> list[Path]:
    """The files of the package that a notebook imports, directly or through another file.

    Read from the source text without running anything, so an import hidden in a string is not seen. To
    be safe, a sub-package counts with all its files. A ``.yaml`` beside a ``.py`` of the same name counts
    with it.
    """
    return _closure(_imported_names(Path(path), package), package)


def module_files(name: str, package: Path = PACKAGE) -> list[Path]:
    """The files of a module such as ``rollpe.equations`` and all that it imports from the package."""
    return _closure([name], package)


def _closure(names: Iterable[str], package: Path) -> list[Path]:
    found = {package / "__init__.py"}
    waiting = list(names)
    while waiting:
        new = set(_files_of(waiting.pop(), package)) - found
        found |= new
        waiting += [name for f in new if f.suffix == ".py" for name in _imported_names(f, package)]
    return sorted(found)


def _imported_names(file: Path, package: Path) -> Iterator[str]:
    here = file.relative_to(package.parent).parts if file.is_relative_to(package) else ()
    for level, base, name in _imports_in(file.read_text(encoding="utf8")):
        above = ".".join(here[: len(here) - level]) if level else ""
        yield ".".join(filter(None, [above, base, name]))


@cache
def _imports_in(code: str) -> list[tuple[int, str, str]]:
    """The import statements of a text, wherever they stand: (dots in front, module, name or "").

    Imports for type checkers alone are left out: nothing runs differently because of them.
    """
    code = re.sub(r"^(\s*)[%!].*$", r"\1pass", code, flags=re.MULTILINE)  # lines for Jupyter, not Python
    found = []
    waiting: list[ast.AST] = [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found += [(0, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.level, node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def _files_of(name: str, package: Path) -> Iterator[Path]:
    parts = name.split(".")
    if parts[0] != package.name:
        return
    for depth in range(2, len(parts) + 1):
        module = package.parent.joinpath(*parts[:depth])
        if module.with_suffix(".py").is_file():
            yield from (f for f in (module.with_suffix(".py"), module.with_suffix(".yaml")) if f.is_file())
        elif module.is_dir():
            yield from (f for f in module.rglob("*") if f.suffix in (".py", ".yaml"))


def hash_files(paths: Sequence[Path], root: Path) -> str:
    """sha256 over names (relative to root) and contents, in sorted order; folders count with all below."""
    files = {f for p in paths for f in (p.rglob("*") if p.is_dir() else [p]) if f.is_file()}
    digest = hashlib.sha256()
    for file in sorted(files):
        name = os.path.relpath(file, root).replace(os.sep, "/")
        digest.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def header(path: Path | str) -> dict[str, list[str]]:
    """What the notebook's header declares under ``rollpe``: ``{"after": [...], "reads": [...]}``."""
    lines = Path(path).read_text(encoding="utf8").splitlines()
    if not lines or lines[0].strip() != "# ---":
        return {"after": [], "reads": []}
    end = next(i for i, line in enumerate(lines[1:], 1) if line.strip() == "# ---")
    declared = yaml.safe_load("\n".join(line[2:] for line in lines[1:end])) or {}
    ours = declared.get("jupyter", {}).get("rollpe") or {}
    return {"after": list(ours.get("after", [])), "reads": list(ours.get("reads", []))}


def fingerprint(path: Path | str, root: Path, package: Path = PACKAGE) -> dict[str, Any]:
    """The part of the stamp that :func:`gate` compares: hashes of everything the outputs depend on."""
    path = Path(path)
    declared = header(path)
    return {
        "source": hash_files([path], root),
        "imports": hash_files(imports(path, package), package.parent),
        "lock": hash_files([root / "requirements.lock"], root),
        "reads": {name: hash_files([root / name], root) for name in declared["reads"]},
        "after": {
            name: read_stamp(root / "book/executed" / f"{name}.ipynb").get("date")
            for name in declared["after"]
        },
    }


def read_stamp(executed: Path | str) -> dict[str, Any]:
    """The stamp that :func:`run` left in an executed notebook; {} for anything else."""
    executed = Path(executed)
    if executed.suffix != ".ipynb" or not executed.is_file():
        return {}
    return json.loads(executed.read_text(encoding="utf8")).get("metadata", {}).get("rollpe", {})


def _device() -> str:
    """The accelerator's name, else the processor's, without importing torch."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        names = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
        if names.strip():
            return names.strip().splitlines()[0]
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()}, {os.cpu_count()} threads"
    import platform

    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} threads"


# --------------------------------------------------------------------------------------------------- run


def run(
    path: Path | str,
    values: Mapping[str, object] | None = None,
    output: Path | str | None = None,
    *,
    progress: bool | None = None,
) -> Path:
    """Run a notebook from a clean copy of its source and return the executed one.

    With the default parameters it goes to ``book/executed/NN-name.ipynb``; with other values to
    ``_build/runs/NN-name-<hash>/``, so that the book stays as it is. For the same reason a notebook that
    writes ``records`` below ``_build/`` then works on a copy of them in that folder, unless told where. The
    kernel starts in the project's root, so that a notebook finds ``data/``. A cell that fails raises
    NotebookFailed and leaves the previous output alone.
    """
    source = find_source(path).resolve()
    root = find_root(source)
    given = check_parameters(source, values or {})
    every = {p.name: p.default for p in parameters(source)}
    changed = {name: value for name, value in given.items() if value != every[name]}
    digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{source.stem}-{digest}" if changed else source.stem
    folder = root / "_build/runs" / name if changed else root / "book/executed"
    output = Path(output or folder / f"{source.stem}.ipynb").resolve()

    before = fingerprint(source, root)  # of what is run, even if somebody edits it meanwhile
    started = time.monotonic()
    own = _own_records(root, folder, every, given) if changed else {}
    notebook = _execute(source, root / "_build/failed" / f"{name}.ipynb", root, changed | own, progress)
    notebook.metadata["rollpe"] = {
        "notebook": source.relative_to(root).as_posix(),
        **before,
        "package": source_hash(),
        "parameters": every | given,
        "changed": changed,
        **({"records": own["records"]} if own else {}),
        "device": _device(),
        "seconds": round(time.monotonic() - started, 2),
        "date": now(),
        "versions": {"python": sys.version.split()[0], **_versions()},
    }
    write_atomically(output, (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode())
    return output


def _own_records(
    root: Path, folder: Path, every: Mapping[str, Value], given: Mapping[str, Value]
) -> dict[str, Value]:
    """``records`` for a rerun: a fresh copy, in its own folder, of those that the book's tables read."""
    shared = str(every.get("records", ""))
    if not shared.startswith("_build/") or "records" in given:
        return {}
    own = folder / "records"
    shutil.rmtree(own, ignore_errors=True)
    if (root / shared).is_dir():
        shutil.copytree(root / shared, own)
    return {"records": own.relative_to(root).as_posix()}


def _execute(
    source: Path, partial: Path, root: Path, changed: Mapping[str, Value], progress: bool | None
) -> Any:
    """The executed notebook. Papermill writes to ``partial``, which stays behind only if a cell fails."""
    import nbformat
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    clean = partial.with_suffix(".input.ipynb")
    clean.parent.mkdir(parents=True, exist_ok=True)
    notebook = _read(source)
    notebook.metadata.setdefault("kernelspec", _kernelspec())
    clean.write_text(nbformat.writes(notebook), encoding="utf8")
    try:
        with _environment(PYTHONPATH=_pythonpath(), PYDEVD_DISABLE_FILE_VALIDATION="1"):
            executed = papermill.execute_notebook(
                str(clean),
                str(partial),
                dict(changed),
                kernel_name="python3",
                cwd=str(root),
                progress_bar=sys.stderr.isatty() if progress is None else progress,
                extra_arguments=["--IPKernelApp.log_level=50"],  # its notices are no news
            )
    except papermill.PapermillExecutionError as error:
        reason = _first_line(error.ename, error.evalue)
        raise NotebookFailed(
            f"{source.relative_to(root)}: cell In [{error.exec_count}] stopped with {reason} "
            f"(what ran before it: {partial.relative_to(root)})"
        ) from None
    except (DeadKernelError, CellTimeoutError) as error:
        raise NotebookFailed(
            f"{source.relative_to(root)}: {str(error).splitlines()[0]} "
            f"(what ran before it: {partial.relative_to(root)})"
        ) from None
    finally:
        clean.unlink(missing_ok=True)
    partial.unlink(missing_ok=True)
    # Paths of this machine are no part of a result.
    executed.metadata["papermill"] = {k: executed.metadata.papermill.get(k) for k in ("version", "exception")}
    return executed


def _read(path: Path) -> Any:
    import jupytext

    return jupytext.read(path, fmt="py:percent")


def _kernelspec() -> dict[str, str]:
    return {"display_name": "Python 3", "language": "python", "name": "python3"}


def _pythonpath() -> str:
    """The kernel must import this very package, installed or not."""
    return os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _versions() -> dict[str, str]:
    versions = {}
    for name in VERSIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


# ----------------------------------------------------------------------------------------------- pairs


def sync(check: bool = False, root: Path | str = ".") -> list[Path]:
    """Make every ``.ipynb`` say what its ``.py`` says, without outputs; return those that differed.

    Contents are compared, never times: the ``.py`` is the source and wins. With ``check`` nothing is
    written. An ``.ipynb`` without a ``.py`` is always reported and never touched.
    """
    import nbformat

    root = find_root(root)
    differing = []
    for source in list_notebooks(root):
        pair = source.with_suffix(".ipynb")
        wanted = _pair_of(source)
        if pair.is_file() and _content(json.loads(pair.read_text(encoding="utf8"))) == _content(wanted):
            continue
        differing.append(pair)
        if not check:
            write_atomically(pair, (nbformat.writes(wanted) + "\n").encode())
    lone = [p for p in sorted((root / "notebooks").glob("*.ipynb")) if not p.with_suffix(".py").is_file()]
    return differing + lone


def _pair_of(source: Path) -> Any:
    notebook = _read(source)
    notebook.metadata.setdefault("kernelspec", _kernelspec())
    notebook.metadata.pop("jupytext", None)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"  # random ids would make every writing a change
    return notebook


def _content(notebook: Mapping[str, Any]) -> list[Any]:
    """What makes two notebooks equal: cells with their type, text and kept metadata; outputs count too."""
    cells = [
        (
            cell["cell_type"],
            "".join(cell["source"]),
            {k: v for k, v in cell.get("metadata", {}).items() if k in ("tags", "mystnb")},
            cell.get("outputs") or [],
            cell.get("execution_count"),
        )
        for cell in notebook["cells"]
    ]
    return [cells, notebook.get("metadata", {}).get("rollpe")]


# ------------------------------------------------------------------------------------------------ gate


def gate(root: Path | str = ".", package: Path = PACKAGE) -> list[str]:
    """Why the executed notebooks may not become the book; an empty list when they may."""
    root = find_root(root)
    folder = root / "book/executed"
    sources = list_notebooks(root)
    reasons = [reason for source in sources for reason in _refuse(source, folder, root, package)]
    orphans = sorted({p.stem for p in folder.glob("*.ipynb")} - {s.stem for s in sources})
    reasons += [f"book/executed/{name}.ipynb: notebooks/{name}.py is gone; delete it" for name in orphans]
    toc = root / "book/_toc.yml"
    listed = toc.read_text(encoding="utf8").split() if toc.is_file() else []
    pages = (f"executed/{source.stem}" for source in sources)
    reasons += [f"book/_toc.yml: does not list {page}" for page in pages if page not in listed]
    return reasons if sources else [*reasons, "notebooks/ holds no notebook."]


def _first_line(name: str, message: str) -> str:
    return f"{name}: {message}".strip(": \n").splitlines()[0]


def _refuse(source: Path, folder: Path, root: Path, package: Path) -> Iterator[str]:
    executed = folder / f"{source.stem}.ipynb"
    name = executed.relative_to(root)
    again = f"run: rollpe notebook {source.relative_to(root)}"
    if not executed.is_file():
        yield f"{name}: missing; {again}"
        return
    try:
        notebook = json.loads(executed.read_text(encoding="utf8"))
    except ValueError:
        yield f"{name}: damaged, not JSON; {again}"
        return
    stamp = read_stamp(executed)
    if "source" not in stamp:
        yield f"{name}: no stamp, so nobody knows what made it; {again}"
        return

    now = fingerprint(source, root, package)
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
    defaults = {p.name: p.default for p in parameters(source)}
    given = stamp.get("parameters", {})
    reduced = [f"{k}={given.get(k)!r} instead of {v!r}" for k, v in defaults.items() if given.get(k) != v]
    if reduced and not stale:
        yield f"{name}: reduced, it ran with {', '.join(reduced)}; {again}"

    shown = [c for c in notebook["cells"] if "injected-parameters" not in c["metadata"].get("tags", [])]
    if not stale and ["".join(c["source"]) for c in shown] != [c.source for c in _read(source).cells]:
        yield f"{name}: edited, its cells are not those of {source.relative_to(root)}; {again}"
    code = [c for c in notebook["cells"] if c["cell_type"] == "code" and "".join(c["source"]).strip()]
    outputs = [o for c in code for o in c.get("outputs", [])]
    failed = [o for o in outputs if o["output_type"] == "error"]
    if failed:
        yield f"{name}: failed, {_first_line(failed[0]['ename'], failed[0]['evalue'])}; {again}"
    elif not code or not outputs or any(c.get("execution_count") is None for c in code):
        yield f"{name}: hollow, it has code cells that never ran or left no output at all; {again}"
