"""How fast training is: every encoding beside none, ours beside timm's, and what made it fast, in one run.

A timing is of whole training steps: the very model and step that training makes of a recipe (training.py,
engine.py), on random images. So each finds what the other compiled on disk. All
models of a comparison take turns, round by round, so that whatever else the machine does falls on all of
them alike; medians and quartiles are over rounds. What is learned is not looked at here.
"""

from __future__ import annotations

import copy
import gc
import logging
import math
import shlex
import statistics
import textwrap
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
import torch.nn.functional as F
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from rollpe.augment import Augmenter
from rollpe.encodings import ENCODINGS, Encoding
from rollpe.encodings.absolute import NoEncoding
from rollpe.encodings.lie import Lie
from rollpe.encodings.relative import Shaw
from rollpe.encodings.roll import Roll
from rollpe.engine import EAGER, How, Step, create_optimizers, how
from rollpe.errors import InputError
from rollpe.recipes import Recipe, load_recipe
from rollpe.records import (
    Cell,
    Environment,
    Provenance,
    environment,
    loaded_source,
    now,
    provenance,
    write_atomically,
)
from rollpe.training import ahead, choose_device, create_model, resolve
from rollpe.vit import SIZES, VisionTransformer

logger = logging.getLogger(__name__)

TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("vit_small_patch16_224", {"pos_embed": "none"}),
    "learned": ("vit_small_patch16_224", {}),
    "axial-rope": ("vit_small_patch16_rope_224", {"init_values": None}),
    "mixed-rope": ("vit_small_patch16_rope_mixed_224", {"init_values": None}),
}
"""timm's own model for an encoding that timm has, too, and the settings that make it comparable."""

WANTED = ("none", "axial-rope", "roll", "learned", "multiplexed-roll", "mixed-rope", "roll-twin")
"""Encodings to time first when time is short."""

SCALED = ("none", "axial-rope", "roll", "shaw")
"""Encodings to time with more and more patches."""


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_READY = AliasChoices("ready_seconds", "first_step_seconds")


class Timing(_Plain):
    """Milliseconds a training step: median and quartiles over rounds.

    ratio: median, over rounds, of this step's time divided by the reference's in the same round.
    gflop: floating-point operations of one step, counted, in units of 10⁹.
    images_per_second, and the same with the recipe's augmentation, many batches ahead.
    ready_seconds: of the two steps after which everything is compiled and recorded; what an earlier run
        compiled is found on disk. Older files have the first step's alone.
    peak_memory_mib: of the model, its optimizer and its second step, where CUDA graphs are recorded.
    """

    name: str
    median: float
    low: float
    high: float
    ratio: float
    images_per_second: float
    images_per_second_augmented: float | None = None
    gflop: float
    share_of_peak: float
    ready_seconds: float = Field(validation_alias=_READY)
    peak_memory_mib: float | None
    parameters: int


class Scaling(_Plain):
    """Milliseconds a training step of one encoding at one number of patches."""

    encoding: str
    patches: int
    batch: int
    median: float


class VariantTiming(_Plain):
    """One way to run a step, beside another: what was expected of it and what was measured.

    of: "step", or "augmentation" (of one batch). against: the name of the variant it is compared with.
    expected: from … to how many times as fast as `against`, written down before it was measured; None
        where it was measured before anybody wrote.
    gain: how many times as fast it was, images by images: median over rounds. milliseconds: median a
    call. All three are None where this machine cannot do it; missing says why.
    """

    name: str
    description: str
    of: str
    against: str
    expected: tuple[float, float] | None
    batch: int
    milliseconds: float | None = None
    gain: float | None = None
    ready_seconds: float | None = Field(None, validation_alias=_READY)
    missing: str = ""


class Benchmark(_Plain):
    """Everything one run of the benchmark measured, on which machine, at which shape.

    recipe: whose models and steps these are; older files have strong's without drop path, and no name.
    rounds: of the encodings' timings; fewer than asked for where a budget cut them short.
    missing: models there was no time for. failed: those that broke, and the error in one line.
    profiles: tables of what the device did in a step, by encoding; `write` makes files of them.
    """

    recipe: str = ""
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
    plain: list[Timing] = []
    missing: list[str] = []
    failed: dict[str, str] = {}
    variants: list[VariantTiming] = []
    scaling: list[Scaling]
    profiles: dict[str, str] = Field({}, exclude=True)
    environment: Environment
    provenance: Provenance

    def to_markdown(self) -> str:
        """The tables of the benchmark, with the machine under them."""
        lines = [
            "| model | ms a step | quartiles | ÷ none | images/s | augmented | share of peak | parameters |",
            "| :-- | --: | --: | --: | --: | --: | --: | --: |",
        ]
        lines += [
            f"| `{t.name}` | {t.median:.1f} | {t.low:.1f} to {t.high:.1f} | {t.ratio:.3f} "
            f"| {t.images_per_second:,.0f} | {_count(t.images_per_second_augmented)} "
            f"| {100 * t.share_of_peak:.0f} % | {t.parameters:,} |"
            for t in self.encodings
        ]
        for title, timings in (
            ("timm's own model, our step", self.timm),
            ("timm's own model, a plain step", self.plain),
        ):
            if timings:
                lines += ["", f"| {title} | ms a step | quartiles | timm ÷ ours | images/s |"]
                lines += ["| :-- | --: | --: | --: | --: |"]
            lines += [
                f"| `{t.name}` | {t.median:.1f} | {t.low:.1f} to {t.high:.1f} | {t.ratio:.3f} "
                f"| {t.images_per_second:,.0f} |"
                for t in timings
            ]
        if self.missing:
            lines += ["", f"Not measured, no time left: {', '.join(f'`{name}`' for name in self.missing)}."]
        if self.failed:
            lines += ["", *(f"- `{name}` failed: {reason}" for name, reason in self.failed.items())]
        if self.variants:
            lines += ["", "| variant | of | ms | times as fast as | expected | measured |"]
            lines += ["| :-- | :-- | --: | :-- | --: | --: |"]
            for v in self.variants:
                expected = f"{v.expected[0]:g} to {v.expected[1]:g}" if v.expected else ""
                ms, gain = (f"{v.milliseconds:.1f}", f"{v.gain:.2f}") if v.gain else ("", v.missing)
                lines += [f"| {v.name} | {v.of} | {ms} | {v.against} | {expected} | {gain} |"]
        if self.scaling:
            counts = sorted({s.patches for s in self.scaling})
            names = list(dict.fromkeys(s.encoding for s in self.scaling))
            lines += ["", "| µs an image by patches | " + " | ".join(map(str, counts)) + " |"]
            lines += ["| :-- |" + " --: |" * len(counts)]
            for name in names:
                row = {
                    s.patches: f"{1000 * s.median / s.batch:.0f}" for s in self.scaling if s.encoding == name
                }
                lines.append(f"| `{name}` | " + " | ".join(row.get(c, "") for c in counts) + " |")
        e, mode = self.environment, "compiled" if self.compiled else "eager"
        lines += [
            "",
            f"ViT {self.size}, {self.image_size}×{self.image_size} pixels in patches of {self.patch_size}, "
            f"batch {self.batch}, {self.precision}, {mode}, {self.rounds} rounds. Largest measured matrix "
            f"product: {self.peak_gflops:,.0f} GFLOP/s. Augmentation (recipe {self.recipe or 'strong'}): "
            f"{self.augmentation_milliseconds:.1f} ms a batch. {e.device_name}, {e.threads} threads, "
            f"torch {e.torch}, timm {e.timm}.",
        ]
        return "\n".join(lines)

    def write(self, folder: str | Path) -> Path:
        """Write JSON and Markdown into ``folder``, named by device, model and start; returns the JSON.

        Profiles are written beside them, as ``<name>-profile-<encoding>.txt``.
        """
        stamp = datetime.fromisoformat(self.provenance.started).strftime("%Y-%m-%dT%H%M")
        mode = "compiled" if self.compiled else "eager"
        path = Path(folder) / f"{self.environment.device.partition(':')[0]}-{self.size}-{mode}-{stamp}.json"
        write_atomically(path, self.model_dump_json(indent=1).encode())
        write_atomically(path.with_suffix(".md"), (self.to_markdown() + "\n").encode())
        for encoding, table in self.profiles.items():
            write_atomically(path.with_name(f"{path.stem}-profile-{encoding}.txt"), (table + "\n").encode())
        return path


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


class Trial:
    """Training steps of one model on one batch of random images, to be called again and again.

    way: how the step is computed; None is `plain_step`.
    """

    def __init__(
        self, build: Callable[[], nn.Module], recipe: Recipe, way: How | None, place: torch.device, size: int
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
        if way is None:
            self.step = plain_step(self.model, recipe, place)
        else:
            average = copy.deepcopy(self.model) if recipe.ema else None
            optimizers = create_optimizers(self.model, recipe, way)
            self.step = Step(self.model, recipe, optimizers, way, average=average)
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


class Patience:
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


def effort(way: How | None) -> float:
    """How long a step so computed takes to be ready, beside a compiled one: a guess to plan with."""
    if way is None or way.gradient is None:
        return 0.2
    return 8.0 if way.gradient == "max-autotune" else 1.0


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


def in_turns(
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
    times = in_turns({"product": lambda: torch.mm(a, b)}, 10, place)["product"]
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


# Variants


def _as_it_is(model: VisionTransformer) -> None:
    """No change."""


def _read_all_tokens(model: VisionTransformer) -> None:
    """Let the last block compute every token, as most code does."""

    def forward(self: VisionTransformer, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))

    model.forward = types.MethodType(forward, model)  # type: ignore[method-assign]


class _FusedAttention(NoEncoding):
    """torch's fused attention wherever it is allowed; here only to be timed."""

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class _ShawByLookup(Shaw):
    """Shaw's vectors looked up for every pair of tokens, as off a grid; here only to be timed."""

    def on_grid(self, *_: Any) -> tuple[Tensor, ...]:
        return ()


class _LieByTorch(Lie):
    """Learned rotations by torch's own matrix exponential; here only to be timed."""

    exponential = staticmethod(torch.matrix_exp)  # type: ignore[assignment]


class _MatrixRoll(Roll):
    """A roll as a product with a matrix of ones and zeros for each position; here only to be timed."""

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        source, _ = super().tables(positions, like)
        return (F.one_hot(source, self.head_dim).to(like.dtype),)

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return torch.einsum("bhnd,ncd->bhnc", x, tables[0].to(x.dtype))


def _install(encoding: type[Encoding], model: VisionTransformer) -> None:
    for attention in model.attentions:
        e = attention.encoding
        attention.install(encoding(head_dim=e.head_dim, heads=e.heads, axes=e.axes, grid=e.grid))


@dataclass(frozen=True)
class Variant:
    """One way to run a step, and what is expected of it on a CPU and on a GPU."""

    name: str
    description: str
    against: str
    cpu: tuple[float, float] | None
    gpu: tuple[float, float] | None
    way: How = EAGER
    share: float = 1.0  # of the batch
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the recipe
    change: Callable[[VisionTransformer], None] = _as_it_is
    channels_last: bool = False
    encoding: str = "none"
    needs: str = ""  # "cuda", or nothing


_LOSS = How(gradient="default")
_STEP = How(gradient="default", update=True)
_GRAPHS = How(gradient="reduce-overhead", update=True)

VARIANTS = [
    Variant("eager", "nothing compiled, fused optimizer", "eager", (1, 1), (1, 1)),
    Variant(
        "optimizer in a loop",
        "one kernel for each operation on each parameter",
        "eager",
        *((0.8, 1.0), (0.6, 0.9)),
        way=How(optimizer="single"),
    ),
    Variant(
        "optimizer foreach",
        "one kernel for each operation on all parameters",
        "eager",
        *((0.8, 1.0), (0.9, 1.0)),
        way=How(optimizer="foreach"),
    ),
    Variant(
        "compiled model",
        "forward and backward compiled, the loss and the update not",
        "eager",
        *((0.8, 1.2), (1.5, 3.0)),
        way=How(gradient="default", loss=False),
    ),
    Variant(
        "compiled loss",
        "the loss inside the compiled function, too",
        "compiled model",
        *((0.95, 1.05), (1.0, 1.05)),
        way=_LOSS,
    ),
    Variant(
        "compiled step",
        "clipping, optimizer and average compiled, too",
        "compiled loss",
        *((0.9, 1.05), (1.0, 1.2)),
        way=_STEP,
    ),
    Variant(
        "CUDA graphs",
        "the compiled loss and its gradients replayed as graphs",
        "compiled step",
        *((1.0, 1.3), (1.0, 1.3)),
        way=_GRAPHS,
        needs="cuda",
    ),
    Variant(
        "max-autotune",
        "kernels of the matrix products chosen by timing them",
        "CUDA graphs",
        *((1.0, 1.1), (1.0, 1.1)),
        way=replace(_GRAPHS, gradient="max-autotune"),
        needs="cuda",
    ),
    Variant(
        "bfloat16 weights",
        "weights and tokens in bfloat16, the optimizer's copy in float32",
        "CUDA graphs",
        *(None, (1.03, 1.12)),
        way=_GRAPHS,
        changes={"precision": "bfloat16-weights"},
        needs="cuda",
    ),
    *(
        Variant(
            f"{kernel} attention",
            "no other kernel of attention allowed",
            "CUDA graphs",
            *(None, expected),
            way=_GRAPHS,
            changes={"attention": kernel},
            needs="cuda",
        )
        for kernel, expected in (("cudnn", (0.98, 1.05)), ("flash", (0.97, 1.05)), ("efficient", (0.9, 1.0)))
    ),
    Variant(
        "64 tokens",
        "the mean of the patches in place of a class token",
        "CUDA graphs",
        *(None, (0.93, 1.08)),
        way=_GRAPHS,
        changes={"pool": "avg"},
        needs="cuda",
    ),
    Variant(
        "fused optimizer beside graphs",
        "clipping and average one by one and torch's fused optimizer, not a compiled update",
        "CUDA graphs",
        *(None, (0.9, 1.02)),
        way=replace(_GRAPHS, update=False),
        needs="cuda",
    ),
    Variant(
        "twice the batch, graphs",
        "per image",
        "CUDA graphs",
        *(None, (0.99, 1.06)),
        way=_GRAPHS,
        share=2.0,
        needs="cuda",
    ),
    Variant(
        "channels last",
        "images stored pixel by pixel: only the patch embedding sees it",
        "eager",
        *((0.95, 1.05), (0.95, 1.05)),
        channels_last=True,
    ),
    Variant("half the batch", "per image", "eager", (0.9, 1.2), (0.6, 1.0), share=0.5),
    Variant("twice the batch", "per image", "eager", (0.8, 1.1), (1.0, 1.3), share=2.0),
    Variant(
        "float32",
        "matrix products in float32",
        "eager",
        *((0.95, 1.05), (0.2, 0.6)),
        changes={"precision": "float32"},
    ),
    Variant(
        "bfloat16",
        "matrix products in bfloat16",
        "eager",
        *((0.2, 2.0), (0.95, 1.05)),
        changes={"precision": "bfloat16"},
    ),
    Variant(
        "all tokens",
        "the last block also computes the tokens that the head does not read",
        "eager",
        *((0.85, 0.95), (0.92, 0.96)),
        change=_read_all_tokens,
    ),
    Variant(
        "fused attention",
        "torch's fused kernel also where keys are few on a CPU, in place of plain products",
        "compiled loss",
        *(None, (1.0, 1.0)),
        way=_LOSS,
        change=partial(_install, _FusedAttention),
    ),
    Variant(
        "roll",
        "each channel fetched from where it was",
        "compiled loss",
        *(None, (0.9, 1.0)),
        way=_LOSS,
        encoding="roll",
    ),
    Variant(
        "roll by matrices",
        "a product with ones and zeros for each position",
        "roll",
        *(None, (0.6, 1.0)),
        way=_LOSS,
        encoding="roll",
        change=partial(_install, _MatrixRoll),
    ),
    Variant(
        "roll in the Fourier basis",
        "into the basis and a rotation there, which scores do not notice",
        "roll",
        *(None, (0.85, 1.0)),
        way=_LOSS,
        encoding="continuous-roll",
    ),
    Variant(
        "roll with its basis absorbed",
        "the same with the basis inside the trained projections: the rotary twin",
        "roll",
        *(None, (0.97, 1.05)),
        way=_LOSS,
        encoding="roll-twin",
    ),
    Variant(
        "shaw",
        "Shaw's vectors on a grid as more channels of queries and keys",
        "compiled loss",
        *(None, (0.9, 1.0)),
        way=_LOSS,
        encoding="shaw",
    ),
    Variant(
        "shaw by lookup",
        "two numbers looked up for every pair of tokens",
        "shaw",
        *(None, (0.7, 0.95)),
        way=_LOSS,
        encoding="shaw",
        change=partial(_install, _ShawByLookup),
    ),
    Variant(
        "lie",
        "learned rotations, halved and squared back on the device",
        "compiled loss",
        *(None, (0.7, 0.95)),
        way=_LOSS,
        encoding="lie",
    ),
    Variant(
        "lie by torch's exponential",
        "its matrices sorted on the host, its gradient from matrices twice as wide",
        "lie",
        *(None, (0.3, 0.8)),
        way=_LOSS,
        encoding="lie",
        change=partial(_install, _LieByTorch),
    ),
]
"""In the order in which they are told; `expected` was written before the first measurement, or is None."""


def _absent(variant: Variant, place: torch.device) -> str:
    """Why a variant cannot run on a device; "" if it can."""
    if variant.needs == "cuda" and place.type != "cuda":
        return "not available here: needs CUDA"
    return ""


def _prepared(
    variant: Variant,
    recipe: Recipe,
    place: torch.device,
    build: Callable[[Recipe, str], VisionTransformer] = _our_model,
    size: int = 32,
) -> Trial:
    changed = _changed(recipe, variant)

    def built() -> nn.Module:
        model = build(changed, variant.encoding)
        variant.change(model)
        # before an optimizer lays out its state, which a fused kernel reads in the order of the weights
        return model.to(memory_format=torch.channels_last) if variant.channels_last else model

    trial = Trial(built, changed, variant.way, place, size)
    if variant.channels_last:
        trial.images = trial.images.contiguous(memory_format=torch.channels_last)
    return trial


def _changed(recipe: Recipe, variant: Variant) -> Recipe:
    batch = max(1, round(recipe.batch_size * variant.share))
    return recipe.model_copy(update={"batch_size": batch, **variant.changes})


def _want(variant: Variant) -> tuple[bool, float]:
    """For sorting under a budget: first what only CUDA has, then what is ready soonest."""
    return variant.needs != "cuda" or effort(variant.way) > 1, effort(variant.way)


def _variants(recipe: Recipe, place: torch.device, rounds: int, patience: Patience) -> list[VariantTiming]:
    possible = {
        v.name: partial(_prepared, v, recipe, place)
        for v in sorted(VARIANTS, key=_want)
        if not _absent(v, place)
    }
    failed: dict[str, str] = {}
    trials = patience.prepare(possible, 0.75, failed, {v.name: effort(v.way) for v in VARIANTS})
    seconds = in_turns(trials, rounds, place, failed, patience.until(0.85))
    kind = "cpu" if place.type == "cpu" else "gpu"
    told = []
    for v in VARIANTS:
        line = VariantTiming(
            name=v.name,
            description=v.description,
            of="step",
            against=v.against,
            expected=getattr(v, kind),
            batch=_changed(recipe, v).batch_size,
            missing=_absent(v, place) or (f"failed: {failed[v.name]}" if v.name in failed else ""),
        )
        if not line.missing and v.name not in seconds:
            line = line.model_copy(update={"missing": "not measured: no time left"})
        elif not line.missing and v.against not in seconds:
            line = line.model_copy(update={"missing": f"not compared: {v.against} failed"})
        elif not line.missing:
            mine, theirs = trials[v.name], trials[v.against]
            shares = len(mine.images) / len(theirs.images)
            gains = [shares * b / a for a, b in zip(seconds[v.name], seconds[v.against], strict=True)]
            line = line.model_copy(
                update={
                    "milliseconds": 1000 * statistics.median(seconds[v.name]),
                    "gain": statistics.median(gains),
                    "ready_seconds": mine.ready_seconds,
                }
            )
        told.append(line)
    forget(trials)
    return told


def _augmentation(recipe: Recipe, place: torch.device, rounds: int) -> list[VariantTiming]:
    """Seconds of augmenting one batch: alone, and as one of the many that training prepares at once."""
    augmenter = Augmenter(recipe.augmentation, (32, 32), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), 100)
    batch = recipe.batch_size
    many = ahead(batch, 3 * 32 * 32)
    images = torch.randint(256, (many, batch, 3, 32, 32), dtype=torch.uint8).to(place)
    labels = torch.randint(100, (many, batch)).to(place)
    generator = torch.Generator().manual_seed(0)
    seconds = in_turns(
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
    way: How,
    place: torch.device,
    rounds: int,
    patience: Patience,
) -> tuple[list[Scaling], dict[str, str]]:
    """Steps with 64, 256 and 1,024 patches, with fewer images where patches are more, and what failed."""
    grown: list[Scaling] = []
    failed: dict[str, str] = {}
    for side in (8, 16, 32):
        images, pixels = max(1, recipe.batch_size * 64 // side**2), side * recipe.patch_size
        fewer = recipe.model_copy(update={"batch_size": images})
        shapes = {
            n: partial(Trial, partial(_our_model, fewer, n, pixels), fewer, way, place, pixels) for n in names
        }
        broken: dict[str, str] = {}
        ready = patience.prepare(shapes, 0.85, broken, dict.fromkeys(shapes, effort(way)))
        for name, times in in_turns(ready, rounds, place, broken, patience.until(0.9)).items():
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
    patience, source = Patience(budget), loaded_source()
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
    mode = asked.compile if asked.compile in ("default", "max-autotune") else True
    settings = {"compile": compiled and mode, "size": size, "batch_size": batch}
    made = resolve(load_recipe(recipe, changed | settings), place, held_out=0)
    way = how(made, place)
    asked_for = ENCODINGS if encodings is None else dict.fromkeys(encodings)
    names = ["none", *(n for n in asked_for if n not in ("none", "rope"))]  # rope is 1-D
    began, clock = now(), time.perf_counter()
    peak = matmul_peak(place, made.precision)
    few = max(5, rounds // 4)
    augmentation = _augmentation(made, place, few)
    each = (augmentation[1].milliseconds or 0.0) / 1000

    wanted: dict[str, Callable[[], Trial]] = {}
    for name in sorted(names, key=lambda n: WANTED.index(n) if n in WANTED else len(WANTED)):
        wanted[name] = partial(Trial, partial(_our_model, made, name), made, way, place, 32)
        if timm and name in TIMM:
            their = partial(_timm_model, made, name)
            wanted[f"timm {name}"] = partial(Trial, their, made, way, place, 32)
            wanted[f"plain {name}"] = partial(Trial, their, made, None, place, 32)
    share = 0.4 if variants else 0.5 if scaling else 0.75
    failed: dict[str, str] = {}
    efforts = {name: effort(None if name.startswith("plain ") else way) for name in wanted}
    first = {"none": wanted.pop("none")}  # if it breaks, nothing can be compared
    trials = patience.prepare(first, share, effort=efforts)
    trials |= patience.prepare(wanted, share, failed, efforts)
    seconds = in_turns(trials, rounds, place, failed, patience.until(share + 0.1))
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
        told = [*_variants(made, place, rounds, patience), *augmentation]

    grown: list[Scaling] = []
    if scaling:
        some = [name for name in SCALED if name in names]
        grown, broken = _scaling(some, made, way, place, few, patience)
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


def read_benchmarks(folder: str | Path = "data/benchmarks") -> list[Benchmark]:
    """Every committed benchmark, oldest first. Raises InputError for a file that is none."""
    found = []
    for path in Path(folder).glob("*.json"):
        try:
            found.append(Benchmark.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(f"{path}: damaged, {place}: {first['msg']}. Restore it or time anew.") from None
    return sorted(found, key=lambda b: b.provenance.started)
