"""Gaps by length of training: which runs they compare, and the line through them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rollpe.errors import InputError
from rollpe_book.claims import details, ledger
from rollpe_lab.evidence.conditions import Evidence, judge, objection
from rollpe_lab.evidence.ladder import CHANGES, DEPTHS, LENGTHS, gap_line, gaps
from rollpe_lab.statistics import fitted_line
from rollpe_lab.training import load_plan, load_recipe
from shared import ROOT, make_record


def runs(recipe: str, **right: list[int]) -> list:
    """One run for each number of images read, of a thousand."""
    return [
        make_record(name.replace("_", "-"), n, seed, recipe, images=1000)
        for name, numbers in right.items()
        for seed, n in enumerate(numbers)
    ]


FOUND = [
    *runs("mini@epochs=2", learned=[200], axial_rope=[210]),
    *runs("mini@epochs=5", learned=[300], axial_rope=[318]),
    *runs(
        "mini", learned=[400, 402], axial_rope=[430, 430, 431]
    ),  # the third has nothing to be compared with
    *runs("ladder", learned=[404], axial_rope=[430]),
    *runs("ladder@epochs=30", learned=[540], axial_rope=[584]),
    *runs("ladder@depth=10", learned=[1], axial_rope=[900]),
]


def test_gaps_are_of_one_seed_and_the_line_is_that_of_least_squares():
    assert gaps(FOUND, "axial-rope", "learned", ("mini", "ladder")) == pytest.approx([3, 2.8, 2.6])
    x, y = np.log2([2, 5, 10, 10, 10, 30]), [1, 1.8, 3, 2.8, 2.6, 4.4]
    known = stats.linregress(x, y)
    half = stats.t.ppf(0.975, 4) * known.stderr
    slope = gap_line(FOUND, "mini", "axial-rope", "learned")
    assert (slope.mean, slope.low, slope.high) == pytest.approx(
        (known.slope, known.slope - half, known.slope + half)
    )
    at = gap_line(FOUND, "mini", "axial-rope", "learned", 400)
    assert at.mean == pytest.approx(known.intercept + known.slope * np.log2(400))
    spread = np.sqrt(
        known.stderr**2 * (np.log2(400) - x.mean()) ** 2 + np.var(y - known.slope * x) * 6 / 4 / 6
    )
    assert at.high - at.mean == pytest.approx(stats.t.ppf(0.975, 4) * spread)


def test_conditions_ask_the_line_for_a_difference_and_for_mini_alone():
    evidence = Evidence(FOUND)
    assert objection("mini per doubling: axial-rope - learned > 0, one-sided 0.025", evidence) is None
    assert objection("mini on the line at 400: 6 < axial-rope - learned < 8", evidence) is None
    found = judge("mini per doubling: axial-rope - learned > 3, one-sided 0.025", evidence)
    assert not found.holds and found.text.startswith("axial-rope - learned is +0.8")
    assert "a line needs three" in objection("mini per doubling: roll - learned > 0", evidence)
    for wrong in ("mini per doubling: learned > 0", "strong per doubling: roll - learned > 0"):
        with pytest.raises(InputError):
            objection(wrong, evidence)
    with pytest.raises(InputError, match="3 points at 1 places"):
        fitted_line([1, 1, 1], [1, 2, 3])


def test_the_recipes_are_mini_with_one_change_as_plans_name_them():
    mini = load_recipe("mini").model_dump(exclude={"name"})
    planned = {
        p.run_id.recipe: p.recipe
        for path in sorted((ROOT / "plans").glob("ladder-*.yaml"))
        for p in load_plan(path)
    }
    different = {
        name: {key for key, value in recipe.model_dump(exclude={"name"}).items() if value != mini[key]}
        for name, recipe in planned.items()
    }
    assert different["ladder"] == set()
    assert [different[name] - {"epochs"} for name in CHANGES.values()] == [
        {"learning_rate"},
        {"learning_rate"},
        {"depth"},
        {"pool"},
        {"depth", "pool"},
        {"augmentation"},
    ]
    for epochs, names in LENGTHS.items():
        for name in names:
            assert name == "mini@epochs=2" or planned[name].epochs == epochs
            assert different.get(name, set()) <= {"epochs"}
    quick = load_recipe("quick").model_dump(exclude={"name", "depth"})
    for p in load_plan(ROOT / "plans/depth-digits.yaml"):
        assert (p.run_id.recipe,) == DEPTHS[p.recipe.depth]
        assert p.recipe.model_dump(exclude={"name", "depth"}) == quick


def test_a_claim_that_waits_for_the_papers_model_says_what_a_small_one_shows():
    claim = "circles-rope-strong"
    told = {v.claim.id: details(v).get("Meanwhile", "") for v in ledger([], FOUND)}
    assert told[claim].startswith("axial-rope − learned in a small model: +2.93 points [")
    assert "+4.40 points after 30 epochs (n = 1 + 1)" in told[claim] and "twice the blocks" in told[claim]
    decided = ledger([], [*FOUND, *runs("strong", learned=[600, 601, 602], axial_rope=[700, 701, 702])])
    assert not next(v for v in decided if v.claim.id == claim).meanwhile
    assert {v.verdict for v in ledger([], FOUND) if v.meanwhile} == {"not tested"}
