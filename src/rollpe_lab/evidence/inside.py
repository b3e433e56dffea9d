"""What the arrays beside records say of the inside of trained models: rings and moments of training.

Each function takes the arm of a recipe as `rollpe_lab.evidence.conditions` names it. Runs whose records are
older than an array are left out.
"""

from __future__ import annotations

import numpy as np
import torch

from rollpe.topography import near_and_any, unpack_correlations
from rollpe_lab.evidence.conditions import Evidence


def kept(evidence: Evidence, recipe: str, arm: str, name: str) -> list[np.ndarray]:
    """An array of every run that keeps it."""
    found = [evidence.arrays(run) for run in evidence.runs(recipe, arm)]
    return [beside[name] for beside in found if name in beside]


def over_rings(evidence: Evidence, recipe: str, arm: str, what: str) -> np.ndarray:
    """Means over queries and keys, layers, heads and axes: [runs, ...].

    what: "correlation" by distance, or by mode "spectrum", "gradient" or "step".
    """
    pairs = zip(*(kept(evidence, recipe, arm, f"{which}_{what}") for which in ("query", "key")), strict=True)
    return np.array([np.mean(pair, axis=(0, 1, 2, 3)) for pair in pairs])


def neighbors_by_moment(evidence: Evidence, recipe: str, arm: str) -> np.ndarray:
    """Correlation of neighbors on the ring at the moments of training that records keep: [runs, moments]."""
    frames = (torch.from_numpy(f) for f in kept(evidence, recipe, arm, "frames"))
    return np.array([near_and_any(unpack_correlations(f))[0].mean((1, 2, 3, 4)).numpy() for f in frames])
