"""No number of a result is typed into the prose of the book.

A number with a decimal point, a percent sign or a ± stands in mathematics or code, in an
assert (a notebook's own, of other pages one in test_sentences.py), or is listed in book/quoted.toml with the
reason why nothing produces it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from shared import ROOT

PAGES = sorted((ROOT / "book").glob("*.md")) + sorted((ROOT / "notebooks").glob("*.py"))
LIST = "book/quoted.toml"
QUOTED = tomllib.loads((ROOT / LIST).read_text(encoding="utf-8"))["number"]

NUMBER = re.compile(
    r"(?<![\w.,/])(?:"
    r"\d[\d,]*(?:\.\d+)?\s?(?:%|percent\b)"  # 95 %, 93.1 percent
    r"|\d[\d,]*\.\d+(?![\w]|\.\d)"  # 0.25, not 1.2.3
    r"|±\s?\d[\d.,]*(?<![.,])"  # ± 0.4
    r")"
)
NOT_PROSE = [
    r"(?ms)^ *(```+|~~~+|:::+)(?:[a-z]+|\{(?:code|math|bibliography)[^}\n]*\}[^\n]*)$.*?^ *\1 *$",  # code
    r"(?s)\$\$.*?\$\$",
    r"(?s)(?<!\\)\$[^$]+?\$",
    r"\{[\w:-]+\}`[^`]*`",  # roles
    r"``.*?``|`[^`\n]*`",
    r"(?s)<!--.*?-->",
    r"\]\([^)]*\)|<https?:[^>]*>",  # addresses
    r"(?m)^[ ]*:(?:name|label|class|width|height|align):.*$",
]


def markdown(path: Path) -> str:
    """The words of a page, each line in its place; of a notebook also captions and alternative texts."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    lines, prose = [], False
    for line in text.splitlines():
        if line.startswith("# %%"):
            prose = "[markdown]" in line
            seen = re.findall(r'"(?:caption|alt)": "((?:[^"\\]|\\.)*)"', line)
            lines.append(" ".join(seen))
        else:
            lines.append(re.sub("^# ?", "", line) if prose else "")
    return "\n".join(lines)


def typed(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every number that somebody typed, of the kinds that results have."""
    for pattern in NOT_PROSE:
        text = re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
    for match in NUMBER.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, re.sub(r"\s", " ", match.group(0))


def asserted(path: Path) -> set[str]:
    """The numbers in cells with asserts, or in the tests of pages that have no cells."""
    cells = [(ROOT / "tests/book/test_sentences.py").read_text(encoding="utf-8")]
    if path.suffix == ".py":
        cells = [cell for cell in path.read_text(encoding="utf-8").split("# %%") if "\nassert " in cell]
    return set(re.findall(r"\d+(?:\.\d+)?", "".join(cells)))


def listed(name: str) -> set[str]:
    return {number for entry in QUOTED if fnmatch(name, entry["file"]) for number in entry["numbers"]}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_number_in_the_prose_is_produced_or_listed(path):
    known, numbers = listed(path.name), asserted(path)
    left = [(line, n) for line, n in typed(markdown(path)) if n not in known]
    found = [(line, n) for line, n in left if n.strip("± %") not in numbers]
    where = path.relative_to(ROOT)
    complaint = "\n".join(f"{where}:{line}: {number} is typed by hand" for line, number in found)
    assert not found, (
        f"{complaint}\nA result stands in an assert beside it, or comes from a cell's output; "
        f"anything else goes into math, code, or {LIST} with its kind and reason."
    )
