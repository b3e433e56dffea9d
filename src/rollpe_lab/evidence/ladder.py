"""The ladder: gaps between encodings under `mini`, by length of training and by one other change.

A gap is a difference in test accuracy between two runs of one seed, which see the same images in one order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rollpe_lab.evidence.table import arms_of
from rollpe_lab.records.record import Record
from rollpe_lab.statistics import CONFIDENCE, Summary, fitted_line

GAPS = {
    "RoPE − learned": ("axial-rope", "learned"),
    "RollPE − RoPE": ("roll", "axial-rope"),
    "multiplexed − RollPE": ("multiplexed-roll", "roll"),
}
"""The differences that the paper's table shows, as minuend and subtrahend."""

LENGTHS = {2: ("mini@epochs=2",), 5: ("mini@epochs=5",), 10: ("mini", "ladder"), 30: ("ladder@epochs=30",)}
"""Recipes by number of epochs. Nothing else differs among them."""

CHANGES = {
    "half the learning rate": "mini@epochs=5,learning_rate=0.001",
    "twice the learning rate": "mini@epochs=5,learning_rate=0.004",
    "ten blocks": "ladder@depth=10",
    "class token": "ladder@pool=token",
    "ten blocks, class token": "ladder@depth=10,pool=token",
    "augmentation of strong": "ladder@epochs=30,strong-augmentation",
}
"""Recipes with one other change: the rates after five epochs, the last after thirty, the others after ten."""


def gaps(records: Iterable[Record], a: str, b: str, recipes: Sequence[str]) -> list[float]:
    """a − b in points of test accuracy, for each recipe and seed that both encodings have."""
    found, records = [], list(records)
    for recipe in recipes:
        arms = arms_of(records, recipe)
        one, other = arms.get(a, {}), arms.get(b, {})
        found += [one[seed].score - other[seed].score for seed in sorted(one.keys() & other)]
    return found


def gap_by_length(
    records: Iterable[Record], a: str, b: str, epochs: float | None = None, confidence: float = CONFIDENCE
) -> Summary:
    """The line through all gaps over log₂ of the epochs: its slope, in points per doubling, or its height.

    epochs: where to take the height. InputError for fewer than three gaps, or all at one length.
    """
    records = list(records)
    points = [(math.log2(n), gap) for n, names in LENGTHS.items() for gap in gaps(records, a, b, names)]
    x, y = zip(*points, strict=True) if points else ((), ())
    return fitted_line(x, y, None if epochs is None else math.log2(epochs), confidence)
