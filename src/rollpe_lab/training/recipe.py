"""Recipes: everything about a run except the encoding, the seed and the machine.

A recipe is a small YAML file; the folder recipes/ has those of the package.
"""

from __future__ import annotations

import os.path
import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rollpe.errors import InputError, hint
from rollpe_lab.files import read_yaml, read_yaml_file
from rollpe_lab.records.record import EXECUTION, RunId, flatten, slug
from rollpe_lab.training.datasets import CLOUDS, DATASETS, TEXTS

FOLDER = Path(__file__).parent / "recipes"
PATCHES = 64
"""Most patches in a row of an image; attention is quadratic in the square of this number."""
WEIGHTS = 10**9 // 12
"""Largest depth × width²; a block has 12·width² weights."""
LEVELS = 30  # the highest RandAugment magnitude
Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Coordinates = Literal["channels", "random", "fourier", "ring"]
"""What Adam divides by: a number for each channel of a ring, for each coordinate of a random orthogonal basis
or of the Fourier basis, or one for a whole ring."""


def _whole(
    low: int, words: str = "", high: int | None = None, *, default: Any = None, null: str | None = None
) -> Any:
    """An integer from low to high with its description; null: what null means, if it is allowed."""
    allowed = "" if null is None else f"null ({null}) or " if null else "null or "
    allowed += f"an integer ≥ {low}" + (
        f", at most {high:,}".replace("1,000,000", "a million") if high else ""
    )
    return Field(default, ge=low, le=high, description=f"{allowed}: {words}" if words else allowed)


class Augmentation(BaseModel):
    """The changes of a training image, in the order of the fields; all are off by default.

    Whether to mix is decided per batch, and how per image: each has its own partner and weight, and if
    mixup and cutmix are both on, a fair coin decides between them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    crop: Literal["none", "pad", "resized"] = Field(
        "none",
        description="pad: a window of the padded image; resized: a random part, scaled to full size",
    )
    crop_padding: int = Field(4, ge=0, le=1024, description="pixels on each side, for crop='pad'")
    crop_scale: tuple[Share, Share] = Field(
        (0.08, 1.0), description="smallest and largest share of the area, for crop='resized'"
    )
    flip: Probability = Field(0.0, description="probability of a horizontal flip")
    policy: Literal["none", "three-augment", "rand-augment"] = Field(
        "none",
        description="three-augment: grayscale, solarize or blur; rand-augment: n of 14 operations",
    )
    rand_augment: tuple[Annotated[int, Field(ge=1, le=100)], Annotated[int, Field(ge=0, le=LEVELS)]] = Field(
        (2, 9), description=f"operations per image and their magnitude, 0 to {LEVELS}"
    )
    color_jitter: Probability = Field(
        0.0, description="brightness, contrast, saturation: each times a factor in [1 - s, 1 + s]"
    )
    erasing: Probability = Field(0.0, description="probability that a box becomes the mean color")
    mixup: float = Field(0.0, ge=0, description="alpha of the Beta(alpha, alpha) weight; 0 is off")
    cutmix: float = Field(0.0, ge=0, description="alpha of the Beta(alpha, alpha) area; 0 is off")
    mix_probability: Probability = Field(
        1.0,
        description="probability that a batch is mixed at all, by mixup, cutmix or both; the others stay as "
        "they are (mix_prob of Lee et al. 2021)",
    )

    @model_validator(mode="after")
    def _scale_in_order(self) -> Augmentation:
        if self.crop_scale[0] > self.crop_scale[1]:
            raise ValueError("crop_scale: the smallest share comes first")
        return self

    @property
    def mixes(self) -> bool:
        """Whether targets are shared between two classes."""
        return self.mixup > 0 or self.cutmix > 0


class Recipe(BaseModel):
    """Everything about a run except the encoding, the seed and the machine.

    Each description names the allowed values and what they do; the error for a bad value quotes it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    name: str = Field(
        pattern="^[A-Za-z0-9_~+-][A-Za-z0-9_.~%@=,+-]*$",
        description="letters of ASCII, digits and _-~+, after the first also .%@=, (its records' folder; by "
        "default the name of the recipe's file)",
    )
    data: str = Field(pattern=f"^({'|'.join(DATASETS)})$", description=", ".join(DATASETS))
    held_out: int | None = _whole(0, "images held out", null="the data set's own")
    train_images: int | None = _whole(1, "number of training images, from the first", null="all")

    size: Literal["nano", "tiny", "small", "base"] = Field(
        description="nano, tiny, small or base: width, depth and heads"
    )
    patch_size: int | None = Field(
        None, gt=0, le=1024, description="an integer ≥ 1, at most 1,024, in pixels; null for text"
    )
    context: int | None = _whole(1, "characters of a window of text", 4096)
    depth: int | None = _whole(1, "blocks", 256, null="from size")
    width: int | None = _whole(1, "channels of a token", 8192, null="from size")
    heads: int | None = _whole(1, "", 1024, null="from size")
    pool: Literal["token", "avg", "patches"] = Field(
        "token", description="token (the class token), avg or patches (each has a loss; their mean counts)"
    )
    layer_scale: float | None = Field(
        None, gt=0, le=1e6, description="null (none) or a number > 0, at most a million: its initial value"
    )
    qkv_bias: bool = Field(True, description="true or false: biases on queries, keys and values")
    dropout: float = Field(0.0, ge=0, lt=1, description="a number from 0 to below 1")
    drop_path: float = Field(0.0, ge=0, lt=1, description="a number from 0 to below 1")

    epochs: int = _whole(1, "passes over the training images", 10**6, default=...)
    max_steps: int | None = _whole(1, "number of steps to stop after", null="")
    batch_size: int = _whole(1, "images per step", 10**5, default=...)
    optimizer: Literal["adamw", "lamb", "muon", "sgd"] = Field(description="adamw, lamb, muon or sgd")
    learning_rate: float = Field(
        gt=0,
        description="a number > 0: the highest learning rate, which falls to zero along a cosine",
    )
    warmup_epochs: float = Field(0.0, ge=0, description="a number from 0 to epochs")
    weight_decay: float = Field(0.0, ge=0, description="a number ≥ 0")
    momentum: float = Field(0.9, ge=0, lt=1, description="a number from 0 to below 1: sgd and muon")
    betas: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [0.9, 0.999],
        min_length=2,
        max_length=2,
        description="two numbers from 0 to below 1: adamw, lamb, and the vectors under muon",
    )
    second_moment: Coordinates = Field(
        "channels",
        description="channels, random, fourier or ring: the coordinates of queries and keys in which adamw "
        "divides, of which it has one for a whole ring in the last",
    )
    gradient_clip: float | None = Field(
        None, gt=0, description="null (none) or a number > 0: largest norm of the gradient"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="a number from 0 to below 1")
    augmentation: Augmentation = Field(
        Augmentation(), description=f"a mapping with {', '.join(Augmentation.model_fields)}"
    )

    topography: Literal["none", "ring"] = Field(
        "none", description="none or ring: loss on the order of queries and keys along the ring; uncompiled"
    )
    topography_weight: float = Field(0.1, ge=0, description="a number ≥ 0: weight of that loss")

    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto (bfloat16 on CUDA), float32 or bfloat16 (in products)"
    )
    compile: bool | Literal["auto", "default"] = Field(
        "auto", description="auto (on CUDA if it works), true, false or default (without CUDA graphs)"
    )
    attention: Literal["auto", "flash", "cudnn", "efficient", "math"] = Field(
        "auto",
        description="auto (torch chooses, but not cudnn), flash, cudnn, efficient, math: kernel of attention",
    )
    score_every: int = _whole(1, "epochs from one scoring of the held-out images to the next", default=1)
    resolutions: list[Annotated[int, Field(gt=0, le=1024)]] = Field(
        [],
        description="a list of image sizes, 1 to 1,024 pixels, each a multiple of patch_size; of text, of "
        "longer windows in characters",
    )
    shifts: list[Annotated[int, Field(ge=-1024, le=1024)]] = Field(
        [], description="a list of whole pixels to move the test images by, at most 1,024"
    )
    frames: int = Field(
        0,
        ge=0,
        le=100,
        description="an integer from 0 to 100: moments, evenly spaced from before the first step to after "
        "the last, of which the record keeps the correlations of channels over held-out images; and where "
        "there are any, the loss of the trained model with fewer waves of queries and keys",
    )

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.warmup_epochs > self.epochs:
            raise ValueError(
                f"warmup_epochs={self.warmup_epochs:g} is longer than epochs={self.epochs}. "
                "Lower it or raise epochs."
            )
        if self.second_moment != "channels" and self.optimizer != "adamw":
            raise ValueError(f"second_moment={self.second_moment}: only adamw has it, not {self.optimizer}.")
        if self.data in TEXTS:
            self._fits_text()
        elif self.patch_size is None or self.context is not None:
            raise ValueError(f"data={self.data}: images have a patch_size and no context.")
        elif self.data in CLOUDS:
            of_points: dict[str, Any] = {"patch_size": 1, "augmentation": Augmentation(), "frames": 0}
            if wrong := self._other(**of_points, resolutions=[], shifts=[]):
                raise ValueError(
                    f"data={self.data}: points have patch_size=1 and no other {', '.join(wrong)}."
                )
        for size in self.resolutions if self.patch_size else ():
            assert self.patch_size
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
        return self

    def _other(self, **allowed: Any) -> list[str]:
        """The keys that have another value."""
        return [key for key, value in allowed.items() if getattr(self, key) != value]

    def _fits_text(self) -> None:
        """Refuse what images alone have."""
        of_images: dict[str, Any] = {"patch_size": None, "augmentation": Augmentation(), "shifts": []}
        of_images |= {"topography": "none", "pool": "token"}
        wrong = self._other(**of_images)
        if self.context is None or wrong:
            raise ValueError(f"data={self.data}: text has a context, and no {', '.join(wrong or of_images)}.")
        if any(size % self.context for size in self.resolutions):
            raise ValueError(
                f"resolutions={self.resolutions}: allowed are multiples of context={self.context}."
            )


def recipes() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_recipe(name_or_path: str | Path = "quick", overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe by its name, or from a .yaml file, and change some of its keys.

    Args:
        overrides: key → value; a dot reaches into a mapping ("augmentation.mixup"); text is read as a
            YAML scalar, so "5", "null" and "[0.9, 0.95]" mean what they mean in the file.

    A changed recipe gets a name of its own, ``quick@epochs=5``, so that its records never mix with those of
    the original. The keys `rollpe_lab.records.record.EXECUTION` change no name.

    Raises InputError for an unknown recipe, an unknown key, or a value out of range.
    """
    path = Path(name_or_path)
    if str(name_or_path) in recipes():
        path = FOLDER / f"{name_or_path}.yaml"
    elif path.suffix in (".yaml", ".yml") and not os.path.isfile(path):
        raise InputError(f"recipe {path}: no such file.")
    elif path.suffix not in (".yaml", ".yml"):
        raise InputError(
            f"recipe {str(name_or_path)!r} is unknown.{hint(str(name_or_path), recipes())} "
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
    """The keys in which a changed recipe differs, as `--set` spells them, with their values."""
    before, after = flatten(original.model_dump()), flatten(changed.model_dump())
    return {key: value for key, value in after.items() if before[key] != value}


def name_of(original: Recipe, changed: Recipe) -> str:
    """The name of a changed recipe."""
    options = {
        key: value for key, value in changes(original, changed).items() if key not in EXECUTION | {"name"}
    }
    return slug(original.name, options)


def _recipe(values: dict[str, Any]) -> Recipe:
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        # a misspelt key is the reason why the key that was meant is missing
        errors = sorted(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        raise InputError(_line(errors[0])) from None


ELSEWHERE = {"lr": "learning_rate", "wd": "weight_decay", "bs": "batch_size", "smoothing": "label_smoothing"}
"""Keys as other programs call them."""


def _line(error: Any) -> str:
    """One of pydantic's errors as one line: key=value, what is allowed."""
    if not error["loc"]:  # a key that is no text
        return f"recipe: {error['msg']}."
    *outer, key = [str(part) for part in error["loc"]]
    if outer and outer[0] != "augmentation" and not key.isdigit():  # the type that pydantic tried last
        outer, key = [], outer[0]
    fields = (Augmentation if outer[:1] == ["augmentation"] else Recipe).model_fields
    place, value = ".".join((*outer, key)), textwrap.shorten(repr(error["input"]), 200, placeholder=" …")
    if error["type"] == "extra_forbidden":
        allowed = ", ".join(fields)
        return f"recipe key {place!r} is unknown.{hint(ELSEWHERE.get(key, key), fields)} Allowed: {allowed}."
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    allowed = Recipe.model_fields[outer[0] if outer else key].description or ""
    if outer[:1] == ["augmentation"]:
        allowed = error["msg"][0].lower() + error["msg"][1:]
    if error["type"] == "missing":
        return f"recipe key {place!r} is missing: allowed is {allowed}."
    return f"recipe key {place}={value}: allowed is {allowed}."


def command(recipe: Recipe, run_id: RunId) -> str:
    """The command line that repeats a run: a recipe of the package, and every key that differs from it.

    So a recipe with a name or a file of its own is repeated without that file.
    """
    from rollpe.encodings import outside_files  # noqa: PLC0415 (torch takes seconds)

    named = recipe.name.partition("@")[0]
    settings = {base: _settings(base, recipe) for base in ([named] if named in recipes() else recipes())}
    base = min(settings, key=lambda base: len(settings[base]))
    words = ["rollpe", "train", "--encoding", run_id.encoding, "--recipe", base, "--seed", str(run_id.seed)]
    for file in outside_files(run_id.encoding):
        words += ["--import", os.path.relpath(file)]
    overrides = slug(base, settings[base]).partition("@")[2]
    for option, text in (("--set", overrides), ("--option", run_id.slug.partition("@")[2])):
        for setting in filter(None, text.split(",")):
            words += [option, unquote(setting)]
    return shlex.join(words)


def _settings(base: str, recipe: Recipe) -> dict[str, Any]:
    """What to set in a recipe of the package to get this one; its name only if it would be another."""
    original = load_recipe(base)
    settings = changes(original, recipe)
    name = settings.pop("name", base)
    return settings if name == name_of(original, recipe) else settings | {"name": name}
