"""Equations of the book: labels, the badge of each check, links to the functions that compute it.

Here: reading the report, warnings, badges. Not here: the checks (rollpe.equations).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from rollpe.book.site import enclosing_output, project_root
from rollpe.book.source import code_link
from rollpe.encodings.registry import ENCODINGS
from rollpe.equations.registry import CheckResult

logger = logging.getLogger(__name__)

FEW = 3
"""An equation of all encodings except at most this many is listed by the exceptions."""


def load_report(path: Path) -> dict[str, dict[str, Any]]:
    """The report of ``rollpe equations --json`` by label; {} if there is none."""
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf8"))
    results = content.get("equations", []) if isinstance(content, dict) else content
    return {result["label"]: result for result in results}


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
            message = "equation %s is in no registry: give it a check, or a reason, in rollpe.equations"
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


def badge(app: Sphinx, docname: str, result: dict[str, Any]) -> nodes.paragraph:
    line = nodes.paragraph(classes=["equation-check"])
    if result.get("error") is None:
        line["classes"].append("not-checked")
        line += nodes.Text(f"Not checked: {result.get('reason') or 'no reason given'}")
    else:
        line["classes"].append("passed" if result["passed"] else "failed")
        verdict = "Checked" if result["passed"] else "CHECK FAILED"
        cases = f" over {result['cases']} cases" if result.get("cases") else ""
        found = f"largest error {scientific(result['error'])} (tolerance {scientific(result['tolerance'])})"
        exact = result["error"] == result["tolerance"] == 0
        line += nodes.Text(f"{verdict}: {'exact' if exact else found}{cases}")
    for dotted in result["implements"]:
        line += [nodes.Text(" · "), code_link(app, docname, dotted, dotted.removeprefix("rollpe."))]
    line += _trained(app, docname, result.get("encodings", []))
    if result.get("source"):
        line += nodes.Text(f" · {result['source']}")
    return line


def _trained(app: Sphinx, docname: str, names: Sequence[str]) -> Iterator[nodes.Node]:
    """The encodings that an equation is part of; if nearly all are, the exceptions."""

    adding = [name for name in ENCODINGS if name != "none"]
    made, others = [n for n in adding if n in names], [n for n in adding if n not in names]
    if not made:
        return
    every = len(others) <= FEW
    yield nodes.Text(" · trained in " + ("every encoding" if every else ""))
    for i, name in enumerate(others if every else made):
        encoding = ENCODINGS[name]
        yield nodes.Text(", " if i else " but " if every else "")
        yield code_link(app, docname, f"{encoding.__module__}.{encoding.__qualname__}", name)


def check_results(report: Iterable[dict[str, Any]]) -> list[Any]:
    """The results of the checks, from the report."""

    names = [field.name for field in fields(CheckResult)]
    return [
        CheckResult(**({"seconds": 0.0} | {k: v for k, v in entry.items() if k in names}))
        for entry in report
        if entry.get("error") is not None
    ]


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


def merge(app: Sphinx, env: Any, docnames: Sequence[str], other: Any) -> None:
    env.rollpe_shown |= {name: other.rollpe_shown.get(name, {}) for name in docnames}


def setup(app: Sphinx) -> None:
    app.add_config_value("rollpe_equations", "_build/equations.json", "env", str)
    app.connect("builder-inited", begin)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("doctree-read", check_equations)
    app.connect("env-check-consistency", check_pages)
