"""The ledger of claims: complete, decided by rules, and never by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
import yaml
from pydantic import ValidationError

from rollpe.encodings import ENCODINGS, encoding_options, grid_positions
from rollpe.equations import EQUATIONS, CheckResult, run_checks
from rollpe.evidence.claims import (
    CLAIMS,
    VERDICTS,
    Claim,
    Verdict,
    by_document,
    can_be_tested,
    counts,
    decided_by_training,
    details,
    ledger,
    load_claims,
    sources,
    tally,
    to_markdown,
)
from rollpe.evidence.table import PAPER_TABLE_1
from rollpe.topography import attention_by_offset
from rollpe.training import load_plan
from shared import ROOT, make_record

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


def result(label, passed=True):
    error = 1e-15 if passed else 0.5
    return CheckResult(label, "05-rolling", (), "", error, 1e-12, passed, 12)


def all_passed():
    return [result(label) for label in EQUATIONS]


def verdict_on(some_claim, records=(), checks=()) -> Verdict:
    (found,) = ledger(checks, list(records), [some_claim])
    return found


def runs(encoding, accuracies, recipe="strong", at=None, speed=100.0, parameters=10, device="a processor"):
    """One record for each accuracy in percent, with 10,000 test images."""
    records = []
    for seed, accuracy in enumerate(accuracies):
        record = make_record(encoding, round(100 * accuracy), seed, recipe, images=10_000)
        differing = {
            "parameters": parameters,
            "resolutions": {} if at is None else {"12": at / 100 + 0.001 * seed},
            "throughput": speed * (1 + 0.001 * seed),
            "environment": record.environment.model_copy(update={"device_name": device}),
        }
        records.append(record.model_copy(update=differing))
    return records


BETTER = {"rule": "better", "recipe": "strong", "a": "roll", "b": "learned"}
BITS = BETTER | {"recipe": "text", "measure": "bits", "negligible": 0.02}


# The ledger as it stands


def test_every_document_has_claims_and_every_kind_occurs():
    assert (
        {c.source for c in load_claims()} == set(sources()) == {"paper", "order", "circles", "equivariance"}
    )
    assert {c.kind for c in load_claims()} == {"mathematical", "empirical", "interpretive"}


def test_ids_are_unique_and_every_claim_has_a_refutation_and_a_rule():
    ids = [c.id for c in load_claims()]
    assert len(set(ids)) == len(ids)
    for c in load_claims():
        assert len(c.refuted_by) > 20, c.id
        assert [c.checks, c.records, c.needs, c.untestable].count(None) == 3, c.id
        assert len(c.rule()) > 20, c.id


def test_no_verdict_is_written_in_the_ledger():
    """No key or value of the file is a verdict; rules name evidence only."""

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.items():
                yield key
                yield from walk(value)
        elif isinstance(node, list):
            for value in node:
                yield from walk(value)
        else:
            yield node

    contents = yaml.safe_load(CLAIMS.read_text(encoding="utf-8"))
    words = {word for word in walk(contents) if isinstance(word, str)}
    assert not words & {*VERDICTS, "verdict", "true", "false"}
    assert "verdict" not in Claim.model_fields
    with pytest.raises(ValidationError, match="verdict"):
        claim(needs="A measurement that nobody made.", verdict="reproduced")


def test_every_check_that_a_claim_names_exists_and_can_be_run():
    named = {label: c.id for c in load_claims() if c.checks for label in c.checks.labels}
    assert named.keys() <= EQUATIONS.keys(), named.keys() - EQUATIONS.keys()
    unchecked = {label for label in named if EQUATIONS[label].function is None}
    assert not unchecked, unchecked


def test_every_encoding_that_a_rule_names_exists():
    for c in load_claims():
        for slug in (getattr(c.records, name, None) for name in ("a", "b", "encoding")):
            if slug is not None:
                name, _, options = slug.partition("@")
                assert name in ENCODINGS, c.id
                given = dict(pair.split("=") for pair in options.split(",") if pair)
                assert given.keys() <= encoding_options(name).keys(), c.id
                assert getattr(c.records, "recipe", "") != "printed" or slug in PAPER_TABLE_1, c.id


def test_mathematical_claims_rest_on_checks_and_interpretive_ones_on_no_number():
    for c in load_claims():
        assert c.kind != "mathematical" or c.records is None, c.id
        assert c.kind != "empirical" or c.checks is None, c.id
        assert c.kind != "interpretive" or c.needs or c.untestable, c.id
        assert c.kind == "interpretive" or not c.untestable, c.id


def test_the_checks_decide_every_claim_that_rests_on_checks():
    named = {label for c in load_claims() if c.checks for label in c.checks.labels}
    for v in ledger(run_checks(sorted(named), seed=7), []):
        if v.claim.checks:
            assert v.verdict != "not tested" and not v.broken, f"{v.claim.id}: {v.grounds}"


@pytest.mark.parametrize("c", [c for c in load_claims() if c.checks], ids=lambda c: c.id)
def test_flipping_any_check_that_a_claim_names_undoes_its_verdict(c):
    results = all_passed()
    decided = verdict_on(c, checks=results)
    assert decided.verdict != "not tested"
    for label in c.checks.labels:
        flipped = [result(r.label, r.label != label) for r in results]
        undone = verdict_on(c, checks=flipped)
        assert undone.verdict == "not tested" and undone.broken and label in undone.grounds
        missing = verdict_on(c, checks=[r for r in results if r.label != label])
        assert missing.verdict == "not tested" and not missing.broken and label in missing.grounds


def test_without_any_evidence_only_the_printed_table_decides():
    for v in ledger([], []):
        printed = getattr(v.claim.records, "recipe", None) == "printed"
        without = "no test possible" if v.claim.untestable else "not tested"
        assert printed or v.verdict == without, v.claim.id
        assert v.grounds


def test_the_printed_numbers_decide_what_they_can():
    found = {v.claim.id: v for v in ledger([], [])}
    assert found["paper-roll-beats-learned-printed"].verdict == "reproduced"
    assert found["paper-multiplexed-better-printed"].verdict == "reproduced"
    assert "p = 0.041" in found["paper-multiplexed-better-printed"].grounds
    assert found["paper-multiplexed-beats-rope-printed"].verdict == "undecided"


# The rules for checks


def test_checks_give_the_four_verdicts():
    results = [result("eq-good"), result("eq-wrong"), result("eq-broken", passed=False)]
    for checks, expected in (
        ({"holds": ["eq-good"]}, "reproduced"),
        ({"fails": ["eq-wrong"]}, "refuted"),
        ({"fails": ["eq-wrong"], "corrected_by": ["eq-good"]}, "corrected"),
        ({"holds": ["eq-good", "eq-broken"]}, "not tested"),
        ({"fails": ["eq-wrong"], "corrected_by": ["eq-broken"]}, "not tested"),
        ({"holds": ["eq-absent"]}, "not tested"),
    ):
        c = claim(kind="mathematical", checks=checks, instead="What holds.")
        assert verdict_on(c, checks=results).verdict == expected


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"needs": "A measurement.", "checks": {"holds": ["eq-roll"]}},
        {"checks": {"holds": ["eq-roll"], "fails": ["eq-roll"]}},
        {"checks": {"holds": ["eq-roll"], "corrected_by": ["eq-roll"]}, "instead": "Something."},
        {"checks": {"fails": ["eq-roll"], "corrected_by": ["eq-roll"]}},
        {"checks": {"corrected_by": ["eq-roll"]}},
        {"checks": {"fails": ["eq-roll"]}, "quote": None},
        {"checks": {"holds": ["eq-roll"]}, "quote": "One thing is better."},
        {"records": {"rule": "looks-good"}},
        {"records": {"rule": "better", "recipe": "strong", "a": "roll", "b": "none", "resolution": 12}},
        {"records": {"rule": "better", "recipe": "strong", "a": "roll", "b": "none", "measure": "kept"}},
        {"records": {"rule": "equivalent", "recipe": "strong", "a": "roll", "b": "none"}},
        {"needs": "A measurement that nobody made.", "kind": "plausible"},
        {"untestable": "It defines nothing.", "needs": "A measurement.", "kind": "interpretive"},
        {"untestable": "It defines nothing.", "kind": "empirical"},
        {"records": {"rule": "better", "recipe": "text", "a": "rope", "b": "none", "measure": "bits"}},
        {"records": {"rule": "better", "recipe": "text", "a": "rope", "b": "none", "length": 64}},
        {"records": BITS | {"measure": "gap"}},
        {"records": BITS | {"rule": "more"}},
    ],
)
def test_a_claim_without_exactly_one_sensible_kind_of_evidence_is_refused(fields):
    with pytest.raises(ValidationError):
        claim(**fields)


# The rules for records


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((72.0, 72.2, 72.1), (64.0, 65.0, 64.5), "reproduced"),
        ((64.0, 65.0, 64.5), (72.0, 72.2, 72.1), "refuted"),
        ((72.0, 72.1, 72.2), (72.0, 72.1, 72.15), "refuted"),  # the lead is shown to be negligible
        ((70.0, 72.0, 74.0), (69.0, 71.0, 74.0), "undecided"),  # too noisy to say
        ((100.0, 100.0, 100.0), (100.0, 100.0, 100.0), "undecided"),  # both classify everything
        ((72.0, 72.2), (64.0, 65.0, 64.5), "not tested"),  # too few seeds
        ((), (), "not tested"),
    ],
)
def test_better_follows_welchs_test_and_the_smallest_lead_that_counts(a, b, expected):
    found = verdict_on(claim(records=BETTER), runs("roll", a) + runs("learned", b))
    assert found.verdict == expected, found.grounds


def test_the_same_records_support_the_claim_and_speak_against_its_opposite():
    records = runs("roll", (72.0, 72.2, 72.1)) + runs("learned", (64.0, 65.0, 64.5))
    opposite = BETTER | {"a": "learned", "b": "roll"}
    assert verdict_on(claim(records=opposite), records).verdict == "refuted"


def test_seeds_are_counted_once_and_other_recipes_not_at_all():
    few = runs("roll", (72.0, 72.2)) * 2 + runs("learned", (64.0, 65.0, 64.5))
    found = verdict_on(claim(records=BETTER), few + runs("roll", (72.0, 72.1, 72.2), recipe="quick"))
    assert found.verdict == "not tested" and "roll has 2 of 3 seeds" in found.grounds


def test_records_that_may_not_be_compared_decide_nothing():
    records = runs("roll", (72.0, 72.2, 72.1)) + runs("learned", (64.0, 65.0, 64.5))
    records[0] = records[0].model_copy(update={"protocol": 2})
    found = verdict_on(claim(records=BETTER), records)
    assert found.verdict == "not tested" and "not comparable" in found.grounds


@pytest.mark.parametrize(
    ("rule", "a", "expected"),
    [
        ("equivalent", (72.0, 72.2, 72.1), "reproduced"),
        ("equivalent", (73.0, 74.9, 72.0), "undecided"),
        ("equivalent", (75.0, 75.2, 75.1), "refuted"),
        ("equivalent", (69.0, 69.2, 69.1), "refuted"),
        ("not-worse", (75.0, 75.2, 75.1), "reproduced"),
        ("not-worse", (72.0, 72.2, 72.1), "reproduced"),
        ("not-worse", (69.0, 69.2, 69.1), "refuted"),
        ("not-worse", (69.0, 72.0, 73.5), "undecided"),
    ],
)
def test_margins_are_two_sided_for_equivalence_and_one_sided_for_not_worse(rule, a, expected):
    records = runs("roll", a) + runs("learned", (72.1, 72.3, 72.4))
    found = verdict_on(claim(records=BETTER | {"rule": rule, "margin": 1.0}), records)
    assert found.verdict == expected, found.grounds


def test_runs_without_spread_decide_nothing():
    records = runs("roll", (72.0,) * 3) + runs("learned", (64.0,) * 3)
    assert "no spread" in verdict_on(claim(records=BETTER), records).grounds


KEPT = BETTER | {"measure": "kept", "resolution": 12, "chance": 10}


def test_kept_compares_what_another_resolution_leaves_of_the_accuracy_above_chance():
    records = runs("roll", (72.0, 72.2, 72.1), at=70) + runs("learned", (74.0, 74.2, 74.1), at=60)
    found = verdict_on(claim(records=KEPT), records)
    assert found.verdict == "reproduced" and found.grounds.startswith("+18.62 percent")  # 96.6 − 78.0
    records = runs("roll", (72.0, 72.2, 72.1)) + runs("learned", (74.0, 74.2, 74.1), at=60)
    assert "roll has 0 of 3 seeds" in verdict_on(claim(records=KEPT), records).grounds


def test_who_reads_little_does_not_win_by_having_little_to_lose():
    records = runs("roll", (60.0, 60.2, 60.1), at=10.5) + runs("learned", (80.0, 80.2, 80.1), at=20)
    assert verdict_on(claim(records=KEPT), records).verdict == "refuted", "50 points lost are worse than 60"
    records = runs("roll", (9.0, 9.5, 10.0), at=10.5) + runs("learned", (80.0, 80.2, 80.1), at=20)
    assert "roll has 0 of 3 seeds" in verdict_on(claim(records=KEPT), records).grounds


def test_speed_is_compared_in_percent_and_only_on_one_device():
    rule = BETTER | {"rule": "not-worse", "measure": "speed", "margin": 5.0}
    values = (72.0, 72.2, 72.1)
    for speed, expected in ((98.0, "reproduced"), (90.0, "refuted")):
        records = runs("roll", values, speed=speed) + runs("learned", values)
        assert verdict_on(claim(records=rule), records).verdict == expected
    records = runs("roll", values, device="another") + runs("learned", values)
    assert "different devices" in verdict_on(claim(records=rule), records).grounds


def test_near_printed_compares_with_table_1():
    rule = {"rule": "near-printed", "recipe": "paper", "encoding": "roll", "margin": 2.0}
    for values, expected in (
        ((72.0, 72.3, 71.9), "reproduced"),
        ((78.0, 78.3, 77.9), "undecided"),
        ((70.0, 74.0, 78.0), "undecided"),
        ((72.0,), "not tested"),
    ):
        found = verdict_on(claim(records=rule), runs("roll", values, "paper"))
        assert found.verdict == expected
        assert ("not repeated" in found.grounds) == (min(values) > 75)


def text_runs(encoding, bits, longer=3.0):
    """One record of the recipe text for each number of bits per character in windows of 64 characters."""
    records = runs(encoding, [50.0] * len(bits), "text")
    return [
        record.model_copy(update={"bits": {"64": few, "128": longer + few}})
        for record, few in zip(records, bits, strict=True)
    ]


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        ((2.10, 2.11, 2.12), "reproduced"),
        ((2.40, 2.41, 2.42), "refuted"),
        ((2.305, 2.306, 2.304), "refuted"),  # a lead of less than 0.02 bits
        ((2.1, 2.3, 2.5), "undecided"),
        ((2.1, 2.11), "not tested"),
        ((), "not tested"),
    ],
)
def test_fewer_bits_are_better(a, expected):
    records = text_runs("roll", a) + text_runs("learned", (2.300, 2.311, 2.305))
    found = verdict_on(claim(records=BITS), records)
    assert found.verdict == expected, found.grounds
    if expected == "reproduced":
        assert found.grounds.startswith("+0.195 bits [")
        assert "b − a > 0" in found.claim.rule(), "the lead is the other way round than that of accuracies"


def test_bits_are_those_of_the_trained_length_unless_a_rule_names_another():
    records = text_runs("roll", (2.1, 2.11, 2.12)) + text_runs("learned", (2.3, 2.31, 2.32), longer=0.0)
    for length, expected in ((None, "reproduced"), (64, "reproduced"), (128, "refuted")):
        found = verdict_on(claim(records=BITS | {"length": length}), records)
        assert found.verdict == expected, (length, found.grounds)
    assert "roll has 0 of 3 seeds" in verdict_on(claim(records=BITS | {"length": 32}), records).grounds
    of_images = runs("roll", (70.0, 71.0, 72.0), "text") + records[3:]
    assert "roll has 0 of 3 seeds" in verdict_on(claim(records=BITS), blank(of_images)).grounds


def blank(records):
    """Records with the fields of text and of overfitting, as files without them are read."""
    return [r.model_copy(update={"bits": getattr(r, "bits", {}), "plain_train_loss": None}) for r in records]


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        ((0.2, 0.21, 0.22), "reproduced"),  # plain training losses: the lower, the more overfitting
        ((0.8, 0.81, 0.82), "refuted"),
        ((0.495, 0.506, 0.5), "refuted"),  # shown to be negligible
        ((0.2, 0.5, 0.8), "undecided"),
        ((0.2,), "not tested"),
    ],
)
def test_a_gap_is_what_the_test_loss_exceeds_the_plain_training_loss_by(a, expected):
    rule = BITS | {"rule": "more", "measure": "gap", "recipe": "quick"}
    records = []
    for encoding, losses in (("roll", a), ("learned", (0.5, 0.51, 0.505))):
        for record, loss in zip(runs(encoding, [70.0] * len(losses), "quick"), losses, strict=True):
            records.append(record.model_copy(update={"plain_train_loss": loss}))
    found = verdict_on(claim(records=rule), records)
    assert found.verdict == expected, found.grounds
    if expected == "reproduced":
        assert found.grounds.startswith("+0.295 nats")
        assert "roll has 0 of 3" in verdict_on(claim(records=rule), blank(records)).grounds
        one_of_many = rule | {"a": "learned", "b": "roll", "example": True}
        assert verdict_on(claim(records=one_of_many), records).verdict == "undecided"


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        ((75.0, 75.2, 75.1), "reproduced"),
        ((69.0, 69.2, 69.1), "reproduced"),
        ((72.1, 72.35, 72.3), "refuted"),
        ((69.0, 72.0, 75.5), "undecided"),
        ((69.0, 72.0), "not tested"),
    ],
)
def test_a_difference_counts_in_either_direction(a, expected):
    rule = {**BETTER, "rule": "differ"}
    records = runs("roll", a) + runs("learned", (72.1, 72.3, 72.4))
    assert verdict_on(claim(records=rule), records).verdict == expected
    turned = rule | {"a": "learned", "b": "roll"}
    assert verdict_on(claim(records=turned), records).verdict == expected


@pytest.mark.parametrize("rule", [{"rule": "better"}, {"rule": "not-worse", "margin": 1.0}])
def test_one_example_can_show_a_claim_and_never_refute_it(rule):
    for a, alone, one_of_many in (
        ((75.0, 75.2, 75.1), "reproduced", "reproduced"),
        ((69.0, 69.2, 69.1), "refuted", "undecided"),
    ):
        records = runs("roll", a) + runs("learned", (72.1, 72.3, 72.4))
        for example, expected in ((False, alone), (True, one_of_many)):
            judged = claim(records=BETTER | rule | {"example": example})
            assert verdict_on(judged, records).verdict == expected
            assert ("one example" in judged.rule()) == example == ("refuted" not in judged.rule())


def test_every_rule_on_runs_can_be_decided_by_the_plans():
    planned = Counter(
        (p.recipe.name, p.cell.slug) for plan in (ROOT / "plans").glob("*.yaml") for p in load_plan(plan)
    )
    for c in load_claims():
        if c.takes_training:
            arms = [getattr(c.records, arm) for arm in ("a", "b", "encoding") if hasattr(c.records, arm)]
            for arm in arms:
                assert planned[c.records.recipe, arm] >= c.records.seeds, (c.id, arm)


def test_one_run_of_each_is_enough_to_count_parameters():
    rule = {"rule": "parameters", "recipe": "strong", "a": "roll", "b": "learned"}
    records = runs("roll", (72.0,), parameters=100) + runs("learned", (64.0,), parameters=90)
    for relation, expected in (("more", "reproduced"), ("equal", "refuted")):
        assert verdict_on(claim(records=rule | {"relation": relation}), records).verdict == expected
    missing = verdict_on(claim(records=rule | {"relation": "more"}), records[:1])
    assert missing.verdict == "not tested" and "learned" in missing.grounds


def beside(lead):
    """Arrays of a ring of 16 whose neighbors are correlated by that much more than any two channels."""
    by_distance = np.full(9, 0.1 - 2 * lead / 13)  # of 15 partners two are neighbors; the mean of all is 0.1
    by_distance[:2] = 1, 0.1 + lead
    correlation = np.broadcast_to(by_distance, (2, 3, 2, 9))
    return {"query_correlation": correlation, "key_correlation": correlation}


@pytest.mark.parametrize(
    ("leads", "expected"),
    [
        ((0.65, 0.66, 0.67), "reproduced"),
        ((0.01, -0.02, 0.0), "refuted"),
        ((0.05, 0.06, 0.055), "refuted"),  # a lead, but shown to be below a tenth
        ((0.3, -0.1, 0.1), "undecided"),
        ((0.65, 0.66), "not tested"),
    ],
)
def test_ordered_compares_neighbors_on_the_ring_with_any_two_channels(leads, expected):
    rule = {"rule": "ordered", "recipe": "strong", "encoding": "roll", "least": 0.1}
    records = runs("roll", range(70, 70 + len(leads)))
    by_seed = {record.seed: beside(lead) for record, lead in zip(records, leads, strict=True)}
    (found,) = ledger([], records, [claim(records=rule)], arrays=lambda record: by_seed[record.seed])
    assert found.verdict == expected, found.grounds
    (blind,) = ledger([], records, [claim(records=rule)])
    assert blind.verdict == "not tested" and "roll has 0 of 3 seeds" in blind.grounds


def biased(slope, swaps=0, seed=0):
    """Arrays of a causal model whose mean bias is a line in the offset, with some neighbors exchanged."""
    offsets = np.arange(-40, 1, dtype=np.float32)
    line = slope * offsets
    for first in range(swaps):
        at = -2 - 2 * first  # Δ = −1 and −2, then −3 and −4 …
        line[[at, at - 1]] = line[[at - 1, at]]
    line[offsets < -16] = 99  # beyond the reach of the rule
    spread = np.random.default_rng(seed).normal(size=(2, 3, 1))  # of no account: a constant for each head
    return {"bias": (line + spread).astype(np.float32), "offsets": offsets[:, None]}


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ([biased(1.0, swaps) for swaps in (0, 1, 2)], "reproduced"),
        ([biased(1.0)] * 3, "reproduced"),  # no spread at all, and yet a mean
        ([biased(-1.0, swaps) for swaps in (0, 1, 2)], "refuted"),
        ([biased(1.0), biased(1.0), biased(-1.0)], "undecided"),
        ([biased(1.0), {}, {"bias": np.zeros((2, 3, 41))}], "not tested"),
    ],
)
def test_decays_ranks_the_mean_bias_by_distance(beside, expected):
    rule = {"rule": "decays", "recipe": "text", "encoding": "shaw", "reach": 16}
    records = runs("shaw", range(50, 50 + len(beside)), "text")
    (found,) = ledger([], records, [claim(records=rule)], arrays=lambda record: beside[record.seed])
    assert found.verdict == expected, found.grounds
    (blind,) = ledger([], records, [claim(records=rule)])
    assert blind.verdict == "not tested" and "shaw has 0 of 3 seeds" in blind.grounds
    assert "below −0.9" in found.claim.rule()


def leaning(towards_later, rows=2, columns=5, seed=0):
    """Arrays of attention on a grid: later patches get that much more of all attention than earlier ones."""
    any_share = torch.rand(2, 3, *[rows * columns] * 2, generator=torch.Generator().manual_seed(seed))
    shares = [any_share.triu(1), any_share.tril(-1)]
    later, earlier = (share / share.sum((-1, -2), keepdim=True) for share in shares)
    attention = (1 + towards_later) / 2 * later + (1 - towards_later) / 2 * earlier
    offsets, by_offset = attention_by_offset(attention, grid_positions(rows, columns))
    return {"attention": by_offset.numpy(), "offsets": offsets.numpy()}


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        ((0.2, 0.22, 0.24), "reproduced"),
        ((-0.2, -0.22, -0.24), "refuted"),
        ((0.11, 0.112, 0.108), "refuted"),  # more than the other, and shown to be less than 0.02
        ((-0.2, 0.1, 0.5), "undecided"),
        ((0.2, 0.22), "not tested"),
    ],
)
def test_later_weights_every_offset_by_its_pairs_and_compares_two_encodings(a, expected):
    rule = {"rule": "later", "recipe": "quick", "a": "roll", "b": "learned"}
    records = runs("roll", range(50, 50 + len(a)), "quick") + runs("learned", range(50, 53), "quick")
    lean = {"roll": a, "learned": (0.1, 0.102, 0.104)}

    def arrays(record):
        return leaning(lean[record.encoding][record.seed], seed=record.seed)

    (found,) = ledger([], records, [claim(records=rule)], arrays=arrays)
    assert found.verdict == expected, found.grounds
    if expected == "reproduced":
        assert found.grounds.startswith("+0.118 [")
    (blind,) = ledger([], records, [claim(records=rule)])
    assert blind.verdict == "not tested" and "roll has 0 of 3 seeds" in blind.grounds


# What is shown


def test_what_no_computation_decides_keeps_its_reason_and_leaves_the_counts():
    outlook = claim(kind="interpretive", untestable="It defines nothing that could be measured.")
    missing = claim(needs="A measurement that nobody made.")
    verdicts = ledger([], [], [outlook, missing])
    assert [v.verdict for v in verdicts] == ["no test possible", "not tested"]
    assert [v.claim for v in can_be_tested(verdicts)] == [missing]
    assert details(verdicts[0])["Reason"] == outlook.untestable
    page = to_markdown(verdicts)
    assert "1 of the 2 claims are testable" in page and outlook.untestable in page


def test_the_counts_cover_every_claim_in_a_fixed_order():
    verdicts = ledger(all_passed(), [])
    assert tuple(counts(verdicts)) == VERDICTS
    assert sum(counts(verdicts).values()) == len(verdicts) == len(load_claims())
    assert counts([]) == dict.fromkeys(VERDICTS, 0)


def test_a_tally_keeps_formulas_and_printed_numbers_apart_from_experiments():
    formula = claim(kind="mathematical", checks={"holds": ["eq-roll"]})
    printed = claim(records={"rule": "better", "recipe": "printed", "a": "roll", "b": "learned"})
    trained = claim(records={"rule": "better", "recipe": "strong", "a": "roll", "b": "learned"})
    decided = ledger([result("eq-roll")], [], [formula, printed, trained, trained])
    assert tally(decided) == ["2 reproduced (1 formulas, 1 on the printed table)", "2 not tested"]
    assert decided_by_training(decided) == "None of the 2 that training decides has been tested."
    some = [*decided, Verdict(trained, "refuted", ""), Verdict(trained, "undecided", "")]
    assert decided_by_training(some) == "2 of the 4 that training decides have been tested."
    waiting = Verdict(claim(needs="A control that is missing."), "not tested", "")
    assert decided_by_training([*some, waiting]) == "2 of the 5 that training decides have been tested."
    assert tally(some[-1:]) == ["1 undecided"] and tally([]) == []


def test_the_page_shows_every_claim_and_what_holds_instead_only_where_it_was_shown():
    verdicts = ledger(all_passed(), [])
    page = to_markdown(verdicts)
    for v in verdicts:
        assert v.claim.claim in page
        if v.claim.instead:
            assert (v.claim.instead in page) == (v.verdict in ("corrected", "refuted")), v.claim.id
    assert "Checks failed" not in page and "Holds instead" not in to_markdown(ledger([], []))


def test_numbers_on_the_page_have_minus_signs_and_names_keep_their_hyphens():
    rule = {"rule": "equivalent", "recipe": "printed", "a": "roll", "b": "axial-rope", "margin": 1.0}
    page = to_markdown(ledger([], [], [claim(records=rule)]))
    assert "−0.30 points [−0.95, +0.35]" in page and "axial-rope" in page


def test_what_was_refuted_or_corrected_does_not_wait_to_be_refuted():
    verdicts = ledger(all_passed(), [])
    for v in verdicts:
        fell = v.verdict in ("corrected", "refuted")
        lines = to_markdown([v]).splitlines()
        (by,) = (line for line in lines if v.claim.refuted_by.split(".")[0] in line and "efuted by: " in line)
        assert by.startswith("  - Refuted by: " if fell else "  - Would be refuted by: ")
    assert {v.verdict for v in verdicts} > {"corrected", "reproduced"}


def test_a_claim_is_one_line_and_its_grounds_are_named_for_what_they_are():
    verdicts = ledger(all_passed(), [])
    assert sum(map(len, by_document(verdicts).values())) == len(verdicts)
    for claims in by_document(verdicts).values():
        wrong = [v.verdict in ("refuted", "corrected") for v in claims]
        assert wrong == sorted(wrong, reverse=True), "what is wrong comes first"
    for v in verdicts:
        found = details(v)
        grounds = {"not tested": "Missing", "no test possible": "Reason"}.get(v.verdict, "Result")
        grounds = "Checks" if v.claim.checks else grounds
        assert found.keys() & {"Checks", "Missing", "Reason", "Result"} == {grounds}
        assert ("Rule" in found) == (v.claim.records is not None)
        assert all(text == text.strip() and text[-1] in ".!?)" for text in found.values()), found


def test_the_page_says_aloud_when_a_check_failed():
    label = next(c for c in load_claims() if c.checks).checks.labels[0]
    page = to_markdown(ledger([result(r.label, r.label != label) for r in all_passed()], []))
    assert "**Checks failed**" in page and f"FAILED: {label}" in page


def test_a_ledger_with_one_id_twice_or_a_foreign_document_is_refused(tmp_path):
    entry = CLAIM | {"needs": "A measurement that nobody made."}
    for claims, reason in (([entry, entry], "used twice"), ([entry | {"source": "rumor"}], "rumor")):
        path = tmp_path / f"{reason.split()[0]}.yaml"
        path.write_text(yaml.safe_dump({"sources": {"paper": "A paper"}, "claims": claims}))
        with pytest.raises(ValueError, match=reason):
            load_claims(path)


def test_powers_and_indices_read_plainly_in_a_terminal():
    plain = to_markdown(ledger(all_passed(), []))
    assert "10000^(−2k/n)" in plain and "{" not in plain
