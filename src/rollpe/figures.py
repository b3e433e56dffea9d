"""One theme and one function per kind of plot.

Every function takes plain arrays or records, draws on an Axes that it is given or makes, and returns the
Axes: no file is written and no number is computed here that a table would not also have. Colors are
Okabe and Ito's, which remain distinct for color-blind readers; an encoding keeps its color on every page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler

from rollpe.statistics import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rollpe.records import Record

INK = "#333333"
MUTED = "#767676"
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#B8A200",
    "#000000",
)
SEQUENTIAL = "cividis"
DIVERGING = "RdBu_r"

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
    """Set the theme and, inside a notebook, vector output."""
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
            "image.interpolation": "nearest",
            "svg.hashsalt": "rollpe",  # the same figure gives the same bytes
        }
    )
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    if get_ipython() is not None:
        set_matplotlib_formats("svg")


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
        ax.plot(epochs, accuracy, color=color_of(record.encoding), alpha=0.75, linewidth=1.3)
        last.setdefault(record.encoding, []).append((epochs[-1], accuracy[-1]))
    ends = {name: np.mean(points, axis=0) for name, points in last.items()}
    label_line_ends(ax, ends)
    ax.set(xlabel="epoch", ylabel="held-out accuracy (%)")
    return ax


def label_line_ends(ax: Axes, ends: Mapping[str, np.ndarray], gap: float = 0.055) -> None:
    """Write each name beside the end of its line, in its color, moved apart by ``gap`` of the axis height."""
    low, high = ax.get_ylim()
    names = sorted(ends, key=lambda name: ends[name][1])
    height = -np.inf
    for name in names:
        x, y = ends[name]
        height = max(y, height + gap * (high - low))
        ax.annotate(
            name,
            (x, height),
            xytext=(6, 0),
            textcoords="offset points",
            color=color_of(name),
            va="center",
            fontsize=9,
        )


def accuracy_intervals(samples: Mapping[str, Sequence[float]], ax: Axes | None = None) -> Axes:
    """One row an encoding: every run as a dot, the mean as a bar, the 95 % interval of the mean as a line.

    ``samples`` maps a label to the accuracies in [0, 1] of its runs; the rows keep the mapping's order.
    """
    ax = ax or plt.subplots(figsize=(6.4, 0.45 * len(samples) + 1.1))[1]
    for row, (label, accuracies) in enumerate(samples.items()):
        color, summary = color_of(label), summarize(accuracies)
        if summary.low is not None and summary.high is not None:
            ax.plot(
                [100 * summary.low, 100 * summary.high], [row, row], color=color, linewidth=2.2, alpha=0.6
            )
        ax.plot(100 * summary.mean, row, "|", color=color, markersize=15, markeredgewidth=2.4)
        ax.plot(100 * np.asarray(accuracies), np.full(len(accuracies), row), "o", color=color, markersize=4)
    ax.set_yticks(range(len(samples)), list(samples))
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("test accuracy (%)")
    return ax


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
        ax.plot(0, 0, "+", color=color, markersize=6, markeredgewidth=width)
        if mark is not None:
            ring = ax.plot(mark[1], mark[0], "o", color=color, markersize=10)[0]
            ring.set(markerfacecolor="none", markeredgewidth=width)
    ax.set(title=title, xticks=[-right, 0, right], yticks=[-down, 0, down])
    return ax
