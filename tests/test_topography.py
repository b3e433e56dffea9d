"""Losses and measures of order along the channels, each against a slow independent computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rollpe.errors import InputError
from rollpe.ring import ring_laplacian, sheet_laplacian
from rollpe.topography import (
    attention_by_offset,
    correlation_by_distance,
    near_and_any,
    pack_correlations,
    participation_ratio,
    shuffled_ratio,
    smoothness_ratio,
    spatial_correlation_loss,
    topography_loss,
    unpack_correlations,
    without_first_component,
)

SEEDS = [0, 1, 2]


def noise(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("sheet", [(2, 3), (4, 5), (3, 7)])
def test_smoothness_ratio_is_the_rayleigh_quotient_of_the_torus(sheet: tuple[int, int]) -> None:
    """That of the ring is eq-smoothness."""
    x = noise(6, sheet[0] * sheet[1], seed=0)
    expected = torch.einsum("bi,ij,bj->b", x, sheet_laplacian(*sheet), x) / x.square().sum(-1) / 4
    torch.testing.assert_close(smoothness_ratio(x, sheet), expected)
    assert smoothness_ratio(0 * x, sheet).eq(0).all()


@pytest.mark.parametrize("n", [2, 5, 6])
def test_correlation_by_distance_is_numpys_pair_by_pair(n: int) -> None:
    x = noise(3, 50, n, seed=n) * torch.arange(1, n + 1) + torch.arange(n)  # gains and levels
    x = x + 2 * x.roll(1, -1)
    moments, means = torch.einsum("bsi,bsj->bij", x, x) / 50, x.mean(1)
    found = correlation_by_distance(moments, means)
    assert found.shape == (3, n // 2 + 1)
    for row, samples in zip(found, x, strict=True):
        r = np.corrcoef(samples.numpy().T)
        for d, value in enumerate(row.tolist()):
            assert value == pytest.approx(np.mean([r[i, (i + d) % n] for i in range(n)]))


@pytest.mark.parametrize("n", [2, 3, 16])
def test_correlations_are_packed_and_unpacked(n: int) -> None:
    r = torch.tensor(np.corrcoef(np.random.default_rng(n).normal(size=(2 * n, 9)))).view(2, n, 2, n)
    r = torch.stack([r[0, :, 0], r[1, :, 1]])
    packed = pack_correlations(r)
    assert packed.dtype == torch.int8 and packed.shape == (2, n * (n - 1) // 2)
    torch.testing.assert_close(unpack_correlations(packed), r.float(), atol=0.5 / 127 + 1e-6, rtol=0)
    assert torch.equal(pack_correlations(unpack_correlations(packed)), packed)


def test_neighbors_and_any_two_are_averaged_over_the_ring() -> None:
    pairs = torch.tensor([50, 10, 20, 40, -30, 60], dtype=torch.int8)  # 01 02 03 12 13 23
    near, any_two = near_and_any(unpack_correlations(pairs).expand(3, 4, 4))
    torch.testing.assert_close(near, torch.full((3,), (50 + 40 + 60 + 20) / 4 / 127))
    torch.testing.assert_close(any_two, torch.full((3,), 150 / 6 / 127))


def test_what_never_changes_has_no_correlations() -> None:
    constant = torch.ones(40, 6, dtype=torch.float64)
    assert correlation_by_distance(constant.T @ constant / 40, constant.mean(0)).tolist() == [0] * 4


@pytest.mark.parametrize("n", [2, 3, 6])
def test_shuffled_ratio_takes_arrays_and_is_zero_if_all_channels_are_equal(n: int) -> None:
    level = noise(4, seed=n).sigmoid()
    assert shuffled_ratio(level.numpy(), n).tolist() == pytest.approx(shuffled_ratio(level, n).tolist())
    assert shuffled_ratio(1.0, n) == 0


@pytest.mark.parametrize(("width", "sheet"), [(None, None), (5, None), (None, (3, 4))])
def test_losses_average_over_heads_tokens_and_the_rolled_channels_only(width, sheet) -> None:
    q, k = noise(2, 3, 7, 13, seed=0), noise(2, 3, 7, 13, seed=1)  # 2 axes of 6, 1 left over
    n = 12 if sheet else width or 6
    laplacian = sheet_laplacian(*sheet) / 4 if sheet else ring_laplacian(n) / 2
    ratios = [
        (part @ laplacian @ part / (part @ part)).item()
        for x in (q, k)
        for vector in x.flatten(0, 2)
        for part in ([vector[:n]] if sheet else [vector[:n], vector[6 : 6 + n]])
    ]
    loss = topography_loss(q, k, "sheet" if sheet else "ring", width=width, sheet=sheet)
    assert loss.item() == pytest.approx(sum(ratios) / len(ratios), abs=1e-12)


def test_tdann_loss_averages_one_spatial_loss_per_map() -> None:
    """Samples are batch times tokens; a map is a head's sheet, or each of its rings."""
    q, k = noise(2, 3, 7, 12, seed=0), noise(2, 3, 7, 12, seed=1)
    samples = [x[:, head].flatten(0, 1) for x in (q, k) for head in range(3)]  # [14, 12] each
    sheets = [spatial_correlation_loss(x, (3, 4)).item() for x in samples]
    rings = [spatial_correlation_loss(part, (1, 6)).item() for x in samples for part in x.split(6, -1)]
    loss = topography_loss(q, k, "tdann", sheet=(3, 4))
    assert loss.item() == pytest.approx(sum(sheets) / len(sheets), abs=1e-12)
    loss = topography_loss(q, k, "tdann")
    assert loss.item() == pytest.approx(sum(rings) / len(rings), abs=1e-12)


@pytest.mark.parametrize("kind", ["ring", "sheet", "tdann"])
def test_bfloat16_and_autocast_agree_with_float32(kind: str) -> None:
    sheet = None if kind == "ring" else (2, 4)
    q, k = (noise(2, 2, 30, 8, seed=s).bfloat16() for s in (0, 1))
    exact = topography_loss(q.float(), k.float(), kind, sheet=sheet)
    half = topography_loss(q, k, kind, sheet=sheet)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = topography_loss(q, k, kind, sheet=sheet)
    assert half.dtype == mixed.dtype == torch.float32
    assert half.item() == mixed.item() == exact.item()


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_by_offset_equals_a_dictionary_of_pairs(seed: int) -> None:
    """Non-square grid with dropped patches and two tokens without position."""
    grid = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0)).double()
    keep = torch.randperm(12, generator=torch.Generator().manual_seed(seed))[:9]
    positions = grid[keep]
    weights = noise(2, 3, 11, 11, seed=seed).softmax(-1)
    pairs: dict[tuple[float, float], list[torch.Tensor]] = {}
    for i in range(9):
        for j in range(9):
            delta = tuple((positions[j] - positions[i]).tolist())
            pairs.setdefault(delta, []).append(weights[..., i + 2, j + 2])
    offsets, means = attention_by_offset(weights, positions)
    assert [tuple(o) for o in offsets.tolist()] == sorted(pairs)
    expected = torch.stack([torch.stack(pairs[d]).mean(0) for d in sorted(pairs)], -1)
    torch.testing.assert_close(means, expected)


def test_bad_input_is_refused_with_the_way_out() -> None:
    q = torch.zeros(1, 1, 2, 8)
    for call, words in [
        (lambda: topography_loss(q, q, "star"), "ring, sheet, tdann"),
        (lambda: shuffled_ratio(0.5, 1), "n=1"),
        (lambda: topography_loss(q, q, "sheet"), "sheet=(8, 8)"),
        (lambda: topography_loss(q, q, "ring", sheet=(2, 4)), "kind='sheet'"),
        (lambda: topography_loss(q, q, "ring", width=5), "Use 1 to 4"),
        (lambda: topography_loss(q, q, "sheet", sheet=(3, 3)), "needs 9 channels"),
        (lambda: spatial_correlation_loss(q, (3, 3)), "needs 9 channels"),
        (lambda: spatial_correlation_loss(torch.zeros(4, 3), (1, 3)), "Use more channels"),
        (lambda: attention_by_offset(q, torch.zeros(1, 2, 2)), "[M, axes]"),
    ]:
        with pytest.raises(InputError) as error:
            call()
        assert words in str(error.value) and "\n" not in str(error.value)


def circulant(n: int, *shares: float) -> torch.Tensor:
    """Correlations of a map: waves 1, 2, … of these shares, standing anywhere on the ring."""
    angle = 2 * math.pi * (torch.arange(n)[:, None] - torch.arange(n)) / n
    waves = [share * torch.cos(k * angle.double()) for k, share in enumerate(shares, 1)]
    return torch.stack(waves).sum(0)


def test_a_map_fills_two_directions_and_one_bump_of_varying_strength_only_one():
    bump = torch.linspace(-1, 1, 16, dtype=torch.float64).sign()
    single = torch.outer(bump, bump)
    assert participation_ratio(single) == pytest.approx(1)
    assert participation_ratio(circulant(16, 1.0)) == pytest.approx(2)
    assert participation_ratio(circulant(16, 0.5, 0.5)) == pytest.approx(4)
    assert participation_ratio(torch.eye(16, dtype=torch.float64)) == pytest.approx(16)


def test_without_its_first_component_a_map_keeps_neighbors_and_one_bump_does_not():
    torch.manual_seed(0)
    bump, strength = torch.linspace(-1, 1, 16).double().sign(), torch.randn(20_000, 1)
    place = 2 * math.pi * (torch.arange(16) / 16 - torch.rand(20_000, 1).double())
    left = {}
    for name, signal in (("one", strength * bump), ("map", torch.cos(place))):
        r = torch.corrcoef((signal + 0.1 * torch.randn(20_000, 16).double()).T)
        rest = without_first_component(r)
        torch.testing.assert_close(rest.diagonal(), torch.ones(16).double())
        values, vectors = torch.linalg.eigh(r)
        whole = (vectors[:, :-1] * values[:-1]) @ vectors[:, :-1].T
        torch.testing.assert_close(rest, whole / torch.outer(*[whole.diagonal().sqrt()] * 2))
        near, any_two = near_and_any(rest)
        left[name] = (near - any_two).item()
    assert abs(left["one"]) < 0.1 and left["map"] > 0.3
    alone = without_first_component(torch.outer(bump, bump))  # of which nothing remains
    torch.testing.assert_close(alone, torch.eye(16).double(), atol=1e-3, rtol=0)
