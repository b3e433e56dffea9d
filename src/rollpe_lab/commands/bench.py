"""`rollpe bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rollpe_lab.commands.options import PATH, device_option, import_option, set_option
from rollpe_lab.files import ensure_writable


@click.command()
@device_option
@click.option("--recipe", default="strong", show_default=True, help="Recipe whose models are timed.")
@set_option
@click.option("--encodings", help="Names separated by commas; by default all.")
@import_option
@click.option("--records", type=PATH, help="Also write the report as JSON into this folder.")
def bench(encodings: str | None, records: Path | None, **settings: Any) -> None:
    """Time training steps of every encoding, beside none and timm's own models, in turns.

    Example: rollpe bench --device cpu --encodings axial-rope,roll
    """
    from rollpe_lab.bench.run import benchmark  # noqa: PLC0415 (torch takes seconds)

    if records:
        ensure_writable(records)  # before the minutes of timing
    report = benchmark(encodings=None if encodings is None else encodings.split(","), **settings)
    click.echo(report.to_markdown())
    if records:
        click.echo(str(report.write(records)))
