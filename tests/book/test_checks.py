"""What a chapter's lines say of its equations."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch
from click.testing import CliRunner

from rollpe.cli import cli
from rollpe_book.agree import agree, definition, differs, holds
from rollpe_book.checks import pages_of_equations, read_checks, read_lines
from shared import DISPLAYED, ROOT


def test_every_equation_of_the_book_has_a_place():
    assert pages_of_equations(ROOT) == {label: page for page, _, label in DISPLAYED}
    assert len(DISPLAYED) > 100


def test_a_line_of_each_word_is_read_and_the_largest_error_of_a_label_counts(capsys):
    agree("eq-a", 1.0, 1.0)
    agree("eq-a", 1.0, 1.25, tolerance=0.5)
    agree("only words", 1.0, 1.0)
    differs("eq-b-printed", 1.0, 1.5)
    agree("eq-c", 1.0, 1.0)
    differs("eq-c", 1.0, 1.5)
    holds("eq-d", True)
    definition("eq-e", "a name: nothing more")
    found = read_lines(f"x\n{capsys.readouterr().out}", "04-rolling")
    assert [(label, check.mark, check.found) for label, check in found.items()] == [
        ("eq-a", "✓", "largest error 2.5e-01 (tolerance 5e-01)"),
        ("eq-b-printed", "≠", "differs by 5.0e-01 (at least 1e-06)"),
        ("eq-c", "✓", "largest error 0.0e+00 (tolerance 1e-12), differs by 5.0e-01 (at least 1e-06)"),
        ("eq-d", "✓", "holds"),
        ("eq-e", "–", "definition, a name: nothing more"),
    ]
    assert all(check.passed and check.page == "04-rolling" for check in found.values())


@pytest.mark.parametrize(
    "fails",
    [
        lambda: agree("eq-a", 1.0, 2.0),
        lambda: agree("eq-a", float("nan"), 1.0),
        lambda: differs("eq-a", 1.0, 1.0),
        lambda: differs("eq-a", float("nan"), 1.0),
        lambda: differs("eq-a", [torch.ones(1), torch.tensor([math.nan])], torch.zeros(2, 1)),
        lambda: holds("eq-a", torch.ones(0, dtype=torch.bool)),
        lambda: holds("eq-a", [True, torch.tensor([True, False])]),
        lambda: holds("eq-a", False),
    ],
)
def test_a_failed_line_is_read_as_failed(fails, capsys):
    with pytest.raises(AssertionError, match="eq-a"):
        fails()
    assert [check.mark for check in read_lines(capsys.readouterr().out).values()] == ["✗"]


def rollpe(*words):
    result = CliRunner().invoke(cli, words)
    return result.exit_code, result.output


def executed(root, printed):
    (root / "book/executed").mkdir(parents=True, exist_ok=True)
    cell = {"cell_type": "code", "outputs": [{"output_type": "stream", "text": printed}]}
    (root / "book/executed/04-rolling.ipynb").write_text(json.dumps({"cells": [cell]}))


def test_equations_lists_what_executed_chapters_found_and_names_what_is_missing(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/04-rolling.py").write_text("# $$\n# x\n# $$ (eq-a)\n#\n# $$\n# y\n# $$ (eq-b)\n")
    monkeypatch.chdir(tmp_path)
    assert read_checks(tmp_path) == {}
    status, out = rollpe("equations")
    assert status == 1
    assert out.count("not checked; run: make book, or rollpe notebook notebooks/04-rolling.py") == 2
    line = "eq-a: largest error 0.0e+00 (tolerance 1e-12)\n"
    executed(tmp_path, line)
    assert rollpe("equations", "eq-a") == (
        0,
        "eq-a  04-rolling     ✓ largest error 0.0e+00 (tolerance 1e-12)\n1 checked, 0 missing or failed\n",
    )
    executed(tmp_path, f"{line}eq-b: does not hold, FAILED\n")
    status, out = rollpe("equations")
    assert status == 1 and "✗ does not hold" in out


def test_what_opens_in_an_equation_is_closed():
    for _, tex, label in DISPLAYED:
        assert "$" not in tex and tex.count("{") == tex.count("}"), label
        left, right = (len(re.findall(rf"\\{side}\b", tex)) for side in ("left", "right"))
        assert left == right and tex.count(r"\begin") == tex.count(r"\end"), label
