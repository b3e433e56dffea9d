"""What every page of the book carries besides its text: what search engines and previews read, and markup
that everybody can use.

A last pass over the written pages takes out what they need not load and mends what the theme leaves unusable
by screen readers. Each repair says what it is for; make check-book finds out if one no longer fits.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from textwrap import shorten
from typing import Any
from urllib.parse import urljoin

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

from rollpe_book.extension.links import repository
from rollpe_book.extension.site import is_site, project_root
from rollpe_book.templates import render
from rollpe_lab.files import write_atomically

PREVIEW = "_static/preview.png"
"""The picture that a link to the book shows: 1200×630 pixels, made by workflow/pictures.py.

A page names another as ``preview`` in its front matter.
"""


# What search engines and previews read


def first_words(body: str) -> str:
    """The text of a page's first paragraph, cut after a word; "" if it has none."""
    found = re.search(r"<p>(.*?)</p>", body, flags=re.DOTALL)
    text = re.sub(
        r'\s*<span class="bibtex-citation".*?</span>', "", found[1] if found else "", flags=re.DOTALL
    )
    return shorten(unescape(re.sub(r"<[^>]+>|\\[()]", "", text)), 200, placeholder="…")


def head_tags(app: Sphinx, pagename: str, context: dict[str, Any]) -> str:
    """What a search engine, a preview and a reference manager want to know of a page."""
    citation = yaml.safe_load((project_root(app) / "CITATION.cff").read_text(encoding="utf8"))
    url = context["pageurl"] or ""  # without an address there is no picture: previews want the whole of it
    return render(
        "head.html",
        front=pagename == app.config.root_doc,
        site=app.config.project,
        title=context.get("title", ""),
        description=first_words(context.get("body") or "") or citation["abstract"],
        url=url,
        picture=urljoin(url, context["pathto"]((context.get("meta") or {}).get("preview", PREVIEW), True)),
        citation=citation,
        year=app.config.copyright,
        language=app.config.language,
    )


def name_address(app: Sphinx, config: Config) -> None:
    """Where GitHub publishes the book, unless html_baseurl says it or the repository is elsewhere."""
    if (owner_name := repository(project_root(app))) and not config.html_baseurl:
        owner, name = owner_name.split("/")
        config.html_baseurl = f"https://{owner.lower()}.github.io/{name}/"


def add_head(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    if pagename == app.config.root_doc:
        context["docstitle"] = "the living version of the RollPE paper"
    if is_site(app):
        context["metatags"] = f"{context.get('metatags', '')}\n    {head_tags(app, pagename, context)}"


# Tables

_ONE = r"[-−+±]?\d[\d.,]*"
NUMBER = re.compile(rf"(< |about )?{_ONE}( ?(±|to|of|–|,) ?{_ONE})?( ?%)?( \[{_ONE}, {_ONE}\])?")


def mark_numbers(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give a table's cells that hold one number, with its ± or its interval, the class "number".

    The style sheet keeps them in one line where a phone would break "1.31 ± 0.01" into three.
    """
    if is_site(app):
        for cell in doctree.findall(nodes.entry):
            words = re.sub(r"</?a\b[^>]*>", "", cell.astext())  # on the page of runs it is a link
            if NUMBER.fullmatch(" ".join(words.split())):
                cell["classes"].append("number")


# The last pass

REPAIRS: tuple[tuple[str, str], ...] = (
    # 1.5 MB of icons as scripts; the theme's style sheet has the same icons as a font.
    (r'\s*<script defer src="[^"]*fontawesome\.js[^"]*"></script>', ""),
    # The viewport is declared twice, and the second is a copy.
    (r'\s*<meta name="viewport" content="width=device-width, initial-scale=1"\s*/>', ""),
    # A placeholder for advertisements.
    (r'<div id="ethical-ad-placement".*?</div>', ""),
    # Labels that say something other than the words one sees: the words are better.
    (r'(<summary) aria-label="Toggle hidden content"', r"\1"),
    (r'(<button class="btn search-button-field[^>]*?) aria-label="Search"', r"\1"),
    # A button with an icon alone, beside a chapter of several pages in the sidebar.
    (r'<summary>(\s*<span class="toctree-toggle")', r'<summary aria-label="Pages of this chapter">\1'),
    # Icons are pictures beside a name.
    (r'<(i|span) class="((?:theme-switch )?fa-solid [^"]*)"', r'<\1 aria-hidden="true" class="\2"'),
    # The book's title in the sidebar stands in no landmark.
    (
        r'<div class="sidebar-primary-item">(\s*<a class="navbar-brand)',
        r'<div class="sidebar-primary-item" role="navigation" aria-label="Front page">\1',
    ),
    # A list of references whose entries have a role that is deprecated, so that no list remains.
    (r' role="doc-biblioentry"', ' role="listitem"'),
    # The line under a caption opens a second caption inside the first, which is never closed.
    (r'(</p>)\s*<figcaption>\s*(<div class="legend"[^>]*>)', r"\1\n\2"),
    # A signature's lines are a list of definitions without a term, inside a term.
    (r'(<span class="sig-paren">\(</span>)\s*<dl>', r'\1<div class="sig-lines">'),
    (r'<dd>(<em class="sig-param">.*?)</dd>', r"<div>\1</div>"),
    (r'</dl>\s*(<span class="sig-paren">\)</span>)', r"</div>\1"),
    # A cell of one paragraph needs none: on the page of all runs they are 8 kB.
    (r"(<td[^>]*>)<p>((?:(?!<p>|</p>|</td>).)*)</p></td>", r"\1\2</td>"),
    # A percentage stays in one line.
    (r"(?<=\d) %", "&nbsp;%"),
    # Every theorem, proof and exercise of a page gives its parts the same ids.
    (r' id="(?:proof|(?:proof|exercise|solution)-content)"', ""),
    # The empty corner of a table is not the head of a column.
    (r'<th class="head[^"]*">\s*(?:<p>\s*</p>)?\s*</th>', "<td></td>"),
)


def finish_html(html: str, *, search: bool) -> str:
    """A written page with the repairs made. search: whether it is the page that looks things up."""
    for pattern, replacement in REPAIRS:
        html = re.sub(pattern, replacement, html, flags=re.DOTALL)
    if not search:
        # Only the search page reads the index.
        html = re.sub(
            r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>', "", html
        )
    if not re.search(r'class="[^"]*\bsd-', html):
        # 55 kB for grids and cards, which hardly any page has.
        html = re.sub(r'\s*<link rel="stylesheet"[^>]*sphinx-design[^>]*>', "", html)
    return html


def finish_pages(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and is_site(app):
        for path in sorted(Path(app.outdir).rglob("*.html")):
            if "_static" not in path.relative_to(app.outdir).parts:
                html = finish_html(path.read_text(encoding="utf8"), search=path.name == "search.html")
                write_atomically(path, html.encode())


def setup(app: Sphinx) -> None:
    app.connect("config-inited", name_address)
    app.connect("html-page-context", add_head)
    app.connect("doctree-resolved", mark_numbers)
    app.connect("build-finished", finish_pages)
