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
# move on together, their rings turn by the same amount and their score stays. The score depends only on the *offset*,
# the position of the key minus that of the query, and it can be any function of the offset modulo the number of channels.
#
# ```{wave} ring
# :name: wave-ring
# The channels of a query on a ring, turned by the position $p$ of its token. The dials show the query as a sum of waves
# on the ring ({doc}`Ch. 5 <05-rope>`): hand 1 turns with the ring, hand $k$ goes $k$ times as fast. The thick part shows
# how much of its wave the query holds.
# ```

# %% tags=["parameters"]
n: int = 8  # channels on the ring [2..256]
query_position: int = 3  # position of the query's token [0..1000]
key_position: int = 5  # position of the key's token [0..1000]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
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
# The paper's Eq. 2 writes one step around a ring of $n$ channels as a matrix $S$. A roll by $p$ is $p$ such steps:
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
# Each entry takes the value of the next one, and after $p$ steps entry $i$ has the value of entry $i + p$:
#
# $$
# (S^p x)_i = x_{(i+p) \bmod n}
# $$ (eq-roll)
#
# A roll is one line of code:

# %%
from rollpe.ring import roll, shift_matrix

x, i, p = torch.randn(n), torch.arange(n), query_position
rolled = x[(i + p) % n]
S = torch.eye(n)[(i + 1) % n]  # row i of S is row i + 1 of the identity
power = torch.linalg.matrix_power
agree("eq-shift-matrix", shift_matrix(n), S)
agree("eq-roll", [power(S, p) @ x, roll(x, p)], [rolled, rolled])
agree("eq-roll", torch.roll(x, -p), rolled)  # torch counts the other way

# %% [markdown]
# The paper also says $q_i \mapsto q_{i'}$ with $i' = i + p$. This agrees with the matrix if entry $i$ *becomes* $q_{i+p}$;
# in `torch.roll` it *goes to* place $i + p$.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-rolling-wave", "caption": "One vector, rolled by the position of its token. Every row is the row above it, moved by one channel: a wave that travels around the ring."}, "image": {"alt": "A heat map with one row per position and one column per channel. A bright bump moves one channel to the left with each position, leaves at the left edge and comes back at the right edge."}}
bump = torch.exp(4 * (torch.cos(2 * torch.pi * (i - n // 2) / n) - 1))
figure, axis = plt.subplots(figsize=(5.4, 3.4))
image = axis.imshow(
    roll(bump, torch.arange(2 * n)).numpy(), aspect="auto", vmin=0, vmax=1
)
axis.set_xlabel("channel")
axis.set_ylabel("position of the token")
figure.colorbar(image, label="value")
plt.close(figure)  # one image, not two
figure

# %% [markdown]
# The bright stripe of {numref}`fig-rolling-wave` is the traveling wave of the paper's title.
#
# ## Steps add up, lengths stay
#
# Rolls add up like positions. They only reorder channels, so they are orthogonal and keep lengths. After $n$ steps every
# channel is back in its place:
#
# $$
# S^p S^{p'} = S^{p + p'}, \qquad (S^p)^\top S^p = I, \qquad S^n = I
# $$ (eq-rolled)
#
# A step exchanges neighbors $n - 1$ times, and each exchange changes the sign of the determinant:
#
# $$
# \det S = (-1)^{n-1}
# $$ (eq-determinant)
#
# Call a ring *odd* or *even* as its number of channels is. A step of an odd ring is a rotation. A step of an even ring
# contains a reflection ({doc}`Ch. 5 <05-rope>`).

# %%
sizes = (2, 7, 8, 31, 32)
steps = [shift_matrix(m) for m in sizes]
twice = roll(roll(x, p), key_position)
agree("eq-rolled", [twice, roll(x, n)], [roll(x, p + key_position), x])
agree("eq-rolled", [S.T @ S for S in steps], [torch.eye(m) for m in sizes])
agree("eq-determinant", [S.det() for S in steps], [(-1) ** (m - 1) for m in sizes])

# %% [markdown]
# ## The score
#
# Query and key are both rolled, each by the position of its own token (the paper's Eqs. 3 and 10; its $\alpha$ is the
# score before the softmax):
#
# $$
# \alpha_{i,j} = \frac{\mathrm{Roll}_{p_i}(q_i) \cdot \mathrm{Roll}_{p_j}(k_j)}{\sqrt{d}}
# $$ (eq-roll-attention)
#
# Write $p_q$ and $p_k$ for the positions of query and key, and move one matrix to the other side of the product. Only
# the offset remains (the paper's Appendix B):
#
# $$
# (S^{p_q} q)^\top S^{p_k} k = q^\top S^{\,p_k - p_q} \, k
# $$ (eq-roll-score)
#
# Moving both tokens by the same $s$ therefore leaves their score unchanged:
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
# On an image, half of the channels roll by the row of a patch and the other half by its column
# ({doc}`Ch. 7 <07-waves>`). In {numref}`wave-photo` an image moves by patches. Three small trained models keep their
# scores. With a learned table the scores change, and with multiplexed RollPE, whose waves have different speeds.
#
# ```{wave} photo
# :name: wave-photo
# A photograph moves under a window, a grid of 8×8 patches. Each map has the scores of one patch, the query (square), with
# all patches in the window; blue is negative. *Change* is the largest change of a score since the start, among patches
# that were in view then (dotted). Models: recipe `mini`, one seed, two epochs of CIFAR-100, patches of 4×4 pixels; of the first layer, the
# head whose scores vary most. Photograph:
# [danielbuechele](https://www.flickr.com/photos/danielbuechele/6061409035/), [CC
# BY](https://creativecommons.org/licenses/by/2.0/), cut and scaled.
# ```
#
# ## Which functions a score can be
#
# As a function of the offset $\Delta = p_k - p_q$, the score of one query and one key is their circular
# cross-correlation:
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
# A table of offsets, used as the whole score, is thus a special case of RollPE. To *add* a table to a score of the
# content, as T5 does {eq}`eq-t5`, content needs channels of its own.
#
# ## How long must the ring be?
#
# Among $G$ tokens in a row the offset runs from $-(G-1)$ to $G-1$. The ring counts modulo $n$ and distinguishes
#
# $$
# \begin{aligned} & \#\{ S^\Delta : -G < \Delta < G \} \\
# & \quad = \min(n,\, 2G - 1) \end{aligned}
# $$ (eq-distinct-offsets)
#
# of them. Causal attention has offsets of one sign, and $n \ge G$ is enough there. The paper says that the period "is not
# a problem" for images of 16 patches a side. This is true for rings of at least 31 channels. With $n = G = 16$, a patch one
# step to the left and one fifteen steps to the right get the same score.


# %%
def distinct(n, G):
    return len(roll(torch.arange(n), torch.arange(1 - G, G)).unique(dim=0))


counted = [distinct(m, 16) for m in (16, 30, 31, 40)]
for m, differ in zip((16, 30, 31, 40), counted, strict=True):
    print(f"16 tokens, {m} channels: {differ} of 31 offsets differ")
agree("eq-distinct-offsets", counted, [min(m, 31) for m in (16, 30, 31, 40)])

# %% [markdown]
# ## Inside each head
#
# The paper does not say whether the roll comes before or after the split into heads. It must come after. With $H$ heads
# of $n$ channels,
#
# $$
# \begin{gathered} (I_H \otimes S_n^{\,p}) \, x \neq S_{Hn}^{\,p} \, x \\
# (0 < p < Hn,\ H > 1) \end{gathered}
# $$ (eq-heads)
#
# for almost every $x$. On the left each head rolls by itself. On the right channels pass from one head into the next, and
# the score of a head depends on more than the offset.

# %%
two_heads = torch.arange(8).reshape(2, 4)
print("rolled inside each head:", roll(two_heads, 1).tolist())
print("rolled as a whole:      ", roll(two_heads.flatten(), 1).reshape(2, 4).tolist())
x = torch.randn(3 * n)  # three heads
inside = roll(x.unflatten(0, (3, n)), 1).flatten()
agree("eq-heads", inside, torch.kron(torch.eye(3), S) @ x)
differs("eq-heads", roll(x, 1), inside)

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
# Hyperdimensional computing marks a place by rotating coordinates {cite}`kanerva2009hyperdimensional`. In attention,
# PermuteFormer {cite}`chen2021permuteformer` uses powers of a random permutation, algebraic encodings
# {cite}`kogkalidis2024algebraic` orthogonal matrices, and STRING {cite}`schenck2025string` learned commuting rotations.
# Waves of activity travel over the cortex {cite}`muller2018cortical` and through the hidden state of some networks
# {cite}`keller2021topographic,keller2023neural`; there the content moves the wave.
