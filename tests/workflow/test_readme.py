"""README.md says what the records say."""

from __future__ import annotations

import re

from shared import ROOT, workflow_script

README = (ROOT / "README.md").read_text()


def test_the_results_table_shows_the_committed_records():
    assert workflow_script("readme").updated(README) == README, "run make readme"


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
