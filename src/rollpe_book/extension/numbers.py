"""Numbers from records."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from rollpe.errors import InputError
from rollpe_book.extension import site
from rollpe_book.pages import render
from rollpe_lab.records.record import Record, comparable

logger = logging.getLogger(__name__)


NOT_MEASURED = "not measured"
METRICS: dict[str, tuple[Callable[[Record], float | None], int, str]] = {
    "accuracy": (lambda r: 100 * r.test.accuracy, 1, " %"),
    "bits": (lambda r: r.bits_at(), 2, ""),
    "loss": (lambda r: r.test.loss, 3, ""),
    "throughput": (lambda r: r.throughput, 0, " images/s"),
    "seconds": (lambda r: r.provenance.wall_seconds, 0, " s"),
    "parameters": (lambda r: r.parameters, 0, ""),
    "seeds": (lambda r: 1, 0, ""),
}
"""What is recorded: its value in one run, and the decimals and the unit of its mean."""


def recorded_number(records: Sequence[Record], metric: str) -> str:
    """Mean ± SD over the seeds of one cell, "93.1 ± 0.4 %", or "not measured".

    metric: a key of METRICS, ``accuracy@24`` for images scored at 24 pixels, or ``bits@512`` for windows of
    512 characters.
    """
    name, _, size = metric.partition("@")
    if name not in METRICS or (size and name not in ("accuracy", "bits")):
        allowed = ", ".join(METRICS)
        raise InputError(f"{metric!r} is not recorded: use one of {allowed}, accuracy@24 or bits@512.")
    measure, digits, unit = METRICS[name]
    if size == "":
        found = [measure(r) for r in records]
    elif name == "bits":
        found = [r.bits.get(size) for r in records]
    else:
        found = [100 * r.resolutions[size] if size in r.resolutions else None for r in records]
    values = [value for value in found if value is not None]
    if not values:
        return NOT_MEASURED
    if name == "seeds":
        return str(len(values))
    spread = len(values) > 1 and name != "parameters"
    text = f"{np.mean(values):,.{digits}f}"
    return f"{text} ± {np.std(values, ddof=1):,.{digits}f}{unit}" if spread else f"{text}{unit}"


def sentence_of(records: Sequence[Record]) -> str:
    """One sentence for the tooltip: how many runs, which seeds, which source, where and when."""
    seeds = ", ".join(str(r.seed) for r in records)
    commits = sorted({r.provenance.commit[:10] + ("+" if r.provenance.dirty else "") for r in records})
    devices = sorted({r.environment.device_name for r in records})
    latest = max(r.provenance.finished for r in records)[:10]
    many = f"mean ± SD of {len(records)} runs, seeds" if len(records) > 1 else "one run, seed"
    return f"{many} {seeds}; commit {', '.join(commits)}; {', '.join(devices)}; {latest}"


class NumberRole(SphinxRole):
    """``{num}`recipe/encoding metric` ``: a recorded number with its provenance."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        cell, _, metric = self.text.strip().rpartition(" ")
        try:
            if cell.count("/") != 1:
                raise InputError(f"{self.text!r}: write recipe/encoding and metric, as quick/roll accuracy.")
            by_path = site.find_records(site.project_root(self.env.app), cell.strip())
            text = recorded_number(list(by_path.values()), metric)
        except InputError as error:
            logger.warning("num: %s", error, location=self.get_location(), type="rollpe")
            return [nodes.literal(self.text, self.text)], []
        records = list(by_path.values())
        cell = next((record.run_id.path.parent.as_posix() for record in records), cell)
        for record in records[1:]:
            for reason in comparable(records[0], record):
                message = "num: the runs of %s are no sample of one thing: %s"
                logger.warning(message, cell, reason, location=self.get_location(), type="rollpe")
        for path in by_path:
            self.env.note_dependency(str(path))
        node = nodes.inline(self.rawtext, text, classes=["recorded-number"])
        if text == NOT_MEASURED:
            node["classes"].append("not-measured")
        else:
            node["rollpe_cell"] = cell
            node["rollpe_provenance"] = sentence_of(records)
        return [node], []


def link_number(app: Sphinx, docname: str, node: nodes.inline) -> None:
    """Link a number to its entry on the page of recorded numbers."""
    uri = site.record_page(app, docname, node["rollpe_cell"])
    title = f"{unquote(node['rollpe_cell'])}: {node['rollpe_provenance']}"
    node.replace_self(
        nodes.reference("", node.astext(), internal=True, refuri=uri, reftitle=title, classes=node["classes"])
    )


def commit_of(record: Record) -> str:
    """The commit that a run came from, and whether there were changes beside it."""
    return record.provenance.commit[:10] + (" with changes" if record.provenance.dirty else "")


def _cell_html(root: Path, cell: str) -> str:
    records = site.find_records(root, cell)
    first = next(iter(records.values()))
    rows = [
        (
            (
                r.seed,
                r.result.removesuffix(" per character"),
                commit_of(r),
                r.environment.device_name,
                r.provenance.finished[:16].replace("T", " "),
            ),
            site.record_link(path),
        )
        for path, r in records.items()
    ]
    return render(
        "cell.html",
        name=nodes.make_id(cell),
        cell=unquote(cell),
        measure="bits per character" if first.bits else "test accuracy",
        result=recorded_number(list(records.values()), "bits" if first.bits else "accuracy"),
        command=first.provenance.command,  # the others differ by their seed
        rows=rows,
    )


def copy_records(app: Sphinx, exception: Exception | None) -> None:
    """Copy the records that the pages quote into the book, so that numbers link to their files."""
    if exception is None and site.is_site(app):
        for cell in app.env.rollpe_cells:  # type: ignore[attr-defined]
            for path in site.find_records(site.project_root(app), cell):
                target = Path(app.outdir, site.record_copy(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def collect_numbers(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of recorded numbers."""
    cells = app.env.rollpe_cells if site.is_site(app) else ()  # type: ignore[attr-defined]
    in_order = sorted(cells, key=lambda cell: (site.numbers_page(cell), cell))
    for name, some in groupby(in_order, key=site.numbers_page):
        title = f"Where the numbers come from: {name.removeprefix('numbers-')}"
        entries = "\n".join(_cell_html(site.project_root(app), cell) for cell in some)
        yield name, {"title": title, "body": f"<h1>{title}</h1>\n{entries}"}, "page.html"


def setup(app: Sphinx) -> None:
    app.add_role("num", NumberRole())
    app.connect("html-collect-pages", collect_numbers)
    app.connect("build-finished", copy_records)
