"""What users of other libraries rely on, asked of our encodings: values, conventions and properties.

timm and transformers are called. Values of the other peers were computed once, and stand in ``TYPED`` rounded
to six digits; their inputs are ``wave``. A docstring says where a convention differs from ours.

RET: rotary-embedding-torch 0.9.1 (lucidrains), rotary_embedding_torch/rotary_embedding_torch.py.
XT: x-transformers 2.31.10 (lucidrains), x_transformers/x_transformers.py.
GG: GoldenGateRoPE2d, jerryxio.ng/posts/nd-rope.
RV: rope-vit (naver-ai), models/vit_rope.py, commit 04a2ad8.
HF: transformers. test_oracles.py compares more of its modules, and timm's.
"""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import pytest
import torch
from timm.layers import pos_embed_sincos as timms
from torch import Tensor
from torch.testing import assert_close

from rollpe.encodings import Encoding, create_encoding, grid_positions, jitter
from rollpe.encodings.frequencies import axial, geometric, golden_gate, ntk, sections
from rollpe.errors import InputError
from rollpe.formulas import alibi_slopes, rotation_angles

pytestmark = pytest.mark.filterwarnings("ignore:aliased offsets")

GRID = (3, 5)

TYPED = {
    name.strip(): torch.tensor([float(number) for number in numbers.split()])
    for name, numbers in (
        line.split(":")
        for line in """
RET              : 0.648732 -0.756289 0.450729 1.100181 0.418954 -0.539459 -0.998893 -0.534832
XT partial       : -0.541203 -0.836616 0.589547 1.032468 0.408082 -0.547729 -0.999961 -0.532833
XT rescaled      : 0.441456 -0.893277 0.387771 1.123917 0.428396 -0.531991 -0.997006 -0.538342
RET axial        : 0.470469 -1.094671 -0.405516 0.551086 -0.893756 0.690544 -0.412246 -1.00078
RET pixel        : 0.666938 0.987339 0.399986 -0.555113 -0.999843 -0.525322 0.432177 0.992336
RV axial         : 1.175329 -0.195567 -0.502296 0.464583 0.098174 1.125172 -0.330951 -1.030524
RET xpos scores 4: -0.016123 -0.169145 1.056437 -2.164948
RET xpos scores 5: -0.83902 0.298108 0.782495 -1.46464 0.806214
RET xpos query 4 : -0.704401 -0.56974 0.142787 -0.676264
RET xpos query 5 : 0.223283 0.483539 0.497307 0.813265
XT alibi 0       : -0.25 -0.1875 -0.125 0 -0.015625 -0.011719 -0.007812 0 -1 -0.75 -0.5 0
GG angles        : 0.56 -1.77194 -2.45962 0.643789 -0.953945 -5.603
XT alibi 1       : -0.375 -0.25 -0.125 0 -0.023438 -0.015625 -0.007812 0 -1.5 -1 -0.5 0
""".strip().splitlines()
    )
}


def wave(*shape: int) -> Tensor:
    """cos 0, cos 1, cos 2, … in a shape."""
    return torch.arange(math.prod(shape), dtype=torch.float64).cos().view(shape).float()


def near(found: Tensor, expected: Tensor) -> None:
    assert_close(found, expected, atol=1e-5, rtol=0)


def make(name: str, head_dim: int = 8, heads: int = 2, axes: int = 1, **options: object) -> Encoding:
    torch.manual_seed(0)
    grid = GRID if axes == 2 else None
    return create_encoding(name, head_dim=head_dim, heads=heads, axes=axes, grid=grid, **options)


def places(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32)[:, None]


def pixels(*sizes: int) -> Tensor:
    """A grid whose axes are measured from -1 to 1."""
    return torch.cartesian_prod(*(torch.linspace(-1, 1, size) for size in sizes))


def hf(model: str) -> ModuleType:
    pytest.importorskip("transformers")
    return importlib.import_module(f"transformers.models.{model}.modeling_{model}")


# Rotation of a sequence


@pytest.mark.parametrize(
    ("case", "positions", "options"),
    [
        ("RET", places(0, 1, 2), {}),
        ("XT partial", places(0, 2, 7), {"frequencies": geometric(2)}),
        ("XT rescaled", places(0, 2, 7), {"frequencies": ntk(geometric(4, 500.0), 3.0) / 4}),
        ("RET axial", grid_positions(2, 3), {"base": 1e4}),
        ("RET pixel", pixels(2, 3), {"frequencies": (math.pi, 5 * math.pi)}),
        ("RV axial", grid_positions(2, 3).flip(-1), {}),
    ],
)
def test_rotated_queries_have_the_values_of_peers(case: str, positions: Tensor, options: dict) -> None:
    """The last token of wave(1, 1, tokens, 8).

    RET's rotate_queries_or_keys, XT's apply_rotary_pos_emb: RotaryEmbedding(4) rotates two pairs;
    "XT rescaled" has base=500, interpolation_factor=4, by which the table is divided, and
    base_rescale_factor=3, which is ``factor`` of ``ntk``.

    RET's get_axial_freqs(2, 3) of RotaryEmbedding(4) has rows first, as ours; "pixel" measures axes from -1
    to 1. RV's compute_axial_cis(8, end_x=3, end_y=2) gives columns the first half of the channels.
    """
    axes, x = positions.shape[1], wave(1, 1, len(positions), 8)
    found = make("rope" if axes == 1 else "axial-rope", heads=1, axes=axes, **options).encode(x, positions)
    near(found[0, 0, -1], TYPED[case])
    assert "partial" not in case or torch.equal(found[..., 4:], x[..., 4:]), "left alone exactly"


@pytest.mark.parametrize("tokens", [4, 5])
def test_xpos_has_lucidrains_scores(tokens: int) -> None:
    """RET's rotate_queries_and_keys with xpos_scale_base=4, last token; XT with scale_base=4 equals it.

    They count the decay from the middle, N // 2, and we from position 0: a factor that scores do not have.
    """
    moved_q, moved_k = make("xpos", 4, 1, span=4.0)(*wave(2, 1, 1, tokens, 4), grid_positions(tokens))
    near((moved_q @ moved_k.mT)[0, 0, -1], TYPED[f"RET xpos scores {tokens}"])
    zeta = torch.tensor([0.4, 0.4, 0.9, 0.9]) / 1.4  # (2i + 0.4 d)/(1.4 d)
    near(moved_q[0, 0, -1] * zeta ** (-(tokens // 2) / 4), TYPED[f"RET xpos query {tokens}"])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_bfloat16_is_rotated_in_float32_and_rounded_once(layout: str) -> None:
    """As RET, RV (``xq.float()``) and timm (apply_rot_embed); HF's Llama rounds its table first."""
    ours, positions, x = make("rope", layout=layout), grid_positions(64) + 1000, wave(1, 2, 64, 8).bfloat16()
    assert torch.equal(ours.encode(x, positions), ours.encode(x.float(), positions).bfloat16())


# Rotation of an image


@pytest.mark.parametrize(
    ("arguments", "positions"),
    [
        ({"grid_offset": 0.5}, grid_positions(*GRID) + 0.5),
        ({"ref_feat_shape": (14, 7)}, grid_positions(*GRID) * torch.tensor([14 / 3, 7 / 5])),
        ({"grid_indexing": "xy"}, grid_positions(*GRID).flip(-1)),
        ({"in_pixels": True, "max_res": 6, "linear_bands": True}, pixels(*GRID)),
        ({"rotate_half": True}, grid_positions(*GRID)),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_timms_arguments_are_positions_of_ours(arguments: dict, positions: Tensor) -> None:
    """tests/test_layers_pos_embed.py of timm, _GRID_CASES, for RotaryEmbeddingCat.

    rotate_half pairs channel i with i + d/2 over both axes; ours has pairs side by side. Bands of pixels are
    ``frequencies``.
    """
    settings = {"in_pixels": False, "temperature": 100.0, "feat_shape": GRID} | arguments
    half, x = "rotate_half" in arguments, wave(1, 2, 15, 16)
    expected = timms.apply_rot_embed_cat(x, timms.RotaryEmbeddingCat(16, **settings).get_embed(), half=half)
    order = [c for i in range(8) for c in (i, i + 8)] if half else list(range(16))
    bands = tuple(math.pi * n / 3 for n in (3, 5, 7, 9))  # from π to π·max_res/2
    options = {"frequencies": bands} if "in_pixels" in arguments else {}
    near(make("axial-rope", 16, axes=2, **options).encode(x[..., order], positions), expected[..., order])


@pytest.mark.parametrize("order", ["ij", "xy"])
def test_dropped_patches_take_their_rows_of_timms_mixed_table(order: str) -> None:
    """RotaryEmbeddingMixed and apply_keep_indices_nlc; with "xy" their first frequency is of columns."""
    theirs = timms.RotaryEmbeddingMixed(16, 1, 2, feat_shape=GRID, grid_indexing=order).requires_grad_(False)
    keep, x = torch.tensor([[0, 7, 3, 14], [9, 2, 1, 5]]), wave(2, 2, 4, 8)
    table = timms.apply_keep_indices_nlc(x, theirs.get_embed()[0], keep)
    ours, frequencies = make("mixed-rope", axes=2).requires_grad_(False), theirs.freqs[:, 0].transpose(0, 1)
    ours.frequencies.copy_(frequencies if order == "ij" else frequencies.flip(1))
    near(ours.encode(x, grid_positions(*GRID)[keep]), timms.apply_rot_embed_cat(x, table))


# Sines and cosines added to tokens


def code(positions: Tensor, channels: int, **options: object) -> Tensor:
    """What "sinusoidal" adds to tokens, in its order: [M, axes, pairs, (sine, cosine)]."""
    axes = positions.shape[-1]
    ours = create_encoding("sinusoidal", head_dim=channels, heads=1, axes=axes, **options)
    return ours.add(torch.zeros(1, len(positions), channels), positions)[0].unflatten(1, (axes, -1, 2))


def test_waves_of_a_sequence_are_distilberts() -> None:
    hf("distilbert").create_sinusoidal_embeddings(9, 12, expected := torch.empty(9, 12))
    near(code(grid_positions(9), 12).flatten(1), expected)


@pytest.mark.parametrize(("base", "reverse"), [(1e4, False), (100.0, True)])
def test_waves_of_an_image_are_timms(base: float, reverse: bool) -> None:
    """build_sincos2d_pos_embed has the sines of both axes first; reversed, its tokens run by columns."""
    expected = timms.build_sincos2d_pos_embed(list(GRID), dim=12, temperature=base, reverse_coord=reverse)
    found = code(grid_positions(*(GRID[::-1] if reverse else GRID)), 12, base=base)
    near(found.movedim(-1, 1).flatten(1), expected)


# Biases on scores


@pytest.mark.parametrize("heads", range(1, 17))
def test_alibis_slopes_are_mpts_for_any_number_of_heads(heads: int) -> None:
    """HF's build_mpt_alibi_tensor, whose bias is 0 for the last key and -slope for the one before."""
    assert_close(alibi_slopes(heads).float(), -hf("mpt").build_mpt_alibi_tensor(heads, 2)[:, 0, 0])


def test_alibi_takes_positions_that_skip_and_differ_by_text() -> None:
    """XT's test_custom_alibi, its positions: AlibiPositionalBias(3).forward_custom_pos, last query."""
    positions, q = torch.tensor([[0.0, 1, 2, 4], [1, 3, 5, 7]])[..., None], torch.zeros(2, 3, 4, 8)
    found = make("alibi", heads=3).mask(q, q, positions)[:, :, -1].flatten(1)
    near(found, torch.stack([TYPED["XT alibi 0"], TYPED["XT alibi 1"]]))


@pytest.mark.parametrize("decoder", [False, True])
def test_t5s_bias_with_a_cache_is_that_of_the_tokens_after_it(decoder: bool) -> None:
    """HF's T5Attention.compute_bias(2, 7, past_seen_tokens=5), [1, heads, queries, keys]."""
    t5 = hf("t5")
    config = t5.T5Config(d_model=16, num_heads=2, d_kv=8, is_decoder=decoder)
    theirs = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).requires_grad_(False)
    ours = make("t5-bias", bidirectional=not decoder).requires_grad_(False)
    ours.table[0].copy_(theirs.relative_attention_bias.weight.T)
    found = ours.mask(wave(1, 2, 2, 8), wave(1, 2, 7, 8), places(5, 6), grid_positions(7))
    assert_close(found, theirs.compute_bias(2, 7, past_seen_tokens=5))


# Attention: groups, padding, caches and kernels


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("padded", [0, 2])
def test_attention_of_a_padded_batch_with_grouped_keys_is_llamas(implementation: str, padded: int) -> None:
    """HF's LlamaAttention; positions count from the first token that is no padding, as in its generate."""
    llama = hf("llama")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = llama.LlamaConfig(**sizes, attn_implementation=implementation)
    theirs, x, keep = llama.LlamaAttention(config, 0).eval(), wave(2, 6, 32), torch.ones(2, 6).bool()
    keep[1, :padded] = False
    positions = (keep.cumsum(-1) - 1).masked_fill(~keep, 1)
    visible = (keep[:, None, None] & torch.ones(6, 6).tril().bool()) | torch.eye(6).bool()
    bias = torch.zeros(2, 1, 6, 6).masked_fill(~visible, torch.finfo(torch.float32).min)
    expected, _ = theirs(x, llama.LlamaRotaryEmbedding(config)(x, positions), bias)
    projections = theirs.q_proj, theirs.k_proj, theirs.v_proj
    q, k, v = (project(x).unflatten(-1, (-1, 8)).transpose(1, 2) for project in projections)
    ours, masks = make("rope", heads=4, layout="half"), {"attn_mask": keep[:, None, None], "is_causal": True}
    out = ours.attend(q, k, v, positions[..., None], **masks).transpose(1, 2).flatten(2)
    near(theirs.o_proj(out)[keep], expected[keep])


# Images and video


VIDEO = [("qwen2_vl", (2, 3, 3)), ("qwen3_vl", (4, 2, 2)), ("qwen3_vl", (3, 3, 2))]


@pytest.mark.parametrize(("model", "shares"), VIDEO)
def test_sections_are_the_multimodal_rotation_of_qwen(model: str, shares: tuple[int, ...]) -> None:
    """Qwen2VLRotaryEmbedding, and Qwen3VLTextRotaryEmbedding, interleaved; (time, row, column)."""
    peer = hf(model)
    settings = {"hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16}
    rope = {"rope_type": "default", "rope_theta": 500.0, "mrope_section": list(shares)}
    kind, name = {
        "qwen2_vl": ("Qwen2VLTextConfig", "Qwen2VLRotaryEmbedding"),
        "qwen3_vl": ("Qwen3VLTextConfig", "Qwen3VLTextRotaryEmbedding"),
    }[model]
    configuration = importlib.import_module(f"transformers.models.{model}.configuration_{model}")
    config = getattr(configuration, kind)(**settings, rope_parameters=rope)
    positions = torch.randint(0, 40, (2, 9, 3), generator=torch.Generator().manual_seed(0))
    q, k = wave(2, 2, 3, 9, 16)
    expected = peer.apply_rotary_pos_emb(q, k, *getattr(peer, name)(config)(q, positions.movedim(-1, 0)))
    table = sections(geometric(8, 500.0), shares, interleaved=model == "qwen3_vl")
    ours = make("rope", 16, 3, axes=3, frequencies=table, layout="half")
    for found, wanted in zip(ours(q, k, positions), expected, strict=True):
        assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_axial_halves_are_the_rotation_of_dinov3() -> None:
    """DINOv3ViTRopePositionEmbedding: 2π times centers of patches, from -1 to 1; after a class token."""
    peer = hf("dinov3_vit")
    config = peer.DINOv3ViTConfig(hidden_size=48, num_attention_heads=3, image_size=48, patch_size=16)
    q, k = wave(2, 2, 3, 7, 16)
    expected = peer.apply_rotary_pos_emb(
        q, k, *peer.DINOv3ViTRopePositionEmbedding(config).eval()(wave(1, 3, 32, 48))
    )
    centers = peer.get_patches_center_coordinates(2, 3, dtype=torch.float32, device="cpu")
    theta = 2 * math.pi * geometric(4, 100.0)
    ours = make("rope", 16, 3, axes=2, frequencies=axial(theta, theta), layout="half")
    for found, wanted in zip(ours(q, k, centers), expected, strict=True):
        assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [{"shift": 0.5}, {"jitter": 1.5}, {"rescale": 2.0}, {"shift": 0.5, "jitter": 1.5, "rescale": 2.0}],
)
def test_jitter_is_the_augmentation_of_dinov3(settings: dict[str, float]) -> None:
    """augment_patches_center_coordinates, by the same random numbers."""
    torch.manual_seed(3)
    expected = hf("dinov3_vit").augment_patches_center_coordinates(pixels(3, 5), **settings)
    torch.manual_seed(3)
    ours = {"scale" if key == "jitter" else key: value for key, value in settings.items()}
    assert_close(jitter(pixels(3, 5), **ours), expected)


def test_jitter_without_settings_leaves_positions_and_refuses_what_it_cannot_draw() -> None:
    assert torch.equal(jitter(pixels(3, 5)), pixels(3, 5))
    drawn = [
        jitter(torch.arange(4)[:, None], shift=1.0, generator=torch.Generator().manual_seed(7)) for _ in "ab"
    ]
    assert torch.equal(*drawn) and not torch.equal(drawn[0], torch.arange(4.0)[:, None])
    for wrong in ({"shift": -1.0}, {"scale": 0.5}, {"rescale": math.nan}):
        with pytest.raises(InputError, match="must be 0 or more"):
            jitter(pixels(3, 5), **wrong)


def test_directions_of_the_golden_gate_are_those_of_its_author() -> None:
    """GoldenGateRoPE2d: two heads at x = 0.7, y = -0.4, three pairs with speeds from 0.8 to 10."""
    table = golden_gate(2, 3, 0.8, 10.0)  # (row, column) = (y, x)
    near(
        rotation_angles(torch.tensor([[-0.4, 0.7]]).double(), table)[:, 0].flatten().float(),
        TYPED["GG angles"],
    )
