"""The roll at integer positions.

Sources: the paper's Eqs. 2, 3 and 10, App. B; what RollPE can express on a ring is ours.
"""

import math

import torch
from torch.linalg import matrix_power

from rollpe import operators
from rollpe_book.equations.cases import Draw, entrywise, error, eye, must_fail
from rollpe_book.equations.registry import check


def _ring(rng: Draw, n: int, N: int = 5):
    """Queries and keys [2, N, n] and their integer positions [N]."""
    return rng.normal(2, N, n), rng.normal(2, N, n), rng.whole(-30, 30, N)


@check("paper Eq. 2", operators.shift_matrix, operators.roll, tolerance=0.0, n=Draw.rings)
def eq_shift_matrix(rng, n):
    x, p, S = rng.normal(3, n), rng.count(0, 2 * n), operators.shift_matrix(n)
    yield error(S, [[float(j == (i + 1) % n) for j in range(n)] for i in range(n)])
    yield error(operators.roll(x, p), x @ matrix_power(S, p).T)


@check("paper Eq. 2, its matrix", operators.roll, tolerance=0.0)
def eq_roll(rng, n):
    x, p = rng.normal(2, 3, 4, n), rng.whole(-40, 40, 3, 1)
    tokens = [torch.roll(x[:, t], -int(p[t]), dims=-1) for t in range(3)]
    yield error(operators.roll(x, p), torch.stack(tokens, 1))
    yield error(operators.roll(x, int(p[0])), torch.roll(x, -int(p[0]), -1))


@check("paper Eq. 2, its sentence in one reading: q_i ↦ q_{i'}, i' = i + p", operators.roll, tolerance=0.0)
def eq_roll_printed(rng, n):
    x, p = rng.normal(n), rng.count(1, (n - 1) // 2)
    y = torch.empty_like(x)
    for i in range(n):
        y[(i + p) % n] = x[i]
    yield error(operators.roll(x, -p), y)
    yield must_fail(error(operators.roll(x, p), y), least=1e-6)


@check("ours; the two readings of Eq. 2", operators.roll, operators.shift_matrix, tolerance=0.0)
def eq_mirror(rng, n):
    x, p, S = rng.normal(3, n), rng.count(-20, 20), operators.shift_matrix(n)
    yield error(operators.roll(x.flip(-1), p).flip(-1), torch.roll(x, p, -1))
    yield error(S.flip(0, 1), S.T)


@check("paper Eq. 10", operators.roll, tolerance=0.0)
def eq_rolled(rng, n):
    q, p, more = rng.normal(4, n), rng.count(0, 9), rng.count(-9, 9)
    step = q
    for _ in range(p):
        step = step @ operators.shift_matrix(n).T
    yield error(operators.roll(q, p), step)
    yield error(operators.roll(operators.roll(q, p), more), operators.roll(q, p + more))


@check("paper, after Eq. 4 and in App. B", operators.shift_matrix, tolerance=1e-12)
def eq_orthogonal(rng, n):
    S, x = operators.shift_matrix(n), rng.normal(n)
    yield error((matrix_power(S, rng.count(1, 9)) @ x).norm(), x.norm())
    yield error(S.T @ S, eye(n))


@check(
    "paper Sec. 2.1: RollPE is periodic with period n", operators.shift_matrix, operators.roll, tolerance=0.0
)
def eq_order(rng, n):
    yield error(matrix_power(operators.shift_matrix(n), n), eye(n))
    for p in range(1, n):
        yield must_fail(error(operators.roll(eye(n), p), eye(n)), least=1.0)


@check("paper Eq. 3", operators.roll, tolerance=1e-12)
def eq_roll_attention(rng, n):
    q, k, p = _ring(rng, n)
    slow = torch.zeros(2, 5, 5).double()
    for c in range(n):
        at = (c + p) % n
        slow += q[:, range(5), at, None] * k[:, None, range(5), at]
    yield error(operators.roll(q, p) @ operators.roll(k, p).mT / math.sqrt(n), slow / math.sqrt(n))


@check("paper App. B", operators.roll, operators.shift_matrix, tolerance=1e-12)
def eq_roll_score(rng, n):
    q, k, p = _ring(rng, n)

    def score(i, j):
        power = matrix_power(operators.shift_matrix(n), int(p[j] - p[i]) % n)
        return torch.einsum("bi,ij,bj->b", q[:, i], power, k[:, j])

    yield error(operators.roll(q, p) @ operators.roll(k, p).mT, entrywise(score, 5, 5))


@check("paper App. B, as an invariance", operators.roll, tolerance=1e-12)
def eq_joint_shift(rng, n):
    (q, k, p), s = _ring(rng, n), rng.count(-50, 50)
    here = operators.roll(q, p) @ operators.roll(k, p).mT
    yield error(operators.roll(q, p + s) @ operators.roll(k, p + s).mT, here)
    yield must_fail(error(operators.roll(q, p + 1) @ operators.roll(k, p).mT, here), least=1e-3)


@check("ours; the score as a function of the offset", operators.roll, operators.fourier_matrix)
def eq_correlation(rng, n):
    q, k, F = rng.normal(n), rng.normal(n), operators.fourier_matrix(n)
    c = torch.stack([q @ operators.roll(k, delta) for delta in range(n)])
    yield error(F @ (c + 0j), n**0.5 * (F @ (q + 0j)).conj() * (F @ (k + 0j)))
    yield error(c, torch.fft.ifft(torch.fft.fft(q).conj() * torch.fft.fft(k)).real)


@check("paper Sec. 2.1, corrected: period n is no problem only if n ≥ 2G − 1", operators.roll, tolerance=0.0)
def eq_distinct_offsets(rng):
    drawn = [(n, rng.count(1, 14)) for n in rng.widths()]
    limits = [(n, G) for G in (8, 14, 16) for n in (2 * G - 2, 2 * G - 1)]  # just too short, and long enough
    for n, G in drawn + limits:
        shifts = [operators.roll(torch.arange(n), delta) for delta in range(1 - G, G)]
        yield error(len(torch.stack(shifts).unique(dim=0)), min(n, 2 * G - 1))


@check("ours", operators.roll, tolerance=0.0)
def eq_complete(rng, n):
    f, p = rng.normal(n), rng.whole(-30, 30, 6)
    q = eye(n)[:1].expand(6, n)
    scores = operators.roll(q, p) @ operators.roll(f.expand(6, n), p).T
    yield error(scores, f[(p - p[:, None]) % n])


@check("ours; the paper does not say where heads are split", operators.roll, tolerance=0.0)
def eq_heads(rng, n):
    H = rng.count(2, 4)
    p, x = rng.count(1, H * n - 1), rng.normal(H * n)
    inside = operators.roll(x.unflatten(0, (H, n)), p).flatten()
    yield error(inside, torch.kron(eye(H), matrix_power(operators.shift_matrix(n), p)) @ x)
    yield must_fail(error(operators.roll(x, p), inside), least=1e-6)
