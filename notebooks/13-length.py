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
# # RoPE on longer sequences, and in linear attention
#
# {doc}`03-rotary` derives RoPE. This chapter answers three questions of those who use it. How many positions do its
# frequencies cover? Enough for any text: a geometric progression needs few channels. What happens in texts longer than
# those of training? Slow pairs turn by angles that the model has never seen; six methods change the frequencies, and
# xPos changes the scores. Does RoPE work with a cache and with linear attention? It does; in linear attention it must
# rotate after the feature map.

# %% tags=["parameters"]
d: int = 8  # channels of a query, an even number [4..128 step 2]
tokens: int = 10  # tokens of the sequence, N [4..64]
base: float = 10000.0  # sets how far the frequencies spread [1.5..1000000]
seed: int = 0  # seed of the random queries and keys [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import elu, scaled_dot_product_attention

from rollpe import formulas
from rollpe.encodings import create_encoding, frequencies, grid_positions
from rollpe.encodings.frequencies import geometric
from rollpe.formulas import feature_attention, rope, similarity_kernel
from rollpe_book import figures
from rollpe_book.agree import agree, differs, gap
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## How far the waves reach
#
# Pair $i$ makes a full turn in $2\pi/\omega_i$ positions, its wavelength. The last pair has the longest:
#
# $$
# \frac{2\pi}{\omega_{d/2-1}} = 2\pi \cdot 10000^{(d-2)/d}
# $$ (eq-longest-wavelength)
#
# It stays below $10000 \cdot 2\pi$, which is often given as the longest: with eight channels it is a tenth of that.

# %%
formula, default = (2 * math.pi * b ** ((d - 2) / d) for b in (base, 10000.0))
longest = 2 * math.pi / geometric(d // 2, base).min()
library = [frequencies.longest_wavelength(d // 2, b) for b in (base, 10000.0)]
ratios = [longest / formula, library[0] / formula, library[1] / default]
agree("eq-longest-wavelength", ratios, [1, 1, 1])

# %% [markdown]
# The frequencies of RoPE and of the sinusoidal code are in *geometric* progression: every wave is slower than the last
# by the same factor. Those of RollPE are in *arithmetic* progression, $\omega_k = 2\pi k/n$ ({doc}`04-rolling`): every
# wave is faster than the last by the same amount, and all waves meet again after $n$ positions, one more than twice the
# number of waves. {numref}`fig-progressions` compares the mean of the cosines, which is the similarity of two codes.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-progressions", "caption": "Similarity of two codes against their distance, for frequencies in geometric progression (top) and in arithmetic progression (bottom), with the same number of waves."}, "image": {"alt": "Two plots against distance from 0 to 64, with dots on integer positions and thin lines through them. Top: the geometric curves start at one, fall unevenly and wiggle without ever settling; the one with more waves is smoother. Bottom: the arithmetic curves are rows of equal spikes of height one, one period apart. All dots in between lie at one level, slightly below zero, and the lines ripple around it; with more waves the spikes are farther apart."}}
reach = 64
fine = torch.linspace(0, reach, 20 * reach + 1)
integers = torch.arange(reach + 1)
fig, (top, bottom) = plt.subplots(2, 1, figsize=(7.0, 4.4), sharex=True)
for width, color, thick in ((d, figures.BLUE, 1.8), (4 * d, figures.ORANGE, 1.4)):
    arithmetic = frequencies.ring(width + 1)[1:]
    for axis, omega in ((top, geometric(width // 2, base)), (bottom, arithmetic)):
        curve = similarity_kernel(fine, omega)
        name = f"{width // 2} waves"
        axis.plot(
            fine,
            curve,
            color=color,
            linewidth=0.5 * thick,
            alpha=0.6,
            label=f"{name}, between",
        )
        axis.plot(
            integers,
            similarity_kernel(integers, omega),
            "o",
            color=color,
            markersize=2.5 * thick / 1.4,
            label=name,
        )
top.set(
    title="geometric: each wave slower by the same factor",
    ylabel="similarity",
    ylim=(-0.6, 1.05),
)
bottom.set(
    title="arithmetic: the ring of RollPE",
    ylabel="similarity",
    xlabel="distance Δ (positions)",
    ylim=(-0.6, 1.05),
)
for axis in (top, bottom):
    axis.axhline(0, color=figures.MUTED, linewidth=0.6)
top.legend(handles=top.lines[1:4:2], loc="lower right", ncols=2)
plt.close(fig)
fig

# %% [markdown]
# The geometric curve has a slope: near positions have similar codes. The arithmetic curve is a spike: at integer
# distances (the dots) all other positions are equally dissimilar.
#
# The geometric family covers more positions. Let the fastest wave turn by one to three radians per token, so that
# neighbors differ. In an arithmetic progression the ratio of the fastest frequency to the slowest is the number of
# waves. In a geometric progression of factor two, every further wave doubles that ratio. So a range of $G$ positions
# needs about $G$ channels in the arithmetic family and about $\log G$ in the geometric one. (A ring that is stretched
# by a wavelength reaches farther, but blurs neighbors: {doc}`06-continuous`.)

# %%
print("channels for a slowest wave of at least this many positions:")
for reach in (15, 1000, 100_000):
    ring = reach + 1 - reach % 2  # the smallest odd width = period
    pairs = 1 + math.ceil(math.log2(reach / (2 * math.pi)))  # ω = 1, ½, ¼, …
    print(f"{reach:8,}: {ring:8,} if arithmetic, {2 * pairs:3} if geometric")

# %% [markdown]
# For images the arithmetic family is enough: eight patches in a row have offsets from $-7$ to $7$, and a ring of
# fifteen channels keeps them all apart. {doc}`09-results` compares both families.
#
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

# %%
s, trained, wide = 4, 2048, 128  # s, N and d of public language models
i = torch.arange(wide // 2)
known = 10000.0 ** (-2 * i / wide)
ntk = known * s ** (-i / (wide / 2 - 1))
raised = (10000 * s ** (wide / (wide - 2))) ** (-2 * i / wide)
agree("eq-ntk", [raised, frequencies.ntk(known, s)], [ntk, ntk])
other = 50.0 ** (-i[:4] / 4)
agree("eq-ntk", frequencies.ntk(other, 3), other * 3 ** (-i[:4] / 3))

# %% [markdown]
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
# (The text of the YaRN paper lets $u_i$ fall with the number of turns, its program with $i$, as here.)


# %%
def share(d, N, base):
    pair_with = d / (2 * math.log(base))
    a = math.floor(pair_with * math.log(N / (64 * math.pi)))
    b = math.ceil(pair_with * math.log(N / (2 * math.pi)))
    return ((b - torch.arange(d // 2)) / (b - a)).clamp(0, 1)


def slow_down(theta, u, s):
    return u * theta + (1 - u) * theta / s


# %%
yarn = slow_down(known, share(wide, trained, 10000), s)
small = 800.0 ** (-i[:16] / 16)  # another model: d = 32, base 800
found = frequencies.yarn(small, 3, 500)
agree("eq-yarn", found, slow_down(small, share(32, 500, 800), 3))
found = [frequencies.yarn(known, s, trained), frequencies.yarn_temperature(s)]
agree("eq-yarn", found, [yarn, 0.1 * math.log(s) + 1])

# %% [markdown]
# The Llama models for long texts {cite}`grattafiori2024llama` let the share fall with the number of turns, from $4$
# to $1$, and have no factor on queries and keys:
#
# $$
# \begin{gathered} \theta_i \mapsto u_i \theta_i + (1 - u_i) \, \theta_i / s, \\
# u_i = \min\Bigl( 1, \max\Bigl( 0, \frac{N \theta_i / 2\pi - 1}{4 - 1} \Bigr) \Bigr) \end{gathered}
# $$ (eq-llama3)


# %%
def llama3_share(theta, N):
    turns = N * theta / (2 * math.pi)
    return ((turns - 1) / (4 - 1)).clamp(0, 1)


llama3 = slow_down(known, llama3_share(known, trained), s)
agree("eq-llama3", frequencies.llama3(known, s, trained), llama3)
found = frequencies.llama3(small, 3, 500)
agree("eq-llama3", found, slow_down(small, llama3_share(small, 500), 3))

# %% [markdown]
# Two more methods depend on the length $L$ of the text, its largest position plus one. *Dynamic* scaling
# {cite}`emozilla2023dynamic` raises the base as NTK-aware scaling does, but only for $L > N$ and more for longer
# texts:
#
# $$
# 10000 \mapsto 10000 \, s_L^{d/(d-2)}, \qquad s_L = \max\bigl( 1, \, s L / N - (s - 1) \bigr)
# $$ (eq-dynamic)


# %%
def dynamically(L, base=10000.0):
    s_L = max(1, s * L / trained - (s - 1))
    return (base * s_L ** (wide / (wide - 2))) ** (-2 * i / wide)


dynamic, lengths = dynamically(3 * trained), (100, trained, 3 * trained)
found = frequencies.dynamic(known, s, trained)(torch.tensor(lengths).double())
agree("eq-dynamic", found, torch.stack([*map(dynamically, lengths)]))
found = frequencies.dynamic(50.0 ** (-2 * i / wide), s, trained)(torch.tensor(3000.0))
agree("eq-dynamic", found, dynamically(3000, 50.0))

# %% [markdown]
# LongRoPE {cite}`ding2024longrope` divides every frequency by a number of its own, found by search. There is one
# list for texts of up to $N$ tokens and one for longer texts, and Phi-3 has a factor on queries and keys, too:
#
# $$
# \begin{gathered} \theta_i \mapsto \theta'_i = \theta_i / \mu_i, \qquad
# \mu_i = \begin{cases} \mu_i^{\text{short}} & L \le N \\ \mu_i^{\text{long}} & L > N, \end{cases} \\
# R'_p = \sqrt{1 + \ln s / \ln N} \, \operatorname{diag}\bigl( R(p\,\theta'_0), R(p\,\theta'_1), \dots \bigr)
# \end{gathered}
# $$ (eq-longrope)
#
# In these two, a score depends on the length of the text as well. A key in a cache keeps the frequencies of the
# length at which it was rotated.

# %%
short, long = 1 + i / 100, 1 + i / 8  # two lists, made up
of_length = frequencies.longrope(known, trained, short, long)
found = of_length(torch.tensor([trained, trained + 1]).double())
agree("eq-longrope", found, torch.stack((known / short, known / long)))
factor = math.sqrt(1 + math.log(s) / math.log(trained))
agree("eq-longrope", frequencies.longrope_temperature(s, trained), factor)

# %% [markdown]
# xPos {cite}`sun2023length` changes the training. Queries are multiplied by $\zeta_i^{m/512}$ and keys by
# $\zeta_i^{-n/512}$, so the score depends on the offset $\Delta = n - m$ and fades into the past, fast pairs first:
#
# $$
# \operatorname{Re} \sum_i \bar q_i k_i \, e^{\mathrm{i} \theta_i \Delta} \, \zeta_i^{-\Delta/512}, \qquad
# \zeta_i = \frac{2i/d + 0.4}{1.4}
# $$ (eq-xpos)
#
# Towards later keys the factor grows, so xPos is for causal attention.

# %%
theta = geometric(d // 2, base)
p = torch.arange(tokens)
Delta = (p - p[:, None])[..., None]  # n − m
(q, k), v = torch.randn(2, tokens, d), torch.randn(tokens, d + 1)
z_q, z_k = (torch.complex(x[:, 0::2], x[:, 1::2]) for x in (q, k))
zeta = (2 * torch.arange(d // 2) / d + 0.4) / 1.4


def faded(Delta):
    waves = torch.exp(1j * theta * Delta) * zeta ** (-Delta / 512)
    return (z_q.conj()[:, None] * z_k * waves).sum(dim=-1).real


# %%
found = []
for places in (p, p / 3 - 1):  # the second lie between tokens, too
    queries = formulas.xpos(q, places, theta, zeta, 512)
    keys = formulas.xpos(k, places, theta, zeta, 512, keys=True)
    found.append(queries @ keys.T)
agree("eq-xpos", found, [faded(Delta), faded(Delta / 3)], tolerance=1e-11)
agree("eq-xpos", formulas.xpos_scales(d // 2), zeta)

# %% [markdown]
# The library has xPos as `xpos`, and the other methods as functions that return a table of frequencies for `rope`. Interpolation slows all pairs down alike.
# The others leave the fastest pair as it is; YaRN and Llama 3 leave many pairs as they are:

# %%
ways = {"interpolation": known / s, "NTK-aware": ntk, "YaRN": yarn}
for name, changed in (ways | {"Llama 3.1": llama3, "dynamic": dynamic}).items():
    speeds = f"pair 0: {changed[0]:.2f} of its speed, pair {wide // 2 - 1}:"
    kept = (changed == known).sum()
    print(f"{name:14} {speeds} {changed[-1] / known[-1]:.2f}, unchanged: {kept}")

# %% tags=["hide-input"]
places, L = grid_positions(tokens), torch.tensor(tokens)
half = tokens // 2  # as if trained on texts half as long
lists = [1.0] * (d // 2), [1.0 + j for j in range(d // 2)]
slowed = {
    "ntk": (frequencies.ntk(theta, s), 1),
    "yarn": (frequencies.yarn(theta, s, trained), frequencies.yarn_temperature(s)),
    "llama3": (frequencies.llama3(theta, s, trained), 1),
    "dynamic": (frequencies.dynamic(theta, s, half), 1),
    "longrope": (frequencies.longrope(theta, half, *lists), 1.2),
}


def library_scores(name, **options):
    encoding = create_encoding(name, head_dim=d, heads=1, axes=1, **options)
    turned_q, turned_k = encoding(q[None, None], k[None, None], places)
    return (turned_q @ turned_k.mT)[0, 0]


# %% tags=["hide-input"]
for name, (table, factor) in slowed.items():
    changed = table(L.double()) if callable(table) else table
    wanted = factor**2 * rope(q, p, changed) @ rope(k, p, changed).T
    found = library_scores("rope", frequencies=table, temperature=factor)
    agree(f"the library's rope, {name}", found, wanted, tolerance=1e-10)
agree(
    "the library's xpos",
    library_scores("xpos", base=base),
    faded(Delta),
    tolerance=1e-10,
)

# %% [markdown]
# ## Different matrices for queries and keys
#
# {prf:ref}`thm-relative` multiplies queries and keys by the same matrices. With two matrices, $D(p)$ for queries and
# $E(p')$ for keys, the same argument gives an invertible matrix $H$ in place of the orthogonal one:
#
# $$
# D(p)^\top E(p') \text{ depends on } p' - p \text{ alone} \iff D(p)^\top E(p') = M H^{p' - p}
# $$ (eq-two-maps)
#
# This covers the decay of xPos and the bias of ALiBi. In xPos {cite}`sun2023length` the matrix $H$ is a rotation times a growth. In ALiBi
# {cite}`press2022train` it is a shear on one more pair of channels,
# $\bigl[ \begin{smallmatrix} 1 & 1 \\ 0 & 1 \end{smallmatrix} \bigr]$ between $(1, 0)$ and $(0, r)$, because ALiBi has
# earlier keys only, $\Delta \le 0$.

# %%
power, inverse = torch.linalg.matrix_power, torch.linalg.inv
B, H, M = torch.matrix_exp(torch.randn(3, 4, 4) / 4)  # all three invertible
D = [(M @ power(H, -p) @ inverse(B)).T for p in range(5)]
E = [B @ power(H, p) for p in range(5)]
pairs = [(m, n) for m in range(5) for n in range(5)]
found = [D[m].T @ E[n] for m, n in pairs]
agree("eq-two-maps", found, [M @ power(H, n - m) for m, n in pairs], 1e-10)

# %% [markdown]
# In the library's xPos $M$ is the identity. Its ALiBi has the slope $r = 2^{-8}$ if there is one head:

# %% tags=["hide-input"]
xpos = create_encoding("xpos", head_dim=d, heads=1, axes=1, base=base)
unit = torch.eye(d)[:, None, None].expand(d, 1, 5, d)  # each channel, at five positions
D = xpos.encode(unit, grid_positions(5))[:, 0].unbind(1)
E = xpos.encode_keys(unit, grid_positions(5))[:, 0].unbind(1)
H = formulas.rotation_matrix(theta) * zeta.repeat_interleave(2) ** (-1 / 512)
found = [D[m] @ E[n].T for m, n in pairs]  # their rows are channels: D(m)ᵀ E(n)
agree("eq-two-maps", found, [power(H, n - m) for m, n in pairs], 1e-11)

# %% tags=["hide-input"]
shear = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
alibi = create_encoding("alibi", head_dim=d, heads=1, axes=1).double()
silent = torch.zeros(1, 1, tokens, d)
bias = alibi.scores(silent, silent, grid_positions(tokens))[0, 0, -1]  # last query
end = torch.tensor([0.0, 2.0**-8])
agree("eq-two-maps", bias, [power(shear, Δ)[0] @ end for Δ in range(1 - tokens, 1)])

# %% [markdown]
# ## Angles need 32 bits
#
# Far positions also need precise angles. The library computes them with 32 bits or more and returns the type of its
# input. A program that multiplies a query of 16 bits by cosines of 32 bits gets 32 bits back, while the values still
# have 16, and PyTorch's fused attention refuses the mixture. Computing the angles in 16 bits would be worse
# ({ref}`exercise-rotary-half`).

# %%
library = create_encoding("rope", head_dim=d, heads=1, axes=1, base=base)
narrow = q[None, None].to(torch.bfloat16)  # one image, one head
careless = narrow * torch.ones(d, dtype=torch.float32)  # cosines of 32 bits
ours = library.encode(narrow, grid_positions(tokens))
for name, turned in (("careless", careless), ("library", ours)):
    try:
        scaled_dot_product_attention(turned, turned, narrow)
        fate = "accepted"
    except RuntimeError:
        fate = "refused"
    print(f"{name:8} {narrow.dtype} becomes {turned.dtype}: {fate}")
assert ours.dtype == narrow.dtype != careless.dtype

# %%
exact = library.encode(q[None, None], grid_positions(tokens))[0, 0]
agree("the library's rope", exact, rope(q, p, theta))

# %% [markdown]
# ## A cache of rotated keys
#
# A language model that generates one token at a time keeps the keys and values of all earlier tokens in a cache. A key
# is rotated by its own position, once, and can be stored like that. When token $t$ arrives, only its own query and key
# are rotated, by $R_t$:
#
# $$
# y_t = \sum_{j \le t} \operatorname{softmax}_j\!\left( \frac{(R_t q_t)^\top (R_j k_j)}{\sqrt{d}} \right) v_j
# $$ (eq-cache-rope)
#
# Shaw's encoding works with a cache, too ({doc}`14-buckets`): it stores the plain key and looks up the offset. RoPE
# stores the rotated key and looks up nothing.

# %%
cache, results = torch.empty(0, d), []
for t in range(tokens):
    R_t = formulas.rotation_matrix(t * theta)
    cache = torch.cat((cache, (R_t @ k[t])[None]))  # written once
    weights = torch.softmax(cache @ (R_t @ q[t]) / math.sqrt(d), dim=0)
    results.append(weights @ v[: t + 1])

# %%
later = torch.full((tokens, tokens), -torch.inf).triu(1)
e = rope(q, p, theta) @ rope(k, p, theta).T / math.sqrt(d)
full = torch.softmax(e + later, dim=1) @ v
decoded = formulas.decode(rope(q, p, theta), rope(k, p, theta), v)
agree("eq-cache-rope", [torch.stack(results), decoded], [full, full])

# %% [markdown]
# ## Linear attention
#
# Softmax attention compares every query with every key. *Linear* attention
# {cite}`katharopoulos2020transformers` replaces the exponential of a dot product by a dot product of positive
# features, so that keys and values can be summed once for all queries. (Linformer {cite}`wang2020linformer` has linear
# cost for another reason: it mixes the keys of all positions into a few, which no longer have positions.) The usual
# feature acts on each channel: it is $x + 1$ for positive $x$, and $e^x$ otherwise.
#
# $$
# \begin{gathered} y_i = \frac{\phi(q_i)^\top \sum_j \phi(k_j) v_j^\top}{\phi(q_i)^\top \sum_j \phi(k_j)}, \\
# \phi(x) = \operatorname{elu}(x) + 1 \end{gathered}
# $$ (eq-linear-attention)


# %%
def phi(x):
    return torch.where(x > 0, x + 1, x.exp())


y = phi(q) @ (phi(k).T @ v) / (phi(q) @ phi(k).sum(dim=0))[:, None]
pairs = phi(q) @ phi(k).T
slow = pairs / pairs.sum(dim=1, keepdim=True) @ v  # pair by pair
agree(
    "eq-linear-attention",
    [y, feature_attention(*[phi(q), phi(k)] * 2, v)],
    [slow, slow],
)
features = [phi(q), formulas.elu_feature(q)]
agree("eq-linear-attention", features, [elu(q) + 1, elu(q) + 1])

# %% [markdown]
# RoPE fits linear attention, because it rotates each token by itself. The rotation must not go inside, $\phi(R_m q)$.
# With this $\phi$ the score is then no longer relative, because $\phi$ treats the axes of the plane differently from
# all other directions:
#
# $$
# \begin{aligned} & \phi(R_{m+s}\, q)^\top \phi(R_{n+s}\, k) \\
# & \quad \neq \phi(R_m q)^\top \phi(R_n k) \end{aligned}
# $$ (eq-linear-rope-printed)
#
# By hand, take $q = (2, 1)$, $k = (1, 3)$ and quarter turns, both at position $0$: $\phi(q) = (3, 2)$ and
# $\phi(k) = (2, 4)$, with the product $14$. Move both to position $2$, half a turn: $\phi(-2, -1) = (e^{-2},
# e^{-1})$ and $\phi(-1, -3) = (e^{-1}, e^{-3})$. Now the product is less than a tenth, $e^{-3} + e^{-4}$. The
# offset is $0$ in both cases.

# %%
quarter = torch.tensor([math.pi / 2])
two = torch.tensor([[2.0, 1.0], [1.0, 3.0]])  # the query and the key by hand


def inside(x, p, theta):
    return phi(rope(x, p, theta))


by_hand = [inside(two, torch.tensor([m, m]), quarter).prod(dim=0).sum() for m in (0, 2)]
agree("by hand", by_hand, [14, math.exp(-3) + math.exp(-4)])
here, moved = (inside(q, p + s, theta) @ inside(k, p + s, theta).T for s in (0, 3))
differs("eq-linear-rope-printed", moved, here, least=0.01)

# %% [markdown]
# The paper of RoPE rotates *after* $\phi$ {cite}`su2024roformer`, in its equation 19. Then the score is relative, by
# {prf:ref}`thm-rope-relative` with $\phi(q)$ in place of $q$:
#
# $$
# \bigl( R_m \phi(q) \bigr)^\top R_n \phi(k) = \phi(q)^\top R_{n-m} \, \phi(k)
# $$ (eq-linear-rope)


# %%
def after(s):
    return rope(phi(q), p + s, theta) @ rope(phi(k), p + s, theta).T


f, g = (torch.view_as_complex(phi(x).view(tokens, -1, 2)) for x in (q, k))
turned = f.conj()[:, None] * g * torch.exp(1j * theta * Delta)  # by R_(n−m)
wanted = turned.sum(dim=-1).real
agree("eq-linear-rope", [after(0), after(3.5)], [wanted, wanted], 1e-11)

# %% [markdown]
# With other features the rotation may go inside. Those of Performer {cite}`choromanski2021performer` are random,
# $e^{w^\top x - \|x\|^2/2}$ with a normal $w$ for each, and the product of two is $e^{q^\top k}$ on average. So with
# many features the score is close to relative.
#
# Rotating after $\phi$ has a cost: the dot product of rotated features can be negative, and so can a weight. The
# denominator could then be zero. The paper of RoPE does not rotate it, which keeps it positive, but then the weights
# no longer add up to one.

# %%
weights = after(0) / pairs.sum(dim=1, keepdim=True)
moved = [formulas.rotary_linear_attention(q, k, v, p + s, theta) for s in (0, 2.5)]
agree("eq-linear-rope", moved, [weights @ v, weights @ v], 1e-10)
sums = weights.sum(dim=1)
print(f"weights of a row add up to {sums.min():.2f} … {sums.max():.2f}")

# %%
equal = rope(phi(torch.ones(2, 2)), torch.tensor([0, 2]), quarter)
print(f"(2, 2) with itself, half a turn apart: {equal[0] @ equal[1]:.0f}")
assert equal[0] @ equal[1] < 0

normal = torch.randn(200_000, 2, generator=torch.Generator().manual_seed(seed))
for place in (0, 2):
    x = rope(two / 4, torch.full((2,), place), quarter)  # short: fewer features
    fq, fk = torch.exp(x @ normal.T - x.square().sum(dim=1, keepdim=True) / 2)
    mean, wanted = (fq * fk).mean().item(), math.exp(two[0] @ two[1] / 16)
    print(f"Performer, both at position {place}: {mean:.2f} of {wanted:.2f}")
    assert abs(mean / wanted - 1) < 0.03

# %% [markdown]
# ```{admonition} In short
# :class: tip
# - Geometric frequencies cover many positions with few channels; arithmetic ones cover as many as there are channels.
# - For longer texts, position interpolation slows all pairs down, and NTK-aware scaling, YaRN, Llama 3 and dynamic
#   scaling mostly the slow ones. LongRoPE searches a factor for each pair.
# - xPos lets scores fade into the past.
# - A cache may hold rotated keys, {eq}`eq-cache-rope`.
# - In linear attention with the usual feature map, rotate after it, {eq}`eq-linear-rope`.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rotary-half
# The format bfloat16 keeps eight binary digits. Compute the angles of the fastest pair in it, for positions below
# 1024. How many of the positions are still different, and how large is the error of the angle?
# ```
#
# ```{solution} exercise-rotary-half
# :class: dropdown
# Integers are exact up to 256. From there to 512 every second one exists, and from 512 to 1024 every
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
