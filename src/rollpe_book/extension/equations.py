"""Equations of the book: their labels, and the mark in the margin with what the check in the cell found.

The mark says what the cell printed, so pages leave the printed line out.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from rollpe_book.checks import LINE, Check, read_notebook
from rollpe_book.extension.site import enclosing_output, is_site

logger = logging.getLogger(__name__)

STATES = {"✓": "passed", "≠": "passed", "–": "not-checked", "✗": "failed"}


def check_equations(app: Sphinx, doctree: nodes.document) -> None:
    """Warn of every displayed equation without a label or a passed check, and of a check without equation."""
    env: Any = app.env
    docname, path = env.docname, Path(env.doc2path(env.docname))
    checks = read_notebook(path) if path.suffix == ".ipynb" else {}
    shown = env.rollpe_shown[docname] = {}
    env.rollpe_checks |= checks
    for node in doctree.findall(nodes.math_block):
        label = node.get("label")
        if enclosing_output(node) is not None:
            continue
        if not label or "amsmath" in node["classes"]:
            message = "displayed equation without a label: write $$ … $$ (eq-name)"
            logger.warning(message, location=node, type="rollpe")
            continue
        shown[label] = "".join(node.astext().split())
        if label not in checks:
            message = (
                "equation %s has no check: write agree, differs, holds or definition in the cell under it"
            )
            logger.warning(message, label, location=node, type="rollpe")
        elif not checks[label].passed:
            logger.warning("equation %s: its check failed", label, location=node, type="rollpe")
    for label in checks.keys() - shown.keys():
        logger.warning(
            "a cell checks %s, which this page does not display", label, location=docname, type="rollpe"
        )


def check_pages(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of two equations that are equal."""
    labels: dict[str, str] = {}
    for page, equations in env.rollpe_shown.items():  # type: ignore[attr-defined]
        for label, tex in equations.items():
            if (first := labels.setdefault(tex, label)) != label:
                message = "equation %s is displayed already, as %s"
                logger.warning(message, label, first, location=page, type="rollpe")


def finish_equations(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Say at every displayed equation what its check found: on a site a mark in the margin, which unfolds."""
    checks = app.env.rollpe_checks  # type: ignore[attr-defined]
    for node in list(doctree.findall(nodes.math_block)):
        if enclosing_output(node) is None and node.get("label") in checks:
            box = nodes.container(classes=["checked-equation"])
            node.parent.replace(node, box)
            box += [node, badge(app, checks[node["label"]])]
    for printed in list(doctree.findall(nodes.literal_block)):
        output, lines = enclosing_output(printed), printed.astext().splitlines()
        kept = [line for line in lines if not LINE.match(line)]
        if output is None or kept == lines:
            continue
        printed.rawsource = "\n".join(kept)
        printed[:] = [nodes.Text(printed.rawsource)]
        for emptied in (printed, output):
            if not emptied.astext():
                emptied.parent.remove(emptied)


def badge(app: Sphinx, check: Check) -> nodes.Element:
    """What the check of an equation found: on a site a mark, which unfolds; elsewhere a paragraph."""
    state = STATES[check.mark]
    said = {"passed": "Checked", "not-checked": "Not checked", "failed": "CHECK FAILED"}[state]
    line = nodes.paragraph("", f"{said}: {check.found}")
    if not is_site(app):
        line["classes"] += ["equation-check", state]
        return line
    opening = f"<details{' open' if state == 'failed' else ''}>"
    found = escape(line.astext())
    summary = f'<summary title="{found}" aria-label="{found}">{check.mark}</summary>'
    opened, closed = (nodes.raw("", tag, format="html") for tag in (opening + summary, "</details>"))
    return nodes.container("", opened, line, closed, classes=["equation-check", state])


def begin(app: Sphinx) -> None:
    """What pages display and their cells check, collected while they are read."""
    env: Any = app.env
    if not hasattr(env, "rollpe_checks"):
        env.rollpe_shown, env.rollpe_checks = {}, {}


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", begin)
    app.connect("doctree-read", check_equations)
    app.connect("env-check-consistency", check_pages)
