"""The worked example of CONTRIBUTING.md is run as it stands there: nothing is copied into this file."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from types import ModuleType

import pytest

from rollpe.encodings import ENCODINGS
from rollpe_lab.records import read_record
from shared import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The namespace after all Python blocks ran in order, in an empty folder; the registries are put back.

    They run in a module of their own.
    """
    assert "kerple" not in ENCODINGS, "choose another example: this one was added"
    folder = tmp_path_factory.mktemp("contributing")
    known = dict(ENCODINGS)
    module = sys.modules["contributing.relative"] = ModuleType("contributing.relative")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in BLOCKS:
            exec(compile(block, "CONTRIBUTING.md", "exec"), vars(module))
    yield vars(module) | {"folder": folder}
    del sys.modules["contributing.relative"]
    ENCODINGS.clear()
    ENCODINGS.update(known)


def test_the_example_passes_every_property_of_the_suite(example):
    """Of tests/encodings/test_properties.py, as it would be with the example in the library."""
    path = ROOT / "tests/encodings/test_properties.py"
    spec = importlib.util.spec_from_file_location("properties_with_the_example", path)
    suite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    done = 0
    for name, function in vars(suite).items():
        marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
        if not name.startswith("test_") or not any(m.args[0] == ("name", "axes") for m in marks):
            continue
        extra = [m for m in marks if m.args[0] != ("name", "axes")]
        settings = [{m.args[0]: value} for m in extra for value in m.args[1]] or [{}]
        cases = [case.values for m in marks for case in m.args[1] if m not in extra]
        for case, setting in itertools.product(cases, settings):
            if case[0] == "kerple":
                function(name=case[0], axes=case[1], **setting)
                done += 1
    assert done > 30, "the suite no longer looks at the example"


def test_a_wrong_penalty_fails_its_check(example, monkeypatch):
    right = example["Kerple"].penalty
    monkeypatch.setattr(example["Kerple"], "penalty", lambda self, distance: 1.01 * right(self, distance))
    (block,) = (block for block in BLOCKS if "eq-kerple" in block)
    with pytest.raises(AssertionError, match="eq-kerple"):
        exec(block, dict(example))


def test_its_run_left_a_record_that_learned_something(example):
    record = example["record"]
    (path,) = (example["folder"] / "_build/records").glob("*/kerple/seed-0.json")
    assert read_record(path) == record
    assert record.history[1].train_loss < record.history[0].train_loss
    assert record.test.accuracy > 0.2, "twice what guessing among ten digits would reach"
