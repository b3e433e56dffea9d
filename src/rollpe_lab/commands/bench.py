"""`rollpe bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rollpe_lab.bench.run import benchmark
from rollpe_lab.commands.options import PATH, device_option, import_option, seconds, set_option
from rollpe_lab.files import ensure_writable


@click.command()
@device_option
@click.option("--recipe", default="strong", show_default=True, help="Recipe whose models are timed.")
@set_option
@click.option(
    "--encodings", help="Names separated by commas; by default all, also with 256 and 1,024 patches."
)
@import_option
@click.option("--rounds", type=click.IntRange(2, 10_000), default=20, show_default=True)
@click.option("--timm/--no-timm", default=True, help="Also time timm's models.  [default: yes]")
@click.option("--profile", is_flag=True, help="Also list the kernels of a step; needs --records.")
@click.option(
    "--budget", callback=seconds, help="Time limit: 90s, 10m. The report names the timings that did not fit."
)
@click.option("--records", type=PATH, help="Also write the report into this folder.")
def bench(encodings: str | None, records: Path | None, **settings: Any) -> None:
    """Time training steps of every encoding, of none, and of timm's own models.

    Example: rollpe bench --device cpu --encodings axial-rope,roll
    """
    if settings["profile"] and not records:
        raise click.UsageError("--profile writes files: name their folder with --records.")
    if records:
        ensure_writable(records)  # before the minutes of timing
    report = benchmark(encodings=None if encodings is None else encodings.split(","), **settings)
    click.echo(report.to_markdown())
    if records:
        click.echo(str(report.write(records)))
