"""The page of all runs: its table and its CSV against the records, its use in a browser."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from built_book import HTML, ROOT

from rollpe_book.extension import runs
from rollpe_book.extension.site import all_records, record_copy, record_link
from rollpe_lab.evidence.comparisons import later_cells
from rollpe_lab.records import record_path, write_record
from rollpe_lab.statistics import summarize
from shared import make_record


def test_runs_of_the_build_are_marked_and_no_committed_one_is_hidden(tmp_path):
    write_record(tmp_path / "data/records", make_record(seed=0, right=150))
    write_record(tmp_path / "_build/records", make_record(seed=0, right=10))
    write_record(tmp_path / "_build/records", make_record(seed=1, right=150))
    (tmp_path / "plans").mkdir()
    lines = [
        dict(zip(runs.CSV_COLUMNS, line, strict=True))
        for line in runs.lines_of(runs.cells_of(tmp_path), tmp_path)
    ]
    assert [(line["seed"], line["remark"]) for line in lines] == [(0, ""), (1, "this build")]
    assert lines[0]["result"] == lines[1]["result"]


def test_a_records_address_survives_the_percent_signs_of_its_folder():
    record = make_record("multiplexed-roll", options={"speeds": [1, 1]})
    path = record_path("", record)
    assert record_copy(path) == "records/strong/multiplexed-roll@speeds=%5B1%2C1%5D.json"
    assert record_link(path).count("%25") == 3


def rows(page) -> list[list[str]]:
    """The rows that show."""
    return page.locator("table.runs tbody tr:visible").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )


@pytest.mark.browser
def test_the_table_has_every_cell_with_its_mean_also_without_scripts(visit):
    page = visit("runs.html", java_script_enabled=False)
    cells = runs.cells_of(ROOT)
    assert [f"{recipe}/{encoding}" for recipe, encoding, *_ in rows(page)] == list(cells)
    for (*_, mean, sd, interval, n), records in zip(rows(page), cells.values(), strict=True):
        s, digits = summarize([r.score for r in records]), 3 if records[0].bits else 2
        assert mean == f"{s.mean:.{digits}f}" + " bits" * bool(records[0].bits)
        assert int(n) == len(records)
        assert sd == ("–" if s.n == 1 else f"{s.sd:.{digits}f}")
        assert interval == ("–" if s.n < 3 else f"{s.low:.{digits}f} to {s.high:.{digits}f}")
    target = page.locator("table.runs tbody a").first.get_attribute("href")
    first = json.loads((HTML / unquote(target)).read_text(encoding="utf8"))
    assert [run["seed"] for run in first] == [r.seed for r in next(iter(cells.values()))]


@pytest.mark.browser
def test_a_reader_finds_runs_by_words_and_sorts_them_by_keyboard(visit):
    page = visit("runs.html")
    page.locator(".datatable-input").fill("mini roll")
    found = rows(page)
    assert found and all("mini" in row[0] and "roll" in row[1] for row in found)
    page.get_by_role("button", name="result").press("Enter")
    page.wait_for_function("document.querySelector('th[aria-sort=ascending]')")
    results = [float(row[2].split()[0]) for row in rows(page)]
    assert results == sorted(results) and len(results) == len(found)


@pytest.mark.browser
def test_the_csv_has_every_run_with_a_record_that_is_there(visit):
    page = visit("runs.html")
    path = Path(unquote(urlsplit(page.get_by_text("All runs as CSV").evaluate("a => a.href")).path))
    with path.open(newline="", encoding="utf8") as file:
        table = {(line["record"], int(line["seed"])): line for line in csv.DictReader(file)}
    records, later = all_records(ROOT), later_cells(ROOT / "plans")
    assert len(table) == len(records)
    for r in records:
        line = table[record_copy(record_path("", r)), r.seed]
        assert float(line["result"]) == pytest.approx(r.score, abs=1e-6)
        assert ("exploratory" in line["remark"]) == (r.run_id.path in later)
        assert (HTML / line["record"]).is_file()
