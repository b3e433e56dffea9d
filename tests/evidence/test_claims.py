"""The ledger of claims: complete, decided by rules, and never by hand."""

from __future__ import annotations

from collections import Counter

import pytest

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
from rollpe_book.rules import RULES
from rollpe_lab.evidence import inside
from rollpe_lab.statistics import Printed
from rollpe_lab.training import load_plan
from shared import DISPLAYED, ROOT, make_record, make_text_record

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


def judged(rule, *arms, recipe="quick", margin=0.5, **more):
    return claim(records={"rule": rule, "of": [recipe, *arms], "margin": margin, **more})


def results(*labels, failed=()):
    marks = {label: "✗" if label in failed else "✓" for label in labels}
    return {label: Check(label, "04-rolling", mark, "largest error") for label, mark in marks.items()}


LABELS = [label for _, _, label in DISPLAYED]


NOTHING: dict[str, Check] = {}


def verdict_on(some_claim, records=(), checks=NOTHING) -> Verdict:
    (found,) = ledger(checks, list(records), [some_claim])
    return found


# The ledger as it stands


def test_every_document_has_claims_and_a_claim_one_kind_of_evidence_that_fits_it():
    assert {c.source for c in load_claims()} == set(sources())
    assert len({c.id for c in load_claims()}) == len(load_claims())
    for c in load_claims():
        if c.checks:
            assert bool(c.checks.holds) != bool(c.checks.fails) == bool(c.quote), c.id
            assert c.instead or not c.checks.corrected_by, c.id
        assert not c.records or c.records.rule in RULES, c.id
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
            assert planned[c.records.recipe, arm] >= c.records.seeds, (c.id, arm)


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


HIGH, LOW = [72.0, 72.2, 72.1], [64.0, 65.0, 64.5]
SAME, WIDE = [100.0] * 3, [70.0, 72.0, 74.0]


@pytest.mark.parametrize(
    ("rule", "margin", "verdicts"),  # by a − b, or by a, in runs that differ by a tenth
    [
        ("better", 0.5, {-0.3: "refuted", 0.15: "refuted", 0.4: "reproduced"}),
        ("differ", 0.5, {0.15: "refuted", 0.4: "reproduced", -0.4: "reproduced"}),
        ("equivalent", 1.0, {0.7: "reproduced", 1.0: "undecided", 1.3: "refuted", -1.3: "refuted"}),
        ("near_printed", 1.0, {0.7: "reproduced", 1.3: "undecided"}),  # of another recipe
        ("ordered", 1.0, {1.3: "reproduced", 1.0: "undecided", 0.7: "refuted"}),
        ("ordered alone", 71.0, {1.3: "reproduced", 1.0: "undecided", 0.7: "refuted"}),
        ("not_worse", 1.0, {-0.7: "reproduced", -1.0: "undecided", -1.3: "refuted", 0.5: "reproduced"}),
    ],
)
def test_every_verdict_of_a_rule_turns_at_its_threshold(rule, margin, verdicts):
    near, wide = ([70 + width * x for x in (-0.1, 0.0, 0.1)] for width in (1, 50))
    rule, _, alone = rule.partition(" ")
    others = {"near_printed": Printed(70.0, 0.1, 3)} | ({rule: None} if alone else {})
    for shift, expected in verdicts.items():
        verdict, found = RULES[rule]([x + shift for x in near], others.get(rule, near), margin, "points")
        assert verdict == expected, (shift, found)
        assert ("not repeated" in found) == (rule == "near_printed" and expected == "undecided")
    if not alone:
        verdict, found = RULES[rule](wide, others.get(rule, near), margin, "points")
        assert verdict == "undecided" and f"{margin:g} points need about" in found


def runs(c, *arms):
    """Records of what a claim compares, a run for each percentage."""
    return [
        make_record(name, round(100 * value), seed, c.records.recipe, images=10_000)
        for name, values in zip(c.records.arms, arms, strict=False)
        for seed, value in enumerate(values)
    ]


def test_one_example_never_refutes():
    c, example = (judged("better", "roll", "learned", example=e) for e in (False, True))
    assert verdict_on(c, runs(c, LOW, HIGH)).verdict == "refuted"
    assert verdict_on(example, runs(c, LOW, HIGH)).verdict == "undecided"
    assert verdict_on(example, runs(c, HIGH, LOW)).verdict == "reproduced"
    assert "one example" in example.records.words() and "one example" not in c.records.words()


@pytest.mark.parametrize(
    ("a", "b", "grounds"),
    [
        (LOW, HIGH, "-7.60 points [-8.78, -6.42], Welch p = 0.00099, n = 3 + 3."),
        (SAME, SAME, "no difference in any run, 100 points, n = 3 + 3"),
        (HIGH[:2], (), "recipe quick: roll has 2 of 3 seeds, learned has 0 of 3 seeds"),
        ([72.0] * 3, SAME, "a and b have no spread"),
        (WIDE, HIGH, "; 0.5 points need about "),
        ([72.05, 72.15, 72.2], HIGH, "; less than 0.5 points ahead"),
    ],
)
def test_the_grounds_tell_the_finding(a, b, grounds):
    c = judged("better", "roll", "learned")
    assert grounds in f"{verdict_on(c, runs(c, a, b)).grounds}."


def test_a_quantity_is_read_from_records_and_missing_where_they_lack_it():
    c = judged("better", "roll", "learned", of_what="overfitting", margin=0.02)
    records = runs(c, HIGH, LOW)
    assert "roll has 0 of 3 seeds" in verdict_on(c, records).grounds
    loss = {"roll": 0.2, "learned": 0.5}  # of training images; that of test images is 1
    records = [r.model_copy(update={"plain_train_loss": loss[r.encoding] + 0.01 * r.seed}) for r in records]
    assert verdict_on(c, records).grounds.startswith("+0.300 nats [")
    text = judged("better", "shaw", "learned", of_what="extrapolation", margin=0.02, recipe="text")
    longer = {"shaw": 2.5, "learned": 3.0}
    made = [make_text_record(e, 2.4, bits + s / 100, s) for e, bits in longer.items() for s in range(3)]
    assert verdict_on(text, made).verdict == "reproduced"
    assert verdict_on(text, made).grounds.startswith("+0.500 bits [")


def test_a_run_with_fewer_than_two_directions_is_no_map(monkeypatch):
    c = judged("ordered", "roll", of_what="map", margin=0.1)
    for directions, lead, expected in (
        (2.5, 0.4, "reproduced"),
        (1.5, 0.4, "undecided"),  # ordered channels
        (1.5, 0.0, "refuted"),
        (2.5, 0.0, "refuted"),
    ):
        monkeypatch.setattr(inside, "directions", lambda run, n=directions: n)
        monkeypatch.setattr(inside, "lead_beyond_first", lambda run, x=lead: x + 0.01 * run.seed)
        assert verdict_on(c, runs(c, HIGH)).verdict == expected, (directions, lead)


def test_seeds_are_counted_once_other_recipes_not_at_all_and_no_runs_that_may_not_be_compared():
    c = judged("better", "roll", "learned")
    speed = judged("not_worse", "roll", "learned", of_what="speed", margin=5.0)
    few, other = runs(c, HIGH[:2], LOW), runs(judged("better", "roll", "learned", recipe="mini"), HIGH)
    assert "roll has 2 of 3 seeds" in verdict_on(c, few + few[:2] + other).grounds
    records = runs(c, HIGH, LOW)
    first, elsewhere = records[0], records[0].environment.model_copy(update={"device_name": "another"})
    newer = verdict_on(c, [first.model_copy(update={"protocol": 2}), *records[1:]])
    moved = verdict_on(speed, [first.model_copy(update={"environment": elsewhere}), *records[1:]])
    assert newer.verdict == moved.verdict == "not tested"
    assert "not comparable" in newer.grounds and "different devices" in moved.grounds


# What is shown


def test_the_counts_cover_every_claim_in_a_fixed_order():
    verdicts = ledger(results(*LABELS), [])
    assert tuple(counts(verdicts)) == VERDICTS
    assert sum(counts(verdicts).values()) == len(verdicts) == len(load_claims())
    assert counts([]) == dict.fromkeys(VERDICTS, 0)


def test_a_tally_keeps_formulas_and_printed_numbers_apart_from_experiments():
    formula = claim(kind="mathematical", checks={"holds": ["eq-roll"]})
    printed = judged("better", "roll", "learned", recipe="printed")
    trained = judged("better", "roll", "learned")
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
