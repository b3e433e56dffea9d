"""The EPUB that workflow/formats.py makes of what Sphinx wrote keeps to the standard; the PDF is a book.

A folder of two pages, and one page of two chapters, stand for Sphinx's; how the real pages look on paper is
for eyes to judge.
"""

import re
import subprocess
import sys
import xml.dom.minidom
import zipfile
from pathlib import Path

import pytest

from shared import ROOT, workflow_script

PAGE = """<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>A page</title>
<link rel="stylesheet" type="text/css" href="_static/late.css" /></head><body>
<section id="content">{body}</section><p id="content">Twice.</p><script>0</script>
<details class="hide"><summary>Code</summary><pre>1 + 1</pre></details></body></html>"""
MANIFEST = """<package><manifest><item id="a" href="formula.xhtml" media-type="application/xhtml+xml" />
<item id="b" href="words.xhtml" media-type="application/xhtml+xml" /></manifest></package>"""
FIGURE = """<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/svg.dtd">
<svg xmlns="http://www.w3.org/2000/svg"><image href="data:," id="same"/><image href="data:," id="same"/>
<path clip-path="url(#a)"/><path d="M 0 0"/></svg>"""

BOOK = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A book</title></head><body>
<header>A menu</header><main><article class="bd-article"><section><h1>A book<a class="headerlink">#</a></h1>
<p>Words.</p><h2>A section of the front page</h2>
<div class="toctree-wrapper"><span id="document-one"></span>
<section><h2><span class="section-number">1. </span>The first chapter whose title is so long that it takes
more than one line of a page</h2>{filler}<section id="same"><h3>1.1. A section’s name</h3></section></section>
<span id="document-api"></span>
<section><h2>Names</h2><span id="document-api/all"></span><section><h3>All</h3></section></section>
<span id="document-two"></span>
<section><h2>2. Another</h2><section id="same"><h3>2.1. Exercises</h3></section>
</section></div></section></article></main></body></html>"""


def formats(*arguments: str | Path) -> subprocess.CompletedProcess:
    """The script as the workflow runs it; in this process another browser may be open."""
    command = [sys.executable, ROOT / "workflow/formats.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def bound(tmp_path_factory):
    """The files of an EPUB by name."""
    folder = tmp_path_factory.mktemp("epub")
    files = {
        "mimetype": "application/epub+zip",
        "formula.xhtml": PAGE.format(body='<span class="math">\\(x^2\\)</span>'),
        "words.xhtml": PAGE.format(body="No formula."),
        "content.opf": MANIFEST,
        "_static/epub.css": "p { margin: 0 }",
        "figure.svg": FIGURE,
    }
    (folder / "_static").mkdir()
    with zipfile.ZipFile(folder / "sphinx.epub", "w") as archive:
        for name, text in files.items():
            (folder / name).write_text(text)
            archive.writestr(name, text)
    (folder / "_static/late.css").write_text("p { color: black }")
    done = formats("epub", folder, folder / "out.zip")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(folder / "out.zip") as archive:
        assert archive.infolist()[0].filename == "mimetype"
        assert archive.infolist()[0].compress_type == zipfile.ZIP_STORED
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.browser
def test_formulas_are_drawn_into_the_page_and_declared(bound):
    assert "<svg" in bound["formula.xhtml"] and "<svg" not in bound["words.xhtml"]
    items = re.findall(r'<item ([^>]*)href="(\w+\.xhtml)"', bound["content.opf"])
    declared = {name: said for said, name in items}
    assert "svg" in declared["formula.xhtml"] and "properties" not in declared["words.xhtml"]


@pytest.mark.browser
def test_pages_are_xml_without_scripts_folded_code_or_ids_used_twice(bound):
    for name in ("formula.xhtml", "words.xhtml"):
        xml.dom.minidom.parseString(bound[name].encode())
        assert "<script" not in bound[name] and "1 + 1" not in bound[name]
        ids = re.findall(r'\bid="([^"]+)"', bound[name])
        assert len(ids) == len(set(ids))


@pytest.mark.browser
def test_style_sheets_written_after_packing_are_inside_and_declared(bound):
    assert bound["_static/late.css"] == "p { color: black }"
    assert 'href="_static/late.css"' in bound["content.opf"]


@pytest.mark.browser
def test_figures_have_no_doctype_no_id_used_twice_and_no_path_without_an_outline(bound):
    figure = bound["figure.svg"]
    xml.dom.minidom.parseString(figure.encode())
    assert "DOCTYPE" not in figure and "same" not in figure
    assert figure.count("<path") == 2 == len(re.findall(r'<path[^>]* d="', figure))


@pytest.fixture(scope="module")
def script():
    return workflow_script("formats")


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """A PDF of two chapters, the first of them a little longer than a page."""
    folder = tmp_path_factory.mktemp("pdf")
    (folder / "index.html").write_text(BOOK.format(filler="<p>Words.</p>" * 40))
    done = formats("pdf", folder / "index.html", folder / "out.pdf")
    assert done.returncode == 0, done.stderr
    return (folder / "out.pdf").read_bytes()


@pytest.mark.browser
def test_a_cover_contents_and_chapters_begin_pages_and_none_is_empty(printed, script):
    # Title, contents, about this book and a section, the first chapter, its section, the second, its section.
    assert [page for _, page in script.outline(printed)] == [1, 2, 3, 3, 4, 5, 6, 6]
    assert len(re.findall(rb"/Type /Page\b", printed)) == 6


@pytest.mark.browser
def test_the_outline_of_the_pdf_has_every_heading_once_and_whole(printed):
    updated = re.findall(rb"<</Title <(FEFF[0-9A-F]*)>", printed, re.IGNORECASE)
    titles = [bytes.fromhex(text.decode()).decode("utf-16") for text in updated]
    assert titles[-8:] == [
        "A book",
        "Contents",
        "About this book",
        "A section of the front page",
        "1. The first chapter whose title is so long that it takes more than one line of a page",
        "1.1. A section’s name",
        "2. Another",
        "2.1. Exercises",
    ]


@pytest.mark.browser
def test_the_update_of_the_outline_is_where_its_table_says(printed):
    start = int(printed.rsplit(b"startxref\n", 1)[1].split()[0])
    assert printed[start : start + 5] == b"xref\n"
    for number, offset in re.findall(rb"^(\d+) 1\n(\d{10}) 00000 n", printed[start:], re.MULTILINE):
        assert printed[int(offset) :].startswith(number + b" 0 obj\n<</Title <feff")


@pytest.mark.browser
@pytest.mark.parametrize(
    "words, whole",
    [
        ("a lead of 0.1 [−0.12, 0.34] points", "[−0.12,_0.34]"),
        ("right in 95 % of", "95_%"),
        ("Welch, p = 0.03, says", "p_=_0.03"),
        ("about 40.9 ± 0.2 here", "40.9_±_0.2"),
    ],
)
def test_an_interval_a_percentage_and_a_comparison_stay_in_one_line(browsed, script, words, whole):
    browsed.set_content(f"<article><p>{words}</p><pre>{words}</pre></article>")
    browsed.evaluate(script.TOGETHER)
    assert whole in browsed.inner_text("p").replace("\u00a0", "_")
    assert "\u00a0" not in browsed.inner_text("pre")


@pytest.fixture
def browsed(chromium):
    """An empty page."""
    page = chromium.new_page()
    yield page
    page.close()


@pytest.mark.browser
def test_a_formula_that_is_left_as_text_stops_the_build(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<p class="math">x^2</p>')
    done = formats("pdf", page, tmp_path / "page.pdf")
    assert done.returncode == 1 and "1 formulas were not drawn, the first is x" in done.stderr
