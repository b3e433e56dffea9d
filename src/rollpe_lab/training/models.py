"""The tensors of a run: model, optimizers; made once, then used seed after seed."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rollpe.decoder import create_decoder
from rollpe.errors import InputError
from rollpe.vit import create_vit
from rollpe_lab.records.record import RunId
from rollpe_lab.training import points
from rollpe_lab.training.augment import Augmenter
from rollpe_lab.training.compiling import EAGER, compile_mode, compiles
from rollpe_lab.training.data import Data, ImageData, Split, TextData, load_dataset
from rollpe_lab.training.datasets import CLOUDS
from rollpe_lab.training.device import TrainingError, stream
from rollpe_lab.training.evaluate import evaluator
from rollpe_lab.training.recipe import Recipe
from rollpe_lab.training.step import Step, create_optimizers
from rollpe_lab.training.watch import Model, disorder, queries_and_keys

ALIKE = 0.3
"""Least cosine of a step's gradient with the exact one; drop path at 0.1 leaves more than 0.5."""

AHEAD = 32  # batches augmented at once, so that many images share each operation ...
AHEAD_BYTES = 2**27  # ... unless they take more than this


class CompiledModel:
    """Model, optimizers, step and scoring of one recipe and encoding: made once, then used seed after seed.

    What is compiled is bound to the tensors of this model, so every seed puts its weights into them.
    """

    def __init__(self, recipe: Recipe, run_id: RunId, data: Data, device: torch.device) -> None:
        self.recipe, self.run_id, self.shape, self.device = recipe, run_id, shape_of(data), device
        self.model = create_model(recipe, run_id, self.shape).to(device)
        self.mode = compile_mode(recipe, device)
        self.evaluate = evaluator(recipe, data, device, self.mode)
        self.augmenter: Augmenter | None = None
        if isinstance(data, ImageData):
            size = tuple(self.shape["image_size"])
            self.augmenter = Augmenter(recipe.augmentation, size, data.mean, data.std, len(data.classes))
        penalty, self.hooks = None, ExitStack()
        if recipe.topography != "none":
            pairs = self.hooks.enter_context(queries_and_keys(self.model))
            penalty = partial(disorder, pairs, self.model.token_encoding.head_dim)
        optimizers = create_optimizers(self.model, recipe, self.mode)
        self.step = Step(self.model, recipe, optimizers, self.mode, penalty=penalty)
        self.ready = False

    def begin(self, seed: int) -> Model:
        """Bring all tensors to where a run of this seed begins; returns another model with these weights."""
        fresh = initial_model(self.recipe, self.run_id.model_copy(update={"seed": seed}), self.shape)
        self.model.load_state_dict(fresh.state_dict())
        self.step.reset()
        return fresh

    def batches(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Batches as the step takes them: images augmented, text [K, B, N] with its successors [K, B·N]."""
        if self.augmenter:
            return self.augmenter.batches(images, labels, generator)
        return images.long(), labels.flatten(1)

    def noise(self, batch: int) -> tuple[Tensor, Tensor]:
        """One batch of random images or windows, as the step takes it."""
        classes = self.shape["classes"]
        if self.augmenter:
            size = (1, batch, self.shape["channels"], *self.shape["image_size"])
            images, labels = torch.randint(256, size), torch.randint(classes, (1, batch))
        else:
            images, labels = torch.randint(classes, (2, 1, batch, self.shape["context"]))
        images, labels = images.to(self.device, torch.uint8), labels.to(self.device)
        inputs, targets = self.batches(images, labels, torch.Generator())
        return inputs[0], targets[0]

    def precompile(self, batch: int) -> None:
        """Compile everything now, on noise, and leave all tensors as they were; the random state moves on.

        batch: images or windows of a step. Nothing is done where nothing is to be compiled, or all is.
        """
        if self.mode.gradient and not self.ready:
            self.model.train()
            self.step.precompile(*self.noise(batch))
            self.evaluate.precompile(self.model)
        self.ready = True

    def check_gradient(self, batch: int) -> None:
        """Compare the gradient of a step for the weights of queries, keys and values with plain attention's.

        A device may compute wrongly without a word, as in first runs on a GPU. The comparison is with float32
        and products, on noise. Weights and optimizers stay as they are; the random state moves on. Raises
        TrainingError for another direction; dropout also turns the gradient a little.
        """
        inputs, targets = self.noise(batch)
        exact = self.recipe.model_copy(update={"precision": "float32", "attention": "math"})
        plain = Step(self.model, exact, [], EAGER)
        plain.in_pieces = True  # as much memory as a small batch takes
        found = []
        for step in (plain, self.step):
            self.model.train(step is self.step)
            found.append(step.query_key_value_gradients(inputs, targets))
        for layer, parts in enumerate(zip(*found, strict=True)):
            alike = [F.cosine_similarity(a, b, dim=0).item() for a, b in zip(*parts, strict=True)]
            if not min(alike) > ALIKE:
                raise TrainingError(
                    f"the gradient in block {layer + 1} has a cosine of {min(alike):.2f} with that of plain "
                    f"attention in float32. Try --set attention=efficient, or --set compile=false."
                )


NOT_COMPILED = frozenset(
    {"name", "held_out", "train_images", "epochs", "max_steps", "warmup_epochs"}
    | {"score_every", "resolutions", "shifts", "frames"}
)
"""Keys of a recipe that its compiled model does not depend on: runs that differ in these alone share one."""


def compiled_key(recipe: Recipe, run_id: RunId) -> str:
    """The same for all runs that can share a compiled model."""
    return f"{run_id.slug} {recipe.model_dump_json(exclude=set(NOT_COMPILED))}"


class CompiledModels:
    """What the runs of one process share: data sets, and a `CompiledModel` for each recipe and encoding.

    Each model keeps the memory of its activations, so that there are `KEPT` at most: one more, and all are
    dropped.
    """

    KEPT = 8

    def __init__(self) -> None:
        self._data: dict[tuple[str, str, int | None, int | None], Data] = {}
        self._models: dict[tuple[str, str], CompiledModel] = {}

    def __len__(self) -> int:
        return len(self._models)

    def data(self, recipe: Recipe, root: str | Path) -> Data:
        key = (recipe.data, str(root), recipe.held_out, recipe.context)
        if key not in self._data:
            self._data[key] = load_dataset(recipe.data, root, recipe.held_out, recipe.context)
        return self._data[key]

    def get(self, recipe: Recipe, run_id: RunId, data: Data, device: torch.device) -> CompiledModel:
        """The model of a cell, whatever its seed: the one there is, or a new one."""
        key = (compiled_key(recipe, run_id), str(device))
        if key not in self._models:
            if len(self._models) == self.KEPT:
                self.forget()
            self._models[key] = CompiledModel(recipe, run_id, data, device)
        return self._models[key]

    def forget(self) -> None:
        """Drop all models, with what was compiled and the memory of its graphs."""
        compiled_any = any(model.mode.gradient for model in self._models.values())
        self._models.clear()
        if compiled_any:
            gc.collect()  # what was compiled refers to itself
            torch.compiler.reset()


def ahead(batch: int, numbers: int) -> int:
    """How many batches of images with this many numbers are augmented at once, on every device."""
    return max(1, min(AHEAD, AHEAD_BYTES // (4 * batch * numbers)))


def training_images(recipe: Recipe, data: Data) -> Split:
    """The training images or windows of a run: all of them, or the first train_images."""
    count = recipe.train_images or len(data.train)
    if count > len(data.train):
        raise InputError(
            f"train_images={count}: with held_out={len(data.held_out)}, {data.name} has {len(data.train)}. "
            "Lower it or leave it out."
        )
    return Split(data.train.images[:count], data.train.labels[:count])


def resolve(recipe: Recipe, device: torch.device, held_out: int) -> Recipe:
    """The recipe with every "auto" and every default of the data set decided."""
    cuda = device.type == "cuda"
    precision = "bfloat16" if cuda and torch.cuda.is_bf16_supported() else "float32"
    return recipe.model_copy(
        update={
            "held_out": held_out,
            "precision": precision if recipe.precision == "auto" else recipe.precision,
            # queries and keys are collected by hooks, which CUDA graphs would not see
            "compile": recipe.topography == "none"
            and (cuda and compiles(device) if recipe.compile == "auto" else recipe.compile),
        }
    )


def create_model(recipe: Recipe, run_id: RunId, shape: Mapping[str, Any]) -> Model:
    """The untrained model of a run, for images or windows of that shape."""
    keys = {"size", "depth", "width", "heads", "layer_scale", "qkv_bias", "dropout", "drop_path"}
    common: dict[str, Any] = recipe.model_dump(include=keys)
    common |= {"classes": shape["classes"], "encoding_options": run_id.encoding_options}
    if "context" in shape:
        return create_decoder(run_id.encoding, context=shape["context"], **common)
    assert recipe.patch_size is not None  # a recipe of images has one
    common |= {"patch_size": recipe.patch_size, "pool": recipe.pool}
    if recipe.data in CLOUDS:
        model = create_vit(run_id.encoding, image_size=points.SIDE, channels=1, **common)
        model.register_forward_pre_hook(points.with_positions)
        return model
    size, channels = tuple(shape["image_size"]), shape["channels"]
    return create_vit(run_id.encoding, image_size=size, channels=channels, **common)


def initial_model(recipe: Recipe, run_id: RunId, shape: Mapping[str, Any]) -> Model:
    """The model of a run before its first step; leaves the random state where its weights end."""
    torch.manual_seed(stream(run_id.seed, "weights"))
    return create_model(recipe, run_id, shape)


def shape_of(data: Data) -> dict[str, Any]:
    """What a model has to know of a data set."""
    if isinstance(data, TextData):
        return {"context": data.context, "classes": len(data.classes)}
    _, channels, height, width = data.train.images.shape
    return {"image_size": [height, width], "channels": channels, "classes": len(data.classes)}
