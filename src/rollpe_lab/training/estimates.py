"""How long a run will take, so that a sweep begins none that it cannot finish."""

from __future__ import annotations

import math
import time
from pathlib import Path

from rollpe_lab.records.origin import environment
from rollpe_lab.records.record import Record
from rollpe_lab.records.store import read_records
from rollpe_lab.training.data import load_dataset
from rollpe_lab.training.device import choose_device
from rollpe_lab.training.plan import Planned
from rollpe_lab.training.run import train
from rollpe_lab.training.state import CompiledModels

PROBE_STEPS = 12
"""Optimizer steps of the short run from which an unknown duration is estimated."""

SLACK, AGAIN = 1.15, 1.05
"""An estimate is what was measured times this: the machine may be slower the next time; less so a run of the
same recipe and encoding a moment later."""


Durations = dict[tuple[str, str], float]
"""The longest duration in seconds, by recipe and encoding."""


class Estimates:
    """How long a cell will take, from what was measured.

    The first of these that exists:

    1. the duration of the same recipe and encoding in this sweep;
    2. that of their record on this kind of device, scaled by the pace of this sweep: runs of the same recipe
       that are both recorded and trained here give the factor, since records may be of a busier machine;
    3. the longest duration of this recipe in this sweep, then in the records;
    4. that of a short run, also where ``measure`` leaves the records out.

    Compiling counts for encodings that this sweep has not compiled yet, and for no later seed.
    """

    def __init__(
        self,
        records: str | Path,
        device: str,
        data_root: str | Path,
        measure: bool = False,
        models: CompiledModels | None = None,
    ) -> None:
        self.device, self.data_root, self.models = device, data_root, models
        self.here = environment(str(choose_device(device))).device_name
        self.trained: Durations = {}
        self.recorded: Durations = {}
        self.probed: Durations = {}
        self.waited = 0.0
        for record in [] if measure else read_records(records):
            if record.environment.device_name == self.here:
                self._keep(self.recorded, record)

    def learn(self, record: Record, waited: float = 0.0) -> None:
        """Keep how long a run of this sweep took, of which it waited some seconds to be compiled."""
        self._keep(self.trained, record, waited)
        self.waited = max(self.waited, waited)

    def _keep(self, durations: Durations, record: Record, waited: float = 0.0) -> None:
        key = (record.recipe, record.run_id.slug)
        durations[key] = max(durations.get(key, 0.0), record.provenance.wall_seconds - waited)

    def seconds(self, planned: Planned) -> float:
        """Expected duration, slack included."""
        known, _ = self._known(planned)
        if known is None:
            known = self.probed[planned.run_id.recipe, planned.run_id.slug] = self._probe(planned)
        if (planned.run_id.recipe, planned.run_id.slug) in self.trained:
            return AGAIN * known
        return SLACK * known + self.waited

    def grounds(self, planned: Planned) -> str:
        """In words, where the duration is from, and what to do if it cannot be right."""
        return self._known(planned)[1]

    def _known(self, planned: Planned) -> tuple[float | None, str]:
        recipe, key = planned.run_id.recipe, (planned.run_id.recipe, planned.run_id.slug)
        in_both = [both for both in self.trained.keys() & self.recorded.keys() if both[0] == recipe]
        in_both = [both for both in in_both if self.recorded[both]]  # some clocks do not move
        if key in self.trained:
            return self.trained[key], "as before in this sweep"
        if key in self.recorded and in_both:
            pace = max(self.trained[both] / self.recorded[both] for both in in_both)
            return pace * self.recorded[key], "at the pace of this sweep"
        for durations, words in (
            (self.trained, "as others in this sweep"),
            (self.recorded, "by the slowest record on this device (--measure asks a short run instead)"),
            (self.probed, "by a short run"),
        ):
            alike = [seconds for (name, _), seconds in durations.items() if name == recipe]
            if alike:
                return durations.get(key, max(alike)), words
        return None, "by a short run"

    def _probe(self, planned: Planned) -> float:
        """Extrapolate from two short epochs: what the first took more than the second is start-up."""
        recipe, run_id = planned.recipe, planned.run_id
        data = load_dataset(recipe.data, self.data_root, recipe.held_out, recipe.context)
        available = recipe.train_images or len(data.train)
        images = min(PROBE_STEPS * recipe.batch_size, available)
        short = recipe.model_copy(
            update={
                "epochs": 2,
                "max_steps": None,
                "train_images": images,
                "warmup_epochs": 0.0,
                "resolutions": [],
                "shifts": [],
            }
        )
        began = time.monotonic()
        record = train(
            short,
            **run_id.model_dump(exclude={"recipe"}),
            device=self.device,
            data_root=self.data_root,
            checkpoints=None,
            progress=False,
            models=self.models,
        )
        whole = time.monotonic() - began
        first, last = record.history
        batch = min(recipe.batch_size, images)
        step = batch / last.images_per_second
        scoring = max(0.0, last.seconds - (last.steps - first.steps) * step)
        per_epoch = available // min(recipe.batch_size, available)
        steps = min(recipe.epochs * per_epoch, recipe.max_steps or recipe.epochs * per_epoch)
        native = data.train.images.shape[-1]
        passes = len(recipe.shifts) + sum((size / native) ** 2 for size in recipe.resolutions)
        after = passes * scoring * len(data.test) / max(1, len(data.held_out))
        return whole + steps * step + math.ceil(steps / per_epoch) * scoring + after


# Times


def format_duration(duration: float) -> str:
    """Seconds → "45 s", "12 min", "3 h 20 min"."""
    if duration == float("inf"):
        return "no limit"
    if duration < 90:
        return f"{max(0.0, duration):.0f} s"
    minutes = round(duration / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
