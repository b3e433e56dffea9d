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
# # Rolling queries and keys
#
# Can a token's position be told by turning its channels around a ring? Attention compares a query and a key by their
# dot product, which does not depend on where the two tokens are. RollPE {cite}`rollpe` (`roll` in this library)
# therefore rolls both vectors before the dot product, each by as many channels as the position of its token
# ({numref}`wave-ring`).
#
# ```{wave} ring
# :name: wave-ring
# The channels of a query on a ring, turned by the position $p$ of its token, one channel for each position. The dials
# show the same query as a sum of waves that fit on the ring, with one hand for each wave: hand 0 stays, hand 1 turns
# with the ring, hand $k$ goes $k$ times as fast. The thick part shows how much of its wave the query holds.
# ```
#
# If two tokens move on together, their query and key turn by the same amount, so their dot product stays what it was:
# it depends only on the offset, the position of the key minus that of the query. This page proves that, says which
# functions of the offset a score can be, and how many channels a ring needs.

# %% tags=["parameters"]
n: int = 8  # channels on the ring [2..256]
query_position: int = 3  # position of the query's token [0..1000]
key_position: int = 5  # position of the key's token [0..1000]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import torch

from rollpe.operators import fourier_matrix, roll, shift_matrix
from rollpe_book.agree import agree
from rollpe_book.figures import use_theme

torch.manual_seed(seed)
use_theme()

# %% [markdown]
# ## One step around the ring
#
# Take one vector of $n$ channels and bend it into a ring. The paper's Eq. 2 writes one step as a matrix $S$, with ones
# above the diagonal and a single one in the lower left corner. A roll by $p$ is $p$ such steps:
#
# $$
# \begin{gathered} S = \begin{bmatrix} 0 & 1 & 0 & \cdots & 0 \\ 0 & 0 & 1 & \cdots & 0 \\ \vdots & & & \ddots & \vdots \\
# 0 & \cdots & 0 & 0 & 1 \\ 1 & 0 & \cdots & 0 & 0 \end{bmatrix}, \\
# \mathrm{Roll}_p(x) = S^p x \end{gathered}
# $$ (eq-shift-matrix)
#
# A case to do by hand: four channels, one step.

# %%
x = torch.tensor([10, 20, 30, 40])
S = shift_matrix(4, dtype=torch.int64)
print("S =\n", S.numpy(), sep="")
print("S x        =", (S @ x).tolist())
print("roll(x, 1) =", roll(x, 1).tolist())

# %% [markdown]
# The first entry now holds the number that the second one held. In general, entry $i$ takes the value of entry
# $i + p$, counted around the ring:
#
# $$
# (S^p x)_i = x_{(i+p) \bmod n}
# $$ (eq-roll)

# %%
x = torch.randn(n, dtype=torch.float64)
S = shift_matrix(n)
agree(
    "roll and matrix power",
    roll(x, query_position),
    torch.linalg.matrix_power(S, query_position) @ x,
)

# %% [markdown]
# The paper's sentence before the matrix, $q_i \mapsto q_{i'}$ with $i' = i + p$, has two meanings. If entry $i$
# *becomes* $q_{i+p}$, it agrees with the matrix. If entry $i$ *goes to* the place $i + p$, as in `torch.roll`, it is
# the roll the other way:
#
# $$
# \begin{gathered} y_{(i+p) \bmod n} = x_i \ \text{ for all } i \\
# \Longleftrightarrow \quad y = S^{-p} x \end{gathered}
# $$ (eq-roll-printed)
#
# The choice hardly matters, because the two meanings are mirror images of each other. With $J$ for the reversal of
# the channels,
#
# $$
# S^{-p} = J S^p J, \qquad (J x)_i = x_{n-1-i}
# $$ (eq-mirror)
#
# so whatever the one can express, the other expresses with the channels in reverse order. This book uses the printed
# matrix throughout.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-rolling-wave", "caption": "One vector, rolled by the position of its token. Every row is the row above it, moved by one channel: a wave that travels around the ring."}, "image": {"alt": "A heat map with one row per position and one column per channel. A bright bump moves one channel to the left with each position, leaves at the left edge and comes back at the right edge."}}
ring = torch.arange(n, dtype=torch.float64)
bump = torch.exp(4 * (torch.cos(2 * torch.pi * (ring - n // 2) / n) - 1))
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
# In {numref}`fig-rolling-wave`, follow one bright stripe downward. It drifts to the left, leaves, and comes
# back on the other side after $n$ positions. This is the traveling wave of the paper's title.
#
# The hands in {numref}`wave-ring` take the same roll apart into waves; {doc}`06-continuous` and {doc}`05-rope` are
# about them.
#
# ## Steps add up, lengths stay
#
# The query of a token at position $p$ is rolled by $p$ steps (Eq. 10 of the paper), and rolls add up like positions:
#
# $$
# q' = \mathrm{Roll}_p(q) = S^p q, \qquad S^p S^{p'} = S^{p + p'}
# $$ (eq-rolled)
#
# The roll only reorders channels. It is a permutation, hence orthogonal, and no vector becomes longer or
# shorter:
#
# $$
# S^\top S = I, \qquad \|S^p x\| = \|x\|
# $$ (eq-orthogonal)
#
# After $n$ steps every channel is back where it was, and not before:
#
# $$
# S^n = I, \qquad S^p \neq I \ \text{ for } 0 < p < n
# $$ (eq-order)

# %%
agree(
    "steps add up",
    roll(roll(x, query_position), key_position),
    roll(x, query_position + key_position),
)
agree("a permutation is orthogonal", S.T @ S, torch.eye(n))
agree("once around", roll(x, n), x)

# %% [markdown]
# ## The score
#
# Queries and keys are both rolled, each by the position of its own token. The paper calls their score, before
# the softmax, $\alpha$:
#
# $$
# \alpha_{i,j} = \frac{\mathrm{Roll}_{p_i}(q_i) \cdot \mathrm{Roll}_{p_j}(k_j)}{\sqrt{d}}
# $$ (eq-roll-attention)
#
# Move one of the two matrices to the other side of the product. By {eq}`eq-orthogonal`, only the difference of the
# positions remains, as Appendix B of the paper says:
#
# $$
# (S^{p_q} q)^\top S^{p_k} k = q^\top S^{\,p_k - p_q} \, k
# $$ (eq-roll-score)
#
# So moving both tokens by the same $s$, however large, leaves their score unchanged:
#
# $$
# \begin{gathered} (S^{p_q + s} q)^\top S^{p_k + s} k = (S^{p_q} q)^\top S^{p_k} k \\
# \text{for all } s \in \mathbb{Z} \end{gathered}
# $$ (eq-joint-shift)

# %%
q, k = torch.randn(2, n, dtype=torch.float64)
score = roll(q, query_position) @ roll(k, key_position)
agree(
    "both positions, or their difference",
    score,
    q @ roll(k, key_position - query_position),
)
for s in (1, n, 1000):
    agree(
        f"both moved by {s}",
        roll(q, query_position + s) @ roll(k, key_position + s),
        score,
    )

# %% [markdown]
# On an image, half of the channels roll by the row of a patch and the other half by its column ({doc}`07-waves`). So
# the score of two patches stays when the image moves by whole patches. {numref}`wave-photo` shows this for the first
# layer of trained models.
#
# ```{wave} photo
# :name: wave-photo
# A photograph moves under a window of 8×8 patches, which is what the models see; they were trained for two epochs. Each
# map has the scores of one patch, the query, with all patches in the window. *Score* is that of the query with the marked
# key, *change* the largest change of a score since the start, among patches that were in view then (dotted). The maps of
# RollPE and RoPE travel with the photograph: their scores depend on two patches and their offset. So does the map of no
# encoding, because it knows no position at all. With a learned table it changes, because a patch gets another vector in another
# place, and with multiplexed RollPE, because its waves have different speeds ({doc}`07-waves`).
# Photograph: [danielbuechele](https://www.flickr.com/photos/danielbuechele/6061409035/),
# [CC BY](https://creativecommons.org/licenses/by/2.0/), cut and scaled.
# ```
#
# The models are small and were trained for two passes over CIFAR-100 (recipe `mini`, one seed). Of each patch they see
# 4×4 pixels. Their three heads are in the order of how much their scores vary over all pairs of patches before the
# move. Deeper layers are not shown: there, tokens have gathered from patches that the move brought into view or took
# out of it. No encoding has its price: two equal patches get the same score, wherever they are.

# %% [markdown]
# ## Which functions a score can be
#
# For one query and one key, the score as a function of the offset $\Delta = p_k - p_q$ is the circular
# cross-correlation of signal processing. The Fourier transform $F$ writes a vector on the ring as a sum of
# waves (the next chapter has the formula, {eq}`eq-dft`). It turns the correlation into a product, where $\odot$
# multiplies entry by entry:
#
# $$
# \begin{gathered} c(\Delta) = q^\top S^\Delta k = \sum_{i} q_i \, k_{(i+\Delta) \bmod n}, \\
# \hat c = \sqrt{n}\; \overline{\hat q} \odot \hat k, \qquad \hat x = F x \end{gathered}
# $$ (eq-correlation)

# %%
offsets = torch.arange(n)
c = roll(k, offsets) @ q
F = fourier_matrix(n)
agree(
    "correlation, by way of Fourier",
    F @ (c + 0j),
    n**0.5 * (F @ (q + 0j)).conj() * (F @ (k + 0j)),
)

# %% [markdown]
# Which functions of the offset can this be? All of them. Let the query be one at channel 0 and zero elsewhere, and
# write the wanted function $f$ into the key:
#
# $$
# \begin{gathered} q = e_0,\ k = f \quad \Longrightarrow \\
# (S^{p_q} q)^\top S^{p_k} k = f_{(p_k - p_q) \bmod n} \end{gathered}
# $$ (eq-complete)
#
# A table with one number for each offset, used as the whole score, is thus a special case of RollPE on one ring. A
# table that is added to a content score, as in {eq}`eq-t5`, is not, if every offset on the ring occurs. The content
# score would have to be the part that does not depend on $\Delta$, which is the mean over all offsets. On one ring
# this mean is a product of two sums, $\tfrac1n \bigl( \sum_i q_i \bigr) \bigl( \sum_i k_i \bigr)$: a single number of
# the query times a single number of the key. Content needs channels of its own: other rings, or a ring long enough to
# give each number of the content a stretch with one channel for each offset.

# %%
wanted = torch.randn(n, dtype=torch.float64)
e0 = torch.eye(n, dtype=torch.float64)[0]
agree("any function on the ring", roll(wanted, offsets) @ e0, wanted)
agree("the part that does not depend on Δ", c.mean(), q.sum() * k.sum() / n)

# %% tags=["hide-cell"]
G, D = 4, 3  # tokens in a row, numbers of content
content_q, content_k = torch.randn(2, G, D, dtype=torch.float64)
table = torch.randn(2 * G - 1, dtype=torch.float64)
long_q, long_k = torch.zeros(2, G, D + 1, 2 * G - 1, dtype=torch.float64)  # stretches
long_q[:, :D, G - 1] = content_q  # in the middle of its stretch
long_k[:, :D] = content_k[..., None]  # all over it
long_q[:, D, G - 1], long_k[:, D] = 1, table
row = torch.arange(G)
agree(
    "content and a table on one long ring",
    roll(long_q.flatten(1), row) @ roll(long_k.flatten(1), row).T,
    content_q @ content_k.T + table[row - row[:, None] + G - 1],
)

# %% [markdown]
# ## How long must the ring be?
#
# The ring counts offsets modulo $n$. Among $G$ tokens in a row the offset runs from $-(G-1)$ to $G-1$, and the roll
# tells this many of them apart:
#
# $$
# \begin{aligned} & \#\{ S^\Delta : -G < \Delta < G \} \\
# & \quad = \min(n,\, 2G - 1) \end{aligned}
# $$ (eq-distinct-offsets)
#
# Causal attention sees offsets of one sign only, $0 \le \Delta < G$ in number $G$, and $n \ge G$ is enough there.
#
# The paper says that the period "is not a problem" for images of 16 patches a side. That is true if the ring has at
# least 31 channels. With $n = G = 16$, a patch one step to the left and a patch fifteen steps to the right get the
# same score. One reversed sign helps: a *twisted* ring tells all of these offsets apart with $n \ge G$ channels
# ({doc}`05-rope`).

# %%
for G in (8, 14, 16):
    needed = next(
        m
        for m in range(1, 100)
        if len({tuple(roll(torch.arange(m), d).tolist()) for d in range(1 - G, G)})
        == 2 * G - 1
    )
    print(f"{G:2} tokens on an axis: {needed} channels")
    assert needed == 2 * G - 1

# %% [markdown]
# ## Inside each head
#
# Attention has several heads, and the paper does not say whether the roll comes before or after the vectors
# are split among them. It must come after. With $H$ heads of $n$ channels,
#
# $$
# \begin{gathered} (I_H \otimes S_n^{\,p}) \, x \neq S_{Hn}^{\,p} \, x \\
# (0 < p < Hn,\ H > 1) \end{gathered}
# $$ (eq-heads)
#
# for almost every $x$. The left-hand side, $I_H \otimes S_n^{\,p}$, rolls each head by itself. The right-hand side
# carries channels from one head into the next, so that the score of a single head depends on more than the offset.

# %%
two_heads = torch.arange(8).reshape(2, 4)
print("rolled inside each head:", roll(two_heads, 1).tolist())
print("rolled as a whole:      ", roll(two_heads.flatten(), 1).reshape(2, 4).tolist())

# %% [markdown]
# ```{admonition} In short
# :class: tip
# Yes: rolling its channels tells a token's position. Rolling reorders channels, so it costs no parameter and no
# multiplication, and it is exact in any number format. The score depends only on the offset of two tokens,
# {eq}`eq-roll-score`. It can be any function of the offset, {eq}`eq-complete`, but counts it modulo $n$: a row of $G$
# tokens needs a ring of $2G-1$ channels, and of $G$ in causal attention or with a twist.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rolling-mirror
# Replace $S$ by $S^\top$ everywhere. Which statements of this page change?
# ```
#
# ```{solution} exercise-rolling-mirror
# :class: dropdown
# The wave of {numref}`fig-rolling-wave` travels to the right, and the score becomes
# $q^\top S^{p_q - p_k} k$. In {eq}`eq-roll`, {eq}`eq-correlation` and {eq}`eq-complete` the sign in the index changes,
# and in {eq}`eq-correlation` the bar moves from query to key. The roll the other way of {eq}`eq-roll-printed` becomes
# the roll. The score still depends only on the offset: the sign is a convention.
# ```

# %% tags=["hide-cell"]
mirrored = roll(q, -query_position) @ roll(k, -key_position)
agree("the mirror image", mirrored, q @ roll(k, query_position - key_position))
agree("the sign changes", roll(wanted, -offsets) @ e0, wanted[-offsets % n])
agree(
    "the bar moves",
    F @ (roll(k, -offsets) @ q + 0j),
    n**0.5 * (F @ (q + 0j)) * (F @ (k + 0j)).conj(),
)

# %% [markdown]
# ```{exercise}
# :label: exercise-rolling-distance
# Find a query and a key whose score is largest at offset 2, and another pair whose score depends only on
# $|\Delta|$.
# ```
#
# ```{solution} exercise-rolling-distance
# :class: dropdown
# By {eq}`eq-complete`, write the wanted function into the key: $k = e_2$ in the first case, and any $k$ with $k_i = k_{n-i}$
# in the second.
# ```

# %% tags=["hide-cell"]
assert (roll(torch.eye(n)[2 % n], offsets) @ torch.eye(n)[0]).argmax() == 2 % n
even = torch.cos(2 * torch.pi * ring / n)
agree("a score of the distance", roll(even, offsets) @ e0, roll(even, -offsets) @ e0)

# %% [markdown]
# ```{exercise}
# :label: exercise-rolling-cost
# The matrix $S^p$ has $n^2$ entries. How many multiplications does a roll need, and how large is its error in
# half precision?
# ```
#
# ```{solution} exercise-rolling-cost
# :class: dropdown
# No multiplication, and no error: entries change places, and none is computed anew.
# ```

# %% tags=["hide-cell"]
half = torch.randn(n).to(torch.bfloat16)
assert torch.equal(roll(half, key_position).sort().values, half.sort().values)

# %% [markdown]
# ## Related work
#
# Hyperdimensional computing marks a place in a sequence by rotating the coordinates of a vector
# {cite}`kanerva2009hyperdimensional`. In attention, PermuteFormer {cite}`chen2021permuteformer` applies powers of a
# random permutation to the features of queries and keys, in linear attention, and algebraic encodings
# {cite}`kogkalidis2024algebraic` apply orthogonal matrices. RollPE's permutation is a single ring. Waves of activity
# also travel over the cortex {cite}`muller2018cortical`, shaped by its geometry
# {cite}`pang2023geometric,horibe2019curved`, and in some networks the hidden state is made to roll or to travel
# {cite}`keller2021topographic,keller2023neural`.
