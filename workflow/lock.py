"""Lock every dependency: requirements.lock (all platforms, with hashes) and environment.yml from it.

Run by ``make lock``, which keeps locked versions and adds what is missing; ``make lock UPGRADE=all`` takes
the newest allowed versions of all packages, ``UPGRADE="timm torch"`` of these. requirements.lock names the
digest of the dependencies that it was made for; tests/workflow/test_environment.py compares both files with
pyproject.toml.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from hashlib import sha256
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
LOCK = ROOT / "requirements.lock"
ENVIRONMENT = ROOT / "environment.yml"
CONDA_PYTHON = "3.12"
MADE_FOR = "# for the dependencies of pyproject.toml with SHA-256 "

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


def dependency_groups(pyproject: Path = PYPROJECT) -> dict[str, list[str]]:
    """What pyproject.toml asks for: by extra, beside "" (always) and "python" (its versions)."""
    project = tomllib.loads(pyproject.read_text())["project"]
    groups = {"": project["dependencies"], "python": [project["requires-python"]]}
    return groups | project["optional-dependencies"]


def digest(pyproject: Path = PYPROJECT) -> str:
    """SHA-256 of the dependencies, without regard to their order."""
    groups = {name: sorted(group) for name, group in dependency_groups(pyproject).items()}
    return sha256(json.dumps(groups, sort_keys=True).encode()).hexdigest()


def locked_digest() -> str:
    """The digest of the dependencies that the lock was made for; "" if it names none."""
    found = re.search(rf"^{re.escape(MADE_FOR)}(\w+)$", LOCK.read_text(), flags=re.MULTILINE)
    return found[1] if found else ""


def direct_dependencies() -> list[Requirement]:
    """What pyproject.toml asks for itself, all extras included, sorted by name; not its own extras."""
    groups = [group for name, group in dependency_groups().items() if name != "python"]
    requirements = {canonicalize_name(r.name): r for r in map(Requirement, chain(*groups))}
    return [requirements[name] for name in sorted(requirements.keys() - {"rollpe"})]


def locked_versions(python: str = CONDA_PYTHON) -> dict[str, str]:
    """Canonical name → version in the lock for one version of Python."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
    }
    versions = {}
    for line in re.findall(r"^[A-Za-z0-9][^\\\n]*==[^\\\n]*", LOCK.read_text(), flags=re.MULTILINE):
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


def upgrade_options(names: list[str]) -> list[str]:
    """uv's options for ``UPGRADE=``."""
    if names == ["all"]:
        return ["--upgrade"]
    return [word for name in names for word in ("--upgrade-package", name)]


def main() -> None:
    command = [sys.executable, "-m", "uv", "pip", "compile", PYPROJECT.name, "--all-extras", "--universal"]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--quiet"]
    command += ["--custom-compile-command", "make lock", "--output-file", LOCK.name]
    subprocess.run(command + upgrade_options(sys.argv[1:]), cwd=ROOT, check=True)
    LOCK.write_text(f"{MADE_FOR}{digest()}\n" + LOCK.read_text())
    ENVIRONMENT.write_text(environment_text())


if __name__ == "__main__":
    main()
