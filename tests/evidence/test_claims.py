"""The ledger of claims: complete, decided by rules, and never by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
import yaml
from pydantic import ValidationError

from rollpe.encodings import grid_positions
from rollpe.topography import attention_by_offset, pack_correlations
from rollpe_book.checks import Check
from rollpe_book.claims import (
    VERDICTS,
    Claim,
    Verdict,
    by_document,
    counts,
    details,
    ledger,
    load_claims,
    sources,
    tally,
    to_markdown,
)
from rollpe_lab.training import load_plan
from shared import DISPLAYED, ROOT, make_record

CLAIM = {
    "id": "a-claim",
    "source": "paper",
    "place": "Sec. 1",
    "kind": "empirical",
    "claim": "One thing is better than another.",
    "refuted_by": "The other thing being better.",
}


def claim(**fields):
    quoted = {"quote": "One thing is better."} if "fails" in fields.get("checks", {}) else {}
    return Claim.model_validate(CLAIM | quoted | fields)


def judged(rule, of, margin=None, **more):
    return claim(records={"rule": rule, "of": of, "margin": margin, **more})


def results(*labels, failed=()):
    marks = {label: "✗" if label in failed else "✓" for label in labels}
    return {label: Check(label, "04-rolling", mark, "largest error") for label, mark in marks.items()}


LABELS = [label for _, _, label in DISPLAYED]


NOTHING: dict[str, Check] = {}


def verdict_on(some_claim, records=(), checks=NOTHING, arrays=lambda record: {}) -> Verdict:
    (found,) = ledger(checks, list(records), [some_claim], arrays=arrays)
    return found


# The ledger as it stands


def test_every_document_has_claims_and_a_claim_one_kind_of_evidence_that_fits_it():
    assert {c.source for c in load_claims()} == set(sources())
    for c in load_claims():
        assert len(c.refuted_by) > 20, c.id
        assert [c.checks, c.records, c.needs].count(None) == 2, c.id
        assert c.kind != "mathematical" or c.records is None, c.id
        assert c.kind != "empirical" or c.checks is None, c.id


def test_every_check_that_a_claim_names_exists():
    for c in load_claims():
        assert not c.checks or set(c.checks.labels) <= set(LABELS), c.id


def test_every_rule_on_runs_can_be_decided_by_the_plans():
    planned = Counter(
        (p.recipe.name, p.run_id.slug) for plan in (ROOT / "plans").glob("*.yaml") for p in load_plan(plan)
    )
    for c in load_claims():
        for arm in c.records.arms if c.evidence == "by training" else ():
            enough = planned[c.records.scope.recipe, arm] >= c.records.seeds
            assert enough or arm.startswith("printed/"), (c.id, arm)


@pytest.mark.parametrize("c", [c for c in load_claims() if c.checks], ids=lambda c: c.id)
def test_flipping_any_check_that_a_claim_names_undoes_its_verdict(c):
    assert verdict_on(c, checks=results(*LABELS)).verdict != "not tested"
    for label in c.checks.labels:
        undone = verdict_on(c, checks=results(*LABELS, failed=[label]))
        assert undone.verdict == "not tested" and undone.broken and label in undone.grounds
        missing = verdict_on(c, checks=results(*{*LABELS} - {label}))
        assert missing.verdict == "not tested" and not missing.broken and label in missing.grounds


def test_without_other_evidence_the_printed_table_decides_what_it_can():
    found = {v.claim.id: v for v in ledger({}, [])}
    for v in found.values():
        assert v.grounds, v.claim.id
        assert v.claim.evidence == "on the paper's table" or v.verdict == "not tested", v.claim.id
    assert found["paper-roll-beats-learned-printed"].verdict == "reproduced"
    assert found["paper-multiplexed-better-printed"].verdict == "reproduced"
    assert "p = 0.041" in found["paper-multiplexed-better-printed"].grounds
    assert found["paper-multiplexed-beats-rope-printed"].verdict == "undecided"


# The rules


def test_checks_give_the_three_verdicts():
    for checks, expected in (
        ({"holds": ["eq-good"]}, "reproduced"),
        ({"fails": ["eq-wrong"]}, "refuted"),
        ({"fails": ["eq-wrong"], "corrected_by": ["eq-good"]}, "corrected"),
    ):
        c = claim(kind="mathematical", checks=checks, instead="What holds.")
        assert verdict_on(c, checks=results("eq-good", "eq-wrong")).verdict == expected


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"needs": "A measurement.", "checks": {"holds": ["eq-roll"]}},
        {"checks": {"holds": ["eq-roll"], "fails": ["eq-roll"]}},
        {"checks": {"holds": ["eq-roll"], "corrected_by": ["eq-roll"]}, "instead": "Something."},
        {"checks": {"fails": ["eq-roll"], "corrected_by": ["eq-roll"]}},
        {"checks": {"fails": ["eq-roll"]}, "quote": None},
        {"checks": {"holds": ["eq-roll"]}, "quote": "One thing is better."},
        {"records": {"rule": "looks-good", "of": "quick: roll - none"}},
        {"records": {"rule": "better", "of": "quick: roll - none"}},  # no margin
        {"records": {"rule": "better", "of": "strong loudness: roll - learned", "margin": 0.5}},
        {"records": {"rule": "better", "of": "printed: roll - lie", "margin": 0.5}},
        {"needs": "A measurement that nobody made.", "kind": "plausible"},
        {"needs": "A measurement that nobody made.", "verdict": "reproduced"},  # by hand
    ],
)
def test_a_claim_without_exactly_one_sensible_kind_of_evidence_is_refused(fields):
    with pytest.raises(ValidationError):
        claim(**fields)


def beside(lead):
    """Arrays of a ring of 16 whose neighbors are correlated by that much more than any two channels."""
    by_distance = np.full(9, 0.1 - 2 * lead / 13)  # of 15 partners two are neighbors; the mean of all is 0.1
    by_distance[:2] = 1, 0.1 + lead
    correlation = np.broadcast_to(by_distance, (2, 3, 2, 9))
    return {"query_correlation": correlation, "key_correlation": correlation}


def biased(slope, swaps=0):
    """Arrays of a causal model whose mean bias is a line in the offset, with some neighbors exchanged."""
    offsets = np.arange(-40, 1, dtype=np.float32)
    line = slope * offsets
    for first in range(swaps):
        at = -2 - 2 * first  # Δ = −1 and −2, then −3 and −4 …
        line[[at, at - 1]] = line[[at - 1, at]]
    line[offsets < -16] = 99  # beyond the reach of the rule
    spread = np.random.default_rng(swaps).normal(size=(2, 3, 1))  # of no account: a constant for each head
    return {"bias": (line + spread).astype(np.float32), "offsets": offsets[:, None]}


def leaning(towards_later, rows=2, columns=5):
    """Arrays of attention on a grid: later patches get that much more of all attention than earlier ones."""
    any_share = torch.rand(2, 3, *[rows * columns] * 2, generator=torch.Generator().manual_seed(0))
    shares = [any_share.triu(1), any_share.tril(-1)]
    later, earlier = (share / share.sum((-1, -2), keepdim=True) for share in shares)
    attention = (1 + towards_later) / 2 * later + (1 - towards_later) / 2 * earlier
    offsets, by_offset = attention_by_offset(attention, grid_positions(rows, columns))
    return {"attention": by_offset.numpy(), "offsets": offsets.numpy()}


CHANGES = {  # by measure, the fields of a record that has a value
    "kept at # above #": lambda two: {"test": accuracy(two[0]), "resolutions": {"12": two[1] / 100}},
    "bits": lambda value: {"bits": {"64": value, "128": 4 - value}},
    "bits #": lambda value: {"bits": {"64": 4 - value, "128": value}},
    "gap": lambda value: {"plain_train_loss": 1 - value},
    "speed": lambda value: {"throughput": value},
}


def framed(kind: str):
    """Correlations of 8 channels: of a map, of one bump of varying strength, or of none of them."""
    angle = 2 * torch.pi * (torch.arange(8)[:, None] - torch.arange(8)) / 8
    bump = torch.tensor([1.0, 1, 1, 1, -1, -1, -1, -1])
    r = {
        "map": 0.6 * angle.cos() + 0.4 * torch.eye(8),
        "half a map": 0.7 * torch.outer(bump, bump) + 0.2 * angle.cos() + 0.1 * torch.eye(8),
        "bump": 0.9 * torch.outer(bump, bump) + 0.1 * torch.eye(8),
        "none": torch.eye(8),
    }[kind]
    return {"frames": pack_correlations(r).expand(2, 2, 1, 1, 1, -1).numpy()}


ARRAYS = {
    "lead of neighbors": beside,
    "lead beyond the first component": framed,
    "decay #": lambda line: biased(*line),
    "later": leaning,
}


def accuracy(percents):
    """The test of a record, with 10,000 images."""
    return make_record(right=round(100 * percents), images=10_000).test


def runs(c, *arms):
    """Records of what a claim compares, a run for each value of its measure; and the arrays beside them."""
    records, found = [], {}
    scope = c.records.scope
    change = CHANGES.get(scope.name, lambda value: {} if scope.name in ARRAYS else {"test": accuracy(value)})
    for arm, values in zip(("roll", "learned"), arms, strict=False):
        for seed, value in enumerate(values):
            record = make_record(arm, 150, seed, scope.recipe)
            records.append(record.model_copy(update=change(value)))
            if scope.name in ARRAYS and value is not None:
                found[arm, seed] = ARRAYS[scope.name](value)
    return records, lambda record: found.get((record.encoding, record.seed), {})


HIGH, LOW, NEAR = (72.0, 72.2, 72.1), (64.0, 65.0, 64.5), (72.1, 72.3, 72.4)
BITS, FEWER, LOSSES = (2.300, 2.311, 2.305), (2.10, 2.11, 2.12), (0.5, 0.49, 0.495)
LEAN, SAME, FLAT, AHEAD = (0.1, 0.102, 0.104), (100.0,) * 3, (72.0,) * 3, (72.05, 72.15, 72.2)
KEPT_MUCH, KEPT_LITTLE = ((72, 70.0), (72, 70), (72, 70.1)), ((74, 60),) * 3
LOST, GUESSED = ((20, 10.5), (20, 10), (20, 10)), ((9, 10.5), (9.5, 10), (10, 10))
ROLL, GAP, SPEED, LATER, KEPT = (
    f"quick{measure}: roll - learned" for measure in ("", " gap", " speed", " later", " kept at 12 above 10")
)
PAPER, ORDER, DECAY = "paper: roll - printed/roll", "quick lead of neighbors: roll", "text decay 16: roll"
TEXT, MAP = "text bits: learned - roll", "quick lead beyond the first component: roll"
CASES = [  # rule, of, margin and the runs of learned; runs of roll with the verdict
    (("better", ROLL, 0.5, LOW), {HIGH: "reproduced", HIGH[:2]: "not tested", (): "not tested"}),
    (("better", ROLL, 0.5, HIGH), {LOW: "refuted", AHEAD: "refuted", (70.0, 72.0, 74.0): "undecided"}),
    (("better", ROLL, 0.5, SAME), {SAME: "undecided", FLAT: "not tested"}),  # all is classified; no spread
    (("differ", ROLL, 0.5, NEAR), {(75.0, 75.2, 75.1): "reproduced", (69.0, 69.2, 69.1): "reproduced"}),
    (("differ", ROLL, 0.5, NEAR), {(72.1, 72.35, 72.3): "refuted", (69.0, 72.0, 75.5): "undecided"}),
    (("equivalent", ROLL, 1.0, NEAR), {HIGH: "reproduced", (73.0, 74.9, 72.0): "undecided"}),
    (("equivalent", ROLL, 1.0, NEAR), {(75.0, 75.2, 75.1): "refuted", (69.0, 69.2, 69.1): "refuted"}),
    (("not-worse", ROLL, 1.0, NEAR), {(75.0, 75.2, 75.1): "reproduced", HIGH: "reproduced"}),
    (("not-worse", ROLL, 1.0, NEAR), {(69.0, 69.2, 69.1): "refuted", (69.0, 72.0, 73.5): "undecided"}),
    (("not-worse", SPEED, 5.0, NEAR), {(71.0, 71.1, 71.2): "reproduced", (65.0, 65.1, 65.2): "refuted"}),
    (("near-printed", PAPER, 2.0, ()), {HIGH: "reproduced", SAME: "undecided", HIGH[:1]: "not tested"}),
    (("better", KEPT, 0.5, KEPT_LITTLE), {KEPT_MUCH: "reproduced", GUESSED: "not tested"}),
    (("better", KEPT, 0.5, KEPT_LITTLE), {LOST: "refuted"}),  # it had less to lose
    (("better", TEXT, 0.02, BITS), {FEWER: "reproduced", (2.4, 2.41, 2.42): "refuted", (2.1,): "not tested"}),
    (("better", TEXT, 0.02, BITS), {(2.305, 2.306, 2.304): "refuted", (2.1, 2.3, 2.5): "undecided"}),
    (("better", "text bits 128: learned - roll", 0.02, BITS), {FEWER: "reproduced"}),
    (("better", "text bits 32: learned - roll", 0.02, BITS), {FEWER: "not tested"}),
    (("better", GAP, 0.02, LOSSES), {(0.8, 0.79, 0.78): "reproduced", (0.2, 0.19, 0.18): "refuted"}),
    (("better", GAP, 0.02, LOSSES), {(0.505, 0.494, 0.5): "refuted", (0.8, 0.5, 0.2): "undecided"}),
    (("ordered", ORDER, 0.1, ()), {(0.65, 0.66, 0.67): "reproduced", (0.01, -0.02, 0.0): "refuted"}),
    (("ordered", ORDER, 0.1, ()), {(0.05, 0.06, 0.055): "refuted", (0.3, -0.1, 0.1): "undecided"}),
    (("ordered", ORDER, 0.1, ()), {(0.65, 0.66, None): "not tested"}),
    (("mapped", MAP, 0.1, ()), {("map",) * 3: "reproduced", ("none",) * 3: "refuted"}),
    (("mapped", MAP, 0.1, ()), {("half a map",) * 3: "undecided", ("bump",) * 3: "refuted"}),
    (("mapped", MAP, 0.1, ()), {("map", "map", "half a map"): "undecided", ("map", "map"): "not tested"}),
    (("decays", DECAY, -0.9, ()), {((1, 0), (1, 1), (1, 2)): "reproduced", ((1,),) * 3: "reproduced"}),
    (("decays", DECAY, -0.9, ()), {((-1,),) * 3: "refuted", ((1,), (1,), (-1,)): "undecided"}),
    (("decays", DECAY, -0.9, ()), {((1,), (1,), None): "not tested"}),
    (("later", LATER, 0.02, LEAN), {(0.2, 0.22, 0.24): "reproduced", (-0.2, -0.22, -0.24): "refuted"}),
    (("later", LATER, 0.02, LEAN), {(0.11, 0.112, 0.108): "refuted", (-0.2, 0.1, 0.5): "undecided"}),
    (("later", LATER, 0.02, LEAN), {(0.2, 0.22): "not tested"}),
]


@pytest.mark.parametrize(
    ("rule", "of", "margin", "b", "a", "expected"),
    [(*rule, a, verdict) for rule, verdicts in CASES for a, verdict in verdicts.items()],
)
def test_runs_decide_by_a_rule_and_one_example_never_refutes(rule, of, margin, b, a, expected):
    for example in (False, True):
        c = judged(rule, of, margin, example=example)
        records, arrays = runs(c, a, b)
        found = verdict_on(c, records, arrays=arrays)
        fell_alone = example and expected == "refuted"
        assert found.verdict == ("undecided" if fell_alone else expected), found.grounds
        assert ("one example" in c.records.words()) <= example
        assert ("not repeated" in found.grounds) == (rule == "near-printed" and expected == "undecided")


@pytest.mark.parametrize(
    ("of", "a", "b", "grounds"),
    [
        (ROLL, LOW, HIGH, "-7.60 points [-8.78, -6.42], Welch p = 0.00099, n = 3 + 3."),
        (ROLL, SAME, SAME, "no difference in any run, 100 points, n = 3 + 3"),
        (ROLL, HIGH[:2], (), "recipe quick: roll has 2 of 3 seeds, learned has 0 of 3 seeds"),
        (ROLL, FLAT, SAME, "a and b have no spread"),
        (ROLL, (70.0, 72.0, 74.0), HIGH, "; 0.5 points need about "),
        (ROLL, AHEAD, HIGH, "; less than 0.5 points ahead"),
        (TEXT, FEWER, BITS, "+0.195 bits ["),
        (GAP, (0.8, 0.79, 0.78), LOSSES, "+0.295 nats ["),
        (KEPT, KEPT_MUCH, KEPT_LITTLE, "+18.7"),
        (LATER, (0.2, 0.22, 0.24), LEAN, "+0.118 ["),
    ],
)
def test_the_grounds_tell_the_finding(of, a, b, grounds):
    c = judged("better", of, 0.5)
    records, arrays = runs(c, a, b)
    assert grounds in f"{verdict_on(c, records, arrays=arrays).grounds}."


def test_seeds_are_counted_once_other_recipes_not_at_all_and_no_runs_that_may_not_be_compared():
    c, speed = judged("better", ROLL, 0.5), judged("not-worse", SPEED, 5.0)
    few, _ = runs(c, HIGH[:2], LOW)
    other, _ = runs(judged("better", "mini: roll - learned", 0.5), HIGH)
    assert "roll has 2 of 3 seeds" in verdict_on(c, few + few[:2] + other).grounds
    records, _ = runs(c, HIGH, LOW)
    first, elsewhere = records[0], records[0].environment.model_copy(update={"device_name": "another"})
    newer = verdict_on(c, [first.model_copy(update={"protocol": 2}), *records[1:]])
    moved = verdict_on(speed, [first.model_copy(update={"environment": elsewhere}), *records[1:]])
    assert newer.verdict == moved.verdict == "not tested"
    assert "not comparable" in newer.grounds and "different devices" in moved.grounds


@pytest.mark.parametrize("of", [GAP, LATER, "quick bits: learned - roll", "quick at 12: roll - learned"])
def test_records_that_lack_a_measure_are_missing_runs(of):
    c = judged("better", of, 0.5)
    records, _ = runs(judged("better", ROLL, 0.5), HIGH, LOW)
    assert verdict_on(c, records).grounds == "recipe quick: roll has 0 of 3 seeds, learned has 0 of 3 seeds"


# What is shown


def test_the_counts_cover_every_claim_in_a_fixed_order():
    verdicts = ledger(results(*LABELS), [])
    assert tuple(counts(verdicts)) == VERDICTS
    assert sum(counts(verdicts).values()) == len(verdicts) == len(load_claims())
    assert counts([]) == dict.fromkeys(VERDICTS, 0)


def test_a_tally_keeps_formulas_and_printed_numbers_apart_from_experiments():
    formula = claim(kind="mathematical", checks={"holds": ["eq-roll"]})
    printed = judged("better", "printed: roll - learned", 0.5)
    trained = judged("better", ROLL, 0.5)
    decided = ledger(results("eq-roll"), [], [formula, printed, trained, trained])
    assert tally(decided) == ["2 reproduced (1 formulas, 1 on the paper's table)", "2 not tested"]
    some = [*decided, Verdict(trained, "refuted", ""), Verdict(trained, "undecided", "")]
    assert tally(some[-1:]) == ["1 undecided"] and tally([]) == []


def test_the_page_shows_every_claim_and_what_holds_instead_only_where_it_was_shown():
    verdicts = ledger(results(*LABELS), [])
    page = to_markdown(verdicts)
    for v in verdicts:
        assert v.claim.claim in page
        if v.claim.instead:
            assert (v.claim.instead in page) == (v.verdict in ("corrected", "refuted")), v.claim.id
    assert "Checks failed" not in page and "Holds instead" not in to_markdown(ledger({}, []))
    assert "−0.30 points [−0.95, +0.35]" in page and "axial-rope" in page, "a minus is no hyphen"
    label = next(c for c in load_claims() if c.checks).checks.labels[0]
    page = to_markdown(ledger(results(*LABELS, failed=[label]), []))
    assert "**Checks failed**" in page and f"FAILED: {label}" in page


def test_a_claim_is_one_line_and_its_grounds_are_named_for_what_they_are():
    verdicts = ledger(results(*LABELS), [])
    assert sum(map(len, by_document(verdicts).values())) == len(verdicts)
    for claims in by_document(verdicts).values():
        wrong = [v.verdict in ("refuted", "corrected") for v in claims]
        assert wrong == sorted(wrong, reverse=True), "what is wrong comes first"
    for v in verdicts:
        found = details(v)
        grounds = "Missing" if v.verdict == "not tested" else "Result"
        grounds = "Checks" if v.claim.checks else grounds
        assert found.keys() & {"Checks", "Missing", "Result"} == {grounds}
        assert ("Rule" in found) == (v.claim.records is not None)
        fell = v.verdict in ("corrected", "refuted")
        assert ("Refuted by" in found) == fell != ("Would be refuted by" in found)
        assert all(text == text.strip() and text[-1] in ".!?)" for text in found.values()), found


def test_a_ledger_with_one_id_twice_or_a_foreign_document_is_refused(tmp_path):
    entry = CLAIM | {"needs": "A measurement that nobody made."}
    for claims, reason in (([entry, entry], "used twice"), ([entry | {"source": "rumor"}], "rumor")):
        path = tmp_path / f"{reason.split()[0]}.yaml"
        path.write_text(yaml.safe_dump({"sources": {"paper": "A paper"}, "claims": claims}))
        with pytest.raises(ValueError, match=reason):
            load_claims(path)


def test_a_claim_that_waits_for_its_recipe_says_what_others_show():
    def runs(recipe: str, **right: list[int]) -> list:
        return [
            make_record(name.replace("_", "-"), n, seed, recipe, images=1000)
            for name, numbers in right.items()
            for seed, n in enumerate(numbers)
        ]

    found = [
        *runs("mini@epochs=2", learned=[200], axial_rope=[210]),
        *runs("mini@epochs=5", learned=[300], axial_rope=[318]),
        *runs("mini", learned=[400, 402], axial_rope=[430, 430, 431]),  # the third is in no pair
        *runs("ladder", learned=[404], axial_rope=[430]),
        *runs("ladder@epochs=30", learned=[540], axial_rope=[584]),
        *runs("ladder@depth=10", learned=[1], axial_rope=[900]),
    ]
    claim = "circles-rope-strong"
    told = {v.claim.id: details(v).get("Meanwhile", "") for v in ledger({}, found)}
    assert told[claim].startswith("axial-rope − learned under other recipes: +2.93 points [")
    assert "+4.40 points after 30 epochs of it (n = 1 + 1)" in told[claim]
    assert "twice the blocks" in told[claim]
    decided = ledger({}, [*found, *runs("strong", learned=[600, 601, 602], axial_rope=[700, 701, 702])])
    assert not next(v for v in decided if v.claim.id == claim).meanwhile
    assert {v.verdict for v in ledger({}, found) if v.meanwhile} == {"not tested"}
