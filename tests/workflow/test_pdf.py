"""The PDF that workflow/pdf.py makes of what Sphinx wrote is a book.

A page of two chapters stands for Sphinx's; how the real pages look on paper is for eyes to judge.
"""

import re

import pytest
from python import python

from shared import ROOT, workflow_script

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


SCRIPT = ROOT / "workflow/pdf.py"  # called in a process of its own: in this one another browser may be open
script = workflow_script("pdf")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """A PDF of two chapters, the first of them a little longer than a page."""
    folder = tmp_path_factory.mktemp("pdf")
    (folder / "index.html").write_text(BOOK.format(filler="<p>Words.</p>" * 40))
    python(SCRIPT, folder / "index.html", folder / "out.pdf")
    return (folder / "out.pdf").read_bytes()


def test_a_cover_contents_and_chapters_begin_pages_and_the_outline_has_every_heading_whole(printed):
    assert [page for _, page in script.outline(printed)] == [1, 2, 3, 3, 4, 5, 6, 6]
    assert len(re.findall(rb"/Type /Page\b", printed)) == 6, "none is empty"
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
    start = int(printed.rsplit(b"startxref\n", 1)[1].split()[0])
    assert printed[start : start + 5] == b"xref\n"
    for number, offset in re.findall(rb"^(\d+) 1\n(\d{10}) 00000 n", printed[start:], re.MULTILINE):
        assert printed[int(offset) :].startswith(number + b" 0 obj\n<</Title <feff")


@pytest.mark.parametrize(
    "words, whole",
    [
        ("a lead of 0.1 [−0.12, 0.34] points", "[−0.12,_0.34]"),
        ("right in 95 % of", "95_%"),
        ("Welch, p = 0.03, says", "p_=_0.03"),
        ("about 40.9 ± 0.2 here", "40.9_±_0.2"),
    ],
)
def test_an_interval_a_percentage_and_a_comparison_stay_in_one_line(chromium, words, whole):
    page = chromium.new_page()
    page.set_content(f"<article><p>{words}</p><pre>{words}</pre></article>")
    page.evaluate(script.TOGETHER)
    assert whole in page.inner_text("p").replace("\u00a0", "_")
    assert "\u00a0" not in page.inner_text("pre")
    page.close()


def test_a_formula_that_is_left_as_text_stops_the_build(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<p class="math">x^2</p>')
    done = python(SCRIPT, page, tmp_path / "page.pdf", status=1)
    assert "1 formulas were not drawn, the first is x" in done.stderr
