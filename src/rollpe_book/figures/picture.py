"""Attention of one token under every encoding: what the moving figure ``picture`` shows.

All cells have the same query and keys. A cell holds ln(N w), w the weights of N keys after the softmax: 0 is
the uniform share. Trained parameters are random numbers half as large as the contents.
"""

from __future__ import annotations

import base64
import itertools
import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from rollpe.encodings import Encoding, create_encoding, encoding_options, grid_positions, list_encodings

VIEWS = {"row": (1, 124), "image": (2, 10)}
"""Axes of a position, and how far the keys reach from the query along each."""
CONTENTS = ("one", "kernel", "own")
"""All keys alike; all like the query; every key another random vector."""
MOVES = 8
"""Both tokens move by 0 … 7 places, in an image to the right."""
SETTINGS: dict[str, dict[str, tuple[int, ...]]] = {
    "row": {"trained": (32, 64, 128), "base": (100, 10000), "width": (8, 16, 32)},
    "image": {"trained": (4, 8, 16), "base": (100, 10000), "width": (8, 16, 32)},
}
"""Places along each axis that an encoding is built for, base of its waves, channels of its rings."""
CHANNELS = 64
LIMIT = 6.0
"""Values are cut off here, at 400 times the uniform share or a 400th of it."""
NO_CELL = {
    "row": {"shaw-kv", "axial-rope", "mixed-rope", "spherical-rope", "torus-roll"},
    "image": {"shaw-kv", "rope", "xpos"},
}
"""Encodings of images or of sequences alone, and ``shaw-kv``, whose scores are those of ``shaw``. In a row
``axial-rope`` is ``rope``, and ``torus-roll`` is ``roll``."""
BY_GRID = {"learned", "lie", "spherical-rope", "uniform-rope"}
"""Encodings whose scores depend on the grid that they are built for."""


def shown(view: str) -> list[str]:
    """Encodings of a view, in the order of tables."""
    return [name for name in list_encodings() if name not in NO_CELL[view]]


def settings_of(name: str, view: str) -> dict[str, tuple[int, ...]]:
    """Those of ``SETTINGS`` that change the encoding, with their values."""
    takes = ({"base", "width"} & encoding_options(name).keys()) | ({"trained"} if name in BY_GRID else set())
    return {key: values for key, values in SETTINGS[view].items() if key in takes}


@cache
def contents(view: str, streams: int) -> tuple[Tensor, Tensor]:
    """A query [3, 1, 1, streams·d] and keys [3, 1, N, streams·d], one pair for each of the ``CONTENTS``."""
    axes, reach = VIEWS[view]
    rng = torch.Generator().manual_seed(0)
    others = torch.randn((2 * reach + 1) ** axes, 2, CHANNELS, generator=rng, dtype=torch.float64)
    query, one = torch.randn(2, 2, CHANNELS, generator=rng, dtype=torch.float64)
    keys = torch.stack([x.expand_as(others) for x in (one, query, others)])
    of_streams = query.expand(3, 1, 1, -1, -1), keys[:, None]
    q, k = (x[..., :streams, :].flatten(-2) for x in of_streams)
    return q, k


def places(view: str, first: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions of the query after each move, [MOVES, axes], ``first`` before it; of all keys, [K, axes].

    And which of these are the keys around it, [MOVES, N].
    """
    axes, reach = VIEWS[view]
    query = torch.full((MOVES, axes), first)
    query[:, -1] += torch.arange(MOVES)
    rows, columns = (2 * reach + 1) ** (axes - 1), 2 * reach + MOVES
    there = first - reach + grid_positions(*[2 * reach + 1] * (axes - 1), columns, dtype=torch.int64)
    around = torch.arange(rows * columns).view(rows, columns).unfold(1, 2 * reach + 1, 1)
    return query, there, around.transpose(0, 1).flatten(1)


@cache
def encoding_of(name: str, view: str, trained: int, **options: int) -> Encoding:
    """The encoding in float64; parameters that start near zero are random, the same in every build."""
    axes, _ = VIEWS[view]
    heads = 2 if name == "alibi" else 1  # a slope of 1/16
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        encoding = create_encoding(
            name, head_dim=CHANNELS, heads=heads, axes=axes, grid=(trained,) * axes, **options
        ).double()
        for parameter in encoding.parameters() if name in ("learned", "shaw", "t5-bias") else ():
            nn.init.normal_(parameter, std=0.5)
    return encoding.requires_grad_(False)


@cache
def log_weights(name: str, view: str, trained: int, **options: int) -> Tensor:
    """ln(N w) of the query with its N keys, row by row, for each move and content: float64 [MOVES, 3, N].

    The query is at position 0 before the move; for ``learned``, in the middle of its table.
    """
    encoding = encoding_of(name, view, trained, **options)
    q, near = contents(view, encoding.waves_in)
    here, there, around = places(view, trained // 2 if name == "learned" else 0)
    k = near.new_zeros(MOVES, *near.shape[:2], len(there), near.shape[-1])
    seen = torch.zeros(MOVES, 1, 1, 1, len(there), dtype=torch.bool)
    for keys, mask, at in zip(k, seen, around, strict=True):  # one table of positions for all moves
        keys[..., at, :], mask[..., at] = near, True
    q, k, seen = (x.expand(MOVES, 3, *x.shape[-3:]).flatten(0, 1) for x in (q, k, seen))
    here = here.repeat_interleave(3, 0)[:, None]  # of each image its own
    if encoding.acts_on == "tokens":
        q, k = (encoding.add(x[:, 0], at)[:, None] for x, at in ((q, here), (k, there)))
    q, k = (x.expand(-1, encoding.heads, -1, -1) for x in (q, k))
    weights = encoding.weights(q, k, here, key_positions=there, attn_mask=seen)[:, 0, 0]
    found = weights.unflatten(0, (MOVES, 3)).gather(2, around[:, None].expand(-1, 3, -1))
    return (around.shape[1] * found).log()


def packed(name: str, view: str) -> dict[str, Any]:
    """All cells of an encoding as signed bytes in base64, 127 being ``LIMIT``.

    In the order of the settings that it ``takes``; of the move, if it ``moves``: if a move of both tokens
    changes a cell; of the contents; of the keys.
    """
    takes = settings_of(name, view)
    usual = {"trained": SETTINGS[view]["trained"][1]}
    chosen = [usual | dict(zip(takes, values, strict=True)) for values in itertools.product(*takes.values())]
    every = [log_weights(name, view, **options) for options in chosen]
    values = torch.stack(every)  # [settings, MOVES, 3, N]
    moves = not torch.allclose(values, values[:, :1].expand_as(values), rtol=0, atol=1e-8)
    kept = (values if moves else values[:, 0]).clamp(-LIMIT, LIMIT) * 127 / LIMIT
    made = base64.b64encode(kept.round().to(torch.int8).numpy().tobytes()).decode()
    return {"takes": list(takes), "moves": moves, "cells": made}


@cache
def for_browser() -> dict[str, Any]:
    """What book/scripts/figures/picture.js shows, as values for JSON."""
    with warnings.catch_warnings(action="ignore"):  # of rings that repeat
        views = {view: {name: packed(name, view) for name in shown(view)} for view in VIEWS}
    reach = {view: along for view, (_, along) in VIEWS.items()}
    return {
        "names": [name for name in list_encodings() if any(name in of for of in views.values())],
        "views": views,
        "settings": SETTINGS,
        "contents": CONTENTS,
        "reach": reach,
        "moves": MOVES,
        "limit": LIMIT,
    }
