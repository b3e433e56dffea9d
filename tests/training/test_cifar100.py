"""CIFAR-100 itself, through loading, augmentation, training and the record.

The images come from data/cifar-100-python, or from an archive in three parts beside the checkout, which is
unpacked for the session. Without either these tests are skipped.
"""

from __future__ import annotations

import io
import math
import tarfile
from pathlib import Path

import numpy as np
import pytest

from rollpe_lab.records import read_record, record_path
from rollpe_lab.training import load_dataset, load_recipe, train
from rollpe_lab.training.data import Split
from rollpe_lab.training.fetch import verify
from rollpe_lab.training.models import shape_of
from shared import ROOT, stand_in


@pytest.fixture(scope="session")
def data_root(tmp_path_factory) -> Path:
    """A folder that holds cifar-100-python."""
    if (ROOT / "data" / "cifar-100-python" / "train").is_file():
        return ROOT / "data"
    parts = sorted((ROOT.parent / "shared" / "cifar100").glob("*.tar.xz.part?"))
    if not parts:
        pytest.skip("CIFAR-100 is not here: run `rollpe data fetch cifar100`")
    folder = tmp_path_factory.mktemp("data")
    whole = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(fileobj=whole, mode="r:xz") as tar:
        tar.extractall(folder, filter="data")
    return folder


def keys(split: Split) -> list[bytes]:
    return [image.tobytes() for image in split.images.numpy()]


def test_it_is_read_split_and_free_of_shared_images(data_root):
    assert [check.state for check in verify("cifar100", data_root)] == ["ok"] * 3
    data = load_dataset("cifar100", data_root)
    assert shape_of(stand_in("cifar100")) == shape_of(data)
    parts = (data.train, data.held_out, data.test)
    assert [part.labels.bincount().tolist() for part in parts] == [[n] * 100 for n in (450, 50, 100)]
    assert (data.classes[0], data.classes[-1], len(data.classes)) == ("apple", "worm", 100)
    train, held_out, test = map(keys, parts)
    assert not set(train) & set(held_out)
    assert len(train) - len(set(train)) == 14 and len(test) - len(set(test)) == 2
    assert len({*train, *held_out} & {*test}) == 10
    np.testing.assert_allclose(data.mean, (0.50708, 0.48655, 0.44092), atol=5e-6)


def test_two_hundred_steps_of_the_strong_recipe_lower_the_loss(data_root, tmp_path):
    """Two blocks on 4×4 patches, and 50 small batches to an epoch so that the record has a curve."""
    recipe = load_recipe(
        "strong",
        {
            "size": "nano",
            "depth": 2,
            "patch_size": 8,
            "pool": "avg",
            "batch_size": 16,
            "train_images": 800,
            "epochs": 4,
            "warmup_epochs": 1,
            "held_out": 500,
            "resolutions": [],
            "shifts": [],
            "augmentation.mixup": 0,
            "augmentation.cutmix": 0,
        },
    )
    quiet = {"device": "cpu", "checkpoints": None, "progress": False}
    record = train(recipe, "roll", data_root=data_root, records=tmp_path, **quiet)
    assert record.history[-1].steps == 200
    losses = [row.train_loss for row in record.history]
    assert losses[0] == pytest.approx(math.log(100), abs=0.3)
    assert losses[-1] < losses[0] - 0.1
    assert record.test.images == 10000 and record.test.accuracy > 0.02
    assert read_record(record_path(tmp_path, record)) == record
