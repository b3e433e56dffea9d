"""Tables of the factorial of spacing and range: which of RoPE's and RollPE's frequencies do the work.

Rotations with geometric or arithmetic frequencies, over RoPE's usual range or the ring's, beside three rings.
"""

from __future__ import annotations

from rollpe_lab.evidence.comparisons import NO_BREAK, SPACING, Compared, factorial, p_value, path_of, signed
from rollpe_lab.evidence.words import compared, equivalence, values
from rollpe_lab.files import markdown
from rollpe_lab.statistics import summarize

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


def arms_of(recipe: str) -> dict[str, str]:
    """The arm of each of ``ARMS`` under a recipe."""
    return {label: path_of(recipe, arm) for label, arm in zip(ARMS, SPACING[recipe], strict=True)}


def means() -> str:
    """Mean ± SD (runs) of every arm, a column for each recipe: percent or, of text, bits. Markdown."""
    columns = [arms_of(recipe) for recipe in TITLES]
    rows = [[label, *(_mean(arms[label]) for arms in columns)] for label in ARMS]
    return markdown([["frequencies", *TITLES.values()], *rows])


def tests() -> str:
    """Each planned difference with its interval and p after Holm, bold where clear. Markdown.

    The last row is p of two one-sided tests that RollPE is within ``MARGIN`` of its rotations.
    """
    columns, last = [], ["RollPE: equivalent?"]
    for recipe, margin in MARGIN.items():
        pairs = [(path_of(recipe, a), path_of(recipe, b)) for _, a, b, _ in factorial(recipe)]
        columns.append([_difference(compared(*pair)) for pair in pairs])
        roll, rotations = pairs[-1]
        last.append(f"{p_value(equivalence(roll, rotations, margin))} (±{margin:g})")
    rows = zip(QUESTIONS, *columns, strict=True)
    return markdown([["difference", *TITLES.values()], *rows, last])


def _mean(arm: str) -> str:
    s = summarize(list(values(arm).values()))
    digits = 2 if s.mean > 10 else 3
    return f"{s.mean:.{digits}f} ± {s.sd:.{digits}f} ({s.n})".replace(" ", NO_BREAK)


def _difference(compared: Compared) -> str:
    test, digits = compared.over_seeds, 3 if compared.runs[0][0].bits else 1
    numbers = (test.difference, test.low, test.high)
    effect, low, high = (signed(round(value, digits) + 0.0, digits) for value in numbers)  # without −0.0
    effect = f"**{effect}**" if compared.verdict == "clear" else effect
    return f"{effect}<br>{f'[{low}, {high}]'.replace(' ', NO_BREAK)}<br>{p_value(compared.p)}"
