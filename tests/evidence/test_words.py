"""Words of asserts: differences seed by seed, alone and together, and nothing that rests on no run."""

from __future__ import annotations

import pytest
from scipy import stats

from rollpe.errors import InputError
from rollpe_lab.evidence import words
from shared import make_record


@pytest.fixture
def runs(monkeypatch):
    right = {"r/roll": [40, 42, 47], "r/rope": [41, 40, 41], "s/roll": [50], "s/rope": [48]}
    made = {
        arm: {seed: make_record(arm[2:], n, seed, arm[0], images=100) for seed, n in enumerate(numbers)}
        for arm, numbers in right.items()
    }
    made["t/rope"] = {7: make_record("rope", 40, 7, "t", images=100)}
    monkeypatch.setattr(words, "runs_by_arm", lambda: made)


def test_a_lead_is_the_paired_test_and_pairs_of_arms_are_taken_together(runs):
    found, known = words.lead(("r/roll", "r/rope")), stats.ttest_rel([40, 42, 47], [41, 40, 41])
    assert (found.mean, found.n, found.p) == pytest.approx((7 / 3, 3, known.pvalue))
    assert (found.low, found.high) == pytest.approx((*known.confidence_interval(),))
    both = words.lead(("r/roll", "r/rope"), ("s/roll", "s/rope"))
    assert both.p == pytest.approx(stats.ttest_1samp([-1, 2, 6, 2], 0).pvalue)
    one = words.lead(("s/roll", "s/rope"))
    assert (one.mean, one.n, one.p, str(one)) == (2, 1, None, "+2.00")


def test_an_arm_without_runs_and_a_pair_without_a_common_seed_are_refused(runs):
    with pytest.raises(InputError, match="x/roll: no committed run"):
        words.mean("x/roll")
    with pytest.raises(InputError, match="no seed in common"):
        words.lead(("r/roll", "r/rope"), ("r/roll", "t/rope"))
