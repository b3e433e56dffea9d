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
# # Smoothness and topography
#
# A token that moves a little should not become another token. From this wish the paper derives a condition on queries
# and keys, a penalty on neighboring channels, and a bridge to models of visual cortex, where neighboring cells like
# similar things {cite}`rollpe,lee2020topographic,margalit2024unifying`. Three statements are on trial: that a high
# correlation makes a small distance, that the penalty is the Laplacian of a directed cycle, and that it "corresponds
# directly" to the spatial loss of topographic networks. Then we ask what the wish costs.

# %% tags=["parameters"]
n: int = 32  # channels on the ring [8..128]
side: int = 8  # rows and columns of the sheet [8..12]
epsilon: float = 0.01  # correlation that a small shift may lose [0.0001..0.5]
steps: int = 60  # steps of gradient descent [40..300]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import itertools
import math

import matplotlib.pyplot as plt
import torch

from rollpe import figures
from rollpe.agree import agree
from rollpe.operators import (
    continuous_roll,
    fourier_matrix,
    generator,
    real_fourier_basis,
    ring_laplacian,
    roll,
    sheet_laplacian,
    shift_matrix,
)
from rollpe.topography import (
    position_average_gain,
    ring_spectrum,
    shuffled_ratio,
    smoothness_ratio,
    spatial_correlation_loss,
    topography_loss,
)

figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Close in angle, close in space
#
# The wish, in a formula: a token and the same token a little further on remain highly correlated. Since the
# roll is orthogonal, it does not matter where the token stands (Eq. 8 of the paper):
#
# $$
# \begin{aligned} & \frac{\mathrm{Roll}_p(q) \cdot \mathrm{Roll}_{p + \Delta}(q)}{\|q\|^2} \\
# & \quad = \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \ge 1 - \epsilon \end{aligned}
# $$ (eq-smooth)
#
# Then, says Eq. 9, the two are close in space: $\|q - \mathrm{Roll}_\Delta(q)\| < \epsilon$. Try it by hand, on
# a ring of three channels.

# %%
q = torch.tensor([1.0, 1.0, 0.0])
ahead = roll(q, 1)
cosine = q @ ahead / (q @ q)
print(f"q = {q.tolist()}, one step on {ahead.tolist()}")
for scale in (1, 10):
    distance = scale * (q - ahead).norm()
    print(f"{scale:2} q: ε = 1 - {cosine:.2f}, distance {distance:.2f}")

# %% [markdown]
# Two things are wrong. The cosine does not know how long $q$ is, and the distance does: a length is missing.
# And even relative to the length, the distance is 1 where $\epsilon$ is one half: a root is missing. Expand the
# square to see it:
#
# $$
# \begin{aligned} & \|q - \mathrm{Roll}_\Delta(q)\|^2 \\
# & \quad = 2 \|q\|^2 \left( 1 - \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \right) \end{aligned}
# $$ (eq-distance)
#
# Correlation and distance say the same thing, but in different units. What follows from Eq. 8, and is
# equivalent to it, is
#
# $$
# \begin{gathered} \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} \ge 1 - \epsilon \quad \Longleftrightarrow \\
# \|q - \mathrm{Roll}_\Delta(q)\| \le \sqrt{2 \epsilon} \, \|q\| \end{gathered}
# $$ (eq-close)
#
# At equality the true distance exceeds the printed bound by a factor that grows as $\epsilon$ shrinks, just
# where the claim was meant to be used:
#
# $$
# \begin{gathered} \frac{\|q - \mathrm{Roll}_\Delta(q)\|}{\epsilon \, \|q\|} = \sqrt{\frac{2}{\epsilon}} > 1 \\
# \text{where } \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} = 1 - \epsilon,\ \epsilon < 2 \end{gathered}
# $$ (eq-close-printed)
#
# Whoever wants the printed distance must ask for more correlation, of second order:
#
# $$
# \begin{gathered} \|q - \mathrm{Roll}_\Delta(q)\| < \epsilon \, \|q\| \quad \Longleftrightarrow \\
# \frac{q \cdot \mathrm{Roll}_\Delta(q)}{\|q\|^2} > 1 - \frac{\epsilon^2}{2} \end{gathered}
# $$ (eq-close-needed)
#
# Nothing that the paper does later depends on the slip. The direction is right, only the rate is not.

# %% tags=["hide-input"]
ring = torch.arange(n)


def bump(center, width) -> torch.Tensor:
    """Smooth bumps around the ring, width in channels: [...] to [..., n]."""
    center, width = (torch.as_tensor(x)[..., None] for x in (center, width))
    angle = 2 * math.pi * (ring - center) / n
    return torch.exp((n / (2 * math.pi * width)) ** 2 * (angle.cos() - 1))


bumps = bump(torch.rand(80) * n, 0.7 + 3 * torch.rand(80))
tokens = torch.cat((torch.randn(40, n), bumps))
delta = 10 ** (-2.2 * torch.rand(len(tokens)))  # steps, from 0.006 to 1
length = tokens.norm(dim=-1)
moved = continuous_roll(tokens, delta)
lost = 1 - (tokens * moved).sum(-1) / length**2
distance = (tokens - moved).norm(dim=-1) / length
agree("distance from correlation", distance**2, 2 * lost)
true, factor = math.sqrt(2 * epsilon), math.sqrt(2 / epsilon)
print(f"ε = {epsilon}: {true:.3f} lengths, {factor:.0f} times the printed bound")
needed = 1 - epsilon**2 / 2
print(f"for that bound the cosine must exceed {needed:.6f}, not {1 - epsilon}")
assert (distance > lost).all()

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-smooth-distance", "caption": "Distance between a token and its shifted self, against the correlation that it lost. Dots: random tokens, rough and smooth, shifted by up to one step."}, "image": {"alt": "A plot with logarithmic axes. All dots lie on a straight line labeled square root of two epsilon. A second, steeper line labeled epsilon, as printed, lies far below on the left, and a vertical arrow marks the gap between the two."}}
fig, axis = plt.subplots(figsize=(6.4, 3.6))
grid = torch.logspace(-4.3, 0, 50)
axis.loglog(grid, (2 * grid).sqrt(), color=figures.BLUE, label="√(2ε)")
axis.loglog(grid, grid, color=figures.VERMILION, linestyle="--", label="ε, as printed")
axis.loglog(
    lost, distance, "o", color=figures.INK, markersize=3, alpha=0.6, label="tokens"
)
axis.annotate(
    r"$\sqrt{2\epsilon}$", (2e-4, 0.026), color=figures.BLUE, ha="right", fontsize=12
)
axis.annotate(
    r"$\epsilon$, as printed", (1.6e-3, 9e-4), color=figures.VERMILION, fontsize=11
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
# All dots of {numref}`fig-smooth-distance` lie on the upper line. It has half the slope of the printed one.
#
# ## How fast a token may change
#
# The paper goes on to speak of Lipschitz continuity, and that is right without any condition. The roll turns a
# token at a bounded speed:
#
# $$
# \begin{aligned} & \|\mathrm{Roll}_{p}(q) - \mathrm{Roll}_{p'}(q)\| \le \frac{|p - p'|}{\lambda} \|\mathcal{A} q\| \\
# & \quad \le \frac{|p - p'|}{\lambda} \, \frac{2\pi}{n} \Bigl\lfloor \frac{n-1}{2} \Bigr\rfloor \|q\| \end{aligned}
# $$ (eq-lipschitz)
#
# A unit vector moves by less than $\pi$ per step, whatever it is. How much less is its own business: the speed
# $\|\mathcal{A}q\|$ is small for a token made of slow modes. Smoothness in position is smoothness along the
# channels, but for the Nyquist mode of an even ring, which stands still ({eq}`eq-nyquist-fixed`).

# %%
A = generator(n)
top = 2 * math.pi / n * ((n - 1) // 2)
speed = (tokens @ A.T).norm(dim=-1) / length
assert (distance <= delta * speed + 1e-10).all()
assert (speed <= top + 1e-10).all()
print(f"lengths per step: white noise {speed[:40].mean():.2f}, "
      f"bumps {speed[40:].mean():.2f}, at most {top:.2f}")  # fmt: skip

# %% [markdown]
# ## Neighbors on the ring
#
# So penalize differences between neighboring channels. In matrix form the penalty is a graph Laplacian:
#
# $$
# \begin{gathered} \sum_{i} (q_{(i+1) \bmod n} - q_i)^2 = q^\top L q, \\
# L = 2 I - S - S^\top \end{gathered}
# $$ (eq-laplacian)
#
# The paper calls the graph a *directed* cycle. A quadratic form cannot see a direction, because $q^\top S q$
# and $q^\top S^\top q$ are the same number:
#
# $$
# q^\top (I - S) \, q = q^\top (I - S^\top) \, q = \tfrac12 \, q^\top L \, q
# $$ (eq-undirected)
#
# What is penalized is the undirected cycle. The direction of the wave lives in the roll, not in the penalty.
# And what does it penalize? It commutes with the roll, so the answer is written in the Fourier basis:
#
# $$
# L = F^* \operatorname{diag}\!\left( 4 \sin^2 \tfrac{\pi k}{n} \right) F
# $$ (eq-laplacian-spectrum)

# %%
S, L, F = shift_matrix(n), ring_laplacian(n), fourier_matrix(n)
one = torch.eye(n)
differences = (roll(tokens, 1) - tokens).square().sum(-1)
energy = torch.einsum("ti,ij,tj->t", tokens, L, tokens)
agree("squared differences of neighbors", differences, energy, tolerance=1e-11)
for direction in (S, S.T):
    half = torch.einsum("ti,ij,tj->t", tokens, one - direction, tokens)
    agree("either direction gives half of it", half, energy / 2, tolerance=1e-11)
cost = 4 * torch.sin(math.pi * ring / n) ** 2
agree("its spectrum", (F.mH @ (cost[:, None] * F)).real, L)

# %% [markdown]
# Divide by the squared length and by the mean of the spectrum, and the penalty becomes a measure without units, the
# *roughness* of a vector:
#
# $$
# \begin{aligned} \rho(x) = \frac{x^\top L x}{2 \|x\|^2} &= \frac{\sum_k 2 \sin^2 (\pi k / n) \, |\hat x_k|^2}{\sum_k |\hat x_k|^2} \\
# &= 1 - \frac{x \cdot S x}{\|x\|^2} \end{aligned}
# $$ (eq-smoothness)
#
# Zero is constant, one is white noise, two alternates from channel to channel. Look at the last form: $\rho$ is
# the correlation that the token loses in one step. The regularizer *is* the $\epsilon$ of Eq. 8 at
# $\Delta = 1$, for the roll $S$ by a whole step. Here the paper's thread holds, and more tightly than it says.
#
# Rolling a token changes neither its roughness nor its spectrum, if between whole steps the Nyquist mode of an even
# ring stands still. (The cosine of {eq}`eq-nyquist-cosine` shrinks it.) Where the wave is, is in the phases:
#
# $$
# \begin{gathered} \bigl| \widehat{\mathrm{Roll}_p(x)}_k \bigr| = |\hat x_k| \\
# \text{for all } k \text{ and all real } p \end{gathered}
# $$ (eq-ring-power)

# %%
rho = smoothness_ratio(tokens)
one_step = (tokens * roll(tokens, 1)).sum(-1) / length**2
agree("roughness, and Eq. 8 at one step", rho, 1 - one_step)
spectrum = ring_spectrum(tokens)
agree("a traveling token keeps its spectrum", ring_spectrum(moved), spectrum)
noise = torch.randn(4000, n)
of_noise = smoothness_ratio(noise).mean().item()
print(f"white noise has roughness {of_noise:.3f} on average")
assert abs(of_noise - 1) < 0.02

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-smooth-spectrum", "caption": "Left: what a unit of power costs in each mode. Right: where the power of three kinds of tokens is, and their roughness ρ. Modes k and −k are added; the first and, on an even ring, the last have no partner."}, "image": {"alt": "Two plots against the mode number. Left: the penalty on neighbors rises from zero and bends over to four at the last mode; the squared speed of the roll starts along the same curve but keeps rising as a parabola to almost nine and ends one mode earlier. Right: white noise is flat, a narrow bump falls off slowly, and a wide bump has all its power in the first few modes."}}
modes = torch.arange(n // 2 + 1)
slow = modes[: (n + 1) // 2]  # without the Nyquist mode, which has no speed
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0))
left.plot(
    modes,
    4 * torch.sin(math.pi * modes / n) ** 2,
    color=figures.BLUE,
    label="neighbors",
)
left.plot(
    slow,
    (2 * math.pi * slow / n) ** 2,
    color=figures.MUTED,
    linestyle="--",
    label="speed",
)
left.annotate(
    "neighbors,\n$4\\sin^2(\\pi k/n)$",
    (0.98 * modes[-1], 3.2),
    color=figures.BLUE,
    ha="right",
    va="top",
)
left.annotate(
    "speed, $\\omega_k^2$", (0.72 * modes[-1], 6.5), color=figures.MUTED, ha="right"
)
left.set(xlabel="mode k", ylabel="cost", ylim=(0, 10.5))
kinds = {
    "wide bump": (bump(0.0, 2.5)[None], figures.GREEN),
    "narrow bump": (bump(0.0, 0.8)[None], figures.ORANGE),
    "white noise": (noise, figures.INK),
}
for name, (x, color) in kinds.items():
    share = ring_spectrum(x).sum(0) / ring_spectrum(x).sum()
    right.plot(
        modes, share, color=color, label=f"{name}, ρ = {smoothness_ratio(x).mean():.2f}"
    )
right.legend(labelcolor="linecolor", handlelength=1.2)
right.set(xlabel="mode k", ylabel="share of the power")
plt.close(fig)
fig

# %% [markdown]
# {numref}`fig-smooth-spectrum` shows on the left that the penalty is a low-pass filter. On slow modes it
# follows the squared speed of the roll in {eq}`eq-lipschitz`, and it is milder on fast ones. The Nyquist mode of an
# even ring costs most, although the continuous roll does not move it. Roughness is half the mean of the blue curve,
# weighted by a spectrum on the right.
#
# One more number is needed before anything trained is looked at. Channels that share a level are smooth in *any* order,
# so a roughness below one does not yet speak of neighbors. Compare it with that of the same channels in random order:
#
# $$
# \frac{1}{n!} \sum_{\pi} \rho(x_\pi) = \frac{n}{n - 1} \left( 1 - \frac{|\hat x_0|^2}{\|x\|^2} \right)
# $$ (eq-random-order)
#
# ```{prf:proof}
# In a random order the neighbor of a channel is any other one, so $x_\pi \cdot S x_\pi$ has the mean
# $\bigl( (\sum_i x_i)^2 - \|x\|^2 \bigr) / (n - 1)$. Divide by $\|x\|^2$, take it from one, and use
# $\hat x_0 = \sum_i x_i / \sqrt{n}$.
# ```
#
# What all channels share leaves no trace, and the rest is noise that lacks mode zero. The quotient of the two
# roughnesses is what {doc}`14-inside` asks of trained models.

# %% tags=["hide-input"]
common = torch.randn(n) + 0.7
level = ring_spectrum(common)[0] / common.square().sum()
expected = shuffled_ratio(level, n)
orders = torch.rand(4000, n).argsort(dim=-1)
shuffled = smoothness_ratio(common[orders])
error = (shuffled.mean() - expected).abs() / (shuffled.std() / len(orders) ** 0.5)
print(
    f"mean of 4000 orders {shuffled.mean():.4f}, formula {expected:.4f}, "
    f"off by {error:.1f} standard errors"
)
assert error < 5

small = torch.randn(5) + 0.7
orders = torch.tensor(list(itertools.permutations(range(5))))
level = ring_spectrum(small)[0] / small.square().sum()
exact = shuffled_ratio(level, 5)
mean = smoothness_ratio(small[orders]).mean()
agree("all 120 orders of five channels", mean, exact)

# %% [markdown]
# ## The price
#
# A smooth token changes little in one step. Then it cannot change much in two:
#
# $$
# \frac{q \cdot S^{\Delta} q}{\|q\|^2} \ge 1 - \Delta^2 \rho(q)
# $$ (eq-smooth-blur)
#
# ```{prf:proof}
# One step moves the token by $\sqrt{2 \rho} \, \|q\|$, by {eq}`eq-distance`, and each further step by as much.
# So $\Delta$ steps move it by at most $|\Delta| \sqrt{2 \rho} \, \|q\|$. Square, and use {eq}`eq-distance`
# again.
# ```
#
# Read it as a limit to resolution. A query that matches the key at its own place keeps half of its response up
# to $1 / \sqrt{2 \rho}$ patches away, at least.

# %%
print("width of the bump   roughness   steps until it halved       bound")
for width in (0.5, 1.0, 2.0, 3.0):
    x = bump(0.0, width)
    distances = torch.arange(n // 2 + 1)
    match = roll(x, distances) @ x / (x @ x)
    rho = smoothness_ratio(x).item()
    assert (match >= 1 - distances**2 * rho - 1e-10).all()
    halved = next((d for d, m in enumerate(match) if m < 0.5), math.inf)
    bound = math.sqrt(0.5 / rho)
    print(f"{width:17.1f} {rho:11.3f} {halved:23} {'above':>9} {bound:.1f}")
    assert halved > bound

# %% [markdown]
# So the wish of this chapter and the strength of RollPE pull in opposite directions. By {eq}`eq-correlation` a query
# can read any function of the offset if none of its waves is missing, but where a wave is weak in the query it must be
# strong in the key. With $e_0$, as rough as noise, the key is the function itself. A smooth query blurs every key that
# it meets, and a key that undoes the blur must be rough and long. Whether images want sharp or smooth queries is not
# for mathematics to say.

# %%
wish = one[1].to(F.dtype)  # a score of one at the next patch, zero elsewhere
reads = []
print("width of the bump   roughness   of the key   length of the key, for |q| = 1")
for width in (0.5, 1.0):
    q = bump(0.0, width)
    q = q / q.norm()
    k = (F.mH @ ((F @ wish) / (n**0.5 * (F @ q.to(F.dtype)).conj()))).real
    reads.append(torch.stack([q @ roll(k, d) for d in range(n)]))
    rough, of_key = smoothness_ratio(q), smoothness_ratio(k)
    print(f"{width:17.1f} {rough:11.3f} {of_key:12.3f} {k.norm():19.1f}")
agree("both queries read the wish", torch.stack(reads), one[1].expand(2, n))

# %% [markdown]
# ## A ring or a sheet
#
# Cortex is a sheet. Lay the channels out in $h$ rows of $w$, and let every channel have four neighbors. Both
# directions add up:
#
# $$
# \begin{gathered} L_{h \times w} = L_h \otimes I_w + I_h \otimes L_w, \\
# \operatorname{spec} = \left\{ 4 \sin^2 \tfrac{\pi k}{h} + 4 \sin^2 \tfrac{\pi l}{w} \right\} \end{gathered}
# $$ (eq-sheet-laplacian)
#
# It belongs to the torus of {doc}`09-axes` as the ring's Laplacian belongs to the roll.
#
# Topographic networks use another loss {cite}`margalit2024unifying`. It asks, over many images, how strongly
# the responses of two units correlate, and wants near units to correlate more. With the distance $d_{ij}$ of
# two units on the sheet,
#
# $$
# \begin{gathered} \mathcal{L} = 1 - \operatorname{corr}_{i < j}\!\left( r_{ij}, \; \frac{1}{d_{ij} + 1} \right), \\
# r_{ij} = \operatorname{corr}(x_i, x_j) \end{gathered}
# $$ (eq-spatial-loss)
#
# Does the smoothness penalty "correspond directly" to it? It differs in kind. The penalty compares the *values*
# of neighbors in one response, the spatial loss compares *profiles* over many. Give every unit its own gain and
# its own resting level:
#
# $$
# \begin{gathered} \mathcal{L}(a \odot x + b) = \mathcal{L}(x) \qquad (a_i > 0), \\
# \rho(a \odot x + b) \neq \rho(x) \\
# \text{for almost all } a, b \end{gathered}
# $$ (eq-spatial-affine)
#
# The spatial loss does not notice, and the penalty does. So neither implies the other. We measure six kinds of
# responses with all three.

# %% tags=["hide-input"]
sheet, units, images = (side, side), side * side, 300
x = torch.randn(images, units)
energy = torch.einsum("ti,ij,tj->t", x, sheet_laplacian(*sheet), x)
roughness = energy / x.square().sum(-1) / 4
agree("four neighbors each", roughness, smoothness_ratio(x, sheet))


def anywhere(size: int, sharpness: float) -> torch.Tensor:
    """One bump an image, anywhere on a circle of units: [images, size]."""
    angle = 2 * math.pi * (torch.arange(size) / size - torch.rand(images, 1))
    return torch.exp(sharpness * (angle.cos() - 1))


vertical, horizontal = anywhere(side, 1.2), anywhere(side, 1.2)
on_sheet = (vertical[:, :, None] * horizontal[:, None, :]).flatten(1)
gains, levels = torch.exp(1.5 * torch.randn(units)), torch.randn(units)
responses = {
    "white noise": x,
    "bumps on the ring": anywhere(units, 8.0),
    "bumps on the sheet": on_sheet,
    "the same, channels shuffled": on_sheet[:, torch.randperm(units)],
    "the same, with gains": gains * on_sheet,
    "one bump, more or less of it": torch.rand(images, 1)
    * on_sheet[0]
    * (1 + 0.1 * torch.randn(images, units)),  # without it all r_ij are 1
}


def measure(x: torch.Tensor) -> tuple[float, float, float]:
    """Roughness on the ring and on the sheet, and the spatial loss."""
    on_ring, on_torus = smoothness_ratio(x), smoothness_ratio(x, sheet)
    spatial = spatial_correlation_loss(x, sheet)
    return on_ring.mean().item(), on_torus.mean().item(), spatial.item()


print("responses                       ring ρ   sheet ρ   spatial loss")
measured = {name: measure(x) for name, x in responses.items()}
for name, (on_ring, on_torus, spatial) in measured.items():
    print(f"{name:30} {on_ring:7.2f} {on_torus:9.2f} {spatial:14.2f}")

changed = spatial_correlation_loss(gains * on_sheet + levels, sheet)
unchanged = spatial_correlation_loss(on_sheet, sheet)
agree("neither gain nor level is seen", changed, unchanged)
gained, single = (measured[name] for name in list(responses)[-2:])
assert gained[1] > 1.2 * measured["bumps on the sheet"][1], "with gains, rough"
assert single[1] < 0.6 < single[2], "smooth, but without topography"

# %% [markdown]
# The last two rows are the counterexamples. Bumps with gains have nearly perfect topography and are rough. One bump
# that only changes in strength, but for a little noise, is smooth, and has no topography: all units share one profile,
# near or far. (Without the noise all $r_{ij}$ are 1, and the loss is not defined.)
#
# They are relatives nevertheless. We start from white noise and go down each of the three losses for a while.

# %%
start = torch.randn(images, units)


def descend(kind: str, **options) -> torch.Tensor:
    """What is left of white noise after some steps of Adam on one loss."""
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

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-smooth-sheets", "caption": "Two responses of white noise, and what the three losses make of them. Channels are drawn as a sheet, each in colors up to its own largest value; the ring runs through it row by row."}, "image": {"alt": "Two rows of four small heat maps. The first column is noise. Under the ring loss the noise turns into horizontal bands that do not fit together vertically. Under the sheet loss it turns into large soft patches. Under the spatial loss it stays grainy, with a hint of patches."}}
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
# In {numref}`fig-smooth-sheets` the ring makes bands, since it knows only left and right. The sheet makes
# patches. The spatial loss leaves each response grainy; its order shows only over many of them. Starting from
# noise, to lower any of the three is to lower the others. That is a tendency, not an identity.
#
# ## Who asks for slow waves
#
# A penalty asks for slow waves, but it is not the only one to ask. One matrix $W$ serves all positions. The query at
# position $p$ is rolled by $p$ after $W$, so what it asks of $W$ must be rolled back by $p$. Suppose that all $G$
# positions of a row hold the same token $x$ and want the same change $u$. Then $W$ gets the sum of $u$ shifted by
# $0, 1, \dots, G - 1$, times $x^\top$: $G$ times an average, which is a blur. The more the tokens differ, the less they
# share this average; the bias, whose input is 1 everywhere, has it always. A blur keeps slow waves and loses fast ones.
# What it leaves of the power of wave $k$ stands in the second line:
#
# $$
# \begin{gathered} \frac{\partial L}{\partial W} = \sum_{p=0}^{G-1} S^{-p} u_p \, x_p^\top, \quad u_p = \frac{\partial L}{\partial (S^p W x_p)}, \\
# \Bigl| F \, \tfrac1G \sum_{p=0}^{G-1} S^{-p} u \Bigr|_k^2 = \Bigl( \frac{\sin(\pi G k / n)}{G \sin(\pi k / n)} \Bigr)^2 |F u|_k^2 \end{gathered}
# $$ (eq-position-average)
#
# Here $L$ is the loss and $x_p$ the token at $p$. A row of $n/2$ positions stops every second wave altogether, and of
# the others lets hardly more than the first pass. A row of four leaves more. No loss on channels is needed for that,
# and no property of the images but that their places have something in common, in what they hold and in what they ask
# for.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-smooth-average", "caption": "Share of each wave's power that the average over G positions leaves on a ring of n channels."}, "image": {"alt": "Three falling lines over the mode numbers. The longer the row of positions, the earlier a line reaches zero; beyond its first zero each has only small bumps."}}
fig, ax = plt.subplots(figsize=(5.6, 3.0))
for G, shade in ((n // 8, 0.35), (n // 4, 0.65), (n // 2, 1.0)):
    gain = position_average_gain(n, max(G, 1))
    label = f"G = {max(G, 1)}"
    ax.plot(gain, ".-", color=figures.INK, alpha=shade, label=label)
ax.set(xlabel="mode number", ylabel="power left")
ax.legend(frameon=False, title=f"{n} channels")
plt.close(fig)
fig

# %% [markdown]
# Whether a model follows such a gradient is the optimizer's matter; {doc}`14-inside` looks at both.
#
# ```{admonition} In short
# :class: tip
# From a cosine above $1 - \epsilon$ follows a distance of at most $\sqrt{2\epsilon}$ lengths, not $\epsilon$.
# The penalty on neighbors is the Laplacian of an undirected cycle, and as a ratio it is exactly the correlation
# that a token loses in one step. It works as a low-pass filter on the ring, and its price is resolution: at a
# given length, smooth tokens change their scores little from one position to the next. The spatial loss of topographic
# networks is a relative of it, blind to gains and levels, and neither implies the other.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-smooth-shuffle
# Which tokens are exactly as rough in their own order as in the mean of all orders? Try one channel that is on
# while all others are off, and a lone pair of neighbors.
# ```
#
# ```{solution} exercise-smooth-shuffle
# :class: dropdown
# Those with $x \cdot S x = \bigl( (\sum_i x_i)^2 - \|x\|^2 \bigr) / (n - 1)$. A single channel is one of them: both
# sides vanish, since wherever it stands its neighbors are off. For two neighbors the left is 1 and the right only
# $2 / (n - 1)$: the pair has order, on every ring of more than three.
# ```

# %% tags=["hide-cell"]
for on in (1, 2):
    x = torch.zeros(n)
    x[:on] = 1
    ratio = smoothness_ratio(x) / shuffled_ratio(torch.tensor(on / n), n)
    print(f"{on} of {n} channels on: roughness over that in random order {ratio:.3f}")
    expected = (1 - (on - 1) / on) / (1 - (on - 1) / (n - 1))
    agree("as computed by hand", ratio, expected)

# %% [markdown]
# ```{exercise}
# :label: exercise-smooth-heat
# Descend the penalty in small steps, $\dot q = -L q$. What becomes of each mode, and which tokens do not move?
# ```
#
# ```{solution} exercise-smooth-heat
# :class: dropdown
# This is the heat equation on the ring. Mode $k$ decays like $e^{-4 t \sin^2(\pi k/n)}$, the fastest first, and
# only the constant stays. A penalty that is not balanced by a task ends with tokens that say nothing about
# position.
# ```

# %% tags=["hide-cell"]
t = 0.7
warm = tokens @ torch.linalg.matrix_exp(-t * L)
spectrum = torch.fft.rfft(tokens) * torch.exp(-t * cost[: n // 2 + 1])
agree("heat on the ring", warm, torch.fft.irfft(spectrum, n))
assert (smoothness_ratio(warm) <= smoothness_ratio(tokens)).all()
flat = torch.ones(n)
agree("constants stay", flat @ torch.linalg.matrix_exp(-t * L), flat)

# %% [markdown]
# ```{exercise}
# :label: exercise-smooth-twin
# In the rotary twin of RollPE ({doc}`07-rope`) channels are Fourier coefficients and have no neighbors. What is
# the penalty there?
# ```
#
# ```{solution} exercise-smooth-twin
# :class: dropdown
# A penalty on the size of queries and keys that grows with the frequency: each pair is penalized by
# $4 \sin^2(\pi k/n)$ times its squared length. Any rotary encoding can be given such a penalty. It needs no ring, and
# no picture of cortex.
# ```

# %% tags=["hide-cell"]
Q, omega = real_fourier_basis(n)
weight = 4 * torch.sin(omega / 2).repeat_interleave(2) ** 2  # ω_k / 2 = π k / n
lone = torch.tensor([0.0, 4.0])[: n - len(weight)]  # constant, Nyquist
weight = torch.cat((weight, lone))
twin = tokens @ Q
penalty = (weight * twin.square()).sum(-1)
agree("the penalty on the twin", penalty, differences, tolerance=1e-11)
