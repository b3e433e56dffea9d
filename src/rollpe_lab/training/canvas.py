"""Digits on a canvas: two tasks that ask for positions, one for a place, one for an offset.

A canvas has 16×16 pixels, which are 4×4 cells of 4×4 pixels; a digit of 8×8 pixels is averaged down to one
cell. Patches of 2×2 pixels divide cells evenly, so that a digit consists of the same patches in every cell.

- "place": one digit. Its class is its cell, one of 16.
- "offset": a digit and a copy of it, a third as bright, in two cells. The class is the offset of rows and
  columns from the bright one to the dim one, one of 48.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

CELLS = 4
"""Cells in a row of a canvas."""
SIDE = 4
"""Pixels in a row of a cell."""
DIM = 3
"""How many times as bright the first digit is as the second: then every first outshines every second one."""
COPIES = 4
"""Canvases of each training and held-out digit."""
TEST_COPIES = 16
"""Canvases of each test digit: for "place" each cell once, so that a guess of the place scores one in 16."""
KEY = b"rollpe canvases"
"""Key of the hash that chooses the cells. Another key gives other canvases."""

Cells = tuple[tuple[int, int], ...]


def arrangements(task: str) -> dict[str, list[Cells]]:
    """Each class by name, in the order of the labels, with all ways to choose the digits' cells for it.

    "place": "row,column". "offset": the signed offsets of rows and columns, "+1,-3".
    """
    cells = [(row, column) for row in range(CELLS) for column in range(CELLS)]
    if task == "place":
        return {f"{row},{column}": [((row, column),)] for row, column in cells}
    offsets: dict[tuple[int, int], list[Cells]] = defaultdict(list)
    for first, second in permutations(cells, 2):
        offsets[second[0] - first[0], second[1] - first[1]].append((first, second))
    return {f"{rows:+d},{columns:+d}": offsets[rows, columns] for rows, columns in sorted(offsets)}


def draw(task: str, digits: Tensor, copies: int) -> tuple[Tensor, Tensor]:
    """Canvases uint8 [N·copies, 1, 16, 16] of digits uint8 [N, 1, 8, 8], and their labels int64 [N·copies].

    Each digit gets `copies` different classes, in the order of a keyed hash of its pixels and the class. The
    same hash chooses among the ways to arrange that class, all equally likely. Canvases of one digit follow
    one another and depend on nothing but that digit.
    """
    ways = list(arrangements(task).values())
    small = F.avg_pool2d(digits.double(), digits.shape[-1] // SIDE).round().to(torch.uint8)[:, 0]
    canvases = torch.zeros(len(digits), copies, CELLS, CELLS, SIDE, SIDE, dtype=torch.uint8)
    labels = torch.zeros(len(digits), copies, dtype=torch.long)
    for n, digit in enumerate(small):
        pixels = digit.numpy().tobytes()
        hashes = sorted((_hash(pixels, label), label) for label in range(len(ways)))
        for copy, (chance, label) in enumerate(hashes[:copies]):
            labels[n, copy] = label
            for order, (row, column) in enumerate(ways[label][chance % len(ways[label])]):
                canvases[n, copy, row, column] = digit // DIM**order
    side = CELLS * SIDE
    return canvases.transpose(3, 4).reshape(-1, 1, side, side), labels.flatten()


def _hash(pixels: bytes, label: int) -> int:
    return int.from_bytes(hashlib.blake2b(pixels + bytes([label]), key=KEY, digest_size=16).digest())
