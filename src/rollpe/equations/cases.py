"""Random cases for the checks, and the comparison of two results.

Here: draws in float64 from the generator that is passed in. Not here: equations.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from rollpe.agree import gap as error  # noqa: F401 (what the checks call it)


def normal(rng: Generator, *shape: int) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def uniform(rng: Generator, low: float, high: float, *shape: int) -> Tensor:
    """Uniform numbers between low and high."""
    return low + (high - low) * torch.rand(shape, generator=rng, dtype=torch.float64)


def number(rng: Generator, low: float, high: float) -> float:
    """One uniform number between low and high."""
    return float(uniform(rng, low, high))


def whole(rng: Generator, low: int, high: int, *shape: int) -> Tensor:
    """Whole numbers from low to high, both included."""
    return torch.randint(low, high + 1, shape, generator=rng)


def count(rng: Generator, low: int, high: int) -> int:
    """One whole number from low to high, both included."""
    return int(whole(rng, low, high))


def odd(rng: Generator, low: int = 3, high: int = 17) -> int:
    """An odd width between low and high (low odd)."""
    return low + 2 * count(rng, 0, (high - low) // 2)


def even(rng: Generator, low: int = 4, high: int = 18) -> int:
    """An even width between low and high (low even)."""
    return low + 2 * count(rng, 0, (high - low) // 2)


def widths(rng: Generator) -> tuple[int, int]:
    """One odd and one even width: every case of a check sees both."""
    return odd(rng), even(rng)


def orthogonal(rng: Generator, n: int) -> Tensor:
    """A random orthogonal matrix [n, n]."""
    return torch.linalg.qr(normal(rng, n, n))[0]


def skew(rng: Generator, n: int) -> Tensor:
    """A random real skew-symmetric matrix [n, n]."""
    B = normal(rng, n, n)
    return (B - B.T) / 2


def shift_power(n: int, p: int | Tensor) -> Tensor:
    """S^p as a matrix [n, n], by moving the columns of the identity: ones at (i, i+p mod n)."""
    return torch.roll(torch.eye(n, dtype=torch.float64), int(p), dims=1)


def permutation(rng: Generator, n: int) -> Tensor:
    """A random permutation of 0 … n−1 that is not the identity (n ≥ 2)."""
    order = torch.randperm(n, generator=rng)
    return order if bool((order != torch.arange(n)).any()) else order.roll(1)


def _tensor(value: Tensor | float) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)


def excess(found: Tensor | float, bound: Tensor | float) -> float:
    """How far an inequality found ≤ bound is broken; 0 where it holds."""
    over = float((_tensor(found) - _tensor(bound)).max())
    return math.inf if math.isnan(over) else max(0.0, over)


def must_fail(residual: float, least: float) -> float:
    """For statements that do not hold: 0 if their residual is at least `least`, otherwise infinite."""
    return 0.0 if residual >= least else math.inf


def must_hold(condition: bool) -> float:
    """For statements that are true or false: 0 if true, otherwise infinite."""
    return 0.0 if condition else math.inf
