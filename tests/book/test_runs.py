"""The page of all runs: its data against the records, its use.

Here: the index, the files of cells, the page in a browser. Not here: accessibility and weight of all pages
(test_pages.py, test_budget.py).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from built_book import HTML, ROOT

from rollpe_book import figures
from rollpe_book.extension import runs
from rollpe_book.extension.site import all_records, record_copy, record_link
from rollpe_lab.evidence.families import later_cells
from rollpe_lab.evidence.table import arms_of
from rollpe_lab.records import read_records, record_path, write_record
from rollpe_lab.records.record import EpochMetrics
from rollpe_lab.statistics import summarize
from shared import make_record, make_text_record


def test_every_committed_record_is_in_the_file_of_its_cell():
    committed = read_records(ROOT / "data/records")
    cells, later = runs.cells_of(committed), later_cells(ROOT / "plans")
    index = runs.index(cells, "mini", ROOT)
    assert len(json.dumps(index)) < 100_000 and sum(map(len, cells.values())) == len(committed) > 300
    assert len({line["file"] for line in index["cells"]}) == len(cells)
    remarks = set()
    for line, (cell, records) in zip(index["cells"], cells.items(), strict=True):
        assert line["name"] == cell and line["label"] and line["color"] in index["dark"]
        test = index["tests"][line["test"]]
        assert test["text"] == bool(records[0].bits)
        made = runs.arm_data(records, test["parts"], later, ROOT)
        assert len(json.dumps(made)) < 15_000, cell
        assert made["mean"] == pytest.approx(np.mean([r.score for r in records]))
        for r, run in zip(records, made["runs"], strict=True):
            assert run["seed"] == r.seed and run["score"] == pytest.approx(r.score, abs=1e-6)
            assert run["record"] == record_link(record_path("", r)) and run["command"] == r.provenance.command
            assert run["remark"] == "exploratory" * (r.run_id.path in later)
            remarks.add(run["remark"])
        last = made["curve"][-1]
        assert last["epoch"] == len(records[0].history) and last["low"] <= last["mean"] <= last["high"]
        if test["text"]:
            trained = min(map(int, records[0].bits))
            found = made["parts"][test["parts"].index(trained)]
            assert found == pytest.approx(made["mean"], abs=1e-4)
        else:
            held_out = [100 * r.history[-1].held_out_accuracy for r in records]
            assert [last["mean"], last["high"]] == pytest.approx([np.mean(held_out), max(held_out)], abs=1e-3)
            sizes = np.bincount(runs.labels_of(line["test"], ROOT)[0], minlength=len(test["parts"]))
            assert np.average(made["parts"], weights=sizes) == pytest.approx(made["mean"], abs=1e-3)
    assert remarks == {"", "exploratory"}


def test_runs_of_the_build_are_marked_and_no_committed_one_is_hidden(tmp_path):
    digits = {"data": "digits", "images": len(runs.labels_of("digits", ROOT)[0])}
    write_record(tmp_path / "data/records", make_record(seed=0, right=270, **digits))
    write_record(tmp_path / "_build/records", make_record(seed=0, right=10, **digits))
    write_record(tmp_path / "_build/records", make_record(seed=1, right=270, **digits))
    (records,) = runs.cells_of(all_records(tmp_path)).values()
    made = runs.arm_data(records, list(range(10)), {records[1].run_id.path}, tmp_path)["runs"]
    assert [(r["score"], r["remark"]) for r in made] == [(75, ""), (75, "exploratory, this build")]


def test_text_and_images_are_never_of_one_test():
    records = [make_record(data="digits"), make_text_record("roll", 2.5, 3.0)]
    tests = runs.index(runs.cells_of(records), "text", ROOT)["tests"]
    assert {name: test["unit"] for name, test in tests.items()} == {
        "digits": "%",
        "sympy": "bits per character",
    }
    assert tests["sympy"]["parts"] == [64, 512] and len(tests["digits"]["parts"]) == 10


def test_epochs_that_were_not_scored_and_lengths_that_were_not_measured_are_left_out():
    records = [make_text_record("roll", 2.5, 3.0), make_text_record("roll", 3.5, 4.0, seed=1)]
    assert runs.results_by_part(records, [64, 512, 1024], ROOT) == [3.0, 3.5, None]
    row = {"steps": 1, "learning_rate": 0, "train_loss": 1, "held_out_loss": None, "held_out_accuracy": None}
    unscored, scored = (
        EpochMetrics(**row | {"epoch": i + 1, "images_per_second": 1, "seconds": 1, "held_out_loss": loss})
        for i, loss in enumerate((None, np.log(2)))
    )
    found = runs.curve([r.model_copy(update={"history": [unscored, scored]}) for r in records])
    assert found == [{"epoch": 2, "mean": 1, "low": 1, "high": 1}]


def test_a_records_address_survives_the_percent_signs_of_its_folder():
    record = make_record("multiplexed-roll", options={"speeds": [1, 1]})
    path = record_path("", record)
    assert record_copy(path) == "records/strong/multiplexed-roll@speeds=%5B1%2C1%5D/seed-0.json"
    assert record_link(path).count("%25") == 3


# ------------------------------------------------------------------------------------- the page, in a browser


def drawn(page) -> None:
    """Wait until the drawings are those of the encodings chosen last."""
    page.locator(".runs-results:not([aria-busy]) > *").first.wait_for()


def rows(page) -> list[str]:
    """The cells that show in the table."""
    return page.locator("table.runs tbody tr:visible td:nth-child(2)").all_inner_texts()


def summary(page) -> dict[str, list[str]]:
    """The tables of means: cells by encoding."""
    found = page.locator(".runs-summary tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )
    return {row[0]: row[1:] for row in found}


@pytest.fixture
def open_runs(visit):
    def open_page(address: str = "", **options):
        page = visit("runs.html", **options)
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda m: page.errors.append(m.text) if m.type == "error" else None)
        if address:
            page.evaluate("address => { location.hash = address; }", address)
        drawn(page)
        return page

    return open_page


@pytest.mark.browser
def test_the_page_opens_with_the_means_of_a_recipe_as_the_library_computes_them(open_runs):
    page = open_runs()
    arms = arms_of(all_records(ROOT), "mini")
    shown = summary(page)
    assert set(shown) == {figures.label_of(slug) for slug in arms}
    for slug, arm in arms.items():
        s = summarize([record.score for record in arm.values()])
        expected = ["1", f"{s.mean:.2f}", "–"]
        if s.n > 1:
            expected = [str(s.n), f"{s.mean:.2f} ± {s.sd:.2f}", f"{s.low:.2f} to {s.high:.2f}"]
        assert shown[figures.label_of(slug)][:3] == expected
    assert sorted(rows(page)) == sorted(f"mini/{unquote(slug)}" for slug in arms)
    cells = len(runs.cells_of(all_records(ROOT)))
    assert page.locator(".runs-stage > output").inner_text() == f"{len(arms)} of {cells} chosen"
    assert page.locator(".runs-chart svg[role=img]").count() == 3
    links = page.locator(".runs-summary tbody td:last-child a").evaluate_all("all => all.map(a => a.href)")
    assert len(links) == sum(map(len, arms.values()))
    assert all(Path(unquote(urlsplit(link).path)).is_file() for link in links) and page.errors == []


@pytest.mark.browser
def test_two_encodings_chosen_by_keyboard_show_their_results_and_the_address_brings_them_back(open_runs):
    page = open_runs()
    page.locator("select[name=recipe]").select_option("quick")
    assert rows(page) and all(name.startswith("quick/") for name in rows(page))
    page.locator("select[name=recipe]").select_option("mini")
    page.get_by_role("button", name="Clear the choice").press("Enter")
    page.get_by_text("Nothing is chosen").wait_for()
    wanted = ("none", "roll")
    for name in wanted:
        page.get_by_role("checkbox", name=f"mini/{name}", exact=True).press("Space")
    page.get_by_role("heading", name="CIFAR-100").wait_for()
    drawn(page)
    assert set(summary(page)) == set(wanted)
    table = page.locator(".runs-chart").last.locator("table")
    assert table.locator("thead th").all_text_contents() == ["class", "roll", "none"]
    found = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    labels, classes = runs.labels_of("cifar100", ROOT)
    arms = arms_of(all_records(ROOT), "mini")
    right = {name: np.mean([r.correct_bits() for r in arms[name].values()], axis=0) for name in wanted}
    for name, *accuracies in found:
        images = labels == classes.index(name.replace(" ", "_"))
        expected = [100 * right[encoding][images].mean() for encoding in ("roll", "none")]
        assert [float(shown) for shown in accuracies] == pytest.approx(expected, abs=0.006)
    assert len(found) == 100
    before = page.locator(".runs-results").inner_text()
    commands = page.locator(".runs-commands")
    commands.locator("summary").press("Enter")
    assert "rollpe train --encoding roll --recipe mini --seed 0" in commands.locator("pre").inner_text()
    assert "rollpe compare mini/roll mini/none" in commands.inner_text()
    page.reload()
    drawn(page)
    assert page.locator(".runs-results").inner_text() == before
    page.evaluate("location.hash = 'how-to-read-it'")
    assert page.locator(".runs-results").inner_text() == before, "a place on the page is no choice"
    assert page.errors == []


@pytest.mark.browser
def test_addresses_of_older_pages_open_and_accuracies_and_bits_are_drawn_apart_on_a_phone(open_runs):
    older = "run=mini/roll:0.1&run=text/roll:0.1.2&run=quick/learned+axial-rope:0&run=quick/nothing:5"
    page = open_runs(older, width=390)
    page.get_by_role("heading", name="Text of SymPy", exact=True).wait_for()
    assert page.get_by_text("No learning curves").count() == 1, "text is trained for one epoch"
    titles = page.locator(".runs-results h2").all_inner_texts()
    assert titles == ["CIFAR-100", "Digits", "Text of SymPy"]
    words = page.locator(".runs-chart > svg").evaluate_all(
        "all => all.map(svg => [...svg.querySelectorAll('text')].map(text => text.textContent).join(' '))"
    )
    assert any("%" in text for text in words) and any("bits" in text for text in words)
    assert not any("%" in text and "bits" in text for text in words)
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.errors == []
    page.add_script_tag(path=ROOT / "book/scripts/node_modules/axe-core/axe.min.js")
    for summary_ in page.locator(".runs-results summary").all():
        summary_.click()
    found = page.evaluate(
        "axe.run('.runs-stage').then(({violations}) => violations.map(v => [v.id, v.nodes[0].html]))"
    )
    assert found == []


@pytest.mark.browser
def test_everything_can_be_chosen_and_a_dark_page_has_its_own_colors_at_once(open_runs):
    page = open_runs()
    page.locator("select[name=recipe]").select_option("")
    page.get_by_role("button", name="Choose all shown").click()
    page.get_by_role("heading", name="Offset of two digits").wait_for(timeout=20_000)
    cells = len(runs.cells_of(all_records(ROOT)))
    assert page.locator(".runs-stage > output").inner_text() == f"{cells} of {cells} chosen"
    assert page.locator(".runs-results h2").count() == len(runs.TESTS)
    dot = page.locator(f'.runs-summary [fill="{figures.color_of("roll")}"]').first
    color = "dot => getComputedStyle(dot).fill"
    light = dot.evaluate(color)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    dark = figures.DARK[figures.color_of("roll")]
    assert (
        dot.evaluate(color) == f"rgb({', '.join(str(int(dark[i : i + 2], 16)) for i in (1, 3, 5))})" != light
    )
    assert page.errors == []


@pytest.mark.browser
def test_without_scripts_and_on_paper_the_table_of_means_stands_there_alone(visit):
    def means_stand(page):
        cells = runs.cells_of(all_records(ROOT))
        assert page.locator("table.runs tbody tr:visible").count() == len(cells)
        assert not page.locator(".runs-results:visible, .runs-form:visible, input:visible").count()

    means_stand(visit("runs.html", java_script_enabled=False))
    page = visit("runs.html")
    drawn(page)
    page.emulate_media(media="print")
    means_stand(page)


@pytest.mark.browser
def test_the_csv_has_every_run_with_a_record_that_is_there(visit):
    page = visit("runs.html")
    path = Path(unquote(urlsplit(page.get_by_text("All runs as CSV").evaluate("a => a.href")).path))
    with path.open(newline="", encoding="utf8") as file:
        table = {line["record"]: line for line in csv.DictReader(file)}
    records = all_records(ROOT)
    assert len(table) == len(records)
    for r in records:
        line = table[record_copy(record_path("", r))]
        assert float(line["result"]) == pytest.approx(r.score, abs=1e-6)
        assert (HTML / line["record"]).is_file()
