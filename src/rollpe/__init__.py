"""Positional encodings for attention, their mathematics and their evidence.

    encoding = rollpe.create_encoding("roll", head_dim=64, heads=6)
    out = encoding.attend(q, k, v, rollpe.grid_positions(14, 14))

All names of ``rollpe.encodings`` and what builds models of them are here. Each is imported when it is first
used, so that ``import rollpe`` stays instant. See ``rollpe.ring`` for the mathematics and
``rollpe_lab.training`` for the experiments.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollpe.decoder import create_decoder as create_decoder
    from rollpe.encodings import *  # noqa: F403
    from rollpe.encodings.attention import MultiheadAttention as MultiheadAttention
    from rollpe.encodings.attention import drop_in_attention as drop_in_attention
    from rollpe.encodings.attention import linear_attention as linear_attention
    from rollpe.vit import create_vit as create_vit

__version__ = "0.1.0"

_ELSEWHERE = {
    "create_decoder": "rollpe.decoder",
    "create_vit": "rollpe.vit",
    "MultiheadAttention": "rollpe.encodings.attention",
    "drop_in_attention": "rollpe.encodings.attention",
    "linear_attention": "rollpe.encodings.attention",
}


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # asked for by import machinery and inspection; no need of torch
        raise AttributeError(f"module 'rollpe' has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "rollpe.encodings")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ELSEWHERE, *import_module("rollpe.encodings").__all__])
