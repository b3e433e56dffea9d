"""A causal language model of the same parts as our vision transformer."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from rollpe.encodings import Encoding, grid_positions, no_weight_decay
from rollpe.encodings.attention import Attention, Cache, install_encodings
from rollpe.encodings.positions import constant
from rollpe.errors import check_whole
from rollpe.vit import Block, check_shares, checked_size, timm_vit


class Decoder(nn.Module):
    """Tokens to the logits of the next token: embedding, causal pre-norm blocks, norm, linear head.

    Build it with ``create_decoder``. One token encoding, ``token_encoding``, acts before the first block, or
    before each if it says so (``every_block``); every block owns a score encoding of its own. Positions count
    0, 1, 2, … from the first token of a window. A window longer than those of training has positions that
    none of them had: a learned table repeats its last vector there, and a ring of n channels takes offset Δ
    for Δ mod n.

    Args:
        encoding: a name for ``create_encoding``; ``encoding_options`` its options.
        context: tokens of a training window, the grid that encodings are built for.
        classes: number of different tokens.
        block: settings of timm's blocks; see ``create_decoder`` for all others.
    """

    causal = True
    warned = False
    token_encoding: Encoding

    def __init__(
        self,
        encoding: str,
        encoding_options: dict[str, Any],
        *,
        context: int,
        classes: int,
        width: int,
        depth: int,
        heads: int,
        dropout: float,
        drop_path: float,
        block: dict[str, Any],
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(classes, width)
        self.embed_drop = nn.Dropout(dropout)
        rates = [drop_path * layer / max(depth - 1, 1) for layer in range(depth)]
        self.blocks = nn.ModuleList(
            [Block(width, heads, drop_path=rate, proj_drop=dropout, **block) for rate in rates]
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        shape: dict[str, Any] = {"heads": heads, "head_dim": width // heads, "axes": 1, "grid": (context,)}
        with warnings.catch_warnings(action="ignore"):
            install_encodings(self, encoding, encoding_options, **shape)
        for attention in self.attentions:
            cast(Any, attention.encoding).warned = True
        self._warn_of_short_rings(context)
        timm_vit.named_apply(partial(timm_vit.init_weights_vit_timm, needs_reset=False), self)
        nn.init.trunc_normal_(self.embed.weight, std=0.02)

    def _warn_of_short_rings(self, tokens: int) -> None:
        """Once, in place of the encodings' own warning, which is about offsets in both directions.

        A causal model has offsets of one sign, of which a ring of n channels tells n apart.
        """
        for period in getattr(self.attentions[0].encoding, "periods", ()):
            if not torch.compiler.is_compiling() and not self.warned and period < tokens:
                self.warned = True
                warnings.warn(
                    f"aliased offsets: a ring of period {period:g} takes offset {period:g} for 0; windows of"
                    f" {tokens} tokens need a ring of {tokens}.",
                    stacklevel=4,
                )

    @property
    def attentions(self) -> list[Attention]:
        """The attention of each block, first to last; ``attentions[i].encoding`` is its encoding."""
        return [cast(Block, block).attn for block in self.blocks]

    def no_weight_decay(self) -> set[str]:
        """Full names of the parameters without weight decay, beside biases and norms."""
        return {"embed.weight"} | no_weight_decay(self)

    def grid_of(self, tokens: Tensor) -> tuple[int]:
        """The number of tokens [B, N], as the sizes of their grid."""
        return (tokens.shape[1],)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens int64 [B, N] to the logits of each one's successor, [B, N, classes]."""
        grid = self.grid_of(tokens)
        positions = constant(grid_positions, *grid, device=tokens.device, dtype=torch.float32)
        x = self.embed_drop(self.token_encoding.add(self.embed(tokens), positions))
        encodings = [attention.encoding for attention in self.attentions]
        precomputed = type(encodings[0]).precompute_layers(encodings, positions, x, grid)
        for i, (block, places) in enumerate(zip(self.blocks, precomputed, strict=True)):
            if i and self.token_encoding.every_block:
                x = self.token_encoding.add(x, positions)
            x = block(x, places, is_causal=True)
        return self.head(self.norm(x))

    @torch.no_grad()
    def extend(self, tokens: Tensor, caches: list[Cache]) -> Tensor:
        """``forward`` of tokens [B, Q] that follow those in the caches, one a block; the caches grow by them.

        Returns the logits of these tokens' successors, [B, Q, classes]: the last Q of ``forward`` on all
        tokens, to rounding. Empty caches, ``[None] * depth``, begin a text.
        """
        start = 0 if caches[0] is None else caches[0][0].shape[-2]
        self._warn_of_short_rings(start + tokens.shape[1])
        positions = grid_positions(start + tokens.shape[1], device=tokens.device)
        x = self.token_encoding.add(self.embed(tokens), positions[start:])
        for layer, block in enumerate(self.blocks):
            if layer and self.token_encoding.every_block:
                x = self.token_encoding.add(x, positions[start:])
            x, caches[layer] = cast(Block, block).extend(x, positions, caches[layer])
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(self, tokens: Tensor, length: int, generator: torch.Generator | None = None) -> Tensor:
        """Tokens [B, N] with ``length`` more, [B, N + length], each drawn as the model predicts it.

        Without dropout; the model is in training mode afterwards if it was before.
        """
        training = self.training
        self.eval()
        try:
            caches: list[Cache] = [None] * len(self.blocks)
            logits = self.extend(tokens, caches)
            for _ in range(length):
                drawn = torch.multinomial(logits[:, -1].softmax(-1), 1, generator=generator)
                tokens = torch.cat((tokens, drawn), 1)
                logits = self.extend(drawn, caches)
        finally:
            self.train(training)
        return tokens


def create_decoder(
    encoding: str = "roll",
    *,
    context: int,
    classes: int,
    size: str = "small",
    width: int | None = None,
    depth: int | None = None,
    heads: int | None = None,
    dropout: float = 0.0,
    drop_path: float = 0.0,
    layer_scale: float | None = None,
    qkv_bias: bool = True,
    encoding_options: dict[str, Any] | None = None,
) -> Decoder:
    """Build a causal language model with a positional encoding.

    Args:
        encoding: see ``rollpe.encodings.create_encoding``; ``encoding_options`` are its options. Encodings of
            two axes alone, such as "mixed-rope", are refused.
        context: tokens of a training window; longer and shorter ones run as well.
        classes: number of different tokens.
        size, width, depth, heads, dropout, drop_path, layer_scale, qkv_bias: see ``rollpe.vit.create_vit``.

    Raises:
        InputError: a value that does not fit, named with what is allowed.
    """
    base = checked_size(size, width, depth, heads, layer_scale)
    check_whole(1, context=context, classes=classes)
    check_shares(dropout=dropout, drop_path=drop_path)
    return Decoder(
        encoding,
        encoding_options or {},
        context=context,
        classes=classes,
        **base._asdict(),
        dropout=dropout,
        drop_path=drop_path,
        block={"qkv_bias": qkv_bias, "init_values": layer_scale, "mlp_ratio": 4.0},
    )
