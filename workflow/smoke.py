"""Try an installed library: build every encoding, attend with it, and put a layer in the place of timm's.

The release workflow runs it where nothing but the wheel and torch is installed, on three systems; the tests
run it with every other package refused. It imports the library and torch alone.
"""

from __future__ import annotations

import torch

import rollpe
import rollpe.formulas
import rollpe.ring
from rollpe.encodings import ENCODINGS, create_encoding, grid_positions
from rollpe.encodings.attention import MultiheadAttention, drop_in_attention
from rollpe.errors import InputError

HEADS, HEAD_DIM, GRID = 2, 60, (3, 4)


def attend(name: str) -> None:
    """Codes on tokens, or attention, with one encoding: on a grid, or on a row if it has one axis."""
    for grid in (GRID, GRID[:1]):
        try:
            encoding = create_encoding(name, head_dim=HEAD_DIM, heads=HEADS, axes=len(grid), grid=grid)
            break
        except InputError:
            if len(grid) == 1:
                raise
    positions = grid_positions(*grid)
    tokens = 1 + len(positions)  # the class token has no position
    if encoding.acts_on == "tokens":
        out = encoding.add(torch.zeros(1, tokens, HEADS * HEAD_DIM), positions)
    else:
        q, k = torch.randn(2, 1, HEADS, tokens, encoding.waves_in * HEAD_DIM)
        out = encoding.attend(q, k, torch.randn(1, HEADS, tokens, HEAD_DIM), positions)
    assert out.isfinite().all() and out.any(), name


def layers() -> None:
    """The layers for timm's and torch's transformers."""
    x = torch.randn(1, 1 + GRID[0] * GRID[1], HEADS * HEAD_DIM)
    layer = drop_in_attention("roll", grid=GRID)(x.shape[-1], num_heads=HEADS, qkv_bias=True)
    assert layer(x).shape == x.shape
    own = MultiheadAttention(x.shape[-1], HEADS, encoding="rope", batch_first=True)
    assert own(x, x, x)[0].shape == x.shape


if __name__ == "__main__":
    for name in ENCODINGS:
        attend(name)
    layers()
    print(f"rollpe {rollpe.__version__} with torch {torch.__version__}: {len(ENCODINGS)} encodings work")
