"""One run, in reading order: recipe, data, model, loop, evaluation, checkpoints, record.

`train` turns a recipe (a small YAML file), an encoding and a seed into a trained model and its
record. Encodings are compared by giving each the same recipe and the same seeds: the order of the
images, their augmentation and the dropout masks depend on the seed alone, never on the encoding.
The training images live on the device as bytes and are augmented many batches ahead; nothing waits for
the device but a look at the losses now and then. A part of the images is held out and scored after every
epoch; the test images are scored once, at the end. On one machine's CPU, with the same number of
threads, the same seed gives the same record, bit for bit except times, also if the run was killed
and resumed in between. Under `torchrun`, one run is shared by several processes: each takes its part of
every batch, and the record is that of one process up to rounding, but for the dropout masks and for
topography=tdann, whose correlations are then over the images of one share. What a recipe reaches, and how
fast, is in its records (`rollpe table`).

Not in here: one optimizer step (engine.py), what an epoch's numbers mean together (statistics.py), how
images are changed (augment.py), what the model is (vit.py), the shape of the record (records.py).
"""

from __future__ import annotations

import copy
import gc
import hashlib
import io
import json
import logging
import math
import os
import shlex
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from rollpe.augment import Augmentation, Augmenter
from rollpe.datasets import ImageData, Split, load_dataset, stand_in
from rollpe.distributed import ALONE, Group, joined, numbered, processes
from rollpe.encodings import outside_files, told_options
from rollpe.engine import (
    EAGER,
    How,
    Step,
    compiled,
    compiles,
    create_optimizers,
    how,
    learning_rate,
    predictor,
)
from rollpe.errors import InputError
from rollpe.observation import disorder, first_step, observe, queries_and_keys
from rollpe.recipes import Recipe, changes, load_recipe, name_of, recipes
from rollpe.records import (
    Cell,
    EpochMetrics,
    FinalMetrics,
    Record,
    claim,
    ensure_writable,
    environment,
    expect_file,
    loaded_hash,
    loaded_source,
    now,
    pack_bits,
    provenance,
    read_record,
    record_path,
    slug,
    sweep_up,
    write_atomically,
    write_record,
)
from rollpe.vit import VisionTransformer, create_vit

__all__ = [
    "Recipe",
    "TrainingError",
    "create_model",
    "create_optimizers",
    "learning_rate",
    "load_model",
    "load_recipe",
    "observe_again",
    "recipes",
    "resolve_options",
    "shape_of",
    "train",
]

logger = logging.getLogger(__name__)

PROTOCOL = 1
"""Version of the training procedure. Raise it by one with every change that alters what a run with
the same recipe can reach: records of different protocols are refused as not comparable."""

ROOMS = (
    *("operators.py", "encodings/", "vit.py", "datasets.py", "augment.py", "engine.py", "training.py"),
    *("distributed.py", "topography.py", "observation.py"),
)
"""The source that a checkpoint depends on."""

EVALUATION_BATCH = {"cpu": 100}  # what its caches hold; 1,000 elsewhere
OBSERVED = 256  # test images over which attention, spectra and roughness are averaged; training images of
# which the first gradient is taken

SAME_MODEL = 100
"""A model scored again may read one image in so many differently: devices round differently. Models of two
seeds differ on many times as many."""
TICK = 1e-9
"""Seconds that pass at least, as far as speeds are concerned: some clocks stand still for a while."""
CHECKPOINT_SECONDS = 60  # between two checkpoints; the first comes after the first epoch
LOOK_EVERY = 25  # steps between two looks at the loss: each look waits for the device
AHEAD = 32  # batches augmented at once, so that many images share each operation ...
AHEAD_BYTES = 2**27  # ... unless they take more than this


NO_MEMORY = ("out of memory", "can't allocate memory", "failed to allocate")
"""What errors say when an allocation fails: CUDA's, a compiler's around it, and the CPU's."""


class TrainingError(RuntimeError):
    """A run that cannot be finished: one line with where it broke off and what to try."""


class ForeignCheckpoint(InputError):
    """A checkpoint that another source, recipe or device wrote: this run cannot go on from it."""


class DamagedCheckpoint(InputError):
    """A file that is not, byte for byte, a checkpoint as it was written."""


# tqdm's own lock is a semaphore that forked processes share: one that is killed while it holds it would stop
# all others for good. Here a bar belongs to one process.
tqdm.set_lock(threading.RLock())


# The run


def train(
    recipe: Recipe,
    encoding: str,
    *,
    seed: int = 0,
    encoding_options: Mapping[str, Any] | None = None,
    device: str = "auto",
    records: str | Path | None = None,
    data_root: str | Path = "data",
    resume: bool = False,
    checkpoints: str | Path | None = "checkpoints",
    progress: bool = True,
    programs: Programs | None = None,
    plan: str | None = None,
) -> Record:
    """Train one model and return its record.

    recipe: what to train on what and how; see `load_recipe`.
    encoding: one name of rollpe.encodings, or two joined by "+", with its encoding_options.
    seed: of the initial weights, the order of the images, their augmentation, the dropout.
    device: "auto" (cuda, then mps, then cpu) or a torch device.
    records: folder to write the record into; None writes none. No two processes may write one run.
    resume: go on from the checkpoint of this very run, if there is one; from the one before it, and a
        warning, if the last is damaged.
    checkpoints: folder of checkpoints, written after the first epoch and then after the first epoch that
        ends a minute or more after the last was written; None writes none. The last two are kept. After the
        last epoch one remains, with the weights alone; `load_model` reads them.
    progress: show a progress bar, if stderr is a terminal.
    programs: what earlier runs of the same recipe and encoding have compiled; see `Programs`.
    plan: which plan asked for this run; see `Provenance`.

    Raises InputError for input a person can repair, TrainingError if the loss stops being finite or
    memory runs out. The global random state is left as it was.
    """
    clock = time.perf_counter()
    asked, place = recipe, choose_device(device)
    source = loaded_source(outside_files(encoding))
    if seed < 0:
        raise InputError(f"seed={seed}: allowed is an integer ≥ 0.")

    with ExitStack() as opened:
        group = opened.enter_context(joined(place))
        shared = opened.enter_context(Programs()) if programs is None else programs
        data = shared.data(recipe, data_root)
        recipe = resolve(recipe, place, held_out=len(data.held_out))
        cell = Cell(
            recipe=recipe.name,
            encoding=encoding,
            encoding_options=resolve_options(encoding, encoding_options or {}),
            seed=seed,
        )
        training = _used(recipe, data).to(place)
        batch = min(recipe.batch_size, len(training))
        steps = len(training) // batch  # per epoch; the last, smaller batch is left out
        total = min(recipe.epochs * steps, recipe.max_steps or recipe.epochs * steps)
        held_out = data.held_out.to(place)
        part = group.part(batch)
        opened.enter_context(reproducible(place))
        opened.enter_context(enough_memory(recipe))
        program = shared.program(recipe, cell, data, place, group)
        untrained, arrays = program.begin(seed), {}
        program.evaluate.rehearse(program.judged, recipe.resolutions)
        if records is not None and group.first:
            arrays = _first_step(untrained.to(place), program.evaluate, training)
        # everything that can be refused has been; from here on something is written
        if records is not None and group.first:
            opened.enter_context(reserved(records, cell, record_path(records, cell)))
        if checkpoints is not None and group.first:
            opened.enter_context(reserved(checkpoints, cell, checkpoint_path(checkpoints, cell)))
        shared.waited = program.warm(part.stop - part.start)
        # from here on: dropout and drop path, which no two processes may share
        torch.manual_seed(stream(seed, "noise" if group.first else f"noise {group.rank}"))
        run = Run(
            recipe,
            program,
            {
                "order": torch.Generator().manual_seed(stream(seed, "order")),
                "augmentation": torch.Generator().manual_seed(stream(seed, "augmentation")),
                "noise": _global_generator(place),
            },
            started=now(),
        )
        checkpoint, saved = None, -math.inf
        if checkpoints is not None:
            checkpoint = Checkpoint(checkpoint_path(checkpoints, cell), cell, recipe, data, place, group)
            if resume:
                checkpoint.load(run)
                clock -= run.elapsed

        bar = tqdm(
            total=total * batch,
            initial=run.step * batch,
            desc=f"{cell.slug} seed {seed}",
            unit=" images",
            unit_scale=True,
            disable=None if progress and group.first else True,  # None: shown only on a terminal
        )
        evaluate, judged = program.evaluate, program.judged
        while run.step < total:
            begun = time.perf_counter()
            losses, rate = _epoch(run, training, total, group, part, bar)
            trained = time.perf_counter() - begun
            last = run.step + len(losses) == total
            scored = len(held_out) and (last or run.epoch % recipe.score_every == 0)
            score = evaluate(judged, held_out) if scored else None
            run.history.append(
                EpochMetrics(
                    epoch=run.epoch,
                    steps=run.step + len(losses),
                    learning_rate=rate,
                    train_loss=losses.mean().item(),
                    held_out_loss=score.loss if score else None,
                    held_out_accuracy=score.accuracy if score else None,
                    images_per_second=len(losses) * batch / max(trained, TICK),
                    seconds=time.perf_counter() - begun,
                )
            )
            run.elapsed = time.perf_counter() - clock
            if checkpoint and group.first and time.perf_counter() - saved > CHECKPOINT_SECONDS:
                checkpoint.save(run)
                saved = time.perf_counter()
        bar.close()

        test = evaluate(judged, data.test)
        resolutions = {str(size): evaluate(judged, data.test, size).accuracy for size in recipe.resolutions}
        shifts = {str(by): evaluate(judged, moved(data.test, by)).accuracy for by in recipe.shifts}
        if records is not None and group.first:
            arrays |= observe(judged, evaluate.prepare(data.test.images[:OBSERVED]))

        record = Record(
            protocol=PROTOCOL,
            **cell.model_dump(),
            config=recipe.model_dump(mode="json"),
            parameters=sum(p.numel() for p in program.model.parameters() if p.requires_grad),
            history=run.history,
            test=test,
            resolutions=resolutions,
            shifts=shifts,
            throughput=_throughput(run.history),
            environment=environment(str(place)),
            provenance=provenance(
                command(asked, cell, group.size),
                run.started,
                time.perf_counter() - clock,
                source,
                plan,
            ),
        )
        if checkpoint and group.first:  # before the record: whoever has a record has the weights, too
            checkpoint.save(run, finished=True)
        if records is not None and group.first:
            record = read_record(write_record(records, record, **arrays))
        return record


@contextmanager
def reserved(root: str | Path, cell: Cell, path: Path) -> Iterator[None]:
    """Keep the place that a run writes to from all others, and free of what was left half-written there.

    root: folder of records or checkpoints, of which `path` is this run's file.
    """
    ensure_writable(path.parent)
    for file in (path, path.with_suffix(".npz"), previous_path(path)):
        expect_file(file)
    with claim(root, cell) as free:
        if not free:
            raise InputError(
                f"{path}: another process trains this run. Wait for it, or choose another folder."
            )
        sweep_up(path)
        yield


@dataclass
class Run:
    """What changes while a run goes on, beside the tensors of its program; a checkpoint holds all of it."""

    recipe: Recipe
    program: Program
    generators: dict[str, torch.Generator]
    started: str
    elapsed: float = 0.0
    history: list[EpochMetrics] = field(default_factory=list)

    @property
    def step(self) -> int:
        """Optimizer steps of the finished epochs."""
        return self.history[-1].steps if self.history else 0

    @property
    def epoch(self) -> int:
        """Number of the epoch that is under way, from 1."""
        return len(self.history) + 1


def _epoch(
    run: Run, training: Split, total: int, group: Group, part: slice, bar: tqdm
) -> tuple[Tensor, float]:
    """One pass over the training images, in a fresh order: (loss of each step, last rate).

    part: this process's share of every batch.
    """
    program, recipe = run.program, run.recipe
    images, labels = training.images, training.labels
    place, batch = images.device, min(recipe.batch_size, len(labels))
    steps = len(labels) // batch
    order = torch.randperm(len(labels), generator=run.generators["order"])
    batches = order[: steps * batch].view(steps, batch)[: total - run.step].to(place)
    losses = torch.zeros(len(batches), device=place)
    program.model.train()
    i = 0
    for chosen in batches.split(ahead(batch, images[0].numel())):
        pixels = images.index_select(0, chosen.flatten()).unflatten(0, chosen.shape)
        prepared = program.augment.batches(pixels, labels[chosen], run.generators["augmentation"], part)
        for inputs, targets in zip(*prepared, strict=True):
            rate = learning_rate(recipe, run.step + i, total, steps)
            losses[i] = program.step(inputs, targets, rate)
            i += 1
            if i % LOOK_EVERY == 0 or i == len(batches):
                seen = group.mean(losses[:i])
                _expect_finite(seen, run.epoch, recipe)
                bar.update((run.step + i) * batch - bar.n)
                scores = [row.held_out_accuracy for row in run.history if row.held_out_accuracy is not None]
                held_out = {"held-out": f"{100 * scores[-1]:.1f} %"} if scores else {}
                bar.set_postfix({"epoch": run.epoch, "loss": f"{seen[-1].item():.3f}"} | held_out)
    return seen.cpu().double(), rate


# Programs


class Program:
    """Model, optimizers, step and scoring of one recipe and encoding: made once, then used seed after seed.

    What is compiled is bound to the tensors of this model, so every seed puts its weights into them.
    """

    def __init__(
        self, recipe: Recipe, cell: Cell, data: ImageData, place: torch.device, group: Group = ALONE
    ) -> None:
        self.recipe, self.cell, self.shape = recipe, cell, shape_of(data)
        self.way = how(recipe, place, group.size)
        self.model = create_model(recipe, cell, self.shape).to(place)
        self.average = copy.deepcopy(self.model) if recipe.ema else None
        self.evaluate = Evaluator(recipe, data, place, group, self.way)
        size = tuple(self.shape["image_size"])
        self.augment = Augmenter(recipe.augmentation, size, data.mean, data.std, len(data.classes))
        penalty, self.hooks = None, ExitStack()
        if recipe.topography != "none":
            seen = self.hooks.enter_context(queries_and_keys(self.model))
            penalty = _penalty(recipe, self.model, seen)
        self.step = Step(
            self.model,
            recipe,
            create_optimizers(self.model, recipe, self.way),
            self.way,
            average=self.average,
            penalty=penalty,
            processes=group.size,
        )
        self.ready = False

    @property
    def judged(self) -> VisionTransformer:
        """The model that is evaluated: the average of the weights if there is one."""
        return self.average or self.model

    def begin(self, seed: int) -> VisionTransformer:
        """Bring all tensors to where a run of this seed begins; returns another model with these weights."""
        fresh = _initial_model(self.recipe, self.cell.model_copy(update={"seed": seed}), self.shape)
        for model in filter(None, (self.model, self.average)):
            model.load_state_dict(fresh.state_dict())
        self.step.reset()
        return fresh

    def warm(self, batch: int) -> float:
        """Compile everything now, on noise, and leave all tensors as they were; the random state moves on.

        batch: images of a step, those of this process alone. Returns the seconds that it took; nothing is
        done where nothing is to be compiled, or all is.
        """
        begun, place = time.perf_counter(), self.evaluate.place
        if self.way.gradient and not self.ready:
            images = torch.randint(256, (1, batch, self.shape["channels"], *self.shape["image_size"]))
            labels = torch.randint(self.shape["classes"], (1, batch))
            noise = Split(images.to(torch.uint8), labels).to(place)
            inputs, targets = self.augment.batches(noise.images, noise.labels, torch.Generator())
            self.model.train()
            self.step.warm(inputs[0], targets[0])
            few = EVALUATION_BATCH.get(place.type, 1000)
            again = torch.arange(few, device=place) % batch
            self.evaluate(self.judged, Split(noise.images[0][again], noise.labels[0][again]))
        self.ready = True
        return time.perf_counter() - begun


BESIDE_PROGRAM = frozenset(
    {"name", "held_out", "train_images", "epochs", "max_steps", "warmup_epochs", "schedule"}
    | {"final_learning_rate", "score_every", "resolutions", "shifts"}
)
"""Keys of a recipe that its program does not depend on: runs that differ in these alone share one."""


def program_key(recipe: Recipe, cell: Cell) -> str:
    """The same for all runs that can share a program."""
    return f"{cell.slug} {recipe.model_dump_json(exclude=set(BESIDE_PROGRAM))}"


class Programs:
    """What the runs of one process share: data sets, and a `Program` for each recipe and encoding.

    Each program keeps the memory of its activations, so that there are `KEPT` at most: one more, and all are
    dropped. Leaving the context drops them, too. waited: seconds that the last run waited for its program to
    be compiled.
    """

    KEPT = 8

    def __init__(self) -> None:
        self.waited = 0.0
        self._data: dict[tuple[str, str, int | None], ImageData] = {}
        self._programs: dict[tuple[str, str], Program] = {}

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()

    def __len__(self) -> int:
        return len(self._programs)

    def data(self, recipe: Recipe, root: str | Path) -> ImageData:
        key = (recipe.data, str(root), recipe.held_out)
        if key not in self._data:
            self._data[key] = load_dataset(recipe.data, root, held_out=recipe.held_out)
        return self._data[key]

    def program(
        self, recipe: Recipe, cell: Cell, data: ImageData, place: torch.device, group: Group = ALONE
    ) -> Program:
        """The program of a cell, whatever its seed: the one there is, or a new one."""
        key = (program_key(recipe, cell), str(place))
        if key not in self._programs:
            if len(self._programs) == self.KEPT:
                self.forget()
            self._programs[key] = Program(recipe, cell, data, place, group)
        return self._programs[key]

    def forget(self) -> None:
        """Drop all programs, with what was compiled and the memory of its graphs."""
        compiled_any = any(program.way.gradient for program in self._programs.values())
        self._programs.clear()
        gc.collect()  # each step refers to itself
        if compiled_any:
            torch.compiler.reset()


def warm(
    recipe: Recipe,
    encoding: str,
    *,
    encoding_options: Mapping[str, Any] | None = None,
    device: str = "auto",
) -> float:
    """Compile what a run will need, before its data are there; returns the seconds it took.

    What was compiled lies in the folder of torch's compiler, where runs of other processes find it.
    """
    place, data = choose_device(device), stand_in(recipe.data)
    recipe = resolve(recipe, place, held_out=0)
    told = resolve_options(encoding, encoding_options or {})
    cell = Cell(recipe=recipe.name, encoding=encoding, encoding_options=told, seed=0)
    with Programs() as programs, reproducible(place), enough_memory(recipe):
        return programs.program(recipe, cell, data, place).warm(recipe.batch_size)


def ahead(batch: int, numbers: int) -> int:
    """How many batches are augmented at once, for images of so many numbers; the same on every device."""
    return max(1, min(AHEAD, AHEAD_BYTES // (4 * batch * numbers)))


def _penalty(
    recipe: Recipe, model: VisionTransformer, seen: list[tuple[Tensor, Tensor]]
) -> Callable[[], Tensor]:
    """The loss of disorder among the queries and keys of the last forward pass, with its weight."""
    return lambda: recipe.topography_weight * disorder(seen, recipe.topography, model.token_encoding.head_dim)


def _expect_finite(losses: Tensor, epoch: int, recipe: Recipe) -> None:
    """Raises TrainingError naming the first step whose loss is not a number, or infinite."""
    broken = (~losses.isfinite()).nonzero()
    if len(broken):
        step = int(broken[0])
        clip = "a smaller gradient_clip" if recipe.gradient_clip else "--set gradient_clip=1"
        raise TrainingError(
            f"the loss is {losses[step].item()} at epoch {epoch}, step {step + 1}. Try a lower "
            f"learning_rate than {recipe.learning_rate:g}, a longer warmup_epochs, or {clip}."
        )


# Data, device, randomness


def _used(recipe: Recipe, data: ImageData) -> Split:
    """The training images a run sees: all of them, or the first train_images."""
    count = recipe.train_images or len(data.train)
    if count > len(data.train):
        raise InputError(
            f"train_images={count}: with held_out={len(data.held_out)}, {data.name} has {len(data.train)}. "
            "Lower it or leave it out."
        )
    return Split(data.train.images[:count], data.train.labels[:count])


def choose_device(name: str) -> torch.device:
    """ "auto" is the first of cuda, mps, cpu that is here. Raises InputError for what is not."""
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next((kind for kind, present in here.items() if present), "cpu")
    try:
        place = torch.device(name)
        if place.type == "cuda" and processes() > 1:  # before anything is put on the first one
            place = torch.device("cuda", numbered("LOCAL_RANK", 0))
            torch.cuda.set_device(place)
        torch.zeros(1, device=place).item()
    except (RuntimeError, AssertionError, ImportError):
        available = ", ".join(["auto", "cpu", *(kind for kind, present in here.items() if present)])
        raise InputError(f"device={name!r} is not available here. Allowed: {available}.") from None
    return place


def resolve(recipe: Recipe, place: torch.device, held_out: int) -> Recipe:
    """The recipe with every "auto" and every default of the data set decided."""
    cuda = place.type == "cuda"
    precision = "bfloat16" if cuda and torch.cuda.is_bf16_supported() else "float32"
    return recipe.model_copy(
        update={
            "held_out": held_out,
            "precision": precision if recipe.precision == "auto" else recipe.precision,
            # queries and keys are collected by hooks, which CUDA graphs would not see
            "compile": recipe.topography == "none"
            and (cuda and compiles(place) if recipe.compile == "auto" else recipe.compile),
        }
    )


def stream(seed: int, purpose: str) -> int:
    """A seed of its own for every purpose, so that one draw more in one never moves another."""
    return int.from_bytes(hashlib.sha256(f"{purpose} {seed}".encode()).digest()[:7])


@contextmanager
def reproducible(place: torch.device) -> Iterator[None]:
    """Give the global random state back afterwards; on the CPU also forbid racing additions.

    On an accelerator sums are taken in an order that differs from run to run: faster, and equal
    only in distribution.
    """
    before = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.use_deterministic_algorithms(before or place.type == "cpu")
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)


def _global_generator(place: torch.device) -> torch.Generator:
    """The generator that dropout draws from."""
    if place.type == "cuda":
        index = torch.cuda.current_device() if place.index is None else place.index
        return torch.cuda.default_generators[index]
    return torch.default_generator


@contextmanager
def enough_memory(recipe: Recipe) -> Iterator[None]:
    """Turn a failed allocation on an accelerator into one line with a way out."""
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one; compilers and graphs raise others
        if not any(sign in str(error).lower() for sign in NO_MEMORY):
            raise
        raise TrainingError(
            f"out of memory at batch_size={recipe.batch_size}. "
            f"Try --set batch_size={max(1, recipe.batch_size // 2)}."
        ) from None


# The model


def create_model(recipe: Recipe, cell: Cell, shape: Mapping[str, Any]) -> VisionTransformer:
    """The untrained model of a run, for images of that shape."""
    return create_vit(
        cell.encoding,
        image_size=tuple(shape["image_size"]),
        channels=shape["channels"],
        classes=shape["classes"],
        patch_size=recipe.patch_size,
        size=recipe.size,
        depth=recipe.depth,
        width=recipe.width,
        heads=recipe.heads,
        pool=recipe.pool,
        layer_scale=recipe.layer_scale,
        qkv_bias=recipe.qkv_bias,
        dropout=recipe.dropout,
        drop_path=recipe.drop_path,
        encoding_options=cell.encoding_options,
    )


def _initial_model(recipe: Recipe, cell: Cell, shape: Mapping[str, Any]) -> VisionTransformer:
    """The model of a run before its first step; leaves the random state where its weights end."""
    torch.manual_seed(stream(cell.seed, "weights"))
    return create_model(recipe, cell, shape)


def _first_step(model: VisionTransformer, evaluate: Evaluator, training: Split) -> dict[str, np.ndarray]:
    """Of an untrained model, the gradient on some training images."""
    few = evaluate.prepare(training.images[:OBSERVED]), training.labels[:OBSERVED].to(evaluate.place)
    return first_step(model, *few, evaluate.recipe.label_smoothing)


def shape_of(data: ImageData) -> dict[str, Any]:
    """What a model has to know of a data set."""
    _, channels, height, width = data.train.images.shape
    return {"image_size": [height, width], "channels": channels, "classes": len(data.classes)}


# Evaluation


class Evaluator:
    """Scores a model on the images of one data set, never augmented.

    Where training is compiled, so is scoring at the size of training, in batches of one shape. Other sizes
    are seen once, which takes less time than compiling for them. Several processes share the batches.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: ImageData,
        place: torch.device,
        group: Group = ALONE,
        way: How = EAGER,
    ) -> None:
        self.recipe, self.data, self.place, self.group, self.way = recipe, data, place, group, way
        self.predictors: dict[nn.Module, Callable[[Tensor], Tensor]] = {}

    @torch.no_grad()
    def __call__(self, model: nn.Module, split: Split, size: int | None = None) -> FinalMetrics:
        """Loss and accuracy on a split, its images resized to `size` pixels if given.

        Resizing is bilinear and antialiased. A larger image is a larger grid of patches of the
        same size, so its positions go beyond those of training.
        """
        model.eval()
        batch = EVALUATION_BATCH.get(self.place.type, 1000)
        if self.way.gradient and size is None and len(split) >= batch:
            if model not in self.predictors:
                predict = predictor(model, self.recipe, self.place)
                self.predictors[model] = compiled(predict, self.way.gradient)
            predict, shape = self.predictors[model], batch
        else:
            predict, shape = predictor(model, self.recipe, self.place), 0
        loss = torch.zeros((), device=self.place)
        correct = torch.zeros(len(split), device=self.place)
        for start in range(self.group.rank * batch, len(split), self.group.size * batch):
            chosen = slice(start, min(start + batch, len(split)))
            labels = split.labels[chosen].to(self.place)
            images = self.prepare(split.images[chosen], size)
            missing = max(0, shape - len(labels))
            padded = F.pad(images, (0,) * 7 + (missing,)) if missing else images
            if self.way.graphs:
                torch.compiler.cudagraph_mark_step_begin()
            logits = predict(padded)[: len(labels)]
            loss += F.cross_entropy(logits, labels, reduction="sum")
            correct[chosen] = (logits.argmax(1) == labels).float()
        nats = self.group.total(loss).item()
        if not math.isfinite(nats):
            raise TrainingError(
                "the loss on images not trained on is not finite. Try a lower learning_rate "
                f"than {self.recipe.learning_rate:g}."
            )
        bits = self.group.total(correct).cpu().numpy() > 0.5
        return FinalMetrics(
            loss=nats / len(bits),
            accuracy=float(bits.mean()),
            images=len(bits),
            correct=pack_bits(bits),
        )

    def prepare(self, images: Tensor, size: int | None = None) -> Tensor:
        """Bytes [B, channels, H, W] to what the model sees: on its device, resized, normalized."""
        height, width = images.shape[-2:]
        shown = (size, size) if size else (height, width)
        augmenter = Augmenter(Augmentation(), shown, self.data.mean, self.data.std)
        return augmenter.normalize(images.to(self.place))

    def rehearse(self, model: nn.Module, sizes: list[int]) -> None:
        """See one image at every size now: a size the encoding refuses must not cost a run."""
        one = Split(self.data.train.images[:1], self.data.train.labels[:1])
        for size in (None, *sizes):
            self(model, one, size)


def moved(split: Split, by: int) -> Split:
    """The same images moved `by` pixels right and down; the edge is repeated where they left."""
    height, width = split.images.shape[-2:]
    rows = (torch.arange(height) - by).clamp(0, height - 1)
    columns = (torch.arange(width) - by).clamp(0, width - 1)
    return Split(split.images[:, :, rows][:, :, :, columns], split.labels)


# Checkpoints


def checkpoint_path(checkpoints: str | Path, cell: Cell) -> Path:
    """`<checkpoints>/<recipe>/<encoding slug>/seed-<n>.pt`."""
    return Path(checkpoints) / cell.path.with_suffix(".pt")


def previous_path(path: Path) -> Path:
    """Where the checkpoint before this one is kept."""
    return path.with_suffix(".previous.pt")


class Checkpoint:
    """The files from which a killed run goes on, the last and the one before it.

    Plain tensors and text, written atomically, and their digest behind them.
    """

    def __init__(
        self, path: Path, cell: Cell, recipe: Recipe, data: ImageData, place: torch.device, group: Group
    ) -> None:
        self.path, self.place, self.group = path, place, group
        self.previous = previous_path(path)
        self.whole = False  # whether the last file is known to be one from which this run can go on
        self.identity = {
            "cell": cell.model_dump_json(),
            "recipe": recipe.model_dump_json(),
            "shape": json.dumps(shape_of(data)),
            "device": place.type,
            "source": loaded_hash(ROOMS, outside_files(cell.encoding)),
        }

    def save(self, run: Run, finished: bool = False) -> None:
        """Everything needed to go on; of a finished run only the weights that were judged."""
        program = run.program
        state: dict[str, Any] = {
            "identity": self.identity,
            "history": [row.model_dump() for row in run.history],
            "started": run.started,
            "elapsed": run.elapsed,
        }
        if finished:
            state["judged"] = program.judged.state_dict()
        else:
            state |= {
                "model": program.model.state_dict(),
                "average": program.average.state_dict() if program.average else None,
                "optimizers": program.step.state(),
                "generators": {name: g.get_state() for name, g in run.generators.items()},
            }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        with buffer.getbuffer() as archive:
            digest = seal(archive)
        buffer.seek(0, io.SEEK_END)
        buffer.write(digest)
        if self.whole:
            os.replace(self.path, self.previous)
        write_atomically(self.path, buffer.getvalue())
        self.whole = True
        if finished:
            self.previous.unlink(missing_ok=True)

    def load(self, run: Run) -> None:
        """Bring a freshly created run to where the files left off, if there are any, or raise InputError."""
        if (found := self.usable(self.place)) is None:
            return
        path, state = found
        self._take(run, state)
        self.whole = path == self.path
        if self.path.exists() and not self.whole and self.group.first:
            logger.warning(
                "%s: damaged checkpoint. Going on from the one before it, after epoch %d.",
                *(self.path, len(run.history)),
            )

    def usable(self, place: torch.device) -> tuple[Path, dict[str, Any]] | None:
        """The last file that is as it was written and what it holds, on `place`; None if there is no file.

        Raises DamagedCheckpoint if there are only others, ForeignCheckpoint if it is another run's.
        """
        damaged = None
        for path in filter(Path.exists, (self.path, self.previous)):
            try:
                state = _read_checkpoint(path, place, sealed=True)
            except DamagedCheckpoint as error:
                damaged = damaged or error
                continue
            for key, here in self.identity.items():
                if state["identity"][key] != here:
                    raise ForeignCheckpoint(
                        f"{path}: written by another run (its {key} differs). "
                        "Delete it, or train without resume."
                    )
            return path, state
        if damaged:
            raise damaged
        return None

    def _take(self, run: Run, state: dict[str, Any]) -> None:
        run.started, run.elapsed = state["started"], state["elapsed"]
        run.history[:] = [EpochMetrics(**row) for row in state["history"]]
        program = run.program
        if "judged" in state:
            program.judged.load_state_dict(state["judged"])
            return
        program.model.load_state_dict(state["model"])
        if program.average:
            program.average.load_state_dict(state["average"])
        program.step.load(state["optimizers"])
        for name, generator in run.generators.items():
            if name != "noise" or self.group.first:
                generator.set_state(state["generators"][name].cpu())
            else:  # only the first process's is in the file, and masks must differ
                generator.manual_seed(stream(run.step, f"noise {self.group.rank}"))


def epochs_done(
    checkpoints: str | Path,
    recipe: Recipe,
    cell: Cell,
    *,
    device: str = "auto",
    data_root: str | Path = "data",
) -> int:
    """After how many epochs `train` would go on from the checkpoint of this run; 0 if it would begin anew."""
    path = checkpoint_path(checkpoints, cell)
    if not path.exists() and not previous_path(path).exists():
        return 0
    place = choose_device(device)
    data = load_dataset(recipe.data, data_root, held_out=recipe.held_out)
    here = Checkpoint(path, cell, resolve(recipe, place, held_out=len(data.held_out)), data, place, ALONE)
    try:
        found = here.usable(torch.device("cpu"))
    except InputError:
        return 0
    return len(found[1]["history"]) if found else 0


def load_model(path: str | Path, device: str = "auto") -> VisionTransformer:
    """The trained model of a finished run from its checkpoint, in evaluation mode.

    Raises InputError if the file is absent or unusable, or the run has not finished.
    """
    return _read_model(path, choose_device(device))[0]


def _read_model(path: str | Path, place: torch.device) -> tuple[VisionTransformer, Recipe, Cell]:
    state = _read_checkpoint(Path(path), place)
    try:
        identity, judged = state["identity"], state.get("judged")
        recipe = Recipe.model_validate_json(identity["recipe"])
        cell = Cell.model_validate_json(identity["cell"])
        if judged is None:
            raise InputError(f"{path}: this run has not finished. Train it with resume.")
        with torch.random.fork_rng(devices=[]):
            model = create_model(recipe, cell, json.loads(identity["shape"])).to(place)
        model.load_state_dict(judged)
    except (InputError, torch.OutOfMemoryError):
        raise
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise _damaged(path, error) from None
    return model.eval(), recipe, cell


def observe_again(
    path: str | Path, records: str | Path, *, device: str = "auto", data_root: str | Path = "data"
) -> Path:
    """Look into the model of a finished run once more; returns the .npz beside its record.

    For runs that are older than an array of `rollpe.observation`. The record stays as it is, but for the
    digest of its arrays. The model is scored first: its bits on the test images must be the record's, up to
    one in `SAME_MODEL`. The model before its first step is made again from the seed.
    Raises InputError if they are not, or if checkpoint or record is absent or damaged.
    """
    place = choose_device(device)
    model, recipe, cell = _read_model(path, place)
    beside = record_path(records, cell)
    record = read_record(beside)
    data = load_dataset(recipe.data, data_root, held_out=recipe.held_out)
    evaluate = Evaluator(recipe, data, place)
    differ = int((evaluate(model, data.test).bits() != record.correct_bits()).sum())
    if differ * SAME_MODEL > record.test.images:
        raise InputError(
            f"{path}: not the model of {beside}, {differ:,} of {record.test.images:,} images are read "
            "differently. Give the folder that the run wrote to, with --records."
        )
    arrays = observe(model, evaluate.prepare(data.test.images[:OBSERVED]))
    with torch.random.fork_rng(devices=[]):
        untrained = _initial_model(recipe, cell, shape_of(data)).to(place)
    write_record(records, record, **_first_step(untrained, evaluate, _used(recipe, data)), **arrays)
    return beside.with_suffix(".npz")


SEAL = b"\nsha256 "


def seal(content: bytes | memoryview) -> bytes:
    """What follows the archive in a checkpoint: its digest. Readers of archives pass over it."""
    return SEAL + hashlib.sha256(content).hexdigest().encode()


SEAL_LENGTH = len(seal(b""))


def _read_checkpoint(path: Path, place: torch.device, sealed: bool = False) -> dict[str, Any]:
    """What a checkpoint holds. sealed: refuse those without a digest, which older versions wrote.

    Those hold at least a check for each tensor, which is looked at.
    """
    try:
        expect_file(path)
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no checkpoint to read. Train that run first.") from None
    except OSError as error:
        raise _damaged(path, error) from None
    end = content[-SEAL_LENGTH:]
    good = end == seal(memoryview(content)[:-SEAL_LENGTH])
    if not good and (sealed or SEAL in end):
        raise _damaged(path, "its digest is missing or another")
    try:
        file = io.BytesIO(content)
        if not good and (member := zipfile.ZipFile(file).testzip()):
            raise ValueError(f"{member} is not what was written")
        file.seek(0)
        state: dict[str, Any] = torch.load(file, map_location=place, weights_only=True)
        if not {"identity", "history"} <= state.keys():
            raise ValueError("it holds something else")
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # what is no checkpoint may raise anything, in zipfile, zlib or torch
        raise _damaged(path, error) from None
    return state


def _damaged(path: str | Path, reason: object) -> DamagedCheckpoint:
    line = next(iter(str(reason).splitlines()), "") or type(reason).__name__
    return DamagedCheckpoint(f"{path}: damaged checkpoint ({line}). Train that run again, without resume.")


# What the record says of the run


def command(recipe: Recipe, cell: Cell, processes: int = 1) -> str:
    """The command line that repeats a run: a recipe of the package, and every key that differs from it.

    So a recipe with a name or a file of its own is repeated without that file.
    """
    named = recipe.name.partition("@")[0]
    settings = {base: _settings(base, recipe) for base in ([named] if named in recipes() else recipes())}
    base = min(settings, key=lambda base: len(settings[base]))
    words = ["rollpe", "train"]
    if processes > 1:
        words = ["torchrun", "--nproc-per-node", str(processes), "-m", "rollpe.cli", "train"]
    words += ["--encoding", cell.encoding, "--recipe", base]
    words += ["--seed", str(cell.seed)]
    for file in outside_files(cell.encoding):
        words += ["--import", os.path.relpath(file)]
    chosen = slug(base, settings[base]).partition("@")[2]
    for option, text in (("--set", chosen), ("--option", cell.slug.partition("@")[2])):
        for setting in filter(None, text.split(",")):
            words += [option, unquote(setting)]
    return shlex.join(words)


def _settings(base: str, recipe: Recipe) -> dict[str, Any]:
    """What to set in a recipe of the package to get this one; its name only if it would be another."""
    original = load_recipe(base)
    settings = changes(original, recipe)
    name = settings.pop("name", base)
    return settings if name == name_of(original, recipe) else settings | {"name": name}


def resolve_options(encoding: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Only the options that differ from the default, so that a cell has one name."""
    return told_options(encoding, options)


def _throughput(history: list[EpochMetrics]) -> float:
    """Training images per second, the median over epochs: the first one may also have compiled."""
    return float(np.median([row.images_per_second for row in history]))
