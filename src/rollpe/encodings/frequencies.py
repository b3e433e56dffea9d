"""Tables of frequencies: every published rotary encoding as numbers ω, in radians per unit of position.

Pair i of a token at p turns by Σ_a ω_ia p_a (``rollpe.encodings.rotary``). A table is [pairs] on one axis,
[pairs, axes] on several, or [heads, pairs, axes] where heads differ::

    create_encoding("rope", head_dim=64, heads=6, frequencies=llama3(geometric(32), factor=8, trained=8192))

A table with fewer pairs than a head has leaves the last channels as they are. Position interpolation (Chen et
al., 2023) is a division: ``geometric(32) / factor``. Two methods depend on the length of the text, its
largest position + 1; ``dynamic`` and ``longrope`` return a function of it, which ``rope`` takes as well.

Tables are float64 on the CPU; an encoding rounds them once to the precision of its angles. Functions that our
encodings call with every pass also make them on another device and in another dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from rollpe.encodings.positions import Numbers, constant, listed, numbers_of
from rollpe.errors import InputError, check_positive, check_whole

OfLength = Callable[[Tensor], Tensor]
"""From lengths [...] to tables [..., pairs] in their dtype and on their device."""

SPACINGS = ("geometric", "arithmetic")


# One axis.


def geometric(
    pairs: int,
    base: float = 10000.0,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """ω_i = base^(−i/m), i = 0 … m−1 for m = ``pairs``: RoPE's base^(−2i/d), ω_0 = 1 the fastest. [pairs].

    Source: Vaswani et al., 2017, for sinusoids; Su et al., 2021, Eq. 15.
    """
    check_whole(1, pairs=pairs)
    return base ** (-torch.arange(pairs, device=device, dtype=dtype) / pairs)


def longest_wavelength(pairs: int, base: float = 10000.0) -> float:
    """2π·base^((m−1)/m): the period of the slowest pair of ``geometric``, in positions."""
    return 2 * math.pi * base ** ((pairs - 1) / pairs)


def spaced(
    pairs: int,
    shortest: float,
    longest: float,
    spacing: str = "geometric",
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Frequencies from 2π/shortest down to 2π/longest, [pairs], for wavelengths in positions.

    "geometric": equal ratios, as in RoPE. "arithmetic": equal differences, as on a ring; those of its pairs,
    ω_k = 2πk/n for k = n/2 … 1, have the wavelengths 2 to n. A single pair has the shortest wave.
    """
    check_whole(1, pairs=pairs)
    fast, slow = 2 * math.pi / shortest, 2 * math.pi / longest
    along = torch.arange(pairs, device=device, dtype=dtype) / max(pairs - 1, 1)
    return fast * (slow / fast) ** along if spacing == "geometric" else fast + (slow - fast) * along


def ring(n: int, wavelength: float = 1.0) -> Tensor:
    """ω_k = 2πk/(λn), k = 0 … ⌊n/2⌋, of a ring of n channels rolled by p/λ, [⌊n/2⌋ + 1].

    The first pair rests; for even n the last one, at π/λ, is the Nyquist mode.
    """
    check_whole(1, n=n)
    if not math.isfinite(wavelength) or wavelength == 0:
        raise InputError(f"wavelength={wavelength} is not possible: give a finite number other than 0.")
    return 2 * math.pi * torch.arange(n // 2 + 1, dtype=torch.float64) / (wavelength * n)


def twisted_ring(n: int) -> Tensor:
    """ω = 2πm/n for the m > 0 among −(n−1)/2, −(n−1)/2 + 1, …, (n−1)/2, [⌊n/2⌋], ascending.

    These m are integers for odd n and halves of odd numbers for even n: then ω = π/n, 3π/n, …, (n−1)π/n.
    """
    check_whole(1, n=n)
    return 2 * math.pi / n * (torch.arange(n // 2, dtype=torch.float64) + (1.0 if n % 2 else 0.5))


def proportional(theta: Tensor, share: float) -> Tensor:
    """θ for the first ⌊share·pairs⌋ pairs and 0 for the others, which rest. [pairs].

    Source: Gemma 4, "proportional" in transformers. A shorter ``geometric`` has other frequencies.
    """
    return torch.where(torch.arange(len(theta), device=theta.device) < int(share * len(theta)), theta, 0)


# Texts longer than those of training.


def ntk(theta: Tensor, factor: float) -> Tensor:
    """θ_i s^(−i/(m−1)), for texts s times as long: the slowest of m pairs by s, the fastest as before. [m].

    On ``geometric`` it replaces the base by base·s^(d/(d−2)), d = 2m. Source: bloc97, 2023.
    """
    _check_factor(theta, factor)
    return theta * factor ** (-_indices(theta) / (len(theta) - 1))


def dynamic(theta: Tensor, factor: float, trained: int) -> OfLength:
    """``ntk`` with s·L/N − (s − 1) in place of s for a text of length L > N = ``trained``; a function of L.

    Source: emozilla, 2023.
    """
    _check_factor(theta, factor, trained=trained)
    return partial(_dynamic, numbers_of(theta), float(factor), trained)


def _dynamic(theta: Numbers, factor: float, trained: int, length: Tensor) -> Tensor:
    omega = constant(listed, theta, device=length.device, dtype=length.dtype)
    stretch = 1 + factor * (length[..., None] / trained - 1).clamp(min=0)
    return omega * stretch ** (-_indices(omega) / (len(omega) - 1))


def yarn(
    theta: Tensor,
    factor: float,
    trained: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    *,
    truncate: bool = True,
) -> Tensor:
    """γ_i θ_i + (1−γ_i) θ_i/s, γ_i = (b−i)/(b−a) within 0 … 1 for (a, b) of ``yarn_range``. [pairs].

    YaRN also multiplies queries and keys: give ``temperature=yarn_temperature(factor)`` to ``rope``.
    Source: Peng et al., 2023, arXiv 2309.00071, with the ramp of its code, which is linear in i; that of the
    text is linear in the number of turns.
    """
    a, b = yarn_range(theta, trained, beta_fast, beta_slow, truncate=truncate)
    return _slowed(theta, (b - _indices(theta)) / (b - a), factor)


def yarn_range(
    theta: Tensor, trained: int, beta_fast: float = 32.0, beta_slow: float = 1.0, *, truncate: bool = True
) -> tuple[float, float]:
    """The pairs ⌊i(β_fast)⌋ and ⌈i(β_slow)⌉ between which YaRN goes over from kept to slowed frequencies.

    i(β) is where pairs make β turns in N = ``trained`` positions: ln(N/2πβ) over the logarithm of the ratio
    of neighbors, which ``geometric`` has in common. Without ``truncate`` it is not rounded.
    """
    _check_factor(theta, trained=trained)
    steps = theta[:-1].log() - theta[1:].log()
    if theta[0] != 1 or not steps.min() > 0 or not torch.allclose(steps, steps.mean()):
        raise InputError("YaRN is defined for frequencies from 1 down in equal ratios: use geometric(…).")
    step = -theta[-1].log().item() / (len(theta) - 1)
    fast, slow = (math.log(trained / (2 * math.pi * beta)) / step for beta in (beta_fast, beta_slow))
    if truncate:
        fast, slow = math.floor(fast), math.ceil(slow)
    first = max(fast, 0)
    return first, max(min(slow, 2 * len(theta) - 1), first + 0.001)


def yarn_temperature(factor: float, mscale: float = 1.0, mscale_all_dim: float = 0.0) -> float:
    """0.1 ln s + 1, by which YaRN multiplies queries and keys alike; √(1/t) in the source.

    DeepSeek's models have (0.1 m ln s + 1)/(0.1 m' ln s + 1), m = ``mscale`` and m' = ``mscale_all_dim``;
    their attention then multiplies all scores by (0.1 m' ln s + 1)².
    """
    return (0.1 * mscale * math.log(factor) + 1) / (0.1 * mscale_all_dim * math.log(factor) + 1)


def llama3(theta: Tensor, factor: float, trained: int, low: float = 1.0, high: float = 4.0) -> Tensor:
    """γ_i θ_i + (1−γ_i) θ_i/s, γ_i = (t_i − low)/(high − low) within 0 … 1. [pairs].

    t_i = N θ_i/2π are the turns of pair i in N = ``trained`` positions: pairs that make more than ``high``
    keep their frequency, those that make fewer than ``low`` have it divided by s. Source: code of Llama 3.1.
    """
    _check_factor(theta, factor, trained=trained)
    if not low < high:
        raise InputError(f"low={low}, high={high}: the first must be lower.")
    return _slowed(theta, (trained / (2 * math.pi) * theta - low) / (high - low), factor)


def longrope(theta: Tensor, trained: int, short: Sequence[float], long: Sequence[float]) -> OfLength:
    """θ_i/λ_i, with λ = ``long`` for texts of more than ``trained`` tokens and ``short`` for all others.

    A function of the length. Phi-3 also multiplies queries and keys: give
    ``temperature=longrope_temperature(factor, trained)`` to ``rope``. Source: Ding et al., 2024, arXiv
    2402.13753, which finds λ by search; the switch is from Microsoft's code of Phi-3.
    """
    for option, numbers in (("short", short), ("long", long)):
        if len(numbers) != len(theta) or min(numbers) <= 0:
            raise InputError(f"{option}={list(numbers)} must be {len(theta)} positive numbers.")
    _check_factor(theta, trained=trained)
    near, far = (numbers_of(theta / theta.new_tensor(list(numbers))) for numbers in (short, long))
    return partial(_longrope, near, far, trained)


def _longrope(near: Numbers, far: Numbers, trained: int, length: Tensor) -> Tensor:
    short, long = (constant(listed, n, device=length.device, dtype=length.dtype) for n in (near, far))
    return torch.where(length[..., None] > trained, long, short)


def longrope_temperature(factor: float, trained: int) -> float:
    """√(1 + ln s/ln N), N = ``trained``, by which Phi-3 with LongRoPE multiplies queries and keys alike."""
    return math.sqrt(1 + math.log(factor) / math.log(trained))


# Several axes.


def axial(*tables: Tensor) -> Tensor:
    """Each axis on pairs of its own: tables [pairs_a], one for each axis, to [Σ_a pairs_a, axes].

    ``axial(geometric(16, 100), geometric(16, 100))`` is "axial-rope", and with ``layout="half"`` the rotation
    of DINOv3. Source: Heo et al., 2024, Eq. 7–8.
    """
    return torch.block_diag(*(theta[:, None] for theta in tables))


def uniform(
    pairs: int,
    grid: Sequence[int],
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """ω_a = 2π/G_a for all ``pairs`` of axis a, one cycle across the grid. [axes·pairs, axes].

    Source: van de Geijn et al., 2025, arXiv 2511.08368, in our reading (``UniformRope``).
    """
    return axial(*(torch.full((pairs,), 2 * math.pi / size, device=device, dtype=dtype) for size in grid))


def sections(theta: Tensor, shares: Sequence[int], *, interleaved: bool = False) -> Tensor:
    """One axis for each pair of θ [pairs], shares[a] pairs for axis a: [pairs, axes]. M-RoPE.

    Axis after axis as in Qwen2-VL, whose positions are (time, row, column) and whose ``shares`` are
    (16, 24, 24). ``interleaved``, as in Qwen3-VL: pair i belongs to axis a = i mod axes as long as a's share
    lasts, and to axis 0 afterwards. A token of text has the same position on all axes.
    """
    if sum(shares) != len(theta) or min(shares) < 0:
        raise InputError(f"shares={list(shares)} must add up to the {len(theta)} pairs of the table.")
    i, axes = torch.arange(len(theta)), len(shares)
    if interleaved:
        owner = torch.where(i // axes < torch.tensor(list(shares))[i % axes], i % axes, 0)
        if [int((owner == a).sum()) for a in range(axes)] != list(shares):
            raise InputError(f"shares={list(shares)} do not interleave: axis 0 needs the largest share.")
    else:
        owner = torch.arange(axes).repeat_interleave(torch.tensor(list(shares)))
    return theta[:, None] * (owner[:, None] == torch.arange(axes)).to(theta)


def mixed(
    heads: int,
    pairs: int,
    base: float = 10.0,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Two bundles of waves at a right angle, turned at random for each head: [heads, pairs, 2].

    With θ_h uniform in [0, 2π) and the speeds m_j = base^(−2j/pairs), pairs j = 0 … pairs/2 − 1 start along
    (sin θ_h, cos θ_h) in (row, column) and pairs pairs/2 + j along the direction a quarter turn further, both
    at speed m_j. Where the frequencies of "mixed-rope" start. Source: Heo et al., 2024, Eq. 14 and its code.
    """
    speed = base ** (-4 * torch.arange(pairs // 2, device=device) / (2 * pairs))
    turn = 2 * math.pi * torch.rand(heads, 1, device=device)
    direction = torch.cat((turn.expand(-1, len(speed)), turn.expand(-1, len(speed)) + math.pi / 2), -1)
    speed = speed.repeat(2)
    return torch.stack((speed * direction.sin(), speed * direction.cos()), -1).to(dtype)


def golden_gate(heads: int, pairs: int, slowest: float, fastest: float) -> Tensor:
    """Directions that advance by the golden angle, no two alike: [heads, pairs, 2].

    Pair i of head h turns by m_i (sin α, cos α)·p for p = (row, column) with α = π(√5 − 1)/2·(h·pairs + i)
    and speeds m_i in equal ratios from ``slowest`` to ``fastest``. Source: Xiong, 2025, "On N-dimensional
    rotary positional embeddings", whose positions run from about −1 to 1 across the image.
    """
    check_positive(slowest=slowest, fastest=fastest)
    speed = spaced(pairs, 2 * math.pi / slowest, 2 * math.pi / fastest)
    count = torch.arange(heads * pairs, dtype=torch.float64).view(heads, pairs)
    angle = math.pi * (math.sqrt(5) - 1) / 2 * count
    return speed[:, None] * torch.stack((angle.sin(), angle.cos()), -1)


# Shared steps.


def _indices(theta: Tensor) -> Tensor:
    """0, 1, 2, … in the dtype and on the device of frequencies [pairs]."""
    return torch.arange(len(theta), dtype=theta.dtype, device=theta.device)


def _slowed(theta: Tensor, keep: Tensor, factor: float) -> Tensor:
    """γθ + (1 − γ)θ/s with γ = ``keep`` within 0 … 1."""
    keep = keep.clamp(0, 1)
    return theta * (keep + (1 - keep) / factor)


def _check_factor(theta: Tensor, factor: float = 1.0, trained: int = 1) -> None:
    """Refuse tables of one pair or several axes, texts shorter than the trained ones, and no training."""
    if theta.dim() != 1 or len(theta) < 2:
        raise InputError(f"a table of shape {list(theta.shape)} cannot be scaled: give [pairs], 2 or more.")
    if not factor >= 1 or trained < 1:
        raise InputError(f"factor={factor} and trained={trained} must be at least 1.")
