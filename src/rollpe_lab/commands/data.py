"""`rollpe data`: fetch and verify data sets."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rollpe_lab.commands.options import DATASETS, root_option


@click.group()
def data() -> None:
    """Fetch and verify the data sets.

    The digits, of which place and offset are made, come with scikit-learn, the text with SymPy; CIFAR-100 is
    a download of 169 MB.

    Example: rollpe data fetch cifar100
    """


@data.command("fetch")
@click.argument("name", type=DATASETS)
@root_option
def data_fetch(name: str, root: Path) -> None:
    """Download a data set.

    Every file is compared with its known SHA-256. Files that are already there are not downloaded again.

    Example: rollpe data fetch cifar100
    """
    from rollpe_lab.training.fetch import fetch  # noqa: PLC0415 (torch takes seconds)

    fetch(name, root)
    click.echo(f"{name} is complete and verified under {root}/")


@data.command("verify")
@click.argument("name", type=DATASETS, default="cifar100")
@root_option
def data_verify(name: str, root: Path) -> None:
    """Compare every file of a data set with its SHA-256.

    Prints how to repair missing and damaged files, and exits with status 1 if there are any.

    Example: rollpe data verify cifar100
    """
    from rollpe_lab.training.fetch import verify  # noqa: PLC0415 (torch takes seconds)

    checks = verify(name, root)
    for check in checks:
        click.echo(f"{check.state:8} {check.path}" + (f"   repair: {check.repair}" if check.repair else ""))
    if any(check.state != "ok" for check in checks):
        sys.exit(1)
