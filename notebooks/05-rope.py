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
# RollPE moves the channels of queries and keys around a ring. RoPE rotates pairs of channels by angles that grow with
# the position. Is the first an instance of the second, as the paper says (Sec. 3, Theorem 1) {cite}`rollpe`? Written as
# a sum of waves, a roll rotates each wave by its own angle, so on odd rings RollPE is RoPE. A step of an even ring
# contains a reflection; one reversed sign, or one more channel, turns it into rotations. The two encodings then differ
# in their angles only: equally spaced in RollPE, powers of one number in RoPE.

# %% tags=["parameters"]
n: int = 16  # channels on the ring [12..32]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import numpy as np
import torch

from rollpe_book import figures
from rollpe_book.agree import agree, differs, holds
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ## Four channels, by hand
#
# Take a ring of four channels that holds $(10, 20, 30, 40)$. Describe it by four other numbers: the sum $s$ of all
# channels, the alternating sum $t = x_0 - x_1 + x_2 - x_3$, and the differences of opposite channels, $a = x_0 - x_2$
# and $b = x_3 - x_1$. Roll by one step and compute them again:
#
# | | channels | $s$ | $t$ | $(a, b)$ |
# | --- | --- | --- | --- | --- |
# | before | 10 20 30 40 | 100 | $-20$ | $(-20, 20)$ |
# | one step | 20 30 40 10 | 100 | $20$ | $(-20, -20)$ |
# | two steps | 30 40 10 20 | 100 | $-20$ | $(20, -20)$ |
#
# The sum stays the same. The alternating sum changes its sign. The point $(a, b)$ visits the corners of a square: each
# step is a quarter turn $(a, b) \mapsto (-b, a)$ and thus a rotation as in RoPE.

# %%
x = torch.tensor([10.0, 20.0, 30.0, 40.0])
for p in range(3):
    y = x.roll(-p)
    s, t = y.sum(), y[0] - y[1] + y[2] - y[3]
    a, b = y[0] - y[2], y[3] - y[1]
    print(f"{p} steps: s = {s:.0f}, t = {t:.0f}, (a, b) = ({a:.0f}, {b:.0f})")

# %% [markdown]
# ## A vector on a ring is a sum of waves
#
# The four numbers are a *Fourier transform*. Any vector on a ring of $n$ channels is a sum of $n$ waves, or modes. Mode
# $k$ is $e^{2\pi \mathrm{i} kj/n}$ at channel $j$: it goes up and down $k$ times around the ring. Its coefficient $\hat
# x_k$, the product of the vector with the wave's conjugate, says how strong the wave is (its modulus) and where it
# crests (its angle). The matrix $F$ computes the coefficients, and its conjugate transpose $F^*$ adds the waves up
# again:
#
# $$
# \hat x = F x, \qquad F_{kj} = \tfrac{1}{\sqrt{n}} \, e^{-2\pi \mathrm{i} kj/n}, \qquad F^* F = I
# $$ (eq-dft)
#
# A step moves each wave by one channel. This multiplies its coefficient by a number on the unit circle (the paper's Eq.
# 13):
#
# $$
# S = F^* \operatorname{diag}\bigl( e^{2\pi \mathrm{i} k/n} \bigr)_{k=0}^{n-1} F
# $$ (eq-diagonal)

# %%
from rollpe.ring import fourier_matrix, shift_matrix

j = torch.arange(4)
F = torch.exp(-2j * math.pi * torch.outer(j, j) / 4) / math.sqrt(4)
x_hat = F @ (x + 0j)
print("2 x̂ =", (2 * x_hat).numpy().round() + 0, "= s, a + ib, t, a − ib")

S = F.mH @ torch.diag(torch.exp(2j * math.pi * j / 4)) @ F
agree("eq-dft", [fourier_matrix(4), F.mH @ x_hat], [F, x + 0j])
agree("eq-diagonal", S, shift_matrix(4) + 0j)

# %% tags=["hide-input"]
sizes = (1, 2, 7, n)
Fs, units = [fourier_matrix(m) for m in sizes], [torch.eye(m) for m in sizes]
agree("eq-dft", Fs, [torch.fft.fft(unit, norm="ortho") for unit in units])
agree("eq-dft", [F.mH @ F for F in Fs], [unit + 0j for unit in units])
factors = [torch.exp(2j * math.pi * torch.arange(m) / m) for m in sizes]
steps = [F.mH @ torch.diag(z) @ F for F, z in zip(Fs, factors, strict=True)]
agree("eq-diagonal", steps, [shift_matrix(m) + 0j for m in sizes])

# %% [markdown]
# The factors are $1, \mathrm{i}, -1, -\mathrm{i}$: $s$ stays, $a + \mathrm{i}b$ and its conjugate make quarter turns,
# and $t$ changes its sign.
#
# ## The same for every ring
#
# Coefficients $k$ and $n - k$ of a real vector are conjugate, so half of them suffice. One position turns mode $k$ by
# its *frequency*,
#
# $$
# \omega_k = \frac{2\pi k}{\lambda n}, \qquad k = 0, \dots, \lfloor \tfrac n2 \rfloor
# $$ (eq-ring-frequencies)
#
# where $\lambda$ is the number of positions for one step, 1 if not said otherwise.

# %% tags=["hide-input"]
from rollpe.encodings import frequencies

found = [frequencies.ring(m, 2.5) for m in sizes]  # λ = 2.5
expected = [2 * math.pi * torch.fft.rfftfreq(m, 2.5) for m in sizes]
agree("eq-ring-frequencies", found, expected)
turns, omega = torch.linalg.eigvals(shift_matrix(n)).angle(), frequencies.ring(n)
both = torch.cat((omega, omega[1 : (n + 1) // 2]))  # of k and n − k
agree("eq-ring-frequencies", turns.abs().sort()[0], both.sort()[0])

# %% [markdown]
# In real numbers, cosines and sines
# become the columns of an orthogonal matrix, followed by the constant wave and, for even $n$, the alternating pattern:
#
# $$
# \begin{gathered} Q = \sqrt{\tfrac 2n} \Bigl[ \cos \tfrac{2\pi k i}{n},\; -\sin \tfrac{2\pi k i}{n} \Bigr]_{k=1}^{\lfloor (n-1)/2 \rfloor} \\
# \Bigl[ \tfrac{1}{\sqrt n} \Bigr] \Bigl[ \tfrac{(-1)^i}{\sqrt n} \Bigr]_{n \text{ even}}, \qquad Q^\top Q = I \end{gathered}
# $$ (eq-real-basis)
#
# In this basis a roll consists of rotations in planes and one or two single channels:
#
# $$
# \begin{aligned} Q^\top S^p Q = {} & \bigoplus_{k=1}^{\lfloor (n-1)/2 \rfloor} \begin{bmatrix} \cos \omega_k p & -\sin \omega_k p \\ \sin \omega_k p & \cos \omega_k p \end{bmatrix} \\
# & \oplus 1 \;\bigl( \oplus\, (-1)^p \text{ for even } n \bigr) \end{aligned}
# $$ (eq-rotary-form)

# %%
i, k = torch.arange(n)[:, None], torch.arange(1, (n + 1) // 2)
omega = 2 * math.pi * k / n
waves = torch.stack((torch.cos(omega * i), -torch.sin(omega * i)), dim=-1).flatten(1)
singles = torch.cat((i**0, (-1) ** i), dim=1)[:, : 2 - n % 2]
Q = torch.cat((math.sqrt(2 / n) * waves, singles / math.sqrt(n)), dim=1)

# %% tags=["hide-input"]
from rollpe.formulas import rotation_matrix
from rollpe.ring import real_fourier_basis, roll_matrix

two = torch.tensor([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)  # of a ring of two
found = [real_fourier_basis(n)[0], Q.T @ Q, real_fourier_basis(2)[0]]
agree("eq-real-basis", found, [Q, torch.eye(n), two])


# %%
def rotary(p):
    last = torch.tensor([1.0, (-1.0) ** p])[: 2 - n % 2]
    return torch.block_diag(rotation_matrix(p * omega), torch.diag(last))


# %%
p, power = 3, torch.linalg.matrix_power
S = power(shift_matrix(n), p)
found = [Q.T @ S @ Q, Q.T @ power(S, -3) @ Q]
agree("eq-rotary-form", found, [rotary(3), rotary(-9)])
half = torch.block_diag(rotation_matrix(omega / 2), torch.eye(2 - n % 2))  # at p = ½
agree("eq-rotary-form", Q.T @ roll_matrix(n, 0.5) @ Q, half)

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
# The right panel of {numref}`fig-two-bases` is a matrix of RoPE, except for the single channels in the last corner.
#
# The score is a sum of waves as well. Query and key set the strength and the phase of each wave; the ring sets how fast
# the wave oscillates with the offset $\Delta$. Here waves are numbered by $m$, because $k$ is the key; the weight
# $w_m = 2$ counts wave $n - m$, too:
#
# $$
# \begin{gathered} q^\top S^\Delta k = \sum_{m=0}^{\lfloor n/2 \rfloor} w_m \operatorname{Re}\!\left( \overline{\hat q_m} \, \hat k_m \, e^{\mathrm{i} \omega_m \Delta} \right), \\
# w_m = \begin{cases} 1 & m \in \{0, \tfrac n2\} \\ 2 & \text{otherwise} \end{cases} \end{gathered}
# $$ (eq-score-waves)

# %%
from rollpe.ring import roll

q, k = torch.randn(2, n)
delta, m = torch.arange(-n, n + 1)[:, None], torch.arange(n // 2 + 1)
w = torch.where((m == 0) | (2 * m == n), 1.0, 2.0)
q_hat, k_hat = ((fourier_matrix(n) @ (x + 0j))[m] for x in (q, k))
waves = torch.exp(2j * math.pi * m / n * delta)
score = (w * q_hat.conj() * k_hat * waves).real.sum(dim=1)
agree("eq-score-waves", roll(k, delta[:, 0]) @ q, score)

# %% [markdown]
# ## Even rings contain a reflection
#
# RoPE on $n$ channels consists of rotations in planes {cite}`su2024roformer`, and a rotation has determinant 1. A step
# of an even ring has determinant $-1$, {eq}`eq-determinant`. A change of basis does not alter determinants, so RollPE
# on an even ring is not RoPE in any basis:
#
# $$
# \begin{gathered} \det \bigoplus_i R(\theta_i p) = 1 \neq -1 = \det S^p \\
# (n \text{ even},\ p \text{ odd}) \end{gathered}
# $$ (eq-not-rope)

# %% tags=["hide-input"]
even = n + n % 2
R = rotation_matrix(5 * torch.randn(even // 2))  # p = 5
B = torch.linalg.qr(torch.randn(even, even))[0] * (0.5 + torch.rand(even))
in_a_basis, step = torch.linalg.inv(B) @ R @ B, power(shift_matrix(even), 5)
agree("eq-not-rope", [in_a_basis.det(), step.det()], [1, -1], 1e-11)

# %% [markdown]
# On two channels a step is the exchange $(x, y) \mapsto (y, x)$, a reflection. A single reflection has no real square
# root, because the square of a real determinant is not negative. So there is no half step. Reverse one sign:
# $(x, y) \mapsto (y, -x)$ is a quarter turn, and its half is an eighth of a turn.
#
# ## One sign
#
# On every even ring, let the channel that leaves at one end come back with its sign reversed. Signal processing calls
# this the negacyclic shift. We call it the *twisted ring*, because it closes like a Möbius strip. For odd $n$ nothing
# changes.
#
# $$
# \begin{gathered} (N x)_i = x_{i+1} \quad (i < n - 1), \\
# (N x)_{n-1} = (-1)^{n-1} x_0, \qquad \det N = 1 \end{gathered}
# $$ (eq-twisted-shift)

# %%
from rollpe.ring import twisted_roll, twisted_shift

xs, Ns = [torch.randn(m) for m in sizes], [twisted_shift(m) for m in sizes]
moved = [torch.cat((x[1:], (-1) ** (len(x) - 1) * x[:1])) for x in xs]
agree("eq-twisted-shift", [N @ x for N, x in zip(Ns, xs, strict=True)], moved)
agree("eq-twisted-shift", [twisted_roll(x, 1) for x in xs], moved)
agree("eq-twisted-shift", [N.det() for N in Ns], torch.ones(4))

# %% [markdown]
# The waves that fit on this ring are $e^{2\pi \mathrm{i} m j/n}$ with $m$ from $-\tfrac{n-1}{2}$ to $\tfrac{n-1}{2}$ in
# steps of 1: integers for odd $n$ and halves of odd numbers for even $n$. One step multiplies wave $m$ by
# $e^{2\pi \mathrm{i} m/n}$. For a real position $p$ let $N(p)$ multiply it by $e^{2\pi \mathrm{i} m p/n}$:
#
# $$
# N(p)_{jl} = \frac{1}{n} \sum_{m = -\frac{n-1}{2}}^{\frac{n-1}{2}} e^{2\pi \mathrm{i} m t/n}
# = \frac{\sin \pi t}{n \sin(\pi t/n)}, \qquad t = p + j - l
# $$ (eq-twisted-roll)
#
# ```{prf:theorem} RollPE with a twist is RoPE
# :label: thm-twist
# For every $n$ and all real $p$, $p'$:
# 1. $N(p)$ is real, $N(1) = N$, and $N(p) N(p') = N(p + p')$.
# 2. $N(p)$ keeps lengths, and $N(p)^\top N(p') = N(p' - p)$: scores depend on the offset alone.
# 3. In an orthonormal basis $\tilde Q$ it rotates $\lfloor n/2 \rfloor$ planes, {eq}`eq-twisted-rope`. For even $n$
#    these are all channels. For odd $n$ one channel stays, and $N = S$.
# ```
#
# $$
# \begin{gathered} \tilde Q^\top N(p) \, \tilde Q = \bigoplus_{m > 0} R\!\left( \tfrac{2\pi m}{n} p \right) \; (\oplus\, 1 \text{ for odd } n), \\
# \tfrac{2\pi m}{n} = \tfrac{\pi}{n}, \tfrac{3\pi}{n}, \dots, \tfrac{(n-1)\pi}{n} \quad (n \text{ even}) \end{gathered}
# $$ (eq-twisted-rope)
#
# ```{prf:proof}
# Let $v_j = e^{2\pi \mathrm{i} m j/n}$. Each channel is $z = e^{2\pi \mathrm{i} m/n}$ times the one before. After the
# last channel comes $v_n = e^{2\pi \mathrm{i} m} v_0$, and $e^{2\pi \mathrm{i} m} = (-1)^{n-1}$, which is what $N$ puts
# there. Hence $N v = z v$, and $N(1) = N$.
#
# The $n$ waves are orthogonal: the differences of two $m$ are integers from 1 to $n - 1$, and the powers of an $n$-th
# root of unity other than 1 sum to 0. The factors add up in their exponents and have modulus 1, so
# $N(p) N(p') = N(p + p')$, and $N(p)$ keeps lengths. The entries are the sum in {eq}`eq-twisted-roll`, a geometric
# series. They are real because $m$ and $-m$ occur together.
#
# The waves $m$ and $-m$ span a real plane with the basis $\cos$, $-\sin$ of $2\pi m j/n$, which $N(p)$ rotates by
# $2\pi m p/n$. Only $m = 0$ has no partner; it occurs for odd $n$, and its factor is 1.
# ```

# %%
from rollpe.ring import continuous_roll, twisted_generator, twisted_roll_matrix

j, m = torch.arange(n), torch.arange(n) - (n - 1) / 2
t = 0.3 + j[:, None] - j  # p = 0.3
N = torch.exp(2j * math.pi * m * t[..., None] / n).mean(-1)  # N(0.3)
quotient = torch.sin(math.pi * t) / (n * torch.sin(math.pi * t / n))
agree("eq-twisted-roll", [N.real, N.imag], [quotient, torch.zeros(n, n)])
agree("eq-twisted-roll", twisted_roll_matrix(n, 0.3), quotient)

# %% tags=["hide-input"]
N, p, s, x = twisted_roll_matrix, 7.3, -21.6, torch.randn(n)
found = [N(n, p) @ N(n, s), N(n, p).T @ N(n, s), N(n, 1.0)]
agree("eq-twisted-roll", found, [N(n, p + s), N(n, s - p), twisted_shift(n)], 1e-11)
agree("eq-twisted-roll", torch.matrix_exp(p * twisted_generator(n)), N(n, p), 1e-10)
found = [twisted_roll(x, -17), continuous_roll(x, p, 1.0, "twist")]
agree("eq-twisted-roll", found, [N(n, -17.0) @ x, N(n, p) @ x], 1e-11)

# %%
wave = 2 * math.pi / n * m[m > 0]
pairs = torch.stack((torch.cos(wave * i), -torch.sin(wave * i)), dim=-1).flatten(1)
single = torch.full((n, n % 2), math.sqrt(1 / n))
Q = torch.cat((math.sqrt(2 / n) * pairs, single), dim=1)
planes = torch.block_diag(rotation_matrix(0.3 * wave), torch.eye(n % 2))
agree("eq-twisted-rope", [Q.T @ quotient @ Q, Q.T @ Q], [planes, torch.eye(n)])

# %% [markdown]
# The library has this basis, its frequencies, and the encoding, `continuous-roll` with `nyquist="twist"`:

# %% tags=["hide-input"]
from rollpe.encodings import create_encoding

basis, speeds = real_fourier_basis(n, twisted=True)
library = [basis, speeds, frequencies.twisted_ring(n)]
agree("eq-twisted-rope", library, [Q, wave, wave])

# %% tags=["hide-input"]
turning = {"continuous-roll": {"nyquist": "twist"}, "twisted-roll": {}}
q, k, p = torch.randn(5, n), torch.randn(5, n), 2 * torch.arange(5)[:, None]
expected = torch.einsum("ia,ijab,jb->ij", q, N(n, p.T - p), k) / math.sqrt(n)
for name, option in turning.items():
    encoding = create_encoding(name, head_dim=n, heads=1, axes=1, **option).double()
    found = encoding.scores(q[None, None], k[None, None], p)[0, 0]
    agree("eq-twisted-rope", found, expected, 1e-10)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-twist-wheels", "caption": "How far each wave of an even ring has turned after one step, on the unit circle. Lines join partners, the two halves of a real wave. Left: the plain ring. The alternating pattern, at −1, has no partner. Right: with the twist all waves are half a place further, and all have partners."}, "image": {"alt": "Two unit circles with twelve dots each. On the left the dots include plus one and, in red, minus one; the other ten are joined in pairs by vertical lines. On the right no dot lies on the horizontal axis, and all twelve are joined in pairs."}}
ring = 12
fig, axes = plt.subplots(1, 2, figsize=(6.0, 3.0))
for ax, twist, title in zip(
    axes, (0, 0.5), ("plain ring", "twisted ring"), strict=True
):
    z = np.exp(2j * np.pi * (np.arange(ring) + twist) / ring)
    alone = abs(z + 1) < 1e-9
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.7))
    ax.axhline(0, color=figures.MUTED, linewidth=0.5)
    ax.vlines(z.real, -abs(z.imag), abs(z.imag), color=figures.BLUE, alpha=0.35)
    ax.plot(
        *z[~alone].view(float).reshape(-1, 2).T, "o", color=figures.BLUE, label="waves"
    )
    if alone.any():
        ax.plot(-1, 0, "o", color=figures.VERMILION, markersize=7, label="alternating")
        ax.text(
            -1.12, 0.1, "no partner", ha="right", fontsize=9, color=figures.VERMILION
        )
    ax.set(title=f"{title}, {ring} channels", aspect="equal", xticks=[], yticks=[])
    ax.set(xlim=(-1.9, 1.2), ylim=(-1.2, 1.2))
    ax.spines[:].set_visible(False)
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-twist-wheels` two partners form one plane. The wave without a partner keeps an even ring from being
# RoPE.
#
# After $n$ steps every channel of the twisted ring is in its place again, with its sign reversed. Two laps bring the
# sign back:
#
# $$
# f(\Delta + n) = -f(\Delta), \qquad f(\Delta) = q^\top N^\Delta k, \qquad n \text{ even}
# $$ (eq-twisted-period)
#
# So $n$ channels give the offsets from $-(n-1)$ to $n-1$ different rolls: 16 patches in a row need 16 channels instead
# of the 31 of {eq}`eq-distinct-offsets`. Offsets that are $n$ apart always have opposite scores.

# %%
q, k = torch.randn(2, even)
delta = torch.arange(1 - even, even)
f, later, twice = (twisted_roll(k, delta + laps * even) @ q for laps in range(3))
agree("eq-twisted-period", [later, twice], [-f, f])

# %%
plain, twisted = (len(move(k, delta).unique(dim=0)) for move in (roll, twisted_roll))
offsets = f"at {len(delta)} offsets: plain {plain}, twisted {twisted}"
print(f"different rolls of {even} channels {offsets}")
assert (plain, twisted) == (even, 2 * even - 1)

# %% [markdown]
# ## One more channel
#
# The other way keeps the ring $S$ and adds a channel for the alternating pattern. The new channel stays zero, and the
# two form a plane that rotates by $\pi$ at every step. If the constant wave gets a second channel as well, all channels
# are paired. The map $E$ writes a vector in these coordinates:
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
# $Eq$ and $Ek$ with the frequencies $\omega_m = 2\pi m/n$. (The division must remain that of the ring.) The second
# channel of the constant wave can be left out, and its first channel unrotated. That leaves $n$ channels for odd $n$
# and $n + 1$ for even $n$, and no linear maps of queries and keys get by with fewer. For odd $n$ all this holds for
# real positions, where the roll is $N(p/\lambda)$, and any $\lambda$.
# ```
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p_q}(q)^\top \mathrm{Roll}_{p_k}(k) = \bigl( R_{p_q} E q \bigr)^\top R_{p_k} E k, \\
# & R_p = \bigoplus_{m=0}^{\lfloor n/2 \rfloor} R(\omega_m p), \\
# & p \in \mathbb{Z} \ (p \in \mathbb{R} \text{ for odd } n) \end{aligned}
# $$ (eq-theorem)
#
# ```{prf:proof}
# The weights $w_m$ count the coefficients that are left out, so $E$ keeps inner products. A roll by $p$ multiplies
# coefficient $m$ by $e^{\mathrm{i} \omega_m p}$, which rotates its real and imaginary part by $\omega_m p$. The extra
# channels stay zero, because the factor is real there: 1 for $m = 0$, and $(-1)^p$ for $m = n/2$ at integer $p$. Hence
# $E\, \mathrm{Roll}_p(x) = R_p E x$, which proves the formula.
#
# Now let $E_q$ and $E_k$ be any matrices for which the formula holds. With both positions 0 it says $E_q^\top E_k = I$,
# so there are at least $n$ channels. If there are $n$, then $E_q^\top = E_k^{-1}$, and the positions 0 and 1 give
# $S = E_k^{-1} R_1 E_k$. So $S$ and $R_1$, rotations and unrotated channels, have the same determinant. For even $n$
# this contradicts {eq}`eq-not-rope`.
# ```


# %%
from rollpe.formulas import rope
from rollpe.ring import embed_in_rope


def E(x):
    x_hat = torch.fft.rfft(x, norm="ortho")  # modes 0 to ⌊n/2⌋
    return torch.view_as_real(w.sqrt() * x_hat).flatten(-2)


def fewer(x):
    """Without the second channel of the constant wave; its first does not turn."""
    return torch.cat((E(x)[:, :1], rope(E(x)[:, 2:], positions, omega[1:])), dim=1)


# %%
positions = torch.tensor([0, 1, 5, 12, -3])
q, k = torch.randn(2, 5, n)
by_hand = torch.tensor([4.0, 0, 2, 0]) / math.sqrt(2)  # of the ring (3, 1)
found = [embed_in_rope(q), embed_in_rope(torch.tensor([3.0, 1.0]))]
agree("eq-embedding", found, [E(q), by_hand])
agree("eq-embedding", E(q).norm(dim=-1), q.norm(dim=-1))


# %%
omega = 2 * math.pi * torch.arange(n // 2 + 1) / n
scores = roll(q, positions) @ roll(k, positions).T
by_rope = rope(E(q), positions, omega) @ rope(E(k), positions, omega).T
agree("eq-theorem", [by_rope, fewer(q) @ fewer(k).T], [scores, scores])
holds("eq-theorem", fewer(q).shape[1] == n + 1 - n % 2)

# %% tags=["hide-input"]
odd, places = n - 1 + n % 2, torch.randn(5)
q, k = torch.randn(2, 5, odd)
N = twisted_roll_matrix(odd, (places - places[:, None]) / 1.7)
rolled = torch.einsum("ia,ijab,jb->ij", q, N, k)
q, k = (rope(embed_in_rope(x), places, frequencies.ring(odd, 1.7)) for x in (q, k))
agree("eq-theorem", q @ k.T, rolled)  # an odd ring at real positions, λ = 1.7

# %% [markdown]
# ## Which multiplicative encodings are relative
#
# Call an encoding *multiplicative* if it multiplies queries and keys at the integer position $p$ by the same invertible
# matrix $E(p)$. If its scores depend on the offset alone, it consists of the powers of one orthogonal matrix, between
# two fixed matrices. (In GRAPE's multiplicative encodings {cite}`zhang2025grape` this matrix is a rotation.)
#
# ```{prf:theorem} Multiplicative relative encodings are powers of an orthogonal matrix
# :label: thm-relative
# Let $E(p)$, $p \in \mathbb{Z}$, be invertible $n \times n$ matrices. The products $E(p)^\top E(p')$ depend on $p' - p$
# alone if and only if {eq}`eq-relative-form` holds with orthogonal $U$, $W$ and a symmetric positive definite $P$.
# ```
#
# $$
# E(p) = U\, W^p P, \qquad E(p)^\top E(p') = P\, W^{p' - p} P
# $$ (eq-relative-form)
#
# ```{prf:proof}
# The matrix $E(p)^\top E(p)$ is the same for all $p$, symmetric and positive definite. Let $P$ be its square root, and
# $V(p) = E(p) P^{-1}$. Then $V(p)^\top V(p) = I$, so $V(p)$ is orthogonal. The product $W = V(p)^\top V(p + 1)$ does
# not depend on $p$ either. So $V(p + 1) = V(p) W$, and $V(p) = V(0) W^p$. Put $U = V(0)$. Conversely,
# $(U W^p P)^\top U W^{p'} P = P W^{p' - p} P$.
# ```
#
# In scores $U$ cancels, and $P$ can be moved into the weights of queries and keys. The orthogonal matrix $W$ remains.
# In a suitable basis it consists of rotations in planes and of single channels with the factor 1 or $-1$ (angle 0 or
# $\pi$). So **a multiplicative encoding is relative if and only if it is a list of angles** from 0 to $\pi$. RollPE and
# RoPE are two such lists. Encodings that add to the scores, such as T5 {eq}`eq-t5`, are relative in another way. If
# queries and keys are multiplied by *different* matrices, decay and biases are possible as well, {eq}`eq-two-maps`.

# %%
U, W, B = torch.linalg.qr(torch.randn(3, n, n))[0]
P = B @ torch.diag(torch.linspace(1, 2, n)) @ B.T
E = torch.stack([U @ power(W, p) @ P for p in range(6)])
pairs = [(p, s) for p in range(6) for s in range(6)]
products = [E[p].T @ E[s] for p, s in pairs]
agree("eq-relative-form", products, [P @ power(W, s - p) @ P for p, s in pairs], 1e-11)

# %% [markdown]
# The proof finds these matrices again, by a root and a division. Three matrices at random are not relative:

# %% tags=["hide-input"]
values, vectors = torch.linalg.eigh(E[0].T @ E[0])
root = vectors @ torch.diag(values.sqrt()) @ vectors.T
V = E @ torch.linalg.inv(root)
found = [root, V.mT @ V, V[:-1].mT @ V[1:]]
expected = [P, torch.eye(n).expand(6, n, n), W.expand(5, n, n)]
agree("eq-relative-form", found, expected, 1e-11)
other = torch.randn(3, n, n)
differs("eq-relative-form", other[0].T @ other[1], other[1].T @ other[2], 1e-3)

# %% [markdown]
# ## How many functions of the offset?
#
# A query and a key choose one function $\Delta \mapsto q^\top W^\Delta k$ among those that the angles allow:
#
# $$
# \dim \operatorname{span} \bigl\{ \Delta \mapsto q^\top W^\Delta k \bigr\} = \#\{\text{eigenvalues of } W \text{, each counted once}\} \le n
# $$ (eq-span)
#
# ```{prf:proposition} Among multiplicative encodings only the ring is complete
# :label: prop-complete
# A multiplicative relative encoding with $n$ channels can express every function of the offset modulo $n$ if and only
# if the eigenvalues of $W$ are all $n$-th roots of unity, each once: RollPE, up to a change of basis.
# ```
#
# ```{prf:proof}
# The scores are combinations of $\mu^\Delta$, one for each eigenvalue $\mu$, and powers of different numbers are
# linearly independent. Functions modulo $n$ are the combinations of $\mu^\Delta$ with the $n$-th roots of unity. Each
# root has to be among the $n$ eigenvalues. {eq}`eq-complete` is the other direction.
# ```
#
# Completeness modulo $n$ thus forces equal spacing. {doc}`15-kernels` compares other lists of $n$ angles.


# %%
def span(W):
    """The dimension of the functions Δ ↦ qᵀ W^Δ k."""
    powers = torch.stack([power(W, d) for d in range(3 * len(W))])
    return torch.linalg.matrix_rank(powers.flatten(1)).item()


ring, turn = shift_matrix(n), rotation_matrix(torch.ones(1))
same = torch.block_diag(*[turn] * (n // 2))
print(f"ring of {n}: {span(ring)} functions; equal angles: {span(same)}")

# %% tags=["hide-input"]
W = rotation_matrix(torch.linspace(0.1, 3, n // 2))  # other angles: other functions
agree("eq-span", [span(ring), span(same)], [n, 2])
holds("eq-span", [span(W) <= n, span(torch.block_diag(W, ring)) > n])

# %% [markdown]
# ## The frequencies
#
# RollPE is a RoPE with unusual frequencies. They grow by equal steps, those of RoPE by equal factors:
#
# $$
# \begin{gathered} \omega_{k+1} - \omega_k = \frac{2\pi}{\lambda n}, \\
# \frac{\theta_{k+1}}{\theta_k} = 10000^{-2/d} \end{gathered}
# $$ (eq-spectra)

# %%
d = 32
theta = 10000.0 ** (-2 * torch.arange(d // 2) / d)
omega = 2 * math.pi * torch.arange(1, d // 2 + 1) / d
library = [frequencies.geometric(d // 2), frequencies.ring(d)[1:]]
agree("the library", library, [theta, omega])
steps, ratios = frequencies.ring(d, 2.5).diff(), theta[1:] / theta[:-1]  # λ = 2.5
expected = [torch.full((16,), 2 * math.pi / (2.5 * d)), 0 * ratios + 10000 ** (-2 / d)]
agree("eq-spectra", [steps, ratios], expected)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-spectra", "caption": "The frequencies of RoPE with two bases and of RollPE, all on 32 channels, without RollPE’s constant wave. The trained axial RoPE of this book has base 100."}, "image": {"alt": "Three rows of dots along a logarithmic frequency axis. RoPE with base 10000 spreads its dots evenly from 0.0002 to 1, with base 100 from a little above one hundredth to 1. RollPE crowds its dots at the high end, from about 0.2 up to pi."}}
rows = (
    ("RoPE, base 10000", theta, figures.BLUE),
    ("RoPE, base 100", 100.0 ** (-2 * torch.arange(d // 2) / d), figures.SKY),
    ("RollPE, λ = 1", omega, figures.VERMILION),
)
fig, ax = plt.subplots(figsize=(7.0, 2.6))
for row, (name, speeds, color) in enumerate(rows):
    ax.plot(speeds, [row] * len(speeds), "o", color=color, label=name)
ax.set(
    xscale="log",
    xlim=(1e-4, 5),
    ylim=(2.5, -0.5),
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
# Read {numref}`fig-spectra` by the periods on the upper axis. RoPE has a few waves that separate neighbors and many
# that barely change across an image; base 100 leaves fewer. All waves of RollPE fit on the ring. A larger $\lambda$
# slows them ({numref}`wave-circle`).
#
# ```{wave} circle
# :name: wave-circle
# Draw an encoding: drag its angles (filled; hollow: mirror images). Right: its kernel
# $\tfrac1m \sum_i \cos \omega_i \Delta$; scores of random queries and keys (gray) do not decay. Try two rings, which
# repeat later than one, and $\lambda < 1$, where fast angles pass $\pi$ and look slow. Each different point adds a
# function of the offset, {eq}`eq-span`.
# ```
#
# ```{admonition} In short
# :class: tip
# - In the Fourier basis a roll rotates planes, as RoPE does.
# - With one sign reversed, RollPE is RoPE on the same channels, for every number of them and at every real position,
#   {prf:ref}`thm-twist`. Without it, an even ring needs one more channel, and integer positions, {prf:ref}`thm-rope`.
# - An encoding that multiplies queries and keys by the same matrices is relative if and only if it is a list of angles,
#   {prf:ref}`thm-relative`.
# - The ring is the only list of $n$ angles that expresses all functions of the offset modulo $n$.
# - The frequencies of RollPE are equally spaced; those of RoPE are powers of one number.
# ```
#
# Two encodings that compute the same functions can still train differently: {doc}`08-basis`.
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rope-wavelength
# Choose $\lambda$ such that the fastest plane of RollPE turns as fast as the fastest of RoPE. How long is its slowest
# wave at 32 channels, compared with that of RoPE?
# ```
#
# ```{solution} exercise-rope-wavelength
# :class: dropdown
# The alternating pattern has no plane, so the fastest one is $\omega_{n/2-1} = 2\pi(\tfrac n2 - 1)/(\lambda n)$. RoPE
# has frequency 1 there, so at 32 channels $\lambda = \tfrac{15}{16}\pi$. The slowest wave then has a period of
# $\lambda n = 30\pi$, a little over ninety positions. The slowest wave of RoPE has one of $2\pi \cdot 10000^{30/32}$,
# tens of thousands.
# ```

# %% tags=["hide-cell"]
wavelength = 15 * math.pi / 16
omega = real_fourier_basis(32)[1] / wavelength
agree("as fast as RoPE's fastest", omega.max(), theta.max())
slowest = {"RollPE": omega.min(), "RoPE": theta.min()}
for name, frequency in slowest.items():
    print(f"{name}: {2 * math.pi / frequency:.0f} positions")
agree("the slowest wave", 2 * math.pi / omega.min(), 30 * math.pi)
assert 2 * math.pi / theta.min() > 30_000
