"""Conditions on results that sentences carry, so that a sentence and its data cannot part.

A condition is a line such as ``mini: roll - none > 0, Holm 0.05``. Here: its grammar and its truth. Not here:
finding conditions on pages (rollpe.book.holds), the tests themselves (rollpe.statistics).

    CONDITION := SCOPE: STATEMENT [; STATEMENT]...
               | measured: NAME, ...  |  not measured: NAME, ...      NAME: recipe, recipe/arm, cost cuda
               | ledger: CLAIM is VERDICT
    SCOPE     := RECIPE [seeds 0..4] [MEASURE]  |  printed  |  cost DEVICE
    MEASURE   := at PIXELS | moved PIXELS | roughness | neighbors | any two | agreement | agreement p
               | bits [LENGTH[-LENGTH]] | jump                         of text; a length minus another
    STATEMENT := TERM < TERM [< TERM]... [, Holm P | , Welch P]       or >; means over seeds
               | only ARM, ... [of ARM, ...] < NUMBER                 or >; means of these and of no other arm
               | ARM is lowest [of ARM, ...]                          or highest; without of: of all arms
               | ARM - ARM is VERDICT  |  no|every pair of ARM, ... is VERDICT
               | ARM - ARM is open|clear, Welch P                     by this test alone, of the scope's seeds
               | ARM - ARM is within NUMBER, TOST P                   equivalent within ±NUMBER
               | every run of ARM < every run of ARM                  or >, or a number on the right
               | ARM, ... have N runs
    TERM      := ARM | NUMBER | ARM - ARM | ARM ~ ARM                  ~ under agreement alone
    ARM       := an encoding with its options; @change/encoding under a changed recipe
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from rollpe.errors import InputError
from rollpe.evidence.families import Compared, family, p_value
from rollpe.evidence.table import PAPER_TABLE_1
from rollpe.records.record import Record
from rollpe.statistics import Agreement, Printed, agreement, equivalence, welch
from rollpe.training.observation import neighbor_correlation, ring_roughness

__all__ = ["Evidence", "objection"]

Arrays = Mapping[str, np.ndarray]
ORDER = {">": operator.gt, "<": operator.lt}
ARRAYS: dict[str, Callable[[Arrays], float]] = {
    "roughness": lambda arrays: float(np.divide(*ring_roughness(arrays))),
    "neighbors": lambda arrays: neighbor_correlation(arrays)[0],
    "any two": lambda arrays: neighbor_correlation(arrays)[1],
    "jump": lambda arrays: jump(arrays),
}
SCOPE = re.compile(
    r"(?P<recipe>\S+)(?: seeds (?P<first>\d+)\.\.(?P<last>\d+))?"
    r"(?: (?P<measure>at|moved|roughness|neighbors|any two|agreement p|agreement|bits|jump)"
    r"(?: (?P<pixels>\d+)(?:-(?P<shorter>\d+))?)?)?"
)
PLACES = 8
"""Positions on each side of the trained length over which `jump` takes the mean."""


def jump(arrays: Arrays) -> float:
    """How the loss of text rises at the first positions beyond the trained length, in bits per character.

    The mean over `PLACES` positions from there on minus that over as many before, in the longest windows.
    """
    loss, end = arrays["loss_by_position"] / np.log(2), (len(arrays["offsets"]) + 1) // 2
    return float(loss[end : end + PLACES].mean() - loss[end - PLACES : end].mean())


class Evidence:
    """What conditions are computed from.

    arrays: of a record, as `rollpe.records.find_arrays`. later: cells whose seeds were added after looking.
    costs: by device, the step time of each encoding divided by that without positions. verdicts: by claim.
    """

    def __init__(
        self,
        records: Iterable[Record],
        *,
        arrays: Callable[[Record], Arrays] = lambda record: {},
        later: Collection[Path] = (),
        costs: Mapping[str, Mapping[str, float]] | None = None,
        verdicts: Mapping[str, str] | None = None,
    ) -> None:
        self.records = list(records)
        self.arrays = arrays
        self.costs = costs or {}
        self.verdicts = verdicts or {}
        self.family = cache(lambda recipe: self._by_pair(family(self.records, recipe, later)))
        self.agreement = cache(self._agreement)

    @staticmethod
    def _by_pair(found: Sequence[Compared]) -> dict[tuple[str, str, int | None], Compared]:
        return {(c.variant, c.reference, c.length): c for c in found}

    def runs(self, recipe: str, arm: str) -> list[Record]:
        """The runs of an arm, of the recipe or, as @change/encoding, of a changed one."""
        change, _, encoding = arm.rpartition("/")
        found = [r for r in self.records if r.recipe == recipe + change]
        return [r for r in found if unquote(r.cell.slug) == encoding]

    def measured(self, name: str) -> bool:
        """Whether there is a run of a recipe or of recipe/arm, or a benchmark of ``cost`` and a device."""
        if name.startswith("cost "):
            return name.removeprefix("cost ") in self.costs
        recipe, _, arm = name.partition("/")
        return bool(self.runs(recipe, arm)) if arm else any(r.recipe == recipe for r in self.records)

    def _agreement(self, recipe: str) -> tuple[list[str], Agreement]:
        arms: dict[str, dict[int, np.ndarray]] = {}
        for record in self.records:
            if record.recipe == recipe:
                arms.setdefault(unquote(record.cell.slug), {})[record.seed] = record.correct_bits()
        repeated = {name: arm for name, arm in arms.items() if len(arm) > 1}
        return list(repeated), agreement(list(repeated.values()))


class _Scope:
    """The values of arms that a statement is about."""

    def __init__(self, text: str, evidence: Evidence) -> None:
        found = SCOPE.fullmatch(text)
        self.cost = text.removeprefix("cost ") if text.startswith("cost ") else None
        if not found and self.cost is None:
            raise InputError(f"{text!r} is no scope: write a recipe, perhaps with a measure, or `cost cpu`.")
        self.text, self.evidence = text, evidence
        self.found = found.groupdict() if found and self.cost is None else {}

    def compared(self, a: str, b: str) -> Compared:
        """A comparison of the family, in whichever direction it is made there."""
        recipe, length = self.found.get("recipe"), self.found.get("pixels")
        if self.text not in (recipe, f"{recipe} bits {length}"):
            raise InputError(f"{self.text!r} has no family of comparisons: only a recipe has one. Use Welch.")
        family, at = self.evidence.family(recipe), int(length) if length else None
        found = family.get((a, b, at)) or family.get((b, a, at))
        if found is None:
            raise _NotMeasured(f"{self.text} does not compare {a} and {b}")
        return found

    def sample(self, arm: str) -> list[float] | Printed:
        """The measure of every run of an arm, or what Table 1 prints."""
        if self.text != "printed":
            return self.values(arm)
        if arm not in PAPER_TABLE_1:
            raise InputError(f"Table 1 prints no {arm}.")
        return PAPER_TABLE_1[arm]

    def values(self, arm: str) -> list[float]:
        """The measure of every run of an arm."""
        if self.text == "printed":
            raise InputError("Table 1 prints no single runs.")
        if self.cost is not None:
            ratio = self.evidence.costs.get(self.cost, {}).get(arm)
            values = [] if ratio is None else [ratio]
        else:
            runs = self.evidence.runs(self.found["recipe"], arm)
            if self.found["first"]:
                runs = [r for r in runs if int(self.found["first"]) <= r.seed <= int(self.found["last"])]
            values = [v for r in runs if (v := self._read(r)) is not None]
        if not values:
            raise _NotMeasured(f"{self.text}: {arm} is not measured")
        return values

    def means(self, names: str | None) -> dict[str, float]:
        """The mean of each arm named, or of every arm that has the measure."""
        if names:
            return {arm: self.mean(arm) for arm in names.split(", ")}
        every = {unquote(r.cell.slug) for r in self.evidence.records if r.recipe == self.found.get("recipe")}
        measured = {}
        for arm in sorted(every):
            with contextlib.suppress(_NotMeasured):
                measured[arm] = self.mean(arm)
        return measured

    def _read(self, record: Record) -> float | None:
        measure, pixels = self.found["measure"], self.found["pixels"]
        if measure in ARRAYS:
            arrays = self.evidence.arrays(record)
            needed = "loss_by_position" if measure == "jump" else "query_correlation"
            return ARRAYS[measure](arrays) if needed in arrays else None
        if measure == "bits":
            longer = record.bits_at(int(pixels) if pixels else None)
            if self.found["shorter"] is None:
                return longer
            shorter = record.bits_at(int(self.found["shorter"]))
            return None if longer is None or shorter is None else longer - shorter
        if measure is None:
            return record.score
        if measure not in ("at", "moved"):
            raise InputError(f"{self.text!r} compares pairs: write a ~ b.")
        value = (record.resolutions if measure == "at" else record.shifts).get(pixels)
        return None if value is None else 100 * value

    def mean(self, term: str) -> float:
        """A term as a number."""
        if re.fullmatch(r"[-−]?\d+(\.\d+)?", term):
            return float(term.replace("−", "-"))
        if " ~ " in term:
            return self._across(*term.split(" ~ "))
        left, minus, right = term.partition(" - ")
        if minus:
            return self.mean(left) - self.mean(right)
        sample = self.sample(term)
        return sample.mean if isinstance(sample, Printed) else float(np.mean(sample))

    def _across(self, a: str, b: str) -> float:
        if not str(self.found.get("measure")).startswith("agreement"):
            raise InputError(f"{self.text!r}: only agreement is of a pair, a ~ b.")
        names, same = self.evidence.agreement(self.found["recipe"])
        if a not in names or b not in names:
            raise _NotMeasured(f"{self.text}: {a} and {b} do not both have two runs")
        table = same.p if self.found["measure"] == "agreement p" else same.excess
        return float(table[names.index(a), names.index(b)])


class _NotMeasured(Exception):
    """A condition needs runs that there are not; the message names them."""


def objection(condition: str, evidence: Evidence) -> str | None:
    """None if a condition holds, else what contradicts it. InputError for a line that is no condition."""
    scope, colon, statements = " ".join(condition.split()).partition(": ")
    if not colon:
        raise InputError(f"{condition!r} is no condition: write SCOPE: STATEMENT, as mini: roll - none > 0.")
    if scope in ("measured", "not measured"):
        wrong = [n for n in statements.split(", ") if evidence.measured(n) != (scope == "measured")]
        return (
            f"{', '.join(wrong)}: {'not measured' if scope == 'measured' else 'measured'}" if wrong else None
        )
    if scope == "ledger":
        claim, _, verdict = statements.partition(" is ")
        if claim not in evidence.verdicts:
            raise InputError(f"{claim!r} is no claim of the ledger.")
        found = evidence.verdicts[claim]
        return None if found == verdict else f"{claim} is {found}"
    arms = _Scope(scope, evidence)
    try:
        return next(filter(None, (_false(statement, arms) for statement in statements.split("; "))), None)
    except _NotMeasured as reason:
        return str(reason)


def _false(statement: str, scope: _Scope) -> str | None:
    """None if a statement is true, else the finding that contradicts it."""
    if found := re.fullmatch(r"(no|every) pair of (.+) is (clear|exploratory|open)", statement):
        for pair in itertools.combinations(found[2].split(", "), 2):
            c = scope.compared(*pair)
            if (c.verdict == found[3]) == (found[1] == "no"):
                return f"{c.variant} - {c.reference} is {c.verdict}"
        return None
    if found := re.fullmatch(r"only (.+?)(?: of (.+))? ([<>]) (\S+)", statement):
        means, bound = scope.means(found[2]) | scope.means(found[1]), scope.mean(found[4])
        held = {arm for arm, mean in means.items() if ORDER[found[3]](mean, bound)}
        wrong = sorted(held ^ {*found[1].split(", ")})
        return ", ".join(f"{arm} is {means[arm]:.4g}" for arm in wrong) or None
    if found := re.fullmatch(r"(\S+) is (lowest|highest)(?: of (.+))?", statement):
        means = {found[1]: scope.mean(found[1])} | scope.means(found[3])
        first = (min if found[2] == "lowest" else max)(means, key=means.__getitem__)
        return None if first == found[1] else f"{first} is {means[first]:.4g}"
    if found := re.fullmatch(r"(.+) - (.+) is (clear|open), Welch (0\.\d+)", statement):
        p = welch(scope.sample(found[1]), scope.sample(found[2])).p
        return None if (p < float(found[4])) == (found[3] == "clear") else f"p is {p_value(p)}"
    if found := re.fullmatch(r"(.+) - (.+) is within (\S+), TOST (0\.\d+)", statement):
        p = equivalence(scope.sample(found[1]), scope.sample(found[2]), margin=float(found[3])).p
        return None if p < float(found[4]) else f"p is {p_value(p)}"
    if found := re.fullmatch(r"(.+) - (.+) is (clear|exploratory|open)", statement):
        verdict = scope.compared(found[1], found[2]).verdict
        return None if verdict == found[3] else f"it is {verdict}"
    if found := re.fullmatch(r"(.+) (?:has|have) (\d+) runs?", statement):
        counts = {arm: len(scope.values(arm)) for arm in found[1].split(", ")}
        return ", ".join(f"{arm} has {n}" for arm, n in counts.items() if n != int(found[2])) or None
    if found := re.fullmatch(r"every run of (.+) ([<>]) (every run of )?(.+)", statement):
        extremes = (min, max) if found[2] == ">" else (max, min)
        a = extremes[0](scope.values(found[1]))
        b = extremes[1](scope.values(found[4])) if found[3] else float(found[4])
        return None if ORDER[found[2]](a, b) else f"a run of {found[1]} has {a:.4g}, against {b:.4g}"
    return _false_chain(statement, scope)


def _false_chain(statement: str, scope: _Scope) -> str | None:
    chain, _, test = statement.partition(", ")
    terms = re.split(r" [<>] ", chain)
    signs = re.findall(r" ([<>]) ", chain)
    if not signs:
        raise InputError(f"{statement!r} is no statement: see the grammar in rollpe.evidence.conditions.")
    means = [scope.mean(term) for term in terms]
    if not all(ORDER[sign](a, b) for sign, a, b in zip(signs, means, means[1:], strict=False)):
        return ", ".join(f"{term} is {mean:.4g}" for term, mean in zip(terms, means, strict=True))
    if not test:
        return None
    found = re.fullmatch(r"(.+) - (.+) [<>] 0, (Holm|Welch) (0\.\d+)", statement)
    if not found:
        raise InputError(f"{statement!r}: a test is of one difference, as a - b > 0, Holm 0.05.")
    a, b, name, level = found.groups()
    if name == "Holm":
        p = scope.compared(a, b).p
    else:
        p = welch(scope.sample(a), scope.sample(b)).p
    return None if p < float(level) else f"p is {p_value(p)}"
