"""What the build computes for tables: ``{encodings}`` and ``{speeds}``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rollpe_book.extension.site import find_records, project_root, record_page
from rollpe_book.properties import measure_all
from rollpe_lab.evidence.words import NOT_MEASURED
from rollpe_lab.files import markdown
from rollpe_lab.statistics import summarize


class TableDirective(SphinxDirective):
    """A table that the library knows. ``:caption:`` and ``:name:`` make it a numbered one."""

    option_spec: ClassVar = {"caption": directives.unchanged, "name": directives.unchanged}

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> nodes.table:
        """Cells are MyST: the first column is text, the others are numbers or short words."""
        name = f":name: {self.options['name']}\n" if "name" in self.options else ""
        head = f"```{{table}} {self.options.get('caption', caption)}\n:class: {self.name}\n{name}"
        (table,) = self.parse_text_to_nodes(f"{head}\n{markdown([columns, *rows])}\n```")
        return table


class EncodingsDirective(TableDirective):
    """``{encodings}``: accuracy on digits, and the properties that trials find."""

    columns = ("encoding", "digits (%)", "acts on", "relative", "real p", "norms", "linear", "weights added")

    def run(self) -> list[nodes.Node]:
        word = {True: "yes", False: "no", None: "–"}
        rows = []
        for p in measure_all():
            answers = [word[p.real_positions], word[p.keeps_norm], word[p.linear], f"{p.parameters:,}"]
            rows.append([f"`{p.name}`", self._reached(p.name), p.acts_on, p.relative, *answers])
        table = self.table(self.columns, rows)
        table["classes"].append("compact")
        return [table]

    def _reached(self, name: str) -> str:
        """Mean ± SD (seeds), which lead to the runs."""
        app, cell = self.env.app, f"quick/{name}"
        found = find_records(project_root(app), cell)
        if not found:
            return NOT_MEASURED
        for path in found:
            self.env.note_dependency(str(path))
        s = summarize([record.score for record in found.values()])
        text = f"{s.mean:.1f}{'' if s.sd is None else f' ± {s.sd:.1f}'} ({s.n})"
        address = record_page(app, self.env.docname, cell)
        return f'<a class="recorded-number" href="{address}">{text}</a>'


TIMED = ("none", "axial-rope", "roll")


class SpeedsDirective(TableDirective):
    """``{speeds}``: training speed without positions, with RoPE and with RollPE, in every benchmark."""

    def run(self) -> list[nodes.Node]:
        rows = []
        for path in sorted((project_root(self.env.app) / "data/benchmarks").glob("*.json")):
            self.env.note_dependency(str(path))
            rows.append(speed_row(json.loads(path.read_text(encoding="utf8"))))
        if not rows:
            return [nodes.paragraph("", "Not measured.")]
        columns = ("measured on", *TIMED, "share of peak")
        return [self.table(columns, rows, "Training speed in images a second, from data/benchmarks.")]


def speed_row(report: dict[str, Any]) -> tuple[str, ...]:
    """One benchmark: where and how, images a second of TIMED, and the share of the device's peak reached."""
    setting = f"{report['provenance']['started'][:10]}, {report['environment']['device_name']}: "
    setting += f"{report['size']}, batch {report['batch']}"
    setting += f", {report['precision']}{', compiled' if report['compiled'] else ''}"
    timed = {timing["name"]: timing for timing in report["encodings"]}
    rates = (f"{timed[n]['images_per_second']:,.0f}" if n in timed else NOT_MEASURED for n in TIMED)
    shares = [round(100 * timed[n]["share_of_peak"]) for n in TIMED if n in timed]
    span = " to ".join(map(str, sorted({min(shares), max(shares)}))) if shares else ""
    return escape(setting), *rates, f"{span} %" if span else NOT_MEASURED


def setup(app: Sphinx) -> None:
    app.add_directive("encodings", EncodingsDirective)
    app.add_directive("speeds", SpeedsDirective)
