"""Every encoding in one traced graph: torch.compile and torch.export give what eager execution gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from rollpe.encodings import ENCODINGS, Encoding, create_encoding, grid_positions
from rollpe.encodings.frequencies import dynamic, geometric, llama3, longrope
from rollpe.encodings.roll import on_ring
from rollpe.encodings.sdpa import SHORT

pytestmark = pytest.mark.filterwarnings("ignore:aliased offsets")

GRIDS = {1: (6,), 2: (2, 4)}
HEAD_DIM, HEADS = 12, 2


class Layer(nn.Module):
    """Tokens marked by the encoding, then attention with it."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, tokens: Tensor, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        v = self.encoding.add(tokens, positions).unflatten(2, (HEADS, -1)).transpose(1, 2)
        return self.encoding.attend(q, k, v, positions)


def build(name: str, **options) -> tuple[Layer, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    axes = 1 if name in ("rope", "xpos", "alibi+rope") else 2
    shape = {"head_dim": HEAD_DIM, "heads": HEADS, "axes": axes, "grid": GRIDS[axes]}
    encoding = create_encoding(name, **shape, **options).double()
    positions = grid_positions(*GRIDS[axes])[1:]
    tokens = torch.randn(2, len(positions) + 1, HEADS * HEAD_DIM, dtype=torch.double)
    q, k = torch.randn(2, 2, HEADS, len(positions) + 1, encoding.waves_in * HEAD_DIM, dtype=torch.double)
    return Layer(encoding), (tokens.requires_grad_(), q.requires_grad_(), k, positions)


RINGS = [
    ("twisted-roll", {"twist": 1 / 7}),
    ("roll", {"width": (2, 3)}),
    ("continuous-roll", {"nyquist": "twist"}),
]
FREQUENCIES = [
    ("axial-rope", {"frequencies": "arithmetic", "wavelengths": (2, 8)}),
    ("axial-rope", {"frequencies": tuple(1 / i for i in range(1, HEAD_DIM // 4 + 1))}),
    ("axial-rope", {"learn_frequencies": True}),
    ("rope", {"learn_frequencies": True, "frequencies": geometric(4)}),
    ("rope", {"frequencies": dynamic(geometric(4), factor=2.0, trained=4)}),
    ("rope", {"frequencies": llama3(geometric(4), factor=2.0, trained=4)}),
    ("rope", {"frequencies": longrope(geometric(4), trained=4, short=(1.0,) * 4, long=(2.0,) * 4)}),
    ("alibi+rope", {}),
]


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in ENCODINGS), *RINGS, *FREQUENCIES])
def test_nothing_is_left_on_the_cpu_when_everything_else_is_on_an_accelerator(
    name: str, options: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors without numbers know their device, so a mixture shows on a machine that has no accelerator."""
    layer, (tokens, q, k, positions) = build(name, **options)
    torch.compile(torch.sin, backend="eager")(q)  # a compiler that first looks at torch now keeps the patch
    monkeypatch.setattr(
        torch.compiler, "is_compiling", lambda: True
    )  # a tracer may not ask for numbers either
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in layer.modules():
            for key, parameter in list(module.named_parameters(recurse=False)):
                module.register_parameter(key, nn.Parameter(torch.empty(parameter.shape, device="cuda")))
        tokens, q, k, positions = (torch.empty(x.shape, device="cuda") for x in (tokens, q, k, positions))
        assert layer(tokens, q, k, positions).device.type == "cuda"
        assert layer.encoding.weights(q, k, positions).device.type == "cuda"
        assert on_ring(layer.encoding, q[..., :HEAD_DIM]).device.type == "cuda"
        try:
            assert layer.encoding.scores(q, k, positions).device.type == "cuda"
        except DataDependentOutputException:
            pass  # the slow reference may look at positions one by one


def worst(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


@pytest.mark.parametrize(
    ("name", "options", "backend"),
    [
        *((name, {}, "aot_eager") for name in (*ENCODINGS, "learned+roll")),
        *((name, options, "aot_eager") for name, options in (*RINGS, *FREQUENCIES)),
        ("roll", {}, "inductor"),
        ("twisted-roll", {}, "inductor"),
    ],
)
def test_one_graph_without_breaks_gives_the_same_values_and_gradients(
    name: str, options: dict, backend: str
) -> None:
    layer, inputs = build(name, **options)
    wanted = layer(*inputs)
    gradients = torch.autograd.grad(wanted.square().sum(), inputs[:2])
    torch._dynamo.reset()
    got = torch.compile(layer, fullgraph=True, backend=backend)(*inputs)
    assert worst(got, wanted) < 1e-12
    for one, other in zip(torch.autograd.grad(got.square().sum(), inputs[:2]), gradients, strict=True):
        assert worst(one, other) < 1e-11


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in ENCODINGS), *RINGS, *FREQUENCIES])
def test_the_exported_program_gives_the_same_values_for_other_positions_too(name: str, options: dict) -> None:
    layer, inputs = build(name, **options)
    program = torch.export.export(layer, inputs).module()
    for positions in (inputs[-1], inputs[-1].flip(0)):
        assert worst(program(*inputs[:-1], positions), layer(*inputs[:-1], positions)) < 1e-12


def test_one_exported_program_takes_few_and_many_keys_by_the_fused_kernel() -> None:
    layer = Layer(create_encoding("axial-rope", head_dim=HEAD_DIM, heads=HEADS))

    def inputs(tokens: int) -> tuple[Tensor, ...]:
        q, k = torch.randn(2, 1, HEADS, tokens, HEAD_DIM)
        return torch.randn(1, tokens, HEADS * HEAD_DIM), q, k, torch.rand(tokens, 2)

    n = torch.export.Dim("n", min=2, max=4 * SHORT)
    program = torch.export.export(layer, inputs(8), dynamic_shapes=({1: n}, {2: n}, {2: n}, {0: n}))
    assert any("scaled_dot_product" in str(node.target) for node in program.graph.nodes)
    for tokens in (SHORT, 2 * SHORT):
        assert worst(program.module()(*(x := inputs(tokens))), layer(*x)) < 1e-5


def test_an_exported_mask_leaves_no_layout_to_the_kernel() -> None:
    """torch.onnx decomposes it into operators of another layout if the mask has gradients."""
    layer, inputs = build("t5-bias")
    nodes = [str(node.target) for node in torch.export.export(layer, inputs).graph.nodes]
    (attends,) = (i for i, name in enumerate(nodes) if "scaled_dot_product" in name)
    assert nodes[attends + 1] == "aten.clone.default"
