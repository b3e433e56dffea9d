"""Measured properties of encodings: the columns of the book's tables of encodings.

Trials in float64 over several seeds, with errors relative to the largest score. Class attributes promise
these properties, and tests hold them to the same trials.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from rollpe.encodings.attention import linear_attention
from rollpe.encodings.base import Encoding
from rollpe.encodings.positions import grid_positions
from rollpe.encodings.registry import ENCODINGS, create_encoding
from rollpe.errors import InputError

GRID = (3, 4, 2)
HEAD_DIM, HEADS = 24, 2  # 24 channels divide by 2 and by 3 axes, into pairs and triplets
EXACT = 1e-9
SEEDS = range(3)


@dataclass(frozen=True)
class Properties:
    """The measured properties of one encoding.

    relative_along: for each axis, whether shifting all positions along it leaves the scores alone.
    real_positions: whether it takes positions between the grid's. keeps_norm: whether encoded queries keep
    their length (None where they are unchanged).
    cached, linear: whether decoding over cached keys, and linear attention, agree with the full computation.
    parameters: trained numbers added to a model of 12 layers with 6 heads of 64 channels on 8×8 patches.
    """

    name: str
    acts_on: str
    axes: int
    relative_along: tuple[bool, ...]
    real_positions: bool
    keeps_norm: bool | None
    cached: bool
    linear: bool
    parameters: int

    @property
    def relative(self) -> str:
        """Yes, no, or the axes along which it is."""
        if len(set(self.relative_along)) == 1:
            return "yes" if self.relative_along[0] else "no"
        names = ("rows", "columns", "depth") if self.axes > 1 else ("positions",)
        return "along " + ", ".join(n for n, yes in zip(names, self.relative_along, strict=False) if yes)


def measure(name: str) -> Properties:
    """Measure one encoding with its default options."""
    with warnings.catch_warnings():  # these grids are small on purpose
        warnings.simplefilter("ignore")
        axes = _axes(name)
        grid = GRID[:axes]
        built = create_encoding(name, head_dim=HEAD_DIM, heads=HEADS, axes=axes, grid=grid).double()
        positions = grid_positions(*grid, dtype=torch.float64)
        with torch.no_grad():
            return Properties(
                name=name,
                acts_on=built.acts_on,
                axes=axes,
                relative_along=tuple(_relative(built, positions, axis) for axis in range(axes)),
                real_positions=_accepts(built, 0.75 * positions),
                keeps_norm=_keeps_norm(built, positions),
                cached=_cached(built, positions),
                linear=_linear(built, positions),
                parameters=_parameters(name),
            )


def measure_all() -> list[Properties]:
    """Measure every encoding, in the order of ENCODINGS."""
    return [measure(name) for name in ENCODINGS]


def _axes(name: str) -> int:
    """The number of axes to measure with: two, or one or three for an encoding that refuses two."""
    for axes in (2, 1):
        with suppress(InputError):
            create_encoding(name, head_dim=HEAD_DIM, heads=HEADS, axes=axes, grid=GRID[:axes])
            return axes
    return 3


def _draw(encoding: Encoding, tokens: int, seed: int) -> list[Tensor]:
    """Random queries, keys (with all streams) and values, [2, heads, tokens, channels]."""
    generator = torch.Generator().manual_seed(seed)
    widths = [encoding.waves_in * HEAD_DIM, encoding.waves_in * HEAD_DIM, HEAD_DIM]
    return [
        torch.randn(2, HEADS, tokens, width, generator=generator, dtype=torch.float64) for width in widths
    ]


def _scores(encoding: Encoding, positions: Tensor, seed: int) -> Tensor:
    """Scores of random tokens: positions added, projected to queries and keys, then encoded."""
    generator = torch.Generator().manual_seed(seed)
    dim, count = HEADS * HEAD_DIM, positions.shape[-2]
    x = torch.randn(2, count, dim, generator=generator, dtype=torch.float64)
    x = encoding.add(x, positions)
    q, k = (
        (x @ torch.randn(dim, encoding.waves_in * dim, generator=generator, dtype=torch.float64) / dim**0.5)
        .unflatten(-1, (HEADS, -1))
        .transpose(1, 2)
        for _ in range(2)
    )
    return encoding.scores(q, k, positions)


def _alike(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= EXACT * max(1.0, float(b.abs().max())))


def _relative(encoding: Encoding, positions: Tensor, axis: int) -> bool:
    for seed in SEEDS:
        here = _scores(encoding, positions, seed)
        for step in (1.0, 5.0, -3.0):
            shift = torch.zeros(positions.shape[-1], dtype=torch.float64)
            shift[axis] = step
            try:
                there = _scores(encoding, positions + shift, seed)
            except InputError:
                return False
            if not _alike(there, here):
                return False
    return True


def _accepts(encoding: Encoding, positions: Tensor) -> bool:
    """Whether the fast path takes these positions, for tokens and for scores."""
    tokens = torch.ones(1, len(positions), HEADS * HEAD_DIM, dtype=torch.float64)
    q, k, v = _draw(encoding, len(positions), 0)
    try:
        encoding.add(tokens, positions)
        encoding.attend(q, k, v, positions)
    except InputError:
        return False
    return True


def _keeps_norm(encoding: Encoding, positions: Tensor) -> bool | None:
    if encoding.acts_on == "tokens":
        tokens = torch.ones(1, len(positions), HEADS * HEAD_DIM, dtype=torch.float64)
        return _alike(encoding.add(tokens, positions).norm(dim=-1), tokens.norm(dim=-1))
    q, k, _ = _draw(encoding, len(positions), 0)
    encoded, _ = encoding(q, k, positions)
    if encoded is q:
        return None
    return encoded.shape == q.shape and _alike(encoded.norm(dim=-1), q.norm(dim=-1))


def _cached(encoding: Encoding, positions: Tensor) -> bool:
    q, k, v = _draw(encoding, len(positions), 1)
    full = encoding.attend(q, k, v, positions, is_causal=True)
    keys = torch.cat(
        [encoding.encode_keys(k[..., i : i + 1, :], positions[i : i + 1]) for i in range(len(positions))], -2
    )
    step = [
        encoding.decode(q[..., i : i + 1, :], keys[..., : i + 1, :], v[..., : i + 1, :], positions[: i + 1])
        for i in range(len(positions))
    ]
    return _alike(torch.cat(step, -2), full)


def _linear(encoding: Encoding, positions: Tensor) -> bool:
    """Whether linear attention takes it, and its causal form agrees with the full one at the end."""
    if encoding.acts_on not in ("scores", "both"):
        return True  # a code on the tokens needs nothing from attention
    q, k, v = _draw(encoding, len(positions), 2)
    try:
        full = linear_attention(encoding, q, k, v, positions)
        causal = linear_attention(encoding, q, k, v, positions, is_causal=True)
    except InputError:
        return False
    return _alike(causal[..., -1, :], full[..., -1, :])


def _parameters(name: str) -> int:
    axes = _axes(name)
    built = create_encoding(name, head_dim=64, heads=6, axes=axes, grid=(8,) * axes)
    own = sum(p.numel() for p in built.parameters())
    marks = built if built.acts_on == "tokens" else built.token_code
    once = 0 if marks is None else sum(p.numel() for p in marks.parameters())  # tokens are marked once
    projections = 2 * (built.waves_in - 1) * (384 * 384 + 384)  # further projections of q and k, with biases
    return once + 12 * (own - once + projections)
