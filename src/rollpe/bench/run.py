"""The whole benchmark: every encoding beside none, ours beside timm's, rotations alone, and more.

Here: what is measured, in which order, within one time budget. Not here: timing one model (timing.py), the
variants (variants.py), the rotations (alone.py), the result (report.py).
"""

from __future__ import annotations

import os.path
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rollpe.bench.alone import CALLS, queries_and_keys, rotations, several
from rollpe.bench.report import Alone, Benchmark, Scaling, Timing, VariantTiming
from rollpe.bench.timing import (
    TIMM,
    TimeBudget,
    Trial,
    forget,
    interleaved,
    matmul_peak,
    our_model,
    preparation_cost,
    profile,
    timm_model,
)
from rollpe.bench.variants import time_variants
from rollpe.encodings import ENCODINGS, outside_files
from rollpe.errors import InputError
from rollpe.records.origin import environment, loaded_source, now, provenance
from rollpe.training.augment import Augmenter
from rollpe.training.compiling import compile_mode
from rollpe.training.device import choose_device
from rollpe.training.recipe import Recipe, load_recipe
from rollpe.training.state import ahead, resolve

PRIORITY = (
    *("none", "axial-rope", "roll", "twisted-roll"),
    *("learned", "multiplexed-roll", "mixed-rope", "roll-twin"),
)
"""Encodings that are timed first, since a budget may not suffice for all."""

OF_SEQUENCES = ("rope", "xpos")
"""Encodings of one axis, which images refuse."""

SCALED = ("none", "axial-rope", "roll", "shaw")
"""Encodings that are timed with 64, 256 and 1,024 patches."""


def benchmark(
    *,
    recipe: str = "strong",
    overrides: Mapping[str, Any] | None = None,
    device: str = "auto",
    size: str | None = None,
    batch: int | None = None,
    encodings: Sequence[str] | None = None,
    compiled: bool = True,
    rounds: int = 20,
    timm: bool = True,
    scaling: bool = True,
    variants: bool = False,
    profiles: bool = False,
    budget: float | None = None,
) -> Benchmark:
    """Time training steps of every encoding and of timm's models on the same device, in turns.

    recipe, overrides: the recipe whose models and steps are timed, one for CIFAR-100, and keys to change.
    size, batch: default to the recipe's on an accelerator, and to nano and 128, as in mini, on a CPU.
    encodings: default to all. ``none`` is always included: it is the reference.
    compiled: compile as the recipe says, or else what is fastest; False compiles nothing.
    timm: also time timm's own models, and our rotations alone beside timm's and Hugging Face's.
    scaling: also time `SCALED` with 64, 256 and 1,024 patches.
    variants: also time `VARIANTS`.
    profiles: also profile a step of ``none`` and of ``roll``, or of the first other encoding.
    budget: seconds, of which a tenth is a reserve; most are spent on compiling. What does not fit is left
        out, lowest priority first, and named in the result. Named encodings come before timm's models.

    A model that fails is named in the result, too; only a failure of ``none`` is raised.

    Raises InputError for an unknown encoding or recipe, and for a recipe with other images.
    """
    options = dict(locals())  # for the recorded command
    torch_device, names = choose_device(device), _names(encodings)
    outside = sorted({file for name in names for file in outside_files(name)})
    started, source, time_budget = now(), loaded_source(outside), TimeBudget(budget)
    timed = _timed_recipe(recipe, overrides or {}, torch_device, size, batch, compiled)
    comparison = Comparison(timed, names, torch_device, rounds, time_budget, named=encodings is not None)
    measured = comparison.measure(timm=timm, scaling=scaling, variants=variants, profiles=profiles)
    command = command_line(options | {"size": timed.size, "batch": timed.batch_size}, outside)
    seconds = time.perf_counter() - time_budget.start
    return Benchmark(
        recipe=recipe,
        size=timed.size,
        batch=timed.batch_size,
        image_size=32,
        patch_size=_patch(timed),
        compiled=compiled,
        precision=timed.precision,
        environment=environment(str(torch_device)),
        provenance=provenance(command, started, seconds, source),
        **measured,
    )


class Comparison:
    """Models whose training steps are timed in turns, on one device and within one time budget.

    recipe: resolved for the device. names: encodings, ``none`` first. named: whether somebody asked for
    these; then they come before all that comes with them.
    failed: errors of the models that could not be prepared or timed, in one line each.
    """

    def __init__(
        self,
        recipe: Recipe,
        names: Sequence[str],
        device: torch.device,
        rounds: int,
        budget: TimeBudget,
        named: bool = False,
    ) -> None:
        self.recipe, self.names, self.device, self.budget, self.named = recipe, names, device, budget, named
        self.rounds, self.fewer_rounds = rounds, max(5, rounds // 4)
        self.mode = compile_mode(recipe, device)
        self.failed: dict[str, str] = {}

    def measure(self, *, timm: bool, scaling: bool, variants: bool, profiles: bool) -> dict[str, Any]:
        """All stages in turn; returns the measured fields of a `Benchmark`."""
        peak = matmul_peak(self.device, self.recipe.precision)
        augmentation = self.time_augmentation()
        milliseconds = augmentation[-1].milliseconds or 0.0
        # of the budget; later stages need the rest, but scaling costs no encoding that was named
        share = 0.4 if variants else 0.5 if scaling and not self.named else 0.75
        fields = self.time_encodings(peak, milliseconds / 1000, share, timm, profiles)
        alternatives = time_variants(self.recipe, self.device, self.rounds, self.budget) if variants else []
        return fields | {
            "peak_gflops": peak,
            "augmentation_milliseconds": milliseconds,
            "variants": [*alternatives, *augmentation],
            "alone": self.time_alone() if timm else [],
            "scaling": self.time_scaling() if scaling else [],
            "failed": self.failed,
        }

    def time_augmentation(self) -> list[VariantTiming]:
        """Time of augmenting a batch alone, and as one of the many batches that training augments at once."""
        augmentation, batch = self.recipe.augmentation, self.recipe.batch_size
        augmenter = Augmenter(augmentation, (32, 32), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), 100)
        count = ahead(batch, 3 * 32 * 32)
        images = torch.randint(256, (count, batch, 3, 32, 32), dtype=torch.uint8).to(self.device)
        labels = torch.randint(100, (count, batch)).to(self.device)
        generator = torch.Generator().manual_seed(0)
        calls: dict[str, Callable[[], object]] = {
            "one": lambda: augmenter(images[0], labels[0], generator),
            "many": lambda: augmenter.batches(images, labels, generator),
        }
        seconds = interleaved(calls, self.fewer_rounds, self.device)
        alone, at_once = statistics.median(seconds["one"]), statistics.median(seconds["many"]) / count
        timing = partial(VariantTiming, of="augmentation", against="augmentation batch by batch", batch=batch)
        return [
            timing(
                name="augmentation batch by batch",
                description="each operation applied to the images of one batch that drew it",
                expected=(1, 1),
                milliseconds=1000 * alone,
                gain=1.0,
            ),
            timing(
                name="augmentation ahead",
                description=f"each operation applied to the images of {count} batches that drew it",
                expected=(2, 5) if self.device.type == "cpu" else (5, 30),
                milliseconds=1000 * at_once,
                gain=alone / at_once,
            ),
        ]

    def time_encodings(
        self, peak: float, augmentation: float, share: float, timm: bool, profiles: bool
    ) -> dict[str, Any]:
        """Time every encoding, and timm's models in the same step and in a plain one.

        peak: GFLOP/s. augmentation: seconds a batch. share: of the budget, to prepare the models in.
        """
        recipe, mode, device = self.recipe, self.mode, self.device
        builders: dict[str, Callable[[], Trial]] = {}
        for name in sorted(self.names, key=lambda n: PRIORITY.index(n) if n in PRIORITY else len(PRIORITY)):
            builders[name] = partial(Trial, partial(our_model, recipe, name), recipe, mode, device)
            if timm and name in TIMM:
                build = partial(timm_model, recipe, name)
                builders[f"timm {name}"] = partial(Trial, build, recipe, mode, device)
                builders[f"plain {name}"] = partial(Trial, build, recipe, None, device)
        if self.named:
            builders = dict(sorted(builders.items(), key=lambda item: item[0] not in self.names))
        costs = {n: preparation_cost(None if n.startswith("plain ") else mode) for n in builders}
        none = {"none": builders.pop("none")}  # without it nothing can be compared, so its error is raised
        trials = self.budget.prepare(none, share, costs=costs)
        trials |= self.budget.prepare(builders, share, self.failed, costs)
        deadline = self.budget.deadline(share + 0.1)
        seconds = interleaved(trials, self.rounds, device, self.failed, deadline)
        if "none" in self.failed:
            raise RuntimeError(f"none, the reference of all others, failed: {self.failed['none']}")

        def timings(prefix: str, augmentation: float | None) -> list[Timing]:
            compared = [(name, prefix + name, name if prefix else "none") for name in self.names]
            return [
                trials[key].timing(name, seconds[key], seconds[reference], peak, augmentation)
                for name, key, reference in compared
                if key in seconds and reference in seconds
            ]

        profiled = ["none", *(["roll"] if "roll" in self.names else self.names[1:2])] if profiles else []
        fields = {
            "rounds": len(seconds["none"]),
            "encodings": timings("", augmentation),
            "timm": timings("timm ", augmentation),
            "plain": timings("plain ", None),
            "missing": [name for name in builders if name not in trials and name not in self.failed],
            "profiles": {name: profile(trials[name], device) for name in profiled if name in seconds},
        }
        forget(trials)
        return fields

    def time_alone(self) -> list[Alone]:
        """Rotations of q and k beside timm's and rotate_half, eager and, unless all is eager, compiled."""
        results: list[Alone] = []
        q, k = queries_and_keys(self.recipe, self.device)
        for compiled in (False, True) if self.recipe.compile else (False,):
            for encoding, other, *pair in rotations(self.recipe, self.device):
                if time.perf_counter() > self.budget.deadline(0.85):
                    return results
                calls = {
                    who: partial(several, torch.compile(rotate) if compiled else rotate, q, k)
                    for who, rotate in zip(("ours", "theirs"), pair, strict=True)
                }
                failed: dict[str, str] = {}
                seconds = interleaved(calls, self.rounds, self.device, failed)
                if failed:
                    mode = "compiled" if compiled else "eager"
                    self.failed[f"{encoding} alone, {mode}"] = next(iter(failed.values()))
                    continue
                ours, theirs = ([1000 / CALLS * t for t in seconds[who]] for who in calls)
                results.append(
                    Alone(
                        encoding=encoding,
                        other=other,
                        compiled=compiled,
                        ours=statistics.median(ours),
                        theirs=statistics.median(theirs),
                        ratio=statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
                    )
                )
        torch.compiler.reset()
        return results

    def time_scaling(self) -> list[Scaling]:
        """Time `SCALED` with 64, 256 and 1,024 patches, in batches with the same number of patches."""
        results: list[Scaling] = []
        for side in (8, 16, 32):
            patches, pixels = side**2, side * _patch(self.recipe)
            batch = max(1, self.recipe.batch_size * 64 // patches)
            recipe = self.recipe.model_copy(update={"batch_size": batch})
            builders: dict[str, Callable[[], Trial]] = {}
            for name in (name for name in SCALED if name in self.names):
                build = partial(our_model, recipe, name, pixels)
                builders[name] = partial(Trial, build, recipe, self.mode, self.device, pixels)
            failed: dict[str, str] = {}
            costs = dict.fromkeys(builders, preparation_cost(self.mode))
            trials = self.budget.prepare(builders, 0.85, failed, costs)
            seconds = interleaved(trials, self.fewer_rounds, self.device, failed, self.budget.deadline(0.9))
            for name, times in seconds.items():
                median = 1000 * statistics.median(times)
                results.append(Scaling(encoding=name, patches=patches, batch=batch, median=median))
            self.failed |= {f"{name}, {patches} patches": reason for name, reason in failed.items()}
            forget(trials)
        return results


def _names(encodings: Sequence[str] | None) -> list[str]:
    """``none``, and the given encodings or all that have two axes."""
    for name in encodings or ():
        if name not in ENCODINGS:
            raise InputError(f"encoding {name!r} is unknown. Allowed: {', '.join(ENCODINGS)}.")
        if name in OF_SEQUENCES:
            raise InputError(f"encoding {name!r} has one axis and images have two: time 'axial-rope'.")
    selected = ENCODINGS if encodings is None else encodings
    return list(dict.fromkeys(["none", *(name for name in selected if name not in OF_SEQUENCES)]))


def _timed_recipe(
    name: str,
    overrides: Mapping[str, Any],
    device: torch.device,
    size: str | None,
    batch: int | None,
    compiled: bool,
) -> Recipe:
    """The recipe of the timed steps, resolved for the device."""
    recipe = load_recipe(name, overrides)
    if recipe.data != "cifar100":
        raise InputError(
            f"recipe {name!r} trains on {recipe.data}: the benchmark's images have CIFAR-100's shape."
        )
    on_cpu = device.type == "cpu"
    mode = recipe.compile if recipe.compile in ("default", "max-autotune") else True
    settings = {
        "compile": compiled and mode,
        "size": size or ("nano" if on_cpu else recipe.size),
        "batch_size": batch or (128 if on_cpu else recipe.batch_size),
    }
    return resolve(load_recipe(name, {**overrides, **settings}), device, held_out=0)


def _patch(recipe: Recipe) -> int:
    assert recipe.patch_size is not None  # the timed recipes are of images
    return recipe.patch_size


def command_line(options: Mapping[str, Any], outside: Sequence[Path] = ()) -> str:
    """The command line that calls `benchmark` with these options, after importing the files ``outside``."""
    words = ["rollpe", "bench"]
    for name in ("recipe", "device", "size", "batch", "rounds"):
        words += [f"--{name}", str(options[name])]
    for key, value in (options["overrides"] or {}).items():
        words += ["--set", f"{key}={value}"]
    for file in outside:
        words += ["--import", os.path.relpath(file)]
    if options["encodings"] is not None:
        words += ["--encodings", ",".join(options["encodings"]) or "none"]
    words += [] if options["compiled"] else ["--eager"]
    words += [f"--no-{name}" for name in ("timm", "scaling") if not options[name]]
    words += ["--variants"] if options["variants"] else []
    words += ["--profile"] if options["profiles"] else []
    words += ["--budget", f"{options['budget']:.0f}s"] if options["budget"] else []
    return shlex.join(words)
