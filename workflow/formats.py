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

from rollpe.sphinx_ext import find_mathjax

DRAWN = "async () => { await document.fonts.ready; await window.MathJax?.startup?.promise }"
UNFOLD = """() => {
    document.querySelectorAll('details.hide').forEach(code => code.remove());
    document.querySelectorAll('details').forEach(box => box.open = true);
}"""
# The site's pages bring these settings along, Sphinx's EPUB pages do not.
SETTINGS = "() => { window.MathJax = {options: {processHtmlClass: 'math'}} }"
FREEZE = """() => {
    document.querySelectorAll('script').forEach(script => script.remove());
    return new XMLSerializer().serializeToString(document);
}"""


@contextmanager
def browser() -> Iterator[Any]:
    """A page of a Chromium that is cut off from the network."""
    from playwright.sync_api import sync_playwright

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


def pdf(html: Path, output: Path) -> None:
    """Print one HTML page, formulas drawn, solutions unfolded, with page numbers."""
    with browser() as page:
        page.goto(html.resolve().as_uri(), wait_until="load")
        page.evaluate(DRAWN)
        page.evaluate(UNFOLD)
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
    """Copy the EPUB that Sphinx wrote into folder, with formulas drawn into its chapters."""
    mathjax = find_mathjax()
    assert mathjax is not None, "sphinx-mathjax-offline is not installed"
    (made,) = folder.glob("*.epub")
    drawn = set()
    with browser() as page, zipfile.ZipFile(made) as source, zipfile.ZipFile(output, "w") as target:
        pages = [name for name in source.namelist() if name.endswith(".xhtml")]
        contents = {name: source.read(name) for name in source.namelist()}
        for name in pages:
            if b'class="math' in contents[name]:
                page.goto((folder / name).resolve().as_uri(), wait_until="load")
                page.evaluate(UNFOLD)
                page.evaluate(SETTINGS)
                page.add_script_tag(path=mathjax)
                page.evaluate(DRAWN)
                contents[name] = page.evaluate(FREEZE).encode()
                drawn.add(name)
        contents["content.opf"] = _declare(contents["content.opf"].decode(), drawn).encode()
        for name, content in contents.items():  # the first entry, mimetype, must stay first and unpacked
            method = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            target.writestr(name, content, compress_type=method)


def _declare(manifest: str, drawn: set[str]) -> str:
    """Say in the manifest which chapters hold SVG, as the EPUB standard asks."""

    def mark(match: re.Match[str]) -> str:
        item = match.group(0)
        href = re.search(r'href="([^"]+)"', item)
        if href and href.group(1) in drawn and "properties=" not in item:
            return item.replace("<item ", '<item properties="svg" ')
        return item

    return re.sub(r"<item [^>]*>", mark, manifest)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("pdf", "epub"):
        sys.exit(__doc__)
    {"pdf": pdf, "epub": epub}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
