"""Which chapter displays which equation, read from the sources of the chapters."""

import re
from functools import cache
from pathlib import Path

from rollpe_lab.sources import SRC


@cache
def pages_of_equations(root: Path = SRC.parent) -> dict[str, str]:
    """The chapter that displays each labeled equation: ``{"eq-roll": "04-rolling"}``."""
    labels = re.compile(r"^# \$\$ \((\S+)\)$", re.MULTILINE)
    chapters = sorted((root / "notebooks").glob("*.py"))
    return {label: path.stem for path in chapters for label in labels.findall(path.read_text("utf8"))}
