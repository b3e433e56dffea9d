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
# cloud lie anywhere, and a larger image has patches between those of training. A roll turns each wave on the ring by an
# angle; for half a step, halve each angle. On odd rings scores stay relative. On an even ring one wave changes its sign
# in each step, and $-1$ has no real square root. The paper {cite}`rollpe` misses this exception. One reversed sign on
# the ring repairs it.

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
from rollpe_book.agree import agree, differs, gap
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
# wave as a wheel, filmed once in each step. The film does not show whether a wheel turned by $2\pi k/n$ forward or by
# $2\pi (n-k)/n$ backward. Assume the shorter way, and for half a step halve its angle:

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-eigenvalues", "caption": "The waves of a ring as wheels. Each dot shows how far one has turned; lines join partners. Left: after one step. Right: after half a step, each the shorter way; the Nyquist mode of an even ring could go either way."}, "image": {"alt": "Two unit circles with dots, joined in pairs by vertical lines. On the left the dots are spread over the whole circle, for an even ring with a single red dot at minus one. On the right they lie on the right half, for an even ring with red rings at plus and minus i, marked with question marks."}}
ring = n if n <= 14 else 12 + n % 2  # few enough to see
modes = np.arange(ring) - (ring - 1) // 2
alone = modes == ring / 2  # the Nyquist mode

fig, axes = plt.subplots(1, 2, figsize=(5.6, 2.8))
for ax, p, title in zip(axes, (1, 0.5), ("one step", "half a step"), strict=True):
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.7))
    ax.axhline(0, color=figures.MUTED, linewidth=0.5)
    ax.set(title=f"{title}, {ring} channels", aspect="equal", xticks=[], yticks=[])
    ax.set(xlim=(-1.9, 1.2), ylim=(-1.2, 1.2))
    ax.spines[:].set_visible(False)
    z = np.exp(2j * np.pi * p * modes / ring)
    x, y = z.real[~alone], z.imag[~alone]
    ax.vlines(x, -abs(y), abs(y), color=figures.BLUE, alpha=0.35, linewidth=1)
    ax.plot(x, y, "o", color=figures.BLUE, markersize=6, label="modes")
    red = {"color": figures.VERMILION, "markersize": 7, "label": "Nyquist mode"}
    red["fillstyle"] = "full" if p == 1 else "none"
    for place in z[alone] if p == 1 else [*z[alone], *z[alone].conj()]:
        ax.plot(place.real, place.imag, "o", **red)
        x, y = (-1.5, 0.1) if p == 1 else (-0.5, 0.6 * place.imag)
        word = "Nyquist" if p == 1 else "Nyquist?"
        ax.text(x, y, word, ha="center", va="center", fontsize=9)
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-eigenvalues`, partners $k$ and $n-k$ turn in opposite directions, as the two halves of a real wave
# must. Number the waves from the middle: $m = k$ below $n/2$, and $m = k - n$ above. On an even ring wave $n/2$ is its
# own partner. This *Nyquist mode*, $+1, -1, +1, \dots$, has no shorter way and stays at rest for now. The angles of one
# step make up the *generator* of the roll:
#
# $$
# \begin{gathered} \mathcal{A} = F^* \operatorname{diag}\!\left( \tfrac{2\pi \mathrm{i}\, m}{n} \right) F, \\
# m = -\lfloor \tfrac{n-1}{2} \rfloor, \dots, \lfloor \tfrac{n-1}{2} \rfloor \\
# (\text{and } 0 \text{ in place of } \tfrac{n}{2}) \end{gathered}
# $$ (eq-generator)
#
# To roll by any number of steps, multiply all angles by this number. With $\lambda$ positions to a step, this is the
# paper's Eq. 5:
#
# $$
# \mathrm{Roll}_p(q) = \exp\!\left( \frac{p}{\lambda} \mathcal{A} \right) q
# $$ (eq-continuous-roll)
#
# Partners $m$ and $-m$ add up to a sine, so the generator is a sum of sines:

# %%
from rollpe.ring import continuous_roll, generator, roll_matrix, shift_matrix


def sum_of_sines(n):
    i, m = torch.arange(n), torch.arange(1, (n + 1) // 2)  # m: waves with a partner
    angle = 2 * math.pi / n * (i[:, None] - i)[..., None]  # [n, n, 1]
    return -4 * math.pi / n**2 * (m * torch.sin(m * angle)).sum(dim=-1)


# %%
sizes, exp = (1, 2, 3, 7, 8, n), torch.matrix_exp
agree("eq-generator", [generator(m) for m in sizes], [sum_of_sines(m) for m in sizes])
q, places = torch.randn(n), torch.tensor([position, -17.3, 12.0])
rolled = continuous_roll(q.expand(3, n), places, wavelength)
found = exp(places[:, None, None] / wavelength * generator(n)) @ q
agree("eq-continuous-roll", rolled, found, 1e-10)

# %% [markdown]
# In the Fourier basis the exponential is taken wave by wave. A roll by a real position is a fast Fourier transform, a
# factor for each wave, and the transform back. Its matrix is
#
# $$
# S(p) = F^* \operatorname{diag}\!\left( e^{2\pi \mathrm{i}\, p m / (\lambda n)} \right) F
# $$ (eq-spectral)

# %%
i = torch.arange(n)
m = (i + n // 2) % n - n // 2  # 0, 1, …, and then the negative ones
m[2 * m == -n] = 0  # the Nyquist mode of an even ring
phases = torch.exp(2j * math.pi * places[:, None] * m / (wavelength * n))
by_waves = torch.fft.ifft(torch.fft.fft(q) * phases).real
found = [rolled, roll_matrix(n, places, wavelength) @ q]
agree("eq-spectral", found, [by_waves, by_waves], 1e-11)

# %% [markdown]
# The paper's Eqs. 7 and 14 number the waves from 0, which makes queries complex between the steps
# ({doc}`Ch. 15 <15-kernels>`).
#
# ## Half a step, by hand
#
# With three channels, one step sends $(x, y, z)$ to $(y, z, x)$. In space this is a third of a turn around the diagonal
# $x = y = z$. Half a step is a sixth of a turn.

# %%
half = exp(generator(3) / 2)
print("three times half a step:", *(3 * half).round().int().tolist(), sep="\n")
print("half a step, twice:", *(half @ half).round().int().tolist(), sep="\n")
agree("two halves are a step", half @ half, shift_matrix(3))

# %% [markdown]
# Check one entry yourself: the first row, $(2, 2, -1)$, times the second column is $4 + 4 + 1 = 9$. Divided by
# $3 \cdot 3$, this is the one in the first row of the roll.
#
# ## The wave travels
#
# A real wave slides and keeps its shape. This is the traveling wave of the paper's title, now at any position:
#
# $$
# \begin{gathered} x_i = \cos\!\left( \tfrac{2\pi m}{n} i + \varphi \right), \quad |m| < \tfrac n2 \\
# \Longrightarrow \quad \mathrm{Roll}_p(x)_i = \cos\!\left( \tfrac{2\pi m}{n} \left( i + \tfrac{p}{\lambda} \right) + \varphi \right) \end{gathered}
# $$ (eq-traveling-wave)
#
# The same holds for a sum of such waves. To roll it, slide its curve $x(s)$ and sample the curve at the channels again
# ({numref}`fig-between-channels`). The generator turns the values of the curve into its slopes:
#
# $$
# \begin{gathered} (\mathcal{A} x)_i = \dot x(i) \quad \text{if } x_i = x(i), \\
# x(s) = \sum_{|m| < n/2} c_m \, e^{2\pi \mathrm{i} m s/n} \end{gathered}
# $$ (eq-derivative)

# %%
w = 2 * math.pi * torch.arange((n + 1) // 2)[:, None] / n  # of every wave that travels
wave, moved = torch.cos(w * i + 1), torch.cos(w * (i + position / wavelength) + 1)
rolled = continuous_roll(wave, position, wavelength)
agree("eq-traveling-wave", rolled, moved, 1e-11)
slope = -w * torch.sin(w * i + 1)
agree("eq-derivative", wave @ generator(n).T, slope, 1e-10)


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-between-channels", "caption": "A roll by a fraction of a step. Top: the smoothest curve through the channels (full dots), slid and sampled again (open dots). Bottom: a single channel, rolled in the same way: the kernel of the roll."}, "image": {"alt": "Signal against channel. At the top full dots lie on a smooth curve, open dots on the same curve moved a little to the left. At the bottom a full dot is at one; open dots spread over its neighbors, with ripples of alternating sign that die away."}}
def curve(s):
    """A smooth signal at the real place s on the ring: waves below the Nyquist mode."""
    waves = range(1, min(6, (n - 1) // 2) + 1)
    return sum(np.cos(2 * np.pi * m * s / n + 2.4 * m * m) / m**0.5 for m in waves)


def rolled(x):
    """x rolled by `position`, on the first of two rings if the treatment needs two."""
    treatment = nyquist if n % 2 == 0 else "fixed"
    rings = torch.cat((x, torch.zeros(n if treatment == "paired" else 0)))
    return continuous_roll(rings, position, nyquist=treatment)[:n].numpy()


fig, (top, bottom) = plt.subplots(2, 1, figsize=(5.4, 5.0), layout="constrained")
channels, shown = np.arange(n), np.arange(min(n, 17))
fine = np.linspace(0, shown[-1], 400)
samples, impulse = torch.from_numpy(curve(channels)), torch.eye(n)[n // 2]
line = {"linewidth": 1.2}
top.plot(fine, curve(fine), color=figures.BLUE, label="curve", **line)
slid = curve(fine + position)
top.plot(fine, slid, color=figures.VERMILION, label="slid curve", **line)
for ax, x, at in ((top, samples, shown), (bottom, impulse, channels)):
    full = {"color": figures.BLUE, "markersize": 4.5, "label": "before"}
    hollow = {"color": figures.VERMILION, "markersize": 4.5, "label": "rolled"}
    ax.plot(at, x[: len(at)], "o", **full)
    ax.plot(at, rolled(x)[: len(at)], "o", fillstyle="none", **hollow)
top.set(title="slide the curve, sample it again", ylabel="value")
bottom.axhline(0, color=figures.MUTED, linewidth=0.6)
stems = {"color": figures.VERMILION, "alpha": 0.4, "linewidth": 1}
bottom.vlines(channels, 0, rolled(impulse), **stems)
bottom.set(title="one channel, rolled", xlabel="channel", ylim=(-0.4, 1.1))
bottom.set_ylabel("value")
note = f"rolled by {position:g}" + ("" if n % 2 else f",\nnyquist = {nyquist}")
words = {"fontsize": 9, "color": figures.VERMILION}
bottom.text(0.02, 0.8, note, transform=bottom.transAxes, **words)
beside = {"textcoords": "offset points", "fontsize": 9, "va": "center"}
bottom.annotate("before", (n // 2, 1), (7, 0), color=figures.BLUE, **beside)
plt.close(fig)
fig

# %% [markdown]
# In the lower panel a single channel spreads over all channels, with weights of alternating sign
# ({doc}`Ch. 15 <15-kernels>` has them in closed form).
#
# ## Scores at real positions
#
# A vector that turns keeps its length, so its velocity $\mathcal{A}x$ is at right angles to it. Hence $\mathcal{A}$ is
# skew-symmetric. For odd $n$ it is the logarithm of the paper's Eq. 4:
#
# $$
# \mathcal{A}^\top = -\mathcal{A} \in \mathbb{R}^{n \times n}
# $$ (eq-skew)
#
# $$
# \mathcal{A} = \log S, \qquad S = \exp(\mathcal{A}) \qquad (n \text{ odd})
# $$ (eq-log)

# %%
odd = n if n % 2 else n - 1
As = [generator(m) for m in (*sizes, odd)]
agree("eq-skew", [A.T for A in As], [-A for A in As])
As, Ss = ([make(m) for m in (3, 7, odd)] for make in (generator, shift_matrix))
agree("eq-log", As, [logm(S.numpy()).real for S in Ss])
agree("eq-log", [exp(A) for A in As], Ss)

# %% [markdown]
# Rolls therefore add up, and the transpose rolls back. The score depends on the offset alone:
#
# $$
# \mathrm{Roll}_{p_q}(q)^\top \, \mathrm{Roll}_{p_k}(k) = q^\top S(p_k - p_q) \, k
# $$ (eq-continuous-score)

# %%
k, offsets = torch.randn(n), places - places[:, None]
q_rolled, k_rolled = (
    continuous_roll(x.expand(3, n), places, wavelength) for x in (q, k)
)
by_offset = roll_matrix(n, offsets, wavelength) @ k @ q
agree("eq-continuous-score", q_rolled @ k_rolled.T, by_offset, 1e-10)

# %% [markdown]
# The exponential of every skew-symmetric matrix consists of rotations in planes, with the angles in its eigenvalues
# $\pm \mathrm{i} \omega_i$. Such a roll is RoPE in some basis:
#
# $$
# \begin{gathered} \mathcal{A}^\top = -\mathcal{A} \quad \Longrightarrow \\
# e^{p \mathcal{A}} = V \Bigl( \bigoplus_i R(\omega_i p) \; (\oplus\, 1) \Bigr) V^\top, \\
# V^\top V = I, \qquad \pm \mathrm{i} \omega_i \in \operatorname{spec} \mathcal{A} \end{gathered}
# $$ (eq-lie-form)

# %%
from rollpe.formulas import rotation_matrix


def turning_planes(A):
    omega, v = torch.linalg.eigh(1j * A)  # A v = −i ω v
    omega, v = omega[omega > 1e-9], v[:, omega > 1e-9]
    return omega, 2**0.5 * torch.stack((v.real, v.imag), dim=-1).flatten(1)


B = torch.randn(7, 7)
for A in (B - B.T, generator(8), generator(n)):
    omega, V = turning_planes(A)
    still = torch.eye(len(A)) - V @ V.T  # projects onto what does not turn
    turned = V @ rotation_matrix(position * omega) @ V.T + still
    agree("eq-lie-form", turned, exp(position * A), 1e-10)
    agree("eq-lie-form", V.T @ V, torch.eye(2 * len(omega)), 1e-10)

# %% [markdown]
# The paper proves its Theorem 1 in this way (App. F): the roll is the exponential of a skew-symmetric matrix, as in
# LieRE {cite}`ostmeier2024liere`, and on one axis LieRE is RoPE in some basis {cite}`vandegeijn2025circular`. For odd
# $n$ the proof is correct. For even $n$ its first statement fails.
#
# ## Even rings have no real logarithm
#
# The paper says (Eq. 4) that $\log S$ is always real and skew-symmetric, because $S$ is orthogonal. This is wrong for
# even $n$, such as the 16, 32 or 64 channels that networks use: a step then contains a reflection
# ({doc}`Ch. 5 <05-rope>`).
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
for width in (3, 4, 31, 32):
    S = shift_matrix(width)
    imaginary = abs(np.imag(logm(S.numpy()))).max()  # of angles from −π to π
    print(f"{width:2} channels: det S = {S.det():+.0f}, Im log S up to {imaginary:.3f}")
    assert (imaginary < 1e-8) == (width % 2 == 1)
agree("eq-no-real-log", exp(B / 8).det(), (B / 8).trace().exp())
agree("eq-no-real-log", [shift_matrix(m).det() for m in (2, 4, 32)], -torch.ones(3))

# %% [markdown]
# The cause is the Nyquist mode, the only wave that a step turns into its negative. The repair is one sign. On the
# *twisted ring*, {eq}`eq-twisted-shift`, the channel that leaves at one end comes back negated. All its waves have
# partners, and its step $T$ has a real generator at every width:
#
# $$
# \tilde{\mathcal{A}}_{jl} = \frac{\pi}{n} \, \frac{(-1)^{j-l}}{\sin \frac{\pi (j-l)}{n}} \quad (j \neq l), \qquad
# \tilde{\mathcal{A}}_{jj} = 0, \qquad T = e^{\tilde{\mathcal{A}}}
# $$ (eq-twisted-generator)


# %%
from rollpe.ring import twisted_generator, twisted_shift


def closed(n):
    d = torch.arange(n)[:, None] - torch.arange(n)  # j − l
    sine = torch.sin(math.pi * d / n).where(d != 0, torch.inf)
    return math.pi / n * (-1.0) ** d / sine


As = [closed(m) for m in sizes]
agree("eq-twisted-generator", [twisted_generator(m) for m in sizes], As)
agree("eq-twisted-generator", [exp(A) for A in As], [twisted_shift(m) for m in sizes])

# %% [markdown]
# The library has this ring as `nyquist="twist"`, and four treatments that keep $S$. *Fixed*, the default, leaves the
# Nyquist mode at rest. Rolls are then rotations, but differ from $S^p$ at integer steps:
#
# $$
# \begin{gathered} S(\lambda p) = S^p + \bigl( 1 - (-1)^p \bigr) \, \nu \nu^\top, \\
# \nu_i = \tfrac{(-1)^i}{\sqrt n}, \quad p \in \mathbb{Z},\ n \text{ even} \end{gathered}
# $$ (eq-nyquist-fixed)
#
# *Cosine*, from trigonometric interpolation {cite}`trefethen2000spectral`, multiplies the mode by
# $\cos(\pi p/\lambda)$. Integer steps are exact, but two halves do not make a step:
#
# $$
# \begin{gathered} S_{\cos}(p) = S(p) - \bigl( 1 - \cos \tfrac{\pi p}{\lambda} \bigr) \, \nu \nu^\top, \\
# S_{\cos}(\lambda) = S, \qquad S_{\cos}(\tfrac{\lambda}{2})^2 \neq S \end{gathered}
# $$ (eq-nyquist-cosine)
#
# *Paired* rolls two rings together, so that their two Nyquist modes turn into each other, {eq}`eq-nyquist-paired`.
# *Odd* leaves one channel without position and rolls the other $n - 1$, {eq}`eq-nyquist-odd`.

# %%
even = n + n % 2
nu = (-1.0) ** torch.arange(even) / math.sqrt(even)
step, alone = shift_matrix(even), torch.outer(nu, nu)
wholes, power = (-3, 0, 1, 4), torch.linalg.matrix_power
expected = [power(step, p) + (1 - (-1) ** p) * alone for p in wholes]
found = [roll_matrix(even, wavelength * p, wavelength) for p in wholes]
agree("eq-nyquist-fixed", found, expected, 1e-11)

# %%
shrunk = (1 - torch.cos(math.pi * places / wavelength))[:, None, None] * alone
expected = roll_matrix(even, places, wavelength) - shrunk
found = roll_matrix(even, places, wavelength, "cosine")
agree("eq-nyquist-cosine", found, expected, 1e-11)
one, half = (roll_matrix(even, p, nyquist="cosine") for p in (1, 0.5))
agree("eq-nyquist-cosine", one, step, 1e-11)
differs("eq-nyquist-cosine", half @ half, step, 1 / (2 * even))

# %% [markdown]
# Each treatment gives something up: a wave, lengths, a second ring, a channel or a sign.

# %% tags=["hide-input"]
whole_step = dict.fromkeys(("fixed", "cosine", "twist"), step)
whole_step["paired"] = torch.block_diag(step, step)
whole_step["odd"] = torch.block_diag(shift_matrix(even - 1), torch.ones(1, 1))

columns = "S(1) is a roll", "S(½)² is S(1)", "length kept"
print(f"ring of {even}".ljust(22), *(c.rjust(15) for c in columns))
for treatment, roll_of_one in whole_step.items():
    h, S = (roll_matrix(even, p, nyquist=treatment) for p in (0.5, 1))
    errors = gap(S, roll_of_one), gap(h @ h, S), gap(h.T @ h, torch.eye(len(S)))
    words = [f"off by {e:.4f}" if e > 1e-10 else "yes" for e in errors]
    size = f"{treatment:6} ({len(S)} channels)"
    print(size.ljust(22), *(word.rjust(15) for word in words))
    a_roll = treatment not in ("fixed", "twist")
    assert [word == "yes" for word in words] == [a_roll] + 2 * [treatment != "cosine"]

# %% [markdown]
# Only *cosine* makes scores change when query and key move by the same amount. Here both walk on under the treatment
# that the parameter `nyquist` names:

# %%
q, k = torch.randn(2, len(roll_matrix(n, 0.0, nyquist=nyquist)))
for walk in (1.0, 0.25):
    here, moved = (
        continuous_roll(q, position + step, nyquist=nyquist)
        @ continuous_roll(k, 2 + step, nyquist=nyquist)
        for step in (0.0, walk)
    )
    print(f"{nyquist}, {n} channels: a walk by {walk:g} changes the score by", end=" ")
    print(f"{gap(moved, here):.1e}")
    assert gap(moved, here) < 1e-12 or (nyquist == "cosine" and n % 2 == 0)

# %% [markdown]
# ```{wave} continuous
# :name: wave-continuous
# One channel, moved by $p$, on an odd and an even ring. Open circles: the roll at the nearest integer position. The
# dial is the Nyquist mode of the even ring.
# ```
#
# ## A cloud of points
#
# The paper's example of data without integer positions is the point cloud. We make clouds of digits: a model gets the
# gray values at 32 of 64 pixels, each moved off its place by up to half a pixel, and these positions.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-cloud", "caption": "A digit of 8×8 pixels, and one of its four clouds of 32 points."}, "image": {"alt": "Left: a digit as squares of gray. Right: dots of the same grays, scattered between the places of the squares; half of the places are empty."}}
from rollpe_lab.training import load_dataset
from rollpe_lab.training.points import STEPS

image = load_dataset("digits").test.images[3, 0]
cloud = load_dataset("points").test.images[4 * 3].flatten(1)
gray, positions = cloud[0], cloud[1:].T / STEPS  # [32], [32, 2]: row and column
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
# The models were trained with real positions and with rounded ones, at the best of three learning rates, chosen by one
# run (`plans/points-rates.yaml`, `plans/points.yaml`).

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
# - **Real positions help RoPE and both rings.** Rounding costs about three points. After the correction for the plan's
#   nine comparisons, one of the four losses is clear and three are open.
# - **Every difference between RoPE and rings is open.** The plan predicted equal rings, which five runs do not show
#   within two points, and a gain of RoPE by waves of 2 to 16, where its mean is lower.
# - **The interpolated table is far behind**, and its runs scatter.

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
# Every difference between RoPE and rings is open.
pairs = (ring, rope), (twist, rope), (twist, ring), (short, rope), (ring, short)
assert {verdict(*pair) for pair in pairs} == {"open"} and mean(short) < mean(rope)
# The interpolated table is far behind, and its runs scatter.
assert most(table) < min(least(ring), least(twist)) and least(table) < 55
assert most(table) > 70

# %% [markdown]

# ## Exercise
#
# ```{exercise}
# :label: exercise-continuous-wavelength
# With $\lambda$ positions to a step, the ring is back at its start after $\lambda n$ positions. A row has 64 patches and
# the ring 31 channels. Choose $\lambda$ such that no two offsets, with their signs, give the same roll.
# ```
#
# ```{solution} exercise-continuous-wavelength
# :class: dropdown
# The 127 offsets from $-63$ to $63$ are told apart if the period $\lambda n$ is at least 127, so $\lambda \ge 127/31$.
# With $\lambda = 1$ the period would be 31.
# ```

# %% tags=["hide-cell"]
offsets = torch.arange(-63.0, 64.0)


def closest(stretch):
    """The smallest distance of the rolls by any two offsets."""
    rolls = roll_matrix(31, offsets, stretch).flatten(1)
    apart = torch.cdist(rolls, rolls)
    return apart.fill_diagonal_(torch.inf).min().item()


assert closest(126 / 31) < 1e-5 < 0.1 < closest(127 / 31)
