"""What every registered encoding promises, checked against every registered encoding.

Here: properties stated for all. Not here: what one family alone does (test_roll.py, test_rotary.py, …).
Only pairs of tokens that both have a position take part in claims about shifts.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from itertools import product
from typing import Literal
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe import formulas
from rollpe.encodings import (
    ENCODINGS,
    Encoding,
    changed_options,
    create_encoding,
    encoding_options,
    grid_positions,
)
from rollpe.encodings.base import PositionTables
from rollpe.encodings.biases import ScoreBias
from rollpe.encodings.frequencies import dynamic, geometric, ntk
from rollpe.encodings.roll import on_ring
from rollpe.encodings.sdpa import SHORT, Masking, attention
from rollpe.errors import InputError
from rollpe.ring import NYQUIST

pytestmark = [
    pytest.mark.filterwarnings("ignore:aliased offsets"),
    pytest.mark.filterwarnings("ignore:.*acts on tokens"),
    pytest.mark.filterwarnings("ignore:.*without one, as class tokens are"),
]

GRIDS = {1: (6,), 2: (2, 4), 3: (2, 2, 2)}
ONLY_AXES = {"rope": (1,), "xpos": (1,), "mixed-rope": (2,), "spherical-rope": (2,), "alibi+rope": (1,)}
JOINED = ("learned+axial-rope", "sinusoidal+roll", "alibi+rope", "learned+t5-bias+continuous-roll")
HEAD_DIM, HEADS, PREFIX = 12, 2, 2
CASES = [
    pytest.param(name, axes, id=f"{name}-{axes}d")
    for name in (*ENCODINGS, *JOINED)
    for axes in ONLY_AXES.get(name, (1, 2, 3))
]
ON_ONE_AXIS = [case.values[0] for case in CASES if case.values[1] == 1]


def build(name: str, axes: int, seed: int = 0, **options) -> Encoding:
    torch.manual_seed(seed)
    shape = {"head_dim": HEAD_DIM, "heads": HEADS, "axes": axes, "grid": GRIDS[axes]}
    made = create_encoding(name, **shape | options)
    for parameter in made.parameters():  # away from a start so small that it hides an error
        nn.init.normal_(parameter, std=0.5)
    return made.double()


def inputs(encoding: Encoding, seed: int = 0, prefix: int = PREFIX) -> tuple[Tensor, ...]:
    """Random q, k, v [2, heads, N, ·] and positions [M, axes] that are not a whole grid."""
    generator = torch.Generator().manual_seed(100 + seed)
    positions = grid_positions(*GRIDS[encoding.axes])[1:].double()
    if encoding.real_positions:
        positions = positions + torch.rand(positions.shape, generator=generator, dtype=torch.double) - 0.5
    tokens = prefix + len(positions)

    def draw(channels: int) -> Tensor:
        return torch.randn(2, HEADS, tokens, channels, generator=generator, dtype=torch.double)

    wide = encoding.waves_in * encoding.head_dim
    return draw(wide), draw(wide), draw(encoding.head_dim), positions


def marked(encoding: Encoding, x: Tensor, positions: Tensor) -> Tensor:
    """Queries or keys of tokens to which the encoding has been added; x itself if it adds nothing."""
    if encoding.acts_on not in ("tokens", "both"):
        return x
    tokens = encoding.add(x.transpose(1, 2).flatten(2), positions)
    return tokens.unflatten(2, (HEADS, -1)).transpose(1, 2)


def scores(encoding: Encoding, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
    return encoding.scores(marked(encoding, q, positions), marked(encoding, k, positions), positions)


def attend(encoding: Encoding, q: Tensor, k: Tensor, v: Tensor, positions: Tensor | PositionTables) -> Tensor:
    given = positions.positions if isinstance(positions, PositionTables) else positions
    return encoding.attend(marked(encoding, q, given), marked(encoding, k, given), v, positions)


def transforms(encoding: Encoding) -> bool:
    return encoding.acts_on == "scores" and not isinstance(encoding, ScoreBias)


def worst(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


with warnings.catch_warnings(action="ignore"):  # some of these rings are short, which test_roll.py looks into
    BUILT = [(case, build(*case.values)) for case in CASES]
GROUPS = [case for case, encoding in BUILT if transforms(encoding) and encoding.relative]
LOOKING = [case for case, encoding in BUILT if encoding.acts_on != "nothing"]
CODES = [case for case, encoding in BUILT if encoding.acts_on == "tokens"]


@pytest.mark.parametrize("tokens", [SHORT, SHORT + 1])
def test_compiled_training_on_a_cpu_takes_plain_products_for_few_keys(tokens: int) -> None:
    """Of values narrower than keys, as an encoding may have them: equal results, equal gradients."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 2, HEADS, tokens, HEAD_DIM, generator=generator, dtype=torch.double)
    v = torch.randn(2, HEADS, tokens, 5, generator=generator, dtype=torch.double)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    fused = []

    def look(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        fused.append(any("scaled_dot_product" in str(node.target) for node in graph.graph.nodes))
        return graph

    def results(attend: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        out = attend(*leaves, Masking(), scale=0.3)
        return out, *torch.autograd.grad(out.square().sum(), leaves)

    compiled = torch.compile(attention, backend=look, dynamic=False)
    torch.testing.assert_close(results(compiled), results(attention))
    with torch.no_grad():
        arguments = (q, k, v, Masking())
        torch.testing.assert_close(compiled(*arguments, scale=0.3), attention(*arguments, scale=0.3))
    assert fused == [tokens > SHORT, True]
    dropped = torch.compile(attention, backend="eager")(*leaves, Masking(dropout_p=1.0), scale=1.0)
    assert dropped.abs().max() == 0


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("name", "axes"), CASES)
def test_a_joint_shift_leaves_scores_alone_exactly_if_the_encoding_is_relative(
    name: str, axes: int, seed: int
) -> None:
    encoding = build(name, axes, seed)
    q, k, _, positions = inputs(encoding, seed)
    shift = torch.tensor([2.0, -1.0, 3.0][:axes], dtype=torch.double)
    if encoding.real_positions:
        shift = shift + 0.37
    before, after = (scores(encoding, q, k, p)[..., PREFIX:, PREFIX:] for p in (positions, positions + shift))
    assert (worst(before, after) < 1e-9) == encoding.relative
    assert encoding.relative or worst(before, after) > 1e-3


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_heads_of_another_width_and_another_number_of_heads_are_refused(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    x = v.repeat(1, 1, 1, 2 * encoding.waves_in)
    placed = encoding.precompute(grid_positions(*GRIDS[axes]), v[..., 1:, :], GRIDS[axes])
    for refuses in (
        lambda: encoding(x, x, positions),
        lambda: encoding.attend(x, x, v, placed),
        lambda: encoding.weights(x, x, positions),
        lambda: encoding.encode(x, positions),
    ):
        with pytest.raises(InputError, match=f"{x.shape[-1]} channels: .*head_dim={HEAD_DIM}"):
            refuses()
    for arguments in (
        (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)),
        (q[:, :1], k[:, :1], v[:, :1]),
        (q, k.repeat(1, 2, 1, 1), v),
        (q, k, v[:, [0, 1, 1]]),
    ):
        with pytest.raises(InputError, match=f"heads={HEADS}"):
            encoding.attend(*arguments, positions)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("name", "axes"), CASES)
def test_the_fast_path_equals_softmax_of_the_reference_scores(name: str, axes: int, seed: int) -> None:
    encoding = build(name, axes, seed)
    q, k, v, positions = inputs(encoding, seed)
    if name == "shaw-kv":  # moves values too, which test_biases.py holds to its own formula
        nn.init.zeros_(encoding.values)
    for p in (positions, torch.stack((positions, positions.flip(0) + 1))):
        expected = scores(encoding, q, k, p).softmax(-1) @ v
        assert worst(attend(encoding, q, k, v, p), expected) < 1e-12
        assert worst(attend(encoding, q, k, v, encoding.precompute(p, k)), expected) < 1e-12


OPTIONS = [
    ("rope", {"base": 50.0}),
    ("rope", {"layout": "half"}),
    ("rope", {"frequencies": ntk(geometric(4), 4.0), "temperature": 1.3}),
    ("rope", {"frequencies": dynamic(geometric(6), 4.0, 3)}),
    ("xpos", {"base": 50.0, "gamma": 0.2, "span": 9.0}),
    ("axial-rope", {"base": 7.0}),
    ("axial-rope", {"frequencies": "arithmetic", "wavelengths": [3, 40]}),
    ("rope", {"frequencies": [2.0, 0.0, -0.3, 1.0, 3.0, 0.1]}),
    ("mixed-rope", {"base": 3.0}),
    ("uniform-rope", {"frequency": 0.7}),
    ("spherical-rope", {"base": 5.0, "frequency": 0.7}),
    ("uniform-rope", {"head_dim": 11}),
    ("spherical-rope", {"head_dim": 7}),
    ("xpos", {"head_dim": 9}),
    ("lie", {"block": 2}),
    ("lie", {"block": 3}),
    ("roll", {"width": 5, "direction": -1}),
    ("roll", {"width": (2, 3)}),
    ("twisted-roll", {"width": 4, "direction": -1}),
    ("twisted-roll", {"width": (3, 2)}),
    ("twisted-roll", {"twist": 1 / 7, "direction": -1}),
    ("twisted-roll", {"twist": 0.0}),
    ("twisted-roll", {"twist": 0.6180339887498949, "width": 2}),
    *(("continuous-roll", {"nyquist": n, "wavelength": 1.7, "direction": -1}) for n in NYQUIST),
    *(("continuous-roll", {"nyquist": n, "width": 2}) for n in NYQUIST),
    ("multiplexed-roll", {"waves": 3, "scale": "sqrt", "speeds": (1, -2, 3), "direction": -1}),
    ("multiplexed-roll", {"scale": "mean", "width": 5}),
    ("torus-roll", {"sheet": (2, 5), "direction": -1}),
    ("roll-twin", {"width": 5, "direction": -1}),
    ("shaw", {"clip": 1}),
    ("t5-bias", {"buckets": 6, "max_distance": 3}),
    ("t5-bias", {"buckets": 5, "max_distance": 4, "bidirectional": False}),
]


def fast_path_is_the_reference(encoding: Encoding) -> bool:
    """In values and gradients, for positions that all images share or that differ."""
    q, k, _, shared = inputs(encoding)
    leaves = [x.requires_grad_() for x in (q, k, *encoding.parameters())]
    pull = torch.randn(2, HEADS, q.shape[2], k.shape[2], dtype=torch.double)
    gaps = []
    for positions in (shared, torch.stack((shared, shared.flip(0) + 1))):
        both = encoding.scores(q, k, positions).softmax(-1), encoding.weights(q, k, positions)
        slow, fast = (
            torch.autograd.grad((weights * pull).sum(), leaves, allow_unused=True, materialize_grads=True)
            for weights in both
        )
        gaps += [worst(*both), *map(worst, slow, fast)]
        if transforms(encoding):
            by_reference = encoding.reference(q, encoding.full_positions(positions, q))
            gaps.append(worst(encoding.encode(q, positions), by_reference))
    return max(gaps) < 1e-12


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_the_fast_path_is_the_reference(name: str, axes: int) -> None:
    assert fast_path_is_the_reference(build(name, axes))


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_the_fast_path_is_the_reference_with_every_option(name: str, options: dict) -> None:
    assert fast_path_is_the_reference(build(name, *ONLY_AXES.get(name, (2,)), **options))


def code_by_hand(encoding: Encoding, positions: Tensor) -> Tensor:
    """Axis by axis: the number, sines and cosines, or vectors weighted by the distance of their places."""
    channels, parts = HEADS * HEAD_DIM, []
    if encoding.name == "learned":
        weights = torch.ones(*positions.shape[:-1], 1, dtype=torch.double)
        for p, size in zip(positions.unbind(-1), encoding.grid, strict=True):
            along = formulas.one_hot_code(p.clamp(0, size - 1), size)
            weights = (weights[..., :, None] * along[..., None, :]).flatten(-2)  # [..., M, places]
        return weights @ encoding.table
    for p in positions.unbind(-1):
        part = [p]
        if encoding.name == "sinusoidal":
            c = channels // encoding.axes // 2 * 2
            angles = [p * encoding.base ** (-i / c) for i in range(0, c, 2)]
            part = [encoding.scale * wave for angle in angles for wave in (angle.sin(), angle.cos())]
        parts += part + [0 * p] * (channels // encoding.axes - len(part) if encoding.name == "integer" else 0)
    return torch.stack(parts + [0 * p] * (channels - len(parts)), -1)


@pytest.mark.parametrize(("name", "axes"), CODES)
def test_tokens_get_the_code_of_the_textbook(name: str, axes: int) -> None:
    """Within the grid, between its places and beyond its edge; the tokens without a position get none."""
    encoding = build(name, axes)
    shared = grid_positions(*GRIDS[axes]).double()
    shared[1:-1] += 0.3 * torch.rand_like(shared[1:-1])
    shared[0], shared[-1] = -1.3, 7.6
    for positions in (shared, torch.stack((shared, shared.flip(0)))):
        tokens = torch.randn(2, PREFIX + len(shared), HEADS * HEAD_DIM, dtype=torch.double)
        leaves = [tokens.requires_grad_(), *encoding.parameters()]
        expected = tokens + F.pad(code_by_hand(encoding, positions), (0, 0, PREFIX, 0))
        got = encoding.add(tokens, positions)
        assert worst(got, expected) < 1e-12
        for one, other in zip(
            *(torch.autograd.grad(x.pow(3).sum(), leaves) for x in (got, expected)), strict=True
        ):
            assert worst(one, other) < 1e-11


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_no_images_and_one_token_are_as_good_as_many(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    assert attend(encoding, q[:0], k[:0], v[:0], positions).shape == v[:0].shape
    assert scores(encoding, q[:0], k[:0], positions).shape == (0, HEADS, v.shape[2], v.shape[2])
    one = (x[:, :, -1:] for x in (q, k, v))
    assert attend(encoding, *one, positions[-1:]).shape == v[:, :, :1].shape


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_an_encoding_without_numbers_knows_shapes_and_gets_its_numbers_from_a_state_dict(
    name: str, axes: int
) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    with torch.device("meta"):
        empty = create_encoding(name, head_dim=HEAD_DIM, heads=HEADS, axes=axes, grid=GRIDS[axes]).double()
    out = attend(empty, *(x.to("meta") for x in (q, k, v, positions)))
    assert out.is_meta and out.shape == v.shape
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(encoding.state_dict())
    assert torch.equal(attend(filled, q, k, v, positions), attend(encoding, q, k, v, positions))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("name", "axes"), CASES)
def test_half_precision_comes_back_in_kind_and_close_to_float64_even_far_from_the_origin(
    name: str, axes: int, dtype: torch.dtype
) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    far = 0 if name == "integer" else 200  # 200·ω in half precision would be off by half a radian
    positions = positions.round() + far  # as a code, 200 itself leaves few digits of the token
    q, k, v = (x.to(dtype) for x in (q, k, v))
    exact = encoding(q.double(), k.double(), positions)
    exact_out = attend(encoding, q.double(), k.double(), v.double(), positions)
    single = copy.deepcopy(encoding).float()
    coarse = single(q, k, positions.float())
    with torch.autocast("cpu", dtype=dtype):
        coarse_out = attend(single, q, k, v, positions.float())
    step = torch.finfo(dtype).eps
    for got, want in zip((*coarse, coarse_out), (*exact, exact_out), strict=True):
        assert got.dtype == dtype
        assert worst(got.double(), want) < 8 * step * want.abs().max()


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_norms_are_kept_by_all_but_xpos_and_sums_of_waves(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, _, positions = inputs(encoding)
    if encoding.waves_in > 1:
        return
    for before, after in zip((q, k), encoding(q, k, positions), strict=True):
        assert (worst(before.norm(dim=-1), after.norm(dim=-1)) < 1e-12) == (name != "xpos")


@pytest.mark.parametrize(("name", "axes"), GROUPS)
def test_relative_transforms_are_a_group_encoding_twice_adds_positions(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, _, _, positions = inputs(encoding, prefix=0)
    other = positions.flip(0) * 3
    if not encoding.real_positions:
        other = other.round()
    twice = encoding.encode(encoding.encode(q, positions), other)
    assert worst(twice, encoding.encode(q, positions + other)) < 1e-11
    back = encoding.encode(encoding.encode(q, positions), -positions)
    assert worst(back, q) < 1e-11
    assert worst(encoding.encode(q, 0 * positions), q) < 1e-12


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_shifted_keys_are_those_of_later_positions(name: str, axes: int) -> None:
    """Also with an offset for each key, of which the first have none, as they have no position."""
    encoding = build(name, axes)
    _, k, _, positions = inputs(encoding)
    if not encoding.relative or encoding.waves_in > 1:
        with pytest.raises(InputError, match="cannot be shifted: encode them anew"):
            encoding.shift_keys(k[..., :HEAD_DIM], 1)
        return
    by = torch.tensor([-3.0, 7.0, 2.0][:axes])
    alone = encoding.encode_keys(k[..., PREFIX:, :], positions)
    for offset in (by, by.item()) if axes == 1 else (by,):
        moved = encoding.shift_keys(alone, offset)
        assert worst(moved, encoding.encode_keys(k[..., PREFIX:, :], positions + by)) < 1e-11
    each = positions.flip(0).round()
    moved = encoding.shift_keys(encoding.encode_keys(k, positions), each)
    assert worst(moved, encoding.encode_keys(k, positions + each)) < 1e-11


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_tokens_without_a_position_know_nothing_of_positions(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, _, positions = inputs(encoding)
    other = positions.flip(0) + 1
    first, second = (scores(encoding, q, k, p)[..., :PREFIX, :PREFIX] for p in (positions, other))
    assert worst(first, second) < 1e-12
    tokens = torch.randn(2, PREFIX + len(positions), HEADS * HEAD_DIM, dtype=torch.double)
    assert torch.equal(encoding.add(tokens, positions)[:, :PREFIX], tokens[:, :PREFIX])
    for p in (positions, other):
        unmoved = encoding(q, k, p)[0][..., :PREFIX, :]
        alone = encoding(q[..., :PREFIX, :], k[..., :PREFIX, :], p[:0])[0]
        assert worst(unmoved, alone) < 1e-12


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_permuting_tokens_with_their_positions_permutes_the_scores(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    order = torch.randperm(len(positions), generator=torch.Generator().manual_seed(3))
    every = torch.cat((torch.arange(PREFIX), PREFIX + order))
    plain = scores(encoding, q, k, positions)
    mixed = scores(encoding, q[:, :, every], k[:, :, every], positions[order])
    assert worst(mixed, plain[:, :, every][..., every]) < 1e-12
    mixed = attend(encoding, *(x[:, :, every] for x in (q, k, v)), positions[order])
    assert worst(mixed, attend(encoding, q, k, v, positions)[:, :, every]) < 1e-12


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_causal_decoding_with_cached_keys_equals_attention_over_everything(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    q, k = marked(encoding, q, positions), marked(encoding, k, positions)
    whole = encoding.attend(q, k, v, positions, is_causal=True)
    tokens, keys, steps = q.shape[2], [], []
    for start, end in ((0, 1), (1, 4), *((t, t + 1) for t in range(4, tokens))):
        new = positions[max(0, start - PREFIX) : max(0, end - PREFIX)]
        keys.append(encoding.encode_keys(k[:, :, start:end], new))
        steps.append(
            encoding.decode(
                q[:, :, start:end],
                torch.cat(keys, 2),
                v[:, :, :end],
                new,
                key_positions=positions[: max(0, end - PREFIX)],
            )
        )
    assert worst(torch.cat(steps, 2), whole) < 1e-12


@pytest.mark.parametrize("name", ON_ONE_AXIS)
def test_decoding_from_a_cache_of_fixed_size_equals_attention_over_everything(name: str) -> None:
    """Positions and masks are those of the slots; an empty slot holds anything."""
    encoding = build(name, 1)
    q, k, v, positions = inputs(encoding, prefix=0)
    tokens = len(positions)
    slots = torch.arange(tokens + 5)
    whole = encoding.attend(q, k, v, slots[:tokens], is_causal=True)
    keys, values = (torch.full((*v.shape[:2], len(slots), HEAD_DIM), 7.0, dtype=v.dtype) for _ in "kv")
    for t in range(tokens):
        now = slots[t : t + 1]
        keys[:, :, now] = encoding.encode_keys(k[:, :, now], now)
        values[:, :, now] = v[:, :, now]
        cache = {"key_positions": slots, "attn_mask": slots <= now}
        out = encoding.decode(q[:, :, now], keys, values, now, **cache)
        assert worst(out, whole[:, :, now]) < 1e-12


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_scale_layout_and_grouping_are_those_of_torchs_attention(name: str, axes: int) -> None:
    """scale stands in for 1/√d everywhere; tokens before heads change nothing but the order of axes."""
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    larger = encoding.attend(3.0 * q, k, v, positions)
    scale = 3.0 * HEAD_DIM**-0.5
    assert worst(encoding.attend(q, k, v, positions, scale=scale), larger) < 1e-12
    assert (
        worst(encoding.weights(q, k, positions, scale=scale), encoding.weights(3.0 * q, k, positions)) < 1e-12
    )
    swapped = [x.transpose(1, 2) for x in (q, k, v)]
    out = encoding.attend(*swapped, positions, layout="bnhd", scale=scale)
    assert worst(out.transpose(1, 2), larger) < 1e-12
    for ours, theirs in zip(
        encoding(q, k, positions), encoding(*swapped[:2], positions, layout="bnhd"), strict=True
    ):
        assert torch.equal(ours, theirs.transpose(1, 2))
    with pytest.raises(InputError, match="need enable_gqa"):
        encoding.attend(q, k[:, :1], v[:, :1], positions, enable_gqa=False)
    with pytest.raises(InputError, match="layout='nhd' must be one of bhnd, bnhd"):
        encoding.attend(q, k, v, positions, layout="nhd")


@pytest.mark.parametrize("name", ON_ONE_AXIS)
def test_positions_on_one_axis_need_no_second_dimension(name: str) -> None:
    encoding = build(name, 1)
    q, k, v, positions = inputs(encoding)
    for function in (
        lambda p: attend(encoding, q, k, v, p),
        lambda p: scores(encoding, q, k, p),
        lambda p: encoding.attend(q, k, v, p, is_causal=True),
        lambda p: encoding.decode(q[:, :, -1:], encoding.encode_keys(k, p), v, p, key_positions=p),
    ):
        assert torch.equal(function(positions[:, 0]), function(positions))


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_what_cannot_be_right_is_refused(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, *_, positions = inputs(encoding)
    with pytest.raises(InputError, match="bfloat16, which rounds integers above 256"):
        encoding.precompute(positions.bfloat16(), q)
    ragged = torch.nested.nested_tensor([x[0] for x in (q, q)], layout=torch.jagged)
    for call in (encoding.forward, lambda q, k, p: encoding.attend(q, k, k, p)):
        with pytest.raises(InputError, match="nested tensors are not supported"):
            call(ragged, ragged, positions)


@pytest.mark.parametrize("name", ["learned", "shaw", "shaw-kv", "t5-bias", "mixed-rope", "lie"])
def test_parameters_are_drawn_anew_as_they_were_first(name: str) -> None:
    torch.manual_seed(1)
    encoding = create_encoding(name, head_dim=HEAD_DIM, heads=HEADS, grid=(2, 3))
    first = {key: value.clone() for key, value in encoding.state_dict().items()}
    for p in encoding.parameters():
        nn.init.constant_(p, 9.0)
    torch.manual_seed(1)
    encoding.reset_parameters()
    torch.testing.assert_close(encoding.state_dict(), first, rtol=0, atol=0)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_grouped_keys_and_values_are_those_of_every_head_of_their_group(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    q, k = marked(encoding, q, positions), marked(encoding, k, positions)[:, :1]
    v = v[:, :1]
    whole_k, whole_v = (x.repeat_interleave(HEADS, 1) for x in (k, v))
    for function in (
        lambda k, v: encoding.attend(q, k, v, positions, is_causal=True),
        lambda k, v: encoding.weights(q, k, positions),
        lambda k, v: encoding.scores(q, k, positions),
        lambda k, v: encoding.decode(
            q[:, :, -1:], encoding.encode_keys(k, positions), v, positions, key_positions=positions
        ),
        lambda k, v: encoding(q, k, positions)[1].expand(-1, HEADS, -1, -1),
    ):
        assert worst(function(k, v), function(whole_k, whole_v)) < 1e-12


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_cross_attention_is_attention_of_some_queries_to_all_keys(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    q, k = marked(encoding, q, positions), marked(encoding, k, positions)
    some = torch.tensor([len(positions) - 1, 0, 2])
    rows, here = PREFIX + some, positions[some]
    mask = torch.rand(q.shape[2], k.shape[2], generator=torch.Generator().manual_seed(4)) > 0.3
    for keep in (None, mask):
        kept = None if keep is None else keep[rows]
        crossed = encoding.attend(q[:, :, rows], k, v, here, key_positions=positions, attn_mask=kept)
        assert worst(crossed, encoding.attend(q, k, v, positions, attn_mask=keep)[:, :, rows]) < 1e-12
        crossed = encoding.weights(q[:, :, rows], k, here, key_positions=positions, attn_mask=kept)
        assert worst(crossed, encoding.weights(q, k, positions, attn_mask=keep)[:, :, rows]) < 1e-12
    for mine, whole in zip(
        encoding(q[:, :, rows], k, here, positions), encoding(q, k, positions), strict=True
    ):
        assert worst(mine, whole[:, :, rows] if len(rows) == mine.shape[2] else whole) < 1e-12
    with pytest.raises(InputError, match="key_positions"):
        encoding.attend(q[:, :, rows], k, v, here)


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_a_batch_padded_on_the_left_decodes_each_text_as_if_alone(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding, prefix=0)
    tokens, pad = len(positions), 3
    placed = torch.stack((positions, torch.cat((positions[-pad:], positions[:-pad]))))
    q, k = marked(encoding, q, placed), marked(encoding, k, placed)
    real = torch.arange(tokens) >= torch.tensor([[0], [pad]])
    keys = encoding.encode_keys(k, placed)
    decoded = encoding.decode(q[:, :, -2:], keys, v, placed, attn_mask=real[:, None, None])
    for text, start in enumerate((0, pad)):
        alone = (x[text : text + 1, :, start:] for x in (q, k, v))
        whole = encoding.attend(*alone, placed[text, start:], is_causal=True)
        assert worst(decoded[text : text + 1], whole[:, :, -2:]) < 1e-12


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_learned_says_whether_there_are_parameters_all_take_part_and_escape_weight_decay(
    name: str, axes: int
) -> None:
    encoding = build(name, axes)
    names = {parameter for parameter, _ in encoding.named_parameters()}
    assert encoding.learned == bool(names)
    assert encoding.no_weight_decay() == names
    q, k, v, positions = inputs(encoding)
    attend(encoding, q.requires_grad_(), k, v, positions).square().sum().backward()
    for parameter in encoding.parameters():
        assert parameter.grad.abs().max() > 0


@pytest.mark.parametrize(("name", "axes"), LOOKING)
def test_positions_of_another_shape_and_infinite_ones_are_refused(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    infinite = positions.clone()
    infinite[1, -1] = math.inf
    for wrong, says in (
        (F.pad(positions, (0, 1)), "shape"),
        (positions.repeat(2, 1), "tokens"),
        (positions.expand(3, -1, -1), "3 images for tokens of 2"),
        (infinite, "positions hold inf: give finite"),
        (positions.expand(2, -1, -1) * math.nan, "positions hold nan"),
    ):
        for call in (attend, lambda e, q, k, v, p: scores(e, q, k, p)):
            with pytest.raises(InputError, match=says):
                call(encoding, q, k, v, wrong)
    once = positions.expand(1, -1, -1)
    assert worst(attend(encoding, q, k, v, once), attend(encoding, q, k, v, positions)) < 1e-12


def test_one_look_at_positions_serves_their_slices_and_no_other_position_hinders_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On an accelerator each look is a synchronization, and decoding slices positions in every layer."""
    encoding, x = build("rope", 1), torch.randn(1, HEADS, 1, HEAD_DIM)
    positions, looks, isfinite = grid_positions(9), [], Tensor.isfinite
    monkeypatch.setattr(Tensor, "isfinite", lambda p: looks.append(p) or isfinite(p))
    for t in range(9):
        encoding.encode(x, positions[t : t + 1])
    assert len(looks) == 1
    positions[8] = math.inf
    encoding.encode(x, positions[7:8])
    with pytest.raises(InputError, match="positions hold inf"):
        encoding.encode(x, positions[8:])


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_grid_that_is_not_that_of_the_positions_is_refused(name: str) -> None:
    encoding = build(name, *ONLY_AXES.get(name, (2,)))
    whole = grid_positions(*GRIDS[encoding.axes])
    q = inputs(encoding)[0][:, :, :1].expand(-1, -1, len(whole), -1)
    turned = GRIDS[encoding.axes][::-1]
    for grid in (
        (*GRIDS[encoding.axes][:-1], 3),
        (len(whole), 1, 1),
        *([turned] if encoding.axes == 2 else []),
    ):
        for given in (whole, encoding.precompute(whole, q)):
            with pytest.raises(InputError, match=f"not the grid of {len(whole)} positions"):
                encoding.precompute(given, q, grid)
        if encoding.acts_on == "tokens":
            with pytest.raises(InputError, match="not the grid"):
                encoding.add(q.transpose(1, 2).flatten(2), whole, grid)


def test_positions_placed_by_an_encoding_of_other_tables_are_refused_by_both_names() -> None:
    """Tables of equal shapes would give wrong scores without a word."""
    sizes = {"head_dim": HEAD_DIM, "heads": HEADS}
    positions, x = grid_positions(2, 4), torch.randn(1, HEADS, 8, HEAD_DIM)
    makers = [
        create_encoding("axial-rope", **sizes),
        create_encoding("axial-rope", **sizes, base=7.0),
        create_encoding("roll", **sizes),
        create_encoding("roll", **sizes, direction=-1),
        create_encoding("twisted-roll", **sizes),
        create_encoding("torus-roll", **sizes),
        create_encoding("uniform-rope", **sizes, grid=(2, 4)),
        create_encoding("uniform-rope", **sizes, grid=(3, 4)),
        create_encoding("none", **sizes),
    ]
    for one, other in product(makers, makers):
        placed = copy.deepcopy(one).precompute(positions, x)
        if one is other:
            assert torch.equal(other.encode(x, placed), other.encode(x, positions))
            continue
        for uses in (other.encode, other.encode_keys, lambda x, p, other=other: other.attend(x, x, x, p)):
            with pytest.raises(InputError, match="precomputed by") as caught:
                uses(x, placed)
            assert one.signature in str(caught.value) and other.signature in str(caught.value)
    first, second = (
        create_encoding("mixed-rope", **sizes) for _ in range(2)
    )  # equal but for their parameters
    with pytest.raises(InputError, match="precomputed by"):
        second.encode(x, first.precompute(positions, x))


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_fractions_are_refused_exactly_where_real_positions_are_not_promised(name: str, axes: int) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding)
    fractions = positions.round() + 0.5
    if encoding.real_positions:
        assert attend(encoding, q, k, v, fractions).isfinite().all()
    else:
        with pytest.raises(InputError, match=r"use '.*continuous-roll'"):
            attend(encoding, q, k, v, fractions)


DEFAULTS = {
    "sinusoidal": {"base": 10000.0, "scale": 1.0},
    "learned": {"std": 0.02, "every_block": False},
    "shaw": {"clip": 16},
    "shaw-kv": {"clip": 16},
    "t5-bias": {"buckets": 32, "max_distance": 128, "bidirectional": True},
    "rope": {"base": 10000.0, "frequencies": "geometric", "wavelengths": None}
    | {"learn_frequencies": False, "temperature": 1.0, "layout": "interleaved"},
    "xpos": {"base": 10000.0, "gamma": 0.4, "span": 512.0},
    "axial-rope": {"base": 100.0, "frequencies": "geometric", "wavelengths": None}
    | {"learn_frequencies": False},
    "mixed-rope": {"base": 10.0},
    "uniform-rope": {"frequency": None},
    "spherical-rope": {"base": 10000.0, "frequency": None},
    "lie": {"block": None, "init": 2 * math.pi},
    "roll": {"width": None, "direction": 1},
    "twisted-roll": {"twist": 0.5, "width": None, "direction": 1},
    "roll-twin": {"width": None, "direction": 1},
    "continuous-roll": {"wavelength": 1.0, "nyquist": "fixed", "width": None, "direction": 1},
    "multiplexed-roll": {"waves": 2, "scale": "none", "speeds": None, "width": None, "direction": 1},
    "torus-roll": {"sheet": None, "direction": 1},
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_defaults_are_what_records_without_options_were_trained_with(name: str) -> None:
    build(name, *ONLY_AXES.get(name, (2,)))
    assert encoding_options(name) == DEFAULTS.get(name, {})


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("integer", {"head_dim": 2}),
        ("sinusoidal", {"head_dim": 2, "heads": 2, "axes": 2, "base": 0.5}),
        ("rope", {"head_dim": 2, "axes": 1, "base": 0.5}),
        ("axial-rope", {"head_dim": 4, "base": 0.5}),
        ("mixed-rope", {"head_dim": 4, "base": 0.5}),
        ("uniform-rope", {"head_dim": 4, "grid": (2, 2)}),
        ("spherical-rope", {"head_dim": 3, "grid": (2, 2), "base": 0.5}),
        ("lie", {"head_dim": 2, "block": 2}),
        ("shaw", {"head_dim": 2, "clip": 1}),
        ("t5-bias", {"head_dim": 2, "buckets": 4, "max_distance": 2}),
        ("t5-bias", {"head_dim": 2, "buckets": 2, "max_distance": 2, "bidirectional": False}),
        ("roll", {"head_dim": 2, "width": 1}),
        ("twisted-roll", {"head_dim": 4, "twist": 0.25}),
        ("torus-roll", {"head_dim": 2, "sheet": (1, 2)}),
        ("continuous-roll", {"head_dim": 8, "nyquist": "paired", "width": 2}),
    ],
)
def test_the_smallest_possible_sizes_are_possible(name: str, shape: dict) -> None:
    create_encoding(name, **({"heads": 1} | shape))


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_unknown_option_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(InputError) as caught:
        create_encoding(name, head_dim=24, heads=2, colour="blue")
    for option in ("colour", *encoding_options(name)):
        assert option in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        *(
            ({"name": name}, "encoding '")
            for name in ("rol", "learned+sinusoidal", "roll+axial-rope", "none+roll", "", "learned+")
        ),
        ({"head_dim": 0}, "head_dim=0"),
        ({"heads": 0}, "heads=0"),
        ({"head_dim": 1}, "head_dim=1"),
        ({"grid": (4,)}, "grid=(4,)"),
        ({"grid": (4, 0)}, "grid=(4, 0)"),
        ({"grid": 4}, "grid=4 must hold axes=2 sizes"),
        ({"grid": (4, "b")}, "grid=(4, 'b')"),
        ({"name": "axial-rope", "base": "1e2"}, "base="),
        ({"name": "learned+axial-rope", "base": True}, "base="),
        ({"name": "axial-rope", "base": math.inf}, "base="),
        ({"name": "continuous-roll", "wavelength": "two"}, "wavelength="),
        ({"name": "uniform-rope", "frequency": math.nan}, "frequency="),
        ({"name": "shaw", "clip": 2.5}, "clip="),
        ({"name": "t5-bias", "buckets": 8.0}, "buckets="),
        ({"name": "t5-bias", "bidirectional": "maybe"}, "bidirectional="),
        ({"name": "multiplexed-roll", "speeds": 2}, "speeds="),
        ({"name": "multiplexed-roll", "speeds": [1, "x"]}, "speeds="),
        ({"name": "multiplexed-roll", "scale": 2}, "scale="),
        ({"width": True}, "width="),
        ({"width": [3, 4.0]}, "width="),
        ({"width": 10**7}, "beyond a million"),
        ({"name": "roll-twin", "width": [3, 4]}, "width="),
    ],
)
def test_impossible_names_sizes_and_types_are_refused(bad: dict, says: str) -> None:
    fine = {"name": "roll", "head_dim": 24, "heads": 2, "axes": 2, "grid": (2, 2)}
    with pytest.raises(InputError) as caught:
        create_encoding(**fine | bad)
    assert says in str(caught.value) and "\n" not in str(caught.value)
    options = {key: value for key, value in bad.items() if key not in fine}
    if options:
        with pytest.raises(InputError, match=says):
            changed_options(bad.get("name", "roll"), options)


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (2, 1, 4)])
def test_grid_positions_count_row_by_row(sizes: tuple[int, ...]) -> None:
    positions = grid_positions(*sizes)
    assert positions.dtype == torch.float32
    assert positions.tolist() == [list(map(float, place)) for place in product(*map(range, sizes))]


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("axial-rope", {"base": 100}, {}),
        ("roll", {"width": None, "direction": 1}, {}),
        ("learned+roll", {"width": 12}, {"width": 12}),
        ("roll", {"width": (3, 4)}, {"width": [3, 4]}),
        ("twisted-roll", {"twist": 1, "width": 6}, {"twist": 1.0, "width": 6}),
        ("sinusoidal+axial-rope", {"axial-rope.base": 100}, {}),
        ("sinusoidal+axial-rope", {"sinusoidal.base": 100}, {"sinusoidal.base": 100.0}),
        ("sinusoidal+multiplexed-roll", {"waves": 3, "speeds": [1, 2, 3]}, {"waves": 3}),
        ("multiplexed-roll", {"speeds": (1, 2)}, {}),
        ("multiplexed-roll", {"speeds": [1, 1]}, {"speeds": [1, 1]}),
        ("multiplexed-roll", {"speeds": [1, 2, 3], "waves": 3}, {"waves": 3}),
    ],
)
def test_options_have_one_spelling_and_defaults_none(name: str, options: dict, told: dict) -> None:
    assert changed_options(name, options) == told
    assert [repr(v) for v in changed_options(name, options).values()] == [repr(v) for v in told.values()]


def test_an_option_that_both_encodings_have_is_given_to_each_by_name() -> None:
    sizes = {"head_dim": HEAD_DIM, "heads": HEADS, "grid": (2, 4)}
    name = "sinusoidal+multiplexed-roll"
    joined = create_encoding(name, **sizes, **{"sinusoidal.scale": 0.1, "multiplexed-roll.scale": "sqrt"})
    assert (joined.token_code.scale, joined.scale) == (0.1, "sqrt")
    joined = create_encoding("sinusoidal+axial-rope", **sizes, **{"axial-rope.base": 7.0, "scale": 2.0})
    assert (joined.token_code.base, joined.token_code.scale, joined.base) == (10000.0, 2.0, 7.0)
    for wrong in ("scale", "roll.scale", "sinusoidal.waves"):
        with pytest.raises(
            InputError, match=rf"no option '{wrong}'.*sinusoidal\.scale.*multiplexed-roll\.scale"
        ):
            create_encoding(name, **sizes, **{wrong: 0.1})
    with pytest.raises(InputError, match=r"sinusoidal\.scale='sqrt' must be a finite number"):
        create_encoding(name, **sizes, **{"sinusoidal.scale": "sqrt"})


@pytest.mark.parametrize("name", ["roll-twin", "shaw-kv", "multiplexed-roll", "continuous-roll"])
def test_two_encodings_joined_are_on_scores_what_the_second_is_and_on_tokens_the_first(name: str) -> None:
    joined, alone = build(f"learned+{name}", 2), build(name, 2)
    alone.load_state_dict(joined.state_dict(), strict=False)
    q, k, v, positions = inputs(joined)
    for function in (
        lambda e: on_ring(e, q[..., :HEAD_DIM]),
        lambda e: e.encode(q, positions),
        lambda e: e(q, k, positions)[1],
        lambda e: e.attend(q, k, v, positions, is_causal=True),
        lambda e: e.weights(q, k, positions),
        lambda e: e.scores(q, k, positions),
    ):
        assert torch.equal(function(joined), function(alone))
    tokens = torch.randn(2, v.shape[2], HEADS * HEAD_DIM, dtype=torch.double)
    assert torch.equal(alone.add(tokens, positions), tokens)
    assert torch.equal(joined.add(tokens, positions), joined.token_code.add(tokens, positions))
    with pytest.raises(InputError, match=f"'{name}'"):
        joined.encode(q[..., 1:], positions)
    state = joined.state_dict()
    old = {key.replace("token_code", "on_tokens"): 2 * value for key, value in state.items()}
    joined.load_state_dict(old)  # as weights were named before
    assert torch.equal(joined.token_code.table, old["on_tokens.table"])


def test_options_without_annotation_are_taken_and_unusual_ones_are_named_as_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own(Encoding):
        acts_on = "scores"

        def __init__(self, *, kind: Literal["a", "b"] = "a", free=1, **sizes) -> None:
            super().__init__(**sizes)
            self.kind, self.free = kind, free

    monkeypatch.setitem(ENCODINGS, "own", Own)
    own = create_encoding("own", head_dim=4, heads=1, kind="b", free="all")
    assert (own.kind, own.free) == ("b", "all")
    with pytest.raises(InputError, match="kind='c' must be one of a, b"):
        create_encoding("own", head_dim=4, heads=1, kind="c")


@pytest.mark.parametrize(("name", "axes"), CASES)
def test_attention_and_decoding_are_fused_without_a_mask_unless_something_is_added_to_the_scores(
    name: str, axes: int
) -> None:
    encoding = build(name, axes)
    q, k, v, positions = inputs(encoding, prefix=0)
    fused = F.scaled_dot_product_attention
    with mock.patch.object(F, "scaled_dot_product_attention", wraps=fused) as spy:
        encoding.attend(q, k, v, positions)
        encoding.decode(q[:, :, -1:], encoding.encode_keys(k, positions), v, positions)
    masks = [call.kwargs["attn_mask"] for call in spy.call_args_list]
    assert (masks == [None, None]) != (isinstance(encoding, ScoreBias) or encoding.score_bias is not None)
