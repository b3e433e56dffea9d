"""Sentences that carry a condition on results: the role ``{holds}``, ``<!-- holds: … -->`` in README.md.

The role shows nothing. The build computes every condition from the committed records and benchmarks and the
checks of equations; a false one is a warning, hence the end of the build, that names page and sentence.
`rollpe_lab.evidence.conditions` has their grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from rollpe.errors import InputError
from rollpe_book.checks import read_checks
from rollpe_book.extension.ledger import verdicts_of
from rollpe_book.extension.site import RECORDS, is_site, project_root
from rollpe_lab.bench.report import newest_by_device
from rollpe_lab.evidence.conditions import Evidence, objection
from rollpe_lab.evidence.families import later_cells
from rollpe_lab.records.store import find_arrays, read_records

logger = logging.getLogger(__name__)

CONDITION = re.compile(r"\{holds\}`([^`]+)`|<!-- holds: (.+?) -->", re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])|^(?:[-*]|:|\d+\.)\s", re.MULTILINE)


class HoldsRole(SphinxRole):
    """``{holds}`mini: roll - none > 0, Holm 0.05` ``: nothing on the page."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [], []


def paragraphs(page: Path) -> list[str]:
    """The text of a page, Markdown or notebook, between its blank lines."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.split(r"\n\s*\n", text)


def conditions(page: Path) -> Iterator[tuple[str, str]]:
    """Every sentence of a page that carries a condition, with that condition."""
    for paragraph in paragraphs(page):
        for found in CONDITION.finditer(paragraph):
            before = CONDITION.sub("", paragraph[: found.start()]).strip()
            yield " ".join(SENTENCE_END.split(before)[-1].split()), " ".join((found[1] or found[2]).split())


def evidence_of(root: Path) -> Evidence:
    """The committed records and benchmarks of a project, and its ledger, where chapters were executed."""
    records = root / RECORDS[0]
    return Evidence(
        read_records(records),
        arrays=partial(find_arrays, folders=[records]),
        later=later_cells(root / "plans"),
        costs={
            kind: {t.name: t.ratio for t in b.encodings}
            for kind, b in newest_by_device(root / "data/benchmarks").items()
        },
        verdicts={v.claim.id: v.verdict for v in verdicts_of(root, read_checks(root))},
    )


def untrue(pages: Iterable[Path], evidence: Evidence) -> Iterator[str]:
    """One line for every condition that does not hold: page, sentence, condition, finding."""
    for page in pages:
        for sentence, condition in conditions(page):
            try:
                reason = objection(condition, evidence)
            except InputError as error:
                reason = str(error)
            if reason:
                yield f"{page.name}: “{sentence}” does not hold, {condition!r}: {reason}"


def check_sentences(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of every sentence of the book and of README.md that the results contradict."""
    root = project_root(app)
    pages = [root / "README.md", *(Path(env.doc2path(name)) for name in sorted(env.found_docs))]
    carrying = [page for page in pages if page.is_file() and CONDITION.search(page.read_text("utf-8"))]
    if is_site(app) and carrying:
        for line in untrue(carrying, evidence_of(root)):
            logger.warning("holds: %s", line, type="rollpe")


def setup(app: Sphinx) -> None:
    app.add_role("holds", HoldsRole())
    app.connect("env-check-consistency", check_sentences)
