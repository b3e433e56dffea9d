"""Encodings that rotate pairs of channels by angles that grow with position.

Here: ``Rotary``, the machinery, and the encodings that differ only in their angles. Not here: rotations
in the Fourier basis of a ring (roll.py) and rotations with learned planes (lie.py).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rollpe.encodings.base import Encoding, check_positions, register, table_dtype
from rollpe.errors import InputError


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate channels (2i, 2i+1) of x, leaving the channels beyond the tables as they are.

    (x_2i, x_2i+1) ↦ (x_2i cos_2i - x_2i+1 sin_2i, x_2i+1 cos_2i+1 + x_2i sin_2i+1).

    Args:
        x: [B, heads, N, d], any float dtype.
        cos, sin: broadcastable to [B, heads, N, c] with even c <= d, one entry per channel.

    Returns:
        [B, heads, N, d] in x's dtype; the arithmetic is done in the wider dtype of x and the tables.
    """
    turned = cos.shape[-1]
    head = x[..., :turned]
    crossed = torch.stack((-head[..., 1::2], head[..., 0::2]), -1).flatten(-2)
    out = (head * cos + crossed * sin).to(x.dtype)
    return out if turned == x.shape[-1] else torch.cat((out, x[..., turned:]), -1)


class Rotary(Encoding):
    """Base of encodings that rotate channel pairs (2i, 2i+1) by an angle (Su et al., 2021, Eq. 34).

    A subclass defines ``angles(positions)``. Angles, their cosines and sines are computed in float32
    (float64 for float64 queries) outside autocast; the rotation itself is done in that precision and its
    result cast back to the dtype of the queries.
    """

    acts_on = "scores"

    def angles(self, positions: Tensor) -> Tensor:
        """Angles of all channel pairs.

        Args:
            positions: [M, axes] or [B, M, axes], float32 or float64.

        Returns:
            [h, M, pairs] or [B, h, M, pairs], h being 1 or heads, in the dtype of positions; channels
            beyond 2*pairs are not rotated.
        """
        raise TypeError(f"{type(self).__name__} does not define angles().")

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines [(B,) h, N, 2*pairs], one entry per channel."""
        tokens = like.shape[-2]
        check_positions(positions, tokens, self.axes)
        with torch.autocast(like.device.type, enabled=False):
            angles = self.angles(positions.to(table_dtype(like)))
            # a token without a position is turned by the angle 0
            angles = F.pad(angles, (0, 0, tokens - angles.shape[-2], 0))
            angles = angles.repeat_interleave(2, dim=-1)
            return angles.cos(), angles.sin()

    def encode(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        return rotate(x, *tables)

    def scores(self, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        """Pair by pair of tokens, Re Σ z_q z̄_k e^{i(θ_q - θ_k)} / √d with z = x_2i + i x_2i+1."""
        dtype = table_dtype(q)
        tokens = q.shape[-2]
        theta = self.angles(positions.to(dtype))
        theta = F.pad(theta, (0, 0, tokens - theta.shape[-2], 0))
        turned = 2 * theta.shape[-1]
        z_q = torch.view_as_complex(q[..., :turned].to(dtype).unflatten(-1, (-1, 2)).contiguous())
        z_k = torch.view_as_complex(k[..., :turned].to(dtype).unflatten(-1, (-1, 2)).contiguous())
        difference = theta[..., :, None, :] - theta[..., None, :, :]  # [(B,) h, N, N, pairs]
        phase = torch.polar(torch.ones_like(difference), difference)
        products = z_q[..., :, None, :] * z_k.conj()[..., None, :, :] * phase
        rest = q[..., turned:].to(dtype) @ k[..., turned:].to(dtype).transpose(-2, -1)
        return ((products.real.sum(-1) + rest) * self.head_dim**-0.5).to(q.dtype)


@register("axial-rope")
class AxialRope(Rotary):
    """Rotary encoding of each axis on its own share of the channels (Heo et al., 2024, Eq. 7–8).

    Each axis owns c = 2·⌊head_dim / (2·axes)⌋ consecutive channels. Their pair i is turned by ω_i p_a with
    ω_i = base^(-2i/c); channels left over carry no position. With two axes this equals timm's
    ``RotaryEmbeddingCat(in_pixels=False, temperature=base)``.

    No parameters; any real position; norm preserving; relative. Cost: 3 multiplications and 1 addition per
    channel of q and k.

    Args:
        base: sets the slowest wave; 100 is the published choice for images, 10000 for text.
    """

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        axes: int = 2,
        grid: tuple[int, ...] | None = None,
        base: float = 100.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, axes=axes, grid=grid)
        self.pairs = head_dim // (2 * axes)
        if self.pairs == 0:
            raise InputError(
                f"head_dim={head_dim} is too narrow for a channel pair on each of axes={axes}:"
                f" use at least {2 * axes}."
            )
        if not base > 0:
            raise InputError(f"base={base} must be positive.")
        self.base = float(base)

    def angles(self, positions: Tensor) -> Tensor:
        i = torch.arange(self.pairs, dtype=positions.dtype, device=positions.device)
        angles = positions[..., None] * self.base ** (-i / self.pairs)  # [(B,) M, axes, pairs]
        return angles.flatten(-2).unsqueeze(-3)
