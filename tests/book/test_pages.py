"""Every page of the built book in headless Chromium, opened from disk with the network cut off.

Whether a page is whole, and whether everybody can use it: the accessibility rules are axe-core's, which
come with the pages' scripts (book/scripts/package.json). Run by ``make check-book`` after ``make book``; not
part of ``make test``. Weight is in test_budget.py, moving figures in test_widgets.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from built_book import ALL_PAGES, HELPERS, HTML, PAGES, REDIRECTS, ROOT, SOURCES, THEMES, WIDTHS, open_context

from rollpe_book.extension.links import repository

AXE = ROOT / "book/scripts/node_modules/axe-core/axe.min.js"
SCREENSHOTS = os.environ.get("ROLLPE_SCREENSHOTS")  # a folder, to look at the pages afterwards
RULES = {
    "light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "dark": ["color-contrast", "link-in-text-block", "image-alt", "svg-img-alt"],
}
"""All rules on a light page; on the same page turned dark, those that a color can break."""
EXCUSED = {
    "empty-table-header": "math",  # axe does not read MathML, which is what a screen reader gets
}
"""Rules that are not held against an element, if it contains what the selector finds."""

FIND_VIOLATIONS = """async ([rules, excused]) => {
    const results = await axe.run(document, {runOnly: rules, resultTypes: ["violations"], preload: false});
    return results.violations.flatMap((rule) => rule.nodes
        .filter((node) => !(excused[rule.id] && document.querySelector(node.target[0])
            ?.querySelector(excused[rule.id])))
        .map((node) => `${rule.id}: ${node.target.join(" ")} | ${node.failureSummary}`));
}"""

pytestmark = pytest.mark.browser


@pytest.fixture(params=WIDTHS)
def look(request, browser):
    """Open a page at one width; complaints gathers what the page says is wrong."""
    context = open_context(browser, width=request.param, theme="auto", reduced_motion="reduce")
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
        return page, complaints

    yield open_page
    context.close()


@pytest.mark.parametrize("name", ALL_PAGES)
def test_the_page_is_whole_and_open_to_everybody(name, look):
    page, complaints = look(name)
    assert complaints == []
    if name not in HELPERS:
        the_page_is_whole(page)

    assert AXE.is_file(), "axe-core is not installed: run make check-book, which does that"
    page.add_script_tag(path=AXE)
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        page.evaluate("Promise.all(document.getAnimations().map((fading) => fading.finished))")
        if SCREENSHOTS:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            width = page.viewport_size["width"]
            picture = f"{name.replace('/', '-').removesuffix('.html')}-{width}-{theme}.png"
            page.screenshot(path=Path(SCREENSHOTS) / picture, full_page=True)
        assert page.evaluate(FIND_VIOLATIONS, [RULES[theme], EXCUSED]) == [], theme


def the_page_is_whole(page) -> None:
    """Formulas are drawn, pictures are there and named, and nothing sticks out sideways or is cut off."""
    formulas = page.locator("span.math, div.math").count()
    drawn = page.locator("span.math mjx-container, div.math mjx-container").count()
    assert drawn >= formulas, f"{formulas - drawn} formulas are not drawn"
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0, "MathJax could not read a formula"

    assert page.evaluate(RAW_MARKUP) == [], "markup that was not understood"
    assert page.evaluate(BROKEN_PICTURES) == []
    unnamed = page.evaluate(
        "[...document.querySelectorAll('article img')].filter(i => !i.alt.trim()).map(i => i.src)"
    )
    assert unnamed == [], "images without alternative text"

    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, f"the page scrolls sideways by {overflow} px"
    if page.viewport_size["width"] >= 1280:
        room = page.evaluate(ROOM_FOR_CODE, COLUMNS)
        assert all(pixels >= 0 for pixels in room), f"{COLUMNS} characters of code lack {-min(room)} px"


RAW_MARKUP = r"""() => {
  const found = [];
  const texts = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent, parent = texts.currentNode.parentElement;
    if (/\\[a-z]+|\{[a-z-]+\}`|\*\*|\]\(/.test(text)
        && !parent.closest('pre, code, .sig, .math, mjx-container, script, style')) found.push(text);
  }
  return found;
}"""

BROKEN_PICTURES = """async () => {
  const pictures = [...document.images];
  for (const picture of pictures) picture.loading = "eager";  // figures wait until a reader comes near
  await Promise.all(pictures.map(picture => picture.decode().catch(() => {})));
  return pictures.filter(picture => !picture.naturalWidth).map(picture => picture.src);
}"""

COLUMNS = 88
ROOM_FOR_CODE = """(columns) => [...document.querySelectorAll('.bd-article .cell_input pre')]
    .filter((pre) => pre.checkVisibility())
    .map((pre) => {
        const line = document.createElement('span');
        line.textContent = '0'.repeat(columns);
        pre.append(line);
        const width = line.getBoundingClientRect().width;
        line.remove();
        const style = getComputedStyle(pre);
        return pre.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - width;
    })"""


def test_the_front_page_fits_one_screen_of_a_desk(visit):
    page = visit("index.html")
    for part in ("article h1", ".front-buttons", ".front .wave-stage", ".front-answer >> nth=-1"):
        box = page.locator(part).bounding_box()
        assert box and box["y"] >= 0 and box["y"] + box["height"] <= 900, (part, box)


@pytest.mark.parametrize("name", ["executed/04-rolling.html", "executed/05-rope.html"])
def test_on_paper_there_are_no_controls_and_no_line_is_cut_off(name, visit):
    page = visit(name, width=720)  # the column of an A4 page
    page.evaluate("async () => { await window.MathJax.startup.promise }")
    page.emulate_media(media="print")
    for control in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article", ".copybtn"):
        assert not any(item.is_visible() for item in page.locator(control).all()), control
    cut_off = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article pre')]
            .filter((pre) => pre.checkVisibility() && pre.scrollWidth > pre.clientWidth + 1)
            .map((pre) => pre.textContent)"""
    )
    assert cut_off == []


def test_each_page_tells_a_search_engine_its_own_title_and_what_it_is_about(visit):
    page = visit("index.html", java_script_enabled=False)
    titles, descriptions = {}, {}
    for name in PAGES:
        page.goto((HTML / name).as_uri(), wait_until="domcontentloaded")
        titles[name] = page.title()
        descriptions[name] = page.locator('meta[name="description"]').get_attribute("content")
        assert page.locator("h1").first.text_content().strip().rstrip("#") in titles[name]
        assert 20 <= len(descriptions[name]) <= 200, descriptions[name]
        for tag in ("og:title", "og:description"):
            assert page.locator(f'meta[property="{tag}"]').get_attribute("content"), (name, tag)
        pictures = page.locator('meta[property="og:image"]').evaluate_all("all => all.map(p => p.content)")
        assert len(pictures) == bool(repository(ROOT)), "a whole address, or none"
        assert all(re.match(r"https://.+/_static/\w+\.png$", picture) for picture in pictures)
        assert page.locator('meta[name="citation_title"]').get_attribute("content")
    stems = {Path(name).stem for name in PAGES}
    assert {"index", "04-rolling", "11-train", "09-results"} <= stems
    assert len(set(titles.values())) == len(set(descriptions.values())) == len(PAGES)


def test_links_to_the_code_and_back_lead_to_what_they_name():
    pages = {path: path.read_text(encoding="utf8") for path in HTML.rglob("*.html")}
    links = {
        (path.parent.joinpath(page).resolve(), target)
        for path, text in pages.items()
        for page, target in re.findall(r'href="([^":]*_modules/[^"#]*)#([^"]+)"', text)
    }
    links |= {
        (path.parent.joinpath(page).resolve(), target)
        for path in SOURCES
        for page, target in re.findall(r'class="viewcode-back" href="([^"#]*)#([^"]+)"', pages[path])
    }
    assert len(links) > 100
    assert [(path.name, name) for path, name in links if f'id="{name}"' not in pages[path]] == []


@pytest.mark.parametrize("old", REDIRECTS)
def test_an_earlier_address_leads_to_the_chapter(old):
    text = (HTML / f"{old}.html").read_text(encoding="utf8")
    (target,) = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', text)
    assert (HTML / old).parent.joinpath(target).is_file()
