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
# model with ordered channels can drop fast waves.*
#
# All models are small: five layers and two or ten epochs for photographs (CIFAR-100, 8×8 patches), three layers for
# digits, rings of sixteen channels. Of multiplexed RollPE (`multiplexed-roll`) only the first wave is measured; without
# a ring, channels are taken as stored. Most runs were planned with predictions (`plans/order.yaml`,
# `plans/order-photos.yaml`).

# %% tags=["parameters"]
encodings: str = "none,learned,axial-rope,roll-twin,roll,multiplexed-roll"  # rows

# %% tags=["hide-input"]
import ipytest
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from rollpe.topography import position_average_gain
from rollpe_book import figures
from rollpe_book.chapters.parameters import begin
from rollpe_lab.evidence.inside import (
    coherence,
    coherence_last_minus_first,
    directions,
    kept,
    lead_beyond_first,
    lead_of_neighbors,
    neighbors,
    neighbors_by_moment,
    neighbors_last_minus_first,
    over_rings,
    rise,
    share_of_distance,
    waves_needed,
)
from rollpe_lab.evidence.words import (
    difference,
    least,
    loss,
    mean,
    means,
    measured,
    measures_table,
    most,
    runs_by_arm,
    score,
    summary,
)
from rollpe_lab.files import markdown

begin(globals())
ipytest.config(rewrite_asserts=True, magics=False)  # a failed assert shows its values
figures.use_theme()
names = [name.strip() for name in encodings.split(",")]


def runs_of(arm):
    return list(runs_by_arm().get(arm, {}).values())


# %%
PLAIN = {"digits": "quick", "CIFAR-100": "mini"}  # recipes: digits in 4×4 patches
ORDER = {"digits": "order", "CIFAR-100": "order-photos"}  # both in 8×8 patches

# %% [markdown]
# ## How far the order reaches

# %%
by_distance = {
    data: {name: over_rings(f"{recipe}/{name}", "correlation") for name in names}
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
        figures.drawn_from(fig, runs_of(f"{recipe}/{name}"))
    ax.axhline(0, color=figures.MUTED, linewidth=0.8)
    ax.set(title=data, xlabel="distance around the ring (channels)")
for ax, data in zip(axes, PLAIN, strict=True):  # the axis is known by now
    figures.label_line_ends(ax, ends[data])
axes[0].set_ylabel("correlation")
plt.close(fig)
fig

# %% [markdown]
# On photographs neighbors on RollPE's ring rise and fall together in every run, and channels do so less the farther
# apart they are. Topographic networks add a loss for this {cite}`margalit2024unifying`. RollPE trained by Adam has it
# without one. Without a ring channels do not correlate. On digits in 4×4 patches, the recipe `quick`, neighbors do not
# correlate.

# %% tags=["hide-input"]
# Neighbors rise and fall together in every run, without a ring they do not.
assert (
    min(least(f"mini/{arm}", neighbors) for arm in ("roll", "multiplexed-roll")) > 0.5
)
assert all(
    abs(mean(f"mini/{arm}", neighbors)) < 0.1
    for arm in ("none", "learned", "axial-rope")
)
assert mean("mini/roll-twin", neighbors) < 0.15
# On digits in 4×4 patches they do not correlate.
assert mean("quick/roll", neighbors) < 0.05

# %% [markdown]
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
        found = over_rings(f"{recipe}/{name}", what)  # shares of the power
        if not len(found):
            continue
        modes = found.shape[1]
        noise = np.r_[1, np.full(modes - 2, 2), 1] / (2 * modes - 2)
        ax.plot(found.mean(0) / noise, ".-", color=color, label=label)
        figures.drawn_from(fig, runs_of(f"{recipe}/{name}"))
        if what == "gradient":
            offsets = kept(f"{recipe}/{name}", "offsets")[0]
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
        near[arm] = neighbors_by_moment(f"{arm}/roll")
        found = kept(f"{arm}/roll", "frame_query_coherence")
        kappa[arm] = [run.mean((1, 2)) for run in found]  # layers and heads

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-coherence", "caption": "Coherence of the gradients for queries (dashed) and correlation of neighbors (solid) at twelve moments of training; means over runs, layers and heads."}, "image": {"alt": "Two panels of lines over the share of training. Dashed lines, coherence, start near one and fall steeply; for a class token lower and faster. Solid lines, correlation of neighbors, rise from zero in the same stretch and then stay, except for the class token, where they stay near zero."}}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True)
colors = (figures.VERMILION, figures.BLUE, figures.GREEN)
for ax, (data, recipe) in zip(axes, ORDER.items(), strict=True):
    for (label, suffix), color in zip(ARMS.items(), colors, strict=True):
        arm = recipe + suffix
        if not len(near[arm]):
            continue
        moments = kept(f"{arm}/roll", "frame_steps")[0]
        done = moments / moments[-1]
        over_time = np.mean(near[arm], 0), np.mean(kappa[arm], 0)
        ax.plot(done, over_time[0], ".-", color=color, label=f"{label}: neighbors")
        ax.plot(done, over_time[1], "--", color=color, label=f"{label}: coherence")
        figures.drawn_from(fig, runs_of(f"{arm}/roll"))
    ax.axhline(0, color=figures.MUTED, linewidth=0.8)
    ax.set(title=data, xlabel="share of training")
axes[0].legend(frameon=False, fontsize="small")
plt.close(fig)
fig

# %% [markdown]
# Before the first step all patches need nearly the same change. On digits this is over before a fifth of the training,
# and by then the channels have lined up. With a class token patches need less of the same from the start. On digits
# coherence then drops at once, and channels do not line up. On photographs it stays above one half for longer, and
# channels line up, though less than with the mean of the patches.

# %%
digits, photos = "order/roll", "order-photos/roll"
token, photos_token = "order-token/roll", "order-photos-token/roll"
patches, text = "order-patches/roll", "order-text/roll"
four, two, undecayed = "order-4x4/roll", "order-2x2/roll", "order-no-decay/roll"
CONDITIONS = {
    "8×8 patches, mean of patches": digits,
    "8×8, class token": token,
    "8×8, a loss per patch": patches,
    "8×8, no weight decay": undecayed,
    "4×4 patches": four,
    "2×2 patches": two,
    "text, a loss per character": text,
    "photographs, mean of patches": photos,
    "photographs, class token": photos_token,
}
columns = {"neighbors": neighbors, "coherence, first": coherence(1)}
columns |= {"third": coherence(3), "last": coherence(12)}
Markdown(measures_table(CONDITIONS, columns, "RollPE"))

# %% [markdown]
# Two predictions failed:
#
# - With a loss for each patch neighbors correlate no less than with one loss for their mean. All patches have the same
#   label, so they need the same change, and for longer: coherence counts, and not the pooled loss.
# - The last layer, in which coherence lasts longest, was to have more order than the first in every run. It has on
#   photographs, but not in every run on digits.
#
# In text, where every character has a target of its own, coherence is low from the start, and neighbors correlate
# little ({doc}`10-text`). Weight decay is no cause. As predicted, neighbors correlate on 8×8 patches, not on 4×4, and
# on 2×2 less than any two channels. Coherence is not the reason, since it lasts longer on the coarser grids. But a row
# of two patches averages over two channels only, which removes few waves.


# %% tags=["hide-input"]
def ahead(a, b):
    """Whether neighbors of a correlate more, by Welch's test at half of 0.05."""
    test = difference(a, b, neighbors)
    return test.difference > 0 and test.p < 0.025


# Before the first step all patches need nearly the same change, soon no longer.
assert least(digits, coherence(1)) > 0.9 and mean(digits, coherence(3)) < 0.35
assert most(digits, coherence(12)) < 0.15 and least(digits, neighbors) > 0.25
# With a class token less of the same from the start; channels do not line up.
assert 0.6 < mean(token, coherence(1)) < 0.7 and most(token, coherence(3)) < 0.05
assert ahead(digits, token) and most(token, neighbors) < 0.1
# On photographs it stays above one half for longer, and channels line up less.
assert mean(photos_token, coherence(1)) < mean(photos, coherence(1))
assert least(photos_token, coherence(3)) > 0.5
assert least(photos, neighbors) > most(photos_token, neighbors)
assert least(photos_token, neighbors) > 0.4
# With a loss for each patch neighbors correlate no less.
assert mean(patches, neighbors) > mean(digits, neighbors) and not ahead(patches, digits)
assert least(patches, neighbors) > 0.25 and mean(patches, coherence(1)) > 0.9
assert least(patches, coherence(12)) > most(digits, coherence(12))
# The last layer has more order on photographs, but not in every run on digits.
assert least(digits, coherence_last_minus_first) > 0
assert least(photos, neighbors_last_minus_first) > 0
assert least(digits, neighbors_last_minus_first) < 0
# In text coherence is low from the start.
assert most(text, coherence(1)) < 0.2 > most(text, neighbors)
# Weight decay is no cause.
assert least(undecayed, neighbors) > 0.1 and ahead(undecayed, "order-fourier/roll")
# Neighbors correlate on 8×8 patches, not on 4×4, and on 2×2 less than any two.
assert ahead(digits, four) and ahead(four, two) and -0.1 < mean(four, neighbors) < 0.05
assert most(two, lead_of_neighbors) < 0 > mean(two, neighbors)
# Coherence lasts longer on the coarser grids.
lasting = [mean(arm, coherence(3)) for arm in (digits, four, two)]
assert lasting == sorted(lasting)

# %% [markdown]
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
KINDS = {"directions": directions, "share of distance": share_of_distance}
KINDS |= {"neighbors": neighbors, "lead without the first": lead_beyond_first}
twin, rope, photos_twin = (
    "order/roll-twin",
    "order/axial-rope",
    "order-photos/roll-twin",
)
rows = {"digits, RollPE": digits, "digits, twin": twin, "digits, RoPE": rope}
rows |= {"photographs, RollPE": photos, "photographs, twin": photos_twin}
Markdown(measures_table(rows, KINDS, ""))

# %% [markdown]
# By this rule RollPE has ordered channels. The lead remains in every run, so it is more than one bump of varying
# strength. But not every run fills two directions, neither on digits nor, narrowly, on photographs. Twin and RoPE have
# little of this lead.

# %% tags=["hide-input"]
# The lead remains in every run. But not every run fills two directions.
assert least(digits, lead_beyond_first) > 0.1 and least(photos, lead_beyond_first) > 0.5
assert least(digits, directions) < mean(digits, directions) < 2
assert 1.9 < least(photos, directions) < 2 < mean(photos, directions)
# Twin and RoPE have little of this lead.
assert mean(twin, lead_beyond_first) < 0.1 > abs(mean(rope, lead_beyond_first))
assert mean(photos_twin, lead_beyond_first) < 0.15

# %% [markdown]
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
            losses = np.array(kept(f"{recipe}/{name}", f"{kind}_waves"))
            if not len(losses):
                continue
            waves, color = np.arange(1, losses.shape[1] + 1), figures.color_of(name)
            label = f"{name}, {kind}est"
            ax.plot(waves, losses.mean(0), line, color=color, label=label)
            low, high = losses.min(0), losses.max(0)
            ax.fill_between(waves, low, high, color=color, alpha=0.12)
        figures.drawn_from(fig, runs_of(f"{recipe}/{name}"))
    ax.set(title=data, xlabel="waves kept")
axes[0].set_ylabel("test loss")
axes[1].legend(frameon=False, fontsize="small")
plt.close(fig)
fig

# %% [markdown]
# With five slow waves RollPE's loss rises less than its twin's loss, as predicted. With the five strongest waves, on
# which nothing was predicted, RollPE's loss stays the same on digits and the twin's loss rises. On photographs two
# waves of nine, three numbers of sixteen, suffice for RollPE.
#
# This saves memory, but under Adam it is not the better model: with all waves RollPE has the higher loss. Few waves are
# no fault as such: under Muon four suffice for both, at a far lower loss.

# %% tags=["hide-input"]
photos_muon, photos_muon_twin = (
    f"order-photos-muon/{name}" for name in ("roll", "roll-twin")
)
# With five slow waves RollPE's loss rises less than its twin's.
slow, strong = (difference(digits, twin, rise(kind, 5)) for kind in ("slow", "strong"))
assert slow.difference < 0 and slow.p < 0.05
assert most(photos, rise("slow", 5)) < least(photos_twin, rise("slow", 5))
# With the five strongest waves RollPE's loss stays the same on digits.
assert mean(digits, rise("strong", 5)) < 0.02
assert strong.difference < 0 and strong.p < 0.05
# Two waves of nine suffice for RollPE, under Muon four for both.
assert least(photos, waves_needed(0.01)) == most(photos, waves_needed(0.01)) == 2
assert max(most(arm, waves_needed(0.01)) for arm in (photos_muon, photos_muon_twin)) < 5
# With all waves RollPE has the higher loss; under Muon it is far lower.
assert least(photos, loss) > most(photos_twin, loss)
assert mean(digits, loss) > mean(twin, loss) and mean(digits) < mean(twin)
assert least(photos, loss) > most(photos_muon, loss)
assert least(photos_twin, loss) > most(photos_muon_twin, loss)

# %% [markdown]
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
    seeds = None if recipe.startswith("order") else range(5)
    arms = (f"{recipe}/roll", f"{recipe}/roll-twin")
    cells = [summary(arm, m, seeds) for m in (neighbors, score) for arm in arms]
    lines.append([label, *cells])
Markdown(markdown(lines))

# %% [markdown]
# *AdamW unless Muon is named. In random order neighbors would correlate as any two channels do.*
#
# - Under Muon without biases the twin's neighbors correlate like RollPE's neighbors; with biases, which Adam moves, a
#   little. On photographs, too, they correlate under Muon and not under AdamW.
# - Under Muon the channels of both fill more than three directions on photographs and keep the lead, so the rule, which
#   was written for Adam, would say *map*.
# - Models that find a digit's place, or the offset of two, on 8×8 patches have the order in all runs.
# - On 4×4 patches RollPE keeps about half of its order on photographs, and none on digits. The twin was not trained on
#   the former.
# - On photographs of ten epochs RollPE reaches 39.5 % and its twin 40.0 %; the sign of the difference is open.
#
# Muon's rate was chosen on held-out digits, by one run of RollPE at each of four rates.

# %% tags=["hide-input"]
plain, biased = (SETTINGS[f"digits 8×8, Muon{o}"] for o in (", no biases", ""))
# Under Muon without biases the twin's neighbors correlate like RollPE's.
assert least(f"{plain}/roll-twin", neighbors) > 0.25
apart = mean(f"{plain}/roll-twin", neighbors) - mean(f"{plain}/roll", neighbors)
assert abs(apart) < 0.1
# With biases, which Adam moves, a little.
assert 0.1 < mean(f"{biased}/roll-twin", neighbors) < 0.25
# On photographs, too, they correlate under Muon and not under AdamW.
assert least(photos_muon_twin, neighbors) > max(0.5, most(photos_twin, neighbors))
# The rule, which was written for Adam, would say map.
for arm in (photos_muon, photos_muon_twin):
    assert least(arm, directions) > 3 and least(arm, lead_beyond_first) > 0.1
# Models that find a digit's place, or an offset, have the order in all runs.
assert least("place/roll", neighbors) > 0.6 < least("offset/roll", neighbors)
# On 4×4 patches RollPE keeps about half of its order on photographs.
assert 0.25 < mean("mini-patch8/roll", neighbors) < 0.45
assert least("mini-patch8/roll", neighbors) > 0.3 and not measured(
    "mini-patch8/roll-twin"
)
# On photographs of ten epochs the sign of the difference is open.
assert means("mini/roll", "mini/roll-twin") == [39.5, 40.0]
assert difference("mini/roll", "mini/roll-twin").p > 0.05
# Neighbors correlate less after ten epochs than after one.
short = "mini@epochs=1,frames=12,warmup_epochs=0.5/roll"
assert mean(short, neighbors) > 0.85 > most("mini/roll", neighbors)
# On digits in 8×8 patches the twin has the higher accuracy.
held = "quick@patch_size=1,qkv_bias=false"
test = difference(f"{held}/roll-twin", f"{held}/roll", seeds=range(10, 18))
assert test.difference > 0 and test.p < 0.05

# %% [markdown]
# **Not explained.** Why 4×4 digits have no order at all, although an average over four channels prefers slow waves. Why
# neighbors on photographs correlate less after ten epochs than after one. What makes order and accuracy part on digits.
# Why keys line up as queries do, although their changes cancel.
#
# ```{admonition} In short
# :class: tip
# - Neighbors on RollPE's ring correlate on 8×8 patches; those of its twin do not under Adam.
# - On 8×8 patches order goes with coherence, not with the pooled loss: a loss for each patch keeps both, a class token
#   lowers both. On coarser grids of digits coherence lasts longer and order does not form.
# - By our rule these are ordered channels, and no map.
# - Queries and keys of RollPE can drop fast waves at less loss than those of its twin. On digits in 8×8 patches the
#   twin has the higher accuracy at the recipe's rate.
# ```
#
# ## Details

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Show the runs", "code_prompt_hide": "Hide the runs"}
for data, recipe in PLAIN.items():
    found = {name: len(runs_of(f"{recipe}/{name}")) for name in names}
    missing = [name for name, runs in found.items() if not runs]
    print(f"{data}:", ", ".join(f"{k} {runs}" for k, runs in found.items() if runs))
    print("  not measured:", ", ".join(missing) or "nothing")
