"""Damaged checkpoints: a run goes on to the bits of one left alone, or it is refused."""

from __future__ import annotations

import os
import shutil

import pytest
import torch

from refusals import FULL, interrupted, raising, refused
from rollpe_lab.records import RunId, read_record, record_path
from rollpe_lab.training import checkpoint, load_model, load_recipe, train
from rollpe_lab.training.checkpoint import checkpoint_path, previous_path
from shared import timeless

CHANGES = {"epochs": 3, "train_images": 128, "depth": 1, "dropout": 0.1, "resolutions": []}
RECIPE = load_recipe("smoke", CHANGES)
CELL = RunId(recipe=RECIPE.name, encoding="roll", seed=0)


def train_in(folder, **settings):
    places = {"records": folder / "records", "checkpoints": folder / "checkpoints"}
    return train(RECIPE, "roll", device="cpu", progress=False, **places, **settings)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A finished run: (record, its checkpoint)."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return train_in(folder), checkpoint_path(folder / "checkpoints", CELL)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of a run that was stopped after two epochs."""
    folder = tmp_path_factory.mktemp("written")
    with interrupted(2):
        train_in(folder)
    return folder


@pytest.fixture
def stopped(tmp_path, written):
    """A copy of that folder, to be damaged, and the last checkpoint in it."""
    folder = shutil.copytree(written, tmp_path / "run")
    return folder, checkpoint_path(folder / "checkpoints", CELL)


def flip(content: bytes) -> bytes:
    """The bytes with one bit in the middle flipped."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one_to_the_same_record(
    stopped, undisturbed, caplog
):
    folder, path = stopped
    path.write_bytes(flip(path.read_bytes()))
    record = train_in(folder, resume=True)
    (said,) = [entry.getMessage() for entry in caplog.records]
    assert said == f"{path}: damaged checkpoint. Resuming from the one before it, after epoch 1."
    assert timeless(record) == timeless(undisturbed[0])
    assert timeless(read_record(record_path(folder / "records", CELL))) == timeless(undisturbed[0])
    assert [file.name for file in path.parent.iterdir()] == ["seed-0.pt"], "a finished run keeps one"


def test_a_damaged_checkpoint_does_not_replace_a_whole_one(stopped, monkeypatch):
    folder, path = stopped
    before = previous_path(path).read_bytes()
    path.write_bytes(b"")
    monkeypatch.setattr("rollpe_lab.training.checkpoint.write_atomically", raising(FULL))
    with pytest.raises(OSError, match="No space left"):
        train_in(folder, resume=True)
    assert previous_path(path).read_bytes() == before


def test_a_run_killed_between_two_checkpoints_goes_on_from_the_one_there_is(stopped, undisturbed, caplog):
    folder, path = stopped
    path.rename(previous_path(path))
    assert timeless(train_in(folder, resume=True)) == timeless(undisturbed[0])
    assert not caplog.records
    resumed, whole = (load_model(file, device="cpu").state_dict() for file in (path, undisturbed[1]))
    assert resumed.keys() == whole.keys() and all(torch.equal(resumed[key], whole[key]) for key in whole)


class Trap:
    def __reduce__(self):
        return (os.mkdir, ("sprung",))


@pytest.mark.parametrize(
    "content",
    [
        b"epoch: 3\n",
        {"weights": 1},
        dict.fromkeys(("identity", "history", "eval_model"), 3),
        {"identity": Trap(), "history": []},
    ],
)
def test_what_is_no_checkpoint_is_refused_and_no_code_in_it_is_run(tmp_path, content, monkeypatch):
    """Even with a right digest."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "seed-0.pt"
    torch.save(content, path)
    path.write_bytes(path.read_bytes() + checkpoint.seal(path.read_bytes()))
    with refused(rf"{path}: damaged checkpoint"):
        load_model(path, device="cpu")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("damage", [flip, lambda content: content[:-1], lambda content: b""])
def test_no_model_is_loaded_from_a_damaged_checkpoint(tmp_path, undisturbed, damage):
    path = tmp_path / "seed-0.pt"
    path.write_bytes(damage(undisturbed[1].read_bytes()))
    with refused(rf"{path}: damaged checkpoint \(its digest"):
        load_model(path, device="cpu")


def test_with_no_whole_checkpoint_a_run_is_refused(stopped):
    folder, path = stopped
    for file in (path, previous_path(path)):
        file.write_bytes(b"")
    with refused(rf"{path.name}: damaged checkpoint .* without resume"):
        train_in(folder, resume=True)
