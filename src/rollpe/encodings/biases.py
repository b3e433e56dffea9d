"""Encodings that add a term to each attention score: Shaw's vectors, T5's biases and ALiBi's slopes.

A token without a position has no bias, neither as query nor as key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe import formulas
from rollpe.encodings.base import Encoding, PairPositions, PositionTables, Shape
from rollpe.encodings.positions import (
    constant,
    grid_positions,
    last_positions,
    to_integers,
    with_axis,
)
from rollpe.encodings.registry import register
from rollpe.encodings.sdpa import Masking, attention, spread_heads, table_dtype
from rollpe.errors import InputError, check_whole


class ScoreBias(Encoding):
    """Base of encodings that add a bias to the scaled scores.

    A subclass defines ``bias``. Relative; q and k are unchanged. Memory: one number for each pair and head.
    """

    acts_on = "scores"
    real_positions = False
    joins = True  # to a rotation, by "+": its bias depends on positions and nothing else

    def bias(self, q: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The bias on q·k/√d.

        Args:
            q: queries that have a position, [B, heads, Q, d].
            query_positions, key_positions: [Q, axes] and [K, axes], or [B, Q, axes] and [B, K, axes].

        Returns:
            Broadcastable to [B, heads, Q, K], in q's dtype.
        """
        raise TypeError(f"{type(self).__name__} does not define bias().")

    def of_pair(self, delta: Tensor, head: Tensor) -> Tensor:
        """The bias of one pair with offset Δ [axes] in head [], for ``score_mod``."""
        raise TypeError(f"{type(self).__name__} does not define of_pair().")

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """The bias as ``torch.nn.attention.flex_attention`` takes it: (score, b, h, q, k) ↦ score + bias.

        Positions [N, axes] of queries and of keys, by default the same, without tokens that have none. The
        scale of flex_attention is 1/√d by default, as here. InputError for ``shaw``, whose bias depends on q.
        """
        if type(self).of_pair is ScoreBias.of_pair:
            raise InputError(
                f"encoding {self.name!r} has no bias for flex_attention's score_mod: use attend."
            )
        of_queries = with_axis(positions, self.axes)
        of_keys = of_queries if key_positions is None else with_axis(key_positions, self.axes)

        def modified(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return score + self.of_pair(of_keys[key] - of_queries[query], head)

        return modified

    def shared(self, q: Tensor, k: Tensor, places: PairPositions) -> Tensor:
        """``mask``, or what ``precompute`` kept of it."""
        of_queries, of_keys = places
        return self.mask(q, k, of_queries.positions, of_keys.positions)

    def _mask(self, q: Tensor, k: Tensor, places: PairPositions, masking: Masking) -> Masking:
        return masking.plus(self.shared(q, k, places))

    def of_cache(self, q: Tensor, keys: Tensor, here: Tensor, there: Tensor | None) -> tuple[Tensor, Tensor]:
        """The positions of the last queries and of all keys; see ``decode``.

        InputError for fewer positions than keys without ``key_positions``.
        """
        if there is None and here.shape[-2] != keys.shape[-2]:
            raise InputError(
                f"{here.shape[-2]} positions for {keys.shape[-2]} keys: encoding {self.name!r} needs those of"
                " all keys; give key_positions= too if these are of the queries alone. Leading keys without"
                " a position have none in key_positions either."
            )
        return last_positions(here, q.shape[-2]), here if there is None else there

    def _decode(
        self, q: Tensor, keys: Tensor, values: Tensor, here: Tensor, there: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        here, there = self.of_cache(q, keys, here, there)
        return self.attend(q, keys, values, here, key_positions=there, attn_mask=mask, is_causal=True)

    def mask(self, q: Tensor, k: Tensor, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """The bias on q·k/√d of all pairs, for other attention kernels; 0 for tokens without a position.

        Queries [B, heads, Q, d] and keys [B, groups, K, d] → broadcastable to [B, heads, Q, K].
        """
        positions = with_axis(positions, self.axes)
        key_positions = positions if key_positions is None else with_axis(key_positions, self.axes)
        unmarked = q.shape[-2] - positions.shape[-2]
        bias = self.bias(q[..., unmarked:, :], positions, key_positions)
        return F.pad(bias, (k.shape[-2] - key_positions.shape[-2], 0, unmarked, 0))

    def scores(self, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        """Plain products and ``mask``, [B, heads, N, N]."""
        return super().scores(q, k, positions) + self.mask(q, k, positions)


@register("shaw")
class Shaw(ScoreBias):
    """Relative position vectors on the keys (Shaw et al., 2018, Eq. 2, 4, 5).

    score_ij = q_i · (k_j + Σ_a r^a_{clip(Δ_a)}) / √d with clip(Δ) = max(-c, min(c, Δ)): one table of 2c + 1
    vectors for each axis and head of every layer, as in the paper's base model. The paper has one axis. The
    sum over axes is our reading for images; one vector for each pair of offsets would need (2c + 1)^axes.

    Adds axes*heads*(2c + 1)*d parameters, drawn from a normal of standard deviation 0.02 cut at two. Whole
    positions; relative. The tables are cast to the dtype of the queries. No [N, N, d] tensor exists:

    - on a whole grid of S_a places along axis a, Σ_a q_i · r^a_{clip(c - p_a)} for each place c and the
      one-hot places of the keys are Σ_a S_a more channels of q and k. Their product is the bias,
      so that attention stays fused and needs no [N, N] tensor either. Taken while Σ_a S_a <= 2d;
    - elsewhere, q times the 2c + 1 vectors of each axis, then one gather by offset.

    Args:
        clip: c, the largest distinguished distance; 16 in the paper.
    """

    joins = False  # its bias depends on the queries

    def __init__(self, *, clip: int = 16, **shape: Unpack[Shape]) -> None:
        super().__init__(**shape)
        check_whole(1, clip=clip)
        self.clip = clip
        self.keys = self._new_table()

    def _new_table(self) -> nn.Parameter:
        return nn.Parameter(_draw(torch.empty(self.axes, self.heads, 2 * self.clip + 1, self.head_dim)))

    def reset_parameters(self) -> None:
        """Draw the tables anew."""
        for table in self.parameters(recurse=False):
            _draw(table)

    def rows(self, delta: Tensor) -> Tensor:
        """The table row of each offset, clip(Δ) + c."""
        return delta.clamp(-self.clip, self.clip) + self.clip

    def precompute(
        self, positions: Tensor | PositionTables, like: Tensor, grid: tuple[int, ...] | None = None
    ) -> PositionTables:
        precomputed = super().precompute(positions, like, grid)
        return precomputed if grid is None else precomputed._replace(tables=self.on_grid(grid, like))

    def on_grid(self, grid: tuple[int, ...], like: Tensor) -> tuple[Tensor, ...]:
        """Ones where a token is, [N, Σ_a S_a], then for each axis the matrices of its places.

        Those are [heads, S_a, d, S_a] for keys; ``shaw-kv`` adds [heads, S_a, S_a, d] for values. Nothing if
        that is too wide.
        """
        if sum(grid) > 2 * self.head_dim:
            return ()
        columns = constant(place_columns, *grid, device=like.device, dtype=torch.float32)
        keys = [vectors.mT for vectors in self.by_place(self.keys, grid)]
        return F.pad(columns, (0, 0, like.shape[-2] - len(columns), 0)), *keys

    def by_place(self, table: Tensor, grid: tuple[int, ...]) -> list[Tensor]:
        """The vectors from each place p to each place c along each axis, [heads, S_a (p), S_a (c), d]."""
        places = [torch.arange(size, device=table.device)[:, None] for size in grid]
        rows = [self.rows(offsets(place, place))[..., 0] for place in places]
        return [vectors[:, row] for vectors, row in zip(table, rows, strict=True)]

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, places: PairPositions, masking: Masking) -> Tensor:
        of_queries, of_keys = places
        if not of_keys.tables or of_keys is not of_queries:
            return super()._attend(q, k, v, places, masking)
        columns, *keys = of_keys.tables
        q, k = with_products(q, keys), with_ones(k, columns)
        return attention(q, k, v, masking, scale=self.head_dim**-0.5)

    def bias(self, q: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        rows = self.rows(offsets(query_positions, key_positions))  # [(B,) Q, K, axes]
        products = torch.einsum("bhqd,ahod->abhqo", q, self.keys.to(q.dtype))
        bias = sum(  # 3, since onnx's own evaluator takes no -1
            products[axis].gather(3, spread_over_heads(rows[..., axis], products[axis]))
            for axis in range(self.axes)
        )
        return bias * self.head_dim**-0.5


def _draw(table: Tensor) -> Tensor:
    return nn.init.trunc_normal_(table, std=0.02, a=-0.04, b=0.04)


@register("shaw-kv")
class ShawKV(Shaw):
    """Relative position vectors on keys and values (Shaw et al., 2018, Eq. 3–5).

    output_i = Σ_j α_ij (v_j + Σ_a s^a_{clip(Δ_a)}), where α is the softmax of the scores of ``shaw`` (those
    are what ``scores`` returns: values do not enter a score) and s is a second set of tables, as large as the
    first.

    Cost beyond ``shaw``: α is added up by place or by offset before the product with the tables, so that no
    [N, N, d] tensor exists. On a whole grid the one-hot places of ``shaw`` are more channels of v as well,
    and fused attention adds up by place. Elsewhere the weights α are needed themselves; their softmax and
    the sums by offset are taken in float32 or wider.
    """

    def __init__(self, *, clip: int = 16, **shape: Unpack[Shape]) -> None:
        super().__init__(clip=clip, **shape)
        self.values = self._new_table()

    def on_grid(self, grid: tuple[int, ...], like: Tensor) -> tuple[Tensor, ...]:
        tables = super().on_grid(grid, like)
        return (*tables, *self.by_place(self.values, grid)) if tables else ()

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, places: PairPositions, masking: Masking) -> Tensor:
        of_queries, of_keys = places
        if of_keys.tables and of_keys is of_queries:
            columns, values = of_keys.tables[0], of_keys.tables[1 + self.axes :]
            precomputed = PositionTables(of_keys.positions, of_keys.tables[: 1 + self.axes])
            out = super()._attend(q, k, with_ones(v, columns), (precomputed, precomputed), masking)
            out, *sums = out.split([self.head_dim, *(matrix.shape[2] for matrix in values)], -1)
            return out + sum(at_each_place(weights, values, axis) for axis, weights in enumerate(sums))
        attn_mask, dropout_p, is_causal = masking
        weights = self.weights(
            q, k, of_queries, key_positions=of_keys, attn_mask=attn_mask, is_causal=is_causal
        )
        weights = F.dropout(weights, dropout_p)
        out = weights.to(v.dtype) @ spread_heads(v, self.heads)
        here, there = of_queries.positions, of_keys.positions
        unmarked = q.shape[-2] - here.shape[-2]
        weights = weights[..., unmarked:, k.shape[-2] - there.shape[-2] :]
        rows = self.rows(offsets(here, there))
        for axis in range(self.axes):
            by_offset = weights.new_zeros(*weights.shape[:-1], 2 * self.clip + 1)
            by_offset = by_offset.scatter_add(-1, spread_over_heads(rows[..., axis], weights), weights)
            moved = by_offset.to(v.dtype) @ self.values[axis].to(v.dtype)
            out = out + F.pad(moved, (0, 0, unmarked, 0))
        return out


@register("t5-bias")
class T5Bias(ScoreBias):
    """One learned number for each bucket of distances (Raffel et al., 2020, section 2.1).

    score_ij = (q_i · k_j)/√d + Σ_a b^a_{bucket(Δ_a)}, ``bucket`` being `rollpe.formulas.t5_bucket`: exact
    for small distances, logarithmic for larger ones. T5 has one axis, does not divide q·k by √d and shares
    the numbers between its layers; here each layer has its own, and the sum over axes is our reading for
    images.

    Adds axes*heads*buckets parameters, drawn from a normal of standard deviation (heads*d)^-1/2 as T5's.
    Integer positions; relative. Cost: one look-up a pair, axis and head. The sum is cast to the dtype of q.

    Args:
        buckets: how many, for both signs together; even if bidirectional.
        max_distance: from here on all distances share the last bucket.
        bidirectional: keys after the query get buckets of their own; otherwise they share that of Δ = 0.
    """

    bucket_of: Tensor

    def __init__(
        self,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        **shape: Unpack[Shape],
    ) -> None:
        super().__init__(**shape)
        sides = 2 if bidirectional else 1
        if buckets < 2 * sides or buckets % sides:
            need = "an even number, at least 4" if bidirectional else "at least 2"
            raise InputError(f"buckets={buckets} with bidirectional={bidirectional}: use {need}.")
        exact = buckets // sides // 2
        if max_distance <= exact:
            raise InputError(
                f"max_distance={max_distance} leaves nothing to the logarithmic half of buckets={buckets}:"
                f" use more than {exact}."
            )
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional
        self.table = nn.Parameter(torch.empty(self.axes, self.heads, buckets))
        self.reset_parameters()
        self.register_buffer("bucket_of", self._buckets().to(self.table.device), persistent=False)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the table anew."""
        self.table.copy_(torch.randn_like(self.table) * (self.heads * self.head_dim) ** -0.5)

    def _buckets(self) -> Tensor:
        """The bucket of each offset within reach, on the CPU.

        On another device the logarithm may fall on the other side of an edge.
        """
        return self.bucket(torch.arange(-self.max_distance, self.max_distance + 1, device="cpu"))

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> T5Bias:
        """Refill the look-up table, which is in no state dict and which ``to_empty`` leaves undefined."""
        super()._apply(fn, recurse)
        if not self.bucket_of.is_meta:
            self.bucket_of.copy_(self._buckets())
        return self

    def bucket(self, delta: Tensor) -> Tensor:
        """`formulas.t5_bucket` with this encoding's options."""
        return formulas.t5_bucket(delta, self.buckets, self.max_distance, self.bidirectional)

    def bias(self, q: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        delta = offsets(query_positions, key_positions).clamp(-self.max_distance, self.max_distance)
        return look_up(self.table[..., None], self.bucket_of[delta + self.max_distance])[..., 0].to(q.dtype)

    def of_pair(self, delta: Tensor, head: Tensor) -> Tensor:
        rows = self.bucket_of[
            to_integers(delta).clamp(-self.max_distance, self.max_distance) + self.max_distance
        ]
        return torch.stack([self.table[axis, head, rows[axis]] for axis in range(self.axes)]).sum(0)


@register("alibi")
class Alibi(ScoreBias):
    """A penalty that grows with the distance (ALiBi; Press et al., 2022, section 3).

    score_ij = (q_i · k_j)/√d - m_h Σ_a |Δ_a|, the slopes m_h being `rollpe.formulas.alibi_slopes`: 2^(-8h/H)
    for head h = 1 … H. The paper has one axis and attends to earlier tokens alone. The absolute value, for
    attention in both directions, and the sum over axes, for images, are our reading.

    No parameters; any real position; relative. Cost: one number a pair and head, float32 (float64 for float64
    queries) until it is cast to the dtype of q.
    """

    real_positions = True

    def precompute(
        self, positions: Tensor | PositionTables, like: Tensor, grid: tuple[int, ...] | None = None
    ) -> PositionTables:
        """As ``Encoding.precompute``, with the bias of all pairs of these tokens: layers share it."""
        precomputed = super().precompute(positions, like, grid)
        if precomputed.tables:
            return precomputed
        return precomputed._replace(tables=(self.mask(like, like, precomputed.positions),))

    def shared(self, q: Tensor, k: Tensor, places: PairPositions) -> Tensor:
        of_queries, of_keys = places
        known = of_queries.tables if of_queries is of_keys else ()
        return known[0].to(q.dtype) if known else super().shared(q, k, places)

    def bias(self, q: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        dtype = table_dtype(q)
        keys, queries = (p.to(dtype) for p in (key_positions, query_positions))
        distance = (keys[..., None, :, :] - queries[..., :, None, :]).abs().sum(-1)  # [(B,) Q, K]
        slopes = constant(slopes_of, self.heads, device=q.device, dtype=dtype)
        return (-slopes[:, None, None] * distance.unsqueeze(-3)).to(q.dtype)

    def of_pair(self, delta: Tensor, head: Tensor) -> Tensor:
        slopes = constant(slopes_of, self.heads, device=delta.device, dtype=torch.float32)
        return -slopes[head] * delta.abs().sum(-1)


def slopes_of(heads: int, *, device: torch.device, dtype: torch.dtype) -> Tensor:
    """`formulas.alibi_slopes` on a device."""
    return formulas.alibi_slopes(heads).to(device, dtype)


def offsets(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Δ = key - query of every pair, int64: [(B,) Q, axes] and [(B,) K, axes] to [(B,) Q, K, axes]."""
    keys, queries = to_integers(key_positions), to_integers(query_positions)
    return keys[..., None, :, :] - queries[..., :, None, :]


def spread_over_heads(rows: Tensor, like: Tensor) -> Tensor:
    """An index [(B,) Q, K] as [B, heads, Q, K] without a copy, for gather and scatter on the last axis."""
    return rows.unsqueeze(-3).expand(*like.shape[:-1], rows.shape[-1])


def place_columns(*grid: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Ones where a token of a row-major grid is, place by place along each axis, [M, Σ_a S_a]."""
    places = grid_positions(*grid, device=device, dtype=torch.int64).unbind(-1)
    return torch.cat([F.one_hot(p, size) for p, size in zip(places, grid, strict=True)], -1).to(dtype)


def with_ones(x: Tensor, columns: Tensor) -> Tensor:
    """x [B, heads, N, d] with columns [N, c] as more channels."""
    return torch.cat((x, columns.to(x.dtype).expand(*x.shape[:-1], -1)), -1)


def with_products(x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """x with what ``at_each_place`` makes of it along each axis as more channels."""
    return torch.cat([x, *(at_each_place(x, matrices, axis) for axis in range(len(matrices)))], -1)


def at_each_place(x: Tensor, matrices: Sequence[Tensor], axis: int) -> Tensor:
    """Multiply each token of a row-major grid by the matrix of its place along one axis.

    x [B, heads, N, i], of which the last M = Π_a S_a lie on the grid; matrices [heads, S_a, i, o], one tensor
    for each axis a. Returns [B, heads, N, o], 0 for the first N - M tokens.
    """
    grid = [matrix.shape[1] for matrix in matrices]
    prefix = x.shape[2] - math.prod(grid)
    on_grid = x[:, :, prefix:].unflatten(2, grid).movedim(2 + axis, 2)
    moved = torch.einsum("bhp...i,hpio->bhp...o", on_grid, matrices[axis].to(x.dtype))
    return F.pad(moved.movedim(2, 2 + axis).flatten(2, -2), (0, 0, prefix, 0))


def look_up(table: Tensor, rows: Tensor) -> Tensor:
    """Σ_a table[a, :, rows[..., a]]: [axes, heads, R, c] by [(B,) Q, K, axes] to [B or 1, heads, Q, K, c]."""
    total = torch.zeros((), dtype=table.dtype, device=table.device)
    for axis in range(len(table)):
        total = total + table[axis][:, rows[..., axis]]  # [heads, (B,) Q, K, c]
    return total.unsqueeze(0) if rows.dim() == 3 else total.transpose(0, 1)
