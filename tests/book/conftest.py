"""One browser for all tests of the built book."""

from __future__ import annotations

import shutil

import pytest
from built_book import HTML, open_context
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="session")
def browser():
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert executable, "no Chromium on this machine: install Debian's package chromium"
    assert (HTML / "index.html").is_file(), f"there is no book in {HTML}: run make book first"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


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
