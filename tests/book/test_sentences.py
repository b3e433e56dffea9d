"""Sentences about results on pages without cells: each stands there, word for word, and its runs say so."""

from __future__ import annotations

import json
import re

import numpy as np

from rollpe_lab.evidence.table import PAPER_TABLE_1
from rollpe_lab.evidence.words import held_out, lead, mean, runs_by_arm, training_loss, values
from rollpe_lab.records import find_arrays
from rollpe_lab.training import load_recipe
from shared import ROOT

TABLE, ROPE, ROLL = "learned", "axial-rope", "roll"
RANGE = "axial-rope@wavelengths=[2.0,16.0]"
HALF = "short@learning_rate=0.0005"


def says(page: str, sentence: str) -> bool:
    """Whether a page has the sentence, however its lines are broken."""
    return " ".join(sentence.split()) in re.sub(r"\s+", " ", (ROOT / page).read_text(encoding="utf-8"))


def rounded(*arms: str) -> list[float]:
    return [round(mean(arm), 1) for arm in arms]


def gap(recipe: str):
    """RoPE − table."""
    return lead((f"{recipe}/{ROPE}", f"{recipe}/{TABLE}"))


def test_the_gap_to_the_table_is_open() -> None:
    assert says("README.md", "has no gap after ten epochs, 40.4 and 40.9 %.")
    assert rounded(f"mini/{ROPE}", f"mini/{TABLE}") == [40.4, 40.9] and gap("mini").mean < 0
    assert says(
        "README.md", "After thirty, where it reaches 55 %, one pair of runs has RoPE 0.8 points ahead."
    )
    assert says(
        "book/index.md", "After thirty epochs, where these models reach 55 %, one pair of runs has RoPE 0.8"
    )
    thirty = gap("ladder@epochs=30")
    assert (round(thirty.mean, 1), thirty.n) == (0.8, 1) and round(mean(f"ladder@epochs=30/{TABLE}")) == 55
    assert says("README.md", "Ten blocks and a class token bring 4.2 points, in one pair.")
    assert says("book/index.md", "bring a lead of 4.2 points, in one pair of runs.")
    both = gap("ladder@depth=10,pool=token")
    assert (round(both.mean, 1), both.n) == (4.2, 1)
    assert says("book/objections.md", "With ten blocks RoPE leads in both of two pairs.")
    ten = [values(f"ladder@depth=10/{arm}") for arm in (ROPE, TABLE)]
    assert [ten[0][seed] > ten[1][seed] for seed in (10, 11)] == [True, True] and len(ten[1]) == 2


def test_on_digits_a_table_falls_behind_because_it_starts_small() -> None:
    large, small, rope = (
        f"quick-why@learning_rate={arm}"
        for arm in (f"0.001/{TABLE}@std=1.0", f"0.004/{TABLE}", f"0.002/{ROPE}")
    )
    for page in ("README.md", "book/index.md"):
        assert says(page, "the same table has 96.5 % in place of 81.7 %, and RoPE has 92.2 %.")
    assert rounded(large, small, rope) == [96.5, 81.7, 92.2]
    assert says("book/encodings.md", "with `std=1.0` it is ahead of RoPE there")
    assert lead((rope, small)).low > 5 and lead((large, rope)).low > 2
    assert says("book/index.md", "and adds it to patches whose root mean square is 0.65.")
    sizes = find_arrays(runs_by_arm()[small][500], [ROOT / "data/records"])["frame_token_rms"]
    assert [round(float(size), 2) for size in sizes[0]] == [0.65, 0.02]
    assert says("book/index.md", "With three blocks, four times as many steps help as much.")
    longer = [f"quick-why@epochs=32,learning_rate={arm}" for arm in (f"0.004/{TABLE}", f"0.0005/{ROPE}")]
    assert (
        lead((longer[0], small)).mean > 0.8 * lead((large, small)).mean
        and lead((longer[1], longer[0])).low < 0
    )
    assert says("book/objections.md", "On digits the gap is the size at which the table starts")
    assert lead((rope, large)).high < 0
    claim = "On digits such a lead depends on the size at which the table starts and on the number of steps"
    assert says("src/rollpe_book/claims.yaml", claim)
    rolled = f"quick-why@learning_rate=0.001/{ROLL}", f"quick-why@epochs=32,learning_rate=0.002/{ROLL}"
    assert lead((rolled[0], small)).low > 10 and lead((rolled[0], large)).high < 0
    assert lead((rolled[1], longer[0])).high < 10
    assert says("book/encodings.md", "About that of the tokens is best on digits and on text")
    assert mean(f"quick-why@learning_rate=0.004/{TABLE}@std=0.2") < mean(large)
    assert says("README.md", "On text, where tokens are small as well, 0.02 is best.")
    assert says("book/index.md", "On text, where the characters start at 0.02, too, a larger table is worse.")
    text = [values(f"text-why/{TABLE}{option}") for option in ("", "@std=0.1", "@std=0.5")]
    assert max(text[0].values()) < min(text[1].values()) < max(text[1].values()) < min(text[2].values())


def test_rollpe_and_rope_on_digits_depend_on_the_rate() -> None:
    assert says("README.md", "On digits in 4×4 patches RollPE is ahead of RoPE at one learning rate.")
    assert lead((f"quick/{ROLL}", f"quick/{ROPE}")).low > 0
    assert says("README.md", "With the best rate for each it is open, 94.2 and 93.6 %.")
    own = f"quick-spacing@learning_rate=0.001/{ROLL}", f"quick-spacing/{ROPE}"
    assert rounded(*own) == [94.2, 93.6] and lead(own).p > 0.05
    assert says("README.md", "RoPE with waves of 2 to 16 patches, which has 96.0 %.")
    assert rounded(f"quick-spacing/{RANGE}", f"quick-twist/{ROLL}") == [96.0, 95.8]


def test_the_twin_is_ahead_on_digits() -> None:
    assert says("book/index.md", "by 1.25 points in a $4 \\times 4$ grid and by 3.98 in an $8 \\times 8$ one")
    four = ("quick", "quick-twist", "quick-spacing@learning_rate=0.001")
    eight = ("quick@patch_size=1", "quick-twist8", "order", "quick@patch_size=1,qkv_bias=false")
    both = [lead(*((f"{name}/roll-twin", f"{name}/roll") for name in names)) for names in (four, eight)]
    assert [f"{found.mean:.2f}" for found in both] == ["1.25", "3.98"] and all(f.low > 0 for f in both)


def test_multiplexed_rollpe_is_level_once_its_logits_are() -> None:
    assert says("book/index.md", "scaled to their size, it is level with them.")
    scaled = lead(("mini/multiplexed-roll@scale=sqrt", f"mini/{ROPE}"))
    assert abs(scaled.mean) < 0.5 and scaled.p > 0.05


def test_waves_of_the_ring_gain_nothing_on_photographs() -> None:
    assert says("book/encodings.md", "On CIFAR-100 it gains nothing in ten epochs.")
    assert lead((f"ladder/{RANGE}", f"ladder/{ROPE}")).mean < 0


def test_the_papers_model_has_one_run_of_each_encoding() -> None:
    arms = (ROPE, "roll", "learned", "multiplexed-roll")
    at = {rate: [mean(f"{rate}/{arm}") for arm in arms] for rate in ("short", HALF)}
    assert all([*values(f"{rate}/{arm}")] == [0] for arm in arms for rate in at)
    (rope, rolled, table, several), twice = at[HALF], at["short"]
    assert [f"{m:.1f}" for m in at[HALF][:3]] == ["67.6", "66.8", "62.8"]
    assert says("README.md", "of two learning rates: RoPE 67.6 %, RollPE 66.8 %, a learned table 62.8 %.")
    assert says("book/index.md", "of the paper's, RoPE has 67.6 %, RollPE 66.8 %, the table 62.8 %.")
    assert says("book/objections.md", "RoPE has 67.6 %, RollPE 66.8 % and the table 62.8 %, where the paper")
    printed = [PAPER_TABLE_1[arm].mean for arm in arms[:3]]
    assert printed == [72.4, 72.1, 64.2]
    assert says("book/objections.md", "where the paper has 72.4, 72.1 and 64.2 %")
    assert [f"{gap:.1f}" for gap in (rope - table, rope - rolled)] == ["4.8", "0.7"]
    assert says("book/index.md", "RoPE leads the table by 4.8 points and RollPE by 0.7.")
    assert says("README.md", "RollPE is 0.7 points behind RoPE, in one run of each.")
    assert says("README.md", "RoPE leads by 4.8 points, in one pair of runs")
    assert round(rolled - several) == 12
    assert says("book/index.md", "is 12 points behind RollPE.")
    gains = [a - b for a, b in zip(at[HALF], twice, strict=True)]
    assert min(gains) > 9 and [round(min(gains)), round(max(gains))] == [9, 32]
    assert says("README.md", "it is 8.5 behind, and every encoding is worse by 9 points or more.")
    assert says("book/index.md", "is worse by 9 points or more, and RollPE is behind the table.")
    assert says("book/run.md", "four encodings gain 9 to 32 points")
    assert f"{twice[0] - twice[1]:.1f}" == "8.5" and twice[1] < twice[2]
    assert f"{twice[1]:.1f}" == "48.8"
    often, large = (lead((f"{HALF}/{TABLE}@{o}", f"{HALF}/{TABLE}")) for o in ("every_block=true", "std=0.5"))
    assert [(g.n, f"{g.mean:.2f}") for g in (often, large)] == [(1, "1.25"), (1, "-3.06")]
    assert 0.2 < often.mean / (rope - table) < 0.3
    for page in ("README.md", "book/index.md"):
        assert says(page, "a table drawn at 0.5 is 3.1 points worse")
        assert says(page, "one before every block takes back a quarter of")
    assert says("book/encodings.md", "a much smaller one in the paper's model")
    assert says("book/objections.md", "At 0.001 RollPE had 48.8 %, behind the table")
    better = [mean(f"{HALF}/{arm}", held_out) - mean(f"short/{arm}", held_out) for arm in arms]
    assert min(better) > 0
    assert mean(f"{HALF}/learned", training_loss) > mean(f"{HALF}/{ROPE}", training_loss) + 0.1
    assert says("README.md", "and the table fits its training images worse.")
    took = [
        run.provenance.wall_seconds
        for a, runs in runs_by_arm().items()
        if a.startswith("short")
        for run in runs.values()
    ]
    assert says("book/run.md", f"took {min(took):.0f} to {max(took):.0f} seconds")
    assert 20 < 12 * np.mean(took) / 60 < 30, "minutes, without compiling"
    epochs = [load_recipe(name).epochs for name in ("short", "strong", "paper")]
    assert epochs == [50, 100, 400] and says(
        "book/run.md", "`strong` has twice as many epochs, `paper` eight times."
    )
    for page in ("run", "index", "objections"):
        assert says(f"book/{page}.md", "about half an hour")
    at_first = [runs[0] for arm, runs in runs_by_arm().items() if arm.startswith("short/")]
    speeds = [round(run.throughput, -2) for run in at_first]
    assert len(speeds) == 6 and says("book/run.md", "`short` has one run of six encodings")
    assert says("book/run.md", f"at {min(speeds):,.0f} to {max(speeds):,.0f} images a second.")


def test_the_faulty_runs_are_those_of_cudnns_attention() -> None:
    folder = ROOT / "data/faulty/h200-2026-11-26"
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    assert [round(100 * run["test"]["accuracy"]) for run in runs] == [16, 7, 8, 15]
    assert says("book/objections.md", "Four earlier runs on the GPU had 7 to 16 %.")
    measured = (folder / "check.txt").read_text(encoding="utf-8")
    cosines = {k: re.findall(rf"x1 bfloat16 {k} .*cosine (\S+)", measured) for k in ("flash", "cudnn")}
    assert [f"{float(c):.2f}" for c in sorted(cosines["cudnn"])] == ["0.46", "0.61", "0.70"]
    assert [f"{float(c):.2f}" for c in cosines["flash"]] == ["1.00"] * 3
    assert says(
        "book/objections.md", "0.46, 0.61 and 0.70 for three encodings, and that of flash attention 1.00."
    )
    losses = {
        name: [f"{float(loss):.2f}" for loss in re.findall(rf"{name} +epoch \d loss (\S+)", measured)]
        for name in ("cuDNN", "flash")
    }
    assert losses == {"cuDNN": ["4.47", "4.34", "4.24"], "flash": ["4.44", "4.23", "4.10"]}
    rope = next(run for run in runs if run["encoding"] == "axial-rope")
    faulty = [epoch["train_loss"] for epoch in rope["history"][:3]]
    assert all(abs(a - float(b)) < 0.02 for a, b in zip(faulty, losses["cuDNN"], strict=True))
    assert says("data/README.md", "4.47, 4.34 and 4.24 with cuDNN, as the faulty run does to 0.02")
    assert says("data/README.md", "4.44, 4.23 and 4.10 without it")
