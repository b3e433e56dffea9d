"""The generator, real positions, and what an even width costs.

Sources: the paper's Eqs. 4–7, 13 and 14 and App. E, corrected where they fail; closed forms from the
textbooks on spectral methods and trigonometric interpolation.
"""

import functools
import math

import torch
from scipy.linalg import logm
from scipy.special import jv
from torch import Tensor

from rollpe import operators
from rollpe_book.equations.cases import Draw, entrywise, error, excess, eye, must_fail, must_hold, shift_power
from rollpe_book.equations.registry import check


def _nyquist(n: int) -> Tensor:
    """νν ᵀ with ν_i = (−1)^i/√n."""
    nu = torch.tensor([(-1.0) ** i for i in range(n)], dtype=torch.float64) / math.sqrt(n)
    return torch.outer(nu, nu)


def _turning_modes(n: int) -> Tensor:
    """Mode numbers in the order of the FFT [n]; the Nyquist mode of an even width does not turn."""
    mode = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
    if n % 2 == 0:
        mode[n // 2] = 0
    return mode


def _place(rng: Draw) -> tuple[float, float]:
    """A real position and a wavelength."""
    return rng.number(-20, 20), rng.number(0.3, 4)


@check("paper, before Eq. 7", operators.fourier_matrix, tolerance=1e-12, n=Draw.rings)
def eq_dft(rng, n):
    F = operators.fourier_matrix(n)
    yield error(F, torch.fft.fft(eye(n), norm="ortho"))
    yield error(F.mH @ F, eye(n))


@check("paper Eq. 13", operators.fourier_matrix, operators.shift_matrix, tolerance=1e-12)
def eq_diagonal(rng, n):
    F = operators.fourier_matrix(n)
    phases = torch.exp(2j * math.pi * torch.arange(n).double() / n)
    yield error(F.mH @ torch.diag(phases) @ F, operators.shift_matrix(n))


@check("textbook: the sign of a cycle of n places", operators.shift_matrix, tolerance=1e-12)
def eq_determinant(rng):
    for n in (1, 2, *rng.widths()):
        yield error(operators.shift_matrix(n).det(), (-1.0) ** (n - 1))


@check(
    "a case of Culver 1966; refutes 'log S ∈ so(n)' after the paper's Eq. 4 for even n",
    operators.shift_matrix,
    tolerance=1e-10,
)
def eq_no_real_log(rng):
    n = rng.even()
    B = rng.normal(n, n) / n
    yield error(torch.matrix_exp(B).det() / torch.exp(B.trace()), 1.0)
    yield must_hold(float(operators.shift_matrix(n).det()) < -0.5)
    principal = logm(operators.shift_matrix(n).numpy())
    yield must_fail(float(abs(principal.imag).max()), least=0.1)


@check("paper Eq. 4, for odd n", operators.generator)
def eq_log(rng):
    n = rng.odd()
    A, S = operators.generator(n), operators.shift_matrix(n)
    yield error(A, logm(S.numpy()).real)
    yield error(torch.matrix_exp(A), S)


@check(
    "paper Eq. 14, corrected: mode numbers centered on 0",
    operators.generator,
    operators.mode_numbers,
    tolerance=1e-12,
    n=Draw.rings,
)
def eq_generator(rng, n):
    A, i = torch.zeros(n, n).double(), torch.arange(n).double()
    for m in range(1, (n - 1) // 2 + 1):
        A -= 4 * math.pi * m / n**2 * torch.sin(2 * math.pi * m / n * (i[:, None] - i))
    yield error(operators.generator(n), A)
    modes = [((k + (n - 1) // 2) % n) - (n - 1) // 2 for k in range(n)]
    yield error(operators.mode_numbers(n), sorted(modes))


@check("paper Eq. 14, as printed: k = 0 … n−1", operators.paper_generator)
def eq_generator_printed(rng, n):
    printed, i = operators.paper_generator(n), torch.arange(n).double()
    waves = [torch.exp(2j * math.pi * m * i / n) / n**0.5 for m in range(-((n - 1) // 2), 0)]
    shifted = operators.generator(n) + 2j * math.pi * sum(torch.outer(w, w.conj()) for w in waves)
    if n % 2 == 0:
        shifted = shifted + 1j * math.pi * _nyquist(n)
    yield error(printed, shifted)
    yield error(torch.matrix_exp(printed), operators.shift_matrix(n))
    yield must_fail(error(printed.imag, 0 * printed.imag), least=0.5)
    yield must_fail(error(printed.T, -printed), least=0.5)


@check("paper, after Eq. 4; true for the corrected generator", operators.generator, tolerance=1e-12)
def eq_skew(rng, n, nyquist):
    A = operators.generator(n, nyquist)
    yield error(A.T, -A)
    yield must_hold(A.dtype == torch.float64)
    yield must_fail(float(A.norm()), 0.1)


@check("paper Eq. 6; the transpose after it must be the Hermitian one", operators.generator)
def eq_eigen(rng, n):
    (p, wavelength), A = _place(rng), operators.generator(n)
    U, Lambda = operators.fourier_matrix(n).mH, 2j * math.pi * _turning_modes(n) / n
    moved = U @ torch.diag(torch.exp(p / wavelength * Lambda)) @ U.mH
    yield error(U @ torch.diag(Lambda) @ U.mH, A)
    yield error(moved, torch.matrix_exp(p / wavelength * A))
    yield must_fail(error(U @ torch.diag(Lambda) @ U.T, A), least=0.1)


@check("paper Eq. 5", operators.continuous_roll, operators.generator, tolerance=1e-10, n=Draw.rings)
def eq_continuous_roll(rng, n, nyquist):
    wavelength, p, A = rng.number(0.3, 4), rng.uniform(-20, 20, 3), operators.generator(n, nyquist)
    x = rng.normal(2, 3, len(A))
    slow = torch.stack([x[:, t] @ torch.matrix_exp(p[t] / wavelength * A).T for t in range(3)], 1)
    plain = x[:, 0] @ torch.matrix_exp(p[0] * A).T
    yield error(operators.continuous_roll(x, p, wavelength, nyquist), slow)
    yield error(operators.continuous_roll(x[:, 0], float(p[0]), nyquist=nyquist), plain)


@check(
    "paper Eq. 7, corrected: mode numbers centered on 0",
    operators.roll_matrix,
    operators.continuous_roll,
    n=Draw.rings,
)
def eq_spectral(rng, n):
    p, wavelength, x = rng.uniform(-20, 20, 2, 3), rng.number(0.3, 4), rng.normal(2, 3, n)
    phase = torch.exp(2j * math.pi * _turning_modes(n) * p[..., None] / (wavelength * n))
    by_fft = torch.fft.ifft(torch.fft.fft(x) * phase).real
    yield error((operators.roll_matrix(n, p, wavelength) @ x[..., None])[..., 0], by_fft)
    yield error(operators.continuous_roll(x, p, wavelength), by_fft)
    single = operators.roll_matrix(n, float(p[0, 0]))
    yield error(single, torch.matrix_exp(p[0, 0] * operators.generator(n)))


@check("paper Eq. 7, as printed: k = 0 … n−1", operators.paper_roll_matrix)
def eq_spectral_printed(rng, n):
    q, p, wavelength = rng.normal(n), rng.count(-9, 9), rng.number(0.5, 3)
    half = operators.paper_roll_matrix(n, wavelength / 2, wavelength) @ (q + 0j)
    yield error(operators.paper_roll_matrix(n, p * wavelength, wavelength), shift_power(n, p))
    yield error(operators.paper_roll_matrix(n, p), shift_power(n, p))
    yield error(half.real, q.mean().expand(n))
    yield must_fail(float(half.imag.norm() / half.norm()), least=0.1)


@check("consequence of Eq. 5", operators.roll_matrix)
def eq_group(rng, n, nyquist):
    (p, wavelength), more = _place(rng), rng.number(-9, 9)
    S, T, both, back = (operators.roll_matrix(n, a, wavelength, nyquist) for a in (p, more, p + more, -p))
    yield error(S @ T, both)
    yield error(S.T, back)
    yield error(S.T @ S, eye(len(S)))


@check("paper App. B at real positions", operators.continuous_roll, operators.roll_matrix, tolerance=1e-10)
def eq_continuous_score(rng, n, nyquist):
    wavelength, p = rng.number(0.3, 4), rng.uniform(-20, 20, 4)
    S = operators.roll_matrix(n, p - p[:, None], wavelength, nyquist)
    q, k = rng.normal(4, S.shape[-1]), rng.normal(4, S.shape[-1])
    moved = [operators.continuous_roll(x, p, wavelength, nyquist) for x in (q, k)]
    yield error(moved[0] @ moved[1].T, torch.einsum("ia,ijab,jb->ij", q, S, k))


@check("paper Sec. 2.1; the period is λn", operators.roll_matrix, tolerance=1e-10)
def eq_period(rng, n):
    (p, wavelength), S = _place(rng), operators.roll_matrix
    early = wavelength * rng.number(0.1, n - 0.1)
    yield error(S(n, p + wavelength * n, wavelength), S(n, p, wavelength))
    yield must_fail(error(S(n, early, wavelength), eye(n)), least=1e-3)


def _kernel(rng: Draw, n: int) -> float:
    """How far the kernel's circulant is from the roll, at real positions and after 0, 1 and −n steps."""
    wavelength, p = rng.number(0.3, 4), rng.uniform(-20, 20, 3)
    p = torch.cat((p, wavelength * torch.tensor([0.0, 1.0, float(-n)]))).view(2, 3)
    slow = torch.matrix_exp((p / wavelength)[..., None, None] * operators.generator(n))
    return error(operators.circulant(operators.roll_kernel(n, p, wavelength)), slow)


@check(
    "textbook: trigonometric interpolation, the Dirichlet kernel", operators.roll_kernel, operators.circulant
)
def eq_kernel_odd(rng):
    n = rng.odd(1)
    yield _kernel(rng, n)
    yield error(operators.circulant(operators.roll_kernel(n, 2)), shift_power(n, 2))


@check(
    "Trefethen 2000, the periodic sinc, with a Nyquist mode that stands still",
    operators.roll_kernel,
    operators.circulant,
)
def eq_kernel_even(rng):
    yield _kernel(rng, rng.even(2))


@check("Trefethen 2000: trigonometric interpolation, the periodic sinc", operators.roll_kernel)
def eq_kernel_cosine(rng):
    n, wavelength = rng.even(2), rng.number(0.3, 4)
    p = rng.uniform(-20, 20, 3)
    found = operators.circulant(operators.roll_kernel(n, p, wavelength, "cosine"))
    spectrum = torch.fft.rfft(eye(n))
    by_fft = [torch.fft.irfft(spectrum * _half_spectrum(n, a / wavelength), n).T for a in p.tolist()]
    yield error(found, torch.stack(by_fft))


def _half_spectrum(n: int, p: float) -> Tensor:
    """e^{2πikp/n}, k = 0 … n/2, with the real part only at the Nyquist mode."""
    phase = torch.exp(2j * math.pi * p / n * torch.arange(n // 2 + 1).double())
    phase[-1] = math.cos(math.pi * p)
    return phase


@check(
    "Trefethen 2000 and Weideman and Reddy 2000: the Fourier differentiation matrix",
    operators.generator_closed_form,
    operators.circulant,
    n=Draw.rings,
)
def eq_generator_closed(rng, n):
    yield error(operators.generator_closed_form(n), operators.generator(n))


@check("ours; nyquist='fixed'", operators.roll_matrix, operators.continuous_roll)
def eq_nyquist_fixed(rng):
    n, p, wavelength = rng.even(), rng.count(-9, 9), rng.number(0.3, 4)
    x, expected = rng.normal(3, n), shift_power(n, p) + (1 - (-1) ** p) * _nyquist(n)
    yield error(operators.roll_matrix(n, wavelength * p, wavelength), expected)
    yield error(operators.continuous_roll(x, wavelength * p, wavelength), x @ expected.T)


@check(
    "Trefethen 2000: trigonometric interpolation; nyquist='cosine'",
    operators.roll_matrix,
    operators.continuous_roll,
)
def eq_nyquist_cosine(rng):
    n, p, wavelength = rng.even(), rng.uniform(-9, 9, 3), rng.number(0.5, 3)
    x, S = rng.normal(2, 3, n), operators.shift_matrix(n)
    steps = (p / wavelength)[:, None, None]
    turned = torch.cos(math.pi * p / wavelength)[:, None, None]
    expected = torch.matrix_exp(steps * operators.generator(n)) - (1 - turned) * _nyquist(n)
    roll_matrix = functools.partial(operators.roll_matrix, wavelength=wavelength, nyquist="cosine")
    roll = functools.partial(operators.continuous_roll, wavelength=wavelength, nyquist="cosine")
    yield error(roll_matrix(n, p), expected)
    yield error(roll(x, p), (expected @ x[..., None])[..., 0])
    yield error(roll_matrix(n, wavelength), S)
    yield error(roll(x, 3 * wavelength), torch.roll(x, -3, -1))
    half = roll_matrix(n, wavelength / 2)
    yield must_fail(error(half @ half, S), least=1 / (2 * n))


@check(
    "ours; nyquist='paired'",
    operators.generator,
    operators.roll_matrix,
    operators.continuous_roll,
    tolerance=1e-10,
)
def eq_nyquist_paired(rng):
    n, p = rng.even(), rng.count(-9, 9)
    A, twist, x = operators.generator(n), math.pi * _nyquist(n), rng.normal(3, 2 * n)
    both = torch.cat((torch.cat((A, -twist), 1), torch.cat((twist, A), 1)))
    shifts = torch.block_diag(shift_power(n, p), shift_power(n, p))
    yield error(operators.generator(n, "paired"), both)
    yield error(torch.matrix_exp(p * both), shifts)
    yield error(operators.roll_matrix(n, p, nyquist="paired"), shifts)
    yield error(operators.continuous_roll(x, p, nyquist="paired"), x @ shifts.T)


@check("ours; nyquist='odd'", operators.roll_matrix, operators.generator, operators.continuous_roll)
def eq_nyquist_odd(rng):
    n, (p, wavelength) = rng.even(), _place(rng)
    x, expected = rng.normal(2, 3, n), eye(n)
    expected[:-1, :-1] = torch.matrix_exp(p / wavelength * operators.generator(n - 1))
    yield error(operators.roll_matrix(n, p, wavelength, "odd"), expected)
    yield error(torch.matrix_exp(p / wavelength * operators.generator(n, "odd")), expected)
    yield error(operators.continuous_roll(x, p, wavelength, "odd"), x @ expected.T)
    one, twice = x[0, :1], torch.tensor([p, p], dtype=torch.float64)
    yield error(operators.continuous_roll(one, twice, wavelength, "odd"), (one @ expected.T).expand(2, -1))


@check("paper Sec. 1 and 4, the idea in the title", operators.continuous_roll)
def eq_traveling_wave(rng, n):
    (p, wavelength), m, phase = _place(rng), rng.count(-((n - 1) // 2), (n - 1) // 2), rng.number(0, 6)
    i = torch.arange(n).double()
    x, moved = (torch.cos(2 * math.pi * m / n * (i + s) + phase) for s in (0.0, p / wavelength))
    yield error(operators.continuous_roll(x, p, wavelength), moved)


@check("derivative of Eq. 5", operators.continuous_roll, tolerance=1e-9)
def eq_transport(rng, n):
    (p, wavelength), q = _place(rng), rng.normal(n)
    at = tuple(torch.tensor((p, wavelength), dtype=torch.float64))
    moving = functools.partial(operators.continuous_roll, q)
    by_p, by_wavelength = torch.autograd.functional.jacobian(moving, at)
    A = operators.generator(n) / wavelength
    flow = A @ torch.matrix_exp(p * A) @ q
    yield error(by_p, flow)
    yield error(by_wavelength, -p / wavelength * flow)


@check(
    "paper App. E: a discrete Fourier differentiation operator",
    operators.generator,
    operators.generator_closed_form,
    tolerance=1e-10,
)
def eq_derivative(rng, n):
    s, m = torch.arange(n).double()[:, None], torch.arange((n - 1) // 2 + 1).double()
    a, b, w = rng.normal(len(m)), rng.normal(len(m)), 2 * math.pi * m / n
    x = (a * torch.cos(w * s) + b * torch.sin(w * s)).sum(1)
    slope = (w * (b * torch.cos(w * s) - a * torch.sin(w * s))).sum(1)
    yield error(operators.generator(n) @ x, slope)
    yield error(operators.generator_closed_form(n) @ x, slope)


@check(
    "paper App. E: the tridiagonal matrix that the main text does not show",
    operators.stencil,
    tolerance=1e-12,
)
def eq_stencil(rng, n):
    x = rng.normal(n)
    yield error(operators.stencil(n) @ x, entrywise(lambda i: (x[(i + 1) % n] - x[i - 1]) / 2, n))


@check(
    "ours; paper App. E says only that it sacrifices spectral accuracy", operators.stencil, tolerance=1e-12
)
def eq_stencil_spectrum(rng, n):
    F, speed = operators.fourier_matrix(n), torch.sin(2 * math.pi * torch.arange(n).double() / n)
    yield error(F.mH @ torch.diag(1j * speed) @ F, operators.stencil(n))


@check("paper App. E: in the continuum limit, both agree", operators.generator, operators.stencil)
def eq_stencil_limit(rng, n):
    for m in (0, rng.count(1, (n - 1) // 2)):
        w = 2 * math.pi * m / n
        x = torch.cos(w * torch.arange(n).double() + rng.number(0, 6))
        gap = ((operators.generator(n) - operators.stencil(n)) @ x).norm() / x.norm()
        yield error(gap, w - math.sin(w))
        yield excess(gap, w**3 / 6)


@check("ours; paper App. E calls the stencil an approximation", operators.stencil_roll, n=Draw.rings)
def eq_stencil_bessel(rng, n):
    p, D = rng.number(-12, 12), (shift_power(n, 1) - shift_power(n, -1)) / 2
    found = operators.stencil_roll(n, p)
    yield error(found, sum(float(jv(m, p)) * shift_power(n, m) for m in range(-60, 61)))
    yield error(found, torch.matrix_exp(p * D))
    if n > 2:
        yield must_fail(error(operators.stencil_roll(n, 1.0), shift_power(n, 1)), least=0.3)
