"""One function for each kind of plot.

Most chapters need neither seaborn nor scipy, which take seconds: they are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import matplotlib.pyplot as plt
import numpy as np

from rollpe_book.figures.theme import BLUE, DIVERGING, INK, MUTED, ORANGE, color_of, drawn_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from rollpe_lab.records.record import Record
    from rollpe_lab.statistics import Summary


def learning_curves(records: Sequence[Record], ax: Axes) -> None:
    """Held-out accuracy against epoch: one thin line for each run, one label for each encoding."""
    ends: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        scored = {
            e.epoch: 100 * e.held_out_accuracy for e in record.history if e.held_out_accuracy is not None
        }
        epochs, accuracy = list(scored), list(scored.values())
        name = f"{record.encoding}, seed {record.seed}"
        ax.plot(epochs, accuracy, color=color_of(record.encoding), alpha=0.75, linewidth=1.3, label=name)
        ends.setdefault(record.encoding, []).append((epochs[-1], accuracy[-1]))
    label_line_ends(ax, {name: np.mean(points, axis=0) for name, points in ends.items()})
    ax.set(xlabel="epoch", ylabel="held-out accuracy (%)")
    drawn_from(ax.figure, records)


def label_line_ends(ax: Axes, ends: Mapping[str, np.ndarray], gap: float = 0.06) -> None:
    """Write each name beside the end (x, y) of its line, in its color.

    Names keep the order of the ends and at least ``gap`` of the axis height between them, with the least sum
    of squared shifts.
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    low, high = ax.get_ylim()
    names = sorted(ends, key=lambda name: ends[name][1])
    steps = gap * (high - low) * np.arange(len(names))
    heights = isotonic_regression([ends[name][1] for name in names] - steps).x + steps
    for name, height in zip(names, heights, strict=True):
        ax.annotate(
            name,
            (ends[name][0], height),
            xytext=(6, 0),
            textcoords="offset points",
            color=color_of(name),
            va="center",
            fontsize=9,
            annotation_clip=False,  # a name may be moved past the end of the axis
        )


def runs_in_rows(
    samples: Mapping[str, Sequence[float]], ax: Axes | None = None, *, interval: bool = True
) -> Axes:
    """One row for each label: runs as dots, their mean as a bar and, with ``interval``, its 95 % t-interval.

    ``samples``: a number for each run, by label, in the order of the rows.
    """
    import seaborn as sns  # noqa: PLC0415

    ax = ax or plt.subplots(figsize=(6.4, 0.45 * len(samples) + 1.1))[1]
    table = [(label, value) for label, values in samples.items() for value in values]
    rows, x = zip(*table, strict=True)
    bar = {"marker": "|", "markersize": 15, "markeredgewidth": 2.4, "linestyle": "none", "color": INK}
    spread = {"errorbar": t_interval if interval else None, "err_kws": {"linewidth": 2.2, "alpha": 0.4}}
    sns.pointplot(x=x, y=rows, orient="h", **bar, **spread, ax=ax)
    palette = {label: color_of(label) for label in samples}
    sns.stripplot(x=x, y=rows, hue=rows, palette=palette, legend=False, jitter=False, size=4, ax=ax)
    name_rows(ax, list(samples))
    return ax


def t_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The ends of the 95 % t-interval of a mean; none of fewer than three values."""
    from rollpe_lab.statistics import summarize  # noqa: PLC0415

    summary = summarize(values)
    return summary.low, summary.high


def runs_beside(
    samples: Mapping[tuple[str, str], Sequence[float]], colors: Mapping[str, str], ax: Axes, *, legend: bool
) -> Axes:
    """Runs as dots: a row for each first word of the keys, and in it a line for each second in its color."""
    import seaborn as sns  # noqa: PLC0415

    table = [(*words, value) for words, values in samples.items() for value in values]
    if not table:
        return ax
    y, hue, x = zip(*table, strict=True)
    rows = list(dict.fromkeys(row for row, _ in samples))
    order: dict[str, Any] = {"order": rows, "hue_order": list(colors), "palette": dict(colors)}
    sns.stripplot(x=x, y=y, hue=hue, **order, dodge=True, jitter=False, legend=legend, ax=ax)
    return ax


def accuracy_under(
    condition: Literal["resolutions", "shifts"], arms: Mapping[str, Sequence[Record]], trained: int, ax: Axes
) -> None:
    """Test accuracy against image size or shift: one dot for each run, a line through the means.

    ``condition``: the field of the records, accuracies by pixels. ``arms``: runs by encoding. ``trained``:
    the value in training; the dotted line marks it, and the plain test accuracy is drawn there.
    """
    ends = {}
    for name, runs in arms.items():
        by_run = [{int(x): y for x, y in getattr(r, condition).items()} for r in runs]
        for run, values in zip(runs, by_run, strict=True):
            values[trained] = run.test.accuracy
        pixels = sorted(set.intersection(*(set(values) for values in by_run)))
        percent = 100 * np.array([[values[x] for x in pixels] for values in by_run])
        color, mean = color_of(name), percent.mean(0)
        ax.plot(pixels, mean, color=color, label=f"{name}, mean")
        ax.plot(np.tile(pixels, len(runs)), percent.ravel(), "o", color=color, markersize=2.5, label=name)
        ends[name] = np.array([pixels[-1], mean[-1]])
        drawn_from(ax.figure, runs)
    ax.set_ylim(bottom=0)
    ax.set_xticks(pixels)
    ax.axvline(trained, color=MUTED, linewidth=0.8, linestyle=":")
    label_line_ends(ax, ends)
    ax.set_ylabel("test accuracy (%)")


def name_rows(ax: Axes, names: Sequence[str], reference: float | None = None) -> None:
    """Name the rows y = 0, 1, … from the top down; a thin line marks x = ``reference``."""
    if reference is not None:
        ax.axvline(reference, color=MUTED, linewidth=0.8)
    ax.set_yticks(range(len(names)), names)
    ax.yaxis.set_inverted(True)
    ax.set_ylabel("")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def offset_map(
    values: np.ndarray, ax: Axes, *, limit: float, title: str, mark: tuple[int, int] | None = None
) -> None:
    """Scores over all signed offsets on a grid of G_y × G_x patches: Δ_y down, Δ_x right, a cross at 0.

    ``values`` [2·G_y − 1, 2·G_x − 1], offset (0, 0) in the middle. Colors go from −``limit`` to
    ``limit``. ``mark``: an offset (Δ_y, Δ_x) to draw a ring around.
    """
    down, right = (size // 2 for size in values.shape)
    extent = (-right - 0.5, right + 0.5, down + 0.5, -down - 0.5)
    ax.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, extent=extent)
    for color, width in (("white", 2.4), (INK, 1.0)):  # legible on dark and on light
        ax.plot(0, 0, "+", color=color, markersize=6, markeredgewidth=width, label="offset zero")
        if mark is not None:
            ring = ax.plot(mark[1], mark[0], "o", color=color, markersize=10, label="marked offset")[0]
            ring.set(markerfacecolor="none", markeredgewidth=width)
    ax.set(title=title, xticks=[-right, 0, right], yticks=[-down, 0, down])


def correlation_matrices(by_distance: Mapping[str, ArrayLike], axes: Sequence[Axes]) -> None:
    """How much alike the channels of a ring respond: one matrix for each label, all in one scale of colors.

    ``by_distance`` [..., n/2 + 1]: correlations of two channels by their distance 0 … n/2 around a ring of n
    channels, as records keep them; the mean is taken over all leading axes. No single pair is known, so each
    cell is the mean of all pairs at its distance: the matrix is a circulant. Colors go from −1 to 1, with
    one color bar; the titles tell the correlation of neighbors and of any two channels. ``axes``: as many as
    there are labels.
    """
    for ax, (label, values) in zip(axes, by_distance.items(), strict=True):
        values = np.asarray(values)
        mean = values.mean(tuple(range(values.ndim - 1)))
        n = 2 * (len(mean) - 1)
        steps = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        matrix = mean[np.minimum(steps, n - steps)]
        any_two = (matrix.sum() - matrix.trace()) / (n * (n - 1))
        ax.imshow(matrix, cmap=DIVERGING, vmin=-1, vmax=1)
        ticks = range(0, n, max(n // 4, 1))
        ax.set(xticks=ticks, yticks=ticks, xlabel="channel")
        ax.set_title(f"{label}\nneighbors {mean[1]:.2f},\nany two {any_two:.2f}".replace("-", "−"))
    axes[0].set_ylabel("channel on the ring")
    bar = axes[0].figure.colorbar(axes[0].images[0], ax=list(axes), shrink=0.8, ticks=[-1, 0, 1])
    bar.set_label("correlation")


def gaps_to_the_table(records: Sequence[Record], ax: Axes) -> dict[str, dict[str, Summary]]:
    """Points ahead of a learned table with 95 % intervals: a row for each encoding, in it one mark a source.

    Returns what it draws, `rollpe_lab.evidence.table.leads`. The legend lies under the axes, outside.
    """
    from rollpe_lab.evidence.table import LEADING, SOURCES, leads  # noqa: PLC0415

    found, drawn = leads(records), []
    for step, (source, color) in enumerate(zip(found, (MUTED, ORANGE, BLUE), strict=True)):
        rows = {y + 0.22 * (step - 1): found[source].get(slug) for y, slug in enumerate(LEADING)}
        gaps = {y: gap for y, gap in rows.items() if gap}
        middles = [gap.mean for gap in gaps.values()]
        drawn += ax.plot(middles, list(gaps), "sDo"[step], color=color, markersize=5, label=source)
        for y, gap in gaps.items():
            if gap.low is not None and gap.high is not None:
                ax.plot([gap.low, gap.high], [y, y], color=color, alpha=0.6, label=f"{source}, 95 %")
    name_rows(ax, [name.replace(" ", "\n", 1) for name in LEADING.values()], reference=0)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("points ahead of a learned table")
    ax.figure.legend(handles=drawn, loc="outside lower center", frameon=False)
    arms = {arm for source in SOURCES.values() for arm in source.values()}
    drawn_from(ax.figure, [run for run in records if run.run_id.arm in arms])
    return found
