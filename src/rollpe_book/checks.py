"""What the checks of displayed equations found, read from the printed lines of executed chapters."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

NUMBER = r"([-+.\w]+)"
LINE = re.compile(
    rf"^(eq-[a-z0-9-]+): (?:largest error {NUMBER} \(tolerance {NUMBER}\)|differs by {NUMBER} \(at least {NUMBER}\)"
    r"|(holds|does not hold)|definition, (.+))$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Check:
    """The check of one equation: `found` says it in words, with the largest error of all its lines.

    mark: ✓ equal or true, ≠ wrong as printed, – a definition, ✗ failed.
    """

    label: str
    page: str
    mark: str
    found: str

    @property
    def passed(self) -> bool:
        return self.mark != "✗"


def read_lines(printed: str, page: str = "") -> dict[str, Check]:
    """The checks in what a chapter printed, by label."""
    lines: dict[str, list[re.Match]] = {}
    for line in LINE.finditer(printed):
        lines.setdefault(line[1], []).append(line)
    return {label: _summary(label, page, found) for label, found in lines.items()}


def _summary(label: str, page: str, lines: list[re.Match]) -> Check:
    errors = [(float(line[2]), float(line[3])) for line in lines if line[2]]
    differences = [(float(line[4]), float(line[5])) for line in lines if line[4]]
    said = [line[6] for line in lines if line[6]]
    parts = []
    if errors:
        error, tolerance = max(errors)
        parts.append("exact" if error == 0 else f"largest error {error:.1e} (tolerance {tolerance:.0e})")
    if differences:
        parts.append(f"differs by {min(differences)[0]:.1e}")
    failed = (
        any(not error <= tolerance for error, tolerance in errors)
        or any(not least <= error for error, least in differences)
        or "does not hold" in said
    )
    if said:
        parts.append("does not hold" if failed else "holds")
    parts += [f"a definition: {line[7]}" for line in lines if line[7]]
    mark = "✗" if failed else "✓" if errors or said else "≠" if differences else "–"
    return Check(label, page, mark, ", ".join(parts))


def checks(root: Path) -> dict[str, Check]:
    """The checks of all executed chapters in book/executed, by label; {} if none was executed."""
    found: dict[str, Check] = {}
    for path in sorted((root / "book/executed").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        printed = "".join("".join(output.get("text", "")) for output in outputs)
        found |= read_lines(printed, path.stem)
    return found
