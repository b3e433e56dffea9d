"""Page 08-multiplexed: several waves at several speeds, and what that costs.

Sources: the paper's App. C (Eqs. 11 and 12); what follows from it is ours.
"""

import math
from typing import Any

import torch
from torch import Generator, Tensor

from rollpe import operators, textbook
from rollpe.encodings import create_encoding
from rollpe.encodings.roll import MultiplexedRoll
from rollpe.equations.cases import count, error, must_fail, must_hold, normal, shift_power, whole, widths
from rollpe.equations.registry import check


def _waves(rng: Generator, n: int):
    """W, queries and keys [5, W, n], whole positions [5]."""
    W = count(rng, 2, 4)
    return W, normal(rng, 5, W, n), normal(rng, 5, W, n), whole(rng, -20, 20, 5)


def _terms(q: Tensor, k: Tensor, p: Tensor) -> Tensor:
    """All terms q^{(w)ᵀ} S^{w′p_k − w p_q} k^{(w′)}: [query, key, w, w′]."""
    N, W, _ = q.shape
    terms = torch.empty(N, N, W, W, dtype=torch.float64)
    for i in range(N):
        for j in range(N):
            for w in range(W):
                for v in range(W):
                    back = (w + 1) * int(p[i]) - (v + 1) * int(p[j])
                    terms[i, j, w, v] = q[i, w] @ torch.roll(k[j, v], back)
    return terms


@check("paper Eq. 11", operators.multiplexed_roll, tolerance=1e-11)
def eq_waves(rng):
    worst = 0.0
    for n in widths(rng):
        W, D, p = count(rng, 1, 4), count(rng, 3, 5), count(rng, -20, 20)
        x, projections = normal(rng, 3, D), normal(rng, W, n, D)
        joint = (x @ projections.flatten(0, 1).T).unflatten(-1, (W, n))  # one matrix of W·n rows, then split
        each = sum(torch.roll(x @ projections[w].T, -(w + 1) * p, -1) for w in range(W))
        worst = max(worst, error(operators.multiplexed_roll(joint, p), torch.as_tensor(each)))
    return worst


@check("paper Eq. 12", operators.multiplexed_roll, tolerance=1e-12)
def eq_multiplexed(rng):
    worst = 0.0
    for n in widths(rng):
        W, q, _, p = _waves(rng, n)
        batch = torch.stack((q, q.flip(0)))  # [2, 5, W, n]
        slow = torch.zeros(2, 5, n).double()
        for w in range(W):
            for t in range(5):
                slow[:, t] += batch[:, t, w] @ shift_power(n, (w + 1) * p[t]).T
        worst = max(worst, error(operators.multiplexed_roll(batch, p), slow))
    return worst


@check("ours; the square of Eq. 12", operators.multiplexed_roll, tolerance=1e-11, cases=4)
def eq_multiplexed_score(rng):
    worst = 0.0
    for n in widths(rng):
        _, q, k, p = _waves(rng, n)
        scores = operators.multiplexed_roll(q, p) @ operators.multiplexed_roll(k, p).T
        worst = max(worst, error(scores, _terms(q, k, p).sum((2, 3))))
    return worst


@check(
    "ours; which terms of the square of Eq. 12 are relative",
    operators.multiplexed_roll,
    tolerance=1e-11,
    cases=4,
)
def eq_multiplexed_split(rng):
    worst = 0.0
    for n in widths(rng):
        W, q, k, p = _waves(rng, n)
        delta = p - p[:, None]  # [query, key]
        slow = torch.zeros(5, 5).double()
        for i in range(5):
            for j in range(5):
                for w in range(W):
                    for v in range(W):
                        absolute = (v - w) * p[i] if v != w else 0
                        slow[i, j] += q[i, w] @ shift_power(n, (v + 1) * delta[i, j] + absolute) @ k[j, v]
        scores = operators.multiplexed_roll(q, p) @ operators.multiplexed_roll(k, p).T
        worst = max(worst, error(scores, slow))
    return worst


@check(
    "paper Sec. 2: 'breaks equivariance', made exact", operators.multiplexed_roll, tolerance=1e-11, cases=4
)
def eq_multiplexed_shift(rng):
    worst = 0.0
    for n in widths(rng):
        W, q, k, p = _waves(rng, n)
        s = count(rng, 1, n - 1)
        here, there = _terms(q, k, p), _terms(q, k, p + s)
        turned = torch.zeros(5, 5).double()
        for w in range(W):
            for v in range(W):
                moved = k[:, v] @ shift_power(n, (v - w) * s).T
                rolled_q = torch.stack([torch.roll(q[i, w], -(w + 1) * int(p[i])) for i in range(5)])
                rolled_k = torch.stack([torch.roll(moved[j], -(v + 1) * int(p[j])) for j in range(5)])
                turned += rolled_q @ rolled_k.T
        scores = operators.multiplexed_roll(q, p + s) @ operators.multiplexed_roll(k, p + s).T
        same_wave = error(here.diagonal(dim1=2, dim2=3), there.diagonal(dim1=2, dim2=3))
        broken = must_fail(error(scores, here.sum((2, 3))), least=1e-3)
        worst = max(worst, error(scores, turned), same_wave, broken)
    return worst


@check("ours", operators.wave_period, tolerance=0.0)
def eq_wave_period(rng):
    worst = 0.0
    for n in (1, *widths(rng)):
        w, x = count(rng, 1, 2 * n), torch.arange(n)
        first = next(p for p in range(1, n + 1) if bool((torch.roll(x, -w * p) == x).all()))
        found = operators.wave_period(n, w)
        worst = max(worst, float(abs(found - first)), must_hold(isinstance(found, int)))
    return worst


@check("ours", operators.roll, tolerance=0.0)
def eq_wave_relabel(rng):
    worst = 0.0
    for n in widths(rng):
        w = next(w for w in whole(rng, 2, 3 * n, 200).tolist() if math.gcd(w, n) == 1)
        P = torch.eye(n).double()[w * torch.arange(n) % n]  # row i picks channel wi
        worst = max(worst, error(shift_power(n, w), P.T @ shift_power(n, 1) @ P))
        x, p = normal(rng, 3, n), whole(rng, -20, 20, 3)
        relabeled = operators.roll(x @ P.T, p) @ P
        worst = max(worst, error(operators.roll(x, w * p), relabeled))
    return worst


@check("ours", operators.multiplexed_roll, tolerance=1e-11)
def eq_multiplexed_variance(rng):
    """Without scaling, W waves make the logits W times as large."""
    worst = 0.0
    for n in widths(rng):
        W, p_q, p_k = count(rng, 1, 4), count(rng, -20, 20), count(rng, -20, 20)
        unit = torch.eye(W * n).double().unflatten(-1, (W, n))  # every entry of every wave, one at a time
        bilinear = operators.multiplexed_roll(unit, p_q) @ operators.multiplexed_roll(unit, p_k).T
        worst = max(worst, error(bilinear.square().sum() / n, float(W**2)))
    return worst


@check("ours; the paper says 'requires more parameters'", textbook.multiplexed_parameters, tolerance=0.0)
def eq_multiplexed_parameters(rng):
    D, L, W = count(rng, 2, 30), count(rng, 1, 12), count(rng, 1, 4)

    def counted(waves):
        maps = [torch.nn.Linear(D, waves * D, device="meta") for _ in range(2 * L)]
        return sum(parameter.numel() for linear in maps for parameter in linear.parameters())

    return float(abs(textbook.multiplexed_parameters(D, L, W) - (counted(W) - counted(1))))


@check("ours; a control with as many parameters and the same logits", MultiplexedRoll, tolerance=1e-11)
def eq_multiplexed_control(rng):
    worst = 0.0
    for n in widths(rng):
        W, D = count(rng, 2, 4), count(rng, 3, 5)
        x, p = normal(rng, 6, D), whole(rng, -20, 20, 6)
        projections = normal(rng, W, n, D)
        waves = (x @ projections.flatten(0, 1).T)[None, None]  # [1, 1, tokens, W·n]
        size: dict[str, Any] = {"head_dim": n, "heads": 1, "axes": 1}
        same_speed = create_encoding("multiplexed-roll", waves=W, speeds=(1,) * W, **size)
        other_speeds = create_encoding("multiplexed-roll", waves=W, **size)
        summed = torch.stack([shift_power(n, p[t]) @ projections.sum(0) @ x[t] for t in range(6)])
        control, _ = same_speed(waves, waves, p[:, None])
        multiplexed, _ = other_speeds(waves, waves, p[:, None])
        worst = max(worst, error(control[0, 0], summed), must_fail(error(multiplexed[0, 0], summed), 1e-3))
    return worst
