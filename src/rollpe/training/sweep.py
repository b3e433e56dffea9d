"""Training the runs of a plan that are missing.

Runs are trained one after another, by priority, as many as fit a budget of time; any number of sweeps may
work on one folder of records. Not here: the plan (plan.py), one run (run.py), how long it takes
(estimates.py).
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rollpe.encodings import outside_files
from rollpe.errors import NOT_WRITABLE, InputError
from rollpe.files import ensure_writable, write_atomically
from rollpe.records.origin import now
from rollpe.records.record import Record
from rollpe.records.store import claim, read_record, record_path
from rollpe.sources import source_hash
from rollpe.training.checkpoint import DamagedCheckpoint, ForeignCheckpoint, checkpoint_path, epochs_done
from rollpe.training.data import load_dataset
from rollpe.training.device import TrainingError, choose_device
from rollpe.training.distributed import processes
from rollpe.training.estimates import Estimates, clock
from rollpe.training.plan import Planned, failure_path, missing, seed_by_seed
from rollpe.training.recipe import Recipe
from rollpe.training.run import train
from rollpe.training.state import Programs, program_key
from rollpe.training.state import warm as warm_program

logger = logging.getLogger(__name__)


@dataclass
class Report:
    """What a sweep did: cells by outcome, in order."""

    trained: list[Planned]
    failed: list[Planned]
    missing: list[Planned]


def sweep(
    planned: Sequence[Planned],
    records: str | Path,
    *,
    budget: float | None = None,
    device: str = "auto",
    data_root: str | Path = "data",
    checkpoints: str | Path | None = "checkpoints",
    retry: bool = False,
    measure: bool = False,
    progress: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> Report:
    """Train the missing cells in order, none that would not fit into the rest of ``budget`` seconds.

    How long a cell takes is judged by what this sweep has trained, else by the records in this folder from
    this kind of device, else by a short run; see `Estimates`. Runs that differ in their seed alone share what
    was compiled. A killed cell goes on from its checkpoint when a later sweep takes it up, or begins again if
    the source has changed since, or if ``checkpoints`` is None, which saves the time of writing them. A run
    whose loss is not finite, that does not fit into memory, or whose recipe is refused leaves a `.failed`
    file with the reason and the sweep goes on. So does one that breaks in a way that nobody foresaw; but if
    the device broke with it, or one broke before and none was trained since, its error is raised.

    records: folder of records; several sweeps may share it. measure: judge durations by short runs in place
    of records, which may be of a busier machine. say: receives one line for each event.
    Raises InputError when data are absent, a folder cannot be written to or the disk is full.
    """
    if processes() > 1:
        raise InputError(
            f"a sweep is one process and torchrun started {processes()}. Share a single run with "
            "torchrun -m rollpe.cli train, or start several sweeps."
        )
    began = time.monotonic()
    report, programs = Report([], [], []), Programs()
    estimates = Estimates(records, device, data_root, measure, programs)
    broke = False  # some cell, in a way that nobody foresaw, and none was trained since

    def left() -> float:
        return float("inf") if budget is None else budget - (time.monotonic() - began)

    for place, wanted in enumerate(planned, 1):
        if left() <= 0:
            break  # nothing is estimated for nothing: `--budget 0` only lists what is missing
        if wanted not in missing([wanted], records, retry):
            continue
        with ExitStack() as held:
            held.enter_context(_clear_errors(records))
            # a sweep into another folder of records may write the same checkpoint
            free = [held.enter_context(claim(root, wanted.cell)) for root in (records, checkpoints) if root]
            if not all(free) or wanted not in missing([wanted], records, retry):
                continue  # another process has it, or had it a moment ago
            # an error keeps its frames, and they keep a model and the memory of its activations
            gc.collect()
            try:
                if budget is not None:
                    done = 0
                    if checkpoints is not None:
                        done = epochs_done(
                            checkpoints, wanted.recipe, wanted.cell, device=device, data_root=data_root
                        )
                    # one epoch more than is left: it also has to start and to be scored
                    share = min(1.0, (wanted.recipe.epochs - done + 1) / wanted.recipe.epochs)
                    needs = share * estimates.seconds(wanted)
                    if needs > left():
                        by = estimates.grounds(wanted)
                        say(f"{wanted}: needs about {clock(needs)} {by}, {clock(left())} left; not begun")
                        continue
                rest = "" if budget is None else f", {clock(left())} left"
                say(f"{place}/{len(planned)} {wanted}{rest}")
                run = partial(
                    train,
                    wanted.recipe,
                    wanted.cell.encoding,
                    seed=wanted.cell.seed,
                    encoding_options=wanted.cell.encoding_options,
                    device=device,
                    records=records,
                    data_root=data_root,
                    checkpoints=checkpoints,
                    progress=progress,
                    programs=programs,
                    plan=wanted.plan,
                )
                try:
                    record = run(resume=True)
                except ForeignCheckpoint:
                    say(f"{wanted}: its checkpoint is of another source, recipe or device; begun again")
                    record = run()
                except DamagedCheckpoint:
                    say(f"{wanted}: its checkpoint is damaged; begun again")
                    record = run()
            except (InputError, RuntimeError) as error:
                programs.forget()
                reason = str(error)
                if isinstance(error, InputError):  # what no other cell could do without either, is raised
                    load_dataset(wanted.recipe.data, data_root)
                    if checkpoints is not None:
                        ensure_writable(checkpoint_path(checkpoints, wanted.cell).parent)
                elif not isinstance(error, TrainingError):  # perhaps a compiler, over this encoding alone
                    if broke or not _works(device):
                        raise
                    broke = True
                    logger.warning("%s broke", wanted, exc_info=error)
                    reason = f"{type(error).__name__}: {next(iter(reason.strip().splitlines()), '')}"
                note = {"reason": reason, "at": now()}
                write_atomically(failure_path(records, wanted.cell), json.dumps(note).encode())
                report.failed.append(wanted)
                say(f"{wanted}: failed. {reason}")
                continue
            broke = False
            failure_path(records, wanted.cell).unlink(missing_ok=True)
            estimates.learn(record, programs.waited)
            report.trained.append(wanted)
            say(f"{wanted}: {100 * record.test.accuracy:.2f} % in {clock(record.provenance.wall_seconds)}")
    programs.forget()
    report.missing = [p for p in planned if not record_path(records, p.cell).exists()]
    return report


def warm(
    planned: Sequence[Planned],
    *,
    device: str = "auto",
    jobs: int = 1,
    keep: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> bool:
    """Compile what these runs need, each program once; whether all succeeded.

    jobs: how many to compile side by side, each in a process of its own. keep: folder of what torch's
    compiler made, one file for each program; what lies there is read first, so that a file from another
    machine of the same kind saves the compiling. say: receives one line for each.
    """
    first: dict[str, Planned] = {}
    for wanted in planned:
        first.setdefault(program_key(wanted.recipe, wanted.cell), wanted)
    good = True
    # Spawned, since a fork would inherit a device that it cannot use; and each anew, since a process keeps
    # all that it has compiled.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(first)), mp_context=spawn, max_tasks_per_child=1) as pool:
        begun = [(wanted, pool.submit(_warm, wanted, device, keep)) for wanted in first.values()]
        for wanted, future in begun:
            try:
                say(f"{wanted}: compiled in {clock(future.result())}")
            except (InputError, RuntimeError) as error:
                good = False
                say(f"{wanted}: cannot be compiled. {next(iter(str(error).splitlines()), '')}")
    return good


def _warm(wanted: Planned, device: str, keep: str | Path | None) -> float:
    options = wanted.cell.encoding_options
    run = partial(warm_program, wanted.recipe, wanted.cell.encoding, encoding_options=options, device=device)
    if keep is None:
        return run()
    digest = hashlib.sha256(program_key(wanted.recipe, wanted.cell).encode()).hexdigest()
    file = Path(keep, f"{wanted.cell.encoding}-{digest[:16]}.bin")
    if file.is_file():
        torch.compiler.load_cache_artifacts(file.read_bytes())
    took = run()
    if made := torch.compiler.save_cache_artifacts():  # None where nothing is compiled
        write_atomically(file, made[0])
    return took


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

    Unlike a sweep, this takes a record only if the library's source has not changed since, so that the
    numbers on a page always belong to the code beside it. ``settings`` go to :func:`rollpe.training.train`.
    """
    for cell in seed_by_seed(recipe.name, [(name, {}) for name in encodings], range(seeds)):
        path = record_path(records, cell)
        here = source_hash(also=outside_files(cell.encoding))
        record = read_record(path) if path.exists() else None
        if record is not None and record.provenance.source_hash == here:
            yield record, False
        else:
            yield train(recipe, cell.encoding, seed=cell.seed, records=records, **settings), True
