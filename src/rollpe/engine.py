"""One optimizer step, whoever asks for it: training and the benchmark run the same object.

In here: the optimizers, the learning rate's schedule, and `Step`: forward, loss, backward, clipping,
optimizers, average of the weights. The same code runs everywhere; `How` says what of it is compiled. Nothing
in it waits for the device. Not in here: data, epochs, evaluation, records (training.py).

On an accelerator a step is two compiled functions. The first is the loss with its gradients, replayed as
CUDA graphs, so that a step costs the host two launches rather than a thousand. The second is clipping,
optimizer and average, a handful of fused kernels; the learning rate is a tensor in it, so that a new rate
is no new program. Compiling takes a minute once: inductor keeps what it made in a folder,
TORCHINDUCTOR_CACHE_DIR or its default under the temporary folder, by the contents of the graph. Seeds share
all of it, encodings share the second function, and so do all processes that see that folder; on a cluster,
set the variable to a folder on a shared disk.
"""

from __future__ import annotations

import inspect
import math
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast

import torch
import torch.nn.functional as F
from timm.optim import Lamb
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.swa_utils import get_ema_multi_avg_fn

from rollpe.recipes import Recipe

Mode = Literal["default", "reduce-overhead", "max-autotune"]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class How:
    """What of a step is compiled. It changes the speed, and the result only by rounding and by the masks of
    dropout and drop path, since compiled kernels draw random numbers of their own.

    gradient: torch.compile's mode for the loss and its gradients; None is eager. "reduce-overhead" and
        "max-autotune" replay CUDA graphs on CUDA; the latter also times several kernels for each product.
    loss: whether the loss is inside that function, or only the model.
    update: whether clipping, optimizer and average are compiled.
    optimizer: how torch runs an optimizer that is not compiled: one kernel for everything, one for each
        operation on all parameters, or one for each operation on each parameter.
    """

    gradient: Mode | None = None
    loss: bool = True
    update: bool = False
    optimizer: Literal["fused", "foreach", "single"] = "fused"

    @property
    def graphs(self) -> bool:
        """Whether CUDA graphs are replayed, on CUDA."""
        return self.gradient in ("reduce-overhead", "max-autotune")


EAGER = How()


def how(recipe: Recipe, place: torch.device, processes: int = 1) -> How:
    """What is fastest there. recipe.compile: false, true, "default" (no CUDA graphs), "max-autotune", or "auto"
    (true on CUDA).

    Whether it works there is not asked here; see `compiles`.
    """
    wanted = place.type == "cuda" if recipe.compile == "auto" else recipe.compile
    if not wanted:
        return EAGER
    if (
        place.type != "cuda" or processes > 1 or wanted == "default"
    ):  # sums over processes are not recorded into graphs
        mode: Mode = "default"
    else:
        mode = "max-autotune" if wanted == "max-autotune" else "reduce-overhead"
    # A CPU launches nothing: its fused optimizer is as fast, without a minute of compiling. Muon reads
    # its learning rate on the host.
    return How(gradient=mode, update=place.type == "cuda" and recipe.optimizer != "muon")


def compiled(function: Function, mode: Mode) -> Function:
    """torch.compile for fixed shapes, with a cache of its own.

    Dynamo keeps its programs by code object, eight to each, and asks them one after another which fits. A
    copy of the code makes functions of many models, of a sweep or a benchmark, strangers to each other.
    """
    f: Any = function
    own = types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    return cast(Function, torch.compile(own, mode=None if mode == "default" else mode, dynamic=False))


@cache
def compiles(place: torch.device) -> bool:
    """Whether torch.compile works there; a warning says why not. It needs Triton and a C compiler."""

    def twice(x: Tensor) -> Tensor:
        return 2 * x

    try:
        compiled(twice, "default")(torch.ones(8, device=place))
    except Exception as error:  # each part that can be missing says so in its own way
        first = next(iter(str(error).strip().splitlines()), "")
        warnings.warn(
            f"torch.compile does not work here, so nothing is compiled, which is slower. {first}",
            stacklevel=2,
        )
        return False
    return True


def predictor(model: nn.Module, recipe: Recipe, place: torch.device) -> Callable[[Tensor], Tensor]:
    """images → logits float32, not compiled; in bfloat16 on the way if the recipe says so."""
    kind, half = place.type, recipe.precision == "bfloat16"

    def predict(inputs: Tensor) -> Tensor:
        with torch.autocast(kind, torch.bfloat16, enabled=half):
            logits: Tensor = model(inputs)
        return logits.float()

    return predict


class Step:
    """Called with a batch and a learning rate, it makes one optimizer step and returns the loss.

    model: on its device, in training mode whenever the step is called.
    optimizers: from `create_optimizers`, for the same `how`; their states are loaded before.
    average: a copy of the model whose weights follow with decay recipe.ema.
    penalty: evaluated after each forward pass and added to the loss; not part of what is returned.
    processes: of a run on several; the batch is then this process's share.

    The loss is a scalar on the device. Where graphs are replayed, the next step overwrites it.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        optimizers: Sequence[Optimizer],
        how: How,
        *,
        average: nn.Module | None = None,
        penalty: Callable[[], Tensor] | None = None,
        processes: int = 1,
    ) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizers, self.penalty = list(optimizers), penalty
        place = self.parameters[0].device
        self.rate = torch.tensor(recipe.learning_rate, device=place)
        if how.update:
            for group in self._groups():
                group["lr"] = self.rate
        self.graphs, self.compiled_update = how.graphs, how.update
        self.updated = False
        if processes > 1:
            # an encoding's parameters need not all reach the loss, but always the same ones do
            model = DistributedDataParallel(model, static_graph=True)
        self.loss = _loss(model, recipe, place, how)
        self.update = self._update(recipe, average)
        self.later_update = compiled(self.update, "default") if how.update else self.update

    def __call__(self, inputs: Tensor, targets: Tensor, rate: float) -> Tensor:
        """inputs float32 [B, C, H, W], targets int64 [B] or float32 [B, classes]."""
        if self.graphs:  # what the last step returned may be overwritten
            torch.compiler.cudagraph_mark_step_begin()
        loss: Tensor = self.loss(inputs, targets)
        objective = loss if self.penalty is None else loss + self.penalty()
        objective.backward()
        if self.compiled_update:
            self.rate.fill_(rate)
        else:
            for group in self._groups():
                group["lr"] = rate
        # the first update also makes the optimizers' states, which is not worth compiling
        with torch.no_grad():
            (self.later_update if self.updated else self.update)()
        self.updated = True
        for parameter in self.parameters:
            parameter.grad = None
        return loss.detach()

    def state(self):
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load(self, saved):
        for optimizer, one in zip(self.optimizers, saved, strict=True):
            optimizer.load_state_dict(one)

    def reset(self):
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                for value in state.values():
                    if isinstance(value, Tensor):
                        value.zero_()

    def warm(self, inputs, targets):
        pass

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def _update(self, recipe: Recipe, average: nn.Module | None) -> Callable[[], None]:
        parameters, optimizers, clip = self.parameters, self.optimizers, recipe.gradient_clip
        follow: Callable[..., None] | None = None
        averaged: list[Tensor] = []
        if average is not None and recipe.ema is not None:
            follow = get_ema_multi_avg_fn(recipe.ema)
            averaged = [p for p in average.parameters() if p.requires_grad]

        # torch wraps every optimizer's step in graph breaks, for callers whose gradients are on; ours are off
        moves = [(inspect.unwrap(type(optimizer).step), optimizer) for optimizer in optimizers]

        def update() -> None:
            if clip:
                nn.utils.clip_grad_norm_(parameters, clip)
            for move, optimizer in moves:
                move(optimizer)
            if follow is not None:
                follow(averaged, parameters, None)

        return update


def _loss(model: nn.Module, recipe: Recipe, place: torch.device, how: How) -> Callable[..., Tensor]:
    """(inputs, targets) → loss, compiled as far as `how` says."""
    predict, smoothing = predictor(model, recipe, place), recipe.label_smoothing
    if how.gradient and not how.loss:
        predict = compiled(predict, how.gradient)

    def loss(inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(predict(inputs), targets, label_smoothing=smoothing)

    return compiled(loss, how.gradient) if how.gradient and how.loss else loss


# Optimizers


def create_optimizers(model: nn.Module, recipe: Recipe, how: How = EAGER) -> list[Optimizer]:
    """One optimizer; two for muon, which moves only matrices.

    Weights decay; biases, norms, scales and what the model names in no_weight_decay() do not:
    shrinking a learned frequency or an embedding of position changes what it means.
    """
    keep = cast(Any, model).no_weight_decay()
    decaying, kept, matrices = [], [], []
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2 or name in keep:
            kept.append(parameter)
        elif recipe.optimizer == "muon" and parameter.ndim == 2 and name.startswith("blocks."):
            matrices.append(parameter)
        else:
            decaying.append(parameter)
    groups = [
        {"params": decaying, "weight_decay": recipe.weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    place = kept[0].device
    rate: Any = torch.tensor(recipe.learning_rate, device=place) if how.update else recipe.learning_rate
    betas = (recipe.betas[0], recipe.betas[1])
    if how.update:
        # With the rate in a tensor, "foreach" wants Adam's counter of steps on the device as well.
        kernels: dict[str, Any] = {"foreach": _takes_many(place)}
        adam: dict[str, Any] = {"capturable": _takes_many(place)}
    else:
        kernels = {"fused": how.optimizer == "fused", "foreach": how.optimizer == "foreach"}
        adam = {}
    adam |= kernels | {"betas": betas}
    match recipe.optimizer:
        case "sgd":
            return [torch.optim.SGD(groups, lr=rate, momentum=recipe.momentum, nesterov=True, **kernels)]
        case "lamb":  # its own clipping is off: gradient_clip is the one place for that
            many: dict[str, Any] = {}
            if how.update and _takes_many(place) and "foreach" in inspect.signature(Lamb).parameters:
                many["foreach"] = True  # timm before 1.0.31 has one loop for all, which compiles as well
            return [Lamb(groups, lr=rate, betas=betas, max_grad_norm=None, **many)]
        case "adamw":
            return [torch.optim.AdamW(groups, lr=rate, **adam)]
        case "muon":  # scaled so that one learning rate suits both, as for AdamW
            muon = torch.optim.Muon(
                matrices,
                lr=recipe.learning_rate,
                weight_decay=recipe.weight_decay,
                momentum=recipe.momentum,
                adjust_lr_fn="match_rms_adamw",
            )
            return [muon, torch.optim.AdamW(groups, lr=rate, **adam)]


def _takes_many(place: torch.device) -> bool:
    """Whether a compiled update is made of operations on all parameters, which are fused into a few kernels.

    A CPU has no such operations: there a loop is fused.
    """
    return place.type != "cpu"


def learning_rate(recipe: Recipe, step: int, total: int, steps: int) -> float:
    """Rate of the step-th of `total` steps, counted from 0, with `steps` to an epoch.

    It rises linearly over warmup_epochs to learning_rate, then falls along half a cosine to
    final_learning_rate, which the last step just misses.
    """
    warmup = min(round(recipe.warmup_epochs * steps), total)
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    done = (step - warmup) / (total - warmup)
    fall = recipe.learning_rate - recipe.final_learning_rate
    return recipe.final_learning_rate + fall * (1 + math.cos(math.pi * done)) / 2
