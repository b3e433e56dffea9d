"""Small HTML pages that stand alone: one file each, which needs no network and no second file.

Here: the frame of such a page, its style, and tables. Not here: what a page says (evidence/comparison.py,
book/page.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

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
    return scrolling(f"<table>{body}</table>", caption or columns[0])


def scrolling(table: str, label: str) -> str:
    """A table too wide for the page scrolls by itself, by keyboard as well."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(label)}">{table}</div>'


def _is_number(text: str) -> bool:
    return re.match(r"(< |[-+−])?\d[\d.,]*( |$)|–$", text) is not None
