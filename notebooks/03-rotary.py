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
# A table of offsets ({doc}`Ch. 2 <02-distances>`) must be learned, and its length is limited. Can a score depend on the
# offset without a table? RoPE {cite}`su2024roformer` rotates every query and key by an angle proportional to its
# position. The dot product of two rotated vectors depends only on the difference of their angles, so the score depends
# only on the offset. The score need not fade with distance: the key decides at which offset it is largest.

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
# | $p_q$ | $p_k$ | rotated query | rotated key | score |
# | --- | --- | --- | --- | --- |
# | 0 | 1 | $(2, 1)$ | $(-3, 1)$ | $-6 + 1 = -5$ |
# | 1 | 2 | $(-1, 2)$ | $(-1, -3)$ | $1 - 6 = -5$ |
# | 10 | 11 | $(-2, -1)$ | $(3, -1)$ | $-6 + 1 = -5$ |
# | 1 | 0 | $(-1, 2)$ | $(1, 3)$ | $-1 + 6 = 5$ |
#
# The first three rows have one offset and one score. The last row has the opposite offset, and another score.


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
# A query of $d$ channels holds $d/2$ such pairs. Their speeds are the frequencies of the sinusoidal code,
# {eq}`eq-sinusoid-frequency`:
#
# $$
# \theta_i = 10000^{-2i/d}, \qquad i = 0, \dots, \tfrac{d}{2} - 1
# $$ (eq-rope-frequencies)
#
# The base 10000 was chosen for text. A row of an image has far fewer positions, so most pairs would rotate very little
# from one end to the other. For images, this book uses the published base 100 {cite}`heo2024rotary` unless it names
# another.

# %%
theta = base ** (-2 * torch.arange(d // 2) / d)
printed = torch.tensor([10000 ** (-2 * i / d) for i in range(d // 2)])
library = [geometric(*c) for c in ((d // 2, base), (d // 2,), (1,))]
agree("eq-rope-frequencies", library, [theta, printed, torch.ones(1)])

# %%
p = torch.arange(tokens)
q, k = x = torch.randn(2, tokens, d)
s = p / 2 - 3  # some are negative, some lie between two tokens
rotated = [formulas.rope(x, s, theta), rotate_pairs(x, s[:, None] * theta)]
agree("eq-rope-pair", rotated, 2 * [torch.stack([rope(y, s, theta) for y in x])])

# %% [markdown]
# As a matrix, RoPE has the position in an exponent, where $\exp(A) = I + A + A^2/2 + \dots$, and RollPE has another
# matrix there ({doc}`Ch. 6 <06-continuous>`). $R(\varphi)$ rotates the plane by $\varphi$, and $\bigoplus$ puts blocks
# along the diagonal:
#
# $$
# \begin{aligned} R_p &= \operatorname{diag}\bigl( R(p\,\theta_0), \dots, R(p\,\theta_{d/2-1}) \bigr) \\
# &= \exp\!\left( p \bigoplus_i \begin{bmatrix} 0 & -\theta_i \\ \theta_i & 0 \end{bmatrix} \right) \end{aligned}
# $$ (eq-rope-block)

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
# R_p R_{p'} = R_{p+p'}, \qquad R_p^\top = R_{-p}
# $$ (eq-rope-group)
#
# ```{prf:theorem} RoPE is relative
# :label: thm-rope-relative
# For a query at position $p_q$ and a key at position $p_k$, the score depends on $p_k - p_q$ alone:
# ```
#
# $$
# (R_{p_q} q)^\top R_{p_k} k = q^\top R_{p_k - p_q} \, k
# $$ (eq-rope-relative)
#
# ```{prf:proof}
# $(R_{p_q} q)^\top R_{p_k} k = q^\top R_{p_q}^\top R_{p_k} k = q^\top R_{-p_q} R_{p_k} k = q^\top R_{p_k - p_q} k$, by
# {eq}`eq-rope-group`.
# ```
#
# The positions may be any real numbers, and no table limits their range. The rotated vectors do depend on absolute
# positions, but attention uses only their scores, and the values are not rotated at all.


# %%
def R(p):
    return formulas.rotation_matrix(p * theta)


found = [R(-1.5) @ R(4), R(-1.5).T]
agree("eq-rope-group", found, [torch.matrix_exp(a * A) for a in (2.5, 1.5)])

# %%
library = formulas.rope(q, s, theta) @ formulas.rope(k, s, theta).T
row = torch.stack([q[2] @ R(s[j] - s[2]) @ k[j] for j in p])
agree("eq-rope-relative", library[2], row)
scores = rope(q, p, theta) @ rope(k, p, theta).T
moved = rope(q, p + 1000.5, theta) @ rope(k, p + 1000.5, theta).T
agree("all positions moved by 1000.5", moved, scores, tolerance=1e-10)

# %% [markdown]
# ## Which channels make a pair?
#
# Our program pairs neighbors, $(0, 1), (2, 3), \dots$. Other programs pair $(0, d/2), (1, d/2 + 1), \dots$, and public
# models use either layout. One becomes the other by putting the channels with even numbers first:
#
# $$
# \begin{gathered} R^{\text{half}}_p = \Pi R^{\text{interleaved}}_p \Pi^\top, \\
# \Pi x = (x_0, x_2, \dots,\; x_1, x_3, \dots) \end{gathered}
# $$ (eq-rope-layouts)
#
# A score is a sum over channels, so their order does not matter as long as queries and keys share a layout. Weights
# trained with one layout give wrong results with the other, until the columns of $W_Q$ and $W_K$ are reordered.


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
assert not torch.allclose(mixed, scores), "query in one layout, key in the other"

# %% [markdown]
# ## The score as a sum of waves
#
# As a function of the offset, each pair adds a cosine *and* a sine to the score. Read the pairs as complex numbers
# $q_i$ and $k_i$; a bar conjugates:
#
# $$
# \begin{aligned} & (R_{p_q} q)^\top R_{p_k} k = \operatorname{Re} \sum_i \bar q_i k_i \, e^{\mathrm{i} \theta_i \Delta} \\
# & \quad = \sum_i \left( a_i \cos \theta_i \Delta - b_i \sin \theta_i \Delta \right), \\
# & \Delta = p_k - p_q, \qquad a_i + \mathrm{i} b_i = \bar q_i k_i \end{aligned}
# $$ (eq-rope-score)
#
# The number $a_i$ is the dot product of the two pairs, and $b_i$ the area that they span, negative if the key lies
# clockwise of the query. The cosines are the same on both sides of zero. Only the sines distinguish before from after.

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
# Some texts forget the sines. For a single pair with the real channels $q_0, q_1$ and $k_0, k_1$, the forgotten term is
#
# $$
# \begin{aligned} & (R_{p_q} q)^\top R_{p_k} k - q^\top k \cos \theta \Delta \\
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
# the score divided by $\|q\|^2$ is the mean of the cosines, the *kernel*:
#
# $$
# \begin{aligned} g(\Delta) &= \frac{(R_p q)^\top R_{p+\Delta}\, q}{\|q\|^2} \\
# &= \frac{2}{d} \sum_i \cos \theta_i \Delta \quad \text{if } |q_0| = |q_1| = \dots \end{aligned}
# $$ (eq-rope-kernel)

# %%
Delta, phase = torch.arange(-80, 81), torch.randn(d // 2)
u = 3 * torch.stack((phase.cos(), phase.sin()), dim=1).flatten()  # equally long pairs
turned = rope(u.expand(len(Delta), d), Delta + 5.5, theta)
score = turned @ turned[80] / (u @ u)
g = torch.stack([torch.cos(t * Delta) for t in theta]).mean(dim=0)
kernel = formulas.similarity_kernel(Delta[:, None], theta)
agree("eq-rope-kernel", [score, kernel], [g, g[:, None]])

# %% [markdown]
# The kernel is $1$ at $\Delta = 0$ and smaller everywhere near. But it belongs to this one key. A rotated copy of the
# query has its largest score at any offset $r$, where all cosines are $1$:
#
# $$
# \begin{aligned} & k = R_{-r}\, q \quad \Longrightarrow \quad (R_{p_q} q)^\top R_{p_k} k \\
# & \quad = \sum_i |q_i|^2 \cos \theta_i (\Delta - r) \le \|q\|^2 \end{aligned}
# $$ (eq-any-peak)
#
# This follows from {eq}`eq-rope-relative`: $q^\top R_\Delta R_{-r}\, q = q^\top R_{\Delta - r}\, q$. A model can learn
# such keys, since a rotation is a matrix. Heads that attend to a fixed distance have been found in trained models
# {cite}`barbero2024round`.

# %%
key = torch.matrix_exp(-r * A) @ q[0]
score = formulas.rope(key.expand(len(Delta), d), Delta, theta) @ q[0]
squares = q[0].view(-1, 2).square().sum(dim=1)  # |q_i|²
waves = torch.cos((Delta[:, None] - r) * theta) @ squares
agree("eq-any-peak", score, waves, 1e-11)
holds("eq-any-peak", [score <= q[0] @ q[0] + 1e-11, Delta[score.argmax()] == r])

# %% tags=["hide-input"]
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
fig, axis = plt.subplots(figsize=(6.0, 3.2))
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
# Rotating the key moves the curve of {numref}`fig-peaks`; a random key gives another shape.
#
# The original paper of RoPE argues that scores decay with distance {cite}`su2024roformer`. It bounds the score from
# above, by summation by parts, with $h_i = \bar q_i k_i$:
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
size, rising = (h * phase).sum(dim=1).abs(), bound.diff() > 0
holds("eq-decay-bound", [size <= most + 1e-9, bound.diff().max() > 0.1])

# %%
print(f"the bound is at least {(most / size).min():.0f} times the score")
print(f"it rises at {rising.sum()} of {len(rising)} steps")

# %% [markdown]
# ## The kernel comes back
#
# The *mean* of the kernel over all distances goes to $0$, but the kernel itself has no limit: it returns arbitrarily
# close to its largest value. Whatever the frequencies are, for every integer $M \ge 2$:
#
# $$
# \begin{gathered} \limsup_{\Delta \to \infty} g(\Delta) = 1, \\
# \max_{1 \le \Delta \le M^{d/2}} \; \min_i \cos \theta_i \Delta \;\ge\; \cos \tfrac{2\pi}{M} \end{gathered}
# $$ (eq-almost-periodic)
#
# Think of each of the $d/2$ angles $\theta_i \Delta$ as a hand on a dial with $M$ equal sectors. The offsets $0, 1,
# \dots, M^{d/2}$ are one more than there are combinations of sectors, so two of them share a combination. Between
# these two, every hand has moved by an integer number of turns, up to less than one $M$-th of a turn. Their difference
# is the offset of the second line, and larger and larger $M$ give the limit. (If one offset serves for all $M$, the
# return is exact, and its multiples give the limit.)


# %%
def reached(M, theta):
    Delta = torch.arange(1, M ** len(theta) + 1)
    return torch.cos(theta * Delta[:, None]).amin(dim=1).max().item()


two, some = geometric(2, base), 2 * torch.rand(3)
cases = [(6, two), (24, two), (96, two), (16, some), (8, some[:1])]
kept = [reached(M, x) >= math.cos(2 * math.pi / M) for M, x in cases]
holds("eq-almost-periodic", kept)

# %%
four, far = geometric(4), torch.arange(200_001)
eight = formulas.similarity_kernel(far, four)  # of eight channels
back = int(eight[100:].argmax()) + 100
print(f"d = 8: the kernel is back at {eight[back]:.6f} at Δ = {back:,}")
holds("eq-almost-periodic", [eight[back] > 0.9995, eight[1000] < 0.9])
assert eight[:back].mean().abs() < 0.001, "the mean goes to 0"

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-fade", "caption": "The kernel of eight channels around distance 0 and around its return."}, "image": {"alt": "Two curves against offset from minus 30 to 30, a thick pale one centered at zero and a thin dark one centered at the offset of the return. Both wave up and down, highest in the middle, and they coincide."}}
around = torch.arange(-30, 31)
here, there = (formulas.similarity_kernel(around + start, four) for start in (0, back))
fig, axis = plt.subplots(figsize=(6.0, 2.8))
axis.plot(around, here, color=figures.BLUE, linewidth=7, alpha=0.45, label="around 0")
axis.plot(around, there, color=figures.INK, linewidth=1.1, label=f"around {back}")
axis.text(-29, 1.03, "thick: around 0", color=figures.BLUE)
axis.text(29, 1.03, f"thin: around Δ = {back:,}", color=figures.INK, ha="right")
axis.set(xlabel="distance from there (tokens)", ylabel="kernel g", ylim=(0, 1.2))
plt.close(fig)
fig

# %% [markdown]
# The two curves of {numref}`fig-fade` coincide: at that distance the kernel is as large as for neighbors. Such
# distances do not occur in images. Still, RoPE does not make scores fade; a trained model may do so.
# {doc}`Ch. 13 <13-length>` has more on RoPE in language models.
#
# ## Exercise
#
# ```{exercise}
# :label: exercise-rotary-symmetric
# For which queries and keys does the score depend on $|\Delta|$ alone, so that the cosines suffice?
# ```
#
# ```{solution} exercise-rotary-symmetric
# :class: dropdown
# All $b_i$ must be zero: in every pair, query and key lie on one line through the origin, or one of them is zero. (If
# the frequencies are distinct and between $0$ and $\pi$, there is no other case: the waves are linearly independent.)
# ```

# %% tags=["hide-cell"]
multiples = torch.randn(d // 2, 1)
parallel = (q[0].view(-1, 2) * multiples).flatten()
curve = rope(parallel.expand(len(offset), d), offset, theta) @ q[0]
a = (q[0] * parallel).view(d // 2, 2).sum(dim=1)
waves = (a * torch.cos(offset[:, None] * theta)).sum(dim=1)
assert torch.allclose(curve, waves) and torch.allclose(curve, curve.flip(0))
