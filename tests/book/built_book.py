"""Where the built book stands, and which pages it has. Not a test; the browser is in conftest.py."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
HTML = Path(os.environ.get("ROLLPE_HTML", ROOT / "_build/html")).resolve()
"""The folder of the book; ROLLPE_HTML names another one."""
SOURCES = sorted((HTML / "_modules").rglob("*.html"), key=lambda path: path.stat().st_size)
REDIRECTS = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))["sphinx"]["config"]["redirects"]
ALL_PAGES = sorted(
    str(path.relative_to(HTML))
    for path in HTML.rglob("*.html")
    if not {"_static", "_sources"} & set(path.relative_to(HTML).parts)
    and path not in SOURCES[:-1]
    and str(path.relative_to(HTML).with_suffix("")) not in REDIRECTS
)
"""Of the listings of the library, which one template makes, the longest stands for all."""
HELPERS = {"genindex.html", "search.html", "prf-prf.html", *(str(p.relative_to(HTML)) for p in SOURCES)}
"""Pages that Sphinx makes for looking things up: held to accessibility and weight, not to content."""
PAGES = [name for name in ALL_PAGES if name not in HELPERS]
WIDTHS = (390, 1280)
THEMES = ("light", "dark")


def open_context(browser, *, width: int, theme: str, **options):
    """A window of one width, cut off from the network; theme "auto" is what the reader's system asks for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
    values = {"mode": theme} if theme == "auto" else {"mode": theme, "theme": theme}
    script = "".join(f"localStorage.setItem('{key}', '{value}');" for key, value in values.items())
    context.add_init_script(script)
    return context


def come_near(page) -> None:
    """Wait for the moving figures that fetch their data when their reader comes near; end at the top."""
    for figure in page.locator("figure.wave").all():
        figure.evaluate("figure => figure.scrollIntoView({ behavior: 'instant' })")
        figure.locator(".wave-stage > .wave-panels").wait_for(timeout=5000)
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
