"""What of a step is compiled, and how.

Compiling takes a minute once: inductor keeps what it made in a folder, TORCHINDUCTOR_CACHE_DIR or its default
under the temporary folder, by the contents of the graph. All processes that see that folder share it; on a
cluster, set the variable to a folder on a shared disk.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from rollpe_lab.training.recipe import Recipe

Mode = Literal["default", "reduce-overhead"]
Function = TypeVar("Function", bound=Callable[..., Any])

KERNELS: dict[str, SDPBackend | list[SDPBackend]] = {
    "auto": [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
"""torch's kernels of attention on a GPU, by the recipe's names; of several torch takes the first that runs.

"auto" leaves out cuDNN's, which torch 2.11 prefers on an H200: with cuDNN 9.19 its gradient was wrong at
65 tokens (data/README.md). Compiled training on a CPU takes plain products where keys are few, whatever the
recipe says (`rollpe.encodings.sdpa.attention`)."""


@dataclass(frozen=True)
class CompileMode:
    """What of a step is compiled. It changes the speed, and the result only by rounding and by the masks of
    dropout and drop path, since compiled kernels draw random numbers of their own.

    gradient: torch.compile's mode for the loss and its gradients; None is eager. "reduce-overhead"
        replays CUDA graphs on CUDA.
    update: whether clipping and optimizer are compiled.
    """

    gradient: Mode | None = None
    update: bool = False

    @property
    def graphs(self) -> bool:
        """Whether CUDA graphs are replayed, on CUDA."""
        return self.gradient == "reduce-overhead"


EAGER = CompileMode()


def compile_mode(recipe: Recipe, device: torch.device) -> CompileMode:
    """What to compile on this device.

    recipe.compile: false, true, "default" (no CUDA graphs), or "auto" (true on CUDA).
    Whether compiling works there is another question; see `compiles`.
    """
    enabled = device.type == "cuda" if recipe.compile == "auto" else recipe.compile
    if not enabled:
        return EAGER
    if device.type != "cuda" or enabled == "default":
        mode: Mode = "default"
    else:
        mode = "reduce-overhead"
    # A CPU launches nothing: its fused optimizer is as fast, without a minute of compiling. Muon reads
    # its learning rate on the host.
    return CompileMode(gradient=mode, update=device.type == "cuda" and recipe.optimizer != "muon")


def compiled(function: Function, mode: Mode) -> Function:
    """torch.compile for fixed shapes, with a cache of its own.

    Dynamo keeps up to eight programs for each code object and tries them one after another. A sweep or a
    benchmark compiles the same function for many models; a copy of its code keeps their programs apart.
    """
    _keep_on_disk()
    f: Any = function
    own = types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    return cast(Function, torch.compile(own, mode=None if mode == "default" else mode, dynamic=False))


def _keep_on_disk() -> None:
    """Let later processes find programs that torch compiles anew each time unless it is told that they may.

    A torch.autograd.Function may do anything in Python. That of a roll is traced into the graph, forward and
    backward, and the graph's text is in the key: another source is another key. The choice of an attention
    kernel is a call in the graph, with the kernel among its arguments.
    """
    # the compiler's own modules, which take a second to load
    from torch._functorch import config as autograd  # noqa: PLC0415
    from torch._inductor import config as inductor  # noqa: PLC0415

    if hasattr(autograd, "autograd_cache_allow_custom_autograd_functions"):
        autograd.autograd_cache_allow_custom_autograd_functions = True
    if hasattr(inductor, "unsafe_marked_cacheable_functions"):
        names = ("torch.nn.attention._sdpa_kernel", "torch.nn.attention._backend_from_string")
        marked = inductor.unsafe_marked_cacheable_functions | dict.fromkeys(names, torch.__version__)
        inductor.unsafe_marked_cacheable_functions = marked


@cache
def compiles(device: torch.device) -> bool:
    """Whether torch.compile works there; a warning says why not. It needs Triton and a C compiler."""

    def twice(x: Tensor) -> Tensor:
        return 2 * x

    try:
        compiled(twice, "default")(torch.ones(8, device=device))
    except Exception as error:  # each part that can be missing fails in its own way
        first = next(iter(str(error).strip().splitlines()), "")
        warnings.warn(
            f"torch.compile does not work here, so nothing is compiled, which is slower. {first}",
            stacklevel=2,
        )
        return False
    return True
