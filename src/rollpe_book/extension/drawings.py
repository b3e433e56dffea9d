"""Figures that the build itself draws from records, for pages that no notebook makes: ``{drawing} map``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from docutils import nodes
from matplotlib.figure import Figure
from sphinx.application import Sphinx

from rollpe_book import figures
from rollpe_book.extension.figures import FigureDirective
from rollpe_book.extension.site import RECORDS, committed, project_root
from rollpe_book.figures import photo
from rollpe_lab.evidence.comparisons import signed
from rollpe_lab.evidence.inside import correlation_of
from rollpe_lab.evidence.table import LEADING
from rollpe_lab.files import write_atomically
from rollpe_lab.records.store import find_arrays, read_records

NAMES = photo.NAMES | {"roll-twin": "its rotary twin"}
DRAWN = ("multiplexed-roll", "axial-rope", "roll", "learned", "none")


def draw_map(root: Path) -> tuple[Figure, str]:
    """Correlation of channels on the ring, of RollPE and its twin; the figure and its alternative text."""
    folder = root / RECORDS[0]
    figure = Figure(figsize=(4.3, 2.5), layout="constrained")
    by_distance, said = {}, []
    for name in ("roll", "roll-twin"):
        runs = read_records(folder, recipe="mini", encoding=name)
        arrays = [find_arrays(run, [folder]) for run in runs]
        both = [a[f"{which}_correlation"] for a in arrays for which in ("query", "key")]
        by_distance[NAMES[name]] = np.mean(both, axis=(0, 1, 2, 3))
        near = np.mean([correlation_of(a)[0] for a in arrays])
        said.append(f"{NAMES[name]}: neighbors correlate at {near:.2f}".replace("-", "−"))
        figures.drawn_from(figure, runs)
    figures.correlation_matrices(by_distance, figure.subplots(1, len(by_distance)))
    return figure, f"Two square maps of correlations between channels on the ring. {'; '.join(said)}."


def draw_gaps(root: Path) -> tuple[Figure, str]:
    """The lead over a learned table: printed in the paper, and here in the paper's model and a narrow one."""
    figure = Figure(figsize=(4.3, 3.4), layout="constrained")
    found = figures.gaps_to_the_table(committed(root), figure.subplots())
    said = [
        f"{source}: {', '.join(f'{LEADING[slug]} {signed(gap.mean, 1)}' for slug, gap in gaps.items())}"
        for source, gaps in found.items()
    ]
    return figure, f"Dots with intervals, points ahead of a learned table. {'; '.join(said)}."


TABLES = {
    "digits": {
        "RoPE": "quick-why@learning_rate=0.002/axial-rope",
        "table, every block": "quick-why@learning_rate=0.004/learned@every_block=true",
        "table at 1": "quick-why@learning_rate=0.001/learned@std=1.0",
        "table at 0.02": "quick-why@learning_rate=0.004/learned",
    },
    "CIFAR-100, ViT-S": {
        "RoPE": "short@learning_rate=0.0005/axial-rope",
        "table, every block": "short@learning_rate=0.0005/learned@every_block=true",
        "table at 0.5": "short@learning_rate=0.0005/learned@std=0.5",
        "table at 0.02": "short@learning_rate=0.0005/learned",
    },
}


def draw_table(root: Path) -> tuple[Figure, str]:
    """A learned table by its size at the start, and before every block, beside RoPE."""
    runs = committed(root)
    figure = Figure(figsize=(4.3, 3.8), layout="constrained")
    said = []
    for data, ax in zip(TABLES, figure.subplots(2, 1), strict=True):
        for y, (name, arm) in enumerate(TABLES[data].items()):
            scores = [run.score for run in runs if run.run_id.arm == arm]
            color = figures.color_of("axial-rope" if name == "RoPE" else "learned")
            ax.plot(scores, [y] * len(scores), "o", color=color, markersize=4, label=name)
            if scores:
                said.append(f"{data}, {name} {sum(scores) / len(scores):.1f}")
        figures.name_rows(ax, list(TABLES[data]))
        ax.set_ylim(len(TABLES[data]) - 0.5, -0.5)
        ax.set_title(data)
    ax.set_xlabel("accuracy (%)")
    arms = [arm for of_data in TABLES.values() for arm in of_data.values()]
    figures.drawn_from(figure, [run for run in runs if run.run_id.arm in arms])
    return figure, f"Two panels of dots. Means in percent: {'; '.join(said)}."


def draw_curves(root: Path, recipe: str) -> tuple[Figure, str]:
    """Learning curves of a recipe: RollPE, its twin, and the encodings of Table 1."""
    runs = [
        r
        for name in ("roll-twin", *DRAWN)
        for r in read_records(root / RECORDS[0], recipe=recipe, encoding=name)
        if not r.encoding_options
    ]
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    figures.learning_curves(runs, figure.subplots())
    drawn = ", ".join(dict.fromkeys(NAMES[r.encoding] for r in runs))
    return figure, f"Curves of held-out accuracy against epoch, recipe {recipe}: {drawn}."


DRAWINGS: dict[str, Callable[[Path], tuple[Figure, str]]] = {
    "map": draw_map,
    "gaps": draw_gaps,
    "table": draw_table,
    **{f"curves-{name}": partial(draw_curves, recipe=name) for name in ("quick", "mini", "short")},
}


class DrawingDirective(FigureDirective):
    """``{drawing} map``: a figure from the committed records."""

    choices = DRAWINGS

    def draw(self, name: str) -> tuple[nodes.Node, dict[str, Any]]:
        root = project_root(self.env.app)
        for path in sorted((root / RECORDS[0]).glob("*/*/seed-*.json")):
            self.env.note_dependency(str(path))
        target = Path(self.env.doctreedir, "drawings", f"{name}.svg")
        with mpl.rc_context():
            figures.use_theme()
            drawn, said = DRAWINGS[name](root)
            svg, metadata = figures.show(drawn)
        write_atomically(target, svg.encode())
        uri = "/" + Path(os.path.relpath(target, self.env.srcdir)).as_posix()
        return nodes.image("", uri=uri, alt=said, classes=["drawing-still"]), metadata


def setup(app: Sphinx) -> None:
    app.add_directive("drawing", DrawingDirective)
