"""The textbook formulas against other people's code, and what they refuse.

That each formula equals its slow form is held by the cells of chapters (tests/notebooks/test_chapters.py).
"""

import pytest
import torch

from rollpe import formulas
from rollpe.errors import InputError

torch.manual_seed(0)


def test_bfloat16_stays_bfloat16_with_angles_in_full_precision():
    x, p = torch.randn(9, 8).bfloat16(), 1000 + torch.arange(9)
    theta = formulas.rope_frequencies(8)
    for layout in formulas.LAYOUTS:
        found, exact = (formulas.rope(a, p, theta, layout) for a in (x, x.double()))
        assert found.dtype == torch.bfloat16
        assert (found.double() - exact).abs().max() < 0.05


def test_a_rotary_score_keeps_the_dtype_of_its_query():
    q, k = torch.randn(2, 5, 8, dtype=torch.float64)
    theta = formulas.rope_frequencies(8)
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        found = formulas.rope_score(q.to(dtype), k.to(dtype), 1000.0, theta)
        assert found.dtype == dtype
        assert torch.allclose(
            found.double(), formulas.rope_score(q, k, 1000.0, theta), atol=30 * torch.finfo(dtype).eps
        )


def test_bits_are_counted_beyond_the_integers_that_floats_hold():
    for p in (0, 7, 2**31 - 1, 2**53 - 1, 2**62 - 1, 2**62):
        assert formulas.bit_flips(torch.tensor(p)).item() == (p ^ (p + 1)).bit_count()


def test_scores_of_a_thousand_do_not_overflow():
    q = torch.full((3, 4), 60.0)
    assert torch.isfinite(formulas.attention(q, q, torch.randn(3, 2))).all()


def test_the_feature_map_and_its_gradient_are_finite_far_out():
    x = torch.tensor([-1e4, -1.0, 0.0, 1.0, 1e4], requires_grad=True)
    formulas.elu_feature(x).sum().backward()
    assert torch.isfinite(x.grad).all() and (formulas.elu_feature(x) >= 0).all()


@pytest.mark.parametrize("d", [0, 1, 7])
@pytest.mark.parametrize(
    "call",
    [
        formulas.rope_frequencies,
        formulas.longest_wavelength,
        formulas.layout_order,
        lambda d: formulas.sinusoids(torch.arange(3), d),
        lambda d: formulas.sinusoid_shift(1.0, d),
    ],
)
def test_an_odd_width_has_no_pairs(call, d):
    with pytest.raises(InputError) as caught:
        call(d)
    assert f"d={d}" in str(caught.value) and "\n" not in str(caught.value)


def test_yarns_range_has_a_width_and_an_end():
    assert formulas.yarn_range(8, 6, 10000, 32, 1) == (0, 0.001)  # no pair turns once
    assert formulas.yarn_range(4, 5000, 10, 32, 1) == (2, 3)  # d - 1, as in the code of the source


def test_scaling_by_length_takes_many_lengths_at_once():
    lengths = torch.tensor([[5, 8], [9, 40]])
    for scale in (
        lambda L: formulas.dynamic_frequencies(6, 3.0, L, 8),
        lambda L: formulas.longrope_frequencies(6, L, 8, [1, 2, 3], [4, 5, 6]),
    ):
        found = scale(lengths)
        assert found.shape == (2, 2, 3) and found.dtype == torch.float64
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            assert torch.equal(found[row, column], scale(int(lengths[row, column])))


def test_yarns_defaults_are_those_of_the_paper():
    for trained, last in ((1982, 15), (2025, 16)):  # at 31 turns 16, at 33 turns 15
        found = formulas.yarn_frequencies(128, 4, trained)
        assert torch.equal(found, formulas.yarn_frequencies(128, 4, trained, 10000.0, 32.0, 1.0))
        assert (found == formulas.rope_frequencies(128)).nonzero().max() == last
