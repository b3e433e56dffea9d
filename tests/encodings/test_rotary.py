"""The rotary family, axial-rope's relatives: against explicit rotations, and what each promises."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rollpe.encodings import Encoding, create_encoding, grid_positions
from rollpe.encodings.frequencies import (
    dynamic,
    geometric,
    llama3,
    longrope,
    ntk,
    ring,
    yarn,
    yarn_temperature,
)
from rollpe.errors import InputError

HEADS = 3
GRID = (3, 5)


def build(name: str, head_dim: int = 16, seed: int = 0, **options: object) -> Encoding:
    torch.manual_seed(seed)
    axes, grid = (1, (15,)) if name in ("rope", "xpos") else (2, GRID)
    return create_encoding(name, head_dim=head_dim, heads=HEADS, axes=axes, grid=grid, **options).double()


def positions_of(name: str) -> Tensor:
    return grid_positions(15) if name in ("rope", "xpos") else grid_positions(*GRID)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# rope


@pytest.mark.parametrize("name", ["rope", "axial-rope"])
def test_the_usual_frequencies_are_equal_ratios_between_their_ends_and_can_be_listed(name: str) -> None:
    plain, like = build(name), torch.zeros((), dtype=torch.double)
    usual = plain.theta(like)
    ends = [2 * math.pi / usual[0].item(), 2 * math.pi / usual[-1].item()]
    torch.testing.assert_close(build(name, wavelengths=ends).theta(like), usual)
    torch.testing.assert_close(build(name, frequencies=usual.tolist()).theta(like), usual)
    steps = build(name, frequencies="arithmetic").theta(like).diff()
    torch.testing.assert_close(steps, ((usual[-1] - usual[0]) / len(steps)).expand(len(steps)))


def test_equal_steps_over_the_rings_range_are_the_frequencies_of_a_ring() -> None:
    encoding = build("axial-rope", 24, frequencies="arithmetic", wavelengths=(2, 12))
    found = encoding.theta(torch.zeros((), dtype=torch.double)).flip(0)
    torch.testing.assert_close(found, ring(12)[1:])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_rotation_takes_queries_in_any_memory_layout_and_leaves_them_unchanged(layout: str) -> None:
    """Odd strides and offsets cannot be read as complex numbers."""
    encoding = build("rope", 8, layout=layout)
    placed = encoding.precompute(positions_of("rope"), noise(2, HEADS, 15, 8))
    wide, fused, flat = noise(2, HEADS, 15, 9), noise(2, 15, 3, HEADS, 8), noise(2 * HEADS * 15 * 8 + 1)
    for q in (
        wide[..., 1:],
        wide[..., :8],
        fused.permute(2, 0, 3, 1, 4)[1],
        noise(8, 2, HEADS, 15).permute(1, 2, 3, 0),
        flat[1:].view(2, HEADS, 15, 8),
        noise(2, 1, 15, 8).expand(2, HEADS, 15, 8),
    ):
        before = q.clone()
        turned = encoding.encode(q, placed)
        torch.testing.assert_close(turned, encoding.encode(before, placed), rtol=0, atol=1e-15)
        assert torch.equal(q, before)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_rotations_work_under_torch_func(layout: str) -> None:
    encoding, q = build("rope", layout=layout), noise(4, HEADS, 15, 16)
    placed = encoding.precompute(positions_of("rope"), q)
    turned = torch.func.vmap(lambda x: encoding.encode(x[None], placed)[0])(q)
    torch.testing.assert_close(turned, encoding.encode(q, placed))
    _, tangent = torch.func.jvp(lambda x: encoding.encode(x, placed), (q,), (q,))
    torch.testing.assert_close(tangent, turned)


# rope for longer sequences, and xpos


def test_xpos_holds_the_range_of_positions_that_it_states_and_refuses_others() -> None:
    xpos = build("xpos").float()
    for dtype, reach in ((torch.float32, 69), (torch.bfloat16, 69), (torch.float16, 7)):
        q = noise(1, HEADS, 2, 16).to(dtype)
        ends = 512 * torch.tensor([[-reach], [reach]])
        tables = xpos.precompute(ends, q).tables
        assert all(table.to(dtype).isfinite().all() and table.norm(dim=0).min() > 0 for table in tables)
        with pytest.raises(InputError, match=r"position .* is beyond ±.*subtract the same number"):
            xpos.encode(q, ends * 1.2)


four = geometric(4, 20.0)
LONGER = {
    "ntk": {"frequencies": ntk(four, 4.0)},
    "dynamic": {"frequencies": dynamic(four, 3.0, 8)},
    "yarn": {"frequencies": yarn(four, 4.0, 64, 8.0, truncate=False), "temperature": yarn_temperature(4.0)},
    "llama3": {"frequencies": llama3(four, 8.0, 64, low=0.5)},
    "longrope": {"frequencies": longrope(four, 8, [1.1] * 4, [1, 2, 3, 5]), "temperature": 1.2},
}
OF_LENGTH = "dynamic", "longrope"


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("scaling", LONGER)
def test_scaled_rope_is_its_reference_for_each_sequence_by_itself(scaling: str, layout: str) -> None:
    """On 8 of 11 channels, with two tokens without a position, and lengths on both sides of ``trained``."""
    encoding = build("rope", 11, layout=layout, **LONGER[scaling])
    short, long = 0.5 * positions_of("rope").double(), positions_of("rope").double()
    q, k = noise(2, 2, HEADS, 17, 11)
    both = torch.stack((short, long))
    turned = encoding.encode(q, both)
    torch.testing.assert_close(
        turned, encoding.reference(q, encoding.full_positions(both, q)), rtol=0, atol=1e-13
    )
    for row, alone in enumerate((short, long)):
        torch.testing.assert_close(turned[row : row + 1], encoding.encode(q[row : row + 1], alone))
    weights = encoding.scores(q, k, both).softmax(-1)
    torch.testing.assert_close(encoding.weights(q, k, both), weights, rtol=0, atol=1e-13)
    torch.testing.assert_close(turned[..., 8:], q[..., 8:])


@pytest.mark.parametrize("scaling", LONGER)
def test_a_scaling_is_relative_if_it_says_so_and_changes_norms_by_its_temperature(
    scaling: str,
) -> None:
    encoding = build("rope", 8, **LONGER[scaling])
    q, k = noise(2, 1, HEADS, 15, 8)
    here, there = (encoding.scores(q, k, positions_of("rope").double() / 2 + shift) for shift in (0, 9))
    assert torch.allclose(here, there, atol=1e-10) == encoding.relative == (scaling not in OF_LENGTH)
    turned = encoding.encode(q, positions_of("rope"))
    wanted = q.norm(dim=-1) * LONGER[scaling].get("temperature", 1.0)
    torch.testing.assert_close(turned.norm(dim=-1), wanted)


# learned frequencies

STARTS = [
    ("rope", {"frequencies": geometric(4, 50.0) / 2}),
    ("rope", {"frequencies": "arithmetic", "wavelengths": (2, 16), "layout": "half"}),
    ("axial-rope", {}),
    ("axial-rope", {"frequencies": (1.0, 0.5, 0.25, -0.1)}),
]


@pytest.mark.parametrize(("name", "options"), STARTS)
def test_learned_frequencies_start_at_the_fixed_ones_and_train(name: str, options: dict) -> None:
    fixed, learned = build(name, **options), build(name, learn_frequencies=True, **options)
    q, positions = noise(1, HEADS, 15, 16), positions_of(name)
    assert learned.learned and not fixed.learned and not fixed.state_dict()
    torch.testing.assert_close(learned.encode(q, positions), fixed.encode(q, positions), atol=1e-5, rtol=1e-5)
    ((parameter, omega),) = learned.named_parameters()
    assert (
        learned.no_weight_decay() == {parameter} and omega.shape == (learned.pairs,) == learned.theta(q).shape
    )
    slow, fast = (
        torch.autograd.grad(out.pow(3).sum(), omega)[0]
        for out in (learned.reference(q, learned.full_positions(positions, q)), learned.encode(q, positions))
    )
    assert slow.abs().min() > 0
    torch.testing.assert_close(fast, slow)


@pytest.mark.parametrize(("name", "options"), STARTS)
def test_learned_frequencies_start_anew_where_they_started(name: str, options: dict) -> None:
    fixed, learned = (build(name, learn_frequencies=learn, **options).float() for learn in (False, True))
    torch.nn.init.zeros_(learned.learned_frequencies)
    learned.reset_parameters()
    fixed.reset_parameters()
    assert torch.equal(learned.learned_frequencies, fixed.theta(torch.zeros(())))


@pytest.mark.parametrize("name", ["rope", "axial-rope"])
def test_every_layer_learns_frequencies_of_its_own(name: str) -> None:
    layers = [build(name, learn_frequencies=True) for _ in range(2)]
    torch.nn.init.normal_(layers[1].learned_frequencies)
    q, positions = noise(1, HEADS, 15, 16), positions_of(name)
    placed = layers[0].precompute_layers(layers, positions, q)
    for one, layer in zip(placed, layers, strict=True):
        torch.testing.assert_close(one.tables, layer.precompute(positions, q).tables)
    assert not torch.allclose(placed[0].tables[0], placed[1].tables[0])


# mixed-rope


def test_mixed_rope_starts_from_two_bundles_at_a_right_angle_turned_at_random_per_head() -> None:
    encoding = build("mixed-rope", 16)
    start = encoding.frequencies.detach()
    assert start.shape == (HEADS, 2, 8)
    first, second = start[..., :4], start[..., 4:]
    speed = 10.0 ** (-4 * torch.arange(4).double() / 16)
    torch.testing.assert_close(first.norm(dim=1), speed.expand(HEADS, 4), rtol=1e-6, atol=0)
    torch.testing.assert_close(second.norm(dim=1), speed.expand(HEADS, 4), rtol=1e-6, atol=0)
    assert (first * second).sum(1).abs().max() < 1e-6
    turn = torch.atan2(first[:, 0], first[:, 1])
    quarter = torch.atan2(second[:, 0], second[:, 1]) - turn
    torch.testing.assert_close(quarter.sin(), torch.ones(HEADS, 4).double())
    assert turn.std(1).max() < 1e-6 < 0.1 < turn.std(0).min()
    assert not torch.equal(start, build("mixed-rope", 16, seed=1).frequencies)


# uniform-rope


def test_a_given_frequency_replaces_the_grid() -> None:
    same = create_encoding("uniform-rope", head_dim=8, heads=1, frequency=2 * math.pi / 5)
    grid = create_encoding("uniform-rope", head_dim=8, heads=1, grid=(5, 5))
    q = noise(1, 1, 15, 8)
    torch.testing.assert_close(*(e.encode(q, grid_positions(*GRID)) for e in (same, grid)))


# spherical-rope


# what is refused


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("rope", {"axes": 2}, "use 'axial-rope'"),
        ("rope", {"axes": 1, "layout": "odd"}, "one of interleaved, half"),
        ("rope", {"axes": 1, "base": 0}, "must be positive"),
        ("rope", {"axes": 1, "head_dim": 1}, "use at least 2"),
        ("rope", {"axes": 1, "frequencies": geometric(5)}, "must be 1 to 4 numbers"),
        ("rope", {"axes": 1, "frequencies": []}, "must be 1 to 4 numbers"),
        ("rope", {"axes": 2, "frequencies": [1.0]}, "use 'axial-rope'"),
        ("rope", {"axes": 2, "frequencies": torch.ones(4, 3)}, r"\[4, 3\] do not fit axes=2"),
        ("rope", {"axes": 2, "frequencies": torch.ones(3, 4, 2)}, "3 heads do not fit heads=1"),
        ("rope", {"axes": 2, "frequencies": dynamic(four, 2.0, 8)}, "do not fit axes=2"),
        ("rope", {"frequencies": dynamic(four, 2.0, 8), "learn_frequencies": True}, "is not learned"),
        ("rope", {"axes": 1, "frequencies": 3}, "must be a word or a list .* or a tensor or a function"),
        ("rope", {"axes": 1, "temperature": 0.0}, "must be positive"),
        ("axial-rope", {"frequencies": torch.ones(2, 2)}, "give other tables to 'rope'"),
        ("axial-rope", {"frequencies": [1.0, 0.5], "wavelengths": [2, 8]}, "without wavelengths"),
        ("axial-rope", {"frequencies": "harmonic"}, "'geometric', 'arithmetic'"),
        ("axial-rope", {"wavelengths": [8, 2]}, "the shortest wave and the longest"),
        ("xpos", {"axes": 2}, "has one axis"),
        ("xpos", {"axes": 1, "span": 0}, "must be positive"),
        ("mixed-rope", {"axes": 3}, "use 'lie' with block=2"),
        ("mixed-rope", {"head_dim": 6}, "multiple of 4"),
        ("mixed-rope", {"base": -1}, "must be positive"),
        ("uniform-rope", {}, "give grid="),
        ("uniform-rope", {"head_dim": 3, "frequency": 1.0}, "use at least 4"),
        ("spherical-rope", {}, "give grid="),
        ("spherical-rope", {"axes": 3, "grid": (2, 2, 2)}, "use 'lie'"),
        ("spherical-rope", {"head_dim": 2, "frequency": 1.0}, "use at least 3"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_with_a_way_out(
    name: str, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        create_encoding(name, **({"head_dim": 8, "heads": 1} | settings))
