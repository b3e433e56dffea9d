"""All runs on one page: ``{runs} mini``, whose argument is the recipe that a reader sees first."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from numpy.typing import NDArray
from sphinx.application import Sphinx

from rollpe_book import figures
from rollpe_book.extension import site
from rollpe_book.extension.numbers import recorded_number
from rollpe_book.extension.tables import TableDirective
from rollpe_lab.evidence.families import later_cells
from rollpe_lab.records.record import Record, by_cell
from rollpe_lab.records.store import record_path
from rollpe_lab.statistics import summarize
from rollpe_lab.training.data import read_test_labels

INDEX = "runs"
"""The name of the index among the site's data."""
CSV = "runs.csv"
CSV_COLUMNS = ("recipe", "encoding", "seed", "result", "unit", "remark", "seconds", "finished", "record")
"""The file of all runs for other programs, beside the index, and its columns."""

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
    """Runs by cell, sorted; seeds in order."""
    return by_cell(sorted(records, key=lambda r: (r.recipe, r.run_id.slug, r.seed)))


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


def results_by_part(records: Sequence[Record], parts: Sequence[str | int], root: Path) -> list[float | None]:
    """Means over runs: accuracy in percent of each class; of text, bits per character by window."""
    if records[0].bits:
        known = [[r.bits[str(n)] for r in records if str(n) in r.bits] for n in parts]
        return [round(float(np.mean(bits)), 5) if bits else None for bits in known]
    labels, _ = labels_of(test_of(records[0]), root)
    right = np.mean([np.bincount(labels, weights=r.correct_bits()) for r in records], axis=0)
    return (100 * right / np.bincount(labels)).round(3).tolist()


def curve(records: Sequence[Record]) -> list[dict[str, float]]:
    """Held-out accuracy in percent, or bits per character, over runs after each epoch that was scored."""
    points = []
    for epochs in zip(*(r.history for r in records), strict=True):
        if records[0].bits:
            scored = [e.held_out_loss / math.log(2) for e in epochs if e.held_out_loss is not None]
        else:
            scored = [100 * e.held_out_accuracy for e in epochs if e.held_out_accuracy is not None]
        if scored:
            found = {"mean": np.mean(scored), "low": min(scored), "high": max(scored)}
            points.append({"epoch": epochs[0].epoch} | {key: round(float(x), 4) for key, x in found.items()})
    return points


def arm_data(
    records: Sequence[Record], parts: Sequence[str | int], later: Collection[Path], root: Path
) -> dict[str, Any]:
    """The file of a cell: its runs, their mean and interval, curve, results by part."""
    return vars(summarize([r.score for r in records])) | {
        "runs": [
            {
                "seed": r.seed,
                "score": round(r.score, 6),
                "record": site.record_link(record_path("", r)),
                "remark": ", ".join(remarks(r, later, root)),
                "command": r.provenance.command,
            }
            for r in records
        ],
        "curve": curve(records),
        "parts": results_by_part(records, parts, root),
    }


def remarks(record: Record, later: Collection[Path], root: Path) -> Iterator[str]:
    if record.run_id.path in later:
        yield "exploratory"
    if not record_path(root / site.RECORDS[0], record).is_file():
        yield "this build"


def index(cells: dict[str, list[Record]], first: str, root: Path) -> dict[str, Any]:
    """What the form needs; a cell's data are in its own file. ``first``: the recipe chosen at first."""
    by_test: dict[str, list[Record]] = {name: [] for name in TESTS}
    for records in cells.values():
        by_test[test_of(records[0])].extend(records)
    return {
        "first": first,
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
        "cells": [
            {
                "name": cell,
                "label": figures.label_of(records[0].run_id.slug),
                "color": figures.color_of(records[0].run_id.slug),
                "test": test_of(records[0]),
                "file": file_of(cell),
            }
            for cell, records in cells.items()
        ],
    }


def write_runs(app: Sphinx, docname: str, cells: dict[str, list[Record]], first: str) -> None:
    """Write the index and the file of every cell into the site."""
    root = site.project_root(app)
    later = later_cells(root / "plans")
    made = index(cells, first, root)
    for records, line in zip(cells.values(), made["cells"], strict=True):
        line["page"] = page_of(app, docname, records)
        parts = made["tests"][line["test"]]["parts"]
        site.write_data(app, line["file"], arm_data(records, parts, later, root))
    site.write_data(app, INDEX, made)
    with Path(app.doctreedir, "data", CSV).open("w", newline="", encoding="utf8") as file:
        csv.writer(file, lineterminator="\n").writerows([CSV_COLUMNS, *lines_of(cells, later, root)])


def page_of(app: Sphinx, docname: str, records: Sequence[Record]) -> str | None:
    """The address of a cell's entry on the page of recorded numbers."""
    return site.record_page(app, docname, records[0].run_id.path.parent.as_posix())


def lines_of(cells: dict[str, list[Record]], later: Collection[Path], root: Path) -> Iterator[list[Any]]:
    """All runs as rows with CSV_COLUMNS."""
    for cell, records in cells.items():
        recipe, _, encoding = cell.partition("/")
        for r in records:
            unit, remark = "bits per character" if r.bits else "%", ", ".join(remarks(r, later, root))
            made = [
                round(r.provenance.wall_seconds),
                r.provenance.finished,
                site.record_copy(record_path("", r)),
            ]
            yield [recipe, encoding, r.seed, round(r.score, 6), unit, remark, *made]


# The page


class RunsDirective(TableDirective):
    """``{runs} mini``: every cell with its mean over seeds; on a site also the place of the script."""

    required_arguments = 1
    columns = ("recipe/encoding", "accuracy (%) or bits", "95 % interval", "n")

    def run(self) -> list[nodes.Node]:
        app = self.env.app
        root = site.project_root(app)
        cells = cells_of(site.all_records(root))
        for path in (path for folder in site.RECORDS for path in (root / folder).glob("*/*/seed-*.json")):
            self.env.note_dependency(str(path))
        if not cells:
            return [nodes.paragraph("", "Not measured.")]
        rows = [self._row(cell, records) for cell, records in cells.items()]
        made: list[nodes.Node] = [self.table(self.columns, rows)]
        if site.is_site(app):
            write_runs(app, self.env.docname, cells, self.arguments[0])
            stage = '<div class="runs-stage" data-script="runs" hidden></div>'
            link = f'<p><a href="_static/data/{CSV}">All runs as CSV</a></p>'
            made.insert(0, nodes.raw("", stage, format="html", script="runs"))
            made.append(nodes.raw("", link, format="html"))
        return made

    def _row(self, cell: str, records: Sequence[Record]) -> list[str]:
        text = recorded_number(records, "bits" if records[0].bits else "accuracy").removesuffix(" %")
        if site.is_site(self.env.app):
            uri = page_of(self.env.app, self.env.docname, records)
            text = f'<a href="{uri}">{text}</a>'
        s = summarize([r.score for r in records])
        interval = "–" if s.low is None else f"{s.low:.2f} to {s.high:.2f}"
        return [cell, text, interval, str(s.n)]


def setup(app: Sphinx) -> None:
    app.add_directive("runs", RunsDirective)
