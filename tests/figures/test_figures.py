"""The theme can be read by everybody, on light and on dark pages, and figures say what they show."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from rollpe_book import figures
from rollpe_book.figures.theme import keep_words_on_maps
from rollpe_lab.statistics import summarize

WORDS = [figures.INK, figures.MUTED, figures.BLUE, figures.ORANGE, figures.GREEN, figures.PINK,
         figures.VERMILION, figures.YELLOW]  # fmt: skip
ARMS = ["none", "learned", "axial-rope", "roll", "multiplexed-roll"]
GROUNDS = {"light": "#ffffff", "dark": figures.DARK["#ffffff"]}
SIGHT = {
    "usual": np.eye(3),
    # Machado, Oliveira and Fernandes (2009), full loss of one kind of cone, in linear RGB
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
}


def linear(color: str) -> np.ndarray:
    part = np.array(mpl.colors.to_rgb(color))
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """WCAG's contrast ratio."""
    dark, light = sorted(linear(color) @ [0.2126, 0.7152, 0.0722] for color in (a, b))
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
    white = np.array([0.95047, 1, 1.08883])
    part = np.asarray(to_xyz) @ np.clip(rgb, 0, 1) / white
    f = np.where(part > 0.008856, np.cbrt(part), 7.787 * part + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def on(page: str, color: str) -> str:
    return figures.DARK[color] if page == "dark" else color


@pytest.mark.parametrize("page", GROUNDS)
def test_words_and_lines_stand_out_from_the_page(page):
    for color in WORDS:
        assert contrast(on(page, color), GROUNDS[page]) >= 4.5, color
    assert contrast(on(page, figures.SKY), GROUNDS[page]) >= 3


@pytest.mark.parametrize("page", GROUNDS)
@pytest.mark.parametrize("sight", SIGHT)
def test_encodings_are_told_apart_by_color_in_every_kind_of_sight(page, sight):
    seen = {name: lab(SIGHT[sight] @ linear(on(page, figures.color_of(name)))) for name in ARMS}
    for a, b in itertools.combinations(ARMS, 2):
        assert np.linalg.norm(seen[a] - seen[b]) > 10, (a, b)


def test_a_dark_twin_changes_every_color_of_the_theme_and_nothing_else():
    svg = (
        f"<g style='fill: {figures.BLUE}'/><g style='stroke: {figures.ON_DARK}'/><use xlink:href='#333333x'/>"
    )
    twin = figures.to_dark(svg)
    assert figures.BLUE not in twin and figures.DARK[figures.BLUE] in twin
    assert figures.ON_DARK in twin and "#333333x" in twin
    assert re.sub("#[0-9a-f]{6}", "", twin) == re.sub("#[0-9a-f]{6}", "", svg)
    assert not set(figures.DARK) & set(figures.DARK.values()) - {"#ffffff"}, "no color is mapped twice"


@pytest.mark.parametrize("draw", [
    lambda ax, values: ax.imshow(values, origin="upper"),
    lambda ax, values: ax.imshow(values, origin="lower"),
    lambda ax, values: ax.pcolormesh([0, 1], [0, 1], values),
], ids=["upper", "lower", "mesh"])  # fmt: skip
def test_words_on_a_map_keep_their_color_on_dark_pages_and_words_beside_it_do_not(draw):
    figure = Figure()
    ax = figure.subplots()
    draw(ax, [[0.0, 1.0], [np.nan, 0.2]])
    ax.add_patch(mpl.patches.Rectangle((3, 0), 1, 1, facecolor="#123456"))
    ax.add_patch(mpl.patches.Rectangle((3, 3), 1, 1, facecolor=figures.BLUE))
    ax.set(xlim=(-1, 5), ylim=(-1, 5))
    places = {"map": (0, 0), "hole": (0, 1), "patch": (3.5, 0.5), "theme": (3.5, 3.5), "beside": (2, 2)}
    for name, (x, y) in places.items():
        ax.text(x, y, name, color="white", ha="center", va="center")
    keep_words_on_maps(figure)
    kept = {t.get_text() for t in ax.texts if mpl.colors.to_hex(t.get_color()) not in figures.DARK}
    assert kept == {"map", "patch"}
    assert all(contrast(mpl.colors.to_hex(t.get_color()), "#ffffff") < 1.02 for t in ax.texts)


def test_accuracy_under_a_condition_has_the_trained_value_and_what_all_runs_share():
    def run(at_24: float, plain: float, **more: float) -> SimpleNamespace:
        sizes = {"24": at_24, "48": 0.2} | more
        test, run_id = SimpleNamespace(accuracy=plain), SimpleNamespace(path=Path("smoke/roll/seed-0"))
        return SimpleNamespace(resolutions=sizes, test=test, run_id=run_id)

    ax = Figure().subplots()
    arms = {"roll": [run(0.3, 0.5, **{"64": 0.1}), run(0.4, 0.7)], "none": [run(0.2, 0.4, **{"48": 0.1})]}
    figures.accuracy_under("resolutions", arms, trained=32, ax=ax)
    drawn = {line.get_label(): line.get_xydata().tolist() for line in ax.lines if len(line.get_xdata()) > 2}
    assert drawn["roll, mean"] == [[24, pytest.approx(35)], [32, pytest.approx(60)], [48, pytest.approx(20)]]
    assert sorted(y for x, y in drawn["roll"] if x == 32) == [pytest.approx(50), pytest.approx(70)]
    assert drawn["none, mean"][0] == [24, pytest.approx(20)]
    assert ax.get_ylim()[0] == 0 and [text.get_text() for text in ax.texts] == ["none", "roll"]
    svg, about = figures.show(ax.figure)
    assert svg.lstrip().startswith("<?xml") and "<dc:date>" not in svg
    assert about == {"records": ["smoke/roll"]}


def test_runs_in_rows_have_their_mean_and_interval():
    samples = {"roll": [81.0, 83.0, 88.0], "none": [70.0]}
    ax = figures.runs_in_rows(samples, Figure().subplots())
    dots = [found.get_offsets()[:, 0].tolist() for found in ax.collections]
    means, spread, alone = (line.get_xdata() for line in ax.lines)
    assert dots == list(samples.values()) and means.tolist() == [84.0, 70.0] and ax.yaxis_inverted()
    s = summarize(samples["roll"])
    assert spread == pytest.approx([s.low, s.high]) and np.isnan(np.float64(alone)).all(), (
        "one run has no spread"
    )
    without = figures.runs_in_rows(samples, Figure().subplots(), interval=False)
    assert len(without.lines) == 1


def test_runs_beside_each_other_keep_their_row_and_word_where_an_arm_has_none():
    samples = {("roll", "with"): [0.5], ("roll", "without"): [0.25, 0.75], ("rope", "without"): [1.0]}
    ax = Figure().subplots()
    figures.runs_beside(samples, {"without": figures.MUTED, "with": figures.BLUE}, ax, legend=True)
    without, with_, rope = (places for dots in ax.collections if len(places := dots.get_offsets().data))
    assert [places[:, 0].tolist() for places in (with_, without, rope)] == list(samples.values())
    assert without[0, 1] < 0 < with_[0, 1] < rope[0, 1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["without", "with"]


def test_runs_beside_each_other_may_all_be_missing():
    ax = Figure().subplots()
    assert figures.runs_beside({("a", "with"): []}, {"with": figures.BLUE}, ax, legend=True) is ax
    assert not ax.collections


def test_a_correlation_matrix_has_the_mean_of_its_distance_in_every_cell():
    n, seeds = 10, np.random.default_rng(3)
    channels = np.linalg.qr(seeds.normal(size=(40, n)))[0]  # uncorrelated, then mixed with their neighbors
    correlation = np.corrcoef(channels + 0.6 * np.roll(channels, 1, axis=1), rowvar=False)
    rows = np.arange(n)
    by_distance = [np.mean(correlation[rows, (rows + d) % n]) for d in range(n // 2 + 1)]
    runs = np.stack([by_distance, by_distance]) + [[0.1], [-0.1]]  # their mean counts, whatever the axes
    figure = Figure()
    axes = figure.subplots(1, 2)
    figures.correlation_matrices({"mixed": runs[:, None], "one run": by_distance}, axes)
    drawn = [ax.images[0] for ax in axes]
    for image in drawn:
        matrix = np.asarray(image.get_array())
        np.testing.assert_allclose(matrix, np.roll(matrix, (1, 1), axis=(0, 1)), err_msg="a circulant")
        np.testing.assert_allclose(matrix.sum(), correlation.sum(), err_msg="the mean over pairs")
        np.testing.assert_allclose(matrix[0, [0, 1, -1, 4]], np.array(by_distance)[[0, 1, 1, 4]])
        assert image.get_clim() == (-1, 1), "one scale of colors"
    any_two = correlation[~np.eye(n, dtype=bool)].mean()
    title = f"mixed\nneighbors {by_distance[1]:.2f},\nany two {any_two:.2f}"
    assert axes[0].get_title(loc="left") + axes[0].get_title() == title.replace("-", "−")


def test_names_beside_lines_keep_their_order_and_do_not_overlap():
    figure = Figure()
    ax = figure.subplots()
    ax.set_ylim(0, 100)
    heights = {"roll": 50.0, "learned": 51.0, "none": 50.5, "rope": 90.0}
    figures.label_line_ends(ax, {name: np.array([1.0, y]) for name, y in heights.items()}, gap=0.06)
    placed = {text.get_text(): text.xy[1] for text in ax.texts}
    assert sorted(placed, key=placed.get) == sorted(heights, key=heights.get)
    assert min(np.diff(sorted(placed.values()))) >= 6 - 1e-9
    assert all(text.get_annotation_clip() is False for text in ax.texts), "shown even past the axis"
    assert placed["rope"] == 90 and np.mean(
        [placed[n] for n in ("roll", "learned", "none")]
    ) == pytest.approx(50.5)
