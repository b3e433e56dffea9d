"""Fast paths that move channels of queries and keys: rotation of pairs, and reordering."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate channels (2i, 2i+1) of x, leaving the channels beyond the tables as they are.

    (x_2i, x_2i+1) ↦ (x_2i cos_i - x_2i+1 sin_i, x_2i+1 cos_i + x_2i sin_i).

    Args:
        x: [B, heads, N, d], any float dtype.
        cos, sin: broadcastable to [B, heads, N, pairs] with 2*pairs <= d.

    Returns:
        [B, heads, N, d] in x's dtype; the arithmetic is done in the wider dtype of x and the tables.
    """
    width = 2 * cos.shape[-1]
    if width < x.shape[-1]:
        return torch.cat((rotate(x[..., :width], cos, sin), x[..., width:]), -1)
    wide = x.to(torch.promote_types(x.dtype, cos.dtype)).unflatten(-1, (-1, 2))
    if torch.compiler.is_compiling() or not _holds_complex(wide):
        # Unbinding pairs, and not slicing every other channel, lets a compiler keep both in one loop.
        even, odd = wide.unbind(-1)
        out = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1)
    else:  # one pass over x; compilers and ONNX have no complex numbers
        out = torch.view_as_real(torch.view_as_complex(wide) * in_order(torch.complex(cos, sin), x))
    return out.flatten(-2).to(x.dtype)


def in_order(table: Tensor, x: Tensor) -> Tensor:
    """A table [N, c] of all heads, laid out in the order in which x [B, heads, N, d] lies in memory.

    A product with x is then a few long loops, not a short one for each token and head.
    """
    if torch.compiler.is_compiling() or (table.dim(), x.dim()) != (2, 4) or x.stride(1) > x.stride(2):
        return table
    return table.unsqueeze(1).expand(-1, x.shape[1], -1).contiguous().transpose(0, 1)


def _holds_complex(pairs: Tensor) -> bool:
    """Whether pairs [..., 2] lie in memory as complex numbers do, on a device known to multiply them."""
    *steps, step = pairs.stride()
    aligned = step == 1 and not any(s % 2 for s in (pairs.storage_offset(), *steps))
    return aligned and pairs.device.type in ("cpu", "cuda")


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``rotate`` for channels (i, i + pairs)."""
    width = 2 * cos.shape[-1]
    if width < x.shape[-1]:
        return torch.cat((rotate_halves(x[..., :width], cos, sin), x[..., width:]), -1)
    first, second = x.contiguous().chunk(2, -1)  # four strided reads cost more than one copy
    turned = torch.addcmul(first * cos, second, sin, value=-1), torch.addcmul(second * cos, first, sin)
    return torch.cat(turned, -1).to(x.dtype)


class _Gather(torch.autograd.Function):
    """Sum of W waves, each with its channels reordered: out[..., c] = Σ_w x[..., w, index[..., w, c]].

    The gradient of a plain gather is a scatter; with the inverse of the order it is a gather, which a
    compiler fuses with its neighbors and which needs no atomic additions.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, index: Tensor, inverse: Tensor, waves: int) -> Tensor:
        parts = zip(x.chunk(waves, -1), index.chunk(waves, -1), strict=True)
        return reduce(torch.add, [take(part, place) for part, place in parts])

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return take(gradient, *ctx.saved_tensors), None, None, None


class _ForwardGather(_Gather):
    """With forward-mode derivatives, a rule that a compiler refuses."""

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])
        ctx.save_for_forward(*inputs[1:3])
        ctx.waves = inputs[3]

    @staticmethod
    def jvp(ctx, tangent: Tensor, *_: None) -> Tensor:
        index, inverse = ctx.saved_tensors
        return gather(tangent, index, inverse, ctx.waves)


def gather(x: Tensor, index: Tensor, inverse: Tensor, waves: int = 1) -> Tensor:
    """x [..., waves*d], by permutations of d channels [..., waves*d] and their inverses, to [..., d]."""
    if waves == 1 and not (x.requires_grad and torch.is_grad_enabled()):
        return take(x, index)
    rule = _Gather if torch.compiler.is_compiling() else _ForwardGather
    return rule.apply(x, index, inverse, waves)


def take(x: Tensor, index: Tensor) -> Tensor:
    """x[..., index[..., c]] of x [B, heads, N, d] and index [N, c] or [B, 1, N, c]; eager in memory order."""
    if torch.compiler.is_compiling() or x.dim() != 4 or x.stride(1) > x.stride(2):
        return x.gather(-1, index.expand(*x.shape[:-1], -1))
    x, index = x.transpose(1, 2), index.unsqueeze(-2) if index.dim() == 2 else index.transpose(1, 2)
    return x.gather(-1, index.expand(*x.shape[:-1], -1)).transpose(1, 2)
