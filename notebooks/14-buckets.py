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
# # Tables of offsets: buckets, clipping, caches
#
# A relative encoding gives each offset a number or a vector ({doc}`02-distances`). How large must its table be? Does a
# layer need a vector for each *pair* of tokens? Can a language model still use a cache? A small table is enough,
# because far offsets share an entry. No tensor is larger than the scores, and a cache works unchanged. The last
# section compares the steps of the codes of {doc}`02-distances`.

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

from rollpe import formulas
from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.frequencies import geometric
from rollpe_book import figures
from rollpe_book.agree import agree, differs, gap, holds
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## T5's buckets
#
# T5 {cite}`raffel2020exploring` adds a learned number to each score, one set of numbers for each head. Neighboring
# offsets may share a number; the function $\operatorname{bucket}$ says which:
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
# T5 has 32 buckets, so $c = 8$, and $D = 128$. Up to distance 7 the bucket *is* the distance. From 8 on, every
# doubling of the distance uses two more buckets: 8 falls into bucket 8, 16 into 10, 32 into 12, 64 into 14. Bucket 15
# is the last. On the right, add 16.

# %%
c, D = 8, 128


def bucket(Delta):
    a = Delta.abs()
    logarithm = torch.log2(a.clamp(min=c) / c) / math.log2(D / c)
    f = torch.where(a < c, a, c + (c * logarithm).floor().long())
    return 2 * c * (Delta > 0) + f.clamp(max=2 * c - 1)


Delta = torch.arange(-200, 201)
agree("eq-t5-bucket", bucket(Delta), formulas.t5_bucket(Delta))

# %%
by_hand = {0: 0, 3: 3, 7: 7, 8: 8, 16: 10, 32: 12, 64: 14, 1000: 15}
distance, numbers = torch.tensor([[*by_hand], [*by_hand.values()]])
left, right = bucket(-distance), bucket(distance)[1:]
agree("the numbers above", [left, right], [numbers, numbers[1:] + 16])
empty = set(range(32)) - set(bucket(Delta).tolist())
print("empty:", *empty)
assert empty == {16}

# %% [markdown]
# Distance 0 counts as left, so bucket 16 stays empty. T5's decoder never attends to the right and gives all its
# buckets to the left. The next two checks compare the library, for other numbers of buckets, with a count in whole
# numbers: how many of the edges $c \, (D/c)^{j/c}$ has a distance passed?


# %% tags=["hide-input"]
def counted(Δ, c, D):
    a, edges = abs(Δ), range(1, c + 1)
    f = a if a < c else c + sum(a**c >= c ** (c - j) * D**j for j in edges)
    return 2 * c * (Δ > 0) + min(2 * c - 1, f)


offset = torch.cat((Delta, torch.tensor([-5000, -999, 1000, 4096])))
sizes = [(1, 2), (1, 50), (2, 128), (3, 11), (8, 128), (10, 70), (12, 300)]
both = [formulas.t5_bucket(offset, 4 * c, D) for c, D in sizes]
agree("eq-t5-bucket", both, [[counted(Δ, *s) for Δ in offset.tolist()] for s in sizes])

# %% tags=["hide-input"]
one_way = [formulas.t5_bucket(offset, 2 * c, D, bidirectional=False) for c, D in sizes]
expected = [[counted(min(Δ, 0), *s) for Δ in offset.tolist()] for s in sizes]
agree("the decoder's buckets", one_way, expected)

# %% [markdown]
# The scores are those of {eq}`eq-t5`, here for tokens at the positions $0, 1, 4, 9, \dots$:

# %%
X, p = torch.randn(tokens, d), torch.arange(tokens) ** 2
W_Q, W_K, W_V = torch.randn(3, d, d) / math.sqrt(d)
q, k, v = X @ W_Q, X @ W_K, X @ W_V
b = torch.randn(32)
e = q @ k.T / math.sqrt(d) + b[bucket(p - p[:, None])]
library = formulas.t5_scores(q, k, b[formulas.t5_bucket(formulas.offsets(p))])
agree("eq-t5", library, e)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-rulers", "caption": "Which offsets share an entry of the table: with clipping (top) and with T5's buckets (bottom). Shades alternate, and each bar is one entry. Numbers mark the ends of the part in which every offset has its own."}, "image": {"alt": "Two horizontal rulers on a common axis of offsets from minus 150 to 150. The upper one, clipping at 16, has 31 narrow marks in the middle and one long uniform stretch on either side. The lower one, T5's buckets, has narrow marks in the middle that grow wider outward until about 90, and uniform ends."}}
offset = torch.arange(-150, 151)
clip = 16
rulers = {
    f"clipped at {clip}\n({2 * clip + 1} rows)": offset.clamp(-clip, clip),
    "T5's buckets\n(32 numbers)": bucket(offset),
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
# The two tables of {numref}`fig-rulers` have about as many entries. Clipping, which Shaw's encoding {eq}`eq-shaw-clip`
# uses, spends them all on near offsets and treats all farther ones alike. T5's buckets reach far with decreasing
# resolution.
#
# ## What clipping loses
#
# Shaw's encoding may have a second table, which is added to the values. The result then also depends on how far away
# each value was:
#
# $$
# \begin{gathered} y_i = \sum_j \alpha_{ij} \left( v_j + R^V_{j-i} \right), \\
# \alpha = \operatorname{softmax}(e) \end{gathered}
# $$ (eq-shaw-values)

# %%
T_K, T_V = torch.randn(2, 2 * K + 1, d)  # two tables, offsets −K … K
i = torch.arange(tokens)
row = (i - i[:, None]).clamp(-K, K) + K  # where the tables keep j − i
R_K, R_V = T_K[row], T_V[row]  # [N, N, d]
e = (q[:, None] * (k + R_K)).sum(dim=-1) / math.sqrt(d)
alpha = torch.softmax(e, dim=-1)
y = (alpha[..., None] * (v + R_V)).sum(dim=1)
agree("eq-shaw-values", formulas.shaw_attention(q, k, v, R_K, R_V), y)

# %% [markdown]
# With clipping every offset has a row, so a table that was trained on short sequences runs on any length. What is
# lost is the order of far tokens.
#
# ```{prf:proposition} Far tokens are a bag
# :label: prop-far-bag
# In one layer of {eq}`eq-shaw-values` with clipping, the result of token $i$ stays the same when the tokens at
# distance $K$ or more to its left change places, and when those at distance $K$ or more to its right do.
# ```
#
# ```{prf:proof}
# The tokens on the left use the row $T_{-K}$ of either table. What they contribute, the number
# $\exp(q_i^\top (k_j + T^K_{-K})/\sqrt d)$ and the vector $v_j + T^V_{-K}$, therefore depends on the token
# and not on its place. The sums over $j$ in {eq}`eq-shaw-values` and in the softmax contain the same terms
# in another order. On the right the row is $T_K$.
# ```
#
# This is {prf:ref}`thm-equivariance` of {doc}`01-order` for far tokens.

# %%
far = torch.arange(tokens - K)  # K or more to the left of the last token
shuffled, swapped = torch.arange(tokens), torch.arange(tokens)
shuffled[far] = far.roll(1)
swapped[[0, -2]] = swapped[[-2, 0]]  # the farthest and the nearest one


def last(order):  # the result of the last token, all tokens in this order
    return formulas.shaw_attention(q[order], k[order], v[order], R_K, R_V)[-1]


agree(f"the {len(far)} far tokens change places", last(shuffled), y[-1])
differs("a far and a near one change places", last(swapped), y[-1])

# %% [markdown]
# ## No vector for each pair
#
# Shaw's term is often written with a tensor of $N \times N \times d$ numbers, a vector for each pair of tokens. That
# tensor holds only $2K + 1$ different vectors. So multiply the query with each of them once, and look the products up:
#
# $$
# q_i^\top R_{j-i} = \bigl( Q T^\top \bigr)_{i,\; j-i+K}
# $$ (eq-shaw-gather)
#
# Here $j - i$ is clipped as before.

# %%
products = q @ T_K.T  # [N, 2K+1]: every query with every offset
term = products.gather(1, row)  # [N, N]
R = formulas.relative_lookup(T_K, formulas.offsets(i))  # [N, N, d]
agree("eq-shaw-gather", term / math.sqrt(d), formulas.shaw_scores(q, 0 * k, R))

# %% [markdown]
# When the sequence is longer than the table, no tensor has more entries than the scores themselves:

# %%
print("megabytes, one head of 64 channels, table of 33 rows, 32 bits:")
print("tokens   a vector for each pair   product and lookup")
for N in (65, 1024, 8192):
    pairs, lookup = 4 * N * N * 64, 4 * (N * N + N * 33)
    print(f"{N:6} {pairs / 1e6:24,.2f} {lookup / 1e6:20,.2f}")

# %% [markdown]
# Values work the other way round: add up each query's weights by offset, then multiply with the table once. The library
# computes its encodings `shaw` and `shaw-kv` like this, for several heads and axes.

# %% tags=["hide-input"]
positions = grid_positions(tokens, dtype=torch.float64)
queries, keys, values = (x[None, None] for x in (q, k, v))  # one head
library = create_encoding("shaw-kv", head_dim=d, heads=1, axes=1, clip=K)
library.double().requires_grad_(False)
library.keys[0, 0], library.values[0, 0] = T_K, T_V
result = library.attend(queries, keys, values, positions)[0, 0]
agree("the library's shaw-kv", result, y)

# %% [markdown]
# On a grid of patches even the lookup can go: the bias becomes part of an ordinary dot product. Let axis $a$ have its
# own table $R^a$, and let $p_i^a$ be the row or the column of token $i$. Give queries and keys one more channel for
# each row and each column $c$. In these channels the key has a one at its own row and column, and zeros elsewhere. The
# query has its product with the vector of the offset from its own place to $c$. The dot product then picks the right
# products. (MViTv2, too, has one vector for the rows plus one for the columns {cite}`li2022mvitv2`.)
#
# $$
# \begin{aligned} \hat q_i &= \bigl[\, q_i,\; \bigl( q_i^\top R^a_{c - p_i^a} \bigr)_{a,c} \,\bigr], \\
# \hat k_j &= \bigl[\, k_j,\; \bigl( [c = p_j^a] \bigr)_{a,c} \,\bigr], \\
# \hat q_i^\top \hat k_j &= q_i^\top \Bigl( k_j + \sum_a R^a_{p_j^a - p_i^a} \Bigr) \end{aligned}
# $$ (eq-shaw-grid)

# %%
grid = (4, 6)
p = torch.cartesian_prod(torch.arange(4), torch.arange(6))  # row, column
R = torch.randn(2, 2 * K + 1, d)  # a table for the rows, one for the columns
q_hat, k_hat = q_p, k_p = torch.randn(2, len(p), d)
for a in range(2):
    places, here = torch.arange(grid[a]), p[:, a, None]  # every c, the token's own
    vectors = R[a][(places - here).clamp(-K, K) + K]  # [N, G, d]
    q_hat = torch.cat((q_hat, torch.einsum("id,icd->ic", q_p, vectors)), dim=1)
    k_hat = torch.cat((k_hat, (places == here).double()), dim=1)

# %%
offsets = formulas.offsets(p.T)  # [2, N, N]
down, right = (formulas.relative_lookup(R[a], offsets[a]) for a in range(2))
wanted = (q_p[:, None] * (k_p + down + right)).sum(dim=-1)
agree("eq-shaw-grid", q_hat @ k_hat.T, wanted)

# %% [markdown]
# On $8 \times 8$ patches these are 16 more channels, and no bias is stored at all. So fused attention, which never
# stores its scores, can compute Shaw's encoding, too. Ones in extra channels of the values collect the weights by
# row and column. The library uses these channels for every complete grid with at most $2d$ rows and columns.

# %% tags=["hide-input"]
shaw = create_encoding("shaw", head_dim=d, heads=1, axes=2, grid=grid, clip=K)
shaw.double().requires_grad_(False).keys[:, 0] = R
q_1, k_1, v_1 = (x[None, None] for x in (q_p, k_p, torch.randn(len(p), d)))
channels = shaw.precompute(p, q_1, grid)
holds("its channels are ours", 2 * d < 10 or channels.tables[0] == k_hat[:, d:])
found = [shaw.attend(q_1, k_1, v_1, tables) for tables in (p, channels)]
result = torch.softmax(wanted / math.sqrt(d), dim=-1) @ v_1
agree("eq-shaw-grid", found, [result, result])  # by pairs and by channels

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

# %%
causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
agree("eq-cache", formulas.decode(q, k, v), causal)

# %% [markdown]
# At every step $t$ grows, so all offsets $j - t$ change. But nothing in the cache depends on them:
#
# $$
# e_{tj} = \frac{1}{\sqrt{d}} \left( q_t^\top k_j + q_t^\top R_{j-t} \right), \qquad j \le t
# $$ (eq-cache-shaw)
#
# The key $k_j$ does not depend on $t$, and the vectors $R$ are in a table that never changes. Only the query depends on
# $t$, and it is new at every step. (A cache of the *sums* $k_j + R_{j-t}$ would have to be rebuilt at every step. So
# store the keys alone.)
#
# An example has three tokens $a, b, c$, one channel, and every query equal to $1$. The keys are $\ln 1, \ln 2,
# \ln 3$, the values $10, 20, 0$, and the table holds $R_0 = \ln 1$, $R_{-1} = \ln 2$, $R_{-2} = \ln 3$. The
# exponential turns sums into products, so the share of a token is the number of its key times the number of
# its age:
#
# ```{table} Decoding by hand. The cached numbers are written once and stay; the factors of age come from the table.
# :name: hand-cache
#
# | new token | cached keys | factor of their age | shares | result |
# | :-- | :-- | :-- | :-- | :-- |
# | $a$ | $1$ | $1$ | $1$ | $10$ |
# | $b$ | $1,\ 2$ | $2,\ 1$ | $2 : 2$ | $(2 \cdot 10 + 2 \cdot 20)/4 = 15$ |
# | $c$ | $1,\ 2,\ 3$ | $3,\ 2,\ 1$ | $3 : 4 : 3$ | $(3 \cdot 10 + 4 \cdot 20 + 3 \cdot 0)/10 = 11$ |
# ```


# %%
def step(q_t, k_cache, v_cache):  # the newest query meets everything cached
    age = torch.arange(1 - len(k_cache), 1).clamp(min=-K)  # j − t
    e_t = (k_cache @ q_t + (T_K @ q_t)[age + K]) / math.sqrt(d)
    return torch.softmax(e_t, dim=0) @ v_cache


cached = torch.stack([step(q[t], k[: t + 1], v[: t + 1]) for t in range(tokens)])
later = torch.full((tokens, tokens), -torch.inf).triu(1)
full = torch.softmax(e + later, dim=-1) @ v
agree("eq-cache-shaw", [cached, formulas.decode(q, k, v, T_K)], [full, full])

# %%
ln = torch.tensor([1.0, 2, 3]).log()[:, None]  # the keys of the table above
T = torch.tensor([3.0, 2, 1, 1, 1]).log()[:, None]  # offsets −2 … 2
ten_twenty = torch.tensor([10.0, 20, 0])[:, None]
result = formulas.decode(torch.ones(3, 1), ln, ten_twenty, T)
agree("the table above", result.flatten(), [10, 15, 11])

# %% [markdown]
# The library's encodings decode with a cache, too: Shaw's with one table and with two, and T5's biases.

# %% tags=["hide-input"]
past = [[x[..., : t + 1, :] for x in (keys, values, positions)] for t in range(tokens)]
for name in ("shaw", "shaw-kv", "t5-bias"):
    encoding = create_encoding(name, head_dim=d, heads=1, axes=1).double()
    for parameter in encoding.requires_grad_(False).parameters():
        parameter.normal_()
    steps = [encoding.decode(queries[..., [t], :], *past[t]) for t in range(tokens)]
    full = encoding.attend(queries, keys, values, positions, is_causal=True)
    agree(f"the encoding {name}", torch.cat(steps, dim=-2), full)

# %% [markdown]
# The extra work of a step is one product of the query with the table, however long the sequence has become, and one
# addition for each cached key.
#
# ## The steps of the codes
#
# The codes that {doc}`02-distances` adds to tokens differ in their steps. All one-hot codes are equally far apart:
#
# $$
# \|\mathbf{1}_p - \mathbf{1}_{p'}\| = \sqrt{2} \quad (p \neq p')
# $$ (eq-one-hot-distance)

# %%
p = torch.arange(120)
one_hot = formulas.one_hot_code(p, len(p))
distance = (one_hot[:, None] - one_hot).norm(dim=-1)
agree("eq-one-hot-distance", distance, math.sqrt(2) * (p[:, None] != p))

# %% [markdown]
# Each binary digit is a square wave, half as fast as the one before:
#
# $$
# \begin{aligned} b_i\bigl(p + 2^{i+1}\bigr) &= b_i(p), \\
# b_i\bigl(p + 2^{i}\bigr) &= 1 - b_i(p) \end{aligned}
# $$ (eq-bit-period)

# %%
waves = [(2**i, b) for i, b in enumerate(formulas.binary_code(p, 8).T[:6])]
agree("eq-bit-period", [b[2 * h :] for h, b in waves], [b[: -2 * h] for h, b in waves])
agree("eq-bit-period", [b[h:] for h, b in waves], [1 - b[:-h] for h, b in waves])

# %% [markdown]
# The carry makes the steps of binary digits unequal:
#
# $$
# \begin{aligned} & \|b(p+1) - b(p)\|^2 \\
# & \quad = 1 + \#\{\text{ones at the end of } p\} \end{aligned}
# $$ (eq-bit-flips)

# %%
wide = torch.cat((p, torch.tensor([2**15 - 1, 40000])))
ones_at_end = [len(f"{a:b}") - len(f"{a:b}".rstrip("1")) for a in wide]
expected = 1 + torch.tensor(ones_at_end)
change = formulas.binary_code(wide + 1, 17) - formulas.binary_code(wide, 17)
flips = change.square().sum(dim=1)
agree("eq-bit-flips", [flips, formulas.bit_flips(wide)], [expected, expected])

# %% [markdown]
# All sinusoidal codes have the same length, because each pair lies on a circle:
#
# $$
# \|\mathrm{PE}(p)\|^2 = \tfrac{d}{2}
# $$ (eq-sinusoid-norm)

# %%
real = 9.3 * p - 500  # negative ones, too
squared = [
    formulas.sinusoids(real, geometric(m)).square().sum(dim=1) for m in (1, 4, 16)
]
agree("eq-sinusoid-norm", squared, [torch.full((120,), n / 2) for n in (2, 8, 32)])

# %% [markdown]
# The distance of two of them depends on $p - p'$ alone, so all their steps are equally long:
#
# $$
# \begin{aligned} & \|\mathrm{PE}(p) - \mathrm{PE}(p')\|^2 \\
# & \quad = 4 \sum_{i=0}^{d/2-1} \sin^2\!\bigl(\tfrac12 \omega_i (p - p')\bigr) \end{aligned}
# $$ (eq-sinusoid-distance)

# %%
n, ω = 8, 10000.0 ** (-torch.arange(0, 8, 2) / 8)  # channels, frequencies
PE, other = formulas.sinusoids(p, ω), p + 0.3
squared = (PE[:, None] - formulas.sinusoids(other, ω)).square().sum(dim=-1)
half_angles = ω / 2 * (p[:, None] - other)[..., None]
agree("eq-sinusoid-distance", squared, 4 * half_angles.sin().square().sum(dim=-1))

# %% [markdown]
# For which code does *one* matrix lead from every position to the next? We find the best one by least squares.

# %%
codes = {
    "number": p[:, None].double(),
    "number, 1": torch.stack((p, p**0), dim=1).double(),
    "one-hot": one_hot,
    "binary": formulas.binary_code(p, n),
    "sinusoids": PE,
}
for name, code in codes.items():
    steps = code.diff(dim=0).norm(dim=1)
    S = torch.linalg.lstsq(code[:-1], code[1:], driver="gelsd").solution
    miss = gap(code[:-1] @ S, code[1:])
    print(f"{name:9} steps {steps.min():.2f} to {steps.max():.2f}, miss {miss:.1e}")
    assert (miss < 1e-6) == (name not in ("number", "binary"))

# %% [markdown]
# One-hot codes and sinusoids have an exact matrix. The number needs a second channel that is always 1, since a linear
# map leaves 0 where it is.
#
# The matrix of the sinusoids turns clockwise, because each pair lists its sine first. With the minus sign in the
# upper corner, as it is often given, the code goes backward:
#
# $$
# \begin{gathered} \begin{bmatrix} \cos k\omega & -\sin k\omega \\ \sin k\omega & \cos k\omega \end{bmatrix}
# \mathrm{PE}_{p} = \mathrm{PE}_{p-k} \\
# \neq \mathrm{PE}_{p+k} \end{gathered}
# $$ (eq-sinusoid-shift-printed)
#
# The two are equal only if $k\omega$ is a multiple of half a turn. For pairs that list the cosine first, this matrix is
# correct.

# %%
shift = 2.7
R = formulas.rotation_matrix(shift * ω)  # the minus sign in the upper corner
agree("eq-sinusoid-shift-printed", PE @ R.T, formulas.sinusoids(p - shift, ω))
differs("eq-sinusoid-shift-printed", PE @ R.T, formulas.sinusoids(p + shift, ω), 0.1)

# %% [markdown]
# ```{admonition} In short
# :class: tip
# - T5 learns one number for each range of offsets; far ranges are wide.
# - With clipping, far tokens are a bag for one layer, {prf:ref}`prop-far-bag`.
# - Shaw's encoding needs no vector for each pair, {eq}`eq-shaw-gather`, and on a grid no number for each pair,
#   {eq}`eq-shaw-grid`.
# - A key–value cache works unchanged, {eq}`eq-cache-shaw`.
# - The steps of binary codes are unequal; those of sinusoids all have the same length.
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
keys_only = formulas.shaw_attention(same, same, same, R_K, 0 * R_V)
both = formulas.shaw_attention(same, same, same, R_K, R_V)
agree("keys only, equal tokens", keys_only, keys_only[:1].expand_as(keys_only))
differs("both tables, first and middle token", both[0], both[tokens // 2])

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
b = torch.zeros(32)
b[bucket(torch.tensor(-1))] = math.log(1e6 * (tokens - 1))
b[bucket(torch.tensor(-1))] += content.max() - content.min()
e = content + b[bucket(formulas.offsets(torch.arange(tokens)))]
weights = torch.softmax(e, dim=-1)
missing = 1 - weights.diagonal(-1).min().item()
print(f"smallest weight of a left neighbor: 1 − {missing:.1e}")
assert missing < 1e-6
assert weights[0].max() < 0.999

# %% [markdown]
# ```{exercise}
# :label: exercise-relative-layers
# By {prf:ref}`prop-far-bag` far tokens are a bag for one layer. After how many layers does the result of the last token
# change when two neighbors far away change places?
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
    return formulas.shaw_attention(X @ W_Q, X @ W_K, X @ W_V, R_K, R_V)


agree("one layer", layer(X[pair])[-1], layer(X)[-1])
differs("two layers", layer(layer(X[pair]))[-1], layer(layer(X))[-1])
