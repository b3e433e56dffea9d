"""Rules by which runs decide a claim: values of one arm or two in, a verdict and what was found out.

The level of every test is 0.05. a and b are flat lists, a value for each seed, or what a table prints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rollpe_lab.statistics import Printed, Summary, Welch, equivalence, seeds_needed, summarize, welch

Decision = Literal["reproduced", "corrected", "refuted", "undecided", "not tested"]
Arm = list[float] | Printed
Found = tuple[Decision, str]
Rule = Callable[..., Found]
LEVEL = 0.05


def better(a: Arm, b: Arm, margin: float, unit: str) -> Found:
    """Reproduced if a − b > 0 with Welch's p < 0.05, however small. Refuted if a − b < 0 with p < 0.05, or
    if a one-sided test shows that a − b is less than the margin."""
    if isinstance(a, list) and isinstance(b, list) and {*a, *b} == {a[0]}:
        return "undecided", f"no difference in any run, {a[0]:g} {unit}, n = {_seeds(a, b)}"
    test = welch(a, b)
    result = f"{_interval(test, unit)}, Welch p = {test.p:.2g}, n = {_seeds(a, b)}"
    if test.p < LEVEL:
        return "reproduced" if test.difference > 0 else "refuted", result
    if _one_sided(a, b).high < margin:
        return "refuted", f"{result}; less than {margin:g} {unit} ahead"
    return "undecided", result + _needed(a, b, margin, unit)


def differ(a: Arm, b: Arm, margin: float, unit: str) -> Found:
    """Reproduced if a and b differ with Welch's p < 0.05, in either direction and however little. Refuted if
    two one-sided tests show less than the margin between them."""
    test = welch(a, b)
    result = f"{_interval(test, unit)}, Welch p = {test.p:.2g}, n = {_seeds(a, b)}"
    if test.p < LEVEL:
        return "reproduced", result
    if equivalence(a, b, margin=margin) < LEVEL:
        return "refuted", f"{result}; less than {margin:g} {unit} apart"
    return "undecided", result + _needed(a, b, margin, unit)


def equivalent(a: Arm, b: Arm, margin: float, unit: str) -> Found:
    """Reproduced if two one-sided tests show less than the margin between a and b. Refuted if one shows
    more."""
    p, test = equivalence(a, b, margin=margin), _one_sided(a, b)
    result = f"{_interval(test, unit)} against a margin of {margin}, TOST p = {p:.2g}, n = {_seeds(a, b)}"
    if p < LEVEL:
        return "reproduced", result
    if test.low > margin or test.high < -margin:
        return "refuted", result
    return "undecided", result + _needed(a, b, margin, unit)


def near_printed(a: Arm, b: Printed, margin: float, unit: str) -> Found:
    """Reproduced if two one-sided tests show less than the margin between a and the printed b. Else left
    open: the paper states no recipe, so ours may differ."""
    verdict, result = equivalent(a, b, margin, unit)
    result = f"{summarize(a).mean:.2f} % here, {b.mean} % printed: {result}"
    if verdict == "refuted":
        return "undecided", f"{result}; not repeated with this recipe"
    return verdict, result


def ordered(a: Arm, b: Arm | None, margin: float, unit: str) -> Found:
    """Reproduced if a one-sided test shows a, or a − b, above the margin. Refuted if one shows it below."""
    test = summarize(a, 1 - 2 * LEVEL) if b is None else _one_sided(a, b)
    result = f"{_interval(test, unit)} against {margin:g}, n = {_seeds(a, b)}"
    if test.low is not None and test.low > margin:
        return "reproduced", result
    if test.high is not None and test.high < margin:
        return "refuted", result
    return "undecided", result if b is None else result + _needed(a, b, abs(margin), unit)


def not_worse(a: Arm, b: Arm, margin: float, unit: str) -> Found:
    """Reproduced if a one-sided test shows that a is less than the margin behind b. Refuted if one shows
    that it is more."""
    return ordered(a, b, -margin, unit)


RULES: dict[str, Rule] = {
    rule.__name__: rule for rule in (better, differ, equivalent, near_printed, ordered, not_worse)
}


def _one_sided(a: Arm, b: Arm) -> Welch:
    """A test whose interval excludes what a one-sided test excludes."""
    return welch(a, b, 1 - 2 * LEVEL)


def _interval(test: Welch | Summary, unit: str) -> str:
    middle = test.mean if isinstance(test, Summary) else test.difference
    digits = 2 if unit in ("points", "percent") else 3
    numbers = [f"{x:+.{digits}f}" for x in (middle, test.low, test.high) if x is not None]
    interval = f"[{', '.join(numbers[1:])}]" if numbers[1:] else ""
    return " ".join(filter(None, (numbers[0], unit, interval)))


def _seeds(*arms: Arm | None) -> str:
    return " + ".join(str(summarize(arm).n) for arm in arms if arm is not None)


def _needed(a: Arm, b: Arm, margin: float, unit: str) -> str:
    spread = max(summarize(arm).sd or 0.0 for arm in (a, b))
    return f"; {margin:g} {unit} need about {seeds_needed(spread, margin)} seeds each"
