"""The table of symbols points at code and equations that exist."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from shared import DISPLAYED

BOOK = Path(__file__).parents[2] / "book"
NOTATION = (BOOK / "notation.md").read_text(encoding="utf-8")
ROWS = [line for line in NOTATION.splitlines() if line.startswith("| ")]
FORMULAS = {label: tex for _, tex, label in DISPLAYED}


def signs(tex: str) -> list[str]:
    """Letters and commands of a formula, without spaces, braces and sizes; an upright word is one sign."""
    found = re.findall(r"\\(?:mathrm|mathcal|operatorname|text|begin|end)\{[^}]*\}|\\[A-Za-z]+|\\.|\S", tex)
    return [
        sign for sign in found if not re.fullmatch(r"[{}]|\\[^A-Za-z]|\\([Bb]igg?[lr]?|left|right)", sign)
    ]


def head(symbol: str) -> str:
    """A symbol without what it is a function of."""
    return re.sub(r"\([^)]*\)$", "", symbol)


def shows(tex: str, symbol: str) -> bool:
    """Whether a formula contains a symbol, whatever it is a function of."""
    whole, part = signs(tex), signs(head(symbol))
    return any(whole[i : i + len(part)] == part for i in range(len(whole)))


def first_uses() -> list[tuple[str, list[str], list[str]]]:
    """Of each row with equations: its first cell, the symbols in it, and the equations."""
    rows = []
    for row in ROWS:
        cells = re.split(r"(?<!\\) \| ", row.strip("| "))
        if equations := re.findall(r"\{eq\}`([^`]+)`", cells[-1]):
            rows.append((cells[0], re.findall(r"\$([^$]+)\$", cells[0]), equations))
    return rows


@pytest.mark.parametrize(("cell", "symbols", "labels"), first_uses(), ids=lambda value: str(value)[:40])
def test_the_equations_of_a_row_contain_its_symbols(cell, symbols, labels):
    found = {symbol: [label for label in labels if shows(FORMULAS[label], symbol)] for symbol in symbols}
    assert symbols and all(found.values()), found
    assert {label for contain in found.values() for label in contain} == set(labels)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z0-9_]+(?:\.[a-z0-9_]+)+)`", NOTATION))))
def test_every_function_that_the_table_names_exists(name):
    assert callable(resolve_name(name if name.startswith("rollpe_lab") else f"rollpe.{name}"))


def test_every_row_of_a_table_has_as_many_cells_as_its_head():
    for block in re.split(r"\n\n", NOTATION):
        rows = [line for line in block.splitlines() if line.startswith("| ")]
        assert len({len(re.split(r"(?<!\\)\|", row)) for row in rows}) <= 1, rows[:1]


def test_the_glossary_defines_each_term_once_and_in_a_sentence():
    glossary = (BOOK / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^([^\s`:#].*)\n  (\S.*)$", glossary, flags=re.M)
    names = [term for term, _ in terms]
    assert len(names) > 25 and len(set(names)) == len(names)
    assert names == sorted(names, key=str.casefold)
