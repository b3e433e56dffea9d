"""When RollPE is RoPE, the ring with a twist, and which encodings are relative.

Sources: the paper's Sec. 3, Theorem 1 and App. F, corrected; the rest is ours where nothing else is said.
"""

import math

import torch
from torch import Tensor
from torch.linalg import matrix_power

from rollpe import operators, textbook
from rollpe.encodings import create_encoding
from rollpe.encodings.relative import Alibi
from rollpe.encodings.roll import ContinuousRoll, Roll, TwistedRoll
from rollpe.encodings.rotary import XPos
from rollpe_book.equations.cases import Draw, error, eye, must_fail, must_hold, rolled
from rollpe_book.equations.registry import check
from rollpe_book.equations.rotary import rotated


@check("ours; the real form of the paper's F", operators.real_fourier_basis, tolerance=1e-12, n=Draw.rings)
def eq_real_basis(rng, n):
    Q, i = operators.real_fourier_basis(n)[0], torch.arange(n).double()
    angles = [2 * math.pi * k * i / n for k in range(1, (n + 1) // 2)]
    pairs = [math.sqrt(2 / n) * wave for a in angles for wave in (a.cos(), -a.sin())]
    constant, alternating = n**-0.5 * torch.ones(n).double(), n**-0.5 * (-1) ** i
    yield error(Q.T, torch.stack([*pairs, constant, *[alternating] * (n % 2 == 0)]))
    yield error(Q.T @ Q, eye(n))


@check(
    "paper Eq. 7: 'is equivalent to a RoPE matrix', made exact",
    operators.real_fourier_basis,
    operators.shift_matrix,
)
def eq_rotary_form(rng, n):
    Q, frequencies = operators.real_fourier_basis(n)
    p, real = rng.count(-20, 20), rng.number(-9, 9)
    nyquist = [eye(1) * (-1.0) ** p] * (n % 2 == 0)
    blocks = torch.block_diag(textbook.rotation_matrix(p * frequencies), eye(1), *nyquist)
    yield error(Q.T @ matrix_power(operators.shift_matrix(n), p % n) @ Q, blocks)
    between = torch.block_diag(textbook.rotation_matrix(real * frequencies), eye(2 - n % 2))
    yield error(Q.T @ operators.roll_matrix(n, real) @ Q, between)


@check("paper, after Theorem 1", operators.ring_frequencies, n=Draw.rings)
def eq_ring_frequencies(rng, n):
    wavelength, omega = rng.number(0.5, 4), operators.ring_frequencies(n)
    phases = torch.linalg.eigvals(operators.shift_matrix(n)).angle().abs().sort()[0]
    yield error(torch.cat((omega, omega[1 : (n + 1) // 2])).sort()[0], phases)  # both signs
    by_fft = 2 * math.pi * torch.fft.rfftfreq(n, wavelength, dtype=torch.float64)
    yield error(operators.ring_frequencies(n, wavelength), by_fft)


@check(
    "the negacyclic shift of signal processing",
    operators.twisted_shift,
    TwistedRoll,
    tolerance=1e-12,
    n=Draw.rings,
)
def eq_twisted_shift(rng, n):
    x, N = rng.normal(n), operators.twisted_shift(n)
    moved = torch.cat((x[1:], (-1) ** (n - 1) * x[:1]))
    yield error(N @ x, moved)
    encoding = create_encoding("twisted-roll", head_dim=n, heads=1, axes=1).double()
    yield error(encoding.encode(x.expand(1, 1, 1, n), torch.ones(1, 1))[0, 0, 0], moved)
    yield error(N.det(), 1.0)


@check("ours", operators.twisted_generator, n=Draw.rings)
def eq_twisted_generator(rng, n):
    A, m = operators.twisted_generator(n), torch.arange(n).double() - (n - 1) / 2
    waves = torch.exp(2j * math.pi / n * torch.outer(torch.arange(n).double(), m)) / n**0.5
    exponential = torch.matrix_exp(A)
    yield error(A, waves @ torch.diag(2j * math.pi / n * m) @ waves.mH)
    yield error(A.T, -A)
    yield error(exponential, operators.twisted_shift(n))
    yield error(operators.generator(n, "twist"), A)
    plain = error(exponential, operators.shift_matrix(n))
    yield plain if n % 2 else must_fail(plain, least=1.9)


@check(
    "ours; for odd n the Dirichlet kernel",
    operators.twisted_roll_matrix,
    operators.twisted_roll,
    tolerance=1e-10,
)
def eq_twisted_roll(rng, n):
    p, other, whole_p = rng.number(-30, 30), rng.number(-30, 30), rng.count(-50, 50)
    N, x = operators.twisted_roll_matrix, rng.normal(n)
    yield error(N(n, p), torch.matrix_exp(p * operators.twisted_generator(n)))
    yield error(N(n, p) @ N(n, other), N(n, p + other))
    yield error(N(n, p).T @ N(n, p), eye(n))
    yield error(operators.twisted_roll(x, whole_p), N(n, float(whole_p)) @ x)
    yield error(operators.continuous_roll(x, p, 1.0, "twist"), N(n, p) @ x)


@check("ours", operators.twisted_frequencies, ContinuousRoll, tolerance=1e-10)
def eq_twisted_rope(rng):
    for n in rng.widths():
        Q, omega = operators.real_fourier_basis(n, twisted=True)
        shift = rng.number(-30, 30)
        planes = torch.block_diag(textbook.rotation_matrix(shift * omega), eye(n % 2))
        yield error(Q.T @ operators.twisted_roll_matrix(n, shift) @ Q, planes)
        yield error(Q.T @ Q, eye(n))
        yield error(omega, operators.twisted_frequencies(n))
    n = rng.even()
    encoding = create_encoding("continuous-roll", head_dim=n, heads=1, axes=1, nyquist="twist").double()
    q, k, p = rng.normal(1, 1, 5, n), rng.normal(1, 1, 5, n), rng.uniform(-20, 20, 5, 1)
    Q, omega = operators.real_fourier_basis(n, twisted=True)
    rotary = rotated(q[0, 0] @ Q, p[:, 0], omega) @ rotated(k[0, 0] @ Q, p[:, 0], omega).T / n**0.5
    yield error(encoding.scores(q, k, p)[0, 0], rotary)


@check("ours", operators.twisted_roll, tolerance=1e-12)
def eq_twisted_period(rng):
    n = rng.even()
    q, k, delta = rng.normal(n), rng.normal(n), torch.arange(-2 * n, 2 * n)
    f, later, twice = (operators.twisted_roll(k, delta + laps * n) @ q for laps in range(3))
    yield error(later, -f)
    yield error(twice, f)
    plain = operators.roll(k, delta) @ q
    yield error(plain[n:], plain[:-n])
    G = rng.count(2, n)
    signed = torch.stack([operators.twisted_roll(k, d) for d in range(1 - G, G)])
    yield must_hold(len(signed.unique(dim=0)) == 2 * G - 1)
    yield error(operators.roll(k, 1 - n), operators.roll(k, 1))  # the plain ring of n, G = n


def _weight(n: int) -> Tensor:
    """How many modes of a real ring share the frequency k = 0 … n/2: one at 0 and n/2, otherwise two."""
    return torch.tensor([1.0 if k in (0, n / 2) else 2.0 for k in range(n // 2 + 1)]).double()


@check("ours", operators.embed_in_rope, n=Draw.rings)
def eq_embedding(rng, n):
    x = rng.normal(2, 3, n)
    Ex = operators.embed_in_rope(x)
    spectrum = torch.einsum("kj,...j->...k", operators.fourier_matrix(n)[: n // 2 + 1], x + 0j)
    yield error(Ex, torch.view_as_real(spectrum * _weight(n).sqrt()).flatten(-2))
    yield error(Ex.norm(dim=-1), x.norm(dim=-1))
    yield error(Ex.shape[-1], n + 2 - n % 2)


@check("paper Theorem 1, corrected", operators.embed_in_rope, operators.ring_frequencies, tolerance=1e-10)
def eq_theorem(rng, n):
    q, k, p = rng.normal(5, n), rng.normal(5, n), rng.whole(-20, 20, 5)
    omega, E = operators.ring_frequencies(n), operators.embed_in_rope
    scores = rolled(q, p) @ rolled(k, p).T
    yield error(rotated(E(q), p, omega) @ rotated(E(k), p, omega).T, scores)
    # the constant wave need not be paired: its second channel, which is empty, may be left out
    fewer = [torch.cat((x[:, :1], x[:, 2:]), 1) for x in (E(q), E(k))]
    partial = [torch.cat((x[:, :1], rotated(x[:, 1:], p, omega[1:])), 1) for x in fewer]
    yield error(partial[0] @ partial[1].T, scores)
    yield must_hold(fewer[0].shape[1] == n + 1 - n % 2)
    if n % 2:
        s, wavelength = rng.uniform(-20, 20, 5), rng.number(0.5, 3)
        omega, A = operators.ring_frequencies(n, wavelength), operators.generator(n) / wavelength
        S = torch.matrix_exp((s - s[:, None])[..., None, None] * A)
        scores = torch.einsum("ia,ijab,jb->ij", q, S, k)
        yield error(rotated(E(q), s, omega) @ rotated(E(k), s, omega).T, scores)


@check(
    "ours; twisted boundary conditions of physics", operators.twisted_pair_roll, TwistedRoll, tolerance=1e-10
)
def eq_twist_angle(rng, n):
    twist, N = rng.number(0, 1), operators.twisted_pair_roll
    spectrum = torch.exp(1j * 2 * math.pi * (torch.arange(n).double() + twist) / n)
    spectrum = torch.cat((spectrum, spectrum.conj()))
    distance = (torch.linalg.eigvals(N(eye(2 * n), 1, twist).T)[:, None] - spectrum).abs()
    for dim in (0, 1):  # each value has a near one
        yield float(distance.min(dim)[0].max())
    x, p = rng.normal(2 * n), rng.count(-30, 30)
    cosine, sine = math.cos(2 * math.pi * twist), math.sin(2 * math.pi * twist)
    lap = torch.kron(torch.tensor([[cosine, -sine], [sine, cosine]], dtype=torch.float64), eye(n))
    yield error(N(x, p + n, twist), lap @ N(x, p, twist))
    yield error(N(x, p, 0.25).norm(), x.norm())  # a quarter turn: the twisted ring of 2n channels
    omega = torch.linalg.eigvals(N(eye(2 * n), 1, 0.25).T).angle()
    yield error(omega.abs().sort()[0][::2], operators.twisted_frequencies(2 * n))


def _polar(rng: Draw, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random U and W, orthogonal, and P, symmetric and positive definite: [n, n] each."""
    B, V, angles = rng.normal(n, n), rng.orthogonal(n), rng.uniform(-3, 3, n // 2)
    W = V @ torch.block_diag(textbook.rotation_matrix(angles), eye(n % 2)) @ V.T
    return rng.orthogonal(n), W, B @ B.T / n + 0.5 * eye(n)


@check("ours; compare Zhang et al. 2025 (GRAPE)", textbook.rotation_matrix, tolerance=1e-9)
def eq_relative_form(rng):
    n = rng.count(2, 7)
    U, W, P = _polar(rng, n)
    E = torch.stack([U @ matrix_power(W, p) @ P for p in range(6)])
    M = torch.einsum("pji,qjk->pqik", E, E)  # E(p)ᵀ E(p')
    for d in range(5):
        for p in range(6 - d):
            yield error(M[p, p + d], M[0, d])
    # the way back: root of M(0), then the steps of E(p) P⁻¹
    values, vectors = torch.linalg.eigh(M[0, 0])
    root = vectors @ torch.diag(values.sqrt()) @ vectors.T
    V = E @ torch.linalg.inv(root)
    steps = torch.linalg.inv(V[:-1]) @ V[1:]
    yield error(steps, steps[:1].expand_as(steps))
    yield error(root, P)
    yield error(V.mT @ V, eye(n).expand_as(V))
    # maps that are invertible and not of this form are not relative
    other = rng.normal(3, n, n)
    yield must_fail(error(other[0].T @ other[1], other[1].T @ other[2]), least=1e-3)


@check("ours; cases: ALiBi of Press et al. 2022, xPos of Sun et al. 2023", Alibi, XPos, tolerance=1e-9)
def eq_two_maps(rng):
    n, p = rng.count(2, 6), torch.arange(-4, 5)
    H = torch.matrix_exp(0.3 * rng.normal(n, n) / n**0.5)
    M, start = rng.normal(n, n), rng.orthogonal(n) * rng.uniform(0.5, 2, n)
    powers = [matrix_power(H, int(d)) for d in p]
    D = [torch.linalg.inv(start @ G).T @ M.T for G in powers]  # so that DᵀE is M H^(p'−p)
    E = [start @ G for G in powers]
    for d in range(5):
        for i in range(9 - d):
            yield error(D[i].T @ E[i + d], D[0].T @ E[d])
    positions = rng.whole(-9, 9, 6)
    yield _alibi_as_a_shear(positions)
    yield from _xpos_as_a_growing_turn(positions)


def _alibi_as_a_shear(p: Tensor) -> float:
    """One more pair of channels, (1, 0) in the query and (0, r) in the key, and a shear."""
    encoding, delta = create_encoding("alibi", head_dim=4, heads=1, axes=1), p - p[:, None]
    x = torch.zeros(1, 1, 6, 4).double()
    bias = encoding.scores(x, x, p[:, None])[0, 0]
    r = -encoding.scores(x[:, :, :2], x[:, :, :2], torch.tensor([[0], [1]]))[0, 0, 1, 0]
    query, key = torch.tensor([1.0, 0.0]).double(), torch.stack((0 * r, r))
    shear = torch.tensor([[1.0, 1.0], [0.0, 1.0]]).double()
    sheared = torch.stack([query @ matrix_power(shear, int(d)) @ key for d in delta[delta <= 0]])
    return error(bias[delta <= 0], sheared)


def _xpos_as_a_growing_turn(positions: Tensor):
    """A rotation times a growth: D(p)ᵀE(p') is a power of one step H."""
    xpos, unit = create_encoding("xpos", head_dim=4, heads=1, axes=1).double(), eye(4).expand(1, 1, 4, 4)

    def at(encode, p):  # transposed: a row is what a channel becomes
        return encode(unit, torch.full((4, 1), int(p)))[0, 0]

    H = torch.linalg.inv(at(xpos.encode_keys, 0).T) @ at(xpos.encode_keys, 1).T
    for p in positions:
        for other in positions:
            relative = at(xpos.encode, p) @ at(xpos.encode_keys, other).T
            yield error(relative, matrix_power(H, int(other - p)))


def _scores_span(W: Tensor, offsets: int) -> int:
    """The dimension of the space of functions Δ ↦ qᵀ W^Δ k on 0 … offsets − 1."""
    powers = torch.stack([matrix_power(W, d) for d in range(offsets)])
    return int(torch.linalg.matrix_rank(powers.flatten(1), rtol=1e-7))


@check("ours; Eq. 3 is complete, and nothing else is", operators.roll, tolerance=0.0)
def eq_span(rng):
    n = rng.count(3, 9)
    yield must_hold(_scores_span(operators.shift_matrix(n), 3 * n) == n)
    angles = rng.uniform(0.1, 3, n // 2)
    W = torch.block_diag(textbook.rotation_matrix(angles), eye(n % 2))
    yield must_hold(_scores_span(W, 3 * n) <= n)
    twice = torch.block_diag(textbook.rotation_matrix(angles[:1].expand(n // 2)), eye(n % 2))
    yield must_hold(_scores_span(twice, 3 * n) == 2 + n % 2)  # equal angles add nothing
    # with the ring's functions, the span has one dimension more for each root of unity that is missing
    both = torch.block_diag(W, operators.shift_matrix(n))
    yield must_hold(_scores_span(both, 6 * n) > _scores_span(W, 6 * n))


@check("ours", operators.shift_matrix, operators.twisted_shift, tolerance=1e-10)
def eq_even_spacing(rng):
    for n in rng.widths():
        for W in (operators.shift_matrix(n), operators.twisted_shift(n)):
            traces = torch.stack([matrix_power(W, d).diagonal().sum() for d in range(n)])
            yield error(traces[1:], 0 * traces[1:])
        i = torch.arange(n).double()
        for phi, real in ((0.0, True), (math.pi, True), (rng.number(0.2, 2.9), False)):
            spaced = torch.exp(1j * torch.outer(i, (2 * math.pi * i + phi) / n))
            alone = (spaced[1][:, None] - spaced[1].conj()).abs().min(1)[0].max()  # far from its conjugate
            yield error(spaced.mH @ spaced / n, eye(n))
            yield must_hold((float(alone) < 1e-9) == real)
    rope = textbook.rotation_matrix(textbook.rope_frequencies(8))
    largest = max(float(matrix_power(rope, d).diagonal().sum().abs()) for d in range(1, 8))
    yield must_fail(largest, least=1.0)


@check("ours; the Chinese remainder theorem, after Kymn et al. 2024", Roll, tolerance=0.0)
def eq_residues(rng):
    for a, b in ((7, 9), (rng.count(2, 9), rng.count(2, 9))):
        period = next(p for p in range(1, a * b + 1) if p % a == 0 and p % b == 0)
        encoding = create_encoding("roll", head_dim=a + b, heads=1, axes=1, width=(a, b))
        q = torch.randn(1, 1, 1, a + b, generator=rng)
        rolls = encoding.encode(q.expand(1, 1, 2 * period, -1), torch.arange(2 * period)[:, None])[0, 0]
        yield error(rolls[period:], rolls[:period])
        yield must_hold(len(rolls.unique(dim=0)) == period)
        W = torch.block_diag(operators.shift_matrix(a), operators.shift_matrix(b))
        yield must_hold(_scores_span(W, 3 * (a + b)) == a + b - math.gcd(a, b))


@check("ours; refutes Theorem 1 as printed for even n", operators.shift_matrix, textbook.rotation_matrix)
def eq_not_rope(rng):
    n, p = rng.even(), 2 * rng.count(0, 9) + 1
    R = textbook.rotation_matrix(p * rng.uniform(-3, 3, n // 2))
    E = rng.orthogonal(n) * rng.uniform(0.5, 2, n)  # no change of basis helps, orthogonal or not
    yield error((torch.linalg.inv(E) @ R @ E).det(), 1.0)
    yield error(matrix_power(operators.shift_matrix(n), p).det(), -1.0)


@check("paper App. F, after van de Geijn et al. 2025", operators.rotation_form, tolerance=1e-9)
def eq_lie_form(rng):
    n = rng.count(2, 9)
    idle = torch.block_diag(rng.skew(rng.count(2, 4)), torch.zeros(3, 3).double())  # with a null space
    twice = torch.block_diag(*[rng.skew(3)] * 2)  # with equal frequencies
    V = rng.orthogonal(6)
    for A in (
        rng.skew(n),
        1e-6 * rng.skew(n),
        idle,
        V @ twice @ V.T,
        operators.generator(rng.odd()),
        operators.generator(rng.even()),
    ):
        p, (V, omega) = rng.number(-5, 5), operators.rotation_form(A)
        R = torch.block_diag(textbook.rotation_matrix(p * omega), eye(len(A) % 2))
        spectrum = torch.linalg.svdvals(A)[::2]  # the moduli of ±iω, each of them twice
        yield error(V @ R @ V.T, torch.matrix_exp(p * A))
        yield error(V.T @ V, eye(len(A)))
        yield error(omega, spectrum[: len(omega)])


@check(
    "paper, after Theorem 1: λ = −π / ln 10000",
    operators.ring_frequencies,
    textbook.rope_frequencies,
    tolerance=1e-10,
)
def eq_lambda(rng):
    n = rng.even(2, 64)
    omega = operators.ring_frequencies(n, -math.pi / math.log(10000))[: n // 2]
    yield error(omega, textbook.rope_frequencies(n).log())


@check("ours; on the same sentence", operators.ring_frequencies, tolerance=1e-9)
def eq_lambda_aliased(rng):
    wavelength = -math.pi / math.log(10000)
    n = rng.even(4, 64)
    omega = operators.ring_frequencies(n, wavelength)[: n // 2].abs()
    k = torch.arange(n // 2)
    aliased = k > math.pi * n / (2 * math.log(10000))
    yield must_hold(torch.equal(omega > math.pi, aliased))
    at_32 = operators.ring_frequencies(32, wavelength)[:16].abs() > math.pi
    yield must_hold(at_32.nonzero().flatten().tolist() == list(range(6, 16)))
    p = rng.whole(-50, 50, 9).double()
    folded = torch.remainder(omega + math.pi, 2 * math.pi) - math.pi  # what integer positions can see
    yield error(torch.exp(1j * p[:, None] * omega), torch.exp(1j * p[:, None] * folded))


@check(
    "paper, after Theorem 1; circles on progressions", operators.ring_frequencies, textbook.rope_frequencies
)
def eq_spectra(rng):
    n, wavelength = rng.even(4, 40), rng.number(0.5, 4)
    omega, theta = operators.ring_frequencies(n, wavelength), textbook.rope_frequencies(n)
    step, ratio = torch.diff(omega), theta[1:] / theta[:-1]
    yield error(step, torch.full_like(step, 2 * math.pi / (wavelength * n)))
    yield error(ratio, torch.full_like(ratio, math.exp(-2 / n * math.log(10000))))
    yield error(omega[0], 0)
    yield error(theta[0], 1)


@check("ours; the correlation theorem for Eq. 3", operators.roll, operators.ring_frequencies)
def eq_score_waves(rng, n):
    q, k, delta = rng.normal(n), rng.normal(n), torch.arange(-n, n + 1)
    scores = operators.roll(k.expand(len(delta), n), delta) @ q
    product = torch.fft.rfft(q, norm="ortho").conj() * torch.fft.rfft(k, norm="ortho")
    waves = torch.exp(1j * delta.double()[:, None] * operators.ring_frequencies(n))
    yield error(scores, (_weight(n) * product * waves).real.sum(1))
