"""What a stranger gets wrong is refused in one line or warned of, and never changes a number silently."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from torch import nn

from refusals import refused
from rollpe import MultiheadAttention, drop_in_attention
from rollpe.encodings import ENCODINGS, AxialRope, create_encoding, grid_positions, scale_positions
from rollpe.encodings.frequencies import dynamic, geometric, llama3, longrope, yarn, yarn_temperature

ONE = {"head_dim": 16, "heads": 2, "axes": 1}
X = torch.randn(3, 2, 5, 16)


def rope(**options):
    return create_encoding("rope", **ONE, **options)


# positions


@pytest.mark.parametrize("positions", [[0, 1, 2, 3, 4], range(5), None])
def test_positions_that_are_no_tensor_are_refused(positions):
    with refused(r"positions are \w+: give a tensor, torch.tensor"):
        rope().encode(X, positions)


def test_position_ids_of_a_batch_are_refused_with_the_index_that_mends_them():
    ids = torch.arange(5).expand(3, 5)
    with refused(r"position_ids\[\.\.\., None\]"):
        rope().encode(X, ids)
    assert torch.equal(rope().encode(X, ids[..., None]), rope().encode(X, torch.arange(5)))


@pytest.mark.parametrize("call", ["encode", "attend", "add"])
def test_a_forgotten_position_on_one_axis_is_warned_of_once(call):
    encoding = create_encoding("learned" if call == "add" else "rope", **ONE, grid=(16,))
    run = {
        "encode": lambda: encoding.encode(X, torch.arange(4)),
        "attend": lambda: encoding.attend(X, X, X, torch.arange(4)),
        "add": lambda: encoding.add(torch.randn(3, 5, 32), torch.arange(4)),
    }[call]
    with pytest.warns(
        UserWarning, match=r"4 positions for 5 tokens leave the first 1 .* give 5, or, .*\(4,\)"
    ):
        run()
    with warnings.catch_warnings(action="error"):
        run()


def test_class_tokens_on_one_axis_are_asked_for_by_the_grid():
    with warnings.catch_warnings(action="error"):
        create_encoding("rope", **ONE, grid=(4,)).encode(X, torch.arange(4))
        rope().encode(X, torch.arange(5))
        create_encoding("roll", head_dim=16, heads=2).encode(X, grid_positions(2, 2))


def test_arguments_without_names_are_refused():
    with refused("AxialRope takes its arguments by name"):
        AxialRope(32, 4, 2)


def test_the_warning_of_a_short_ring_says_what_causal_attention_needs():
    encoding = create_encoding("roll", **ONE)
    with pytest.warns(UserWarning, match="20 tokens need at least 39, or 20 where attention is causal"):
        encoding.encode(torch.randn(1, 2, 20, 16), torch.arange(20))


# dtypes


@pytest.mark.parametrize(
    ("name", "options"),
    [("lie", {}), ("mixed-rope", {}), ("rope", {"learn_frequencies": True}), ("lie+learned", {})],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_keeps_what_positions_multiply(name, options, dtype):
    axes = 1 if name == "rope" else 2
    encoding = create_encoding(name, head_dim=16, heads=2, axes=axes, grid=(4,) * axes, **options)
    before = {key: value.clone() for key, value in encoding.state_dict().items()}
    scores = encoding.scores(
        X[..., :4, :], X[..., :4, :], grid_positions(4) if axes == 1 else grid_positions(2, 2)
    )
    model = nn.Sequential(encoding).to(dtype)
    kept = [key for key in before if "token_code" not in key]
    assert kept and all(torch.equal(encoding.state_dict()[key], before[key]) for key in kept)
    x = X[..., :4, :].to(dtype)
    positions = grid_positions(4) if axes == 1 else grid_positions(2, 2)
    assert (encoding.scores(x, x, positions) - scores).abs().max() < 0.1
    encoding.encode(x, positions).sum().backward()
    assert {p.grad.dtype for key, p in encoding.named_parameters() if key in kept} == {torch.float32}
    assert all(p.dtype == torch.float64 for p in model.double().parameters())


def test_a_cache_under_yarn_is_renumbered_without_a_second_temperature():
    encoding = rope(frequencies=yarn(geometric(8), 8.0, 512), temperature=yarn_temperature(8.0))
    keys = encoding.encode_keys(X, torch.arange(5) + 100)
    expected = encoding.encode_keys(X, torch.arange(5))
    assert (encoding.shift_keys(keys, -100) - expected).abs().max() < 1e-4


def test_a_cache_under_a_function_of_the_length_is_not_renumbered():
    for table in (dynamic(geometric(8), 2.0, 4), longrope(geometric(8), 4, (1.0,) * 8, (2.0,) * 8)):
        with refused("cannot be shifted"):
            rope(frequencies=table).shift_keys(X, -1)


# graphs


@pytest.mark.parametrize("name", [*ENCODINGS, "learned+alibi+axial-rope"])
@pytest.mark.filterwarnings("ignore:.*acts on tokens", "ignore:aliased offsets")
def test_an_exported_program_can_be_saved_and_loaded(name):
    axes = 1 if name in ("rope", "xpos") else 2
    grid = (4,) * axes
    encoding = create_encoding(name, head_dim=24, heads=2, axes=axes, grid=grid).eval()
    positions = grid_positions(*grid)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoding = encoding

        def forward(self, q, k, v):
            return self.encoding.attend(q, k, v, positions)

    n = 4**axes
    given = [torch.randn(1, 2, n, 24 * waves) for waves in (encoding.waves_in, encoding.waves_in, 1)]
    file = io.BytesIO()
    torch.export.save(torch.export.export(Layer(), tuple(given)), file)
    file.seek(0)
    again = torch.export.load(file).module()
    assert torch.allclose(again(*given), Layer()(*given), atol=1e-5)


@pytest.mark.parametrize("name", ["shaw", "shaw-kv", "t5-bias", "alibi"])
def test_a_bias_in_onnx_runs_in_the_evaluator_of_onnx(name):
    reference = pytest.importorskip("onnx.reference")
    pytest.importorskip("onnxscript")
    layer = MultiheadAttention(32, 2, name, batch_first=True).eval()
    x = torch.randn(2, 6, 32)
    program = torch.onnx.export(layer, (x, x, x), dynamo=True, verbose=False)
    given = dict.fromkeys(["query", "key", "value"], x.numpy())
    out, _ = reference.ReferenceEvaluator(program.model_proto).run(None, given)
    assert torch.allclose(torch.from_numpy(out), layer(x, x, x)[0], atol=1e-5)


def test_timm_is_refused_images_of_any_size():
    timm = pytest.importorskip("timm")
    layer = drop_in_attention("roll", grid=(14, 14))
    build = {"attn_layer": layer, "pos_embed": "none", "depth": 1, "class_token": True}
    timm.create_model("vit_tiny_patch16_224", **build)
    with refused(r"leave out dynamic_img_size=True, or use rollpe.vit.create_vit"):
        timm.create_model("vit_tiny_patch16_224", dynamic_img_size=True, **build)


# more that strangers wrote


WRONG = {
    "a string of positions": lambda: rope().encode(X, "01234"),
    "positions in numpy": lambda: rope().encode(X, torch.arange(5).numpy()),
    "a boolean grid": lambda: create_encoding("roll", head_dim=16, heads=2, grid=(True, 0)),
    "a grid that is a number": lambda: create_encoding("roll", head_dim=16, heads=2, grid=4),
    "heads in a float": lambda: create_encoding("rope", head_dim=16, heads=2.0, axes=1),
    "no head": lambda: create_encoding("rope", head_dim=16, heads=0, axes=1),
    "an odd name": lambda: create_encoding("RoPE 2d", **ONE),
    "two rotations": lambda: create_encoding("rope+roll", **ONE),
    "a bias that needs queries beside a rotation": lambda: create_encoding("shaw+rope", **ONE),
    "an option of another encoding": lambda: create_encoding("roll", **ONE, base=10.0),
    "a base of zero": lambda: rope(base=0.0),
    "a base that is no number": lambda: rope(base=float("nan")),
    "a temperature below zero": lambda: rope(temperature=-1.0),
    "a layout of another library": lambda: rope(layout="neox"),
    "more frequencies than pairs": lambda: rope(frequencies=geometric(9)),
    "frequencies of two axes on one": lambda: rope(frequencies=torch.ones(4, 2)),
    "frequencies of another number of heads": lambda: create_encoding(
        "rope", head_dim=16, heads=2, axes=2, frequencies=torch.ones(3, 4, 2)
    ),
    "a learned function of the length": lambda: rope(
        frequencies=dynamic(geometric(8), 2.0, 4), learn_frequencies=True
    ),
    "a factor that shortens": lambda: llama3(geometric(8), factor=0.5, trained=64),
    "yarn of a table of one's own": lambda: yarn(torch.tensor([1.0, 0.5, 0.4]), 2.0, 64),
    "stretches of another length": lambda: longrope(geometric(8), 4, (1.0,) * 7, (2.0,) * 8),
    "no pairs": lambda: geometric(0),
    "queries as one block of channels": lambda: rope().encode(torch.randn(3, 5, 32), torch.arange(5)),
    "tokens before heads": lambda: rope().attend(*[X.transpose(1, 2)] * 3, torch.arange(5)),
    "a narrower head": lambda: rope().encode(X[..., :8], torch.arange(5)),
    "three heads of keys for two": lambda: rope().attend(X, torch.randn(3, 3, 5, 16), X, torch.arange(5)),
    "grouped keys that nobody enabled": lambda: rope().attend(
        X, X[:, :1], X[:, :1], torch.arange(5), enable_gqa=False
    ),
    "more positions than tokens": lambda: rope().encode(X, torch.arange(6)),
    "positions of two images for three": lambda: rope().encode(X, torch.zeros(2, 5, 1)),
    "positions in bfloat16": lambda: rope().encode(X, torch.arange(5).bfloat16()),
    "a position that is no number": lambda: rope().encode(X, torch.tensor([0, 1, 2, float("nan"), 4])),
    "a fraction for whole channels": lambda: create_encoding("roll", **ONE).encode(X, torch.arange(5) / 2),
    "a grid that positions are not": lambda: create_encoding("roll", head_dim=16, heads=2).precompute(
        grid_positions(2, 3), torch.randn(1, 2, 6, 16), grid=(3, 2)
    ),
    "tables of another encoding": lambda: rope().encode(X, rope(base=100.0).precompute(torch.arange(5), X)),
    "cross-attention without positions of keys": lambda: rope().attend(
        X, X[:, :, :3], X[:, :, :3], torch.arange(5)
    ),
    "an unknown order of axes": lambda: rope().attend(X, X, X, torch.arange(5), layout="nbhd"),
    "a learned table without a grid": lambda: create_encoding("learned", head_dim=16, heads=2),
    "rows and columns for a learned table of one axis": lambda: create_encoding(
        "learned", **ONE, grid=(6,)
    ).add(torch.randn(3, 6, 32), grid_positions(2, 3)),
    "a code of tokens in a layer": lambda: MultiheadAttention(32, 2, "learned"),
    "dropout where the name belongs": lambda: MultiheadAttention(32, 2, 0.1),
    "values of other tokens": lambda: MultiheadAttention(32, 2, "rope")(X[0], X[0], X[0, :, :3]),
    "a grid of no patches": lambda: grid_positions(3, 0),
    "an image shown on another number of axes": lambda: scale_positions(grid_positions(2, 2), (2,), (3, 3)),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_input_is_refused_in_one_line(case):
    with refused():
        WRONG[case]()
