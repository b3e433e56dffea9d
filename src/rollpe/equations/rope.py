"""Page 07-rope: when RollPE is RoPE, the ring with a twist, and which encodings are relative.

Sources: the paper's Sec. 3, Theorem 1 and App. F, corrected; the rest is ours where nothing else is said.
"""

import math

import torch
from torch import Generator, Tensor

from rollpe import operators, textbook
from rollpe.encodings import create_encoding
from rollpe.encodings.relative import Alibi
from rollpe.encodings.roll import ContinuousRoll, Roll, TwistedRoll
from rollpe.encodings.rotary import XPos
from rollpe.equations.cases import (
    count,
    error,
    even,
    must_fail,
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


@check("the negacyclic shift of signal processing", operators.twisted_shift, TwistedRoll, tolerance=1e-12)
def eq_twisted_shift(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        x, N = normal(rng, n), operators.twisted_shift(n)
        moved = torch.cat((x[1:], (-1) ** (n - 1) * x[:1]))
        encoding = create_encoding("twisted-roll", head_dim=n, heads=1, axes=1).double()
        encoded = encoding.encode(x.expand(1, 1, 1, n), torch.ones(1, 1, dtype=torch.float64))[0, 0, 0]
        worst = max(worst, error(N @ x, moved), error(encoded, moved), error(N.det(), 1.0))
    return worst


@check("ours", operators.twisted_generator, tolerance=1e-11)
def eq_twisted_generator(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        A, m = operators.twisted_generator(n), torch.arange(n).double() - (n - 1) / 2
        waves = torch.exp(2j * math.pi / n * torch.outer(torch.arange(n).double(), m)) / n**0.5
        by_waves = waves @ torch.diag(2j * math.pi / n * m) @ waves.mH
        exponential = torch.matrix_exp(A)
        worst = max(
            worst,
            error(A + 0j, by_waves),
            error(A.T, -A),
            error(exponential, operators.twisted_shift(n)),
            error(operators.generator(n, "twist"), A),
        )
        plain = error(exponential, operators.shift_matrix(n))
        worst = max(worst, plain if n % 2 else must_fail(plain, least=1.9))
    return worst


@check(
    "ours; for odd n the Dirichlet kernel",
    operators.twisted_roll_matrix,
    operators.twisted_roll,
    tolerance=1e-10,
)
def eq_twisted_roll(rng):
    worst = 0.0
    for n in widths(rng):
        p, other, whole_p = number(rng, -30, 30), number(rng, -30, 30), count(rng, -50, 50)
        N, x = operators.twisted_roll_matrix, normal(rng, n)
        worst = max(
            worst,
            error(N(n, p), torch.matrix_exp(p * operators.twisted_generator(n))),
            error(N(n, p) @ N(n, other), N(n, p + other)),
            error(N(n, p).T @ N(n, p), torch.eye(n).double()),
            error(operators.twisted_roll(x, whole_p), N(n, float(whole_p)) @ x),
            error(operators.continuous_roll(x, p, 1.0, "twist"), N(n, p) @ x),
        )
    return worst


@check("ours", operators.twisted_frequencies, ContinuousRoll, tolerance=1e-10)
def eq_twisted_rope(rng):
    worst = 0.0
    for n in widths(rng):
        Q, omega = operators.real_fourier_basis(n, twisted=True)
        shift = number(rng, -30, 30)
        planes = [textbook.rotation_matrix(shift * omega), *[torch.ones(1, 1).double()] * (n % 2)]
        worst = max(
            worst,
            error(Q.T @ operators.twisted_roll_matrix(n, shift) @ Q, torch.block_diag(*planes)),
            error(Q.T @ Q, torch.eye(n).double()),
            error(omega, operators.twisted_frequencies(n)),
        )
    n = even(rng)
    encoding = create_encoding("continuous-roll", head_dim=n, heads=1, axes=1, nyquist="twist").double()
    q, k, p = normal(rng, 1, 1, 5, n), normal(rng, 1, 1, 5, n), uniform(rng, -20, 20, 5, 1)
    Q, omega = operators.real_fourier_basis(n, twisted=True)
    rotary = rotated(q[0, 0] @ Q, p[:, 0], omega) @ rotated(k[0, 0] @ Q, p[:, 0], omega).T / n**0.5
    return max(worst, error(encoding.scores(q, k, p)[0, 0], rotary))


@check("ours", operators.twisted_roll, tolerance=1e-12)
def eq_twisted_period(rng):
    n = even(rng)
    q, k, delta = normal(rng, n), normal(rng, n), torch.arange(-2 * n, 2 * n)
    f, later, twice = (operators.twisted_roll(k, delta + laps * n) @ q for laps in range(3))
    plain = operators.roll(k, delta) @ q
    G = count(rng, 2, n)
    signed = torch.stack([operators.twisted_roll(k, d) for d in range(1 - G, G)])
    distinct = must_hold(len(signed.unique(dim=0)) == 2 * G - 1)
    repeated = error(operators.roll(k, 1 - n), operators.roll(k, 1))  # the plain ring of n, G = n
    return max(error(later, -f), error(twice, f), error(plain[n:], plain[:-n]), distinct, repeated)


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
        empty = 1  # the second channel of the constant wave, which need not be paired
        rotary = rotated(E(q), p, omega) @ rotated(E(k), p, omega).T
        fewer = [torch.cat((x[:, :empty], x[:, empty + 1 :]), 1) for x in (E(q), E(k))]
        partial = [torch.cat((x[:, :1], rotated(x[:, 1:], p, omega[1:])), 1) for x in fewer]
        worst = max(
            worst,
            error(rotary, rolled[0] @ rolled[1].T),
            error(partial[0] @ partial[1].T, rolled[0] @ rolled[1].T),
            must_hold(fewer[0].shape[1] == n + 1 - n % 2),
        )
        if n % 2:
            s, wavelength = uniform(rng, -20, 20, 5), number(rng, 0.5, 3)
            omega, A = operators.ring_frequencies(n, wavelength), operators.generator(n) / wavelength
            S = torch.matrix_exp((s - s[:, None])[..., None, None] * A)
            rotary = rotated(E(q), s, omega) @ rotated(E(k), s, omega).T
            worst = max(worst, error(rotary, torch.einsum("ia,ijab,jb->ij", q, S, k)))
    return worst


@check(
    "ours; twisted boundary conditions of physics", operators.twisted_pair_roll, TwistedRoll, tolerance=1e-10
)
def eq_twist_angle(rng):
    worst = 0.0
    for n in widths(rng):
        twist = number(rng, 0, 1)
        N = operators.twisted_pair_roll(torch.eye(2 * n).double(), 1, twist).T
        k = torch.arange(n).double()
        expected = torch.exp(1j * 2 * math.pi * (k + twist) / n)
        expected = torch.cat((expected, expected.conj()))
        found = torch.linalg.eigvals(N)
        nearest = (found[:, None] - expected).abs()
        worst = max(worst, float(nearest.min(0)[0].max()), float(nearest.min(1)[0].max()))
        x, p = normal(rng, 2 * n), count(rng, -30, 30)
        lap = torch.block_diag(*[torch.eye(n).double() * math.cos(2 * math.pi * twist)] * 2)
        lap[:n, n:] = -math.sin(2 * math.pi * twist) * torch.eye(n).double()
        lap[n:, :n] = -lap[:n, n:]
        after = operators.twisted_pair_roll(x, p + n, twist)
        worst = max(worst, error(after, lap @ operators.twisted_pair_roll(x, p, twist)))
        half = operators.twisted_pair_roll(x, p, 0.25)  # a quarter turn: the twisted ring of 2n channels
        omega = torch.linalg.eigvals(
            operators.twisted_pair_roll(torch.eye(2 * n).double(), 1, 0.25).T
        ).angle()
        worst = max(
            worst,
            error(half.norm(), x.norm()),
            error(omega.abs().sort()[0][::2], operators.twisted_frequencies(2 * n)),
        )
    return worst


def _polar(rng: Generator, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random U and W, orthogonal, and P, symmetric and positive definite: [n, n] each."""
    B, V, angles = normal(rng, n, n), orthogonal(rng, n), uniform(rng, -3, 3, n // 2)
    W = V @ torch.block_diag(textbook.rotation_matrix(angles), torch.eye(n % 2).double()) @ V.T
    return orthogonal(rng, n), W, B @ B.T / n + 0.5 * torch.eye(n).double()


@check("ours; compare Zhang et al. 2025 (GRAPE)", textbook.rotation_matrix, tolerance=1e-9)
def eq_relative_form(rng):
    n = count(rng, 2, 7)
    U, W, P = _polar(rng, n)
    E = torch.stack([U @ torch.linalg.matrix_power(W, p) @ P for p in range(6)])
    M = torch.einsum("pji,qjk->pqik", E, E)  # E(p)ᵀ E(p')
    relative = max(error(M[p, p + d], M[0, d]) for d in range(5) for p in range(6 - d))
    # the way back: root of M(0), then the steps of E(p) P⁻¹
    values, vectors = torch.linalg.eigh(M[0, 0])
    root = vectors @ torch.diag(values.sqrt()) @ vectors.T
    V = E @ torch.linalg.inv(root)
    steps = torch.linalg.inv(V[:-1]) @ V[1:]
    found = max(
        error(steps, steps[:1].expand_as(steps)), error(root, P), error(V.mT @ V, torch.eye(n).expand_as(V))
    )
    # maps that are invertible and not of this form are not relative
    other = normal(rng, 3, n, n)
    broken = error(other[0].T @ other[1], other[1].T @ other[2])
    return max(relative, found, must_fail(broken, least=1e-3))


@check("ours; cases: ALiBi of Press et al. 2022, xPos of Sun et al. 2023", Alibi, XPos, tolerance=1e-9)
def eq_two_maps(rng):
    n, p = count(rng, 2, 6), torch.arange(-4, 5)
    H = torch.matrix_exp(0.3 * normal(rng, n, n) / n**0.5)
    M, start = normal(rng, n, n), orthogonal(rng, n) * uniform(rng, 0.5, 2, n)
    powers = [torch.linalg.matrix_power(H, int(d)) for d in p]
    D = [torch.linalg.inv(start @ G).T @ M.T for G in powers]  # so that DᵀE is M H^(p'−p)
    E = [start @ G for G in powers]
    relative = max(error(D[i].T @ E[i + d], D[0].T @ E[d]) for d in range(5) for i in range(9 - d))
    # ALiBi: one more pair of channels, (1, 0) in the query and (0, r) in the key, and a shear
    encoding, positions = create_encoding("alibi", head_dim=4, heads=1, axes=1), whole(rng, -9, 9, 6)
    x = torch.zeros(1, 1, 6, 4).double()
    bias, delta = encoding.scores(x, x, positions[:, None])[0, 0], positions - positions[:, None]
    r = -encoding.scores(x[:, :, :2], x[:, :, :2], torch.tensor([[0], [1]]))[0, 0, 1, 0]
    query, key = torch.tensor([1.0, 0.0]).double(), torch.stack((0 * r, r))
    shear = torch.tensor([[1.0, 1.0], [0.0, 1.0]]).double()
    sheared = torch.stack([query @ torch.linalg.matrix_power(shear, int(d)) @ key for d in delta[delta <= 0]])
    # xPos: a rotation times a growth
    xpos, unit = create_encoding("xpos", head_dim=4, heads=1, axes=1).double(), torch.eye(4).double()
    at = [torch.full((4, 1), int(p)) for p in positions]
    D = [
        xpos.encode(unit.expand(1, 1, 4, 4), p)[0, 0] for p in at
    ]  # transposed: a row is what a channel becomes
    E = [xpos.encode_keys(unit.expand(1, 1, 4, 4), p)[0, 0] for p in at]
    start, step = (xpos.encode_keys(unit.expand(1, 1, 4, 4), torch.full((4, 1), p))[0, 0] for p in (0, 1))
    H = torch.linalg.inv(start.T) @ step.T
    moved = max(
        error(D[i] @ E[j].T, torch.linalg.matrix_power(H, int(delta[i, j])))
        for i in range(6)
        for j in range(6)
    )
    return max(relative, error(bias[delta <= 0], sheared), moved)


def _scores_span(W: Tensor, offsets: int) -> int:
    """The dimension of the space of functions Δ ↦ qᵀ W^Δ k on 0 … offsets − 1."""
    powers = torch.stack([torch.linalg.matrix_power(W, d) for d in range(offsets)])
    return int(torch.linalg.matrix_rank(powers.flatten(1), rtol=1e-7))


@check("ours; Eq. 3 is complete, and nothing else is", operators.roll, tolerance=0.0)
def eq_span(rng):
    n = count(rng, 3, 9)
    ring = _scores_span(operators.shift_matrix(n), 3 * n) == n
    angles = uniform(rng, 0.1, 3, n // 2)
    W = torch.block_diag(textbook.rotation_matrix(angles), *[torch.ones(1, 1).double()] * (n % 2))
    twice = torch.block_diag(textbook.rotation_matrix(angles[:1].expand(n // 2)), torch.eye(n % 2).double())
    few = _scores_span(twice, 3 * n) == 2 + n % 2  # equal angles add nothing
    # with the ring's functions, the span has one dimension more for each root of unity that is missing
    both = torch.block_diag(W, operators.shift_matrix(n))
    missing = _scores_span(both, 6 * n) - _scores_span(W, 6 * n)
    return max(
        must_hold(ring), must_hold(few), must_hold(missing > 0), must_hold(_scores_span(W, 3 * n) <= n)
    )


@check("ours", operators.shift_matrix, operators.twisted_shift, tolerance=1e-10)
def eq_even_spacing(rng):
    worst = 0.0
    for n in widths(rng):
        for W in (operators.shift_matrix(n), operators.twisted_shift(n)):
            traces = torch.stack([torch.linalg.matrix_power(W, d).diagonal().sum() for d in range(n)])
            worst = max(worst, error(traces[1:], torch.zeros(n - 1).double()))
        i = torch.arange(n).double()
        for phi, real in ((0.0, True), (math.pi, True), (number(rng, 0.2, 2.9), False)):
            angles = (2 * math.pi * i + phi) / n
            spaced = torch.exp(1j * torch.outer(i, angles))
            alone = (spaced[1][:, None] - spaced[1].conj()).abs().min(1)[0].max()  # far from its conjugate
            worst = max(worst, error(spaced.mH @ spaced / n, torch.eye(n) + 0j))
            worst = max(worst, must_hold((float(alone) < 1e-9) == real))
    rope = textbook.rotation_matrix(textbook.rope_frequencies(8))
    powers = torch.stack([torch.linalg.matrix_power(rope, d) for d in range(1, 8)])
    return max(worst, must_fail(float(powers.diagonal(dim1=1, dim2=2).sum(1).abs().max()), least=1.0))


@check("ours; the Chinese remainder theorem, after Kymn et al. 2024", Roll, tolerance=0.0)
def eq_residues(rng):
    worst = 0.0
    for a, b in ((7, 9), (count(rng, 2, 9), count(rng, 2, 9))):
        period = next(p for p in range(1, a * b + 1) if p % a == 0 and p % b == 0)
        encoding = create_encoding("roll", head_dim=a + b, heads=1, axes=1, width=(a, b))
        q = torch.randn(1, 1, 1, a + b, generator=rng)
        rolls = encoding.encode(q.expand(1, 1, 2 * period, -1), torch.arange(2 * period)[:, None])[0, 0]
        distinct = must_hold(len(rolls.unique(dim=0)) == period)
        W = torch.block_diag(operators.shift_matrix(a), operators.shift_matrix(b))
        span = must_hold(_scores_span(W, 3 * (a + b)) == a + b - math.gcd(a, b))
        worst = max(worst, distinct, span, error(rolls[period:], rolls[:period]))
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
