"""Pages of the built book in a browser."""

from __future__ import annotations

import pytest
from built_book import HTML, open_context


@pytest.fixture(scope="session")
def browser(chromium):
    assert (HTML / "index.html").is_file(), f"there is no book in {HTML}: run make book first"
    return chromium


@pytest.fixture
def visit(browser):
    """Open pages of the book, each in a context of its own: visit(name, width=…, theme=…, **options)."""
    contexts = []

    def open_page(name: str, width: int = 1280, theme: str = "light", **options):
        context = open_context(browser, width=width, theme=theme, **options)
        contexts.append(context)
        page = context.new_page()
        page.goto((HTML / name).as_uri(), wait_until="load")
        return page

    yield open_page
    for context in contexts:
        context.close()
