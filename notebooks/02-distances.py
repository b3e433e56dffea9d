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
# Attention ignores the order of its tokens ({doc}`01-order`). How can a position enter? The first transformer adds to
# each token a vector of sines and cosines for its position {cite}`vaswani2017attention`. As a code this works well:
# every step from one position to the next is the same rotation. But once the code is added to a token and projected,
# the score depends on where the two tokens are, not only on how far apart. Relative encodings avoid this: they put the
# *offset*, the distance with its sign, directly into the score. Each offset has a number or a vector.

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
# A *code* is a vector for each position. The simplest code is the number itself:
#
# $$
# c_p = p
# $$ (eq-integer-code)
#
# It has no upper bound: at position 1000 it is much larger than the token to which it is added.
#
# The opposite extreme gives every position a channel of its own, with a one there and zeros elsewhere:
#
# $$
# (\mathbf{1}_p)_i = [\, i = p \,]
# $$ (eq-one-hot)
#
# This *one-hot* code is bounded, but it needs as many channels as there are positions, and any two positions are
# equally far apart.
#
# The binary digits of $p$ are bounded, and $n$ digits serve $2^n$ positions:
#
# $$
# b_i(p) = \lfloor p / 2^i \rfloor \bmod 2, \qquad i = 0, 1, 2, \dots
# $$ (eq-binary)
#
# Each digit is a square wave and half as fast as the one before. Its weakness is the carry: from 3 to 4, from 011 to
# 100, three digits change at once, but from 4 to 5 only one.

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
# Sinusoids keep the fast and slow digits and make them smooth. Each digit becomes a point that runs around a circle,
# written as a sine and a cosine. The number of channels $d$ is even, and $i$ counts the $d/2$ pairs:
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
# The first pair is the fastest. Pair $i$ makes a full turn in $2\pi/\omega_i$ positions, which is its *wavelength*.
# With eight channels every pair is ten times slower than the one before, like the wheels of an odometer.

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
    4, 1, figsize=(7.0, 5.2), sharex=True, height_ratios=[2, 1, 2, 1]
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
# Both codes of {numref}`fig-codes` have stripes from fast at the top to slow at the bottom. The strips below them
# differ: the step of the binary code jumps with every carry, and the step of the sinusoids always has the same length.
#
# ## A step is a rotation
#
# From $p$ to $p + \Delta$ the point on circle $i$ advances by the angle $\omega_i \Delta$, whatever $p$ is. In
# matrix form this is the addition theorem of sine and cosine:
#
# $$
# \begin{aligned} & \begin{bmatrix} \sin \omega_i (p + \Delta) \\ \cos \omega_i (p + \Delta) \end{bmatrix} \\
# & \quad = \begin{bmatrix} \cos \omega_i \Delta & \sin \omega_i \Delta \\
# -\sin \omega_i \Delta & \cos \omega_i \Delta \end{bmatrix}
# \begin{bmatrix} \sin \omega_i p \\ \cos \omega_i p \end{bmatrix} \end{aligned}
# $$ (eq-sinusoid-pair)
#
# Try a quarter turn by hand. At angle $0$ the pair (sine, cosine) is $(0, 1)$. The matrix is $\bigl[\begin{smallmatrix}
# 0 & 1 \\ -1 & 0 \end{smallmatrix}\bigr]$ and gives $(1, 0)$, the sine and cosine of $90°$. The pair lists its sine
# first, so it turns clockwise; {doc}`14-buckets` shows what happens with the minus sign in the other corner.

# %%
Delta = -2.5
cos, sin = torch.cos(ω * Delta), torch.sin(ω * Delta)
blocks = torch.stack((cos, sin, -sin, cos), dim=1).view(-1, 2, 2)
pairs, moved = (sinusoids(a, ω).view(-1, d // 2, 2) for a in (p, p + Delta))
rotated = torch.einsum("iab,pib->pia", blocks, pairs)
agree("eq-sinusoid-pair", [rotated, blocks.det()], [moved, torch.ones(d // 2)])

# %% [markdown]
# Put the blocks of all pairs along a diagonal, and one rotation moves the whole code:
#
# $$
# \begin{gathered} \mathrm{PE}(p + \Delta) = R(\Delta) \, \mathrm{PE}(p), \\
# R(\Delta)^\top R(\Delta) = I \end{gathered}
# $$ (eq-sinusoid-shift)

# %%
R, shift = torch.block_diag(*blocks), formulas.sinusoid_shift
found = [PE @ R.T, R.T @ R, shift(Delta, ω)]
agree("eq-sinusoid-shift", found, [sinusoids(p + Delta, ω), torch.eye(d), R])
moved = sinusoids(p, ω_default) @ shift(Delta, ω_default).T
agree("eq-sinusoid-shift", moved, sinusoids(p + Delta, ω_default))

# %% [markdown]
# One-hot codes, too, move by the same linear map in every step: the matrix that moves each channel to the next. Join
# the last channel to the first, and this matrix is the roll of {doc}`04-rolling`, on which RollPE is built. The number
# and its binary digits have no such map ({doc}`14-buckets`).
#
# In the dot product of two codes, each pair gives $\sin a \sin b + \cos a \cos b = \cos(a - b)$. The positions
# themselves drop out, and only their distance remains:
#
# $$
# \langle \mathrm{PE}(p), \mathrm{PE}(p') \rangle = \sum_{i=0}^{d/2-1} \cos\bigl(\omega_i (p - p')\bigr)
# $$ (eq-sinusoid-dot)

# %%
distance = p[:, None] - p
similarity = sum(torch.cos(w * distance) for w in ω)
kernel = d / 2 * formulas.similarity_kernel(distance[7], ω)  # the library's mean
agree("eq-sinusoid-dot", [PE @ PE.T, kernel], [similarity, PE[7] @ PE.T], 1e-10)

# %% [markdown]
# The similarity falls at first, but not at every step, and not forever: {doc}`03-rotary` shows that this sum of
# cosines returns as near to its first value as one likes.

# %%
curve = torch.cos(ω * torch.arange(1000)[:, None]).sum(dim=-1)
rise = int((curve.diff() > 1e-9).nonzero()[0])
print(f"at distance {rise} it rises for the first time: {curve[rise]:.3f}", end="")
print(f" to {curve[rise + 1]:.3f}")

# %% [markdown]
# ## Adding is not relative
#
# Call a score *relative* if it stays the same when both tokens move by the same amount. The dot product of two codes
# is relative. But attention multiplies *projections* of *sums* of tokens and codes. With $c_p$ short for
# $\mathrm{PE}(p)$, the query is $W_Q(x_p + c_p)$ and the key is $W_K(x_{p'} + c_{p'})$. Their product has four terms:
#
# $$
# \begin{aligned} \langle q_p, k_{p'} \rangle = {} & \langle W_Q x_p, W_K x_{p'} \rangle \\
# & + \langle W_Q x_p, W_K c_{p'} \rangle \\
# & + \langle W_Q c_p, W_K x_{p'} \rangle \\
# & + \langle W_Q c_p, W_K c_{p'} \rangle \end{aligned}
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
# The two mixed terms depend on absolute positions. The last term, position · position, depends on them, too. Move
# both tokens by $s$:
#
# $$
# \begin{gathered} \langle W_Q c_{p+s}, W_K c_{p'+s} \rangle \neq \langle W_Q c_p, W_K c_{p'} \rangle \\
# \text{for generic } W_Q, W_K \end{gathered}
# $$ (eq-four-terms-absolute)

# %%
last, plain = terms[3], C @ C.T  # projected, and not
moved = [last[s:, s:] for s in (1, 5)]
differs("eq-four-terms-absolute", moved, [last[:-s, :-s] for s in (1, 5)], least=1e-3)
agree("eq-four-terms-absolute", plain[5:, 5:], plain[:-5, :-5])  # relative

# %% [markdown]
# The exceptions have a simple form.
#
# ```{prf:proposition}
# :label: prop-last-term
# Let the frequencies be distinct and between $0$ and $\pi$. The term position · position depends on $p - p'$
# alone if and only if $\Gamma = W_Q^\top W_K$ commutes with every $R(\Delta)$. Such a $\Gamma$ has one $2
# \times 2$ block for each pair, $\bigl[\begin{smallmatrix} a_i & b_i \\ -b_i & a_i \end{smallmatrix}\bigr]$, and
# zeros elsewhere.
# ```
#
# ```{prf:proof}
# The term is $c_p^\top \Gamma c_{p'}$. Moving both tokens by $s$ turns it into $c_p^\top R(s)^\top \Gamma R(s) c_{p'}$,
# by {eq}`eq-sinusoid-shift`. The matrix $R(1)$ has $d$ distinct eigenvalues, and every code has a part along each
# eigenvector. So the codes of $d$ successive positions span $\mathbb R^d$, and the two expressions agree for all $p$
# and $p'$ only if $R(s)^\top \Gamma R(s) = \Gamma$. A matrix that commutes with $R(1)$ is a polynomial in $R(1)$,
# because the eigenvalues are distinct, and has the blocks stated.
# ```
#
# Of the $d^2$ entries of $\Gamma$, $d$ are free. Random projections are almost never of this form, and nothing in
# training enforces it.

# %%
a, b = torch.randn(2, d // 2)
Γ = torch.block_diag(*torch.stack((a, b, -b, a), dim=1).view(-1, 2, 2))
agree("Γ commutes with R(Δ)", Γ @ R, R @ Γ)
special = C @ Γ @ C.T
agree("this exception is relative", special[1:, 1:], special[:-1, :-1])

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-four-terms", "caption": "The four terms of a score between random tokens with sinusoids added, their sum, and the last term again with projections that commute with the shift. Red is positive, blue negative, each panel on its own scale. A relative score is constant along every diagonal."}, "image": {"alt": "Six square heat maps of query position against key position. Content by content is noise. Content by position and position by content show horizontal and vertical bands. Position by position is a smooth pattern that follows no diagonal. The sum is noise with bands. Only the last panel, with special projections, is striped along the diagonals."}}
who = ("content", "position")
names = [f"{query} · {key}" for query in who for key in who]
shown = dict(zip(names, terms, strict=True))
shown |= {"all four": score, "special projections": special}
fig, axes = plt.subplots(2, 3, figsize=(7.0, 4.9), sharex=True, sharey=True)
for axis, (name, scores) in zip(axes.flat, shown.items(), strict=True):
    limit = scores.abs().max().item()
    axis.imshow(scores, cmap=figures.DIVERGING, vmin=-limit, vmax=limit)
    axis.set_title(name, fontsize=9)
for axis in axes[1]:
    axis.set_xlabel("position of the key")
for axis in axes[:, 0]:
    axis.set_ylabel("position of the query")
plt.close(fig)
fig

# %% [markdown]
# Only the last panel of {numref}`fig-four-terms` is striped along its diagonals. A model with added sinusoids must
# compute distances from terms that mix them with content and absolute positions.
#
# ## A number for each offset
#
# A relative encoding puts the distance into the score itself. The *offset* from the query at $i$ to the key at $j$ is
# $j - i$, negative to the left. A term that depends on the offset alone is constant along the diagonals of the score
# matrix:
#
# $$
# B_{ij} = b_{j-i}, \qquad B_{i+\delta,\, j+\delta} = B_{ij}
# $$ (eq-toeplitz)
#
# So $N$ tokens need $2N - 1$ numbers, not $N^2$. Three tokens have five offsets, $-2 \dots 2$. Give them the numbers
# $5, 3, 0, 1, 2$ and fill in the matrix by hand: the main diagonal gets the $0$, the one below it looks one step to
# the left and gets the $3$.

# %%
b = torch.tensor([5, 3, 0, 1, 2])  # offsets −2 … 2
i = torch.arange(3)
B = b[i - i[:, None] + 2]
print(B)
by_hand = [[0, 1, 2], [3, 0, 1], [5, 3, 0]]
library = formulas.relative_lookup(b, formulas.offsets(i))
agree("eq-toeplitz", [B, library, B[1:, 1:]], [by_hand, by_hand, B[:-1, :-1]])

# %% [markdown]
# T5 {cite}`raffel2020exploring` learns such numbers, one for each range of offsets ({doc}`14-buckets`). ALiBi
# {cite}`press2022train` does not learn them: it subtracts a multiple of the distance from the score $e_{ij}$. Each of
# the $H$ heads, $h = 1, \dots, H$, has its own factor:
#
# $$
# e_{ij} = \frac{q_i^\top k_j}{\sqrt{d}} - 2^{-8h/H} \, |i - j|
# $$ (eq-alibi)
#
# Eight heads have the slopes $\tfrac12, \tfrac14, \dots, \tfrac1{256}$. The first head attends to the nearest tokens,
# the last one to hundreds.


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
# A number for each offset treats all queries alike. In the encoding of Shaw et al. {cite}`shaw2018self` the effect of
# an offset depends on the query: each offset has a learned *vector* $R^K_{j-i}$, which is added to the key. (Here $K$
# only stands for keys.)
#
# $$
# e_{ij} = \frac{1}{\sqrt{d}} \left( q_i^\top k_j + q_i^\top R^K_{j-i} \right)
# $$ (eq-shaw)
#
# The second term says how strongly *this* query attends to tokens at that offset, near or far. The vectors are the rows
# of a table $T$. It has $2K + 1$ of them, for the offsets $-K \dots K$ up to a largest distance $K$. Beyond the ends,
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
# ## What a shift does
#
# Write $\delta$ other tokens in front of a sequence. All its tokens move by $\delta$, and the scores among them stay
# the same:
#
# $$
# e_{i+\delta,\, j+\delta} = e_{ij} \quad \text{if } q_{i+\delta} = q_i,\ k_{j+\delta} = k_j
# $$ (eq-shaw-shift)
#
# The *same tokens* must be in the new places. Inside one sequence, one step down the diagonal leads to two other
# tokens, which have another score.

# %%
longer = torch.cat((torch.randn(4, d), X))  # four tokens in front
R_longer = formulas.relative_lookup(T, formulas.offsets(torch.arange(N + 4)))
e_longer = formulas.shaw_scores(longer @ W_Q, longer @ W_K, R_longer)
agree("eq-shaw-shift", e_longer[4:, 4:], e)
differs("other tokens, one step down the diagonal", e[1:, 1:], e[:-1, :-1])

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-relative-shift", "caption": "What position adds to the score: one number for each offset (left), Shaw's vector for each offset (middle), and Shaw's term again after four tokens were written in front (right). The outlined block is the middle panel."}, "image": {"alt": "Three square heat maps of query position against key position. Left: stripes along the diagonals, each of one color. Middle: every row has the same arrangement of a few colored cells around the diagonal and two uniform stretches beside it, but in colors of its own. Right: the same pattern with four more rows and columns; an outlined block at the lower right has exactly the colors of the middle panel."}}
term = formulas.shaw_scores(q, 0 * k, R_K)
term_longer = formulas.shaw_scores(longer @ W_Q, longer * 0, R_longer)
bias = R_K[:, :, 0]
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
axes[0].set(ylabel="position of the query", xlim=(-0.5, N + 3.5), ylim=(N + 3.5, -0.5))
axes[2].add_patch(
    plt.Rectangle(
        (3.5, 3.5),
        N,
        N,
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
# row depend on its query. The right panel contains the middle one, unchanged.
#
# A score that depends on the offset alone cannot single out the first token. In a text that may be a drawback. In
# images it may be an advantage, since a cat is a cat wherever it sits.
#
# The table must be learned, and it ends at $K$. The next chapter rotates queries and keys by their positions, and
# needs no table.
#
# ```{admonition} In short
# :class: tip
# - Binary digits and sinusoids are both sets of waves from fast to slow. Every step of the sinusoidal code is the same
#   rotation, {eq}`eq-sinusoid-shift`.
# - The dot product of two sinusoidal codes depends on their distance alone, but does not simply fall with it.
# - Once codes are added to tokens and projected, scores depend on absolute positions, {eq}`eq-four-terms-absolute`.
# - A relative encoding gives each offset a number (T5, ALiBi) or a vector (Shaw).
# - A relative score of the same two tokens depends on how far apart they are, not on where they are.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-sinusoids-ring
# Take an odd $n$ and the arithmetic frequencies $2\pi k/n$, $k = 1, \dots, (n-1)/2$. Scale the sinusoids by
# $\sqrt{2/n}$ and append one constant channel $1/\sqrt n$. Show that on integer positions the dot product of two such
# codes is 1 if $p \equiv p'$ modulo $n$, and 0 otherwise. Which code have you found?
# ```
#
# ```{solution} exercise-sinusoids-ring
# :class: dropdown
# The dot product is $\frac1n \sum_{k=0}^{n-1} e^{2\pi i k (p-p')/n}$: a sum of $n$ numbers spread evenly around the
# unit circle, unless all are 1. So it is the one-hot code of positions modulo $n$, in another orthonormal basis.
# {doc}`05-rope` calls it the Fourier basis.
# ```

# %% tags=["hide-cell"]
n, k = 15, torch.arange(1, 8)
angle = 2 * math.pi * k / n * torch.arange(2 * n)[:, None]
sines_cosines = math.sqrt(2 / n) * torch.cat((angle.sin(), angle.cos()), dim=1)
waves = torch.cat((sines_cosines, torch.full((2 * n, 1), n**-0.5)), dim=1)
flags = formulas.one_hot_code(torch.arange(2 * n) % n, n)
agree("dot products of waves and of one-hot codes", waves @ waves.T, flags @ flags.T)
Q = flags[:n].T @ waves[:n]  # its rows are the waves of n positions
agree("an orthogonal matrix leads there", [flags @ Q, Q.T @ Q], [waves, torch.eye(n)])

# %% [markdown]
# ```{exercise}
# :label: exercise-sinusoids-literal
# Take $10000^{2i/d}$, the reciprocal, as the *frequency*. The waves for $d = 8$ then advance by 1, 10, 100 and 1000
# radians a step. What do they look like on integer positions?
# ```
#
# ```{solution} exercise-sinusoids-literal
# :class: dropdown
# On integer positions an advance of $\omega$ equals one of $\omega - 2\pi$. The fast waves are *aliased*: each looks
# like some slower one, which may even run backward, and the order from fast to slow is gone. The code still has
# steps of equal length and rotations for shifts, but no slow wave is left.
# ```

# %% tags=["hide-cell"]
literal = 1 / geometric(4)
alias = torch.remainder(literal + math.pi, 2 * math.pi) - math.pi
for true, apparent in zip(literal.tolist(), alias.tolist(), strict=True):
    print(f"{true:7.1f} rad a step looks like {apparent:+.3f}")
p = torch.arange(50)[:, None]
sines = torch.sin(literal * p), torch.sin(alias * p)
agree("on integer positions the two agree", *sines, tolerance=1e-9)
assert alias.abs().min() > 100 * geometric(4)[-1], "no slow wave"
