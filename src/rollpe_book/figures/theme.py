"""One theme for all figures, and what a notebook keeps of a figure.

An encoding has the same color on every page. In both sets of colors words have enough contrast, and
color-blind readers can tell encodings apart.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from IPython import get_ipython
from matplotlib.backend_bases import MouseEvent
from matplotlib.colors import to_hex
from matplotlib_inline.backend_inline import set_matplotlib_formats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollpe_lab.records.record import Record

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
"""Lines on dark and on pale color maps; light and dark pages show the same maps."""
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
"""The color on a dark page for each color of a light one. Other colors, and color maps, stay."""

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
    """Set the theme; inside a notebook, also show figures as SVG with their numbers as metadata."""
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
    shell = get_ipython()
    if shell is not None:
        set_matplotlib_formats("svg")
        shell.display_formatter.formatters["image/svg+xml"].for_type(mpl.figure.Figure, show)


def show(figure: Figure) -> tuple[str, dict[str, Any]]:
    """What a notebook keeps of a figure: its SVG and, as metadata, ``records``.

    They name the runs given to :func:`drawn_from` as recipe/encoding.
    """
    keep_words_on_maps(figure)
    file = io.StringIO()
    figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    return file.getvalue(), {"records": getattr(figure, "rollpe_records", [])}


def keep_words_on_maps(figure: Figure) -> None:
    """Change the color of words on a color map or on a patch by one step in 255, which nobody can see.

    :func:`to_dark` replaces exact colors of the theme: so it leaves these words as it leaves their ground.
    """
    for ax in figure.axes:
        maps = [*ax.images, *ax.collections]
        patches = [p for p in ax.patches if p.get_fill() and to_hex(p.get_facecolor()) not in DARK]
        for words in ax.texts:
            color = to_hex(words.get_color())
            at = words.get_transform().transform(words.get_position())
            on_patch = any(patch.get_window_extent().contains(*at) for patch in patches)
            if color in DARK and (on_patch or any(_covers(colors, at) for colors in maps)):
                step = -1 if color == "#ffffff" else 1
                words.set_color(f"#{int(color[1:], 16) + step:06x}")


def _covers(colors: Any, at: np.ndarray) -> bool:
    """Whether an image or a mesh has a color at a place of the screen; it has none where its value is nan."""
    value = colors.get_cursor_data(MouseEvent("motion_notify_event", colors.figure.canvas, *at))
    return value is not None and bool(np.isfinite(np.ma.asarray(value, float).filled(np.nan)).all())


def drawn_from(figure: Any, records: Sequence[Record]) -> None:
    """Attach to a figure the names of the runs that it shows; the book links to their records."""
    cells = (r.run_id.path.parent.as_posix() for r in records)
    figure.rollpe_records = list(dict.fromkeys([*getattr(figure, "rollpe_records", []), *cells]))


def to_dark(svg: str) -> str:
    """The same drawing for a dark page: ``DARK`` replaces each color of the theme."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: DARK.get(match.group(0), match.group(0)), svg)


def color_of(encoding: str) -> str:
    """The color of an encoding; options do not change it, a combination has the color of its last part."""
    return COLORS.get(encoding, COLORS.get(encoding.split("@")[0].split("+")[-1], BLACK))
