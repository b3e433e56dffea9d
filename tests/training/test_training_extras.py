"""What a run does beside minimizing its loss: order on request, moved images, arrays for the book."""

from __future__ import annotations

import numpy as np
import torch

from rollpe_lab.records import read_arrays, record_path
from rollpe_lab.training import load_recipe, train
from rollpe_lab.training.data import Split
from rollpe_lab.training.run import moved

QUIET = {"device": "cpu", "checkpoints": None, "progress": False}


def recipe(**changes):
    return load_recipe("smoke", {"max_steps": 12, "depth": 1, "resolutions": []} | changes)


def roughness(tmp_path, **changes) -> float:
    record = train(recipe(**changes), "roll", records=tmp_path, **QUIET)
    return float(read_arrays(record_path(tmp_path, record))["query_roughness"].mean())


def test_asking_for_a_ring_makes_queries_smoother_around_it(tmp_path):
    plain = roughness(tmp_path)
    asked = roughness(tmp_path, topography="ring", topography_weight=3.0)
    assert asked < 0.9 * plain


def test_without_weight_the_regularizer_changes_nothing(tmp_path):
    plain = train(recipe(), "roll", **QUIET)
    weightless = train(recipe(topography="ring", topography_weight=0.0), "roll", **QUIET)
    assert plain.test == weightless.test


def test_moving_images_right_and_down_repeats_the_edge():
    image = torch.arange(6, dtype=torch.uint8).view(1, 1, 2, 3)
    there = moved(Split(image, torch.zeros(1)), 1).images[0, 0]
    assert there.tolist() == [[0, 0, 1], [0, 0, 1]]
    back = moved(Split(image, torch.zeros(1)), -1).images[0, 0]
    assert back.tolist() == [[4, 5, 5], [4, 5, 5]]


def test_a_record_holds_the_accuracy_of_moved_images_and_the_arrays_beside_it(tmp_path):
    record = train(recipe(shifts=[0, 2]), "multiplexed-roll", records=tmp_path, **QUIET)
    assert record.shifts["0"] == record.test.accuracy
    assert 0 <= record.shifts["2"] <= 1
    arrays = read_arrays(record_path(tmp_path, record))
    assert arrays["attention"].shape == (1, 3, len(arrays["offsets"]))
    assert np.isfinite(arrays["key_spectrum"]).all()
