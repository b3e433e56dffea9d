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
# # Several waves, two axes
#
# RollPE moves one vector around one ring of channels. How can it carry more? The paper adds a second wave that travels
# around the same ring at another speed, and for images it adds a second ring {cite}`rollpe`. This chapter asks what
# each step changes:
#
# - **Several waves on one ring** are no longer relative: part of the score depends on where in the image the two tokens
#   are, not only on their offset.
# - **A ring for each axis** is relative and cheap, but its score is a sum, and a sum cannot single out a diagonal.
# - **A torus of channels** expresses every function of the offset and needs one channel for each offset.

# %% tags=["parameters"]
n: int = 32  # channels on the ring [4..128]
waves: int = 2  # waves in each query and key [2..4]
tokens: int = 24  # tokens in a row [4..64]
rows: int = 6  # patches from top to bottom [2..14]
columns: int = 8  # patches from left to right [2..14]
head_dim: int = 64  # channels of one head, a multiple of 8 [16..128 step 8]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch

from rollpe_book import figures
from rollpe_book.agree import agree

figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Several waves on one ring
#
# One ring has one direction and one speed. In the brain, waves of several speeds carry several events at a time
# {cite}`king2021human`. This is the paper's reason for its second variant, multiplexed RollPE (`multiplexed-roll`),
# which has the highest accuracy in the paper's
# table.{holds}`printed: multiplexed-roll > axial-rope > roll > learned`
#
# In place of one projection, a token $x$ gets $W$ of them:
#
# $$
# q^{(w)} = W_Q^{(w)} x, \qquad w = 1, \dots, W
# $$ (eq-waves)
#
# Wave $w$ rolls by $w$ channels for each position, and all waves are added on the same ring. Keys do the same.
#
# $$
# \mathrm{MPRoll}_p(q) = \sum_{w=1}^{W} \mathrm{Roll}_{wp}\bigl( q^{(w)} \bigr)
# $$ (eq-multiplexed)

# %%
from rollpe.operators import multiplexed_roll, roll, shift_matrix

i, p = torch.arange(n), 3
x, W_Q = torch.randn(10), torch.randn(waves, n, 10)
q = W_Q @ x  # one row a wave
total = sum(q[w - 1][(i + w * p) % n] for w in range(1, waves + 1))
agree("our line and the library", total, multiplexed_roll(q, p))

# %% [markdown]
# By hand, on four channels: the first wave is a one at channel 0, the second a one at channel 1. Each step moves the
# first by one place and the second by two.

# %%
first, second = torch.eye(4, dtype=torch.int64)[:2]
for p in range(4):
    a, b = roll(first, p), roll(second, 2 * p)
    print(f"p = {p}:  {a.tolist()} + {b.tolist()} = {(a + b).tolist()}"
          f"   squared length {(a + b).square().sum()}")  # fmt: skip

# %% [markdown]
# At $p = 1$ the fast wave has caught up with the slow one, and they add up. So the length of the sum depends on the
# position: a multiplexed roll is not a rotation.
#
# ```{wave} speeds
# :name: wave-speeds
# Waves of speed $1, \dots, W$, each on a ring of its own, and their sum on the ring outside. All start as one
# bump at channel 0; dots mark how far each has come. Right, or below on a narrow page: the sum at every position.
# ```
#
# Look at the crossings in {numref}`wave-speeds`. They are places in the image, not relations between tokens: a token at
# such a place has a longer query than its neighbors.
#
# ## Which terms break
#
# Multiply the two sums out. Every wave of the query meets every wave of the key:
#
# $$
# \begin{aligned} & \mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k) \\
# & \quad = \sum_{w, w'} \bigl( q^{(w)} \bigr)^\top S^{\,w' p_k - w p_q} \, k^{(w')} \end{aligned}
# $$ (eq-multiplexed-score)
#
# Write $p_k = p_q + \Delta$. Then the exponents sort the terms into two kinds:
#
# $$
# \begin{aligned} & \mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k) \\
# & \quad = \sum_{w} q^{(w)\top} S^{\,w \Delta} \, k^{(w)} \\
# & \quad + \sum_{w \neq w'} q^{(w)\top} S^{\,w' \Delta + (w' - w) p_q} \, k^{(w')} \end{aligned}
# $$ (eq-multiplexed-split)
#
# The $W$ terms in which a wave meets itself depend only on the offset. The $W(W-1)$ cross terms also depend on the
# position of the query. They change if both tokens move by $s$:
#
# $$
# \begin{gathered} p \mapsto p + s: \\
# S^{\,w' p_k - w p_q} \mapsto S^{\,w' p_k - w p_q} \, S^{\,(w' - w) s} \end{gathered}
# $$ (eq-multiplexed-shift)

# %%
q, k = torch.randn(2, waves, n)
p_q, p_k = 2, 7
s = next(s for s in range(3, n) if math.gcd(s, n) == 1)  # moves every cross term


def terms(p_q, p_k):
    """Wave w of the query against wave w' of the key: [w, w']."""
    roll_q = torch.stack([q[w][(i + (w + 1) * p_q) % n] for w in range(waves)])
    roll_k = torch.stack([k[w][(i + (w + 1) * p_k) % n] for w in range(waves)])
    return roll_q @ roll_k.T


here, moved = terms(p_q, p_k), terms(p_q + s, p_k + s)
score = multiplexed_roll(q, p_q) @ multiplexed_roll(k, p_k)
agree("the terms add up to the score", here.sum(), score, tolerance=1e-11)
S = shift_matrix(n)
for w in range(waves):
    for v in range(waves):
        power = (v + 1) * p_k - (w + 1) * p_q + (v - w) * s  # after the shift
        expected = q[w] @ torch.linalg.matrix_power(S, power % n) @ k[v]
        change = abs(moved[w, v] - here[w, v])
        print(f"wave {w + 1} · wave {v + 1}: the shift changes {change:5.2f}")
        agree(f"wave {w + 1} · wave {v + 1}", moved[w, v], expected, 1e-11)
        assert w != v or change < 1e-11

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-multiplexed-terms", "caption": "One score, taken apart into wave of the query · wave of the key, with the same content at every position. Along a dotted line the offset is constant."}, "image": {"alt": "Square heat maps of query position against key position. Where a wave meets itself, bright stripes run parallel to the dotted diagonals, more of them for the faster wave. In the cross terms the stripes are steeper or flatter than the diagonals. The large panel with the sum shows all stripes crossing each other in a woven pattern."}}
p = torch.arange(tokens)
bumps = torch.stack(
    [
        torch.exp((torch.cos(2 * torch.pi * (i / n - (3 + 2 * w) / 4)) - 1) / 0.035)
        for w in range(waves)
    ]
)
rolled = torch.stack([roll(bumps[w], (w + 1) * p) for w in range(waves)])
panels = rolled[:, None] @ rolled.mT  # [w, w', query, key]
fig = plt.figure(figsize=(7.2, 3.7))
left, right = fig.subfigures(1, 2, width_ratios=[1, 1])
axes = left.subplots(waves, waves, sharex=True, sharey=True, squeeze=False)
whole = right.subplots()
shown = [
    (axes[w, v], panels[w, v], f"{w + 1} · {v + 1}")
    for w in range(waves)
    for v in range(waves)
]
for axis, values, title in [*shown, (whole, panels.sum((0, 1)), "all terms together")]:
    axis.imshow(values, vmin=0)
    for start in range(-tokens, tokens, max(tokens // 4, 1)):
        axis.axline(
            (start, 0),
            slope=1,
            color=figures.ON_DARK,
            linewidth=0.8,
            linestyle=":",
            alpha=0.8,
        )
    axis.set(xlim=(-0.5, tokens - 0.5), ylim=(tokens - 0.5, -0.5))
    axis.set_title(title, fontsize=9)
    axis.set_xticks([0, tokens - 1])
    axis.set_yticks([0, tokens - 1])
left.supxlabel("position of the key", fontsize=10)
left.supylabel("position of the query", fontsize=10)
whole.set_xlabel("position of the key")
plt.close(fig)
fig

# %% [markdown]
# In the small panels on the diagonal of {numref}`fig-multiplexed-terms` the stripes follow the dotted lines: these
# terms are relative. In the other panels the score is constant where $w' p_k - w p_q$ is constant, so it prefers places
# in the image. With independent projections all $W^2$ terms are equally strong. With two waves half of the score's
# variance comes from relative terms, with three a third.
#
# **Periods.** A faster wave comes round sooner only if its speed shares a factor with $n$:
#
# $$
# \min \{ p > 0 : S^{wp} = I \} = \frac{n}{\gcd(w, n)}
# $$ (eq-wave-period)

# %%
from rollpe.operators import wave_period

for width in (30, 31, 32):
    i = torch.arange(width)
    periods = [
        next(p for p in range(1, width + 1) if torch.equal(i[(i + w * p) % width], i))
        for w in (1, 2, 3, 4)
    ]
    print(f"{width} channels: waves 1 to 4 have the periods {periods}")
    assert periods == [wave_period(width, w) for w in (1, 2, 3, 4)]

# %% [markdown]
# On images a ring serves one axis, and a vision transformer with heads of 64 channels gives 32 to each. There the
# fourth wave has a period of eight, so on eight patches in a row it does not distinguish one step to the left from
# seven steps to the right. On a ring of prime length every wave has the full period. There a faster wave is the slowest
# one with its channels in another order {eq}`eq-wave-relabel`, so several speeds bring no new frequencies.
#
# **A fair control.** Multiplexing also adds projections and makes the logits $W$ times as large, and each of these can
# change an accuracy by itself. A fair control keeps all projections and lets every wave travel at the *same* speed,
# which makes it RollPE with the sum of the projections {eq}`eq-multiplexed-control`. The runs do not decide between
# this control and multiplexed RollPE, on digits or on
# photographs.{holds}`quick: multiplexed-roll - multiplexed-roll@speeds=[1,1] is open`{holds}`mini: multiplexed-roll@speeds=[1,1] - multiplexed-roll is open`
# {doc}`16-lie` has the details.
#
# ## Two axes: a ring for each
#
# An image has two directions. The paper does what axial RoPE does {cite}`heo2024rotary`: it rolls one part of a vector by
# the row $y$ of the token and the other by its column $x$. We take the two halves of each head. Channels that belong to
# neither ring stay where they are. With $\oplus$ for parts that are joined:
#
# $$
# \mathrm{Roll}_{(y, x)}(q) = S_n^{\,y} \, q^{(y)} \oplus S_n^{\,x} \, q^{(x)} \oplus q^{\text{rest}}
# $$ (eq-axial-roll)

# %%
from rollpe.operators import axial_roll

y, x = 1, 2
q = torch.tensor([1, 2, 3, 10, 20, 30, 7])  # three channels for each axis, and one
i = torch.arange(3)
rolled = torch.cat((q[:3][(i + y) % 3], q[3:6][(i + x) % 3], q[6:]))
print(f"at (0, 0): {q.tolist()}\nat ({y}, {x}): {rolled.tolist()}")
agree("our line", rolled, axial_roll(q[None], torch.tensor([[y, x]]))[0])

# %% [markdown]
# Each half keeps its own offset, and the score is a sum:
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) \\
# & \quad = q^{(y)\top} S^{\,\Delta_y} k^{(y)} + q^{(x)\top} S^{\,\Delta_x} k^{(x)} \\
# & \quad + q^{\text{rest}\top} k^{\text{rest}} \end{aligned}
# $$ (eq-axial-score)

# %%
positions = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
q, k = torch.randn(2, len(positions), head_dim)
score = axial_roll(q, positions) @ axial_roll(k, positions).T
shift = torch.tensor([5, -3])
moved = axial_roll(q, positions + shift) @ axial_roll(k, positions + shift).T
agree("a common shift changes nothing", moved, score)

half, (dy, dx) = head_dim // 2, positions[-1]
by_row = q[0, :half] @ k[-1, :half].roll(-int(dy))
by_column = q[0, half:] @ k[-1, half:].roll(-int(dx))
agree("row and column add up", by_row + by_column, score[0, -1])

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
# So no sum is large "up and left" and "down and right" but small at the other two corners. The softmax turns the sum
# into a product, which makes the statement sharper.
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
# the sum $2m$. All four together are at least $4m$ and at most 1, so the two corners have at most $2m \le \tfrac12$.
# ```
#
# A single oblique offset is possible: let $f$ peak at its row and $g$ at its column. A diagonal line is impossible. We
# ask for a score of one along it and zero elsewhere. The least-squares sum has the means of rows and columns:

# %%
down, right = torch.arange(1 - rows, rows), torch.arange(1 - columns, columns)
desired = (down[:, None] == right).double()  # one on the diagonal Δy = Δx
f = desired.mean(1)
g = desired.mean(0) - desired.mean()
best = f[:, None] + g  # least squares on a full rectangle
left_over = (desired - best).square().sum() / (desired - desired.mean()).square().sum()
print(f"the best sum explains {1 - left_over:.1%} of the desired score")
corners = best[0, 0] + best[-1, -1] - best[0, -1] - best[-1, 0]
agree("its corners are tied", corners, 0.0)

# %% [markdown]
# ## A torus of channels
#
# Without the cut there is no such limit. Lay the channels out as a sheet of $h \times w$, glue its opposite edges, and
# roll it in both directions at once. The sheet is then a torus, and a wave travels on it in two dimensions. The
# Kronecker product $\otimes$ rolls the rows by $y$ and the columns by $x$:
#
# $$
# \mathrm{Roll}_{(y, x)}(q) = \bigl( S_h^{\,y} \otimes S_w^{\,x} \bigr) \, q, \qquad q \in \mathbb{R}^{h w}
# $$ (eq-torus)

# %%
from rollpe.operators import torus_roll

h, w, y, x = 3, 4, 1, 2
q = torch.arange(h * w).view(h, w)
rolled = q[(torch.arange(h)[:, None] + y) % h, (torch.arange(w) + x) % w]
print(f"at (0, 0): {q.tolist()}\nat ({y}, {x}): {rolled.tolist()}")
library = torus_roll(q.flatten(), torch.tensor([y, x]), (h, w))
agree("our line and the library", rolled.flatten(), library)

# %% [markdown]
# Rolls in the two directions commute, so the score is relative in both:
#
# $$
# \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) = q^\top \bigl( S_h^{\,\Delta_y} \otimes S_w^{\,\Delta_x} \bigr) k
# $$ (eq-torus-score)
#
# It is also complete, meaning that it can be any function $f$ of the offset. A one in the corner of the query's sheet
# selects the key's channel at the offset:
#
# $$
# \begin{gathered} q = e_{(0,0)},\ k = f \quad \Longrightarrow \\
# \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) = f_{(\Delta_y \bmod h,\; \Delta_x \bmod w)} \end{gathered}
# $$ (eq-torus-complete)

# %%
h, w = len(down), len(right)  # one channel for each offset
offsets = torch.cartesian_prod(down, right)
q, k = torch.zeros(2, h, w)
q[0, 0] = 1
k[down[:, None] % h, right % w] = desired
keys = torus_roll(k.flatten().expand(len(offsets), -1), offsets, (h, w))
on_torus = (keys @ q.flatten()).view(h, w)
agree(f"the diagonal, on {h} × {w} channels", on_torus, desired)

q, k = torch.randn(2, len(positions), h * w)
here, moved = (
    torus_roll(q, p, (h, w)) @ torus_roll(k, p, (h, w)).T
    for p in (positions, positions + shift)
)
agree("a common shift changes nothing", moved, here, tolerance=1e-11)

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
# The middle panel of {numref}`fig-axes-diagonal` is the best that two rings can do; it shows no line.
#
# Both have a price. Two rings of 32 channels suffice for every grid up to 16 patches a side
# {eq}`eq-distinct-offsets`, but express only sums. A torus expresses everything, but 64 channels make a sheet of
# $8 \times 8$, which distinguishes all offsets only on grids of up to four patches a side {eq}`eq-grid-offsets`.
# The maps in {doc}`16-lie` show both for a key that fits best at one offset: the score of two rings is a cross, that of a
# small torus one point, which comes back a sheet farther on.
#
# ## RoPE on two axes
#
# Axial RoPE (`axial-rope`) makes the same cut: half of the $2m$ pairs rotate with the row, the other half with the
# column.
#
# $$
# \begin{gathered} \varphi_i(p) = \theta_i \, p_y, \qquad \varphi_{m+i}(p) = \theta_i \, p_x, \\
# i = 0, \dots, m-1 \end{gathered}
# $$ (eq-axial-rope)

# %%
from rollpe.encodings import create_encoding

m = head_dim // 4  # pairs for each axis
theta = 100.0 ** (-torch.arange(m) / m)  # RoPE's frequencies on images
q, k = torch.randn(2, 1, 1, len(positions), head_dim)
phi = torch.cat((positions[:, :1] * theta, positions[:, 1:] * theta), 1)
pairs = torch.view_as_complex(q.unflatten(-1, (2 * m, 2)))
turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(phi), phi)).flatten(-2)
encoding = create_encoding("axial-rope", head_dim=head_dim, heads=1).double()
agree("our lines and the library", turned, encoding(q, k, positions.double())[0])

# %% [markdown]
# Its score is a sum as well, as that of every encoding that cuts the channels by axis. {doc}`16-lie` has encodings that
# do not cut: rotations that learn an oblique direction, and rotations that do not commute.
#
# ```{admonition} In short
# :class: tip
# - A multiplexed score is the sum of a relative part, in which each wave meets itself, and of cross terms that depend
#   on absolute positions.
# - Different speeds bring no new frequencies. They come with more weights and larger logits, so a fair control has
#   waves of equal speed.
# - One ring for each axis is relative and cheap, but its scores are sums: they cannot single out a line that is not
#   along an axis.
# - A torus of channels expresses any function of the offset, with one channel for each offset of the grid.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-multiplexed-halfway
# Take two waves on a ring of odd length. Find a query and a key, the same at every position, such that each token
# attends only to the token halfway between itself and the origin. Can RollPE do that?
# ```
#
# ```{solution} exercise-multiplexed-halfway
# :class: dropdown
# Use a cross term alone: $q^{(1)} = e_0$, $k^{(2)} = e_0$, the other two zero. The score is one where
# $2 p_k \equiv p_q$ modulo $n$, and zero elsewhere. (An odd $p_q$ has a half on the ring, too: $(p_q + n)/2$.)
# RollPE cannot do it, because the offset to the halfway token is different for every query.
# ```

# %% tags=["hide-cell"]
odd = n + 1 - n % 2
q, k = torch.zeros(2, 2, odd)
q[0, 0] = k[1, 0] = 1
p = torch.arange(odd)
q, k = (multiplexed_roll(x.expand(odd, -1, -1), p) for x in (q, k))
score = q @ k.T
halfway = (2 * p % odd == p[:, None]).double()
agree("every token attends to one, halfway", score, halfway)
even = torch.arange(0, odd, 2)
assert torch.equal(score[even].argmax(-1), even // 2)

# %% [markdown]
# ```{exercise}
# :label: exercise-axes-raster
# Why not number the patches in reading order and use one ring? Count the offsets that remain distinct however long the
# ring is, and name two that collide.
# ```
#
# ```{solution} exercise-axes-raster
# :class: dropdown
# The number of a patch is $C y + x$ for $C$ columns, so an offset becomes $C \Delta_y + \Delta_x$. One row down and one
# column left is then the same as $C - 1$ columns right: the end of a row touches the start of the next. Of
# $(2R-1)(2C-1)$ offsets $2RC - 1$ are left.
# ```

# %% tags=["hide-cell"]
reading_order = columns * offsets[:, 0] + offsets[:, 1]
distinct = len(reading_order.unique())
print(f"{len(offsets)} offsets, {distinct} in reading order")
assert distinct == 2 * rows * columns - 1
assert columns * 1 + -1 == columns * 0 + (columns - 1)
