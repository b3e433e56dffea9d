"""What a reader takes along: downloads, buttons, the book in other shapes, the project's place on GitHub."""

from __future__ import annotations

import re
import shutil
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rollpe_book.chapters.stamp import read_stamp
from rollpe_book.extension.site import is_site, project_root
from rollpe_book.pages import render
from rollpe_lab.records.origin import output
from rollpe_lab.sources import SRC

PLACEHOLDER = "OWNER/NAME"
GITHUB = re.compile(
    r"(?:https://(?:[^@/]+@)?github\.com/|(?:ssh://)?git@github\.com[:/])([\w.-]+/[\w.-]+?)(?:\.git)?/?"
)


def repository_of(address: str) -> str | None:
    """ "owner/name" of an address on GitHub, without whatever else the address holds; None for any other."""
    found = GITHUB.fullmatch(address.strip())
    return found[1] if found else None


@cache
def repository(root: Path) -> str | None:
    """ "owner/name" if the remote named origin is on GitHub, else None."""
    return repository_of(output("git", "-C", str(root), "remote", "get-url", "origin") or "")


def links(notebook: str, up: str, owner_name: str | None) -> list[tuple[str, str, bool]]:
    """Label, address and whether it is a download, of ``notebooks/NN-name.py``; ``up`` leads to the root."""
    pair = notebook.removesuffix(".py") + ".ipynb"
    found = [("Notebook (.ipynb)", up + pair, True), ("Script (.py)", up + notebook, True)]
    if owner_name is not None:
        colab = f"https://colab.research.google.com/github/{owner_name}/blob/HEAD/{pair}"
        binder = f"https://mybinder.org/v2/gh/{owner_name}/HEAD?labpath={pair}"
        found += [("Open in Colab", colab, False), ("Open in Binder", binder, False)]
    return found


def add_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Under the title of a chapter: its notebook for download, and where else it opens."""
    stamp = read_stamp(app.env.doc2path(docname))
    title = next(doctree.findall(nodes.title), None)
    if not stamp or title is None or not is_site(app):
        return
    up = "../" * app.builder.get_target_uri(docname).count("/")
    offered = links(stamp["notebook"], up, repository(project_root(app)))
    line = nodes.raw("", render("links.html", links=offered), format="html")
    title.parent.insert(title.parent.index(title) + 1, line)


def copy_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Put both files of every notebook into the site, where the links look for them."""
    if exception is not None or not is_site(app):
        return
    target = Path(app.outdir, "notebooks")
    for file in sorted((project_root(app) / "notebooks").glob("*.*")):
        if file.suffix in (".py", ".ipynb"):
            target.mkdir(exist_ok=True)
            shutil.copyfile(file, target / file.name)


def name_repository(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the place of this project on GitHub where a page has the placeholder."""
    if owner_name := repository(project_root(app)):
        source[0] = source[0].replace(PLACEHOLDER, owner_name)


CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
"""Programs that can print the book; without one of them there is no PDF."""


class ButtonsDirective(SphinxDirective):
    """``{buttons} executed/01-order use``: to the first chapter, the PDF and the code.

    The code is on GitHub; without an address there, the second page says how to use it. Only on sites.
    """

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        app = self.env.app
        if not is_site(app):
            return []
        chapter, code = (app.builder.get_relative_uri(self.env.docname, page) for page in self.arguments)
        owner_name = repository(project_root(app))
        links = [("Read", chapter)]
        if any(map(shutil.which, CHROMIUM)):
            links.append(("PDF", "rollpe.pdf"))
        links.append(("Code", f"https://github.com/{owner_name}" if owner_name else code))
        buttons = " ".join(f'<a class="btn" href="{address}">{label}</a>' for label, address in links)
        return [nodes.raw("", f'<p class="front-buttons">{buttons}</p>', format="html")]


def commit_date(name: str, rawtext: str, text: str, *rest: Any) -> tuple[list[nodes.Node], list[Any]]:
    """``{commit-date}`%B %Y```: when the commit of this book was made; without git, now."""
    shown = output("git", "-C", str(SRC), "show", "--no-patch", "--format=%cI")
    when = datetime.fromisoformat(shown) if shown else datetime.now()
    return [nodes.Text(when.strftime(text))], []


def setup(app: Sphinx) -> None:
    app.add_role("commit-date", commit_date)
    app.add_directive("buttons", ButtonsDirective)
    app.connect("source-read", name_repository)
    app.connect("doctree-resolved", add_links)
    app.connect("build-finished", copy_notebooks)
