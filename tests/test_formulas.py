"""The textbook formulas against other people's code, and what they refuse.

That each formula equals its slow form is held by the cells of chapters (tests/notebooks/test_chapters.py).
"""

import torch

from rollpe import formulas
from rollpe.encodings.frequencies import geometric

torch.manual_seed(0)


def test_bfloat16_stays_bfloat16_with_angles_in_full_precision():
    x, p = torch.randn(9, 8).bfloat16(), 1000 + torch.arange(9)
    theta = geometric(4)
    for layout in formulas.LAYOUTS:
        found, exact = (formulas.rope(a, p, theta, layout) for a in (x, x.double()))
        assert found.dtype == torch.bfloat16
        assert (found.double() - exact).abs().max() < 0.05


def test_a_rotary_score_keeps_the_dtype_of_its_query():
    q, k = torch.randn(2, 5, 8, dtype=torch.float64)
    theta = geometric(4)
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        found = formulas.rope_score(q.to(dtype), k.to(dtype), 1000.0, theta)
        assert found.dtype == dtype
        assert torch.allclose(
            found.double(), formulas.rope_score(q, k, 1000.0, theta), atol=30 * torch.finfo(dtype).eps
        )


def test_scores_of_a_thousand_do_not_overflow():
    q = torch.full((3, 4), 60.0)
    assert torch.isfinite(formulas.attention(q, q, torch.randn(3, 2))).all()


def test_the_feature_map_and_its_gradient_are_finite_far_out():
    x = torch.tensor([-1e4, -1.0, 0.0, 1.0, 1e4], requires_grad=True)
    formulas.elu_feature(x).sum().backward()
    assert torch.isfinite(x.grad).all() and (formulas.elu_feature(x) >= 0).all()
