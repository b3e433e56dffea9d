"""The benchmark measures what it says, at a shape small enough for any machine."""

from __future__ import annotations

import time

import pytest
import torch

from rollpe.bench import Benchmark, benchmark, in_turns, matmul_peak, read_benchmarks

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

    times = in_turns({"fast": call("fast", 0.0), "slow": call("slow", 0.02)}, 4, CPU)
    assert {name: len(t) for name, t in times.items()} == {"fast": 4, "slow": 4}
    assert called == {"fast": 5, "slow": 5}, "one call each before the clock starts"
    assert min(times["slow"]) > max(times["fast"])


def test_the_reference_costs_exactly_itself(report):
    assert [t.name for t in report.encodings] == ["none", "axial-rope", "roll"]
    assert report.encodings[0].ratio == 1.0


def test_timms_models_stand_beside_ours_with_as_many_parameters_and_operations(report):
    ours = {t.name: t for t in report.encodings}
    assert [t.name for t in report.timm] == ["none", "axial-rope"]
    for theirs in report.timm:
        assert theirs.parameters == pytest.approx(ours[theirs.name].parameters, rel=0.01)
        assert theirs.gflop == pytest.approx(ours[theirs.name].gflop, rel=0.01)


def test_operations_are_those_of_the_matrix_products(report):
    """Forward and backward of a ViT cost six operations for each weight and token, attention's core aside."""
    none = report.encodings[0]
    estimate = 6 * none.parameters * 65 * report.batch / 1e9
    assert estimate < 1.1 * none.gflop < 1.4 * estimate


def test_a_matrix_product_does_not_exceed_the_measured_peak_by_much():
    assert matmul_peak(CPU, "float32", side=256) > 0.1


def test_the_report_comes_back_from_disk_as_it_was(report, tmp_path):
    path = report.write(tmp_path)
    assert read_benchmarks(tmp_path) == [report]
    text = path.with_suffix(".md").read_text()
    assert "`axial-rope`" in text and report.environment.device_name in text
