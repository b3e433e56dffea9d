"""Encodings that roll queries and keys around a ring of channels: the RollPE family.

Direction: S is the matrix as printed in the paper's Eq. 2, (S x)_i = x_{i+1 mod n}, so that
S^p x = torch.roll(x, -p); ``direction=-1`` selects the mirror image torch.roll(x, +p). The score of a query
at p_q and a key at p_k is qᵀ S^{p_k - p_q} k / √d (Eq. 3, Appendix B).

Axes: a head is cut into ``axes`` equal shares. On each, the first n = ``width`` channels form the ring; the
others, and those that the cut leaves over, carry no position.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from rollpe import ring
from rollpe.encodings.base import Encoding, PairPositions, Shape
from rollpe.encodings.channels import gather, in_order, rotate
from rollpe.encodings.positions import constant, spans, with_axis
from rollpe.encodings.registry import register
from rollpe.encodings.rotary import Rotary
from rollpe.encodings.sdpa import table_dtype
from rollpe.errors import InputError, check_choice, check_whole
from rollpe.names import Nyquist, WaveScale

DIRECTIONS = (1, -1)


class _OnRings(Encoding):
    """Base of encodings whose offsets count modulo a period on each axis.

    They warn once, when they are built for a grid, at the first pass over positions or in decoding, if a ring
    does not distinguish its offsets. A compiled graph does not know its positions and does not warn.
    """

    acts_on = "scores"
    periods: tuple[float, ...] = ()
    warned: bool = False

    def set_periods(self, periods: Sequence[float]) -> None:
        """Set the periods of the axes' rings, at the end of ``__init__``."""
        self.periods = tuple(periods)
        if self.grid is not None:
            self.warn_of_aliasing([size - 1 for size in self.grid])

    def full_positions(self, positions: Tensor, like: Tensor) -> Tensor:
        ready = super().full_positions(positions, like)
        if not torch.compiler.is_compiling() and not self.warned:
            self.warn_of_aliasing(spans(with_axis(positions, self.axes)))
        return ready

    def _decode(
        self, q: Tensor, keys: Tensor, values: Tensor, here: Tensor, there: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        if not torch.compiler.is_compiling() and not self.warned:
            known, tokens = here if there is None else there, keys.shape[-2]
            newest = self.axes == 1 and known.shape[-2] < tokens  # of a sequence; the others came before
            self.warn_of_aliasing((tokens - 1,) if newest else spans(known), signs=1)
        return super()._decode(q, keys, values, here, there, mask)

    def warn_of_aliasing(self, farthest: Iterable[float], signs: int = 2) -> None:
        """Warn if a ring does not distinguish all offsets of one or both signs up to the axis's farthest."""
        for axis, (n, span) in enumerate(zip(self.periods, farthest, strict=False)):
            if n < signs * span + 1:
                self.warned = True
                warnings.warn(
                    f"aliased offsets on axis {axis}: a ring of period {n:g} takes offset Δ for Δ − {n:g};"
                    f" {span + 1:g} tokens need at least {signs * span + 1:g}"
                    + (f", or {span + 1:g} where attention is causal." if signs == 2 else "."),
                    stacklevel=3,
                )


class _WholeRoll(_OnRings):
    """Base of encodings that roll by whole channels: integer positions."""

    real_positions = False

    def __init__(self, *, direction: int, **shape: Unpack[Shape]) -> None:
        super().__init__(**shape)
        check_choice("direction", direction, DIRECTIONS)
        self.direction = direction

    def source_channels(self, shifts: Tensor) -> Tensor:
        """For shifts [..., axes], the source channel of each channel: int64 [..., d]."""
        raise TypeError(f"{type(self).__name__} does not define source_channels().")

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Where each token's channels come from and where they go to, each [N, d] or [B, 1, N, d]."""
        shifts = self.direction * positions
        return self.source_channels(shifts), self.source_channels(-shifts)

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        index, inverse = tables
        return gather(x, index, inverse)


@register("roll")
class Roll(_WholeRoll):
    """RollPE (the paper's Eq. 2–3): queries and keys are rolled by their position.

    On the share of axis a the ring becomes S^{p_a} x. The result is the input's own numbers in another
    order, hence exact in every dtype.

    No parameters; integer positions; norm preserving; relative, offsets counting modulo n. Fractions are
    refused, but rounded where the values are unknown: in compiled and exported graphs and under ``vmap``.
    Cost: one gather for q and one for k, forward and backward (``rollpe bench`` measures it).

    Args:
        width: n, channels rolled on each axis; all of head_dim // axes by default. Several widths are rings
            side by side: offsets then count modulo their least common multiple, as residues do, while the
            scores of (31, 33) still span 63 functions of the offset (Kymn et al., 2024).
        direction: 1 for S as printed in Eq. 2, -1 for its mirror image.
    """

    width: int | tuple[int, ...]

    def __init__(
        self,
        *,
        width: int | tuple[int, ...] | None = None,
        direction: int = 1,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(direction=direction, **shape)
        self.rings = checked_rings(width, self.part)
        self.width = width if isinstance(width, tuple) else self.rings[0]
        self.set_periods([math.lcm(*map(self.period, self.rings))] * self.axes)

    def period(self, n: int) -> int:
        """The period of a ring of n channels."""
        return n

    def around(self, shifts: Tensor) -> tuple[Tensor, Tensor]:
        """For shifts [..., axes], the source channel of each channel and its laps, int64 [..., d]."""
        source, laps = [], []
        for axis in range(self.axes):
            start = axis * self.part
            for n in self.rings:
                place = torch.arange(n, device=shifts.device) + shifts[..., axis : axis + 1]
                source.append(start + place % n)
                laps.append(place // n)
                start += n
            end = self.head_dim if axis == self.axes - 1 else (axis + 1) * self.part
            still = torch.arange(start, end, device=shifts.device).expand(*shifts.shape[:-1], -1)
            source.append(still)
            laps.append(torch.zeros_like(still))
        return torch.cat(source, -1), torch.cat(laps, -1)

    def source_channels(self, shifts: Tensor) -> Tensor:
        return self.around(shifts)[0]

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        return ring.axial_roll(x, self.direction * positions, self.width)


@register("twisted-roll")
class TwistedRoll(Roll):
    """RollPE with a twist: what leaves an even ring comes back with its sign reversed (negacyclic shift).

    On the share of axis a the ring becomes T^{p_a} x, T = S with the corner entry times (-1)^{n-1}. For
    every n, T = exp(A) with A_jl = (π/n)(-1)^{j-l} / sin(π(j-l)/n). For even n all channels are paired: it is
    RoPE with the angles π/n, 3π/n, …, (n-1)π/n, of period 2n, and a shift by n reverses the ring's part of
    the score. For odd n it is ``roll``. ``continuous-roll`` with nyquist="twist" does it at real positions.

    Another ``twist`` takes pairs of rings of n channels and turns the pair by φ = 2π·twist where it closes:
    the angles are (2πk + φ)/n for k = 0, …, n-1, and the period is n/twist if 1/twist is an integer.

    No parameters; integer positions; norm preserving; relative. Exact in every dtype for a sign; other twists
    compute angles in float32 (float64 for float64 queries). Cost: one gather and one product with signs for q
    and one for k; another twist adds a second gather.

    Args:
        twist: turns of a pair of rings where it closes. 0.5, half a turn, is the sign and needs no pair.
        width: n, channels of one ring; by default all of head_dim // axes, or half of it for a pair. Several
            widths are rings side by side, as in ``Roll``, with the default twist.
        direction: see ``Roll``.
    """

    def __init__(
        self,
        *,
        twist: float = 0.5,
        width: int | tuple[int, ...] | None = None,
        direction: int = 1,
        **shape: Unpack[Shape],
    ) -> None:
        if twist == 0.5:
            super().__init__(width=width, direction=direction, **shape)
        else:
            super(Roll, self).__init__(direction=direction, **shape)
            if self.part < 2 or isinstance(width, tuple):
                raise InputError(
                    f"twist={twist:g} needs two rings of one width on each axis, not width={width} on"
                    f" {self.part} channels: give one width, or the default twist."
                )
            (self.width,) = checked_rings(width, self.part // 2)
            self.rings = (self.width, self.width)
            self.set_periods([self.width * whole_laps(twist)] * self.axes)
        self.twist = twist

    def period(self, n: int) -> int:
        return n if n % 2 else 2 * n

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Where channels come from and go to, and their factors, each [N, d] or [B, 1, N, d].

        Factors are signs for the default twist; else cosines and sines, and then the same two places on the
        other ring of the pair.
        """
        shifts = self.direction * positions
        source, laps = self.around(shifts)
        indices = source, self.source_channels(-shifts)
        if self.twist == 0.5:
            reversed_ = laps % 2 * self.by_ring([1 - n % 2 for n in self.rings], laps.device)
            return *indices, (1 - 2 * reversed_).to(table_dtype(like))
        angles = 2 * math.pi * torch.remainder(self.twist * laps.to(table_dtype(like)), 1)
        side = self.by_ring([-1, 1], laps.device)  # (x, y) becomes (x cos - y sin, y cos + x sin)
        other = (index - side * self.rings[0] for index in indices)
        return *indices, angles.cos(), side * angles.sin(), *other

    def by_ring(self, values: Sequence[int], device: torch.device) -> Tensor:
        """One value for each ring of an axis, spread over its channels, and 0 for other channels: [d]."""
        rings = zip(self.rings, values, strict=True)
        share = torch.cat([torch.full((n,), value, device=device) for n, value in rings])
        shares = F.pad(share, (0, self.part - len(share))).repeat(self.axes)
        return F.pad(shares, (0, self.head_dim - len(shares)))

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        moved = super().transform(x, tables[:2])
        if self.twist == 0.5:
            return moved * tables[2].to(x.dtype)
        cos, sin, *other = tables[2:]
        return (moved * cos + super().transform(x, tuple(other)) * sin).to(x.dtype)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        shifts = self.direction * positions
        if self.twist == 0.5:
            return ring.axial_roll(x, shifts, self.width, ring.twisted_roll)
        pair = partial(ring.twisted_pair_roll, twist=self.twist)
        return ring.axial_roll(x, shifts, 2 * self.rings[0], pair)


class _InFourierBasis(Rotary):
    """Base of encodings that rotate the Fourier coordinates of rings of ``width`` channels.

    The first coordinate pairs turn by ``angles``; after them each axis may have one ``lone`` coordinate that
    is multiplied by a number; all others rest.
    """

    width: Any  # n
    _rings: int = 1  # on the channels of one axis
    _twisted: bool = False  # whether what leaves a ring comes back with its sign reversed

    def rotary_basis(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """The orthogonal matrix [d, d] from channels to Fourier coordinates, see ``fourier_basis``."""
        kind = self.head_dim, self.axes, self.width, self._rings, self._twisted
        device, dtype = device or torch.device("cpu"), dtype or torch.float32
        return constant(fourier_basis, *kind, device=device, dtype=dtype)

    def modes(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Mode numbers k of the coordinate pairs of one axis; see ``ring_modes``."""
        return constant(ring_modes, self.width, self._rings, self._twisted, device=device, dtype=dtype)

    def lone(self, positions: Tensor) -> Tensor | None:
        """Factors [..., N, axes] of the coordinates without a partner; None for 1."""
        return None

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines [..., N, d // 2], and factors [..., N, d] if there are lone coordinates.

        The cosines of 1 and sines of 0 of resting pairs let ``rotate`` pass once over an even head, and
        x·1 - y·0 = x exactly in every dtype if y is finite.
        """
        angles, lone = self.angles(positions, like), self.lone(positions)
        rest = (0, self.head_dim // 2 - angles.shape[-1])
        cos, sin = F.pad(angles.cos(), rest, value=1.0), F.pad(angles.sin(), rest)
        if lone is None:
            return cos, sin
        before = 2 * angles.shape[-1]
        after = self.head_dim - before - lone.shape[-1]
        return cos, sin, F.pad(lone.to(cos.dtype), (before, after), value=1.0)

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        turned = rotate(x, *tables[:2])
        return turned if len(tables) == 2 else (turned * in_order(tables[2], x)).to(x.dtype)


@register("continuous-roll")
class ContinuousRoll(_OnRings, _InFourierBasis):
    """RollPE on real positions (the paper's Eq. 5 and 7): S(p) = exp(p A / λ), A = log S.

    S(p) multiplies the k-th Fourier coefficient of the ring by e^{2πi k p / (λ n)}, with k centered on 0.
    For λ = 1 and integer p this is the roll itself, except that an even n leaves the Nyquist mode
    k = n/2 without a partner: no real logarithm of S exists, and ``nyquist`` chooses what replaces it.

    - ``"fixed"``: ω = 0 on that mode. A real group, but S(1) differs from the roll on this one mode.
    - ``"cosine"``: the factor cos(πp/λ). S(1) is the roll, but neither norm nor relativity survive at
      fractional shifts.
    - ``"paired"``: two rings of even width, whose Nyquist modes turn into each other at ω = π/λ. A real
      group; at integers the roll.
    - ``"odd"``: an even width loses one channel, which carries no position.
    - ``"twist"``: the ring of ``twisted-roll``, k = ±½, ±3/2, …: all channels are paired. A real group of
      period 2λn; S(1) differs from the roll in the sign of one entry.

    An odd n needs none of them. No parameters; any real position; period λn; relative and norm preserving
    except for "cosine". Cost: one d×d product and one rotation each for q and k. ``forward`` returns the
    rolled vectors; ``attend`` stays in the Fourier basis, which does not change the scores.
    Angles and rotation in float32 (float64 for float64 queries); the basis change in the queries' dtype.

    Args:
        wavelength: λ, in units of the plain roll; any number but 0.
        nyquist: see above.
        width: n, channels of a ring; as many as fit by default.
        direction: 1 for S as printed in Eq. 2, -1 for its mirror image.
    """

    def __init__(
        self,
        *,
        wavelength: float = 1.0,
        nyquist: Nyquist = "fixed",
        width: int | None = None,
        direction: int = 1,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(**shape)
        check_choice("nyquist", nyquist, ring.NYQUIST)
        check_choice("direction", direction, DIRECTIONS)
        if wavelength == 0 or not math.isfinite(wavelength):
            raise InputError(f"wavelength={wavelength} must be a number other than 0.")
        if nyquist == "paired":
            if width is None:
                width = self.part // 4 * 2
            if width % 2 or not 2 <= width <= self.part // 2:
                raise InputError(
                    f"nyquist='paired' needs two rings of even width in the {self.part} channels of an"
                    f" axis, not width={width}: widen the head or use nyquist='fixed'."
                )
        (self.width,) = checked_rings(width, self.part)
        if nyquist == "odd" and self.width % 2 == 0:
            (self.width,) = checked_rings(self.width - 1, self.part)
        self.wavelength = float(wavelength)
        self.nyquist = nyquist
        self.direction = direction
        self._rings = 2 if nyquist == "paired" else 1
        self._twisted = nyquist == "twist" and self.width % 2 == 0
        self.fading = nyquist == "cosine" and self.width % 2 == 0
        self.relative = not self.fading
        self.set_periods([abs(wavelength) * self.width * (2 if self._twisted else 1)] * self.axes)

    def angles(self, positions: Tensor, like: Tensor) -> Tensor:
        period = self.wavelength * self.width
        k = self.direction * self.modes(positions.device, positions.dtype)
        turns = torch.remainder(positions[..., None] * k, period) / period
        return (2 * math.pi * turns).flatten(-2)  # [..., N, axes * modes]

    def lone(self, positions: Tensor) -> Tensor | None:
        return torch.cos(math.pi / self.wavelength * positions) if self.fading else None

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Those of ``_InFourierBasis``, then the basis [d, d]."""
        return *super().tables(positions, like), self.rotary_basis(like.device, like.dtype)

    def in_basis(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        """x in the Fourier basis, turned."""
        return super().transform(x @ tables[-1].T, tables[:-1])

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return (self.in_basis(x, tables) @ tables[-1]).to(x.dtype)

    def _for_score(self, q: Tensor, k: Tensor, places: PairPositions) -> tuple[Tensor, Tensor]:
        """In the Fourier basis, which queries and keys share."""
        k = self.in_basis(k, places[1].tables)
        return self.in_basis(q, places[0].tables), k

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        move = partial(ring.continuous_roll, wavelength=self.wavelength, nyquist=self.nyquist)
        return ring.axial_roll(x, self.direction * positions, self._rings * self.width, move)


@register("multiplexed-roll")
class MultiplexedRoll(Roll):
    """Multiplexed RollPE (the paper's Eq. 11–12): a sum of W rolls at different speeds.

    Queries and keys arrive as W waves, [B, heads, N, W·d] one after another, and leave as
    Σ_w S^{s_w p} x^(w), [B, heads, N, d]. Cross terms between waves make the score depend on absolute
    positions; the wave of speed s has period n / gcd(s, n).

    No parameters here, but W·d more query and key channels: 2(W - 1)·dim² more weights in a layer. Integer
    positions; not norm preserving; not relative for W > 1, unless all speeds are equal: then it rolls the sum
    of the waves. Cost: one gather of W·d channels and a sum, for q and for k.

    Args:
        waves: W.
        scale: "none" as printed, where independent streams give logits W² times the variance; "sqrt"
            divides q and k by √W, which undoes that; "mean" divides them by W.
        speeds: the s_w, integers; 1, …, W by default.
        width, direction: see ``Roll``.
    """

    relative = False
    width: int

    def __init__(
        self,
        *,
        waves: int = 2,
        scale: WaveScale = "none",
        speeds: tuple[int, ...] | None = None,
        width: int | None = None,
        direction: int = 1,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(width=width, direction=direction, **shape)
        check_whole(1, waves=waves)
        factors = {"none": 1.0, "sqrt": waves**-0.5, "mean": 1.0 / waves}
        check_choice("scale", scale, factors)
        self.speeds = tuple(range(1, waves + 1)) if speeds is None else tuple(speeds)
        if len(self.speeds) != waves or any(int(speed) != speed for speed in self.speeds):
            raise InputError(f"speeds={self.speeds} must be {waves} integers, one for each wave.")
        self.waves_in = self.waves = waves
        self.scale = scale
        self.factor = factors[scale]
        self.relative = len(set(self.speeds)) == 1  # equal speeds: a plain roll of the sum

    def source_channels(self, shifts: Tensor) -> Tensor:
        return torch.cat([super(MultiplexedRoll, self).source_channels(s * shifts) for s in self.speeds], -1)

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        index, inverse = tables
        rolled = gather(x, index, inverse, self.waves)
        return rolled if self.factor == 1 else rolled * self.factor

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        waves = x.unflatten(-1, (self.waves, self.head_dim))  # [B, heads, N, W, d]
        out = waves.sum(-2)
        for a, part in enumerate(ring.axis_slices(self.head_dim, self.axes, self.width)):
            p = self.direction * positions[..., a]
            out[..., part] = ring.multiplexed_roll(waves[..., part], p, self.speeds)
        return self.factor * out


@register("torus-roll")
class TorusRoll(_WholeRoll):
    """Roll on a sheet: the head's channels form a torus that is rolled along every axis at once.

    With two axes the first h·w channels are an h×w sheet, channel (r, s) at r·w + s, and
    x[r, s] ↦ x[(r + p_0) mod h, (s + p_1) mod w]. Where ``roll`` gives each axis its own channels, here
    every channel sees all axes. Three axes roll a box, one axis is ``roll``.

    No parameters; integer positions; exact in every dtype; norm preserving; relative, offsets counting
    modulo (h, w). Cost: as ``roll``.

    Args:
        sheet: channels along each axis; the most even division of head_dim by default.
        direction: see ``Roll``.
    """

    def __init__(
        self,
        *,
        sheet: tuple[int, ...] | None = None,
        direction: int = 1,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(direction=direction, **shape)
        d, axes = self.head_dim, self.axes
        self.sheet = even_division(d, axes) if sheet is None else tuple(sheet)
        if len(self.sheet) != axes or min(self.sheet) < 1 or math.prod(self.sheet) > d:
            raise InputError(
                f"sheet={self.sheet} must hold axes={axes} sizes whose product is at most head_dim={d}."
            )
        self.set_periods(self.sheet)

    def source_channels(self, shifts: Tensor) -> Tensor:
        device = shifts.device
        source = torch.zeros([1] * self.axes, dtype=torch.long, device=device)
        for axis, size in enumerate(self.sheet):
            shape = [1] * self.axes
            shape[axis] = size
            place = (shifts[..., axis : axis + 1] + torch.arange(size, device=device)) % size
            source = source * size + place.reshape(*shifts.shape[:-1], *shape)
        source = source.flatten(-self.axes)
        still = torch.arange(source.shape[-1], self.head_dim, device=device)
        return torch.cat((source, still.expand(*shifts.shape[:-1], -1)), -1)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        channels = math.prod(self.sheet)
        rolled = ring.torus_roll(x[..., :channels], self.direction * positions, self.sheet)
        return torch.cat((rolled, x[..., channels:]), -1)


@register("roll-twin")
class RollTwin(_InFourierBasis, Roll):
    """RollPE's rotary twin: rotation by ω_k p with ω_k = 2πk/n, directly on Fourier coordinates.

    What Eq. 7 of the paper calls equivalent to RoPE, with the Fourier transform absorbed in W_Q and W_K:
    ⌊(n - 1)/2⌋ channel pairs per axis turn by ω_k p, one channel stays, and for even n one more carries
    (-1)^p. The functions that twin and roll can express are the same, and ``absorb`` carries weights from
    roll to twin; the path of an optimizer that is not rotation invariant, such as Adam, is not.

    No parameters; integer positions; norm preserving; relative modulo n. Angles are reduced modulo n as
    integers, then computed in float32 (float64 for float64 queries). Cost: as a rotary encoding.

    Args:
        width: n, channels of the ring on each axis; all of head_dim // axes by default.
        direction: see ``Roll``.
    """

    width: int

    def __init__(
        self,
        *,
        width: int | None = None,
        direction: int = 1,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(width=width, direction=direction, **shape)

    def absorb(self, projection: Tensor) -> Tensor:
        """Rows of W_Q or W_K (or a bias) trained with ``roll`` as the twin needs them.

        Args:
            projection: [heads*d, dim] or [heads*d], rows head by head.

        Returns:
            The same shape; with it the twin's scores equal roll's to rounding.
        """
        basis = self.rotary_basis(projection.device, torch.float64)
        split = projection.double().unflatten(0, (self.heads, self.head_dim))
        return torch.einsum("cd,hd...->hc...", basis, split).flatten(0, 1).to(projection.dtype)

    def angles(self, positions: Tensor, like: Tensor) -> Tensor:
        k = self.direction * self.modes(positions.device, torch.int64)
        turns = (positions[..., None] * k) % self.width
        return (2 * math.pi / self.width * turns.to(table_dtype(like))).flatten(-2)

    def lone(self, positions: Tensor) -> Tensor | None:
        return 1 - 2 * (positions % 2) if self.width % 2 == 0 else None

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        """The roll on the ring, in Fourier coordinates."""
        basis = self.rotary_basis(x.device, x.dtype)
        return Roll.reference(self, x @ basis, positions) @ basis.T


def on_ring(encoding: Encoding, x: Tensor) -> Tensor:
    """Queries or keys [..., d] before encoding, in the channels that ``roll`` moves."""
    return x @ encoding.rotary_basis(x.device, x.dtype) if isinstance(encoding, RollTwin) else x


def twin_state_dict(state: dict[str, Tensor], twin: RollTwin) -> dict[str, Tensor]:
    """Weights of a transformer trained with ``roll`` for the same transformer with ``roll-twin``.

    Every ``*.attn.qkv.weight`` and ``*.attn.qkv.bias`` has the queries' rows first, then the keys', then the
    values'; the first two are carried over by ``twin.absorb``, all else is unchanged.
    """
    moved = dict(state)
    for name, value in state.items():
        if name.endswith(("attn.qkv.weight", "attn.qkv.bias")):
            q, k, v = value.chunk(3)
            moved[name] = torch.cat((twin.absorb(q), twin.absorb(k), v))
    return moved


def ring_modes(
    n: int, rings: int = 1, twisted: bool = False, *, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Mode numbers k of the coordinate pairs of one axis: 1, …, ⌊(n-1)/2⌋ for each ring, and n/2 for two.

    On a twisted ring ½, 3/2, …, (n-1)/2.
    """
    if twisted:
        return torch.arange(n // 2, device=device, dtype=dtype) + 0.5
    one = torch.arange(1, (n - 1) // 2 + 1, device=device, dtype=dtype)
    if rings == 1:
        return one
    return torch.cat((one, one, torch.full((1,), n // 2, device=device, dtype=dtype)))


def fourier_basis(
    head_dim: int,
    axes: int,
    n: int,
    rings: int,
    twisted: bool = False,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> Tensor:
    """Orthogonal matrix [d, d] whose rows are the real Fourier modes of all rings of a head.

    Row order: for each axis its pairs (√2 Re F_k, √2 Im F_k), k = 1, …, ⌊(n-1)/2⌋, ring after ring, and
    with two rings the pair of their Nyquist modes; then the lone Nyquist modes of all axes; then the
    constant modes; then the channels without position. F is the unitary DFT, F_kj = e^{-2πi kj/n}/√n, so a
    roll by p turns pair k by +2πkp/n. On twisted rings k = ½, 3/2, …, (n-1)/2; none is lone or constant.
    """
    wide = torch.float32 if device.type == "mps" else torch.float64  # as wide as the device can
    Q, frequencies = ring.real_fourier_basis(n, wide, device, twisted)
    modes = 2 * len(frequencies)
    pairs, constant_mode, nyquist = Q.T[:modes], Q.T[modes : modes + 1], Q.T[modes + 1 :]
    part = head_dim // axes

    def place(rows: Tensor, axis: int, ring: int) -> Tensor:
        start = axis * part + ring * n
        return F.pad(rows, (start, head_dim - start - n))

    turning: list[Tensor] = []
    lone: list[Tensor] = []
    still: list[Tensor] = []
    for axis in range(axes):
        turning += [place(pairs, axis, ring) for ring in range(rings)]
        still += [place(constant_mode, axis, ring) for ring in range(rings)]
        (turning if rings == 2 else lone).extend(place(nyquist, axis, ring) for ring in range(rings))
    unit = torch.eye(head_dim, dtype=wide, device=device)
    rest = [unit[axis * part + rings * n : (axis + 1) * part] for axis in range(axes)]
    return torch.cat((*turning, *lone, *still, *rest, unit[axes * part :])).to(dtype)


def even_division(channels: int, axes: int) -> tuple[int, ...]:
    """Sizes whose product is ``channels``, in order, the smallest as large as can be, then the next."""
    if axes == 1:
        return (channels,)
    divisors = [size for size in range(1, channels + 1) if channels % size == 0]
    return max(tuple(sorted((size, *even_division(channels // size, axes - 1)))) for size in divisors)


def checked_rings(width: int | tuple[int, ...] | None, part: int) -> tuple[int, ...]:
    """The lengths of the rings of a share; one ring of all its channels by default."""
    rings = width if isinstance(width, tuple) else (part if width is None else width,)
    if not rings or not all(isinstance(n, int) and n >= 1 for n in rings) or sum(rings) > part:
        raise InputError(f"width={width} does not fit: a ring has 1 to {part} channels.")
    return rings


def whole_laps(twist: float) -> float:
    """After how many laps a twist adds up to whole turns: 7 for 1/7; infinity beyond a million."""
    turns = Fraction(twist).limit_denominator(10**6)
    return turns.denominator if abs(turns - Fraction(twist)) < 1e-15 else math.inf
