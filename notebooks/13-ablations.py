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
# # What carries the result?
#
# A table that ranks encodings does not say why one of them works. RollPE differs from axial RoPE in several ways
# at once: in its basis, in its frequencies, in how many channels turn, and, when it is multiplexed, in its number of
# weights. Each row below changes one of them and leaves the rest alone: same recipe, same data, same seeds where
# there are enough. Where more changes than one thing, the row names it. The runs come from committed records; what
# has none yet is named under the table.

# %% tags=["parameters"]
small: str = "quick"  # recipe of the runs on digits {quick|smoke}
early: str = "mini"  # recipe of the first runs on CIFAR-100 {mini|short|strong|paper}
large: str = "short"  # recipe of the long runs on CIFAR-100 {mini|short|strong|paper}
records: str = "data/records"  # folder of records

# %% tags=["hide-input"]
from collections import defaultdict
from urllib.parse import unquote

import matplotlib.pyplot as plt
from IPython.display import Markdown

from rollpe import figures
from rollpe.evidence.families import ABLATIONS, family, later_cells, signed, to_markdown
from rollpe.evidence.table import LARGE, recipe_with_runs
from rollpe.records import read_records
from rollpe.sources import enter_root
from rollpe.statistics import holm, welch

enter_root()
figures.use_theme()
found = read_records(records)
large = recipe_with_runs(found, (large, *LARGE[1:]))
runs = defaultdict(list)  # by "recipe/encoding@option=value", spelled as people do
for record in found:
    runs[unquote(f"{record.recipe}/{record.cell.slug}")].append(record)

# %% [markdown]
# ## One change at a time
#
# The most telling row is the first. RollPE and its rotary twin express the same functions: each is the other in another
# basis ({doc}`07-rope`). Adam treats every coordinate by itself, so the same model written in another basis takes
# another path. If the two end up at different accuracies, then part of what an encoding "does" is done by the optimizer.
#
# The other rows ask, in turn: does it matter that a shift is a permutation? Does the ring need room for all signed
# offsets? How fast should its waves be? Is it the waves of the multiplexed roll, or the weights that come with them,
# which a roll with two equal speeds has as well? Do the frequencies have to be geometric, as RoPE's are? Does asking
# for order among the channels change anything? The fewest channels that tell all offsets apart are 7 for the
# $4 \times 4$ patches of the digits, and 15 for the $8 \times 8$ of CIFAR-100; without a width of their own, the models for
# both have rings of 16.
#
# When does a difference stand? All that is asked of one recipe is one family: every pair of six encodings
# ({doc}`12-results`) and the rows below. Holm's correction is made within it {cite}`holm1979simple`, so a pair has the same p on every
# page. A difference *stands* if all runs show it after the correction, if the runs that were planned before any was known
# show it alone, and if it remains when images and seeds are drawn anew. Where it takes runs that were added later, it is
# *exploratory*. Anything else is *open*.

# %%
later, measured = later_cells(), {}
for recipe in (small, early, large):
    by_pair = {(c.variant, c.reference): c for c in family(found, recipe, later)}
    measured[recipe] = [by_pair[pair] for pair in ABLATIONS if pair in by_pair]


def change(compared) -> str:
    return ABLATIONS[compared.variant, compared.reference]


# %% tags=["hide-input"]
def asked(compared) -> str:
    return f"{change(compared)}<br>`{compared.variant}` − `{compared.reference}`"


parts = []
for data, recipe in (("digits", small), ("CIFAR-100", early), ("CIFAR-100", large)):
    if measured[recipe]:
        title = f"{data}, `{recipe}`: what changes, variant − reference"
        parts.append(to_markdown(measured[recipe], asked, title))
    else:
        parts.append(f"Under `{recipe}`, on {data}, none of them has been measured.")
told = {(c.variant, c.reference) for rows in measured.values() for c in rows}
waiting = [
    f"{what} (`{variant}` − `{reference}`)"
    for (variant, reference), what in ABLATIONS.items()
    if (variant, reference) not in told
]
parts.append(f"Measured nowhere yet: {'; '.join(waiting) or 'nothing of the list'}.")
Markdown("\n\n".join(parts))

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-ablations", "caption": "Differences in test accuracy that were measured on digits, variant minus reference, with 95 % intervals from Welch's test. A line that crosses zero leaves the sign open. Filled dots stand, by the rule above the tables."}, "image": {"alt": "One row for each comparison with a dot at the difference in points and a line for its interval, beside a vertical line at zero."}}
shown = measured[small]
fig, ax = plt.subplots(figsize=(6.4, 0.42 * len(shown) + 1.0))
for y, c in enumerate(shown):
    color, test = figures.color_of(c.variant.split("/")[-1]), c.over_seeds
    line = {"color": color, "linewidth": 2.2, "alpha": 0.6}
    ax.plot([test.low, test.high], [y, y], label=f"{change(c)}, interval", **line)
    fill = "full" if c.verdict == "stands" else "none"
    style = {"color": color, "markersize": 5, "fillstyle": fill}
    ax.plot(test.difference, y, "o", label=change(c), **style)
    figures.drawn_from(fig, [r for arm in c.runs for r in arm])
figures.name_rows(ax, [change(c) for c in shown], reference=0)
ax.set_xlabel("difference in test accuracy on digits (points)")
plt.close(fig)
fig

# %% [markdown]
# On digits one difference stands: RoPE's frequencies. One is exploratory: order asked of a roll. The others are hints at
# most, from a few seeds on a grid of four by four patches:
#
# - **The basis.** The twin reaches {num}`quick/roll-twin accuracy`, RollPE {num}`quick/roll accuracy`. If Adam prefers one
#   basis, the gain in accuracy is too small for these runs to show.
# - **The frequencies.** With RoPE's geometric frequencies in place of the ring's, rotations reach
#   {num}`quick/axial-rope accuracy`. Part of this may be the small grid: most of RoPE's waves are many times longer
#   than four patches and hardly turn from one end to the other, while RollPE's longest is as long as its ring.
# - **The ring.** Seven channels, the fewest that tell all offsets apart, read {num}`quick/roll@width=7 accuracy`, and eight
#   {num}`quick/roll@width=8 accuracy`. No loss is seen; one of two points or more is not excluded.
# - **The second wave.** Multiplexing reaches {num}`quick/multiplexed-roll accuracy` with more weights than a roll, no more
#   than RollPE as far as these runs can tell. Its control, with as many weights and both waves at one speed, ends at
#   {num}`quick/multiplexed-roll@speeds=%5B1%2C1%5D accuracy`. That gap does not survive the correction, and the control also takes
#   larger steps in training ({ref}`exercise-multiplexed-speed`), so neither speeds nor weights are shown to help.
# - **Speed and order.** Asking a roll for smooth queries and keys seems to cost accuracy, {num}`quick/roll accuracy` →
#   {num}`quick@topography=ring/roll accuracy`; the three planned runs alone do not show it. Waves half as fast may do so, too, {num}`quick/continuous-roll accuracy` →
#   {num}`quick/continuous-roll@wavelength=2.0 accuracy`. On digits half as large again both turn to gains.
#
# On photographs, after ten passes, the rows that have been measured are open, and most wait. The multiplexed roll's mean is
# behind RollPE's there; its lag behind RoPE and the twin does stand ({doc}`12-results`).
#
# ### Slow and smooth waves travel
#
# Digits half as large again are read by plain rolls at {num}`quick/roll accuracy@12` and by rolls trained with the penalty at
# {num}`quick@topography=ring/roll accuracy@12`; RoPE reads {num}`quick/axial-rope accuracy@12`. For shifts by the generator it is
# {num}`quick/continuous-roll accuracy@12`, and {num}`quick/continuous-roll@wavelength=2.0 accuracy@12` with waves half as fast.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-ablations-sizes", "caption": "Digits of other sizes than the trained 8 pixels, without (filled) and with (open) one change to the model. Dots are runs; the line marks the mean of the models without positions."}, "image": {"alt": "Three panels for 6, 12 and 16 pixels with one row for each change. With the penalty, open dots of RollPE lie far to the right of its filled dots, most of all at 12 pixels; so do those of the continuous roll with slower waves at 12 pixels. In the other rows the two overlap or the open dots lie to the left."}}
TRAVELERS = {
    "roll: penalty": ("@topography=ring/roll", "roll"),
    "roll-twin: penalty": ("@topography=ring/roll-twin", "roll-twin"),
    "axial-rope: penalty": ("@topography=ring/axial-rope", "axial-rope"),
    "continuous-roll: half as fast": (
        "continuous-roll@wavelength=2.0",
        "continuous-roll",
    ),
    "axial-rope: slower waves": ("axial-rope@base=10000.0", "axial-rope"),
}
sizes = ["6", "12", "16"]


def at(size: str, which: str) -> tuple[list, list[float]]:
    """Runs on digits that also saw that size, and their accuracies in percent."""
    path = small + which if which[0] == "@" else f"{small}/{which}"
    arm = [r for r in runs[path] if size in r.resolutions]
    return arm, [100 * r.resolutions[size] for r in arm]


fig, axes = plt.subplots(1, len(sizes), figsize=(8.4, 2.6), sharey=True)
for ax, size in zip(axes, sizes, strict=True):
    for y, (name, (changed, plain)) in enumerate(TRAVELERS.items()):
        for which, fill, up in ((plain, "full", -0.17), (changed, "none", 0.17)):
            arm, values = at(size, which)
            style = {"color": figures.color_of(plain), "fillstyle": fill}
            label = f"{name if up > 0 else plain}, {size} px"
            ax.plot(
                values, [y + up] * len(arm), "o", markersize=5, label=label, **style
            )
            figures.drawn_from(fig, arm)
    _, blind = at(size, "none")
    ax.set(title=f"{size} pixels", xlim=(0, 75))
    middle = sum(blind) / len(blind) if blind else None
    figures.name_rows(ax, list(TRAVELERS), reference=middle)
    ax.tick_params(labelleft=ax is axes[0])
fig.supxlabel("test accuracy (%)", fontsize="medium")
plt.close(fig)
fig


# %% tags=["hide-input"]
def interval(test) -> str:
    low, high = signed(test.low, 1), signed(test.high, 1)
    return f"{signed(test.difference, 1)} [{low}, {high}]"


tests = {}
for name, (changed, plain) in TRAVELERS.items():
    for size in sizes:
        after, before = at(size, changed)[1], at(size, plain)[1]
        if min(len(after), len(before)) > 1:
            tests[name, size] = welch(after, before)
stands = dict(zip(tests, holm([test.p for test in tests.values()]) < 0.05, strict=True))
lines = [
    f"| change | {' | '.join(f'{size} px' for size in sizes)} |",
    "| :-- |" + " --: |" * 3,
]
for name in TRAVELERS:
    cells = []
    for size in sizes:
        test = tests.get((name, size))
        if test is None:
            cells.append("not measured")
            continue
        text = interval(test)
        cells.append(f"**{text}**" if stands[name, size] else text)
    lines.append(f"| {name} | {' | '.join(cells)} |")
changed, reference = TRAVELERS["roll: penalty"]
added = [
    100 * r.resolutions["12"] for r in at("12", changed)[0] if r.cell.path in later
]
before = at("12", reference)[1]
if min(len(added), len(before)) > 1:  # the runs before them suggested what is tested
    text = interval(welch(added, before))
    lines.append(f"\nRolls with the penalty at 12 px, the later runs alone: {text}.")
Markdown(
    "Change in test accuracy, in points, with 95 % intervals over seeds; bold where "
    "p is below 0.05 after Holm's correction for all of them:\n\n" + "\n".join(lines)
)

# %% [markdown]
# This is exploratory. Three runs with the penalty suggested it, and two more runs and the slower waves were made to test it. The
# table counts all of them, so the line below it is the fairer test of the penalty. The intervals are over seeds alone, for
# the records keep no image by image results at other sizes. Both gains are clear at 12 pixels only; at 6 and at 16 the
# means rise as well. Both changes do
# one thing in two ways. The penalty makes queries and keys smooth along the ring; a longer wavelength
# turns them less for each patch. Either way the score changes less from one offset to the next, and goes on sensibly
# to offsets that no training pair had. With the penalty on Fourier coordinates (the twin) or on RoPE's channels, whose
# order means nothing, all means fall, so it is not that any penalty makes a model sturdier. Nor is a gain seen on
# larger images where all of RoPE's waves but the fastest are slowed down.
#
# The photographs do not decide it. There rolls are smooth unasked ({doc}`14-inside`), but half as large again they are
# read by RollPE, by its twin, which is not smooth, and by RoPE no better than without positions, as far as so few runs
# tell ({doc}`12-results`). The trade is an old one: what tells near positions apart
# changes quickly, and what changes quickly is not known beyond the places where it was learned.
#
# ## The paper's hypotheses, so far
#
# *RoPE works because it behaves like a traveling wave.* RollPE and its twin are a wave and a rotation that express the same
# functions, and no difference between their accuracies stands here; on digits in finer patches the twin reads more under AdamW
# ({doc}`14-inside`). The first agrees with the hypothesis and cannot prove it: whatever
# one of them does, the other can do too, so no accuracy of the two can tell the words apart. What can be tested is which
# property of the wave matters. Of those above it is the speed of a roll, for reading digits half as large again: slow
# rolls travel that far, and fast ones do not.
#
# *Relativity is not needed.* The multiplexed roll breaks it. On digits no loss is seen. After ten passes over CIFAR-100 its
# mean is behind RollPE's, {num}`mini/multiplexed-roll accuracy` against {num}`mini/roll accuracy`, although it has more weights.
# The control, there, would tell whether speeds or weights are to blame. It cannot tell the missing relativity from the second
# wave, because it lacks both ({doc}`08-multiplexed`).
#
# *Rolled channels become a topographic map.* On a grid of four by four patches they hardly do. On eight by eight they do, without
# being asked. Those of RollPE's twin hardly do under Adam, and do as much under Muon, whose steps do not depend on the
# basis, in models without biases. So the map is nothing that only a wave can have: it comes with training on a long grid, and Adam in Fourier
# coordinates takes it away. {doc}`14-inside` shows it, and how it was tested.
#
# The verdicts on single claims, by rules most of which are older than the runs they judge, are in the {doc}`ledger <../claims>`; at the scale of
# the paper most of them wait for runs.
#
# ```{admonition} In short
# :class: tip
# On digits one change of fifteen or so makes a difference that stands: rotations at the ring's speeds read more than
# rotations at RoPE's. Between RollPE and its rotary twin the sign is open on these coarse patches; on fine ones the
# twin reads more ({doc}`14-inside`). Slow rolls and smooth ones read digits half as large again far better, in runs that explored it. Nothing of
# this has been seen at the scale of the paper, and on photographs most rows are still empty.
# ```
#
# ```{exercise}
# :label: ex-ablations-plan
# Print the runs that would fill the list of what is not measured: `rollpe sweep plans/ablations.yaml --list`. Which would
# you run first if you had ten minutes of an accelerator?
# ```
#
# ```{solution} ex-ablations-plan
# :class: dropdown
# The list is in order of want, so the plan has answered: RollPE and its twin first, seed by seed, because each pair of
# runs narrows the interval of the one question that the paper's title asks. A run of a rarer option says nothing until
# it has a second beside it.
# ```
