"""Tables that the build computes: ``{encodings}``, ``{speeds}``.

Not here: what they are computed from (rollpe.evidence, rollpe.bench, rollpe.encodings.properties).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from rollpe.bench.report import newest_by_device
from rollpe.book.numbers import sentence_of
from rollpe.book.site import find_records, plain_table, project_root
from rollpe.encodings.properties import measure_all
from rollpe.statistics import summarize

logger = logging.getLogger(__name__)


class TableDirective(SphinxDirective):
    """A table that the library knows. ``:caption:`` and ``:name:`` make it a numbered one."""

    option_spec: ClassVar = {"caption": directives.unchanged, "name": directives.unchanged}

    def finish(self, columns: Sequence[str], rows: Sequence[Sequence[str | nodes.Node]]) -> list[nodes.Node]:
        """The table with the directive's caption and name."""
        caption, _ = self.parse_inline(self.options.get("caption", ""))
        table = plain_table(columns, rows, self.name, caption)
        self.set_source_info(table)
        self.add_name(table)
        return [table]


ACCURACIES = {"quick": "digits (%)", "mini": "CIFAR-100 (%)"}
"""Recipes whose accuracies the table of encodings has, with the heads of their columns."""


class EncodingsDirective(TableDirective):
    """``{encodings}``: what every encoding reached in our runs, what a step costs, and what trials find.

    An accuracy has its number of seeds in parentheses and links to its runs. A step's time is divided by that
    without positions, from the newest benchmark of each device that was measured.
    """

    properties = ("acts on", "relative", "real p", "larger grid", "norms", "linear", "weights added")

    def run(self) -> list[nodes.Node]:
        root = project_root(self.env.app)
        ratios = self._ratios(root / "data/benchmarks")
        columns = ("encoding", *ACCURACIES.values(), *(f"time, {d}" for d in ratios), *self.properties)
        word = {True: "yes", False: "no", None: "–"}
        rows: list[list[str | nodes.Node]] = []
        for p in measure_all():
            reached = [self._accuracy(root, f"{recipe}/{p.name}") for recipe in ACCURACIES]
            times = [f"{of[p.name]:.2f}" if p.name in of else "not measured" for of in ratios.values()]
            answers = [word[v] for v in (p.real_positions, p.larger_grid, p.keeps_norm, p.linear)]
            name = nodes.literal(p.name, p.name)
            rows.append([name, *reached, *times, p.acts_on, p.relative, *answers, f"{p.parameters:,}"])
        made = self.finish(columns, rows)
        made[0]["classes"].append("compact")
        return made

    def _accuracy(self, root: Path, cell: str) -> str | nodes.Node:
        found = find_records(root, cell)
        if not found:
            return "not measured"
        reached = summarize([100 * r.test.accuracy for r in found.values()])
        text = f"{reached.mean:.1f}" + ("" if reached.sd is None else f" ± {reached.sd:.1f}")
        number = nodes.inline("", text, classes=["recorded-number"])
        number["rollpe_cell"], number["rollpe_metric"] = cell, "accuracy"
        number["rollpe_provenance"] = sentence_of(list(found.values()))
        for path in found:
            self.env.note_dependency(str(path))
        return nodes.inline("", "", number, nodes.Text(f" ({reached.n})"))

    def _ratios(self, folder: Path) -> dict[str, dict[str, float]]:
        """Device → encoding → step time by that without positions, of each device's newest benchmark."""
        for path in sorted(folder.glob("*.json")):
            self.env.note_dependency(str(path))
        names = {"cpu": "CPU", "cuda": "GPU"}
        newest = sorted(newest_by_device(folder).items())
        return {names.get(kind, kind): {t.name: t.ratio for t in b.encodings} for kind, b in newest}


TIMED = ("none", "axial-rope", "roll")


class SpeedsDirective(SphinxDirective):
    """``{speeds}``: training speed without positions, with RoPE and with RollPE, in every benchmark."""

    def run(self) -> list[nodes.Node]:
        rows = []
        for path in sorted((project_root(self.env.app) / "data/benchmarks").glob("*.json")):
            self.env.note_dependency(str(path))
            rows.append(speed_row(json.loads(path.read_text(encoding="utf8"))))
        if not rows:
            return [nodes.paragraph("", "Not measured.")]
        columns = ("measured on", *TIMED, "share of peak")
        caption = nodes.Text("Training speed in images a second, from data/benchmarks.")
        return [plain_table(columns, rows, "speeds", [caption])]


def speed_row(report: dict[str, Any]) -> tuple[str, ...]:
    """One benchmark: where and how, images a second of TIMED, and the share of the device's peak reached."""
    setting = f"{report['environment']['device_name']}: {report['size']}, batch {report['batch']}"
    setting += f", {report['precision']}{', compiled' if report['compiled'] else ''}"
    timed = {timing["name"]: timing for timing in report["encodings"]}
    rates = (f"{timed[n]['images_per_second']:,.0f}" if n in timed else "not measured" for n in TIMED)
    shares = [round(100 * timed[n]["share_of_peak"]) for n in TIMED if n in timed]
    span = " to ".join(map(str, sorted({min(shares), max(shares)}))) if shares else ""
    return setting, *rates, f"{span} %" if span else "not measured"


def setup(app: Sphinx) -> None:
    app.add_directive("encodings", EncodingsDirective)
    app.add_directive("speeds", SpeedsDirective)
