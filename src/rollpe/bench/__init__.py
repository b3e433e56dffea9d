"""How fast training is: every encoding beside none, ours beside timm's, and what made it fast, in one run.

run.py is `benchmark`, the whole comparison; timing.py times one model, variants.py other ways to run a step,
and report.py is what is written down.
"""

from rollpe.bench.report import Benchmark, read_benchmarks
from rollpe.bench.run import benchmark

__all__ = ["Benchmark", "benchmark", "read_benchmarks"]
