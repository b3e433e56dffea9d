"""Positions: grids, checks, and cached facts about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from rollpe.errors import InputError

T = TypeVar("T")
Numbers = float | tuple["Numbers", ...]


def grid_positions(
    *sizes: int, device: torch.device | str | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Positions of a full grid, row-major, counted from 0: [prod(sizes), len(sizes)].

    ``grid_positions(2, 3)`` is (0,0), (0,1), (0,2), (1,0), (1,1), (1,2).
    """
    if not sizes or min(sizes) < 1:
        raise InputError(f"grid sizes {sizes} must be one or more numbers of at least 1.")
    ranges = [torch.arange(size, device=device, dtype=dtype) for size in sizes]
    return torch.stack(torch.meshgrid(*ranges, indexing="ij"), dim=-1).flatten(0, -2)


def scale_positions(positions: Tensor, shown: tuple[int, ...], built: tuple[int, ...]) -> Tensor:
    """Squeeze the positions of a grid of ``shown`` sizes into the extent of a ``built`` grid.

    A token is at the center of its patch: p ↦ (p + ½)·built/shown - ½. An encoding of real positions then
    sees another resolution over the span that it was trained on.
    """
    sizes = positions.shape[-1]
    axes = zip(positions.unbind(-1), checked_grid(shown, sizes), checked_grid(built, sizes), strict=True)
    return torch.stack([(p + 0.5) * (b / s) - 0.5 for p, s, b in axes], -1)


def jitter(
    positions: Tensor,
    shift: float = 0.0,
    scale: float = 1.0,
    rescale: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Positions [..., axes], shifted and stretched at random while a model trains, alike for all tokens.

    p_a ↦ r s_a (p_a + t_a): t_a uniform in ±``shift``; s_a of each axis and r of all with logarithms uniform
    within those of 1/``scale`` … ``scale`` and 1/``rescale`` … ``rescale``. For encodings of real
    positions; to one that is relative, the shift says nothing. Source: code of DINOv3, whose positions run
    from -1 to 1.
    """
    if not (shift >= 0 and scale >= 1 and rescale >= 1):
        raise InputError(f"shift={shift} must be 0 or more, scale={scale} and rescale={rescale} 1 or more.")
    positions = positions if positions.is_floating_point() else positions.float()

    def drawn(reach: float, *shape: int) -> Tensor:
        return positions.new_empty(shape).uniform_(-reach, reach, generator=generator)

    axes = positions.shape[-1]
    if shift:
        positions = positions + drawn(shift, axes)
    if scale > 1:
        positions = positions * drawn(math.log(scale), axes).exp()
    return positions * drawn(math.log(rescale), 1).exp() if rescale > 1 else positions


def checked_grid(grid: Sequence[int], axes: int | None = None) -> tuple[int, ...]:
    """The sizes of a grid as a tuple, one for each of ``axes`` if given; InputError for other values."""
    whole = isinstance(grid, Sequence) and all(isinstance(size, Integral) and size >= 1 for size in grid)
    if not whole or len(grid) != (axes or len(grid) or 1):
        sizes = "sizes" if axes is None else f"axes={axes} sizes"
        raise InputError(f"grid={grid} must hold {sizes} of at least 1, as in grid={(14,) * (axes or 2)}.")
    return tuple(grid)


def check_grid(grid: tuple[int, ...] | None, positions: Tensor, axes: int) -> None:
    """Refuse sizes whose row-major grid is not positions [..., M, axes], up to a shift; None is no grid.

    Where the values are unknown (``are_integers``), only their number is checked.
    """
    if grid is None:
        return
    grid = tuple(grid)
    fits = len(grid) == axes and math.prod(grid) == positions.shape[-2]
    if fits and not torch.compiler.is_compiling() and not positions.is_meta:
        places = constant(grid_positions, *grid, device=positions.device, dtype=positions.dtype)
        fits = positions is places or _remembered(_grids, positions, partial(_grid, positions), grid) == grid
    if not fits:
        raise InputError(
            f"grid={tuple(grid)} is not the grid of {positions.shape[-2]} positions on axes={axes}:"
            " give its sizes, or leave it out."
        )


def _grid(positions: Tensor) -> tuple[int, ...]:
    """The sizes of the row-major grid that positions [..., M, axes] are up to a shift; () for others."""
    counted = positions - positions[..., :1, :]
    sizes = tuple(int(size) + 1 for size in counted.reshape(-1, *counted.shape[-2:])[0, -1].tolist())
    if min(sizes) < 1 or math.prod(sizes) != positions.shape[-2]:
        return ()
    places = grid_positions(*sizes, device=positions.device, dtype=positions.dtype)
    return sizes if bool((counted == places).all()) else ()


def with_axis(positions: Tensor, axes: int) -> Tensor:
    """Positions [M] on one axis as [M, 1]; all others as they are. InputError for what is no tensor."""
    if not isinstance(positions, Tensor):
        raise InputError(f"positions are {type(positions).__name__}: give a tensor, torch.tensor(positions).")
    return positions.unsqueeze(-1) if axes == 1 and positions.dim() == 1 else positions


def check_positions(positions: Tensor, like: Tensor, axes: int) -> None:
    """Refuse positions other than [M, axes] or [B, M, axes] for ``like`` [B, ..., N, c] with M <= N.

    Infinite positions and NaN are refused where the values are known, see ``are_finite``.
    """
    batch, tokens = like.shape[0], like.shape[-2]
    if positions.dim() not in (2, 3) or positions.shape[-1] != axes:
        alone = "[tokens], " if axes == 1 else ""
        ids = ", position_ids[..., None] of ids [batch, tokens]" if axes == 1 else ""
        raise InputError(
            f"positions have shape {tuple(positions.shape)}: this encoding needs"
            f" {alone}[tokens, {axes}] or [batch, tokens, {axes}]{ids}."
        )
    if positions.dtype in (torch.bfloat16, torch.float16):
        exact = 256 if positions.dtype == torch.bfloat16 else 2048
        raise InputError(
            f"positions are {str(positions.dtype).removeprefix('torch.')}, which rounds integers above"
            f" {exact}: give integers or float32, whatever the dtype of the model."
        )
    if positions.shape[-2] > tokens:
        raise InputError(
            f"{positions.shape[-2]} positions for {tokens} tokens: give at most one to each token."
        )
    if positions.dim() == 3 and len(positions) not in (1, batch):
        raise InputError(
            f"positions of {len(positions)} images for tokens of {batch}: give one set to each image,"
            f" or one [tokens, {axes}] to all."
        )
    if not are_finite(positions):
        raise InputError(
            f"positions hold {positions[~positions.isfinite()][0].item()}: give finite numbers. Tokens"
            " without a position come first and get none; padding may have any number, such as 0."
        )


def to_integers(positions: Tensor) -> Tensor:
    """Integer positions as int64."""
    return (positions.round() if positions.is_floating_point() else positions).long()


def last_positions(positions: Tensor, tokens: int) -> Tensor:
    """The positions of the last tokens of all, [(B,) M, axes] to [(B,) at most ``tokens``, axes]."""
    return positions[..., max(positions.shape[-2] - tokens, 0) :, :]


def numbers_of(table: Tensor) -> Numbers:
    """A table as a tuple of its rows: what can be compared, pickled and made anew on any device."""
    return tuple(numbers_of(row) for row in table) if table.dim() else table.item()


def listed(numbers: Numbers, *, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The inverse of ``numbers_of``. torch.tensor would begin on the CPU, also in a compiled graph."""
    if isinstance(numbers, tuple):
        return torch.stack([listed(number, device=device, dtype=dtype) for number in numbers])
    return torch.full((), numbers, device=device, dtype=dtype)


_constants: dict[tuple, Tensor] = {}


def constant(make: Callable[..., Tensor], *args: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
    """``make(*args, device=device, dtype=dtype)``, computed once: never change the result in place.

    For tensors that depend on sizes alone. A buffer would be rounded by ``model.bfloat16()``. The tensor is
    made outside inference mode, so that a later training step can save it for its backward pass; a traced
    graph makes its own.
    """
    if torch.compiler.is_compiling():
        return make(*args, device=device, dtype=dtype)
    key = (make, args, device, dtype)
    if key not in _constants:
        with torch.inference_mode(False), torch.no_grad():
            made = make(*args, device=device, dtype=dtype)
        if type(made) is not Tensor:  # a tracer's stand-in
            return made
        _constants[key] = made
    return _constants[key]


_finite: WeakIdKeyDictionary = WeakIdKeyDictionary()
_integral: WeakIdKeyDictionary = WeakIdKeyDictionary()
_reaches: WeakIdKeyDictionary = WeakIdKeyDictionary()
_grids: WeakIdKeyDictionary = WeakIdKeyDictionary()


def are_integers(positions: Tensor) -> bool:
    """Whether every position is an integer; True where the values are unknown, see ``_remembered``."""

    def ask() -> bool:
        return torch.equal(positions, positions.round())

    return not positions.is_floating_point() or _remembered(_integral, positions, ask, True)


def are_finite(positions: Tensor) -> bool:
    """Whether no position is infinite or NaN; True where the values are unknown.

    A slice of finite positions costs no synchronization either.
    """

    def ask(x: Tensor) -> bool:
        return bool(x.detach().isfinite().all())

    whole = positions if positions._base is None else positions._base
    return not positions.is_floating_point() or any(
        _remembered(_finite, x, partial(ask, x), True) for x in (whole, positions)
    )


def spans(positions: Tensor) -> list[float]:
    """The largest distance of two positions [M, axes] or [B, M, axes] of an image, along each axis.

    Empty where the values are unknown.
    """
    return _reach(positions)[0]


def farthest(positions: Tensor) -> float:
    """The largest distance of a position [..., M, axes] from 0, on any axis; 0 where values are unknown."""
    return _reach(positions)[1]


def _reach(positions: Tensor) -> tuple[list[float], float]:
    unknown: tuple[list[float], float] = [], 0.0

    def ask() -> tuple[list[float], float]:
        if not positions.numel():
            return unknown
        low, high = positions.detach().aminmax(dim=-2)
        distances = (high - low).reshape(-1, positions.shape[-1]).amax(0)
        return distances.tolist(), max(-low.min().item(), high.max().item())

    return _remembered(_reaches, positions, ask, unknown)


def _remembered(known: WeakIdKeyDictionary, positions: Tensor, ask: Callable[[], T], unknown: T) -> T:
    """The cached answer for an unchanged tensor, else a new one.

    On an accelerator an answer costs a synchronization, so it is kept until the tensor changes, for all
    layers and batches. (There, changes of an inference tensor are not detected.) ``unknown`` on the meta
    device, and while a graph is traced or captured.
    """
    if torch.compiler.is_compiling() or positions.is_meta:
        return unknown
    version = 0 if positions.is_inference() else positions._version
    answer = None if positions.is_inference() and positions.device.type == "cpu" else known.get(positions)
    if answer is None or answer[0] != version:
        if positions.is_cuda and torch.cuda.is_current_stream_capturing():
            return unknown
        try:
            answer = known[positions] = (version, ask())
        except RuntimeError:  # a tracer's or vmap's stand-in
            return unknown
    return answer[1]
