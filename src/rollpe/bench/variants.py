"""Other ways to run a training step, each beside the one that it is compared with.

A variant states its expected gain before it is measured. Here: the list, the slower parts that some of them
put back, and timing them. Not here: how one model is timed (timing.py).
"""

from __future__ import annotations

import statistics
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe.bench.report import VariantTiming
from rollpe.bench.timing import TimeBudget, Trial, _our_model, effort, forget, interleaved
from rollpe.encodings import Encoding
from rollpe.encodings.absolute import NoEncoding
from rollpe.encodings.lie import Lie
from rollpe.encodings.relative import Shaw
from rollpe.encodings.roll import Roll
from rollpe.training.compiling import EAGER, CompileMode
from rollpe.training.recipe import Recipe
from rollpe.vit import VisionTransformer

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
    """One mode to run a step, and what is expected of it on a CPU and on a GPU."""

    name: str
    description: str
    against: str
    cpu: tuple[float, float] | None
    gpu: tuple[float, float] | None
    mode: CompileMode = EAGER
    share: float = 1.0  # of the batch
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the recipe
    change: Callable[[VisionTransformer], None] = _as_it_is
    channels_last: bool = False
    encoding: str = "none"
    needs: str = ""  # "cuda", or nothing


_LOSS = CompileMode(gradient="default")
_STEP = CompileMode(gradient="default", update=True)
_GRAPHS = CompileMode(gradient="reduce-overhead", update=True)

VARIANTS = [
    Variant("eager", "nothing compiled, fused optimizer", "eager", (1, 1), (1, 1)),
    Variant(
        "optimizer in a loop",
        "one kernel for each operation on each parameter",
        "eager",
        *((0.8, 1.0), (0.6, 0.9)),
        mode=CompileMode(optimizer="single"),
    ),
    Variant(
        "optimizer foreach",
        "one kernel for each operation on all parameters",
        "eager",
        *((0.8, 1.0), (0.9, 1.0)),
        mode=CompileMode(optimizer="foreach"),
    ),
    Variant(
        "compiled model",
        "forward and backward compiled, the loss and the update not",
        "eager",
        *((0.8, 1.2), (1.5, 3.0)),
        mode=CompileMode(gradient="default", loss=False),
    ),
    Variant(
        "compiled loss",
        "the loss inside the compiled function, too",
        "compiled model",
        *((0.95, 1.05), (1.0, 1.05)),
        mode=_LOSS,
    ),
    Variant(
        "compiled step",
        "clipping, optimizer and average compiled, too",
        "compiled loss",
        *((0.9, 1.05), (1.0, 1.2)),
        mode=_STEP,
    ),
    Variant(
        "CUDA graphs",
        "the compiled loss and its gradients replayed as graphs",
        "compiled step",
        *((1.0, 1.3), (1.0, 1.3)),
        mode=_GRAPHS,
        needs="cuda",
    ),
    Variant(
        "max-autotune",
        "kernels of the matrix products chosen by timing them",
        "CUDA graphs",
        *((1.0, 1.1), (1.0, 1.1)),
        mode=replace(_GRAPHS, gradient="max-autotune"),
        needs="cuda",
    ),
    Variant(
        "bfloat16 weights",
        "weights and tokens in bfloat16, the optimizer's copy in float32",
        "CUDA graphs",
        *(None, (1.03, 1.12)),
        mode=_GRAPHS,
        changes={"precision": "bfloat16-weights"},
        needs="cuda",
    ),
    *(
        Variant(
            f"{kernel} attention",
            "no other kernel of attention allowed",
            "CUDA graphs",
            *(None, expected),
            mode=_GRAPHS,
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
        mode=_GRAPHS,
        changes={"pool": "avg"},
        needs="cuda",
    ),
    Variant(
        "fused optimizer beside graphs",
        "clipping and average one by one and torch's fused optimizer, not a compiled update",
        "CUDA graphs",
        *(None, (0.9, 1.02)),
        mode=replace(_GRAPHS, update=False),
        needs="cuda",
    ),
    Variant(
        "twice the batch, graphs",
        "per image",
        "CUDA graphs",
        *(None, (0.99, 1.06)),
        mode=_GRAPHS,
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
        mode=_LOSS,
        change=partial(_install, _FusedAttention),
    ),
    Variant(
        "roll",
        "each channel fetched from where it was",
        "compiled loss",
        *(None, (0.9, 1.0)),
        mode=_LOSS,
        encoding="roll",
    ),
    Variant(
        "roll by matrices",
        "a product with ones and zeros for each position",
        "roll",
        *(None, (0.6, 1.0)),
        mode=_LOSS,
        encoding="roll",
        change=partial(_install, _MatrixRoll),
    ),
    Variant(
        "roll in the Fourier basis",
        "into the basis and a rotation there, which scores do not notice",
        "roll",
        *(None, (0.85, 1.0)),
        mode=_LOSS,
        encoding="continuous-roll",
    ),
    Variant(
        "roll with its basis absorbed",
        "the same with the basis inside the trained projections: the rotary twin",
        "roll",
        *(None, (0.97, 1.05)),
        mode=_LOSS,
        encoding="roll-twin",
    ),
    Variant(
        "shaw",
        "Shaw's vectors on a grid as more channels of queries and keys",
        "compiled loss",
        *(None, (0.9, 1.0)),
        mode=_LOSS,
        encoding="shaw",
    ),
    Variant(
        "shaw by lookup",
        "two numbers looked up for every pair of tokens",
        "shaw",
        *(None, (0.7, 0.95)),
        mode=_LOSS,
        encoding="shaw",
        change=partial(_install, _ShawByLookup),
    ),
    Variant(
        "lie",
        "learned rotations, halved and squared back on the device",
        "compiled loss",
        *(None, (0.7, 0.95)),
        mode=_LOSS,
        encoding="lie",
    ),
    Variant(
        "lie by torch's exponential",
        "its matrices sorted on the host, its gradient from matrices twice as wide",
        "lie",
        *(None, (0.3, 0.8)),
        mode=_LOSS,
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

    trial = Trial(built, changed, variant.mode, place, size)
    if variant.channels_last:
        trial.images = trial.images.contiguous(memory_format=torch.channels_last)
    return trial


def _changed(recipe: Recipe, variant: Variant) -> Recipe:
    batch = max(1, round(recipe.batch_size * variant.share))
    return recipe.model_copy(update={"batch_size": batch, **variant.changes})


def _want(variant: Variant) -> tuple[bool, float]:
    """For sorting under a budget: first what only CUDA has, then what is ready soonest."""
    return variant.needs != "cuda" or effort(variant.mode) > 1, effort(variant.mode)


def _variants(
    recipe: Recipe, place: torch.device, rounds: int, budget_left: TimeBudget
) -> list[VariantTiming]:
    possible = {
        v.name: partial(_prepared, v, recipe, place)
        for v in sorted(VARIANTS, key=_want)
        if not _absent(v, place)
    }
    failed: dict[str, str] = {}
    trials = budget_left.prepare(possible, 0.75, failed, {v.name: effort(v.mode) for v in VARIANTS})
    seconds = interleaved(trials, rounds, place, failed, budget_left.until(0.85))
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
