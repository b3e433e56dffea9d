"""Arrays beside records: means over rings and runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rollpe.topography import pack_correlations
from rollpe_lab.evidence import inside
from rollpe_lab.evidence.conditions import Evidence
from shared import make_record

LAYERS, HEADS, AXES = 3, 2, 2


def beside(record):
    """Neighbors correlate by a tenth of the seed."""
    if record.seed == 9:  # an older run
        return {}
    near = record.seed / 10
    ring = torch.eye(4) + near * (torch.eye(4).roll(1, 0) + torch.eye(4).roll(-1, 0))
    by_distance = np.broadcast_to([1.0, near, 0.0], (LAYERS, HEADS, AXES, 3))
    return {
        "query_correlation": by_distance,
        "key_correlation": by_distance + 1,
        "frames": pack_correlations(ring.expand(5, 2, LAYERS, HEADS, AXES, 4, 4)).numpy(),
    }


@pytest.fixture(scope="module")
def evidence():
    runs = [make_record("roll", 500, seed, "mini", images=1000) for seed in (1, 3, 9)]
    return Evidence(runs, arrays=beside)


def test_rings_are_averaged_by_run_and_older_runs_left_out(evidence):
    found = inside.over_rings(evidence, "mini", "roll", "correlation")
    np.testing.assert_allclose(found, [[1.5, 0.6, 0.5], [1.5, 0.8, 0.5]])
    moments = inside.neighbors_by_moment(evidence, "mini", "roll")
    np.testing.assert_allclose(moments, [[0.1] * 5, [0.3] * 5], atol=0.005)


def test_without_runs_everything_is_empty(evidence):
    assert len(inside.over_rings(evidence, "mini", "none", "correlation")) == 0
    assert len(inside.neighbors_by_moment(evidence, "mini", "none")) == 0
