"""The vision transformer: timm's backbone, with positions that reach every layer."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
import timm
import torch
from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from rollpe.encodings import ENCODINGS, grid_positions
from rollpe.encodings.roll import twin_state_dict
from rollpe.errors import InputError
from rollpe.vit import SIZES, create_vit, from_timm
from shared import TINY, rotary_model

pytestmark = pytest.mark.filterwarnings("ignore:aliased offsets")

IMAGE_NAMES = [name for name in ENCODINGS if name not in ("rope", "xpos")]  # they have one axis
SMALL = {"image_size": (12, 16), "size": "nano", "width": 24, "depth": 2, "heads": 2, "classes": 7}


def build(encoding: str, seed: int = 0, **settings):
    torch.manual_seed(seed)
    return create_vit(encoding, **{**SMALL, **settings}).double()


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def worst(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


def timms(size: str, image_size: tuple[int, int], **settings) -> TimmVisionTransformer:
    width, depth, heads = SIZES[size]
    sizes = {"embed_dim": width, "depth": depth, "num_heads": heads}
    return TimmVisionTransformer(img_size=image_size, patch_size=4, **sizes, **settings)


def test_without_timm_both_models_say_in_one_line_what_to_install() -> None:
    script = """
import importlib, sys
class Missing:
    def find_spec(self, name, *_):
        if name == "timm":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Missing())
for name in ("rollpe.vit", "rollpe.decoder"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(error.name, "|", error)
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ['timm | timm is not installed. Repair: pip install "rollpe[train]".'] * 2


def test_without_positions_the_model_is_timms_from_the_same_seed() -> None:
    torch.manual_seed(5)
    ours = create_vit("none", image_size=(8, 12), size="nano", classes=7)
    torch.manual_seed(5)
    theirs = timms("nano", (8, 12), num_classes=7, pos_embed="none")
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        assert torch.equal(value, ours.state_dict()[name])
    images = torch.randn(2, 3, 8, 12)
    tokens = ours.eval().forward_features(images)
    assert torch.equal(tokens, theirs.eval().forward_features(images))
    assert torch.equal(ours.forward_head(tokens), theirs(images))


@pytest.mark.parametrize("size", SIZES)
def test_the_learned_table_makes_it_timms_transformer_of_each_size(size: str) -> None:
    with torch.device("meta"):
        ours = create_vit("learned", image_size=(32, 48), patch_size=4, size=size, classes=100)
        theirs = timms(size, (32, 48), num_classes=100, no_embed_class=True)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


def test_timms_position_table_is_our_learned_encoding() -> None:
    ours = build("learned", size="nano", width=None, depth=None, heads=None).eval()
    theirs = timms("nano", (12, 16), num_classes=7, no_embed_class=True, dynamic_img_size=True)
    theirs = theirs.double().eval()
    state = theirs.state_dict()
    state["token_encoding.table"] = state.pop("pos_embed")[0]
    ours.load_state_dict(state)
    for shape in ((12, 16), (20, 8)):
        images = draw(2, 3, *shape)
        assert worst(ours(images), theirs(images)) < 1e-6


@pytest.mark.parametrize("encoding", ["learned", "learned+axial-rope"])
@pytest.mark.parametrize("pool", ["token", "avg"])
def test_a_table_before_every_block_enters_each_of_them(encoding: str, pool: str) -> None:
    ours = build(encoding, pool=pool, encoding_options={"std": 0.7, "every_block": True}).eval()
    once = build(encoding, pool=pool, encoding_options={"std": 0.7}).eval()
    table, prefix = once.token_encoding.table, once.num_prefix_tokens
    once.blocks[1].register_forward_pre_hook(
        lambda _, given: (torch.cat((given[0][:, :prefix], given[0][:, prefix:] + table), 1), *given[1:])
    )
    images = draw(2, 3, 12, 16)
    assert worst(ours(images), once(images)) < 1e-12
    assert worst(ours(images, grid_positions(3, 4)), once(images)) < 1e-12


@pytest.mark.parametrize("encoding", [*IMAGE_NAMES, "learned+axial-rope"])
def test_gradients_reach_every_parameter_of_every_layer(encoding: str) -> None:
    # Averaging reads all tokens. The class token alone would leave the last layer's score biases without a
    # gradient: they concern pairs of tokens with positions, and it has none.
    model = build(encoding, registers=2, layer_scale=0.5, pool="avg")
    model(draw(4, 3, 12, 16)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("encoding", ["roll", "learned+axial-rope"])
def test_parameters_named_for_no_weight_decay_exist_and_are_complete(encoding: str) -> None:
    model = build(encoding, registers=2)
    names = dict(model.named_parameters())
    excluded = model.no_weight_decay()
    assert excluded <= names.keys()
    own = {name for name in names if "encoding." in name}
    assert excluded == own | {"cls_token", "reg_token"}
    assert model.encoding_names == (("learned", "axial-rope") if "+" in encoding else ("none", "roll"))


def test_multiplexed_streams_widen_queries_and_keys_and_start_like_the_rest() -> None:
    model, plain = (
        build(n, width=96, heads=3, encoding_options=o)
        for n, o in [("multiplexed-roll", {"waves": 3}), ("roll", None)]
    )
    extra = sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in plain.parameters())
    assert extra == 2 * 2 * 2 * (96 * 96 + 96)  # depth · (W - 1) · (q and k) · (weight and bias)
    for block in model.blocks:
        assert block.attn.qkv.weight.std().item() == pytest.approx(0.02, rel=0.03)
        assert not block.attn.qkv.bias.any()


def test_a_twin_with_carried_over_weights_is_the_same_classifier() -> None:
    roll, twin = build("roll").eval(), build("roll-twin", seed=1).eval()
    images = draw(3, 3, 12, 16)
    assert worst(roll(images), twin(images)) > 1e-3
    twin.load_state_dict(twin_state_dict(roll.state_dict(), twin.blocks[0].attn.encoding))
    assert worst(roll(images), twin(images)) < 1e-12


@pytest.mark.parametrize("encoding", [*IMAGE_NAMES, "sinusoidal+roll"])
def test_inference_first_and_training_later_do_not_disturb_each_other(encoding: str) -> None:
    model = build(encoding, image_size=(4, 44))  # a grid that no other test has seen
    images = draw(2, 3, 4, 44)
    with torch.inference_mode():
        wanted = model(images)
    out = model(images)
    assert worst(out, wanted) < 1e-12
    out.sum().backward()


@pytest.mark.parametrize("encoding", ["roll", "twisted-roll", "continuous-roll", "axial-rope", "roll-twin"])
def test_a_model_cast_to_bfloat16_keeps_exact_positions(encoding: str) -> None:
    settings = {"image_size": (4, 1100), "depth": 1}  # positions up to 274; bfloat16 counts to 256
    images = draw(1, 3, 4, 1100)
    model = build(encoding, **settings).eval()
    half = build(encoding, **settings).eval().bfloat16()
    _, positions = half.embed(images.bfloat16())
    assert torch.equal(positions, grid_positions(1, 275))
    wide = half.double()  # the same rounded weights
    rounded = build(encoding, **settings).eval().bfloat16()(images.bfloat16())
    assert rounded.dtype == torch.bfloat16
    assert worst(rounded.double(), wide(images.bfloat16().double())) < 0.05 * model(images).abs().max()


@pytest.mark.parametrize("encoding", ["roll", "multiplexed-roll", "learned+axial-rope"])
def test_checkpointing_changes_neither_output_nor_gradients(encoding: str) -> None:
    plain, saved = build(encoding), build(encoding)
    saved.set_grad_checkpointing(True)
    images = draw(2, 3, 12, 16)
    outputs = [model(images) for model in (plain, saved)]
    assert torch.equal(*outputs)
    for out in outputs:
        out.square().sum().backward()
    for one, other in zip(plain.parameters(), saved.parameters(), strict=True):
        assert worst(one.grad, other.grad) < 1e-12


@pytest.mark.parametrize("encoding", ["axial-rope", "multiplexed-roll", "shaw-kv"])
def test_a_class_token_is_read_alone_as_among_all_tokens_and_for_less(encoding: str) -> None:
    model, images = build(encoding, registers=2, layer_scale=0.5), draw(3, 3, 12, 16)
    logits, gradients, work = [], [], []
    for classify in (model, lambda x: model.forward_head(model.forward_features(x))):
        model.zero_grad()
        with FlopCounterMode(display=False) as counter:
            logits.append(classify(images))
            logits[-1].square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
        work.append(counter.get_total_flops())
    assert worst(*logits) < 1e-12
    for one, other in zip(*gradients, strict=True):
        assert worst(one, other) < 1e-12
    # MLP (8·dim²) and projection (dim²) of all but one of 3·(2 + 1 + 12) tokens, forward and backward
    assert work[1] - work[0] == 3 * (2 + 12) * 9 * model.embed_dim**2 * 2 * 3


@pytest.mark.parametrize("encoding", IMAGE_NAMES)
def test_blocks_one_by_one_at_the_positions_of_the_tokens_are_the_model(encoding: str) -> None:
    """Whatever the model prepares for all its layers: on a grid, for which encodings may know a shorter way,
    and off it.
    """
    model = build(encoding, registers=1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    images = draw(3, 3, 12, 16)
    for positions in (None, grid_positions(3, 4).flip(0), grid_positions(3, 4).expand(3, -1, -1).flip(1)):
        x, precomputed = model.embed(images, positions)
        for block in model.blocks:
            x = block(x, precomputed)
        assert worst(model(images, positions), model.forward_head(model.norm(x))) < 1e-12


@pytest.mark.parametrize("encoding", IMAGE_NAMES)
def test_a_pickled_model_gives_the_same_output(encoding: str) -> None:
    model = build(encoding).eval()
    images = draw(2, 3, 12, 16)
    assert torch.equal(pickle.loads(pickle.dumps(model))(images), model(images))


def test_dropout_and_stochastic_depth_act_in_training_only() -> None:
    for settings in ({"dropout": 0.3}, {"drop_path": 0.5}):
        model = build("roll", **settings)
        images = draw(4, 3, 12, 16)
        assert worst(model(images), model(images)) > 1e-6
        assert torch.equal(model.eval()(images), model(images))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"encoding": "rope"}, "use 'axial-rope'"),
        ({"size": "huge"}, "size='huge'"),
        ({"pool": "max"}, "pool='max'"),
        ({"image_size": (32, 30)}, "(32, 30)"),
        ({"patch_size": 0}, "patch_size=0"),
        ({"patch_size": (4, 4)}, "patch_size=(4, 4)"),
        ({"image_size": (32, 32, 3)}, "image_size=(32, 32, 3)"),
        ({"image_size": 32.0}, "image_size=32.0"),
        ({"width": 100, "heads": 3}, "width=100"),
        ({"heads": 0}, "heads=0"),
        ({"classes": -1}, "classes=-1"),
        ({"registers": -1}, "registers=-1"),
        ({"image_size": 0}, "(0, 0)"),
        ({"layer_scale": 0}, "layer_scale=0"),
        ({"layer_scale": float("inf")}, "layer_scale=inf"),
        ({"drop_path": 1.5}, "drop_path=1.5"),
        ({"dropout": -0.1}, "dropout=-0.1"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_line(settings: dict, says: str) -> None:
    with pytest.raises(InputError) as caught:
        create_vit(**{"encoding": "roll", "size": "nano", **settings})
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_images_and_positions_that_do_not_fit_are_refused() -> None:
    model = build("roll")
    with pytest.raises(InputError, match="13×16"):
        model(draw(1, 3, 13, 16))
    with pytest.raises(InputError, match="11 positions for 12 patches"):
        model(draw(1, 3, 12, 16), grid_positions(1, 11))
    with pytest.raises(InputError, match="continuous-roll"):
        model(draw(1, 3, 12, 16), grid_positions(3, 4) + 0.5)


ROWS_FIRST = {"rope_grid_indexing": "ij"}  # of timm's models with mixed frequencies none has it


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, {}) for name in timm.list_models("vit_*_rope_*"))]
    + [("vit_small_patch16_rope_mixed_224", ROWS_FIRST)],
)
@torch.no_grad()
def test_every_rotary_transformer_of_timms_keeps_its_logits(name: str, settings: dict) -> None:
    # models with a reference grid count by it and are converted at its size; the others at any
    size = 256 if name.endswith("_256") else (48, 80)
    theirs = rotary_model(name, img_size=size, **settings)
    images = torch.randn(2, 3, *theirs.patch_embed.img_size)
    expected = theirs(images)
    torch.testing.assert_close(from_timm(theirs)(images), expected, atol=1e-4, rtol=0)
    assert worst(theirs(images.flip(-1)), expected) > 0.01, "positions matter"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("eva02_tiny_patch14_224", {}),
        ("vit_small_patch16_dinov3", {}),
        ("vit_pe_core_tiny_patch16_384", {}),
        ("vit_pe_spatial_tiny_patch16_512", {}),
        ("naflexvit_base_patch16_gap", {}),
        ("vit_small_patch16_224", {}),
        ("vit_small_patch16_rope_224", {"rope_grid_offset": 1.0}),
        ("vit_small_patch16_rope_224", {"qkv_fused": False}),
        ("vit_small_patch16_rope_224", {"use_post_norm": True}),
        ("vit_small_patch16_rope_224", {"qk_norm": True}),
        ("vit_small_patch16_rope_224", {"global_pool": "avg"}),
        ("vit_medium_patch16_rope_reg1_gap_256", {"img_size": 128}),
    ],
)
def test_a_transformer_that_would_lose_its_logits_is_refused_by_name(name: str, settings: dict) -> None:
    with pytest.raises(InputError, match=f"^{name} .*cannot be converted") as error:
        from_timm(timm.create_model(name, **TINY, **settings))
    assert "\n" not in str(error.value)
