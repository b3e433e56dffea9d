"""What a run is made of, apart from the encoding, the seed and the machine.

In here: the keys of a recipe with their limits, and how one is read from YAML and changed. The
recipes themselves are the .yaml files beside this one. Not in here: what training does with them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rollpe.augment import Augmentation
from rollpe.errors import InputError
from rollpe.records import HOW, RecipeName, flatten, slug

FOLDER = Path(__file__).parent


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
    patch_size: int = Field(gt=0, description="an integer ≥ 1, in pixels")
    depth: int | None = Field(None, gt=0, description="null (from size) or an integer ≥ 1: blocks")
    width: int | None = Field(
        None, gt=0, description="null (from size) or an integer ≥ 1: channels of a token"
    )
    heads: int | None = Field(None, gt=0, description="null (from size) or an integer ≥ 1")
    pool: Literal["token", "avg"] = Field("token", description="token (the class token) or avg")
    layer_scale: float | None = Field(
        None, gt=0, description="null (none) or a number > 0: its initial value"
    )
    qkv_bias: bool = Field(True, description="true or false: biases on queries, keys and values")
    dropout: float = Field(0.0, ge=0, lt=1, description="a number from 0 to below 1")
    drop_path: float = Field(0.0, ge=0, lt=1, description="a number from 0 to below 1")

    epochs: int = Field(gt=0, description="an integer ≥ 1: passes over the training images")
    max_steps: int | None = Field(None, gt=0, description="null or an integer ≥ 1: stop after so many steps")
    batch_size: int = Field(gt=0, description="an integer ≥ 1: images per step")
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
    resolutions: list[int] = Field(
        [], description="a list of image sizes in pixels, each a multiple of patch_size"
    )
    shifts: list[int] = Field([], description="a list of whole pixels to move the test images by")

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
            if size <= 0 or size % self.patch_size:
                raise ValueError(
                    f"resolutions={self.resolutions}: {size} is no positive multiple of "
                    f"patch_size={self.patch_size}. Change one of them."
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
    elif path.suffix not in (".yaml", ".yml") or not path.is_file():
        raise InputError(
            f"recipe {str(name_or_path)!r} is unknown{_did_you_mean(str(name_or_path), recipes())}. "
            f"Allowed: {', '.join(recipes())}, or the path of a .yaml file."
        )
    values = read_yaml(path.read_text(), str(path))
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


def read_yaml(text: str, place: str) -> Any:
    """YAML text, found at ``place``, as Python values; 1e-3 is a number. Raises InputError for other text."""
    try:
        return _numbers(yaml.safe_load(text))
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{place}: not YAML ({reason}). Write a plain value or a list.") from None


def _numbers(value: Any) -> Any:
    """YAML 1.1 reads 1e-3 as text, for want of a dot; people mean the number."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _recipe(values: dict[str, Any]) -> Recipe:
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise InputError(_line(error.errors()[0])) from None


def _line(error: Any) -> str:
    """One of pydantic's errors as one line: key=value, what is allowed."""
    *outer, key = [str(part) for part in error["loc"]] or [""]
    fields = (Augmentation if outer[:1] == ["augmentation"] else Recipe).model_fields
    place, value = ".".join((*outer, key)), error["input"]
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
    return f"recipe key {place}={value!r}: allowed is {allowed}."


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
