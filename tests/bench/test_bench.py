"""The benchmark measures what it says, at a shape small enough for any machine."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from functools import partial

import pytest
import torch
from click.testing import CliRunner
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rollpe.bench import Benchmark, alone, benchmark, read_benchmarks, run, timing, variants
from rollpe.bench.timing import Trial, interleaved, matmul_peak
from rollpe.bench.variants import VARIANTS
from rollpe.cli import cli
from rollpe.errors import InputError
from rollpe.training import Recipe, load_recipe
from rollpe.training.compiling import CompileMode
from rollpe.vit import SIZES, VisionTransformer, create_vit
from shared import ROOT

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def report() -> Benchmark:
    return benchmark(
        device="cpu",
        size="nano",
        batch=2,
        encodings=["axial-rope", "roll"],
        compiled=False,
        rounds=3,
        scaling=False,
    )


def test_every_call_is_timed_once_a_round_and_the_slow_one_is_slower():
    called = {"fast": 0, "slow": 0}

    def call(name: str, seconds: float):
        def run() -> None:
            called[name] += 1
            time.sleep(seconds)

        return run

    times = interleaved({"fast": call("fast", 0.0), "slow": call("slow", 0.02)}, 4, CPU)
    assert {name: len(t) for name, t in times.items()} == {"fast": 4, "slow": 4}
    assert called == {"fast": 5, "slow": 5}, "one call each before the clock starts"
    assert min(times["slow"]) > max(times["fast"])


def test_on_cuda_five_calls_share_one_wait_for_the_device(monkeypatch):
    """Training, too, runs ahead of the device; a wait after each step would hide what that gains."""
    waits, calls = [], []
    monkeypatch.setattr(timing, "synchronize", waits.append)
    times = interleaved({"a": lambda: calls.append(time.sleep(0.01))}, 2, torch.device("cuda"))["a"]
    assert len(calls) in (11, 15) and len(waits) in (4, 6)
    assert all(0.01 <= t < 0.05 for t in times), "a call's share"


def test_a_trial_is_ready_after_the_two_steps_that_compile(monkeypatch):
    """The first update is eager, so its compiled form is made in the second step."""
    steps = []

    def create_step(*_: object, **__: object) -> object:
        return lambda *_: steps.append(time.sleep(0.05))

    monkeypatch.setattr(timing, "Step", create_step)
    recipe = load_recipe("strong", {"compile": False, "size": "nano", "batch_size": 2})
    trial = Trial(
        partial(create_vit, "none", image_size=16, size="nano", depth=1), recipe, CompileMode(), CPU, 16
    )
    assert len(steps) == 2 and trial.ready_seconds >= 0.1


def test_the_reference_costs_exactly_itself(report):
    assert [t.name for t in report.encodings] == ["none", "axial-rope", "roll"]
    assert report.encodings[0].ratio == 1.0


def test_timms_models_stand_beside_ours_with_as_many_parameters_and_the_operations_we_leave_out(report):
    ours = {t.name: t for t in report.encodings}
    unread = 6 * 9 * SIZES["nano"].width ** 2 * 64 * report.batch / 1e9  # the last MLP and projection
    assert [t.name for t in report.timm] == ["none", "axial-rope"]
    for theirs in report.timm:
        assert theirs.parameters == pytest.approx(ours[theirs.name].parameters, rel=0.01)
        assert theirs.gflop == pytest.approx(ours[theirs.name].gflop + unread, rel=0.01)


def test_more_patches_take_longer_in_batches_with_fewer_images():
    changes = {"compile": False, "precision": "float32", "size": "nano", "depth": 1, "batch_size": 2}
    comparison = run.Comparison(
        load_recipe("strong", changes), ["none", "lie", "roll"], CPU, 2, timing.TimeBudget(None)
    )
    scaling = comparison.time_scaling()
    shapes = [(s.patches, s.batch, s.encoding) for s in scaling]
    assert shapes == [(*s, name) for s in ((64, 2), (256, 1), (1024, 1)) for name in ("none", "roll")]
    assert min(s.median for s in scaling[4:]) > max(s.median for s in scaling[:2])
    assert not comparison.failed


def test_timms_models_are_also_timed_in_a_plain_step(report):
    assert [t.name for t in report.plain] == ["none", "axial-rope"]
    assert all(
        t.gflop == pytest.approx(theirs.gflop) for t, theirs in zip(report.plain, report.timm, strict=True)
    )


def test_rotations_alone_are_timed_beside_functions_that_turn_alike(report):
    assert [(a.encoding, a.other) for a in report.alone] == [
        ("axial-rope", "timm"),
        ("mixed-rope", "timm"),
        ("rope, half layout", "rotate_half"),
    ]
    assert all(a.ours > 0 and a.theirs > 0 and a.ratio > 0 and not a.compiled for a in report.alone)
    assert "| rope, half layout | rotate_half | eager |" in report.to_markdown()
    recipe = load_recipe("strong", {"size": "nano", "batch_size": 2, "precision": "float32"})
    q, k = alone.queries_and_keys(recipe, CPU)
    for encoding, _, ours, theirs in alone.rotations(recipe, CPU):
        for x, y in zip(ours(q, k), theirs(q, k), strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype
            torch.testing.assert_close(x.norm(dim=-1), y.norm(dim=-1))
            if encoding != "mixed-rope":  # its frequencies are drawn at random
                torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)


def test_augmentation_can_only_slow_a_step_down_and_is_timed_both_ways(report):
    for t in report.encodings:
        assert 0 < t.images_per_second_augmented < t.images_per_second
    one, many = report.variants
    assert (one.of, many.of, many.against) == ("augmentation", "augmentation", one.name)
    assert many.milliseconds == report.augmentation_milliseconds < one.milliseconds


def test_operations_are_those_of_the_matrix_products(report):
    """Forward and backward of a ViT cost six operations for each weight and token, attention's core aside."""
    none = report.encodings[0]
    estimate = 6 * none.parameters * 65 * report.batch / 1e9
    assert estimate < 1.1 * none.gflop < 1.4 * estimate


def test_operations_that_all_images_share_count_once_a_step():
    """Learned rotations depend on positions, not on images."""
    recipe = load_recipe("strong", {"compile": False, "size": "nano", "batch_size": 6})

    def gflop(batch: int, name: str) -> float:
        changed = recipe.model_copy(update={"batch_size": batch})
        build = partial(create_vit, name, image_size=32, size="nano", depth=1)
        return Trial(build, changed, None, CPU, 32).gflop

    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model = create_vit("lie", image_size=32, size="nano", depth=1)
        model(torch.randn(6, 3, 32, 32)).sum().backward()
    assert gflop(6, "lie") == pytest.approx(counter.get_total_flops() / 1e9, rel=1e-6)
    assert gflop(6, "lie") < 3 * gflop(1, "lie")
    assert gflop(6, "none") == pytest.approx(6 * gflop(1, "none"), rel=1e-3)
    assert gflop(6, "t5-bias") == gflop(6, "none"), "however attention is computed"


def test_a_matrix_product_does_not_exceed_the_measured_peak_by_much():
    assert matmul_peak(CPU, "float32", side=256) > 0.1


def test_the_report_comes_back_from_disk_as_it_was(report, tmp_path):
    path = report.write(tmp_path)
    assert read_benchmarks(tmp_path) == [report]
    later = report.provenance.model_copy(update={"started": "2100-01-01T00:00:00+00:00"})
    other = report.model_copy(update={"provenance": later}).write(tmp_path)
    assert other.stem.endswith("-2100-01-01T0000") and read_benchmarks(tmp_path)[0] == report
    text = path.with_suffix(".md").read_text()
    assert "`axial-rope`" in text and report.environment.device_name in text


@pytest.mark.parametrize(
    ("recipe", "overrides", "encodings", "budget", "default"),
    [
        ("paper", {"attention": "math", "drop_path": "0.2"}, ["roll", "shaw"], 600.0, False),
        ("strong", {}, None, None, True),
    ],
)
def test_the_recorded_command_asks_for_the_same_benchmark(
    monkeypatch, tmp_path, recipe, overrides, encodings, budget, default
):
    options = {"recipe": recipe, "overrides": overrides, "encodings": encodings, "budget": budget}
    options |= {"device": "cpu", "size": "nano", "batch": 8, "rounds": 4}
    options |= dict.fromkeys(("compiled", "timm", "scaling"), default)
    options |= dict.fromkeys(("variants", "profiles"), not default)
    words = shlex.split(run.command_line(options))
    if options["profiles"]:
        words += ["--records", str(tmp_path)]
    received = {}

    def stop(**given):
        received.update(given)
        raise InputError("stop")

    monkeypatch.setattr(run, "benchmark", stop)
    CliRunner().invoke(cli, words[1:])
    assert words[:2] == ["rollpe", "bench"] and received == options


def test_profiles_are_files_and_need_a_folder():
    result = CliRunner().invoke(cli, ["bench", "--profile"])
    assert result.exit_code == 2 and "--records" in result.output


@pytest.mark.parametrize("content", ["", "{", "[]", '{"size": 3}', "\0", '{"size": "nano", "size": "tiny"}'])
def test_a_damaged_benchmark_is_one_line(tmp_path, content):
    (tmp_path / "cpu.json").write_text(content)
    with pytest.raises(InputError, match=r"cpu\.json: damaged") as error:
        read_benchmarks(tmp_path)
    assert "\n" not in str(error.value)


def test_committed_benchmarks_of_any_age_are_read():
    folder = ROOT / "data" / "benchmarks"
    benchmarks = read_benchmarks(folder)
    assert len(benchmarks) == len(list(folder.glob("*.json"))) > 0
    assert all(t.ready_seconds > 0 for b in benchmarks for t in b.encodings)


def test_every_variant_is_compared_with_an_earlier_one_and_says_what_is_expected():
    names = [v.name for v in VARIANTS]
    assert len(set(names)) == len(names) and names[0] == VARIANTS[0].against
    for i, v in enumerate(VARIANTS[1:], 1):
        assert v.against in names[:i] and v.description and len(v.expected) == 2
        assert all(0 < low <= high for low, high in filter(None, v.expected))


def test_under_a_budget_what_only_cuda_has_is_prepared_first():
    names = [v.name for v in sorted(VARIANTS, key=lambda v: v.priority)]
    assert names[0] == "CUDA graphs" and names.index("64 tokens") < names.index("eager")
    assert names[-1] == "max-autotune", "the slowest to be ready"


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.settings], ids=lambda v: v.name)
def test_every_changed_recipe_makes_a_step(variant):
    recipe = load_recipe("strong", {"compile": False, "size": "nano", "depth": 1, "batch_size": 2})
    recipe = recipe.model_copy(update={"precision": "float32"})
    variant = replace(variant, mode=CompileMode())
    if variant.settings.get("attention") in ("cudnn", "efficient"):  # CUDA has them
        with pytest.raises(InputError, match="cannot run"):
            variant.trial(recipe, CPU)
    else:
        assert variant.trial(recipe, CPU).ready_seconds > 0


def test_a_benchmark_times_the_model_and_the_step_that_training_makes(monkeypatch):
    """With drop path and mixed targets."""
    steps = []

    class Recorded(timing.Step):
        def __init__(self, model, recipe, *args, **kwargs) -> None:
            steps.append((model, recipe))
            super().__init__(model, recipe, *args, **kwargs)

    monkeypatch.setattr(timing, "Step", Recorded)
    quick = {"device": "cpu", "compiled": False, "rounds": 2, "timm": False, "scaling": False, "batch": 2}
    report = benchmark(recipe="mini", encodings=["none"], **quick)
    model, recipe = steps.pop()
    assert recipe.batch_size == 2 and model.global_pool == "avg"
    assert report.recipe == "mini" and not report.timm and not report.plain and not report.missing
    benchmark(encodings=["none"], **quick)
    model, _ = steps.pop()
    assert model.global_pool == "token" and model.blocks[-1].drop_path1.drop_prob == pytest.approx(0.1)
    with pytest.raises(InputError, match="'quick' trains on digits"):
        benchmark(recipe="quick", **quick)


@pytest.mark.parametrize("pool", ["token", "avg"])
@pytest.mark.parametrize("encoding", timing.TIMM)
def test_timms_models_take_the_shape_of_the_recipe(encoding, pool):
    changes = {"size": "nano", "depth": 2, "pool": pool, "drop_path": 0.2, "dropout": 0.1, "layer_scale": 0.1}
    recipe = load_recipe("strong", changes)
    ours, theirs = timing.our_model(recipe, encoding), timing.timm_model(recipe, encoding)
    count = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    assert count[0] == pytest.approx(count[1], rel=0.01)
    assert theirs(torch.rand(2, 3, 32, 32)).shape == (2, 100)
    for model in (ours, theirs):
        assert model.blocks[1].drop_path1.drop_prob == pytest.approx(0.2)


def test_variants_are_timed_where_they_can_run_and_named_where_they_cannot(monkeypatch):
    selected = [v for v in VARIANTS if v.mode.graphs or (v.mode.gradient is None and not v.settings)]
    monkeypatch.setattr(variants, "VARIANTS", selected)
    report = benchmark(
        device="cpu",
        size="nano",
        batch=2,
        encodings=["none"],
        compiled=False,
        rounds=2,
        scaling=False,
        variants=True,
    )
    timings = {v.name: v for v in report.variants if v.of == "step"}
    assert list(timings) == [v.name for v in selected]
    assert timings["eager"].gain == 1.0 and timings["twice the batch"].batch == 4
    for v in selected:
        if v.mode.graphs:
            assert timings[v.name].gain is None and "not available here" in timings[v.name].missing
        else:
            assert timings[v.name].gain
    assert "not available here" in report.to_markdown()


@pytest.mark.parametrize(
    "variant", [v for v in VARIANTS if v.change is not variants.unchanged], ids=lambda v: v.name
)
def test_another_way_to_the_same_end_ends_there(variant):
    """A timing of two ways says nothing if they compute different things."""
    results = []
    for change in (variants.unchanged, variant.change):
        torch.manual_seed(0)
        model = create_vit(variant.encoding, image_size=16, size="nano", depth=2).double()
        state = {name: torch.randn_like(p) / 8 for name, p in model.named_parameters()}
        change(model)
        model.double().load_state_dict(state, strict=False)
        images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)).double()
        logits = model(images)
        logits.square().sum().backward()
        results.append([logits, *(p.grad for p in model.parameters() if p.grad is not None)])
    torch.testing.assert_close(*results)


def test_channels_last_changes_no_update():
    """A fused kernel pairs a weight with its averages by memory order, a loop by index."""
    variant = next(v for v in VARIANTS if v.channels_last)
    recipe = load_recipe("strong", {"compile": False, "size": "nano", "batch_size": 4})

    def build(recipe: Recipe, encoding: str) -> VisionTransformer:
        torch.manual_seed(0)
        return create_vit(encoding, image_size=16, size="nano", depth=1)

    def weight_after_three_steps(optimizer: str) -> torch.Tensor:
        mode = CompileMode(optimizer=optimizer)
        trial = replace(variant, mode=mode).trial(recipe, CPU, build, 16)
        for _ in range(3):
            trial.step(trial.images, trial.targets, 1e-2)
        weight = trial.model.patch_embed.proj.weight.detach()
        for tensor in (trial.images, weight):
            assert tensor.is_contiguous(memory_format=torch.channels_last)
            assert not tensor.is_contiguous()
        return weight

    assert_close = torch.testing.assert_close
    assert_close(weight_after_three_steps("fused"), weight_after_three_steps("single"), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("budget", "prepared"), [(None, 4), (100.0, 2), (0.0, 1)])
def test_a_budget_begins_nothing_that_would_be_ready_too_late(monkeypatch, budget, prepared):
    """Each model takes 20 s of a clock that moves only then; half of the budget is for them."""
    now = [1000.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def build() -> str:
        now[0] += 20
        return "ready"

    builders = dict.fromkeys("abcd", build)
    time_budget = timing.TimeBudget(budget)
    assert list(time_budget.prepare(builders, share=0.5)) == list("abcd")[:prepared]
    if budget == 0.0:
        assert time_budget.prepare(builders, share=1.0) == {}


def test_what_takes_longer_than_others_needs_more_of_a_budget(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def takes(seconds: float):
        return lambda: now.__setitem__(0, now[0] + seconds)

    time_budget = timing.TimeBudget(300.0)
    builders = {"first": takes(120), "second": takes(20), "third": takes(20), "slow": takes(100)}
    ready = time_budget.prepare(builders, share=0.8, costs={"slow": 6.0})
    assert list(ready) == ["first", "second", "third"], "the first also starts the compiler"
    again = dict.fromkeys(["quick", "usual"], takes(70))
    ready = time_budget.prepare(again, share=0.8, costs={"quick": 0.2})
    assert list(ready) == ["quick"], "it took as long as 350 s of what is usual"


def test_rounds_end_with_the_budget_but_there_are_two(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def call() -> None:
        now[0] += 1

    def rounds(deadline: float) -> int:
        now[0] = 0.0
        return len(interleaved({"a": call, "b": call}, 20, CPU, deadline=deadline)["a"])

    assert [rounds(deadline) for deadline in (0.0, 11.0, 12.0, 1e9)] == [2, 4, 5, 20]


def out_of_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.\nA second line | a third")


def test_what_cannot_be_made_is_named_and_the_rest_is_timed():
    failed = {}
    builders = {"a": lambda: "ready", "b": out_of_memory, "c": lambda: "ready"}
    assert list(timing.TimeBudget(None).prepare(builders, 1.0, failed)) == ["a", "c"]
    assert failed == {"b": "OutOfMemoryError: CUDA out of memory."}
    with pytest.raises(torch.OutOfMemoryError):
        timing.TimeBudget(None).prepare(builders, 1.0)


def test_what_breaks_while_it_is_timed_is_named_and_the_rest_keeps_its_rounds():
    calls, failed = [], {}

    def breaks_later() -> None:
        calls.append("b")
        if len(calls) == 3:
            raise ValueError("one | two")

    times = interleaved({"a": lambda: None, "b": breaks_later, "c": lambda: None}, 5, CPU, failed)
    assert {name: len(t) for name, t in times.items()} == {"a": 5, "c": 5} and len(calls) == 3
    assert failed == {"b": "ValueError: one ¦ two"}
    with pytest.raises(torch.OutOfMemoryError):
        interleaved({"a": out_of_memory}, 2, CPU)


def test_a_report_names_what_broke(monkeypatch, tmp_path):
    broken = replace(VARIANTS[0], name="broken", change=lambda model: out_of_memory())
    built_on_it = replace(VARIANTS[0], name="built on it", against="broken")
    monkeypatch.setattr(variants, "VARIANTS", [VARIANTS[0], broken, built_on_it])
    monkeypatch.setattr(run, "timm_model", lambda *_, **__: out_of_memory())
    report = benchmark(
        device="cpu",
        size="nano",
        batch=1,
        encodings=["none"],
        compiled=False,
        rounds=2,
        scaling=False,
        variants=True,
    )
    reason = "OutOfMemoryError: CUDA out of memory."
    assert report.failed == {"timm none": reason, "plain none": reason}
    assert [t.name for t in report.encodings] == ["none"] and not report.timm and not report.missing
    missing = {v.name: v.missing for v in report.variants if v.of == "step"}
    reasons = {"eager": "", "broken": f"failed: {reason}", "built on it": "not compared: broken failed"}
    assert missing == reasons
    assert f"`timm none` failed: {reason}" in report.to_markdown()
    report.write(tmp_path)
    assert read_benchmarks(tmp_path) == [report]


EXTRAS = ["timm none", "plain none", "timm learned", "plain learned"]


@pytest.mark.parametrize(
    ("budget", "ready"),
    [(60.0, ["roll"]), (120.0, ["roll", "learned", "shaw"]), (1e9, ["roll", "learned", "shaw", *EXTRAS])],
)
def test_named_encodings_come_before_everything_that_was_not_named(monkeypatch, budget, ready):
    """Each model takes 20 s of a clock that moves only then; timm's models and more patches are not named."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(run, "Trial", lambda *_: now.__setitem__(0, now[0] + 20))
    monkeypatch.setattr(run, "preparation_cost", lambda mode: 1.0)
    monkeypatch.setattr(run, "matmul_peak", lambda *_: 1.0)

    def stop(calls, *_):
        if "many" in calls:  # of the augmentation
            return {name: [1.0] for name in calls}
        raise InputError(",".join(calls))

    monkeypatch.setattr(run, "interleaved", stop)
    with pytest.raises(InputError) as prepared:
        benchmark(device="cpu", batch=2, encodings=["shaw", "learned", "roll"], budget=budget)
    assert str(prepared.value).split(",") == ["none", *ready]


def test_what_a_budget_leaves_out_is_named(monkeypatch):
    monkeypatch.setattr(variants, "VARIANTS", VARIANTS[:2])
    report = benchmark(
        device="cpu",
        size="nano",
        batch=2,
        encodings=["roll"],
        compiled=False,
        rounds=2,
        variants=True,
        budget=1e-9,
    )
    assert [t.name for t in report.encodings] == ["none"] and not report.timm and not report.scaling
    assert report.missing == ["roll", "timm none", "plain none"]
    assert all(v.missing == "not measured: no time left" for v in report.variants if v.of == "step")
    assert "Not measured, no time left: `roll`, `timm none`" in report.to_markdown()
    assert interleaved({}, 3, CPU) == {}


def test_a_profile_names_what_takes_the_time(monkeypatch, tmp_path):
    quick = {"device": "cpu", "batch": 2, "rounds": 2, "scaling": False, "timm": False, "compiled": False}
    report = benchmark(encodings=["axial-rope"], profiles=True, **quick)
    path = report.write(tmp_path)
    files = {f"{path.stem}-profile-{name}.txt" for name in ("none", "axial-rope")}
    assert {file.name for file in tmp_path.glob("*.txt")} == files
    assert all("aten::addmm" in (tmp_path / file).read_text() for file in files)
    (again,) = read_benchmarks(tmp_path)
    assert again == report.model_copy(update={"profiles": {}})


def test_an_unknown_encoding_is_one_line():
    with pytest.raises(InputError, match="'rol' is unknown") as error:
        benchmark(device="cpu", encodings=["rol"])
    assert "\n" not in str(error.value)


def test_an_encoding_of_one_axis_is_refused_and_not_left_out():
    with pytest.raises(InputError, match=r"'rope' has one axis.*'axial-rope'"):
        benchmark(device="cpu", encodings=["rope"])
