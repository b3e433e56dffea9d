"""Timing training steps: one model and one batch of random images, called again and again.

The models and the step are those of training (rollpe.training), so each finds on disk what the other
compiled. All models of a comparison take turns, round by round, so that everything else on the machine
affects all of them alike; medians and quartiles are over rounds. Here: one timed model, taking turns, the
budget of time, the peak that shares refer to. Not here: which models are compared (run.py, variants.py).
"""

from __future__ import annotations

import copy
import gc
import logging
import math
import statistics
import textwrap
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from rollpe.bench.report import Timing
from rollpe.records.record import Cell
from rollpe.training.compiling import CompileMode
from rollpe.training.recipe import Recipe
from rollpe.training.state import create_model
from rollpe.training.step import Step, create_optimizers
from rollpe.vit import SIZES, VisionTransformer

logger = logging.getLogger(__name__)

TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("vit_small_patch16_224", {"pos_embed": "none"}),
    "learned": ("vit_small_patch16_224", {}),
    "axial-rope": ("vit_small_patch16_rope_224", {"init_values": None}),
    "mixed-rope": ("vit_small_patch16_rope_mixed_224", {"init_values": None}),
}
"""timm's own model for an encoding that timm has, too, and the settings that make it comparable."""


class Trial:
    """Training steps of one model on one batch of random images, to be called again and again.

    mode: how the step is computed; None is `plain_step`.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        recipe: Recipe,
        mode: CompileMode | None,
        place: torch.device,
        size: int,
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        batch, cuda = recipe.batch_size, place.type == "cuda"
        self.images = torch.randn(batch, 3, size, size, generator=generator).to(place)
        labels = torch.randint(100, (batch,), generator=generator)
        mixed = recipe.augmentation.mixup or recipe.augmentation.cutmix
        self.targets = (F.one_hot(labels, 100).float() if mixed else labels).to(place)
        if cuda:
            before = torch.cuda.memory_allocated(place)
        self.model = build().to(place).train()
        self.gflop = self._count()
        self.step: Callable[..., object]
        if mode is None:
            self.step = plain_step(self.model, recipe, place)
        else:
            average = copy.deepcopy(self.model) if recipe.ema else None
            optimizers = create_optimizers(self.model, recipe, mode)
            self.step = Step(self.model, recipe, optimizers, mode, average=average)
        begun = time.perf_counter()
        self()  # compiles the loss; its first update is eager
        synchronize(place)
        if cuda:  # what choosing kernels took is gone by now
            torch.cuda.reset_peak_memory_stats(place)
        self()  # compiles the update and records CUDA graphs, which later steps replay
        synchronize(place)
        self.ready_seconds = time.perf_counter() - begun
        self.memory = (torch.cuda.max_memory_allocated(place) - before) / 2**20 if cuda else None

    def __call__(self) -> None:
        self.step(self.images, self.targets, 1e-5)

    def _count(self) -> float:
        """Floating-point operations of forward and backward, in 10⁹, counted by torch on one and two images.

        What the second image adds, every other adds too; what it does not add is done once a step. What a
        fused attention computes twice counts once.
        """
        counted = []
        for images in (self.images[:1], self.images[:1].repeat(2, 1, 1, 1)):
            with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
                self.model(images).sum().backward()
            counted.append(counter.get_total_flops())
        self.model.zero_grad()
        one, two = counted
        return (one + (two - one) * (len(self.images) - 1)) / 1e9


class TimeBudget:
    """A budget of seconds: what would be ready too late, judging by the slowest so far, is not begun.

    The very first also starts the compiler; as soon as there is another, it is no measure any more.
    """

    def __init__(self, budget: float | None) -> None:
        self.budget = math.inf if budget is None else budget
        self.begun = time.perf_counter()
        self.took: list[float] = []  # seconds, as of an effort of 1

    def until(self, share: float) -> float:
        """The time on the clock when that share of the budget is used up."""
        return self.begun + share * self.budget

    def prepare(
        self,
        wanted: Mapping[str, Callable[[], Trial]],
        until: float,
        failed: dict[str, str] | None = None,
        effort: Mapping[str, float] | None = None,
    ) -> dict[str, Trial]:
        """The trials, in order of want, that are ready at that share of the budget; the very first anyway.

        failed: gets the error of each that breaks, by name; without it, the error is raised.
        effort: of getting one ready, where it is not 1: what is seen of others is scaled by it.
        """
        ready: dict[str, Trial] = {}
        for name, make in tqdm(wanted.items(), desc="preparing", disable=None):
            before, times = time.perf_counter(), (effort or {}).get(name, 1.0)
            likely = times * max(self.took[1:] or self.took, default=0.0)
            if self.took and before + likely > self.until(until):
                break
            try:
                ready[name] = make()
            except Exception as error:
                if failed is None:
                    raise
                failed[name] = in_a_line(name, error)
            if name not in ready:
                release()  # only now: the error held what the trial had made
            self.took.append((time.perf_counter() - before) / times)
        return ready


def effort(mode: CompileMode | None) -> float:
    """CompileMode long a step so computed takes to be ready, beside a compiled one: a guess to plan with."""
    if mode is None or mode.gradient is None:
        return 0.2
    return 8.0 if mode.gradient == "max-autotune" else 1.0


def in_a_line(name: str, error: Exception) -> str:
    """An error as a table can hold it; all of it goes to the log."""
    logger.warning("%s failed", name, exc_info=error)
    first = next(iter(str(error).strip().splitlines()), "")
    short = textwrap.shorten(f"{type(error).__name__}: {first}", 160, placeholder=" …")
    return short.replace("|", "¦")


def release() -> None:
    """Give back the memory of trials that are dropped: each refers to itself."""
    gc.collect()
    if torch.cuda.is_initialized():
        with suppress(RuntimeError):  # a device that broke tells everybody so
            torch.cuda.empty_cache()


def forget(trials: dict[str, Trial]) -> None:
    """Drop trials with their compiled programs and their graphs, which hold memory."""
    trials.clear()
    torch.compiler.reset()
    release()


def plain_step(model: nn.Module, recipe: Recipe, place: torch.device) -> Callable[..., None]:
    """The step of most training scripts: nothing compiled, torch's defaults, the loss read each time."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=recipe.weight_decay)
    half = recipe.precision.startswith("bfloat16")

    def step(inputs: Tensor, targets: Tensor, rate: float) -> None:
        optimizer.zero_grad()
        with torch.autocast(place.type, torch.bfloat16, enabled=half):
            loss = F.cross_entropy(model(inputs), targets, label_smoothing=recipe.label_smoothing)
        loss.backward()
        if recipe.gradient_clip:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.gradient_clip)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        loss.item()

    return step


def synchronize(place: torch.device) -> None:
    """Wait for the device, so that a clock sees its work."""
    if place.type == "cuda":
        torch.cuda.synchronize(place)


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    rounds: int,
    place: torch.device,
    failed: dict[str, str] | None = None,
    until: float = math.inf,
) -> dict[str, list[float]]:
    """Seconds of every call in every round; within a round all take turns, in rotating order.

    A turn is one call. On CUDA it is five and their mean: training, too, runs ahead of the device. One more
    round comes first and is not counted.

    failed: gets the error of each call that breaks, by name, which is then left out; without it, the error
        is raised.
    until: time on the clock after which no round but the first two shall end.
    """
    names = list(calls)
    repeat = 5 if place.type == "cuda" else 1
    seconds: dict[str, list[float]] = {name: [] for name in names}
    longest = 0.0
    for r in tqdm(range(rounds + 1 if names else 0), desc="timing", disable=None):
        before = time.perf_counter()
        if r > 2 and before + longest > until:
            break
        for name in names[r % len(names) :] + names[: r % len(names)]:
            if name not in seconds:
                continue
            try:
                synchronize(place)
                begun = time.perf_counter()
                for _ in range(repeat):
                    calls[name]()
                synchronize(place)
                seconds[name].append((time.perf_counter() - begun) / repeat)
            except Exception as error:
                if failed is None:
                    raise
                failed[name] = in_a_line(name, error)
                del seconds[name]
        longest = max(longest, time.perf_counter() - before)
    return {name: times[1:] for name, times in seconds.items()}


def matmul_peak(place: torch.device, precision: str, side: int | None = None) -> float:
    """Largest rate of a square matrix product seen in ten tries, in GFLOP/s."""
    side = side or (8192 if place.type == "cuda" else 1024)
    dtype = torch.bfloat16 if precision.startswith("bfloat16") else torch.float32
    a, b = (torch.randn(side, side, device=place).to(dtype) for _ in range(2))
    times = interleaved({"product": lambda: torch.mm(a, b)}, 10, place)["product"]
    return 2 * side**3 / min(times) / 1e9


def profile(trial: Trial, place: torch.device, steps: int = 3) -> str:
    """Where the time of some steps goes: CUDA's kernels, or the operators of a CPU, the 40 longest."""
    activity, time_of = torch.profiler.ProfilerActivity.CPU, "self_cpu_time_total"
    if place.type == "cuda":
        activity, time_of = torch.profiler.ProfilerActivity.CUDA, "self_device_time_total"
    trial()
    synchronize(place)
    with torch.profiler.profile(activities=[activity]) as seen:
        for _ in range(steps):
            trial()
        synchronize(place)
    table: str = seen.key_averages().table(sort_by=time_of, row_limit=40, max_name_column_width=100)
    return f"{steps} steps\n{table}"


def _our_model(recipe: Recipe, encoding: str, pixels: int = 32) -> VisionTransformer:
    """The model that training makes of a recipe, for images of another size if asked."""
    cell = Cell(recipe=recipe.name, encoding=encoding, encoding_options={}, seed=0)
    with warnings.catch_warnings():  # a ring too short for a large grid is as fast as any other
        warnings.simplefilter("ignore")
        return create_model(recipe, cell, {"image_size": [pixels, pixels], "channels": 3, "classes": 100})


def _timm_model(recipe: Recipe, encoding: str) -> nn.Module:
    name, settings = TIMM[encoding]
    shape = SIZES[recipe.size]
    if recipe.layer_scale is not None:
        settings = settings | {"init_values": recipe.layer_scale}
    model: nn.Module = timm.create_model(
        name,
        img_size=32,
        patch_size=recipe.patch_size,
        embed_dim=recipe.width or shape.width,
        depth=recipe.depth or shape.depth,
        num_heads=recipe.heads or shape.heads,
        num_classes=100,
        global_pool=recipe.pool,
        class_token=recipe.pool == "token",
        qkv_bias=recipe.qkv_bias,
        pos_drop_rate=recipe.dropout,
        proj_drop_rate=recipe.dropout,
        drop_path_rate=recipe.drop_path,
        **settings,
    )
    return model


def _timing(
    name: str,
    trial: Trial,
    seconds: list[float],
    reference: list[float],
    peak: float,
    augmentation: float | None = None,
) -> Timing:
    median = statistics.median(seconds)
    low, _, high = statistics.quantiles(seconds, n=4)
    images = len(trial.images)
    return Timing(
        name=name,
        median=1000 * median,
        low=1000 * low,
        high=1000 * high,
        ratio=statistics.median(a / b for a, b in zip(seconds, reference, strict=True)),
        images_per_second=images / median,
        images_per_second_augmented=None if augmentation is None else images / (median + augmentation),
        gflop=trial.gflop,
        share_of_peak=trial.gflop / median / peak,
        ready_seconds=trial.ready_seconds,
        peak_memory_mib=trial.memory,
        parameters=sum(p.numel() for p in trial.model.parameters()),
    )
