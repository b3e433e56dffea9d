"""Encodings that rotate pairs of channels: pair i of a token at p turns by Σ_a ω_ia p_a.

One class does it, ``Rotary``, and `rollpe.encodings.frequencies` has the tables ω that others published.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from rollpe import formulas
from rollpe.encodings.base import Encoding, Shape
from rollpe.encodings.channels import rotate, rotate_halves
from rollpe.encodings.frequencies import (
    SPACINGS,
    OfLength,
    axial,
    geometric,
    longest_wavelength,
    mixed,
    spaced,
    uniform,
)
from rollpe.encodings.positions import constant, farthest, listed, numbers_of, with_axis
from rollpe.encodings.registry import register
from rollpe.errors import InputError, check_choice, check_positive
from rollpe.names import Pairing
from rollpe.ring import rotate_pairs


class Rotary(Encoding):
    """Base of encodings that rotate channel pairs by Σ_a ω_ia p_a (Su et al., 2021, Eq. 34).

    A subclass defines the table ω, ``omega``, or the ``angles`` themselves. Angles, their cosines and sines
    are computed in float32 (float64 for float64 queries) outside autocast; the rotation itself is done in
    that precision and its result cast back to the dtype of the queries. Channels beyond the pairs carry no
    position.
    """

    acts_on = "scores"
    layout: Pairing = "interleaved"
    temperature = 1.0  # factor of queries and keys alike
    pairs: int

    def omega(self, positions: Tensor) -> Tensor:
        """ω [(heads,) pairs, axes] in the dtype of positions and on their device; see ``angles``."""
        raise TypeError(f"{type(self).__name__} does not define omega().")

    def angles(self, positions: Tensor, like: Tensor) -> Tensor:
        """Angles of all channel pairs: [N, axes] or [B, 1, N, axes], float32 or float64, to [..., N, pairs].

        One set for all heads, or [..., heads, N, pairs].
        """
        return formulas.rotation_angles(positions, self.omega(positions))

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines [..., N, pairs], stacked so that a compiler stores them."""
        angles = self.angles(positions, like)
        turns = torch.stack((angles.cos(), angles.sin()))
        return (turns if self.temperature == 1 else self.temperature * turns).unbind()

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return (rotate if self.layout == "interleaved" else rotate_halves)(x, *tables)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = self.angles(positions, x)
        width = 2 * angles.shape[-1]
        turned = self.temperature * rotate_pairs(x[..., :width], angles, self.layout)
        return torch.cat((turned, x[..., width:]), -1)

    def shift_keys(self, keys: Tensor, by: float | Tensor) -> Tensor:
        moved = super().shift_keys(keys, by)
        if self.temperature == 1:
            return moved
        width = 2 * self.pairs
        return torch.cat((moved[..., :width] / self.temperature, moved[..., width:]), -1)


class _Chosen(Rotary):
    """Base of the encodings whose frequencies are an option.

    pairs: rows of the table. learned_frequencies: the table as a parameter, or None where it is fixed.
    """

    angular = ("learned_frequencies",)
    learned_frequencies: nn.Parameter | None

    def choose(
        self,
        pairs: int,
        base: float,
        frequencies: str | tuple[float, ...] | Tensor,
        wavelengths: tuple[float, ...] | None,
        learn: bool,
    ) -> None:
        """Keep what makes the table, of at most so many pairs; InputError for what does not fit."""
        check_positive(base=base)
        self.base, self.pairs = float(base), pairs
        self.frequencies, self.wavelengths = frequencies, None if wavelengths is None else tuple(wavelengths)
        make: tuple[Callable[..., Tensor], *tuple[Any, ...]]
        if not isinstance(frequencies, str):
            table = torch.as_tensor(frequencies, dtype=torch.float64, device="cpu")
            self.pairs = table.shape[0 if table.dim() == 1 else -2]
            if wavelengths is not None or not 1 <= self.pairs <= pairs:
                raise InputError(
                    f"frequencies of shape {list(table.shape)} must be 1 to {pairs} numbers, one for each"
                    " channel pair, without wavelengths."
                )
            make = listed, numbers_of(table)
        elif frequencies not in SPACINGS:
            raise InputError(f"frequencies={frequencies!r} must be 'geometric', 'arithmetic' or numbers.")
        elif frequencies == "geometric" and wavelengths is None:
            make = geometric, pairs, self.base
        else:
            ends = self.wavelengths or (2 * math.pi, longest_wavelength(pairs, self.base))
            if len(ends) != 2 or not 0 < ends[0] <= ends[1]:
                raise InputError(f"wavelengths={list(ends)} must be the shortest wave and the longest.")
            make = spaced, pairs, *ends, frequencies
        self.make, self.learned_frequencies = make, None
        if learn:
            self.learned_frequencies = nn.Parameter(torch.empty_like(self.start(torch.zeros(()))))
            self.reset_parameters()

    def start(self, like: Tensor) -> Tensor:
        """The table that was chosen, in the dtype and on the device of ``like``."""
        make, *arguments = self.make
        return constant(make, *arguments, device=like.device, dtype=like.dtype)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Let learned frequencies start anew from the chosen ones."""
        if self.learned_frequencies is not None:
            self.learned_frequencies.copy_(self.start(self.learned_frequencies))

    def theta(self, like: Tensor) -> Tensor:
        """The table as it was given or learned, in the dtype and on the device of ``like``."""
        return (
            self.start(like) if self.learned_frequencies is None else self.learned_frequencies.to(like.dtype)
        )


@register("rope")
class Rope(_Chosen):
    """Rotary encoding (Su et al., 2021, Eq. 15 and 34), with frequencies of one's own.

    On a sequence pair i of all m = ⌊head_dim / 2⌋ is turned by p·ω_i, by default with ω_i = base^(-i/m). On
    several axes give a table, [pairs, axes], by which pair i turns by Σ_a ω_ia p_a; a raster index in place
    of rows and columns would make the end of one row and the start of the next neighbors. Tables of other
    papers are in `rollpe.encodings.frequencies`.

    Frequencies that are a function of the length of a text, largest position + 1, are taken for each sequence
    by its positions in that call. Keys in a cache keep the frequencies of the length at which they were
    encoded, and scores are not relative.

    No parameters, or the table with ``learn_frequencies``; any real position; relative, but for functions of
    the length; norm preserving, but for a ``temperature``. Cost: 2 multiplications and 1 addition per channel
    of q and k.

    Args:
        base: sets the slowest wave.
        frequencies: "geometric", in equal ratios as published; "arithmetic", in equal steps as on a ring; the
            frequencies themselves, in radians per position, [pairs], [pairs, axes] or [heads, pairs, axes];
            or a function of the length. With fewer pairs than fit, the last channels carry no position.
        wavelengths: the shortest and the longest wave, in positions; by default 2π and 2π·base^(1-1/m), and
            ``base`` has no effect otherwise.
        learn_frequencies: make the table a parameter of each layer, which starts there.
        temperature: factor of queries and keys alike, as YaRN and LongRoPE have it.
        layout: "interleaved" pairs channels (2i, 2i+1) as the paper does, "half" pairs (i, i + m) as
            Llama does. The two differ by a fixed permutation of the channels.
    """

    usual_axes = 1
    of_length: OfLength | None = None

    def __init__(
        self,
        *,
        base: float = 10000.0,
        frequencies: str | tuple[float, ...] | Tensor | OfLength = "geometric",
        wavelengths: tuple[float, ...] | None = None,
        learn_frequencies: bool = False,
        temperature: float = 1.0,
        layout: Pairing = "interleaved",
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(**shape)
        self.learned_frequencies = None
        pairs = pairs_of_axis(self.head_dim, 1)
        check_choice("layout", layout, formulas.LAYOUTS)
        check_positive(temperature=temperature)
        self.layout, self.temperature = layout, float(temperature)
        if callable(frequencies):
            if wavelengths is not None or learn_frequencies:
                raise InputError("a function of the length comes without wavelengths and is not learned.")
            self.wavelengths, self.of_length, self.relative, shape_of = None, frequencies, False, [0]
        else:
            self.choose(pairs, base, frequencies, wavelengths, learn_frequencies)
            shape_of = [*self.start(torch.zeros(())).shape]
        self.per_head = len(shape_of) == 3
        if self.axes != (1 if len(shape_of) == 1 else shape_of[-1]):
            raise InputError(
                f"frequencies of shape {shape_of} do not fit axes={self.axes}: encoding 'rope' needs"
                " [pairs, axes] on several axes, or use 'axial-rope'."
            )
        if self.per_head and shape_of[0] != self.heads:
            raise InputError(f"frequencies of {shape_of[0]} heads do not fit heads={self.heads}.")

    def omega(self, positions: Tensor) -> Tensor:
        if self.of_length is not None:
            return self.of_length(positions.amax((-2, -1)) + 1)[..., None]  # [pairs, 1] or [B, 1, pairs, 1]
        theta = self.theta(positions)
        return theta[:, None] if theta.dim() == 1 else theta


@register("xpos")
class XPos(Rotary):
    """Rotary encoding of a sequence with scores that fade into the past (Sun et al., 2022, section 3).

    Pair i of the c = 2·⌊head_dim / 2⌋ channels is turned by p·ω_i as in ``rope``. Queries are also multiplied
    by ζ_i^(p/s) and keys by ζ_i^(-p/s), with ζ_i = (2i/c + γ)/(1 + γ) < 1 and s = ``span``. So pair i of a
    score has the factor ζ_i^((m-n)/s) for a query at m and a key at n: fast pairs fade first.

    For causal attention: towards later keys the factor grows instead, up to (1 + 1/γ)^((n-m)/s).
    Queries and keys carry factors of their positions, not of the offset. Positions whose factor would leave
    the range of the dtype are refused: at γ = 0.4 those beyond 69·span (35,000 tokens) in float32 and
    bfloat16, and beyond 7·span in float16. Only differences count, so a longer sequence may start at a
    negative position.

    No parameters; any real position; relative; not norm preserving. Cost: as ``rope``.

    Args:
        base: sets the slowest wave.
        gamma: γ, above 0; smaller numbers let fast pairs fade faster.
        span: s, the tokens in which pair i fades by the factor ζ_i.
    """

    usual_axes = 1

    def __init__(
        self, *, base: float = 10000.0, gamma: float = 0.4, span: float = 512.0, **shape: Unpack[Shape]
    ) -> None:
        super().__init__(**shape)
        if self.axes != 1:
            raise InputError(f"encoding 'xpos' has one axis, not axes={self.axes}: use 'axial-rope'.")
        self.pairs = pairs_of_axis(self.head_dim, 1)
        check_positive(base=base, gamma=gamma, span=span)
        self.base, self.gamma, self.span = float(base), float(gamma), float(span)

    def omega(self, positions: Tensor) -> Tensor:
        theta = constant(geometric, self.pairs, self.base, device=positions.device, dtype=positions.dtype)
        return theta[:, None]

    def full_positions(self, positions: Tensor, like: Tensor) -> Tensor:
        ready = super().full_positions(positions, like)
        reach = self.span * -math.log(torch.finfo(like.dtype).tiny) / math.log(1 + 1 / self.gamma)
        if (far := farthest(with_axis(positions, 1))) > reach:
            raise InputError(
                f"position {far:g} is beyond ±{reach:.0f}, where the factors of 'xpos' leave the range of"
                f" {like.dtype}: only differences count, so subtract the same number from all positions."
            )
        return ready

    def fading(self, positions: Tensor) -> Tensor:
        """ζ_i^(p/s), [..., N, pairs]."""
        zeta = constant(
            formulas.xpos_scales, self.pairs, self.gamma, device=positions.device, dtype=positions.dtype
        )
        return zeta ** (positions / self.span)

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines [..., N, pairs] for queries, then for keys."""
        (cos, sin), scale = super().tables(positions, like), self.fading(positions)
        return cos * scale, sin * scale, cos / scale, sin / scale

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return rotate(x, *tables[:2])

    def transform_keys(self, k: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return rotate(k, *tables[2:])

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        return self._faded(x, positions, 1)

    def reference_keys(self, k: Tensor, positions: Tensor) -> Tensor:
        return self._faded(k, positions, -1)

    def _faded(self, x: Tensor, positions: Tensor, sign: int) -> Tensor:
        factors = self.fading(sign * positions).repeat_interleave(2, -1)
        width = factors.shape[-1]
        turned = super().reference(x, positions)
        return torch.cat((turned[..., :width] * factors, turned[..., width:]), -1)


def pairs_of_axis(head_dim: int, axes: int) -> int:
    """Channel pairs on each axis, at least one."""
    if head_dim < 2 * axes:
        raise InputError(
            f"head_dim={head_dim} is too narrow for a channel pair on each of axes={axes}:"
            f" use at least {2 * axes}."
        )
    return head_dim // (2 * axes)


@register("axial-rope")
class AxialRope(_Chosen):
    """Rotary encoding of each axis on its own share of the channels (Heo et al., 2024, Eq. 7–8).

    Each axis owns c = 2·⌊head_dim / (2·axes)⌋ consecutive channels. Their pair i is turned by ω_i p_a, by
    default with ω_i = base^(-2i/c); channels left over carry no position. With two axes this equals timm's
    ``RotaryEmbeddingCat(in_pixels=False, temperature=base)``. rope-vit has columns (x) before rows (y): the
    first half of its channels, and ``freqs[0]`` of its mixed RoPE, belong to our axis 1.

    No parameters, or c/2 with ``learn_frequencies``; any real position; norm preserving; relative. Cost: 2
    multiplications and 1 addition per channel of q and k.

    Args:
        base: sets the slowest wave; 100 is the published choice for images, 10000 for text.
        frequencies: see ``Rope``; one for each pair of an axis. Axes that differ are a table for ``rope``.
        learn_frequencies: make them a parameter [pairs] of each layer, which starts there. All axes share it.
        wavelengths: see ``Rope``. (2, n) with "arithmetic" and n/2 pairs are the frequencies of a ring of n
            channels, without its resting one.
    """

    def __init__(
        self,
        *,
        base: float = 100.0,
        frequencies: str | tuple[float, ...] | Tensor = "geometric",
        wavelengths: tuple[float, ...] | None = None,
        learn_frequencies: bool = False,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(**shape)
        pairs = pairs_of_axis(self.head_dim, self.axes)
        self.choose(pairs, base, frequencies, wavelengths, learn_frequencies)
        if self.start(torch.zeros(())).dim() > 1:
            raise InputError("encoding 'axial-rope' has [pairs] for all axes: give other tables to 'rope'.")

    def omega(self, positions: Tensor) -> Tensor:
        return axial(*[self.theta(positions)] * self.axes)


@register("mixed-rope")
class MixedRope(Rotary):
    """Rotary encoding with learned frequencies for both axes on every pair (Heo et al., 2024, Eq. 14).

    Pair i of head h is turned by Σ_a ω_{h,a,i} p_a. As in the source, every layer and head has its own ω and
    starts from two bundles of waves at a right angle, `rollpe.encodings.frequencies.mixed`.

    Adds heads*axes*d/2 parameters. Any real position; norm preserving; relative. Cost: as axial-rope, but the
    angles are made anew in every pass and differ by head.

    Args:
        base: ratio of the initial speeds; 10 in the source.
    """

    per_head = True
    angular = ("frequencies",)

    def __init__(self, *, base: float = 10.0, **shape: Unpack[Shape]) -> None:
        super().__init__(**shape)
        d = self.head_dim
        if self.axes != 2:
            raise InputError(
                f"encoding 'mixed-rope' has two axes, not axes={self.axes}: use 'lie' with block=2."
            )
        if d % 4:
            raise InputError(f"head_dim={d} must be a multiple of 4 for two bundles of pairs.")
        check_positive(base=base)
        self.base = float(base)
        self.frequencies = nn.Parameter(torch.empty(self.heads, 2, d // 2))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the directions of the waves anew."""
        start = self.frequencies
        pairs = self.head_dim // 2
        start.copy_(mixed(self.heads, pairs, self.base, device=start.device, dtype=start.dtype).mT)

    def omega(self, positions: Tensor) -> Tensor:
        return self.frequencies.mT.to(positions.dtype)


@register("uniform-rope")
class UniformRope(Rotary):
    """Axial rotation at one speed for all pairs (van de Geijn et al., 2025, arXiv 2511.08368, section 4).

    The source: axial RoPE in which every rotation has the same frequency, set to one cycle across the image.
    It places patches evenly from -π to π and so, read to the letter, gives the first and the last patch of
    a row one angle, against its own wish that every position be unique. Our reading: all pairs on the
    channels of axis a are turned by ω_a p_a with ω_a = 2π/G_a, G_a tokens along a. Then positions differ, but
    the offsets Δ and Δ - G_a still look alike, as on a ring of n = G_a channels.
    The channels are shared out as in axial-rope. A larger image continues at the same speed.

    No parameters; any real position; norm preserving; relative. Cost: as axial-rope.

    Args:
        frequency: ω in radians per token on all axes, in place of one cycle across ``grid``.
    """

    def __init__(self, *, frequency: float | None = None, **shape: Unpack[Shape]) -> None:
        super().__init__(**shape)
        self.pairs = pairs_of_axis(self.head_dim, self.axes)
        self.frequency = frequency
        self.cycle = cycle(self.name, self.grid, self.axes, frequency)

    def omega(self, positions: Tensor) -> Tensor:
        return constant(uniform, self.pairs, self.cycle, device=positions.device, dtype=positions.dtype)


def cycle(
    name: str, grid: tuple[int, ...] | None, axes: int, frequency: float | None
) -> tuple[float, ...] | tuple[int, ...]:
    """Tokens of one cycle on each axis: the grid, or by a given frequency in radians per token."""
    if frequency is not None:
        return (2 * math.pi / frequency,) * axes
    if grid is None:
        raise InputError(
            f"encoding {name!r} turns once per image: give grid=, or frequency= in radians per token."
        )
    return grid
