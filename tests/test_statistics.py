"""Statistics over seeds and over images, and the results table."""

from __future__ import annotations

import csv
import io
import itertools

import numpy as np
import pytest
from scipy import stats

from rollpe.errors import InputError
from rollpe_lab.evidence.table import (
    LARGE,
    PAPER_TABLE_1,
    Printed,
    Row,
    Table,
    recipe_with_runs,
    results_table,
)
from rollpe_lab.statistics import (
    agreement,
    apart,
    equivalence,
    holm,
    paired_by_image,
    power,
    seeds_needed,
    student,
    summarize,
    welch,
)
from rollpe_lab.training import load_recipe
from shared import make_record, make_text_record

# One arm


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_is_the_one_that_scipys_t_test_gives(seed):
    values = np.random.default_rng(seed).normal(70, 1, size=seed + 3)
    ours = summarize(values)
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx(tuple(interval))
    assert ours.mean == pytest.approx(values.mean()) and ours.n == len(values)
    assert ours.sd == pytest.approx(np.std(values, ddof=1))
    assert student(values - 70) == pytest.approx(stats.ttest_1samp(values, 70).pvalue)


def test_one_seed_has_neither_spread_nor_interval():
    one = summarize([71.0])
    assert one.mean == 71.0 and one.n == 1
    assert one.sd is None and one.low is None and one.high is None


def test_two_seeds_have_a_spread_and_no_interval():
    two = summarize([70.0, 71.0])
    assert two.sd == pytest.approx(0.5**0.5) and two.low is two.high is None


@pytest.mark.parametrize("seeds", [3, 4, 7])
def test_equal_runs_have_no_spread_whatever_their_sum_rounds_to(seeds):
    for right in range(300, 360):
        equal = summarize([100 * right / 360] * seeds)
        assert equal.sd == 0 and equal.low == equal.mean == equal.high == 100 * right / 360
        with pytest.raises(InputError, match="no spread"):
            welch([100 * right / 360] * seeds, [100 * (right - 5) / 360] * seeds)


# Two arms


@pytest.mark.parametrize("seed", range(3))
def test_welch_agrees_with_scipy_from_samples_and_from_printed_moments(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(72, 0.4, size=3 + seed), rng.normal(71, 1.1, size=5)
    expected = stats.ttest_ind(a, b, equal_var=False)
    printed = [Printed(x.mean(), x.std(ddof=1), len(x)) for x in (a, b)]
    for ours in (welch(a, b), welch(*printed), welch(a, printed[1])):
        assert ours.difference == pytest.approx(a.mean() - b.mean())
        assert ours.p == pytest.approx(expected.pvalue)
        assert (ours.low, ours.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        ("multiplexed-roll", "roll", 0.041),
        ("multiplexed-roll", "axial-rope", 0.057),
        ("axial-rope", "roll", 0.32),
    ],
)
def test_the_printed_table_1_has_the_p_values_that_its_numbers_imply(a, b, p):
    assert welch(PAPER_TABLE_1[a], PAPER_TABLE_1[b]).p == pytest.approx(p, abs=0.5 * 10 ** -len(str(p)[2:]))


def test_equivalence_holds_exactly_when_the_90_percent_interval_lies_inside_the_margin():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(200):
        a, b = rng.normal(0, 1, size=6), rng.normal(rng.uniform(-2, 2), 1, size=4)
        equivalent = equivalence(a, b, margin=1.5) < 0.05
        low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.9)
        assert equivalent == (-1.5 < low and high < 1.5)
        seen.add(equivalent)
    assert seen == {True, False}


# Power


@pytest.mark.parametrize(("difference", "exact"), [(0.3, 29), (0.5, 12), (1.0, 4)])
def test_at_an_sd_of_0_4_the_seeds_needed_are_known(difference, exact):
    assert seeds_needed(0.4, difference) == exact
    assert power(exact, 0.4, difference) >= 0.8 > power(exact - 1, 0.4, difference)


def test_power_is_the_share_of_simulated_experiments_that_reach_significance():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.5, 0.4, size=(4000, 6)), rng.normal(0, 0.4, size=(4000, 6))
    share = (stats.ttest_ind(a, b, axis=1).pvalue < 0.05).mean()
    assert power(6, 0.4, 0.5) == pytest.approx(share, abs=0.025)


# Image by image


@pytest.mark.parametrize("seed", range(3))
def test_one_run_against_one_run_is_mcnemars_exact_test(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random(301) < 0.7, rng.random(301) < 0.6
    result = paired_by_image(a, b, resamples=200)
    only_a, only_b = np.sum(a & ~b), np.sum(~a & b)
    tail = stats.binom.cdf(min(only_a, only_b), only_a + only_b, 0.5)
    assert result.p == pytest.approx(min(1, 2 * tail))
    assert result.difference == pytest.approx((only_a - only_b) / 301)
    assert result.over == "images" and result.low < result.difference < result.high
    same = paired_by_image(a, a, resamples=50)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_seeds_that_differ_widen_the_interval_over_images_and_seeds():
    """With no variation between images, all of the interval is the spread of the seeds: s/√n each."""
    levels_a, levels_b = np.array([0.2, 0.5, 0.8]), np.array([0.3, 0.4])
    images = 4000
    a, b = (np.arange(images)[None] % 100 < 100 * levels[:, None] for levels in (levels_a, levels_b))
    result = paired_by_image(a, b, resamples=4000)
    expected = 1.96 * np.sqrt(levels_a.var(ddof=1) / 3 + levels_b.var(ddof=1) / 2)
    assert (result.high - result.low) / 2 == pytest.approx(expected, rel=0.35)
    assert result.over == "images and seeds" and result.p is None
    lone = paired_by_image(a[:1], b)
    assert lone.over == "images" and lone.p is None and lone.high - lone.low < 0.1 * expected


def test_the_interval_over_images_covers_the_truth_19_times_in_20():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        common = rng.random(150)
        result = paired_by_image(common < 0.7, (common + 0.2 * rng.random(150)) < 0.7, resamples=300)
        covered += result.low <= 0.1 <= result.high
    assert covered / 300 == pytest.approx(0.95, abs=0.04)


def runs_of(seen, seeds, rng, noise=0.8, shift=0.0):
    """Bits of runs that see each image with the same difficulty, plus noise of their own."""
    return {seed: seen + noise * rng.standard_normal(len(seen)) > shift for seed in seeds}


def phi(one, other, chosen=slice(None)):
    """The mean correlation of runs of different seeds on chosen images, pair by pair."""
    pairs = [(x[chosen], y[chosen]) for s, x in one for t, y in other if s != t]
    return np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]) if pairs else np.nan


def excess(one, other, chosen=slice(None)):
    return phi(one, other, chosen) - (phi(one, one, chosen) + phi(other, other, chosen)) / 2


def test_agreement_is_that_of_all_pairs_of_runs_of_different_seeds_one_by_one():
    rng = np.random.default_rng(12)
    arms = [
        {seed: rng.random(40) < right for seed in seeds}
        for right, seeds in ((0.5, (0, 1, 2, 3)), (0.6, (0, 4, 5)), (0.7, (6, 7, 8, 9)))
    ]
    found = agreement(arms, resamples=30)
    rng = np.random.default_rng(0)
    draws = [rng.integers(40, size=40) for _ in range(30)]
    runs = [list(arm.items()) for arm in arms]
    for i, one in enumerate(runs):
        for j, other in enumerate(runs):
            assert found.phi[i, j] == pytest.approx(phi(one, other))
            assert found.excess[i, j] == pytest.approx(excess(one, other))
            bounds = np.quantile([excess(one, other, chosen) for chosen in draws], [0.025, 0.975])
            assert (found.low[i, j], found.high[i, j]) == pytest.approx(tuple(bounds))


@pytest.mark.parametrize(("first", "pooled"), [(0, [1]), (1, [0, 2]), (2, [0, 1])])
def test_runs_are_divided_anew_between_an_arm_and_all_others(first, pooled):
    rng = np.random.default_rng(12)
    arms = [
        {seed: rng.random(40) < right for seed in seeds}
        for right, seeds in ((0.5, (0, 1, 2)), (0.6, (0, 4)), (0.7, (6, 7, 2)))
    ]

    one, other = [*arms[first].items()], [run for arm in pooled for run in arms[arm].items()]
    runs = one + other
    ways = [
        excess([runs[r] for r in way], [runs[r] for r in range(len(runs)) if r not in way])
        for way in itertools.combinations(range(len(runs)), len(one))
    ]
    less = [way <= excess(one, other) + 1e-12 for way in ways if np.isfinite(way)]
    with np.errstate(invalid="ignore"):
        assert apart(arms[first], [arms[arm] for arm in pooled]) == pytest.approx(np.mean(less))


def test_arms_that_see_other_things_agree_less_across_than_within():
    rng = np.random.default_rng(7)
    common, own = rng.standard_normal(10_000), rng.standard_normal((2, 10_000))
    arms = [runs_of(common + 0.5 * own[arm], range(3), rng) for arm in range(2)]
    found = agreement(arms, resamples=200)
    assert found.high[0, 1] < 0 and found.low[0, 1] < found.excess[0, 1] < found.high[0, 1]
    assert apart(arms[0], arms[1:]) == pytest.approx(2 / 20)  # the least that three runs each can give
    many = [runs_of(common + 0.5 * own[arm], range(8), rng) for arm in range(2)]  # too many ways to try all
    assert apart(many[0], many[1:]) < 0.01


def test_holm_multiplies_the_smallest_by_the_number_of_tests_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == pytest.approx([1, 1])


FEW, ONES = [70.0, 71.0], np.ones((1, 5))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: summarize([]), "flat list"),
        (lambda: summarize([[1.0, 2.0]]), "flat list"),
        (lambda: summarize([float("nan"), 1.0]), "flat list"),
        (lambda: welch([71.0], FEW), "at least 2 seeds"),
        (lambda: welch(Printed(71.0, 0.5, 1), FEW), "at least 2 seeds"),
        (lambda: welch([71.0, 71.0], [70.0, 70.0]), "no spread"),
        (lambda: equivalence(FEW, FEW, margin=0), "margin=0"),
        (lambda: seeds_needed(0, 1), "needed"),
        (lambda: seeds_needed(-1, 1), "needed"),
        (lambda: seeds_needed(1, 0), "needed"),
        (lambda: paired_by_image(np.ones(5), np.ones(6)), "same images"),
        (lambda: paired_by_image(np.ones(5), np.ones((1, 5, 1))), "same images"),
        (lambda: paired_by_image(np.ones((1, 0)), np.ones((1, 0))), "same images"),
        (lambda: agreement([{0: ONES[0], 1: ONES[0]}, {0: ONES[0]}]), "two runs"),
        (lambda: results_table([make_record(), make_record("none", epochs=5)], "strong"), "epochs: 3 and 5"),
    ],
)
def test_what_has_no_answer_is_refused(call, says):
    with pytest.raises(InputError, match=says):
        call()


# Records


def test_the_first_wanted_recipe_with_runs_is_shown_and_no_other_length():
    other = [make_record(recipe="mini"), make_record(recipe="short@epochs=1")]
    short, strong = make_record(recipe="short"), make_record(recipe="strong")
    assert recipe_with_runs(other, LARGE) == recipe_with_runs([short, strong], LARGE) == "strong"
    assert recipe_with_runs([*other, short], LARGE) == "short"


def test_the_table_opens_with_table_1_and_never_fills_in_what_was_not_measured():
    records = [make_record("roll", right, seed) for seed, right in enumerate((150, 152, 154))]
    records += [
        make_record("none", 100),
        make_record("roll", 10),  # a seed counts once
        make_record("roll", 10, 7, "quick"),  # another recipe
        make_record("sinusoidal", 90),
        make_record("roll", 99, options={"speeds": [1, 1]}),
    ]
    table = results_table(records, "strong")
    names = [*PAPER_TABLE_1, "none", "sinusoidal", "roll@speeds=[1,1]"]
    assert [row.name for row in table.rows] == names and table.epochs == 3
    cells = {row[0]: row[1:] for row in table.cells()}
    assert cells["learned"] == ("not measured", "–", "0", "64.2 ± 0.9")
    low, high = summarize([75.0, 76.0, 77.0]).low, summarize([75.0, 76.0, 77.0]).high
    assert cells["roll"] == ("76.00 ± 1.00", f"{low:.2f} to {high:.2f}", "3", "72.1 ± 0.1")
    assert cells["none"] == ("50.00", "–", "1", "–")
    markdown = table.to_markdown().splitlines()
    assert len({line.count("|") for line in markdown}) == 1 and len(markdown) == 2 + 7
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["encoding"] for row in rows] == names
    assert rows[2]["n"] == "3" and float(rows[2]["mean"]) == pytest.approx(76)
    assert rows[0]["mean"] == "" and rows[0]["n"] == "0" and rows[0]["paper_mean"] == "64.2"
    begin, _, head, *_ = table.to_latex().splitlines()
    assert begin == r"\begin{tabular}{lrrrr}" and head.startswith("encoding & ")
    assert table.to_latex().count(r"\\") == 8 and r"76.00 $\pm$ 1.00" in table.to_latex()
    odd = Table("quick", [Row("a_b@c={1}^2", None, None)]).to_latex()
    assert r"a\_b@c=\{1\}\textasciicircum{}2 & not measured" in odd


def test_without_runs_a_table_has_the_papers_rows_and_the_recipes_epochs():
    table = results_table([], "paper")
    assert len(table.rows) == 4 and not table.measured and table.epochs == load_recipe("paper").epochs
    assert results_table([], "nowhere").epochs is None


def test_the_papers_numbers_stand_only_beside_results_on_its_data_set():
    texts = [make_text_record("rope", bits, 4, seed) for seed, bits in enumerate((2.25, 2.35))]
    for table in (
        results_table([], "quick"),
        results_table([make_record(data="digits")], "strong"),
        results_table(texts, "text"),
    ):
        assert not table.beside_paper and len(table.columns) == 4
    assert table.columns[1] == "bits per character ± SD" and table.cells()[0][1] == "2.30 ± 0.07"
    assert [row.slug for row in table.rows] == ["rope"]
