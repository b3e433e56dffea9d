"""One run, from top to bottom: data, model, files, random numbers, epochs, scores, record.

Encodings are compared by giving each the same recipe and the same seeds: the order of the images, their
augmentation and the dropout masks depend on the seed alone, never on the encoding. The training images live
on the device as bytes and are augmented many batches ahead; the host waits for the device only to check the
losses now and then. A part of the images is held out and scored after every epoch; the test images are scored
once, at the end.

On one machine's CPU, with the same number of threads, the same seed gives the same record, bit for bit except
times, also if the run was killed and resumed in between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from rollpe.encodings import changed_options, outside_files
from rollpe.errors import InputError
from rollpe_lab.files import ensure_writable, expect_file
from rollpe_lab.records.provenance import environment, loaded_source, now, provenance
from rollpe_lab.records.record import SCHEMA_VERSION, EpochMetrics, Record, RunId
from rollpe_lab.records.store import claim, read_record, record_path, write_record
from rollpe_lab.training.checkpoint import Checkpoint, checkpoint_path, previous_path
from rollpe_lab.training.data import Data, Split
from rollpe_lab.training.device import (
    TrainingError,
    choose_device,
    enough_memory,
    global_generator,
    keep_freed_memory,
    reproducible,
    stream,
)
from rollpe_lab.training.evaluate import ScaledPositions
from rollpe_lab.training.models import CompiledModel, CompiledModels, ahead, resolve, training_images
from rollpe_lab.training.recipe import Recipe, command
from rollpe_lab.training.step import learning_rate
from rollpe_lab.training.watch import frame_arrays

PROTOCOL = 1
"""Version of the training procedure. Raise it by one with every change that alters what a run with
the same recipe can reach: records of different protocols are refused as not comparable."""

SHORTEST = 1e-9
"""Seconds that an epoch takes at least: some clocks do not move between two readings."""
CHECKPOINT_SECONDS = 60  # between two checkpoints; the first comes after the first epoch
CHECK_EVERY = 25  # steps between two checks of the losses: each waits for the device


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
    keep_weights: bool = True,
    progress: bool = True,
    models: CompiledModels | None = None,
    plan: str | None = None,
) -> Record:
    """Train one model and return its record.

    Args:
        recipe: what to train on what and how; see `load_recipe`.
        encoding: one name of rollpe.encodings, or two joined by "+", with its encoding_options.
        seed: of the initial weights, the order of the images, their augmentation, the dropout.
        device: "auto" (cuda, then mps, then cpu) or a torch device.
        records: folder to write the record into; None writes none. No two processes may write one run.
        resume: resume this very run from its checkpoint, if there is one; if the last one is damaged, from
            the one before it, with a warning.
        checkpoints: folder of checkpoints; None writes none. One is written after the first epoch, then
            whenever a minute has passed; the last two are kept, and at the end the weights alone.
        keep_weights: False removes all checkpoints at the end.
        progress: show a progress bar, if stderr is a terminal.
        models: what earlier runs of the same recipe and encoding have compiled; see `CompiledModels`.
        plan: which plan this run belongs to; see `Provenance`.

    Raises InputError for input a person can repair, TrainingError if the loss stops being finite or
    memory runs out. The global random state is left as it was.
    """
    if seed < 0:
        raise InputError(f"seed={seed}: allowed is an integer ≥ 0.")
    started, began, source = now(), time.perf_counter(), loaded_source(outside_files(encoding))
    options = changed_options(encoding, encoding_options or {})
    run_id = RunId(recipe=recipe.name, encoding=encoding, encoding_options=options, seed=seed)
    where = choose_device(device)
    if where.type == "cpu":
        keep_freed_memory()
    with ExitStack() as stack:
        if models is None:
            models = CompiledModels()
            stack.callback(models.forget)

        stack.enter_context(reproducible(where))
        stack.enter_context(enough_memory(recipe))

        # data, on the device
        data = models.data(recipe, data_root)
        settled = resolve(recipe, where, held_out=len(data.held_out))
        training, held_out = training_images(settled, data).to(where), data.held_out.to(where)

        # model, optimizers and scoring
        run = Run(settled, run_id, training, held_out, started, began)
        run.compiled = models.get(settled, run_id, data, where)
        model, evaluate = run.compiled.model, run.compiled.evaluate
        untrained = run.compiled.begin(seed)
        evaluate.rehearse(model, settled.resolutions)

        # files: whatever can be refused has been refused by now
        arrays, checkpoint = {}, None
        if records is not None:
            first = evaluate.gradients(untrained.to(where), training)
            arrays = {key: value.numpy() for key, value in first.items()}
            stack.enter_context(reserved(records, run_id, record_path(records, run_id)))
        if checkpoints is not None:
            file = checkpoint_path(checkpoints, run_id)
            stack.enter_context(reserved(checkpoints, run_id, file))
            checkpoint = Checkpoint(file, run_id, settled, run.compiled.shape, where)
        del untrained

        # compiled code, random numbers, and where a checkpoint left off
        run.compiled.precompile(run.batch)
        if where.type != "cpu" and recipe.topography == "none":
            run.compiled.check_gradient(run.batch)
        run.streams = random_streams(run)
        if checkpoint and resume and (state := checkpoint.load()):
            load_state(state, run)

        # epochs
        saved = -math.inf
        with progress_bar(run, progress) as bar:
            while run.done < run.total:
                run.history.append(train_epoch(run, bar))
                if checkpoint and time.perf_counter() - saved > CHECKPOINT_SECONDS:
                    checkpoint.save(state_of(run))
                    saved = time.perf_counter()

        # scores, weights, record
        scores = score(run, data)
        if records is not None:
            arrays |= evaluate.observe(model) | frame_arrays(run.frames)
        made_by, seconds = command(recipe, run_id), time.perf_counter() - run.began
        record = Record(
            schema_version=SCHEMA_VERSION,
            protocol=PROTOCOL,
            **run_id.model_dump(),
            config=settled.model_dump(mode="json"),
            parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
            history=run.history,
            **scores,
            # the median over epochs: the first one may also have compiled
            throughput=float(np.median([row.images_per_second for row in run.history])),
            environment=environment(str(where)),
            provenance=provenance(made_by, run.started, seconds, source, plan),
        )
        if checkpoint and keep_weights:  # before the record: whoever has a record has the weights, too
            checkpoint.save(state_of(run, finished=True), finished=True)
        if records is not None:
            record = read_record(write_record(records, record, **arrays))
        if checkpoint and not keep_weights:
            checkpoint.remove()
    return record


@dataclass
class Run:
    """What a run consists of, and how far it is; with the model's tensors, what a checkpoint holds."""

    recipe: Recipe  # with every default decided
    run_id: RunId
    training: Split  # on the device
    held_out: Split
    started: str
    began: float  # on the clock, as if the run had never been interrupted
    compiled: CompiledModel = field(init=False)
    history: list[EpochMetrics] = field(default_factory=list)  # one row per finished epoch
    frames: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # by step
    streams: dict[str, torch.Generator] = field(default_factory=dict)  # of random numbers, by purpose

    def __post_init__(self) -> None:
        self.batch = min(self.recipe.batch_size, len(self.training))  # images of a step
        self.steps = len(self.training) // self.batch  # of an epoch; the last, smaller batch is left out
        steps = self.recipe.epochs * self.steps
        self.total = min(steps, self.recipe.max_steps or steps)

    @property
    def done(self) -> int:
        """Optimizer steps of the finished epochs."""
        return self.history[-1].steps if self.history else 0


# Epochs


def train_epoch(run: Run, bar: tqdm) -> EpochMetrics:
    """One pass over the training images, then the score on those held out."""
    began, recipe, compiled, epoch = time.perf_counter(), run.recipe, run.compiled, len(run.history) + 1
    steps = min(run.steps, run.total - run.done)
    losses = torch.zeros(steps, device=compiled.device)
    compiled.model.train()
    for i, (inputs, targets) in enumerate(batches(run)):
        keep_frame(run, run.done + i)
        rate = learning_rate(recipe, run.done + i, run.total, run.steps)
        losses[i] = compiled.step(inputs, targets, rate)
        if (i + 1) % CHECK_EVERY == 0 or i + 1 == steps:
            mean = check_losses(losses[: i + 1], run, bar)
    trained = time.perf_counter()
    last = run.done + steps == run.total
    if last:
        keep_frame(run, run.total)
    due = last or epoch % recipe.score_every == 0
    held_out = compiled.evaluate(compiled.model, run.held_out) if due and len(run.held_out) else None
    return EpochMetrics(
        epoch=epoch,
        steps=run.done + steps,
        learning_rate=rate,
        train_loss=mean,
        held_out_loss=held_out.loss if held_out else None,
        held_out_accuracy=held_out.accuracy if held_out else None,
        images_per_second=steps * run.batch / max(trained - began, SHORTEST),
        seconds=time.perf_counter() - began,
    )


def batches(run: Run) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of an epoch, in a fresh order: augmented images and targets."""
    images, labels = run.training.images, run.training.labels
    order = torch.randperm(len(labels), generator=run.streams["order"])[: run.steps * run.batch]
    order = order.view(run.steps, run.batch)[: run.total - run.done].to(images.device)
    for indices in order.split(ahead(run.batch, images[0].numel())):
        pixels = images.index_select(0, indices.flatten()).unflatten(0, indices.shape)
        made = run.compiled.batches(pixels, labels[indices], run.streams["augmentation"])
        yield from zip(*made, strict=True)


def keep_frame(run: Run, step: int) -> None:
    """Keep channels and gradients after so many steps if the recipe asks for them."""
    moments = np.linspace(0, run.total, run.recipe.frames).round().astype(int)
    if step in moments:
        run.frames[step] = run.compiled.evaluate.frame(run.compiled.model)
        run.compiled.model.train()


def check_losses(losses: Tensor, run: Run, bar: tqdm) -> float:
    """Wait for the device and show the last loss; returns the mean of this epoch's losses so far.

    Raises TrainingError if one of them is not finite.
    """
    epoch = len(run.history) + 1
    broken = (~losses.isfinite()).nonzero()
    if len(broken):
        step, clip = int(broken[0]), run.recipe.gradient_clip
        raise TrainingError(
            f"the loss is {losses[step].item()} at epoch {epoch}, step {step + 1}. Try a lower "
            f"learning_rate than {run.recipe.learning_rate:g}, a longer warmup_epochs, or "
            f"{'a smaller gradient_clip' if clip else '--set gradient_clip=1'}."
        )
    bar.update((run.done + len(losses)) * run.batch - bar.n)
    scores = [row.held_out_accuracy for row in run.history if row.held_out_accuracy is not None]
    held_out = {"held-out": f"{100 * scores[-1]:.1f} %"} if scores else {}
    bar.set_postfix({"epoch": epoch, "loss": f"{losses[-1].item():.3f}"} | held_out)
    return losses.cpu().double().mean().item()


def progress_bar(run: Run, show: bool) -> tqdm:
    return tqdm(
        total=run.total * run.batch,
        initial=run.done * run.batch,
        desc=f"{run.run_id.slug} seed {run.run_id.seed}",
        unit=" images",
        unit_scale=True,
        disable=None if show else True,  # None: shown only on a terminal
    )


def score(run: Run, data: Data) -> dict[str, Any]:
    """The fields of a record that say how good the trained model is."""
    recipe, model = run.recipe, run.compiled.model
    evaluate = partial(run.compiled.evaluate, model)
    test = evaluate(data.test)
    few = Split(run.training.images[: len(data.test)], run.training.labels[: len(data.test)])
    resized = {size: evaluate(data.test, size) for size in recipe.resolutions}
    bits = {recipe.context: test, **resized} if recipe.context else {}
    scaled = ScaledPositions.of(model)
    return {
        "test": test,
        "resolutions": {str(size): found.accuracy for size, found in resized.items()},
        "scaled_resolutions": {
            str(size): run.compiled.evaluate(scaled, data.test, size).accuracy
            for size in recipe.resolutions
            if scaled
        },
        "shifts": {str(by): evaluate(moved(data.test, by)).accuracy for by in recipe.shifts},
        "bits": {str(length): found.loss / math.log(2) for length, found in bits.items()},
        "plain_train_loss": evaluate(few).loss,
    }


def moved(split: Split, by: int) -> Split:
    """The same images moved `by` pixels right and down; the edge is repeated where they left."""
    height, width = split.images.shape[-2:]
    rows = (torch.arange(height) - by).clamp(0, height - 1)
    columns = (torch.arange(width) - by).clamp(0, width - 1)
    return Split(split.images[:, :, rows][:, :, :, columns], split.labels)


# Random numbers and checkpoints


def random_streams(run: Run) -> dict[str, torch.Generator]:
    """The generators of a run at its beginning. "noise" is the global one, of dropout and drop path."""
    seed = run.run_id.seed
    torch.manual_seed(stream(seed, "noise"))
    return {
        "order": torch.Generator().manual_seed(stream(seed, "order")),
        "augmentation": torch.Generator().manual_seed(stream(seed, "augmentation")),
        "noise": global_generator(run.compiled.device),
    }


def state_of(run: Run, finished: bool = False) -> dict[str, Any]:
    """Everything needed to resume; of a finished run only the weights that were scored."""
    state: dict[str, Any] = {
        "history": [row.model_dump() for row in run.history],
        "started": run.started,
        "elapsed": time.perf_counter() - run.began,
        "frames": run.frames,
    }
    weights = run.compiled.model.state_dict()
    if finished:
        return state | {"eval_model": weights}
    generators = {name: generator.get_state() for name, generator in run.streams.items()}
    return state | {"model": weights, "optimizers": run.compiled.step.state(), "generators": generators}


def load_state(state: Mapping[str, Any], run: Run) -> None:
    """Bring a run at its beginning to where a checkpoint left off."""
    run.started, run.began = state["started"], run.began - state["elapsed"]
    run.history = [EpochMetrics(**row) for row in state["history"]]
    run.frames = state.get("frames", {})
    if "eval_model" in state:  # of a finished run
        run.compiled.model.load_state_dict(state["eval_model"])
        return
    run.compiled.model.load_state_dict(state["model"])
    run.compiled.step.load(state["optimizers"])
    for name, generator in run.streams.items():
        generator.set_state(state["generators"][name].cpu())


@contextmanager
def reserved(root: str | Path, run_id: RunId, path: Path) -> Iterator[None]:
    """Keep other processes from the files of a run, and remove what was left half-written there.

    root: folder of records or checkpoints, of which `path` is this run's file.
    """
    ensure_writable(path.parent)
    for file in (path, path.with_suffix(".npz"), previous_path(path)):
        expect_file(file)
    with claim(root, run_id) as free:
        if not free:
            raise InputError(
                f"{path}: another process trains this run. Wait for it, or choose another folder."
            )
        for half_written in path.parent.glob(f".{path.stem}.*.tmp"):
            half_written.unlink(missing_ok=True)
        yield
