"""The benchmark measures what it says, at a shape small enough for any machine."""

from __future__ import annotations

import math
import shlex
import time
from functools import partial

import pytest
import torch
from click.testing import CliRunner
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from refusals import raising, refused
from rollpe.cli import cli
from rollpe.errors import InputError
from rollpe.vit import SIZES, create_vit
from rollpe_lab.bench import Benchmark, benchmark, newest_by_device, read_benchmarks, run, timing
from rollpe_lab.bench.timing import Trial, interleaved, matmul_peak
from rollpe_lab.training import load_recipe
from rollpe_lab.training.compiling import EAGER
from shared import ROOT

CPU = torch.device("cpu")
NANO = {"compile": False, "precision": "float32", "size": "nano", "depth": 1}
TINY = {"compile": False, "batch_size": 2}
quick = partial(benchmark, device="cpu", rounds=2, overrides=TINY)


@pytest.fixture(scope="module")
def report() -> Benchmark:
    return quick(encodings=["axial-rope", "roll"], rounds=3)


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when it is called, by so many seconds."""
    now = [1000.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


out_of_memory = raising(torch.OutOfMemoryError("CUDA out of memory.\nA second line | a third"))


# Taking turns


def test_every_call_is_timed_once_a_round_and_the_slow_one_is_slower():
    called = []
    calls = {s: partial(lambda s: called.append(time.sleep(s)), s) for s in (0.0, 0.02)}
    times = interleaved(calls, 4, CPU)
    assert len(called) == 10, "one call each before the clock starts"
    assert [len(t) for t in times.values()] == [4, 4] and min(times[0.02]) > max(times[0.0])
    assert interleaved({}, 3, CPU) == {}


def test_on_cuda_five_calls_share_one_wait_for_the_device(monkeypatch):
    """Training, too, runs ahead of the device; a wait after each step would hide what that gains."""
    waits, calls = [], []
    monkeypatch.setattr(timing, "synchronize", waits.append)
    times = interleaved({"a": lambda: calls.append(time.sleep(0.01))}, 2, torch.device("cuda"))["a"]
    assert len(calls) in (11, 15) and len(waits) in (4, 6)
    assert all(0.01 <= t < 0.05 for t in times), "a call's share"


@pytest.mark.parametrize(("seconds", "rounds"), [(-1000, 2), (11, 4), (12, 5), (1e9, 20)])
def test_rounds_end_with_the_budget_but_there_are_two(clock, seconds, rounds):
    calls = dict.fromkeys("ab", partial(clock, 1))
    assert len(interleaved(calls, 20, CPU, deadline=1000 + seconds)["a"]) == rounds


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
    failed = {}
    assert list(timing.prepare({"a": str, "b": out_of_memory, "c": str}, failed, math.inf)) == ["a", "c"]
    assert failed == {"b": "OutOfMemoryError: CUDA out of memory."}


def test_what_a_budget_leaves_out_is_named():
    report = quick(encodings=["roll"], budget=1e-9)
    assert [t.name for t in report.encodings] == ["none"] and not report.timm and report.again is None
    assert report.missing == ["roll", run.AGAIN, "timm none"]
    assert "Not measured, no time left: `roll`, `none again`" in report.to_markdown()


def test_named_encodings_are_timed_before_anything_that_is_not_named(monkeypatch):
    """Each model takes 20 of 100 seconds: none and four encodings fill the budget."""
    build, now, later = timing.our_model, time.perf_counter, []

    def slow(*arguments) -> torch.nn.Module:
        later.append(20)
        return build(*arguments)

    monkeypatch.setattr(run, "our_model", slow)
    monkeypatch.setattr(time, "perf_counter", lambda: now() + sum(later))
    names = ["axial-rope", "roll", "twisted-roll", "uniform-rope"]
    report = quick(encodings=names, budget=100, profile=True)
    assert [t.name for t in report.encodings] == ["none", *names]
    assert report.missing == [run.AGAIN, "timm none", "timm axial-rope", "profile"]
    assert not (report.timm or report.profile)


# What is timed


def test_the_reference_costs_exactly_itself(report):
    assert [t.name for t in report.encodings] == ["none", "axial-rope", "roll"]
    assert report.encodings[0].ratio == 1.0 and report.again != 1.0
    assert report.chance >= max(report.again, 1 / report.again, 1 / report.encodings[2].ratio)
    assert report.augmentation_milliseconds > 0
    assert all(0 < t.images_per_second_augmented < t.images_per_second for t in report.encodings)


def test_timms_models_stand_beside_ours_with_as_many_parameters_and_the_operations_we_leave_out(report):
    ours = {t.name: t for t in report.encodings}
    unread = 6 * 9 * SIZES["nano"].width ** 2 * 64 * report.batch / 1e9  # the last MLP and projection
    assert [t.name for t in report.timm] == ["none", "axial-rope"]
    for theirs in report.timm:
        assert theirs.parameters == pytest.approx(ours[theirs.name].parameters, rel=0.01)
        assert theirs.gflop == pytest.approx(ours[theirs.name].gflop + unread, rel=0.01)


@pytest.mark.parametrize("pool", ["token", "avg"])
@pytest.mark.parametrize("encoding", timing.TIMM)
def test_timms_models_take_the_shape_of_the_recipe(encoding, pool):
    changes = {"size": "nano", "depth": 2, "pool": pool, "drop_path": 0.2, "dropout": 0.1, "layer_scale": 0.1}
    recipe = load_recipe("strong", changes)
    ours, theirs = timing.our_model(recipe, encoding), timing.timm_model(recipe, encoding)
    count = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    assert count[0] == pytest.approx(count[1], rel=0.01)
    assert theirs(torch.rand(2, 3, 32, 32)).shape == (2, 100)
    assert [model.blocks[1].drop_path1.drop_prob for model in (ours, theirs)] == pytest.approx([0.2, 0.2])


def test_more_patches_take_longer_in_batches_with_fewer_images():
    recipe = load_recipe("strong", NANO | {"batch_size": 2})
    comparison = run.Comparison(recipe, [], CPU, 2, 0.0, math.inf)
    scaling = comparison.time_scaling()
    shapes = [(s.patches, s.batch, s.encoding) for s in scaling]
    assert shapes == [(*s, name) for s in ((64, 2), (256, 1), (1024, 1)) for name in run.SCALED]
    assert min(s.median for s in scaling[8:]) > max(s.median for s in scaling[:4]) and not comparison.failed


def test_operations_are_those_of_the_matrix_products(report):
    """Forward and backward of a ViT cost six operations for each weight and token, attention's core aside."""
    none = report.encodings[0]
    estimate = 6 * none.parameters * 65 * report.batch / 1e9
    assert estimate < 1.1 * none.gflop < 1.4 * estimate
    assert matmul_peak(CPU, "float32", side=256) > 0.1


def test_operations_that_all_images_share_count_once_a_step():
    """Learned rotations depend on positions, not on images."""

    def gflop(batch: int, name: str) -> float:
        recipe = load_recipe("strong", NANO | {"batch_size": batch})
        return Trial(partial(create_vit, name, image_size=32, size="nano", depth=1), recipe, EAGER, CPU).gflop

    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        create_vit("lie", image_size=32, size="nano", depth=1)(torch.randn(6, 3, 32, 32)).sum().backward()
    assert gflop(6, "lie") == pytest.approx(counter.get_total_flops() / 1e9, rel=1e-6)
    assert gflop(6, "lie") < 3 * gflop(1, "lie")
    assert gflop(6, "none") == pytest.approx(6 * gflop(1, "none"), rel=1e-3)
    assert gflop(6, "t5-bias") == gflop(6, "none"), "however attention is computed"


def test_a_benchmark_times_the_model_and_the_step_that_training_makes(monkeypatch):
    """With drop path and mixed targets."""
    steps = []

    class Recorded(timing.Step):
        def __init__(self, model, recipe, *args, **kwargs) -> None:
            steps.append((model, recipe))
            super().__init__(model, recipe, *args, **kwargs)

    monkeypatch.setattr(timing, "Step", Recorded)
    report = quick(recipe="mini", encodings=["none"], timm=False)
    model, recipe = steps.pop()
    assert recipe.batch_size == 2 and model.global_pool == "avg"
    assert report.recipe == "mini" and not report.timm and not report.missing
    quick(encodings=["none"], timm=False)
    model, _ = steps.pop()
    assert model.global_pool == "token" and model.blocks[-1].drop_path1.drop_prob == pytest.approx(0.1)


# The report


def test_the_report_comes_back_from_disk_with_what_broke_and_beside_it_a_profile(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "timm_model", out_of_memory)
    report = quick(encodings=["axial-rope"], profile=True)
    reason = "OutOfMemoryError: CUDA out of memory."
    assert report.failed == {"timm none": reason, "timm axial-rope": reason} and not report.timm
    path = report.write(tmp_path)
    assert read_benchmarks(tmp_path) == [report.model_copy(update={"profile": ""})]
    text = path.with_suffix(".md").read_text()
    assert "`axial-rope`" in text and report.environment.device_name in text
    assert f"`timm none` failed: {reason}" in text
    profile = path.with_name(f"{path.stem}-profile.txt").read_text()
    assert profile.startswith("three steps of axial-rope\n") and "aten::addmm" in profile
    later = report.provenance.model_copy(update={"started": "2100-01-01T00:00:00+00:00"})
    other = report.model_copy(update={"provenance": later}).write(tmp_path)
    assert other.stem.endswith("-2100-01-01T0000") and len(read_benchmarks(tmp_path)) == 2
    path.write_text('{"size": "nano"')
    with refused(rf"{path.name}: damaged"):
        read_benchmarks(tmp_path)


def test_the_recorded_command_asks_for_the_same_benchmark(monkeypatch):
    options = {"recipe": "paper", "overrides": {"attention": "math", "drop_path": "0.2"}, "device": "cpu"}
    options |= {"encodings": ["roll", "shaw"], "budget": 600.0, "rounds": 4, "timm": False, "profile": False}
    words = shlex.split(run.command_line(options))
    stop = raising(InputError("stop"))
    monkeypatch.setattr("rollpe_lab.commands.bench.benchmark", stop)
    CliRunner().invoke(cli, words[1:])
    assert words[:2] == ["rollpe", "bench"] and stop.call_args.kwargs == options


def test_committed_benchmarks_of_any_age_are_read():
    """They have keys that are no longer written; of these, the step timed beside itself is read."""
    folder = ROOT / "data" / "benchmarks"
    benchmarks = read_benchmarks(folder)
    assert len(benchmarks) == len(list(folder.glob("*.json")))
    assert all(b.encodings and b.timm and b.scaling_table() for b in benchmarks)
    assert [f"{b.chance:.3f}" for b in benchmarks] == ["1.032", "1.085", "1.118", "1.007"]
    assert newest_by_device(folder)["cpu"] == benchmarks[-1]
