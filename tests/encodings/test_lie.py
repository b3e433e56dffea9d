"""LieRE: rotations by learned generators, and when their scores are relative."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.lie import SQUARINGS, Lie, exponential
from rollpe.errors import InputError

HEADS, DIM, PREFIX, GRID = 2, 6, 2, (3, 4)


def build(axes: int = 2, seed: int = 0, **options: object) -> Lie:
    torch.manual_seed(seed)
    options = {"grid": {1: (12,), 2: GRID, 3: (2, 2, 3)}[axes]} | options
    return create_encoding("lie", head_dim=DIM, heads=HEADS, axes=axes, **options).double()


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("block", [None, 2, 3])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_fast_scores_equal_a_dense_exponential_for_each_token(axes: int, block: int | None) -> None:
    """With real positions that differ by image and two tokens that have none."""
    for seed in range(2):
        encoding = build(axes, seed, block=block)
        q, k = noise(2, 2, HEADS, 5 + PREFIX, DIM, seed=seed)
        positions = 2 * noise(2, 5, axes, seed=seed + 5)
        fast_q, fast_k = encoding(q, k, positions)
        torch.testing.assert_close(fast_q @ fast_k.mT / math.sqrt(DIM), encoding.scores(q, k, positions))
        torch.testing.assert_close(fast_q[:, :, :PREFIX], q[:, :, :PREFIX], rtol=0, atol=0)
        torch.testing.assert_close(fast_q.norm(dim=-1), q.norm(dim=-1))


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


def test_one_matrix_alone_has_the_exponential_that_it_has_among_others() -> None:
    skew = skews(0.5, 3.0)
    torch.testing.assert_close(exponential(skew[1]), exponential(skew)[1])
    assert exponential(skew[:0]).shape == (0, 6, 6)


def test_an_exponential_out_of_reach_is_not_a_number_and_takes_nothing_with_it() -> None:
    skew = skews(1.0, 2.0**SQUARINGS * 4)
    compiled = torch.compile(exponential, backend="aot_eager")(skew)
    assert compiled[0].isfinite().all() and compiled[1].isnan().all()
    assert exponential(skew).isfinite().all()
    skew[0, 0, 1] = math.nan
    assert exponential(skew)[0].isnan().all() and exponential(skew)[1].isfinite().all()


def test_rotations_are_orthogonal_with_determinant_one() -> None:
    rotation = build().rotations(grid_positions(*GRID).double())
    identity = torch.eye(DIM).double().expand_as(rotation)
    torch.testing.assert_close(rotation @ rotation.mT, identity)
    torch.testing.assert_close(rotation.det(), torch.ones(rotation.shape[:-2]).double())


@pytest.mark.parametrize(("axes", "block"), [(1, None), (1, 3), (2, 2)])
def test_scores_are_relative_when_the_generators_commute(axes: int, block: int | None) -> None:
    """As they do on one axis, and in blocks of two channels."""
    encoding = build(axes, block=block)
    q, k = noise(2, 1, HEADS, 12, DIM)
    positions = grid_positions(*encoding.grid)
    shift = torch.linspace(1.5, -2.25, axes)
    torch.testing.assert_close(encoding.scores(q, k, positions + shift), encoding.scores(q, k, positions))
    assert encoding.relative == (axes == 1)


def test_scores_of_two_generators_are_relative_only_if_they_are_proportional() -> None:
    encoding = build()
    q, k = noise(2, 1, HEADS, 12, DIM)
    positions, shift = grid_positions(*GRID), torch.tensor([1.5, -2.25])

    def change() -> float:
        return (
            (encoding.scores(q, k, positions + shift) - encoding.scores(q, k, positions)).abs().max().item()
        )

    assert change() > 0.1
    with torch.no_grad():
        encoding.generators[:, 1] = -0.3 * encoding.generators[:, 0]
    assert change() < 1e-12


def test_blocks_of_two_channels_are_mixed_rope() -> None:
    mixed = create_encoding("mixed-rope", head_dim=8, heads=HEADS).double()
    wide = create_encoding("lie", head_dim=8, heads=HEADS, block=2).double()
    with torch.no_grad():
        wide.generators.copy_(-mixed.frequencies[..., None])  # ours turns the other way
    q, k = noise(2, 1, HEADS, 12, 8)
    for out, expected in zip(
        wide(q, k, grid_positions(*GRID)), mixed(q, k, grid_positions(*GRID)), strict=True
    ):
        torch.testing.assert_close(out, expected)


def test_positions_are_measured_in_images_when_there_is_a_grid() -> None:
    with_grid, without = build(), build(grid=None)
    q, k = noise(2, 1, HEADS, 12, DIM)
    positions = grid_positions(*GRID)
    for out, expected in zip(
        with_grid(q, k, positions), without(q, k, positions.double() / torch.tensor(GRID)), strict=True
    ):
        torch.testing.assert_close(out, expected)


def test_generators_start_uniform_from_zero_to_init_and_differ_by_head() -> None:
    torch.manual_seed(0)
    start = create_encoding("lie", head_dim=32, heads=3, init=0.5).generators.detach()
    assert start.shape == (3, 2, 1, 32 * 31 // 2)
    assert 0 <= start.min() < 0.01 < 0.49 < start.max() < 0.5
    assert not torch.equal(start[0], start[1])


def test_gradients_equal_finite_differences() -> None:
    encoding, positions = build(block=3), grid_positions(*GRID)[4:7]
    q, k, v = (x.requires_grad_() for x in noise(3, 1, HEADS, 4, DIM).unbind(0))
    assert torch.autograd.gradcheck(
        lambda q, k, v, _: encoding.attend(q, k, v, positions), (q, k, v, encoding.generators)
    )


def test_generators_are_free_of_weight_decay() -> None:
    assert build().no_weight_decay() == {"generators"}


@pytest.mark.parametrize("mode", ["bfloat16", "autocast"])
def test_half_precision_stays_half_while_the_exponential_is_float32(mode: str) -> None:
    encoding = build(init=1.0).float()
    q, k, v = noise(3, 2, HEADS, 14, DIM)
    positions = grid_positions(*GRID) + 40
    exact = encoding.double()(q, k, positions)[0]
    encoding.float()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "autocast"):
        half, _ = encoding(q.bfloat16(), k.bfloat16(), positions)
        out = encoding.attend(q.bfloat16(), k.bfloat16(), v.bfloat16(), positions)
    assert half.dtype == out.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), exact, atol=0.05, rtol=0.02)


def test_keys_encoded_once_into_a_cache_give_causal_attention_over_everything() -> None:
    encoding, positions = build(), grid_positions(*GRID)
    q, k, v = noise(3, 2, HEADS, 12, DIM)
    full = encoding.attend(q, k, v, positions, is_causal=True)
    cache = torch.cat([encoding.encode(k[:, :, t : t + 1], positions[t : t + 1]) for t in range(12)], -2)
    query = encoding.encode(q[:, :, 11:], positions[11:])
    weights = (query @ cache.mT / math.sqrt(DIM)).softmax(-1)
    torch.testing.assert_close(weights @ v, full[:, :, 11:])


def test_attention_compiles_into_one_graph_with_equal_results() -> None:
    encoding, positions = build(), grid_positions(*GRID)
    q, k, v = noise(3, 1, HEADS, 14, DIM)
    compiled = torch.compile(encoding.attend, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v, positions), encoding.attend(q, k, v, positions))


@pytest.mark.parametrize("block", [1, 4, 7])
def test_a_block_that_does_not_divide_the_head_is_refused(block: int) -> None:
    with pytest.raises(InputError, match=f"block={block} .*head_dim=6"):
        build(block=block)
