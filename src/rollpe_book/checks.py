"""What the checks of displayed equations found, read from the printed lines of executed chapters."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

NUMBER = r"([-+.\w]+)"
LINE = re.compile(
    rf"^(eq-[a-z0-9-]+): (?:largest error {NUMBER} \(tolerance {NUMBER}\)"
    rf"|differs by {NUMBER} \(at least {NUMBER}\)"
    r"|(holds|does not hold)|definition, (.+))$",
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
    errors = [(float(line[2]), float(line[3])) for line in lines if line[2]]
    differences = [(float(line[4]), float(line[5])) for line in lines if line[4]]
    said = {line[6] for line in lines if line[6]}
    failed = (
        any(not error <= tolerance for error, tolerance in errors)
        or any(not least <= error < math.inf for error, least in differences)
        or "does not hold" in said
    )
    found = [
        f"largest error {error:.1e} (tolerance {tolerance:.0e})" for error, tolerance in sorted(errors)[-1:]
    ]
    found += [f"differs by {difference:.1e}" for difference, _ in sorted(differences)[:1]]
    found += sorted(said)[:1] + [f"a definition: {line[7]}" for line in lines if line[7]]
    wrong_as_printed = differences and (label.endswith("-printed") or not (errors or said))
    mark = "✗" if failed else "≠" if wrong_as_printed else "✓" if errors or said else "–"
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
