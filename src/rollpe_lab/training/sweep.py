"""Training the runs of a plan that are missing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rollpe.encodings import outside_files
from rollpe.errors import InputError
from rollpe_lab.hashes import training_hash
from rollpe_lab.records.record import Record
from rollpe_lab.records.store import claim, read_record, record_path
from rollpe_lab.training.checkpoint import DamagedCheckpoint, ForeignCheckpoint
from rollpe_lab.training.device import TrainingError
from rollpe_lab.training.models import CompiledModels
from rollpe_lab.training.plan import Planned, missing, seed_by_seed
from rollpe_lab.training.recipe import Recipe
from rollpe_lab.training.run import train

logger = logging.getLogger(__name__)


def sweep(
    planned: Sequence[Planned],
    records: str | Path,
    *,
    budget: float | None = None,
    say: Callable[[str], None] = print,
    **settings: Any,
) -> dict[str, str]:
    """Train the missing runs of a plan in order, from their checkpoints where there are any.

    Several sweeps may share a folder of records: a run that another process trains is left to it. Runs that
    differ in their seed alone share what was compiled.

    Args:
        budget: seconds; no run starts if the last one took longer than what is left. None is no limit.
        say: receives a line for each event.
        settings: go to :func:`rollpe_lab.training.train`.

    Returns the runs that failed, with the reason; those after them were tried all the same. Raises InputError
    for what a person can repair, such as absent data, and OSError for a full disk.
    """
    ends, last = time.monotonic() + (float("inf") if budget is None else budget), 0.0
    failed: dict[str, str] = {}
    models = CompiledModels()
    wanted = missing(planned, records)
    for number, run in enumerate(wanted, 1):
        if time.monotonic() + last >= ends:
            break
        with claim(records, run.run_id) as free:
            if not free:
                say(f"{run}: another process trains it")
            if not free or not missing([run], records):
                continue
            say(f"{number}/{len(wanted)} {run}")
            try:
                record = _resume(run, say, records=records, models=models, **settings)
                last = record.provenance.wall_seconds
                say(f"{run}: {record.result} in {timedelta(seconds=round(last))}")
            except (InputError, OSError):
                raise
            except Exception as error:  # a compiler's may be of any kind
                failed[str(run)] = f"{type(error).__name__}: {' '.join(str(error).split())}"
                unforeseen = not isinstance(error, TrainingError)
                logger.warning("%s failed. %s", run, failed[str(run)], exc_info=unforeseen)
        if str(run) in failed:
            models.forget()  # here, where no frame of an error keeps a model
    models.forget()
    return failed


def _resume(planned: Planned, say: Callable[[str], None], **settings: Any) -> Record:
    """Train one run, from its checkpoint if that can be used."""
    identity = planned.run_id.model_dump(exclude={"recipe"})
    run = partial(train, planned.recipe, **identity, plan=planned.plan, **settings)
    try:
        return run(resume=True)
    except (ForeignCheckpoint, DamagedCheckpoint):
        say(f"{planned}: its checkpoint is damaged, or of another source or device; starting over")
    return run()


def train_missing(
    recipe: Recipe, encodings: Sequence[str], seeds: int, records: str | Path, **settings: Any
) -> Iterator[Record]:
    """Yield the record of every encoding and seed, trained now if need be.

    Unlike a sweep, this takes a record only if the source that trains has changed in no result since, so
    that the numbers on a page always belong to the code beside it. ``settings`` go to
    :func:`rollpe_lab.training.train`.
    """
    for run_id in seed_by_seed(recipe.name, [(name, {}) for name in encodings], range(seeds)):
        path = record_path(records, run_id)
        here = training_hash(outside_files(run_id.encoding))
        record = read_record(path) if path.exists() else None
        if record is None or record.provenance.training_hash != here:
            record = train(recipe, run_id.encoding, seed=run_id.seed, records=records, **settings)
        yield record
