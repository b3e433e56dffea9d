"""README.md says what the records and the command line say."""

from __future__ import annotations

import re

from python import python

from shared import ROOT

README = (ROOT / "README.md").read_text()


def test_the_results_table_shows_the_committed_records():
    python("workflow/readme.py", "--check", cwd=ROOT)


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
