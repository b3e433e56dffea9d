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
# # Rolling
#
# How can reordering channels encode a position? RollPE {cite}`rollpe` bends the channels of each query and key into a
# ring and turns the ring by one channel for each position, before the dot product ({numref}`wave-ring`). If two tokens
# move on together, their rings turn by the same amount and their score stays the same. So scores are *relative*: they
# depend only on the offset, which is the position of the key minus that of the query. A score can be any function of
# the offset, counted modulo the number of channels.
#
# ```{wave} ring
# :name: wave-ring
# The channels of a query on a ring, turned by the position $p$ of its token, one channel for each position. The dials
# show the same query as a sum of waves that fit on the ring ({doc}`05-rope`), with one hand for each wave: hand 0
# stays, hand 1 turns with the ring, hand $k$ goes $k$ times as fast. The thick part shows how much of its wave the
# query holds.
# ```

# %% tags=["parameters"]
n: int = 8  # channels on the ring [2..256]
query_position: int = 3  # position of the query's token [0..1000]
key_position: int = 5  # position of the key's token [0..1000]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch

from rollpe_book.agree import agree, differs
from rollpe_book.chapters.parameters import begin
from rollpe_book.figures import use_theme

begin(globals())
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)
use_theme()

# %% [markdown]
# ## One step around the ring
#
# Take a vector of $n$ channels. The paper's Eq. 2 writes one step around the ring as a matrix $S$, with ones above the
# diagonal and a one in the lower left corner. A roll by $p$ is $p$ such steps:
#
# $$
# \begin{gathered} S = \begin{bmatrix} 0 & 1 & 0 & \cdots & 0 \\ 0 & 0 & 1 & \cdots & 0 \\ \vdots & & & \ddots & \vdots \\
# 0 & \cdots & 0 & 0 & 1 \\ 1 & 0 & \cdots & 0 & 0 \end{bmatrix}, \\
# \mathrm{Roll}_p(x) = S^p x \end{gathered}
# $$ (eq-shift-matrix)
#
# Four channels show the first step:

# %%
x = torch.tensor([10, 20, 30, 40])
i = torch.arange(4)
S = torch.zeros(4, 4, dtype=torch.int64)
S[i, (i + 1) % 4] = 1
print("S =\n", S.numpy(), sep="")
print("S x =", (S @ x).tolist())

# %% [markdown]
# The first entry now holds the value of the second one. In general, entry $i$ takes the value of entry $i + p$, counted
# around the ring:
#
# $$
# (S^p x)_i = x_{(i+p) \bmod n}
# $$ (eq-roll)
#
# So a roll is one line of code:

# %%
from rollpe.ring import roll, shift_matrix

x, i, p = torch.randn(n), torch.arange(n), query_position
rolled = x[(i + p) % n]
S = torch.eye(n)[(i + 1) % n]  # row i of S is row i + 1 of the identity
power = torch.linalg.matrix_power
agree("eq-roll", [power(S, p) @ x, roll(x, p)], [rolled, rolled])

# %% [markdown]
# The library's `roll` takes a position for each vector. Here it meets `torch.roll`, which counts the other way, on odd
# and even rings:

# %% tags=["hide-input"]
sizes, places = (1, 2, 7, 8, 31, 32), (-40, 0, 3, 999)
xs, Ss = [torch.randn(4, m) for m in sizes], [shift_matrix(m) for m in sizes]
by_torch = [
    torch.stack([y.roll(-p) for y, p in zip(x, places, strict=True)]) for x in xs
]
agree("eq-roll", [roll(x, torch.tensor(places)) for x in xs], by_torch)

# %% tags=["hide-input"]
agree("eq-shift-matrix", Ss, [torch.eye(m).roll(1, 1) for m in sizes])
steps = [x[2] @ power(S, 3).T for x, S in zip(xs, Ss, strict=True)]
agree("eq-shift-matrix", [x[2] for x in by_torch], steps)

# %% [markdown]
# The paper also describes the roll in words, as $q_i \mapsto q_{i'}$ with $i' = i + p$. The words agree with the matrix
# if entry $i$ *becomes* $q_{i+p}$. If instead entry $i$ *goes to* place $i + p$, as in `torch.roll`, the ring turns the
# other way:
#
# $$
# \begin{gathered} y_{(i+p) \bmod n} = x_i \ \text{ for all } i \\
# \Longleftrightarrow \quad y = S^{-p} x \end{gathered}
# $$ (eq-roll-printed)
#
# The two readings are mirror images. With $J$ for the reversal of the channels,
#
# $$
# S^{-p} = J S^p J, \qquad (J x)_i = x_{n-1-i}
# $$ (eq-mirror)
#
# so each reading expresses what the other expresses with the channels in reverse order. This book uses the matrix.

# %%
y = torch.empty(n)
y[(i + p) % n] = x[i]
agree("eq-roll-printed", [roll(x, -p), torch.roll(x, p)], [y, y])
agree("eq-mirror", [roll(x.flip(0), p).flip(0), S.flip(0, 1)], [y, S.T])
seven = torch.randn(7)
differs("eq-roll-printed", roll(seven, 2), roll(seven, -2))

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-rolling-wave", "caption": "One vector, rolled by the position of its token. Every row is the row above it, moved by one channel: a wave that travels around the ring."}, "image": {"alt": "A heat map with one row per position and one column per channel. A bright bump moves one channel to the left with each position, leaves at the left edge and comes back at the right edge."}}
bump = torch.exp(4 * (torch.cos(2 * torch.pi * (i - n // 2) / n) - 1))
figure, axis = plt.subplots(figsize=(6.4, 3.6))
image = axis.imshow(
    roll(bump, torch.arange(2 * n)).numpy(), aspect="auto", vmin=0, vmax=1
)
axis.set_xlabel("channel")
axis.set_ylabel("position of the token")
figure.colorbar(image, label="value")
plt.close(figure)  # one image, not two
figure

# %% [markdown]
# In {numref}`fig-rolling-wave`, follow the bright stripe downward. It drifts to the left, leaves, and comes back on the
# other side after $n$ positions. This is the traveling wave of the paper's title.
#
# ## Steps add up, lengths stay
#
# The query of a token at position $p$ is rolled by $p$ steps (Eq. 10 of the paper), and rolls add up like positions:
#
# $$
# q' = \mathrm{Roll}_p(q) = S^p q, \qquad S^p S^{p'} = S^{p + p'}
# $$ (eq-rolled)
#
# A roll only reorders channels. It is a permutation, hence orthogonal, and every vector keeps its length:
#
# $$
# S^\top S = I, \qquad \|S^p x\| = \|x\|
# $$ (eq-orthogonal)
#
# A step needs $n - 1$ exchanges of neighbors, and each exchange changes the sign of the determinant:
#
# $$
# \det S = (-1)^{n-1}
# $$ (eq-determinant)
#
# Call a ring *odd* or *even* as its number of channels $n$ is. A step on an odd ring is a rotation; on an even ring it
# contains a reflection. The next two chapters return to this. After $n$ steps, and not before, every channel is back in
# its place:
#
# $$
# S^n = I, \qquad S^p \neq I \ \text{ for } 0 < p < n
# $$ (eq-order)

# %%
stepwise = S @ (S @ (S @ x))
twice = roll(roll(x, p), key_position)
agree("eq-rolled", [roll(x, 3), twice], [stepwise, roll(x, p + key_position)])
agree("eq-orthogonal", [S.T @ S, roll(x, p).norm()], [torch.eye(n), x.norm()])
agree("eq-determinant", [S.det() for S in Ss], [(-1) ** (m - 1) for m in sizes])
agree("eq-order", [power(S, len(S)) for S in Ss], [torch.eye(m) for m in sizes])
before = roll(torch.eye(n), torch.arange(1, n)[:, None])
differs("eq-order", [*before], [torch.eye(n)] * (n - 1), 1.0)

# %% [markdown]
# ## The score
#
# Query and key are both rolled, each by the position of its own token. The paper calls their score before the softmax
# $\alpha$:
#
# $$
# \alpha_{i,j} = \frac{\mathrm{Roll}_{p_i}(q_i) \cdot \mathrm{Roll}_{p_j}(k_j)}{\sqrt{d}}
# $$ (eq-roll-attention)
#
# Write $p_q$ and $p_k$ for the positions of query and key, and move one of the two matrices to the other side of the
# product. By {eq}`eq-orthogonal` only the difference of the positions remains (Appendix B of the paper):
#
# $$
# (S^{p_q} q)^\top S^{p_k} k = q^\top S^{\,p_k - p_q} \, k
# $$ (eq-roll-score)
#
# So moving both tokens by the same $s$ leaves their score unchanged:
#
# $$
# \begin{gathered} (S^{p_q + s} q)^\top S^{p_k + s} k = (S^{p_q} q)^\top S^{p_k} k \\
# \text{for all } s \in \mathbb{Z} \end{gathered}
# $$ (eq-joint-shift)

# %%
q, k = torch.randn(2, n)
p_q, p_k = query_position, key_position
score = q[(i + p_q) % n] @ k[(i + p_k) % n]
agree("eq-roll-attention", roll(q, p_q) @ roll(k, p_k) / n**0.5, score / n**0.5)
agree("eq-roll-score", q @ power(S, (p_k - p_q) % n) @ k, score)
moved = [roll(q, p_q + s) @ roll(k, p_k + s) for s in (1, n, -50, 1000)]
agree("eq-joint-shift", moved, score.expand(4))
differs("eq-joint-shift", roll(q, p_q + 1) @ roll(k, p_k), score)

# %% [markdown]
# On an image, half of the channels roll by the row of a patch and the other half by its column ({doc}`07-waves`).
# In {numref}`wave-photo` an image moves by whole patches. The scores of three small trained models stay, those of two
# change.
#
# ```{wave} photo
# :name: wave-photo
# A photograph moves under a window, a grid of 8×8 patches, which is what the models see. Each map has the scores of one
# patch, the query (square), with all patches in the window; those in blue are negative. *Change* is the largest change of a
# score since the start, among patches that were in view then (dotted). The maps of RollPE and RoPE travel with the
# photograph: their scores depend on two patches and their offset. So does the map without an encoding, since its scores
# depend on no position at all. With a learned table of positions the map changes, because a patch gets another vector in
# another place. With multiplexed RollPE ({doc}`07-waves`) it changes because the waves have different speeds. Models:
# training recipe `mini`, one seed, only two epochs of CIFAR-100, patches of 4×4 pixels; of the first layer, the head
# whose scores vary most. Photograph:
# [danielbuechele](https://www.flickr.com/photos/danielbuechele/6061409035/), [CC
# BY](https://creativecommons.org/licenses/by/2.0/), cut and scaled.
# ```
#
# ## Which functions a score can be
#
# For one query and one key, the score as a function of the offset $\Delta = p_k - p_q$ is their circular
# cross-correlation, as signal processing calls it:
#
# $$
# c(\Delta) = q^\top S^\Delta k = \sum_{i} q_i \, k_{(i+\Delta) \bmod n}
# $$ (eq-correlation)
#
# This can be every function of the offset. Let the query be $e_0$, which is one at channel 0 and zero elsewhere, and
# write the wanted function $f$ into the key:
#
# $$
# \begin{gathered} q = e_0,\ k = f \quad \Longrightarrow \\
# (S^{p_q} q)^\top S^{p_k} k = f_{(p_k - p_q) \bmod n} \end{gathered}
# $$ (eq-complete)

# %%
offsets = torch.arange(n)
c = (q[:, None] * k[(i[:, None] + offsets) % n]).sum(0)
by_fft = torch.fft.ifft(torch.fft.fft(q).conj() * torch.fft.fft(k)).real
agree("eq-correlation", [roll(k, offsets) @ q, by_fft], [c, c])
agree("the mean over all offsets", c.mean(), q.sum() * k.sum() / n)

# %%
e0, f, at = torch.eye(n)[0], torch.randn(n), torch.tensor([-30, 0, 7, 12])
scores = roll(e0.expand(4, n), at) @ roll(f.expand(4, n), at).T
agree("eq-complete", scores, f[(at - at[:, None]) % n])

# %% [markdown]
# A table with one number for each offset, used as the whole score, is thus a special case of RollPE. A table *added* to
# a score of the content, as in T5 {eq}`eq-t5`, is not one if every offset on the ring occurs. The content score would
# be the part that does not depend on $\Delta$. This part is the mean over all offsets, and on one ring the mean is a
# single number of the query times a single number of the key: $\tfrac1n \bigl( \sum_i q_i \bigr) \bigl( \sum_i k_i
# \bigr)$. Content therefore needs channels of its own, such as other rings.
#
# ## How long must the ring be?
#
# The ring counts offsets modulo $n$. Among $G$ tokens in a row the offset runs from $-(G-1)$ to $G-1$, and the roll
# distinguishes this many of them:
#
# $$
# \begin{aligned} & \#\{ S^\Delta : -G < \Delta < G \} \\
# & \quad = \min(n,\, 2G - 1) \end{aligned}
# $$ (eq-distinct-offsets)
#
# Causal attention has offsets of one sign only, and $n \ge G$ is enough there. The paper says that the period "is not a
# problem" for images of 16 patches a side. This is true for rings of at least 31 channels. With $n = G = 16$, a patch
# one step to the left and a patch fifteen steps to the right get the same score.


# %%
def distinct(n, G):
    return len(roll(torch.arange(n), torch.arange(1 - G, G)).unique(dim=0))


for m in (16, 30, 31):
    print(f"16 tokens, {m} channels: {distinct(m, 16)} of 31 offsets differ")

# %% tags=["hide-input"]
rows = [(m, G) for G in (3, 8, 14, 16) for m in (G, 2 * G - 2, 2 * G - 1, 2 * G + 5)]
counted = [distinct(m, G) for m, G in rows]
agree("eq-distinct-offsets", counted, [min(m, 2 * G - 1) for m, G in rows])

# %% [markdown]
# Rings of different lengths can stand side by side {cite}`kymn2024computing`. Rings of $a$ and $b$ channels return to
# their start together only after the least common multiple of $a$ and $b$. Their score is a function modulo $a$ plus a
# function modulo $b$. Few functions of the long period are such sums; they form a space of small dimension:
#
# $$
# \text{period } \operatorname{lcm}(a, b), \qquad \dim = a + b - \gcd(a, b)
# $$ (eq-residues)


# %%
def two_rings(a, b):
    """The period, and the number of independent functions."""
    delta = torch.arange(2 * a * b)
    functions = torch.cat((torch.eye(a)[delta % a], torch.eye(b)[delta % b]), 1)
    return len(functions.unique(dim=0)), torch.linalg.matrix_rank(functions).item()


period, dimension = two_rings(31, 33)
print(f"rings of 31 and 33: period {period}, {dimension} independent functions")

# %% tags=["hide-input"]
rings = ((31, 33), (7, 9), (4, 6), (8, 8))
expected = [(math.lcm(a, b), a + b - math.gcd(a, b)) for a, b in rings]
agree("eq-residues", [two_rings(*pair) for pair in rings], expected)

# %% [markdown]
# ## Inside each head
#
# Attention has several heads, and the paper does not say whether the roll comes before or after the vectors are split
# among them. It must come after. With $H$ heads of $n$ channels,
#
# $$
# \begin{gathered} (I_H \otimes S_n^{\,p}) \, x \neq S_{Hn}^{\,p} \, x \\
# (0 < p < Hn,\ H > 1) \end{gathered}
# $$ (eq-heads)
#
# for almost every $x$. On the left, $I_H \otimes S_n^{\,p}$ has $H$ blocks $S_n^{\,p}$ along its diagonal and rolls
# each head by itself. On the right, channels pass from one head into the next, so the score of a single head depends on
# more than the offset.

# %%
two_heads = torch.arange(8).reshape(2, 4)
print("rolled inside each head:", roll(two_heads, 1).tolist())
print("rolled as a whole:      ", roll(two_heads.flatten(), 1).reshape(2, 4).tolist())

# %%
x = torch.randn(3 * n)  # three heads
inside = roll(x.unflatten(0, (3, n)), 1).flatten()
agree("eq-heads", inside, torch.kron(torch.eye(3), S) @ x)
differs("eq-heads", roll(x, 1), inside)

# %% [markdown]
# ```{admonition} In short
# :class: tip
# - RollPE turns the channels of queries and keys around a ring: `x[(i + p) % n]`. It has no parameters and causes no
#   rounding.
# - The score depends only on the offset of two tokens, {eq}`eq-roll-score`.
# - The score can be any function of the offset, {eq}`eq-complete`, counted modulo $n$.
# - A row of $G$ tokens needs a ring of $2G - 1$ channels, or $G$ in causal attention.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rolling-mirror
# Replace $S$ by $S^\top$ everywhere. Which statements of this chapter change?
# ```
#
# ```{solution} exercise-rolling-mirror
# :class: dropdown
# The wave of {numref}`fig-rolling-wave` travels to the right, and the score becomes $q^\top S^{p_q - p_k} k$. In
# {eq}`eq-roll`, {eq}`eq-correlation` and {eq}`eq-complete` the sign in the index changes. The score still depends only
# on the offset, so the sign is a convention.
# ```

# %% tags=["hide-cell"]
mirrored = roll(q, -p_q) @ roll(k, -p_k)
agree("the mirror image", mirrored, q @ roll(k, p_q - p_k))
agree("the sign changes", roll(f, -offsets) @ e0, f[-offsets % n])

# %% [markdown]
# ```{exercise}
# :label: exercise-rolling-distance
# Find a query and a key whose score is largest at offset 2, and another pair whose score depends only on $|\Delta|$.
# ```
#
# ```{solution} exercise-rolling-distance
# :class: dropdown
# By {eq}`eq-complete`, write the wanted function into the key: $k = e_2$ in the first case, and any $k$ with
# $k_i = k_{n-i}$ in the second.
# ```

# %% tags=["hide-cell"]
assert (roll(torch.eye(n)[2 % n], offsets) @ e0).argmax() == 2 % n
even = torch.cos(2 * torch.pi * i / n)
agree("a score of the distance", roll(even, offsets) @ e0, roll(even, -offsets) @ e0)

# %% [markdown]
# ## Related work
#
# Hyperdimensional computing marks a place in a sequence by rotating the coordinates of a vector
# {cite}`kanerva2009hyperdimensional`. In attention, PermuteFormer {cite}`chen2021permuteformer` applies powers of a
# random permutation to queries and keys, algebraic encodings {cite}`kogkalidis2024algebraic` apply orthogonal matrices,
# and STRING {cite}`schenck2025string` learns commuting rotations for positions in several dimensions. RollPE's
# permutation is a single ring. Transformer-XL {cite}`dai2019transformerxl` computes scores from sinusoids of the
# offset, and Fourier position embedding {cite}`hua2025fourier` gives each channel of RoPE several frequencies.
#
# Waves of activity travel over the cortex {cite}`muller2018cortical`, shaped by its geometry
# {cite}`pang2023geometric,horibe2019curved`. Some networks make their latent state roll {cite}`keller2021topographic`
# or carry waves {cite}`keller2023neural`. Others express in phases or orientations which features belong together:
# synchrony in complex-valued networks {cite}`reichert2014neuronal`, complex autoencoders and rotating features
# {cite}`lowe2022complex,lowe2023rotating`, and Kuramoto oscillators {cite}`miyato2025artificial`. There the content
# moves the phases; in RollPE the position does.
