"""The directive ``{chooser}``: a table of what decides between encodings, which a form filters on a site.

Here: the table, and beside it the facts that book/scripts/chooser.js needs: code, reasons against, notes. All
of them come from trials (rollpe.encodings.properties), records and benchmarks. Not here: the form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from rollpe.book.site import project_root
from rollpe.book.tables import TableDirective, recorded, time_ratios
from rollpe.encodings.properties import FIT_GRIDS, Fit, fit
from rollpe.encodings.registry import ENCODINGS

RESULTS = {
    "CIFAR-100 (%)": ("mini", "accuracy"),
    "CIFAR-100 at 1.5× (%)": ("mini", "accuracy@48"),
    "text (bits)": ("text", "bits"),
    "text at 8× (bits)": ("text", "bits@512"),
}
"""Columns of results: of a recipe at its own size, then at a larger one."""
BY_AXES = {1: "text", 2: "mini", 3: ""}
"""The recipe that speaks for a sequence, an image and a video; there is none for video."""

AGAINST = {
    "larger_grid": "takes no larger grid than in training",
    "cached": "does not decode from cached keys",
    "fused": "adds to the scores: attention needs a mask",
    "fused_decoding": "adds to the scores: decoding needs a mask",
}
"""What to say where a trial of ``Fit`` fails."""


def reasons(found: Fit) -> dict[str, str]:
    """Why not to take an encoding, by the answer that excludes it; "axes" excludes it in any case."""
    if found.refusal or found.acts_on == "nothing":
        return {"axes": plainly(found.refusal) or "encodes no position"}
    against = {"of_fractions": plainly(found.of_fractions)} if found.of_fractions else {}
    return against | {trial: why for trial, why in AGAINST.items() if not getattr(found, trial)}


def plainly(message: str) -> str:
    """An error message of the library after its "encoding 'roll' ", without the full stop."""
    return re.sub(r"^encoding '[^']+' ", "", message).rstrip(".")


def notes_on(found: Fit) -> list[str]:
    """What its user has to know, as far as it can be read off the encoding."""
    notes = []
    if found.acts_on == "tokens":
        notes.append("add to the tokens, before the first layer")
    if found.streams > 1:
        notes.append(f"queries and keys have {found.streams} × 64 channels")
    if found.periods:
        notes.append(f"scores repeat after {' × '.join(f'{period:g}' for period in found.periods)} positions")
    return notes


def facts(found: dict[int, Fit]) -> dict[int, dict[str, Any]]:
    """Code, reasons against and notes of one encoding, by number of axes."""
    return {
        axes: {"code": f"create_encoding({f.arguments})", "against": reasons(f), "notes": notes_on(f)}
        for axes, f in found.items()
    }


class ChooserDirective(TableDirective):
    """``{chooser}``: one row an encoding. ``BY_AXES`` says which results count."""

    def run(self) -> list[nodes.Node]:
        root = project_root(self.env.app)
        fits = {name: {axes: fit(name, axes) for axes in FIT_GRIDS} for name in ENCODINGS}
        times = time_ratios(self.env, root)
        timed = [f"time, {device}" for device in times]
        columns = ("encoding", "axes", "real p", "no mask", "decoding", *timed, *RESULTS)
        rows: list[list[str | nodes.Node]] = []
        for name, found in fits.items():
            taken = {axes: f for axes, f in found.items() if not f.refusal}
            first = next(iter(taken.values()))
            answers = (
                _listed(taken),
                "no" if first.of_fractions else "yes",
                _listed(axes for axes, f in taken.items() if f.fused),
                _listed(axes for axes, f in taken.items() if f.fused_decoding),
            )
            ratios = [f"{of[name]:.2f}" if name in of else "not measured" for of in times.values()]
            reached = [recorded(self.env, root, f"{r}/{name}", metric) for r, metric in RESULTS.values()]
            rows.append([nodes.literal(name, name), *answers, *ratios, *reached])
        made = self.finish(columns, rows)
        made[0]["classes"].append("compact")
        given = {
            "facts": {name: facts(found) for name, found in fits.items()},
            "times": [columns.index(head) for head in timed],
            "results": {
                axes: {
                    "recipe": recipe,
                    "columns": [columns.index(head) for head, (of, _) in RESULTS.items() if of == recipe],
                    "rising": recipe == "mini",  # of bits, fewer are better
                }
                for axes, recipe in BY_AXES.items()
            },
        }
        return [_stage(given), *made]


def _listed(axes: Iterable[int]) -> str:
    return ",\xa0".join(map(str, axes)) or "–"


def _stage(given: dict[str, Any]) -> nodes.raw:
    values = escape(json.dumps(given, separators=(",", ":"), ensure_ascii=False))
    html = f'<div class="chooser-stage" data-script="chooser" data-given="{values}" hidden></div>'
    return nodes.raw("", html, format="html", script="chooser")


def setup(app: Sphinx) -> None:
    app.add_directive("chooser", ChooserDirective)
