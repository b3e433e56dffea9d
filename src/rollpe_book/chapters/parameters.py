"""The parameters of a notebook and the values that they allow."""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import os
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

from rollpe.errors import InputError
from rollpe_book.chapters.source import find_source, read_source
from rollpe_lab.files import read_yaml
from rollpe_lab.sources import find_root

Value = int | float | bool | str
TRUE, FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


@dataclass(frozen=True)
class Parameter:
    """One line ``name: type = value  # help [allowed]`` of the cell tagged ``parameters``.

    ``allowed`` is the bracket that may end the help: ``[1..1000]`` (a bound may be left out),
    ``[2..256 step 2]`` (counted from the lower bound), ``{a|b|c}``, or names of the library:
    ``{encodings}``, ``{recipes}``, ``{nyquist}``, ``{device}``. With ``,...`` at its end, as in ``{a|b,...}``
    or ``{encodings,...}``, the value is a list of such names separated by commas. ``{options of encoding}``
    and ``{overrides of recipe}`` are pairs ``key=value`` for what the named parameter chooses. ``{folder}``
    exists, and ``{new folder}`` exists or can be made; both paths begin at the project's root.
    """

    name: str
    type: str
    default: Value
    help: str
    allowed: str = ""


def read_parameters(path: Path | str) -> list[Parameter]:
    """Read the parameters of a notebook; a notebook without a cell tagged ``parameters`` has none.

    A line of that cell that is not ``name: int|float|bool|str = literal`` is an InputError.
    """
    path = find_source(path)
    cells = [c for c in read_source(path).cells if "parameters" in c.metadata.get("tags", [])]
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
    known = {p.name: p for p in read_parameters(path)}
    values = {}
    for name, text in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}? " if near else ""
            takes = f"It takes: {', '.join(known)}." if known else "It takes none."
            raise InputError(f"{path} has no parameter {name!r}. {hint}{takes}")
        values[name] = _check_allowed(known[name], _convert(known[name], text), path)
    if values.keys() & _tried_out(known):
        _try_out({p.name: values.get(p.name, p.default) for p in known.values()}, known)
    return values


def _convert(parameter: Parameter, value: object) -> Value:
    text = str(value).strip()
    try:
        if parameter.type == "bool":
            if text.lower() not in TRUE | FALSE:
                raise ValueError
            return text.lower() in TRUE
        if parameter.type != "str" and not abs(float(text)) < 2**63:  # what torch takes as a seed
            raise ValueError
        return {"int": int, "float": float, "str": str}[parameter.type](text)
    except ValueError:
        expected = {"int": "a whole number below 2⁶³", "float": "a number", "bool": "true or false"}
        raise InputError(
            f"{parameter.name}={text!r}: expected {expected[parameter.type]}, "
            f"for example {parameter.default!r}."
        ) from None


def _check_allowed(parameter: Parameter, value: Value, path: Path) -> Value:
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
    elif allowed in ("folder", "new folder"):
        _check_folder(parameter, str(value), find_root(path))
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
    if step and (Fraction(str(value)) - Fraction(low or "0")) % Fraction(step):  # as written: 0.3 is 0.3
        raise InputError(
            f"{parameter.name}={value:g} is not allowed: it goes from {low or 0} in steps of {step} "
            f"({parameter.help})."
        )


def _check_folder(parameter: Parameter, name: str, root: Path) -> None:
    """Raise InputError unless the folder is there; of a new one, the folder in which it would be made."""
    there, new = root / name, parameter.allowed == "{new folder}"
    while new and not os.path.lexists(there):
        there = there.parent
    if not name or not os.path.isdir(there) or (new and not os.access(there, os.W_OK)):
        what = "is no folder that can be written to" if new else "is no folder"
        raise InputError(
            f"{parameter.name}={name!r}: {there} {what}. Name a folder by its path from the project's root, "
            f"for example {parameter.default}."
        )


def _check_name(parameter: str, allowed: str, name: str) -> None:
    """Raise InputError unless a name is one of ``a|b|c``, or in the library one of ``allowed``."""
    if allowed in ("encodings", "device", "recipes", "nyquist"):
        _library().expect(parameter, allowed, name)
    elif name not in (choices := [choice.strip() for choice in allowed.split("|")]):
        raise InputError(f"{parameter}={name!r} is not one of {', '.join(choices)}.")


def _tried_out(known: Mapping[str, Parameter]) -> set[str]:
    """Names of the parameters that decide which model is built; none for a notebook without overrides."""
    targets = {name: p.allowed[1:-1].partition(" of ")[2] for name, p in known.items()}
    names = {part for pair in targets.items() if pair[1] for part in pair}
    return names | (known.keys() & _library().RECIPE_KEYS) if names else set()


def _try_out(values: Mapping[str, Value], known: Mapping[str, Parameter]) -> None:
    """Build the model of these options and overrides without data or training; InputError if that fails."""
    requested = {}
    for name, parameter in known.items():
        what, _, of = parameter.allowed[1:-1].partition(" of ")
        if of:
            requested[what] = str(values[of]), _pairs(name, str(values[name]))
    recipe, overrides = requested.get("overrides", ("quick", {}))
    encoding, options = requested.get("options", ("none", {}))
    _library().build(recipe, values, overrides, encoding, options)


def _library() -> ModuleType:
    """The module that needs torch, which takes seconds to load; most parameters need none of it."""
    from rollpe_book.chapters import library  # noqa: PLC0415

    return library


def _pairs(name: str, text: str) -> dict[str, Any]:
    """ "a=1,b=[x,y]" → {"a": 1, "b": ["x", "y"]}."""
    with contextlib.suppress(InputError):
        pairs = read_yaml("{" + text.replace("=", ": ") + "}", name)
        if all(value is not None for value in pairs.values()):
            return pairs
    raise InputError(f"{name}={text!r}: expected key=value, and commas between several.")
