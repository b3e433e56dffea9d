"""The PDF that workflow/pdf.py makes of what Sphinx wrote is a book.

A page of two chapters stands for Sphinx's; how the real pages look on paper is for eyes to judge.
"""

import pytest
from pypdf import PdfWriter
from python import python

from shared import ROOT, workflow_script

BOOK = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A book</title></head><body>
<header>A menu</header><main><article class="bd-article"><section><h1>A book<a class="headerlink">#</a></h1>
<p>Words.</p><h2>A section of the front page</h2>
<div class="toctree-wrapper"><span id="document-one"></span>
<section><h2><span class="section-number">1. </span>The first chapter whose title is so long that it takes
more than one line of a page</h2><p>40.9 ± 0.2 %</p><pre>40.9 ± 0.2 %</pre>{filler}
<section id="same"><h3>1.1. A section’s name</h3></section></section>
<span id="document-api"></span>
<section><h2>Names</h2><span id="document-api/all"></span><section><h3>All</h3></section></section>
<span id="document-two"></span>
<section><h2>2. Another</h2><section id="same"><h3>2.1. Exercises</h3></section>
</section></div></section></article></main></body></html>"""


SCRIPT = ROOT / "workflow/pdf.py"  # called in a process of its own: in this one another browser may be open
script = workflow_script("pdf")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """A PDF of two chapters, the first of them a little longer than a page."""
    folder = tmp_path_factory.mktemp("pdf")
    (folder / "index.html").write_text(BOOK.format(filler="<p>Words.</p>" * 40))
    python(SCRIPT, folder / "index.html", folder / "out.pdf")
    return PdfWriter(folder / "out.pdf")


def test_a_cover_contents_and_chapters_begin_pages_and_the_outline_has_every_heading_whole(printed):
    found = [(entry.title, page) for entry, page in script.outline(printed)]
    assert found == [
        ("Do traveling waves make good positional encodings?", 1),
        ("Contents", 2),
        ("About this book", 3),
        ("A section of the front page", 3),
        ("1. The first chapter whose title is so long that it takes more than one line of a page", 4),
        ("1.1. A section’s name", 5),
        ("2. Another", 6),
        ("2.1. Exercises", 6),
    ]
    assert len(printed.pages) == 6, "none is empty"


def test_the_contents_have_the_numbers_of_the_pages_and_each_chapter_its_footer(printed):
    lines = " ".join(printed.pages[1].extract_text().split())
    listed = (
        "About this book 3",
        "of a page 4",
        "1.1. A section’s name 5",
        "2. Another 6",
        "2.1. Exercises 6",
    )
    assert [line for line in listed if line not in lines] == [] and "Names" not in lines
    assert printed.pages[5].extract_text().count("2. Another") == 2, "the heading and the footer"


def test_a_mean_and_its_deviation_stay_in_one_line_and_code_as_it_is(printed):
    text = printed.pages[3].extract_text()
    assert "40.9\u00a0±\u00a00.2\u00a0%" in text and "40.9 ± 0.2 %" in text


def test_a_formula_that_is_left_as_text_stops_the_build(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<p class="math">x^2</p>')
    done = python(SCRIPT, page, tmp_path / "page.pdf", status=1)
    assert "1 formulas were not drawn, the first is x" in done.stderr
