"""One run on two processes is the run of one process, up to rounding; uneven shares are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rollpe.distributed import Group
from rollpe.errors import InputError
from rollpe.recipes import load_recipe
from rollpe.records import read_records
from rollpe.sweeps import sweep
from rollpe.training import train

CHANGES = {"max_steps": 12, "depth": 1, "augmentation.crop": "pad", "augmentation.mixup": 0.4, "ema": 0.5}


def torchrun(folder: Path, changes: dict) -> subprocess.CompletedProcess:
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words += ["-m", "rollpe.cli", "train", "--recipe", "smoke", "--encoding", "roll", "--device", "cpu"]
    words += [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*words, "--records", str(folder / "records")],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )


def test_two_processes_leave_the_record_of_one(tmp_path):
    done = torchrun(tmp_path, CHANGES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1, "only the first process speaks"
    (two,) = read_records(tmp_path / "records")
    one = train(load_recipe("smoke", CHANGES), "roll", device="cpu", checkpoints=None, progress=False)
    for a, b in zip(one.history, two.history, strict=True):
        assert (a.steps, a.learning_rate) == (b.steps, b.learning_rate)
        assert a.train_loss == pytest.approx(b.train_loss, abs=1e-5)
        assert a.held_out_loss == pytest.approx(b.held_out_loss, abs=1e-5)
    assert one.test.loss == pytest.approx(two.test.loss, abs=1e-5)
    assert abs(int(one.correct_bits().sum()) - int(two.correct_bits().sum())) <= 1
    assert one.config == two.config and one.parameters == two.parameters
    assert two.provenance.command.startswith("torchrun --nproc-per-node 2 -m rollpe.cli train")
    assert len(list((tmp_path / "checkpoints").rglob("*.pt"))) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_shares_of_a_batch_are_even_and_cover_it(size):
    shares = [list(range(12))[Group(rank, size).part(12)] for rank in range(size)]
    assert sorted(image for share in shares for image in share) == list(range(12))
    assert {len(share) for share in shares} == {12 // size}


def test_a_batch_that_cannot_be_shared_evenly_is_refused_in_one_line():
    with pytest.raises(InputError, match="batch_size=33 cannot be shared evenly by 2") as error:
        Group(0, 2).part(33)
    assert "\n" not in str(error.value)


def test_a_sweep_among_processes_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="a sweep is one process") as error:
        sweep([], tmp_path)
    assert "\n" not in str(error.value)


def test_alone_nothing_is_summed():
    values = torch.rand(3)
    assert torch.equal(Group().total(values), values) and torch.equal(Group().mean(values), values)
