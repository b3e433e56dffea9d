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
# # Waves in words
#
# Is a rolled ring a good positional encoding for text? The paper tests images only. Here a small causal model reads Python
# code and predicts it character by character.
#
# - **At the trained length: as good as RoPE.** RollPE (`roll`) predicts a little better than RoPE (`rope`), {num}`text/roll bits` against
#   {num}`text/rope bits` bits per character, and much better than a learned table (`learned`),
#   {num}`text/learned bits`.{holds}`text bits: 0 < rope - roll < 0.05; learned - roll > 0.15`{holds}`text: roll - rope is clear; roll - learned is clear`
#   RollPE's twin, the same functions in another basis, leads RoPE by nearly as much, and that lead is
#   open.{holds}`text bits: 0 < rope - roll-twin < rope - roll`{holds}`text: roll-twin - rope is open` On a second text, with a
#   learning rate for each, RollPE and RoPE are equal within $0.02$ bits.{holds}`sklearn-spacing bits: @learning_rate=0.004/roll - @learning_rate=0.004/rope is within 0.02, TOST 0.05`
# - **Beyond it: no.** After one full turn the ring takes an old character for the newest, and the loss
#   jumps.{holds}`text jump: every run of roll > 0.3` In windows of 512 characters RollPE needs {num}`text/roll bits@512` bits,
#   RoPE {num}`text/rope bits@512` and, with base 100, {num}`text/rope@base=100.0 bits@512`.{holds}`text bits 512-64: every run of roll > 0.5; every run of rope > 0.5; every run of rope@base=100.0 > 0.5`{holds}`text bits 512: rope@base=100.0 < rope < roll` Of
#   the nine encodings compared, only Shaw's vectors (`shaw`) keep their level, {num}`text/shaw bits` at 64 and
#   {num}`text/shaw bits@512` at
#   512.{holds}`text bits 512-64: only shaw of none, sinusoidal, learned, rope, roll, roll-twin, multiplexed-roll, t5-bias@bidirectional=false, shaw < 0.1; shaw > -0.1`
#   So does ALiBi (`alibi`), tried later, half a bit behind.{holds}`text bits 512-64: -0.1 < alibi < 0.1`{holds}`text bits 512: 0.4 < alibi - shaw < 0.6`
#
# - **With one sign** (`twisted-roll`) the ring has no jump: clearly better than RollPE and RoPE at 128
#   characters.{holds}`text-twist bits 128: twisted-roll - roll is clear; twisted-roll - rope is clear`{holds}`text-twist seeds 100..107 jump: every run of twisted-roll < 0.3` RoPE with base
#   100 does as well.{holds}`text-twist bits 128: twisted-roll - rope@base=100.0 is open`
#
# - **With waves that fit the window** RoPE keeps close to its level: {num}`text-waves/rope@wavelengths=[2.0,64.0] bits` at 64,
#   {num}`text-waves/rope@wavelengths=[2.0,64.0] bits@512` at 512. Only Shaw's vectors do
#   better.{holds}`text-waves bits 512: rope@wavelengths=[2.0,64.0] - rope@wavelengths=[2.0,128.0] is clear; rope@wavelengths=[2.0,64.0] - roll@width=[31,33] is clear; rope@wavelengths=[2.0,64.0] - shaw is clear; shaw < rope@wavelengths=[2.0,64.0]; rope@wavelengths=[2.0,64.0] < rope@wavelengths=[2.0,128.0]; rope@wavelengths=[2.0,64.0] < roll@width=[31,33]`
#
# All of this is one small model and, but for the frequencies, one text and a learning rate chosen for RoPE with one seed.

# %% tags=["parameters"]
encoding: str = "roll"  # of the live run {none|learned|rope|roll|roll-twin|shaw}
seed: int = 0  # seed of the live run and of the text that it writes [0..]
recipe: str = "text"  # recipe of all runs {text}
train_images: int = 1024  # windows that the live run trains on [64..12288]
records: str = "data/records"  # folder of the committed records {folder}
live: str = "_build/records"  # folder of the live record {new folder}
checkpoints: str = "_build/checkpoints"  # folder of the live model {new folder}

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-text-bits", "caption": "Bits per character on the test text in windows of 64 characters, the trained length; less is better. A dot is a run, a bar the mean."}, "image": {"alt": "One row of dots for each encoding, the best on top. Shaw, RollPE, its twin, RoPE and multiplexed RollPE lie close together on the left, the learned table a little behind, then T5's bias; sinusoids and no encoding lie far to the right."}}
import math
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown
from scipy.stats import spearmanr, ttest_1samp

from rollpe.operators import continuous_roll
from rollpe.topography import position_average_gain
from rollpe_book import figures
from rollpe_book.agree import agree
from rollpe_lab.evidence import spacing
from rollpe_lab.evidence.families import (
    NO_BREAK,
    family,
    later_cells,
    p_value,
    to_markdown,
)
from rollpe_lab.records import read_arrays, read_records, record_path
from rollpe_lab.sources import enter_root
from rollpe_lab.statistics import summarize
from rollpe_lab.training import load_model, load_plan, load_recipe, train
from rollpe_lab.training.checkpoint import checkpoint_path
from rollpe_lab.training.observation import neighbor_correlation
from rollpe_lab.training.text import CHARACTERS, decode, encode, read_text

enter_root()
figures.use_theme()
torch.set_num_threads(1)  # the model is too small for more

committed = read_records(records, recipe=recipe)
planned = [p.run_id.slug for p in load_plan("plans/text.yaml")]
arms = {}  # runs of each encoding, in the order of the plan
for slug in dict.fromkeys(planned):
    if found := [r for r in committed if r.run_id.slug == slug]:
        arms[figures.label_of(slug)] = found
arrays = {
    name: [read_arrays(record_path(records, run)) for run in runs]
    for name, runs in arms.items()
}
main = [name for name in arms if "," not in name]  # without options
LENGTHS = (64, 128, 256, 512)


def bits(name: str, length: int = 64) -> np.ndarray:
    """Bits per character in windows of a length, one number a run."""
    return np.array([run.bits[str(length)] for run in arms[name]])


fig, ax = plt.subplots(figsize=(6.8, 0.34 * len(main) + 0.9))
ranked = sorted(main, key=lambda name: bits(name).mean())
figures.runs_in_rows({name: bits(name) for name in ranked}, ax, interval=False)
figures.drawn_from(fig, [run for name in ranked for run in arms[name]])
ax.set_xlabel("bits per character")
plt.close(fig)
fig


# %% tags=["hide-input"]
def with_spread(values: list[float]) -> str:
    """Mean ± SD."""
    found = summarize(values)
    mean, sd = f"{found.mean:.2f}", found.sd
    return mean if sd is None else f"{mean}{NO_BREAK}±{NO_BREAK}{sd:.2f}"


def by_length(runs: dict[str, list]) -> Markdown:
    """Bits per character by length of the window."""
    lines = [
        f"| encoding | {' | '.join(map(str, LENGTHS))} | runs |",
        "| :-- |" + " --: |" * (len(LENGTHS) + 1),
    ]
    for label, arm in runs.items():
        cells = [with_spread([r.bits[str(length)] for r in arm]) for length in LENGTHS]
        lines.append(f"| {label} | {' | '.join(cells)} | {len(arm)} |")
    return Markdown("\n".join(lines))


by_length({f"`{name}`": arms[name] for name in main})

# %% [markdown]
# *Bits per character by length of the test window (mean ± SD over runs). Training had 64. The characters that are predicted
# are the same in each column; a longer window gives each of them more text before it.*
#
# ## Five questions
#
# `plans/text.yaml` fixed questions and rules before the first run. All else on this page is *exploratory*.

# %% tags=["hide-input"]
pairs = family(committed, recipe, later_cells())  # all pairs of the main encodings
few = any(len(arms[name]) < 2 for name in main)


def jumps(name: str) -> np.ndarray:
    """Bits at the eight positions from one turn of the ring on − before, by run."""
    first = 63 if name.endswith("width 63") else 64
    loss = np.array([a["loss_by_position"] for a in arrays[name]]) / math.log(2)
    return loss[:, first : first + 8].mean(1) - loss[:, first - 8 : first].mean(1)


def neighbors(name: str) -> np.ndarray:
    """Correlation of neighbors on the ring − that of any two channels, by run."""
    return np.array([-np.diff(neighbor_correlation(a))[0] for a in arrays[name]])


def mean_bias(a: dict[str, np.ndarray]) -> np.ndarray:
    """The bias on characters 0, 1, … back, mean over layers and heads."""
    back = -a["offsets"][:, 0]
    order = np.argsort(back)[-64:]
    return a["bias"].mean((0, 1))[order]


def rank_correlations(name: str) -> np.ndarray:
    """Of the mean bias with the distance, over distances 1 to 16, by run."""
    distance = range(1, 17)
    return np.array(
        [spearmanr(distance, mean_bias(a)[1:17]).statistic for a in arrays[name]]
    )


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def best() -> str:
    """Question 1."""
    top = min(main, key=lambda name: bits(name).mean())
    compared = [
        (figures.label_of(c.variant), figures.label_of(c.reference), c.p) for c in pairs
    ]
    rivals = [
        a if b == top else b for a, b, p in compared if top in (a, b) and p >= 0.05
    ]
    return f"Lowest mean: `{top}`. Not clearly behind it: {listed(rivals)}."


def extrapolation() -> str:
    """Question 2."""
    change = {name: bits(name, 512) - bits(name) for name in arms}
    gains = [name for name, by in change.items() if (by < 0).all()]
    fails = [name for name, by in change.items() if (by > 0).all()]
    return f"Extrapolates: {listed(gains)}. Fails: {len(fails)} of {len(arms)}."


EXPECTED = {  # whether the loss jumps by more than 0.1 bits
    "roll": True,
    "roll-twin": True,
    "roll, width 63": True,
    "continuous-roll, wavelength 8": False,
}


def as_expected(name: str) -> bool:
    large = jumps(name) > 0.1
    return bool(large.all() if EXPECTED[name] else not large.any())


def jump_verdict() -> str:
    """Question 3."""
    known = [name for name in EXPECTED if name in arms]
    broken = [name for name in known if not as_expected(name)]
    kept = len(known) - len(broken)
    return f"As expected: {kept} of {len(known)}. Not: {listed(broken)}."


def map_verdict() -> str:
    """Question 4."""
    ring, twin = neighbors("roll"), neighbors("roll-twin")
    p = ttest_1samp(ring, 0.1, alternative="greater").pvalue
    above = "yes" if ring.min() > twin.max() else "no"
    return (
        f"Mean {ring.mean():.2f}; above 0.1: {'yes' if p < 0.05 else 'no'} "
        f"(p {p_value(p)}). Above the twin in every run: {above}."
    )


def bias_verdict() -> str:
    """Question 5."""
    said = []
    for name in ("t5-bias", "shaw"):
        rank = rank_correlations(name)
        p = ttest_1samp(rank, -0.9, alternative="less").pvalue
        verdict = "yes" if p < 0.05 else "no"
        said.append(f"`{name}`: {verdict} (mean {rank.mean():.2f}, p {p_value(p)})")
    return "; ".join(said).replace("-0.", "−0.")


QUESTIONS = {
    "Which encoding predicts text best?": (
        f"bits at 64, Welch's test, Holm's correction over {len(pairs)} pairs",
        best,
    ),
    "Beyond the trained length?": (
        "extrapolates: bits at 512 below those at 64 in every run; fails: above",
        extrapolation,
    ),
    "What does the ring do at one full turn?": (
        "jump above 0.1 bits in every run for `roll`, its twin and a ring of 63; "
        "below for wavelength 8",
        jump_verdict,
    ),
    "Does the map of channels form?": (
        "correlation of neighbors − of any two channels: above 0.1 for `roll`, "
        "t-test; above `roll-twin` in every run",
        map_verdict,
    ),
    "Do learned tables weight distant characters less?": (
        "rank correlation of bias and distance 1 to 16 below −0.9, t-test",
        bias_verdict,
    ),
}
lines = ["| | question | rule | found |", "| --: | :-- | :-- | :-- |"]
for number, (question, (rule, answer)) in enumerate(QUESTIONS.items(), 1):
    found = "Too few runs." if few else answer()
    lines.append(f"| {number} | {question} | {rule} | {found} |")
Markdown("\n".join(lines))

# %% [markdown]
# ## The text
#
# The text is the Python source of SymPy 1.14.0, a library for algebra that PyTorch installs. Its license is BSD; nothing is
# downloaded or copied. The test text comes from other files than the training text, and SymPy's own tests are left out. A
# character is one of 96, the printable ones of ASCII and the new line.
#
# The model is a small GPT: three blocks, 128 channels, two heads of 64. It reads 64 characters and predicts the successor of
# each from it and those before, trained once on 12,288 windows. Its loss is measured in *bits per character*, the length
# of the shortest code that the predictions $P$ allow for a text $x$, divided by its $N$ characters:
#
# $$
# b = -\frac{1}{N} \log_2 \prod_{p=1}^{N} P(x_p \mid x_1, \dots, x_{p-1})
# $$ (eq-bits)
#
# One bit less means that the characters were, on average, twice as probable. What simpler models reach on the same test
# text, counted on all of the training text, ten times as much as our models see:

# %% tags=["hide-input"]
training, _, test = read_text()


def without_a_network(order: int) -> float:
    """Bits per character if only the `order` characters before it count."""

    def cut(text: str, length: int) -> list[str]:
        return [text[i : i + length] for i in range(len(text) - order)]

    after, before = Counter(cut(training, order + 1)), Counter(cut(training, order))
    chances = [
        (after[seen] + 1) / (before[seen[:-1]] + len(CHARACTERS))
        for seen in cut(test, order + 1)
    ]
    return -float(np.log2(chances).mean())


print(f"all characters equally probable  {math.log2(len(CHARACTERS)):.2f} bits")
print(f"each as frequent as in training  {without_a_network(0):.2f} bits")
print(f"given the character before       {without_a_network(1):.2f} bits")
print(f"given the two characters before  {without_a_network(2):.2f} bits")

# %% [markdown]
# ## Which predicts text best?
#
# Shaw's vectors have the lowest mean. Their lead over RoPE is clear, but only a few hundredths of a
# bit.{holds}`text: shaw - rope is clear`{holds}`text bits: shaw < roll-twin; shaw < roll; 0 < rope - shaw < 0.06; shaw < multiplexed-roll`
# RollPE and its twin lie between the two: RollPE's lead over RoPE is clear, too, and whether Shaw's vectors lead RollPE is
# open.{holds}`text: roll - rope is clear; shaw - roll is open; roll-twin - roll is open` Multiplexed RollPE is beside RoPE.{holds}`text bits: shaw < roll-twin < rope; shaw < roll < rope; -0.03 < multiplexed-roll - rope < 0.03`
# All five act on the score, and all are clearly better than the learned
# table.{holds}`text: learned - shaw is clear; learned - roll-twin is clear; learned - roll is clear; learned - rope is clear; learned - multiplexed-roll is clear`{holds}`text bits: shaw < learned; roll-twin < learned; roll < learned; rope < learned; multiplexed-roll < learned`
# T5's bias, which adds the same number whatever the characters are, is behind the table.{holds}`text bits: every run of t5-bias@bidirectional=false > every run of learned`
#
# *Exploratory.* RoPE's base of 10,000 was made for longer text; with base 100 it needs {num}`text/rope@base=100.0 bits` bits, between
# the two.{holds}`text bits: roll < rope@base=100.0 < rope` So part of RollPE's lead may be one of frequencies. Sinusoids begin fifty times
# as large as the embeddings of characters; at a tenth of their size they need {num}`text/sinusoidal@scale=0.1 bits` bits, as many
# as the learned table.{holds}`text bits: -0.1 < sinusoidal@scale=0.1 - learned < 0.1; every run of sinusoidal@scale=0.1 < every run of sinusoidal`
# So in the main comparison they were only too large.

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Show all pairs", "code_prompt_hide": "Hide all pairs"}
Markdown("Too few runs." if few else to_markdown(pairs))

# %% [markdown]
# **A causal model can count.** Without an encoding (`none`) the first character attends to itself alone, the next one to two
# characters: the weight of the first falls as $1/(p+1)$ if scores are equal. Later layers can read the position off this
# share {cite}`haviv2022transformer`. The model reaches {num}`text/none bits` bits, less than counts of pairs of characters
# (above). Sinusoids of full size do not help, {num}`text/sinusoidal bits`.{holds}`text bits: every run of none < 3.5`{holds}`text: sinusoidal - none is open` Whether it counts or
# only uses the bag of characters before, these numbers do not tell.
#
# ## Beyond the trained length
#
# A longer window gives each character more text before it, so the loss should fall. By the rule none of the nine
# extrapolates.{holds}`text bits 512-64: shaw is lowest of none, sinusoidal, learned, rope, roll, roll-twin, multiplexed-roll, t5-bias@bidirectional=false, shaw; shaw > 0`
# Shaw's vectors come close: they gain from 128 characters and lose a little at
# 512.{holds}`text bits 128-64: every run of shaw < 0`{holds}`text bits 512-64: every run of shaw > 0; shaw < 0.1` The other eight lose
# more.{holds}`text bits 512-64: only shaw of none, sinusoidal, learned, rope, roll, roll-twin, multiplexed-roll, t5-bias@bidirectional=false, shaw < 0.2`
#
# ```{wave} positions
# :name: wave-positions
# Bits per character by position in windows of 512 characters, means over runs and eight positions. The vertical line is the
# trained length. The last three encodings are exploratory. All lines share the same characters, so they share most of their
# noise.
# ```
#
# What is new at position 64 differs:
#
# - a table repeats its last vector there, and sinusoids take values that no layer has seen;
# - rotations go on turning to angles that no pair had; a ring starts anew;
# - T5's bias has buckets up to distance 128, the last ones untrained;
# - Shaw's vectors stop at distance 16, and all characters farther away share one: nothing is new;
# - without an encoding only the number of characters is new, over which attention averages. That alone costs as much as
#   T5's bias.{holds}`text bits 512-64: -0.4 < none - t5-bias@bidirectional=false < 0.1`
#
# *Exploratory.* ALiBi (`alibi`, {eq}`eq-alibi`) was made for longer text {cite}`press2022train`. It keeps its level:
# {num}`text/alibi bits` bits at 64 characters, {num}`text/alibi bits@512` at
# 512.{holds}`text bits 512-64: -0.02 < alibi; every run of alibi < 0.02` But Shaw's vectors need about half a bit less at either
# length.{holds}`text bits: 0.4 < alibi - shaw < 0.6; every run of alibi > every run of shaw`{holds}`text bits 512: 0.4 < alibi - shaw < 0.6; every run of alibi > every run of shaw`
# With two heads the slopes are $1/16$ and $1/256$, so that the scores of neighbors hardly differ. This may be the reason.
#
# In a comparison on small tasks models without an encoding generalized best to longer ones
# {cite}`kazemnejad2023impact`.
#
# ## What the ring does at one full turn
#
# A ring of 64 channels takes offset 64 for 0: a character one turn back looks like the newest one itself
# ({eq}`eq-distinct-offsets`). We chose the window for this: in training no two characters were that far apart. Rows with
# options are controls: rings of 63 and 32 channels, rings that turn once in 512 characters (wavelength 8) or 128 (wavelength
# 2), multiplexed RollPE with equal speeds or smaller scores, and RoPE with slower waves.

# %% tags=["hide-input"]
lines = ["| encoding | jump in bits: mean [range] | expected | runs |"]
lines.append("| :-- | --: | :-- | --: |")
for name in arms:
    rise = jumps(name)
    expected = ""
    if name in EXPECTED:
        expected = "above 0.1" if EXPECTED[name] else "below 0.1"
        expected += ": yes" if as_expected(name) else ": **no**"
    span = f"{rise.mean():+.2f} [{rise.min():+.2f}, {rise.max():+.2f}]"
    lines.append(f"| `{name}` | {span.replace('-', '−')} | {expected} | {len(rise)} |")
Markdown("\n".join(lines))

# %% [markdown]
# *The jump: mean loss at positions 64 to 71 minus that at 56 to 63, in windows of 512; for a ring of 63 one position
# earlier.*
#
# RollPE and its twin jump in every run, as expected.{holds}`text jump: every run of roll > 0.3; every run of roll-twin > 0.3`
# The jump of a table is larger.{holds}`text jump: every run of learned > every run of roll` A tenth of a bit is the text's own:
# these positions hold other characters than those before, the same ones for all encodings, and even Shaw's vectors, to which
# nothing is new, rise by that much.{holds}`text jump: 0.05 < shaw < 0.2` RoPE rises no more than
# they; its loss grows later.{holds}`text jump: -0.1 < rope - shaw < 0.1`{holds}`text bits 512-128: rope > 0.5`
#
# - **Length of the ring.** A ring of 63 jumps one position earlier.{holds}`text jump: every run of roll@width=63 > 0.3` A ring of 32
#   turns twice within the trained window and costs {num}`text/roll@width=32 bits` bits there already, against
#   {num}`text/roll bits`.{holds}`text bits: 0.1 < roll@width=32 - roll < 0.3`
# - **Wavelength.** At wavelengths 8 and 2 the ring does not turn at 64, and the rise is about that of Shaw's
#   vectors.{holds}`text jump: -0.1 < continuous-roll@wavelength=8.0 - shaw < 0.1; -0.1 < continuous-roll@wavelength=2.0 - shaw < 0.1`
#   Our rule asked for less than $0.1$, which the text's own rise exceeds. So the turn causes the jump.
# - **But not the loss at 512.** There wavelength 8 needs {num}`text/continuous-roll@wavelength=8.0 bits@512` bits, although its
#   ring never closes, and RoPE with slower waves {num}`text/rope@base=500000.0 bits@512`. Angles that no pair had in training
#   are enough.{holds}`text bits 512-64: every run of continuous-roll@wavelength=8.0 > 0.5; every run of rope@base=500000.0 > 0.5`
# - **A second wave** neither prevents the jump nor helps at 512, whatever its speed or
#   scale.{holds}`text jump: every run of multiplexed-roll > 0.3; every run of multiplexed-roll@speeds=[1,1] > 0.3; every run of multiplexed-roll@scale=sqrt > 0.3`{holds}`text bits 512: multiplexed-roll > roll; multiplexed-roll@speeds=[1,1] > roll; multiplexed-roll@scale=sqrt > roll`

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Show the controls by length", "code_prompt_hide": "Hide the controls by length"}
by_length({f"`{name}`": arms[name] for name in arms if name not in main})

# %% [markdown]
# ## A ring with a twist
#
# A *twisted* ring closes with a change of sign ({doc}`05-rope`). It gives offset 64 the score of offset 0 with the opposite
# sign, instead of the same score, and its period is 128. Does a sign prevent the jump? And is the twisted ring, which is a
# RoPE with equally spaced angles, better than RoPE? `plans/twist.yaml` fixed questions, predictions and the test before its
# runs: eight fresh seeds for each encoding, and for RoPE also the best of six bases, chosen on held-out text
# (`plans/bases.yaml`): 100.

# %% tags=["hide-input"]
RINGS = {
    "roll": "plain ring (RollPE)",
    "roll-twin": "its rotary twin",
    "roll@width=[31,33]": "plain rings of 31 and 33 channels",
    "twisted-roll@width=32": "twisted ring of 32 channels, 32 at rest",
    "twisted-roll": "twisted ring",
    "twisted-roll@twist=0.14285714285714285": "pair of rings, angle 2π/7",
    "twisted-roll@twist=0.6180339887498949": "pair of rings, golden angle",
    "rope": "RoPE, base 10,000",
    "rope@base=100.0": "RoPE, base 100",
}
fresh = [r for r in read_records(records, recipe="text-twist") if r.seed < 110]
rings = {
    label: [run for run in fresh if unquote(run.run_id.slug) == slug]
    for slug, label in RINGS.items()
}
by_length({label: arm for label, arm in rings.items() if arm})

# %% tags=["hide-input"]
deciding = family(fresh, "text-twist")
Markdown(
    to_markdown(
        deciding,
        lambda c: f"at {c.length}: twisted ring − {RINGS[c.reference]}",
        "planned comparison",
    )
    if deciding
    else "Too few runs."
)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-text-twist", "caption": "Bits per character by position in windows of 512 characters: mean over runs and over eight positions. The vertical line is the trained length."}, "image": {"alt": "Seven lines of bits against position. All fall together up to the trained length of 64. There RollPE's line jumps up by most of a bit; the others rise gradually. From 200 on RollPE and the pair of rings with the angle 2π/7 are highest, and the rings of 31 and 33 channels are by far the lowest."}}
shown = {
    "plain ring (RollPE)": figures.VERMILION,
    "twisted ring": figures.BLUE,
    "pair of rings, angle 2π/7": figures.SKY,
    "pair of rings, golden angle": figures.GREEN,
    "plain rings of 31 and 33 channels": figures.PINK,
    "RoPE, base 10,000": figures.MUTED,
    "RoPE, base 100": figures.ORANGE,
}
losses = {
    label: [read_arrays(record_path(records, run)) for run in rings[label]]
    for label in shown
}
fig, ax = plt.subplots(figsize=(7.0, 3.8))
for label, color in shown.items():
    if losses[label]:
        loss = np.mean([a["loss_by_position"] for a in losses[label]], 0) / math.log(2)
        ax.plot(
            np.arange(4, 512, 8), loss.reshape(-1, 8).mean(1), color=color, label=label
        )
        figures.drawn_from(fig, rings[label])
ax.axvline(64, color=figures.MUTED, linewidth=0.8)
ax.set(xlabel="position in the window", ylabel="bits per character", xlim=(0, 512))
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
plt.close(fig)
fig

# %% [markdown]
# At the trained length the twisted ring has a lower mean than RollPE and than both
# RoPEs.{holds}`text-twist seeds 100..107 bits 64: twisted-roll < roll; twisted-roll < rope@base=100.0; twisted-roll < rope` None of
# the three differences is
# clear.{holds}`text-twist bits 64: twisted-roll - roll is open; twisted-roll - rope is open; twisted-roll - rope@base=100.0 is open`
# In windows of 128 it is clearly better than RollPE and than RoPE with its usual base, and level with base
# 100.{holds}`text-twist bits 128: twisted-roll - roll < 0, Holm 0.05; twisted-roll - rope < 0, Holm 0.05; twisted-roll - roll is clear; twisted-roll - rope is clear; twisted-roll - rope@base=100.0 is open`{holds}`text-twist seeds 100..107 bits 128: -0.05 < twisted-roll - rope@base=100.0 < 0.05`
# The rule asked for all three, so the twisted ring is better at neither length. **One sign removes the jump of the ring. It does
# not beat RoPE with a base that suits the text.**
#
# What became of the predictions:
#
# 1. *At 64 lower by $0.01$ to $0.03$ bits.* So it is in the means, not resolved by eight
#    seeds.{holds}`text-twist seeds 100..107 bits 64: 0.005 < roll - twisted-roll < 0.03; 0.005 < rope@base=100.0 - twisted-roll < 0.03; 0.005 < rope - twisted-roll < 0.03`
# 2. *At 128 below RollPE by more than $0.1$ bits and below RoPE, above RoPE with its best base.* Right, but for the
#    last.{holds}`text-twist seeds 100..107 bits 128: roll - twisted-roll > 0.1; rope > twisted-roll; rope@base=100.0 > twisted-roll`
# 3. *The jump.* Right in every run: RollPE and its twin jump, and all rings with a longer period jump less than
#    RollPE.{holds}`text-twist seeds 100..107 jump: every run of roll > 0.1; every run of roll-twin > 0.1; every run of twisted-roll < every run of roll; every run of twisted-roll@twist=0.14285714285714285 < every run of roll; every run of twisted-roll@twist=0.6180339887498949 < every run of roll; every run of roll@width=[31,33] < every run of roll`
# 4. *At 512 a longer period is better, and the golden angle best of all rings.* Wrong: the pair turned by $2\pi/7$ is behind the
#    twisted ring, whose period is shorter, and rings of 31 and 33 are ahead of the golden
#    angle.{holds}`text-twist seeds 100..107 bits 512: roll > twisted-roll@twist=0.14285714285714285 > twisted-roll > twisted-roll@twist=0.6180339887498949 > roll@width=[31,33]`
# 5. *A plain ring of 64 is better at 64 than a twisted ring of 32, which has the same period.* Wrong: the twisted ring of 32 has the
#    lower mean, with half of the channels at rest.{holds}`text-twist seeds 100..107 bits 64: twisted-roll@width=32 < roll`
#
# *Exploratory.* **Rings of 31 and 33 channels keep best beyond the trained length**: {num}`text-twist/roll@width=[31,33] bits@512`
# bits at 512, every run below every run of the eight
# others.{holds}`text-twist seeds 100..107 bits 512: roll@width=[31,33] is lowest; every run of roll@width=[31,33] < every run of rope@base=100.0; every run of roll@width=[31,33] < every run of twisted-roll@twist=0.6180339887498949; every run of roll@width=[31,33] < every run of twisted-roll; every run of roll@width=[31,33] < every run of rope; every run of roll@width=[31,33] < every run of roll; every run of roll@width=[31,33] < every run of roll-twin; every run of roll@width=[31,33] < every run of twisted-roll@width=32; every run of roll@width=[31,33] < every run of twisted-roll@twist=0.14285714285714285`
# The price is the highest mean at 64, by a few hundredths of a
# bit.{holds}`text-twist seeds 100..107 bits 64: roll@width=[31,33] is highest; roll@width=[31,33] - twisted-roll@twist=0.6180339887498949 < 0.05`
# A possible reason: in training both rings went all the way around, so each meets beyond it only shifts that it has seen, in new
# pairs. It is still worse than Shaw's vectors at that length.{holds}`text bits 512: every run of shaw < 2.7`{holds}`text-twist seeds 100..107 bits 512: every run of roll@width=[31,33] > 2.7`
#
# On digits the twist changes nothing that five seeds resolve. In $4 \times 4$ patches the twisted ring is clearly better than
# RoPE, as RollPE is, and level with RollPE; in $8 \times 8$ patches all differences are
# open.{holds}`quick-twist: twisted-roll - axial-rope > 0, Holm 0.05; twisted-roll - axial-rope is clear; twisted-roll - roll is open; -1 < twisted-roll - roll < 1`{holds}`quick-twist8: twisted-roll - axial-rope is open; twisted-roll - roll is open`
# There both rings tell all offsets apart.
#
# ## Waves that fit the window
#
# RollPE's lead over RoPE may be one of frequencies: the ring's waves are 2 to 64 characters long, RoPE's between 6 and about
# 47,000. {doc}`09-results` compares rotations over either range, in equal ratios as RoPE's or in equal steps as a ring's,
# each at the best of three learning rates, and repeats it on the text of scikit-learn.

# %% tags=["hide-input"]
every = read_records(records)
by_length(spacing.arms_of(every, "text-spacing"))

# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Show scikit-learn", "code_prompt_hide": "Hide scikit-learn"}
by_length(spacing.arms_of(every, "sklearn-spacing"))

# %% [markdown]
# At the trained length RollPE's lead over RoPE does not repeat on scikit-learn: RollPE needs
# {num}`sklearn-spacing@learning_rate=0.004/roll bits` bits, RoPE {num}`sklearn-spacing@learning_rate=0.004/rope bits`, equal within
# $0.02$.{holds}`sklearn-spacing bits: @learning_rate=0.004/roll - @learning_rate=0.004/rope is within 0.02, TOST 0.05` Of the effects of range and spacing two are clear, both
# against equal steps over RoPE's range ({doc}`09-results`).
#
# *Exploratory.* Beyond the trained length one arm keeps close to its level: RoPE in equal ratios with waves of 2 to 64 characters. It
# needs {num}`text-spacing/rope@wavelengths=[2.0,64.0] bits` bits at 64 and {num}`text-spacing/rope@wavelengths=[2.0,64.0] bits@512` at 512, on scikit-learn
# {num}`sklearn-spacing/rope@wavelengths=[2.0,64.0] bits` and
# {num}`sklearn-spacing/rope@wavelengths=[2.0,64.0] bits@512`.{holds}`text-spacing bits 512-64: rope@wavelengths=[2.0,64.0] < 0.25`{holds}`sklearn-spacing bits 512-64: rope@wavelengths=[2.0,64.0] < 0.25`
# RoPE with its usual waves loses more than a bit on
# both.{holds}`text-spacing bits 512-64: every run of @learning_rate=0.004/rope > 1`{holds}`sklearn-spacing bits 512-64: every run of @learning_rate=0.004/rope > 1`
#
# A possible reason: each of these waves has gone around within a training window, so no pair meets a new angle. Equal ratios keep
# the angles of all pairs from returning together, as those of a ring do. For large models fine-tuned with a smaller base the same
# was proposed {cite}`liu2024scaling`. The look at SymPy suggested five differences, which `plans/text-waves.yaml` fixed, with
# predictions, for fresh seeds:

# %% tags=["hide-input"]
WAVES = {
    "rope@wavelengths=[2.0,64.0]": "RoPE, waves of 2 to 64",
    "rope@wavelengths=[6.28,64.0]": "RoPE, waves of 2π to 64",
    "rope@wavelengths=[2.0,128.0]": "RoPE, waves of 2 to 128",
    "roll@width=[31,33]": "plain rings of 31 and 33 channels",
    "shaw": "Shaw's vectors",
}
waves = {
    label: [
        r for r in every if r.recipe == "text-waves" and unquote(r.run_id.slug) == slug
    ]
    for slug, label in WAVES.items()
}
by_length(waves)

# %% tags=["hide-input"]
fitting = family(every, "text-waves")
Markdown(
    to_markdown(
        fitting,
        lambda c: f"at {c.length}: {WAVES[c.variant]} − {WAVES[c.reference]}",
        "planned comparison",
    )
    if fitting
    else "Too few runs."
)

# %% [markdown]
# **RoPE keeps close to its level if no wave is longer than the window.** Of the five predictions four were right:
#
# 1. At 512, waves of 2 to 128 need more by over $0.2$ bits: their longest go half around in
#    training.{holds}`text-waves bits 512: rope@wavelengths=[2.0,64.0] - rope@wavelengths=[2.0,128.0] < -0.2; rope@wavelengths=[2.0,64.0] - rope@wavelengths=[2.0,128.0] is clear`
# 2. Rings of 31 and 33 channels need more by over $0.1$ bits.{holds}`text-waves bits 512: rope@wavelengths=[2.0,64.0] - roll@width=[31,33] < -0.1; rope@wavelengths=[2.0,64.0] - roll@width=[31,33] is clear`
# 3. Shaw's vectors need less by $0.05$ to $0.2$ bits.{holds}`text-waves bits 512: 0.05 < rope@wavelengths=[2.0,64.0] - shaw < 0.2; rope@wavelengths=[2.0,64.0] - shaw is clear`
# 4. At 64 the difference from Shaw's vectors is open.{holds}`text-waves bits 64: rope@wavelengths=[2.0,64.0] - shaw is open`
# 5. *Wrong:* at 64 waves between 2 and $2\pi$ characters were expected to decide little. They lower the loss clearly, by more than
#    $0.02$ bits.{holds}`text-waves bits 64: rope@wavelengths=[2.0,64.0] - rope@wavelengths=[6.28,64.0] < -0.02; rope@wavelengths=[2.0,64.0] - rope@wavelengths=[6.28,64.0] is clear`
#
# So both ends of RoPE's usual range are wrong for short windows: its shortest wave is too long for neighbors, its longest never
# come around. `rope(wavelengths=(2, 64))` changes both.
#
# ## Do neighbors correlate in text?
#
# A little. Neighbors on RollPE's ring correlate more than its twin's in every run, but far less than on
# photographs ({doc}`18-inside`), and less than the rule
# asks.{holds}`text neighbors: every run of roll > every run of roll-twin; roll < 0.15`{holds}`mini neighbors: every run of roll > 0.5`

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-text-map", "caption": "Correlation of the channels of trained queries and keys, models of text. Each cell: the mean correlation of all pairs of channels at that distance, over layers, heads and seeds."}, "image": {"alt": "Two square matrices with a thin red diagonal, white elsewhere; RollPE's has a faint pink seam beside it."}}
rings = {"roll": "RollPE", "roll-twin": "its rotary twin"}
alike = {
    label: [[a["query_correlation"], a["key_correlation"]] for a in arrays[name]]
    for name, label in rings.items()
    if name in arms
}
fig = figures.correlation_matrices(alike)[0].figure
for name in rings:
    figures.drawn_from(fig, arms.get(name, []))
plt.close(fig)
fig

# %% [markdown]
# The order of channels comes from an average over positions ({eq}`eq-position-average`). It needs queries that ask for the same
# change, and here each position has a loss and a next character of its own: before the first step their coherence
# ({eq}`eq-coherence`) is below $0.2$ in every run, as `plans/order-text.yaml` predicted, and on digits above
# $0.9$.{holds}`order-text coherence 1: every run of roll < 0.2; every run of continuous-roll@wavelength=8.0 < 0.2`{holds}`order coherence 1: every run of roll > 0.9`
# An earlier prediction overlooked this. A ring of 64 turns once in 64 positions, and the average over a full turn leaves mode
# zero alone; a ring of wavelength 8 turns an eighth and keeps slow waves, so its neighbors were to correlate. They correlate
# negatively in every
# run.{holds}`text neighbors: every run of continuous-roll@wavelength=8.0 < 0` At that wavelength only the fast modes, in which neighbors have
# opposite signs, tell near characters apart; the model may need them.

# %% tags=["hide-input"]
gain = position_average_gain(64, 64)
agree("average over a full turn: modes above zero", gain[1:], 0 * gain[1:])
lines = ["| encoding | correlation of neighbors − of any two: mean [range] | runs |"]
lines.append("| :-- | --: | --: |")
for name in arms:
    if "roll" in name:
        near = neighbors(name)
        span = f"{near.mean():.2f} [{near.min():.2f}, {near.max():.2f}]"
        lines.append(f"| `{name}` | {span.replace('-', '−')} | {len(near)} |")
Markdown("\n".join(lines))

# %% [markdown]
# ## What learned tables weight
#
# T5's bias is a trained number for each distance, added to the score; Shaw's vectors add one that depends on the query, so
# its mean over test text is taken.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-text-bias", "caption": "Mean bias on a character by its distance back, in units of the score; mean over layers and heads. A thin line is a run, the thick one their mean. The test is about distances 1 to 16 (shaded)."}, "image": {"alt": "Two panels of bias against distance back. T5's bias is highest at one and two characters and falls unevenly to below zero; Shaw's falls more steeply and drops at distance sixteen, from where it is level."}}
fig, axes = plt.subplots(1, 2, figsize=(7.2, 2.8))
for ax, name in zip(axes, ("t5-bias", "shaw"), strict=True):
    runs = [mean_bias(a) for a in arrays.get(name, [])]
    for run in runs:
        ax.plot(run, color=figures.BLUE, linewidth=0.6, label=f"{name}, a run")
    if runs:
        ax.plot(np.mean(runs, 0), color=figures.BLUE, label=f"{name}, mean")
    ax.axvspan(1, 16, color=figures.MUTED, alpha=0.12, linewidth=0)
    ax.axhline(0, color=figures.MUTED, linewidth=0.8)
    ax.set(title=name, xlabel="distance back (characters)")
    figures.drawn_from(fig, arms.get(name, []))
axes[0].set_ylabel("mean bias")
plt.close(fig)
fig

# %% [markdown]
# The rank correlation is in the table of questions. Shaw's last vector stands for all characters from distance 16 on, up to 48
# in a window of training: each must weigh little if near ones are to count.
#
# ## Train one and let it write
#
# The same recipe with fewer windows trains in seconds. Each new character is drawn from the model's prediction; the
# keys and values of earlier ones are cached ({eq}`eq-cache`).

# %%
settings = load_recipe(recipe, {"train_images": train_images, "resolutions": []})
record = train(
    settings,
    encoding,
    seed=seed,
    records=Path(live),
    checkpoints=Path(checkpoints),
    progress=False,
)
print(f"{train_images} windows: {record.bits[str(settings.context)]:.2f} bits")
model = load_model(checkpoint_path(checkpoints, record.run_id), device="cpu")
prompt = encode("\n    def __init__(self, ").long()[None]
written = model.generate(prompt, 160, torch.Generator().manual_seed(seed))
print(decode(written[0]))

# %% [markdown]
# Cached generation computes what one pass over the whole text does, also beyond the trained length:

# %%
model.double()
caches = [None] * len(model.blocks)
pieces = [model.extend(character, caches) for character in written.split(1, 1)]
with torch.no_grad():
    agree("logits, cached or not", torch.cat(pieces, 1), model(written), tolerance=1e-9)

# %% [markdown]
# It has hardly learned to spell. `-p train_images 12288` trains as the committed runs did, in about two minutes.
#
# ## What this does not show
#
# - One small model, Python code, characters instead of words, one pass over the data. Only the comparison of frequencies has a
#   second text and a learning rate for each encoding.
# - The ring is as long as the training window because we chose it so. With longer heads or shorter windows the turn comes
#   beyond the trained length; with shorter heads, before.
# - Nothing was done to help any encoding extrapolate, such as training on several lengths.
#
# ```{admonition} In short
# :class: tip
# - At the trained length RollPE predicts one text a little better than RoPE and a second equally
#   well;{holds}`sklearn-spacing bits: @learning_rate=0.004/roll - @learning_rate=0.004/rope is within 0.02, TOST 0.05` it is not clearly worse than Shaw's vectors, the
#   best.{holds}`text: roll - rope is clear; shaw - roll is open`{holds}`text bits: roll < rope` All are clearly better than a learned
#   table.{holds}`text bits: -0.1 < roll - shaw < 0.1; -0.1 < roll-twin - shaw < 0.1; -0.1 < rope - shaw < 0.1`{holds}`text: roll - learned is clear; roll-twin - learned is clear; rope - learned is clear; shaw - learned is clear`
# - A ring must be longer than the window: after one turn the loss of RollPE
#   jumps.{holds}`text jump: every run of roll > 0.3`
# - Eight times the trained length costs eight of nine encodings.{holds}`text bits 512-64: only shaw of none, sinusoidal, learned, rope, roll, roll-twin, multiplexed-roll, t5-bias@bidirectional=false, shaw < 0.1`
#   Shaw's vectors lose little; ALiBi, tried later, loses nothing and
#   starts half a bit behind.{holds}`text bits 512-64: every run of alibi < 0.02`{holds}`text bits 512-64: shaw < 0.1; every run of rope > 0.5; every run of none > 0.3; every run of t5-bias@bidirectional=false > 0.3`
# - RoPE with waves no longer than the window loses a quarter of a bit at eight times the
#   length.{holds}`text-waves bits 512-64: 0.2 < rope@wavelengths=[2.0,64.0] < 0.25` Its usual waves lose more than half.{holds}`text bits 512-64: every run of rope > 0.5`
# - A twist removes the jump. At the trained length it decides
#   nothing.{holds}`text-twist seeds 100..107 jump: every run of twisted-roll < every run of roll`{holds}`text-twist bits 64: twisted-roll - roll is open`
# - On a ring as long as the window neighbors correlate less than the rule asks.{holds}`text neighbors: roll < 0.15`
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: ex-text-choices
# Guessing among $m$ equally probable characters costs $\log_2 m$ bits. Among how many characters does RollPE choose, on
# average, and among how many a model without an encoding?
# ```
#
# ```{solution} ex-text-choices
# :class: dropdown
# Among $2^b$, which is called the perplexity.
# ```

# %% tags=["hide-cell"]
for name in ("none", "roll"):
    if name in arms:
        b = bits(name).mean()
        print(f"{name:5} {b:.2f} bits: {2**b:.1f} characters")

# %% [markdown]
# ```{exercise}
# :label: ex-text-period
# A continuous ring of $n$ channels and wavelength $\lambda$ has turned once after how many characters? Which $\lambda$
# makes a ring of 64 long enough for windows of 512, and what does it cost?
# ```
#
# ```{solution} ex-text-period
# :class: dropdown
# After $\lambda n$ characters, so $\lambda = 8$. Then a step moves the ring by an eighth of a channel: neighboring
# characters get nearly the same key unless the fast modes of the ring tell them apart.
# ```

# %% tags=["hide-cell"]
x = torch.randn(5, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
turned = continuous_roll(x, 512.0, wavelength=8.0)
agree("wavelength 8: one turn after 512", turned, x, tolerance=1e-10)
