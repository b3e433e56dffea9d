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
# {doc}`Ch. 6 <06-continuous>` rolls by real positions with Fourier transforms. Which numbers do the generator and the
# roll contain, are the formulas in the paper {cite}`rollpe` correct, and can a sparse matrix replace the generator? The
# entries are ratios of sines. The formulas of the paper have to number the waves from the middle instead of from 0. A
# sparse generator gives rotations, but not the roll. The last two sections are about lists of frequencies.

# %% tags=["parameters"]
n: int = 32  # channels on the ring [8..64]
position: float = 0.3  # steps to roll by, a fraction of one [0.1..0.9]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch

from rollpe.ring import continuous_roll, generator, roll_matrix, shift_matrix
from rollpe_book import figures
from rollpe_book.agree import agree, differs, gap, holds
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(seed)
exp, power = torch.matrix_exp, torch.linalg.matrix_power

# %% [markdown]
# ## The entries
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


# %%
widths = (1, 2, 7, n, n + 1)
entries = [closed(m) for m in widths]
agree("eq-generator-closed", [generator(m) for m in widths], entries)

# %% [markdown]
# For odd $n$ the entries of the roll are the Dirichlet kernel of signal processing:
#
# $$
# S(p)_{jl} = \frac{\sin \pi t}{n \sin(\pi t / n)}, \qquad t = \frac{p}{\lambda} + j - l
# $$ (eq-kernel-odd)
#
# At integer steps it is a permutation. Between the steps the weights alternate in sign and fall off like one over the
# distance. For even $n$ and a Nyquist mode that shrinks by a cosine,
#
# $$
# \begin{gathered} S_{\cos}(p)_{jl} = \frac{1}{n} \sin \pi t \, \cot \frac{\pi t}{n}, \\
# t = \frac{p}{\lambda} + j - l \end{gathered}
# $$ (eq-kernel-cosine)


# %%
def kernel(p, n):
    """At positions p in wavelengths: [P, n, n]."""
    i = torch.arange(n)
    t = math.pi * (p[:, None, None] + i[:, None] - i)
    return torch.sin(t) / torch.sin(t / n) * torch.cos(t / n) ** (1 - n % 2) / n


# %%
λ, p = 2.5, torch.tensor([position, position - 7, 12.4])
odd, even = n - 1 + n % 2, n + n % 2  # widths
agree("eq-kernel-odd", roll_matrix(odd, p, λ), kernel(p / λ, odd))
agree("eq-kernel-cosine", roll_matrix(even, p, λ, "cosine"), kernel(p / λ, even))

# %% [markdown]
# Two more treatments of even rings in {doc}`Ch. 6 <06-continuous>` have formulas. *Paired* rolls two rings together. Their
# two Nyquist modes turn into each other, so the roll of both rings has a real logarithm:
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
A, S, x = generator(even), shift_matrix(even), torch.randn(3, 2 * even)
nu = (-1.0) ** torch.arange(even) / math.sqrt(even)
quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]])  # turns the two rings into each other
both = torch.block_diag(A, A) + math.pi * torch.kron(quarter, torch.outer(nu, nu))
rolled, back = torch.block_diag(S, S), continuous_roll(x, -1.0, nyquist="paired")
found = [generator(even, "paired"), exp(both), back]
agree("eq-nyquist-paired", found, [both, rolled, x @ rolled], 1e-10)

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
# The matrices $\Pi$ project onto waves. The first extra term adds a whole turn to each wave that should run backward, the
# second, for even $n$, half a turn to the Nyquist mode. At integer steps this gives the roll, but between the steps the
# query becomes complex. The paper's Eq. 7 has the same error: at half a step only the mean remains in the real part.
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

# %% [markdown]
# Numbering from the middle repairs both formulas.
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

i, one, S = torch.arange(n), torch.eye(n), shift_matrix(n)
D, speeds = (one[(i + 1) % n] - one[i - 1]) / 2, torch.sin(2 * math.pi * k / n)
agree("eq-stencil", [stencil(n), (S - S.T) / 2], [D, D])
agree("eq-stencil-spectrum", F.mH @ torch.diag(1j * speeds) @ F, D + 0j)
agree("eq-stencil-spectrum", stencil_roll(n, n / 4), exp(n / 4 * D))
differs("eq-stencil-spectrum", exp(D), S, 0.3)

# %%
w = 2 * math.pi * torch.arange((n + 1) // 2) / n  # of every mode
x = torch.cos(w * i[:, None] + 0.3)
slower = ((generator(n) - D) @ x).norm(dim=0) / x.norm(dim=0)
agree("eq-stencil-limit", slower, w - torch.sin(w))
holds("eq-stencil-limit", slower <= w**3 / 6 + 1e-12)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-dispersion", "caption": "The generator against the local stencil. Top: how fast each wave turns. Bottom: a narrow bump, before and after half a turn of the ring."}, "image": {"alt": "Top: speed against frequency, a straight line for the generator and an arch for the stencil, which falls back to zero. Bottom: signal against channel, a narrow bump, the same bump elsewhere after the roll, and ripples after the stencil."}}
steps, source = n // 2, (3 * n) // 4
bump = torch.exp(6 * (torch.cos(2 * math.pi * (i - source) / n) - 1) * (n / 16) ** 2)
fig, (top, bottom) = plt.subplots(2, 1, figsize=(5.0, 5.6))
omega = torch.linspace(0, math.pi, 200)
top.plot(omega, omega, color=figures.BLUE, label="generator")
top.plot(omega, omega.sin(), color=figures.VERMILION, label="stencil")
top.annotate(
    "generator",
    (1.9, 1.9),
    (-6, 4),
    textcoords="offset points",
    color=figures.BLUE,
    ha="right",
    fontsize=9,
)
top.annotate(
    "stencil",
    (2.3, math.sin(2.3)),
    (0, -26),
    textcoords="offset points",
    color=figures.VERMILION,
    ha="center",
    fontsize=9,
)
top.set(
    xlabel="frequency (radians per channel)",
    ylabel="turn (radians per step)",
    title="speed of each wave",
)
top.set(
    xticks=[0, math.pi / 2, math.pi],
    xticklabels=["0", "π/2", "π"],
    yticks=[0, math.pi / 2, math.pi],
    yticklabels=["0", "π/2", "π"],
)
bottom.plot(i, bump, color=figures.MUTED, linewidth=1.2, label="before")
bottom.plot(i, roll_matrix(n, steps) @ bump, color=figures.BLUE, label="roll")
bottom.plot(i, stencil_roll(n, steps) @ bump, color=figures.VERMILION, label="stencil")
bottom.annotate(
    "before",
    (source, 1),
    (0, 3),
    textcoords="offset points",
    color=figures.MUTED,
    ha="center",
    fontsize=9,
)
bottom.annotate(
    "roll",
    (source - steps, 1),
    (0, 3),
    textcoords="offset points",
    color=figures.BLUE,
    ha="center",
    fontsize=9,
)
bottom.annotate(
    "stencil",
    (0.5, 0.05),
    xycoords="axes fraction",
    color=figures.VERMILION,
    ha="center",
    fontsize=9,
)
bottom.set(
    xlabel="channel",
    ylabel="value",
    title=f"a bump after {steps} steps",
    ylim=(-0.62, 1.15),
)
plt.close(fig)
fig

# %% [markdown]
# Short waves turn too slowly, so a pattern made of many waves falls apart (dispersion). In {numref}`fig-dispersion` the
# roll moves the bump unchanged. The stencil turns it into ripples: the long waves have arrived, the short ones have not.
#
# ## The wavelength in the paper
#
# The paper remarks that one wavelength makes the frequencies of RollPE and RoPE look similar:
#
# $$
# \begin{gathered} \lambda = -\frac{\pi}{\ln 10000} \quad \Longrightarrow \\
# \frac{2\pi k}{\lambda n} = \ln\!\left( 10000^{-2k/n} \right) \end{gathered}
# $$ (eq-lambda)
#
# The algebra is correct, but equates a frequency of RollPE with the *logarithm* of a frequency of RoPE. The wavelength is
# about a third of a position per step, so most waves rotate by more than half a circle from one patch to the next. At
# integer positions such a wave looks like a slower one (aliasing):
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


# %%
fast = omega.abs() > math.pi
holds("eq-lambda-aliased", fast == (k > math.pi * 32 / (2 * math.log(10000))))
holds("eq-lambda-aliased", k[fast] == torch.arange(6, 16))
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
# keys of independent standard normal numbers. Random scores at $n$ neighboring offsets are thus uncorrelated for the
# angles of the plain ring and, for even $n$, of the twisted one. (The traces are power sums of the eigenvalues. If $n -
# 1$ of them are zero, Newton's identities leave $\lambda^n = c$, and a real orthogonal $W$ has $c = \pm 1$.)

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
