"""Equations of the book: labels, the mark of each check, links to the functions that compute it.

The checks are in rollpe_book.equations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from rollpe.encodings.registry import ENCODINGS
from rollpe_book.equations.registry import CheckResult
from rollpe_book.extension.site import enclosing_output, is_site, project_root

logger = logging.getLogger(__name__)

FEW = 3
"""An equation of all encodings except at most this many is listed by the exceptions."""


def load_report(path: Path) -> dict[str, dict[str, Any]]:
    """The report of ``rollpe equations --json`` by label; {} if there is none."""
    if not path.is_file():
        return {}
    report = json.loads(path.read_text(encoding="utf8"))
    return {entry["label"]: entry for entry in report["equations"]}


def scientific(value: float) -> str:
    """3.2e-16 → "3.2·10⁻¹⁶", 1e-12 → "10⁻¹²", 0 → "0"."""
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    number = mantissa.removesuffix(".0")
    return power if number == "1" else f"{number}·{power}"


def check_equations(app: Sphinx, doctree: nodes.document) -> None:
    """Warn of every displayed equation without a label, or with a label that has no check or reason."""
    report = app.env.rollpe_report  # type: ignore[attr-defined]
    shown = app.env.rollpe_shown.setdefault(app.env.docname, {})  # type: ignore[attr-defined]
    for node in doctree.findall(nodes.math_block):
        if enclosing_output(node) is not None:
            continue
        label = node.get("label")
        if label in report:
            shown[label] = node.astext()
            if report[label].get("error") is not None and not report[label].get("passed"):
                logger.warning("equation %s: its check failed", label, location=node, type="rollpe")
        elif label and "amsmath" not in node["classes"]:
            message = "equation %s is in no registry: give it a check, or a reason, in rollpe_book.equations"
            logger.warning(message, label, location=node, type="rollpe")
        else:
            message = "displayed equation without a label: write $$ … $$ (eq-name)"
            logger.warning(message, location=node, type="rollpe")
    if shown:
        app.env.note_dependency(str(project_root(app) / app.config.rollpe_equations))


def check_pages(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of registered equations that are missing on their page, and of two equal ones."""
    pages = {docname.rpartition("/")[2]: docname for docname in env.found_docs}
    shown = env.rollpe_shown  # type: ignore[attr-defined]
    for label, result in env.rollpe_report.items():  # type: ignore[attr-defined]
        page = pages.get(result["page"])
        if page and label not in shown.get(page, {}):
            message = "equation %s belongs on this page, says the registry, and is not displayed"
            logger.warning(message, label, location=page, type="rollpe")
    labels: dict[str, str] = {}
    for page, equations in shown.items():
        for label, tex in equations.items():
            first = labels.setdefault("".join(tex.split()), label)
            if first != label:
                message = "equation %s is displayed already, as %s"
                logger.warning(message, label, first, location=page, type="rollpe")


def finish_equations(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Say at every displayed equation what its check found: on a site a mark in the margin, which unfolds."""
    report = app.env.rollpe_report  # type: ignore[attr-defined]
    for node in list(doctree.findall(nodes.math_block)):
        if enclosing_output(node) is None and node.get("label") in report:
            box = nodes.container(classes=["checked-equation"])
            node.replace_self(box)
            box += [node, badge(app, docname, report[node["label"]])]


def badge(app: Sphinx, docname: str, result: dict[str, Any]) -> nodes.Element:
    """What the check of an equation found, its code, the encodings that use it and its source.

    On a site a mark, which unfolds to everything about it; elsewhere a paragraph.
    """
    error, tolerance = result.get("error"), result.get("tolerance", 0.0)
    if error is None:
        state, mark, found = "not-checked", "–", f"Not checked: {result.get('reason') or 'no reason given'}"
    else:
        state, mark = ("passed", "✓") if result["passed"] else ("failed", "✗")
        found = "exact" if error == tolerance == 0 else f"largest error {scientific(error)}"
        found += "" if error == tolerance == 0 else f" (tolerance {scientific(tolerance)})"
        found += f" over {result['cases']} cases" if result.get("cases") else ""
        found = ("Checked: " if result["passed"] else "CHECK FAILED: ") + found
    parts: list[list[nodes.Node]] = [[nodes.Text(found)]]
    parts += [[code_link(app, docname, name, name.removeprefix("rollpe."))] for name in result["implements"]]
    parts.append(list(_trained(app, docname, result.get("encodings", []))))
    parts.append([nodes.Text(result["source"])] if result.get("source") else [])
    line = nodes.paragraph()
    for part in filter(None, parts):
        line += [nodes.Text(" · "), *part] if line.children else part
    if not is_site(app):
        line["classes"] += ["equation-check", state]
        return line
    opening = f"<details{' open' if state == 'failed' else ''}>"
    summary = f'<summary title="{escape(found)}" aria-label="{escape(found)}">{mark}</summary>'
    opened, closed = (nodes.raw("", tag, format="html") for tag in (opening + summary, "</details>"))
    return nodes.container("", opened, line, closed, classes=["equation-check", state])


def code_link(app: Sphinx, docname: str, dotted: str, name: str) -> nodes.Node:
    """A name that leads to its code: to a page of sphinx.ext.viewcode, which has what book/api documents."""
    code = nodes.literal(name, name)
    if not is_site(app):
        return code
    module, _, defined = dotted.rpartition(".")
    page = app.builder.get_relative_uri(docname, f"_modules/{module.replace('.', '/')}")
    return nodes.reference(
        "", "", code, internal=True, refuri=f"{page}#{defined}", reftitle=f"Source of {dotted}"
    )


def _trained(app: Sphinx, docname: str, names: Sequence[str]) -> Iterator[nodes.Node]:
    """The encodings that an equation is part of; if nearly all are, the exceptions."""
    adding = [name for name in ENCODINGS if name != "none"]
    made, others = [n for n in adding if n in names], [n for n in adding if n not in names]
    if not made:
        return
    every = len(others) <= FEW
    yield nodes.Text("trained in " + ("every encoding" if every else ""))
    for i, name in enumerate(others if every else made):
        encoding = ENCODINGS[name]
        yield nodes.Text(", " if i else " but " if every else "")
        yield code_link(app, docname, f"{encoding.__module__}.{encoding.__qualname__}", name)


def check_results(report: Iterable[dict[str, Any]]) -> list[CheckResult]:
    """The results of the checks, from the report."""
    names = [field.name for field in fields(CheckResult)]
    checked = [entry for entry in report if entry.get("error") is not None]
    return [CheckResult(**{name: entry[name] for name in names}) for entry in checked]


def begin(app: Sphinx) -> None:
    """Read the report of the checks; a book without one is a warning."""
    path = project_root(app) / app.config.rollpe_equations
    env: Any = app.env
    env.rollpe_report = load_report(path)
    if not hasattr(env, "rollpe_shown"):
        env.rollpe_shown = {}
    if not path.is_file():
        message = "%s is missing: run rollpe equations --json %s"
        logger.warning(message, path, app.config.rollpe_equations, type="rollpe")


def purge(app: Sphinx, env: Any, docname: str) -> None:
    env.rollpe_shown.pop(docname, None)


def setup(app: Sphinx) -> None:
    app.add_config_value("rollpe_equations", "_build/equations.json", "env", str)
    app.connect("builder-inited", begin)
    app.connect("env-purge-doc", purge)
    app.connect("doctree-read", check_equations)
    app.connect("env-check-consistency", check_pages)
