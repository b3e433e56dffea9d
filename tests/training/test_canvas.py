"""The two tasks on canvases: what a class is, what is on a canvas, and what no digit may do."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

from rollpe.errors import InputError
from rollpe_lab.records import RunId
from rollpe_lab.training import create_model, load_dataset, load_recipe
from rollpe_lab.training.canvas import CELLS, COPIES, DIM, SIDE, TEST_COPIES, arrangements
from rollpe_lab.training.models import shape_of
from shared import stand_in

TASKS = ("place", "offset")


def cells(images: Tensor) -> Tensor:
    """The cells of canvases: [N, 4, 4, 16 pixels]."""
    return images[:, 0].unflatten(2, (CELLS, SIDE)).unflatten(1, (CELLS, SIDE)).transpose(2, 3).flatten(3)


def in_order(images: Tensor) -> Tensor:
    """Row and column of all cells, the brightest first: [N, 16, 2]."""
    order = cells(images).sum(-1).flatten(1).argsort(1, descending=True)
    return torch.stack((order // CELLS, order % CELLS), -1)


@pytest.mark.parametrize("task", TASKS)
def test_the_class_is_where_the_digits_are(task: str) -> None:
    data = load_dataset(task)
    for part in (data.train, data.held_out, data.test):
        first, second = in_order(part.images)[:, :2].unbind(1)
        told = torch.tensor([[*map(int, data.classes[label].split(","))] for label in part.labels])
        assert torch.equal(told, first if task == "place" else second - first)
        digits = (cells(part.images).sum(-1) > 0).sum((1, 2))
        assert (digits == (1 if task == "place" else 2)).all()


def test_every_bright_digit_outshines_every_dim_one() -> None:
    images = load_dataset("offset").train.images
    light = cells(images).sum(-1).flatten(1).sort(1, descending=True).values
    assert light[:, 0].min() > light[:, 1].max()
    bright, dim = cells(images).flatten(1, 2).amax(-1).topk(2).values.unbind(1)
    assert bright.min() > dim.max() and torch.equal(bright // DIM, dim)


@pytest.mark.parametrize(("task", "classes"), [("place", 16), ("offset", 48)])
def test_all_classes_occur_about_equally_often_and_each_in_all_ways(task: str, classes: int) -> None:
    data = load_dataset(task)
    for part in (data.train, data.held_out, data.test):
        counts = part.labels.bincount(minlength=classes).double()
        expected = len(part) / classes
        assert len(counts) == classes == len(data.classes)
        assert (counts - expected).abs().max() < 4 * expected**0.5
    for name, ways in arrangements(task).items():
        if task == "offset":
            rows, columns = map(int, name.split(","))
            assert len(ways) == (CELLS - abs(rows)) * (CELLS - abs(columns))
    seen = {tuple(map(tuple, order)) for order in in_order(data.train.images)[:, :2].tolist()}
    assert task == "place" or len(seen) == 16 * 15


@pytest.mark.parametrize("task", TASKS)
def test_no_digit_is_in_two_parts_and_one_digit_has_different_classes(task: str) -> None:
    data, held = load_dataset(task), []
    for part, copies in ((data.train, COPIES), (data.held_out, COPIES), (data.test, TEST_COPIES)):
        light = cells(part.images)
        row, column = in_order(part.images)[:, 0].unbind(-1)
        digits = [bytes(digit.tolist()) for digit in light[torch.arange(len(part)), row, column]]
        assert set(Counter(digits).values()) == {copies}
        assert len(set(zip(digits, part.labels.tolist(), strict=True))) == len(part)
        held.append(set(digits))
    assert len(set.union(*held)) == sum(map(len, held)) == 1797


def test_a_canvas_depends_on_its_digit_alone() -> None:
    some, none = load_dataset("offset"), load_dataset("offset", held_out=0)

    def canvases(*parts) -> list[bytes]:
        return sorted(bytes(image.flatten().tolist()) for part in parts for image in part.images)

    assert canvases(some.train, some.held_out) == canvases(none.train)
    assert torch.equal(some.test.images, none.test.images) and some.mean == none.mean
    with pytest.raises(InputError, match="held_out=3: offset has 4 images"):
        load_dataset("offset", held_out=3)


def logits(encoding: str, images: Tensor, **options) -> Tensor:
    """Of a random model as the recipe has it, in float64."""
    cell = RunId(recipe="place", encoding=encoding, encoding_options=options, seed=0)
    model = create_model(load_recipe("place"), cell, shape_of(stand_in("place")))
    torch.manual_seed(0)
    for parameter in model.parameters():  # away from a start at which positions hardly count
        torch.nn.init.normal_(parameter, std=0.2)
    with torch.no_grad():
        return model.eval().double()(images)


@pytest.mark.filterwarnings("ignore:aliased offsets")
@pytest.mark.parametrize(
    ("encoding", "options", "alike"),
    [
        ("none", {}, True),
        ("roll", {"width": 8}, True),
        ("roll-twin", {"width": 8}, True),
        ("uniform-rope", {}, True),
        ("roll", {}, False),
        ("axial-rope", {}, False),
        ("learned", {}, False),
    ],
)
def test_a_ring_as_long_as_the_grid_cannot_tell_places_apart(
    encoding: str, options: dict, alike: bool
) -> None:
    """Attention is then equivariant to cyclic shifts of the patches, and their mean invariant."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2, 1, 16, 16, generator=generator, dtype=torch.double)
    shifted = images.roll((4, -8), (2, 3))  # by whole cells, around the border
    gap = (logits(encoding, shifted, **options) - logits(encoding, images, **options)).abs().max()
    assert (gap < 1e-10) == alike and (alike or gap > 1e-4)
