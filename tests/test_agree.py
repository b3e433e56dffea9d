"""What a notebook's comparison accepts, prints and refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rollpe_book.agree import agree, gap


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.25])),
        (np.array([1, 2]), [1.25, 2]),
        (3, 3.25),
        (torch.tensor(1j), 1.25j),
        (torch.tensor([0.25], requires_grad=True), torch.zeros(1)),
    ],
)
def test_tensors_arrays_and_numbers_agree_within_the_tolerance_and_not_beyond_it(found, expected, capsys):
    agree("two sums", found, expected, tolerance=0.25)
    assert capsys.readouterr().out == "two sums: largest error 2.5e-01 (tolerance 2e-01)\n"
    with pytest.raises(AssertionError, match="two sums"):
        agree("two sums", found, expected, tolerance=0.24)


def test_the_tolerance_is_close_to_rounding_if_none_is_given():
    agree("rounding", 0.1 + 0.2, 0.3)
    with pytest.raises(AssertionError):
        agree("single precision", torch.tensor(0.1), 0.1)


@pytest.mark.parametrize(("found", "expected"), [([1.0, 1.0], 1.0), ([[1.0]], [1.0]), ([], [])])
def test_other_shapes_are_not_broadcast(found, expected):
    with pytest.raises(ValueError, match="cannot compare shapes"):
        agree("shapes", found, expected, tolerance=math.inf)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_does_not_agree_even_with_itself(bad):
    assert gap([1.0, bad], [1.0, bad]) == math.inf
    with pytest.raises(AssertionError, match="not finite"):
        agree("not finite", [1.0, bad], [1.0, bad], tolerance=1e300)


def test_narrow_integers_do_not_wrap_around():
    assert gap(torch.tensor(127, dtype=torch.int8), torch.tensor(-1, dtype=torch.int8)) == 128
