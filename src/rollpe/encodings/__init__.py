"""Positional encodings by name: ``create_encoding("roll", head_dim=64, heads=6, axes=2)``."""

from importlib import import_module

from rollpe.encodings.base import Encoding
from rollpe.encodings.positions import grid_positions, scale_positions
from rollpe.encodings.registry import (
    ENCODINGS,
    changed_options,
    create_encoding,
    encoding_options,
    import_encodings,
    no_weight_decay,
    outside_files,
    register,
    split_name,
    split_options,
)

for family in ("absolute", "relative", "rotary", "lie", "roll"):  # registers them, in the order of tables
    import_module(f"{__name__}.{family}")

__all__ = [
    "ENCODINGS",
    "Encoding",
    "changed_options",
    "create_encoding",
    "encoding_options",
    "grid_positions",
    "import_encodings",
    "no_weight_decay",
    "outside_files",
    "register",
    "scale_positions",
    "split_name",
    "split_options",
]
