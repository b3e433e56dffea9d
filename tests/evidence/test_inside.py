"""Arrays beside records: measures of single runs, means over rings and runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from rollpe.encodings import grid_positions
from rollpe.topography import attention_by_offset, pack_correlations
from rollpe_lab.evidence import inside, words
from shared import make_record

LAYERS, HEADS, AXES = 3, 2, 2


@pytest.fixture
def beside(monkeypatch):
    """Sets the arrays of the run with each seed, and asks a measure of one."""
    arrays = {}
    monkeypatch.setattr(words, "arrays_of", lambda run: arrays.get(run.seed, {}))
    runs = {seed: make_record("roll", 500, seed, "mini", images=1000) for seed in (1, 3, 9)}
    monkeypatch.setattr(words, "runs_by_arm", lambda: {"mini/roll": runs})

    def read(measure, **found):
        arrays[1] = found
        return measure(runs[1])

    read.arrays = arrays
    return read


def ring_of(near):
    """Neighbors on a ring of four channels correlate like that."""
    ring = torch.eye(4) + near * (torch.eye(4).roll(1, 0) + torch.eye(4).roll(-1, 0))
    by_distance = np.broadcast_to([1.0, near, 0.0], (LAYERS, HEADS, AXES, 3))
    return {
        "query_correlation": by_distance,
        "key_correlation": by_distance + 1,
        "frames": pack_correlations(ring.expand(5, 2, LAYERS, HEADS, AXES, 4, 4)).numpy(),
    }


def test_rings_are_averaged_by_run_and_older_runs_left_out(beside):
    beside.arrays.update({seed: ring_of(seed / 10) for seed in (1, 3)})
    found = inside.over_rings("mini/roll", "correlation")
    np.testing.assert_allclose(found, [[1.5, 0.6, 0.5], [1.5, 0.8, 0.5]])
    moments = inside.neighbors_by_moment("mini/roll")
    np.testing.assert_allclose(moments, [[0.1] * 5, [0.3] * 5], atol=0.005)
    assert words.values("mini/roll", inside.neighbors) == pytest.approx({1: 0.6, 3: 0.8})
    assert inside.lead_of_neighbors(words.runs_by_arm()["mini/roll"][3]) == pytest.approx(0.8 - 2.1 / 3)


def test_without_runs_everything_is_empty(beside):
    assert len(inside.over_rings("mini/none", "correlation")) == 0
    assert len(inside.neighbors_by_moment("mini/none")) == 0
    assert len(inside.kept("mini/roll", "frames")) == 0
    assert inside.directions(words.runs_by_arm()["mini/roll"][9]) is None


def framed(kind: str):
    """Correlations of 8 channels: of a map, of one bump of varying strength, or of none of them."""
    angle = 2 * torch.pi * (torch.arange(8)[:, None] - torch.arange(8)) / 8
    r = {"map": 0.6 * angle.cos() + 0.4 * torch.eye(8), "bump": torch.ones(8, 8), "none": torch.eye(8)}[kind]
    return {"frames": pack_correlations(r).expand(2, 2, 1, 1, 1, -1).numpy()}


def test_a_map_fills_two_directions_and_keeps_its_lead_without_the_first(beside):
    kinds = {kind: framed(kind) for kind in ("map", "bump", "none")}
    directions = {kind: beside(inside.directions, **kept) for kind, kept in kinds.items()}
    lead = {kind: beside(inside.lead_beyond_first, **kept) for kind, kept in kinds.items()}
    assert directions["bump"] == pytest.approx(1) and directions["none"] == pytest.approx(8)
    assert 2 < directions["map"] < 4 and lead["map"] > 0.2
    assert abs(lead["bump"]) < 0.01 and abs(lead["none"]) < 0.01


def test_waves_layers_and_moments_are_those_of_the_arrays(beside):
    correlation = np.array([0.2, 0.6])[:, None, None, None] * np.ones((2, 1, 1, 5))
    found = {
        "slow_waves": np.array([3.0, 1.04, 1.2, 1.03, 1.0]),
        "strong_waves": np.array([1.5, 1.1, 1.0, 1.0, 1.0]),
        "frame_query_coherence": np.array([[[0.9], [1.0]], [[0.5], [0.5]], [[0.1], [0.3]]]),
        "query_correlation": correlation,
        "key_correlation": correlation + 0.1,
    }
    for measure, value in (
        (inside.rise("slow", 1), 2),
        (inside.rise("strong", 2), 0.1),
        (inside.coherence(1), 0.95),
        (inside.coherence(3), 0.2),
        (inside.neighbors_last_minus_first, 0.4),
    ):
        assert beside(measure, **found) == pytest.approx(value)


def test_a_jump_is_in_bits_over_eight_positions_on_either_side(beside):
    loss = np.where(np.arange(512) < 67, 1.0, 2.0)  # a nat more from the fourth position on
    for position, share in ((64, 5 / 8), (66, 7 / 8), (128, 0)):
        rise = beside(inside.jump(position), loss_by_position=loss)
        assert rise == pytest.approx(share / np.log(2))


@pytest.mark.parametrize(("slope", "swaps", "falls"), [(1, 0, 1), (-1, 0, -1), (1, 2, 0.988)])
def test_a_bias_that_falls_with_every_step_back_is_one(beside, slope, swaps, falls):
    offsets = np.arange(-40, 1, dtype=np.float32)
    line = slope * offsets
    for first in range(swaps):
        near = -2 - 2 * first  # Δ = −1 and −2, then −3 and −4 …
        line[[near, near - 1]] = line[[near - 1, near]]
    line[offsets < -16] = 99  # beyond the reach
    spread = np.random.default_rng(swaps).normal(size=(2, 3, 1))  # of no account: a constant for each head
    found = {"bias": (line + spread).astype(np.float32), "offsets": offsets[:, None]}
    assert beside(inside.falls(16), **found) == pytest.approx(falls, abs=0.01)
    found["bias"] = np.round(found["bias"] / 4)  # some are equal
    by_distance = found["bias"].mean((0, 1))[::-1][1:17]
    rank_correlation = stats.spearmanr(range(16), by_distance).statistic
    assert beside(inside.falls(16), **found) == pytest.approx(-rank_correlation)


@pytest.mark.parametrize("towards_later", [0.3, 0.0, -0.5])
def test_attention_on_later_patches_counts_every_pair(beside, towards_later):
    rows, columns = 2, 5
    any_share = torch.rand(2, 3, *[rows * columns] * 2, generator=torch.Generator().manual_seed(0))
    shares = [any_share.triu(1), any_share.tril(-1)]
    later, earlier = (share / share.sum((-1, -2), keepdim=True) for share in shares)
    attention = (1 + towards_later) / 2 * later + (1 - towards_later) / 2 * earlier
    offsets, by_offset = attention_by_offset(attention, grid_positions(rows, columns))
    found = {"attention": by_offset.numpy(), "offsets": offsets.numpy()}
    assert beside(inside.later, **found) == pytest.approx(towards_later, abs=1e-5)
