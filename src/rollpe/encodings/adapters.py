"""Encodings inside timm's attention.

Here: the attention layer of our own vision transformer. Not here: the transformer (rollpe/vit.py).
"""

from __future__ import annotations

from typing import Any

import timm.layers
from torch import Tensor, nn

from rollpe.encodings.base import Encoding


class Attention(timm.layers.Attention):
    """timm's attention whose scores come from an ``Encoding``.

    ``install`` gives it the encoding. With W streams ``qkv`` has 2W + 1 blocks of heads*d rows:
    the queries of all waves (head by head, wave by wave within a head), likewise the keys, then the
    values. With one stream this is timm's layout and its weights load unchanged.
    """

    encoding: Encoding

    def install(self, encoding: Encoding) -> None:
        """Use this encoding, widening ``qkv`` if it asks for more than one stream."""
        self.encoding = encoding
        if encoding.streams > 1:
            old = self.qkv
            self.qkv = nn.Linear(
                old.in_features,
                (2 * encoding.streams + 1) * self.attn_dim,
                bias=old.bias is not None,
                device=old.weight.device,
                dtype=old.weight.dtype,
            )

    def forward(self, x: Tensor, positions: Tensor, is_causal: bool = False, **_: Any) -> Tensor:
        """x [B, N, dim] and positions [M, axes] or [B, M, axes] to [B, N, dim]."""
        batch, tokens, _ = x.shape
        wide = self.encoding.streams * self.attn_dim
        q, k, v = (
            part.view(batch, tokens, self.num_heads, -1).transpose(1, 2)  # [B, heads, N, ·]
            for part in self.qkv(x).split((wide, wide, self.attn_dim), dim=-1)
        )
        x = self.encoding.attend(
            self.q_norm(q),
            self.k_norm(k),
            v,
            positions,
            dropout_p=self.attn_drop.p if self.training else 0.0,
            is_causal=is_causal,
        )
        x = x.transpose(1, 2).reshape(batch, tokens, self.attn_dim)
        return self.proj_drop(self.proj(self.norm(x)))
