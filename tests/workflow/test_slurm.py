"""A plan trained by Snakemake through a real SLURM of one node, whatever happens to its jobs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from rollpe_lab.records import read_records
from rollpe_lab.training import load_plan
from rollpe_lab.training.checkpoint import checkpoint_path
from rollpe_lab.training.sweep import sweep
from shared import ROOT, timeless

PLAN = """\
recipe: smoke
set: {depth: 1, train_images: 128, epochs: 8, resolutions: []}
blocks:
  - encodings: [none, {axial-rope: {wavelengths: [2.0, 16.0]}}]
    seeds: [0, 1]
"""


def until(found, seconds: float = 600.0):
    """What `found` returns as soon as it is something."""
    ends = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < ends
        time.sleep(0.05)
    return result


@pytest.fixture
def cluster(tmp_path):
    """The environment in which SLURM's commands find a cluster of this machine."""
    if os.getuid() or not all(map(shutil.which, ("slurmctld", "slurmd", "sbatch"))):
        pytest.skip("needs SLURM, and root to start it without its service for credentials")
    folder = tmp_path / "slurm"
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir(parents=True)
    configuration = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [server.getsockname()[1] for server in (one, other)]  # free ones
    template = Path(__file__).with_name("slurm.conf").read_text()
    configuration.write_text(template.format(folder=folder, host=host, ports=ports))
    # inside a job Snakemake drops SLURM's variables, as if the cluster had its file in /etc
    wrapper = folder / "bin/srun"
    wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={configuration} exec {shutil.which("srun")} "$@"\n')
    wrapper.chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    environment = os.environ | {"SLURM_CONF": str(configuration), "PATH": path}
    with ExitStack() as stack:
        for command in (["slurmctld", "-D"], ["slurmd", "-D", "-N", host]):
            log = stack.enter_context((folder / f"{command[0]}.log").open("w"))
            command += ["-f", str(configuration)]
            daemon = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
        yield environment


def jobs(environment: dict[str, str], comment: str) -> list[str]:
    """Numbers of the jobs that are under way, by the end of their comment."""
    listed = ["squeue", "--noheader", "--format=%i %k"]
    found = subprocess.run(listed, env=environment, capture_output=True, text=True).stdout.splitlines()
    return [line.split()[0] for line in found if comment in line]


def test_jobs_that_are_cancelled_or_killed_leave_the_records_of_a_local_run(cluster, tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    planned = load_plan(tmp_path / "plan.yaml")
    records = tmp_path / "data/records"
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "workflow/runs.smk")]
    command += ["--profile", str(ROOT / "workflow/profiles/slurm"), "--config", "plan=plan.yaml"]
    command += ["--slurm-init-seconds-before-status-checks", "1"]
    with (tmp_path / "log").open("w") as log:
        driver = subprocess.Popen(command, cwd=tmp_path, env=cluster, stdout=log, stderr=log)
    try:
        # one job as soon as it is there, the other after the first checkpoint; a comment has the encoding
        (cancelled,) = until(lambda: jobs(cluster, "_axial-rope"))
        subprocess.run(["scancel", cancelled], env=cluster, check=True)
        (killed,) = until(lambda: jobs(cluster, "_none"))
        until(checkpoint_path(tmp_path / "checkpoints", planned[0].run_id).exists)
        subprocess.run(["scancel", "--signal=KILL", f"{killed}.0"], env=cluster, check=True)
        assert driver.wait(timeout=600) == 0, (tmp_path / "log").read_text()
    finally:
        driver.terminate()
        driver.wait()
    said = (tmp_path / "log").read_text()
    assert "status is: 'CANCELLED'" in said and "status is: 'FAILED'" in said
    assert "4 of 4 runs have a record" in said
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as many as a job has
    sweep(planned, tmp_path / "local", device="cpu", checkpoints=None, progress=False)
    torch.set_num_threads(threads)
    assert [*map(timeless, read_records(records))] == [*map(timeless, read_records(tmp_path / "local"))]
    files = {path.relative_to(records) for path in records.rglob("*") if path.is_file()}
    assert files == {run.run_id.path.with_suffix(end) for run in planned for end in (".json", ".npz")}
