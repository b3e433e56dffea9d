"""The parameters of a notebook and the values that they allow."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

from rollpe.errors import InputError, hint
from rollpe_book.chapters.source import find_source, read_source
from rollpe_lab.hashes import find_root

Value = int | float | bool | str
TYPES: dict[str, type[Value]] = {"int": int, "float": float, "bool": bool, "str": str}
EXPECTED = {"int": "an integer below 2⁶³", "float": "a number", "bool": "true or false"}
TRUE, FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}
LINE = re.compile(
    r"(?P<name>\w+): (?P<type>\w+) = (?P<default>.+?)"
    r"(?:  # (?P<help>.*?)\s*(?P<allowed>\[[^\[\]]*\]|\{[^{}]*\})?)?"
)


@dataclass(frozen=True)
class Parameter:
    """One line ``name: type = value  # help [allowed]`` of the cell tagged ``parameters``.

    ``allowed`` is the bracket that may end the help: ``[1..1000]`` (a bound may be left out),
    ``[2..256 step 2]`` (counted from the lower bound), ``{a|b|c}``, or names of the library:
    ``{encodings}``, ``{recipes}``, ``{nyquist}``, ``{device}``. With ``,...`` at its end, as in ``{a|b,...}``
    or ``{encodings,...}``, the value is a list of such names separated by commas.
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
    lines = [line for cell in cells for line in cell.source.splitlines() if line and not line.startswith("#")]
    return [_parse(path, line) for line in lines]


def _parse(path: Path, line: str) -> Parameter:
    """The parameter of one line. Papermill's own inspection skips a line with a second equals sign."""
    match = LINE.fullmatch(line)
    with contextlib.suppress(ValueError, SyntaxError):
        default = ast.literal_eval(match["default"] if match else "")
        if match and type(default) is TYPES.get(match["type"]):
            return Parameter(
                match["name"], match["type"], default, match["help"] or "", match["allowed"] or ""
            )
    raise InputError(
        f"{path}: the parameter line {line!r} is not 'name: type = value  # help' "
        "with a type int, float, bool or str and a value of that type."
    )


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
            takes = f"It takes: {', '.join(known) or 'none'}."
            raise InputError(f"{path} has no parameter {name!r}.{hint(name, known)} {takes}")
        values[name] = _check_allowed(known[name], _convert(known[name], str(text).strip()))
    return values


def begin(names: Mapping[str, Any]) -> None:
    """The first line of a chapter, ``begin(globals())``: go to the project's root and check the parameters.

    Jupyter starts beside the chapter's file; outside of a project nothing changes. Plain papermill passes on
    what it is given; a value that the parameter's line does not allow stops here.
    """
    with contextlib.suppress(InputError):
        os.chdir(find_root())
    for line in "\n".join(names.get("In", ())).splitlines():
        if (match := LINE.fullmatch(line)) and match["name"] in names:
            parameter = _parse(Path("parameters"), line)
            _check_allowed(parameter, _convert(parameter, str(names[parameter.name]).strip()))


def _convert(parameter: Parameter, text: str) -> Value:
    try:
        if parameter.type == "bool":
            return {word: word in TRUE for word in TRUE | FALSE}[text.lower()]
        if parameter.type != "str" and not abs(float(text)) < 2**63:  # what torch takes as a seed
            raise ValueError
        return TYPES[parameter.type](text)
    except (KeyError, ValueError):
        expected = f"expected {EXPECTED[parameter.type]}, for example {parameter.default!r}"
        raise InputError(f"{parameter.name}={text!r}: {expected}.") from None


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
    elif allowed:
        _check_name(parameter.name, allowed, str(value))
    return value


def _check_range(parameter: Parameter, value: float) -> None:
    bounds, _, step = parameter.allowed[1:-1].partition(" step ")
    low, _, high = bounds.partition("..")
    refused = f"{parameter.name}={value:g} is not allowed: {parameter.help} must"
    if not float(low or "-inf") <= value <= float(high or "inf"):
        raise InputError(f"{refused} lie between {low or 'minus infinity'} and {high or 'infinity'}.")
    if step and (Fraction(str(value)) - Fraction(low or "0")) % Fraction(step):  # as written: 0.3 is 0.3
        raise InputError(f"{refused} go from {low or 0} in steps of {step}.")


def _check_name(parameter: str, allowed: str, name: str) -> None:
    """Raise InputError unless a name is one of ``a|b|c``, or in the library one of ``allowed``."""
    if allowed in ("encodings", "device", "recipes"):
        _library().expect(allowed, name)
        return
    choices = _library().NYQUIST if allowed == "nyquist" else allowed.split("|")
    if name not in choices:
        raise InputError(f"{parameter}={name!r} is not one of {', '.join(choices)}.")


def _library() -> ModuleType:
    """The module that needs torch, which takes seconds to load; most parameters need none of it."""
    from rollpe_book.chapters import library  # noqa: PLC0415

    return library
