"""The forms for reporting and adding are well-formed, and what they name exists."""

from __future__ import annotations

import re

import pytest
import yaml

from shared import ROOT

FORMS = sorted(p for p in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if p.stem != "config")
REQUEST = ROOT / ".github/PULL_REQUEST_TEMPLATE.md"


def words(value) -> str:
    """All texts of a form, one below the other."""
    if isinstance(value, dict):
        return "\n".join(map(words, value.values()))
    return "\n".join(map(words, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_the_format_asks_for(path):
    form = yaml.safe_load(path.read_text())
    assert form.keys() >= {"name", "description", "body"}
    kinds = {"input", "textarea", "dropdown", "checkboxes"}
    assert all(field["type"] in kinds and field["attributes"]["label"] for field in form["body"])
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
    required = [
        field
        for field in form["body"]
        if field.get("validations", {}).get("required")
        or any(
            option.get("required")
            for option in field["attributes"].get("options", [])
            if isinstance(option, dict)
        )
    ]
    assert required, "a form that asks for nothing is an empty page"


def test_there_is_a_form_for_errors_reproduction_and_additions():
    assert {path.stem for path in FORMS} == {"addition", "error", "reproduction"}


@pytest.mark.parametrize("path", [*FORMS, REQUEST], ids=lambda path: path.stem)
def test_commands_and_places_that_are_named_exist(path):
    from rollpe.cli import VERBS

    text = path.read_text() if path.suffix == ".md" else words(yaml.safe_load(path.read_text()))
    assert set(re.findall(r"\brollpe ([a-z]+)", text)) <= set(VERBS)
    rules = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= set(rules)
    for place in re.findall(r"\b(?:notebooks|plans|book)/[\w./-]*\w|\b[A-Z]+\.md", text):
        assert (ROOT / place).exists(), place
