# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,mystnb,-all
#     formats: ipynb,py:percent
#     notebook_metadata_filter: kernelspec,jupytext,-all
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Smooth rings and topographic losses
#
# In visual cortex, cells that lie side by side respond to similar things. The paper asks the same of RollPE: neighboring
# channels on its ring should respond alike {cite}`rollpe,lee2020topographic,margalit2024unifying`. How can one measure
# such order, and what does a penalty cost? The penalty on neighbors is a low-pass filter on the ring, and its price is
# resolution. It is related to the spatial loss of topographic networks, but neither implies the other. Whether training
# produces order without a penalty is the question of {doc}`Ch. 8 <08-basis>` and {doc}`Ch. 18 <18-ablations>`.

# %% tags=["parameters"]
n: int = 32  # channels on the ring [8..128]
side: int = 8  # rows and columns of the sheet [8..12]
epsilon: float = 0.01  # correlation that a small shift may cost [0.0001..0.5]
steps: int = 60  # steps of gradient descent [40..300]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import itertools
import math

import matplotlib.pyplot as plt
import torch

from rollpe.ring import (
    continuous_roll,
    fourier_matrix,
    generator,
    roll,
    shift_matrix,
)
from rollpe.topography import ring_spectrum
from rollpe_book import figures
from rollpe_book.agree import agree, differs, holds
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Close in angle, close in space
#
# A token that moves a little should not become another token. The paper asks that the two remain highly correlated (its
# Eq. 8). Since the roll is orthogonal, this does not depend on where the token is:
#
# $$
# \begin{aligned} & \frac{\mathrm{Roll}_p(q) \cdot \mathrm{Roll}_{p + \Delta}(q)}{\|q\|^2} \\
# & \quad = \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \ge 1 - \epsilon \end{aligned}
# $$ (eq-smooth)
#
# From this Eq. 9 concludes that the two are close in space: $\|q - \mathrm{Roll}_\Delta(q)\| < \epsilon$. On a ring of
# three channels they are not:

# %%
q = torch.tensor([1.0, 1.0, 0.0])
ahead = q.roll(-1)
cosine = q @ ahead / (q @ q)
print(f"q = {q.tolist()}, one step on {ahead.tolist()}")
for scale in (1, 10):
    distance = scale * (q - ahead).norm()
    print(f"{scale:2} q: ε = 1 - {cosine:.2f}, distance {distance:.2f}")

# %% [markdown]
# The bound lacks the length of $q$, and a root. Expanding the square shows both:
#
# $$
# \begin{aligned} & \|q - \mathrm{Roll}_\Delta(q)\|^2 \\
# & \quad = 2 \|q\|^2 \left( 1 - \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \right) \end{aligned}
# $$ (eq-distance)
#
# Eq. 8 is therefore equivalent to
#
# $$
# \begin{gathered} \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \ge 1 - \epsilon \quad \Longleftrightarrow \\
# \|q - \mathrm{Roll}_\Delta(q)\| \le \sqrt{2 \epsilon} \, \|q\| \end{gathered}
# $$ (eq-close)
#
# At equality the true distance exceeds the bound in the paper by a factor that grows as $\epsilon$ shrinks:
#
# $$
# \begin{gathered} \frac{\|q - \mathrm{Roll}_\Delta(q)\|}{\epsilon \, \|q\|} = \sqrt{\frac{2}{\epsilon}} > 1 \\
# \text{where } \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} = 1 - \epsilon,\ \epsilon < 2 \end{gathered}
# $$ (eq-close-printed)
#
# The distance in the paper needs a higher correlation:
#
# $$
# \begin{gathered} \|q - \mathrm{Roll}_\Delta(q)\| < \epsilon \, \|q\| \quad \Longleftrightarrow \\
# \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} > 1 - \frac{\epsilon^2}{2} \end{gathered}
# $$ (eq-close-needed)
#
# Nothing later in the paper depends on the slip.

# %%
i = torch.arange(n)


def bump(center, width) -> torch.Tensor:
    """Smooth bumps around the ring, width in channels: [...] to [..., n]."""
    center, width = (torch.as_tensor(x)[..., None] for x in (center, width))
    angle = 2 * math.pi * (i - center) / n
    return torch.exp((n / (2 * math.pi * width)) ** 2 * (angle.cos() - 1))


# %%
bumps = bump(torch.rand(80) * n, 0.7 + 3 * torch.rand(80))
tokens = torch.cat((torch.randn(40, n), bumps))  # rough and smooth ones
delta = 10 ** (-2.2 * torch.rand(len(tokens)))  # steps, from 0.006 to 1
length = tokens.norm(dim=-1)
moved = continuous_roll(tokens, delta)
lost = 1 - (tokens * moved).sum(-1) / length**2
distance = (tokens - moved).norm(dim=-1) / length
true, factor = math.sqrt(2 * epsilon), math.sqrt(2 / epsilon)
print(f"ε = {epsilon}: {true:.3f} lengths, {factor:.0f} times the bound in the paper")

# %% tags=["hide-input"]
k = torch.arange(n // 2 + 1)  # the waves of the ring
k[2 * k == n] = 0  # the Nyquist mode is at rest
turned = torch.fft.rfft(tokens) * torch.exp(2j * math.pi * k * delta[:, None] / n)
turned = torch.fft.irfft(turned, n)
p = 5 * torch.randn(120)
there = continuous_roll(tokens, p + delta)
kept = (continuous_roll(tokens, p) * there).sum(-1) / length**2
agree("eq-smooth", [kept, moved], [(tokens * turned).sum(-1) / length**2, turned])

# %%
agree("eq-distance", distance**2, 2 * lost)
near = torch.tensor([[0.5], [0.999], [1.001], [2.0]])  # ε, relative to equality
holds("eq-close", (near >= 1) == (distance <= (2 * near * lost).sqrt()))
ratio = (distance / lost * (lost / 2).sqrt())[delta > 0.05]  # a tiny ε is inexact
agree("eq-close-printed", ratio, torch.ones_like(ratio), 1e-9)
holds("eq-close-printed", distance > lost)
holds("eq-close-needed", (near > 1) == (1 - lost > 1 - (near * distance) ** 2 / 2))

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-smooth-distance", "caption": "Distance between a token and its shifted self, against the correlation that it lost. Dots: random tokens, rough and smooth, shifted by up to one step."}, "image": {"alt": "A plot with logarithmic axes. All dots lie on a straight line labeled square root of two epsilon. A second, steeper line labeled epsilon, in the paper, lies far below on the left, and a vertical arrow marks the gap between the two."}}
fig, axis = plt.subplots(figsize=(6.4, 3.6))
grid = torch.logspace(-4.3, 0, 50)
axis.loglog(grid, (2 * grid).sqrt(), color=figures.BLUE, label="√(2ε)")
axis.loglog(
    grid, grid, color=figures.VERMILION, linestyle="--", label="ε, in the paper"
)
axis.loglog(
    lost, distance, "o", color=figures.INK, markersize=3, alpha=0.6, label="tokens"
)
axis.annotate(
    r"$\sqrt{2\epsilon}$", (2e-4, 0.026), color=figures.BLUE, ha="right", fontsize=12
)
axis.annotate(
    r"$\epsilon$, in the paper", (1.6e-3, 9e-4), color=figures.VERMILION, fontsize=11
)
axis.annotate(
    "",
    (epsilon, epsilon),
    (epsilon, math.sqrt(2 * epsilon)),
    arrowprops={"arrowstyle": "<->", "color": figures.INK},
)
axis.annotate(
    f"× {math.sqrt(2 / epsilon):.0f}",
    (1.15 * epsilon, epsilon * (2 / epsilon) ** 0.25),
    va="center",
)
axis.set(
    xlim=(5e-5, 1),
    ylim=(2e-4, 2),
    xlabel="lost correlation ε = 1 − cosine",
    ylabel="distance / length",
)
plt.close(fig)
fig

# %% [markdown]
# All dots of {numref}`fig-smooth-distance` lie on the upper line, which has half the slope of the bound in the paper.
#
# ## How fast a token may change
#
# A roll moves any token at a bounded speed. The paper calls this Lipschitz continuity (Sec. 4):
#
# $$
# \begin{aligned} & \|\mathrm{Roll}_{p}(q) - \mathrm{Roll}_{p'}(q)\| \le \frac{|p - p'|}{\lambda} \|\mathcal{A} q\| \\
# & \quad \le \frac{|p - p'|}{\lambda} \, \frac{2\pi}{n} \Bigl\lfloor \frac{n-1}{2} \Bigr\rfloor \|q\| \end{aligned}
# $$ (eq-lipschitz)
#
# The speed $\|\mathcal{A}q\|$ is small for a token made of slow modes: smoothness in position is smoothness along the
# channels.

# %%
A = generator(n)
top = 2 * math.pi / n * ((n - 1) // 2)
speed = (tokens @ A.T).norm(dim=-1) / length
slower = (continuous_roll(tokens, delta, 2.5) - tokens).norm(dim=-1)  # λ = 2.5
bounds = (delta * speed, distance), (delta / 2.5 * speed, slower / length), (top, speed)
holds("eq-lipschitz", [small <= large + 1e-10 for large, small in bounds])
start = (continuous_roll(tokens, 1e-6) - tokens) / 1e-6  # it reaches the bound
holds("eq-lipschitz", (start - tokens @ A.T).norm(dim=-1) < 1e-4 * speed * length)

# %%
print(f"lengths per step: white noise {speed[:40].mean():.2f}, "
      f"bumps {speed[40:].mean():.2f}, at most {top:.2f}")  # fmt: skip

# %% [markdown]
# ## The penalty on neighbors
#
# The paper penalizes differences between neighboring channels (Sec. 4). In matrix form this is a graph Laplacian:
#
# $$
# \begin{gathered} \sum_{i} (q_{(i+1) \bmod n} - q_i)^2 = q^\top L q, \\
# L = 2 I - S - S^\top \end{gathered}
# $$ (eq-laplacian)
#
# The paper calls the graph a *directed* cycle. But a squared difference has no direction:
#
# $$
# q^\top (I - S) \, q = q^\top (I - S^\top) \, q = \tfrac12 \, q^\top L \, q
# $$ (eq-undirected)
#
# The penalty is large for fast waves and small for slow ones:
#
# $$
# L = F^* \operatorname{diag}\!\left( 4 \sin^2 \tfrac{\pi k}{n} \right) F
# $$ (eq-laplacian-spectrum)

# %%
from rollpe.ring import ring_laplacian

S, F = shift_matrix(n), fourier_matrix(n)
L = 2 * torch.eye(n) - S - S.T
differences = (tokens[:, (i + 1) % n] - tokens).square().sum(-1)
energy = (tokens @ ring_laplacian(n) * tokens).sum(-1)
agree("eq-laplacian", ring_laplacian(n), L)
agree("eq-laplacian", energy, differences)

# %%
halves = [(tokens @ (torch.eye(n) - step) * tokens).sum(-1) for step in (S, S.T)]
agree("eq-undirected", halves, [energy / 2, energy / 2])
cost = 4 * torch.sin(math.pi * i / n) ** 2
found = [F.mH @ torch.diag(cost + 0j) @ F, torch.linalg.eigvalsh(L)]
agree("eq-laplacian-spectrum", found, [L, cost.sort()[0]])

# %% [markdown]
# Divided by the squared length and by the mean of the spectrum, it becomes the *roughness* of a vector. Zero is constant,
# one is white noise, two alternates from channel to channel:
#
# $$
# \begin{aligned} \rho(x) = \frac{x^\top L x}{2 \|x\|^2} &= \frac{\sum_k 2 \sin^2 (\pi k / n) \, |\hat x_k|^2}{\sum_k |\hat x_k|^2} \\
# &= 1 - \frac{x \cdot S x}{\|x\|^2} \end{aligned}
# $$ (eq-smoothness)

# %%
from rollpe.topography import smoothness_ratio


def ring_roughness(x):
    """The penalty on neighbors, relative to white noise: [..., n] → [...]."""
    penalty = (x.roll(-1, -1) - x).square().sum(-1)  # xᵀLx
    return penalty / (2 * x.square().sum(-1))


# %%
rho = ring_roughness(tokens)
one_step = (tokens * roll(tokens, 1)).sum(-1) / length**2
power = torch.fft.fft(tokens, norm="ortho").abs() ** 2
forms = [smoothness_ratio(tokens), power @ cost / 2 / power.sum(-1), 1 - one_step]
agree("eq-smoothness", forms, [rho, rho, rho])
agree("eq-smoothness", L.trace() / (2 * n), 1)  # of white noise
noise = torch.randn(4000, n)
print(f"white noise has roughness {ring_roughness(noise).mean():.3f} on average")

# %% [markdown]
# By the last form $\rho$ is the correlation that a token loses in one step, the $\epsilon$ of Eq. 8 at $\Delta = 1$.
# Rolling a token changes neither its roughness nor its spectrum, if the Nyquist mode of an even ring is at rest between
# integer steps:
#
# $$
# \begin{gathered} \bigl| \widehat{\mathrm{Roll}_p(x)}_k \bigr| = |\hat x_k| \\
# \text{for all } k \text{ and all real } p \end{gathered}
# $$ (eq-ring-power)

# %%
after = torch.fft.fft(there, norm="ortho").abs() ** 2  # there: Roll_p, p from −15 to 15
both = power[:, : n // 2 + 1].clone()  # waves k and −k belong together
both[:, 1:] += power.flip(1)[:, : n // 2] * (2 * torch.arange(1, n // 2 + 1) != n)
found = [after, ring_spectrum(tokens), ring_spectrum(there)]
agree("eq-ring-power", found, [power, both, both])

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-smooth-spectrum", "caption": "Top: the penalty on a unit of power in each mode. Bottom: how the power of three kinds of tokens spreads over the modes, and their roughness ρ. Modes k and −k are added; the first and, on an even ring, the last have no partner."}, "image": {"alt": "Two plots against the mode number. Top: the penalty on neighbors rises from zero and bends over to four at the last mode; the squared speed of the roll starts along the same curve but keeps rising as a parabola to almost nine and ends one mode earlier. Bottom: white noise is flat, a narrow bump falls off slowly, and a wide bump has all its power in the first few modes."}}
modes = torch.arange(n // 2 + 1)
slow = modes[: (n + 1) // 2]  # without the Nyquist mode, which has no speed
fig, (top, bottom) = plt.subplots(2, 1, figsize=(4.6, 5.4), sharex=True)
top.plot(
    modes,
    4 * torch.sin(math.pi * modes / n) ** 2,
    color=figures.BLUE,
    label="neighbors",
)
top.plot(
    slow,
    (2 * math.pi * slow / n) ** 2,
    color=figures.MUTED,
    linestyle="--",
    label="speed",
)
top.annotate(
    "neighbors,\n$4\\sin^2(\\pi k/n)$",
    (0.98 * modes[-1], 3.2),
    color=figures.BLUE,
    ha="right",
    va="top",
)
top.annotate(
    "speed, $\\omega_k^2$", (0.72 * modes[-1], 6.5), color=figures.MUTED, ha="right"
)
top.set(ylabel="cost", ylim=(0, 10.5))
kinds = {
    "wide bump": (bump(0.0, 2.5)[None], figures.GREEN),
    "narrow bump": (bump(0.0, 0.8)[None], figures.ORANGE),
    "white noise": (noise, figures.INK),
}
for name, (x, color) in kinds.items():
    share = ring_spectrum(x).sum(0) / ring_spectrum(x).sum()
    bottom.plot(
        modes, share, color=color, label=f"{name}, ρ = {smoothness_ratio(x).mean():.2f}"
    )
bottom.legend(labelcolor="linecolor", handlelength=1.2)
bottom.set(xlabel="mode k", ylabel="share of the power")
plt.close(fig)
fig

# %% [markdown]
# The penalty is a low-pass filter. On slow modes it follows the squared speed of the roll in {eq}`eq-lipschitz`; on fast
# ones it is milder.
#
# ## Order, and how to measure it
#
# Channels that share a level are smooth in *any* arrangement. The first measure of order is therefore the roughness divided by
# its mean over all orders of the channels. One means no order, less than one that neighbors are alike:
#
# $$
# \frac{1}{n!} \sum_{\pi} \rho(x_\pi) = \frac{n}{n - 1} \left( 1 - \frac{|\hat x_0|^2}{\|x\|^2} \right)
# $$ (eq-random-order)
#
# ```{prf:proof}
# In a random order the neighbor of a channel is any other one, so $x_\pi \cdot S x_\pi$ has the mean $\bigl( (\sum_i
# x_i)^2 - \|x\|^2 \bigr) / (n - 1)$. Divide by $\|x\|^2$, take it from one, and use $\hat x_0 = \sum_i x_i / \sqrt{n}$.
# ```

# %%
from rollpe.topography import shuffled_ratio

xs = [torch.randn(m) + 0.7 for m in (2, 5, 6)]
orders = [torch.tensor([*itertools.permutations(range(len(x)))]) for x in xs]
means = [ring_roughness(x[o]).mean() for x, o in zip(xs, orders, strict=True)]
share = [x.sum() ** 2 / len(x) / x.square().sum() for x in xs]  # |x̂_0|² / ‖x‖²
library = [shuffled_ratio(s, len(x)) for s, x in zip(share, xs, strict=True)]
formula = [len(x) / (len(x) - 1) * (1 - s) for s, x in zip(share, xs, strict=True)]
agree("eq-random-order", means + library, formula + formula)

# %% [markdown]
# A smooth profile that all tokens share lowers this quotient as well, although no channel then responds to anything of its
# own. The second measure does not have this blind spot: it correlates the responses of two channels over many images, which
# removes the level and the gain of every channel, and averages over neighbors. It shows order if neighbors correlate more
# than any two channels do.
#
# ## The price
#
# Smoothness limits resolution: a token that changes little in one step cannot change much in two.
#
# $$
# \frac{q \cdot S^{\Delta} q}{\|q\|^2} \ge 1 - \Delta^2 \rho(q)
# $$ (eq-smooth-blur)
#
# ```{prf:proof}
# One step moves the token by $\sqrt{2 \rho} \, \|q\|$, by {eq}`eq-distance`, and each further step by as much. So
# $\Delta$ steps move it by at most $|\Delta| \sqrt{2 \rho} \, \|q\|$. Square, and use {eq}`eq-distance` again.
# ```

# %%
Δ = torch.arange(-n, n + 1)
matches = (tokens[:, None] * roll(tokens[:, None], Δ)).sum(-1) / length[:, None] ** 2
holds("eq-smooth-blur", matches >= 1 - Δ**2 * rho[:, None] - 1e-10)
agree("eq-smooth-blur", matches[:, n + 1], 1 - rho)  # reached after one step

# %% [markdown]
# A query that matches the key at its own place keeps half of its response up to at least $1 / \sqrt{2 \rho}$ patches away.

# %%
print("width of the bump   roughness   steps until it halved       bound")
for width in (0.5, 1.0, 2.0, 3.0):
    x = bump(0.0, width)
    distances = torch.arange(n // 2 + 1)
    match = roll(x, distances) @ x / (x @ x)
    rho = ring_roughness(x).item()
    halved = next((d for d, m in enumerate(match) if m < 0.5), math.inf)
    bound = math.sqrt(0.5 / rho)
    print(f"{width:17.1f} {rho:11.3f} {halved:23} {'above':>9} {bound:.1f}")
    assert halved > bound

# %% [markdown]
# By {eq}`eq-score-waves` a query can select any function of the offset if it lacks none of the waves, but where a wave is
# weak in the query it must be strong in the key. A smooth query blurs every key, and a key that undoes the blur must be
# rough and long:

# %%
wanted = torch.eye(n)[1].to(F.dtype)  # a score of one at the next patch, zero elsewhere
for width in (0.5, 1.0):
    q = bump(0.0, width)
    q = q / q.norm()
    k = (F.mH @ ((F @ wanted) / (n**0.5 * (F @ q.to(F.dtype)).conj()))).real
    agree(f"width {width}: the next patch is selected", roll(k, i) @ q, wanted.real)
    print(f"roughness: query {ring_roughness(q):.2f}, key {ring_roughness(k):.2f}")
    print(f"length of the key, for a query of length 1: {k.norm():.1f}")

# %% [markdown]
# ## A ring or a sheet
#
# Lay the channels out in $h$ rows of $w$, as on a sheet of cortex, and give every channel four neighbors. The penalties of
# both directions add up:
#
# $$
# \begin{gathered} L_{h \times w} = L_h \otimes I_w + I_h \otimes L_w, \\
# \operatorname{spec} = \left\{ 4 \sin^2 \tfrac{\pi k}{h} + 4 \sin^2 \tfrac{\pi l}{w} \right\} \end{gathered}
# $$ (eq-sheet-laplacian)
#
# Topographic networks are trained with another loss {cite}`margalit2024unifying`. It is small when near units correlate
# more than distant ones, over many images. With the distance $d_{ij}$ of two units on the sheet,
#
# $$
# \begin{gathered} \mathcal{L} = 1 - \operatorname{corr}_{i < j}\!\left( r_{ij}, \; \frac{1}{d_{ij} + 1} \right), \\
# r_{ij} = \operatorname{corr}(x_i, x_j) \end{gathered}
# $$ (eq-spatial-loss)
#
# The paper says that the penalty "corresponds directly" to this loss. It does not. A gain and a resting level for every
# unit change the penalty and not the spatial loss:
#
# $$
# \begin{gathered} \mathcal{L}(a \odot x + b) = \mathcal{L}(x) \qquad (a_i > 0), \\
# \rho(a \odot x + b) \neq \rho(x) \\
# \text{for almost all } a, b \end{gathered}
# $$ (eq-spatial-affine)

# %%
from rollpe.ring import sheet_laplacian

h, w = side, side + 3
L_hw = torch.kron(ring_laplacian(h), torch.eye(w))
L_hw += torch.kron(torch.eye(h), ring_laplacian(w))
k, l = torch.arange(h)[:, None], torch.arange(w)
values = 4 * (torch.sin(math.pi * k / h) ** 2 + torch.sin(math.pi * l / w) ** 2)
found = [sheet_laplacian(h, w), torch.linalg.eigvalsh(L_hw)]
agree("eq-sheet-laplacian", found, [L_hw, values.flatten().sort()[0]])

# %%
sheet, units, images = (side, side), side * side, 300
x = torch.randn(images, units)
energy = (x @ sheet_laplacian(*sheet) * x).sum(-1)
roughness = energy / x.square().sum(-1) / 4
agree("four neighbors each", roughness, smoothness_ratio(x, sheet))


# %% tags=["hide-input"]
def around(size):
    """Distances on a ring, by the shorter way."""
    apart = torch.arange(size)[:, None] - torch.arange(size)
    return torch.minimum(apart % size, -apart % size)


def spatial_loss(x, h, w):
    d = (around(h)[:, None, :, None] ** 2 + around(w)[None, :, None, :] ** 2).sqrt()
    above = torch.ones(h * w, h * w).triu(1).bool()  # pairs i < j
    near = 1 / (d.view(h * w, -1)[above] + 1)
    return 1 - torch.corrcoef(torch.stack((torch.corrcoef(x.T)[above], near)))[0, 1]


# %% tags=["hide-input"]
from rollpe.topography import spatial_correlation_loss

small = torch.randn(images, 3 * 5)
found = [spatial_correlation_loss(x, sheet), spatial_correlation_loss(small, (3, 5))]
expected = [spatial_loss(x, side, side), spatial_loss(small, 3, 5)]
agree("eq-spatial-loss", found, expected)

# %% [markdown]
# Six kinds of responses, with roughness on the ring, roughness on the sheet and the spatial loss:


# %%
def anywhere(size: int, sharpness: float) -> torch.Tensor:
    """One bump an image, anywhere on a circle of units: [images, size]."""
    angle = 2 * math.pi * (torch.arange(size) / size - torch.rand(images, 1))
    return torch.exp(sharpness * (angle.cos() - 1))


def measure(x: torch.Tensor) -> tuple[float, float, float]:
    """Roughness on the ring and on the sheet, and the spatial loss."""
    on_ring, on_torus = ring_roughness(x), smoothness_ratio(x, sheet)
    spatial = spatial_correlation_loss(x, sheet)
    return on_ring.mean().item(), on_torus.mean().item(), spatial.item()


vertical, horizontal = anywhere(side, 1.2), anywhere(side, 1.2)
on_sheet = (vertical[:, :, None] * horizontal[:, None, :]).flatten(1)
gains, levels = torch.exp(1.5 * torch.randn(units)), torch.randn(units)
some_noise = 1 + 0.1 * torch.randn(images, units)  # without it all r_ij are 1
responses = {
    "white noise": x,
    "bumps on the ring": anywhere(units, 8.0),
    "bumps on the sheet": on_sheet,
    "the same, channels shuffled": on_sheet[:, torch.randperm(units)],
    "the same, with gains": gains * on_sheet,
    "one bump of varying strength": torch.rand(images, 1) * on_sheet[0] * some_noise,
}
print("responses                       ring ρ   sheet ρ   spatial loss")
measured = {name: measure(x) for name, x in responses.items()}
for name, (on_ring, on_torus, spatial) in measured.items():
    print(f"{name:30} {on_ring:7.2f} {on_torus:9.2f} {spatial:14.2f}")

gained, single = (measured[name] for name in list(responses)[-2:])
assert gained[1] > 1.2 * measured["bumps on the sheet"][1], "with gains, rough"
assert single[1] < 0.6 < single[2], "smooth, but without topography"

# %%
changed = gains * on_sheet + levels
losses = [spatial_correlation_loss(x, sheet) for x in (changed, on_sheet)]
agree("eq-spatial-affine", *losses)
penalties = [ring_roughness(x).mean() for x in (changed, on_sheet)]
differs("eq-spatial-affine", *penalties, 1e-4)

# %% [markdown]
# Bumps with gains have nearly perfect topography and are rough. One bump that only changes in strength is smooth and has no
# topography. The losses are related nevertheless. We minimize each of the three from white noise:

# %%
from rollpe.topography import topography_loss

start = torch.randn(images, units)


def descend(kind: str, **options) -> torch.Tensor:
    """White noise after some steps of Adam on one loss."""
    x = start.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([x], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        head = x[None, None]  # one image, one head; responses are its tokens
        topography_loss(head, head, kind, axes=1, **options).backward()
        optimizer.step()
    return x.detach()


descended = {
    "white noise": start,
    "ring": descend("ring"),
    "sheet": descend("sheet", sheet=sheet),
    "spatial loss": descend("tdann", sheet=sheet),
}
print("after descending on    ring ρ   sheet ρ   spatial loss")
for name, x in descended.items():
    on_ring, on_torus, spatial = measure(x)
    print(f"{name:20} {on_ring:7.2f} {on_torus:9.2f} {spatial:14.2f}")

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-smooth-sheets", "caption": "Two responses of white noise, before and after minimizing each of the three losses. Channels are drawn as a sheet, each panel in colors up to its own largest value; the ring runs through it row by row."}, "image": {"alt": "Two rows of four small heat maps. The first column is noise. Under the ring loss the noise turns into horizontal bands that do not fit together vertically. Under the sheet loss it turns into large soft patches. Under the spatial loss it stays grainy, with a hint of patches."}}
fig, axes = plt.subplots(2, 4, figsize=(7.2, 3.8))
for column, (name, x) in zip(axes.T, descended.items(), strict=True):
    for axis, response in zip(column, x[:2], strict=True):
        response = response.view(sheet)
        limit = response.abs().max().item()
        axis.imshow(response, cmap=figures.DIVERGING, vmin=-limit, vmax=limit)
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    column[0].set_title(name)
plt.close(fig)
fig

# %% [markdown]
# The ring makes bands, the sheet patches. The spatial loss leaves each response grainy; its order shows only over many. From
# noise, lowering any of the three lowers the others.
#
# ## Exercise
#
# ```{exercise}
# :label: exercise-smooth-shuffle
# Which tokens are exactly as rough in their own order as in the mean of all orders? Try a single channel that is on, and
# a pair of neighbors.
# ```
#
# ```{solution} exercise-smooth-shuffle
# :class: dropdown
# Those with $x \cdot S x = \bigl( (\sum_i x_i)^2 - \|x\|^2 \bigr) / (n - 1)$. For a single channel both sides are zero.
# For two neighbors the left side is 1 and the right side $2 / (n - 1)$: the pair has order, on every ring of more than
# three.
# ```

# %% tags=["hide-cell"]
for on in (1, 2):
    x = torch.zeros(n)
    x[:on] = 1
    ratio = ring_roughness(x) / shuffled_ratio(torch.tensor(on / n), n)
    print(f"{on} of {n} channels on: roughness over that in random order {ratio:.3f}")
    expected = (1 - (on - 1) / on) / (1 - (on - 1) / (n - 1))
    agree("as computed by hand", ratio, expected)
