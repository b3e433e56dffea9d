"""The RollPE family: what a roll is, where it aliases, its continuous, multiplexed and rotary forms."""

from __future__ import annotations

import math
import warnings
from itertools import combinations_with_replacement

import pytest
import torch
from torch import Tensor

from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.roll import even_division
from rollpe.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:aliased offsets")

FAMILY = ["roll", "twisted-roll", "continuous-roll", "multiplexed-roll", "torus-roll", "roll-twin"]
GOLDEN = (math.sqrt(5) - 1) / 2


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def worst(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_roll_is_torch_roll_bit_for_bit_on_each_axis_share(dtype: torch.dtype, direction: int) -> None:
    encoding = create_encoding("roll", head_dim=17, heads=2, axes=2, width=7, direction=direction)
    positions = torch.tensor([[3.0, -2.0], [300.0, 0.0], [1.0, 9.0]])
    x = draw(2, 2, 4, 17).to(dtype)
    rolled = encoding.encode(x, positions)
    assert rolled.dtype == dtype
    assert torch.equal(rolled[:, :, 0], x[:, :, 0])  # no position
    for token, (row, column) in enumerate(positions.int().tolist(), start=1):
        t, r = x[:, :, token], rolled[:, :, token]
        assert torch.equal(r[..., 0:7], t[..., 0:7].roll(-direction * row, -1))
        assert torch.equal(r[..., 8:15], t[..., 8:15].roll(-direction * column, -1))
        assert torch.equal(r[..., [7, 15, 16]], t[..., [7, 15, 16]])


def offset_profile(encoding, tokens: int, axis: int) -> Tensor:
    """Scores of all pairs along one axis with the same random query and key everywhere."""
    positions = torch.zeros(tokens, encoding.axes)
    positions[:, axis] = torch.arange(tokens)
    q, k = (draw(1, 1, 1, encoding.head_dim, seed=s).expand(1, 1, tokens, -1) for s in (1, 2))
    return encoding.scores(q, k, positions)[0, 0]


@pytest.mark.parametrize(
    ("name", "nyquist"),
    [("roll", None), ("roll-twin", None), ("continuous-roll", "fixed"), ("torus-roll", None)]
    + [("twisted-roll", None), ("continuous-roll", "twist")],
)
@pytest.mark.parametrize("tokens", [4, 8])
def test_signed_offsets_look_different_exactly_if_n_is_at_least_2g_minus_1_with_a_twist_g(
    name: str, nyquist: str | None, tokens: int
) -> None:
    twisted = "twist" in (name[:5], nyquist)
    for n in (tokens - 2, tokens) if twisted else (2 * tokens - 2, 2 * tokens - 1):
        size = {"sheet": (2, n)} if name == "torus-roll" else {"width": n}
        size |= {"nyquist": nyquist} if nyquist else {}
        period = 2 * n if twisted else n
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            encoding = create_encoding(name, head_dim=2 * n, heads=1, axes=2, grid=(1, tokens), **size)
        scores = offset_profile(encoding, tokens, axis=1)
        by_offset = torch.cat((scores[0], scores[1:, 0]))  # Δ = 0 … G-1, then -1 … -(G-1)
        gaps = (by_offset[:, None] - by_offset).abs() + torch.eye(len(by_offset))
        if period < 2 * tokens - 1:
            assert gaps.min() < 1e-9
            (warned,) = caught
            assert f"axis 1: a ring of period {period} " in str(warned.message)
        else:
            assert gaps.min() > 1e-6
            assert not caught


@pytest.mark.parametrize(
    ("name", "options", "period"),
    [
        *((name, {}, 128 if name == "twisted-roll" else 64) for name in FAMILY),
        ("continuous-roll", {"nyquist": "twist", "width": 63, "wavelength": 2.0}, 126),
        ("roll", {"width": (8, 12)}, 24),
        ("twisted-roll", {"width": (4, 6, 5)}, 120),
        ("twisted-roll", {"twist": -0.4, "width": 6}, 30),
    ],
)
def test_the_first_pass_over_positions_too_far_apart_for_the_ring_warns_once(
    name: str, options: dict, period: int
) -> None:
    encoding = create_encoding(name, head_dim=64, heads=1, axes=1, **options)
    encoding.told = True  # that the first token has no position
    tokens = (period + 1) // 2

    def encode(tokens: int) -> None:
        x = torch.randn(2, 1, tokens + 1, 64 * encoding.waves_in)
        encoding.encode(x, torch.stack((grid_positions(tokens), grid_positions(tokens) - 700)))

    with warnings.catch_warnings(action="error"):
        encode(tokens)
    with pytest.warns(UserWarning, match=f" {period} .* {tokens + 1} .* {2 * tokens + 1}"):
        encode(tokens + 1)
    with warnings.catch_warnings(action="error"):
        encode(512)


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("name", FAMILY)
def test_decoding_beyond_the_ring_warns_once(name: str, newest: bool) -> None:
    """Causal offsets have one sign: a ring of n channels tells n tokens apart."""
    encoding = create_encoding(name, head_dim=8, heads=1, axes=1)
    n = int(encoding.periods[0])
    q, keys = torch.randn(1, 1, 1, 8 * encoding.waves_in), torch.randn(1, 1, n + 2, 8)
    positions = grid_positions(n + 2)

    def decode(t: int) -> None:
        here = positions[t - 1 : t] if newest else positions[:t]
        encoding.decode(q, keys[:, :, :t], keys[:, :, :t], here)

    with warnings.catch_warnings(action="error"):
        decode(n)
    with pytest.warns(UserWarning, match="aliased offsets on axis 0"):
        decode(n + 1)
    with warnings.catch_warnings(action="error"):
        decode(n + 2)


@pytest.mark.parametrize("change", ["in place", "through a view"])
def test_positions_that_changed_are_looked_at_again(change: str) -> None:
    """What is known of a tensor of positions is kept, and ends with the next change of its numbers."""
    encoding = create_encoding("roll", head_dim=64, heads=1, axes=1)
    x, positions = torch.randn(1, 1, 9, 64), grid_positions(9)
    with warnings.catch_warnings(action="error"):
        encoding.encode(x, positions)
    positions.mul_(10) if change == "in place" else positions[8:].fill_(80)
    with pytest.warns(UserWarning, match="81 tokens need at least 161"):
        encoding.encode(x, positions)


def test_the_cosine_treatment_keeps_neither_norm_nor_relativity_between_integers() -> None:
    encoding = create_encoding("continuous-roll", head_dim=8, heads=1, axes=1, nyquist="cosine")
    assert not encoding.relative
    x = draw(1, 1, 2, 8)
    half = torch.tensor([[0.5], [1.5]], dtype=torch.double)
    assert worst(encoding.encode(x, half).norm(dim=-1), x.norm(dim=-1)) > 1e-3
    assert worst(encoding.scores(x, x, half), encoding.scores(x, x, half + 0.5)) > 1e-3
    for n in (5, 7):
        odd = create_encoding("continuous-roll", head_dim=n, heads=1, axes=1, nyquist="cosine")
        assert odd.relative


@pytest.mark.parametrize(("scale", "factor"), [("none", 1.0), ("sqrt", 3**-0.5), ("mean", 1 / 3)])
def test_the_scale_of_three_waves_divides_their_sum(scale: str, factor: float) -> None:
    multiplexed = create_encoding("multiplexed-roll", head_dim=10, heads=2, waves=3, scale=scale)
    x = draw(2, 2, 1, 30)
    wanted = factor * x.unflatten(-1, (3, 10)).sum(-2)  # where nothing is rolled
    assert worst(multiplexed.encode(x, torch.zeros(1, 2)), wanted) < 1e-12


def test_one_wave_is_the_roll_and_relative_two_are_not() -> None:
    one = create_encoding("multiplexed-roll", head_dim=10, heads=2, waves=1)
    roll = create_encoding("roll", head_dim=10, heads=2)
    x, positions = draw(2, 2, 6, 10), grid_positions(2, 3)
    assert torch.equal(one.encode(x, positions), roll.encode(x, positions))
    assert one.relative
    assert not create_encoding("multiplexed-roll", head_dim=10, heads=2).relative


@pytest.mark.parametrize("channels", [1, 7, 12, 60, 64, 68, 145])
@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_a_sheet_is_as_even_as_its_divisors_allow(channels: int, axes: int) -> None:
    divisors = [size for size in range(1, channels + 1) if channels % size == 0]
    sizes = combinations_with_replacement(divisors, axes)  # in order, the later the more even
    assert even_division(channels, axes) == [s for s in sizes if math.prod(s) == channels][-1]


@pytest.mark.parametrize("head_dim", [15, 16, 30])
@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("width", [None, 5, 6])
def test_the_twin_with_absorbed_weights_has_the_scores_of_roll(
    head_dim: int, direction: int, width: int | None
) -> None:
    options = {"head_dim": head_dim, "heads": 3, "direction": direction, "width": width}
    roll, twin = create_encoding("roll", **options), create_encoding("roll-twin", **options)
    x, w_q, w_k = draw(2, 21, 9), draw(3 * head_dim, 9, seed=1), draw(3 * head_dim, 9, seed=2)
    positions = grid_positions(4, 5) * 3 - 7

    def project(weight: Tensor) -> Tensor:
        return (x @ weight.T).unflatten(-1, (3, head_dim)).transpose(1, 2)

    wanted = roll.scores(project(w_q), project(w_k), positions)
    q, k = twin(project(twin.absorb(w_q)), project(twin.absorb(w_k)), positions)
    assert worst(q @ k.mT * head_dim**-0.5, wanted) < 1e-12
    bias = draw(3 * head_dim, seed=3)
    assert worst(twin.absorb(bias), twin.absorb(bias[:, None])[:, 0]) < 1e-14


def test_the_twin_is_exact_a_million_tokens_away() -> None:
    twin = create_encoding("roll-twin", head_dim=32, heads=1, axes=1)
    x = draw(1, 1, 3, 32).float()
    near, far = torch.tensor([[1.0], [5.0], [7.0]]), torch.tensor([[1.0], [5.0], [7.0]]) + 32 * 2**15
    assert torch.equal(twin.encode(x, near), twin.encode(x, far))


@pytest.mark.parametrize("wavelength", [1.0, -0.5])
@pytest.mark.parametrize("nyquist", ["fixed", "twist"])
def test_a_continuous_roll_keeps_its_digits_a_hundred_thousand_tokens_away(
    nyquist: str, wavelength: float
) -> None:
    """In single precision angles that are not reduced first would change the result by hundredths."""
    encoding = create_encoding(
        "continuous-roll", head_dim=32, heads=1, axes=1, nyquist=nyquist, wavelength=wavelength
    )
    x, near = draw(1, 1, 3, 32).float(), torch.tensor([[1.0], [5.5], [7.25]])
    assert worst(encoding.encode(x, near), encoding.encode(x, near + 32 * 2**12)) < 1e-5


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("roll", {"width": 9}, "width=9"),
        ("roll", {"width": (4, 5)}, "width=(4, 5)"),
        ("roll", {"width": ()}, "width=()"),
        ("roll", {"width": (8, 0)}, "width=(8, 0)"),
        ("twisted-roll", {"width": 5, "twist": 0.25}, "width=5"),
        ("twisted-roll", {"width": (3, 3), "twist": 0.25}, "width=(3, 3)"),
        ("twisted-roll", {"twist": 0.25, "axes": 16}, "twist=0.25 needs two rings"),
        ("roll", {"direction": 2}, "direction=2"),
        ("continuous-roll", {"nyquist": "none"}, "nyquist='none'"),
        ("continuous-roll", {"wavelength": 0}, "wavelength=0"),
        ("continuous-roll", {"nyquist": "paired", "width": 7}, "width=7"),
        ("continuous-roll", {"nyquist": "paired", "width": 6}, "width=6"),
        ("continuous-roll", {"nyquist": "odd", "width": 0}, "width=0"),
        ("continuous-roll", {"direction": 0}, "direction=0"),
        ("multiplexed-roll", {"waves": 0}, "waves=0"),
        ("multiplexed-roll", {"scale": "half"}, "scale='half'"),
        ("multiplexed-roll", {"waves": 3, "speeds": (1, 2)}, "speeds=(1, 2)"),
        ("multiplexed-roll", {"speeds": (1, 1.5)}, "speeds=(1, 1.5)"),
        ("torus-roll", {"sheet": (5, 5)}, "sheet=(5, 5)"),
        ("torus-roll", {"sheet": (16,)}, "sheet=(16,)"),
        ("torus-roll", {"sheet": (0, 4)}, "sheet=(0, 4)"),
    ],
)
def test_impossible_options_are_refused_in_one_line(name: str, options: dict, says: str) -> None:
    with pytest.raises(InputError) as caught:
        create_encoding(name, **({"head_dim": 16, "heads": 1, "axes": 2} | options))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_the_largest_rings_fill_an_axis_and_two_share_one_by_default() -> None:
    """Eight channels on each axis."""
    assert create_encoding("continuous-roll", head_dim=16, heads=1, axes=2, nyquist="paired").width == 4
    create_encoding("roll", head_dim=16, heads=1, axes=2, width=(3, 5))
    assert create_encoding("twisted-roll", head_dim=18, heads=1, axes=2, twist=0.25).width == 4


def test_a_pair_turned_by_the_golden_angle_never_repeats() -> None:
    with warnings.catch_warnings(action="error"):
        create_encoding("twisted-roll", head_dim=12, heads=1, axes=1, twist=GOLDEN, grid=(10**6,))
