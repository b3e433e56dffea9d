"""Numbers from records."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.util.osutil import relative_uri

from rollpe.errors import InputError
from rollpe_book.extension.site import (
    NUMBERS_PAGE,
    find_records,
    is_site,
    project_root,
    record_copy,
    record_link,
    record_page,
)
from rollpe_lab.records.record import Record, comparable

logger = logging.getLogger(__name__)


def _percent(values: list[float]) -> str:
    mean = 100 * float(np.mean(values))
    if len(values) == 1:
        return f"{mean:.1f} %"
    return f"{mean:.1f} ± {100 * float(np.std(values, ddof=1)):.1f} %"


def _plain(digits: int, unit: str = "") -> Callable[[list[float]], str]:
    def text(values: list[float]) -> str:
        mean = f"{float(np.mean(values)):,.{digits}f}"
        spread = f" ± {float(np.std(values, ddof=1)):,.{digits}f}" if len(values) > 1 else ""
        return f"{mean}{spread}{unit}"

    return text


NOT_MEASURED = "not measured"
METRICS: dict[str, tuple[Callable[[Record], float | None], Callable[[list[float]], str]]] = {
    "accuracy": (lambda r: r.test.accuracy, _percent),
    "bits": (lambda r: r.bits_at(), _plain(2)),
    "loss": (lambda r: r.test.loss, _plain(3)),
    "throughput": (lambda r: r.throughput, _plain(0, " images/s")),
    "seconds": (lambda r: r.provenance.wall_seconds, _plain(0, " s")),
    "parameters": (lambda r: float(r.parameters), lambda values: f"{values[0]:,.0f}"),
    "seeds": (lambda r: 1.0, lambda values: str(len(values))),
}


def recorded_number(records: Sequence[Record], metric: str) -> str:
    """Mean ± SD over the seeds of one cell, "93.1 ± 0.4 %", or "not measured".

    metric: a key of METRICS, ``accuracy@24`` for images scored at 24 pixels, or ``bits@512`` for windows of
    512 characters.
    """
    name, _, size = metric.partition("@")
    if name not in METRICS or (size and name not in ("accuracy", "bits")):
        allowed = ", ".join(METRICS)
        raise InputError(f"{metric!r} is not recorded: use one of {allowed}, accuracy@24 or bits@512.")
    measure, text = METRICS[name]
    if size:
        found = [(r.bits if name == "bits" else r.resolutions).get(size) for r in records]
    else:
        found = [measure(r) for r in records]
    values = [value for value in found if value is not None]
    return text(values) if values else NOT_MEASURED


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
            by_path = find_records(project_root(self.env.app), cell.strip())
            text = recorded_number(list(by_path.values()), metric)
        except InputError as error:
            logger.warning("num: %s", error, location=self.get_location(), type="rollpe")
            return [nodes.literal(self.text, self.text)], []
        records = list(by_path.values())
        cell = next((record.cell.path.parent.as_posix() for record in records), cell)
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
            node["rollpe_cell"], node["rollpe_metric"] = cell, metric
            node["rollpe_provenance"] = sentence_of(records)
        return [node], []


def link_number(app: Sphinx, docname: str, node: nodes.inline, notes: dict[str, str]) -> None:
    """Link a number to its entry, and add its note to the page."""
    cell, metric = node["rollpe_cell"], node["rollpe_metric"]
    uri = record_page(app, docname, cell)
    note = nodes.make_id(f"note {cell} {metric} {node.astext()}")
    link = (
        f'<a class="{" ".join(node["classes"])}" href="{escape(uri or "")}" data-note="{note}"'
        f' title="{escape(cell)}: {escape(node["rollpe_provenance"])}">{escape(node.astext())}</a>'
    )
    node.replace_self(nodes.raw("", link, format="html"))
    if note not in notes:
        found = find_records(project_root(app), cell)
        root = relative_uri(app.builder.get_target_uri(docname), "")
        notes[note] = _note_html(note, node.astext(), cell, metric, found, root, uri or "")


def _note_html(
    name: str, value: str, cell: str, metric: str, by_path: dict[Path, Record], root: str, uri: str
) -> str:
    """The origin of one number, hidden until book/_static/figures.js opens it beside the number."""
    records = {path: r for path, r in by_path.items() if recorded_number([r], metric) != NOT_MEASURED}
    recipe, _, encoding = cell.partition("/")
    runs = list(records.values())
    days = sorted({r.provenance.finished[:10] for r in runs})
    commands = list(dict.fromkeys(r.provenance.command for r in runs))
    words = " ".join(f'<span class="pre">{escape(word)}</span>' for word in commands[0].split(" "))
    copies = (
        f'<a href="{escape(root + record_link(path))}">seed {r.seed}</a>' for path, r in records.items()
    )
    if metric.startswith("accuracy") and not value.endswith("%"):
        value += " %"  # in a table the unit stands in the head
    many = "mean ± SD over seeds" if "±" in value else "one run" if len(runs) == 1 else "the same in all runs"
    commits = {r.provenance.commit[:10] + (" with changes" if r.provenance.dirty else "") for r in runs}
    rows = {
        "what": f"{escape(metric)} of <code>{escape(encoding)}</code>, recipe {escape(recipe)}",
        "value": f"{escape(value)}, {many}, n = {len(runs)}",
        "seeds": ", ".join(str(r.seed) for r in runs),
        "commit": escape(", ".join(sorted(commits))),
        "device": escape(", ".join(sorted({r.environment.device_name for r in runs}))),
        "date": escape(days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"),
        "command": f"<code data-command>{words}</code>"
        + (f" and {len(commands) - 1} like it" if len(commands) > 1 else ""),
        "records": ", ".join(copies) + f' · <a href="{escape(uri)}">all about these runs</a>',
    }
    lines = "".join(f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in rows.items())
    return (
        f'<div class="number-note" id="{name}" popover role="dialog" hidden'
        f' aria-label="Where {escape(value)} comes from"><dl>{lines}</dl>'
        f'<button type="button" popovertarget="{name}" popovertargetaction="hide">Close</button></div>'
    )


def add_notes(app: Sphinx, docname: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put the notes of a page's recorded numbers under its text, where the search does not read them."""
    notes = app.env.rollpe_notes.get(docname, {})  # type: ignore[attr-defined]
    if notes and "body" in context:
        context["body"] += "".join(notes.values())


def _cell_html(root: Path, cell: str) -> str:
    rows = []
    records = find_records(root, cell)
    accuracy = recorded_number(list(records.values()), "accuracy")
    command = next(iter(records.values())).provenance.command  # the others differ by their seed
    recipe, _, encoding = cell.partition("/")
    summary = (
        f"Recipe {escape(recipe)}, encoding <code>{escape(encoding)}</code>: test accuracy {escape(accuracy)}"
        f"{' (mean ± standard deviation over seeds)' if len(records) > 1 else ''}, n = {len(records)}."
        f" First run: <code>{escape(command)}</code>"
    )
    for path, r in records.items():
        values = (
            r.seed,
            f"{100 * r.test.accuracy:.2f} %",
            r.provenance.commit[:10] + (" with changes" if r.provenance.dirty else ""),
            r.environment.device_name,
            r.provenance.finished[:16].replace("T", " "),
        )
        cells = "".join(f"<td>{escape(str(value))}</td>" for value in values)
        link = f'<a href="{escape(record_link(path))}">seed-{r.seed}.json</a>'
        rows.append(f"<tr>{cells}<td>{link}</td></tr>")
    names = ("seed", "test accuracy", "commit", "device", "finished (UTC)", "record")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    table = f'<table class="table"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return (
        f'<section id="{nodes.make_id(cell)}" class="provenance"><h2>{escape(cell)}</h2><p>{summary}</p>'
        f'<div class="pst-scrollable-table-container">{table}</div></section>'
    )


def copy_records(app: Sphinx, exception: Exception | None) -> None:
    """Copy the records that the pages quote into the book, so that numbers link to their files."""
    if exception is None and is_site(app):
        for cell in app.env.rollpe_cells:  # type: ignore[attr-defined]
            for path in find_records(project_root(app), cell):
                target = Path(app.outdir, record_copy(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def collect_numbers(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page of recorded numbers."""
    cells = sorted(app.env.rollpe_cells) if is_site(app) else []  # type: ignore[attr-defined]
    if cells:
        body = "<h1>Where the numbers come from</h1>\n" + "\n".join(
            _cell_html(project_root(app), c) for c in cells
        )
        yield NUMBERS_PAGE, {"title": "Where the numbers come from", "body": body}, "page.html"


def setup(app: Sphinx) -> None:
    app.add_role("num", NumberRole())
    app.connect("html-page-context", add_notes)
    app.connect("html-collect-pages", collect_numbers)
    app.connect("build-finished", copy_records)
