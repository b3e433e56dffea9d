"""The textbook formulas against other people's code, and what they refuse.

That each formula equals its slow form is held by rollpe.equations (tests/test_equations.py).
"""

import math

import pytest
import torch

from rollpe import textbook
from rollpe.errors import InputError

torch.manual_seed(0)


def test_t5_buckets_are_those_of_transformers():
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="transformers is not installed")
    delta = torch.arange(-600, 601)
    for buckets, reach in ((32, 128), (64, 128), (32, 256)):
        theirs = t5.T5Attention._relative_position_bucket(delta, True, buckets, reach)
        assert torch.equal(textbook.t5_bucket(delta, buckets, reach), theirs)


def test_half_layout_is_that_of_transformers():
    llama = pytest.importorskip(
        "transformers.models.llama.modeling_llama", reason="transformers is not installed"
    )
    q, k, p = torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8), torch.arange(7)
    theta = textbook.rope_frequencies(8).float()
    angle = torch.cat((p[:, None] * theta,) * 2, dim=-1)[None]
    theirs = llama.apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
    for x, expected in zip((q, k), theirs, strict=True):
        assert torch.allclose(textbook.rope(x, p, theta, "half"), expected, atol=1e-6)


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
