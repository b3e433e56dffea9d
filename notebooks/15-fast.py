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
#     reads: [data/benchmarks]
# ---

# %% [markdown]
# # How it got fast
#
# What does an encoding cost? And what makes training fast? Seeds decide what a comparison can say, and speed decides how
# many seeds there are, so the trainer of this book was measured like everything else in it: beside its rivals, in the
# same run and in turns, so that whatever else the machine did fell on all of them alike.

# %% tags=["parameters"]
folder: str = "data/benchmarks"  # folder of benchmarks
kinds: str = "cuda,cpu"  # devices, in this order {cuda|cpu,...}

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
from IPython.display import Markdown, display

from rollpe import figures
from rollpe.bench import read_benchmarks
from rollpe.sources import enter_root

enter_root()
figures.use_theme()
newest = {
    b.environment.device.partition(":")[0]: b for b in read_benchmarks(folder)
}  # oldest come first
benchmarks = {kind: newest[kind] for kind in kinds.split(",") if kind in newest}
lines = [
    "| device | model | batch | precision | measured | command |",
    "| :-- | :-- | --: | :-- | :-- | :-- |",
]
for kind in kinds.split(","):
    if kind not in benchmarks:
        lines.append(
            f"| {kind} | | | | not measured "
            f"| `rollpe bench --device {kind} --variants` |"
        )
        continue
    b = benchmarks[kind]
    lines.append(
        f"| {b.environment.device_name} "
        f"| ViT {b.size}, {b.image_size} px, patches of {b.patch_size} | {b.batch} "
        f"| {b.precision} | {b.provenance.started[:10]} | `{b.provenance.command}` |"
    )
Markdown("\n".join(lines))

# %% [markdown]
# ## What an encoding costs, in short
#
# How much longer does a training step take with positions than without? No encoding can really be faster than
# none, which does strictly less: where one came out so, that was chance. So was what the same step seemed to gain or lose
# beside itself, when the precision in use was timed as if it were an idea ([below](#what-was-tried)). The larger of the two is
# the least that chance alone did to a row. What lies no farther from zero is marked; what lies a little farther may be
# chance as well.


# %% tags=["hide-input"]
def chance_of(b) -> float:
    """The least factor by which chance moved a step: the largest gain of what has none.

    That is an encoding, beside none; and the precision that is in use, beside itself.
    """
    same = next((v.gain for v in b.variants if v.name == b.precision and v.gain), 1.0)
    return max(same, 1 / same, *(1 / t.ratio for t in b.encodings))


asked = {
    "learned": "a trained vector for each place",
    "axial-rope": "RoPE",
    "roll": "RollPE: channels fetched from elsewhere",
    "roll-twin": "the functions of RollPE, as rotations of pairs",
    "multiplexed-roll": "queries and keys projected more than once",
    "lie": "learned rotations of whole blocks",
}
names = [b.environment.device_name for b in benchmarks.values()]
lines = [
    "| encoding | what it is | "
    + " | ".join(f"{name}: longer by" for name in names)
    + " |",
    "| :-- | :-- |" + " --: |" * len(names),
]
for name, what in asked.items():
    cells = []
    for b in benchmarks.values():
        ratio = next((t.ratio for t in b.encodings if t.name == name), None)
        if ratio is None:
            cells.append("not measured")
            continue
        within = 1 / chance_of(b) <= ratio <= chance_of(b)
        percent = f"{100 * (ratio - 1):+.0f}".replace("-", "−").replace("+0", "0")
        cells.append(f"{percent} %{', within chance' if within else ''}")
    lines.append(f"| `{name}` | {what} | {' | '.join(cells)} |")
lines += [
    f"\n{b.environment.device_name}, batches of {b.batch}, {b.rounds} rounds: "
    f"chance alone moved a row by at least {100 * (chance_of(b) - 1):.0f} %."
    for b in benchmarks.values()
]
Markdown("\n".join(lines))

# %% [markdown]
# RollPE's rotary twin has the functions of RollPE and costs what RoPE costs, since it does the same work. But equal
# functions need not train alike, {doc}`07-rope` shows.
#
# ## The bill
#
# A training step is almost all matrix products, so the honest yardstick is the fastest matrix product that the same
# machine shows. The share of it that a whole step reaches, forward, backward and update, leaves no room for choosing a
# flattering unit. Floating-point operations are counted by torch, not estimated.

# %% tags=["hide-input"]
lines = [
    "| device | largest product (GFLOP/s) | GFLOP an image | images/s "
    "| with augmentation | share of the largest product |",
    "| :-- | --: | --: | --: | --: | --: |",
]
for b in benchmarks.values():
    none = next(t for t in b.encodings if t.name == "none")
    augmented = none.images_per_second_augmented
    lines.append(
        f"| {b.environment.device_name} "
        f"| {b.peak_gflops:,.0f} | {none.gflop / b.batch:.2f} "
        f"| {none.images_per_second:,.0f} "
        f"| {f'{augmented:,.0f}' if augmented else 'not measured'} "
        f"| {100 * none.share_of_peak:.0f} % |"
    )
Markdown("\n".join(lines))

# %% [markdown]
# ## What every encoding costs
#
# Every encoding acts inside the same step of the same model. The dot is the median over rounds of its time divided by
# that of a model without positions in the same round. The line beside it is the same quotient of counted operations,
# what the time would be if every operation took equally long. Multiplexed encodings project queries and keys more than
# once; most of their cost is those operations.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-cost", "caption": "Time of a training step with each encoding, divided by the time without positions: the median over rounds of the quotient within a round (dot), and the quotient of operations (line). One panel for each device that was measured."}, "image": {"alt": "One row for each encoding with a dot at the quotient of step times and a short line at the quotient of operations, most of them close to one; shaw-kv, lie and multiplexed-roll lie farthest to the right."}}
order = list(
    dict.fromkeys(
        t.name
        for b in benchmarks.values()
        for t in sorted(b.encodings, key=lambda t: t.ratio)
    )
)
fig, axes = plt.subplots(
    1, len(benchmarks), figsize=(6.4, 4.6), sharey=True, squeeze=False
)
for ax, b in zip(axes[0], benchmarks.values(), strict=True):
    alone = next(t.gflop for t in b.encodings if t.name == "none")
    ax.axvline(1, color=figures.MUTED, linewidth=0.8)
    for t in b.encodings:
        y = order.index(t.name)
        ax.plot(
            t.gflop / alone,
            y,
            "|",
            color=figures.MUTED,
            markersize=9,
            label=f"{t.name}, operations",
        )
        ax.plot(t.ratio, y, "o", color=figures.color_of(t.name), label=t.name)
    ax.set(
        xscale="log",
        xlabel="step time ÷ without positions",
        title=b.environment.device_name,
    )
    ax.set_yticks(range(len(order)), order)
    low, high = (edge(t.ratio for t in b.encodings) for edge in (min, max))
    ticks = [
        x for x in (1, 1.1, 1.25, 1.5, 2, 3, 5, 8) if low * 0.95 <= x <= high * 1.05
    ]
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
plt.close(fig)
fig

# %% [markdown]
# Where timm has an encoding, too, its own module was timed in the same rounds. Above one, ours is the faster. The row of
# `none`, where no encoding acts, shows what of that is owed to the last block, which computes the class token alone, and on
# a processor to attention in plain products. The last two columns put timm's model into the step of most training
# scripts, where nothing is compiled.

# %% tags=["hide-input"]
lines = [
    "| device | encoding | ours (ms) | timm's, same step (ms) | timm ÷ ours "
    "| timm's, plain step (ms) | plain ÷ ours |",
    "| :-- | :-- | --: | --: | --: | --: | --: |",
]
for b in benchmarks.values():
    ours = {t.name: t for t in b.encodings}
    plain = {t.name: t for t in b.plain}
    for t in b.timm:
        last = (
            (f"{plain[t.name].median:.1f}", f"{plain[t.name].ratio:.2f}")
            if t.name in plain
            else ("", "")
        )
        lines.append(
            f"| {b.environment.device_name} | `{t.name}` "
            f"| {ours[t.name].median:.1f} | {t.median:.1f} "
            f"| {t.ratio:.3f} | {last[0]} | {last[1]} |"
        )
lines += [
    f"\n{b.environment.device_name}: no time was left for {', '.join(b.missing)}."
    for b in benchmarks.values()
    if b.missing
]
lines += [
    f"\n{b.environment.device_name}: `{name}` failed, {reason}"
    for b in benchmarks.values()
    for name, reason in b.failed.items()
]
Markdown("\n".join(lines))

# %% [markdown]
# ## What was tried
#
# Each row is one idea, the gain that was expected before it was timed, and the gain that was found: how many times as fast
# as the row it builds on, image by image. Below one it made things slower. Surprises come first. Nothing stands under
# "expected" where the first timing came before anybody had written a guess, and a wide range there says that nobody
# knew. On a processor most of what speeds up an accelerator does little or harm, for one because there are no launches to
# save; it is shown all the same. A gain that misses the guess by no more than chance alone can do is marked as such; the
# measure is that of the first table.

# %% tags=["hide-input"]
ranks = ["more", "less", "yes, within chance", "yes", "no guess", ""]


def verdict(v, chance: float) -> str:
    """How the gain of a variant compares with the guess; chance is a factor."""
    if v.gain is None:
        return ""
    if not v.expected:
        return "no guess"
    low, high = v.expected
    if v.gain * chance < low:
        return "less"
    if v.gain / chance > high:
        return "more"
    return "yes" if low <= v.gain <= high else "yes, within chance"


for b in benchmarks.values():
    if not b.variants:
        display(Markdown(f"{b.environment.device_name}: not measured"))
        continue
    chance = chance_of(b)
    lines = [
        f"**{b.environment.device_name}**, batch {b.batch}, {b.precision}. "
        f"Chance alone moved a row by at least {chance - 1:.2f}.",
        "",
        "| idea | of | instead of | expected | measured | as expected? |",
        "| :-- | :-- | :-- | :-- | --: | :-- |",
    ]
    tried = [v for v in b.variants if v.name != v.against]
    for v in sorted(tried, key=lambda v: ranks.index(verdict(v, chance))):
        expected = "{:g} to {:g}".format(*v.expected) if v.expected else ""
        lines.append(
            f"| {v.name}: {v.description} | {v.of} | {v.against} | {expected} "
            f"| {v.missing or f'{v.gain:.2f}'} | {verdict(v, chance)} |"
        )
    display(Markdown("\n".join(lines)))

# %% [markdown]
# ## More tokens
#
# Attention grows with the square of the number of tokens, everything else in proportion. At 64 patches attention is a
# tenth of the operations in the smallest model and less in larger ones; the table shows where that ends. Rotations and rolls cost the same per token at any length.
# Shaw's vectors on a grid cost a token as many channels as the grid has rows and columns, {eq}`eq-shaw-grid`.

# %% tags=["hide-input"]
for b in benchmarks.values():
    counts = sorted({s.patches for s in b.scaling})
    if not counts:
        display(Markdown(f"{b.environment.device_name}: not measured"))
        continue
    lines = ["| µs an image | " + " | ".join(f"{c} patches" for c in counts) + " |"]
    lines.append("| :-- |" + " --: |" * len(counts))
    for name in dict.fromkeys(s.encoding for s in b.scaling):
        row = {
            s.patches: f"{1000 * s.median / s.batch:,.0f}"
            for s in b.scaling
            if s.encoding == name
        }
        cells = " | ".join(row.get(c, "not measured") for c in counts)
        lines.append(f"| `{name}` | {cells} |")
    display(Markdown(f"**{b.environment.device_name}**\n\n" + "\n".join(lines)))

# %% [markdown]
# ## What changed, and why
#
# Some changes are not in that table, because they are in every row of it.
#
# **Tables are made once for all layers.** A cosine that two readers share looks cheap to a compiler, so it computes it
# again for every image and head. With all layers reading one table it is stored. Layers with frequencies of their own
# stack them first.
#
# **A rotation takes its pairs apart rather than slicing every other channel.** The numbers are the same; the compiler
# sees one loop over pairs, where two strided slices and the scattered gradients of slices were several.
#
# **A roll fetches each channel from where it was, in both directions.** Torch would compute the gradient of that fetch as
# a scatter; the inverse of a roll is known, so its gradient is a fetch, too. Three other ways stand in the table: a
# product with matrices of ones and zeros, a rotation in the Fourier basis of the ring, and the same with that basis inside
# the trained projections, which is the rotary twin.
#
# **What the head does not read is not computed.** With a class token, the last block gives that token its projection and
# its MLP, and no other. The logits and all gradients stay what they were.
#
# **Shaw's vectors became channels.** On a grid their bias is a product of a few more channels of queries and keys,
# {eq}`eq-shaw-grid`; before, every step looked up two numbers for every pair of tokens, and scattered their gradients.
#
# **Few keys need no fused attention on a processor.** The fused kernel saves the memory that the weights would take and
# computes them twice for it. With 65 tokens there is nothing to save, and a compiler joins plain products to what
# stands before and after them. From 256 tokens on the fused kernel is the faster, so there it stays.
#
# **Learned rotations ask the host nothing.** Torch's matrix exponential sorts its matrices by size on the host and takes,
# for the gradient, the exponential of matrices twice as wide. Here the matrices of a layer are halved equally often,
# on the device, and go through the same products. What goes through them is $E = e^X - 1$: squaring turns it into
# $e^{2X} - 1 = 2E + E^2$, in which small entries keep the digits that the one would swallow, so that no matrix needs a
# number of halvings of its own. One exponential is left for each place and head of every layer, however many images share it.
#
# **Augmentation is drawn for many batches at once.** Images that drew the same operation form one group, and in a large
# group an image costs a fraction of what it costs in a group of three.
#
# ```{admonition} In short
# :class: tip
# Timings here are of whole steps, beside their rivals, in turns, with what chance alone does printed beside them, and with
# what was expected where anybody had written it down first. On the devices of the first table, rotary encodings and a plain roll
# cost little on top of a model without positions. What costs is more channels in
# attention (`shaw`, `shaw-kv`), projecting queries and keys twice (`multiplexed-roll`) or a matrix exponential in every
# layer (`lie`).
# ```
