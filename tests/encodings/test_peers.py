"""What users of other libraries rely on, asked of our encodings: values, conventions and properties.

timm and transformers are called. Values of the other peers were computed once, and stand in ``TYPED`` rounded
to six digits; their inputs are ``wave``. A docstring says where a convention differs from ours.

RET: rotary-embedding-torch 0.9.1 (lucidrains), rotary_embedding_torch/rotary_embedding_torch.py.
XT: x-transformers 2.31.10 (lucidrains), x_transformers/x_transformers.py.
RV: rope-vit (naver-ai), models/vit_rope.py, commit 04a2ad8.
HF: transformers; its tests are cited by file. test_oracles.py compares more of its modules, and timm's.
"""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from timm.layers import pos_embed_sincos as timms
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing import assert_close

from rollpe.encodings import Encoding, create_encoding, grid_positions
from rollpe.textbook import alibi_slopes

pytestmark = pytest.mark.filterwarnings("ignore:aliased offsets")

SEQUENCES = ["rope", "xpos", "alibi", "t5-bias", "shaw", "roll"]
IMAGES = ["axial-rope", "mixed-rope", "uniform-rope", "spherical-rope", "roll", "lie"]
GRID = (3, 5)

TYPED = {
    name.strip(): torch.tensor([float(number) for number in numbers.split()])
    for name, numbers in (
        line.split(":")
        for line in """
RET              : 0.648732 -0.756289 0.450729 1.100181 0.418954 -0.539459 -0.998893 -0.534832
RET offset       : -0.541203 -0.836616 -0.131903 1.181591 0.445392 -0.517845 -0.996207 -0.53982
RET interpolate  : -0.708505 -0.700605 0.610077 1.020471 0.410816 -0.545682 -0.999694 -0.533333
RET theta_rescale: 0.648732 -0.756289 0.530843 1.063842 0.412417 -0.544473 -0.999694 -0.533333
RET partial      : 0.648732 -0.756289 0.640412 1.001712 0.408082 -0.547729 -0.999961 -0.532833
XT partial       : -0.541203 -0.836616 0.589547 1.032468 0.408082 -0.547729 -0.999961 -0.532833
XT rescaled      : 0.441456 -0.893277 0.387771 1.123917 0.428396 -0.531991 -0.997006 -0.538342
RET axial        : 0.470469 -1.094671 -0.405516 0.551086 -0.893756 0.690544 -0.412246 -1.00078
RET pixel        : 0.666938 0.987339 0.399986 -0.555113 -0.999843 -0.525322 0.432177 0.992336
RV axial         : 1.175329 -0.195567 -0.502296 0.464583 0.098174 1.125172 -0.330951 -1.030524
RV mixed 0       : 1.134555 -0.363908 -0.487883 0.479697 0.422284 -1.047533 -0.741959 0.788039
RV mixed 1       : 1.122023 0.009623 0.946826 -0.541347 0.012132 -0.702173 0.213878 1.19468
RET xpos scores 4: -0.016123 -0.169145 1.056437 -2.164948
RET xpos scores 5: -0.83902 0.298108 0.782495 -1.46464 0.806214
RET xpos query 4 : -0.704401 -0.56974 0.142787 -0.676264
RET xpos query 5 : 0.223283 0.483539 0.497307 0.813265
XT alibi 0       : -0.25 -0.1875 -0.125 0 -0.015625 -0.011719 -0.007812 0 -1 -0.75 -0.5 0
XT alibi 1       : -0.375 -0.25 -0.125 0 -0.023438 -0.015625 -0.007812 0 -1.5 -1 -0.5 0
HF default       : 1 2.7384e-1 7.4989e-2 2.0535e-2 5.6234e-3 1.5399e-3 4.2170e-4 1.1548e-4
HF linear        : 1e-1 2.7384e-2 7.4989e-3 2.0535e-3 5.6234e-4 1.5399e-4 4.2170e-5 1.1548e-5
HF dynamic       : 1 1.4895e-1 2.2185e-2 3.3045e-3 4.9220e-4 7.3312e-5 1.0920e-5 1.6265e-6
HF yarn          : 1 2.7384e-1 6.9590e-2 1.2403e-2 1.5746e-3 1.5399e-4 4.2170e-5 1.1548e-5
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


@pytest.mark.parametrize("theta", [10.0, 1000.0, 10000.0, 100000.0])
@pytest.mark.parametrize("dim", [4, 8, 16, 32])
def test_pair_i_turns_by_position_over_theta_to_the_2i_over_d(dim: int, theta: float) -> None:
    """RET's tests/test_rope.py, TestSimpleRopeApply, with its dims, thetas and positions."""
    ours, positions, x = make("rope", dim, base=theta), places(0, 1, 42, 13, 67, 69, 39), wave(1, 2, 7, dim)
    angles = positions / theta ** (torch.arange(0, dim, 2) / dim)
    near(ours.angles(positions), angles)
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angles.cos(), angles.sin()
    expected = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
    assert_close(ours.encode(x, positions), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("case", "positions", "options"),
    [
        ("RET", places(0, 1, 2), {}),
        ("RET offset", places(5, 6, 7), {}),
        ("RET interpolate", places(0, 1, 2), {"scale": 1 / 4}),
        ("RET theta_rescale", places(0, 1, 2), {"scaling": "ntk", "factor": 4.0}),
        ("RET partial", places(0, 1, 2), {"rotary_dim": 4}),
        ("XT partial", places(0, 2, 7), {"rotary_dim": 4}),
        ("XT rescaled", places(0, 2, 7), {"base": 500.0, "scale": 1 / 4, "scaling": "ntk", "factor": 3.0}),
        ("RET axial", grid_positions(2, 3), {"base": 1e4}),
        ("RET pixel", pixels(2, 3), {"frequencies": (math.pi, 5 * math.pi)}),
        ("RV axial", grid_positions(2, 3).flip(-1), {}),
    ],
)
def test_rotated_queries_have_the_values_of_peers(case: str, positions: Tensor, options: dict) -> None:
    """The last token of wave(1, 1, tokens, 8).

    RET's rotate_queries_or_keys, XT's apply_rotary_pos_emb: ``interpolate_factor`` 4 is ``scale`` 1/4;
    ``theta_rescale_factor`` is ``factor`` of "ntk"; ``offset`` is added to positions; RotaryEmbedding(4)
    is ``rotary_dim`` 4; "XT rescaled" has base=500, interpolation_factor=4, base_rescale_factor=3.

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


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("default", {}),
        ("linear", {"scale": 1 / 10}),
        ("dynamic", {"scaling": "ntk", "factor": 71.0}),  # 10·16384/2048 - 9
        ("yarn", {"scaling": "yarn", "factor": 10.0, "trained": 2048}),
    ],
)
def test_scaled_frequencies_are_those_typed_in_transformers_tests(kind: str, options: dict) -> None:
    """HF's tests/utils/test_modeling_rope_utils.py, pairs 0, 9, … 63 of 64, factor 10.

    "dynamic" is at 16384 tokens; "linear" is asserted there as "default" over the factor.
    """
    found = make("rope", 128, **options).angles(places(1))[0]
    assert_close(found[::9], TYPED[f"HF {kind}"], rtol=1e-4, atol=0)


def test_gpt_neox_rotates_its_first_channels_in_split_halves() -> None:
    """HF's apply_rotary_pos_emb with tables of 4 channels."""
    x, table = wave(2, 2, 6, 16), (grid_positions(6) * torch.tensor([1.0, 0.01])).repeat(1, 2)[None]
    expected, _ = hf("gpt_neox").apply_rotary_pos_emb(x, x, table.cos(), table.sin())
    near(make("rope", 16, rotary_dim=4, layout="half").encode(x, grid_positions(6)), expected)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_bfloat16_is_rotated_in_float32_and_rounded_once(layout: str) -> None:
    """As RET, RV (``xq.float()``) and timm (apply_rot_embed); HF's Llama rounds its table first."""
    ours, positions, x = make("rope", layout=layout), grid_positions(64) + 1000, wave(1, 2, 64, 8).bfloat16()
    assert torch.equal(ours.encode(x, positions), ours.encode(x.float(), positions).bfloat16())


# Rotation of an image


def test_rope_vits_mixed_frequencies_have_columns_in_entry_0() -> None:
    """RV's compute_mixed_cis with freqs wave(2, 1, 8): [x and y, depth, heads · pairs]."""
    ours = make("mixed-rope", axes=2).requires_grad_(False)
    ours.frequencies.copy_(wave(2, 2, 4).transpose(0, 1).flip(1))
    found = ours.encode(wave(1, 2, 6, 8), grid_positions(2, 3))[0, :, 5]
    near(found, torch.stack([TYPED["RV mixed 0"], TYPED["RV mixed 1"]]))


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


@pytest.mark.parametrize("peer", ["distilbert", "ctrl", "roformer", "vit_mae", "timm", "timm reversed"])
def test_waves_of_vaswani_are_those_of_peers_in_another_order(peer: str) -> None:
    """HF's DistilBERT has sines and cosines in turn, as ours; CTRL and RoFormer have all sines first.

    HF's ViT-MAE has sines, then cosines, of each axis (checkpoints: columns first); timm's
    build_sincos2d_pos_embed sines of both axes first, and with reverse_coord its tokens run by columns.
    """
    reverse = peer == "timm reversed"
    image = GRID[::-1] if reverse else GRID
    ours = code(grid_positions(*(image if "timm" in peer or peer == "vit_mae" else (9,))), 12)
    match peer:
        case "distilbert":
            hf(peer).create_sinusoidal_embeddings(9, 12, expected := torch.empty(9, 12))
        case "ctrl":
            expected = hf(peer).positional_encoding(9, 12, torch.float32)
        case "roformer":
            expected = hf(peer).RoFormerSinusoidalPositionalEmbedding(9, 12).create_weight()
        case "vit_mae":
            expected = hf(peer).build_2d_sinusoidal_position_embedding(*GRID, embed_dim=12)
        case _:
            expected = timms.build_sincos2d_pos_embed(list(GRID), dim=12, reverse_coord=reverse)
    in_their_order = {"distilbert": ours, "vit_mae": ours.transpose(2, 3)}.get(peer, ours.movedim(-1, 1))
    near(in_their_order.flatten(1), expected)


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


@pytest.mark.parametrize("name", SEQUENCES)
def test_grouped_keys_are_repeated_keys(name: str) -> None:
    """HF's repeat_kv (Llama): neighboring heads share a key."""
    ours, positions, q, (k, v) = make(name, heads=4), grid_positions(6), wave(2, 4, 6, 8), wave(2, 2, 2, 6, 8)
    repeated = (hf("llama").repeat_kv(x, 2) for x in (k, v))
    found = ours.attend(q, k, v, positions, is_causal=True)
    assert_close(found, ours.attend(q, *repeated, positions, is_causal=True))


@pytest.mark.parametrize("name", SEQUENCES)
def test_with_a_cache_the_last_queries_are_as_in_the_full_pass(name: str) -> None:
    """XT's test_kv_cache and RET's rotate_queries_with_cached_keys: queries count from len(k) - len(q)."""
    ours, positions, (q, k, v) = make(name), grid_positions(7), wave(3, 1, 2, 7, 8)
    whole = ours.attend(q, k, v, positions, is_causal=True)[:, :, 5:]
    last = {"key_positions": positions, "is_causal": True}
    near(ours.attend(q[:, :, 5:], k, v, positions[5:], **last), whole)
    near(ours.decode(q[:, :, 5:], ours.encode_keys(k, positions), v, positions), whole)


@pytest.mark.parametrize("name", ["alibi", "t5-bias"])
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_a_bias_is_a_score_mod_of_flex_attention(name: str) -> None:
    """torch's flex_attention with a causal block mask takes our [heads, queries, keys]."""
    ours, positions, (q, k, v) = make(name), grid_positions(16), wave(3, 1, 2, 16, 8)
    bias = ours.mask(q, k, positions).detach().expand(1, 2, 16, 16)[0]
    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
    expected = flex_attention(q, k, v, lambda score, b, h, i, j: score + bias[h, i, j], block_mask=causal)
    near(ours.attend(q, k, v, positions, is_causal=True), expected)


@pytest.mark.parametrize("name", IMAGES)
def test_encoded_queries_and_keys_go_into_torchs_attention(name: str) -> None:
    """Norms are kept, position 0 changes nothing, and gradients reach q, k and v, as in every peer."""
    ours, positions = make(name, 12, axes=2), grid_positions(*GRID)
    q, k, v = wave(3, 2, 2, 15, 12).requires_grad_()
    moved_q, moved_k = ours(q, k, positions)
    out = F.scaled_dot_product_attention(moved_q, moved_k, v)
    near(ours.attend(q, k, v, positions), out)
    near(moved_q.norm(dim=-1), q.norm(dim=-1))
    near(moved_q[:, :, 0], q[:, :, 0])
    for gradient in torch.autograd.grad(out.square().sum(), (q, k, v)):
        assert gradient.isfinite().all() and gradient.abs().sum() > 0
