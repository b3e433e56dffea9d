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
# {doc}`Ch. 3 <03-rotary>` derives RoPE. Language models raise three more questions:
#
# - **How many positions do its frequencies cover?** As many as any text needs, with few channels.
# - **What happens in texts longer than those of training?** Slow pairs turn by angles that the model has never seen. Six
#   methods change the frequencies, and xPos changes the scores.
# - **Does RoPE work with a cache and with linear attention?** It does. In linear attention it must rotate *after* the
#   feature map.

# %% tags=["parameters"]
d: int = 8  # channels of a query, an even number [4..128 step 2]
tokens: int = 10  # tokens of the sequence, N [4..64]
base: float = 10000.0  # sets how far the frequencies spread [1.5..1000000]
seed: int = 0  # seed of the random queries and keys [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import elu

from rollpe import formulas
from rollpe.encodings import create_encoding, frequencies, grid_positions
from rollpe.encodings.frequencies import geometric
from rollpe.formulas import feature_attention, rope
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
# Pair $i$ makes a full turn in $2\pi/\theta_i$ positions, its wavelength. The longest is that of the last pair:
#
# $$
# \frac{2\pi}{\theta_{d/2-1}} = 2\pi \cdot 10000^{(d-2)/d}
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
# Each pair of RoPE is slower than the last by the same *factor*, each wave of a ring faster than the last by the same
# *amount* ({doc}`Ch. 4 <04-rolling>`). If every pair halves the speed, RoPE covers $G$ positions with about $\log G$
# channels. A ring needs about $G$:

# %%
print("channels for a slowest wave of at least this many positions:")
for reach in (15, 1000, 100_000):
    ring = reach + 1 - reach % 2  # the smallest odd width = period
    pairs = 1 + math.ceil(math.log2(reach / (2 * math.pi)))  # ω = 1, ½, ¼, …
    print(f"{reach:8,}: {ring:8,} on a ring, {2 * pairs:3} in RoPE")

# %% [markdown]
# Far positions need precise angles. In bfloat16 only 513 of the first 1,024 positions differ, and the angle of the fastest
# pair is wrong by up to two radians. The library computes angles with 32 bits or more.

# %%
exact = torch.arange(1024, dtype=torch.float32)
rounded = exact.to(torch.bfloat16)
assert len(rounded.unique()) == 513 and gap(rounded.float(), exact) == 2

# %% [markdown]
# ## Longer sequences
#
# In a window $s$ times as long as the $N$ tokens of training, slow pairs turn by angles that the model has never
# seen. *Position interpolation* {cite}`chen2023extending` divides all positions by $s$. The angles are known again,
# but neighbors move closer together in every pair. Images stand that ({doc}`Ch. 9 <09-results>`). *NTK-aware scaling* {cite}`bloc2023ntk` raises the base
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
# pairs that make less than $1$ are divided by $s$, and the share $u_i$ leads from one to the other. A factor on queries
# and keys sharpens the attention weights. (In the text of its paper $u_i$ falls with the turns, in its program with $i$, as
# here.)
#
# $$
# \begin{gathered} \theta_i \mapsto \theta'_i = u_i \theta_i + (1 - u_i) \, \theta_i / s, \\
# u_i = \min\bigl( 1, \max( 0, \tfrac{b - i}{b - a} ) \bigr), \\
# a = \Bigl\lfloor \frac{d \ln (N / 64\pi)}{2 \ln 10000} \Bigr\rfloor, \quad
# b = \Bigl\lceil \frac{d \ln (N / 2\pi)}{2 \ln 10000} \Bigr\rceil, \\
# R'_p = (0.1 \ln s + 1) \operatorname{diag}\bigl( R(p\,\theta'_0), R(p\,\theta'_1), \dots \bigr) \end{gathered}
# $$ (eq-yarn)


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
# The Llama models for long texts {cite}`grattafiori2024llama` let the share fall with the number of turns, from $4$ to
# $1$, and leave out the factor:
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
# {cite}`emozilla2023dynamic` is NTK-aware scaling that begins at $L > N$ and grows with the text:
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
# LongRoPE {cite}`ding2024longrope` searches a divisor for each frequency, in one list for texts of up to $N$ tokens and
# another for longer ones. Phi-3 adds a factor on queries and keys:
#
# $$
# \begin{gathered} \theta_i \mapsto \theta'_i = \theta_i / \mu_i, \qquad
# \mu_i = \begin{cases} \mu_i^{\text{short}} & L \le N \\ \mu_i^{\text{long}} & L > N, \end{cases} \\
# R'_p = \sqrt{1 + \ln s / \ln N} \, \operatorname{diag}\bigl( R(p\,\theta'_0), R(p\,\theta'_1), \dots \bigr)
# \end{gathered}
# $$ (eq-longrope)

# %%
short, long = 1 + i / 100, 1 + i / 8  # two lists, made up
of_length = frequencies.longrope(known, trained, short, long)
found = of_length(torch.tensor([trained, trained + 1]).double())
agree("eq-longrope", found, torch.stack((known / short, known / long)))
factor = math.sqrt(1 + math.log(s) / math.log(trained))
agree("eq-longrope", frequencies.longrope_temperature(s, trained), factor)

# %% [markdown]
# {numref}`fig-slowed` compares four of them. YaRN and Llama 3 leave the fast pairs as they are.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-slowed", "caption": "Speed of each pair in a text four times as long as in training, relative to RoPE: 64 pairs, base 10,000, 2,048 tokens of training."}, "image": {"alt": "Four lines over the index of the pair. Interpolation is a level line at a quarter. NTK-aware scaling falls evenly from one to a quarter. YaRN stays at one for the first quarter of the pairs, Llama 3 for the first half. Both fall to a quarter at two thirds and stay there."}}
fig, ax = plt.subplots(figsize=(6.0, 3.0))
ways = {"interpolation": known / s, "NTK-aware": ntk, "YaRN": yarn}
for name, changed in (ways | {"Llama 3": llama3}).items():
    style = "--" if name == "Llama 3" else "-"
    ax.plot(i, changed / known, style, label=name)
ax.set(xlabel="pair i", ylabel="speed, relative to RoPE", ylim=(0, 1.05))
ax.legend()
plt.close(fig)
fig

# %% [markdown]
# xPos {cite}`sun2023length` changes the training instead. Queries are multiplied by $\zeta_i^{p_q/512}$ and keys by
# $\zeta_i^{-p_k/512}$, so the score fades into the past, fast pairs first. It depends on $\Delta = p_k - p_q$ alone:
#
# $$
# \operatorname{Re} \sum_i \bar q_i k_i \, e^{\mathrm{i} \theta_i \Delta} \, \zeta_i^{-\Delta/512}, \qquad
# \zeta_i = \frac{2i/d + 0.4}{1.4}
# $$ (eq-xpos)
#
# Towards later keys the factor grows: xPos is for causal attention.

# %%
theta = geometric(d // 2, base)
p = torch.arange(tokens)
Delta = (p - p[:, None])[..., None]  # p_k − p_q
(q, k), v = torch.randn(2, tokens, d), torch.randn(tokens, d + 1)
z_q, z_k = (torch.complex(x[:, 0::2], x[:, 1::2]) for x in (q, k))
zeta = (2 * torch.arange(d // 2) / d + 0.4) / 1.4


def faded(Delta):
    waves = torch.exp(1j * theta * Delta) * zeta ** (-Delta / 512)
    return (z_q.conj()[:, None] * z_k * waves).sum(dim=-1).real


# %%
found = []
for places in (p, p / 3 - 1):  # the second lie between tokens
    queries = formulas.xpos(q, places, theta, zeta, 512)
    keys = formulas.xpos(k, places, theta, zeta, 512, keys=True)
    found.append(queries @ keys.T)
agree("eq-xpos", found, [faded(Delta), faded(Delta / 3)], tolerance=1e-11)
agree("eq-xpos", formulas.xpos_scales(d // 2), zeta)

# %% [markdown]
# ## Different matrices for queries and keys
#
# {prf:ref}`thm-relative` multiplies queries and keys by the same matrices. With two matrices, $D(p_q)$ for queries and
# $E(p_k)$ for keys, the same argument gives an invertible matrix $H$ in place of the orthogonal one:
#
# $$
# \begin{gathered} D(p_q)^\top E(p_k) \text{ depends on } p_k - p_q \text{ alone} \\
# \iff D(p_q)^\top E(p_k) = M H^{p_k - p_q} \end{gathered}
# $$ (eq-two-maps)
#
# This covers the decay of xPos, where $H$ is a rotation times a growth, and the bias of ALiBi {cite}`press2022train`, where it
# is a shear on one more pair of channels.

# %%
power, inverse = torch.linalg.matrix_power, torch.linalg.inv
B, H, M = torch.matrix_exp(torch.randn(3, 4, 4) / 4)  # all three invertible
D = [(M @ power(H, -p) @ inverse(B)).T for p in range(5)]
E = [B @ power(H, p) for p in range(5)]
pairs = [(a, b) for a in range(5) for b in range(5)]  # p_q and p_k
found = [D[a].T @ E[b] for a, b in pairs]
agree("eq-two-maps", found, [M @ power(H, b - a) for a, b in pairs], 1e-10)

# %% tags=["hide-input"]
xpos = create_encoding("xpos", head_dim=d, heads=1, axes=1, base=base)
unit = torch.eye(d)[:, None, None].expand(d, 1, 5, d)  # each channel, at five positions
D = xpos.encode(unit, grid_positions(5))[:, 0].unbind(1)
E = xpos.encode_keys(unit, grid_positions(5))[:, 0].unbind(1)
H = formulas.rotation_matrix(theta) * zeta.repeat_interleave(2) ** (-1 / 512)
found = [D[a] @ E[b].T for a, b in pairs]  # their rows are channels
agree("eq-two-maps", found, [power(H, b - a) for a, b in pairs], 1e-11)

shear = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
alibi = create_encoding("alibi", head_dim=d, heads=1, axes=1).double()
silent = torch.zeros(1, 1, tokens, d)
bias = alibi.scores(silent, silent, grid_positions(tokens))[0, 0, -1]  # last query
end = torch.tensor([0.0, 2.0**-8])  # the slope of a single head
agree("eq-two-maps", bias, [power(shear, Δ)[0] @ end for Δ in range(1 - tokens, 1)])

# %% [markdown]
# ## A cache of rotated keys
#
# A language model that generates text keeps earlier keys and values in a cache. A key is rotated once, by its own position,
# and stored like that. When token $t$ arrives, only its own query and key are rotated, by $R_t$:
#
# $$
# y_t = \sum_{j \le t} \operatorname{softmax}_j\!\left( \frac{(R_t q_t)^\top (R_j k_j)}{\sqrt{d}} \right) v_j
# $$ (eq-cache-rope)

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
# *Linear* attention {cite}`katharopoulos2020transformers` replaces the exponential of a dot product by a dot product of
# positive features, so that keys and values are summed once for all queries:
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
# RoPE rotates each token by itself, so it fits. But with a rotation inside, $\phi(R_p q)$, the score is not relative,
# because $\phi$ treats the axes of the plane differently from other directions:
#
# $$
# \begin{aligned} & \phi(R_{p_q+s}\, q)^\top \phi(R_{p_k+s}\, k) \\
# & \quad \neq \phi(R_{p_q} q)^\top \phi(R_{p_k} k) \end{aligned}
# $$ (eq-linear-rope-printed)
#
# By hand: at position $0$, $q = (2, 1)$ and $k = (1, 3)$ have $\phi(q)^\top \phi(k) = 3 \cdot 2 + 2 \cdot 4$. Half a turn
# later the product is $e^{-3} + e^{-4}$.

# %%
quarter = torch.tensor([math.pi / 2])
two = torch.tensor([[2.0, 1.0], [1.0, 3.0]])  # the query and the key by hand


def inside(x, p, theta):
    return phi(rope(x, p, theta))


products = [inside(two, torch.tensor([p, p]), quarter).prod(0).sum() for p in (0, 2)]
assert gap(products, [14, math.exp(-3) + math.exp(-4)]) < 1e-12
here, moved = (inside(q, p + s, theta) @ inside(k, p + s, theta).T for s in (0, 3))
differs("eq-linear-rope-printed", moved, here, least=0.01)

# %% [markdown]
# The paper of RoPE rotates *after* $\phi$ {cite}`su2024roformer`. Then the score is relative, by
# {prf:ref}`thm-rope-relative` with $\phi(q)$ in place of $q$:
#
# $$
# \bigl( R_{p_q} \phi(q) \bigr)^\top R_{p_k} \phi(k) = \phi(q)^\top R_{p_k - p_q} \, \phi(k)
# $$ (eq-linear-rope)


# %%
def after(s):
    return rope(phi(q), p + s, theta) @ rope(phi(k), p + s, theta).T


f, g = (torch.view_as_complex(phi(x).view(tokens, -1, 2)) for x in (q, k))
turned = f.conj()[:, None] * g * torch.exp(1j * theta * Delta)  # by R_(p_k − p_q)
wanted = turned.sum(dim=-1).real
agree("eq-linear-rope", [after(0), after(3.5)], [wanted, wanted], 1e-11)

# %% [markdown]
# A product of rotated features can be negative. The paper of RoPE therefore does not rotate the denominator, and the
# weights of a row no longer add up to one:

# %%
weights = after(0) / pairs.sum(dim=1, keepdim=True)
moved = [formulas.rotary_linear_attention(q, k, v, p + s, theta) for s in (0, 2.5)]
agree("eq-linear-rope", moved, [weights @ v, weights @ v], 1e-10)
sums = weights.sum(dim=1)
print(f"weights of a row add up to {sums.min():.2f} … {sums.max():.2f}")

equal = rope(phi(torch.ones(2, 2)), torch.tensor([0, 2]), quarter)
assert equal[0] @ equal[1] < 0  # a token and its like, half a turn apart

# %% [markdown]
# With the random features of Performer {cite}`choromanski2021performer`, $e^{w^\top x - \|x\|^2/2}$ with normal $w$, the
# rotation may go inside: their product is $e^{q^\top k}$ on average.

# %% tags=["hide-input"]
normal = torch.randn(200_000, 2, generator=torch.Generator().manual_seed(seed))
for place in (0, 2):
    x = rope(two / 4, torch.full((2,), place), quarter)  # short: fewer features
    fq, fk = torch.exp(x @ normal.T - x.square().sum(dim=1, keepdim=True) / 2)
    mean, wanted = (fq * fk).mean().item(), math.exp(two[0] @ two[1] / 16)
    print(f"Performer, both at position {place}: {mean:.2f} of {wanted:.2f}")
    assert abs(mean / wanted - 1) < 0.03
