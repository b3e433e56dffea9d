"""The page on how the library is built has a line for every room, in the order of the layers."""

from __future__ import annotations

import re
import tomllib

from shared import ROOT


def test_the_page_lists_every_room_and_no_other():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    page = (ROOT / "book/architecture.md").read_text()
    rooms = re.findall(r"^\| `(\w+)`", page, re.MULTILINE)
    assert rooms == [room for layer in layers for room in layer.split(" | ")]
    for path in re.findall(r"`([a-z/]+/[\w.]+)`", page.partition("Where to find what:")[2]):
        assert (ROOT / path).exists() or (ROOT / "src/rollpe" / path).exists(), path
