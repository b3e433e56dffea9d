"""LieRE: rotations by learned generators, and when their scores are relative."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rollpe.encodings import create_encoding
from rollpe.encodings.lie import SQUARINGS, Lie, exponential
from rollpe.errors import InputError

HEADS, DIM, PREFIX, GRID = 2, 6, 2, (3, 4)


def build(axes: int = 2, seed: int = 0, **options: object) -> Lie:
    torch.manual_seed(seed)
    options = {"grid": {1: (12,), 2: GRID, 3: (2, 2, 3)}[axes]} | options
    return create_encoding("lie", head_dim=DIM, heads=HEADS, axes=axes, **options).double()


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def skews(*angles: float, size: int = 6) -> Tensor:
    """A random skew-symmetric matrix for each number, which is its largest angle; float64."""
    wild = noise(len(angles), size, size)
    skew = wild - wild.mT
    return (
        skew / torch.linalg.matrix_norm(skew, 2, keepdim=True) * torch.tensor(angles).double()[:, None, None]
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_exponential_is_torchs_in_values_and_gradients(dtype: torch.dtype, compiled: bool) -> None:
    """For matrices that need none, one and many squarings at once. Rounding grows with the angle."""
    angles = (0.0, 1e-6, 0.3, 0.99, 1.01, 2.0, 31.0, 900.0)
    skew = skews(*angles).to(dtype).requires_grad_()
    weights = noise(len(angles), 6, 6, seed=1)
    ours = torch.compile(exponential, backend="aot_eager", fullgraph=True) if compiled else exponential
    got = ours(skew)
    expected = torch.matrix_exp(skew.double())
    (got * weights).sum().backward()
    gradient, skew.grad = skew.grad, None
    (expected * weights).sum().backward()
    for i, angle in enumerate(angles):
        close = 30 * torch.finfo(dtype).eps * max(1.0, angle)
        torch.testing.assert_close(got[i].double(), expected[i], rtol=0, atol=close)
        torch.testing.assert_close(gradient[i], skew.grad[i], rtol=0, atol=30 * close)


def test_an_exponential_out_of_reach_is_not_a_number_and_takes_nothing_with_it() -> None:
    skew = skews(1.0, 2.0**SQUARINGS * 4)
    compiled = torch.compile(exponential, backend="aot_eager")(skew)
    assert compiled[0].isfinite().all() and compiled[1].isnan().all()
    assert exponential(skew).isfinite().all()
    skew[0, 0, 1] = math.nan
    assert exponential(skew)[0].isnan().all() and exponential(skew)[1].isfinite().all()


def test_generators_start_uniform_from_zero_to_init_and_differ_by_head() -> None:
    torch.manual_seed(0)
    start = create_encoding("lie", head_dim=32, heads=3, init=0.5).generators.detach()
    assert start.shape == (3, 2, 1, 32 * 31 // 2)
    assert 0 <= start.min() < 0.01 < 0.49 < start.max() < 0.5
    assert not torch.equal(start[0], start[1])


@pytest.mark.parametrize("block", [1, 4, 7])
def test_a_block_that_does_not_divide_the_head_is_refused(block: int) -> None:
    with pytest.raises(InputError, match=f"block={block} .*head_dim=6"):
        build(block=block)
