"""Tables of frequencies: their shapes, limits and refusals, and that one of a user's own works everywhere.

That they are those of other libraries is held by test_oracles.py and test_peers.py, their formulas by the
cells of chapters.
"""

from __future__ import annotations

import copy
import io
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.frequencies import (
    axial,
    dynamic,
    geometric,
    golden_gate,
    llama3,
    longrope,
    mixed,
    ntk,
    proportional,
    ring,
    sections,
    spaced,
    twisted_ring,
    uniform,
    yarn,
    yarn_range,
)
from rollpe.errors import InputError

eight = geometric(8)
TABLES = {
    "ntk": ntk(eight, 4.0),
    "dynamic": dynamic(eight, 4.0, 3),
    "longrope": longrope(eight, 3, [1.0] * 8, [2.0] * 8),
    "partial": geometric(3),
    "M-RoPE": sections(eight, (2, 3, 3)),
    "interleaved": sections(eight, (4, 2, 2), interleaved=True),
    "unequal axes": axial(geometric(5), geometric(2, 100.0)),
    "golden gate": golden_gate(3, 8, 0.2, 2.0),
    "mixed": mixed(3, 8),
    "uniform": uniform(4, (3, 5)),
}


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def built(name: str, **options: object) -> tuple:
    """An encoding with a table, 15 places, and q, k, v of those and of one token without a position."""
    encoding = create_encoding("rope", head_dim=16, heads=3, frequencies=TABLES[name], **options)
    places = grid_positions(*{1: (15,), 2: (3, 5), 3: (1, 3, 5)}[encoding.axes])
    return encoding, places, *noise(3, 2, 3, 16, 16)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_ones_own_turns_each_pair_by_its_product_with_the_position(name: str) -> None:
    encoding, places, q, *_ = built(name)
    table = TABLES[name](torch.tensor(15.0)) if callable(TABLES[name]) else TABLES[name]
    table = (table[:, None] if table.dim() == 1 else table).expand(3, -1, -1)  # [heads, pairs, axes]
    pairs = torch.view_as_complex(q[..., 1:, : 2 * table.shape[1]].unflatten(-1, (-1, 2)).double())
    wanted = pairs * torch.polar(torch.ones(()).double(), torch.einsum("na,hpa->hnp", places.double(), table))
    found = encoding.encode(q, places)
    assert_close(
        found[..., 1:, : 2 * table.shape[1]].double(),
        torch.view_as_real(wanted).flatten(-2),
        atol=1e-4,
        rtol=0,
    )
    assert torch.equal(found[..., :1, :], q[..., :1, :])
    assert torch.equal(found[..., 2 * table.shape[1] :], q[..., 2 * table.shape[1] :])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_ones_own_works_compiled_cached_grouped_saved_and_in_bfloat16(
    name: str, layout: str
) -> None:
    torch.compiler.reset()
    encoding, places, q, k, v = built(name, layout=layout)
    expected = encoding.scores(q, k, places).softmax(-1) @ v
    assert_close(encoding.attend(q, k, v, encoding.precompute(places, q)), expected, atol=1e-5, rtol=0)
    compiled = torch.compile(encoding.attend, backend="eager", fullgraph=True)
    assert_close(compiled(q, k, v, places), expected, atol=1e-5, rtol=0)
    buffer = io.BytesIO()
    torch.save(encoding, buffer)
    buffer.seek(0)
    for copied in (torch.load(buffer, weights_only=False), copy.deepcopy(encoding)):
        assert torch.equal(copied.encode(q, places), encoding.encode(q, places))
    short = encoding.bfloat16().encode(q.bfloat16(), places)
    assert_close(short, encoding.encode(q.bfloat16().float(), places).bfloat16())
    if not callable(TABLES[name]):
        learned, *_ = built(name, layout=layout, learn_frequencies=True)
        assert learned.learned_frequencies.shape == TABLES[name].shape
        assert_close(learned.encode(q, places), encoding.encode(q, places), atol=1e-5, rtol=0)


def test_tables_that_differ_in_one_number_do_not_pass_for_each_other() -> None:
    other = eight.clone()
    other[5] += 1e-9
    q, places = noise(1, 1, 4, 16), grid_positions(4)
    one, two = (create_encoding("rope", head_dim=16, heads=1, frequencies=t) for t in (eight, other))
    with pytest.raises(InputError, match="were precomputed by"):
        two.encode(q, one.precompute(places, q))
    assert len(repr(one)) < 250


def test_sections_give_each_pair_one_axis() -> None:
    """In Qwen2-VL pairs 0–1 turn by time, 2–4 by row, 5–7 by column; in Qwen3-VL axes take turns."""
    owners = [sections(eight, (2, 3, 3)), sections(eight, (4, 2, 2), interleaved=True)]
    assert [t.argmax(1).tolist() for t in owners] == [[0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 0]]
    for table in owners:
        assert torch.equal(table.sum(1), eight)


def test_equal_positions_on_all_axes_are_a_sequence() -> None:
    q, p = noise(1, 1, 6, 16), grid_positions(6)
    video = create_encoding("rope", head_dim=16, heads=1, frequencies=sections(eight, (2, 3, 3)))
    assert_close(video.encode(q, p.expand(-1, 3)), create_encoding("rope", head_dim=16, heads=1).encode(q, p))


def test_directions_of_the_golden_gate_are_spread_and_speeds_in_equal_ratios() -> None:
    table = golden_gate(6, 32, 0.2, 20.0)
    speeds = table.norm(dim=-1)
    assert_close(speeds[0].log().diff(), torch.full((31,), math.log(100) / 31).double())
    angles = torch.remainder(torch.atan2(table[..., 0], table[..., 1]).flatten(), math.pi).sort()[0]
    gaps = torch.cat((angles, angles[:1] + math.pi)).diff()
    assert gaps.min() > 0.3 * math.pi / 192 and gaps.max() < 2.7 * math.pi / 192


def test_yarns_range_has_a_width_and_an_end() -> None:
    assert yarn_range(geometric(4), 6) == (0, 0.001)  # no pair turns once
    assert yarn_range(geometric(2, 10.0), 5000) == (2, 3)  # d - 1, as in the code of the source


def test_yarns_defaults_are_those_of_the_paper() -> None:
    theta = geometric(64)
    for trained, last in ((1982, 15), (2025, 16)):  # at 31 turns 16, at 33 turns 15
        found = yarn(theta, 4, trained)
        assert torch.equal(found, yarn(theta, 4, trained, 32.0, 1.0))
        assert (found == theta).nonzero().max() == last


def test_functions_of_the_length_take_many_lengths_at_once() -> None:
    lengths = torch.tensor([[5.0, 8.0], [9.0, 40.0]]).double()
    for table in (dynamic(geometric(3), 3.0, 8), longrope(geometric(3), 8, [1, 2, 3], [4, 5, 6])):
        found = table(lengths)
        assert found.shape == (2, 2, 3) and found.dtype == torch.float64
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            assert torch.equal(found[row, column], table(lengths[row, column]))


@pytest.mark.parametrize("n", [0, -3, 2.5, 4.0, True, "8"])
@pytest.mark.parametrize("make", [geometric, ring, twisted_ring, partial(spaced, shortest=2, longest=9)])
def test_a_number_of_pairs_or_channels_is_a_positive_integer(make: partial, n: object) -> None:
    with pytest.raises(InputError, match="integer of at least 1"):
        make(n)
    make(np.int64(5))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ring(4, 0), "other than 0"),
        (lambda: ntk(geometric(1), 2.0), "2 or more"),
        (lambda: ntk(axial(eight, eight), 2.0), r"\[pairs\]"),
        (lambda: ntk(eight, 0.5), "factor=0.5"),
        (lambda: llama3(eight, 2.0, 0), "trained=0"),
        (lambda: llama3(eight, 2.0, 8, low=4.0), "must be lower"),
        (lambda: yarn(spaced(8, 2, 9, "arithmetic"), 2.0, 8), "use geometric"),
        (lambda: yarn(geometric(8, 0.5), 2.0, 8), "use geometric"),
        (lambda: longrope(eight, 8, [1.0] * 7, [1.0] * 8), "short=.* 8 positive"),
        (lambda: longrope(eight, 8, [1.0] * 8, [0.0] * 8), "long=.* 8 positive"),
        (lambda: sections(eight, (4, 5)), "add up to the 8 pairs"),
        (lambda: sections(eight, (2, 3, 3), interleaved=True), "axis 0 needs the largest share"),
        (lambda: golden_gate(1, 4, 0.0, 1.0), "slowest=0.0 must be positive"),
    ],
)
def test_what_has_no_table_is_refused(call: partial, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


def test_every_table_is_float64() -> None:
    tables = [table for table in TABLES.values() if not callable(table)]
    tables += [proportional(eight, 0.5), ring(8), twisted_ring(8)]
    assert {table.dtype for table in tables} == {torch.float64}
