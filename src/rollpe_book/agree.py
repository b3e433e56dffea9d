"""Comparison of two computations in a notebook."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor


def agree(
    what: str, found: Tensor | ArrayLike, expected: Tensor | ArrayLike, tolerance: float = 1e-12
) -> None:
    """Print the largest difference of two results, and stop the notebook if it exceeds the tolerance.

    `what` is the label that is printed. AssertionError if gap(found, expected) > tolerance.
    """
    error = gap(found, expected)
    print(f"{what}: largest error {error:.1e} (tolerance {tolerance:.0e})")
    if not error <= tolerance:  # a tolerance that is NaN refuses, too
        raise AssertionError(f"{what}: {error:.1e} apart, more than {tolerance:.0e}")


def gap(found: Tensor | ArrayLike, expected: Tensor | ArrayLike) -> float:
    """max |found − expected|, computed in float64 or complex128. NaN counts as infinite.

    Tensors, arrays, lists and numbers. A ValueError if the shapes differ (nothing is broadcast) or are empty.
    """
    found, expected = _double(found), _double(expected)
    if found.shape != expected.shape or found.numel() == 0:
        raise ValueError(f"cannot compare shapes {tuple(found.shape)} and {tuple(expected.shape)}")
    difference = (found - expected).abs().max().item()
    return math.inf if math.isnan(difference) else difference


def _double(value: Tensor | ArrayLike) -> Tensor:
    value = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    return value.to(torch.promote_types(value.dtype, torch.float64))
