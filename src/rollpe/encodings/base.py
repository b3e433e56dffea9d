"""The interface of every positional encoding.

Letters of the shapes: B images, N tokens, M <= N tokens that have a position, d = head_dim.
Tokens without a position (class token, registers) come first: there are N - M of them.
Keys and values may have fewer heads, a divisor of those of the queries: grouped-query attention. Query head
h then meets head h // (heads / groups) of the keys.
"""

from __future__ import annotations

import inspect
import math
import reprlib
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Required, Self, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe import formulas
from rollpe.encodings.positions import (
    are_integers,
    check_grid,
    check_positions,
    checked_grid,
    last_positions,
    to_integers,
    with_axis,
)
from rollpe.encodings.sdpa import (
    Masking,
    as_bias,
    attention,
    causal,
    spread_heads,
    table_dtype,
    without_autocast,
)
from rollpe.errors import InputError, check_choice, check_whole


class Shape(TypedDict, total=False):
    """The sizes that an encoding is built for; see ``Encoding``."""

    head_dim: Required[int]
    heads: Required[int]
    axes: int
    grid: tuple[int, ...] | None


class PositionTables(NamedTuple):
    """Positions [(B,) M, axes] with the tables of an encoding for them; see ``Encoding.precompute``."""

    positions: Tensor
    tables: tuple[Tensor, ...] = ()
    made_by: str | None = None  # ``Encoding.signature``; None for tables made by hand, which nobody checks


Layout = Literal["bhnd", "bnhd"]
"""The order of axes of queries, keys and values: batch, heads, tokens, channels, or tokens before heads."""

PairPositions = tuple[PositionTables, PositionTables]
"""Where the queries are and where the keys are; one object twice if they are of the same tokens."""


class Encoding(nn.Module):
    """A positional encoding of one attention layer. This base class encodes nothing.

    A subclass says what it acts on and defines two steps, ``tables`` and ``transform``, and for the tests
    what they must equal, ``reference``, from the formulas of `rollpe.ring` and `rollpe.formulas`::

        @register("scaled")
        class Scaled(Encoding):
            acts_on = "scores"

            def tables(self, positions, like):  # [N, axes] or [B, 1, N, axes], once for all layers
                return (1 + positions.sum(-1, keepdim=True),)

            def transform(self, x, tables):  # queries or keys [B, heads, N, d]
                return x * tables[0]

    Those that rotate channel pairs define ``omega`` alone (rotary.py), those that add a bias to the scores
    ``bias`` (biases.py), those that add a code to the tokens ``code`` (codes.py). One that transforms
    keys otherwise than queries also defines ``transform_keys`` and ``reference_keys``.

    Class attributes promise properties, which the tests check for every class:

    - ``acts_on``: ``"tokens"`` (``add`` changes the tokens before the first layer), ``"scores"``
      (``encode``, ``attend`` and ``scores`` depend on positions), ``"both"`` (two joined by "+") or
      ``"nothing"``;
    - ``relative``: adding one vector to all positions leaves the scores between tokens that have a
      position unchanged. (A score between a token with and one without position can still change.)
    - ``real_positions``: positions may be any real numbers; otherwise fractions are refused;
    - ``angular``: names of parameters that positions multiply, such as frequencies; they stay in float32 when
      a model is cast to half precision;
    - ``per_head``: each head is transformed in its own way, so that grouped keys are repeated for their heads
      before they are encoded.

    Positions are [M, axes], or [B, M, axes] if they differ by image; on one axis also [M]. Most methods also
    take the result of ``precompute``.

    Args:
        head_dim: channels of one head, d.
        heads: number of heads.
        axes: numbers in one position: 1 for a sequence, 2 for an image (row, column), 3 for a volume. By
            default as many as ``grid`` has, and without a grid ``usual_axes``.
        grid: tokens along each axis at training time, if they lie on a grid.
    """

    name: ClassVar[str] = ""
    usual_axes: ClassVar[int] = 2
    acts_on: str = "nothing"
    relative: bool = True
    real_positions: bool = True
    per_head: bool = False
    angular: ClassVar[tuple[str, ...]] = ()
    every_block: bool = False  # whether a model calls ``add`` before each block, not before the first alone
    added: bool = True  # False while an encoding of tokens waits for ``add``
    told: bool = False  # of tokens without a position, see ``checked``
    defaults: ClassVar[dict[str, Any]] = {}
    arguments: dict[str, Any]  # those that it was made with, defaults included

    def __init_subclass__(cls) -> None:
        shared, own = (inspect.signature(c.__init__).parameters for c in (Encoding, cls))
        options = [p for p in {**shared, **own}.values() if p.kind is p.KEYWORD_ONLY]
        cls.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # __new__ has none
        cls.defaults = {p.name: p.default for p in options if p.default is not p.empty}

    if not TYPE_CHECKING:

        def __new__(cls, *args: Any, **arguments: Any) -> Self:
            if args:
                raise InputError(f"{cls.__name__} takes its arguments by name: (head_dim=64, heads=6, …).")
            encoding = super().__new__(cls)
            tables = {k: v.tolist() for k, v in arguments.items() if isinstance(v, Tensor)}
            encoding.arguments = cls.defaults | arguments | tables
            return encoding

    def __init__(
        self, *, head_dim: int, heads: int, axes: int | None = None, grid: tuple[int, ...] | None = None
    ) -> None:
        super().__init__()
        if axes is None:
            axes = self.usual_axes if grid is None else len(checked_grid(grid))
        self.arguments |= {"head_dim": head_dim, "heads": heads, "axes": axes, "grid": grid}
        check_whole(1, head_dim=head_dim, heads=heads, axes=axes)
        if head_dim < axes:
            raise InputError(f"head_dim={head_dim} has no channel for each of axes={axes}: widen the head.")
        self.head_dim = head_dim
        self.heads = heads
        self.axes = axes
        self.grid = None if grid is None else checked_grid(grid, axes)
        self.waves_in = 1  # queries and keys come as so many waves of d channels
        self.token_code: Encoding | None = None  # what it is joined to by "+"
        self.score_bias: Any = None
        named = ", ".join(f"{name}={value!r}" for name, value in sorted(self.arguments.items()))
        self._described = f"{type(self).__name__}({named})"

    @property
    def signature(self) -> str:
        """Class and arguments, and which object it is if it has parameters: what tables differ by."""
        return f"{self._described} no. {id(self)}" if self._parameters else self._described

    @property
    def learned(self) -> bool:
        """Whether it has parameters, those of what it is joined to included."""
        return next(self.parameters(), None) is not None

    @property
    def part(self) -> int:
        """Channels of a head that belong to one axis, head_dim // axes."""
        return self.head_dim // self.axes

    # What users call.

    def add(self, tokens: Tensor, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        """Return tokens [B, N, heads*d] with their positions added; here, the tokens themselves.

        ``grid``: sizes, if the positions are the whole row-major grid of them.
        """
        return tokens if self.token_code is None else self.token_code.add(tokens, positions, grid)

    def precompute(
        self, positions: Tensor | PositionTables, like: Tensor, grid: tuple[int, ...] | None = None
    ) -> PositionTables:
        """Positions with the tables that depend on them alone, computed once for all queries and keys.

        Args:
            positions: see the class.
            like: the tokens [B, N, heads*d] or queries [B, heads, N, ...] that have them; M <= N.
            grid: sizes, if the positions are the whole row-major grid of them; some encodings are faster
                then.

        Raises InputError for another grid, and for the result of an encoding of another name, other arguments
        or other parameters.
        """
        if not isinstance(positions, PositionTables):
            positions = with_axis(positions, self.axes)
            ready = self.full_positions(positions, like)
            with without_autocast(like):
                positions = PositionTables(positions, self.tables(ready, like), self.signature)
        elif positions.made_by not in (None, self.signature):
            raise InputError(
                f"tables of positions were precomputed by {positions.made_by}, not by {self.signature}: use"
                " the encoding that attends, encoding.precompute(positions, q)."
            )
        check_grid(grid, positions.positions, self.axes)
        return positions

    @classmethod
    def precompute_layers(
        cls,
        layers: Sequence[Encoding],
        positions: Tensor,
        like: Tensor,
        grid: tuple[int, ...] | None = None,
    ) -> list[PositionTables]:
        """``precompute`` for every layer of a model, whose encodings differ in their parameters only.

        Layers without parameters share one result. A compiler then stores its tables; a table that only two
        operations read, it would recompute for every image and head (``rollpe bench`` measures this).
        """
        own = layers if layers[0].learned else layers[:1]
        precomputed = [layer.precompute(positions, like, grid) for layer in own]
        return precomputed if layers[0].learned else precomputed * len(layers)

    def encode(self, q: Tensor, positions: Tensor | PositionTables) -> Tensor:
        """Encode queries alone. See ``forward``."""
        self.check_width(q)
        return self.transform(q, self.precompute(positions, q).tables)

    def encode_keys(self, k: Tensor, positions: Tensor | PositionTables) -> Tensor:
        """Encode keys alone, as before they enter a cache. See ``forward``."""
        self.check_width(k=k)
        return self._encoded_keys(k, self.precompute(positions, k))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | PositionTables,
        key_positions: Tensor | PositionTables | None = None,
        *,
        layout: Layout = "bhnd",
    ) -> tuple[Tensor, Tensor]:
        """Encode queries [B, heads, N, waves_in*d] and keys; dtypes are kept.

        ``key_positions``: of the keys, in cross-attention; by default keys are those of the same tokens.
        ``layout``: "bnhd" takes and returns [B, N, heads, ...].

        Returns:
            q and k, [B, heads, N, d]; unchanged by an encoding that does not act on them. Grouped keys stay
            grouped, unless ``per_head``. A bias is not in them: ``attend`` adds it, and its ``mask`` has it.
        """
        if heads_last(layout):
            q, k = self.forward(q.transpose(1, 2), k.transpose(1, 2), positions, key_positions)
            return q.transpose(1, 2), k.transpose(1, 2)
        self.check_width(q, k)
        self._look_for_add()
        of_queries, of_keys = self.pair_positions(q, k, positions, key_positions)
        k = self._encoded_keys(k, of_keys)
        return self.transform(q, of_queries.tables), k

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        positions: Tensor | PositionTables,
        *,
        key_positions: Tensor | PositionTables | None = None,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = True,
        layout: Layout = "bhnd",
    ) -> Tensor:
        """Attention with this encoding, softmax(scores) v, by the fastest correct path.

        The keywords are those of ``scaled_dot_product_attention``, where a line here does not say otherwise.

        Args:
            q, k: [B, heads, N, waves_in*d]; v: [B, heads, N, d]. Keys and values may be grouped, or those of
                other tokens, [B, heads, K, ...].
            positions: see the class.
            key_positions: of the keys, in cross-attention; by default keys are those of the same tokens.
            attn_mask: as in ``scaled_dot_product_attention``, broadcastable to [B, heads, N, K]: False where
                a query must not attend, or numbers that are added to the scores.
            is_causal: no query attends to a later key; fewer queries than keys are the last tokens.
            scale: factor of q·k, also where a bias depends on q (``shaw``); 1/√d by default.
            enable_gqa: False refuses fewer heads of keys than of queries.
            layout: "bnhd" takes and returns [B, N, heads, ...]. Shapes alone cannot tell when N equals heads.

        Returns:
            [B, heads, N, d].
        """
        if heads_last(layout):
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        self.check_width(q, k, v)
        if not enable_gqa and k.shape[-3] != q.shape[-3]:
            raise InputError(f"{k.shape[-3]} heads of keys for {q.shape[-3]} of queries need enable_gqa.")
        self._look_for_add()
        places = self.pair_positions(q, k, positions, key_positions)
        out = self._attend(self._scaled(q, scale), k, v, places, Masking(attn_mask, dropout_p, is_causal))
        return out.transpose(1, 2) if heads_last(layout) else out

    def weights(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | PositionTables,
        *,
        key_positions: Tensor | PositionTables | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        """softmax(scores), [B, heads, N, K], by the fast path of ``attend``, in float32 or wider.

        A query whose keys are all masked, also by ``is_causal``, has weights 0, as in
        ``scaled_dot_product_attention``.
        """
        self.check_width(q, k)
        self._look_for_add()
        places = self.pair_positions(q, k, positions, key_positions)
        q = self._scaled(q, scale)
        masking = self._mask(q, k, places, Masking(attn_mask, is_causal=is_causal))
        q, k = self._for_score(q, k, places)
        scores = q @ spread_heads(k, self.heads).transpose(-2, -1) * self.head_dim**-0.5
        if masking.attn_mask is not None:
            scores = scores + as_bias(masking.attn_mask, scores)
        if is_causal:
            scores = causal(scores, q.shape[-2], k.shape[-2])
        dtype = torch.promote_types(scores.dtype, torch.float32)
        if masking.attn_mask is None and not (is_causal and q.shape[-2] > k.shape[-2]):
            return scores.softmax(-1, dtype=dtype)
        blind = scores.isneginf().all(-1, keepdim=True)  # filled twice: a softmax of -∞ has no gradient
        return scores.masked_fill(blind, 0).softmax(-1, dtype=dtype).masked_fill(blind, 0)

    def decode(
        self,
        q: Tensor,
        keys: Tensor,
        values: Tensor,
        positions: Tensor,
        *,
        key_positions: Tensor | None = None,
        attn_mask: Tensor | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """Causal attention of the last tokens over all tokens so far, with a cache of encoded keys.

        Args:
            q: queries of the last Q tokens, [B, heads, Q, waves_in*d].
            keys: all N keys so far, each encoded by ``encode_keys``, [B, heads, N, d]; may be grouped.
            values: [B, heads, N, d]; may be grouped.
            positions: of all tokens so far, [M, axes] or [B, M, axes]; the last Q are those of the queries.
                Encodings that change the keys themselves read only these.
            key_positions: of all N keys, where ``positions`` are not. A cache of fixed size counts its slots:
                ``decode(q, keys, values, positions=now, key_positions=slots, attn_mask=slots <= now)``.
            attn_mask: as in ``attend``, broadcastable to [B, heads, Q, N]. A batch padded on the left has
                False at its padding, [B, 1, 1, N], and any finite numbers for positions there. A cache of
                fixed size has False at its empty slots.
            scale: as in ``attend``.

        Returns:
            [B, heads, Q, d]: the last Q rows of ``attend`` with ``is_causal``.
        """
        positions = with_axis(positions, self.axes)
        key_positions = None if key_positions is None else with_axis(key_positions, self.axes)
        return self._decode(self._scaled(q, scale), keys, values, positions, key_positions, attn_mask)

    def _decode(
        self, q: Tensor, keys: Tensor, values: Tensor, here: Tensor, there: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        """``decode`` from positions with their axis; ``there`` is ``key_positions``."""
        masking = Masking(mask, is_causal=True)
        if self.score_bias is not None:
            masking = masking.plus(
                self.score_bias.mask(q, keys, *self.score_bias.of_cache(q, keys, here, there))
            )
        q = self.encode(q, last_positions(here, q.shape[-2]))
        for cached in (keys, values):
            self.check_width(v=cached)
        return attention(q, keys, values, masking, scale=self.head_dim**-0.5)

    if TYPE_CHECKING:  # nn.Module declares that a call returns anything

        def __call__(
            self,
            q: Tensor,
            k: Tensor,
            positions: Tensor | PositionTables,
            key_positions: Tensor | PositionTables | None = None,
            *,
            layout: Layout = "bhnd",
        ) -> tuple[Tensor, Tensor]: ...

    def scores(self, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        """Scores before softmax [B, heads, N, N], divided by √d: ``reference`` and a dot product."""
        ready, dtype = self.full_positions(positions, q), table_dtype(q)
        moved_q = self.reference(q.to(dtype), ready)
        moved_k = self.reference_keys(spread_heads(k, self.heads).to(dtype), ready)
        scores = formulas.scores(moved_q, moved_k).to(q.dtype)
        if self.score_bias is None:
            return scores
        return scores + self.score_bias.mask(q, k, positions)

    def shift_keys(self, keys: Tensor, by: float | Tensor) -> Tensor:
        """Encoded keys as if their positions had been larger by an offset: a cache is moved, not made anew.

        Each shift rounds the keys once more. InputError where scores are not relative, and for waves of keys.

        Args:
            keys: from ``encode_keys``, [B, heads, N, d].
            by: one offset [axes] for all, on one axis a number; or one for each key as positions are given.
        """
        if not self.relative or self.waves_in > 1:
            raise InputError(f"keys of {self.name!r} cannot be shifted: encode them anew, encode_keys.")
        offset = torch.as_tensor(by, device=keys.device)
        if offset.dim() < 2 and not (self.axes == 1 and offset.numel() > 1):
            offset = offset.expand(keys.shape[-2], self.axes)
        positions = Encoding.precompute(self, offset, keys)
        return self.transform_keys(keys, positions.tables)

    def no_weight_decay(self) -> set[str]:
        """Names of parameters without weight decay: all parameters of the encoding."""
        return {name for name, _ in self.named_parameters()}

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> Self:
        """As in torch, but ``angular`` parameters stay in float32 or wider."""
        kept = {name: (p.data, p.grad) for name in self.angular if (p := getattr(self, name)) is not None}
        super()._apply(fn, recurse)
        for name, (values, grad) in kept.items():
            now = getattr(self, name)
            if now.dtype.itemsize < 4:
                now.data = values.float().to(now.device)
                now.grad = None if grad is None else grad.float().to(now.device)
        return self

    # What a subclass defines.

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """The tensors that ``transform`` needs for ``full_positions``; called outside autocast."""
        return ()

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        """Queries or keys [B, heads, N, waves_in*d] to their encoded form [B, heads, N, d]: the fast path."""
        return x

    def transform_keys(self, k: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        """``transform`` for keys, where it differs."""
        return self.transform(k, tables)

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        """The reference for ``transform``: x float32 or float64, ``full_positions``."""
        return x

    def reference_keys(self, k: Tensor, positions: Tensor) -> Tensor:
        """The reference for ``transform_keys``."""
        return self.reference(k, positions)

    # Shared steps.

    def full_positions(self, positions: Tensor, like: Tensor) -> Tensor:
        """Positions as ``tables`` and ``reference`` take them, [N, axes] or [B, 1, N, axes].

        Checked, 0 for the N - M leading tokens without a position; float64 if ``like`` is float64 and float32
        otherwise, or int64 where fractions are refused.
        """
        positions = self.checked(positions, like)
        if not self.real_positions and not are_integers(positions):
            raise InputError(
                f"encoding {self.name!r} needs integer positions: use 'axial-rope' or 'continuous-roll', or"
                " positions.round()."
            )
        whole = not type(self).real_positions  # what it is joined to may need integers as well
        ready = to_integers(positions) if whole else positions.to(table_dtype(like))
        ready = F.pad(ready, (0, 0, like.shape[-2] - ready.shape[-2], 0))
        return ready if ready.dim() == 2 else ready.unsqueeze(-3)

    def checked(self, positions: Tensor, like: Tensor) -> Tensor:
        """Positions with their axis, see ``check_positions``.

        Warns once of fewer positions than tokens on one axis, where one forgotten is likelier than a class
        token, unless the encoding was built for a grid of so many.
        """
        positions = with_axis(positions, self.axes)
        check_positions(positions, like, self.axes)
        given, tokens = positions.shape[-2], like.shape[-2]
        doubtful = self.axes == 1 and 0 < given < tokens and self.grid != (given,)
        if doubtful and not (self.told or torch.compiler.is_compiling()):
            self.told = True
            warnings.warn(
                f"{given} positions for {tokens} tokens leave the first {tokens - given} without one, as"
                f" class tokens are: give {tokens}, or, if that is meant, build the encoding with"
                f" grid=({given},).",
                stacklevel=4,
            )
        return positions

    def pair_positions(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | PositionTables,
        key_positions: Tensor | PositionTables | None,
    ) -> PairPositions:
        """``precompute`` for queries and keys."""
        if key_positions is not None:  # without what a subclass keeps for pairs of the same tokens
            return Encoding.precompute(self, positions, q), Encoding.precompute(self, key_positions, k)
        if q.shape[-2] != k.shape[-2]:
            raise InputError(
                f"{q.shape[-2]} queries and {k.shape[-2]} keys are not those of the same tokens: give"
                " key_positions=, or use decode."
            )
        precomputed = self.precompute(positions, q)
        return precomputed, precomputed

    def _scaled(self, q: Tensor, scale: float | None) -> Tensor:
        """Queries whose scores, divided by √d, are scale·q·k."""
        return q if scale is None else q * (scale * math.sqrt(self.head_dim))

    def _encoded_keys(self, k: Tensor, of_keys: PositionTables) -> Tensor:
        """Keys [B, groups, N, ...], encoded: for all heads if ``per_head``."""
        return self.transform_keys(spread_heads(k, self.heads) if self.per_head else k, of_keys.tables)

    def _for_score(self, q: Tensor, k: Tensor, places: PairPositions) -> tuple[Tensor, Tensor]:
        """Queries and keys, encoded for a dot product."""
        k = self._encoded_keys(k, places[1])  # first: the order in which gradients of tables are added up
        return self.transform(q, places[0].tables), k

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, places: PairPositions, masking: Masking) -> Tensor:
        """``attend`` after its checks."""
        masking = self._mask(q, k, places, masking)
        q, k = self._for_score(q, k, places)
        return attention(q, k, v, masking, scale=self.head_dim**-0.5)

    def _mask(self, q: Tensor, k: Tensor, places: PairPositions, masking: Masking) -> Masking:
        """``masking`` with the bias that this encoding adds to scores."""
        if self.score_bias is None:
            return masking
        return masking.plus(self.score_bias.mask(q, k, *(of.positions for of in places)))

    def check_width(self, q: Tensor | None = None, k: Tensor | None = None, v: Tensor | None = None) -> None:
        """Refuse another number of heads (keys and values may be grouped) and other widths of q and k."""
        for x, grouped in ((q, False), (k, True), (v, True)):
            if x is None:
                continue
            if x.is_nested:
                raise InputError(
                    "nested tensors are not supported: pad them and mask the padding, attn_mask=."
                )
            heads = x.shape[-3] if x.dim() > 2 else 0
            if heads != self.heads and not (grouped and heads and self.heads % heads == 0):
                raise InputError(
                    f"queries, keys or values of shape {tuple(x.shape)} are not [B, heads={self.heads}, N, …]"
                    f" as encoding {self.name!r} needs them: for [B, N, heads, …] say layout='bnhd', or move"
                    " the heads, transpose(1, 2); keys and values may have a number of heads that divides"
                    " this one."
                )
            if x is not v and x.shape[-1] != self.waves_in * self.head_dim:
                waves = f"{self.waves_in} waves of " if self.waves_in > 1 else ""
                raise InputError(
                    f"queries or keys have {x.shape[-1]} channels: encoding {self.name!r} was built for"
                    f" {waves}head_dim={self.head_dim}."
                )

    def _look_for_add(self) -> None:
        """Warn once if attention runs before ``add`` for an encoding of tokens."""
        if torch.compiler.is_compiling() or self.added:
            return
        self.added = True
        warnings.warn(
            f"encoding {self.name!r} acts on tokens, and attention leaves its positions out: add them before"
            " the first block, tokens = encoding.add(tokens, positions).",
            stacklevel=3,
        )

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={reprlib.repr(value)}" for name, value in sorted(self.arguments.items()))


def heads_last(layout: Layout) -> bool:
    """Whether heads come after tokens; InputError for an unknown layout."""
    check_choice("layout", layout, ("bhnd", "bnhd"))
    return layout == "bnhd"
