"""Which runs are wanted, which of them exist, and training the ones that do not.

A plan is a short YAML file: blocks of encodings and seeds in order of want, under one recipe. Its cells are
the records it would leave. A sweep trains missing cells one after another, as many as fit its budget; any
number of sweeps may work on one folder of records. What a run is stands in training.py; how runs are
compared, in statistics.py.

A plan::

    recipe: strong
    set: {epochs: 50}                      # optional: keys of the recipe changed for all blocks
    blocks:
      - encodings: [learned, roll, {roll: {width: 31}}]
        seeds: [0, 1, 2]                   # seed by seed, so that every prefix is balanced
        later: [3]                         # optional: added when earlier runs were known, so exploratory
      - encodings: [roll-twin]
        seeds: [0, 1]
        set: {learning_rate: 5e-4}         # optional, for this block alone

A plan fixes its seeds before the first run: seeds that are added after a look at results make these
exploratory. Each record that a sweep leaves holds name and sha256 of its plan's file, so that a plan which
was changed in between shows.
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import math
import multiprocessing
import os.path
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollpe.datasets import IMAGE_SIZE, load_dataset
from rollpe.distributed import processes
from rollpe.encodings import ENCODINGS, create_encoding, encoding_options, outside_files
from rollpe.errors import NOT_WRITABLE, InputError
from rollpe.recipes import Recipe, load_recipe, read_yaml_file
from rollpe.records import (
    Cell,
    Record,
    claim,
    ensure_writable,
    environment,
    now,
    read_record,
    read_records,
    record_path,
    source_hash,
    write_atomically,
)
from rollpe.training import (
    DamagedCheckpoint,
    ForeignCheckpoint,
    Programs,
    TrainingError,
    checkpoint_path,
    choose_device,
    epochs_done,
    program_key,
    resolve_options,
    train,
)
from rollpe.training import warm as warm_program
from rollpe.vit import SIZES

logger = logging.getLogger(__name__)

PROBE_STEPS = 12
"""Optimizer steps of the short run from which an unknown duration is estimated."""

SLACK, AGAIN = 1.15, 1.05
"""An estimate is what was measured times this: the machine may be slower the next time; less so a run of the
same recipe and encoding a moment later."""


# ---------------------------------------------------------------------------------------------- plans


Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Block(BaseModel):
    """Some encodings with some seeds, and what differs from the plan's recipe."""

    model_config = ConfigDict(extra="forbid", strict=True)

    encodings: list[str | dict[str, dict[str, Any]]] = Field(min_length=1)
    seeds: list[Seed] = Field(min_length=1)
    later: list[Seed] = []
    set: dict[str, Any] = {}


class Plan(BaseModel):
    """A recipe and blocks of cells in order of want. recipe: its name, or a file seen from the plan's."""

    model_config = ConfigDict(extra="forbid", strict=True)

    recipe: str
    set: dict[str, Any] = {}
    blocks: list[Block] = Field(min_length=1)


@dataclass(frozen=True)
class Planned:
    """One wanted run: its recipe with all changes made, its identity, and the plan that it is from."""

    recipe: Recipe
    cell: Cell
    later: bool = False  # its seed was added when earlier runs were known
    plan: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return unquote(f"{self.cell.recipe} {self.cell.slug} seed {self.cell.seed}")


def load_plan(path: str | Path, overrides: Mapping[str, Any] | None = None) -> list[Planned]:
    """The cells of a plan, most wanted first, each once.

    overrides: keys of the recipe changed for all blocks, after the plan's own.

    Raises InputError for a missing file, a typo in a key, an unknown encoding, option or recipe, and for an
    encoding that cannot be built.
    """
    path = Path(path)
    if not os.path.isfile(path):
        known = ", ".join(sorted(str(p) for p in Path("plans").glob("*.yaml"))) or "none here"
        raise InputError(f"{path}: no such plan. Plans: {known}.")
    try:
        plan = Plan.model_validate(read_yaml_file(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        allowed = f"{', '.join(Plan.model_fields)}; in a block {', '.join(Block.model_fields)}"
        raise InputError(f"{path}: {place}: {first['msg'].lower()}. Keys: {allowed}.") from None

    origin = f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    planned: dict[Path, Planned] = {}
    for block in plan.blocks:
        of_its_own = Path(plan.recipe).suffix in (".yaml", ".yml")  # beside the plan
        name = path.parent / plan.recipe if of_its_own else plan.recipe
        recipe = load_recipe(name, plan.set | block.set | dict(overrides or {}))
        encodings = [_named(entry, path) for entry in block.encodings]
        for name, options in encodings:
            try:
                _build(recipe, name, options)
            except InputError as error:
                raise InputError(f"{path}: entry {json.dumps({name: options})}: {error}") from None
        for cell in interleaved(recipe.name, encodings, [*block.seeds, *block.later]):
            planned.setdefault(cell.path, Planned(recipe, cell, cell.seed in block.later, origin))
    return list(planned.values())


def _named(entry: str | dict[str, dict[str, Any]], path: Path) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, dict) and len(entry) != 1:
        raise InputError(f"{path}: entry {json.dumps(entry)} must name one encoding, not {len(entry)}.")
    name, options = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
    for part in name.split("+"):
        if part not in ENCODINGS:
            raise InputError(f"{path}: encoding {part!r} is unknown. Allowed: {', '.join(ENCODINGS)}.")
    for option in options:
        if option not in encoding_options(name):
            allowed = ", ".join(encoding_options(name)) or "none"
            raise InputError(f"{path}: {name} has no option {option!r}. Allowed: {allowed}.")
    return name, options


def _build(recipe: Recipe, name: str, options: Mapping[str, Any]) -> None:
    """Build an encoding as a run of this recipe would, without memory and without a warning."""
    size, patches = SIZES[recipe.size], IMAGE_SIZE[recipe.data] // recipe.patch_size
    heads = recipe.heads or size.heads
    head_dim = (recipe.width or size.width) // heads
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        create_encoding(name, head_dim=head_dim, heads=heads, grid=(patches, patches), **options)


def interleaved(
    recipe: str, encodings: Sequence[tuple[str, Mapping[str, Any]]], seeds: Sequence[int]
) -> Iterator[Cell]:
    """One cell for every encoding and seed, seed by seed, so that every prefix is balanced."""
    for seed in seeds:
        for name, options in encodings:
            told = resolve_options(name, options)
            yield Cell(recipe=recipe, encoding=name, encoding_options=told, seed=seed)


# ---------------------------------------------------------------------------------------------- sweeps


def failure_path(records: str | Path, cell: Cell) -> Path:
    """Where a run that cannot be finished says why: beside its record's place."""
    return record_path(records, cell).with_suffix(".failed")


def missing(planned: Sequence[Planned], records: str | Path, retry: bool = False) -> list[Planned]:
    """The cells without a record; those that failed only with ``retry``."""
    return [
        p
        for p in planned
        if not record_path(records, p.cell).exists() and (retry or not failure_path(records, p.cell).exists())
    ]


def failure(records: str | Path, cell: Cell) -> str:
    """Why a cell failed; "" if it did not."""
    path = failure_path(records, cell)
    try:
        return str(json.loads(path.read_bytes())["reason"])
    except FileNotFoundError:
        return ""
    except (OSError, LookupError, TypeError, ValueError):
        return f"{path} is damaged"


def only(planned: Sequence[Planned], name: str) -> list[Planned]:
    """The one cell of that name, recipe/encoding/seed-n. Raises InputError if the plan has none."""
    found = [p for p in planned if unquote(p.cell.path.as_posix()) == unquote(name)]
    if not found:
        raise InputError(
            f"cell {name!r} is not in the plan. Its first cell: {planned[0].cell.path.as_posix()}."
        )
    return found


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


Durations = dict[tuple[str, str], float]
"""Seconds, the longest seen, by recipe and encoding."""


class Estimates:
    """How long a cell will take, from what was measured.

    What this sweep trained comes first: the same recipe and encoding, else the recipe. Where records on this
    kind of device know the encoding and this sweep does not, their duration counts in proportion to what
    both have of the recipe, since records may be of a busier machine. Before this sweep has trained
    anything of the recipe, it is the longest of the records; and where there is none, or ``measure`` leaves
    them out, a short run. What a run of this sweep waited for its program to be compiled counts for encodings
    that have none yet, and for no later seed.
    """

    def __init__(
        self,
        records: str | Path,
        device: str,
        data_root: str | Path,
        measure: bool = False,
        programs: Programs | None = None,
    ) -> None:
        self.device, self.data_root, self.programs = device, data_root, programs
        self.here = environment(str(choose_device(device))).device_name
        self.trained: Durations = {}
        self.recorded: Durations = {}
        self.probed: Durations = {}
        self.waited = 0.0
        for record in [] if measure else read_records(records):
            if record.environment.device_name == self.here:
                self._keep(self.recorded, record)

    def learn(self, record: Record, waited: float = 0.0) -> None:
        """Keep how long a run of this sweep took, of which it waited some seconds for its program."""
        self._keep(self.trained, record, waited)
        self.waited = max(self.waited, waited)

    def _keep(self, durations: Durations, record: Record, waited: float = 0.0) -> None:
        key = (record.recipe, record.cell.slug)
        durations[key] = max(durations.get(key, 0.0), record.provenance.wall_seconds - waited)

    def seconds(self, planned: Planned) -> float:
        """Expected duration, slack included."""
        known, _ = self._known(planned)
        if known is None:
            known = self.probed[planned.cell.recipe, planned.cell.slug] = self._probe(planned)
        if (planned.cell.recipe, planned.cell.slug) in self.trained:
            return AGAIN * known
        return SLACK * known + self.waited

    def grounds(self, planned: Planned) -> str:
        """In words, where the duration is from, and what to do if it cannot be right."""
        return self._known(planned)[1]

    def _known(self, planned: Planned) -> tuple[float | None, str]:
        recipe, key = planned.cell.recipe, (planned.cell.recipe, planned.cell.slug)
        in_both = [both for both in self.trained.keys() & self.recorded.keys() if both[0] == recipe]
        in_both = [both for both in in_both if self.recorded[both]]  # some clocks stand still
        if key in self.trained:
            return self.trained[key], "as before in this sweep"
        if key in self.recorded and in_both:
            pace = max(self.trained[both] / self.recorded[both] for both in in_both)
            return pace * self.recorded[key], "at the pace of this sweep"
        for durations, words in (
            (self.trained, "as others in this sweep"),
            (self.recorded, "by the slowest record on this device (--measure asks a short run instead)"),
            (self.probed, "by a short run"),
        ):
            alike = [seconds for (name, _), seconds in durations.items() if name == recipe]
            if alike:
                return durations.get(key, max(alike)), words
        return None, "by a short run"

    def _probe(self, planned: Planned) -> float:
        """Extrapolate from two short epochs: what the first took more than the second is start-up."""
        recipe, cell = planned.recipe, planned.cell
        data = load_dataset(recipe.data, self.data_root, held_out=recipe.held_out)
        available = recipe.train_images or len(data.train)
        images = min(PROBE_STEPS * recipe.batch_size, available)
        short = recipe.model_copy(
            update={
                "epochs": 2,
                "max_steps": None,
                "train_images": images,
                "warmup_epochs": 0.0,
                "resolutions": [],
                "shifts": [],
            }
        )
        begun = time.monotonic()
        record = train(
            short,
            cell.encoding,
            seed=cell.seed,
            encoding_options=cell.encoding_options,
            device=self.device,
            data_root=self.data_root,
            checkpoints=None,
            progress=False,
            programs=self.programs,
        )
        whole = time.monotonic() - begun
        first, last = record.history
        batch = min(recipe.batch_size, images)
        step = batch / last.images_per_second
        scoring = max(0.0, last.seconds - (last.steps - first.steps) * step)
        per_epoch = available // min(recipe.batch_size, available)
        steps = min(recipe.epochs * per_epoch, recipe.max_steps or recipe.epochs * per_epoch)
        native = data.train.images.shape[-1]
        passes = len(recipe.shifts) + sum((size / native) ** 2 for size in recipe.resolutions)
        after = passes * scoring * len(data.test) / max(1, len(data.held_out))
        return whole + steps * step + math.ceil(steps / per_epoch) * scoring + after


def train_missing(
    recipe: Recipe, encodings: Sequence[str], seeds: int, records: str | Path, **settings: Any
) -> Iterator[tuple[Record, bool]]:
    """Yield the record of every encoding and seed, and whether it was trained now.

    Unlike a sweep, this takes a record only if the library's source has not changed since, so that the
    numbers on a page always belong to the code beside it. ``settings`` go to :func:`rollpe.training.train`.
    """
    for cell in interleaved(recipe.name, [(name, {}) for name in encodings], range(seeds)):
        path = record_path(records, cell)
        here = source_hash(also=outside_files(cell.encoding))
        record = read_record(path) if path.exists() else None
        if record is not None and record.provenance.source_hash == here:
            yield record, False
        else:
            yield train(recipe, cell.encoding, seed=cell.seed, records=records, **settings), True


# ---------------------------------------------------------------------------------------------- times

UNITS = (3600, 60, 1)  # of hours, minutes and seconds


def seconds(text: str) -> float:
    """ "90", "90s", "25m", "1.5h", "1h30m" → seconds. Raises InputError for anything else."""
    number = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
    parts = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", text.replace(" ", ""))
    if not parts or not any(parts.groups()):
        raise InputError(f"budget {text!r}: write seconds, or a time such as 90s, 25m, 1h30m.")
    return sum(float(part or 0) * unit for part, unit in zip(parts.groups(), UNITS, strict=True))


def clock(duration: float) -> str:
    """Seconds → "45 s", "12 min", "3 h 20 min"."""
    if duration == float("inf"):
        return "no limit"
    if duration < 90:
        return f"{max(0.0, duration):.0f} s"
    minutes = round(duration / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
