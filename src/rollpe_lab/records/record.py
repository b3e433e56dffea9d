"""The fields of a record, and when two records may be compared."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from rollpe.errors import InputError
from rollpe.names import NAME

SCHEMA_VERSION = 1

EXECUTION = frozenset({"compile", "attention", "score_every"})
"""Keys of a recipe that decide how a run computes and not what it trains: they are no part of its name."""

NOT_COMPARED = EXECUTION | {"name", "resolutions", "shifts", "frames"}
"""Keys of a configuration that leave the test result of a run unchanged in distribution."""

ADDED: dict[str, Any] = {
    "qkv_bias": True,
    "augmentation.mix_probability": 1.0,
    "context": None,
    "second_moment": "channels",
}
"""Keys added to recipes later, with the values of all runs before."""

REMOVED: dict[str, Any] = {
    "augmentation.crop_fill": "zero",
    "ema": None,
    "final_learning_rate": 0.0,
    "schedule": "cosine",
}
"""Keys that recipes had earlier, with the value of all runs."""

Share = Annotated[float, Field(ge=0, le=1)]
RecipeName = Annotated[str, Field(pattern=r"^[\w~+-][\w.~%@=,+-]*$")]
"""Names a recipe and a folder: no slash, no space, no leading dot."""
Joined = Annotated[str, Field(pattern=rf"^{NAME}(\+{NAME})*$")]
"""The name of an encoding, or several joined."""
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$")]


def _words(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse options whose names, or whose values of text, are no single words."""
    waiting: list[Any] = [*options, *options.values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, dict) or (isinstance(value, str) and not re.fullmatch(r"[\w.+-]*", value)):
            raise ValueError(f"{value!a} is no word, number or list of them")
    return options


EncodingOptions = Annotated[dict[str, Any], AfterValidator(_words)]


class _Plain(BaseModel):
    """Frozen, without unknown fields and NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RunId(_Plain):
    """The identity of a run: which recipe, which encoding with which options, which seed."""

    recipe: RecipeName
    encoding: Joined
    encoding_options: EncodingOptions = {}
    seed: int = Field(ge=0)

    @property
    def slug(self) -> str:
        """The encoding with its options, as it is written in paths and tables."""
        return slug(self.encoding, self.encoding_options)

    @property
    def arm(self) -> str:
        """Recipe and encoding with their options, as people spell them: mini/roll@width=7."""
        return unquote(self.path.parent.as_posix())

    @property
    def path(self) -> Path:
        """<recipe>/<encoding slug>/seed-<n>, without a suffix."""
        return Path(self.recipe, self.slug, f"seed-{self.seed}")


class EpochMetrics(_Plain):
    """One pass over the training images. Losses in nats; the held-out ones are None without any."""

    epoch: int = Field(ge=1)
    steps: int = Field(ge=1)  # optimizer steps so far
    learning_rate: float = Field(ge=0)  # of the last step
    train_loss: float
    held_out_loss: float | None
    held_out_accuracy: float | None = Field(ge=0, le=1)
    images_per_second: float = Field(gt=0)  # of the training steps alone
    seconds: float = Field(ge=0)  # training steps and held-out evaluation


class FinalMetrics(_Plain):
    """The one scoring of the test set. `correct` is base64 of one bit per image, in file order.

    Of text, images are characters.
    """

    loss: float
    accuracy: float = Field(ge=0, le=1)
    images: int = Field(ge=1)
    correct: str

    @model_validator(mode="after")
    def _bits_agree(self) -> FinalMetrics:
        bits = self.bits()
        if not math.isclose(bits.mean(), self.accuracy, abs_tol=1e-9):
            raise ValueError(f"accuracy={self.accuracy}, but {bits.sum()} bits of {bits.size} set")
        return self

    def bits(self) -> np.ndarray:
        """bool [images]: which test images the model got right, in file order."""
        return unpack_bits(self.correct, self.images)


class Environment(_Plain):
    """The machine and the versions of a run; nothing that identifies a person or a host."""

    python: str
    platform: str
    torch: str
    timm: str
    numpy: str
    device: str  # "cpu", "cuda" or "mps"
    device_name: str
    driver: str | None
    threads: int = Field(ge=1)


class Provenance(_Plain):
    """Which source produced a run, by which command, and when. Times are UTC, ISO 8601.

    The source is what the process had loaded. (Older records hold the source at the end of the run: the same,
    unless it was edited or committed meanwhile.)

    Attributes:
        training_hash: of the part of that source that a run executes, without docstrings and comments; see
            `rollpe_lab.hashes.training_hash`. (Older records have none.)
        plan: of a run that a sweep trained, name and sha256 of its plan's file, see
            `rollpe_lab.training.plan`: the seeds were fixed if the project's history has this plan before the
            run. (Older records have none.)
        encoding_hash: of an encoding from a file of one's own, what that file means; see
            `rollpe_lab.hashes.encoding_hash`. None for those of the package.
    """

    commit: str
    dirty: bool | None  # None: not known, because there is no repository
    source_hash: str
    training_hash: str | None = None
    command: str
    started: Time
    finished: Time
    wall_seconds: float = Field(ge=0)
    plan: str | None = Field(None, pattern=r"^\S.* [0-9a-f]{64}$")
    encoding_hash: str | None = None


class Record(_Plain):
    """Everything one run left behind. Accuracies are fractions in [0, 1].

    Attributes:
        config: the full recipe, enough to repeat the run.
        protocol: version of the training procedure; see rollpe_lab.training.run.PROTOCOL.
        parameters: trained numbers in the model.
        resolutions: test accuracy by image size in pixels, the model seeing the larger or smaller grid; of
            text, by length of the window in characters.
        scaled_resolutions: the same of images with their positions scaled into the grid of training, see
            `rollpe.encodings.scale_positions`; of encodings that take real positions. (Records made before
            2026-11-29 have none.)
        bits: of text, bits per character of the test text by length of the window; training had the shortest.
        plain_train_loss: loss in nats on training images without augmentation, the first of them, at most as
            many as there are test images. test.loss − plain_train_loss measures overfitting. (Older records
            have none.)
        shifts: test accuracy by how many pixels the images were moved right and down.
        throughput: training images per second, evaluation left out, frames included; the median over epochs.
            (Of records made before 2026-11-21 18:00 UTC, the mean over the whole run, compiling included.)
        arrays_sha256: of the .npz beside the record; None without one. (Older records do not name it.)
    """

    schema_version: Literal[1]
    protocol: int = Field(ge=1)
    recipe: RecipeName
    encoding: Joined
    encoding_options: EncodingOptions
    seed: int = Field(ge=0)
    config: dict[str, Any]
    parameters: int = Field(ge=1)
    history: list[EpochMetrics]
    test: FinalMetrics
    resolutions: dict[Annotated[str, Field(pattern=r"^\d+$")], Share] = {}
    scaled_resolutions: dict[Annotated[str, Field(pattern=r"^\d+$")], Share] = {}
    shifts: dict[Annotated[str, Field(pattern=r"^-?\d+$")], Share] = {}
    bits: dict[Annotated[str, Field(pattern=r"^\d+$")], Annotated[float, Field(ge=0)]] = {}
    plain_train_loss: float | None = None
    throughput: float = Field(gt=0)
    environment: Environment
    provenance: Provenance
    arrays_sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")

    @property
    def run_id(self) -> RunId:
        return RunId(
            recipe=self.recipe,
            encoding=self.encoding,
            encoding_options=self.encoding_options,
            seed=self.seed,
        )

    def bits_at(self, length: int | None = None) -> float | None:
        """Bits per character in windows of this length, those of training by default; None without them."""
        return self.bits.get(str(length or min(map(int, self.bits), default=0)))

    @property
    def score(self) -> float:
        """The main result: test accuracy in percent; of text, bits per character, where less is better."""
        bits = self.bits_at()
        return 100 * self.test.accuracy if bits is None else bits

    @property
    def result(self) -> str:
        """The main result in words."""
        return f"{self.score:.3f} bits per character" if self.bits else f"{self.score:.2f} %"

    def correct_bits(self) -> np.ndarray:
        """bool [images]: which test images the model got right, in file order."""
        return self.test.bits()


# Bits


def pack_bits(correct: np.ndarray) -> str:
    """bool [N] → base64 text, eight images to a byte, first image in the highest bit."""
    return base64.b64encode(np.packbits(np.asarray(correct, dtype=bool)).tobytes()).decode()


def unpack_bits(text: str, images: int) -> np.ndarray:
    """The inverse of pack_bits. Raises ValueError when the text does not hold `images` bits."""
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except binascii.Error as error:
        raise ValueError(f"correct is not base64 ({error})") from None
    if packed.size != -(-images // 8):
        raise ValueError(f"correct holds {packed.size} bytes, {images} images need {-(-images // 8)}")
    return np.unpackbits(packed, count=images).astype(bool)


# Names and places


def slug(name: str, options: dict[str, Any]) -> str:
    """`name@key=value,key=value` with sorted keys; just `name` without options.

    Everything but letters, digits and _.-~+ is percent-encoded, so a slug is one folder name and
    different options never share one.
    """
    text = quote(name, safe="+")
    if options:
        pairs = (
            f"{quote(key, safe='')}={quote(_value(value), safe='+')}"
            for key, value in sorted(options.items())
        )
        text += "@" + ",".join(pairs)
    return text


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def by_cell(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Runs by cell, ``recipe/encoding`` with options as people spell them."""
    cells: dict[str, list[Record]] = {}
    for record in records:
        cells.setdefault(record.run_id.arm, []).append(record)
    return cells


# Comparing


def comparable(a: Record, b: Record) -> list[str]:
    """Why the test results of two runs must not be compared; [] if they may.

    Encodings, their options and seeds may differ: they are what is compared. Everything else in
    the configuration has to agree, except the keys NOT_COMPARED, and so have the files that define one
    encoding. Machine and commit may differ; the version of the training procedure may not.
    """
    reasons = []
    if a.protocol != b.protocol:
        reasons.append(f"protocol: {a.protocol} and {b.protocol}")
    reasons += unlike(a.config, b.config)
    if a.test.images != b.test.images:
        reasons.append(f"test images: {a.test.images} and {b.test.images}")
    if a.encoding == b.encoding and a.provenance.encoding_hash != b.provenance.encoding_hash:
        reasons.append(f"the file that defines {a.encoding} has changed between them")
    return reasons


def check_comparable(records: Iterable[Record]) -> None:
    """InputError unless all runs may be compared: with the first, and with the first of their arm."""
    known: dict[str | None, Record] = {}
    for record in records:
        for other in (known.setdefault(None, record), known.setdefault(record.run_id.arm, record)):
            if reasons := comparable(other, record):
                raise InputError(
                    f"{other.run_id.path} and {record.run_id.path} are not comparable: {'; '.join(reasons)}. "
                    "Train one of them anew, or give it a name of its own."
                )


def unlike(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """The keys, but for NOT_COMPARED, in which two configurations differ, with both values."""
    if a == b:
        return []
    left, right = (ADDED | REMOVED | flatten(config) for config in (a, b))
    return [
        f"{key}: {left.get(key, 'absent')} and {right.get(key, 'absent')}"
        for key in sorted((left.keys() | right.keys()) - NOT_COMPARED)
        if key not in left or key not in right or left[key] != right[key]
    ]


def flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} → {"a.b": 1}: keys as `--set` spells them."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
