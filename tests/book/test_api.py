"""The pages of the library's names show every public name."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest
import yaml
from docutils import nodes
from sphinx import addnodes
from tiny_book import Book

from rollpe import encodings
from rollpe.encodings import ENCODINGS
from shared import ROOT

OFFERED = ("rollpe.encodings", "rollpe_lab.training")
"""Modules whose `__all__` is what they offer."""
WHOLE = (
    *(
        "rollpe.encodings.attention",
        "rollpe.encodings.frequencies",
        "rollpe.ring",
        "rollpe.formulas",
        "rollpe.topography",
    ),
    *("rollpe.vit", "rollpe.decoder", "rollpe_book.agree"),
)
"""Modules that offer every public function and class that they define."""
READERS = ("read_record", "read_records", "read_arrays", "find_arrays", "record_path", "Record")


def dotted_name(value) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def public_names() -> list[str]:
    names = [f"{room}.{name}" for room in OFFERED for name in import_module(room).__all__]
    families = {name: value for name, value in vars(encodings).items() if isinstance(value, type)}
    families.pop("Encoding")  # the others are described under their modules
    names = [dotted_name(families[last]) if (last := n.rpartition(".")[2]) in families else n for n in names]
    for room in WHOLE:
        module = import_module(room)
        own = [
            value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__
        ]
        made = [value for value in own if inspect.isfunction(value) or inspect.isclass(value)]
        names += [dotted_name(value) for value in made if not value.__name__.startswith("_")]
    names += map(dotted_name, ENCODINGS.values())
    names += [f"rollpe_lab.records.{name}" for name in READERS]
    return [name for name in names if name != "rollpe.encodings.ENCODINGS"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """All that Sphinx knows of the pages, the pages by their names, and its warnings."""
    book = Book(tmp_path_factory.mktemp("names"), "dummy")
    texts = {
        "index.md": "# A book\n\n```{toctree}\n:glob:\n*\napi/*\n```\n",
        **{f"{name}.md": f"# {name}\n" for name in ("encodings", "run")},
    }
    for path in [ROOT / "book/api.md", *(ROOT / "book/api").glob("*.md")]:
        texts[str(path.relative_to(ROOT / "book"))] = path.read_text(encoding="utf8")
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))["sphinx"]["config"]
    ours = ("add_module_names", "autodoc", "default_role", "nitpick", "python_")
    settings = {key: value for key, value in settings.items() if key.startswith(ours)}
    warned = book.build(texts, nitpicky=True, **settings)
    return book.env, {name: book.env.get_doctree(name) for name in book.env.found_docs}, warned


def entry_of(pages, name: str) -> addnodes.desc:
    place = pages[0].domaindata["py"]["objects"][name]
    for entry in pages[1][place.docname].findall(addnodes.desc):
        if entry[0]["ids"] == [place.node_id]:
            return entry
    raise KeyError(name)


def test_every_public_name_is_on_a_page_and_says_what_it_is(pages):
    known = pages[0].domaindata["py"]["objects"]
    assert [name for name in public_names() if name not in known] == []
    for name in public_names():
        module, _, last = name.rpartition(".")
        assert inspect.cleandoc(getattr(import_module(module), last).__doc__ or ""), name


def test_the_docstrings_are_read_without_a_warning(pages):
    assert pages[2] == ""


def test_an_encoding_says_by_which_name_it_is_built(pages):
    for name, encoding in ENCODINGS.items():
        code = [node.astext() for node in entry_of(pages, dotted_name(encoding)).findall(nodes.literal)]
        assert code[0] == f'create_encoding("{name}", …)'


def test_no_name_with_an_at_sign_is_an_address_to_write_to(pages):
    links = [link for page in pages[1].values() for link in page.findall(nodes.reference)]
    assert [link["refuri"] for link in links if link.get("refuri", "").startswith("mailto:")] == []


def test_a_model_of_fields_lists_them_with_their_meaning_and_not_in_its_signature(pages):
    entry = entry_of(pages, "rollpe_lab.training.Recipe")
    assert entry[0].astext().endswith("Recipe")
    assert "epochs – an integer ≥ 1, at most a million: passes over the training images" in entry.astext()
