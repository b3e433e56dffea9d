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
# # Between the steps
#
# A film shows a wagon wheel frame by frame, and between two frames you must guess how it turned. RollPE
# ({doc}`04-rolling`) is such a film: a token at patch 3 rolls its query by three channels, one at patch 4 by four.
# What about patch 3½? Points in a cloud lie anywhere, and a larger image has patches between those of training.
#
# The eye guesses that a wheel has turned the shorter way, and so can we: take the query apart into waves around the
# ring, and turn each wave the shorter way. With an odd number of channels that works at any position. With an even
# number, one wave turns by exactly half a turn in a step, and neither way is shorter. The paper {cite}`rollpe` turns
# every wave forward and misses the exception.

# %% tags=["parameters"]
n: int = 32  # channels on the ring [3..256]
nyquist: str = "fixed"  # for the mode that cannot be halved {nyquist}
position: float = 0.5  # steps to roll by, a fraction of one [0.1..0.9]
wavelength: float = 2.5  # positions to one step, λ [0.5..100]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.linalg import logm
from scipy.special import jv

from rollpe.operators import (
    circulant,
    continuous_roll,
    generator,
    generator_closed_form,
    mode_numbers,
    paper_generator,
    paper_roll_matrix,
    roll,
    roll_kernel,
    roll_matrix,
    shift_matrix,
    stencil,
    stencil_roll,
)
from rollpe_book import figures
from rollpe_book.agree import agree, gap

figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(seed)
np.set_printoptions(precision=4, suppress=True)
exp = torch.matrix_exp

# %% [markdown]
# ## The shorter way
#
# Any vector on the ring is a sum of waves, or modes, that go around it a whole number of times. The Fourier matrix
# finds them (the star is the conjugate transpose):
#
# $$
# F_{kj} = \tfrac{1}{\sqrt{n}} \, e^{-2\pi \mathrm{i} kj/n}, \qquad F^* F = I
# $$ (eq-dft)
#
# One step changes only the phase of each wave, so in the Fourier basis it multiplies each coefficient by a number on
# the unit circle (the paper's Eq. 13):
#
# $$
# S = F^* \operatorname{diag}\bigl( e^{2\pi \mathrm{i} k/n} \bigr)_{k=0}^{n-1} F
# $$ (eq-diagonal)
#
# Each wave is a wheel, and each step is a frame. The frame shows where wheel $k$ has arrived, but not whether it turned
# by $2\pi k/n$ forward or by $2\pi (n-k)/n$ backward. Take the shorter way, and for half a step halve its angle:

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-eigenvalues", "caption": "The waves of a ring as wheels. Each dot shows how far one has turned; lines join partners. Left: after one step. Right: after half a step, each the shorter way; the Nyquist mode of an even ring could go either way."}, "image": {"alt": "Two unit circles with dots, joined in pairs by vertical lines. On the left the dots are spread over the whole circle, for an even ring with a single red dot at minus one. On the right they lie on the right half, for an even ring with red rings at plus and minus i, marked with question marks."}}
ring = n if n <= 14 else 12 + n % 2  # few enough to see
modes = mode_numbers(ring).numpy()
alone = modes == ring / 2  # the Nyquist mode


def draw_wheels(ax, title):
    """A unit circle without axes."""
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.7))
    ax.axhline(0, color=figures.MUTED, linewidth=0.5)
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])
    ax.set(xlim=(-1.9, 1.2), ylim=(-1.2, 1.2))
    ax.spines[:].set_visible(False)


fig, axes = plt.subplots(1, 2, figsize=(6.4, 3.0))
for ax, p, title in zip(axes, (1, 0.5), ("one step", "half a step"), strict=True):
    draw_wheels(ax, f"{title}, {ring} channels")
    z = np.exp(2j * np.pi * p * modes / ring)
    x, y = z.real[~alone], z.imag[~alone]
    ax.vlines(x, -abs(y), abs(y), color=figures.BLUE, alpha=0.35, linewidth=1)
    ax.plot(x, y, "o", color=figures.BLUE, markersize=6, label="modes")
    for place in z[alone] if p == 1 else [*z[alone], *z[alone].conj()]:
        ax.plot(
            place.real,
            place.imag,
            "o",
            color=figures.VERMILION,
            markersize=7,
            fillstyle="full" if p == 1 else "none",
            label="Nyquist mode",
        )
        x, y, word = (
            (-1.5, 0.1, "Nyquist") if p == 1 else (-0.5, 0.6 * place.imag, "Nyquist?")
        )
        ax.text(x, y, word, ha="center", va="center", fontsize=9)
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-eigenvalues`, partners $k$ and $n-k$ turn in opposite directions. They have to, as the two halves
# of a real wave: a matrix that multiplies modes by factors is real only if partners have conjugate factors. So count
# the modes from the middle. Their angles in one step make up the *generator* of the roll:
#
# $$
# \begin{gathered} \mathcal{A} = F^* \operatorname{diag}\!\left( \tfrac{2\pi \mathrm{i}\, m}{n} \right) F, \\
# m = -\lfloor \tfrac{n-1}{2} \rfloor, \dots, \lfloor \tfrac{n-1}{2} \rfloor \\
# (\text{and } 0 \text{ in place of } \tfrac{n}{2}) \end{gathered}
# $$ (eq-generator)
#
# On an even ring, mode $n/2$ is its own partner. This *Nyquist mode*, $+1, -1, +1, \dots$, does not move here; the
# alternatives follow {eq}`eq-nyquist-fixed`.
#
# To roll by any number of steps, multiply all angles by it. This is the exponential of the paper's Eq. 5, with
# $\lambda$ positions to a step:
#
# $$
# \mathrm{Roll}_p(q) = \exp\!\left( \frac{p}{\lambda} \mathcal{A} \right) q
# $$ (eq-continuous-roll)
#
# ($\lambda$ stretches positions. It is not the wavelength of a wave: the longest wave on the ring is $\lambda n$
# positions long.) In the Fourier basis the exponential is taken entry by entry. Write $S(p)$ for its matrix:
#
# $$
# \begin{gathered} \mathcal{A} = U \Lambda U^\dagger, \qquad U = F^*, \quad \Lambda \text{ imaginary}, \\
# \exp\!\left( \tfrac{p}{\lambda} \mathcal{A} \right) = U \exp\!\left( \tfrac{p}{\lambda} \Lambda \right) U^\dagger \end{gathered}
# $$ (eq-eigen)
#
# $$
# S(p) = F^* \operatorname{diag}\!\left( e^{2\pi \mathrm{i}\, p m / (\lambda n)} \right) F
# $$ (eq-spectral)
#
# So a real wave slides and keeps its shape, the traveling wave of the paper's title, now at any position:
#
# $$
# \begin{gathered} x_i = \cos\!\left( \tfrac{2\pi m}{n} i + \varphi \right), \quad |m| < \tfrac n2 \\
# \Longrightarrow \quad \mathrm{Roll}_p(x)_i = \cos\!\left( \tfrac{2\pi m}{n} \left( i + \tfrac{p}{\lambda} \right) + \varphi \right) \end{gathered}
# $$ (eq-traveling-wave)

# %%
q, A, i, m = torch.randn(n), generator(n), torch.arange(n), (n - 1) // 2
steps = position / wavelength
S = roll_matrix(n, position, wavelength)
agree("exp(pA/λ) is the spectral form", exp(steps * A), S)
rolled = continuous_roll(q, position, wavelength)
agree("the fast function agrees", rolled, exp(steps * A) @ q)
w = 2 * math.pi * m / n
wave, moved = torch.cos(w * i + 1), torch.cos(w * (i + steps) + 1)
rolled = continuous_roll(wave, position, wavelength)
agree("a wave travels", rolled, moved, tolerance=1e-11)

# %% [markdown]
# ## Half a step, by hand
#
# With three channels, one step sends $(x, y, z)$ to $(y, z, x)$. In space this is a rotation by a third of a circle
# around the diagonal $x = y = z$. Half a step turns by a sixth.

# %%
half = roll_matrix(3, 0.5)
print("three times half a step:")
print((3 * half).round().int().numpy())
print("half a step, twice:")
print((half @ half).round().int().numpy())
agree("two halves are a step", half @ half, shift_matrix(3))

# %% [markdown]
# Check the first row yourself. Without the factor $\tfrac13$ it is $(2, 2, -1)$. Times the second column it gives
# $4 + 4 + 1 = 9$, times the others $0$: over nine, the first row of the roll. Half a step mixes all channels, one with
# a minus sign, but it is real, keeps lengths, and two of them make one roll.
#
# ## The velocity of the roll
#
# Let the position grow like time. How fast does a vector on three channels move, and in which direction?

# %%
x = torch.tensor([1.0, 0.0, 0.0])
for h in (0.5, 0.1, 0.001):
    velocity = (roll_matrix(3, h) @ x - x) / h
    print(f"(S({h}) x − x) / {h} =".rjust(26), velocity.numpy())
A = generator(3)
print("A x =".rjust(26), (A @ x).numpy())
print("A is 2π/(3√3) times")
print((A * 3 * 3**0.5 / (2 * math.pi)).round().int().numpy())

# %% [markdown]
# The velocity at $x$ is $\mathcal{A}x$, because $\exp(p\mathcal{A})$ is the limit of many small steps
# $(I + \tfrac{p}{N}\mathcal{A})^N$. So a small change of the position, or of a trained $\lambda$, changes the query by
#
# $$
# \begin{aligned} \frac{\partial}{\partial p} \mathrm{Roll}_p(q) &= \frac{1}{\lambda} \, \mathcal{A} \, \mathrm{Roll}_p(q), \\
# \frac{\partial}{\partial \lambda} \mathrm{Roll}_p(q) &= -\frac{p}{\lambda^2} \, \mathcal{A} \, \mathrm{Roll}_p(q) \end{aligned}
# $$ (eq-transport)
#
# A vector that turns keeps its length, so its velocity is at right angles to it: $x^\top \mathcal{A} x = 0$ for every
# $x$. Hence $\mathcal{A}$ is skew-symmetric:
#
# $$
# \mathcal{A}^\top = -\mathcal{A} \in \mathbb{R}^{n \times n}
# $$ (eq-skew)
#
# The velocities of all rotations are the Lie algebra $\mathfrak{so}(n)$. For odd $n$ the generator is the logarithm of
# the paper's Eq. 4:
#
# $$
# \mathcal{A} = \log S, \qquad S = \exp(\mathcal{A}) \qquad (n \text{ odd})
# $$ (eq-log)

# %%
odd = n if n % 2 else n - 1
A = generator(odd)
agree("log S", A, logm(shift_matrix(odd).numpy()).real)
agree("exp A = S", exp(A), shift_matrix(odd))
agree("skew-symmetric", A.T, -A)

# %% [markdown]
# Rolls add up as before, and the transpose rolls back, so the score is still relative:
#
# $$
# \begin{gathered} S(p)\, S(p') = S(p + p'), \\
# S(p)^\top = S(-p) = S(p)^{-1} \end{gathered}
# $$ (eq-group)
#
# $$
# \mathrm{Roll}_{p_q}(q)^\top \, \mathrm{Roll}_{p_k}(k) = q^\top S(p_k - p_q) \, k
# $$ (eq-continuous-score)

# %%
q, k = torch.randn(2, odd)
rolled_q = continuous_roll(q, position, wavelength)
rolled_k = continuous_roll(k, 7.3, wavelength)
S = roll_matrix(odd, 7.3 - position, wavelength)
agree("score at real positions", rolled_q @ rolled_k, q @ S @ k)
back = roll_matrix(odd, -position) @ roll_matrix(odd, position)
agree("there and back", back, torch.eye(odd))

# %% [markdown]
# ## Without a transform
#
# Summing the waves of {eq}`eq-generator` gives the differentiation matrix of spectral methods
# {cite}`trefethen2000spectral,weideman2000matlab`:
#
# $$
# \begin{gathered} \mathcal{A}_{jl} = \frac{\pi}{n} (-1)^{j-l} \times \begin{cases} 1 / \sin \frac{\pi (j-l)}{n} & n \text{ odd} \\[2pt] \cot \frac{\pi (j-l)}{n} & n \text{ even} \end{cases} \\
# (j \neq l) \end{gathered}
# $$ (eq-generator-closed)
#
# For odd $n$ the roll is the Dirichlet kernel of signal processing:
#
# $$
# S(p)_{jl} = \frac{\sin \pi t}{n \sin(\pi t / n)}, \qquad t = \frac{p}{\lambda} + j - l
# $$ (eq-kernel-odd)
#
# At whole steps the numerator is zero, and where the denominator is zero, too, the quotient tends to 1: the permutation
# is back. Between the steps all channels mix, with weights that alternate in sign and fall off like one over the
# distance.
#
# As a picture: draw the smoothest curve through the channels, without waves shorter than two channels. To roll, slide
# the curve and sample it at the channels again. The generator is its slope:
#
# $$
# \begin{gathered} (\mathcal{A} x)_i = \dot x(i) \quad \text{if } x_i = x(i), \\
# x(s) = \sum_{|m| < n/2} c_m \, e^{2\pi \mathrm{i} m s/n} \end{gathered}
# $$ (eq-derivative)

# %%
agree("closed form of A", generator_closed_form(n), generator(n))
kernel = circulant(roll_kernel(odd, position))
agree("Dirichlet kernel", kernel, exp(position * generator(odd)))
slope = -w * torch.sin(w * i)
agree("A is the slope", generator(n) @ torch.cos(w * i), slope, tolerance=1e-11)


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-between-channels", "caption": "A roll by a fraction of a step. Left: the smoothest curve through the channels (full dots), slid and sampled again (open dots). Right: a single channel, rolled likewise: the kernel of the roll."}, "image": {"alt": "Signal against channel. On the left full dots lie on a smooth curve, open dots on the same curve moved a little to the left. On the right a full dot is at one; open dots spread over its neighbors, with ripples of alternating sign that die away."}}
def curve(s):
    """A smooth signal at the real place s on the ring: waves below the Nyquist mode."""
    waves = range(1, min(6, (n - 1) // 2) + 1)
    return sum(np.cos(2 * np.pi * m * s / n + 2.4 * m * m) / m**0.5 for m in waves)


def rolled(x):
    """x rolled by `position`, on the first of two rings if the treatment needs two."""
    treatment = nyquist if n % 2 == 0 else "fixed"
    empty = torch.zeros(n if treatment == "paired" else 0)
    return continuous_roll(torch.cat((x, empty)), position, nyquist=treatment)[
        :n
    ].numpy()


fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0))
channels = np.arange(min(n, 17))
fine = np.linspace(0, channels[-1], 400)
samples = torch.from_numpy(curve(np.arange(n)))
left.plot(fine, curve(fine), color=figures.BLUE, linewidth=1.2, label="curve")
left.plot(
    fine,
    curve(fine + position),
    color=figures.VERMILION,
    linewidth=1.2,
    label="slid curve",
)
left.plot(
    channels,
    samples[: len(channels)],
    "o",
    color=figures.BLUE,
    markersize=4.5,
    label="before",
)
after = rolled(samples)[: len(channels)]
left.plot(
    channels,
    after,
    "o",
    color=figures.VERMILION,
    markersize=4.5,
    fillstyle="none",
    label="rolled",
)
left.set(title="slide the curve, sample it again", xlabel="channel", ylabel="value")
impulse = torch.eye(n)[n // 2]
right.axhline(0, color=figures.MUTED, linewidth=0.6)
right.vlines(i, 0, rolled(impulse), color=figures.VERMILION, alpha=0.4, linewidth=1)
right.plot(i, impulse, "o", color=figures.BLUE, markersize=4, label="before")
right.plot(
    i,
    rolled(impulse),
    "o",
    color=figures.VERMILION,
    markersize=4,
    fillstyle="none",
    label="rolled",
)
right.set(title="one channel, rolled", xlabel="channel", ylim=(-0.4, 1.1))
note = f"rolled by {position:g}" + ("" if n % 2 else f",\nnyquist = {nyquist}")
right.annotate(
    note, (0.02, 0.8), xycoords="axes fraction", color=figures.VERMILION, fontsize=9
)
right.annotate(
    "before",
    (n // 2, 1),
    (7, 0),
    textcoords="offset points",
    color=figures.BLUE,
    fontsize=9,
    va="center",
)
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-between-channels`, on the right, a single channel spreads between the steps. On an odd ring it is a
# single channel again after a whole step. On an even ring one wave stays behind.
#
# ## Where the paper is wrong
#
# ### Even rings have no real logarithm
#
# The paper says (Eq. 4) that $\log S$ is always real and skew-symmetric, because $S$ is orthogonal. But orthogonal
# matrices with determinant $-1$ are no rotations: they contain a mirror. On two channels, one step sends $(x, y)$ to
# $(y, x)$, a mirror, and however far you turn the plane, left and right do not change places. A mirror has no half, and
# every even ring contains one.
#
# ```{prf:proposition} No logarithm for even rings
# :label: prop-no-real-log
# For even $n$ there is no real matrix whose exponential is $S$.
# ```
#
# ```{prf:proof}
# The exponential of a real matrix has a positive determinant. To move $n$ entries on by one place takes
# $n - 1$ exchanges of neighbors, and each exchange changes the sign of the determinant. So for even $n$ the
# determinant of $S$ is negative.
# ```
#
# $$
# \det S = (-1)^{n-1}
# $$ (eq-determinant)
#
# $$
# \begin{aligned} \det e^{B} = e^{\operatorname{tr} B} &> 0 \ \text{ for every real } B, \\
# \det S = -1 &< 0 \ \text{ for even } n \end{aligned}
# $$ (eq-no-real-log)

# %%
for width in (2, 3, 4, 31, 32):
    S = shift_matrix(width)
    log = logm(S.numpy())  # the principal one: angles from −π to π
    print(
        f"{width:2} channels: det S = {S.det().item():+.0f}, "
        f"largest imaginary part of log S = {abs(np.imag(log)).max():.3f}"
    )
    assert (abs(np.imag(log)).max() < 1e-8) == (width % 2 == 1)

# %% [markdown]
# So Eq. 4 is right for odd $n$ and wrong for even $n$, such as the 16, 32 or 64 channels that networks use. The Nyquist
# mode is to blame, the only one that a step turns into its negative. To get from $+1$ to $-1$ at constant length, a
# number has to leave the real line, and no second such mode lends it a dimension. (In general, a
# real logarithm exists if and only if each Jordan block of a negative eigenvalue occurs an even number of times
# {cite}`culver1966existence`.)
#
# ### Modes counted from 0
#
# The paper's Eq. 14 counts $k = 0, \dots, n-1$ and so turns every wheel forward. The result is a logarithm of $S$, too,
# but a complex one:
#
# $$
# \begin{aligned} & F^* \operatorname{diag}\!\left( \tfrac{2\pi \mathrm{i} k}{n} \right)_{k=0}^{n-1} F \\
# & \quad = \mathcal{A} + 2\pi \mathrm{i}\, \Pi_{-} + \mathrm{i}\pi\, \Pi_{n/2} \;\notin\; \mathbb{R}^{n \times n}, \\
# & \Pi_- = \textstyle\sum_{m<0} F^* e_m e_m^* F \end{aligned}
# $$ (eq-generator-printed)
#
# Here the $\Pi$ pick out modes. The first extra term adds a whole turn to each mode that should run backward, the
# second, for even $n$, half a turn to the Nyquist mode. At whole positions the one changes nothing, and the other gives
# this mode the sign that it has in the roll. Between the steps the query becomes complex. The paper's Eq. 7 has the same
# fault: at half a step partners cancel in the real part, and only the mean survives.
#
# $$
# \begin{gathered} \operatorname{Re} \left( F^* \operatorname{diag}\bigl( e^{2\pi \mathrm{i}\, p k / (\lambda n)} \bigr)_{k=0}^{n-1} F \, q \right) = \bar q \, \mathbf{1} \\
# \text{at } p = \tfrac{\lambda}{2}, \qquad \bar q = \tfrac1n \textstyle\sum_i q_i \end{gathered}
# $$ (eq-spectral-printed)

# %%
queries = torch.randn(n, 1000)
printed = exp(paper_generator(n))
agree("Eq. 14 as printed: exp gives S", printed, shift_matrix(n))
apart = gap(printed.real, exp(generator(n)))
print(f"{n} channels, one step: it differs from the real generator's by {apart:.4f}")
assert abs(apart - (0 if n % 2 else 2 / n)) < 1e-10
moved = paper_roll_matrix(n, wavelength / 2, wavelength) @ (queries + 0j)
agree("what is real is the mean", moved.real, queries.mean(dim=0).expand(n, -1))

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-counted-from-zero", "caption": "Modes counted from 0, as printed. Left: after half a step no wave has a partner. Right: the imaginary share of a random query's length."}, "image": {"alt": "Left: a unit circle with all dots on its upper half. Right: share against position; the printed formula rises from zero to almost one at half a step and falls back to zero, modes counted from the middle stay at zero."}}
fig, (left, right) = plt.subplots(1, 2, figsize=(6.8, 3.0), width_ratios=(1, 1.3))
draw_wheels(left, f"half a step as printed, {ring} channels")
z = np.exp(1j * np.pi * np.arange(ring) / ring)
left.plot(z.real, z.imag, "o", color=figures.VERMILION, markersize=6, label="modes")
fine = np.linspace(0, 1, 41)
moved = [paper_roll_matrix(n, p) @ (queries + 0j) for p in fine]
share = [(z.imag.norm(dim=0) / z.norm(dim=0)).mean() for z in moved]
right.plot(fine, share, color=figures.VERMILION, label="as printed")
right.plot(fine, 0 * fine, color=figures.BLUE, label="from the middle")
right.text(0.5, 0.06, "counted from the middle", color=figures.BLUE, ha="center")
right.text(0.5, 0.8, "as printed", color=figures.VERMILION, ha="center")
right.set(xlabel="position (steps)", ylabel="imaginary share", ylim=(-0.03, 1.05))
plt.close(fig)
fig

# %% [markdown]
# Counting from the middle repairs both formulas. The $U^\top$ after the paper's Eq. 6 has to be the conjugate transpose
# $U^\dagger$ of {eq}`eq-eigen`, because $U$ is complex.
#
# ## Even rings: five ways out
#
# The library has five treatments of the Nyquist mode. *Fixed* does not move it. Then $S(p)$ is a group of rotations, but
# not the roll on this one mode:
#
# $$
# \begin{gathered} S(\lambda p) = S^p + \bigl( 1 - (-1)^p \bigr) \, \nu \nu^\top, \\
# \nu_i = \tfrac{(-1)^i}{\sqrt n}, \quad p \in \mathbb{Z},\ n \text{ even} \end{gathered}
# $$ (eq-nyquist-fixed)
#
# $$
# \begin{aligned} S(p)_{jl} = \frac{1}{n} \Bigl( & \sin \pi t \, \cot \frac{\pi t}{n} \\
# & - \cos \pi t + (-1)^{j-l} \Bigr), \\
# t = \frac{p}{\lambda} & + j - l \end{aligned}
# $$ (eq-kernel-even)
#
# *Cosine*, from trigonometric interpolation {cite}`trefethen2000spectral`, multiplies it by $\cos(\pi p/\lambda)$. The
# roll is exact at whole steps. In between the mode shrinks, to nothing at half a step, and two halves no longer make a
# whole:
#
# $$
# \begin{gathered} S_{\cos}(p) = S(p) - \bigl( 1 - \cos \tfrac{\pi p}{\lambda} \bigr) \, \nu \nu^\top, \\
# S_{\cos}(\lambda) = S, \qquad S_{\cos}(\tfrac{\lambda}{2})^2 \neq S \end{gathered}
# $$ (eq-nyquist-cosine)
#
# $$
# \begin{gathered} S_{\cos}(p)_{jl} = \frac{1}{n} \sin \pi t \, \cot \frac{\pi t}{n}, \\
# t = \frac{p}{\lambda} + j - l \end{gathered}
# $$ (eq-kernel-cosine)
#
# *Paired* lends it a dimension. Two rings have two Nyquist modes, which can turn into each other, so the roll of *both*
# rings has a real logarithm:
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
#
# *Twist* gets rid of the mode. On this ring a channel that goes around comes back with its sign reversed. Its modes are
# $m = \pm\tfrac12, \pm\tfrac32, \dots$, all of them in pairs, so its step has a real logarithm at every width. The next
# page shows that it is RoPE ({doc}`05-rope`).
#
# What each of them keeps:

# %% tags=["hide-input"]
even = n + n % 2
one = torch.ones(1, 1)
S = shift_matrix(even)
whole_step = {
    "fixed": S,
    "cosine": S,
    "paired": torch.block_diag(S, S),
    "odd": torch.block_diag(shift_matrix(even - 1), one),
    "twist": S,
}
found = {}
for treatment, step in whole_step.items():
    h, S = (roll_matrix(even, p, nyquist=treatment) for p in (0.5, 1))
    identity = torch.eye(len(S))
    found[treatment] = gap(S, step), gap(h @ h, S), gap(h.T @ h, identity)

columns = "S(1) is a roll", "S(½)² is S(1)", "length kept"
print(f"ring of {even}".ljust(24), *(c.rjust(15) for c in columns))
for treatment, errors in found.items():
    words = [f"off by {e:.4f}" if e > 1e-10 else "yes" for e in errors]
    size = f"{treatment:8} ({len(whole_step[treatment])} channels)"
    print(size.ljust(24), *(word.rjust(15) for word in words))
    kept = [word == "yes" for word in words]
    a_roll = treatment not in ("fixed", "twist")
    assert kept == [a_roll] + 2 * [treatment != "cosine"]

# %% [markdown]
# None is free: *fixed* misses one mode, *cosine* loses lengths and relativity between the steps, *paired* needs two
# rings, *odd* leaves one channel out, and *twist* is a roll of another ring, off by the sign of one entry. The default is
# *fixed*, which stays closest to the roll of all groups of rotations on one ring. So for even $n$ the encodings
# `continuous-roll` and `roll` differ even at integer positions. Who does not need the paper's roll takes the twist: integer
# positions with `twisted-roll` and real ones with `continuous-roll(nyquist="twist")` are one encoding.
#
# {numref}`wave-continuous` shows them beside the odd ring with one channel less.
#
# ```{wave} continuous
# :name: wave-continuous
# One channel, moved by $p$, on an odd and an even ring. Open circles: the roll at the nearest whole position. The dial is the Nyquist mode of the even ring.
# ```
#
# With the treatment chosen above, move query and key by the same amount:

# %%
channels = len(roll_matrix(n, 0.0, nyquist=nyquist))
q, k = torch.randn(2, channels)
relative = n % 2 == 1 or nyquist != "cosine"
if n % 2:
    print(f"A ring of {n} has no Nyquist mode: nyquist = {nyquist} changes nothing.")


def score(walk: float):
    """A query at `position` and a key at 2, both moved on."""
    rolled_q = continuous_roll(q, position + walk, nyquist=nyquist)
    rolled_k = continuous_roll(k, 2 + walk, nyquist=nyquist)
    return rolled_q @ rolled_k


for walk in (1.0, 0.25):
    if relative:
        agree(f"both walk on by {walk:g}", score(walk), score(0))
    else:
        change = gap(score(walk), score(0))
        print(f"both walk on by {walk:g}: the score moves by {change:.4f}")

# %% [markdown]
# ## The wavelength
#
# With $\lambda$ positions to a step, the ring is back at its start after $\lambda n$ positions:
#
# $$
# \begin{gathered} S(p + \lambda n) = S(p), \\
# S(p) \neq I \ \text{ for } 0 < p < \lambda n \quad (n \ge 3) \end{gathered}
# $$ (eq-period)
#
# So a long sequence fits on a short ring. But unless $1/\lambda$ is a whole number, the patches of an ordinary image
# then lie at fractions of a step, and all of this page applies to them.

# %%
again = roll_matrix(n, position + wavelength * n, wavelength)
S = roll_matrix(n, position, wavelength)
agree("the period", again, S)
print(f"λ = {wavelength:g}: a period of {wavelength * n:g} positions")
places = ", ".join(f"{p / wavelength:g}" for p in range(6))
print("patches 0 to 5 are at the steps", places)

# %% [markdown]
# ## A local stencil
#
# Appendix E of the paper compares the logarithm with "the tridiagonal matrix shown in the main text". The main
# text shows none. Probably the central difference is meant:
#
# $$
# \begin{gathered} D = \tfrac12 (S - S^\top), \\
# (D x)_i = \tfrac12 (x_{i+1} - x_{i-1}) \end{gathered}
# $$ (eq-stencil)
#
# It is sparse, real and skew-symmetric for every $n$, so it generates rotations, but not the roll: it turns the same
# waves at other speeds.
#
# $$
# D = F^* \operatorname{diag}\!\left( \mathrm{i} \sin \tfrac{2\pi k}{n} \right) F
# $$ (eq-stencil-spectrum)
#
# Long waves hardly differ, so in this sense both agree in the continuum limit, as the paper says:
#
# $$
# \begin{gathered} \frac{\|(\mathcal{A} - D)\, x\|}{\|x\|} = \omega_m - \sin \omega_m \le \frac{\omega_m^3}{6} \\
# \text{for a wave of mode } m,\ 0 \le m < \tfrac n2,\ \omega_m = \tfrac{2\pi m}{n} \end{gathered}
# $$ (eq-stencil-limit)
#
# Short waves lag behind, and a pattern made of many waves falls apart as it travels (dispersion). Put $z = S$ into the
# series that defines the Bessel functions, $e^{\frac p2 (z - 1/z)} = \sum_m J_m(p)\, z^m$:
#
# $$
# \begin{gathered} \exp(p D) = \sum_{m \in \mathbb{Z}} J_m(p) \, S^m, \\
# \exp(D) \neq S \end{gathered}
# $$ (eq-stencil-bessel)

# %%
p = n / 4
D, one = stencil(n), torch.eye(n)
terms = range(-2 * n - 20, 2 * n + 21)  # J_m(p) is tiny for |m| > 2p
bessel = sum(jv(m, p) * roll(one, m).T for m in terms)
agree("Bessel functions", exp(p * D), bessel)
agree("by its spectrum", exp(p * D), stencil_roll(n, p))
w = 2 * math.pi / n
x = torch.cos(w * i)
error = ((generator(n) - D) @ x).norm() / x.norm()
agree("the longest wave", error, w - math.sin(w))
far = gap(exp(D), shift_matrix(n))
print(f"one step, in the worst entry: exp(D) is {far:.2f} away from S")
assert far > 0.3

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
# {numref}`fig-dispersion` shows why the stencil is no roll. The roll moves the bump unchanged. The stencil turns it into
# ripples: the long waves have arrived, the short ones have not.
#
# ```{admonition} In short
# :class: tip
# If each wave turns the shorter way, a roll has a meaning at every real position. On an odd ring it is a rotation with a
# real skew-symmetric generator, {eq}`eq-generator`. An even ring has no real logarithm, {eq}`eq-no-real-log`, against the
# paper's Eq. 4. The fault lies in one mode, with five treatments. The paper's printed generator counts modes from 0 and
# makes queries complex between the steps. Counting from the middle repairs it.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-continuous-pair
# Two rings of two channels each, $(x, y)$ and $(u, v)$, are both rolled by one step. Find the half step by hand, as
# a real $4 \times 4$ matrix.
# ```
#
# ```{solution} exercise-continuous-pair
# :class: dropdown
# The sums $x + y$ and $u + v$ stay. The differences $x - y$ and $u - v$ change their signs, which in their plane is half
# a turn. Half of it is a quarter turn: $(x - y,\, u - v) \mapsto (-(u - v),\, x - y)$.
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

# %% [markdown]
# ```{exercise}
# :label: exercise-continuous-root
# On an odd ring, which *permutation* gives one step when done twice? Why is it not the half step we want?
# ```
#
# ```{solution} exercise-continuous-root
# :class: dropdown
# Roll by $(n+1)/2$ whole steps: twice that is $n + 1$, once around and one more. This is a square root of $S$, but
# it encodes a token at ½ as one at the far side of the ring. The roots of $S$ differ by half turns of single modes, and
# in $S(\tfrac12)$ every wave takes the shorter way.
# ```

# %% tags=["hide-cell"]
far = roll(torch.eye(odd), (odd + 1) // 2).T
S = shift_matrix(odd)
agree("a permutation, twice", far @ far, S)
for name, root in (("far", far), ("half", roll_matrix(odd, 0.5))):
    print(f"{name}: {(root - torch.eye(odd)).norm():.2f} away from the identity")
assert gap(far, torch.eye(odd)) > gap(roll_matrix(odd, 0.5), torch.eye(odd))

# %% [markdown]
# ```{exercise}
# :label: exercise-continuous-wavelength
# A row has 64 patches and the ring 31 channels. Choose $\lambda$ such that no two offsets, with
# their signs, give the same roll.
# ```
#
# ```{solution} exercise-continuous-wavelength
# :class: dropdown
# The 127 offsets from $-63$ to $63$ are told apart if the period $\lambda n$ is at least 127, so
# $\lambda \ge 127/31$. With $\lambda = 1$ the period would be 31.
# ```

# %% tags=["hide-cell"]
offsets = torch.arange(-63.0, 64.0)


def closest(stretch: float) -> float:
    """The smallest distance of the rolls by any two offsets."""
    rolls = roll_matrix(31, offsets, stretch).flatten(1)
    apart = torch.cdist(rolls, rolls)
    return apart.fill_diagonal_(torch.inf).min().item()


for stretch in (1.0, 126 / 31, 127 / 31):
    print(f"λ = {stretch:.3f}: the closest rolls are {closest(stretch):.3f} apart")
assert closest(126 / 31) < 1e-5 < 0.1 < closest(127 / 31)
