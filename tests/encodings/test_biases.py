"""Shaw's relative vectors and T5's biases: against plain loops, and the properties they promise."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rollpe import formulas
from rollpe.encodings import Encoding, create_encoding, grid_positions
from rollpe.encodings.biases import offsets
from rollpe.errors import InputError

NAMES = ["shaw", "shaw-kv", "t5-bias"]
HEADS, DIM, PREFIX = 2, 6, 2
OPTIONS = {"shaw": {"clip": 2}, "shaw-kv": {"clip": 2}, "t5-bias": {"buckets": 8, "max_distance": 5}}
OPTIONS["alibi"] = {}


def build(name: str, axes: int = 2, seed: int = 0, **options: object) -> Encoding:
    """An encoding in float64 whose tables are large enough to matter."""
    torch.manual_seed(seed)
    encoding = create_encoding(name, head_dim=DIM, heads=HEADS, axes=axes, **(OPTIONS[name] | options))
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding.double()


def qkv(tokens: int, seed: int, batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, batch, HEADS, tokens, DIM, generator=generator, dtype=torch.float64)


def dropped(sizes: tuple[int, ...], keep: int, seed: int, batch: int = 2) -> Tensor:
    """A different selection of patches for each image, [B, keep, axes]."""
    grid, generator = grid_positions(*sizes), torch.Generator().manual_seed(seed)
    return torch.stack([grid[torch.randperm(len(grid), generator=generator)[:keep]] for _ in range(batch)])


CASES = {
    "grid": (grid_positions(3, 4), 2),
    "dropped": (dropped((3, 5), 9, seed=0), 2),
    "sequence": (grid_positions(11), 1),
    "volume": (grid_positions(2, 2, 3), 3),
}


@pytest.mark.parametrize("rotation", ["rope", "xpos", "lie", "twisted-roll", "continuous-roll"])
@pytest.mark.parametrize("bias", ["alibi", "t5-bias"])
def test_a_bias_joined_to_a_rotation_is_added_to_its_scores(bias: str, rotation: str) -> None:
    """In attention, its weights and in decoding, with two tokens without a position, in either order."""
    sizes = {"head_dim": DIM, "heads": HEADS, "axes": 1}
    joined = create_encoding(f"{rotation}+{bias}", **sizes).double()
    apart = {name: create_encoding(name, **sizes).double() for name in (bias, rotation)}
    apart[rotation].load_state_dict(joined.state_dict(), strict=False)
    apart[bias].load_state_dict(joined.score_bias.state_dict())
    (q, k, v), places = qkv(9, seed=1), torch.arange(7)
    turned = formulas.scores(*apart[rotation](q, k, places)) + apart[bias].mask(q, k, places)
    torch.testing.assert_close(joined.scores(q, k, places), turned)
    torch.testing.assert_close(joined.weights(q, k, places), turned.softmax(-1))
    torch.testing.assert_close(joined.attend(q, k, v, joined.precompute(places, q)), turned.softmax(-1) @ v)
    full = joined.attend(q, k, v, places, is_causal=True)
    keys = joined.encode_keys(k, places)
    last = joined.decode(q[..., 6:, :], keys, v, places[-3:], key_positions=places)
    torch.testing.assert_close(last, full[..., 6:, :])
    with pytest.raises(InputError, match="give key_positions="):
        joined.decode(q[..., 6:, :], keys, v, places[-3:])
    assert joined.relative == apart[rotation].relative and joined.learned == (len(joined.state_dict()) > 0)


@pytest.mark.parametrize("name", ["alibi+t5-bias", "shaw+rope", "shaw-kv+alibi", "roll+rope", "none+alibi"])
def test_only_one_of_a_kind_is_joined_and_no_bias_that_depends_on_queries(name: str) -> None:
    with pytest.raises(
        InputError, match=r"does not combine: .*\(integer, sinusoidal, learned\).*\(t5-bias, alibi\)"
    ):
        create_encoding(name, head_dim=DIM, heads=HEADS, axes=1, grid=(4,))


def vectors(table: Tensor, delta: Tensor) -> Tensor:
    """Σ_a R^a_{clip(Δ_a)} for each pair of tokens, [(B,) heads, M, M, d]."""
    by_axis = [
        formulas.relative_lookup(of_axis.transpose(0, 1), offset)  # [(B,) M, M, heads, d]
        for of_axis, offset in zip(table, delta.unbind(-3), strict=True)
    ]
    return torch.stack(by_axis).sum(0).movedim(-2, -4)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", [*NAMES, "alibi"])
def test_scores_are_those_of_the_formula(name: str, case: str) -> None:
    positions, axes = CASES[case]
    encoding = build(name, axes)
    q, k, _ = qkv(positions.shape[-2], seed=4)
    delta = formulas.offsets(positions.long().mT)  # [(B,) axes, M, M]
    if name == "alibi":
        slopes = formulas.alibi_slopes(HEADS)
        expected = formulas.alibi_scores(q, k, delta.abs().sum(-3).double(), slopes)
    elif name == "t5-bias":
        by_axis = [
            of_axis.mT[formulas.t5_bucket(offset, 8, 5)]
            for of_axis, offset in zip(encoding.table, delta.unbind(-3), strict=True)
        ]
        expected = formulas.t5_scores(q, k, torch.stack(by_axis).sum(0).movedim(-1, -3))
    else:
        expected = formulas.shaw_scores(q, k, vectors(encoding.keys, delta))
    torch.testing.assert_close(encoding.scores(q, k, positions), expected)


@pytest.mark.parametrize("case", CASES)
def test_shaws_vectors_move_keys_and_values_as_the_formula_says(case: str) -> None:
    """On non-square grids, with dropped patches, and with two tokens that have no position."""
    positions, axes = CASES[case]
    encoding = build("shaw-kv", axes)
    q, k, v = qkv(positions.shape[-2] + PREFIX, seed=0)
    delta = formulas.offsets(positions.long().mT)
    keys, values = (
        F.pad(vectors(table, delta), (0, 0, PREFIX, 0, PREFIX, 0))
        for table in (encoding.keys, encoding.values)
    )
    outputs = formulas.shaw_attention(q, k, v, keys, values)
    torch.testing.assert_close(encoding.attend(q, k, v, positions), outputs)


@pytest.mark.parametrize("name", ["shaw", "shaw-kv"])
@pytest.mark.parametrize("grid", [(3, 4), (7,), (2, 2, 3), (1, 1)])
@pytest.mark.parametrize("masking", ["nothing", "causal", "mask"])
def test_the_short_way_on_a_whole_grid_gives_the_same_results_and_gradients(
    name: str, grid: tuple[int, ...], masking: str
) -> None:
    encoding, positions = build(name, len(grid)), grid_positions(*grid)
    tokens = len(positions) + PREFIX
    q, k, v = (x.requires_grad_() for x in qkv(tokens, seed=0))
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(tokens, tokens, generator=generator) > 0.3
    how = {
        "nothing": {},
        "causal": {"is_causal": True},
        "mask": {"attn_mask": mask | torch.eye(tokens).bool()},
    }
    placed = encoding.precompute(positions, q, grid)
    assert placed.tables
    leaves = [q, k, v, *encoding.parameters()]
    expected, got = (
        (out, *torch.autograd.grad(out.square().sum(), leaves))
        for out in (
            encoding.attend(q, k, v, positions, **how[masking]),
            encoding.attend(q, k, v, placed, **how[masking]),
        )
    )
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("name", ["t5-bias", "alibi"])
def test_the_bias_of_one_pair_is_that_of_all_pairs(name: str) -> None:
    """As flex_attention asks for it: score_mod(score, batch, head, query, key)."""
    encoding, positions = build(name), grid_positions(3, 4)
    q, _, _ = qkv(12, seed=2)
    bias = encoding.mask(q, q, positions).expand(1, HEADS, 12, 12)[0]
    modified = encoding.score_mod(positions)
    for head, query, key in itertools.product(range(HEADS), range(12), range(12)):
        one = modified(torch.tensor(0.5), *map(torch.tensor, (0, head, query, key)))
        torch.testing.assert_close(one.double(), 0.5 + bias[head, query, key])


def test_a_bias_that_depends_on_the_query_has_no_score_mod() -> None:
    with pytest.raises(InputError, match="'shaw' has no bias for flex_attention's score_mod: use attend"):
        build("shaw").score_mod(grid_positions(3, 4))


def test_layers_share_the_bias_of_alibi_and_other_tokens_get_none() -> None:
    encoding, positions = build("alibi", axes=1), grid_positions(9)
    layers = [encoding, *(create_encoding("alibi", head_dim=DIM, heads=HEADS, axes=1) for _ in range(2))]
    q, k, v = qkv(9, seed=3)
    expected = encoding.attend(q, k, v, positions)
    with mock.patch.object(type(encoding), "bias", autospec=True, side_effect=type(encoding).bias) as made:
        placed = type(encoding).precompute_layers(layers, positions, q)
        for layer, tables in zip(layers, placed, strict=True):
            torch.testing.assert_close(layer.attend(q, k, v, tables), expected)
        assert made.call_count == 1
        encoding.decode(q[:, :, -1:], k, v, positions)
        assert [len(call.args[2]) for call in made.call_args_list] == [9, 1]  # queries


@pytest.mark.parametrize("name", [*NAMES, "alibi"])
def test_decoding_refuses_positions_of_the_queries_alone_and_says_what_to_give(name: str) -> None:
    """A bias depends on the distance to every key: those left out would count as without a position."""
    encoding, positions = build(name, axes=1), grid_positions(7)
    q, k, v = qkv(7, seed=1)
    for given in (positions[-2:], positions[:-1]):
        with pytest.raises(InputError, match=r"positions for 7 keys.*give key_positions="):
            encoding.decode(q[:, :, -2:], k, v, given)
    whole = encoding.attend(q, k, v, positions, is_causal=True)
    torch.testing.assert_close(encoding.decode(q, k, v, positions), whole)
    way_out = encoding.decode(q[:, :, -2:], k, v, positions[-2:], key_positions=positions)
    torch.testing.assert_close(way_out, whole[:, :, -2:])
    whole = encoding.attend(q, k, v, positions[-1:], is_causal=True)[:, :, -1:]
    way_out = encoding.decode(q[:, :, -1:], k, v, positions[-1:], key_positions=positions[-1:])
    torch.testing.assert_close(way_out, whole)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_acts_on_the_weights(name: str) -> None:
    """Dropping every weight leaves nothing, neither values nor vectors added to them."""
    encoding, positions = build(name), grid_positions(2, 3)
    q, k, v = qkv(7, seed=0)
    assert encoding.attend(q, k, v, positions, dropout_p=1.0).abs().max() == 0


class LargestTensor(TorchDispatchMode):
    """Remembers the size of the storage of the largest tensor that any operation returned."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, Tensor):
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
        return out


@pytest.mark.parametrize("name", ["shaw", "shaw-kv"])
def test_no_tensor_has_a_vector_for_every_pair(name: str) -> None:
    tokens, dim = 40, 32
    encoding = create_encoding(name, head_dim=dim, heads=1, axes=1, clip=3)
    q = torch.randn(1, 1, tokens, dim, requires_grad=True)
    with LargestTensor() as seen:
        encoding.attend(q, q, q, grid_positions(tokens)).sum().backward()
    assert tokens**2 <= seen.largest <= 2 * tokens**2 < tokens**2 * dim


@pytest.mark.parametrize("name", ["shaw", "shaw-kv"])
def test_on_a_grid_no_tensor_has_a_number_for_every_pair(name: str) -> None:
    """40·12 tokens: the channels of the grid are many more than d, and still far below the tokens."""
    grid, dim = (40, 12), 32
    tokens = math.prod(grid)
    encoding = create_encoding(name, head_dim=dim, heads=1, axes=2, grid=grid)
    q = torch.randn(1, 1, tokens, dim, requires_grad=True)
    placed = encoding.precompute(grid_positions(*grid), q, grid)
    with LargestTensor() as seen:
        encoding.attend(q, q, q, placed).sum().backward()
    assert tokens * (dim + sum(grid)) <= seen.largest < tokens**2


def test_tables_start_from_a_cut_normal_and_those_of_t5_from_one_for_the_width_of_the_model() -> None:
    for name in NAMES:
        encoding = create_encoding(name, head_dim=8, heads=3, axes=2)
        if name == "t5-bias":
            assert 0.5 < encoding.table.std() * (3 * 8) ** 0.5 < 1.5
        else:
            assert all(0.016 < p.std() < 0.019 and p.abs().max() <= 0.04 for p in encoding.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.uint8, torch.int32])
def test_offsets_are_exact_even_where_the_type_of_the_positions_has_no_room(
    dtype: torch.dtype,
) -> None:
    whole = torch.tensor([[[0], [3], [200]], [[255], [201], [7]]])
    signed = whole if dtype == torch.uint8 else whole * torch.tensor([1, -1])[:, None, None]
    positions = signed.to(dtype)
    assert torch.equal(positions.long(), signed)
    assert torch.equal(offsets(positions[0], positions[1]), signed[1] - signed[0][:, None])


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("t5-bias", {"buckets": 7}, "even number, at least 4"),
        ("t5-bias", {"buckets": 1, "bidirectional": False}, "at least 2"),
        ("t5-bias", {"buckets": 32, "max_distance": 8}, "more than 8"),
        ("shaw", {"clip": 0}, "at least 1"),
    ],
)
def test_options_that_leave_no_table_are_refused(name: str, options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build(name, **options)
