"""Encodings that rotate pairs of channels by angles that grow with position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor, nn

from rollpe import formulas, ring
from rollpe.encodings.base import Encoding, Shape
from rollpe.encodings.positions import constant
from rollpe.encodings.registry import register
from rollpe.errors import InputError, check_choice, check_positive
from rollpe.names import Pairing, Scaling


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate channels (2i, 2i+1) of x, leaving the channels beyond the tables as they are.

    (x_2i, x_2i+1) ↦ (x_2i cos_i - x_2i+1 sin_i, x_2i+1 cos_i + x_2i sin_i).

    Args:
        x: [B, heads, N, d], any float dtype.
        cos, sin: broadcastable to [B, heads, N, pairs] with 2*pairs <= d.

    Returns:
        [B, heads, N, d] in x's dtype; the arithmetic is done in the wider dtype of x and the tables.
    """
    width = 2 * cos.shape[-1]
    if width < x.shape[-1]:
        return torch.cat((rotate(x[..., :width], cos, sin), x[..., width:]), -1)
    wide = x.to(torch.promote_types(x.dtype, cos.dtype)).unflatten(-1, (-1, 2))
    if torch.compiler.is_compiling() or not _holds_complex(wide):
        # Unbinding pairs, and not slicing every other channel, lets a compiler keep both in one loop.
        even, odd = wide.unbind(-1)
        out = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1)
    else:  # one pass over x; compilers and ONNX have no complex numbers
        out = torch.view_as_real(torch.view_as_complex(wide) * torch.complex(cos, sin))
    return out.flatten(-2).to(x.dtype)


def _holds_complex(pairs: Tensor) -> bool:
    """Whether pairs [..., 2] lie in memory as complex numbers do, on a device known to multiply them."""
    *steps, step = pairs.stride()
    aligned = step == 1 and not any(s % 2 for s in (pairs.storage_offset(), *steps))
    return aligned and pairs.device.type in ("cpu", "cuda")


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``rotate`` for channels (i, i + pairs)."""
    width = 2 * cos.shape[-1]
    if width < x.shape[-1]:
        return torch.cat((rotate_halves(x[..., :width], cos, sin), x[..., width:]), -1)
    first, second = x.contiguous().chunk(2, -1)  # four strided reads cost more than one copy
    turned = torch.addcmul(first * cos, second, sin, value=-1), torch.addcmul(second * cos, first, sin)
    return torch.cat(turned, -1).to(x.dtype)


class Rotary(Encoding):
    """Base of encodings that rotate channel pairs (2i, 2i+1) by an angle (Su et al., 2021, Eq. 34).

    A subclass defines ``angles`` and ``reference``. Angles, their cosines and sines are computed in float32
    (float64 for float64 queries) outside autocast; the rotation itself is done in that precision and its
    result cast back to the dtype of the queries.
    """

    acts_on = "scores"

    def angles(self, positions: Tensor) -> Tensor:
        """Angles of all channel pairs: [N, axes] or [B, 1, N, axes], float32 or float64, to [..., N, pairs].

        One set for all heads, or [..., heads, N, pairs]. Channels beyond 2*pairs are not rotated.
        """
        raise TypeError(f"{type(self).__name__} does not define angles().")

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines [..., N, pairs]."""
        return cos_sin(self.angles(positions))

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return rotate(x, *tables)


def cos_sin(angles: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines, stacked so that a compiler stores them: it would recompute them for every image."""
    cos, sin = torch.stack((angles.cos(), angles.sin()))
    return cos, sin


def along_axes(x: Tensor, positions: Tensor, frequencies: Sequence[Tensor]) -> Tensor:
    """RoPE by the textbook for each axis in turn, on the channels after those of the axis before it."""
    rotated, start = [], 0
    for p, theta in zip(positions.unbind(-1), frequencies, strict=True):
        channels = x[..., start : start + 2 * len(theta)]
        rotated.append(formulas.rope(channels, p, theta))
        start += 2 * len(theta)
    return torch.cat((*rotated, x[..., start:]), -1)


def spectrum(
    pairs: int,
    base: float,
    frequencies: str | tuple[float, ...],
    wavelengths: tuple[float, ...] | None,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> Tensor:
    """The frequencies [pairs] of an encoding with the options of ``_Spaced``, made on the device."""
    if not isinstance(frequencies, str):
        return listed(frequencies, device=device, dtype=dtype)
    i = torch.arange(pairs, device=device, dtype=dtype)
    if frequencies == "geometric" and wavelengths is None:
        return base ** (-i / pairs)
    fast, slow = (2 * math.pi / wave for wave in wavelengths or usual_wavelengths(pairs, base))
    along = i / max(pairs - 1, 1)
    return fast * (slow / fast) ** along if frequencies == "geometric" else fast + (slow - fast) * along


def listed(numbers: tuple[float, ...], *, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Numbers as a tensor on the device; torch.tensor would begin on the CPU, also in a compiled graph."""
    return torch.stack([torch.full((), number, device=device, dtype=dtype) for number in numbers])


def usual_wavelengths(pairs: int, base: float) -> tuple[float, float]:
    """RoPE's shortest and longest wave, in positions."""
    return 2 * math.pi, formulas.longest_wavelength(2 * pairs, base)


class _Spaced(Rotary):
    """Base of the encodings whose pairs' frequencies can be chosen.

    pairs: channel pairs of one axis.
    learned_frequencies: ω [pairs], or None where ω is fixed.
    """

    pairs: int
    learned_frequencies: nn.Parameter | None

    def choose(
        self,
        base: float,
        frequencies: str | tuple[float, ...],
        wavelengths: tuple[float, ...] | None,
        learn: bool,
    ) -> None:
        """Keep the options that say which frequencies the pairs have; InputError for what does not fit."""
        check_positive(base=base)
        self.base = float(base)
        self.frequencies = frequencies if isinstance(frequencies, str) else tuple(frequencies)
        self.wavelengths = None if wavelengths is None else tuple(wavelengths)
        if isinstance(frequencies, str):
            if frequencies not in formulas.SPACINGS:
                raise InputError(
                    f"frequencies={frequencies!r} must be 'geometric', 'arithmetic' or a list of numbers."
                )
        elif len(frequencies) != self.pairs or wavelengths is not None:
            raise InputError(
                f"frequencies={list(frequencies)} must be {self.pairs} numbers, one for each channel pair of"
                " an axis, without wavelengths."
            )
        if wavelengths is not None and not (len(wavelengths) == 2 and 0 < wavelengths[0] <= wavelengths[1]):
            raise InputError(f"wavelengths={list(wavelengths)} must be the shortest wave and the longest.")
        self.learned, self.learned_frequencies = learn, None
        if learn:
            self.learned_frequencies = nn.Parameter(torch.empty(self.pairs))
            self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Let learned frequencies start anew from the chosen ones."""
        if (omega := self.learned_frequencies) is not None:
            options = self.pairs, self.base, self.frequencies, self.wavelengths
            omega.copy_(spectrum(*options, device=omega.device, dtype=omega.dtype))

    def theta(self, like: Tensor, base: float | None = None) -> Tensor:
        """ω_i [pairs] in radians per position, in the dtype of ``like``; of another base if one is given."""
        if self.learned_frequencies is not None:
            return self.learned_frequencies.to(like.dtype)
        options = self.pairs, base or self.base, self.frequencies, self.wavelengths
        return constant(spectrum, *options, device=like.device, dtype=like.dtype)

    def theta_by_the_book(self) -> Tensor:
        """The reference for ``theta``, float64 [pairs]."""
        if self.learned_frequencies is not None:
            return self.learned_frequencies.double()
        if not isinstance(self.frequencies, str):
            return torch.tensor(self.frequencies, dtype=torch.float64)
        if self.frequencies == "geometric" and self.wavelengths is None:
            return formulas.rope_frequencies(2 * self.pairs, self.base)
        shortest, longest = self.wavelengths or usual_wavelengths(self.pairs, self.base)
        return formulas.spaced_frequencies(self.pairs, shortest, longest, self.frequencies)


SCALINGS: dict[str, tuple[str, ...]] = {
    "none": (),
    "ntk": ("factor",),
    "dynamic": ("factor", "trained"),
    "yarn": ("factor", "trained", "beta_fast", "beta_slow", "truncate", "attention_factor"),
    "llama3": ("factor", "trained", "low_freq_factor", "high_freq_factor"),
    "longrope": ("factor", "trained", "short_factor", "long_factor", "attention_factor"),
}
"""Every ``scaling`` of ``Rope``, with the options that it reads."""


@register("rope")
class Rope(_Spaced):
    """Rotary encoding of a sequence (Su et al., 2021, Eq. 15 and 34).

    Pair i of the first c = ``rotary_dim`` channels is turned by scale·p·ω_i, by default with
    ω_i = base^(-2i/c). The other channels carry no position.
    One axis only: a raster index would make the end of one row and the start of the next neighbors, so images
    are refused (``axial-rope`` is for them).

    For sequences s = ``factor`` times as long as the trained ones of N = ``trained`` tokens, ``scaling``
    changes ω_i. Pair i makes t_i = N·ω_i/2π turns in N tokens; a sequence has the length L = largest
    position + 1.

    - "ntk" (bloc97, 2023): base·s^(c/(c-2)) replaces the base.
    - "dynamic" (emozilla, 2023): "ntk" with s·L/N - (s - 1) in place of s, and no change for L <= N.
    - "yarn" (Peng et al., 2023): γ_i ω_i + (1 - γ_i) ω_i/s. γ_i falls linearly in i from 1 at ``beta_fast``
      turns to 0 at ``beta_slow``. q and k are multiplied by ``attention_factor``.
    - "llama3" (Llama 3.1, 2024): the same with γ_i = (t_i - low)/(high - low) within 0 … 1, low =
      ``low_freq_factor`` and high = ``high_freq_factor``.
    - "longrope" (Ding et al., 2024): ω_i/λ_i, λ = ``long_factor`` for L > N and ``short_factor`` otherwise. q
      and k are multiplied by ``attention_factor``.

    Position interpolation (Chen et al., 2023) is ``scale=1/s``. With "dynamic" and "longrope", scores depend
    on the length of the input. Each sequence has the length of its own positions in that call, so keys in a
    cache keep the frequencies of the length at which they were encoded.

    Options of Hugging Face transformers that have another name here::

        rope_theta                        base
        rope_type "linear"                scale=1/factor
        max_position_embeddings           trained, of "dynamic"
        original_max_position_embeddings  trained, of all others
        partial_rotary_factor             rotary_dim=int(partial_rotary_factor * head_dim)
        mscale, mscale_all_dim            attention_factor=yarn_temperature(factor, mscale, mscale_all_dim)
        rotate_half                       layout="half"

    No parameters, or c/2 with ``learn_frequencies``; any real position. Relative, except "dynamic" and
    "longrope"; norm preserving, except "yarn" and "longrope". Cost: 2 multiplications and 1 addition per
    channel of q and k.

    Args:
        base: sets the slowest wave.
        frequencies, wavelengths, learn_frequencies: see ``AxialRope``; not together with ``scaling``.
        scale: what positions are multiplied with; below 1 it fits a longer sequence into the trained span.
        layout: "interleaved" pairs channels (2i, 2i+1) as the paper does, "half" pairs (i, i + c/2) as
            Llama does. The two differ by a fixed permutation of the channels.
        rotary_dim: c, an even number; by default 2·⌊head_dim / 2⌋.
        scaling: "none" or one of the above. It refuses options that it does not read.
        factor: s, at least 1.
        trained: N, the tokens of the trained sequences.
        beta_fast, beta_slow: turns in N tokens, for "yarn".
        truncate: round the pairs of these turns outwards to integers, for "yarn".
        low_freq_factor, high_freq_factor: turns in N tokens, for "llama3".
        short_factor, long_factor: λ, c/2 numbers each, for "longrope".
        attention_factor: by default 0.1·ln s + 1 for "yarn" and √(1 + ln s/ln N) for "longrope".
    """

    usual_axes = 1

    def __init__(
        self,
        *,
        base: float = 10000.0,
        frequencies: str | tuple[float, ...] = "geometric",
        wavelengths: tuple[float, ...] | None = None,
        learn_frequencies: bool = False,
        scale: float = 1.0,
        layout: Pairing = "interleaved",
        rotary_dim: int | None = None,
        scaling: Scaling = "none",
        factor: float = 1.0,
        trained: int | None = None,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        truncate: bool = True,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        short_factor: tuple[float, ...] | None = None,
        long_factor: tuple[float, ...] | None = None,
        attention_factor: float | None = None,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(**shape)
        self.pairs = pairs_of_sequence(self.name, self.head_dim, self.axes)
        if rotary_dim is not None:
            if rotary_dim % 2 or not 2 <= rotary_dim <= self.head_dim:
                raise InputError(f"rotary_dim={rotary_dim} must be even, from 2 to head_dim={self.head_dim}.")
            self.pairs = rotary_dim // 2
        check_choice("layout", layout, formulas.LAYOUTS)
        check_choice("scaling", scaling, SCALINGS)
        self.choose(base, frequencies, wavelengths, learn_frequencies)
        if scaling != "none" and (frequencies != "geometric" or wavelengths is not None or learn_frequencies):
            raise InputError(f"scaling={scaling!r} is defined for RoPE's own frequencies: leave them out.")
        self.scale = float(scale)
        self.layout = layout
        self.scaling, self.factor, self.trained = scaling, float(factor), trained
        self.tokens = trained or 0  # N, where scaling reads it
        self.beta_fast, self.beta_slow, self.truncate = float(beta_fast), float(beta_slow), truncate
        self.low_freq_factor, self.high_freq_factor = float(low_freq_factor), float(high_freq_factor)
        self.stretches = tuple(short_factor or ()), tuple(long_factor or ())
        self.short_factor, self.long_factor = short_factor, long_factor
        self.attention_factor = attention_factor
        self.check_scaling()
        self.relative = scaling not in ("dynamic", "longrope")
        self.temperature = 1.0 if attention_factor is None else float(attention_factor)
        if attention_factor is None and scaling == "yarn":
            self.temperature = formulas.yarn_temperature(factor)
        elif attention_factor is None and scaling == "longrope":
            self.temperature = formulas.longrope_temperature(factor, self.tokens)
        self.preserves_norm = self.temperature == 1

    def check_scaling(self) -> None:
        """InputError for options that ``scaling`` does not read, and for values that it cannot use."""
        scaling, reads = self.scaling, SCALINGS[self.scaling]
        for option, default in self.defaults.items():
            readers = [repr(name) for name, options in SCALINGS.items() if option in options]
            value = self.arguments[option]
            if readers and option not in reads and value != default:
                raise InputError(
                    f"{option}={value!r} has no effect with scaling={scaling!r}: leave it out, or use"
                    f" scaling={' or '.join(readers)}."
                )
        if not self.factor >= 1:
            raise InputError(f"factor={self.factor} must be at least 1.")
        least = 2 if scaling == "longrope" else 1  # ln 1 is 0
        if "trained" in reads and self.tokens < least:
            raise InputError(f"scaling={scaling!r} needs trained >= {least}, not {self.trained}.")
        if scaling in ("ntk", "dynamic") and self.pairs < 2:
            raise InputError(f"scaling={scaling!r} needs two channel pairs, not {self.pairs}.")
        if scaling == "yarn" and not self.base > 1:
            raise InputError(f"scaling='yarn' needs base > 1, not {self.base}.")
        if not self.low_freq_factor < self.high_freq_factor:
            ends = f"low_freq_factor={self.low_freq_factor}, high_freq_factor={self.high_freq_factor}"
            raise InputError(f"{ends}: the first must be lower.")
        if scaling == "longrope":
            for option, numbers in zip(("short_factor", "long_factor"), self.stretches, strict=True):
                if len(numbers) != self.pairs or min(numbers) <= 0:
                    raise InputError(f"{option}={list(numbers)} must be {self.pairs} positive numbers.")
        if self.attention_factor is not None:
            check_positive(attention_factor=self.attention_factor)

    def angles(self, positions: Tensor) -> Tensor:
        return self.scale * positions * self.scaled(positions)

    def scaled(self, positions: Tensor) -> Tensor:
        """Frequencies after scaling, [pairs], or [(B, 1,) 1, pairs] where they depend on each length."""
        s, N, theta = self.factor, self.tokens, self.theta(positions)
        match self.scaling:
            case "ntk":
                return self.theta(positions, formulas.ntk_base(self.base, s, 2 * self.pairs))
            case "dynamic":
                stretch = 1 + s * (lengths(positions) / N - 1).clamp(min=0)
                return theta * stretch ** (-indices(theta) / (self.pairs - 1))
            case "yarn":
                turns = self.beta_fast, self.beta_slow
                a, b = formulas.yarn_range(2 * self.pairs, N, self.base, *turns, self.truncate)
                return slowed(theta, (b - indices(theta)) / (b - a), s)
            case "llama3":
                low, high = self.low_freq_factor, self.high_freq_factor
                return slowed(theta, (N / (2 * math.pi) * theta - low) / (high - low), s)
            case "longrope":
                short, long = (
                    constant(listed, numbers, device=positions.device, dtype=positions.dtype)
                    for numbers in self.stretches
                )
                return theta / torch.where(lengths(positions) > N, long, short)
        return theta

    def scaled_by_the_book(self, positions: Tensor) -> Tensor:
        """The reference for ``scaled``, float64."""
        c, s, N, base = 2 * self.pairs, self.factor, self.tokens, self.base
        match self.scaling:
            case "ntk":
                return formulas.rope_frequencies(c, formulas.ntk_base(base, s, c))
            case "dynamic":
                return formulas.dynamic_frequencies(c, s, lengths(positions)[..., 0], N, base)
            case "yarn":
                return formulas.yarn_frequencies(c, s, N, base, self.beta_fast, self.beta_slow, self.truncate)
            case "llama3":
                return formulas.llama3_frequencies(c, s, N, base, self.low_freq_factor, self.high_freq_factor)
            case "longrope":
                return formulas.longrope_frequencies(c, lengths(positions)[..., 0], N, *self.stretches, base)
        return self.theta_by_the_book()

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        tables = super().tables(positions, like)
        return tables if self.temperature == 1 else tuple(self.temperature * table for table in tables)

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return (rotate if self.layout == "interleaved" else rotate_halves)(x, *tables)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        c, theta = 2 * self.pairs, self.scaled_by_the_book(positions).to(x)
        rotated = formulas.rope(x[..., :c], self.scale * positions[..., 0], theta, self.layout)
        return torch.cat((self.temperature * rotated, x[..., c:]), -1)


def lengths(positions: Tensor) -> Tensor:
    """The largest position + 1 of each sequence, [(B, 1,) N, 1] to [(B, 1,) 1, 1]."""
    return positions.amax(-2, keepdim=True) + 1


def indices(theta: Tensor) -> Tensor:
    """0, 1, 2, … in the dtype and on the device of frequencies [pairs]."""
    return torch.arange(len(theta), dtype=theta.dtype, device=theta.device)


def slowed(theta: Tensor, keep: Tensor, factor: float) -> Tensor:
    """γθ + (1 - γ)θ/s with γ = ``keep`` within 0 … 1."""
    keep = keep.clamp(0, 1)
    return theta * (keep + (1 - keep) / factor)


def pairs_of_sequence(name: str, head_dim: int, axes: int) -> int:
    """Channel pairs of a head, for an encoding of one axis."""
    if axes != 1:
        raise InputError(f"encoding {name!r} has one axis, not axes={axes}: use 'axial-rope'.")
    if head_dim < 2:
        raise InputError(f"head_dim={head_dim} holds no channel pair: use at least 2.")
    return head_dim // 2


@register("xpos")
class XPos(Rotary):
    """Rotary encoding of a sequence with scores that fade into the past (Sun et al., 2022, section 3).

    Pair i of the c = 2·⌊head_dim / 2⌋ channels is turned by p·ω_i as in ``rope``. Queries are also multiplied
    by ζ_i^(p/s) and keys by ζ_i^(-p/s), with ζ_i = (2i/c + γ)/(1 + γ) < 1 and s = ``span``. So pair i of a
    score has the factor ζ_i^((m-n)/s) for a query at m and a key at n: fast pairs fade first.

    For causal attention: towards later keys the factor grows instead, up to (1 + 1/γ)^((n-m)/s).
    Queries and keys carry factors of their positions, not of the offset. At γ = 0.4 these stay in range for
    |p| below 69·span (35,000 tokens) in float32 and bfloat16, and below 7·span in float16. Only differences
    count, so a longer sequence may start at a negative position.

    No parameters; any real position; relative; not norm preserving. Cost: as ``rope``.

    Args:
        base: sets the slowest wave.
        gamma: γ, above 0; smaller numbers let fast pairs fade faster.
        span: s, the tokens in which pair i fades by the factor ζ_i.
    """

    usual_axes = 1
    preserves_norm = False

    def __init__(
        self, *, base: float = 10000.0, gamma: float = 0.4, span: float = 512.0, **shape: Unpack[Shape]
    ) -> None:
        super().__init__(**shape)
        self.pairs = pairs_of_sequence(self.name, self.head_dim, self.axes)
        check_positive(base=base, gamma=gamma, span=span)
        self.base, self.gamma, self.span = float(base), float(gamma), float(span)

    def angles(self, positions: Tensor) -> Tensor:
        i = torch.arange(self.pairs, dtype=positions.dtype, device=positions.device)
        return positions * self.base ** (-i / self.pairs)

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines [..., N, pairs] for queries, then for keys."""
        cos, sin = super().tables(positions, like)
        i = torch.arange(self.pairs, dtype=positions.dtype, device=positions.device)
        scale = ((i / self.pairs + self.gamma) / (1 + self.gamma)) ** (positions / self.span)
        return cos * scale, sin * scale, cos / scale, sin / scale

    def tables_for_keys(self, tables: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tables[2:]

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return rotate(x, *tables[:2])

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        return self._reference(x, positions, keys=False)

    def reference_for_keys(self, k: Tensor, positions: Tensor) -> Tensor:
        return self._reference(k, positions, keys=True)

    def _reference(self, x: Tensor, positions: Tensor, *, keys: bool) -> Tensor:
        c = 2 * self.pairs
        theta = formulas.rope_frequencies(c, self.base).to(x)
        zeta = formulas.xpos_scales(c, self.gamma).to(x)
        turned = formulas.xpos(x[..., :c], positions[..., 0], theta, zeta, self.span, keys=keys)
        return torch.cat((turned, x[..., c:]), -1)


@register("axial-rope")
class AxialRope(_Spaced):
    """Rotary encoding of each axis on its own share of the channels (Heo et al., 2024, Eq. 7–8).

    Each axis owns c = 2·⌊head_dim / (2·axes)⌋ consecutive channels. Their pair i is turned by ω_i p_a, by
    default with ω_i = base^(-2i/c); channels left over carry no position. With two axes this equals timm's
    ``RotaryEmbeddingCat(in_pixels=False, temperature=base)``. rope-vit has columns (x) before rows (y): the
    first half of its channels, and ``freqs[0]`` of its mixed RoPE, belong to our axis 1.

    No parameters, or c/2 with ``learn_frequencies``; any real position; norm preserving; relative. Cost: 2
    multiplications and 1 addition per channel of q and k.

    Args:
        base: sets the slowest wave; 100 is the published choice for images, 10000 for text.
        frequencies: "geometric", in equal ratios as published; "arithmetic", in equal steps as on a ring; or
            the frequencies themselves, in radians per position, one for each pair of an axis.
        learn_frequencies: make them a parameter [pairs] of each layer, which starts there. All axes share it.
        wavelengths: the shortest and the longest wave, in positions; by default 2π and 2π·base^(1-2/c), and
            ``base`` has no effect otherwise. (2, n) with "arithmetic" and n/2 pairs are the frequencies of a
            ring of n channels, without its resting one.
    """

    def __init__(
        self,
        *,
        base: float = 100.0,
        frequencies: str | tuple[float, ...] = "geometric",
        wavelengths: tuple[float, ...] | None = None,
        learn_frequencies: bool = False,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(**shape)
        self.pairs = pairs_of_axis(self.head_dim, self.axes)
        self.choose(base, frequencies, wavelengths, learn_frequencies)

    def angles(self, positions: Tensor) -> Tensor:
        return (positions[..., None] * self.theta(positions)).flatten(-2)  # [..., N, axes * pairs]

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        return along_axes(x, positions, [self.theta_by_the_book().to(x)] * self.axes)


def pairs_of_axis(head_dim: int, axes: int) -> int:
    """Channel pairs on each axis, at least one."""
    if head_dim < 2 * axes:
        raise InputError(
            f"head_dim={head_dim} is too narrow for a channel pair on each of axes={axes}:"
            f" use at least {2 * axes}."
        )
    return head_dim // (2 * axes)


@register("mixed-rope")
class MixedRope(Rotary):
    """Rotary encoding with learned frequencies for both axes on every pair (Heo et al., 2024, Eq. 14).

    Pair i of head h is turned by Σ_a ω_{h,a,i} p_a. As in the source, every layer and head has its own ω and
    starts from two bundles of waves at a right angle: with θ_h uniform in [0, 2π) and the speeds
    m_j = base^(-4j/d), pairs j = 0 … d/4 - 1 start along (sin θ_h, cos θ_h) in (row, column) and pairs
    d/4 + j along the direction a quarter turn further, both at speed m_j.

    Adds heads*axes*d/2 parameters. Any real position; norm preserving; relative. Cost: as axial-rope, but the
    angles are made anew in every pass and differ by head.

    Args:
        base: ratio of the initial speeds; 10 in the source.
    """

    learned = True
    by_head = True

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
        d, device = self.head_dim, self.frequencies.device
        speed = self.base ** (-4 * torch.arange(d // 4, device=device) / d)
        turn = 2 * math.pi * torch.rand(self.heads, 1, device=device)
        direction = torch.cat((turn.expand(-1, len(speed)), turn.expand(-1, len(speed)) + math.pi / 2), -1)
        speed = speed.repeat(2)
        self.frequencies.copy_(torch.stack((speed * direction.sin(), speed * direction.cos()), 1))

    def angles(self, positions: Tensor) -> Tensor:
        return _mix(self.frequencies, positions)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = formulas.mixed_angles(positions, self.frequencies.mT.to(x))
        return ring.rotate_pairs(x, angles)


def _mix(frequencies: Tensor, positions: Tensor) -> Tensor:
    """Σ_a ω_{a,i} p_a: [..., heads, axes, pairs], [(B, 1,) N, axes] → [..., heads, N, pairs], as positions.

    Not a matrix product, which accelerators may round to 10 bits.
    """
    return (positions[..., None] * frequencies.to(positions.dtype)[..., None, :, :]).sum(-2)


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
        self.frequency = fastest(self.name, self.grid, self.axes, frequency)

    def angles(self, positions: Tensor) -> Tensor:
        return times_axis(positions, self.frequency).repeat_interleave(self.pairs, dim=-1)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        return along_axes(x, positions, [x.new_full((self.pairs,), omega) for omega in self.frequency])


@register("spherical-rope")
class SphericalRope(Encoding):
    """Rotation of channel triplets, by yaw and by roll (van de Geijn et al., 2025, section 4, appendix G).

    The source: triplet d becomes Y(ω_d p_x) R(ω_d p_y) z_d with yaw and roll matrices and
    ω_d = 100^(-2d/D), D the number of triplets, positions running from -π to π across the image. Our
    reading: yaw turns the first two channels of a triplet and roll the last two,

        Y(α) = [[cos α, -sin α, 0], [sin α, cos α, 0], [0, 0, 1]],
        R(β) = [[1, 0, 0], [0, cos β, -sin β], [0, sin β, cos β]];

    roll comes first, as the formula says (a figure's caption has x first); x is axis 1 and y axis 0; and the
    span of 2π is G tokens, not G - 1 (see uniform-rope): ω_d = base^(-d/D)·2π/G_a with base = 100² = 10000.
    Y and R do not commute, so the scores are not relative. Yet a shift along x, the outer rotation, changes
    nothing, and one along y amounts to a fixed rotation of all queries and keys, which their projections
    can undo: where positions start does not matter to what can be learned.

    No parameters (the source also has a learned variant, absent here); any real position; norm preserving;
    two axes. Channels beyond the last triplet carry no position. Cost: 8 multiplications and 4 additions per
    triplet. dtype as in ``Rotary``.

    Args:
        base: ratio of the fastest to the slowest possible speed.
        frequency: ω_0 in radians per token on both axes, in place of one cycle across ``grid``.
    """

    acts_on = "scores"
    relative = False

    def __init__(
        self, *, base: float = 10000.0, frequency: float | None = None, **shape: Unpack[Shape]
    ) -> None:
        super().__init__(**shape)
        if self.axes != 2:
            raise InputError(f"encoding 'spherical-rope' has two axes, not axes={self.axes}: use 'lie'.")
        if self.head_dim < 3:
            raise InputError(f"head_dim={self.head_dim} holds no channel triplet: use at least 3.")
        self.triplets = self.head_dim // 3
        check_positive(base=base)
        self.base = float(base)
        self.frequency = fastest(self.name, self.grid, self.axes, frequency)

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines of roll and yaw, [..., N, 2, triplets]."""
        d = torch.arange(self.triplets, dtype=positions.dtype, device=positions.device)
        angles = times_axis(positions, self.frequency)[..., None] * self.base ** (-d / self.triplets)
        return angles.cos(), angles.sin()

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        (cos_roll, cos_yaw), (sin_roll, sin_yaw) = (table.unbind(-2) for table in tables)
        a, b, c = x[..., : 3 * self.triplets].unflatten(-1, (-1, 3)).unbind(-1)
        b, c = b * cos_roll - c * sin_roll, b * sin_roll + c * cos_roll
        a, b = a * cos_yaw - b * sin_yaw, a * sin_yaw + b * cos_yaw
        rotated = torch.stack((a, b, c), -1).flatten(-2).to(x.dtype)
        return torch.cat((rotated, x[..., 3 * self.triplets :]), -1)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        d, m = torch.arange(self.triplets).to(x), 3 * self.triplets
        omega = x.new_tensor(self.frequency)[:, None] * self.base ** (-d / self.triplets)
        return torch.cat((formulas.spherical_rope(x[..., :m], positions, omega), x[..., m:]), -1)


def fastest(name: str, grid: tuple[int, ...] | None, axes: int, frequency: float | None) -> tuple[float, ...]:
    """Radians per token on each axis: the given frequency, or one cycle across the grid, 2π/G_a."""
    if frequency is not None:
        return (float(frequency),) * axes
    if grid is None:
        raise InputError(
            f"encoding {name!r} turns once per image: give grid=, or frequency= in radians per token."
        )
    return tuple(2 * math.pi / size for size in grid)


def times_axis(positions: Tensor, factors: tuple[float, ...]) -> Tensor:
    """Positions [..., axes] times one number for each axis, without a copy from the host."""
    return torch.stack([positions[..., axis] * factor for axis, factor in enumerate(factors)], -1)
