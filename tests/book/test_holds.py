"""Sentences about results are bound to their data: each condition holds, and a false one stops the build."""

from __future__ import annotations

import pytest
from tiny_book import Book

from rollpe_book.extension.holds import conditions, evidence_of, paragraphs, untrue
from rollpe_lab.records import write_record
from shared import ROOT, make_record

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "book").glob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
]


@pytest.fixture
def book(tmp_path):
    for encoding, first in (("none", 500), ("roll", 700), ("roll-twin", 701)):
        for seed in range(3):
            record = make_record(encoding, first + 2 * seed, seed, "mini", images=1000)
            write_record(tmp_path / "data/records", record)
    return Book(tmp_path)


def test_every_sentence_of_the_book_is_true_of_the_records():
    # Verdicts that rest on equations take the checks; the build has their report.
    false = [line for line in untrue(PAGES, evidence_of(ROOT)) if "'ledger: " not in line]
    assert not false, "\n".join(false)


def test_sentences_that_carry_conditions_are_many_and_whole():
    found = [(page.name, *pair) for page in PAGES for pair in conditions(page)]
    assert len(found) >= 60
    for page, sentence, condition in found:
        assert sentence.endswith((".", "!", "?", ":", ";", ")", "*", "|")), (page, sentence, condition)


CHAPTERS = ("09-results", "10-text", "18-inside", "19-ablations")
RESULTS = ("index.md", "encodings.md", *(f"{chapter}.ipynb" for chapter in CHAPTERS))


@pytest.mark.parametrize("page", [p for p in PAGES if p.name in RESULTS], ids=lambda page: page.name)
def test_a_paragraph_that_quotes_a_result_carries_a_condition(page):
    quoting = [text for text in paragraphs(page) if "{num}" in text]
    bare = [" ".join(text.split()) for text in quoting if "{holds}" not in text]
    assert (quoting or page.name in ("index.md", "encodings.md")) and not bare


FALSE = {
    "The twin leads RollPE.": "mini: roll-twin - roll > 0, Holm 0.05",
    "Nothing leads no encoding.": "mini: no pair of none, roll is clear",
    "Mini was never trained.": "not measured: mini",
    "Rolls win.": "rolls win",  # no condition
}


def test_the_build_names_page_and_sentence_of_what_the_records_contradict(book):
    planted = "".join(f"A true start. {sentence}{{holds}}`{c}`\nMore.\n\n" for sentence, c in FALSE.items())
    true = "RollPE leads no encoding.{holds}`mini: roll - none > 0, Holm 0.05`\n"
    warnings = book.build({"index.md": f"# Results\n\n{true}\n{planted}"})
    assert [line.partition("does not hold")[0] for line in warnings.splitlines()] == [
        f"WARNING: holds: index.md: “{sentence}” " for sentence in FALSE
    ]
    assert "RollPE leads no encoding. A true start. The twin leads RollPE. More." in book.text("index")
