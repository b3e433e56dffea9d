"""What a run is made of, apart from the encoding, the seed and the machine.

In here: the keys of a recipe with their limits, and how one is read from YAML and changed. The
recipes themselves are the .yaml files beside this one. Not in here: what training does with them.
"""

from __future__ import annotations

import difflib
import os.path
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rollpe.augment import Augmentation
from rollpe.errors import InputError
from rollpe.records import HOW, RecipeName, flatten, slug

FOLDER = Path(__file__).parent

LONGEST = 2**16
"""Bytes of a YAML file; the longest plan has a tenth of that."""
DEEPEST = 20
"""Levels of lists and mappings, one in another."""

PATCHES = 64
"""In a row of an image: attention looks from each of their square to each."""
WEIGHTS = 10**9 // 12
"""Of depth × width²: a block has twelve times the square of its width."""
OPERATIONS = 100
"""Of RandAugment on one image, one after another."""


class Recipe(BaseModel):
    """Everything that a run is made of, except the encoding, the seed and the machine.

    Each description says what is allowed and what it is; the error for a bad value quotes it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    name: RecipeName = Field(description="letters, digits and _.-~%@=,+: the folder of its records")
    data: Literal["digits", "cifar100"] = Field(description="digits or cifar100")
    held_out: int | None = Field(
        None, ge=0, description="null (the data set's own) or an integer ≥ 0: images held out"
    )
    train_images: int | None = Field(
        None, gt=0, description="null (all) or an integer ≥ 1: train on the first so many images"
    )

    size: Literal["nano", "tiny", "small", "base"] = Field(
        description="nano, tiny, small or base: width, depth and heads"
    )
    patch_size: int = Field(gt=0, le=1024, description="an integer ≥ 1, at most 1,024, in pixels")
    depth: int | None = Field(
        None, gt=0, le=256, description="null (from size) or an integer ≥ 1, at most 256: blocks"
    )
    width: int | None = Field(
        None,
        gt=0,
        le=8192,
        description="null (from size) or an integer ≥ 1, at most 8,192: channels of a token",
    )
    heads: int | None = Field(
        None, gt=0, le=1024, description="null (from size) or an integer ≥ 1, at most 1,024"
    )
    pool: Literal["token", "avg"] = Field("token", description="token (the class token) or avg")
    layer_scale: float | None = Field(
        None, gt=0, description="null (none) or a number > 0: its initial value"
    )
    qkv_bias: bool = Field(True, description="true or false: biases on queries, keys and values")
    dropout: float = Field(0.0, ge=0, lt=1, description="a number from 0 to below 1")
    drop_path: float = Field(0.0, ge=0, lt=1, description="a number from 0 to below 1")

    epochs: int = Field(
        gt=0, le=10**6, description="an integer ≥ 1, at most a million: passes over the training images"
    )
    max_steps: int | None = Field(None, gt=0, description="null or an integer ≥ 1: stop after so many steps")
    batch_size: int = Field(gt=0, le=10**5, description="an integer ≥ 1, at most 100,000: images per step")
    optimizer: Literal["adamw", "lamb", "muon", "sgd"] = Field(description="adamw, lamb, muon or sgd")
    learning_rate: float = Field(gt=0, description="a number > 0: the highest learning rate")
    final_learning_rate: float = Field(0.0, ge=0, description="a number ≥ 0: where the schedule ends")
    schedule: Literal["cosine"] = Field("cosine", description="cosine")
    warmup_epochs: float = Field(0.0, ge=0, description="a number from 0 to epochs")
    weight_decay: float = Field(0.0, ge=0, description="a number ≥ 0")
    momentum: float = Field(0.9, ge=0, lt=1, description="a number from 0 to below 1: sgd and muon")
    betas: list[float] = Field(
        [0.9, 0.999],
        min_length=2,
        max_length=2,
        description="two numbers from 0 to below 1: adamw, lamb, and the vectors under muon",
    )
    gradient_clip: float | None = Field(
        None, gt=0, description="null (none) or a number > 0: largest norm of the gradient"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="a number from 0 to below 1")
    ema: float | None = Field(
        None, gt=0, lt=1, description="null (none) or a number between 0 and 1: decay per step"
    )
    augmentation: Augmentation = Field(
        Augmentation(), description=f"a mapping with {', '.join(Augmentation.model_fields)}"
    )

    topography: Literal["none", "ring", "sheet", "tdann"] = Field(
        "none", description="none, ring, sheet or tdann: order asked of queries and keys; trains uncompiled"
    )
    topography_weight: float = Field(0.1, ge=0, description="a number ≥ 0: weight of that loss")

    precision: Literal["auto", "float32", "bfloat16", "bfloat16-weights"] = Field(
        "auto",
        description="auto (bfloat16 on CUDA), float32, bfloat16 (in products) or bfloat16-weights (but for "
        "the optimizer's copy of the weights)",
    )
    compile: bool | Literal["auto", "default", "max-autotune"] = Field(
        "auto",
        description="auto (on CUDA if it works), true, false, default (without CUDA graphs) or max-autotune "
        "(times kernels: slow to begin)",
    )
    attention: Literal["auto", "flash", "cudnn", "efficient", "math"] = Field(
        "auto", description="auto (torch chooses), flash, cudnn, efficient or math: the kernel of attention"
    )
    score_every: int = Field(
        1, gt=0, description="an integer ≥ 1: epochs from one scoring of the held-out images to the next"
    )
    resolutions: list[Annotated[int, Field(gt=0, le=1024)]] = Field(
        [], description="a list of image sizes, 1 to 1,024 pixels, each a multiple of patch_size"
    )
    shifts: list[Annotated[int, Field(ge=-1024, le=1024)]] = Field(
        [], description="a list of whole pixels to move the test images by, at most 1,024"
    )

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.warmup_epochs > self.epochs:
            raise ValueError(
                f"warmup_epochs={self.warmup_epochs:g} is longer than epochs={self.epochs}. "
                "Lower it or raise epochs."
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas}: allowed are two numbers from 0 to below 1.")
        for size in self.resolutions:
            if size % self.patch_size:
                raise ValueError(
                    f"resolutions={self.resolutions}: {size} is no positive multiple of "
                    f"patch_size={self.patch_size}. Change one of them."
                )
            if size // self.patch_size > PATCHES:
                raise ValueError(
                    f"resolutions={self.resolutions}: {size} is more than {PATCHES} patches of "
                    f"patch_size={self.patch_size} in a row. Lower it."
                )
        if (self.depth or 1) * (self.width or 1) ** 2 > WEIGHTS:
            raise ValueError(
                f"depth={self.depth}, width={self.width}: such a model has more than a billion weights. "
                "Lower one of them."
            )
        if self.augmentation.rand_augment[0] > OPERATIONS:
            raise ValueError(
                f"augmentation.rand_augment={list(self.augmentation.rand_augment)}: allowed are at most "
                f"{OPERATIONS} operations."
            )
        if self.augmentation.crop_padding > 1024:
            raise ValueError(
                f"augmentation.crop_padding={self.augmentation.crop_padding}: allowed is an integer "
                "from 0 to 1024."
            )
        return self


def recipes() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_recipe(name_or_path: str | Path = "quick", overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe by its name, or from a .yaml file, and change some of its keys.

    overrides: key → value; a dot reaches into a mapping ("augmentation.mixup"); text is read as a
        YAML scalar, so "5", "null" and "[0.9, 0.95]" mean what they mean in the file.

    A recipe that was changed gets a name of its own, "quick@epochs=5": its records never mix with
    those of the recipe it came from. The keys `rollpe.records.HOW` change no name.

    Raises InputError for an unknown recipe, an unknown key, or a value out of range.
    """
    path = Path(name_or_path)
    if str(name_or_path) in recipes():
        path = FOLDER / f"{name_or_path}.yaml"
    elif path.suffix not in (".yaml", ".yml") or not os.path.isfile(path):
        raise InputError(
            f"recipe {str(name_or_path)!r} is unknown{_did_you_mean(str(name_or_path), recipes())}. "
            f"Allowed: {', '.join(recipes())}, or the path of a .yaml file."
        )
    values = read_yaml_file(path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: a recipe is a mapping of keys to values. Write key: value lines.")
    values.setdefault("name", path.stem)
    original = _recipe(values)
    for key, value in (overrides or {}).items():
        *outer, last = key.split(".")
        level = values
        for part in outer:
            level = level.setdefault(part, {})
            if not isinstance(level, dict):
                raise InputError(f"{key}: {part} holds a single value. Set {part} itself.")
        level[last] = read_yaml(value, key) if isinstance(value, str) else value
    changed = _recipe(values)
    if changed.name == original.name:
        changed = changed.model_copy(update={"name": name_of(original, changed)})
    return changed


def changes(original: Recipe, changed: Recipe) -> dict[str, Any]:
    """The keys in which a recipe differs from another, as `--set` spells them, and their values."""
    before, after = flatten(original.model_dump()), flatten(changed.model_dump())
    return {key: value for key, value in after.items() if before[key] != value}


def name_of(original: Recipe, changed: Recipe) -> str:
    """The name that a recipe gets which was made from another."""
    told = {key: value for key, value in changes(original, changed).items() if key not in HOW | {"name"}}
    return slug(original.name, told)


def read_yaml_file(path: Path) -> Any:
    """The YAML of a file. Raises InputError for what is no regular file, no UTF-8, too long or no YAML."""
    if not os.path.isfile(path):
        what = "not a file" if os.path.lexists(path) else "no such file"
        raise InputError(f"{path}: {what}. Name a YAML file.")
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
        return read_yaml(content.decode("utf-8-sig"), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Name another file.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not text in UTF-8. Save it anew in that encoding.") from None


def read_yaml(text: str, place: str) -> Any:
    """YAML text, found at ``place``, as plain Python values. Raises InputError for other text.

    Refused, before anything is built: aliases, tags, keys that are no words or come twice, nesting beyond
    `DEEPEST`, text beyond `LONGEST`. Numbers are decimal: 1e-3 is one, 1:30 and 1_000 are text.
    """
    if len(text) > LONGEST:
        raise InputError(f"{place}: longer than {LONGEST} bytes. Shorten it.")
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        reason = f"{error.problem}{line}"
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number of thousands of digits
        reason = " ".join(str(error).split())
    raise InputError(f"{place}: not YAML ({reason}). Write a plain value or a list.")


class _Loader(yaml.SafeLoader):
    """YAML of plain values alone; see `read_yaml`."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _refusal("aliases are not read here: write the value again", event)
        if getattr(event, "tag", None) not in (None, "!"):
            raise _refusal(f"tags are not read here: leave out {event.tag}", event)
        if self.depth >= DEEPEST:
            raise _refusal(f"more than {DEEPEST} levels", event)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != self.DEFAULT_SCALAR_TAG:
                raise _refusal("a key that is no word", key)
            if key.value in seen:
                raise _refusal(f"the key {key.value!r} comes twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _refusal(reason: str, at: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, reason, at.start_mark)


_Loader.yaml_implicit_resolvers = {}  # none of YAML 1.1's, but these:
for _kind, _written, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"(?i:true|false|yes|no|on|off)", list("tTfFyYnNoO")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(?i:inf|nan)", list("-+.")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"(?:{_written})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))


def _recipe(values: dict[str, Any]) -> Recipe:
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise InputError(_line(error.errors()[0])) from None


def _line(error: Any) -> str:
    """One of pydantic's errors as one line: key=value, what is allowed."""
    *outer, key = [str(part) for part in error["loc"]] or [""]
    if outer and outer[0] != "augmentation" and not key.isdigit():  # which of several kinds was tried last
        outer, key = [], outer[0]
    fields = (Augmentation if outer[:1] == ["augmentation"] else Recipe).model_fields
    place, value = ".".join((*outer, key)), textwrap.shorten(repr(error["input"]), 200, placeholder=" …")
    if error["type"] == "extra_forbidden":
        allowed = ", ".join(fields)
        return f"recipe key {place!r} is unknown{_did_you_mean(key, fields)}. Allowed: {allowed}."
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    allowed = Recipe.model_fields[outer[0] if outer else key].description or ""
    if outer[:1] == ["augmentation"]:
        allowed = error["msg"][0].lower() + error["msg"][1:]
    if error["type"] == "missing":
        return f"recipe key {place!r} is missing: allowed is {allowed}."
    return f"recipe key {place}={value}: allowed is {allowed}."


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
