"""What runs again and what does not, whatever the dates: Snakemake on a small project with two notebooks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from python import python

from shared import ROOT

FIRST, SECOND = "book/executed/01-first.ipynb", "book/executed/02-second.ipynb"


def snakemake(root: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess:
    command = ["-m", "snakemake", "--snakefile", "workflow/Snakefile", "--profile", "workflow/profiles/local"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return python(*command, *arguments, status=status, cwd=root, env=environment)


def planned(root: Path) -> set[str]:
    """The notebooks that a dry run would run."""
    done = snakemake(root, "--dry-run", FIRST, SECOND)
    return set(re.findall(r"Running notebooks/([\w-]+)\.py", done.stdout + done.stderr))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Two notebooks that were run: the first imports rollpe.errors, the second follows it and reads data."""
    root = tmp_path_factory.mktemp("workflow") / "project"
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(ROOT / "workflow", root / "workflow")
    for folder in ("notebooks", "book", "data/records"):
        (root / folder).mkdir(parents=True)
    (root / "data/records/one.json").write_text("1")
    for name in ("_config.yml", "pyproject.toml", "requirements.lock"):
        (root / name).touch()
    (root / "notebooks/01-first.py").write_text("# %%\nimport rollpe.errors\n\nprint(rollpe)\n")
    header = "# ---\n# jupyter:\n#   rollpe:\n#     after: [01-first]\n#     reads: [data/records]\n# ---\n\n"
    (root / "notebooks/02-second.py").write_text(header + "# %%\nprint(2)\n")
    snakemake(root, FIRST, SECOND)
    assert planned(root) == set()
    return root


@pytest.fixture
def change(project):
    """Write into a file of the project, with an older date than any other, and put it back afterwards."""
    before: dict[Path, str] = {}

    def write(name: str, more: str) -> None:
        path = project / name
        before[path] = path.read_text()
        path.write_text(before[path] + more)
        os.utime(path, (1e9, 1e9))

    yield write
    for path, text in before.items():
        path.write_text(text)


def test_new_dates_and_unfinished_files_of_others_run_nothing(project):
    for name in ("notebooks/01-first.py", "src/rollpe/errors.py", "requirements.lock", FIRST):
        (project / name).touch()
    (project / "data/records/.locks").mkdir()
    for name in (".two.json.1.tmp", ".locks/one"):
        (project / "data/records" / name).touch()
    assert planned(project) == set()


@pytest.mark.parametrize(
    ("name", "more", "runs"),
    [
        ("notebooks/02-second.py", "print(3)\n", {"02-second"}),
        ("notebooks/01-first.py", "print(3)\n", {"01-first", "02-second"}),
        ("src/rollpe/ring.py", "A = 1\n", set()),
        ("src/rollpe/errors.py", "# a comment\n", set()),
        ("src/rollpe/errors.py", "A = 1\n", {"01-first", "02-second"}),
        ("data/records/one.json", "2", {"02-second"}),
    ],
)
def test_what_was_edited_runs_what_follows_it_or_reads_it(project, change, name, more, runs):
    change(name, more)
    assert planned(project) == runs


def test_a_result_that_was_edited_with_an_older_date_never_becomes_a_page(project, change):
    (project / "CITATION.cff").touch()
    (project / "book/_toc.yml").write_text("- executed/01-first\n- executed/02-second\n")
    made = (f"_build/scripts/{name}" for name in ("waves.js", "runs.js", "runs.css"))
    for name in ("book/scripts/package-lock.json", "book/scripts/node_modules/.package-lock.json", *made):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    path = project / SECOND
    change(SECOND, "")
    path.write_text(path.read_text().replace('"2\\n"', '"99.99\\n"'))
    os.utime(path, (1e9, 1e9))
    done = snakemake(project, "_build/html/index.html", status=1)
    assert f"{SECOND}: edited, it is not what its run left" in done.stderr
    assert not (project / "_build/html").exists()


def test_new_data_of_ones_own_run_what_reads_them(project):
    """The last test of the file, since it leaves a chapter that was run with these data."""
    (project / "data/records/two.json").write_text("2")
    done = snakemake(project, FIRST, SECOND)
    assert set(re.findall(r"Running notebooks/([\w-]+)\.py", done.stdout + done.stderr)) == {"02-second"}
