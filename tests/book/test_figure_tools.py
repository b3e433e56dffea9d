"""The links under figures of the built book and at its numbers, used by keyboard in Chromium.

Run by ``make check-book`` after ``make book``; not part of ``make test``.
"""

from __future__ import annotations

import re

import pytest
from built_book import HTML, PAGES


def pages_with(mark: str) -> list[str]:
    return [name for name in PAGES if mark in (HTML / name).read_text(encoding="utf8")]


CHAPTERS = [name for name in pages_with("figure-command") if "executed" in name]

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_picture_shows_once_in_the_colors_of_the_page_and_on_paper_in_light_ones(theme, visit):
    page = visit(CHAPTERS[0], theme=theme)

    def pictures_are(color):
        shown = page.locator(".figure-frame img:visible").all()
        assert len(shown) == page.locator(".figure-frame").count() > 0
        assert all(("-dark.svg" in image.get_attribute("src")) == (color == "dark") for image in shown)
        assert page.evaluate("document.documentElement.dataset.theme") == color

    pictures_are(theme)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    pictures_are("light")
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    pictures_are(theme)


def test_the_button_copies_the_whole_command(visit):
    page = visit(CHAPTERS[0])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator(".figure-command .copy-command").first
    assert re.match(r"Copy the command of figure [\d.]+$", button.get_attribute("aria-label"))
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("b => b.textContent === 'Copied'", arg=button.element_handle())
    assert (
        page.evaluate("navigator.clipboard.readText()")
        == page.locator(".figure-command code").first.text_content()
    )


def test_a_number_leads_to_its_row_on_the_page_of_runs(visit):
    page = visit("encodings.html", java_script_enabled=False)
    page.locator("a.recorded-number").first.click()
    name = page.locator("a:target").inner_text()
    assert page.url.endswith(f"runs.html#quick-{name}")
