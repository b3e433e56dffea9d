# The missing runs of a plan, trained side by side: on this machine, under SLURM, in a cloud.
#
#   snakemake -s workflow/runs.smk --config plan=plans/table1.yaml --profile workflow/profiles/local    (or slurm)
#
# A job is an arm, a recipe and an encoding, with all its missing seeds, which share what is compiled. A record is
# never an output, for Snakemake deletes the outputs of a job before it starts; the output is an empty file. So a job
# that comes twice trains only what is still missing. More of `rollpe sweep`: options="--records mine --device cuda".
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import quote, unquote

PLAN, OPTIONS = config.get("plan", ""), config.get("options", "")
SWEEP = f"{sys.executable} -m rollpe.cli sweep {PLAN} {OPTIONS}"
GPU = ("short", "strong", "paper", "text-strong")  # recipes that need one
MINUTES = {"short": 15, "strong": 30, "paper": 120, "mini": 120}  # of a run at most; others 20
STAMP = f"_build/runs/{Path(PLAN).stem}/{{arm}}/done"


def named(key):
    """The arm of a key. Keys are arms without what the command lines of SLURM's jobs do not bear."""
    return unquote(key.replace("!", "%"))


def recipe(wildcards):
    return named(wildcards.arm).partition("/")[0].partition("@")[0]


ARMS = Counter()  # the number of missing runs by key, in the order of the plan
if workflow.is_main_process:  # a job knows its arm, and reading a plan imports torch
    listed = subprocess.run(f"{SWEEP} --list", shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout
    missing = (line.removeprefix("missing: ") for line in listed.splitlines() if line.startswith("missing: "))
    ARMS.update(quote(run.rpartition(" seed ")[0], safe="/@+=").replace("%", "!") for run in missing)
    for arm in ARMS:
        Path(STAMP.format(arm=arm)).unlink(missing_ok=True)  # of a record that is gone
PRIORITY = {arm: -place for place, arm in enumerate(ARMS)}


rule runs:
    localrule: True
    input:
        [STAMP.format(arm=arm) for arm in ARMS],
    message:
        "Looking for what is still missing"
    shell:
        "{SWEEP} --list"


rule arm:
    output:
        touch(STAMP),
    params:
        arm=lambda wildcards: named(wildcards.arm),
    priority: lambda wildcards: PRIORITY.get(wildcards.arm, 0)
    threads: lambda wildcards: 4 if recipe(wildcards) in GPU else 1  # a compiler has work for some
    resources:
        gpu=lambda wildcards: int(recipe(wildcards) in GPU),
        runtime=lambda wildcards: 15 + MINUTES.get(recipe(wildcards), 20) * ARMS.get(wildcards.arm, 1),
        mem_mb=lambda wildcards: 16000 if recipe(wildcards) in GPU else 4000,
    message:
        "Training {params.arm}"
    shell:
        "OMP_NUM_THREADS={threads} {SWEEP} --only {params.arm:q} --no-progress"
