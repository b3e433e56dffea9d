"""Positional encodings by name: ``create_encoding("roll", head_dim=64, heads=6, axes=2)``.

Importing the rooms registers their encodings; the order here is the order of ``ENCODINGS``.
"""

# isort: off
from rollpe.encodings.registry import (
    ENCODINGS,
    create_encoding,
    encoding_options,
    no_weight_decay,
    split_name,
    split_options,
    changed_options,
)
from rollpe.encodings.base import Encoding
from rollpe.encodings.positions import grid_positions, scale_positions
from rollpe.encodings.outside import import_encodings, outside_files
from rollpe.encodings import absolute, relative, rotary, lie, roll
# isort: on

__all__ = [
    "ENCODINGS",
    "Encoding",
    "absolute",
    "changed_options",
    "create_encoding",
    "encoding_options",
    "grid_positions",
    "import_encodings",
    "lie",
    "no_weight_decay",
    "outside_files",
    "relative",
    "roll",
    "rotary",
    "scale_positions",
    "split_name",
    "split_options",
]
