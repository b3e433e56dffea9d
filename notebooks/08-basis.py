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
#     reads: [data/records, plans]
# ---

# %% [markdown]
# # The same functions in another basis
#
# RollPE (`roll`) rolls the channels of queries and keys around a ring. Its *rotary twin* (`roll-twin`) rotates pairs of
# channels and computes the same scores: it is RollPE with the channels written as waves ({doc}`Ch. 5 <05-rope>`). Does
# it matter which of the two one trains? {doc}`One page <../adam>` tells the result; this chapter proves and measures it.
#
# - **Plain gradient descent keeps them equal**, up to rounding.
# - **Adam separates them at its first step.** It divides every entry of a gradient by that entry's own size, and in
#   another basis the entries are other numbers.
# - **Adam also decides whether neighboring channels respond alike.** Early in training the gradient is a slow wave
#   along the ring. In RollPE's channels a step of Adam keeps most of it, in Fourier coordinates nothing.

# %% tags=["parameters"]
n: int = 16  # channels on the ring [12..32]
steps: int = 60  # optimizer steps of each training run [40..150]
seeds: int = 3  # training runs with each optimizer [2..10]
images: int = 512  # digits to train on [256..1257]
records: str = "_build/records"  # folder for the record

# %% tags=["hide-input"]
import itertools
import json
import time
from pathlib import Path

import ipytest
import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown
from scipy.stats import ttest_1samp
from torch import nn
from torch.nn.functional import cross_entropy, unfold

from rollpe_book import figures
from rollpe_book.agree import agree, differs, holds
from rollpe_book.chapters.parameters import begin
from rollpe_lab.files import write_atomically
from rollpe_lab.records import environment, now
from rollpe_lab.records.provenance import provenance
from rollpe_lab.training import load_dataset

begin(globals())
ipytest.config(rewrite_asserts=True, magics=False)  # a failed assert shows its values
figures.use_theme()
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## The same scores in another basis
#
# The columns of the orthogonal matrix $Q$ are the waves of the ring: a cosine and a sine for each frequency, the
# constant and, on an even ring, the wave that alternates {eq}`eq-real-basis`.

# %%
from rollpe.ring import real_fourier_basis

i, k = torch.arange(n), torch.arange(1, (n + 1) // 2)
angle = 2 * torch.pi * torch.outer(i, k) / n
pairs = torch.stack((angle.cos(), -angle.sin()), 2).flatten(1) * (2 / n) ** 0.5
lone = [torch.ones(n, 1) / n**0.5, (-1.0) ** i[:, None] / n**0.5][: 2 - n % 2]
Q = torch.cat((pairs, *lone), 1)
agree("our lines and the library", Q, real_fourier_basis(n)[0])

# %% [markdown]
# A change of basis can be moved from the encoding into the weight matrices of queries and keys: multiply by $Q^\top$
# beforehand, and rotate instead of rolling:
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p}(W_Q x)^\top \mathrm{Roll}_{p'}(W_K y) \\
# & \quad = \bigl( R_p\, W_Q' x \bigr)^\top R_{p'}\, W_K' y, \\
# & W' = Q^\top W \end{aligned}
# $$ (eq-twin)
#
# Here $R_p$ is the rotary form {eq}`eq-rotary-form`, and biases become $b' = Q^\top b$.


# %%
from rollpe.formulas import rotation_matrix


def R(p, n):
    """Rotations of the pairs; 1 and (−1)^p for the waves without a partner."""
    ω = 2 * torch.pi * torch.arange(1, (n + 1) // 2) / n
    single = torch.tensor([1.0, (-1.0) ** p])[: 2 - n % 2]
    return torch.block_diag(rotation_matrix(ω * p), single.diag())


# %%
rolled, rotated = [], []
for m in (n, 3, 4, 13):  # channels; the positions are 2 and −7
    (W_Q, W_K), (x, y) = torch.randn(2, m, 5), torch.randn(2, 5)
    W_Q2, W_K2 = real_fourier_basis(m)[0].T @ torch.stack((W_Q, W_K))
    rolled.append((W_Q @ x).roll(-2) @ (W_K @ y).roll(7))
    rotated.append((R(2, m) @ W_Q2 @ x) @ (R(-7, m) @ W_K2 @ y))
agree("eq-twin", rolled, rotated)

# %% [markdown]
# We train a very small transformer on handwritten digits: patches of $2 \times 2$ pixels, one block, one head, and a ring of
# $n$ channels for each axis. `twin_weights` carries the weights of one model over to the other.


# %%
from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.attention import Attention


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


# Qᵀ on either axis; the library puts the pairs of both axes first, then the rest
place, two = torch.arange(2 * n).view(2, n), 2 * len(k)
order = torch.cat((place[:, :two].flatten(), place[:, two:].flip(1).T.flatten()))
Q_T = torch.block_diag(Q.T, Q.T)[order]


def twin_weights(state: dict) -> dict:
    """W' = QᵀW and b' = Qᵀb for queries and keys; all else stays."""
    moved = dict(state)
    for name in ("attn.qkv.weight", "attn.qkv.bias"):
        W_Q, W_K, W_V = state[name].chunk(3)
        moved[name] = torch.cat((Q_T @ W_Q, Q_T @ W_K, W_V))
    return moved


def create_twins(seed: int) -> dict[str, Classifier]:
    """A model with `roll`, and its twin with transformed weights."""
    torch.manual_seed(seed)
    twins = {name: Classifier(name) for name in ("roll", "roll-twin")}
    twins["roll-twin"].load_state_dict(twin_weights(twins["roll"].state_dict()))
    return twins


# %%
data = load_dataset("digits")


def cut(split):
    """Images of a split → normalized patches [B, 16, 4]."""
    normalized = (split.images / 255 - data.mean[0]) / data.std[0]
    return unfold(normalized, 2, stride=2).mT


train, held_out = cut(data.train)[:images], cut(data.held_out)
labels, held_out_labels = data.train.labels[:images], data.held_out.labels

# %%
from rollpe.encodings.roll import twin_state_dict

twins = create_twins(seed=0)
state, encoding = twins["roll"].state_dict(), twins["roll-twin"].attn.encoding
library = twin_state_dict(state, encoding)["attn.qkv.weight"]
agree("our lines and the library", twin_weights(state)["attn.qkv.weight"], library)
logits = {name: model(held_out) for name, model in twins.items()}
agree("logits of the twins", logits["roll"], logits["roll-twin"])

# %% [markdown]
# ## Gradient descent keeps twins equal
#
# The gradient changes its basis together with the weights. With $L$ for the loss and $\eta$ for the step size:
#
# $$
# \begin{gathered} \nabla_{W'} L = Q^\top \nabla_W L \quad \Longrightarrow \\
# Q^\top \bigl( W - \eta \nabla_W L \bigr) = W' - \eta \nabla_{W'} L \end{gathered}
# $$ (eq-sgd)
#
# ```{prf:proposition} Gradient descent does not depend on the basis
# :label: prop-sgd
# Let twins have the weights $W$ and $W' = Q^\top W$ and the biases $b$ and $b' = Q^\top b$ in queries and keys, and be
# equal otherwise. If both take a gradient step of the same size, they are twins again.
# ```
#
# ```{prf:proof}
# Both losses are one function, written in different coordinates: $L'(W', b') = L(Q W', Q b')$. By the chain rule
# $\nabla L' = Q^\top \nabla L$, so the step is carried over by $Q^\top$, as weights and biases are.
# ```
#
# The same holds for momentum, weight decay, and clipping by the norm. It does not hold for Adam
# {cite}`kingma2015adam`, which divides each entry of the gradient by that entry's recent size:
#
# $$
# \begin{gathered} Q^\top \, \frac{\nabla_W L}{\sqrt{(\nabla_W L)^2} + \varepsilon} \;\neq\;
# \frac{\nabla_{W'} L}{\sqrt{(\nabla_{W'} L)^2} + \varepsilon} \\
# \text{(Adam's first step, entry by entry)} \end{gathered}
# $$ (eq-adam)
#
# AdamW {cite}`loshchilov2019decoupled` and LAMB {cite}`you2020large` divide in the same way. Adam's results depend on the
# basis in larger transformers as well {cite}`zhang2025understanding`.

# %%
gradients = {}
for name, model in twins.items():
    cross_entropy(model(train), labels).backward()
    gradients[name] = model.attn.qkv.weight.grad[: 2 * n]  # of W_Q
agree("eq-sgd", Q_T @ gradients["roll"], gradients["roll-twin"])
step, twin_step = (g / (g.square().sqrt() + 1e-8) for g in gradients.values())
differs("eq-adam", Q_T @ step, twin_step, least=0.1)

# %%
share = (Q_T @ step - twin_step).norm() / step.norm()
print(f"Adam's first steps differ by {share:.0%} of their length")
assert share > 0.1

# %% [markdown]
# ### Different starts
#
# In practice each model draws its own weights $W_0$. Let the optimizer $\mathcal{O}$ lead from initial to trained weights. The runs of
# both models are still draws from one distribution ($\overset{d}{=}$) if start and optimizer respect the change of basis:
#
# $$
# \begin{gathered} Q^\top W_0 \overset{d}{=} W_0 \quad \text{and} \quad \mathcal{O}(Q^\top W) = Q^\top \mathcal{O}(W) \\
# \Longrightarrow \quad \text{both trained functions have the same distribution} \end{gathered}
# $$ (eq-equal-in-law)
#
# The reason: let RollPE start from $W_0$ and the twin from $Q^\top W_0$. Every step keeps them one function. Normal weights
# with zero biases, as in our models, respect the change of basis; uniform weights, as in torch's linear layers, do not.
# Gradient descent, momentum and weight decay respect it, and so does Muon on weight matrices {cite}`jordan2024muon`, which
# replaces a gradient by the nearest orthogonal matrix. Adam does not. Its first step is the sign of the gradient, entry by
# entry, and the sign commutes with few changes of basis:
#
# $$
# \operatorname{sign}(Q g) = Q \operatorname{sign}(g) \ \text{ for all } g \iff Q \text{ is a signed permutation}
# $$ (eq-signed-permutation)
#
# (Put $g = e_j$: column $j$ of $Q$ equals its own signs, so its entries are 0, 1 and $-1$, and only one is not 0, since
# its length is 1. The other direction is a substitution.) The Fourier basis is not a signed permutation.


# %%
def muon(G):
    U, _, Vh = torch.linalg.svd(G, full_matrices=False)
    return U @ Vh


def descent(W, M, G):
    """A step with weight decay and momentum."""
    return 0.99 * W - 0.1 * (0.9 * M + G)


# %%
W, M, G = torch.randn(3, n, 2 * n)  # weights, momentum, gradient
twins_step = descent(*(Q.T @ A for A in (W, M, G)))
agree("eq-equal-in-law", twins_step, Q.T @ descent(W, M, G))
agree("eq-equal-in-law", muon(Q.T @ G), Q.T @ muon(G), 1e-11)
normal = torch.distributions.Normal(0, 1).log_prob  # the density of the start
agree("eq-equal-in-law", normal(Q.T @ W).sum(), normal(W).sum(), 1e-11)
holds("eq-equal-in-law", (Q.T @ torch.ones(n)).max() > 1.1)  # uniform weights are ≤ 1

# %%
permuted = (torch.randn(n).sign() * torch.eye(n))[torch.randperm(n)]
agree("eq-signed-permutation", (permuted @ G).sign(), permuted @ G.sign())
differs("eq-signed-permutation", Q, Q.sign(), 1e-3)
differs("eq-signed-permutation", (Q.T @ G).sign(), Q.T @ G.sign(), 0.1)

# %% [markdown]
# ## The experiment
#
# We train the twins side by side on the same batches, and compare their logits at every step, with plain gradient descent,
# momentum, Adam, and a control. The control is Adam that divides a weight matrix by one number, the root mean square of its
# gradient's entries.


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
    optimizers = {k: create(m.parameters(), **settings) for k, m in twins.items()}
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
    right = {k: (a == held_out_labels).sum().item() for k, a in answers.items()}
    measured = {
        "optimizer": optimizer,
        "seed": seed,
        "distance": distances,  # before each step, on its batch
        "last_loss": loss,
        "weights_moved": ((W - start).norm() / start.norm()).item(),
        "held_out_distance": distance(final["roll"], final["roll-twin"]),
        "held_out_answers_differ": differ(*answers.values()),
        "held_out_right": right,
    }
    return measured, final["roll"]


def differ(left, right) -> int:
    """On how many images two models answer differently."""
    return (left != right).sum().item()


# %% [markdown]
# As a yardstick, we take two models with the same encoding and optimizer, started from different seeds.

# %%
clock, started = time.perf_counter(), now()
runs, strangers = [], []
for optimizer in OPTIMIZERS:
    trained = [train_twins(optimizer, seed) for seed in range(seeds)]
    runs += [measured for measured, _ in trained]
    if optimizer == "Adam":
        strangers = [
            {
                "held_out_distance": distance(left, right),
                "held_out_answers_differ": differ(left.argmax(1), right.argmax(1)),
            }
            for (_, left), (_, right) in itertools.combinations(trained, 2)
        ]

# %% tags=["hide-input"]
chosen = {"n": n, "steps": steps, "seeds": seeds, "images": images}
command = "rollpe notebook notebooks/08-basis.py " + " ".join(
    f"-p {k} {v}" for k, v in chosen.items()
)
used = {"batch": BATCH, "optimizers": {k: s for k, (_, s) in OPTIMIZERS.items()}}
took = provenance(command, started, time.perf_counter() - clock)
record = {
    "schema_version": 1,
    "experiment": "sgd-adam",
    "settings": chosen | used,
    "held_out_images": len(held_out),
    "runs": runs,
    "different_seeds": strangers,
    "environment": environment("cpu").model_dump(),
    "provenance": took.model_dump(),
}
path = Path(records, "experiments", "sgd-adam.json")
write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
print(path)

# %%
record = json.loads(path.read_text())  # the record, from its file
settings, held = record["settings"], record["held_out_images"]
print(" " * 17 + "largest distance of the logits   answers   held-out accuracy")
print(" " * 17 + "at first    1 step      ever     differ       roll     twin")
for optimizer in settings["optimizers"]:
    mine = [run for run in record["runs"] if run["optimizer"] == optimizer]
    lines = np.array([run["distance"] for run in mine])
    apart = max(run["held_out_answers_differ"] for run in mine)
    right = [[*run["held_out_right"].values()] for run in mine]
    roll, twin = np.mean(right, 0) / held
    largest = (lines[:, 0].max(), lines[:, 1].max(), lines.max())
    numbers = " ".join(f"{x:9.0e}" for x in largest)
    print(f"{optimizer:15} {numbers} {apart:6}/{held} {roll:10.1%} {twin:8.1%}")
    if optimizer == "Adam":
        assert lines[:, 1].min() > 1e-6 and lines[:, -1].min() > 1e-4
    else:
        assert lines.max() < 1e-6 and apart == 0
apart = np.mean([pair["held_out_distance"] for pair in record["different_seeds"]])
print(f"Adam, different seeds: held-out logits differ by {apart:.2f}")

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-sgd-adam", "caption": "Distance between the logits of RollPE and of its rotary twin while both train on the same batches, one line for each seed. They start as one function in two bases. Dashed: distance between models of different seeds after training."}, "image": {"alt": "Relative distance of logits on a logarithmic axis from ten to the minus seventeen to ten, against the training step. Three bundles of lines, gradient descent, momentum and Adam with one scale, stay near ten to the minus fifteen. The lines of Adam jump after the first step by more than ten orders of magnitude and climb towards the dashed line of different seeds."}}
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
# Three optimizers keep the twins together to rounding error. Adam separates them after one step, and the gap grows
# to the order of the distance between two seeds. The control shows the cause: with one scale for each matrix, Adam
# does not distinguish channels from waves. "RollPE is RoPE" is true of the functions ({prf:ref}`thm-twist`,
# {prf:ref}`thm-rope`), and not of the models that Adam trains.
#
# ## Why neighboring channels line up
#
# The paper says that rolling arranges channels like a map, in which neighbors respond alike, as in the cortex
# {cite}`rollpe`. On trained models we can look:
#
# ```{wave} grow
# :name: wave-grow
# Order that grows: correlations of the channels of queries and keys at twelve moments of training, over 256 test images.
# RollPE (`roll`) and its twin (`roll-twin`) saw the same images in the same order: one pass over photographs (CIFAR-100), or
# eight over digits, both on an 8×8 grid. Channels are in their order on RollPE's ring, to which the twin's queries and keys
# are transformed {eq}`eq-twin`. Each matrix is the mean over queries and keys, rows and columns, and the layers and heads
# that you choose.
# ```
#
# In RollPE a band grows along the diagonal: channels rise and fall together with their neighbors on the ring. In the
# twin almost none grows. These are single runs, one seed of each.
#
# ### The gradient is a slow wave
#
# One weight matrix $W$ serves all positions. The query at position $p$ is rolled by $p$ after $W$, so the change $u_p$ that
# it needs comes to $W$ rolled back by $p$. If all $G$ positions of a row hold the same token $x$ and need the same change
# $u$, the gradient adds up $G$ shifted copies of $u$, which is a moving average. It keeps slow waves and removes fast ones;
# the second line says how much of the power of wave $k$ is left:
#
# $$
# \begin{gathered} \frac{\partial L}{\partial W} = \sum_{p=0}^{G-1} S^{-p} u_p \, x_p^\top, \quad u_p = \frac{\partial L}{\partial (S^p W x_p)}, \\
# \Bigl| F \, \tfrac1G \sum_{p=0}^{G-1} S^{-p} u \Bigr|_k^2 = \Bigl( \frac{\sin(\pi G k / n)}{G \sin(\pi k / n)} \Bigr)^2 |F u|_k^2 \end{gathered}
# $$ (eq-position-average)
#

# %%
from rollpe.topography import coherence, position_average_gain

G = n // 2  # positions in a row
W, x, u = torch.randn(n, 5, requires_grad=True), torch.randn(G, 5), torch.randn(G, n)
loss = sum(u[p] @ (W @ x[p]).roll(-p) for p in range(G))  # needs the change u_p at p
formula = sum(torch.outer(u[p].roll(p), x[p]) for p in range(G))
agree("eq-position-average", torch.autograd.grad(loss, W)[0], formula)


# %%
def left(G):  # of the power of each wave
    average = sum(u[0].roll(p) for p in range(G)) / G
    return (torch.fft.rfft(average).abs() / torch.fft.rfft(u[0]).abs()) ** 2


rows = (1, 3, G, n, 2 * n - 1)
library = [position_average_gain(n, G) for G in rows]
agree("eq-position-average", [left(G) for G in rows], library)

# %% [markdown]
# On images this average needs two things: all $N$ patches of an image need nearly the same change, and their tokens have a
# part in common. The *coherence* of the changes measures the first:
#
# $$
# \kappa = \frac{\sum \bigl\| \sum_p u_p \bigr\|^2}{N \sum \sum_p \| u_p \|^2}, \qquad 0 \le \kappa \le 1
# $$ (eq-coherence)
#
# The outer sums are over images. $\kappa$ is 1 if all $u_p$ of an image are equal, and $1/N$ on average if they are
# independent. For queries it is close to one before training, when attention is nearly uniform. In text each token has a
# target of its own: $\kappa$ is small from the start, and neighbors correlate little ({doc}`Ch. 10 <10-text>`).

# %% tags=["hide-input"]
from rollpe_lab.evidence import inside, words
from rollpe_lab.evidence.words import difference, lead, least, most

# In RollPE a band grows along the diagonal, in the twin almost none.
for seen, band in (
    ("mini@epochs=1,frames=12,warmup_epochs=0.5", 0.8),
    ("quick@frames=12,patch_size=1", 0.35),
):
    assert words.mean(f"{seen}/roll", inside.neighbors) > band
    assert words.mean(f"{seen}/roll-twin", inside.neighbors) < 0.15
# For queries the coherence is close to one before training, in text it is small.
started = [f"{data}/roll" for data in ("order", "order-photos", "order-text")]
assert min(least(arm, inside.coherence(1)) for arm in started[:2]) > 0.9
assert most(started[2], inside.coherence(1)) < 0.2
assert words.mean("text/roll", inside.neighbors) < 0.15

# %%
u = torch.randn(100, 1, n) + 0.2 * torch.randn(100, G, n)  # images, patches, channels
kappa = u.sum(1).square().sum() / (G * u.square().sum())
print(f"a shared change and a little of their own: κ = {kappa:.2f}")
equal, four = u[:, :1].expand(-1, G, -1), u[:, :4]
agree("eq-coherence", [coherence(u), coherence(equal)], [kappa, torch.tensor(1.0)])
signs = torch.tensor([*itertools.product((-1.0, 1.0), repeat=4)])[..., None]
independent = torch.stack([coherence(four * sign) for sign in signs])
agree("eq-coherence", independent.mean(), 1 / 4)

# %% [markdown]
# For keys $\kappa$ is 0: attention does not change if all keys of an image move by one vector, so their changes add up to
# zero. Yet their channels line up as those of queries do.

# %%
q, k, v = torch.randn(3, G, n)
attended = [(q @ (k + move).T).softmax(-1) @ v for move in (0, torch.randn(n))]
agree("all keys moved alike", *attended)

# %% [markdown]
# While attention is nearly uniform, the change of each key is nearly a multiple of the mean of the rolled queries, which is
# a moving average as well. We have not tested whether that orders the keys of trained models. In one layer the first
# gradient prefers slow waves for queries and keys, and loses most of this without the common part of the tokens:

# %%
from rollpe.ring import roll

for common in (0, 1):
    x = common * torch.randn(500, 1, 5) + torch.randn(500, G, 5) / 2  # rows of tokens
    W = (torch.randn(2, 500, 5, n) / 50).requires_grad_()  # W_Q and W_K of each row
    q, k = roll(x @ W, torch.arange(G))
    mean = ((q @ k.mT).softmax(-1) @ x).mean(1)  # attention is nearly uniform
    (mean * torch.randn(500, 5)).sum().backward()  # one loss for all positions
    alike = (W.grad * W.grad.roll(-1, -1)).sum((2, 3)) / W.grad.square().sum((2, 3))
    query, key = alike.mean(1)
    print(f"common part {common}: neighbors of queries {query:.2f}, of keys {key:.2f}")
    assert (min(query, key) > 0.25) if common else (max(query, key) < 0.2)

# %% [markdown]
# ### What one step of Adam keeps
#
# Let an orthogonal matrix $B$ lead from the channels of a ring to other coordinates. Adam's first step there is $s =
# B^\top \operatorname{sign}(B g)$. If channels at distance $d$ correlate by $c_d$ in the gradient $g$, how much do they in
# the step? The mean $\mathbb{E}$ is over gradients, and over $B$ if it is random:
#
# $$
# \begin{gathered} c_d = \frac{g \cdot S^d g}{\|g\|^2}, \qquad 0 < d < n, \\
# \frac{\mathbb{E}[s \cdot S^d s]}{\mathbb{E}\|s\|^2} = \begin{cases} \frac{2}{\pi} \arcsin c_d & \text{channels} \\
# \frac{2}{\pi} \, c_d & \text{a random } B \\ 0 & \text{Fourier} \end{cases} \end{gathered}
# $$ (eq-step-order)
#
# ```{prf:proof}
# *Channels.* Let $g$ be normal with the same correlation $c_d$ at all places; then $\mathbb{E}[\operatorname{sign}(g_i)
# \operatorname{sign}(g_{i+d})] = \frac{2}{\pi} \arcsin c_d$ {cite}`vanvleck1966spectrum`. *Random.* For any $g$,
# $\mathbb{E}[s s^\top]$ does not change if space is turned around $g$, so it is $\alpha g g^\top / \|g\|^2 + \beta I$.
# Its trace is $n$. Along $g$ it is $\mathbb{E}[(\sum_j |z_j|)^2] = 1 + (n - 1) \frac{2}{\pi}$, where $z = B g / \|g\|$
# is uniform on the sphere, since $\mathbb{E}|z_1 z_2| = \frac{2}{\pi n}$. Hence $\alpha = \frac{2}{\pi} n$ and $\beta =
# 1 - \frac{2}{\pi}$. *Fourier.* All coordinates are $\pm 1$, so every wave has the same power, and $s \cdot S^d s =
# \sum_k \cos(2 \pi k d / n) = 0$.
# ```
#
# A step that divides a whole ring by one number keeps $c_d$. In Fourier coordinates the step has no order, whatever the
# gradient:

# %%
g = torch.randn(1, 4000, n) + 0.1 * torch.randn(G, 4000, n)  # nearly the same change
g = sum(u.roll(p, dims=1) for p, u in enumerate(g)) / G  # the gradient of G positions
B, _ = torch.linalg.qr(torch.randn(4000, n, n))
taken = {
    "one scale": g,
    "channels": g.sign(),
    "a random basis": (B.mT @ (B @ g[..., None]).sign())[..., 0],
    "Fourier": (g @ Q).sign() @ Q.T,
}

# %%
alike = {k: (s * s.roll(-1, 1)).sum(1) / s.square().sum(1) for k, s in taken.items()}
scale, *found = (values.mean() for values in alike.values())
c = (1 - 1 / G) / (1 + 0.1**2)  # the correlation of neighbors in the gradient
formula = torch.tensor([2 / np.pi * np.arcsin(c), 2 / np.pi * scale, 0])
holds("eq-step-order", (torch.stack(found) - formula).abs() < 0.02)
agree("eq-step-order", alike["Fourier"], torch.zeros(4000))
for name, *values in zip(list(taken)[1:], found, formula, strict=True):
    print(f"{name:15} neighbors alike {values[0]:5.2f}, formula {values[1]:5.2f}")

# %% [markdown]
# ### What training makes of it
#
# Adam divides by the root of its *second moment*, a running mean of squared gradients. If this is the reason, RollPE itself
# must lose its order when Adam keeps its second moment in Fourier coordinates, and keep it with channels, a random basis, or
# one scale for a ring. The key `second_moment` of a recipe does that to queries and keys; model, initial weights and batches
# stay.

# %%
from rollpe_lab.evidence.words import measures_table, score

arms = {
    "one scale for a ring": "-ring/roll",
    "channels (Adam as usual)": "/roll",
    "random basis": "-random/roll",
    "Fourier coordinates": "-fourier/roll",
    "the twin, Adam as usual": "/roll-twin",
}
tables = []
for images_of, recipe in {"digits": "order", "photographs": "order-photos"}.items():
    rows = {label: recipe + arm for label, arm in arms.items()}
    columns = {"neighbors": inside.neighbors, "accuracy (%)": score}
    tables.append(measures_table(rows, columns, f"{images_of}: second moment in"))
Markdown("\n\n".join(tables))

# %% [markdown]
# *Correlation of neighbors and test accuracy on an 8×8 grid, means over runs and their 95 % intervals.*
#
# The coordinates in which Adam divides decide whether neighbors correlate. In Fourier coordinates their mean correlation is
# below a tenth, as in the twin. In the other three cases they correlate in every run, as the plan predicted. On digits the
# means have the order of {eq}`eq-step-order`: the lead of channels and of one scale over the random basis is exploratory, and
# the difference between those two is open.


# %% tags=["hide-input"]
def leads(a, b):
    test = difference(a, b, inside.neighbors)
    return test.difference > 0 and test.p < 0.016  # of three


digits, photos = (
    [data + a for a in arms.values()] for data in ("order", "order-photos")
)
one, usual, random, fourier, _ = digits
# In Fourier coordinates as in the twin
assert all(
    abs(words.mean(arm, inside.neighbors)) < 0.1 for arm in (*digits[3:], *photos[3:])
)
# In the other three cases neighbors correlate in every run.
assert all(
    leads(arm, fourier) and least(arm, inside.neighbors) > 0.1 for arm in digits[:3]
)
most_of_fourier = most(photos[3], inside.neighbors)
assert all(least(arm, inside.neighbors) > most_of_fourier for arm in photos[:3])
# On digits the means have the order of the formula.
order = [words.mean(arm, inside.neighbors) for arm in digits[:4]]
assert order == sorted(order, reverse=True)
assert leads(usual, random) and leads(one, random) and not leads(one, usual)

# %% [markdown]
# Both queries and keys line up in every run:

# %%
for recipe, which in itertools.product(("order", "order-photos"), ("query", "key")):
    runs = inside.kept(f"{recipe}/roll", f"{which}_correlation")
    near = [run[..., 1].mean() for run in runs]  # distance 1
    print(f"{recipe:12} {which:5}: neighbors {min(near):.2f} to {max(near):.2f}")
    assert min(near) > 0.25

# %% [markdown]
# ### What is the order good for?
#
# Where slow waves carry more, queries and keys can be stored with fewer of them. Let a trained model keep some of the nine
# waves of each ring of its queries and keys, before they are rolled. How far does its test loss rise?

# %%
keeping = {
    "slowest 5 of 9": inside.rise("slow", 5),
    "slowest 2": inside.rise("slow", 2),
    "strongest 5": inside.rise("strong", 5),
}
rows = {
    f"{images_of}, {name}": f"{recipe}/{name}"
    for images_of, recipe in {"digits": "order", "photographs": "order-photos"}.items()
    for name in ("roll", "roll-twin")
}
Markdown(measures_table(rows, keeping, "waves kept"))

# %% [markdown]
# *Rise of the test loss in nats, means over runs and their 95 % intervals. The strongest waves have the most power in
# queries times that in keys.*
#
# The plan predicted that RollPE loses less than its twin with the five slowest waves; it does on digits and on photographs.
# It also loses less with the five strongest, which the plan left open. On photographs two waves are enough for RollPE: its
# loss rises by less than 0.02 nats in every run, that of the twin by more than 0.1 (exploratory). On digits two are too few
# for both. Part of the difference on photographs may be that RollPE's scores matter less there: with one wave its loss
# rises less, too.

# %% tags=["hide-input"]
for which in ("slow", "strong"):
    test = difference("order/roll", "order/roll-twin", inside.rise(which, 5))
    assert test.difference < 0 and test.p < 0.05
    photo = [f"order-photos/{name}" for name in ("roll", "roll-twin")]
    assert most(photo[0], inside.rise(which, 5)) < least(
        photo[1], inside.rise(which, 5)
    )
kept_two, kept_one = (inside.rise("slow", waves) for waves in (2, 1))
assert most(photo[0], kept_two) < 0.02 and least(photo[1], kept_two) > 0.1
assert most(photo[0], kept_one) < least(photo[1], kept_one)
assert min(words.mean(f"order/{name}", kept_two) for name in ("roll", "roll-twin")) > 2

# %% [markdown]
# ### Does the basis cost accuracy?
#
# The twin minus RollPE, seed by seed, in every set of at least three seeds that trained both with AdamW and without a penalty:

# %%
from rollpe_lab.evidence.words import runs_by_arm, values
from rollpe_lab.files import markdown

sets = {
    "digits, 4×4": ("quick", "quick-twist", "quick-spacing@learning_rate=0.001"),
    "digits, 8×8": ("quick@patch_size=1", "quick-twist8", "order")
    + ("quick@patch_size=1,qkv_bias=false",),
    "CIFAR-100": ("mini", "order-photos"),
    "text (bits)": ("text", "text-twist"),
}
rows = [("data", "set of runs", "twin − RollPE", "pairs")]
for data, names in sets.items():
    pairs = [(f"{name}/roll-twin", f"{name}/roll") for name in names]
    leads = {f"`{name}`": lead(pair) for name, pair in zip(names, pairs, strict=True)}
    leads["together"] = lead(*pairs)
    rows += [(data, name, str(found), str(found.n)) for name, found in leads.items()]
Markdown(markdown(rows))

# %% [markdown]
# *Points of test accuracy; of text, bits per character, where less is better. 95 % intervals over pairs.*
#
# - **On digits RollPE's basis costs accuracy.** Together the twin leads by 1.25 points on $4 \times 4$ patches and by 3.98 on
#   $8 \times 8$ (exploratory: nobody planned to take the sets together). The lead without biases was planned and repeated with
#   fresh seeds.
# - **On CIFAR-100 and on text each set is open.** No set of images has RollPE ahead. The two on CIFAR-100 together have the twin
#   ahead by 0.81 points, with an interval that nearly reaches zero (exploratory).
# - **Under Muon**, whose step is the same in every basis, the difference is open.
#
# These runs do not show that order itself helps or harms a classifier. On photographs all runs of the other four cases
# classify better than all with channels, also with one scale, where neighbors correlate (exploratory). {doc}`Ch. 18
# <18-ablations>` asks when the order comes and goes, and whether it makes a map.

# %% tags=["hide-input"]
four, eight, both, text = (
    lead(*((f"{name}/roll-twin", f"{name}/roll") for name in names))
    for names in sets.values()
)
assert [f"{found.mean:.2f}" for found in (four, eight, both)] == [
    *("1.25", "3.98", "0.81")
]
assert min(four.low, eight.low, both.low) > 0 and text.low < 0 < text.high
assert both.low < 0.2 and (four.n, eight.n) == (20, 31)
each = [lead((f"{n}/roll-twin", f"{n}/roll")) for names in sets.values() for n in names]
assert all(found.mean > 0 for found in each)  # of text, less is better
assert all(found.low < 0 < found.high for found in each[-4:])
pairs = [(run, runs_by_arm().get(run.replace("-twin", ""))) for run in runs_by_arm()]
trained = {
    run.split("/")[0]
    for run, plain in pairs
    if run.endswith("/roll-twin")
    and plain
    and len(plain.keys() & runs_by_arm()[run]) > 2
}
left_out = {name for name in trained if "muon" in name or "topography" in name}
assert trained - left_out == {name for names in sets.values() for name in names}
planned = "quick@patch_size=1,qkv_bias=false"
twin, roll = (values(f"{planned}/{arm}") for arm in ("roll-twin", "roll"))
fresh = [twin[seed] - roll[seed] for seed in range(10, 18)]
assert ttest_1samp(fresh, 0).pvalue < 0.05 and np.mean(fresh) > 0
for name in left_out - {"quick@topography=ring"}:  # under Muon
    assert lead((f"{name}/roll-twin", f"{name}/roll")).p > 0.05
# With Adam in other coordinates the differences on digits are open.
others = (one, random, fourier)
assert all(difference(arm, usual).p > 0.0125 for arm in others)
# On photographs all runs of the other four cases classify better.
assert all(least(arm) > most(photos[1]) for arm in (photos[0], *photos[2:]))
assert least(photos[0], inside.neighbors) > 0.8
