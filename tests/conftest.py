"""One Chromium for all tests that need a browser."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="session")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert executable, "no Chromium on this machine: install Debian's package chromium"
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()
