"""Encodings that let queries and keys travel round a ring of channels: the RollPE family.

Here: roll, multiplexed-roll, continuous-roll, torus-roll and the rotary twin of roll. Not here: the
mathematics of the shift itself, its generator and its Fourier form (rollpe/operators.py).

Direction: S is the matrix as printed in Eq. 2 of the paper, (S x)_i = x_{i+1 mod n}, so that
S^p x = torch.roll(x, -p); ``direction=-1`` selects the mirror image torch.roll(x, +p). The score of a query
at p_q and a key at p_k is qᵀ S^{p_k - p_q} k / √d (Eq. 3, Appendix B).
"""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor

from rollpe.encodings.base import Encoding, are_integers, check_positions, register
from rollpe.errors import InputError


class _Ring(Encoding):
    """What all members of the family share: n rolled channels at the start of each axis' share."""

    acts_on = "scores"

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        axes: int,
        grid: tuple[int, ...] | None,
        width: int | None,
        direction: int,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, axes=axes, grid=grid)
        if width is not None and not 1 <= width <= self.part:
            raise InputError(
                f"width={width} does not fit: head_dim={head_dim} on axes={axes} leaves"
                f" 1 to {self.part} channels to roll."
            )
        if direction not in (1, -1):
            raise InputError(f"direction={direction} must be 1 (as printed in Eq. 2) or -1.")
        self.width = self.part if width is None else width
        self.direction = direction

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, width={self.width}"


def warn_of_aliasing(width: float, grid: tuple[int, ...] | None) -> None:
    """Warn once if a ring of this length cannot tell all signed offsets of the grid apart."""
    longest = max(grid, default=1) if grid else 1
    if width < 2 * longest - 1:
        warnings.warn(
            f"a ring of n={width:g} channels cannot tell offset Δ from Δ-{width:g}:"
            f" {longest} tokens along an axis need n >= {2 * longest - 1}.",
            stacklevel=3,
        )


@register("roll")
class Roll(_Ring):
    """RollPE (the paper's Eq. 2–3): queries and keys are rolled by their position.

    On the share of axis a, the first n = ``width`` channels become S^{p_a} x; the others carry no
    position. The result is the input's own numbers in another order, hence exact in every dtype.

    No parameters; integer positions; norm preserving; relative, displacements counting modulo n. Cost: one
    gather for q and one for k.

    Args:
        width: n, channels rolled on each axis; all of head_dim // axes by default.
        direction: 1 for S as printed in Eq. 2, -1 for its mirror image.
        on_fraction: "error" refuses positions between integers, "round" takes the nearest integer.
    """

    real_positions = False

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        axes: int = 2,
        grid: tuple[int, ...] | None = None,
        width: int | None = None,
        direction: int = 1,
        on_fraction: str = "error",
    ) -> None:
        super().__init__(
            head_dim=head_dim, heads=heads, axes=axes, grid=grid, width=width, direction=direction
        )
        if on_fraction not in ("error", "round"):
            raise InputError(f"on_fraction={on_fraction!r} must be 'error' or 'round'.")
        self.on_fraction = on_fraction
        warn_of_aliasing(self.width, self.grid)

    def whole_positions(self, positions: Tensor, tokens: int) -> Tensor:
        """Positions as integers [..., N, axes], 0 for the tokens without one."""
        check_positions(positions, tokens, self.axes)
        if self.on_fraction == "error" and not are_integers(positions):
            raise InputError(
                f"encoding {self.name!r} needs whole positions: use 'continuous-roll',"
                " or on_fraction='round'."
            )
        whole = positions.round().long() if positions.is_floating_point() else positions.long()
        return F.pad(whole, (0, 0, tokens - whole.shape[-2], 0))

    def source_channels(self, whole: Tensor) -> Tensor:
        """For every token and channel, the channel its value comes from: [..., N, d], int64."""
        ring = torch.arange(self.width, device=whole.device)
        channels = []
        for axis in range(self.axes):
            start = axis * self.part
            shift = self.direction * whole[..., axis : axis + 1]
            channels.append(start + (ring + shift) % self.width)
            rest = torch.arange(start + self.width, start + self.part, device=whole.device)
            channels.append(rest.expand(*whole.shape[:-1], -1))
        rest = torch.arange(self.axes * self.part, self.head_dim, device=whole.device)
        channels.append(rest.expand(*whole.shape[:-1], -1))
        return torch.cat(channels, -1)

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Source channels, [N, d] or [B, 1, N, d]."""
        source = self.source_channels(self.whole_positions(positions, like.shape[-2]))
        return (source if positions.dim() == 2 else source.unsqueeze(-3),)

    def encode(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return x.gather(-1, tables[0].expand(x.shape))

    def rolled(self, x: Tensor, positions: Tensor, speed: int = 1) -> Tensor:
        """Roll [B, heads, N, d] token by token with torch.roll: the reference of ``scores``."""
        whole = self.whole_positions(positions, x.shape[-2]).expand(x.shape[0], -1, -1)
        out = x.clone()
        for image in range(x.shape[0]):
            for token in range(x.shape[2]):
                for axis in range(self.axes):
                    ring = slice(axis * self.part, axis * self.part + self.width)
                    shift = -self.direction * speed * int(whole[image, token, axis])
                    out[image, :, token, ring] = x[image, :, token, ring].roll(shift, -1)
        return out

    def scores(self, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        """Roll each token by itself, then take all dot products; [B, heads, N, N]."""
        q, k = self.rolled(q, positions), self.rolled(k, positions)
        return q @ k.transpose(-2, -1) * self.head_dim**-0.5


@register("multiplexed-roll")
class MultiplexedRoll(Roll):
    """Multiplexed RollPE (the paper's Eq. 11–12): a sum of W rolls at different speeds.

    Queries and keys arrive as W streams, [B, heads, N, W·d] with the waves one after another, and leave as
    Σ_w S^{s_w p} x^(w), [B, heads, N, d]. Cross terms between waves make the score depend on absolute
    positions; the wave of speed s has period n / gcd(s, n).

    No parameters here, but W·d more query and key channels: (W - 1)·2·dim² weights a layer. Integer
    positions; not norm preserving; not relative for W > 1. Cost: W gathers and W - 1 additions, for q and k.

    Args:
        waves: W.
        scale: "none" as printed, where independent streams give logits W² times the variance; "sqrt"
            divides q and k by √W, which undoes that; "mean" divides them by W.
        speeds: the s_w, integers; 1, …, W by default.
        width, direction, on_fraction: see ``Roll``.
    """

    relative = False
    preserves_norm = False

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        axes: int = 2,
        grid: tuple[int, ...] | None = None,
        waves: int = 2,
        scale: str = "none",
        speeds: tuple[int, ...] | None = None,
        width: int | None = None,
        direction: int = 1,
        on_fraction: str = "error",
    ) -> None:
        super().__init__(
            head_dim=head_dim,
            heads=heads,
            axes=axes,
            grid=grid,
            width=width,
            direction=direction,
            on_fraction=on_fraction,
        )
        if waves < 1:
            raise InputError(f"waves={waves} must be at least 1.")
        factors = {"none": 1.0, "sqrt": waves**-0.5, "mean": 1.0 / waves}
        if scale not in factors:
            raise InputError(f"scale={scale!r} must be one of {', '.join(factors)}.")
        self.speeds = tuple(range(1, waves + 1)) if speeds is None else tuple(speeds)
        if len(self.speeds) != waves or any(int(speed) != speed for speed in self.speeds):
            raise InputError(f"speeds={self.speeds} must be {waves} whole numbers, one per wave.")
        self.streams = self.waves = waves
        self.scale = scale
        self.factor = factors[scale]

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Source channels over all waves, [N, W·d] or [B, 1, N, W·d]."""
        whole = self.whole_positions(positions, like.shape[-2])
        source = torch.cat(
            [
                wave * self.head_dim + self.source_channels(speed * whole)
                for wave, speed in enumerate(self.speeds)
            ],
            -1,
        )
        return (source if positions.dim() == 2 else source.unsqueeze(-3),)

    def encode(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        rolled = super().encode(x, tables).unflatten(-1, (self.waves, self.head_dim)).sum(-2)
        return rolled if self.factor == 1 else rolled * self.factor

    def scores(self, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        """Roll each wave of each token by itself, add the waves, take all dot products."""
        q, k = (
            sum(
                self.rolled(wave, positions, speed) * self.factor
                for wave, speed in zip(x.split(self.head_dim, -1), self.speeds, strict=True)
            )
            for x in (q, k)
        )
        return q @ k.transpose(-2, -1) * self.head_dim**-0.5
