"""timm's VisionTransformer with our attention inside.

Patch embedding, initialization, MLP, norms, stochastic depth and head are timm's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rollpe.encodings import Encoding, grid_positions, no_weight_decay
from rollpe.encodings.attention import Attention, Cache, install_encodings
from rollpe.encodings.base import PositionTables
from rollpe.encodings.positions import constant
from rollpe.errors import InputError, check_choice, check_whole

try:
    import timm.models.vision_transformer as timm_vit
    from timm.layers.pos_embed_sincos import RotaryEmbeddingCat, RotaryEmbeddingMixed
    from timm.models.eva import EvaBlock
except ModuleNotFoundError as error:  # the library is installed alone, for its encodings
    raise ModuleNotFoundError(
        f'{error.name} is not installed. Repair: pip install "rollpe[train]".', name=error.name
    ) from None


class Size(NamedTuple):
    width: int
    depth: int
    heads: int


SIZES = {
    "nano": Size(96, 5, 3),
    "tiny": Size(192, 12, 3),
    "small": Size(384, 12, 6),
    "base": Size(768, 12, 12),
}


class Block(timm_vit.Block):
    """timm's pre-norm block; its attention also receives positions."""

    attn: Attention

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "attn_layer": Attention})

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        positions: Tensor | PositionTables,
        read: int | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """x [B, N, dim] to [B, N or read, dim]; see Attention."""
        attended = self.attn(self.norm1(x), positions, is_causal, read=read)
        return self._after(x[:, :read], attended)

    def extend(self, x: Tensor, positions: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """``forward`` of tokens that follow those in a cache; see ``Attention.extend``."""
        attended, cache = self.attn.extend(self.norm1(x), positions, cache)
        return self._after(x, attended), cache

    def _after(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.drop_path1(self.ls1(attended))
        return x + self.drop_path2(self.ls2(self.mlp(self.norm2(x))))


class VisionTransformer(timm_vit.VisionTransformer):
    """timm's VisionTransformer with an encoding in place of its position table.

    Build it with ``create_vit``. One token encoding, ``token_encoding``, acts before the first block, or
    before each if it says so (``every_block``); every block owns a score encoding of its own,
    ``blocks[i].attn.encoding``.

    The class token and the registers have no position. Under a rotary or rolled encoding their scores with
    patches therefore depend on where a patch is, however relative the scores between patches are. Under a
    bias on scores they have none, and the last block's biases reach the output only if ``pool="avg"``.

    Args:
        encoding: a name for ``create_encoding``; ``encoding_options`` its options.
        settings: arguments of timm's class, except those of positions, blocks and patch dropout.
    """

    causal = False
    encoding_names: tuple[str, str]
    token_encoding: Encoding

    def __init__(self, encoding: str = "none", encoding_options: dict | None = None, **settings: Any) -> None:
        settings["class_token"] = settings.get("global_pool", "token") == "token"
        super().__init__(
            **settings,
            pos_embed="none",
            dynamic_img_size=True,
            block_fn=Block,
            patch_drop_rate=0.0,  # it would leave out patches and keep their positions
            weight_init="skip",
        )
        install_encodings(
            self,
            encoding,
            encoding_options,
            heads=settings["num_heads"],
            head_dim=self.embed_dim // settings["num_heads"],
            axes=2,
            grid=self.patch_embed.grid_size,
        )
        self.weight_init_mode = ""
        self.init_weights(needs_reset=False)

    def no_weight_decay(self) -> set[str]:
        """Full names of the parameters without weight decay, beside biases and norms."""
        tokens = {"cls_token", "reg_token"} & {name for name, _ in self.named_parameters()}
        return tokens | no_weight_decay(self)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """As torch's, but refuses weights of timm's rotary models: ``strict=False`` would load a part."""
        if {"rope.freqs", "blocks.0.gamma_1"} & state_dict.keys():
            raise InputError(
                "these weights are of a rotary model of timm's, which counts columns first: convert the"
                " model, rollpe.vit.from_timm(model)."
            )
        return super().load_state_dict(state_dict, *args, **kwargs)

    @property
    def attentions(self) -> list[Attention]:
        """The attention of each block, first to last; ``attentions[i].encoding`` is its encoding."""
        return [cast(Block, block).attn for block in self.blocks]

    def grid_of(self, images: Tensor) -> tuple[int, int]:
        """Tokens along height and width of images [B, channels, H, W]."""
        high, wide = self.patch_embed.patch_size
        height, width = images.shape[-2:]
        if height % high or width % wide:
            raise InputError(
                f"an image of {height}×{width} pixels cannot be cut into patches of"
                f" {high}×{wide}: both sides must divide."
            )
        return height // high, width // wide

    def embed(self, images: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Images to the tokens and positions that enter the first block.

        Args:
            images: [B, channels, H, W].
            positions: [M, 2] or [B, M, 2], one for each patch; the grid of this image by default.

        Returns:
            tokens [B, N, dim] and positions, those given or [M, 2].
        """
        grid = self.grid_of(images)
        count = grid[0] * grid[1]
        if positions is not None and positions.shape[-2] != count:
            raise InputError(f"{positions.shape[-2]} positions for {count} patches: give one to each patch.")
        x = self._pos_embed(self.patch_embed(images))
        if positions is None:
            positions = constant(grid_positions, *grid, device=images.device, dtype=torch.float32)
            x = self.token_encoding.add(x, positions, grid)
        else:
            x = self.token_encoding.add(x, positions)
        return self.norm_pre(self.pos_drop(x)), positions

    def forward_features(  # type: ignore[override]
        self, images: Tensor, positions: Tensor | None = None
    ) -> Tensor:
        """Images [B, channels, H, W] to tokens [B, N, dim]. See ``embed`` for positions.

        They are normalized, except for ``pool="avg"``: ``forward_head`` normalizes their mean, as in timm.
        """
        return self._features(images, positions)

    def _features(self, images: Tensor, positions: Tensor | None, read: int | None = None) -> Tensor:
        """``forward_features``; the last block computes only the first ``read`` tokens."""
        grid = self.grid_of(images) if positions is None else None
        x, positions = self.embed(images, positions)
        encodings = [attention.encoding for attention in self.attentions]
        precomputed = type(encodings[0]).precompute_layers(encodings, positions, x, grid)
        for i, block in enumerate(self.blocks):
            if i and self.token_encoding.every_block:
                x = self.token_encoding.add(x, positions, grid)
            call = (x, precomputed[i], read if i == len(self.blocks) - 1 else None)
            if self.grad_checkpointing and torch.is_grad_enabled():
                x = checkpoint(block, *call, use_reentrant=False)
            else:
                x = block(*call)
        return self.norm(x)

    def forward(  # type: ignore[override]
        self, images: Tensor, positions: Tensor | None = None
    ) -> Tensor:
        """Images [B, channels, H, W] to logits [B, classes], or [B, N, classes]. See ``embed`` for positions.

        For a head that reads the class token alone, the last block computes only this token: the logits
        equal ``forward_head(forward_features(images))`` to rounding, with 3/4 of a block less work.
        """
        read = 1 if self.global_pool == "token" else None
        return self.forward_head(self._features(images, positions, read))


def create_vit(
    encoding: str = "roll",
    *,
    image_size: int | tuple[int, int] = (32, 32),
    patch_size: int = 4,
    classes: int = 100,
    size: str = "small",
    channels: int = 3,
    width: int | None = None,
    depth: int | None = None,
    heads: int | None = None,
    pool: str = "token",
    registers: int = 0,
    dropout: float = 0.0,
    drop_path: float = 0.0,
    layer_scale: float | None = None,
    qkv_bias: bool = True,
    encoding_options: dict[str, Any] | None = None,
) -> VisionTransformer:
    """Build a vision transformer with a positional encoding.

    Args:
        encoding: see ``rollpe.encodings.create_encoding``; ``encoding_options`` are its options.
        image_size: pixels, one number or (height, width); other sizes still run.
        patch_size: pixels along each side of a patch; must divide both sides of the image.
        classes: length of the output; 0 for a model without its last layer.
        size: one of ``SIZES``; ``width``, ``depth`` and ``heads`` replace its numbers.
        channels: of the images.
        pool: "token" reads the class token; "avg" has no class token and averages the patches; "patches" has
            none either and gives each its logits, [B, N, classes].
        registers: extra tokens without position.
        dropout: after the embedding, each attention and both layers of each MLP.
        drop_path: stochastic depth of the last block, growing linearly from 0 at the first.
        layer_scale: initial value of LayerScale, or None for none.
        qkv_bias: biases on queries, keys and values.

    Raises:
        InputError: a value that does not fit, named with what is allowed.
    """
    check_choice("pool", pool, ("token", "avg", "patches"))
    base = checked_size(size, width, depth, heads, layer_scale)
    check_whole(1, patch_size=patch_size, channels=channels)
    check_whole(0, classes=classes, registers=registers)
    check_shares(dropout=dropout, drop_path=drop_path)
    sides = image_size if isinstance(image_size, tuple | list) else (image_size, image_size)
    if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise InputError(f"image_size={image_size!r} must be one number or (height, width), in pixels.")
    height, wide = sides
    if height % patch_size or wide % patch_size or min(height, wide) < 1:
        raise InputError(
            f"image_size=({height}, {wide}) cannot be cut into patches of patch_size={patch_size}:"
            " both sides must divide."
        )
    return VisionTransformer(
        encoding,
        encoding_options,
        img_size=(height, wide),
        patch_size=patch_size,
        in_chans=channels,
        num_classes=classes,
        embed_dim=base.width,
        depth=base.depth,
        num_heads=base.heads,
        global_pool=pool if pool != "patches" else "",
        reg_tokens=registers,
        proj_drop_rate=dropout,
        pos_drop_rate=dropout,
        drop_path_rate=drop_path,
        init_values=layer_scale,
        qkv_bias=qkv_bias,
    )


def checked_size(
    size: str, width: int | None, depth: int | None, heads: int | None, layer_scale: float | None
) -> Size:
    """The numbers of a size, each replaced by one that is given; InputError for a value that does not fit."""
    check_choice("size", size, SIZES)
    given = {"width": width, "depth": depth, "heads": heads}
    wanted = SIZES[size]._replace(**{label: value for label, value in given.items() if value is not None})
    check_whole(1, **wanted._asdict())
    if wanted.width % wanted.heads:
        raise InputError(f"width={wanted.width} does not divide into heads={wanted.heads} of equal size.")
    if layer_scale is not None and not 0 < layer_scale < math.inf:
        raise InputError(f"layer_scale={layer_scale!r} must be above 0, or None for no LayerScale.")
    return wanted


def check_shares(**values: float) -> None:
    """Refuse values outside of the numbers from 0 to below 1: InputError names the first."""
    for label, share in values.items():
        if not 0 <= share < 1:
            raise InputError(f"{label}={share!r} must be a number from 0 to below 1.")


def from_timm(model: Any) -> VisionTransformer:
    """Convert one of timm's rotary vision transformers, ``vit_*_patch16_rope_*``.

    The encoding is ``axial-rope`` or ``mixed-rope``, joined to ``learned`` if the model has a position table.
    timm's positions are (column, row), ours (row, column). Mixed frequencies are reordered; for
    ``axial-rope`` the rows of W_Q and W_K are exchanged, which changes no score. Keys without a bias get one
    of 0. Dropout is not copied.

    Raises:
        InputError: a model of another kind, such as EVA-02, DINOv3, the Perception Encoder or NaFlex.
    """
    architecture = (getattr(model, "pretrained_cfg", None) or {}).get("architecture", "a model")
    refusal = InputError(
        f"{architecture} ({type(model).__name__}) cannot be converted: from_timm takes timm's"
        " vit_*_patch16_rope_*, with a plain MLP, one qkv layer, norms before attention and MLP, class token"
        " or mean as the output, and positions 0, 1, 2, …"
    )
    rope: Any = getattr(model, "rope", None)
    known = isinstance(rope, RotaryEmbeddingCat | RotaryEmbeddingMixed) and type(model.blocks[0]) is EvaBlock
    if not known or model.global_pool not in ("token", "avg"):
        raise refusal
    mixed, state = isinstance(rope, RotaryEmbeddingMixed), model.state_dict()
    for name in [name for name in state if name.endswith("attn.q_bias")]:
        q, v = (state.pop(name.replace("q_bias", part)) for part in ("q_bias", "v_bias"))
        state[name.replace("q_bias", "qkv.bias")] = torch.cat((q, torch.zeros_like(q), v))
    grid, weight = model.patch_embed.grid_size, state["patch_embed.proj.weight"]
    name = "mixed-rope" if mixed else "axial-rope"
    ours = create_vit(
        name if model.pos_embed is None else f"learned+{name}",
        image_size=tuple(side * weight.shape[-1] for side in grid),
        patch_size=weight.shape[-1],
        classes=model.num_classes,
        channels=weight.shape[1],
        width=model.embed_dim,
        depth=len(model.blocks),
        heads=model.blocks[0].attn.num_heads,
        pool=model.global_pool,
        registers=model.num_prefix_tokens - (model.cls_token is not None),
        layer_scale=1.0 if "blocks.0.gamma_1" in state else None,
        qkv_bias="blocks.0.attn.qkv.bias" in state,
        encoding_options={} if mixed else {"base": float(rope.temperature)},
    ).to(weight)
    columns_first = rope.grid_indexing == "xy"
    try:
        ours.load_state_dict(_rows_first(state, model.blocks[0].attn.num_heads, columns_first))
    except RuntimeError:
        raise refusal from None
    places = grid_positions(*grid, device=weight.device)
    if columns_first and not mixed:  # our channels of rows are theirs of columns
        places = places.flip(-1)
    theirs = rope.get_embed(list(grid))  # sines, then cosines: [depth, heads, N, 2d] or [N, 2d]
    for attention, expected in zip(ours.attentions, theirs if mixed else [theirs], strict=mixed):
        cos, sin = attention.encoding.tables(places, weight.new_empty(1, 1, len(places), 1))
        turns = torch.cat((sin, cos), -1).repeat_interleave(2, -1).to(expected)
        if turns.shape[-2:] != expected.shape[-2:] or not torch.allclose(turns, expected, atol=1e-2):
            raise refusal
    return ours.train(model.training)


def _rows_first(state: dict[str, Tensor], heads: int, columns_first: bool) -> dict[str, Tensor]:
    """Weights of timm's rotary transformer under our names and in our order of axes."""
    frequencies = state.get("rope.freqs")  # [axes, depth, heads, pairs]
    moved = {}
    for name, value in state.items():
        if name == "pos_embed":
            moved["token_encoding.table"] = value[0]
        elif columns_first and frequencies is None and name.endswith(("attn.qkv.weight", "attn.qkv.bias")):
            q, k, v = value.chunk(3)
            halves = (heads, 2, -1)  # of a head: columns, then rows
            moved[name] = torch.cat([x.unflatten(0, halves).flip(1).flatten(0, 2) for x in (q, k)] + [v])
        elif name != "rope.freqs":
            moved[name.replace("gamma_1", "ls1.gamma").replace("gamma_2", "ls2.gamma")] = value
    if frequencies is not None:
        axes = frequencies.flip(0) if columns_first else frequencies
        for i, layer in enumerate(axes.unbind(1)):
            moved[f"blocks.{i}.attn.encoding.frequencies"] = layer.transpose(0, 1)
    return moved
