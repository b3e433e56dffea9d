"""One optimizer step, the same object for training and for the benchmark.

Nothing in it waits for the device.

On an accelerator a step is two compiled functions. The first is the loss with its gradients, replayed as
CUDA graphs, so that a step costs the host two launches rather than a thousand. The second is clipping
and optimizer, a handful of fused kernels; the learning rate is a tensor in it, so that a new rate
needs no new program. Seeds share both functions, encodings share the second. Within a process, one `Step`
serves all seeds of an encoding: `precompile` it once, then before each seed load its weights in place and
`reset` the step.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, cast

import torch
import torch.nn.functional as F
from timm.optim import Lamb
from torch import Tensor, nn
from torch.nn.attention import sdpa_kernel
from torch.optim import Optimizer

from rollpe.encodings import grid_positions
from rollpe.encodings.attention import Attention
from rollpe.encodings.codes import NoEncoding
from rollpe.errors import InputError
from rollpe_lab.training.compiling import EAGER, KERNELS, CompileMode, compiled
from rollpe_lab.training.recipe import Recipe
from rollpe_lab.training.second_moment import QueryKeyAdamW


def predictor(model: nn.Module, recipe: Recipe, device: torch.device) -> Callable[[Tensor], Tensor]:
    """images → logits float32 [B, classes], not compiled; in bfloat16 on the mode if the recipe says so.

    Of text, characters [B, N] → [B·N, classes], and likewise of patches with a loss each. The weights are
    float32 whatever the recipe's precision: autocast rounds them. Attention runs by `KERNELS` of
    recipe.attention, with "auto" on a CPU as torch chooses. The choice is made inside the function, so that
    it is part of a compiled graph and of the key under which the program is kept.
    Raises InputError if this model's attention cannot run so.
    """
    kind, half = device.type, recipe.precision == "bfloat16"

    def predict(inputs: Tensor) -> Tensor:
        with torch.autocast(kind, torch.bfloat16, enabled=half):
            logits: Tensor = model(inputs)
        return logits.float().flatten(0, -2)

    kernel = KERNELS[recipe.attention]

    def predict_by_kernel(inputs: Tensor) -> Tensor:
        with sdpa_kernel(kernel):
            return predict(inputs)

    if recipe.attention == "auto":
        return predict_by_kernel if kind == "cuda" else predict
    e = next((m.encoding for m in model.modules() if isinstance(m, Attention)), None)
    e = e or NoEncoding(head_dim=64, heads=1, grid=(4, 4))
    grid = e.grid or (4,) * e.axes
    tokens = torch.ones(  # and a class token
        *(1, e.heads, math.prod(grid) + 1, e.waves_in * e.head_dim),
        dtype=torch.bfloat16 if half else torch.float32,
        device=device,
        requires_grad=True,
    )
    try:
        with torch.enable_grad(), warnings.catch_warnings(action="ignore"), sdpa_kernel(kernel):
            precomputed = e.precompute(grid_positions(*grid, device=device), tokens, grid)
            out = e.attend(tokens, tokens, tokens[..., : e.head_dim], precomputed)
            torch.autograd.grad(out.sum(), tokens)
    except RuntimeError as error:
        reason = next(iter(str(error).strip().splitlines()), "")
        raise InputError(
            f"attention={recipe.attention!r} cannot run {e.name!r} on {device.type} in "
            f"{str(tokens.dtype).removeprefix('torch.')} ({reason}) Use attention='auto'."
        ) from None
    return predict_by_kernel


PIECE = 64
"""Images whose gradient a CPU computes at once, so that their activations stay in its caches. The mean over
the pieces of a batch is its gradient to rounding, except for the masks of dropout, drawn for each piece."""


class Step:
    """Called with a batch and a learning rate, it makes one optimizer step and returns the loss.

    model: on its device, float32, in training mode whenever the step is called.
    optimizers: from `create_optimizers`, for the same `mode`; their states are loaded before.
    penalty: evaluated after each forward pass, times the recipe's weight added to the loss; not part of what
        is returned.

    The loss is a scalar on the device. Where graphs are replayed, the next step overwrites it.

    Raises InputError for a kernel of attention that cannot run.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        optimizers: Sequence[Optimizer],
        mode: CompileMode,
        *,
        penalty: Callable[[], Tensor] | None = None,
    ) -> None:
        self.model = model
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizers = list(optimizers)
        self.penalty, self.penalty_weight = penalty, recipe.topography_weight
        device = self.parameters[0].device
        self.rate = torch.tensor(recipe.learning_rate, device=device)
        if mode.update:
            for group in self._groups():
                group["lr"] = self.rate
        self.graphs, self.compiled_update = mode.graphs, mode.update
        eager = mode.gradient is None and penalty is None
        self.in_pieces = eager and device.type == "cpu"
        self.updated = False
        predict, smoothing = predictor(model, recipe, device), recipe.label_smoothing

        def loss(inputs: Tensor, targets: Tensor) -> Tensor:
            logits = predict(inputs)
            if recipe.pool == "patches":
                targets = targets.repeat_interleave(len(logits) // len(targets), 0)
            return F.cross_entropy(logits, targets, label_smoothing=smoothing)

        self.update = self._update(recipe)
        self.loss = compiled(loss, mode.gradient) if mode.gradient else loss
        self.later_update = compiled(self.update, "default") if mode.update else self.update

    def __call__(self, inputs: Tensor, targets: Tensor, rate: float) -> Tensor:
        """inputs float32 [B, C, H, W], targets int64 [B] or float32 [B, classes].

        Of text, inputs int64 [B, N], targets int64 [B·N].
        """
        if self.graphs:  # what the last step returned may be overwritten
            torch.compiler.cudagraph_mark_step_begin()
        loss = self._backward(inputs, targets)
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
        return loss

    def _backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Add the gradient of a batch to the parameters' and return its loss."""
        if not self.in_pieces or len(inputs) <= PIECE or len(inputs) % PIECE:
            return self._backward_piece(inputs, targets)
        pieces = len(inputs) // PIECE
        parts = zip(inputs.chunk(pieces), targets.chunk(pieces), strict=True)
        return torch.stack([self._backward_piece(*part, pieces) for part in parts]).sum()

    def _backward_piece(self, inputs: Tensor, targets: Tensor, pieces: int = 1) -> Tensor:
        loss: Tensor = self.loss(inputs, targets)
        if pieces > 1:
            loss = loss / pieces
        objective = loss if self.penalty is None else loss + self.penalty_weight * self.penalty()
        objective.backward()
        return loss.detach()

    def query_key_value_gradients(self, inputs: Tensor, targets: Tensor) -> list[list[Tensor]]:
        """The gradient of a batch for the weights of each block's queries, keys and values, flat."""
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        self._backward(inputs, targets)
        weights = [layer.qkv.weight for layer in cast(Any, self.model).attentions]
        found = [[part.flatten().clone() for part in w.grad.split(w.shape[1])] for w in weights]
        for parameter in self.parameters:
            parameter.grad = None
        return found

    def precompile(self, inputs: Tensor, targets: Tensor) -> None:
        """Compile and record everything for batches of this shape, and leave the weights as they were.

        Three steps: the first compiles the loss and makes the optimizers' states, the second compiles the
        update and records graphs, the third replays them. Then the weights are put back, in place,
        and the step is `reset`. So a run's first update is compiled like the others, and a run on a step used
        before is one on a new step. Dropout has drawn: set the seed afterwards; `load` a state afterwards.
        """
        before = [tensor.detach().clone() for tensor in self.model.parameters()]
        for _ in range(3):
            self(inputs, targets, 0.0)
        with torch.no_grad():
            for tensor, kept in zip(self.model.parameters(), before, strict=True):
                tensor.copy_(kept)
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """Bring the optimizers' states back to their beginning, 0, in place.

        The weights are the caller's to load, in place and before. All tensors keep their addresses,
        so that compiled programs and recorded graphs stay valid.
        """
        for state in self._states():
            state.zero_()
        for group in self._groups():
            if "step" in group and not isinstance(group["step"], Tensor):  # LAMB of an older timm
                group["step"] = 0

    def state(self) -> list[dict[str, Any]]:
        """The optimizers' states, for a checkpoint."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    @torch.no_grad()
    def load(self, saved: list[dict[str, Any]]) -> None:
        """Take over what `state` returned, in place where there is a state already.

        The weights that belong to it are the caller's to load, before.
        """
        for optimizer, theirs in zip(self.optimizers, saved, strict=True):
            if not optimizer.state:
                optimizer.load_state_dict(theirs)
                continue
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            pairs = [(optimizer.state[parameters[i]], state) for i, state in theirs["state"].items()]
            pairs += zip(optimizer.param_groups, theirs["param_groups"], strict=True)  # LAMB counts there
            for ours, state in pairs:
                for key in (key for key in state if isinstance(ours[key], Tensor)):
                    ours[key].copy_(state[key])
                if isinstance(state.get("step"), int):
                    ours["step"] = state["step"]
        if self.compiled_update:
            for group in self._groups():
                group["lr"] = self.rate

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def _states(self) -> list[Tensor]:
        """All tensors that the optimizers keep from step to step."""
        states = [state.values() for optimizer in self.optimizers for state in optimizer.state.values()]
        counters = [group.get("step") for group in self._groups()]
        return [value for value in chain(*states, counters) if isinstance(value, Tensor)]

    def _update(self, recipe: Recipe) -> Callable[[], None]:
        clip = recipe.gradient_clip
        parameters: list[Tensor] = [*self.parameters]

        # torch wraps every optimizer's step in graph breaks, for callers whose gradients are on; ours are off
        moves = [(inspect.unwrap(type(optimizer).step), optimizer) for optimizer in self.optimizers]

        def update() -> None:
            if clip:
                nn.utils.clip_grad_norm_(parameters, clip)
            for move, optimizer in moves:
                move(optimizer)

        return update


# Optimizers


def create_optimizers(model: nn.Module, recipe: Recipe, mode: CompileMode = EAGER) -> list[Optimizer]:
    """One optimizer; two for muon, which moves only matrices, and for a second moment in other coordinates.

    Weights decay; biases, norms, scales and what the model names in no_weight_decay() do not:
    shrinking a learned frequency or an embedding of position changes what it means.
    """
    keep = cast(Any, model).no_weight_decay()
    layers = cast(Any, model).attentions if recipe.second_moment != "channels" else []
    apart = dict.fromkeys(parameter for layer in layers for parameter in layer.qkv.parameters())
    decaying, kept, matrices = [], [], []
    for name, parameter in model.named_parameters():
        if parameter in apart:
            continue
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
    device = kept[0].device
    rate: Any = torch.tensor(recipe.learning_rate, device=device) if mode.update else recipe.learning_rate
    betas = (recipe.betas[0], recipe.betas[1])
    if mode.update:
        # With the rate in a tensor, "foreach" wants Adam's counter of steps on the device as well.
        kernels: dict[str, Any] = {"foreach": _takes_many(device)}
        adam: dict[str, Any] = {"capturable": _takes_many(device)}
    else:
        kernels = {"fused": True, "foreach": False}
        adam = {}
    adam |= kernels | {"betas": betas}
    match recipe.optimizer:
        case "sgd":
            return [torch.optim.SGD(groups, lr=rate, momentum=recipe.momentum, nesterov=True, **kernels)]
        case "lamb":  # its own clipping is off: gradient_clip is the one place for that
            many: dict[str, Any] = {}
            if mode.update and _takes_many(device) and "foreach" in inspect.signature(Lamb).parameters:
                many["foreach"] = True  # timm before 1.0.31 has one loop for all, which compiles as well
            return [Lamb(groups, lr=rate, betas=betas, max_grad_norm=None, **many)]
        case "adamw":
            adamw = torch.optim.AdamW(groups, lr=rate, **adam)
            if not apart:
                return [adamw]
            groups = [
                {"params": [p for p in apart if p.ndim > 1], "weight_decay": recipe.weight_decay},
                {"params": [p for p in apart if p.ndim < 2], "weight_decay": 0.0},
            ]
            encoding, coordinates = layers[0].encoding, recipe.second_moment
            return [adamw, QueryKeyAdamW(groups, encoding, coordinates, lr=rate, betas=betas)]
        case "muon":  # scaled so that one learning rate suits both, as for AdamW
            muon = torch.optim.Muon(
                matrices,
                lr=recipe.learning_rate,
                weight_decay=recipe.weight_decay,
                momentum=recipe.momentum,
                adjust_lr_fn="match_rms_adamw",
            )
            return [muon, torch.optim.AdamW(groups, lr=rate, **adam)]


def _takes_many(device: torch.device) -> bool:
    """Whether a compiled update is made of operations on all parameters, which are fused into a few kernels.

    A CPU has no such operations: there a loop is fused.
    """
    return device.type != "cpu"


def learning_rate(recipe: Recipe, step: int, total: int, steps: int) -> float:
    """Rate of the step-th of `total` steps, counted from 0, with `steps` to an epoch.

    It rises linearly over warmup_epochs to learning_rate, then falls along half a cosine to zero, which the
    last step just misses.
    """
    warmup = min(round(recipe.warmup_epochs * steps), total)
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    done = (step - warmup) / (total - warmup)
    return recipe.learning_rate * (1 + math.cos(math.pi * done)) / 2
