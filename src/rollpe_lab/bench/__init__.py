"""Training speed: every encoding beside none, and our models beside timm's."""

from rollpe_lab.bench.report import Benchmark, newest_by_device, read_benchmarks
