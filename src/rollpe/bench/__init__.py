"""Training speed: every encoding beside none, and our models beside timm's."""

from rollpe.bench.report import Benchmark, newest_by_device, read_benchmarks
from rollpe.bench.run import benchmark
