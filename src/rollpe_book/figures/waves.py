"""The values that moving figures start from, and what they show in words."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor


def bump(n: int, center: float, sharpness: float) -> Tensor:
    """A smooth bump around one channel of a ring, e^{κ(cos(2π(i−c)/n) − 1)}, float64 [n]."""
    angle = 2 * math.pi / n * (torch.arange(n, dtype=torch.float64) - center)
    return torch.exp(sharpness * (torch.cos(angle) - 1))


def random_angles() -> dict[str, list]:
    """16 angles in [0, π], ``random``, and three pairs of a query and a key, ``contents`` [3, 2, 32].

    Two decimals; the same numbers in every build.
    """
    rng = torch.Generator().manual_seed(0)
    angles = math.pi * torch.rand(16, generator=rng, dtype=torch.float64)
    contents = torch.randn(3, 2, 32, generator=rng, dtype=torch.float64)
    return {"random": angles.round(decimals=2).tolist(), "contents": contents.round(decimals=2).tolist()}


class Wave(NamedTuple):
    """What ``{wave} name`` puts on a page."""

    label: str
    """What the figure shows at its first values, for readers who cannot see it."""
    start: dict[str, Any]
    """The first values of the sliders."""


WAVES = {
    "walk": Wave(
        "Two rings of bars, a query's and a key's, each turned by the position of its token in a row "
        "above. Between them a curve of their score against the offset of the key, with one offset "
        "marked.",
        {"p": 6, "delta": 2},
    ),
    "ring": Wave(
        "Left: bars around a ring, a bump turned a few channels against the clock. Right: clock faces, "
        "one for each Fourier mode; hand k has turned k times as far as the ring.",
        {"n": 9, "p": 2},
    ),
    "continuous": Wave(
        "A pulse on a ring of an odd and one of an even number of channels, moved by half a channel: both "
        "ripple. A dial shows the Nyquist mode of the even ring, which has not moved; the odd ring has "
        "none.",
        {"n": 9, "p": 0.5, "nyquist": "fixed"},
    ),
    "speeds": Wave(
        "Left: rings inside each other, one for each wave, and around them the ring of their sum. Right: "
        "a map of the sum with channels across and positions downward. Each wave is a slanted stripe, "
        "steeper for slow waves; the stripes cross.",
        {"n": 16, "W": 2, "p": 3},
    ),
    "circle": Wave(
        "Left: the angles of a ring as points on the unit circle, evenly spaced and joined to their "
        "mirror images. Right: the kernel against the offset, from 0 to 128, with a peak at every 15th "
        "offset. Thin gray lines, scores of random queries and keys, are as large at large offsets as at "
        "small ones.",
        {**random_angles(), "list": "ring", "own": [], "m": 8, "wavelength": 1, "G": 16, "i": 2},
    ),
    "picture": Wave(
        "Small charts, one an encoding: attention of one token, against the offset of the key, from 124 "
        "places before it to 124 after it, when all keys are like the query. RoPE has a peak at zero and "
        "lower, irregular ones. Rings of 32 channels repeat the peak every 32 places; on the twisted ring "
        "every other one is a dip. ALiBi falls to both sides.",
        {"moved": 0, "view": "row", "content": "kernel", "trained": "64", "base": "10000", "width": "32"},
    ),
    "grow": Wave(
        "Two square matrices of correlations of channels at the end of training. RollPE's has a broad "
        "band along its diagonal, the twin's hardly any. Under them the correlation of neighbors over "
        "training: RollPE's rises early and stays high, the twin's stays low.",
        {"t": 11, "run": "photographs", "layer": "all", "head": "all"},
    ),
    "photo": Wave(
        "A photograph of a pagoda under a grid of patches, one of them the query. Beside it maps of the "
        "scores of the query with all patches, one for each encoding.",
        {"sy": 0, "sx": 0, "patch": 8},
    ),
}
