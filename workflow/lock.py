"""Lock every dependency: requirements.lock (all platforms, with hashes) and environment.yml from it.

Run by ``make lock``. The two files then name the same versions; tests/workflow/test_environment.py compares
them with each other and with pyproject.toml.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
ENVIRONMENT = ROOT / "environment.yml"
CONDA_PYTHON = "3.12"

HEADER = """\
# Written by `make lock`: the direct dependencies of pyproject.toml at the versions of requirements.lock.
#   conda env create -f environment.yml && conda activate rollpe && pip install --no-deps -e .
name: rollpe
channels:
  - conda-forge
dependencies:
  - python={python}
  - pip
  - pip:
"""


def direct_dependencies(pyproject: Path = ROOT / "pyproject.toml") -> list[Requirement]:
    """What pyproject.toml asks for itself, all extras included, sorted by name."""
    project = tomllib.loads(pyproject.read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = {canonicalize_name(r.name): r for r in map(Requirement, chain(*groups))}
    return [requirements[name] for name in sorted(requirements)]


def locked_versions(python: str = CONDA_PYTHON, lock: Path = LOCK) -> dict[str, str]:
    """Canonical name → version in the lock for one version of Python."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
    }
    versions = {}
    for line in re.findall(r"^[A-Za-z0-9][^\\\n]*==[^\\\n]*", lock.read_text(), flags=re.MULTILINE):
        requirement = Requirement(line.strip())
        if requirement.marker is None or requirement.marker.evaluate(environment):
            versions[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    return versions


def environment_text() -> str:
    """environment.yml as it should be for the present lock."""
    versions = locked_versions()
    names = [canonicalize_name(requirement.name) for requirement in direct_dependencies()]
    return HEADER.format(python=CONDA_PYTHON) + "".join(
        f"      - {name}=={versions[name]}\n" for name in names
    )


def main() -> None:
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "pyproject.toml",
        "--all-extras",
        "--universal",
    ]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--quiet"]
    command += ["--custom-compile-command", "make lock", "--output-file", LOCK.name]
    subprocess.run(command, cwd=ROOT, check=True)
    ENVIRONMENT.write_text(environment_text())


if __name__ == "__main__":
    main()
