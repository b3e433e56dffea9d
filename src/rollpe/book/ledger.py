"""The ledger of claims and the errata in the book.

Here: the directives ``{claims}`` and ``{errata}``. Not here: claims and verdicts (rollpe.evidence.claims).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rollpe.book.equations import check_results, load_report
from rollpe.book.site import RECORDS, all_records, is_site, project_root
from rollpe.evidence.claims import (
    DETAILS,
    Verdict,
    counts,
    decided_by_training,
    ledger,
    sources,
    tally,
    to_markdown,
)
from rollpe.records.store import find_arrays


def verdicts_of(root: Path, report: dict[str, dict[str, Any]]) -> list[Verdict]:
    """The ledger of the project, from the report of the checks and all records."""
    folders = [root / folder for folder in RECORDS]
    arrays = partial(find_arrays, folders=folders)
    return ledger(check_results(report.values()), all_records(root), arrays=arrays)


class ClaimsDirective(SphinxDirective):
    """``{claims}``: the ledger of the papers' claims, with the verdicts that checks and records give.

    Labels of equations become links if their page is in the book. ``:counts:`` gives only the number of
    claims under each verdict, for the paper and for the other texts; ``:summary:`` only the table of counts
    and the rules. The documents become sections of the page, so that nothing can follow them.
    """

    option_spec: ClassVar = {"counts": directives.flag, "summary": directives.flag}

    def run(self) -> list[nodes.Node]:
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
    """On a site, fold the lines that explain a verdict under the claim."""
    for claim in list(doctree.findall(nodes.definition_list_item)) if is_site(app) else []:
        lines = [line for line in claim if line.astext().startswith(DETAILS)]
        if not lines:
            continue
        for line in lines:
            claim.remove(line)
        paragraphs = [paragraph for line in lines for paragraph in line.children]
        head = '<details class="claim-details"><summary>How it is decided</summary>'
        claim += nodes.definition(
            "", nodes.raw("", head, format="html"), *paragraphs, nodes.raw("", "</details>", format="html")
        )


class ErrataDirective(SphinxDirective):
    """``{errata} paper``: the statements of one document that checks refuted, with their corrections."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        root = project_root(self.env.app)
        path = root / self.config.rollpe_equations
        report = load_report(path)
        self.env.note_dependency(str(path))
        source = self.arguments[0]
        if source not in sources():
            raise self.error(f"{source!r} is no document of the ledger: use one of {', '.join(sources())}.")
        pages = {docname.rpartition("/")[2] for docname in self.env.found_docs}
        shown = {label for label, entry in report.items() if entry.get("page") in pages}
        verdicts = verdicts_of(root, report)
        lines = list(errata(verdicts, source, shown))
        holder = nodes.container()
        self.state.nested_parse(StringList(lines, "errata"), 0, holder)
        return holder.children


def errata(verdicts: Sequence[Verdict], source: str, shown: set[str]) -> Iterator[str]:
    """MyST lines: every sentence of a document that is wrong as written. Labels in ``shown`` become links.

    Claims that training decides are excluded: our runs do not make a sentence about others' runs wrong.
    """
    wrong = [
        v
        for v in verdicts
        if v.claim.source == source and v.verdict in ("corrected", "refuted") and not v.claim.takes_training
    ]
    if not wrong:
        yield "Nothing that was decided so far is wrong."
    for v in wrong:
        c = v.claim
        labels = dict.fromkeys(c.checks.labels if c.checks else ())
        checked = ", ".join(f"{{eq}}`{label}`" if label in shown else label for label in labels)
        evidence = f"Checked by {checked}." if checked else " ".join(v.grounds.split())
        yield "; ".join((c.place, *c.also))
        yield f": {' '.join(c.claim.split())}"
        yield f": **{v.verdict.capitalize()}.** {' '.join((c.instead or '').split())} *{evidence}*"
        yield ""


def setup(app: Sphinx) -> None:
    app.add_directive("claims", ClaimsDirective)
    app.add_directive("errata", ErrataDirective)
