"""The family of comparisons under one recipe, and its verdicts.

A family holds all comparisons that the book makes between runs of one recipe: all pairs of six encodings, and
each ablation with its reference. It is fixed here, so that a pair of encodings has one p on every page.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from rollpe.errors import InputError
from rollpe_lab.files import markdown
from rollpe_lab.records.record import Record, by_cell
from rollpe_lab.statistics import Paired, Welch, holm, paired_by_image, welch
from rollpe_lab.training.plan import load_plan

MAIN = ("none", "learned", "roll", "roll-twin", "axial-rope", "multiplexed-roll")
"""The encodings of which all pairs are compared, the later minus the earlier."""

ABLATIONS = {
    ("roll-twin", "roll"): "RollPE's rotary twin: same functions, Fourier basis",
    ("continuous-roll", "roll"): "continuous RollPE: shifts by the generator",
    ("roll@width=7", "roll"): "ring of 7 channels (fewest for 4×4 patches), rest unrolled",
    ("roll@width=8", "roll"): "ring of 8 channels (even), rest unrolled",
    ("roll@width=15", "roll"): "ring of 15 channels (fewest for 8×8 patches), rest unrolled",
    ("roll@width=16", "roll"): "ring of 16 channels (even), rest unrolled",
    ("roll@width=31", "roll"): "ring of 31 channels (odd), rest unrolled",
    ("continuous-roll@wavelength=2.0", "continuous-roll"): "continuous RollPE, waves half as fast",
    ("continuous-roll@wavelength=0.5", "continuous-roll"): "continuous RollPE, waves twice as fast",
    ("multiplexed-roll", "roll"): "a second wave, with weights of its own",
    ("multiplexed-roll@speeds=[1,1]", "multiplexed-roll"): "multiplexed RollPE with both waves at speed 1",
    ("multiplexed-roll@scale=sqrt", "multiplexed-roll"): "multiplexed RollPE with logits divided by W",
    ("axial-rope", "roll-twin"): "RoPE's frequencies: spacing, range, none zero",
    ("axial-rope@base=10000.0", "axial-rope"): "RoPE with base 10,000: all but the fastest slower",
    ("mixed-rope", "axial-rope"): "learned frequencies and directions, faster at the start",
    ("@topography=ring/roll", "roll"): "smoothness penalty on RollPE",
    ("@topography=ring/roll-twin", "roll-twin"): "smoothness penalty on RollPE's twin",
    ("@topography=ring/axial-rope", "axial-rope"): "smoothness penalty on RoPE",
}
"""(variant, reference) → what changes. A variant that begins with @ is of a changed recipe."""

TEXT = (
    *("none", "sinusoidal", "learned", "rope", "roll", "roll-twin", "multiplexed-roll"),
    *("t5-bias@bidirectional=false", "shaw"),
)
"""The encodings of language models of which all pairs are compared, as plans/text.yaml fixed them."""

_ON_TEXT = (
    "@learning_rate=0.004/rope",
    "@learning_rate=0.004/rope@frequencies=arithmetic",
    "rope@wavelengths=[2.0,64.0]",
    "@learning_rate=0.004/rope@frequencies=arithmetic,wavelengths=[2.0,64.0]",
    "@learning_rate=0.004/roll",
    "roll-twin",
    "@learning_rate=0.004/twisted-roll",
)
SPACING = {
    "quick-spacing": (
        "axial-rope",
        "@learning_rate=0.001/axial-rope@frequencies=arithmetic",
        "axial-rope@wavelengths=[2.0,16.0]",
        "axial-rope@frequencies=arithmetic,wavelengths=[2.0,16.0]",
        "@learning_rate=0.001/roll",
        "@learning_rate=0.001/roll-twin",
        "twisted-roll",
    ),
    "quick-spacing8": (
        "axial-rope",
        "axial-rope@frequencies=arithmetic",
        "@learning_rate=0.004/axial-rope@wavelengths=[2.0,16.0]",
        "axial-rope@frequencies=arithmetic,wavelengths=[2.0,16.0]",
        "roll",
        "@learning_rate=0.001/roll-twin",
        "twisted-roll",
    ),
    "text-spacing": _ON_TEXT,
    "sklearn-spacing": _ON_TEXT,
}
"""The factorial of spacing and range: its arms by recipe, each at the learning rate chosen for it.

Rotations with geometric and with arithmetic frequencies, first over RoPE's usual range, then over the ring's;
RollPE, its twin, the twisted ring.
"""


def factorial(recipe: str) -> Iterator[tuple[str, str, str, None]]:
    """Recipe, variant and reference: range, range, spacing, spacing, then RollPE against its frequencies."""
    usual, usual_steps, ring, ring_steps, roll, *_ = SPACING[recipe]
    pairs = (ring, usual), (ring_steps, usual_steps), (usual_steps, usual), (ring_steps, ring)
    return ((recipe, *pair, None) for pair in (*pairs, (roll, ring_steps)))


LADDER = ("@epochs=30", "@depth=10", "@pool=token")
"""Changes under which ladder-2-rungs asks for RoPE − learned."""

POINTS = (
    "axial-rope",
    "@learning_rate=0.001/axial-rope@wavelengths=[2.0,16.0]",
    "@learning_rate=0.001/continuous-roll",
    "@learning_rate=0.001/continuous-roll@nyquist=twist",
)
"""Encodings of clouds of points, each at its rate: RoPE, RoPE with the ring's waves, two rings."""


def _clouds() -> Iterator[tuple[str, str, str, None]]:
    """Real positions against rounded ones; then RoPE and the rings."""
    rope, short, ring, twist = POINTS
    for arm in POINTS:
        yield "points", arm, f"-rounded{'' if arm.startswith('@') else '/'}{arm}", None
    for pair in ((ring, rope), (twist, rope), (twist, ring), (short, rope), (ring, short)):
        yield "points", *pair, None


PLANNED = (
    (
        range(100, 108),
        tuple(
            ("text-twist", "twisted-roll", reference, length)
            for length in (64, 128)
            for reference in ("rope", "roll", "rope@base=100.0")
        ),
    ),
    (
        range(100, 105),
        tuple(
            (recipe, "twisted-roll", reference, None)
            for recipe in ("quick-twist", "quick-twist8")
            for reference in ("axial-rope", "roll")
        ),
    ),
    (
        range(220, 228),
        tuple(
            ("text-waves", "rope@wavelengths=[2.0,64.0]", reference, length)
            for reference, length in (
                ("rope@wavelengths=[2.0,128.0]", 512),
                ("roll@width=[31,33]", 512),
                ("shaw", 512),
                ("shaw", 64),
                ("rope@wavelengths=[6.28,64.0]", 64),
            )
        ),
    ),
    (range(200, 210), tuple(itertools.chain.from_iterable(map(factorial, SPACING)))),
    (
        range(10, 13),
        (
            *((f"ladder{change}", "axial-rope", "learned", None) for change in LADDER),
            ("ladder@epochs=30", "roll", "axial-rope", None),
            ("ladder@epochs=30", "twisted-roll", "axial-rope", None),
            ("ladder@epochs=30", "twisted-roll", "roll", None),
        ),
    ),
    (range(301, 306), tuple(_clouds())),
)
"""Families that plans name one by one: seeds, and (recipe, variant, reference, characters in a window).

The plans twist, twist-digits, text-waves, spacing-digits-rates, ladder-2-rungs and points-rates fixed them,
with Welch's test over seeds.
Other seeds do not count: the base of RoPE was chosen with one.
"""


@dataclass(frozen=True)
class Compared:
    """Variant − reference, in points of test accuracy, by two tests; p after Holm over the family.

    Of text, in bits per character, where less is better, by the test over seeds alone: the characters of one
    text are no independent sample.

    planned: p of only those runs that were planned before any result of their arm was known, in the family
    of such runs; None if an arm has fewer than two. The other fields are of all runs. length: of the
    windows of text that a planned family names.
    """

    variant: str
    reference: str
    over_seeds: Welch
    p: float
    planned: float | None
    runs: tuple[tuple[Record, ...], tuple[Record, ...]]
    length: int | None = None
    seeds_alone: bool = False

    @cached_property
    def over_images(self) -> Paired | None:
        """The test over images and seeds; None of text, and where a plan asks for seeds alone."""
        if self.seeds_alone or self.runs[0][0].bits:
            return None
        return paired_by_image(*(np.stack([r.correct_bits() for r in arm]) for arm in self.runs))

    @property
    def differs(self) -> bool:
        """Whether all runs show a difference, by Welch's test in its family and over images and seeds."""
        return self.p < 0.05 and (not (images := self.over_images) or images.low * images.high > 0)

    @property
    def verdict(self) -> str:
        """`clear`; `exploratory` if it needs runs that were added after looking; else `open`."""
        if not self.differs:
            return "open"
        return "clear" if self.planned is not None and self.planned < 0.05 else "exploratory"


def compared(
    arms: Mapping[str, Sequence[Record]],
    pairs: Iterable[tuple[str, str]],
    later: Collection[Path] = (),
) -> list[Compared]:
    """Every pair (variant, reference) whose arms both have two runs or more, as one family.

    arms: runs by name. later: the cells, as `RunId.path`, whose seeds were added after looking.
    """
    tested = [pair for pair in pairs if min(len(arms.get(name, ())) for name in pair) > 1]
    tests = [_points([arms[name] for name in pair]) for pair in tested]
    first = {name: [r for r in runs if r.run_id.path not in later] for name, runs in arms.items()}
    before = [pair for pair in tested if min(len(first[name]) for name in pair) > 1]
    planned = dict(
        zip(before, _adjusted([_points([first[name] for name in p]) for p in before]), strict=True)
    )
    return [
        Compared(
            *pair,
            test,
            p,
            planned.get(pair),
            (tuple(arms[pair[0]]), tuple(arms[pair[1]])),
        )
        for pair, test, p in zip(tested, tests, _adjusted(tests), strict=True)
    ]


def family(records: Iterable[Record], recipe: str, later: Collection[Path] = ()) -> list[Compared]:
    """All comparisons of the book under a recipe: main encodings, then ablations; of text, `TEXT` alone.

    Those of a recipe in `PLANNED` are all there once each of the family has two runs, with p over the family.
    """
    for seeds, named in PLANNED:
        if recipe in {first for first, *_ in named}:
            return [c for r, c in _planned([r for r in records if r.seed in seeds], named) if r == recipe]
    name = unquote(recipe)
    cells = (
        (cell.removeprefix(name), runs) for cell, runs in by_cell(records).items() if cell.startswith(name)
    )
    arms = {change.removeprefix("/"): runs for change, runs in cells if change[0] in "/@"}
    of_text = any(run.bits for arm in arms.values() for run in arm)
    pairs = [(b, a) for a, b in itertools.combinations(TEXT if of_text else MAIN, 2)]
    return compared(arms, dict.fromkeys([*pairs, *(() if of_text else ABLATIONS)]), later)


def _planned(
    records: Sequence[Record], named: Sequence[tuple[str, str, str, int | None]]
) -> list[tuple[str, Compared]]:
    """A family of `PLANNED`, each comparison with its recipe; none before all can be tested."""
    cells = by_cell(records)
    pairs = [[cells.get(path_of(recipe, arm), []) for arm in arms] for recipe, *arms, _ in named]
    if min(len(arm) for pair in pairs for arm in pair) < 2:
        return []
    tests = [
        welch([_value(r, length) for r in a], [_value(r, length) for r in b])
        for (a, b), (*_, length) in zip(pairs, named, strict=True)
    ]
    compared = zip(named, tests, _adjusted(tests), pairs, strict=True)
    return [
        (recipe, Compared(variant, reference, test, p, p, (tuple(a), tuple(b)), length, True))
        for (recipe, variant, reference, length), test, p, (a, b) in compared
    ]


def path_of(recipe: str, arm: str) -> str:
    """An arm as ``recipe/encoding``; one that begins with @ or - is of a recipe whose name goes on so."""
    return f"{recipe}{arm}" if arm[0] in "@-" else f"{recipe}/{arm}"


def _value(record: Record, length: int | None) -> float:
    value = record.score if length is None else record.bits_at(length)
    if value is None:
        raise InputError(
            f"{record.run_id.path} has no bits in windows of {length} characters: train it anew."
        )
    return value


@cache
def later_cells(plans: Path | str = "plans") -> frozenset[Path]:
    """The cells of all plans that were added when earlier runs were known."""
    named = (path for path in sorted(Path(plans).glob("*.yaml")) if "later" in f"{path} {path.read_text()}")
    planned = (load_plan(path, build=False) for path in named)
    return frozenset(p.run_id.path for plan in planned for p in plan if p.later)


def _points(arms: Sequence[Sequence[Record]]) -> Welch:
    variant, reference = ([record.score for record in arm] for arm in arms)
    return welch(variant, reference)


def _adjusted(tests: Sequence[Welch]) -> list[float]:
    return [float(p) for p in holm([test.p for test in tests])]


NO_BREAK = "\N{NO-BREAK SPACE}"


def signed(points: float, digits: int = 2) -> str:
    """A difference with its sign, and a minus as long as the plus."""
    return f"{points:+.{digits}f}".replace("-", "−")


def p_value(p: float | None) -> str:
    """A p value with three digits; below 0.001 as a bound."""
    return "–" if p is None else f"<{NO_BREAK}0.001" if p < 0.001 else f"{p:.3f}"


def to_markdown(
    comparisons: Sequence[Compared], label: Callable[[Compared], str] | None = None, title: str = "difference"
) -> str:
    """A table, one row a comparison: difference, both intervals, p, verdict.

    label: the first cell of a row, in place of the pair.
    """
    more = any(c.planned != c.p for c in comparisons)  # some runs were added later
    of_images = any(c.over_images for c in comparisons)
    effect = "points [95 %, seeds]<br>[95 %, images<br>and seeds]" if of_images else "bits [95 %, seeds]"
    head = [
        title,
        effect.replace(" ", NO_BREAK),
        "p<br>(planned<br>runs)" if more else "p",
        "runs",
        "verdict",
    ]
    rows = []
    for c in comparisons:
        test, images = c.over_seeds, c.over_images
        row = [
            label(c) if label else f"`{c.variant}` − `{c.reference}`",
            f"{signed(test.difference)} {_interval(test.low, test.high)}"
            + (f"<br>{_interval(100 * images.low, 100 * images.high)}" if images else ""),
            f"{p_value(c.p)}<br>({p_value(c.planned)})" if more else p_value(c.p),
            ", ".join(str(len(arm)) for arm in c.runs),
            f"**{c.verdict}**" if c.verdict == "clear" else c.verdict,
        ]
        rows.append([row[0], *(cell.replace(" ", NO_BREAK) for cell in row[1:])])
    return markdown([head, *rows])


def _interval(low: float, high: float) -> str:
    return f"[{signed(low)}, {signed(high)}]"
