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
#   rollpe:
#     reads: [data/records]
# ---

# %% [markdown]
# # Between the steps
#
# A token at patch 3 rolls its query by three channels, a token at patch 4 by four. What about patch 3½? Points in a
# cloud lie anywhere, and a larger image has patches between those of training. The roll of an integer position turns
# each wave on the ring by an angle; for half a step, halve each angle. On a ring with an odd number of channels this
# gives a rotation for every real position, and scores stay relative. On an even ring one wave changes its sign in each
# step, and $-1$ has no real square root. The paper {cite}`rollpe` misses this exception.

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

from rollpe_book import figures
from rollpe_book.agree import agree, differs, gap, holds
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(seed)
np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## The shorter way
#
# A vector on the ring is a sum of waves, and one step turns wave $k$ by $2\pi k/n$, {eq}`eq-diagonal`. Think of each
# wave as a wheel, filmed once in each step. The film shows where a wheel has arrived. It does not show whether the
# wheel turned by $2\pi k/n$ forward or by $2\pi (n-k)/n$ backward. Assume the shorter way, and for half a step halve
# its angle:

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-eigenvalues", "caption": "The waves of a ring as wheels. Each dot shows how far one has turned; lines join partners. Left: after one step. Right: after half a step, each the shorter way; the Nyquist mode of an even ring could go either way."}, "image": {"alt": "Two unit circles with dots, joined in pairs by vertical lines. On the left the dots are spread over the whole circle, for an even ring with a single red dot at minus one. On the right they lie on the right half, for an even ring with red rings at plus and minus i, marked with question marks."}}
ring = n if n <= 14 else 12 + n % 2  # few enough to see
modes = np.arange(ring) - (ring - 1) // 2
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
# In {numref}`fig-eigenvalues`, partners $k$ and $n-k$ turn in opposite directions. They have to, as the two halves of a
# real wave: a matrix that multiplies waves by factors is real only if partners have conjugate factors. So give the
# waves beyond the middle negative numbers: wave $k$ has $m = k$ up to $n/2$, and $m = k - n$ beyond. The angles of one
# step make up the *generator* of the roll:
#
# $$
# \begin{gathered} \mathcal{A} = F^* \operatorname{diag}\!\left( \tfrac{2\pi \mathrm{i}\, m}{n} \right) F, \\
# m = -\lfloor \tfrac{n-1}{2} \rfloor, \dots, \lfloor \tfrac{n-1}{2} \rfloor \\
# (\text{and } 0 \text{ in place of } \tfrac{n}{2}) \end{gathered}
# $$ (eq-generator)
#
# On an even ring the wave $n/2$ is its own partner. This *Nyquist mode*, $+1, -1, +1, \dots$, does not move under this
# generator.
#
# To roll by any number of steps, multiply all angles by this number. This is the matrix exponential of the paper's Eq.
# 5, with $\lambda$ positions to a step:
#
# $$
# \mathrm{Roll}_p(q) = \exp\!\left( \frac{p}{\lambda} \mathcal{A} \right) q
# $$ (eq-continuous-roll)
#
# Partners $m$ and $-m$ add up to a sine, so the generator is a sum of sines:

# %%
from rollpe.ring import generator, mode_numbers, roll, roll_matrix, shift_matrix

exp, power = torch.matrix_exp, torch.linalg.matrix_power


def sum_of_sines(n):
    i, m = torch.arange(n), torch.arange(1, (n + 1) // 2)  # m: waves with a partner
    angle = 2 * math.pi / n * (i[:, None] - i)[..., None]  # [n, n, 1]
    return -4 * math.pi / n**2 * (m * torch.sin(m * angle)).sum(dim=-1)


# %%
sizes = (1, 2, 7, 8, n)
agree("eq-generator", [generator(m) for m in sizes], [sum_of_sines(m) for m in sizes])
numbers = [torch.arange(m) - (m - 1) // 2 for m in sizes]  # with n/2 for even n
agree("eq-generator", [mode_numbers(m) for m in sizes], numbers)

# %% [markdown]
# The library rolls without an exponential. Its treatments of the Nyquist mode below have generators as well; *paired*
# takes two rings:

# %% tags=["hide-input"]
from rollpe.ring import continuous_roll

kinds, places = ("fixed", "paired", "odd"), torch.tensor([position, -17.3, 12.0])


def both_ways(n, kind):
    A = generator(n, kind)
    x = torch.randn(3, len(A))  # a vector for each place
    S = exp((places / wavelength)[:, None, None] * A)
    return continuous_roll(x, places, wavelength, kind), (S @ x[..., None])[..., 0]


# %% tags=["hide-input"]
rings = [both_ways(m, kind) for m in sizes for kind in kinds]
agree("eq-continuous-roll", [r[0] for r in rings], [r[1] for r in rings], 1e-10)

# %% [markdown]
# In the Fourier basis the generator is diagonal, so its exponential is taken entry by entry. Write $S(p)$ for the
# matrix of the roll:
#
# $$
# S(p) = F^* \operatorname{diag}\!\left( e^{2\pi \mathrm{i}\, p m / (\lambda n)} \right) F
# $$ (eq-spectral)
#
# A roll by a real position is thus a fast Fourier transform, a factor for each wave, and the transform back:

# %%
i = torch.arange(n)
m = (i + n // 2) % n - n // 2  # 0, 1, …, and then the negative ones
m[2 * m == -n] = 0  # the Nyquist mode of an even ring


def fourier_roll(x, steps):
    phases = torch.exp(2j * math.pi * steps * m / n)
    return torch.fft.ifft(torch.fft.fft(x) * phases).real


# %%
q, steps = torch.randn(n), position / wavelength
rolled = torch.stack([fourier_roll(q, p / wavelength) for p in places])
found = [continuous_roll(q.expand(3, n), places, wavelength)]
found.append(roll_matrix(n, places, wavelength) @ q)
agree("eq-spectral", found, [rolled, rolled], 1e-11)
agree("eq-spectral", roll_matrix(n, position), exp(position * generator(n)), 1e-11)

# %% [markdown]
# The paper's Eqs. 7 and 14 number the waves from 0 and so turn all of them forward. This makes queries complex between
# the steps ({doc}`15-kernels`).
#
# A real wave slides and keeps its shape. This is the traveling wave of the paper's title, now at any position:
#
# $$
# \begin{gathered} x_i = \cos\!\left( \tfrac{2\pi m}{n} i + \varphi \right), \quad |m| < \tfrac n2 \\
# \Longrightarrow \quad \mathrm{Roll}_p(x)_i = \cos\!\left( \tfrac{2\pi m}{n} \left( i + \tfrac{p}{\lambda} \right) + \varphi \right) \end{gathered}
# $$ (eq-traveling-wave)
#
# The same holds for a sum of such waves. Draw its curve $x(s)$ through the channels. To roll, slide the curve and
# sample it at the channels again ({numref}`fig-between-channels`). The generator turns the values of the curve into its
# slopes:
#
# $$
# \begin{gathered} (\mathcal{A} x)_i = \dot x(i) \quad \text{if } x_i = x(i), \\
# x(s) = \sum_{|m| < n/2} c_m \, e^{2\pi \mathrm{i} m s/n} \end{gathered}
# $$ (eq-derivative)

# %%
w = 2 * math.pi * torch.arange((n + 1) // 2)[:, None] / n  # of every wave that travels
wave, moved = torch.cos(w * i + 1), torch.cos(w * (i + steps) + 1)
rolled = continuous_roll(wave, position, wavelength)
agree("eq-traveling-wave", rolled, moved, 1e-11)
slope = -w * torch.sin(w * i + 1)
agree("eq-derivative", wave @ generator(n).T, slope, 1e-10)


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-between-channels", "caption": "A roll by a fraction of a step. Left: the smoothest curve through the channels (full dots), slid and sampled again (open dots). Right: a single channel, rolled in the same way: the kernel of the roll."}, "image": {"alt": "Signal against channel. On the left full dots lie on a smooth curve, open dots on the same curve moved a little to the left. On the right a full dot is at one; open dots spread over its neighbors, with ripples of alternating sign that die away."}}
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
channel, channels = np.arange(n), np.arange(min(n, 17))
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
right.vlines(
    channel, 0, rolled(impulse), color=figures.VERMILION, alpha=0.4, linewidth=1
)
right.plot(channel, impulse, "o", color=figures.BLUE, markersize=4, label="before")
right.plot(
    channel,
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
# In the right panel, a single channel spreads between the steps: all channels mix, with weights of alternating sign. On
# an odd ring it is a single channel again after a full step. On an even ring one wave stays behind. {doc}`15-kernels`
# has the weights in closed form.
#
# ## Half a step, by hand
#
# With three channels, one step sends $(x, y, z)$ to $(y, z, x)$. In space this is a rotation by a third of a circle
# around the diagonal $x = y = z$. Half a step turns by a sixth.

# %%
axis = torch.tensor([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]]) / 3**0.5  # cross product
A3 = 2 * math.pi / 3 * axis  # a third of a circle
half = exp(A3 / 2)
print("three times half a step:", *(3 * half).round().int().tolist(), sep="\n")
print("half a step, twice:", *(half @ half).round().int().tolist(), sep="\n")
agree("our A and the library", A3, generator(3))
agree("two halves are a step", half @ half, shift_matrix(3))

# %% [markdown]
# Check the first row yourself. Three times the first row of half a step is $(2, 2, -1)$. Its product with three times
# the second column is $4 + 4 + 1 = 9$, and with the other columns $0$. Divided by nine, this is $(0, 1, 0)$, the first
# row of the roll. Half a step mixes all channels, one with a minus sign. It is real, keeps lengths, and two of them
# make one roll.
#
# ## The velocity of the roll
#
# Let the position grow like time. How fast does a vector on three channels move, and in which direction?

# %%
x = torch.tensor([1.0, 0.0, 0.0])
for h in (0.5, 0.1, 0.001):
    velocity = (exp(h * A3) @ x - x) / h
    print(f"(S({h}) x − x) / {h} =".rjust(26), velocity.numpy())
print("A x =".rjust(26), (A3 @ x).numpy())

# %% [markdown]
# The velocity at $x$ is $\mathcal{A}x$. So a small change of the position, or of a trained $\lambda$, changes the query
# by
#
# $$
# \begin{aligned} \frac{\partial}{\partial p} \mathrm{Roll}_p(q) &= \frac{1}{\lambda} \, \mathcal{A} \, \mathrm{Roll}_p(q), \\
# \frac{\partial}{\partial \lambda} \mathrm{Roll}_p(q) &= -\frac{p}{\lambda^2} \, \mathcal{A} \, \mathrm{Roll}_p(q) \end{aligned}
# $$ (eq-transport)
#

# %%
at = torch.tensor(position), torch.tensor(wavelength)
moving = torch.autograd.functional.jacobian(lambda p, λ: continuous_roll(q, p, λ), at)
flow = generator(n) @ continuous_roll(q, position, wavelength) / wavelength
agree("eq-transport", [*moving], [flow, -position / wavelength * flow], 1e-9)

# %% [markdown]
# A vector that turns keeps its length, so its velocity is at right angles to it: $x^\top \mathcal{A} x = 0$ for every
# $x$. Hence $\mathcal{A}$ is skew-symmetric:
#
# $$
# \mathcal{A}^\top = -\mathcal{A} \in \mathbb{R}^{n \times n}
# $$ (eq-skew)
#
# A *logarithm* of a matrix is a matrix whose exponential it is. For odd $n$ the generator is the logarithm of the
# paper's Eq. 4:
#
# $$
# \mathcal{A} = \log S, \qquad S = \exp(\mathcal{A}) \qquad (n \text{ odd})
# $$ (eq-log)

# %%
odd = n if n % 2 else n - 1
As = [generator(m, kind) for m in (*sizes, odd) for kind in kinds]
agree("eq-skew", [A.T for A in As], [-A for A in As])
holds("eq-skew", [A.dtype == torch.float64 for A in As])  # real
As, Ss = ([make(m) for m in (3, 7, odd)] for make in (generator, shift_matrix))
agree("eq-log", As, [logm(S.numpy()).real for S in Ss])
agree("eq-log", [exp(A) for A in As], Ss)

# %% [markdown]
# ## Scores at real positions
#
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
#
# The exponential of every skew-symmetric matrix consists of rotations in planes, with the angles in its eigenvalues
# $\pm \mathrm{i} \omega_i$. So such a roll is RoPE in some basis:
#
# $$
# \begin{gathered} \mathcal{A}^\top = -\mathcal{A} \quad \Longrightarrow \\
# e^{p \mathcal{A}} = V \Bigl( \bigoplus_i R(\omega_i p) \; (\oplus\, 1) \Bigr) V^\top, \\
# V^\top V = I, \qquad \pm \mathrm{i} \omega_i \in \operatorname{spec} \mathcal{A} \end{gathered}
# $$ (eq-lie-form)
#
# The paper proves its Theorem 1 in this way (App. F): the roll is the exponential of a skew-symmetric matrix, LieRE
# {cite}`ostmeier2024liere` allows any such matrix, and on one axis LieRE is RoPE in some basis
# {cite}`vandegeijn2025circular`. For odd $n$ the proof is correct. For even $n$ its first statement fails, as the next
# section shows.


# %%
def S(p, kind):
    return roll_matrix(n, p, wavelength, kind)


p, s = position, -7.3
sums = [S(p, kind) @ S(s, kind) for kind in kinds]
agree("eq-group", sums, [S(p + s, kind) for kind in kinds], 1e-11)
back = [S(p, kind).T for kind in kinds]
agree("eq-group", back, [S(-p, kind) for kind in kinds])
agree("eq-group", back, [torch.linalg.inv(S(p, kind)) for kind in kinds], 1e-11)


# %% tags=["hide-input"]
def scores(kind):
    q, k = torch.randn(2, 3, len(S(0.0, kind)))
    moved = [continuous_roll(x, places, wavelength, kind) for x in (q, k)]
    between = S(places - places[:, None], kind)  # by the offset of each pair
    return moved[0] @ moved[1].T, torch.einsum("ia,ijab,jb->ij", q, between, k)


both = [scores(kind) for kind in kinds]
agree("eq-continuous-score", [b[0] for b in both], [b[1] for b in both], 1e-10)

# %% [markdown]
# $\mathrm{i} \mathcal{A}$ is Hermitian, and real and imaginary part of an eigenvector span a plane that turns. This finds
# the planes of any skew-symmetric matrix, here also of a tiny one, of one that leaves channels at rest, and of one with
# equal angles:


# %%
def rotation_form(A):
    """V and the angles, the fastest first; channels at rest come last."""
    values, vectors = torch.linalg.eigh(1j * A)
    turning = values > 1e-9 * values.max()
    upper, omega = vectors[:, turning].flip(1), torch.zeros(len(A) // 2)
    planes = torch.stack((upper.real, upper.imag), dim=-1).flatten(1) * math.sqrt(2)
    omega[: planes.shape[1] // 2] = values[turning].flip(0)
    still = torch.linalg.svd(planes)[0][:, planes.shape[1] :]
    return torch.cat((planes, still), dim=1), omega


# %% tags=["hide-input"]
from rollpe.formulas import rotation_matrix

B, C, D = torch.randn(7, 7), torch.randn(6, 6), torch.randn(6, 6)
basis, _ = torch.linalg.qr(D)
skew, small = B - B.T, (C - C.T)[:3, :3]
idle = torch.block_diag(small, torch.zeros(3, 3))
equal = basis @ torch.block_diag(small, small) @ basis.T
examples = [skew, 1e-6 * skew, C - C.T, idle, equal, generator(n), generator(n + 1)]


def turned(V, omega):
    planes = rotation_matrix(position * omega)
    return V @ torch.block_diag(planes, torch.eye(len(V) % 2)) @ V.T


# %% tags=["hide-input"]
forms = [rotation_form(A) for A in examples]
expected = [exp(position * A) for A in examples]
agree("eq-lie-form", [turned(*form) for form in forms], expected, 1e-9)
units = [torch.eye(len(A)) for A in examples]
agree("eq-lie-form", [V.T @ V for V, _ in forms], units, 1e-9)
moduli = [torch.linalg.svdvals(A)[::2][: len(A) // 2] for A in examples]
agree("eq-lie-form", [omega for _, omega in forms], moduli, 1e-9)

# %% [markdown]
# ## Even rings have no real logarithm
#
# The paper says (Eq. 4) that $\log S$ is always real and skew-symmetric, because $S$ is orthogonal. This is correct for
# odd $n$ and wrong for even $n$, such as the 16, 32 or 64 channels that networks use. A step of an even ring contains a
# reflection, and a single reflection has no real square root ({doc}`05-rope`).
#
# ```{prf:proposition} No logarithm for even rings
# :label: prop-no-real-log
# For even $n$ there is no real matrix whose exponential is $S$.
# ```
#
# ```{prf:proof}
# The exponential of a real matrix has a positive determinant, {eq}`eq-no-real-log`. By {eq}`eq-determinant` the
# determinant of $S$ is negative for even $n$.
# ```
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

# %% tags=["hide-input"]
B = torch.randn(8, 8) / 8
agree("eq-no-real-log", exp(B).det() / B.trace().exp(), 1)
agree("eq-no-real-log", [shift_matrix(m).det() for m in (2, 4, 32)], -torch.ones(3))

# %% [markdown]
# The cause is the Nyquist mode, the only wave that a step turns into its negative. (In general, a real logarithm exists
# if and only if each Jordan block of a negative eigenvalue occurs an even number of times {cite}`culver1966existence`.)
#
# The library has five treatments of this mode. *Fixed* does not move it. The matrices $S(p)$ are then rotations that
# add up, but at integer steps they differ from the roll on this one mode:
#
# $$
# \begin{gathered} S(\lambda p) = S^p + \bigl( 1 - (-1)^p \bigr) \, \nu \nu^\top, \\
# \nu_i = \tfrac{(-1)^i}{\sqrt n}, \quad p \in \mathbb{Z},\ n \text{ even} \end{gathered}
# $$ (eq-nyquist-fixed)
#
# *Cosine*, from trigonometric interpolation {cite}`trefethen2000spectral`, multiplies it by $\cos(\pi p/\lambda)$. The
# roll is exact at integer steps. In between the mode shrinks, and two halves do not make a step:
#
# $$
# \begin{gathered} S_{\cos}(p) = S(p) - \bigl( 1 - \cos \tfrac{\pi p}{\lambda} \bigr) \, \nu \nu^\top, \\
# S_{\cos}(\lambda) = S, \qquad S_{\cos}(\tfrac{\lambda}{2})^2 \neq S \end{gathered}
# $$ (eq-nyquist-cosine)
#
# *Paired* rolls two rings together, so that their two Nyquist modes turn into each other, {eq}`eq-nyquist-paired`.
# *Odd* leaves one channel without position and rolls the other $n - 1$, {eq}`eq-nyquist-odd`. *Twist* closes the ring
# with a reversed sign, {eq}`eq-twisted-shift`. All waves of the twisted ring have partners, so its step $N$ has a real
# generator at every width:
#
# $$
# \tilde{\mathcal{A}}_{jl} = \frac{\pi}{n} \, \frac{(-1)^{j-l}}{\sin \frac{\pi (j-l)}{n}} \quad (j \neq l), \qquad
# \tilde{\mathcal{A}}_{jj} = 0, \qquad N = e^{\tilde{\mathcal{A}}}
# $$ (eq-twisted-generator)

# %%
even = n + n % 2
x, step = torch.randn(even), shift_matrix(even)
nu = (-1.0) ** torch.arange(even) / math.sqrt(even)
wholes, alone = (-3, 0, 1, 4), torch.outer(nu, nu)


def cosine(p):
    shrunk = 1 - math.cos(math.pi * p / wavelength)
    return exp(p / wavelength * generator(even)) - shrunk * alone


# %% tags=["hide-input"]
expected = [power(step, p) + (1 - (-1) ** p) * alone for p in wholes]
found = [roll_matrix(even, wavelength * p, wavelength) for p in wholes]
agree("eq-nyquist-fixed", found, expected, 1e-11)
rolled = [continuous_roll(x, wavelength * p, wavelength) for p in wholes]
agree("eq-nyquist-fixed", rolled, [S @ x for S in expected], 1e-11)


# %% tags=["hide-input"]
found = roll_matrix(even, places, wavelength, "cosine")
agree("eq-nyquist-cosine", found, [cosine(p) for p in places], 1e-11)
rolled = continuous_roll(x.expand(3, even), places, wavelength, "cosine")
agree("eq-nyquist-cosine", rolled, found @ x, 1e-11)

# %%
one, half = (roll_matrix(even, p, nyquist="cosine") for p in (1, 0.5))
agree("eq-nyquist-cosine", one, step, 1e-11)
differs("eq-nyquist-cosine", half @ half, step, 1 / (2 * even))


# %%
def closed(n):
    d = torch.arange(n)[:, None] - torch.arange(n)  # j − l
    sine = torch.sin(math.pi * d / n).where(d != 0, torch.inf)
    return math.pi / n * (-1.0) ** d / sine


# %% tags=["hide-input"]
from rollpe.ring import twisted_generator, twisted_shift

As = [closed(m) for m in (*sizes, even)]
agree("eq-twisted-generator", [twisted_generator(len(A)) for A in As], As)
agree("eq-twisted-generator", [generator(len(A), "twist") for A in As], As)
agree("eq-twisted-generator", [exp(A) for A in As], [twisted_shift(len(A)) for A in As])
differs("eq-twisted-generator", exp(As[-1]), step, 1.9)

# %% [markdown]
# Each treatment gives something up: a wave, lengths, a second ring, a channel or a sign.

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
# The default is *fixed*: at integer positions no rotation is closer to the roll. So for even $n$ the
# encodings `continuous-roll` and `roll` differ even at integer positions. The twisted ring has no such gap:
# `twisted-roll` at integer positions and `continuous-roll(nyquist="twist")` at real ones are one encoding.
#
# ```{wave} continuous
# :name: wave-continuous
# One channel, moved by $p$, on an odd and an even ring. Open circles: the roll at the nearest integer position. The
# dial is the Nyquist mode of the even ring.
# ```
#
# With the treatment that the parameter `nyquist` names, move query and key by the same amount:

# %%
relative = n % 2 == 1 or nyquist != "cosine"
q, k = torch.randn(2, len(roll_matrix(n, 0.0, nyquist=nyquist)))


def score(walk):
    """A query at `position` and a key at 2, both moved on."""
    rolled_q = continuous_roll(q, position + walk, nyquist=nyquist)
    return rolled_q @ continuous_roll(k, 2 + walk, nyquist=nyquist)


for walk in (1.0, 0.25):
    change = gap(score(walk), score(0))
    print(f"{nyquist}, {n} channels, both walk on by {walk:g}: {change:.1e} change")
    assert not relative or change < 1e-12

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
# ($\lambda$ is not the wavelength of a wave: the longest wave on the ring is $\lambda n$ positions long.) A long
# sequence thus fits on a short ring. But unless $1/\lambda$ is an integer, the patches of an ordinary image lie at
# fractions of a step, and on even rings one of the five treatments applies to them.


# %%
def S(p):
    return roll_matrix(n, p, wavelength)


agree("eq-period", S(position + wavelength * n), S(position), 1e-10)
early = [S(wavelength * p) for p in (0.1, 1, n / 2, n - 0.1)]
differs("eq-period", early, [torch.eye(n)] * 4, 1e-3)
print("patches 0 to 5 are at the steps", [round(p / wavelength, 3) for p in range(6)])

# %% [markdown]
# ## A cloud of points
#
# The paper gives point clouds as its example of data without integer positions. We make clouds of digits. A digit is
# read at 32 of its 64 pixels, each moved off its place by up to half a pixel, so that every image has positions of its own.
# The model gets the gray values and these positions, and no grid.

# %%
from rollpe_lab.training import load_dataset
from rollpe_lab.training.points import STEPS

digits, clouds = load_dataset("digits"), load_dataset("points")
image, cloud = digits.test.images[3, 0], clouds.test.images[4 * 3].flatten(1)
gray, positions = cloud[0], cloud[1:].T / STEPS  # [32], [32, 2]: row and column
print("the first three points", positions[:3].tolist(), "gray", gray[:3].tolist())

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-cloud", "caption": "A digit of 8×8 pixels, and one of its four clouds of 32 points."}, "image": {"alt": "Left: a digit as squares of gray. Right: dots of the same grays, scattered between the places of the squares; half of the places are empty."}}
fig, axes = plt.subplots(1, 2, figsize=(5.2, 2.6))
axes[0].imshow(image, cmap="gray_r", vmax=255)
look = {"cmap": "gray_r", "vmin": 0, "vmax": 255, "edgecolor": figures.MUTED}
dots = axes[1].scatter(*positions.T.flip(0), c=gray, s=42, linewidth=0.4, **look)
dots.set_label("points")
for ax, title in zip(axes, ("64 pixels", "32 points"), strict=True):
    ax.set(xlim=(-0.5, 7.5), ylim=(7.5, -0.5), aspect="equal", xticks=[], yticks=[])
    ax.set_title(title)
plt.close(fig)
fig

# %% [markdown]
# Five encodings were trained on clouds with their real positions and with the positions rounded to whole pixels, each
# at the best of three learning rates, chosen by one run (`plans/points-rates.yaml`, `plans/points.yaml`).

# %%
from IPython.display import Markdown

from rollpe_lab.evidence.words import least, mean, most, summary, verdict
from rollpe_lab.files import markdown

arms = {
    "RoPE": "/axial-rope",
    "RoPE, waves of 2 to 16": "@learning_rate=0.001/axial-rope@wavelengths=[2.0,16.0]",
    "continuous RollPE": "@learning_rate=0.001/continuous-roll",
    "the twisted ring": "@learning_rate=0.001/continuous-roll@nyquist=twist",
    "learned, interpolated": "@learning_rate=0.004/learned",
    "none": "/none",
}
rows = [("encoding", "real positions", "rounded")]
for label, arm in arms.items():
    rows.append((label, summary(f"points{arm}"), summary(f"points-rounded{arm}")))
Markdown(markdown(rows))

# %% [markdown]
# *Test accuracy (%) on clouds, means over runs and their 95 % intervals.*
#
# - **Real positions help RoPE and rings alike.** Rounding them costs about three points, as predicted. After the
#   correction for nine comparisons, which the plan names, one of the four losses is clear and three are open.
# - **Between RoPE and rings every difference is open.** The two rings were to be about the same; five runs do not show
#   it within two points. RoPE with waves of 2 to 16 was to be better than usual RoPE, and has the lower mean.
# - **The interpolated table is far behind**, as predicted, and its runs scatter.

# %% tags=["hide-input"]
rope, short, ring, twist, table, _ = (f"points{arm}" for arm in arms.values())
# Rounding costs about three points; one of the four losses is clear.
losses, verdicts = [], []
for real in (rope, short, ring, twist):
    rounded = real.replace("points", "points-rounded")
    losses.append(mean(real) - mean(rounded))
    verdicts.append(verdict(real, rounded))
assert 2.5 < min(losses) < max(losses) < 4
assert verdicts == ["open", "clear", "open", "open"]
# Between RoPE and rings every difference is open.
pairs = (ring, rope), (twist, rope), (twist, ring), (short, rope), (ring, short)
assert {verdict(*pair) for pair in pairs} == {"open"} and mean(short) < mean(rope)
# The interpolated table is far behind, and its runs scatter.
assert most(table) < min(least(ring), least(twist)) and least(table) < 55
assert most(table) > 70

# %% [markdown]
# ```{admonition} In short
# :class: tip
# - If each wave turns the shorter way, a roll has a meaning at every real position.
# - On an odd ring it is a rotation with a real skew-symmetric generator, {eq}`eq-generator`, and scores stay relative.
# - An even ring has no real logarithm, {prf:ref}`prop-no-real-log`, so the paper's Eq. 4 fails for even $n$. The cause
#   is one wave, with five treatments.
# - The twisted ring has a real generator at every width.
# ```
#
# *Fractional power encoding* {cite}`plate1995holographic,frady2022computing` represents a number as a power of a base
# vector. Rolling by a real position convolves with such a power. The base vector of RollPE is one step of the ring.
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-continuous-root
# On an odd ring, which *permutation* gives one step when done twice? Why is it not the half step we want?
# ```
#
# ```{solution} exercise-continuous-root
# :class: dropdown
# Roll by $(n+1)/2$ integer steps: twice that is $n + 1$, once around and one more. This is a square root of $S$, but it
# encodes a token at ½ as one at the far side of the ring. The roots of $S$ differ by half turns of single modes, and in
# $S(\tfrac12)$ every wave takes the shorter way.
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
# A row has 64 patches and the ring 31 channels. Choose $\lambda$ such that no two offsets, with their signs, give the
# same roll.
# ```
#
# ```{solution} exercise-continuous-wavelength
# :class: dropdown
# The 127 offsets from $-63$ to $63$ are told apart if the period $\lambda n$ is at least 127, so $\lambda \ge 127/31$.
# With $\lambda = 1$ the period would be 31.
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
