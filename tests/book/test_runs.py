"""The page of all runs: its data against the records, its numbers against rollpe_lab.statistics, its use.

Here: the index and the files of cells, the functions of book/scripts/runs, the page in a browser. Not here:
accessibility and weight of all pages (test_pages.py, test_budget.py).
"""

from __future__ import annotations

import csv
import json
import re
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
from rollpe_lab.statistics import summarize
from scripts import in_node
from shared import make_record, make_text_record

SCRIPTS = ROOT / "book/scripts/runs"


@pytest.fixture(scope="module")
def committed():
    return read_records(ROOT / "data/records")


@pytest.fixture(scope="module")
def index(committed):
    return runs.index(ROOT, runs.cells_of(committed), "mini")


def called(module: str, calls: list[list]) -> list:
    """What a module of book/scripts/runs computes for every (function, arguments)."""
    code = f"""
        import * as module from {json.dumps((SCRIPTS / module).as_uri())};
        const calls = JSON.parse(await new Response(process.stdin).text());
        console.log(JSON.stringify(calls.map(([name, args]) => module[name](...args))));
    """
    return in_node(["--input-type=module", "--eval", code], calls)


# -------------------------------------------------------------------------------------------------- the data


def test_every_committed_record_is_in_the_index_with_its_result_and_its_address(committed, index):
    found = {
        (cell["recipe"], cell["encoding"], cell["options"], run["seed"]): (cell, run)
        for cell in index["cells"]
        for run in cell["runs"]
    }
    assert len(found) == len(committed) > 300
    later = later_cells(ROOT / "plans")
    for record in committed:
        options = ",".join(
            f"{key}={value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}"
            for key, value in sorted(record.encoding_options.items())
        )
        cell, run = found[unquote(record.recipe), record.encoding, options, record.seed]
        assert run["score"] == pytest.approx(record.score, abs=1e-6)
        assert ("later" in run) == (record.run_id.path in later) and "fresh" not in run
        assert f"{cell['folder']}/seed-{run['seed']}.json" == record_link(record_path("", record))
        assert cell["color"] == figures.color_of(record.run_id.slug) and cell["label"]
        assert index["tests"][cell["test"]]["text"] == bool(record.bits)
    assert {cell["color"] for cell in index["cells"]} <= set(index["dark"])
    names = [cell["file"] for cell in index["cells"]]
    assert len(set(names)) == len(names)
    assert any("later" in run for cell in index["cells"] for run in cell["runs"])


def test_the_file_of_a_cell_is_small_and_holds_what_the_records_say(committed, index):
    assert len(json.dumps(index, separators=(",", ":"))) < 150_000  # as it is written
    for cell, records in runs.cells_of(committed).items():
        name = runs.test_of(records[0])
        parts = index["tests"][name]["parts"]
        file = runs.runs_of(records, parts, ROOT)
        assert len(json.dumps(file)) < 15_000, cell
        for record, made in zip(records, file, strict=True):
            assert made["command"] == record.provenance.command
            assert len(made["curve"]) == len(file[0]["curve"]) == len(record.history), "a band has all runs"
            if record.bits:
                known = {length: round(bits, 5) for length, bits in record.bits.items()}
                assert made["parts"] == [known.get(str(length)) for length in parts]
                continue
            sizes = np.bincount(runs.labels_of(name, ROOT)[0], minlength=len(parts))
            assert np.average(made["parts"], weights=sizes) == pytest.approx(record.score, abs=1e-3)
            assert made["curve"][-1] == pytest.approx(100 * record.history[-1].held_out_accuracy, abs=1e-3)


def test_runs_of_the_build_are_marked_and_no_committed_one_is_hidden(tmp_path):
    write_record(tmp_path / "data/records", make_record(seed=0, data="digits"))
    write_record(tmp_path / "_build/records", make_record(seed=0, right=10, data="digits"))
    write_record(tmp_path / "_build/records", make_record(seed=1, data="digits"))
    (cell,) = runs.index(tmp_path, runs.cells_of(all_records(tmp_path)), "strong")["cells"]
    assert [(r["seed"], r["score"], "fresh" in r) for r in cell["runs"]] == [(0, 75, False), (1, 75, True)]


def test_text_and_images_are_never_of_one_test(tmp_path):
    records = [make_record(data="digits"), make_text_record("roll", 2.5, 3.0)]
    tests = runs.index(tmp_path, runs.cells_of(records), "text")["tests"]
    assert [(name, test["unit"]) for name, test in tests.items()] == [
        ("digits", "%"),
        ("sympy", "bits per character"),
    ]
    assert tests["sympy"]["parts"] == [64, 512] and len(tests["digits"]["parts"]) == 10


def test_a_records_address_survives_the_percent_signs_of_its_folder():
    record = make_record("multiplexed-roll", options={"speeds": [1, 1]})
    path = record_path("", record)
    assert record_copy(path) == "records/strong/multiplexed-roll@speeds=%5B1%2C1%5D/seed-0.json"
    assert record_link(path).count("%25") == 3


# ---------------------------------------------------------------------------------------------- the numbers


def test_means_and_intervals_are_those_of_the_library(committed, index):
    arms = [
        arm.values() for recipe in ("mini", "quick", "text") for arm in arms_of(committed, recipe).values()
    ]
    samples = [[record.score for record in arm] for arm in arms]
    samples += [[3.5], [2.0, 2.0, 2.0], [0.1, 0.2]]
    for sample, found in zip(
        samples, called("numbers.js", [["summarize", [s, index["quantiles"]]] for s in samples]), strict=True
    ):
        expected = summarize(sample)
        assert found["n"] == expected.n
        for key in ("mean", "sd", "low", "high"):
            value = getattr(expected, key)
            assert found[key] is value is None or found[key] == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_a_band_holds_all_runs_and_leaves_out_epochs_that_were_not_scored():
    (made,) = called("numbers.js", [["band", [[[1, None, 6], [3, None, 6]]]]])
    assert made == [
        {"epoch": 1, "mean": 2, "low": 1, "high": 3},
        {"epoch": 3, "mean": 6, "low": 6, "high": 6},
    ]


def test_the_address_keeps_a_view():
    view = {
        "recipe": "quick@patch_size=1,qkv_bias=false",
        "encoding": "learned+axial-rope",
        "options": "",
        "seed": "0",
        "sort": "-score",
        "chosen": {"quick/multiplexed-roll@speeds=[1,1]": [0, 12], "mini/roll": [3]},
    }
    (text,) = called("address.js", [["write", [view]]])
    assert "run=mini/roll:3" in text
    empty = {key: "" for key in view} | {"chosen": {}}
    addresses = (text, f"{text}&by=runs&share=phi", "run=none", "how-to-read-it")
    found = called("address.js", [["read", [address]] for address in addresses])
    assert found == [view, view, empty, None], "keys of older pages mean nothing"


# ------------------------------------------------------------------------------------- the page, in a browser


def drawn(page) -> None:
    """Wait until the drawings are those of the runs chosen last."""
    page.locator(".runs-results:not([aria-busy]) > *").first.wait_for()


def rows(page) -> list[list[str]]:
    found = page.locator(".runs-stage > .runs-scroll tbody tr")
    return found.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")


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
    everything = len(all_records(ROOT))
    number = sum(map(len, arms.values()))
    said = page.locator(".runs-stage > output").inner_text()
    assert said == f"{number} of {everything} runs shown, {number} chosen" and len(rows(page)) == number
    assert page.locator(".runs-chart svg[role=img]").count() == 3
    assert not page.locator("table.runs").is_visible() and page.errors == []


@pytest.mark.browser
def test_filters_and_heads_decide_which_rows_show_and_the_csv_has_the_same(open_runs, tmp_path):
    page = open_runs()
    page.locator("select[name=recipe]").select_option("quick")
    page.locator("select[name=encoding]").select_option("roll")
    page.locator("select[name=options]").select_option("width=7")
    expected = [r for r in all_records(ROOT) if (r.recipe, r.run_id.slug) == ("quick", "roll@width=7")]
    assert len(rows(page)) == len(expected) > 1
    page.locator("select[name=options]").select_option("")
    result = page.get_by_role("button", name="Result")
    for direction, sign in (("ascending", 1), ("descending", -1)):
        result.press("Enter")
        assert page.locator("th[aria-sort$=ending]").all_inner_texts() == ["Result"]
        assert page.locator("th[aria-sort$=ending]").get_attribute("aria-sort") == direction
        scores = [sign * float(row[5].split()[0]) for row in rows(page)]
        assert scores == sorted(scores)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    path = tmp_path / "runs.csv"
    download.value.save_as(path)
    with path.open(newline="", encoding="utf8") as file:
        table = list(csv.DictReader(file))
    assert [(line["encoding"], line["options"] or "none", line["seed"]) for line in table] == [
        (row[2], row[3], row[4]) for row in rows(page)
    ]
    scores = {r.run_id.path.as_posix(): r.score for r in all_records(ROOT)}
    for line in table:
        cell = line["record"].removeprefix("records/").removesuffix(".json")
        assert float(line["result"]) == pytest.approx(scores[cell], abs=1e-6)
        assert (HTML / line["record"]).is_file()
    assert page.errors == []


@pytest.mark.browser
def test_two_encodings_chosen_by_keyboard_show_their_results_and_the_address_brings_them_back(open_runs):
    page = open_runs()
    page.get_by_role("button", name="Clear the choice").press("Enter")
    page.get_by_text("No run is chosen").wait_for()
    arms = arms_of(all_records(ROOT), "mini")
    wanted = ("none", "roll")
    for name in wanted:
        for seed in arms[name]:
            page.get_by_role("checkbox", name=f"mini/{name}, seed {seed}", exact=True).press("Space")
    page.get_by_role("heading", name="CIFAR-100").wait_for()
    drawn(page)
    assert set(summary(page)) == set(wanted)
    table = page.locator(".runs-chart").last.locator("table")
    assert table.locator("thead th").all_text_contents() == ["class", "roll", "none"]
    found = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    labels, classes = runs.labels_of("cifar100", ROOT)
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
    assert page.locator(".runs-results").inner_text() == before, "a place on the page is no view"
    assert page.errors == []


@pytest.mark.browser
def test_accuracies_and_bits_are_drawn_apart_within_the_width_of_a_phone(open_runs):
    page = open_runs("run=mini/roll:0.1&run=text/roll:0.1.2&run=quick/roll:0&run=quick/nothing:5", width=390)
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
    page.get_by_role("button", name="Show all", exact=True).click()
    page.get_by_role("button", name=re.compile("Choose the")).click()
    page.get_by_role("heading", name="Offset of two digits").wait_for(timeout=20_000)
    everything = len(all_records(ROOT))
    assert (
        f"{everything} of {everything} runs shown, {everything} chosen"
        in page.locator(".runs-stage").inner_text()
    )
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
def test_without_scripts_and_on_paper_the_table_of_means_stands_there(visit):
    def means_stand(page):
        cells = runs.cells_of(all_records(ROOT))
        assert page.locator("table.runs tbody tr:visible").count() == len(cells)
        assert not page.locator(".runs-stage").is_visible()

    means_stand(visit("runs.html", java_script_enabled=False))
    page = visit("runs.html")
    drawn(page)
    page.emulate_media(media="print")
    means_stand(page)


@pytest.mark.browser
def test_every_link_to_a_record_leads_to_its_copy(visit):
    page = visit("runs.html")
    drawn(page)
    page.get_by_role("button", name="Show all", exact=True).click()
    links = page.locator(".runs-stage > .runs-scroll a").evaluate_all("all => all.map(a => a.href)")
    assert len(links) == len(all_records(ROOT))
    assert all(Path(unquote(urlsplit(link).path)).is_file() for link in links)
