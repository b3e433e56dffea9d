"""The ledger: disputable claims of the paper and of the three teaching documents, with computed verdicts.

claims.yaml holds each claim, the finding that would refute it and its rule, but no verdict. The checks of
displayed equations (`rollpe_book.checks`) decide mathematical claims, conditions on records
(`rollpe_lab.evidence.conditions`) empirical ones. Rules are written before the results that they use; the
page of errata names the exceptions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from rollpe.errors import InputError
from rollpe_book.checks import Check
from rollpe_lab.evidence.conditions import Arrays, Evidence, Scope, judge, objection
from rollpe_lab.evidence.table import LARGE
from rollpe_lab.files import markdown
from rollpe_lab.records.record import Record
from rollpe_lab.statistics import seeds_needed

CLAIMS = Path(__file__).with_suffix(".yaml")
Decision = Literal["reproduced", "corrected", "refuted", "undecided", "not tested"]
VERDICTS: tuple[Decision, ...] = get_args(Decision)
EVIDENCE = ("formulas", "on the paper's table", "by training")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@cache
def _contents(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


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
    def labels(self) -> list[str]:
        return list(dict.fromkeys(self.holds + self.fails + self.corrected_by))

    def decide(self, results: dict[str, Check]) -> tuple[Decision, str, bool]:
        """The decision, its grounds, and whether a check failed that should pass."""
        found = [results[label] for label in self.labels if label in results]
        failed = [check for check in found if not check.passed]
        grounds = "; ".join(f"{check.label} ({check.found})" for check in failed or found)
        if failed:
            return "not tested", f"FAILED: {grounds}", True
        if missing := [label for label in self.labels if label not in results]:
            return "not tested", f"{', '.join(missing)} was not run: run make book", False
        return "reproduced" if self.holds else "corrected" if self.corrected_by else "refuted", grounds, False


class Rule(_Strict):
    """A rule of claims.yaml: the condition for each verdict, with what the page says of it.

    words: the rule as the page shows it. result: the finding. {names} in them stand for what a claim gives.
    All conditions joined by " & " must hold.
    """

    words: str
    result: str
    verdicts: tuple[tuple[Decision, str, str], ...]


@cache
def _rules() -> dict[str, Rule]:
    return {name: Rule.model_validate(rule) for name, rule in _contents(CLAIMS)["rules"].items()}


class Judged(_Strict):
    """How records decide a claim.

    rule: by its name in claims.yaml. of: the scope, and the arm or the difference of two that the rule is
    about. margin: what counts as a difference. seeds: the smallest number of seeds in each arm.
    example: one case of a claim that something is possible: it can reproduce the claim, never refute it.
    """

    rule: str
    of: str
    margin: float | None = None
    seeds: int = Field(3, ge=1)
    example: bool = False

    @model_validator(mode="after")
    def _conditions_can_be_read(self) -> Judged:
        if self.rule not in _rules():
            raise ValueError(f"{self.rule!r} is no rule: use one of {', '.join(_rules())}")
        for condition in (self._enough, *(c for _, conditions, _ in self._verdicts() for c in conditions)):
            objection(condition, Evidence([]))
        return self

    @property
    def scope(self) -> Scope:
        return Scope(self.of.partition(": ")[0])

    @property
    def arms(self) -> list[str]:
        """What is compared; first what a claim says is ahead."""
        arms = self.of.partition(": ")[2].split(" - ")
        return arms[::-1] if self.scope.measure.fewer else arms

    @property
    def _enough(self) -> str:
        return f"{self.scope.text}: {', '.join(self.arms)} have at least {self.seeds} runs"

    def _names(self) -> dict[str, Any]:
        """What the {names} of a rule stand for."""
        scope, recipe, (a, *b) = self.scope, f"recipe {self.scope.recipe}", self.arms
        place = "in Table 1 as printed" if scope.text == "printed" else f"under {recipe}"
        names = {"scope": scope.text, "a": a, "b": "".join(b), "recipe": recipe, "place": place}
        names |= {"measure": scope.words, "unit": scope.measure.unit, "of_recipe": scope.recipe}
        names["lead"] = "b − a" if scope.measure.fewer else "a − b"
        names["what"] = f"{scope.words} of {a} against {names['b']} {place}, at least {self.seeds} seeds each"
        return self.model_dump() | names

    def _verdicts(self) -> list[tuple[Decision, list[str], str]]:
        """Each verdict with the conditions that must all hold for it."""
        names, verdicts = self._names(), _rules()[self.rule].verdicts
        return [
            (verdict, condition.format(**names).split(" & ") if condition else [], text)
            for verdict, condition, text in verdicts
        ]

    def words(self) -> str:
        """The rule in words."""
        words = _rules()[self.rule].words.format(**self._names())
        return words.replace("refuted if", "one example, so left open if") if self.example else words

    def decide(self, evidence: Evidence) -> tuple[Decision, str]:
        """The first verdict whose condition holds, and why. InputError if runs are missing."""
        enough = judge(self._enough, evidence)
        if not enough.holds:
            return "not tested", enough.text
        found = self._names() | enough.numbers | {"n": " + ".join(map(str, enough.numbers["counts"]))}
        for verdict, conditions, text in self._verdicts():
            findings = [judge(condition, evidence) for condition in conditions]
            for finding in findings:
                found = finding.numbers | found
            if all(finding.holds for finding in findings):
                fell_alone = self.example and verdict == "refuted"
                return "undecided" if fell_alone else verdict, self._told(text, found)
        return "undecided", self._told("{result}", found)

    def _told(self, text: str, found: dict[str, Any]) -> str:
        if "{needed}" in text and self.margin:
            found["needed"] = seeds_needed(found["spread"], self.margin)
        return text.replace("{result}", _rules()[self.rule].result).format(**found)


# The ledger


class Claim(_Strict):
    """One claim, in our words, with its place and the rule that decides it.

    refuted_by: the finding that would refute it. Exactly one of: checks (labels of displayed equations),
    records (conditions on runs), needs (why it is not tested, and what would decide it).
    quote: the sentence itself, verbatim, of every claim that checks contradict. instead: the correct
    statement, shown if the verdict is corrected or refuted. also: other places of the same claim.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    source: str
    place: str = Field(min_length=1)
    also: tuple[str, ...] = ()
    kind: Literal["mathematical", "empirical"]
    claim: str = Field(min_length=10)
    quote: str | None = None
    refuted_by: str = Field(min_length=10)
    checks: Checks | None = None
    records: Judged | None = None
    needs: str | None = Field(None, min_length=10)
    instead: str | None = None

    @model_validator(mode="after")
    def _one_kind_of_evidence(self) -> Claim:
        if sum(x is not None for x in (self.checks, self.records, self.needs)) != 1:
            raise ValueError(f"{self.id}: give exactly one of checks, records, needs")
        if self.checks and self.checks.corrected_by and not self.instead:
            raise ValueError(f"{self.id}: corrected_by needs instead, the statement that holds")
        if bool(self.checks and self.checks.fails) != bool(self.quote):
            raise ValueError(f"{self.id}: quote the sentence that checks contradict, and no other")
        return self

    @property
    def evidence(self) -> str:
        """The kind of evidence that decides it, one of EVIDENCE; "" for a claim without a rule."""
        if self.records is None:
            return "formulas" if self.checks else ""
        return "on the paper's table" if self.records.scope.text == "printed" else "by training"


@dataclass(frozen=True)
class Verdict:
    """A claim with its verdict. broken: a check failed that should pass.

    meanwhile: what other recipes show of a claim that waits for the paper's.
    """

    claim: Claim
    verdict: Decision
    grounds: str
    broken: bool = False
    meanwhile: str = ""


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
    checks: dict[str, Check],
    records: Sequence[Record],
    claims: Sequence[Claim] | None = None,
    arrays: Arrays = lambda record: {},
) -> list[Verdict]:
    """The verdict on every claim, computed from the checks of equations (`read_checks`) and from records.

    arrays: the arrays beside a record (`rollpe_lab.records.find_arrays`); without it rules on arrays lack
    runs.
    """
    evidence = Evidence(records, arrays=arrays)
    return [_verdict(claim, checks, evidence) for claim in (load_claims() if claims is None else claims)]


def _verdict(claim: Claim, checks: dict[str, Check], evidence: Evidence) -> Verdict:
    if claim.checks:
        return Verdict(claim, *claim.checks.decide(checks))
    if claim.records is None:
        return Verdict(claim, "not tested", claim.needs or "")
    try:
        verdict, grounds = claim.records.decide(evidence)
    except InputError as reason:  # runs are missing, or may not be compared
        verdict, grounds = "not tested", str(reason)
    meanwhile = _meanwhile(claim.records, evidence) if verdict == "not tested" else ""
    return Verdict(claim, verdict, grounds, meanwhile=meanwhile)


OTHERS = {
    "short@learning_rate=0.0005": "50 epochs of the paper's model at the rate 0.0005",
    "short": "50 epochs of the paper's model at the rate 0.001",
    "mini": "10 epochs of a small one",
    "ladder@epochs=30": "30 epochs of it",
    "ladder@depth=10": "10 epochs with twice the blocks",
    "ladder@pool=token": "10 epochs with a class token",
    "ladder@depth=10,pool=token": "10 epochs with both",
}
"""Recipes on CIFAR-100 beside the one that claims are judged by."""


def _meanwhile(rule: Judged, evidence: Evidence) -> str:
    """The difference that a rule on the paper's model asks for, under other recipes; "" of another rule."""
    if rule.scope.recipe not in LARGE or rule.scope.name or len(rule.arms) < 2:
        return ""
    found = []
    for recipe, words in OTHERS.items():
        scope = Scope(recipe, evidence)
        runs = [len(scope.runs(arm)) for arm in rule.arms]
        if min(runs):
            difference = " - ".join(rule.arms)
            alone = f"{scope.mean(difference):+.2f} points" if min(runs) < 2 else ""
            result = alone or scope.test(difference)["interval"]
            found.append(f"{result} after {words} (n = {' + '.join(map(str, runs))})")
    return "; ".join(found) and f"{' − '.join(rule.arms)} under other recipes: {'; '.join(found)}"


def counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many claims got each verdict, in the order of VERDICTS."""
    numbers: Counter[str] = Counter(v.verdict for v in verdicts)
    return {verdict: numbers[verdict] for verdict in VERDICTS}


def tally(verdicts: Sequence[Verdict]) -> list[str]:
    """The verdicts that occur, counted: "29 reproduced (26 formulas, 3 by training)", "18 corrected".

    Reproduced claims are split by evidence, so that proofs are not taken for experiments.
    """
    parts = {verdict: f"{number} {verdict}" for verdict, number in counts(verdicts).items() if number}
    evidence = Counter(v.claim.evidence for v in verdicts if v.verdict == "reproduced")
    if evidence:
        parts["reproduced"] += f" ({', '.join(f'{evidence[e]} {e}' for e in EVIDENCE if evidence[e])})"
    return list(parts.values())


def summary(verdicts: Sequence[Verdict]) -> str:
    """Markdown: how many claims of each kind got each verdict, and what the verdicts mean."""
    kinds = ("mathematical", "empirical")
    rows = [[kind, *map(str, counts(v for v in verdicts if v.claim.kind == kind).values())] for kind in kinds]
    tested = sum(v.claim.evidence in ("on the paper's table", "by training") for v in verdicts)
    lines = [
        markdown([["kind", *VERDICTS], *rows]),
        "",
        "- **Reproduced**: every check or test that the claim rests on passes.",
        "- **Corrected**: not true as stated, and what holds instead is checked as well.",
        "- **Refuted**: not true, as a checked counterexample or a test shows.",
        "- **Undecided**: tested, and the result leaves it open.",
        "- **Not tested**: its runs are missing, or models that are not trained here.",
        "",
        f"{tested} claims have a statistical test on runs or printed results as their rule. Each test counts "
        "by itself: no correction is made for their number.",
    ]
    if broken := [v.claim.id for v in verdicts if v.broken]:
        lines += ["", f"**Checks failed** that these claims rest on: {', '.join(broken)}."]
    return "\n".join(lines)


def by_document(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """The claims of each document, those that are not true as stated first."""
    order = ("refuted", "corrected", "reproduced", "undecided", "not tested")
    ranked = sorted(verdicts, key=lambda v: order.index(v.verdict))
    return {source: [v for v in ranked if v.claim.source == source] for source in sources()}


def places(claim: Claim) -> str:
    """Where the documents make a claim."""
    return "; ".join((claim.place, *claim.also))


INSTEAD = "Holds instead"


def details(v: Verdict) -> dict[str, str]:
    """What explains a verdict: sentences by name, INSTEAD first where the claim is wrong."""
    c, fell = v.claim, v.verdict in ("corrected", "refuted")
    grounds = "Checks" if c.checks else "Missing" if v.verdict == "not tested" else "Result"
    texts = {
        INSTEAD: (c.instead or "") if fell else "",
        "Kind": c.kind,
        grounds: v.grounds,
        "Meanwhile": v.meanwhile,
        "Refuted by" if fell else "Would be refuted by": c.refuted_by,
        "Rule": c.records.words() if c.records else "",
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
    text = re.sub(r"(?<![^ [])-(?=[0-9])", "−", " ".join(text.split()))
    return text if text.endswith((".", "!", "?", ".)")) else f"{text}."
