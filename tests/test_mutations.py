"""Some of the mutants of `make mutants` with every change; and its counts, as the book shows them."""

import csv
import os
import subprocess
import sys

from mutants import COLUMNS, COUNTS, JUDGES
from shared import ROOT

FORMULAS = ("rollpe.operators", "rollpe.textbook")


def test_a_test_fails_for_every_fault_of_a_formula_that_changes_a_result():
    """Every fortieth fault of the two modules that hold the mathematics."""
    command = [sys.executable, "tests/mutants.py", "--every", "40", *FORMULAS]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    *survivors, operators, textbook = csv.reader(result.stdout.splitlines())
    assert survivors == []
    for _, faults, noticed, equivalent, missed in (operators, textbook):
        assert int(faults) >= 10 and int(noticed) + int(equivalent) == int(faults) and missed == "0"


def test_the_counts_of_the_book_add_up_and_no_formula_has_a_survivor():
    with COUNTS.open(encoding="utf8") as file:
        rows = list(csv.DictReader(file))
    modules = [row["module"] for row in rows]
    assert modules == [module for module in JUDGES if module in modules]
    assert {row["missed"] for row in rows if row["module"] in FORMULAS} <= {"0"}
    for row in rows:
        faults, noticed, equivalent, missed = (int(row[column]) for column in COLUMNS)
        assert faults == noticed + equivalent + missed and noticed > 0
