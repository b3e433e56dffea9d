"""The files from which a killed run resumes, and from which a finished model is loaded.

Here: writing them atomically with a digest, refusing those of another run, reading them without unpickling.
Not here: what is in the model (state.py), when to write (run.py).
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from rollpe.encodings import outside_files
from rollpe.errors import InputError
from rollpe.files import expect_file, write_atomically
from rollpe.records.record import Cell, EpochMetrics
from rollpe.sources import loaded_hash
from rollpe.training.data import ImageData, load_dataset
from rollpe.training.device import choose_device, stream
from rollpe.training.distributed import ALONE, Group
from rollpe.training.recipe import Recipe
from rollpe.training.state import create_model, resolve, shape_of
from rollpe.vit import VisionTransformer

logger = logging.getLogger(__name__)

ROOMS = (
    *(
        "operators.py",
        "topography.py",
        "encodings/",
        "vit.py",
        "training/augment.py",
        "training/checkpoint.py",
    ),
    *("training/data.py", "training/device.py", "training/distributed.py", "training/evaluate.py"),
    *("training/observation.py", "training/run.py", "training/state.py", "training/step.py"),
)
"""The source that a checkpoint depends on."""


class ForeignCheckpoint(InputError):
    """A checkpoint that another source, recipe or device wrote: this run cannot go on from it."""


class DamagedCheckpoint(InputError):
    """A file that is not, byte for byte, a checkpoint as it was written."""


# tqdm's own lock is a semaphore that forked processes share: one that is killed while it holds it would stop
# all others for good. Here a bar belongs to one process.
tqdm.set_lock(threading.RLock())


# Checkpoints


def checkpoint_path(checkpoints: str | Path, cell: Cell) -> Path:
    """`<checkpoints>/<recipe>/<encoding slug>/seed-<n>.pt`."""
    return Path(checkpoints) / cell.path.with_suffix(".pt")


def previous_path(path: Path) -> Path:
    """Where the checkpoint before this one is kept."""
    return path.with_suffix(".previous.pt")


class Checkpoint:
    """The files from which a killed run goes on, the last and the one before it.

    Plain tensors and text, written atomically, and their digest behind them.
    """

    def __init__(
        self, path: Path, cell: Cell, recipe: Recipe, data: ImageData, place: torch.device, group: Group
    ) -> None:
        self.path, self.place, self.group = path, place, group
        self.previous = previous_path(path)
        self.whole = False  # whether the last file is known to be one from which this run can go on
        self.identity = {
            "cell": cell.model_dump_json(),
            "recipe": recipe.model_dump_json(),
            "shape": json.dumps(shape_of(data)),
            "device": place.type,
            "source": loaded_hash(ROOMS, outside_files(cell.encoding)),
        }

    def save(self, run: Any, finished: bool = False) -> None:
        """Everything needed to go on; of a finished run only the weights that were judged."""
        program = run.program
        state: dict[str, Any] = {
            "identity": self.identity,
            "history": [row.model_dump() for row in run.history],
            "started": run.started,
            "elapsed": run.elapsed,
        }
        if finished:
            state["judged"] = program.judged.state_dict()
        else:
            state |= {
                "model": program.model.state_dict(),
                "average": program.average.state_dict() if program.average else None,
                "optimizers": program.step.state(),
                "generators": {name: g.get_state() for name, g in run.generators.items()},
            }
        buffer = io.BytesIO()
        torch.save(state, buffer)
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

    def load(self, run: Any) -> None:
        """Bring a freshly created run to where the files left off, if there are any, or raise InputError."""
        if (found := self.usable(self.place)) is None:
            return
        path, state = found
        self._take(run, state)
        self.whole = path == self.path
        if self.path.exists() and not self.whole and self.group.first:
            logger.warning(
                "%s: damaged checkpoint. Going on from the one before it, after epoch %d.",
                *(self.path, len(run.history)),
            )

    def usable(self, place: torch.device) -> tuple[Path, dict[str, Any]] | None:
        """The last file that is as it was written and what it holds, on `place`; None if there is no file.

        Raises DamagedCheckpoint if there are only others, ForeignCheckpoint if it is another run's.
        """
        damaged = None
        for path in filter(Path.exists, (self.path, self.previous)):
            try:
                state = _read_checkpoint(path, place, sealed=True)
            except DamagedCheckpoint as error:
                damaged = damaged or error
                continue
            for key, here in self.identity.items():
                if state["identity"][key] != here:
                    raise ForeignCheckpoint(
                        f"{path}: written by another run (its {key} differs). "
                        "Delete it, or train without resume."
                    )
            return path, state
        if damaged:
            raise damaged
        return None

    def _take(self, run: Any, state: dict[str, Any]) -> None:
        run.started, run.elapsed = state["started"], state["elapsed"]
        run.history[:] = [EpochMetrics(**row) for row in state["history"]]
        program = run.program
        if "judged" in state:
            program.judged.load_state_dict(state["judged"])
            return
        program.model.load_state_dict(state["model"])
        if program.average:
            program.average.load_state_dict(state["average"])
        program.step.load(state["optimizers"])
        for name, generator in run.generators.items():
            if name != "noise" or self.group.first:
                generator.set_state(state["generators"][name].cpu())
            else:  # only the first process's is in the file, and masks must differ
                generator.manual_seed(stream(run.step, f"noise {self.group.rank}"))


def epochs_done(
    checkpoints: str | Path,
    recipe: Recipe,
    cell: Cell,
    *,
    device: str = "auto",
    data_root: str | Path = "data",
) -> int:
    """After how many epochs `train` would go on from the checkpoint of this run; 0 if it would begin anew."""
    path = checkpoint_path(checkpoints, cell)
    if not path.exists() and not previous_path(path).exists():
        return 0
    place = choose_device(device)
    data = load_dataset(recipe.data, data_root, held_out=recipe.held_out)
    here = Checkpoint(path, cell, resolve(recipe, place, held_out=len(data.held_out)), data, place, ALONE)
    try:
        found = here.usable(torch.device("cpu"))
    except InputError:
        return 0
    return len(found[1]["history"]) if found else 0


def load_model(path: str | Path, device: str = "auto") -> VisionTransformer:
    """The trained model of a finished run from its checkpoint, in evaluation mode.

    Raises InputError if the file is absent or unusable, or the run has not finished.
    """
    return _read_model(path, choose_device(device))[0]


def _read_model(path: str | Path, place: torch.device) -> tuple[VisionTransformer, Recipe, Cell]:
    state = _read_checkpoint(Path(path), place)
    try:
        identity, judged = state["identity"], state.get("judged")
        recipe = Recipe.model_validate_json(identity["recipe"])
        cell = Cell.model_validate_json(identity["cell"])
        if judged is None:
            raise InputError(f"{path}: this run has not finished. Train it with resume.")
        with torch.random.fork_rng(devices=[]):
            model = create_model(recipe, cell, json.loads(identity["shape"])).to(place)
        model.load_state_dict(judged)
    except (InputError, torch.OutOfMemoryError):
        raise
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise _damaged(path, error) from None
    return model.eval(), recipe, cell


SEAL = b"\nsha256 "


def seal(content: bytes | memoryview) -> bytes:
    """What follows the archive in a checkpoint: its digest. Readers of archives pass over it."""
    return SEAL + hashlib.sha256(content).hexdigest().encode()


SEAL_LENGTH = len(seal(b""))


def _read_checkpoint(path: Path, place: torch.device, sealed: bool = False) -> dict[str, Any]:
    """What a checkpoint holds. sealed: refuse those without a digest, which older versions wrote.

    Those hold at least a check for each tensor, which is looked at.
    """
    try:
        expect_file(path)
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no checkpoint to read. Train that run first.") from None
    except OSError as error:
        raise _damaged(path, error) from None
    end = content[-SEAL_LENGTH:]
    good = end == seal(memoryview(content)[:-SEAL_LENGTH])
    if not good and (sealed or SEAL in end):
        raise _damaged(path, "its digest is missing or another")
    try:
        file = io.BytesIO(content)
        if not good and (member := zipfile.ZipFile(file).testzip()):
            raise ValueError(f"{member} is not what was written")
        file.seek(0)
        state: dict[str, Any] = torch.load(file, map_location=place, weights_only=True)
        if not {"identity", "history"} <= state.keys():
            raise ValueError("it holds something else")
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # what is no checkpoint may raise anything, in zipfile, zlib or torch
        raise _damaged(path, error) from None
    return state


def _damaged(path: str | Path, reason: object) -> DamagedCheckpoint:
    line = next(iter(str(reason).splitlines()), "") or type(reason).__name__
    return DamagedCheckpoint(f"{path}: damaged checkpoint ({line}). Train that run again, without resume.")
