"""The table of encodings shows what trials found, and the trials agree with what the classes claim."""

from __future__ import annotations

import re
from functools import partial

import pytest

from rollpe.encodings import ENCODINGS, create_encoding
from rollpe.vit import create_vit
from rollpe_book.properties import measure
from shared import ROOT

PAGE = (ROOT / "book/encodings.md").read_text()


@pytest.mark.parametrize("name", ENCODINGS)
def test_trials_find_what_the_class_claims(name):
    found, claimed = measure(name), ENCODINGS[name]
    assert (found.relative == "yes") == claimed.relative
    assert found.real_positions == claimed.real_positions
    assert found.cached


@pytest.mark.parametrize(
    "name", [*(name for name in ENCODINGS if name not in ("rope", "xpos")), "learned+roll"]
)
def test_counted_parameters_are_those_of_a_whole_model(name):
    def count(encoding: str) -> int:
        return sum(p.numel() for p in create_vit(encoding, image_size=32, size="small").parameters())

    assert measure(name).parameters == count(name) - count("none")


def test_the_page_has_a_section_for_every_encoding_with_a_call_that_works():
    sections = dict(re.findall(r"^### `([\w-]+)`\n(.*?)(?=^##|\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))
    assert list(sections) == list(ENCODINGS)
    for name, text in sections.items():
        (call,) = re.findall(r"^`(create_\w+\(.*\))`$", text, flags=re.MULTILINE)
        assert f'("{name}"' in call
        eval(call, {"create_vit": partial(create_vit, size="nano"), "create_encoding": create_encoding})


def test_every_example_on_the_page_runs():
    for example in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(example, {})
