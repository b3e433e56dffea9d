"""Two groups of runs side by side: what `rollpe compare` prints, and the page that it writes.

Here: finding the runs that a name or a path means, refusing those that may not be compared, the differences
with their intervals, and their picture. Not here: the statistics themselves (statistics.py), when two records
are comparable (rollpe.records), the frame of the page (rollpe.pages).
"""

from __future__ import annotations

import difflib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
from scipy import stats

from rollpe.errors import InputError
from rollpe.evidence.families import signed
from rollpe.pages import page, table
from rollpe.records.record import NOT_COMPARED, Record, comparable, flatten
from rollpe.records.store import read_record, read_records
from rollpe.statistics import Summary, paired_by_image, summarize, welch

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# ------------------------------------------------------------------------------------------- the runs


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed, and the name they were asked for by."""

    name: str
    runs: Mapping[int, Record]

    def values(self, size: str | None = None, shift: str | None = None) -> dict[int, float]:
        """Test accuracy in percent by seed; at another image size, or with moved images, where recorded."""
        found = {}
        for seed, record in self.runs.items():
            accuracy: float | None = record.test.accuracy
            if size is not None or shift is not None:
                accuracy = record.resolutions.get(size or "") if size else record.shifts.get(shift or "")
            if accuracy is not None:
                found[seed] = 100 * accuracy
        return found

    @property
    def summary(self) -> Summary:
        return summarize(list(self.values().values()))

    def __str__(self) -> str:
        s = self.summary
        spread = f" ± {s.sd:.2f}" if s.sd is not None else ""
        return f"{s.mean:.2f}{spread} %"


def find_runs(name: str, folders: Sequence[Path]) -> Group:
    """The runs that a name means: a record's file, or ``recipe/encoding[@options]`` with all its seeds.

    Options are written as tables show them or as folders are called. Folders are searched in order; of two
    records of the same seed the first is taken. A name that means nothing is an InputError that names the
    nearest groups there are.
    """
    if Path(name).suffix == ".json":
        record = read_record(name)
        return Group(Path(name).with_suffix("").as_posix(), {record.seed: record})
    groups: dict[str, dict[int, Record]] = {}
    for record in chain.from_iterable(read_records(folder) for folder in folders):
        key = unquote(record.cell.path.parent.as_posix())
        groups.setdefault(key, {}).setdefault(record.seed, record)
    name = unquote(name)
    if name not in groups:
        near = difflib.get_close_matches(name, groups, 3, 0.5) or sorted(groups)[:8]
        there = f"there are {', '.join(near)}" if near else f"{', '.join(map(str, folders))} hold no record"
        raise InputError(f"{name}: no runs of that name, and no record's file (.json); {there}.")
    return Group(name, dict(sorted(groups[name].items())))


# ------------------------------------------------------------------------------------- the differences


@dataclass(frozen=True)
class Difference:
    """A − B in points, seen in one way. Interval and p are None where ``note`` says what is missing.

    over: what the interval generalizes to.
    """

    way: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    note: str
    over: str

    def cells(self) -> tuple[str, str, str, str, str]:
        """Way, difference, interval, p, note, as text."""
        value = "–" if self.value is None else signed(self.value)
        interval = (
            "–" if self.low is None or self.high is None else f"{signed(self.low)} to {signed(self.high)}"
        )
        p = "–" if self.p is None else "< 0.001" if self.p < 0.001 else f"{self.p:.2g}"
        return self.way, value, interval, p, self.note


def over_seeds(a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """Welch's test: would other training runs show the difference?"""
    value = _mean(a) - _mean(b)
    way = "over seeds (Welch)"
    try:
        test = welch(list(a.values()), list(b.values()))
    except InputError:
        few = min(len(a), len(b)) < 2
        note = "a test needs at least 2 seeds in both groups" if few else "in both groups all runs are equal"
        return Difference(way, value, None, None, None, note, "seeds")
    note = "about other training runs: the seeds are independent samples"
    return Difference(way, value, test.low, test.high, test.p, note, "seeds")


def paired_by_seed(a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """The t-test of the differences seed by seed: equal seeds saw equal batches and augmentation."""
    seeds = sorted(a.keys() & b.keys())
    way = f"paired by seed ({len(seeds)} in common)"
    if not seeds:
        return Difference(way, None, None, None, None, "no seed was trained in both groups", "seeds")
    # the same number of images may be another fraction in the last bits, and bits are no spread
    differences = np.array([round(a[seed] - b[seed], 9) for seed in seeds])
    s = summarize(differences)
    if not s.sd:
        note = "an interval needs two seeds in both groups" if s.n == 1 else "all seeds differ by the same"
        return Difference(way, s.mean, None, None, None, note, "seeds")
    p = float(stats.ttest_1samp(differences, 0).pvalue)
    note = "about other seeds: equal seeds saw the same images in the same order"
    return Difference(way, s.mean, s.low, s.high, p, note, "seeds")


def image_by_image(a: Group, b: Group) -> Difference:
    """Right or wrong on the same test images; see `rollpe.statistics.paired_by_image`."""
    bits = (np.stack([record.correct_bits() for record in group.runs.values()]) for group in (a, b))
    r = paired_by_image(*bits)
    seeds_too = r.over == "images and seeds"
    over = "test images and seeds" if seeds_too else "test images, for these trained models alone"
    note = f"resampling the {r.images} test images"
    note += " and the seeds" if seeds_too else ": about these trained models alone"
    if r.only_a is not None:
        note += f"; right only in A: {r.only_a}, only in B: {r.only_b} (McNemar, exact)"
    return Difference("image by image", 100 * r.difference, 100 * r.low, 100 * r.high, r.p, note, over)


def _mean(values: Mapping[int, float]) -> float:
    return float(np.mean(list(values.values())))


@dataclass(frozen=True)
class Comparison:
    """Group A against group B; str() is what `rollpe compare` prints."""

    a: Group
    b: Group

    @cached_property
    def differences(self) -> list[Difference]:
        """A − B over seeds, paired by seed, and image by image."""
        a, b = self.a.values(), self.b.values()
        return [over_seeds(a, b), paired_by_seed(a, b), image_by_image(self.a, self.b)]

    @property
    def sentence(self) -> str:
        """The result in words, from the test over seeds, or from the images where seeds cannot tell."""
        seeds, _, images = self.differences
        told = seeds if seeds.low is not None else images
        assert told.value is not None and told.low is not None and told.high is not None
        interval = f"95 % interval over {told.over}: {signed(told.low)} to {signed(told.high)} points"
        if told.low <= 0 <= told.high:
            return f"No difference is established ({interval})."
        better, worse = (self.a, self.b) if told.value > 0 else (self.b, self.a)
        return f"{better.name} is better than {worse.name} by {abs(told.value):.2f} points ({interval})."

    def __str__(self) -> str:
        width = max(len(self.a.name), len(self.b.name))
        lines = [f"{x}  {g.name:{width}}  {g}   n = {len(g.runs)}" for x, g in (("A", self.a), ("B", self.b))]
        for difference in self.differences:
            way, value, interval, p, note = difference.cells()
            rest = note if difference.low is None else f"[{interval}]"
            chance = "" if difference.p is None else f"   p {p if p.startswith('<') else f'= {p}'}"
            lines.append(f"A − B {way:28} {value:>7}   {rest}{chance}")
        return "\n".join([*lines, self.sentence])


def compare(a: Group, b: Group) -> Comparison:
    """Compare two groups; runs that may not be compared are an InputError that says why."""
    if shared := [r.cell.path for r in a.runs.values() if r in b.runs.values()]:
        raise InputError(f"{a.name} and {b.name} both hold the run {shared[0]}: give two different groups.")
    first = next(iter(a.runs.values()))
    for record in chain(a.runs.values(), b.runs.values()):
        if reasons := comparable(first, record):
            raise InputError(
                f"{first.cell.path} and {record.cell.path} are not comparable: {'; '.join(reasons)}."
            )
    return Comparison(a, b)


# -------------------------------------------------------------------------------------------- the page


def comparison_page(comparison: Comparison) -> str:
    """The comparison as an HTML page that stands alone."""
    a, b = comparison.a, comparison.b
    title = f"{a.name} against {b.name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p><strong>{escape(comparison.sentence)}</strong></p>",
        "<p>A difference is A − B in points of test accuracy, with its 95 % interval.</p>",
        table(("group", "runs", "accuracy", "seeds"), [_group_row(x, g) for x, g in (("A", a), ("B", b))]),
        "<h2>Differences</h2>",
        table(
            ("seen", "points", "95 % interval", "p", "what it is about"),
            [d.cells() for d in comparison.differences],
        ),
        "<h2>Learning curves</h2>",
        _curves(comparison),
        "<h2>Other sizes and moved images</h2>",
        _robustness(comparison),
        "<h2>Configuration</h2>",
        _configuration(comparison),
        "<h2>Where the runs come from</h2>",
        table(
            ("run", "accuracy", "images/s", "seconds", "commit", "device", "versions", "finished (UTC)"),
            [_origin(x, r) for x, g in (("A", a), ("B", b)) for r in g.runs.values()],
        ),
    ]
    return page(title, "\n".join(body))


def _group_row(letter: str, group: Group) -> tuple[str, ...]:
    return f"{letter}: {group.name}", str(len(group.runs)), str(group), ", ".join(map(str, group.runs))


def _origin(letter: str, record: Record) -> tuple[str, ...]:
    commit = (
        record.provenance.commit[:10] + {True: " with changes", False: "", None: ""}[record.provenance.dirty]
    )
    return (
        f"{letter}, seed {record.seed}",
        f"{100 * record.test.accuracy:.2f} %",
        f"{record.throughput:,.0f}",
        f"{record.provenance.wall_seconds:,.0f}",
        commit,
        record.environment.device_name,
        f"torch {record.environment.torch}, timm {record.environment.timm}",
        record.provenance.finished[:16].replace("T", " "),
    )


def _configuration(comparison: Comparison) -> str:
    """What differs, as a table; what agrees, folded."""
    left, right = (_settings(next(iter(g.runs.values()))) for g in (comparison.a, comparison.b))
    keys = [*left, *(key for key in right if key not in left)]
    texts = {key: tuple(_text(side.get(key)) for side in (left, right)) for key in keys}
    differing = [(key, *pair) for key, pair in texts.items() if pair[0] != pair[1]]
    same = [(key, pair[0]) for key, pair in texts.items() if pair[0] == pair[1]]
    shown = table(("key", "A", "B"), differing) if differing else "<p>Nothing differs but the seeds.</p>"
    agreeing = table(("key", "A and B"), same)
    return (
        f"{shown}<details><summary>{len(same)} keys agree</summary>{agreeing}</details>"
        '<p class="quiet">Runs may differ in encoding, options and seed, and in '
        f"{', '.join(sorted(NOT_COMPARED))}, which leave the test as it is. Anything else is refused.</p>"
    )


def _settings(record: Record) -> dict[str, Any]:
    chosen: dict[str, Any] = {"encoding": record.encoding}
    chosen |= {f"option {key}": value for key, value in record.encoding_options.items()}
    chosen |= {"trained numbers": f"{record.parameters:,}", "protocol": record.protocol}
    return chosen | flatten(record.config)


def _text(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


def _robustness(comparison: Comparison) -> str:
    """Accuracy at other sizes and with moved images, one row each; a sentence where none was recorded."""
    first = next(iter(comparison.a.runs.values()))
    rows = []
    for kind, keys, unit in (("size", first.resolutions, "px"), ("shift", first.shifts, "px right and down")):
        for key in sorted(keys, key=int):
            a, b = (group.values(**{kind: key}) for group in (comparison.a, comparison.b))
            if not b:
                continue
            means = (f"{_mean(values):.2f} %" for values in (a, b))
            _, value, interval, p, _ = over_seeds(a, b).cells()
            what = f"{key} {unit}" if kind == "size" else f"moved {key} {unit}"
            rows.append((what, *means, value, interval, p))
    if not rows:
        return "<p>Not measured in both groups.</p>"
    return table(("test images", "A", "B", "A − B", "95 % interval over seeds", "p"), rows)


def _curves(comparison: Comparison) -> str:
    """Held-out accuracy against epoch, every run a line; one inline SVG that follows light and dark."""
    if find_spec("matplotlib") is None:
        return "<p>Not drawn: matplotlib is missing. Repair: pip install -e '.[notebooks]'.</p>"
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    from rollpe import figures

    figures.use_theme()
    groups = (("A", comparison.a, figures.BLUE, "-"), ("B", comparison.b, figures.VERMILION, "--"))
    runs = [r for _, group, _, _ in groups for r in group.runs.values()]
    if not all(r.history for r in runs):
        return "<p>Not measured: not every run kept its epochs.</p>"
    held_out = all(epoch.held_out_accuracy is not None for r in runs for epoch in r.history)
    with plt.rc_context({"svg.fonttype": "none", "figure.facecolor": "none", "axes.facecolor": "none"}):
        fig, ax = plt.subplots(figsize=(6.0, 3.4))
        for letter, group, color, dashes in groups:
            _draw(ax, f"{letter}: {group.name}", list(group.runs.values()), held_out, color, dashes)
        what = "held-out accuracy (%)" if held_out else "training loss (nats)"
        ax.set(xlabel="epoch", ylabel=what)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(loc="lower right" if held_out else "upper right")
        drawing = io.StringIO()
        fig.savefig(drawing, format="svg", metadata={"Date": None})
        plt.close(fig)
    svg = drawing.getvalue()
    svg = svg[svg.index("<svg") :]
    follow = {figures.INK: "currentColor", figures.BLUE: "var(--a)", figures.VERMILION: "var(--b)"}
    for color, variable in follow.items():
        svg = svg.replace(color.lower(), variable)
    last = [f"{letter} ends at {_last(group, held_out)}" for letter, group, _, _ in groups]
    label = f"{what} against epoch, one line a run, A solid and B dashed; {' and '.join(last)}."
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
    caption = f"{what.capitalize()} after every epoch, one line a run. A is solid, B is dashed."
    return f"<figure>{svg}<figcaption><p>{escape(caption)}</p></figcaption></figure>"


def _draw(ax: Axes, label: str, runs: list[Record], held_out: bool, color: str, dashes: str) -> None:
    for number, record in enumerate(runs):
        epochs = [epoch.epoch for epoch in record.history]
        ax.plot(
            epochs,
            _series(record, held_out),
            color=color,
            linestyle=dashes,
            linewidth=1.3,
            label=label if number == 0 else None,
        )


def _series(record: Record, held_out: bool) -> list[float]:
    if held_out:
        return [100 * (epoch.held_out_accuracy or 0.0) for epoch in record.history]
    return [epoch.train_loss for epoch in record.history]


def _last(group: Group, held_out: bool) -> str:
    return f"{np.mean([_series(record, held_out)[-1] for record in group.runs.values()]):.2f}"
