"""Several waves at several speeds, and what that costs.

Sources: the paper's App. C (Eqs. 11 and 12); what follows from it is ours.
"""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from rollpe import operators, textbook
from rollpe.encodings import create_encoding
from rollpe.encodings.roll import MultiplexedRoll
from rollpe_book.equations.cases import Draw, entrywise, error, eye, must_fail, must_hold, rolled, shift_power
from rollpe_book.equations.registry import check


def _waves(rng: Draw, n: int):
    """W, queries and keys [5, W, n], integer positions [5]."""
    W = rng.count(2, 4)
    return W, rng.normal(5, W, n), rng.normal(5, W, n), rng.whole(-20, 20, 5)


def _scores(q: Tensor, k: Tensor, p: Tensor) -> Tensor:
    return operators.multiplexed_roll(q, p) @ operators.multiplexed_roll(k, p).T


def _terms(q: Tensor, k: Tensor, p: Tensor) -> Tensor:
    """All terms q^{(w)ᵀ} S^{w′p_k − w p_q} k^{(w′)}: [query, key, w, w′]."""

    def term(i, j, w, v):
        return q[i, w] @ torch.roll(k[j, v], int((w + 1) * p[i] - (v + 1) * p[j]))

    N, W, _ = q.shape
    return entrywise(term, N, N, W, W)


@check("paper Eq. 11", operators.multiplexed_roll)
def eq_waves(rng, n):
    W, D, p = rng.count(1, 4), rng.count(3, 5), rng.count(-20, 20)
    x, projections = rng.normal(3, D), rng.normal(W, n, D)
    joint = (x @ projections.flatten(0, 1).T).unflatten(-1, (W, n))  # one matrix of W·n rows, then split
    each = sum(torch.roll(x @ projections[w].T, -(w + 1) * p, -1) for w in range(W))
    yield error(operators.multiplexed_roll(joint, p), each)


@check("paper Eq. 12", operators.multiplexed_roll, tolerance=1e-12)
def eq_multiplexed(rng, n):
    W, q, _, p = _waves(rng, n)
    batch = torch.stack((q, q.flip(0)))  # [2, 5, W, n]
    slow = torch.zeros(2, 5, n).double()
    for w, t in itertools.product(range(W), range(5)):
        slow[:, t] += batch[:, t, w] @ shift_power(n, (w + 1) * p[t]).T
    yield error(operators.multiplexed_roll(batch, p), slow)


@check("ours; the square of Eq. 12", operators.multiplexed_roll, cases=4)
def eq_multiplexed_score(rng, n):
    _, q, k, p = _waves(rng, n)
    yield error(_scores(q, k, p), _terms(q, k, p).sum((2, 3)))


@check("ours; which terms of the square of Eq. 12 are relative", operators.multiplexed_roll, cases=4)
def eq_multiplexed_split(rng, n):
    W, q, k, p = _waves(rng, n)
    slow = torch.zeros(5, 5).double()
    for w, v, i, j in itertools.product(range(W), range(W), range(5), range(5)):
        absolute = (v - w) * p[i] if v != w else 0
        slow[i, j] += q[i, w] @ shift_power(n, (v + 1) * (p[j] - p[i]) + absolute) @ k[j, v]
    yield error(_scores(q, k, p), slow)


@check("paper Sec. 2: 'breaks equivariance', made exact", operators.multiplexed_roll, cases=4)
def eq_multiplexed_shift(rng, n):
    (W, q, k, p), s = _waves(rng, n), rng.count(1, n - 1)
    turned = torch.zeros(5, 5).double()
    for w, v in itertools.product(range(W), repeat=2):
        moved = k[:, v] @ shift_power(n, (v - w) * s).T
        turned += rolled(q[:, w], (w + 1) * p) @ rolled(moved, (v + 1) * p).T
    here, there = _terms(q, k, p), _terms(q, k, p + s)
    scores = _scores(q, k, p + s)
    yield error(scores, turned)
    yield error(here.diagonal(dim1=2, dim2=3), there.diagonal(dim1=2, dim2=3))  # of the same wave
    yield must_fail(error(scores, here.sum((2, 3))), least=1e-3)


@check("ours", operators.wave_period, tolerance=0.0)
def eq_wave_period(rng):
    for n in (1, *rng.widths()):
        w, x = rng.count(1, 2 * n), torch.arange(n)
        found = operators.wave_period(n, w)
        yield error(found, next(p for p in range(1, n + 1) if torch.equal(torch.roll(x, -w * p), x)))
        yield must_hold(isinstance(found, int))


@check("ours", operators.roll, tolerance=0.0)
def eq_wave_relabel(rng, n):
    w = next(w for w in rng.whole(2, 3 * n, 200).tolist() if math.gcd(w, n) == 1)
    P = eye(n)[w * torch.arange(n) % n]  # row i picks channel wi
    x, p = rng.normal(3, n), rng.whole(-20, 20, 3)
    yield error(shift_power(n, w), P.T @ shift_power(n, 1) @ P)
    yield error(operators.roll(x, w * p), operators.roll(x @ P.T, p) @ P)


@check("ours", operators.multiplexed_roll)
def eq_multiplexed_variance(rng, n):
    """Without scaling, W waves make the logits W times as large."""
    W, p_q, p_k = rng.count(1, 4), rng.count(-20, 20), rng.count(-20, 20)
    unit = eye(W * n).unflatten(-1, (W, n))  # every entry of every wave, one at a time
    bilinear = operators.multiplexed_roll(unit, p_q) @ operators.multiplexed_roll(unit, p_k).T
    yield error(bilinear.square().sum() / n, W**2)


@check("ours; the paper says 'requires more parameters'", textbook.multiplexed_parameters, tolerance=0.0)
def eq_multiplexed_parameters(rng):
    D, L, W = rng.count(2, 30), rng.count(1, 12), rng.count(1, 4)

    def counted(waves):
        maps = [torch.nn.Linear(D, waves * D, device="meta") for _ in range(2 * L)]
        return sum(parameter.numel() for linear in maps for parameter in linear.parameters())

    yield error(textbook.multiplexed_parameters(D, L, W), counted(W) - counted(1))


@check("ours; a control with as many parameters and the same logits", MultiplexedRoll)
def eq_multiplexed_control(rng, n):
    W, D = rng.count(2, 4), rng.count(3, 5)
    x, p = rng.normal(6, D), rng.whole(-20, 20, 6)
    projections = rng.normal(W, n, D)
    waves = (x @ projections.flatten(0, 1).T)[None, None]  # [1, 1, tokens, W·n]
    size: dict[str, Any] = {"head_dim": n, "heads": 1, "axes": 1}
    same_speed = create_encoding("multiplexed-roll", waves=W, speeds=(1,) * W, **size)
    other_speeds = create_encoding("multiplexed-roll", waves=W, **size)
    summed = torch.stack([shift_power(n, p[t]) @ projections.sum(0) @ x[t] for t in range(6)])
    yield error(same_speed(waves, waves, p[:, None])[0][0, 0], summed)
    yield must_fail(error(other_speeds(waves, waves, p[:, None])[0][0, 0], summed), 1e-3)
