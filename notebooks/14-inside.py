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
#     reads: [data/records]
# ---

# %% [markdown]
# # Inside trained models
#
# The paper hopes for more than accuracy: channels that are rolled should become neighbors that respond alike, as
# cells in the cortex do, and a wave of activity should run over them {cite}`rollpe`. Nothing in its experiments looks for it. Here we
# look. Every run of this book leaves behind, beside its accuracy, how its trained attention depends on the
# offset between two patches, and how the power of its queries and keys spreads over the modes of the ring.

# %% tags=["parameters"]
recipe: str = "quick"  # recipe of the committed runs {recipes}
encodings: str = "none,learned,axial-rope,roll-twin,roll,multiplexed-roll"  # rows
records: str = "data/records"  # folder of records

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from rollpe import figures
from rollpe.records import read_arrays, read_records, record_path
from rollpe.statistics import summarize

figures.use_theme()
RING = f"{recipe}@topography=ring"


def load(which: str, name: str) -> tuple[list, list[dict[str, np.ndarray]]]:
    """The runs of an encoding under a recipe, and the arrays that lie beside them."""
    found = read_records(records, recipe=which, encoding=name)
    found = [record for record in found if record.cell.slug == name]
    return found, [read_arrays(record_path(records, record)) for record in found]


arms = {name: load(recipe, name) for name in encodings.split(",")}
missing = [name for name, (found, _) in arms.items() if not found]
arms = {name: arm for name, arm in arms.items() if arm[0]}
print("runs:", ", ".join(f"{name} {len(found)}" for name, (found, _) in arms.items()))
print("not measured:", ", ".join(missing) or "nothing that was asked for")

# %% [markdown]
# ## Where attention looks
#
# For each offset Δ between a query's patch and a key's, take the mean attention weight over all pairs with that
# offset, over the same test images, all heads and all seeds. Uniform attention gives every key the same. The maps
# show by what factor the trained weight exceeds it, on a scale of doublings.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-offsets", "caption": "Mean attention by signed offset in every layer of the trained models, as doublings of uniform attention. Rows are encodings, columns layers."}, "image": {"alt": "A grid of small square maps, one row for each encoding and one column for each layer, colored red where attention exceeds uniform attention and blue where it falls short; the model without positions has nearly even maps."}}
maps = {}
for name, (_, arrays) in arms.items():
    side = int(len(arrays[0]["offsets"]) ** 0.5)
    keys = ((side + 1) // 2) ** 2  # patches of the image
    mean = np.mean(
        [a["attention"].mean(1) for a in arrays], axis=0
    )  # [layers, offsets]
    maps[name] = np.log2(mean * keys).reshape(len(mean), side, side)
limit = max(np.abs(m).max() for m in maps.values())
layers = len(next(iter(maps.values())))
fig, axes = plt.subplots(
    len(maps), layers, figsize=(1.9 * layers + 0.8, 1.75 * len(maps)), squeeze=False
)
for row, (name, layered) in zip(axes, maps.items(), strict=True):
    for layer, (ax, values) in enumerate(zip(row, layered, strict=True)):
        figures.offset_map(values, ax, limit=limit, title=f"{name}\nlayer {layer + 1}")
    figures.drawn_from(fig, arms[name][0])
fig.colorbar(
    axes[0, 0].images[0], ax=axes, label="doublings of uniform attention", shrink=0.5
)
plt.close(fig)
fig

# %% [markdown]
# A number for each map: what share of its attention a patch gives to itself and its eight neighbors, against what
# uniform attention would give them.

# %% tags=["hide-input"]
lines = [
    "| encoding | " + " | ".join(f"layer {i + 1}" for i in range(layers)) + " | seeds |"
]
lines.append("| :-- |" + " --: |" * (layers + 1))
for name, (_, arrays) in arms.items():
    offsets = arrays[0]["offsets"]
    near = np.abs(offsets).max(-1) <= 1
    extent = int(np.abs(offsets).max()) + 1  # patches a side
    pairs = np.prod(extent - np.abs(offsets), axis=-1)  # how many pairs have an offset
    share = [
        (a["attention"].mean(1) * pairs)[:, near].sum(-1) / extent**2 for a in arrays
    ]  # [seeds, layers]
    uniform = pairs[near].sum() / extent**4
    cells = []
    for layer in range(layers):
        s = summarize([seed[layer] / uniform for seed in share])
        cells.append(
            f"{s.mean:.2f} ± {s.sd:.2f}" if s.sd is not None else f"{s.mean:.2f}"
        )
    lines.append(f"| `{name}` | " + " | ".join(cells) + f" | {len(share)} |")
Markdown(
    "Attention to the nine nearest patches, in units of uniform attention "
    "(mean ± SD over seeds):\n\n" + "\n".join(lines)
)

# %% [markdown]
# Without an encoding, and with learned positions, attention hardly cares about distance: all factors lie a little
# above one. Models with a rotary or rolled encoding spread more from seed to seed, and most of their factors lie
# *below* one: a patch looks away from what is near, and above all, as the dark fields at offset zero show, from
# itself. A likely reason is that it knows already what it holds.
#
# ## Do neighbors on the ring respond alike?
#
# If they did, queries and keys would be smooth along the ring. The roughness of {doc}`10-topography` is one for white
# noise, below one for smooth signals and above one for signals that alternate from channel to channel. Encodings
# without a ring are looked at in the same way, along their channels as they are stored. The twin of
# RollPE is looked at on RollPE's ring, in the basis where both are the same model. Filled dots are plain runs; open
# ones were trained with a penalty on the differences between neighbors on the ring.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-roughness", "caption": "Roughness of trained queries and keys along the ring, mean over layers, heads and axes. One dot for each run; open dots were asked for order by a penalty. The line at one is white noise."}, "image": {"alt": "One row for each encoding with a dot for each run near a vertical line at one; where runs with a penalty exist, open dots stand to the left."}}
asked = {name: load(RING, name) for name in arms}
fig, ax = plt.subplots(figsize=(6.4, 0.45 * len(arms) + 1.1))
roughness = {}
for y, name in enumerate(arms):
    for fill, label, (found, arrays) in (
        ("full", "plain", arms[name]),
        ("none", "penalty", asked[name]),
    ):
        values = [
            (a["query_roughness"].mean() + a["key_roughness"].mean()) / 2
            for a in arrays
        ]
        if not values:
            continue
        roughness[name, label] = summarize(values)
        color = figures.color_of(name)
        ax.plot(
            values,
            [y] * len(values),
            "o",
            color=color,
            fillstyle=fill,
            label=f"{name}, {label}",
        )
        figures.drawn_from(fig, found)
figures.name_rows(ax, list(arms), reference=1)
ax.set_xlabel("roughness along the ring (1 = white noise)")
plt.close(fig)
fig

# %% tags=["hide-input"]
lines = [
    "| encoding | penalty | roughness | 95 % interval | seeds | test accuracy (%) |"
]
lines.append("| :-- | :-- | --: | --: | --: | --: |")
for (name, label), s in roughness.items():
    found = (arms if label == "plain" else asked)[name][0]
    accuracy = summarize([100 * r.test.accuracy for r in found])
    interval = f"{s.low:.3f} to {s.high:.3f}" if s.low is not None else "one run"
    lines.append(
        f"| `{name}` | {'no' if label == 'plain' else 'yes'} "
        f"| {s.mean:.3f} | {interval} | {s.n} "
        f"| {accuracy.mean:.1f} ± {accuracy.sd or 0:.1f} |"
    )
Markdown("\n".join(lines))

# %% [markdown]
# ## Power by mode
#
# Smoothness is one number of a spectrum. A wave that travels round the ring keeps the power of each mode and
# changes only phases, so the spectrum of queries and keys says which waves a trained model uses. White noise is the
# level line at one.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-inside-spectra", "caption": "Power of trained queries by mode along the ring, relative to white noise, mean over heads, axes and seeds; one panel for each layer."}, "image": {"alt": "One panel for each layer with a line for each encoding over the mode numbers. Lines of encodings without a ring stay near one. Those of the rolled encodings begin far below one at mode zero and wander above it in the faster half; that of RollPE falls below one again at the last mode."}}
fig, axes = plt.subplots(
    1, layers, figsize=(2.6 * layers, 3.2), sharey=True, squeeze=False
)
ends = {}
for layer, ax in enumerate(axes[0]):
    for name, (found, arrays) in arms.items():
        share = np.mean(
            [a["query_spectrum"][layer].mean((0, 1)) for a in arrays], axis=0
        )
        n = 2 * (len(share) - 1)  # rings here are even
        white = np.full(len(share), 2 / n)
        white[[0, -1]] = 1 / n
        relative = share / white
        ax.plot(relative, ".-", color=figures.color_of(name), linewidth=1.2, label=name)
        ends[name] = np.array([len(relative) - 1, relative[-1]])
        figures.drawn_from(fig, found)
    ax.axhline(1, color=figures.MUTED, linewidth=0.8)
    ax.set(
        title=f"layer {layer + 1}", xlabel="mode number", xticks=range(0, n // 2 + 1, 2)
    )
axes[0, 0].set_ylabel("power of queries, white noise = 1")
figures.label_line_ends(axes[0, -1], ends)
plt.close(fig)
fig

# %% [markdown]
# In {numref}`fig-inside-spectra` the rolled encodings keep little power in mode zero, which is the same wherever a
# token stands. RollPE alone keeps little in the last mode as well, which tells only even places from odd ones. The
# other encodings know of no ring, and their lines stay near one.
#
# ```{admonition} In short
# :class: tip
# On digits no map appears by itself. Queries and keys of RollPE, of its twin and of the multiplexed roll are
# no smoother than noise along the ring; if anything, neighbors differ more than strangers do. A penalty makes them smooth, and the
# accuracy falls from {num}`quick/roll accuracy` to {num}`quick@topography=ring/roll accuracy`. That agrees with the price that
# {doc}`10-topography` derives: what changes slowly with position cannot tell near positions apart. Attention with a rotary
# or rolled encoding does not look at near patches first, and at the patch itself less than elsewhere.
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
