"""The forms for reporting and adding are well-formed, and what they and CONTRIBUTING.md name exists."""

from __future__ import annotations

import re

import pytest
import yaml

from rollpe.cli import VERBS
from shared import ROOT

FORMS = sorted(p for p in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if p.stem != "config")
PAGES = [*FORMS, ROOT / ".github/PULL_REQUEST_TEMPLATE.md", ROOT / "CONTRIBUTING.md"]


def test_the_forms_have_what_the_format_asks_for_and_ask_for_something():
    assert [path.stem for path in FORMS] == ["addition", "error", "reproduction"]
    kinds = {"input", "textarea", "dropdown", "checkboxes"}
    for path in FORMS:
        form = yaml.safe_load(path.read_text())
        assert form.keys() >= {"name", "description", "body"}
        assert all(field["type"] in kinds and field["attributes"]["label"] for field in form["body"])
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids))
        assert "required: true" in path.read_text(), "a form that asks for nothing is an empty page"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_and_places_that_are_named_exist(path):
    text = path.read_text(encoding="utf8")
    code = "\n".join(re.findall(r"^```bash\n[^`]*|`[^`\n]+`|placeholder: .*$", text, re.MULTILINE))
    rules = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\brollpe ([a-z]+)", code)) <= set(VERBS)
    assert set(re.findall(r"\bmake ([a-z-]+)", code)) <= set(rules)
    if path != PAGES[-1]:  # CONTRIBUTING.md also names places for files to come
        for place in re.findall(r"\b(?:notebooks|plans|book)/[\w./-]*\w|\b[A-Z]+\.md", text):
            assert (ROOT / place).exists(), place
