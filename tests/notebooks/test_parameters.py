"""Parameters of a notebook: how a line is read, and which values it allows before anything runs."""

from __future__ import annotations

import re

import pytest

from refusals import refused
from rollpe_book.chapters import check_parameters, read_parameters
from rollpe_book.chapters.parameters import Parameter, begin
from shared import ROOT

CHAPTERS = ROOT / "notebooks"
LINES = """\
n: int = 3  # how many [1..10]
scale: float = 1.0  # factor
loud: bool = False  # print more, as in loud=true
kind: str = "flat"  # the shape {flat|round}
"""
TENTHS = "float = 0.1  # share [0.1..0.9 step 0.1]"
SEED = "int = 0  # seed"


@pytest.fixture
def notebook(tmp_path):
    """notebook(lines): the path of one with these parameters."""

    def write(lines):
        path = tmp_path / "small.py"
        path.write_text(f'# %% tags=["parameters"]\n{lines}\n', encoding="utf8")
        return path

    return write


def test_a_parameter_is_a_line_with_type_default_help_and_bounds(notebook):
    path = notebook(LINES)
    assert read_parameters(path) == [
        Parameter("n", "int", 3, "how many", "[1..10]"),
        Parameter("scale", "float", 1.0, "factor"),
        Parameter("loud", "bool", False, "print more, as in loud=true"),
        Parameter("kind", "str", "flat", "the shape", "{flat|round}"),
    ]
    values = check_parameters(path, {"n": "5", "scale": "2", "loud": "true", "kind": "round"})
    assert values == {"n": 5, "scale": 2.0, "loud": True, "kind": "round"}
    assert [type(v) for v in values.values()] == [int, float, bool, str]
    assert check_parameters(path, {"loud": "False"}) == {"loud": False}, "not a string that is true"


@pytest.mark.parametrize("line", ["n = 3", "n: list = [1]", "n: int = 2.5", "n: int = f(3)", "print(n)"])
def test_a_parameters_cell_holds_only_typed_literals(notebook, line):
    with refused(re.escape(line)):
        read_parameters(notebook(line))


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ('str = "x"  # {encodings}', ["learned+axial-rope"]),
        ('str = "x"  # {recipes}', ["quick"]),
        ('str = "x"  # {nyquist}', ["odd"]),
        ('str = "x"  # {device}', ["cpu"]),
        ('str = "x"  # {encodings,...}', ["roll,learned+axial-rope"]),
        ('str = "x"  # {cuda|cpu,...}', ["cpu,cuda"]),
        (TENTHS, ["0.1", "0.2", "0.3", "0.6", "0.7", "0.8", "0.9"]),
        (SEED, [str(2**62)]),
    ],
)
def test_what_is_allowed_is_the_value_as_it_is_written(notebook, line, values, tmp_path):
    path = notebook(f"x: {line}")
    before = sorted(tmp_path.rglob("*"))
    for value in values:
        assert str(check_parameters(path, {"x": value})["x"]) == value
    assert sorted(tmp_path.rglob("*")) == before, "nothing is made"


@pytest.mark.parametrize(
    ("line", "text", "says"),
    [
        ("int = 3  # how many [1..10]", "three", "x='three': expected an integer"),
        ("int = 3  # how many [1..10]", "11", "x=11 is not allowed: how many must lie between 1 and 10"),
        ("int = 3  # how many [1..10]", "0", "between 1 and 10"),
        ("float = 1.0", "wide", "x='wide': expected a number"),
        ("bool = False", "maybe", "x='maybe': expected true or false"),
        ('str = "flat"  # shape {flat|round}', "square", "x='square' is not one of flat, round"),
        ('str = "x"  # {encodings}', "spiral", "spiral"),
        ('str = "x"  # {recipes}', "slow", "slow"),
        ('str = "x"  # {nyquist}', "even", "even"),
        ('str = "x"  # {device}', "meta", "meta"),
        ('str = "x"  # {encodings,...}', "roll,spiral", "spiral"),
        ('str = "x"  # {cuda|cpu,...}', "cpu,cpu", "twice"),
        *((TENTHS, text, f"x={text} is not allowed") for text in ("0.35", "0.05", "0.95")),
        *((SEED, text, "integer below") for text in ("9" * 19, "-" + "9" * 19, "9" * 400, "1" * 5000)),
        *(("float = 1.0  # [.. step 0.5]", text, "expected a number") for text in ("nan", "inf", "-inf")),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_line(notebook, line, text, says):
    with refused(re.escape(says)):
        check_parameters(notebook(f"x: {line}"), {"x": text})


@pytest.mark.parametrize(
    ("chapter", "name", "value", "says"),
    [
        ("02-distances", "lenght", "8", "Did you mean 'length'?"),
        ("02-distances", "d", "7", "from 2 in steps of 2"),
        ("02-distances", "d", "1", "between 2 and 256"),
        ("03-rotary", "d", "5", "from 4 in steps of 2"),
        ("06-continuous", "position", "2", "between 0.1 and 0.9"),
        ("08-basis", "images", "64", "between 256 and 1257"),
        ("08-basis", "steps", "10", "between 40 and 150"),
        ("07-waves", "n", "3", "between 4 and 128"),
        ("07-waves", "head_dim", "20", "from 16 in steps of 8"),
        ("17-topography", "side", "4", "between 8 and 12"),
        ("17-topography", "steps", "1", "between 40 and 300"),
        ("11-train", "device", "foo", "foo"),
        ("09-results", "encodings", "roll,foo", "unknown encoding 'foo'"),
        ("12-fast", "kinds", "tpu", "not one of cuda, cpu"),
        ("02-distances", "e", "8", "has no parameter 'e'. It takes: d, bits, length, base, seed."),
    ],
)
def test_a_chapter_refuses_before_it_runs_what_would_fail_or_show_something_else(chapter, name, value, says):
    with refused(re.escape(says)):
        check_parameters(CHAPTERS / f"{chapter}.py", {name: value})


def test_every_chapter_has_bounds_that_allow_its_defaults_and_spaces_in_a_list_are_dropped():
    for path in sorted(CHAPTERS.glob("*.py")):
        defaults = {p.name: p.default for p in read_parameters(path)}
        assert check_parameters(path, defaults) == defaults
        for p in read_parameters(path):
            assert p.allowed or p.type == "str", f"{path.name}: {p.name} has no bounds"
    spaced = check_parameters(CHAPTERS / "09-results.py", {"encodings": " none, learned+roll "})
    assert spaced == {"encodings": "none,learned+roll"}


def test_a_chapter_checks_its_own_parameters_whoever_runs_it():
    cell = 'n: int = 32  # channels on the ring [3..256]\nname: str = "a"  # of two {a|b}\nx = 3'
    begin({"In": ["", cell], "n": 32, "name": "b"})
    with refused("n=1000 is not allowed"):
        begin({"In": ["", cell, "n = 1000"], "n": 1000, "name": "a"})
    with refused("name='c' is not one of a, b"):
        begin({"In": ["", cell], "n": 3, "name": "c"})
    with refused("n='many': expected an integer"):
        begin({"In": ["", cell], "n": "many", "name": "a"})
