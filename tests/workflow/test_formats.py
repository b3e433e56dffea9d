"""The EPUB that workflow/formats.py makes of what Sphinx wrote keeps to the standard.

A folder of two pages stands for Sphinx's; how the real pages look on paper is for eyes to judge.
"""

import re
import subprocess
import sys
import xml.dom.minidom
import zipfile
from pathlib import Path

import pytest

from shared import ROOT

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


@pytest.mark.browser
def test_a_formula_that_is_left_as_text_stops_the_build(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<p class="math">x^2</p>')
    done = formats("pdf", page, tmp_path / "page.pdf")
    assert done.returncode == 1 and "1 formulas were not drawn, the first is x" in done.stderr
