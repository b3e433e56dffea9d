"""Parameters of a notebook that name encodings, recipes and devices."""

from __future__ import annotations

from rollpe.encodings import create_encoding
from rollpe.ring import NYQUIST as NYQUIST
from rollpe_lab.training.device import choose_device
from rollpe_lab.training.recipe import load_recipe


def expect(kind: str, name: str) -> None:
    """Raise InputError unless ``name`` is an encoding, a recipe or a device of this machine."""
    match kind:
        case "encodings":
            create_encoding(name, head_dim=32, heads=1, axes=2, grid=(2, 2))
        case "device":
            choose_device(name)
        case "recipes":
            load_recipe(name)
