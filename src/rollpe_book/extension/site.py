"""What the parts of the book share: where the project is, which records there are, addresses of pages."""

from __future__ import annotations

import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from rollpe_lab.files import write_atomically
from rollpe_lab.records.record import Record
from rollpe_lab.records.store import read_record, read_records

RECORDS = ("data/records", "_build/records")
"""Where records are looked for. A seed that is in both is taken from the first: means stay of one commit."""


def project_root(app: Sphinx) -> Path:
    """The folder that holds book/, data/ and _build/."""
    return Path(app.config.rollpe_root or Path(app.srcdir).parent).resolve()


def find_records(root: Path, cell: str) -> dict[Path, Record]:
    """The records of a cell ``recipe/encoding slug`` by path, in the order of their seeds.

    The slug as people spell it, roll@width=[31,33], or as in paths.
    """
    recipe, _, encoding = cell.partition("/")
    found: dict[str, Path] = {}
    for folder in reversed(RECORDS):
        for runs in (root / folder / recipe).glob("*"):
            if unquote(runs.name) == unquote(encoding):
                found |= {path.name: path for path in runs.glob("seed-*.json")}
    records = [(path, read_record(path)) for path in found.values()]
    return dict(sorted(records, key=lambda pair: pair[1].seed))


def record_page(app: Sphinx, docname: str, cell: str) -> str | None:
    """The address of a cell's row on the page of runs; None without records."""
    if not find_records(project_root(app), cell):
        return None
    return f"{app.builder.get_relative_uri(docname, 'runs')}#{nodes.make_id(cell)}"


@cache
def committed(root: Path) -> list[Record]:
    """The records in data/records, read once in a build."""
    return read_records(root / RECORDS[0])


@cache
def all_records(root: Path) -> list[Record]:
    """Every record of the project; of two runs of the same seed the committed one."""
    found = {r.run_id.path: r for r in (*read_records(root / RECORDS[1]), *committed(root))}
    return list(found.values())


def read_anew(app: Sphinx) -> None:
    """Forget the records of a build before."""
    committed.cache_clear()
    all_records.cache_clear()


def record_copy(path: Path) -> str:
    """Where the book keeps a record, in a list with the others of its cell, relative to the book's root."""
    return "/".join(["records", *path.parts[-3:-1]]) + ".json"


def record_link(path: Path) -> str:
    """The address of that list: folders of options have percent signs in their names."""
    return record_copy(path).replace("%", "%25")


def is_site(app: Sphinx) -> bool:
    """Only a site of many pages can hold the pages of code and of runs."""
    return app.builder.name == "html"


def on_site(*parts: nodes.Node) -> addnodes.only:
    """Parts of a page that only a site shows. Pages are read once, for the site and for the print."""
    return addnodes.only("", *parts, expr="builder_html")


def elsewhere(*parts: nodes.Node) -> addnodes.only:
    """Parts that stand in their place in a book of one file, where nothing unfolds."""
    return addnodes.only("", *parts, expr="not builder_html")


def enclosing_output(node: nodes.Node) -> nodes.Element | None:
    """The output of a notebook's cell that this node stands in; None for what an author wrote."""
    while node.parent is not None:
        node = node.parent
        if "cell_output" in getattr(node, "attributes", {}).get("classes", []):
            return node  # type: ignore[return-value]
    return None


def write_data(app: Sphinx, name: str, value: Any) -> None:
    """Keep ``value`` for scripts of the site that ask for it by name (book/scripts/load.js)."""
    target = Path(app.doctreedir, "data", f"{name}.js")
    text = json.dumps(value, separators=(",", ":"))
    write_atomically(target, f"document.currentScript.value={text};".encode())


def mathjax() -> Path:
    """The one file of MathJax 3 that draws SVG and needs no other, from the installed package."""
    package = importlib.import_module("sphinx-mathjax-offline")
    return Path(str(package.__file__)).with_name("static") / "mathjax/tex-svg-full.js"
