"""Two groups of runs side by side: the right differences, refusals of one line."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rollpe.cli import main
from rollpe_lab.evidence.compare import Group, compare, find_runs, over_seeds, paired_by_seed
from rollpe_lab.records import pack_bits, read_record, write_record
from shared import make_record, make_text_record


def make(encoding, seed, right=150, folder=None, **config):
    record = make_record(encoding, right, seed, **config)
    bits = np.roll(record.correct_bits(), 7 * seed)  # other images in other runs
    test = record.test.model_copy(update={"correct": pack_bits(bits)})
    record = record.model_copy(update={"test": test})
    write_record(folder, record)
    return record


@pytest.fixture
def folder(tmp_path):
    """roll with three seeds and learned with four, two of them in common; one run under another recipe."""
    for seed, right in ((0, 150), (1, 154), (2, 160)):
        make("roll", seed, right, tmp_path)
    for seed, right in ((1, 140), (2, 143), (3, 141), (4, 150)):
        make("learned", seed, right, tmp_path)
    make("roll", 0, 150, tmp_path, recipe="long", epochs=9)
    return tmp_path


def both(folder):
    return compare(find_runs("strong/roll", [folder]), find_runs("strong/learned", [folder]))


def test_a_name_means_all_its_seeds_and_a_file_one_run(folder):
    assert list(find_runs("strong/roll", [folder]).runs) == [0, 1, 2]
    file = folder / "strong/roll/seed-1.json"
    assert find_runs(str(file), []).runs == {1: read_record(file)}


@pytest.mark.parametrize("name", ["multiplexed-roll@speeds=[1,1]", "multiplexed-roll@speeds=%5B1%2C1%5D"])
def test_options_are_named_as_tables_show_them_or_as_their_folder(name, tmp_path):
    write_record(tmp_path, make_record("multiplexed-roll", options={"speeds": [1, 1]}))
    assert find_runs(f"strong/{name}", [tmp_path]).name == "strong/multiplexed-roll@speeds=[1,1]"


def test_of_two_records_of_one_seed_the_first_folder_counts(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    make("roll", 0, 20, other)
    make("roll", 9, 20, other)
    found = find_runs("strong/roll", [folder, other])
    assert list(found.runs) == [0, 1, 2, 9] and found.runs[0].test.accuracy == 0.75


def test_differences_over_seeds_and_paired_by_seed_are_those_of_scipy():
    a, b = {0: 70.0, 1: 72.5, 2: 71.0, 3: 70.5}, {1: 69.0, 2: 69.5, 3: 68.0, 4: 70.0}
    welch, paired = over_seeds(a, b), paired_by_seed(a, b)
    expected = stats.ttest_ind(list(a.values()), list(b.values()), equal_var=False)
    assert welch.p == pytest.approx(expected.pvalue)
    assert (welch.low, welch.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    expected = stats.ttest_rel([72.5, 71.0, 70.5], [69.0, 69.5, 68.0])
    assert paired.p == pytest.approx(expected.pvalue) and paired.value == pytest.approx(2.5)
    assert (paired.low, paired.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_seeds_that_all_differ_by_the_same_images_have_no_interval():
    right = {0: 4512, 1: 4600, 2: 4703}
    a, b = ({s: 100 * ((n - less) / 10_000) for s, n in right.items()} for less in (0, 13))
    assert len({a[s] - b[s] for s in right}) > 1, "they differ in the last bits"
    paired = paired_by_seed(a, b)
    assert paired.value == pytest.approx(0.13) and paired.low is paired.p is None
    assert paired.note == "all seeds differ by the same"


def test_what_cannot_be_said_is_not_said(folder):
    one = compare(*(find_runs(str(folder / f"strong/{e}/seed-1.json"), []) for e in ("roll", "learned")))
    seeds, paired, images = one.differences
    assert seeds.low is paired.low is None and "at least 2 seeds" in seeds.note
    assert images.low is not None and "these trained models alone" in images.over
    assert "for these trained models alone" in one.sentence
    assert "three seeds" in paired.note
    alike = (("none", 150), ("shaw", 120))
    groups = (Group(e, {s: make(e, s, n, folder) for s in (0, 1)}) for e, n in alike)
    several = compare(*groups)
    assert several.differences[0].low is None
    assert "over test images and seeds:" in several.sentence and "alone" not in several.sentence
    even = paired_by_seed({0: 1.0, 1: 2.0, 2: 0.0}, {0: 3.0, 1: 4.0, 2: 2.0})
    assert even.value == -2 and even.low is None and "the same" in even.note
    two = paired_by_seed({0: 1.0, 1: 2.0}, {0: 3.0, 1: 5.0})
    assert two.value == -2.5 and two.low is two.p is None and "three seeds" in two.note
    assert over_seeds({0: 70.0, 1: 70.0}, {0: 69.0, 1: 69.0}).note == "in both groups all runs are equal"
    apart = paired_by_seed({0: 1.0}, {1: 2.0})
    assert apart.value is None and "no seed" in apart.note


def test_the_sentence_claims_a_difference_only_if_zero_lies_outside(folder):
    assert both(folder).sentence.startswith("strong/roll is better than strong/learned by 5.58 points")
    runs = find_runs("strong/roll", [folder]).runs
    near = {s: make("none", s + 7, round(200 * r.test.accuracy), folder) for s, r in runs.items()}
    same = compare(Group("a", runs), Group("b", near))
    assert same.sentence.startswith("No difference is established")


def test_the_command_prints_the_differences(folder, capsys):
    main(["compare", "strong/roll", "strong/learned", "--records", str(folder)])
    out = capsys.readouterr().out
    for words in ("A  strong/roll", "n = 4", "over seeds (Welch)", "seed (2 in common)", "+5.58"):
        assert words in out


def test_of_text_the_group_with_fewer_bits_is_better(tmp_path):
    for name, bits in (("roll", 2.4), ("rope", 2.3)):
        for seed in range(3):
            write_record(tmp_path, make_text_record(name, bits + 0.001 * seed, 3.0, seed))
    comparison = compare(*(find_runs(f"text/{name}", [tmp_path]) for name in ("roll", "rope")))
    assert comparison.sentence.startswith("text/rope is better than text/roll by 0.10 bits per character")
    assert len(comparison.differences) == 2 and str(comparison.a) == "2.40 ± 0.00 bits"
