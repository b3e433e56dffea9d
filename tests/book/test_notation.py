"""The table of symbols points at code and equations that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from rollpe.encodings import ENCODINGS
from rollpe.equations import EQUATIONS

BOOK = Path(__file__).parents[2] / "book"
NOTATION = (BOOK / "notation.md").read_text(encoding="utf-8")
ROWS = [line for line in NOTATION.splitlines() if line.startswith("| ")]


def test_every_equation_that_the_table_points_to_is_displayed_by_a_page():
    labels = set(re.findall(r"\{eq\}`([^`]+)`", NOTATION))
    assert len(labels) > 30 and labels <= EQUATIONS.keys(), labels - EQUATIONS.keys()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z0-9_]+\.[a-z0-9_]+)`", NOTATION))))
def test_every_function_that_the_table_names_exists(name):
    room, function = name.split(".")
    assert callable(getattr(importlib.import_module(f"rollpe.{room}"), function))


def test_every_other_identifier_is_a_word_of_the_source():
    source = " ".join(path.read_text(encoding="utf-8") for path in (BOOK.parent / "src").rglob("*.py"))
    code = [part for row in ROWS for part in re.findall(r"`([^`]+)`", row.split(" | ")[1])]
    words = {word for part in code for word in re.findall(r"[A-Za-z_]\w+", part) if "." not in part}
    assert len(words) > 20
    missing = {word for word in words if not re.search(rf"\b{word}\b", source)}
    assert not missing, missing
    assert "roll-twin" in ENCODINGS


def test_every_row_of_a_table_has_as_many_cells_as_its_head():
    for block in re.split(r"\n\n", NOTATION):
        rows = [line for line in block.splitlines() if line.startswith("| ")]
        assert len({len(re.split(r"(?<!\\)\|", row)) for row in rows}) <= 1, rows[:1]


def test_the_glossary_defines_each_term_once_and_in_a_sentence():
    glossary = (BOOK / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^([^\s`:#].*)\n  (\S.*)$", glossary, flags=re.M)
    names = [term for term, _ in terms]
    assert len(names) > 40 and len(set(names)) == len(names)
    assert names == sorted(names, key=str.casefold)
