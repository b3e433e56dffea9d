"""What the chapters do not check: dtypes, shapes, gradients, refusals, compilation.

The formulas themselves are held by the cells of the chapters (tests/notebooks/test_chapters.py).
"""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from rollpe import ring
from rollpe.errors import InputError
from rollpe.ring import NYQUIST, continuous_roll, roll, roll_matrix, twisted_pair_roll, twisted_roll

torch.manual_seed(0)
twisted_seventh = partial(twisted_pair_roll, twist=1 / 7)
CONSTRUCTORS = (
    ring.shift_matrix,
    ring.ring_laplacian,
    ring.fourier_matrix,
    ring.mode_numbers,
    ring.real_fourier_basis,
    ring.generator,
    ring.paper_generator,
    ring.stencil,
    ring.twisted_shift,
    ring.twisted_generator,
    lambda n: ring.twisted_roll_matrix(n, 0.5),
    lambda n: ring.roll_matrix(n, 0.5),
    lambda n: ring.stencil_roll(n, 0.5),
    lambda n: ring.paper_roll_matrix(n, 0.5),
    lambda n: ring.wave_period(n, 1),
    lambda n: ring.wave_period(8, n),
    lambda n: ring.axis_slices(n, 1),
    lambda n: ring.axis_slices(8, n),
    lambda n: ring.axis_slices(8, 2, n),
)


def one_line(caught) -> str:
    message = str(caught.value)
    assert "\n" not in message and len(message) < 160
    return message


# What may come in.


@pytest.mark.parametrize("n", [0, -3, 2.5, 4.0, True, "8"])
@pytest.mark.parametrize("build", CONSTRUCTORS)
def test_a_width_that_is_no_positive_whole_number_is_refused_in_one_line(build, n):
    with pytest.raises(InputError) as caught:
        build(n)
    assert repr(n) in one_line(caught)


@pytest.mark.parametrize("build", CONSTRUCTORS[:13])
def test_whole_numbers_of_numpy_are_widths_and_one_channel_is_a_ring(build):
    build(np.int64(5))
    assert len(build(1)) in (1, 2)


@pytest.mark.parametrize("wavelength", [0, math.inf, math.nan])
def test_a_wavelength_of_zero_or_no_number_is_refused(wavelength):
    for function in (roll_matrix, ring.paper_roll_matrix):
        with pytest.raises(InputError, match="wavelength"):
            function(4, 1.0, wavelength)
    with pytest.raises(InputError, match="wavelength"):
        continuous_roll(torch.zeros(4), 1.0, wavelength)


@pytest.mark.parametrize("p", [0.5, 2.0, True, "1", torch.tensor([0.5]), torch.tensor(1.0)])
@pytest.mark.parametrize("move", [roll, twisted_roll, twisted_seventh])
def test_a_real_position_is_refused_by_the_rolls_with_the_alternative(move, p):
    with pytest.raises(InputError) as caught:
        move(torch.zeros(4), p)
    assert "continuous_roll" in one_line(caught)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (partial(ring.generator, 32, "cosine"), "n=32 is even"),
        (partial(ring.generator, 4, "average"), "nyquist='average' must be one of fixed, cosine"),
        (partial(roll_matrix, 4, 1, nyquist="average"), "nyquist='average'"),
        (partial(continuous_roll, torch.zeros(4), 1, nyquist="average"), "nyquist='average'"),
        (partial(continuous_roll, torch.arange(4), 0.5), "int64"),
        (partial(twisted_seventh, torch.arange(4), 1), "int64"),
        (partial(continuous_roll, torch.zeros(7), 0.5, nyquist="paired"), "7 channels"),
        (partial(twisted_seventh, torch.zeros(7), 1), "7 channels"),
        (partial(ring.axial_roll, torch.zeros(3, 8), torch.zeros(3, 2).long(), width=5), "width=5"),
        (partial(ring.axis_slices, 1, 2), "1 channels give 0 to each of 2 axes"),
    ],
)
def test_what_has_no_result_is_refused(call, says):
    with pytest.raises(InputError) as caught:
        call()
    assert says in one_line(caught)


def test_cosine_has_a_generator_for_odd_widths():
    assert torch.equal(ring.generator(5, "cosine"), ring.generator(5))


# Shapes and dtypes.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool])
def test_the_roll_moves_values_and_computes_nothing(dtype):
    x = (100 * torch.randn(3, 4, 7)).to(dtype)
    p = torch.randint(-99, 99, (4,))
    rolled = roll(x, p)
    assert rolled.dtype == dtype
    for t in range(4):
        assert torch.equal(rolled[:, t], torch.roll(x[:, t], -int(p[t]), -1))


@pytest.mark.parametrize("n", range(1, 21))
def test_a_twisted_roll_is_a_power_of_the_twisted_shift_however_far(n):
    x, N = torch.randn(n, dtype=torch.float64), ring.twisted_shift(n)
    for p in (-3, 0, 1, n - 1, n, 2 * n + 1, 12):
        power = torch.linalg.matrix_power(N, p)
        far = p + 2 * n * 10**9
        assert torch.equal(twisted_roll(x, p), power @ x)
        assert torch.equal(twisted_roll(x, far), power @ x)
        assert torch.allclose(ring.twisted_roll_matrix(n, p), power, atol=1e-14)
        assert torch.allclose(ring.twisted_roll_matrix(n, far), power, atol=1e-14)
        pair = torch.cat((x, x.flip(0)))
        sign = twisted_pair_roll(pair, p, 0.5 if n % 2 == 0 else 1.0)
        assert torch.allclose(sign, torch.cat((power @ x, power @ x.flip(0))), atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_twisted_rolls_keep_the_dtype_the_sign_exactly_and_other_turns_to_rounding(dtype):
    x, p = torch.randn(3, 4, 8).to(dtype), torch.randint(-999, 999, (4,))
    rounding = {torch.float32: 1e-3}.get(dtype, 40 * torch.finfo(dtype).eps)
    for move, bound in ((twisted_roll, 0), (twisted_seventh, rounding)):
        moved = move(x, p)
        assert moved.dtype == dtype
        assert (moved.double() - move(x.double(), p)).abs().max() <= bound


def test_positions_of_each_sample_broadcast_over_heads():
    x, p = torch.randn(2, 3, 5, 8), torch.randint(-9, 9, (2, 1, 5))
    rolled = roll(x, p)
    for move in (twisted_roll, twisted_seventh):
        assert torch.equal(move(x, p), torch.stack([move(*each) for each in zip(x, p[:, 0], strict=True)]))
    moved = continuous_roll(x.double(), p, nyquist="cosine")
    for b in range(2):
        assert torch.equal(rolled[b], roll(x[b], p[b, 0]))
    assert torch.allclose(moved, rolled.double(), atol=1e-12)


def test_more_positions_than_vectors_give_one_copy_each():
    x = torch.arange(5.0, dtype=torch.float64)
    p = torch.arange(-3, 4)
    assert roll(x, p).shape == (7, 5)
    for nyquist in ("fixed", "odd"):
        assert torch.allclose(continuous_roll(x, p, nyquist=nyquist), roll(x, p).double(), atol=1e-12)


@pytest.mark.parametrize("nyquist", NYQUIST)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_continuous_roll_keeps_the_dtype_and_rounds_only_at_the_end(dtype, nyquist):
    x = torch.randn(2, 9, 12).to(dtype)
    p = 4000 + torch.arange(9) / 8  # an angle of 4000 · π in bfloat16 would be off by many turns
    found = continuous_roll(x, p, nyquist=nyquist)
    exact = continuous_roll(x.double(), p.double(), nyquist=nyquist)
    assert found.dtype == dtype
    rounding = {torch.float32: 4e-3, torch.float64: 1e-9}.get(dtype, 4 * torch.finfo(dtype).eps)
    assert (found.double() - exact).abs().max() < rounding


@pytest.mark.parametrize("n", [*range(1, 21), 31, 32, 63, 64])
def test_twelve_digits_at_the_widths_that_are_used(n):
    identity = torch.eye(n, dtype=torch.float64)
    for nyquist in ("fixed", "twist"):
        A = ring.generator(n, nyquist)
        for p in (-17.3, 0.01, 5, 12.456):  # expm itself loses digits further out
            reference = torch.from_numpy(expm(p * A.numpy()))
            assert (roll_matrix(n, p, nyquist=nyquist) - reference).abs().max() < 2e-12
            assert (continuous_roll(identity, p, nyquist=nyquist).T - reference).abs().max() < 2e-12


def test_the_kernel_keeps_its_digits_beside_its_grid_points():
    """sin(πt)/sin(πt/n) is 0/0 at whole periods; a hair beside them it must still be right."""
    for n in (7, 8):
        for offset in (0.0, 1e-14, 1e-9, 1e-5):
            p = 3 * n + offset
            twisted = continuous_roll(torch.eye(n, dtype=torch.float64), p, nyquist="twist").T
            assert (ring.twisted_roll_matrix(n, p) - twisted).abs().max() < 1e-12


# Gradients and compilation.


@pytest.mark.parametrize("nyquist", NYQUIST)
@pytest.mark.parametrize("width", [6, 10])
def test_the_continuous_roll_is_differentiable_in_vector_position_and_wavelength(width, nyquist):
    x = torch.randn(3, width, dtype=torch.float64, requires_grad=True)
    p = torch.randn(3, dtype=torch.float64, requires_grad=True)
    wavelength = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *a: continuous_roll(*a, nyquist), (x, p, wavelength))


@pytest.mark.parametrize("n", [5, 6])
def test_matrix_and_kernel_are_differentiable_at_grid_points_too(n):
    p = torch.tensor([0.0, 1.0, 0.4], dtype=torch.float64, requires_grad=True)
    for nyquist in ("fixed", "twist"):
        assert torch.autograd.gradcheck(partial(roll_matrix, n, nyquist=nyquist), (p,))


# Slices of a head.
