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

import math
import os
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
from rollpe.training.checkpoint import Checkpoint, checkpoint_path, previous_path
from rollpe.training.data import Split
from rollpe.training.device import (
    TrainingError,
    choose_device,
    enough_memory,
    global_generator,
    reproducible,
    stream,
)
from rollpe.training.distributed import joined
from rollpe.training.observation import frame_arrays
from rollpe.training.recipe import Recipe, changes, load_recipe, name_of, recipes
from rollpe.training.state import Programs, ahead, resolve, training_images
from rollpe.training.step import learning_rate

PROTOCOL = 1
"""Version of the training procedure. Raise it by one with every change that alters what a run with
the same recipe can reach: records of different protocols are refused as not comparable."""

SHORTEST = 1e-9
"""Seconds that an epoch takes at least: some clocks do not move between two readings."""
CHECKPOINT_SECONDS = 60  # between two checkpoints; the first comes after the first epoch
LOOK_EVERY = 25  # steps between two looks at the loss: each look waits for the device

# tqdm's own lock is a semaphore that forked processes share: one that is killed while it holds it would stop
# all others for good. Here a bar belongs to one process.
tqdm.set_lock(threading.RLock())


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

    Args:
        recipe: what to train on what and how; see `load_recipe`.
        encoding: one name of rollpe.encodings, or two joined by "+", with its encoding_options.
        seed: of the initial weights, the order of the images, their augmentation, the dropout.
        device: "auto" (cuda, then mps, then cpu) or a torch device.
        records: folder to write the record into; None writes none. No two processes may write one run.
        resume: resume this very run from its checkpoint, if there is one; if the last one is damaged, from
            the one before it, with a warning.
        checkpoints: folder of checkpoints; None writes none. See `Run.save_when_due`.
        progress: show a progress bar, if stderr is a terminal.
        programs: what earlier runs of the same recipe and encoding have compiled; see `Programs`.
        plan: which plan this run belongs to; see `Provenance`.

    Raises InputError for input a person can repair, TrainingError if the loss stops being finite or
    memory runs out. The global random state is left as it was.
    """
    with ExitStack() as stack:
        run = Run(recipe, encoding, seed, encoding_options or {}, choose_device(device), plan)
        run.set_up(stack, data_root, programs)
        run.open(stack, records, checkpoints, resume)
        with run.progress_bar(progress) as bar:
            while run.step < run.total:
                run.train_epoch(bar)
                run.save_when_due()
        return run.finish()


class Run:
    """One run: what it consists of, how far it is, and its stages in the order in which `train` calls them.

    history: one row per finished epoch. A checkpoint holds `state_dict`, everything that changes.
    """

    def __init__(
        self,
        recipe: Recipe,
        encoding: str,
        seed: int,
        encoding_options: Mapping[str, Any],
        device: torch.device,
        plan: str | None,
    ) -> None:
        if seed < 0:
            raise InputError(f"seed={seed}: allowed is an integer ≥ 0.")
        self.began, self.started = time.perf_counter(), now()
        self.source = loaded_source(outside_files(encoding))
        self.requested, self.device, self.plan = recipe, device, plan
        options = changed_options(encoding, encoding_options)
        self.cell = Cell(recipe=recipe.name, encoding=encoding, encoding_options=options, seed=seed)
        self.history: list[EpochMetrics] = []
        self.records: str | Path | None = None
        self.checkpoint: Checkpoint | None = None
        self.saved = -math.inf
        self.arrays: dict[str, np.ndarray] = {}
        self.frames: dict[int, Tensor] = {}  # by step

    @property
    def step(self) -> int:
        """Optimizer steps of the finished epochs."""
        return self.history[-1].steps if self.history else 0

    @property
    def epoch(self) -> int:
        """Number of the current epoch, from 1."""
        return len(self.history) + 1

    @property
    def elapsed(self) -> float:
        """Seconds since the run began, without those between an interruption and its resumption."""
        return time.perf_counter() - self.began

    # Set up

    def set_up(self, stack: ExitStack, data_root: str | Path, programs: Programs | None) -> None:
        """Data on the device, the number of steps, and everything that moves the model."""
        self.group = stack.enter_context(joined(self.device))
        self.programs = programs if programs is not None else stack.enter_context(Programs())
        self.data = self.programs.data(self.requested, data_root)
        self.recipe = recipe = resolve(self.requested, self.device, held_out=len(self.data.held_out))
        self.training = training_images(recipe, self.data).to(self.device)
        self.held_out = self.data.held_out.to(self.device)
        self.batch = min(recipe.batch_size, len(self.training))
        self.share = self.group.part(self.batch)
        self.steps = len(self.training) // self.batch  # per epoch; the last, smaller batch is left out
        self.total = min(recipe.epochs * self.steps, recipe.max_steps or recipe.epochs * self.steps)
        self.moments = np.linspace(0, self.total, recipe.frames).round().astype(int)
        stack.enter_context(reproducible(self.device))
        stack.enter_context(enough_memory(recipe))
        self.program = self.programs.program(recipe, self.cell, self.data, self.device, self.group)
        self.evaluate = self.program.evaluate

    def open(
        self, stack: ExitStack, records: str | Path | None, checkpoints: str | Path | None, resume: bool
    ) -> None:
        """Load the weights of this seed, reserve the folders, compile, seed every stream, perhaps resume."""
        cell, seed, first = self.cell, self.cell.seed, self.group.first
        untrained = self.program.begin(seed)
        self.evaluate.rehearse(self.program.model, self.recipe.resolutions)
        if records is not None and first:
            self.records = records
            self.arrays = self.evaluate.first_step(untrained.to(self.device), self.training)
            # whatever can be refused has been refused by now: from here on, something is written
            stack.enter_context(reserved(records, cell, record_path(records, cell)))
        if checkpoints is not None and first:
            stack.enter_context(reserved(checkpoints, cell, checkpoint_path(checkpoints, cell)))
        del untrained
        self.programs.waited = self.program.warm(self.share.stop - self.share.start)
        # from here on: dropout and drop path, which no two processes may share
        torch.manual_seed(stream(seed, "noise" if first else f"noise {self.group.rank}"))
        self.generators = {
            "order": torch.Generator().manual_seed(stream(seed, "order")),
            "augmentation": torch.Generator().manual_seed(stream(seed, "augmentation")),
            "noise": global_generator(self.device),
        }
        if checkpoints is not None:
            path = checkpoint_path(checkpoints, cell)
            self.checkpoint = Checkpoint(path, cell, self.recipe, self.data, self.device)
            if resume and (state := self.checkpoint.load(warn=first)):
                self.load_state_dict(state)

    # Epochs

    def train_epoch(self, bar: tqdm) -> None:
        """One pass over the training images, then the score on those held out, as a row of the history."""
        began = time.perf_counter()
        steps = min(self.steps, self.total - self.step)
        losses = torch.zeros(steps, device=self.device)
        self.program.model.train()
        for i, (inputs, targets) in enumerate(self.batches()):
            self.keep_frame(self.step + i)
            rate = learning_rate(self.recipe, self.step + i, self.total, self.steps)
            losses[i] = self.program.step(inputs, targets, rate)
            if (i + 1) % LOOK_EVERY == 0 or i + 1 == steps:
                mean = self.look(losses[: i + 1], bar)
        seconds = time.perf_counter() - began
        done = self.step + steps
        if done == self.total:
            self.keep_frame(done)
        due = self.epoch % self.recipe.score_every == 0 or done == self.total
        score = self.evaluate(self.program.model, self.held_out) if due and len(self.held_out) else None
        row = EpochMetrics(
            epoch=self.epoch,
            steps=done,
            learning_rate=rate,
            train_loss=mean,
            held_out_loss=score.loss if score else None,
            held_out_accuracy=score.accuracy if score else None,
            images_per_second=steps * self.batch / max(seconds, SHORTEST),
            seconds=time.perf_counter() - began,
        )
        self.history.append(row)

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """This process's share of every batch of an epoch, in a fresh order: augmented images and targets."""
        images, labels = self.training.images, self.training.labels
        order = torch.randperm(len(labels), generator=self.generators["order"])[: self.steps * self.batch]
        batches = order.view(self.steps, self.batch)[: self.total - self.step].to(self.device)
        for indices in batches.split(ahead(self.batch, images[0].numel())):
            pixels = images.index_select(0, indices.flatten()).unflatten(0, indices.shape)
            generator = self.generators["augmentation"]
            inputs, targets = self.program.augment.batches(pixels, labels[indices], generator, self.share)
            yield from zip(inputs, targets, strict=True)

    def keep_frame(self, step: int) -> None:
        """Look at the channels after so many steps if the recipe asks for it; training does not notice."""
        if step in self.moments and self.group.first:
            self.frames[step] = self.evaluate.frame(self.program.model)
            self.program.model.train()

    def look(self, losses: Tensor, bar: tqdm) -> float:
        """Wait for the device and show the last loss; returns the mean of this epoch's losses so far.

        Raises TrainingError if one of them is not finite.
        """
        losses = self.group.mean(losses)
        broken = (~losses.isfinite()).nonzero()
        if len(broken):
            step, clip = int(broken[0]), self.recipe.gradient_clip
            raise TrainingError(
                f"the loss is {losses[step].item()} at epoch {self.epoch}, step {step + 1}. Try a lower "
                f"learning_rate than {self.recipe.learning_rate:g}, a longer warmup_epochs, or "
                f"{'a smaller gradient_clip' if clip else '--set gradient_clip=1'}."
            )
        bar.update((self.step + len(losses)) * self.batch - bar.n)
        scores = [row.held_out_accuracy for row in self.history if row.held_out_accuracy is not None]
        held_out = {"held-out": f"{100 * scores[-1]:.1f} %"} if scores else {}
        bar.set_postfix({"epoch": self.epoch, "loss": f"{losses[-1].item():.3f}"} | held_out)
        return losses.cpu().double().mean().item()

    def progress_bar(self, show: bool) -> tqdm:
        return tqdm(
            total=self.total * self.batch,
            initial=self.step * self.batch,
            desc=f"{self.cell.slug} seed {self.cell.seed}",
            unit=" images",
            unit_scale=True,
            disable=None if show and self.group.first else True,  # None: shown only on a terminal
        )

    # Checkpoints

    def save_when_due(self) -> None:
        """Write a checkpoint after the first epoch, then whenever a minute has passed since the last one.

        The last two are kept. At the end one remains, with the weights alone; `load_model` reads it.
        """
        if self.checkpoint and self.group.first and time.perf_counter() - self.saved > CHECKPOINT_SECONDS:
            self.checkpoint.save(self.state_dict())
            self.saved = time.perf_counter()

    def state_dict(self, finished: bool = False) -> dict[str, Any]:
        """Everything needed to resume; of a finished run only the weights that were scored."""
        state: dict[str, Any] = {
            "history": [row.model_dump() for row in self.history],
            "started": self.started,
            "elapsed": self.elapsed,
            "frames": self.frames,
        }
        if finished:
            return state | {"eval_model": self.program.model.state_dict()}
        generators = {name: generator.get_state() for name, generator in self.generators.items()}
        return state | self.program.state_dict() | {"generators": generators}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Bring a run that was just opened to where the checkpoint left off."""
        self.started, self.began = state["started"], self.began - state["elapsed"]
        self.history = [EpochMetrics(**row) for row in state["history"]]
        self.frames = {step: frame.cpu() for step, frame in state.get("frames", {}).items()}
        self.program.load_state_dict(state)
        for name, generator in self.generators.items() if "generators" in state else ():
            if name != "noise" or self.group.first:
                generator.set_state(state["generators"][name].cpu())
            else:  # only the first process's is in the file, and masks must differ
                generator.manual_seed(stream(self.step, f"noise {self.group.rank}"))

    # Finish

    def finish(self) -> Record:
        """Score the test images, look into the model, and write weights and record."""
        model, test = self.program.model, self.data.test
        score = self.evaluate(model, test)
        few = Split(self.training.images[: len(test)], self.training.labels[: len(test)])
        at = {s: self.evaluate(model, test, s) for s in self.recipe.resolutions}
        bits = {self.recipe.context: score, **at} if self.recipe.context else {}
        shifts = {str(by): self.evaluate(model, moved(test, by)).accuracy for by in self.recipe.shifts}
        if self.records is not None:
            self.arrays |= self.evaluate.observe(model) | frame_arrays(self.frames)
        record = Record(
            protocol=PROTOCOL,
            **self.cell.model_dump(),
            config=self.recipe.model_dump(mode="json"),
            parameters=sum(p.numel() for p in self.program.model.parameters() if p.requires_grad),
            history=self.history,
            test=score,
            resolutions={str(s): found.accuracy for s, found in at.items()},
            bits={str(length): found.loss / math.log(2) for length, found in bits.items()},
            plain_train_loss=self.evaluate(model, few).loss,
            shifts=shifts,
            # the median over epochs: the first one may also have compiled
            throughput=float(np.median([row.images_per_second for row in self.history])),
            environment=environment(str(self.device)),
            provenance=provenance(
                command(self.requested, self.cell, self.group.size),
                self.started,
                self.elapsed,
                self.source,
                self.plan,
            ),
        )
        # weights before the record: whoever has a record has the weights, too
        if self.checkpoint and self.group.first:
            self.checkpoint.save(self.state_dict(finished=True), finished=True)
        if self.records is not None:
            record = read_record(write_record(self.records, record, **self.arrays))
        return record


@contextmanager
def reserved(root: str | Path, cell: Cell, path: Path) -> Iterator[None]:
    """Keep other processes from the files of a run, and remove what was left half-written there.

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


def moved(split: Split, by: int) -> Split:
    """The same images moved `by` pixels right and down; the edge is repeated where they left."""
    height, width = split.images.shape[-2:]
    rows = (torch.arange(height) - by).clamp(0, height - 1)
    columns = (torch.arange(width) - by).clamp(0, width - 1)
    return Split(split.images[:, :, rows][:, :, :, columns], split.labels)


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
    overrides = slug(base, settings[base]).partition("@")[2]
    for option, text in (("--set", overrides), ("--option", cell.slug.partition("@")[2])):
        for setting in filter(None, text.split(",")):
            words += [option, unquote(setting)]
    return shlex.join(words)


def _settings(base: str, recipe: Recipe) -> dict[str, Any]:
    """What to set in a recipe of the package to get this one; its name only if it would be another."""
    original = load_recipe(base)
    settings = changes(original, recipe)
    name = settings.pop("name", base)
    return settings if name == name_of(original, recipe) else settings | {"name": name}
