"""Comparisons: one family for a recipe, the same p on every page, and what added seeds may not decide."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from rollpe_lab.evidence.comparisons import (
    ABLATIONS,
    MAIN,
    PLANNED,
    TEXT,
    compared,
    family,
    later_cells,
    path_of,
    to_markdown,
)
from rollpe_lab.records import pack_bits, read_records
from rollpe_lab.statistics import holm
from rollpe_lab.training import load_plan
from shared import ROOT, make_record, make_text_record


def arm(encoding: str, *right: int, recipe: str = "strong") -> list:
    """One run for each number of images read, of a thousand."""
    return [make_record(encoding, n, seed, recipe, images=1000) for seed, n in enumerate(right)]


@pytest.fixture(scope="module")
def committed():
    return read_records(ROOT / "data/records")


@pytest.fixture(scope="module")
def later():
    return later_cells(ROOT / "plans")


def test_every_comparison_of_a_recipe_is_in_one_family():
    runs = [
        *arm("none", 500, 505),
        *arm("roll", 700, 703, 701),
        *arm("roll-twin", 702, 704),
        *arm("learned", 600),  # one run is no arm
        *arm("roll", 640, 650, recipe="strong@topography=ring"),
        *arm("roll", 100, 900, recipe="quick"),  # another family
    ]
    found = family(runs, "strong")
    pairs = {(c.variant, c.reference) for c in found}
    assert pairs == {
        ("roll", "none"),
        ("roll-twin", "none"),
        ("roll-twin", "roll"),
        ("@topography=ring/roll", "roll"),
    }
    assert [c.p for c in found] == pytest.approx(holm([c.over_seeds.p for c in found]))
    assert family(runs, "strong", later=()) == found


def test_a_pair_has_one_direction_on_every_page():
    for variant, reference in ABLATIONS:
        if {variant, reference} <= set(MAIN):
            assert MAIN.index(variant) > MAIN.index(reference)


def test_what_takes_added_seeds_is_exploratory_and_what_the_planned_show_is_clear():
    a, b = arm("roll", 700, 701, 650, 702), arm("none", 640, 650, 720, 630)
    spoiled = {r.run_id.path for r in a + b if r.seed == 2}  # the seed that hides the difference
    (every,) = compared({"roll": a, "none": b}, [("roll", "none")])
    assert every.verdict == "open" and every.planned == every.p
    good = {"roll": [r for r in a if r.seed != 2], "none": [r for r in b if r.seed != 2]}
    (clear,) = compared(good, [("roll", "none")])
    assert clear.verdict == "clear"
    added = {r.run_id.path for r in [*a, *b] if r.seed > 1}
    (open_before,) = compared(good, [("roll", "none")], added - spoiled | {a[1].run_id.path})
    assert open_before.planned is None and open_before.verdict == "exploratory"


def test_a_difference_that_other_images_may_undo_is_open():
    """Seeds agree that the one is right on three images of thirty more; but it is right on other images."""
    a, b = ([make_record(e, n + s, s, images=30) for s in range(4)] for e, n in (("roll", 13), ("none", 10)))
    others = [r.test.model_copy(update={"correct": pack_bits(r.correct_bits()[::-1])}) for r in b]
    b = [r.model_copy(update={"test": test}) for r, test in zip(b, others, strict=True)]
    (c,) = compared({"roll": a, "none": b}, [("roll", "none")])
    assert c.p < 0.05 and c.over_images.low < 0 < c.over_images.high and c.verdict == "open"


def test_added_seeds_are_those_that_the_plans_call_later(later, committed):
    mini, text = ({path for path in later if path.parts[0] == recipe} for recipe in ("mini", "text"))
    assert mini == {Path("mini", name, "seed-3") for name in ("roll", "roll-twin", "learned", "axial-rope")}
    assert text == {planned.run_id.path for planned in load_plan(ROOT / "plans/text-later.yaml")}
    have = {r.run_id.path for r in committed}
    assert later <= have


def test_a_row_says_pair_difference_intervals_p_and_verdict():
    a, b = arm("roll", 700, 703, 702), arm("none", 640, 650, 630)
    found = compared({"roll": a, "none": b}, [("roll", "none")])
    head, _, row = to_markdown(found).splitlines()
    assert "planned" not in head and "`roll` − `none` | +6.17" in row and row.endswith("| **clear** |")
    explored = replace(found[0], planned=0.2)
    head, _, row = to_markdown([explored], lambda c: "positions", "what changes").splitlines()
    assert "planned" in head and row.startswith("| positions |") and "(0.200)" in row and "exploratory" in row


def test_text_is_compared_in_bits_over_seeds_alone():
    runs = [make_text_record(name, 2.3 + 0.01 * s + d, 3, s) for s in range(3) for name, d in NEAR.items()]
    found = family(runs, "text")
    pairs = {(c.variant, c.reference): c for c in found}
    assert pairs.keys() == {("rope", "none"), ("roll", "none"), ("roll", "rope")}
    assert pairs["roll", "rope"].verdict == "open" and pairs["roll", "none"].verdict == "clear"
    assert pairs["roll", "none"].over_seeds.difference == pytest.approx(-0.999)
    head, _, *rows = to_markdown(found).splitlines()
    assert "bits" in head and "images" not in head and len(rows) == 3


NEAR = {"none": 1.0, "rope": 0.0, "roll": 0.001}


def test_the_family_of_text_is_the_first_block_of_its_plan():
    planned = load_plan(ROOT / "plans/text.yaml")
    assert {unquote(p.run_id.slug) for p in planned if p.run_id.seed == 4} == set(TEXT)


def twisted_runs(**at_128: float) -> list:
    """Three runs of text of each arm of the planned family, about 2.5 bits at 64 and these at 128."""
    arms = {"twisted-roll": {}, "rope": {}, "roll": {}, "rope@base=100.0": {"base": 100.0}}
    runs = []
    for name, options in arms.items():
        for more, seed in enumerate((100, 101, 102)):
            record = make_text_record(name.partition("@")[0], 2.5, 3, seed, options, "text-twist")
            bits = {"64": 2.5 + 0.01 * more, "128": at_128.get(name, 2.7) + 0.01 * more}
            runs.append(record.model_copy(update={"bits": bits}))
    return runs


def test_a_planned_family_has_a_comparison_for_each_length_and_one_holm_correction():
    runs = twisted_runs(roll=3.0)
    found = family(runs, "text-twist")
    assert [("text-twist", c.variant, c.reference, c.length) for c in found] == list(PLANNED[0][1])
    assert [c.p for c in found] == pytest.approx(holm([c.over_seeds.p for c in found]))
    differences = {(c.reference, c.length): c.over_seeds.difference for c in found}
    assert differences["roll", 128] == pytest.approx(-0.3) and differences["roll", 64] == pytest.approx(0)
    assert {(c.reference, c.length) for c in found if c.verdict == "clear"} == {("roll", 128)}


def test_a_seed_that_chose_something_is_not_compared():
    runs = twisted_runs()
    chosen = runs[3].model_copy(update={"seed": 110, "bits": {"64": 1.0, "128": 1.0}})
    assert family([*runs, chosen], "text-twist") == family(runs, "text-twist")


def test_a_planned_family_is_not_tested_before_all_of_it_has_runs():
    assert family([r for r in twisted_runs() if r.encoding_options == {}], "text-twist") == []


def test_planned_families_have_the_cells_and_seeds_that_plans_name():
    names = ("twist", "twist-base", "twist-digits", "twist-digits8", "spacing-digits", "spacing-text")
    planned = defaultdict(set)
    for name in (*names, "text-waves", "ladder-2-rungs", "points"):
        for p in load_plan(ROOT / f"plans/{name}.yaml"):
            planned[f"{p.run_id.recipe}/{unquote(p.run_id.slug)}"].add(p.run_id.seed)
    for seeds, named in PLANNED:
        for recipe, *pair, _ in named:
            of_text = recipe in ("text-spacing", "sklearn-spacing")  # eight seeds, digits have ten
            of_two = recipe in ("ladder@depth=10", "ladder@pool=token")
            for arm in pair:
                assert planned[path_of(recipe, arm)] == set(seeds[: 8 if of_text else 2 if of_two else None])
