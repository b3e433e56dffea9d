"""The cells of a chapter, run in this process: no kernel, no figures."""

from __future__ import annotations

import contextlib
import io

import jupytext
import matplotlib
import torch

from shared import ROOT


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
