"""How fast training is: every encoding beside none, and ours beside timm's, in one run.

A timing is of whole training steps: forward, loss, backward, clipping, optimizer. All models of a comparison
take turns, round by round, so that whatever else the machine does falls on all of them alike; medians and
quartiles are over rounds. What is learned is not looked at here.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import timm
import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from rollpe.augment import Augmenter
from rollpe.encodings import ENCODINGS
from rollpe.recipes import Recipe, load_recipe
from rollpe.records import Environment, Provenance, environment, provenance, write_atomically
from rollpe.training import autocast, choose_device, resolve
from rollpe.vit import SIZES, create_vit

TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("vit_small_patch16_224", {"pos_embed": "none"}),
    "learned": ("vit_small_patch16_224", {}),
    "axial-rope": ("vit_small_patch16_rope_224", {"init_values": None}),
    "mixed-rope": ("vit_small_patch16_rope_mixed_224", {"init_values": None}),
}
"""timm's own model for an encoding that timm has, too, and the settings that make it comparable."""


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Timing(_Plain):
    """Milliseconds a training step: median and quartiles over rounds.

    ratio: median, over rounds, of this step's time divided by the reference's in the same round.
    gflop: floating-point operations of one step, counted, in units of 10⁹.
    """

    name: str
    median: float
    low: float
    high: float
    ratio: float
    images_per_second: float
    gflop: float
    share_of_peak: float
    first_step_seconds: float
    peak_memory_mib: float | None
    parameters: int


class Scaling(_Plain):
    """Milliseconds a training step of one encoding at one number of patches."""

    encoding: str
    patches: int
    batch: int
    median: float


class Benchmark(_Plain):
    """Everything one run of the benchmark measured, on which machine, at which shape."""

    size: str
    image_size: int
    patch_size: int
    batch: int
    compiled: bool
    precision: str
    rounds: int
    peak_gflops: float
    augmentation_milliseconds: float
    encodings: list[Timing]
    timm: list[Timing]
    scaling: list[Scaling]
    environment: Environment
    provenance: Provenance

    def to_markdown(self) -> str:
        """The tables of the benchmark, with the machine under them."""
        lines = [
            "| model | ms a step | quartiles | ÷ none | images/s | share of peak | parameters |",
            "| :-- | --: | --: | --: | --: | --: | --: |",
        ]
        lines += [
            f"| `{t.name}` | {t.median:.1f} | {t.low:.1f} to {t.high:.1f} | {t.ratio:.3f} "
            f"| {t.images_per_second:,.0f} | {100 * t.share_of_peak:.0f} % | {t.parameters:,} |"
            for t in self.encodings
        ]
        lines += [
            "",
            "| timm's own model | ms a step | quartiles | timm ÷ ours | images/s |",
            "| :-- | --: | --: | --: | --: |",
        ]
        lines += [
            f"| `{t.name}` | {t.median:.1f} | {t.low:.1f} to {t.high:.1f} | {t.ratio:.3f} "
            f"| {t.images_per_second:,.0f} |"
            for t in self.timm
        ]
        if self.scaling:
            counts = sorted({s.patches for s in self.scaling})
            names = list(dict.fromkeys(s.encoding for s in self.scaling))
            lines += ["", "| µs an image by patches | " + " | ".join(map(str, counts)) + " |"]
            lines += ["| :-- |" + " --: |" * len(counts)]
            for name in names:
                row = {s.patches: 1000 * s.median / s.batch for s in self.scaling if s.encoding == name}
                lines.append(f"| `{name}` | " + " | ".join(f"{row[c]:.0f}" for c in counts) + " |")
        e, mode = self.environment, "compiled" if self.compiled else "eager"
        lines += [
            "",
            f"ViT {self.size}, {self.image_size}×{self.image_size} pixels in patches of {self.patch_size}, "
            f"batch {self.batch}, {self.precision}, {mode}, {self.rounds} rounds. Largest measured matrix "
            f"product: {self.peak_gflops:,.0f} GFLOP/s. Augmentation (recipe strong): "
            f"{self.augmentation_milliseconds:.1f} ms a batch. {e.device_name}, {e.threads} threads, "
            f"torch {e.torch}, timm {e.timm}.",
        ]
        return "\n".join(lines)

    def write(self, folder: str | Path) -> Path:
        """Write JSON and Markdown into ``folder``, named by device, model and date; returns the JSON."""
        stamp = datetime.fromisoformat(self.provenance.started).strftime("%Y-%m-%d")
        mode = "compiled" if self.compiled else "eager"
        path = Path(folder) / f"{self.environment.device.partition(':')[0]}-{self.size}-{mode}-{stamp}.json"
        write_atomically(path, self.model_dump_json(indent=1).encode())
        write_atomically(path.with_suffix(".md"), (self.to_markdown() + "\n").encode())
        return path


class Step:
    """One training step of one model on one batch of random images, ready to be called again and again."""

    def __init__(self, model: nn.Module, recipe: Recipe, place: torch.device, batch: int, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.model = model.to(place).train()
        self.recipe, self.place = recipe, place
        self.images = torch.randn(batch, 3, size, size, generator=generator).to(place)
        self.labels = torch.randint(100, (batch,), generator=generator).to(place)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        self.forward: Callable[[Tensor], Tensor] = torch.compile(model) if recipe.compile else model
        self.gflop = self._count()
        begun = time.perf_counter()
        self()
        synchronize(place)
        self.first_step_seconds = time.perf_counter() - begun

    def __call__(self) -> None:
        with autocast(self.recipe, self.place):
            logits = self.forward(self.images)
        F.cross_entropy(logits.float(), self.labels).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _count(self) -> float:
        """Floating-point operations of forward and backward, in 10⁹, counted by torch on one image."""
        with FlopCounterMode(display=False) as counter:
            F.cross_entropy(self.model(self.images[:1]), self.labels[:1]).backward()
        self.optimizer.zero_grad()
        return counter.get_total_flops() * len(self.images) / 1e9


def synchronize(place: torch.device) -> None:
    """Wait for the device, so that a clock sees its work."""
    if place.type == "cuda":
        torch.cuda.synchronize(place)


def in_turns(
    calls: Mapping[str, Callable[[], object]], rounds: int, place: torch.device
) -> dict[str, list[float]]:
    """Seconds of every call in every round; within a round each is called once, in rotating order."""
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for call in calls.values():
        call()
    for r in tqdm(range(rounds), desc="timing", disable=None):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            synchronize(place)
            begun = time.perf_counter()
            calls[name]()
            synchronize(place)
            seconds[name].append(time.perf_counter() - begun)
    return seconds


def matmul_peak(place: torch.device, precision: str, side: int | None = None) -> float:
    """Largest rate of a square matrix product seen in ten tries, in GFLOP/s."""
    side = side or (8192 if place.type == "cuda" else 1024)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    a, b = (torch.randn(side, side, device=place).to(dtype) for _ in range(2))
    times = in_turns({"product": lambda: torch.mm(a, b)}, 10, place)["product"]
    return 2 * side**3 / min(times) / 1e9


def _timm_model(encoding: str, size: str, image_size: int, patch_size: int) -> nn.Module:
    name, settings = TIMM[encoding]
    shape = SIZES[size]
    model: nn.Module = timm.create_model(
        name,
        img_size=image_size,
        patch_size=patch_size,
        embed_dim=shape.width,
        depth=shape.depth,
        num_heads=shape.heads,
        num_classes=100,
        **settings,
    )
    return model


def _timing(name: str, step: Step, seconds: list[float], reference: list[float], peak: float) -> Timing:
    median = statistics.median(seconds)
    low, _, high = statistics.quantiles(seconds, n=4)
    memory = None
    if step.place.type == "cuda":
        torch.cuda.reset_peak_memory_stats(step.place)
        step()
        memory = torch.cuda.max_memory_allocated(step.place) / 2**20
    return Timing(
        name=name,
        median=1000 * median,
        low=1000 * low,
        high=1000 * high,
        ratio=statistics.median(a / b for a, b in zip(seconds, reference, strict=True)),
        images_per_second=len(step.images) / median,
        gflop=step.gflop,
        share_of_peak=step.gflop / median / peak,
        first_step_seconds=step.first_step_seconds,
        peak_memory_mib=memory,
        parameters=sum(p.numel() for p in step.model.parameters()),
    )


def benchmark(
    *,
    device: str = "auto",
    size: str | None = None,
    batch: int | None = None,
    encodings: Sequence[str] | None = None,
    compiled: bool = True,
    rounds: int = 20,
    scaling: bool = True,
) -> Benchmark:
    """Time training steps of every encoding and of timm's models on the same device, taking turns.

    size, batch: default to ViT-S and 512 on an accelerator, nano and 32 on a CPU.
    encodings: default to all; ``none`` is always among them, as the reference.
    """
    place = choose_device(device)
    on_cpu = place.type == "cpu"
    size, batch = size or ("nano" if on_cpu else "small"), batch or (32 if on_cpu else 512)
    recipe = resolve(load_recipe("strong", {"compile": compiled, "size": size}), place, held_out=0)
    names = ["none", *(n for n in encodings or ENCODINGS if n not in ("none", "rope"))]  # rope is 1-D
    began, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    image_size, patch_size = 32, recipe.patch_size
    peak = matmul_peak(place, recipe.precision)

    def ours(name: str, pixels: int = image_size, images: int = batch) -> Step:
        with warnings.catch_warnings():  # a ring too short for a large grid is as fast as any other
            warnings.simplefilter("ignore")
            model = create_vit(name, image_size=pixels, patch_size=patch_size, size=size)
        return Step(model, recipe, place, images, pixels)

    steps = {name: ours(name) for name in tqdm(names, desc="preparing", disable=None)}
    theirs = {
        name: Step(_timm_model(name, size, image_size, patch_size), recipe, place, batch, image_size)
        for name in TIMM
        if name in names
    }
    calls: dict[str, Callable[[], object]] = {
        **steps,
        **{f"timm {name}": step for name, step in theirs.items()},
    }
    seconds = in_turns(calls, rounds, place)

    augmenter = Augmenter(recipe.augmentation, (32, 32), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), 100)
    images = torch.randint(256, (batch, 3, 32, 32), dtype=torch.uint8).to(place)
    labels = torch.randint(100, (batch,)).to(place)
    generator = torch.Generator().manual_seed(0)
    augmentation = in_turns({"augment": lambda: augmenter(images, labels, generator)}, rounds, place)[
        "augment"
    ]

    grown: list[Scaling] = []
    if scaling:
        few = max(5, rounds // 4)
        for side in (8, 16, 32):
            share = max(1, batch * 64 // side**2)
            chosen = [n for n in ("none", "axial-rope", "roll", "shaw") if n in names]
            tried: dict[str, Callable[[], object]] = {
                name: ours(name, side * patch_size, share) for name in chosen
            }
            for name, times in in_turns(tried, few, place).items():
                median = 1000 * statistics.median(times)
                grown.append(Scaling(encoding=name, patches=side**2, batch=share, median=median))

    return Benchmark(
        size=size,
        image_size=image_size,
        patch_size=patch_size,
        batch=batch,
        compiled=compiled,
        precision=recipe.precision,
        rounds=rounds,
        peak_gflops=peak,
        augmentation_milliseconds=1000 * statistics.median(augmentation),
        encodings=[_timing(n, steps[n], seconds[n], seconds["none"], peak) for n in names],
        timm=[_timing(n, theirs[n], seconds[f"timm {n}"], seconds[n], peak) for n in theirs],
        scaling=grown,
        environment=environment(str(place)),
        provenance=provenance(
            _command(device, size, batch, compiled, rounds), began, _now(), time.perf_counter() - clock
        ),
    )


def _command(device: str, size: str, batch: int, compiled: bool, rounds: int) -> str:
    mode = "" if compiled else " --eager"
    return f"rollpe bench --device {device} --size {size} --batch {batch} --rounds {rounds}{mode}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_benchmarks(folder: str | Path = "data/benchmarks") -> list[Benchmark]:
    """Every committed benchmark, oldest first."""
    found = [Benchmark.model_validate_json(p.read_text()) for p in Path(folder).glob("*.json")]
    return sorted(found, key=lambda b: b.provenance.started)
