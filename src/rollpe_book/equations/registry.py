"""The registry of equations, the runner of their checks, and the report.

A check is a generator that draws ONE case, computes both sides of the equation by two independent routes in
float64, and yields their largest differences. The runner calls it `cases` times and keeps the largest. The
function is named after the equation's label. The page that displays the equation alone holds its TeX; `page`
is looked up there.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollpe.encodings import ENCODINGS
from rollpe.errors import InputError
from rollpe_book.displayed import pages_of_equations
from rollpe_book.equations.cases import Draw
from rollpe_book.properties import formulas
from rollpe_lab.files import write_atomically
from rollpe_lab.sources import SRC, hash_files, hash_json, meaning, module_files

CASES = 12
NYQUIST = ("fixed", "paired", "odd")
"""The ways to treat the Nyquist mode of an even width that keep the generator a logarithm of rolls."""

EQUATIONS: dict[str, Equation] = {}


@dataclass(frozen=True)
class Equation:
    """One displayed equation: its source, the functions that compute it, and its check.

    `implements` holds dotted names such as "rollpe.operators.roll". An equation has either `function` and
    `tolerance`, or a `reason` why nothing can be checked.
    """

    label: str
    source: str
    implements: tuple[str, ...] = ()
    tolerance: float = 0.0
    cases: int = CASES
    reason: str | None = None
    function: Callable[[Draw], Iterable[float]] | None = None

    @property
    def page(self) -> str:
        """The chapter that displays the equation, "" without one."""
        return pages_of_equations().get(self.label, "")

    def largest_error(self, seed: int = 0) -> float:
        """The largest error over random cases; it depends on the seed alone.

        What is no number ≥ 0 counts as infinite, and so does a case without any.
        """
        assert self.function is not None, f"{self.label} has no check: {self.reason}"
        rng = Draw()
        rng.manual_seed(zlib.crc32(f"{self.label} {seed}".encode()))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "aliased offsets")  # equations hold on short rings, too
            cases = [[float(gap) for gap in self.function(rng)] for _ in range(self.cases)]
        return max(gap if gap >= 0 else math.inf for case in cases for gap in case or [math.inf])


@dataclass(frozen=True)
class CheckResult:
    """The result of one check. `error` is infinite if a statement holds that must fail."""

    label: str
    page: str
    implements: tuple[str, ...]
    source: str
    error: float
    tolerance: float
    passed: bool
    cases: int


def dotted_name(function: Callable) -> str:
    """ "rollpe.operators.roll" for that function."""
    return f"{function.__module__}.{function.__qualname__}"


def check(
    source: str,
    *implements: Callable,
    tolerance: float = 1e-11,
    cases: int = CASES,
    n: Callable[[Draw], Iterable[int]] = Draw.widths,
) -> Callable:
    """Register the decorated generator of one case's largest differences as the check of an equation.

    `def eq_roll` checks "eq-roll". It takes random draws.
    If it also takes n or nyquist, it is called for each width that the argument `n` draws, and for each mode.
    implements: the functions and classes of the library that compute the equation.
    """

    def register(function: Callable[..., Iterable[float]]) -> Callable[..., Iterable[float]]:
        draws = {"n": n, "nyquist": lambda rng: NYQUIST}
        takes = [name for name in inspect.signature(function).parameters if name in draws]

        def one_case(rng: Draw) -> Iterator[float]:
            for values in itertools.product(*(draws[name](rng) for name in takes)):
                yield from function(rng, *values)

        names = tuple(map(dotted_name, implements))
        _add(function, source, implements=names, tolerance=tolerance, cases=cases, function=one_case)
        return function

    return register


def no_check(source: str, *, reason: str) -> Callable:
    """Register an equation without a check and the reason; the function gives its name."""
    return lambda function: _add(function, source, reason=reason)


def _add(named: Callable, source: str, **fields: Any) -> None:
    label = named.__name__.replace("_", "-")
    if label in EQUATIONS:
        raise ValueError(f"{label} is registered twice")
    EQUATIONS[label] = Equation(label, source, **fields)


def run_checks(labels: Iterable[str] | None = None, seed: int = 0) -> list[CheckResult]:
    """Run the checks of the given labels (all of them, without labels), in the order of registration.

    An unknown label is an InputError.
    """
    selected = list(EQUATIONS if labels is None else labels)
    for label in selected:
        if label not in EQUATIONS:
            raise InputError(
                f"{label!r} is no equation: `rollpe equations` lists the {len(EQUATIONS)} labels."
            )
    return [_run(EQUATIONS[label], seed) for label in selected if EQUATIONS[label].function is not None]


def _run(equation: Equation, seed: int) -> CheckResult:
    error = equation.largest_error(seed)
    same = ("label", "page", "implements", "source", "tolerance", "cases")
    about = {name: getattr(equation, name) for name in same}
    return CheckResult(**about, error=error, passed=error <= equation.tolerance)


def write_report(path: str | Path, results: Iterable[CheckResult] | None = None, seed: int = 0) -> dict:
    """Write the results as JSON and return the report; without results, all checks run with this seed.

    {"schema", "source_hash", "seed", "equations": [{"label", "page", "source", "implements", "encodings",
    "reason" | "error", "tolerance", "passed", "cases"}, …], "digest"}. "encodings" are those that implement
    the equation or whose reference calls a function that does; a statement that is wrong as printed has none.
    Equations without a check are listed with their reason. source_hash is of the equations and all that they
    import, digest of the rest of the report; `rollpe gate` compares both. There are no dates and timings: the
    same code on the same machine writes the same bytes. An infinite error is written as the largest float,
    because JSON has no infinity.
    """
    computes = {name: {dotted_name(encoding)} | formulas(name) for name, encoding in ENCODINGS.items()}
    by_label = {result.label: result for result in (run_checks(seed=seed) if results is None else results)}
    entries = []
    for label, equation in EQUATIONS.items():
        made = {} if label.endswith("-printed") else computes
        entry: dict[str, Any] = {
            "label": label,
            "page": equation.page,
            "source": equation.source,
            "implements": list(equation.implements),
            "encodings": [name for name in made if made[name] & set(equation.implements)],
        }
        if equation.reason is not None:
            entries.append(entry | {"reason": equation.reason})
        elif result := by_label.get(label):
            error = min(result.error, sys.float_info.max)
            entry |= {"error": error, "tolerance": result.tolerance}
            entries.append(entry | {"passed": result.passed, "cases": result.cases})
    source_hash = hash_files(module_files("rollpe_book.equations"), SRC, meaning)
    report = {"schema": 2, "source_hash": source_hash, "seed": seed, "equations": entries}
    report["digest"] = hash_json(report)
    write_atomically(Path(path), (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())
    return report
