"""Words for the asserts under a page's sentences: measures of committed runs, differences between arms.

An arm is spelled as `rollpe compare` takes it: ``"mini/roll"``, ``"quick/roll@width=7"``. One without runs
is an InputError, so that a sentence never rests on nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

from rollpe.errors import InputError
from rollpe_lab.evidence.families import signed
from rollpe_lab.records.record import Record, by_cell
from rollpe_lab.records.store import read_records
from rollpe_lab.sources import find_root
from rollpe_lab.statistics import Summary, by_seed, summarize

Measure = Callable[[Record], float]


def score(run: Record) -> float:
    """Test accuracy in percent, or bits per character."""
    return run.score


def held_out(run: Record) -> float:
    """Accuracy in percent on held-out images after the last epoch; of a run that kept none back: NaN."""
    share = run.history[-1].held_out_accuracy
    return float("nan") if share is None else 100 * share


def training_loss(run: Record) -> float:
    """Cross-entropy in nats on training images as they are, neither augmented nor smoothed; old runs: NaN."""
    return float("nan") if run.plain_train_loss is None else run.plain_train_loss


@cache
def runs_by_arm() -> dict[str, dict[int, Record]]:
    """All committed runs by arm and seed."""
    cells = by_cell(read_records(find_root() / "data/records"))
    return {arm: {run.seed: run for run in runs} for arm, runs in cells.items()}


def values(arm: str, measure: Measure = score) -> dict[int, float]:
    """A measure of each run of an arm, by seed."""
    if arm not in runs_by_arm():
        raise InputError(f"{arm}: no committed run.")
    return {seed: measure(run) for seed, run in sorted(runs_by_arm()[arm].items())}


def mean(arm: str, measure: Measure = score) -> float:
    """Mean of a measure over the runs of an arm."""
    return float(np.mean(list(values(arm, measure).values())))


@dataclass(frozen=True)
class Lead(Summary):
    """a − b, seed by seed: the summary of n pairs, and p by Student's test; None of one pair."""

    p: float | None

    def __str__(self) -> str:
        digits = 3 if self.sd is not None and self.sd < 0.1 else 2  # bits or points
        if self.low is None or self.high is None:
            return signed(self.mean, digits)
        return f"{signed(self.mean, digits)} [{signed(self.low, digits)}, {signed(self.high, digits)}]"


def lead(*pairs: tuple[str, str], measure: Measure = score) -> Lead:
    """a − b over the seeds that both arms of a pair have; several pairs are taken together."""
    found = []
    for a, b in pairs:
        differences = by_seed(values(a, measure), values(b, measure))
        if not differences:
            raise InputError(f"{a} and {b} have no seed in common.")
        found += differences
    whole = summarize(found)
    return Lead(**vars(whole), p=float(stats.ttest_1samp(found, 0).pvalue) if whole.sd else None)
