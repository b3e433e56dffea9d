"""What the arrays beside records say of the inside of trained models: rings, moments of training, attention.

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


def attention_map(evidence: Evidence, recipe: str, arm: str) -> np.ndarray:
    """Attention by offset, in doublings of uniform attention, of a square grid: [layers, offsets, offsets].

    A mean over runs and heads; the middle is offset zero. Empty without runs.
    """
    weights = [a.mean(1) for a in kept(evidence, recipe, arm, "attention")]  # [layers, offsets]
    if not weights:
        return np.zeros((0, 0, 0))
    side = int(weights[0].shape[-1] ** 0.5)  # offsets of an axis, 2G − 1
    doublings = np.log2(np.mean(weights, axis=0) * ((side + 1) // 2) ** 2)
    return doublings.reshape(-1, side, side)


def attention_at(evidence: Evidence, recipe: str, arm: str, distance: int) -> np.ndarray:
    """Attention at a distance (the longer of the axes), relative to uniform attention: [runs, layers].

    Each offset counts by its pairs on the grid. 0: a patch to itself, 1: to its eight neighbors.
    """
    found = zip(*(kept(evidence, recipe, arm, name) for name in ("attention", "offsets")), strict=True)
    shares = []
    for weights, offsets in found:
        away = np.abs(offsets)
        pairs = (away.max(0) + 1 - away).prod(-1) * (away.max(-1) == distance)
        patches = (away.max(0) + 1).prod()
        shares.append(patches * (weights.mean(1) * pairs).sum(-1) / pairs.sum())
    return np.array(shares)
