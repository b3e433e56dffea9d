"""Other ways to run a training step, each compared with one of the others.

Each variant states its expected gain, written before it was measured. Here: the list, the slower code that
some variants put back, and timing them. Not here: timing one model (timing.py).
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
from rollpe.bench.timing import TimeBudget, Trial, forget, interleaved, our_model, preparation_cost
from rollpe.encodings import Encoding
from rollpe.encodings.absolute import NoEncoding
from rollpe.encodings.lie import Lie
from rollpe.encodings.relative import Shaw
from rollpe.encodings.roll import Roll
from rollpe.training.compiling import EAGER, CompileMode
from rollpe.training.recipe import Recipe
from rollpe.vit import VisionTransformer

Range = tuple[float, float]

# Changes of the model


def unchanged(model: VisionTransformer) -> None:
    """Leave the model as it is."""


def _compute_all_tokens(model: VisionTransformer) -> None:
    """Let the last block compute every token, as most implementations do."""

    def forward(self: VisionTransformer, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))

    model.forward = types.MethodType(forward, model)  # type: ignore[method-assign]


class _FusedAttention(NoEncoding):
    """torch's fused attention wherever it is allowed."""

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class _ShawByLookup(Shaw):
    """Shaw's vectors looked up for every pair of tokens, as for positions off a grid."""

    def on_grid(self, *_: Any) -> tuple[Tensor, ...]:
        return ()


class _LieByTorch(Lie):
    """Learned rotations by torch's matrix exponential."""

    exponential = staticmethod(torch.matrix_exp)  # type: ignore[assignment]


class _MatrixRoll(Roll):
    """A roll as a product with a permutation matrix for each position."""

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        source, _ = super().tables(positions, like)
        return (F.one_hot(source, self.head_dim).to(like.dtype),)

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return torch.einsum("bhnd,ncd->bhnc", x, tables[0].to(x.dtype))


def _install(encoding: type[Encoding], model: VisionTransformer) -> None:
    for attention in model.attentions:
        e = attention.encoding
        attention.install(encoding(head_dim=e.head_dim, heads=e.heads, axes=e.axes, grid=e.grid))


# Variants


@dataclass(frozen=True)
class Variant:
    """One way to run a step, compared with the variant `against`.

    expected: lowest and highest gain expected on a CPU, and the same on a GPU; None without a guess.
    batch: batch size as a multiple of the recipe's. settings: keys of the recipe and their values.
    change: changes the model in place before the optimizer is made.
    """

    name: str
    description: str
    expected: tuple[Range | None, Range | None]
    against: str = "eager"
    mode: CompileMode = EAGER
    batch: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[VisionTransformer], None] = unchanged
    channels_last: bool = False
    encoding: str = "none"

    @property
    def priority(self) -> tuple[bool, float]:
        """Sort key under a budget: CUDA graphs first, then by preparation cost; the slowest last."""
        cost = preparation_cost(self.mode)
        return not self.mode.graphs or cost > 1, cost

    def runs_on(self, device: torch.device) -> bool:
        """Whether the device can run it: CUDA graphs need CUDA."""
        return device.type == "cuda" or not self.mode.graphs

    def changed(self, recipe: Recipe) -> Recipe:
        """The recipe with this variant's settings and batch size."""
        batch = max(1, round(recipe.batch_size * self.batch))
        return recipe.model_copy(update={"batch_size": batch, **self.settings})

    def trial(
        self,
        recipe: Recipe,
        device: torch.device,
        build: Callable[[Recipe, str], VisionTransformer] = our_model,
        pixels: int = 32,
    ) -> Trial:
        """A trial of this variant. build: makes the unchanged model of a recipe and an encoding."""
        recipe = self.changed(recipe)

        def build_changed() -> nn.Module:
            model = build(recipe, self.encoding)
            self.change(model)
            # before the optimizer makes its state, which a fused kernel reads in the weights' memory order
            return model.to(memory_format=torch.channels_last) if self.channels_last else model

        trial = Trial(build_changed, recipe, self.mode, device, pixels)
        if self.channels_last:
            trial.images = trial.images.contiguous(memory_format=torch.channels_last)
        return trial


_GRAPHS = CompileMode(gradient="reduce-overhead", update=True)

_compiled = partial(Variant, against="compiled loss", mode=CompileMode(gradient="default"))
_graphs = partial(Variant, against="CUDA graphs", mode=_GRAPHS)

VARIANTS = [
    Variant("eager", "nothing compiled, fused optimizer", ((1, 1), (1, 1))),
    Variant(
        "optimizer in a loop",
        "one kernel for each operation on each parameter",
        ((0.8, 1.0), (0.6, 0.9)),
        mode=CompileMode(optimizer="single"),
    ),
    Variant(
        "optimizer foreach",
        "one kernel for each operation on all parameters",
        ((0.8, 1.0), (0.9, 1.0)),
        mode=CompileMode(optimizer="foreach"),
    ),
    Variant(
        "compiled model",
        "forward and backward compiled, loss and update eager",
        ((0.8, 1.2), (1.5, 3.0)),
        mode=CompileMode(gradient="default", loss=False),
    ),
    _compiled(
        "compiled loss",
        "forward, loss and backward in one compiled function",
        ((0.95, 1.05), (1.0, 1.05)),
        against="compiled model",
    ),
    _compiled(
        "compiled step",
        "clipping, optimizer and weight average compiled, too",
        ((0.9, 1.05), (1.0, 1.2)),
        mode=CompileMode(gradient="default", update=True),
    ),
    _graphs(
        "CUDA graphs",
        "the compiled loss and its gradients replayed as CUDA graphs",
        ((1.0, 1.3), (1.0, 1.3)),
        against="compiled step",
    ),
    _graphs(
        "max-autotune",
        "fastest kernel of each matrix product, found by timing several",
        ((1.0, 1.1), (1.0, 1.1)),
        mode=replace(_GRAPHS, gradient="max-autotune"),
    ),
    _graphs(
        "bfloat16 weights",
        "weights and tokens in bfloat16, a float32 copy in the optimizer",
        (None, (1.03, 1.12)),
        settings={"precision": "bfloat16-weights"},
    ),
    *(
        _graphs(
            f"{kernel} attention",
            "no other attention kernel allowed",
            (None, expected),
            settings={"attention": kernel},
        )
        for kernel, expected in (("cudnn", (0.98, 1.05)), ("flash", (0.97, 1.05)), ("efficient", (0.9, 1.0)))
    ),
    _graphs(
        "64 tokens",
        "mean of the patches instead of a class token",
        (None, (0.93, 1.08)),
        settings={"pool": "avg"},
    ),
    _graphs(
        "fused optimizer beside graphs",
        "eager clipping and average and torch's fused optimizer instead of a compiled update",
        (None, (0.9, 1.02)),
        mode=replace(_GRAPHS, update=False),
    ),
    _graphs("twice the batch, graphs", "speed in images per second", (None, (0.99, 1.06)), batch=2.0),
    Variant(
        "channels last",
        "images stored pixel by pixel, which only the patch embedding reads",
        ((0.95, 1.05), (0.95, 1.05)),
        channels_last=True,
    ),
    Variant("half the batch", "speed in images per second", ((0.9, 1.2), (0.6, 1.0)), batch=0.5),
    Variant("twice the batch", "speed in images per second", ((0.8, 1.1), (1.0, 1.3)), batch=2.0),
    Variant(
        "float32", "matrix products in float32", ((0.95, 1.05), (0.2, 0.6)), settings={"precision": "float32"}
    ),
    Variant(
        "bfloat16",
        "matrix products in bfloat16",
        ((0.2, 2.0), (0.95, 1.05)),
        settings={"precision": "bfloat16"},
    ),
    Variant(
        "all tokens",
        "the last block also computes tokens that the head does not read",
        ((0.85, 0.95), (0.92, 0.96)),
        change=_compute_all_tokens,
    ),
    _compiled(
        "fused attention",
        "torch's fused kernel also for few keys on a CPU, where plain products are the default",
        (None, (1.0, 1.0)),
        change=partial(_install, _FusedAttention),
    ),
    _compiled(
        "roll", "each channel read from its index before the roll", (None, (0.9, 1.0)), encoding="roll"
    ),
    _compiled(
        "roll by matrices",
        "a product with a permutation matrix for each position",
        (None, (0.6, 1.0)),
        against="roll",
        encoding="roll",
        change=partial(_install, _MatrixRoll),
    ),
    _compiled(
        "roll in the Fourier basis",
        "a change to the Fourier basis and rotations there, with equal scores",
        (None, (0.85, 1.0)),
        against="roll",
        encoding="continuous-roll",
    ),
    _compiled(
        "roll with its basis absorbed",
        "the rotary twin: the Fourier basis is part of the trained projections",
        (None, (0.97, 1.05)),
        against="roll",
        encoding="roll-twin",
    ),
    _compiled(
        "shaw",
        "Shaw's vectors on a grid as additional channels of queries and keys",
        (None, (0.9, 1.0)),
        encoding="shaw",
    ),
    _compiled(
        "shaw by lookup",
        "two numbers looked up for every pair of tokens",
        (None, (0.7, 0.95)),
        against="shaw",
        encoding="shaw",
        change=partial(_install, _ShawByLookup),
    ),
    _compiled(
        "lie", "learned rotations by scaling and squaring on the device", (None, (0.7, 0.95)), encoding="lie"
    ),
    _compiled(
        "lie by torch's exponential",
        "torch.matrix_exp: matrices sorted on the host, gradients from matrices of twice the width",
        (None, (0.3, 0.8)),
        against="lie",
        encoding="lie",
        change=partial(_install, _LieByTorch),
    ),
]
"""In the order of the report; `expected` was written before the first measurement."""


def time_variants(
    recipe: Recipe, device: torch.device, rounds: int, budget: TimeBudget
) -> list[VariantTiming]:
    """Time all variants that run on the device, in turns; the others and those that fail say why."""
    builders = {
        v.name: partial(v.trial, recipe, device)
        for v in sorted(VARIANTS, key=lambda v: v.priority)
        if v.runs_on(device)
    }
    failed: dict[str, str] = {}
    costs = {v.name: preparation_cost(v.mode) for v in VARIANTS}
    trials = budget.prepare(builders, 0.75, failed, costs)
    seconds = interleaved(trials, rounds, device, failed, budget.deadline(0.85))
    timings = []
    for v in VARIANTS:
        missing, measured = "", {}
        if not v.runs_on(device):
            missing = "not available here: needs CUDA"
        elif v.name in failed:
            missing = f"failed: {failed[v.name]}"
        elif v.name not in seconds:
            missing = "not measured: no time left"
        elif v.against not in seconds:
            missing = f"not compared: {v.against} failed"
        else:
            trial, pairs = trials[v.name], zip(seconds[v.name], seconds[v.against], strict=True)
            images = len(trial.images) / len(trials[v.against].images)
            measured = {
                "milliseconds": 1000 * statistics.median(seconds[v.name]),
                "gain": statistics.median(images * reference / own for own, reference in pairs),
                "ready_seconds": trial.ready_seconds,
            }
        timing = VariantTiming(
            name=v.name,
            description=v.description,
            of="step",
            against=v.against,
            expected=v.expected[device.type != "cpu"],
            batch=v.changed(recipe).batch_size,
            missing=missing,
        )
        timings.append(timing.model_copy(update=measured))
    forget(trials)
    return timings
