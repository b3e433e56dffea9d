"""Conditions on results: the sentences of the book carry them, and the rules of the ledger consist of them.

A condition is a line such as ``mini: roll - none > 0, Holm 0.05``::

    CONDITION := SCOPE: STATEMENT [; STATEMENT]...
               | measured: NAME, ...  |  not measured: NAME, ...      NAME: recipe, recipe/arm, cost cuda
               | ledger: CLAIM is VERDICT
    SCOPE     := RECIPE [seeds 0..4] [MEASURE]  |  printed  |  cost DEVICE
    MEASURE   := a key of MEASURES with numbers in place of #: at 48, bits 512-64
    STATEMENT := TERM < TERM [< TERM]...                              or > or =; means over seeds
               | ARM - ARM > 0, Holm P                                or <; over the recipe's pairs; Welch P
               | TERM > NUMBER, one-sided P                           or <; TERM is an arm or a difference
               | only ARM, ... [of ARM, ...] < NUMBER                 or >; means of these and of no other arm
               | ARM is lowest [of ARM, ...]                          or highest; without of: of all arms
               | ARM - ARM is VERDICT  |  no|every pair of ARM, ... is VERDICT
               | ARM - ARM is open|clear, Holm P                      or Welch P: of this measure, these seeds
               | ARM - ARM is within NUMBER, TOST P                   equivalent within ±NUMBER
               | every run of ARM < every run of ARM                  or > or =, or a number on the right
               | some run of ARM < NUMBER                             or > or =
               | ARM, ... have [at least] N runs
    TERM      := ARM | NUMBER | ARM - ARM | ARM ~ ARM                  ~ under agreement alone;
                                                                      its p also of ARM ~ ARM|ARM...
    ARM       := an encoding with its options; printed/encoding; @change/encoding, or -end/encoding, under the
                 recipe whose name goes on so
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from scipy import stats

from rollpe.errors import InputError
from rollpe_lab import statistics
from rollpe_lab.evidence.families import Compared, family, p_value
from rollpe_lab.evidence.table import PAPER_TABLE_1, arms_of
from rollpe_lab.records.record import Record
from rollpe_lab.statistics import (
    CONFIDENCE,
    Agreement,
    Printed,
    Summary,
    equivalence,
    holm,
    summarize,
    welch,
)
from rollpe_lab.training import observation

Arrays = Callable[[Record], Mapping[str, np.ndarray]]
ORDER = {">": operator.gt, "<": operator.lt, "=": operator.eq}
NUMBER = r"\d+(?:\.\d+)?"
PLACES = 8
"""Positions before and after a place in the text over which `jump` takes the mean."""


# Measures of a run


def kept(run: Record, _: Arrays, pixels: str, chance: str) -> float | None:
    """Percent of the accuracy above guessing that remains at another size; None for a model that guesses.

    (A loss in points would favor weak models, which have little to lose.)
    """
    at, accuracy, guessed = 100 * run.resolutions[pixels], 100 * run.test.accuracy, float(chance)
    return 100 * (at - guessed) / (accuracy - guessed) if accuracy > guessed else None


def gap(run: Record, _: Arrays) -> float | None:
    return None if run.plain_train_loss is None else run.test.loss - run.plain_train_loss


def held_out(run: Record, _: Arrays) -> float | None:
    share = run.history[-1].held_out_accuracy
    return None if share is None else 100 * share


def rise(which: str, run: Record, arrays: Arrays, waves: str) -> float:
    """How the test loss rises, in nats, if queries and keys keep the slowest or strongest waves alone."""
    losses = arrays(run)[f"{which}_waves"]
    return float(losses[int(waves) - 1] - losses[-1])


def needed(run: Record, arrays: Arrays, nats: str) -> int:
    """How many of the slowest waves keep the test loss within some nats of that with all."""
    losses = arrays(run)["slow_waves"]
    return int(np.flatnonzero(losses - losses[-1] > float(nats)).max(initial=-1)) + 2


def jump(run: Record, arrays: Arrays, position: str = "") -> float:
    """How the loss of text rises at a position, by default the trained length, in bits per character.

    The mean over `PLACES` positions from there on minus that over as many before, in the longest windows.
    """
    beside = arrays(run)
    loss, trained = beside["loss_by_position"] / np.log(2), (len(beside["offsets"]) + 1) // 2
    at = int(position or trained)
    return float(loss[at : at + PLACES].mean() - loss[at - PLACES : at].mean())


def decay(run: Record, arrays: Arrays, reach: str) -> float:
    """Spearman's correlation of the distance |Δ| with the trained bias on the scores, a mean over heads."""
    beside = arrays(run)
    bias = dict(zip(beside["offsets"][:, 0], beside["bias"].mean((0, 1)), strict=True))
    distances = range(1, int(reach) + 1)
    return float(stats.spearmanr(distances, [bias[-distance] for distance in distances]).statistic)


def later(run: Record, arrays: Arrays) -> float:
    """The share of attention on patches after the query's minus that before, in raster order.

    Each offset counts by its pairs on the grid; a mean over layers and heads.
    """
    beside = arrays(run)
    rows, columns = beside["offsets"].T  # key − query
    pairs = (rows.max() + 1 - abs(rows)) * (columns.max() + 1 - abs(columns))
    weights = beside["attention"] * pairs  # [layers, heads, offsets]
    side = np.where(rows == 0, np.sign(columns), np.sign(rows))  # 1: later in raster order
    return float(((weights * side).sum(-1) / weights.sum(-1)).mean())


def of_pairs(*_: Any) -> float:
    raise InputError("This compares pairs: write a - b or, of agreement, a ~ b.")


@dataclass(frozen=True)
class Measure:
    """A number of a run: of the record, the arrays beside it and the numbers in the measure's name.

    None or KeyError if the record lacks it. words: its name in the ledger. fewer: whether less is better.
    """

    read: Callable[..., float | None]
    words: str = ""
    unit: str = ""
    digits: int = 2
    fewer: bool = False


MEASURES = {
    "": Measure(lambda run, _: run.score, "test accuracy", "points"),
    "held-out": Measure(held_out, "accuracy on held-out images after the last epoch", "points"),
    "at #": Measure(lambda run, _, pixels: 100 * run.resolutions[pixels], unit="points"),
    "moved #": Measure(lambda run, _, pixels: 100 * run.shifts[pixels], unit="points"),
    "kept at # above #": Measure(kept, "what is left at # px of the accuracy above # %", "percent"),
    "bits": Measure(
        lambda run, _: run.bits_at(), "bits per character in windows of the trained length", "bits", 3, True
    ),
    "bits #": Measure(
        lambda run, _, n: run.bits[n], "bits per character in windows of # characters", "bits", 3, True
    ),
    "bits #-#": Measure(
        lambda run, _, n, shorter: run.bits[n] - run.bits[shorter],
        "bits per character in windows of # characters minus those in windows of #",
        "bits",
        3,
        True,
    ),
    "jump": Measure(jump, "", "bits", 3, True),
    "jump at #": Measure(jump, "", "bits", 3, True),
    "loss": Measure(lambda run, _: run.test.loss, "test loss", "nats", 3, True),
    "gap": Measure(gap, "overfitting (test loss minus loss on plain training images)", "nats", 3),
    "speed": Measure(  # a difference of 100 ln is one in percent
        lambda run, _: 100 * math.log(run.throughput), "training speed on one device", "percent"
    ),
    "roughness": Measure(lambda run, arrays: float(np.divide(*observation.ring_roughness(arrays(run))))),
    "neighbors": Measure(lambda run, arrays: observation.neighbor_correlation(arrays(run))[0]),
    "any two": Measure(lambda run, arrays: observation.neighbor_correlation(arrays(run))[1]),
    "lead of neighbors": Measure(
        lambda run, arrays: float(np.subtract(*observation.neighbor_correlation(arrays(run))))
    ),
    "neighbors, last layer - first": Measure(
        lambda run, arrays: float(np.subtract(*observation.neighbors_by_layer(arrays(run))[[-1, 0]]))
    ),
    "participation": Measure(lambda run, arrays: observation.kind_of_order(arrays(run))[0]),
    "share of distance": Measure(lambda run, arrays: observation.kind_of_order(arrays(run))[1]),
    "lead beyond the first component": Measure(lambda run, arrays: observation.kind_of_order(arrays(run))[2]),
    "coherence #": Measure(
        lambda run, arrays, moment: float(arrays(run)["frame_query_coherence"][int(moment) - 1].mean())
    ),
    "coherence #, last layer - first": Measure(
        lambda run, arrays, moment: float(
            np.subtract(*arrays(run)["frame_query_coherence"][int(moment) - 1].mean(1)[[-1, 0]])
        )
    ),
    "slow waves #": Measure(partial(rise, "slow"), fewer=True),
    "strong waves #": Measure(partial(rise, "strong"), fewer=True),
    "slow waves needed within #": Measure(needed, fewer=True),
    "decay #": Measure(
        decay, "Spearman's correlation of distance and trained bias on the score, over # tokens back"
    ),
    "later": Measure(
        later,
        "share of attention on patches later in raster order, minus the share on earlier ones,",
        digits=3,
    ),
    "agreement": Measure(of_pairs),
    "agreement p": Measure(of_pairs),
}


# Records and scopes


class NotMeasured(InputError):
    """A condition needs runs that there are not; the message names them."""


class Evidence:
    """What conditions are computed from.

    arrays: of a record, as `rollpe_lab.records.find_arrays`. later: cells whose seeds were added after
    looking.
    costs: by device, the step time of each encoding divided by that without positions. verdicts: by claim.
    """

    def __init__(
        self,
        records: Iterable[Record],
        *,
        arrays: Arrays = lambda record: {},
        later: Collection[Path] = (),
        costs: Mapping[str, Mapping[str, float]] | None = None,
        verdicts: Mapping[str, str] | None = None,
    ) -> None:
        self.records = list(records)
        self.arrays = arrays
        self.costs = costs or {}
        self.verdicts = verdicts or {}
        self.arms = cache(self._arms)
        self.agreement, self.apart = cache(self._agreement), cache(self._apart)
        self.family = cache(
            lambda recipe: {
                (c.variant, c.reference, c.length): c for c in family(self.records, recipe, later)
            }
        )

    def _arms(self, recipe: str) -> dict[str, list[Record]]:
        """The runs of a recipe by encoding. InputError if two of them may not be compared."""
        return {unquote(slug): [*arm.values()] for slug, arm in arms_of(self.records, recipe).items()}

    def runs(self, recipe: str, arm: str) -> list[Record]:
        """The runs of an arm, of the recipe or, as @change/encoding, of a changed one."""
        change, _, encoding = arm.rpartition("/")
        return self.arms(recipe + change).get(encoding, [])

    def measured(self, name: str) -> bool:
        """Whether there is a run of a recipe or of recipe/arm, or a benchmark of ``cost`` and a device."""
        if name.startswith("cost "):
            return name.removeprefix("cost ") in self.costs
        recipe, _, arm = name.partition("/")
        return bool(self.runs(recipe, arm) if arm else self.arms(recipe))

    def _agreement(self, recipe: str) -> tuple[list[str], Agreement]:
        repeated = [name for name, runs in self.arms(recipe).items() if len(runs) > 1]
        return repeated, statistics.agreement([self._bits(recipe, name) for name in repeated])

    def _apart(self, recipe: str, arm: str, others: str) -> float:
        return statistics.apart(self._bits(recipe, arm), [self._bits(recipe, o) for o in others.split("|")])

    def _bits(self, recipe: str, arm: str) -> dict[int, np.ndarray]:
        return {run.seed: run.correct_bits() for run in self.arms(recipe)[arm]}


class Scope:
    """The runs and the measure that a statement is about, such as ``quick seeds 0..4 at 12``."""

    def __init__(self, text: str, evidence: Evidence | None = None) -> None:
        found = re.fullmatch(r"(\S+)(?: seeds (\d+)\.\.(\d+))?(?: (.+))?", text)
        self.text, self.evidence = text, evidence or Evidence([])
        self.cost = text.removeprefix("cost ") if text.startswith("cost ") else None
        self.recipe, first, last, measure = found.groups(default="") if found else (text, "", "", "no")
        self.seeds = range(int(first), int(last) + 1) if first else None
        self.numbers = re.findall(NUMBER, measure)
        self.name = "" if self.cost else re.sub(NUMBER, "#", measure)
        if self.name not in MEASURES:
            raise InputError(f"{text!r} is no scope: write a recipe, perhaps with a measure, or `cost cpu`.")
        self.measure = MEASURES[self.name]

    @property
    def words(self) -> str:
        """The measure in words."""
        numbers = iter(self.numbers)
        return re.sub("#", lambda _: next(numbers), self.measure.words or self.name)

    def compared(self, a: str, b: str) -> Compared:
        """A comparison of the family, in whichever direction it is made there."""
        if self.name not in ("", "bits #") or self.seeds or self.cost:
            raise InputError(
                f"{self.text!r} has no verdicts, which are of a recipe's accuracy. Use > 0, Holm."
            )
        family, at = self.evidence.family(self.recipe), int(self.numbers[0]) if self.numbers else None
        found = family.get((a, b, at)) or family.get((b, a, at))
        if found is None:
            raise NotMeasured(f"{self.text} does not compare {a} and {b}")
        return found

    def tested(self, a: str, b: str, method: str) -> dict[str, Any]:
        """``test`` of a - b; by Holm, p is over all pairs of the recipe's family, of this measure."""
        if method == "Welch":
            return self.test(f"{a} - {b}")
        if self.name in ("", "bits #") and not self.seeds:
            return {"p": self.compared(a, b).p, "mean": self.mean(f"{a} - {b}")}
        found = {}
        for one, other, _ in self.evidence.family(self.recipe):
            with contextlib.suppress(NotMeasured):
                found[one, other] = self.test(f"{one} - {other}")["p"]
        after = dict(zip(found, holm([*found.values()]), strict=True))
        p = after.get((a, b), after.get((b, a)))
        if p is None:
            raise NotMeasured(f"{self.text} does not compare {a} and {b}")
        return self.test(f"{a} - {b}") | {"p": float(p)}

    def values(self, arm: str) -> list[float] | Printed:
        """The measure of every run of an arm, perhaps of none, or what Table 1 prints."""
        if self.text == "printed" or arm.startswith("printed/"):
            if (slug := arm.removeprefix("printed/")) not in PAPER_TABLE_1:
                raise InputError(f"Table 1 prints no {slug}.")
            return PAPER_TABLE_1[slug]
        if self.cost:
            return [costs[arm]] if arm in (costs := self.evidence.costs.get(self.cost, {})) else []
        return [value for run in self.runs(arm) if (value := self._read(run)) is not None]

    def runs(self, arm: str) -> list[Record]:
        runs = self.evidence.runs(self.recipe, arm)
        return [run for run in runs if run.seed in self.seeds] if self.seeds else runs

    def _read(self, run: Record) -> float | None:
        try:
            return self.measure.read(run, self.evidence.arrays, *self.numbers)
        except KeyError:  # an older record
            return None

    def sample(self, arm: str) -> list[float] | Printed:
        """The measure of every run of an arm, of one or more."""
        values = self.values(arm)
        if values == []:
            raise NotMeasured(f"{self.text}: {arm} is not measured")
        return values

    def summary(self, arm: str, confidence: float = CONFIDENCE) -> Summary:
        return summarize(self.sample(arm), confidence)

    def means(self, names: str | None) -> dict[str, float]:
        """The mean of each arm named, or of every arm that has the measure."""
        if names:
            return {arm: self.mean(arm) for arm in names.split(", ")}
        measured = {}
        for arm in sorted(self.evidence.arms(self.recipe)):
            with contextlib.suppress(NotMeasured):
                measured[arm] = self.mean(arm)
        return measured

    def mean(self, term: str) -> float:
        """A term as a number."""
        if re.fullmatch(f"[-−]?{NUMBER}", term):
            return float(term.replace("−", "-"))
        if " ~ " in term:
            return self._across(*term.split(" ~ "))
        left, minus, right = term.partition(" - ")
        return self.mean(left) - self.mean(right) if minus else self.summary(term).mean

    def _across(self, a: str, b: str) -> float:
        if not self.name.startswith("agreement"):
            raise InputError(f"{self.text!r}: only agreement is of a pair, a ~ b.")
        names, same = self.evidence.agreement(self.recipe)
        of_p = self.name == "agreement p"
        if not {a, *(b.split("|") if of_p else [b])} <= {*names}:
            raise NotMeasured(f"{self.text}: {a} and {b} do not have two runs each")
        if of_p:
            return self.evidence.apart(self.recipe, a, b)
        return float(same.excess[names.index(a), names.index(b)])

    def test(self, term: str, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """The mean of an arm over its seeds, or the difference of two by Welch's test, with its interval."""
        names = term.split(" - ")
        arms = [self.summary(arm, confidence) for arm in names]
        if self.name == "speed" and len({r.environment.device_name for n in names for r in self.runs(n)}) > 1:
            raise NotMeasured("the runs were timed on different devices")
        if min(arm.n for arm in arms) < 2:
            raise NotMeasured(f"{self.text}: a test of {term} needs two runs of each")
        found = (
            vars(arms[0])
            if len(arms) == 1
            else vars(welch(self.sample(names[0]), self.sample(names[1]), confidence))
        )
        found = found | {"mean": found.get("difference", arms[0].mean)}
        return found | {
            "interval": self._interval(found),
            "means": [arm.mean for arm in arms],
            "spread": max(arm.sd or 0.0 for arm in arms),
        }

    def _interval(self, found: Mapping[str, Any]) -> str:
        mean, low, high = (f"{found[key]:+.{self.measure.digits}f}" for key in ("mean", "low", "high"))
        return " ".join(filter(None, (mean, self.measure.unit, f"[{low}, {high}]")))


# Statements


@dataclass(frozen=True)
class Finding:
    """Whether a statement holds, what was found, and the numbers by name."""

    holds: bool
    text: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


def judge(condition: str, evidence: Evidence) -> Finding:
    """What the records say to a condition; of several statements, to the first that does not hold.

    InputError for a line that is no condition; NotMeasured if its runs are missing.
    """
    scope, colon, statements = " ".join(condition.split()).partition(": ")
    if not colon:
        raise InputError(f"{condition!r} is no condition: write SCOPE: STATEMENT, as mini: roll - none > 0.")
    if scope in ("measured", "not measured"):
        wrong = [n for n in statements.split(", ") if evidence.measured(n) != (scope == "measured")]
        found = "not measured" if scope == "measured" else "measured"
        return Finding(not wrong, f"{', '.join(wrong)}: {found}")
    if scope == "ledger":
        claim, _, verdict = statements.partition(" is ")
        if claim not in evidence.verdicts:
            raise InputError(f"{claim!r} is no claim of the ledger.")
        return Finding(evidence.verdicts[claim] == verdict, f"{claim} is {evidence.verdicts[claim]}")
    arms, finding = Scope(scope, evidence), Finding(True)
    for statement in statements.split("; "):
        finding = _judge(statement, arms)
        if not finding.holds:
            break
    return finding


def objection(condition: str, evidence: Evidence) -> str | None:
    """None if a condition holds, else what contradicts it. InputError for a line that is no condition."""
    try:
        finding = judge(condition, evidence)
    except NotMeasured as reason:
        return str(reason)
    return None if finding.holds else finding.text


def _judge(statement: str, scope: Scope) -> Finding:
    for pattern, function in STATEMENTS.items():
        if found := re.fullmatch(pattern, statement):
            return function(scope, *found.groups())
    raise InputError(f"{statement!r} is no statement: see the grammar in rollpe_lab.evidence.conditions.")


def _pairs(scope: Scope, which: str, arms: str, verdict: str) -> Finding:
    compared = [scope.compared(*pair) for pair in itertools.combinations(arms.split(", "), 2)]
    wrong = [c for c in compared if (c.verdict == verdict) == (which == "no")]
    return Finding(not wrong, ", ".join(f"{c.variant} - {c.reference} is {c.verdict}" for c in wrong))


def _only(scope: Scope, only: str, of: str | None, sign: str, bound: str) -> Finding:
    means = scope.means(of) | scope.means(only)
    held = {arm for arm, mean in means.items() if ORDER[sign](mean, scope.mean(bound))}
    wrong = sorted(held ^ {*only.split(", ")})
    return Finding(not wrong, ", ".join(f"{arm} is {means[arm]:.4g}" for arm in wrong))


def _extreme(scope: Scope, arm: str, which: str, of: str | None) -> Finding:
    means = {arm: scope.mean(arm)} | scope.means(of)
    first = (min if which == "lowest" else max)(means, key=means.__getitem__)
    return Finding(first == arm, f"{first} is {means[first]:.4g}")


def _by_test(scope: Scope, a: str, b: str, verdict: str, name: str, level: str) -> Finding:
    test = scope.tested(a, b, name)
    return Finding((test["p"] < float(level)) == (verdict == "clear"), f"p is {p_value(test['p'])}", test)


def _within(scope: Scope, a: str, b: str, margin: str, level: str) -> Finding:
    test = scope.test(f"{a} - {b}", 1 - 2 * float(level))
    p = equivalence(scope.sample(a), scope.sample(b), margin=float(margin))
    return Finding(p < float(level), f"p is {p_value(p)}", test | {"p": p})


def _by_family(scope: Scope, a: str, b: str, verdict: str) -> Finding:
    found = scope.compared(a, b).verdict
    return Finding(found == verdict, f"it is {found}")


def _counted(scope: Scope, arms: str, least: str | None, number: str) -> Finding:
    values = {arm: scope.values(arm) for arm in arms.split(", ")}
    counts = {arm: v.n if isinstance(v, Printed) else len(v) for arm, v in values.items()}
    wrong = [arm for arm, n in counts.items() if n < int(number) or (n > int(number) and not least)]
    text = f"recipe {scope.recipe}: " + ", ".join(
        f"{arm} has {counts[arm]} of {number} seeds" for arm in wrong
    )
    return Finding(not wrong, text, {"counts": [*counts.values()]})


def _runs(scope: Scope, which: str, a: str, sign: str, b: str) -> Finding:
    left, right = scope.sample(a), [float(b)] if re.fullmatch(f"-?{NUMBER}", b) else scope.sample(b)
    if isinstance(left, Printed) or isinstance(right, Printed):
        return Finding(False, "Table 1 prints no single runs")
    if which == "some":
        nearest = (max if sign == ">" else min)(left)
        return Finding(any(ORDER[sign](value, right[0]) for value in left), f"{a} has {nearest:.4g}")
    wrong = next(((x, y) for x, y in itertools.product(left, right) if not ORDER[sign](x, y)), None)
    text = f"a run of {a} has {wrong[0]:.4g}, against {wrong[1]:.4g}" if wrong else ""
    return Finding(not wrong, text, {"value": left[0]})


def _differ(scope: Scope, a: str, b: str, sign: str, name: str, level: str) -> Finding:
    test = scope.tested(a, b, name)
    if not ORDER[sign](test["mean"], 0):
        return Finding(False, f"{a} - {b} is {test['mean']:.4g}", test)
    return Finding(test["p"] < float(level), f"p is {p_value(test['p'])}", test)


def _beyond(scope: Scope, term: str, sign: str, bound: str, level: str) -> Finding:
    test = scope.test(term, 1 - 2 * float(level))
    nearest = test["low" if sign == ">" else "high"]
    return Finding(ORDER[sign](nearest, float(bound)), f"{term} is {test['interval']}", test)


def _chain(scope: Scope, chain: str) -> Finding:
    terms, signs = re.split(r" [<>=] ", chain), re.findall(r" ([<>=]) ", chain)
    means = [scope.mean(term) for term in terms]
    text = ", ".join(f"{term} is {mean:.4g}" for term, mean in zip(terms, means, strict=True))
    holds = all(ORDER[s](a, b) for s, (a, b) in zip(signs, itertools.pairwise(means), strict=True))
    return Finding(holds, text, {"means": means})


TERM = r"\S+(?: [-~] \S+)?"
STATEMENTS: dict[str, Callable[..., Finding]] = {
    r"(no|every) pair of (.+) is (clear|exploratory|open)": _pairs,
    r"only (.+?)(?: of (.+))? ([<>]) (\S+)": _only,
    r"(\S+) is (lowest|highest)(?: of (.+))?": _extreme,
    r"(\S+) - (\S+) is (clear|open), (Holm|Welch) (0\.\d+)": _by_test,
    r"(\S+) - (\S+) is within ([\d.]+), TOST (0\.\d+)": _within,
    r"(\S+) - (\S+) is (clear|exploratory|open)": _by_family,
    r"(.+) (?:has|have) (at least )?(\d+) runs?": _counted,
    rf"(every|some) run of (\S+) ([<>=]) (-?{NUMBER})": _runs,
    r"(every) run of (\S+) ([<>=]) every run of (\S+)": _runs,
    r"(\S+) - (\S+) ([<>]) 0, (Holm|Welch) (0\.\d+)": _differ,
    rf"({TERM}) ([<>]) (-?[\d.]+), one-sided (0\.\d+)": _beyond,
    rf"({TERM}(?: [<>=] {TERM})+)": _chain,
}
"""The statements of the grammar, each with what judges it; the first that fits counts."""
