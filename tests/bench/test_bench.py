"""The benchmark measures what it says, at a shape small enough for any machine."""

from __future__ import annotations

import time
from functools import partial

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from refusals import raising, refused
from rollpe.vit import SIZES, create_vit
from rollpe_lab.bench import Benchmark, newest_by_device, read_benchmarks, run, timing
from rollpe_lab.bench.run import benchmark
from rollpe_lab.bench.timing import Trial, interleaved, matmul_peak
from rollpe_lab.training import load_recipe
from rollpe_lab.training.compiling import EAGER
from shared import ROOT

CPU = torch.device("cpu")
NANO = {"compile": False, "precision": "float32", "size": "nano", "depth": 1}
TINY = {"compile": False, "batch_size": 2}
quick = partial(benchmark, device="cpu", overrides=TINY)


@pytest.fixture(scope="module")
def report() -> Benchmark:
    return quick(encodings=["axial-rope", "roll"])


out_of_memory = raising(torch.OutOfMemoryError("CUDA out of memory.\nA second line | a third"))


# Taking turns


def test_every_call_is_timed_once_a_round_and_the_slow_one_is_slower():
    called = []
    calls = {s: partial(lambda s: called.append(time.sleep(s)), s) for s in (0.0, 0.02)}
    times = interleaved(calls, 4, CPU)
    assert len(called) == 10, "one call each before the clock starts"
    assert [len(t) for t in times.values()] == [4, 4] and min(times[0.02]) > max(times[0.0])


def test_on_cuda_five_calls_share_one_wait_for_the_device(monkeypatch):
    """Training, too, runs ahead of the device; a wait after each step would hide what that gains."""
    waits, calls = [], []
    monkeypatch.setattr(timing, "synchronize", waits.append)
    times = interleaved({"a": lambda: calls.append(time.sleep(0.01))}, 2, torch.device("cuda"))["a"]
    assert len(calls) in (11, 15) and len(waits) in (4, 6)
    assert all(0.01 <= t < 0.05 for t in times), "a call's share"


def test_what_cannot_be_prepared_is_named():
    failed = {}
    assert list(timing.prepare({"a": str, "b": out_of_memory, "c": str}, failed)) == ["a", "c"]
    assert failed == {"b": "OutOfMemoryError: CUDA out of memory."}
    with pytest.raises(torch.OutOfMemoryError):
        interleaved({"a": out_of_memory}, 2, CPU)


# What is timed


def test_the_reference_costs_exactly_itself(report):
    assert [t.name for t in report.encodings] == ["none", "axial-rope", "roll"]
    assert report.encodings[0].ratio == 1.0 and report.rounds == run.ROUNDS
    assert report.chance >= max(1, 1 / report.encodings[2].ratio)
    for t in report.encodings:
        assert t.images_per_second == pytest.approx(1000 * report.batch / t.median)
        assert t.share_of_peak == pytest.approx(1000 * t.gflop / t.median / report.peak_gflops)


def test_timms_models_stand_beside_ours_with_the_operations_we_leave_out(report):
    ours = {t.name: t for t in report.encodings}
    unread = 6 * 9 * SIZES["nano"].width ** 2 * 64 * report.batch / 1e9  # the last MLP and projection
    assert [t.name for t in report.timm] == ["none", "axial-rope"]
    for theirs in report.timm:
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


def test_operations_are_those_of_the_matrix_products(report):
    """Forward and backward of a ViT cost six operations for each weight and token, attention's core aside."""
    none = report.encodings[0]
    parameters = sum(p.numel() for p in create_vit("none", image_size=32, size="nano").parameters())
    estimate = 6 * parameters * 65 * report.batch / 1e9
    assert estimate < 1.1 * none.gflop < 1.4 * estimate
    assert matmul_peak(CPU, "float32") > 0.1


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
    report = quick(recipe="mini", encodings=["none"])
    model, recipe = steps[0]
    assert recipe.batch_size == 2 and model.global_pool == "avg"
    assert report.recipe == "mini" and len(steps) == 2, "ours and timm's"
    quick(encodings=["none"])
    model, _ = steps[2]
    assert model.global_pool == "token" and model.blocks[-1].drop_path1.drop_prob == pytest.approx(0.1)


# The report


def test_the_report_comes_back_from_disk_with_what_broke(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "timm_model", out_of_memory)
    report = quick(encodings=["axial-rope"])
    reason = "OutOfMemoryError: CUDA out of memory."
    assert report.failed == {"timm none": reason, "timm axial-rope": reason} and not report.timm
    path = report.write(tmp_path)
    assert read_benchmarks(tmp_path) == [report] and list(tmp_path.iterdir()) == [path]
    text = report.to_markdown()
    assert "`axial-rope`" in text and report.environment.device_name in text
    assert f"`timm none` failed: {reason}" in text
    later = report.provenance.model_copy(update={"started": "2100-01-01T00:00:00+00:00"})
    other = report.model_copy(update={"provenance": later}).write(tmp_path)
    assert other.stem.endswith("-2100-01-01T0000") and len(read_benchmarks(tmp_path)) == 2
    path.write_text('{"size": "nano"')
    with refused(rf"{path.name}: damaged"):
        read_benchmarks(tmp_path)


def test_committed_benchmarks_of_any_age_are_read():
    """They have keys that are no longer written; of these, the step timed beside itself is read."""
    folder = ROOT / "data" / "benchmarks"
    benchmarks = read_benchmarks(folder)
    assert len(benchmarks) == len(list(folder.glob("*.json")))
    assert all(b.encodings and b.timm for b in benchmarks)
    assert newest_by_device(folder)["cpu"] == benchmarks[-1] and f"{benchmarks[-1].chance:.3f}" == "1.007"
