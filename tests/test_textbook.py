"""The textbook formulas against other people's code, and what they refuse.

That each formula equals its slow form is held by rollpe_book.equations (tests/test_equations.py).
"""

import math

import pytest
import torch

from rollpe import textbook
from rollpe.errors import InputError

torch.manual_seed(0)


def test_one_sided_buckets_are_all_those_of_one_side_and_keys_to_the_right_are_at_distance_0():
    delta = torch.arange(-300, 301)
    for buckets in (32, 17):
        found = textbook.t5_bucket(delta, buckets, 128, bidirectional=False)
        assert torch.equal(found, textbook.t5_bucket(delta.clamp(max=0), 2 * buckets, 128))
        assert found[300:].max() == 0 and found[0] == buckets - 1


def test_a_spherical_rotation_tilts_the_last_two_channels_and_then_turns_the_first_two():
    z, (y, x), frequencies = torch.randn(2, 3), (0.7, -1.3), torch.tensor([[1.1, 0.4], [0.9, 0.3]])
    found = textbook.spherical_rope(z.flatten()[None], torch.tensor([[y, x]]), frequencies)
    assert found.shape == (1, 6)
    for (a, b, c), moved, tilt, turn in zip(z, found.view(2, 3), *frequencies, strict=True):
        b, c = (
            b * torch.cos(tilt * y) - c * torch.sin(tilt * y),
            b * torch.sin(tilt * y) + c * torch.cos(tilt * y),
        )
        a, b = (
            a * torch.cos(turn * x) - b * torch.sin(turn * x),
            a * torch.sin(turn * x) + b * torch.cos(turn * x),
        )
        assert torch.allclose(moved, torch.stack((a, b, c)), atol=1e-6)


def test_each_token_of_each_sequence_is_rotated_by_its_own_position():
    x, positions, frequencies = torch.randn(5, 4, 6), torch.randn(4, 2), torch.rand(2, 2)
    for p, tokens, found in zip(
        positions, x.unbind(1), textbook.spherical_rope(x, positions, frequencies).unbind(1), strict=True
    ):
        alone = torch.cat([textbook.spherical_rope(t[None], p[None], frequencies) for t in tokens])
        assert torch.allclose(found, alone, atol=1e-6)


@pytest.mark.parametrize("axis", range(3))
def test_a_rotation_about_an_axis_keeps_it_and_turns_the_next_to_the_one_after(axis):
    turn = textbook.plane_rotation(torch.tensor([0.5 * math.pi, 0.3]), axis)
    assert turn.shape == (2, 3, 3) and torch.equal(turn[:, axis, axis], torch.ones(2))
    unit = torch.eye(3)
    following, last = unit[(axis + 1) % 3], unit[(axis + 2) % 3]
    assert torch.allclose(turn[0] @ following, last, atol=1e-6)
    assert torch.allclose(turn @ turn.mT, unit.expand(2, 3, 3), atol=1e-6)


def test_bfloat16_stays_bfloat16_with_angles_in_full_precision():
    x, p = torch.randn(9, 8).bfloat16(), 1000 + torch.arange(9)
    theta = textbook.rope_frequencies(8)
    for layout in textbook.LAYOUTS:
        found, exact = (textbook.rope(a, p, theta, layout) for a in (x, x.double()))
        assert found.dtype == torch.bfloat16
        assert (found.double() - exact).abs().max() < 0.05


def test_a_rotary_score_keeps_the_dtype_of_its_query():
    q, k = torch.randn(2, 5, 8, dtype=torch.float64)
    theta = textbook.rope_frequencies(8)
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        found = textbook.rope_score(q.to(dtype), k.to(dtype), 1000.0, theta)
        assert found.dtype == dtype
        assert torch.allclose(
            found.double(), textbook.rope_score(q, k, 1000.0, theta), atol=30 * torch.finfo(dtype).eps
        )


def test_bits_are_counted_beyond_the_integers_that_floats_hold():
    for p in (0, 7, 2**31 - 1, 2**53 - 1, 2**62 - 1, 2**62):
        assert textbook.bit_flips(torch.tensor(p)).item() == (p ^ (p + 1)).bit_count()


def test_scores_of_a_thousand_do_not_overflow():
    q = torch.full((3, 4), 60.0)
    assert torch.isfinite(textbook.attention(q, q, torch.randn(3, 2))).all()


def test_the_feature_map_and_its_gradient_are_finite_far_out():
    x = torch.tensor([-1e4, -1.0, 0.0, 1.0, 1e4], requires_grad=True)
    textbook.elu_feature(x).sum().backward()
    assert torch.isfinite(x.grad).all() and (textbook.elu_feature(x) >= 0).all()


def test_linear_attention_agrees_with_any_feature_map():
    q, k, v = torch.rand(5, 3), torch.rand(5, 3), torch.randn(5, 2)
    weight = q.square() @ k.square().T
    expected = weight / weight.sum(1, keepdim=True) @ v
    assert torch.allclose(textbook.linear_attention(q, k, v, torch.square), expected, atol=1e-5)


def test_decoding_never_looks_ahead():
    q, k, v = torch.randn(6, 4), torch.randn(6, 4), torch.randn(6, 3)
    table = torch.randn(5, 4)
    before = textbook.decode(q, k, v, table)
    k[4:], v[4:] = math.nan, math.nan
    assert torch.equal(textbook.decode(q, k, v, table)[:4], before[:4])


@pytest.mark.parametrize("d", [0, 1, 7])
@pytest.mark.parametrize(
    "call",
    [
        textbook.rope_frequencies,
        textbook.longest_wavelength,
        textbook.layout_order,
        lambda d: textbook.sinusoids(torch.arange(3), d),
        lambda d: textbook.sinusoid_shift(1.0, d),
    ],
)
def test_an_odd_width_has_no_pairs(call, d):
    with pytest.raises(InputError) as caught:
        call(d)
    assert f"d={d}" in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_layout_is_refused():
    with pytest.raises(InputError, match="interleaved, half"):
        textbook.rope(torch.zeros(1, 2), torch.zeros(1), torch.ones(1), "neox")


@pytest.mark.parametrize(
    ("heads", "exponents"), [(1, [8]), (4, [2, 4, 6, 8]), (6, [2, 4, 6, 8, 1, 3]), (3, [4, 8, 2])]
)
def test_alibis_slopes_of_heads_that_are_no_power_of_two_follow_those_of_one(heads, exponents):
    assert textbook.alibi_slopes(heads).tolist() == [2.0**-e for e in exponents]


def test_yarns_range_has_a_width_and_an_end():
    assert textbook.yarn_range(8, 6, 10000, 32, 1) == (0, 0.001)  # no pair turns once
    assert textbook.yarn_range(4, 5000, 10, 32, 1) == (2, 3)  # d - 1, as in the code of the source


def test_yarns_defaults_are_those_of_the_paper():
    for trained, last in ((1982, 15), (2025, 16)):  # at 31 turns 16, at 33 turns 15
        found = textbook.yarn_frequencies(128, 4, trained)
        assert torch.equal(found, textbook.yarn_frequencies(128, 4, trained, 10000.0, 32.0, 1.0))
        assert (found == textbook.rope_frequencies(128)).nonzero().max() == last


def test_xpos_takes_positions_that_differ_by_text():
    x, positions = (
        torch.randn(2, 5, 6, dtype=torch.float64),
        torch.tensor([[0.0, 1, 2, 3, 4], [9, 8, 7, 6, 5]]),
    )
    settings = textbook.rope_frequencies(6), textbook.xpos_scales(6), 512.0
    apart = [textbook.xpos(one, p, *settings) for one, p in zip(x, positions, strict=True)]
    assert torch.equal(textbook.xpos(x, positions, *settings), torch.stack(apart))
