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
# Many relative encodings keep a table with a number or a vector for each offset ({doc}`Ch. 2 <02-distances>`). RollPE
# keeps none: a key can itself hold any function of the offset modulo $n$ ({doc}`Ch. 4 <04-rolling>`). What does a table
# cost? Far offsets can share an entry, no tensor is larger than the scores, and a cache of keys and values works
# unchanged.

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
from rollpe_book import figures
from rollpe_book.agree import agree, differs, gap
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## T5's buckets
#
# T5 {cite}`raffel2020exploring` adds a learned number to each score. Neighboring offsets may share one; the function
# $\operatorname{bucket}$ says which:
#
# $$
# e_{ij} = \frac{q_i^\top k_j}{\sqrt{d}} + b_{\operatorname{bucket}(j-i)}
# $$ (eq-t5)
#
# (T5 itself leaves out the $\sqrt d$.) Near offsets get a bucket each; farther away, more and more offsets share one. Of
# $4c$ buckets half are for keys to the right. On either side $c$ buckets serve the distances below $c$ and the other $c$
# the rest; all distances from $D > c$ on share the last:
#
# $$
# \begin{aligned} & \operatorname{bucket}(\Delta) = 2c \, [\Delta > 0] \\
# & \quad + \min\bigl( 2c - 1,\, f(|\Delta|) \bigr), \\
# & f(a) = \begin{cases} a & a < c \\ c + \lfloor c \log_{D/c} (a / c) \rfloor & a \ge c \end{cases} \end{aligned}
# $$ (eq-t5-bucket)
#
# T5 has $c = 8$ and $D = 128$. Up to distance 7 the bucket *is* the distance. From 8 on, every doubling uses two more
# buckets: 16 falls into bucket 10, 32 into 12. On the right, add 16: the number depends on the sign of the offset, not on
# the distance alone, as {cite}`teaching-circles` says.

# %%
c, D = 8, 128


def bucket(Delta):
    a = Delta.abs()
    logarithm = torch.log2(a.clamp(min=c) / c) / math.log2(D / c)
    f = torch.where(a < c, a, c + (c * logarithm).floor().long())
    return 2 * c * (Delta > 0) + f.clamp(max=2 * c - 1)


# %%
Delta = torch.arange(-200, 201)
assert bucket(torch.tensor([-7, -16, -32, 16])).tolist() == [7, 10, 12, 26]
agree("eq-t5-bucket", bucket(Delta), formulas.t5_bucket(Delta))

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
fig, axis = plt.subplots(figsize=(6.0, 2.3))
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
# The two tables of {numref}`fig-rulers` have about as many entries. Clipping, as in Shaw's encoding {eq}`eq-shaw-clip`,
# spends them on near offsets. T5's buckets reach far with decreasing resolution.
#
# ## No vector for each pair
#
# Shaw's encoding adds a vector for the offset to each key. A second table may serve the values; the result then also
# depends on how far away each value was:
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
# One introduction {cite}`teaching-order` calls this memory-heavy, since each pair of tokens has a vector. But there are
# only $2K + 1$ different ones. Multiply the query with each of them once, and look the products up, at the clipped $j -
# i$:
#
# $$
# q_i^\top R_{j-i} = \bigl( Q T^\top \bigr)_{i,\; j-i+K}
# $$ (eq-shaw-gather)

# %%
products = q @ T_K.T  # [N, 2K+1]: every query with every offset
term = products.gather(1, row)  # [N, N]
R = formulas.relative_lookup(T_K, formulas.offsets(i))  # [N, N, d]
agree("eq-shaw-gather", term / math.sqrt(d), formulas.shaw_scores(q, 0 * k, R))

# %% [markdown]
# When the sequence is longer than the table, no tensor has more entries than the scores themselves.
#
# On a grid of patches even the lookup can go: the bias becomes part of an ordinary dot product. Give queries and keys one
# more channel for each row and each column $c$. There the key has a one at its own row and column, and zeros elsewhere.
# The query has its product with the vector of the offset from its own place to $c$. With $R^a$ for the table of axis $a$
# and $p_i^a$ for the row or column of token $i$:
#
# $$
# \begin{aligned} \hat q_i &= \bigl[\, q_i,\; \bigl( q_i^\top R^a_{c - p_i^a} \bigr)_{a,c} \,\bigr], \\
# \hat k_j &= \bigl[\, k_j,\; \bigl( [c = p_j^a] \bigr)_{a,c} \,\bigr], \\
# \hat q_i^\top \hat k_j &= q_i^\top \Bigl( k_j + \sum_a R^a_{p_j^a - p_i^a} \Bigr) \end{aligned}
# $$ (eq-shaw-grid)

# %%
p = torch.cartesian_prod(torch.arange(4), torch.arange(6))  # row, column
R = torch.randn(2, 2 * K + 1, d)  # a table for the rows, one for the columns
q_hat, k_hat = q_p, k_p = torch.randn(2, len(p), d)
for a in range(2):
    places, here = torch.arange((4, 6)[a]), p[:, a, None]  # every c, the token's own
    vectors = R[a][(places - here).clamp(-K, K) + K]  # [N, G, d]
    q_hat = torch.cat((q_hat, torch.einsum("id,icd->ic", q_p, vectors)), dim=1)
    k_hat = torch.cat((k_hat, (places == here).double()), dim=1)

# %%
offsets = formulas.offsets(p.T)  # [2, N, N]
down, right = (formulas.relative_lookup(R[a], offsets[a]) for a in range(2))
wanted = (q_p[:, None] * (k_p + down + right)).sum(dim=-1)
agree("eq-shaw-grid", q_hat @ k_hat.T, wanted)

# %% [markdown]
# On $8 \times 8$ patches these are 16 more channels. Fused attention, which never stores its scores, can therefore
# compute Shaw's encoding.
#
# ## Can it use a cache?
#
# A language model generates one token at a time. Each new token attends to all earlier ones, whose keys and values a
# cache keeps:
#
# $$
# \begin{gathered} y_t = \sum_{j \le t} \alpha_{tj} v_j, \\
# \alpha_{t\cdot} = \operatorname{softmax}\!\left( \frac{q_t^\top k_j}{\sqrt{d}} \right)_{j \le t} \end{gathered}
# $$ (eq-cache)

# %%
causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
agree("eq-cache", formulas.decode(q, k, v), causal)

# %% [markdown]
# At every step $t$ grows, so all offsets $j - t$ change. Relative encodings are therefore sometimes called unsuitable for
# a cache {cite}`teaching-equivariance`. But nothing in the cache depends on the offsets:
#
# $$
# e_{tj} = \frac{1}{\sqrt{d}} \left( q_t^\top k_j + q_t^\top R_{j-t} \right), \qquad j \le t
# $$ (eq-cache-shaw)
#
# The vectors $R$ are in a table that never changes. Only the query depends on $t$, and it is new at every step.


# %%
def step(q_t, k_cache, v_cache):  # the newest query meets everything cached
    age = torch.arange(1 - len(k_cache), 1).clamp(min=-K)  # j − t
    e_t = (k_cache @ q_t + (T_K @ q_t)[age + K]) / math.sqrt(d)
    return torch.softmax(e_t, dim=0) @ v_cache


cached = torch.stack([step(q[t], k[: t + 1], v[: t + 1]) for t in range(tokens)])
later = torch.full((tokens, tokens), -torch.inf).triu(1)
full = torch.softmax(e + later, dim=-1) @ v
agree("eq-cache-shaw", [cached, formulas.decode(q, k, v, T_K)], [full, full])

# %% [markdown]
# The extra work of a step is one product of the query with the table and one addition for each cached key.
#
# ## The steps of the codes
#
# A roll is the same matrix at every position. For which codes of {doc}`Ch. 2 <02-distances>` does *one* matrix lead from
# every position to the next? We find the best one by least squares.

# %%
p, ω = torch.arange(120), 10000.0 ** (-torch.arange(0, 8, 2) / 8)
codes = {
    "number": p[:, None].double(),
    "one-hot": formulas.one_hot_code(p, len(p)),
    "binary": formulas.binary_code(p, 8),
    "sinusoids": formulas.sinusoids(p, ω),
}

# %%
for name, code in codes.items():
    steps = code.diff(dim=0).norm(dim=1)
    S = torch.linalg.lstsq(code[:-1], code[1:], driver="gelsd").solution
    miss = gap(code[:-1] @ S, code[1:])
    print(f"{name:9} steps {steps.min():.2f} to {steps.max():.2f}, miss {miss:.1e}")
    assert (miss < 1e-6) == (name in ("one-hot", "sinusoids"))

# %% [markdown]
# One-hot codes and sinusoids have an exact matrix. The steps of sinusoids are equally long, since the distance of two
# codes depends on $p - p'$ alone:
#
# $$
# \begin{aligned} & \|\mathrm{PE}(p) - \mathrm{PE}(p')\|^2 \\
# & \quad = 4 \sum_{i=0}^{d/2-1} \sin^2\!\bigl(\tfrac12 \omega_i (p - p')\bigr) \end{aligned}
# $$ (eq-sinusoid-distance)
#
# No two integer positions share a code: with $\omega_0 = 1$ the first term is zero at multiples of $2\pi$ only.

# %%
PE, other = codes["sinusoids"], p + 0.3
squared = (PE[:, None] - formulas.sinusoids(other, ω)).square().sum(dim=-1)
half_angles = ω / 2 * (p[:, None] - other)[..., None]
agree("eq-sinusoid-distance", squared, 4 * half_angles.sin().square().sum(dim=-1))

# %% [markdown]
# Their matrix turns clockwise, because each pair lists its sine first. With the minus sign in the upper corner
# {cite}`teaching-circles` the code goes backward:
#
# $$
# \begin{gathered} \begin{bmatrix} \cos k\omega & -\sin k\omega \\ \sin k\omega & \cos k\omega \end{bmatrix}
# \mathrm{PE}_{p} = \mathrm{PE}_{p-k} \\
# \neq \mathrm{PE}_{p+k} \end{gathered}
# $$ (eq-sinusoid-shift-printed)

# %%
shift = 2.7
R = formulas.rotation_matrix(shift * ω)  # the minus sign in the upper corner
agree("eq-sinusoid-shift-printed", PE @ R.T, formulas.sinusoids(p - shift, ω))
differs("eq-sinusoid-shift-printed", PE @ R.T, formulas.sinusoids(p + shift, ω), 0.1)

# %% [markdown]
# ## Exercise
#
# ```{exercise}
# :label: exercise-relative-equal
# All tokens are equal. Can a layer with Shaw's first table tell the first token from one in the middle? And with both
# tables?
# ```
#
# ```{solution} exercise-relative-equal
# :class: dropdown
# With the table of keys alone it cannot: every weighted mean of equal values is that value. With the table of values it
# can: the first token has no neighbors on its left, so the vectors of negative offsets are missing from its mean.
# ```

# %% tags=["hide-cell"]
same = torch.randn(1, d).expand(tokens, d)
keys_only = formulas.shaw_attention(same, same, same, R_K, 0 * R_V)
both = formulas.shaw_attention(same, same, same, R_K, R_V)
agree("keys only, equal tokens", keys_only, keys_only[:1].expand_as(keys_only))
differs("both tables, first and middle token", both[0], both[tokens // 2])
