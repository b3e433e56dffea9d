"""The whole benchmark: what is timed, in which order, within one time budget."""

from __future__ import annotations

import math
import os.path
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from rollpe.encodings import ENCODINGS, outside_files
from rollpe.errors import InputError
from rollpe_lab.bench.report import Benchmark, Scaling, Timing
from rollpe_lab.bench.timing import (
    TIMM,
    Trial,
    forget,
    interleaved,
    matmul_peak,
    our_model,
    prepare,
    profile_table,
    timm_model,
)
from rollpe_lab.records.origin import environment, loaded_source, now, provenance
from rollpe_lab.training.augment import Augmenter
from rollpe_lab.training.compiling import compile_mode
from rollpe_lab.training.device import choose_device
from rollpe_lab.training.recipe import Recipe, load_recipe
from rollpe_lab.training.state import ahead, resolve

PRIORITY = (
    *("none", "axial-rope", "roll", "twisted-roll"),
    *("learned", "multiplexed-roll", "mixed-rope", "roll-twin"),
)
"""Encodings that are timed first, since a budget may not suffice for all."""

SCALED = ("none", "axial-rope", "roll", "shaw")
"""Encodings that are timed with 64, 256 and 1,024 patches."""

AGAIN = "none again"
"""A second model without encoding, beside the first: what differs is chance."""


def benchmark(
    *,
    recipe: str = "strong",
    overrides: Mapping[str, Any] | None = None,
    device: str = "auto",
    encodings: Sequence[str] | None = None,
    rounds: int = 20,
    timm: bool = True,
    profile: bool = False,
    budget: float | None = None,
) -> Benchmark:
    """Time training steps of every encoding and of timm's models on the same device, in turns.

    recipe, overrides: the recipe whose models and steps are timed, one for CIFAR-100, and keys to change. By
        default a step is compiled, and on a CPU the size is nano and the batch 128, as in mini.
    encodings: ``none`` is always included: it is the reference. By default all are timed, and afterwards
        `SCALED` with 64, 256 and 1,024 patches.
    timm: also time timm's own models.
    profile: also profile a step of ``roll``, or else of the first encoding.
    budget: seconds, of which a tenth is a reserve; most are spent on compiling. What does not fit is left
        out, lowest priority first, and named in the result: named encodings are begun until the reserve, and
        timm's models, the second model without encoding and the profile only if time is left after them.

    A model that fails is named in the result, too; only a failure of ``none`` is raised.

    Raises InputError for an unknown encoding or recipe, and for a recipe with other images.
    """
    options = dict(locals())  # for the recorded command
    torch_device, names = choose_device(device), _names(encodings)
    outside = sorted({file for name in names for file in outside_files(name)})
    started, source, start = now(), loaded_source(outside), time.perf_counter()
    timed = _timed_recipe(recipe, overrides or {}, torch_device)
    comparison = Comparison(timed, names, torch_device, rounds, start, budget or math.inf)
    shares = (0.5, 0.5) if encodings is None else (0.9, 0.75)  # more patches need the rest
    measured = comparison.time_encodings(shares, timm, profile)
    return Benchmark(
        recipe=recipe,
        size=timed.size,
        batch=timed.batch_size,
        image_size=32,
        patch_size=cast(int, timed.patch_size),
        compiled=bool(timed.compile),
        precision=timed.precision,
        scaling=comparison.time_scaling() if encodings is None else [],
        failed=comparison.failed,
        environment=environment(str(torch_device)),
        provenance=provenance(command_line(options, outside), started, time.perf_counter() - start, source),
        **measured,
    )


@dataclass
class Comparison:
    """Models whose training steps are timed in turns, on one device and within one budget.

    recipe: resolved for the device. names: encodings, ``none`` first. start: on the clock. budget: seconds.
    failed: errors of the models that could not be prepared or timed, in one line each.
    """

    recipe: Recipe
    names: Sequence[str]
    device: torch.device
    rounds: int
    start: float
    budget: float
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fewer_rounds = max(5, self.rounds // 4)
        self.mode = compile_mode(self.recipe, self.device)

    def deadline(self, share: float) -> float:
        """Time on the clock when this share of the budget has passed."""
        return self.start + share * self.budget

    def time_augmentation(self) -> float:
        """Seconds to augment a batch, as one of the many batches that training augments at once."""
        augmentation, batch = self.recipe.augmentation, self.recipe.batch_size
        augmenter = Augmenter(augmentation, (32, 32), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), 100)
        count = ahead(batch, 3 * 32 * 32)
        images = torch.randint(256, (count, batch, 3, 32, 32), dtype=torch.uint8).to(self.device)
        labels = torch.randint(100, (count, batch)).to(self.device)
        generator = torch.Generator().manual_seed(0)
        calls = {"augmentation": lambda: augmenter.batches(images, labels, generator)}
        seconds = interleaved(calls, self.fewer_rounds, self.device)["augmentation"]
        return statistics.median(seconds) / count

    def time_encodings(self, shares: tuple[float, float], timm: bool, profile: bool) -> dict[str, Any]:
        """Time every encoding, and timm's models in the same step.

        shares: of the budget, for preparing the encodings, and timm's models and the second model without
        encoding after them. Returns the measured fields of a `Benchmark`.
        """
        recipe, device, (share, share_of_extras) = self.recipe, self.device, shares
        peak, augmentation = matmul_peak(device, recipe.precision), self.time_augmentation()
        rank = {name: index for index, name in enumerate(PRIORITY)}
        ordered = sorted(self.names, key=lambda name: rank.get(name, len(rank)))
        builders = {name: self._ours(recipe, name) for name in ordered}
        none = builders.pop("none")
        extras = {AGAIN: none}
        for name in ordered:
            if timm and name in TIMM:
                build = partial(timm_model, recipe, name)
                extras[f"timm {name}"] = partial(Trial, build, recipe, self.mode, device)
        trials = {"none": none()} | prepare(builders, self.failed, self.deadline(share))
        trials |= prepare(extras, self.failed, self.deadline(share_of_extras))
        seconds = interleaved(trials, self.rounds, device, self.failed, self.deadline(share_of_extras + 0.1))
        if "none" in self.failed:
            raise RuntimeError(f"none, the reference of all others, failed: {self.failed['none']}")

        def timings(prefix: str = "") -> list[Timing]:
            compared = [(name, prefix + name, name if prefix else "none") for name in self.names]
            return [
                trials[key].timing(name, seconds[key], seconds[reference], peak, augmentation)
                for name, key, reference in compared
                if key in seconds and reference in seconds
            ]

        again = zip(seconds["none"], seconds.get(AGAIN, []), strict=False)
        known = trials.keys() | self.failed.keys()
        fields: dict[str, Any] = {
            "peak_gflops": peak,
            "augmentation_milliseconds": 1000 * augmentation,
            "rounds": len(seconds["none"]),
            "again": statistics.median(a / b for a, b in again) if AGAIN in seconds else None,
            "encodings": timings(),
            "timm": timings("timm "),
            "missing": [name for name in (*builders, *extras) if name not in known],
        }
        if profile and time.perf_counter() > self.deadline(0.9):
            fields["missing"].append("profile")
        elif profile:
            name = next(name for name in ("roll", *self.names[1:], "none") if name in seconds)
            fields["profile"] = f"three steps of {name}\n{profile_table(trials[name], device)}"
        forget(trials)
        return fields

    def time_scaling(self) -> list[Scaling]:
        """Time `SCALED` with 64, 256 and 1,024 patches, in batches with the same number of patches."""
        results: list[Scaling] = []
        for side in (8, 16, 32):
            patches, pixels = side**2, side * cast(int, self.recipe.patch_size)
            batch = max(1, self.recipe.batch_size * 64 // patches)
            recipe = self.recipe.model_copy(update={"batch_size": batch})
            builders = {f"{name}, {patches} patches": self._ours(recipe, name, pixels) for name in SCALED}
            trials = prepare(builders, self.failed, self.deadline(0.85))
            seconds = interleaved(trials, self.fewer_rounds, self.device, self.failed, self.deadline(0.9))
            for key, times in seconds.items():
                name, median = key.partition(",")[0], 1000 * statistics.median(times)
                results.append(Scaling(encoding=name, patches=patches, batch=batch, median=median))
            forget(trials)
        return results

    def _ours(self, recipe: Recipe, name: str, pixels: int = 32) -> Callable[[], Trial]:
        build = partial(our_model, recipe, name, pixels)
        return partial(Trial, build, recipe, self.mode, self.device, pixels)


def _names(encodings: Sequence[str] | None) -> list[str]:
    """``none``, and the given encodings or all that have two axes."""
    for name in encodings or ():
        if name not in ENCODINGS:
            raise InputError(f"encoding {name!r} is unknown. Allowed: {', '.join(ENCODINGS)}.")
    images = (name for name, encoding in ENCODINGS.items() if encoding.usual_axes > 1)
    return list(dict.fromkeys(["none", *(images if encodings is None else encodings)]))


def _timed_recipe(name: str, overrides: Mapping[str, Any], device: torch.device) -> Recipe:
    """The recipe of the timed steps, resolved for the device."""
    on_cpu = {"size": "nano", "batch_size": 128} if device.type == "cpu" else {}
    recipe = load_recipe(name, {"compile": True, **on_cpu, **overrides})
    if recipe.data != "cifar100":
        raise InputError(f"recipe {name!r} trains on {recipe.data}: the benchmark's images are CIFAR-100's.")
    return resolve(recipe, device, held_out=0)


def command_line(options: Mapping[str, Any], outside: Sequence[Path] = ()) -> str:
    """The command line that calls `benchmark` with these options, after importing the files ``outside``."""
    words = ["rollpe", "bench"]
    for name in ("recipe", "device", "rounds"):
        words += [f"--{name}", str(options[name])]
    for key, value in (options["overrides"] or {}).items():
        words += ["--set", f"{key}={value}"]
    for file in outside:
        words += ["--import", os.path.relpath(file)]
    if options["encodings"] is not None:
        words += ["--encodings", ",".join(options["encodings"]) or "none"]
    words += [] if options["timm"] else ["--no-timm"]
    words += ["--profile"] if options["profile"] else []
    words += ["--budget", f"{options['budget']:.0f}s"] if options["budget"] else []
    return shlex.join(words)
