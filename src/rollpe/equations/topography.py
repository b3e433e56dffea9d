"""Page 10-topography: smoothness along the ring, what it says about shifts, and who asks for it.

Sources: the paper's Sec. 4.1 (Eqs. 8 and 9), corrected; Margalit et al. 2024 for the spatial loss.
"""

import itertools
import math

import torch
from torch import Generator

from rollpe import operators
from rollpe import topography as measures
from rollpe.equations.cases import count, error, excess, must_fail, must_hold, normal, number, uniform, widths
from rollpe.equations.registry import check

PAGE = "10-topography"


def _cosine(rng: Generator, n: int):
    """q [n], an offset, Roll_Δ q and the cosine between them."""
    q, delta = normal(rng, n), number(rng, 0.05, 0.6)
    rolled = torch.matrix_exp(delta * operators.generator(n)) @ q
    return q, delta, rolled, float(q @ rolled / q.dot(q))


@check(
    "eq-smooth",
    page=PAGE,
    source="paper Eq. 8",
    title="A small shift keeps a token correlated with itself, wherever it stands",
    tex=(
        r"\begin{aligned} & \frac{\mathrm{Roll}_p(q) \cdot \mathrm{Roll}_{p + \Delta}(q)}{\|q\|^2} \\ "
        r"& \quad = \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \ge 1 - \epsilon \end{aligned}"
    ),
    implements=operators.continuous_roll,
    tolerance=1e-11,
)
def eq_smooth(rng):
    worst = 0.0
    for n in widths(rng):
        q, delta, _, cosine = _cosine(rng, n)
        p = number(rng, -9, 9)
        here, there = operators.continuous_roll(q, p), operators.continuous_roll(q, p + delta)
        worst = max(worst, error(here @ there / q.dot(q), cosine))
    return worst


@check(
    "eq-distance",
    page=PAGE,
    source="ours; the polarization identity for an orthogonal roll",
    title="Correlation and distance say the same",
    tex=(
        r"\begin{aligned} & \|q - \mathrm{Roll}_\Delta(q)\|^2 \\ "
        r"& \quad = 2 \|q\|^2 \left( 1 - \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \right) "
        r"\end{aligned}"
    ),
    implements=operators.continuous_roll,
    tolerance=1e-11,
)
def eq_distance(rng):
    worst = 0.0
    for n in widths(rng):
        q, delta, _, cosine = _cosine(rng, n)
        moved = operators.continuous_roll(q, delta)
        worst = max(worst, error((q - moved).square().sum(), 2 * q.dot(q) * (1 - cosine)))
    return worst


@check(
    "eq-close",
    page=PAGE,
    source="paper Eq. 9, corrected",
    title="What follows from Eq. 8",
    tex=(
        r"\begin{gathered} \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \ge 1 - \epsilon \quad "
        r"\Longleftrightarrow \\ "
        r"\|q - \mathrm{Roll}_\Delta(q)\| \le \sqrt{2 \epsilon} \, \|q\| \end{gathered}"
    ),
    implements=operators.continuous_roll,
    tolerance=0.0,
)
def eq_close(rng):
    worst = 0.0
    for n in widths(rng):
        q, delta, _, cosine = _cosine(rng, n)
        distance = float((q - operators.continuous_roll(q, delta)).norm() / q.norm())
        for epsilon in ((1 - cosine) * factor for factor in (0.5, 0.999, 1.001, 2)):
            worst = max(worst, must_hold((cosine >= 1 - epsilon) == (distance <= math.sqrt(2 * epsilon))))
    return worst


@check(
    "eq-close-printed",
    page=PAGE,
    source="paper Eq. 9, as printed: Eq. 8 would give a distance below ε",
    title="As printed, Eq. 9 does not follow: at equality in Eq. 8 the distance is far above ε",
    tex=(
        r"\begin{gathered} \frac{\|q - \mathrm{Roll}_\Delta(q)\|}{\epsilon \, \|q\|} = "
        r"\sqrt{\frac{2}{\epsilon}} > 1 \\ "
        r"\text{where } \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} = 1 - \epsilon,\ \epsilon < 2 "
        r"\end{gathered}"
    ),
    implements=operators.continuous_roll,
    tolerance=1e-9,
)
def eq_close_printed(rng):
    worst = 0.0
    for n in widths(rng):
        q, delta, _, cosine = _cosine(rng, n)
        q = q / q.norm()  # where the printed inequality, without the norm, means something
        epsilon = 1 - cosine
        ratio = float((q - operators.continuous_roll(q, delta)).norm()) / epsilon
        worst = max(worst, error(ratio / math.sqrt(2 / epsilon), 1.0), must_fail(ratio, least=1.0))
    return worst


@check(
    "eq-close-needed",
    page=PAGE,
    source="ours; what Eq. 9 would take",
    title="A distance below ε needs a cosine above 1 − ε²/2",
    tex=(
        r"\begin{gathered} \|q - \mathrm{Roll}_\Delta(q)\| < \epsilon \, \|q\| \quad "
        r"\Longleftrightarrow \\ "
        r"\frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} > 1 - \frac{\epsilon^2}{2} \end{gathered}"
    ),
    implements=operators.continuous_roll,
    tolerance=0.0,
)
def eq_close_needed(rng):
    worst = 0.0
    for n in widths(rng):
        q, delta, _, cosine = _cosine(rng, n)
        distance = float((q - operators.continuous_roll(q, delta)).norm() / q.norm())
        for epsilon in (distance * factor for factor in (0.5, 0.999, 1.001, 2)):
            worst = max(worst, must_hold((distance < epsilon) == (cosine > 1 - epsilon**2 / 2)))
    return worst


@check(
    "eq-lipschitz",
    page=PAGE,
    source="paper Sec. 4.1: Lipschitz continuous with respect to position",
    title="The roll is Lipschitz in position, and its constant is the speed of q",
    tex=(
        r"\begin{aligned} & \|\mathrm{Roll}_{p}(q) - \mathrm{Roll}_{p'}(q)\| \le \frac{|p - "
        r"p'|}{\lambda} \|\mathcal{A} q\| \\ "
        r"& \quad \le \frac{|p - p'|}{\lambda} \, \frac{2\pi}{n} \Bigl\lfloor \frac{n-1}{2} "
        r"\Bigr\rfloor \|q\| \end{aligned}"
    ),
    implements=(operators.continuous_roll, operators.generator),
    tolerance=1e-10,
)
def eq_lipschitz(rng):
    worst = 0.0
    for n in widths(rng):
        q, p, other, wavelength = normal(rng, n), number(rng, -5, 5), number(rng, -5, 5), number(rng, 0.5, 3)
        gap = (
            operators.continuous_roll(q, p, wavelength) - operators.continuous_roll(q, other, wavelength)
        ).norm()
        slope = (operators.generator(n) @ q).norm()
        near = (operators.continuous_roll(q, 1e-6) - q).norm() / 1e-6  # the bound is reached by small steps
        worst = max(
            worst,
            excess(gap, abs(p - other) / wavelength * slope),
            excess(slope, 2 * math.pi / n * ((n - 1) // 2) * q.norm()),
            must_hold(abs(float(near / slope) - 1) < 1e-4),
        )
    return worst


@check(
    "eq-laplacian",
    page=PAGE,
    source="paper Sec. 4.1, corrected: its 'directed cyclic graph'",
    title="Neighbor differences are the Laplacian of the undirected cycle",
    tex=(
        r"\begin{gathered} \sum_{i} (q_{(i+1) \bmod n} - q_i)^2 = q^\top L q, \\ "
        r"L = 2 I - S - S^\top \end{gathered}"
    ),
    implements=operators.ring_laplacian,
    tolerance=1e-11,
)
def eq_laplacian(rng):
    worst = 0.0
    for n in widths(rng):
        q, L = normal(rng, n), operators.ring_laplacian(n)
        energy = sum((q[(i + 1) % n] - q[i]) ** 2 for i in range(n))
        worst = max(worst, error(q @ L @ q, energy), error(L, L.T))
    return worst


@check(
    "eq-undirected",
    page=PAGE,
    source="ours; on 'directed cyclic graph'",
    title="The quadratic form of the directed cycle cannot see its direction",
    tex=r"q^\top (I - S) \, q = q^\top (I - S^\top) \, q = \tfrac12 \, q^\top L \, q",
    implements=operators.ring_laplacian,
    tolerance=1e-11,
)
def eq_undirected(rng):
    worst = 0.0
    for n in widths(rng):
        q = normal(rng, n)
        half = q @ operators.ring_laplacian(n) @ q / 2
        forward, backward = (q.dot(q) - q.dot(torch.roll(q, s)) for s in (-1, 1))
        worst = max(worst, error(forward, half), error(backward, half))
    return worst


@check(
    "eq-laplacian-spectrum",
    page=PAGE,
    source="ours",
    title="Rough modes cost more: the spectrum of the ring's Laplacian",
    tex=r"L = F^* \operatorname{diag}\!\left( 4 \sin^2 \tfrac{\pi k}{n} \right) F",
    implements=operators.ring_laplacian,
    tolerance=1e-11,
)
def eq_laplacian_spectrum(rng):
    worst = 0.0
    for n in widths(rng):
        F = operators.fourier_matrix(n)
        values = 4 * torch.sin(math.pi * torch.arange(n).double() / n).square()
        found = torch.linalg.eigvalsh(operators.ring_laplacian(n))
        worst = max(worst, error(F.conj().T @ torch.diag(values + 0j) @ F, operators.ring_laplacian(n) + 0j))
        worst = max(worst, error(found, values.sort()[0]))
    return worst


@check(
    "eq-sheet-laplacian",
    page=PAGE,
    source="ours; the 'more complicated mesh' of the paper's Sec. 4.1",
    title="On a sheet of channels both directions add up",
    tex=(
        r"\begin{gathered} L_{h \times w} = L_h \otimes I_w + I_h \otimes L_w, \\ "
        r"\operatorname{spec} = \left\{ 4 \sin^2 \tfrac{\pi k}{h} + 4 \sin^2 \tfrac{\pi l}{w} \right\} "
        r"\end{gathered}"
    ),
    implements=operators.sheet_laplacian,
    tolerance=1e-11,
)
def eq_sheet_laplacian(rng):
    h, w = count(rng, 3, 5), count(rng, 6, 7)
    L, q = operators.sheet_laplacian(h, w), normal(rng, h, w)
    energy = sum((q.roll(-1, axis) - q).square().sum() for axis in (0, 1))
    k, l = torch.arange(h).double(), torch.arange(w).double()
    values = 4 * torch.sin(math.pi * k / h).square()[:, None] + 4 * torch.sin(math.pi * l / w).square()
    return max(
        error(q.flatten() @ L @ q.flatten(), energy),
        error(torch.linalg.eigvalsh(L), values.flatten().sort()[0]),
    )


@check(
    "eq-smoothness",
    page=PAGE,
    source="ours; the regularizer of the paper's Sec. 4.1, made free of scale",
    title="Roughness of a signal on the ring: 1 is white noise",
    tex=(
        r"\begin{aligned} \rho(x) = \frac{x^\top L x}{2 \|x\|^2} &= \frac{\sum_k 2 \sin^2 (\pi k / n) "
        r"\, |\hat x_k|^2}{\sum_k |\hat x_k|^2} \\ "
        r"&= 1 - \frac{x \cdot S x}{\|x\|^2} \end{aligned}"
    ),
    implements=measures.smoothness_ratio,
    tolerance=1e-11,
)
def eq_smoothness(rng):
    worst = 0.0
    for n in widths(rng):
        x = normal(rng, 3, n)
        power = (x @ operators.fourier_matrix(n).T.real).square() + (
            x @ operators.fourier_matrix(n).T.imag
        ).square()
        cost = 2 * torch.sin(math.pi * torch.arange(n).double() / n).square()
        lag = (x * torch.roll(x, -1, -1)).sum(-1) / x.square().sum(-1)
        found = measures.smoothness_ratio(x)
        noise = operators.ring_laplacian(n).trace() / (2 * n)  # E xᵀLx / (2 E‖x‖²) for white noise
        worst = max(
            worst, error(found, power @ cost / power.sum(-1)), error(found, 1 - lag), error(noise, 1.0)
        )
    return worst


@check(
    "eq-random-order",
    page=PAGE,
    source="ours; the mean over all orders of the channels",
    title="In random order only what the channels have in common is smooth",
    tex=(
        r"\frac{1}{n!} \sum_{\pi} \rho(x_\pi) = \frac{n}{n - 1} \left( 1 - \frac{|\hat x_0|^2}{\|x\|^2} "
        r"\right)"
    ),
    implements=measures.shuffled_ratio,
    tolerance=1e-11,
)
def eq_random_order(rng):
    worst = 0.0
    for n in (2, 5, 6):  # few enough for all orders
        x = normal(rng, n) + number(rng, -1, 1)
        orders = torch.tensor(list(itertools.permutations(range(n))))
        level = operators.fourier_matrix(n)[0].real @ x  # unitary, and mode 0 is real
        expected = measures.shuffled_ratio(level**2 / x.dot(x), n)
        worst = max(worst, error(measures.smoothness_ratio(x[orders]).mean(), expected))
    return worst


@check(
    "eq-smooth-blur",
    page=PAGE,
    source="ours; the price of smoothness",
    title="A smooth token looks much the same a few steps on",
    tex=r"\frac{q \cdot S^{\Delta} q}{\|q\|^2} \ge 1 - \Delta^2 \rho(q)",
    implements=measures.smoothness_ratio,
    tolerance=1e-11,
)
def eq_smooth_blur(rng):
    worst = 0.0
    for n in widths(rng):
        q = normal(rng, n)
        for width in (0, 1, n // 3):  # from white noise to smooth
            q = (torch.roll(q, width) + q + torch.roll(q, -width)) / 3
            rho = measures.smoothness_ratio(q)
            for delta in range(-n, n + 1):
                cosine = q @ torch.roll(q, -delta) / q.dot(q)
                worst = max(worst, excess(1 - delta**2 * rho, cosine))
        one_step = q @ torch.roll(q, -1) / q.dot(q)  # where the bound is reached
        worst = max(worst, error(one_step, 1 - measures.smoothness_ratio(q)))
    return worst


@check(
    "eq-ring-power",
    page=PAGE,
    source="ours",
    title="A traveling wave keeps the power of every mode",
    tex=(
        r"\begin{gathered} \bigl| \widehat{\mathrm{Roll}_p(x)}_k \bigr| = |\hat x_k| \\ "
        r"\text{for all } k \text{ and all real } p \end{gathered}"
    ),
    implements=(operators.continuous_roll, measures.ring_spectrum),
    tolerance=1e-10,
)
def eq_ring_power(rng):
    worst = 0.0
    for n in widths(rng):
        x, p = normal(rng, 3, n), number(rng, -20, 20)
        moved = operators.continuous_roll(x, p)
        k = torch.arange(n // 2 + 1)
        both = torch.where((k == 0) | (2 * k == n), 1.0, 2.0)
        power = both * (operators.fourier_matrix(n)[: n // 2 + 1] @ (x.T + 0j)).abs().square().T
        worst = max(worst, error(measures.ring_spectrum(moved), power))
    return worst


@check(
    "eq-spatial-loss",
    page=PAGE,
    source="Margalit et al. 2024 (TDANN), cited in the paper's Sec. 4.1",
    title="The spatial loss of a topographic network",
    tex=(
        r"\begin{gathered} \mathcal{L} = 1 - \operatorname{corr}_{i < j}\!\left( r_{ij}, \; "
        r"\frac{1}{d_{ij} + 1} \right), \\ "
        r"r_{ij} = \operatorname{corr}(x_i, x_j) \end{gathered}"
    ),
    implements=measures.spatial_correlation_loss,
    tolerance=1e-10,
)
def eq_spatial_loss(rng):
    h, w, samples = count(rng, 2, 3), count(rng, 4, 5), count(rng, 6, 12)
    x = normal(rng, samples, h * w)
    r, near = [], []
    for i in range(h * w):
        for j in range(i + 1, h * w):
            rows, columns = abs(i // w - j // w), abs(i % w - j % w)
            distance = math.hypot(min(rows, h - rows), min(columns, w - columns))
            r.append(float(torch.corrcoef(x[:, [i, j]].T)[0, 1]))
            near.append(1 / (distance + 1))
    loss = 1 - torch.corrcoef(torch.tensor([r, near], dtype=torch.float64))[0, 1]
    return error(measures.spatial_correlation_loss(x, (h, w)), loss)


@check(
    "eq-spatial-affine",
    page=PAGE,
    source="ours; on 'corresponds directly' in the paper's Sec. 4.1",
    title="The spatial loss does not see the scale or the mean of a unit; the ring's penalty does",
    tex=(
        r"\begin{gathered} \mathcal{L}(a \odot x + b) = \mathcal{L}(x) \qquad (a_i > 0), \\ "
        r"\rho(a \odot x + b) \neq \rho(x) \\ "
        r"\text{for almost all } a, b \end{gathered}"
    ),
    implements=(measures.spatial_correlation_loss, measures.smoothness_ratio),
    tolerance=1e-10,
)
def eq_spatial_affine(rng):
    h, w, samples = count(rng, 2, 3), count(rng, 4, 5), count(rng, 6, 12)
    x = normal(rng, samples, h * w)
    moved = uniform(rng, 0.2, 5, h * w) * x + normal(rng, h * w)
    change = error(measures.smoothness_ratio(moved).mean(), measures.smoothness_ratio(x).mean())
    return max(
        error(measures.spatial_correlation_loss(moved, (h, w)), measures.spatial_correlation_loss(x, (h, w))),
        must_fail(change, least=1e-4),
    )


@check(
    "eq-position-average",
    page=PAGE,
    source="ours; the gain is that of a moving average (the Dirichlet kernel, squared)",
    title="A weight's gradient sums over positions, each rolled back: a moving average over channels",
    tex=(
        r"\begin{gathered} \frac{\partial L}{\partial W} = \sum_{p=0}^{G-1} S^{-p} u_p \, x_p^\top, "
        r"\quad u_p = \frac{\partial L}{\partial (S^p W x_p)}, \\ "
        r"\Bigl| F \, \tfrac1G \sum_{p=0}^{G-1} S^{-p} u \Bigr|_k^2 = \Bigl( \frac{\sin(\pi G k / "
        r"n)}{G \sin(\pi k / n)} \Bigr)^2 |F u|_k^2 \end{gathered}"
    ),
    implements=measures.position_average_gain,
    tolerance=1e-11,
)
def eq_position_average(rng):
    worst = 0.0
    for n in widths(rng):
        G, inputs = count(rng, 1, 2 * n), count(rng, 1, 4)
        W, x, asked = normal(rng, n, inputs), normal(rng, G, inputs), normal(rng, G, n)
        W.requires_grad_()
        p = torch.arange(G)
        rolled = operators.roll(x @ W.T, p)
        (found,) = torch.autograd.grad(rolled.square().mul(asked).sum(), W)
        u = 2 * rolled.detach() * asked
        worst = max(worst, error(found, operators.roll(u, -p).T @ x))
        common = normal(rng, n)
        mean = operators.roll(common.expand(G, n), -p).mean(0)
        gain = measures.position_average_gain(n, G)
        worst = max(worst, error(measures.ring_spectrum(mean), gain * measures.ring_spectrum(common)))
    return worst
