"""`rollpe table` and `rollpe compare`; their help needs no statistics, whose import takes half a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from rollpe.errors import InputError
from rollpe_lab.commands.options import all_records, read_option, record_folders


@click.command()
@click.option("--recipe", default="quick", show_default=True, help="Recipe, or its YAML file.")
@click.option("--format", "style", type=click.Choice(["md", "csv", "latex"]), default="md", show_default=True)
@read_option
def table(recipe: str, style: str, records: tuple[Path, ...]) -> None:
    """Print the results of one recipe beside the paper's.

    Mean, standard deviation and 95 % interval over seeds, for every trained encoding. Recipes on CIFAR-100
    are shown beside the paper's Table 1, whose encodings without records are "not measured". With --records,
    only encodings that have records there are listed. An unknown recipe without records is refused.

    \b
    Example: rollpe table --recipe quick
    Example: rollpe table --recipe strong --format latex
    """
    from rollpe_lab.evidence.table import results_table  # noqa: PLC0415
    from rollpe_lab.training.recipe import load_recipe, recipes  # noqa: PLC0415

    if recipe.endswith((".yaml", ".yml")):
        recipe = load_recipe(recipe).name
    folders = record_folders(records)
    trained = {path.parts[-3] for folder in folders for path in folder.glob("*/*/seed-*.json")}
    if recipe not in (known := sorted({*recipes(), *trained})):
        raise InputError(f"recipe {recipe!r} is unknown and has no records. Known: {', '.join(known)}.")
    if records and recipe not in trained:
        found = ", ".join(sorted(trained)) or "none"
        raise InputError(f"recipe {recipe!r} has no records in these folders. Recipes that have: {found}.")
    results = results_table(all_records(folders, recipe), recipe)
    if records:
        results = replace(results, rows=[row for row in results.rows if row.measured])
    click.echo({"md": results.to_markdown, "csv": results.to_csv, "latex": results.to_latex}[style]())


@click.command()
@click.argument("a")
@click.argument("b")
@read_option
def compare(a: str, b: str, records: tuple[Path, ...]) -> None:
    """Compare two runs or groups of runs.

    A and B are each the file of a record, or recipe/encoding[@options] with all its seeds. Runs that differ
    in more than encoding, options and seed are refused with the reason.

    \b
    Example: rollpe compare quick/roll quick/learned
    Example: rollpe compare data/records/quick/roll/seed-0.json data/records/quick/learned/seed-0.json
    """
    from rollpe_lab.evidence.compare import compare as compare_runs  # noqa: PLC0415
    from rollpe_lab.evidence.compare import find_runs  # noqa: PLC0415

    folders = [] if all(name.endswith(".json") for name in (a, b)) else record_folders(records)
    groups = [find_runs(name, folders) for name in (a, b)]
    click.echo(str(compare_runs(*groups)))
