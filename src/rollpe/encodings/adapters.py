"""Encodings inside other people's attention.

Here: the attention layer of our vision transformer, a drop-in layer for timm's own, and linear attention.
Not here: the transformer itself (rollpe/vit.py) and decoding with cached keys (``Encoding.decode``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import timm.layers
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe.encodings.base import Encoding, constant, create_encoding, grid_positions, split_name
from rollpe.encodings.relative import ScoreBias
from rollpe.errors import InputError


class Attention(timm.layers.Attention):
    """timm's attention whose scores come from an ``Encoding``.

    ``install`` gives it the encoding. With W streams ``qkv`` has 2W + 1 blocks of heads*d rows: the queries
    of all waves (head by head, wave by wave within a head), likewise the keys, then the values. With one
    stream this is timm's layout and its weights load unchanged.
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

    def forward(  # type: ignore[override]
        self, x: Tensor, positions: Tensor, is_causal: bool = False
    ) -> Tensor:
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


def drop_in_attention(
    encoding: str, *, grid: tuple[int, ...], prefix: int = 1, **options: Any
) -> type[Attention]:
    """An ``attn_layer`` for timm's own VisionTransformer, for images of one size.

    ``timm.create_model("vit_small_patch16_224", attn_layer=drop_in_attention("roll", grid=(14, 14)))``
    keeps timm's weights and timm's position table; ``pos_embed="none"`` removes the table.

    Args:
        encoding: an encoding that acts on scores; timm adds the others to tokens by itself.
        grid: patches along each side.
        prefix: class and register tokens, which come first.
        options: of the encoding.
    """
    on_tokens, on_scores = split_name(encoding)
    if on_tokens != "none":
        raise InputError(f"encoding {encoding!r} acts on tokens, where timm's model has its own pos_embed.")

    class DropInAttention(Attention):
        def __init__(self, dim: int, num_heads: int = 8, **settings: Any) -> None:
            super().__init__(dim, num_heads=num_heads, **settings)
            self.install(
                create_encoding(
                    on_scores,
                    head_dim=self.head_dim,
                    heads=num_heads,
                    axes=len(grid),
                    grid=grid,
                    **options,
                )
            )

        def forward(  # type: ignore[override]
            self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
        ) -> Tensor:
            if attn_mask is not None:
                raise InputError("attn_mask cannot be combined with a positional encoding here.")
            positions = constant(grid_positions, *grid, device=x.device, dtype=torch.float32)
            if x.shape[1] != prefix + len(positions):
                raise InputError(
                    f"{x.shape[1]} tokens where grid={grid} and prefix={prefix} make"
                    f" {prefix + len(positions)}: for other sizes use rollpe.vit."
                )
            return super().forward(x, positions, is_causal)

    return DropInAttention


def elu_feature(x: Tensor) -> Tensor:
    """elu(x) + 1, the positive feature map of linear attention (Katharopoulos et al., 2020, Eq. 7)."""
    return F.elu(x) + 1


def linear_attention(
    encoding: Encoding,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    *,
    feature: Callable[[Tensor], Tensor] = elu_feature,
    is_causal: bool = False,
) -> Tensor:
    """Linear attention with an encoding that transforms queries and keys (Su et al., 2021, Eq. 19).

    out_i = Σ_j (R_i φ(q_i))·(R_j φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j). What is encoded are the features:
    φ(R_i q_i) would not be relative for a rotation. (For a roll the two are the same, since a roll only
    reorders channels; its weights also stay positive.) Cost linear in N; causal attention keeps a d×d state
    for each token.

    Args:
        encoding: any that does not add a bias to scores.
        q, k: [B, heads, N, streams*d]; v: [B, heads, N, d]; positions: [M, axes] or [B, M, axes].
        feature: φ, positive, acting on each channel.
        is_causal: sum over j <= i only.

    Returns:
        [B, heads, N, d].
    """
    if isinstance(encoding, ScoreBias):
        raise InputError(
            f"encoding {encoding.name!r} needs the scores themselves: linear attention has none."
        )
    q, k = feature(q), feature(k)
    rolled_q, rolled_k = encoding(q, k, positions)
    if is_causal:
        states = (rolled_k[..., :, None] * v[..., None, :]).cumsum(-3)  # [B, heads, N, d, d]
        out = torch.einsum("bhnd,bhnde->bhne", rolled_q, states)
        weight = (q * k.cumsum(-2)).sum(-1, keepdim=True)
    else:
        out = rolled_q @ (rolled_k.transpose(-2, -1) @ v)
        weight = q @ k.sum(-2)[..., None]
    return out / weight
