"""Damaged checkpoints: whatever happens to a file, no run goes on with other numbers than were written."""

from __future__ import annotations

import os
import random
import shutil

import pytest
import torch
from damage import damaged

from refusals import FULL, interrupted, raising, refused
from rollpe.errors import InputError
from rollpe_lab.records import read_record, record_path
from rollpe_lab.training import checkpoint, load_model, load_recipe, train
from rollpe_lab.training.checkpoint import checkpoint_path, previous_path
from rollpe_lab.training.plan import Planned
from rollpe_lab.training.sweep import Sweep
from shared import timeless

CHANGES = {"epochs": 3, "train_images": 128, "depth": 1, "dropout": 0.1, "resolutions": []}
RECIPE = load_recipe("smoke", CHANGES)


def run(folder, **settings):
    places = {"records": folder / "records", "checkpoints": folder / "checkpoints"}
    return train(RECIPE, "roll", device="cpu", progress=False, **places, **settings)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A finished run: (record, its checkpoint)."""
    folder = tmp_path_factory.mktemp("undisturbed")
    record = run(folder)
    return record, checkpoint_path(folder / "checkpoints", record.run_id)


@pytest.fixture(scope="module")
def written(tmp_path_factory, undisturbed):
    """Checkpoints of a run that was stopped after two epochs: the folder, and the last file in it."""
    folder = tmp_path_factory.mktemp("written")
    with interrupted(2):
        run(folder)
    return folder, checkpoint_path(folder / "checkpoints", undisturbed[0].run_id)


@pytest.fixture
def stopped(tmp_path, written):
    """A copy of that folder, to be damaged, and the last checkpoint in it."""
    folder, path = written
    shutil.copytree(folder, tmp_path / "run")
    return tmp_path / "run", tmp_path / "run" / path.relative_to(folder)


def read(call):
    """What a call returns; None if it is refused, which is said in one line."""
    try:
        return call()
    except InputError as error:
        assert "\n" not in str(error)


def goes_on_from(path, content: bytes) -> bool:
    """Whether a run would go on from a file with this content."""
    path.write_bytes(content)
    return read(lambda: checkpoint._read_checkpoint(path, torch.device("cpu"))) is not None


def weights(path):
    """The weights that a finished checkpoint is read to hold; None if it is refused."""
    return read(lambda: load_model(path, device="cpu").state_dict())


def test_no_damage_to_a_checkpoint_goes_unnoticed(tmp_path, written, undisturbed, times, tally):
    rng, bad, number = random.Random(0), tmp_path / "seed-0.pt", 35 * times
    whole, finished = written[1].read_bytes(), undisturbed[1].read_bytes()
    right = weights(undisturbed[1])
    assert goes_on_from(bad, whole)
    survived = 0
    for _ in range(number):
        content = damaged(whole, rng)
        survived += content == whole or not goes_on_from(bad, content)
        bad.write_bytes(damaged(finished, rng))
        read = weights(bad)
        survived += read is None or all(torch.equal(read[name], right[name]) for name in right)
    tally("damaged checkpoints", 2 * number, survived)


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one_to_the_same_record(
    stopped, undisturbed, caplog
):
    folder, path = stopped
    assert previous_path(path).exists()
    path.write_bytes(path.read_bytes()[:-1])
    record = run(folder, resume=True)
    (said,) = [entry.getMessage() for entry in caplog.records]
    assert said == f"{path}: damaged checkpoint. Resuming from the one before it, after epoch 1."
    assert timeless(record) == timeless(undisturbed[0])
    assert timeless(read_record(record_path(folder / "records", record))) == timeless(undisturbed[0])
    assert [file.name for file in path.parent.iterdir()] == ["seed-0.pt"], "a finished run keeps one"


def test_a_damaged_checkpoint_does_not_replace_a_whole_one(stopped, monkeypatch):
    folder, path = stopped
    before = previous_path(path).read_bytes()
    path.write_bytes(b"")
    monkeypatch.setattr("rollpe_lab.training.checkpoint.write_atomically", raising(FULL))
    with pytest.raises(OSError, match="No space left"):
        run(folder, resume=True)
    assert previous_path(path).read_bytes() == before


def test_a_run_killed_between_two_checkpoints_goes_on_from_the_one_there_is(stopped, undisturbed, caplog):
    folder, path = stopped
    path.rename(previous_path(path))
    assert timeless(run(folder, resume=True)) == timeless(undisturbed[0])
    assert not caplog.records


class Trap:
    def __reduce__(self):
        return (os.mkdir, ("sprung",))


@pytest.mark.parametrize("content", [b"epoch: 3\n", {"weights": 1}, "other types", {"identity": Trap()}])
def test_what_is_no_checkpoint_is_refused_and_no_code_in_it_is_run(
    tmp_path, undisturbed, content, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "seed-0.pt"
    if content == "other types":
        content = dict.fromkeys(torch.load(undisturbed[1], weights_only=True), 3)
    torch.save(content, path)
    assert weights(path) is None and not goes_on_from(path, path.read_bytes())
    assert list(tmp_path.iterdir()) == [path]


def test_with_no_whole_checkpoint_a_run_is_refused_and_a_sweep_begins_it_again(stopped, undisturbed):
    folder, path = stopped
    for file in (path, previous_path(path)):
        file.write_bytes(b"")
    with refused(rf"{path.name}: damaged checkpoint .* without resume"):
        run(folder, resume=True)
    lines, wanted = [], Planned(RECIPE, undisturbed[0].run_id)
    places = {"checkpoints": folder / "checkpoints", "device": "cpu", "progress": False}
    report = Sweep([wanted], folder / "records", say=lines.append, **places).run()
    assert lines[1] == f"{wanted}: its checkpoint is damaged; starting over"
    assert report.trained == [wanted] and not report.failed
    assert timeless(read_record(record_path(folder / "records", wanted.run_id))) == timeless(undisturbed[0])
