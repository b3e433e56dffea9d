"""The numbers of a figure: one table for any Matplotlib figure, read off its artists."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import collections, patches
from matplotlib.colors import to_hex
from matplotlib.transforms import Transform

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("panel", "kind", "series", "x", "y", "value", "x_label", "y_label", "value_label")
MAX_ROWS = 10_000
"""A longer table is thinned; this many rows take less than 1 MB."""

Point = tuple[float | None, float | None, float | str | None]


def to_csv(figure: Figure) -> tuple[str, int]:
    """The table of a figure as CSV, and k: every k-th point of each series is in it, all for k = 1.

    Columns: ``panel`` (its title, else its number), ``kind`` of mark, ``series`` (its label, else a number),
    ``x``, ``y``, ``value`` (what color or radius means), and the labels of the three. Numbers have six
    significant digits; undefined ones are nan. A coordinate that is not on an axis is empty: a line across
    the whole panel has only one. A line has one row for each point, a segment two rows, a box two (opposite
    corners), an image one for each cell.
    """
    series = [entry for axes in _panels(figure) for entry in _series(*axes)]
    rows = sum(len(points) for _, points, _ in series)
    step = -(-rows // MAX_ROWS)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, points, labels in series:
        for point in points[:: max(step, 1)]:
            writer.writerow((*name, *map(_number, point), *labels))
    return text.getvalue(), max(step, 1)


def _number(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{float(value):.6g}"


def _panels(figure: Figure) -> Iterator[tuple[Axes, str]]:
    """Every panel with its name; a color bar is no panel."""
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    titles = [" ".join(ax.get_title(side) for side in ("left", "center", "right")).strip() for ax in panels]
    for index, (ax, title) in enumerate(zip(panels, titles, strict=True), 1):
        yield ax, title if title and titles.count(title) == 1 else f"{index} {title}".strip()


def _label(ax: Axes, axis: str) -> str:
    """The label of an axis, else that of a panel with the same axis, else the figure's."""
    group = getattr(ax, f"get_shared_{axis}_axes")().get_siblings(ax)
    labels = [getattr(other, f"get_{axis}label")() for other in (ax, *group)]
    return next((label for label in labels if label), getattr(ax.figure, f"get_sup{axis}label")())


def _series(ax: Axes, panel: str) -> Iterator[tuple[tuple[str, str, str], list[Point], tuple[str, ...]]]:
    counts: Counter[str] = Counter()
    artists: list[Any] = [*ax.images, *ax.collections, *ax.patches, *ax.lines, *ax.texts]
    for artist in (artist for artist in artists if artist.get_visible()):
        for kind, points in _points(artist, ax):
            counts[kind] += 1
            label = str(artist.get_label())
            name = label if label and not label.startswith("_") else str(counts[kind])
            if kind == "text":
                name = artist.get_text()
            elif all(coordinate is None for point in points for coordinate in point):
                continue  # a slanted line through the whole panel
            labels = (_label(ax, "x"), _label(ax, "y"), _value_label(artist))
            yield (panel, kind, name), points, labels


def _value_label(artist: Any) -> str:
    bar = getattr(artist, "colorbar", None)
    return "" if bar is None else bar.ax.get_ylabel() or bar.ax.get_xlabel()


def _points(artist: Any, ax: Axes) -> Iterator[tuple[str, list[Point]]]:
    """The kind of each series of an artist, and its points; no series for artists without numbers."""
    has_axis = _has_axis(artist.get_transform(), ax)
    match artist:
        case collections.QuadMesh():
            corners = np.asarray(artist.get_coordinates())
            centers = (corners[:-1, :-1] + corners[1:, 1:]) / 2
            values: np.ndarray = np.ma.filled(np.ma.asarray(artist.get_array(), float), np.nan)
            yield "image", _cells(centers, values.reshape(centers.shape[:2]))
        case collections.PathCollection():
            at = np.asarray(artist.get_offsets())
            array = artist.get_array()
            colors = [None] * len(at) if array is None else list(np.broadcast_to(array, len(at)))
            has_axis = _has_axis(artist.get_offset_transform(), ax)
            yield "dots", [(*_on_axes(has_axis, p), v) for p, v in zip(at, colors, strict=True)]
        case collections.LineCollection():
            yield "segment", [(*_on_axes(has_axis, p), None) for line in artist.get_segments() for p in line]
        case collections.PolyCollection():
            for path in artist.get_paths():
                yield "area", [(*_on_axes(has_axis, p), None) for p in np.asarray(path.vertices)]
        case patches.Rectangle():
            corners = artist.get_bbox().get_points()
            yield "box", [(*_on_axes(has_axis, p), None) for p in corners]
        case patches.Circle():
            yield "circle", [(*_on_axes(has_axis, artist.get_center()), artist.radius)]
        case _ if hasattr(artist, "get_extent") and hasattr(artist, "get_array"):
            yield "image", _image(artist)
        case _ if hasattr(artist, "get_xydata"):
            yield "line", _line(artist, has_axis)
        case _ if hasattr(artist, "get_text"):
            coordinates = getattr(artist, "xy", artist.get_position())
            if getattr(artist, "xycoords", "data") != "data":
                has_axis = (False, False)
            elif hasattr(artist, "xycoords"):
                has_axis = (True, True)
            yield "text", [(*_on_axes(has_axis, coordinates), None)]


def _has_axis(transform: Transform, ax: Axes) -> tuple[bool, bool]:
    """Whether x and y of an artist are in units of the axes; otherwise they are fractions of the panel."""
    return transform.contains_branch_seperately(ax.transData)  # type: ignore[return-value]


def _on_axes(has_axis: tuple[bool, bool], point: Any) -> tuple[float | None, float | None]:
    """The coordinates of a point; None for one that is on no axis."""
    x, y = (value if there else None for value, there in zip(point, has_axis, strict=True))
    return x, y


def _line(line: Any, has_axis: tuple[bool, bool]) -> list[Point]:
    if all(has_axis):
        return [(x, y, None) for x, y in line.get_xydata()]
    distinct = dict.fromkeys(_on_axes(has_axis, point) for point in line.get_xydata())
    return [(x, y, None) for x, y in distinct]


def _image(image: Any) -> list[Point]:
    values = np.ma.filled(image.get_array(), np.nan)
    left, right, bottom, top = image.get_extent()
    rows, columns = values.shape[:2]
    if image.origin == "upper":
        bottom, top = top, bottom
    x = left + (right - left) * (np.arange(columns) + 0.5) / columns
    y = bottom + (top - bottom) * (np.arange(rows) + 0.5) / rows
    return _cells(np.stack(np.meshgrid(x, y), axis=-1), values)


def _cells(centers: np.ndarray, values: np.ndarray) -> list[Point]:
    if values.ndim == 3:  # an image of colors, not of values
        values = np.array([[to_hex(color / 255 if values.dtype == np.uint8 else color) for color in row]
                           for row in values])  # fmt: skip
    return [(*center, value if values.dtype.kind == "U" else float(value))
            for center, value in zip(centers.reshape(-1, 2), values.ravel(), strict=True)]  # fmt: skip
