"""Tables that the build computes: ``{encodings}``, ``{speeds}``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from rollpe_book.extension.numbers import NOT_MEASURED, recorded_number, sentence_of
from rollpe_book.extension.site import find_records, plain_table, project_root
from rollpe_book.properties import measure_all

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


class EncodingsDirective(TableDirective):
    """``{encodings}``: accuracy on digits, and the properties that trials find."""

    columns = ("encoding", "digits (%)", "acts on", "relative", "real p", "norms", "linear", "weights added")

    def run(self) -> list[nodes.Node]:
        root = project_root(self.env.app)
        word = {True: "yes", False: "no", None: "–"}
        rows: list[list[str | nodes.Node]] = []
        for p in measure_all():
            reached = recorded(self.env, root, f"quick/{p.name}", "accuracy")
            answers = [word[p.real_positions], word[p.keeps_norm], word[p.linear], f"{p.parameters:,}"]
            rows.append([nodes.literal(p.name, p.name), reached, p.acts_on, p.relative, *answers])
        made = self.finish(self.columns, rows)
        made[0]["classes"].append("compact")
        return made


def recorded(env: BuildEnvironment, root: Path, cell: str, metric: str) -> str | nodes.Node:
    """A metric of all runs of a cell, mean ± SD with their number, linked to them."""
    found = find_records(root, cell)
    text = recorded_number(list(found.values()), metric)
    if text == NOT_MEASURED:
        return text
    number = nodes.inline("", text.removesuffix(" %"), classes=["recorded-number"])
    number["rollpe_cell"], number["rollpe_metric"] = cell, metric
    number["rollpe_provenance"] = sentence_of(list(found.values()))
    for path in found:
        env.note_dependency(str(path))
    return nodes.inline("", "", number, nodes.Text(f" ({len(found)})"))


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
    setting = f"{report['provenance']['started'][:10]}, {report['environment']['device_name']}: "
    setting += f"{report['size']}, batch {report['batch']}"
    setting += f", {report['precision']}{', compiled' if report['compiled'] else ''}"
    timed = {timing["name"]: timing for timing in report["encodings"]}
    rates = (f"{timed[n]['images_per_second']:,.0f}" if n in timed else "not measured" for n in TIMED)
    shares = [round(100 * timed[n]["share_of_peak"]) for n in TIMED if n in timed]
    span = " to ".join(map(str, sorted({min(shares), max(shares)}))) if shares else ""
    return setting, *rates, f"{span} %" if span else "not measured"


def setup(app: Sphinx) -> None:
    app.add_directive("encodings", EncodingsDirective)
    app.add_directive("speeds", SpeedsDirective)
