"""The filter of the ledger of claims, worked by keyboard in headless Chromium.

Run by ``make check-book`` after ``make book``; not part of ``make test``.
"""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.browser


def counted(page) -> int:
    """How many claims show; every number on the page agrees."""
    shown = page.locator(".claim:visible").count()
    assert page.locator(".ledger-filter output").text_content().startswith(f"{shown} of ")
    return shown


def test_claims_are_picked_by_document_kind_and_verdict_and_the_counts_follow(visit):
    page = visit("claims.html")
    total = page.locator(".claim").count()
    assert counted(page) == total > 80
    menus = {
        name: page.locator(".ledger-filter").get_by_label(name) for name in ("Document", "Kind", "Verdict")
    }
    assert menus["Document"].locator("option").count() == page.locator("section:has(> .ledger)").count() + 1

    menus["Verdict"].focus()
    page.keyboard.type("corr")
    corrected = counted(page)
    assert corrected == page.locator(".claim.is-corrected").count() < total
    assert page.locator(".claim:visible:not(.is-corrected)").count() == 0

    menus["Document"].select_option("paper")
    of_paper = counted(page)
    assert of_paper == page.locator(".claim.is-corrected.document-paper").count() < corrected
    assert page.locator("section:has(> .ledger):visible").count() == 1, "other documents have none to show"
    for name, menu in menus.items():
        numbers = [
            int(re.search(r"\((\d+)\)$", text)[1]) for text in menu.locator("option").all_inner_texts()
        ]
        assert numbers[0] == sum(numbers[1:]), name
    assert "mathematical" in menus["Kind"].locator("option", has_text=f"({of_paper})").last.text_content()

    page.get_by_role("button", name="Show all").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.ledger-filter button').disabled")
    assert counted(page) == total
    page.emulate_media(media="print")
    assert not page.locator(".ledger-filter").is_visible(), "on paper there is no filter"
    assert page.locator(".claim-details p").first.is_visible(), "and nothing to unfold"


def test_without_scripts_every_claim_shows_and_no_menu_does(visit):
    page = visit("claims.html", java_script_enabled=False)
    assert page.locator(".claim:visible").count() == page.locator(".claim").count() > 80
    assert page.locator(".ledger-filter").count() == 0
    rule = page.locator(".claim-details p").first
    assert not rule.is_visible()
    page.locator(".claim-details > summary").first.click()
    assert rule.is_visible() and page.locator(".claim-details[open]").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_bar_of_verdicts_is_as_wide_as_the_text_with_a_number_in_every_segment(width, theme, visit):
    page = visit("index.html", width=width, theme=theme)
    bars = page.locator(".verdict-bar[role=img]").all()
    assert len(bars) == 2, "formulas and models"
    assert "(3 on the paper" in bars[1].get_attribute("aria-label"), "proofs are not taken for experiments"
    for bar in bars:
        numbers = bar.locator("b")
        boxes = [number.bounding_box() for number in numbers.all()]
        assert len({round(box["y"]) for box in boxes}) == 1, "one line"
        assert sum(box["width"] for box in boxes) == pytest.approx(bar.bounding_box()["width"], abs=2)
        counts = [int(text) for text in numbers.all_inner_texts()]
        assert f"{sum(counts)} claims of the paper" in bar.get_attribute("aria-label")
        assert all(n.evaluate("b => b.scrollWidth <= b.clientWidth + 1") for n in numbers.all())
