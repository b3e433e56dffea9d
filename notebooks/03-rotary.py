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
# # Rotating
#
# A table of offsets ({doc}`02-distances`) must be learned, and its length is limited. Can a score depend on the offset
# without a table? RoPE {cite}`su2024roformer` rotates every query and key by an angle proportional to its position. The
# dot product of two rotated vectors depends only on the difference of their angles, so the score depends only on the
# offset.
#
# Does the score fade with distance? It need not. The key decides at which offset its score is largest, and the score
# of a query with itself comes back, as near to its largest value as one likes.

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

from rollpe import formulas
from rollpe.encodings.frequencies import geometric
from rollpe.ring import rotate_pairs
from rollpe_book import figures
from rollpe_book.agree import agree, differs, holds
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Two channels, a quarter turn
#
# Take channels $2i$ and $2i + 1$ as a point in the plane, and rotate the point by the angle $p\,\theta_i$, which is
# proportional to the position $p$:
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
# | query at | key at | rotated query | rotated key | score |
# | --- | --- | --- | --- | --- |
# | 0 | 1 | $(2, 1)$ | $(-3, 1)$ | $-6 + 1 = -5$ |
# | 1 | 2 | $(-1, 2)$ | $(-1, -3)$ | $1 - 6 = -5$ |
# | 10 | 11 | $(-2, -1)$ | $(3, -1)$ | $-6 + 1 = -5$ |
# | 1 | 0 | $(-1, 2)$ | $(1, 3)$ | $-1 + 6 = 5$ |
#
# The first three rows have the same offset and the same score at different positions. The last row has the opposite
# offset, and another score.


# %%
def rope(x, p, theta):
    """Rotate the pairs (0, 1), (2, 3), … of tokens x [N, d] at positions p [N]."""
    cos, sin = torch.cos(p[:, None] * theta), torch.sin(p[:, None] * theta)
    even, odd = x[:, 0::2], x[:, 1::2]
    return torch.stack(
        (even * cos - odd * sin, even * sin + odd * cos), dim=-1
    ).flatten(1)


# %%
quarter, by_hand = torch.tensor([math.pi / 2]), torch.tensor([[2.0, 1.0], [1.0, 3.0]])
rows = torch.tensor([[0, 1], [1, 2], [10, 11], [1, 0]])  # positions of query and key
turned = torch.stack([rope(by_hand, row, quarter) for row in rows])
agree("eq-rope-pair", turned[:2], [[[2, 1], [-3, 1]], [[-1, 2], [-1, -3]]])
agree("the scores of the table", turned.prod(dim=1).sum(dim=1), [-5, -5, -5, 5])

# %% [markdown]
# ## Many pairs, many speeds
#
# A query of $d$ channels holds $d/2$ such pairs. Each rotates at its own speed. The speeds are the frequencies of the
# sinusoidal code, {eq}`eq-sinusoid-frequency`:
#
# $$
# \theta_i = 10000^{-2i/d}, \qquad i = 0, \dots, \tfrac{d}{2} - 1
# $$ (eq-rope-frequencies)
#
# The base 10000 was chosen for text. The row of an image has far fewer positions, so most pairs would rotate very
# little from one end to the other. RoPE for images was published with the base 100 {cite}`heo2024rotary`. This book
# uses that base for images unless another one is named.

# %%
theta = base ** (-2 * torch.arange(d // 2) / d)
printed = torch.tensor([10000 ** (-2 * i / d) for i in range(d // 2)])
library = [geometric(*c) for c in ((d // 2, base), (d // 2,), (1,))]
agree("eq-rope-frequencies", library, [theta, printed, torch.ones(1)])

# %%
p = torch.arange(tokens)
q, k, v = x = torch.randn(3, tokens, d)
s = p / 2 - 3  # some are negative, some lie between two tokens
rotated = [formulas.rope(x, s, theta), rotate_pairs(x, s[:, None] * theta)]
agree("eq-rope-pair", rotated, 2 * [torch.stack([rope(y, s, theta) for y in x])])

# %% [markdown]
# A point of the plane is a complex number, and rotating is multiplying:
#
# $$
# z_i = x_{2i} + \mathrm{i}\, x_{2i+1}, \qquad z_i \mapsto z_i \, e^{\mathrm{i} p \theta_i}
# $$ (eq-rope-complex)
#
# Written as a matrix, the encoding has the position in an exponent. The exponential of a matrix is the series
# $\exp(A) = I + A + A^2/2 + A^3/6 + \dots$; that of $\bigl[\begin{smallmatrix} 0 & -\varphi \\ \varphi & 0
# \end{smallmatrix}\bigr]$ is $R(\varphi)$, the rotation of the plane by $\varphi$. With $\bigoplus$ for blocks along
# the diagonal, as in $\operatorname{diag}$:
#
# $$
# \begin{aligned} R_p &= \operatorname{diag}\bigl( R(p\,\theta_0), \dots, R(p\,\theta_{d/2-1}) \bigr) \\
# &= \exp\!\left( p \bigoplus_i \begin{bmatrix} 0 & -\theta_i \\ \theta_i & 0 \end{bmatrix} \right) \end{aligned}
# $$ (eq-rope-block)
#
# RollPE has the same form with another matrix in the exponent ({doc}`06-continuous`).

# %%
z = torch.complex(q[:, 0::2], q[:, 1::2])
turned = torch.view_as_real(z * torch.exp(1j * s[:, None] * theta)).flatten(1)
found = [rope(q, s, theta), formulas.rope(q, s, theta)]
agree("eq-rope-complex", found, [turned, turned])

# %%
corner = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
A = torch.block_diag(*(t * corner for t in theta))
exact = torch.matrix_exp(s[:, None, None] * A)
library = torch.stack([formulas.rotation_matrix(a * theta) for a in s])
turned = torch.einsum("pij,pj->pi", exact, q)
agree("eq-rope-block", [library, formulas.rope(q, s, theta)], [exact, turned])

# %% [markdown]
# ## Why the score depends on the difference
#
# Two facts about rotations are enough. Angles add up, and the transpose rotates back:
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
#
# The rotated vectors do depend on absolute positions. But attention uses only their scores, and the values are not
# rotated at all.


# %%
def R(p):
    return formulas.rotation_matrix(p * theta)


m, n = -1.5, 4
found = [R(m) @ R(n), R(m).T]
agree("eq-rope-group", found, [torch.matrix_exp(a * A) for a in (m + n, -m)])

# %%
scores = rope(q, p, theta) @ rope(k, p, theta).T
library = formulas.rope(q, s, theta) @ formulas.rope(k, s, theta).T
row = torch.stack([q[2] @ R(s[n] - s[2]) @ k[n] for n in p])
agree("eq-rope-relative", library[2], row)
moved = rope(q, p + 1000.5, theta) @ rope(k, p + 1000.5, theta).T
agree("all positions moved by 1000.5", moved, scores, tolerance=1e-10)
lengths = [formulas.rope(q, s, theta, way).norm(dim=1) for way in formulas.LAYOUTS]
agree("eq-rope-norm", lengths, 2 * [q.norm(dim=1)])

# %% [markdown]
# ## Which channels make a pair?
#
# Our program pairs neighbors, $(0, 1), (2, 3), \dots$. Other programs split the channels into halves and pair $(0,
# d/2), (1, d/2 + 1), \dots$. Public models use either layout. The two give different vectors, but the same encoding
# with its channels in another order. Put the channels with even numbers first and those with odd numbers after them,
# and one becomes the other:
#
# $$
# \begin{gathered} R^{\text{half}}_p = \Pi R^{\text{interleaved}}_p \Pi^\top, \\
# \Pi x = (x_0, x_2, \dots,\; x_1, x_3, \dots) \end{gathered}
# $$ (eq-rope-layouts)


# %%
def rope_half(x, p, theta):
    """Rotate the pairs (0, d/2), (1, d/2 + 1), …"""
    cos, sin = torch.cos(p[:, None] * theta), torch.sin(p[:, None] * theta)
    first, second = x.chunk(2, dim=1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=1)


# %%
Π = torch.cat((torch.arange(0, d, 2), torch.arange(1, d, 2)))
turned = rope(q, s, theta)[:, Π]
halves = [rope_half(q[:, Π], s, theta), formulas.rope(q[:, Π], s, theta, "half")]
agree("eq-rope-layouts", halves, [turned, turned])
mixed = rope(q, p, theta) @ rope_half(k, p, theta).T
differs("query in one layout, key in the other", mixed, scores, least=0.1)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-layouts", "caption": "The two layouts of eight channels. An arc joins the two channels that turn together; the color is the speed, from the fast pair 0 to the slow pair 3."}, "image": {"alt": "Two rows of eight numbered dots. In the upper row, interleaved, short arcs join dots 0 and 1, 2 and 3, 4 and 5, 6 and 7. In the lower row, split halves, long overlapping arcs join 0 and 4, 1 and 5, 2 and 6, 3 and 7. Arcs of equal color belong to equal speeds."}}
colors = [figures.VERMILION, figures.ORANGE, figures.GREEN, figures.BLUE]
fig, axes = plt.subplots(2, 1, figsize=(6.2, 2.9), height_ratios=[1, 2])
for axis, layout, title in (
    (axes[0], "interleaved", "interleaved: neighbors"),
    (axes[1], "half", "half: split halves"),
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
# The colors of {numref}`fig-layouts` are the same in both rows, in another order. A score is a sum over channels, which
# does not depend on their order. So a model may use either layout, as long as queries and keys use the same one.
# Weights that were trained with one layout give wrong results with the other, until the columns of $W_Q$ and $W_K$ are
# reordered.
#
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
# Here $q_i$ and $k_i$ are the complex numbers of pair $i$, and a bar conjugates. The number $a_i$ is the dot product of
# the two pairs, and $b_i$ the area that they span, negative if the key lies clockwise of the query. The cosines are the
# same on both sides of zero. Only the sines distinguish before from after.

# %%
offset = torch.arange(-40, 41) / 2
z_q, z_k = (torch.complex(x[0, 0::2], x[0, 1::2]) for x in (q, k))
a, b = (z_q.conj() * z_k).real, (z_q.conj() * z_k).imag
angle = theta * offset[:, None]
waves = (a * angle.cos() - b * angle.sin()).sum(dim=1)
found = rope(k[:1].expand(len(offset), d), offset, theta) @ q[0]
library = torch.stack([formulas.rope_score(q, k, x, theta) for x in offset])
agree("eq-rope-score", [found, library[:, 0]], [waves, waves])

# %% [markdown]
# The sines are sometimes forgotten, and the score is written as $q^\top k \cos \theta \Delta$. That is wrong. For
# a single pair, with the real channels $q_0, q_1$ and $k_0, k_1$, the forgotten term is
#
# $$
# \begin{aligned} & (R_m q)^\top (R_n k) - q^\top k \cos \theta \Delta \\
# & \quad = -(q_0 k_1 - q_1 k_0) \sin \theta \Delta \quad (d = 2) \end{aligned}
# $$ (eq-rope-score-printed)
#
# In the example by hand, the cosine of $90°$ is zero, and the sine gives the entire score: $-(2 \cdot 3 - 1 \cdot 1)
# \cdot 1 = -5$.

# %%
(q_0, q_1), (k_0, k_1) = by_hand
one = torch.tensor([0.7])  # θ
keys = by_hand[1:].expand(len(offset), 2)
score = formulas.rope(keys, offset, one) @ by_hand[0]
cosine = (q_0 * k_0 + q_1 * k_1) * torch.cos(one * offset)
sine = (q_0 * k_1 - q_1 * k_0) * torch.sin(one * offset)
agree("eq-rope-score-printed", score - cosine, -sine)
differs("eq-rope-score-printed", score, cosine, least=0.1)

# %% [markdown]
# ## Does the score fade with distance?
#
# It need not. Take first the special key $k = q$. Then every $b_i$ is zero, and if the pairs of $q$ are equally long,
# the score divided by $\|q\|^2$ is the mean of the cosines:
#
# $$
# \begin{aligned} g(\Delta) &= \frac{(R_p q)^\top (R_{p+\Delta}\, q)}{\|q\|^2} \\
# &= \frac{2}{d} \sum_i \cos \theta_i \Delta \quad \text{if } |q_0| = |q_1| = \dots \end{aligned}
# $$ (eq-rope-kernel)
#
# This *kernel* is $1$ at $\Delta = 0$ and smaller everywhere near.

# %%
Delta, phase = torch.arange(-80, 81), torch.randn(d // 2)
u = 3 * torch.stack((phase.cos(), phase.sin()), dim=1).flatten()  # equally long pairs
turned = rope(u.expand(len(Delta), d), Delta + 5.5, theta)
score = turned @ turned[80] / (u @ u)
g = torch.stack([torch.cos(t * Delta) for t in theta]).mean(dim=0)
kernel = formulas.similarity_kernel(Delta[:, None], theta)
agree("eq-rope-kernel", [score, kernel], [g, g[:, None]])

# %% [markdown]
# But the kernel belongs to this one key. Another key, a rotated copy of the query, has its largest score at any offset
# $r$:
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
key = torch.matrix_exp(-r * A) @ q[0]
score = formulas.rope(key.expand(len(Delta), d), Delta, theta) @ q[0]
squares = q[0].view(-1, 2).square().sum(dim=1)  # |q_i|²
waves = torch.cos((Delta[:, None] - r) * theta) @ squares
agree("eq-any-peak", score, waves, 1e-11)
holds("eq-any-peak", [score <= q[0] @ q[0] + 1e-11, Delta[score.argmax()] == r])

free = torch.randn(64, generator=torch.Generator().manual_seed(seed))  # a random key
wide_theta = geometric(32, base)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-peaks", "caption": "Scores of one query with three keys, against the offset, for a head of 64 channels. The query and RoPE are the same in all three; only the key differs."}, "image": {"alt": "Three curves of score against offset from minus 40 to 40. The first has its highest point, one, at offset zero and falls off on both sides with ripples. The second is the same curve moved to the right, with its peak at another offset. The third is a smaller irregular wave without any preference for zero."}}
wide_q = torch.tensor([1.0, 0.0]).repeat(32)
wide_keys = {
    "k = q": (wide_q, figures.BLUE),
    f"k = q, rotated back by r = {r}": (
        formulas.rotation_matrix(-r * wide_theta) @ wide_q,
        figures.VERMILION,
    ),
    "k random": (free * wide_q.norm() / free.norm(), figures.MUTED),
}
fine = torch.linspace(-40, 40, 801)
fig, axis = plt.subplots(figsize=(7.0, 3.2))
for name, (key, color) in wide_keys.items():
    curve = formulas.rope(key.expand(len(fine), 64), fine, wide_theta) @ wide_q / 32
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
# The curves of {numref}`fig-peaks` peak at different offsets. Rotating the key moves the curve and keeps its shape; a
# random key gives another shape.
#
# The original paper of RoPE argues that scores decay with distance {cite}`su2024roformer`. It bounds the score from
# above (its section 3.4.3), by summation by parts, with $h_i = \bar q_i k_i$:
#
# $$
# \begin{aligned} & \Bigl| \sum_{i} h_i e^{\mathrm{i} \theta_i \Delta} \Bigr| \\
# & \quad \le \max_i |h_{i+1} - h_i| \sum_{j} \Bigl| \sum_{i \le j} e^{\mathrm{i} \theta_i \Delta} \Bigr|, \\
# & h_{d/2} = 0 \end{aligned}
# $$ (eq-decay-bound)
#
# A falling bound does not force a falling score. This bound does not even fall at every step, and for a random key it
# is far above the score:

# %%
delta = torch.arange(257)
h = torch.complex(free[0::2], free[1::2])  # of the random key, since q̄_i = 1
phase = torch.exp(1j * wide_theta * delta[:, None])
bound = sum(phase[:, : j + 1].sum(dim=1).abs() for j in range(32))
agree("eq-decay-bound", formulas.decay_bound(delta, wide_theta), bound, 1e-11)
most = torch.cat((h, torch.zeros(1))).diff().abs().max() * bound
size = (h * phase).sum(dim=1).abs()
holds("eq-decay-bound", [size <= most + 1e-9, bound.diff().max() > 0.1])

# %%
rising = bound.diff() > 0
print(f"the bound is at least {(most / size).min():.0f} times the score")
print(f"it rises at {rising.sum()} of {len(rising)} steps")

# %% [markdown]
# ## The kernel comes back
#
# The *mean* of the kernel over all distances goes to $0$. The kernel itself has no limit: it returns as near to its
# greatest value as one likes.
#
# ```{prf:proposition} The kernel comes back
# :label: prop-comes-back
# Whatever the frequencies are, for every integer $M \ge 2$ there is an offset between $1$ and $M^{d/2}$ at
# which no pair is more than one $M$-th of a turn away from where it started:
# ```
#
# $$
# \begin{gathered} \limsup_{\Delta \to \infty} g(\Delta) = 1, \\
# \max_{1 \le \Delta \le M^{d/2}} \; \min_i \cos \theta_i \Delta \;\ge\; \cos \tfrac{2\pi}{M} \end{gathered}
# $$ (eq-almost-periodic)
#
# ```{prf:proof}
# Think of the angle $\theta_i \Delta$ of each pair as a hand on a dial, and cut each of the $d/2$ dials into $M$ equal
# sectors. At the offsets $0, 1, \dots, M^{d/2}$ the hands show $M^{d/2} + 1$ combinations of sectors, but there are
# only $M^{d/2}$ different ones. So two offsets share a combination. Between these two every hand has moved by an
# integer number of turns, up to less than one $M$-th of a turn. Their difference is the offset wanted. For larger and
# larger $M$ these offsets grow without bound and give the limit, unless one offset serves for all $M$. In that case the
# return is exact, and the multiples of the offset give the limit.
# ```
#
# With eight channels each of the four hands is ten times slower than the one before. When the slowest has made an
# integer number of turns, so have the others; the offset must then be near an integer, too:

# %%
four = geometric(4)
far = torch.arange(200_001)
eight = formulas.similarity_kernel(far, four)
back = int(eight[100:].argmax()) + 100
print(f"d = 8: the kernel is back at {eight[back]:.6f} at Δ = {back:,}")
turns = (four * back / (2 * math.pi)).tolist()
print("turns of the hands by then:", *(f"{x:,.3f}" for x in turns))
print(f"mean up to there: {eight[:back].mean():+.4f}")


# %%
def reached(M, theta):
    Delta = torch.arange(1, M ** len(theta) + 1)
    return torch.cos(theta * Delta[:, None]).amin(dim=1).max().item()


two, some = geometric(2, base), 2 * torch.rand(3)
cases = [(6, two), (24, two), (96, two), (16, some), (8, some[:1])]
kept = [reached(M, x) >= math.cos(2 * math.pi / M) for M, x in cases]
holds("eq-almost-periodic", [eight[back] > 0.9995, eight[1000] < 0.9, *kept])

# %%
for M in (6, 24, 96):
    promised = math.cos(2 * math.pi / M)
    print(f"d = 4, M = {M:2}: {reached(M, two):.4f} reached, {promised:.4f} promised")

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
here, there = (formulas.similarity_kernel(around + start, four) for start in (0, back))
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
# In the upper panel of {numref}`fig-fade` the bound rises where it is red. The two curves of the lower panel coincide:
# at that distance the kernel is as large as for neighbors. Such distances do not occur in images. Still, RoPE does not
# make scores fade; a trained model may do so.
#
# {doc}`13-length` has more on RoPE in language models: a cache, texts longer than the trained ones, and linear
# attention.
#
# ```{admonition} In short
# :class: tip
# - RoPE rotates pairs of channels by angles proportional to position, {eq}`eq-rope-pair`.
# - Angles add up, so scores are relative at any real position, without a table, {eq}`eq-rope-relative`.
# - Each pair contributes a cosine and a sine of the offset, and the sine carries the direction.
# - Scores need not fade with distance: the key decides where they peak, and the kernel always returns.
# - The two layouts are one encoding with its channels in another order.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rotary-symmetric
# For which queries and keys does the score depend on $|\Delta|$ alone, so that the cosines suffice?
# ```
#
# ```{solution} exercise-rotary-symmetric
# :class: dropdown
# The cosines suffice when all $b_i$ are zero: in every pair, query and key must lie on one line through the origin, or
# one of them is zero. Then each pair has its own factor in front of its cosine. (If the frequencies are distinct and
# between $0$ and $\pi$, there is no other case: the waves are linearly independent.)
# ```

# %% tags=["hide-cell"]
multiples = torch.randn(d // 2, 1)
parallel = (q[0].view(-1, 2) * multiples).flatten()
curve = rope(parallel.expand(len(offset), d), offset, theta) @ q[0]
a = (q[0] * parallel).view(d // 2, 2).sum(dim=1)
agree("cosines suffice", curve, (a * torch.cos(offset[:, None] * theta)).sum(dim=1))
agree("a score of the distance", curve, curve.flip(0))

# %% [markdown]
# ```{exercise}
# :label: exercise-rotary-values
# Rotate the values as well, $R_j v_j$. Is the result of a token still independent of where the sequence starts? If
# not, repair it.
# ```
#
# ```{solution} exercise-rotary-values
# :class: dropdown
# It is not: moving everything by $s$ rotates the result by $R_s$. Rotate it back by the query's own position, $y_i =
# R_{-i} \sum_j \alpha_{ij} R_j v_j = \sum_j \alpha_{ij} R_{j-i} v_j$. Now the contribution of a value, too, depends on
# its offset. {doc}`14-buckets` has a table of vectors for this, {eq}`eq-shaw-values`; here a rotation takes the place
# of the sum. It is used for views of one scene {cite}`miyato2024gta`.
# ```

# %% tags=["hide-cell"]
alpha = torch.softmax(scores / math.sqrt(d), dim=1)


def read(s, back):
    y = alpha @ rope(v, p + s, theta)
    return rope(y, -(p + s), theta) if back else y


differs("not rotated back", read(3, back=False), read(0, back=False), least=0.1)
agree("rotated back", read(3, back=True), read(0, back=True), tolerance=1e-11)
