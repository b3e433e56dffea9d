"""`rollpe sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rollpe_lab.commands import options as shared


@click.command()
@click.argument("file", metavar="PLAN", type=shared.PATH)
@click.option("--budget", callback=shared.seconds, help="Time limit: 90s, 25m, 1h30m; unlimited by default.")
@shared.set_option
@shared.folder_option(
    "--records", "data/records", "Folder of the records: read to find the missing runs, then written to."
)
@shared.import_option
@shared.device_option
@shared.data_root_option
@shared.folder_option(
    "--checkpoints", "checkpoints", "Folder of checkpoints, from which interrupted runs resume."
)
@click.option("--no-checkpoints", is_flag=True, help="Write no checkpoints: an interrupted run starts again.")
@click.option("--retry", is_flag=True, help="Also run cells that failed before.")
@click.option("--measure", is_flag=True, help="Estimate durations from short runs now, not from old records.")
@click.option("--list", "show", is_flag=True, help="Only list the missing runs, by priority.")
@click.option("--no-progress", is_flag=True, help="No progress bars.")
def sweep(
    file: Path,
    overrides: dict[str, str],
    records: Path,
    checkpoints: Path,
    no_checkpoints: bool,
    retry: bool,
    show: bool,
    no_progress: bool,
    **settings: Any,
) -> None:
    """Train the missing runs of a plan, by priority.

    PLAN is a YAML file of encodings and seeds under one recipe; examples are in plans/. A run starts if it
    should fit the budget, as estimated from earlier runs, at first from records of the same kind of device.
    The same command resumes; several sweeps may share one folder of records.

    \b
    Example: rollpe sweep plans/quick.yaml --list
    Example: rollpe sweep plans/table1.yaml --budget 25m
    """
    from rollpe_lab.training import plan as plans  # noqa: PLC0415 (torch takes seconds)
    from rollpe_lab.training import sweep as sweeps  # noqa: PLC0415

    planned = plans.load_plan(file, overrides)
    if show:
        absent = plans.missing(planned, records, retry=True)
    else:
        settings |= {"retry": retry, "progress": not no_progress}
        settings["checkpoints"] = None if no_checkpoints else checkpoints
        absent = sweeps.Sweep(planned, records, say=click.echo, **settings).run().missing
    for run_id in absent:
        reason = "" if retry else plans.failure(records, run_id.run_id)
        again = f"failed: {run_id}: {reason.rstrip('.')}. Try it again with --retry."
        click.echo(again if reason else f"missing: {run_id}")
    click.echo(f"{len(planned) - len(absent)} of {len(planned)} cells have a record")
