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
from itertools import product

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
# One ring has one direction and one speed. In the brain, waves of several speeds carry several events at a time
# {cite}`king2021human`. This is the paper's reason for its second variant, multiplexed RollPE (`multiplexed-roll`),
# which has the highest accuracy in the paper's table.
#
# In place of one projection, a token $x$ gets $W$ of them (Eq. 11 of the paper):
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
from rollpe.ring import multiplexed_roll, roll

i, p = torch.arange(n), 3
x, W_Q = torch.randn(10), torch.randn(waves, n, 10)
q = W_Q @ x  # one row a wave
total = sum(q[w - 1][(i + w * p) % n] for w in range(1, waves + 1))
agree("eq-multiplexed", multiplexed_roll(q, p), total)


# %% tags=["hide-input"]
def by_index(q, p):  # q [texts, tokens, waves, channels], p [tokens]
    W, n = q.shape[2:]
    place = (torch.arange(n) + torch.arange(1, W + 1)[:, None] * p[:, None, None]) % n
    return q.gather(-1, place.expand_as(q)).sum(2)


many = [torch.randn(2, 5, W, m) for W, m in ((1, 1), (2, 2), (3, 7), (4, 8), (2, 31))]
at = torch.tensor([-20, -1, 0, 3, 14])
found = [multiplexed_roll(q_each, at) for q_each in many]
agree("eq-multiplexed", found, [by_index(q_each, at) for q_each in many])

# %% [markdown]
# In the library one matrix holds the rows of all $W_Q^{(w)}$, and the encoding cuts its output into waves:

# %%
from rollpe.encodings import create_encoding

joint = (W_Q.flatten(0, 1) @ x).view(1, 1, 1, waves * n)
shape = {"head_dim": n, "heads": 1, "axes": 1}
encoding = create_encoding("multiplexed-roll", waves=waves, **shape)
moved, _ = encoding(joint, joint, torch.tensor([[p]]))
agree("eq-waves", moved.flatten(), total)

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

# %%
w_k = torch.arange(1, waves + 1)  # w' in the formula, a row
w_q = w_k[:, None]  # w, a column


def terms(q, k, power):  # waves w and w', with this power of S: [w, w']
    place = (torch.arange(q.shape[-1]) + power[..., None]) % q.shape[-1]
    return (q[:, None] * k[None].take_along_dim(place, -1)).sum(-1)


# %%
places = (n, 2, 7), (1, 3, 4), (2, -1, 4), (7, -20, 13), (8, 5, -9)  # n, p_q, p_k
cases = [(*torch.randn(2, waves, m), a, b) for m, a, b in places]
scores = [multiplexed_roll(q, a) @ multiplexed_roll(k, b) for q, k, a, b in cases]
summed = [terms(q, k, w_k * b - w_q * a).sum() for q, k, a, b in cases]
agree("eq-multiplexed-score", scores, summed)

# %% [markdown]
# Write $p_k = p_q + \Delta$. Then the exponents sort the terms into two kinds:
#
# $$
# \begin{aligned} & \mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k) \\
# & \quad = \sum_{w} q^{(w)\top} S^{\,w \Delta} \, k^{(w)} \\
# & \quad + \sum_{w \neq w'} q^{(w)\top} S^{\,w' \Delta + (w' - w) p_q} \, k^{(w')} \end{aligned}
# $$ (eq-multiplexed-split)


# %%
def split(q, k, p_q, Delta):
    same = (q * roll(k, w_k * Delta)).sum()
    cross = terms(q, k, w_k * Delta + (w_k - w_q) * p_q)
    return same + cross[w_q != w_k].sum()


agree("eq-multiplexed-split", [split(q, k, a, b - a) for q, k, a, b in cases], scores)

# %% [markdown]
# The $W$ terms in which a wave meets itself depend only on the offset. The $W(W-1)$ cross terms also depend on the
# position of the query. The paper says that several waves break equivariance (its section 2); this is how. The cross
# terms change if both tokens move by $s$:
#
# $$
# \begin{gathered} p \mapsto p + s: \\
# S^{\,w' p_k - w p_q} \mapsto S^{\,w' p_k - w p_q} \, S^{\,(w' - w) s} \end{gathered}
# $$ (eq-multiplexed-shift)

# %%
q, k, p_q, p_k = cases[0]
s = next(s for s in range(3, n) if math.gcd(s, n) == 1)  # moves every cross term
here, moved = (terms(q, k, w_k * (p_k + t) - w_q * (p_q + t)) for t in (0, s))
print(f"a shift by {s} changes the terms by\n{(moved - here).abs().numpy().round(2)}")
shifted = terms(q, k, w_k * p_k - w_q * p_q + (w_k - w_q) * s)
score = multiplexed_roll(q, p_q + s) @ multiplexed_roll(k, p_k + s)
agree("eq-multiplexed-shift", [moved, score], [shifted, shifted.sum()])
differs("eq-multiplexed-shift", score, scores[0])

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
from rollpe.ring import wave_period


def period(n, w):  # roll until every channel is back
    i = torch.arange(n)
    return next(p for p in range(1, n + 1) if torch.equal(i[(i + w * p) % n], i))


for m in (30, 31, 32):
    print(m, "channels, periods of waves 1 to 4:", [period(m, w) for w in range(1, 5)])
sizes = list(product((1, 2, 9, 12, 31, 32), (1, 2, 3, 4, 45)))
agree("eq-wave-period", [wave_period(*x) for x in sizes], [period(*x) for x in sizes])

# %% [markdown]
# On images a ring serves one axis, and a vision transformer with heads of 64 channels gives 32 to each. There the
# fourth wave has a period of eight, so on eight patches in a row it does not distinguish one step to the left from
# seven steps to the right. On a ring of prime length every wave has the full period. There a faster wave is the slowest
# one with its channels in another order {eq}`eq-wave-relabel`, so several speeds bring no new frequencies.
#
# **A fair control.** Multiplexing also adds projections and makes the logits $W$ times as large, and each of these can
# change an accuracy by itself. A fair control keeps all projections and lets every wave travel at the *same* speed,
# which makes it RollPE with the sum of the projections {eq}`eq-multiplexed-control`. The runs do not decide between
# this control and multiplexed RollPE, on digits or on photographs. {doc}`16-lie` has the details.
#
# ## Two axes: a ring for each
#
# An image has two directions. The paper does what axial RoPE does {cite}`heo2024rotary`: it rolls one part of a vector by
# the row $y$ of the token and the other by its column $x$ (App. D). We take the two halves of each head. Channels that
# belong to neither ring stay where they are. With $\oplus$ for parts that are joined:
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


# %% tags=["hide-input"]
def slow(q, p, n):  # n channels of either half of 5 roll, one channel is left over
    c, place = torch.arange(n), torch.arange(11).repeat(2, 6, 1)
    place[..., :n] = (c + p[..., :1]) % n
    place[..., 5 : 5 + n] = 5 + (c + p[..., 1:]) % n
    return q.gather(-1, place)


q, p = torch.randn(2, 6, 11), torch.randint(-9, 10, (2, 6, 2))  # two images
cases = (p, 1), (p, 4), (p, 5), (p[0], 5)  # the last: the same positions in both
agree("eq-axial-roll", [axial_roll(q, *x) for x in cases], [slow(q, *x) for x in cases])

# %% [markdown]
# Each half keeps its own offset, as one ring does in App. B of the paper, and the score is a sum:
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) \\
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
# ## What a sum cannot express
#
# For one query and one key, the score over all offsets is a function of the row plus a function of the column. Such
# functions are tied at the corners of every rectangle:
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
desired = (down[:, None] == right).double()  # one on the diagonal Δy = Δx
f = desired.mean(1)
g = desired.mean(0) - desired.mean()
best = f[:, None] + g  # least squares on a full rectangle
left_over = (desired - best).square().sum() / (desired - desired.mean()).square().sum()
print(f"the best sum explains {1 - left_over:.1%} of the desired score")

# %% [markdown]
# ## A torus of channels
#
# Without the cut there is no such limit. Lay the channels out as a sheet of $h \times w$, glue its opposite edges, and
# roll it in both directions at once. The sheet is then a torus, and a wave travels on it in two dimensions. (The
# paper's discussion imagines waves over more complex topographies than a ring.) The Kronecker product $\otimes$ rolls the rows by
# $y$ and the columns by $x$:
#
# $$
# \mathrm{Roll}_{(y, x)}(q) = \bigl( S_h^{\,y} \otimes S_w^{\,x} \bigr) \, q, \qquad q \in \mathbb{R}^{h w}
# $$ (eq-torus)

# %%
from rollpe.ring import torus_roll

h, w, y, x = 3, 4, 1, 2
q = torch.arange(h * w).view(h, w)
rolled = q[(torch.arange(h)[:, None] + y) % h, (torch.arange(w) + x) % w]
print(f"at (0, 0): {q.tolist()}\nat ({y}, {x}): {rolled.tolist()}")
library = torus_roll(q.flatten(), torch.tensor([y, x]), (h, w))
agree("eq-torus", library, rolled.flatten())


# %% tags=["hide-input"]
def S(n, p):
    return torch.eye(n).roll(int(p), 1)


q, p = torch.randn(3, 4, 10), torch.randint(-9, 10, (3, 4, 2))  # three images
kron = torch.stack([torch.kron(S(2, y), S(5, x)) for y, x in p.view(12, 2)])
kron = kron.view(3, 4, 10, 10)
found = [torus_roll(q, p, (2, 5)), torus_roll(q, p[0], (2, 5))]  # p of each, p of all
agree("eq-torus", found, [(K * q[..., None, :]).sum(-1) for K in (kron, kron[0])])

# %% [markdown]
# Rolls in the two directions commute, so the score is relative in both:
#
# $$
# \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) = q^\top \bigl( S_h^{\,\Delta_y} \otimes S_w^{\,\Delta_x} \bigr) k
# $$ (eq-torus-score)

# %%
q, k = torch.randn(2, len(positions), h * w)
sheets = zip(k.view(-1, h, w), offsets, strict=True)  # offsets from the middle query
keys = torch.stack([key.roll((-y, -x), (0, 1)) for key, (y, x) in sheets]).flatten(1)
score, moved = (torus_roll(q, p, (h, w)) @ torus_roll(k, p, (h, w)).T for p in places)
agree("eq-torus-score", [score[middle], moved], [keys @ q[middle], score])

# %% [markdown]
# It is also complete, meaning that it can be any function $f$ of the offset. A one in the corner of the query's sheet
# selects the key's channel at the offset:
#
# $$
# \begin{gathered} q = e_{(0,0)},\ k = f \quad \Longrightarrow \\
# \mathrm{Roll}_{p}(q)^\top \mathrm{Roll}_{p'}(k) = f_{(\Delta_y \bmod h,\; \Delta_x \bmod w)} \end{gathered}
# $$ (eq-torus-complete)

# %%
e, f = torch.eye(h * w)[0], torch.randn(h, w)  # on the sheet of 3 × 4
q, k = (x.expand(len(positions), -1) for x in (e, f.flatten()))
score = torus_roll(q, positions, (h, w)) @ torus_roll(k, positions, (h, w)).T
y, x = (positions - positions[:, None]).unbind(-1)  # of all pairs
agree("eq-torus-complete", score, f[y % h, x % w])

# %% [markdown]
# So a torus can also score the diagonal, with one channel for each offset:

# %%
h, w = len(down), len(right)
f = torch.zeros(h, w)
f[down[:, None] % h, right % w] = desired
keys = torus_roll(f.flatten().expand(len(every), -1), every, (h, w))
on_torus = keys[:, 0].view(h, w)  # q is one in the corner
agree(f"the diagonal, on {h} × {w} channels", on_torus, desired)

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

# %%
from rollpe.formulas import rotation_angles
from rollpe.ring import rotate_pairs

axial = create_encoding("axial-rope", head_dim=head_dim, heads=1).double()
p, along = positions.double(), torch.block_diag(theta[:, None], theta[:, None])
library = [rotation_angles(p, along), rotate_pairs(q, phi), axial(q, q, p)[0]]
agree("eq-axial-rope", library, [phi, turned, turned])

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
score = multiplexed_roll(q, p) @ multiplexed_roll(k, p).T
halfway = (2 * p % odd == p[:, None]).double()
agree("every token attends to one, halfway", score, halfway)
assert torch.equal(score.argmax(-1)[::2], p[: (odd + 1) // 2])

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
reading_order = columns * every[:, 0] + every[:, 1]
distinct = len(reading_order.unique())
print(f"{len(every)} offsets, {distinct} in reading order")
assert distinct == 2 * rows * columns - 1
assert columns * 1 + -1 == columns * 0 + (columns - 1)
