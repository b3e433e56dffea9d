"""Statistics over seeds and over images, and the results table."""

from __future__ import annotations

import csv
import io
import itertools

import numpy as np
import pytest
from scipy import stats

from rollpe.errors import InputError
from rollpe_lab.evidence.table import LARGE, PAPER_TABLE_1, Printed, arms_of, recipe_with_runs, results_table
from rollpe_lab.statistics import (
    agreement,
    equivalence,
    holm,
    paired_by_image,
    power,
    repeatability,
    seeds_needed,
    summarize,
    welch,
)
from rollpe_lab.training import load_recipe
from shared import make_record, make_text_record

# One arm


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_is_the_one_that_scipys_t_test_gives(seed):
    values = np.random.default_rng(seed).normal(70, 1, size=seed + 2)
    ours = summarize(values)
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx(tuple(interval))
    assert ours.mean == pytest.approx(values.mean()) and ours.n == len(values)
    assert ours.sd == pytest.approx(np.std(values, ddof=1))


def test_a_95_percent_interval_over_four_seeds_misses_the_truth_one_time_in_twenty():
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(2000):
        interval = summarize(rng.normal(size=4))
        missed += not interval.low <= 0 <= interval.high
    assert missed / 2000 == pytest.approx(0.05, abs=0.015)


def test_one_seed_has_neither_spread_nor_interval():
    one = summarize([71.0])
    assert one.mean == 71.0 and one.n == 1
    assert one.sd is None and one.low is None and one.high is None


@pytest.mark.parametrize("seeds", [2, 3, 7])
def test_equal_runs_have_no_spread_whatever_their_sum_rounds_to(seeds):
    for right in range(300, 360):
        equal = summarize([100 * right / 360] * seeds)
        assert equal.sd == 0 and equal.low == equal.mean == equal.high == 100 * right / 360
        with pytest.raises(InputError, match="no spread"):
            welch([100 * right / 360] * seeds, [100 * (right - 5) / 360] * seeds)


@pytest.mark.parametrize("bad", [[], [[1.0, 2.0]], [float("nan"), 1.0]])
def test_what_is_no_sample_is_refused(bad):
    with pytest.raises(InputError, match="flat list"):
        summarize(bad)


# Two arms


@pytest.mark.parametrize("seed", range(3))
def test_welch_agrees_with_scipy_from_samples_and_from_printed_moments(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(72, 0.4, size=3 + seed), rng.normal(71, 1.1, size=5)
    expected = stats.ttest_ind(a, b, equal_var=False)
    printed = [Printed(x.mean(), x.std(ddof=1), len(x)) for x in (a, b)]
    for ours in (welch(a, b), welch(*printed), welch(summarize(a), b), welch(a, printed[1])):
        assert (ours.t, ours.p, ours.dof) == pytest.approx((expected.statistic, expected.pvalue, expected.df))
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


def test_a_test_over_seeds_refuses_one_seed_and_no_spread():
    for one in ([71.0], Printed(71.0, 0.5, 1)):
        with pytest.raises(InputError, match="at least 2 seeds"):
            welch(one, [70.0, 71.0])
    with pytest.raises(InputError, match="no spread"):
        welch([71.0, 71.0], [70.0, 70.0])


def test_two_arms_may_spread_alike():
    assert welch([1.0, 2.0], [3.0, 4.0]).p == pytest.approx(stats.ttest_ind([1.0, 2.0], [3.0, 4.0]).pvalue)


def test_equivalence_holds_exactly_when_the_90_percent_interval_lies_inside_the_margin():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(200):
        a, b = rng.normal(0, 1, size=6), rng.normal(rng.uniform(-2, 2), 1, size=4)
        result = equivalence(a, b, margin=1.5)
        low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.9)
        assert result.equivalent == (-1.5 < low and high < 1.5)
        assert (result.low, result.high) == pytest.approx((low, high))
        seen.add(result.equivalent)
    assert seen == {True, False}


def test_arms_that_differ_by_the_margin_are_called_equivalent_at_most_one_time_in_twenty():
    rng = np.random.default_rng(2)
    wrong = [
        equivalence(rng.normal(1, 0.4, 5), rng.normal(0, 0.4, 5), margin=1.0).equivalent for _ in range(2000)
    ]
    assert np.mean(wrong) <= 0.06


def test_a_large_p_value_alone_is_no_equivalence():
    a, b = [70.0, 74.0], [71.0, 73.5]
    assert welch(a, b).p > 0.5 and not equivalence(a, b, margin=1.0).equivalent


def test_a_margin_must_be_positive():
    with pytest.raises(InputError, match="margin=0"):
        equivalence([1, 2], [1, 2], margin=0)


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


def test_a_difference_that_leaps_to_the_eye_needs_two_seeds():
    assert seeds_needed(0.1, 100) == 2


def test_impossible_questions_about_seeds_are_refused():
    possible = {"sd": 1, "difference": 1}
    for wrong in ({"sd": 0}, {"sd": -1}, {"difference": 0}):
        with pytest.raises(InputError, match="needed"):
            seeds_needed(**possible | wrong)
    for n, sd in ((1, 1), (2, 0), (2, -0.5)):
        with pytest.raises(InputError, match="power needs"):
            power(n, sd, 1)


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


def test_runs_that_agree_on_every_image_differ_by_nothing():
    bits = np.arange(50) % 3 > 0
    result = paired_by_image(bits, bits, resamples=50)
    assert (result.difference, result.low, result.high, result.p) == (0, 0, 0, 1)


def test_many_seeds_generalize_to_seeds_and_images_and_a_lone_seed_never_does():
    rng = np.random.default_rng(4)
    a, b = rng.random((3, 100)) < 0.7, rng.random((4, 100)) < 0.6
    assert paired_by_image(a, b, resamples=50).over == "images and seeds"
    assert paired_by_image(a, b, resamples=50).p is None
    lone = paired_by_image(a[:1], b, resamples=50)
    assert lone.over == "images" and lone.p is None
    assert paired_by_image(a, b[0], resamples=50).over == "images"


def test_seeds_that_differ_widen_the_interval_over_images_and_seeds():
    """With no variation between images, all of the interval is the spread of the seeds: s/√n each."""
    levels_a, levels_b = np.array([0.2, 0.5, 0.8]), np.array([0.3, 0.4])
    images = 4000
    a, b = (np.arange(images)[None] % 100 < 100 * levels[:, None] for levels in (levels_a, levels_b))
    result = paired_by_image(a, b, resamples=4000)
    expected = 1.96 * np.sqrt(levels_a.var(ddof=1) / 3 + levels_b.var(ddof=1) / 2)
    assert (result.high - result.low) / 2 == pytest.approx(expected, rel=0.35)
    assert paired_by_image(a[:1], b[:1]).high - paired_by_image(a[:1], b[:1]).low < 0.1 * expected


def test_the_interval_over_images_covers_the_truth_19_times_in_20():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        common = rng.random(150)
        result = paired_by_image(common < 0.7, (common + 0.2 * rng.random(150)) < 0.7, resamples=300)
        covered += result.low <= 0.1 <= result.high
    assert covered / 300 == pytest.approx(0.95, abs=0.04)


def test_different_test_sets_are_refused():
    flat, deep, empty = np.ones(5), np.ones((1, 5, 1)), np.ones((1, 0))
    for arms in ((flat, np.ones(6)), (flat, deep), (deep, flat), (deep, deep), (empty, empty)):
        with pytest.raises(InputError, match="same images"):
            paired_by_image(*arms)


def runs_of(seen, seeds, rng, noise=0.8, shift=0.0):
    """Bits of runs that see each image with the same difficulty, plus noise of their own."""
    return {seed: seen + noise * rng.standard_normal(len(seen)) > shift for seed in seeds}


def test_runs_that_differ_by_chance_agree_across_arms_as_within_them_whatever_their_accuracy():
    rng = np.random.default_rng(6)
    seen = rng.standard_normal(10_000)
    found = agreement([runs_of(seen, range(3), rng), runs_of(seen, range(3, 6), rng)], resamples=200)
    assert found.phi[0, 1] == found.phi[1, 0] == pytest.approx(found.phi[0, 0], abs=0.02)
    assert found.low[0, 1] < 0 < found.high[0, 1]
    assert found.excess[0, 0] == found.excess[1, 1] == 0
    one = runs_of(seen, range(2), rng, noise=0)
    assert agreement([one, one], resamples=2).phi == pytest.approx(1)


def test_agreement_is_that_of_all_pairs_of_runs_of_different_seeds_one_by_one():
    rng = np.random.default_rng(12)
    arms = [
        {seed: rng.random(40) < right for seed in seeds}
        for right, seeds in ((0.5, (0, 1, 2, 3)), (0.6, (0, 4, 5)), (0.7, (6, 7, 8, 9)))
    ]
    found = agreement(arms, resamples=30)

    def phi(one, other, chosen=slice(None)):
        pairs = [(x[chosen], y[chosen]) for s, x in one for t, y in other if s != t]
        return np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]) if pairs else np.nan

    def excess(one, other, chosen=slice(None)):
        return phi(one, other, chosen) - (phi(one, one, chosen) + phi(other, other, chosen)) / 2

    rng = np.random.default_rng(0)
    draws = [rng.integers(40, size=40) for _ in range(30)]
    runs = [list(arm.items()) for arm in arms]
    for i, one in enumerate(runs):
        for j, other in enumerate(runs):
            assert found.phi[i, j] == pytest.approx(phi(one, other))
            assert found.excess[i, j] == pytest.approx(excess(one, other))
            bounds = np.quantile([excess(one, other, chosen) for chosen in draws], [0.025, 0.975])
            assert (found.low[i, j], found.high[i, j]) == pytest.approx(tuple(bounds))
            both = one + other
            ways = [
                excess([both[r] for r in way], [both[r] for r in range(len(both)) if r not in way])
                for way in itertools.combinations(range(len(both)), len(one))
            ]
            less = [way <= excess(one, other) + 1e-12 for way in ways if np.isfinite(way)]
            assert found.p[i, j] == pytest.approx(1 if i == j else np.mean(less))


def test_arms_that_see_other_things_agree_less_across_than_within():
    rng = np.random.default_rng(7)
    common, own = rng.standard_normal(10_000), rng.standard_normal((2, 10_000))
    arms = [runs_of(common + 0.5 * own[arm], range(3), rng) for arm in range(2)]
    found = agreement(arms, resamples=200)
    assert found.high[0, 1] < 0 and found.low[0, 1] < found.excess[0, 1] < found.high[0, 1]
    assert found.p[0, 1] == found.p[1, 0] == pytest.approx(2 / 20)  # the least that three runs each can give
    many = [runs_of(common + 0.5 * own[arm], range(8), rng) for arm in range(2)]  # too many ways to try all
    assert agreement(many, resamples=2).p[0, 1] < 0.01


def test_labels_of_runs_that_differ_by_chance_can_be_permuted():
    """Over many pairs of equal arms the p of a permutation test is uniform, or a little larger."""
    rng = np.random.default_rng(11)
    p = []
    for _ in range(60):
        seen = rng.standard_normal(400)
        arms = [runs_of(seen, seeds, rng) for seeds in (range(4), range(4, 8))]
        p.append(agreement(arms, resamples=2).p[0, 1])
    assert 0.4 < np.mean(p) < 0.65 and np.mean(np.array(p) <= 0.1) < 0.25
    many = [runs_of(seen, seeds, rng) for seeds in (range(8), range(8, 16))]  # 12,870 ways: a sample of them
    assert 0 < agreement(many, resamples=2).p[0, 1] <= 1


def test_runs_of_one_seed_are_not_compared_and_one_run_agrees_with_nobody():
    rng = np.random.default_rng(8)
    seen = rng.standard_normal(2000)
    runs = runs_of(seen, range(2), rng)
    assert agreement([runs, runs], resamples=2).phi[0, 1] == pytest.approx(np.corrcoef(*runs.values())[0, 1])
    with pytest.raises(InputError, match="two runs"):
        agreement([runs, {0: runs[0]}])


def test_gains_repeat_as_far_as_groups_differ():
    """Gains with variance τ² between groups, noise σ²/images within: repeatability is τ²/(τ² + σ²/images)."""
    rng = np.random.default_rng(9)
    groups = np.repeat(np.arange(200), 100)
    true = 0.08 * rng.standard_normal(200)
    a = rng.random((3, 20_000)) < 0.5 + true[groups]
    b = rng.random((3, 20_000)) < 0.5
    noise = (0.25 - true.var() + 0.25) / 100
    expected = true.var() / (true.var() + noise)
    order = rng.permutation(20_000)  # the order of the images does not matter
    assert repeatability(a[:, order], b[:, order], groups[order]) == pytest.approx(expected, abs=0.08)
    assert abs(repeatability(b, rng.random((3, 20_000)) < 0.5, groups)) < 0.2


def test_images_that_are_hard_for_all_do_not_make_gains_repeat():
    """Two models share the same luck with images; halves that share images would call it the groups'."""
    rng = np.random.default_rng(10)
    groups = np.repeat(np.arange(200), 100)
    luck = rng.random((2, 20_000))
    a, b = np.tile(luck[0] < 0.5, (3, 1)), np.tile(luck[1] < 0.5, (3, 1))
    assert abs(repeatability(a, b, groups)) < 0.2
    with pytest.raises(InputError, match="two images"):
        repeatability(a, b, np.arange(20_000))
    with pytest.raises(InputError, match="two seeds"):
        repeatability(a[:1], b, groups)


def test_gains_of_groups_of_any_size_are_means_and_those_of_one_seed_alone_do_not_repeat():
    rng = np.random.default_rng(13)
    groups = np.repeat(np.arange(200), rng.integers(2, 60, 200))
    chance = rng.random((2, 3, len(groups)))
    assert abs(repeatability(chance[0] < 0.8, chance[1] < 0.5, groups)) < 0.2
    luck_of_a_seed = 0.2 * rng.standard_normal((3, 200))[:, groups]
    assert abs(repeatability(chance[0] < 0.5 + luck_of_a_seed, chance[1] < 0.5, groups)) < 0.2


def test_two_seeds_and_two_images_of_each_group_are_enough():
    rng = np.random.default_rng(14)
    groups = np.repeat(np.arange(300), 2)
    right = (rng.random(300) < 0.5)[groups]
    a, b = np.tile(right, (2, 1)), np.tile(~right, (2, 1))
    assert repeatability(a, b, groups) == pytest.approx(1)


def test_holm_multiplies_the_smallest_by_the_number_of_tests_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == pytest.approx([1, 1])


# Records


def test_records_that_are_not_comparable_are_refused_with_every_reason():
    with pytest.raises(InputError, match="epochs: 3 and 5"):
        results_table([make_record(), make_record("learned", epochs=5)], "strong")


def test_the_first_wanted_recipe_with_runs_is_shown_and_no_other_length():
    assert recipe_with_runs([], LARGE) == "strong"
    other = make_record(recipe="mini")
    assert recipe_with_runs([other, make_record(recipe="short@epochs=1")], LARGE) == "strong"
    short = make_record(recipe="short")
    assert recipe_with_runs([other, short], LARGE) == "short"
    assert recipe_with_runs([short, make_record(recipe="strong")], LARGE) == "strong"


def test_a_table_knows_its_epochs_from_its_records_else_from_its_recipe():
    assert results_table([make_record(recipe="short@epochs=60", epochs=60)], "short@epochs=60").epochs == 60
    assert results_table([], "short").epochs == load_recipe("short").epochs
    assert results_table([], "nowhere").epochs is None


def test_a_cell_counts_once_and_other_recipes_do_not_count():
    records = [
        make_record(recipe="quick"),
        make_record(right=150),
        make_record(right=10),
        make_record(seed=1),
    ]
    arms = arms_of(records, "strong")
    assert list(arms) == ["roll"] and list(arms["roll"]) == [0, 1]
    assert arms["roll"][0].test.accuracy == 0.75


def test_the_table_opens_with_table_1_and_never_fills_in_what_was_not_measured():
    records = [make_record("roll", right, seed) for seed, right in enumerate((150, 152, 154))]
    records += [
        make_record("none", 100),
        make_record("sinusoidal", 90),
        make_record("roll", 99, options={"width": 15}),
    ]
    table = results_table(records, "strong")
    assert [row.slug for row in table.rows] == [
        "learned",
        "axial-rope",
        "roll",
        "multiplexed-roll",
        "none",
        "sinusoidal",
        "roll@width=15",
    ]
    cells = {row[0]: row[1:] for row in table.cells()}
    assert cells["learned"] == ("not measured", "–", "0", "64.2 ± 0.9")
    assert cells["roll"][0] == "76.00 ± 1.00" and cells["roll"][2:] == ("3", "72.1 ± 0.1")
    assert cells["none"] == ("50.00", "–", "1", "–")
    low, high = summarize([75.0, 76.0, 77.0]).low, summarize([75.0, 76.0, 77.0]).high
    assert cells["roll"][1] == f"{low:.2f} to {high:.2f}"


def test_an_empty_table_still_shows_table_1():
    table = results_table([], "paper")
    assert len(table.rows) == 4 and all(row.measured is None for row in table.rows)
    assert not table.measured and results_table([make_record()], "strong").measured


def test_the_three_formats_carry_the_same_rows():
    records = [make_record("roll", right, seed, options={"a_b": 1}) for seed, right in enumerate((150, 152))]
    table = results_table(records, "strong")
    markdown = table.to_markdown().splitlines()
    assert len({line.count("|") for line in markdown}) == 1 and len(markdown) == 2 + 5
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["encoding"] for row in rows] == [row.slug for row in table.rows]
    last = rows[-1]
    assert last["n"] == "2" and float(last["mean"]) == pytest.approx(75.5)
    assert rows[0]["mean"] == "" and rows[0]["n"] == "0" and rows[0]["paper_mean"] == "64.2"
    latex = table.to_latex()
    assert latex.count(r"\\") == 6 and r"roll@a\_b=1" in latex and r"$\pm$" in latex and "–" not in latex
    begin, _, head, *_ = latex.splitlines()
    assert begin == r"\begin{tabular}{lrrrr}" and head.startswith("encoding & ")


def test_the_papers_numbers_stand_only_beside_results_on_its_data_set():
    assert results_table([], "strong").beside_paper
    digits = results_table([], "quick")
    assert not digits.beside_paper and {len(row) for row in digits.cells()} == {4}
    assert not results_table([make_record(data="digits")], "strong").beside_paper
    assert len(digits.columns) == 4 and "paper" not in digits.to_markdown() + digits.to_latex()


def test_a_table_names_options_as_one_writes_them():
    table = results_table([make_record("multiplexed-roll", options={"speeds": [1, 1]})], "strong")
    for text in (table.to_markdown(), table.to_csv(), table.to_latex()):
        assert "multiplexed-roll@speeds=[1,1]" in text and "%5B" not in text


def test_text_is_tabled_in_bits_per_character_and_without_rows_that_images_have():
    records = [make_text_record("rope", bits, 4, seed) for seed, bits in enumerate((2.25, 2.35))]
    table = results_table(records, "text")
    assert [row.slug for row in table.rows] == ["rope"] and table.columns[1] == "bits per character ± SD"
    assert table.cells()[0][1] == "2.30 ± 0.07" and not table.beside_paper
