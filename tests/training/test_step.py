"""The step: what is compiled changes nothing but speed, a new rate is no new program, nothing waits."""

from __future__ import annotations

import copy
import importlib
import itertools
from collections import OrderedDict

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

from refusals import raising, refused
from rollpe.encodings import ENCODINGS
from rollpe.encodings.roll import twin_state_dict
from rollpe.vit import create_vit
from rollpe_lab.records.record import RunId
from rollpe_lab.training import Recipe, TrainingError, compiling, create_optimizers, load_recipe, step, train
from rollpe_lab.training.compiling import EAGER, CompileMode, compile_mode, compiled, compiles
from rollpe_lab.training.data import load_dataset
from rollpe_lab.training.device import enough_memory
from rollpe_lab.training.models import CompiledModel, resolve
from rollpe_lab.training.run import CHECK_EVERY
from rollpe_lab.training.step import Step

CPU = torch.device("cpu")
OPTIMIZERS = ["adamw", "lamb", "sgd"]


def recipe(**changes) -> Recipe:
    return load_recipe("smoke", {"name": "test", "gradient_clip": 0.5, "depth": 1} | changes)


def vit(encoding: str = "none", **changes) -> nn.Module:
    torch.manual_seed(0)
    shape = {"image_size": 8, "channels": 1, "classes": 10, "size": "nano", "patch_size": 2, "depth": 1}
    return create_vit(encoding, **shape | changes)


class Line(nn.Sequential):
    """A model that compiles in seconds."""

    def no_weight_decay(self) -> set[str]:
        return set()


def batches(count: int):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield torch.randn(8, 1, 8, 8, generator=generator), torch.randint(10, (8,), generator=generator)


def run(recipe: Recipe, mode: CompileMode, steps: int = 6) -> tuple[list[float], nn.Module]:
    """Losses and model after some steps at falling rates.

    In float64: Adam turns the rounding of a gradient near zero into a step of full length.
    """
    model = vit().double()
    step = Step(model, recipe, create_optimizers(model, recipe, mode), mode)
    losses = [step(x.double(), y, 0.01 / (i + 1)).item() for i, (x, y) in enumerate(batches(steps))]
    return losses, model


@pytest.fixture
def programs(monkeypatch):
    """Dynamo without a compiler behind it; the list grows by one graph for each program."""
    seen = []
    make = torch.compile

    def backend(graph, _inputs):
        seen.append(graph)
        return graph.forward

    def compile_without_compiler(function, mode=None, dynamic=None):
        return make(function, backend=backend, dynamic=dynamic)

    monkeypatch.setattr(torch, "compile", compile_without_compiler)
    yield seen
    torch.compiler.reset()


@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, "muon"])
@pytest.mark.parametrize("used", [False, True])
def test_a_step_goes_on_from_a_saved_state_whatever_it_did_before(optimizer, used):
    asked, data = recipe(optimizer=optimizer), list(batches(6))

    def made() -> tuple[nn.Module, Step]:
        model = vit()
        return model, Step(model, asked, create_optimizers(model, asked), EAGER)

    model, step = made()
    for x, y in data[:3]:
        step(x, y, 0.01)
    weights, state = copy.deepcopy((model.state_dict(), step.state()))
    expected = [step(x, y, 0.01).item() for x, y in data[3:]]
    other, later = made()
    if used:
        later(*data[5], 0.1)
    other.load_state_dict(weights)
    later.load(state)
    assert [later(x, y, 0.01).item() for x, y in data[3:]] == expected


@pytest.fixture
def accelerator(monkeypatch):
    """A CPU whose update is made as that of an accelerator: on all parameters, with counters of its own."""
    monkeypatch.setattr(step, "_takes_many", lambda place: True)
    adam = importlib.import_module("torch.optim.adam")
    monkeypatch.setattr(adam, "_get_capturable_supported_devices", lambda *_, **__: ["cpu"])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("place", ["cpu", "accelerator"])
def test_a_compiled_step_is_the_eager_one_and_the_update_of_an_accelerator_one_program(
    optimizer, place, programs, request
):
    if place == "accelerator":
        request.getfixturevalue(place)
    asked = recipe(optimizer=optimizer)
    eager, plain = run(asked, EAGER)
    fast, model = run(asked, CompileMode(gradient="default", update=True))
    assert len(programs) == 2 if place == "accelerator" else programs
    assert fast == pytest.approx(eager, rel=1e-5)
    for (name, a), b in zip(model.named_parameters(), plain.parameters(), strict=True):
        if name.endswith("qkv.bias"):  # no key bias changes a softmax: Adam follows what rounding leaves
            a, b = (torch.cat((x.chunk(3)[0], x.chunk(3)[2])) for x in (a, b))
        torch.testing.assert_close(a, b, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("older", [False, True])
def test_lamb_of_an_older_timm_has_a_loop_for_all(older, monkeypatch, accelerator):
    given = {}

    class Newer(timm.optim.Lamb):
        def __init__(self, groups, lr, betas, max_grad_norm, foreach=None):
            given["foreach"] = foreach
            super().__init__(groups, lr=lr, betas=betas, max_grad_norm=max_grad_norm)

    class Older(timm.optim.Lamb):
        def __init__(self, groups, lr, betas, max_grad_norm):
            super().__init__(groups, lr=lr, betas=betas, max_grad_norm=max_grad_norm)

    monkeypatch.setattr("rollpe_lab.training.step.Lamb", Older if older else Newer)
    create_optimizers(vit(), recipe(optimizer="lamb"), CompileMode(gradient="default", update=True))
    assert given == ({} if older else {"foreach": True})


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_is_two_programs_for_every_model_however_many_there_are(optimizer, programs):
    """Dynamo gives up after eight programs to a code object, as torch sets it; a sweep trains more models."""
    asked, mode = recipe(optimizer=optimizer), CompileMode(gradient="default", update=True)
    counts = [0]
    with torch._dynamo.config.patch(recompile_limit=8):
        for _ in range(10):
            model = Line(nn.Flatten(), nn.Linear(64, 10))
            step = Step(model, asked, create_optimizers(model, asked, mode), mode)
            for x, y in batches(3):
                step(x, y, 0.01)
            counts.append(len(programs))
    assert [b - a for a, b in itertools.pairwise(counts)] == [2] * 10
    assert any("norm" in str(node.target) for node in programs[1].graph.nodes), "clipping is in it"


class Waits(TorchDispatchMode):
    """Counts the operations that read a number from the device, and so wait for it."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func in (
            torch.ops.aten._local_scalar_dense.default,
            torch.ops.aten.nonzero.default,
            torch.ops.aten.equal.default,
        )
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_reads_nothing_from_the_device(optimizer):
    asked = recipe(optimizer=optimizer)
    model = vit()
    step = Step(model, asked, create_optimizers(model, asked), EAGER)
    (x, y), (x2, y2) = batches(2)
    step(x, y, 0.01)
    with Waits() as waits:
        step(x2, y2, 0.01)
    # LAMB keeps its counter of steps on the host, one to a group of parameters
    assert waits.count <= (2 if optimizer == "lamb" else 0)


@pytest.mark.parametrize(
    ("optimizer", "low", "high"), [("sgd", 0, 1e-4), ("muon", 0, 0.1), ("adamw", 0.5, 2), ("lamb", 0.5, 2)]
)
def test_which_optimizers_keep_rollpe_and_its_twin_one_model(optimizer, low, high):
    """How far weights come apart, in units of how far they move. Muon rounds its steps to bfloat16."""
    wanted = recipe(optimizer=optimizer, momentum=0.9, weight_decay=0.1)
    roll, twin = (vit(name, qkv_bias=False) for name in ("roll", "roll-twin"))
    encoding = twin.attentions[0].encoding
    start = twin_state_dict(roll.state_dict(), encoding)
    twin.load_state_dict(start)
    for model in (roll, twin):
        step = Step(model, wanted, create_optimizers(model, wanted), EAGER)
        for x, y in batches(3):
            step(x, y, 0.02)
    name, rows = "blocks.0.attn.qkv.weight", slice(0, 2 * 96)  # of queries and keys
    before, roll, twin = (
        state[name][rows]
        for state in (start, twin_state_dict(roll.state_dict(), encoding), twin.state_dict())
    )
    assert low <= (roll - twin).norm() / (roll - before).norm() < high


def test_the_gradient_is_clipped_before_the_update():
    asked, model = recipe(optimizer="sgd", gradient_clip=0.01, weight_decay=0), vit()
    before = [p.detach().clone() for p in model.parameters()]
    (x, y) = next(iter(batches(1)))
    Step(model, asked, create_optimizers(model, asked), EAGER)(x, y, 1.0)
    moved = torch.cat([(p - b).flatten() for p, b in zip(model.parameters(), before, strict=True)]).norm()
    # Nesterov's first move is (1 + momentum) times the gradient
    assert moved.item() == pytest.approx((1 + asked.momentum) * 0.01, rel=1e-3)


@pytest.mark.parametrize("labels", ["classes", "mixed", "characters"])
def test_the_gradient_of_a_batch_in_pieces_is_that_of_the_whole(labels, monkeypatch):
    """Of images with one class or a mixture, and of text, whose targets are one line of characters."""
    monkeypatch.setattr(step, "PIECE", 4)
    inputs, targets = torch.randn(12, 3, dtype=torch.double), torch.randint(5, (12,))
    model = Line(nn.Linear(3, 5)).double()
    if labels == "mixed":
        targets = torch.rand(12, 5, dtype=torch.double).softmax(-1)
    if labels == "characters":
        inputs, targets = inputs[:, None].expand(12, 2, 3), torch.randint(5, (24,))
    settings = recipe(gradient_clip=None, label_smoothing=0.1, optimizer="sgd")
    moved = []
    for in_pieces in (True, False):
        trained = copy.deepcopy(model)
        made = Step(trained, settings, create_optimizers(trained, settings, EAGER), EAGER)
        assert made.in_pieces
        made.in_pieces = in_pieces
        loss = made(inputs, targets, 0.1)
        moved.append((loss.item(), *trained.parameters()))
    assert moved[0][0] == pytest.approx(moved[1][0], rel=1e-6)
    torch.testing.assert_close(moved[0][1:], moved[1][1:])
    assert not torch.equal(moved[0][1], next(model.parameters()))


def test_the_penalty_moves_the_weights_but_is_not_told():
    asked = recipe()
    x, y = next(iter(batches(1)))
    model = vit()
    expected = F.cross_entropy(model(x), y, label_smoothing=asked.label_smoothing).item()
    weight = next(p for p in model.parameters() if p.ndim == 2)
    step = Step(
        model, asked, create_optimizers(model, asked), EAGER, penalty=lambda: 1e3 * weight.pow(2).sum()
    )
    size = weight.norm().item()
    assert step(x, y, 0.001).item() == pytest.approx(expected, rel=1e-5)
    assert weight.norm().item() < size


def test_what_is_compiled_depends_on_recipe_and_device():
    cuda = torch.device("cuda")
    auto, never = (recipe(compile=c) for c in ("auto", False))
    assert compile_mode(auto, CPU) == compile_mode(never, cuda) == EAGER
    assert compile_mode(auto, cuda) == CompileMode(gradient="reduce-overhead", update=True)
    assert compile_mode(recipe(compile=True), CPU) == CompileMode(gradient="default")
    assert not compile_mode(recipe(optimizer="muon"), cuda).update


def test_where_the_compiler_does_not_work_auto_is_eager_and_says_why(monkeypatch):
    broken = raising(RuntimeError("Cannot find a working triton installation.\nmore"))
    place = torch.device("cuda")
    compiles.cache_clear()
    monkeypatch.setattr(torch, "compile", broken)
    with pytest.warns(UserWarning, match="nothing is compiled, .* a working triton installation") as told:
        resolved = [resolve(recipe(compile=c), place, 0).compile for c in ("auto", "auto", True, False)]
    assert resolved == [False, False, True, False] and len(told) == 1
    compiles.cache_clear()
    monkeypatch.setattr(torch, "compile", lambda *_, **__: torch.ones_like)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: torch.zeros(8))
    assert resolve(recipe(compile="auto"), place, 0).compile is True
    compiles.cache_clear()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("backend='inductor' raised:\nOutOfMemoryError: CUDA out of memory."),
        RuntimeError("CUDA error: out of memory\nmore"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_memory_that_runs_out_is_one_line_wherever_it_does(error):
    with refused("out of memory at batch_size=64", kind=TrainingError), enough_memory(recipe()):
        raise error


def test_a_run_compiled_on_the_cpu_has_the_record_of_an_eager_one(programs):
    settings = {"max_steps": CHECK_EVERY + 1, "epochs": 3, "train_images": 640, "held_out": 150, "depth": 1}
    quiet = {"device": "cpu", "checkpoints": None, "progress": False}
    eager, fast = (
        train(load_recipe("smoke", settings | {"compile": c}), "roll", **quiet) for c in (False, True)
    )
    assert programs and fast.config["compile"] is True
    for a, b in zip(eager.history, fast.history, strict=True):
        assert b.train_loss == pytest.approx(a.train_loss, rel=1e-4)
        assert b.held_out_loss == pytest.approx(a.held_out_loss, rel=1e-4)
    assert fast.test.loss == pytest.approx(eager.test.loss, rel=1e-4)


def test_inductor_compiles_a_step():
    losses = []
    for mode in (EAGER, CompileMode(gradient="default", update=True)):
        torch.manual_seed(0)
        model, asked = Line(nn.Flatten(), nn.Linear(64, 10)), recipe()
        step = Step(model, asked, create_optimizers(model, asked, mode), mode)
        losses.append([step(x, y, 0.01).item() for x, y in batches(3)])
    torch.compiler.reset()
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


# Kernels of attention


@pytest.mark.parametrize(("kernel", "encoding"), [("flash", "none"), ("math", "none"), ("math", "t5-bias")])
def test_a_kernel_of_attention_changes_the_gradient_only_by_rounding(kernel, encoding, programs):
    """The choice is a call in the graph, with the kernel's name; "auto" leaves none."""
    moved, chosen = {}, {}
    for attention in ("auto", kernel):
        for mode in (None, "default"):
            programs.clear()
            asked, model = recipe(attention=attention, optimizer="sgd"), vit(encoding)
            step = Step(model, asked, create_optimizers(model, asked), CompileMode(gradient=mode))
            for x, y in batches(2):
                step(x, y, 0.1)
            moved[attention, mode] = torch.cat([p.detach().flatten() for p in model.parameters()])
            nodes = [node for graph in programs for node in graph.graph.nodes]
            chosen[attention, mode] = [n.args[0] for n in nodes if "_backend_from_string" in str(n.target)]
    for weights in moved.values():
        torch.testing.assert_close(weights, moved["auto", None], rtol=1e-5, atol=1e-6)
    assert chosen["auto", "default"] == [] and chosen[kernel, "default"][0] == compiling.KERNELS[kernel].name


def test_a_kernel_that_cannot_run_is_one_line_before_the_first_step():
    asked, model = recipe(attention="cudnn"), vit("t5-bias")
    with refused("'cudnn' cannot run 't5-bias' on cpu in float32"):
        Step(model, asked, create_optimizers(model, asked), EAGER)
    with refused("'flash' cannot run 't5-bias'"):  # its bias has a gradient
        step.predictor(model, asked.model_copy(update={"attention": "flash"}), CPU)
    with refused("cannot run 'none' on cpu in bfloat16"):
        step.predictor(Line(nn.Flatten()), asked.model_copy(update={"precision": "bfloat16"}), CPU)


# bfloat16


@pytest.mark.parametrize(
    "encoding", [*(name for name in ENCODINGS if name not in ("rope", "xpos")), "learned+roll"]
)
@pytest.mark.filterwarnings("ignore:aliased offsets")
def test_products_in_bfloat16_move_the_weights_almost_as_float32_does(encoding):
    model = vit(encoding, image_size=(8, 12), depth=2, registers=1, layer_scale=0.1)
    x, y = torch.randn(8, 1, 8, 12), torch.randint(10, (8,))
    moved = []
    for precision in ("float32", "bfloat16"):
        changes = {"precision": precision, "gradient_clip": None, "momentum": 1e-9, "weight_decay": 0.0}
        asked, own = recipe(optimizer="sgd", **changes), copy.deepcopy(model)
        Step(own, asked, create_optimizers(own, asked), EAGER)(x, y, 1.0)
        pairs = zip(model.parameters(), own.parameters(), strict=True)
        moved.append(torch.cat([(a - b).detach().flatten() for a, b in pairs]))
    exact, cast = moved
    assert (cast - exact).norm() < 0.01 * exact.norm() and not torch.equal(cast, exact)


# One step for several seeds


def small(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = {"flat": nn.Flatten(), "blocks": nn.Linear(64, 16), "gelu": nn.GELU(), "head": nn.Linear(16, 10)}
    return Line(OrderedDict(layers))


@pytest.mark.parametrize(
    ("optimizer", "mode"), [*((name, None) for name in (*OPTIMIZERS, "muon")), ("lamb", "default")]
)
def test_after_a_reset_a_step_is_a_new_one_bit_for_bit_and_compiles_nothing(optimizer, mode, request):
    if (optimizer, mode) == ("lamb", "default"):  # its kernels take a compiler half a minute
        request.getfixturevalue("programs")
    asked = recipe(optimizer=optimizer)
    mode = CompileMode(gradient=mode, update=bool(mode))
    rehearsal = next(iter(batches(1)))

    def begun(seed: int) -> tuple[nn.Module, Step]:
        model = small(seed)
        step = Step(model, asked, create_optimizers(model, asked, mode), mode)
        step.precompile(*rehearsal)
        for ours, before in zip(model.parameters(), small(seed).parameters(), strict=True):
            assert torch.equal(ours, before) and ours.requires_grad and ours.grad is None
        return model, step

    def trained(model: nn.Module, step: Step) -> list[torch.Tensor]:
        losses = [step(x, y, 0.01 / (i + 1)).clone() for i, (x, y) in enumerate(batches(5))]
        return [*losses, *model.parameters()]

    model, step = begun(0)
    trained(model, step)
    tensors = [*model.parameters(), *step._states()]
    addresses = [t.data_ptr() for t in tensors]
    model.load_state_dict(small(1).state_dict())
    step.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        again = trained(model, step)
    assert [t.data_ptr() for t in (*model.parameters(), *step._states())] == addresses
    for ours, fresh in zip(again, trained(*begun(1)), strict=True):
        assert torch.equal(ours, fresh)
    torch.compiler.reset()


def test_a_program_on_disk_is_not_taken_for_a_function_whose_backward_differs(monkeypatch, tmp_path):
    """Its forward pass, and so all that a name would tell, is the same."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x, seen = torch.ones(4, requires_grad=True), []
    for factor in (3, 3, 5):

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, gradient, factor=factor):
                return factor * gradient

        counters.clear()
        compiled(lambda x, double=Double: double.apply(x).sum(), "default")(x).backward()
        seen.append((x.grad[0].item(), counters["aot_autograd"]["autograd_cache_hit"]))
        x.grad = None
        torch.compiler.reset()
    assert seen == [(3, 0), (3, 1), (5, 0)]


@pytest.mark.parametrize("encoding", ["learned", "multiplexed-roll", "t5-bias"])
def test_an_attention_with_wrong_gradients_is_refused_and_a_right_one_is_not(encoding, monkeypatch):
    """Here one whose scores have no gradient in bfloat16, the forward pass being right."""
    asked = resolve(recipe(precision="bfloat16", drop_path=0.1, depth=3), CPU, held_out=0)
    run_id = RunId(recipe="test", encoding=encoding, encoding_options={}, seed=0)
    model = CompiledModel(asked, run_id, load_dataset(asked.data, "data"), CPU)
    before = copy.deepcopy(model.model.state_dict())
    model.check_gradient(64)
    assert all(torch.equal(before[name], value) for name, value in model.model.state_dict().items())
    assert all(p.grad is None for p in model.model.parameters())

    right = F.scaled_dot_product_attention

    def wrong(q, k, v, **settings):
        q, k = (x.detach() if x.dtype == torch.bfloat16 else x for x in (q, k))
        return right(q, k, v, **settings)

    monkeypatch.setattr(F, "scaled_dot_product_attention", wrong)
    with pytest.raises(TrainingError, match="has a cosine of"):
        model.check_gradient(64)
