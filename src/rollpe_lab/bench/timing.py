"""Timing training steps of one model on one batch of random images.

Models and steps are those of training, so benchmark and training share the programs that the compiler keeps
on disk. Models that are compared take turns, round by round, so that other load on the machine affects all.
"""

from __future__ import annotations

import gc
import logging
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import timm
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from rollpe.vit import SIZES, VisionTransformer
from rollpe_lab.bench.report import Timing
from rollpe_lab.records.record import RunId
from rollpe_lab.training.compiling import CompileMode
from rollpe_lab.training.models import create_model
from rollpe_lab.training.recipe import Recipe
from rollpe_lab.training.step import Step, create_optimizers

logger = logging.getLogger(__name__)

TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("vit_small_patch16_224", {"pos_embed": "none"}),
    "learned": ("vit_small_patch16_224", {}),
    "axial-rope": ("vit_small_patch16_rope_224", {"init_values": None}),
    "mixed-rope": ("vit_small_patch16_rope_mixed_224", {"init_values": None}),
}
"""timm's own model of each encoding that timm has, too, and the settings that make it comparable."""


class Trial:
    """Training steps of one model on one batch of random images; each call is one step.

    mode: what of the step is compiled.
    """

    def __init__(
        self, build: Callable[[], nn.Module], recipe: Recipe, mode: CompileMode, device: torch.device
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randn(recipe.batch_size, 3, 32, 32, generator=generator).to(device)
        labels = torch.randint(100, (recipe.batch_size,), generator=generator)
        mixed = recipe.augmentation.mixup or recipe.augmentation.cutmix
        self.targets = (F.one_hot(labels, 100).float() if mixed else labels).to(device)
        self.model = build().to(device).train()
        self.gflop = self._count_gflop()
        self.step = Step(self.model, recipe, create_optimizers(self.model, recipe, mode), mode)
        self()  # compiles the loss; its first update is eager
        self()  # compiles the update and records CUDA graphs, which later steps replay
        synchronize(device)

    def __call__(self) -> None:
        self.step(self.images, self.targets, 1e-5)

    def _count_gflop(self) -> float:
        """Floating-point operations of forward and backward in 10⁹, counted by torch on one and two images.

        The difference is the cost of each further image; the rest is done once a step. Attention is counted
        as plain products, without what a fused kernel computes twice.
        """
        counts = []
        for images in (self.images[:1], self.images[:1].repeat(2, 1, 1, 1)):
            with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
                self.model(images).sum().backward()
            counts.append(counter.get_total_flops())
        self.model.zero_grad()
        one, two = counts
        return (one + (two - one) * (len(self.images) - 1)) / 1e9

    def timing(self, name: str, seconds: list[float], reference: list[float], peak: float) -> Timing:
        """Statistics of this trial's rounds.

        seconds, reference: time of a step of this trial and of the one that it is compared with, by round.
        peak: GFLOP/s of the largest matrix product.
        """
        median = statistics.median(seconds)
        return Timing(
            name=name,
            median=1000 * median,
            ratio=statistics.median(a / b for a, b in zip(seconds, reference, strict=True)),
            images_per_second=len(self.images) / median,
            gflop=self.gflop,
            share_of_peak=self.gflop / median / peak,
        )


def prepare(builders: Mapping[str, Callable[[], Trial]], failed: dict[str, str]) -> dict[str, Trial]:
    """Prepare trials in the given order.

    failed: receives the error of each trial that cannot be prepared.
    """
    trials: dict[str, Trial] = {}
    for name, build in tqdm(builders.items(), desc="preparing", disable=None):
        try:
            trials[name] = build()
        except Exception as error:
            logger.warning("%s failed", name, exc_info=error)
            first = next(iter(str(error).strip().splitlines()), "")
            failed[name] = f"{type(error).__name__}: {first}".replace("|", "¦")
        if name in failed:
            gc.collect()  # after the except block, whose error refers to the trial's tensors
    return trials


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work, so that a clock includes it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    rounds: int,
    device: torch.device,
) -> dict[str, list[float]]:
    """Seconds of every call in every round. All calls take turns within a round, in rotating order.

    A turn is one call on a CPU. On CUDA it is the mean of five calls, since the host runs ahead of the device
    in training, too. An additional first round is not counted.
    """
    names = list(calls)
    repeat = 5 if device.type == "cuda" else 1
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for r in tqdm(range(rounds + 1), desc="timing", disable=None):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            synchronize(device)
            start = time.perf_counter()
            for _ in range(repeat):
                calls[name]()
            synchronize(device)
            seconds[name].append((time.perf_counter() - start) / repeat)
    return {name: times[1:] for name, times in seconds.items()}


def matmul_peak(device: torch.device, precision: str) -> float:
    """Largest rate of a square matrix product in ten tries, in GFLOP/s."""
    side = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if precision.startswith("bfloat16") else torch.float32
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    times = interleaved({"product": lambda: torch.mm(a, b)}, 10, device)["product"]
    return 2 * side**3 / min(times) / 1e9


def our_model(recipe: Recipe, encoding: str) -> VisionTransformer:
    """The model that training creates from a recipe, for images of CIFAR-100."""
    run_id = RunId(recipe=recipe.name, encoding=encoding, encoding_options={}, seed=0)
    shape = {"image_size": [32, 32], "channels": 3, "classes": 100}
    return cast(VisionTransformer, create_model(recipe, run_id, shape))


def timm_model(recipe: Recipe, encoding: str) -> nn.Module:
    """timm's own model for an encoding in `TIMM`, with the recipe's shape and regularization."""
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
