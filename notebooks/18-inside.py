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
# {doc}`08-basis` finds that neighbors on RollPE's ring respond alike, unless Adam divides in Fourier coordinates. This
# appendix looks closer. How far does the order reach? When does it come and go? Is it a map? What follows from it?
#
# *Correlations fall with the distance around the ring. The order comes early, while all patches need the same change.
# On 4×4 patches it is weaker on photographs and absent on digits. By our rule it is ordered channels and no map. A
# model with ordered channels can drop fast
# waves.*{holds}`mini neighbors: every run of roll > 0.5`{holds}`order neighbors: every run of roll > 0.25; -0.1 < -4x4/roll < 0.05`{holds}`mini-patch8 neighbors: every run of roll > 0.3; roll < 0.45`{holds}`order participation: some run of roll < 2`
#
# All models are small: five layers and two or ten epochs for photographs (CIFAR-100, 8×8 patches), three layers for
# digits, rings of sixteen channels. Of multiplexed RollPE (`multiplexed-roll`) only the first wave is measured; without
# a ring, channels are taken as stored. Most runs were planned with predictions (`plans/order.yaml`,
# `plans/order-photos.yaml`).

# %% tags=["parameters"]
encodings: str = "none,learned,axial-rope,roll-twin,roll,multiplexed-roll"  # rows
records: str = "data/records"  # folder of records

# %% tags=["hide-input"]
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from rollpe.topography import position_average_gain
from rollpe_book import figures
from rollpe_lab.evidence.conditions import Evidence
from rollpe_lab.evidence.families import markdown
from rollpe_lab.evidence.inside import (
    kept,
    neighbors_by_moment,
    over_rings,
)
from rollpe_lab.evidence.measures import measured, measures_table
from rollpe_lab.records import find_arrays, read_records
from rollpe_lab.sources import enter_root

enter_root()
figures.use_theme()
names = [name.strip() for name in encodings.split(",")]

# %%
beside = partial(find_arrays, folders=[records])  # the arrays that lie beside a record
evidence = Evidence(read_records(records), arrays=beside)
PLAIN = {"digits": "quick", "CIFAR-100": "mini"}  # recipes: digits in 4×4 patches
ORDER = {"digits": "order", "CIFAR-100": "order-photos"}  # both in 8×8 patches

# %% [markdown]
# ## How far the order reaches

# %%
by_distance = {
    data: {name: over_rings(evidence, recipe, name, "correlation") for name in names}
    for data, recipe in PLAIN.items()
}

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-correlation", "caption": "Correlation of two channels over test images and patches, by their distance around the ring; mean over queries and keys, layers, heads and axes, with the range of single runs."}, "image": {"alt": "Two panels with a line for each encoding over distances one to eight. Digits: lines without a ring stay near zero, the others swing around it. CIFAR-100: RollPE and multiplexed RollPE start high and fall to about zero; the twin starts just above zero, and the others stay there."}}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True)
ends = {data: {} for data in PLAIN}
for ax, (data, recipe) in zip(axes, PLAIN.items(), strict=True):
    for name, runs in by_distance[data].items():
        if not len(runs):
            continue
        runs = runs[:, 1:]
        distance, color = np.arange(1, runs.shape[1] + 1), figures.color_of(name)
        ax.plot(distance, runs.mean(0), ".-", color=color, label=f"{data}, {name}")
        ax.fill_between(distance, runs.min(0), runs.max(0), color=color, alpha=0.2)
        ends[data][name] = np.array([distance[-1], runs.mean(0)[-1]])
        figures.drawn_from(fig, evidence.runs(recipe, name))
    ax.axhline(0, color=figures.MUTED, linewidth=0.8)
    ax.set(title=data, xlabel="distance around the ring (channels)")
for ax, data in zip(axes, PLAIN, strict=True):  # the axis is known by now
    figures.label_line_ends(ax, ends[data])
axes[0].set_ylabel("correlation")
plt.close(fig)
fig

# %% [markdown]
# On photographs neighbors on RollPE's ring rise and fall together in every run, and channels do so less the farther
# apart they are.{holds}`mini neighbors: every run of roll > 0.5; every run of multiplexed-roll > 0.5`
# Topographic networks add a loss for this {cite}`margalit2024unifying`. RollPE trained by Adam has it without one.
# Without a ring channels do not correlate.{holds}`mini neighbors: -0.1 < none < 0.1; -0.1 < learned < 0.1; -0.1 < axial-rope < 0.1`
# On digits in 4×4 patches, the recipe `quick`, neighbors do not correlate.{holds}`quick neighbors: roll < 0.05`
#
# ## The first gradients
#
# {doc}`08-basis` derives that the first gradient is a moving average over the patches of a row
# {eq}`eq-position-average`, and that Adam's first step, its sign, keeps slow waves in channels and not in Fourier
# coordinates {eq}`eq-step-order`. The first gradients of real models:

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-first-step", "caption": "Before training: power by mode, relative to white noise, of the gradient for the weights of queries and keys, and of its signs, Adam's first step; mean over queries and keys, layers, heads and axes. Dotted: white noise averaged over the patches of a row."}, "image": {"alt": "Two panels with lines over the mode numbers. CIFAR-100: the gradient falls steeply, much as the dotted line does; RollPE's step falls less steeply; the twin's is level at one. Digits: the same with a weaker fall."}}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.2), sharey=True)
for ax, (data, recipe) in zip(axes, PLAIN.items(), strict=True):
    for name, what, label, color in (
        ("roll", "gradient", "gradient", figures.INK),
        ("roll", "step", "RollPE's first step", figures.color_of("roll")),
        ("roll-twin", "step", "the twin's first step", figures.color_of("roll-twin")),
    ):
        found = over_rings(evidence, recipe, name, what)  # shares of the power
        if not len(found):
            continue
        modes = found.shape[1]
        noise = np.r_[1, np.full(modes - 2, 2), 1] / (2 * modes - 2)
        ax.plot(found.mean(0) / noise, ".-", color=color, label=label)
        figures.drawn_from(fig, evidence.runs(recipe, name))
        if what == "gradient":
            offsets = kept(evidence, recipe, name, "offsets")[0]
            side = (int(len(offsets) ** 0.5) + 1) // 2  # patches
            average = position_average_gain(2 * modes - 2, side).numpy()
            relative = average / (average * noise).sum()
            label = f"average over {side} patches"
            ax.plot(relative, ":", color=figures.MUTED, label=label)
    ax.axhline(1, color=figures.MUTED, linewidth=0.8)
    ax.set(title=data, xlabel="mode number")
    ax.legend(frameon=False)
axes[0].set_ylabel("power, white noise = 1")
plt.close(fig)
fig

# %% [markdown]
# On photographs the first gradient is nearly that average, on digits a weak form of it. RollPE's step keeps the
# preference for slow waves; the twin's step loses it.
#
# ## When the order comes and goes
#
# The premise is that all patches need the same change of their queries. The *coherence* of the gradients for encoded
# queries {eq}`eq-coherence` measures it: it is 1 if all patches of an image need the same change, and $1/64$ on
# average if 64 patches need independent ones.

# %%
ARMS = {"mean of patches": "", "class token": "-token", "a loss per patch": "-patches"}
near, kappa = {}, {}
for recipe in ORDER.values():
    for suffix in ARMS.values():
        arm = recipe + suffix
        near[arm] = neighbors_by_moment(evidence, arm, "roll")
        coherence = kept(evidence, arm, "roll", "frame_query_coherence")
        kappa[arm] = [run.mean((1, 2)) for run in coherence]  # layers and heads

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-coherence", "caption": "Coherence of the gradients for queries (dashed) and correlation of neighbors (solid) at twelve moments of training; means over runs, layers and heads."}, "image": {"alt": "Two panels of lines over the share of training. Dashed lines, coherence, start near one and fall steeply; for a class token lower and faster. Solid lines, correlation of neighbors, rise from zero in the same stretch and then stay, except for the class token, where they stay near zero."}}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True)
colors = (figures.VERMILION, figures.BLUE, figures.GREEN)
for ax, (data, recipe) in zip(axes, ORDER.items(), strict=True):
    for (label, suffix), color in zip(ARMS.items(), colors, strict=True):
        arm = recipe + suffix
        if not len(near[arm]):
            continue
        moments = kept(evidence, arm, "roll", "frame_steps")[0]
        done = moments / moments[-1]
        over_time = np.mean(near[arm], 0), np.mean(kappa[arm], 0)
        ax.plot(done, over_time[0], ".-", color=color, label=f"{label}: neighbors")
        ax.plot(done, over_time[1], "--", color=color, label=f"{label}: coherence")
        figures.drawn_from(fig, evidence.runs(arm, "roll"))
    ax.axhline(0, color=figures.MUTED, linewidth=0.8)
    ax.set(title=data, xlabel="share of training")
axes[0].legend(frameon=False, fontsize="small")
plt.close(fig)
fig

# %% [markdown]
# Before the first step all patches need nearly the same change. On digits this is over before a fifth of the training,
# and by then the channels have lined up.{holds}`order coherence 1: every run of roll > 0.9`{holds}`order coherence 3: roll < 0.35`{holds}`order coherence 12: every run of roll < 0.15`
# With a class token patches need less of the same from the start. On digits coherence then drops at once, and channels
# do not line up.{holds}`order coherence 1: 0.6 < -token/roll < 0.7`{holds}`order coherence 3: every run of -token/roll < 0.05`{holds}`order neighbors: roll - -token/roll > 0, Welch 0.025; every run of -token/roll < 0.1`
# On photographs it stays above one half for longer, and channels line up, though less than with the mean of the
# patches.{holds}`order-photos coherence 3: every run of -token/roll > 0.5`{holds}`order-photos neighbors: every run of roll > every run of -token/roll; every run of -token/roll > 0.4`

# %%
CONDITIONS = {
    "8×8 patches, mean of patches": "roll",
    "8×8, class token": "-token/roll",
    "8×8, a loss per patch": "-patches/roll",
    "8×8, no weight decay": "-no-decay/roll",
    "4×4 patches": "-4x4/roll",
    "2×2 patches": "-2x2/roll",
    "text, a loss per character": "-text/roll",
    "photographs, mean of patches": "-photos/roll",
    "photographs, class token": "-photos-token/roll",
}
columns = {"neighbors": "order neighbors", "coherence, first": "order coherence 1"}
columns |= {"third": "order coherence 3", "last": "order coherence 12"}
Markdown(measures_table(evidence, CONDITIONS, columns, "RollPE"))

# %% [markdown]
# Two predictions failed:
#
# - With a loss for each patch neighbors correlate no less than with one loss for their
#   mean.{holds}`order neighbors: -patches/roll > roll; roll - -patches/roll is open, Welch 0.025` All patches have the
#   same label, so they need the same change, and for longer: coherence counts, and not the pooled
#   loss.{holds}`order coherence 12: every run of -patches/roll > every run of roll`
# - The last layer, in which coherence lasts longest, was to have more order than the first in every run. It has on
#   photographs, but not in every run on
#   digits.{holds}`order coherence 3, last layer - first: every run of roll > 0`{holds}`order-photos neighbors, last layer - first: every run of roll > 0`{holds}`order neighbors, last layer - first: some run of roll < 0`
#
# In text, where every character has a target of its own, coherence is low from the start, and neighbors correlate
# little ({doc}`10-text`).{holds}`order-text coherence 1: every run of roll < 0.2`{holds}`order-text neighbors: every run of roll < 0.2`
# Weight decay is no cause.{holds}`order neighbors: every run of -no-decay/roll > 0.1; -no-decay/roll - -fourier/roll > 0, Welch 0.05`
# As predicted, neighbors correlate on 8×8 patches, not on 4×4, and on 2×2 less than any two channels.{holds}`order neighbors: roll - -4x4/roll > 0, Welch 0.025; -4x4/roll - -2x2/roll > 0, Welch 0.025; -0.1 < -4x4/roll < 0.05`{holds}`order lead of neighbors: every run of -2x2/roll < 0`
# Coherence is not the reason, since it lasts longer on the coarser grids. But a row of two patches averages over two
# channels only, which removes few waves.{holds}`order coherence 3: -2x2/roll > -4x4/roll > roll`
#
# ## A map, or only order?
#
# In a map, a channel's place on the ring tells to which tokens it responds. Correlated neighbors alone are no map: one
# bump that only changes in strength correlates them, too ({doc}`17-topography`). A bump that can be anywhere on the
# ring needs at least two directions, its sine and its cosine, and leaves neighbors that correlate when the strongest
# direction is taken out. Our rule, written before the runs, says *map* if in every run
#
# - the responses fill two directions or more (the participation ratio of the correlations), and
# - neighbors lead any two channels by $0.1$ or more without the first component.
#
# Otherwise it says *ordered channels*.

# %%
KINDS = {
    "directions": "order participation",
    "share of distance": "order share of distance",
}
KINDS |= {"neighbors": "order neighbors"}
KINDS |= {"lead without the first": "order lead beyond the first component"}
rows = {
    "digits, RollPE": "roll",
    "digits, twin": "roll-twin",
    "digits, RoPE": "axial-rope",
}
rows |= {
    "photographs, RollPE": "-photos/roll",
    "photographs, twin": "-photos/roll-twin",
}
Markdown(measures_table(evidence, rows, KINDS, ""))

# %% [markdown]
# By this rule RollPE has ordered channels. The lead remains in every run, so it is more than one bump of varying
# strength. But not every run fills two directions, neither on digits nor, narrowly, on
# photographs.{holds}`order lead beyond the first component: every run of roll > 0.1`{holds}`order participation: roll < 2; some run of roll < 2`{holds}`order-photos lead beyond the first component: every run of roll > 0.5`{holds}`order-photos participation: roll > 2; some run of roll < 2; every run of roll > 1.9`
# Twin and RoPE have little of this lead.{holds}`order lead beyond the first component: roll-twin < 0.1; -0.1 < axial-rope < 0.1`{holds}`order-photos lead beyond the first component: every run of roll > every run of roll-twin; roll-twin < 0.15`
#
# ## A consequence: fewer waves
#
# If slow waves carry more, queries and keys can be stored with fewer of them, in a cache for example. We take finished
# models and keep the $m$ slowest of the nine waves of each ring, or the $m$ of most power, which a rotary encoding can
# choose as well.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-waves", "caption": "Test loss when queries and keys keep only some of the nine waves of each ring, without further training; means and ranges of runs. Solid: the slowest waves; dotted: those of most power."}, "image": {"alt": "Two panels of falling lines over the number of waves kept. CIFAR-100: RollPE is level from two waves on, its twin falls until eight and ends lower. Digits: RollPE reaches its level earlier than its twin and ends higher."}}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.2))
for ax, (data, recipe) in zip(axes, ORDER.items(), strict=True):
    for name in ("roll", "roll-twin"):
        for kind, line in (("slow", "-"), ("strong", ":")):
            losses = np.array(kept(evidence, recipe, name, f"{kind}_waves"))
            if not len(losses):
                continue
            waves, color = np.arange(1, losses.shape[1] + 1), figures.color_of(name)
            label = f"{name}, {kind}est"
            ax.plot(waves, losses.mean(0), line, color=color, label=label)
            low, high = losses.min(0), losses.max(0)
            ax.fill_between(waves, low, high, color=color, alpha=0.12)
        figures.drawn_from(fig, evidence.runs(recipe, name))
    ax.set(title=data, xlabel="waves kept")
axes[0].set_ylabel("test loss")
axes[1].legend(frameon=False, fontsize="small")
plt.close(fig)
fig

# %% [markdown]
# With five slow waves RollPE's loss rises less than its twin's loss, as
# predicted.{holds}`order slow waves 5: roll - roll-twin < 0, Welch 0.05`{holds}`order-photos slow waves 5: every run of roll < every run of roll-twin`
# With the five strongest waves, on which nothing was predicted, RollPE's loss stays the same on digits and the twin's
# loss rises.{holds}`order strong waves 5: roll < 0.02; roll - roll-twin < 0, Welch 0.05` On photographs two waves of nine,
# three numbers of sixteen, suffice for RollPE.{holds}`order-photos slow waves needed within 0.01: every run of roll = 2`
#
# This saves memory, but under Adam it is not the better model: with all waves RollPE has the higher
# loss.{holds}`order-photos loss: every run of roll > every run of roll-twin`{holds}`order loss: roll > roll-twin` Few
# waves are no fault as such: under Muon four suffice for both, at a far lower
# loss.{holds}`order-photos slow waves needed within 0.01: every run of -muon/roll < 5; every run of -muon/roll-twin < 5`{holds}`order-photos loss: every run of roll > every run of -muon/roll; every run of roll-twin > every run of -muon/roll-twin`
#
# ## The grid and Muon
#
# Muon takes the same step in every basis ({doc}`08-basis`), so the twin must line up like RollPE if nothing else moves
# queries and keys. The runs on digits are older than this explanation; those on photographs were planned with it.

# %%
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
lines = [["neighbors", "RollPE", "its twin", "accuracy (%): RollPE", "its twin"]]
for label, recipe in SETTINGS.items():
    of_seeds = recipe if recipe.startswith("order") else f"{recipe} seeds 0..4"
    scopes = (f"{of_seeds} neighbors", of_seeds)
    cells = [
        measured(evidence, s, arm) for s in scopes for arm in ("roll", "roll-twin")
    ]
    lines.append([label, *cells])
Markdown(markdown(lines))

# %% [markdown]
# *AdamW unless Muon is named. In random order neighbors would correlate as any two channels do.*
#
# - Under Muon without biases the twin's neighbors correlate like
#   RollPE's neighbors;{holds}`quick@learning_rate=0.02,optimizer=muon,patch_size=1,qkv_bias=false neighbors: every run of roll-twin > 0.25; -0.1 < roll-twin - roll < 0.1`
#   with biases, which Adam moves, a
#   little.{holds}`quick@learning_rate=0.02,optimizer=muon,patch_size=1 neighbors: 0.1 < roll-twin < 0.25` On
#   photographs, too, they correlate under Muon and not under
#   AdamW.{holds}`order-photos neighbors: every run of -muon/roll-twin > every run of roll-twin`
# - Under Muon the channels of both fill more than three directions on photographs and keep the lead, so the rule, which
#   was written for Adam, would say
#   *map*.{holds}`order-photos participation: every run of -muon/roll > 3; every run of -muon/roll-twin > 3`{holds}`order-photos lead beyond the first component: every run of -muon/roll > 0.1; every run of -muon/roll-twin > 0.1`
# - Models that find a digit's place, or the offset of two, on 8×8 patches have the order in all
#   runs.{holds}`place neighbors: every run of roll > 0.6`{holds}`offset neighbors: every run of roll > 0.6`
# - On 4×4 patches RollPE keeps about half of its order on photographs, and none on
#   digits.{holds}`mini-patch8 neighbors: 0.25 < roll < 0.45`{holds}`quick neighbors: roll < 0.05` The twin was not
#   trained on the former.{holds}`not measured: mini-patch8/roll-twin`
# - On photographs of ten epochs RollPE reaches {num}`mini/roll accuracy` and its twin {num}`mini/roll-twin accuracy`;
#   the sign of the difference is open.{holds}`mini: roll-twin - roll is open`
#
# Muon's rate was chosen on held-out digits, by one run of RollPE at each of four rates.
#
# **Not explained.** Why 4×4 digits have no order at all, although an average over four channels prefers slow waves. Why
# neighbors on photographs correlate less after ten epochs than after
# one.{holds}`mini@epochs=1,frames=12,warmup_epochs=0.5 neighbors: roll > 0.85`{holds}`mini neighbors: every run of roll < 0.85`
# What makes order and accuracy part on digits. Why keys line up as queries do, although their changes cancel.
#
# ```{admonition} In short
# :class: tip
# - Neighbors on RollPE's ring correlate on 8×8 patches; those of its twin do not under
#   Adam.{holds}`mini neighbors: roll > 0.6; roll-twin < 0.15`{holds}`order neighbors: roll > 0.3; -0.1 < roll-twin < 0.1`
# - On 8×8 patches order goes with coherence, not with the pooled loss: a loss for each patch keeps both, a class token
#   lowers both.{holds}`order coherence 1: -token/roll < roll; -patches/roll > 0.9`{holds}`order neighbors: every run of -token/roll < 0.1; every run of -patches/roll > 0.25`{holds}`order-photos neighbors: every run of roll > every run of -token/roll; every run of -token/roll > 0.4`{holds}`order-photos coherence 1: -token/roll < roll`
#   On coarser grids of digits coherence lasts longer and order does not
#   form.{holds}`order coherence 3: -2x2/roll > -4x4/roll > roll`{holds}`order neighbors: -4x4/roll < 0.05; -2x2/roll < 0`
# - By our rule these are ordered channels, and no
#   map.{holds}`order participation: some run of roll < 2`{holds}`order-photos participation: some run of roll < 2`
# - Queries and keys of RollPE can drop fast waves at less loss than those of its twin. On digits in 8×8 patches the twin
#   has the higher accuracy at the recipe's
#   rate.{holds}`order slow waves 5: roll - roll-twin < 0, Welch 0.05`{holds}`quick@patch_size=1,qkv_bias=false seeds 10..17: roll-twin - roll > 0, Welch 0.05`{holds}`order: roll-twin > roll`
# ```
#
# ## Details

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Show the runs", "code_prompt_hide": "Hide the runs"}
for data, recipe in PLAIN.items():
    found = {name: len(evidence.runs(recipe, name)) for name in names}
    missing = [name for name, runs in found.items() if not runs]
    print(f"{data}:", ", ".join(f"{k} {runs}" for k, runs in found.items() if runs))
    print("  not measured:", ", ".join(missing) or "nothing")
