"""Snakemake over a plan: each missing record is one job, and a record is never made again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rollpe_lab.training import load_recipe
from shared import ROOT

SETTINGS = {"max_steps": 1, "depth": 1, "resolutions": []}
FOLDER = load_recipe("smoke", SETTINGS).name


def snakemake(root: Path, profile: str, *arguments: str, plan: str = "plan.yaml"):
    command = ["-m", "snakemake", "--snakefile", "workflow/plan.smk", "--config", f"plan={plan}"]
    command += ["records=kept", "device=cpu", "--profile", f"workflow/profiles/{profile}"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *command, *arguments], cwd=root, capture_output=True, text=True, env=environment
    )
    return done.returncode, done.stdout + done.stderr


def jobs(said: str) -> list[tuple[str, str]]:
    """The cells that a dry run would train, with what each asks of a machine."""
    return sorted(set(re.findall(r"Training [^/]+/(\S+/seed-\d+) \((.*)\)", said)))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A plan of four cells: one was trained by its job, one has failed, two are missing."""
    root = tmp_path_factory.mktemp("plan") / "project"
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(ROOT / "workflow", root / "workflow")
    block = {"encodings": ["none", "roll"], "seeds": [0, 1]}
    (root / "plan.yaml").write_text(yaml.safe_dump({"recipe": "smoke", "set": SETTINGS, "blocks": [block]}))
    code, said = snakemake(root, "local", f"kept/{FOLDER}/roll/seed-0.json")
    assert code == 0 and (root / f"kept/{FOLDER}/roll/seed-0.json").exists(), said
    (root / f"kept/{FOLDER}/roll/seed-1.failed").write_text("{}")
    return root


def test_what_is_missing_and_has_not_failed_is_trained_whatever_the_dates_of_the_sources(project):
    for name in ("src/rollpe_lab/training/run.py", "workflow/plan.smk", "plan.yaml"):
        (project / name).write_text((project / name).read_text() + "\n")
    code, said = snakemake(project, "local", "--dry-run")
    assert code == 0, said
    assert [cell for cell, _ in jobs(said)] == ["none/seed-0", "none/seed-1"]


def test_the_cluster_profile_says_what_a_cell_needs(project):
    code, said = snakemake(project, "slurm", "--dry-run")
    assert code == 0, said
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())
    needs = profile["set-resources"]["train"]
    expected = f"{needs['gpu']} GPU, {needs['mem_mb']} MB, {needs['runtime']} min"
    assert needs["gpu"] == 1
    assert jobs(said) == [("none/seed-0", expected), ("none/seed-1", expected)]


def test_a_missing_plan_is_one_line_without_a_traceback(project):
    code, said = snakemake(project, "local", "--dry-run", plan="plans/none.yaml")
    assert code == 1 and "plans/none.yaml: no such plan" in said
    assert "Traceback" not in said
