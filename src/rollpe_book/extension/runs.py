"""All runs on one page: ``{runs} mini``, whose argument is the recipe that a reader sees first."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from docutils import nodes
from numpy.typing import NDArray
from scipy import stats
from sphinx.application import Sphinx

from rollpe_book import figures
from rollpe_book.extension import site
from rollpe_book.extension.numbers import recorded_number
from rollpe_book.extension.tables import TableDirective
from rollpe_lab.evidence.families import later_cells
from rollpe_lab.records.record import Record
from rollpe_lab.records.store import record_path
from rollpe_lab.statistics import CONFIDENCE, summarize
from rollpe_lab.training.data import read_test_labels

INDEX = "runs"
"""The name of the index among the site's data."""

TESTS = {
    "cifar100": "CIFAR-100",
    "digits": "Digits",
    "place": "Place of a digit",
    "offset": "Offset of two digits",
    "points": "Points of a digit",
    "points-rounded": "Points of a digit, positions rounded",
    "sympy": "Text of SymPy",
    "sklearn": "Text of scikit-learn",
}
"""Test sets by data set, in the order of the page. Runs of one are drawn together, others never."""


def cells_of(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs by cell, ``recipe/encoding slug``, sorted; seeds in order."""
    found: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda r: (r.recipe, r.run_id.slug, r.seed)):
        found.setdefault(record.run_id.path.parent.as_posix(), []).append(record)
    return found


def file_of(cell: str) -> str:
    """The name of a cell's file among the site's data: letters and digits alone, the same in every build."""
    return f"{INDEX}-{hashlib.sha256(cell.encode()).hexdigest()[:10]}"


# What scripts fetch


def test_of(record: Record) -> str:
    """The data set whose test part a run was scored on."""
    return str(record.config["data"])


@cache
def labels_of(name: str, root: Path) -> tuple[NDArray[np.int64], list[str]]:
    """The class of each test image, and the names of the classes."""
    return read_test_labels(name, root / "data")


def parts_of(name: str, records: Sequence[Record], root: Path) -> list[str] | list[int]:
    """The parts of a test set: its classes; of text, the lengths of its windows."""
    if records[0].bits:
        return sorted({int(length) for r in records for length in r.bits})
    return [class_.replace("_", " ") for class_ in labels_of(name, root)[1]]


def results_by_part(record: Record, parts: Sequence[str | int], root: Path) -> list[float | None]:
    """Accuracy in percent of each class; of text, bits per character in windows of each length."""
    if record.bits:
        known = {int(length): round(bits, 5) for length, bits in record.bits.items()}
        return [known.get(int(length)) for length in parts]
    labels, _ = labels_of(test_of(record), root)
    right = np.bincount(labels, weights=record.correct_bits())
    return (100 * right / np.bincount(labels)).round(3).tolist()


def curve(record: Record) -> list[float | None]:
    """Held-out result after each epoch: accuracy in percent; of text, bits per character."""
    if record.bits:
        losses = [epoch.held_out_loss for epoch in record.history]
        return [None if loss is None else round(loss / math.log(2), 4) for loss in losses]
    shares = [epoch.held_out_accuracy for epoch in record.history]
    return [None if share is None else round(100 * share, 3) for share in shares]


def entry(cell: str, records: Sequence[Record], later: Collection[Path], root: Path) -> dict[str, Any]:
    """A cell in the index: its names and color, and of each run what the table shows."""
    first = records[0]
    return {
        "recipe": unquote(first.recipe),
        "encoding": first.encoding,
        "options": unquote(first.run_id.slug.partition("@")[2]),
        "label": figures.label_of(first.run_id.slug),
        "color": figures.color_of(first.run_id.slug),
        "test": test_of(first),
        "file": file_of(cell),
        "folder": site.record_link(record_path("", first)).rpartition("/")[0],
        "runs": [
            {
                "seed": r.seed,
                "score": round(r.score, 6),
                "seconds": round(r.provenance.wall_seconds),
                "date": r.provenance.finished[:10],
                **dict.fromkeys(marks(r, later, root), True),
            }
            for r in records
        ],
    }


def marks(record: Record, later: Collection[Path], root: Path) -> Iterator[str]:
    """``later``: added when earlier runs were known. ``fresh``: not committed."""
    if record.run_id.path in later:
        yield "later"
    if not record_path(root / site.RECORDS[0], record).is_file():
        yield "fresh"


def index(root: Path, cells: dict[str, list[Record]], first: str) -> dict[str, Any]:
    """All that the table needs. ``first``: the recipe whose runs are chosen at first.

    ``quantiles``: of Student's t for intervals over 2, 3, … seeds.
    """
    by_test: dict[str, list[Record]] = {name: [] for name in TESTS}
    for records in cells.values():
        by_test[test_of(records[0])].extend(records)
    most = max(map(len, cells.values()), default=1)
    later = later_cells(root / "plans")
    return {
        "first": first,
        "quantiles": stats.t.ppf(0.5 + CONFIDENCE / 2, np.arange(1, max(most, 2))).tolist(),
        "dark": figures.DARK,
        "tests": {
            name: {
                "title": TESTS[name],
                "text": bool(records[0].bits),
                "measure": "loss" if records[0].bits else "accuracy",
                "unit": "bits per character" if records[0].bits else "%",
                "parts": parts_of(name, records, root),
            }
            for name, records in by_test.items()
            if records
        },
        "cells": [entry(cell, records, later, root) for cell, records in cells.items()],
    }


def runs_of(records: Sequence[Record], parts: Sequence[str | int], root: Path) -> list[dict[str, Any]]:
    """The file of a cell: of each run command, curve, results by part."""
    return [
        {"command": r.provenance.command, "curve": curve(r), "parts": results_by_part(r, parts, root)}
        for r in records
    ]


def write_runs(app: Sphinx, docname: str, cells: dict[str, list[Record]], first: str) -> None:
    """Write the index and the file of every cell into the site."""
    root = site.project_root(app)
    made = index(root, cells, first)
    for cell, records, line in zip(cells, cells.values(), made["cells"], strict=True):
        line["page"] = site.record_page(app, docname, cell)
        site.write_data(app, line["file"], runs_of(records, made["tests"][line["test"]]["parts"], root))
    site.write_data(app, INDEX, made)


# The page


class RunsDirective(TableDirective):
    """``{runs} mini``: every cell with its mean over seeds; on a site also the place of the script."""

    required_arguments = 1
    columns = ("recipe", "encoding", "accuracy (%) or bits", "95 % interval", "n")

    def run(self) -> list[nodes.Node]:
        app = self.env.app
        root = site.project_root(app)
        cells = cells_of(site.all_records(root))
        for path in (path for folder in site.RECORDS for path in (root / folder).glob("*/*/seed-*.json")):
            self.env.note_dependency(str(path))
        if not cells:
            return [nodes.paragraph("", "Not measured.")]
        if site.is_site(app):
            write_runs(app, self.env.docname, cells, self.arguments[0])
        rows = [self._row(cell, records) for cell, records in cells.items()]
        stage = '<div class="runs-stage" data-script="runs" hidden></div>'
        return [nodes.raw("", stage, format="html", script="runs"), self.table(self.columns, rows)]

    def _row(self, cell: str, records: Sequence[Record]) -> list[str]:
        recipe, _, slug = cell.partition("/")
        text = recorded_number(records, "bits" if records[0].bits else "accuracy").removesuffix(" %")
        if site.is_site(self.env.app):
            uri = site.record_page(self.env.app, self.env.docname, cell)
            text = f'<a href="{uri}">{text}</a>'
        s = summarize([r.score for r in records])
        interval = "–" if s.low is None else f"{s.low:.2f} to {s.high:.2f}"
        return [unquote(recipe), unquote(slug), text, interval, str(s.n)]


def setup(app: Sphinx) -> None:
    app.add_directive("runs", RunsDirective)
