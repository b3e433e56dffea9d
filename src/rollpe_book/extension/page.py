"""The page of one executed notebook: a single HTML file, made by the same tools as the book."""

from __future__ import annotations

import base64
import io
import json
import mimetypes
import re
import shutil
import tempfile
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import nbformat
from docutils import nodes
from jupyter_book.config import get_final_config
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge
from sphinx.util.docutils import docutils_namespace

from rollpe_book.chapters.gate import command, read_stamp
from rollpe_book.chapters.parameters import read_parameters
from rollpe_book.extension.site import mathjax
from rollpe_book.figures.theme import to_dark
from rollpe_book.templates import render
from rollpe_lab.files import write_atomically

MATHJAX = """window.MathJax = {
  svg: {fontCache: "global", scale: 0.9},
  options: {ignoreHtmlClass: "document", processHtmlClass: "math|output_area", enableMenu: false},
}"""
DARK = "@media (prefers-color-scheme: dark) {{ {} }}"
SCROLLING = r'<div class="scroll" tabindex="0" role="group" aria-label="Table">\g<0></div>'
LEFT_OUT = {
    "jupyter_book",
    "rollpe_book.extension.repairs",
    "sphinx_book_theme",
    "sphinx_comments",
    "sphinx_copybutton",
    "sphinx_external_toc",
    "sphinx_multitoc_numbering",
    "sphinx_togglebutton",
}
"""Extensions of the book that serve a site of many pages, its buttons and its theme."""


def notebook_page(executed: Path | str, root: Path | str) -> Path:
    """Write one executed notebook as a page and return its path.

    The page lies beside a notebook in ``_build/runs``, and for one of the book in
    ``_build/runs/<name>/``, never in the book. At the top stand the parameters that were changed, all others
    folded away, and what the run came from. Links into other pages of the book have no target here and
    become their titles. Mathematics is drawn by a MathJax that lies in the page; moving figures show their
    still.
    """
    executed, root = Path(executed).resolve(), Path(root).resolve()
    runs = root / "_build/runs"
    folder = executed.parent if executed.is_relative_to(runs) else runs / executed.stem
    output = folder / f"{executed.stem}.html"
    body, style = _body(executed, root)
    stamp = read_stamp(executed)
    heading, rest = re.match(r"\s*(.*?</h1>)?(.*)", body, re.DOTALL).groups()  # type: ignore[union-attr]
    changed, values = stamp.get("changed", {}), stamp.get("parameters", {})
    known = read_parameters(root / stamp["notebook"]) if stamp else []
    rows = [(p.name, str(values[p.name]), str(p.default), p.help) for p in known if p.name in values]
    text = render(
        "notebook.html",
        title=unescape(re.sub(r"<[^>]*>", "", heading or executed.stem)).replace("¶", "").strip(),
        changes=", ".join(f"{name}={value}" for name, value in changed.items()),
        style=style,
        scripts=[MATHJAX, mathjax().read_text(encoding="utf8")] if 'class="math' in body else [],
        heading=heading,
        rest=rest,
        stamp=stamp,
        command=command(stamp) if stamp else "",
        changed=[row for row in rows if row[0] in changed],
        unchanged=[row for row in rows if row[0] not in changed],
    )
    write_atomically(output, text.encode())
    return output


def _body(executed: Path, root: Path) -> tuple[str, str]:
    """The notebook's HTML with its pictures inside, and the style of what the tools generate."""
    with tempfile.TemporaryDirectory() as temporary, docutils_namespace():
        source, html, trees = (Path(temporary, name) for name in ("pages", "html", "trees"))
        source.mkdir()
        shutil.copy(root / "book/references.bib", source)
        notebook = nbformat.read(executed, as_version=4)
        if any("{cite" in "".join(cell.source) for cell in notebook.cells):
            notebook.cells.append(nbformat.v4.new_markdown_cell("## References\n\n```{bibliography}\n```"))
        nbformat.write(notebook, source / "index.ipynb")
        config, _ = get_final_config(
            user_yaml=root / "_config.yml",
            cli_config={"latex_individualpages": False},
            sourcedir=source,
            validate=False,
            use_external_toc=False,
        )
        config["extensions"] = [name for name in config["extensions"] if name not in LEFT_OUT]
        unused = [name for name in config if name.startswith(("html_", "latex", "use_", "comments"))]
        config = {name: value for name, value in config.items() if name not in unused}
        config.update(root_doc="index", rollpe_root=str(root), html_theme="basic")
        silent = io.StringIO()
        app = Sphinx(str(source), None, str(html), str(trees), "json", config, status=silent, warning=silent)
        app.connect("missing-reference", lambda app, env, node, text: _title_of(root, node, text))
        app.build()
        made = json.loads((html / "index.fjson").read_text(encoding="utf8"))
        body = re.sub(r'<img\b[^>]*?\bsrc="([^":]+)"[^>]*>', lambda m: _inline(m, html), made["body"])
        body = re.sub(r"<table\b.*?</table>", SCROLLING, body, flags=re.DOTALL)
    sheets = [root / "book/_static" / name for name in ("book.css", "waves.css")]
    light, dark = (PygmentsBridge("html", name).get_stylesheet() for name in ("friendly", "github-dark"))
    style = "".join(sheet.read_text(encoding="utf8") for sheet in sheets if sheet.is_file())
    return body, style + light + DARK.format(dark)


def _title_of(root: Path, node: pending_xref, text: nodes.Node) -> nodes.Node | None:
    """Stands for a link to another page of the book: that page's title."""
    if node.get("reftype") != "doc" or node.get("refexplicit"):
        return None
    name = node["reftarget"].rpartition("/")[2]
    for file, mark in ((root / "notebooks" / f"{name}.py", "# # "), (root / "book" / f"{name}.md", "# ")):
        if file.is_file() and (found := re.search(rf"^{mark}(.+)$", file.read_text("utf8"), re.MULTILINE)):
            return nodes.emphasis("", found.group(1))
    return None


def _inline(image: re.Match[str], html: Path) -> str:
    """An image with its file inside; a drawing also in the colors of a dark page."""
    file = html / "_images" / Path(unquote(image[1])).name
    content = file.read_bytes()
    tag = image[0].replace(image[1], _data(file.name, content))
    if file.suffix != ".svg":
        return tag
    dark = _data(file.name, to_dark(content.decode()).encode())
    return f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">{tag}</picture>'


def _data(name: str, content: bytes) -> str:
    return f"data:{mimetypes.guess_type(name)[0]};base64,{base64.b64encode(content).decode()}"
