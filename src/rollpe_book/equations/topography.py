"""Smoothness along the ring, what it says about shifts, and the losses that encourage it.

Sources: the paper's Sec. 4.1 (Eqs. 8 and 9), corrected; Margalit et al. 2024 for the spatial loss.
"""

import itertools
import math

import torch
from torch import Tensor

from rollpe import operators
from rollpe import topography as measures
from rollpe_book.equations.cases import Draw, error, excess, must_fail, must_hold
from rollpe_book.equations.registry import check


def _cosine(rng: Draw, n: int):
    """q [n], an offset, and the cosine between q and Roll_Δ q."""
    q, delta = rng.normal(n), rng.number(0.05, 0.6)
    rolled = torch.matrix_exp(delta * operators.generator(n)) @ q
    return q, delta, float(q @ rolled / q.dot(q))


def _distance(q: Tensor, delta: float) -> float:
    """‖q − Roll_Δ q‖ / ‖q‖."""
    return float((q - operators.continuous_roll(q, delta)).norm() / q.norm())


@check("paper Eq. 8", operators.continuous_roll)
def eq_smooth(rng, n):
    (q, delta, cosine), p = _cosine(rng, n), rng.number(-9, 9)
    here, there = operators.continuous_roll(q, p), operators.continuous_roll(q, p + delta)
    yield error(here @ there / q.dot(q), cosine)


@check("ours; the polarization identity for an orthogonal roll", operators.continuous_roll)
def eq_distance(rng, n):
    q, delta, cosine = _cosine(rng, n)
    moved = operators.continuous_roll(q, delta)
    yield error((q - moved).square().sum(), 2 * q.dot(q) * (1 - cosine))


@check("paper Eq. 9, corrected", operators.continuous_roll, tolerance=0.0)
def eq_close(rng, n):
    q, delta, cosine = _cosine(rng, n)
    for factor in (0.5, 0.999, 1.001, 2):
        epsilon = (1 - cosine) * factor
        yield must_hold((cosine >= 1 - epsilon) == (_distance(q, delta) <= math.sqrt(2 * epsilon)))


@check(
    "paper Eq. 9, as printed: Eq. 8 would give a distance below ε", operators.continuous_roll, tolerance=1e-9
)
def eq_close_printed(rng, n):
    q, delta, cosine = _cosine(rng, n)
    q = q / q.norm()  # where the printed inequality, without the norm, means something
    epsilon = 1 - cosine
    ratio = float((q - operators.continuous_roll(q, delta)).norm()) / epsilon
    yield error(ratio / math.sqrt(2 / epsilon), 1.0)
    yield must_fail(ratio, least=1.0)


@check("ours; what Eq. 9 would take", operators.continuous_roll, tolerance=0.0)
def eq_close_needed(rng, n):
    q, delta, cosine = _cosine(rng, n)
    distance = _distance(q, delta)
    for factor in (0.5, 0.999, 1.001, 2):
        epsilon = distance * factor
        yield must_hold((distance < epsilon) == (cosine > 1 - epsilon**2 / 2))


@check(
    "paper Sec. 4.1: Lipschitz continuous with respect to position",
    operators.continuous_roll,
    operators.generator,
    tolerance=1e-10,
)
def eq_lipschitz(rng, n):
    q, p, other, wavelength = rng.normal(n), rng.number(-5, 5), rng.number(-5, 5), rng.number(0.5, 3)
    here, there = (operators.continuous_roll(q, a, wavelength) for a in (p, other))
    slope = (operators.generator(n) @ q).norm()
    yield excess((here - there).norm(), abs(p - other) / wavelength * slope)
    yield excess(slope, 2 * math.pi / n * ((n - 1) // 2) * q.norm())
    near = (operators.continuous_roll(q, 1e-6) - q).norm() / 1e-6  # the bound is reached by small steps
    yield must_hold(abs(float(near / slope) - 1) < 1e-4)


@check("paper Sec. 4.1, corrected: its 'directed cyclic graph'", operators.ring_laplacian)
def eq_laplacian(rng, n):
    q, L = rng.normal(n), operators.ring_laplacian(n)
    yield error(q @ L @ q, sum((q[(i + 1) % n] - q[i]) ** 2 for i in range(n)))
    yield error(L, L.T)


@check("ours; on 'directed cyclic graph'", operators.ring_laplacian)
def eq_undirected(rng, n):
    """The quadratic form of the directed cycle cannot see its direction."""
    q = rng.normal(n)
    for step in (-1, 1):
        yield error(q.dot(q) - q.dot(torch.roll(q, step)), q @ operators.ring_laplacian(n) @ q / 2)


@check("ours", operators.ring_laplacian)
def eq_laplacian_spectrum(rng, n):
    F, L = operators.fourier_matrix(n), operators.ring_laplacian(n)
    values = 4 * torch.sin(math.pi * torch.arange(n).double() / n).square()
    yield error(F.mH @ torch.diag(values + 0j) @ F, L)
    yield error(torch.linalg.eigvalsh(L), values.sort()[0])


@check("ours; the 'more complicated mesh' of the paper's Sec. 4.1", operators.sheet_laplacian)
def eq_sheet_laplacian(rng):
    h, w = rng.count(3, 5), rng.count(6, 7)
    L, q = operators.sheet_laplacian(h, w), rng.normal(h, w)
    energy = sum((q.roll(-1, axis) - q).square().sum() for axis in (0, 1))
    yield error(q.flatten() @ L @ q.flatten(), energy)
    k, l = torch.arange(h).double(), torch.arange(w).double()
    values = 4 * torch.sin(math.pi * k / h).square()[:, None] + 4 * torch.sin(math.pi * l / w).square()
    yield error(torch.linalg.eigvalsh(L), values.flatten().sort()[0])


@check("ours; the regularizer of the paper's Sec. 4.1, made free of scale", measures.smoothness_ratio)
def eq_smoothness(rng, n):
    x, F = rng.normal(3, n), operators.fourier_matrix(n).T
    power = (x @ F.real).square() + (x @ F.imag).square()
    cost = 2 * torch.sin(math.pi * torch.arange(n).double() / n).square()
    lag = (x * torch.roll(x, -1, -1)).sum(-1) / x.square().sum(-1)
    yield error(measures.smoothness_ratio(x), power @ cost / power.sum(-1))
    yield error(measures.smoothness_ratio(x), 1 - lag)
    yield error(operators.ring_laplacian(n).trace() / (2 * n), 1.0)  # E xᵀLx / (2 E‖x‖²) for white noise


@check("ours; the mean over all orders of the channels", measures.shuffled_ratio)
def eq_random_order(rng):
    for n in (2, 5, 6):  # few enough for all orders
        x = rng.normal(n) + rng.number(-1, 1)
        orders = torch.tensor(list(itertools.permutations(range(n))))
        level = operators.fourier_matrix(n)[0].real @ x  # unitary, and mode 0 is real
        expected = measures.shuffled_ratio(level**2 / x.dot(x), n)
        yield error(measures.smoothness_ratio(x[orders]).mean(), expected)


@check("ours; the price of smoothness", measures.smoothness_ratio)
def eq_smooth_blur(rng, n):
    q = rng.normal(n)
    for width in (0, 1, n // 3):  # from white noise to smooth
        q = (torch.roll(q, width) + q + torch.roll(q, -width)) / 3
        rho = measures.smoothness_ratio(q)
        for delta in range(-n, n + 1):
            yield excess(1 - delta**2 * rho, q @ torch.roll(q, -delta) / q.dot(q))
    one_step = q @ torch.roll(q, -1) / q.dot(q)  # where the bound is reached
    yield error(one_step, 1 - measures.smoothness_ratio(q))


@check("ours", operators.continuous_roll, measures.ring_spectrum, tolerance=1e-10)
def eq_ring_power(rng, n):
    x, p = rng.normal(3, n), rng.number(-20, 20)
    k = torch.arange(n // 2 + 1)
    both = torch.where((k == 0) | (2 * k == n), 1.0, 2.0)
    power = both * (operators.fourier_matrix(n)[: n // 2 + 1] @ (x.T + 0j)).abs().square().T
    yield error(measures.ring_spectrum(operators.continuous_roll(x, p)), power)


def _samples(rng: Draw):
    """The height and width of a sheet, and samples of its units [samples, h·w]."""
    h, w, samples = rng.count(2, 3), rng.count(4, 5), rng.count(6, 12)
    return h, w, rng.normal(samples, h * w)


@check(
    "Margalit et al. 2024 (TDANN), cited in the paper's Sec. 4.1",
    measures.spatial_correlation_loss,
    tolerance=1e-10,
)
def eq_spatial_loss(rng):
    h, w, x = _samples(rng)
    r, near = [], []
    for i, j in itertools.combinations(range(h * w), 2):
        rows, columns = abs(i // w - j // w), abs(i % w - j % w)
        distance = math.hypot(min(rows, h - rows), min(columns, w - columns))
        r.append(float(torch.corrcoef(x[:, [i, j]].T)[0, 1]))
        near.append(1 / (distance + 1))
    loss = 1 - torch.corrcoef(torch.tensor([r, near], dtype=torch.float64))[0, 1]
    yield error(measures.spatial_correlation_loss(x, (h, w)), loss)


@check(
    "ours; on 'corresponds directly' in the paper's Sec. 4.1",
    measures.spatial_correlation_loss,
    measures.smoothness_ratio,
    tolerance=1e-10,
)
def eq_spatial_affine(rng):
    """The spatial loss does not see the scale or the mean of a unit; the ring's penalty does."""
    h, w, x = _samples(rng)
    moved = rng.uniform(0.2, 5, h * w) * x + rng.normal(h * w)
    losses = [measures.spatial_correlation_loss(samples, (h, w)) for samples in (moved, x)]
    penalties = [measures.smoothness_ratio(samples).mean() for samples in (moved, x)]
    yield error(*losses)
    yield must_fail(error(*penalties), least=1e-4)


@check(
    "ours; the gain is that of a moving average (the Dirichlet kernel, squared)",
    measures.position_average_gain,
)
def eq_position_average(rng, n):
    """A weight's gradient sums over positions, each rolled back: a moving average over channels."""
    G, inputs = rng.count(1, 2 * n), rng.count(1, 4)
    W, x, target = rng.normal(n, inputs), rng.normal(G, inputs), rng.normal(G, n)
    W.requires_grad_()
    p = torch.arange(G)
    rolled = operators.roll(x @ W.T, p)
    (found,) = torch.autograd.grad(rolled.square().mul(target).sum(), W)
    u = 2 * rolled.detach() * target
    yield error(found, operators.roll(u, -p).T @ x)
    common = rng.normal(n)
    mean = operators.roll(common.expand(G, n), -p).mean(0)
    gain = measures.position_average_gain(n, G)
    yield error(measures.ring_spectrum(mean), gain * measures.ring_spectrum(common))


@check(
    "ours; its first line is the arcsine law of Van Vleck and Middleton 1966",
    operators.real_fourier_basis,
    tolerance=0.0,
)
def eq_step_order(rng):
    """The first two are means over draws and hold to five standard errors, the last for every gradient."""
    n, draws = rng.even(8, 18), 4000
    Q = operators.real_fourier_basis(n)[0]
    wave = torch.cat((torch.arange(1, n // 2).repeat_interleave(2), torch.tensor([0, n // 2])))
    amplitudes = 1.5 - 2 * wave.double() / n
    g = rng.normal(draws, n) * amplitudes @ Q.T  # normal, with one power for both coordinates of a wave
    fixed, B = g[0], torch.linalg.qr(rng.normal(draws, n, n))[0]
    for d in (1, 2):
        c = float(amplitudes.square() @ (Q * torch.roll(Q, -d, 0)).sum(0) / amplitudes.square().sum())
        one = float(fixed @ torch.roll(fixed, -d) / fixed.dot(fixed))
        steps = {
            2 / math.pi * math.asin(c): g.sign(),
            2 / math.pi * one: ((B @ fixed).sign()[:, None] @ B)[:, 0],
        }
        for expected, s in steps.items():
            alike = (s * torch.roll(s, -d, -1)).mean(-1)
            yield must_hold(abs(alike.mean() - expected) < 5 * alike.std() / draws**0.5)
        s = (g @ Q).sign() @ Q.T
        yield must_hold((s * torch.roll(s, -d, -1)).mean(-1).abs().max() < 1e-12)


@check("ours; the share of a sum's power that its parts have in common", measures.coherence)
def eq_coherence(rng):
    N, images, n = rng.count(2, 6), rng.count(1, 4), rng.count(2, 8)
    u = rng.normal(images, N, n)
    pairs = torch.stack([(u[:, p] * u[:, q]).sum() for p, q in itertools.product(range(N), repeat=2)])
    own = torch.stack([u[:, p].square().sum() for p in range(N)])
    yield error(measures.coherence(u), pairs.mean() / own.mean())
    yield error(measures.coherence(u[:, :1].expand(-1, N, -1)), 1.0)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=N)), dtype=torch.float64)
    independent = torch.stack(
        [measures.coherence(u * sign[:, None]) for sign in signs]
    )  # all signs, equally likely
    yield error(independent.mean(), 1 / N)
    Q, K, V, moved = (rng.normal(N, n) for _ in range(4))  # all keys moved by one vector
    attended = [((Q @ keys.T).softmax(-1) @ V) for keys in (K, K + moved[0])]
    yield error(*attended)
