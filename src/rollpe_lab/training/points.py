"""Digits as clouds of points: half of the patches are left out, the others are moved off the grid.

A digit of 8×8 pixels is read at the centers of 32 of its 64 pixels, each moved by up to half a pixel along
both axes, by bilinear interpolation. A point is a gray value, a row and a column; these are multiples of 1/32
pixel from 0 to 7. "points" has them as they are, "points-rounded" the same gray values at whole ones.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rollpe_lab.training.canvas import COPIES

SIDE = 8
"""Pixels in a row of a digit."""
POINTS = 32
"""Points of a cloud, as an image [4, 8]."""
STEPS = 32
"""Steps of a position in a pixel, so that bytes hold positions below 8."""
KEY = b"rollpe points"
"""Beginning of what is hashed to draw points. Another one draws other points."""


def draw(digits: Tensor, rounded: bool) -> Tensor:
    """Clouds uint8 [N·COPIES, 3, 4, 8] of digits uint8 [N, 1, 8, 8]: gray value, row, column in 1/32 pixel.

    Those of one digit follow one another and depend on nothing but its pixels.
    """
    drawn = [_bytes(digit, copy) for digit in digits[:, 0].numpy() for copy in range(COPIES)]
    clouds = _clouds(digits[:, 0].repeat_interleave(COPIES, 0).numpy(), drawn)
    if rounded:
        clouds[:, 1:] = (clouds[:, 1:] + STEPS // 2) // STEPS * STEPS
    return torch.from_numpy(clouds.astype(np.uint8)).unflatten(-1, (-1, SIDE))


def _bytes(digit: np.ndarray, copy: int) -> bytes:
    """Three for each pixel: what orders the pixels, and how far each would move."""
    return hashlib.shake_128(KEY + bytes([copy]) + digit.tobytes()).digest(3 * digit.size)


def _clouds(digits: np.ndarray, drawn: list[bytes]) -> np.ndarray:
    """Gray values, rows and columns, int64 [N, 3, POINTS]; in integers, the same on every machine."""
    streams = np.frombuffer(b"".join(drawn), np.uint8).astype(np.int64).reshape(-1, 3, SIDE**2)
    kept = np.sort(streams[:, 0].argsort(1, kind="stable")[:, :POINTS], axis=1)
    moves = np.take_along_axis(streams[:, 1:], kept[:, None], 2) % STEPS - STEPS // 2
    moved = np.stack(np.divmod(kept, SIDE), 1) * STEPS + moves
    rows, columns = moved.clip(0, (SIDE - 1) * STEPS).swapaxes(0, 1)
    gray = np.zeros_like(rows)
    for down in (0, 1):
        for right in (0, 1):
            row, column = rows // STEPS + down, columns // STEPS + right
            weight = (STEPS - abs(row * STEPS - rows)) * (STEPS - abs(column * STEPS - columns))
            pixel = row.clip(max=SIDE - 1) * SIDE + column.clip(max=SIDE - 1)
            gray += weight * np.take_along_axis(digits.reshape(-1, SIDE**2), pixel, 1)
    return np.stack([(gray + STEPS**2 // 2) // STEPS**2, rows, columns], 1)


MEAN, STD = 0.0, STEPS / 255
"""With which the bytes of rows and columns are normalized to pixels."""


def with_positions(_model: Any, inputs: tuple[Tensor]) -> tuple[Tensor, Tensor]:
    """A hook before the forward pass: clouds [B, 3, 4, 8] to gray [B, 1, 4, 8] and positions [B, 32, 2]."""
    gray, positions = inputs[0].split((1, 2), dim=1)
    return gray, (positions * STEPS).round().div(STEPS).flatten(2).mT  # exact, as before their normalization
