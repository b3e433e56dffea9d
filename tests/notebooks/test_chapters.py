"""The cells of chapters that train little check every equation, for other parameters than the book's, too.

They are the tests of the values of `rollpe.ring` and `rollpe.formulas`.
"""

from __future__ import annotations

import contextlib
import io

import jupytext
import matplotlib
import pytest
import torch

from rollpe import encodings, ring
from rollpe_book.checks import read_lines
from shared import DISPLAYED, ROOT

OTHERS = {  # an even and an odd ring where there is one, other positions, widths and seeds
    "01-order": (
        {"epochs": 1, "patch_size": 4, "seed": 1},
        {"epochs": 2, "patch_size": 1, "seed": 2},
    ),
    "02-distances": (
        {"d": 6, "bits": 3, "length": 41, "base": 100.0, "seed": 1},
        {"d": 2, "bits": 11, "length": 8, "seed": 2},
    ),
    "03-rotary": (
        {"d": 14, "tokens": 23, "r": 0, "base": 100.0, "seed": 1},
        {"d": 4, "tokens": 5, "r": 39, "base": 3.0, "seed": 2},
    ),
    "04-rolling": (
        {"n": 7, "query_position": 11, "key_position": 2, "seed": 1},
        {"n": 12, "key_position": 40, "seed": 2},
    ),
    "05-rope": ({"n": 13}, {"n": 30}),
    "06-continuous": (
        {"n": 7, "nyquist": "odd", "position": 0.3, "wavelength": 0.7, "seed": 1},
        {"n": 12, "nyquist": "twist", "position": 0.8, "wavelength": 4.0, "seed": 2},
    ),
    "07-waves": (
        {"n": 7, "waves": 3, "rows": 3, "columns": 5, "head_dim": 24, "seed": 1},
        {"n": 12, "waves": 4, "rows": 7, "columns": 2, "head_dim": 16, "seed": 2},
    ),
    "13-length": (
        {"d": 4, "tokens": 7, "base": 50.0, "seed": 1},
        {"d": 14, "tokens": 16, "base": 500000.0, "seed": 2},
    ),
    "14-buckets": (
        {"tokens": 9, "d": 5, "K": 2, "seed": 1},
        {"tokens": 30, "d": 4, "K": 6, "seed": 2},
    ),
    "15-kernels": ({"n": 9, "position": 0.55, "seed": 1}, {"n": 14, "position": 0.8, "seed": 2}),
    "16-lie": (
        {"rows": 2, "columns": 5, "head_dim": 16, "waves": 3, "seed": 1},
        {"rows": 7, "columns": 3, "head_dim": 40, "waves": 4, "seed": 2},
    ),
    "17-topography": (
        {"n": 9, "side": 9, "epsilon": 0.2, "steps": 40, "seed": 1},
        {"n": 50, "steps": 40, "seed": 2},
    ),
}


def run_cells(chapter: str, source: str | None = None, **parameters) -> str:
    """What the code cells of a chapter print, with these parameters in place of its own.

    Cells that draw a figure are left out. A failed check is an AssertionError, with the output in its notes.
    """
    notebook = jupytext.reads(source or (ROOT / f"notebooks/{chapter}.py").read_text("utf8"), "py:percent")
    names, before, random = {"__name__": chapter}, torch.get_default_dtype(), torch.get_rng_state()
    with matplotlib.rc_context(), contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            for cell in notebook.cells:
                if cell.cell_type == "code" and "figure" not in cell.metadata.get("mystnb", {}):
                    exec(compile(cell.source, chapter, "exec"), names)
                    if "parameters" in cell.metadata.get("tags", []):
                        names.update(parameters)
        except AssertionError as error:
            error.add_note(out.getvalue())
            raise
        finally:
            torch.set_default_dtype(before)
            torch.set_rng_state(random)
    return out.getvalue()


@pytest.mark.parametrize(("chapter", "other"), [(name, i) for name in OTHERS for i in range(2)])
def test_every_equation_is_checked_in_the_cells_of_its_chapter(chapter, other):
    found = read_lines(run_cells(chapter, **OTHERS[chapter][other]))
    assert set(found) == {label for page, _, label in DISPLAYED if page == chapter}
    assert all(check.passed for check in found.values())


def flipped(x, steps, roll=ring.roll):
    return roll(x, -steps)


def rounded(positions, shown, built):
    return (positions * torch.tensor(built) / torch.tensor(shown)).floor()


@pytest.mark.parametrize(
    ("module", "name", "fault", "chapter", "label"),
    [
        (ring, "roll", flipped, "04-rolling", "eq-roll"),
        (encodings, "scale_positions", rounded, "16-lie", "eq-resolution"),
    ],
)
def test_a_fault_in_the_library_fails_the_cell_under_its_formula(
    monkeypatch, module, name, fault, chapter, label
):
    monkeypatch.setattr(module, name, fault)
    with pytest.raises(AssertionError, match=f"^{label}: "):
        run_cells(chapter)


def test_a_label_taken_away_is_missed():
    """By the test above and by the build."""
    source = (ROOT / "notebooks/04-rolling.py").read_text("utf8")
    assert "eq-determinant" in read_lines(run_cells("04-rolling", source))
    assert "eq-determinant" not in read_lines(
        run_cells("04-rolling", source.replace('"eq-determinant"', '"it"'))
    )
