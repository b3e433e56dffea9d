"""README.md says what the records and the command line say."""

from __future__ import annotations

import re

from python import python

from rollpe_lab.records import Record, read_record
from shared import ROOT, workflow_script

README = (ROOT / "README.md").read_text()


def test_the_results_table_shows_the_committed_records():
    python("workflow/readme.py", "--check", cwd=ROOT)


def planted(recipe: str, epochs: int) -> Record:
    """A committed record as if it were of another recipe."""
    record = read_record(next((ROOT / "data/records/mini/roll").glob("seed-*.json")))
    config = record.config | {"name": recipe, "epochs": epochs}
    return record.model_copy(update={"recipe": recipe, "config": config})


def test_the_first_table_is_of_the_first_recipe_of_the_papers_model_that_has_runs():
    readme = workflow_script("readme")
    for recipe, epochs in (("short", 50), ("strong", 100)):
        title = f"ViT-S/4 on CIFAR-100, {epochs} epochs (recipe `{recipe}`):"
        first = readme.tables([planted(recipe, epochs)]).strip().split("\n\n")
        assert first[0] == title
        assert re.search(r"^\| `roll` \| [\d.]+ \| – \| 1 \| 72.1 ± 0.1 \|$", first[1], re.MULTILINE)
    assert readme.tables([]).strip().startswith(f"{title} not run yet.")


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
