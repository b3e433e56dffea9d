"""Page 06-continuous: the generator, real positions, and what an even width costs.

Sources: the paper's Eqs. 4–7, 13 and 14 and App. E, corrected where they fail; closed forms from the
textbooks on spectral methods and trigonometric interpolation.
"""

import functools
import math

import torch
from scipy.linalg import logm
from scipy.special import jv
from torch import Generator, Tensor

from rollpe import operators
from rollpe.equations.cases import (
    count,
    error,
    even,
    excess,
    must_fail,
    must_hold,
    normal,
    number,
    odd,
    shift_power,
    uniform,
    widths,
)
from rollpe.equations.registry import check


def _nyquist(n: int) -> Tensor:
    """νν ᵀ with ν_i = (−1)^i/√n."""
    nu = torch.tensor([(-1.0) ** i for i in range(n)], dtype=torch.float64) / math.sqrt(n)
    return torch.outer(nu, nu)


def _place(rng: Generator) -> tuple[float, float]:
    """A real position and a wavelength."""
    return number(rng, -20, 20), number(rng, 0.3, 4)


@check("paper, before Eq. 7", operators.fourier_matrix, tolerance=1e-12)
def eq_dft(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        F, identity = operators.fourier_matrix(n), torch.eye(n).double() + 0j
        worst = max(worst, error(F, torch.fft.fft(identity, norm="ortho")), error(F.conj().T @ F, identity))
    return worst


@check("paper Eq. 13", operators.fourier_matrix, operators.shift_matrix, tolerance=1e-12)
def eq_diagonal(rng):
    worst = 0.0
    for n in widths(rng):
        F = operators.fourier_matrix(n)
        phases = torch.exp(2j * math.pi * torch.arange(n).double() / n)
        worst = max(worst, error(F.conj().T @ torch.diag(phases) @ F, operators.shift_matrix(n) + 0j))
    return worst


@check("textbook: the sign of a cycle of n places", operators.shift_matrix, tolerance=1e-12)
def eq_determinant(rng):
    return max(error(operators.shift_matrix(n).det(), (-1.0) ** (n - 1)) for n in (1, 2, *widths(rng)))


@check(
    "a case of Culver 1966; refutes 'log S ∈ so(n)' after the paper's Eq. 4 for even n",
    operators.shift_matrix,
    tolerance=1e-10,
)
def eq_no_real_log(rng):
    n = even(rng)
    B = normal(rng, n, n) / n
    negative = must_hold(float(operators.shift_matrix(n).det()) < -0.5)
    principal = logm(operators.shift_matrix(n).numpy())
    complex_log = must_fail(float(abs(principal.imag).max()), least=0.1)
    return max(error(torch.matrix_exp(B).det() / torch.exp(B.trace()), 1.0), negative, complex_log)


@check("paper Eq. 4, for odd n", operators.generator, tolerance=1e-11)
def eq_log(rng):
    n = odd(rng)
    A, S = operators.generator(n), operators.shift_matrix(n)
    principal = torch.from_numpy(logm(S.numpy()).real)
    return max(error(A, principal), error(torch.matrix_exp(A), S))


@check(
    "paper Eq. 14, corrected: mode numbers centered on 0",
    operators.generator,
    operators.mode_numbers,
    tolerance=1e-12,
)
def eq_generator(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        A, i = torch.zeros(n, n).double(), torch.arange(n).double()
        for m in range(1, (n - 1) // 2 + 1):
            A -= 4 * math.pi * m / n**2 * torch.sin(2 * math.pi * m / n * (i[:, None] - i))
        modes = [((k + (n - 1) // 2) % n) - (n - 1) // 2 for k in range(n)]
        worst = max(worst, error(operators.generator(n), A))
        worst = max(worst, error(operators.mode_numbers(n), torch.tensor(sorted(modes))))
    return worst


@check("paper Eq. 14, as printed: k = 0 … n−1", operators.paper_generator, tolerance=1e-11)
def eq_generator_printed(rng):
    worst = 0.0
    for n in widths(rng):
        printed = operators.paper_generator(n)
        waves = [
            torch.exp(2j * math.pi * m * torch.arange(n).double() / n) / n**0.5
            for m in range(-((n - 1) // 2), 0)
        ]
        shifted = operators.generator(n) + 2j * math.pi * sum(torch.outer(w, w.conj()) for w in waves)
        if n % 2 == 0:
            shifted = shifted + 1j * math.pi * _nyquist(n)
        worst = max(
            worst,
            error(printed, shifted),
            error(torch.matrix_exp(printed), operators.shift_matrix(n) + 0j),
            must_fail(error(printed.imag, 0 * printed.imag), least=0.5),
            must_fail(error(printed.T, -printed), least=0.5),
        )
    return worst


@check("paper, after Eq. 4; true for the corrected generator", operators.generator, tolerance=1e-12)
def eq_skew(rng):
    worst = 0.0
    for n in widths(rng):
        for nyquist in ("fixed", "paired", "odd"):
            A = operators.generator(n, nyquist)
            worst = max(
                worst, error(A.T, -A), must_hold(A.dtype == torch.float64), must_fail(float(A.norm()), 0.1)
            )
    return worst


@check("paper Eq. 6; the transpose after it must be the Hermitian one", operators.generator, tolerance=1e-11)
def eq_eigen(rng):
    worst = 0.0
    for n in widths(rng):
        p, wavelength = _place(rng)
        U, mode = operators.fourier_matrix(n).conj().T, torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
        if n % 2 == 0:
            mode[n // 2] = 0
        Lambda = 2j * math.pi * mode / n
        A = operators.generator(n)
        moved = U @ torch.diag(torch.exp(p / wavelength * Lambda)) @ U.conj().T
        transposed = U @ torch.diag(Lambda) @ U.T
        worst = max(
            worst,
            error(U @ torch.diag(Lambda) @ U.conj().T, A + 0j),
            error(moved, torch.matrix_exp(p / wavelength * A) + 0j),
            must_fail(error(transposed, A + 0j), least=0.1),
        )
    return worst


@check("paper Eq. 5", operators.continuous_roll, operators.generator, tolerance=1e-10)
def eq_continuous_roll(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        for nyquist in ("fixed", "paired", "odd"):
            wavelength = number(rng, 0.3, 4)
            p, A = uniform(rng, -20, 20, 3), operators.generator(n, nyquist)
            x = normal(rng, 2, 3, len(A))
            slow = torch.stack([x[:, t] @ torch.matrix_exp(p[t] / wavelength * A).T for t in range(3)], 1)
            plain = x[:, 0] @ torch.matrix_exp(p[0] * A).T
            worst = max(
                worst,
                error(operators.continuous_roll(x, p, wavelength, nyquist), slow),
                error(operators.continuous_roll(x[:, 0], float(p[0]), nyquist=nyquist), plain),
            )
    return worst


@check(
    "paper Eq. 7, corrected: mode numbers centered on 0",
    operators.roll_matrix,
    operators.continuous_roll,
    tolerance=1e-11,
)
def eq_spectral(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        p, wavelength = uniform(rng, -20, 20, 2, 3), number(rng, 0.3, 4)
        mode = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
        still = torch.ones(n).double()
        if n % 2 == 0:
            still[n // 2] = 0  # the Nyquist mode does not turn
        x = normal(rng, 2, 3, n)
        phase = torch.exp(2j * math.pi * mode * still * p[..., None] / (wavelength * n))
        by_fft = torch.fft.ifft(torch.fft.fft(x) * phase).real
        matrix = operators.roll_matrix(n, p, wavelength)
        single = operators.roll_matrix(n, float(p[0, 0]))
        worst = max(
            worst,
            error((matrix @ x[..., None])[..., 0], by_fft),
            error(operators.continuous_roll(x, p, wavelength), by_fft),
            error(single, torch.matrix_exp(p[0, 0] * operators.generator(n))),
        )
    return worst


@check("paper Eq. 7, as printed: k = 0 … n−1", operators.paper_roll_matrix, tolerance=1e-11)
def eq_spectral_printed(rng):
    worst = 0.0
    for n in widths(rng):
        q, p, wavelength = normal(rng, n), count(rng, -9, 9), number(rng, 0.5, 3)
        on_grid = operators.paper_roll_matrix(n, p * wavelength, wavelength)
        half = operators.paper_roll_matrix(n, wavelength / 2, wavelength) @ (q + 0j)
        worst = max(
            worst,
            error(on_grid, shift_power(n, p) + 0j),
            error(operators.paper_roll_matrix(n, p), shift_power(n, p) + 0j),
            error(half.real, q.mean().expand(n)),
            must_fail(float(half.imag.norm() / half.norm()), least=0.1),
        )
    return worst


@check("consequence of Eq. 5", operators.roll_matrix, tolerance=1e-11)
def eq_group(rng):
    worst = 0.0
    for n in widths(rng):
        for nyquist in ("fixed", "paired", "odd"):
            (p, wavelength), more = _place(rng), number(rng, -9, 9)
            S, T = (operators.roll_matrix(n, a, wavelength, nyquist) for a in (p, more))
            both = operators.roll_matrix(n, p + more, wavelength, nyquist)
            back = operators.roll_matrix(n, -p, wavelength, nyquist)
            worst = max(
                worst, error(S @ T, both), error(S.T, back), error(S.T @ S, torch.eye(len(S)).double())
            )
    return worst


@check("paper App. B at real positions", operators.continuous_roll, operators.roll_matrix, tolerance=1e-10)
def eq_continuous_score(rng):
    worst = 0.0
    for n in widths(rng):
        for nyquist in ("fixed", "paired", "odd"):
            wavelength, p = number(rng, 0.3, 4), uniform(rng, -20, 20, 4)
            S = operators.roll_matrix(n, p - p[:, None], wavelength, nyquist)
            q, k = normal(rng, 4, S.shape[-1]), normal(rng, 4, S.shape[-1])
            moved = [operators.continuous_roll(x, p, wavelength, nyquist) for x in (q, k)]
            worst = max(worst, error(moved[0] @ moved[1].T, torch.einsum("ia,ijab,jb->ij", q, S, k)))
    return worst


@check("paper Sec. 2.1; the period is λn", operators.roll_matrix, tolerance=1e-10)
def eq_period(rng):
    worst = 0.0
    for n in widths(rng):
        p, wavelength = _place(rng)
        S = operators.roll_matrix
        early = error(S(n, wavelength * number(rng, 0.1, n - 0.1), wavelength), torch.eye(n).double())
        again = error(S(n, p + wavelength * n, wavelength), S(n, p, wavelength))
        worst = max(worst, again, must_fail(early, least=1e-3))
    return worst


@check(
    "textbook: trigonometric interpolation, the Dirichlet kernel",
    operators.roll_kernel,
    operators.circulant,
    tolerance=1e-11,
)
def eq_kernel_odd(rng):
    n, wavelength = odd(rng, 1), number(rng, 0.3, 4)
    p = torch.cat((uniform(rng, -20, 20, 3), wavelength * torch.tensor([0.0, 1.0, float(-n)]))).double()
    found = operators.circulant(operators.roll_kernel(n, p.view(2, 3), wavelength))
    slow = torch.matrix_exp((p / wavelength).view(2, 3, 1, 1) * operators.generator(n))
    return max(error(found, slow), error(operators.circulant(operators.roll_kernel(n, 2)), shift_power(n, 2)))


@check(
    "Trefethen 2000, the periodic sinc, with a Nyquist mode that stands still",
    operators.roll_kernel,
    operators.circulant,
    tolerance=1e-11,
)
def eq_kernel_even(rng):
    n, wavelength = even(rng, 2), number(rng, 0.3, 4)
    p = torch.cat((uniform(rng, -20, 20, 3), wavelength * torch.tensor([0.0, 1.0, float(-n)]))).double()
    found = operators.circulant(operators.roll_kernel(n, p.view(2, 3), wavelength))
    slow = torch.matrix_exp((p / wavelength).view(2, 3, 1, 1) * operators.generator(n))
    return error(found, slow)


@check(
    "Trefethen 2000: trigonometric interpolation, the periodic sinc", operators.roll_kernel, tolerance=1e-11
)
def eq_kernel_cosine(rng):
    n, wavelength = even(rng, 2), number(rng, 0.3, 4)
    p, x = uniform(rng, -20, 20, 3), torch.eye(n).double()
    found = operators.circulant(operators.roll_kernel(n, p, wavelength, "cosine"))
    by_fft = [torch.fft.irfft(torch.fft.rfft(x) * _half_spectrum(n, a / wavelength), n).T for a in p.tolist()]
    return error(found, torch.stack(by_fft))


def _half_spectrum(n: int, p: float) -> Tensor:
    """e^{2πikp/n}, k = 0 … n/2, with the real part only at the Nyquist mode."""
    phase = torch.exp(2j * math.pi * p / n * torch.arange(n // 2 + 1).double())
    phase[-1] = math.cos(math.pi * p)
    return phase


@check(
    "Trefethen 2000 and Weideman and Reddy 2000: the Fourier differentiation matrix",
    operators.generator_closed_form,
    operators.circulant,
    tolerance=1e-11,
)
def eq_generator_closed(rng):
    return max(
        error(operators.generator_closed_form(n), operators.generator(n))
        for n in (count(rng, 1, 2), *widths(rng))
    )


@check("ours; nyquist='fixed'", operators.roll_matrix, operators.continuous_roll, tolerance=1e-11)
def eq_nyquist_fixed(rng):
    n, p, wavelength = even(rng), count(rng, -9, 9), number(rng, 0.3, 4)
    expected = shift_power(n, p) + (1 - (-1) ** p) * _nyquist(n)
    x = normal(rng, 3, n)
    return max(
        error(operators.roll_matrix(n, wavelength * p, wavelength), expected),
        error(operators.continuous_roll(x, wavelength * p, wavelength), x @ expected.T),
    )


@check(
    "Trefethen 2000: trigonometric interpolation; nyquist='cosine'",
    operators.roll_matrix,
    operators.continuous_roll,
    tolerance=1e-11,
)
def eq_nyquist_cosine(rng):
    n, p, wavelength = even(rng), uniform(rng, -9, 9, 3), number(rng, 0.5, 3)
    x = normal(rng, 2, 3, n)
    turned = torch.cos(math.pi * p / wavelength)[:, None, None]
    expected = torch.matrix_exp((p / wavelength)[:, None, None] * operators.generator(n)) - (
        1 - turned
    ) * _nyquist(n)
    found = operators.roll_matrix(n, p, wavelength, "cosine")
    half = operators.roll_matrix(n, wavelength / 2, wavelength, "cosine")
    whole = operators.continuous_roll(x, 3 * wavelength, wavelength, "cosine")
    return max(
        error(found, expected),
        error(operators.continuous_roll(x, p, wavelength, "cosine"), (expected @ x[..., None])[..., 0]),
        error(operators.roll_matrix(n, wavelength, wavelength, "cosine"), operators.shift_matrix(n)),
        error(whole, torch.roll(x, -3, -1)),
        must_fail(error(half @ half, operators.shift_matrix(n)), least=1 / (2 * n)),
    )


@check(
    "ours; nyquist='paired'",
    operators.generator,
    operators.roll_matrix,
    operators.continuous_roll,
    tolerance=1e-10,
)
def eq_nyquist_paired(rng):
    n, p = even(rng), count(rng, -9, 9)
    A, twist = operators.generator(n), math.pi * _nyquist(n)
    both = torch.cat((torch.cat((A, -twist), 1), torch.cat((twist, A), 1)))
    shifts = torch.block_diag(shift_power(n, p), shift_power(n, p))
    x = normal(rng, 3, 2 * n)
    return max(
        error(operators.generator(n, "paired"), both),
        error(torch.matrix_exp(p * both), shifts),
        error(operators.roll_matrix(n, p, nyquist="paired"), shifts),
        error(operators.continuous_roll(x, p, nyquist="paired"), x @ shifts.T),
    )


@check(
    "ours; nyquist='odd'",
    operators.roll_matrix,
    operators.generator,
    operators.continuous_roll,
    tolerance=1e-11,
)
def eq_nyquist_odd(rng):
    n, (p, wavelength) = even(rng), _place(rng)
    x = normal(rng, 2, 3, n)
    expected = torch.eye(n).double()
    expected[:-1, :-1] = torch.matrix_exp(p / wavelength * operators.generator(n - 1))
    per_token = operators.continuous_roll(
        x[0, :1], torch.tensor([p, p], dtype=torch.float64), wavelength, "odd"
    )
    return max(
        error(operators.roll_matrix(n, p, wavelength, "odd"), expected),
        error(torch.matrix_exp(p / wavelength * operators.generator(n, "odd")), expected),
        error(operators.continuous_roll(x, p, wavelength, "odd"), x @ expected.T),
        error(per_token, (x[0, :1] @ expected.T).expand(2, -1)),
    )


@check("paper Sec. 1 and 4, the idea in the title", operators.continuous_roll, tolerance=1e-11)
def eq_traveling_wave(rng):
    worst = 0.0
    for n in widths(rng):
        (p, wavelength), m, phase = _place(rng), count(rng, -((n - 1) // 2), (n - 1) // 2), number(rng, 0, 6)
        i = torch.arange(n).double()
        x, moved = (torch.cos(2 * math.pi * m / n * (i + s) + phase) for s in (0.0, p / wavelength))
        worst = max(worst, error(operators.continuous_roll(x, p, wavelength), moved))
    return worst


@check("derivative of Eq. 5", operators.continuous_roll, tolerance=1e-9)
def eq_transport(rng):
    worst = 0.0
    for n in widths(rng):
        (p, wavelength), q = _place(rng), normal(rng, n)
        at = tuple(torch.tensor((p, wavelength), dtype=torch.float64))
        moving = functools.partial(operators.continuous_roll, q)
        by_p, by_wavelength = torch.autograd.functional.jacobian(moving, at)
        A = operators.generator(n) / wavelength
        flow = A @ torch.matrix_exp(p * A) @ q
        worst = max(worst, error(by_p, flow), error(by_wavelength, -p / wavelength * flow))
    return worst


@check(
    "paper App. E: a discrete Fourier differentiation operator",
    operators.generator,
    operators.generator_closed_form,
    tolerance=1e-10,
)
def eq_derivative(rng):
    worst = 0.0
    for n in widths(rng):
        s, m = torch.arange(n).double()[:, None], torch.arange((n - 1) // 2 + 1).double()
        a, b, w = normal(rng, len(m)), normal(rng, len(m)), 2 * math.pi * m / n
        x = (a * torch.cos(w * s) + b * torch.sin(w * s)).sum(1)
        slope = (w * (b * torch.cos(w * s) - a * torch.sin(w * s))).sum(1)
        worst = max(worst, error(operators.generator(n) @ x, slope))
        worst = max(worst, error(operators.generator_closed_form(n) @ x, slope))
    return worst


@check(
    "paper App. E: the tridiagonal matrix that the main text does not show",
    operators.stencil,
    tolerance=1e-12,
)
def eq_stencil(rng):
    worst = 0.0
    for n in widths(rng):
        x = normal(rng, n)
        central = torch.stack([(x[(i + 1) % n] - x[i - 1]) / 2 for i in range(n)])
        worst = max(worst, error(operators.stencil(n) @ x, central))
    return worst


@check(
    "ours; paper App. E says only that it sacrifices spectral accuracy", operators.stencil, tolerance=1e-12
)
def eq_stencil_spectrum(rng):
    worst = 0.0
    for n in widths(rng):
        F = operators.fourier_matrix(n)
        speed = torch.sin(2 * math.pi * torch.arange(n).double() / n)
        worst = max(worst, error(F.conj().T @ torch.diag(1j * speed) @ F, operators.stencil(n) + 0j))
    return worst


@check(
    "paper App. E: in the continuum limit, both agree",
    operators.generator,
    operators.stencil,
    tolerance=1e-11,
)
def eq_stencil_limit(rng):
    worst = 0.0
    for n in widths(rng):
        for m in (0, count(rng, 1, (n - 1) // 2)):
            w = 2 * math.pi * m / n
            x = torch.cos(w * torch.arange(n).double() + number(rng, 0, 6))
            gap = ((operators.generator(n) - operators.stencil(n)) @ x).norm() / x.norm()
            worst = max(worst, error(gap, w - math.sin(w)), excess(gap, w**3 / 6))
    return worst


@check("ours; paper App. E calls the stencil an approximation", operators.stencil_roll, tolerance=1e-11)
def eq_stencil_bessel(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        p = number(rng, -12, 12)
        found, D = operators.stencil_roll(n, p), (shift_power(n, 1) - shift_power(n, -1)) / 2
        bessel = torch.zeros(n, n).double()
        for m in range(-60, 61):
            bessel += float(jv(m, p)) * torch.roll(torch.eye(n).double(), m, dims=1)
        worst = max(worst, error(found, bessel), error(found, torch.matrix_exp(p * D)))
        if n > 2:
            worst = max(worst, must_fail(error(operators.stencil_roll(n, 1.0), shift_power(n, 1)), least=0.3))
    return worst
