"""One run, from a recipe and an encoding to a record; and many runs, from a plan.

run.py is where to begin: `train`, from the recipe to the record. It rests on recipe.py, datasets.py (a
table), data.py (fetch.py downloads), augment.py, models.py (model, optimizers), step.py and
compiling.py (one optimizer step), evaluate.py, checkpoint.py, watch.py and
device.py. plan.py reads plans, sweep.py trains the runs that are missing.

The names here are imported when they are first used: recipes are read without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollpe_lab.training.checkpoint import load_model
    from rollpe_lab.training.data import load_dataset
    from rollpe_lab.training.device import TrainingError, choose_device
    from rollpe_lab.training.models import create_model
    from rollpe_lab.training.plan import load_plan
    from rollpe_lab.training.recipe import Recipe, load_recipe, recipes
    from rollpe_lab.training.run import train
    from rollpe_lab.training.step import create_optimizers, learning_rate

__all__ = [
    "Recipe",
    "TrainingError",
    "choose_device",
    "create_model",
    "create_optimizers",
    "learning_rate",
    "load_dataset",
    "load_model",
    "load_plan",
    "load_recipe",
    "recipes",
    "train",
]

_MODULES = {
    "checkpoint": ("load_model",),
    "data": ("load_dataset",),
    "device": ("TrainingError", "choose_device"),
    "plan": ("load_plan",),
    "recipe": ("Recipe", "load_recipe", "recipes"),
    "run": ("train",),
    "models": ("create_model",),
    "step": ("create_optimizers", "learning_rate"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
