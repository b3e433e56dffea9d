"""The ladder: gaps between encodings by length of training, by number of blocks and by one other change.

A gap is a difference in test accuracy between two runs of one seed, which see the same images in one order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rollpe_lab.evidence.table import arms_of
from rollpe_lab.records.record import Record

GAPS = {
    "RoPE − learned": ("axial-rope", "learned"),
    "RollPE − RoPE": ("roll", "axial-rope"),
    "multiplexed − RollPE": ("multiplexed-roll", "roll"),
}
"""The differences that the paper's table shows, as minuend and subtrahend."""

Rungs = dict[int, tuple[str, ...]]

LENGTHS: Rungs = {
    2: ("mini@epochs=2",),
    5: ("mini@epochs=5",),
    10: ("mini", "ladder"),
    30: ("ladder@epochs=30",),
}
"""Recipes on CIFAR-100 by number of epochs. Nothing else differs among them."""

DEPTHS: Rungs = {depth: (f"quick-depth@depth={depth}",) for depth in (1, 3, 6, 12)}
"""Recipes on digits by number of blocks. Nothing else differs among them."""

CHANGES = {
    "half the learning rate": "mini@epochs=5,learning_rate=0.001",
    "twice the learning rate": "mini@epochs=5,learning_rate=0.004",
    "ten blocks": "ladder@depth=10",
    "class token": "ladder@pool=token",
    "ten blocks, class token": "ladder@depth=10,pool=token",
    "augmentation of strong": "ladder@epochs=30,strong-augmentation",
}
"""Recipes on CIFAR-100 with one other change.

Those with another rate have five epochs, that with another augmentation thirty, all others ten.
"""


def gaps(records: Iterable[Record], a: str, b: str, recipes: Sequence[str]) -> list[float]:
    """a − b in points of test accuracy, for each recipe and seed that both encodings have."""
    found, records = [], list(records)
    for recipe in recipes:
        arms = arms_of(records, recipe)
        one, other = arms.get(a, {}), arms.get(b, {})
        found += [one[seed].score - other[seed].score for seed in sorted(one.keys() & other)]
    return found
