"""The first layer of small models on one photograph: what the moving figure ``photo`` shows.

The photograph has ``SIDES`` patches, of which the models see ``WINDOW`` each way. A shift (down, right) moves
the photograph under the window.

Letters of the shapes: H heads, d channels of a head, W streams, c channels of a token.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rollpe.encodings import create_encoding, grid_positions

SIDES, WINDOW, PATCH = (12, 16), 8, 4
"""Rows and columns of patches of the photograph; patches along the window; pixels along a patch."""
REACH = (2, 4)
"""How many patches the photograph can be moved up or down, left or right; unmoved, its middle is in view."""
MOVE, QUERIES = 2, 4
"""How many patches the figure moves it each way, and along the middle of the window those that stay in view
then: each can be the query."""
NAMES = {
    "none": "no encoding",
    "learned": "learned table",
    "axial-rope": "RoPE",
    "roll": "RollPE",
    "multiplexed-roll": "multiplexed RollPE",
}
"""Encodings in the order in which they are shown."""

Model = dict[str, Tensor]
"""embed [c, 48] and embed_bias [c] make a token of a patch's pixels; table [64, c], of ``learned`` alone, is
added to it; project [H, 2, W·d, c] and project_bias [H, 2, W·d] make queries (0) and keys (1) of the
normalized token. The first norm's weights are multiplied into ``project``, the normalization of pixels into
``embed``. Heads are in the order of how much their scores vary, see ``by_variation``."""


def read_photo(folder: Path) -> tuple[Tensor, dict[str, Model]]:
    """Patches [192, 48], see ``cut``, and the models that there are, by encoding; float64."""
    arrays = np.load(folder / "models.npz")
    models: dict[str, Model] = {}
    for key in arrays:
        name, _, part = key.partition(".")
        if part:
            models.setdefault(name, {})[part] = torch.from_numpy(arrays[key]).double()
    return cut(torch.from_numpy(arrays["pixels"])), {name: models[name] for name in NAMES if name in models}


def cut(pixels: Tensor) -> Tensor:
    """Patches of an image uint8 [48, 64, 3], each color by color, white 1: float64 [192, 48]."""
    patches = pixels.unflatten(0, (-1, PATCH)).unflatten(2, (-1, PATCH))  # row, y, column, x, color
    return patches.permute(0, 2, 4, 1, 3).flatten(2).flatten(0, 1).double() / 255


def in_window(shift: tuple[int, int] = (0, 0)) -> Tensor:
    """The numbers of the patches that the window shows, row by row: int64 [64]."""
    rows, columns = (reach - s + torch.arange(WINDOW) for reach, s in zip(REACH, shift, strict=True))
    return (SIDES[1] * rows[:, None] + columns).flatten()


def queries_and_keys(model: Model, pixels: Tensor) -> Tensor:
    """Queries and keys of the first layer before their encoding, [2, H, 64, W·d], of a window [64, 48]."""
    tokens = F.linear(pixels, model["embed"], model["embed_bias"]) + model.get("table", 0)
    normal = F.layer_norm(tokens, tokens.shape[-1:], eps=1e-6)
    made = torch.einsum("hwic,nc->whni", model["project"], normal)
    return made + model["project_bias"].transpose(0, 1)[:, :, None]


def scores(name: str, model: Model, patches: Tensor, shift: tuple[int, int] = (0, 0)) -> Tensor:
    """Scores of each query (rows) and key of the moved window, before the softmax: [H, 64, 64]."""
    q, k = queries_and_keys(model, patches[in_window(shift)])
    heads, _, channels = q.shape
    streams = 2 if name == "multiplexed-roll" else 1
    shape: Any = {"head_dim": channels // streams, "heads": heads, "grid": (WINDOW, WINDOW)}
    return create_encoding(name, **shape).scores(q[None], k[None], grid_positions(WINDOW, WINDOW))[0]


def change(unmoved: Tensor, moved: Tensor, shift: tuple[int, int]) -> Tensor:
    """The largest change of a query's scores [..., 8, 8] with the keys that both windows show: [...]."""
    (rows, columns), (new_rows, new_columns) = (
        [slice(max(0, sign * s), WINDOW + min(0, sign * s)) for s in shift] for sign in (-1, 1)
    )
    return (moved[..., new_rows, new_columns] - unmoved[..., rows, columns]).abs().amax((-2, -1))


def maps(name: str, model: Model, patches: Tensor) -> dict[tuple[int, int], Tensor]:
    """By the move (down, right): scores of the queries, row by row, in the first head, [16, 8, 8]."""
    made, moves = {}, range(-MOVE, MOVE + 1)
    for shift in [(down, right) for down in moves for right in moves]:
        of_all = scores(name, model, patches, shift)[0].reshape(4 * (WINDOW,))
        rows, columns = (slice(MOVE + s, MOVE + s + QUERIES) for s in shift)
        made[shift] = of_all[rows, columns].flatten(0, 1)
    return made


def by_variation(name: str, model: Model, patches: Tensor) -> Tensor:
    """The heads, those first whose scores in the unmoved window have the largest standard deviation: [H]."""
    return scores(name, model, patches).flatten(1).std(1).argsort(descending=True)


def for_browser(folder: Path) -> dict[str, Any]:
    """What book/scripts/figures/photo.js shows, as values for JSON: the photograph, and maps by encoding.

    Scores are base64 of signed bytes by move, query and key; 127 is the query's largest, of either sign.
    Changes, by move and query, have two decimals, as the page shows them.
    """
    patches, models = read_photo(folder)
    picture = base64.b64encode((folder / "photo.jpg").read_bytes()).decode()
    shown = {}
    for name, model in models.items():
        made = maps(name, model, patches)
        values = torch.stack([*made.values()])
        shares = values / values.abs().amax((0, 2, 3), keepdim=True)
        changes = [change(made[0, 0], moved, shift).round(decimals=2) for shift, moved in made.items()]
        shown[name] = {
            "title": NAMES[name],
            "scores": base64.b64encode((127 * shares).round().to(torch.int8).numpy().tobytes()).decode(),
            "changes": torch.stack(changes).tolist(),
        }
    return {"photo": f"data:image/jpeg;base64,{picture}", "maps": shown}
