"""Rotations that need not commute: LieRE, in planes that are learned, and rotation of the sphere."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor, nn

from rollpe import formulas
from rollpe.encodings.base import Encoding, Shape
from rollpe.encodings.registry import register
from rollpe.encodings.rotary import cycle
from rollpe.errors import InputError, check_positive

SQUARINGS = 12
"""Squarings in a compiled exponential, enough for angles up to 2^12 radians."""


def exponential(skew: Tensor) -> Tensor:
    """exp of skew-symmetric matrices [..., n, n] of one dtype, float32 or float64.

    E_0 = exp(A/2^s) - 1 by Taylor's polynomial of degree 11 in five products, exact to rounding where
    ‖A/2^s‖ is at most 1 (float64: 1/4); then s times E ← 2E + E², which is exp(2X) - 1 for E = exp(X) - 1.
    Without the identity small entries keep their digits, so that matrices of all sizes can share one s.
    ``torch.matrix_exp`` chooses degree and s on the host, which CUDA graphs do not allow, squares exp(X)
    itself, which loses digits, and differentiates with matrices twice as wide.

    A compiled graph squares ``SQUARINGS`` times; a matrix that needs more becomes NaN, not a wrong rotation.
    Otherwise the host reads once how many are needed.
    """
    angle = torch.linalg.vector_norm(skew.detach(), dim=(-2, -1), keepdim=True) / math.sqrt(2)  # at most
    extra = 2 if skew.dtype == torch.float64 else 0
    needed = (angle.log2().ceil() + extra).nan_to_num(0.0).clamp(0, 60)
    room = SQUARINGS + extra
    if not (torch.compiler.is_compiling() or skew.is_meta):
        room = max(needed.int().flatten().tolist(), default=0)
    x = (skew * 2.0**-room).reshape(-1, *skew.shape[-2:])
    x2 = x @ x
    x3 = x2 @ x
    one = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    power = one / math.factorial(9) + x / math.factorial(10) + x2 / math.factorial(11)
    for rest in (
        one / math.factorial(6) + x / math.factorial(7) + x2 / math.factorial(8),
        one / math.factorial(3) + x / math.factorial(4) + x2 / math.factorial(5),
        x + x2 / 2,
    ):
        power = torch.baddbmm(rest, x3, power)  # Σ_k x^k/k!, 0 < k < 12
    for _ in range(room):
        power = torch.baddbmm(power, power, power, beta=2)
    return (power + one).view(skew.shape).masked_fill(needed > room, math.nan)


@register("spherical-rope")
class SphericalRope(Encoding):
    """Rotation of channel triplets, by yaw and by roll (van de Geijn et al., 2025, section 4, appendix G).

    The source: triplet d becomes Y(ω_d p_x) R(ω_d p_y) z_d with yaw and roll matrices and
    ω_d = 100^(-2d/D), D the number of triplets, positions running from -π to π across the image. Our
    reading: yaw turns the first two channels of a triplet and roll the last two,

        Y(α) = [[cos α, -sin α, 0], [sin α, cos α, 0], [0, 0, 1]],
        R(β) = [[1, 0, 0], [0, cos β, -sin β], [0, sin β, cos β]];

    roll comes first, as the formula says (a figure's caption has x first); x is axis 1 and y axis 0; and the
    span of 2π is G tokens, not G - 1 (see uniform-rope): ω_d = base^(-d/D)·2π/G_a with base = 100² = 10000.
    Y and R do not commute, so the scores are not relative. Yet a shift along x, the outer rotation, changes
    nothing, and one along y amounts to a fixed rotation of all queries and keys, which their projections
    can undo: where positions start does not matter to what can be learned.

    No parameters (the source also has a learned variant, absent here); any real position; norm preserving;
    two axes. Channels beyond the last triplet carry no position. Cost: 8 multiplications and 4 additions per
    triplet. dtype as in ``Rotary``.

    Args:
        base: ratio of the fastest to the slowest possible speed.
        frequency: ω_0 in radians per token on both axes, in place of one cycle across ``grid``.
    """

    acts_on = "scores"
    relative = False

    def __init__(
        self, *, base: float = 10000.0, frequency: float | None = None, **shape: Unpack[Shape]
    ) -> None:
        super().__init__(**shape)
        if self.axes != 2:
            raise InputError(f"encoding 'spherical-rope' has two axes, not axes={self.axes}: use 'lie'.")
        if self.head_dim < 3:
            raise InputError(f"head_dim={self.head_dim} holds no channel triplet: use at least 3.")
        self.triplets = self.head_dim // 3
        check_positive(base=base)
        self.base = float(base)
        self.frequency = frequency
        self.turns = tuple(2 * math.pi / size for size in cycle(self.name, self.grid, 2, frequency))

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines of roll and yaw, [..., N, 2, triplets]."""
        d = torch.arange(self.triplets, dtype=positions.dtype, device=positions.device)
        angles = times_axis(positions, self.turns)[..., None] * self.base ** (-d / self.triplets)
        return angles.cos(), angles.sin()

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        (cos_roll, cos_yaw), (sin_roll, sin_yaw) = (table.unbind(-2) for table in tables)
        a, b, c = x[..., : 3 * self.triplets].unflatten(-1, (-1, 3)).unbind(-1)
        b, c = b * cos_roll - c * sin_roll, b * sin_roll + c * cos_roll
        a, b = a * cos_yaw - b * sin_yaw, a * sin_yaw + b * cos_yaw
        rotated = torch.stack((a, b, c), -1).flatten(-2).to(x.dtype)
        return torch.cat((rotated, x[..., 3 * self.triplets :]), -1)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        d, m = torch.arange(self.triplets).to(x), 3 * self.triplets
        omega = x.new_tensor(self.turns)[:, None] * self.base ** (-d / self.triplets)
        return torch.cat((formulas.spherical_rope(x[..., :m], positions, omega), x[..., m:]), -1)


def times_axis(positions: Tensor, factors: tuple[float, ...]) -> Tensor:
    """Positions [..., axes] times one number for each axis, without a copy from the host."""
    return torch.stack([positions[..., axis] * factor for axis, factor in enumerate(factors)], -1)


@register("lie")
class Lie(Encoding):
    """LieRE, rotation by learned generators (Ostmeier et al., 2024, section 4).

    q ↦ R(p) q and k ↦ R(p) k with R(p) = exp(Σ_a p_a A_a), A_a skew-symmetric, separately learned for each
    head of every layer. The A_a need not commute; where they do not, R(p)ᵀR(p') is no function of p' - p and
    the scores are not relative. With one axis they always are. A_a is block-diagonal with blocks of
    ``block`` channels: the whole head gives the source's LieRE_64, 8 its best LieRE_8, and 2 learned
    frequencies on each pair, as mixed-rope has them.

    As in the source's code, a position is measured in images: p_a is divided by the grid's size along a, if
    there is a grid (by G where the code's linspace divides by G - 1; a larger image goes beyond 1). Without
    a grid positions count as they come. The entries above the diagonal start uniform in [0, init).

    Adds heads*axes*d*(block - 1)/2 parameters. Any real position; norm preserving. Cost: the exponential of
    heads*d/block matrices for each of the M positions (B·M if they differ by image), then one block-diagonal
    matrix product for q and one for k. The exponential (``exponential``) is taken in float32 (float64 for
    float64 queries) outside autocast, and cast to the dtype of the queries before the product.

    Args:
        block: channels of one block, a divisor of head_dim; all of them by default.
        init: upper end of the initial entries, in radians per image; 2π is the source's choice.
    """

    acts_on = "scores"
    relative = False
    per_head = True
    angular = ("generators",)
    exponential = staticmethod(exponential)

    def __init__(
        self, *, block: int | None = None, init: float = 2 * math.pi, **shape: Unpack[Shape]
    ) -> None:
        super().__init__(**shape)
        self.block = self.head_dim if block is None else block
        if self.block < 2 or self.head_dim % self.block:
            raise InputError(f"block={self.block} must be 2 or more and divide head_dim={self.head_dim}.")
        self.relative = self.axes == 1
        pairs = self.block * (self.block - 1) // 2
        blocks = self.head_dim // self.block
        self.init = init
        self.generators = nn.Parameter(torch.empty(self.heads, self.axes, blocks, pairs))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the generators anew."""
        self.generators.copy_(self.init * torch.rand_like(self.generators))

    def skew(self, dtype: torch.dtype) -> Tensor:
        """The generators A_a as matrices, [heads, axes, blocks, block, block]."""
        row, column = torch.triu_indices(self.block, self.block, offset=1, device=self.generators.device)
        upper = torch.zeros(
            *self.generators.shape[:-1], self.block, self.block, dtype=dtype, device=self.generators.device
        )
        upper[..., row, column] = self.generators.to(dtype)
        return upper - upper.transpose(-2, -1)

    def in_images(self, positions: Tensor) -> Tensor:
        """Positions [..., axes] divided by the grid's sizes, if there is a grid."""
        if self.grid is None:
            return positions
        return torch.stack([p / size for p, size in zip(positions.unbind(-1), self.grid, strict=True)], -1)

    def rotations(self, positions: Tensor) -> Tensor:
        """R(p) for [N, axes] or [B, 1, N, axes], in their dtype: [(B,) heads, N, blocks, block, block]."""
        p = self.in_images(positions)[..., None, None, None]  # [(B, 1,) N, axes, 1, 1, 1]
        return self.exponential((p * self.skew(positions.dtype)[:, None]).sum(-4))

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """R(p) in the dtype of ``like``."""
        return (self.rotations(positions).to(like.dtype),)

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        (rotations,) = tables
        blocks = x.unflatten(-1, (-1, self.block))  # [B, heads, N, blocks, block]
        images = "" if rotations.dim() == 5 else "b"  # shared positions: one product for all images
        return torch.einsum(f"{images}hmnij,bhmnj->bhmni", rotations, blocks).flatten(-2).to(x.dtype)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        A = torch.stack([torch.block_diag(*blocks) for blocks in self.skew(x.dtype).flatten(0, 1)])
        A = A.unflatten(0, (self.heads, self.axes))  # [heads, axes, d, d]
        R = formulas.lie_rotation(self.in_images(positions), A)
        return (R @ x[..., None])[..., 0]
