"""Attention layers with an encoding, for our transformer, timm's and torch's."""

from __future__ import annotations

import copyreg
import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe import formulas
from rollpe.encodings.base import Encoding, PositionTables
from rollpe.encodings.biases import ScoreBias
from rollpe.encodings.positions import checked_grid, constant, grid_positions, last_positions
from rollpe.encodings.registry import create_encoding, split_name, split_options
from rollpe.encodings.sdpa import as_bias, spread_heads
from rollpe.errors import InputError

Cache = tuple[Tensor, Tensor] | None
"""Encoded keys and values of all tokens so far, each [B, heads, N, d]; None before the first."""


class Attention(nn.Module):
    """timm's attention with an ``Encoding``, which ``install`` sets.

    Arguments, weights and their names are those of ``timm.layers.Attention``, so that its checkpoints load
    unchanged. An encoding of W waves has a wider ``qkv``, of 2W + 1 blocks of heads*d rows: the queries of
    all waves (head by head, wave by wave within a head), likewise the keys, then the values.

    Args:
        dim: channels of a token.
        num_heads: heads, of dim // num_heads channels.
        qkv_bias, proj_bias: whether the projections have biases.
        qk_norm: ``norm_layer`` on the queries and keys of each head, before they are encoded.
        scale_norm: ``norm_layer`` on the joined heads, before the last projection.
        attn_drop, proj_drop: dropout of the attention weights and of the result.
    """

    encoding: Encoding

    def __init__(
        self,
        dim: int,
        num_heads: int = 8,
        qkv_bias: bool = False,
        qk_norm: bool = False,
        scale_norm: bool = False,
        proj_bias: bool = True,
        *,
        attn_drop: float = 0.0,
        proj_drop: float = 0.0,
        norm_layer: Callable[..., nn.Module] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise InputError(f"dim={dim} does not divide into num_heads={num_heads}.")
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        make_norm: Callable[..., nn.Module] = norm_layer or nn.LayerNorm
        norm = partial(make_norm, **factory)
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias, **factory)
        self.q_norm = norm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = norm(self.head_dim) if qk_norm else nn.Identity()
        self.attn_drop = nn.Dropout(attn_drop)
        self.norm = norm(dim) if scale_norm else nn.Identity()
        self.proj = nn.Linear(dim, dim, bias=proj_bias, **factory)
        self.proj_drop = nn.Dropout(proj_drop)

    def install(self, encoding: Encoding) -> None:
        """Use this encoding, with a new ``qkv`` if its number of waves differs."""
        self.encoding = encoding
        old = self.qkv
        rows = (2 * encoding.waves_in + 1) * old.in_features
        if old.out_features != rows:
            self.qkv = nn.Linear(
                old.in_features,
                rows,
                bias=old.bias is not None,
                device=old.weight.device,
                dtype=old.weight.dtype,
            )

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        positions: Tensor | PositionTables,
        is_causal: bool = False,
        *,
        attn_mask: Tensor | None = None,
        read: int | None = None,
    ) -> Tensor:
        """x [B, N, dim] to [B, N, dim], or [B, read, dim].

        ``positions``, ``attn_mask``: see ``Encoding`` and ``Encoding.attend``.
        ``read``: compute only this many of the first tokens.
        """
        x = self.encoding.attend(
            *self._project(x),
            positions,
            attn_mask=attn_mask,
            dropout_p=self.attn_drop.p if self.training else 0.0,
            is_causal=is_causal,
        )
        return self._joined(x[:, :, :read])

    def extend(
        self, x: Tensor, positions: Tensor, cache: Cache, *, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """Causal attention of tokens x [B, Q, dim] to themselves and to those in a cache.

        ``positions``: of all tokens so far, [N, axes] or [B, N, axes]; the last Q are x's. ``attn_mask``: see
        ``Encoding.decode``. Returns [B, Q, dim] and the cache with x's keys and values. No dropout.
        """
        q, k, v = self._project(x)
        k = self.encoding.encode_keys(k, last_positions(positions, x.shape[1]))
        if cache is not None:
            k, v = torch.cat((cache[0], k), -2), torch.cat((cache[1], v), -2)
        return self._joined(self.encoding.decode(q, k, v, positions, attn_mask=attn_mask)), (k, v)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys [B, heads, N, waves_in*d], values [B, heads, N, d]."""
        dim = x.shape[-1]
        wide = self.encoding.waves_in * dim
        q, k, v = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in self.qkv(x).split((wide, wide, dim), dim=-1)
        )
        return self.q_norm(q), self.k_norm(k), v

    def _joined(self, x: Tensor) -> Tensor:
        """The heads' results [B, heads, N, d] to [B, N, dim]."""
        return self.proj_drop(self.proj(self.norm(x.transpose(1, 2).flatten(2))))


def checked_name(encoding: str) -> str:
    """The name of an encoding that acts on scores alone; InputError for another."""
    on_tokens, on_scores = split_name(encoding)
    if on_tokens != "none":
        raise InputError(
            f"encoding {encoding!r} acts on tokens: add it to them before the first layer, with"
            " create_encoding(…).add. timm's model has its own pos_embed for that."
        )
    return on_scores


def install_encodings(model: Any, encoding: str, options: dict[str, Any] | None, **shape: Any) -> None:
    """Give a model its token encoding and each layer of ``model.attentions`` a score encoding of its own."""
    model.encoding_names = split_name(encoding)
    (on_tokens, on_scores), given = model.encoding_names, split_options(encoding, options or {})
    model.token_encoding = create_encoding(on_tokens, **shape, **given[0])
    for attention in model.attentions:
        attention.install(create_encoding(on_scores, **shape, **given[1]))


def drop_in_attention(
    encoding: str, *, grid: tuple[int, ...], prefix: int = 1, **options: Any
) -> type[Attention]:
    """An ``attn_layer`` for timm's own VisionTransformer, for images of one size.

    ``timm.create_model("vit_small_patch16_224", attn_layer=drop_in_attention("roll", grid=(14, 14)))``
    keeps timm's weights and timm's position table; ``pos_embed="none"`` removes the table.

    The layer knows the number of tokens, not their arrangement: as many patches in another arrangement, from
    ``set_input_size`` or NaFlex, get wrong positions. ``dynamic_img_size`` is refused.

    Args:
        encoding: an encoding that acts on scores; timm has its own for tokens.
        grid: patches along each side.
        prefix: number of class and register tokens, which come first.
        options: of the encoding.
    """
    on_scores, grid = checked_name(encoding), checked_grid(grid)
    setup: dict[str, Any] = {"encoding": on_scores, "grid": grid, "prefix": prefix, "options": options}

    class Layer(DropInAttention, metaclass=_LayerClass):  # timm asks for a class, and keeps it in the model
        made_by = partial(drop_in_attention, encoding, grid=grid, prefix=prefix, **options)

        def __new__(cls, dim: int, num_heads: int = 8, **settings: Any) -> DropInAttention:  # type: ignore[misc]
            return DropInAttention(dim, num_heads, **setup, **settings)

    return Layer


class _LayerClass(type):
    """The type of ``drop_in_attention``'s classes, which have no name to be pickled by."""

    made_by: Callable[[], type[Attention]]


copyreg.pickle(_LayerClass, lambda layer: (layer.made_by, ()))  # type: ignore[arg-type, return-value]


class DropInAttention(Attention):
    """The layer that ``drop_in_attention`` sets up for timm."""

    def __init__(
        self,
        dim: int,
        num_heads: int = 8,
        *,
        encoding: str,
        grid: tuple[int, ...],
        prefix: int,
        options: dict[str, Any],
        **settings: Any,
    ) -> None:
        super().__init__(dim, num_heads=num_heads, **settings)
        if _built_for_any_size():
            raise InputError(
                f"this layer has the positions of grid={grid} alone: leave out dynamic_img_size=True, or use"
                " rollpe.vit.create_vit for images of several sizes."
            )
        self.grid, self.prefix = grid, prefix
        self.install(
            create_encoding(
                encoding, head_dim=self.head_dim, heads=num_heads, axes=len(grid), grid=grid, **options
            )
        )

    def forward(  # type: ignore[override]
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        positions = constant(grid_positions, *self.grid, device=x.device, dtype=torch.float32)
        if x.shape[1] != self.prefix + len(positions):
            raise InputError(
                f"{x.shape[1]} tokens where grid={self.grid} and prefix={self.prefix} make"
                f" {self.prefix + len(positions)}: prefix= is the number of class and register tokens, which"
                " come first, and grid= the patches along each side. For images of several sizes"
                " (dynamic_img_size, NaFlex) use rollpe.vit.create_vit; patches cannot be dropped"
                " (patch_drop_rate), since their places are unknown here."
            )
        return super().forward(
            x, self.encoding.precompute(positions, x, self.grid), is_causal, attn_mask=attn_mask
        )


def _built_for_any_size() -> bool:
    """Whether a model that is just being built has timm's ``dynamic_img_size``, which no layer is told."""
    frame = inspect.currentframe()
    while frame is not None:
        there = frame.f_locals
        if isinstance(there.get("self"), nn.Module) and there.get("dynamic_img_size") is True:
            return True
        frame = frame.f_back
    return False


class MultiheadAttention(nn.MultiheadAttention):
    """torch's ``nn.MultiheadAttention`` with an ``Encoding``.

    Arguments, masks, results and, for an encoding of one wave, the names and shapes of the weights are
    torch's, so that it can replace ``layer.self_attn`` in an ``nn.TransformerEncoderLayer``::

        layer.self_attn = MultiheadAttention(256, 4, "rope", batch_first=True)

    and ``layer.multihead_attn``, the cross-attention of an ``nn.TransformerDecoderLayer``. Positions of
    queries and of keys are counted 0, 1, 2, … along the sequence, or over ``grid``; tokens beyond those of
    the grid come first and have none.

    Args:
        embed_dim, num_heads, dropout, bias, batch_first, device, dtype: torch's.
        encoding: an encoding that acts on scores.
        grid: tokens along each axis; None for sequences of any length.
        options: of the encoding.

    Raises:
        InputError: an encoding of tokens, more positions than tokens, values that are not the keys' tokens.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        encoding: str = "roll",
        *,
        grid: tuple[int, ...] | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        if not isinstance(encoding, str):
            raise InputError(
                f"the third argument is the name of an encoding, not {encoding!r}: write dropout=."
            )
        super().__init__(embed_dim, num_heads, dropout, bias=bias, batch_first=batch_first, **factory)
        self.grid = grid = None if grid is None else checked_grid(grid)
        self.encoding = create_encoding(
            checked_name(encoding),
            head_dim=self.head_dim,
            heads=num_heads,
            axes=1 if grid is None else len(grid),
            grid=grid,
            **options,
        ).to(**factory)
        if self.encoding.waves_in > 1:
            rows = (2 * self.encoding.waves_in + 1) * embed_dim
            self.in_proj_weight = nn.Parameter(torch.empty(rows, embed_dim, **factory))
            nn.init.xavier_uniform_(self.in_proj_weight)
            if bias:
                self.in_proj_bias = nn.Parameter(torch.zeros(rows, **factory))
        # torch's encoder layers run inference in a kernel without encodings, unless the projections are
        # declared separate
        self._qkv_same_embed_dim = False

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """As torch's; masks are True, or -∞, where attention is forbidden. See the class for positions.

        Args:
            query: [N, B, dim], [B, N, dim] if batch_first, or [N, dim].
            key, value: the same shape, or one of K other tokens (cross-attention).
            key_padding_mask: [B, K] or [K]; attn_mask: [N, K] or [B*heads, N, K].
            is_causal: with an ``attn_mask`` a hint without effect, as in torch; alone it is the mask.
            positions: [M, axes] or [B, M, axes], in place of counting.
            key_positions: of the keys; by default ``positions``, if there are as many keys as queries, and
                else counted.

        Returns:
            tokens shaped as the query, and weights [B, N, K], [B, heads, N, K] unless averaged, or None.
        """
        if key.shape != value.shape:
            raise InputError(
                f"key {tuple(key.shape)} and value {tuple(value.shape)} differ: they are of the same tokens."
            )
        alone = query.dim() == 2
        if alone:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        dim = query.shape[-1]
        wide = self.encoding.waves_in * dim
        weights = self.in_proj_weight.split((wide, wide, dim))
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.split((wide, wide, dim))
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )
        here = self._counted(q) if positions is None else positions
        if key_positions is None and q.shape[-2] != k.shape[-2]:
            key_positions = self._counted(k)
        of_queries, of_keys = self.encoding.pair_positions(q, k, here, key_positions)
        bias = self._masks(attn_mask, key_padding_mask, q)
        causal = is_causal and attn_mask is None
        dropped = self.dropout if self.training else 0.0
        masked: dict[str, Any] = {"key_positions": of_keys, "attn_mask": bias, "is_causal": causal}
        out = self.encoding.attend(q, k, v, of_queries, dropout_p=dropped, **masked)
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        alpha = None
        if need_weights:
            alpha = self.encoding.weights(q, k, of_queries, **masked).to(q.dtype)
            alpha = alpha.mean(1) if average_attn_weights else alpha
        if alone:
            return out[0], None if alpha is None else alpha[0]
        return out if self.batch_first else out.transpose(0, 1), alpha

    if TYPE_CHECKING:  # nn.Module declares that a call returns anything

        def __call__(self, *arguments: Any, **settings: Any) -> tuple[Tensor, Tensor | None]: ...

    def _counted(self, x: Tensor) -> Tensor:
        """The positions of tokens [B, heads, N, ...] that were given none."""
        return constant(grid_positions, *self.grid or (x.shape[-2],), device=x.device, dtype=torch.float32)

    def _masks(self, attn_mask: Tensor | None, padding: Tensor | None, q: Tensor) -> Tensor | None:
        """Both masks as a bias on scores, broadcastable to [B, heads, N, K]; None without masks."""
        total = None
        for mask in (attn_mask, padding):
            if mask is None:
                continue
            # True forbids attention here, False does in scaled_dot_product_attention
            added = as_bias(~mask if mask.dtype == torch.bool else mask, q)
            if mask is padding:
                added = added[:, None, None, :]
            elif mask.dim() == 3:
                added = added.unflatten(0, (-1, self.num_heads))
            total = added if total is None else total + added
        return total


def linear_attention(
    encoding: Encoding,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    *,
    feature: Callable[[Tensor], Tensor] = formulas.elu_feature,
    is_causal: bool = False,
) -> Tensor:
    """Linear attention with an encoding that transforms queries and keys (Su et al., 2021, Eq. 19).

    out_i = Σ_j (R_i φ(q_i))·(R_j φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j). The features are encoded: φ(R_i q_i)
    would not be relative for a rotation. (For a roll the two are the same, since a roll only reorders
    channels; its weights also stay positive.) The denominator is the numerator's sum of weights for all
    tokens at one position, where the weights add up to one; several waves are summed in it as in the
    scores. The cost is linear in N; causal attention keeps a d×d state for each token.

    Args:
        encoding: any encoding that adds no bias to scores.
        q, k: [B, heads, N, waves_in*d]; v: [B, heads, N, d]; positions: [M, axes] or [B, M, axes].
        feature: φ, positive, acting on each channel.
        is_causal: sum over j <= i only.

    Returns:
        [B, heads, N, d].
    """
    if isinstance(encoding, ScoreBias) or encoding.score_bias is not None:
        raise InputError(
            f"encoding {encoding.name!r} needs the scores themselves: linear attention has none."
        )
    k, v = (spread_heads(x, encoding.heads) for x in (k, v))
    q, k = feature(q), feature(k)
    moved_q, moved_k = encoding(q, k, positions)
    if encoding.waves_in > 1:
        q, k = encoding(q, k, torch.zeros_like(positions))
    if not is_causal:
        return formulas.feature_attention(moved_q, moved_k, q, k, v)
    states = (moved_k[..., :, None] * v[..., None, :]).cumsum(-3)  # [B, heads, N, d, d]
    return torch.einsum("bhnd,bhnde->bhne", moved_q, states) / (q * k.cumsum(-2)).sum(-1, keepdim=True)
