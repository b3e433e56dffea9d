"""Code fits the page, and a chapter ten minutes."""

from __future__ import annotations

import re
from pathlib import Path

import jupytext
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.py"))
MOST = 88


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_line_of_code_is_wider_than_the_page(path):
    lines = [
        line for c in jupytext.read(path).cells if c.cell_type == "code" for line in c.source.splitlines()
    ]
    wide = [f"{len(line)} columns: {line.strip()}" for line in lines if len(line) > MOST]
    assert lines and not wide, f"{path.name}: at most {MOST} columns, wrap by hand:\n" + "\n".join(wide)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_chapter_is_ten_minutes_long(path):
    text = "\n".join(c.source for c in jupytext.read(path).cells if c.cell_type == "markdown")
    equations = re.findall(r"(?ms)^\$\$$.*?^\$\$ \(eq-", text)
    no_words = r"(?ms)\$\$.*?\$\$ \(\S+\)|\$[^$]+\$|\{holds\}`[^`]*`|^:\w+:[^\n]*$"
    words = re.sub(no_words, "", text).split()
    assert len(words) <= 2200 and len(equations) <= 16, (len(words), len(equations))
