"""Every page of the built book in headless Chromium, opened from disk with the network cut off.

Run by ``make check-book`` after ``make book``; not part of ``make test``.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build/html"
HELPERS = {"genindex.html", "search.html", "prf-prf.html"}
PAGES = sorted(
    str(path.relative_to(HTML))
    for path in HTML.rglob("*.html")
    if not {"_static", "_modules", "_sources"} & set(path.relative_to(HTML).parts)
    and path.name not in HELPERS
)
WIDTHS = (390, 1280)
THEMES = ("light", "dark")
SCREENSHOTS = os.environ.get("ROLLPE_SCREENSHOTS")  # a folder, to look at the pages afterwards

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert executable, "no Chromium on this machine: install Debian's package chromium"
    assert PAGES, "there is no book to look at: run make book first"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(params=THEMES)
def theme(request):
    return request.param


@pytest.fixture(params=WIDTHS)
def visit(request, browser, theme):
    """Open a page at one width and theme; complaints gathers what the page says is wrong."""
    context = browser.new_context(viewport={"width": request.param, "height": 900}, color_scheme=theme)
    context.set_offline(True)
    context.add_init_script(
        f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}')"
    )
    complaints: list[str] = []

    def only_from_disk(route):
        if not route.request.url.startswith(("file:", "data:", "blob:")):
            complaints.append(f"asks the network for {route.request.url}")
        route.continue_()

    context.route("**/*", only_from_disk)

    def open_page(name: str):
        page = context.new_page()
        page.on("console", lambda m: complaints.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on("requestfailed", lambda r: complaints.append(f"missing: {r.url}"))
        page.goto((HTML / name).as_uri(), wait_until="load")
        page.evaluate("async () => { await (window.MathJax?.startup?.promise); await document.fonts.ready }")
        if SCREENSHOTS:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            picture = f"{name.replace('/', '-').removesuffix('.html')}-{request.param}-{theme}.png"
            page.screenshot(path=Path(SCREENSHOTS) / picture, full_page=True)
        return page, complaints

    yield open_page
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_whole(name, visit, theme):
    page, complaints = visit(name)
    assert complaints == []

    formulas = page.locator("span.math, div.math").count()
    drawn = page.locator("span.math mjx-container, div.math mjx-container").count()
    assert drawn >= formulas, f"{formulas - drawn} formulas are not drawn"
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0, "MathJax could not read a formula"

    broken = page.evaluate(
        "[...document.images].filter(i => i.loading !== 'lazy' && !i.naturalWidth).map(i => i.src)"
    )
    assert broken == []
    unnamed = page.evaluate(
        "[...document.querySelectorAll('article img')].filter(i => !i.alt.trim()).map(i => i.src)"
    )
    assert unnamed == [], "images without alternative text"

    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, f"the page scrolls sideways by {overflow} px"
    assert page.evaluate("document.documentElement.dataset.theme") == theme


def test_the_derivations_and_the_results_are_there():
    stems = {Path(name).stem for name in PAGES}
    assert {"index", "05-rolling", "11-train", "12-results"} <= stems
