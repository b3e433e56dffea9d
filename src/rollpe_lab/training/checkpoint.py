"""The files from which a killed run resumes, and from which a finished model is loaded."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from rollpe.encodings import outside_files
from rollpe.errors import InputError
from rollpe_lab.files import expect_file, write_atomically
from rollpe_lab.hashes import training_hash
from rollpe_lab.records.record import RunId
from rollpe_lab.training.device import choose_device
from rollpe_lab.training.models import create_model
from rollpe_lab.training.recipe import Recipe
from rollpe_lab.training.watch import Model

logger = logging.getLogger(__name__)


class ForeignCheckpoint(InputError):
    """A checkpoint that another source, recipe or device wrote: this run cannot resume from it."""


class DamagedCheckpoint(InputError):
    """A file that is not, byte for byte, a checkpoint as it was written."""


def checkpoint_path(checkpoints: str | Path, run_id: RunId) -> Path:
    """`<checkpoints>/<recipe>/<encoding slug>/seed-<n>.pt`."""
    return Path(checkpoints) / run_id.path.with_suffix(".pt")


def previous_path(path: Path) -> Path:
    """Where the checkpoint before this one is kept."""
    return path.with_suffix(".previous.pt")


class Checkpoint:
    """The files from which a killed run resumes: the last one and the one before it.

    Plain tensors and text, written atomically, followed by their digest.
    """

    def __init__(
        self, path: Path, run_id: RunId, recipe: Recipe, shape: Mapping[str, Any], device: torch.device
    ) -> None:
        self.path, self.previous, self.device = path, previous_path(path), device
        self.whole = False  # whether the last file is known to be intact
        self.identity = {
            "cell": run_id.model_dump_json(),
            "recipe": recipe.model_dump_json(),
            "shape": json.dumps(shape),
            "device": device.type,
            "source": training_hash(outside_files(run_id.encoding)),
        }

    def save(self, state: Mapping[str, Any], finished: bool = False) -> None:
        """Write what a run returns as its state. finished: nothing before it is needed any more."""
        buffer = io.BytesIO()
        torch.save({"identity": self.identity, **state}, buffer)
        with buffer.getbuffer() as archive:
            digest = seal(archive)
        buffer.seek(0, io.SEEK_END)
        buffer.write(digest)
        if self.whole:
            os.replace(self.path, self.previous)
        write_atomically(self.path, buffer.getvalue())
        self.whole = True
        if finished:
            self.previous.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove both files."""
        for path in (self.path, self.previous):
            path.unlink(missing_ok=True)

    def load(self) -> dict[str, Any] | None:
        """The state in the last file that is intact, on the device of the run; None if there is no file.

        Logs a warning if the last file is damaged and the one before it is taken. Raises DamagedCheckpoint if
        all files are damaged, ForeignCheckpoint if one is another run's.
        """
        damaged = None
        for path in filter(Path.exists, (self.path, self.previous)):
            try:
                state = _read_checkpoint(path, self.device)
            except DamagedCheckpoint as error:
                damaged = damaged or error
                continue
            for key, value in self.identity.items():
                if state["identity"][key] != value:
                    raise ForeignCheckpoint(
                        f"{path}: written by another run (its {key} differs). "
                        "Delete it, or train without resume."
                    )
            self.whole = path == self.path
            if damaged:
                epoch, words = len(state["history"]), "Resuming from the one before it, after epoch"
                logger.warning("%s: damaged checkpoint. %s %d.", self.path, words, epoch)
            return state
        if damaged:
            raise damaged
        return None


def load_model(path: str | Path, device: str = "auto") -> Model:
    """The trained model of a finished run from its checkpoint, in evaluation mode.

    A VisionTransformer or, of text, a Decoder.
    Raises InputError if the file is absent or unusable, or the run has not finished.
    """
    target = choose_device(device)
    state = _read_checkpoint(Path(path), target)
    if "eval_model" not in state:
        raise InputError(f"{path}: this run has not finished. Train it with resume.")
    try:
        identity = state["identity"]
        recipe = Recipe.model_validate_json(identity["recipe"])
        run_id = RunId.model_validate_json(identity["cell"])
        with torch.random.fork_rng(devices=[]):
            model = create_model(recipe, run_id, json.loads(identity["shape"])).to(target)
        model.load_state_dict(state["eval_model"])
    except (InputError, torch.OutOfMemoryError):
        raise
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise _damaged(path, error) from None
    return model.eval()


SEAL = b"\nsha256 "


def seal(content: bytes | memoryview) -> bytes:
    """What follows the archive in a checkpoint: its digest. Readers of archives pass over it."""
    return SEAL + hashlib.sha256(content).hexdigest().encode()


SEAL_LENGTH = len(seal(b""))


def _read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """What a checkpoint holds, if its digest is there and right."""
    try:
        expect_file(path)
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no checkpoint to read. Train that run first.") from None
    except OSError as error:
        raise _damaged(path, error) from None
    if content[-SEAL_LENGTH:] != seal(memoryview(content)[:-SEAL_LENGTH]):
        raise _damaged(path, "its digest is missing or another")
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
        if not {"identity", "history"} <= state.keys():
            raise ValueError("it holds something else")
    except torch.OutOfMemoryError:
        raise
    except pickle.UnpicklingError:  # whose message advises to run what is in the file
        raise _damaged(path, "it holds more than tensors and text") from None
    except Exception as error:  # what is no checkpoint may raise anything, in zipfile, zlib or torch
        raise _damaged(path, error) from None
    return state


def _damaged(path: str | Path, reason: object) -> DamagedCheckpoint:
    line = next(iter(str(reason).splitlines()), "") or type(reason).__name__
    return DamagedCheckpoint(f"{path}: damaged checkpoint ({line}). Train that run again, without resume.")
