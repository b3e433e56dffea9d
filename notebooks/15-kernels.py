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
# # Rolls without a transform
#
# {doc}`06-continuous` rolls by real positions with Fourier transforms. Which numbers do the generator and the roll
# contain, can a sparse matrix replace the generator, and do the formulas in the paper {cite}`rollpe` agree? The entries
# are ratios of sines. A sparse generator gives rotations, but not the roll. The formulas of the paper number the waves
# from 0 and have to number them from the middle. The last sections collect facts about lists of angles that the
# chapters leave out.

# %% tags=["parameters"]
n: int = 32  # channels on the ring [8..64]
position: float = 0.3  # steps to roll by, a fraction of one [0.1..0.9]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.special import jv

from rollpe.ring import generator, roll_matrix, shift_matrix
from rollpe_book import figures
from rollpe_book.agree import agree, differs, gap, holds
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(seed)
exp, power = torch.matrix_exp, torch.linalg.matrix_power

# %% [markdown]
# ## The generator
#
# The sum of the waves in {eq}`eq-generator` is the differentiation matrix of spectral methods
# {cite}`trefethen2000spectral,weideman2000matlab`:
#
# $$
# \begin{gathered} \mathcal{A}_{jl} = \frac{\pi}{n} (-1)^{j-l} \times \begin{cases} 1 / \sin \frac{\pi (j-l)}{n} & n \text{ odd} \\[2pt] \cot \frac{\pi (j-l)}{n} & n \text{ even} \end{cases} \\
# (j \neq l) \end{gathered}
# $$ (eq-generator-closed)


# %%
def closed(n):
    i = torch.arange(n)
    d = i[:, None] - i  # j − l
    sine, cosine = torch.sin(math.pi * d / n), torch.cos(math.pi * d / n)
    ratio = cosine ** (1 - n % 2) / sine.where(d != 0, torch.inf)
    return math.pi / n * (-1.0) ** d * ratio


# %% tags=["hide-input"]
widths = (1, 2, 7, n, n + 1)
entries = [closed(m) for m in widths]
agree("eq-generator-closed", [generator(m) for m in widths], entries)

# %% [markdown]
# ## The roll
#
# For odd $n$ the entries of the roll are the Dirichlet kernel of signal processing:
#
# $$
# S(p)_{jl} = \frac{\sin \pi t}{n \sin(\pi t / n)}, \qquad t = \frac{p}{\lambda} + j - l
# $$ (eq-kernel-odd)
#
# At integer steps the numerator is zero. Where the denominator is zero, too, the quotient tends to 1, which gives the
# permutation. Between the steps the weights alternate in sign and fall off like one over the distance. For even $n$ and
# a Nyquist mode that does not move (*fixed*),
#
# $$
# \begin{aligned} S(p)_{jl} = \frac{1}{n} \Bigl( & \sin \pi t \, \cot \frac{\pi t}{n} \\
# & - \cos \pi t + (-1)^{j-l} \Bigr), \\
# t = \frac{p}{\lambda} & + j - l \end{aligned}
# $$ (eq-kernel-even)
#
# and with a Nyquist mode that shrinks by a cosine (*cosine*),
#
# $$
# \begin{gathered} S_{\cos}(p)_{jl} = \frac{1}{n} \sin \pi t \, \cot \frac{\pi t}{n}, \\
# t = \frac{p}{\lambda} + j - l \end{gathered}
# $$ (eq-kernel-cosine)


# %%
def offset(p, n):
    """t of every entry, at positions p in wavelengths."""
    i = torch.arange(n)
    return p[:, None, None] + i[:, None] - i


def odd_kernel(p, n):
    t = math.pi * offset(p, n)
    return torch.sin(t) / (n * torch.sin(t / n))


def even_kernels(p, n):
    """With a Nyquist mode that is fixed, and with one that shrinks by a cosine."""
    t, d = math.pi * offset(p, n), offset(0 * p, n)
    cosine = torch.sin(t) / torch.tan(t / n) / n
    return cosine - (torch.cos(t) - (-1.0) ** d) / n, cosine


# %%
λ, p = 2.5, torch.tensor([position, position - 7, 12.4])
odd, even = (1, 3, n - 1 + n % 2), (2, 4, n + n % 2)  # widths
found = [roll_matrix(m, p, λ) for m in odd]
agree("eq-kernel-odd", found, [odd_kernel(p / λ, m) for m in odd])
for i, nyquist in enumerate(("fixed", "cosine")):
    found = [roll_matrix(m, p, λ, nyquist) for m in even]
    expected = [even_kernels(p / λ, m)[i] for m in even]
    agree(("eq-kernel-even", "eq-kernel-cosine")[i], found, expected)

# %% [markdown]
# At whole steps the odd kernel and the one with a cosine are permutations. The one with a fixed Nyquist mode is the
# exponential of the generator:

# %% tags=["hide-input"]
odd, even = odd[-1], even[-1]
S, whole = shift_matrix(even), torch.tensor([0.0, 1.0, 2.0])
found = roll_matrix(odd, whole)
agree("eq-kernel-odd", found, [power(shift_matrix(odd), s) for s in range(3)])
found = roll_matrix(even, whole, nyquist="cosine")
agree("eq-kernel-cosine", found, [power(S, s) for s in range(3)])
found = roll_matrix(even, whole)
agree("eq-kernel-even", found, exp(whole[:, None, None] * generator(even)))

# %% [markdown]
# {doc}`06-continuous` describes two more treatments of even rings in words. *Paired* rolls two rings together. Their
# two Nyquist modes can turn into each other, so the roll of both rings has a real logarithm:
#
# $$
# \exp \begin{bmatrix} \mathcal{A} & -\pi \nu \nu^\top \\ \pi \nu \nu^\top & \mathcal{A} \end{bmatrix} = \begin{bmatrix} S & 0 \\ 0 & S \end{bmatrix}
# $$ (eq-nyquist-paired)
#
# *Odd* leaves one channel without position and rolls the other $n - 1$, an odd number:
#
# $$
# S_{\mathrm{odd}}(p) = \begin{bmatrix} S_{n-1}(p) & 0 \\ 0 & 1 \end{bmatrix}
# $$ (eq-nyquist-odd)

# %%
nu = (-1.0) ** torch.arange(even) / math.sqrt(even)
quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]])  # turns the two rings into each other
A = generator(even)
both = torch.block_diag(A, A) + math.pi * torch.kron(quarter, torch.outer(nu, nu))
rolled = torch.block_diag(S, S)
agree(
    "eq-nyquist-paired", [generator(even, "paired"), exp(both)], [both, rolled], 1e-10
)

# %% tags=["hide-input"]
from rollpe.ring import continuous_roll

x, back = torch.randn(3, 2 * even), power(rolled.T, 3)
matrix = roll_matrix(even, -3.0, nyquist="paired")
found = [matrix, continuous_roll(x, -3.0, nyquist="paired")]
agree("eq-nyquist-paired", found, [back, x @ back.T], 1e-10)

# %%
rest = torch.block_diag(exp(position / λ * generator(even - 1)), torch.eye(1))
A, x, twice = generator(even, "odd"), torch.randn(2, even), torch.full((2,), position)
found = [roll_matrix(even, position, λ, "odd"), exp(position / λ * A)]
agree("eq-nyquist-odd", found, [rest, rest])
agree("eq-nyquist-odd", continuous_roll(x, twice, λ, "odd"), x @ rest.T)

# %% [markdown]
# ## The formulas of the paper
#
# The paper's Eq. 6 diagonalizes the generator. The matrix after $\Lambda$ has to be the conjugate transpose
# $U^\dagger$, where the paper has $U^\top$, because $U$ is complex:
#
# $$
# \begin{gathered} \mathcal{A} = U \Lambda U^\dagger, \qquad U = F^*, \quad \Lambda \text{ imaginary}, \\
# \exp\!\left( \tfrac{p}{\lambda} \mathcal{A} \right) = U \exp\!\left( \tfrac{p}{\lambda} \Lambda \right) U^\dagger \end{gathered}
# $$ (eq-eigen)
#
# The paper's Eq. 14 numbers the waves $k = 0, \dots, n-1$ and so turns all of them forward. The result is also a
# logarithm of $S$, but a complex one:
#
# $$
# \begin{aligned} & F^* \operatorname{diag}\!\left( \tfrac{2\pi \mathrm{i} k}{n} \right)_{k=0}^{n-1} F \\
# & \quad = \mathcal{A} + 2\pi \mathrm{i}\, \Pi_{-} + \mathrm{i}\pi\, \Pi_{n/2} \;\notin\; \mathbb{R}^{n \times n}, \\
# & \Pi_- = \textstyle\sum_{m<0} F^* e_m e_m^* F \end{aligned}
# $$ (eq-generator-printed)
#
# The matrices $\Pi$ project onto waves. The first extra term adds a whole turn to each wave that should run backward.
# The second, for even $n$, adds half a turn to the Nyquist mode. At integer steps the whole turns change nothing, and
# the half turn gives the Nyquist mode the sign that it has in the roll. Between the steps the query becomes complex.
# The paper's Eq. 7 has the same error: at half a step partners cancel in the real part, and only the mean remains.
#
# $$
# \begin{gathered} \operatorname{Re} \left( F^* \operatorname{diag}\bigl( e^{2\pi \mathrm{i}\, p k / (\lambda n)} \bigr)_{k=0}^{n-1} F \, q \right) = \bar q \, \mathbf{1} \\
# \text{at } p = \tfrac{\lambda}{2}, \qquad \bar q = \tfrac1n \textstyle\sum_i q_i \end{gathered}
# $$ (eq-spectral-printed)

# %%
from rollpe.ring import fourier_matrix, paper_generator, paper_roll_matrix

F, k = fourier_matrix(n), torch.arange(n)
m = (k + n // 2) % n - n // 2  # numbered from the middle
m[2 * m == -n] = 0
U, Λ = F.mH, 2j * math.pi * m / n

# %%
A = generator(n) + 0j
middle, moved = (U @ torch.diag(z) @ U.mH for z in (Λ, torch.exp(position * Λ)))
agree("eq-eigen", [middle, moved], [A, exp(position * A)])
differs("eq-eigen", U @ torch.diag(Λ) @ U.T, A, 0.1)

# %%
from_zero = F.mH @ torch.diag(2j * math.pi * k / n) @ F
backward, nyquist = F.mH @ ((m < 0)[:, None] * F), F.mH @ ((2 * k == n)[:, None] * F)
extra = 2j * math.pi * backward + 1j * math.pi * nyquist
found = [paper_generator(n), middle + extra, exp(from_zero)]
agree("eq-generator-printed", found, [from_zero, from_zero, shift_matrix(n) + 0j])
differs("eq-generator-printed", from_zero.imag, 0 * from_zero.imag, 0.5)
differs("eq-generator-printed", from_zero.T, -from_zero, 0.5)

# %%
queries = torch.randn(n, 1000)
half = F.mH @ torch.diag(torch.exp(1j * math.pi * k / n)) @ F  # Eq. 7 at half a step
back = power(shift_matrix(n).T, 3) + 0j  # and at −3 steps
found = [paper_roll_matrix(n, λ / 2, λ), paper_roll_matrix(n, -3 * λ, λ)]
agree("eq-spectral-printed", found, [half, back])
result = half @ (queries + 0j)
agree("eq-spectral-printed", result.real, queries.mean(dim=0).expand(n, -1))
differs("eq-spectral-printed", result.imag, 0 * result.imag, 0.1)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-counted-from-zero", "caption": "Waves numbered from 0, as in the paper. Left: after half a step no wave has a partner. Right: the imaginary share of a random query's length."}, "image": {"alt": "Left: a unit circle with all dots on its upper half. Right: share against position; the formula of the paper rises from zero to almost one at half a step and falls back to zero, waves numbered from the middle stay at zero."}}
fig, (left, right) = plt.subplots(1, 2, figsize=(6.8, 3.0), width_ratios=(1, 1.3))
ring = min(n, 12 + n % 2)  # few enough to see
left.add_patch(plt.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.7))
left.axhline(0, color=figures.MUTED, linewidth=0.5)
left.set(title=f"half a step, {ring} channels", aspect="equal", xticks=[], yticks=[])
left.set(xlim=(-1.9, 1.2), ylim=(-1.2, 1.2))
left.spines[:].set_visible(False)
z = np.exp(1j * np.pi * np.arange(ring) / ring)
left.plot(z.real, z.imag, "o", color=figures.VERMILION, markersize=6, label="modes")
fine = np.linspace(0, 1, 41)
moved = [paper_roll_matrix(n, p) @ (queries + 0j) for p in fine]
share = [(z.imag.norm(dim=0) / z.norm(dim=0)).mean() for z in moved]
right.plot(fine, share, color=figures.VERMILION, label="in the paper")
right.plot(fine, 0 * fine, color=figures.BLUE, label="from the middle")
right.text(0.5, 0.06, "from the middle", color=figures.BLUE, ha="center")
right.text(0.5, 0.8, "in the paper", color=figures.VERMILION, ha="center")
right.set(xlabel="position (steps)", ylabel="imaginary share", ylim=(-0.03, 1.05))
plt.close(fig)
fig

# %% [markdown]
# Numbering from the middle repairs both formulas, {numref}`fig-counted-from-zero`.
#
# ## A local stencil
#
# Appendix E of the paper compares the logarithm with "the tridiagonal matrix shown in the main text". The main text
# shows none. Probably the central difference is meant:
#
# $$
# \begin{gathered} D = \tfrac12 (S - S^\top), \\
# (D x)_i = \tfrac12 (x_{i+1} - x_{i-1}) \end{gathered}
# $$ (eq-stencil)
#
# It is sparse, real and skew-symmetric for every $n$, so it generates rotations. They are not the roll, because they
# turn the same waves at other speeds:
#
# $$
# D = F^* \operatorname{diag}\!\left( \mathrm{i} \sin \tfrac{2\pi k}{n} \right) F
# $$ (eq-stencil-spectrum)
#
# The difference is small for long waves. In this sense both agree in the continuum limit, as the paper says:
#
# $$
# \begin{gathered} \frac{\|(\mathcal{A} - D)\, x\|}{\|x\|} = \omega_m - \sin \omega_m \le \frac{\omega_m^3}{6} \\
# \text{for a wave of mode } m,\ 0 \le m < \tfrac n2,\ \omega_m = \tfrac{2\pi m}{n} \end{gathered}
# $$ (eq-stencil-limit)

# %%
from rollpe.ring import stencil, stencil_roll

i, one = torch.arange(n), torch.eye(n)
D = (one[(i + 1) % n] - one[i - 1]) / 2
S = shift_matrix(n)
agree("eq-stencil", [stencil(n), (S - S.T) / 2], [D, D])
spectrum = F.mH @ torch.diag(1j * torch.sin(2 * math.pi * k / n)) @ F
agree("eq-stencil-spectrum", spectrum, D + 0j)

# %%
w = 2 * math.pi * torch.arange((n + 1) // 2) / n  # of every mode
x = torch.cos(w * i[:, None] + 0.3)
slower = ((generator(n) - D) @ x).norm(dim=0) / x.norm(dim=0)
agree("eq-stencil-limit", slower, w - torch.sin(w))
holds("eq-stencil-limit", slower <= w**3 / 6 + 1e-12)

# %% [markdown]
# Short waves turn too slowly, so a pattern made of many waves falls apart as it travels (dispersion). Put $z = S$ into
# the series that defines the Bessel functions, $e^{\frac p2 (z - 1/z)} = \sum_m J_m(p)\, z^m$:
#
# $$
# \begin{gathered} \exp(p D) = \sum_{m \in \mathbb{Z}} J_m(p) \, S^m, \\
# \exp(D) \neq S \end{gathered}
# $$ (eq-stencil-bessel)

# %%
p = n / 4
terms = range(-2 * n - 20, 2 * n + 21)  # J_m(p) is tiny for |m| > 2p
bessel = sum(jv(m, p) * one[(i + m) % n] for m in terms)
found = [exp(p * D), stencil_roll(n, p), stencil_roll(n, -p), stencil_roll(2, p)]
agree("eq-stencil-bessel", found, [bessel, bessel, bessel.T, torch.eye(2)])
differs("eq-stencil-bessel", exp(D), shift_matrix(n), 0.3)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-dispersion", "caption": "The generator against the local stencil. Left: how fast each wave turns. Right: a narrow bump, before and after half a turn of the ring."}, "image": {"alt": "Left: speed against frequency, a straight line for the generator and an arch for the stencil, which falls back to zero. Right: signal against channel, a narrow bump, the same bump elsewhere after the roll, and ripples after the stencil."}}
steps, source = n // 2, (3 * n) // 4
bump = torch.exp(6 * (torch.cos(2 * math.pi * (i - source) / n) - 1) * (n / 16) ** 2)
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0), width_ratios=(1, 1.5))
omega = np.linspace(0, np.pi, 200)
left.plot(omega, omega, color=figures.BLUE, label="generator")
left.plot(omega, np.sin(omega), color=figures.VERMILION, label="stencil")
left.annotate(
    "generator",
    (1.9, 1.9),
    (-6, 4),
    textcoords="offset points",
    color=figures.BLUE,
    ha="right",
    fontsize=9,
)
left.annotate(
    "stencil",
    (2.3, math.sin(2.3)),
    (0, -26),
    textcoords="offset points",
    color=figures.VERMILION,
    ha="center",
    fontsize=9,
)
left.set(
    xlabel="frequency (radians per channel)",
    ylabel="turn (radians per step)",
    title="speed of each wave",
)
left.set(
    xticks=[0, np.pi / 2, np.pi],
    xticklabels=["0", "π/2", "π"],
    yticks=[0, np.pi / 2, np.pi],
    yticklabels=["0", "π/2", "π"],
)
right.plot(i, bump, color=figures.MUTED, linewidth=1.2, label="before")
right.plot(i, roll_matrix(n, steps) @ bump, color=figures.BLUE, label="roll")
right.plot(i, stencil_roll(n, steps) @ bump, color=figures.VERMILION, label="stencil")
right.annotate(
    "before",
    (source, 1),
    (0, 3),
    textcoords="offset points",
    color=figures.MUTED,
    ha="center",
    fontsize=9,
)
right.annotate(
    "roll",
    (source - steps, 1),
    (0, 3),
    textcoords="offset points",
    color=figures.BLUE,
    ha="center",
    fontsize=9,
)
right.annotate(
    "stencil",
    (0.5, 0.05),
    xycoords="axes fraction",
    color=figures.VERMILION,
    ha="center",
    fontsize=9,
)
right.set(
    xlabel="channel",
    ylabel="value",
    title=f"a bump after {steps} steps",
    ylim=(-0.62, 1.15),
)
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-dispersion` the roll moves the bump unchanged. The stencil turns it into ripples: the long waves have
# arrived, the short ones have not.
#
# ## The wavelength in the paper
#
# The paper remarks that one wavelength makes the frequencies of RollPE and RoPE look alike:
#
# $$
# \begin{gathered} \lambda = -\frac{\pi}{\ln 10000} \quad \Longrightarrow \\
# \frac{2\pi k}{\lambda n} = \ln\!\left( 10000^{-2k/n} \right) \end{gathered}
# $$ (eq-lambda)
#
# The algebra is correct. It equates a frequency of RollPE with the *logarithm* of a frequency of RoPE. The wavelength
# is about a third of a position per step, so most waves rotate by more than half a circle from one patch to the next.
# At integer positions such a wave looks like a slower one (aliasing):
#
# $$
# \begin{gathered} |\omega_k| = \frac{2k}{n} \ln 10000 > \pi \\
# \Longleftrightarrow \quad k > \frac{\pi n}{2 \ln 10000}, \\
# n = 32,\ k < \tfrac n2:\ k = 6, \dots, 15 \end{gathered}
# $$ (eq-lambda-aliased)

# %%
from rollpe.encodings.frequencies import geometric
from rollpe.encodings.frequencies import ring as ring_frequencies

short, k = -math.pi / math.log(10000), torch.arange(16)
omega, theta = 2 * math.pi * k / (short * 32), 10000 ** (-2 * k / 32)
library = [ring_frequencies(32, short)[:16], geometric(16).log()]
agree("eq-lambda", library, [omega, theta.log()])
print(f"λ = {short:.3f}; the frequencies differ by up to {gap(omega.abs(), theta):.2f}")


# %% tags=["hide-input"]
def above(n):
    return torch.arange(n // 2) > math.pi * n / (2 * math.log(10000))


widths = (2, 10, 32, 64)
found = [ring_frequencies(m, short)[: m // 2] for m in widths]
agree("eq-lambda", found, [geometric(m // 2).log() for m in widths])
fast = [w.abs() > math.pi for w in found]
holds("eq-lambda-aliased", [above(32) == fast[2], above(64) == fast[3]])
holds("eq-lambda-aliased", k[fast[2]] == torch.arange(6, 16))

# %%
slow = torch.remainder(omega + math.pi, 2 * math.pi) - math.pi
p = torch.arange(-50, 51)[:, None]
agree("eq-lambda-aliased", torch.exp(1j * p * omega), torch.exp(1j * p * slow))

# %% [markdown]
# ## Even spacing
#
# On a row that is not closed, any $n$ different eigenvalues express all functions of $n$ neighboring offsets
# {eq}`eq-span`, but some functions need large queries and keys. Evenly spaced eigenvalues are the best ones:
#
# $$
# \operatorname{tr} W^\Delta = 0 \ \text{ for } \Delta = 1, \dots, n - 1 \iff \text{eigenvalues } e^{\mathrm{i} (2\pi k + \varphi)/n},
# \quad \varphi \in \{0, \pi\}
# $$ (eq-even-spacing)
#
# Here $\operatorname{tr} W^\Delta$ is the covariance of scores at two offsets of distance $\Delta$, for queries and
# keys of independent standard normal numbers. So random scores at $n$ neighboring offsets are uncorrelated for two
# lists of angles: those of the plain ring and, for even $n$, those of the twisted ring (for odd $n$, those of $-S$).
# (The traces are the power sums of the eigenvalues. If the first $n - 1$ are zero, Newton's identities leave
# $\lambda^n = c$ for all of them. A real orthogonal $W$ has $c = \pm 1$.)

# %%
from rollpe.formulas import rotation_matrix
from rollpe.ring import twisted_shift

W = [make(m) for make in (shift_matrix, twisted_shift) for m in (n, n + 1)]
traces = [torch.stack([power(w, d).trace() for d in range(1, len(w))]) for w in W]
agree("eq-even-spacing", traces, [torch.zeros(len(w) - 1) for w in W])
trace = rotation_matrix(geometric(16)).trace().item()
print(f"RoPE on 32 channels: variance 32, covariance of neighbors {trace:.1f}")
holds("eq-even-spacing", trace > 20)


# %% tags=["hide-input"]
def unpaired(φ):
    """How far the eigenvalues are from being pairs of conjugates, as of a real matrix."""
    z = torch.exp(1j * (2 * math.pi * torch.arange(n) + φ) / n)
    return (z[:, None] - z.conj()).abs().min(dim=1).values.max()


agree("eq-even-spacing", [unpaired(0.0), unpaired(math.pi)], [0.0, 0.0])
differs("eq-even-spacing", unpaired(1.0), 0.0, 0.01)

# %% [markdown]
# ```{admonition} In short
# :class: tip
# - The entries of the generator and of the roll are ratios of sines; no transform is necessary.
# - The paper's Eqs. 7 and 14 number the waves from 0. This makes queries complex between the steps; numbering from the
#   middle repairs it.
# - The central difference is sparse and generates rotations, but it disperses: short waves turn too slowly.
# - The wavelength that makes the frequencies of RollPE and RoPE look alike equates a frequency with a logarithm.
# ```
#
# ## Exercise
#
# ```{exercise}
# :label: exercise-continuous-pair
# Two rings of two channels each, $(x, y)$ and $(u, v)$, are both rolled by one step. Find the half step by hand, as a
# real $4 \times 4$ matrix.
# ```
#
# ```{solution} exercise-continuous-pair
# :class: dropdown
# The sums $x + y$ and $u + v$ stay. The differences $x - y$ and $u - v$ change their signs, which in their plane is
# half a turn. Half of it is a quarter turn: $(x - y,\, u - v) \mapsto (-(u - v),\, x - y)$.
# ```

# %% tags=["hide-cell"]
to_sums = torch.tensor([[1.0, 1.0], [1.0, -1.0]]) / 2**0.5  # its own inverse
to_sums = torch.block_diag(to_sums, to_sums)
quarter = torch.eye(4)
quarter[1, 1] = quarter[3, 3] = 0
quarter[1, 3], quarter[3, 1] = -1, 1
by_hand = to_sums @ quarter @ to_sums
print((2 * by_hand).round().int().numpy())
both = torch.block_diag(shift_matrix(2), shift_matrix(2))
agree("half a step of two rings", by_hand, roll_matrix(2, 0.5, nyquist="paired"))
agree("two halves", by_hand @ by_hand, both)
