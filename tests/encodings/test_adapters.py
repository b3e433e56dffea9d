"""Encodings inside timm's own transformer, and in linear attention."""

from __future__ import annotations

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.adapters import drop_in_attention, elu_feature, linear_attention
from rollpe.errors import InputError
from rollpe.vit import create_vit

SIZES = {"img_size": (8, 12), "patch_size": 4, "num_classes": 5, "embed_dim": 24, "depth": 2, "num_heads": 2}


def worst(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


@pytest.mark.parametrize("name", ["roll", "axial-rope", "shaw", "multiplexed-roll"])
@pytest.mark.filterwarnings("ignore:aliased offsets")
def test_timms_transformer_with_our_layer_is_our_transformer(name: str) -> None:
    layer = drop_in_attention(name, grid=(2, 3))
    theirs = VisionTransformer(**SIZES, pos_embed="none", attn_layer=layer).double().eval()
    ours = (
        create_vit(name, image_size=(8, 12), classes=5, size="nano", width=24, depth=2, heads=2)
        .double()
        .eval()
    )
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(3, 3, 8, 12, dtype=torch.double)
    assert worst(theirs(images), ours(images)) < 1e-12


def test_without_an_encoding_the_layer_is_timms_attention() -> None:
    plain = VisionTransformer(**SIZES).double().eval()
    drop_in = VisionTransformer(**SIZES, attn_layer=drop_in_attention("none", grid=(2, 3))).double().eval()
    drop_in.load_state_dict(plain.state_dict())
    images = torch.randn(3, 3, 8, 12, dtype=torch.double)
    assert worst(plain(images), drop_in(images)) < 1e-12


def test_a_drop_in_layer_refuses_what_it_cannot_do() -> None:
    with pytest.raises(InputError, match="pos_embed"):
        drop_in_attention("learned+roll", grid=(2, 3))
    layer = drop_in_attention("roll", grid=(2, 2), prefix=1)(16, num_heads=2)
    with pytest.raises(InputError, match="7 tokens"):
        layer(torch.randn(1, 7, 16))
    with pytest.raises(InputError, match="attn_mask"):
        layer(torch.randn(1, 5, 16), attn_mask=torch.zeros(5, 5))


def linear_by_pairs(encoding, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, causal: bool) -> Tensor:
    q, k = elu_feature(q), elu_feature(k)
    weights = encoding.scores(q, k, positions) * encoding.head_dim**0.5
    norms = q @ k.transpose(-2, -1)
    if causal:
        weights, norms = weights.tril(), norms.tril()
    return weights @ v / norms.sum(-1, keepdim=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["none", "roll", "continuous-roll", "axial-rope", "multiplexed-roll"])
def test_linear_attention_equals_its_definition_pair_by_pair(name: str, causal: bool) -> None:
    torch.manual_seed(0)
    encoding = create_encoding(name, head_dim=8, heads=2)
    q, k = torch.randn(2, 3, 2, 13, 8 * encoding.streams, dtype=torch.double)
    v, positions = torch.randn(3, 2, 13, 8, dtype=torch.double), grid_positions(3, 4)
    got = linear_attention(encoding, q, k, v, positions, is_causal=causal)
    assert worst(got, linear_by_pairs(encoding, q, k, v, positions, causal)) < 1e-12


@pytest.mark.parametrize("name", ["roll", "axial-rope"])
def test_encoding_features_is_relative_and_features_of_encoded_only_for_a_roll(name: str) -> None:
    encoding = create_encoding(name, head_dim=8, heads=2)
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, 12, 8, dtype=torch.double)
    here, there = grid_positions(3, 4), grid_positions(3, 4) + 5

    def weights(positions: Tensor, features_last: bool) -> Tensor:
        if features_last:
            q_, k_ = (elu_feature(x) for x in encoding(q, k, positions))
        else:
            q_, k_ = encoding(elu_feature(q), elu_feature(k), positions)
        return q_ @ k_.transpose(-2, -1)

    assert worst(weights(here, False), weights(there, False)) < 1e-5  # positions are float32
    apart = worst(weights(here, True), weights(there, True))
    assert apart < 1e-12 if name == "roll" else apart > 0.1
    if name == "roll":
        assert weights(here, False).min() > 0


def test_linear_attention_refuses_a_bias_on_scores() -> None:
    encoding = create_encoding("t5-bias", head_dim=8, heads=2)
    x = torch.randn(1, 2, 6, 8)
    with pytest.raises(InputError, match="t5-bias"):
        linear_attention(encoding, x, x, x, grid_positions(2, 3))
