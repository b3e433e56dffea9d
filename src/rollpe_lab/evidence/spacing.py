"""Tables of the factorial of spacing and range: which of RoPE's and RollPE's frequencies do the work.

Rotations with geometric or arithmetic frequencies, over RoPE's usual range or the ring's, beside three rings.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollpe_lab.evidence import families
from rollpe_lab.evidence.families import NO_BREAK, SPACING, Compared, p_value, signed
from rollpe_lab.files import markdown
from rollpe_lab.records.record import Record, by_cell
from rollpe_lab.statistics import equivalence, summarize

ARMS = (
    "RoPE: usual range, equal ratios",
    "usual range, equal steps",
    "ring's range, equal ratios",
    "ring's range, equal steps",
    "RollPE",
    "RollPE's twin",
    "twisted ring",
)
"""Names of the arms, in the order of ``SPACING``."""

QUESTIONS = (
    "range, equal ratios",
    "range, equal steps",
    "spacing, usual range",
    "spacing, ring's range",
    "RollPE",
)
"""The planned comparisons, in the order of the family: the ring's range − the usual one; equal steps − equal
ratios; RollPE − equal steps over the ring's range."""

TITLES = {
    "quick-spacing": "digits, 4×4",
    "quick-spacing8": "digits, 8×8",
    "text-spacing": "SymPy",
    "sklearn-spacing": "scikit-learn",
}
UNITS = dict(zip(TITLES, ["accuracy (%)"] * 2 + ["bits per character"] * 2, strict=True))
MARGIN = {"quick-spacing": 2.0, "quick-spacing8": 2.0, "text-spacing": 0.02, "sklearn-spacing": 0.02}
"""The differences that the plan calls none, in points of accuracy or bits per character."""


def arms_of(records: Iterable[Record], recipe: str) -> dict[str, list[Record]]:
    """The runs of each of ``ARMS`` under a recipe."""
    cells = by_cell(records)
    named = zip(ARMS, SPACING[recipe], strict=True)
    return {label: cells.get(families.path_of(recipe, arm), []) for label, arm in named}


def means(records: Iterable[Record]) -> str:
    """Mean ± SD (runs) of every arm, a column for each recipe: percent or, of text, bits. Markdown."""
    records = list(records)
    columns = [arms_of(records, recipe) for recipe in TITLES]
    rows = [[label, *(_mean(arms[label]) for arms in columns)] for label in ARMS]
    return markdown([["frequencies", *TITLES.values()], *rows])


def tests(records: Iterable[Record]) -> str:
    """Each planned difference with its interval and p after Holm, bold where clear. Markdown.

    The last row is p of two one-sided tests that RollPE is within ``MARGIN`` of its rotations.
    """
    records = list(records)
    tested = {recipe: families.family(records, recipe) for recipe in TITLES}
    rows = [
        [question, *(_difference(found[i]) if found else "not measured" for found in tested.values())]
        for i, question in enumerate(QUESTIONS)
    ]
    equivalent = [_equivalent(found, MARGIN[recipe]) for recipe, found in tested.items()]
    return markdown([["difference", *TITLES.values()], *rows, ["RollPE: equivalent?", *equivalent]])


def _mean(runs: list[Record]) -> str:
    if not runs:
        return "not measured"
    found, digits = summarize([run.score for run in runs]), 3 if runs[0].bits else 2
    spread = "" if found.sd is None else f" ± {found.sd:.{digits}f}"
    return f"{found.mean:.{digits}f}{spread} ({found.n})".replace(" ", NO_BREAK)


def _difference(compared: Compared) -> str:
    test, digits = compared.over_seeds, 3 if compared.runs[0][0].bits else 1
    values = (test.difference, test.low, test.high)
    effect, low, high = (signed(round(value, digits) + 0.0, digits) for value in values)  # without −0.0
    effect = f"**{effect}**" if compared.verdict == "clear" else effect
    return f"{effect}<br>{f'[{low}, {high}]'.replace(' ', NO_BREAK)}<br>{p_value(compared.p)}"


def _equivalent(found: list[Compared], margin: float) -> str:
    if not found:
        return "not measured"
    roll, rotations = ([run.score for run in arm] for arm in found[-1].runs)
    return f"{p_value(equivalence(roll, rotations, margin=margin))} (±{margin:g})"
