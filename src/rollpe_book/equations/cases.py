"""Random cases for the checks, in float64, and the comparison of two results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from rollpe_book.agree import gap as error  # noqa: F401 (what the checks call it)


class Draw(torch.Generator):
    """Random numbers for one check; bounds are included."""

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, generator=self, dtype=torch.float64)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform numbers between low and high."""
        return low + (high - low) * torch.rand(shape, generator=self, dtype=torch.float64)

    def number(self, low: float, high: float) -> float:
        """One uniform number between low and high."""
        return float(self.uniform(low, high))

    def whole(self, low: int, high: int, *shape: int) -> Tensor:
        """Integers from low to high."""
        return torch.randint(low, high + 1, shape, generator=self)

    def count(self, low: int, high: int) -> int:
        """One integer from low to high."""
        return int(self.whole(low, high))

    def odd(self, low: int = 3, high: int = 17) -> int:
        """An odd width between low and high (low odd)."""
        return low + 2 * self.count(0, (high - low) // 2)

    def even(self, low: int = 4, high: int = 18) -> int:
        """An even width between low and high (low even)."""
        return low + 2 * self.count(0, (high - low) // 2)

    def widths(self) -> tuple[int, int]:
        """One odd and one even width: every case of a check sees both."""
        return self.odd(), self.even()

    def rings(self) -> tuple[int, int, int]:
        """A width of 1 or 2, and `widths`."""
        return self.count(1, 2), *self.widths()

    def orthogonal(self, n: int) -> Tensor:
        """A random orthogonal matrix [n, n]."""
        return torch.linalg.qr(self.normal(n, n))[0]

    def skew(self, n: int) -> Tensor:
        """A random real skew-symmetric matrix [n, n]."""
        B = self.normal(n, n)
        return (B - B.T) / 2

    def permutation(self, n: int) -> Tensor:
        """A random permutation of 0 … n−1 that is not the identity (n ≥ 2)."""
        order = torch.randperm(n, generator=self)
        return order if bool((order != torch.arange(n)).any()) else order.roll(1)


def eye(n: int) -> Tensor:
    """The identity matrix [n, n]."""
    return torch.eye(n, dtype=torch.float64)


def shift_power(n: int, p: int | Tensor) -> Tensor:
    """S^p as a matrix [n, n], by moving the columns of the identity: ones at (i, i+p mod n)."""
    return torch.roll(eye(n), int(p), dims=1)


def rolled(x: Tensor, p: Tensor) -> Tensor:
    """S^{p_t} x_t of the tokens x [N, n] at whole p [N], token by token."""
    return torch.stack([torch.roll(token, -int(steps)) for token, steps in zip(x, p, strict=True)])


def entrywise(entry: Callable[..., Tensor], *sizes: int) -> Tensor:
    """entry(i, j, …) [*lead] for all indices below the sizes, one by one: [*lead, *sizes]."""
    entries = [entry(*indices) for indices in itertools.product(*map(range, sizes))]
    return torch.stack(entries, -1).unflatten(-1, sizes)


def excess(found: Tensor | float, bound: Tensor | float) -> float:
    """How far an inequality found ≤ bound is broken; 0 where it holds."""
    found, bound = (torch.as_tensor(value, dtype=torch.float64) for value in (found, bound))
    over = float((found - bound).max())
    return math.inf if math.isnan(over) else max(0.0, over)


def must_fail(residual: float, least: float) -> float:
    """For statements that do not hold: 0 if the residual is finite and ≥ least, otherwise infinite."""
    return 0.0 if least <= residual < math.inf else math.inf


def must_hold(condition: bool) -> float:
    """For statements that are true or false: 0 if true, otherwise infinite."""
    return 0.0 if condition else math.inf
