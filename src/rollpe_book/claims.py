"""The ledger: disputable claims of the paper and of the three teaching documents, with computed verdicts.

claims.yaml holds each claim, the finding that would refute it and its rule, but no verdict. The checks of
displayed equations (`rollpe_book.checks`) decide mathematical claims, rules on runs (`rollpe_book.rules`)
empirical ones. Rules are written before the results that they use; the page of errata names the exceptions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field

from rollpe.errors import InputError
from rollpe_book.checks import Check
from rollpe_book.rules import RULES, Decision
from rollpe_lab.evidence import inside, words
from rollpe_lab.evidence.table import PAPER_TABLE_1, arms_of
from rollpe_lab.evidence.words import Measure
from rollpe_lab.files import markdown, read_yaml_file
from rollpe_lab.records.record import Record
from rollpe_lab.statistics import summarize

VERDICTS: tuple[Decision, ...] = get_args(Decision)
EVIDENCE = ("formulas", "on the paper's table", "by training")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@cache
def _contents() -> dict[str, Any]:
    return read_yaml_file(Path(__file__).with_suffix(".yaml"))


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


def _map(run: Record) -> float | None:
    """One bump of varying strength correlates neighbors as well, in one direction; a map has two."""
    found, lead = inside.directions(run), inside.lead_beyond_first(run)
    return lead if found is None or lead is None or found > 2 else min(lead, 0.1)


def _overfitting(run: Record) -> float | None:
    return None if run.plain_train_loss is None else run.test.loss - run.plain_train_loss


def _speed(run: Record) -> float:
    return 100 * math.log(run.throughput)  # a difference is one in percent


ALIKE = "correlation of neighbors on the ring, in trained queries and keys, minus that of any two channels"
QUANTITIES: dict[str, tuple[Measure, str, str]] = {
    "accuracy": (words.score, "test accuracy", "points"),
    # the gain from longer to shorter windows, so that more is better
    "extrapolation": (words.lost(512, 64), "bits per character at 64 characters minus those at 512", "bits"),
    "overfitting": (_overfitting, "test loss minus loss on plain training images", "nats"),
    "speed": (_speed, "training speed on one device", "percent"),
    "neighbors": (inside.lead_of_neighbors, ALIKE, ""),
    "map": (_map, f"{ALIKE}, without the first component; at most 0.1 with fewer than two directions", ""),
    "falling": (inside.falls(16), "rank correlation of nearness and trained bias, over 16 tokens back", ""),
    "later": (inside.later, "share of attention on later patches in raster order, minus that on earlier", ""),
}
"""What a rule may be about: a measure of a run, its words, its unit."""


class Judged(_Strict):
    """How records decide a claim.

    rule: a name in `rollpe_book.rules.RULES`. of: the recipe, or printed for Table 1, and one arm or two;
    for ``near_printed`` the second is Table 1's. of_what: a name in QUANTITIES. margin: what counts as a
    difference. seeds: the smallest number of seeds in each arm. example: one case of a claim that something
    is possible: it can reproduce the claim, never refute it.
    """

    rule: str
    of: tuple[str, ...]
    of_what: str = "accuracy"
    margin: float
    seeds: int = 3
    example: bool = False

    @property
    def recipe(self) -> str:
        return self.of[0]

    @property
    def arms(self) -> tuple[str, ...]:
        """Whose runs are needed."""
        return self.of[1:2] if self.rule == "near_printed" else self.of[1:]

    def words(self) -> str:
        """The rule in words."""
        _, what, unit = QUANTITIES[self.of_what]
        place = "in Table 1 as printed" if self.recipe == "printed" else f"under recipe {self.recipe}"
        arms = " and ".join(self.of[1:]) + (" as printed" if self.rule == "near_printed" else "")
        text = f"{self.rule}, margin {self.margin} {unit}".replace("_", " ").strip()
        text += f": {what}, of {arms} {place}, at least {self.seeds} seeds each"
        return f"{text}; one example, so it is never refuted" if self.example else text

    def decide(self, records: Sequence[Record]) -> tuple[Decision, str]:
        """The verdict, and why. InputError if runs may not be compared."""
        read, _, unit = QUANTITIES[self.of_what]
        samples: dict[str, Any]
        if self.recipe == "printed":
            samples = {arm: PAPER_TABLE_1[arm] for arm in self.arms}
        else:
            runs = {unquote(slug): arm.values() for slug, arm in arms_of(records, self.recipe).items()}
            own = {arm: runs.get(arm, ()) for arm in self.arms}
            devices = {run.environment.device_name for arm in own.values() for run in arm}
            if self.of_what == "speed" and len(devices) > 1:
                raise InputError("the runs were timed on different devices")
            samples = {arm: [v for run in own[arm] if (v := read(run)) is not None] for arm in own}
        counts = {arm: summarize(values).n if values else 0 for arm, values in samples.items()}
        if short := [f"{arm} has {n} of {self.seeds} seeds" for arm, n in counts.items() if n < self.seeds]:
            return "not tested", f"recipe {self.recipe}: {', '.join(short)}"
        a, b = [*samples.values(), None][:2]
        b = PAPER_TABLE_1[self.of[2]] if self.rule == "near_printed" else b
        verdict, found = RULES[self.rule](a, b, self.margin, unit)
        return "undecided" if self.example and verdict == "refuted" else verdict, found


# The ledger


class Claim(_Strict):
    """One claim, in our words, with its place and the rule that decides it.

    refuted_by: the finding that would refute it. Exactly one of: checks (labels of displayed equations),
    records (a rule on runs), needs (why it is not tested, and what would decide it).
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

    @property
    def evidence(self) -> str:
        """The kind of evidence that decides it, one of EVIDENCE; "" for a claim without a rule."""
        if self.records is None:
            return "formulas" if self.checks else ""
        return "on the paper's table" if self.records.recipe == "printed" else "by training"


@dataclass(frozen=True)
class Verdict:
    """A claim with its verdict. broken: a check failed that should pass."""

    claim: Claim
    verdict: Decision
    grounds: str
    broken: bool = False


def sources() -> dict[str, str]:
    """The four documents: id → title."""
    return dict(_contents()["sources"])


@cache
def load_claims() -> tuple[Claim, ...]:
    """Every claim of the ledger, in the order of the documents."""
    return tuple(Claim.model_validate(entry) for entry in _contents()["claims"])


def ledger(
    checks: dict[str, Check],
    records: Sequence[Record],
    claims: Sequence[Claim] | None = None,
) -> list[Verdict]:
    """The verdict on every claim, computed from the checks of equations (`read_checks`) and from records."""
    return [_verdict(claim, checks, records) for claim in (load_claims() if claims is None else claims)]


def _verdict(claim: Claim, checks: dict[str, Check], records: Sequence[Record]) -> Verdict:
    if claim.checks:
        return Verdict(claim, *claim.checks.decide(checks))
    if claim.records is None:
        return Verdict(claim, "not tested", claim.needs or "")
    try:
        return Verdict(claim, *claim.records.decide(records))
    except InputError as reason:  # runs may not be compared
        return Verdict(claim, "not tested", str(reason))


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
    if len(evidence) > 1:
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
        "by itself: no correction is made for their number. The rules compare a, said to be ahead, with b:",
        "",
        *(f"- *{name.replace('_', ' ')}*: {_sentence(rule.__doc__ or '')}" for name, rule in RULES.items()),
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
