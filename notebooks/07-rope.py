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
# RollPE moves channels around a ring. RoPE turns pairs of channels. The paper says that the one *is* the other
# (Sec. 3, Theorem 1), because the Fourier transform makes rotations of rolls {cite}`rollpe`. How can reordering
# channels be a rotation of pairs? Is the sentence true for the widths that people use? And if two encodings can
# express the same functions, does it matter which of them one trains? The answers are: by looking at waves;
# nearly; and, with today's optimizers, yes for the model that one gets, and on some data for its accuracy, too
# ({doc}`14-inside`).

# %% tags=["parameters"]
n: int = 16  # channels on the ring [12..32]
steps: int = 60  # optimizer steps of each training run [40..150]
seeds: int = 3  # training runs with each optimizer [2..10]
images: int = 512  # digits to train on [256..1257]
records: str = "_build/records"  # folder for the record

# %% tags=["hide-input"]
import itertools
import json
import math
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, unfold

from rollpe import figures
from rollpe.agree import agree, gap
from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.adapters import Attention
from rollpe.encodings.roll import twin_state_dict
from rollpe.files import write_atomically
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
from rollpe.records import environment, now, provenance
from rollpe.sources import enter_root
from rollpe.textbook import rope, rope_frequencies, rotation_matrix
from rollpe.training import load_dataset

enter_root()
figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ## Four channels, by hand
#
# Take the ring of four channels that holds $(10, 20, 30, 40)$, and write down four other numbers that say the
# same: the sum $s$ of all channels, the alternating sum $t = x_0 - x_1 + x_2 - x_3$, and the differences of opposite
# channels, $a = x_0 - x_2$ and $b = x_3 - x_1$. Then roll by one step and do it again:
#
# | | channels | $s$ | $t$ | $(a, b)$ |
# | --- | --- | --- | --- | --- |
# | before | 10 20 30 40 | 100 | $-20$ | $(-20, 20)$ |
# | one step | 20 30 40 10 | 100 | $20$ | $(-20, -20)$ |
# | two steps | 30 40 10 20 | 100 | $-20$ | $(20, -20)$ |
#
# The sum never notices. The alternating sum changes its sign with each step. And $(a, b)$ walks around the
# corners of a square: every step is a quarter turn, $(a, b) \mapsto (-b, a)$. There is the rotation of RoPE.

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
# These numbers are the Fourier transform in its real form. A longer ring has more waves, each with a cosine and a
# sine, and wave $k$ turns by its own angle at each step:
#
# $$
# \omega_k = \frac{2\pi k}{\lambda n}, \qquad k = 0, \dots, \lfloor \tfrac n2 \rfloor
# $$ (eq-ring-frequencies)
#
# Put cosines and sines into the columns of an orthogonal matrix, then the constant and, for even $n$, the
# alternating pattern:
#
# $$
# \begin{gathered} Q = \sqrt{\tfrac 2n} \Bigl[ \cos \tfrac{2\pi k i}{n},\; -\sin \tfrac{2\pi k i}{n} \Bigr]_{k=1}^{\lfloor (n-1)/2 \rfloor} \\
# \Bigl[ \tfrac{1}{\sqrt n} \Bigr] \Bigl[ \tfrac{(-1)^i}{\sqrt n} \Bigr]_{n \text{ even}}, \qquad Q^\top Q = I \end{gathered}
# $$ (eq-real-basis)
#
# In this basis the roll falls apart into plane rotations, with one or two channels left over. From here to
# {prf:ref}`thm-rope` let $\lambda = 1$, and let positions be whole:
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

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-two-bases", "caption": "One roll in two bases. Left: three steps on the channels of the ring, a permutation. Right: the same three steps on its waves: planes that turn at different speeds, and what is left over in the lower right corner."}, "image": {"alt": "Two square matrices as heat maps. The left one has a single one in every row, on a diagonal that wraps around. The right one is zero except for two by two blocks along the diagonal and one or two single entries at its end; for an even ring the last one is negative."}}
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
# On the right of {numref}`fig-two-bases` you see RoPE's matrix, except for its last corner. That corner is what
# the rest of the argument is about.
#
# The score, too, is a sum of waves, each a wave of the offset. Query and key choose how strong each wave is and where
# its crest lies, the ring fixes how fast it goes. A hat is the Fourier transform, as in {eq}`eq-correlation`, and the
# wave has the number $m$ here, since $k$ is the key:
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
# The paper calls its diagonal matrix (Eq. 7) "equivalent to a RoPE matrix". RoPE on $n$ channels is made of plane
# rotations alone {cite}`su2024roformer`. For even $n$ the roll is not, in any basis whatever, because a single
# number gives it away:
#
# $$
# \begin{gathered} \det \bigoplus_i R(\theta_i p) = 1 \neq -1 = \det S^p \\
# (n \text{ even},\ p \text{ odd}) \end{gathered}
# $$ (eq-not-rope)
#
# What does hold needs a little more room. Give the constant a second channel, which stays empty, and do the
# same for the alternating pattern. Then each of them is a plane as well: the first turns by 0, the second by
# $\pi$ a step, so that it only ever points forward or backward.
#
# $$
# \begin{gathered} E : \mathbb{R}^n \to \mathbb{R}^{2 (\lfloor n/2 \rfloor + 1)}, \qquad \|E x\| = \|x\|, \\
# (E x)_m = \sqrt{w_m} \left( \operatorname{Re} \hat x_m, \operatorname{Im} \hat x_m \right), \\
# w_m = \begin{cases} 1 & m \in \{0, \tfrac n2\} \\ 2 & \text{otherwise} \end{cases} \end{gathered}
# $$ (eq-embedding)
#
# ```{prf:theorem} RollPE embeds in RoPE
# :label: thm-rope
# Let all positions be whole. The RollPE score of $q$ and $k$ (before the division by $\sqrt d$, which must remain that
# of the ring) is the RoPE score of $Eq$ and $Ek$ in $n + 1$ dimensions for odd $n$, and in $n + 2$ for even $n$, with
# the frequencies $\omega_m = 2\pi m/n$. For odd $n$ this is true of all real positions and of any wavelength. For even
# $n$ no linear maps $E_q$ of queries and $E_k$ of keys into $n$ dimensions do the same, whether they are equal or not.
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
# the missing half: $E$ keeps inner products. A roll by $p$ multiplies coefficient $m$ by $e^{\mathrm{i} \omega_m p}$,
# and that rotates its real and imaginary part by $\omega_m p$. Where a second channel must stay empty it does,
# because the factor is real there: 1 for $m = 0$, and $(-1)^p$ for $m = n/2$ at whole $p$. Hence $E\,
# \mathrm{Roll}_p(x) = R_p E x$, which proves the formula. Now let $n$ be even, and $E_q$ and $E_k$ any $n \times n$ matrices
# for which the formula holds. With both positions 0 it says $E_q^\top E_k = I$, so $E_q^\top = E_k^{-1}$. With $p_q = 0$ and
# $p_k = 1$ it then says $S = E_k^{-1} R_1 E_k$, so $S$ and $R_1$ have the same determinant, against {eq}`eq-not-rope`.
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
agree("whole positions", rope_scores(q, k, positions), rolled)

odd, wavelength, positions = n - 1 + n % 2, 1.7, torch.randn(5)
q, k = torch.randn(2, 5, odd)
rolled_q = continuous_roll(q, positions, wavelength)
rolled_k = continuous_roll(k, positions, wavelength)
found = rope_scores(q, k, positions, wavelength)
agree(f"real positions, n = {odd}", found, rolled_q @ rolled_k.T)

# %% [markdown]
# In {numref}`wave-score` compare the first two curves: the RoPE of the theorem runs through all points of the roll.
# The others are scores of a different kind, from the same query and the same key.
#
# ```{wave} score
# :name: wave-score
# Scores of one query and one key, over $\sqrt n$, against the offset $\Delta$ of the key; 16 channels. Roll and the
# RoPE of the theorem, with the ring's frequencies in arithmetic progression, repeat after 16 offsets (dotted lines).
# RoPE with its own frequencies, in geometric progression, does not. When the query moves with $p$ and $\Delta$ stays,
# one curve alone changes: the multiplexed one of {doc}`08-multiplexed`, which is not relative. The last curve is the
# sinusoidal code against itself, without query and key.
# ```
#
# The paper argues along another road: the roll is the exponential of a skew-symmetric matrix, LieRE
# {cite}`ostmeier2024liere` allows any such matrix, and for one-dimensional positions LieRE is RoPE in some basis
# {cite}`vandegeijn2025circular`. The last step is right:
#
# $$
# \begin{gathered} \mathcal{A}^\top = -\mathcal{A} \quad \Longrightarrow \\
# e^{p \mathcal{A}} = V \Bigl( \bigoplus_i R(\omega_i p) \; (\oplus\, 1) \Bigr) V^\top, \\
# V^\top V = I, \qquad \pm \mathrm{i} \omega_i \in \operatorname{spec} \mathcal{A} \end{gathered}
# $$ (eq-lie-form)
#
# The first step fails for even $n$, as {doc}`06-continuous` shows. But the road can be mended. Take the real
# generator that lets the Nyquist mode stand still, the library's `continuous-roll`. It *is* RoPE, on $n$ channels,
# with a plane of frequency 0 made of the two left-over channels. It pays by not quite being the roll.
#
# The theorem speaks of one axis. With two axes, each has its own ring and its own rotations. And it says nothing
# of the multiplexed roll ({doc}`08-multiplexed`), whose scores are not relative and hence no RoPE.

# %%
V, turning = rotation_form(generator(n))
planes = rotation_matrix(0.3 * turning)
planes = torch.block_diag(planes, torch.eye(n % 2))
agree("App. F", V @ planes @ V.T, roll_matrix(n, 0.3))
print("frequencies × n/2π:", (turning * n / (2 * math.pi)).numpy() + 0.0)

# %% [markdown]
# ## The frequencies
#
# So RollPE is a RoPE with unusual frequencies. They grow in equal steps, those of RoPE by equal factors:
#
# $$
# \begin{gathered} \omega_{k+1} - \omega_k = \frac{2\pi}{\lambda n}, \\
# \frac{\theta_{k+1}}{\theta_k} = 10000^{-2/d} \end{gathered}
# $$ (eq-spectra)
#
# The introduction *circles* rejects the first kind as too slow {cite}`teaching-circles`. RollPE puts
# this to the test. The paper remarks that both formulas can be made to look alike by a
# certain wavelength:
#
# $$
# \begin{gathered} \lambda = -\frac{\pi}{\ln 10000} \quad \Longrightarrow \\
# \frac{2\pi k}{\lambda n} = \ln\!\left( 10000^{-2k/n} \right) \end{gathered}
# $$ (eq-lambda)
#
# The algebra is right. What agrees is the exponent, not the frequency: one code turns at the logarithm of the other
# one's speed. And the wavelength is short, about a third of a position to a step. Most waves then turn by more
# than half a circle from one patch to the next. At whole positions nobody can tell such a wave from a slower
# one, as with the wagon wheel:
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
agree("what whole positions see", seen, same)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-spectra", "caption": "The frequencies of RoPE with two bases and of RollPE with two wavelengths, all on 32 channels, without the constant wave of RollPE, k = 0, and, for the short wavelength, without its Nyquist mode. The trained axial-rope of this book has the base 100. In the shaded range a wave turns by more than half a circle from one whole position to the next; open dots there are aliased."}, "image": {"alt": "Four rows of dots along a logarithmic frequency axis. RoPE with base 10000 spreads its dots evenly from 0.0002 to 1, with base 100 from a little above one hundredth to 1. RollPE crowds its dots at the high end, from about 0.2 up to pi. RollPE with the short wavelength has its dots between about 0.6 and 9, and most of them are open dots in the shaded range above pi."}}
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
# Read {numref}`fig-spectra` by the upper axis. RoPE has a few waves for neighbors and many that barely move across
# any image. With base 100 they are fewer, which is why RoPE for images has it ({doc}`04-rotary`); the slowest is
# still hundreds of positions long. All of RollPE's waves fit on the ring, the longest goes around exactly once. With
# the wavelength of {eq}`eq-lambda` it is still a different code, and one that aliases.
#
# ```{wave} frequencies
# :name: wave-frequencies
# Above: the frequencies of RoPE with base 10000 and of RollPE with wavelength $\lambda$. Those in the shaded range,
# beyond $\pi$, look at whole positions like the slower ones that their lines lead to. Below: one of them as a wave
# (thin), and the slow wave that goes through the same points (dashed).
# ```
#
# ## The rotary twin
#
# If the difference is a change of basis, it can be hidden. Queries and keys come out of weight matrices, and an
# orthogonal matrix can be multiplied into those beforehand:
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p}(W_Q x)^\top \mathrm{Roll}_{p'}(W_K y) \\
# & \quad = \bigl( R_p\, W_Q' x \bigr)^\top R_{p'}\, W_K' y, \\
# & W' = Q^\top W \end{aligned}
# $$ (eq-twin)
#
# Here $R_p$ is the rotary form {eq}`eq-rotary-form`, left-over channels included. Biases of queries and keys go
# along, $b' = Q^\top b$. This encoding is the *rotary twin* of RollPE, in the library `roll-twin`, and
# `twin_state_dict` carries trained weights and biases from one to the other. It has the $n$ channels of the ring, and so it is
# not the RoPE of {prf:ref}`thm-rope`, which has one or two more. To see both at work, take a very small
# transformer: patches of $2 \times 2$ pixels, one block, one head, a ring of $n$ channels for each axis.


# %%
class Classifier(nn.Module):
    """Patches [B, 16, 4] → logits [B, 10]: one block, then a mean."""

    def __init__(self, encoding: str):
        super().__init__()
        width = 2 * n  # one head: a ring for rows, one for columns
        self.embed = nn.Linear(4, width)
        self.norm = nn.LayerNorm(width)
        self.attn = Attention(width, num_heads=1, qkv_bias=True)
        sizes = {"head_dim": width, "heads": 1, "axes": 2}
        self.attn.install(create_encoding(encoding, **sizes))
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, width),
        )
        self.last_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, patches):
        x = self.embed(patches)
        x = x + self.attn(self.norm(x), grid_positions(4, 4))
        x = x + self.mlp(x)
        return self.head(self.last_norm(x.mean(dim=1)))


def create_twins(seed: int) -> dict[str, Classifier]:
    """A model with `roll`, and its twin with transformed weights."""
    torch.manual_seed(seed)
    twins = {name: Classifier(name) for name in ("roll", "roll-twin")}
    state = twins["roll"].state_dict()
    encoding = twins["roll-twin"].attn.encoding
    twins["roll-twin"].load_state_dict(twin_state_dict(state, encoding))
    return twins


data = load_dataset("digits")


def cut(split):
    """Images of a split → normalized patches [B, 16, 4]."""
    normalized = (split.images / 255 - data.mean[0]) / data.std[0]
    return unfold(normalized, 2, stride=2).mT


train, held_out = cut(data.train)[:images], cut(data.held_out)
labels, held_out_labels = data.train.labels[:images], data.held_out.labels
twins = create_twins(seed=0)
logits = {name: model(held_out) for name, model in twins.items()}
agree("logits of the twins", logits["roll"], logits["roll-twin"])

# %% [markdown]
# ## The same functions, not the same training
#
# The twins start as one function. Now both take a step of gradient descent, from the same images. Do they
# remain one function?
#
# ```{prf:proposition} Gradient descent is blind to the basis
# :label: prop-sgd
# Let twins have the weights $W$ and $W' = Q^\top W$ and the biases $b$ and $b' = Q^\top b$ in queries and keys, and all
# else in common. If both take a gradient step of the same size, they are twins again.
# ```
#
# ```{prf:proof}
# Both losses are one function, written in different coordinates: $L'(W', b') = L(Q W', Q b')$. By the chain rule
# $\nabla L' = Q^\top \nabla L$. So the step itself is carried over by $Q^\top$, as weights and biases are.
# ```
#
# $$
# \begin{gathered} \nabla_{W'} L = Q^\top \nabla_W L \quad \Longrightarrow \\
# Q^\top \bigl( W - \eta \nabla_W L \bigr) = W' - \eta \nabla_{W'} L \end{gathered}
# $$ (eq-sgd)
#
# The same goes for momentum, which is a sum of gradients, for weight decay, and for clipping by the norm. It does
# not go for Adam {cite}`kingma2015adam`. Adam divides each entry of the gradient by its own recent size, and
# entries are a matter of the basis:
#
# $$
# \begin{gathered} Q^\top \, \frac{\nabla_W L}{\sqrt{(\nabla_W L)^2} + \varepsilon} \;\neq\;
# \frac{\nabla_{W'} L}{\sqrt{(\nabla_{W'} L)^2} + \varepsilon} \\
# \text{(Adam's first step, entry by entry)} \end{gathered}
# $$ (eq-adam)
#
# AdamW {cite}`loshchilov2019decoupled` and LAMB {cite}`you2020large` divide in the same way, and one of these two
# trains every model of {doc}`12-results`. That Adam's results depend on the basis has been measured on larger
# transformers {cite}`zhang2025understanding`. Here the two bases have names: on the ring, an entry is a channel; in
# the twin, it is a wave.

# %%
gradients = {}
for name, model in twins.items():
    cross_entropy(model(train), labels).backward()
    gradients[name] = model.attn.qkv.weight.grad[: 2 * n]  # of W_Q
absorb = twins["roll-twin"].attn.encoding.absorb  # Qᵀ on either axis
agree("gradients are twins", absorb(gradients["roll"]), gradients["roll-twin"])
first_step = {name: g / (g.abs() + 1e-8) for name, g in gradients.items()}
difference = absorb(first_step["roll"]) - first_step["roll-twin"]
share = (difference.norm() / first_step["roll"].norm()).item()
print(f"Adam's first steps differ by {share:.0%} of their length")
assert share > 0.1

# %% [markdown]
# ## The experiment
#
# Train the twins side by side, on the same batches, and compare their logits at every step. Four
# optimizers: plain gradient descent, the same with momentum, Adam, and a control. The control is Adam in every
# respect but one. It divides a weight matrix by one number, the root mean square of all its entries, instead of
# dividing each entry by its own. If it is the division by entries that tells the twins apart, the control should not.


# %%
class OneScaleAdam(torch.optim.Optimizer):
    """Adam with one second moment for each weight matrix."""

    def __init__(self, parameters, lr: float):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                t = state["t"] = state.get("t", 0) + 1
                state["m"] = 0.9 * state.get("m", 0) + 0.1 * w.grad
                square = w.grad.square().mean()  # Adam: without mean()
                state["v"] = 0.999 * state.get("v", 0) + 0.001 * square
                mean, scale = (
                    state["m"] / (1 - 0.9**t),
                    state["v"] / (1 - 0.999**t),
                )
                w -= group["lr"] * mean / (scale.sqrt() + 1e-8)


OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.3}),
    "SGD, momentum": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "Adam": (torch.optim.Adam, {"lr": 0.005}),
    "Adam, one scale": (OneScaleAdam, {"lr": 0.005}),
}
BATCH = 64


def distance(left, right) -> float:
    """How far two sets of logits are apart, relative to their length."""
    return ((left - right).norm() / left.norm()).item()


def train_twins(optimizer: str, seed: int) -> tuple[dict, torch.Tensor]:
    """What was measured, and the held-out logits of `roll` at the end."""
    twins, (create, settings) = create_twins(seed), OPTIMIZERS[optimizer]
    optimizers = {
        name: create(model.parameters(), **settings) for name, model in twins.items()
    }
    W = twins["roll"].attn.qkv.weight[: 4 * n]  # W_Q and W_K
    start = W.detach().clone()
    order = torch.Generator().manual_seed(seed)
    distances, loss, logits = [], {}, {}
    for _ in range(steps):
        batch = torch.randint(len(train), (BATCH,), generator=order)
        for name, model in twins.items():
            logits[name] = model(train[batch])
            value = cross_entropy(logits[name], labels[batch])
            optimizers[name].zero_grad()
            value.backward()
            optimizers[name].step()
            loss[name] = value.item()
        distances.append(distance(logits["roll"], logits["roll-twin"]))
    with torch.no_grad():
        final = {name: model(held_out) for name, model in twins.items()}
    answers = {name: value.argmax(dim=1) for name, value in final.items()}
    differ = answers["roll"] != answers["roll-twin"]
    right = {k: (a == held_out_labels).sum().item() for k, a in answers.items()}
    measured = {
        "optimizer": optimizer,
        "seed": seed,
        "distance": distances,  # before each step, on its batch
        "last_loss": loss,
        "weights_moved": ((W - start).norm() / start.norm()).item(),
        "held_out_distance": distance(final["roll"], final["roll-twin"]),
        "held_out_answers_differ": differ.sum().item(),
        "held_out_right": right,
    }
    return measured, final["roll"]


# %% [markdown]
# How much is a large distance? As a yardstick, take two models that have nothing in common but the recipe: the same
# encoding, the same optimizer, different seeds. All that is measured goes into a record with the machine and the
# source that made it.

# %% tags=["hide-input"]
clock, started = time.perf_counter(), now()
runs, strangers = [], []
for optimizer in OPTIMIZERS:
    measured, logits = zip(
        *(train_twins(optimizer, seed) for seed in range(seeds)), strict=True
    )
    runs += measured
    if optimizer == "Adam":
        for left, right in itertools.combinations(logits, 2):
            differ = (left.argmax(dim=1) != right.argmax(dim=1)).sum().item()
            strangers.append(
                {
                    "held_out_distance": distance(left, right),
                    "held_out_answers_differ": differ,
                }
            )

chosen = {"n": n, "steps": steps, "seeds": seeds, "images": images}
command = "rollpe notebook notebooks/07-rope.py " + " ".join(
    f"-p {k} {v}" for k, v in chosen.items()
)
record = {
    "schema_version": 1,
    "experiment": "sgd-adam",
    "settings": chosen
    | {"batch": BATCH, "optimizers": {k: s for k, (_, s) in OPTIMIZERS.items()}},
    "held_out_images": len(held_out),
    "runs": runs,
    "different_seeds": strangers,
    "environment": environment("cpu").model_dump(),
    "provenance": provenance(
        command, started, time.perf_counter() - clock
    ).model_dump(),
}
path = Path(records, "experiments", "sgd-adam.json")
write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
print(path)

# %% [markdown]
# What follows is read back from that file.

# %% tags=["hide-input"]
record = json.loads(path.read_text())
settings = record["settings"]
print(
    f"{settings['steps']} steps, {settings['seeds']} seeds: of distances and answers "
    "the largest, of moves the smallest"
)
print(f"{'':16} {'distance of the logits':^30} {'answers':>9} {'weights':>9}")
print(f"{'':16} {'at first':>9} {'1 step':>9} {'ever':>10} {'differ':>9} {'moved':>9}")
for optimizer in settings["optimizers"]:
    mine = [run for run in record["runs"] if run["optimizer"] == optimizer]
    lines = np.array([run["distance"] for run in mine])
    differ = max(run["held_out_answers_differ"] for run in mine)
    moved = min(run["weights_moved"] for run in mine)
    numbers = f"{lines[:, 0].max():9.0e} {lines[:, 1].max():9.0e} {lines.max():10.0e}"
    print(
        f"{optimizer:16} {numbers} {differ:5d}/{record['held_out_images']} {moved:9.0%}"
    )
    if optimizer == "Adam":
        assert lines[:, 1].min() > 1e-6 and lines[:, -1].min() > 1e-4
    else:
        assert lines.max() < 1e-6 and differ == 0

# %% tags=["hide-input"]
for optimizer in settings["optimizers"]:
    mine = [run for run in record["runs"] if run["optimizer"] == optimizer]
    right = {
        name: np.mean([run["held_out_right"][name] for run in mine])
        / record["held_out_images"]
        for name in ("roll", "roll-twin")
    }
    print(
        f"{optimizer:16} held-out accuracy, mean of seeds: "
        f"roll {right['roll']:.1%}, twin {right['roll-twin']:.1%}"
    )
apart = np.mean([pair["held_out_distance"] for pair in record["different_seeds"]])
differ = np.mean(
    [pair["held_out_answers_differ"] for pair in record["different_seeds"]]
)
twins_apart = np.mean(
    [r["held_out_distance"] for r in record["runs"] if r["optimizer"] == "Adam"]
)
print(
    f"\nAdam, held-out logits: twins are {twins_apart:.2f} apart, "
    f"models of different seeds {apart:.2f}"
)
print(
    f"answers of different seeds differ on {differ:.0f} "
    f"of {record['held_out_images']} images"
)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-sgd-adam", "caption": "How far the logits of twins drift apart while they train on the same batches, for each seed. The twins begin as one function in two bases. Dashed: how far models of different seeds are apart after training."}, "image": {"alt": "Relative distance of logits on a logarithmic axis from ten to the minus seventeen to ten, against the training step. Three bundles of lines, gradient descent, momentum and Adam with one scale, stay near ten to the minus fifteen. The lines of Adam jump after the first step by more than ten orders of magnitude and climb towards the dashed line of different seeds."}}
colors = dict(
    zip(
        settings["optimizers"],
        (figures.BLUE, figures.GREEN, figures.VERMILION, figures.PINK),
        strict=True,
    )
)
fig, ax = plt.subplots(figsize=(7.0, 3.7))
ends = {}
for run in record["runs"]:
    ax.plot(
        run["distance"],
        color=colors[run["optimizer"]],
        linewidth=1.2,
        alpha=0.85,
        label=run["optimizer"],
    )
    ends.setdefault(run["optimizer"], []).append(run["distance"][-1])
ax.axhline(
    apart, color=figures.MUTED, linestyle="--", linewidth=1, label="different seeds"
)
ax.annotate(
    "different seeds",
    (1.01, apart),
    xycoords=("axes fraction", "data"),
    va="bottom",
    color=figures.MUTED,
    fontsize=9,
)
height = -np.inf  # of the label below, in decades
for name in sorted(ends, key=lambda name: np.median(ends[name])):
    height = max(np.log10(np.median(ends[name])), height + 1.0)
    ax.annotate(
        name,
        (1.01, 10**height),
        xycoords=("axes fraction", "data"),
        va="center" if name != "Adam" else "top",
        color=colors[name],
        fontsize=9,
    )
ax.set(
    yscale="log",
    ylim=(1e-17, 10),
    xlim=(0, settings["steps"] - 1),
    xlabel="step",
    ylabel="relative distance of the twins’ logits",
)
plt.close(fig)
fig

# %% [markdown]
# {numref}`fig-sgd-adam` is the answer to the question of this page. Three optimizers keep the twins together to the
# rounding of the arithmetic, although all of them move their weights and learn. Adam separates them. It does not wait
# for rounding errors to grow: the gap is there after a single step, and it grows to the order of the distance between
# two seeds. The control shows what does it. With one scale for each matrix Adam still learns, and cannot tell
# channels from waves. (The lower lines rise a little, too. Training amplifies the smallest differences, here those of
# rounding; try `-p steps 150`.)
#
# So "RollPE is RoPE" is true of the functions, in the sense of {prf:ref}`thm-rope`, and not of the models that Adam
# makes of them. Whether it is better to train on channels or on waves is another question, and this toy is no
# place to answer it. It takes full recipes and many seeds: {doc}`14-inside` has them for digits in fine patches, where the
# twin reads more under Adam, and {doc}`12-results` for photographs, where the sign is open.
#
# ```{admonition} In short
# :class: tip
# In the Fourier basis the roll turns planes, like RoPE, with equally spaced frequencies. On $n$ channels it is not
# RoPE for even $n$, {eq}`eq-not-rope`. In $n + 2$ dimensions ($n + 1$ for odd $n$) its scores are those of RoPE,
# {eq}`eq-theorem`. The wavelength that makes both formulas look alike matches exponents, not frequencies. The change of
# basis can be absorbed in the weights, which gives RollPE a rotary twin with exactly its functions. Gradient descent
# trains both alike. Adam does not.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rope-two
# Two channels: what is the rotary twin of the shortest even ring? How many planes turn in it?
# ```
#
# ```{solution} exercise-rope-two
# :class: dropdown
# None. The twin consists of the two left-over channels, $(x + y)/\sqrt 2$, which stays, and $(x - y)/\sqrt 2$, which
# changes its sign at every step.
# ```

# %% tags=["hide-cell"]
Q2, none = real_fourier_basis(2)
assert len(none) == 0
agree("the twin of two channels", Q2.T @ shift_matrix(2) @ Q2, [[1, 0], [0, -1]])

# %% [markdown]
# ```{exercise}
# :label: exercise-rope-rules
# An update rule $f$ is blind to the basis if $f(Q^\top G) = Q^\top f(G)$ for every gradient $G$ and every orthogonal
# $Q$. Which of these are: the sign of each entry; clipping to norm 1; clipping each entry; the nearest orthogonal
# matrix $UV^\top$, with $G = U \Sigma V^\top$?
# ```
#
# ```{solution} exercise-rope-rules
# :class: dropdown
# The second and the fourth. Norms and singular vectors belong to the matrix, signs and sizes of entries to the
# basis. The fourth is the step that the optimizer Muon {cite}`jordan2024muon` approximates.
# ```


# %% tags=["hide-cell"]
def nearest_orthogonal(G):
    U, _, Vh = torch.linalg.svd(G, full_matrices=False)
    return U @ Vh


rules = {
    "sign": torch.sign,
    "clip the norm": lambda G: G / max(1.0, G.norm().item()),
    "clip entries": lambda G: G.clamp(-0.5, 0.5),
    "nearest orthogonal": nearest_orthogonal,
}
G = torch.randn(n, n + 3)
blind = {k: gap(f(Q.T @ G), Q.T @ f(G)) < 1e-10 for k, f in rules.items()}
for name, is_blind in blind.items():
    print(f"{name:18} {'blind' if is_blind else 'sees the basis'}")
assert list(blind.values()) == [False, True, False, True]

# %% [markdown]
# ```{exercise}
# :label: exercise-rope-wavelength
# Choose $\lambda$ such that RollPE's fastest wave is as fast as RoPE's. How long is its slowest wave at 32 channels,
# against RoPE's?
# ```
#
# ```{solution} exercise-rope-wavelength
# :class: dropdown
# The Nyquist mode does not count, since it stands still unless it is treated otherwise ({doc}`06-continuous`). The
# fastest wave that turns at fractions of a step is the one below it, $\omega_{n/2-1} = 2\pi(\tfrac n2 - 1)/(\lambda
# n)$. RoPE's has frequency 1, so at 32 channels $\lambda = \tfrac{15}{16}\pi$. The slowest wave then has a period of
# $\lambda n = 30\pi$, a little over ninety positions. RoPE's has one of $2\pi \cdot 10000^{30/32}$, tens of
# thousands.
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
