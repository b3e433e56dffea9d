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
# # RollPE and RoPE
#
# Attention by itself ignores where a token is. RollPE (`roll`) encodes the position by moving the channels of every
# query and key around a ring, at position $p$ by $p$ places. RoPE encodes it by rotating pairs of channels, by angles
# that grow with $p$. The paper says that the first is an instance of the second (Sec. 3, Theorem 1), because a Fourier
# transform turns rolls into rotations {cite}`rollpe`. This page answers three questions:
#
# - **How can reordering channels be a rotation?** Write the channels as a sum of waves. A roll then rotates each wave
#   by its own angle.
# - **Does the theorem hold?** The central identity is correct; the proof fails for even rings, the ones that people
#   use. There RollPE is RoPE in a space with two more channels.
# - **What sets the two apart?** Their frequencies. RollPE's are equally spaced, RoPE's are powers of one number.
#
# Two encodings that compute the same functions can still train differently: {doc}`07b-twin` takes up that question.

# %% tags=["parameters"]
n: int = 16  # channels on the ring [12..32]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import numpy as np
import torch

from rollpe import figures
from rollpe.agree import agree, gap
from rollpe.operators import (
    continuous_roll,
    embed_in_rope,
    generator,
    real_fourier_basis,
    ring_frequencies,
    roll,
    roll_matrix,
    rotation_form,
    shift_matrix,
)
from rollpe.textbook import rope, rope_frequencies, rotation_matrix

figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ## Four channels, by hand
#
# Rolling four numbers rotates a point in a plane. To see it, take a ring of four channels that holds $(10, 20, 30, 40)$
# and describe it by four other numbers: the sum $s$ of all channels, the alternating sum $t = x_0 - x_1 + x_2 - x_3$,
# and the differences of opposite channels, $a = x_0 - x_2$ and $b = x_3 - x_1$. Then roll by one step and compute them
# again:
#
# | | channels | $s$ | $t$ | $(a, b)$ |
# | --- | --- | --- | --- | --- |
# | before | 10 20 30 40 | 100 | $-20$ | $(-20, 20)$ |
# | one step | 20 30 40 10 | 100 | $20$ | $(-20, -20)$ |
# | two steps | 30 40 10 20 | 100 | $-20$ | $(20, -20)$ |
#
# The sum stays the same. The alternating sum changes its sign at each step. The point $(a, b)$ visits the corners of a
# square: every step is a quarter turn, $(a, b) \mapsto (-b, a)$. This is a rotation as in RoPE.

# %%
numbers = torch.tensor(
    [
        [1, 1, 1, 1],  # s
        [1, -1, 1, -1],  # t
        [1, 0, -1, 0],  # a
        [0, -1, 0, 1],  # b
    ]
)
x = torch.tensor([10, 20, 30, 40])
rows = [(numbers @ roll(x, p)).tolist() for p in range(3)]
print(*rows, sep="\n")
assert rows == [
    [100, -20, -20, 20],
    [100, 20, -20, -20],
    [100, -20, 20, -20],
]

# %% [markdown]
# ## The same for every ring
#
# These four numbers are a Fourier transform in real form. A longer ring has more waves, each with a cosine and a sine
# part, and one step rotates wave $k$ by an angle of its own, its frequency:
#
# $$
# \omega_k = \frac{2\pi k}{\lambda n}, \qquad k = 0, \dots, \lfloor \tfrac n2 \rfloor
# $$ (eq-ring-frequencies)
#
# Cosines and sines become the columns of an orthogonal matrix. The constant wave follows and, for even $n$, the
# alternating pattern:
#
# $$
# \begin{gathered} Q = \sqrt{\tfrac 2n} \Bigl[ \cos \tfrac{2\pi k i}{n},\; -\sin \tfrac{2\pi k i}{n} \Bigr]_{k=1}^{\lfloor (n-1)/2 \rfloor} \\
# \Bigl[ \tfrac{1}{\sqrt n} \Bigr] \Bigl[ \tfrac{(-1)^i}{\sqrt n} \Bigr]_{n \text{ even}}, \qquad Q^\top Q = I \end{gathered}
# $$ (eq-real-basis)
#
# In this basis the roll consists of plane rotations, plus one or two single channels. From here to {prf:ref}`thm-rope`
# let $\lambda = 1$, and let positions be integers:
#
# $$
# \begin{aligned} Q^\top S^p Q = {} & \bigoplus_{k=1}^{\lfloor (n-1)/2 \rfloor} \begin{bmatrix} \cos \omega_k p & -\sin \omega_k p \\ \sin \omega_k p & \cos \omega_k p \end{bmatrix} \\
# & \oplus 1 \;\bigl( \oplus\, (-1)^p \text{ for even } n \bigr) \end{aligned}
# $$ (eq-rotary-form)

# %%
p = 3
Q, omega = real_fourier_basis(n)
S = torch.linalg.matrix_power(shift_matrix(n), p)
left_over = [1.0] if n % 2 else [1.0, (-1.0) ** p]
rotary = torch.block_diag(
    rotation_matrix(p * omega),
    torch.diag(torch.tensor(left_over)),
)
agree("Q is orthogonal", Q.T @ Q, torch.eye(n))
agree("rotations", Q.T @ S @ Q, rotary)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-two-bases", "caption": "One roll in two bases. Left: three steps on the channels of the ring, a permutation. Right: the same three steps on its waves: planes that rotate at different speeds, and the single channels in the lower right corner."}, "image": {"alt": "Two square matrices as heat maps. The left one has a single one in every row, on a diagonal that wraps around. The right one is zero except for two by two blocks along the diagonal and one or two single entries at its end; for an even ring the last one is negative."}}
fig, axes = plt.subplots(1, 2, figsize=(6.6, 3.3))
for ax, matrix, title, what in (
    (axes[0], S, "on channels", "channel"),
    (axes[1], Q.T @ S @ Q, "on waves", "coordinate"),
):
    shown = ax.imshow(matrix, cmap=figures.DIVERGING, vmin=-1, vmax=1)
    ax.set(
        title=title,
        xlabel=f"{what} before",
        ylabel=f"{what} after",
        xticks=[],
        yticks=[],
    )
for k in range(len(omega)):
    axes[1].add_patch(
        plt.Rectangle(
            (2 * k - 0.5, 2 * k - 0.5),
            2,
            2,
            fill=False,
            color=figures.ON_PALE,
            linewidth=0.6,
        )
    )
for at in range(2 * len(omega), n):
    axes[1].add_patch(
        plt.Rectangle(
            (at - 0.5, at - 0.5), 1, 1, fill=False, color=figures.ON_PALE, linewidth=1.4
        )
    )
fig.colorbar(shown, ax=axes, label="entry of the matrix", shrink=0.8, ticks=[-1, 0, 1])
plt.close(fig)
fig

# %% [markdown]
# The right panel of {numref}`fig-two-bases` is RoPE's matrix, except for its last corner: the single channels do not
# rotate. That corner decides whether the theorem holds.
#
# The score of a query and a key is a sum of waves as well. Query and key set the strength and the phase of each wave;
# the ring sets how fast it oscillates with the offset $\Delta$. A hat is the Fourier transform, as in
# {eq}`eq-correlation`, and waves are numbered by $m$, since $k$ is the key:
#
# $$
# \begin{gathered} q^\top S^\Delta k = \sum_{m=0}^{\lfloor n/2 \rfloor} w_m \operatorname{Re}\!\left( \overline{\hat q_m} \, \hat k_m \, e^{\mathrm{i} \omega_m \Delta} \right), \\
# w_m = \begin{cases} 1 & m \in \{0, \tfrac n2\} \\ 2 & \text{otherwise} \end{cases} \end{gathered}
# $$ (eq-score-waves)

# %%
q, k = torch.randn(2, n)
delta = torch.arange(-n, n + 1)
omega = ring_frequencies(n)
q_hat, k_hat = (torch.fft.rfft(x, norm="ortho") for x in (q, k))
weight = torch.full((len(omega),), 2.0)
weight[0] = 1
if n % 2 == 0:
    weight[-1] = 1
waves = torch.exp(1j * delta[:, None] * omega)
score = (weight * q_hat.conj() * k_hat * waves).real.sum(dim=1)
agree("score as waves", score, roll(k, delta) @ q)

# %% [markdown]
# ## What Theorem 1 should say
#
# The paper calls its diagonal matrix (Eq. 7) "equivalent to a RoPE matrix". RoPE on $n$ channels consists of plane
# rotations alone {cite}`su2024roformer`, and a rotation never mirrors. An odd roll of an even ring does, so for even
# $n$ it is not RoPE in any basis. The determinant shows it, since no change of basis alters it:
#
# $$
# \begin{gathered} \det \bigoplus_i R(\theta_i p) = 1 \neq -1 = \det S^p \\
# (n \text{ even},\ p \text{ odd}) \end{gathered}
# $$ (eq-not-rope)
#
# The theorem holds with a little more room. Give the constant wave a second channel that stays zero, and do the same
# for the alternating pattern. Each of them is then a plane, too: the first rotates by 0, the second by $\pi$ at every
# step, so it points forward or backward. The map $E$ writes a vector in these coordinates:
#
# $$
# \begin{gathered} E : \mathbb{R}^n \to \mathbb{R}^{2 (\lfloor n/2 \rfloor + 1)}, \qquad \|E x\| = \|x\|, \\
# (E x)_m = \sqrt{w_m} \left( \operatorname{Re} \hat x_m, \operatorname{Im} \hat x_m \right), \\
# w_m = \begin{cases} 1 & m \in \{0, \tfrac n2\} \\ 2 & \text{otherwise} \end{cases} \end{gathered}
# $$ (eq-embedding)
#
# ```{prf:theorem} RollPE embeds in RoPE
# :label: thm-rope
# Let all positions be integers. The RollPE score of $q$ and $k$, before the division by $\sqrt d$, is the RoPE score of
# $Eq$ and $Ek$ with the frequencies $\omega_m = 2\pi m/n$, in $n + 1$ dimensions for odd $n$ and in $n + 2$ for even
# $n$. (The division must remain that of the ring.) For odd $n$ this holds for all real positions and any wavelength.
# For even $n$ no linear maps $E_q$ of queries and $E_k$ of keys into $n$ dimensions do the same, whether they are equal
# or not.
# ```
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p_q}(q)^\top \mathrm{Roll}_{p_k}(k) = \bigl( R_{p_q} E q \bigr)^\top R_{p_k} E k, \\
# & R_p = \bigoplus_{m=0}^{\lfloor n/2 \rfloor} R(\omega_m p), \\
# & p \in \mathbb{Z} \ (p \in \mathbb{R} \text{ for odd } n) \end{aligned}
# $$ (eq-theorem)
#
# ```{prf:proof}
# The Fourier coefficients of a real vector come in conjugate pairs, so half of them suffice. The weights $w_m$ count
# the missing half, so $E$ keeps inner products. A roll by $p$ multiplies coefficient $m$ by $e^{\mathrm{i} \omega_m
# p}$, which rotates its real and imaginary part by $\omega_m p$. The extra channels stay zero, because the factor is
# real there: 1 for $m = 0$, and $(-1)^p$ for $m = n/2$ at integer $p$. Hence $E\, \mathrm{Roll}_p(x) = R_p E x$, which
# proves the formula.
#
# Now let $n$ be even, and let $E_q$ and $E_k$ be any $n \times n$ matrices for which the formula holds. With both
# positions 0 it says $E_q^\top E_k = I$, so $E_q^\top = E_k^{-1}$. With $p_q = 0$ and $p_k = 1$ it then says $S =
# E_k^{-1} R_1 E_k$, so $S$ and $R_1$ have the same determinant, which contradicts {eq}`eq-not-rope`.
# ```


# %%
def rope_scores(q, k, positions, wavelength=1.0):
    """RoPE on the embedded vectors, with the ring's frequencies."""
    omega = ring_frequencies(q.shape[-1], wavelength)
    q, k = embed_in_rope(q), embed_in_rope(k)
    return rope(q, positions, omega) @ rope(k, positions, omega).T


positions = torch.tensor([0, 1, 5, 12, -3])
q, k = torch.randn(2, 5, n)
print(f"{n} channels on the ring, {embed_in_rope(q).shape[-1]} in RoPE")
rolled = roll(q, positions) @ roll(k, positions).T
agree("integer positions", rope_scores(q, k, positions), rolled)

odd, wavelength, positions = n - 1 + n % 2, 1.7, torch.randn(5)
q, k = torch.randn(2, 5, odd)
rolled_q = continuous_roll(q, positions, wavelength)
rolled_k = continuous_roll(k, positions, wavelength)
found = rope_scores(q, k, positions, wavelength)
agree(f"real positions, n = {odd}", found, rolled_q @ rolled_k.T)

# %% [markdown]
# In {numref}`wave-score` compare the first two curves: the RoPE of the theorem passes through all points of the roll.
# The other curves are different kinds of score, from the same query and the same key.
#
# ```{wave} score
# :name: wave-score
# Scores of one query and one key, over $\sqrt n$, against the offset $\Delta$ of the key; 16 channels. Roll and the
# RoPE of the theorem, with the ring's equally spaced frequencies, repeat after 16 offsets (dotted lines). RoPE with its
# own frequencies, powers of one number, does not. When the query moves with $p$ and $\Delta$ is kept, only one curve
# changes: the multiplexed one of {doc}`08-multiplexed`, which is not relative. The last curve is the sinusoidal code
# against itself, without query and key.
# ```
#
# The paper argues in another way. The roll is the exponential of a skew-symmetric matrix; LieRE
# {cite}`ostmeier2024liere` allows any such matrix; and for one-dimensional positions LieRE is RoPE in some basis
# {cite}`vandegeijn2025circular`. The last step is correct: every skew-symmetric matrix generates plane rotations.
#
# $$
# \begin{gathered} \mathcal{A}^\top = -\mathcal{A} \quad \Longrightarrow \\
# e^{p \mathcal{A}} = V \Bigl( \bigoplus_i R(\omega_i p) \; (\oplus\, 1) \Bigr) V^\top, \\
# V^\top V = I, \qquad \pm \mathrm{i} \omega_i \in \operatorname{spec} \mathcal{A} \end{gathered}
# $$ (eq-lie-form)
#
# The first step fails for even $n$, as {doc}`06-continuous` shows, but it can be repaired: take the real generator that
# leaves the alternating pattern (the Nyquist mode) at rest, in the library `continuous-roll`. It *is* RoPE, on $n$
# channels, with a plane of frequency 0 made of the two single channels. The price is that it is not quite the roll.
#
# The theorem covers one axis. With two axes, each has its own ring and its own rotations. It does not cover multiplexed
# RollPE ({doc}`08-multiplexed`), whose scores are not relative and therefore not RoPE's.

# %%
V, turning = rotation_form(generator(n))
planes = rotation_matrix(0.3 * turning)
planes = torch.block_diag(planes, torch.eye(n % 2))
agree("App. F", V @ planes @ V.T, roll_matrix(n, 0.3))
print("frequencies × n/2π:", (turning * n / (2 * math.pi)).numpy() + 0.0)

# %% [markdown]
# ## The frequencies
#
# So RollPE is a RoPE with unusual frequencies: they grow by equal steps, and RoPE's by equal factors.
#
# $$
# \begin{gathered} \omega_{k+1} - \omega_k = \frac{2\pi}{\lambda n}, \\
# \frac{\theta_{k+1}}{\theta_k} = 10000^{-2/d} \end{gathered}
# $$ (eq-spectra)
#
# The introduction *circles* rejects equal steps as too slow {cite}`teaching-circles`. The paper remarks that both
# formulas can be made to look alike by a certain wavelength:
#
# $$
# \begin{gathered} \lambda = -\frac{\pi}{\ln 10000} \quad \Longrightarrow \\
# \frac{2\pi k}{\lambda n} = \ln\!\left( 10000^{-2k/n} \right) \end{gathered}
# $$ (eq-lambda)
#
# The algebra is correct, but it equates an exponent with a frequency: RollPE's frequency is the *logarithm* of RoPE's.
# The wavelength is also short, about a third of a position per step. Most waves then rotate by more than half a circle
# from one patch to the next, and at integer positions such a wave looks like a slower one, as a wagon wheel does on
# film:
#
# $$
# \begin{gathered} |\omega_k| = \frac{2k}{n} \ln 10000 > \pi \\
# \Longleftrightarrow \quad k > \frac{\pi n}{2 \ln 10000}, \\
# n = 32,\ k < \tfrac n2:\ k = 6, \dots, 15 \end{gathered}
# $$ (eq-lambda-aliased)

# %%
d, short = 32, -math.pi / math.log(10000)
theta = rope_frequencies(d)
stretched = ring_frequencies(d, short)[: d // 2]
agree("the exponents match", stretched, theta.log())
off = gap(stretched.abs(), theta)
print(f"λ = {short:.3f}; the frequencies differ by up to {off:.2f}")
aliased = (stretched.abs() > math.pi).nonzero().flatten().tolist()
print(f"{len(aliased)} of {d // 2} frequencies exceed π: k =", *aliased)
slow = torch.remainder(stretched + math.pi, 2 * math.pi) - math.pi
whole = torch.arange(-50, 51)[:, None]
seen, same = (torch.exp(1j * whole * w) for w in (stretched, slow))
agree("the same at integer positions", seen, same)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-spectra", "caption": "The frequencies of RoPE with two bases and of RollPE with two wavelengths, all on 32 channels, without RollPE’s constant wave, k = 0, and, for the short wavelength, without its Nyquist mode. The trained axial RoPE of this book has base 100. In the shaded range a wave rotates by more than half a circle from one integer position to the next; open dots are aliased."}, "image": {"alt": "Four rows of dots along a logarithmic frequency axis. RoPE with base 10000 spreads its dots evenly from 0.0002 to 1, with base 100 from a little above one hundredth to 1. RollPE crowds its dots at the high end, from about 0.2 up to pi. RollPE with the short wavelength has its dots between about 0.6 and 9, and most of them are open dots in the shaded range above pi."}}
rows = (
    ("RoPE, base 10000", theta, figures.BLUE),
    ("RoPE, base 100", rope_frequencies(d, 100), figures.SKY),
    ("RollPE, λ = 1", ring_frequencies(d)[1:], figures.VERMILION),
    ("RollPE,\nλ = −π/ln 10000", stretched[1:].abs(), figures.ORANGE),
)
fig, ax = plt.subplots(figsize=(7.0, 3.2))
ax.axvspan(math.pi * 1.06, 20, color=figures.MUTED, alpha=0.18, linewidth=0)
for row, (name, frequencies, color) in enumerate(rows):
    fast = frequencies > math.pi + 1e-9
    ax.plot(
        frequencies[~fast],
        np.full(int((~fast).sum()), row),
        "o",
        color=color,
        markersize=6,
        label=name,
    )
    ax.plot(
        frequencies[fast],
        np.full(int(fast.sum()), row),
        "o",
        color=color,
        markersize=6,
        fillstyle="none",
        label=f"{name}, aliased",
    )
ax.text(8, -0.2, "aliased", ha="center", color=figures.INK, fontsize=9)
ax.set(
    xscale="log",
    xlim=(1e-4, 20),
    ylim=(3.6, -0.6),
    xlabel="frequency (radians per position)",
)
ax.set_yticks(range(len(rows)), [row[0] for row in rows])
ax.tick_params(axis="y", length=0)
top = ax.secondary_xaxis(
    "top",
    functions=(
        lambda f: 2 * np.pi / np.maximum(f, 1e-12),
        lambda w: 2 * np.pi / np.maximum(w, 1e-12),
    ),
)
top.set_xlabel("period (positions)")
top.spines["top"].set_visible(True)
plt.close(fig)
fig

# %% [markdown]
# Read {numref}`fig-spectra` by the upper axis. RoPE has a few waves that separate neighbors and many that barely change
# across any image. With base 100, which is why RoPE for images uses it ({doc}`04-rotary`), there are fewer of those;
# the slowest is still hundreds of positions long. All of RollPE's waves fit on the ring, and the longest goes around
# exactly once. The wavelength of {eq}`eq-lambda` gives yet another code, and an aliased one.
#
# ```{wave} frequencies
# :name: wave-frequencies
# Above: the frequencies of RoPE with base 10000 and of RollPE with wavelength $\lambda$. At integer positions those in
# the shaded range, beyond $\pi$, look like the slower ones that their lines lead to. Below: one of them as a wave
# (thin), and the slow wave that goes through the same points (dashed).
# ```
#
# ```{admonition} In short
# :class: tip
# - In the Fourier basis a roll rotates planes, as RoPE does.
# - On $n$ channels RollPE is not RoPE for even $n$, {eq}`eq-not-rope`. In $n + 2$ dimensions ($n + 1$ for odd $n$) its
#   scores are those of a RoPE, {eq}`eq-theorem`.
# - Its frequencies are equally spaced; RoPE's are powers of one number. The wavelength that makes both formulas look
#   alike matches exponents, not frequencies.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rope-wavelength
# Choose $\lambda$ such that RollPE's fastest wave is as fast as RoPE's. How long is its slowest wave at 32 channels,
# compared with RoPE's?
# ```
#
# ```{solution} exercise-rope-wavelength
# :class: dropdown
# The Nyquist mode does not count, since it is at rest unless it is treated otherwise ({doc}`06-continuous`). The
# fastest wave that moves at fractions of a step is the one below it, $\omega_{n/2-1} = 2\pi(\tfrac n2 - 1)/(\lambda
# n)$. RoPE's has frequency 1, so at 32 channels $\lambda = \tfrac{15}{16}\pi$. The slowest wave then has a period of
# $\lambda n = 30\pi$, a little over ninety positions. RoPE's has one of $2\pi \cdot 10000^{30/32}$, tens of thousands.
# ```

# %% tags=["hide-cell"]
wavelength = 15 * math.pi / 16
waves, theta = ring_frequencies(32, wavelength), rope_frequencies(32)
turning = rotation_form(generator(32) / wavelength)[1]
periods = {
    "RollPE": 2 * math.pi / waves[1].item(),
    "RoPE": 2 * math.pi / theta[-1].item(),
}
for name, period in periods.items():
    print(f"{name}: {period:.0f} positions")
fastest = torch.stack((waves[15], turning.abs().max()))
agree("as fast as RoPE's fastest", fastest, theta[:1].expand(2))
assert math.isclose(periods["RollPE"], 30 * math.pi)
assert periods["RoPE"] > 30_000
