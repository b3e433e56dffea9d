"""What tests of several folders share: one Chromium, encodings that are put back."""

from __future__ import annotations

import shutil

import pytest

from rollpe.encodings import ENCODINGS


@pytest.fixture
def known_encodings_are_put_back():
    known = dict(ENCODINGS)
    yield
    ENCODINGS.clear()
    ENCODINGS.update(known)


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
