"""The book: what Sphinx needs beyond Jupyter Book.

Each file holds one kind of thing that pages show: equations.py, tables.py, runs.py, ledger.py, figures.py,
drawings.py, waves.py, scripts.py, links.py, api.py; page.py makes one page of one notebook, site.py is what
they share. repairs.py is an extension of its own: what every page of the site carries besides its text.

No file computes a result. A number without a record reads "not measured"; an equation without a check or a
stated reason is a warning, which the build turns into an error.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from pybtex.backends.plaintext import Backend
from pybtex.plugin import register_plugin
from sphinx.application import Sphinx

from rollpe_book.chapters.gate import command, read_stamp
from rollpe_book.extension import (
    api,
    drawings,
    equations,
    figures,
    ledger,
    links,
    runs,
    scripts,
    tables,
    waves,
)
from rollpe_book.extension.site import mathjax, read_anew, record_page


def finish_page(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Add the badges, what stands under figures and the page's stamp; name what folds asserts away."""
    equations.finish_equations(app, doctree, docname)
    for cell in doctree.findall(HideCodeCellNode):
        if "\nassert " in cell.astext():
            cell["prompt_show"] = "Show what these sentences rest on"
    stamp = read_stamp(app.env.doc2path(docname))
    figures.finish_figures(app, doctree, docname, stamp, partial(record_page, app, docname))
    if stamp and app.builder.name != "json":  # at the top of the page of one notebook
        section = next(doctree.findall(nodes.section), doctree)
        section += page_line(stamp)


def page_line(stamp: dict[str, Any]) -> nodes.paragraph:
    line = nodes.paragraph(classes=["page-stamp"])
    text = command(stamp)
    versions = ", ".join(f"{name} {version}" for name, version in stamp["versions"].items())
    machine = f"{stamp['date'][:10]} in {stamp['seconds']:.0f} s on {stamp['device']}"
    line += [nodes.Text(f"Run {machine}; {versions}. Again: "), nodes.literal(text, text)]
    return line


def copy_mathjax(app: Sphinx, exception: Exception | None) -> None:
    """Put MathJax into the book, so that a page shows its mathematics without a network."""
    if exception is None and app.builder.format == "html":
        target = Path(app.outdir, "_static/mathjax", mathjax().name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(mathjax(), target)


def share_writer(app: Sphinx) -> None:
    """Let the one-file writer use whatever the HTML writer knows.

    An extension that registers its nodes for this builder by name hides all nodes that others registered for
    HTML alone, such as the folded cells of notebooks.
    """
    known = app.registry.translation_handlers
    if "singlehtml" in known:
        known["singlehtml"] = known.get("html", {}) | known["singlehtml"]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("rollpe_root", "", "env", str)
    register_plugin("pybtex.backends", "plaintext", Backend)  # else searched for anew for each citation
    app.connect("builder-inited", share_writer)
    app.connect("builder-inited", read_anew)
    for part in (equations, tables, runs, ledger, api, figures, drawings, links, scripts, waves):
        part.setup(app)
    app.connect("doctree-resolved", finish_page)
    app.connect("build-finished", copy_mathjax)
    # Pages are read and written in one process: the lists of what they link to are kept in memory.
    return {"version": "0.2", "env_version": 2, "parallel_read_safe": False, "parallel_write_safe": False}
