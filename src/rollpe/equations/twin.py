"""Page 07b-twin: RollPE's rotary twin, and which optimizers keep the two equal. All of it is ours."""

import torch
from torch import Generator, Tensor

from rollpe import operators
from rollpe.equations.cases import count, error, must_fail, normal, whole, widths
from rollpe.equations.registry import check
from rollpe.equations.rope import rotated


def _twin(n: int, z: Tensor, p: Tensor) -> Tensor:
    """The rotary twin on z = Qᵀx [N, n] at whole p [N]: pairs turn, 1 stays, (−1)^i changes its sign."""
    frequencies = operators.real_fourier_basis(n)[1]
    m = 2 * len(frequencies)
    sign = torch.ones(len(p), n - m).double()
    if n % 2 == 0:
        sign[:, -1] = 1 - 2 * (p % 2)
    return torch.cat((rotated(z[:, :m], p, frequencies), z[:, m:] * sign), dim=1)


def _layer(rng: Generator, n: int):
    """Tokens [4, D], their whole positions [4], and two weight matrices [D, n]."""
    D = count(rng, 3, 6)
    return normal(rng, 4, D), whole(rng, -20, 20, 4), normal(rng, D, n), normal(rng, D, n)


@check("ours", operators.real_fourier_basis, tolerance=1e-10)
def eq_twin(rng):
    worst = 0.0
    for n in widths(rng):
        X, p, W_Q, W_K = _layer(rng, n)
        Q = operators.real_fourier_basis(n)[0]
        rolled = operators.roll(X @ W_Q, p) @ operators.roll(X @ W_K, p).T
        twin = _twin(n, X @ (W_Q @ Q), p) @ _twin(n, X @ (W_K @ Q), p).T
        worst = max(worst, error(twin, rolled))
    return worst


def _gradients(rng: Generator, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of one loss with respect to W_Q, in the ring's basis and in the twin's, and Q."""
    X, p, W_Q, W_K = _layer(rng, n)
    target, Q = normal(rng, 4, 4), operators.real_fourier_basis(n)[0]
    ring, twin = W_Q.clone().requires_grad_(), (W_Q @ Q).requires_grad_()
    (operators.roll(X @ ring, p) @ operators.roll(X @ W_K, p).T - target).square().mean().backward()
    (_twin(n, X @ twin, p) @ _twin(n, X @ (W_K @ Q), p).T - target).square().mean().backward()
    assert ring.grad is not None and twin.grad is not None
    return ring.grad, twin.grad, Q


@check("ours", operators.real_fourier_basis, tolerance=1e-9)
def eq_sgd(rng):
    worst = 0.0
    for n in widths(rng):
        ring, twin, Q = _gradients(rng, n)
        worst = max(worst, error(twin / ring.norm(), (ring @ Q) / ring.norm()))
    return worst


@check("ours; the same functions are not the same training", operators.real_fourier_basis, tolerance=0.0)
def eq_adam(rng):
    """Adam's first step scales each entry by itself, in the ring's basis other entries than in the twin's."""
    worst = 0.0
    for n in widths(rng):
        ring, twin, Q = _gradients(rng, n)
        step, twin_step = (g / (g.square().sqrt() + 1e-8) for g in (ring, twin))
        worst = max(worst, must_fail(error(step @ Q, twin_step), least=0.1))
    return worst
