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
# **At integer positions RollPE is RoPE with equally spaced frequencies in another basis; with one sign changed (the
# twisted ring), for even rings at every position.** This chapter proves it, and with it a corrected Theorem 1 of the
# paper {cite}`rollpe`, "RollPE can be represented as RoPE". A vector on a ring is a sum of waves, and a roll turns each
# wave by its own angle. On an even ring one wave has no partner to rotate with. One more channel gives it a partner; the
# changed sign removes the wave.

# %% tags=["parameters"]
n: int = 16  # channels on the ring [12..32]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import numpy as np
import torch

from rollpe_book import figures
from rollpe_book.agree import agree
from rollpe_book.chapters.parameters import begin

begin(globals())
figures.use_theme()
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Four channels, by hand
#
# Describe a ring of four channels by their sum $s$, the alternating sum $t = x_0 - x_1 + x_2 - x_3$, and the differences
# of opposite channels, $a = x_0 - x_2$ and $b = x_3 - x_1$. Then roll:

# %%
x = torch.tensor([10.0, 20.0, 30.0, 40.0])
for p in range(3):
    y = x.roll(-p)
    s, t = y.sum(), y[0] - y[1] + y[2] - y[3]
    a, b = y[0] - y[2], y[3] - y[1]
    print(f"{p} steps: s = {s:.0f}, t = {t:.0f}, (a, b) = ({a:.0f}, {b:.0f})")

# %% [markdown]
# The sum stays, the alternating sum changes its sign, and $(a, b)$ makes quarter turns $(a, b) \mapsto (-b, a)$, which are
# rotations as in RoPE.
#
# ## A vector on a ring is a sum of waves
#
# These numbers are a *Fourier transform*. A vector on a ring of $n$ channels is a sum of $n$ waves, or *modes*. Mode $k$
# is $e^{2\pi \mathrm{i} kj/n}$ at channel $j$, and its coefficient $\hat x_k$ says how strong it is and where it crests:
#
# $$
# \hat x = F x, \qquad F_{kj} = \tfrac{1}{\sqrt{n}} \, e^{-2\pi \mathrm{i} kj/n}, \qquad F^* F = I
# $$ (eq-dft)
#
# A step moves each wave by one channel, which turns its coefficient on the unit circle (the paper's Eq. 13):
#
# $$
# S = F^* \operatorname{diag}\bigl( e^{2\pi \mathrm{i} k/n} \bigr)_{k=0}^{n-1} F
# $$ (eq-diagonal)

# %%
from rollpe.ring import fourier_matrix, shift_matrix

j = torch.arange(n)
F = torch.exp(-2j * math.pi * torch.outer(j, j) / n) / math.sqrt(n)
S = F.mH @ torch.diag(torch.exp(2j * math.pi * j / n)) @ F
agree("eq-dft", [fourier_matrix(n), F.mH @ F], [F, torch.eye(n) + 0j])
agree("eq-diagonal", S, shift_matrix(n) + 0j)
four = 2 * fourier_matrix(4) @ (y + 0j)  # the four channels, after two steps
agree("s, a + ib, t, a − ib", four, torch.stack([s, a + 1j * b, t, a - 1j * b]))

# %% [markdown]
# On four channels the factors are $1, \mathrm{i}, -1, -\mathrm{i}$. Modes $k$ and $n - k$ of a real vector have conjugate
# coefficients, so half of them suffice. One position turns mode $k$ by its *frequency*,
#
# $$
# \omega_k = \frac{2\pi k}{\lambda n}, \qquad k = 0, \dots, \lfloor \tfrac n2 \rfloor
# $$ (eq-ring-frequencies)
#
# where $\lambda$ is the number of positions for one step, 1 if not said otherwise.

# %%
from rollpe.encodings import frequencies

omega = 2 * math.pi * torch.arange(n // 2 + 1) / n  # λ = 1
both = torch.cat((omega, omega[1 : (n + 1) // 2])).sort()[0]  # of k and n − k
turns = torch.linalg.eigvals(shift_matrix(n)).angle().abs().sort()[0]
agree("eq-ring-frequencies", [turns, frequencies.ring(n, 2.5)], [both, omega / 2.5])

# %% [markdown]
# ## Waves rotate in planes
#
# In real numbers, cosines and sines are the columns of an orthogonal matrix, followed by the constant wave and, for even
# $n$, the alternating one:
#
# $$
# \begin{gathered} Q = \sqrt{\tfrac 2n} \Bigl[ \cos \tfrac{2\pi k i}{n},\; -\sin \tfrac{2\pi k i}{n} \Bigr]_{k=1}^{\lfloor (n-1)/2 \rfloor} \\
# \Bigl[ \tfrac{1}{\sqrt n} \Bigr] \Bigl[ \tfrac{(-1)^i}{\sqrt n} \Bigr]_{n \text{ even}}, \qquad Q^\top Q = I \end{gathered}
# $$ (eq-real-basis)
#
# In this basis a roll rotates planes and leaves one or two single channels:
#
# $$
# \begin{aligned} Q^\top S^p Q = {} & \bigoplus_{k=1}^{\lfloor (n-1)/2 \rfloor} \begin{bmatrix} \cos \omega_k p & -\sin \omega_k p \\ \sin \omega_k p & \cos \omega_k p \end{bmatrix} \\
# & \oplus 1 \;\bigl( \oplus\, (-1)^p \text{ for even } n \bigr) \end{aligned}
# $$ (eq-rotary-form)

# %%
from rollpe.formulas import rotation_matrix
from rollpe.ring import real_fourier_basis

i, omega = j[:, None], omega[1 : (n + 1) // 2]
waves = torch.stack((torch.cos(omega * i), -torch.sin(omega * i)), dim=-1).flatten(1)
singles = torch.cat((i**0, (-1) ** i), dim=1)[:, : 2 - n % 2]
Q = torch.cat((math.sqrt(2 / n) * waves, singles / math.sqrt(n)), dim=1)
agree("eq-real-basis", [real_fourier_basis(n)[0], Q.T @ Q], [Q, torch.eye(n)])


# %%
def rotary(p):
    last = torch.tensor([1.0, (-1.0) ** p])[: 2 - n % 2]
    return torch.block_diag(rotation_matrix(p * omega), torch.diag(last))


S, power = shift_matrix(n), torch.linalg.matrix_power
found = [Q.T @ power(S, p) @ Q for p in (1, 3, -9)]
agree("eq-rotary-form", found, [rotary(p) for p in (1, 3, -9)])

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-two-bases", "caption": "One roll in two bases. Left: three steps on the channels of the ring, a permutation. Right: the same three steps on its waves: planes that rotate at different speeds, and the single channels in the lower right corner."}, "image": {"alt": "Two square matrices as heat maps. The left one has a single one in every row, on a diagonal that wraps around. The right one is zero except for two by two blocks along the diagonal and one or two single entries at its end; for an even ring the last one is negative."}}
rolled = power(S, 3)
blocks = [(2 * k, 2) for k in range(len(omega))]
blocks += [(k, 1) for k in range(2 * len(omega), n)]
fig, axes = plt.subplots(1, 2, figsize=(5.2, 3.2))
for ax, matrix, what in zip(
    axes, (rolled, Q.T @ rolled @ Q), ("channel", "wave"), strict=True
):
    shown = ax.imshow(matrix, cmap=figures.DIVERGING, vmin=-1, vmax=1)
    ax.set(xlabel=f"{what}s before", ylabel=f"{what}s after", xticks=[], yticks=[])
for start, size in blocks:
    square = plt.Rectangle(
        (start - 0.5, start - 0.5), size, size, fill=False, color=figures.ON_PALE
    )
    axes[1].add_patch(square)
fig.colorbar(
    shown,
    ax=axes,
    label="entry of the matrix",
    location="bottom",
    shrink=0.5,
    ticks=[-1, 0, 1],
)
plt.close(fig)
fig

# %% [markdown]
# The right panel of {numref}`fig-two-bases` is a matrix of RoPE, except for the single channels. The score is a sum of
# waves as well. Query and key set their strength and phase ($m$ numbers the waves, because $k$ is the key):
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
q_hat, k_hat = ((F @ (x + 0j))[m] for x in (q, k))
waves = torch.exp(2j * math.pi * m / n * delta)
score = (w * q_hat.conj() * k_hat * waves).real.sum(dim=1)
agree("eq-score-waves", roll(k, delta[:, 0]) @ q, score)

# %% [markdown]
# ## Even rings contain a reflection
#
# RoPE {cite}`su2024roformer` rotates planes, and a rotation has determinant 1. A step of an even ring has determinant
# $-1$, {eq}`eq-determinant`. A change of basis does not alter determinants, so RollPE on an even ring is not RoPE on the
# same channels in any basis:
#
# $$
# \begin{gathered} \det \bigoplus_i R(\theta_i p) = 1 \neq -1 = \det S^p \\
# (n \text{ even},\ p \text{ odd}) \end{gathered}
# $$ (eq-not-rope)

# %%
even = n + n % 2
R = rotation_matrix(5 * torch.randn(even // 2))  # p = 5
step = power(shift_matrix(even), 5)
B = torch.matrix_exp(torch.randn(even, even) / even)  # a change of basis
agree("eq-not-rope", [(torch.inverse(B) @ R @ B).det(), step.det()], [1, -1], 1e-11)

# %% [markdown]
# ## One more channel
#
# At integer positions one more channel repairs this. It stays zero, and with the alternating wave it forms a plane that
# rotates by $\pi$ at every step. If the constant wave gets a second channel as well, all channels are paired:
#
# $$
# \begin{gathered} E : \mathbb{R}^n \to \mathbb{R}^{2 (\lfloor n/2 \rfloor + 1)}, \qquad \|E x\| = \|x\|, \\
# (E x)_m = \sqrt{w_m} \left( \operatorname{Re} \hat x_m, \operatorname{Im} \hat x_m \right) \end{gathered}
# $$ (eq-embedding)
#
# ```{prf:theorem} RollPE embeds in RoPE
# :label: thm-rope
# Let all positions be integers. The RollPE score of $q$ and $k$, before the division by $\sqrt d$, is the RoPE score of
# $Eq$ and $Ek$ with the frequencies $\omega_m = 2\pi m/n$. Without the second channel of the constant wave, which is zero,
# these are $n$ channels for odd $n$ and $n + 1$ for even $n$.
# ```
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p_q}(q)^\top \mathrm{Roll}_{p_k}(k) = \bigl( R_{p_q} E q \bigr)^\top R_{p_k} E k, \\
# & R_p = \bigoplus_{m=0}^{\lfloor n/2 \rfloor} R(\omega_m p), \qquad p \in \mathbb{Z} \end{aligned}
# $$ (eq-theorem)
#
# ```{prf:proof}
# The weights $w_m$ count the coefficients that $E$ leaves out, so $E$ keeps inner products. A roll by $p$ multiplies
# coefficient $m$ by $e^{\mathrm{i} \omega_m p}$, which rotates its real and imaginary part by $\omega_m p$. (The added
# channels stay zero, because the factor is real there: 1 for $m = 0$, $(-1)^p$ for $m = n/2$.) Hence
# $E\, \mathrm{Roll}_p(x) = R_p E x$.
# ```

# %%
from rollpe.formulas import rope
from rollpe.ring import embed_in_rope


def E(x):
    x_hat = torch.fft.rfft(x, norm="ortho")  # modes 0 to ⌊n/2⌋
    return torch.view_as_real(w.sqrt() * x_hat).flatten(-2)


q, k = torch.randn(2, 5, n)
agree("eq-embedding", [embed_in_rope(q), E(q).norm(dim=-1)], [E(q), q.norm(dim=-1)])

# %%
positions = torch.tensor([0, 1, 5, 12, -3])
omega = 2 * math.pi * m / n
scores = roll(q, positions) @ roll(k, positions).T
q_turned, k_turned = (rope(E(x), positions, omega) for x in (q, k))
used = [0, *range(2, n + 2 - n % 2)]  # without the second channel
fewer = q_turned[:, used] @ k_turned[:, used].T
agree("eq-theorem", [q_turned @ k_turned.T, fewer], [scores, scores])

# %% [markdown]
# ## One sign
#
# An even ring has no half step: a single reflection has no real square root, because the square of a real determinant is
# not negative. On two channels a step is the exchange $(x, y) \mapsto (y, x)$. Reverse one sign:
# $(x, y) \mapsto (y, -x)$ is a quarter turn, and its half is an eighth of a turn.
#
# On every even ring, let the channel that comes around return with its sign reversed (signal processing: the negacyclic
# shift). We call this the *twisted ring*, because it closes like a Möbius strip. For odd $n$ nothing changes.
#
# $$
# \begin{gathered} (T x)_i = x_{i+1} \quad (i < n - 1), \qquad (T x)_{n-1} = (-1)^{n-1} x_0, \\
# \det T = 1, \qquad T^n = (-1)^{n-1} I \end{gathered}
# $$ (eq-twisted-shift)

# %%
from rollpe.ring import twisted_roll, twisted_shift

x, step, sign = torch.randn(n), twisted_shift(n), (-1) ** (n - 1)
moved = torch.cat((x[1:], sign * x[:1]))
agree("eq-twisted-shift", [step @ x, twisted_roll(x, 1)], [moved, moved])
agree("eq-twisted-shift", [step.det(), power(step, n)], [1, sign * torch.eye(n)])

# %% [markdown]
# The waves that fit on this ring are $e^{2\pi \mathrm{i} m j/n}$ with $m$ from $-\tfrac{n-1}{2}$ to $\tfrac{n-1}{2}$ in
# steps of 1. One step multiplies wave $m$ by $e^{2\pi \mathrm{i} m/n}$. For a real position $p$ let $T(p)$ multiply it by
# $e^{2\pi \mathrm{i} m p/n}$:
#
# $$
# T(p)_{jl} = \frac{1}{n} \sum_{m = -\frac{n-1}{2}}^{\frac{n-1}{2}} e^{2\pi \mathrm{i} m t/n}
# = \frac{\sin \pi t}{n \sin(\pi t/n)}, \qquad t = p + j - l
# $$ (eq-twisted-roll)
#
# ```{prf:theorem} RollPE with a twist is RoPE
# :label: thm-twist
# For every $n$ and all real $p$, $p'$:
# 1. $T(p)$ is real, $T(1) = T$, and $T(p) T(p') = T(p + p')$.
# 2. $T(p)^\top T(p') = T(p' - p)$: scores depend on the offset alone.
# 3. In an orthonormal basis $\tilde Q$ it rotates $\lfloor n/2 \rfloor$ planes, {eq}`eq-twisted-rope`: all channels for
#    even $n$, all but one for odd $n$, where $T = S$.
# ```
#
# $$
# \begin{gathered} \tilde Q^\top T(p) \, \tilde Q = \bigoplus_{m > 0} R\!\left( \tfrac{2\pi m}{n} p \right) \; (\oplus\, 1 \text{ for odd } n), \\
# \tfrac{2\pi m}{n} = \tfrac{\pi}{n}, \tfrac{3\pi}{n}, \dots, \tfrac{(n-1)\pi}{n} \quad (n \text{ even}) \end{gathered}
# $$ (eq-twisted-rope)
#
# ```{prf:proof}
# Each channel of $v_j = e^{2\pi \mathrm{i} m j/n}$ is $z = e^{2\pi \mathrm{i} m/n}$ times the one before. After the last
# comes $v_n = e^{2\pi \mathrm{i} m} v_0 = (-1)^{n-1} v_0$, which is what $T$ puts there. Hence $T v = z v$, and
# $T(1) = T$.
#
# The $n$ waves are orthogonal, because their $m$ differ by integers from 1 to $n - 1$. The factors have modulus 1 and
# their exponents add up, so $T(p)$ keeps lengths and $T(p) T(p') = T(p + p')$. Its entries, a geometric series, are real
# because $m$ and $-m$ occur together. These two waves span a real plane with the basis $\cos$, $-\sin$ of
# $2\pi m j/n$, which $T(p)$ rotates by $2\pi m p/n$. Only $m = 0$ has no partner; it occurs for odd $n$, and its factor
# is 1.
# ```

# %%
from rollpe.ring import twisted_roll_matrix

m = j - (n - 1) / 2


def T(p):
    t = p + i - j
    return torch.exp(2j * math.pi * m * t[..., None] / n).mean(-1)


t = 0.3 + i - j
quotient = torch.sin(math.pi * t) / (n * torch.sin(math.pi * t / n))
agree(
    "eq-twisted-roll", [T(0.3), twisted_roll_matrix(n, 0.3)], [quotient + 0j, quotient]
)

# %%
p, s = 7.3, -21.6
found = [T(1), T(p) @ T(s), T(p).mH @ T(s)]  # the theorem's parts 1 and 2
agree("eq-twisted-roll", found, [step + 0j, T(p + s), T(s - p)], 1e-11)

# %%
wave = 2 * math.pi / n * m[m > 0]
pairs = torch.stack((torch.cos(wave * i), -torch.sin(wave * i)), dim=-1).flatten(1)
single = torch.full((n, n % 2), math.sqrt(1 / n))
Q = torch.cat((math.sqrt(2 / n) * pairs, single), dim=1)
planes = torch.block_diag(rotation_matrix(0.3 * wave), torch.eye(n % 2))
agree("eq-twisted-rope", [Q.T @ quotient @ Q, Q.T @ Q], [planes, torch.eye(n)])
agree("eq-twisted-rope", [*real_fourier_basis(n, twisted=True)], [Q, wave])

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-twist-wheels", "caption": "How far each wave of an even ring has turned after one step, on the unit circle. Lines join partners, the two halves of a real wave. Left: the plain ring. The alternating wave, at −1, has no partner. Right: with the twist all waves are half a place further, and all have partners."}, "image": {"alt": "Two unit circles with twelve dots each. On the left the dots include plus one and, in red, minus one; the other ten are joined in pairs by vertical lines. On the right no dot lies on the horizontal axis, and all twelve are joined in pairs."}}
ring = 12
fig, axes = plt.subplots(1, 2, figsize=(5.2, 2.7))
for ax, twist, title in zip(
    axes, (0, 0.5), ("plain ring", "twisted ring"), strict=True
):
    z = np.exp(2j * np.pi * (np.arange(ring) + twist) / ring)
    alone = abs(z + 1) < 1e-9
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.7))
    ax.axhline(0, color=figures.MUTED, linewidth=0.5)
    ax.vlines(z.real, -abs(z.imag), abs(z.imag), color=figures.BLUE, alpha=0.35)
    ax.plot(z.real[~alone], z.imag[~alone], "o", color=figures.BLUE)
    if alone.any():
        ax.plot(-1, 0, "o", color=figures.VERMILION, markersize=7)
        ax.text(0, 0.1, "no partner", ha="center", fontsize=9, color=figures.VERMILION)
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
    ax.spines[:].set_visible(False)
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-twist-wheels` two partners form one plane. For even $n$ the twisted ring repeats after two laps, and
# offsets that are $n$ apart have opposite scores. It distinguishes the offsets from $-(n-1)$ to $n-1$: 16 patches in a
# row need 16 channels instead of the 31 of {eq}`eq-distinct-offsets`.

# %%
delta = torch.arange(-15, 16)
plain, twisted = (
    len(f(torch.randn(16), delta).unique(dim=0)) for f in (roll, twisted_roll)
)
print(f"different rolls of 16 channels at 31 offsets: plain {plain}, twisted {twisted}")
assert (plain, twisted) == (16, 31)

# %% [markdown]
# ## Which encodings are relative
#
# Call an encoding *multiplicative* if it multiplies queries and keys at the integer position $p$ by the same invertible
# matrix $E(p)$.
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
# The matrix $E(p)^\top E(p)$ is the same for all $p$, symmetric and positive definite. Let $P$ be its square root. Then
# $V(p) = E(p) P^{-1}$ is orthogonal, and $W = V(p)^\top V(p + 1)$ does not depend on $p$. Hence $V(p) = V(0) W^p$; put
# $U = V(0)$. Conversely, $(U W^p P)^\top U W^{p'} P = P W^{p' - p} P$.
# ```
#
# The proof finds the three matrices of a roll behind a change of basis:

# %%
E = torch.stack([power(S, p) for p in range(6)]) @ B[:n, :n]
values, vectors = torch.linalg.eigh(E[0].T @ E[0])
P = vectors @ torch.diag(values.sqrt()) @ vectors.T
V = E @ torch.linalg.inv(P)
U, W = V[0], V[0].T @ V[1]
found = torch.stack([U @ power(W, p) @ P for p in range(6)])
agree("eq-relative-form", [found, found[1].T @ found[4]], [E, E[0].T @ E[3]], 1e-10)
agree("eq-relative-form", [U.T @ U, W.T @ W], [torch.eye(n)] * 2, 1e-10)

# %% [markdown]
# In scores $U$ cancels, and $P$ can be moved into the weights of queries and keys. The matrix $W$ remains: in a suitable
# basis, rotations in planes and single channels with the factor 1 or $-1$ (angle 0 or $\pi$). Therefore **a multiplicative
# encoding is relative if and only if it is a list of angles** from 0 to $\pi$. RollPE and RoPE are two such lists.
#
# Query and key choose one function $\Delta \mapsto q^\top W^\Delta k$ among the combinations of the $\mu^\Delta$, where
# $\mu$ are the eigenvalues of $W$:
#
# $$
# \dim \operatorname{span} \bigl\{ \Delta \mapsto q^\top W^\Delta k \bigr\} = \#\{\text{eigenvalues of } W \text{, each counted once}\} \le n
# $$ (eq-span)
#
# Functions modulo $n$ are the combinations for the $n$-th roots of unity, so on $n$ channels only the ring expresses all
# of them.


# %%
def span(W):
    """The dimension of the functions Δ ↦ qᵀ W^Δ k."""
    powers = torch.stack([power(W, d) for d in range(3 * len(W))])
    return torch.linalg.matrix_rank(powers.flatten(1)).item()


same = rotation_matrix(torch.ones(n // 2))
print(f"ring of {n}: {span(S)} functions; equal angles: {span(same)}")
agree("eq-span", [span(S), span(same)], [n, 2])

# %% [markdown]
# ## The frequencies
#
# RollPE and RoPE differ in their angles. Those of RollPE grow by equal steps, those of RoPE by equal factors:
#
# $$
# \begin{gathered} \omega_{k+1} - \omega_k = \frac{2\pi}{\lambda n}, \\
# \frac{\theta_{k+1}}{\theta_k} = 10000^{-2/d} \end{gathered}
# $$ (eq-spectra)

# %%
d = 32
theta = frequencies.geometric(d // 2)
steps, ratios = frequencies.ring(d, 2.5).diff(), theta[1:] / theta[:-1]  # λ = 2.5
expected = [torch.full((16,), 2 * math.pi / (2.5 * d)), 0 * ratios + 10000 ** (-2 / d)]
agree("eq-spectra", [steps, ratios], expected)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-spectra", "caption": "The frequencies of RoPE with two bases and of RollPE, all on 32 channels, without RollPE’s constant wave. The trained axial RoPE of this book has base 100."}, "image": {"alt": "Three rows of dots along a logarithmic frequency axis. RoPE with base 10000 spreads its dots evenly from 0.0002 to 1, with base 100 from a little above one hundredth to 1. RollPE crowds its dots at the high end, from about 0.2 up to pi."}}
rows = (
    ("RoPE, base 10000", theta, figures.BLUE),
    ("RoPE, base 100", frequencies.geometric(d // 2, 100.0), figures.SKY),
    ("RollPE, λ = 1", frequencies.ring(d)[1:], figures.VERMILION),
)
fig, ax = plt.subplots(figsize=(6.0, 2.4))
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
# In {numref}`fig-spectra` RoPE has a few waves that separate neighbors and many that barely change across an image; base
# 100 leaves fewer. All waves of RollPE fit on the ring. A larger $\lambda$ slows them ({numref}`wave-circle`).
#
# ```{wave} circle
# :name: wave-circle
# Draw an encoding: drag its angles (filled; hollow: mirror images). Right: its kernel
# $\tfrac1m \sum_i \cos \omega_i \Delta$; scores of random queries and keys (gray) do not decay. Each different point
# adds a function of the offset, {eq}`eq-span`.
# ```
#
# Encodings that compute the same functions can still train differently: {doc}`Ch. 8 <08-basis>`.
#
# ```{exercise}
# :label: exercise-rope-wavelength
# On 32 channels, for which $\lambda$ do the fastest planes of RollPE and RoPE turn equally fast? How long are then the
# slowest waves?
# ```
#
# ```{solution} exercise-rope-wavelength
# :class: dropdown
# The alternating wave has no plane, so the fastest plane has $\omega_{15} = 30\pi/(32\lambda)$. This is 1, as in RoPE, for
# $\lambda = \tfrac{15}{16}\pi$. The slowest waves take $32 \lambda = 30\pi$ positions, a little over ninety, and in RoPE
# $2\pi \cdot 10000^{30/32}$, tens of thousands.
# ```

# %% tags=["hide-cell"]
planes = frequencies.ring(32, 15 * math.pi / 16)[
    1:-1
]  # without the two single channels
longest = 2 * math.pi / torch.stack((planes.min(), theta.min()))
print("the slowest waves:", [f"{period:.0f} positions" for period in longest])
assert abs(planes.max() - theta.max()) < 1e-12 and abs(longest[0] - 30 * math.pi) < 1e-9
assert 90 < longest[0] < 95 and longest[1] > 30_000
