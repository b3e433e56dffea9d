"""One run, in reading order: set up, train for some epochs, score, write the record.

`train` turns a recipe, an encoding and a seed into a trained model and its record. Encodings are compared by
giving each the same recipe and the same seeds: the order of the images, their augmentation and the dropout
masks depend on the seed alone, never on the encoding. The training images live on the device as bytes and are
augmented many batches ahead; the host waits for the device only to look at the losses now and then. A part of
the images is held out and scored after every epoch; the test images are scored once, at the end.

On one machine's CPU, with the same number of threads, the same seed gives the same record, bit for bit except
times, also if the run was killed and resumed in between. Under `torchrun`, several processes share one run:
each takes its part of every batch, and the record is that of one process up to rounding, but for the dropout
masks and for topography=tdann, whose correlations are then over the images of one share.

Not here: one optimizer step (step.py), how images are changed (augment.py), scoring (evaluate.py), the model
(rollpe.vit), the fields of the record (rollpe.records).
"""

from __future__ import annotations

import logging
import math
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from rollpe.encodings import changed_options, outside_files
from rollpe.errors import InputError
from rollpe.files import ensure_writable, expect_file
from rollpe.records.origin import environment, loaded_source, now, provenance
from rollpe.records.record import Cell, EpochMetrics, Record, slug
from rollpe.records.store import claim, read_record, record_path, sweep_up, write_record
from rollpe.training.checkpoint import Checkpoint, _read_model, checkpoint_path, previous_path
from rollpe.training.data import Split, load_dataset
from rollpe.training.device import (
    TrainingError,
    _global_generator,
    choose_device,
    enough_memory,
    reproducible,
    stream,
)
from rollpe.training.distributed import Group, joined
from rollpe.training.evaluate import Evaluator, moved
from rollpe.training.observation import first_step, observe
from rollpe.training.recipe import Recipe, changes, load_recipe, name_of, recipes
from rollpe.training.state import (
    Program,
    Programs,
    _initial_model,
    _used,
    ahead,
    resolve,
    shape_of,
)
from rollpe.training.step import learning_rate
from rollpe.vit import VisionTransformer

logger = logging.getLogger(__name__)

PROTOCOL = 1
"""Version of the training procedure. Raise it by one with every change that alters what a run with
the same recipe can reach: records of different protocols are refused as not comparable."""
OBSERVED = 256  # test images over which attention, spectra and roughness are averaged; training images of
# which the first gradient is taken

SAME_MODEL = 100
"""A model scored again may read one image in so many differently: devices round differently. Models of two
seeds differ on many times as many."""
TICK = 1e-9
"""Seconds that pass at least, as far as speeds are concerned: some clocks stand still for a while."""
CHECKPOINT_SECONDS = 60  # between two checkpoints; the first comes after the first epoch
LOOK_EVERY = 25  # steps between two looks at the loss: each look waits for the device


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
            encoding_options=changed_options(encoding, encoding_options or {}),
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


def _first_step(model: VisionTransformer, evaluate: Evaluator, training: Split) -> dict[str, np.ndarray]:
    """Of an untrained model, the gradient on some training images."""
    few = evaluate.prepare(training.images[:OBSERVED]), training.labels[:OBSERVED].to(evaluate.place)
    return first_step(model, *few, evaluate.recipe.label_smoothing)


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


def _throughput(history: list[EpochMetrics]) -> float:
    """Training images per second, the median over epochs: the first one may also have compiled."""
    return float(np.median([row.images_per_second for row in history]))
