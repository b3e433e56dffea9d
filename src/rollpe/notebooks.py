"""Run a notebook with checked parameters, stamp what it came from, refuse what is not whole.

The promise: a notebook under ``book/executed`` was run from top to bottom, with its default parameters, by
the sources that lie beside it. The promise breaks silently when a source changes and the notebook is not
run again (stale), when a shortened run is left in its place (reduced), when the kernel was never asked
(hollow) or ran without asserts (unchecked), when a cell failed, when somebody wrote into the file afterwards
(edited), or when it is not there. So every run leaves a stamp in the notebook's metadata, under ``rollpe``,
and :func:`gate` compares it with what is on disk now.

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
import importlib
import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from rollpe.errors import InputError
from rollpe.records import now, source_hash, write_atomically
from rollpe.sources import PACKAGE, find_root, hash_files, hash_json, imports, module_files

Value = int | float | bool | str
WITNESS = """\
import sys
torch = sys.modules.get("torch")
{"threads": torch and torch.get_num_threads(), "optimize": sys.flags.optimize}"""
"""What the kernel itself is asked when all cells have run."""
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


def find_source(path: Path | str) -> Path:
    """The ``.py`` of a notebook, named by either file of its pair; a missing file is an InputError."""
    if not Path(path).name:
        raise InputError(f"{path}: no notebook; name one, for example notebooks/11-train.py.")
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
            name, kind, default = _parts(statement)
        except ValueError:
            raise InputError(
                f"{path}: the parameter line {line!r} is not 'name: type = value  # help' "
                "with a type int, float, bool or str and a value of that type."
            ) from None
        comment = comments.get(statement.lineno, "")
        match = re.search(r"\s*([\[{][^\[\]{}]*[\]}])$", comment)
        allowed = match.group(1) if match else ""
        yield Parameter(name, kind, default, comment.removesuffix(allowed).strip(), allowed)


def _parts(statement: ast.stmt) -> tuple[str, str, Value]:
    """Name, type and default of a statement ``name: type = default``; any other is a ValueError."""
    if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
        raise ValueError("no annotated name")
    kind, default = ast.unparse(statement.annotation), ast.literal_eval(statement.value or "")
    if kind not in ("int", "float", "bool", "str") or not _fits(default, kind):
        raise ValueError("another type")
    return statement.target.id, kind, default


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
    from rollpe.recipes import read_yaml

    with contextlib.suppress(InputError):
        found = read_yaml("{" + text.replace("=", ": ") + "}", name)
        if all(value is not None for value in found.values()):
            return found
    raise InputError(f"{name}={text!r}: expected key=value, and commas between several.")


def _nyquist_treatments() -> tuple[str, ...]:
    from rollpe import operators

    return tuple(operators.NYQUIST)


# --------------------------------------------------------------------------------- what a notebook came from


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
    with contextlib.suppress(ValueError):
        return _stamp_in(json.loads(executed.read_text(encoding="utf8")))
    return {}


def _stamp_in(notebook: Any) -> dict[str, Any]:
    about = notebook.get("metadata") if isinstance(notebook, dict) else None
    stamp = about.get("rollpe") if isinstance(about, dict) else None
    return stamp if isinstance(stamp, dict) else {}


def stamp_digest(notebook: Mapping[str, Any]) -> str:
    """sha256 over a whole executed notebook, cells, outputs and stamp, but for this digest in the stamp."""
    about = notebook["metadata"]
    stamp = {key: value for key, value in about["rollpe"].items() if key != "digest"}
    return hash_json({**notebook, "metadata": {**about, "rollpe": stamp}})


def _device(threads: int | None) -> str:
    """The accelerator's name, else the processor's with the threads that torch used, if it was imported."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        names = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
        if names.strip():
            return names.strip().splitlines()[0]
    used = f", {threads} thread{'s' * (threads > 1)}" if threads else ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip() + used
    import platform

    return (platform.processor() or platform.machine()) + used


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
    if output.exists() and not output.is_file():
        raise InputError(f"{output} is no regular file and is not written over: name another --output.")

    before = fingerprint(source, root)  # of what is run, even if somebody edits it meanwhile
    started = time.monotonic()
    own = _own_records(root, folder, every, given) if changed else {}
    partial = root / "_build/failed" / f"{name}.ipynb"
    notebook, kernel = _execute(source, partial, root, changed | own, progress)
    notebook.metadata["rollpe"] = {
        "notebook": source.relative_to(root).as_posix(),
        **before,
        "package": source_hash(),
        "parameters": every | given,
        "changed": changed,
        **({"records": own["records"]} if own else {}),
        "device": _device(kernel["threads"]),
        "optimize": kernel["optimize"],
        "seconds": round(time.monotonic() - started, 2),
        "date": now(),
        "versions": {"python": sys.version.split()[0], **_versions()},
    }
    notebook.metadata["rollpe"]["digest"] = stamp_digest(notebook)
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
) -> tuple[Any, dict[str, Any]]:
    """The executed notebook and what its kernel says of itself.

    Papermill writes to ``partial``, which stays behind only if a cell fails. Asserts are on, whatever the
    environment says.
    """
    nbformat, papermill, client = map(_extra, ("nbformat", "papermill", "nbclient.exceptions"))
    logging.getLogger("papermill").setLevel(logging.ERROR)  # it warns of parameters that are checked here

    clean = partial.with_suffix(".input.ipynb")
    clean.parent.mkdir(parents=True, exist_ok=True)
    notebook = _read(source)
    notebook.metadata.setdefault("kernelspec", _kernelspec())
    notebook.cells.append(nbformat.v4.new_code_cell(WITNESS))
    clean.write_text(nbformat.writes(notebook), encoding="utf8")
    try:
        settings = {"PYTHONPATH": _pythonpath(), "PYTHONOPTIMIZE": "", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        with _environment(**settings):
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
    except (client.DeadKernelError, client.CellTimeoutError) as error:
        raise NotebookFailed(
            f"{source.relative_to(root)}: {str(error).splitlines()[0]} "
            f"(what ran before it: {partial.relative_to(root)})"
        ) from None
    finally:
        clean.unlink(missing_ok=True)
    partial.unlink(missing_ok=True)
    # Paths of this machine are no part of a result.
    executed.metadata["papermill"] = {k: executed.metadata.papermill.get(k) for k in ("version", "exception")}
    answer = executed.cells.pop().outputs[-1]["data"]["text/plain"]
    return executed, ast.literal_eval(answer)


def _read(path: Path) -> Any:
    return _extra("jupytext").read(path, fmt="py:percent")


def _extra(name: str) -> Any:
    """A module that only the extra "notebooks" brings."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed, which notebooks need. Repair: pip install -e '.[notebooks]'."
        ) from None


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
    nbformat = _extra("nbformat")
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
    """Why executed notebooks, their pairs and the report of the equations may not become the book; or [].

    The digest in a stamp binds cells, outputs and the stamp itself, that in the report every error. It is no
    signature: who edits a file and computes its digest anew passes, and so does a run whose clock or kernel
    lies, or that reads forged data (workflow/committed.py looks at records). These only another run finds.
    """
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
    reasons += _refuse_report(root / "_build/equations.json", root, package)
    offered = (pair.relative_to(root) for pair in sync(check=True, root=root) if pair.is_file())
    reasons += [
        f"{pair}: is no copy of its .py, and readers get it; run: rollpe notebook --sync" for pair in offered
    ]
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
    stamp = _stamp_in(notebook)
    if "digest" not in stamp:
        yield f"{name}: no stamp, so nobody knows what made it; {again}"
        return
    if stamp["digest"] != stamp_digest(notebook):
        yield f"{name}: edited, it is not what its run left; {again}"
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
    if stamp.get("optimize") != 0:
        yield f"{name}: unchecked, it ran with asserts switched off; {again}"

    # A run with default parameters has no injected cell, so none is left out here.
    if not (stale or reduced) and _cells(notebook) != _cells(_read(source)):
        yield f"{name}: edited, its cells are not those of {source.relative_to(root)}; {again}"
    code = [c for c in notebook["cells"] if c["cell_type"] == "code" and "".join(c["source"]).strip()]
    outputs = [o for c in code for o in c.get("outputs", [])]
    failed = [o for o in outputs if o["output_type"] == "error"]
    if failed:
        yield f"{name}: failed, {_first_line(failed[0]['ename'], failed[0]['evalue'])}; {again}"
    elif not code or not outputs or any(c.get("execution_count") is None for c in code):
        yield f"{name}: hollow, it has code cells that never ran or left no output at all; {again}"


def _cells(notebook: Mapping[str, Any]) -> list[tuple[str, str, list[str], Any]]:
    """Type, text, tags and figure or table of every cell: what an author wrote."""
    return [
        (
            cell["cell_type"],
            "".join(cell["source"]),
            cell["metadata"].get("tags", []),
            cell["metadata"].get("mystnb"),
        )
        for cell in notebook["cells"]
    ]


def _refuse_report(path: Path, root: Path, package: Path) -> Iterator[str]:
    """Why a report of the equations' checks may not be shown; one that is missing the book itself misses."""
    if not path.is_file():
        return
    name = path.relative_to(root)
    again = f"run: rollpe equations --json {name}"
    try:
        report = json.loads(path.read_text(encoding="utf8"))
    except ValueError:
        report = None
    if not isinstance(report, dict) or "digest" not in report:
        yield f"{name}: damaged, no report of checks; {again}"
    elif report.pop("digest") != hash_json(report):
        yield f"{name}: edited, it is not what the checks left; {again}"
    elif report.get("source_hash") != hash_files(module_files("rollpe.equations", package), package.parent):
        yield f"{name}: stale, the equations or what they check changed since; {again}"
