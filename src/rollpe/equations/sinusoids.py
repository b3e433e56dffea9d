"""Page 02-sinusoids: plain codes, the sinusoidal code, its shift by rotation, what adding it does to a score.

Sources: the introductions order, circles and equivariance (after Vaswani et al. 2017), corrected where
they slip.
"""

import math

import torch
import torch.nn.functional as F

from rollpe import textbook
from rollpe.equations.cases import count, error, must_fail, must_hold, normal, number, uniform, whole
from rollpe.equations.registry import check, no_check

PAGE = "02-sinusoids"


no_check(
    "eq-integer-code",
    page=PAGE,
    source="circles, integer encoding",
    title="The position itself as a code",
    tex=r"c_p = p",
    reason="a definition with nothing to compute: the code is the position",
)


@check(
    "eq-one-hot",
    page=PAGE,
    source="circles, one-hot encoding",
    title="One-hot code",
    tex=r"(\mathbf{1}_p)_i = [\, i = p \,]",
    implements=textbook.one_hot_code,
    tolerance=0.0,
)
def eq_one_hot(rng):
    length = count(rng, 4, 12)
    p = whole(rng, 0, length - 1, 7)
    return error(textbook.one_hot_code(p, length), F.one_hot(p, length).double())


@check(
    "eq-one-hot-distance",
    page=PAGE,
    source="circles, one-hot encoding",
    title="One-hot codes are all equally far apart",
    tex=r"\|\mathbf{1}_p - \mathbf{1}_{p'}\| = \sqrt{2} \quad (p \neq p')",
    implements=textbook.one_hot_code,
    tolerance=1e-12,
)
def eq_one_hot_distance(rng):
    N = count(rng, 3, 9)
    code = textbook.one_hot_code(torch.arange(N), N)
    distance = (code[:, None] - code).square().sum(-1).sqrt()
    return error(distance, 2**0.5 * (1 - torch.eye(N, dtype=torch.float64)))


@check(
    "eq-binary",
    page=PAGE,
    source="circles, binary encoding",
    title="Binary code",
    tex=r"b_i(p) = \lfloor p / 2^i \rfloor \bmod 2, \qquad i = 0, 1, 2, \dots",
    implements=textbook.binary_code,
    tolerance=0.0,
)
def eq_binary(rng):
    bits = count(rng, 3, 9)
    p = whole(rng, 0, 2**bits - 1, 8)
    digits = [[float(digit) for digit in reversed(f"{int(a):0{bits}b}")] for a in p]
    return error(textbook.binary_code(p, bits), torch.tensor(digits, dtype=torch.float64))


@check(
    "eq-bit-period",
    page=PAGE,
    source="circles, binary encoding",
    title="Bit i has the period 2^{i+1}: low bits alternate fast",
    tex=(
        r"\begin{aligned} b_i\bigl(p + 2^{i+1}\bigr) &= b_i(p), \\ "
        r"b_i\bigl(p + 2^{i}\bigr) &= 1 - b_i(p) \end{aligned}"
    ),
    implements=textbook.binary_code,
    tolerance=0.0,
)
def eq_bit_period(rng):
    p, i = whole(rng, 0, 200, 9), count(rng, 0, 5)
    here, half, full = (textbook.binary_code(p + shift, 8)[:, i] for shift in (0, 2**i, 2 ** (i + 1)))
    return max(error(full, here), error(half, 1 - here))


@check(
    "eq-bit-flips",
    page=PAGE,
    source="circles, binary encoding",
    title="One step flips as many bits as the carry reaches",
    tex=(
        r"\begin{aligned} & \|b(p+1) - b(p)\|^2 \\ "
        r"& \quad = 1 + \#\{\text{ones at the end of } p\} \end{aligned}"
    ),
    implements=(textbook.bit_flips, textbook.binary_code),
    tolerance=0.0,
)
def eq_bit_flips(rng):
    p = torch.cat((torch.tensor([0, 3, 7, 2**15 - 1]), whole(rng, 0, 60000, 9)))
    ones = [len(f"{int(a):b}") - len(f"{int(a):b}".rstrip("1")) for a in p]
    changed = (textbook.binary_code(p + 1, 17) - textbook.binary_code(p, 17)).abs().sum(1)
    flips = textbook.bit_flips(p).double()
    return max(error(flips, changed), error(flips, 1 + torch.tensor(ones).double()), float(flips[1] != 3))


@check(
    "eq-sinusoid",
    page=PAGE,
    source="all three introductions, sinusoidal encoding",
    title="The sinusoidal code",
    tex=(
        r"\begin{aligned} \mathrm{PE}_{p,\,2i} &= \sin(\omega_i p), \\ "
        r"\mathrm{PE}_{p,\,2i+1} &= \cos(\omega_i p) \end{aligned}"
    ),
    implements=textbook.sinusoids,
    tolerance=1e-10,
)
def eq_sinusoid(rng):
    d, p, base = 2 * count(rng, 1, 8), uniform(rng, -50, 50, 4), number(rng, 10, 20000)

    def waves(base):
        rows = [
            [(math.sin, math.cos)[c % 2](a / base ** ((c - c % 2) / d)) for c in range(d)] for a in p.tolist()
        ]
        return torch.tensor(rows, dtype=torch.float64)

    return max(
        error(textbook.sinusoids(p, d), waves(10000)), error(textbook.sinusoids(p, d, base), waves(base))
    )


@check(
    "eq-sinusoid-frequency",
    page=PAGE,
    source="all three introductions; order has the direction wrong, circles the reciprocal",
    title="Frequencies in geometric progression, the first the fastest",
    tex=(
        r"\begin{gathered} \omega_i = 10000^{-2i/d}, \\ "
        r"1 = \omega_0 > \omega_1 > \dots > \omega_{d/2-1} \end{gathered}"
    ),
    implements=textbook.rope_frequencies,
    tolerance=1e-12,
)
def eq_sinusoid_frequency(rng):
    d, base = 2 * count(rng, 2, 24), number(rng, 10, 20000)
    step = math.exp(-2 * math.log(10000) / d)
    ladder = torch.tensor([step**i for i in range(d // 2)], dtype=torch.float64)
    other = torch.logspace(0, -1 + 2 / d, d // 2, base, dtype=torch.float64)
    omega = textbook.rope_frequencies(d)
    return max(
        error(omega, ladder),
        error(textbook.rope_frequencies(d, base), other),
        must_hold(bool((omega[1:] < omega[:-1]).all())),
    )


@check(
    "eq-longest-wavelength",
    page=PAGE,
    source="circles, corrected (it prints 10000 · 2π)",
    title="The longest wavelength",
    tex=r"\frac{2\pi}{\omega_{d/2-1}} = 2\pi \cdot 10000^{(d-2)/d}",
    implements=(textbook.longest_wavelength, textbook.rope_frequencies),
    tolerance=1e-9,
)
def eq_longest_wavelength(rng):
    d, base = 2 * count(rng, 1, 32), number(rng, 10, 20000)
    found = torch.tensor(
        [textbook.longest_wavelength(d), textbook.longest_wavelength(d, base)], dtype=torch.float64
    )
    slowest = torch.stack((textbook.rope_frequencies(d)[-1], textbook.rope_frequencies(d, base)[-1]))
    return error(found * slowest / (2 * math.pi), torch.ones(2))


@check(
    "eq-sinusoid-norm",
    page=PAGE,
    source="consequence of sin² + cos² = 1",
    title="All codes have the same length",
    tex=r"\|\mathrm{PE}(p)\|^2 = \tfrac{d}{2}",
    implements=textbook.sinusoids,
    tolerance=1e-12,
)
def eq_sinusoid_norm(rng):
    d, p = 2 * count(rng, 1, 16), uniform(rng, -1000, 1000, 5)
    return error(textbook.sinusoids(p, d).square().sum(1), torch.full((5,), d / 2))


@check(
    "eq-sinusoid-dot",
    page=PAGE,
    source="equivariance, dot product of two codes",
    title="The dot product of two codes depends on the offset alone",
    tex=(
        r"\langle \mathrm{PE}(p), \mathrm{PE}(p') \rangle = \sum_{i=0}^{d/2-1} \cos\bigl(\omega_i (p - "
        r"p')\bigr)"
    ),
    implements=(textbook.similarity_kernel, textbook.sinusoids),
    tolerance=1e-10,
)
def eq_sinusoid_dot(rng):
    d, p, q = 2 * count(rng, 1, 16), whole(rng, 0, 500, 2, 3), whole(rng, 0, 500, 2, 3)
    dot = torch.stack(
        [(textbook.sinusoids(a, d) * textbook.sinusoids(b, d)).sum(1) for a, b in zip(p, q, strict=True)]
    )
    return error(textbook.similarity_kernel(p - q, textbook.rope_frequencies(d)) * (d / 2), dot)


@check(
    "eq-sinusoid-distance",
    page=PAGE,
    source="consequence of the dot product",
    title="Near positions have near codes",
    tex=(
        r"\begin{aligned} & \|\mathrm{PE}(p) - \mathrm{PE}(p')\|^2 \\ "
        r"& \quad = 4 \sum_{i=0}^{d/2-1} \sin^2\!\bigl(\tfrac12 \omega_i (p - p')\bigr) \end{aligned}"
    ),
    implements=textbook.sinusoids,
    tolerance=1e-10,
)
def eq_sinusoid_distance(rng):
    d, p, q = 2 * count(rng, 1, 16), uniform(rng, 0, 99, 4), uniform(rng, 0, 99, 4)
    half = 0.5 * (p - q)[:, None] * 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    distance = (textbook.sinusoids(p, d) - textbook.sinusoids(q, d)).square().sum(1)
    return error(distance, 4 * half.sin().square().sum(1))


@check(
    "eq-sinusoid-pair",
    page=PAGE,
    source="equivariance, angle addition",
    title="A shift rotates each pair",
    tex=(
        r"\begin{aligned} & \begin{bmatrix} \sin \omega_i (p + \Delta) \\ \cos \omega_i (p + \Delta) "
        r"\end{bmatrix} \\ "
        r"& \quad = \begin{bmatrix} \cos \omega_i \Delta & \sin \omega_i \Delta \\ -\sin \omega_i "
        r"\Delta & \cos \omega_i \Delta \end{bmatrix} "
        r"\begin{bmatrix} \sin \omega_i p \\ \cos \omega_i p \end{bmatrix} \end{aligned}"
    ),
    implements=(textbook.sinusoid_shift, textbook.rotation_matrix),
    tolerance=1e-10,
)
def eq_sinusoid_pair(rng):
    d, p, delta = 2 * count(rng, 2, 8), number(rng, -20, 20), number(rng, -20, 20)
    R, errors = textbook.sinusoid_shift(delta, d), []
    for i in range(d // 2):
        omega, block = 10000 ** (-2 * i / d), R[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
        here, there = (
            torch.tensor([math.sin(omega * a), math.cos(omega * a)], dtype=torch.float64)
            for a in (p, p + delta)
        )
        errors.append(max(error(block @ here, there), error(block.det(), 1.0)))
    return max(errors)


@check(
    "eq-sinusoid-shift",
    page=PAGE,
    source="equivariance; circles with the sign of its matrix corrected",
    title="A shift of position is one block-diagonal rotation of the whole code",
    tex=(
        r"\begin{gathered} \mathrm{PE}(p + \Delta) = R(\Delta) \, \mathrm{PE}(p), \\ "
        r"R(\Delta)^\top R(\Delta) = I \end{gathered}"
    ),
    implements=(textbook.sinusoid_shift, textbook.sinusoids, textbook.rotation_matrix),
    tolerance=1e-10,
)
def eq_sinusoid_shift(rng):
    d, base, p, delta = (
        2 * count(rng, 1, 8),
        number(rng, 10, 20000),
        uniform(rng, 0, 99, 3),
        number(rng, -30, 30),
    )
    R = textbook.sinusoid_shift(delta, d, base)
    moved = textbook.sinusoids(p, d, base) @ R.T
    default = textbook.sinusoids(p, d) @ textbook.sinusoid_shift(delta, d).T
    return max(
        error(moved, textbook.sinusoids(p + delta, d, base)),
        error(default, textbook.sinusoids(p + delta, d)),
        error(R.T @ R, torch.eye(d).double()),
    )


@check(
    "eq-sinusoid-shift-printed",
    page=PAGE,
    source="circles, as printed: it claims PE(p+k)",
    title="The matrix as printed shifts the other way",
    tex=(
        r"\begin{gathered} \begin{bmatrix} \cos k\omega & -\sin k\omega \\ \sin k\omega & \cos k\omega "
        r"\end{bmatrix} "
        r"\mathrm{PE}_{p} = \mathrm{PE}_{p-k} \\ "
        r"\neq \mathrm{PE}_{p+k} \end{gathered}"
    ),
    implements=textbook.rotation_matrix,
    tolerance=1e-10,
)
def eq_sinusoid_shift_printed(rng):
    p, k = number(rng, -20, 20), number(rng, 0.2, 2.9)
    code = {
        shift: torch.tensor([math.sin(p + shift), math.cos(p + shift)], dtype=torch.float64)
        for shift in (-k, 0, k)
    }
    printed = textbook.rotation_matrix(torch.tensor([k], dtype=torch.float64)) @ code[0]
    return error(printed, code[-k]) + must_fail(error(printed, code[k]), least=0.1)


@check(
    "eq-four-terms",
    page=PAGE,
    source="equivariance, corrected (it prints products where sums belong)",
    title="Adding the code makes four terms of one score",
    tex=(
        r"\begin{aligned} \langle q_p, k_{p'} \rangle = {} & \langle W_Q x_p, W_K x_{p'} \rangle \\ "
        r"& + \langle W_Q x_p, W_K c_{p'} \rangle \\ "
        r"& + \langle W_Q c_p, W_K x_{p'} \rangle \\ "
        r"& + \langle W_Q c_p, W_K c_{p'} \rangle \end{aligned}"
    ),
    implements=textbook.four_terms,
    tolerance=1e-10,
)
def eq_four_terms(rng):
    N, D, d = count(rng, 2, 5), 2 * count(rng, 2, 5), count(rng, 2, 6)
    X, code, W_Q, W_K = normal(rng, N, D), normal(rng, N, D), normal(rng, D, d), normal(rng, D, d)
    terms = textbook.four_terms(X, code, W_Q, W_K)
    zero = torch.zeros_like(X)
    alone = [((a @ W_Q)[:, None] * (b @ W_K)).sum(-1) for a in (X, code) for b in (X, code)]
    whole_score = torch.einsum("pd,qd->pq", (X + code) @ W_Q, (X + code) @ W_K)
    silent = textbook.four_terms(zero, code, W_Q, W_K)[:3]
    return max(
        error(sum(terms), whole_score),
        *(error(term, other) for term, other in zip(terms, alone, strict=True)),
        *(error(term, torch.zeros_like(term)) for term in silent),
    )


@check(
    "eq-four-terms-absolute",
    page=PAGE,
    source="equivariance, corrected: it calls the last term relative",
    title="Even the last term is absolute once weights stand in between",
    tex=(
        r"\begin{gathered} \langle W_Q c_{p+s}, W_K c_{p'+s} \rangle \neq \langle W_Q c_p, W_K c_{p'} "
        r"\rangle \\ "
        r"\text{for generic } W_Q, W_K \end{gathered}"
    ),
    implements=(textbook.four_terms, textbook.sinusoids),
    tolerance=1e-10,
)
def eq_four_terms_absolute(rng):
    N, d, s = 5, 2 * count(rng, 2, 6), count(rng, 1, 9)
    zero, W_Q, W_K = torch.zeros(N, d).double(), normal(rng, d, d), normal(rng, d, d)
    here, there = (textbook.sinusoids(torch.arange(N) + shift, d) for shift in (0, s))
    generic = [textbook.four_terms(zero, c, W_Q, W_K)[3] for c in (here, there)]
    same = torch.eye(d).double()
    relative = [textbook.four_terms(zero, c, same, same)[3] for c in (here, there)]
    return error(*relative) + must_fail(error(*generic), least=1e-3)
