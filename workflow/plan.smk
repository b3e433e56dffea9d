# The missing cells of a plan, each as one job with one record as its output. rollpe_lab.training says what a plan is
# and which of its cells are missing; a job is a sweep of a single cell, so that it resumes from its checkpoint
# and leaves the cells of other workers alone.
#
#   snakemake -s workflow/plan.smk --config plan=plans/mini.yaml --profile workflow/profiles/local
#   snakemake -s workflow/plan.smk --config plan=plans/mini.yaml --profile workflow/profiles/slurm
#
# Other keys of --config: records (a folder), device, retry=1 (also cells that failed before). What a job
# needs of a machine stands in the profile.
import os
import sys
from pathlib import Path

ROOT = Path(workflow.basedir).parent
sys.path.insert(0, str(ROOT / "src"))
workdir: str(ROOT)

import torch

from rollpe.errors import InputError
from rollpe_lab.records import record_path
from rollpe_lab.training.plan import load_plan, missing

PYTHON = sys.executable
PLAN = config.get("plan", "plans/mini.yaml")
RECORDS = str(config.get("records", "data/records")).rstrip("/")
DEVICE = config.get("device", "auto")
RETRY = "--retry" if config.get("retry") else ""
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))

try:
    PLANNED = load_plan(ROOT / PLAN)
except InputError as error:
    raise WorkflowError(str(error)) from None


rule all:
    default_target: True
    input:
        # Only what is missing is asked for: a record is a measurement, and newer sources do not undo it.
        [str(record_path(RECORDS, p.run_id)) for p in missing(PLANNED, ROOT / RECORDS, bool(RETRY))],


rule train:
    output:
        RECORDS + "/{run_id}.json",
    threads: 1
    resources:
        gpu=int(torch.cuda.is_available()),
        mem_mb=4000,
        runtime=240,
    message:
        "Training {wildcards.run_id} ({resources.gpu} GPU, {resources.mem_mb} MB, {resources.runtime} min)"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON:q} -m rollpe.cli sweep {PLAN:q} --only {wildcards.run_id:q}"
        " --records {RECORDS:q} --device {DEVICE:q} {RETRY} --no-progress"
