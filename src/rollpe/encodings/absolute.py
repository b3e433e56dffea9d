"""Encodings that mark tokens with absolute positions: none, sinusoidal, learned.

Here: what is added to tokens before the first layer. Not here: anything that acts inside attention.
"""

from __future__ import annotations

import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe.encodings.base import (
    Encoding,
    check_positions,
    grid_positions,
    note_added,
    register,
    scale_positions,
    table_dtype,
)
from rollpe.errors import InputError


@register("none")
class NoEncoding(Encoding):
    """No positions at all: attention sees a set of tokens. No parameters, no cost."""


@register("sinusoidal")
class Sinusoidal(Encoding):
    """Fixed sine and cosine waves added to the tokens (Vaswani et al., 2017, section 3.5).

    The heads*d channels are cut into ``axes`` equal parts of c channels, c even. Channels 2i and 2i+1 of the
    part of axis a receive sin(ω_i p_a) and cos(ω_i p_a) with ω_i = base^(-2i/c); channels left over by
    the cut receive nothing.

    No parameters; any real position; one addition for the whole model. The waves are computed in
    float32 (float64 for float64 tokens) and cast to the dtype of the tokens.

    Args:
        base: ratio of the slowest possible to the fastest wavelength.
    """

    acts_on = "tokens"
    relative = False
    added = False

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        axes: int = 2,
        grid: tuple[int, ...] | None = None,
        base: float = 10000.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, axes=axes, grid=grid)
        if heads * head_dim < 2 * axes:
            raise InputError(
                f"{heads * head_dim} channels cannot hold a sine and a cosine for each of"
                f" axes={axes}: use at least {2 * axes}."
            )
        if not base > 0:
            raise InputError(f"base={base} must be positive.")
        self.base = float(base)

    def add(self, tokens: Tensor, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        """Tokens [B, N, heads*d] plus their waves; the N - M leading tokens are left alone."""
        note_added(self)
        check_positions(positions, tokens, self.axes)
        pairs = tokens.shape[-1] // self.axes // 2
        p = positions.to(table_dtype(tokens))
        i = torch.arange(pairs, dtype=p.dtype, device=p.device)
        angles = p[..., None] * self.base ** (-i / pairs)  # [..., M, axes, pairs]
        waves = torch.stack((angles.sin(), angles.cos()), -1).flatten(-3)
        prefix = tokens.shape[1] - waves.shape[-2]
        waves = F.pad(waves, (0, tokens.shape[-1] - waves.shape[-1], prefix, 0))
        return tokens + waves.to(tokens.dtype)


@register("learned")
class Learned(Encoding):
    """One trained vector per place of the grid, added to its token (Dosovitskiy et al., 2020, Eq. 1).

    Adds prod(grid)*heads*d parameters, drawn from a normal of standard deviation 0.02 cut at two; tokens
    without a position get none. Positions count the places of the grid it was built for; between places the
    vectors are interpolated linearly, beyond the edge the edge's vector counts. Told of a whole ``grid`` of
    other sizes, as ``create_vit`` tells it for every image, it resizes the table to it (bicubic, smoothed
    when it shrinks; linear for more than two axes), in float32 or wider.
    """

    acts_on = "tokens"
    relative = False
    added = False
    learned = True

    def __init__(
        self, *, head_dim: int, heads: int, axes: int = 2, grid: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, axes=axes, grid=grid)
        if grid is None:
            raise InputError("encoding 'learned' needs grid=, the tokens along each axis.")
        self.built = tuple(grid)
        self.table = nn.Parameter(torch.empty(math.prod(grid), heads * head_dim))
        nn.init.trunc_normal_(self.table, std=0.02)

    def add(self, tokens: Tensor, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        """Tokens [B, N, heads*d] plus the vector of their place, see the class.

        Only ``grid`` has the table resized: positions alone are looked up, so that a shorter sequence gets
        the vectors that begin the longer one.
        """
        note_added(self)
        check_positions(positions, tokens, self.axes)
        if grid is not None and (len(grid) != self.axes or math.prod(grid) != positions.shape[-2]):
            raise InputError(
                f"grid={tuple(grid)} is not the grid of {positions.shape[-2]} positions on axes={self.axes}:"
                " give its sizes, or leave it out."
            )
        vectors = self._looked_up(positions) if grid is None else self._resized(tuple(grid))
        prefix = tokens.shape[1] - vectors.shape[-2]
        return tokens + F.pad(vectors, (0, 0, prefix, 0)).to(tokens.dtype)

    def _resized(self, grid: tuple[int, ...]) -> Tensor:
        if grid == self.built:
            return self.table
        if self.axes > 2:
            places = grid_positions(*grid, device=self.table.device, dtype=table_dtype(self.table))
            return self._looked_up(scale_positions(places, grid, self.built))
        table = self.table.T.unflatten(1, self.built)[None]  # [1, heads*d, *built grid]
        if self.axes == 1:
            table, grid = table[:, :, None], (1, *grid)
        table = F.interpolate(table.to(table_dtype(table)), grid, mode="bicubic", antialias=True)
        return table[0].flatten(1).T.to(self.table.dtype)

    def _looked_up(self, positions: Tensor) -> Tensor:
        p = positions.to(table_dtype(self.table))
        vectors = torch.zeros((), dtype=self.table.dtype, device=p.device)
        for corner in product((0, 1), repeat=self.axes):
            place = torch.zeros(p.shape[:-1], dtype=torch.long, device=p.device)
            weight = torch.ones(p.shape[:-1], dtype=p.dtype, device=p.device)
            for axis, (far, size) in enumerate(zip(corner, self.built, strict=True)):
                along = p[..., axis].clamp(0, size - 1)
                low = along.floor()
                fraction = along - low
                weight = weight * (fraction if far else 1 - fraction)
                place = place * size + (low.long() + far).clamp(max=size - 1)
            vectors = vectors + weight[..., None] * self.table[place]
        return vectors
