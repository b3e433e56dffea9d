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
# A token at patch 3 rolls its query three times. What does a token at 2½ do? The question is not idle. Points
# in a cloud lie anywhere, a larger image has patches between those of training, and a roll stretched by a
# wavelength falls between two channels at almost every patch. The paper answers with the logarithm of the
# roll. It says that this logarithm is always real and skew-symmetric (Eq. 4), and builds all that follows on
# it {cite}`rollpe`. Can a roll really be halved? On a ring of three channels, yes. On a ring of two, four or
# thirty-two, no. This page shows why, and what can be done about it.

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

from rollpe import figures
from rollpe.agree import agree, gap
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

figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(seed)
np.set_printoptions(precision=4, suppress=True)
exp = torch.matrix_exp

# %% [markdown]
# ## Half a step, by hand
#
# Start with three channels. One step sends $(x, y, z)$ to $(y, z, x)$. Seen in space this is a rotation: the
# diagonal $x = y = z$ stays where it is, and everything else turns around it by a third of a circle. So half a
# step should turn by a sixth.

# %%
half = roll_matrix(3, 0.5)
print("three times half a step:")
print((3 * half).round().int().numpy())
print("half a step, twice:")
print((half @ half).round().int().numpy())
agree("two halves are a step", half @ half, shift_matrix(3))

# %% [markdown]
# Check the first row yourself. Without the factor $\tfrac13$ it is $(2, 2, -1)$. Times the first column it
# gives $2 \cdot 2 + 2 \cdot (-1) + (-1) \cdot 2 = 0$, times the second $2 \cdot 2 + 2 \cdot 2 + (-1)(-1) = 9$,
# times the third $2 \cdot (-1) + 2 \cdot 2 + (-1) \cdot 2 = 0$. Over nine: $(0, 1, 0)$, the first row of the roll.
#
# Half a step is no longer a reordering. It mixes all three channels, one of them with a minus sign. But its
# entries are real, it keeps lengths, and two of it make one roll. That is all one can ask for.
#
# ## Two channels cannot be halved
#
# Now take two channels. One step sends $(x, y)$ to $(y, x)$. In the plane that is a mirror. Turn the plane as
# you like: after no time will left and right have changed places. A mirror has no half.
#
# Every even ring contains such a mirror.
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
# In formulas:
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
# The paper argues that $\log S$ lies in $\mathfrak{so}(n)$, the logarithms of rotations, because $S$ is
# orthogonal. Orthogonal matrices come in two kinds. Those with determinant $+1$ are rotations, and a rotation can be halved. Those with
# determinant $-1$ contain a mirror. For odd $n$ the roll is of the first kind and Eq. 4 is right. For even $n$
# it is of the second kind and Eq. 4 is wrong, and the widths that networks use, 16, 32 and 64, are even.
#
# Which part of the ring is to blame? A single pattern, the one that alternates: $+1, -1, +1, -1, \dots$ One step
# turns it into its own negative. It is the only pattern to which this happens, so $-1$ is a simple eigenvalue of
# $S$. To get from $+1$ to $-1$ without changing its length, a number has to leave the real line, and there is
# no second pattern of that kind that could lend it a dimension. (The general condition is known: an invertible real
# matrix has a real logarithm if each Jordan block of a negative eigenvalue occurs an even number of times, and only
# then {cite}`culver1966existence`.) The pattern is called the *Nyquist mode*, and we shall have to decide what to do
# with it. First, though, the odd rings, where nothing is in the way.
#
# ## The velocity of the roll
#
# Let the position grow slowly, as if it were time. On three channels every vector then moves on a circle around
# the diagonal. How fast is it, and in which direction?

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
# The velocity is a linear function of where the vector is, hence a matrix. This matrix is called the
# *generator* of the roll, and written $\mathcal{A}$. A point that always moves with the velocity
# $\mathcal{A}x$ of the place $x$ where it is follows the exponential: $\exp(p\mathcal{A})$ is the limit of many small
# steps $(I + \tfrac{p}{N}\mathcal{A})^N$. This is the paper's Eq. 5. The wavelength $\lambda$ sets how many positions
# make one step:
#
# $$
# \mathrm{Roll}_p(q) = \exp\!\left( \frac{p}{\lambda} \mathcal{A} \right) q
# $$ (eq-continuous-roll)
#
# ($\lambda$ is a stretch, and not the wavelength of any one wave: the longest wave on the ring is $\lambda n$ positions
# long.) What a small change of the position or of $\lambda$ does to the query follows:
#
# $$
# \begin{aligned} \frac{\partial}{\partial p} \mathrm{Roll}_p(q) &= \frac{1}{\lambda} \, \mathcal{A} \, \mathrm{Roll}_p(q), \\
# \frac{\partial}{\partial \lambda} \mathrm{Roll}_p(q) &= -\frac{p}{\lambda^2} \, \mathcal{A} \, \mathrm{Roll}_p(q) \end{aligned}
# $$ (eq-transport)
#
# The derivative by $\lambda$ is there because one can train the wavelength. A vector that turns keeps its length, so
# its velocity is at right angles to it, $x^\top \mathcal{A} x = 0$ for every $x$. That leaves only
#
# $$
# \mathcal{A}^\top = -\mathcal{A} \in \mathbb{R}^{n \times n}
# $$ (eq-skew)
#
# Such matrices are called skew-symmetric. All of them together, the velocities of all rotations, are what
# mathematicians call the Lie algebra $\mathfrak{so}(n)$. The name is grander than the thing. For odd $n$ the
# generator is the logarithm of the paper's Eq. 4:
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
# Write $S(p)$ for the matrix of the roll by $p$. Rolls add up as they did at whole positions, and the transpose
# rolls back. So nothing changes in the proof that made the score relative:
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
# ## Waves on the ring
#
# For three channels geometry gave us the generator. In general it comes from waves. Any vector on the ring is
# a sum of waves that go around it a whole number of times, and the Fourier matrix finds them. The star is the
# conjugate transpose:
#
# $$
# F_{kj} = \tfrac{1}{\sqrt{n}} \, e^{-2\pi \mathrm{i} kj/n}, \qquad F^* F = I
# $$ (eq-dft)
#
# A wave that is moved by one channel is the same wave with another phase. In the Fourier basis the roll
# therefore only multiplies each coefficient by a number on the unit circle (the paper's Eq. 13):
#
# $$
# S = F^* \operatorname{diag}\bigl( e^{2\pi \mathrm{i} k/n} \bigr)_{k=0}^{n-1} F
# $$ (eq-diagonal)
#
# To roll by half a step, halve each angle. But which angle? One step tells angles only up to whole turns. In
# old films a wagon wheel stands still or runs backward, because between two frames it has turned by almost one
# spoke, and the eye takes the shorter way. Here a whole step is one frame. An eigenvalue $e^{2\pi \mathrm{i} k/n}$
# may have come by the angle $2\pi k/n$ forward, or by $2\pi (n-k)/n$ backward.
#
# The paper's Eq. 14 counts $k = 0, \dots, n-1$ and so lets every wheel turn forward. That is a logarithm of $S$,
# too. But it is complex:
#
# $$
# \begin{aligned} & F^* \operatorname{diag}\!\left( \tfrac{2\pi \mathrm{i} k}{n} \right)_{k=0}^{n-1} F \\
# & \quad = \mathcal{A} + 2\pi \mathrm{i}\, \Pi_{-} + \mathrm{i}\pi\, \Pi_{n/2} \;\notin\; \mathbb{R}^{n \times n}, \\
# & \Pi_- = \textstyle\sum_{m<0} F^* e_m e_m^* F \end{aligned}
# $$ (eq-generator-printed)
#
# Here $\mathcal{A}$ is the real generator, still to come, and the $\Pi$ pick out modes. There are two extra terms.
# The first adds a whole turn to each mode that should run backward. At whole positions nobody sees a whole turn. The
# second, for even $n$, adds half a turn to the Nyquist mode. It is seen at odd positions, where it changes the sign
# of this mode, as the roll does, and as a real generator cannot do to one mode alone.
#
# Between the steps both are seen. A real wave has two halves, $k$ and $n-k$, which must turn in opposite directions.
# Here both turn forward. The paper's Eq. 7 has the same fault: at half a step the two halves of every wave cancel in
# the real part, and only the mean survives.
#
# $$
# \begin{gathered} \operatorname{Re} \left( F^* \operatorname{diag}\bigl( e^{2\pi \mathrm{i}\, p k / (\lambda n)} \bigr)_{k=0}^{n-1} F \, q \right) = \bar q \, \mathbf{1} \\
# \text{at } p = \tfrac{\lambda}{2}, \qquad \bar q = \tfrac1n \textstyle\sum_i q_i \end{gathered}
# $$ (eq-spectral-printed)

# %%
queries = torch.randn(n, 1000)
printed = exp(paper_generator(n))
agree("Eq. 14 as printed: exp gives S", printed, shift_matrix(n))
seen = gap(printed.real, exp(generator(n)))
print(f"{n} channels, one step: it differs from the real generator's by {seen:.4f}")
assert abs(seen - (0 if n % 2 else 2 / n)) < 1e-10
for p in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0):
    moved = paper_roll_matrix(n, p) @ (queries + 0j)
    share = (moved.imag.norm(dim=0) / moved.norm(dim=0)).mean()
    print(f"p = {p:.2f}: {share:4.0%} of a query is imaginary")
moved = paper_roll_matrix(n, wavelength / 2, wavelength) @ (queries + 0j)
agree("what is real is the mean", moved.real, queries.mean(dim=0).expand(n, -1))

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-eigenvalues", "caption": "The factors by which the modes of a ring are multiplied. Left: one whole step; conjugate partners are joined. Middle: half a step, with the modes counted from 0 as the paper prints it. Right: half a step, with the modes counted from the middle; the Nyquist mode of an even ring could go either way."}, "image": {"alt": "Three unit circles with dots. On the left the dots are spread evenly over the whole circle, and vertical lines join partners above and below; for an even ring a single red dot sits at minus one. In the middle all dots lie on the upper half of the circle and none has a partner. On the right the dots lie on the right half of the circle, joined in pairs again; for an even ring one red ring remains at plus i and one at minus i, marked with question marks."}}
ring = n if n <= 14 else 12 + n % 2  # few enough to see
modes, counted = mode_numbers(ring).numpy(), np.arange(ring)
alone = modes == ring / 2
panels = (
    (f"one step, {ring} channels", 1.0, modes),
    ("half a step, as printed", 0.5, counted),
    ("half a step, centered", 0.5, modes),
)
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.75))
for ax, (title, p, numbers) in zip(axes, panels, strict=True):
    z = np.exp(2j * np.pi * p * numbers / ring)
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.7))
    ax.axhline(0, color=figures.MUTED, linewidth=0.5)
    if title == "half a step, as printed":
        ax.plot(
            z.real, z.imag, "o", color=figures.VERMILION, markersize=6, label="modes"
        )
        ax.text(
            0,
            -0.45,
            "no partners:\nthe result\nis complex",
            ha="center",
            va="center",
            fontsize=9,
        )
    else:
        ax.vlines(
            z.real[~alone],
            -abs(z.imag[~alone]),
            abs(z.imag[~alone]),
            color=figures.BLUE,
            alpha=0.35,
            linewidth=1,
        )
        ax.plot(
            z.real[~alone],
            z.imag[~alone],
            "o",
            color=figures.BLUE,
            markersize=6,
            label="modes",
        )
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
            if p == 1:
                ax.text(-1.1, 0.1, "Nyquist", ha="right", fontsize=9)
            else:
                ax.text(
                    -0.3,
                    0.6 * place.imag,
                    "Nyquist?",
                    ha="center",
                    va="center",
                    fontsize=9,
                )
    ax.set(
        title=title,
        aspect="equal",
        xlim=(-1.9, 1.2),
        ylim=(-1.2, 1.2),
        xticks=[],
        yticks=[],
    )
    ax.spines[:].set_visible(False)
plt.close(fig)
fig

# %% [markdown]
# {numref}`fig-eigenvalues` shows what must be kept. A matrix that multiplies modes by factors is real if partners, $k$
# and $n-k$, have conjugate factors, and only then; mode 0 and the Nyquist mode are their own partners. The roll itself
# has this symmetry, and half a step as printed has lost it. So count the modes from the middle and let each wheel turn
# the shorter way:
#
# $$
# \begin{gathered} \mathcal{A} = F^* \operatorname{diag}\!\left( \tfrac{2\pi \mathrm{i}\, m}{n} \right) F, \\
# m = -\lfloor \tfrac{n-1}{2} \rfloor, \dots, \lfloor \tfrac{n-1}{2} \rfloor \\
# (\text{and } 0 \text{ in place of } \tfrac{n}{2}) \end{gathered}
# $$ (eq-generator)
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
# (The paper writes $U^\top$ after its Eq. 6. It has to be the conjugate transpose $U^\dagger$, because $U$ is
# complex.) Take one pair of
# modes, $m$ and $-m$, and read off what the roll does to a real wave with $m$ crests. It slides, and keeps its
# shape. This is the traveling wave of the paper's title, now at any position:
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
# ## Without a transform
#
# Summing the waves of {eq}`eq-generator` gives the entries directly. The generator reads
#
# $$
# \begin{gathered} \mathcal{A}_{jl} = \frac{\pi}{n} (-1)^{j-l} \times \begin{cases} 1 / \sin \frac{\pi (j-l)}{n} & n \text{ odd} \\[2pt] \cot \frac{\pi (j-l)}{n} & n \text{ even} \end{cases} \\
# (j \neq l) \end{gathered}
# $$ (eq-generator-closed)
#
# which is the differentiation matrix of spectral methods {cite}`trefethen2000spectral,weideman2000matlab`. For odd
# $n$ the roll is the Dirichlet kernel of signal processing:
#
# $$
# S(p)_{jl} = \frac{\sin \pi t}{n \sin(\pi t / n)}, \qquad t = \frac{p}{\lambda} + j - l
# $$ (eq-kernel-odd)
#
# At whole steps its numerator is zero everywhere. At one place in each row the denominator is zero, too, and the
# quotient tends to 1: the permutation is back. Between the steps every channel hears every other one, with weights that
# alternate in sign and fall off like one over the distance.
#
# There is a picture for this. Draw the smoothest curve through the channels, the one without any wave shorter
# than two channels. To roll by $p$ is to slide the curve, and to read it at the channels again. And
# the generator is the slope of this curve:
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
agree("A is the slope", A @ torch.cos(w * i), slope, tolerance=1e-11)


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-between-channels", "caption": "A roll by a fraction of a step. Left: the smoothest curve through the channels (full dots), read a fraction of a step further on (open dots). Right: a single channel, rolled by the same fraction: the kernel of the roll."}, "image": {"alt": "Two panels against channel. On the left full dots lie on a smooth curve with a few bumps, and open dots lie on the same curve moved a little to the left. On the right a single full dot stands at one; the open dots spread it over its neighbors, with ripples of alternating sign that die away to both sides."}}
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
left.set(title="slide the curve, read it again", xlabel="channel", ylabel="value")
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
# In the left panel of {numref}`fig-between-channels` the open dots lie on the moved curve. In the right panel a
# single channel is the sharpest signal that the ring can hold. It spreads, but all its waves travel at one
# speed, so after a whole step it is a single channel again. That holds on an odd ring. On an even one, one wave
# does not come along.
#
# ## Even rings: four honest answers
#
# Back to the Nyquist mode. On an even ring all waves but this one can be moved by any amount. With
# $\nu_i = (-1)^i / \sqrt n$ for the alternating pattern, there are four ways to live with it, and the library
# has them all. The first is to let it stand still. Then $S(p)$ is a group of rotations, but on this one mode it
# is not the roll:
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
# The second, that of trigonometric interpolation {cite}`trefethen2000spectral`, is to multiply it by
# $\cos(\pi p/\lambda)$, which is $\pm 1$ just when it should be. The roll is exact at whole steps. In between the mode
# shrinks, to nothing at half a step, and two halves no longer make a whole:
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
# The third lends it the missing dimension. Two rings have two Nyquist modes, and these can turn into each
# other, like the two axes of a plane. The roll of *both* rings does have a real logarithm:
#
# $$
# \exp \begin{bmatrix} \mathcal{A} & -\pi \nu \nu^\top \\ \pi \nu \nu^\top & \mathcal{A} \end{bmatrix} = \begin{bmatrix} S & 0 \\ 0 & S \end{bmatrix}
# $$ (eq-nyquist-paired)
#
# The fourth is to avoid it. Leave one channel without position and roll the other $n - 1$, an odd number:
#
# $$
# S_{\mathrm{odd}}(p) = \begin{bmatrix} S_{n-1}(p) & 0 \\ 0 & 1 \end{bmatrix}
# $$ (eq-nyquist-odd)
#
# What each of them keeps, in numbers:

# %% tags=["hide-input"]
even = n + n % 2
one = torch.ones(1, 1)
S = shift_matrix(even)
whole_step = {
    "fixed": S,
    "cosine": S,
    "paired": torch.block_diag(S, S),
    "odd": torch.block_diag(shift_matrix(even - 1), one),
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
    assert kept == [treatment != "fixed"] + 2 * [treatment != "cosine"]

# %% [markdown]
# None is free. *Fixed* misses one mode, *cosine* gives up lengths and relativity between the steps, *paired* needs
# two rings side by side, and *odd* has a channel that knows no position. The library's default is *fixed*: a
# group of rotations at every width, for the price of one mode in $n$. So for even $n$ the encodings
# `continuous-roll` and `roll` differ even at whole positions. They are two encodings, not two implementations of
# one.
#
# {numref}`wave-continuous` lets a single channel walk over an odd ring and over the even ring with one channel more.
#
# ```{wave} continuous
# :name: wave-continuous
# One channel, moved by $p$. Open circles: where the roll puts it at the nearest whole position. The dial shows the Nyquist mode of the even ring, and at whole positions a circle where the roll wants it. *Fixed* misses the roll, *cosine* loses length and its two halves do not make a whole, *paired* spends a second ring.
# ```
#
# Here is the treatment chosen above, on a walk: query and key both move on by the same amount.

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
# The ring comes back to its start after $n$ steps. With $\lambda$ positions to a step that is after $\lambda n$
# positions:
#
# $$
# \begin{gathered} S(p + \lambda n) = S(p), \\
# S(p) \neq I \ \text{ for } 0 < p < \lambda n \quad (n \ge 3) \end{gathered}
# $$ (eq-period)
#
# So a long sequence fits on a short ring. There is a price that is easy to overlook. Unless $1/\lambda$ is a whole
# number, the patches of an ordinary image stand at fractions of a step. Everything on this page then applies to them.

# %%
again = roll_matrix(n, position + wavelength * n, wavelength)
S = roll_matrix(n, position, wavelength)
agree("the period", again, S)
print(f"λ = {wavelength:g}: a period of {wavelength * n:g} positions")
places = ", ".join(f"{p / wavelength:g}" for p in range(6))
print("patches 0 to 5 stand at the steps", places)

# %% [markdown]
# ## A local stencil
#
# Appendix E of the paper compares the logarithm with "the tridiagonal matrix shown in the main text". The main
# text shows none, but we may guess which one is meant, the central difference:
#
# $$
# \begin{gathered} D = \tfrac12 (S - S^\top), \\
# (D x)_i = \tfrac12 (x_{i+1} - x_{i-1}) \end{gathered}
# $$ (eq-stencil)
#
# It is sparse, and real and skew-symmetric for every $n$, so it generates a group of rotations. Is it the roll? It
# has the same waves, but it turns them at other speeds:
#
# $$
# D = F^* \operatorname{diag}\!\left( \mathrm{i} \sin \tfrac{2\pi k}{n} \right) F
# $$ (eq-stencil-spectrum)
#
# Long waves hardly notice, since $\sin \omega \approx \omega$ for small $\omega$. In this sense both agree in the
# continuum limit, as the paper says:
#
# $$
# \begin{gathered} \frac{\|(\mathcal{A} - D)\, x\|}{\|x\|} = \omega_m - \sin \omega_m \le \frac{\omega_m^3}{6} \\
# \text{for a wave of mode } m,\ 0 \le m < \tfrac n2,\ \omega_m = \tfrac{2\pi m}{n} \end{gathered}
# $$ (eq-stencil-limit)
#
# Short waves lag behind, and on an even ring the shortest stands still. A pattern made of many waves falls apart as
# it travels. Physicists call that dispersion. The exponential has a closed form. Put $z = S$ into the
# series that defines the Bessel functions, $e^{\frac p2 (z - 1/z)} = \sum_m J_m(p)\, z^m$, and read:
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

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-dispersion", "caption": "The generator against the local stencil. Left: how fast each wave turns; for the roll every wave takes the same number of channels per step. Right: a narrow bump, and what has become of it after half a turn of the ring."}, "image": {"alt": "Two panels. On the left, speed of turning against frequency: a straight line for the generator and a sine arch for the stencil, together for low frequencies and far apart for high ones, where the arch falls back to zero. On the right, signal against channel: a narrow bump, the same narrow bump at another place after the roll, and a long train of ripples after the stencil."}}
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
# The right panel of {numref}`fig-dispersion` is the reason not to use the stencil as a roll. The roll delivers the
# bump as it was. The stencil delivers a train of ripples: the long waves have arrived, the short ones are
# still on their way.
#
# ```{admonition} In short
# :class: tip
# On an odd ring the roll is a rotation. It has a velocity, the real skew-symmetric generator
# {eq}`eq-generator`, and with it a meaning at every real position: slide the smoothest curve through the channels.
# On an even ring it contains a mirror and has no real logarithm, {eq}`eq-no-real-log`, against the paper's Eq. 4. The fault
# lies in one mode, and there are four ways to treat it. The formulas that the paper prints for the generator give
# complex queries between the steps. Counting modes from the middle repairs them.
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
# Go to sums and differences. The sums $x + y$ and $u + v$ stay. The differences $x - y$ and $u - v$ change their
# signs, which in their plane is half a turn. Half of it is a quarter turn: $(x - y,\, u - v) \mapsto (-(u - v),\,
# x - y)$.
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
# On an odd ring there is a *permutation* that gives one step when done twice. Which one? Why is it not the half
# step we want?
# ```
#
# ```{solution} exercise-continuous-root
# :class: dropdown
# Roll by $(n+1)/2$ whole steps: twice that is $n + 1$, once around and one more. It is a square root of $S$, but
# not a small move: a token at ½ would be encoded as one at the far side of the ring. The roots of $S$ differ by half
# turns of single modes, and $S(\tfrac12)$ is the one in which every wave takes the shorter way.
# ```

# %% tags=["hide-cell"]
far = roll(torch.eye(odd), (odd + 1) // 2).T
S = shift_matrix(odd)
agree("a permutation, twice", far @ far, S)
for name, root in (("far", far), ("half", roll_matrix(odd, 0.5))):
    print(f"{name}: {(root - torch.eye(odd)).norm():.2f} away from standing still")
assert gap(far, torch.eye(odd)) > gap(roll_matrix(odd, 0.5), torch.eye(odd))

# %% [markdown]
# ```{exercise}
# :label: exercise-continuous-wavelength
# A row has 64 patches and the ring 31 channels. Choose $\lambda$ such that no two offsets, with
# their signs, look alike.
# ```
#
# ```{solution} exercise-continuous-wavelength
# :class: dropdown
# Offsets run from $-63$ to $63$, that is 127 of them. They are told apart if the period $\lambda n$ is at least
# 127, so $\lambda \ge 127/31$. With $\lambda = 1$ the ring would take 31 positions for a full turn.
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
