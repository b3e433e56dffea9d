"""The four words by which a chapter checks its equations, each in the cell under the formula.

A call prints one line, and a failed one stops the notebook. Lists are compared item by item, so one call can
hold several cases: ``agree("eq-order", [roll(eye(n), n) for n in sizes], [eye(n) for n in sizes])``. A label
may come several times. `rollpe_book.checks` reads the lines of executed chapters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

Values = Tensor | ArrayLike | list[Tensor]


def agree(label: str, found: Values, expected: Values, tolerance: float = 1e-12) -> None:
    """Two computations of one thing: print their largest difference.

    `label` is that of the equation, or words where no displayed equation is checked. AssertionError if
    the difference exceeds the tolerance, ValueError if the shapes differ.
    """
    error = gap(found, expected)
    _say(label, f"largest error {error:.1e} (tolerance {tolerance:.0e})", error <= tolerance)


def differs(label: str, found: Values, expected: Values, least: float = 1e-6) -> None:
    """What is not equal, such as a formula that is wrong as printed: AssertionError if the two agree.

    Of a list every item must differ; the smallest difference is printed. What is not finite fails.
    """
    errors = list(gaps(found, expected))
    true = all(least <= error < math.inf for error in errors)
    _say(label, f"differs by {min(errors):.1e} (at least {least:.0e})", true)


def holds(label: str, condition: bool | Tensor | list) -> None:
    """An inequality, or a statement that is true or false: AssertionError unless all of it is true.

    What is empty does not hold.
    """
    each = [torch.as_tensor(c) for c in (condition if isinstance(condition, list) else [condition])]
    true = each != [] and all(c.numel() > 0 and bool(c.all()) for c in each)
    _say(label, "holds" if true else "does not hold", true)


def definition(label: str, why: str) -> None:
    """An equation with nothing to compute, and why."""
    print(f"{label}: definition, {why}")


def _say(label: str, what: str, true: bool) -> None:
    print(f"{label}: {what}{'' if true else ', FAILED'}")
    if not true:
        raise AssertionError(f"{label}: {what}")


def gap(found: Values, expected: Values) -> float:
    """max |found − expected|, computed in float64 or complex128. NaN counts as infinite.

    Tensors, arrays, numbers, and lists of these. A ValueError if shapes or lengths differ (nothing is
    broadcast), or if there is nothing to compare.
    """
    return max(gaps(found, expected))


def gaps(found: Values, expected: Values) -> Iterator[float]:
    """The largest difference of each item of two lists, or of two tensors."""
    several = any(isinstance(v, list) and any(isinstance(i, Tensor) for i in v) for v in (found, expected))
    pairs = zip(cast(list, found), cast(list, expected), strict=True) if several else [(found, expected)]
    for a, b in ((_double(a), _double(b)) for a, b in pairs):
        if a.shape != b.shape or a.numel() == 0:
            raise ValueError(f"cannot compare shapes {tuple(a.shape)} and {tuple(b.shape)}")
        difference = (a - b).abs().max().item()
        yield math.inf if math.isnan(difference) else difference


def _double(value: Tensor | ArrayLike) -> Tensor:
    value = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    return value.to(torch.promote_types(value.dtype, torch.float64))
