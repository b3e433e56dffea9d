"""RollPE's rotary twin, and which optimizers keep the two equal. All of it is ours."""

import torch
from torch import Tensor

from rollpe import operators
from rollpe_book.equations.cases import Draw, error, eye, must_fail
from rollpe_book.equations.registry import check
from rollpe_book.equations.rotary import rotated


def _twin(n: int, z: Tensor, p: Tensor) -> Tensor:
    """The rotary twin on z = Qᵀx [N, n] at whole p [N]: pairs turn, 1 stays, (−1)^i changes its sign."""
    frequencies = operators.real_fourier_basis(n)[1]
    m = 2 * len(frequencies)
    sign = torch.ones(len(p), n - m).double()
    if n % 2 == 0:
        sign[:, -1] = 1 - 2 * (p % 2)
    return torch.cat((rotated(z[:, :m], p, frequencies), z[:, m:] * sign), dim=1)


def _layer(rng: Draw, n: int):
    """Tokens [4, D], their integer positions [4], and two weight matrices [D, n]."""
    D = rng.count(3, 6)
    return rng.normal(4, D), rng.whole(-20, 20, 4), rng.normal(D, n), rng.normal(D, n)


@check("ours", operators.real_fourier_basis, tolerance=1e-10)
def eq_twin(rng, n):
    X, p, W_Q, W_K = _layer(rng, n)
    Q = operators.real_fourier_basis(n)[0]
    rolled = operators.roll(X @ W_Q, p) @ operators.roll(X @ W_K, p).T
    yield error(_twin(n, X @ (W_Q @ Q), p) @ _twin(n, X @ (W_K @ Q), p).T, rolled)


def _gradients(rng: Draw, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of one loss with respect to W_Q, in the ring's basis and in the twin's, and Q."""
    X, p, W_Q, W_K = _layer(rng, n)
    target, Q = rng.normal(4, 4), operators.real_fourier_basis(n)[0]
    ring, twin = W_Q.clone().requires_grad_(), (W_Q @ Q).requires_grad_()
    (operators.roll(X @ ring, p) @ operators.roll(X @ W_K, p).T - target).square().mean().backward()
    (_twin(n, X @ twin, p) @ _twin(n, X @ (W_K @ Q), p).T - target).square().mean().backward()
    assert ring.grad is not None and twin.grad is not None
    return ring.grad, twin.grad, Q


@check("ours", operators.real_fourier_basis, tolerance=1e-9)
def eq_sgd(rng, n):
    ring, twin, Q = _gradients(rng, n)
    yield error(twin / ring.norm(), (ring @ Q) / ring.norm())


@check("ours; the same functions are not the same training", operators.real_fourier_basis, tolerance=0.0)
def eq_adam(rng, n):
    """Adam's first step scales each entry by itself, in the ring's basis other entries than in the twin's."""
    ring, twin, Q = _gradients(rng, n)
    step, twin_step = (g / (g.square().sqrt() + 1e-8) for g in (ring, twin))
    yield must_fail(error(step @ Q, twin_step), least=0.1)


def _orthogonalized(G: Tensor) -> Tensor:
    """U Vᵀ of G = U diag(s) Vᵀ: the step of Muon, by the exact decomposition."""
    U, _, Vh = torch.linalg.svd(G, full_matrices=False)
    return U @ Vh


@check("ours", operators.real_fourier_basis, tolerance=1e-9)
def eq_equal_in_law(rng):
    n = rng.count(3, 12)
    Q = operators.real_fourier_basis(n)[0]
    W, gradients = rng.normal(n, n + 2), rng.normal(3, n, n + 2)
    log_density = torch.distributions.Normal(0.0, 0.02).log_prob
    yield error(log_density(0.02 * Q.T @ W).sum(), log_density(0.02 * W).sum())
    corner = torch.ones(n, n + 2).double()  # of the cube on which uniform weights lie; Q takes it outside
    yield must_fail(float((Q.T @ corner).abs().max()), least=1.1)
    momentum = sum(0.9**age * g for age, g in enumerate(gradients))
    turned = sum(0.9**age * (Q.T @ g) for age, g in enumerate(gradients))
    yield error(0.99 * Q.T @ W - turned, Q.T @ (0.99 * W - momentum))
    yield error(_orthogonalized(Q.T @ momentum), Q.T @ _orthogonalized(momentum))


@check("ours", operators.real_fourier_basis, tolerance=0.0)
def eq_signed_permutation(rng):
    n = rng.count(3, 12)
    order, signs = torch.randperm(n, generator=rng), 1.0 - 2 * rng.whole(0, 1, n)
    g, signed = rng.normal(n), (eye(n) * signs)[order]
    yield error((signed @ g).sign(), signed @ g.sign())
    Q = operators.real_fourier_basis(n)[0]
    columns = [error(column.sign(), column) for column in Q.T]  # Q e_j, and sign(e_j) = e_j
    yield must_fail(max(columns), least=1e-3)
