"""The table of a figure holds what the figure shows."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from rollpe_book.figures import data


def table(figure: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.to_csv(figure)[0])))


def numbers(rows, *columns):
    return np.array([[float(row[column]) for column in columns] for row in rows])


@pytest.fixture
def panel():
    figure = Figure()
    return figure.subplots()


def test_a_line_has_a_row_for_each_point_with_labels_and_six_digits(panel):
    rng = np.random.default_rng()
    x, y = rng.normal(size=(2, 7)) * 1e3
    panel.plot(x, y, label="walk")
    panel.set(title="Where", xlabel="time (s)", ylabel="place (m)")
    rows = table(panel.figure)
    assert {(r["panel"], r["kind"], r["series"], r["x_label"], r["y_label"]) for r in rows} == {
        ("Where", "line", "walk", "time (s)", "place (m)")
    }
    np.testing.assert_allclose(numbers(rows, "x", "y"), np.stack((x, y), axis=-1), rtol=1e-5)


@pytest.mark.parametrize("origin", ["upper", "lower"])
def test_an_image_has_each_cell_where_it_is_drawn(panel, origin):
    values = np.random.default_rng().normal(size=(3, 4))
    shown = panel.imshow(values, origin=origin)
    panel.figure.colorbar(shown, label="score")
    rows = table(panel.figure)
    assert len(rows) == 12 and {r["value_label"] for r in rows} == {"score"}, "the bar is no panel"
    for x, y, value in numbers(rows, "x", "y", "value"):
        assert value == pytest.approx(values[int(y), int(x)], rel=1e-5), "pixels have their indices as places"


def test_a_picture_in_colors_has_the_colors_themselves(panel):
    panel.imshow(np.array([[[255, 0, 0], [0, 0, 255]]], dtype=np.uint8))
    assert [row["value"] for row in table(panel.figure)] == ["#ff0000", "#0000ff"]


def test_every_kind_of_mark_is_there(panel):
    panel.scatter([1, 2], [3, 4], c=[5, 6])
    panel.errorbar([1], [2], yerr=[0.5], fmt="o")
    panel.bar([3], [4], width=1)
    panel.fill_between([0, 1], [0, 0], [1, 2])
    panel.add_patch(plt.Circle((7, 8), 9))
    panel.pcolormesh([[1.5]])
    panel.text(1, 2, "a word")
    rows = table(panel.figure)
    seen = {kind: [r for r in rows if r["kind"] == kind] for kind in {row["kind"] for row in rows}}
    np.testing.assert_array_equal(numbers(seen["dots"], "x", "y", "value"), [[1, 3, 5], [2, 4, 6]])
    np.testing.assert_array_equal(numbers(seen["segment"], "x", "y"), [[1, 1.5], [1, 2.5]])
    np.testing.assert_array_equal(numbers(seen["box"], "x", "y"), [[2.5, 0], [3.5, 4]])
    np.testing.assert_array_equal(numbers(seen["circle"], "x", "y", "value"), [[7, 8, 9]])
    np.testing.assert_array_equal(numbers(seen["image"], "x", "y", "value"), [[0.5, 0.5, 1.5]])
    assert [1, 2] in numbers(seen["area"], "x", "y").tolist()
    assert [(r["series"], r["x"]) for r in seen["text"]] == [("a word", "1")]


def test_what_goes_across_the_panel_has_only_the_coordinate_that_it_marks(panel):
    panel.axhline(3)
    panel.axvline(4)
    panel.axvspan(5, 6)
    found = [(r["kind"], r["x"], r["y"]) for r in table(panel.figure)]
    assert found == [("box", "5", ""), ("box", "6", ""), ("line", "", "3"), ("line", "4", "")]


def test_panels_that_share_a_label_or_a_title_are_told_apart():
    figure = Figure()
    axes = figure.subplots(2, 2, sharex=True)
    for ax in axes.flat:
        ax.plot([0, 1])
    axes[1, 0].set_xlabel("step")
    axes[1, 1].set_xlabel("step")
    figure.supylabel("loss")
    axes[0, 0].set_title("same")
    axes[0, 1].set_title("same")
    rows = table(figure)
    assert {row["x_label"] for row in rows} == {"step"} and {row["y_label"] for row in rows} == {"loss"}
    assert [row["panel"] for row in rows[::2]] == ["1 same", "2 same", "3", "4"]


def test_a_large_table_is_thinned_evenly_and_says_so(panel):
    panel.plot(np.arange(3 * data.MAX_ROWS))
    text, kept = data.to_csv(panel.figure)
    assert kept == 3
    assert len(text) < 1_000_000
    rows = table(panel.figure)
    assert {int(b["x"]) - int(a["x"]) for a, b in pairwise(rows)} == {3}
    panel.lines[0].remove()
    panel.plot(np.arange(data.MAX_ROWS))
    assert data.to_csv(panel.figure)[1] == 1
