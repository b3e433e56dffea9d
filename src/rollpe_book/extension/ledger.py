"""The ledger of claims and the errata in the book: the directives ``{claims}`` and ``{errata}``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rollpe_book.checks import Check, read_checks
from rollpe_book.claims import (
    INSTEAD,
    Verdict,
    by_document,
    counts,
    details,
    ledger,
    places,
    sources,
    summary,
    tally,
)
from rollpe_book.extension.site import all_records, elsewhere, on_site, project_root


@cache
def verdicts_of(root: Path) -> tuple[list[Verdict], dict[str, Check]]:
    """The ledger of the project, from the checks of executed chapters and all records; and these checks."""
    checks = read_checks(root)
    return ledger(checks, all_records(root)), checks


def in_myst(text: str, shown: Collection[str]) -> str:
    """A text of the ledger as MyST: powers and indices set, the equations in ``shown`` linked."""
    text = re.sub(r"(?<=[\w)])\^(?:\(([^()]*)\)|(\w))", lambda m: f"{{sup}}`{m[1] or m[2]}`", text)
    text = re.sub(r"\b([^\W\d_])_([A-Za-z])(?![A-Za-z_])", r"\1{sub}`\2`", text)

    def link(label: re.Match[str]) -> str:
        return f"{{eq}}`{label[0]}`" if label[0] in shown else label[0]

    return re.sub(r"\beq-[a-z0-9]+(?:-[a-z0-9]+)*", link, text)


class LedgerDirective(SphinxDirective):
    """A directive that shows verdicts: of the checks in executed chapters, and of all records."""

    def judge(self) -> tuple[list[Verdict], set[str]]:
        """All verdicts, and the labels of the equations that this book displays."""
        verdicts, checks = verdicts_of(project_root(self.env.app))
        pages = {docname.rpartition("/")[2] for docname in self.env.found_docs}
        return verdicts, {c.label for c in checks.values() if c.page in pages}


class ClaimsDirective(LedgerDirective):
    """``{claims}``: the ledger of the papers' claims, one line each, with what decides it folded under it.

    The documents become sections of the page, so that nothing can follow them. With an option only a part:
    ``:summary:`` the counts by kind and what the verdicts mean; ``:bar:`` the counts of the paper's claims,
    a stacked bar for each kind, which is a sentence outside a site.
    """

    option_spec: ClassVar = dict.fromkeys(("bar", "summary"), directives.flag)

    def run(self) -> list[nodes.Node]:
        verdicts, shown = self.judge()
        paper = [v for v in verdicts if v.claim.source == "paper"]
        if "bar" in self.options:
            kinds = {"mathematical": "about formulas", "empirical": "about trained models"}
            parts = {what: [v for v in paper if v.claim.kind == kind] for kind, what in kinds.items()}
            return [node for what, claims in parts.items() if claims for node in self._bar(what, claims)]
        if "summary" in self.options:
            return self.parse_text_to_nodes(summary(verdicts))
        documents = by_document(verdicts).items()
        return [self._section(source, claims, shown) for source, claims in documents]

    def _section(self, source: str, claims: Sequence[Verdict], shown: Collection[str]) -> nodes.section:
        title = sources()[source]
        section = nodes.section("", nodes.title("", title), names=[nodes.fully_normalize_name(title)])
        self.state.document.note_implicit_target(section, section)
        cited, _ = self.parse_inline(
            f"Cited as *{source}*. {len(claims)} claims: {', '.join(tally(claims))}."
        )
        section += nodes.paragraph("", "", *cited)
        section += nodes.bullet_list("", *(self._item(v, shown) for v in claims), classes=["ledger"])
        return section

    def _item(self, v: Verdict, shown: Collection[str]) -> nodes.list_item:
        """A claim. On a site what explains its verdict folds under it; elsewhere, where nothing unfolds, only
        what holds instead stays.
        """

        def parsed(text: str) -> list[nodes.Node]:
            return self.parse_inline(in_myst(text, shown))[0]

        def line() -> list[nodes.Node]:
            badge = nodes.strong("", v.verdict.capitalize(), classes=["verdict", slug(v.verdict)])
            where = nodes.emphasis("", "", *parsed(f"({places(v.claim)})"), classes=["claim-place"])
            claim = parsed(" ".join(v.claim.claim.split()))
            return [badge, nodes.Text(" "), *claim, nodes.Text(" "), where]

        def said(name: str) -> list[nodes.Node]:
            return [nodes.strong("", f"{name}:"), nodes.Text(" "), *parsed(explained[name])]

        explained = details(v)
        marks = ["claim", slug(v.verdict), f"kind-{v.claim.kind}", f"document-{v.claim.source}"]
        item = nodes.list_item("", classes=marks)
        summary = [html('<details class="claim-details"><summary>'), nodes.inline("", "", *line())]
        folded = [nodes.paragraph("", "", *said(name), classes=[slug(name)]) for name in explained]
        item += on_site(*summary, html("</summary>"), *folded, html("</details>"))
        instead = [nodes.Text(" "), *said(INSTEAD)] if INSTEAD in explained else []
        item += elsewhere(nodes.paragraph("", "", *line(), *instead))
        return item

    def _bar(self, what: str, verdicts: Sequence[Verdict]) -> list[nodes.Node]:
        """Counts of verdicts as one bar, whose segments book.css lays out; a sentence outside a site."""
        sentence = f"{len(verdicts)} claims of the paper {what}: {', '.join(tally(verdicts))}."
        head = nodes.paragraph("", sentence)
        segments = " ".join(
            f'<span class="{slug(verdict)}" style="--share: {number}"><b>{number}</b> '
            f"<span>{verdict}<i>,</i></span></span>"
            for verdict, number in counts(verdicts).items()
            if number
        )
        label = escape(sentence)
        bar = html(f'<div class="verdict-bar" role="img" aria-label="{label}">{segments}</div>')
        return [head, on_site(bar)]


def html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def slug(name: str) -> str:
    """The class of a verdict, or of a detail, in the pages: "is-not-tested"."""
    return f"is-{name.lower().replace(' ', '-')}"


class ErrataDirective(LedgerDirective):
    """``{errata} paper``: the statements of one document that checks refuted, with their corrections."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        source = self.arguments[0]
        if source not in sources():
            raise self.error(f"{source!r} is no document of the ledger: use one of {', '.join(sources())}.")
        return self.parse_text_to_nodes("\n".join(errata(*self.judge(), source)))


def errata(verdicts: Sequence[Verdict], shown: Collection[str], source: str) -> Iterator[str]:
    """MyST lines: every sentence of a document that a check contradicts, verbatim. Labels in ``shown`` become
    links. Claims without a quote are excluded: our runs do not make a sentence about others' runs wrong.
    """
    wrong = [
        v
        for v in verdicts
        if v.claim.source == source and v.claim.quote and v.verdict in ("corrected", "refuted")
    ]
    if not wrong:
        yield "Nothing that was decided so far is wrong."
    for v in wrong:
        c = v.claim
        labels = dict.fromkeys(c.checks.labels if c.checks else ())
        evidence = f"Checked by {', '.join(labels)}." if labels else v.grounds
        right = " ".join(f"**{v.verdict.capitalize()}.** {c.instead or ''} *{evidence}*".split())
        yield from (in_myst(places(c), shown), f": “{c.quote}”", f": {in_myst(right, shown)}", "")


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", lambda app: verdicts_of.cache_clear())
    app.add_directive("claims", ClaimsDirective)
    app.add_directive("errata", ErrataDirective)
