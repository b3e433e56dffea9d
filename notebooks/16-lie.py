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
# # Two axes, and waves on a torus
#
# A ring has one direction, an image has two. The paper's solution takes one sentence: as in axial RoPE, each coordinate
# acts on its own part of the query {cite}`rollpe,heo2024rotary`. So half of the channels roll by the row of a patch,
# the other half by its column. This page asks what such a split can express:
#
# - **It adds.** The score is a function of the row offset plus a function of the column offset. No sum can single out a
#   diagonal.
# - **It is cheap.** Each ring needs only $2G-1$ channels for $G$ patches a side.
# - **A torus of channels, rolled in both directions at once, expresses everything**, and needs a channel for every
#   offset.
#
# The rotary encodings face the same choice; the second half of the page compares them.

# %% tags=["parameters"]
rows: int = 6  # patches from top to bottom [2..14]
columns: int = 8  # patches from left to right [2..14]
head_dim: int = 64  # channels of one head, a multiple of 8 [16..128 step 8]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math
import textwrap
import warnings

import matplotlib.pyplot as plt
import torch

from rollpe.encodings import create_encoding, grid_positions, scale_positions
from rollpe.errors import InputError
from rollpe.operators import axial_roll, roll, rotate_pairs, torus_roll
from rollpe.textbook import lie_rotation, mixed_angles, rope, rotation_matrix
from rollpe_book import figures
from rollpe_book.agree import agree, gap

figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## A ring for each axis
#
# Cut the channels of a head into two halves. Roll one by the row of the token, the other by its column. Channels that
# belong to neither ring stay where they are:
#
# $$
# \mathrm{Roll}_{(y, x)}(q) = S_n^{\,y} \, q^{(y)} \oplus S_n^{\,x} \, q^{(x)} \oplus q^{\text{rest}}
# $$ (eq-axial-roll)
#
# By hand: a head of seven channels, with three for each axis, and a token in row 1, column 2.

# %%
q = torch.tensor([[1, 2, 3, 10, 20, 30, 7]])
print("at (0, 0):", q[0].tolist())
print("at (1, 2):", axial_roll(q, torch.tensor([[1, 2]]))[0].tolist())

# %% [markdown]
# Each half keeps its own offset, and the score is a sum:
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) \\
# & \quad = q^{(y)\top} S^{\,\Delta_y} k^{(y)} + q^{(x)\top} S^{\,\Delta_x} k^{(x)} \\
# & \quad + q^{\text{rest}\top} k^{\text{rest}} \end{aligned}
# $$ (eq-axial-score)

# %%
positions = grid_positions(rows, columns).long()  # (row, column) of each token
q, k = torch.randn(2, len(positions), head_dim)
score = axial_roll(q, positions) @ axial_roll(k, positions).T
shift = torch.tensor([5, -3])
moved = axial_roll(q, positions + shift) @ axial_roll(k, positions + shift).T
agree("a common shift changes nothing", moved, score)
agree("one token at the origin", axial_roll(k, positions) @ q[0], score[0])

# %% [markdown]
# The last check also explains the class token. It has no position and is never rolled, so it behaves like a token in
# the upper left corner:
#
# $$
# \begin{gathered} q_{\text{cls}}^\top \, \mathrm{Roll}_{p}(k) = \mathrm{Roll}_{0}(q_{\text{cls}})^\top \, \mathrm{Roll}_{p}(k), \\
# \text{so its score sees the absolute } p \end{gathered}
# $$ (eq-class-token)
#
# A model that pools by the class token therefore has access to absolute position, with every encoding on this page.
# Among patches the scores remain relative.
#
# The cut into axes comes after the cut into heads. If the whole token is rolled first, channels move from one head, or
# from one axis, to the next, as in {eq}`eq-heads`.

# %%
heads, row = 2, 3
owner = torch.arange(heads).repeat_interleave(head_dim)  # whose channel is it?
whole = torch.roll(owner, -row)
split = create_encoding("roll", head_dim=head_dim, heads=heads)
x = owner.view(1, heads, 1, -1)
inside = split(x, x, torch.tensor([[row, row]]))[0].flatten()
for name, x in (("before the split", whole), ("inside each head", inside)):
    wrong = (x != owner).sum()
    print(f"rolled {name}: {wrong} of {len(owner)} channels in the wrong head")
assert torch.equal(inside, owner) and (whole != owner).sum() == heads * row

# %% [markdown]
# ## What a sum cannot express
#
# For one query and one key, the score over all offsets is a function of the row plus a function of the column. Such
# functions are tied at the corners of every rectangle:
#
# $$
# \begin{gathered} c(\Delta_y, \Delta_x) = f(\Delta_y) + g(\Delta_x) \quad \Longrightarrow \\
# c(a, b) + c(a', b') = c(a', b) + c(a, b') \end{gathered}
# $$ (eq-axial-additive)
#
# This excludes the exclusive or: no sum is large "up and left" and "down and right" but small at the other two corners.
# The softmax turns the sum into a product, and the statement becomes sharper.
#
# ```{prf:proposition}
# :label: prop-axial-half
# Let all keys be equal. An axial head then gives two opposite corners of a rectangle of offsets at most half of its
# attention, if it gives both the same.
# ```
#
# ```{prf:proof}
# The weights are $P(\Delta_y, \Delta_x) \propto e^{f(\Delta_y)} e^{g(\Delta_x)}$, so that $P(a,b) \, P(a',b') = P(a,b')
# \, P(a',b)$. If the left-hand factors both equal $m$, the right-hand ones have the product $m^2$ and hence at least
# the sum $2m$. All four together are at least $4m$ and at most 1.
# ```
#
# A single oblique offset is possible: let $f$ peak at its row and $g$ at its column. Lines are not. Ask for a score of
# one along the diagonal and zero elsewhere.

# %%
down = torch.arange(1 - rows, rows)
right = torch.arange(1 - columns, columns)
offsets = torch.cartesian_prod(down, right)
desired = (offsets[:, 0] == offsets[:, 1]).double().view(len(down), len(right))
f = desired.mean(dim=1)
g = desired.mean(dim=0) - desired.mean()
best = f[:, None] + g  # least squares on a full rectangle

rings = {"head_dim": 2 * max(len(down), len(right)), "heads": 1}
n = rings["head_dim"] // 2
q, k = torch.zeros(2, 2 * n)
q[0] = q[n] = 1
k[down % n], k[n + right % n] = f, g
made = axial_roll(k.expand(len(offsets), -1), offsets) @ q
agree("the best axial score, on two rings", made, best.flatten())
left_over = (desired - best).square().sum() / (desired - desired.mean()).square().sum()
print(f"it explains {1 - left_over:.1%} of the desired score")
rank = torch.linalg.matrix_rank(desired)
print(f"rank of the desired score: {rank}; of one axial head's attention: 1")

# %% [markdown]
# ## A wave on a sheet
#
# Without the cut there is no such limit. Lay the channels out as a sheet of $h \times w$, glue its opposite edges, and
# roll it in both directions at once:
#
# $$
# \mathrm{Roll}_{(y, x)}(q) = \bigl( S_h^{\,y} \otimes S_w^{\,x} \bigr) \, q, \qquad q \in \mathbb{R}^{h w}
# $$ (eq-torus)
#
# Every channel now depends on both coordinates. The sheet is a torus, and what travels on it is a wave in two
# dimensions. The paper ends with the wish for waves on richer shapes than a circle; this is the nearest one.

# %%
sheet = torch.arange(12)
print("at (0, 0):", sheet.view(3, 4).tolist())
moved = torus_roll(sheet, torch.tensor([1, 2]), (3, 4))
print("at (1, 2):", moved.view(3, 4).tolist())

# %% [markdown]
# Rolls in the two directions commute, so the score is relative in both:
#
# $$
# \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) = q^\top \bigl( S_h^{\,\Delta_y} \otimes S_w^{\,\Delta_x} \bigr) k
# $$ (eq-torus-score)
#
# It is also complete, meaning that it can be any function of the offset: a one in the corner of the query's sheet
# selects the key's channel at the offset.
#
# $$
# \begin{gathered} q = e_{(0,0)},\ k = f \quad \Longrightarrow \\
# \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) = f_{(\Delta_y \bmod h,\; \Delta_x \bmod w)} \end{gathered}
# $$ (eq-torus-complete)

# %%
torus = (len(down), len(right))  # one channel for each offset
corner, k = torch.zeros(2, *torus)
corner[0, 0] = 1
k[down[:, None] % torus[0], right % torus[1]] = desired
keys = torus_roll(k.flatten().expand(len(offsets), -1), offsets, torus)
on_torus = (keys @ corner.flatten()).view(torus)
agree(f"the diagonal, on {torus[0]} × {torus[1]} channels", on_torus, desired)

q, k = torch.randn(2, len(positions), math.prod(torus))
scores = []
for p in (positions, positions + shift):
    scores.append(torus_roll(q, p, torus) @ torus_roll(k, p, torus).T)
agree("a common shift changes nothing", *scores, tolerance=1e-11)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-axes-diagonal", "caption": "A desired score over all offsets between two patches, the nearest axial score, and the score of a torus. White is zero, dark red one; the cross marks offset zero."}, "image": {"alt": "Three maps of the score against horizontal and vertical offset. The desired score is a dark diagonal line on a white ground. The best axial score is a pale, almost uniform wash with no line in it. The torus shows exactly the desired line."}}
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.5), sharey=True)
panels = {"desired": desired, "best two rings": best, "torus": on_torus}
for axis, (name, values) in zip(axes, panels.items(), strict=True):
    figures.offset_map(values, axis, title=name, limit=1)
    axis.set_xlabel("Δx (patches)")
axes[0].set_ylabel("Δy (patches)")
plt.close(fig)
fig

# %% [markdown]
# The middle panel of {numref}`fig-axes-diagonal` is the best that two rings can do. It does not even hint at the line.
#
# ## How many channels?
#
# Rings and sheets count offsets modulo their length, so they need as many channels as there are offsets to distinguish.
# On a grid of $G_y$ by $G_x$ patches this number is
#
# $$
# \begin{gathered} \#\{ (\Delta_y, \Delta_x) \} = (2 G_y - 1)(2 G_x - 1), \\
# n_a \ge 2 G_a - 1 \end{gathered}
# $$ (eq-grid-offsets)
#
# The second line is the bound for the ring of each axis $a$. Two rings need the sum of both bounds, a torus their
# product. We count for square grids, with common head widths.


# %% tags=["hide-input"]
def told_apart(G: int, width: int, kind: str) -> int:
    """How many signed offsets of a G × G grid a head tells apart."""
    delta = torch.arange(1 - G, G)
    every = torch.cartesian_prod(delta, delta)
    x = torch.arange(width).expand(len(every), -1)
    encoding = create_encoding(kind, head_dim=width, heads=1)
    with warnings.catch_warnings(action="ignore"):  # of aliasing, which is counted
        moved, _ = encoding(x[None, None], x[None, None], every)
    return len(moved[0, 0].unique(dim=0))


widths = (32, 60, 64)
print("               channels needed   told apart by heads of 32, 60, 64")
print("grid offsets   rings    torus    rings             torus")
for G in (8, 14, 16):
    side = 2 * G - 1
    rings = [told_apart(G, width, "roll") for width in widths]
    tori = [told_apart(G, width, "torus-roll") for width in widths]
    print(f"{G:2}²{side**2:9}{2 * side:8}{side**2:9}    {rings!s:17} {tori}")
    assert rings[2] == side**2, "two rings of 32 channels suffice"
assert rings[1] == 900 < side**2, "rings of 30 fail at 16 patches a side"

# %% [markdown]
# So both have a price. Two rings of 32 channels suffice for every grid up to 16 patches a side, but express only sums.
# A torus expresses everything, but in a head of 64 channels it is a sheet of $8 \times 8$, which confuses offsets on
# any grid of more than four patches a side: one patch to the left has the same code as seven to the right. The library
# warns when an encoding is too small for its grid.
#
# ```{wave} axes
# :name: wave-axes
# The same 64 channels as two rings and as one sheet, moved by the offset of two patches. All hold one bump, which
# travels against the token; gray is the bump before it. Right, or below on a narrow page: the score of the two, for all
# offsets on a grid of $8 \times 8$. Two scores that are added make a cross. The torus has one spot, and the same spot
# again eight patches on.
# ```

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    create_encoding("roll", head_dim=60, heads=1, grid=(14, 16))
for warning in caught:
    print(textwrap.fill(str(warning.message), 76))
assert len(caught) == 1

# %% [markdown]
# ## The rotary family on two axes
#
# RoPE faced the same question earlier. Its **axial** form (`axial-rope`) makes the same cut: half of the pairs rotate
# with the row, the other half with the column.
#
# $$
# \begin{gathered} \varphi_i(p) = \theta_i \, p_y, \qquad \varphi_{m+i}(p) = \theta_i \, p_x, \\
# i = 0, \dots, m-1 \end{gathered}
# $$ (eq-axial-rope)
#
# It is additive, like every encoding that cuts. **Mixed** RoPE (`mixed-rope`) {cite}`heo2024rotary` learns a vector
# $\omega_i$ for each pair. The pair is then a plane wave that runs in that direction:
#
# $$
# \begin{gathered} \varphi_i(p) = \langle \omega_i, p \rangle, \\
# R_{\varphi(p)}^\top R_{\varphi(p')} = R_{\varphi(p' - p)} \end{gathered}
# $$ (eq-mixed-rope)
#
# Its angles are linear in the position, so it is relative, and oblique waves make it more than additive. In this it
# resembles the torus, whose Fourier modes are plane waves, too, with fixed directions.
#
# **LieRE** (`lie`) {cite}`ostmeier2024liere` replaces pairs by larger blocks, and angles by learned skew-symmetric
# matrices:
#
# $$
# \begin{gathered} R(p) = \exp\Bigl( \sum_a p_a \mathcal{A}_a \Bigr), \\
# \mathcal{A}_a^\top = -\mathcal{A}_a, \qquad R(p)^\top R(p) = I \end{gathered}
# $$ (eq-lie)
#
# On one axis this is relative. On two axes it is relative exactly if the generators commute {cite}`liu2025rethinking`,
# and nothing in training enforces that:
#
# $$
# \begin{gathered} {} [\mathcal{A}_y, \mathcal{A}_x] = 0 \quad \Longleftrightarrow \\
# R(p)^\top R(p') = R(p' - p) \\
# \text{for all } p, p' \in \mathbb{R}^2 \end{gathered}
# $$ (eq-lie-relative)
#
# One direction holds because commuting exponents may be added. For the other, let $R$ be relative. The positions $(-s,
# 0)$ and $(0, t)$ then give $e^{s\mathcal{A}_y} e^{t\mathcal{A}_x} = R(s, t)$, and $(0, -t)$ and $(s, 0)$ give
# $e^{t\mathcal{A}_x} e^{s\mathcal{A}_y} = R(s, t)$. Differentiating both by $s$ and by $t$ at zero leaves
# $\mathcal{A}_y \mathcal{A}_x = \mathcal{A}_x \mathcal{A}_y$.

# %%
p = grid_positions(rows, columns).double()
m = 4
theta, x = torch.rand(m), torch.randn(len(p), 4 * m)
omega = torch.zeros(2 * m, 2)
omega[:m, 0] = omega[m:, 1] = theta
by_row = rope(x[:, : 2 * m], p[:, 0], theta)
by_column = rope(x[:, 2 * m :], p[:, 1], theta)
turned = rotate_pairs(x, mixed_angles(p, omega))
agree("axial RoPE, as mixed RoPE", turned, torch.cat((by_row, by_column), -1))

omega = torch.randn(m, 2)
pair = torch.stack((p[1], p[-1], p[-1] - p[1]))
here, there, between = map(rotation_matrix, mixed_angles(pair, omega))
agree("mixed RoPE is relative", here.T @ there, between)

B = torch.randn(2, 4, 4)
here, there, between = lie_rotation(pair, B - B.mT)
agree("LieRE rotates", here.T @ here, torch.eye(4))
miss = gap(here.T @ there, between)
print(f"LieRE, random generators: R(p)ᵀR(p') is off R(p' - p) by {miss:.2f}")
assert miss > 1e-3

# %% [markdown]
# Two more come from a sister paper, by nearly the same authors, that asks how much of all this is needed
# {cite}`vandegeijn2025circular`.
#
# **Uniform** RoPE (`uniform-rope`) is axial with a single frequency, one turn across the image. We take this to mean
# $G$ tokens per turn. (The sister paper places the patches evenly from $-\pi$ to $\pi$, which would give the first and
# the last one the same angle.) Even so, an offset and its complement get the same code:
#
# $$
# \varphi(p) = \frac{2 \pi}{G} \, p \quad \Longrightarrow \quad R_{\varphi(\Delta)} = R_{\varphi(\Delta - G)}
# $$ (eq-uniform-rope)
#
# One patch down is $G - 1$ patches up, so a query cannot distinguish its neighbor below from a patch at the far end
# above.
#
# **Spherical** RoPE (`spherical-rope`) rotates triplets of channels about two axes, first by the row, then by the
# column:
#
# $$
# \begin{gathered} z_j \mapsto Y(\omega_j^x \, p_x) \, T(\omega_j^y \, p_y) \, z_j, \\
# z_j \in \mathbb{R}^3, \qquad Y T \neq T \, Y \end{gathered}
# $$ (eq-spherical-rope)
#
# Here $T$ rotates the last two channels of a triplet, and $Y$ the first two. (The sister paper calls $T$ a roll and
# writes $R$; both names are taken.) Triplet $j$ of $m$ has the speeds $\omega_j^a = 10000^{-j/m} \cdot 2\pi / G_a$, so
# triplet 0 makes one full turn across either axis.
#
# The two rotations do not commute, on purpose: the sister paper wants an encoding that is not relative. How far is it
# from relative? A common shift $s$ of all positions splits into two factors:
#
# $$
# \begin{aligned} & Y(\omega_j^x (p_x + s_x)) \, T(\omega_j^y (p_y + s_y)) \\
# & \quad = Y(\omega_j^x s_x) \; Y(\omega_j^x p_x) \, T(\omega_j^y p_y) \; T(\omega_j^y s_y) \end{aligned}
# $$ (eq-spherical-shift)
#
# The left factor is the same for all queries and keys and cancels in every score, so spherical RoPE is exactly relative
# along $x$. The right factor is the same for all as well, but acts on the contents first: a shift along $y$ is one
# fixed rotation of queries and keys, which the projections can absorb. Among patches it therefore makes no difference
# to what can be learned where the image begins. With a class token it does.

# %% tags=["hide-input"]
names = ["axial-rope", "mixed-rope", "uniform-rope", "spherical-rope", "lie"]
names += ["roll", "torus-roll", "multiplexed-roll"]
size = {"head_dim": head_dim, "heads": 1}
turns = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of aliasing, which the next figure shows
    for name in names:
        options = {"block": 8} if name == "lie" else {}
        encoding = create_encoding(name, grid=(rows, columns), **size, **options)
        turns[name] = encoding.double().requires_grad_(False)

shifts = {"home": (0.0, 0.0), "right": (0.0, 3.0), "down": (3.0, 0.0)}
print("a shift changes the scores by   3 right     3 down   relative")
for name, encoding in turns.items():
    q, k = torch.randn(2, 1, 1, len(p), encoding.streams * head_dim)
    scores = [encoding.scores(q, k, p + torch.tensor(s)) for s in shifts.values()]
    right_by, down_by = (gap(x, scores[0]) for x in scores[1:])
    print(f"{name:28} {right_by:10.1e} {down_by:10.1e}   {encoding.relative}")
    assert (max(right_by, down_by) < 1e-11) == encoding.relative
    assert name != "spherical-rope" or right_by < 1e-11 < down_by

# %% [markdown]
# ## Which offsets each encoding can single out
#
# We give every encoding the same task. The query is random, and the key is the one that answers it best at one offset,
# marked by a ring in {numref}`fig-axes-maps`. At which other offsets does this key answer, too? With $E(p)$ for the
# matrix that encodes position $p$, the mean over random queries is a scalar product of two such matrices, so it can be
# computed exactly.


# %% tags=["hide-input"]
def matrices(encoding, positions: torch.Tensor) -> torch.Tensor:
    """E(p), whatever the encoding: [positions, channels, channels]."""
    unit = torch.eye(encoding.head_dim)[:, None, None]
    unit = unit.expand(-1, -1, len(positions), -1)
    with warnings.catch_warnings(action="ignore"):  # of aliasing: these are offsets
        moved, _ = encoding(unit, unit, positions)
    return moved[:, 0].permute(1, 2, 0)


target = (min(2, rows - 1), -min(3, columns - 1))
at_target = int((offsets == torch.tensor(target)).all(-1).nonzero())
roomy = {"head_dim": math.prod(torus), "heads": 1, "sheet": torus}
asked = {name: turns[name] for name in names if name != "multiplexed-roll"}
asked[f"torus {torus[0]} × {torus[1]}"] = create_encoding("torus-roll", **roomy)
answers = {}
print("offsets that answer as well as the target, and the mean answer")
for name, encoding in asked.items():
    E = matrices(encoding, offsets.double())
    answer = torch.einsum("tij,ij->t", E, E[at_target]) / encoding.head_dim
    answers[name] = answer.view(len(down), len(right))
    as_good = (answer > 1 - 1e-9).sum()
    print(f"{name:16} {as_good:3} {answer.mean():8.3f}")
    assert abs(answer[at_target] - 1) < 1e-11

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-axes-maps", "caption": "Score of a key that fits best at the offset marked by a ring, against all other offsets; mean over random queries at the cross. Dark red is one, white zero, blue negative."}, "image": {"alt": "Eight maps of the score over offsets. Axial RoPE shows a broad red cross through the target. Mixed RoPE shows a red spot at the target with weaker oblique ripples. Uniform RoPE shows a coarse checkered pattern that repeats, equally red, at several places. Spherical RoPE shows a broad red area. LieRE shows a small spot. The roll with two rings shows two thin crossing lines. The torus with a small sheet shows isolated red points, the target and its repeats; the one that fits the grid shows the target alone."}}
titles = {
    "axial-rope": "axial RoPE",
    "mixed-rope": "mixed RoPE",
    "uniform-rope": "uniform RoPE",
    "spherical-rope": "spherical RoPE",
    "lie": "LieRE, blocks of 8",
    "roll": "roll, two rings",
    "torus-roll": "torus " + " × ".join(map(str, turns["torus-roll"].sheet)),
}
fig, axes = plt.subplots(2, 4, figsize=(7.6, 3.4), sharex=True, sharey=True)
for axis, (name, values) in zip(axes.flat, answers.items(), strict=True):
    figures.offset_map(values, axis, title=titles.get(name, name), limit=1, mark=target)
    axis.title.set_fontsize(9)
fig.supxlabel("Δx (patches)", fontsize=10)
fig.supylabel("Δy (patches)", fontsize=10)
plt.close(fig)
fig

# %% [markdown]
# Look for three things in {numref}`fig-axes-maps`:
#
# - *Crosses* are additive encodings: they answer along the whole row and column of the target.
# - *Repeats* are aliases: uniform RoPE answers equally one image height or width away, and a torus that is too small
#   one sheet away.
# - *Width* is smoothness: the rotary encodings blur the target into its neighbors, the rolls do not. A torus that fits
#   the grid answers at one point only.
#
# Mixed RoPE and LieRE are learned; here they are untrained, with random frequencies and generators.
#
# For spherical RoPE the mean over queries hides that it is not relative. (For LieRE it does not: its panel holds for a
# query at the origin.) For a single query and key, spherical RoPE gives a map that depends on where the pair is.

# %%
q, k = torch.randn(2, head_dim)
maps = []
spherical = turns["spherical-rope"]
for place in shifts.values():
    place = torch.tensor(place)
    E = matrices(spherical, torch.cat((place[None], place + offsets)))
    score = E[1:] @ k @ (E[0] @ q) / math.sqrt(head_dim)
    maps.append(score.view(len(down), len(right)))
home, across, below = maps
agree("moved right, the same map", across, home)

fixed = matrices(spherical, torch.tensor([[3.0, 0.0]]))[0]
E = matrices(spherical, offsets.double())
absorbed = E @ (fixed @ k) @ (fixed @ q) / math.sqrt(head_dim)
agree("moved down, contents turned once", below.flatten(), absorbed)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-axes-spherical", "caption": "Spherical RoPE: the score of one query and one key over their offset, and how it changes when the pair moves. Red is positive, blue negative; all three share one scale."}, "image": {"alt": "Three maps over offsets. The first is a smooth blue and white pattern. The second, the change when the pair moves three patches to the right, is blank. The third, the change when it moves three patches down, is a smooth pattern of red and blue."}}
limit = home.abs().max().item()
panels = {
    "query at the origin": home,
    "change, 3 right": across - home,
    "change, 3 down": below - home,
}
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.5), sharey=True)
for axis, (name, values) in zip(axes, panels.items(), strict=True):
    figures.offset_map(values, axis, title=name, limit=limit)
    axis.set_xlabel("Δx (patches)")
axes[0].set_ylabel("Δy (patches)")
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-axes-spherical` moving the pair right changes nothing. Moving it down changes the map.
#
# ## Another resolution
#
# A model may meet images larger than those it was trained on. Rolls can go on counting: more patches, more offsets,
# until the ring is full. Let a side have $G$ patches in training and $G'$ afterwards. Offsets beyond the training grid
# are new to the model. Once $2G' - 1$ exceeds $n$, some of them share a code; once $G + G' - 2$ reaches $n$, some share
# it with offsets from training. The alternative is to let every patch keep its place in the picture:
#
# $$
# p \mapsto \bigl( p + \tfrac12 \bigr) \, \frac{G}{G'} - \tfrac12
# $$ (eq-resolution)
#
# Patches are then closer than one step, and positions are fractions. A permutation of channels cannot follow them; the
# continuous roll can.

# %% tags=["hide-input"]
finer = (2 * rows, 2 * columns)
built = (rows, columns)
squeezed = scale_positions(grid_positions(*finer).double(), finer, built)
middles = squeezed.view(rows, 2, columns, 2, 2).mean((1, 3)).flatten(0, 1)
agree("four small patches around each old one", middles, p)
on_sheet = squeezed.view(*finer, 2)
half = torch.eye(2) / 2  # half a step along an axis, none across it
agree(
    "evenly, downward",
    on_sheet.diff(dim=0),
    half[0].expand(2 * rows - 1, 2 * columns, 2),
)
agree(
    "evenly, to the right",
    on_sheet.diff(dim=1),
    half[1].expand(2 * rows, 2 * columns - 1, 2),
)

q, k = torch.randn(2, 1, 1, len(squeezed), head_dim)
try:
    turns["roll"].scores(q, k, squeezed)
except InputError as error:
    print(textwrap.fill(str(error), 76))
else:
    raise AssertionError("a permutation took half a step")

continuous = create_encoding("continuous-roll", nyquist="odd", **size).double()
q, k = torch.randn(2, 1, 1, 1, head_dim)
q, k = (x.expand(-1, -1, 2, -1) for x in (q, k))
two = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
coarse = continuous.scores(q, k, two)
fine = continuous.scores(q, k, scale_positions(2 * two, finer, built))
agree("the same two places, the same scores", fine, coarse)

# %% [markdown]
# ```{admonition} In short
# :class: tip
# - One ring for each axis is relative and cheap, but its scores are sums, and a sum cannot single out a line that is
#   not along an axis.
# - A torus of channels can express any function of the offset, at the price of one channel for each offset of the grid.
# - Count offsets before choosing widths: $2G-1$ per axis.
# - Mixed RoPE is relative and has oblique waves. Spherical RoPE is less absolute than it looks. Uniform RoPE determines
#   an offset only up to the size of the image.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-axes-raster
# Why not number the patches in reading order and use one ring? Count the offsets that remain distinct however long the
# ring is, and name two that collide.
# ```
#
# ```{solution} exercise-axes-raster
# :class: dropdown
# The number of a patch is $C y + x$ for $C$ columns, so that an offset becomes $C \Delta_y + \Delta_x$. One row down
# and one column left is then the same as $C - 1$ columns right: the end of a row touches the start of the next. Of
# $(2R-1)(2C-1)$ offsets $2RC - 1$ are left.
# ```

# %% tags=["hide-cell"]
reading_order = columns * offsets[:, 0] + offsets[:, 1]
distinct = len(reading_order.unique())
print(f"{len(offsets)} offsets, {distinct} in reading order")
assert distinct == 2 * rows * columns - 1
assert columns * 1 + -1 == columns * 0 + (columns - 1)

# %% [markdown]
# ```{exercise}
# :label: exercise-axes-corner
# Two rings can single out *one* oblique offset, if the scores are large. Write down a query and a key,
# and find how large they must be for nine tenths of the attention. Then test {prf:ref}`prop-axial-half` with
# two opposite corners.
# ```
#
# ```{solution} exercise-axes-corner
# :class: dropdown
# Let $f$ and $g$ be $t$ at the wanted row and column and zero elsewhere. The wanted offset has the score
# $2t$, its row and column $t$, all others zero. With $R$ rows and $C$ columns of patches its share is
# $e^{2t} / ((e^t + R - 1)(e^t + C - 1))$, for any query that has a patch at the wanted offset. Give $f$ and $g$ two
# peaks each, and four corners share the attention.
# ```

# %% tags=["hide-cell"]
R, C = rows, columns
t = torch.linspace(0, 12, 1201)
share = torch.exp(2 * t) / ((torch.exp(t) + R - 1) * (torch.exp(t) + C - 1))
enough = t[share > 0.9][0].item()
seen_down = torch.arange(R) - R // 2  # what a query in the middle sees
seen_right = torch.arange(C) - C // 2
far_up, far_left = (seen_down == seen_down[0]), (seen_right == seen_right[0])
score = enough * (far_up.double()[:, None] + far_left.double())
weights = score.flatten().softmax(0).view(R, C)
wanted = f"({seen_down[0]}, {seen_right[0]})"
print(f"t = {enough:.2f} gives {weights.max():.1%} to the oblique offset {wanted}")
assert weights[far_up, far_left] == weights.max() > 0.899

f, g = (far_up | far_up.flip(0)).double(), (far_left | far_left.flip(0)).double()
weights = (12 * (f[:, None] + g)).flatten().softmax(0).view(R, C)
pair = weights[0, 0] + weights[-1, -1]
print(f"two opposite corners get {pair.item():.1%}")
assert pair.item() <= 0.5

# %% [markdown]
# ```{exercise}
# :label: exercise-axes-remainder
# Choose $h$ and $w$ without a common factor. Show that the torus of $h \times w$ is a single ring of $hw$
# channels in disguise, on which a token at $(y, x)$ rolls by $a y + b x$ steps. What are $a$ and $b$?
# ```
#
# ```{solution} exercise-axes-remainder
# :class: dropdown
# The Chinese remainder theorem: put channel $i$ of the ring at row $i \bmod h$ and column $i \bmod w$ of the
# sheet. Then $a$ must be 1 modulo $h$ and 0 modulo $w$, and $b$ the reverse. So RollPE on *one* ring sees both
# axes and is complete, if its positions are chosen well. The reading order of the first exercise is the choice
# $a = C$, $b = 1$.
# ```

# %% tags=["hide-cell"]
h, w = torus[0], torus[1] if math.gcd(*torus) == 1 else torus[1] + 2
while math.gcd(h, w) != 1:
    w += 1
a, b = w * pow(w, -1, h), h * pow(h, -1, w)
ring = torch.arange(h * w)
place = (ring % h) * w + ring % w  # where channel i of the ring lies on the sheet
sheet = torch.randn(h * w).expand(len(positions), -1)
on_sheet = torus_roll(sheet, positions, (h, w))
on_ring = roll(sheet[:, place], positions @ torch.tensor([a, b]))
print(f"sheet {h} × {w}: a ring of {h * w}, rolled by {a}y + {b}x")
agree("sheet and ring", on_ring, on_sheet[:, place])
