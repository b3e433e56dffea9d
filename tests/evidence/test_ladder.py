"""Gaps by length of training: which runs they compare."""

from __future__ import annotations

import pytest

from rollpe_book.claims import details, ledger
from rollpe_lab.evidence.ladder import CHANGES, DEPTHS, LENGTHS, gaps
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


def test_gaps_are_of_one_seed():
    assert gaps(FOUND, "axial-rope", "learned", ("mini", "ladder")) == pytest.approx([3, 2.8, 2.6])


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


def test_a_claim_that_waits_for_its_recipe_says_what_others_show():
    claim = "circles-rope-strong"
    told = {v.claim.id: details(v).get("Meanwhile", "") for v in ledger([], FOUND)}
    assert told[claim].startswith("axial-rope − learned under other recipes: +2.93 points [")
    assert "+4.40 points after 30 epochs of it (n = 1 + 1)" in told[claim]
    assert "twice the blocks" in told[claim]
    decided = ledger([], [*FOUND, *runs("strong", learned=[600, 601, 602], axial_rope=[700, 701, 702])])
    assert not next(v for v in decided if v.claim.id == claim).meanwhile
    assert {v.verdict for v in ledger([], FOUND) if v.meanwhile} == {"not tested"}
