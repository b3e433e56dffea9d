"""Make the pictures that are shown outside of the book.

    .venv/bin/python workflow/pictures.py

book/_static/preview.png, 1200×630 pixels, is what a link to the book shows: a wave on a ring of channels at
six positions, drawn with rollpe.ring, under the question;
rollpe_book.extension.repairs writes the tags that name it.
book/_static/map.png, for README and a link to the page on Adam, and table.png, for one to the page on sizes,
are drawings of these pages, from the committed records. Run it again after a change of any.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from rollpe.ring import roll
from rollpe_book import figures
from rollpe_book.extension.drawings import draw_map, draw_table
from rollpe_book.figures.waves import bump

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "book/_static"
POSITIONS = 6


def ring_bars(ax: Axes, values: Tensor, color: str) -> None:
    """One bar for each channel around a ring of radius 1, clockwise from the top."""
    n = len(values)
    for i, value in enumerate(values.tolist()):
        direction = np.array([math.sin(2 * math.pi * i / n), math.cos(2 * math.pi * i / n)])
        ends = np.stack((direction, (1 + 0.6 * value) * direction))
        ax.plot(*ends.T, color=color, linewidth=13, solid_capstyle="butt")
    ax.add_patch(mpl.patches.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.8))
    ax.set_aspect("equal")
    ax.axis("off")


def draw_preview() -> Figure:
    """The question above one ring for each position, its bars turned one channel a step."""
    figures.use_theme()
    mpl.rcParams["figure.constrained_layout.use"] = False
    figure = Figure(figsize=(12, 6.3), dpi=100, facecolor="white")
    question = "Do traveling waves make\ngood positional encodings?"
    figure.text(0.06, 0.9, question, fontsize=44, fontweight="bold", va="top", linespacing=1.25)
    figure.text(0.06, 0.5, "The living version of the RollPE paper", fontsize=24, color=figures.MUTED)
    wave = bump(12, 0, 3)
    width = 0.9 / POSITIONS
    for p in range(POSITIONS):
        ax = figure.add_axes((0.05 + p * width, 0.06, width, 0.36))
        ring_bars(ax, roll(wave, p), figures.VERMILION if p == 0 else figures.BLUE)
        ax.set(xlim=(-1.75, 1.75), ylim=(-1.75, 1.75))
        ax.text(0, 0, f"{p}", fontsize=24, ha="center", va="center", color=figures.MUTED)
    return figure


if __name__ == "__main__":
    draw_preview().savefig(STATIC / "preview.png", metadata={"Software": None})
    for name, draw in {"map": draw_map, "table": draw_table}.items():
        options = {"dpi": 160, "facecolor": "white", "metadata": {"Software": None}}
        draw(ROOT)[0].savefig(STATIC / f"{name}.png", **options)
