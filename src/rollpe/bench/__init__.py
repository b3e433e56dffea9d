"""Training speed: every encoding beside none, our models beside timm's, and other ways to run a step.

run.py is `benchmark`, the whole comparison; timing.py times one model, variants.py other ways to run a step,
alone.py calls rotations without a model, and report.py holds the result and its tables. Not here: accuracy
(rollpe.evidence).
"""

from rollpe.bench.report import Benchmark, newest_by_device, read_benchmarks
from rollpe.bench.run import benchmark
