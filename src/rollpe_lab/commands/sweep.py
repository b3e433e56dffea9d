"""`rollpe sweep`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rollpe_lab.commands import options as shared
from rollpe_lab.training import plan as plans


@click.command()
@click.argument("file", metavar="PLAN", type=shared.PATH)
@click.option("--only", metavar="RECIPE/ENCODING", help="Only the runs of this recipe and encoding.")
@click.option("--budget", callback=shared.seconds, help="Time limit: 90s, 25m, 1h30m; unlimited by default.")
@shared.set_option
@shared.folder_option(
    "--records", "data/records", "Folder of the records: read to find the missing runs, then written to."
)
@shared.import_option
@shared.device_option
@shared.data_root_option
@shared.checkpoints_option
@shared.keep_option
@click.option("--list", "show", is_flag=True, help="Only list the missing runs, by priority.")
@click.option("--no-progress", is_flag=True, help="No progress bars.")
def sweep(
    file: Path,
    only: str | None,
    overrides: dict[str, str],
    records: Path,
    show: bool,
    no_progress: bool,
    **settings: Any,
) -> None:
    """Train the missing runs of a plan, by priority.

    PLAN is a YAML file of encodings and seeds under one recipe; examples are in plans/. With a budget, no run
    starts if the last one took longer than what is left. The same command resumes; several sweeps may share a
    folder of records. Exits with status 1 if a run failed.

    \b
    Example: rollpe sweep plans/quick.yaml --list
    Example: rollpe sweep plans/table1.yaml --budget 25m
    """
    planned = plans.load_plan(file, overrides, build=not show)
    if only:
        planned = plans.only(planned, only)
    failed: dict[str, str] = {}
    if not show:
        from rollpe_lab.training import sweep as sweeps  # noqa: PLC0415 (torch takes seconds)
        from rollpe_lab.training.device import choose_device  # noqa: PLC0415

        choose_device(settings["device"])
        failed = sweeps.sweep(planned, records, progress=not no_progress, say=click.echo, **settings)
    missing = plans.missing(planned, records)
    for run in missing:
        reason = failed.get(str(run))
        click.echo(f"failed: {run}: {reason}" if reason else f"missing: {run}")
    click.echo(f"{len(planned) - len(missing)} of {len(planned)} runs have a record")
    if failed:
        sys.exit(1)
