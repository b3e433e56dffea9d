"""What stands around the text of a page: its description, its citation, and the front page's commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest
import yaml
from docutils import nodes
from docutils.utils import new_document
from pybtex.database import parse_file, parse_string
from tiny_book import Book

from rollpe_book.chapters import parameters
from rollpe_book.extension.repairs import finish_html, first_words, mark_numbers, name_address
from shared import ROOT

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf8"))
FRONT = (ROOT / "book/index.md").read_text(encoding="utf8")


def test_the_bibtex_of_the_front_page_is_that_of_the_citation_file_and_the_bibliography():
    (text,) = re.findall(r"```bibtex\n(.*?)```", FRONT, flags=re.DOTALL)
    work, paper = parse_string(text, "bibtex").entries.values()
    assert work.fields["title"].strip("{}") == CITATION["title"]
    year = CITATION["preferred-citation"]["year"]
    assert (work.fields["version"], work.fields["year"]) == (str(CITATION["version"]), str(year))
    assert [str(p).strip("{}") for p in work.persons["author"]] == [a["name"] for a in CITATION["authors"]]
    listed = parse_file(str(ROOT / "book/references.bib")).entries["rollpe"]
    assert dict(paper.fields) == dict(listed.fields)
    assert paper.persons == listed.persons and (work.key, paper.key) == ("rollpe-living", "rollpe")


@pytest.mark.parametrize(
    ("origin", "address"),
    [("https://github.com/Ana/rolls.git", "https://ana.github.io/rolls/"), ("/a/folder", "")],
)
def test_the_address_of_the_site_follows_from_its_repository_on_github(origin, address, tmp_path):
    for words in (["init", "-q"], ["remote", "add", "origin", origin]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    app = SimpleNamespace(config=SimpleNamespace(rollpe_root=str(tmp_path), html_baseurl=""))
    name_address(app, app.config)
    assert app.config.html_baseurl == address


def test_a_page_shows_its_own_picture_in_a_preview_and_others_that_of_the_book(tmp_path):
    shutil.copy(ROOT / "CITATION.cff", tmp_path)
    pages = {
        "index.md": "# Front\n\nWords.\n\n```{toctree}\nmap\n```\n",
        "map.md": "---\npreview: _static/map.png\n---\n# Map\n\nWords.\n",
    }
    extensions = ["myst_nb", "rollpe_book.extension", "rollpe_book.extension.repairs"]
    book, site = Book(tmp_path), "https://ana.github.io/rolls/"
    book.build(pages, extensions=extensions, html_baseurl=site, templates_path=[])
    for page, picture in {"index": "preview", "map": "map"}.items():
        assert f'<meta property="og:image" content="{site}_static/{picture}.png"/>' in book.markup(page)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("<h1>A</h1><p>One <em>wave</em> &amp; one\nring.</p><p>Two.</p>", "One wave & one ring."),
        ('<p>Let <span class="math">\\(n\\)</span> be odd.</p>', "Let n be odd."),
        ('<p>So it is <span class="bibtex-citation" id="id1">[<a>B, 2025</a>]</span>.</p>', "So it is."),
        (f"<p>{'word ' * 60}</p>", "word " * 39 + "word…"),
        ("<h1>A</h1>", ""),
    ],
)
def test_a_description_is_the_plain_beginning_of_the_first_paragraph(body, says):
    assert first_words(body) == says
    assert len(says) <= 200


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("1.31 ± 0.01", True),
        ("+4.68 to +6.14", True),
        ("< 0.001", True),
        ("12,345", True),
        ("97.2 %", True),
        ("−2.3 [−4.0, −0.5]", True),
        ("5, 5", True),
        ('<a href="numbers.html">39.5 ± 0.8</a>', True),
        ("not measured", False),
        ("2 rings", False),
        ("–", False),
    ],
)
def test_a_cell_with_a_number_stays_in_one_line(text, whole):
    for builder in ("html", "singlehtml"):  # paper keeps its own
        tree = new_document("page")
        tree += nodes.entry("", nodes.paragraph("", text))
        mark_numbers(SimpleNamespace(builder=SimpleNamespace(name=builder)), tree, "page")
        assert ("number" in tree[0]["classes"]) == (whole and builder == "html")


SHEET = '<link rel="stylesheet" type="text/css" href="../_static/sphinx-design.min.css?v=6a" />'
SEARCH = '<script src="_static/searchtools.js"></script><script src="searchindex.js"></script>'
CARDS = '<div class="docutils sd-card">x</div>'
PARAGRAPHS = "<td><p>1</p><p>2</p></td>"


@pytest.mark.parametrize(
    ("page", "becomes"),
    [
        (f"{SEARCH}<p>x</p>", "<p>x</p>"),
        (f'{SHEET}<p class="note">x</p>', '<p class="note">x</p>'),
        (SHEET + CARDS, SHEET + CARDS),
        ("<td class='number'><p>1 <b>2</b></p></td>", "<td class='number'>1 <b>2</b></td>"),
        (f"{PARAGRAPHS}<td><p>3</p></td>", f"{PARAGRAPHS}<td>3</td>"),
    ],
)
def test_a_page_loses_what_it_need_not_load_and_cells_lose_their_only_paragraph(page, becomes):
    assert finish_html(page, search=False) == becomes
    assert SEARCH in finish_html(SEARCH, search=True)


def test_the_command_on_the_front_page_exists():
    (rerun,) = re.findall(r"`(rollpe notebook [^`]+)`", FRONT)
    _, _, source, _, name, value = rerun.split()
    parameters.check_parameters(ROOT / source, {name: value})
