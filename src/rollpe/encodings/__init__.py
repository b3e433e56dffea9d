"""Positional encodings by name: ``create_encoding("roll", head_dim=64, heads=6, axes=2)``."""

# The order of these imports is that of tables: each registers its encodings.
from rollpe.encodings.codes import Integer, Learned, NoEncoding, Sinusoidal, TokenCode  # isort: skip
from rollpe.encodings.biases import Alibi, ScoreBias, Shaw, ShawKV, T5Bias  # isort: skip
from rollpe.encodings.rotary import (  # isort: skip
    AxialRope,
    MixedRope,
    Rope,
    Rotary,
    UniformRope,
    XPos,
)
from rollpe.encodings.lie import Lie, SphericalRope  # isort: skip
from rollpe.encodings.roll import (  # isort: skip
    ContinuousRoll,
    MultiplexedRoll,
    Roll,
    RollTwin,
    TorusRoll,
    TwistedRoll,
)
from rollpe.encodings.base import Encoding
from rollpe.encodings.positions import grid_positions, jitter, scale_positions
from rollpe.encodings.registry import (
    ENCODINGS,
    changed_options,
    create_encoding,
    encoding_options,
    import_encodings,
    list_encodings,
    no_weight_decay,
    outside_files,
    register,
    split_name,
    split_options,
)

__all__ = [
    "ENCODINGS",
    "Alibi",
    "AxialRope",
    "ContinuousRoll",
    "Encoding",
    "Integer",
    "Learned",
    "Lie",
    "MixedRope",
    "MultiplexedRoll",
    "NoEncoding",
    "Roll",
    "RollTwin",
    "Rope",
    "Rotary",
    "ScoreBias",
    "Shaw",
    "ShawKV",
    "Sinusoidal",
    "SphericalRope",
    "T5Bias",
    "TokenCode",
    "TorusRoll",
    "TwistedRoll",
    "UniformRope",
    "XPos",
    "changed_options",
    "create_encoding",
    "encoding_options",
    "grid_positions",
    "import_encodings",
    "jitter",
    "list_encodings",
    "no_weight_decay",
    "outside_files",
    "register",
    "scale_positions",
    "split_name",
    "split_options",
]
