"""Encodings added to tokens: the table of the learned one on other grids, and what all of them refuse.

The waves of the sinusoidal one are held by test_properties.py and test_peers.py.
"""

from __future__ import annotations

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from timm.layers.pos_embed import resample_abs_pos_embed
from torch import Tensor

from rollpe.encodings import create_encoding, grid_positions
from rollpe.errors import InputError


def zeros(tokens: int, dim: int, batch: int = 1) -> Tensor:
    return torch.zeros(batch, tokens, dim, dtype=torch.double)


def worst(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


def learned(grid: tuple[int, ...], seed: int = 0):
    torch.manual_seed(seed)
    return create_encoding("learned", head_dim=6, heads=1, axes=len(grid), grid=grid).double()


@pytest.mark.parametrize(("grid", "part"), [((16,), (8,)), ((3, 4), (2, 2)), ((3, 4), (3, 2))])
def test_positions_alone_are_looked_up_also_where_they_fill_a_smaller_grid(grid, part) -> None:
    encoding, positions = learned(grid), grid_positions(*part)
    places = (positions @ torch.tensor([*grid[1:], 1.0])).long()
    assert torch.equal(encoding.add(zeros(len(places), 6), positions)[0], encoding.table[places])


@pytest.mark.parametrize("shown", [(5, 9), (2, 3), (4, 3)])
def test_a_grid_of_other_sizes_gets_the_table_resized_as_timm_does(shown: tuple[int, int]) -> None:
    encoding = learned((3, 4))
    count = shown[0] * shown[1]
    added = encoding.add(zeros(count + 1, 6), grid_positions(*shown), shown)
    wanted = resample_abs_pos_embed(
        encoding.table[None], new_size=list(shown), old_size=[3, 4], num_prefix_tokens=0
    )
    assert worst(added[:, 1:], wanted) < 1e-6


def test_a_table_of_three_axes_is_resized_as_torch_does() -> None:
    encoding = learned((2, 3, 4))
    added = encoding.add(zeros(60, 6), grid_positions(5, 3, 4), (5, 3, 4))
    volume = encoding.table.T.unflatten(1, (2, 3, 4))[None]
    wanted = F.interpolate(volume, (5, 3, 4), mode="trilinear")[0].flatten(1).T
    assert worst(added[0], wanted) < 1e-12


@pytest.mark.parametrize(
    ("built", "shown"), [((4,), (7,)), ((4,), (2,)), ((2, 2, 2), (3, 2, 4)), ((2, 1, 2, 1), (3, 2, 1, 2))]
)
def test_a_constant_table_stays_constant_when_resized_on_any_number_of_axes(built, shown) -> None:
    encoding = learned(built)
    with torch.no_grad():
        encoding.table.copy_(torch.arange(6.0).expand_as(encoding.table))
    added = encoding.add(zeros(math.prod(shown), 6), grid_positions(*shown), shown)
    assert worst(added, torch.arange(6.0).expand_as(added)) < 1e-6


@pytest.mark.parametrize(("options", "std"), [({}, 0.02), ({"std": 1}, 1.0)])
def test_a_learned_table_starts_as_a_normal_of_the_spread_asked_for(options: dict, std: float) -> None:
    torch.manual_seed(0)
    encoding = create_encoding("learned", head_dim=64, heads=2, grid=(8, 8), **options)
    assert encoding.table.std().item() == pytest.approx(std, rel=0.05)
    assert encoding.table.abs().max() > 3 * std  # not cut at two


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("learned", {}, "needs grid="),
        ("learned", {"std": 0, "grid": (2, 2)}, "std=0"),
        ("sinusoidal", {"base": 0}, "base=0"),
        ("sinusoidal", {"scale": 0}, "scale=0"),
        ("sinusoidal", {"head_dim": 3, "heads": 1}, "use at least 4"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name: str, options: dict, says: str) -> None:
    with pytest.raises(InputError) as caught:
        create_encoding(name, **{"head_dim": 4, "heads": 2, **options})
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["integer", "learned", "sinusoidal"])
def test_attention_with_codes_that_nobody_has_added_says_where_they_go(name: str) -> None:
    positions = grid_positions(2, 3)
    x = torch.randn(1, 2, 6, 8)
    for call in ("attend", "weights", "forward"):
        encoding = create_encoding(name, head_dim=8, heads=2, grid=(2, 3))
        arguments = (x, x, x) if call == "attend" else (x, x)
        with pytest.warns(UserWarning, match=f"'{name}'.*encoding.add"):
            getattr(encoding, call)(*arguments, positions)
    added = create_encoding(name, head_dim=8, heads=2, grid=(2, 3))
    added.add(torch.randn(1, 6, 16), positions)
    with warnings.catch_warnings(action="error"):
        encoding.attend(x, x, x, positions)  # said once
        added.attend(x, x, x, positions)
