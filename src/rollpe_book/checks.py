"""What the checks of displayed equations found, read from the printed lines of executed chapters."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

LINE = re.compile(  # label, what is said, of a number its kind and the number, and whether it failed
    r"^(eq-[a-z0-9-]+): ((largest error|differs by) (\S+) \(.*?\)|holds|does not hold|definition, .+?)"
    r"(, FAILED)?$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Check:
    """The check of one equation: what all its lines `found`, in words.

    mark: ✓ it holds, ≠ wrong as printed, – a definition, ✗ failed.
    """

    label: str
    page: str
    mark: str
    found: str

    @property
    def passed(self) -> bool:
        return self.mark != "✗"


def pages_of_equations(root: Path) -> dict[str, str]:
    """The chapter that displays each equation: ``{"eq-roll": "04-rolling", …}``, in the order of the book."""
    chapters = sorted((root / "notebooks").glob("*.py"))
    shown = [(path.stem, re.findall(r"(?m)^# \$\$ \((\S+)\)$", path.read_text("utf-8"))) for path in chapters]
    return {label: page for page, labels in shown for label in labels}


def read_lines(printed: str, page: str = "") -> dict[str, Check]:
    """The checks in what a chapter printed, by label."""
    lines: dict[str, list[re.Match]] = {}
    for line in LINE.finditer(printed):
        lines.setdefault(line[1], []).append(line)
    return {label: _summary(label, page, found) for label, found in lines.items()}


def _summary(label: str, page: str, lines: list[re.Match]) -> Check:
    errors = sorted((float(line[4]), line[2]) for line in lines if line[3] == "largest error")
    differences = sorted((float(line[4]), line[2]) for line in lines if line[3] == "differs by")
    said = [line[2] for line in lines if not line[3]]
    found = dict.fromkeys([text for _, text in errors[-1:] + differences[:1]] + said)
    wrong_as_printed = differences and (label.endswith("-printed") or not (errors or said))
    checked = errors or "holds" in said
    failed = any(line[5] for line in lines)
    mark = "✗" if failed else "≠" if wrong_as_printed else "✓" if checked else "–"
    return Check(label, page, mark, ", ".join(found))


def read_notebook(path: Path) -> dict[str, Check]:
    """The checks that an executed notebook printed."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return read_lines("".join("".join(output.get("text", "")) for output in outputs), path.stem)


def read_checks(root: Path) -> dict[str, Check]:
    """The checks of all executed chapters in book/executed, by label; {} if none was executed."""
    found: dict[str, Check] = {}
    for path in sorted((root / "book/executed").glob("*.ipynb")):
        found |= read_notebook(path)
    return found
