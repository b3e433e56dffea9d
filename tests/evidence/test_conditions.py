"""Conditions on results: what they say is true exactly when the records say so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from refusals import refused
from rollpe.topography import pack_correlations
from rollpe_lab.evidence.conditions import Evidence, judge, objection
from rollpe_lab.evidence.measures import measures_table
from shared import make_record, make_text_record

RUNS = {  # images of a thousand that runs classify correctly
    ("strong", "none"): (500, 505, 502),
    ("strong", "roll"): (700, 703, 701),
    ("strong", "roll-twin"): (701, 704, 699),
    ("strong", "axial-rope"): (690, 720),
    ("strong@topography=ring", "roll"): (640, 645, 650),
}
ORDER = {"roll": 0.5, "roll-twin": 0.95}


def arrays(record):
    """A ring of four channels whose neighbors correlate as ORDER says."""
    if record.bits:  # a rise of one nat at the fourth position beyond the trained length, 64
        loss = np.where(np.arange(512) < 67, 1.0, 2.0)
        return {"loss_by_position": loss, "offsets": np.arange(-63, 64)[:, None]}
    near = ORDER.get(record.encoding)
    if near is None:
        return {}
    both = {"correlation": [1.0, near, 0.0], "spectrum": [0.25, 0.5, 0.25], "roughness": near}
    return {f"{which}_{k}": np.array([[[v] * 2]]) for which in ("query", "key") for k, v in both.items()}


@pytest.fixture(scope="module")
def evidence():
    records = [
        make_record(encoding, right, seed, recipe, images=1000).model_copy(
            update={"resolutions": {"48": right / 2000}, "shifts": {"4": right / 4000}}
        )
        for (recipe, encoding), arm in RUNS.items()
        for seed, right in enumerate(arm)
    ]
    options = {"speeds": [1, 1]}
    records.append(make_record("multiplexed-roll", 710, 0, "strong", options, images=1000))
    records += [make_text_record("roll", 2.3, 2.5), make_text_record("rope", 2.25, 4.0)]
    costs = {"cpu": {"none": 1.0, "roll": 1.1}}
    verdicts = {"paper-one": "not tested"}
    return Evidence(records, arrays=arrays, costs=costs, verdicts=verdicts)


@pytest.mark.parametrize(
    "condition",
    [
        "strong: roll > none; 19 < roll - none < 21; roll - roll = 0",
        "strong: none < axial-rope < 70.9 < multiplexed-roll@speeds=[1,1] < 71.5",
        "strong: roll - none > 0, Holm 0.05; @topography=ring/roll - roll < 0, Welch 0.05",
        "strong: roll - none > 19, one-sided 0.05; roll < 70.4, one-sided 0.05; none > -1, one-sided 0.05",
        "strong: roll - printed/roll < -1.5, one-sided 0.05; roll-twin - roll is within 2, TOST 0.05",
        "strong: roll - none is clear; none - roll is clear; no pair of roll, roll-twin, axial-rope is clear",
        "strong: every pair of roll, roll-twin, axial-rope is open",
        "strong seeds 0..2: roll-twin - roll is open, Welch 0.05; roll - none is clear, Welch 0.05",
        "strong at 48: roll - none > 0, Holm 0.05; roll-twin - roll is open, Holm 0.05",
        "strong: only none < 69; only axial-rope of none, roll, axial-rope > 70.4",
        "strong: none is lowest; multiplexed-roll@speeds=[1,1] is highest",
        "strong: axial-rope is highest of none, roll-twin",
        "strong: every run of roll > every run of none; every run of roll > 69.9",
        "strong: none, roll have 3 runs; axial-rope has 2 runs; none, roll, axial-rope have at least 2 runs",
        "strong: some run of roll > 70.2; some run of roll < 70.1; every run of roll < 70.4",
        "strong seeds 1..1: axial-rope > 71.9",
        "strong moved 4: 17 < roll < 18",
        "strong kept at 48 above 10: 40 < roll < 42",
        "strong neighbors: roll-twin > roll > 0.4; roll-twin is highest; only roll < 0.9",
        "strong roughness: every run of roll < every run of roll-twin",
        "strong any two: 0.3 < roll < 0.34; 0.6 < roll-twin < 0.65",
        "strong agreement: roll ~ none < roll ~ roll-twin",
        "strong agreement p: roll ~ none < roll ~ roll-twin; none ~ roll|roll-twin < 0.05",
        "text bits: rope < roll < 2.31",
        "text bits 512-64: 0.19 < roll < 0.21; every run of rope > 1.7; only roll < 0.5; roll is lowest",
        "text jump: 0.89 < roll < 0.91",  # five of eight positions, log2 e each
        "text jump at 64: 0.89 < roll < 0.91",
        "text jump at 66: 1.25 < roll < 1.27; rope = roll",  # seven of eight
        "text jump at 128: every run of roll = 0",
        "printed: multiplexed-roll > axial-rope > roll > learned; roll - learned > 0, Welch 0.05",
        "cost cpu: 1 < roll < 1.2",
        "measured: strong, strong/roll, cost cpu",
        "not measured: quick, strong/lie, cost cuda",
        "ledger: paper-one is not tested",
    ],
)
def test_true_conditions_meet_no_objection(condition, evidence):
    assert objection(condition, evidence) is None


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("strong: none > roll", "none is 50.23, roll is 70.13"),
        ("strong: roll-twin - roll < 0, Holm 0.05", "p is 1.000"),
        ("strong: none - roll > 0, Holm 0.05", "none - roll is -19.9"),
        ("strong: axial-rope - roll > 0, Welch 0.05", "p is"),
        ("strong: roll - none is open", "it is clear"),
        ("strong seeds 0..2: roll-twin - roll is clear, Welch 0.05", "p is"),
        ("strong: roll-twin - roll is within 0.1, TOST 0.05", "p is"),
        ("strong: no pair of none, roll, roll-twin is clear", "roll - none is clear"),
        ("strong: every pair of none, roll, roll-twin is open", "roll - none is clear"),
        ("strong: only axial-rope of none, roll, axial-rope > 70", "roll is 70.13"),
        ("strong: roll is highest", "multiplexed-roll@speeds=[1,1] is"),
        ("strong: only lie > 0", "lie is not measured"),
        ("strong: every run of axial-rope > every run of roll", "a run of axial-rope has 69"),
        ("strong: some run of roll > 70.4", "roll has 70.3"),
        ("strong: some run of printed/roll > 1", "no single runs"),
        ("strong: none, axial-rope have 3 runs", "axial-rope has 2 of 3"),
        ("strong: roll - none > 20, one-sided 0.05", "roll - none is +19.90 points ["),
        ("strong at 64: roll > 0", "strong at 64: roll is not measured"),
        ("strong: lie - none is open", "does not compare lie and none"),
        ("strong neighbors: none < 1", "none is not measured"),
        ("cost cuda: roll < 2", "cost cuda: roll is not measured"),
        ("not measured: strong/roll", "strong/roll: measured"),
        ("ledger: paper-one is refuted", "paper-one is not tested"),
    ],
)
def test_false_conditions_are_contradicted_by_a_finding(condition, says, evidence):
    found = objection(condition, evidence)
    assert found is not None
    assert says in found


def test_an_exploratory_pair_is_neither_clear_nor_open():
    runs = {"none": 500, "roll": 700}
    records = [make_record(e, n + s, s, "strong", images=1000) for e, n in runs.items() for s in range(3)]
    evidence = Evidence(records, later={r.run_id.path for r in records if r.seed})
    assert objection("strong: roll - none is exploratory; no pair of none, roll is clear", evidence) is None
    assert objection("strong: every pair of none, roll is open", evidence) == "roll - none is exploratory"
    assert objection("strong: no pair of none, roll is exploratory", evidence) == "roll - none is exploratory"


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("roll leads", "no condition"),
        ("strong: roll leads", "no statement"),
        ("strong or quick: roll > none", "no scope"),
        ("strong at 48: roll - none is clear", "no verdicts"),
        ("strong: roll ~ none > 0", "only agreement"),
        ("strong agreement: roll > 0", "compares pairs"),
        ("ledger: paper-two is refuted", "no claim"),
        ("printed: lie > 1", "prints no lie"),
        ("strong: roll-twin - roll > -1, Holm 0.05", "no statement"),
    ],
)
def test_what_is_no_condition_is_refused(condition, says, evidence):
    with refused(says):
        objection(condition, evidence)


def inside(record):
    """Of two layers, on a ring of eight channels whose responses follow one bump of varying strength."""
    alike = pack_correlations(torch.ones(8, 8)).numpy()
    correlation = np.array([0.2, 0.6])[:, None, None, None] * np.ones((2, 1, 1, 5))
    return {
        "slow_waves": np.array([3.0, 1.04, 1.2, 1.03, 1.0]),
        "strong_waves": np.array([1.5, 1.1, 1.0, 1.0, 1.0]),
        "frames": np.broadcast_to(alike, (2, 2, 2, 1, 1, 28)),
        "frame_query_coherence": np.array([[[0.9], [1.0]], [[0.1], [0.3]]]),
        "query_correlation": correlation,
        "key_correlation": correlation + 0.1,
    }


@pytest.mark.parametrize(
    "condition",
    [
        "order slow waves 1: 1.99 < roll < 2.01",
        "order strong waves 2: 0.09 < roll < 0.11; roll is lowest",
        "order slow waves needed within 0.1: roll = 4",  # two suffice alone, but not three
        "order slow waves needed within 0.01: roll = 5",
        "order slow waves needed within 0.5: roll = 2",
        "order slow waves needed within 2.5: roll = 1",
        "order coherence 1: 0.94 < roll < 0.96",
        "order coherence 2: 0.19 < roll < 0.21",
        "order coherence 2, last layer - first: 0.19 < roll < 0.21",
        "order neighbors, last layer - first: 0.39 < roll < 0.41",
        "order participation: roll = 1",
        "order share of distance: roll = 0",
        "order lead beyond the first component: -0.01 < roll < 0.01",
        "order neighbors: roll = -fourier/roll",
        "order: -fourier/roll > roll; roll - -fourier/roll < 0, Welch 0.05",
    ],
)
def test_what_is_inside_models_is_read_off_the_arrays_and_compared_across_recipes(condition):
    runs = [make_record("roll", 500 + seed, seed, "order", images=1000) for seed in range(3)]
    runs += [make_record("roll", 600 + seed, seed, "order-fourier", images=1000) for seed in range(3)]
    assert objection(condition, Evidence(runs, arrays=inside)) is None


def test_a_table_of_measures_has_a_row_for_each_arm_and_says_what_is_not_measured(evidence):
    arms = {"RollPE": "roll", "with a penalty": "@topography=ring/roll", "table": "learned"}
    columns = {"accuracy": "strong", "neighbors": "strong neighbors"}
    head, _, roll, penalty, table = measures_table(evidence, arms, columns).splitlines()
    assert head == "| encoding | accuracy | neighbors | runs |"
    low, high = stats.t.interval(0.95, 2, 70.1333, np.std([70, 70.3, 70.1], ddof=1) / 3**0.5)
    row = roll.replace("\N{NO-BREAK SPACE}", " ")
    assert row == f"| RollPE | 70.1 [{low:.1f}, {high:.1f}] | 0.50 [0.50, 0.50] | 3 |"
    assert penalty.startswith("| with a penalty | 64.5")
    assert table == "| table | not measured | not measured | 0 |"


@pytest.mark.parametrize("scope", ["strong at 48", "strong moved 4", "strong seeds 0..2"])
def test_holm_of_a_measure_is_over_the_family_of_the_recipe(scope, evidence):
    """Accuracy at 48 and moved by 4 is a fixed share of the other, so that every p is the same."""
    by_accuracy, alone, by_measure = (
        judge(f"{where}: roll - none > 0, {method} 0.05", evidence).numbers["p"]
        for where, method in (("strong", "Holm"), (scope, "Welch"), (scope, "Holm"))
    )
    assert by_measure == pytest.approx(by_accuracy) and by_measure > 2 * alone
    assert "does not compare" in objection(f"{scope}: roll - multiplexed-roll > 0, Holm 0.05", evidence)
