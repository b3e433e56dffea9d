"""CIFAR-100 itself, through loading, augmentation, training and the record.

The images come from data/cifar-100-python, or from an archive in three parts beside the checkout, which is
unpacked for the session. Without either these tests are skipped.
"""

from __future__ import annotations

import lzma
import math
import os
import shutil
import tarfile
from pathlib import Path

import pytest
import torch

from rollpe_lab.records import read_record, record_path
from rollpe_lab.training import load_dataset, load_recipe, train
from rollpe_lab.training.augment import Augmenter, normalize
from shared import ROOT


@pytest.fixture(scope="session")
def data_root(tmp_path_factory) -> Path:
    """A folder that holds cifar-100-python."""
    if (ROOT / "data" / "cifar-100-python" / "train").is_file():
        return ROOT / "data"
    parts = sorted((ROOT.parent / "shared" / "cifar100").glob("*.tar.xz.part?"))
    if not parts:
        pytest.skip("CIFAR-100 is not here: run `rollpe data fetch cifar100`")
    folder = tmp_path_factory.mktemp("data")
    archive = folder / "archive"
    with archive.open("wb") as whole:
        for part in parts:
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, whole)
    with lzma.open(archive) as unpacked, tarfile.open(fileobj=unpacked) as tar:
        tar.extractall(folder, filter="data")
    os.remove(archive)
    return folder


def test_its_images_survive_the_strong_augmentation(data_root):
    data, recipe = load_dataset("cifar100", data_root), load_recipe("strong")
    assert [len(split) for split in (data.train, data.held_out, data.test)] == [45000, 5000, 10000]
    augment = Augmenter(recipe.augmentation, (32, 32), data.mean, data.std, len(data.classes))
    images, labels = data.train.images[:128], data.train.labels[:128]
    [changed], [targets] = augment.batches(images[None], labels[None], torch.Generator().manual_seed(0))
    assert changed.shape == (128, 3, 32, 32) and changed.isfinite().all()
    assert not torch.equal(changed, normalize(images, data.mean, data.std))
    torch.testing.assert_close(targets.sum(1), torch.ones(128))
    assert (targets.gather(1, labels[:, None]) > 0).float().mean() > 0.9


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
            "augmentation.mixup": 0,
            "augmentation.cutmix": 0,
        },
    )
    record = train(
        recipe,
        "roll",
        device="cpu",
        data_root=data_root,
        records=tmp_path,
        checkpoints=None,
        progress=False,
    )
    assert record.history[-1].steps == 200
    losses = [row.train_loss for row in record.history]
    assert losses[0] == pytest.approx(math.log(100), abs=0.3)
    assert losses[-1] < losses[0] - 0.1
    assert record.test.images == 10000 and record.test.accuracy > 0.02
    assert read_record(record_path(tmp_path, record)) == record
