"""One run on two processes is the run of one process, up to rounding; uneven shares are refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from rollpe.errors import InputError
from rollpe_lab.records import Record, read_records
from rollpe_lab.training import load_recipe, train
from rollpe_lab.training.distributed import Group, joined
from rollpe_lab.training.sweep import Sweep

CHANGES = {"max_steps": 12, "depth": 1, "augmentation.crop": "pad", "augmentation.mixup": 0.4}


def torchrun(folder: Path, changes: dict, *more: str) -> subprocess.Popen:
    """Begin to train on two processes."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words += ["-m", "rollpe.cli", "train", "--recipe", "smoke", "--encoding", "roll", "--device", "cpu"]
    words += [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    return subprocess.Popen(
        [*words, "--records", str(folder / "records"), *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def same_up_to_rounding(one: Record, two: Record) -> None:
    for a, b in zip(one.history, two.history, strict=True):
        assert (a.steps, a.learning_rate) == (b.steps, b.learning_rate)
        assert a.train_loss == pytest.approx(b.train_loss, abs=1e-5)
        assert a.held_out_loss == pytest.approx(b.held_out_loss, abs=1e-5)
    assert one.test.loss == pytest.approx(two.test.loss, abs=1e-5)
    assert abs(int(one.correct_bits().sum()) - int(two.correct_bits().sum())) <= 1
    assert one.config == two.config and one.parameters == two.parameters


def test_two_processes_leave_the_record_of_one(tmp_path):
    run = torchrun(tmp_path, CHANGES)
    said, complaints = run.communicate(timeout=300)
    assert run.returncode == 0, complaints
    assert said.count("test accuracy") == 1, "only the first process speaks"
    (two,) = read_records(tmp_path / "records")
    one = train(load_recipe("smoke", CHANGES), "roll", device="cpu", checkpoints=None, progress=False)
    same_up_to_rounding(one, two)
    assert two.provenance.command.startswith("torchrun --nproc-per-node 2 -m rollpe.cli train")
    assert len(list((tmp_path / "checkpoints").rglob("*.pt"))) == 1


def test_two_processes_stopped_in_the_middle_go_on_to_the_same_record(tmp_path):
    changes = {"epochs": 4, "depth": 1, "resolutions": "[]", "frames": 5}
    run = torchrun(tmp_path, changes)
    while not (written := list((tmp_path / "checkpoints").rglob("*.pt"))):
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.002)
    run.terminate()  # torchrun hands it on to its processes, as a cluster's scheduler expects
    run.communicate()
    done = len(torch.load(written[0], weights_only=True)["history"])
    assert 1 <= done < 4 and read_records(tmp_path / "records") == []

    (tmp_path / "undisturbed").mkdir()
    for run in (torchrun(tmp_path, changes, "--resume"), torchrun(tmp_path / "undisturbed", changes)):
        _, complaints = run.communicate(timeout=300)
        assert run.returncode == 0, complaints
    (resumed,), (whole,) = (read_records(f / "records") for f in (tmp_path, tmp_path / "undisturbed"))
    timed = {"seconds", "images_per_second"}
    assert [row.model_dump(exclude=timed) for row in resumed.history] == [
        row.model_dump(exclude=timed) for row in whole.history
    ]
    assert resumed.arrays_sha256 == whole.arrays_sha256, "and to the same frames"
    assert resumed.test == whole.test and (resumed.correct_bits() == whole.correct_bits()).all()


def test_shares_of_a_batch_are_even_and_cover_it():
    for size in (1, 2, 3, 4):
        shares = [list(range(12))[Group(rank, size).part(12)] for rank in range(size)]
        assert sorted(image for share in shares for image in share) == list(range(12))
        assert {len(share) for share in shares} == {12 // size}
    with pytest.raises(InputError, match="batch_size=33 cannot be shared evenly by 2"):
        Group(0, 2).part(33)


def test_a_sweep_among_processes_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="a sweep is one process") as error:
        Sweep([], tmp_path).run()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE='abc': allowed is an integer ≥ 1"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE='0': allowed is an integer ≥ 1"),
        ({"WORLD_SIZE": "-2"}, "WORLD_SIZE='-2': allowed is an integer ≥ 1"),
        ({"WORLD_SIZE": "2"}, "the processes cannot join .*RANK"),
        ({"WORLD_SIZE": "2", "RANK": "first"}, "the processes cannot join .*first"),
    ],
)
def test_variables_that_torchrun_did_not_set_are_one_line(monkeypatch, variables, says):
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=says) as error, joined(torch.device("cpu")):
        pass
    assert "\n" not in str(error.value)
