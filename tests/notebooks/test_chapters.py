"""The cells of chapters that train nothing check every equation, for other parameters than the book's, too.

They are the tests of the values of `rollpe.operators` and `rollpe.textbook`.
"""

from __future__ import annotations

import pytest

from chapter_cells import run_cells
from rollpe_book.checks import read_lines
from shared import DISPLAYED

OTHERS = {  # an even and an odd ring where there is one, other positions, widths and seeds
    "02-distances": ({}, {}),
    "03-rotary": ({}, {}),
    "04-rolling": (
        {"n": 7, "query_position": 11, "key_position": 2, "seed": 1},
        {"n": 12, "key_position": 40, "seed": 2},
    ),
    "05-rope": ({}, {}),
    "06-continuous": ({}, {}),
    "07-waves": ({}, {}),
    "13-length": ({}, {}),
    "14-buckets": ({}, {}),
    "15-kernels": ({}, {}),
    "16-lie": ({}, {}),
    "17-topography": ({}, {}),
}


@pytest.mark.parametrize(("chapter", "other"), [(name, i) for name in OTHERS for i in range(2)])
def test_every_equation_is_checked_in_the_cells_of_its_chapter(chapter, other):
    found = read_lines(run_cells(chapter, **OTHERS[chapter][other]))
    assert set(found) == {label for page, _, label in DISPLAYED if page == chapter}
    assert all(check.passed for check in found.values())
