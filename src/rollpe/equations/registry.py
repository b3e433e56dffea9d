"""How an equation of the book meets its check, how checks are run, and how their report is kept.

What belongs here: the decorator, the runner, the report. What does not: any equation (one module beside
this one for each page of the book) and the random cases they are tried on (`cases.py`).

A check is a function of a random generator that draws ONE case, computes both sides of the equation by
two independent routes in float64, and returns the largest difference. The runner calls it `cases` times
and keeps the largest.
"""

from __future__ import annotations

import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from rollpe.errors import InputError
from rollpe.sources import PACKAGE, hash_files, hash_json, module_files

PAGES = (
    "01-order",
    "02-sinusoids",
    "03-relative",
    "04-rotary",
    "05-rolling",
    "06-continuous",
    "07-rope",
    "08-multiplexed",
    "09-axes",
    "10-topography",
)
CASES = 12
SCHEMA = 1

EQUATIONS: dict[str, Equation] = {}


@dataclass(frozen=True)
class Equation:
    """One displayed equation: what it says, where, which functions compute it, and how it is checked.

    `tex` is what the page displays. `implements` holds dotted names such as "rollpe.operators.roll".
    Either `function` and `tolerance` are there, or a `reason` why nothing can be checked.
    """

    label: str
    page: str
    source: str
    title: str
    tex: str
    implements: tuple[str, ...] = ()
    tolerance: float | None = None
    cases: int = CASES
    reason: str | None = None
    function: Callable[[torch.Generator], float] | None = None

    def largest_error(self, seed: int = 0, cases: int | None = None) -> float:
        """The largest error over random cases; the same for the same seed, whatever else is run."""
        if self.function is None:
            raise InputError(f"{self.label} has no check: {self.reason}")
        rng = torch.Generator().manual_seed(zlib.crc32(f"{self.label} {seed}".encode()))
        largest = 0.0
        for _ in range(self.cases if cases is None else cases):
            error = float(self.function(rng))
            largest = math.inf if math.isnan(error) else max(largest, error)
        return largest


@dataclass(frozen=True)
class CheckResult:
    """What one check found. `error` is infinite where a statement that must fail holds."""

    label: str
    page: str
    implements: tuple[str, ...]
    source: str
    error: float
    tolerance: float
    passed: bool
    cases: int
    seconds: float


def dotted_name(function: Callable) -> str:
    """ "rollpe.operators.roll" for that function."""
    return f"{function.__module__}.{function.__qualname__}"


def check(
    label: str,
    *,
    page: str,
    source: str,
    title: str,
    tex: str,
    implements: Callable | tuple[Callable, ...],
    tolerance: float,
    cases: int = CASES,
) -> Callable:
    """Register the decorated function `(rng) -> error of one random case` as the check of an equation."""
    functions = implements if isinstance(implements, tuple) else (implements,)

    def register(function: Callable[[torch.Generator], float]) -> Callable[[torch.Generator], float]:
        names = tuple(dotted_name(f) for f in functions)
        _add(Equation(label, page, source, title, tex, names, tolerance, cases, None, function))
        return function

    return register


def no_check(label: str, *, page: str, source: str, title: str, tex: str, reason: str) -> None:
    """Register an equation that nothing can be computed for, and say why."""
    _add(Equation(label, page, source, title, tex, reason=reason))


def _add(equation: Equation) -> None:
    if equation.label in EQUATIONS:
        raise ValueError(f"{equation.label} is registered twice")
    if equation.page not in PAGES:
        raise ValueError(f"{equation.label} is on {equation.page}, which is no page of the book")
    EQUATIONS[equation.label] = equation


def run_checks(
    labels: Iterable[str] | None = None, seed: int = 0, progress: Callable[[CheckResult], None] | None = None
) -> list[CheckResult]:
    """Run the checks of the given labels (all of them, without labels), in the order of the book.

    progress is called with each result as it arrives. An unknown label is an InputError.
    """
    wanted = list(EQUATIONS) if labels is None else list(labels)
    unknown = [label for label in wanted if label not in EQUATIONS]
    if unknown:
        raise InputError(
            f"{unknown[0]!r} is no equation: `rollpe equations` lists the {len(EQUATIONS)} labels."
        )
    results = []
    for label in wanted:
        equation = EQUATIONS[label]
        if equation.function is None or equation.tolerance is None:
            continue
        start = time.perf_counter()
        error = equation.largest_error(seed)
        result = CheckResult(
            label=label,
            page=equation.page,
            implements=equation.implements,
            source=equation.source,
            error=error,
            tolerance=equation.tolerance,
            passed=error <= equation.tolerance,
            cases=equation.cases,
            seconds=time.perf_counter() - start,
        )
        results.append(result)
        if progress is not None:
            progress(result)
    return results


def write_report(path: str | Path, results: Iterable[CheckResult] | None = None, seed: int = 0) -> dict:
    """Write what the checks found as JSON and return it; without results, all checks are run with this seed.

    {"schema", "source_hash", "seed", "equations": [{"label", "page", "source", "title", "tex", "implements",
    "reason" | "error", "tolerance", "passed", "cases"}, …], "digest"}. Equations without a check are listed
    with their reason. source_hash is of the equations and all that they import, digest of the rest of the
    report; `rollpe gate` compares both. No dates and no timings: the same code on the same machine writes the
    same bytes. An infinite error is written as the largest float, because JSON has no infinity.
    """
    found = {result.label: result for result in (run_checks(seed=seed) if results is None else results)}
    entries = []
    for label, equation in EQUATIONS.items():
        entry: dict = {
            "label": label,
            "page": equation.page,
            "source": equation.source,
            "title": equation.title,
            "tex": equation.tex,
            "implements": list(equation.implements),
        }
        if equation.reason is not None:
            entry["reason"] = equation.reason
        elif label in found:
            result = found[label]
            entry["error"] = min(result.error, sys.float_info.max)
            entry |= {"tolerance": result.tolerance, "passed": result.passed, "cases": result.cases}
        else:
            continue
        entries.append(entry)
    source_hash = hash_files(module_files("rollpe.equations"), PACKAGE.parent)
    report = {"schema": SCHEMA, "source_hash": source_hash, "seed": seed, "equations": entries}
    report["digest"] = hash_json(report)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


def read_report(path: str | Path) -> dict:
    """The report that `write_report` left, as it was written. A missing or foreign file is an InputError."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist: write it with `rollpe equations --json`.")
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        report = None
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise InputError(f"{path} is no report of schema {SCHEMA}: write it with `rollpe equations --json`.")
    return report
