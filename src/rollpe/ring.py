"""The roll as a linear operator: its matrix, its generator, its Fourier and its rotary form.

The mathematics of RollPE on plain tensors, one function to a formula: Eqs. 2, 4–7, 10, 12–14 and App. B, C,
E, F of "Do traveling waves make good positional encodings?" (arXiv 2511.11668), corrected where the paper is
wrong.

Convention. S is the matrix printed in Eq. 2: ones on the superdiagonal and in the lower left corner,

    (S x)_i = x_{(i+1) mod n},   so   S^p x = torch.roll(x, −p)   and   S = F* diag(e^{+2πik/n}) F

with the unitary DFT F_{kj} = e^{−2πikj/n}/√n. The score of a query at p_q and a key at p_k is
(S^{p_q} q)ᵀ S^{p_k} k = qᵀ S^{p_k − p_q} k. The mirrored reading "entry i moves to i+p" is S^{−p}.

Even width. det S = (−1)^{n−1}: for even n the Nyquist mode (−1)^i has the eigenvalue −1, alone, and no
real one-parameter group passes through S. The option `nyquist` says what is done instead; odd widths
have no such mode, and all treatments but "paired" (which takes two rings) coincide there.

    "fixed"   the Nyquist mode stands still: a real group of rotations, and S(1) = S on all other modes
    "cosine"  it is multiplied by cos(πp): S(p) = S^p at whole p, but no group, and norms are not kept
    "paired"  two rings of n channels, one after the other; their two Nyquist modes rotate into each
              other by πp: S(p) = S^p ⊕ S^p at whole p, and a group of rotations
    "odd"     the last channel carries no position; the first n−1 are an odd ring
    "twist"   the channel that leaves the ring comes back with its sign reversed, N in place of S: a
              group of rotations in n/2 planes, with N(1) = N; no mode stands still

Shapes: x [..., n]; p is a number or a tensor that broadcasts over the leading dimensions of x. Matrices
are built in float64 by default, on the CPU; functions of x return the dtype of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral

import torch
from torch import Tensor

from rollpe.errors import InputError, check_choice

NYQUIST = ("fixed", "cosine", "paired", "odd", "twist")


# Checks of arguments.


def _whole(n: object, what: str = "n") -> int:
    if isinstance(n, bool) or not isinstance(n, Integral) or int(n) < 1:
        raise InputError(f"{what}={n!r} is not possible: give an integer, 1 or more.")
    return int(n)


def _wavelength(wavelength: float | Tensor) -> float | Tensor:
    if not isinstance(wavelength, Tensor) and not (math.isfinite(wavelength) and wavelength != 0):
        raise InputError(f"wavelength={wavelength!r} is not possible: give a finite number other than 0.")
    return wavelength


def _real(p: float | Tensor, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """p as a floating-point tensor of `dtype`, or better if it came so."""
    if not isinstance(p, Tensor):
        return torch.tensor(p, dtype=dtype, device=device)
    return p.to(device or p.device, torch.promote_types(p.dtype, dtype))


# Integer positions: a permutation.


def shift_matrix(n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """S of Eq. 2, [n, n]: ones at (i, i+1 mod n)."""
    i = torch.arange(_whole(n))
    S = torch.zeros(n, n, dtype=dtype)
    S[i, (i + 1) % n] = 1
    return S


def roll(x: Tensor, p: int | Tensor) -> Tensor:
    """S^p x (Eqs. 2, 10): entry i takes the value of entry i+p mod n. Exact in any dtype.

    x [..., n]; p an integer, or an integer tensor broadcasting over x's leading dimensions (one
    position per token). Real p is refused: `continuous_roll` takes it.
    """
    return _around(x, _whole_positions(p))[0]


def _whole_positions(p: int | Tensor) -> int | Tensor:
    if isinstance(p, Tensor):
        if p.is_floating_point() or p.is_complex():
            raise InputError(
                f"p has dtype {p.dtype}: roll needs integer positions. Use continuous_roll, or p.long()."
            )
    elif isinstance(p, bool) or not isinstance(p, Integral):
        raise InputError(f"p={p!r} is no integer: roll needs integer positions. Use continuous_roll.")
    return p


def _around(x: Tensor, p: int | Tensor) -> tuple[Tensor, Tensor]:
    """S^p x, and how often each entry went around the ring on its way, int64 [..., n]."""
    n = x.shape[-1]
    p = torch.as_tensor(p, dtype=torch.int64, device=x.device)
    place = torch.arange(n, device=x.device) + p[..., None]  # [..., n]
    shape = torch.broadcast_shapes(x.shape, place.shape)
    return torch.gather(x.expand(shape), -1, (place % n).expand(shape)), place // n


def ring_laplacian(n: int) -> Tensor:
    """2I − S − Sᵀ, float64 [n, n], the Laplacian of the undirected cycle, with spectrum 4 sin²(πk/n)."""
    S = shift_matrix(n)
    return 2 * torch.eye(n, dtype=S.dtype) - S - S.T


# The Fourier basis.


def fourier_matrix(n: int) -> Tensor:
    """The unitary DFT F_{kj} = e^{−2πikj/n}/√n, complex128 [n, n], rows k = 0 … n−1."""
    i = torch.arange(_whole(n), dtype=torch.float64)
    return torch.exp(-2j * math.pi * (torch.outer(i, i) % n) / n) / math.sqrt(n)


def mode_numbers(n: int) -> Tensor:
    """Mode numbers centered on 0, int64 [n], ascending: −⌊(n−1)/2⌋ … ⌊n/2⌋.

    For even n the last one, n/2, is the Nyquist mode and has no partner.
    """
    return torch.arange(-((_whole(n) - 1) // 2), n // 2 + 1)


def real_fourier_basis(
    n: int,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    twisted: bool = False,
) -> tuple[Tensor, Tensor]:
    """The orthogonal change of basis in which the roll is rotary.

    Returns Q [n, n] and ω [⌊(n−1)/2⌋] with ω_k = 2πk/n, such that Qᵀ S(p) Q is block-diagonal: one
    rotation [[cos ω_k p, −sin ω_k p], [sin ω_k p, cos ω_k p]] for each pair of columns 2k−2, 2k−1
    (√(2/n) cos and −√(2/n) sin of 2πki/n), then the constant channel (1), then, for even n, the Nyquist
    channel (−1)^i (eigenvalue (−1)^p at whole p).

    Args:
        twisted: the basis of the twisted ring N(p) instead. For even n it has n/2 pairs, with
            ω = π/n, 3π/n, …, and no other columns.
    """
    i = torch.arange(_whole(n), device=device)
    twisted = twisted and n % 2 == 0
    k = torch.arange(n // 2, device=device) + 0.5 if twisted else torch.arange(1, (n + 1) // 2, device=device)
    angle = (torch.outer(i, k) % n).to(dtype) * (2 * math.pi / n)
    pairs = torch.stack((angle.cos(), -angle.sin()), dim=-1) * math.sqrt(2 / n)  # [n, pairs, 2]
    columns = [pairs.flatten(1)]
    if not twisted:
        columns.append(torch.full((n, 1), 1 / math.sqrt(n), dtype=dtype, device=device))
    if n % 2 == 0 and not twisted:
        columns.append(_alternating(n, dtype, device)[:, None])
    return torch.cat(columns, dim=1), k.to(dtype) * (2 * math.pi / n)


def _alternating(n: int, dtype: torch.dtype, device: torch.device | str | None = None) -> Tensor:
    """The Nyquist mode ν_i = (−1)^i/√n of an even ring, [n]."""
    return (1 - 2 * (torch.arange(n, device=device) % 2)).to(dtype) / math.sqrt(n)


# Real positions: the group and its generator.


def generator(n: int, nyquist: str = "fixed") -> Tensor:
    """The real skew-symmetric A of Eqs. 4 and 14, corrected: S(p) = exp(pA), float64.

    A = F* diag(2πi m/n) F with the centered mode numbers m, and 0 on the Nyquist mode. [n, n], but
    [2n, 2n] for nyquist="paired". "cosine" with even n has no generator: InputError.
    """
    _whole(n)
    check_choice("nyquist", nyquist, NYQUIST)
    if nyquist == "cosine" and n % 2 == 0:
        raise InputError(
            f"n={n} is even: cos(πp) on the Nyquist mode is no group, so it has no generator. "
            "Use nyquist='fixed', 'paired' or 'odd'."
        )
    if nyquist == "twist":
        return twisted_generator(n)
    if nyquist == "odd" and n % 2 == 0:
        return torch.block_diag(generator(n - 1), torch.zeros(1, 1, dtype=torch.float64))
    m = mode_numbers(n)
    F = fourier_matrix(n)[m % n]  # row k belongs to mode m_k
    speed = 2 * math.pi * m.to(torch.float64) / n
    A = (F.mH @ (1j * speed[:, None] * F)).real  # an unpaired Nyquist mode is iπνν*: its real part is 0
    if nyquist != "paired":
        return A
    A = torch.block_diag(A, A)
    if n % 2 == 0:
        first, second = torch.block_diag(*[_alternating(n, A.dtype)[None]] * 2)  # ν of either ring, [2n]
        A = A + math.pi * (torch.outer(second, first) - torch.outer(first, second))
    return A


def paper_generator(n: int) -> Tensor:
    """Eq. 14 as printed, F* diag(2πik/n)_{k=0}^{n−1} F, complex128 [n, n].

    Its exponential is S, but it is neither real nor skew-symmetric for n ≥ 2: the mode numbers are not
    centered, so k and n−k are no conjugate pair.
    """
    k = torch.arange(_whole(n), dtype=torch.float64)
    F = fourier_matrix(n)
    return F.mH @ (2j * math.pi * k[:, None] / n * F)


def paper_roll_matrix(n: int, p: float, wavelength: float = 1.0) -> Tensor:
    """Eq. 7 as printed, F* diag(e^{2πipk/(λn)})_{k=0}^{n−1} F, complex128 [n, n]."""
    k = torch.arange(_whole(n), dtype=torch.float64)
    F = fourier_matrix(n)
    return F.mH @ (torch.exp(2j * math.pi * k * p / (_wavelength(wavelength) * n))[:, None] * F)


def roll_matrix(
    n: int, p: float | Tensor, wavelength: float | Tensor = 1.0, nyquist: str = "fixed"
) -> Tensor:
    """S(p) of Eq. 7 with centered modes, F* diag(e^{2πipm/(λn)}) F, float64.

    p [...] gives [..., n, n], or [..., 2n, 2n] for nyquist="paired". Differentiable in p and wavelength.
    """
    _whole(n)
    p = _real(p, torch.float64) / _wavelength(wavelength)
    check_choice("nyquist", nyquist, NYQUIST)
    if nyquist == "twist":
        return twisted_roll_matrix(n, p)
    if nyquist == "odd" and n % 2 == 0:
        return torch.nn.functional.pad(roll_matrix(n - 1, p), (0, 1, 0, 1)) + torch.diag(
            torch.eye(n, dtype=torch.float64)[-1]
        )
    m = mode_numbers(n)
    F = fourier_matrix(n)[m % n]  # row k belongs to mode m_k
    phase = torch.exp(2j * math.pi / n * m.to(torch.float64) * p[..., None])
    if n % 2 == 0:
        still = torch.ones_like(p) if nyquist == "fixed" else torch.cos(math.pi * p)
        phase = torch.cat((phase[..., :-1], still[..., None]), dim=-1)
    S = (F.mH @ (phase[..., None] * F)).real
    if nyquist != "paired":
        return S
    twist = torch.zeros_like(S)  # how far the two Nyquist modes have turned into each other
    if n % 2 == 0:
        nu = _alternating(n, torch.float64)
        twist = torch.sin(math.pi * p)[..., None, None] * torch.outer(nu, nu)
    return torch.cat((torch.cat((S, -twist), dim=-1), torch.cat((twist, S), dim=-1)), dim=-2)


def continuous_roll(
    x: Tensor, p: float | Tensor, wavelength: float | Tensor = 1.0, nyquist: str = "fixed"
) -> Tensor:
    """Roll_p(x) = exp(pA/λ) x for real p (Eqs. 5, 7): rotations in the real Fourier basis.

    x [..., n] floating point; p and wavelength numbers or tensors broadcasting over x's leading
    dimensions. Differentiable in all three. Angles are formed in float32 or better, outside autocast;
    the result has the dtype of x. nyquist="paired" reads x as two rings of half its channels.
    """
    check_choice("nyquist", nyquist, NYQUIST)
    if not x.is_floating_point():
        raise InputError(f"x has dtype {x.dtype}: a continuous roll needs floating point. Use roll.")
    width = x.shape[-1]
    dtype = torch.promote_types(x.dtype, torch.float32)
    p = _real(p, dtype, x.device) / _wavelength(wavelength)
    if nyquist == "odd" and width % 2 == 0:
        moved = continuous_roll(x[..., :-1], p)
        return torch.cat((moved, x[..., -1:].expand(*moved.shape[:-1], 1)), dim=-1)
    rings = 1
    if nyquist == "paired":
        rings = 2
        if width % 2:
            raise InputError(
                f"x has {width} channels: nyquist='paired' takes two equal rings. Use an even number."
            )
    n = width // rings
    Q, frequencies = real_fourier_basis(n, dtype, x.device, twisted=nyquist == "twist")
    with torch.autocast(x.device.type, enabled=False):
        z = x.to(dtype).unflatten(-1, (rings, n)) @ Q  # [..., rings, n]
        pairs, rest = z[..., : 2 * len(frequencies)], z[..., 2 * len(frequencies) :]
        moved = rotate_pairs(pairs, p[..., None, None] * frequencies)
        shape = moved.shape[:-1]
        constant, nyquist_channel = rest[..., :1], rest[..., 1:]  # empty: the second for odd n, both twisted
        if nyquist == "cosine":
            nyquist_channel = nyquist_channel * torch.cos(math.pi * p)[..., None, None]
        elif nyquist == "paired":
            nyquist_channel = rotate_pairs(nyquist_channel.mT, math.pi * p[..., None, None]).mT
        others = (part.expand(*shape, part.shape[-1]) for part in (constant, nyquist_channel))
        rolled = (torch.cat((moved, *others), dim=-1).to(dtype) @ Q.T).flatten(-2)
    return rolled.to(x.dtype)


def rotate_pairs(x: Tensor, angle: Tensor, layout: str = "interleaved") -> Tensor:
    """Rotate pairs of channels of x [..., 2m] by the angles [..., m].

    Pairs are (x_0, x_1), (x_2, x_3), … ("interleaved") or (x_0, x_m), (x_1, x_{m+1}), … ("half"). Cosines and
    sines are taken in the angles' precision, the product in that of x.
    """
    first, second = (x[..., 0::2], x[..., 1::2]) if layout == "interleaved" else x.chunk(2, dim=-1)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    turned = first * cos - second * sin, first * sin + second * cos
    return torch.stack(turned, dim=-1).flatten(-2) if layout == "interleaved" else torch.cat(turned, dim=-1)


# The ring with a twist.


def twisted_shift(n: int) -> Tensor:
    """T, float64 [n, n]: S with the corner entry times (−1)^{n−1}, so that det T = 1 for every n.

    For even n the channel that leaves the ring comes back with its sign reversed; for odd n, T = S.
    """
    T = shift_matrix(n)
    T[-1, 0] = (-1) ** (n - 1)
    return T


def twisted_generator(n: int) -> Tensor:
    """A_jl = (π/n)(−1)^{j−l} / sin(π(j−l)/n), float64 [n, n], 0 on the diagonal: T = exp(A) for every n."""
    i = torch.arange(_whole(n), dtype=torch.float64)
    d = i[:, None] - i
    safe = torch.where(d == 0, 0.5, d)
    return torch.where(d == 0, 0.0, math.pi / n * torch.cos(math.pi * d) / torch.sin(math.pi * safe / n))


def twisted_roll_matrix(n: int, p: float | Tensor) -> Tensor:
    """N(p)_jl = sin(πt) / (n sin(πt/n)) with t = p + j − l, float64 [..., n, n] for real p [...].

    N(p) = exp(p·twisted_generator(n)), a group of rotations with N(1) = N, for every n. Its period is n for
    odd n and 2n for even n, where N(p + n) = −N(p).
    """
    i = torch.arange(_whole(n), dtype=torch.float64)
    t = torch.remainder(_real(p, torch.float64)[..., None, None] + i[:, None] - i + n / 2, 2 * n) - n / 2
    laps = torch.round(t / n)  # t mod n near 0, where the quotient below loses no digits, and a sign
    t = t - n * laps
    safe = torch.where(t == 0, 0.5, t)
    kernel = torch.where(t == 0, 1.0, torch.sin(math.pi * safe) / (n * torch.sin(math.pi * safe / n)))
    return kernel if n % 2 else kernel * (1 - 2 * torch.remainder(laps, 2))


def twisted_roll(x: Tensor, p: int | Tensor) -> Tensor:
    """T^p x: entry i takes the value of entry i+p mod n, times (−1)^{n−1} for each lap. Exact in any dtype.

    x [..., n]; whole p as in `roll`.
    """
    moved, laps = _around(x, _whole_positions(p))
    return moved if x.shape[-1] % 2 else moved * (1 - 2 * (laps % 2)).to(x.dtype)


def twisted_pair_roll(x: Tensor, p: int | Tensor, twist: float) -> Tensor:
    """A pair of rings of n channels, turned by φ = 2π·twist where it closes: x [..., 2n], p as in `roll`.

    With z_j = x_j + i x_{n+j}, entry j takes the value of entry j+p mod n, times e^{iφ} for each lap. The
    eigenvalues of one step are e^{i(2πk + φ)/n}, k = 0 … n−1, each a plane of two channels. Floating point.
    """
    if not x.is_floating_point():
        raise InputError(f"x has dtype {x.dtype}: a turn of pairs needs floating point. Use twisted_roll.")
    if x.shape[-1] % 2:
        raise InputError(f"x has {x.shape[-1]} channels: a pair takes two equal rings. Use an even number.")
    (a, laps), (b, _) = (_around(ring, _whole_positions(p)) for ring in x.chunk(2, dim=-1))
    turns = torch.remainder(twist * laps[..., None].to(torch.promote_types(x.dtype, torch.float32)), 1)
    turned = rotate_pairs(torch.stack((a, b), -1), 2 * math.pi * turns)
    return turned.mT.flatten(-2)


# The local stencil of App. E.


def stencil(n: int) -> Tensor:
    """(S − Sᵀ)/2, float64 [n, n]: the central difference on the ring, with spectrum i sin(2πk/n)."""
    S = shift_matrix(n)
    return (S - S.T) / 2


def stencil_roll(n: int, p: float) -> Tensor:
    """exp(p (S − Sᵀ)/2) = F* diag(e^{ip sin(2πk/n)}) F, float64 [n, n].

    Its entries are Bessel functions, Σ_m J_m(p) S^m. It is far from S: neighbors pass the signal on, so
    that short waves lag behind long ones (dispersion).
    """
    k = torch.arange(_whole(n), dtype=torch.float64)
    F = fourier_matrix(n)
    return (F.mH @ (torch.exp(1j * p * torch.sin(2 * math.pi * k / n))[:, None] * F)).real


# RollPE is RoPE, in a few more dimensions.


def embed_in_rope(x: Tensor) -> Tensor:
    """The isometry from [..., n] to the rotary form with n+1 (odd n) or n+2 (even n) channels.

    Pair k = 0 … ⌊n/2⌋ holds the real and imaginary part of Fourier coefficient k, to be rotated by
    `rollpe.encodings.frequencies.ring(n)[k]`·p. Pair 0, and pair n/2 for even n, have an empty second
    channel: that is the price of writing the constant and the Nyquist mode as rotations. Scores at integer
    positions (and at all real ones for odd n) are those of the roll. float32 or float64.
    """
    n = x.shape[-1]
    pairs = torch.view_as_real(torch.fft.rfft(x, norm="ortho"))  # [..., ⌊n/2⌋+1, 2]
    weight = torch.full((n // 2 + 1,), math.sqrt(2), dtype=x.dtype, device=x.device)
    weight[0] = 1
    if n % 2 == 0:
        weight[-1] = 1
    return (pairs * weight[:, None]).flatten(-2)


# Several waves, several axes.


def multiplexed_roll(x: Tensor, p: int | Tensor, speeds: Sequence[int] | None = None) -> Tensor:
    """Σ_w S^{wp} x^{(w)}, w = 1 … W (Eq. 12): x [..., W, n], whole p [...]; returns [..., n].

    Args:
        speeds: other integers in place of 1 … W.
    """
    speed = torch.as_tensor(speeds or range(1, x.shape[-2] + 1), device=x.device)
    return roll(x, torch.as_tensor(p, device=x.device)[..., None] * speed).sum(dim=-2)


def wave_period(n: int, w: int) -> int:
    """The period of wave w, the least p > 0 with S^{wp} = I: n / gcd(w, n)."""
    return _whole(n) // math.gcd(_whole(w, what="w"), n)


def axis_slices(head_dim: int, axes: int, width: int | None = None) -> list[slice]:
    """Where each axis lives in a head: sub-vector a starts at a·⌊head_dim/axes⌋.

    Its first `width` channels move (all of them, without width); the others carry no position.
    """
    size = _whole(head_dim, what="head_dim") // _whole(axes, what="axes")
    n = size if width is None else _whole(width, what="width")
    if not 1 <= n <= size:
        raise InputError(f"width={n} does not fit: {head_dim} channels give {size} to each of {axes} axes.")
    return [slice(a * size, a * size + n) for a in range(axes)]


def axial_roll(
    x: Tensor,
    positions: Tensor,
    width: int | Sequence[int] | None = None,
    move: Callable[[Tensor, Tensor], Tensor] = roll,
) -> Tensor:
    """Rings for each axis: sub-vector a of x [..., N, head_dim] rolls by integer positions [..., N, axes].

    Args:
        width: of the ring of an axis, or widths of several rings side by side.
        move: the roll of one ring, (x, p) to x; `twisted_roll` for rings with a twist.
    """
    total = sum(width) if isinstance(width, Sequence) else width
    out = torch.broadcast_tensors(x, positions[..., :1])[0].clone()
    for a, part in enumerate(axis_slices(x.shape[-1], positions.shape[-1], total)):
        rings = x[..., part].split(list(width), -1) if isinstance(width, Sequence) else (x[..., part],)
        out[..., part] = torch.cat([move(ring, positions[..., a]) for ring in rings], -1)
    return out


def torus_roll(x: Tensor, positions: Tensor, sheet: Sequence[int]) -> Tensor:
    """(S^{p_0} ⊗ S^{p_1}) x: the channels of x [..., h·w] are a sheet h × w, row by row, closed to a torus.

    positions [..., 2], whole: how far the sheet moves along its rows' axis (p_0) and columns' axis (p_1). A
    sheet of more or fewer sides has as many positions.
    """
    x = x.unflatten(-1, sheet)
    for a in range(-len(sheet), 0):
        p = positions[..., a].reshape(*positions.shape[:-1], *[1] * (len(sheet) - 1))
        x = roll(x.movedim(a, -1), p).movedim(-1, a)
    return x.flatten(-len(sheet))


def sheet_laplacian(height: int, width: int) -> Tensor:
    """The Laplacian of the h × w torus, L_h ⊗ I + I ⊗ L_w, float64 [hw, hw]."""
    rows = torch.kron(ring_laplacian(height), torch.eye(width, dtype=torch.float64))
    return rows + torch.kron(torch.eye(height, dtype=torch.float64), ring_laplacian(width))
