"""What a reader takes along: downloads and the project's place on GitHub."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from rollpe_book.chapters.gate import read_stamp
from rollpe_book.extension.site import is_site, project_root
from rollpe_book.templates import render
from rollpe_lab.records.provenance import output

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


def setup(app: Sphinx) -> None:
    app.connect("source-read", name_repository)
    app.connect("doctree-resolved", add_links)
    app.connect("build-finished", copy_notebooks)
