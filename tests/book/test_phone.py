"""The built book on a phone of 390 px: nothing that a reader came for is cut off or out of sight.

Run by ``make check-book`` after ``make book``; not part of ``make test``. Accessibility and the width of
pages are in test_pages.py, for this width as for others.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from built_book import HTML, PAGES, come_near

CHAPTERS = [name for name in PAGES if name.startswith("executed/")]
WAVES = [name for name in PAGES if 'class="wave-stage"' in (HTML / name).read_text(encoding="utf8")]

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(visit):
    """On a phone, without motion."""
    return lambda name, theme="light", width=390: visit(name, width, theme, reduced_motion="reduce")


SHOWN = """() => Promise.all([...document.querySelectorAll(".cell_output .figure-frame img")]
    .filter((image) => image.checkVisibility())
    .map(async (image) => {
        image.loading = "eager";
        await image.decode();
        const box = image.closest(".figure-frame");
        return {
            file: new URL(image.currentSrc).pathname,
            width: image.getBoundingClientRect().width,
            wide: box.scrollWidth > box.clientWidth + 1,
            told: box.classList.contains("more") && box.tabIndex === 0
                && getComputedStyle(box).overflowX === "auto"
                && box.getAttribute("role") === "group" && !!box.getAttribute("aria-label"),
        };
    }))"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def smallest_words(file: str, width: float) -> float:
    """The size in px of the smallest words of a figure of Matplotlib, shown that wide."""
    svg = Path(file).read_text(encoding="utf8")
    points = float(re.search(r'<svg [^>]*?width="([\d.]+)pt"', svg)[1])
    return min(float(size) for size in re.findall(r" scale\(([\d.]+) -", svg)) * 100 * width / points


UNFOLD = "() => document.querySelectorAll('details').forEach((box) => { box.open = true; })"


@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_words_of_every_figure_can_be_read_and_what_is_wider_says_so(name, theme, visit):
    page = visit(name, theme)
    page.evaluate(UNFOLD)
    page.wait_for_timeout(300)  # for what watches the width of a figure
    shown = page.evaluate(SHOWN)
    assert len(shown) == page.locator(".cell_output .figure-frame").count()
    for figure in shown:
        assert smallest_words(figure["file"], figure["width"]) >= 9, figure
        assert figure["told"] == figure["wide"], figure
    assert page.evaluate(SIDEWAYS) <= 0


def test_on_a_desk_figures_are_whole_and_need_no_focus(visit):
    shown = visit(CHAPTERS[-1], width=1280).evaluate(SHOWN)
    assert shown and not any(figure["wide"] or figure["told"] for figure in shown)


FORMULAS = """() => [...document.querySelectorAll("div.math")]
    .filter((box) => box.checkVisibility())
    .map((box) => {
        const formula = box.querySelector("mjx-container").getBoundingClientRect();
        const number = box.querySelector(".eqno")?.getBoundingClientRect();
        return {
            id: box.id,
            below: !number || number.top >= formula.bottom - 1,
            whole: formula.width >= box.clientWidth - 1,
            wide: box.scrollWidth > box.clientWidth + 1,
            told: box.classList.contains("more") && box.tabIndex === 0 && !!box.getAttribute("aria-label")
                && getComputedStyle(box).overflowX === "auto",
        };
    })"""


CUT_OFF = """() => {
    const cut = [...document.querySelectorAll(".cell_output pre")]
        .filter((pre) => pre.checkVisibility() && pre.scrollWidth > pre.clientWidth + 1);
    const broken = [...document.querySelectorAll("article td.number")].filter((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map((line) => Math.round(line.top / 8))).size > 2;
    });
    const silent = [...document.querySelectorAll(".pst-scrollable-table-container")]
        .filter((box) => box.scrollWidth > box.clientWidth + 1)
        .filter((box) => !box.classList.contains("more") || box.tabIndex !== 0);
    return [...cut, ...broken, ...silent].map((element) => element.textContent);
}"""


@pytest.mark.parametrize("name", CHAPTERS)
def test_formulas_outputs_and_numbers_are_whole_and_what_is_wider_is_moved_by_keyboard(name, visit):
    page = visit(name)
    page.evaluate("async () => { await window.MathJax?.startup?.promise }")
    for formula in page.evaluate(FORMULAS):
        assert formula["below"] and formula["whole"], formula
        assert formula["told"] == formula["wide"], formula
    assert page.evaluate(CUT_OFF) == []
    assert not page.locator("#pst-back-to-top").is_visible()


STUCK = """(stage) => [...stage.querySelectorAll('.wave-controls > *')]
    .filter((part) => getComputedStyle(part).position === 'sticky')
    .map((part) => part.getBoundingClientRect()).flatMap(({ top, bottom }) => [top, bottom])"""


@pytest.mark.parametrize("name", WAVES)
def test_one_row_of_controls_stays_in_view_over_the_drawing_of_a_moving_figure(name, visit):
    page = visit(name)
    come_near(page)
    for stage in page.locator(".wave-stage").all():
        first, drawing = stage.locator("input[type=range]").first, stage.locator(".wave-panels")
        assert first.bounding_box()["y"] < drawing.bounding_box()["y"]
        drawing.evaluate("d => scrollTo(0, scrollY + d.getBoundingClientRect().bottom - innerHeight / 2)")
        page.wait_for_timeout(100)
        bar = page.locator(".bd-header-article").bounding_box()
        assert bar["y"] + bar["height"] <= first.bounding_box()["y"] < 400
        stuck = stage.evaluate(STUCK)
        assert max(stuck) - min(stuck) <= 64
