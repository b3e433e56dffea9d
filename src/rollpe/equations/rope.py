"""Page 07-rope: in which sense RollPE is RoPE, and in which it is not.

Sources: the paper's Sec. 3, Theorem 1 and App. F, corrected.
"""

import math

import torch
from torch import Tensor

from rollpe import operators, textbook
from rollpe.equations.cases import (
    count,
    error,
    even,
    must_hold,
    normal,
    number,
    odd,
    orthogonal,
    skew,
    uniform,
    whole,
    widths,
)
from rollpe.equations.registry import check


def rotated(x: Tensor, p: Tensor, frequencies: Tensor) -> Tensor:
    """RoPE by complex multiplication, interleaved: x [N, 2m], p [N], frequencies [m]."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.exp(1j * p.double()[:, None] * frequencies)).flatten(-2)


@check("ours; the real form of the paper's F", operators.real_fourier_basis, tolerance=1e-12)
def eq_real_basis(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        Q = operators.real_fourier_basis(n)[0]
        columns = []
        for k in range(1, (n + 1) // 2):
            angles = [2 * math.pi * k * i / n for i in range(n)]
            columns.append([math.sqrt(2 / n) * math.cos(a) for a in angles])
            columns.append([-math.sqrt(2 / n) * math.sin(a) for a in angles])
        columns.append([n**-0.5] * n)
        if n % 2 == 0:
            columns.append([n**-0.5 * (-1) ** i for i in range(n)])
        expected = torch.tensor(columns, dtype=torch.float64)
        worst = max(worst, error(Q.T, expected), error(Q.T @ Q, torch.eye(n).double()))
    return worst


@check(
    "paper Eq. 7: 'is equivalent to a RoPE matrix', made exact",
    operators.real_fourier_basis,
    operators.shift_matrix,
    tolerance=1e-11,
)
def eq_rotary_form(rng):
    worst = 0.0
    for n in widths(rng):
        Q, frequencies = operators.real_fourier_basis(n)
        p, real = count(rng, -20, 20), number(rng, -9, 9)
        S = torch.linalg.matrix_power(operators.shift_matrix(n), p % n)
        rest = [torch.ones(1, 1).double()] + [torch.full((1, 1), (-1.0) ** p).double()] * (n % 2 == 0)
        blocks = torch.block_diag(textbook.rotation_matrix(p * frequencies), *rest)
        still = torch.eye(2 - n % 2).double()
        between = torch.block_diag(textbook.rotation_matrix(real * frequencies), still)
        worst = max(
            worst, error(Q.T @ S @ Q, blocks), error(Q.T @ operators.roll_matrix(n, real) @ Q, between)
        )
    return worst


@check("paper, after Theorem 1", operators.ring_frequencies, tolerance=1e-11)
def eq_ring_frequencies(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        wavelength, omega = number(rng, 0.5, 4), operators.ring_frequencies(n)
        phases = torch.linalg.eigvals(operators.shift_matrix(n)).angle().abs().sort()[0]
        both_signs = torch.cat((omega, omega[1 : (n + 1) // 2])).sort()[0]
        stretched = operators.ring_frequencies(n, wavelength)
        by_fft = 2 * math.pi * torch.fft.rfftfreq(n, wavelength, dtype=torch.float64)
        worst = max(worst, error(both_signs, phases), error(stretched, by_fft))
    return worst


@check("ours", operators.embed_in_rope, tolerance=1e-11)
def eq_embedding(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        x = normal(rng, 2, 3, n)
        Ex = operators.embed_in_rope(x)
        spectrum = torch.einsum("kj,...j->...k", operators.fourier_matrix(n)[: n // 2 + 1], x + 0j)
        weight = torch.tensor([1.0 if k in (0, n / 2) else 2.0 for k in range(n // 2 + 1)]).double().sqrt()
        slow = torch.view_as_real(spectrum * weight).flatten(-2)
        worst = max(worst, error(Ex, slow), error(Ex.norm(dim=-1), x.norm(dim=-1)))
        worst = max(worst, float(Ex.shape[-1] != n + 2 - n % 2))
    return worst


@check("paper Theorem 1, corrected", operators.embed_in_rope, operators.ring_frequencies, tolerance=1e-10)
def eq_theorem(rng):
    worst = 0.0
    for n in widths(rng):
        q, k, p = normal(rng, 5, n), normal(rng, 5, n), whole(rng, -20, 20, 5)
        omega, E = operators.ring_frequencies(n), operators.embed_in_rope
        rolled = [
            torch.stack([torch.roll(row, -int(s)) for row, s in zip(x, p, strict=True)]) for x in (q, k)
        ]
        rotary = rotated(E(q), p, omega) @ rotated(E(k), p, omega).T
        worst = max(worst, error(rotary, rolled[0] @ rolled[1].T))
        if n % 2:
            s, wavelength = uniform(rng, -20, 20, 5), number(rng, 0.5, 3)
            omega, A = operators.ring_frequencies(n, wavelength), operators.generator(n) / wavelength
            S = torch.matrix_exp((s - s[:, None])[..., None, None] * A)
            rotary = rotated(E(q), s, omega) @ rotated(E(k), s, omega).T
            worst = max(worst, error(rotary, torch.einsum("ia,ijab,jb->ij", q, S, k)))
    return worst


@check(
    "ours; refutes Theorem 1 as printed for even n",
    operators.shift_matrix,
    textbook.rotation_matrix,
    tolerance=1e-11,
)
def eq_not_rope(rng):
    n, p = even(rng), 2 * count(rng, 0, 9) + 1
    R = textbook.rotation_matrix(p * uniform(rng, -3, 3, n // 2))
    S = torch.linalg.matrix_power(operators.shift_matrix(n), p)
    E = orthogonal(rng, n) * uniform(rng, 0.5, 2, n)  # no change of basis helps, orthogonal or not
    return max(error((torch.linalg.inv(E) @ R @ E).det(), 1.0), error(S.det(), -1.0))


@check("paper App. F, after van de Geijn et al. 2025", operators.rotation_form, tolerance=1e-9)
def eq_lie_form(rng):
    worst = 0.0
    n = count(rng, 2, 9)
    idle = torch.block_diag(skew(rng, count(rng, 2, 4)), torch.zeros(3, 3).double())  # with a null space
    twice = torch.block_diag(*[skew(rng, 3)] * 2)  # with equal frequencies
    V = orthogonal(rng, 6)
    for A in (
        skew(rng, n),
        1e-6 * skew(rng, n),
        idle,
        V @ twice @ V.T,
        operators.generator(odd(rng)),
        operators.generator(even(rng)),
    ):
        p, (V, omega) = number(rng, -5, 5), operators.rotation_form(A)
        R = torch.block_diag(textbook.rotation_matrix(p * omega), torch.eye(len(A) % 2).double())
        spectrum = torch.linalg.svdvals(A)[::2]  # the moduli of ±iω, each of them twice
        worst = max(
            worst,
            error(V @ R @ V.T, torch.matrix_exp(p * A)),
            error(V.T @ V, torch.eye(len(A)).double()),
            error(omega, spectrum[: len(omega)]),
        )
    return worst


@check(
    "paper, after Theorem 1: λ = −π / ln 10000",
    operators.ring_frequencies,
    textbook.rope_frequencies,
    tolerance=1e-10,
)
def eq_lambda(rng):
    n = even(rng, 2, 64)
    omega = operators.ring_frequencies(n, -math.pi / math.log(10000))[: n // 2]
    return error(omega, textbook.rope_frequencies(n).log())


@check("ours; on the same sentence", operators.ring_frequencies, tolerance=1e-9)
def eq_lambda_aliased(rng):
    wavelength = -math.pi / math.log(10000)
    n = even(rng, 4, 64)
    omega = operators.ring_frequencies(n, wavelength)[: n // 2].abs()
    k = torch.arange(n // 2)
    same = bool(((omega > math.pi) == (k > math.pi * n / (2 * math.log(10000)))).all())
    at_32 = (operators.ring_frequencies(32, wavelength)[:16].abs() > math.pi).nonzero().flatten().tolist()
    p = whole(rng, -50, 50, 9).double()
    folded = torch.remainder(omega + math.pi, 2 * math.pi) - math.pi  # what whole positions can see
    seen = error(torch.exp(1j * p[:, None] * omega), torch.exp(1j * p[:, None] * folded))
    return max(must_hold(same), must_hold(at_32 == list(range(6, 16))), seen)


@check(
    "paper, after Theorem 1; circles on progressions",
    operators.ring_frequencies,
    textbook.rope_frequencies,
    tolerance=1e-11,
)
def eq_spectra(rng):
    n, wavelength = even(rng, 4, 40), number(rng, 0.5, 4)
    omega, theta = operators.ring_frequencies(n, wavelength), textbook.rope_frequencies(n)
    step, ratio = torch.diff(omega), theta[1:] / theta[:-1]
    return max(
        error(step, torch.full_like(step, 2 * math.pi / (wavelength * n))),
        error(ratio, torch.full_like(ratio, math.exp(-2 / n * math.log(10000)))),
        error(torch.stack((omega[0], theta[0])), torch.tensor([0.0, 1.0]).double()),
    )


@check("ours; the correlation theorem for Eq. 3", operators.roll, operators.ring_frequencies, tolerance=1e-11)
def eq_score_waves(rng):
    worst = 0.0
    for n in widths(rng):
        q, k, delta = normal(rng, n), normal(rng, n), torch.arange(-n, n + 1)
        scores = operators.roll(k.expand(len(delta), n), delta) @ q
        product = torch.fft.rfft(q, norm="ortho").conj() * torch.fft.rfft(k, norm="ortho")
        weight = torch.tensor([1.0 if m in (0, n / 2) else 2.0 for m in range(n // 2 + 1)]).double()
        waves = torch.exp(1j * delta.double()[:, None] * operators.ring_frequencies(n))
        worst = max(worst, error(scores, (weight * product * waves).real.sum(1)))
    return worst
