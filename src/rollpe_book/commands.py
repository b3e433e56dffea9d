"""The verbs of ``rollpe`` that run chapters and check equations, claims and outputs.

What imports torch is imported where it is used: `notebook` and `gate` start without it.
"""

from __future__ import annotations

import shlex
import sys
from itertools import chain
from pathlib import Path

import click

from rollpe.errors import InputError
from rollpe_book import chapters
from rollpe_book.checks import pages_of_equations, read_checks
from rollpe_lab.commands.options import PATH, all_records, files_option, read_option, record_folders
from rollpe_lab.hashes import find_root


class NameValue(click.Command):
    """A command whose -p also takes NAME=VALUE, as --set and --option do."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        pairs = zip(["", *args], args, strict=False)
        split = [word.split("=", 1) if before == "-p" else [word] for before, word in pairs]
        words = list(chain.from_iterable(split))
        for option, name, value in zip(words, words[1:], words[2:], strict=False):
            if option == "-p" and value.startswith("--"):
                raise InputError(f"-p {name}: give a value before {value}, for example -p {name}=3.")
        return super().parse_args(context, words)


def short(path: Path) -> Path:
    """The path relative to the working folder, if it is inside."""
    path, here = Path(path).resolve(), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


@click.command(cls=NameValue)
@click.argument("file", type=PATH, required=False)
@click.option(
    "-p", "parameters", multiple=True, nargs=2, metavar="NAME VALUE", help="Set a parameter (repeatable)."
)
@click.option(
    "--output",
    type=PATH,
    help="Path of the executed notebook; no page is written then.",
)
@files_option("imports")
@click.option("--list", "show", is_flag=True, help="List the notebook's parameters and stop.")
@click.option("--sync", "synchronize", is_flag=True, help="Rewrite every .ipynb from its .py.")
@click.option("--check", is_flag=True, help="Only report pairs that differ; exit status 1 if any do.")
def notebook(
    file: Path | None,
    parameters: tuple[tuple[str, str], ...],
    output: Path | None,
    imports: tuple[Path, ...],
    show: bool,
    synchronize: bool,
    check: bool,
) -> None:
    """Run a chapter with other values and write it as a page.

    FILE is one of notebooks/*.py, or its name alone. The page is one file that opens in any browser. A run
    with other values, or with an encoding of your own, goes to a folder of its own in _build/runs and leaves
    the book unchanged. Values are checked before anything runs.

    \b
    Example: rollpe notebook notebooks/06-continuous.py --list
    Example: rollpe notebook notebooks/06-continuous.py -p n 30 -p nyquist cosine
    """
    if synchronize or check:
        differing = chapters.sync(check=check)
        for path in differing:
            click.echo(f"{path}: {'differs from its pair' if check else 'written'}")
        sys.exit(1 if check and differing else 0)
    if file is None:
        raise InputError("no notebook named: give its path, for example notebooks/11-train.py.")
    if file.name and file.parent == Path() and not file.with_suffix(".py").is_file():
        file = short(find_root() / "notebooks" / file)
    if show:
        for p in chapters.read_parameters(file):
            click.echo(f"{p.name}: {p.type} = {p.default!r}   {p.help} {p.allowed}".rstrip())
        return
    executed = chapters.run(file, dict(parameters), output=output, imports=imports)
    click.echo(f"executed  {short(executed)}")
    if output is not None:
        return
    try:
        from rollpe_book.extension.page import notebook_page  # noqa: PLC0415
    except ModuleNotFoundError as error:  # the run itself succeeded
        repair = "Repair: pip install -e '.[book]'."
        click.echo(f"rollpe: no page: {error.name} is not installed. {repair}", err=True)
        return
    page = notebook_page(executed, find_root(file))
    changed = chapters.read_stamp(executed)["changed"]
    values = ", ".join(f"{name}={value}" for name, value in changed.items())
    click.echo(f"page      {short(page)}   ({values or 'all parameters at their defaults'})")
    click.echo(f"open it   {shlex.quote(sys.executable)} -m webbrowser -t {page.resolve().as_uri()}")


@click.command()
@click.argument("labels", nargs=-1)
def equations(labels: tuple[str, ...]) -> None:
    """List what the check of every displayed equation found.

    Chapters check their equations in their cells, by computing each in two ways; listed is what their last
    run found. LABELS select equations. Exit status 1 if a check is missing or failed.

    \b
    Example: rollpe equations
    Example: rollpe equations eq-roll eq-roll-score
    """
    root = find_root()
    found, pages = read_checks(root), pages_of_equations(root)
    if unknown := [label for label in labels if label not in pages]:
        raise InputError(f"{unknown[0]!r} is no equation: `rollpe equations` lists the {len(pages)} labels.")
    width, bad = max(map(len, pages)), []
    for label in labels or pages:
        page = f"notebooks/{pages[label]}.py"
        check = found.get(label)
        said = (
            f"{check.mark} {check.found}"
            if check
            else f"not checked; run: make book, or rollpe notebook {page}"
        )
        click.echo(f"{label:{width}}  {pages[label]:14} {said}")
        bad += [] if check and check.passed else [label]
    click.echo(f"{len(labels or pages) - len(bad)} checked, {len(bad)} missing or failed")
    if bad:
        sys.exit(1)


@click.command()
@click.option("--full", is_flag=True, help="Print every claim, not only the counts.")
@read_option
def claims(full: bool, records: tuple[Path, ...]) -> None:
    """Print the verdicts on the paper's claims.

    Verdicts are computed from the checks in executed chapters (make book) and from the records. Exit status 1
    if a check that a claim depends on failed.

    Example: rollpe claims --full
    """
    from rollpe_book.claims import counts, ledger, load_claims, to_markdown  # noqa: PLC0415

    folders = record_folders(records)
    recipes = dict.fromkeys(claim.records.recipe for claim in load_claims() if claim.records)
    found = [record for recipe in recipes for record in all_records(folders, recipe)]
    verdicts = ledger(read_checks(find_root()), found)
    if full:
        click.echo(to_markdown(verdicts))
    for verdict, number in counts(verdicts).items():
        click.echo(f"{number:4}  {verdict}")
    if broken := [verdict.claim.id for verdict in verdicts if verdict.broken]:
        click.echo(f"these claims depend on checks that failed: {', '.join(broken)}", err=True)
        sys.exit(1)


@click.command()
def gate() -> None:
    """Check that the executed notebooks are complete and up to date.

    Lists notebooks that are missing, failed, older than their source (stale), changed after their run
    (edited), run with other values than the defaults (reduced), with asserts switched off (unchecked) or
    without output (hollow). Each line ends with the command that repairs it. Exit status 1 if there is any.

    Example: rollpe gate
    """
    reasons = chapters.gate()
    for reason in reasons:
        click.echo(reason, err=True)
    if reasons:
        sys.exit(1)
    click.echo("every executed notebook is complete and up to date")
