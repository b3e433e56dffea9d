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
# # Distance, not place
#
# When position codes are added to tokens, the distance between two tokens gets mixed with everything else
# ({doc}`02-distances`). A relative encoding puts the distance directly into the score: tokens 3 and 5 have the same
# positional term as tokens 103 and 105. Then a shift of all positions changes nothing, and the score cannot tell
# the first token from any other.
#
# What does that cost? Two of the introductions listed in {doc}`01-order` see high costs: *order*
# {cite}`teaching-order` says that a relative encoding needs a vector for every *pair* of tokens, and *equivariance*
# {cite}`teaching-equivariance` says that it rules out a key–value cache. Both claims are wrong. A small table is
# enough, and the cache works unchanged.

# %% tags=["parameters"]
tokens: int = 12  # tokens of the sequence, N [8..64]
d: int = 16  # channels of a query [2..256]
K: int = 3  # the largest distance that has a vector of its own [2..6]
seed: int = 0  # seed of the random tokens and tables [0..]

# %% tags=["hide-input"]
import math
from itertools import pairwise

import matplotlib.pyplot as plt
import torch

from rollpe.encodings import create_encoding, grid_positions
from rollpe.textbook import (
    decode,
    offsets,
    relative_lookup,
    shaw_attention,
    shaw_scores,
    softmax,
    t5_bucket,
    t5_scores,
)
from rollpe_book import figures
from rollpe_book.agree import agree, gap

figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## One number for each distance
#
# The offset from the query at $i$ to the key at $j$ is $j - i$, negative to the left. A term that depends on the
# offset alone is constant along the diagonals of the score matrix:
#
# $$
# B_{ij} = b_{j-i}, \qquad B_{i+\delta,\, j+\delta} = B_{ij}
# $$ (eq-toeplitz)
#
# Three tokens have five offsets, $-2 \dots 2$. Give them the numbers $5, 3, 0, 1, 2$ and fill in the matrix
# by hand. The main diagonal gets the $0$, since there $j = i$. The one below looks one step to the left and
# gets the $3$; the lower left corner gets the $5$.

# %%
b = torch.tensor([5, 3, 0, 1, 2])  # offsets −2 … 2
print(relative_lookup(b, offsets(torch.arange(3))))

# %% [markdown]
# So $N$ tokens need $2N - 1$ numbers, not $N^2$. T5 {cite}`raffel2020exploring` learns such numbers, one set
# for each head, and adds them to the scores. Neighboring offsets may share a number; the function
# $\operatorname{bucket}$ says which:
#
# $$
# e_{ij} = \frac{q_i^\top k_j}{\sqrt{d}} + b_{\operatorname{bucket}(j-i)}
# $$ (eq-t5)
#
# (T5 itself leaves out the $\sqrt d$; we keep it, as in the other encodings.)
#
# Near offsets get a bucket each. Farther away, more and more offsets share one. Let there be $4c$ buckets, half of
# them for keys to the right. On either side $c$ buckets serve the distances below $c$ and the other $c$ the rest;
# all distances from $D > c$ on share the last:
#
# $$
# \begin{aligned} & \operatorname{bucket}(\Delta) = 2c \, [\Delta > 0] \\
# & \quad + \min\bigl( 2c - 1,\, f(|\Delta|) \bigr), \\
# & f(a) = \begin{cases} a & a < c \\ c + \lfloor c \log_{D/c} (a / c) \rfloor & a \ge c \end{cases} \end{aligned}
# $$ (eq-t5-bucket)
#
# (Distance 0 counts as left. So on the right $c - 1$ buckets are enough for the near distances, and the bucket $2c$
# stays empty. T5's decoder never attends to the right and gives all its buckets to the left.)
#
# T5 has 32 buckets, so $c = 8$, and $D = 128$. Up to distance 7 the bucket *is* the distance. From 8 on, every
# doubling of the distance takes two more buckets, since the logarithm to base 16 is a quarter of the one to base 2:
# 8 falls into bucket 8, 16 into 10, 32 into 12, 64 into 14. Bucket 15 is the last. On the right, add 16.

# %%
by_hand = {0: 0, 3: 3, 7: 7, 8: 8, 16: 10, 32: 12, 64: 14, 1000: 15}
distances = torch.tensor(list(by_hand))
left, right = t5_bucket(-distances), t5_bucket(distances)
print("distance    ", *(f"{x:5}" for x in by_hand))
print("to the left ", *(f"{x:5}" for x in left.tolist()))
print("to the right", *(f"{x:5}" for x in right.tolist()))
assert left.tolist() == list(by_hand.values())
assert (right - left)[1:].eq(16).all()

used = t5_bucket(torch.arange(-200, 201)).unique().tolist()
print("empty:", *sorted(set(range(32)) - set(used)))
assert set(range(32)) - set(used) == {16}

# %% [markdown]
# T5's bias depends on the sign, too: three to the left and three to the right are two buckets. *Circles*
# {cite}`teaching-circles` describes it as a function of distance alone. Then "dog bites man" and "man bites dog"
# would give the same results in reverse order.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-rulers", "caption": "Which offsets share an entry of the table: with clipping (top) and with T5's buckets (bottom). Shades alternate, and each bar is one entry. Numbers mark the ends of the part in which every offset has its own."}, "image": {"alt": "Two horizontal rulers on a common axis of offsets from minus 150 to 150. The upper one, clipping at 16, has 31 narrow marks in the middle and one long uniform stretch on either side. The lower one, T5's buckets, has narrow marks in the middle that grow wider outward until about 90, and uniform ends."}}
offset = torch.arange(-150, 151)
clip = 16
rulers = {
    f"clipped at {clip}\n({2 * clip + 1} rows)": offset.clamp(-clip, clip),
    "T5's buckets\n(32 numbers)": t5_bucket(offset),
}
fig, axis = plt.subplots(figsize=(7.0, 2.3))
for line, ruler in enumerate(rulers.values()):
    edges = (
        torch.cat((torch.ones(1, dtype=torch.bool), ruler.diff() != 0))
        .nonzero()
        .flatten()
        .tolist()
    )
    edges.append(len(ruler))
    for mark, (start, stop) in enumerate(pairwise(edges)):
        color = (figures.BLUE, figures.SKY)[mark % 2]
        axis.barh(
            -line,
            stop - start,
            left=offset[start].item() - 0.5,
            height=0.55,
            color=color,
            linewidth=0,
        )
    fine = [clip, 8][line]
    for end in (-fine, fine):
        axis.text(
            end,
            -line + 0.33,
            f"{end:+}".replace("-", "−"),
            ha="center",
            va="bottom",
            fontsize=8,
        )
axis.set(
    yticks=[0, -1],
    yticklabels=list(rulers),
    xlabel="offset j − i (tokens)",
    xlim=(-150.5, 150.5),
    ylim=(-1.45, 0.75),
)
axis.tick_params(axis="y", length=0)
axis.spines["left"].set_visible(False)
plt.close(fig)
fig

# %% [markdown]
# The numbers need not be learned. ALiBi {cite}`press2022train` subtracts a multiple of the distance, which is
# different for each of the $H$ heads, $h = 1, \dots, H$:
#
# $$
# e_{ij} = \frac{q_i^\top k_j}{\sqrt{d}} - 2^{-8h/H} \, |i - j|
# $$ (eq-alibi)
#
# Eight heads have the slopes $\tfrac12, \tfrac14, \dots, \tfrac1{256}$. The first head looks at the nearest
# tokens alone, the last one at hundreds. ALiBi was made for causal language models that read longer texts than they
# were trained on; with $|i - j|$ it also looks to the right.
#
# Both tables of {numref}`fig-rulers` have about as many entries. Clipping spends them all on near offsets and
# treats all farther ones alike; T5's buckets reach far with decreasing resolution. The next section uses clipping.
#
# ## A vector for each distance
#
# A number for each distance treats all queries alike. In the encoding of Shaw et al. {cite}`shaw2018self` the
# effect of a distance depends on the query: each offset has a learned *vector*, which is added to the key:
#
# $$
# e_{ij} = \frac{1}{\sqrt{d}} \left( q_i^\top k_j + q_i^\top R^K_{j-i} \right)
# $$ (eq-shaw)
#
# The second term says how strongly *this* query attends to tokens at that offset. It need not favor near tokens.
# *Equivariance* says that the score falls with distance "in monotonic fashion". A table may learn that, but the
# formula also allows one that grows with distance, such as the one in {numref}`hand-cache` below.
#
# The table has $2K + 1$ rows, for the offsets $-K \dots K$. Beyond its ends, the last row is used again:
#
# $$
# R_{j-i} = T_{\max(-K,\, \min(K,\, j-i))}
# $$ (eq-shaw-clip)
#
# A second table may be added to the values, so that the result also depends on how far away each value was:
#
# $$
# \begin{gathered} y_i = \sum_j \alpha_{ij} \left( v_j + R^V_{j-i} \right), \\
# \alpha = \operatorname{softmax}(e) \end{gathered}
# $$ (eq-shaw-values)

# %%
X = torch.randn(tokens, d)
W_Q, W_K, W_V = torch.randn(3, d, d) / math.sqrt(d)
q, k, v = X @ W_Q, X @ W_K, X @ W_V
T_K, T_V = torch.randn(2, 2 * K + 1, d)  # two tables, offsets −K … K
Delta = offsets(torch.arange(tokens))  # j − i
R_K, R_V = relative_lookup(T_K, Delta), relative_lookup(T_V, Delta)

one_by_one = torch.empty(tokens, tokens)
for i in range(tokens):
    for j in range(tokens):
        row = max(-K, min(K, j - i)) + K  # where the table keeps j − i
        one_by_one[i, j] = q[i] @ (k[j] + T_K[row]) / math.sqrt(d)
agree("score, pair by pair", shaw_scores(q, k, R_K), one_by_one)

# %% [markdown]
# ## What a shift does
#
# Move all tokens by $\delta$, for example by writing $\delta$ other tokens in front of them. The scores among the
# old tokens stay the same:
#
# $$
# e_{i+\delta,\, j+\delta} = e_{ij} \quad \text{if } q_{i+\delta} = q_i,\ k_{j+\delta} = k_j
# $$ (eq-shaw-shift)
#
# *Equivariance* leaves out the condition. The *same tokens* must be in the new places. Inside one sequence, one
# step down the diagonal leads to two other tokens, with another score.

# %%
before = torch.randn(4, d)
longer = torch.cat((before, X))
R_longer = relative_lookup(T_K, offsets(torch.arange(len(longer))))
e = shaw_scores(q, k, R_K)
e_longer = shaw_scores(longer @ W_Q, longer @ W_K, R_longer)
agree("the same tokens, four places on", e_longer[4:, 4:], e)
change = gap(e[1:, 1:], e[:-1, :-1])
print(f"other tokens, one step down the diagonal: {change:.2f} off")
assert change > 0.01

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-relative-shift", "caption": "What position adds to the score: one number for each offset (left), Shaw's vector for each offset (middle), and Shaw's term again after four tokens were written in front (right). The outlined block is the middle panel."}, "image": {"alt": "Three square heat maps of query position against key position. Left: stripes along the diagonals, each of one color. Middle: every row has the same arrangement of a few colored cells around the diagonal and two uniform stretches beside it, but in colors of its own. Right: the same pattern with four more rows and columns; an outlined block at the lower right has exactly the colors of the middle panel."}}
term, term_longer = (
    shaw_scores(q, 0 * k, R_K),
    shaw_scores(longer @ W_Q, longer * 0, R_longer),
)
bias = relative_lookup(T_K[:, 0], Delta)
panels = {
    "a number for each offset": bias,
    "a vector for each offset": term,
    "behind 4 other tokens": term_longer,
}
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.9), sharex=True, sharey=True)
for axis, (title, values) in zip(axes, panels.items(), strict=True):
    limit = (
        values.abs().max().item() if values is bias else term_longer.abs().max().item()
    )
    axis.imshow(values.numpy(), cmap=figures.DIVERGING, vmin=-limit, vmax=limit)
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("position of the key")
    axis.xaxis.set_major_locator(plt.MaxNLocator(integer=True))
    axis.yaxis.set_major_locator(plt.MaxNLocator(integer=True))
axes[0].set(
    ylabel="position of the query", xlim=(-0.5, tokens + 3.5), ylim=(tokens + 3.5, -0.5)
)
axes[2].add_patch(
    plt.Rectangle(
        (3.5, 3.5),
        tokens,
        tokens,
        fill=False,
        edgecolor=figures.ON_PALE,
        linewidth=1.8,
        clip_on=False,
    )
)
plt.close(fig)
fig

# %% [markdown]
# In the left panel of {numref}`fig-relative-shift` each diagonal has one color. In the middle panel the colors of a
# row depend on its query. The right panel contains the middle one, unchanged: the shift moves the block as a whole.
#
# This is also the limit of relative encodings: a score that depends on the offset alone cannot single out the first
# token. *Order* rightly names that as a drawback. In images it may be an advantage, since a cat is a cat wherever
# it sits.
#
# ## What clipping loses
#
# Beyond the window the relative position is "undefined", says *equivariance*. It is defined: with
# {eq}`eq-shaw-clip` every offset has a row, and a table that was trained on short sequences runs on any length.
# What is lost is the order of far tokens.
#
# ```{prf:proposition} Far tokens are a bag
# :label: prop-far-bag
# In one layer of {eq}`eq-shaw-values` with clipping, the result of token $i$ stays the same when the tokens at
# distance $K$ or more to its left change places, and likewise on its right.
# ```
#
# ```{prf:proof}
# All these tokens use the row $T_{-K}$ of either table. What they contribute, the number
# $\exp(q_i^\top (k_j + T^K_{-K})/\sqrt d)$ and the vector $v_j + T^V_{-K}$, therefore depends on the token
# and not on its place. The sums over $j$ in {eq}`eq-shaw-values` and in the softmax contain the same terms
# in another order.
# ```
#
# This is {prf:ref}`thm-equivariance` of {doc}`01-order` for far tokens. Nearer than $K$ the result depends on the
# order; from $K$ on, only on the side.

# %%
far = torch.arange(tokens - K)  # K or more to the left of the last token
shuffled = torch.arange(tokens)
shuffled[far] = far.roll(1)
swapped = torch.arange(tokens)
swapped[[0, -2]] = swapped[[-2, 0]]  # the farthest and the nearest one


def last(order):
    """The result of the last token, all tokens in this order."""
    return shaw_attention(q[order], k[order], v[order], R_K, R_V)[-1]


y = last(torch.arange(tokens))
agree(f"the {len(far)} far tokens change places", last(shuffled), y)
change = gap(last(swapped), y)
print(f"a far and a near one change places: {change:.2f} off")
assert change > 1e-3

# %% [markdown]
# ## A vector for every pair?
#
# *Order* writes Shaw's term with a tensor $A^K \in \mathbb{R}^{L \times L \times d}$, a vector for each pair of
# tokens, and says that this takes much memory. It would, but the tensor holds only $2K + 1$ different vectors. So
# multiply the query with each of them once, and look the products up:
#
# $$
# q_i^\top R_{j-i} = \bigl( Q T^\top \bigr)_{i,\; j-i+K}
# $$ (eq-shaw-gather)
#
# where $j - i$ is clipped as before. Two lines of code, and when the sequence is longer than the table, no tensor has
# more entries than the scores themselves:

# %%
i = torch.arange(tokens)
columns = (i - i[:, None]).clamp(-K, K) + K  # [N, N], whole numbers


def shaw_term(q, table):
    products = q @ table.T  # [N, 2K+1]: every query with every offset
    return products.gather(1, columns)  # [N, N]


agree("one product and a lookup", q @ k.T + shaw_term(q, T_K), math.sqrt(d) * e)

print("megabytes, one head of 64 channels, table of 33 rows, 32 bits:")
print("tokens   a vector for each pair   product and lookup")
for N in (65, 1024, 8192):
    pairs, lookup = 4 * N * N * 64, 4 * (N * N + N * 33)
    print(f"{N:6} {pairs / 1e6:24,.2f} {lookup / 1e6:20,.2f}")
print("(the whole numbers of `columns`, which all heads share, come on top)")

# %% [markdown]
# Values work the other way round: add up each query's weights by offset, then multiply with the table once.
# This is how the library computes its encodings `shaw` and `shaw-kv` for several heads and axes. They agree with
# the formulas:

# %%
positions = grid_positions(tokens, dtype=torch.float64)
queries, keys, values = (x[None, None] for x in (q, k, v))  # one head
library = create_encoding("shaw-kv", head_dim=d, heads=1, axes=1, clip=K)
library.double().requires_grad_(False)
library.keys[0, 0], library.values[0, 0] = T_K, T_V
result = library.attend(queries, keys, values, positions)[0, 0]
formula = shaw_attention(q, k, v, R_K, R_V)
agree("the library's shaw-kv", result, formula)

# %% [markdown]
# On a grid of patches even the lookup can go, because a grid has few rows and few columns: the bias becomes part of
# an ordinary dot product. Let axis $a$ have its own table $R^a$, and let $p_i^a$ be the row or the column of token
# $i$. Give queries and keys one more channel for each row and each column $c$. In these channels the key has a one
# at its own row and column, and zeros elsewhere. The query has its product with the vector of the offset from its
# own place to $c$. The dot product then picks the right products. (MViTv2, too, has one vector for the rows plus
# one for the columns {cite}`li2022mvitv2`.)
#
# $$
# \begin{aligned} \hat q_i &= \bigl[\, q_i,\; \bigl( q_i^\top R^a_{c - p_i^a} \bigr)_{a,c} \,\bigr], \\
# \hat k_j &= \bigl[\, k_j,\; \bigl( [c = p_j^a] \bigr)_{a,c} \,\bigr], \\
# \hat q_i^\top \hat k_j &= q_i^\top \Bigl( k_j + \sum_a R^a_{p_j^a - p_i^a} \Bigr) \end{aligned}
# $$ (eq-shaw-grid)
#
# On $8 \times 8$ patches these are 16 more channels, and no bias is stored at all. So fused attention, which never
# stores its scores, can compute Shaw's encoding, too. Ones in extra channels of the values collect the weights by
# row and column. The library uses these channels for every complete grid:

# %%
grid = (4, 6)
on_grid = create_encoding("shaw", head_dim=d, heads=1, axes=2, grid=grid, clip=K)
on_grid.double().requires_grad_(False)
patches = grid_positions(*grid)
q_p, k_p, v_p = torch.randn(3, 1, 1, len(patches), d)
by_pairs = on_grid.attend(q_p, k_p, v_p, patches)
by_channels = on_grid.attend(q_p, k_p, v_p, on_grid.precompute(patches, q_p, grid))
agree(f"{sum(grid)} channels in place of {len(patches)}² biases", by_channels, by_pairs)

# %% [markdown]
# ## Can it use a cache?
#
# An autoregressive language model generates one token at a time. Each new token attends to the keys and values of
# all earlier ones, so a cache keeps them:
#
# $$
# \begin{gathered} y_t = \sum_{j \le t} \alpha_{tj} v_j, \\
# \alpha_{t\cdot} = \operatorname{softmax}\!\left( \frac{q_t^\top k_j}{\sqrt{d}} \right)_{j \le t} \end{gathered}
# $$ (eq-cache)
#
# *Equivariance* objects: since $t$ grows at every step, all offsets $j - t$ change at every step, which makes
# "caching impossible". The offsets do change, but nothing in the cache depends on them:
#
# $$
# e_{tj} = \frac{1}{\sqrt{d}} \left( q_t^\top k_j + q_t^\top R_{j-t} \right), \qquad j \le t
# $$ (eq-cache-shaw)
#
# The key $k_j$ does not depend on $t$. The vectors $R$ are in a table that never changes. Only the query depends on
# $t$, and the query is new at every step, with or without positions. No pair $(t, j)$ is ever scored twice, so
# there is nothing to *re*compute.
#
# An example has three tokens $a, b, c$, one channel, and every query equal to $1$. The keys are $\ln 1, \ln 2,
# \ln 3$, the values $10, 20, 0$, and the table holds $R_0 = \ln 1$, $R_{-1} = \ln 2$, $R_{-2} = \ln 3$. The
# exponential turns sums into products, so the share of a token is the number of its key times the number of
# its age:
#
# ```{table} Decoding by hand. The cached numbers are written once and stay; the factors move along by one place at each step, and come from the table.
# :name: hand-cache
#
# | new token | cached keys | factor of their age | shares | result |
# | :-- | :-- | :-- | :-- | :-- |
# | $a$ | $1$ | $1$ | $1$ | $10$ |
# | $b$ | $1,\ 2$ | $2,\ 1$ | $2 : 2$ | $(2 \cdot 10 + 2 \cdot 20)/4 = 15$ |
# | $c$ | $1,\ 2,\ 3$ | $3,\ 2,\ 1$ | $3 : 4 : 3$ | $(3 \cdot 10 + 4 \cdot 20 + 3 \cdot 0)/10 = 11$ |
# ```


# %%
def step(q_t, k_cache, v_cache, table):
    """The newest query meets everything cached, which is only read."""
    K, t = len(table) // 2, len(k_cache) - 1
    age = (torch.arange(t + 1) - t).clamp(min=-K)  # j − t
    scores = k_cache @ q_t + (table @ q_t)[age + K]
    return softmax(scores / math.sqrt(len(q_t))) @ v_cache


def column(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


three_keys, three_values = column(1, 2, 3).log(), column(10, 20, 0)
table = column(3, 2, 1, 1, 1).log()  # offsets −2 … 2
results = decode(torch.ones(3, 1), three_keys, three_values, table)
print("results:", [round(x, 12) for x in results.flatten().tolist()])
agree("the table above", results, column(10, 15, 11))

# %% [markdown]
# The same holds for random tokens. We compare decoding with a cache to full attention under a causal mask, for
# Shaw's encoding with one table, with two, and for T5's biases:

# %% tags=["hide-input"]
later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
full = softmax(e.masked_fill(later, -torch.inf)) @ v
ends = range(1, tokens + 1)
cached = torch.stack([step(q[t - 1], k[:t], v[:t], T_K) for t in ends])
agree("the step above", cached, full)
agree("the library's function", decode(q, k, v, T_K), full)

for name in ("shaw", "shaw-kv", "t5-bias"):
    encoding = create_encoding(name, head_dim=d, heads=1, axes=1)
    encoding.double().requires_grad_(False)
    for parameter in encoding.parameters():
        parameter.normal_()
    full = encoding.attend(queries, keys, values, positions, is_causal=True)
    for t in ends:
        newest = queries[..., t - 1 : t, :]
        cache = keys[..., :t, :], values[..., :t, :]
        result = encoding.decode(newest, *cache, positions[:t])
        cached[t - 1] = result.flatten()
    agree(f"the encoding {name}", cached, full[0, 0])

# %% [markdown]
# The extra work of a step is one product of the query with the table, however long the sequence has become, and one
# addition for each cached key:

# %%
N, rows = 8192, 17  # a causal query looks at offsets −16 … 0
content, position = N * (N + 1) // 2, N * rows
print(f"to write {N} tokens: {content:,} dot products with keys")
share = 100 * position / content
print(f"and {position:,} with the table: {share:.2f} % more")

# %% [markdown]
# The objection is correct for one layout of the cache: a cache of the *sums* $k_j + R_{j-t}$, as the notation
# $Q(K + A^K)^\top$ suggests, would have to be rebuilt at every step. The remedy is to store the keys alone.
#
# ```{admonition} In short
# :class: tip
# A relative score of the same two tokens depends on how far apart they are, not on where they are,
# {eq}`eq-shaw-shift`. T5 learns one number for each range of offsets, Shaw one vector for each offset up to $K$;
# from $K$ on, far tokens are a bag. There is no need for a vector for each pair, {eq}`eq-shaw-gather`, nor on a
# grid for a number for each pair, {eq}`eq-shaw-grid`. A key–value cache works unchanged, {eq}`eq-cache-shaw`.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-relative-equal
# All tokens are equal. Can a layer with Shaw's first table tell the first token from one in the middle? And
# with both tables?
# ```
#
# ```{solution} exercise-relative-equal
# :class: dropdown
# With the table of keys alone it cannot: the weights differ from row to row, but all values are equal, and
# every weighted mean of equal values is that value. With the table of values it can. The first token has no
# neighbors on its left, so the vectors of negative offsets are missing from its mean. The score is relative, but
# the ends of the sequence still have an effect.
# ```

# %% tags=["hide-cell"]
same = torch.randn(1, d).expand(tokens, d)
keys_only = shaw_attention(same, same, same, R_K, 0 * R_V)
both = shaw_attention(same, same, same, R_K, R_V)
agree("keys only, equal tokens", keys_only, keys_only[:1].expand_as(keys_only))
seen = gap(both[0], both[tokens // 2])
print(f"both tables: first and middle token differ by {seen:.2f}")
assert seen > 1e-3

# %% [markdown]
# ```{exercise}
# :label: exercise-relative-copy
# Choose T5's numbers so that each token copies the value of its left neighbor, to one part in a million,
# whatever its query is. What will the first token do?
# ```
#
# ```{solution} exercise-relative-copy
# :class: dropdown
# Let the bucket of offset $-1$ have the number $\beta$ and all others $0$. If the other terms of the score
# vanish, the left neighbor has the weight $e^\beta/(e^\beta + N - 1)$, so $\beta = \ln(10^6 (N - 1))$ is
# enough; if they range over an interval, add its length. The first token has no left neighbor and averages all
# tokens.
# ```

# %% tags=["hide-cell"]
content = q @ k.T / math.sqrt(d)
bias = torch.zeros(32)
bias[t5_bucket(torch.tensor(-1))] = math.log(1e6 * (tokens - 1)) + (
    content.max() - content.min()
)
weights = softmax(t5_scores(q, k, bias[t5_bucket(Delta)]))
missing = 1 - weights.diagonal(-1).min().item()
print(f"smallest weight of a left neighbor: 1 − {missing:.1e}")
assert missing < 1e-6
assert weights[0].max() < 0.999

# %% [markdown]
# ```{exercise}
# :label: exercise-relative-layers
# By {prf:ref}`prop-far-bag` far tokens are a bag for one layer. How many layers does it take until the result of
# the last token changes when two neighbors far away change places?
# ```
#
# ```{solution} exercise-relative-layers
# :class: dropdown
# Two, at any distance. The two neighbors are close to *each other*, so their order changes the results of both in
# the first layer. For the second layer far tokens are still a bag, but a bag of other tokens.
# ```

# %% tags=["hide-cell"]
pair = torch.arange(tokens)
pair[[0, 1]] = pair[[1, 0]]


def layer(X):
    return shaw_attention(X @ W_Q, X @ W_K, X @ W_V, R_K, R_V)


agree("one layer", layer(X[pair])[-1], layer(X)[-1])
change = gap(layer(layer(X[pair]))[-1], layer(layer(X))[-1])
print(f"two layers: the last token changes by {change:.1e}")
assert change > 1e-6
