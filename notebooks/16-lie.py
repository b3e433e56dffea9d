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
# # More on two axes: learned rotations, the sphere, resolution
#
# {doc}`Ch. 7 <07-waves>` gives rows and columns a ring each, or rolls a torus. What can other encodings of two axes
# express? Mixed RoPE is relative and has oblique directions, LieRE is relative exactly if its generators commute, and
# spherical RoPE is relative along one axis. The page ends with a fair control for multiplexed RollPE.

# %% tags=["parameters"]
rows: int = 6  # patches from top to bottom [2..14]
columns: int = 8  # patches from left to right [2..14]
head_dim: int = 64  # channels of one head, a multiple of 8 [16..128 step 8]
waves: int = 2  # waves in each query and key [2..4]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math
import warnings

import matplotlib.pyplot as plt
import torch

from rollpe.encodings import create_encoding, grid_positions, scale_positions
from rollpe.formulas import (
    lie_rotation,
    rotation_angles,
    rotation_matrix,
    spherical_rope,
)
from rollpe.ring import axial_roll, multiplexed_roll, shift_matrix, torus_roll
from rollpe_book import figures
from rollpe_book.agree import agree, differs
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)
positions = grid_positions(rows, columns).double()  # (row, column) of each token
down, right = torch.arange(1 - rows, rows), torch.arange(1 - columns, columns)
offsets = torch.cartesian_prod(down, right)

# %% [markdown]
# ## Learned rotations
#
# **Mixed RoPE** (`mixed-rope`) {cite}`heo2024rotary` learns a vector $\omega_i$ for each pair of channels, which makes it a
# plane wave in that direction:
#
# $$
# \begin{gathered} \varphi_i(p) = \langle \omega_i, p \rangle, \\
# R_{\varphi(p)}^\top R_{\varphi(p')} = R_{\varphi(p' - p)} \end{gathered}
# $$ (eq-mixed-rope)
#
# Its angles are linear in the position, so it is relative.

# %%
omega = torch.randn(5, 2)  # a direction and a speed for each of five pairs
p = torch.tensor([[-1.5, 2.25], [0.5, 1.75]])
p = torch.cat((p, p[1:] - p[:1]))  # two positions and their offset
phi = torch.stack([y * omega[:, 0] + x * omega[:, 1] for y, x in p])
here, there, between = map(rotation_matrix, phi)
found = [rotation_angles(p, omega), here.T @ there]
agree("eq-mixed-rope", found, [phi, between])

# %% [markdown]
# **LieRE** (`lie`) {cite}`ostmeier2024liere` replaces pairs by larger blocks, and angles by learned skew-symmetric
# matrices. The paper's proof of Theorem 1 uses its case of one axis, {eq}`eq-lie-form`.
#
# $$
# \begin{gathered} R(p) = \exp\Bigl( \sum_a p_a \mathcal{A}_a \Bigr), \\
# \mathcal{A}_a^\top = -\mathcal{A}_a, \qquad R(p)^\top R(p) = I \end{gathered}
# $$ (eq-lie)
#
# On two axes this is relative exactly if the generators commute {cite}`liu2025rethinking`; training does not enforce that:
#
# $$
# \begin{gathered} {} [\mathcal{A}_y, \mathcal{A}_x] = 0 \quad \Longleftrightarrow \\
# R(p)^\top R(p') = R(p' - p) \\
# \text{for all } p, p' \in \mathbb{R}^2 \end{gathered}
# $$ (eq-lie-relative)
#
# Commuting exponents add. Conversely, if $R$ is relative, the positions $(-s, 0)$ and $(0, t)$ give $e^{s\mathcal{A}_y}
# e^{t\mathcal{A}_x} = R(s, t)$, and $(0, -t)$ and $(s, 0)$ the other order. Differentiate both by $s$ and $t$ at zero.

# %%
B = torch.randn(2, 4, 4)
A = A_y, A_x = B - B.mT
R = torch.stack([torch.matrix_exp(y * A_y + x * A_x) for y, x in p])
found = [lie_rotation(p, A), R.mT @ R]
agree("eq-lie", found, [R, torch.eye(4).expand(3, 4, 4)])

# %%
V, _ = torch.linalg.qr(torch.randn(4, 4))
quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
planes = [torch.kron(torch.diag(w), quarter) for w in torch.randn(2, 2)]
common = torch.stack([V @ turned @ V.T for turned in planes])
R = lie_rotation(p, common)
agree("eq-lie-relative", R[0].T @ R[1], R[2])
others = [lie_rotation(p, generators) for generators in (A, common + A / 1000)]
differs("eq-lie-relative", [R[0].T @ R[1] for R in others], [R[2] for R in others])

# %% [markdown]
# ## One turn, and the sphere
#
# The paper cites a study in which encodings that are not relative work as well as RoPE {cite}`vandegeijn2025circular`.
# **Uniform** RoPE (`uniform-rope`) has a single frequency, one turn across the image, which we take to mean $G$ tokens:
#
# $$
# \varphi(p) = \frac{2 \pi}{G} \, p \quad \Longrightarrow \quad R_{\varphi(\Delta)} = R_{\varphi(\Delta - G)}
# $$ (eq-uniform-rope)
#
# A query cannot distinguish its neighbor below from a patch $G - 1$ rows above.

# %%
uniform = create_encoding("uniform-rope", head_dim=6, heads=1, axes=1, grid=(rows,))
Δ = torch.tensor([0, 1, 1 - rows, 1.5 - rows])[:, None]  # four tokens, with G = rows
q, k = torch.randn(2, 6)
q_turned, k_turned = uniform(q.expand(1, 1, 4, 6), k.expand(1, 1, 4, 6), Δ)
_, below, above, between = k_turned[0, 0] @ q_turned[0, 0, 0]
score = q @ rotation_matrix(torch.full((3,), 2 * math.pi / rows)) @ k
agree("eq-uniform-rope", [below, above], [score, score])
differs("eq-uniform-rope", between, score)

# %% [markdown]
# **Spherical** RoPE (`spherical-rope`) rotates triplets of channels about two axes, first by the row, then by the
# column:
#
# $$
# \begin{gathered} z_j \mapsto Y(\omega_j^x \, p_x) \, T(\omega_j^y \, p_y) \, z_j, \\
# z_j \in \mathbb{R}^3, \qquad Y T \neq T \, Y \end{gathered}
# $$ (eq-spherical-rope)
#
# $T$ rotates the last two channels of a triplet, $Y$ the first two. Triplet $j$ of $m$ has the speeds $\omega_j^a =
# 10000^{-j/m} \cdot 2\pi / G_a$. A common shift $s$ of all positions splits into two factors:
#
# $$
# \begin{aligned} & Y(\omega_j^x (p_x + s_x)) \, T(\omega_j^y (p_y + s_y)) \\
# & \quad = Y(\omega_j^x s_x) \; Y(\omega_j^x p_x) \, T(\omega_j^y p_y) \; T(\omega_j^y s_y) \end{aligned}
# $$ (eq-spherical-shift)
#
# The left factor cancels in every score: spherical RoPE is relative along $x$. The right factor, a shift along $y$, is one
# fixed rotation of queries and keys, which the projections can absorb, except for a class token, which has no position.

# %%
speeds = 10000.0 ** (-torch.arange(2) / 2)  # of two triplets
speeds = speeds * 2 * math.pi / torch.tensor([[rows], [columns]])


def Y(angle):
    return torch.block_diag(rotation_matrix(angle[None]), torch.eye(1))


def T(angle):
    return torch.block_diag(torch.eye(1), rotation_matrix(angle[None]))


def E(y, x):
    return torch.block_diag(*(Y(w_x * x) @ T(w_y * y) for w_y, w_x in speeds.T))


# %%
spherical = create_encoding("spherical-rope", head_dim=6, heads=1, grid=(rows, columns))
q, k = torch.randn(2, 1, 1, 3, 6)
moved, _ = spherical(q, k, p)
ours = torch.stack([E(*at) @ z for at, z in zip(p, q[0, 0], strict=True)])
library = [moved[0, 0], spherical_rope(q, p, speeds)[0, 0]]
agree("eq-spherical-rope", library, [ours, ours])
Y_T, T_Y = E(0, 0.5) @ E(0.5, 0), E(0.5, 0) @ E(0, 0.5)
differs("eq-spherical-rope", Y_T, T_Y, 1e-3)

# %%
y, x, s_y, s_x = 0.5, 2.25, 1.25, -3.5
shifts = torch.tensor([[0, 0], [0, s_x], [s_y, 0], [s_y, s_x]])
home, across, below, both = (spherical.scores(q, k, p + shift) for shift in shifts)
turned = spherical.scores(q @ E(s_y, 0).T, k @ E(s_y, 0).T, p)
found = [E(y + s_y, x + s_x), across, below, both]
split = E(0, s_x) @ E(y, x) @ E(s_y, 0)
agree("eq-spherical-shift", found, [split, home, turned, turned])
differs("eq-spherical-shift", below, home)

# %% [markdown]
# ## Which offsets each encoding can single out
#
# The query is random, and the key is the one that answers it best at one offset. Where else does this key answer? With
# $E(p)$ for the matrix that encodes position $p$, the mean over random queries is a scalar product of two such matrices.

# %% tags=["hide-input"]
names = ["axial-rope", "mixed-rope", "uniform-rope", "spherical-rope", "lie"]
shape = {"head_dim": head_dim, "heads": 1}
with warnings.catch_warnings(action="ignore"):  # of aliasing, shown below
    asked = {
        name: create_encoding(
            name,
            grid=(rows, columns),
            **shape,
            **({"block": 8} if name == "lie" else {}),
        )
        for name in [*names, "roll", "torus-roll"]
    }
torus = (len(down), len(right))  # a channel for each offset
roomy = {"head_dim": math.prod(torus), "heads": 1, "sheet": torus}
asked[f"torus {torus[0]} × {torus[1]}"] = create_encoding("torus-roll", **roomy)


def matrices(encoding, positions: torch.Tensor) -> torch.Tensor:
    """E(p), whatever the encoding: [positions, channels, channels]."""
    unit = torch.eye(encoding.head_dim)[:, None, None]
    unit = unit.expand(-1, -1, len(positions), -1)
    with warnings.catch_warnings(action="ignore"):  # of aliasing: these are offsets
        moved, _ = encoding(unit, unit, positions)
    return moved[:, 0].permute(1, 2, 0)


target = (min(2, rows - 1), -min(3, columns - 1))
at_target = int((offsets == torch.tensor(target)).all(-1).nonzero())

# %%
answers = {}
print("offsets that answer as well as the target")
for name, encoding in asked.items():
    E = matrices(encoding.double().requires_grad_(False), offsets.double())
    answer = torch.einsum("tij,ij->t", E, E[at_target]) / encoding.head_dim
    answers[name] = answer.view(torus)
    print(f"{name:16} {(answer > 1 - 1e-9).sum():3}")

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-axes-maps", "caption": "Score of a key that fits best at the offset marked by a ring, against all other offsets; mean over random queries at the cross. Dark red is one, white zero, blue negative."}, "image": {"alt": "Eight maps of the score over offsets. Axial RoPE shows a broad red cross through the target. Mixed RoPE shows a red spot at the target with weaker oblique ripples. Uniform RoPE shows a coarse checkered pattern that repeats, equally red, at several places. Spherical RoPE shows a broad red area. LieRE shows a small spot. The roll with two rings shows two thin crossing lines. The torus with a small sheet shows isolated red points, the target and its repeats; the one that fits the grid shows the target alone."}}
titles = {
    "axial-rope": "axial RoPE",
    "mixed-rope": "mixed RoPE",
    "uniform-rope": "uniform RoPE",
    "spherical-rope": "spherical RoPE",
    "lie": "LieRE, blocks of 8",
    "roll": "roll, two rings",
    "torus-roll": "torus " + " × ".join(map(str, asked["torus-roll"].sheet)),
}
fig, axes = plt.subplots(4, 2, figsize=(4.8, 7.6), sharex=True, sharey=True)
for axis, (name, values) in zip(axes.flat, answers.items(), strict=True):
    figures.offset_map(values, axis, title=titles.get(name, name), limit=1, mark=target)
    axis.title.set_fontsize(9)
fig.supxlabel("Δx (patches)", fontsize=10)
fig.supylabel("Δy (patches)", fontsize=10)
plt.close(fig)
fig

# %% [markdown]
# Encodings whose score is a sum over axes answer along the whole row and column of the target. Uniform RoPE answers equally
# one image height or width away, a torus that is too small one sheet away. The rotary encodings blur the target into its
# neighbors, the rolls do not. Mixed RoPE and LieRE are untrained here.
#
# A torus that fits the grid answers at one point only, but needs a channel for each offset of a grid of $G_y$ by $G_x$
# patches:
#
# $$
# \begin{gathered} \#\{ (\Delta_y, \Delta_x) \} = (2 G_y - 1)(2 G_x - 1), \\
# n_a \ge 2 G_a - 1 \end{gathered}
# $$ (eq-grid-offsets)
#
# The second line is for the ring of axis $a$. Two rings need the sum of both bounds: 62 channels at 16 patches a side,
# where the torus needs 961.


# %%
def distinct(sheet):
    """How many offsets get a roll of their own on a sheet."""
    x = torch.arange(math.prod(sheet)).expand(len(offsets), -1)
    return len(torus_roll(x, offsets, sheet).unique(dim=0))


short = torus[0], torus[1] - 1  # one channel too few in each row
found = [len(offsets), distinct(torus), distinct(short)]
agree("eq-grid-offsets", found, [math.prod(torus), math.prod(torus), math.prod(short)])

# %% [markdown]
# ## Another resolution
#
# A side of an image has $G$ patches in training and may have $G'$ afterwards. Offsets beyond the training grid are new to
# the model, unless every patch keeps its place in the picture:
#
# $$
# p \mapsto \bigl( p + \tfrac12 \bigr) \, \frac{G}{G'} - \tfrac12
# $$ (eq-resolution)
#
# Positions are then fractions, which need the continuous roll of {doc}`Ch. 6 <06-continuous>`.

# %%
G, finer = torch.tensor([rows, columns]), (2 * rows, 3 * columns)
fine = grid_positions(*finer).double()
squeezed = (fine + 0.5) * G / torch.tensor(finer) - 0.5
middles = squeezed.view(rows, 2, columns, 3, 2).mean((1, 3)).flatten(0, 1)
library = scale_positions(fine, finer, (rows, columns))
same = scale_positions(positions, (rows, columns), (rows, columns))
agree("eq-resolution", [library, middles, same], [squeezed, positions, positions])

# %% [markdown]
# ## Several waves: a fair control
#
# In the paper's table multiplexed RollPE reaches 73.4 and RollPE 72.1 {cite}`rollpe`. Is it the speeds of its $W$ waves,
# {eq}`eq-multiplexed`? On a ring whose length shares no factor with $w$, the speed of a single wave is an order of its
# channels, which projections can learn:
#
# $$
# \begin{gathered} S^{w} = P^\top S \, P, \qquad (P x)_i = x_{w i \bmod n}, \\
# \gcd(w, n) = 1 \end{gathered}
# $$ (eq-wave-relabel)
#
# Only the cross terms of {eq}`eq-multiplexed-split` are new. But the logits grow. With independent entries of mean 0 and
# variance 1,
#
# $$
# \operatorname{Var}\!\left[ \frac{\mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k)}{\sqrt n} \right] = W^2
# $$ (eq-multiplexed-variance)
#
# Eq. 12 of the paper has no factor that would undo this; the library offers $1/W$ as `scale="sqrt"`. The model grows as
# well, in $L$ blocks of width $D$ by two projections for every wave beyond the first:
#
# $$
# \Delta_{\text{parameters}} = 2 L (W - 1) (D^2 + D)
# $$ (eq-multiplexed-parameters)

# %% tags=["hide-input"]
sizes = (1, 2), (2, 3), (8, 3), (9, 20), (31, 2), (31, 4)  # n and w
orders = [torch.eye(m)[w * torch.arange(m) % m] for m, w in sizes]  # each P
powers = [torch.eye(m).roll(w, 1) for m, w in sizes]  # S^w: ones at i and i + w
agree("eq-wave-relabel", powers, [P.T @ shift_matrix(len(P)) @ P for P in orders])


# %% tags=["hide-input"]
def variance(waves, n):
    """Of the logit: the sum of its squared coefficients."""
    unit = torch.eye(waves * n).unflatten(-1, (waves, n))  # each entry alone
    logits = multiplexed_roll(unit, -3) @ multiplexed_roll(unit, 8).T / n**0.5
    return logits.square().sum()


sizes = (1, 8), (2, 31), (3, 6), (3, 2), (4, 1), (waves, 31)
found = [variance(*size) for size in sizes]
agree("eq-multiplexed-variance", found, [W**2 for W, _ in sizes])

# %%
from rollpe.vit import create_vit

L, D = 12, 384  # a ViT-S
with torch.device("meta"):
    plain = create_vit("roll")
    larger = create_vit("multiplexed-roll", encoding_options={"waves": waves})
plain, larger = (sum(x.numel() for x in m.parameters()) for m in (plain, larger))
print(f"a ViT-S has {plain:,} parameters with RollPE, {larger:,} with {waves} waves")
agree("eq-multiplexed-parameters", larger - plain, 2 * L * (waves - 1) * (D**2 + D))

# %% [markdown]
# To change only the speeds, let all $W$ projections travel at the *same* speed:
#
# $$
# \begin{aligned} & \sum_{w} \mathrm{Roll}_{p}\bigl( W_Q^{(w)} x \bigr) \\
# & \quad = \mathrm{Roll}_{p}\Bigl( \bigl( \textstyle\sum_{w} W_Q^{(w)} \bigr) x \Bigr) \end{aligned}
# $$ (eq-multiplexed-control)
#
# This control (`speeds=[1,1]`) has as many parameters and equally large logits, but it is relative.

# %%
q = torch.randn(1, 1, len(positions), waves * head_dim)  # all waves of each token
speeds = {"speeds": (1,) * waves}, {}  # the same for all waves, and different ones
both = [create_encoding("multiplexed-roll", waves=waves, **s, **shape) for s in speeds]
control, other = (encoding(q, q, positions)[0] for encoding in both)
of_sum = axial_roll(q.unflatten(-1, (waves, head_dim)).sum(-2), positions.long())
agree("eq-multiplexed-control", control, of_sum)
differs("eq-multiplexed-control", other, of_sum, 1e-3)

# %% [markdown]
# On digits RollPE reaches 95.6 %, the control 94.2 %, and multiplexed RollPE 96.4 %; the difference of the last two is
# open. After ten epochs of CIFAR-100 the three reach 39.5, 35.5 and 37.5 %; both differences are open. With the logits
# divided by $W$ multiplexed RollPE reaches 40.6 % there, and each of these runs is above every run without the factor. The
# scale of the logits explains the deficit better than the cross terms do ({doc}`Ch. 9 <09-results>`).

# %% tags=["hide-input"]
from rollpe_lab.evidence.words import least, means, most, verdict

waved, equal = "multiplexed-roll", "multiplexed-roll@speeds=[1,1]"
# RollPE, the control and multiplexed RollPE on digits and on photographs
reached = {
    data: means(*(f"{data}/{arm}" for arm in ("roll", equal, waved)))
    for data in ("quick", "mini")
}
assert reached == {"quick": [95.6, 94.2, 96.4], "mini": [39.5, 35.5, 37.5]}
# With logits divided by W each run is above every run without.
scaled = "mini/multiplexed-roll@scale=sqrt"
assert means(scaled) == [40.6] and least(scaled) > most(f"mini/{waved}")
pairs = (f"quick/{waved}", f"quick/{equal}"), (f"mini/{waved}", f"mini/{equal}")
pairs += (f"mini/{waved}", "mini/roll"), (f"mini/{waved}", scaled)
# All differences are open after the correction.
assert {verdict(*pair) for pair in pairs} == {"open"}

# %% [markdown]
# ## Exercise
#
# ```{exercise}
# :label: exercise-multiplexed-speed
# The control expresses the functions of RollPE. Does it train in the same way? Take one step of Adam on a summed
# projection and on a plain one.
# ```
#
# ```{solution} exercise-multiplexed-speed
# :class: dropdown
# No. All $W$ projections receive one gradient, so each takes the step of the plain one, and their sum moves $W$ times as
# far. Part of what the control gains or loses over RollPE may be its learning rate.
# ```

# %% tags=["hide-cell"]
x, target, start = torch.randn(3, 5, 5)
moves = []
for copies in (1, waves):
    projections = [torch.nn.Parameter(start / copies) for _ in range(copies)]
    (x @ sum(projections) - target).square().mean().backward()
    torch.optim.Adam(projections, lr=1e-3).step()
    moves.append((sum(projections) - start).detach())
agree("the sum moves W times as far", moves[1], waves * moves[0])
