"""What a page of the built book costs its reader: bytes and time. Run alone, last, by ``make check-book``.

Counted is what a page cannot be read without: its HTML and every style sheet, script and font that it loads,
as they lie on disk, not compressed. Not counted are its figures, the data that scripts fetch when a reader
comes near, and MathJax, one file of 2.2 MB that most pages share and that a browser keeps. Timed is from the
request to the end of the load event, when the page can be read and used: by then the formulas in view are
drawn, all others follow a few at a time.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from built_book import ALL_PAGES, HTML, open_context

BYTES = 1_250_000
SECONDS = 1.0
VISITS = 7

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser):
    context = open_context(browser, width=1280, theme="light", reduced_motion="reduce")
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", ALL_PAGES)
def test_a_page_weighs_little_enough_and_loads_in_less_than_a_second(name, page):
    loaded: set[str] = set()
    kinds = ("document", "stylesheet", "script", "font")
    page.on("request", lambda r: loaded.add(r.url) if r.resource_type in kinds else None)
    seconds = []
    for _ in range(VISITS):
        page.goto("about:blank")
        page.goto((HTML / name).as_uri(), wait_until="load")
        timing = "performance.getEntriesByType('navigation')[0].loadEventEnd"
        page.wait_for_function(f"{timing} > 0")
        seconds.append(page.evaluate(timing) / 1000)
        if page.evaluate("'MathJax' in window"):
            drawn = "performance.getEntriesByName('formulas in view drawn')[0]?.startTime"
            assert page.evaluate(f"{drawn} < {timing}"), "a formula in view was drawn late"
    files = [Path(unquote(urlsplit(url).path)) for url in loaded if url.startswith("file:")]
    counted = (file for file in files if file.parent.name not in ("mathjax", "data"))
    sizes = {file.name: file.stat().st_size for file in counted}
    heaviest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    assert sum(sizes.values()) < BYTES, heaviest
    assert statistics.median(seconds) < SECONDS, seconds
