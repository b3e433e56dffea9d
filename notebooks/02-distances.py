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
# # From counting to waves
#
# A position is a number, and a token is a vector. To add a position to a token, we need a vector for each position:
# a *code*. The first transformer used sines and cosines {cite}`vaswani2017attention`. Why not the number itself, or
# its binary digits? The number grows without bound, and digits change by unequal steps. With sines and cosines
# every step from one position to the next has the same size and is the same rotation.
#
# This chapter builds four codes and measures their steps. Then it turns to two questions that decide what comes later:
# which frequencies to choose, and what attention makes of a code that is added to tokens. The order of the codes
# follows *circles* {cite}`teaching-circles`, one of the three introductions listed in {doc}`01-order`.

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

from rollpe.operators import real_fourier_basis, ring_frequencies
from rollpe.textbook import (
    binary_code,
    bit_flips,
    four_terms,
    longest_wavelength,
    one_hot_code,
    rope_frequencies,
    rotation_matrix,
    similarity_kernel,
    sinusoid_shift,
    sinusoids,
)
from rollpe_book import figures
from rollpe_book.agree import agree

figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Three simple codes
#
# The simplest code is the number itself:
#
# $$
# c_p = p
# $$ (eq-integer-code)
#
# It has no upper bound. At position 1000 the position would drown out the token.
#
# The opposite extreme gives every position a channel of its own, with a one there and zeros elsewhere:
#
# $$
# (\mathbf{1}_p)_i = [\, i = p \,]
# $$ (eq-one-hot)
#
# This *one-hot* code is bounded, but it needs as many channels as there are positions, and any two positions are
# equally far apart:
#
# $$
# \|\mathbf{1}_p - \mathbf{1}_{p'}\| = \sqrt{2} \quad (p \neq p')
# $$ (eq-one-hot-distance)
#
# Between the two lie the binary digits of $p$. They are bounded, and $n$ channels serve $2^n$ positions:
#
# $$
# b_i(p) = \lfloor p / 2^i \rfloor \bmod 2, \qquad i = 0, 1, 2, \dots
# $$ (eq-binary)
#
# Each digit is a square wave, half as fast as the one before:
#
# $$
# \begin{aligned} b_i\bigl(p + 2^{i+1}\bigr) &= b_i(p), \\
# b_i\bigl(p + 2^{i}\bigr) &= 1 - b_i(p) \end{aligned}
# $$ (eq-bit-period)
#
# Their weakness is the carry, which makes steps unequal:
#
# $$
# \begin{aligned} & \|b(p+1) - b(p)\|^2 \\
# & \quad = 1 + \#\{\text{ones at the end of } p\} \end{aligned}
# $$ (eq-bit-flips)
#
# Written with three digits, 3 is 011 and 4 is 100, and *all* bits flip. This is the example of *circles*, and it is
# the worst case: with eight digits 3 is 00000011, 4 is 00000100, and the other five stay. All bits of a counter
# flip at once only halfway, and when it overflows.

# %%
for digits in (3, bits):
    three, four = (f"{p:0{digits}b}" for p in (3, 4))
    flips = sum(x != y for x, y in zip(three, four, strict=True))
    print(f"3 → 4 is {three} → {four}: {flips} of {digits} bits flip")

p = torch.arange(2**bits - 1)
flips = bit_flips(p)
print(f"all {bits} bits flip after p = {p[flips == bits].tolist()} only")
print(f"on average a step flips {flips.double().mean():.3f} bits")
change = binary_code(p + 1, bits) - binary_code(p, bits)
agree("flips are squared distances", change.square().sum(dim=1), flips)
assert p[flips == bits].tolist() == [2 ** (bits - 1) - 1]

# %% [markdown]
# ## Waves
#
# Sinusoids keep the slow and fast digits and make them smooth. Each digit becomes a point that runs around a
# circle, written as a sine and a cosine. The number of channels $d$ is even, and $i$ counts the $d/2$ pairs:
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
# A full turn of pair $i$ takes $2\pi/\omega_i$ positions, its wavelength. The last pair has the longest:
#
# $$
# \frac{2\pi}{\omega_{d/2-1}} = 2\pi \cdot 10000^{(d-2)/d}
# $$ (eq-longest-wavelength)
#
# The first pair is the fastest. (*Order* reverses this in words, *circles* in its formula;
# {ref}`exercise-sinusoids-literal` shows the result.) The wavelengths are often said to reach $10000 \cdot 2\pi$,
# even in the original {cite}`vaswani2017attention`. The last pair has $i = d/2 - 1$ and stays below that: with
# eight channels it reaches a tenth.
#
# With eight channels every pair is ten times slower than the one before, like the wheels of an odometer.

# %%
code = sinusoids(torch.arange(length), d, base)
print("pair  ω (radians)   wavelength   sign changes of its cosine")
for i, frequency in enumerate(rope_frequencies(d, base).tolist()):
    changes = code[:, 2 * i + 1].sign().diff().ne(0).sum()
    wavelength = 2 * math.pi / frequency
    print(f"{i:4} {frequency:12.6f} {wavelength:12.2f} {changes:12}")
agree("the longest wavelength, relative", longest_wavelength(d, base) / wavelength, 1)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-codes", "caption": "Binary digits and sinusoids, one column a position. Bright is 1; dark is 0 for a digit and −1 for a wave. The strip under each code shows the size of the step to the next position."}, "image": {"alt": "Two heat maps above each other, each with a strip of step sizes below. The binary code is dark and bright stripes with sharp edges, alternating fast in bit 0 and twice as slowly in each further bit; its step sizes jump up and down and are never below one. The sinusoidal code has the same arrangement of stripes from fast to slow but with soft edges; its step size is a straight line."}}
positions = torch.arange(length)
fig, axes = plt.subplots(
    4, 1, figsize=(7.0, 5.2), sharex=True, height_ratios=[2, 1, 2, 1]
)
for (top, bottom), values, label, name, color in (
    (axes[:2], binary_code(positions, bits), "bit", "binary digits", figures.VERMILION),
    (axes[2:], code, "channel", "sinusoids", figures.BLUE),
):
    top.imshow(
        values.T,
        aspect="auto",
        extent=(-0.5, length - 0.5, values.shape[1] - 0.5, -0.5),
    )
    top.set(ylabel=label, title=name)
    bottom.plot(
        positions[:-1] + 0.5,
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
# Both codes of {numref}`fig-codes` have stripes from fast at the top to slow at the bottom. The strips differ: the
# step of the binary code jumps with every carry, and the step of the sinusoids always has the same length.
#
# ## A step is a rotation
#
# All codes have the same length, because each pair lies on a circle:
#
# $$
# \|\mathrm{PE}(p)\|^2 = \tfrac{d}{2}
# $$ (eq-sinusoid-norm)
#
# From $p$ to $p + \Delta$ the point on circle $i$ advances by the angle $\omega_i \Delta$, whatever $p$ is. In
# matrix form this is the addition theorem of sine and cosine:
#
# $$
# \begin{aligned} & \begin{bmatrix} \sin \omega_i (p + \Delta) \\ \cos \omega_i (p + \Delta) \end{bmatrix} \\
# & \quad = \begin{bmatrix} \cos \omega_i \Delta & \sin \omega_i \Delta \\ -\sin \omega_i \Delta & \cos \omega_i \Delta \end{bmatrix}
# \begin{bmatrix} \sin \omega_i p \\ \cos \omega_i p \end{bmatrix} \end{aligned}
# $$ (eq-sinusoid-pair)
#
# Put the blocks of all pairs along a diagonal, and one rotation moves the whole code:
#
# $$
# \begin{gathered} \mathrm{PE}(p + \Delta) = R(\Delta) \, \mathrm{PE}(p), \\
# R(\Delta)^\top R(\Delta) = I \end{gathered}
# $$ (eq-sinusoid-shift)
#
# The minus sign is in the lower left corner, because a pair that lists its sine first runs *clockwise*. With the
# minus in the other corner, as *circles* prints it, the code goes backward. That is a different position unless
# $k\omega$ is a multiple of half a turn:
#
# $$
# \begin{gathered} \begin{bmatrix} \cos k\omega & -\sin k\omega \\ \sin k\omega & \cos k\omega \end{bmatrix}
# \mathrm{PE}_{p} = \mathrm{PE}_{p-k} \\
# \neq \mathrm{PE}_{p+k} \end{gathered}
# $$ (eq-sinusoid-shift-printed)
#
# A quarter turn shows it by hand. At angle $0$ the pair (sine, cosine) is $(0, 1)$. A quarter turn on, it must be
# $(\sin 90°, \cos 90°) = (1, 0)$. The first matrix is then $\bigl[\begin{smallmatrix} 0 & 1 \\ -1 & 0
# \end{smallmatrix}\bigr]$ and gives $(1, 0)$; the printed matrix gives $(-1, 0)$. The printed matrix is correct for
# pairs that list the cosine first.

# %%
quarter = math.pi / 2
here = torch.tensor([0.0, 1.0])  # sine and cosine of 0
ours = rotation_matrix(torch.tensor([-quarter]))
printed = rotation_matrix(torch.tensor([quarter]))
for name, matrix in (("corrected", ours), ("printed", printed)):
    print(f"{name:9} gives {(matrix @ here).round().long().tolist()}")

shift = 7
R = sinusoid_shift(shift, d, base)
forward = sinusoids(torch.arange(length) + shift, d, base)
backward = sinusoids(torch.arange(length) - shift, d, base)
agree(f"R({shift}) moves on", code @ R.T, forward)
agree("its transpose, as printed, moves back", code @ R, backward)

# %% [markdown]
# With sinusoids *one* linear map takes every position to the next. Which other codes have such a map? For each code
# we find the best one by least squares.

# %% tags=["hide-input"]
codes = {
    "number": torch.arange(length)[:, None].double(),
    "one-hot": one_hot_code(torch.arange(length), length),
    "binary": binary_code(torch.arange(length), bits),
    "sinusoids": code,
}
print("code       channels   from    to   smallest and largest step   miss")
miss = {}
for name, c in codes.items():
    steps = c.diff(dim=0).norm(dim=1)
    best = torch.linalg.lstsq(c[:-1], c[1:], driver="gelsd").solution
    misses = (c[:-1] @ best - c[1:]).norm(dim=1)
    low, high = steps.min(), steps.max()
    miss[name] = misses.max().item() / steps.mean().item()
    size = f"{c.shape[1]:8} {c.min():6.1f} {c.max():5.0f}"
    print(f"{name:10} {size} {low:12.2f} {high:12.2f} {miss[name]:10.1e}")
assert miss["one-hot"] < 1e-9 and miss["sinusoids"] < 1e-6
assert miss["number"] > 0.1 and miss["binary"] > 0.1

for name in ("number", "binary"):
    c = torch.cat((codes[name], torch.ones(length, 1)), dim=1)
    best = torch.linalg.lstsq(c[:-1], c[1:], driver="gelsd").solution
    with_one = (c[:-1] @ best - c[1:]).norm(dim=1).max().item()
    print(f"{name} and a channel of ones: misses by up to {with_one:.1e}")
    assert (with_one < 1e-6) == (name == "number")

# %% [markdown]
# The last column is the largest error, in units of a step. Two codes have an exact map. For sinusoids the map is
# the rotation. For one-hot codes it is the matrix that moves every channel to the next. Join the last channel to
# the first, and this matrix is the roll of {doc}`04-rolling`, on which the paper's encoding is built. (The number
# itself would need only a second channel that is always 1, since a linear map leaves 0 where it is. Binary digits
# have no exact map even with that channel.)
#
# ## Dot products of codes
#
# Take the dot product of two codes. In each pair $\sin a \sin b + \cos a \cos b = \cos(a - b)$, so the
# positions themselves drop out:
#
# $$
# \langle \mathrm{PE}(p), \mathrm{PE}(p') \rangle = \sum_{i=0}^{d/2-1} \cos\bigl(\omega_i (p - p')\bigr)
# $$ (eq-sinusoid-dot)
#
# Since all codes are equally long, the distance between two of them holds the same information. For one step this
# distance is the flat strip in {numref}`fig-codes`:
#
# $$
# \begin{aligned} & \|\mathrm{PE}(p) - \mathrm{PE}(p')\|^2 \\
# & \quad = 4 \sum_{i=0}^{d/2-1} \sin^2\!\bigl(\tfrac12 \omega_i (p - p')\bigr) \end{aligned}
# $$ (eq-sinusoid-distance)
#
# Does the similarity fall as two positions move apart? The cosines "average out", says *equivariance*
# {cite}`teaching-equivariance`. At first they do. But the fall is not monotone, and it does not last:
# {doc}`03-rotary` shows that the same sum of cosines returns as near to its first value as one likes.

# %%
p = torch.arange(length)
frequencies = rope_frequencies(d, base)
kernel = similarity_kernel(p[:, None] - p, frequencies)
squared = (code[:, None] - code).square().sum(dim=-1)
agree("dot products of codes", code @ code.T, d / 2 * kernel, tolerance=1e-10)
agree("squared distances of codes", squared, d * (1 - kernel), tolerance=1e-10)

curve = similarity_kernel(torch.arange(1000), frequencies)
turn = int((curve.diff() > 1e-9).nonzero()[0])
print("the similarity rises for the first time")
print(f"    from {curve[turn]:.3f} at Δ = {turn} to {curve[turn + 1]:.3f}")

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-progressions", "caption": "Similarity of two codes against their distance, for frequencies in geometric progression (top) and in arithmetic progression (bottom), with the same number of waves."}, "image": {"alt": "Two plots against distance from 0 to 64, with dots on whole positions and thin lines through them. Top: the geometric curves start at one, fall unevenly and wiggle without ever settling; the one with more waves is smoother. Bottom: the arithmetic curves are rows of equal spikes of height one, one period apart. All dots in between lie at one level, slightly below zero, and the lines ripple around it; with more waves the spikes are farther apart."}}
reach = min(length, 64)
fine = torch.linspace(0, reach, 20 * reach + 1)
whole = torch.arange(reach + 1)
fig, (top, bottom) = plt.subplots(2, 1, figsize=(7.0, 4.4), sharex=True)
for width, color, thick in ((d, figures.BLUE, 1.8), (4 * d, figures.ORANGE, 1.4)):
    geometric = rope_frequencies(width, base)
    arithmetic = ring_frequencies(width + 1)[1:]
    for axis, omega in ((top, geometric), (bottom, arithmetic)):
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
            whole,
            similarity_kernel(whole, omega),
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
# ## Why geometric?
#
# {numref}`fig-progressions` compares two families; its dots are whole positions. In a geometric progression (top)
# every wave is slower than the last by the same *factor*. In an arithmetic progression (bottom) every wave is
# faster than the last by the same *amount*, $\omega_k = 2\pi k/n$, and all waves meet again after $n$ positions,
# one more than twice the number of waves. The geometric curve has a slope: near positions have similar codes. The
# arithmetic curve is a spike: all other positions are equally dissimilar.
#
# *Circles* prefers the geometric family because the arithmetic one is "too slow" to cover a wide range. For long
# texts that is correct. Let the fastest wave turn by one to three radians per token, so that neighbors differ. In
# an
# arithmetic progression the ratio of the fastest frequency to the slowest is the number of waves. In a geometric
# progression of factor two, every further wave doubles that ratio. So a range of $G$ positions takes about $G$
# channels in the arithmetic family and about $\log G$ in the geometric one. (A ring that is stretched by a
# wavelength reaches farther, but blurs neighbors: {doc}`06-continuous`.)

# %%
print("channels for a slowest wave of at least this many positions:")
for reach in (15, 1000, 100_000):
    ring = reach + 1 - reach % 2  # the smallest odd width = period
    halvings = math.ceil(math.log2(reach / (2 * math.pi)))
    pairs = 1 + halvings  # the first has ω = 1, the next ω = ½, ...
    print(f"{reach:8,}: {ring:8,} if arithmetic, {2 * pairs:3} if geometric")

# %% [markdown]
# But the rows of an image are short. Eight patches in a row have offsets from $-7$ to $7$, and a ring of fifteen
# channels keeps them all apart. RollPE *is* an arithmetic progression of frequencies ({doc}`04-rolling`), so it
# leads to an experiment: does attention need the slope, or is the spike enough? {doc}`09-results` tries both families
# over both ranges of waves.
#
# ## Adding is not relative
#
# The dot product {eq}`eq-sinusoid-dot` of two codes depends on their distance alone. Attention, however, takes dot
# products of *projections* of *sums* of tokens and codes. With $c_p$ short for $\mathrm{PE}(p)$, the query is
# $W_Q(x_p + c_p)$, the key is $W_K(x_{p'} + c_{p'})$, and their product has four terms:
#
# $$
# \begin{aligned} \langle q_p, k_{p'} \rangle = {} & \langle W_Q x_p, W_K x_{p'} \rangle \\
# & + \langle W_Q x_p, W_K c_{p'} \rangle \\
# & + \langle W_Q c_p, W_K x_{p'} \rangle \\
# & + \langle W_Q c_p, W_K c_{p'} \rangle \end{aligned}
# $$ (eq-four-terms)
#
# *Equivariance* says that the last term, position · position, is relative. It is not: like the two terms before it,
# it depends on absolute positions. Move both tokens by $s$:
#
# $$
# \begin{gathered} \langle W_Q c_{p+s}, W_K c_{p'+s} \rangle \neq \langle W_Q c_p, W_K c_{p'} \rangle \\
# \text{for generic } W_Q, W_K \end{gathered}
# $$ (eq-four-terms-absolute)
#
# The exceptions can be listed.
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
# The term is $c_p^\top \Gamma c_{p'}$. Moving both tokens by $s$ turns it into $c_p^\top R(s)^\top \Gamma R(s)
# c_{p'}$, by {eq}`eq-sinusoid-shift`. The codes of $d$ successive positions span $\mathbb R^d$, so the two agree
# for all $p$ and $p'$ only if $R(s)^\top \Gamma R(s) = \Gamma$. Since $R(1)$ has $d$ distinct eigenvalues,
# what commutes with it is a polynomial in it, and has the blocks stated.
# ```
#
# Of the $d^2$ entries of $\Gamma$, $d$ are free. Random projections are almost never of this form, and nothing in
# training enforces it. We measure how relative a matrix of scores is by the share of its variance that its
# diagonals explain: 1 if the score depends on $p - p'$ alone.

# %% tags=["hide-input"]
tokens = min(length, 24)
X = torch.randn(tokens, d)
C = sinusoids(torch.arange(tokens), d, base)
W_Q, W_K = torch.randn(2, d, d) / math.sqrt(d)  # here they multiply rows


def relative_share(scores) -> float:
    """The share of a matrix's variance that its diagonals' means explain."""
    N = len(scores)
    offset = (torch.arange(N)[:, None] - torch.arange(N) + N - 1).flatten()
    sums = torch.zeros(2 * N - 1).index_add(0, offset, scores.flatten())
    means = (sums / torch.bincount(offset))[offset].view(N, N)
    left_over = (scores - means).square().sum()
    return 1 - (left_over / (scores - scores.mean()).square().sum()).item()


who = ("content", "position")
names = [f"{query} · {key}" for query in who for key in who]
terms = dict(zip(names, four_terms(X, C, W_Q, W_K), strict=True))
score = ((X + C) @ W_Q) @ ((X + C) @ W_K).T
agree("the four terms add up to the score", sum(terms.values()), score)

ab = torch.randn(d // 2, 2).tolist()
Gamma = torch.block_diag(*(torch.tensor([[a, b], [-b, a]]) for a, b in ab))
R = sinusoid_shift(3, d, base)
agree("Γ commutes with R(3)", Gamma @ R, R @ Gamma)

shown = terms | {"all four": score, "special projections": C @ Gamma @ C.T}
for name, scores in shown.items():
    print(f"{name:20} relative share {relative_share(scores):.3f}")
by_chance = (2 * tokens - 2) / (tokens**2 - 1)
print(f"{'noise, on average':20} relative share {by_chance:.3f}")
assert relative_share(terms["position · position"]) < 0.9
agree("the exception is relative", relative_share(shown["special projections"]), 1)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-four-terms", "caption": "The four terms of a score between random tokens with sinusoids added, their sum, and the last term again with projections that commute with the shift. Red is positive, blue negative, each panel on its own scale. A relative score is constant along every diagonal."}, "image": {"alt": "Six square heat maps of query position against key position. Content by content is noise. Content by position and position by content show horizontal and vertical bands. Position by position is a smooth pattern that follows no diagonal. The sum is noise with bands. Only the last panel, with special projections, is striped along the diagonals."}}
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
# learn to compute distances from terms that mix them with content and absolute positions. The next two chapters put
# positions where distance survives: into the score ({doc}`02-distances`), or into a rotation *after* the projections
# ({doc}`03-rotary`).
#
# ```{admonition} In short
# :class: tip
# Binary digits and sinusoids are both sets of waves from fast to slow. Sinusoids avoid the carry: every step has
# the same length and is the same rotation. Their dot products depend on distance alone, but do not simply fall with
# it. Geometric frequencies cover many positions with few channels. The arithmetic frequencies of RollPE, on a ring
# that is not stretched, cover exactly as many positions as there are channels, which is enough for images. Once
# codes are added to tokens and projected, scores depend on absolute positions, too.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-sinusoids-gray
# In Gray code, $g(p) = p \oplus \lfloor p/2 \rfloor$, successive numbers differ in a single bit. Does it repair the
# binary code?
# ```
#
# ```{solution} exercise-sinusoids-gray
# :class: dropdown
# Only half of it. Every step now has length one. But there is still no linear map that takes each code to the next,
# and near codes need not be near positions: the first and the last number also differ in one bit only.
# ```

# %% tags=["hide-cell"]
p = torch.arange(2**bits)
gray = binary_code(p ^ (p >> 1), bits)
steps = gray.diff(dim=0).norm(dim=1)
best = torch.linalg.lstsq(gray[:-1], gray[1:], driver="gelsd").solution
print(
    f"step sizes from {steps.min():.0f} to {steps.max():.0f}; "
    f"first to last: {(gray[0] - gray[-1]).norm():.0f}"
)
misses = (gray[:-1] @ best - gray[1:]).norm(dim=1)
print(f"the best linear step misses by up to {misses.max():.2f}")
agree("every Gray step has length one", steps, torch.ones(len(steps)))
assert (gray[:-1] @ best - gray[1:]).norm(dim=1).max() > 0.1

# %% [markdown]
# ```{exercise}
# :label: exercise-sinusoids-ring
# Take an odd $n$ and the arithmetic frequencies $2\pi k/n$, $k = 1, \dots, (n-1)/2$. Scale the sinusoids by
# $\sqrt{2/n}$ and append one constant channel $1/\sqrt n$. Show that on whole positions the dot product of two such
# codes is 1 if $p \equiv p'$ modulo $n$, and 0 otherwise. Which code have you found?
# ```
#
# ```{solution} exercise-sinusoids-ring
# :class: dropdown
# The dot product is $\frac1n \sum_{k} e^{2\pi i k (p-p')/n}$ over all $n$ modes $k$: a sum of $n$ numbers
# spread evenly around the unit circle, unless all are 1. So it is the one-hot code on a ring in another orthonormal
# basis, the Fourier basis. On whole positions the one-hot code and these waves are one code in two bases.
# ```

# %% tags=["hide-cell"]
n = 15
Q, omega = real_fourier_basis(n)
p = torch.arange(2 * n)
angle = p[:, None] * omega
waves = torch.cat(
    (
        math.sqrt(2 / n) * angle.sin(),
        math.sqrt(2 / n) * angle.cos(),
        torch.full((2 * n, 1), n**-0.5),
    ),
    dim=1,
)
flags = one_hot_code(p % n, n)
agree(
    "dot products of the waves are those of one-hot codes",
    waves @ waves.T,
    flags @ flags.T,
)
agree(
    "an orthogonal matrix takes one to the other: cosines",
    (flags @ Q)[:, 0:-1:2],
    math.sqrt(2 / n) * angle.cos(),
)
agree(
    "an orthogonal matrix takes one to the other: sines",
    (flags @ Q)[:, 1:-1:2],
    -math.sqrt(2 / n) * angle.sin(),
)
agree("it is orthogonal", Q.T @ Q, torch.eye(n))

# %% [markdown]
# ```{exercise}
# :label: exercise-sinusoids-literal
# *Circles* calls $10000^{2i/d}$, the reciprocal, the *frequency*. Taken literally, the waves for $d = 8$ advance by
# 1, 10, 100 and 1000 radians a step. What do they look like on whole positions?
# ```
#
# ```{solution} exercise-sinusoids-literal
# :class: dropdown
# On whole positions an advance of $\omega$ equals one of $\omega - 2\pi$. The fast waves are aliased: each looks
# like some slower one, which may even run backward, and the order from fast to slow is gone. The code still has
# steps of equal length and rotations for shifts, but no slow wave is left.
# ```

# %% tags=["hide-cell"]
literal = 1 / rope_frequencies(8)
alias = torch.remainder(literal + math.pi, 2 * math.pi) - math.pi
for true, seen in zip(literal.tolist(), alias.tolist(), strict=True):
    print(f"{true:7.1f} rad a step looks like {seen:+.3f}")
p = torch.arange(50)[:, None]
agree(
    "on whole positions the two agree",
    torch.sin(literal * p),
    torch.sin(alias * p),
    tolerance=1e-9,
)
assert alias.abs().min() > 100 * rope_frequencies(8)[-1], (
    "no hand is anywhere near as slow as the real code's slowest"
)
