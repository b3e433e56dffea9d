"""Tables that the build computes: ``{results}``, ``{encodings}``, ``{speeds}``.

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

from rollpe.bench.report import read_benchmarks
from rollpe.book.numbers import sentence_of
from rollpe.book.site import all_records, find_records, plain_table, project_root
from rollpe.encodings.properties import measure_all
from rollpe.errors import InputError
from rollpe.evidence.table import recipe_with_runs, results_table
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

    def accuracy_of(self, root: Path, cell: str, text: str) -> nodes.inline:
        """The accuracy of a cell ``recipe/encoding``, which links to its runs if there are any."""
        number = nodes.inline("", text, classes=["recorded-number"])
        found = find_records(root, cell)
        if found:
            number["rollpe_cell"], number["rollpe_metric"] = cell, "accuracy"
            number["rollpe_provenance"] = sentence_of(list(found.values()))
        for path in found:
            self.env.note_dependency(str(path))
        return number


class ResultsDirective(TableDirective):
    """``{results} recipe``: the results table of one recipe, on the paper's data beside its numbers.

    Of several recipes, ``{results} strong short``, the first that has runs; ``{recipe}`` and ``{epochs}`` in
    the caption stand for it. Every measured accuracy links to its runs. ``:only:`` names the encodings to
    show, where all are too many. ``:ours:`` leaves the paper's column out, where its training was another.
    What is written inside stands in place of the table as long as there is no run at all.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = TableDirective.option_spec | {
        "only": directives.unchanged,
        "ours": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        root = project_root(self.env.app)
        records = all_records(root)
        recipe = recipe_with_runs(records, self.arguments[0].split())
        try:
            results = results_table(records, recipe)
        except InputError as error:
            logger.warning("results: %s", error, location=self.get_location(), type="rollpe")
            return []
        only = self.options.get("only", "").split()
        if self.content and not results.measured:
            return self.parse_content_to_nodes()
        if "caption" in self.options:
            caption = self.options["caption"].replace("{recipe}", recipe)
            self.options["caption"] = caption.replace("{epochs}", str(results.epochs))
        kept = slice(-1 if results.beside_paper and "ours" in self.options else None)
        shown = [row[kept] for row in results.cells() if not only or row[0] in only]
        rows = [
            [nodes.literal(name, name), self.accuracy_of(root, f"{recipe}/{name}", accuracy), *rest]
            for name, accuracy, *rest in shown
        ]
        return self.finish(results.columns[kept], rows)


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
        return nodes.inline("", "", self.accuracy_of(root, cell, text), nodes.Text(f" ({reached.n})"))

    def _ratios(self, folder: Path) -> dict[str, dict[str, float]]:
        """Device → encoding → step time by that without positions, of each device's newest benchmark."""
        for path in sorted(folder.glob("*.json")):
            self.env.note_dependency(str(path))
        names = {"cpu": "CPU", "cuda": "GPU"}
        newest = {b.environment.device.partition(":")[0]: b for b in read_benchmarks(folder)}
        return {
            names.get(kind, kind): {t.name: t.ratio for t in newest[kind].encodings}
            for kind in sorted(newest)
        }


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
    app.add_directive("results", ResultsDirective)
    app.add_directive("encodings", EncodingsDirective)
    app.add_directive("speeds", SpeedsDirective)
