"""Every equation of the book passes its check; the registry, the runner and the report keep their word."""

import dataclasses
import importlib
import json
import math
import re

import pytest
import torch

from rollpe.encodings import ENCODINGS
from rollpe.errors import InputError
from rollpe_book import equations
from rollpe_book.equations import EQUATIONS, PAGES, axes, registry, run_checks, twin
from rollpe_book.equations import cases as draw
from rollpe_book.equations.registry import Equation
from rollpe_book.properties import formulas
from shared import DISPLAYED

CHECKED = [label for label, equation in EQUATIONS.items() if equation.function is not None]


@pytest.mark.parametrize("label", CHECKED)
def test_the_equation_holds(label):
    """With a seed that the book does not use, within the tolerance that the book shows."""
    (result,) = run_checks([label], seed=20)
    assert result.passed, f"largest error {result.error:.2e}, tolerance {result.tolerance:.0e}"
    assert result.cases > 0 and result.tolerance <= 1e-9


def test_every_equation_says_what_it_is_and_where_it_comes_from():
    for label, equation in EQUATIONS.items():
        assert re.fullmatch(r"eq-[a-z0-9]+(-[a-z0-9]+)*", label) and equation.label == label
        assert equation.page in PAGES and equation.source


def test_every_equation_has_a_check_of_existing_functions_or_a_reason():
    for equation in EQUATIONS.values():
        if equation.function is None:
            assert equation.reason and not equation.implements and not equation.tolerance
            continue
        assert equation.reason is None and equation.implements
        for dotted in equation.implements:
            module, _, name = dotted.rpartition(".")
            assert callable(getattr(importlib.import_module(module), name))


def test_every_equation_is_displayed_once_and_by_its_page():
    assert {equation.page for equation in EQUATIONS.values()} == set(PAGES)
    registered = [(equation.page, label) for label, equation in EQUATIONS.items()]
    assert sorted(registered) == sorted((page, label) for page, _, label in DISPLAYED)


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


def test_all_numbered_statements_of_the_paper_are_there():
    sources = " · ".join(equation.source for equation in EQUATIONS.values())
    numbers = {int(n) for n in re.findall(r"Eqs?\. (\d+)", sources)}
    assert numbers >= set(range(1, 15))
    for place in ("Theorem 1", "App. B", "App. D", "App. E", "App. F"):
        assert place in sources


def test_a_printed_statement_that_fails_has_its_own_entry():
    printed = [label for label in EQUATIONS if label.endswith("-printed")]
    assert len(printed) >= 7
    for label in printed:
        assert "printed" in EQUATIONS[label].source or "sentence" in EQUATIONS[label].source


def test_the_result_depends_on_the_seed_and_on_nothing_else():
    alone, again = run_checks(["eq-rope-pair"], seed=3)[0], run_checks(["eq-roll", "eq-rope-pair"], seed=3)[1]
    assert alone.error == again.error
    errors = {run_checks(["eq-rope-pair"], seed=seed)[0].error for seed in range(4)}
    assert len(errors) > 1


def test_checks_do_not_touch_the_global_generator():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run_checks(["eq-attention", "eq-mixed-rope"])
    assert torch.equal(torch.rand(3), expected)


def test_an_unknown_label_is_refused_in_one_line():
    with pytest.raises(InputError) as caught:
        run_checks(["eq-roll", "eq-nonsense"])
    assert "'eq-nonsense'" in str(caught.value) and "\n" not in str(caught.value)


def test_a_check_of_something_false_fails():
    false = dataclasses.replace(EQUATIONS["eq-roll"], function=lambda rng: [0.0, 0.5])
    assert false.largest_error() == 0.5 > false.tolerance


@pytest.mark.parametrize("gaps", [[], [math.nan, 0.0], [0.0, math.nan], [-1.0]])
def test_a_check_without_a_result_fails(gaps):
    """One that yields nothing, or NaN in any place, or a difference below 0."""
    empty = dataclasses.replace(EQUATIONS["eq-roll"], function=lambda rng: gaps)
    assert empty.largest_error() == math.inf


def test_a_case_is_every_width_with_every_nyquist_mode():
    def eq_new(rng, n, nyquist):
        called.append((n, nyquist))
        yield 0.0

    called, eq_new.__module__ = [], "rollpe_book.equations.rolling"
    try:
        registry.check("source", eq_new, tolerance=0.0, cases=1, n=lambda rng: (3, 4))(eq_new)
        assert run_checks(["eq-new"])[0].error == 0.0
    finally:
        EQUATIONS.pop("eq-new", None)
    assert called == [(n, mode) for n in (3, 4) for mode in ("fixed", "paired", "odd")]


def test_rounding_down_is_no_way_to_another_resolution(monkeypatch):
    def rounded(positions, shown, built):
        ratio = torch.tensor(built) / torch.tensor(shown)
        return (positions * ratio).floor()

    monkeypatch.setattr(axes, "scale_positions", rounded)
    assert not run_checks(["eq-resolution"])[0].passed


def test_gradients_of_twins_have_one_length(monkeypatch):
    def longer(rng, n):
        ring, rotary, Q = gradients(rng, n)
        return ring, 7 * rotary, Q

    gradients = twin._gradients
    monkeypatch.setattr(twin, "_gradients", longer)
    assert not run_checks(["eq-sgd"])[0].passed


def test_results_come_in_the_order_asked_for():
    results = run_checks(["eq-roll", "eq-integer-code", "eq-order"])
    assert [r.label for r in results] == ["eq-roll", "eq-order"]


@pytest.mark.parametrize(
    ("name", "module", "says"),
    [
        ("eq_roll", "rollpe_book.equations.rolling", "registered twice"),
        ("eq_new", "rollpe_book.equations.nowhere", "nowhere.py, which is named after no page"),
    ],
)
def test_a_label_cannot_be_taken_twice_nor_a_page_be_invented(name, module, says):
    def definition(): ...

    definition.__name__, definition.__module__ = name, module
    before = dict(EQUATIONS)
    with pytest.raises(ValueError, match=says):
        registry.no_check("source", reason="reason")(definition)
    assert before == EQUATIONS


def test_a_definition_without_a_check_says_so():
    with pytest.raises(AssertionError, match="no check"):
        Equation("eq-new", "05-rolling", "source", reason="a definition").largest_error()


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


def test_cases_are_float64_and_as_described():
    rng = draw.Draw()
    rng.manual_seed(0)
    assert rng.normal(3).dtype == rng.uniform(0, 1, 3).dtype == torch.float64
    for _ in range(50):
        odd, even = rng.widths()
        assert odd % 2 == 1 and even % 2 == 0 and 3 <= odd <= 17 and 4 <= even <= 18
        assert 2 <= rng.count(2, 4) <= 4
        order = rng.permutation(2)
        assert order.tolist() == [1, 0]
    V, A = rng.orthogonal(5), rng.skew(5)
    assert torch.allclose(V.T @ V, draw.eye(5)) and torch.equal(A.T, -A)
    x, p = rng.normal(2, 5), torch.tensor([1, -7])
    assert torch.equal(draw.rolled(x, p)[1], draw.shift_power(5, -7) @ x[1])
    assert torch.equal(draw.entrywise(lambda i, j: x[:, i] * x[:, j], 5, 4), x[:, :, None] * x[:, None, :4])


# The report.


def test_the_report_is_written_the_same_again(tmp_path):
    labels = ["eq-attention", "eq-roll", "eq-close-printed"]
    first, second = tmp_path / "build" / "equations.json", tmp_path / "again.json"
    written = equations.write_report(first, run_checks(labels))
    equations.write_report(second, run_checks(labels))
    assert first.read_bytes() == second.read_bytes()
    assert json.loads(first.read_text(encoding="utf8")) == written
    by_label = {entry["label"]: entry for entry in written["equations"]}
    assert set(labels) <= set(by_label)
    roll = by_label["eq-roll"]
    assert roll["passed"] and roll["error"] == 0 and roll["implements"] == ["rollpe.operators.roll"]
    assert by_label["eq-integer-code"]["reason"] and "error" not in by_label["eq-integer-code"]
    assert not re.search(r"20\d\d-\d\d", json.dumps(by_label["eq-roll"]))


def test_the_report_names_the_encodings_that_are_made_of_an_equation(tmp_path, monkeypatch):
    called = {"roll": {"rollpe.operators.roll"}, "rope": {"rollpe.textbook.rope"}}
    monkeypatch.setattr(registry, "formulas", lambda name: called.get(name, set()))
    labels = ["eq-roll", "eq-roll-printed", "eq-shaw-grid", "eq-dft", "eq-cache-rope"]
    written = equations.write_report(tmp_path / "e.json", run_checks(labels))
    made = {entry["label"]: entry["encodings"] for entry in written["equations"]}
    made.pop("eq-integer-code")
    assert made == dict(zip(labels, [["roll"], [], ["shaw"], [], ["rope"]], strict=True))


def test_a_failed_check_stays_a_number_in_the_report(tmp_path):
    failed = dataclasses.replace(run_checks(["eq-roll"])[0], error=math.inf, passed=False)
    equations.write_report(tmp_path / "e.json", [failed])
    text = (tmp_path / "e.json").read_text()
    assert "Infinity" not in text
    (entry,) = [e for e in json.loads(text)["equations"] if e["label"] == "eq-roll"]
    assert entry["error"] > 1e300 and entry["passed"] is False
