"""Words of asserts: means, differences and verdicts of runs, and nothing that rests on no run."""

from __future__ import annotations

import pytest
from scipy import stats

from refusals import refused
from rollpe_lab.evidence import words
from rollpe_lab.records.record import by_cell
from rollpe_lab.statistics import holm
from shared import make_record, make_text_record

RIGHT = {  # runs of a thousand images
    "strong/none": (500, 505, 502),
    "strong/roll": (700, 703, 701),
    "strong/roll-twin": (701, 704, 699),
    "strong/axial-rope": (690, 720),
    "strong@topography=ring/roll": (640, 645, 650),
    "one/roll": (500,),
    "one/axial-rope": (480,),
}


@pytest.fixture
def runs(monkeypatch):
    made = [
        make_record(arm.partition("/")[2], right, seed, arm.partition("/")[0], images=1000).model_copy(
            update={"resolutions": {"48": right / 2000}, "shifts": {"4": right / 4000}}
        )
        for arm, numbers in RIGHT.items()
        for seed, right in enumerate(numbers)
    ]
    made += [make_record("axial-rope", 500, 7, "seven", images=1000), make_text_record("roll", 2.3, 2.5)]
    by_arm = {arm: {run.seed: run for run in found} for arm, found in by_cell(made).items()}
    monkeypatch.setattr(words, "runs_by_arm", lambda: by_arm)
    words._family.cache_clear()
    yield
    words._family.cache_clear()


def test_a_measure_is_read_from_every_run_or_some(runs):
    assert words.values("strong/roll") == pytest.approx({0: 70.0, 1: 70.3, 2: 70.1})
    assert words.values("strong/roll", seeds=range(1, 3)) == pytest.approx({1: 70.3, 2: 70.1})
    assert words.mean("strong/roll") == pytest.approx(70 + 2 / 15)
    assert words.least("strong/roll") == pytest.approx(70.0) and words.most("strong/roll") == 70.3
    assert words.means("strong/roll", "strong/none") == [70.1, 50.2]
    assert words.means("strong/roll", measure=words.at(48)) == [35.1]
    assert words.means("strong/roll", measure=words.moved(4), digits=0) == [18.0]
    assert words.means("text/roll", measure=words.bits(512)) == [2.5]
    assert words.means("text/roll", measure=words.lost(64, 512)) == [0.2]
    assert words.measured("strong") and words.measured("strong/roll")
    assert not words.measured("stro") and not words.measured("strong/lie")


def test_a_lead_is_the_paired_test_and_pairs_of_arms_are_taken_together(runs):
    known = stats.ttest_rel([70, 70.3, 70.1], [50, 50.5, 50.2])
    found = words.lead(("strong/roll", "strong/none"))
    assert (found.mean, found.n, found.p) == pytest.approx((19.9, 3, known.pvalue))
    assert (found.low, found.high) == pytest.approx((*known.confidence_interval(),))
    both = words.lead(("strong/axial-rope", "strong/roll"), ("one/roll", "one/axial-rope"))
    assert both.p == pytest.approx(stats.ttest_1samp([-1, 1.7, 2], 0).pvalue)
    one = words.lead(("one/roll", "one/axial-rope"))
    assert (one.mean, one.n, one.p, str(one)) == (2, 1, None, "+2.00")


def test_a_difference_is_welchs_test_of_all_runs(runs):
    found = words.difference("strong/axial-rope", "strong/roll")
    known = stats.ttest_ind([69, 72], [70, 70.3, 70.1], equal_var=False)
    assert (found.difference, found.p) == pytest.approx((70.5 - 70.4 / 3 - 140 / 3, known.pvalue))
    assert words.equivalence("strong/roll-twin", "strong/roll", 2) < 0.05
    assert words.equivalence("strong/roll-twin", "strong/roll", 0.1) > 0.05


def test_a_verdict_is_that_of_the_family_in_either_direction(runs):
    assert (
        words.verdict("strong/roll", "strong/none") == words.verdict("strong/none", "strong/roll") == "clear"
    )
    assert words.verdict("strong/roll-twin", "strong/roll") == "open"
    assert words.verdict("strong@topography=ring/roll", "strong/roll") == "clear"
    pairs = [("roll", "none"), ("roll-twin", "none"), ("roll-twin", "roll"), ("axial-rope", "none")]
    pairs += [("axial-rope", "roll"), ("axial-rope", "roll-twin"), ("@topography=ring/roll", "roll")]
    full = [[words.path_of("strong", arm) for arm in pair] for pair in pairs]
    p = holm([words.difference(*pair, words.at(48)).p for pair in full])
    for pair, expected in zip(full, p, strict=True):
        assert words.adjusted(*pair, words.at(48)) == pytest.approx(expected)


def test_what_rests_on_no_run_is_refused(runs):
    for says, ask in (
        ("x/roll: no committed run", lambda: words.mean("x/roll")),
        ("strong/roll: no run with this measure", lambda: words.mean("strong/roll", words.at(64))),
        ("strong/roll: no run with this measure", lambda: words.mean("strong/roll", seeds=[9])),
        ("no seed in common", lambda: words.lead(("one/roll", "seven/axial-rope"))),
        ("are not compared", lambda: words.verdict("one/roll", "strong/roll")),
    ):
        with refused(says):
            ask()


def test_a_table_shows_interval_and_runs_and_what_is_not_measured(runs):
    columns = {"accuracy": words.score, "at 48": words.at(48), "at 64": words.at(64)}
    table = words.measures_table({"RollPE": "strong/roll", "LieRE": "strong/lie"}, columns)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert rows[0] == ["encoding", "accuracy", "at 48", "at 64", "runs"]
    space = words.NO_BREAK
    assert rows[2] == ["RollPE", f"70.1{space}[69.8,{space}70.5]", f"35.1{space}[34.9,{space}35.3]"] + [
        "not measured",
        "3",
    ]
    assert rows[3] == ["LieRE", *["not measured"] * 3, "0"]
    assert words.summary("one/roll") == "50.0" and words.summary("strong/roll", seeds=[1]) == "70.3"
