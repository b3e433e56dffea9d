"""What the Sphinx extension adds to pages, seen in tiny books built in a temporary folder."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from pathlib import Path
from typing import NamedTuple

import nbformat
import numpy as np
import pytest
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from rollpe.encodings import ENCODINGS
from rollpe.errors import InputError
from rollpe_book.agree import agree
from rollpe_book.claims import load_claims
from rollpe_book.extension import equations, figures, numbers, site
from rollpe_book.extension.ledger import in_myst
from rollpe_book.figures import DARK
from rollpe_book.properties import Properties
from rollpe_lab.records import (
    Environment,
    FinalMetrics,
    Provenance,
    Record,
    pack_bits,
    record_path,
    write_record,
)
from shared import make_text_record

ROLL = {
    "label": "eq-roll",
    "page": "rolling",
    "implements": ["rollpe.operators.roll", "rollpe.operators.shift_matrix"],
    "encodings": ["roll", "torus-roll"],
    "source": "paper Eq. 2",
    "error": 3.04e-16,
    "tolerance": 1e-12,
    "passed": True,
    "cases": 12,
}
WAVE = {
    "label": "eq-wave",
    "page": "rolling",
    "implements": [],
    "encodings": [],
    "source": "paper Eq. 9",
    "reason": "it is a definition",
}
PAGE = "# Rolling\n\n$$\nS^p q\n$$ (eq-roll)\n\nThen\n\n$$\na = b\n$$ (eq-wave)\n"


def a_record(seed=0, accuracy=0.9, encoding="roll", recipe="quick", epochs=12) -> Record:
    bits = np.arange(1000) < round(1000 * accuracy)
    return Record(
        protocol=1,
        recipe=recipe,
        encoding=encoding,
        encoding_options={},
        seed=seed,
        config={"epochs": epochs},
        parameters=1234567,
        history=[],
        test=FinalMetrics(loss=0.25, accuracy=bits.mean(), images=1000, correct=pack_bits(bits)),
        resolutions={"24": 0.5},
        throughput=1500.0,
        environment=Environment(
            python="3.11",
            platform="Linux",
            torch="2",
            timm="1",
            numpy="2",
            device="cpu",
            device_name="A <fast> processor",
            driver=None,
            threads=1,
        ),
        provenance=Provenance(
            commit="c0ffee" * 6,
            dirty=False,
            source_hash="",
            command="rollpe train --encoding roll",
            started="2026-01-02T03:04:05",
            finished="2026-01-02T03:05:05",
            wall_seconds=60,
        ),
    )


class Book:
    """A book of some pages: pages {name: text}, report: the checks, None for no report at all."""

    def __init__(self, root: Path):
        self.root, self.source, self.html = root, root / "book", root / "_build/html"
        self.source.mkdir()

    def build(self, pages, report=(), builder="html") -> str:
        """Build it and return the warnings, without colors."""
        for name, text in pages.items():
            path = self.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if report is not None:
            (self.root / "_build").mkdir(exist_ok=True)
            (self.root / "_build/equations.json").write_text(json.dumps({"equations": list(report)}))
        warnings = io.StringIO()
        settings = {
            "extensions": ["myst_nb", "rollpe_book.extension"],
            "root_doc": next(iter(pages)).partition(".")[0],
            "html_theme": "basic",
            "myst_enable_extensions": ["dollarmath", "amsmath", "deflist"],
            "nb_execution_mode": "off",
            "numfig": True,
        }
        with docutils_namespace():
            app = Sphinx(
                self.source,
                None,
                self.html,
                self.root / "_build/trees",
                builder,
                settings,
                io.StringIO(),
                warnings,
            )
            app.build(force_all=True)
        return re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())

    def text(self, name: str) -> str:
        """What a page says, without markup."""
        body = (self.html / f"{name}.html").read_text().partition("<body")[2]
        return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", body)))

    def markup(self, name: str) -> str:
        return (self.html / f"{name}.html").read_text()


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


# ------------------------------------------------------------------------------------------------ equations


class Fold(NamedTuple):
    summary: str
    inside: str
    open: bool


def folded(markup: str) -> list[Fold]:
    """The lines of checks that a reader opens, in their order, without markup."""
    found = re.findall(
        r'<div class="equation-check[^>]*>\s*<details( open)?>\s*<summary>(.*?)</summary>(.*?)</details>',
        markup,
        flags=re.DOTALL,
    )
    return [Fold(*(unescape(re.sub(r"<[^>]+>", "", text)) for text in f[1:]), bool(f[0])) for f in found]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.04e-16, "3·10⁻¹⁶"),
        (1e-12, "10⁻¹²"),
        (0.0, "0"),
        (2.5, "2.5·10⁰"),
        (0.117, "1.2·10⁻¹"),
        (1.7e308, "1.7·10³⁰⁸"),
    ],
)
def test_errors_are_written_with_powers_of_ten(value, text):
    assert equations.scientific(value) == text


def test_every_equation_says_what_its_check_found_and_where_its_code_is(book):
    assert book.build({"rolling.md": PAGE}, [ROLL, WAVE]) == ""
    text = book.text("rolling")
    found = "Checked ✓ error 3·10⁻¹⁶ Largest error 3·10⁻¹⁶ (tolerance 10⁻¹²) over 12 cases"
    made = "operators.roll · operators.shift_matrix · trained in roll, torus-roll · paper Eq. 2"
    assert f"{found} · {made}" in text
    assert "Not checked: it is a definition paper Eq. 9" in text
    folds = folded(book.markup("rolling"))
    assert [fold.summary for fold in folds] == ["Checked ✓ error 3·10⁻¹⁶", "Not checked: it is a definition"]
    assert "operators.shift_matrix" in folds[0].inside and "paper Eq. 9" in folds[1].inside
    assert re.findall(r'href="(_modules/[^"]*)"', book.markup("rolling")) == [
        "_modules/rollpe/operators.html#roll",
        "_modules/rollpe/operators.html#shift_matrix",
        "_modules/rollpe/encodings/roll.html#Roll",
        "_modules/rollpe/encodings/roll.html#TorusRoll",
    ]


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"none"}, "shift_matrix · trained in every encoding · paper"),
        ({"none", "t5-bias", "lie"}, "trained in every encoding but t5-bias, lie · paper"),
        (ENCODINGS.keys(), "shift_matrix · paper"),
    ],
)
def test_what_nearly_all_encodings_are_made_of_is_said_short(book, missing, says):
    encodings = [name for name in ENCODINGS if name not in missing]
    assert book.build({"rolling.md": PAGE}, [ROLL | {"encodings": encodings}, WAVE]) == ""
    assert says in book.text("rolling")


def test_a_book_of_one_file_has_badges_without_links_to_pages_it_lacks(book):
    page = {"rolling.md": PAGE + "\n{num}`quick/roll accuracy`\n"}
    assert book.build(page, [ROLL, WAVE], builder="singlehtml") == ""
    made = book.markup("rolling")
    assert "largest error 3·10⁻¹⁶" in made and "_modules" not in made
    assert folded(made) == [], "paper has nothing to unfold"


@pytest.mark.parametrize(
    ("page", "report", "says"),
    [
        (PAGE + "\n$$\nx = y\n$$\n", [ROLL, WAVE], "displayed equation without a label"),
        (PAGE + "\n$$\nx = y\n$$ (eq-new)\n", [ROLL, WAVE], "equation eq-new is in no registry"),
        (
            PAGE + "\n\\begin{align}\nx &= y\n\\end{align}\n",
            [ROLL, WAVE],
            "displayed equation without a label",
        ),
        (PAGE, [ROLL | {"passed": False, "error": 0.5}, WAVE], "equation eq-roll: its check failed"),
        (
            PAGE + "\n$$\na  =\nb\n$$ (eq-again)\n",
            [ROLL, WAVE, WAVE | {"label": "eq-again"}],
            "equation eq-again is displayed already, as eq-wave",
        ),
        (PAGE + "\n$$\nx = y\n$$ (eq-roll)\n", [ROLL, WAVE], "duplicate label of equation eq-roll"),
        (PAGE, [ROLL, WAVE, WAVE | {"label": "eq-more"}], "equation eq-more belongs on this page"),
        (PAGE, None, "equations.json is missing"),
    ],
)
def test_an_equation_without_a_good_check_is_a_warning(book, page, report, says):
    assert says in book.build({"rolling.md": page}, report)


def test_a_failed_check_shows_on_the_page(book):
    book.build({"rolling.md": PAGE}, [ROLL | {"passed": False, "error": 0.5}, WAVE])
    failed, _ = folded(book.markup("rolling"))
    assert failed.summary.startswith("CHECK FAILED: largest error 5·10⁻¹ (tolerance 10⁻¹²)") and failed.open


@pytest.fixture
def check_cells(capsys):
    """A notebook: a check before any equation, then two cells below one, then a folded one."""
    agree("two halves", 0.25, 0.0, tolerance=0.5)
    first = capsys.readouterr().out
    agree("there and <back>", 1e-15, 0.0)
    print("a line of its own")
    agree("the norm", 0.0, 0.0, tolerance=0)
    second = capsys.readouterr().out
    failed = "wrong: largest error 1.0e+00 (tolerance 1e-12)\n"
    text = nbformat.v4.new_markdown_cell
    cells = [
        text("# Rolling"),
        a_cell(first),
        text("$$\nS^p q\n$$ (eq-roll)"),
        a_cell(second),
        a_cell(first + failed),
        a_cell(first, ["hide-cell"]),
        text("## Next"),
        a_cell(first),
    ]
    metadata = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    return json.dumps(nbformat.v4.new_notebook(cells=cells, metadata=metadata))


def a_cell(printed, tags=()):
    output = nbformat.v4.new_output("stream", name="stdout", text=printed)
    return nbformat.v4.new_code_cell(
        "check()", outputs=[output], execution_count=1, metadata={"tags": list(tags)}
    )


HALVES, BACK, NORM = (
    "two halves: largest error 2.5·10⁻¹ (tolerance 5·10⁻¹)",
    "there and <back>: largest error 10⁻¹⁵ (tolerance 10⁻¹²)",
    "the norm: exact",
)
PRINTED = re.compile(r'<div class="output stream.*?<pre>(.*?)</pre>', re.DOTALL)


def printed(markup: str) -> list[str]:
    """What cells printed, as the page shows it."""
    return [unescape(re.sub(r"<[^>]+>", "", text)).strip() for text in PRINTED.findall(markup)]


def test_the_output_of_checks_folds_into_the_badge_of_the_equation_above_them(book, check_cells):
    assert book.build({"rolling.ipynb": check_cells}, [ROLL]) == ""
    page = book.markup("rolling")
    before, badge, after = folded(page)
    assert badge.summary == "Checked ✓ error 3·10⁻¹⁶ · 3 more in code"
    lines = [line for line in badge.inside.splitlines() if line]
    assert lines[-4:] == ["Printed by the code below:", BACK, NORM, HALVES]
    for fold in (before, after):  # no equation stands above them in their section
        assert fold.summary == "Checked ✓ error 2.5·10⁻¹" and fold.inside.strip() == HALVES
    first, second, third = printed(page)
    assert first == "a line of its own", "what is no check stays where it was printed"
    assert second == "wrong: largest error 1.0e+00 (tolerance 1e-12)", "and so does what failed"
    assert third == "two halves: largest error 2.5e-01 (tolerance 5e-01)", "and what is folded already"
    assert len(re.findall(r'<div class="cell_input', page)) == 5, "no code is lost"


def test_on_paper_the_output_of_checks_is_one_line_for_each_cell(book, check_cells):
    book.build({"rolling.ipynb": check_cells}, [ROLL], builder="singlehtml")
    page = book.markup("rolling")
    lines = re.findall(r'<p class="equation-check passed">(Checked ✓.*?)</p>', page)
    assert lines == ["Checked ✓ error 2.5·10⁻¹", "Checked ✓ error 10⁻¹⁵", *["Checked ✓ error 2.5·10⁻¹"] * 2]
    assert "<back>" not in page and "a line of its own" in page


def test_the_page_of_a_readers_own_run_shows_what_was_printed(book, check_cells):
    book.build({"rolling.ipynb": check_cells}, [ROLL], builder="json")
    body = json.loads((book.html / "rolling.fjson").read_text())["body"]
    assert len(printed(body)) == 5 and folded(body) == []


def test_a_page_that_is_not_there_need_not_show_its_equations(book):
    assert book.build({"other.md": "# Other\n"}, [ROLL, WAVE]) == ""


# ------------------------------------------------------------------------------------------------- numbers


def test_a_number_is_the_mean_and_sd_over_seeds_and_leads_to_its_records(book):
    for seed, accuracy in enumerate((0.90, 0.92, 0.94)):
        write_record(book.root / "data/records", a_record(seed, accuracy))
    assert book.build({"index.md": "# Page\n\nIt reached {num}`quick/roll accuracy` here.\n"}) == ""
    assert "It reached 92.0 ± 2.0 % here." in book.text("index")
    link = re.search(
        r'<a class="recorded-number" href="numbers.html#quick-roll" data-note="[^"]*" title="([^"]*)"',
        book.markup("index"),
    )
    assert "mean ± SD of 3 runs, seeds 0, 1, 2; commit c0ffeec0ff" in unescape(link.group(1))
    numbers = book.text("numbers")
    assert "rollpe train --encoding roll" in numbers and "A <fast> processor" in numbers
    assert "Recipe quick, encoding roll: test accuracy 92.0 ± 2.0 %" in numbers and "n = 3" in numbers
    for seed in range(3):
        copy = f"records/quick/roll/seed-{seed}.json"
        assert f'href="{copy}"' in book.markup("numbers")
        original = record_path(book.root / "data/records", a_record(seed))
        assert (book.html / copy).read_bytes() == original.read_bytes()


def test_a_number_has_a_note_that_says_all_about_its_origin_without_another_page(book):
    for seed in (0, 1):
        write_record(book.root / "data/records", a_record(seed, 0.9))
    text = "{num}`quick/roll accuracy`, again {num}`quick/roll accuracy`, {num}`quick/roll accuracy@24`"
    assert book.build({"part/page.md": f"# Page\n\n{text}\n"}) == ""
    notes = re.findall(r'<div class="number-note" id="([^"]*)".*?</button></div>', book.markup("part/page"))
    links = re.findall(r'data-note="([^"]*)"', book.markup("part/page"))
    assert links == [notes[0], notes[0], notes[1]] and len(set(notes)) == 2, "one note for each number"
    note = re.search(rf'id="{notes[0]}".*?</div></dl>', book.markup("part/page")).group(0)
    said = " ".join(unescape(re.sub("<[^>]+>", " ", note)).split())
    for word in ("90.0 ± 0.0 %", "mean ± SD", "n = 2", "0, 1", "recipe quick", "c0ffeec0ff", "2026-01-02"):
        assert word in said, word
    assert "rollpe train --encoding roll" in said and "A <fast> processor" in said
    for uri in re.findall(r'href="([^"#]*)', note):
        assert (book.html / "part" / uri).is_file(), uri
    assert " hidden" in note, "without the script there is only the link"


def test_bits_at_a_length_have_a_note_of_the_runs_that_measured_it_and_dates_are_text(book):
    for seed in (0, 1):
        record = make_text_record("roll", 2.3, 4.0 + seed, seed)
        bits = record.bits if seed else {"64": 2.3}
        day = record.provenance.model_copy(update={"finished": "<b>today"})
        write_record(book.root / "data/records", record.model_copy(update={"bits": bits, "provenance": day}))
    assert book.build({"index.md": "# Page\n\n{num}`text/roll bits`, {num}`text/roll bits@512`\n"}) == ""
    assert "2.30 ± 0.00, 5.00" in book.text("index")
    first, second = book.markup("index").split('class="number-note"')[1:]
    assert "n = 2" in first and "n = 1" in second and "&lt;b&gt;today" in second and "<b>" not in second


def test_notes_stay_out_of_the_search(book):
    write_record(book.root / "data/records", a_record(0, 0.9))
    book.build({"index.md": "# Page\n\n{num}`quick/roll accuracy`\n"})
    assert "processor" in book.markup("index")
    assert "processor" not in (book.html / "searchindex.js").read_text()


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("accuracy", "90.0 %"),
        ("accuracy@24", "50.0 %"),
        ("accuracy@48", "not measured"),
        ("loss", "0.250"),
        ("parameters", "1,234,567"),
        ("throughput", "1,500 images/s"),
        ("seconds", "60 s"),
        ("seeds", "1"),
    ],
)
def test_what_can_be_read_from_one_record(metric, text):
    assert numbers.recorded_number([a_record()], metric) == text


def test_without_records_a_number_is_not_measured():
    assert numbers.recorded_number([], "accuracy") == "not measured"
    with pytest.raises(InputError, match=r"'speed'.*accuracy, bits"):
        numbers.recorded_number([], "speed")


def test_a_number_that_was_not_measured_says_so_and_links_nowhere(book):
    assert book.build({"index.md": "# Page\n\n{num}`quick/spiral accuracy`\n"}) == ""
    assert "not measured" in book.text("index") and "numbers.html" not in book.markup("index")
    assert not (book.html / "numbers.html").exists()


def test_the_readers_own_runs_are_added_but_replace_no_committed_one_of_the_same_seed(tmp_path):
    for seed in (0, 1):
        write_record(tmp_path / "data/records", a_record(seed, 0.5))
    for seed in (1, 2):
        write_record(tmp_path / "_build/records", a_record(seed, 0.75))
    found = site.find_records(tmp_path, "quick/roll")
    assert [(r.seed, r.test.accuracy) for r in found.values()] == [(0, 0.5), (1, 0.5), (2, 0.75)]
    assert {r.seed: r.test.accuracy for r in site.all_records(tmp_path)} == {0: 0.5, 1: 0.5, 2: 0.75}


def test_options_are_spelled_in_a_number_as_people_or_paths_do(tmp_path):
    record = a_record().model_copy(update={"encoding_options": {"width": [31, 33]}})
    write_record(tmp_path / "data/records", record)
    for cell in ("quick/roll@width=[31,33]", "quick/roll@width=%5B31%2C33%5D"):
        assert len(site.find_records(tmp_path, cell)) == 1
    assert not site.find_records(tmp_path, "quick/roll@width=[31]")


@pytest.mark.parametrize(
    ("role", "says"),
    [
        ("quick accuracy", "write recipe/encoding and metric"),
        ("quick/roll speed", "'speed' is not recorded"),
        ("quick/roll accuracy", "no sample of one thing: epochs: 12 and 3"),
    ],
)
def test_a_number_that_means_nothing_is_a_warning(book, role, says):
    write_record(book.root / "data/records", a_record(0, epochs=12))
    write_record(book.root / "data/records", a_record(1, epochs=3))
    assert says in book.build({"index.md": f"# Page\n\n{{num}}`{role}`\n"})


def test_the_table_of_encodings_says_what_was_tried_and_links_what_was_reached(book, monkeypatch):
    measured = [Properties("roll", "scores", 2, (True, True), False, True, None, True, False, 1234)]
    monkeypatch.setattr("rollpe_book.extension.tables.measure_all", lambda: measured)
    page = {"index.md": "# Page\n\n```{encodings}\n```\n"}
    assert book.build(page) == ""
    assert "roll not measured scores yes no – no 1,234" in book.text("index")

    for seed, accuracy in enumerate((0.90, 0.92, 0.94)):
        write_record(book.root / "data/records", a_record(seed, accuracy))
    assert book.build(page) == ""
    assert "roll 92.0 ± 2.0 (3) scores" in book.text("index")
    links = re.findall(r'<a class="recorded-number" href="numbers.html#([^"]*)"', book.markup("index"))
    assert links == ["quick-roll"]


def test_the_hours_of_a_gpu_are_a_range(book):
    assert book.build({"index.md": "# Page\n\nNot run: {gpu-hours}`strong 12`.\n"}) == ""
    found = re.search(
        r"Not run: ([\d.]+) to ([\d.]+) GPU-hours at a peak of 1000 TFLOP/s", book.text("index")
    )
    assert found and 0 < float(found[1]) < float(found[2])


def test_the_front_page_draws_the_first_recipe_of_the_papers_model_that_has_runs(book):
    page = "# Page\n\n```{drawing} accuracies\n:name: fig-a\nA caption.\n```\n\nSee {numref}`fig-a`.\n"
    for recipe, epochs in (("mini", 10), ("short", 50), ("strong", 100)):
        write_record(book.root / "data/records", a_record(recipe=recipe, epochs=epochs))
        assert book.build({"index.md": page}) == ""
        drawn = (book.html / "_images/accuracies.svg").read_text()
        assert (
            f"here, {'small ViT' if recipe == 'mini' else 'ViT-S'}," in drawn and f"{epochs} epochs" in drawn
        )
        markup = book.markup("index")
        assert "Measured: RollPE 90.0 %." in markup
        assert re.search(r'href="figures/fig-a.csv"', markup)
        assert f'href="numbers.html#{nodes.make_id(f"{recipe}/roll")}"' in markup
    assert "'nothing' is unknown" in book.build({"index.md": "# P\n\n```{drawing} nothing\nA.\n```\n"})


def test_the_map_of_channels_says_how_neighbors_correlate(book):
    ring = {"query_correlation": np.full((1, 1, 2, 3), 0.5), "key_correlation": np.full((1, 1, 2, 3), 0.3)}
    for encoding in ("roll", "roll-twin"):
        write_record(book.root / "data/records", a_record(encoding=encoding, recipe="mini"), **ring)
    assert book.build({"index.md": "# Page\n\n```{drawing} map\nA caption.\n```\n"}) == ""
    assert "RollPE: neighbors correlate at 0.40; its rotary twin" in unescape(book.markup("index"))


def test_the_ledger_shows_verdicts_and_links_the_equations_of_pages_that_exist(book):
    entry = {
        "implements": [],
        "encodings": [],
        "source": "",
        "error": 0.0,
        "tolerance": 1e-9,
        "passed": True,
        "cases": 1,
    }
    shown = entry | {"label": "eq-permutation-equivariance", "page": "01-order"}
    absent = entry | {"label": "eq-pooled", "page": "99-nowhere"}
    page = "# Order\n\n$$\nx = y\n$$ (eq-permutation-equivariance)\n\n"
    page += "```{claims}\n:summary:\n```\n\n```{claims}\n```\n"
    assert book.build({"01-order.md": page}, [shown, absent]) == ""
    text = book.text("01-order")
    assert "Corrected Attention without positions is permutation-invariant" in text
    assert text.index("no correction is made") < text.index("Cited as paper"), "the summary comes first"
    assert re.search(
        r"Cited as paper\. \d+ testable claims: [^.]*\b1 corrected[^.]*; \d+ more cannot be tested\.", text
    )
    assert 'href="#equation-eq-permutation-equivariance"' in book.markup("01-order")
    assert "eq-pooled" in text and "not tested" in text


@pytest.mark.parametrize("builder", ["html", "singlehtml"])
def test_a_claim_is_one_line_whose_grounds_unfold_on_a_site_and_are_left_out_elsewhere(book, builder):
    label = "eq-permutation-equivariance"
    checks = [ROLL | {"label": name, "page": "99-nowhere"} for name in (label, "eq-pooled")]
    assert book.build({"index.md": "# Page\n\n```{claims}\n```\n"}, checks, builder=builder) == ""
    page = re.sub(r"\s+", " ", book.markup("index"))
    assert len(re.findall(r'<li class="claim ', page)) == len(load_claims())
    folds = re.findall(r'<details class="claim-details">(.*?)</details>', page)
    instead = "Attention is permutation-equivariant"
    if builder != "html":
        assert folds == [] and "refuted by:" not in page and "Rule:" not in page
        assert instead in page and page.count("Holds instead:") == 1, "what holds instead is never left out"
        return
    assert len(folds) == len(load_claims())
    heads, bodies = zip(*(fold.split("</summary>") for fold in folds), strict=True)
    assert all(head.startswith('<summary><span><strong class="verdict is-') for head in heads)
    assert all("<p" not in head for head in heads), "a summary holds words, not paragraphs"
    assert all("refuted by:" in body.lower() and "Kind:" in body for body in bodies)
    outside = re.sub(r'<details class="claim-details">.*?</details>', "", page)
    assert "refuted by:" not in outside and "tolerance" not in outside
    for claim in load_claims():
        kind = f'class="claim is-[a-z-]+ kind-{claim.kind} document-{claim.source}"'
        assert re.search(kind, page), "by which the filter picks"


def test_powers_and_indices_of_the_ledger_are_set(book):
    shown = in_myst("W_Q and 10000^(−2k/n) and p^2 as in eq-a and eq-b; no_name", {"eq-a"})
    assert shown == ("W{sub}`Q` and 10000{sup}`−2k/n` and p{sup}`2` as in {eq}`eq-a` and eq-b; no_name")
    assert book.build({"index.md": "# Page\n\n```{claims}\n```\n"}) == ""
    assert not re.search(r"[\w)]\^|\b[^\W\d]_[^\W\d]\b", book.text("index"))
    assert "10000<sup>−2k/n</sup>" in book.markup("index")


@pytest.mark.parametrize("builder", ["html", "singlehtml"])
def test_the_bar_of_verdicts_is_a_sentence_where_it_is_not_drawn(book, builder):
    assert book.build({"index.md": "# Page\n\n```{claims}\n:bar:\n```\n"}, builder=builder) == ""
    of_paper = [c for c in load_claims() if c.source == "paper"]
    page, paper = unescape(book.markup("index")), sum(c.untestable is None for c in of_paper)
    assert f"testable claims by verdict; {len(of_paper) - paper} more cannot be tested." in page
    sentence = re.search(
        rf"The paper['’]s {paper} testable claims: 3 reproduced \(3 on the printed table\), .*?\.", page
    )
    assert sentence
    segments = re.findall(r'<span class="is-([a-z-]+)" style="--share: (\d+)"><b>(\d+)</b>', page)
    if builder != "html":
        assert segments == [] and "verdict-bar" in page
        return
    assert f'role="img" aria-label="{sentence[0]}"' in page
    assert sum(int(share) for _, share, _ in segments) == paper
    assert all(share == number != "0" for _, share, number in segments)
    assert "3 reproduced, 1 undecided" in re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page)), "without styles"


# ------------------------------------------------------------------------------------------------ notebooks


STAMP = {
    "notebook": "notebooks/01-page.py",
    "parameters": {"n": 8, "loud": False, "kind": "two words"},
    "date": "2026-01-02T03:04:05+00:00",
    "seconds": 4.2,
    "device": "a processor",
    "versions": {"python": "3.11.7"},
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="6.1pt">'
    '<path style="stroke: #333333; fill: #ffffff"/></svg>'
)
SHOWN = {"csv": "panel,x\n1,2\n", "thinned": 1, "records": ["quick/roll", "quick/none"]}


def a_notebook(picture=None) -> str:
    picture = picture or nbformat.v4.new_output("display_data", {"image/png": PIXEL})
    formula = nbformat.v4.new_output("display_data", {"text/latex": "$$a^2$$"})
    figure = {"figure": {"name": "fig-one", "caption": "One pixel."}, "image": {"alt": "a pixel"}}
    cells = [
        nbformat.v4.new_markdown_cell("# Page"),
        nbformat.v4.new_code_cell(
            "plot()",
            outputs=[picture],
            execution_count=1,
            metadata={"mystnb": figure, "tags": ["hide-input"]},
        ),
        nbformat.v4.new_code_cell("show()", outputs=[formula], execution_count=2),
    ]
    metadata = {"rollpe": STAMP, "language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    return json.dumps(nbformat.v4.new_notebook(cells=cells, metadata=metadata))


def test_a_figure_and_its_page_carry_the_command_that_makes_them_again(book):
    assert book.build({"01-page.ipynb": a_notebook()}) == "", "and what a cell displays needs no label"
    command = "rollpe notebook notebooks/01-page.py -p n 8 -p loud false -p kind 'two words'"
    figure = re.search(r"<figcaption>.*?</figcaption>", book.markup("01-page"), re.DOTALL).group(0)
    assert f"Make it again: {command}" in unescape(re.sub(r"\s+", " ", re.sub("<[^>]+>", "", figure)))
    assert f"Run 2026-01-02 in 4 s on a processor; python 3.11.7. Again: {command}" in book.text("01-page")


def drawn(**said):
    about = SHOWN | said
    return nbformat.v4.new_output("display_data", {"image/svg+xml": SVG}, metadata={"image/svg+xml": about})


def test_a_figure_leads_to_its_numbers_its_code_and_the_records_of_its_runs(book):
    write_record(book.root / "data/records", a_record())
    assert book.build({"part/01-page.ipynb": a_notebook(drawn())}) == ""
    page = book.markup("part/01-page")
    tools = re.search(r'<div class="figure-tools">.*?</div>', page).group(0)
    links = dict(re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', tools))
    spoken = {uri: re.sub("<[^>]+>", "", text) for uri, text in links.items()}
    assert spoken == {
        "../figures/fig-one.csv": "Data (CSV) of figure 1",
        "#code-fig-one": "Code of figure 1",
        "../numbers.html#quick-roll": "roll of recipe quick",
    }, "quick/none has no record here"
    assert (book.html / "figures/fig-one.csv").read_text() == SHOWN["csv"]
    assert re.search(r'<details.*?id="code-fig-one".*?plot.*?</details>', page, re.DOTALL), "inside the fold"


def test_records_of_several_recipes_are_told_apart():
    def page(cell):
        return f"numbers.html#{cell}"

    (found,) = figures._record_links(["quick/roll", "mini/roll", "quick@topography=ring/roll"], page)
    shown = [re.sub("<span.*", "", text) for text in re.findall(r"<a [^>]*>(.*?)</a>", found)]
    assert shown == ["quick: roll", "mini: roll", "quick: roll (topography=ring)"]
    (many,) = figures._record_links([f"quick/roll@width=%5B{i}%5D" for i in range(20)], page)
    assert many.startswith("<details><summary>Records of 20 arms</summary>") and "roll@width=[19]<" in many


def test_thinned_data_say_so(book):
    book.build({"01-page.ipynb": a_notebook(drawn(thinned=3))})
    assert "Data (CSV, one point in 3)" in book.text("01-page")


def test_a_drawn_figure_has_a_twin_for_dark_pages_in_other_colors(book):
    book.build({"01-page.ipynb": a_notebook(drawn())})
    light, dark = re.findall(r'<img [^>]*class="([^"]*)" src="([^"]*)"', book.markup("01-page"))
    assert "for-light" in light[0] and "for-dark" in dark[0]
    assert "#333333" in (book.html / light[1]).read_text()
    twin = (book.html / dark[1]).read_text()
    assert DARK["#333333"] in twin and "#333333" not in twin and "#ffffff" not in twin


def test_a_book_of_one_file_has_one_picture_and_the_command(book):
    book.build({"01-page.ipynb": a_notebook(drawn())}, builder="singlehtml")
    page = book.markup("01-page")
    assert page.count("<img") == 1 and "Make it again" in page
    assert "figure-tools" not in page and not (book.html / "figures").exists()


def test_a_moving_figure_leads_to_the_numbers_and_the_code_of_its_still(book):
    assert book.build({"index.md": "# Page\n\n```{wave} ring\n:name: wave-ring\nA ring.\n```\n"}) == ""
    tools = re.search(r'<div class="figure-tools">.*?</div>', book.markup("index")).group(0)
    uris = re.findall(r'href="([^"]*)"', tools)
    assert uris[0] == "figures/wave-ring.csv" and uris[2] == "_static/source/figures/ring.js"
    assert (book.html / uris[0]).read_text().startswith("panel,kind,series,x,y,value")
    file, name = uris[1].split("#")
    code = (book.html / file).read_text()
    assert "def draw_ring(" in re.sub("<[^>]+>", "", code.partition(f'id="{name}"')[2])[:40]
    (back,) = re.findall(r'class="viewcode-back" href="../../../index.html#([^"]*)"', code)
    assert f'id="{back}"' in book.markup("index")


def test_a_drawn_figure_waits_for_its_reader_in_a_place_of_its_size(book):
    """A browser that knows width and height lets nothing jump when the picture comes."""
    book.build({"01-page.ipynb": a_notebook(drawn())})
    pictures = re.findall(r'<img loading="lazy" width="(\d+)" height="(\d+)"', book.markup("01-page"))
    assert pictures == [("12", "8")] * 2  # 9 and 6.1 points in pixels, of the picture and its twin


def test_a_figure_that_an_author_put_in_has_no_command(book):
    (book.source / "one.png").write_bytes(b"")
    book.build({"index.md": "# Page\n\n```{figure} one.png\nA caption\n```\n"})
    assert "A caption" in book.text("index") and "Make it again" not in book.text("index")


# --------------------------------------------------------------------------------------------------- assets


def test_mathjax_is_one_local_file(book):
    book.build({"rolling.md": PAGE}, [ROLL, WAVE])
    (file,) = (book.html / "_static/mathjax").iterdir()
    assert file.name == "tex-svg-full.js" and file.stat().st_size > 1_000_000
