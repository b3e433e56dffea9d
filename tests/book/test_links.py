"""Downloads, speeds and errata, in a tiny book built in a temporary folder."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import nbformat
import pytest
from tiny_book import STAMP, Book

from rollpe.cli import cli
from rollpe_book.claims import Claim, Verdict, sources
from rollpe_book.extension import tables
from rollpe_book.extension.ledger import errata
from rollpe_book.extension.links import PLACEHOLDER, repository, repository_of
from shared import ROOT, commands


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("https://github.com/owner/name.git\n", "owner/name"),
        ("https://github.com/owner/na.me", "owner/na.me"),
        ("git@github.com:owner/name.git", "owner/name"),
        ("ssh://git@github.com/owner/name", "owner/name"),
        ("https://user:secret@github.com/owner/name", "owner/name"),
        ("https://gitlab.com/owner/name", None),
        ("https://github.com.example.org/owner/name", None),
        ("https://github.com/owner", None),
    ],
)
def test_only_an_address_on_github_makes_buttons_and_no_secret_passes(address, found):
    assert repository_of(address) == found


TIMED = {
    "size": "small",
    "batch": 8,
    "precision": "bfloat16",
    "compiled": True,
    "environment": {"device_name": "an abacus"},
    "provenance": {"started": "2026-01-02T03:04:05+00:00"},
    "encodings": [{"name": "roll", "images_per_second": 1234.4, "share_of_peak": 0.123}],
}
RUN = """\
# Run

From OWNER/NAME.

```{speeds}
```

```{errata} paper
```

```{toctree}
executed/01-small
plain
```
"""


def build(root: Path, builder: str = "html", timed: dict | None = TIMED) -> Book:
    """A book with one executed notebook, a page that uses every directive, and one benchmark."""
    for folder in ("notebooks", "data/benchmarks"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "notebooks/01-small.py").write_text("# %% [markdown]\n# # Small\n")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Small\n\nWords.")])
    nbformat.write(notebook, root / "notebooks/01-small.ipynb")
    notebook.metadata["rollpe"] = STAMP | {"notebook": "notebooks/01-small.py"}
    if timed:
        (root / "data/benchmarks/a.json").write_text(json.dumps(timed))
    book = Book(root, builder)
    executed = {"executed/01-small.ipynb": nbformat.writes(notebook), "plain.md": "# Plain\n"}
    assert book.build({"index.md": RUN} | executed) == ""
    return book


def test_every_chapter_links_to_its_files_and_the_page_shows_what_was_measured_or_computed(tmp_path):
    book = build(tmp_path)
    page = book.markup("executed/01-small")
    found = re.findall(r'<a href="([^"]+)" download>', page)
    assert len(found) == 2 and "colab" not in page and "binder" not in page
    for address in found:
        copy = (book.html / "executed" / address).resolve()
        assert copy.read_bytes() == (tmp_path / "notebooks" / copy.name).read_bytes()
    assert page.index("<h1>") < page.index("take-along") < page.index("Words.")
    assert "take-along" not in book.markup("plain")

    text, run = book.text("index"), book.markup("index")
    for said in ("2026-01-02, an abacus: small, batch 8, bfloat16, compiled", "1,234", "12 %", PLACEHOLDER):
        assert said in text
    assert run.count("<p>not measured</p>") == 2, "the two encodings that were not timed"


def test_buttons_appear_where_the_remote_is_on_github(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    address = "https://user:secret@github.com/owner/name.git"
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", address], check=True)
    repository.cache_clear()
    book = build(tmp_path)
    for start in ("https://colab.research.google.com/github/", "https://mybinder.org/v2/gh/"):
        assert re.search(rf'href="{start}owner/name/.*/01-small\.ipynb"', book.markup("executed/01-small"))
    assert "From owner/name." in book.text("index") and PLACEHOLDER not in book.text("index")
    assert not any("secret" in path.read_text() for path in book.html.rglob("*.html"))


def test_a_book_of_one_file_has_no_links_to_files_and_without_benchmarks_nothing_is_measured(tmp_path):
    text = build(tmp_path, "singlehtml", timed=None).markup("index")
    assert "take-along" not in text and "Not measured." in text


def test_the_committed_benchmarks_can_be_shown():
    for path in (ROOT / "data/benchmarks").glob("*.json"):
        report = json.loads(path.read_text())
        assert all(tables.speed_row(report))
        report["environment"]["device_name"] = "<script>"
        assert "&lt;script&gt;" in tables.speed_row(report)[0]


def claim(number: int, source: str = "paper", **changes) -> Claim:
    fields = {
        "id": f"claim-{number}",
        "source": source,
        "place": f"Eq. {number}",
        "kind": "mathematical",
        "claim": f"A statement with number {number}.",
        "quote": f"$n_i = {number}$, as printed",
        "refuted_by": "A case in which it fails.",
        "checks": {"fails": ["eq-a"], "corrected_by": ["eq-b", "eq-a"]},
        "instead": "Another one\nholds.",
    }
    return Claim.model_validate(fields | changes)


TRAINED = {"rule": "better", "of": ["strong", "roll", "learned"], "margin": 0.5}


def test_errata_are_what_one_document_has_wrong_as_written_whatever_models_reached():
    other = next(name for name in sources() if name != "paper")
    verdicts = [
        Verdict(claim(1), "corrected", "eq-a"),
        Verdict(claim(2), "reproduced", "eq-a"),
        Verdict(claim(3), "not tested", "eq-a was not run"),
        Verdict(claim(4), "refuted", "eq-a"),
        Verdict(claim(5, other), "corrected", "eq-a"),
        Verdict(claim(6, checks=None, quote=None, records=TRAINED), "refuted", "−9 points"),
    ]
    text = "\n".join(errata(verdicts, {"eq-a"}, "paper"))
    assert [n for n in "123456" if f"Eq. {n}" in text] == ["1", "4"]
    assert ": “$n_i = 1$, as printed”" in text
    assert "**Corrected.** Another one holds. *Checked by {eq}`eq-a`, eq-b.*" in text
    assert "**Refuted.**" in text
    assert "Nothing" in "\n".join(errata(verdicts[1:3], set(), "paper"))


def test_commands_of_the_page_and_the_readme_are_understood_and_their_files_exist(tmp_path, monkeypatch):
    (tmp_path / "mine.py").touch()  # the reader's own
    monkeypatch.chdir(tmp_path)

    text = "".join((ROOT / page).read_text() for page in ("book/run.md", "README.md"))
    code = "\n".join(re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    code = code.replace("\\\n", " ")
    lines = re.findall(r"\b(?:rollpe|rollpe\.cli) ([a-z][^\n']*)", code)
    verbs = set()
    for line in lines:
        verb, *words = shlex.split(line, comments=True)
        command = commands(cli)[verb]
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)
        verbs.add(verb)
    assert {"notebook", "train", "compare", "sweep", "table", "bench", "data"} <= verbs
    for place in re.findall(r"\b(?:notebooks|plans|workflow)/[\w./-]*\w", code):
        assert (ROOT / place).exists(), place
