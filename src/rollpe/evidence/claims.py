"""The ledger: every claim of the paper and of the three teaching documents, with a computed verdict.

claims.yaml holds each claim, the finding that would refute it and its rule, but no verdict. Rules are written
before the results that they use; the page of errata names the exceptions. A claim whose runs leave it open is
"undecided"; a claim without a rule or without its runs is "not tested", with what is missing; a claim that no
computation could decide gets "no test possible", with the reason. Here: applying the rules, to the checks of
`rollpe.equations` for mathematical claims and to records for empirical ones. Not here: running checks,
training.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy import stats

from rollpe.equations import CheckResult
from rollpe.errors import InputError
from rollpe.evidence.table import PAPER_TABLE_1, Printed, arms_of
from rollpe.records.record import Record
from rollpe.statistics import Equivalence, Summary, Welch, equivalence, seeds_needed, summarize, welch
from rollpe.training.observation import neighbor_correlation

__all__ = [
    "CLAIMS",
    "INSTEAD",
    "VERDICTS",
    "Claim",
    "Verdict",
    "by_document",
    "can_be_tested",
    "counts",
    "decided_by_training",
    "details",
    "ledger",
    "load_claims",
    "places",
    "sources",
    "summary",
    "tally",
    "to_markdown",
]

CLAIMS = Path(__file__).with_suffix(".yaml")
VERDICTS = ("reproduced", "corrected", "refuted", "undecided", "not tested", "no test possible")
Decision = Literal["reproduced", "corrected", "refuted", "undecided", "not tested", "no test possible"]
Arrays = Callable[["Record"], Mapping[str, "np.ndarray"]]
EVIDENCE = ("formulas", "counts", "on the printed table", "by training")
PRINTED = "printed"
"""The "recipe" of the paper's own runs: Table 1 as printed."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# Evidence from equations


class Checks(_Strict):
    """Which equations decide a claim.

    holds: checks that pass if the claim is right as stated → reproduced.
    fails: checks that pass if it is wrong as stated → refuted; or, where the checks in corrected_by,
    which establish what holds instead, pass too → corrected.
    A named check that was not run, or that does not pass, leaves the claim not tested.
    """

    holds: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    corrected_by: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_direction(self) -> Checks:
        if bool(self.holds) == bool(self.fails) or (self.corrected_by and not self.fails):
            raise ValueError("name checks under holds, or under fails and perhaps corrected_by")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        return self.holds + self.fails + self.corrected_by

    def rule(self) -> str:
        if self.holds:
            return f"{_listed(self.holds)} must pass within tolerance"
        text = f"wrong as stated if {_listed(self.fails)} passes within tolerance"
        if self.corrected_by:
            text += f"; corrected if {_listed(self.corrected_by)} passes as well"
        return text

    def decide(self, results: dict[str, CheckResult]) -> tuple[Decision, str, bool]:
        """The decision, its grounds, and whether a check failed that should pass."""
        failed = [label for label in self.labels if label in results and not results[label].passed]
        if failed:
            return "not tested", f"FAILED: {'; '.join(_error(results[label]) for label in failed)}", True
        missing = [label for label in self.labels if label not in results]
        if missing:
            return "not tested", f"{_listed(missing)} was not run", False
        decision: Decision = "reproduced" if self.holds else "corrected" if self.corrected_by else "refuted"
        return decision, "; ".join(_error(results[label]) for label in dict.fromkeys(self.labels)), False


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(labels)


def _error(result: CheckResult) -> str:
    return f"{result.label} (error {result.error:.1e}, tolerance {result.tolerance:.0e})"


# Evidence from records


class _Missing(Exception):
    """A rule lacks runs; the message names them."""


def _arms_of(records: Sequence[Record], recipe: str) -> dict[str, dict[int, Record]]:
    """`arms_of`, where runs that are not comparable are missing ones."""
    try:
        return arms_of(records, recipe)
    except InputError as error:
        raise _Missing(str(error)) from None


class _Runs(_Strict):
    """The runs of a rule and their measure.

    recipe: a recipe by name, or "printed" for Table 1 as printed.
    measure: "accuracy" in percent; "kept", the share in percent of the accuracy above guessing, `chance`,
    that remains at `resolution` pixels; "speed", 100·ln(images per second), whose differences are percent, on
    one device; "bits" per character of the test text in windows of `length` characters, by default the length
    of training, where fewer are better; "gap", the test loss minus the loss on plain training images in nats,
    which measures overfitting. (A loss in points would favor weak models, which have little to lose.)
    seeds: the smallest number of seeds in each arm. p: the level of the tests.
    example: one case of a claim that something is possible: it can reproduce the claim, never refute it.
    """

    recipe: str
    a: str
    b: str
    example: bool = False
    measure: Literal["accuracy", "kept", "speed", "bits", "gap"] = "accuracy"
    resolution: int | None = None
    length: int | None = None
    chance: float | None = Field(None, ge=0, lt=100)
    seeds: int = Field(3, ge=2)
    p: float = Field(0.05, gt=0, lt=0.5)

    @model_validator(mode="after")
    def _kept_at_a_resolution(self) -> _Runs:
        kept = self.measure == "kept"
        if not kept == (self.resolution is not None) == (self.chance is not None):
            raise ValueError("measure: kept needs a resolution and chance, and only it does")
        if self.length is not None and self.measure != "bits":
            raise ValueError("only measure: bits has a length")
        own = {"negligible"} & type(self).model_fields.keys() - self.model_fields_set
        if own and self._unit in ("bits", "nats"):
            raise ValueError(f"measure: {self.measure} needs negligible, since the default is in points")
        return self

    def _what(self) -> str:
        what = {
            "accuracy": "test accuracy",
            "kept": f"what is left at {self.resolution} px of the accuracy above {self.chance} %",
            "speed": "training speed on one device",
            "bits": f"bits per character in windows of {self.length or 'the trained'} "
            f"{'characters' if self.length else 'length'}",
            "gap": "overfitting (test loss minus loss on plain training images)",
        }[self.measure]
        place = "in Table 1 as printed" if self.recipe == PRINTED else f"under recipe {self.recipe}"
        return f"{what} of {self.a} against {self.b} {place}, at least {self.seeds} seeds each"

    @property
    def _unit(self) -> str:
        return {"accuracy": "points", "bits": "bits", "gap": "nats"}.get(self.measure, "percent")

    @property
    def _lead(self) -> str:
        """What a is ahead by."""
        return "b − a" if self.measure == "bits" else "a − b"

    def _interval(self, test: Welch | Equivalence) -> str:
        digits = 3 if self._unit in ("bits", "nats") else 2
        low, high = (f"{x:+.{digits}f}" for x in (test.low, test.high))
        return f"{test.difference:+.{digits}f} {self._unit} [{low}, {high}]"

    def _arms(self, records: Sequence[Record]) -> tuple[list[float] | Printed, list[float] | Printed]:
        if self.recipe == PRINTED:
            return PAPER_TABLE_1[self.a], PAPER_TABLE_1[self.b]
        arms = _arms_of(records, self.recipe)
        a, b = (list(arms.get(slug, {}).values()) for slug in (self.a, self.b))
        if self.measure == "speed" and len({r.environment.device_name for r in a + b}) > 1:
            raise _Missing("the runs were timed on different devices")
        values = [[v for r in runs if (v := self._read(r)) is not None] for runs in (a, b)]
        lacking = [
            f"{slug} has {len(v)} of {self.seeds} seeds"
            for slug, v in zip((self.a, self.b), values, strict=True)
            if len(v) < self.seeds
        ]
        if lacking:
            raise _Missing(f"recipe {self.recipe}: {', '.join(lacking)}")
        return values[0], values[1]

    def _read(self, record: Record) -> float | None:
        """The measure of a run, such that a lead is a − b."""
        if self.measure == "speed":
            return 100 * math.log(record.throughput)
        if self.measure == "bits":
            length = str(self.length or min(map(int, record.bits), default=""))
            return -record.bits[length] if length in record.bits else None
        if self.measure == "gap":
            plain = record.plain_train_loss
            return None if plain is None else record.test.loss - plain
        accuracy = 100 * record.test.accuracy
        if self.measure == "accuracy":
            return accuracy
        at, chance = record.resolutions.get(str(self.resolution)), self.chance or 0.0
        return None if at is None or accuracy <= chance else 100 * (100 * at - chance) / (accuracy - chance)

    def _against(self, criterion: str) -> str:
        """The consequence if the criterion against the claim is met, in words."""
        return f"one example, so left open if {criterion}" if self.example else f"refuted if {criterion}"

    @property
    def _fell(self) -> Decision:
        return "undecided" if self.example else "refuted"

    def _left_open(self, grounds: str, a: Any, b: Any, difference: float) -> str:
        spread = max(x.sd if isinstance(x, Printed) else summarize(x).sd or 0.0 for x in (a, b))
        seeds = seeds_needed(spread, difference) if spread > 0 else self.seeds
        return f"{grounds}; {difference:g} {self._unit} need about {seeds} seeds each"


class Better(_Runs):
    """a is better than b. Refuted if it is worse, or if its lead is shown to be below `negligible`.

    The same under the name "more" for a measure of which more is not better: the gap.
    """

    rule: Literal["better", "more"]
    negligible: float = Field(0.5, gt=0)

    @model_validator(mode="after")
    def _more_of_a_gap(self) -> Better:
        if (self.rule == "more") != (self.measure == "gap"):
            raise ValueError("rule: more goes with measure: gap, and only with it")
        return self

    def text(self) -> str:
        return (
            f"{self._what()}: reproduced if {self._lead} > 0 with Welch p < {self.p}, however small; else "
            + self._against(
                f"{self._lead} < 0 with p < {self.p}, or one-sided tests at {self.p} show {self._lead} < "
                f"{self.negligible} {self._unit}"
            )
        )

    def decide(self, records: Sequence[Record]) -> tuple[Decision, str]:
        a, b = self._arms(records)
        if not isinstance(a, Printed) and not isinstance(b, Printed) and len({*a, *b}) == 1:
            return (
                "undecided",
                f"no difference in any run, {a[0]:g} {self._unit}, n = {_count(a)} + {_count(b)}",
            )
        test = welch(a, b)
        grounds = f"{self._interval(test)}, Welch p = {test.p:.2g}, n = {_count(a)} + {_count(b)}"
        if test.p < self.p:
            return ("reproduced" if test.difference > 0 else self._fell), grounds
        if equivalence(a, b, margin=self.negligible, alpha=self.p).high < self.negligible:
            return self._fell, f"{grounds}; less than {self.negligible} {self._unit} ahead"
        return "undecided", self._left_open(grounds, a, b, self.negligible)


class Differ(_Runs):
    """a and b differ, in either direction. Refuted if they are shown to differ by less than `negligible`."""

    rule: Literal["differ"]
    negligible: float = Field(0.5, gt=0)

    def text(self) -> str:
        return (
            f"{self._what()}: reproduced if they differ with Welch p < {self.p}, in either direction and "
            "however little; else "
            + self._against(
                f"two one-sided tests at {self.p} put the difference inside ±{self.negligible} {self._unit}"
            )
        )

    def decide(self, records: Sequence[Record]) -> tuple[Decision, str]:
        a, b = self._arms(records)
        test = welch(a, b)
        grounds = f"{self._interval(test)}, Welch p = {test.p:.2g}, n = {_count(a)} + {_count(b)}"
        if test.p < self.p:
            return "reproduced", grounds
        if equivalence(a, b, margin=self.negligible, alpha=self.p).equivalent:
            return self._fell, f"{grounds}; less than {self.negligible} {self._unit} apart"
        return "undecided", self._left_open(grounds, a, b, self.negligible)


class Equivalent(_Runs):
    """a and b differ by less than a margin that was set beforehand."""

    rule: Literal["equivalent"]
    margin: float = Field(gt=0)

    def text(self) -> str:
        return (
            f"{self._what()}: reproduced if two one-sided tests at {self.p} put the difference inside "
            f"±{self.margin} {self._unit}; refuted if its {1 - 2 * self.p:.0%} interval lies outside"
        )

    def decide(self, records: Sequence[Record]) -> tuple[Decision, str]:
        a, b = self._arms(records)
        test = equivalence(a, b, margin=self.margin, alpha=self.p)
        grounds = (
            f"{self._interval(test)} against a margin of {self.margin}, TOST p = {test.p:.2g}, "
            f"n = {_count(a)} + {_count(b)}"
        )
        if test.equivalent:
            return "reproduced", grounds
        if test.low > self.margin or test.high < -self.margin:
            return "refuted", grounds
        return "undecided", self._left_open(grounds, a, b, self.margin)


class NotWorse(_Runs):
    """a falls behind b by less than a margin that was set beforehand."""

    rule: Literal["not-worse"]
    margin: float = Field(gt=0)

    def text(self) -> str:
        return (
            f"{self._what()}: reproduced if a one-sided test at {self.p} shows {self._lead} > −{self.margin} "
            f"{self._unit}; {self._against(f'one shows {self._lead} < −{self.margin}')}"
        )

    def decide(self, records: Sequence[Record]) -> tuple[Decision, str]:
        a, b = self._arms(records)
        test = equivalence(a, b, margin=self.margin, alpha=self.p)
        grounds = f"{self._interval(test)} against a margin of {self.margin}, n = {_count(a)} + {_count(b)}"
        if test.low > -self.margin:
            return "reproduced", grounds
        if test.high < -self.margin:
            return self._fell, grounds
        return "undecided", self._left_open(grounds, a, b, self.margin)


class NearPrinted(_Strict):
    """Our runs reach the accuracy that Table 1 prints for an encoding, within a margin.

    Other runs are no refutation: the paper states no recipe, so ours may differ.
    """

    rule: Literal["near-printed"]
    recipe: str
    encoding: str
    margin: float = Field(gt=0)
    seeds: int = Field(3, ge=2)
    p: float = Field(0.05, gt=0, lt=0.5)

    def text(self) -> str:
        return (
            f"test accuracy of {self.encoding} under recipe {self.recipe}, at least {self.seeds} seeds, "
            f"against the printed mean ± SD: reproduced if two one-sided tests at {self.p} put the "
            f"difference inside ±{self.margin} points; else left open, since the paper states no recipe"
        )

    def decide(self, records: Sequence[Record]) -> tuple[Decision, str]:
        runs = _arms_of(records, self.recipe).get(self.encoding, {})
        if len(runs) < self.seeds:
            raise _Missing(f"recipe {self.recipe}: {self.encoding} has {len(runs)} of {self.seeds} seeds")
        ours = summarize([100 * r.test.accuracy for r in runs.values()])
        printed = PAPER_TABLE_1[self.encoding]
        test = equivalence(ours, printed, margin=self.margin, alpha=self.p)
        grounds = (
            f"{ours.mean:.2f} % here, {printed.mean} % printed: {test.difference:+.2f} points "
            f"[{test.low:+.2f}, {test.high:+.2f}] against a margin of {self.margin}, n = {ours.n}"
        )
        if test.equivalent:
            return "reproduced", grounds
        outside = test.low > self.margin or test.high < -self.margin
        return "undecided", f"{grounds}; not repeated with this recipe" if outside else grounds


class Parameters(_Strict):
    """a has as many trained numbers as b ("equal"), or more ("more"). One run of each is enough."""

    rule: Literal["parameters"]
    recipe: str
    a: str
    b: str
    relation: Literal["equal", "more"]

    def text(self) -> str:
        relation = {"equal": "as many trained numbers as", "more": "more trained numbers than"}[self.relation]
        return (
            f"records of recipe {self.recipe}: reproduced if {self.a} has {relation} {self.b}, else refuted"
        )

    def decide(self, records: Sequence[Record]) -> tuple[Decision, str]:
        arms = _arms_of(records, self.recipe)
        lacking = [slug for slug in (self.a, self.b) if slug not in arms]
        if lacking:
            raise _Missing(f"recipe {self.recipe}: no run of {_listed(lacking)}")
        a, b = (next(iter(arms[slug].values())).parameters for slug in (self.a, self.b))
        right = a == b if self.relation == "equal" else a > b
        return ("reproduced" if right else "refuted"), f"{self.a} {a:,} parameters, {self.b} {b:,}"


class _OfArrays(_Strict):
    """A rule on one number a run, read from the arrays beside its record.

    seeds: the smallest number of seeds in each arm. p: the level of the one-sided tests.
    """

    recipe: str
    seeds: int = Field(3, ge=2)
    p: float = Field(0.05, gt=0, lt=0.5)
    needed: ClassVar[frozenset[str]]

    @abstractmethod
    def _read(self, beside: Mapping[str, NDArray[Any]]) -> float:
        """The number of a run."""

    def _numbers(self, records: Sequence[Record], arrays: Arrays, encoding: str) -> list[float]:
        runs = _arms_of(records, self.recipe).get(encoding, {})
        numbers = [
            self._read(of_run) for run in runs.values() if self.needed <= (of_run := arrays(run)).keys()
        ]
        if len(numbers) < self.seeds:
            raise _Missing(f"recipe {self.recipe}: {encoding} has {len(numbers)} of {self.seeds} seeds")
        return numbers

    def _beside_bound(self, bound: float, numbers: Sequence[float]) -> tuple[Summary, bool, bool]:
        """The mean, and whether one-sided t-tests show it below a bound, and above."""
        mean = summarize(numbers, 1 - 2 * self.p)
        assert mean.low is not None and mean.high is not None  # there are two seeds or more
        return mean, mean.high < bound, mean.low > bound


class Ordered(_OfArrays):
    """Trained channels of queries and keys correlate with their neighbors on the ring.

    least: the smallest lead of neighbors over any two channels, a difference of correlations.
    """

    rule: Literal["ordered"]
    encoding: str
    least: float = Field(0.1, gt=0, lt=1)
    needed: ClassVar[frozenset[str]] = frozenset({"query_correlation", "key_correlation"})

    def text(self) -> str:
        return (
            f"correlation of neighbors around the ring in trained queries and keys of {self.encoding} under "
            f"recipe {self.recipe}, minus that of any two channels, at least {self.seeds} seeds: reproduced "
            f"if a one-sided t-test at {self.p} shows a mean above {self.least:g}; refuted if one shows a "
            "mean below"
        )

    def _read(self, beside: Mapping[str, NDArray[Any]]) -> float:
        near, any_two = neighbor_correlation(beside)
        return near - any_two

    def decide(self, records: Sequence[Record], arrays: Arrays) -> tuple[Decision, str]:
        lead, below, above = self._beside_bound(self.least, self._numbers(records, arrays, self.encoding))
        grounds = f"neighbors lead by {lead.mean:.2f} [{lead.low:.2f}, {lead.high:.2f}], n = {lead.n}"
        return "reproduced" if above else "refuted" if below else "undecided", grounds


class Decays(_OfArrays):
    """The trained bias on the scores falls as a token lies further back.

    One number a run: Spearman's correlation of the distance |Δ| with the bias at Δ, a mean over layers and
    heads, for Δ = −1 … −`reach`. most: its largest mean at which the bias counts as falling.
    """

    rule: Literal["decays"]
    encoding: str
    reach: int = Field(ge=3)
    most: float = Field(-0.9, gt=-1, lt=0)
    needed: ClassVar[frozenset[str]] = frozenset({"bias", "offsets"})

    def text(self) -> str:
        return (
            f"Spearman's correlation of distance and trained bias on the score, over {self.reach} tokens "
            f"back, of {self.encoding} under recipe {self.recipe}, at least {self.seeds} seeds: reproduced "
            f"if a one-sided t-test at {self.p} shows a mean below −{-self.most:g}; refuted if one shows a "
            "mean above"
        )

    def _read(self, beside: Mapping[str, NDArray[Any]]) -> float:
        bias = dict(zip(beside["offsets"][:, 0], beside["bias"].mean((0, 1)), strict=True))
        distances = range(1, self.reach + 1)
        return float(stats.spearmanr(distances, [bias[-distance] for distance in distances]).statistic)

    def decide(self, records: Sequence[Record], arrays: Arrays) -> tuple[Decision, str]:
        rank, below, above = self._beside_bound(self.most, self._numbers(records, arrays, self.encoding))
        grounds = (
            f"rank correlation {rank.mean:.2f} [{rank.low:.2f}, {rank.high:.2f}] against −{-self.most:g}, "
            f"n = {rank.n}"
        )
        return "reproduced" if below else "refuted" if above else "undecided", grounds


class Later(_OfArrays):
    """Attention leans towards later patches, in raster order, more with a than with b.

    One number a run: the share of attention on patches after the query's minus the share on those before,
    each offset weighted by its pairs on the grid, a mean over layers and heads. least: the smallest lead.
    """

    rule: Literal["later"]
    a: str
    b: str
    least: float = Field(0.02, gt=0, lt=1)
    needed: ClassVar[frozenset[str]] = frozenset({"attention", "offsets"})

    def text(self) -> str:
        return (
            "share of attention on patches later in raster order, minus the share on earlier ones, of "
            f"{self.a} against {self.b} under recipe {self.recipe}, at least {self.seeds} seeds each: "
            "reproduced if a one-sided Welch test "
            f"at {self.p} shows a − b > {self.least:g}; refuted if one shows "
            f"a − b < {self.least:g}"
        )

    def _read(self, beside: Mapping[str, NDArray[Any]]) -> float:
        rows, columns = beside["offsets"].T  # key − query
        pairs = (rows.max() + 1 - abs(rows)) * (columns.max() + 1 - abs(columns))
        weights = beside["attention"] * pairs  # [layers, heads, offsets]
        side = np.where(rows == 0, np.sign(columns), np.sign(rows))  # 1: later in raster order
        return float(((weights * side).sum(-1) / weights.sum(-1)).mean())

    def decide(self, records: Sequence[Record], arrays: Arrays) -> tuple[Decision, str]:
        a, b = (self._numbers(records, arrays, encoding) for encoding in (self.a, self.b))
        test = equivalence(a, b, margin=self.least, alpha=self.p)
        grounds = (
            f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}] against {self.least:g}, "
            f"n = {len(a)} + {len(b)}"
        )
        if test.low > self.least:
            return "reproduced", grounds
        return "refuted" if test.high < self.least else "undecided", grounds


Rule = Annotated[
    Better | Differ | Equivalent | NotWorse | NearPrinted | Parameters | Ordered | Decays | Later,
    Field(discriminator="rule"),
]


def _count(arm: Sequence[float] | Printed) -> int:
    return arm.n if isinstance(arm, Printed) else len(arm)


# The ledger


class Claim(_Strict):
    """One claim, in our words, with its place and the rule that decides it.

    refuted_by: the finding that would refute it. Exactly one of: checks (labels of `rollpe.equations`),
    records (a rule on runs), needs (why it is not tested, and what would decide it), untestable (why no
    computation could decide it, here or elsewhere; for interpretive claims).
    quote: the sentence itself, verbatim, of every claim that checks contradict. instead: the correct
    statement, shown if the verdict is corrected or refuted. also: other places of the same claim.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    source: str
    place: str = Field(min_length=1)
    also: tuple[str, ...] = ()
    kind: Literal["mathematical", "empirical", "interpretive"]
    claim: str = Field(min_length=10)
    quote: str | None = None
    refuted_by: str = Field(min_length=10)
    checks: Checks | None = None
    records: Rule | None = None
    needs: str | None = Field(None, min_length=10)
    untestable: str | None = Field(None, min_length=10)
    instead: str | None = None

    @model_validator(mode="after")
    def _one_kind_of_evidence(self) -> Claim:
        if sum(x is not None for x in (self.checks, self.records, self.needs, self.untestable)) != 1:
            raise ValueError(f"{self.id}: give exactly one of checks, records, needs, untestable")
        if self.untestable and self.kind != "interpretive":
            raise ValueError(f"{self.id}: only an interpretive claim is untestable")
        if self.checks and self.checks.corrected_by and not self.instead:
            raise ValueError(f"{self.id}: corrected_by needs instead, the statement that holds")
        if bool(self.checks and self.checks.fails) != bool(self.quote):
            raise ValueError(f"{self.id}: quote the sentence that checks contradict, and no other")
        return self

    @property
    def evidence(self) -> str:
        """The kind of evidence that decides it, one of EVIDENCE; "" for a claim without a rule."""
        rule = self.records
        if rule is None:
            return "formulas" if self.checks else ""
        if isinstance(rule, Parameters):
            return "counts"
        return "on the printed table" if rule.recipe == PRINTED else "by training"

    @property
    def takes_training(self) -> bool:
        """Whether trained models decide it, not a formula, a count or the printed table."""
        return self.evidence == "by training"

    def rule(self) -> str:
        """The decision rule in words; for a claim without one, that no rule is set."""
        if self.checks:
            return self.checks.rule()
        return self.records.text() if self.records else "none: it is not decided by a computation here"


@dataclass(frozen=True)
class Verdict:
    """A claim with its verdict. broken: a check failed that should pass."""

    claim: Claim
    verdict: Decision
    grounds: str
    broken: bool = False


@cache
def _contents(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def sources(path: Path = CLAIMS) -> dict[str, str]:
    """The four documents: id → title."""
    return dict(_contents(path)["sources"])


@cache
def load_claims(path: Path = CLAIMS) -> tuple[Claim, ...]:
    """Every claim of the ledger, in the order of the documents. A malformed ledger raises ValueError."""
    claims = tuple(Claim.model_validate(entry) for entry in _contents(path)["claims"])
    twice = [name for name, number in Counter(claim.id for claim in claims).items() if number > 1]
    foreign = {claim.source for claim in claims} - sources(path).keys()
    if twice or foreign:
        raise ValueError(f"{path}: ids used twice: {twice}; unknown sources: {sorted(foreign)}")
    return claims


def ledger(
    check_results: Iterable[CheckResult],
    records: Sequence[Record],
    claims: Sequence[Claim] | None = None,
    arrays: Arrays = lambda record: {},
) -> list[Verdict]:
    """The verdict on every claim, computed from the results of the checks and from records of runs.

    arrays: the arrays beside a record (`rollpe.records.find_arrays`); without it rules on arrays lack runs.
    """
    results = {result.label: result for result in check_results}
    verdicts = []
    for claim in load_claims() if claims is None else claims:
        if claim.checks:
            verdicts.append(Verdict(claim, *claim.checks.decide(results)))
        elif rule := claim.records:
            try:
                found = rule.decide(records, arrays) if isinstance(rule, _OfArrays) else rule.decide(records)
                verdicts.append(Verdict(claim, *found))
            except (_Missing, InputError) as reason:
                verdicts.append(Verdict(claim, "not tested", str(reason)))
        elif claim.untestable:
            verdicts.append(Verdict(claim, "no test possible", claim.untestable))
        else:
            verdicts.append(Verdict(claim, "not tested", claim.needs or ""))
    return verdicts


def can_be_tested(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts that counts are about: all but "no test possible"."""
    return [v for v in verdicts if v.verdict != "no test possible"]


def counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many claims got each verdict, in the order of VERDICTS."""
    numbers: Counter[str] = Counter(v.verdict for v in verdicts)
    return {verdict: numbers[verdict] for verdict in VERDICTS}


def tally(verdicts: Sequence[Verdict]) -> list[str]:
    """The verdicts that occur, counted: "29 reproduced (26 formulas, 3 by training)", "18 corrected".

    Reproduced claims are split by evidence, so that proofs and counts are not taken for experiments.
    """
    parts = {verdict: f"{number} {verdict}" for verdict, number in counts(verdicts).items() if number}
    evidence = Counter(v.claim.evidence for v in verdicts if v.verdict == "reproduced")
    if evidence:
        parts["reproduced"] += f" ({', '.join(f'{evidence[e]} {e}' for e in EVIDENCE if evidence[e])})"
    return list(parts.values())


def decided_by_training(verdicts: Iterable[Verdict]) -> str:
    """A sentence on how many of the claims that only training decides have been tested."""
    of_training = [v for v in verdicts if v.claim.takes_training or v.claim.needs]
    tested = sum(v.verdict != "not tested" for v in of_training)
    has = "have" if tested > 1 else "has"
    return f"{tested or 'None'} of the {len(of_training)} that training decides {has} been tested."


def summary(verdicts: Sequence[Verdict]) -> str:
    """Markdown: how many claims of each kind got each verdict, and what the verdicts mean."""
    possible = can_be_tested(verdicts)
    lines = [f"| kind | {' | '.join(VERDICTS)} |", f"| :-- |{' --: |' * len(VERDICTS)}"]
    for kind in ("mathematical", "empirical", "interpretive"):
        row = counts(v for v in verdicts if v.claim.kind == kind)
        lines.append(f"| {kind} | {' | '.join(str(row[verdict]) for verdict in VERDICTS)} |")
    tested = sum(
        v.claim.records is not None and not isinstance(v.claim.records, Parameters) for v in verdicts
    )
    lines += [
        "",
        "- **Reproduced**: every check or test that the claim rests on passes.",
        "- **Corrected**: wrong as written, and what holds instead is checked as well.",
        "- **Refuted**: wrong as written, as a checked counterexample or a test shows.",
        "- **Undecided**: tested, and the result leaves it open.",
        "- **Not tested**: its runs are missing, or models that are not trained here.",
        "- **No test possible**: no computation could decide it, here or elsewhere. Its entry says why.",
        "",
        f"{len(possible)} of the {len(verdicts)} claims are testable. The counts below leave the others out.",
        "",
        f"{tested} claims have a statistical test on runs or printed results as their rule. Each test counts "
        "by itself: no correction is made for their number.",
    ]
    if broken := [v.claim.id for v in verdicts if v.broken]:
        lines += ["", f"**Checks failed** that these claims rest on: {', '.join(broken)}."]
    return "\n".join(lines)


def by_document(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """The claims of each document, those that are wrong as written first."""
    order = ("refuted", "corrected", "reproduced", "undecided", "not tested", "no test possible")
    ranked = sorted(verdicts, key=lambda v: order.index(v.verdict))
    return {source: [v for v in ranked if v.claim.source == source] for source in sources()}


def places(claim: Claim) -> str:
    """Where the documents make a claim."""
    return "; ".join((claim.place, *claim.also))


INSTEAD = "Holds instead"


def details(v: Verdict) -> dict[str, str]:
    """What explains a verdict: sentences by name, INSTEAD first where the claim is wrong."""
    c, fell = v.claim, v.verdict in ("corrected", "refuted")
    without_result = {"not tested": "Missing", "no test possible": "Reason"}
    grounds = "Checks" if c.checks else without_result.get(v.verdict, "Result")
    texts = {
        INSTEAD: (c.instead or "") if fell else "",
        "Kind": c.kind,
        grounds: v.grounds if c.checks else re.sub(r"(?<![^ [])-(?=[0-9])", "−", v.grounds),
        "Refuted by" if fell else "Would be refuted by": c.refuted_by,
        "Rule": c.rule() if c.records else "",
    }
    return {name: _sentence(text) for name, text in texts.items() if text}


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """The ledger as Markdown: the summary, then every claim under its document with its details."""
    lines = [summary(verdicts)]
    for source, claims in by_document(verdicts).items():
        lines += ["", f"## {sources()[source]}", "", f"Cited as *{source}*.", ""]
        for v in claims:
            lines.append(f"- **{v.verdict.capitalize()}.** {_sentence(v.claim.claim)} *({places(v.claim)})*")
            lines += [f"  - {name}: {text}" for name, text in details(v).items()]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?", ".)")) else f"{text}."
