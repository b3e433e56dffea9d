"""The three places that name versions agree: pyproject.toml, requirements.lock, environment.yml."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from python import python

from shared import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GROUPS = (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
DIRECT = {canonicalize_name(r.name): r for r in map(Requirement, chain(*GROUPS)) if r.name != "rollpe"}


def locked_versions(python: str) -> dict[str, str]:
    """Canonical name → version in the lock for one version of Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    lock = (ROOT / "requirements.lock").read_text()
    lines = re.findall(r"^([A-Za-z0-9][^\\\n]*==[^\\\n]*?) *\\?$", lock, re.MULTILINE)
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in map(Requirement, lines)
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_lock_holds_every_direct_dependency_at_an_allowed_version(python):
    versions = locked_versions(python)
    for name, requirement in DIRECT.items():
        assert name in versions, f"{name} is not in requirements.lock: run make lock"
        assert requirement.specifier.contains(versions[name]), f"{requirement} against {versions[name]}"


def test_conda_users_get_the_locked_versions():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (python,) = (d for d in environment["dependencies"] if str(d).startswith("python="))
    (pip,) = (d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    versions = locked_versions(python.removeprefix("python="))
    assert pip == [f"{name}=={versions[name]}" for name in sorted(DIRECT)], "run make lock"


def stopped(folder: Path, before: str = "", **environment: str) -> str:
    """The one line with which the installer stops in a copy of the project, after some Python before it."""
    (folder / "workflow").mkdir(exist_ok=True)
    for name in ("workflow/install.py", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    code = f"import runpy, sys; {before}\nrunpy.run_path('workflow/install.py', run_name='__main__')"
    environment |= {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    result = python("-c", code, status=2, cwd=folder, env=environment)
    assert result.stderr.count("\n") == 1, result.stderr
    assert not (folder / ".venv/.installed").exists()
    return result.stderr


def test_an_old_python_is_told_so(tmp_path):
    said = stopped(tmp_path, "sys.version_info = (3, 9, 18, 'final', 0)")
    assert "3.9" in said and "3.11" in said


def test_without_a_network_the_installation_stops(tmp_path):
    """The package index is a closed port."""
    said = stopped(
        tmp_path,
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_RETRIES="0",
        PIP_CONFIG_FILE="/dev/null",
        PIP_NO_CACHE_DIR="1",
    )
    assert "check the network" in said


def test_a_python_without_venv_is_told_what_to_install_and_can_try_again(tmp_path):
    """Debian leaves half an environment and a hint in the middle of its words."""
    without = tmp_path / "python3"
    without.write_text(
        "#!/bin/sh\nmkdir -p .venv/bin\n"
        "echo 'The virtual environment was not created successfully because ensurepip is not available.'\n"
        "echo 'Failing command: /usr/bin/python3 -m ensurepip'\nexit 1\n"
    )
    without.chmod(0o755)
    for _ in range(2):
        assert "python3-venv" in stopped(tmp_path, f"sys.executable = {str(without)!r}")


@pytest.mark.skipif(not (shutil.which("cc") and Path("/proc").is_dir()), reason="needs Linux and a compiler")
@pytest.mark.parametrize(("vendor", "answers"), [("AuthenticAMD", True), ("GenuineIntel", False)])
def test_every_python_of_the_environment_tells_mkl_to_take_its_fast_kernels_on_amd(tmp_path, vendor, answers):
    python("-m", "venv", "--without-pip", tmp_path / ".venv")
    script = (ROOT / "workflow/install.py").read_text()
    own = str(tmp_path / ".venv/bin/python")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"vendor_id : {vendor}\n")
    namespace = {"__name__": "install", "__file__": str(tmp_path / "w/install.py")}
    exec(script.replace("/proc/cpuinfo", str(cpuinfo)), namespace)
    namespace["speed_up_amd"](own)
    asked = "import ctypes; print(hasattr(ctypes.CDLL(None), 'mkl_serv_intel_cpu_true'))"
    found = subprocess.run([own, "-c", asked], capture_output=True, text=True, check=True)
    assert (found.stdout.strip(), found.stderr) == (str(answers), "")
