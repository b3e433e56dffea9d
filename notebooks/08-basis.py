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
# # RollPE's rotary twin
#
# RollPE (`roll`) rolls the channels of queries and keys around a ring. Its *rotary twin* (`roll-twin`) rotates pairs of
# channels instead and computes exactly the same scores: it is RollPE with the channels written as waves
# ({doc}`05-rope`). What one model can represent, the other can represent, too. Does it still matter which of them one
# trains?
#
# This page builds the twin, starts both models as one function and trains them on the same images in the same order:
#
# - **Plain gradient descent keeps them equal**, up to rounding. It does not depend on the basis in which weights are
#   written.
# - **Adam separates them at its first step.** It divides every entry of a gradient by that entry's own size, and in
#   another basis the entries are other numbers.

# %% tags=["parameters"]
n: int = 16  # channels on the ring [12..32]
steps: int = 60  # optimizer steps of each training run [40..150]
seeds: int = 3  # training runs with each optimizer [2..10]
images: int = 512  # digits to train on [256..1257]
records: str = "_build/records"  # folder for the record {new folder}

# %% tags=["hide-input"]
import itertools
import json
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, unfold

from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.attention import Attention
from rollpe.encodings.roll import twin_state_dict
from rollpe.operators import real_fourier_basis, shift_matrix
from rollpe.topography import position_average_gain
from rollpe_book import figures
from rollpe_book.agree import agree, gap
from rollpe_lab.files import write_atomically
from rollpe_lab.records import environment, now, provenance
from rollpe_lab.sources import enter_root
from rollpe_lab.training import load_dataset

enter_root()
figures.use_theme()
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ## The same scores in another basis
#
# Queries and keys come out of weight matrices, so a change of basis can be moved from the encoding into the weights.
# Multiply them by the orthogonal matrix $Q^\top$ beforehand, and rotate afterwards instead of rolling:
#
# $$
# \begin{aligned} & \mathrm{Roll}_{p}(W_Q x)^\top \mathrm{Roll}_{p'}(W_K y) \\
# & \quad = \bigl( R_p\, W_Q' x \bigr)^\top R_{p'}\, W_K' y, \\
# & W' = Q^\top W \end{aligned}
# $$ (eq-twin)
#
# Here $R_p$ is the rotary form {eq}`eq-rotary-form`, single channels included, and the biases of queries and keys
# become $b' = Q^\top b$. The function `twin_state_dict` carries trained weights and biases from one model to the other.
# The twin has the $n$ channels of the ring, so it is not the RoPE of {prf:ref}`thm-rope`, which for even $n$ has more.
#
# To see both at work, take a very small transformer on handwritten digits: patches of $2 \times 2$ pixels, one block,
# one head, and a ring of $n$ channels for each axis.


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
# The twins start as one function. Now both take a step of gradient descent on the same images. They remain one
# function, because the gradient changes its basis together with the weights:
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
# The same holds for momentum, which is a sum of gradients, for weight decay, and for clipping by the norm. It does not
# hold for Adam {cite}`kingma2015adam`, which divides each entry of the gradient by that entry's recent size:
#
# $$
# \begin{gathered} Q^\top \, \frac{\nabla_W L}{\sqrt{(\nabla_W L)^2} + \varepsilon} \;\neq\;
# \frac{\nabla_{W'} L}{\sqrt{(\nabla_{W'} L)^2} + \varepsilon} \\
# \text{(Adam's first step, entry by entry)} \end{gathered}
# $$ (eq-adam)
#
# AdamW {cite}`loshchilov2019decoupled` and LAMB {cite}`you2020large` divide in the same way, and one of the two trains
# every model of {doc}`09-results`. On larger transformers, too, Adam's results were measured to depend on the basis
# {cite}`zhang2025understanding`. Here the two bases have names: in RollPE an entry is a channel, in the twin it is a
# wave.

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
# ## Equal in law
#
# The twins above start as one function. In practice each model draws its own weights. Then single runs differ, but are they
# draws from the same distribution? They are, if start and optimizer $T$ both respect the change of basis:
#
# $$
# \begin{gathered} Q^\top W_0 \overset{d}{=} W_0 \quad \text{and} \quad T(Q^\top W) = Q^\top T(W) \\
# \Longrightarrow \quad \text{both trained functions have the same distribution} \end{gathered}
# $$ (eq-equal-in-law)
#
# The reason: let RollPE start from $W_0$ and the twin from $Q^\top W_0$. Every step keeps them one function, and $Q^\top W_0$ is
# as likely a start of the twin as any that it draws itself. What satisfies the two conditions?
#
# | | respects the basis |
# | :-- | :-- |
# | normal weights, biases 0 | yes |
# | timm's default start, which our models have | yes: its normal weights are cut at 100 standard deviations |
# | uniform weights, as in torch's linear layers and timm's `jax` start | no |
# | gradient descent, momentum, clipping by the norm | yes |
# | decoupled weight decay, on weights or on biases | yes: it multiplies by a number |
# | Muon on weight matrices {cite}`jordan2024muon` | yes: $Q^\top G$ has the factor $Q^\top U V^\top$ if $G$ has $U V^\top$ |
# | Adam, also on the biases of a model whose matrices Muon trains | no |
#
# Adam's first step is the sign of the gradient, and signs go along with few changes of basis:
#
# $$
# \operatorname{sign}(Q g) = Q \operatorname{sign}(g) \ \text{ for all } g \iff Q \text{ is a signed permutation}
# $$ (eq-signed-permutation)
#
# (Put $g = e_j$. Then column $j$ of $Q$ equals its own signs, so its entries are 0, 1 and $-1$; its length is 1, so one of them
# is not 0. The other direction is plain.) The Fourier basis is no signed permutation. So if RollPE and its twin differ beyond
# chance under AdamW, the coordinates of Adam's scales are the cause. Under Muon without biases all their differences are chance.

# %%
Q, _ = real_fourier_basis(n)
G = torch.randn(n, 2 * n)
U, _, Vh = torch.linalg.svd(Q.T @ G, full_matrices=False)
W, _, Xh = torch.linalg.svd(G, full_matrices=False)
agree("Muon's step", U @ Vh, Q.T @ (W @ Xh), tolerance=1e-11)
print(f"Adam's step: off by up to {gap((Q.T @ G).sign(), Q.T @ G.sign()):.1f}")
print(f"timm cuts normal weights at {2 / 0.02:.0f} standard deviations")

# %% [markdown]
# ## The experiment
#
# Train the twins side by side, on the same batches, and compare their logits at every step. There are four optimizers:
# plain gradient descent, the same with momentum, Adam, and a control. The control is Adam with one change: it divides a
# weight matrix by a single number, the root mean square of its entries, instead of dividing each entry by its own. If
# dividing entry by entry is what separates the twins, the control keeps them equal.


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
# How large is a large distance? As a yardstick, take two models with the same encoding and the same optimizer, started
# from different seeds. All measurements go into a record, with the machine and the source that made it.

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
command = "rollpe notebook notebooks/08-basis.py " + " ".join(
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
# The tables and the figure below come from that file.

# %% tags=["hide-input"]
record = json.loads(path.read_text())
settings = record["settings"]
print(
    f"{settings['steps']} steps, {settings['seeds']} seeds: the largest distances and "
    "numbers of answers, the smallest moves"
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
    f"\nAdam, held-out logits: the twins differ by {twins_apart:.2f}, "
    f"models of different seeds by {apart:.2f}"
)
print(
    f"answers of different seeds differ on {differ:.0f} "
    f"of {record['held_out_images']} images"
)

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
# {numref}`fig-sgd-adam` answers the question. Three optimizers keep the twins together to rounding error, although all
# of them move their weights and learn. Adam separates them. This is no growth of rounding errors: the gap is there
# after a single step, and it grows to the order of the distance between two seeds. The control shows the cause: with
# one scale for each matrix, Adam still learns and no longer distinguishes channels from waves. (The lower lines rise a
# little as well, since training amplifies the smallest differences, here those of rounding; try `-p steps 150`.)
#
# So "RollPE is RoPE" is true of the functions, in the sense of {prf:ref}`thm-twist` and {prf:ref}`thm-rope`, and not of the
# models that Adam trains. Which basis trains *better* is another question, and this toy cannot answer it. Full recipes and many seeds
# can:
#
# - On digits in patches of a single pixel, in models without biases of queries, keys and values, the twin classifies
#   better than RollPE under AdamW
#   ({doc}`18-inside`).{holds}`quick@patch_size=1,qkv_bias=false seeds 10..17: roll-twin - roll > 0, Welch 0.05`
# - On digits in larger patches and on photographs the difference is open
#   ({doc}`09-results`).{holds}`quick: roll-twin - roll is open`{holds}`mini: roll-twin - roll is open`
#
# ## What another basis may change
#
# Accuracy is only one number of a trained model. RollPE's channels lie on a ring, where channel 3 is next to channel 4;
# the twin's channels are waves, which have no neighbors. An optimizer that depends on the basis may bring order to the
# channels of one model and not to those of the other. {doc}`18-inside` trains RollPE with Adam's second moment in four of them.
#
# ## Rolling favors slow waves without a penalty
#
# There is a second source of smoothness, and it needs no penalty: one weight matrix $W$ serves all positions. The query
# at position $p$ is rolled by $p$ after $W$, so the change it needs in $W$ is rolled back by $p$. Suppose that all $G$
# positions of a row hold the same token $x$ and need the same change $u$. The gradient then adds up $u$ shifted by $0,
# 1, \dots, G - 1$, times $x^\top$. That is $G$ times a moving average: a blur, which keeps slow waves and removes fast
# ones. The second line says how much of the power of wave $k$ is left:
#
# $$
# \begin{gathered} \frac{\partial L}{\partial W} = \sum_{p=0}^{G-1} S^{-p} u_p \, x_p^\top, \quad u_p = \frac{\partial L}{\partial (S^p W x_p)}, \\
# \Bigl| F \, \tfrac1G \sum_{p=0}^{G-1} S^{-p} u \Bigr|_k^2 = \Bigl( \frac{\sin(\pi G k / n)}{G \sin(\pi k / n)} \Bigr)^2 |F u|_k^2 \end{gathered}
# $$ (eq-position-average)
#
# Here $L$ is the loss and $x_p$ the token at $p$. A row of $n/2$ positions removes every second wave completely, and of
# the others hardly more than the first passes. A shorter row leaves more. The more the tokens differ, the less they
# share this average; the bias, whose input is 1 everywhere, shares it fully. The effect needs no property of the images
# except that their places have something in common, in what they hold and in the change they need. They need nearly the same
# change where attention is almost uniform and one label serves all tokens. Where each token has a target of its own, as in text,
# they do not, and neighbors correlate little ({doc}`10-text`).{holds}`text neighbors: roll < 0.15`{holds}`order-text coherence 1: every run of roll < 0.2`

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-smooth-average", "caption": "Share of each wave’s power that remains after averaging over G positions on a ring of n channels."}, "image": {"alt": "Three falling lines over the mode numbers. The longer the row of positions, the earlier a line reaches zero; beyond its first zero each has only small bumps."}}
fig, ax = plt.subplots(figsize=(5.6, 3.0))
for G, shade in ((n // 8, 0.35), (n // 4, 0.65), (n // 2, 1.0)):
    gain = position_average_gain(n, max(G, 1))
    label = f"G = {max(G, 1)}"
    ax.plot(gain, ".-", color=figures.INK, alpha=shade, label=label)
ax.set(xlabel="mode number", ylabel="power left")
ax.legend(frameon=False, title=f"{n} channels")
plt.close(fig)
fig

# %% [markdown]
# Such a gradient favors slow waves along the ring, and with them neighbors that respond alike. Whether trained weights
# follow it depends on the optimizer, and, by the proposition above, an optimizer such as Adam depends on the basis.
#
# How nearly do all $N$ patches of an image need the same change of their queries? Their *coherence* tells:
#
# $$
# \kappa = \frac{\sum \bigl\| \sum_p u_p \bigr\|^2}{N \sum \sum_p \| u_p \|^2}, \qquad 0 \le \kappa \le 1
# $$ (eq-coherence)
#
# The outer sums are over images. It is 1 if all $u_p$ of an image are equal, and $1/N$ on average if they are independent. For
# keys it is 0: attention does not change if all keys of an image move alike.
#
# ## One step of Adam in other coordinates
#
# Adam's first step is the sign of the gradient, coordinate by coordinate. Let $B$ be an orthogonal matrix that takes the
# channels of a ring to other coordinates; the step there is $s = B^\top \operatorname{sign}(B g)$. If neighbors in the
# gradient $g$ are alike, how alike are they in the step?
#
# $$
# \begin{gathered} c_d = \frac{g \cdot S^d g}{\|g\|^2}, \qquad 0 < d < n, \\
# \frac{\mathbb{E}[s \cdot S^d s]}{\mathbb{E}\|s\|^2} = \begin{cases} \frac{2}{\pi} \arcsin c_d & \text{channels} \\
# \frac{2}{\pi} \, c_d & \text{a random } B \\ 0 & \text{Fourier} \end{cases} \end{gathered}
# $$ (eq-step-order)
#
# ```{prf:proof}
# *Channels.* Let $g$ be normal with the same correlation $c_d$ at all places; then $\mathbb{E}[\operatorname{sign}(g_i)
# \operatorname{sign}(g_{i+d})] = \frac{2}{\pi} \arcsin c_d$ {cite}`vanvleck1966spectrum`. *Random.* For any $g$, $\mathbb{E}[s
# s^\top]$ does not change if space is turned around $g$, so it is $\alpha g g^\top / \|g\|^2 + \beta I$. Its trace is $n$. Along
# $g$ it is $\mathbb{E}[(\sum_j |z_j|)^2] = 1 + (n - 1) \frac{2}{\pi}$, with $z$ uniform on the sphere, since $\mathbb{E}|z_1
# z_2| = \frac{2}{\pi n}$. Hence $\alpha = \frac{2}{\pi} n$ and $\beta = 1 - \frac{2}{\pi}$. *Fourier.* All coordinates are
# $\pm 1$, so every wave has the same power, and $s \cdot S^d s = \sum_k \cos(2 \pi k d / n) = 0$.
# ```
#
# A step that divides a whole ring by one number keeps $c_d$. So a smooth gradient gives a smooth step in channels, in a random
# basis and with one scale for a ring, most with the one scale and least in a random basis. **Fourier coordinates are
# the exception**: there the step has no order at all, whatever the gradient. {doc}`18-inside` tests this.
#
# ```{admonition} In short
# :class: tip
# - A change of basis can be absorbed in the weights. This gives RollPE a rotary twin with exactly its functions.
# - Gradient descent, with or without momentum, trains both alike. So does Adam with one scale for each matrix.
# - Adam, which scales each entry by itself, makes two different models of them from the first step on.
# - With normal weights, and with Muon or gradient descent, both have the same distribution of trained functions,
#   {eq}`eq-equal-in-law`.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-rope-two
# Two channels: what is the rotary twin of the shortest even ring? How many planes rotate in it?
# ```
#
# ```{solution} exercise-rope-two
# :class: dropdown
# None. The twin consists of two single channels: $(x + y)/\sqrt 2$, which stays as it is, and $(x - y)/\sqrt 2$, which
# changes its sign at every step.
# ```

# %% tags=["hide-cell"]
Q2, frequencies = real_fourier_basis(2)
assert len(frequencies) == 0
agree("the twin of two channels", Q2.T @ shift_matrix(2) @ Q2, [[1, 0], [0, -1]])

# %% [markdown]
# ```{exercise}
# :label: exercise-rope-rules
# An update rule $f$ is independent of the basis if $f(Q^\top G) = Q^\top f(G)$ for every gradient $G$ and every
# orthogonal $Q$. Which of these are: the sign of each entry; clipping to norm 1; clipping each entry; the nearest
# orthogonal matrix $UV^\top$, with $G = U \Sigma V^\top$?
# ```
#
# ```{solution} exercise-rope-rules
# :class: dropdown
# The second and the fourth. Norms and singular vectors belong to the matrix; signs and sizes of entries belong to the
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
Q, _ = real_fourier_basis(n)
G = torch.randn(n, n + 3)
independent = {k: gap(f(Q.T @ G), Q.T @ f(G)) < 1e-10 for k, f in rules.items()}
for name, holds in independent.items():
    print(f"{name:18} {'independent of' if holds else 'depends on'} the basis")
assert list(independent.values()) == [False, True, False, True]
