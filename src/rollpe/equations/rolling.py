"""Page 05-rolling: the roll at whole positions.

Sources: the paper's Eqs. 2, 3 and 10, App. B; what RollPE can express on a ring is ours.
"""

import math

import torch
from torch import Generator

from rollpe import operators
from rollpe.equations.cases import count, error, must_fail, normal, whole, widths
from rollpe.equations.registry import check


def _ring(rng: Generator, n: int, N: int = 5):
    """Queries and keys [2, N, n] and their whole positions [N]."""
    return normal(rng, 2, N, n), normal(rng, 2, N, n), whole(rng, -30, 30, N)


@check("paper Eq. 2", operators.shift_matrix, operators.roll, tolerance=0.0)
def eq_shift_matrix(rng):
    worst = 0.0
    for n in (count(rng, 1, 2), *widths(rng)):
        x, p = normal(rng, 3, n), count(rng, 0, 2 * n)
        S = operators.shift_matrix(n)
        moved = torch.linalg.matrix_power(S, p) @ x.T
        ones = {(i, i + 1) for i in range(n - 1)} | {(n - 1, 0)}
        printed = torch.tensor([[float((i, j) in ones) for j in range(n)] for i in range(n)]).double()
        worst = max(worst, error(S, printed), error(operators.roll(x, p), moved.T))
    return worst


@check("paper Eq. 2, its matrix", operators.roll, tolerance=0.0)
def eq_roll(rng):
    worst = 0.0
    for n in widths(rng):
        x, p = normal(rng, 2, 3, 4, n), whole(rng, -40, 40, 3, 1)
        tokens = [torch.roll(x[:, t], -int(p[t]), dims=-1) for t in range(3)]
        single = operators.roll(x, int(p[0]))
        worst = max(
            worst,
            error(operators.roll(x, p), torch.stack(tokens, 1)),
            error(single, torch.roll(x, -int(p[0]), -1)),
        )
    return worst


@check("paper Eq. 2, its sentence in one reading: q_i ↦ q_{i'}, i' = i + p", operators.roll, tolerance=0.0)
def eq_roll_printed(rng):
    worst = 0.0
    for n in widths(rng):
        x, p = normal(rng, n), count(rng, 1, (n - 1) // 2)
        y = torch.empty_like(x)
        for i in range(n):
            y[(i + p) % n] = x[i]
        sentence = must_fail(error(operators.roll(x, p), y), least=1e-6)
        worst = max(worst, error(operators.roll(x, -p), y), sentence)
    return worst


@check("ours; the two readings of Eq. 2", operators.roll, operators.shift_matrix, tolerance=0.0)
def eq_mirror(rng):
    worst = 0.0
    for n in widths(rng):
        x, p = normal(rng, 3, n), count(rng, -20, 20)
        S = operators.shift_matrix(n)
        mirrored = operators.roll(x.flip(-1), p).flip(-1)
        worst = max(worst, error(mirrored, torch.roll(x, p, -1)), error(S.flip(0, 1), S.T))
    return worst


@check("paper Eq. 10", operators.roll, tolerance=0.0)
def eq_rolled(rng):
    worst = 0.0
    for n in widths(rng):
        q, p, more = normal(rng, 4, n), count(rng, 0, 9), count(rng, -9, 9)
        step = q
        for _ in range(p):
            step = step @ operators.shift_matrix(n).T
        twice = operators.roll(operators.roll(q, p), more)
        worst = max(worst, error(operators.roll(q, p), step), error(twice, operators.roll(q, p + more)))
    return worst


@check("paper, after Eq. 4 and in App. B", operators.shift_matrix, tolerance=1e-12)
def eq_orthogonal(rng):
    worst = 0.0
    for n in widths(rng):
        S, x = operators.shift_matrix(n), normal(rng, n)
        length = torch.linalg.matrix_power(S, count(rng, 1, 9)) @ x
        worst = max(worst, error(S.T @ S, torch.eye(n).double()), error(length.norm(), x.norm()))
    return worst


@check(
    "paper Sec. 2.1: RollPE is periodic with period n", operators.shift_matrix, operators.roll, tolerance=0.0
)
def eq_order(rng):
    worst = 0.0
    for n in widths(rng):
        S, identity = operators.shift_matrix(n), torch.eye(n).double()
        early = min(error(operators.roll(identity, p), identity) for p in range(1, n))
        worst = max(worst, error(torch.linalg.matrix_power(S, n), identity), must_fail(early, least=1.0))
    return worst


@check("paper Eq. 3", operators.roll, tolerance=1e-12)
def eq_roll_attention(rng):
    worst = 0.0
    for n in widths(rng):
        q, k, p = _ring(rng, n)
        fast = operators.roll(q, p) @ operators.roll(k, p).mT / math.sqrt(n)
        slow = torch.zeros_like(fast)
        for c in range(n):
            slow += (
                torch.stack([q[:, i, (c + int(p[i])) % n] for i in range(5)], -1)[..., :, None]
                * torch.stack([k[:, j, (c + int(p[j])) % n] for j in range(5)], -1)[..., None, :]
            )
        worst = max(worst, error(fast, slow / math.sqrt(n)))
    return worst


@check("paper App. B", operators.roll, operators.shift_matrix, tolerance=1e-12)
def eq_roll_score(rng):
    worst = 0.0
    for n in widths(rng):
        q, k, p = _ring(rng, n)
        scores = operators.roll(q, p) @ operators.roll(k, p).mT
        slow = torch.empty_like(scores)
        for i in range(5):
            for j in range(5):
                power = torch.linalg.matrix_power(operators.shift_matrix(n), int(p[j] - p[i]) % n)
                slow[:, i, j] = torch.einsum("bi,ij,bj->b", q[:, i], power, k[:, j])
        worst = max(worst, error(scores, slow))
    return worst


@check("paper App. B, as an invariance", operators.roll, tolerance=1e-12)
def eq_joint_shift(rng):
    worst = 0.0
    for n in widths(rng):
        q, k, p = _ring(rng, n)
        s = count(rng, -50, 50)
        here = operators.roll(q, p) @ operators.roll(k, p).mT
        there = operators.roll(q, p + s) @ operators.roll(k, p + s).mT
        one_way = error(operators.roll(q, p + 1) @ operators.roll(k, p).mT, here)
        worst = max(worst, error(there, here), must_fail(one_way, least=1e-3))
    return worst


@check(
    "ours; the score as a function of the offset", operators.roll, operators.fourier_matrix, tolerance=1e-11
)
def eq_correlation(rng):
    worst = 0.0
    for n in widths(rng):
        q, k = normal(rng, n), normal(rng, n)
        c = torch.stack([q @ operators.roll(k, delta) for delta in range(n)])
        F = operators.fourier_matrix(n)
        spectrum = n**0.5 * (F @ (q + 0j)).conj() * (F @ (k + 0j))
        by_fft = torch.fft.ifft(torch.fft.fft(q).conj() * torch.fft.fft(k)).real
        worst = max(worst, error(F @ (c + 0j), spectrum), error(c, by_fft))
    return worst


@check("paper Sec. 2.1, corrected: period n is no problem only if n ≥ 2G − 1", operators.roll, tolerance=0.0)
def eq_distinct_offsets(rng):
    drawn = [(n, count(rng, 1, 14)) for n in widths(rng)]
    limits = [(n, G) for G in (8, 14, 16) for n in (2 * G - 2, 2 * G - 1)]  # just too short, and long enough
    worst = 0.0
    for n, G in drawn + limits:
        shifts = [operators.roll(torch.arange(n), delta) for delta in range(1 - G, G)]
        worst = max(worst, abs(len(torch.stack(shifts).unique(dim=0)) - min(n, 2 * G - 1)))
    return worst


@check("ours", operators.roll, tolerance=0.0)
def eq_complete(rng):
    worst = 0.0
    for n in widths(rng):
        f, p = normal(rng, n), whole(rng, -30, 30, 6)
        q = torch.zeros(6, n).double()
        q[:, 0] = 1
        scores = operators.roll(q, p) @ operators.roll(f.expand(6, n), p).T
        worst = max(worst, error(scores, f[(p - p[:, None]) % n]))
    return worst


@check("ours; the paper does not say where heads are split", operators.roll, tolerance=0.0)
def eq_heads(rng):
    worst = 0.0
    for n in widths(rng):
        H = count(rng, 2, 4)
        p = count(rng, 1, H * n - 1)
        x = normal(rng, H * n)
        inside = operators.roll(x.unflatten(0, (H, n)), p).flatten()
        power = torch.linalg.matrix_power(operators.shift_matrix(n), p)
        kron = torch.kron(torch.eye(H).double(), power) @ x
        worst = max(worst, error(inside, kron), must_fail(error(operators.roll(x, p), inside), least=1e-6))
    return worst
