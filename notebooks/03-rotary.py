# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Turning instead of adding
#
# A table of distances ({doc}`02-distances`) must be learned, and its length is limited. RoPE {cite}`su2024roformer`
# needs no table. It rotates every query and key by an angle proportional to its position. A dot product of rotated
# vectors depends only on the difference of their angles, so the score depends only on the distance of the two
# tokens.
#
# This chapter derives RoPE from two channels and a quarter turn. It also checks four statements of the
# introductions listed in {doc}`01-order`. One is true with a remark; the other three are wrong as stated:
#
# - A short program computes the printed formula (*order*, {cite}`teaching-order`). It does, with the channels in
#   another order.
# - The score is the plain score times a cosine (*equivariance*, {cite}`teaching-equivariance`). A sine is missing.
# - Scores shrink with distance (*equivariance* and *circles*, {cite}`teaching-circles`). The key decides where they
#   are largest.
# - In linear attention the rotation may go inside the feature map (*equivariance*). With the usual feature map it
#   must come after.

# %% tags=["parameters"]
d: int = 8  # channels of a query, an even number [4..128 step 2]
tokens: int = 10  # tokens of the sequence, N [4..64]
r: int = 12  # the offset at which the score of a key is largest [0..40]
base: float = 10000.0  # sets how far the frequencies spread [1.5..1000000]
seed: int = 0  # seed of the random queries and keys [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import scaled_dot_product_attention

from rollpe.encodings import create_encoding, grid_positions
from rollpe.textbook import (
    decay_bound,
    decode,
    dynamic_frequencies,
    elu_feature,
    layout_order,
    linear_attention,
    llama3_frequencies,
    longrope_frequencies,
    longrope_temperature,
    ntk_base,
    rope,
    rope_frequencies,
    rope_score,
    rotary_linear_attention,
    rotation_matrix,
    similarity_kernel,
    softmax,
    xpos,
    xpos_scales,
    yarn_frequencies,
    yarn_temperature,
)
from rollpe_book import figures
from rollpe_book.agree import agree, gap

figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Two channels, a quarter turn
#
# Take two channels as a point in the plane, and turn the point by an angle proportional to the position $p$:
#
# $$
# \begin{bmatrix} x'_{2i} \\ x'_{2i+1} \end{bmatrix} =
# \begin{bmatrix} \cos p\,\theta_i & -\sin p\,\theta_i \\ \sin p\,\theta_i & \cos p\,\theta_i \end{bmatrix}
# \begin{bmatrix} x_{2i} \\ x_{2i+1} \end{bmatrix}
# $$ (eq-rope-pair)
#
# By hand, let $\theta = 90°$. One position is then a quarter turn, which sends $(a, b)$ to $(-b, a)$. Take the
# query $q = (2, 1)$ and the key $k = (1, 3)$. Without rotation, $q^\top k = 2 + 3 = 5$.
#
# | query at | key at | turned query | turned key | score |
# | --- | --- | --- | --- | --- |
# | 0 | 1 | $(2, 1)$ | $(-3, 1)$ | $-6 + 1 = -5$ |
# | 1 | 2 | $(-1, 2)$ | $(-1, -3)$ | $1 - 6 = -5$ |
# | 10 | 11 | $(-2, -1)$ | $(3, -1)$ | $-6 + 1 = -5$ |
# | 1 | 0 | $(-1, 2)$ | $(1, 3)$ | $-1 + 6 = 5$ |
#
# The first three rows have the same offset and the same score at different positions. The last row has the opposite
# offset, and another score.

# %%
q, k = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 3.0])
quarter = torch.tensor([math.pi / 2])
for m, n in ((0, 1), (1, 2), (10, 11), (1, 0)):
    positions = torch.tensor([m, n])
    turned_q, turned_k = rope(torch.stack((q, k)), positions, quarter)
    score = (turned_q @ turned_k).item()
    print(f"query at {m:2}, key at {n:2}: score {score:+.12g}")
    assert abs(score - (5 if m > n else -5)) < 1e-12

# %% [markdown]
# ## Many pairs, many speeds
#
# A query of $d$ channels holds $d/2$ such pairs. Each turns at its own speed, from one radian per position down to
# almost nothing. The speeds are those of the sinusoidal code ({doc}`02-distances`):
#
# $$
# \theta_i = 10000^{-2i/d}, \qquad i = 0, \dots, \tfrac{d}{2} - 1
# $$ (eq-rope-frequencies)
#
# A point of the plane is a complex number, and turning is multiplying:
#
# $$
# z_i = x_{2i} + \mathrm{i}\, x_{2i+1}, \qquad z_i \mapsto z_i \, e^{\mathrm{i} p \theta_i}
# $$ (eq-rope-complex)
#
# Written as a matrix, the encoding has the position in an exponent. $R(\varphi)$ is the rotation of the plane by
# $\varphi$, and the sign $\bigoplus$ puts blocks along the diagonal, as $\operatorname{diag}$ does:
#
# $$
# \begin{aligned} R_p &= \operatorname{diag}\bigl( R(p\,\theta_0), \dots, R(p\,\theta_{d/2-1}) \bigr) \\
# &= \exp\!\left( p \bigoplus_i \begin{bmatrix} 0 & -\theta_i \\ \theta_i & 0 \end{bmatrix} \right) \end{aligned}
# $$ (eq-rope-block)
#
# The base 10000 was chosen for text. The row of an image has far fewer positions than a text, so most pairs would
# hardly turn from one end to the other. RoPE for images was published with the base 100 {cite}`heo2024rotary`.
# Every trained `axial-rope` of this book has that base, unless another one is named. The results of this page hold
# for any base.
#
# {doc}`06-continuous` writes the roll in the same way as the last form, with another matrix in the exponent.

# %%
theta = rope_frequencies(d, base)
p = torch.arange(tokens)
q, k, v = torch.randn(3, tokens, d)


def as_complex(x):
    """Pairs of neighbors [..., d] as complex numbers [..., d/2]."""
    return torch.complex(x[..., 0::2], x[..., 1::2])


turned = as_complex(q) * torch.exp(1j * p[:, None] * theta)
agree("pairs and complex numbers", as_complex(rope(q, p, theta)), turned)

turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
R = torch.matrix_exp(3 * torch.kron(torch.diag(theta), turn))
agree("blocks and the exponential", rotation_matrix(3 * theta), R)

# %% [markdown]
# ## Why the score depends on the difference
#
# Two facts about rotations are enough. Angles add up, and the transpose turns back:
#
# $$
# R_m R_n = R_{m+n}, \qquad R_m^\top = R_{-m}
# $$ (eq-rope-group)
#
# ```{prf:theorem} RoPE is relative
# :label: thm-rope-relative
# For a query at position $m$ and a key at position $n$, the score depends on $n - m$ alone:
# ```
#
# $$
# (R_m q)^\top (R_n k) = q^\top R_{n-m} \, k
# $$ (eq-rope-relative)
#
# ```{prf:proof}
# $(R_m q)^\top R_n k = q^\top R_m^\top R_n k = q^\top R_{-m} R_n k = q^\top R_{n-m} k$, by {eq}`eq-rope-group`.
# ```
#
# The positions may be any real numbers, and no table limits their range. Scores cannot grow with the position
# either, because lengths stay the same:
#
# $$
# \|R_p x\| = \|x\|
# $$ (eq-rope-norm)

# %%
scores = rope(q, p, theta) @ rope(k, p, theta).T
by_offset = torch.empty(tokens, tokens)
for m in range(tokens):
    for n in range(tokens):
        by_offset[m, n] = q[m] @ rotation_matrix((n - m) * theta) @ k[n]
agree("the score, from the offset alone", scores, by_offset)
elsewhere = p + 1000.5
moved = rope(q, elsewhere, theta) @ rope(k, elsewhere, theta).T
agree("all positions moved by 1000.5", moved, scores, tolerance=1e-10)
agree("lengths", rope(q, p, theta).norm(dim=1), q.norm(dim=1))

# %% [markdown]
# *Order* and *circles* say that RoPE carries absolute *and* relative positions. The rotated vectors do depend on
# absolute positions. But attention uses only their scores, which by the theorem depend on offsets alone, and the
# values are not rotated at all.
#
# ## Which channels make a pair?
#
# *Order* pairs neighbors, $(0, 1), (2, 3), \dots$, in its formula, and splits the channels into halves, $(0,
# d/2), (1, d/2 + 1), \dots$, in its program. Both are in use in public models. They give different vectors, but the
# same encoding with its channels in another order. Put the channels with even numbers first and those with odd
# numbers after them, and one becomes the other:
#
# $$
# \begin{gathered} R^{\text{half}}_p = \Pi R^{\text{interleaved}}_p \Pi^\top, \\
# \Pi x = (x_0, x_2, \dots,\; x_1, x_3, \dots) \end{gathered}
# $$ (eq-rope-layouts)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-layouts", "caption": "The two layouts of eight channels. An arc joins the two channels that turn together; the color is the speed, from the fast pair 0 to the slow pair 3."}, "image": {"alt": "Two rows of eight numbered dots. In the upper row, interleaved, short arcs join dots 0 and 1, 2 and 3, 4 and 5, 6 and 7. In the lower row, split halves, long overlapping arcs join 0 and 4, 1 and 5, 2 and 6, 3 and 7. Arcs of equal color belong to equal speeds."}}
colors = [figures.VERMILION, figures.ORANGE, figures.GREEN, figures.BLUE]
fig, axes = plt.subplots(2, 1, figsize=(6.2, 2.9), height_ratios=[1, 2])
for axis, layout, title in (
    (axes[0], "interleaved", "neighbors (the formula)"),
    (axes[1], "half", "split halves (the program)"),
):
    for pair, color in enumerate(colors):
        a, b = (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, pair + 4)
        t = torch.linspace(0, math.pi, 60)
        axis.plot(
            (a + b) / 2 - (b - a) / 2 * t.cos(),
            0.42 + (b - a) * 0.5 * t.sin(),
            color=color,
            label=f"pair {pair}",
        )
        for channel in (a, b):
            axis.plot(channel, 0, "o", color=color, markersize=15)
            axis.text(
                channel,
                -0.03,
                str(channel),
                color="white",
                ha="center",
                va="center",
                fontweight="bold",
            )
        axis.text(
            (a + b) / 2,
            0.5 + (b - a) * 0.5,
            rf"$\theta_{pair}$",
            color=color,
            ha="center",
            va="bottom",
            fontsize=9,
        )
    axis.set(
        xlim=(-0.6, 7.6),
        ylim=(-0.5, 1.7 if layout == "interleaved" else 3.3),
        xticks=[],
        yticks=[],
        title=title,
    )
    axis.spines[:].set_visible(False)
plt.close(fig)
fig

# %% [markdown]
# The colors of {numref}`fig-layouts` are the same in both rows, in another order. Scores are sums over channels,
# which do not depend on the order of the channels. So a model may use either layout, as long as queries and keys
# use the same one. Weights that were trained with one layout give wrong results with the other, until the columns
# of $W_Q$ and $W_K$ are reordered.

# %%
order = layout_order(d)
print("the order of the channels:", order.tolist())
interleaved, half = rope(q, p, theta), rope(q, p, theta, "half")
reordered = rope(q[:, order], p, theta, "half")
print(f"the layouts differ by up to {gap(interleaved, half):.2f}")
agree("but not after reordering", reordered, interleaved[:, order])
mixed = interleaved @ rope(k, p, theta, "half").T
print(f"query in one, key in the other: {gap(mixed, scores):.2f} off")
assert gap(interleaved, half) > 0.1 and gap(mixed, scores) > 0.1

# %% [markdown]
# The program has a second problem. Its angles are 32-bit numbers, so a query of 16 bits is returned with 32, while
# the values still have 16. PyTorch's fused attention refuses the mixture. Computing the angles in 16 bits would be
# worse ({ref}`exercise-rotary-half`). The library computes them with 32 bits or more, and returns the type of its
# input.

# %%
library = create_encoding("rope", head_dim=d, heads=1, axes=1, base=base)
places = grid_positions(tokens)
narrow = q[None, None].to(torch.bfloat16)  # one image, one head
careless = narrow * torch.ones(d, dtype=torch.float32)  # cosines of 32 bits
ours = library.encode(narrow, places)
for name, turned in (("careless", careless), ("ours", ours)):
    try:
        scaled_dot_product_attention(turned, turned, narrow)
        fate = "accepted"
    except RuntimeError:
        fate = "refused"
    print(f"{name:8} {narrow.dtype} becomes {turned.dtype}: {fate}")
assert ours.dtype == narrow.dtype != careless.dtype
exact = library.encode(q[None, None], places)[0, 0]
agree("the library's rope", exact, interleaved)

# %% [markdown]
# ## The score as a sum of waves
#
# Write the score of one query and one key as a function of the offset. Each pair adds a cosine *and* a sine:
#
# $$
# \begin{aligned} & (R_m q)^\top (R_n k) = \operatorname{Re} \sum_i \bar q_i k_i \, e^{\mathrm{i} \theta_i \Delta} \\
# & \quad = \sum_i \left( a_i \cos \theta_i \Delta - b_i \sin \theta_i \Delta \right), \\
# & \Delta = n - m, \qquad a_i + \mathrm{i} b_i = \bar q_i k_i \end{aligned}
# $$ (eq-rope-score)
#
# Here $q_i$ and $k_i$ are the complex numbers of pair $i$. Their $a_i$ is the dot product of the two pairs, and
# $b_i$ the area that they span, negative if the key lies clockwise of the query. *Equivariance* drops the sine and
# prints $\langle q, k \rangle \cos((m-n)\theta)$. For a single pair, with its two channels $q_0, q_1$ and $k_0,
# k_1$, the missing term is:
#
# $$
# \begin{aligned} & (R_m q)^\top (R_n k) - q^\top k \cos \theta \Delta \\
# & \quad = -(q_0 k_1 - q_1 k_0) \sin \theta \Delta \quad (d = 2) \end{aligned}
# $$ (eq-rope-score-printed)
#
# In the example by hand, $q^\top k \cos 90° = 0$, but the score is $-5$. The missing term is
# $-(2 \cdot 3 - 1 \cdot 1) \cdot 1 = -5$, the whole score. The slip matters: a cosine is the same on both sides of zero, so the printed
# score could not distinguish before from after. The sine carries the direction.

# %%
offset = torch.arange(-20, 21)
one_q, one_k = q[0], k[0]
literal = rope(one_k.expand(len(offset), d), offset, theta) @ one_q
waves = [rope_score(one_q, one_k, delta, theta) for delta in offset.tolist()]
agree("cosines and sines", torch.stack(waves), literal)

a = (one_q * one_k).view(d // 2, 2).sum(dim=1)
printed = (a * torch.cos(offset[:, None] * theta)).sum(dim=1)
print(f"cosines alone: wrong by up to {gap(printed, literal):.2f}")
agree("cosines alone, left against right", printed, printed.flip(0))
assert gap(printed, literal) > 0.1 and gap(literal, literal.flip(0)) > 0.1

# %% [markdown]
# ## Does the score fade with distance?
#
# It need not. Take first the special key $k = q$. Then every $b_i$ is zero, and if the pairs of $q$ are equally
# long, the score over $\|q\|^2$ is the mean of the cosines:
#
# $$
# \begin{aligned} g(\Delta) &= \frac{(R_p q)^\top (R_{p+\Delta}\, q)}{\|q\|^2} \\
# &= \frac{2}{d} \sum_i \cos \theta_i \Delta \quad \text{if } |q_0| = |q_1| = \dots \end{aligned}
# $$ (eq-rope-kernel)
#
# This *kernel* is $1$ at $\Delta = 0$ and smaller everywhere near. Hence the statement of *circles* that scores
# "naturally shrink as distance increases". But the kernel belongs to this one key. Another key, a rotated copy of
# the query, has its largest score at any offset $r$:
#
# $$
# \begin{aligned} & k = R_{-r}\, q \quad \Longrightarrow \quad (R_m q)^\top (R_n k) \\
# & \quad = \sum_i |q_i|^2 \cos \theta_i (\Delta - r) \le \|q\|^2 \end{aligned}
# $$ (eq-any-peak)
#
# This follows from {eq}`eq-rope-relative`: $q^\top R_\Delta R_{-r}\, q = q^\top R_{\Delta - r}\, q$. The cosines
# are all $1$ at $\Delta = r$, so the score is largest there. A model can learn such keys: queries and keys come out
# of learned matrices, and a rotation is a matrix. Heads that attend to a fixed distance can be built like this, and
# have been found in trained models {cite}`barbero2024round`.

# %%
flat = torch.tensor([1.0, 0.0]).repeat(d // 2)  # all pairs equally long
asking = rotation_matrix(-r * theta) @ flat
at = torch.arange(-80, 81)
kernel = rope(flat.expand(len(at), d), at, theta) @ flat / (d / 2)
peak = rope(asking.expand(len(at), d), at, theta) @ flat / (d / 2)
agree("the kernel", kernel, similarity_kernel(at, theta))
agree("the kernel, moved by r", peak, similarity_kernel(at - r, theta))
print(f"largest score at offset {at[peak.argmax()]}")
assert at[peak.argmax()] == r

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-peaks", "caption": "Scores of one query with three keys, against the offset, for a head of 64 channels. The query and RoPE are the same in all three; only the key differs."}, "image": {"alt": "Three curves of score against offset from minus 40 to 40. The first has its highest point, one, at offset zero and falls off on both sides with ripples. The second is the same curve moved to the right, with its peak at another offset. The third is a smaller irregular wave without any preference for zero."}}
wide_theta = rope_frequencies(64, base)
wide_q = torch.tensor([1.0, 0.0]).repeat(32)
generator = torch.Generator().manual_seed(seed)
free = torch.randn(64, generator=generator)
wide_keys = {
    "k = q": (wide_q, figures.BLUE),
    f"k = q, turned back by r = {r}": (
        rotation_matrix(-r * wide_theta) @ wide_q,
        figures.VERMILION,
    ),
    "k random": (free * wide_q.norm() / free.norm(), figures.MUTED),
}
fine = torch.linspace(-40, 40, 801)
fig, axis = plt.subplots(figsize=(7.0, 3.2))
for name, (key, color) in wide_keys.items():
    curve = rope(key.expand(len(fine), 64), fine, wide_theta) @ wide_q / 32
    axis.plot(fine, curve, color=color, linewidth=1.6, label=name)
    if "random" in name:
        x, y, side = -39, curve[:200].max() + 0.03, "left"
    else:
        x, y = fine[curve.argmax()], 1.03
        side = "right" if name == "k = q" else "left"
    axis.text(x, y, name, color=color, ha=side, va="bottom", fontsize=9)
axis.axhline(0, color=figures.MUTED, linewidth=0.6)
axis.set(
    xlabel="offset Δ of the key (tokens)",
    ylabel="score / ‖q‖²",
    xlim=(-40, 40),
    ylim=(-0.6, 1.15),
)
plt.close(fig)
fig

# %% [markdown]
# The curves of {numref}`fig-peaks` peak at different offsets. Turning the key moves the curve and keeps its shape; a
# random key gives another shape.
#
# Both texts refer to a proof in the original paper {cite}`su2024roformer`. It bounds the score from above, by
# summation by parts, with $h_i = \bar q_i k_i$:
#
# $$
# \begin{aligned} & \Bigl| \sum_{i} h_i e^{\mathrm{i} \theta_i \Delta} \Bigr| \\
# & \quad \le \max_i |h_{i+1} - h_i| \sum_{j} \Bigl| \sum_{i \le j} e^{\mathrm{i} \theta_i \Delta} \Bigr|, \\
# & h_{d/2} = 0 \end{aligned}
# $$ (eq-decay-bound)
#
# A falling bound does not force a falling score. This bound does not even fall at every step, and it is loose, as
# the random key of {numref}`fig-peaks` shows:

# %%
h = as_complex(wide_q).conj() * as_complex(free)  # the random key
steepest = torch.cat((h, torch.zeros(1))).diff().abs().max()
delta = torch.arange(257)
bound = decay_bound(delta, wide_theta)
size = (h * torch.exp(1j * delta[:, None] * wide_theta)).sum(dim=1).abs()
assert (size <= steepest * bound + 1e-9).all()
rising = bound.diff() > 0
first = rising.nonzero()[0].item()
print(f"{rising.sum()} of {len(rising)} steps go up, first at Δ = {first}")
ratio = (steepest * bound / size).min().item()
print(f"random key: the bound is at least {ratio:.0f} times the score")
assert rising.any()

# %% [markdown]
# Does the score at least vanish at infinity? As the distance grows without limit, says *equivariance*, the sum of
# cosines goes to $0$, because waves of different frequency are orthogonal. But orthogonality is a statement about
# means: the *mean* over all distances goes to $0$. The sum itself has no limit. It is almost periodic: it returns
# as near to its greatest value as you like.
#
# ```{prf:proposition} The kernel comes back
# :label: prop-comes-back
# Whatever the frequencies are, for every whole number $M \ge 2$ there is an offset between $1$ and $M^{d/2}$ at
# which no pair is more than one $M$-th of a turn away from where it started:
# ```
#
# $$
# \begin{gathered} \limsup_{\Delta \to \infty} g(\Delta) = 1, \\
# \max_{1 \le \Delta \le M^{d/2}} \; \min_i \cos \theta_i \Delta \;\ge\; \cos \tfrac{2\pi}{M} \end{gathered}
# $$ (eq-almost-periodic)
#
# ```{prf:proof}
# Think of the angle $\theta_i \Delta$ of each pair as a hand on a dial, and cut each of the $d/2$ dials into $M$
# equal sectors. At the offsets $0, 1, \dots, M^{d/2}$ the hands show $M^{d/2} + 1$ combinations of sectors, but
# there are only $M^{d/2}$ different ones. So two offsets share a combination. Between these two every hand has
# moved by whole turns and less than one $M$-th of a turn. Their difference is the offset wanted. Larger and larger
# $M$ give the limit; if one offset serves for all $M$, the return is exact, and its multiples give the limit.
# ```
#
# The argument is Dirichlet's, for approximating several numbers at once by fractions with one denominator.
#
# With eight channels each of the four hands is ten times slower than the one before. When the slowest has gone
# around a whole number of times, so have the others; only the offset must be near a whole number, too. The code
# finds such an offset:

# %%
far = torch.arange(200_001)
eight = similarity_kernel(far, rope_frequencies(8))
back = int(eight[100:].argmax()) + 100
print(f"d = 8: the kernel is back at {eight[back]:.6f} at Δ = {back:,}")
turns = rope_frequencies(8) * back / (2 * math.pi)
print("turns of the hands by then:", *(f"{x:,.3f}" for x in turns.tolist()))
for reach in (100, 1000, 10_000, 100_000):
    print(f"mean of the first {reach:7,}: {eight[:reach].mean():+.4f}")

few = rope_frequencies(4, base)
for M in (6, 24, 96):
    offsets = torch.arange(1, M**2 + 1)
    worst = torch.cos(offsets[:, None] * few).amin(dim=1).max()
    promised = math.cos(2 * math.pi / M)
    print(f"d = 4, M = {M:2}: {worst:.4f} reached, {promised:.4f} promised")
    assert worst >= promised

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-fade", "caption": "Top: the bound of the original paper for a head of 64 channels, divided by its value at 0; rising steps in red. Bottom: the kernel of eight channels around distance 0 and around its return."}, "image": {"alt": "Top: a curve that falls steeply and then slowly from one to about a quarter over 256 positions, with ripples all along; every rising piece is red. Bottom: two curves against offset from minus 30 to 30, a thick pale one centered at zero and a thin dark one centered at the offset of the return. Both wave up and down, highest in the middle, and they coincide."}}
fig, (top, bottom) = plt.subplots(2, 1, figsize=(7.0, 4.6))
relative = bound / bound[0]
top.plot(delta, relative, color=figures.BLUE, linewidth=1.4, label="bound")
for start in rising.nonzero().flatten().tolist():
    step = slice(start, start + 2)
    top.plot(
        delta[step],
        relative[step],
        color=figures.VERMILION,
        linewidth=2.4,
        label="rising step",
    )
top.set(
    title="the bound goes up and down",
    xlabel="distance Δ (tokens)",
    ylabel="bound",
    xlim=(0, 256),
    ylim=(0, 1.05),
)
around = torch.arange(-30, 31)
here, there = (
    similarity_kernel(around + start, rope_frequencies(8)) for start in (0, back)
)
bottom.plot(around, here, color=figures.BLUE, linewidth=7, alpha=0.45, label="around 0")
bottom.plot(around, there, color=figures.INK, linewidth=1.1, label=f"around {back}")
bottom.text(-29, 1.03, "thick: around 0", color=figures.BLUE, fontsize=9)
bottom.text(
    29, 1.03, f"thin: around Δ = {back:,}", color=figures.INK, ha="right", fontsize=9
)
bottom.set(
    title="the kernel comes back",
    xlabel="distance from there (tokens)",
    ylabel="kernel g",
    ylim=(0, 1.2),
)
plt.close(fig)
fig

# %% [markdown]
# In the upper panel of {numref}`fig-fade` the bound rises where it is red. The two curves of the lower panel
# coincide: at that distance the kernel is as large as for neighbors. Such distances do not occur in images. Still,
# RoPE does not make scores fade; a trained model may.
#
# ## Linear attention
#
# Softmax attention compares every query with every key. *Linear* attention
# {cite}`katharopoulos2020transformers` replaces the exponential of a dot product by a dot product of positive
# features, so that keys and values can be summed once for all queries. The usual feature acts on each channel: it
# is $x + 1$ for positive $x$, and $e^x$ otherwise.
#
# $$
# \begin{gathered} y_i = \frac{\phi(q_i)^\top \sum_j \phi(k_j) v_j^\top}{\phi(q_i)^\top \sum_j \phi(k_j)}, \\
# \phi(x) = \operatorname{elu}(x) + 1 \end{gathered}
# $$ (eq-linear-attention)
#
# *Circles* and *equivariance* say rightly that RoPE fits linear attention, because it rotates each token by itself.
# *Equivariance* puts the rotation inside, $\phi(R_m q)$. Then, with this $\phi$, the score is no longer relative,
# because $\phi$ treats the axes of the plane differently from all other directions:
#
# $$
# \begin{aligned} & \phi(R_{m+s}\, q)^\top \phi(R_{n+s}\, k) \\
# & \quad \neq \phi(R_m q)^\top \phi(R_n k) \end{aligned}
# $$ (eq-linear-rope-printed)
#
# By hand, again with $q = (2, 1)$, $k = (1, 3)$ and quarter turns, both at position $0$: $\phi(q) = (3, 2)$ and
# $\phi(k) = (2, 4)$, with the product $14$. Move both to position $2$, half a turn: $\phi(-2, -1) = (e^{-2},
# e^{-1})$ and $\phi(-1, -3) = (e^{-1}, e^{-3})$. Now the product is less than a tenth, $e^{-3} + e^{-4}$. The
# offset is $0$ in both cases.
#
# With other features the rotation may go inside. Performer {cite}`choromanski2021performer`, which *circles* and
# *equivariance* name, has random ones, $e^{w^\top x - \|x\|^2/2}$ with a normal $w$ for each, whose product is
# $e^{q^\top k}$ on average. So with many features the score is close to relative.
#
# The paper of RoPE rotates *after* $\phi$ {cite}`su2024roformer`. Then the score is relative, by the same theorem
# with $\phi(q)$ in place of $q$:
#
# $$
# \bigl( R_m \phi(q) \bigr)^\top R_n \phi(k) = \phi(q)^\top R_{n-m} \, \phi(k)
# $$ (eq-linear-rope)

# %% tags=["hide-input"]
pair = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
for place in (0, 2):
    fq, fk = elu_feature(rope(pair, torch.full((2,), place), quarter))
    print(f"φ(Rq)·φ(Rk), both at position {place}: {fq @ fk:.4f}")

normal = torch.randn(200_000, 2, generator=torch.Generator().manual_seed(seed))
short = pair / 4  # long vectors would need many more features
for place in (0, 2):
    x = rope(short, torch.full((2,), place), quarter)
    fq, fk = torch.exp(x @ normal.T - x.square().sum(dim=1, keepdim=True) / 2)
    mean = (fq * fk).mean().item()
    wanted = math.exp(short[0] @ short[1])
    print(f"Performer's, both at position {place}: {mean:.2f} of {wanted:.2f}")
    assert abs(mean / wanted - 1) < 0.03


def inside(s):
    """Scores with the rotation inside φ, all positions moved by s."""
    fq, fk = (elu_feature(rope(x, p + s, theta)) for x in (q, k))
    return fq @ fk.T


def after(s):
    """Scores with the rotation after φ."""
    fq, fk = (rope(elu_feature(x), p + s, theta) for x in (q, k))
    return fq @ fk.T


print(f"inside: a shift by 3: {gap(inside(3), inside(0)):.2f} off")
agree("after: a shift by 3", after(3), after(0), tolerance=1e-11)
assert gap(inside(3), inside(0)) > 0.1

# %% [markdown]
# This has a cost. The dot product of rotated features can be negative, and so can a weight. The denominator could
# then be zero. The paper does not rotate it, which keeps it positive, but then the weights no longer add up to one.

# %%
plain = elu_feature(q) @ elu_feature(k).T
total = plain.sum(dim=1, keepdim=True)
weights = after(0) / total
summed_first = rotary_linear_attention(q, k, v, p, theta)
agree("sum first, or pair by pair", summed_first, weights @ v)
summed_first = linear_attention(q, k, v)
agree("the same without turning", summed_first, plain / total @ v)

features = elu_feature(torch.ones(2, 2))  # equal, but half a turn apart
turned = rope(features, torch.tensor([0, 2]), quarter)
print(f"(2, 2) with itself, half a turn apart: {turned[0] @ turned[1]:.0f}")
assert turned[0] @ turned[1] < 0
sums = weights.sum(dim=1)
print(f"weights of a row add up to {sums.min():.2f} … {sums.max():.2f}")

# %% [markdown]
# ## A cache of rotated keys
#
# A key is rotated by its own position, once, and can be stored like that. When token $t$ arrives, only its own
# query and key are rotated, by $R_t$:
#
# $$
# y_t = \sum_{j \le t} \operatorname{softmax}_j\!\left( \frac{(R_t q_t)^\top (R_j k_j)}{\sqrt{d}} \right) v_j
# $$ (eq-cache-rope)
#
# *Equivariance* is right that RoPE works with a cache. But so does Shaw's encoding ({doc}`02-distances`): it stores
# the plain key and looks up the offset, RoPE stores the rotated key and looks up nothing.

# %%
cached = decode(rope(q, p, theta), rope(k, p, theta), v)
later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
alpha = softmax(by_offset.masked_fill(later, -torch.inf) / math.sqrt(d))
agree("step by step against all at once", cached, alpha @ v)

# %% [markdown]
# ## Longer sequences
#
# In a window $s$ times as long as the $N$ tokens of training, slow pairs turn by angles that the model has never
# seen. *Position interpolation* {cite}`chen2023extending` divides all positions by $s$. The angles are known again,
# but neighbors are now closer together in every pair. *NTK-aware scaling* {cite}`bloc2023ntk` raises the base
# instead. The fastest pair keeps its speed, and only the slowest is divided by $s$:
#
# $$
# \begin{gathered} 10000 \mapsto 10000 \, s^{d/(d-2)}, \\
# \theta_i \mapsto \theta_i \, s^{-i/(d/2-1)} \end{gathered}
# $$ (eq-ntk)
#
# YaRN {cite}`peng2024yarn` counts turns. Pairs that make more than $32$ of them in $N$ tokens keep their speed,
# pairs that make less than $1$ are divided by $s$, and a share $u_i$ leads from one to the other. A factor on
# queries and keys sharpens the weights:
#
# $$
# \begin{gathered} \theta_i \mapsto \theta'_i = u_i \theta_i + (1 - u_i) \, \theta_i / s, \\
# u_i = \min\bigl( 1, \max( 0, \tfrac{b - i}{b - a} ) \bigr), \\
# a = \Bigl\lfloor \frac{d \ln (N / 64\pi)}{2 \ln 10000} \Bigr\rfloor, \quad
# b = \Bigl\lceil \frac{d \ln (N / 2\pi)}{2 \ln 10000} \Bigr\rceil, \\
# R'_p = (0.1 \ln s + 1) \operatorname{diag}\bigl( R(p\,\theta'_0), R(p\,\theta'_1), \dots \bigr) \end{gathered}
# $$ (eq-yarn)
#
# The text of the paper lets $u_i$ fall with the number of turns, its program with $i$, as here.
#
# The Llama models for long texts {cite}`grattafiori2024llama` let the share fall with the number of turns, from $4$
# to $1$, and have no factor on queries and keys:
#
# $$
# \begin{gathered} \theta_i \mapsto u_i \theta_i + (1 - u_i) \, \theta_i / s, \\
# u_i = \min\Bigl( 1, \max\Bigl( 0, \frac{N \theta_i / 2\pi - 1}{4 - 1} \Bigr) \Bigr) \end{gathered}
# $$ (eq-llama3)
#
# Two more ways depend on the length $L$ of the text, its largest position plus one. *Dynamic* scaling
# {cite}`emozilla2023dynamic` raises the base as NTK-aware scaling does, but only for $L > N$ and more for longer
# texts:
#
# $$
# 10000 \mapsto 10000 \, s_L^{d/(d-2)}, \qquad s_L = \max\bigl( 1, \, s L / N - (s - 1) \bigr)
# $$ (eq-dynamic)
#
# LongRoPE {cite}`ding2024longrope` divides every frequency by a number of its own, found by search. There is one
# list for texts of up to $N$ tokens and one for longer texts, and Phi-3 has a factor on queries and keys, too:
#
# $$
# \begin{gathered} \theta_i \mapsto \theta'_i = \theta_i / \mu_i, \qquad
# \mu_i = \begin{cases} \mu_i^{\text{short}} & L \le N \\ \mu_i^{\text{long}} & L > N, \end{cases} \\
# R'_p = \sqrt{1 + \ln s / \ln N} \, \operatorname{diag}\bigl( R(p\,\theta'_0), R(p\,\theta'_1), \dots \bigr) \end{gathered}
# $$ (eq-longrope)
#
# In these two, a score depends on the length of the text as well. A key in a cache keeps the frequencies of the
# length at which it was rotated.
#
# xPos {cite}`sun2023length` changes the training. Queries are multiplied by $\zeta_i^{m/512}$ and keys by
# $\zeta_i^{-n/512}$, so the score depends on the offset $\Delta = n - m$ and fades into the past, fast pairs first:
#
# $$
# \operatorname{Re} \sum_i \bar q_i k_i \, e^{\mathrm{i} \theta_i \Delta} \, \zeta_i^{-\Delta/512}, \qquad
# \zeta_i = \frac{2i/d + 0.4}{1.4}
# $$ (eq-xpos)
#
# Towards later keys the factor grows, so xPos is for causal attention. The library has it as `xpos`, and the others
# as options of `rope`.

# %%
s, trained = 4, 2048
wide = 128  # channels of a head, as in public language models
known = rope_frequencies(wide)
ways = {
    "interpolation": known / s,
    "NTK-aware": rope_frequencies(wide, ntk_base(10000, s, wide)),
    "YaRN": yarn_frequencies(wide, s, trained),
    "Llama 3.1": llama3_frequencies(wide, s, trained),
    "dynamic": dynamic_frequencies(wide, s, s * trained, trained),
}
for name, changed in ways.items():
    print(f"{name:14} pair 0: {changed[0]:.2f} of its speed,", end=" ")
    print(f"pair {wide // 2 - 1}: {changed[-1] / known[-1]:.2f}")
for name in ("YaRN", "Llama 3.1"):
    print(f"{name} keeps {(ways[name] == known).sum()} of {wide // 2} pairs")

# %% tags=["hide-input"]
zeta = xpos_scales(d)
faded = xpos(q, p, theta, zeta, 512) @ xpos(k, p, theta, zeta, 512, keys=True).T
slowed = rope_frequencies(d, ntk_base(base, s, d))
by_parts = yarn_frequencies(d, s, trained, base)
sharp = yarn_temperature(s) ** 2
by_turns = llama3_frequencies(d, s, trained, base)
half = tokens // 2  # as if trained on texts half as long
by_length = dynamic_frequencies(d, s, tokens, half, base)
lists = [1.0] * (d // 2), [1.0 + i for i in range(d // 2)]
by_list = longrope_frequencies(d, tokens, half, *lists, base)
phi = longrope_temperature(s, half) ** 2
for name, options, wanted in (
    (
        "rope",
        {"scaling": "ntk", "factor": s},
        rope(q, p, slowed) @ rope(k, p, slowed).T,
    ),
    (
        "rope",
        {"scaling": "yarn", "factor": s, "trained": trained},
        sharp * rope(q, p, by_parts) @ rope(k, p, by_parts).T,
    ),
    (
        "rope",
        {"scaling": "llama3", "factor": s, "trained": trained},
        rope(q, p, by_turns) @ rope(k, p, by_turns).T,
    ),
    (
        "rope",
        {"scaling": "dynamic", "factor": s, "trained": half},
        rope(q, p, by_length) @ rope(k, p, by_length).T,
    ),
    (
        "rope",
        {"scaling": "longrope", "factor": s, "trained": half}
        | dict(zip(("short_factor", "long_factor"), lists, strict=True)),
        phi * rope(q, p, by_list) @ rope(k, p, by_list).T,
    ),
    ("xpos", {}, faded),
):
    library = create_encoding(name, head_dim=d, heads=1, axes=1, base=base, **options)
    turned_q, turned_k = library(q[None, None], k[None, None], places)
    label = options.get("scaling", name)
    agree(label, (turned_q @ turned_k.mT)[0, 0], wanted, tolerance=1e-10)

# %% [markdown]
# ```{admonition} In short
# :class: tip
# RoPE rotates pairs of channels by angles proportional to position. Angles add up, so scores are relative,
# {eq}`eq-rope-relative`, at any real position and without a table. Each pair contributes a cosine and a sine of the
# offset, and the sine carries the direction. Scores need not fade with distance: the key decides where they peak,
# and the kernel always returns. In linear attention with the usual feature map, rotate after it. The two layouts
# are one encoding with its channels in another order.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rotary-symmetric
# For which queries and keys is the formula without the sine correct?
# ```
#
# ```{solution} exercise-rotary-symmetric
# :class: dropdown
# When all $b_i$ are zero: in every pair, query and key must lie on one line through the origin, or one of them is
# zero. Then each pair has its own factor in front of its cosine, and the score depends on $|\Delta|$. (If the
# frequencies are distinct and between $0$ and $\pi$, there is no other case: the waves are linearly independent.)
# ```

# %% tags=["hide-cell"]
multiples = torch.randn(d // 2, 1)
parallel = (one_q.view(-1, 2) * multiples).flatten()
score = rope(parallel.expand(len(offset), d), offset, theta) @ one_q
a = (one_q * parallel).view(d // 2, 2).sum(dim=1)
agree("cosines suffice", score, (a * torch.cos(offset[:, None] * theta)).sum(dim=1))
agree("a score of the distance", score, score.flip(0))

# %% [markdown]
# ```{exercise}
# :label: exercise-rotary-values
# Rotate the values as well, $R_j v_j$. Is the result of a token still independent of where the sequence starts? If
# not, repair it.
# ```
#
# ```{solution} exercise-rotary-values
# :class: dropdown
# No: moving everything by $s$ rotates the result by $R_s$. Rotate it back by the query's own position,
# $y_i = R_{-i} \sum_j \alpha_{ij} R_j v_j = \sum_j \alpha_{ij} R_{j-i} v_j$. Now the contribution of a value, too,
# depends on its offset. This is the second table of {eq}`eq-shaw-values`, with a rotation in place of a sum, and is
# used for views of one scene {cite}`miyato2024gta`.
# ```

# %% tags=["hide-cell"]
alpha = softmax(scores / math.sqrt(d))


def read(s, back):
    y = alpha @ rope(v, p + s, theta)
    return rope(y, -(p + s), theta) if back else y


assert gap(read(3, back=False), read(0, back=False)) > 0.1
agree("turned back", read(3, back=True), read(0, back=True), tolerance=1e-11)

# %% [markdown]
# ```{exercise}
# :label: exercise-rotary-half
# The format bfloat16 keeps eight binary digits. Compute the angles of the fastest pair in it, for positions below
# 1024. How many of the positions are still different, and how large is the error of the angle?
# ```
#
# ```{solution} exercise-rotary-half
# :class: dropdown
# Whole numbers are exact up to 256. From there to 512 every second one exists, and from 512 to 1024 every
# fourth, so $256 + 128 + 128$ positions are left, and one more because 1023 is rounded up to 1024. The largest
# error is two positions, two radians at $\theta_0 = 1$: almost a third of a turn.
# ```

# %% tags=["hide-cell"]
exact = torch.arange(1024, dtype=torch.float32)
rounded = exact.to(torch.bfloat16)
print(f"different positions: {len(rounded.unique())} of {len(exact)}")
print(f"largest error of the fastest angle: {gap(rounded.float(), exact):.1f} radians")
assert len(rounded.unique()) == 256 + 128 + 128 + 1
assert gap(rounded.float(), exact) == 2
