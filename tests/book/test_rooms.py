"""The picture of the library's rooms shows their imports, and its page has a paragraph for each of them."""

from __future__ import annotations

import io
import re
import shutil
from itertools import chain, combinations
from xml.etree import ElementTree

import pytest
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from rollpe.book.rooms import WIDTH, draw, imports_between, read_layers
from rollpe.errors import InputError
from shared import ROOT

LAYERS = read_layers(ROOT / "pyproject.toml")
PAGE = ROOT / "book/architecture.md"


@pytest.fixture(scope="module")
def imports():
    return imports_between()


@pytest.fixture
def package(tmp_path):
    """top imports middle and ground, side middle, middle ground; alone imports side for type checkers."""
    for name, text in {
        "__init__": "",
        "top": "import tiny.ground\n\ndef late():\n    from tiny import middle\n",
        "side": "from . import middle\n",
        "alone": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import tiny.side\n",
        "middle/__init__": "",
        "middle/part": "from tiny.middle import other\nfrom tiny.ground import x\n",
        "middle/other": "",
        "ground": "x = 1\n",
        "gone/__pycache__/left": "",
    }.items():
        path = tmp_path / f"tiny/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tiny"


def test_an_arrow_is_an_import_that_does_not_follow_from_others(package):
    assert imports_between(package) == {
        "alone": [],
        "ground": [],
        "middle": ["ground"],
        "side": ["middle"],
        "top": ["middle"],
    }


def test_rooms_that_import_one_another_are_refused_also_by_way_of_a_third(package):
    (package / "ground.py").write_text("import tiny.side\n")
    with pytest.raises(InputError, match="import one another"):
        imports_between(package)


@pytest.mark.parametrize("layers", [[["middle"], ["top"]], [["top", "middle"]], [["top"]], [["middle"]]])
def test_an_import_from_above_or_beside_or_without_a_layer_is_refused(layers):
    imports = {"top": ["middle"], "middle": []}
    assert "top imports middle" in draw([["top"], ["middle"]], imports)
    with pytest.raises(InputError, match="top imports middle"):
        draw(layers, imports)


def test_every_room_of_the_library_is_a_box_in_its_row_and_no_two_overlap(imports):
    svg = ElementTree.fromstring(draw(LAYERS, imports))
    tag = "{http://www.w3.org/2000/svg}"
    names = [text.text for text in svg.iter(f"{tag}text")]
    boxes = [[float(box.get(key)) for key in ("x", "y", "width", "height")] for box in svg.iter(f"{tag}rect")]
    rows: dict[float, set[str]] = {}
    for name, (x, y, width, _) in zip(names, boxes, strict=True):
        rows.setdefault(y, set()).add(name)
        assert 0 <= x and x + width <= WIDTH
    assert [rows[y] for y in sorted(rows)] == [set(layer) for layer in LAYERS]
    for (x, y, width, height), (other_x, other_y, other_width, _) in combinations(boxes, 2):
        assert abs(y - other_y) > height or x + width < other_x or other_x + other_width < x


def test_the_page_has_one_paragraph_for_every_room_and_no_other(imports):
    terms = re.findall(r"^`(\w+)`\n: \w", PAGE.read_text(encoding="utf8"), re.MULTILINE)
    assert sorted(terms) == sorted(imports) == sorted(chain(*LAYERS))
    assert "architecture" in (ROOT / "book/_toc.yml").read_text()


def test_the_page_shows_the_picture_without_a_warning(tmp_path, imports):
    for folder in ("book", "_build"):
        (tmp_path / folder).mkdir()
    shutil.copyfile(PAGE, tmp_path / "book/index.md")
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    (tmp_path / "_build/equations.json").write_text('{"equations": []}')
    settings = {"extensions": ["myst_nb", "rollpe.book"], "myst_enable_extensions": ["deflist"]}
    book, out, trees, log = tmp_path / "book", tmp_path / "out", tmp_path / "trees", io.StringIO()
    with docutils_namespace():
        app = Sphinx(book, None, out, trees, "dummy", settings, status=None, warning=log)
        app.build()
    assert log.getvalue() == ""
    assert [raw.astext() for raw in app.env.get_doctree("index").findall(nodes.raw)] == [
        draw(LAYERS, imports)
    ]
