"""Links to the code.

Here: the line that defines a name, and a page of each linked file. Not here: the links (equations.py,
__init__.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from rollpe.book.site import is_site
from rollpe.sources import PACKAGE

logger = logging.getLogger(__name__)


def find_line(dotted: str) -> tuple[Path, int] | None:
    """File and line where a dotted name such as ``operators.roll`` is defined, found without importing.

    The package's own name in front is optional. A name that is imported, not defined, is followed
    through a package's ``__init__``; None if nothing defines it.
    """
    parts = dotted.split(".")
    parts = parts[1:] if parts[0] == PACKAGE.name else parts
    for depth in range(len(parts), 0, -1):
        module = PACKAGE.joinpath(*parts[:depth])
        files = [module.with_suffix(".py")] if depth < len(parts) or not module.is_dir() else []
        files += sorted(module.glob("*.py")) if module.is_dir() else []
        for file in (f for f in files if f.is_file()):
            line = _line_in(file, parts[depth:])
            if line:
                return file, line
    return None


def _line_in(file: Path, names: Sequence[str]) -> int | None:
    body: Sequence[ast.stmt] = ast.parse(file.read_text(encoding="utf8")).body
    line = 1
    for name in names:
        for node in body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if getattr(node, "name", None) == name or any(getattr(t, "id", None) == name for t in targets):
                line, body = node.lineno, getattr(node, "body", [])
                break
        else:
            return None
    return line


def source_uri(app: Sphinx, docname: str, dotted: str) -> str | None:
    """The address of the line that defines a name; None in a one-file book or, warned of, undefined."""
    place = find_line(dotted)
    if place is None:
        logger.warning("%s is defined nowhere in src/rollpe", dotted, location=docname, type="rollpe")
    if place is None or not is_site(app):
        return None
    file, line = place
    app.env.rollpe_sources.add(file)  # type: ignore[attr-defined]
    return f"{app.builder.get_relative_uri(docname, source_page(file))}#L-{line}"


def code_link(app: Sphinx, docname: str, dotted: str, name: str) -> nodes.Node:
    code = nodes.literal(name, name)
    uri = source_uri(app, docname, dotted)
    if uri is None:
        return code
    return nodes.reference("", "", code, internal=True, refuri=uri, reftitle=f"Source of {dotted}")


def source_page(file: Path) -> str:
    return "source/" + ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


def collect_sources(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page of each linked source file."""
    if not is_site(app):
        return
    for file in sorted(app.env.rollpe_sources):  # type: ignore[attr-defined]
        name = file.relative_to(PACKAGE.parent).as_posix()
        code = app.builder.highlighter.highlight_block(  # type: ignore[attr-defined]
            file.read_text(encoding="utf8"), "python", linenos="inline", lineanchors="L"
        )
        body = f"<h1>src/{escape(name)}</h1>\n<p>The file as it was when this book was built.</p>\n{code}"
        yield source_page(file), {"title": f"src/{name}", "body": body}, "page.html"
