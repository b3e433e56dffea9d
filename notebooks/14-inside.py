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
# The paper claims more than accuracy. Rolling is said to arrange the channels like a map: neighbors on the ring are to
# respond alike, as cells in the cortex do, with waves of activity that run over them {cite}`rollpe`. Nothing in its experiments
# looks for this. Here we look. Every run of this book leaves behind, beside its accuracy, how its trained attention depends on the
# offset between two patches, how the power of its queries and keys spreads over the modes of the ring, and how much alike
# their channels respond.
#
# There are two sets of models to look into. The small ones read handwritten digits on a grid of four by four patches.
# The others have seen the photographs of CIFAR-100 ten times, on eight by eight patches. They give different answers.

# %% tags=["parameters"]
small: str = "quick"  # recipe of the runs on digits {quick|smoke}
large: str = "mini"  # recipe of the runs on CIFAR-100 {mini|short|strong|paper}
encodings: str = "none,learned,axial-rope,roll-twin,roll,multiplexed-roll"  # rows
records: str = "data/records"  # folder of records

# %% tags=["hide-input"]
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown

from rollpe import figures
from rollpe.evidence.families import compared, later_cells, to_markdown
from rollpe.operators import real_fourier_basis
from rollpe.records import read_arrays, read_records, record_path
from rollpe.sources import enter_root
from rollpe.statistics import summarize
from rollpe.topography import position_average_gain, ring_spectrum
from rollpe.training.observation import neighbor_correlation, ring_roughness

enter_root()
figures.use_theme()
names = [name.strip() for name in encodings.split(",")]
SCALES = {"digits": small, "CIFAR-100": large}


def load(
    recipe: str, names: Sequence[str] = names
) -> dict[str, tuple[list, list[dict[str, np.ndarray]]]]:
    """By encoding, the runs of a recipe and the arrays that lie beside them."""
    arms = {}
    for name in names:
        found = read_records(records, recipe=recipe, encoding=name)
        if found:
            arms[name] = found, [read_arrays(record_path(records, r)) for r in found]
    return arms


plain = {data: load(recipe) for data, recipe in SCALES.items()}
asked = {data: load(f"{recipe}@topography=ring") for data, recipe in SCALES.items()}
for data, arms in plain.items():
    missing = [name for name in names if name not in arms]
    print(
        f"{data}:", ", ".join(f"{name} {len(runs)}" for name, (runs, _) in arms.items())
    )
    print("  not measured:", ", ".join(missing) or "nothing that was asked for")

# %% [markdown]
# ## Where attention looks
#
# For each offset Δ between a query's patch and a key's, take the mean attention weight over all pairs with that
# offset, over the same test images, all heads and all seeds. Uniform attention gives every key the same. The maps
# show by what factor the trained weight exceeds it, on a scale of doublings.


# %% tags=["hide-input"]
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


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-offsets", "caption": "Digits: mean attention by signed offset in every layer of the trained models, as doublings of uniform attention. Rows are encodings, columns layers."}, "image": {"alt": "A grid of small square maps, one row for each encoding and one column for each layer, colored red where attention exceeds uniform attention and blue where it falls short; the maps of the models without positions and with learned ones are nearly even but for their edges."}}
offset_maps(plain["digits"])

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-offsets-photos", "caption": "CIFAR-100: the same maps for the models of photographs, with eight by eight patches."}, "image": {"alt": "A grid of small square maps, one row for each encoding and one column for each of five layers. Red around the middle in the first layers, blue in the middle of the later ones; models with relative encodings also show stripes and patches of red away from the middle."}}
offset_maps(plain["CIFAR-100"])

# %% [markdown]
# Two numbers for each map: what share of its attention a patch gives to itself, and what to its eight neighbors, against
# what uniform attention would give them.


# %% tags=["hide-input"]
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

# %% [markdown]
# On digits, models with a rotary or rolled encoding look away from the patch itself, in the mean of most layers to less than
# half its share. A likely reason is that a patch knows already what it holds. Its neighbors get about their share, more or
# less by seed. Without an encoding, or with learned positions, the means for the patch itself are nearer to its share, with
# single runs on both sides.
#
# On photographs the first layer looks near, with every encoding and even with none, which can only find a neighbor by
# its likeness. In the last layer the patch itself gets less than its share in the mean of every model, and in most models
# of digits.
#
# ## Do neighbors on the ring respond alike?
#
# If they did, queries and keys would be smooth along the ring. The roughness of {doc}`10-topography` is one for white
# noise, below one for smooth signals and above one for signals that alternate from channel to channel. But channels with
# a common offset are smooth in any order, so what counts as order is the roughness divided by that of the same channels
# in random order ({eq}`eq-random-order`): one means that the ring is no better than any other arrangement.
#
# Encodings without a ring are looked at in the same way, along their channels as they are stored; they tell what
# no order looks like. The twin of RollPE is looked at on RollPE's ring, in the basis where both are the same model. Of the
# multiplexed roll only the first of its two waves is looked at, here and below. Filled dots are
# plain runs; open ones were trained with a penalty on the differences between neighbors on the ring.


# %% tags=["hide-input"]
order = {}  # (data, encoding, penalty) → [(roughness, in random order), …], one a run
for data in SCALES:
    for penalty, arms in (("no", plain[data]), ("yes", asked[data])):
        for name, (_, arrays) in arms.items():
            order[data, name, penalty] = [ring_roughness(a) for a in arrays]

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-roughness", "caption": "Roughness of trained queries and keys along the ring, divided by that of the same channels in random order; mean over layers, heads and axes. One dot for each run; open dots were asked for order by a penalty. At the line the ring is as good as any other order."}, "image": {"alt": "Two panels with one row for each encoding and a dot for each run. Digits: plain runs lie around the line at one or to its right; open dots of RollPE and RoPE lie far to its left, those of RollPE's twin to its right. CIFAR-100: the rolled encodings lie far to the left of the line, RollPE's twin a little, the others on it."}}
rows = [name for name in names if any(name in arms for arms in plain.values())]
fig, axes = plt.subplots(1, 2, figsize=(7.2, 0.45 * len(rows) + 1.3), sharex=True)
for ax, data in zip(axes, SCALES, strict=True):
    for y, name in enumerate(rows):
        for penalty, fill, arms in (("no", "full", plain), ("yes", "none", asked)):
            values = [
                seen / chance for seen, chance in order.get((data, name, penalty), [])
            ]
            if not values:
                continue
            label = f"{data}, {name}, {'penalty' if penalty == 'yes' else 'plain'}"
            style = {"color": figures.color_of(name), "fillstyle": fill, "label": label}
            ax.plot(values, [y] * len(values), "o", **style)
            figures.drawn_from(fig, arms[data][name][0])
    figures.name_rows(ax, rows, reference=1)
    ax.tick_params(labelleft=ax is axes[0])
    ax.set_title(data)
axes[0].set_xlim(left=0)
fig.supxlabel("roughness ÷ roughness in random order", fontsize="medium")
plt.close(fig)
fig

# %% tags=["hide-input"]
tables = {}
for (data, name, penalty), runs in order.items():
    if data not in tables:
        tables[data] = [
            f"| {data} | roughness | in random order | ratio "
            "| 95 % interval | seeds | accuracy (%) |",
            "| :-- | --: | --: | --: | --: | --: | --: |",
        ]
    found = (plain if penalty == "no" else asked)[data][name][0]
    accuracy = summarize([100 * r.test.accuracy for r in found])
    ratio = summarize([seen / chance for seen, chance in runs])
    seen, chance = np.mean(runs, axis=0)
    one = ratio.sd is None  # a single run has no spread
    cells = [
        f"`{name}`" + (", penalty" if penalty == "yes" else ""),
        *(f"{x:.2f}" for x in (seen, chance, ratio.mean)),
        "–" if one else f"{ratio.low:.2f} to {ratio.high:.2f}",
        str(ratio.n),
        f"{accuracy.mean:.1f}" + ("" if one else f" ± {accuracy.sd:.1f}"),
    ]
    tables[data].append(f"| {' | '.join(cells)} |")
Markdown("\n\n".join("\n".join(lines) for lines in tables.values()))

# %% [markdown]
# On digits there is no map. Queries and keys of RollPE are about as rough as in random order; those of its twin and of the multiplexed
# roll are rougher in every run, so that neighbors differ *more* than any two channels. **On photographs there is**, in every run, and nobody asked for it: along the ring of RollPE,
# plain and multiplexed, neighbors respond alike, and queries and keys are far less rough than in random order, while those of
# all models without a ring lie about the line. The twin lies near it, too; we come back to it.
#
# ## Is it a map?
#
# Smooth is less than that. One profile that all tokens share is smooth as well, while in a topographic map each channel
# has a profile of its own, and near ones resemble each other ({doc}`10-topography` has the counterexample). So we correlate
# any two channels over images and patches, which removes level and gain, and average by their distance around
# the ring. In random order the distance would not matter.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-correlation", "caption": "Correlation of two channels of trained queries and keys, over test images and patches, by their distance around the ring; mean over layers, heads, axes and seeds, with the range of single runs."}, "image": {"alt": "Two panels with a line for each encoding over distances from one to eight channels. Digits: the lines of models without a ring stay near zero, those of the multiplexed roll and of RollPE's twin begin below it, and that of RollPE swings above zero at distance three and farther below it at four. CIFAR-100: RollPE and the multiplexed roll start high and fall with distance to about zero; RollPE's twin starts just above zero, and the others stay there."}}
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
# It is. On photographs two neighbors on RollPE's ring rise and fall together, and the likeness fades with their distance.
# This is what topographic networks are trained for with a loss of its own {cite}`margalit2024unifying`; here it comes with the
# encoding. On digits there is nothing of it, though the order of RollPE's channels is not random there: in every run those
# three apart are alike a little, and those four apart are opposed. Without a ring there is nothing on photographs either: the
# order of channels means nothing to those encodings, and training leaves it as it is.
#
# ## Power by mode
#
# Smoothness is one number of a spectrum. A wave that travels round the ring keeps the power of each mode and
# changes only phases, so the spectrum of queries and keys says which waves a trained model uses. White noise is the
# level line at one.


# %% tags=["hide-input"]
def spectra(arms):
    """One panel a layer, one line an encoding."""
    if not arms:
        return Markdown("Not measured.")
    layers = len(next(iter(arms.values()))[1][0]["query_spectrum"])
    size = (min(2.6 * layers, 8.4), 3.2)
    fig, axes = plt.subplots(1, layers, figsize=size, sharey=True, squeeze=False)
    ends = {}
    for layer, ax in enumerate(axes[0]):
        for name, (found, arrays) in arms.items():
            share = np.mean(
                [a["query_spectrum"][layer].mean((0, 1)) for a in arrays], axis=0
            )
            n = 2 * (len(share) - 1)
            white = np.full(len(share), 2 / n)
            white[[0, -1]] = 1 / n
            relative = share / white
            ax.plot(
                relative, ".-", color=figures.color_of(name), linewidth=1.2, label=name
            )
            ends[name] = np.array([len(relative) - 1, relative[-1]])
            figures.drawn_from(fig, found)
        ax.axhline(1, color=figures.MUTED, linewidth=0.8)
        ticks = range(0, n // 2 + 1, 2 if layers < 4 else 4)
        ax.set(title=f"layer {layer + 1}", xlabel="mode number", xticks=ticks)
    axes[0, 0].set_ylabel("power of queries, white noise = 1")
    figures.label_line_ends(axes[0, -1], ends)
    plt.close(fig)
    return fig


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-spectra", "caption": "Digits: power of trained queries by mode along the ring, relative to white noise, mean over heads, axes and seeds; one panel for each layer."}, "image": {"alt": "One panel for each layer with a line for each encoding over the mode numbers. Lines of encodings without a ring stay near one. Those of the rolled encodings begin far below one at mode zero and wander above it in the faster half; that of RollPE falls below one again at the last mode."}}
spectra(plain["digits"])

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-spectra-photos", "caption": "CIFAR-100: the same for the models of photographs."}, "image": {"alt": "One panel for each of five layers. Lines of encodings without a ring stay near one. Those of RollPE and the multiplexed roll begin at two to five times white noise in the first two modes and fall below it in the faster half, RollPE to a small fraction; the twin's is far more level."}}
spectra(plain["CIFAR-100"])

# %% [markdown]
# The two figures are opposites. On digits ({numref}`fig-inside-spectra`) the rolled encodings keep little power in mode
# zero, which is the same wherever a token stands, and use the faster waves. On photographs
# ({numref}`fig-inside-spectra-photos`) RollPE and the multiplexed roll put several times the power of noise into mode zero and
# the slowest wave, and RollPE hardly any into the faster half. The encodings without a ring know of no modes, and
# stay near one on both.
#
# ## Where the map comes from
#
# By {eq}`eq-smoothness` slow waves *are* smooth channels. So the question is who prefers slow waves: the photographs, the functions
# that rolls can express, or the training?
#
# **Not the functions.** The twin of RollPE expresses the same ones, in Fourier coordinates, where being neighbors means
# nothing. It reads the photographs as well, {num}`mini/roll-twin accuracy` against {num}`mini/roll accuracy`. But seen on RollPE's
# ring, in {numref}`fig-inside-roughness` and {numref}`fig-inside-correlation`, its channels are hardly ordered, and its spectra are
# far more level. What differs is the coordinates that Adam works in.
#
# **The first step.** The weights of queries and keys serve all patches, so their gradient is an average over positions, and
# an average over a long row prefers slow waves ({eq}`eq-position-average`). Adam's first step moves every weight by the
# same amount, up or down: it follows the signs of the gradient. The twin's weights belong to waves, so each wave is moved
# as much as any other, whatever the gradient says ({ref}`ex-inside-adam`). On the ring they belong to channels, and where
# the gradient prefers slow waves, its signs do so, too. The records keep both, of the untrained models.


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-first-step", "caption": "Before the first step: power by mode along the ring, relative to white noise, of the gradient for the weights that make queries and keys, and of its signs, which are Adam's first step, for RollPE and for its twin; mean over queries and keys, layers, heads, axes and seeds. Dotted: white noise after a moving average over the patches of a row."}, "image": {"alt": "Two panels with lines over the mode numbers. CIFAR-100: the gradient falls steeply from about seven at mode zero to one half at mode two and less beyond, much as the dotted line does; RollPE's step falls in the same way, less steeply; the twin's is level at one. Digits: the same with a weaker fall that ends later."}}
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
# On photographs the gradient of the untrained models is little else than that average; on digits it is a weak form of it,
# as their places have less in common. RollPE's step keeps the preference, and the twin's keeps nothing of it.
#
# **The grid more than the images.** If this is the reason, then the grid must matter: eight patches on a ring of sixteen
# let two waves pass, four patches let more of them pass. So digits on a grid of eight by eight should have a map, and
# photographs on four by four should lose theirs, or most of it. Both were run to see whether this holds. The images stay
# as large, so that with the grid the size of a patch changes, too.

# %% tags=["hide-input"]
EXPLORED = range(5)  # seed 9 chose learning rates; those from 10 on come last
FRESH = range(10, 18)


def runs_of(recipe: str, name: str, seeds: range = EXPLORED) -> list:
    """Records with their arrays."""
    found, arrays = load(recipe, [name]).get(name, ([], []))
    return [
        (r, a)
        for r, a in zip(found, arrays, strict=True)
        if "query_correlation" in a and r.seed in seeds
    ]


def map_cells(recipe: str, name: str) -> str:
    """How much of a map the channels of those runs are, averaged over runs."""
    runs = runs_of(recipe, name)
    if not runs:
        return "not measured | | | 0 | |"
    ratio = np.mean([np.divide(*ring_roughness(a)) for _, a in runs])
    near, any_two = np.mean([neighbor_correlation(a) for _, a in runs], axis=0)
    accuracy = summarize([100 * r.test.accuracy for r, _ in runs])
    spread = "" if accuracy.sd is None else f" ± {accuracy.sd:.1f}"
    numbers = f"{ratio:.2f} | {near:.2f} | {any_two:.2f}".replace("-0.00", "0.00")
    told = f"{len(runs)} | {accuracy.mean:.1f}{spread} |"
    return f"{numbers} | {told}".replace("-", "−")


def map_table(asked: str, rows: Sequence[tuple[str, str, str]]) -> Markdown:
    """RollPE beside its twin for each (what, what, recipe)."""
    lines = [
        f"| {asked} | encoding | roughness ÷ random order | neighbors correlate "
        "| any two | runs | accuracy (%) |",
        "| :-- | :-- | :-- |" + " --: |" * 5,
    ]
    for first, second, recipe in rows:
        for name in ("roll", "roll-twin"):
            cells = map_cells(recipe, name)
            lines.append(f"| {first} | {second} | `{name}` | {cells}")
    return Markdown("\n".join(lines))


GRIDS = (
    ("digits", "4×4", small),
    ("digits", "8×8", f"{small}@patch_size=1"),
    ("CIFAR\N{NON-BREAKING HYPHEN}100", "4×4", f"{large}-patch8"),
    ("CIFAR\N{NON-BREAKING HYPHEN}100", "8×8", large),
)
map_table("images | grid", GRIDS)

# %% [markdown]
# It does. On eight by eight patches the channels of digits have a map as well, weaker, but in every run, and the twin's
# hardly any. On four by four the map of the photographs is far weaker, but not gone, perhaps because their places have more
# in common than those of digits.
#
# **The optimizer.** Nor has this to stay a suspicion. If the coordinates that Adam works in keep the twin from having a
# map, then under an optimizer whose step no change of basis alters it must have as much of one as RollPE. Plain gradient
# descent is one ({doc}`07-rope`), but at none of four learning rates did it teach these models anything in so few steps.
# Muon is another {cite}`jordan2024muon`; its learning rate was chosen on held-out digits, by one run of RollPE at each of four
# rates. But it moves matrices only
# and leaves vectors to Adam, and queries and keys have a vector, their bias. So models without these biases, and without
# that of the values, were trained as well, under both optimizers: the prediction is about them.

# %% tags=["hide-input"]
fine, muon = f"{small}@patch_size=1", "learning_rate=0.02,optimizer=muon"
OPTIMIZERS = (
    ("AdamW", "yes", fine),
    ("AdamW", "no", f"{fine},qkv_bias=false"),
    ("Muon", "yes", f"{small}@{muon},patch_size=1"),
    ("Muon", "no", f"{small}@{muon},patch_size=1,qkv_bias=false"),
)
map_table("optimizer, 8×8 digits | biases", OPTIMIZERS)

# %% [markdown]
# Under Muon and without biases both have the map. That they have it alike is no surprise: the two are one model in two
# bases, and now their training is, too. That they have it *at all* is the answer. The map does not need Adam. It
# comes with the average over positions, in any basis, and Adam in the basis of waves takes it away. With biases, which Adam
# moves, the twin keeps part of it; under Adam it has hardly any, biases or not.
#
# **And the accuracy?** The two optimizers do not compare: Muon's rate was chosen for this grid, AdamW's for the coarser
# one. RollPE and its twin do.


# %% tags=["hide-input"]
def leads(rows: Sequence[tuple[str, str, str]], seeds: range) -> Markdown:
    """The twin's accuracy minus RollPE's in each row; the rows are one family."""
    arms, labels = {}, {}
    for optimizer, biases, recipe in rows:
        pair = (f"{recipe}/roll-twin", f"{recipe}/roll")
        labels[pair] = f"{optimizer}, {'with' if biases == 'yes' else 'no'} biases"
        for path in pair:
            name = path.rpartition("/")[2]
            arms[path] = [r for r, _ in runs_of(recipe, name, seeds)]
    found = compared(arms, labels, later_cells())
    text = to_markdown(
        found, lambda c: labels[c.variant, c.reference], "twin − RollPE, 8×8 digits"
    )
    return Markdown(text if found else "Not measured.")


leads(OPTIMIZERS, EXPLORED)

# %% [markdown]
# Under Muon and without biases the means must agree, because the training is one. Under AdamW the twin, which has no map, reads
# more in the mean. Nobody had asked this question before the runs, two of each five were added when three were known, and a
# few points are some dozen of 360 images. So the lead without biases, which is more than chance in all five, is
# *exploratory* (the rule stands in {doc}`13-ablations`). Therefore it was asked again, of that one row, with eight fresh
# seeds of each. Question, number and seeds were fixed in `plans/basis.yaml` before the first of them ran.

# %% tags=["hide-input"]
leads(OPTIMIZERS[1:2], FRESH)

# %% [markdown]
# The lead is smaller, and it stands, over seeds and over images drawn anew. So a basis can cost accuracy as well as make a map:
# the same functions, trained on the same images by Adam, read fewer digits on the ring than in waves. This is one small model on
# digits without biases. On the coarser grid and on photographs the sign is open ({doc}`13-ablations`,
# {doc}`12-results`).
#
# The map takes two things, then: a row of patches so long, beside the ring, that slow waves are what a weight is asked
# for, and an optimizer that grants them: one without a basis of its own, or Adam on the ring, but not Adam on its waves. The
# images have a smaller part. What lies between the first step and the last is not shown here: on digits with four patches a
# side, the first gradient prefers slow waves a little, and the trained models have less of them than noise
# ({numref}`fig-inside-spectra`).
#
# ```{admonition} In short
# :class: tip
# The map that the paper speaks of is there, though not everywhere. With eight patches a side the channels of RollPE become a
# topographic map on the ring without being asked, on photographs and, less, on digits. Those of its rotary twin, equal in
# functions, hardly do under Adam, and do under Muon, whose steps do not depend on the basis, in models without biases. The grid and
# the optimizer decide more than the images do. The average over positions in every weight's gradient, on a grid long beside
# the ring, would explain the map where an optimizer follows it. The map is no gain by itself: on those digits the twin, without it,
# reads more under Adam, in eight fresh runs of each. With four patches a side digits have no map. A penalty makes their rolls
# smooth; accuracy then seems to fall, {num}`quick/roll accuracy` → {num}`quick@topography=ring/roll accuracy`, and images half
# as large again are read better, in runs that explored it ({doc}`13-ablations`).
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: ex-inside-twin
# The penalty on the twin smooths its own channels, which are Fourier coordinates, not the ring. Does it lower the
# roughness on the ring? Explain the row of the table from {doc}`07-rope`.
# ```
#
# ```{solution} ex-inside-twin
# :class: dropdown
# To be smooth in Fourier coordinates is to have neighboring coefficients alike, and with them a level spectrum. By
# {eq}`eq-smoothness` the roughness is a mean weighted by the spectrum alone, and a level one has roughness one, like
# white noise. So the penalty pulls the twin to the line at one, and not below it; the row moves that way.
# ```

# %% [markdown]
# ```{exercise}
# :label: ex-inside-adam
# The first step of Adam is the sign of the gradient, times the learning rate. How is its power spread over the modes of
# the ring, for the twin and for RollPE, if the gradient is a slow wave with some noise?
# ```
#
# ```{solution} ex-inside-adam
# :class: dropdown
# For the twin each coordinate moves by the same amount, so every wave, which has two of them, gets the same power: the
# level line, whatever the gradient is. On the ring the signs of a slow wave are a slow square wave. It has some power in
# modes three, five and so on, but most of it where the gradient has it. The cell below takes gradients with a power
# of $1/k^2$ in mode $k$.
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
