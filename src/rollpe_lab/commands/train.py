"""`rollpe train`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rollpe.errors import InputError
from rollpe_lab.commands import options as shared
from rollpe_lab.files import read_yaml
from rollpe_lab.records import RunId, record_path


@click.command()
@click.option(
    "--encoding",
    default="roll",
    show_default=True,
    help="A name such as none, learned, axial-rope, roll; or two joined, learned+roll.",
)
@click.option(
    "--recipe",
    default="quick",
    show_default=True,
    help="smoke, quick (digits), place, offset, points, mini, short, strong, paper (CIFAR-100), text, "
    "text-strong, or a YAML file.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of the initial weights, the order of the images, their augmentation and the dropout.",
)
@shared.set_option
@shared.pairs_option("--option", "options", help="An option of the encoding (repeatable).")
@shared.import_option
@shared.device_option
@shared.folder_option("--records", "_build/records", "Folder the record is written to.")
@shared.data_root_option
@shared.checkpoints_option
@shared.keep_option
@click.option("--resume", is_flag=True, help="Resume from the last checkpoint of the same run.")
@click.option("--force", is_flag=True, help="Replace the record if this run has one.")
@click.option("--no-progress", is_flag=True, help="No progress bar.")
def train(
    encoding: str,
    recipe: str,
    seed: int,
    overrides: dict[str, str],
    options: dict[str, str],
    records: Path,
    force: bool,
    no_progress: bool,
    **settings: Any,
) -> None:
    """Train one model and write its record.

    The error for an unknown name or key lists the known ones. The recipes are the YAML files in
    src/rollpe_lab/training/recipes; the encodings have a page in the book.

    \b
    Example: rollpe train --encoding roll --recipe quick --seed 0 --set epochs=5
    Example: rollpe train --encoding roll --option width=15 --recipe strong --device cuda
    """
    from rollpe.encodings import changed_options  # noqa: PLC0415 (torch takes seconds)
    from rollpe_lab import training  # noqa: PLC0415

    training.choose_device(settings["device"])
    encoding_options = {key: read_yaml(value, key) for key, value in options.items()}
    changed_recipe = training.load_recipe(recipe, overrides)
    changed = changed_options(encoding, encoding_options)
    run_id = RunId(recipe=changed_recipe.name, encoding=encoding, encoding_options=changed, seed=seed)
    if not force and (path := record_path(records, run_id)).exists():
        raise InputError(f"{path}: this run has a record. Replace it with --force, or name other --records.")
    settings |= {"seed": seed, "encoding_options": encoding_options, "records": records}
    record = training.train(changed_recipe, encoding, progress=not no_progress, **settings)
    measure = "test text" if record.bits else "test accuracy"
    click.echo(f"{measure} {record.result}   {record_path(records, record)}")
