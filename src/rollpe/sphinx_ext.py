"""What the book's pages show that no author types: recorded numbers, the checks of equations, commands.

- ``{num}`quick/roll accuracy` `` reads a number from the records of a run, opens a note that says where it
  came from, and links to the records;
- every displayed equation gets a line with the largest error that its check saw, the code behind it and the
  encodings that are made of it;
- every figure made by a notebook gets its numbers, its code and the command that makes it again
  (rollpe.figures_ext), every notebook page its stamp;
- ``{results}``, ``{encodings}``, ``{timings}`` and ``{claims}`` show the results table, what the encodings
  were seen to do, what a training step costs with them, and the ledger of the paper's claims;
- every chapter offers its notebook, and pages list costs and errata (rollpe.rerun_ext);
- ``{wave}`` shows a figure with sliders (rollpe.waves_ext).

Nothing is computed here. Whatever is missing is said: a number without a record reads "not measured", an
equation without a check or a stated reason is a Sphinx warning, which the build turns into an error.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.osutil import relative_uri

from rollpe import figures_ext, rerun_ext, waves_ext
from rollpe.errors import InputError
from rollpe.figures_ext import command, enclosing_output, finish_figures, finish_waves, is_site
from rollpe.notebooks import read_stamp
from rollpe.records import Record, comparable, find_arrays, read_record, read_records

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

    from rollpe.claims import Verdict

logger = logging.getLogger(__name__)

PACKAGE = Path(__file__).resolve().parent
RECORDS = ("data/records", "_build/records")
"""Where records are looked for. A seed that is in both is taken from the first: means stay of one commit."""
NUMBERS_PAGE = "numbers"
FEW = 3
"""An equation of all encodings but this many is said to be of every encoding but those."""


def project_root(app: Sphinx) -> Path:
    """The folder that holds book/, data/ and _build/."""
    return Path(app.config.rollpe_root or Path(app.srcdir).parent).resolve()


# ------------------------------------------------------------------------------------------- equations


def load_report(path: Path) -> dict[str, dict[str, Any]]:
    """The report of ``rollpe equations --json`` by label; {} if there is none."""
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf8"))
    results = content.get("equations", []) if isinstance(content, dict) else content
    return {result["label"]: result for result in results}


def scientific(value: float) -> str:
    """3.2e-16 → "3.2·10⁻¹⁶", 1e-12 → "10⁻¹²", 0 → "0"."""
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    number = mantissa.removesuffix(".0")
    return power if number == "1" else f"{number}·{power}"


def find_line(dotted: str, package: Path = PACKAGE) -> tuple[Path, int] | None:
    """File and line where a dotted name such as ``operators.roll`` is defined, found without importing.

    The package's own name in front is optional. A name that is imported, not defined, is followed
    through a package's ``__init__``; None if nothing defines it.
    """
    parts = dotted.split(".")
    parts = parts[1:] if parts[0] == package.name else parts
    for depth in range(len(parts), 0, -1):
        module = package.joinpath(*parts[:depth])
        files = [module.with_suffix(".py")] if depth < len(parts) or not module.is_dir() else []
        files += sorted(module.glob("*.py")) if module.is_dir() else []
        for file in (f for f in files if f.is_file()):
            line = _line_in(file, parts[depth:])
            if line:
                return file, line
    return None


def _line_in(file: Path, names: Sequence[str]) -> int | None:
    body: Sequence[ast.stmt] = ast.parse(file.read_text(encoding="utf8")).body
    line = 1
    for name in names:
        for node in body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if getattr(node, "name", None) == name or any(getattr(t, "id", None) == name for t in targets):
                line, body = node.lineno, getattr(node, "body", [])
                break
        else:
            return None
    return line


def check_equations(app: Sphinx, doctree: nodes.document) -> None:
    """Warn of every displayed equation that has no label, or a label without a check or a reason."""
    report = app.env.rollpe_report  # type: ignore[attr-defined]
    shown = app.env.rollpe_shown.setdefault(app.env.docname, {})  # type: ignore[attr-defined]
    for node in doctree.findall(nodes.math_block):
        if enclosing_output(node) is not None:
            continue
        label = node.get("label")
        if label in report:
            shown[label] = node.astext()
            if report[label].get("error") is not None and not report[label].get("passed"):
                logger.warning("equation %s: its check failed", label, location=node, type="rollpe")
        elif label and "amsmath" not in node["classes"]:
            message = "equation %s is in no registry: give it a check, or a reason, in rollpe.equations"
            logger.warning(message, label, location=node, type="rollpe")
        else:
            message = "displayed equation without a label: write $$ … $$ (eq-name)"
            logger.warning(message, location=node, type="rollpe")
    if shown:
        app.env.note_dependency(str(project_root(app) / app.config.rollpe_equations))


def check_pages(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of registered equations that their page lacks, and of two that are the same."""
    pages = {docname.rpartition("/")[2]: docname for docname in env.found_docs}
    shown = env.rollpe_shown  # type: ignore[attr-defined]
    for label, result in env.rollpe_report.items():  # type: ignore[attr-defined]
        page = pages.get(result["page"])
        if page and label not in shown.get(page, {}):
            message = "equation %s belongs on this page, says the registry, and is not displayed"
            logger.warning(message, label, location=page, type="rollpe")
    labels: dict[str, str] = {}
    for page, equations in shown.items():
        for label, tex in equations.items():
            first = labels.setdefault("".join(tex.split()), label)
            if first != label:
                message = "equation %s is displayed already, as %s"
                logger.warning(message, label, first, location=page, type="rollpe")


def _badge(app: Sphinx, docname: str, result: dict[str, Any]) -> nodes.paragraph:
    line = nodes.paragraph(classes=["equation-check"])
    if result.get("error") is None:
        line["classes"].append("not-checked")
        line += nodes.Text(f"Not checked: {result.get('reason') or 'no reason given'}")
    else:
        line["classes"].append("passed" if result["passed"] else "failed")
        verdict = "Checked" if result["passed"] else "CHECK FAILED"
        cases = f" over {result['cases']} cases" if result.get("cases") else ""
        found = f"largest error {scientific(result['error'])} (tolerance {scientific(result['tolerance'])})"
        exact = result["error"] == result["tolerance"] == 0
        line += nodes.Text(f"{verdict}: {'exact' if exact else found}{cases}")
    for dotted in result["implements"]:
        line += [nodes.Text(" · "), _code_link(app, docname, dotted, dotted.removeprefix("rollpe."))]
    line += _trained(app, docname, result.get("encodings", []))
    if result.get("source"):
        line += nodes.Text(f" · {result['source']}")
    return line


def _trained(app: Sphinx, docname: str, names: Sequence[str]) -> Iterator[nodes.Node]:
    """Which encodings of the trained models are made of an equation; of nearly all, those that are not."""
    from rollpe.encodings import ENCODINGS

    adding = [name for name in ENCODINGS if name != "none"]
    made, others = [n for n in adding if n in names], [n for n in adding if n not in names]
    if not made:
        return
    every = len(others) <= FEW
    yield nodes.Text(" · trained in " + ("every encoding" if every else ""))
    for i, name in enumerate(others if every else made):
        encoding = ENCODINGS[name]
        yield nodes.Text(", " if i else " but " if every else "")
        yield _code_link(app, docname, f"{encoding.__module__}.{encoding.__qualname__}", name)


def _code_link(app: Sphinx, docname: str, dotted: str, name: str) -> nodes.Node:
    code = nodes.literal(name, name)
    uri = _source_uri(app, docname, dotted)
    if uri is None:
        return code
    return nodes.reference("", "", code, internal=True, refuri=uri, reftitle=f"Source of {dotted}")


def _source_uri(app: Sphinx, docname: str, dotted: str) -> str | None:
    """The address of the line that defines a name; None in a one-file book or, with a warning, if nowhere."""
    place = find_line(dotted)
    if place is None:
        logger.warning("%s is defined nowhere in src/rollpe", dotted, location=docname, type="rollpe")
    if place is None or not is_site(app):
        return None
    file, line = place
    app.env.rollpe_sources.add(file)  # type: ignore[attr-defined]
    return f"{app.builder.get_relative_uri(docname, _source_page(file))}#L-{line}"


def _source_page(file: Path) -> str:
    return "source/" + ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


# --------------------------------------------------------------------------------------------- numbers


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


METRICS: dict[str, tuple[Callable[[Record], float], Callable[[list[float]], str]]] = {
    "accuracy": (lambda r: r.test.accuracy, _percent),
    "loss": (lambda r: r.test.loss, _plain(3)),
    "throughput": (lambda r: r.throughput, _plain(0, " images/s")),
    "seconds": (lambda r: r.provenance.wall_seconds, _plain(0, " s")),
    "parameters": (lambda r: float(r.parameters), lambda values: f"{values[0]:,.0f}"),
    "seeds": (lambda r: 1.0, lambda values: str(len(values))),
}


def find_records(root: Path, cell: str) -> dict[Path, Record]:
    """The records of a cell ``recipe/encoding slug`` by path, in the order of their seeds."""
    found: dict[str, Path] = {}
    for folder in reversed(RECORDS):
        found |= {path.name: path for path in (root / folder / cell).glob("seed-*.json")}
    records = [(path, read_record(path)) for path in found.values()]
    return dict(sorted(records, key=lambda pair: pair[1].seed))


def recorded_number(records: Sequence[Record], metric: str) -> str:
    """Mean ± SD over the seeds of one cell, "93.1 ± 0.4 %", or "not measured".

    metric: a key of METRICS, or ``accuracy@24`` for images scored at 24 pixels.
    """
    name, _, size = metric.partition("@")
    if name not in METRICS or (size and name != "accuracy"):
        allowed = ", ".join(METRICS)
        raise InputError(f"{metric!r} is not recorded: use one of {allowed} or accuracy@24.")
    measure, text = METRICS[name]
    if size:
        values = [r.resolutions[size] for r in records if size in r.resolutions]
    else:
        values = [measure(r) for r in records]
    return text(values) if values else "not measured"


def _provenance(records: Sequence[Record]) -> str:
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
            found = find_records(project_root(self.env.app), cell.strip())
            text = recorded_number(list(found.values()), metric)
        except InputError as error:
            logger.warning("num: %s", error, location=self.get_location(), type="rollpe")
            return [nodes.literal(self.text, self.text)], []
        records = list(found.values())
        for record in records[1:]:
            for reason in comparable(records[0], record):
                message = "num: the runs of %s are no sample of one thing: %s"
                logger.warning(message, cell, reason, location=self.get_location(), type="rollpe")
        for path in found:
            self.env.note_dependency(str(path))
        node = nodes.inline(self.rawtext, text, classes=["recorded-number"])
        if text == "not measured":
            node["classes"].append("not-measured")
        else:
            node["rollpe_cell"], node["rollpe_metric"] = cell, metric
            node["rollpe_provenance"] = _provenance(records)
        return [node], []


def _record_page(app: Sphinx, docname: str, cell: str) -> str | None:
    """The address of a cell's entry on the page of recorded numbers; None without records."""
    if not find_records(project_root(app), cell):
        return None
    app.env.rollpe_cells.add(cell)  # type: ignore[attr-defined]
    return f"{app.builder.get_relative_uri(docname, NUMBERS_PAGE)}#{nodes.make_id(cell)}"


def _link_number(app: Sphinx, docname: str, node: nodes.inline, notes: dict[str, str]) -> None:
    """Link a number to its entry, and give the page the note that opens in its place."""
    cell, metric = node["rollpe_cell"], node["rollpe_metric"]
    uri = _record_page(app, docname, cell)
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
    name: str, value: str, cell: str, metric: str, found: dict[Path, Record], root: str, uri: str
) -> str:
    """Where one number comes from, hidden until book/_static/figures.js opens it beside the number."""
    size = metric.partition("@")[2]
    records = {path: r for path, r in found.items() if not size or size in r.resolutions}
    recipe, _, encoding = cell.partition("/")
    runs = list(records.values())
    days = sorted({r.provenance.finished[:10] for r in runs})
    commands = list(dict.fromkeys(r.provenance.command for r in runs))
    words = " ".join(f'<span class="pre">{escape(word)}</span>' for word in commands[0].split(" "))
    copies = (
        f'<a href="{escape(root + _record_copy(path))}">seed {r.seed}</a>' for path, r in records.items()
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
        "date": days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}",
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


# -------------------------------------------------------------------------------------------- notebooks


def _page_line(stamp: dict[str, Any]) -> nodes.paragraph:
    line = nodes.paragraph(classes=["page-stamp"])
    text = command(stamp)
    versions = ", ".join(f"{name} {version}" for name, version in stamp["versions"].items())
    machine = f"{stamp['date'][:10]} in {stamp['seconds']:.0f} s on {stamp['device']}"
    line += [nodes.Text(f"Run {machine}; {versions}. Again: "), nodes.literal(text, text)]
    return line


def finish_page(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Add the badges, the notes of recorded numbers, what stands under figures and the page's stamp."""
    report = app.env.rollpe_report  # type: ignore[attr-defined]
    for node in list(doctree.findall(nodes.math_block)):
        if node.get("label") in report and enclosing_output(node) is None:
            node.parent.insert(node.parent.index(node) + 1, _badge(app, docname, report[node["label"]]))
    notes: dict[str, str] = {}
    app.env.rollpe_notes[docname] = notes  # type: ignore[attr-defined]
    if is_site(app):
        for inline in list(doctree.findall(nodes.inline)):
            if "rollpe_cell" in inline:
                _link_number(app, docname, inline, notes)
    fold_claims(app, doctree)
    stamp = read_stamp(app.env.doc2path(docname))
    finish_figures(app, doctree, docname, stamp, lambda cell: _record_page(app, docname, cell))
    finish_waves(app, doctree, docname, lambda name: _source_uri(app, docname, f"waves.draw_{name}"))
    if stamp:
        section = next(doctree.findall(nodes.section), doctree)
        section += _page_line(stamp)


def add_notes(app: Sphinx, docname: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put the notes of a page's recorded numbers under its text, outside what the search reads."""
    notes = app.env.rollpe_notes.get(docname, {})  # type: ignore[attr-defined]
    if notes and "body" in context:
        context["body"] += "".join(notes.values())


# ------------------------------------------------------------------------------------------- directives


def all_records(root: Path) -> list[Record]:
    """Every record of the project; of two runs of the same seed the committed one."""
    found = {r.cell.path: r for folder in reversed(RECORDS) for r in read_records(root / folder)}
    return list(found.values())


def verdicts_of(root: Path, report: dict[str, dict[str, Any]]) -> list[Verdict]:
    """The ledger of the project, from the report of the checks and all records."""
    from rollpe.claims import ledger

    folders = [root / folder for folder in RECORDS]
    arrays = partial(find_arrays, folders=folders)
    return ledger(check_results(report.values()), all_records(root), arrays=arrays)


class _TableDirective(SphinxDirective):
    """A table that the library knows. ``:caption:`` and ``:name:`` make it a numbered one."""

    option_spec: ClassVar = {"caption": directives.unchanged, "name": directives.unchanged}

    def finish(self, columns: Sequence[str], rows: Sequence[Sequence[nodes.Node]]) -> list[nodes.Node]:
        """The docutils table: the first column is text, the others are numbers or short words."""

        def row(cells: Sequence[nodes.Node]) -> nodes.row:
            sides = ["text-left", *["text-right"] * (len(cells) - 1)]
            entries = (
                nodes.entry("", nodes.paragraph("", "", cell), classes=[side])
                for cell, side in zip(cells, sides, strict=True)
            )
            return nodes.row("", *entries)

        group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in columns), cols=len(columns))
        group += nodes.thead("", row([nodes.Text(name) for name in columns]))
        group += nodes.tbody("", *(row(cells) for cells in rows))
        table = nodes.table("", group, classes=[self.name])
        if caption := self.options.get("caption"):
            inline, _ = self.parse_inline(caption)
            table.insert(0, nodes.title("", "", *inline))
        self.set_source_info(table)
        self.add_name(table)
        return [table]


class ResultsDirective(_TableDirective):
    """``{results} recipe``: the results table of one recipe, on the paper's data beside its numbers.

    Of several recipes, ``{results} strong short``, the first that has runs; ``{recipe}`` and ``{epochs}`` in
    the caption stand for it. Every measured accuracy links to its runs. ``:only:`` names the encodings to
    show, where all are too many. ``:ours:`` leaves the paper's column out, where its training was another.
    What is written inside stands in place of the table as long as there is no run at all.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = _TableDirective.option_spec | {
        "only": directives.unchanged,
        "ours": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        from rollpe.statistics import recipe_with_runs, results_table

        root = project_root(self.env.app)
        records = all_records(root)
        recipe = recipe_with_runs(records, self.arguments[0].split())
        try:
            results = results_table(records, recipe)
        except InputError as error:
            logger.warning("results: %s", error, location=self.get_location(), type="rollpe")
            return []
        chosen = self.options.get("only", "").split()
        if self.content and not results.measured:
            return self.parse_content_to_nodes()
        if "caption" in self.options:
            told = self.options["caption"].replace("{recipe}", recipe)
            self.options["caption"] = told.replace("{epochs}", str(results.epochs))
        kept = slice(-1 if results.beside_paper and "ours" in self.options else None)
        shown = [row[kept] for row in results.cells() if not chosen or row[0] in chosen]
        rows = [self._row(root, f"{recipe}/{row[0]}", row) for row in shown]
        return self.finish(results.columns[kept], rows)

    def _row(self, root: Path, cell: str, texts: tuple[str, ...]) -> list[nodes.Node]:
        name, accuracy, *rest = texts
        number = nodes.inline("", accuracy, classes=["recorded-number"])
        found = find_records(root, cell)
        if found:
            number["rollpe_cell"], number["rollpe_metric"] = cell, "accuracy"
            number["rollpe_provenance"] = _provenance(list(found.values()))
        for path in found:
            self.env.note_dependency(str(path))
        return [nodes.literal(name, name), number, *(nodes.Text(text) for text in rest)]


class EncodingsDirective(_TableDirective):
    """``{encodings}``: the properties of every encoding, found by trying it during the build."""

    columns = (
        *("encoding", "acts on", "relative", "real p", "larger grid"),
        *("norms", "cache", "linear", "parameters"),
    )

    def run(self) -> list[nodes.Node]:
        from rollpe.encodings.properties import measure_all

        word = {True: "yes", False: "no", None: "–"}
        rows: list[list[nodes.Node]] = []
        for p in measure_all():
            seen = (word[v] for v in (p.real_positions, p.larger_grid, p.keeps_norm, p.cached, p.linear))
            texts = (p.acts_on, p.relative, *seen, f"{p.parameters:,}")
            rows.append([nodes.literal(p.name, p.name), *(nodes.Text(text) for text in texts)])
        made = self.finish(self.columns, rows)
        made[0]["classes"].append("compact")
        return made


class TimingsDirective(_TableDirective):
    """``{timings}``: what a step costs with each encoding, from the newest benchmark of each device."""

    def run(self) -> list[nodes.Node]:
        from rollpe.bench import read_benchmarks
        from rollpe.encodings import ENCODINGS

        folder = project_root(self.env.app) / "data/benchmarks"
        for path in sorted(folder.glob("*.json")):
            self.env.note_dependency(str(path))
        newest = {b.environment.device.partition(":")[0]: b for b in read_benchmarks(folder)}
        columns = ["encoding"]
        for b in newest.values():
            columns += [f"{b.environment.device_name}, ViT {b.size}", "quartiles (ms)", "timm ÷ ours"]
        rows: list[list[nodes.Node]] = []
        for name in ENCODINGS:
            row: list[nodes.Node] = [nodes.literal(name, name)]
            for b in newest.values():
                ours = next((t for t in b.encodings if t.name == name), None)
                theirs = next((t for t in b.timm if t.name == name), None)
                texts = (
                    f"{ours.ratio:.2f}" if ours else "not measured",
                    f"{ours.low:.0f} to {ours.high:.0f}" if ours else "",
                    f"{theirs.ratio:.2f}" if theirs else "",
                )
                row += [nodes.Text(text) for text in texts]
            rows.append(row)
        return self.finish(columns, rows)


class ClaimsDirective(SphinxDirective):
    """``{claims}``: the ledger of the papers' claims, with the verdicts that checks and records give.

    Labels of equations become links, where their page is part of the book. With ``:counts:`` only the
    number of claims under each verdict, the paper's apart from those of the other texts, with ``:summary:``
    only the table of them and what decides. The documents become sections of the page, so that nothing can
    follow them.
    """

    option_spec: ClassVar = {"counts": directives.flag, "summary": directives.flag}

    def run(self) -> list[nodes.Node]:
        from rollpe.claims import counts, decided_by_training, tally, to_markdown

        root = project_root(self.env.app)
        path = root / self.config.rollpe_equations
        report = load_report(path)
        self.env.note_dependency(str(path))
        verdicts = verdicts_of(root, report)
        if "counts" in self.options:
            paper = [v for v in verdicts if v.claim.source == "paper"]
            others = [v for v in verdicts if v.claim.source != "paper"]
            pills = [nodes.inline("", text, classes=["verdict"]) for text in tally(paper)]
            head = nodes.Text(f"The paper's {len(paper)} claims:")
            taught = ", ".join(f"{number} {verdict}" for verdict, number in counts(others).items())
            rest = f"{decided_by_training(paper)} The teaching texts' {len(others)}: {taught}."
            return [
                nodes.paragraph("", "", head, *pills, classes=["verdict-counts"]),
                nodes.paragraph("", "", nodes.inline("", rest, classes=["small"])),
            ]
        pages = {docname.rpartition("/")[2] for docname in self.env.found_docs}

        def link(match: re.Match[str]) -> str:
            label = match.group(0)
            return f"{{eq}}`{label}`" if report.get(label, {}).get("page") in pages else label

        text = re.sub(r"\beq-[a-z0-9-]*[a-z0-9]", link, to_markdown(verdicts))
        summary, _, documents = text.partition("\n## ")
        holder = nodes.container()
        if "summary" in self.options:
            self.state.nested_parse(StringList(summary.splitlines(), "claims"), 0, holder)
        else:
            sections = StringList(f"## {documents}".splitlines(), "claims")
            self.state.nested_parse(sections, 0, holder, match_titles=True)
        return holder.children


def fold_claims(app: Sphinx, doctree: nodes.document) -> None:
    """On a site, fold what decides a claim, and how near a check came, under the claim and its verdict."""
    from rollpe.claims import DETAILS

    for claim in list(doctree.findall(nodes.definition_list_item)) if is_site(app) else []:
        lines = [line for line in claim if line.astext().startswith(DETAILS)]
        if not lines:
            continue
        for line in lines:
            claim.remove(line)
        told = [paragraph for line in lines for paragraph in line.children]
        head = '<details class="claim-details"><summary>How it is decided</summary>'
        claim += nodes.definition(
            "", nodes.raw("", head, format="html"), *told, nodes.raw("", "</details>", format="html")
        )


def check_results(report: Iterable[dict[str, Any]]) -> list[Any]:
    """The checks that ran, as they came out, from the report: nothing is checked again for a page."""
    from rollpe.equations import CheckResult

    names = [field.name for field in fields(CheckResult)]
    return [
        CheckResult(**({"seconds": 0.0} | {k: v for k, v in entry.items() if k in names}))
        for entry in report
        if entry.get("error") is not None
    ]


# ---------------------------------------------------------------------------------------- generated pages


def collect_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page of each source file that a badge links to, and the page of recorded numbers."""
    if not is_site(app):
        return
    for file in sorted(app.env.rollpe_sources):  # type: ignore[attr-defined]
        name = file.relative_to(PACKAGE.parent).as_posix()
        code = app.builder.highlighter.highlight_block(  # type: ignore[attr-defined]
            file.read_text(encoding="utf8"), "python", linenos="inline", lineanchors="L"
        )
        body = f"<h1>src/{escape(name)}</h1>\n<p>The file as it was when this book was built.</p>\n{code}"
        yield _source_page(file), {"title": f"src/{name}", "body": body}, "page.html"
    cells = sorted(app.env.rollpe_cells)  # type: ignore[attr-defined]
    if cells:
        body = "<h1>Where the numbers come from</h1>\n" + "\n".join(
            _cell_html(project_root(app), c) for c in cells
        )
        yield NUMBERS_PAGE, {"title": "Where the numbers come from", "body": body}, "page.html"


def _cell_html(root: Path, cell: str) -> str:
    rows = []
    found = find_records(root, cell)
    accuracy = recorded_number(list(found.values()), "accuracy")
    recipe, _, encoding = cell.partition("/")
    summary = (
        f"Recipe {escape(recipe)}, encoding <code>{escape(encoding)}</code>: test accuracy {escape(accuracy)}"
        f"{' (mean ± standard deviation over seeds)' if len(found) > 1 else ''}, n = {len(found)}."
    )
    for path, r in found.items():
        values = (
            r.seed,
            f"{100 * r.test.accuracy:.2f} %",
            r.provenance.commit[:10] + (" with changes" if r.provenance.dirty else ""),
            r.environment.device_name,
            r.provenance.finished[:16].replace("T", " "),
            r.provenance.command,
        )
        cells = "".join(f"<td>{escape(str(value))}</td>" for value in values)
        link = f'<a href="{escape(_record_copy(path))}">{escape(path.relative_to(root).as_posix())}</a>'
        rows.append(f"<tr>{cells}<td>{link}</td></tr>")
    names = ("seed", "test accuracy", "commit", "device", "finished (UTC)", "command", "record")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    table = f'<table class="table"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return (
        f'<section id="{nodes.make_id(cell)}" class="provenance"><h2>{escape(cell)}</h2><p>{summary}</p>'
        f'<div class="pst-scrollable-table-container">{table}</div></section>'
    )


def _record_copy(path: Path) -> str:
    """Where the book keeps its own copy of a record, relative to the book's root."""
    return "/".join(["records", *path.parts[-3:]])


def copy_records(app: Sphinx, exception: Exception | None) -> None:
    """Put the records that the pages quote beside them, so that a number can be followed to its file."""
    if exception is None and is_site(app):
        for cell in app.env.rollpe_cells:  # type: ignore[attr-defined]
            for path in find_records(project_root(app), cell):
                target = Path(app.outdir, _record_copy(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def find_mathjax() -> Path | None:
    """The one file of MathJax 3 that draws SVG and needs no other, from the installed package."""
    package = importlib.util.find_spec("sphinx-mathjax-offline")
    if package is None or not package.submodule_search_locations:
        return None
    return Path(next(iter(package.submodule_search_locations)), "static/mathjax/tex-svg-full.js")


def copy_mathjax(app: Sphinx, exception: Exception | None) -> None:
    """Put MathJax into the book, so that a page shows its mathematics without a network."""
    if exception is None and app.builder.format == "html":
        source = find_mathjax()
        if source is None:
            logger.warning("sphinx-mathjax-offline is not installed: equations stay as TeX", type="rollpe")
            return
        target = Path(app.outdir, "_static/mathjax", source.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


# ----------------------------------------------------------------------------------------------- Sphinx


def share_writers(app: Sphinx) -> None:
    """Let the one-file and the EPUB writer use whatever the HTML writer knows.

    An extension that registers its nodes for these builders by name hides all nodes that others
    registered for HTML alone, such as the folded cells of notebooks.
    """
    known = app.registry.translation_handlers
    for name in ("singlehtml", "epub"):
        if name in known:
            known[name] = known.get("html", {}) | known[name]


def begin(app: Sphinx) -> None:
    """Read the report of the checks; a book without one is a warning."""
    path = project_root(app) / app.config.rollpe_equations
    env: Any = app.env
    env.rollpe_report = load_report(path)
    env.rollpe_sources, env.rollpe_cells, env.rollpe_notes = set(), set(), {}
    if not hasattr(env, "rollpe_shown"):
        env.rollpe_shown = {}
    if not path.is_file():
        message = "%s is missing: run rollpe equations --json %s"
        logger.warning(message, path, app.config.rollpe_equations, type="rollpe")


def purge(app: Sphinx, env: Any, docname: str) -> None:
    env.rollpe_shown.pop(docname, None)


def merge(app: Sphinx, env: Any, docnames: Sequence[str], other: Any) -> None:
    env.rollpe_shown |= {name: other.rollpe_shown.get(name, {}) for name in docnames}


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("rollpe_root", "", "env", str)
    app.add_config_value("rollpe_equations", "_build/equations.json", "env", str)
    app.add_role("num", NumberRole())
    app.add_directive("results", ResultsDirective)
    app.add_directive("encodings", EncodingsDirective)
    app.add_directive("timings", TimingsDirective)
    app.add_directive("claims", ClaimsDirective)
    figures_ext.setup(app)
    rerun_ext.setup(app)
    waves_ext.setup(app)
    app.connect("builder-inited", begin)
    app.connect("builder-inited", share_writers)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("doctree-read", check_equations)
    app.connect("env-check-consistency", check_pages)
    app.connect("doctree-resolved", finish_page)
    app.connect("html-page-context", add_notes)
    app.connect("html-collect-pages", collect_pages)
    app.connect("build-finished", copy_records)
    app.connect("build-finished", copy_mathjax)
    # Pages are written in one process: the lists of what they link to are kept in memory.
    return {"version": "0.1", "env_version": 2, "parallel_read_safe": True, "parallel_write_safe": False}
