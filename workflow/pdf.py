"""The book on paper, printed by headless Chromium from the one page that Sphinx wrote.

    python workflow/pdf.py _build/pdf/_build/singlehtml/index.html _build/rollpe.pdf

No TeX is needed: MathJax draws the formulas once, in the browser. Folded code is left out, solutions are
unfolded. The PDF has a cover, a table of contents with page numbers, and the type of paper.css, but not the
pages of the library's names. It is printed twice: only a print tells on which page a heading is. Nothing here
touches the network: a page that asks for it stops the build.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from matplotlib import get_data_path
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent

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
# The pages of the library's names are looked up on a screen; links to them become their words.
LOOKED_UP = """() => {
    const names = document.getElementById('document-api');
    names?.nextElementSibling.remove();
    names?.remove();
    for (const link of document.querySelectorAll('a[href^="#document-api"]'))
        link.replaceWith(...link.childNodes);
}"""
# What book.css lets go over to the next page of paper.
LONG = """() => {
    for (const listing of document.querySelectorAll('div[class*=highlight-]'))
        if (listing.textContent.split('\\n').length > 24)
            (listing.closest('.cell_input') ?? listing).classList.add('long-listing');
}"""
# An interval, a percentage and what follows a sign of comparison stay in one line.
TOGETHER = """() => {
    const book = document.querySelector('article') ?? document.body;
    const walker = document.createTreeWalker(book, NodeFilter.SHOW_TEXT);
    for (let node; node = walker.nextNode();) {
        if (node.parentElement.closest('pre, script, style, mjx-container')) continue;
        node.data = node.data
            .replace(/\\[[^\\][]{0,12}\\d[^\\][]{0,12}\\]/g, interval => interval.replace(/ /g, '\\u00a0'))
            .replace(/ ?([=<>≤≥≈±]) (?=[−+-]?\\d)/g, whole => whole.replace(/ /g, '\\u00a0'))
            .replace(/(\\d) (?=%)/g, '$1\\u00a0');
    }
}"""
# The cover, the contents with room for page numbers, a footer for each chapter. Returns the texts of all
# headings and which of them the contents list. Sphinx gives many headings of this file the same id, so the
# contents bring their own.
BIND = """([cover, parts, note]) => {
    const article = document.querySelector('article') ?? document.body;
    // Page names reach the pages through plain blocks alone, and nothing may stand before the cover.
    for (let box = article; box !== document.body; box = box.parentElement) {
        for (const other of [...box.parentElement.children])
            if (other !== box && !other.querySelector('defs')) other.remove();
        box.parentElement.classList.add('frame');
    }
    const title = article.querySelector('h1');
    const front = document.createElement('h2');
    front.textContent = 'About this book';
    title.replaceWith(front);
    front.parentElement.classList.add('front-matter');

    const contents = document.createElement('nav');
    contents.className = 'book-contents';
    contents.innerHTML = '<h2>Contents</h2><ol></ol><p class="note"></p>';
    contents.querySelector('.note').textContent = note;
    const list = contents.querySelector('ol');
    const footers = document.createElement('style');
    const listed = [];
    const wrappers = [...article.querySelectorAll('.toctree-wrapper')].filter(
        wrapper => !wrapper.parentElement.closest('.toctree-wrapper'));
    let inside;
    for (const heading of article.querySelectorAll('h2, h3')) {
        const wrapper = wrappers.find(wrapper => wrapper.contains(heading));
        if (wrapper !== inside) {
            inside = wrapper;
            const part = document.createElement('li');
            part.className = 'part';
            part.textContent = parts[wrappers.indexOf(wrapper)] ?? '';
            list.append(part);
        }
        const chapter = wrapper && heading.parentElement.parentElement === wrapper;
        if (heading.tagName === 'H2' && !chapter && heading !== front) continue;
        const copy = heading.cloneNode(true);
        copy.querySelectorAll('.headerlink').forEach(link => link.remove());
        const text = copy.textContent.trim();
        const name = `contents-${listed.length + 1}`;
        listed.push(heading);
        const target = document.createElement('a');
        target.id = name;
        heading.prepend(target);
        const line = document.createElement('li');
        line.className = `level-${heading.tagName[1]}`;
        line.innerHTML = `<a href="#${name}"></a><span class="dots"></span><span class="number">000</span>`;
        line.firstChild.textContent = text;
        list.append(line);
        if (!chapter) continue;
        const section = heading.parentElement;
        section.classList.add('chapter');
        section.style.page = name;
        if (section.previousElementSibling?.matches('span'))
            section.prepend(section.previousElementSibling); // a target, which would get a page of its own
        const lists = ['claims', 'errata', 'glossary', 'references'].map(page => `document-${page}`);
        if (lists.includes(section.firstElementChild.id)) section.classList.add('reference-list');
        const quoted = JSON.stringify(text);
        footers.textContent += `@page ${name} { @bottom-left { content: ${quoted}; font: 9pt Book } }\\n`;
    }
    document.head.append(footers);
    article.insertAdjacentHTML('afterbegin', cover);
    article.querySelector('.cover h1').textContent = title.firstChild.textContent;
    article.querySelector('.cover').after(contents);
    const headings = [...article.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter(h => h.checkVisibility());
    for (const heading of headings) heading.querySelectorAll('.headerlink').forEach(link => link.remove());
    const titles = headings.map(heading => heading.textContent.trim().replace(/\\s+/g, ' '));
    return [titles, listed.map(heading => headings.indexOf(heading))];
}"""
NUMBER = """numbers => document.querySelectorAll('.book-contents .number').forEach(
    (slot, i) => { slot.textContent = numbers[i] })"""
NOTE = (
    "A test checks every displayed equation. What each check found, folded code, the commands that draw the "
    "figures, and the library's names are on the book's pages and not in this print."
)


def pdf(html: Path, output: Path) -> None:
    """Print one HTML page as a book: a cover, contents with page numbers, chapters on pages of their own."""
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        sys.exit("No Chromium on this machine: install it (Debian: apt-get install chromium).")
    asked: list[str] = []
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        chromium = playwright.chromium.launch(executable_path=executable, args=arguments)
        page = chromium.new_context(offline=True, color_scheme="light").new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(html.resolve().as_uri(), wait_until="load")
        left = page.evaluate(DRAWN)
        if left:
            sys.exit(f"{len(left)} formulas were not drawn, the first is {left[0]}")
        page.add_style_tag(content=_fonts() + (ROOT / "workflow/paper.css").read_text())
        for change in (LOOKED_UP, UNFOLD, LONG, TOGETHER):
            page.evaluate(change)
        parts = [part["caption"] for part in yaml.safe_load((ROOT / "book/_toc.yml").read_text())["parts"]]
        titles, listed = page.evaluate(BIND, [_cover(), parts, NOTE])
        page.evaluate("() => document.fonts.ready")
        found = outline(page.pdf(prefer_css_page_size=True, outline=True, tagged=True))
        if len(found) != len(titles):
            sys.exit(f"The outline of the PDF has {len(found)} entries, the book {len(titles)} headings")
        page.evaluate(NUMBER, [found[i][1] for i in listed])
        printed = page.pdf(prefer_css_page_size=True, outline=True, tagged=True)
        chromium.close()
    strangers = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    if strangers:
        sys.exit(f"The book asks the network for {strangers[0]}")
    if outline(printed) != found:
        sys.exit("The second print has other page numbers than its table of contents")
    output.write_bytes(retitle(printed, titles))


def _objects(printed: bytes) -> dict[bytes, bytes]:
    """The dictionaries in a PDF that Chromium wrote, by the numbers of their objects."""
    return dict(re.findall(rb"^(\d+) 0 obj\n(<<.*?)\nendobj", printed, re.DOTALL | re.MULTILINE))


def outline(printed: bytes) -> list[tuple[bytes, int]]:
    """For each heading in the outline of a PDF that Chromium wrote: number of its entry, page from 1."""
    objects = _objects(printed)
    (catalog,) = (body for body in objects.values() if body.startswith(b"<</Type /Catalog"))

    def referred(body: bytes, key: str) -> list[bytes]:
        """The numbers of the objects that an entry of a dictionary refers to."""
        found = re.search(rf"/{key} \[?([\d\sR]+)".encode(), body)
        return re.findall(rb"(\d+) 0 R", found[1]) if found else []

    def leaves(number: bytes) -> Iterator[bytes]:
        if objects[number].startswith(b"<</Type /Pages"):
            for kid in referred(objects[number], "Kids"):
                yield from leaves(kid)
        else:
            yield number

    def entries(parent: bytes) -> Iterator[tuple[bytes, int]]:
        following = referred(objects[parent], "First")
        while following:
            (entry,) = following
            yield entry, order[referred(objects[entry], "Dest")[0]]
            yield from entries(entry)
            following = referred(objects[entry], "Next")

    order = {number: i for i, number in enumerate(leaves(*referred(catalog, "Pages")), start=1)}
    return list(entries(*referred(catalog, "Outlines")))


def retitle(printed: bytes, titles: list[str]) -> bytes:
    """The PDF with these titles in its outline, added as an update at its end.

    Chromium repeats a title that begins a page and loses the spaces at the ends of its lines.
    """
    objects = _objects(printed)
    update, table = printed, b"xref\n0 0\n"
    for (number, _), title in zip(outline(printed), titles, strict=True):
        text = b"<" + ("\ufeff" + title).encode("utf-16-be").hex().encode() + b">"
        rest = objects[number][objects[number].index(b"\n/") :]  # all but the title, which is first
        table += b"%s 1\n%010d 00000 n \n" % (number, len(update))
        update += b"%s 0 obj\n<</Title %s%s\nendobj\n" % (number, text, rest)
    trailer, start = re.findall(rb"trailer\n<<(.*?)>>\nstartxref\n(\d+)", printed, re.DOTALL)[-1]
    ending = b"trailer\n<<%s\n/Prev %s>>\nstartxref\n%d\n%%%%EOF\n" % (trailer, start, len(update))
    return update + table + ending


def _fonts() -> str:
    """The rules that load the type of the book: Matplotlib brings them along."""
    folder = Path(get_data_path()) / "fonts/ttf"
    files = {
        "STIXGeneral": "Book; font-weight: 400; font-style: normal",
        "STIXGeneralBol": "Book; font-weight: 700; font-style: normal",
        "STIXGeneralItalic": "Book; font-weight: 400; font-style: italic",
        "STIXGeneralBolIta": "Book; font-weight: 700; font-style: italic",
        "DejaVuSansMono": "Listing; font-weight: 400; font-style: normal",
        "DejaVuSansMono-Bold": "Listing; font-weight: 700; font-style: normal",
        "DejaVuSansMono-Oblique": "Listing; font-weight: 400; font-style: italic",
    }
    return "".join(
        f"@font-face {{ font-family: {face}; src: url({(folder / name).as_uri()}.ttf) }}\n"
        for name, face in files.items()
    )


def _cover() -> str:
    """The first page: title, the paper and its authors, a wave on a ring, the version."""
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = about["references"]
    keys = ("given-names", "name-particle", "family-names")
    names = [" ".join(author[key] for key in keys if key in author) for author in paper["authors"]]
    first = names[0].removeprefix(paper["authors"][0]["given-names"])
    year = yaml.safe_load((ROOT / "_config.yml").read_text())["copyright"]
    return f"""<header class="cover"><h1></h1>
<p class="subtitle">A living, checked version of{first} et al. ({paper["year"]})</p>
<p class="authors">{", ".join(names)}: {paper["title"]} {paper["journal"]}</p>
{_ring()}
<p class="imprint">Version {about["version"]}, {year} · {about["authors"][0]["name"]}</p></header>"""


def _ring(channels: int = 40, steps: int = 4, stride: int = 6) -> str:
    """An SVG of a bump on a ring of channels and, fainter, of where it goes in the next steps."""
    bars = []
    for step in reversed(range(steps)):
        color = "#0072B2" if step else "#D55E00"
        bars.append(f'<g stroke="{color}" opacity="{0.85**step:.2f}">')
        for i in range(channels):
            height = 45 * math.exp(9 * (math.cos(2 * math.pi * i / channels) - 1))
            if height > 1:
                angle = 2 * math.pi * (i + stride * step) / channels
                x, y = math.sin(angle), -math.cos(angle)
                ends = f"M{100 * x:.2f} {100 * y:.2f}L{(100 + height) * x:.2f} {(100 + height) * y:.2f}"
                bars.append(f'<path d="{ends}"/>')
        bars.append("</g>")
    return (
        '<svg viewBox="-150 -150 300 300" stroke-width="10" role="img"'
        ' aria-label="A wave that travels around a ring of channels">'
        f'<circle r="100" fill="none" stroke="#8a94a0" stroke-width="1.2"/>{"".join(bars)}</svg>'
    )


if __name__ == "__main__":
    pdf(Path(sys.argv[1]), Path(sys.argv[2]))
