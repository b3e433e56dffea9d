"""The twin of a figure for a page as narrow as a telephone's: the same panels and marks, set anew.

Panels that stood side by side go one below the other, or into as many columns as their words allow; words
become a little smaller, never tiny; long names of rows go above their rows, bars of colors above their maps.
Nothing is computed or drawn again: a copy of the figure is taken apart and put together, so that the wide one
and its table of numbers stay as they are. Not here: how figures look (rollpe.figures), which of the two a
page shows (rollpe.book.figures).
"""

from __future__ import annotations

import copy
import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.gridspec import GridSpec
from matplotlib.text import Text
from matplotlib.textpath import TextPath
from matplotlib.ticker import AutoLocator, FixedLocator
from matplotlib.transforms import Bbox

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

WIDTH = 342 * 0.75 / 72
"""Inches of the column of a telephone of 390 px; a CSS pixel is 3/4 of a point."""
SMALLEST = 7.5
"""Points of the smallest words: 10 px."""
SHRINK = 0.82
"""Words of 10 points become 8.2 points, which are 11 px."""
EDGE = 0.02
"""Inches around the whole, in place of Matplotlib's 0.1."""
GAP = 0.08
"""Inches between one panel with its words and the next."""
TALLEST = 2.6
"""Inches of the tallest map."""
LEAST, LEAST_WITH_WORDS, CELL = 0.55, 1.1, 4 / 96
"""Inches of the narrowest map, of one with words in it, and of one of its cells."""
LONG_NAME = 0.33
"""The share of the width above which the names of rows go above their rows."""
ROW = 0.35
"""Inches of a row that has its name above it."""
BAR = 0.55
"""Inches of a bar of colors with its words."""


class _Panel(NamedTuple):
    """A panel, its place in the grid, and in inches its own size and the room that its words take."""

    ax: Axes
    row: int
    column: int
    width: float
    height: float
    left: float
    right: float
    above: float
    below: float

    @property
    def is_map(self) -> bool:
        return bool(self.ax.images)

    @property
    def least(self) -> float:
        """The least width of it, words that stand over it and its neighbor's margin included."""
        inside = [words for words in self.ax.texts if _is_inside(words, self.ax)]
        outside = [words for words in self.ax.texts if words not in inside]
        words = max(_width(words) for words in (_title(self.ax), self.ax.xaxis.label, *outside))
        cells = max(image.get_array().shape[1] for image in self.ax.images)  # type: ignore[union-attr]
        return max(words, LEAST_WITH_WORDS if inside else LEAST, cells * CELL)


def narrow(figure: Figure) -> Figure:
    """A copy of a drawn figure for a column of 342 px, to be saved with ``pad_inches=EDGE``.

    Only panels in a plain grid, of a figure or of its subfigures, are moved; others become narrower.
    """
    manager, figure.canvas.manager = figure.canvas.manager, None  # else the copy is one more open figure
    try:
        made = copy.deepcopy(figure)
    finally:
        figure.canvas.manager = manager
    FigureCanvasAgg(made)
    sizes = {id(ax): _box(ax, original=True) for ax in made.axes}
    _shrink_words(made)
    bars = [_take_off(ax) for ax in made.axes if ax.get_label() == "<colorbar>"]
    parts: list[Any] = list(made.subfigs) or [made]
    heights = [_arrange(part, sizes) for part in parts]
    if made.subfigs:
        grid = GridSpec(len(parts), 1, figure=made, height_ratios=heights)
        for row, part in enumerate(parts):
            part._subplotspec = grid[row]
            part._redo_transform_rel_fig()
    height = sum(heights) + BAR * len(bars)
    made.set_size_inches(WIDTH - 2 * EDGE, height)
    for part, options in bars:
        bar = part.colorbar(**options, location="top", aspect=30, shrink=0.85, pad=0.08 / height)
        bar.ax.tick_params(labelsize=SMALLEST)
        bar.ax.xaxis.label.set_fontsize(SMALLEST)
    if all(ax.get_aspect() != "auto" for ax in made.axes if ax.get_label() != "<colorbar>"):
        made.set_layout_engine("compressed")
    return made


# ------------------------------------------------------------------------------------------- what is there


def _box(ax: Axes, original: bool = False) -> Bbox:
    """The rectangle of a panel, in inches; ``original``: before its shape was kept."""
    part: Any = ax.get_figure(root=False)
    width, height = part.bbox.size / part.dpi
    box = ax.get_position(original=original)
    return Bbox.from_bounds(0, 0, box.width * width, box.height * height)


def _width(words: Text) -> float:
    """The width of some words in inches; their rotation counts."""
    if not words.get_text():
        return 0.0
    root: Any = words.get_figure(root=True)
    hidden = not words.get_visible()
    words.set_visible(True)
    width = words.get_window_extent(root.canvas.get_renderer()).width / root.dpi
    words.set_visible(not hidden)
    return float(width)


def _is_inside(words: Text, ax: Axes) -> bool:
    at = words.get_transform().transform(words.get_position())
    return bool(ax.get_window_extent().contains(*at))


def _title(ax: Axes) -> Text:
    """The title of a panel, on whichever side; an empty one if there is none."""
    sides = (ax._left_title, ax.title, ax._right_title)  # type: ignore[attr-defined]
    return next((title for title in sides if title.get_text()), ax.title)


def _texts(axis: Axis) -> list[str]:
    """What stands at the ticks of an axis, hidden or not."""
    return axis.get_major_formatter().format_ticks(axis.get_majorticklocs())  # type: ignore[arg-type]


def _names(ax: Axes) -> dict[float, str]:
    """The names of a panel's rows by their places; none if numbers stand there."""
    texts = _texts(ax.yaxis)
    if not isinstance(ax.yaxis.get_major_locator(), FixedLocator) or not any(
        re.search("[a-z]{3}", t) for t in texts
    ):
        return {}
    return dict(zip(map(float, ax.yaxis.get_majorticklocs()), texts, strict=True))


def _panels(part: Any, sizes: dict[int, Bbox]) -> list[_Panel]:
    """The panels of one figure or subfigure, if they stand in one plain grid; else none."""
    mine = [ax for ax in part.axes if ax.get_figure(root=False) is part]
    specs = [ax.get_subplotspec() for ax in mine]
    plain = all(spec is not None and len(spec.rowspan) == len(spec.colspan) == 1 for spec in specs)
    if not (mine and plain and len({id(spec.get_gridspec()) for spec in specs}) == 1):
        return []
    panels = []
    for ax, spec in zip(mine, specs, strict=True):
        root = ax.get_figure(root=True)
        words = ax.get_tightbbox(root.canvas.get_renderer(), for_layout_only=True)
        box = ax.get_window_extent()
        ends = [box.x0 - words.x0, words.x1 - box.x1, words.y1 - box.y1, box.y0 - words.y0]
        margins = (max(end, 0) / root.dpi for end in ends)
        size = _box(ax) if ax.get_aspect() != "auto" else sizes[id(ax)]
        panels.append(_Panel(ax, spec.rowspan.start, spec.colspan.start, size.width, size.height, *margins))
    return sorted(panels, key=lambda panel: (panel.row, panel.column))


# ------------------------------------------------------------------------------------------- what is done


def _shrink_words(figure: Figure) -> None:
    def size(words: Any) -> float:
        return max(SMALLEST, SHRINK * words.get_fontsize())

    axes: list[Any] = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    at_ticks: set[Any] = set()
    for axis in axes:
        for which, ticks in (("major", axis.get_major_ticks(1)), ("minor", axis.get_minor_ticks(1))):
            if ticks:
                axis.set_tick_params(which=which, labelsize=size(ticks[0].label1))
        at_ticks.update(axis.get_ticklabels(which="both"))
        if isinstance(axis.get_major_locator(), AutoLocator):
            axis.get_major_locator().set_params(steps=[1, 2, 5, 10])  # few and round
    for words in figure.findobj(Text):
        if words not in at_ticks:
            words.set_fontsize(size(words))


def _take_off(ax: Any) -> tuple[Any, dict[str, Any]]:
    """Take a bar of colors off; returns where and how to put it again, above its maps."""
    bar = ax._colorbar
    info, part = ax._colorbar_info, ax.get_figure(root=False)
    label = ax.get_ylabel() or ax.get_xlabel()
    ticks = bar.get_ticks() if type(bar.locator).__name__ == "FixedLocator" else None
    bar.remove()
    return part, {"mappable": bar.mappable, "ax": info["parents"], "label": label, "ticks": ticks}


def _arrange(part: Any, sizes: dict[int, Bbox]) -> float:
    """Put the panels of one figure or subfigure into fewer columns; returns the height that it takes."""
    _names_above(part)
    panels = _panels(part, sizes)
    if not panels:
        return SHRINK * part.bbox.height / part.dpi
    around = [words for words in (part._supxlabel, part._supylabel) if words is not None]
    beside = 0.2 if part._supylabel is not None else 0.0
    room = WIDTH - 2 * EDGE - beside
    rows = 1 + max(panel.row for panel in panels)
    columns = _columns(panels, room)
    places = _places(panels, rows, columns)
    _show_outer_words(panels, places)
    width = _inner_width(panels, columns, room)
    heights = [0.0] * (1 + max(row for row, _ in places))
    total = list(heights)
    for panel, (row, _) in zip(panels, places, strict=True):
        high = _height(panel, width)
        lines = 0
        for words in (_title(panel.ax), panel.ax.xaxis.label):
            lines += _wrap(words, (room / columns if columns > 1 else width) - GAP / 2)
        heights[row] = max(heights[row], high)
        total[row] = max(total[row], high + panel.above + panel.below + 0.14 * lines)
    old = panels[0].ax.get_subplotspec().get_gridspec()  # type: ignore[union-attr]
    shares = old.get_width_ratios() if columns == old.ncols else None
    grid = GridSpec(len(heights), columns, figure=part, height_ratios=heights, width_ratios=shares)
    for panel, place in zip(panels, places, strict=True):
        panel.ax.set_subplotspec(grid[place])
    return sum(total) + GAP * len(total) + 0.2 * len(around)


def _height(panel: _Panel, width: float) -> float:
    """The height of a panel of this width: maps keep their shape, others most of their height."""
    if panel.is_map:
        return min(width * panel.height / panel.width, TALLEST)
    if panel.ax.get_aspect() != "auto":
        return min(width * panel.height / panel.width, panel.height)
    named = ROW * len(getattr(panel.ax, "rollpe_names", []))
    return max(SHRINK * panel.height, named, 0.5)


def _inner_width(panels: Sequence[_Panel], columns: int, room: float) -> float:
    """The width of a map in this many columns, beside its words."""
    first = max(panel.left for panel in panels)
    inner = max((panel.left for panel in panels if panel.column), default=first)
    right = max(panel.right for panel in panels)
    return (room - first - (columns - 1) * (inner + GAP) - columns * right) / columns


def _columns(panels: Sequence[_Panel], room: float) -> int:
    """Curves get the whole width; maps stand in as many columns as before, or as their words allow."""
    most = 1 + max(panel.column for panel in panels)
    if not all(panel.is_map for panel in panels):
        return 1
    inner = max((panel.left + panel.right for panel in panels if panel.column), default=0)
    for columns in range(most, 1, -1):
        width = _inner_width(panels, columns, room)
        if all(panel.least <= width + inner and width >= LEAST for panel in panels):
            rows = 1 + max(panel.row for panel in panels)
            even = [n for n in range(columns, 1, -1) if rows <= 2 and len(panels) % n == 0]
            return next(iter(even), columns)
    return 1


def _places(panels: Sequence[_Panel], rows: int, columns: int) -> list[tuple[int, int]]:
    """Row and column of every panel. A grid of more than two rows is a table: its rows stay apart."""
    if rows <= 2:
        if max(panel.column for panel in panels) < columns:
            return [(panel.row, panel.column) for panel in panels]
        return [divmod(index, columns) for index in range(len(panels))]
    lines = math.ceil((1 + max(panel.column for panel in panels)) / columns)
    return [(panel.row * lines + panel.column // columns, panel.column % columns) for panel in panels]


def _show_outer_words(panels: Sequence[_Panel], places: Sequence[tuple[int, int]]) -> None:
    """Words that panels share stand at the left of each row and at the foot of each column, as they did."""
    lowest = {column: max(row for row, other in places if other == column) for _, column in places}
    for axis, side in (("x", "bottom"), ("y", "left")):
        get, group = f"get_{axis}label", f"get_shared_{axis}_axes"
        shown = [bool(getattr(p.ax, f"{axis}axis").get_tick_params()[f"label{side}"]) for p in panels]
        labels = [getattr(p.ax, get)() for p in panels]
        one = {label for label in labels if label}
        for panel, (row, column) in zip(panels, places, strict=True):
            outer = column == 0 if axis == "y" else row == lowest[column]
            siblings = getattr(panel.ax, group)().get_siblings(panel.ax)
            of = getattr(panel.ax, f"{axis}axis")
            first = next(p for p in panels if p.row == panel.row)
            alike = len(siblings) > 1 or _texts(of) == _texts(getattr(first.ax, f"{axis}axis"))
            if alike and any(shown) and not all(shown):
                of.set_tick_params(**{f"label{side}": outer})
            if len(one) == 1 and (len(siblings) > 1 or axis == "x"):
                getattr(panel.ax, f"set_{axis}label")(next(iter(one)) if outer else "")


def _wrap(words: Text, room: float) -> int:
    """Break words that are wider than their room; returns how many lines are added."""
    text, width = words.get_text(), _width(words)
    if width <= room or "\n" in text or "$" in text:
        return 0
    lines = textwrap.wrap(text, max(int(len(text) * room / width), 8), break_long_words=False)
    words.set_text("\n".join(lines))
    return len(lines) - 1


def _names_above(part: Any) -> None:
    """Put names of rows that would take too much of the width above their rows, inside the panel."""
    for ax in [ax for ax in part.axes if ax.get_figure(root=False) is part and not ax.images]:
        names, size = _names(ax), ax.yaxis.get_major_ticks(1)[0].label1.get_fontsize()
        lines = (line for name in names.values() for line in name.split("\n"))
        longest = max((TextPath((0, 0), line, size=size).get_extents().width for line in lines), default=0)
        if longest / 72 < LONG_NAME * WIDTH:
            continue
        for y, name in names.items():
            above = y - 0.48 if ax.yaxis_inverted() else y + 0.48  # between the marks of two rows
            where = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
            ax.annotate(name.replace("\n", " "), (0, above), va="center", size=size, **where)
        ax.rollpe_names = names
        ax.tick_params(axis="y", labelleft=False)
        low, high = min(names), max(names)
        ax.set_ylim((high + 0.5, low - 0.8) if ax.yaxis_inverted() else (low - 0.5, high + 0.8))
