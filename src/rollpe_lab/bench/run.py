"""The whole benchmark: what is timed, and beside what."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from rollpe.encodings import ENCODINGS, outside_files
from rollpe.errors import InputError
from rollpe_lab.bench.report import Benchmark, Timing
from rollpe_lab.bench.timing import TIMM, Trial, interleaved, matmul_peak, our_model, prepare, timm_model
from rollpe_lab.records.provenance import environment, loaded_source, now, provenance
from rollpe_lab.training.compiling import compile_mode
from rollpe_lab.training.device import choose_device, keep_freed_memory
from rollpe_lab.training.models import resolve
from rollpe_lab.training.recipe import Recipe, load_recipe

ROUNDS = 20
"""Steps of every model that are timed, on CUDA five in a row."""


def benchmark(
    *,
    recipe: str = "strong",
    overrides: Mapping[str, Any] | None = None,
    device: str = "auto",
    encodings: Sequence[str] | None = None,
) -> Benchmark:
    """Time training steps of every encoding and of timm's models on the same device, in turns.

    recipe, overrides: the recipe whose models and steps are timed, one for CIFAR-100, and keys to change. By
        default a step is compiled, and on a CPU the size is nano and the batch 128, as in mini.
    encodings: by default all that have two axes. ``none`` is always included: it is the reference.

    A model that cannot be prepared is named in the result; a failure of ``none``, and of a timed step, is
    raised.

    Raises InputError for an unknown encoding or recipe, and for a recipe with other images.
    """
    torch_device, names = choose_device(device), _names(encodings)
    if torch_device.type == "cpu":
        keep_freed_memory()  # as in training
    outside = sorted({file for name in names for file in outside_files(name)})
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    started, source, start = now(), loaded_source(outside), time.perf_counter()
    timed = _timed_recipe(recipe, overrides or {}, torch_device)
    peak, mode = matmul_peak(torch_device, timed.precision), compile_mode(timed, torch_device)
    models: dict[str, Callable[[], nn.Module]] = {name: partial(our_model, timed, name) for name in names}
    models |= {f"timm {name}": partial(timm_model, timed, name) for name in names if name in TIMM}
    builders = {key: partial(Trial, build, timed, mode, torch_device) for key, build in models.items()}
    failed: dict[str, str] = {}
    trials = {"none": builders.pop("none")()} | prepare(builders, failed)
    seconds = interleaved(trials, ROUNDS, torch_device)

    def timings(prefix: str = "") -> list[Timing]:
        compared = [(name, prefix + name, name if prefix else "none") for name in names]
        return [
            trials[key].timing(name, seconds[key], seconds[reference], peak)
            for name, key, reference in compared
            if key in seconds
        ]

    return Benchmark(
        recipe=recipe,
        size=timed.size,
        batch=timed.batch_size,
        image_size=32,
        patch_size=cast(int, timed.patch_size),
        compiled=bool(timed.compile),
        precision=timed.precision,
        rounds=ROUNDS,
        peak_gflops=peak,
        encodings=timings(),
        timm=timings("timm "),
        failed=failed,
        environment=environment(str(torch_device)),
        provenance=provenance(command, started, time.perf_counter() - start, source),
    )


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
