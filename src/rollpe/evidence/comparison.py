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
from rollpe.pages import render
from rollpe.records.record import NOT_COMPARED, Record, comparable, flatten
from rollpe.records.store import read_record, read_records
from rollpe.statistics import Summary, paired_by_image, summarize, welch

if TYPE_CHECKING:
    pass


# The runs


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed, and the name they were asked for by."""

    name: str
    runs: Mapping[int, Record]

    def values(self, size: str | None = None, shift: str | None = None) -> dict[int, float]:
        """The score by seed; at another image size or length of text, or with moved images, where recorded.

        Test accuracy in percent, of text bits per character.
        """
        found = {}
        for seed, record in self.runs.items():
            score: float | None = record.score
            if self.of_text and size is not None:
                score = record.bits_at(int(size))
            elif size is not None or shift is not None:
                accuracy = record.resolutions.get(size or "") if size else record.shifts.get(shift or "")
                score = None if accuracy is None else 100 * accuracy
            if score is not None:
                found[seed] = score
        return found

    @property
    def of_text(self) -> bool:
        return any(record.bits for record in self.runs.values())

    @property
    def unit(self) -> str:
        return "bits" if self.of_text else "%"

    @property
    def summary(self) -> Summary:
        return summarize(list(self.values().values()))

    def __str__(self) -> str:
        s = self.summary
        spread = f" ± {s.sd:.2f}" if s.sd is not None else ""
        return f"{s.mean:.2f}{spread} {self.unit}"


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


# The differences


@dataclass(frozen=True)
class Difference:
    """A − B in points or bits per character, found by one method.

    Interval and p are None where ``note`` says what is missing. over: what the interval generalizes to.
    """

    method: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    note: str
    over: str

    def cells(self) -> tuple[str, str, str, str, str]:
        """Method, difference, interval, p, note, as text."""
        value = "–" if self.value is None else signed(self.value)
        interval = (
            "–" if self.low is None or self.high is None else f"{signed(self.low)} to {signed(self.high)}"
        )
        p = "–" if self.p is None else "< 0.001" if self.p < 0.001 else f"{self.p:.2g}"
        return self.method, value, interval, p, self.note


def over_seeds(a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """Welch's test: would other training runs show the difference?"""
    value = _mean(a) - _mean(b)
    method = "over seeds (Welch)"
    try:
        test = welch(list(a.values()), list(b.values()))
    except InputError:
        few = min(len(a), len(b)) < 2
        note = "a test needs at least 2 seeds in both groups" if few else "in both groups all runs are equal"
        return Difference(method, value, None, None, None, note, "seeds")
    note = "about other training runs: the seeds are independent samples"
    return Difference(method, value, test.low, test.high, test.p, note, "seeds")


def paired_by_seed(a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """The t-test of the differences seed by seed: equal seeds saw equal batches and augmentation."""
    seeds = sorted(a.keys() & b.keys())
    method = f"paired by seed ({len(seeds)} in common)"
    if not seeds:
        return Difference(method, None, None, None, None, "no seed was trained in both groups", "seeds")
    # the same number of images may be another fraction in the last bits, and bits are no spread
    differences = np.array([round(a[seed] - b[seed], 9) for seed in seeds])
    s = summarize(differences)
    if not s.sd:
        note = "an interval needs two seeds in both groups" if s.n == 1 else "all seeds differ by the same"
        return Difference(method, s.mean, None, None, None, note, "seeds")
    p = float(stats.ttest_1samp(differences, 0).pvalue)
    note = "about other seeds: equal seeds saw the same images in the same order"
    return Difference(method, s.mean, s.low, s.high, p, note, "seeds")


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
        """A − B over seeds, paired by seed, and image by image; the characters of a text are no sample."""
        a, b = self.a.values(), self.b.values()
        by_image = [] if self.a.of_text else [image_by_image(self.a, self.b)]
        return [over_seeds(a, b), paired_by_seed(a, b), *by_image]

    @property
    def unit(self) -> str:
        """Of a difference."""
        return "bits per character" if self.a.of_text else "points of test accuracy"

    @property
    def sentence(self) -> str:
        """The result in words, from the test over seeds, or from the images where seeds cannot tell."""
        seeds, *_, last = self.differences
        d = seeds if seeds.low is not None else last
        if d.value is None or d.low is None or d.high is None:
            return f"No difference is established: {seeds.note}."
        unit = self.unit.removesuffix(" of test accuracy")
        interval = f"95 % interval over {d.over}: {signed(d.low)} to {signed(d.high)} {unit}"
        if d.low <= 0 <= d.high:
            return f"No difference is established ({interval})."
        a_is_better = (d.value > 0) != self.a.of_text  # of bits, less is better
        better, worse = (self.a, self.b) if a_is_better else (self.b, self.a)
        return f"{better.name} is better than {worse.name} by {abs(d.value):.2f} {unit} ({interval})."

    def __str__(self) -> str:
        width = max(len(self.a.name), len(self.b.name))
        lines = [f"{x}  {g.name:{width}}  {g}   n = {len(g.runs)}" for x, g in (("A", self.a), ("B", self.b))]
        for difference in self.differences:
            method, value, interval, p, note = difference.cells()
            interval = note if difference.low is None else f"[{interval}]"
            p = "" if difference.p is None else f"   p {p if p.startswith('<') else f'= {p}'}"
            lines.append(f"A − B {method:28} {value:>7}   {interval}{p}")
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


# The page


def comparison_page(comparison: Comparison) -> str:
    """The comparison as an HTML page that stands alone."""
    groups = (("A", comparison.a), ("B", comparison.b))
    drawing, drawing_note = _curves(comparison)
    left, right = (_settings(next(iter(group.runs.values()))) for _, group in groups)
    settings = [(key, left.get(key, "–"), right.get(key, "–")) for key in left | right]
    return render(
        "comparison.html",
        title=f"{comparison.a.name} against {comparison.b.name}",
        sentence=comparison.sentence,
        unit=comparison.unit,
        of_text=comparison.a.of_text,
        groups=[(f"{x}: {g.name}", str(len(g.runs)), str(g), ", ".join(map(str, g.runs))) for x, g in groups],
        differences=[difference.cells() for difference in comparison.differences],
        drawing=drawing,
        drawing_note=drawing_note,
        robustness=_robustness(comparison),
        differing=[(key, a, b) for key, a, b in settings if a != b],
        agreeing=[(key, a) for key, a, b in settings if a == b],
        not_compared=NOT_COMPARED,
        origins=[_origin(x, record) for x, g in groups for record in g.runs.values()],
    )


def _origin(letter: str, record: Record) -> tuple[str, ...]:
    provenance, environment = record.provenance, record.environment
    return (
        f"{letter}, seed {record.seed}",
        f"{record.score:.2f} {'bits' if record.bits else '%'}",
        f"{record.throughput:,.0f}",
        f"{provenance.wall_seconds:,.0f}",
        provenance.commit[:10] + (" with changes" if provenance.dirty else ""),
        environment.device_name,
        f"torch {environment.torch}, timm {environment.timm}",
        provenance.finished[:16].replace("T", " "),
    )


def _settings(record: Record) -> dict[str, str]:
    """What a run was configured with, as text by key."""
    values: dict[str, Any] = {"encoding": record.encoding}
    values |= {f"option {key}": value for key, value in record.encoding_options.items()}
    values |= {"trained numbers": f"{record.parameters:,}", "protocol": record.protocol}
    values |= flatten(record.config)
    return {key: _text(value) for key, value in values.items()}


def _text(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


def _robustness(comparison: Comparison) -> list[tuple[str, ...]]:
    """Accuracy at other sizes and with moved images, one row for each that both groups recorded."""
    first = next(iter(comparison.a.runs.values()))
    length = "characters" if comparison.a.of_text else "px"
    sizes = sorted(first.bits, key=int)[1:] if first.bits else sorted(first.resolutions, key=int)
    conditions = [("size", key, f"{key} {length}") for key in sizes]
    conditions += [("shift", key, f"moved {key} px right and down") for key in sorted(first.shifts, key=int)]
    rows: list[tuple[str, ...]] = []
    for kind, key, label in conditions:
        a, b = (group.values(**{kind: key}) for group in (comparison.a, comparison.b))
        if b:
            _, value, interval, p, _ = over_seeds(a, b).cells()
            unit = comparison.a.unit
            rows.append((label, f"{_mean(a):.2f} {unit}", f"{_mean(b):.2f} {unit}", value, interval, p))
    return rows


def _curves(comparison: Comparison) -> tuple[str, str]:
    """Held-out accuracy against epoch, every run a line: inline SVG that follows light and dark, its caption.

    Without a drawing the SVG is "" and the caption says why.
    """
    if find_spec("matplotlib") is None:
        return "", "Not drawn: matplotlib is missing. Repair: pip install -e '.[notebooks]'."
    # matplotlib is optional here, and figures need it
    import matplotlib.pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    from rollpe import figures  # noqa: PLC0415

    groups = (("A", comparison.a, figures.BLUE, "-"), ("B", comparison.b, figures.VERMILION, "--"))
    runs = [record for _, group, _, _ in groups for record in group.runs.values()]
    if not all(record.history for record in runs):
        return "", "Not measured: not every run kept its epochs."
    held_out = all(epoch.held_out_accuracy is not None for record in runs for epoch in record.history)
    what = "held-out accuracy (%)" if held_out else "training loss (nats)"
    ends = []
    figures.use_theme()
    with plt.rc_context({"svg.fonttype": "none", "figure.facecolor": "none", "axes.facecolor": "none"}):
        fig, ax = plt.subplots(figsize=(6.0, 3.4))
        for letter, group, color, dashes in groups:
            label: str | None = f"{letter}: {group.name}"
            for record in group.runs.values():
                epochs = [epoch.epoch for epoch in record.history]
                values = _series(record, held_out)
                ax.plot(epochs, values, color=color, linestyle=dashes, linewidth=1.3, label=label)
                label = None
            last = np.mean([_series(record, held_out)[-1] for record in group.runs.values()])
            ends.append(f"{letter} ends at {last:.2f}")
        ax.set(xlabel="epoch", ylabel=what)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(loc="lower right" if held_out else "upper right")
        drawing = io.StringIO()
        fig.savefig(drawing, format="svg", metadata={"Date": None})
        plt.close(fig)
    svg = re.sub(r"<metadata>.*?</metadata>", "", drawing.getvalue(), flags=re.DOTALL)
    svg = svg[svg.index("<svg") :]
    follow = {figures.INK: "currentColor", figures.BLUE: "var(--a)", figures.VERMILION: "var(--b)"}
    for color, variable in follow.items():
        svg = svg.replace(color.lower(), variable)
    label = f"{what} against epoch, one line a run, A solid and B dashed; {' and '.join(ends)}."
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
    return svg, f"{what.capitalize()} after every epoch, one line a run. A is solid, B is dashed."


def _series(record: Record, held_out: bool) -> list[float]:
    if held_out:
        return [100 * (epoch.held_out_accuracy or 0.0) for epoch in record.history]
    return [epoch.train_loss for epoch in record.history]
