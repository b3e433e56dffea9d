"""Two groups of runs side by side: what `rollpe compare` prints.

Finds the runs that a name or a path means, refuses those that may not be compared, and computes their
differences with intervals.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from rollpe.errors import InputError
from rollpe_lab.evidence.comparisons import signed
from rollpe_lab.records.record import Record, by_cell, check_comparable
from rollpe_lab.records.store import read_record, read_records
from rollpe_lab.statistics import by_seed, paired_by_image, student, summarize, welch

# The runs


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed, and the name they were asked for by."""

    name: str
    runs: Mapping[int, Record]

    def scores(self) -> dict[int, float]:
        """The score by seed: test accuracy in percent, of text bits per character."""
        return {seed: record.score for seed, record in self.runs.items()}

    @property
    def of_text(self) -> bool:
        return any(record.bits for record in self.runs.values())

    def __str__(self) -> str:
        s = summarize(list(self.scores().values()))
        spread = f" ± {s.sd:.2f}" if s.sd is not None else ""
        return f"{s.mean:.2f}{spread} {'bits' if self.of_text else '%'}"


def find_runs(name: str, folders: Sequence[Path]) -> Group:
    """The runs that a name means: a record's file, or ``recipe/encoding[@options]`` with all its seeds.

    Options are written as tables show them or as folders are called. Folders are searched in order; of two
    records of the same seed the first is taken. A name that means nothing is an InputError that names the
    nearest groups there are.
    """
    if Path(name).suffix == ".json":
        record = read_record(name)
        return Group(Path(name).with_suffix("").as_posix(), {record.seed: record})
    name = unquote(name)

    def groups_of(recipe: str | None) -> dict[str, list[Record]]:
        return by_cell(chain.from_iterable(read_records(folder, recipe) for folder in reversed(folders)))

    if name not in (groups := groups_of(name.partition("/")[0])):
        groups = groups_of(None)
        near = difflib.get_close_matches(name, groups, 3, 0.5) or sorted(groups)[:8]
        there = f"there are {', '.join(near)}" if near else f"{', '.join(map(str, folders))} hold no record"
        raise InputError(f"{name}: no runs of that name, and no record's file (.json); {there}.")
    by_seed = {record.seed: record for record in groups[name]}
    return Group(name, dict(sorted(by_seed.items())))


# The differences


@dataclass(frozen=True)
class Difference:
    """A − B in points or bits per character, found by one method.

    Interval and p are None where ``note`` says what is missing. over: what the interval generalizes to.
    """

    method: str
    value: float | None
    note: str
    over: str = "seeds"
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def interval(self) -> str | None:
        """The interval as text."""
        if self.low is None or self.high is None:
            return None
        return f"{signed(self.low)} to {signed(self.high)}"

    def __str__(self) -> str:
        value = "–" if self.value is None else signed(self.value)
        found = f"[{self.interval}]" if self.interval else self.note
        if self.p is not None:
            found += "   p < 0.001" if self.p < 0.001 else f"   p = {self.p:.2g}"
        return f"A − B {self.method:28} {value:>7}   {found}"


def over_seeds(a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """Welch's test: would other training runs show the difference?"""
    value = float(np.mean(list(a.values())) - np.mean(list(b.values())))
    method = "over seeds (Welch)"
    try:
        test = welch(list(a.values()), list(b.values()))
    except InputError:
        few = min(len(a), len(b)) < 2
        note = "a test needs at least 2 seeds in both groups" if few else "in both groups all runs are equal"
        return Difference(method, value, note)
    return Difference(method, value, "", "seeds", test.low, test.high, test.p)


def paired_by_seed(a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """The t-test of the differences seed by seed: equal seeds saw equal batches and augmentation."""
    differences = by_seed(a, b)
    method = f"paired by seed ({len(differences)} in common)"
    if not differences:
        return Difference(method, None, "no seed was trained in both groups")
    s = summarize(differences)
    if not s.sd or s.low is None:
        note = "an interval needs three seeds in both groups" if s.n < 3 else "all seeds differ by the same"
        return Difference(method, s.mean, note)
    return Difference(method, s.mean, "", "seeds", s.low, s.high, student(differences))


def image_by_image(a: Group, b: Group) -> Difference:
    """Right or wrong on the same test images; see `rollpe_lab.statistics.paired_by_image`."""
    bits = (np.stack([record.correct_bits() for record in group.runs.values()]) for group in (a, b))
    r = paired_by_image(*bits)
    seeds_too = r.over == "images and seeds"
    over = "test images and seeds" if seeds_too else "test images, for these trained models alone"
    return Difference("image by image", 100 * r.difference, "", over, 100 * r.low, 100 * r.high, r.p)


@dataclass(frozen=True)
class Comparison:
    """Group A against group B; str() is what `rollpe compare` prints."""

    a: Group
    b: Group

    @cached_property
    def differences(self) -> list[Difference]:
        """A − B over seeds, paired by seed, and image by image; the characters of a text are no sample."""
        a, b = self.a.scores(), self.b.scores()
        by_image = [] if self.a.of_text else [image_by_image(self.a, self.b)]
        return [over_seeds(a, b), paired_by_seed(a, b), *by_image]

    @property
    def sentence(self) -> str:
        """The result in words, from the test over seeds, or from the images where seeds cannot tell."""
        seeds, *_, last = self.differences
        d = seeds if seeds.low is not None else last
        if d.value is None or d.low is None or d.high is None:
            return f"No difference is established: {seeds.note}."
        unit = "bits per character" if self.a.of_text else "points"
        interval = f"95 % interval over {d.over}: {d.interval} {unit}"
        if d.low <= 0 <= d.high:
            return f"No difference is established ({interval})."
        a_is_better = (d.value > 0) != self.a.of_text  # of bits, less is better
        better, worse = (self.a, self.b) if a_is_better else (self.b, self.a)
        return f"{better.name} is better than {worse.name} by {abs(d.value):.2f} {unit} ({interval})."

    def __str__(self) -> str:
        width = max(len(self.a.name), len(self.b.name))
        lines = [f"{x}  {g.name:{width}}  {g}   n = {len(g.runs)}" for x, g in (("A", self.a), ("B", self.b))]
        return "\n".join([*lines, *map(str, self.differences), self.sentence])


def compare(a: Group, b: Group) -> Comparison:
    """Compare two groups; runs that may not be compared are an InputError that says why."""
    if shared := [r.run_id.path for r in a.runs.values() if r in b.runs.values()]:
        raise InputError(f"{a.name} and {b.name} both hold the run {shared[0]}: give two different groups.")
    check_comparable([*a.runs.values(), *b.runs.values()])
    return Comparison(a, b)
