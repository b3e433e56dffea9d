"""The page on how the code is built has a line for every room, in the order of the layers."""

from __future__ import annotations

import re
import tomllib

from shared import ROOT


def test_the_page_lists_every_room_of_each_package_and_no_other():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {c["containers"][0]: c["layers"] for c in contracts if "containers" in c}
    page = (ROOT / "book/architecture.md").read_text()
    sections = re.findall(r"^## [^\n]*`(\w+)`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    rooms = {package: re.findall(r"^\| `(\w+)`", text, re.MULTILINE) for package, text in sections}
    assert rooms == {name: [r for layer in of for r in layer.split(" | ")] for name, of in layers.items()}


def test_every_path_on_the_page_is_there():
    page = (ROOT / "book/architecture.md").read_text()
    paths = re.findall(r"`([a-z_]+/[\w./-]+)`", page)
    assert len(paths) > 10 and all((ROOT / path).exists() for path in paths)
