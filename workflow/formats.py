"""The book on paper and in a reader, made by headless Chromium from the pages that Sphinx wrote.

    python workflow/formats.py pdf  _build/pdf/_build/singlehtml/index.html _build/rollpe.pdf
    python workflow/formats.py epub _build/epub/_build/epub _build/rollpe.epub

No TeX is needed: MathJax draws the formulas once, in the browser. Folded code is left out, solutions are
unfolded. For the EPUB, whose readers seldom run scripts, the drawn formulas are written into the chapters and
the scripts are taken out. Nothing here touches the network: a page that asks for it stops the build.
"""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rollpe.book import find_mathjax

DRAWN = """async () => {
    await document.fonts.ready;
    await window.MathJax?.startup?.promise;
    const left = [...document.querySelectorAll('.math')].filter(formula => !formula.querySelector('svg'));
    return left.map(formula => formula.textContent);
}"""
UNFOLD = """() => {
    document.querySelectorAll('details.hide').forEach(code => code.remove());
    document.querySelectorAll('details').forEach(box => box.open = true);
}"""
# What book.css lets go over to the next page of paper.
LONG = """() => {
    for (const listing of document.querySelectorAll('div[class*=highlight-]'))
        if (listing.textContent.split('\\n').length > 24)
            (listing.closest('.cell_input') ?? listing).classList.add('long-listing');
}"""
# The site's pages bring these settings along, Sphinx's EPUB pages do not.
SETTINGS = "() => { window.MathJax = {options: {processHtmlClass: 'math', enableMenu: false}} }"
# Readers have no scroll bars, so long lines are broken.
LISTINGS = b"\npre { white-space: pre-wrap; overflow-wrap: anywhere }\n.highlight { background: #f5f5f5 }\n"
# What the standard forbids: scripts, an id used twice (all proofs have the same), directions in style sheets.
FREEZE = """() => {
    document.querySelectorAll('script, button').forEach(element => element.remove());
    for (const style of document.querySelectorAll('style'))
        style.textContent = style.textContent.replace(/direction: *ltr;?/g, '');
    const seen = new Set();
    for (const element of document.querySelectorAll('[id]'))
        if (seen.has(element.id)) element.removeAttribute('id'); else seen.add(element.id);
    return new XMLSerializer().serializeToString(document);
}"""


@contextmanager
def browser() -> Iterator[Any]:
    """A page of a Chromium that is cut off from the network."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (binding an EPUB needs no browser)

    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        sys.exit("No Chromium on this machine: install it (Debian: apt-get install chromium).")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        context = chromium.new_context(offline=True, color_scheme="light")
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        yield page
        chromium.close()
        strangers = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
        if strangers:
            sys.exit(f"The book asks the network for {strangers[0]}")


def _draw(page: Any) -> None:
    """Wait until MathJax has drawn every formula; one that it left as text stops the build."""
    left = page.evaluate(DRAWN)
    if left:
        sys.exit(f"{len(left)} formulas were not drawn, the first is {left[0]}")


def pdf(html: Path, output: Path) -> None:
    """Print one HTML page, formulas drawn, solutions unfolded, with page numbers."""
    with browser() as page:
        page.goto(html.resolve().as_uri(), wait_until="load")
        _draw(page)
        page.evaluate(UNFOLD)
        page.evaluate(LONG)
        style = "font-size:8px;width:100%;text-align:center"
        page.pdf(
            path=output,
            format="A4",
            margin={"top": "18mm", "bottom": "18mm", "left": "16mm", "right": "16mm"},
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=f'<div style="{style}"><span class="pageNumber"></span></div>',
            outline=True,
            tagged=True,
        )


def epub(folder: Path, output: Path) -> None:
    """Copy the EPUB that Sphinx wrote into folder, with formulas drawn into its chapters.

    Style sheets that extensions wrote after Sphinx had packed are added, and what the standard forbids
    (scripts, a DOCTYPE with an address in a picture) is taken out.
    """
    mathjax = find_mathjax()
    assert mathjax is not None, "sphinx-mathjax-offline is not installed"
    (made,) = folder.glob("*.epub")
    with zipfile.ZipFile(made) as source:
        contents = {name: source.read(name) for name in source.namelist()}
    manifest = contents["content.opf"].decode()
    with browser() as page:
        for name in [n for n in contents if n.endswith(".xhtml") and n != "nav.xhtml"]:
            page.goto((folder / name).resolve().as_uri(), wait_until="load")
            page.evaluate(UNFOLD)
            if b'class="math' in contents[name]:
                page.evaluate(SETTINGS)
                page.add_script_tag(path=mathjax)
            _draw(page)
            text = page.evaluate(FREEZE)
            contents[name] = text.encode()
            manifest = _declare(
                manifest, name, [kind for kind in ("svg", "mathml") if f"<{kind[:4]}" in text]
            )
    for sheet in sorted((folder / "_static").glob("*.css")):
        name = f"_static/{sheet.name}"
        if name not in contents:
            contents[name] = sheet.read_bytes()
            item = f'<item id="{sheet.stem}" href="{name}" media-type="text/css" />'
            manifest = manifest.replace("</manifest>", f"  {item}\n  </manifest>")
    contents["content.opf"] = manifest.encode()
    contents["_static/epub.css"] += LISTINGS
    with zipfile.ZipFile(output, "w") as target:
        for name, content in contents.items():  # the first entry, mimetype, must stay first and unpacked
            method = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            clean = _clean_picture(content) if name.endswith(".svg") else content
            target.writestr(name, clean, compress_type=method)


def _declare(manifest: str, name: str, properties: list[str]) -> str:
    """Say in the manifest that a chapter holds SVG or MathML, as the EPUB standard asks."""
    said = f'properties="{" ".join(properties)}" ' if properties else ""
    return re.sub(rf'<item (?=[^>]*href="{re.escape(name)}")', f"<item {said}", manifest)


def _clean_picture(svg: bytes) -> bytes:
    """A figure of Matplotlib without its DOCTYPE, without ids that recur, and with a d in every path."""
    svg = re.sub(rb"<!DOCTYPE[^>]*>\s*", b"", svg)
    svg = re.sub(rb'(<image [^>]*?) id="[^"]*"', rb"\1", svg)
    return re.sub(rb"<path(?![^>]*\sd=)", b'<path d=""', svg)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("pdf", "epub"):
        sys.exit(__doc__)
    {"pdf": pdf, "epub": epub}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
