"""Names for type checkers and editors: the encodings, their options, and what others call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from torch import Tensor

EncodingName = Literal[
    "none",
    "integer",
    "sinusoidal",
    "learned",
    "shaw",
    "shaw-kv",
    "t5-bias",
    "alibi",
    "rope",
    "xpos",
    "axial-rope",
    "mixed-rope",
    "uniform-rope",
    "spherical-rope",
    "lie",
    "roll",
    "twisted-roll",
    "continuous-roll",
    "multiplexed-roll",
    "torus-roll",
    "roll-twin",
]
"""The encodings of this package; two may be joined by "+"."""


Pairing = Literal["interleaved", "half"]
Nyquist = Literal["fixed", "cosine", "paired", "odd", "twist"]
WaveScale = Literal["none", "sqrt", "mean"]


class Options(TypedDict, total=False):
    """The options of all encodings; ``encoding_options(name)`` are those of one."""

    std: float
    every_block: bool
    base: float
    scale: float | WaveScale
    clip: int
    buckets: int
    max_distance: int
    bidirectional: bool
    frequencies: str | tuple[float, ...] | Tensor | Callable[[Tensor], Tensor]
    temperature: float
    wavelengths: tuple[float, ...] | None
    layout: Pairing
    learn_frequencies: bool
    gamma: float
    span: float
    frequency: float | None
    block: int | None
    init: float
    width: int | tuple[int, ...] | None
    direction: int
    twist: float
    wavelength: float
    nyquist: Nyquist
    waves: int
    speeds: tuple[int, ...] | None
    sheet: tuple[int, ...] | None


NAME = r"[\w-]+"
"""What the name of an encoding may be."""

ELSEWHERE = {
    "rollpe": "roll",
    "multiplexed_rollpe": "multiplexed-roll",
    "rotary": "rope",
    "t5": "t5-bias",
    "dim": "head_dim",
    "num_heads": "heads",
    "n_heads": "heads",
    "theta": "base",
    "rope_theta": "base",
    "temperature": "base",
}
"""Names of encodings and options in the paper and in other libraries, and here."""
