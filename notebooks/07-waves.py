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
# around the same ring at another speed, and for images it adds a second ring {cite}`rollpe`. Several waves on one ring
# are no longer relative: part of the score depends on where the two tokens are. A ring for each axis is relative and
# cheap, but its score is a sum and cannot single out a diagonal. A torus of channels can, at one channel for each
# offset.

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
from rollpe_book.agree import agree, differs
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Several waves on one ring
#
# In the brain, waves of several speeds carry several events at a time {cite}`king2021human`. This is the paper's reason
# for its second variant, multiplexed RollPE (`multiplexed-roll`), which has the highest accuracy in the paper's table.
# In place of one projection, a token $x$ gets $W$ of them (Eq. 11):
#
# $$
# q^{(w)} = W_Q^{(w)} x, \qquad w = 1, \dots, W
# $$ (eq-waves)
#
# Wave $w$ rolls by $w$ channels for each position, and all waves are added on the same ring (Eq. 12). Keys do the same.
#
# $$
# \mathrm{MPRoll}_p(q) = \sum_{w=1}^{W} \mathrm{Roll}_{wp}\bigl( q^{(w)} \bigr)
# $$ (eq-multiplexed)

# %%
from rollpe.encodings import create_encoding
from rollpe.ring import multiplexed_roll, roll

i, p = torch.arange(n), 3
x, W_Q = torch.randn(10), torch.randn(waves, n, 10)
q = W_Q @ x  # one row a wave
total = sum(q[w - 1][(i + w * p) % n] for w in range(1, waves + 1))
agree("eq-multiplexed", multiplexed_roll(q, p), total)

# %% tags=["hide-input"]
shape = {"head_dim": n, "heads": 1, "axes": 1}
encoding = create_encoding("multiplexed-roll", waves=waves, **shape)
joint = (W_Q.flatten(0, 1) @ x).view(1, 1, 1, -1)  # one matrix, cut into waves
moved, _ = encoding(joint, joint, torch.tensor([[p]]))
agree("eq-waves", moved.flatten(), total)

# %% [markdown]
# On four channels the first wave is a one at channel 0, the second a one at channel 1. Each step moves the first by one
# place and the second by two.

# %%
first, second = torch.eye(4, dtype=torch.int64)[:2]
for p in range(4):
    a, b = roll(first, p), roll(second, 2 * p)
    print(f"p = {p}:  {a.tolist()} + {b.tolist()} = {(a + b).tolist()}"
          f"   squared length {(a + b).square().sum()}")  # fmt: skip

# %% [markdown]
# At $p = 1$ the fast wave has caught up with the slow one, and they add up. The length of the sum depends on the
# position, so a multiplexed roll is not a rotation.
#
# ```{wave} speeds
# :name: wave-speeds
# Waves of speed $1, \dots, W$, each on a ring of its own, and their sum on the ring outside. All start as one
# bump at channel 0; dots mark how far each has come. Right, or below on a narrow page: the sum at every position.
# ```
#
# The crossings are places in the image, not relations between tokens: a token there has a longer query than its
# neighbors.
#
# ## Which terms break
#
# Multiply the two sums out. Every wave of the query meets every wave of the key:
#
# $$
# \begin{aligned} & \mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k) \\
# & \quad = \sum_{w, w'} \bigl( q^{(w)} \bigr)^\top S^{\,w' p_k - w p_q} \, k^{(w')} \end{aligned}
# $$ (eq-multiplexed-score)

# %%
w_k = torch.arange(1, waves + 1)  # w' in the formula, a row
w_q = w_k[:, None]  # w, a column


def terms(q, k, power):  # waves w and w', with this power of S: [w, w']
    place = (torch.arange(n) + power[..., None]) % n
    return (q[:, None] * k[None].take_along_dim(place, -1)).sum(-1)


q, k = torch.randn(2, waves, n)
p_q, p_k = 2, 7
score = multiplexed_roll(q, p_q) @ multiplexed_roll(k, p_k)
agree("eq-multiplexed-score", score, terms(q, k, w_k * p_k - w_q * p_q).sum())

# %% [markdown]
# With $p_k = p_q + \Delta$, the exponents sort the terms into two kinds:
#
# $$
# \begin{aligned} & \mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k) \\
# & \quad = \sum_{w} q^{(w)\top} S^{\,w \Delta} \, k^{(w)} \\
# & \quad + \sum_{w \neq w'} q^{(w)\top} S^{\,w' \Delta + (w' - w) p_q} \, k^{(w')} \end{aligned}
# $$ (eq-multiplexed-split)

# %%
Delta = p_k - p_q
same = (q * roll(k, w_k * Delta)).sum()
cross = terms(q, k, w_k * Delta + (w_k - w_q) * p_q)[w_q != w_k].sum()
agree("eq-multiplexed-split", same + cross, score)

# %% [markdown]
# The $W$ terms in which a wave meets itself depend only on the offset. The $W(W-1)$ cross terms also depend on the
# position of the query. They break the equivariance, as the paper says of several waves (its section 2). If both tokens
# move by $s$, the cross terms change:
#
# $$
# \begin{gathered} p \mapsto p + s: \\
# S^{\,w' p_k - w p_q} \mapsto S^{\,w' p_k - w p_q} \, S^{\,(w' - w) s} \end{gathered}
# $$ (eq-multiplexed-shift)

# %%
s = next(s for s in range(3, n) if math.gcd(s, n) == 1)  # moves every cross term
here, moved = (terms(q, k, w_k * (p_k + t) - w_q * (p_q + t)) for t in (0, s))
print(f"a shift by {s} changes the terms by\n{(moved - here).abs().numpy().round(2)}")
shifted = terms(q, k, w_k * p_k - w_q * p_q + (w_k - w_q) * s)
later = multiplexed_roll(q, p_q + s) @ multiplexed_roll(k, p_k + s)
agree("eq-multiplexed-shift", [moved, later], [shifted, shifted.sum()])
differs("eq-multiplexed-shift", later, score)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-multiplexed-terms", "caption": "One score, taken apart into wave of the query · wave of the key, with the same content at every position. Along a dotted line the offset is constant."}, "image": {"alt": "Square heat maps of query position against key position. Where a wave meets itself, bright stripes run parallel to the dotted diagonals, more of them for the faster wave. In the cross terms the stripes are steeper or flatter than the diagonals."}}
p = torch.arange(tokens)
centers = 2 * torch.pi * (i / n - (3 + 2 * torch.arange(waves)[:, None]) / 4)
bumps = torch.exp((torch.cos(centers) - 1) / 0.035)  # one for each wave
rolled = torch.stack([roll(bumps[w], (w + 1) * p) for w in range(waves)])
fig, axes = plt.subplots(waves, waves, figsize=(4.6, 4.4), sharex=True, sharey=True)
for w, row in enumerate(axes):
    for v, axis in enumerate(row):
        axis.imshow(rolled[w] @ rolled[v].mT, vmin=0)
        for start in range(-tokens, tokens, max(tokens // 4, 1)):
            dotted = {"color": figures.ON_DARK, "linewidth": 0.8, "linestyle": ":"}
            axis.axline((start, 0), slope=1, alpha=0.8, **dotted)
        axis.set(xlim=(-0.5, tokens - 0.5), ylim=(tokens - 0.5, -0.5))
        axis.set(xticks=[0, tokens - 1], yticks=[0, tokens - 1])
        axis.set_title(f"{w + 1} · {v + 1}", fontsize=9)
fig.supxlabel("position of the key", fontsize=10)
fig.supylabel("position of the query", fontsize=10)
plt.close(fig)
fig

# %% [markdown]
# In the diagonal panels of {numref}`fig-multiplexed-terms` the stripes follow the dotted lines: these terms are
# relative. The other panels prefer places in the image. With independent projections all $W^2$ terms are equally strong,
# and only $W$ of them are relative.
#
# Different speeds bring no new frequencies: on a ring of prime length, a faster wave is the slowest one with its
# channels in another order, {eq}`eq-wave-relabel`.
#
# ## Larger logits
#
# A sum of $W$ independent waves has $W$ times the variance, in queries and in keys. The logits then have $W^2$ times
# the variance {eq}`eq-multiplexed-variance`, so they are $W$ times as large, and the softmax is sharper. Eq. 12 of the
# paper has no factor that would undo this. The library follows it, and offers the factor as `scale="sqrt"`.

# %%
for W in range(1, 5):
    q, k = torch.randn(2, 10_000, W, n)
    logits = (multiplexed_roll(q, 3) * multiplexed_roll(k, 8)).sum(-1) / n**0.5
    print(f"{W} waves: variance of the logits {logits.var():.2f}")
    assert abs(logits.var() / W**2 - 1) < 0.2

# %% [markdown]
# Multiplexing also adds projections, and each of these changes can alter an accuracy by itself. A fair control keeps
# projections and scale and lets every wave travel at the *same* speed, which makes it RollPE with the sum of the
# projections, {eq}`eq-multiplexed-control`. {doc}`Ch. 16 <16-lie>` has the runs.
#
# ## Two axes: a ring for each
#
# An image has two directions. The paper does what axial RoPE does {cite}`heo2024rotary`: it rolls one part of a vector
# by the row $y$ of the token and the other by its column $x$ (App. D). We take the two halves of each head. Channels
# that belong to neither ring stay where they are. With $\oplus$ for parts that are joined:
#
# $$
# \mathrm{Roll}_{(y, x)}(q) = S_n^{\,y} \, q^{(y)} \oplus S_n^{\,x} \, q^{(x)} \oplus q^{\text{rest}}
# $$ (eq-axial-roll)

# %%
from rollpe.ring import axial_roll

y, x = 1, 2
q = torch.tensor([1, 2, 3, 10, 20, 30, 7])  # three channels for each axis, and one
i = torch.arange(3)
rolled = torch.cat((q[:3][(i + y) % 3], q[3:6][(i + x) % 3], q[6:]))
print(f"at (0, 0): {q.tolist()}\nat ({y}, {x}): {rolled.tolist()}")
agree("eq-axial-roll", axial_roll(q[None], torch.tensor([[y, x]]))[0], rolled)

# %% [markdown]
# Each half keeps its own offset, as one ring does (App. B), and the score is a sum:
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p_q}(q)^\top \mathrm{Roll}_{p_k}(k) \\
# & \quad = q^{(y)\top} S^{\,\Delta_y} k^{(y)} + q^{(x)\top} S^{\,\Delta_x} k^{(x)} \\
# & \quad + q^{\text{rest}\top} k^{\text{rest}} \end{aligned}
# $$ (eq-axial-score)

# %%
positions = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
q, k = torch.randn(2, len(positions), head_dim + 1)  # one channel is left over
parts, middle = (head_dim // 2, head_dim // 2, 1), len(positions) // 2


def by_offset(q, k, Delta_y, Delta_x):
    (q_y, q_x, q_rest), (k_y, k_x, k_rest) = q.split(parts), k.split(parts)
    return q_y @ k_y.roll(-Delta_y) + q_x @ k_x.roll(-Delta_x) + q_rest @ k_rest


# %%
offsets = (positions - positions[middle]).tolist()  # of one query and all keys
summed = [by_offset(q[middle], k[j], *offset) for j, offset in enumerate(offsets)]
places = positions, positions + torch.tensor([5, -3])
score, moved = (axial_roll(q, p) @ axial_roll(k, p).T for p in places)
agree("eq-axial-score", [score[middle], moved], [torch.stack(summed), score])

# %% [markdown]
# For one query and one key, this is a function of the row plus a function of the column. Such functions are tied at the
# corners of every rectangle:
#
# $$
# \begin{gathered} c(\Delta_y, \Delta_x) = f(\Delta_y) + g(\Delta_x) \quad \Longrightarrow \\
# c(a, b) + c(a', b') = c(a', b) + c(a, b') \end{gathered}
# $$ (eq-axial-additive)

# %%
down, right = torch.arange(1 - rows, rows), torch.arange(1 - columns, columns)
every = torch.cartesian_prod(down, right)
rolled = axial_roll(k[0].expand(len(every), -1), every)  # one key at every offset
c = (rolled @ q[0]).view(len(down), len(right))
agree("eq-axial-additive", c[:1, :1] + c, c[:1] + c[:, :1])  # a = a corner of the map

# %% [markdown]
# No sum is large "up and left" and "down and right" but small at the other two corners. Ask for a score of one along a
# diagonal and zero elsewhere: the best sum, by least squares, has the means of rows and columns.

# %%
desired = (down[:, None] == right).double()  # one on the diagonal Δy = Δx
f = desired.mean(1)
g = desired.mean(0) - desired.mean()
best = f[:, None] + g  # least squares on a full rectangle
left_over = (desired - best).square().sum() / (desired - desired.mean()).square().sum()
print(f"the best sum explains {1 - left_over:.1%} of the desired score")

# %% [markdown]
# ## A torus of channels
#
# Without the cut there is no such limit. Lay the channels out as a sheet of $h \times w$, glue its opposite edges to a
# torus, and roll it in both directions at once. (The paper's discussion imagines waves over more complex topographies
# than a ring.) The Kronecker product $\otimes$ rolls the rows by $y$ and the columns by $x$:
#
# $$
# \mathrm{Roll}_{(y, x)}(q) = \bigl( S_h^{\,y} \otimes S_w^{\,x} \bigr) \, q, \qquad q \in \mathbb{R}^{h w}
# $$ (eq-torus)

# %%
from rollpe.ring import shift_matrix, torus_roll

h, w, y, x = 3, 4, 1, 2
q = torch.arange(h * w)
rolled = q.view(h, w)[(torch.arange(h)[:, None] + y) % h, (torch.arange(w) + x) % w]
print(f"at (0, 0): {q.view(h, w).tolist()}\nat ({y}, {x}): {rolled.tolist()}")
S_y, S_x = (torch.linalg.matrix_power(shift_matrix(m), p) for m, p in ((h, y), (w, x)))
found = [torus_roll(q, torch.tensor([y, x]), (h, w)), torch.kron(S_y, S_x) @ q.double()]
agree("eq-torus", found, [rolled.flatten()] * 2)

# %% [markdown]
# Rolls in the two directions commute, so the score is relative in both:
#
# $$
# \mathrm{Roll}_{p_q}(q)^\top \mathrm{Roll}_{p_k}(k) = q^\top \bigl( S_h^{\,\Delta_y} \otimes S_w^{\,\Delta_x} \bigr) k
# $$ (eq-torus-score)

# %%
q, k = torch.randn(2, len(positions), h * w)
sheets = zip(k.view(-1, h, w), offsets, strict=True)  # offsets from the middle query
keys = torch.stack([key.roll((-y, -x), (0, 1)) for key, (y, x) in sheets]).flatten(1)
score, moved = (torus_roll(q, p, (h, w)) @ torus_roll(k, p, (h, w)).T for p in places)
agree("eq-torus-score", [score[middle], moved], [keys @ q[middle], score])

# %% [markdown]
# The score can be any function of the offset: a one in the corner of the query's sheet selects the key's channel at the
# offset. With one channel for each offset, this includes the diagonal.

# %%
h, w = len(down), len(right)
f = torch.zeros(h, w)
f[down[:, None] % h, right % w] = desired
keys = torus_roll(f.flatten().expand(len(every), -1), every, (h, w))
on_torus = keys[:, 0].view(h, w)  # q is one in the corner
agree(f"the diagonal, on {h} × {w} channels", on_torus, desired)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-axes-diagonal", "caption": "A desired score over all offsets between two patches, the nearest axial score, and the score of a torus. White is zero, dark red one; the cross marks offset zero."}, "image": {"alt": "Three maps of the score against horizontal and vertical offset. The desired score is a dark diagonal line on a white ground. The best axial score is a pale, almost uniform wash with no line in it. The torus shows exactly the desired line."}}
fig, axes = plt.subplots(1, 3, figsize=(6.0, 2.3), sharey=True)
panels = {"desired": desired, "best two rings": best, "torus": on_torus}
for axis, (name, values) in zip(axes, panels.items(), strict=True):
    figures.offset_map(values, axis, title=name, limit=1)
    axis.set_xlabel("Δx (patches)")
axes[0].set_ylabel("Δy (patches)")
plt.close(fig)
fig

# %% [markdown]
# The middle panel of {numref}`fig-axes-diagonal` is the best that two rings can do; it shows no line. The price of the
# torus is its size. Two rings of 32 channels suffice for every grid up to 16 patches a side {eq}`eq-distinct-offsets`.
# A torus of 64 channels is a sheet of $8 \times 8$, which distinguishes all offsets only on grids of up to four patches
# a side {eq}`eq-grid-offsets`.
#
# ## RoPE on two axes
#
# Axial RoPE (`axial-rope`) {cite}`heo2024rotary` makes the same cut: half of the $2m$ pairs rotate with the row, the
# other half with the column.
#
# $$
# \begin{gathered} \varphi_i(p) = \theta_i \, p_y, \qquad \varphi_{m+i}(p) = \theta_i \, p_x, \\
# i = 0, \dots, m-1 \end{gathered}
# $$ (eq-axial-rope)

# %%
m = head_dim // 4  # pairs for each axis
theta = 100.0 ** (-torch.arange(m) / m)  # RoPE's frequencies on images
phi = torch.cat((positions[:, :1] * theta, positions[:, 1:] * theta), 1)
q = torch.randn(1, 1, len(positions), head_dim)
pairs = torch.view_as_complex(q.unflatten(-1, (2 * m, 2)))
turned = torch.view_as_real(pairs * torch.exp(1j * phi)).flatten(-2)
axial = create_encoding("axial-rope", head_dim=head_dim, heads=1).double()
agree("eq-axial-rope", axial(q, q, positions.double())[0], turned)

# %% [markdown]
# Its score is a sum as well, as that of every encoding that cuts the channels by axis. {doc}`Ch. 16 <16-lie>` has
# encodings that do not cut.
#
# ## Exercise
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
# $2 p_k \equiv p_q$ modulo $n$, and zero elsewhere. RollPE cannot do it, because the offset to the halfway token is
# different for every query.
# ```

# %% tags=["hide-cell"]
odd = n + 1 - n % 2
q, k = torch.zeros(2, 2, odd)
q[0, 0] = k[1, 0] = 1
p = torch.arange(odd)
score = multiplexed_roll(q, p) @ multiplexed_roll(k, p).T
assert torch.equal(score, (2 * p % odd == p[:, None]).double())
assert torch.equal(score.argmax(-1)[::2], p[: (odd + 1) // 2])
