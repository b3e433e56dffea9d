"""What the Sphinx extension adds to pages, seen in tiny books: one of everything, and small ones for what is
wrong.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from html import unescape

import nbformat
import numpy as np
import pytest
from docutils import nodes
from tiny_book import STAMP, Book, a_record

from rollpe_book.claims import load_claims
from rollpe_book.extension import figures, site
from rollpe_book.extension.ledger import in_myst
from rollpe_book.figures import DARK
from rollpe_book.figures.waves import WAVES
from rollpe_book.properties import Properties
from rollpe_lab.records import record_path, write_record
from shared import make_text_record

ROLL, WAVE = "\n$$\nS^p q\n$$ (eq-roll)\n", "\n$$\na = b\n$$ (eq-wave)\n"
BLIND = ("eq-permutation-equivariance", "eq-pooled")
FOUND = "eq-roll: largest error 3.0e-16 (tolerance 1e-12)\neq-wave: definition, a name\n"


# ----------------------------------------------------------------------------------------- one of everything

COMMAND = "rollpe notebook notebooks/01-page.py -p n 8 -p loud false -p kind 'two words'"
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="6.1pt">'
    '<path style="stroke: #333333; fill: #ffffff"/></svg>'
)
SHOWN = {"records": ["quick/roll", "quick/none"]}
INDEX = """\
# Encodings

```{encodings}
```

```{wave} ring
:name: wave-ring
A *ring* of channels.
```

```{wave} walk
:moving:
Scores.
```

```{figure} one.png
Put in by hand.
```

```{claims}
:bar:
```

```{toctree}
executed/01-order
executed/02-rolling
claims
runs
part/01-page
```
"""
RUNS = "# Runs\n\n```{runs}\n:caption: All.\n```\n"
CLAIMS = "# Claims\n\n```{claims}\n:summary:\n```\n\n```{claims}\n```\n"
PLAIN = [
    Properties(name, "scores", 2, (True, True), False, None, True, False, 1234) for name in ("roll", "shaw")
]


def a_notebook(*cells, **metadata) -> str:
    metadata |= {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    return json.dumps(nbformat.v4.new_notebook(cells=list(cells), metadata=metadata))


def a_cell(output, tags=(), **metadata):
    metadata |= {"tags": list(tags)}
    return nbformat.v4.new_code_cell("plot()", outputs=[output], execution_count=1, metadata=metadata)


def drawn():
    about = {"image/svg+xml": SHOWN}
    return nbformat.v4.new_output("display_data", {"image/svg+xml": SVG}, metadata=about)


def stream(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def checking(text: str, printed: str) -> str:
    """A chapter whose cell printed what its checks found."""
    return a_notebook(nbformat.v4.new_markdown_cell(f"# Page\n{text}"), a_cell(stream(printed)))


def order(*labels: str) -> str:
    text = "".join(f"\n$$\nX_{i}\n$$ ({label})\n" for i, label in enumerate(labels))
    return checking(text, "".join(f"{label}: holds\n" for label in labels))


def chapter() -> str:
    """A stamped notebook: two figures and a hidden one, and a formula that a cell displays."""
    one, two, three = (
        {"figure": {"name": name, "caption": "One."}, "image": {"alt": "a"}}
        for name in ("one", "two", "three")
    )
    formula = nbformat.v4.new_output("display_data", {"text/latex": "$$a^2$$"})
    return a_notebook(
        nbformat.v4.new_markdown_cell("# Page"),
        a_cell(drawn(), ["hide-input"], mystnb=one),
        a_cell(drawn(), mystnb=two),
        a_cell(drawn(), ["hide-cell"], mystnb=three),
        a_cell(formula),
        rollpe=STAMP,
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("everything")
    (root / "book").mkdir()
    (root / "book/one.png").write_bytes(b"")
    for seed, right in enumerate((900, 920, 940)):
        write_record(root / "data/records", a_record(seed, right))
    for seed in (0, 1):
        write_record(root / "data/records", make_text_record("roll", 2.3, 4.0 + seed, seed))
    return root


def built(root, builder) -> Book:
    book = Book(root, builder)
    pages = {
        "index.md": INDEX,
        "executed/01-order.ipynb": order(*BLIND),
        "executed/02-rolling.ipynb": checking(ROLL + WAVE, FOUND + "another line\n"),
        "claims.md": CLAIMS,
        "runs.md": RUNS,
        "part/01-page.ipynb": chapter(),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rollpe_book.extension.tables.measure_all", lambda: PLAIN)
        warnings = book.build(pages)
    assert [line for line in warnings.splitlines() if "one.png" not in line] == []
    return book


@pytest.fixture(scope="module")
def site_(root):
    return built(root, "html")


@pytest.fixture(scope="module")
def paper(root):
    return built(root, "singlehtml")


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


# ------------------------------------------------------------------------------------------------ equations


def marks(markup: str) -> list[tuple[str, str, str]]:
    """State, mark and unfolded text of every check, without markup."""
    found = re.findall(
        r'<div class="equation-check (\S+) docutils container">\s*<details(?: open="")?(?: open)?>'
        r"<summary[^>]*>(.*?)</summary>(.*?)</details>",
        markup,
        flags=re.DOTALL,
    )
    return [(state, mark, unescape(re.sub(r"<[^>]+>", "", text)).strip()) for state, mark, text in found]


def test_every_equation_says_what_its_check_found(site_):
    assert marks(site_.markup("executed/02-rolling")) == [
        ("passed", "✓", "Checked: largest error 3.0e-16 (tolerance 1e-12)"),
        ("not-checked", "–", "Not checked: definition, a name"),
    ]


def test_what_the_mark_says_is_not_printed_again(site_):
    page = site_.markup("executed/02-rolling")
    assert "eq-roll: largest" not in page and "another line" in page


def test_paper_says_it_in_a_line(paper):
    page = paper.markup("index")
    assert "Checked: largest error 3.0e-16" in page and marks(page) == []


def test_on_paper_a_figure_is_one_picture(paper):
    page = paper.markup("index")
    assert page.count('alt="a"') == 3 and "figure-tools" not in page
    assert page.count('id="wave-ring"') == 1 and page.count("wave-still") == 2


@pytest.mark.parametrize(
    ("text", "printed", "says"),
    [
        (ROLL + "\n$$\nx = y\n$$\n", FOUND, "displayed equation without a label"),
        (ROLL + "\n\\begin{align}\nx &= y\n\\end{align}\n", FOUND, "displayed equation without a label"),
        (ROLL + WAVE, FOUND.splitlines()[0], "equation eq-wave has no check"),
        (ROLL, FOUND, "a cell checks eq-wave, which this page does not display"),
        (ROLL + WAVE.replace("a = b", "S^p  q"), FOUND, "equation eq-wave is displayed already, as eq-roll"),
        (ROLL, FOUND.replace("e-12)", "e-12), FAILED"), "equation eq-roll: its check failed"),
    ],
)
def test_an_equation_without_a_good_check_of_its_own_is_a_warning(book, text, printed, says):
    assert says in book.build({"rolling.ipynb": checking(text, printed)})
    if "failed" in says:
        assert marks(book.markup("rolling"))[0][::2] == (
            "failed",
            "CHECK FAILED: largest error 3.0e-16 (tolerance 1e-12)",
        )
        assert "<details open>" in book.markup("rolling")


def test_names_from_here_lead_from_the_code_of_a_chapter_to_their_page(book):
    code = "from rollpe import ring\nfrom rollpe.ring import roll as turn\n"
    code += "turn(x, turn=x.turn) - ring.roll(x, 1)"
    names = "# Names\n\n```{eval-rst}\n.. autofunction:: rollpe.ring.roll\n```\n"
    names += "\n```{toctree}\npart/01-page\n```\n"
    page = a_notebook(nbformat.v4.new_markdown_cell("# Page"), nbformat.v4.new_code_cell(code))
    assert book.build({"index.md": names, "part/01-page.ipynb": page}) == ""
    links = re.findall(r'<a class="code-name" href="(.*?)">(.*?)</a>', book.markup("part/01-page"))
    assert {address for address, _ in links} == {"../index.html#rollpe.ring.roll"}
    assert [re.sub("<.*?>", "", text) for _, text in links] == ["turn", "turn", "ring.roll"]


# ---------------------------------------------------------------------------------------------------- runs


def test_the_page_of_runs_leads_to_every_record(site_):
    page = site_.markup("runs")
    assert "quick roll 92.00 2.00 87.03 to 96.97 3" in site_.text("runs")
    assert '<a id="quick-roll" href="records/quick/roll.json">roll</a>' in page
    assert '<a id="text-roll" href="records/text/roll.json">roll</a>' in page
    originals = [record_path(site_.root / "data/records", a_record(seed)) for seed in range(3)]
    kept = json.loads((site_.html / "records/quick/roll.json").read_text())
    assert kept == [json.loads(path.read_text()) for path in originals]


def test_the_readers_own_runs_are_added_but_replace_no_committed_one_of_the_same_seed(tmp_path):
    for folder, seeds, right in (("data", (0, 1), 500), ("_build", (1, 2), 750)):
        for seed in seeds:
            write_record(tmp_path / folder / "records", a_record(seed, right))
    found = site.find_records(tmp_path, "quick/roll")
    assert [(r.seed, r.test.accuracy) for r in found.values()] == [(0, 0.5), (1, 0.5), (2, 0.75)]
    assert {r.seed: r.test.accuracy for r in site.all_records(tmp_path)} == {0: 0.5, 1: 0.5, 2: 0.75}


def test_options_are_spelled_as_people_or_paths_do(tmp_path):
    record = a_record().model_copy(update={"encoding_options": {"width": [31, 33]}})
    write_record(tmp_path / "data/records", record)
    for cell in ("quick/roll@width=[31,33]", "quick/roll@width=%5B31%2C33%5D"):
        assert len(site.find_records(tmp_path, cell)) == 1
    assert not site.find_records(tmp_path, "quick/roll@width=[31]")


def test_a_figure_that_means_nothing_is_a_warning(book):
    page = "# Page"
    for figure in ("{drawing} nothing\nA.", "{wave} spiral\nA.", "{wave} ring"):
        page += f"\n\n```{figure}\n```"
    warnings = book.build({"index.md": page})
    for says in (
        "'nothing' is unknown",
        "wave 'spiral' is unknown: choose one of walk, ring",
        "wave ring has no caption",
    ):
        assert says in warnings


def test_the_table_of_encodings_says_what_was_tried_and_links_what_was_reached(site_):
    said = site_.text("index")
    assert "roll 92.0 ± 2.0 (3) scores yes no – no 1,234" in said and "shaw not measured scores" in said
    table = re.search(r'<table class="[^"]*compact.*?</table>', site_.markup("index"), re.DOTALL)[0]
    assert '<a class="recorded-number" href="runs.html#quick-roll">92.0 ± 2.0 (3)</a>' in table


def test_the_front_page_draws_leads_over_the_table_with_the_same_seed(book):
    for encoding, right in {
        "learned": (800, 810, 820),
        "roll": (900, 910, 950),
        "axial-rope": (700,),
    }.items():
        for seed, images in enumerate(right, start=encoding == "axial-rope"):
            run = a_record(seed, images, encoding, "mini-paper")
            write_record(book.root / "data/records", run)
    page = "# Page\n\n```{drawing} gaps\n:name: fig-a\nA caption.\n```\n\nSee {numref}`fig-a`.\n"
    assert book.build({"index.md": page}) == ""
    markup = unescape(book.markup("index"))
    assert "96 channels, 10 epochs: RoPE −11.0, RollPE +11.0." in markup and "paper: RoPE +8.2," in markup
    assert f'href="runs.html#{nodes.make_id("mini-paper/roll")}"' in markup


def test_the_map_of_channels_says_how_neighbors_correlate(book):
    ring = {"query_correlation": np.full((1, 1, 2, 3), 0.5), "key_correlation": np.full((1, 1, 2, 3), 0.3)}
    for encoding in ("roll", "roll-twin"):
        write_record(book.root / "data/records", a_record(encoding=encoding, recipe="mini"), **ring)
    assert book.build({"index.md": "# Page\n\n```{drawing} map\nA caption.\n```\n"}) == ""
    assert "RollPE: neighbors correlate at 0.40; its rotary twin" in unescape(book.markup("index"))


# ---------------------------------------------------------------------------------------------------- ledger


def test_the_ledger_links_the_equations_of_pages_that_exist(book):
    pages = {"index.md": CLAIMS + "\n```{toctree}\nexecuted/01-order\n```\n"}
    assert book.build(pages | {"executed/01-order.ipynb": order(*BLIND)}) == ""
    text = book.text("index")
    assert text.index("no correction is made") < text.index("Cited as paper"), "the summary comes first"
    assert 'href="executed/01-order.html#equation-eq-permutation-equivariance"' in book.markup("index")
    assert "was not run: run make book" in text


def test_a_claim_is_one_line_whose_grounds_unfold_on_a_site(site_):
    page = re.sub(r"\s+", " ", site_.markup("claims"))
    folds = re.findall(r'<details class="claim-details">(.*?)</details>', page)
    assert len(re.findall(r'<li class="claim ', page)) == len(folds) == len(load_claims())
    heads, bodies = zip(*(fold.split("</summary>") for fold in folds), strict=True)
    assert all(head.startswith('<summary><span><strong class="verdict is-') for head in heads)
    assert all("<p" not in head for head in heads), "a summary holds words, not paragraphs"
    assert all("refuted by:" in body.lower() and "Kind:" in body for body in bodies)
    outside = re.sub(r'<details class="claim-details">.*?</details>', "", page)
    assert "refuted by:" not in outside and "tolerance" not in outside
    for claim in load_claims():
        kind = f'class="claim is-[a-z-]+ kind-{claim.kind} document-{claim.source}"'
        assert re.search(kind, page), "by which the filter picks"


def test_on_paper_only_what_holds_instead_stays_under_a_claim(paper):
    page = re.sub(r"\s+", " ", paper.markup("index"))
    assert "claim-details" not in page and "refuted by:" not in page and "Rule:" not in page
    assert "Attention is permutation-equivariant" in page and page.count("Holds instead:") == 1


def test_powers_and_indices_of_the_ledger_are_set(site_):
    shown = in_myst("W_Q and 10000^(−2k/n) and p^2 as in eq-a and eq-b; no_name", {"eq-a"})
    assert shown == ("W{sub}`Q` and 10000{sup}`−2k/n` and p{sup}`2` as in {eq}`eq-a` and eq-b; no_name")
    assert not re.search(r"[\w)]\^|\b[^\W\d]_[^\W\d]\b", site_.text("claims"))
    assert "10000<sup>2i/d</sup>" in site_.markup("claims")


def test_the_bars_of_verdicts_are_sentences_where_they_are_not_drawn(site_, paper):
    kinds = Counter(c.kind for c in load_claims() if c.source == "paper")
    heads = [
        rf"{kinds['mathematical']} claims of the paper about formulas: .*?\.",
        rf"{kinds['empirical']} claims of the paper about trained models: .*?\.",
    ]
    for book in (site_, paper):
        page = unescape(book.markup("index"))
        assert all(re.search(head, page) for head in heads)
    assert "--share" not in paper.markup("index")
    page = unescape(site_.markup("index"))
    assert all(re.search(rf'role="img" aria-label="{head}"', page) for head in heads)
    segments = re.findall(r'<span class="is-([a-z-]+)" style="--share: (\d+)"><b>(\d+)</b>', page)
    assert sum(int(share) for _, share, _ in segments) == kinds.total()
    assert all(share == number != "0" for _, share, number in segments)
    words = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))
    assert re.search(r"\d+ reproduced, \d+ undecided, \d+ not tested", words), "without styles"


# ------------------------------------------------------------------------------------------------ notebooks


def test_a_figure_and_its_page_carry_the_command_that_makes_them_again(site_):
    figure = re.search(r"<figcaption>.*?</figcaption>", site_.markup("part/01-page"), re.DOTALL).group(0)
    assert f"Make it again: {COMMAND}" in unescape(re.sub(r"\s+", " ", re.sub("<[^>]+>", "", figure)))
    assert f"Run 2026-01-02 in 4 s on a processor; python 3.11.7. Again: {COMMAND}" in site_.text(
        "part/01-page"
    )
    assert "Make it again" not in site_.text("index"), "an author's figures have no command"


def test_a_figure_leads_to_the_records_of_its_runs(site_):
    tools = re.search(r'<div class="figure-tools">.*?</div>', site_.markup("part/01-page")).group(0)
    links = dict(re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', tools))
    spoken = {uri: re.sub("<[^>]+>", "", text) for uri, text in links.items()}
    assert spoken == {"../runs.html#quick-roll": "roll of recipe quick"}, "quick/none has no record here"


def test_records_of_several_recipes_are_told_apart():
    def page(cell):
        return f"runs.html#{cell}"

    found = figures._record_links(["quick/roll", "mini/roll", "quick@topography=ring/roll"], page)
    shown = [re.sub("<span.*", "", text) for text in re.findall(r"<a [^>]*>(.*?)</a>", found)]
    assert shown == ["quick: roll", "mini: roll", "quick: roll (topography=ring)"]
    many = figures._record_links([f"quick/roll@width=%5B{i}%5D" for i in range(20)], page)
    assert many.startswith("<details><summary>Records of 20 arms</summary>") and "roll@width=[19]<" in many


def test_a_drawn_figure_waits_in_a_place_of_its_size_and_has_a_twin_for_dark_pages(site_):
    """A browser that knows width and height lets nothing jump when the picture comes."""
    found = re.findall(
        r'<img loading="lazy" width="(\d+)" height="(\d+)" [^>]*class="([^"]*)" src="([^"]*)"',
        site_.markup("part/01-page"),
    )
    light, dark = found[:2]
    assert light[:2] == dark[:2] == ("12", "8")  # 9 and 6.1 points in pixels
    assert "for-light" in light[2] and "for-dark" in dark[2]
    first, twin = ((site_.html / "part" / picture[3]).read_text() for picture in (light, dark))
    assert "#333333" in first and DARK["#333333"] in twin
    assert "#333333" not in twin and "#ffffff" not in twin


def test_a_moving_figure_has_a_number_a_caption_a_stage_and_a_still_picture(site_):
    page = site_.markup("index")
    ring, walk = re.findall(r'<figure class="[^"]*\bwave\b[^"]*".*?</figure>', page, re.DOTALL)
    assert 'id="wave-ring"' in ring and 'data-wave="ring"' in ring and "data-moving" not in ring
    assert "<em>ring</em>" in ring and "Fig. 1" in ring
    picture = re.search(r'role="img" aria-label="([^"]*)"><div class="wave-panels">(.*)</svg>', ring)
    assert unescape(picture[1]) == WAVES["ring"].label and "<svg" in picture[2]
    start = json.loads(unescape(re.search(r'data-start="([^"]*)"', walk)[1]))
    assert start == WAVES["walk"].start and "data-moving" in walk


def test_mathjax_is_one_local_file(site_):
    (file,) = (site_.html / "_static/mathjax").iterdir()
    assert file.name == "tex-svg-full.js" and file.stat().st_size > 1_000_000
