"""Small HTML pages that stand alone: one file each, which needs no network and no second file.

Here: the frame of such a page, and the page of one executed notebook, whose text is turned into HTML by the
same tools as the book's. Not here: the book (sphinx_ext.py), running notebooks (notebooks.py), comparing runs
(comparison.py).
"""

from __future__ import annotations

import base64
import io
import json
import mimetypes
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from rollpe import notebooks
from rollpe.errors import InputError
from rollpe.records import write_atomically

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #23262b; --quiet: #59606a; --line: #d5d9de;
  --shade: #f3f5f7; --link: #0a5a9c; --a: #0072b2; --b: #c24f00; }
@media (prefers-color-scheme: dark) { :root { --ground: #15181c; --ink: #dfe3e8; --quiet: #a0a8b2;
  --line: #3a4048; --shade: #1f242a; --link: #79b8f3; --a: #56b4e9; --b: #ff9349; } }
:root { --pst-color-text-base: var(--ink); --pst-color-text-muted: var(--quiet);
  --pst-color-border: var(--line); --pst-color-primary: var(--link);
  --pst-color-success: #2e8b57; --pst-color-danger: #c0392b; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.6 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1.5rem 1.1rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.9rem; line-height: 1.2; } h2 { font-size: 1.4rem; margin-top: 2.4rem; }
h3 { font-size: 1.15rem; margin-top: 1.8rem; }
a { color: var(--link); } a.headerlink { display: none; }
code, pre { font: 0.86em/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { background: var(--shade); padding: 0.7rem 0.9rem; border-radius: 4px; overflow-x: auto; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; }
caption { text-align: left; color: var(--quiet); padding-bottom: 0.3rem; }
th, td { padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; text-align: left; }
td:last-child:not(.number) { min-width: 11rem; }
.number, .text-right { text-align: right; font-variant-numeric: tabular-nums; }
.number { white-space: nowrap; } tbody th { min-width: 7rem; }
th p, td p { margin: 0; }
img, svg { max-width: 100%; height: auto; }
img { background: #fff; border-radius: 4px; } picture img { background: none; }
mjx-container svg { max-width: none; }
figure { margin: 1.5rem 0; } figcaption p { margin: 0.4rem 0; font-size: 0.92rem; }
summary { cursor: pointer; color: var(--quiet); }
.run { background: var(--shade); border-radius: 6px; padding: 0.4rem 1.1rem; margin: 1.2rem 0 2rem; }
.run h2 { font-size: 1.1rem; margin: 0.6rem 0; } .quiet { color: var(--quiet); font-size: 0.9rem; }
.admonition, .proof, .exercise, .solution { border-left: 3px solid var(--link);
  padding: 0.1rem 0 0.1rem 1rem; margin: 1.4rem 0; }
.admonition-title { font-weight: 600; margin: 0.3rem 0; }
div.math { overflow-x: auto; overflow-y: hidden; margin: 1rem 0; }
.eqno { float: right; color: var(--quiet); }
details.hide { border: 0; padding: 0; margin: 0.8rem 0; }
details.hide > summary p { display: inline; font-weight: 400; }
details.hide[open] > summary .collapsed, details.hide:not([open]) > summary .expanded { display: none; }
dd { margin-left: 1.2rem; } .verdict-counts span { margin-right: 0.8rem; }
"""
DARK = "@media (prefers-color-scheme: dark) {{ {} }}"
LEFT_OUT = {
    "jupyter_book",
    "sphinx_book_theme",
    "sphinx_comments",
    "sphinx_copybutton",
    "sphinx_external_toc",
    "sphinx_multitoc_numbering",
    "sphinx_togglebutton",
}
"""Extensions of the book that serve a site of many pages, its buttons and its theme."""


def page(title: str, body: str, *, style: str = "", scripts: Iterable[str] = ()) -> str:
    """A whole HTML document, as text. ``body`` is HTML and holds the ``h1``; title is plain text."""
    inert = (script.replace("</script", "<\\/script") for script in scripts)
    code = "".join(f"<script>{script}</script>\n" for script in inert)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n{code}</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """An HTML table of plain texts. The first cell of a row heads it; columns of numbers stand right."""
    numeric = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(columns))]
    sides = ["", *(' class="number"' if yes else "" for yes in numeric[1:])]
    head = "".join(
        f'<th scope="col"{side}>{escape(name)}</th>' for name, side in zip(columns, sides, strict=True)
    )
    lines = []
    for first, *others in rows:
        cells = (f"<td{side}>{escape(text)}</td>" for text, side in zip(others, sides[1:], strict=True))
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{"".join(cells)}</tr>')
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = f"{title}<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return _scrolling(f"<table>{body}</table>", caption or columns[0])


def _scrolling(table: str, label: str) -> str:
    """A table too wide for the page scrolls by itself, by keyboard as well."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(label)}">{table}</div>'


def _is_number(text: str) -> bool:
    return re.match(r"(< |[-+−])?\d[\d.,]*( |$)|–$", text) is not None


# ------------------------------------------------------------------------------------------- notebooks


def notebook_page(executed: Path | str, root: Path | str, output: Path | str | None = None) -> Path:
    """Write one executed notebook as a page and return its path.

    Without ``output`` the page lies beside a notebook in ``_build/runs``, and for one of the book in
    ``_build/runs/<name>/``, never in the book. At the top stand the parameters that were changed, all others
    folded away, and what the run came from. Links into other pages of the book have no target here and
    become their titles. Mathematics is drawn by a MathJax that lies in the page; moving figures show their
    still.
    """
    executed, root = Path(executed).resolve(), Path(root).resolve()
    runs = root / "_build/runs"
    folder = executed.parent if executed.is_relative_to(runs) else runs / executed.stem
    output = Path(output or folder / f"{executed.stem}.html")
    try:
        body, style = _body(executed, root)
    except ModuleNotFoundError as error:
        raise InputError(
            f"no page: {error.name} is not installed. Repair: pip install -e '.[book]'."
        ) from None
    stamp = notebooks.read_stamp(executed)
    heading, rest = re.match(r"\s*(.*?</h1>)?(.*)", body, re.DOTALL).groups()  # type: ignore[union-attr]
    title = unescape(re.sub(r"<[^>]*>", "", heading or executed.stem)).replace("¶", "").strip()
    if heading:  # the box goes under the title, inside its section
        body = heading + _run_box(stamp, root) + rest
    else:
        body = f"<h1>{escape(title)}</h1>{_run_box(stamp, root)}{rest}"
    scripts = _mathjax() if 'class="math' in body else []
    changed = ", ".join(f"{name}={value}" for name, value in stamp.get("changed", {}).items())
    text = page(f"{title} ({changed})" if changed else title, body, style=style, scripts=scripts)
    write_atomically(output, text.encode())
    return output


def _run_box(stamp: dict[str, Any], root: Path) -> str:
    """What the run changed and what it came from."""
    if not stamp:
        return ""
    from rollpe.figures_ext import command

    changed, values = stamp["changed"], stamp["parameters"]
    known = {p.name: p for p in notebooks.parameters(root / stamp["notebook"])}

    def rows(names: Iterable[str]) -> list[tuple[str, ...]]:
        return [(n, str(values[n]), str(known[n].default), known[n].help) for n in names if n in known]

    columns = ("parameter", "value", "default", "meaning")
    lines = ['<section class="run" aria-labelledby="this-run"><h2 id="this-run">This run</h2>']
    if changed:
        lines.append(table(columns, rows(changed), "Parameters that were changed"))
        lines.append("<p>Text and captions were written for the defaults.</p>")
    else:
        lines.append("<p>All parameters have their default values.</p>")
    if same := [name for name in values if name not in changed]:
        lines.append(f"<details><summary>At their defaults: {len(same)}</summary>")
        lines.append(table(columns, rows(same)) + "</details>")
    versions = ", ".join(f"{name} {version}" for name, version in stamp["versions"].items())
    date = stamp["date"][:16].replace("T", " ")
    lines.append(
        f'<p class="quiet">Run {escape(date)} UTC in {stamp["seconds"]:.0f} s on '
        f"{escape(stamp['device'])}; {escape(versions)}. Hashes: notebook {stamp['source'][:10]}, "
        f"library {stamp['package'][:10]}, lock {stamp['lock'][:10]}. "
        f"Again: <code>{escape(command(stamp))}</code></p></section>"
    )
    return "\n".join(lines)


def _body(executed: Path, root: Path) -> tuple[str, str]:
    """The notebook's HTML with its pictures inside, and the style of what the tools generate."""
    import nbformat
    from jupyter_book.config import get_final_config
    from sphinx.application import Sphinx
    from sphinx.highlighting import PygmentsBridge
    from sphinx.util.docutils import docutils_namespace

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
        app.connect("doctree-resolved", _drop_stamp, priority=900)
        app.build()
        made = json.loads((html / "index.fjson").read_text(encoding="utf8"))
        body = re.sub(r'<img\b[^>]*?\bsrc="([^":]+)"[^>]*>', lambda m: _inline(m, html), made["body"])
        body = re.sub(r"<table\b.*?</table>", lambda m: _scrolling(m[0], "Table"), body, flags=re.DOTALL)
    book = root / "book/_static/book.css"
    light, dark = (PygmentsBridge("html", name).get_stylesheet() for name in ("friendly", "github-dark"))
    style = (book.read_text(encoding="utf8") if book.is_file() else "") + light + DARK.format(dark)
    return body, style


def _title_of(root: Path, node: pending_xref, text: nodes.Node) -> nodes.Node | None:
    """Stands for a link to another page of the book: that page's title."""
    from docutils import nodes

    if node.get("reftype") != "doc" or node.get("refexplicit"):
        return None
    name = node["reftarget"].rpartition("/")[2]
    for file, mark in ((root / "notebooks" / f"{name}.py", "# # "), (root / "book" / f"{name}.md", "# ")):
        if file.is_file() and (found := re.search(rf"^{mark}(.+)$", file.read_text("utf8"), re.MULTILINE)):
            return nodes.emphasis("", found.group(1))
    return None


def _drop_stamp(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """The book's last line stands at the top of these pages."""
    from docutils import nodes

    for line in list(doctree.findall(nodes.paragraph)):
        if "page-stamp" in line["classes"]:
            line.parent.remove(line)


def _inline(image: re.Match[str], html: Path) -> str:
    """An image with its file inside; a drawing also in the colors of a dark page."""
    from rollpe.figures import to_dark

    file = html / "_images" / Path(unquote(image[1])).name
    content = file.read_bytes()
    tag = image[0].replace(image[1], _data(file.name, content))
    if file.suffix != ".svg":
        return tag
    dark = _data(file.name, to_dark(content.decode()).encode())
    return f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">{tag}</picture>'


def _data(name: str, content: bytes) -> str:
    return f"data:{mimetypes.guess_type(name)[0]};base64,{base64.b64encode(content).decode()}"


def _mathjax() -> list[str]:
    """MathJax with its settings, as scripts; nothing if it is not installed, and formulas stay as TeX."""
    from rollpe.sphinx_ext import find_mathjax

    file = find_mathjax()
    if file is None:
        return []
    settings = {
        "svg": {"fontCache": "global"},
        "options": {
            "ignoreHtmlClass": "document",
            "processHtmlClass": "math|output_area",
            "enableMenu": False,
        },
    }
    return [f"window.MathJax = {json.dumps(settings)}", file.read_text(encoding="utf8")]
