"""What every positional encoding has in common: the interface, the registry, positions.

Here: ``Encoding``, ``create_encoding``, ``grid_positions`` and the checks of positions.
Not here: any particular encoding (absolute.py, relative.py, rotary.py, lie.py, roll.py).

Letters of the shapes: B images, N tokens, M <= N tokens that have a position, d = head_dim.
Tokens without a position (class token, registers) come first: there are N - M of them.

To add an encoding, write a subclass of ``Encoding`` under ``@register("its-name")``. Its options are
the keyword-only arguments of its ``__init__`` before ``**shape``; what they may be is read off their
annotations.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Required, TypedDict, TypeVar, get_args, get_type_hints

import torch
import torch.nn.functional as F
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from rollpe import textbook
from rollpe.errors import InputError

T = TypeVar("T")

ENCODINGS: dict[str, type[Encoding]] = {}
"""Every encoding by its public name."""


class Shape(TypedDict, total=False):
    """What every encoding is built for; see ``Encoding``."""

    head_dim: Required[int]
    heads: Required[int]
    axes: int
    grid: tuple[int, ...] | None


_COMMON = {"self", *Shape.__annotations__}


class Placed(NamedTuple):
    """Positions [M, axes] or [B, M, axes], and the tables that an encoding made of them.

    ``Encoding.place`` makes it once, for all who read it.
    """

    positions: Tensor
    tables: tuple[Tensor, ...] = ()


class Masking(NamedTuple):
    """What ``attend`` takes beyond queries, keys, values and their positions."""

    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False


class Encoding(nn.Module):
    """A positional encoding of one attention layer. This base class encodes nothing.

    Class attributes say what the encoding promises, and the tests hold every class to them:

    - ``acts_on``: ``"tokens"`` (``add`` changes the tokens before the first layer), ``"scores"``
      (``encode``, ``attend`` and ``scores`` depend on positions), ``"both"`` (two joined by "+") or
      ``"nothing"``;
    - ``relative``: adding one vector to all positions leaves the scores between tokens that have a
      position unchanged. (A score between a token with and one without position can still change.)
    - ``real_positions``: positions may be any real numbers; otherwise fractions are refused;
    - ``learned``: has parameters of its own;
    - ``preserves_norm``: encoded queries and keys keep their Euclidean norm.

    Positions are [M, axes], or [B, M, axes] if they differ by image. Most methods also take what ``place``
    made of them.

    A subclass that transforms queries and keys defines the fast path in two steps, ``tables`` and
    ``transform``, and beside it ``formula``, made of the checked functions of `rollpe.operators` and
    `rollpe.textbook`. The tests hold one to the other. Those that add a bias to the scores are in
    relative.py, those that add a code to the tokens in absolute.py.

    Args:
        head_dim: channels of one head, d.
        heads: number of heads.
        axes: numbers in one position: 1 for a sequence, 2 for an image (row, column), 3 for a volume.
        grid: tokens along each axis at training time, if they lie on a grid.
    """

    name: ClassVar[str] = ""
    acts_on: str = "nothing"
    relative: bool = True
    real_positions: bool = True
    learned: bool = False
    preserves_norm: bool = True
    added: bool = True  # False while an encoding of tokens waits for ``add``

    def __init__(
        self, *, head_dim: int, heads: int, axes: int = 2, grid: tuple[int, ...] | None = None
    ) -> None:
        super().__init__()
        for label, value in (("head_dim", head_dim), ("heads", heads), ("axes", axes)):
            if value < 1:
                raise InputError(f"{label}={value} is too small: it must be at least 1.")
        if head_dim < axes:
            raise InputError(f"head_dim={head_dim} has no channel for each of axes={axes}: widen the head.")
        self.head_dim = head_dim
        self.heads = heads
        self.axes = axes
        self.grid = None if grid is None else checked_grid(grid, axes)
        self.streams = 1
        self.on_tokens: Encoding | None = None  # what it is joined to by "+"

    @property
    def part(self) -> int:
        """Channels of a head that belong to one axis, head_dim // axes."""
        return self.head_dim // self.axes

    # What users call.

    def add(self, tokens: Tensor, positions: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        """Return tokens [B, N, heads*d] with their positions added; here, the tokens themselves.

        ``grid`` says that the positions are the whole row-major grid of these sizes.
        """
        return tokens if self.on_tokens is None else self.on_tokens.add(tokens, positions, grid)

    def place(self, positions: Tensor | Placed, like: Tensor, grid: tuple[int, ...] | None = None) -> Placed:
        """Positions with all that depends on them alone: made once, read by every query, key and layer.

        Args:
            positions: see the class.
            like: the tokens [B, N, heads*d] or queries [B, heads, N, ...] that have them; M <= N.
            grid: says that the positions are the whole row-major grid of these sizes, where some encodings
                know a shorter way.
        """
        if isinstance(positions, Placed):
            return positions
        ready = self.prepared(positions, like)
        with without_autocast(like):
            return Placed(positions, self.tables(ready, like))

    @classmethod
    def place_layers(
        cls,
        layers: Sequence[Encoding],
        positions: Tensor,
        like: Tensor,
        grid: tuple[int, ...] | None = None,
    ) -> list[Placed]:
        """``place`` for every layer of a model, whose encodings differ in their parameters only.

        Without parameters the layers share one. A table with many readers is also one that a compiler
        stores; one with two readers it recomputes for every image and head (``rollpe bench`` shows it).
        """
        own = layers if layers[0].learned else layers[:1]
        placed = [layer.place(positions, like, grid) for layer in own]
        return placed if layers[0].learned else placed * len(layers)

    def encode(self, x: Tensor, positions: Tensor | Placed) -> Tensor:
        """Queries alone, or keys alone before they enter a cache. See ``forward``."""
        self.check_width(x)
        return self.transform(x, self.place(positions, x).tables)

    def forward(self, q: Tensor, k: Tensor, positions: Tensor | Placed) -> tuple[Tensor, Tensor]:
        """Encode queries and keys [B, heads, N, streams*d]; the dtype that comes in goes out.

        Returns:
            q and k, [B, heads, N, d]; unchanged by an encoding that does not act on them.
        """
        self._look_for_add()
        placed = self.place(positions, q)
        return self.encode(q, placed), self.encode(k, placed)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        positions: Tensor | Placed,
        *,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention with this encoding, softmax(scores) v, by the fastest correct path.

        Args:
            q, k: [B, heads, N, streams*d]; v: [B, heads, N, d].
            positions: see the class.
            attn_mask: as in ``scaled_dot_product_attention``, broadcastable to [B, heads, N, N]: False where
                a query must not look, or numbers that are added to the scores.
            is_causal: no query looks at a later key.

        Returns:
            [B, heads, N, d].
        """
        self.check_width(q, k, values=v)
        self._look_for_add()
        placed = self.place(positions, k)
        return self._attend(q, k, v, placed, Masking(attn_mask, dropout_p, is_causal))

    def weights(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | Placed,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """softmax(scores), [B, heads, N, N], of the same fast path as ``attend``, in float32 or wider.

        A query that a mask lets see nothing has weights 0, as in ``scaled_dot_product_attention``.
        """
        self.check_width(q, k)
        self._look_for_add()
        placed = self.place(positions, k)
        masking = self._mask(q, k, placed, Masking(attn_mask, is_causal=is_causal))
        q, k = (self.transform_for_score(x, placed.tables) for x in (q, k))
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        if masking.attn_mask is not None:
            scores = scores + as_bias(masking.attn_mask, scores)
        if is_causal:
            scores = causal(scores, q.shape[-2], k.shape[-2])
        dtype = torch.promote_types(scores.dtype, torch.float32)
        if masking.attn_mask is None:
            return scores.softmax(-1, dtype=dtype)
        blind = scores.isneginf().all(-1, keepdim=True)  # filled twice: a softmax of -∞ has no gradient
        return scores.masked_fill(blind, 0).softmax(-1, dtype=dtype).masked_fill(blind, 0)

    def decode(self, q: Tensor, keys: Tensor, values: Tensor, positions: Tensor) -> Tensor:
        """Causal attention of the newest tokens over everything so far, with encoded keys at hand.

        Args:
            q: the last Q tokens' queries, [B, heads, Q, streams*d].
            keys: all N keys so far, each through ``encode`` when it was new, [B, heads, N, d].
            values: [B, heads, N, d].
            positions: of everything so far, [M, axes] or [B, M, axes], M <= N.

        Returns:
            [B, heads, Q, d]: the last Q rows of ``attend`` with ``is_causal``.
        """
        queries, tokens, placed = q.shape[-2], keys.shape[-2], positions.shape[-2]
        q = self.encode(q, positions[..., placed - min(queries, placed) :, :])
        self.check_width(values=keys)
        self.check_width(values=values)
        seen = torch.ones(queries, tokens, dtype=torch.bool, device=q.device).tril(tokens - queries)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen, scale=self.head_dim**-0.5)

    def scores(self, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        """Scores before softmax [B, heads, N, N], divided by √d: ``formula`` and a dot product."""
        ready, dtype = self.prepared(positions, q), table_dtype(q)
        moved_q, moved_k = (self.formula(x.to(dtype), ready) for x in (q, k))
        return textbook.scores(moved_q, moved_k).to(q.dtype)

    def no_weight_decay(self) -> set[str]:
        """Names of parameters that weight decay must leave alone: all of an encoding's own."""
        return {name for name, _ in self.named_parameters()}

    # What a subclass defines.

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, ...]:
        """Everything ``transform`` needs of ``prepared`` positions; called outside autocast."""
        return ()

    def transform(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        """Queries or keys [B, heads, N, streams*d] to their encoded form [B, heads, N, d]: the fast path."""
        return x

    def transform_for_score(self, x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
        """``transform`` up to a rotation that queries and keys share, which no score notices."""
        return self.transform(x, tables)

    def formula(self, x: Tensor, positions: Tensor) -> Tensor:
        """What ``transform`` computes, by the textbook: x float32 or float64, ``prepared`` positions."""
        return x

    def on_ring(self, x: Tensor) -> Tensor:
        """Queries or keys [..., d] before encoding, in the channels that ``roll`` moves; here, themselves."""
        return x

    # What both rest on.

    def prepared(self, positions: Tensor, like: Tensor) -> Tensor:
        """Positions as ``tables`` and ``formula`` take them, [N, axes] or [B, 1, N, axes].

        Checked, 0 for the N - M leading tokens without a position; float64 if ``like`` is float64 and float32
        otherwise, or int64 where fractions are refused.
        """
        check_positions(positions, like, self.axes)
        ready = positions.to(table_dtype(like)) if self.real_positions else self.whole(positions)
        ready = F.pad(ready, (0, 0, like.shape[-2] - ready.shape[-2], 0))
        return ready if ready.dim() == 2 else ready.unsqueeze(-3)

    def whole(self, positions: Tensor) -> Tensor:
        """The positions as int64; InputError if one is a fraction."""
        if not are_integers(positions):
            raise InputError(
                f"encoding {self.name!r} needs whole positions: use 'axial-rope' or 'continuous-roll'."
            )
        return (positions.round() if positions.is_floating_point() else positions).long()

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, placed: Placed, masking: Masking) -> Tensor:
        """``attend`` after its checks."""
        masking = self._mask(q, k, placed, masking)
        q, k = (self.transform_for_score(x, placed.tables) for x in (q, k))
        return attention(q, k, v, masking, scale=self.head_dim**-0.5)

    def _mask(self, q: Tensor, k: Tensor, placed: Placed, masking: Masking) -> Masking:
        """``masking`` with what this encoding adds to scores."""
        return masking

    def check_width(self, *queries_or_keys: Tensor, values: Tensor | None = None) -> None:
        """Refuse queries, keys and values that do not have ``heads`` heads, or channels but streams*d."""
        for x in (*queries_or_keys, *(() if values is None else (values,))):
            if x.dim() < 3 or x.shape[-3] != self.heads:
                raise InputError(
                    f"queries, keys or values of shape {tuple(x.shape)} are not [B, heads={self.heads}, N, …]"
                    f" as encoding {self.name!r} needs them: {self._way_to_heads(x)}."
                )
        for x in queries_or_keys:
            if x.shape[-1] != self.streams * self.head_dim:
                streams = f"streams={self.streams} of " if self.streams > 1 else ""
                raise InputError(
                    f"queries or keys have {x.shape[-1]} channels: encoding {self.name!r} was built for"
                    f" {streams}head_dim={self.head_dim}."
                )

    def _way_to_heads(self, x: Tensor) -> str:
        """What brings x to that shape."""
        if x.dim() > 2 and x.shape[-2] == self.heads:
            return "transpose(1, 2) moves the heads before the tokens"
        times, rest = divmod(self.heads, max(x.shape[-3], 1)) if x.dim() > 2 else (0, 1)
        if times > 1 and not rest:
            return f"repeat_interleave({times}, 1) gives what a group of heads shares to each of them"
        return "give each head its own"

    def _look_for_add(self) -> None:
        """Warn once if attention is asked for codes that nobody has added to the tokens."""
        if torch.compiler.is_compiling() or self.added:
            return
        self.added = True
        warnings.warn(
            f"encoding {self.name!r} acts on tokens, and attention leaves its positions out: add them before"
            " the first block, tokens = encoding.add(tokens, positions).",
            stacklevel=3,
        )

    def extra_repr(self) -> str:
        return f"head_dim={self.head_dim}, heads={self.heads}, axes={self.axes}"


def joined(on_tokens: Encoding, on_scores: Encoding) -> Encoding:
    """The encoding of the scores, which also adds that of the tokens, as in ``"learned+axial-rope"``."""
    on_scores.on_tokens = on_tokens
    on_scores.acts_on, on_scores.relative = "both", False
    on_scores.real_positions &= on_tokens.real_positions
    on_scores.learned |= on_tokens.learned
    return on_scores


def note_added(encoding: Encoding) -> None:
    """Remember that an encoding of tokens has been added; a compiled graph cannot, and is never asked."""
    if not torch.compiler.is_compiling():
        encoding.added = True


def no_weight_decay(model: nn.Module) -> set[str]:
    """Full names of the parameters of all encodings in a model, which weight decay must leave alone.

    For timm's factory, whose own rule spares vectors only, and an encoding's parameters are none::

        timm.optim.param_groups_weight_decay(model, 0.05, no_weight_decay_list=no_weight_decay(model))
    """
    return {
        f"{place}.{name}".lstrip(".")
        for place, module in model.named_modules()
        if isinstance(module, Encoding)
        for name in module.no_weight_decay()
    }


def register(name: str) -> Callable[[type[Encoding]], type[Encoding]]:
    """Class decorator: make an encoding available under its public name.

    A name belongs to one class; only a later version of that class may have it. Otherwise, and for a class
    that does not say what it acts on, InputError.
    """

    def enter(encoding: type[Encoding]) -> type[Encoding]:
        if encoding.acts_on == "nothing" and name != "none":
            raise InputError(f'encoding {name!r} would do nothing: write acts_on = "tokens" or "scores".')
        taken = ENCODINGS.get(name, encoding)
        if (taken.__module__, taken.__qualname__) != (encoding.__module__, encoding.__qualname__):
            raise InputError(f"encoding name {name!r} belongs to {taken.__module__}.{taken.__qualname__}.")
        encoding.name = name
        ENCODINGS[name] = encoding
        return encoding

    return enter


def encoding_options(name: str) -> dict[str, Any]:
    """The options an encoding takes, with their defaults: ``encoding_options("roll")``.

    For ``"a+b"``, the options of both. One that both have is given to both; its default here is that of the
    score encoding, and each keeps its own where nothing is given.
    """
    options: dict[str, Any] = {}
    for part in split_name(name):
        for option, parameter in inspect.signature(ENCODINGS[part].__init__).parameters.items():
            if option not in _COMMON and parameter.kind is not parameter.VAR_KEYWORD:
                options[option] = parameter.default
    return options


def split_name(name: str) -> tuple[str, str]:
    """Split a name into its token encoding and its score encoding; an absent one is ``"none"``.

    ``"roll"`` is ("none", "roll"), ``"learned+roll"`` is ("learned", "roll"). An unknown name or two
    encodings of the same kind raise InputError.
    """
    kinds = {"tokens": "none", "scores": "none"}
    parts = name.split("+")
    for part in parts:
        if part not in ENCODINGS:
            raise InputError(
                f"unknown encoding {part!r}: choose from {', '.join(ENCODINGS)},"
                " or join one for tokens and one for scores, as in 'learned+roll'."
            )
        kind = ENCODINGS[part].acts_on
        if len(parts) > 1 and (kind == "nothing" or kinds[kind] != "none"):
            raise InputError(
                f"encoding {name!r} does not combine: join one that acts on tokens"
                f" ({', '.join(n for n, e in ENCODINGS.items() if e.acts_on == 'tokens')})"
                " with one that acts on scores."
            )
        if kind != "nothing":
            kinds[kind] = part
    return kinds["tokens"], kinds["scores"]


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in the types that the encoding's ``__init__`` names: base=100 becomes 100.0, a list a tuple.

    Raises InputError for an unknown option and for a value of another type, NaN and infinity among them.
    """
    allowed = encoding_options(name)
    types = {k: t for part in split_name(name) for k, t in get_type_hints(ENCODINGS[part].__init__).items()}
    checked = {}
    for option, value in options.items():
        if option not in allowed:
            known = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
            raise InputError(f"encoding {name!r} has no option {option!r}: {known}.")
        adapter: TypeAdapter = TypeAdapter(types.get(option, Any), config=_STRICT)
        try:
            checked[option] = adapter.validate_python(tuple(value) if isinstance(value, list) else value)
        except ValidationError:
            kinds = get_args(types[option]) if type(None) in get_args(types[option]) else (types[option],)
            wanted = " or ".join(_KINDS.get(kind, str(kind)) for kind in kinds)
            raise InputError(f"encoding {name!r}: {option}={value!r} must be {wanted}.") from None
        numbers = checked[option] if isinstance(checked[option], tuple) else (checked[option],)
        if any(isinstance(number, int) and abs(number) > 10**6 for number in numbers):
            raise InputError(f"encoding {name!r}: {option}={value!r} is beyond a million. Lower it.")
    return checked


_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a word",
    tuple[int, ...]: "a list of whole numbers",
    type(None): "null",
}


def told_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Only the options that change the encoding, in one spelling, so that an encoding has one name.

    Left out is what equals the default (of both encodings in "a+b", if both have the option) or, where the
    default is None, what the encoding makes of None for heads of every width: speeds=[1, 2] of two waves.
    """
    defaults = encoding_options(name)
    own = [encoding_options(part) for part in split_name(name)]
    told = {
        k: v
        for k, v in checked_options(name, options).items()
        if any(k in part and v != part[k] for part in own)
    }
    for option in [k for k in told if defaults[k] is None]:
        rest = {k: v for k, v in told.items() if k != option}
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            try:
                built = [
                    create_encoding(name, head_dim=d, heads=2, axes=2, grid=(2, 2), **rest) for d in (24, 48)
                ]
            except InputError:
                continue  # refused where it is built
        if all(getattr(e, option) == told[option] for e in built):
            del told[option]
    return {k: list(v) if isinstance(v, tuple) else v for k, v in told.items()}


def split_options(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options for the token encoding and for the score encoding of a name, checked (``checked_options``)."""
    options = checked_options(name, options)
    on_tokens, on_scores = (
        {key: value for key, value in options.items() if key in encoding_options(part)}
        for part in split_name(name)
    )
    return on_tokens, on_scores


def create_encoding(
    name: str,
    *,
    head_dim: int,
    heads: int,
    axes: int = 2,
    grid: tuple[int, ...] | None = None,
    **options: Any,
) -> Encoding:
    """Build an encoding by name.

    Args:
        name: one of ``ENCODINGS``, or a token and a score encoding joined by "+".
        head_dim, heads, axes, grid: see ``Encoding``.
        options: the encoding's own, see ``encoding_options(name)``.

    Raises:
        InputError: unknown name or option, or a value that the encoding cannot use.
    """
    parts = zip(split_name(name), split_options(name, options), strict=True)
    built = [
        ENCODINGS[part](head_dim=head_dim, heads=heads, axes=axes, grid=grid, **taken)
        for part, taken in parts
        if part != "none"
    ]
    if len(built) == 2:
        return joined(*built)
    return built[0] if built else ENCODINGS["none"](head_dim=head_dim, heads=heads, axes=axes, grid=grid)


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

    A token stands for the middle of its patch: p ↦ (p + ½)·built/shown - ½. This is how an encoding of
    real positions meets another resolution at the span it was trained on.
    """
    axes = zip(positions.unbind(-1), shown, built, strict=True)
    return torch.stack([(p + 0.5) * (b / s) - 0.5 for p, s, b in axes], -1)


def table_dtype(like: Tensor) -> torch.dtype:
    """The dtype in which angles are computed: float64 for float64 tensors, float32 for all others."""
    return torch.float64 if like.dtype == torch.float64 else torch.float32


def without_autocast(like: Tensor) -> torch.autocast:
    """Autocast switched off on the device of ``like``; the meta device has none to switch off."""
    return torch.autocast("cpu" if like.is_meta else like.device.type, enabled=False)


def as_bias(attn_mask: Tensor, like: Tensor) -> Tensor:
    """What a mask adds to scores, in the dtype of ``like``: 0 for True and -∞ for False, or its numbers."""
    if attn_mask.dtype != torch.bool:
        return attn_mask.to(like.dtype)
    zero = torch.zeros((), dtype=like.dtype, device=like.device)
    return zero.masked_fill(~attn_mask, -math.inf)


def causal(scores: Tensor, queries: int, keys: int) -> Tensor:
    """-∞ where one of the last ``queries`` tokens would look at a later one of ``keys``, else ``scores``."""
    later = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).triu(keys - queries + 1)
    return scores.masked_fill(later, -math.inf)


SHORT = 128
"""Keys up to which ``attention`` prefers plain products on a CPU; with 256 the fused kernel is faster."""


def attention(q: Tensor, k: Tensor, v: Tensor, masking: Masking, *, scale: float) -> Tensor:
    """``scaled_dot_product_attention`` for v [B, heads, N, c] that may have fewer channels than k.

    Compiled training steps on a CPU take plain products where keys are few: the compiler joins the softmax
    to its neighbors, and the fused kernel takes longer to go back (`rollpe bench --variants`). There the
    weights are divided by their sum after they met the values, d numbers a query in place of N; torch's
    compiler would turn a softmax between two products into the fused kernel again. An exported program
    keeps the fused kernel, for any number of keys.
    """
    attn_mask, dropout_p, is_causal = masking
    if attn_mask is not None and is_causal:
        attn_mask, is_causal = causal(as_bias(attn_mask, q), q.shape[-2], k.shape[-2]), False
    # what torch.compiler.is_exporting() returns, which torch 2.11 compiles to True
    exporting = getattr(torch.compiler, "_is_exporting_flag", False)
    training = torch.compiler.is_compiling() and not exporting and torch.is_grad_enabled()
    wide = q.device.type == "cpu" and q.dtype.itemsize > 2
    if training and wide and attn_mask is None and not is_causal and k.shape[-2] <= SHORT:
        scores = q @ k.mT * scale
        weights = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        return F.dropout(weights, dropout_p) @ v / weights.sum(-1, keepdim=True)
    width = v.shape[-1]
    if width < k.shape[-1]:  # the fused kernels want equal widths
        v = F.pad(v, (0, k.shape[-1] - width))
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale
    )
    if exporting and attn_mask is not None:
        # the ONNX exporter decomposes a mask with gradients into operators of another layout
        out = out.clone(memory_format=torch.contiguous_format)
    return out[..., :width]


def checked_grid(grid: Sequence[int], axes: int | None = None) -> tuple[int, ...]:
    """The sizes of a grid as a tuple, of so many axes if they are known."""
    whole = isinstance(grid, Sequence) and all(isinstance(size, Integral) and size >= 1 for size in grid)
    if not whole or len(grid) != (axes or len(grid) or 1):
        sizes = "sizes" if axes is None else f"axes={axes} sizes"
        raise InputError(f"grid={grid} must hold {sizes} of at least 1, as in grid={(14,) * (axes or 2)}.")
    return tuple(grid)


def check_positions(positions: Tensor, like: Tensor, axes: int) -> None:
    """Refuse positions other than [M, axes] or [B, M, axes] for ``like`` [B, ..., N, c] with M <= N."""
    batch, tokens = like.shape[0], like.shape[-2]
    if positions.dim() not in (2, 3) or positions.shape[-1] != axes:
        raise InputError(
            f"positions have shape {tuple(positions.shape)}: this encoding needs"
            f" [tokens, {axes}] or [batch, tokens, {axes}]."
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


_constants: dict[tuple, Tensor] = {}


def constant(make: Callable[..., Tensor], *args: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
    """``make(*args, device=device, dtype=dtype)``, computed once: never change the result in place.

    For tensors that depend on nothing but sizes. A buffer would be rounded by ``model.bfloat16()``. The
    tensor is made outside inference mode, so that a later training step may save it for its backward
    pass; a traced graph makes its own.
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


_integral: WeakIdKeyDictionary = WeakIdKeyDictionary()
_spans: WeakIdKeyDictionary = WeakIdKeyDictionary()


def are_integers(positions: Tensor) -> bool:
    """Whether every position is a whole number.

    On an accelerator the answer costs a synchronization, so it is remembered for as long as the tensor
    lives unchanged: the layers of a model, and its later batches, ask again for nothing. (Changes of an
    inference tensor go unseen.) On the meta device, and while a graph is being traced or captured, the values
    are not known, and the answer is True.
    """
    if not positions.is_floating_point() or torch.compiler.is_compiling() or positions.is_meta:
        return True
    if positions.device.type == "cpu":
        return torch.equal(positions, positions.round())
    return _remembered(_integral, positions, lambda: torch.equal(positions, positions.round()), True)


def spans(positions: Tensor) -> list[float] | None:
    """How far the positions [M, axes] or [B, M, axes] of an image lie apart at most, for each axis.

    Remembered as the answer of ``are_integers``, and None where that does not know the values.
    """
    if torch.compiler.is_compiling() or positions.is_meta or not positions.shape[-2] or not len(positions):
        return None

    def ask() -> list[float] | None:
        low, high = positions.detach().aminmax(dim=-2)
        try:
            return (high - low).reshape(-1, positions.shape[-1]).amax(0).tolist()
        except RuntimeError:  # a tracer's or vmap's stand-in
            return None

    return _remembered(_spans, positions, ask, None)


def _remembered(known: WeakIdKeyDictionary, positions: Tensor, ask: Callable[[], T], unknown: T) -> T:
    """The answer for a tensor that has not changed since; ``unknown`` while a graph is captured."""
    version = 0 if positions.is_inference() else positions._version
    answer = known.get(positions)
    if answer is None or answer[0] != version:
        if positions.is_cuda and torch.cuda.is_current_stream_capturing():
            return unknown
        answer = known[positions] = (version, ask())
    return answer[1]
