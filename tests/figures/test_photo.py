"""The photograph: first layers cut out of models, what a move leaves of their scores, the committed files."""

from __future__ import annotations

import base64
import itertools

import numpy as np
import pytest
import torch

from rollpe.encodings import grid_positions
from rollpe.vit import create_vit
from rollpe_book.figures import photo
from rollpe_lab.training.watch import queries_and_keys
from shared import ROOT, workflow_script

FOLDER = ROOT / "data/photo"
SHIFTS = ((0, 0), (1, -3), (-2, 4), (2, 1))
RELATIVE = {"none", "axial-rope", "roll"}


@pytest.fixture(scope="module")
def script():
    return workflow_script("photo")


@pytest.fixture(scope="module")
def pixels(script):
    return script.as_seen(script.cut_photo())


@pytest.fixture(params=photo.NAMES)
def trained(request):
    """The name of an encoding and a model with weights that nothing but training would make."""
    torch.manual_seed(0)
    model = create_vit(request.param, size="nano", pool="avg").double().eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.3)
    return request.param, model


def test_the_first_layer_makes_the_scores_of_the_model(trained, script, pixels):
    name, model = trained
    mean, std = torch.rand(2, 3, dtype=torch.float64) + 0.5
    made = script.first_layer(model, mean, std)
    for shift in SHIFTS:
        top, left = (photo.PATCH * (reach - s) for reach, s in zip(photo.REACH, shift, strict=True))
        seen = pixels[top : top + 32, left : left + 32].permute(2, 0, 1).double() / 255
        with queries_and_keys(model) as pairs, torch.no_grad():
            model(((seen - mean[:, None, None]) / std[:, None, None])[None])
        q, k = pairs[0]
        expected = model.attentions[0].encoding.scores(q, k, grid_positions(8, 8))[0]
        torch.testing.assert_close(photo.scores(name, made, photo.cut(pixels), shift), expected)


def test_scores_travel_with_the_photograph_and_heads_are_in_order_of_spread(trained, script, pixels):
    """They travel exactly where the encoding is relative."""
    name, model = trained
    one = torch.ones(3, dtype=torch.float64)
    made = script.in_order(name, script.first_layer(model, 0 * one, one), photo.cut(pixels))
    first = photo.scores(name, made, photo.cut(pixels)).unflatten(1, (8, 8)).unflatten(-1, (8, 8))
    spread = first.flatten(1).std(1).tolist()
    assert spread == sorted(spread, reverse=True)
    for down, right in SHIFTS[1:]:
        moved = photo.scores(name, made, photo.cut(pixels), (down, right))
        moved = moved.unflatten(1, (8, 8)).unflatten(-1, (8, 8))
        changes = [
            photo.change(first[head, row, column], moved[head, row + down, column + right], (down, right))
            for head in range(3)
            for row in range(max(0, -down), 8 - max(0, down))
            for column in range(max(0, -right), 8 - max(0, right))
        ]
        assert max(changes) < 1e-10 if name in RELATIVE else min(changes) > 0.1


def test_a_change_is_measured_among_the_patches_that_both_windows_show():
    before = torch.arange(64.0).view(8, 8)
    after = torch.full((8, 8), torch.nan)
    after[2:, :5] = before[:6, 3:]
    assert photo.change(before, after, (2, -3)) == 0
    after[7, 0] += 4
    assert photo.change(before, after, (2, -3)) == 4


def test_the_page_gets_the_scores_of_the_first_head_and_how_they_change():
    patches, models = photo.read_photo(FOLDER)
    shown = photo.for_browser(FOLDER)["maps"]
    assert list(shown) == list(models)
    for name, model in models.items():
        shares = np.frombuffer(base64.b64decode(shown[name]["scores"]), np.int8).reshape(5, 5, 4, 4, 8, 8)
        changes = np.array(shown[name]["changes"]).reshape(5, 5, 4, 4)
        first = photo.scores(name, model, patches)[0].view(8, 8, 8, 8)
        for row, column in ((2, 5), (4, 2)):
            queries = {}
            for down, right in itertools.product(range(-2, 3), repeat=2):
                of_all = photo.scores(name, model, patches, (down, right))[0].view(8, 8, 8, 8)
                queries[down, right] = of_all[row + down, column + right]
            largest = max(scores.abs().max() for scores in queries.values())
            for (down, right), expected in queries.items():
                at = (down + 2, right + 2, row - 2, column - 2)
                np.testing.assert_allclose(shares[at] / 127, expected / largest, rtol=0, atol=0.5 / 127)
                change = photo.change(first[row, column], expected, (down, right))
                assert abs(changes[at] - change) <= 0.005 + 1e-9
                assert name not in RELATIVE or changes[at] == 0


def test_the_committed_models_are_of_the_committed_photograph_and_in_order(pixels):
    arrays = np.load(FOLDER / "models.npz")
    difference = np.abs(arrays["pixels"].astype(int) - pixels.numpy())
    assert difference.max() <= 3, "versions of a library round differently"
    patches, models = photo.read_photo(FOLDER)
    assert list(models) == list(photo.NAMES)
    for name, model in models.items():
        streams = 2 if name == "multiplexed-roll" else 1
        assert model["embed"].shape == (96, 48)
        assert model["project"].shape == (3, 2, 32 * streams, 96)
        assert ("table" in model) == (name == "learned")
        assert photo.by_variation(name, model, patches).tolist() == [0, 1, 2]
