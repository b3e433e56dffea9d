"""Encodings inside timm's and torch's own transformers, and in linear attention."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import timm
import timm.optim
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from rollpe.encodings import create_encoding, grid_positions, no_weight_decay
from rollpe.encodings.attention import (
    Attention,
    MultiheadAttention,
    drop_in_attention,
    linear_attention,
)
from rollpe.errors import InputError
from rollpe.formulas import elu_feature
from rollpe.vit import create_vit
from rollpe_book.properties import measure
from shared import rotary_model

pytestmark = pytest.mark.filterwarnings("ignore:aliased offsets")

SIZES = {"img_size": (8, 12), "patch_size": 4, "num_classes": 5, "embed_dim": 24, "depth": 2, "num_heads": 2}


def worst(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


@pytest.mark.parametrize("name", ["roll", "axial-rope", "mixed-rope", "shaw", "multiplexed-roll"])
def test_timms_transformer_with_our_layer_is_our_transformer(name: str) -> None:
    layer = drop_in_attention(name, grid=(2, 3))
    theirs = VisionTransformer(**SIZES, pos_embed="none", attn_layer=layer).double().eval()
    ours = create_vit(name, image_size=(8, 12), classes=5, width=24, depth=2, heads=2).double().eval()
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(3, 3, 8, 12, dtype=torch.double)
    assert worst(theirs(images), ours(images)) < 1e-12


def test_a_model_of_timms_factory_with_our_layer_is_saved_and_copied_whole() -> None:
    layer = drop_in_attention("roll", grid=(2, 3), width=7)
    model = timm.create_model("vit_tiny_patch16_224", img_size=(32, 48), depth=1, attn_layer=layer).eval()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    images = torch.randn(2, 3, 32, 48)
    for again in (torch.load(file, weights_only=False), copy.deepcopy(model), copy.copy(model)):
        assert torch.equal(again(images), model(images))
    made = pickle.loads(pickle.dumps(layer))(64, num_heads=2)
    assert made.grid == (2, 3) and made.encoding.width == 7


@pytest.mark.parametrize("name", ["rope", "rope_mixed"])
def test_weights_of_timms_rotary_transformers_are_refused_where_they_nearly_fit(name: str) -> None:
    theirs = rotary_model(f"vit_small_patch16_{name}_224", img_size=(32, 48))
    sizes = {"image_size": (32, 48), "patch_size": 16, "width": 48, "heads": 3, "depth": 2, "classes": 9}
    model = create_vit("axial-rope", **sizes, layer_scale=1e-5)
    with pytest.raises(InputError, match=r"columns first.*from_timm"):
        model.load_state_dict(theirs.state_dict(), strict=False)


def test_timms_optimizer_spares_an_encoding_that_is_named_to_it() -> None:
    theirs = VisionTransformer(**SIZES, attn_layer=drop_in_attention("mixed-rope", grid=(2, 3)))
    own = {f"blocks.{i}.attn.encoding.frequencies" for i in range(2)}
    assert no_weight_decay(theirs) == own
    decayed = {True: set(), False: set()}
    for named in decayed:
        spared = no_weight_decay(theirs) if named else ()
        for group in timm.optim.param_groups_weight_decay(theirs, 0.05, no_weight_decay_list=spared):
            if group["weight_decay"]:
                decayed[named] |= {id(parameter) for parameter in group["params"]}
    assert decayed[False] - decayed[True] == {id(theirs.get_parameter(name)) for name in own}


def test_a_drop_in_layer_refuses_what_it_cannot_do() -> None:
    with pytest.raises(InputError, match="pos_embed"):
        drop_in_attention("learned+roll", grid=(2, 3))
    for refuses in (drop_in_attention, MultiheadAttention):
        with pytest.raises(InputError, match="grid=14"):
            refuses(*((16, 2) if refuses is MultiheadAttention else ()), "roll", grid=14)
    with pytest.raises(InputError, match=r"20 tokens .*make 16: prefix= .*grid="):
        drop_in_attention("axial-rope", grid=(3, 5))(16, num_heads=2)(torch.randn(1, 20, 16))


def test_another_encoding_can_be_installed_after_one_of_several_streams() -> None:
    layer = Attention(16, num_heads=2)
    for name, rows in (("multiplexed-roll", 80), ("roll", 48)):
        layer.install(create_encoding(name, head_dim=8, heads=2))
        assert layer.qkv.out_features == rows
        assert layer(torch.randn(2, 6, 16), grid_positions(2, 3)).shape == (2, 6, 16)


def sequence(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.double)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("mask", ["none", "keep", "add", "heads", "padding", "both"])
def test_without_an_encoding_multihead_attention_is_torchs(
    mask: str, batch_first: bool, need_weights: bool
) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=batch_first).double()
    ours = MultiheadAttention(12, 3, "none", batch_first=batch_first).double()
    ours.load_state_dict(theirs.state_dict())
    x = sequence(2, 5, 12) if batch_first else sequence(5, 2, 12)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    masks: dict[str, Tensor] = {}
    if mask in ("keep", "both"):
        masks["attn_mask"] = later
    if mask == "add":
        masks["attn_mask"] = sequence(5, 5)
    if mask == "heads":
        masks["attn_mask"] = sequence(6, 5, 5)
    if mask in ("padding", "both"):
        masks["key_padding_mask"] = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    for average in (True, False):
        settings = {"need_weights": need_weights, "average_attn_weights": average, **masks}
        expected, weights = theirs(x, x, x, **settings)
        got, seen = ours(x, x, x, **settings)
        assert worst(got, expected) < 1e-12
        assert (seen is None) == (weights is None)
        if need_weights:
            assert worst(seen, weights) < 1e-12


@pytest.mark.parametrize("name", ["rope", "roll", "multiplexed-roll", "shaw", "t5-bias", "continuous-roll"])
def test_the_weights_shown_are_those_that_made_the_output(name: str) -> None:
    torch.manual_seed(1)
    layer = MultiheadAttention(16, 2, name).double()
    x = sequence(7, 16)  # without a batch
    out, weights = layer(x, x, x, average_attn_weights=False, is_causal=True)
    bias = layer.in_proj_bias[-16:]
    v = (x @ layer.in_proj_weight[-16:].T + bias).view(7, 2, 8).transpose(0, 1)
    by_hand = layer.out_proj((weights @ v).transpose(0, 1).reshape(7, 16))
    assert worst(out, by_hand) < 1e-12
    assert weights.triu(1).abs().max() == 0
    wide = 16 * layer.encoding.waves_in  # W_Q and W_K; the biases are zero when a layer is new
    queries, keys, _ = (x @ layer.in_proj_weight.T).split((wide, wide, 16), -1)
    q, k = (part.view(1, 7, 2, -1).transpose(1, 2) for part in (queries, keys))
    scores = layer.encoding.scores(q, k, grid_positions(7))[0]
    later = torch.ones(7, 7).triu(1).bool()
    assert worst(weights, scores.masked_fill(later, -torch.inf).softmax(-1)) < 1e-6


@pytest.mark.parametrize("norm_first", [True, False])
def test_torchs_encoder_layer_uses_the_encoding_in_training_and_in_inference(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=norm_first).double()
    plain = layer(x := sequence(2, 6, 16))
    swapped = MultiheadAttention(16, 2, "rope", batch_first=True).double()
    swapped.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = swapped
    trained = layer(x)
    assert worst(trained, plain) > 1e-3
    layer.eval()
    with torch.inference_mode():
        assert worst(layer(x), trained) < 1e-12
        padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
        padded = nn.TransformerEncoder(layer, 2).eval()(x, src_key_padding_mask=padding)
        changed = x.clone()
        changed[1, 4:] = 9.0
        again = nn.TransformerEncoder(layer, 2).eval()(changed, src_key_padding_mask=padding)
    assert worst(padded[1, :4], again[1, :4]) < 1e-12


def test_multihead_attention_takes_grids_prefixes_and_positions() -> None:
    torch.manual_seed(0)
    layer = MultiheadAttention(16, 2, "axial-rope", grid=(2, 3), batch_first=True).double()
    x = sequence(2, 1 + 6, 16)
    out = layer(x, x, x)[0]
    moved = layer(x, x, x, positions=grid_positions(2, 3) + 4)[0]
    assert worst(out[:, 0], moved[:, 0]) > 1e-6, "the first token has no position: it sees where patches are"
    patches = x[:, 1:]
    still, shifted = (
        layer(patches, patches, patches, positions=p)[0]
        for p in (grid_positions(2, 3), grid_positions(2, 3) + 4)
    )
    assert worst(still, shifted) < 1e-5
    with pytest.raises(InputError, match="6 positions for 5 tokens"):
        layer(x[:, :5], x[:, :5], x[:, :5])
    with pytest.raises(InputError, match="of the same tokens"):
        layer(x, patches, x)
    with pytest.raises(InputError, match="acts on tokens"):
        MultiheadAttention(16, 2, "learned")


@pytest.mark.parametrize("name", ["rope", "t5-bias", "shaw-kv", "roll", "multiplexed-roll"])
def test_cross_attention_in_torchs_decoder_counts_queries_and_keys(name: str) -> None:
    """Queries that are a memory's first tokens attend to it as they do in self-attention."""
    torch.manual_seed(0)
    attention = MultiheadAttention(16, 2, name, batch_first=True).double()
    memory, padding = sequence(2, 6, 16), torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    whole, alpha = attention(memory, memory, memory, padding)
    some, beta = attention(memory[:, :4], memory, memory, padding)
    assert worst(some, whole[:, :4]) < 1e-12 and worst(beta, alpha[:, :4]) < 1e-12
    moved, _ = attention(memory[:, :4], memory, memory, padding, key_positions=grid_positions(6) + 1)
    assert worst(moved, some) > 1e-3
    layer = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True).double().eval()
    layer.multihead_attn = attention
    target = sequence(2, 3, 16)
    out = layer(target, memory, memory_key_padding_mask=padding)
    changed = memory.masked_fill(padding[..., None], 7.0)
    assert worst(layer(target, changed, memory_key_padding_mask=padding), out) < 1e-12


@pytest.mark.parametrize("name", ["axial-rope", "t5-bias", "shaw-kv", "roll"])
def test_a_mask_and_causality_join(name: str) -> None:
    torch.manual_seed(0)
    encoding = create_encoding(name, head_dim=8, heads=2).double()
    q, k, v = (sequence(2, 2, 6, 8) for _ in range(3))
    positions = grid_positions(2, 3)
    keep = torch.rand(6, 6) > 0.4
    keep.fill_diagonal_(True)
    both = keep & torch.ones(6, 6, dtype=torch.bool).tril()
    joined = encoding.attend(q, k, v, positions, attn_mask=keep, is_causal=True)
    assert worst(joined, encoding.attend(q, k, v, positions, attn_mask=both)) < 1e-12
    added = torch.zeros(6, 6, dtype=torch.double).masked_fill(~keep, -torch.inf)
    assert worst(joined, encoding.attend(q, k, v, positions, attn_mask=added, is_causal=True)) < 1e-12


@pytest.mark.parametrize("name", ["none", "axial-rope", "shaw", "shaw-kv"])
def test_a_query_that_may_see_nothing_gets_zeros(name: str) -> None:
    torch.manual_seed(0)
    encoding = create_encoding(name, head_dim=8, heads=2).double()
    q, k, v = (sequence(2, 2, 6, 8).requires_grad_() for _ in range(3))
    keep = torch.ones(6, 6, dtype=torch.bool)
    keep[2] = False
    out = encoding.attend(q, k, v, grid_positions(2, 3), attn_mask=keep)
    seen = encoding.weights(q, k, grid_positions(2, 3), attn_mask=keep)
    assert out[..., 2, :].eq(0).all() and seen[..., 2, :].eq(0).all()
    for result in (out, seen):
        assert torch.autograd.grad(result.square().sum(), q)[0].isfinite().all()
    others = [0, 1, 3, 4, 5]
    assert worst(seen[..., others, :].sum(-1), torch.ones(2, 2, 5)) < 1e-12
    assert worst(out[..., others, :], encoding.attend(q, k, v, grid_positions(2, 3))[..., others, :]) < 1e-12


@pytest.mark.parametrize("name", ["none", "axial-rope", "shaw", "shaw-kv"])
def test_causal_queries_before_every_key_get_zeros_and_the_others_what_they_get_alone(name: str) -> None:
    torch.manual_seed(0)
    encoding = create_encoding(name, head_dim=8, heads=2).double()
    q, (k, v) = sequence(2, 2, 6, 8).requires_grad_(), sequence(2, 2, 2, 4, 8)
    positions = grid_positions(2, 3)
    last = positions[2:]
    for function, values in ((encoding.attend, (v,)), (encoding.weights, ())):
        result = function(q, k, *values, positions, key_positions=last, is_causal=True)
        assert result[..., :2, :].eq(0).all()
        assert worst(result[..., 2:, :], function(q[..., 2:, :], k, *values, last, is_causal=True)) < 1e-12
        assert torch.autograd.grad(result.square().sum(), q)[0].isfinite().all()


def linear_by_pairs(encoding, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, causal: bool) -> Tensor:
    q, k = elu_feature(q), elu_feature(k)
    weights = encoding.scores(q, k, positions) * encoding.head_dim**0.5
    norms = encoding.scores(q, k, 0 * positions) * encoding.head_dim**0.5
    if causal:
        weights, norms = weights.tril(), norms.tril()
    return weights @ v / norms.sum(-1, keepdim=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["none", "roll", "continuous-roll", "axial-rope", "multiplexed-roll"])
def test_linear_attention_equals_its_definition_pair_by_pair(name: str, causal: bool) -> None:
    torch.manual_seed(0)
    encoding = create_encoding(name, head_dim=8, heads=2)
    q, k = torch.randn(2, 3, 2, 13, 8 * encoding.waves_in, dtype=torch.double)
    v, positions = torch.randn(3, 2, 13, 8, dtype=torch.double), grid_positions(3, 4)
    got = linear_attention(encoding, q, k, v, positions, is_causal=causal)
    assert worst(got, linear_by_pairs(encoding, q, k, v, positions, causal)) < 1e-12
    once = linear_attention(encoding, q, k, torch.ones_like(v), 0 * positions, is_causal=causal)
    assert worst(once, torch.ones_like(v)) < 1e-12, "at one place weights add up to one"


@pytest.mark.parametrize("name", ["t5-bias", "learned+shaw", "alibi+roll"])
def test_linear_attention_refuses_a_bias_on_scores(name: str) -> None:
    encoding = create_encoding(name, head_dim=8, heads=2, grid=(2, 3))
    x = torch.randn(1, 2, 6, 8)
    with pytest.raises(InputError, match=name.split("+")[-1]):
        linear_attention(encoding, x, x, x, grid_positions(2, 3))
    assert not measure(name).linear
