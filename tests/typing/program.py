"""A program as a user writes it: strict type checkers accept it, and know what each line returns."""

from typing import TYPE_CHECKING, assert_type

import torch
from torch import Tensor

import rollpe
from rollpe import Alibi, Encoding, MultiheadAttention, Roll, create_encoding, grid_positions, register


@register("reversed-roll")
class ReversedRoll(Roll):
    """A class stays itself under the decorator."""


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    positions = grid_positions(14, 14)
    encoding = create_encoding("roll", head_dim=64, heads=6, width=27, direction=-1)
    assert_type(encoding, Encoding)
    assert_type(encoding(q, k, positions), tuple[Tensor, Tensor])
    return encoding.attend(q, k, v, positions, is_causal=True, scale=0.125, layout="bnhd")


roll = Roll(head_dim=64, heads=6, grid=(14, 14), width=27)
assert_type(roll.width, int | tuple[int, ...])
assert_type(ReversedRoll(head_dim=64, heads=6, width=(15, 16)), ReversedRoll)
assert_type(create_encoding("learned+roll", head_dim=64, heads=6, grid=(14, 14)), Encoding)
Roll(head_dim=64, heads=6, widht=27) if TYPE_CHECKING else None  # pyright: ignore[reportCallIssue]
Roll(head_dim=64, heads=6, width="27") if TYPE_CHECKING else None  # pyright: ignore[reportArgumentType]
rollpe.Rope(head_dim=64, heads=6, layout="halves") if TYPE_CHECKING else None  # pyright: ignore[reportArgumentType]
assert_type(rollpe.list_encodings(), list[str])

tokens = torch.zeros(1, 9, 256)
layer = MultiheadAttention(256, 4, "rope", batch_first=True, base=500.0)
assert_type(layer(tokens, tokens, tokens), tuple[Tensor, Tensor | None])
q = torch.zeros(1, 6, 9, 64)
bias: Tensor = Alibi(head_dim=64, heads=6, axes=1).mask(q, q, torch.arange(9))
logits: Tensor = rollpe.create_vit("roll", encoding_options={"width": 15})(torch.zeros(1, 3, 32, 32))
