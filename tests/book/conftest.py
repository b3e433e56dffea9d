"""One browser for all tests of the built book."""

from __future__ import annotations

import shutil

import pytest
from built_book import HTML


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert executable, "no Chromium on this machine: install Debian's package chromium"
    assert (HTML / "index.html").is_file(), f"there is no book in {HTML}: run make book first"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()
