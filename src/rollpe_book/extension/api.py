"""The pages of the library's names, which autodoc and viewcode make of the docstrings.

Added here: the name to build an encoding by, and links from names in the code of chapters.
"""

from __future__ import annotations

import ast
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from rollpe.encodings.registry import ENCODINGS
from rollpe_book.extension.site import is_site

FAMILIES = {encoding.__module__ for encoding in ENCODINGS.values()}


def add_facts(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put the name of an encoding before its docstring.

    The docstring of a module, which is about its files, is left out: its page says what it is for.
    """
    if what == "module":
        lines.clear()
    described = {key: field.description for key, field in getattr(obj, "model_fields", {}).items()}
    lines += ["", *(f":ivar {key}: {said}" for key, said in described.items() if said), ""]
    encoding = next((name for name, known in ENCODINGS.items() if known is obj), None)
    if encoding:
        lines[:0] = [f'``create_encoding("{encoding}", …)``', ""]


def escape_bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """In docstrings |x| is a length, and in reStructuredText a name."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda m: m[1] or r"\|", line) for line in lines]


def leave_out_fields(app: Sphinx, what: str, name: str, obj: Any, *rest: Any) -> tuple[str, str] | None:
    """The signature of a pydantic model is the list of all its fields, pages long."""
    return ("", "") if hasattr(obj, "model_fields") else None


def keep_to_encodings(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Of the modules of encodings show the encodings alone, whose methods are those of `Encoding`."""
    inside = app.env.temp_data.get("autodoc:module") in FAMILIES
    return True if inside and obj not in ENCODINGS.values() else None


def write_in_one_line(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Outside of a site, where repairs.py mends no markup, a signature is one line."""
    for arguments in [] if is_site(app) else doctree.findall(addnodes.desc_parameterlist):
        arguments["multi_line_parameter_list"] = False


CODE = re.compile(r'(?s)<div class="highlight-ipython3 .*?</pre>')
NAME = re.compile(  # a name or the first two of a.b, no attribute and no keyword of a call
    r'(?<!<span class="o">\.</span>)(<span class="n">(\w+)</span>)'
    r'(?:(<span class="o">\.</span><span class="n">(\w+)</span>)|(?!<span class="o">=</span>))'
)


def imported_names(path: Path) -> dict[str, tuple[str, str]]:
    """What the cells of a notebook import from the project, and under which names a page may describe it.

    ``{"Roll": ("rollpe.encodings.Roll", "rollpe.encodings.roll.Roll"), …}``.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    found = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (module := node.module or "").startswith("rollpe"):
            for name in node.names:
                defined = getattr(getattr(import_module(module), name.name, None), "__module__", module)
                found[name.asname or name.name] = (f"{module}.{name.name}", f"{defined}.{name.name}")
    return found


def link_names(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """On a site, names that a chapter imports from the project lead from its code to their page."""
    path = Path(app.env.doc2path(page)) if doctree else Path(page)
    if path.suffix != ".ipynb" or not is_site(app):
        return
    places, imported = app.env.domaindata["py"]["objects"], imported_names(path)

    def linked(match: re.Match[str]) -> str:
        first, name, rest, attribute = match.groups("")
        for text, after, last in ((match[0], "", f".{attribute}"), (first, rest, "")):
            for dotted in imported.get(name, ()):
                if place := places.get(dotted + last):
                    address = f"{app.builder.get_relative_uri(page, place.docname)}#{place.node_id}"
                    return f'<a class="code-name" href="{address}">{text}</a>{after}'
        return match[0]

    context["body"] = CODE.sub(lambda code: NAME.sub(linked, code[0]), context["body"])


def setup(app: Sphinx) -> None:
    app.setup_extension("sphinx.ext.napoleon")  # with autodoc
    app.setup_extension("sphinx.ext.viewcode")
    app.config.napoleon_use_ivar = True
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
    app.connect("autodoc-process-docstring", add_facts, priority=600)  # after napoleon, which comes at 500
    app.connect("autodoc-process-signature", leave_out_fields)
    app.connect("autodoc-skip-member", keep_to_encodings)
    app.connect("doctree-resolved", write_in_one_line)
    app.connect("html-page-context", link_names)
