# ---
# jupyter:
#   jupytext:
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
# # Inside trained models
#
# The paper says that rolling arranges channels like a map, in which neighbors on the ring respond alike, as in the cortex
# {cite}`rollpe`. Its experiments do not test this. Do neighbors in trained models respond alike, and why?
#
# *On 8×8 patches whose mean is classified, they do. Early in training all patches need the same change, which makes the gradient a
# slow wave along the ring. Adam's steps keep slow waves, unless it divides in Fourier
# coordinates.*{holds}`mini neighbors: every run of roll > 0.5`{holds}`order neighbors: every run of roll > 0.25; every run of -random/roll > 0.1; -0.1 < -fourier/roll < 0.1`
#
# ```{wave} grow
# :name: wave-grow
# Order that grows: correlations of the channels of queries and keys at twelve moments of training, over 256 test images (new
# runs take held-out ones); colors fade from one moment to the next. RollPE (`roll`) and its twin (`roll-twin`) saw the same images in the same order:
# one pass over photographs (CIFAR-100), or eight over digits, both on 8×8 patches. Channels are in their order on RollPE's
# ring. The twin's own channels are Fourier coordinates, so its queries and keys are transformed to that ring, where both are
# one model ({doc}`08-basis`). Each matrix is the mean over queries and keys, rows and columns, and the layers and heads that you
# choose.
# ```
#
# In RollPE a band grows along the diagonal: channels rise and fall together with their neighbors on the ring. In the twin
# almost none grows.{holds}`mini@epochs=1,frames=12,warmup_epochs=0.5 neighbors: roll > 0.8; roll-twin < 0.15`{holds}`quick@frames=12,patch_size=1 neighbors: roll > 0.35; roll-twin < 0.1`
# These are single runs, one seed of each, and the photographs were seen only once. The rest of this chapter has runs with
# several seeds, most of them planned with predictions (`plans/order.yaml`, `plans/order-photos.yaml`).

# %% tags=["parameters"]
encodings: str = "none,learned,axial-rope,roll-twin,roll,multiplexed-roll"  # rows
records: str = "data/records"  # folder of records {folder}

# %% tags=["hide-input"]
from collections.abc import Sequence
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown

from rollpe.operators import real_fourier_basis
from rollpe.topography import (
    near_and_any,
    position_average_gain,
    ring_spectrum,
    unpack_correlations,
)
from rollpe_book import figures
from rollpe_lab.evidence.conditions import Evidence, NotMeasured, Scope
from rollpe_lab.evidence.families import markdown
from rollpe_lab.records import find_arrays, read_records
from rollpe_lab.sources import enter_root
from rollpe_lab.statistics import summarize

enter_root()
figures.use_theme()
names = [name.strip() for name in encodings.split(",")]
SCALES = {"digits": "quick", "CIFAR-100": "mini"}
arrays_of = partial(find_arrays, folders=[records])
evidence = Evidence(read_records(records), arrays=arrays_of)


def load(
    recipe: str, names: Sequence[str] = names
) -> dict[str, tuple[list, list[dict[str, np.ndarray]]]]:
    """By encoding, the runs of a recipe and the arrays that lie beside them."""
    found = {name: evidence.runs(recipe, name) for name in names}
    return {
        name: (runs, [arrays_of(r) for r in runs])
        for name, runs in found.items()
        if runs
    }


def measured(recipe: str, arm: str, measure: str, digits: int = 2) -> str:
    """Mean over runs and its 95 % interval."""
    try:
        s = Scope(f"{recipe} {measure}".strip(), evidence).summary(arm)
    except NotMeasured:
        return "not measured"
    spread = f" [{s.low:.{digits}f}, {s.high:.{digits}f}]" if s.n > 1 else ""
    return f"{s.mean:.{digits}f}{spread}".replace("-", "−").replace(" ", "\u00a0")


plain = {data: load(recipe) for data, recipe in SCALES.items()}

# %% [markdown]
# All models are small: five layers and two or ten epochs for photographs (CIFAR-100, 8×8 patches), three layers for digits,
# rings of sixteen channels. Of multiplexed RollPE (`multiplexed-roll`) only the first wave is measured; without a ring, channels
# are taken as stored.
#
# ## Do neighbors respond alike?

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-correlation", "caption": "Correlation of two channels over test images and patches, by their distance around the ring; mean over queries and keys, layers, heads and axes, with the range of single runs."}, "image": {"alt": "Two panels with a line for each encoding over distances one to eight. Digits: lines without a ring stay near zero, the others swing around it. CIFAR-100: RollPE and multiplexed RollPE start high and fall to about zero; the twin starts just above zero, and the others stay there."}}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True)
ends = {data: {} for data in plain}
for ax, (data, arms) in zip(axes, plain.items(), strict=True):
    for name, (found, arrays) in arms.items():
        arrays = [a for a in arrays if "query_correlation" in a]  # not in old runs
        if not arrays:
            continue
        runs = np.array(
            [
                [
                    a[f"{which}_correlation"].mean((0, 1, 2))
                    for which in ("query", "key")
                ]
                for a in arrays
            ]
        ).mean(1)[:, 1:]  # [seeds, distances]
        distance, color = np.arange(1, runs.shape[1] + 1), figures.color_of(name)
        ax.plot(distance, runs.mean(0), ".-", color=color, label=f"{data}, {name}")
        ax.fill_between(distance, runs.min(0), runs.max(0), color=color, alpha=0.2)
        ends[data][name] = np.array([distance[-1], runs.mean(0)[-1]])
        figures.drawn_from(fig, found)
    ax.axhline(0, color=figures.MUTED, linewidth=0.8)
    ax.set(title=data, xlabel="distance around the ring (channels)")
for ax, data in zip(axes, plain, strict=True):  # the axis is known by now
    figures.label_line_ends(ax, ends[data])
axes[0].set_ylabel("correlation")
plt.close(fig)
fig

# %% [markdown]
# On photographs they do. Neighbors on RollPE's ring rise and fall together in every run, and channels less so the farther apart.{holds}`mini neighbors: every run of roll > 0.5; every run of multiplexed-roll > 0.5`
# Topographic networks need a loss for this {cite}`margalit2024unifying`; here it comes with the encoding. Without a ring nothing shows.{holds}`mini neighbors: -0.1 < none < 0.1; -0.1 < learned < 0.1; -0.1 < axial-rope < 0.1`
# On digits in 4×4 patches, the recipe `quick`, neighbors do not correlate.{holds}`quick neighbors: roll < 0.05`
#
# ## One step in four kinds of coordinates
#
# RollPE and its twin express the same functions, so the functions are not the reason. {doc}`17-topography` has two
# formulas that may be. Before training, attention is nearly uniform and one loss serves all patches. Then all patches of a
# row need the same change, and the gradient for the shared weights is a moving average along the ring: a slow wave
# ({eq}`eq-position-average`). What is left of it in Adam's first step, its sign, depends on the coordinates
# ({eq}`eq-step-order`). The lines below take both steps.

# %%
n, patches = 16, 8  # channels on the ring, patches in a row
torch.manual_seed(0)
shared = torch.randn(1, 4000, n, dtype=torch.float64)  # what all patches need
change = shared + 0.1 * torch.randn(patches, 4000, n)  # and what each of them needs
gradient = sum(u.roll(-p, dims=1) for p, u in enumerate(change)) / patches
Q, _ = real_fourier_basis(n)  # from channels to Fourier coordinates
R, _ = torch.linalg.qr(torch.randn(4000, n, n, dtype=torch.float64))
steps = {
    "one scale for the ring": gradient,
    "channels": gradient.sign(),
    "a random basis": (R @ (R.mT @ gradient[..., None]).sign())[..., 0],
    "Fourier coordinates": (gradient @ Q).sign() @ Q.T,
}


# %% tags=["hide-input"]
def alike(x: torch.Tensor) -> float:
    """Neighbors on the ring: the mean over vectors of x · Sx / ‖x‖²."""
    return ((x * x.roll(-1, dims=1)).sum(1) / x.square().sum(1)).mean().item()


c = (1 - 1 / patches) / (1 + 0.1**2)  # the correlation of neighbors in the gradient
expected = {
    "channels": 2 / np.pi * np.arcsin(c),
    "a random basis": 2 / np.pi * alike(gradient),
    "Fourier coordinates": 0,
}
print("neighbors alike          step  formula")
for name, step in steps.items():
    formula = f"{expected[name]:.2f}" if name in expected else ""
    print(f"{name:23} {alike(step):5.2f} {formula:>8}")
    assert abs(alike(step) - expected.get(name, alike(gradient))) < 0.02

# %% [markdown]
# ```{wave} step
# :name: wave-step
# One step of Adam in three kinds of coordinates, and with one scale for the ring. Choose how smooth the gradient is. Left: one of
# 24 gradients on a ring of 16 channels, and its steps. Right: power by mode, mean over all 24; dotted, white noise.
# *Neighbors alike* is the correlation of neighbors in the step. In Fourier coordinates every step has the spectrum of noise.
# ```
#
# The first gradients of real models behave like this.


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-first-step", "caption": "Before training: power by mode, relative to white noise, of the gradient for the weights of queries and keys, and of its signs, Adam's first step; mean over queries and keys, layers, heads and axes. Dotted: white noise averaged over the patches of a row."}, "image": {"alt": "Two panels with lines over the mode numbers. CIFAR-100: the gradient falls steeply, much as the dotted line does; RollPE's step falls less steeply; the twin's is level at one. Digits: the same with a weaker fall."}}
def shares(arms, name: str, what: str) -> list[np.ndarray]:
    """Share of the power by mode before the first step, one array a run."""
    _, arrays = arms.get(name, ([], []))
    return [
        np.mean([a[f"{which}_{what}"].mean((0, 1, 2)) for which in ("query", "key")], 0)
        for a in arrays
        if f"query_{what}" in a  # not in old runs
    ]


fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.2), sharey=True)
for ax, (data, arms) in zip(axes, plain.items(), strict=True):
    for name, what, label, color in (
        ("roll", "gradient", "gradient", figures.INK),
        ("roll", "step", "RollPE's first step", figures.color_of("roll")),
        ("roll-twin", "step", "the twin's first step", figures.color_of("roll-twin")),
    ):
        found = shares(arms, name, what)
        if not found:
            continue
        modes = len(found[0])
        noise = np.r_[1, np.full(modes - 2, 2), 1] / (2 * modes - 2)
        ax.plot(np.mean(found, 0) / noise, ".-", color=color, label=label)
        figures.drawn_from(fig, arms[name][0])
        if what == "gradient":
            side = (int(len(arms[name][1][0]["offsets"]) ** 0.5) + 1) // 2  # patches
            average = position_average_gain(2 * modes - 2, side).numpy()
            label = f"average over {side} patches"
            relative = average / (average * noise).sum()
            ax.plot(relative, ":", color=figures.MUTED, label=label)
    ax.axhline(1, color=figures.MUTED, linewidth=0.8)
    ax.set(title=data, xlabel="mode number")
    ax.legend(frameon=False)
axes[0].set_ylabel("power, white noise = 1")
plt.close(fig)
fig

# %% [markdown]
# The first gradient is little else than that average on photographs, a weak form of it on digits. RollPE's step keeps
# the preference; the twin's loses it.
#
# ## The optimizer's coordinates, and nothing else
#
# If this is the reason, then RollPE itself must lose its order when Adam keeps its second moment in Fourier
# coordinates, and keep it in any other basis. The recipes' key `second_moment` does just that to queries and keys: same model,
# same initial weights, same batches, same Adam. {eq}`eq-step-order` also says in which order the arms should come: one
# scale, channels, random basis, Fourier.

# %% tags=["hide-input"]
COORDINATES = {
    "one scale for a ring": ("-ring", "roll"),
    "channels (Adam as usual)": ("", "roll"),
    "random basis": ("-random", "roll"),
    "Fourier coordinates": ("-fourier", "roll"),
    "the twin, Adam as usual": ("", "roll-twin"),
}
lines = [["second moment in", "neighbors: digits", "photographs"]]
lines[0] += ["accuracy (%): digits", "photographs"]
for label, (suffix, arm) in COORDINATES.items():
    near = [measured(f"order{x}{suffix}", arm, "neighbors") for x in ("", "-photos")]
    score = [measured(f"order{x}{suffix}", arm, "", 1) for x in ("", "-photos")]
    lines.append([label, *near, *score])
Markdown(markdown(lines))

# %% [markdown]
# *Means over runs and their 95 % intervals: eight runs on digits, three on photographs (two
# epochs).*{holds}`order: roll, roll-twin, -ring/roll, -random/roll, -fourier/roll have 8 runs`{holds}`order-photos: roll, roll-twin, -ring/roll, -random/roll, -fourier/roll have 3 runs`
#
# The order is the optimizer's doing. In Fourier coordinates RollPE's neighbors correlate no more than its twin's; in all
# other coordinates they correlate in every run, as
# predicted.{holds}`order neighbors: roll - -fourier/roll > 0, Welch 0.016; -random/roll - -fourier/roll > 0, Welch 0.016; -ring/roll - -fourier/roll > 0, Welch 0.016; -0.1 < -fourier/roll < 0.1; roll-twin - -fourier/roll is open, Welch 0.05`{holds}`order neighbors: every run of -ring/roll > 0.1; every run of roll > 0.1; every run of -random/roll > 0.1`{holds}`order-photos neighbors: every run of roll > every run of -fourier/roll; every run of -random/roll > every run of -fourier/roll; every run of -ring/roll > every run of -fourier/roll`
# So the ring's own channels are nothing special: a random basis orders them, too, and so does a step without any basis.
# **Fourier coordinates are the exception**, because a step of equal size in each of them levels the spectrum of a smooth
# gradient. The means on digits come in the order that {eq}`eq-step-order` gives for the first step, the first two without a
# difference.{holds}`order neighbors: -ring/roll > roll > -random/roll > -fourier/roll; -ring/roll - roll is open, Welch 0.05; roll - -random/roll > 0, Welch 0.05`
#
# Accuracy was not predicted. The order goes with *lower* accuracy: Fourier coordinates and the twin classify better than
# channels, on digits and, after two epochs, on
# photographs.{holds}`order: roll-twin - roll > 0, Welch 0.05; -fourier/roll - roll > 0, Welch 0.05`{holds}`order-photos: every run of roll-twin > every run of roll; every run of -fourier/roll > every run of roll`
# This is exploratory, except for one part: in a model without biases the twin's lead was predicted and
# repeated.{holds}`quick@patch_size=1,qkv_bias=false seeds 10..17: roll-twin - roll > 0, Welch 0.05; roll, roll-twin have 8 runs`
# On 4×4 digits and on photographs of ten epochs, {num}`mini/roll accuracy` for RollPE and {num}`mini/roll-twin accuracy` for the
# twin, the sign is open.{holds}`quick: roll-twin - roll is open`{holds}`mini: roll-twin - roll is open`
#
# ## When the order comes and goes
#
# The premise is that all patches need the same change of their queries. That can be measured: the *coherence* of the
# gradients for encoded queries, {eq}`eq-coherence`, is 1 if all patches of an image need the same change, and $1/64$ on
# average if 64 patches need independent ones.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-coherence", "caption": "Coherence of the gradients for queries (dashed) and correlation of neighbors (solid) at twelve moments of training; means over runs, layers and heads."}, "image": {"alt": "Two panels of lines over the share of training. Dashed lines, coherence, start near one and fall steeply; for a class token lower and faster. Solid lines, correlation of neighbors, rise from zero in the same stretch and then stay, except for the class token, where they stay near zero."}}
ARMS = {"mean of patches": "", "class token": "-token", "a loss per patch": "-patches"}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True)
colors = (figures.VERMILION, figures.BLUE, figures.GREEN)
for ax, (data, recipe) in zip(
    axes, {"digits": "order", "CIFAR-100": "order-photos"}.items(), strict=True
):
    for (label, suffix), color in zip(ARMS.items(), colors, strict=True):
        for runs, arrays in load(recipe + suffix, ["roll"]).values():
            frames = [
                unpack_correlations(torch.from_numpy(a["frames"])) for a in arrays
            ]
            near = np.mean([near_and_any(r)[0].mean((1, 2, 3, 4)) for r in frames], 0)
            kappa = np.mean(
                [a["frame_query_coherence"].mean((1, 2)) for a in arrays], 0
            )
            done = arrays[0]["frame_steps"] / arrays[0]["frame_steps"][-1]
            ax.plot(done, near, ".-", color=color, label=f"{label}: neighbors")
            ax.plot(done, kappa, "--", color=color, label=f"{label}: coherence")
            figures.drawn_from(fig, runs)
    ax.axhline(0, color=figures.MUTED, linewidth=0.8)
    ax.set(title=data, xlabel="share of training")
axes[0].legend(frameon=False, fontsize="small")
plt.close(fig)
fig

# %% [markdown]
# Before the first step all patches need nearly the same change. On digits this is over before a fifth of the training, and by
# then the channels have lined up.{holds}`order coherence 1: every run of roll > 0.9`{holds}`order coherence 3: roll < 0.35`{holds}`order coherence 12: every run of roll < 0.15`
# With a class token patches need less of the same from the start. On digits coherence then drops at once, and channels do not line
# up.{holds}`order coherence 1: 0.6 < -token/roll < 0.7`{holds}`order coherence 3: every run of -token/roll < 0.05`{holds}`order neighbors: roll - -token/roll > 0, Welch 0.025; every run of -token/roll < 0.1`
# On photographs it stays above one half for longer, and they do, though less than with the mean of the
# patches.{holds}`order-photos coherence 3: every run of -token/roll > 0.5`{holds}`order-photos neighbors: every run of roll > every run of -token/roll; every run of -token/roll > 0.4`

# %% tags=["hide-input"]
CONDITIONS = {
    "8×8 patches, mean of patches": "order",
    "8×8, class token": "order-token",
    "8×8, a loss per patch": "order-patches",
    "8×8, no weight decay": "order-no-decay",
    "4×4 patches": "order-4x4",
    "2×2 patches": "order-2x2",
    "text, a loss per character": "order-text",
    "photographs, mean of patches": "order-photos",
    "photographs, class token": "order-photos-token",
}
measures = ("neighbors", "coherence 1", "coherence 3", "coherence 12")
lines = [
    ["RollPE", "neighbors", *(f"coherence, {m}" for m in ("first", "third", "last"))]
]
lines += [
    [label, *(measured(recipe, "roll", m) for m in measures)]
    for label, recipe in CONDITIONS.items()
]
Markdown(markdown(lines))

# %% [markdown]
# Predictions that failed: with a loss for each patch neighbors correlate no less than with one loss for their
# mean.{holds}`order neighbors: -patches/roll > roll; roll - -patches/roll is open, Welch 0.025` All patches have the same label, so
# they still need the same change, and longer: it is coherence that counts, and not the pooled
# loss.{holds}`order coherence 12: every run of -patches/roll > every run of roll` And the last layer, in which coherence lasts
# longest, was to have more order than the first in every run. It has on photographs, but not in every run on
# digits.{holds}`order coherence 3, last layer - first: every run of roll > 0`{holds}`order-photos neighbors, last layer - first: every run of roll > 0`{holds}`order neighbors, last layer - first: some run of roll < 0`
#
# In text, where every character has a loss and a target of its own, coherence is low from the start, and neighbors
# correlate little ({doc}`10-text`).{holds}`order-text coherence 1: every run of roll < 0.2`{holds}`order-text neighbors: every run of roll < 0.2`
#
# Weight decay is no cause.{holds}`order neighbors: every run of -no-decay/roll > 0.1; -no-decay/roll - -fourier/roll > 0, Welch 0.05`
# The grid does what was predicted: neighbors correlate on 8×8 patches, not on 4×4, and on 2×2 less than any two
# channels.{holds}`order neighbors: roll - -4x4/roll > 0, Welch 0.025; -4x4/roll - -2x2/roll > 0, Welch 0.025; -0.1 < -4x4/roll < 0.05`{holds}`order lead of neighbors: every run of -2x2/roll < 0`
# Coherence is not the reason, it lasts longer there. But a row of two patches averages over two channels only, which
# removes few waves.{holds}`order coherence 3: -2x2/roll > -4x4/roll > roll`
#
# ## A map, or only order?
#
# In a map, a channel's place on the ring tells to which tokens it responds. Correlated neighbors alone are no map: one bump
# that only changes in strength correlates them, too ({doc}`17-topography`). A bump that stands anywhere on the ring needs at
# least two directions, its sine and its cosine, and leaves neighbors that correlate when the strongest direction is taken out. So
# our rule, written before the runs, says *map* if in every run the responses fill two directions or more (the participation ratio
# of the correlations), and neighbors lead any two channels by $0.1$ or more without the first component. Otherwise it says
# *ordered channels*.

# %% tags=["hide-input"]
KINDS = (
    "participation",
    "share of distance",
    "neighbors",
    "lead beyond the first component",
)
lines = [["", "directions", "share of distance", "neighbors", "lead without the first"]]
for data, recipe in {"digits": "order", "photographs": "order-photos"}.items():
    for arm in ("roll", "roll-twin", "axial-rope"):
        lines.append(
            [f"{data}, `{arm}`", *(measured(recipe, arm, kind) for kind in KINDS)]
        )
Markdown(markdown(lines))

# %% [markdown]
# By this rule RollPE has ordered channels. The lead remains in every run, so it is more than one bump of varying strength. But
# not every run fills two directions, neither on digits nor, narrowly, on
# photographs.{holds}`order lead beyond the first component: every run of roll > 0.1`{holds}`order participation: roll < 2; some run of roll < 2`{holds}`order-photos lead beyond the first component: every run of roll > 0.5`{holds}`order-photos participation: roll > 2; some run of roll < 2; every run of roll > 1.9`
# Twin and RoPE have little of this lead.{holds}`order lead beyond the first component: roll-twin < 0.1; -0.1 < axial-rope < 0.1`{holds}`order-photos lead beyond the first component: every run of roll > every run of roll-twin; roll-twin < 0.15`
#
# ## A consequence: fewer waves
#
# If slow waves carry more, queries and keys can be stored with fewer of them, in a cache for example. We take finished models
# and keep the $m$ slowest of the nine waves of each ring, or the $m$ of most power, which a rotary encoding can
# choose as well.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-waves", "caption": "Test loss when queries and keys keep only some of the nine waves of each ring, without further training; means and ranges of runs. Solid: the slowest waves; dotted: those of most power."}, "image": {"alt": "Two panels of falling lines over the number of waves kept. CIFAR-100: RollPE is level from two waves on, its twin falls until eight and ends lower. Digits: RollPE reaches its level earlier than its twin and ends higher."}}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.2))
for ax, (data, recipe) in zip(
    axes, {"digits": "order", "CIFAR-100": "order-photos"}.items(), strict=True
):
    for name, (runs, arrays) in load(recipe, ["roll", "roll-twin"]).items():
        for kind, line in (("slow", "-"), ("strong", ":")):
            losses = np.array([a[f"{kind}_waves"] for a in arrays])
            kept = np.arange(1, losses.shape[1] + 1)
            ax.plot(
                kept,
                losses.mean(0),
                line,
                color=figures.color_of(name),
                label=f"{name}, {kind}est",
            )
            ax.fill_between(
                kept,
                losses.min(0),
                losses.max(0),
                color=figures.color_of(name),
                alpha=0.12,
            )
        figures.drawn_from(fig, runs)
    ax.set(title=data, xlabel="waves kept")
axes[0].set_ylabel("test loss")
axes[1].legend(frameon=False, fontsize="small")
plt.close(fig)
fig

# %% [markdown]
# With five slow waves RollPE's loss rises less than its twin's, as
# predicted.{holds}`order slow waves 5: roll - roll-twin < 0, Welch 0.05`{holds}`order-photos slow waves 5: every run of roll < every run of roll-twin` With the five strongest, on
# which nothing was predicted, it stays where it was on digits, and the twin's does
# not.{holds}`order strong waves 5: roll < 0.02; roll - roll-twin < 0, Welch 0.05` On photographs two waves of nine, three numbers of
# sixteen, do for RollPE what all do.{holds}`order-photos slow waves needed within 0.01: every run of roll = 2`
#
# This saves memory, but under Adam it is not the better model. With all waves RollPE's loss is the higher
# one.{holds}`order-photos loss: every run of roll > every run of roll-twin`{holds}`order loss: roll > roll-twin` Few waves are no
# fault as such: under Muon four suffice for both, at a far lower
# loss.{holds}`order-photos slow waves needed within 0.01: every run of -muon/roll < 5; every run of -muon/roll-twin < 5`{holds}`order-photos loss: every run of roll > every run of -muon/roll; every run of roll-twin > every run of -muon/roll-twin`
#
# ## Earlier runs: the grid and Muon
#
# Muon takes the same step in every basis ({doc}`08-basis`), so the twin must line up like RollPE if nothing else moves
# queries and keys. The runs on digits are older than this explanation, those on photographs were planned with it.

# %% tags=["hide-input"]
fine, muon = "quick@patch_size=1", "learning_rate=0.02,optimizer=muon"
SETTINGS = {
    "photographs 8×8": "mini",
    "photographs 4×4": "mini-patch8",
    "place of a digit, 8×8": "place",
    "offset of two digits, 8×8": "offset",
    "digits 4×4": "quick",
    "digits 8×8": fine,
    "digits 8×8, no biases": f"{fine},qkv_bias=false",
    "digits 8×8, Muon": f"quick@{muon},patch_size=1",
    "digits 8×8, Muon, no biases": f"quick@{muon},patch_size=1,qkv_bias=false",
    "photographs 8×8, Muon, no biases": "order-photos-muon",
}
lines = [
    ["neighbors", "RollPE", "its twin", "RollPE: accuracy (%)", "twin: accuracy (%)"]
]
for label, recipe in SETTINGS.items():
    scope = recipe if recipe.startswith("order") else f"{recipe} seeds 0..4"
    near = [measured(scope, arm, "neighbors") for arm in ("roll", "roll-twin")]
    score = [measured(scope, arm, "", 1) for arm in ("roll", "roll-twin")]
    lines.append([label, *near, *score])
Markdown(markdown(lines))

# %% [markdown]
# *AdamW unless Muon is named. In random order neighbors would correlate as any two channels do.*
#
# Under Muon without biases the twin's neighbors correlate like
# RollPE's;{holds}`quick@learning_rate=0.02,optimizer=muon,patch_size=1,qkv_bias=false neighbors: every run of roll-twin > 0.25; -0.1 < roll-twin - roll < 0.1`
# with biases, which Adam moves, a
# little.{holds}`quick@learning_rate=0.02,optimizer=muon,patch_size=1 neighbors: 0.1 < roll-twin < 0.25` On photographs, too, they
# correlate under Muon and not under AdamW.{holds}`order-photos neighbors: every run of -muon/roll-twin > every run of roll-twin`
# There the channels of both fill more than three directions and keep the lead, so the rule, which was written for Adam, would say
# *map*.{holds}`order-photos participation: every run of -muon/roll > 3; every run of -muon/roll-twin > 3`{holds}`order-photos lead beyond the first component: every run of -muon/roll > 0.1; every run of -muon/roll-twin > 0.1`
# Models that find a digit's place, or the offset of two, on 8×8 patches have the order in all
# runs.{holds}`place neighbors: every run of roll > 0.6`{holds}`offset neighbors: every run of roll > 0.6`
# On 4×4 patches RollPE keeps about half of its order on photographs, and none on
# digits.{holds}`mini-patch8 neighbors: 0.25 < roll < 0.45`{holds}`quick neighbors: roll < 0.05` The twin was not trained on the former.{holds}`not measured: mini-patch8/roll-twin`
# Muon's rate was chosen on held-out digits, by one run of RollPE at each of four rates.
#
# **Not explained.** Why 4×4 digits have no order at all, although an average over four channels prefers slow waves. Why
# neighbors on photographs correlate less after ten epochs than after
# one.{holds}`mini@epochs=1,frames=12,warmup_epochs=0.5 neighbors: roll > 0.85`{holds}`mini neighbors: every run of roll < 0.85` And
# what makes order and accuracy go apart on digits.
#
# ## Where attention looks
#
# The mean attention weight by offset Δ between patches, over test images, heads and seeds:


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-offsets-photos", "caption": "CIFAR-100: mean attention by offset, in doublings of uniform attention."}, "image": {"alt": "A grid of maps, encodings by layers: red around the middle in the first layers, blue there in later ones; relative encodings also have red stripes and patches away from the middle."}}
def offset_maps(arms):
    """One row an encoding, one column a layer."""
    if not arms:
        return Markdown("Not measured.")
    maps = {}
    for name, (_, arrays) in arms.items():
        side = int(len(arrays[0]["offsets"]) ** 0.5)
        keys = ((side + 1) // 2) ** 2  # patches of the image
        mean = np.mean([a["attention"].mean(1) for a in arrays], axis=0)
        maps[name] = np.log2(mean * keys).reshape(len(mean), side, side)
    limit = max(np.abs(m).max() for m in maps.values())
    layers = len(next(iter(maps.values())))
    size = (min(1.9 * layers, 7.6) + 0.8, 1.75 * len(maps))
    fig, axes = plt.subplots(len(maps), layers, figsize=size, squeeze=False)
    for row, (name, layered) in zip(axes, maps.items(), strict=True):
        for layer, (ax, values) in enumerate(zip(row, layered, strict=True)):
            title = f"{name}\nlayer {layer + 1}"
            figures.offset_map(values, ax, limit=limit, title=title)
        figures.drawn_from(fig, arms[name][0])
    fig.colorbar(
        axes[0, 0].images[0],
        ax=axes,
        label="doublings of uniform attention",
        shrink=0.5,
    )
    plt.close(fig)
    return fig


offset_maps(plain["CIFAR-100"])

# %% [markdown]
# On photographs the first layer looks near, even without an encoding, and in the last layer the patch itself gets less
# than its share. On digits ({numref}`fig-inside-offsets`) with rotary or rolled encodings, patches look away from themselves, in
# most layers at less than half the share; their neighbors get about theirs.
#
# ```{admonition} In short
# :class: tip
# - Neighbors on RollPE's ring correlate on 8×8 patches, those of its twin do not under
#   Adam.{holds}`mini neighbors: roll > 0.6; roll-twin < 0.15`{holds}`order neighbors: roll > 0.3; -0.1 < roll-twin < 0.1`
# - The reason: early in training all patches need the same change, which makes the gradient a slow wave; Adam keeps slow waves in
#   every basis that we tried but Fourier coordinates, the twin's
#   own.{holds}`order neighbors: every run of -random/roll > 0.1; every run of -ring/roll > 0.1; -0.1 < -fourier/roll < 0.1`
# - Order follows coherence, not the pooled loss: a loss for each patch keeps it, a class token removes it on digits and weakens it on
#   photographs.{holds}`order neighbors: every run of -token/roll < 0.1; every run of -patches/roll > 0.25`{holds}`order-photos neighbors: every run of roll > every run of -token/roll; every run of -token/roll > 0.4`
# - By our rule these are ordered channels, and no map.{holds}`order participation: some run of roll < 2`{holds}`order-photos participation: some run of roll < 2`
# - Queries and keys of RollPE can drop fast waves at less loss than its twin's. Under Adam the twin classifies digits
#   better.{holds}`order slow waves 5: roll - roll-twin < 0, Welch 0.05`{holds}`order: roll-twin - roll > 0, Welch 0.05`
# ```
#
# ## Exercises
#
# %% [markdown]
# ```{exercise}
# :label: ex-inside-adam
# Adam's first step is the sign of the gradient, times the learning rate. How is its power spread over the modes of the
# ring, for the twin and for RollPE, if the gradient is a slow wave with some noise?
# ```
#
# ```{solution} ex-inside-adam
# :class: dropdown
# The twin's coordinates move equally, so every wave, which has two, gets the same power. On the ring the signs of a slow
# wave are a slow square wave, with most of its power where the gradient has it. The cell takes gradients with power $1/k^2$ in mode $k$.
# ```

# %% tags=["hide-cell"]
n = 16
k = torch.arange(n // 2 + 1).clamp(min=1)
torch.manual_seed(0)
waves = torch.randn(2000, len(k), dtype=torch.complex128) / k
gradient = torch.fft.irfft(waves, n, norm="ortho")  # [draws, channels]
basis, _ = real_fourier_basis(n)  # from channels to Fourier coordinates and back
white = ring_spectrum(torch.eye(n, dtype=torch.float64)).mean(0)
steps = {"RollPE": gradient.sign(), "twin": (gradient @ basis).sign() @ basis.T}
power = {name: ring_spectrum(x).mean(0) / n / white for name, x in steps.items()}
for name, relative in power.items():
    print(f"{name:7}", " ".join(f"{x:.2f}" for x in relative))
assert torch.allclose(power["twin"], torch.ones_like(white))
assert power["RollPE"][1] > 2 > 0.5 > power["RollPE"][-2]

# %% [markdown]
# ## Details
#
# The runs, and attention on digits.

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Show the runs", "code_prompt_hide": "Hide the runs"}
for data, arms in plain.items():
    missing = [name for name in names if name not in arms]
    print(
        f"{data}:", ", ".join(f"{name} {len(runs)}" for name, (runs, _) in arms.items())
    )
    print("  not measured:", ", ".join(missing) or "nothing")

# %% tags=["hide-cell"] mystnb={"figure": {"name": "fig-inside-offsets", "caption": "Digits: mean attention by offset, in doublings of uniform attention."}, "image": {"alt": "A grid of maps, encodings by layers: without positions and with a learned table nearly even but for their edges; rotary and rolled encodings have blue middles."}, "code_prompt_show": "Show attention by offset on digits", "code_prompt_hide": "Hide attention by offset on digits"}
offset_maps(plain["digits"])


# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Show attention to the patch itself and to its eight neighbors", "code_prompt_hide": "Hide attention to the patch itself and to its eight neighbors"}
def near_table(title: str, distance: int, arms) -> str:
    """Attention at a distance (the longer of two axes), encodings by layers."""
    layers = len(next(iter(arms.values()))[1][0]["attention"])
    heads = " | ".join(f"layer {i + 1}" for i in range(layers))
    lines = [f"| {title} | {heads} | seeds |", "| :-- |" + " --: |" * (layers + 1)]
    for name, (_, arrays) in arms.items():
        offsets = arrays[0]["offsets"]
        near = np.abs(offsets).max(-1) == distance
        extent = int(np.abs(offsets).max()) + 1  # patches a side
        pairs = np.prod(extent - np.abs(offsets), axis=-1)  # how many have an offset
        share = [
            (a["attention"].mean(1) * pairs)[:, near].sum(-1) / extent**2
            for a in arrays
        ]  # [seeds, layers]
        uniform = pairs[near].sum() / extent**4
        found = [summarize(np.array(share)[:, i] / uniform) for i in range(layers)]
        cells = [
            f"{s.mean:.2f}" + (f" ± {s.sd:.2f}" if s.sd is not None else "")
            for s in found
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {len(share)} |")
    return "\n".join(lines)


Markdown(
    "Attention in units of uniform attention (mean ± SD over seeds):\n\n"
    + "\n\n".join(
        near_table(f"{data}: {what}", distance, arms)
        for data, arms in plain.items()
        if arms
        for distance, what in enumerate(("the patch itself", "its eight neighbors"))
    )
)
