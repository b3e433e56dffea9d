"""Words for the asserts under a page's sentences: measures of committed runs, differences between arms.

An arm is spelled as `rollpe compare` takes it: ``"mini/roll"``, ``"quick/roll@width=7"``. A measure is a
function of one run; `score` unless another is named. An arm without runs, or without the measure, is an
InputError, so that a sentence never rests on nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from rollpe.errors import InputError
from rollpe_lab import statistics
from rollpe_lab.evidence.comparisons import NO_BREAK, Compared, family, later_cells, path_of, signed
from rollpe_lab.files import markdown
from rollpe_lab.hashes import find_root
from rollpe_lab.records.record import Record, by_cell
from rollpe_lab.records.store import read_arrays, read_records
from rollpe_lab.statistics import Summary, Welch, by_seed, holm, student, summarize, welch

Measure = Callable[[Record], float | None]
"""A number of a run; None if its record is older than the number."""
Seeds = Collection[int] | None
NOT_MEASURED = "not measured"


# Measures of the record; those of the arrays beside it are in inside.py


def score(run: Record) -> float:
    """Test accuracy in percent, or bits per character."""
    return run.score


def held_out(run: Record) -> float | None:
    """Accuracy in percent on held-out images after the last epoch."""
    share = run.history[-1].held_out_accuracy
    return None if share is None else 100 * share


def training_loss(run: Record) -> float | None:
    """Cross-entropy in nats on training images as they are, neither augmented nor smoothed."""
    return run.plain_train_loss


def loss(run: Record) -> float:
    """Cross-entropy in nats on the test data."""
    return run.test.loss


def at(pixels: int) -> Measure:
    """Accuracy in percent on test images resized to that many pixels."""
    return lambda run: 100 * run.resolutions[str(pixels)] if str(pixels) in run.resolutions else None


def scaled(pixels: int) -> Measure:
    """The same with positions scaled into the grid of training."""
    return lambda run: (
        100 * run.scaled_resolutions[str(pixels)] if str(pixels) in run.scaled_resolutions else None
    )


def moved(pixels: int) -> Measure:
    """Accuracy in percent on test images moved right and down by that many pixels."""
    return lambda run: 100 * run.shifts[str(pixels)] if str(pixels) in run.shifts else None


def bits(length: int) -> Measure:
    """Bits per character in windows of that many characters."""
    return lambda run: run.bits.get(str(length))


def lost(shorter: int, longer: int) -> Measure:
    """Bits per character in longer windows minus those in shorter ones: what a longer text costs."""
    sizes = str(longer), str(shorter)
    return lambda run: run.bits[sizes[0]] - run.bits[sizes[1]] if {*sizes} <= run.bits.keys() else None


# Runs


@cache
def runs_by_arm() -> dict[str, dict[int, Record]]:
    """All committed runs by arm and seed."""
    cells = by_cell(read_records(find_root() / "data/records"))
    return {arm: {run.seed: run for run in runs} for arm, runs in cells.items()}


def arrays_of(run: Record) -> Mapping[str, np.ndarray]:
    """The arrays beside a committed record; none, if it was made before they were kept."""
    return _arrays_of(run.run_id.path)


@lru_cache(64)  # the runs of a few arms, which a page asks for many measures one after another
def _arrays_of(path: Path) -> Mapping[str, np.ndarray]:
    return read_arrays(find_root() / "data/records" / path.with_suffix(".json"))


def measured(name: str) -> bool:
    """Whether a recipe, or recipe/encoding, has runs."""
    return any(name in (arm, arm.partition("/")[0]) for arm in runs_by_arm())


def values(arm: str, measure: Measure = score, seeds: Seeds = None) -> dict[int, float]:
    """A measure of each run of an arm, or of some, by seed."""
    if arm not in runs_by_arm():
        raise InputError(f"{arm}: no committed run.")
    runs = sorted(runs_by_arm()[arm].items())
    found = {seed: measure(run) for seed, run in runs if seeds is None or seed in seeds}
    known = {seed: value for seed, value in found.items() if value is not None}
    if not known:
        raise InputError(f"{arm}: no run with this measure.")
    return known


def mean(arm: str, measure: Measure = score, seeds: Seeds = None) -> float:
    """Mean of a measure over the runs of an arm."""
    return float(np.mean(list(values(arm, measure, seeds).values())))


def least(arm: str, measure: Measure = score, seeds: Seeds = None) -> float:
    """The smallest value over the runs of an arm: every run is above what is below it."""
    return min(values(arm, measure, seeds).values())


def most(arm: str, measure: Measure = score, seeds: Seeds = None) -> float:
    """The largest value over the runs of an arm."""
    return max(values(arm, measure, seeds).values())


def means(*arms: str, measure: Measure = score, digits: int = 1) -> list[float]:
    """Rounded means of arms, as prose has them."""
    return [round(mean(arm, measure), digits) for arm in arms]


# Differences


@dataclass(frozen=True)
class Lead(Summary):
    """a − b, seed by seed: the summary of n pairs, and p by Student's test; None of one pair."""

    p: float | None

    def __str__(self) -> str:
        digits = 3 if self.sd is not None and self.sd < 0.1 else 2  # bits or points
        if self.low is None or self.high is None:
            return signed(self.mean, digits)
        return f"{signed(self.mean, digits)} [{signed(self.low, digits)}, {signed(self.high, digits)}]"


def lead(*pairs: tuple[str, str], measure: Measure = score, other: Measure | None = None) -> Lead:
    """a − b over the seeds that both arms of a pair have; several pairs are taken together.

    other: the measure of b, if it is not that of a.
    """
    found = []
    for a, b in pairs:
        differences = by_seed(values(a, measure), values(b, other or measure))
        if not differences:
            raise InputError(f"{a} and {b} have no seed in common.")
        found += differences
    whole = summarize(found)
    return Lead(**vars(whole), p=student(found) if whole.sd else None)


def difference(a: str, b: str, measure: Measure = score, seeds: Seeds = None) -> Welch:
    """a − b by Welch's test over all runs of both, whatever their seeds."""
    left, right = (list(values(arm, measure, seeds).values()) for arm in (a, b))
    return welch(left, right)


def equivalence(a: str, b: str, margin: float, measure: Measure = score) -> float:
    """p of two one-sided tests that the arms differ by less than the margin."""
    left, right = (list(values(arm, measure).values()) for arm in (a, b))
    return statistics.equivalence(left, right, margin=margin)


@cache
def _family(recipe: str) -> list[Compared]:
    runs = (run for arm in runs_by_arm().values() for run in arm.values())
    return family(runs, recipe, later_cells(find_root() / "plans"))


def compared(a: str, b: str, length: int | None = None) -> Compared:
    """The comparison of two arms in their recipe's family, in whichever direction it is made there.

    length: of the windows of text, where a plan names it.
    """
    recipe = min((arm.partition("/")[0] for arm in (a, b)), key=len)
    for name in (recipe, recipe.partition("@")[0]):
        for c in _family(name):
            if {path_of(name, c.variant), path_of(name, c.reference)} == {a, b} and c.length == length:
                return c
    raise InputError(f"{a} and {b} are not compared.")


def verdict(a: str, b: str, length: int | None = None) -> str:
    """`clear`, `exploratory` or `open`: the verdict on a difference in its family."""
    return compared(a, b, length).verdict


def adjusted(a: str, b: str, measure: Measure) -> float:
    """p of `difference` after Holm's correction for all pairs of the recipe's family with the measure."""
    recipe, found = a.partition("/")[0].partition("@")[0], {}
    for c in _family(recipe):
        pair = path_of(recipe, c.variant), path_of(recipe, c.reference)
        with contextlib.suppress(InputError):
            found[frozenset(pair)] = difference(*pair, measure).p
    return float(dict(zip(found, holm([*found.values()]), strict=True))[frozenset((a, b))])


# Tables


def summary(arm: str, measure: Measure = score, seeds: Seeds = None) -> str:
    """Mean of a measure and its 95 % interval, or "not measured"."""
    try:
        s = summarize(list(values(arm, measure, seeds).values()))
    except InputError:
        return NOT_MEASURED
    digits = 1 if s.mean > 10 else 2  # percent, or bits and correlations
    spread = "" if s.low is None else f" [{s.low:.{digits}f}, {s.high:.{digits}f}]"
    return f"{s.mean:.{digits}f}{spread}".replace("-", "−").replace(" ", NO_BREAK)


def measures_table(
    arms: Mapping[str, str],
    measures: Mapping[str, Measure],
    head: str = "encoding",
    seeds: Seeds = None,
) -> str:
    """A row of `summary` for each labeled arm, a column for each titled measure, then the number of runs."""
    rows = [[head, *measures, "runs"]]
    for label, arm in arms.items():
        runs = [seed for seed in runs_by_arm().get(arm, ()) if seeds is None or seed in seeds]
        rows.append([label, *(summary(arm, m, seeds) for m in measures.values()), str(len(runs))])
    return markdown(rows)
