"""The benchmark measures what it says, at a shape small enough for any machine."""

from __future__ import annotations

import shlex
import time
from functools import partial

import pytest
import torch
from click.testing import CliRunner
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rollpe.cli import cli
from rollpe.errors import InputError
from rollpe.vit import SIZES, create_vit
from rollpe_lab.bench import Benchmark, benchmark, newest_by_device, read_benchmarks, run, timing
from rollpe_lab.bench.timing import Trial, interleaved, matmul_peak
from rollpe_lab.training import load_recipe
from shared import ROOT

CPU = torch.device("cpu")
NANO = {"compile": False, "precision": "float32", "size": "nano", "depth": 1}
quick = partial(benchmark, device="cpu", size="nano", batch=2, rounds=2, compiled=False)


@pytest.fixture(scope="module")
def report() -> Benchmark:
    return quick(encodings=["axial-rope", "roll"], rounds=3)


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when it is called, by so many seconds."""
    now = [1000.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def out_of_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.\nA second line | a third")


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


# The budget


@pytest.mark.parametrize(("budget", "prepared"), [(None, 4), (100.0, 2), (0.0, 1)])
def test_a_budget_begins_nothing_that_would_be_ready_too_late(clock, budget, prepared):
    """Each model takes 20 s; half of the budget is for them."""
    time_budget = timing.TimeBudget(budget)
    assert (
        list(time_budget.prepare(dict.fromkeys("abcd", partial(clock, 20)), 0.5)) == list("abcd")[:prepared]
    )
    assert budget != 0.0 or time_budget.prepare({"a": partial(clock, 20)}, 1.0) == {}


def test_the_first_model_also_starts_the_compiler_and_predicts_only_the_second(clock):
    builders = {
        name: partial(clock, seconds) for name, seconds in (("first", 120), ("second", 20), ("third", 90))
    }
    assert list(timing.TimeBudget(300.0).prepare(builders, 0.8)) == list(builders)


def test_what_cannot_be_made_is_named_and_the_rest_is_timed():
    failed, ready = {}, str
    builders = {"a": ready, "b": out_of_memory, "c": ready}
    assert list(timing.TimeBudget(None).prepare(builders, 1.0, failed)) == ["a", "c"]
    assert failed == {"b": "OutOfMemoryError: CUDA out of memory."}
    with pytest.raises(torch.OutOfMemoryError):
        timing.TimeBudget(None).prepare(builders, 1.0)


EXTRAS = [run.AGAIN, "timm none", "plain none", "timm learned", "plain learned"]


@pytest.mark.parametrize(
    ("budget", "ready"),
    [(60.0, ["roll"]), (120.0, ["roll", "learned", "shaw"]), (1e9, ["roll", "learned", "shaw", *EXTRAS])],
)
def test_named_encodings_come_before_everything_that_was_not_named(monkeypatch, clock, budget, ready):
    """Each model takes 20 s."""
    monkeypatch.setattr(run, "Trial", lambda *_: clock(20))
    monkeypatch.setattr(run, "matmul_peak", lambda *_: 1.0)
    monkeypatch.setattr(run.Comparison, "time_augmentation", lambda _: 0.0)

    def stop(calls, *_):
        raise InputError(",".join(calls))

    monkeypatch.setattr(run, "interleaved", stop)
    with pytest.raises(InputError) as prepared:
        benchmark(device="cpu", batch=2, encodings=["shaw", "learned", "roll"], budget=budget)
    assert str(prepared.value).split(",") == ["none", *ready]


def test_what_a_budget_leaves_out_is_named():
    report = quick(encodings=["roll"], budget=1e-9)
    assert [t.name for t in report.encodings] == ["none"] and not report.timm and report.again is None
    assert report.missing == ["roll", run.AGAIN, "timm none", "plain none"]
    assert "Not measured, no time left: `roll`, `none again`" in report.to_markdown()


# What is timed


def test_the_reference_costs_exactly_itself(report):
    assert [t.name for t in report.encodings] == ["none", "axial-rope", "roll"]
    assert report.encodings[0].ratio == 1.0 and report.again != 1.0
    assert report.chance >= max(report.again, 1 / report.again, 1 / report.encodings[2].ratio)


def test_timms_models_stand_beside_ours_with_as_many_parameters_and_the_operations_we_leave_out(report):
    ours = {t.name: t for t in report.encodings}
    unread = 6 * 9 * SIZES["nano"].width ** 2 * 64 * report.batch / 1e9  # the last MLP and projection
    for timed in (report.timm, report.plain):
        assert [t.name for t in timed] == ["none", "axial-rope"]
        for theirs in timed:
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
    comparison = run.Comparison(recipe, [], CPU, 2, timing.TimeBudget(None))
    scaling = comparison.time_scaling()
    shapes = [(s.patches, s.batch, s.encoding) for s in scaling]
    assert shapes == [(*s, name) for s in ((64, 2), (256, 1), (1024, 1)) for name in run.SCALED]
    assert min(s.median for s in scaling[8:]) > max(s.median for s in scaling[:4]) and not comparison.failed


def test_augmentation_can_only_slow_a_step_down(report):
    assert report.augmentation_milliseconds > 0
    assert all(0 < t.images_per_second_augmented < t.images_per_second for t in report.encodings)


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
        return Trial(partial(create_vit, name, image_size=32, size="nano", depth=1), recipe, None, CPU).gflop

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
    assert report.recipe == "mini" and not report.timm and not report.plain and not report.missing
    quick(encodings=["none"], timm=False)
    model, _ = steps.pop()
    assert model.global_pool == "token" and model.blocks[-1].drop_path1.drop_prob == pytest.approx(0.1)
    with pytest.raises(InputError, match="'quick' trains on digits"):
        quick(recipe="quick")


@pytest.mark.parametrize(
    ("name", "says"), [("rol", "'rol' is unknown"), ("rope", "'rope' has one axis.*'axial-rope'")]
)
def test_an_encoding_that_cannot_be_timed_is_refused_in_one_line(name, says):
    with pytest.raises(InputError, match=says) as error:
        benchmark(device="cpu", encodings=[name])
    assert "\n" not in str(error.value)


# The report


def test_the_report_comes_back_from_disk_as_it_was(report, tmp_path):
    path = report.write(tmp_path)
    assert read_benchmarks(tmp_path) == [report]
    later = report.provenance.model_copy(update={"started": "2100-01-01T00:00:00+00:00"})
    other = report.model_copy(update={"provenance": later}).write(tmp_path)
    assert other.stem.endswith("-2100-01-01T0000") and read_benchmarks(tmp_path)[0] == report
    text = path.with_suffix(".md").read_text()
    assert "`axial-rope`" in text and report.environment.device_name in text


def test_a_report_names_what_broke(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "timm_model", lambda *_: out_of_memory())
    report = quick(encodings=["none"])
    reason = "OutOfMemoryError: CUDA out of memory."
    assert report.failed == {"timm none": reason, "plain none": reason}
    assert [t.name for t in report.encodings] == ["none"] and not report.timm and not report.missing
    assert f"`timm none` failed: {reason}" in report.to_markdown()
    report.write(tmp_path)
    assert read_benchmarks(tmp_path) == [report]


def test_a_profile_names_what_takes_the_time(tmp_path):
    report = quick(encodings=["axial-rope"], profile=True, timm=False)
    path = report.write(tmp_path)
    text = path.with_name(f"{path.stem}-profile.txt").read_text()
    assert text.startswith("three steps of axial-rope\n") and "aten::addmm" in text
    assert read_benchmarks(tmp_path) == [report.model_copy(update={"profile": ""})]
    result = CliRunner().invoke(cli, ["bench", "--profile"])
    assert result.exit_code == 2 and "--records" in result.output, "a profile is a file"


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
    options |= {"compiled": default, "timm": default, "profile": not default}
    words = shlex.split(run.command_line(options))
    received = {}

    def stop(**given):
        received.update(given)
        raise InputError("stop")

    monkeypatch.setattr("rollpe_lab.commands.bench.benchmark", stop)
    CliRunner().invoke(cli, [*words[1:], "--records", str(tmp_path)])
    assert words[:2] == ["rollpe", "bench"] and received == options


@pytest.mark.parametrize("content", ["", "{", "[]", '{"size": 3}', "\0", '{"size": "nano", "size": "tiny"}'])
def test_a_damaged_benchmark_is_one_line(tmp_path, content):
    (tmp_path / "cpu.json").write_text(content)
    with pytest.raises(InputError, match=r"cpu\.json: damaged") as error:
        read_benchmarks(tmp_path)
    assert "\n" not in str(error.value)


def test_committed_benchmarks_of_any_age_are_read():
    """They have keys that are no longer written; of these, the step timed beside itself is read."""
    folder = ROOT / "data" / "benchmarks"
    benchmarks = read_benchmarks(folder)
    assert len(benchmarks) == len(list(folder.glob("*.json"))) > 0
    assert all(b.encodings and b.timm and b.scaling_table() and b.chance > 1.01 for b in benchmarks)
    newest = newest_by_device(folder)["cpu"]
    assert newest == benchmarks[-1] and f"{newest.chance:.3f}" == "1.118"
