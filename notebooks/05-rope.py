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
# transform turns rolls into rotations {cite}`rollpe`. This page answers four questions:
#
# - **How can reordering channels be a rotation?** Write the channels as a sum of waves. A roll then rotates each wave
#   by its own angle.
# - **Is RollPE RoPE?** Yes, if one sign is reversed: the channel that goes around an even ring comes back with the
#   opposite sign. Then RollPE is RoPE on the same channels, for every number of them and at every real position. Without
#   the sign this is true of odd rings; even rings need one more channel, and integer positions.
# - **Which encodings are relative at all?** Up to a choice of basis, only rotations. A relative encoding is a list of
#   angles.
# - **What sets the two apart?** Their angles. RollPE's angles are equally spaced, RoPE's are powers of one number.
#
# Two encodings that compute the same functions can still train differently: {doc}`08-basis` takes up that question.

# %% tags=["parameters"]
n: int = 16  # channels on the ring [12..32]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import numpy as np
import torch

from rollpe.operators import (
    continuous_roll,
    embed_in_rope,
    generator,
    real_fourier_basis,
    ring_frequencies,
    roll,
    rotation_form,
    shift_matrix,
    twisted_frequencies,
    twisted_pair_roll,
    twisted_roll,
    twisted_roll_matrix,
)
from rollpe.textbook import rope, rope_frequencies, rotation_matrix
from rollpe_book import figures
from rollpe_book.agree import agree, gap

figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
np.set_printoptions(precision=3, suppress=True)
exp, inv, power = torch.matrix_exp, torch.linalg.inv, torch.linalg.matrix_power

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
# In this basis the roll consists of plane rotations, plus one or two single channels. Let $\lambda = 1$, and let positions
# be integers:
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
# ## A mirror has no half
#
# RoPE on $n$ channels consists of plane rotations alone {cite}`su2024roformer`, and a rotation never mirrors. One step of
# an even ring does, so it is not RoPE in any basis. The determinant shows it, since no change of basis alters it:
#
# $$
# \begin{gathered} \det \bigoplus_i R(\theta_i p) = 1 \neq -1 = \det S^p \\
# (n \text{ even},\ p \text{ odd}) \end{gathered}
# $$ (eq-not-rope)
#
# On two channels one can see why. A step exchanges them, $(x, y) \mapsto (y, x)$. This is a mirror, and no linear map done
# twice gives a mirror, since squares of determinants are not negative. So there is no half step. Reverse one sign:
# $(x, y) \mapsto (y, -x)$ is a quarter turn. It has a half, an eighth of a turn, and every other fraction.
#
# ## One sign
#
# Do the same on every even ring: the channel that leaves at one end comes back at the other with its sign reversed. For
# odd $n$, where a step is a rotation already, nothing changes.
#
# $$
# \begin{gathered} (N x)_i = x_{i+1} \quad (i < n - 1), \\
# (N x)_{n-1} = (-1)^{n-1} x_0, \qquad \det N = 1 \end{gathered}
# $$ (eq-twisted-shift)
#
# Signal processing calls $N$ the negacyclic shift. Here it is the *twisted ring*, since the channels lie on a strip that is
# glued together after half a twist, as a Möbius strip is. For it the theorem holds, for every $n$ and at all real
# positions. The logarithm and its exponential have closed forms:
#
# $$
# \tilde{\mathcal{A}}_{jl} = \frac{\pi}{n} \, \frac{(-1)^{j-l}}{\sin \frac{\pi (j-l)}{n}} \quad (j \neq l), \qquad
# \tilde{\mathcal{A}}_{jj} = 0, \qquad N = e^{\tilde{\mathcal{A}}}
# $$ (eq-twisted-generator)
#
# $$
# N(p)_{jl} = \bigl( e^{p \tilde{\mathcal{A}}} \bigr)_{jl} = \frac{1}{n} \sum_{m = -\frac{n-1}{2}}^{\frac{n-1}{2}} e^{2\pi \mathrm{i} m t/n}
# = \frac{\sin \pi t}{n \sin(\pi t/n)}, \qquad t = p + j - l
# $$ (eq-twisted-roll)
#
# The sum goes in steps of 1, so that $m$ runs over integers for odd $n$ and over halves of odd numbers for even $n$.
#
# ```{prf:theorem} RollPE with a twist is RoPE
# :label: thm-twist
# For every $n$ and all real $p$, $p'$:
# 1. $\tilde{\mathcal{A}}$ is real and skew-symmetric, and its exponential is $N$.
# 2. $N(p)$ keeps lengths, and $N(p)^\top N(p') = N(p' - p)$: scores depend on the offset alone.
# 3. In an orthonormal basis $N(p)$ rotates $\lfloor n/2 \rfloor$ planes by the angles $\omega p$ of
#    {eq}`eq-twisted-rope`. For even $n$ these are all channels. For odd $n$ one channel stays, and $N = S$.
# ```
#
# $$
# \begin{gathered} \tilde Q^\top N(p) \, \tilde Q = \bigoplus_{m > 0} R\!\left( \tfrac{2\pi m}{n} p \right) \; (\oplus\, 1 \text{ for odd } n), \\
# \tfrac{2\pi m}{n} = \tfrac{\pi}{n}, \tfrac{3\pi}{n}, \dots, \tfrac{(n-1)\pi}{n} \quad (n \text{ even}) \end{gathered}
# $$ (eq-twisted-rope)
#
# ```{prf:proof}
# Take a wave $v$ with entries $v_j = e^{2\pi \mathrm{i} m j/n}$, with $m$ from the sum. Moving on by one channel multiplies it by
# $z = e^{2\pi \mathrm{i} m/n}$. At the end of the ring it would have to become $v_n = e^{2\pi \mathrm{i} m}$, which is 1 for an
# integer $m$ and $-1$ for half an odd number, so $v_n = (-1)^{n-1} v_0$. This is what $N$ puts there. Hence $N v = z v$.
#
# These $n$ waves are orthogonal, since the differences of two $m$ are integers from 1 to $n - 1$ and the powers of an $n$-th
# root of unity other than 1 sum to 0. With $v/\sqrt n$ as basis, let $N(p)$ multiply the wave $m$ by
# $e^{2\pi \mathrm{i} m p/n}$. Then $N(1) = N$, $N(p) N(p') = N(p + p')$, and $N(p)$ keeps lengths, since all factors have
# modulus 1. Its entries are the sum in {eq}`eq-twisted-roll`. They are real, because $m$ and $-m$ occur together, and the
# sum is geometric, which gives the quotient of sines. Its derivative at $p = 0$ is $\tilde{\mathcal{A}}$: at an integer
# $t = j - l \neq 0$ it is $\pi \cos(\pi t) / (n \sin(\pi t/n))$.
#
# The waves $m$ and $-m$ span a real plane with the basis $\cos$, $-\sin$ of $2\pi m j/n$, which $N(p)$ rotates by
# $2\pi m p/n$. Only $m = 0$ has no partner; it is in the sum for odd $n$ alone, and its factor is 1.
# ```

# %%
i, m = torch.arange(n), torch.arange(n) - (n - 1) / 2
d = i[:, None] - i  # j − l
A = (-1.0) ** d * math.pi / n / torch.sin(math.pi * d / n).where(d != 0, torch.inf)
N = shift_matrix(n)
N[-1, 0] = (-1) ** (n - 1)
agree("exp(A) = N", exp(A), N)
waves = torch.cos(2 * math.pi / n * m * (0.3 + d)[..., None]).mean(-1)  # p = 0.3
agree("exp(0.3 A)", waves, exp(0.3 * A))
agree("our lines and the library", waves, twisted_roll_matrix(n, 0.3))

# %% tags=["hide-input"]
Q, omega = real_fourier_basis(n, twisted=True)
planes = torch.block_diag(rotation_matrix(0.3 * omega), torch.eye(n % 2))
agree("RoPE on the same channels", Q.T @ twisted_roll_matrix(n, 0.3) @ Q, planes)
agree("its angles", omega, twisted_frequencies(n))

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-twist-wheels", "caption": "The waves of an even ring as wheels: how far each has turned after one step. Lines join partners, the two halves of a real wave. Left: the plain ring. The alternating pattern, at −1, has no partner. Right: with the twist all wheels are half a place further, and all have partners."}, "image": {"alt": "Two unit circles with twelve dots each. On the left the dots include plus one and, in red, minus one; the other ten are joined in pairs by vertical lines. On the right no dot lies on the horizontal axis, and all twelve are joined in pairs."}}
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
# In {numref}`fig-twist-wheels` each wheel has to turn the shorter way between two steps, and its partner the other way
# ({doc}`06-continuous`). The red one could go either way. The twist moves all wheels by half a place, and the question
# does not arise.
#
# ## Two laps to come home
#
# After $n$ steps every channel of the twisted ring is in its place again, with its sign reversed. Home is $2n$ steps away:
#
# $$
# f(\Delta + n) = -f(\Delta), \qquad f(\Delta) = q^\top N^\Delta k, \qquad n \text{ even}
# $$ (eq-twisted-period)
#
# So a ring of $n$ channels gives the offsets from $-(n-1)$ to $n-1$ different rolls. Among $G$ patches in a row the plain
# ring needs $2G - 1$ channels for that, {eq}`eq-distinct-offsets`, and the twisted ring needs $G$: 16 channels for 16
# patches instead of 31. Different is not independent: offsets that are $n$ apart always have opposite scores. An integer
# step costs a reordering of channels, as on the plain ring, and some signs.
#
# ```{wave} twist
# :name: wave-twist
# A key of eight channels, moved by $p$ on a plain and on a twisted ring, and its score $f(\Delta)/\sqrt n$ with a fixed
# query at position 0. A value that passes the seam of the twisted ring changes its sign: its bar turns blue and points
# inward. The plain score repeats after 8 offsets; the twisted one comes back with its sign reversed after 8 and repeats
# after 16. The line joins the scores at real offsets, which the twisted ring has too.
# ```

# %%
q, k = torch.randn(2, 16)
delta = torch.arange(-15, 16)
f, lap_later = (twisted_roll(k, delta + laps * 16) @ q for laps in (0, 1))
agree("a lap later", lap_later, -f)
plain, twisted = (len(move(k, delta).unique(dim=0)) for move in (roll, twisted_roll))
print(f"different rolls of 16 channels at 31 offsets: plain {plain}, twisted {twisted}")
assert (plain, twisted) == (16, 31)

# %% [markdown]
# ## Without the sign
#
# The paper's ring $S$ is the twisted ring for odd $n$, so there Theorem 1 is a case of {prf:ref}`thm-twist`: RollPE is RoPE
# with one channel left unrotated. An even ring needs a second channel for the alternating pattern. The new channel stays
# zero, and the two form a plane that rotates by $\pi$ at every step: the pattern points forward or backward. If the constant
# wave gets a second channel as well, all channels are paired. The map $E$ writes a vector in these coordinates:
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
# $Eq$ and $Ek$ with the frequencies $\omega_m = 2\pi m/n$. (The division must remain that of the ring.) The second channel of
# the constant wave can be left out, and its first channel unrotated. That leaves $n$ channels for odd $n$ and $n + 1$ for
# even $n$, and no linear maps of queries and keys get by with fewer. For odd $n$ all this holds for real positions and any
# wavelength.
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
# Now let $E_q$ and $E_k$ be any matrices for which the formula holds. With both positions 0 it says $E_q^\top E_k = I$, so
# there are at least $n$ channels. If there are $n$, then $E_q^\top = E_k^{-1}$, and the positions 0 and 1 give $S = E_k^{-1} R_1
# E_k$. So $S$ and $R_1$, rotations and unrotated channels, have the same determinant. For even $n$ this contradicts
# {eq}`eq-not-rope`.
# ```


# %%
def rope_scores(q, k, positions, wavelength=1.0):
    """RoPE on the embedded vectors, with the ring's frequencies."""
    omega = ring_frequencies(q.shape[-1], wavelength)
    q, k = embed_in_rope(q), embed_in_rope(k)
    return rope(q, positions, omega) @ rope(k, positions, omega).T


positions = torch.tensor([0, 1, 5, 12, -3])
q, k = torch.randn(2, 5, n)
rolled = roll(q, positions) @ roll(k, positions).T
agree("integer positions", rope_scores(q, k, positions), rolled)

# %% tags=["hide-input"]
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
# changes: the multiplexed one of {doc}`07-waves`, which is not relative. The last curve is the sinusoidal code
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
# The first step fails for even $n$, and the twist repairs it. (Two axes have a ring each, with rotations of its own.
# Multiplexed RollPE is not covered; its scores are not relative, see {doc}`07-waves`.)

# %% tags=["hide-input"]
V, turning = rotation_form(generator(n, "twist"))
planes = rotation_matrix(0.3 * turning)
planes = torch.block_diag(planes, torch.eye(n % 2))
agree("App. F", V @ planes @ V.T, twisted_roll_matrix(n, 0.3))
print("frequencies × n/π:", (turning * n / math.pi).numpy() + 0.0)

# %% [markdown]
# ## Any twist
#
# On a *pair* of rings the twist can be any angle. Read the two as one ring of complex numbers, $z_j = x_j + \mathrm{i}\,
# x_{n+j}$, and turn by $\varphi$ what goes around:
#
# $$
# \begin{gathered} (N_\varphi z)_j = z_{j+1} \quad (j < n - 1), \qquad (N_\varphi z)_{n-1} = e^{\mathrm{i} \varphi} z_0, \\
# \theta_k = \frac{2\pi k + \varphi}{n}, \quad k = 0, \dots, n - 1, \qquad N_\varphi^n = e^{\mathrm{i} \varphi} \end{gathered}
# $$ (eq-twist-angle)
#
# The proof is as before: a wave $e^{\mathrm{i} \theta j}$ fits if $e^{\mathrm{i} \theta n} = e^{\mathrm{i} \varphi}$. In
# physics these are twisted boundary conditions. With $\varphi = 0$ this is a pair of plain rings. A quarter turn gives the
# angles of the twisted ring with $2n$ channels. With $\varphi = 2\pi/7$ the scores tell laps apart up to the seventh; if
# $\varphi/2\pi$ is irrational, they never repeat. The encoding `twisted-roll` takes $\varphi/2\pi$ as its option `twist`.
# {doc}`10-text` trains with four twists.

# %%
x = torch.randn(2 * n)
lap = twisted_pair_roll(x, n, twist=1 / 7)  # once around
turned = torch.view_as_complex(x.view(2, n).T.contiguous())
turned = turned * torch.exp(torch.tensor(2j * math.pi / 7))
agree("one lap", lap, torch.cat((turned.real, turned.imag)))
agree("seven laps", twisted_pair_roll(x, 7 * n, twist=1 / 7), x)

# %% [markdown]
# ## Which encodings are relative at all
#
# Suppose that an encoding multiplies the query at $p$ and the key at $p'$ by matrices $E(p)$ and $E(p')$, and that the score
# depends on the offset alone. Nothing else is assumed, no rotation, no ring. It follows that the encoding is a rotation.
# (GRAPE {cite}`zhang2025grape` starts from a group and arrives at the same encodings.)
#
# ```{prf:theorem} Relative encodings are rotations
# :label: thm-relative
# Let $E(p)$, $p \in \mathbb{Z}$, be invertible $n \times n$ matrices. The products $E(p)^\top E(p')$ depend on $p' - p$ alone
# if and only if {eq}`eq-relative-form` holds with orthogonal $U$, $W$ and a symmetric positive definite $P$.
# ```
#
# $$
# E(p) = U\, W^p P, \qquad E(p)^\top E(p') = P\, W^{p' - p} P
# $$ (eq-relative-form)
#
# ```{prf:proof}
# The matrix $E(p)^\top E(p)$ is the same for all $p$, symmetric and positive definite. Let $P$ be its square root, and $V(p) =
# E(p) P^{-1}$. Then $V(p)^\top V(p) = I$, so $V(p)$ is orthogonal. The product $W = V(p)^\top V(p + 1)$ does not depend on $p$
# either. So $V(p + 1) = V(p) W$, and $V(p) = V(0) W^p$. Put $U = V(0)$. The other direction is a line:
# $(U W^p P)^\top U W^{p'} P = P W^{p' - p} P$.
# ```
#
# In scores $U$ cancels, and $P$ can be moved into the weights of queries and keys. What remains is the orthogonal matrix $W$,
# and in a suitable basis it consists of plane rotations and of single channels with the factor 1 or $-1$. So **a relative
# encoding is a list of angles** from 0 to $\pi$. RollPE, RoPE and LieRE on one axis are three such lists.
#
# If queries and keys are multiplied by *different* matrices, $D(p)$ and $E(p')$, the same argument gives an invertible matrix
# $H$ in place of the orthogonal one:
#
# $$
# D(p)^\top E(p') \text{ depends on } p' - p \text{ alone} \iff D(p)^\top E(p') = M H^{p' - p}
# $$ (eq-two-maps)
#
# This covers decay and bias: xPos {cite}`sun2023length` is a rotation times a growth, and ALiBi {cite}`press2022train` a
# shear on one more pair of channels, $\bigl[ \begin{smallmatrix} 1 & 1 \\ 0 & 1 \end{smallmatrix} \bigr]$ between $(1, 0)$ and
# $(0, r)$, since ALiBi looks at earlier keys only, $\Delta \le 0$.

# %%
U, W, B = torch.linalg.qr(torch.randn(3, n, n))[0]
P = B @ torch.diag(torch.linspace(1, 2, n)) @ B.T
E = torch.stack([U @ power(W, p) @ P for p in range(6)])
agree("relative", E[1].T @ E[4], E[0].T @ E[3])
V = E @ inv(P)  # and back: all steps of V are one matrix
agree("one matrix, again and again", inv(V[:-1]) @ V[1:], W.expand(5, n, n))

# %% [markdown]
# ## How many functions of the offset?
#
# A trained model needs scores that differ between offsets. Its query and key choose one function $\Delta \mapsto q^\top W^\Delta
# k$ among those that the angles allow:
#
# $$
# \dim \operatorname{span} \bigl\{ \Delta \mapsto q^\top W^\Delta k \bigr\} = \#\{\text{eigenvalues of } W \text{, each counted once}\} \le n
# $$ (eq-span)
#
# ```{prf:proposition} Only the ring is complete
# :label: prop-complete
# A relative encoding with $n$ channels can express every function of the offset modulo $n$ if and only if the eigenvalues of $W$
# are all $n$-th roots of unity, each once: RollPE, up to a change of basis.
# ```
#
# ```{prf:proof}
# The scores are combinations of $\lambda^\Delta$, one for each eigenvalue $\lambda$, and powers of different numbers are linearly
# independent. Functions modulo $n$ are the combinations of $\lambda^\Delta$ with the $n$-th roots of unity. Each root has to
# be among the $n$ eigenvalues. {eq}`eq-complete` is the other direction.
# ```
#
# So among the encodings modulo $n$ equal spacing is forced. For $G$ tokens in a row there are $2G - 1$ offsets, hence all functions of
# them need $2G - 1$ channels, and the ring of {eq}`eq-distinct-offsets` has no channel too many. On a row that is not closed,
# any $n$ different eigenvalues express all functions of $n$ neighboring offsets, but some of them only with large queries and
# keys. The two rings are best at this:
#
# $$
# \operatorname{tr} W^\Delta = 0 \ \text{ for } \Delta = 1, \dots, n - 1 \iff \text{eigenvalues } e^{\mathrm{i} (2\pi k + \varphi)/n},
# \quad \varphi \in \{0, \pi\}
# $$ (eq-even-spacing)
#
# On the left is the covariance of scores at two offsets of distance $\Delta$, for queries and keys of independent standard
# normal numbers. So random scores at $n$ neighboring offsets are uncorrelated on two rings, the one that is closed plainly and the
# one that is closed with a sign, and with no other angles. (The traces are the power sums of the eigenvalues. If the first
# $n - 1$ are zero, Newton's identities leave $\lambda^n = c$ for all of them, and for a real $W$ that is orthogonal $c = \pm 1$.)
#
# Rings of different lengths side by side count as residues do {cite}`kymn2024computing`. Rings of 31 and 33 channels return to
# their start after 1,023 positions, and still express at most 64 functions, here 63, since both have the constant wave:
#
# $$
# \text{period } \operatorname{lcm}(a, b), \qquad \dim = a + b - \gcd(a, b)
# $$ (eq-residues)


# %%
def span(W) -> int:
    """The dimension of the functions Δ ↦ qᵀ W^Δ k."""
    powers = torch.stack([power(W, d) for d in range(3 * len(W))])
    return torch.linalg.matrix_rank(powers.flatten(1)).item()


residues = torch.block_diag(shift_matrix(31), shift_matrix(33))
print(f"ring {span(shift_matrix(n))}, twisted ring {span(N)} of {n} channels")
print(f"rings of 31 and 33 channels: {span(residues)}")
assert (span(shift_matrix(n)), span(N), span(residues)) == (n, n, 63)
traces = torch.stack([power(N, d).trace() for d in range(1, n)])
agree("uncorrelated scores", traces, torch.zeros(n - 1))

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
# across any image. With base 100, which is why RoPE for images uses it ({doc}`03-rotary`), there are fewer of those;
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
# - With one sign reversed, RollPE is RoPE on the same channels, for every number of them and at every real position,
#   {prf:ref}`thm-twist`. Without it, an even ring needs one more channel, and integer positions, {prf:ref}`thm-rope`.
# - A relative encoding is a list of angles, {prf:ref}`thm-relative`. The ring is the only list of $n$ that expresses all
#   functions of the offset modulo $n$.
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
