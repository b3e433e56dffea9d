"""Every equation of the book passes its check; the registry, the runner and the report keep their word."""

import dataclasses
import json
import math
import re
from pkgutil import resolve_name

import pytest
import torch

from rollpe.encodings import ENCODINGS
from rollpe.errors import InputError
from rollpe_book import equations
from rollpe_book.equations import EQUATIONS, axes, registry, run_checks, twin
from rollpe_book.equations import cases as draw
from rollpe_book.properties import formulas
from shared import DISPLAYED

CHECKED = [label for label, equation in EQUATIONS.items() if equation.function is not None]


@pytest.mark.parametrize("label", CHECKED)
def test_the_equation_holds(label):
    """With a seed that the book does not use, within the tolerance that the book shows."""
    (result,) = run_checks([label], seed=20)
    assert result.passed, f"largest error {result.error:.2e}, tolerance {result.tolerance:.0e}"
    assert result.cases > 0 and result.tolerance <= 1e-9


def test_every_equation_says_what_it_is_and_has_a_check_of_existing_functions_or_a_reason():
    for label, equation in EQUATIONS.items():
        assert re.fullmatch(r"eq-[a-z0-9]+(-[a-z0-9]+)*", label) and equation.label == label
        assert equation.source and bool(equation.function) == bool(equation.implements) != bool(
            equation.reason
        )
        for dotted in equation.implements:
            assert callable(resolve_name(dotted))


def test_every_equation_is_displayed_once():
    assert sorted(EQUATIONS) == sorted(label for _, _, label in DISPLAYED)
    for page, _, label in DISPLAYED:
        assert EQUATIONS[label].page == page


def test_no_equation_stands_twice_and_what_opens_is_closed():
    displayed = ["".join(tex.split()) for _, tex, _ in DISPLAYED]
    assert len(set(displayed)) == len(displayed)
    for _, tex, label in DISPLAYED:
        assert "$" not in tex and tex.count("{") == tex.count("}"), label
        left, right = (len(re.findall(rf"\\{side}\b", tex)) for side in ("left", "right"))
        assert left == right and tex.count(r"\begin") == tex.count(r"\end"), label


@pytest.mark.parametrize("name", [name for name in ENCODINGS if name not in ("none", "integer")])
def test_an_encoding_is_made_of_checked_formulas(name):
    """From a trained model to a page: fast path = reference (tests/encodings), of formulas with a check.

    The code of "integer" is the position, a definition with nothing to compute.
    """
    called = formulas(name)
    checked = {dotted for label in CHECKED for dotted in EQUATIONS[label].implements}
    assert called - formulas("none"), "its reference calls no formula of operators.py or textbook.py"
    assert called <= checked, f"no equation checks {sorted(called - checked)}"


def test_all_numbered_statements_of_the_paper_are_there_and_those_that_fail_have_their_own_entry():
    sources = " · ".join(equation.source for equation in EQUATIONS.values())
    numbers = {int(n) for n in re.findall(r"Eqs?\. (\d+)", sources)}
    assert numbers >= set(range(1, 15))
    for place in ("Theorem 1", "App. B", "App. D", "App. E", "App. F"):
        assert place in sources
    printed = [equation.source for label, equation in EQUATIONS.items() if label.endswith("-printed")]
    assert len(printed) >= 7 and all(re.search("printed|sentence", source) for source in printed)


def test_the_result_depends_on_the_seed_and_on_nothing_else():
    expected = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    (alone,) = run_checks(["eq-rope-pair"], seed=3)
    later = run_checks(["eq-roll", "eq-integer-code", "eq-rope-pair"], seed=3)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=expected)), "the global generator is left alone"
    assert [result.label for result in later] == ["eq-roll", "eq-rope-pair"]
    assert alone.error == later[1].error
    assert len({run_checks(["eq-rope-pair"], seed=seed)[0].error for seed in range(4)}) > 1


@pytest.mark.parametrize(
    ("gaps", "error"),
    [
        ([0.0, 0.5], 0.5),
        ([], math.inf),
        ([math.nan, 0.0], math.inf),
        ([0.0, math.nan], math.inf),
        ([-1.0], math.inf),
    ],
)
def test_a_check_of_something_false_or_without_a_result_fails(gaps, error):
    """One that yields nothing, or NaN in any place, or a difference below 0, has an infinite error."""
    false = dataclasses.replace(EQUATIONS["eq-roll"], function=lambda rng: gaps)
    assert false.largest_error() == error > false.tolerance


def test_a_case_is_every_width_with_every_nyquist_mode(monkeypatch):
    def eq_new(rng, n, nyquist):
        called.append((n, nyquist))
        yield 0.0

    called, eq_new.__module__ = [], "rollpe_book.equations.rolling"
    monkeypatch.setitem(EQUATIONS, "eq-new", None)  # put back afterwards
    del EQUATIONS["eq-new"]
    registry.check("source", eq_new, tolerance=0.0, cases=1, n=lambda rng: (3, 4))(eq_new)
    assert run_checks(["eq-new"])[0].error == 0.0
    assert called == [(n, mode) for n in (3, 4) for mode in ("fixed", "paired", "odd")]


def rounded_positions(positions, shown, built):
    return (positions * torch.tensor(built) / torch.tensor(shown)).floor()


def longer_gradients(rng, n, gradients=twin._gradients):
    ring, rotary, Q = gradients(rng, n)
    return ring, 7 * rotary, Q


@pytest.mark.parametrize(
    ("module", "name", "fault", "label"),
    [
        (axes, "scale_positions", rounded_positions, "eq-resolution"),
        (twin, "_gradients", longer_gradients, "eq-sgd"),
    ],
)
def test_rounded_positions_and_longer_gradients_fail(monkeypatch, module, name, fault, label):
    monkeypatch.setattr(module, name, fault)
    assert not run_checks([label])[0].passed


def test_a_label_cannot_be_taken_twice():
    def eq_roll(): ...

    before = dict(EQUATIONS)
    with pytest.raises(ValueError, match="registered twice"):
        registry.no_check("source", reason="reason")(eq_roll)
    assert before == EQUATIONS
    with pytest.raises(InputError, match="'eq-nonsense'"):
        run_checks(["eq-roll", "eq-nonsense"])


# How answers are compared.


def test_comparisons_cannot_pass_by_accident():
    assert draw.error(torch.tensor([1.0, math.nan]), torch.ones(2)) == math.inf
    assert draw.excess(math.nan, 1.0) == math.inf
    assert draw.excess(torch.tensor([0.5, 3.0]), 1.0) == 2.0 and draw.excess(0.5, 1.0) == 0.0
    for residual in (0.0, math.nan, math.inf):  # an error counts as infinite where a result is NaN
        assert draw.must_fail(residual, least=0.1) == math.inf
    assert draw.must_hold(False) == math.inf
    for pair in ((torch.ones(2), torch.ones(2, 1)), (torch.ones(0), torch.ones(0))):
        with pytest.raises(ValueError):
            draw.error(*pair)


def test_cases_are_float64_and_of_odd_and_even_widths():
    rng = draw.Draw()
    rng.manual_seed(0)
    assert rng.normal(3).dtype == rng.uniform(0, 1, 3).dtype == torch.float64
    for _ in range(50):
        odd, even = rng.widths()
        assert odd % 2 == 1 and even % 2 == 0 and 3 <= odd <= 17 and 4 <= even <= 18


# The report.


def test_the_report_has_results_and_encodings_and_is_written_the_same_again(tmp_path, monkeypatch):
    called = {"roll": {"rollpe.operators.roll"}, "rope": {"rollpe.textbook.rope"}}
    monkeypatch.setattr(registry, "formulas", lambda name: called.get(name, set()))
    made = {"eq-roll": ["roll"], "eq-roll-printed": [], "eq-shaw-grid": ["shaw"], "eq-dft": []}
    results = run_checks([*made, "eq-cache-rope"])
    failed = dataclasses.replace(results.pop(), error=math.inf, passed=False)
    first, second = tmp_path / "build" / "equations.json", tmp_path / "again.json"
    written = equations.write_report(first, [*results, failed])
    equations.write_report(second, [*results, failed])
    assert first.read_bytes() == second.read_bytes() and "Infinity" not in first.read_text(encoding="utf8")
    assert json.loads(first.read_text(encoding="utf8")) == written
    by_label = {entry["label"]: entry for entry in written["equations"]}
    unchecked, wrong = by_label.pop("eq-integer-code"), by_label.pop("eq-cache-rope")
    assert unchecked["reason"] and "error" not in unchecked
    assert wrong["error"] > 1e300 and wrong["passed"] is False and wrong["encodings"] == ["rope"]
    assert {label: entry["encodings"] for label, entry in by_label.items()} == made
    roll = by_label["eq-roll"]
    assert roll["passed"] and roll["error"] == 0 and roll["implements"] == ["rollpe.operators.roll"]
    assert not re.search(r"20\d\d-\d\d", json.dumps(roll)), "no date"
