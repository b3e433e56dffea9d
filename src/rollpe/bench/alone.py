"""Rotations alone: queries and keys turned by tables that are ready, beside other libraries' functions.

Here: what is called. Not here: taking turns on a clock (timing.py) and the training steps around (run.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from timm.layers.pos_embed_sincos import RotaryEmbeddingCat, RotaryEmbeddingMixed, apply_rot_embed_cat
from torch import Tensor

from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.base import Placed
from rollpe.training.recipe import Recipe
from rollpe.vit import SIZES

Rotate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
SIDE, CALLS = 8, 10
"""Patches along a side; calls that are timed as one."""


class Rotation(NamedTuple):
    """An encoding, the function it is compared with, and both as functions of q and k."""

    encoding: str
    other: str
    ours: Rotate
    theirs: Rotate


def queries_and_keys(recipe: Recipe, device: torch.device) -> Tensor:
    """Random q and k of one layer of the recipe's model, [2, B, heads, N, d], in the recipe's precision."""
    heads, head_dim = _shape(recipe)
    dtype = torch.bfloat16 if recipe.precision.startswith("bfloat16") else torch.float32
    return torch.randn(2, recipe.batch_size, heads, SIDE**2, head_dim, device=device).to(dtype)


def rotations(recipe: Recipe, device: torch.device) -> list[Rotation]:
    """All comparisons; tables are computed once, in float32.

    timm's tables and function are those of its rotary transformers. "rotate_half" is
    x·cos + rotate_half(x)·sin, as in Hugging Face transformers, with tables [N, d].
    """
    heads, head_dim = _shape(recipe)
    axial = RotaryEmbeddingCat(head_dim, in_pixels=False, temperature=100, feat_shape=[SIDE, SIDE])
    mixed = RotaryEmbeddingMixed(head_dim * heads, 1, heads, feat_shape=[SIDE, SIDE])
    i = torch.arange(head_dim // 2)
    angles = torch.arange(SIDE**2)[:, None] * 10000.0 ** (-2 * i / head_dim)
    cos, sin = (f(angles.repeat(1, 2)).to(device) for f in (torch.cos, torch.sin))

    def ours(name: str, *sizes: int, **options: Any) -> Rotate:
        encoding = create_encoding(name, head_dim=head_dim, heads=heads, axes=len(sizes), **options)
        with torch.no_grad():
            placed = encoding.place(grid_positions(*sizes), torch.empty(1, SIDE**2, 1))
        placed = Placed(placed.positions, tuple(table.to(device) for table in placed.tables))
        return partial(encoding, positions=placed)

    def timms(table: Tensor) -> Rotate:
        table = table.detach().to(device)
        return lambda q, k: (apply_rot_embed_cat(q, table), apply_rot_embed_cat(k, table))

    def by_halves(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return (x * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)

    half = ours("rope", SIDE**2, layout="half")
    return [
        Rotation("axial-rope", "timm", ours("axial-rope", SIDE, SIDE), timms(axial.get_embed())),
        Rotation("mixed-rope", "timm", ours("mixed-rope", SIDE, SIDE), timms(mixed.get_embed()[0])),
        Rotation("rope, half layout", "rotate_half", half, lambda q, k: (by_halves(q), by_halves(k))),
    ]


def several(rotate: Rotate, q: Tensor, k: Tensor) -> None:
    """``CALLS`` calls without gradients."""
    with torch.no_grad():
        for _ in range(CALLS):
            rotate(q, k)


def _shape(recipe: Recipe) -> tuple[int, int]:
    """Heads and channels of a head."""
    heads = recipe.heads or SIZES[recipe.size].heads
    return heads, (recipe.width or SIZES[recipe.size].width) // heads
