"""Lock every dependency: requirements.lock (all platforms, with hashes) and environment.yml from it.

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


def compiled(*options: str) -> str:
    """What uv makes of the dependencies of pyproject.toml, all extras included."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--quiet"]
    command += ["--no-emit-index-url", *options]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(upgrade: list[str]) -> None:
    newest = [word for name in upgrade for word in ("--upgrade-package", name)]
    newest = ["--upgrade"] if upgrade == ["all"] else newest
    every = ["--universal", "--python-version", "3.11", "--generate-hashes", "--output-file", LOCK]
    compiled(*every, "--custom-compile-command", "make lock", *newest)
    direct = ["--no-deps", "--python-version", CONDA_PYTHON, "--constraints", LOCK]
    pinned = compiled(*direct, "--no-header", "--no-annotate").splitlines()
    (ROOT / "environment.yml").write_text(HEADER + "".join(f"      - {line}\n" for line in pinned))


if __name__ == "__main__":
    main(sys.argv[1:])
