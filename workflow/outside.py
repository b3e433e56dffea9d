"""Run every recipe of book/use.md in a project of its own, with the wheel in a fresh environment.

Recipes that need torch alone run first, where nothing else is installed, then those that need other packages.
Each is a process of its own, in a temporary folder outside of the repository. Prints a line for each; exit
status 1 if one fails. Needs a package index and some gigabytes in the temporary folder:

    python workflow/outside.py
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "book/use.md"


class Recipe(NamedTuple):
    """A section of the page: its title, the packages beside torch that the page's table names, its code."""

    title: str
    needs: tuple[str, ...]
    code: str


def recipes(page: str) -> list[Recipe]:
    """The recipes in the order of the page; KeyError for a section that the table does not list."""
    rows = re.findall(r"^\| \[(.+?)\]\(.*?\) \|(.*?)\|$", page, re.MULTILINE)
    needs = {title: tuple(re.findall(r"[\w-]+", names)) for title, names in rows}
    sections = re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    code = r"^```python\n(.*?)^```$"
    return [
        Recipe(title, needs[title], block)
        for title, text in sections
        for block in re.findall(code, text, re.MULTILINE | re.DOTALL)
    ]


def build(folder: Path, isolated: bool = True) -> Path:
    """Build the wheel into a folder, from a copy of the sources; an old build/ would add removed files."""
    sources = folder / "sources"
    sources.mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, sources)
    shutil.copytree(ROOT / "src", sources / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    words += [] if isolated else ["--no-build-isolation"]
    subprocess.run([*words, str(sources)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="outside-") as name:
        folder = Path(name)
        wheel = build(folder / "wheel")
        page = Path(shutil.copy(PAGE, folder)).read_text(encoding="utf8")
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv/bin/python"
        install = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        failed = 0
        for recipe in sorted(recipes(page), key=lambda recipe: bool(recipe.needs)):
            subprocess.run([*install, wheel, *recipe.needs], check=True)
            start = time.monotonic()
            done = subprocess.run([python, "-I", "-c", recipe.code], cwd=folder)
            verdict = "FAILED" if done.returncode else "ok"
            print(f"{verdict:6} {time.monotonic() - start:5.1f} s  {recipe.title}", flush=True)
            failed += verdict == "FAILED"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
