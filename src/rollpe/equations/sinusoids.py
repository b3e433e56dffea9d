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


@no_check(
    "circles, integer encoding", reason="a definition with nothing to compute: the code is the position"
)
def eq_integer_code(): ...


@check("circles, one-hot encoding", textbook.one_hot_code, tolerance=0.0)
def eq_one_hot(rng):
    length = count(rng, 4, 12)
    p = whole(rng, 0, length - 1, 7)
    return error(textbook.one_hot_code(p, length), F.one_hot(p, length).double())


@check("circles, one-hot encoding", textbook.one_hot_code, tolerance=1e-12)
def eq_one_hot_distance(rng):
    N = count(rng, 3, 9)
    code = textbook.one_hot_code(torch.arange(N), N)
    distance = (code[:, None] - code).square().sum(-1).sqrt()
    return error(distance, 2**0.5 * (1 - torch.eye(N, dtype=torch.float64)))


@check("circles, binary encoding", textbook.binary_code, tolerance=0.0)
def eq_binary(rng):
    bits = count(rng, 3, 9)
    p = whole(rng, 0, 2**bits - 1, 8)
    digits = [[float(digit) for digit in reversed(f"{int(a):0{bits}b}")] for a in p]
    return error(textbook.binary_code(p, bits), torch.tensor(digits, dtype=torch.float64))


@check("circles, binary encoding", textbook.binary_code, tolerance=0.0)
def eq_bit_period(rng):
    p, i = whole(rng, 0, 200, 9), count(rng, 0, 5)
    here, half, full = (textbook.binary_code(p + shift, 8)[:, i] for shift in (0, 2**i, 2 ** (i + 1)))
    return max(error(full, here), error(half, 1 - here))


@check("circles, binary encoding", textbook.bit_flips, textbook.binary_code, tolerance=0.0)
def eq_bit_flips(rng):
    p = torch.cat((torch.tensor([0, 3, 7, 2**15 - 1]), whole(rng, 0, 60000, 9)))
    ones = [len(f"{int(a):b}") - len(f"{int(a):b}".rstrip("1")) for a in p]
    changed = (textbook.binary_code(p + 1, 17) - textbook.binary_code(p, 17)).abs().sum(1)
    flips = textbook.bit_flips(p).double()
    return max(error(flips, changed), error(flips, 1 + torch.tensor(ones).double()), float(flips[1] != 3))


@check("all three introductions, sinusoidal encoding", textbook.sinusoids, tolerance=1e-10)
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
    "all three introductions; order has the direction wrong, circles the reciprocal",
    textbook.rope_frequencies,
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
    "circles, corrected (it prints 10000 · 2π)",
    textbook.longest_wavelength,
    textbook.rope_frequencies,
    tolerance=1e-9,
)
def eq_longest_wavelength(rng):
    d, base = 2 * count(rng, 1, 32), number(rng, 10, 20000)
    found = torch.tensor(
        [textbook.longest_wavelength(d), textbook.longest_wavelength(d, base)], dtype=torch.float64
    )
    slowest = torch.stack((textbook.rope_frequencies(d)[-1], textbook.rope_frequencies(d, base)[-1]))
    return error(found * slowest / (2 * math.pi), torch.ones(2))


@check("consequence of sin² + cos² = 1", textbook.sinusoids, tolerance=1e-12)
def eq_sinusoid_norm(rng):
    d, p = 2 * count(rng, 1, 16), uniform(rng, -1000, 1000, 5)
    return error(textbook.sinusoids(p, d).square().sum(1), torch.full((5,), d / 2))


@check(
    "equivariance, dot product of two codes", textbook.similarity_kernel, textbook.sinusoids, tolerance=1e-10
)
def eq_sinusoid_dot(rng):
    d, p, q = 2 * count(rng, 1, 16), whole(rng, 0, 500, 2, 3), whole(rng, 0, 500, 2, 3)
    dot = torch.stack(
        [(textbook.sinusoids(a, d) * textbook.sinusoids(b, d)).sum(1) for a, b in zip(p, q, strict=True)]
    )
    return error(textbook.similarity_kernel(p - q, textbook.rope_frequencies(d)) * (d / 2), dot)


@check("consequence of the dot product", textbook.sinusoids, tolerance=1e-10)
def eq_sinusoid_distance(rng):
    d, p, q = 2 * count(rng, 1, 16), uniform(rng, 0, 99, 4), uniform(rng, 0, 99, 4)
    half = 0.5 * (p - q)[:, None] * 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    distance = (textbook.sinusoids(p, d) - textbook.sinusoids(q, d)).square().sum(1)
    return error(distance, 4 * half.sin().square().sum(1))


@check("equivariance, angle addition", textbook.sinusoid_shift, textbook.rotation_matrix, tolerance=1e-10)
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
    "equivariance; circles with the sign of its matrix corrected",
    textbook.sinusoid_shift,
    textbook.sinusoids,
    textbook.rotation_matrix,
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


@check("circles, as printed: it claims PE(p+k)", textbook.rotation_matrix, tolerance=1e-10)
def eq_sinusoid_shift_printed(rng):
    p, k = number(rng, -20, 20), number(rng, 0.2, 2.9)
    code = {
        shift: torch.tensor([math.sin(p + shift), math.cos(p + shift)], dtype=torch.float64)
        for shift in (-k, 0, k)
    }
    printed = textbook.rotation_matrix(torch.tensor([k], dtype=torch.float64)) @ code[0]
    return error(printed, code[-k]) + must_fail(error(printed, code[k]), least=0.1)


@check("equivariance, corrected (it prints products where sums belong)", textbook.four_terms, tolerance=1e-10)
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
    "equivariance, corrected: it calls the last term relative",
    textbook.four_terms,
    textbook.sinusoids,
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
