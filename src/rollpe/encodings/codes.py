"""Encodings that add a code of the absolute position to the tokens: none, integer, sinusoidal, learned."""

from __future__ import annotations

import math
from itertools import product
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe import formulas
from rollpe.encodings.base import Encoding, Shape
from rollpe.encodings.frequencies import geometric
from rollpe.encodings.positions import (
    check_grid,
    constant,
    grid_positions,
    scale_positions,
)
from rollpe.encodings.registry import register
from rollpe.encodings.sdpa import table_dtype
from rollpe.errors import InputError, check_positive


@register("none")
class NoEncoding(Encoding):
    """No positions: attention is equivariant to permutations of the tokens. No parameters, no cost."""


class TokenCode(Encoding):
    """Base of encodings that add a code to the tokens. A subclass defines ``code``."""

    acts_on = "tokens"
    relative = False
    added = False

    def add(self, tokens: Tensor, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        """Tokens [B, N, heads*d] plus their code; the N - M leading tokens are unchanged.

        Raises InputError if ``grid`` is not that of the positions.
        """
        if not torch.compiler.is_compiling():  # a compiled graph does not warn either
            self.added = True
        positions = self.checked(positions, tokens)
        check_grid(grid, positions, self.axes)
        code = self.code(positions.to(table_dtype(tokens)), grid)
        prefix = tokens.shape[1] - code.shape[-2]
        return tokens + F.pad(code, (0, 0, prefix, 0)).to(tokens.dtype)

    def code(self, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        """The code of positions [M, axes] or [B, M, axes], float32 or float64: [(B,) M, heads*d].

        ``grid``: sizes, if the positions are the whole row-major grid of them.
        """
        raise TypeError(f"{type(self).__name__} does not define code().")


@register("integer")
class Integer(TokenCode):
    """The position itself as the code.

    The heads*d channels are cut into ``axes`` equal parts; p_a is added to the first channel of the part of
    axis a, nothing to the others.

    No parameters; any real position; one addition for the whole model. The code is unbounded: the farther
    a token, the fewer digits of its own channel are left.
    """

    def code(self, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        channels = self.heads * self.head_dim
        code = F.pad(positions[..., None], (0, channels // self.axes - 1)).flatten(-2)
        return F.pad(code, (0, channels - code.shape[-1]))


@register("sinusoidal")
class Sinusoidal(TokenCode):
    """Fixed sine and cosine waves added to the tokens (Vaswani et al., 2017, section 3.5).

    The heads*d channels are cut into ``axes`` equal parts of c channels, c even. Channels 2i and 2i+1 of the
    part of axis a receive s·sin(ω_i p_a) and s·cos(ω_i p_a) with ω_i = base^(-2i/c) and s = ``scale``;
    channels left over by the cut receive nothing.

    tensor2tensor divides by c/2 - 1 instead of c/2 in the exponent: its slowest wave is exactly 2π·base, and
    all sines come before all cosines.

    No parameters; any real position; one addition for the whole model. The waves are computed in
    float32 (float64 for float64 tokens) and cast to the dtype of the tokens.

    Args:
        base: ratio of the slowest possible to the fastest wavelength.
        scale: amplitude of the waves.
    """

    def __init__(self, *, base: float = 10000.0, scale: float = 1.0, **shape: Unpack[Shape]) -> None:
        super().__init__(**shape)
        if self.heads * self.head_dim < 2 * self.axes:
            raise InputError(
                f"{self.heads * self.head_dim} channels cannot hold a sine and a cosine for each of"
                f" axes={self.axes}: use at least {2 * self.axes}."
            )
        check_positive(base=base, scale=scale)
        self.base = float(base)
        self.scale = float(scale)

    def code(self, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        channels = self.heads * self.head_dim
        kind = channels // self.axes // 2, self.base
        omega = constant(geometric, *kind, device=positions.device, dtype=positions.dtype)
        waves = self.scale * formulas.sinusoids(positions, omega).flatten(-2)
        return F.pad(waves, (0, channels - waves.shape[-1]))


@register("learned")
class Learned(TokenCode):
    """One trained vector per place of the grid, added to its token (Dosovitskiy et al., 2020, Eq. 1).

    Adds prod(grid)*heads*d parameters, drawn from a normal distribution; tokens without a position get none.
    Positions count the places of the grid that the encoding was built for.
    Between places the vectors are interpolated linearly; beyond the edge the edge's vector is used. Given a
    whole ``grid`` of other sizes, as by ``create_vit``, the table is resized to it in float32 or wider:
    bicubic, smoothed when it shrinks; linear for more than two axes.

    Args:
        std: standard deviation of the vectors before training, 0.02 as in ViT. The patch embeddings that
            they are added to begin about thirty times as large.
        every_block: add the same table before each block, not before the first alone. A model of your own
            calls ``add`` that often; ``create_vit`` and ``create_decoder`` do. LaPE (Yu et al., 2022) also
            adds its code in each block, through a norm of its own.
    """

    def __init__(self, *, std: float = 0.02, every_block: bool = False, **shape: Unpack[Shape]) -> None:
        super().__init__(**shape)
        if self.grid is None:
            raise InputError("encoding 'learned' needs grid=, the tokens along each axis.")
        check_positive(std=std)
        self.std = float(std)
        self.every_block = every_block
        self.built = self.grid
        self.table = nn.Parameter(torch.empty(math.prod(self.grid), self.heads * self.head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.trunc_normal_(self.table, std=self.std, a=-100 * self.std, b=100 * self.std)

    def code(self, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        """The vector of each place, see the class.

        Only ``grid`` resizes the table. Positions without ``grid`` are looked up, so that a shorter sequence
        gets the first vectors of the longer one.
        """
        return self._looked_up(positions) if grid is None else self._resized(tuple(grid))

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
