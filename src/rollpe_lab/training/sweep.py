"""Training the runs of a plan that are missing.

Runs are trained one after another, by priority, as many as fit a budget of time; any number of sweeps may
work on one folder of records.
"""

from __future__ import annotations

import gc
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rollpe.encodings import outside_files
from rollpe.errors import NOT_WRITABLE, InputError
from rollpe_lab.files import ensure_writable, write_atomically
from rollpe_lab.records.origin import now
from rollpe_lab.records.record import Record
from rollpe_lab.records.store import claim, read_record, record_path
from rollpe_lab.sources import training_hash
from rollpe_lab.training.checkpoint import DamagedCheckpoint, ForeignCheckpoint, checkpoint_path, epochs_done
from rollpe_lab.training.data import load_dataset
from rollpe_lab.training.device import TrainingError, choose_device
from rollpe_lab.training.estimates import Estimates, format_duration
from rollpe_lab.training.plan import Planned, failure_path, missing, seed_by_seed
from rollpe_lab.training.recipe import Recipe
from rollpe_lab.training.run import train
from rollpe_lab.training.state import CompiledModels

logger = logging.getLogger(__name__)


@dataclass
class Report:
    """What a sweep did: runs by outcome, in order."""

    trained: list[Planned]
    failed: list[Planned]
    missing: list[Planned]


@dataclass
class Sweep:
    """Trains the missing runs of a plan in order, none that would not fit into the rest of the budget.

    Durations are judged by what this sweep has trained, else by records from this kind of device, else by a
    short run; see `Estimates`. Runs that differ in their seed alone share what was compiled. A killed run
    resumes from its checkpoint when a later sweep takes it up. It starts over if the source that trains
    has changed since, or if ``checkpoints`` is None, which saves the time of writing them.

    A run whose loss is not finite, that does not fit into memory, or whose recipe is refused leaves a
    `.failed` file with the reason, and the sweep continues. So does a run with an unforeseen error; but that
    error is raised if the device stopped working, or if the run tried before it failed like this, too.

    budget: seconds; None trains until nothing is missing.

    records: folder of records; several sweeps may share it.
    retry: also train the runs that failed before.
    measure: judge durations by short runs in place of records, which may be of a busier machine.
    say: receives one line for each event.
    """

    planned: Sequence[Planned]
    records: str | Path
    budget: float | None = None
    device: str = "auto"
    data_root: str | Path = "data"
    checkpoints: str | Path | None = "checkpoints"
    retry: bool = False
    measure: bool = False
    progress: bool = True
    say: Callable[[str], None] = lambda line: None

    def run(self) -> Report:
        """Raises InputError when data are absent, a folder cannot be written to or the disk is full."""
        self.deadline = math.inf if self.budget is None else time.monotonic() + self.budget
        self.report, self.models = Report([], [], []), CompiledModels()
        self.estimates = Estimates(self.records, self.device, self.data_root, self.measure, self.models)
        self.unforeseen = False  # whether the run tried before had an unforeseen error
        for number, planned in enumerate(self.planned, 1):
            if self.left <= 0:
                break  # nothing is estimated for nothing: `--budget 0` only lists what is missing
            if self.is_missing(planned):
                with ExitStack() as claims:
                    claims.enter_context(_clear_errors(self.records))
                    # a sweep into another folder of records may write the same checkpoint
                    folders = [folder for folder in (self.records, self.checkpoints) if folder]
                    free = [claims.enter_context(claim(folder, planned.run_id)) for folder in folders]
                    # otherwise another process has it, or had it a moment ago
                    if all(free) and self.is_missing(planned):
                        self.attempt(number, planned)
        self.models.forget()
        self.report.missing = missing(self.planned, self.records, retry=True)
        return self.report

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.deadline - time.monotonic()

    def is_missing(self, planned: Planned) -> bool:
        return bool(missing([planned], self.records, self.retry))

    def attempt(self, number: int, planned: Planned) -> None:
        """Train one run if it fits into the budget, and keep what came of it."""
        gc.collect()  # an error keeps its frames, and they keep a model and the memory of its activations
        try:
            if not self.fits(planned):
                return
            rest = "" if self.budget is None else f", {format_duration(self.left)} left"
            self.say(f"{number}/{len(self.planned)} {planned}{rest}")
            record = self.train(planned)
        except OSError:  # the disk's, which `_clear_errors` tells
            raise
        except Exception as error:  # a compiler's may be of any kind
            self.fail(planned, error)
            return
        self.unforeseen = False
        failure_path(self.records, planned.run_id).unlink(missing_ok=True)
        self.estimates.learn(record, self.models.waited)
        self.report.trained.append(planned)
        duration = format_duration(record.provenance.wall_seconds)
        self.say(f"{planned}: {record.result} in {duration}")

    def fits(self, planned: Planned) -> bool:
        """Whether what a run still needs fits into what is left of the budget."""
        if self.budget is None:
            return True
        run_id, recipe, done = planned.run_id, planned.recipe, 0
        if self.checkpoints is not None:
            done = epochs_done(self.checkpoints, recipe, run_id, device=self.device, data_root=self.data_root)
        # one epoch more than remain: it also has to start and to be scored
        share = min(1.0, (recipe.epochs - done + 1) / recipe.epochs)
        needed = share * self.estimates.seconds(planned)
        if needed > self.left:
            grounds, left = self.estimates.grounds(planned), format_duration(self.left)
            self.say(f"{planned}: needs about {format_duration(needed)} {grounds}, {left} left; not begun")
        return needed <= self.left

    def train(self, planned: Planned) -> Record:
        """Train one run, from its checkpoint if that can be used."""
        run = partial(
            train,
            planned.recipe,
            **planned.run_id.model_dump(exclude={"recipe"}),
            device=self.device,
            records=self.records,
            data_root=self.data_root,
            checkpoints=self.checkpoints,
            progress=self.progress,
            models=self.models,
            plan=planned.plan,
        )
        try:
            return run(resume=True)
        except ForeignCheckpoint:
            self.say(f"{planned}: its checkpoint is of another source, recipe or device; starting over")
        except DamagedCheckpoint:
            self.say(f"{planned}: its checkpoint is damaged; starting over")
        return run()

    def fail(self, planned: Planned, error: Exception) -> None:
        """Write down why a run failed; raise its error if the next run would fail for the same reason."""
        self.models.forget()
        reason = str(error)
        if isinstance(error, InputError):  # these raise one of their own if nothing can be trained
            load_dataset(planned.recipe.data, self.data_root, context=planned.recipe.context)
            if self.checkpoints is not None:
                ensure_writable(checkpoint_path(self.checkpoints, planned.run_id).parent)
        elif not isinstance(error, TrainingError):  # perhaps a compiler, over this encoding alone
            if self.unforeseen or not _works(self.device):
                raise error
            self.unforeseen = True
            logger.warning("%s broke", planned, exc_info=error)
            reason = f"{type(error).__name__}: {next(iter(reason.strip().splitlines()), '')}"
        note = {"reason": reason, "at": now()}
        write_atomically(failure_path(self.records, planned.run_id), json.dumps(note).encode())
        self.report.failed.append(planned)
        self.say(f"{planned}: failed. {reason}")


def _works(device: str) -> bool:
    """Whether the device still computes: an error may have broken it for this whole process."""
    try:
        choose_device(device)
    except InputError:
        return False
    return True


@contextmanager
def _clear_errors(records: str | Path) -> Iterator[None]:
    """A full or read-only disk is one line; what was finished before stays."""
    try:
        yield
    except OSError as error:
        if error.errno not in NOT_WRITABLE:
            raise
        reason = error.strerror or error
        raise InputError(f"{records}: {reason}. Free space or choose another folder.") from None


def train_missing(
    recipe: Recipe, encodings: Sequence[str], seeds: int, records: str | Path, **settings: Any
) -> Iterator[tuple[Record, bool]]:
    """Yield the record of every encoding and seed, and whether it was trained now.

    Unlike a sweep, this takes a record only if the source that trains has changed in no result since, so
    that the numbers on a page always belong to the code beside it. ``settings`` go to
    :func:`rollpe_lab.training.train`.
    """
    for run_id in seed_by_seed(recipe.name, [(name, {}) for name in encodings], range(seeds)):
        path = record_path(records, run_id)
        here = training_hash(outside_files(run_id.encoding))
        record = read_record(path) if path.exists() else None
        if record is not None and record.provenance.training_hash == here:
            yield record, False
        else:
            yield train(recipe, run_id.encoding, seed=run_id.seed, records=records, **settings), True
