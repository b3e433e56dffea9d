"""Sentences about results on pages without cells: each stands there, word for word, and its runs say so."""

from __future__ import annotations

import json
import re

from rollpe_lab.evidence.words import lead, mean, training_loss, values
from shared import ROOT

TABLE, ROPE, ROLL = "learned", "axial-rope", "roll"
RANGE = "axial-rope@wavelengths=[2.0,16.0]"


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


def test_models_with_a_table_do_not_fit_digits() -> None:
    for page in ("README.md", "book/index.md"):
        assert says(page, "On digits deeper models with a table do not fit their training images.")
    for depth in (3, 6, 12):
        table, rope = (mean(f"quick-depth@depth={depth}/{arm}", training_loss) for arm in (TABLE, ROPE))
        assert table > 2 * rope
    assert says("book/encodings.md", "is far behind on digits, where its models do not fit")
    assert gap("quick").low > 5


def test_rollpe_and_rope_on_digits_depend_on_the_rate() -> None:
    assert says("README.md", "On digits in 4×4 patches RollPE is ahead of RoPE at one learning rate.")
    assert lead((f"quick/{ROLL}", f"quick/{ROPE}")).low > 0
    assert says("README.md", "With the best rate for each it is open, 94.2 and 93.6 %.")
    own = f"quick-spacing@learning_rate=0.001/{ROLL}", f"quick-spacing/{ROPE}"
    assert says("book/index.md", "On digits ahead of RoPE at one learning rate, not with a rate for each.")
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


def test_the_runs_on_a_gpu_went_another_way_than_on_a_processor() -> None:
    folder = ROOT / "data/faulty/h200-2026-11-26"
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    assert [round(100 * run["test"]["accuracy"]) for run in runs] == [16, 7, 8, 15]
    assert says("book/objections.md", "did not train: 7 to 16 % after 50 epochs.")
    first = next(run for run in runs if run["encoding"] == "learned" and not run["encoding_options"])
    assert [f"{epoch['train_loss']:.3f}" for epoch in first["history"][:2]] == ["4.460", "4.364"]
    replayed = re.findall(r"loss (\S+)", (folder / "replay.txt").read_text(encoding="utf-8"))
    assert [f"{float(loss):.3f}" for loss in replayed] == ["4.447", "4.265"]
    assert says("book/objections.md", "has a mean loss of 4.265 in its second epoch, on the GPU 4.364.")
    assert says(
        "data/README.md", "Its mean training loss is 4.447 and 4.265, that on the GPU 4.460 and 4.364."
    )
    speed = {run["encoding"]: round(run["throughput"], -2) for run in runs if not run["encoding_options"]}
    assert (speed["learned"], speed["axial-rope"]) == (28400, 24100)
    assert says("book/run.md", "28,400 images a second with a learned table, 24,100 with RoPE.")
