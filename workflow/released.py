"""Refuse a tag that the sources do not belong to: ``python workflow/released.py v0.1.0``.

The version is written in src/rollpe/__init__.py, and a release says so in three more files; the release
workflow runs this before it builds. Standard library only.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def complaints(tag: str, root: Path = ROOT) -> list[str]:
    """What does not fit to the tag, a line each; empty for a release."""

    def missing(file: str, pattern: str) -> bool:
        return not re.search(pattern, (root / file).read_text(encoding="utf-8"), flags=re.MULTILINE)

    version = re.escape(tag.removeprefix("v"))
    wanted = {
        "src/rollpe/__init__.py": rf'^__version__ = "{version}"$',
        "CHANGELOG.md": rf"^## \[{version}\] - \d{{4}}-\d\d-\d\d$",
        "CITATION.cff": rf"^version: {version}\n(.*\n)*date-released: ",
        "_config.yml": rf'^ +release: "{version}"$',
    }
    return [f"{file} is not of {tag}: it lacks {w}" for file, w in wanted.items() if missing(file, w)]


if __name__ == "__main__":
    sys.exit("\n".join(complaints(sys.argv[1])))
