"""What is released: torch alone is enough, all files name one version, actions are pinned."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from email.parser import Parser

import pytest
import yaml
from python import python

import rollpe
from shared import ROOT, workflow_script

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = "https://github.com/owner/name"
REFUSE = """\
import sys
from importlib import metadata
from packaging.requirements import Requirement

owners, here, found = metadata.packages_distributions(), set(), ["torch"]
while found:
    here.add(name := found.pop())
    for needed in map(Requirement, metadata.requires(name) or ()):
        used = needed.marker is None or needed.marker.evaluate({"extra": ""})
        found += [needed.name] * (used and needed.name not in here)
here = {name.replace("_", "-").lower() for name in here}
allowed = {top for top, its in owners.items() if here & {name.replace("_", "-").lower() for name in its}}
for name in [name for name in sys.modules if name.partition(".")[0] == "packaging"]:
    del sys.modules[name]

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed | set(sys.stdlib_module_names) | {"rollpe", "rollpe_lab"} and top in owners:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""
"""Refuses every installed package but torch and what torch itself requires."""


def run_refusing(code: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    return python("-W", "ignore", "-c", f"{REFUSE}\n{code}", status=status, cwd=ROOT)


def test_torch_alone_is_enough_for_the_encodings():
    assert "No module named 'numpy'" in run_refusing("import numpy", status=1).stderr
    done = run_refusing("import runpy; runpy.run_path('workflow/smoke.py', run_name='__main__')")
    assert f"rollpe {rollpe.__version__} with torch" in done.stdout


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("from rollpe.cli import main; main(['--help'])", "click"),
        ("owners.pop('click'); from rollpe.cli import main; main(['table'])", r"\w+"),
    ],
)
def test_the_command_without_its_packages_says_in_one_line_what_to_install(code, missing):
    done = run_refusing(code, status=2)
    line = rf'rollpe: {missing} is not installed\. Repair: pip install "rollpe\[train\]"\.\n'
    assert re.fullmatch(line, done.stderr)


# Versions


def test_every_file_names_the_version_of_the_library():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    cited = CITATION["version"], CITATION["preferred-citation"]["version"]
    assert {*cited, config["release"]} == {rollpe.__version__}
    assert rollpe.__version__.startswith(config["version"] + ".")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert CITATION["license"] == project["license"]


def test_a_tag_is_refused_unless_all_files_are_of_its_version(tmp_path):
    released = workflow_script("released")
    for name in ("CHANGELOG.md", "CITATION.cff", "_config.yml", "src/rollpe/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    tag = f"v{rollpe.__version__}"
    with (tmp_path / "CHANGELOG.md").open("a") as file:
        file.write(f"## [{rollpe.__version__}] - 2026-12-01\n")
    with (tmp_path / "CITATION.cff").open("a") as file:
        file.write("date-released: 2026-12-01\n")
    assert released.complaints(tag, tmp_path) == []
    assert len(released.complaints("v99.0.0", tmp_path)) == 4
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")
    assert [line.split()[0] for line in released.complaints(tag, tmp_path)] == ["CHANGELOG.md"]


# Metadata


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("git@github.com:owner/name.git\n", PROJECT),
        ("https://user:token@github.com/owner/name", PROJECT),
        ("ssh://git@gitlab.example.org/a/b/name.git", "https://gitlab.example.org/a/b/name"),
        ("/srv/github.com/owner/name", ""),
        ("https://example.org/owner/name", ""),
        ("", ""),
    ],
)
def test_only_the_remote_of_a_forge_is_published_and_never_a_token(remote, page):
    assert workflow_script("../setup").address(remote) == page


def build(folder, out, kind: str, **address: str):
    """Let setuptools build in ``folder``, as ``python -m build`` does; the path of what it made."""
    out.mkdir()
    code = f"import setuptools.build_meta as b; print(b.{kind}({str(out)!r}))"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    done = python("-W", "ignore", "-c", code, cwd=folder, env=environment | address)
    return out / done.stdout.splitlines()[-1]


@pytest.mark.parametrize("known", [True, False], ids=["address", "no address"])
def test_built_metadata_survives_the_source_distribution(tmp_path, known):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    address = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "owner/name"} if known else {}
    archive = build(source, tmp_path / "sdist", "build_sdist", **address)
    with tarfile.open(archive) as file:
        inside = {name.partition("/src/")[2].partition("/")[0] for name in file.getnames()}
        assert {"rollpe", "rollpe_lab"} <= inside and "rollpe_book" not in inside
        file.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    folder = build(unpacked, tmp_path / "metadata", "prepare_metadata_for_build_wheel")
    text = (folder / "METADATA").read_text(encoding="utf-8")
    assert text == (unpacked / "PKG-INFO").read_text(encoding="utf-8")
    metadata = Parser().parsestr(text)
    assert metadata["Version"] == rollpe.__version__
    always = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert [re.match(r"[\w-]+", line)[0] for line in always] == ["torch"]
    assert (f"Repository, {PROJECT}" in metadata.get_all("Project-URL")) == known


# Workflows


def test_what_builds_a_release_is_installed_by_hashes():
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    installed = re.findall(r"pip install (.*)$", text, re.MULTILINE)
    assert installed == ["--require-hashes -r workflow/release.lock", "dist/*.whl"]
    assert "python -m build --no-isolation" in text
    packages = re.split(r"\n(?=\w)", (ROOT / "workflow/release.lock").read_text().partition("make lock\n")[2])
    assert {"build", "setuptools", "twine"} <= {package.partition("==")[0] for package in packages}
    assert all("==" in package and "--hash=sha256:" in package for package in packages)


def test_actions_are_pinned_by_commit_and_scripts_exist():
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        for used in re.findall(r"uses: (.*)$", text, re.MULTILINE):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), used
        for script in re.findall(r"python (workflow/\S+\.py)", text):
            assert (ROOT / script).exists(), script
