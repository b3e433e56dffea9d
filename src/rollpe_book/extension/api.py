"""The pages of the library's names, which autodoc and viewcode make of the docstrings.

Added here: the name to build an encoding by, and the equations that a function or class computes.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from rollpe.encodings.registry import ENCODINGS
from rollpe_book.equations.registry import dotted_name
from rollpe_book.extension.site import is_site

FAMILIES = {encoding.__module__ for encoding in ENCODINGS.values()}


def add_facts(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put the name of an encoding before its docstring, and its checked equations after a docstring.

    The docstring of a module, which is about its files, is left out: its page says what it is for.
    """
    if what == "module":
        lines.clear()
    described = {key: field.description for key, field in getattr(obj, "model_fields", {}).items()}
    lines += ["", *(f":ivar {key}: {said}" for key, said in described.items() if said), ""]
    if not callable(obj) or not hasattr(obj, "__qualname__"):
        return
    encoding = next((name for name, known in ENCODINGS.items() if known is obj), None)
    if encoding:
        lines[:0] = [f'``create_encoding("{encoding}", …)``', ""]
    known = equations(app)
    lines[:] = [
        re.sub(r"\((eq-[\w-]+)\)", lambda m: reference(m[1]) if m[1] in known else m[0], line)
        for line in lines
    ]
    by = {dotted_name(obj), encoding}
    labels = [label for label, entry in known.items() if by & {*entry["implements"], *entry["encodings"]}]
    if labels:
        lines += ["", f"Checked equations: {', '.join(map(reference, labels))}.", ""]


def escape_bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """In docstrings |x| is a length, and in reStructuredText a name."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda m: m[1] or r"\|", line) for line in lines]


def leave_out_fields(app: Sphinx, what: str, name: str, obj: Any, *rest: Any) -> tuple[str, str] | None:
    """The signature of a pydantic model is the list of all its fields, pages long."""
    return ("", "") if hasattr(obj, "model_fields") else None


def equations(app: Sphinx) -> dict[str, dict[str, Any]]:
    """The report's entries of the equations on pages of this book that are right as displayed."""
    pages = {docname.rpartition("/")[2] for docname in app.env.found_docs}
    report: dict[str, dict[str, Any]] = app.env.rollpe_report  # type: ignore[attr-defined]
    return {
        label: entry
        for label, entry in report.items()
        if entry["page"] in pages and not label.endswith("-printed")
    }


def reference(label: str) -> str:
    return f":eq:`{label}`"


def keep_to_encodings(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Of the modules of encodings show the encodings alone, whose methods are those of `Encoding`."""
    inside = app.env.temp_data.get("autodoc:module") in FAMILIES
    return True if inside and obj not in ENCODINGS.values() else None


def write_in_one_line(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Outside of a site, where head.py mends no markup, a signature is one line."""
    for arguments in [] if is_site(app) else doctree.findall(addnodes.desc_parameterlist):
        arguments["multi_line_parameter_list"] = False


def setup(app: Sphinx) -> None:
    app.setup_extension("sphinx.ext.napoleon")  # with autodoc
    app.setup_extension("sphinx.ext.viewcode")
    app.config.napoleon_use_ivar = True
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
    app.connect("autodoc-process-docstring", add_facts, priority=600)  # after napoleon, which comes at 500
    app.connect("autodoc-process-signature", leave_out_fields)
    app.connect("autodoc-skip-member", keep_to_encodings)
    app.connect("doctree-resolved", write_in_one_line)
