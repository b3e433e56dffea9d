"""Plain codes, the sinusoidal code, its shift by rotation, what adding it does to a score.

Sources: the introductions order, circles and equivariance (after Vaswani et al. 2017), corrected where
they slip.
"""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from rollpe import textbook
from rollpe_book.equations.cases import error, eye, must_fail, must_hold
from rollpe_book.equations.registry import check, no_check


@no_check(
    "circles, integer encoding", reason="a definition with nothing to compute: the code is the position"
)
def eq_integer_code(): ...


@check("circles, one-hot encoding", textbook.one_hot_code, tolerance=0.0)
def eq_one_hot(rng):
    length = rng.count(4, 12)
    p = rng.whole(0, length - 1, 7)
    yield error(textbook.one_hot_code(p, length), F.one_hot(p, length).double())


@check("circles, one-hot encoding", textbook.one_hot_code, tolerance=1e-12)
def eq_one_hot_distance(rng):
    N = rng.count(3, 9)
    code = textbook.one_hot_code(torch.arange(N), N)
    distance = (code[:, None] - code).square().sum(-1).sqrt()
    yield error(distance, 2**0.5 * (1 - eye(N)))


@check("circles, binary encoding", textbook.binary_code, tolerance=0.0)
def eq_binary(rng):
    bits = rng.count(3, 9)
    p = rng.whole(0, 2**bits - 1, 8)
    digits = [[float(digit) for digit in reversed(f"{int(a):0{bits}b}")] for a in p]
    yield error(textbook.binary_code(p, bits), digits)


@check("circles, binary encoding", textbook.binary_code, tolerance=0.0)
def eq_bit_period(rng):
    p, i = rng.whole(0, 200, 9), rng.count(0, 5)
    here, half, full = (textbook.binary_code(p + shift, 8)[:, i] for shift in (0, 2**i, 2 ** (i + 1)))
    yield error(full, here)
    yield error(half, 1 - here)


@check("circles, binary encoding", textbook.bit_flips, textbook.binary_code, tolerance=0.0)
def eq_bit_flips(rng):
    p = torch.cat((torch.tensor([0, 3, 7, 2**15 - 1]), rng.whole(0, 60000, 9)))
    ones = [len(f"{int(a):b}") - len(f"{int(a):b}".rstrip("1")) for a in p]
    changed = (textbook.binary_code(p + 1, 17) - textbook.binary_code(p, 17)).abs().sum(1)
    flips = textbook.bit_flips(p).double()
    yield error(flips, changed)
    yield error(flips, 1 + torch.tensor(ones))
    yield error(flips[1], 3)


@check("all three introductions, sinusoidal encoding", textbook.sinusoids, tolerance=1e-10)
def eq_sinusoid(rng):
    d, p, base = 2 * rng.count(1, 8), rng.uniform(-50, 50, 4), rng.number(10, 20000)

    def code(a, base):
        return [(math.sin, math.cos)[c % 2](a / base ** ((c - c % 2) / d)) for c in range(d)]

    yield error(textbook.sinusoids(p, d), [code(a, 10000) for a in p.tolist()])
    yield error(textbook.sinusoids(p, d, base), [code(a, base) for a in p.tolist()])


@check(
    "all three introductions; order has the direction wrong, circles the reciprocal",
    textbook.rope_frequencies,
    tolerance=1e-12,
)
def eq_sinusoid_frequency(rng):
    d, base = 2 * rng.count(2, 24), rng.number(10, 20000)
    step = math.exp(-2 * math.log(10000) / d)
    other = torch.logspace(0, -1 + 2 / d, d // 2, base, dtype=torch.float64)
    omega = textbook.rope_frequencies(d)
    yield error(omega, [step**i for i in range(d // 2)])
    yield error(textbook.rope_frequencies(d, base), other)
    yield must_hold(bool((omega[1:] < omega[:-1]).all()))


@check(
    "circles, corrected (it prints 10000 · 2π)",
    textbook.longest_wavelength,
    textbook.rope_frequencies,
    tolerance=1e-9,
)
def eq_longest_wavelength(rng):
    d, base = 2 * rng.count(1, 32), rng.number(10, 20000)
    for arguments in ((d,), (d, base)):
        slowest = textbook.rope_frequencies(*arguments)[-1]
        yield error(textbook.longest_wavelength(*arguments) * slowest / (2 * math.pi), 1)


@check("consequence of sin² + cos² = 1", textbook.sinusoids, tolerance=1e-12)
def eq_sinusoid_norm(rng):
    d, p = 2 * rng.count(1, 16), rng.uniform(-1000, 1000, 5)
    yield error(textbook.sinusoids(p, d).square().sum(1), torch.full((5,), d / 2))


@check(
    "equivariance, dot product of two codes", textbook.similarity_kernel, textbook.sinusoids, tolerance=1e-10
)
def eq_sinusoid_dot(rng):
    d, p, q = 2 * rng.count(1, 16), rng.whole(0, 500, 2, 3), rng.whole(0, 500, 2, 3)
    kernel = textbook.similarity_kernel(p - q, textbook.rope_frequencies(d))
    dots = [(textbook.sinusoids(p[i], d) * textbook.sinusoids(q[i], d)).sum(1) for i in (0, 1)]
    yield error(kernel * (d / 2), torch.stack(dots))


@check("consequence of the dot product", textbook.sinusoids, tolerance=1e-10)
def eq_sinusoid_distance(rng):
    d, p, q = 2 * rng.count(1, 16), rng.uniform(0, 99, 4), rng.uniform(0, 99, 4)
    half = 0.5 * (p - q)[:, None] * 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    distance = (textbook.sinusoids(p, d) - textbook.sinusoids(q, d)).square().sum(1)
    yield error(distance, 4 * half.sin().square().sum(1))


def _pair(angle: float) -> Tensor:
    """(sin, cos) of an angle, [2]."""
    return torch.tensor([math.sin(angle), math.cos(angle)], dtype=torch.float64)


@check("equivariance, angle addition", textbook.sinusoid_shift, textbook.rotation_matrix, tolerance=1e-10)
def eq_sinusoid_pair(rng):
    d, p, delta = 2 * rng.count(2, 8), rng.number(-20, 20), rng.number(-20, 20)
    R = textbook.sinusoid_shift(delta, d)
    for i in range(d // 2):
        omega, block = 10000 ** (-2 * i / d), R[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
        yield error(block @ _pair(omega * p), _pair(omega * (p + delta)))
        yield error(block.det(), 1.0)


@check(
    "equivariance; circles with the sign of its matrix corrected",
    textbook.sinusoid_shift,
    textbook.sinusoids,
    textbook.rotation_matrix,
    tolerance=1e-10,
)
def eq_sinusoid_shift(rng):
    d, base = 2 * rng.count(1, 8), rng.number(10, 20000)
    p, delta = rng.uniform(0, 99, 3), rng.number(-30, 30)
    R = textbook.sinusoid_shift(delta, d, base)
    moved = textbook.sinusoids(p, d, base) @ R.T
    default = textbook.sinusoids(p, d) @ textbook.sinusoid_shift(delta, d).T
    yield error(moved, textbook.sinusoids(p + delta, d, base))
    yield error(default, textbook.sinusoids(p + delta, d))
    yield error(R.T @ R, eye(d))


@check("circles, as printed: it claims PE(p+k)", textbook.rotation_matrix, tolerance=1e-10)
def eq_sinusoid_shift_printed(rng):
    p, k = rng.number(-20, 20), rng.number(0.2, 2.9)
    printed = textbook.rotation_matrix(torch.tensor([k], dtype=torch.float64)) @ _pair(p)
    yield error(printed, _pair(p - k))
    yield must_fail(error(printed, _pair(p + k)), least=0.1)


@check("equivariance, corrected (it prints products where sums belong)", textbook.four_terms, tolerance=1e-10)
def eq_four_terms(rng):
    N, D, d = rng.count(2, 5), 2 * rng.count(2, 5), rng.count(2, 6)
    X, code, W_Q, W_K = rng.normal(N, D), rng.normal(N, D), rng.normal(D, d), rng.normal(D, d)
    terms = textbook.four_terms(X, code, W_Q, W_K)
    yield error(sum(terms), torch.einsum("pd,qd->pq", (X + code) @ W_Q, (X + code) @ W_K))
    for term, (a, b) in zip(terms, itertools.product((X, code), repeat=2), strict=True):
        yield error(term, ((a @ W_Q)[:, None] * (b @ W_K)).sum(-1))
    for term in textbook.four_terms(0 * X, code, W_Q, W_K)[:3]:
        yield error(term, 0 * term)


@check(
    "equivariance, corrected: it calls the last term relative",
    textbook.four_terms,
    textbook.sinusoids,
    tolerance=1e-10,
)
def eq_four_terms_absolute(rng):
    N, d, s = 5, 2 * rng.count(2, 6), rng.count(1, 9)
    zero, W_Q, W_K = torch.zeros(N, d).double(), rng.normal(d, d), rng.normal(d, d)
    here, there = (textbook.sinusoids(torch.arange(N) + shift, d) for shift in (0, s))

    def last(code, W_Q, W_K):
        return textbook.four_terms(zero, code, W_Q, W_K)[3]

    yield error(last(here, eye(d), eye(d)), last(there, eye(d), eye(d)))
    yield must_fail(error(last(here, W_Q, W_K), last(there, W_Q, W_K)), least=1e-3)
