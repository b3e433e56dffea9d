"""Code that readers see fits the page."""

from __future__ import annotations

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
