"""The factorial of spacing and range: its arms are those that its plans chose, its family is one."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from rollpe_lab.evidence import spacing
from rollpe_lab.evidence.comparisons import SPACING, family, path_of
from rollpe_lab.evidence.words import difference, mean, values
from rollpe_lab.files import read_yaml
from rollpe_lab.records import read_records
from rollpe_lab.statistics import holm
from shared import ROOT, make_record

RING = "axial-rope@wavelengths=[2.0,16.0]"
DEFAULT = 0.002
"""The learning rate of the recipes that are compared."""


@pytest.fixture(scope="module")
def committed():
    return [r for r in read_records(ROOT / "data/records") if "spacing" in r.recipe]


def rate_of(arm: str) -> float:
    change, _, _ = arm.rpartition("/")
    return float(change.removeprefix("@learning_rate=")) if change else DEFAULT


@pytest.mark.parametrize("recipe", SPACING)
def test_each_arm_has_the_learning_rate_that_the_rule_chooses(recipe, committed):
    """Highest held-out accuracy, then lowest loss; of text, the loss alone. sklearn has SymPy's rates."""
    of_rates = "text-spacing" if recipe == "sklearn-spacing" else recipe
    trials = [r for r in committed if r.recipe.partition("@")[0] == f"{of_rates}-rates"]
    for arm in SPACING[recipe]:
        encoding = arm.rpartition("/")[2]
        tried = {r.config["learning_rate"]: r for r in trials if unquote(r.run_id.slug) == encoding}
        assert sorted(tried) == [0.001, 0.002, 0.004]

        def worse(rate, tried=tried):
            last = tried[rate].history[-1]
            return (0 if tried[rate].bits else -last.held_out_accuracy), last.held_out_loss

        assert min(tried, key=worse) == rate_of(arm), arm


@pytest.mark.parametrize("recipe", SPACING)
def test_every_arm_was_trained_with_all_planned_seeds(recipe):
    seeds = [*range(200, 210 if recipe.startswith("quick") else 208)]
    assert all([*values(arm)] == seeds for arm in spacing.arms_of(recipe).values())


def runs(**accuracy: int) -> list:
    """Two runs of each arm; right images of 1,000 by label's index, as i3=800."""
    made = []
    for recipe, arms in SPACING.items():
        for i, arm in enumerate(arms):
            change, _, encoding = arm.rpartition("/")
            name, _, options = encoding.partition("@")
            pairs = (option.split("=") for option in options.replace(",w", ";w").split(";") if option)
            given = {key: read_yaml(value, key) for key, value in pairs}
            right = accuracy.get(f"i{i}", 700)
            made += [
                make_record(name, right + seed - 200, seed, recipe + change, given, images=1000)
                for seed in (200, 201, 202)
            ]
    return made


def test_one_holm_correction_covers_all_data_sets():
    found = [c for recipe in SPACING for c in family(runs(i2=800, i3=802, i4=790), recipe)]
    assert len(found) == 5 * len(SPACING)
    assert [c.p for c in found] == pytest.approx(holm([c.over_seeds.p for c in found]))
    first = found[:5]
    assert [round(c.over_seeds.difference, 6) for c in first] == [10, 10.2, 0, 0.2, -1.2]


def test_nothing_is_tested_before_all_data_sets_have_runs():
    missing = path_of(*next((recipe, arms[4]) for recipe, arms in SPACING.items()))
    some = [r for r in runs() if f"{r.recipe}/{unquote(r.run_id.slug)}" != missing]
    assert all(family(some, recipe) == [] for recipe in SPACING)


def test_tables_have_a_row_an_arm_and_a_row_a_question():
    head, _, *rows = spacing.means().splitlines()
    assert head.count("|") == len(SPACING) + 2 and len(rows) == len(spacing.ARMS)
    assert rows[2].startswith(f"| ring's range, equal ratios | {mean(f'quick-spacing/{RING}'):.2f}")
    head, _, *rows = spacing.tests().splitlines()
    assert len(rows) == len(spacing.QUESTIONS) + 1 and "±2" in rows[-1]
    first = difference(f"quick-spacing/{RING}", "quick-spacing/axial-rope").difference
    assert f"| **+{first:.1f}**<br>[" in rows[0] and "**" not in rows[2].split("|")[2]
