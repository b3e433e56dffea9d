"""Killed runs and sweeps: what is resumed ends with the numbers of a run that was left alone."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
import time

import pytest
import torch

from rollpe_lab.records import RunId, read_arrays, read_record, read_records, record_path
from rollpe_lab.training import load_model, load_plan, load_recipe, run, train
from rollpe_lab.training.checkpoint import checkpoint_path
from rollpe_lab.training.sweep import Sweep
from shared import timeless

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL exists on POSIX only")

FORKS = multiprocessing.get_context("forkserver")
"""Forks of a process that has imported everything and trained nothing: torch cannot go on in a fork of this
one once some test has compiled here."""
FORKS.set_forkserver_preload(["pytest", "sklearn.datasets", "rollpe_lab.training.sweep"])

CHANGES = {"epochs": 3, "train_images": 128, "depth": 1, "dropout": 0.1, "resolutions": []}
RECIPE = load_recipe("smoke", CHANGES)
CELL = RunId(recipe=RECIPE.name, encoding="roll", seed=0)
FILES = ("open", "os.mkdir", "os.remove", "os.rename")
"""Operations that Python reports before it does them."""


def work(folder, end: int = 0) -> None:
    """Train, with a checkpoint after every epoch, and die at so-manieth operation on a file; 0: never."""
    operations = itertools.count(1)

    def count() -> None:
        if next(operations) == end:
            os.kill(os.getpid(), signal.SIGKILL)

    def report(event: str, arguments: tuple) -> None:
        if event in FILES and str(arguments[0]).startswith(str(folder)):
            count()

    fsync = os.fsync
    sys.addaudithook(report)
    os.fsync = lambda file: (count(), fsync(file))  # what is written has no other name yet
    run.CHECKPOINT_SECONDS = 0.0
    torch.set_num_threads(1)
    places = {"records": folder / "records", "checkpoints": folder / "checkpoints"}
    train(RECIPE, "roll", device="cpu", resume=True, progress=False, **places)
    (folder / "operations").write_text(str(next(operations) - 1))


def in_a_process_of_its_own(*arguments) -> int:
    process = FORKS.Process(target=work, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def left_in(folder) -> tuple:
    """All that a finished run has left but times: record, arrays, names of files, weights."""
    path = record_path(folder / "records", CELL)
    arrays = {name: array.tolist() for name, array in read_arrays(path).items()}
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    model = load_model(checkpoint_path(folder / "checkpoints", CELL), device="cpu")
    weights = {name: tensor.tolist() for name, tensor in model.state_dict().items()}
    return timeless(read_record(path)), arrays, files, weights


def test_a_run_killed_at_any_operation_on_a_file_is_resumed_to_the_same_record(tmp_path, times, tally):
    alone = tmp_path / "alone"
    assert in_a_process_of_its_own(alone) == 0
    operations, expected = int((alone / "operations").read_text()), left_in(alone)
    number, survived = 2 * times, 0
    for trial, end in enumerate(random.Random(3).sample(range(1, operations + 1), number)):
        folder = tmp_path / str(trial)
        assert in_a_process_of_its_own(folder, end) == -signal.SIGKILL
        assert in_a_process_of_its_own(folder) == 0
        survived += left_in(folder) == expected
    tally("runs killed and resumed", number, survived)


def fill(planned, folder, begun) -> None:
    begun.set()
    places = {"checkpoints": folder / "checkpoints", "device": "cpu", "progress": False}
    Sweep(planned, folder / "records", **places).run()


def begin_two(planned, folder) -> list:
    """Two sweeps at work on one folder."""
    begun = [FORKS.Event() for _ in range(2)]
    started = [FORKS.Process(target=fill, args=(planned, folder, event)) for event in begun]
    for process in started:
        process.start()
    for event in begun:
        event.wait()
    return started


def files_of(folder) -> list:
    """Records, arrays, checkpoints and locks: the more of them, the farther the sweeps have come."""
    return list(folder.rglob("seed-*"))


def test_two_sweeps_killed_at_random_moments_lose_nothing_and_do_nothing_twice(tmp_path, times, tally):
    block = {"encodings": ["none", "roll", "learned"], "seeds": [0, 1]}
    plan = {"recipe": "smoke", "set": {"max_steps": 3, "depth": 1, "resolutions": []}, "blocks": [block]}
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))  # JSON is YAML
    planned, moments = load_plan(tmp_path / "plan.yaml"), random.Random(7)

    alone = tmp_path / "alone"
    fill(planned[:1], alone, FORKS.Event())
    (left_alone,) = read_records(alone / "records")

    survived = 0
    for trial in range(times):
        folder = tmp_path / str(trial)
        for _ in range(3):
            enough, killed = len(files_of(folder)) + moments.randint(1, 5), begin_two(planned, folder)
            while len(files_of(folder)) < enough and any(process.is_alive() for process in killed):
                time.sleep(0.002)
            for process in killed:
                process.kill()
                process.join()
            read_records(folder / "records")  # whole at every moment

        last = begin_two(planned, folder)
        for process in last:
            process.join()
        assert [process.exitcode for process in last] == [0, 0]
        records = {record.run_id.path: record.test for record in read_records(folder / "records")}
        assert sorted(records) == sorted(p.run_id.path for p in planned)
        survived += 3 * (records[left_alone.run_id.path] == left_alone.test)
    tally("pairs of sweeps killed", 3 * times, survived)
