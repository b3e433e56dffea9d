"""A plan trained by Snakemake through a real SLURM of one node, whatever happens to its jobs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from rollpe_lab.records import read_records
from rollpe_lab.training import load_plan
from rollpe_lab.training.sweep import sweep
from shared import ROOT, timeless

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")
PLAN = """\
recipe: smoke
set: {max_steps: 3, depth: 1, resolutions: []}
blocks:
  - encodings: [none, {axial-rope: {wavelengths: [2.0, 16.0]}}]
    seeds: [0, 1]
"""
CLUSTER = """\
ClusterName=test
SlurmUser={user}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=sched_interval=2,batch_sched_delay=0
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MinJobAge=600
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=16000
PartitionName=main Nodes={host} Default=YES
"""


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def until(found, seconds: float = 120.0):
    """What `found` returns as soon as it is something."""
    ends = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < ends
        time.sleep(0.05)
    return result


@pytest.fixture
def cluster(tmp_path):
    """The environment in which SLURM's commands find a cluster of this machine."""
    if absent := [name for name in PROGRAMS if not shutil.which(name)]:
        pytest.skip(f"SLURM is not installed: no {', '.join(absent)}")
    if os.getuid():
        pytest.skip("only root may start SLURM without its service for credentials")
    folder = tmp_path / "slurm"
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir(parents=True)
    configuration = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    configuration.write_text(CLUSTER.format(folder=folder, host=host, user="root", ports=free_ports(2)))
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
        # one job as soon as it is there, the other in the middle of a run; a comment has the encoding
        (cancelled,) = until(lambda: jobs(cluster, "_axial-rope"))
        subprocess.run(["scancel", cancelled], env=cluster, check=True)
        until((records / ".locks" / planned[0].run_id.path.with_suffix(".lock")).exists)
        (killed,) = jobs(cluster, "_none")
        subprocess.run(["scancel", "--signal=KILL", f"{killed}.0"], env=cluster, check=True)
        assert driver.wait(timeout=300) == 0, (tmp_path / "log").read_text()
    finally:
        driver.terminate()
        driver.wait()
    said = (tmp_path / "log").read_text()
    assert "status is: 'CANCELLED'" in said and "status is: 'FAILED'" in said
    sweep(planned, tmp_path / "local", device="cpu", checkpoints=None, progress=False)
    assert [*map(timeless, read_records(records))] == [*map(timeless, read_records(tmp_path / "local"))]
    files = {path.relative_to(records) for path in records.rglob("*") if path.is_file()}
    assert files == {run.run_id.path.with_suffix(end) for run in planned for end in (".json", ".npz")}
