"""The whole benchmark: every encoding beside none, ours beside timm's, augmentation, variants, scaling.

Here: what is measured, in which order, under one budget of time. Not here: timing one model (timing.py), the
variants (variants.py), the result (report.py).
"""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from rollpe.bench.report import Benchmark, Scaling, Timing, VariantTiming
from rollpe.bench.timing import (
    TIMM,
    TimeBudget,
    Trial,
    _our_model,
    _timing,
    _timm_model,
    effort,
    forget,
    interleaved,
    matmul_peak,
    profile,
)
from rollpe.bench.variants import _variants
from rollpe.encodings import ENCODINGS
from rollpe.errors import InputError
from rollpe.records.origin import environment, loaded_source, now, provenance
from rollpe.training.augment import Augmenter
from rollpe.training.compiling import CompileMode, compile_mode
from rollpe.training.device import choose_device
from rollpe.training.recipe import Recipe, load_recipe
from rollpe.training.state import ahead, resolve

WANTED = ("none", "axial-rope", "roll", "learned", "multiplexed-roll", "mixed-rope", "roll-twin")
"""Encodings to time first when time is short."""

SCALED = ("none", "axial-rope", "roll", "shaw")
"""Encodings to time with more and more patches."""


def _augmentation(recipe: Recipe, place: torch.device, rounds: int) -> list[VariantTiming]:
    """Seconds of augmenting one batch: alone, and as one of the many that training prepares at once."""
    augmenter = Augmenter(recipe.augmentation, (32, 32), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), 100)
    batch = recipe.batch_size
    many = ahead(batch, 3 * 32 * 32)
    images = torch.randint(256, (many, batch, 3, 32, 32), dtype=torch.uint8).to(place)
    labels = torch.randint(100, (many, batch)).to(place)
    generator = torch.Generator().manual_seed(0)
    seconds = interleaved(
        {
            "one": lambda: augmenter(images[0], labels[0], generator),
            "many": lambda: augmenter.batches(images, labels, generator),
        },
        rounds,
        place,
    )
    one = statistics.median(seconds["one"])
    each = statistics.median(seconds["many"]) / many
    return [
        VariantTiming(
            name="augmentation batch by batch",
            description="each operation on the few images of one batch that drew it",
            of="augmentation",
            against="augmentation batch by batch",
            expected=(1, 1),
            batch=batch,
            milliseconds=1000 * one,
            gain=1.0,
        ),
        VariantTiming(
            name="augmentation ahead",
            description=f"each operation on all images of {many} batches that drew it",
            of="augmentation",
            against="augmentation batch by batch",
            expected=(2, 5) if place.type == "cpu" else (5, 30),
            batch=batch,
            milliseconds=1000 * each,
            gain=one / each,
        ),
    ]


def _scaling(
    names: Sequence[str],
    recipe: Recipe,
    mode: CompileMode,
    place: torch.device,
    rounds: int,
    budget_left: TimeBudget,
) -> tuple[list[Scaling], dict[str, str]]:
    """Steps with 64, 256 and 1,024 patches, with fewer images where patches are more, and what failed."""
    grown: list[Scaling] = []
    failed: dict[str, str] = {}
    for side in (8, 16, 32):
        images, pixels = max(1, recipe.batch_size * 64 // side**2), side * recipe.patch_size
        fewer = recipe.model_copy(update={"batch_size": images})
        shapes = {
            n: partial(Trial, partial(_our_model, fewer, n, pixels), fewer, mode, place, pixels)
            for n in names
        }
        broken: dict[str, str] = {}
        ready = budget_left.prepare(shapes, 0.85, broken, dict.fromkeys(shapes, effort(mode)))
        for name, times in interleaved(ready, rounds, place, broken, budget_left.until(0.9)).items():
            median = 1000 * statistics.median(times)
            grown.append(Scaling(encoding=name, patches=side**2, batch=images, median=median))
        failed |= {f"{name}, {side**2} patches": reason for name, reason in broken.items()}
        forget(ready)
    return grown, failed


# The whole


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
    """Time training steps of every encoding and of timm's models on the same device, taking turns.

    recipe, overrides: whose models and steps are timed, one for CIFAR-100, some of its keys changed.
    size, batch: default to the recipe's on an accelerator; on a CPU nano and 128, as mini trains.
    encodings: default to all; ``none`` is always among them, as the reference.
    compiled: as the recipe says, or as is fastest; otherwise nothing is compiled.
    timm: also time timm's own models. scaling: also time a few encodings with 64, 256 and 1,024 patches.
    variants: also time `VARIANTS`.
    profiles: also list what the device does in a step of ``none`` and of ``roll``, or of the first other.
    budget: seconds, of which a tenth is kept for what cannot be foreseen; most go into compiling. What does
        not fit is left out, least wanted first, and named.

    What breaks is left out and named, too, with its error. Only ``none`` has to work.

    Raises InputError for an encoding or a recipe that does not exist, and for a recipe of other images.
    """
    budget_left, source = TimeBudget(budget), loaded_source()
    place = choose_device(device)
    for name in encodings or ():
        if name not in ENCODINGS:
            raise InputError(f"encoding {name!r} is unknown. Allowed: {', '.join(ENCODINGS)}.")
        if name == "rope":
            raise InputError("encoding 'rope' has one axis and images have two: time 'axial-rope'.")
    changed = dict(overrides or {})
    asked = load_recipe(recipe, changed)
    if asked.data != "cifar100":
        raise InputError(
            f"recipe {recipe!r} trains on {asked.data}: the benchmark's images are as CIFAR-100's."
        )
    on_cpu = place.type == "cpu"
    size, batch = size or ("nano" if on_cpu else asked.size), batch or (128 if on_cpu else asked.batch_size)
    how = asked.compile if asked.compile in ("default", "max-autotune") else True
    settings = {"compile": compiled and how, "size": size, "batch_size": batch}
    made = resolve(load_recipe(recipe, changed | settings), place, held_out=0)
    mode = compile_mode(made, place)
    asked_for = ENCODINGS if encodings is None else dict.fromkeys(encodings)
    names = ["none", *(n for n in asked_for if n not in ("none", "rope"))]  # rope is 1-D
    began, clock = now(), time.perf_counter()
    peak = matmul_peak(place, made.precision)
    few = max(5, rounds // 4)
    augmentation = _augmentation(made, place, few)
    each = (augmentation[1].milliseconds or 0.0) / 1000

    wanted: dict[str, Callable[[], Trial]] = {}
    for name in sorted(names, key=lambda n: WANTED.index(n) if n in WANTED else len(WANTED)):
        wanted[name] = partial(Trial, partial(_our_model, made, name), made, mode, place, 32)
        if timm and name in TIMM:
            their = partial(_timm_model, made, name)
            wanted[f"timm {name}"] = partial(Trial, their, made, mode, place, 32)
            wanted[f"plain {name}"] = partial(Trial, their, made, None, place, 32)
    share = 0.4 if variants else 0.5 if scaling else 0.75
    failed: dict[str, str] = {}
    efforts = {name: effort(None if name.startswith("plain ") else mode) for name in wanted}
    first = {"none": wanted.pop("none")}  # if it breaks, nothing can be compared
    trials = budget_left.prepare(first, share, effort=efforts)
    trials |= budget_left.prepare(wanted, share, failed, efforts)
    seconds = interleaved(trials, rounds, place, failed, budget_left.until(share + 0.1))
    if "none" in failed:
        raise RuntimeError(f"none, which all others are compared with, failed: {failed['none']}")

    def timings(prefix: str, reference: Callable[[str], str], extra: float | None) -> list[Timing]:
        measured = [n for n in names if prefix + n in seconds and reference(n) in seconds]
        return [
            _timing(n, trials[prefix + n], seconds[prefix + n], seconds[reference(n)], peak, extra)
            for n in measured
        ]

    of_ours = timings("", lambda name: "none", each)
    of_timm = timings("timm ", lambda name: name, each)
    of_plain = timings("plain ", lambda name: name, None)
    missing = [name for name in wanted if name not in trials and name not in failed]
    tables = {}
    if profiles:
        chosen = ["none", *(["roll"] if "roll" in names else names[1:2])]
        tables = {name: profile(trials[name], place) for name in chosen if name in seconds}
    forget(trials)

    told = augmentation
    if variants:
        told = [*_variants(made, place, rounds, budget_left), *augmentation]

    grown: list[Scaling] = []
    if scaling:
        some = [name for name in SCALED if name in names]
        grown, broken = _scaling(some, made, mode, place, few, budget_left)
        failed |= broken

    return Benchmark(
        recipe=recipe,
        size=size,
        image_size=32,
        patch_size=made.patch_size,
        batch=batch,
        compiled=compiled,
        precision=made.precision,
        rounds=len(seconds["none"]),
        peak_gflops=peak,
        augmentation_milliseconds=1000 * each,
        encodings=of_ours,
        timm=of_timm,
        plain=of_plain,
        missing=missing,
        failed=failed,
        variants=told,
        scaling=grown,
        profiles=tables,
        environment=environment(str(place)),
        provenance=provenance(
            _command(
                *(recipe, changed, device, size, batch, encodings, rounds, budget),
                compiled=compiled,
                timm=timm,
                scaling=scaling,
                variants=variants,
                profiles=profiles,
            ),
            *(began, time.perf_counter() - clock, source),
        ),
    )


def _command(
    recipe: str,
    overrides: Mapping[str, Any],
    device: str,
    size: str,
    batch: int,
    encodings: Sequence[str] | None,
    rounds: int,
    budget: float | None,
    **flags: bool,
) -> str:
    words = ["rollpe", "bench", "--recipe", recipe, "--device", device, "--size", size]
    words += ["--batch", str(batch), "--rounds", str(rounds)]
    words += [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    words += [] if encodings is None else ["--encodings", ",".join(encodings) or "none"]
    words += [] if flags["compiled"] else ["--eager"]
    words += [f"--no-{name}" for name in ("timm", "scaling") if not flags[name]]
    words += ["--variants"] if flags["variants"] else []
    words += ["--profile"] if flags["profiles"] else []
    words += ["--budget", f"{budget:.0f}s"] if budget else []
    return shlex.join(words)
