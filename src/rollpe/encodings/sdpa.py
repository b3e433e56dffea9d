"""Attention on encoded tensors: masks, precision and the choice of the kernel."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Masking(NamedTuple):
    """The arguments of ``attend`` beyond queries, keys, values and their positions."""

    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False

    def plus(self, bias: Tensor) -> Masking:
        """The same with a bias on the scores."""
        if self.attn_mask is not None:
            bias = bias + as_bias(self.attn_mask, bias)
        return self._replace(attn_mask=bias)


def table_dtype(like: Tensor) -> torch.dtype:
    """The dtype in which angles are computed: float64 for float64 tensors, float32 for all others."""
    return torch.float64 if like.dtype == torch.float64 else torch.float32


def without_autocast(like: Tensor) -> AbstractContextManager[Any]:
    """Autocast switched off on the device of ``like``, where it is on.

    An exported program whose autocast holds no operation could not be loaded; the meta device has none.
    """
    device = "cpu" if like.is_meta else like.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def as_bias(attn_mask: Tensor, like: Tensor) -> Tensor:
    """A mask as a bias on scores, in the dtype of ``like``: 0 for True and -∞ for False, or its numbers."""
    if attn_mask.dtype != torch.bool:
        return attn_mask.to(like.dtype)
    zero = torch.zeros((), dtype=like.dtype, device=like.device)
    return zero.masked_fill(~attn_mask, -math.inf)


def causal(scores: Tensor, queries: int, keys: int) -> Tensor:
    """-∞ where one of the last ``queries`` tokens meets a later one of ``keys``, else ``scores``."""
    later = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).triu(keys - queries + 1)
    return scores.masked_fill(later, -math.inf)


def spread_heads(x: Tensor, heads: int) -> Tensor:
    """Keys or values of groups of heads [B, groups, N, c], repeated for each head: [B, heads, N, c]."""
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], -3)


SHORT = 128
"""Most keys for which ``attention`` uses plain products on a CPU; with 256 the fused kernel is faster."""


def attention(q: Tensor, k: Tensor, v: Tensor, masking: Masking, *, scale: float) -> Tensor:
    """``scaled_dot_product_attention`` for grouped k and v, and v [B, groups, N, c] narrower than k.

    Fewer queries than keys are the last tokens, which is what ``is_causal`` counts from.

    Compiled training steps on a CPU use plain products for few keys: the compiler fuses the softmax with its
    neighbors, and the backward pass of the fused kernel is slower. There the weights are divided by their sum
    after the product with the values, d numbers a query in place of N; torch's compiler would turn a softmax
    between two products into the fused kernel again. An exported program keeps the fused kernel, for any
    number of keys.
    """
    attn_mask, dropout_p, is_causal = masking
    if attn_mask is not None and attn_mask.dim() < 2:  # one for all queries
        attn_mask = attn_mask[None]
    queries, keys = q.shape[-2], k.shape[-2]
    is_causal = is_causal and queries > 1  # the last token sees all
    if is_causal and (attn_mask is not None or queries != keys):
        visible = (
            torch.zeros((), dtype=q.dtype, device=q.device) if attn_mask is None else as_bias(attn_mask, q)
        )
        attn_mask, is_causal = causal(visible, queries, keys), False
    # what torch.compiler.is_exporting() returns, which torch 2.11 compiles to True
    exporting = getattr(torch.compiler, "_is_exporting_flag", False)
    training = torch.compiler.is_compiling() and not exporting and torch.is_grad_enabled()
    wide = q.device.type == "cpu" and q.dtype.itemsize > 2
    if training and wide and attn_mask is None and not is_causal and keys <= SHORT:
        k, v = (spread_heads(x, q.shape[-3]) for x in (k, v))
        scores = q @ k.mT * scale
        weights = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        return F.dropout(weights, dropout_p) @ v / weights.sum(-1, keepdim=True)
    width = v.shape[-1]
    if width < k.shape[-1]:  # the fused kernels need equal widths
        v = F.pad(v, (0, k.shape[-1] - width))
    out = F.scaled_dot_product_attention(
        q,
        spread_heads(k, q.shape[-3]),
        spread_heads(v, q.shape[-3]),
        attn_mask=attn_mask,
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=scale,
    )
    if exporting and attn_mask is not None:
        # the ONNX exporter decomposes a mask with gradients into operators of another layout
        out = out.clone(memory_format=torch.contiguous_format)
    return out[..., :width]
