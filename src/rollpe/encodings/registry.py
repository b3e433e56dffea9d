"""Encodings by name: registering, building and joining them, their options, and importing one's own.

``@register("its-name")`` makes a subclass of ``Encoding`` known. Its options are the keyword-only arguments
of its ``__init__`` before ``**shape``; their types are read off the annotations.
"""

from __future__ import annotations

import importlib.util
import inspect
import os.path
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from types import UnionType
from typing import Any, Literal, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints, overload

import torch
from torch import Tensor, nn

from rollpe.encodings.base import Encoding, Shape
from rollpe.errors import InputError, hint
from rollpe.names import ELSEWHERE, NAME, EncodingName, Options

ENCODINGS: dict[str, type[Encoding]] = {}
"""Every encoding by its public name, in the order of tables."""

_COMMON = {"self", *Shape.__annotations__}

Class = TypeVar("Class", bound=type[Encoding])


def list_encodings() -> list[str]:
    """The names that ``create_encoding`` takes, in the order of tables."""
    return list(ENCODINGS)


def register(name: str) -> Callable[[Class], Class]:
    """Class decorator: make an encoding available under its public name.

    A name of letters, digits, "-" and "_" belongs to one class; only a later version of that class may
    replace it. InputError otherwise, and for a class without ``acts_on``.
    """
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        raise InputError(
            f"encoding name {name!r} is not possible: use letters, digits, - and _, as in"
            " @register('my-own')."
        )

    def enter(encoding: Class) -> Class:
        if encoding.acts_on == "nothing" and name != "none":
            raise InputError(f'encoding {name!r} would do nothing: write acts_on = "tokens" or "scores".')
        taken = ENCODINGS.get(name, encoding)
        if (taken.__module__, taken.__qualname__) != (encoding.__module__, encoding.__qualname__):
            raise InputError(f"encoding name {name!r} belongs to {taken.__module__}.{taken.__qualname__}.")
        encoding.name = name
        ENCODINGS[name] = encoding
        return encoding

    return enter


_signature = cache(inspect.signature)  # asked for thousands of times by plans


def encoding_options(name: str) -> dict[str, Any]:
    """The options of an encoding with their defaults: ``encoding_options("roll")``.

    For ``"a+b"``, the options of both. An option that both have is given to each by its name: ``a.base``
    and ``b.base``.
    """
    return {
        key: _signature(ENCODINGS[part].__init__).parameters[option].default
        for key, (part, option) in _owners(name).items()
    }


def _owners(name: str) -> dict[str, tuple[str, str]]:
    """The options of an encoding, each with the part that takes it and its name there."""
    owners = [
        (part, option)
        for part in parts_of(name)
        for option, parameter in _signature(ENCODINGS[part].__init__).parameters.items()
        if option not in _COMMON and parameter.kind is not parameter.VAR_KEYWORD
    ]
    times = Counter(option for _, option in owners)
    return {option if times[option] == 1 else f"{part}.{option}": (part, option) for part, option in owners}


def parts_of(name: str) -> list[str]:
    """The encodings that a name joins: first the one of tokens, then the bias, then the rotation of scores.

    InputError for an unknown name, and for two of a kind.
    """
    taken: dict[str, str] = {}
    for part in name.split("+"):
        if part not in ENCODINGS:
            raise InputError(
                f"unknown encoding {part!r}.{_hint(part, ENCODINGS)} Choose from {', '.join(ENCODINGS)},"
                " or join one for tokens and one for scores, as in 'learned+roll'."
            )
        kinds = _kinds(part)
        if "+" in name and (kinds == ["nothing"] or taken.keys() & kinds):
            codes, biases = (
                ", ".join(part for part in ENCODINGS if _kinds(part) == [kind]) for kind in ("tokens", "bias")
            )
            raise InputError(
                f"encoding {name!r} does not combine: join one that acts on tokens ({codes}), one that adds a"
                f" bias to the scores ({biases}), and one other that acts on scores."
            )
        taken |= dict.fromkeys(kinds, part)
    return list(dict.fromkeys(taken[kind] for kind in _ORDER if kind in taken))


_ORDER = "nothing", "tokens", "bias", "scores"


def _kinds(part: str) -> list[str]:
    """What no other encoding does beside it; a bias that does not join takes the scores for itself."""
    joins = getattr(ENCODINGS[part], "joins", None)
    return [ENCODINGS[part].acts_on] if joins is None else ["bias"] if joins else ["bias", "scores"]


def split_name(name: str) -> tuple[str, str]:
    """Split a name into its token encoding and its encoding of scores; an absent one is ``"none"``.

    ``"roll"`` is ("none", "roll"), ``"learned+alibi+rope"`` is ("learned", "alibi+rope"). An unknown name or
    encodings that do not combine raise InputError.
    """
    parts = parts_of(name)
    if ENCODINGS[parts[0]].acts_on == "tokens":
        return parts[0], "+".join(parts[1:]) or "none"
    return "none", "+".join(parts)


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in the types that the encoding's ``__init__`` names: base=100 becomes 100.0, a list a tuple.

    Raises InputError for an unknown option and for a value of another type, NaN and infinity among them.
    """
    owners = _owners(name)
    checked = {}
    for option, value in options.items():
        if option not in owners:
            known = f"it takes {', '.join(owners)}" if owners else "it takes none"
            raise InputError(f"encoding {name!r} has no option {option!r}: {known}.{_hint(option, owners)}")
        part, own = owners[option]
        kind = get_type_hints(ENCODINGS[part].__init__).get(own, Any)
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        try:
            checked[option] = next(fitted for k in kinds if (fitted := _fitted(value, k)) is not _MISFIT)
        except StopIteration:
            allowed_types = " or ".join(_described(k) for k in kinds)
            raise InputError(f"encoding {name!r}: {option}={value!r} must be {allowed_types}.") from None
        numbers = checked[option] if isinstance(checked[option], tuple) else (checked[option],)
        if any(isinstance(number, int) and abs(number) > 10**6 for number in numbers):
            raise InputError(f"encoding {name!r}: {option}={value!r} is beyond a million. Lower it.")
    return checked


_MISFIT = object()
_KINDS = {
    bool: "true or false",
    int: "an integer",
    float: "a finite number",
    str: "a word",
    tuple[int, ...]: "a list of integers",
    tuple[float, ...]: "a list of finite numbers",
    type(None): "null",
    Tensor: "a tensor",
}


def _described(kind: Any) -> str:
    """An annotation in words."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    return "a function" if get_origin(kind) is Callable else _KINDS.get(kind, str(kind))


def _hint(name: str, known: Collection[str]) -> str:
    """What a name may mean here: its name in other libraries, or a misspelling."""
    here = ELSEWHERE.get(name.lower().replace("-", "_"))
    return f" Did you mean {here!r}?" if here in (*known, *_COMMON) else hint(name, known)


def _fitted(value: Any, kind: Any) -> Any:
    """The value in the type of an annotation, or ``_MISFIT``. True is no number; 1 is a float, 1.0 no int.

    An annotation that is neither in ``_KINDS`` nor a ``Literal`` takes any value.
    """
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else _MISFIT
    if get_origin(kind) is tuple:
        listed = value if isinstance(value, list | tuple) else [_MISFIT]
        fitted = tuple(_fitted(n, get_args(kind)[0]) for n in listed)
        return _MISFIT if _MISFIT in fitted else fitted
    if isinstance(value, bool) and kind in _KINDS:
        return value if kind is bool else _MISFIT
    if kind is float:
        finite = isinstance(value, int | float) and abs(value) <= sys.float_info.max
        return float(value) if finite else _MISFIT
    if kind in _KINDS:
        return value if isinstance(value, kind) else _MISFIT
    if get_origin(kind) is Callable:
        return value if callable(value) else _MISFIT
    return value


def changed_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Only the options that change the encoding, in one spelling, so that an encoding has one name.

    Omitted are options equal to their default and, for a default of None, equal to what the encoding makes of
    None for every width: speeds=[1, 2] of two waves.
    """
    defaults, owners = encoding_options(name), _owners(name)
    changed = {k: v for k, v in checked_options(name, options).items() if v != defaults[k]}
    for option in [k for k in changed if defaults[k] is None]:
        part, own = owners[option]
        rest = {owners[k][1]: v for k, v in changed.items() if owners[k][0] == part and k != option}
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            try:
                built = [
                    create_encoding(part, head_dim=d, heads=2, axes=2, grid=(2, 2), **rest) for d in (24, 48)
                ]
            except InputError:
                continue  # refused where it is built
        if all(getattr(e, own) == changed[option] for e in built):
            del changed[option]
    return {k: list(v) if isinstance(v, tuple) else v for k, v in changed.items()}


def split_options(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options for the token encoding and for the score encoding of a name, checked (``checked_options``)."""
    options, owners = checked_options(name, options), _owners(name)
    names = [{owner: key for key, owner in _owners(part).items()} for part in split_name(name)]
    codes, rest = ({own[owners[k]]: v for k, v in options.items() if owners[k] in own} for own in names)
    return codes, rest


@overload
def create_encoding(
    name: EncodingName,
    *,
    head_dim: int,
    heads: int,
    axes: int | None = None,
    grid: tuple[int, ...] | None = None,
    **options: Unpack[Options],
) -> Encoding: ...


@overload
def create_encoding(
    name: str,
    *,
    head_dim: int,
    heads: int,
    axes: int | None = None,
    grid: tuple[int, ...] | None = None,
    **options: Any,
) -> Encoding: ...


def create_encoding(
    name: str,
    *,
    head_dim: int | None = None,
    heads: int | None = None,
    axes: int | None = None,
    grid: tuple[int, ...] | None = None,
    **options: Any,
) -> Encoding:
    """Build an encoding by name.

    Args:
        name: one of ``list_encodings()``, or several joined by "+": a code of the tokens, a bias of the
            scores and one other encoding of scores.
        head_dim, heads, axes, grid: see ``Encoding``.
        options: the encoding's own, see ``encoding_options(name)``. One that both of two joined encodings
            have is given by part: ``**{"axial-rope.base": 100.0}``.

    Raises:
        InputError: unknown name or option, or a value that the encoding cannot use.
    """
    if head_dim is None or heads is None:
        meant = [f" Write {ELSEWHERE[option]}= for {option}=." for option in options if option in ELSEWHERE]
        raise InputError(f"encoding {name!r} needs head_dim= and heads=.{''.join(meant)}")
    if axes is None and grid is None:
        tables = [v for v in options.values() if isinstance(v, Tensor) and v.dim() > 1]
        axes = tables[0].shape[-1] if tables else min(ENCODINGS[part].usual_axes for part in parts_of(name))
    shape: Any = {"head_dim": head_dim, "heads": heads, "axes": axes, "grid": grid}
    options, owners = checked_options(name, options), _owners(name)
    return joined(
        *(
            ENCODINGS[part](**shape, **{owners[k][1]: v for k, v in options.items() if owners[k][0] == part})
            for part in parts_of(name)
        )
    )


def joined(*parts: Encoding) -> Encoding:
    """The last one, which also adds the others: a code to the tokens, a bias to the scores."""
    *others, encoding = parts
    for other in others:
        encoding.real_positions &= other.real_positions
        if other.acts_on == "tokens":
            encoding.token_code, encoding.acts_on, encoding.relative = other, "both", False
            encoding.register_load_state_dict_pre_hook(_renamed)
        else:
            encoding.score_bias, encoding.relative = other, encoding.relative and other.relative
    return encoding


def _renamed(encoding: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Read weights that were saved when ``token_code`` was ``on_tokens``."""
    for name in [name for name in state if name.startswith(f"{prefix}on_tokens.")]:
        state[f"{prefix}token_code.{name.removeprefix(f'{prefix}on_tokens.')}"] = state.pop(name)


def no_weight_decay(model: nn.Module) -> set[str]:
    """Full names of the parameters of all encodings in a model, which take no weight decay.

    timm's factory excludes only vectors by itself, and encoding parameters are matrices::

        timm.optim.param_groups_weight_decay(model, 0.05, no_weight_decay_list=no_weight_decay(model))
    """
    return {
        f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        if isinstance(module, Encoding)
        for name in module.no_weight_decay()
    }


def import_encodings(path: str | Path) -> None:
    """Run a Python file that registers encodings.

    Raises InputError if there is no such file, or if it registers a taken name, raises or exits;
    the message names the line.
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
    """The last line of the file in an error's traceback."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    return next(filter(None, reversed(lines)), 1)


def outside_files(encoding: str) -> list[Path]:
    """The files outside of this package that define an encoding, sorted; ``encoding`` may join two.

    A class defined in an interpreter has none.
    """
    files = set()
    for part in parts_of(encoding):
        if ENCODINGS[part].__module__.partition(".")[0] != "rollpe":
            try:
                files.add(Path(inspect.getfile(ENCODINGS[part])))
            except (TypeError, OSError):
                continue
    return sorted(files)
