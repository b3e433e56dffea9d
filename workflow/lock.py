"""Lock every dependency: requirements.lock (all platforms, with hashes), environment.yml from it, and
release.lock, the tools that build a release.

Run by ``make lock``, which keeps locked versions and adds what is missing; ``make lock UPGRADE=all`` takes
the newest allowed versions of all packages, ``UPGRADE="timm torch"`` of these.
tests/workflow/test_environment.py compares both files with pyproject.toml.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = "requirements.lock"
CONDA_PYTHON = "3.12"
RELEASE = "workflow/release.lock"
SLOW = ("rfc3987-syntax", "lark")
"""What jsonschema uses only if it is there, to check international addresses: its import, which begins every
chapter and every build of the book, would take three seconds of computing."""
TOOLS = "build>=1.2\nsetuptools>=77\ntwine>=6.1\n"

HEADER = f"""\
# Written by `make lock`: the direct dependencies of pyproject.toml at the versions of {LOCK}.
#   conda env create -f environment.yml && conda activate rollpe && pip install --no-deps -e .
name: rollpe
channels:
  - conda-forge
dependencies:
  - python={CONDA_PYTHON}
  - pip
  - pip:
"""


def compiled(*options: str, tools: str | None = None) -> str:
    """What uv makes of the dependencies of pyproject.toml, all extras included, or of these tools alone."""
    source = ["pyproject.toml", "--all-extras"] if tools is None else ["-"]
    command = [sys.executable, "-m", "uv", "pip", "compile", *source, "--quiet", "--no-emit-index-url"]
    for name in SLOW:
        command += ["--no-emit-package", name]
    command += ["--custom-compile-command", "make lock", *options]
    return subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, input=tools
    ).stdout


def main(upgrade: list[str]) -> None:
    newest = [word for name in upgrade for word in ("--upgrade-package", name)]
    newest = ["--upgrade"] if upgrade == ["all"] else newest
    every = ["--universal", "--python-version", "3.11", "--generate-hashes", "--output-file"]
    compiled(*every, LOCK, *newest)
    compiled(*every, RELEASE, *newest, tools=TOOLS)
    direct = ["--no-deps", "--python-version", CONDA_PYTHON, "--constraints", LOCK]
    pinned = compiled(*direct, "--no-header", "--no-annotate").splitlines()
    (ROOT / "environment.yml").write_text(HEADER + "".join(f"      - {line}\n" for line in pinned))


if __name__ == "__main__":
    main(sys.argv[1:])
