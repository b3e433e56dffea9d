"""One theme and one function per kind of plot.

Every function takes plain arrays or records, draws on an Axes that it is given or makes, and returns the
Axes: no file is written and no number is computed here that a table would not also have. An encoding keeps
its color on every page. Each color has a twin for dark pages (:func:`to_dark`); in both sets words have
enough contrast to be read, and the colors remain distinct for color-blind readers. What a figure shows as
plain numbers is read off it in rollpe.plotted; how it is set for a telephone stands in rollpe.narrow.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.colors import to_hex
from scipy.optimize import isotonic_regression

from rollpe.narrow import EDGE, narrow
from rollpe.plotted import to_csv
from rollpe.statistics import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rollpe.records import Record

INK = "#333333"
MUTED = "#5c5c5c"
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW, BLACK = (
    "#0068a6",
    "#a46800",
    "#00855f",
    "#ad5592",
    "#3d9bd6",
    "#a92f00",
    "#6b6000",
    "#010101",  # not quite black: matplotlib leaves the fill out of an SVG if it is black
)
ON_DARK, ON_PALE = "#fefefe", "#2d2d2d"
"""Lines on top of dark and of pale color maps, which are the same on light and dark pages."""
SEQUENTIAL = "cividis"
DIVERGING = "RdBu_r"

DARK: dict[str, str] = {
    "#ffffff": "#121212",  # the ground of a dark page, as the book's theme has it
    INK: "#ced6dd",
    MUTED: "#8f8f8f",
    BLUE: "#4f9fe0",
    ORANGE: "#f5b83d",
    GREEN: "#2fd0a0",
    PINK: "#e89ac8",
    SKY: "#9ad7ff",
    VERMILION: "#ff7a3d",
    YELLOW: "#f2ec7a",
    BLACK: "#ffffff",
}
"""What takes the place of each color on a dark page. Colors that are not listed, and color maps, stay."""

COLORS: dict[str, str] = {
    "none": MUTED,
    "sinusoidal": YELLOW,
    "learned": ORANGE,
    "axial-rope": BLUE,
    "rope": BLUE,
    "mixed-rope": SKY,
    "roll": VERMILION,
    "roll-twin": PINK,
    "multiplexed-roll": GREEN,
}


def use_theme() -> None:
    """Set the theme and, inside a notebook, vector output that carries the plotted numbers along."""
    mpl.rcParams.update(
        {
            "figure.figsize": (6.4, 3.4),
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "font.family": "DejaVu Sans",
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": False,
            "axes.prop_cycle": cycler(color=[BLUE, VERMILION, GREEN, ORANGE, PINK, SKY, YELLOW, BLACK]),
            "lines.linewidth": 1.8,
            "legend.frameon": False,
            "image.cmap": SEQUENTIAL,
            "image.interpolation": "none",  # one cell of an array stays one square, however large it is shown
            "svg.hashsalt": "rollpe",  # the same figure gives the same bytes
        }
    )
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    shell = get_ipython()
    if shell is not None:
        set_matplotlib_formats("svg")
        shell.display_formatter.formatters["image/svg+xml"].for_type(mpl.figure.Figure, show)


def show(figure: Figure) -> tuple[str, dict[str, Any]]:
    """What a notebook keeps of a figure: SVG, and ``csv``, ``thinned``, ``records``, ``narrow`` as metadata.

    ``csv`` and ``thinned`` come from :func:`rollpe.plotted.to_csv`; ``records`` names the runs given to
    :func:`drawn_from` as recipe/encoding; ``narrow`` is the SVG of its twin for a telephone
    (:mod:`rollpe.narrow`).
    """
    keep_words_on_maps(figure)
    svg = _to_svg(figure)
    csv, thinned = to_csv(figure)
    about = {"csv": csv, "thinned": thinned, "records": getattr(figure, "rollpe_records", [])}
    return svg, about | {"narrow": _to_svg(narrow(figure), pad_inches=EDGE)}


def _to_svg(figure: Figure, **options: Any) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None}, **options)
    return file.getvalue()


def keep_words_on_maps(figure: Figure) -> None:
    """Give words that stand on a color of a map a color that :func:`to_dark` leaves, as it leaves the map's.

    It is the same color to the eye: one step in 255 away from that of the theme.
    """
    for ax in figure.axes:
        patches = [p for p in ax.patches if p.get_fill() and to_hex(p.get_facecolor()) not in DARK]
        for words in ax.texts:
            color = to_hex(words.get_color())
            at = words.get_transform().transform(words.get_position())
            on_patch = any(patch.get_window_extent().contains(*at) for patch in patches)
            if color in DARK and (on_patch or any(_covers(image, at) for image in ax.images)):
                step = -1 if color == "#ffffff" else 1
                words.set_color(f"#{int(color[1:], 16) + step:06x}")


def _covers(image: Any, at: np.ndarray) -> bool:
    """Whether an image has a color at a place of the screen; it has none where its value is nan."""
    if not image.get_window_extent().contains(*at):
        return False
    x, y = image.axes.transData.inverted().transform(at)
    left, right, bottom, top = image.get_extent()
    values = np.ma.masked_invalid(image.get_array())
    rows, columns = values.shape[:2]
    down = (y - bottom) / (top - bottom) if image.origin == "lower" else (top - y) / (top - bottom)
    row, column = int(down * rows), int((x - left) / (right - left) * columns)
    cell = values[min(row, rows - 1), min(column, columns - 1)]
    return not np.ma.getmaskarray(cell).any()


def drawn_from(figure: Any, records: Sequence[Record]) -> None:
    """Note on a figure which runs it shows, so that the book can link to their records."""
    cells = (r.cell.path.parent.as_posix() for r in records)
    figure.rollpe_records = list(dict.fromkeys([*getattr(figure, "rollpe_records", []), *cells]))


def to_dark(svg: str) -> str:
    """The same drawing for a dark page: each color of the theme replaced by its twin in ``DARK``."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: DARK.get(match.group(0), match.group(0)), svg)


def color_of(encoding: str) -> str:
    """The color of an encoding, also of a combination or of one with options."""
    return COLORS.get(encoding, COLORS.get(encoding.split("@")[0].split("+")[-1], BLACK))


def learning_curves(records: Sequence[Record], ax: Axes | None = None) -> Axes:
    """Held-out accuracy against epoch: one thin line a run, one label an encoding."""
    ax = ax or plt.subplots()[1]
    last: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        epochs = [epoch.epoch for epoch in record.history]
        accuracy = [
            np.nan if epoch.held_out_accuracy is None else 100 * epoch.held_out_accuracy
            for epoch in record.history
        ]
        name = f"{record.encoding}, seed {record.seed}"
        ax.plot(epochs, accuracy, color=color_of(record.encoding), alpha=0.75, linewidth=1.3, label=name)
        last.setdefault(record.encoding, []).append((epochs[-1], accuracy[-1]))
    ends = {name: np.mean(points, axis=0) for name, points in last.items()}
    label_line_ends(ax, ends)
    ax.set(xlabel="epoch", ylabel="held-out accuracy (%)")
    drawn_from(ax.figure, records)
    return ax


def label_line_ends(ax: Axes, ends: Mapping[str, np.ndarray], gap: float = 0.06) -> None:
    """Write each name beside the end of its line, in its color, in the order of the ends.

    Names are moved as little as it takes to stand ``gap`` of the axis height apart.
    """
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


def accuracy_intervals(samples: Mapping[str, Sequence[float]], ax: Axes | None = None) -> Axes:
    """One row an encoding: every run as a dot, the mean as a bar, the 95 % interval of the mean as a line.

    ``samples`` maps a label to the accuracies in [0, 1] of its runs; the rows keep the mapping's order.
    """
    ax = ax or plt.subplots(figsize=(6.4, 0.45 * len(samples) + 1.1))[1]
    for row, (label, accuracies) in enumerate(samples.items()):
        color, summary = color_of(label), summarize(accuracies)
        if summary.low is not None and summary.high is not None:
            ends = [100 * summary.low, 100 * summary.high]
            name = f"{label}, 95 % interval"
            ax.plot(ends, [row, row], color=color, linewidth=2.2, alpha=0.6, label=name)
        mean, runs = 100 * summary.mean, 100 * np.asarray(accuracies)
        ax.plot(mean, row, "|", color=color, markersize=15, markeredgewidth=2.4, label=f"{label}, mean")
        ax.plot(runs, np.full(len(runs), row), "o", color=color, markersize=4, label=f"{label}, runs")
    name_rows(ax, list(samples))
    ax.set_xlabel("test accuracy (%)")
    return ax


def accuracy_under(
    condition: Literal["resolutions", "shifts"],
    arms: Mapping[str, Sequence[Record]],
    trained: int,
    ax: Axes | None = None,
) -> Axes:
    """Test accuracy against a condition that training never showed: a line through the means, a dot a run.

    condition: the field of the records, by pixels. arms: runs by encoding. trained: the value of training,
    where the dotted line stands and the plain test accuracy belongs.
    """
    ax = ax or plt.subplots()[1]
    ends = {}
    for name, runs in arms.items():
        by_run = [{int(x): y for x, y in getattr(r, condition).items()} for r in runs]
        for run, values in zip(runs, by_run, strict=True):
            values[trained] = run.test.accuracy
        places = sorted(set.intersection(*(set(values) for values in by_run)))
        percent = 100 * np.array([[values[x] for x in places] for values in by_run])
        color, mean = color_of(name), percent.mean(0)
        ax.plot(places, mean, color=color, label=f"{name}, mean")
        ax.plot(np.tile(places, len(runs)), percent.ravel(), "o", color=color, markersize=2.5, label=name)
        ends[name] = np.array([places[-1], mean[-1]])
        drawn_from(ax.figure, runs)
    ax.set_ylim(bottom=0)
    ax.set_xticks(places)
    ax.axvline(trained, color=MUTED, linewidth=0.8, linestyle=":")
    label_line_ends(ax, ends)
    ax.set_ylabel("test accuracy (%)")
    return ax


def name_rows(ax: Axes, names: Sequence[str], reference: float | None = None) -> None:
    """Make the lines y = 0, 1, … named rows, from the top down; a thin line at x = ``reference``."""
    if reference is not None:
        ax.axvline(reference, color=MUTED, linewidth=0.8)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def offset_map(
    values: np.ndarray,
    ax: Axes | None = None,
    *,
    title: str = "",
    limit: float | None = None,
    mark: tuple[int, int] | None = None,
) -> Axes:
    """Scores over all signed offsets on a grid: Δ_y down, Δ_x to the right, a cross at zero.

    ``values`` [2·G_y − 1, 2·G_x − 1], offset (0, 0) in the middle. Colors diverge around 0 up to ``limit``,
    the largest absolute value by default. ``mark`` puts a ring around one offset (Δ_y, Δ_x).
    """
    ax = ax or plt.subplots()[1]
    values = np.asarray(values)
    down, right = (size // 2 for size in values.shape)
    limit = limit or float(np.abs(values).max()) or 1.0
    extent = (-right - 0.5, right + 0.5, down + 0.5, -down - 0.5)
    ax.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, extent=extent)
    for color, width in (("white", 2.4), (INK, 1.0)):  # legible on dark and on light
        ax.plot(0, 0, "+", color=color, markersize=6, markeredgewidth=width, label="offset zero")
        if mark is not None:
            ring = ax.plot(mark[1], mark[0], "o", color=color, markersize=10, label="marked offset")[0]
            ring.set(markerfacecolor="none", markeredgewidth=width)
    ax.set(title=title, xticks=[-right, 0, right], yticks=[-down, 0, down])
    return ax
