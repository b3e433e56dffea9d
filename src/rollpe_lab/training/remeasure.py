"""Looking into finished models again, for records that are older than one of their arrays."""

from __future__ import annotations

from pathlib import Path

import torch

from rollpe.errors import InputError
from rollpe_lab.records.store import read_record, record_path, write_record
from rollpe_lab.training.checkpoint import read_model
from rollpe_lab.training.data import load_dataset
from rollpe_lab.training.device import choose_device
from rollpe_lab.training.evaluate import evaluator
from rollpe_lab.training.observation import frame_arrays
from rollpe_lab.training.state import initial_model, shape_of, training_images

SAME_MODEL = 100
"""One test image in so many may be classified differently by the same model, since devices round differently.
Models of two seeds differ on many times as many."""


def remeasure(
    path: str | Path, records: str | Path, *, device: str = "auto", data_root: str | Path = "data"
) -> Path:
    """Look into the model of a finished run once more; returns the .npz beside its record.

    The record stays as it is, but for the digest of its arrays. The model is scored first: its bits on the
    test images must be the record's, up to one in `SAME_MODEL`. The model before its first step is made again
    from the seed; frames of the training are the checkpoint's. Raises InputError if the bits differ, or if
    checkpoint or record is absent or damaged.
    """
    target = choose_device(device)
    model, recipe, run_id, frames = read_model(path, target)
    file = record_path(records, run_id)
    record = read_record(file)
    data = load_dataset(recipe.data, data_root, recipe.held_out, recipe.context)
    evaluate = evaluator(recipe, data, target)
    differ = int((evaluate(model, data.test).bits() != record.correct_bits()).sum())
    if differ * SAME_MODEL > record.test.images:
        raise InputError(
            f"{path}: not the model of {file}, {differ:,} of {record.test.images:,} images are classified "
            "differently. Give the folder that the run wrote to, with --records."
        )
    with torch.random.fork_rng(devices=[]):
        untrained = initial_model(recipe, run_id, shape_of(data)).to(target)
    first = evaluate.gradients(untrained, training_images(recipe, data))
    arrays = {key: value.numpy() for key, value in first.items()}
    write_record(records, record, **arrays, **evaluate.observe(model), **frame_arrays(frames))
    return file.with_suffix(".npz")
