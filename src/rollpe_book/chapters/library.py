"""Parameters of a notebook that name encodings, recipes and devices, and whether their model can be built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollpe.encodings import create_encoding
from rollpe.operators import NYQUIST as NYQUIST
from rollpe_lab.records.record import RunId
from rollpe_lab.training.data import stand_in
from rollpe_lab.training.device import choose_device
from rollpe_lab.training.recipe import Recipe, load_recipe
from rollpe_lab.training.state import create_model, shape_of

RECIPE_KEYS = Recipe.model_fields.keys()


def expect(kind: str, name: str) -> None:
    """Raise InputError unless ``name`` is an encoding, a recipe or a device of this machine."""
    match kind:
        case "encodings":
            create_encoding(name, head_dim=32, heads=1, axes=2, grid=(2, 2))
        case "device":
            choose_device(name)
        case "recipes":
            load_recipe(name)


def build(
    recipe: str,
    values: Mapping[str, Any],
    overrides: Mapping[str, Any],
    encoding: str,
    options: Mapping[str, Any],
) -> None:
    """Build a model without data or training; raises InputError if it cannot be built.

    values: a value under the name of a recipe's key replaces that key, unless it is 0.
    """
    keys = {key: value for key, value in values.items() if key in RECIPE_KEYS and value}
    settings = load_recipe(recipe, keys | dict(overrides))
    run_id = RunId(recipe=settings.name, encoding=encoding, encoding_options=dict(options), seed=0)
    create_model(settings, run_id, shape_of(stand_in(settings.data, settings.context)))
