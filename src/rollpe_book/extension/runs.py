"""All runs on one page: ``{runs}``, a table of their means, and the file of all runs for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from rollpe_book.extension import site
from rollpe_book.extension.tables import TableDirective
from rollpe_lab.evidence.comparisons import later_cells
from rollpe_lab.files import write_atomically
from rollpe_lab.records.record import Record, by_cell
from rollpe_lab.records.store import record_path
from rollpe_lab.statistics import summarize

CSV = "runs.csv"
CSV_COLUMNS = ("recipe", "encoding", "seed", "result", "unit", "remark", "seconds", "finished", "record")
"""The file of all runs among the site's data, and its columns."""


def cells_of(root: Path) -> dict[str, list[Record]]:
    """Runs by cell, sorted; seeds in order."""
    return by_cell(sorted(site.all_records(root), key=lambda r: (r.recipe, r.run_id.slug, r.seed)))


def remarks(record: Record, later: Collection[Path], root: Path) -> Iterator[str]:
    if record.run_id.path in later:
        yield "exploratory"
    if not record_path(root / site.RECORDS[0], record).is_file():
        yield "this build"


def lines_of(cells: Mapping[str, Sequence[Record]], root: Path) -> Iterator[list[Any]]:
    """All runs as rows with CSV_COLUMNS."""
    later = later_cells(root / "plans")
    for cell, records in cells.items():
        recipe, _, encoding = cell.partition("/")
        for r in records:
            unit, remark = "bits per character" if r.bits else "%", ", ".join(remarks(r, later, root))
            seconds, copy = round(r.provenance.wall_seconds), site.record_copy(record_path("", r))
            result = round(r.score, 6)
            yield [recipe, encoding, r.seed, result, unit, remark, seconds, r.provenance.finished, copy]


class RunsDirective(TableDirective):
    """``{runs}``: every cell with its mean over seeds; a script lets readers search and sort them."""

    columns = ("recipe", "encoding", "result", "SD", "95 % interval", "n")

    def run(self) -> list[nodes.Node]:
        app = self.env.app
        root = site.project_root(app)
        cells = cells_of(root)
        for path in (path for folder in site.RECORDS for path in (root / folder).glob("*/*/seed-*.json")):
            self.env.note_dependency(str(path))
        if not cells:
            return [nodes.paragraph("", "Not measured.")]
        table = self.table(self.columns, [self._row(*cell) for cell in cells.items()])
        path = Path(app.doctreedir, "data", CSV)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([CSV_COLUMNS, *lines_of(cells, root)])
        write_atomically(path, text.getvalue().encode())
        link = f'<p data-script="runs"><a href="_static/data/{CSV}">All runs as CSV</a></p>'
        return [table, site.on_site(nodes.raw("", link, format="html"))]

    def _row(self, cell: str, records: Sequence[Record]) -> list[str]:
        """Its encoding leads to the records. Figures and tables lead to the row, by its id."""
        recipe, _, encoding = cell.partition("/")
        path = record_path("", records[0])
        name, address = nodes.make_id(path.parent.as_posix()), site.record_link(path)
        encoding = f'<a id="{name}" href="{escape(address)}">{escape(encoding)}</a>'
        s, bits = summarize([r.score for r in records]), bool(records[0].bits)
        digits = 3 if bits else 2
        sd = "–" if s.sd is None else f"{s.sd:.{digits}f}"
        interval = "–" if s.low is None else f"{s.low:.{digits}f} to {s.high:.{digits}f}"
        return [recipe, encoding, f"{s.mean:.{digits}f}" + " bits" * bits, sd, interval, str(s.n)]


def write_records(app: Sphinx, exception: Exception | None) -> None:
    """Put all records into the book, a list for each cell, so that the page of runs leads to them."""
    if exception is None and site.is_site(app):
        lists: dict[str, dict[int, Path]] = {}
        for folder in reversed(site.RECORDS):  # of two runs of one seed the committed one stays
            for path in (site.project_root(app) / folder).glob("*/*/seed-*.json"):
                seed = int(path.stem.removeprefix("seed-"))
                lists.setdefault(site.record_copy(path), {})[seed] = path
        for copy, paths in lists.items():
            texts = [path.read_text(encoding="utf8").strip() for _, path in sorted(paths.items())]
            write_atomically(Path(app.outdir, copy), f"[{','.join(texts)}]".encode())


def setup(app: Sphinx) -> None:
    app.add_directive("runs", RunsDirective)
    app.connect("build-finished", write_records)
