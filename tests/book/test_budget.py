"""What a page of the built book costs its reader: bytes, and elements that a browser lays out.

Counted is what a page cannot be read without: its HTML and every style sheet, script and font that it loads,
as they lie on disk, not compressed. Not counted are its figures, the data that scripts fetch when a reader
comes near, and MathJax, one file of 2.2 MB that most pages share and that a browser keeps. The formulas in
view are drawn before the end of the load event, when the page can be read; all others follow a few at a time.
How many of those are drawn when the page is read depends on the machine, so no part of a formula is counted.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from built_book import ALL_PAGES, HTML, open_context

BYTES = 1_250_000
ELEMENTS = 8_000

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser):
    context = open_context(browser, width=1280, theme="light", reduced_motion="reduce")
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", ALL_PAGES)
def test_a_page_weighs_little_and_draws_what_is_in_view_first(name, page):
    loaded: set[str] = set()
    kinds = ("document", "stylesheet", "script", "font")
    page.on("request", lambda r: loaded.add(r.url) if r.resource_type in kinds else None)
    page.goto((HTML / name).as_uri(), wait_until="load")
    elements = "*:not(mjx-container, mjx-container *)"
    assert page.evaluate(f"document.querySelectorAll('{elements}').length") < ELEMENTS
    if page.evaluate("'MathJax' in window"):
        ended = "performance.getEntriesByType('navigation')[0].loadEventEnd"
        page.wait_for_function(f"{ended} > 0")
        drawn = "performance.getEntriesByName('formulas in view drawn')[0]?.startTime"
        assert page.evaluate(f"{drawn} < {ended}"), "a formula in view was drawn late"
    files = [Path(unquote(urlsplit(url).path)) for url in loaded if url.startswith("file:")]
    counted = (file for file in files if file.parent.name not in ("mathjax", "data"))
    sizes = {file.name: file.stat().st_size for file in counted}
    heaviest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    assert sum(sizes.values()) < BYTES, heaviest
