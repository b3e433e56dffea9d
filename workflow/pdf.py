"""The book on paper, printed by headless Chromium from the one page that Sphinx wrote.

    python workflow/pdf.py _build/singlehtml/index.html _build/rollpe.pdf

No TeX is needed: MathJax draws the formulas once, in the browser. Solutions are unfolded; folded code and the
pages of the library's names are left out. The PDF has a cover, a table of contents with page numbers, and the
type of paper.css. It is printed twice: only a print tells on which page a heading is.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import yaml
from matplotlib import get_data_path
from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import Destination, NameObject, TextStringObject

ROOT = Path(__file__).resolve().parent.parent

DRAWN = """async () => {
    await document.fonts.ready;
    await window.MathJax?.startup?.promise;
    const formulas = [...document.querySelectorAll('.math:not(tspan)')];
    const left = formulas.filter(formula => !formula.querySelector('svg'));
    return left.map(formula => formula.textContent);
}"""
# The cover, the contents with room for page numbers, a footer for each chapter; the library's names are
# looked up on a screen. Returns the texts of all headings and which of them the contents list. Sphinx gives
# many headings of this file the same id, so the contents bring their own.
BIND = """([front, parts]) => {
    const article = document.querySelector('article');
    const each = (selector, change) => article.querySelectorAll(selector).forEach(change);
    each('.headerlink, #document-api, #document-api + section', element => element.remove());
    each('a[href^="#document-api"]', link => link.removeAttribute('href'));
    each('a[href]:not([href^="#"], [href^="http"])', link => link.removeAttribute('href'));
    each('details', box => { box.open = true });
    each('div[class*=highlight-]', listing => { // book.css lets a long one go over to the next page
        const long = listing.textContent.split('\\n').length > 24;
        (listing.closest('.cell_input') ?? listing).classList.toggle('long-listing', long);
    });
    const words = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    for (let text; text = words.nextNode();) // a mean and its deviation, or a percentage, stay in one line
        if (!text.parentElement.closest('pre'))
            text.data = text.data.replace(/ (?=[±%])|(?<=±) /g, '\\u00a0');
    each('h1', title => { title.outerHTML = '<h2 class="listed">About this book</h2>' });
    each('.toctree-wrapper > section', (chapter, i) => {
        const title = chapter.querySelector('h2');
        title.className = 'listed';
        chapter.prepend(chapter.previousElementSibling); // a target, which would get a page of its own
        chapter.style.page = `chapter-${i}`;
        const footer = `{ content: ${JSON.stringify(title.textContent)}; font: 9pt Book }`;
        const style = `<style>@page chapter-${i} { @bottom-left ${footer} }</style>`;
        chapter.insertAdjacentHTML('beforeend', style);
    });
    article.insertAdjacentHTML('afterbegin', front);
    const list = article.querySelector('.book-contents ol');
    const headings = [...article.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter(h => h.checkVisibility());
    const listed = headings.filter(heading => heading.matches('h3, .listed'));
    listed.forEach((heading, i) => {
        if (heading.matches('.toctree-wrapper > section:first-of-type > h2'))
            list.insertAdjacentHTML('beforeend', `<li class="part">${parts.shift()}</li>`);
        heading.id = `contents-${i}`;
        const line = `<a href="#${heading.id}"></a><span class="dots"></span><span class="number">000</span>`;
        list.insertAdjacentHTML('beforeend', `<li class="level-${heading.tagName[1]}">${line}</li>`);
        list.lastChild.firstChild.textContent = heading.textContent;
    });
    return [headings.map(heading => heading.textContent), listed.map(heading => headings.indexOf(heading))];
}"""
NUMBER = """numbers => document.querySelectorAll('.book-contents .number').forEach(
    (slot, i) => { slot.textContent = numbers[i] })"""


def pdf(html: Path, output: Path) -> None:
    """Print one HTML page as a book: a cover, contents with page numbers, chapters on pages of their own."""
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        sys.exit("No Chromium on this machine: install it (Debian: apt-get install chromium).")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        chromium = playwright.chromium.launch(executable_path=executable, args=arguments)
        page = chromium.new_context(offline=True, color_scheme="light").new_page()
        page.emulate_media(media="print")
        page.goto(html.resolve().as_uri(), wait_until="load")
        left = page.evaluate(DRAWN)
        if left:
            sys.exit(f"{len(left)} formulas were not drawn, the first is {left[0]}")
        fonts = Path(get_data_path(), "fonts/ttf").as_uri()
        page.add_style_tag(content=(ROOT / "workflow/paper.css").read_text().replace("FONTS", fonts))
        parts = [part["caption"] for part in yaml.safe_load((ROOT / "book/_toc.yml").read_text())["parts"]]
        titles, listed = page.evaluate(BIND, [front(), parts])
        page.evaluate("() => document.fonts.ready")

        settings = {"prefer_css_page_size": True, "outline": True, "tagged": True}
        numbers = [number for _, number in outline(PdfReader(BytesIO(page.pdf(**settings))))]
        if len(numbers) != len(titles):
            sys.exit(f"The outline of the PDF has {len(numbers)} entries, the book {len(titles)} headings")
        page.evaluate(NUMBER, [numbers[i] for i in listed])
        document = PdfWriter(BytesIO(page.pdf(**settings)))
        chromium.close()
    printed = outline(document)
    if [number for _, number in printed] != numbers:
        sys.exit("The second print has other page numbers than its table of contents")
    for (entry, _), title in zip(printed, titles, strict=True):
        # Chromium repeats a title that begins a page and loses the spaces at the ends of its lines.
        entry.node[NameObject("/Title")] = TextStringObject(" ".join(title.split()))
    document.write(output)


def outline(document: PdfReader | PdfWriter) -> list[tuple[Destination, int]]:
    """The entries of the outline, of all its levels, and their pages from 1."""

    def entries(level: list) -> Iterator[Destination]:
        for entry in level:
            yield from entries(entry) if isinstance(entry, list) else (entry,)

    return [(entry, document.get_destination_page_number(entry) + 1) for entry in entries(document.outline)]


def front() -> str:
    """The cover, with title, version and the paper's authors, and the empty contents."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = about["references"]
    keys = ("given-names", "name-particle", "family-names")
    names = [" ".join(author[key] for key in keys if key in author) for author in paper["authors"]]
    return f"""<header class="cover"><h1>{config["title"]}</h1>
<p class="subtitle">A living, checked version of the paper</p>
<p class="authors">{", ".join(names)}: {paper["title"]} {paper["journal"]} ({paper["year"]})</p>
<img src="{(ROOT / "book/_static/wave.svg").as_uri()}" alt="A wave that travels around a ring">
<p class="imprint">Version {about["version"]}, {config["copyright"]} · {config["author"]}</p></header>
<nav class="book-contents"><h2>Contents</h2><ol></ol>
<p class="note">The cell under an equation checks it. What the check found, folded code, the commands
that draw the figures, and the library's names are on the book's pages and not in this print.</p></nav>"""


if __name__ == "__main__":
    pdf(Path(sys.argv[1]), Path(sys.argv[2]))
