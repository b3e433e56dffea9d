"""The twin of a figure for a telephone: it fits, its words can be read, the figure stays as it is."""

from __future__ import annotations

import io
import itertools
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from rollpe import figures
from rollpe.figures.data import to_csv
from rollpe.figures.narrow import EDGE, SMALLEST, WIDTH, narrow


@pytest.fixture(autouse=True)
def theme():
    with mpl.rc_context():
        figures.use_theme()
        yield
    plt.close("all")


def curves(axes):
    for number, ax in enumerate(axes):
        ax.plot(np.arange(20), np.cos(np.arange(20)), label="wave")
        ax.set(title=f"panel {number} with a title of some words", xlabel="position", ylabel="height")


def maps(axes):
    for number, ax in enumerate(np.ravel(axes)):
        figures.offset_map(np.eye(15), ax, title=f"map {number}")


def side_by_side(**options):
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3), **options)
    curves(axes)
    return figure


def grid_of_maps():
    figure, axes = plt.subplots(3, 4, figsize=(7, 5.4))
    maps(axes)
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="weight", shrink=0.5)
    return figure


def long_names():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 4), sharey=True)
    for ax in (left, right):
        ax.plot([1, 2, 3], [0, 1, 2], "o")
    figures.name_rows(left, [f"a name of a row that takes much room, {n}" for n in range(3)])
    return figure


def of_two_parts():
    figure = plt.figure(figsize=(7, 3.5))
    left, right = figure.subfigures(1, 2)
    maps(left.subplots(2, 2, sharex=True, sharey=True))
    maps([right.subplots()])
    left.supylabel("rows")
    return figure


DRAWN = {
    "curves": side_by_side,
    "curves that share": lambda: side_by_side(sharex=True, sharey=True),
    "grid of maps": grid_of_maps,
    "long names": long_names,
    "two parts": of_two_parts,
}


def pixels(figure, **options) -> tuple[float, str]:
    """The width in CSS pixels of what a page shows, and the SVG."""
    file = io.StringIO()
    figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None}, **options)
    return float(re.search(r'width="([\d.]+)pt"', file.getvalue())[1]) * 4 / 3, file.getvalue()


def panels(figure):
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def boxes(figure):
    return [ax.get_position().bounds for ax in panels(figure)]


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_it_fits_the_column_its_words_can_be_read_and_the_wide_one_stays_as_it_is(draw):
    before, figure = pixels(draw())[1], draw()
    svg, about = figures.show(figure)
    assert svg == before
    width = float(re.search(r'width="([\d.]+)pt"', about["narrow"])[1]) * 4 / 3
    assert 0.6 * 342 < width < 1.06 * 342
    twin = narrow(figure)
    words = [text for text in twin.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in words) >= SMALLEST
    assert to_csv(figure)[0] == about["csv"]
    assert len(plt.get_fignums()) == 2, "the twin is no open figure"


def test_panels_side_by_side_go_one_below_the_other_and_keep_their_words():
    twin = narrow(side_by_side(sharey=True))
    pixels(twin)
    (x0, top, *_), (x1, below, _, height) = boxes(twin)
    assert x0 == pytest.approx(x1) and top > below + height
    for ax in panels(twin):
        assert any(label.get_visible() and label.get_text() for label in ax.get_yticklabels())
        assert ax.get_ylabel() == "height"
    assert [ax.get_xlabel() for ax in panels(twin)] == ["", "position"], "once, at the foot"


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_panels_do_not_lie_on_each_other(draw):
    twin = narrow(draw())
    pixels(twin)
    renderer = twin.canvas.get_renderer()
    inner = [ax.get_window_extent(renderer) for ax in panels(twin)]
    for one, other in itertools.combinations(inner, 2):
        assert not one.overlaps(other)
    titles = [ax._left_title.get_window_extent(renderer) for ax in panels(twin) if ax.get_title("left")]
    for title, box in itertools.product(titles, inner):
        assert not title.overlaps(box)


def test_rows_of_a_table_of_maps_stay_apart_and_its_bar_of_colors_stands_above():
    figure = grid_of_maps()
    twin = narrow(figure)
    pixels(twin)
    specs = [ax.get_subplotspec() for ax in panels(twin)]
    places = [(spec.rowspan.start, spec.colspan.start) for spec in specs]
    columns = 1 + max(column for _, column in places)
    assert columns < 4
    lines = -(-4 // columns)
    for index, (row, _) in enumerate(places):
        assert row // lines == index // 4
    (bar,) = (ax for ax in twin.axes if ax.get_label() == "<colorbar>")
    assert bar.get_xlabel() == "weight"
    assert bar.get_position().y0 > max(y + height for _, y, _, height in boxes(twin))


def test_long_names_stand_above_their_rows_in_every_panel():
    twin = narrow(long_names())
    pixels(twin)
    for ax in panels(twin):
        named = [text for text in ax.texts if "takes much room" in text.get_text()]
        assert [text.get_text()[-1] for text in named] == ["0", "1", "2"]
        assert all(text.get_window_extent().x1 <= twin.bbox.x1 for text in named)
        assert ax.get_position().width > 0.8


def test_a_figure_with_functions_of_its_own_has_a_twin_too():
    figure = Figure(layout="constrained")
    ax = figure.subplots()
    ax.secondary_xaxis("top", functions=(lambda x: 2 * x, lambda x: x / 2))
    assert pixels(narrow(figure), pad_inches=EDGE)[0] < 350
    assert pytest.approx(342) == WIDTH * 96
