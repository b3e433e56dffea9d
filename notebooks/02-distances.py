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
# # Codes and distances
#
# Attention ignores the order of its tokens ({doc}`Ch. 1 <01-order>`). How can a position enter? The first transformer
# adds to each token a vector of sines and cosines {cite}`vaswani2017attention`. Every step from one position to the
# next rotates this code in the same way. But once it is added to a token and projected, the score depends on where the
# two tokens are, not only on how far apart. Relative encodings put the *offset*, the distance with its sign, directly
# into the score.

# %% tags=["parameters"]
d: int = 8  # channels of the sinusoidal code, an even number [2..256 step 2]
bits: int = 8  # digits of the binary code [3..16]
length: int = 120  # positions to look at [8..1000]
base: float = 10000.0  # sets how far the frequencies spread [1.5..1000000]
seed: int = 0  # seed of the random tokens and projections [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch

from rollpe import formulas
from rollpe.encodings.frequencies import geometric
from rollpe_book import figures
from rollpe_book.agree import agree, definition, differs, holds
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Three simple codes
#
# A *code* is a vector for each position. The simplest code is the number itself, which has no upper bound:
#
# $$
# c_p = p
# $$ (eq-integer-code)
#
# The *one-hot* code gives every position a channel of its own. It is bounded, but it needs as many channels as there
# are positions, and any two positions are equally far apart:
#
# $$
# (\mathbf{1}_p)_i = [\, i = p \,]
# $$ (eq-one-hot)
#
# The binary digits of $p$ are bounded, and $n$ digits serve $2^n$ positions:
#
# $$
# b_i(p) = \lfloor p / 2^i \rfloor \bmod 2, \qquad i = 0, 1, 2, \dots
# $$ (eq-binary)
#
# Each digit is a square wave, half as fast as the one before. But the steps differ: from 3 to 4, from 011 to 100, three
# digits change at once, from 4 to 5 only one.

# %%
p = torch.arange(length)
one_hot = (torch.arange(length) == p[:, None]).double()
binary = (p[:, None] // 2 ** torch.arange(bits) % 2).double()
digits = [[int(b) for b in f"{a:0{bits}b}"[::-1][:bits]] for a in p]
definition("eq-integer-code", "the code is the position")
agree("eq-one-hot", formulas.one_hot_code(p[::3], length), one_hot[::3])
agree("eq-binary", [binary, formulas.binary_code(p, bits)], [digits, digits])

# %% [markdown]
# ## Waves
#
# Sinusoids make the fast and slow digits smooth. Each digit becomes a point that runs around a circle, written as a
# sine and a cosine. The number of channels $d$ is even, and $i$ counts the $d/2$ pairs:
#
# $$
# \begin{aligned} \mathrm{PE}_{p,\,2i} &= \sin(\omega_i p), \\
# \mathrm{PE}_{p,\,2i+1} &= \cos(\omega_i p) \end{aligned}
# $$ (eq-sinusoid)
#
# The frequencies $\omega_i$, in radians per position, fall in geometric progression:
#
# $$
# \begin{gathered} \omega_i = 10000^{-2i/d}, \\
# 1 = \omega_0 > \omega_1 > \dots > \omega_{d/2-1} \end{gathered}
# $$ (eq-sinusoid-frequency)
#
# The first pair is the fastest. Pair $i$ makes a full turn in $2\pi/\omega_i$ positions, its *wavelength*. With eight
# channels every pair is ten times slower than the one before.

# %%
i = torch.arange(d // 2)
ω, ω_default = base ** (-2 * i / d), 10000.0 ** (-2 * i / d)
library = [geometric(d // 2, base), geometric(d // 2)]
agree("eq-sinusoid-frequency", library, [ω, ω_default])
holds("eq-sinusoid-frequency", [ω[0] == 1, (ω.diff() < 0).all()])
print("wavelengths:", *(f"{x:.1f}" for x in (2 * math.pi / ω)[:8].tolist()))


# %%
def sinusoids(p, ω):
    PE = torch.empty(len(p), d)
    PE[:, 0::2], PE[:, 1::2] = torch.sin(ω * p[:, None]), torch.cos(ω * p[:, None])
    return PE


PE, between = sinusoids(p, ω), p - 20.3  # some are negative, none is whole
library = [formulas.sinusoids(x, w) for x, w in ((p, ω), (between, ω_default))]
agree("eq-sinusoid", library, [PE, sinusoids(between, ω_default)])

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-codes", "caption": "Binary digits and sinusoids, one column a position. Bright is 1; dark is 0 for a digit and −1 for a wave. The strip under each code shows the size of the step to the next position."}, "image": {"alt": "Two heat maps above each other, each with a strip of step sizes below. The binary code is dark and bright stripes with sharp edges, alternating fast in bit 0 and twice as slowly in each further bit; its step sizes jump up and down and are never below one. The sinusoidal code has the same arrangement of stripes from fast to slow but with soft edges; its step size is a straight line."}}
fig, axes = plt.subplots(
    4, 1, figsize=(6.0, 5.2), sharex=True, height_ratios=[2, 1, 2, 1]
)
for (top, bottom), values, label, name, color in (
    (axes[:2], binary, "bit", "binary digits", figures.VERMILION),
    (axes[2:], PE, "channel", "sinusoids", figures.BLUE),
):
    top.imshow(
        values.T,
        aspect="auto",
        extent=(-0.5, length - 0.5, values.shape[1] - 0.5, -0.5),
    )
    top.set(ylabel=label, title=name)
    bottom.plot(
        p[:-1] + 0.5,
        values.diff(dim=0).norm(dim=1),
        color=color,
        linewidth=1.2,
        label=f"step of {name}",
    )
    bottom.set(ylabel="step", ylim=(0, 1.1 * math.sqrt(bits)))
axes[-1].set_xlabel("position")
plt.close(fig)
fig

# %% [markdown]
# Both codes of {numref}`fig-codes` have stripes from fast at the top to slow at the bottom. The step of the binary code
# jumps with every carry, and the step of the sinusoids always has the same length.
#
# ## A step is a rotation
#
# From $p$ to $p + \Delta$ the point on circle $i$ advances by the angle $\omega_i \Delta$, whatever $p$ is. With one
# block for each pair along the diagonal, a single rotation moves the whole code:
#
# $$
# \begin{gathered} \mathrm{PE}(p + \Delta) = R(\Delta) \, \mathrm{PE}(p), \\
# R(\Delta) = \bigoplus_i \begin{bmatrix} \cos \omega_i \Delta & \sin \omega_i \Delta \\
# -\sin \omega_i \Delta & \cos \omega_i \Delta \end{bmatrix} \end{gathered}
# $$ (eq-sinusoid-shift)
#
# Try a quarter turn by hand. At angle $0$ the pair (sine, cosine) is $(0, 1)$. The block is $\bigl[\begin{smallmatrix}
# 0 & 1 \\ -1 & 0 \end{smallmatrix}\bigr]$ and gives $(1, 0)$, the sine and cosine of $90°$. With the minus sign in the
# other corner the code moves backward ({doc}`Ch. 14 <14-buckets>`).

# %%
Delta = -2.5
cos, sin = torch.cos(ω * Delta), torch.sin(ω * Delta)
blocks = torch.stack((cos, sin, -sin, cos), dim=1).view(-1, 2, 2)
R, shift = torch.block_diag(*blocks), formulas.sinusoid_shift
found = [PE @ R.T, R.T @ R, shift(Delta, ω)]
agree("eq-sinusoid-shift", found, [sinusoids(p + Delta, ω), torch.eye(d), R])
moved = sinusoids(p, ω_default) @ shift(Delta, ω_default).T
agree("eq-sinusoid-shift", moved, sinusoids(p + Delta, ω_default))

# %% [markdown]
# One-hot codes also move by one matrix, which moves each channel to the next. Join the last channel to the first, and
# this matrix is the roll of RollPE ({doc}`Ch. 4 <04-rolling>`).
#
# Write $p_q$ and $p_k$ for the positions of query and key, and $\Delta = p_k - p_q$ for the offset. In the dot product
# of their codes, each pair gives $\sin a \sin b + \cos a \cos b = \cos(a - b)$, so only the offset remains:
#
# $$
# \langle \mathrm{PE}(p_q), \mathrm{PE}(p_k) \rangle = \sum_{i=0}^{d/2-1} \cos \omega_i \Delta
# $$ (eq-sinusoid-dot)
#
# This similarity falls at first, but not at every step, and not forever: {doc}`Ch. 3 <03-rotary>` shows how it returns.

# %%
distance = p[:, None] - p
similarity = sum(torch.cos(w * distance) for w in ω)
kernel = d / 2 * formulas.similarity_kernel(distance[7], ω)  # the library's mean
agree("eq-sinusoid-dot", [PE @ PE.T, kernel], [similarity, PE[7] @ PE.T], 1e-10)
curve = torch.cos(ω * torch.arange(1000)[:, None]).sum(dim=-1)
assert (curve.diff() > 1e-9).any(), "it rises somewhere"

# %% [markdown]
# ## Adding is not relative
#
# Call a score *relative* if it stays the same when both tokens move by the same amount. The dot product of two codes
# is relative. But attention multiplies *projections* of *sums* of tokens and codes: the query is $q = W_Q(x_{p_q} +
# c_{p_q})$ and the key $k = W_K(x_{p_k} + c_{p_k})$, with $c_p$ short for $\mathrm{PE}(p)$. Their product has four
# terms:
#
# $$
# \begin{aligned} \langle q, k \rangle = {} & \langle W_Q x_{p_q}, W_K x_{p_k} \rangle \\
# & + \langle W_Q x_{p_q}, W_K c_{p_k} \rangle \\
# & + \langle W_Q c_{p_q}, W_K x_{p_k} \rangle \\
# & + \langle W_Q c_{p_q}, W_K c_{p_k} \rangle \end{aligned}
# $$ (eq-four-terms)

# %%
N = min(length, 24)
X, C = torch.randn(N, d), PE[:N]
W_Q, W_K = torch.randn(2, d, d) / math.sqrt(d)  # here they multiply rows
Q_x, Q_c, K_x, K_c = X @ W_Q, C @ W_Q, X @ W_K, C @ W_K
terms = [Q_x @ K_x.T, Q_x @ K_c.T, Q_c @ K_x.T, Q_c @ K_c.T]
score = ((X + C) @ W_Q) @ ((X + C) @ W_K).T
library = formulas.four_terms(X, C, W_Q, W_K)
agree("eq-four-terms", [sum(library), *library], [score, *terms])

# %% [markdown]
# The two mixed terms depend on absolute positions, and so does the last term, position · position. Move both tokens by
# $s$:
#
# $$
# \begin{gathered} \langle W_Q c_{p_q+s}, W_K c_{p_k+s} \rangle \neq \langle W_Q c_{p_q}, W_K c_{p_k} \rangle \\
# \text{for generic } W_Q, W_K \end{gathered}
# $$ (eq-four-terms-absolute)
#
# The term is relative if $W_Q^\top W_K$ commutes with every rotation $R(\Delta)$, as the identity does. For random
# projections this almost never holds.

# %%
last, plain = terms[3], C @ C.T  # projected, and not
moved = [last[s:, s:] for s in (1, 5)]
differs("eq-four-terms-absolute", moved, [last[:-s, :-s] for s in (1, 5)], least=1e-3)
agree("eq-four-terms-absolute", plain[5:, 5:], plain[:-5, :-5])  # relative

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-four-terms", "caption": "The four terms of a score between random tokens with sinusoids added. Red is positive, blue negative, each panel on its own scale. A relative score is constant along every diagonal."}, "image": {"alt": "Four square heat maps of query position against key position. Content by content is noise. Content by position and position by content show horizontal and vertical bands. Position by position is a smooth pattern that follows no diagonal."}}
who = ("content", "position")
names = [f"{query} · {key}" for query in who for key in who]
fig, axes = plt.subplots(2, 2, figsize=(5.4, 5.4), sharex=True, sharey=True)
for axis, name, scores in zip(axes.flat, names, terms, strict=True):
    limit = scores.abs().max().item()
    axis.imshow(scores, cmap=figures.DIVERGING, vmin=-limit, vmax=limit)
    axis.set_title(name)
for axis in axes[1]:
    axis.set_xlabel("position of the key")
for axis in axes[:, 0]:
    axis.set_ylabel("position of the query")
plt.close(fig)
fig

# %% [markdown]
# No panel of {numref}`fig-four-terms` is striped along its diagonals. A model with added sinusoids must compute
# distances from terms that mix them with content and absolute positions.
#
# ## A number for each offset
#
# From the query at $i$ to the key at $j$ the offset is $j - i$. A term of the score that depends on the offset alone is
# constant along the diagonals of the score matrix:
#
# $$
# B_{ij} = b_{j-i}, \qquad B_{i+s,\, j+s} = B_{ij}
# $$ (eq-toeplitz)
#
# $N$ tokens then need $2N - 1$ numbers, not $N^2$. Give the five offsets of three tokens, $-2 \dots 2$, the numbers
# $5, 3, 0, 1, 2$: the main diagonal gets the $0$, and the one below it, which looks one step to the left, the $3$.

# %%
b = torch.tensor([5, 3, 0, 1, 2])  # offsets −2 … 2
i = torch.arange(3)
B = b[i - i[:, None] + 2]
print(B)
by_hand = [[0, 1, 2], [3, 0, 1], [5, 3, 0]]
library = formulas.relative_lookup(b, formulas.offsets(i))
agree("eq-toeplitz", [B, library, B[1:, 1:]], [by_hand, by_hand, B[:-1, :-1]])

# %% [markdown]
# T5 {cite}`raffel2020exploring` learns such numbers, one for each range of offsets ({doc}`Ch. 14 <14-buckets>`). ALiBi
# {cite}`press2022train` does not learn them: it subtracts a multiple of the distance from the score $e_{ij}$, with a
# factor for each of the $H$ heads, $h = 1, \dots, H$:
#
# $$
# e_{ij} = \frac{q_i^\top k_j}{\sqrt{d}} - 2^{-8h/H} \, |i - j|
# $$ (eq-alibi)


# %%
def slopes(H):
    return 2.0 ** (-8 * torch.arange(1, H + 1) / H)


N, i = 12, torch.arange(12)
q, k = torch.randn(2, 8, N, d)  # eight heads
e = q @ k.mT / math.sqrt(d) - slopes(8)[:, None, None] * (i[:, None] - i).abs()
library = [formulas.alibi_slopes(H) for H in (1, 2, 8, 32)]
scores = formulas.alibi_scores(q, k, formulas.offsets(i), library[2])
agree("eq-alibi", [scores, *library], [e, *map(slopes, (1, 2, 8, 32))])

# %% [markdown]
# ## A vector for each offset
#
# A number for each offset treats all queries equally. In the encoding of Shaw et al. {cite}`shaw2018self` the effect of
# an offset depends on the query: each offset has a learned *vector* $R^K_{j-i}$, which is added to the key (here $K$
# only stands for keys):
#
# $$
# e_{ij} = \frac{1}{\sqrt{d}} \left( q_i^\top k_j + q_i^\top R^K_{j-i} \right)
# $$ (eq-shaw)
#
# The vectors are the rows of a table $T$, for the offsets $-K \dots K$ up to a largest distance $K$. Beyond the ends,
# the last row is used again:
#
# $$
# R_{j-i} = T_{\max(-K,\, \min(K,\, j-i))}
# $$ (eq-shaw-clip)

# %%
K, X = 3, torch.randn(N, d)
T = torch.randn(2 * K + 1, d)  # the rows for −K … K
R_K = T[(i - i[:, None]).clamp(-K, K) + K]  # [N, N, d]
library = [formulas.relative_lookup(table, formulas.offsets(i)) for table in (T, T[:1])]
agree("eq-shaw-clip", library, [R_K, T[0].expand(N, N, d)])  # T[:1] has K = 0
q, k = X @ W_Q, X @ W_K
e = (q[:, None] * (k + R_K)).sum(dim=-1) / math.sqrt(d)
agree("eq-shaw", formulas.shaw_scores(q, k, R_K), e)

# %% [markdown]
# Write $s$ other tokens in front of a sequence. All its tokens move by $s$, and the scores among them stay the same:
#
# $$
# e_{i+s,\, j+s} = e_{ij} \quad \text{if } q_{i+s} = q_i,\ k_{j+s} = k_j
# $$ (eq-shaw-shift)

# %%
s = 4
longer = torch.cat((torch.randn(s, d), X))  # four tokens in front
R_longer = formulas.relative_lookup(T, formulas.offsets(torch.arange(N + s)))
e_longer = formulas.shaw_scores(longer @ W_Q, longer @ W_K, R_longer)
agree("eq-shaw-shift", e_longer[s:, s:], e)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-relative-shift", "caption": "What Shaw's vectors add to the scores of twelve tokens (top), and after four other tokens were written in front (bottom). The outlined block is the upper panel."}, "image": {"alt": "Two square heat maps of query position against key position, one above the other. Above, every row has the same arrangement of a few colored cells around the diagonal and two uniform stretches beside it, but in colors of its own. Below, the same pattern with four more rows and columns; an outlined block at the lower right has exactly the colors of the upper panel."}}
panels = {
    "twelve tokens": formulas.shaw_scores(q, 0 * k, R_K),
    "behind four others": formulas.shaw_scores(longer @ W_Q, 0 * longer, R_longer),
}
limit = panels["behind four others"].abs().max().item()
heights = {"height_ratios": [N, N + s], "figsize": (4.2, 6.4)}
fig, axes = plt.subplots(2, 1, sharex=True, **heights)
for axis, (title, values) in zip(axes, panels.items(), strict=True):
    axis.imshow(values, cmap=figures.DIVERGING, vmin=-limit, vmax=limit)
    axis.set(title=title, ylabel="position of the query")
axes[1].set(xlabel="position of the key", xticks=range(0, N + s, 5))
axes[1].set_xlim(-0.5, N + s - 0.5)
block = plt.Rectangle((s - 0.5, s - 0.5), N, N, fill=False, clip_on=False)
block.set(edgecolor=figures.ON_PALE, linewidth=1.8)
axes[1].add_patch(block)
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-relative-shift` the colors of a row depend on its query, and the lower panel contains the upper one,
# unchanged. But the table must be learned, and it ends at $K$. The next chapter needs no table.
#
# ## Exercise
#
# ```{exercise}
# :label: exercise-sinusoids-ring
# Take an odd $n$ and the arithmetic frequencies $2\pi k/n$, $k = 1, \dots, (n-1)/2$. Scale the sinusoids by
# $\sqrt{2/n}$ and append one constant channel $1/\sqrt n$. Show that on integer positions the dot product of two such
# codes is 1 if the positions are equal modulo $n$, and 0 otherwise. Which code have you found?
# ```
#
# ```{solution} exercise-sinusoids-ring
# :class: dropdown
# The dot product is $\frac1n \sum_{k=0}^{n-1} e^{2\pi i k \Delta/n}$: a sum of $n$ numbers spread evenly around the
# unit circle, unless all are 1. It is the one-hot code of positions modulo $n$, in another orthonormal basis, which
# {doc}`Ch. 5 <05-rope>` calls the Fourier basis.
# ```

# %% tags=["hide-cell"]
n, k = 15, torch.arange(1, 8)
angle = 2 * math.pi * k / n * torch.arange(2 * n)[:, None]
sines_cosines = math.sqrt(2 / n) * torch.cat((angle.sin(), angle.cos()), dim=1)
waves = torch.cat((sines_cosines, torch.full((2 * n, 1), n**-0.5)), dim=1)
flags = formulas.one_hot_code(torch.arange(2 * n) % n, n)
assert torch.allclose(waves @ waves.T, flags @ flags.T)
Q = flags[:n].T @ waves[:n]  # its rows are the waves of n positions
assert torch.allclose(flags @ Q, waves) and torch.allclose(Q.T @ Q, torch.eye(n))
