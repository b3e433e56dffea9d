"""Clouds of points: where they are, what they show, and that a model gets their own positions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rollpe.errors import InputError
from rollpe_lab.records import RunId
from rollpe_lab.training import create_model, load_dataset, load_recipe, train
from rollpe_lab.training.augment import normalize
from rollpe_lab.training.canvas import COPIES
from rollpe_lab.training.models import shape_of
from rollpe_lab.training.points import POINTS, STEPS
from shared import stand_in

EXACT, ROUNDED, DIGITS = load_dataset("points"), load_dataset("points-rounded"), load_dataset("digits")


def flat(clouds: Tensor) -> tuple[Tensor, Tensor]:
    """Gray values [N, 32] and positions in pixels [N, 32, 2], float64."""
    gray, *positions = clouds.double().flatten(2).unbind(1)
    return gray, torch.stack(positions, -1) / STEPS


@pytest.mark.parametrize("part", ["train", "held_out", "test"])
def test_points_are_read_off_their_own_digit(part: str) -> None:
    digits, clouds, rounded = (getattr(data, part) for data in (DIGITS, EXACT, ROUNDED))
    gray, positions = flat(clouds.images)
    images = digits.images.double().repeat_interleave(COPIES, 0)
    at = (2 * positions / 7 - 1).flip(-1)[:, None]  # grid_sample counts columns first
    expected = F.grid_sample(images, at, align_corners=True)[:, 0, 0]
    assert (gray - expected).abs().max() <= 0.5 + 1e-9
    assert torch.equal(clouds.labels, digits.labels.repeat_interleave(COPIES))
    same, whole = flat(rounded.images)
    assert torch.equal(same, gray) and torch.equal(whole, (positions + 0.5).floor())


def test_half_of_the_pixels_are_left_out_and_the_others_moved_off_the_grid() -> None:
    cells = flat(ROUNDED.train.images)[1]
    exact = flat(EXACT.train.images)[1]
    assert 0 <= exact.min() and exact.max() <= 7 and (exact - cells).abs().max() <= 0.5
    number = (8 * cells[..., 0] + cells[..., 1]).long()
    assert all(len(set(row)) == POINTS for row in number.tolist())
    counts = number.flatten().bincount(minlength=64) / len(number)
    assert (counts - POINTS / 64).abs().max() < 0.04
    inner = ((cells > 0) & (cells < 7)).all(-1)
    moves = (exact - cells)[inner]
    assert moves.mean().abs() < 0.03 and (moves.std() - 12**-0.5).abs() < 0.01


def test_a_cloud_depends_on_its_digit_alone_and_differs_from_its_copies() -> None:
    kept = {bytes(cloud.flatten().tolist()) for cloud in load_dataset("points", held_out=0).train.images}
    for part in (EXACT.train, EXACT.held_out):
        clouds = {bytes(cloud.flatten().tolist()) for cloud in part.images}
        assert len(clouds) == len(part) and clouds <= kept
    with pytest.raises(InputError, match="held_out=3: points has 4 images a digit"):
        load_dataset("points", held_out=3)


def model_of(encoding: str, **options):
    cell = RunId(recipe="points", encoding=encoding, encoding_options=options, seed=0)
    torch.manual_seed(0)
    model = create_model(load_recipe("points"), cell, shape_of(stand_in("points")))
    for parameter in model.parameters():  # away from a start at which positions hardly count
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval().double()


@pytest.mark.parametrize("encoding", ["axial-rope", "continuous-roll", "learned", "none"])
def test_a_model_sees_each_points_own_position_and_no_order(encoding: str) -> None:
    model, clouds = model_of(encoding), EXACT.test.images[:3]
    inputs = normalize(clouds, EXACT.mean, EXACT.std)
    seen: list[Tensor] = []
    with torch.no_grad(), model.register_forward_pre_hook(lambda _, at: seen.append(at[1])):
        logits = model(inputs.double())
        assert torch.equal(seen[0].double(), flat(clouds)[1])
        mixed = inputs.flatten(2)[:, :, torch.randperm(POINTS)].unflatten(2, (4, 8))
        assert torch.allclose(model(mixed.double()), logits, atol=1e-9)
        others = torch.cat((inputs[:, :1], inputs[:, 1:].roll(1, 0)), 1)  # the next image's positions
        assert torch.allclose(model(others.double()), logits, atol=1e-9) == (encoding == "none")


def test_a_run_of_points_and_what_it_refuses(tmp_path) -> None:
    recipe = load_recipe("points", {"epochs": 1, "warmup_epochs": 0, "train_images": 96, "width": 48})
    record = train(recipe, "axial-rope", records=tmp_path, checkpoints=None, device="cpu", progress=False)
    assert len(record.correct_bits()) == len(EXACT.test) == 1440
    for key, value in {"patch_size": 2, "shifts": [1], "resolutions": [16], "frames": 2}.items():
        with pytest.raises(InputError, match=f"points have patch_size=1 and no other {key}"):
            load_recipe("points", {key: value})
