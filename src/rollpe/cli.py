"""The command ``rollpe``: one verb for each thing that the library does.

Here: options, help and printed output. Not here: any computation. Every verb calls one public function of the
library, imported when the verb runs, so that ``rollpe --help`` answers at once. Bad input prints one line on
stderr and exits with status 2; a failed check or gate exits with status 1.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from rollpe import __version__
from rollpe.errors import NOT_WRITABLE, InputError

try:
    import click
except ModuleNotFoundError:  # the library is installed alone, for its encodings
    print('rollpe: click is not installed. Repair: pip install "rollpe[train]".', file=sys.stderr)
    sys.exit(2)

DATASETS = click.Choice(["digits", "place", "offset", "cifar100", "sympy", "sklearn"])
RECORD_FOLDERS = (Path("data/records"), Path("_build/records"))
RESUME = {
    "train": "; the same command with --resume resumes from the last checkpoint",
    "sweep": "; the same command resumes",
}
"""How to resume an interrupted verb."""


class Named(click.Path):
    """A path of at least one character: the empty one would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty. Name a file or folder; . is the working folder.", param, ctx)
        return super().convert(value, param, ctx)


PATH = Named(path_type=Path)


def _folder(name: str, default: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=PATH, default=Path(default), show_default=True, help=text)


# Options that several verbs share.
_device = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
_overrides = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe (repeatable)."
)
_root = _folder("--root", "data", "Folder of the data.")
_data_root = _folder("--data-root", "data", "Folder of the data.")
_read_from = click.option(
    "--records",
    multiple=True,
    type=PATH,
    help="Folders to read (repeatable).  [default: data/records, then _build/records]",
)


def _seconds(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    from rollpe_lab.training.estimates import parse_duration

    return parse_duration(text)


def _import(context: click.Context, option: click.Parameter, files: tuple[Path, ...]) -> None:
    if files:
        from rollpe.encodings import import_encodings

        for file in files:
            import_encodings(file)


_import_option = partial(
    click.option,
    "--import",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="A Python file of your own that registers encodings (repeatable).",
)
_imports = _import_option(callback=_import, expose_value=False)


class InOrder(click.Group):
    """A group that lists its verbs in the order of this file, in which a newcomer needs them."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rollpe")
def cli() -> None:
    """Positional encodings for attention: rerun the book, train, compare.

    Start with a chapter of the book or a training run of seconds. Each verb has its own --help.

    \b
    Example: rollpe notebook notebooks/06-continuous.py -p n 30
    Example: rollpe train --encoding roll --recipe quick --set epochs=2
    """


def _pairs(items: tuple[str, ...], option: str) -> dict[str, str]:
    """("a=1", "b=2") → {"a": "1", "b": "2"}."""
    pairs = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not separator or not key:
            raise InputError(f"{option} {item}: write key=value, for example {option} epochs=5.")
        pairs[key] = value
    return pairs


def _short(path: Path) -> Path:
    """The path relative to the working folder, if it is inside."""
    path, here = Path(path).resolve(), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _print_opener(page: Path) -> None:
    click.echo(f"open it   {shlex.quote(sys.executable)} -m webbrowser -t {page.resolve().as_uri()}")


def _record_folders(folders: tuple[Path, ...]) -> list[Path]:
    """The given folders; otherwise the usual ones, of the working folder or of the project around it."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"--records {folder}: no such folder.")
    if folders:
        return list(folders)
    around = (Path(), *(up for up in Path.cwd().parents if (up / "pyproject.toml").is_file()))
    for root in around:
        if here := [root / folder for folder in RECORD_FOLDERS if (root / folder).is_dir()]:
            return here
    usual = " and no ".join(f"{folder}/" for folder in RECORD_FOLDERS)
    raise InputError(f"no {usual} here: go to the project's folder, or name one with --records.")


def _records(folders: list[Path]) -> list[Any]:
    from rollpe_lab.records.store import read_records

    return [record for folder in folders for record in read_records(folder)]


# Notebooks


class NameValue(click.Command):
    """A command whose -p also takes NAME=VALUE, as --set and --option do."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        pairs = zip(["", *args], args, strict=False)
        words = [word.split("=", 1) if before == "-p" else [word] for before, word in pairs]
        return super().parse_args(context, list(chain.from_iterable(words)))


@cli.command(cls=NameValue)
@click.argument("file", type=PATH, required=False)
@click.option(
    "-p", "parameters", multiple=True, nargs=2, metavar="NAME VALUE", help="Set a parameter (repeatable)."
)
@click.option(
    "--output",
    type=PATH,
    help="Path of the executed notebook; no page is written then.",
)
@_import_option("imports")
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
    from rollpe_book import chapters as notebooks
    from rollpe_lab.sources import find_root

    if synchronize or check:
        differing = notebooks.sync(check=check)
        for path in differing:
            click.echo(f"{path}: {'differs from its pair' if check else 'written'}")
        sys.exit(1 if check and differing else 0)
    if file is None:
        raise InputError("no notebook named: give its path, for example notebooks/11-train.py.")
    if file.name and file.parent == Path() and not file.with_suffix(".py").is_file():
        file = _short(find_root() / "notebooks" / file)
    if show:
        for p in notebooks.read_parameters(file):
            click.echo(f"{p.name}: {p.type} = {p.default!r}   {p.help} {p.allowed}".rstrip())
        return
    executed = notebooks.run(file, dict(parameters), output=output, imports=imports)
    click.echo(f"executed  {_short(executed)}")
    if output is not None:
        return
    try:
        from rollpe_book.extension.page import notebook_page
    except ModuleNotFoundError as error:  # the run itself succeeded
        repair = "Repair: pip install -e '.[book]'."
        click.echo(f"rollpe: no page: {error.name} is not installed. {repair}", err=True)
        return
    page = notebook_page(executed, find_root(file))
    changed = notebooks.read_stamp(executed)["changed"]
    values = ", ".join(f"{name}={value}" for name, value in changed.items())
    click.echo(f"page      {_short(page)}   ({values or 'all parameters at their defaults'})")
    _print_opener(page)


# Data


@cli.group()
def data() -> None:
    """Fetch and verify the data sets.

    The digits, of which place and offset are made, come with scikit-learn, the text with SymPy; CIFAR-100 is
    a download of 169 MB.

    Example: rollpe data fetch cifar100
    """


@data.command("fetch")
@click.argument("name", type=DATASETS)
@_root
def data_fetch(name: str, root: Path) -> None:
    """Download a data set.

    Every file is compared with its known md5. Files that are already there are not downloaded again.

    Example: rollpe data fetch cifar100
    """
    from rollpe_lab.training.fetch import fetch

    fetch(name, root)
    click.echo(f"{name} is complete and verified under {root}/")


@data.command("verify")
@click.argument("name", type=DATASETS, default="cifar100")
@_root
def data_verify(name: str, root: Path) -> None:
    """Compare every file of a data set with its md5.

    Prints how to repair missing and damaged files, and exits with status 1 if there are any.

    Example: rollpe data verify cifar100
    """
    from rollpe_lab.training.fetch import verify

    checks = verify(name, root)
    for check in checks:
        click.echo(f"{check.state:8} {check.path}" + (f"   repair: {check.repair}" if check.repair else ""))
    if any(check.state != "ok" for check in checks):
        sys.exit(1)


# Train and read


@cli.command()
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
    help="smoke, quick (digits), place, offset, mini, short, strong, paper (CIFAR-100), text, text-strong, "
    "or a YAML file.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of the initial weights, the order of the images, their augmentation and the dropout.",
)
@_overrides
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the encoding (repeatable)."
)
@_imports
@_device
@_folder("--records", "_build/records", "Folder the record is written to.")
@_data_root
@click.option("--resume", is_flag=True, help="Resume from the last checkpoint of the same run.")
@click.option("--force", is_flag=True, help="Replace the record if this run has one.")
@click.option("--no-progress", is_flag=True, help="No progress bar.")
def train(
    encoding: str,
    recipe: str,
    seed: int,
    overrides: tuple[str, ...],
    options: tuple[str, ...],
    device: str,
    records: Path,
    data_root: Path,
    resume: bool,
    force: bool,
    no_progress: bool,
) -> None:
    """Train one model and write its record.

    The error for an unknown name or key lists the known ones. The recipes are the YAML files in
    src/rollpe_lab/training/recipes; the encodings have a page in the book.

    \b
    Example: rollpe train --encoding roll --recipe quick --seed 0 --set epochs=5
    Example: rollpe train --encoding roll --option width=15 --recipe strong --device cuda
    """
    from rollpe.encodings import changed_options
    from rollpe_lab.files import read_yaml
    from rollpe_lab.records import Cell, record_path
    from rollpe_lab.training import load_recipe
    from rollpe_lab.training.distributed import is_main_process
    from rollpe_lab.training.run import train

    encoding_options = {key: read_yaml(value, key) for key, value in _pairs(options, "--option").items()}
    settings = load_recipe(recipe, _pairs(overrides, "--set"))
    changed = changed_options(encoding, encoding_options)
    cell = Cell(recipe=settings.name, encoding=encoding, encoding_options=changed, seed=seed)
    if not force and (path := record_path(records, cell)).exists():
        raise InputError(f"{path}: this run has a record. Replace it with --force, or name other --records.")
    record = train(
        settings,
        encoding,
        seed=seed,
        encoding_options=encoding_options,
        device=device,
        records=records,
        data_root=data_root,
        resume=resume,
        progress=not no_progress,
    )
    if is_main_process():
        measure = "test text" if record.bits else "test accuracy"
        click.echo(f"{measure} {record.result}   {record_path(records, record)}")


@cli.command()
@click.argument("checkpoints", type=PATH, nargs=-1, required=True)
@_folder("--records", "data/records", "Folder of the records of those runs.")
@_device
@_data_root
def observe(checkpoints: tuple[Path, ...], records: Path, device: str, data_root: Path) -> None:
    """Measure trained models again and write the arrays beside their records.

    CHECKPOINTS are files of finished runs. Training writes these arrays already; the command is for runs that
    lack some of them. A model whose accuracy differs from its record is refused.

    Example: rollpe observe checkpoints/mini/roll/seed-0.pt
    """
    from rollpe_lab.training.again import observe_again

    for path in checkpoints:
        click.echo(observe_again(path, records, device=device, data_root=data_root))


@cli.command()
@click.argument("file", metavar="PLAN", type=PATH)
@click.option("--budget", callback=_seconds, help="Time limit: 90s, 25m, 1h30m; unlimited by default.")
@_overrides
@_folder(
    "--records", "data/records", "Folder of the records: read to find the missing runs, then written to."
)
@_imports
@_device
@_data_root
@_folder("--checkpoints", "checkpoints", "Folder of checkpoints, from which interrupted runs resume.")
@click.option("--no-checkpoints", is_flag=True, help="Write no checkpoints: an interrupted run starts again.")
@click.option("--retry", is_flag=True, help="Also run cells that failed before.")
@click.option("--measure", is_flag=True, help="Estimate durations from short runs now, not from old records.")
@click.option("--only", metavar="CELL", help="Run one cell, named as its record: recipe/encoding/seed-0.")
@click.option("--list", "show", is_flag=True, help="Only list the missing runs, by priority.")
@click.option("--no-progress", is_flag=True, help="No progress bars.")
def sweep(
    file: Path,
    budget: float | None,
    overrides: tuple[str, ...],
    records: Path,
    device: str,
    data_root: Path,
    checkpoints: Path,
    no_checkpoints: bool,
    retry: bool,
    measure: bool,
    only: str | None,
    show: bool,
    no_progress: bool,
) -> None:
    """Train the missing runs of a plan, by priority.

    PLAN is a YAML file of encodings and seeds under one recipe; examples are in plans/. A run starts if it
    should fit the budget, as estimated from earlier runs, at first from records of the same kind of device.
    The same command resumes; several sweeps may share one folder of records.

    \b
    Example: rollpe sweep plans/quick.yaml --list
    Example: rollpe sweep plans/table1.yaml --budget 25m
    """
    from rollpe_lab.training import plan, sweep

    planned = plan.load_plan(file, _pairs(overrides, "--set"))
    if only is not None:
        planned = plan.select_cell(planned, only)
    failed = False
    if show:
        absent = plan.missing(planned, records, retry=True)
    else:
        report = sweep.Sweep(
            planned,
            records,
            budget=budget,
            device=device,
            data_root=data_root,
            checkpoints=None if no_checkpoints else checkpoints,
            retry=retry,
            measure=measure,
            progress=not no_progress,
            say=click.echo,
        ).run()
        absent = report.missing
        failed = bool(only and absent)
    for cell in absent:
        reason = "" if retry else plan.failure(records, cell.cell)
        again = f"failed: {cell}: {reason.rstrip('.')}. Try it again with --retry."
        click.echo(again if reason else f"missing: {cell}")
    click.echo(f"{len(planned) - len(absent)} of {len(planned)} cells have a record")
    if failed:
        sys.exit(1)


@cli.command()
@click.argument("plan", type=PATH)
@_overrides
@_device
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Encodings to compile at a time."
)
@click.option(
    "--keep",
    type=Named(path_type=Path, file_okay=False),
    help="Folder of compiled programs, read first and written at the end, to copy to the next machine.",
)
def warm(plan: Path, overrides: tuple[str, ...], device: str, jobs: int, keep: Path | None) -> None:
    """Compile the models of a plan before its runs start.

    Compiles on noise and needs no data. Each encoding is compiled once; a later sweep on this machine finds
    the programs in the cache of torch's compiler.

    Example: rollpe warm plans/table1-short.yaml --device cuda --jobs 6
    """
    from rollpe_lab.training.plan import load_plan
    from rollpe_lab.training.sweep import warm

    planned = load_plan(plan, _pairs(overrides, "--set"))
    if not warm(planned, device=device, jobs=jobs, keep=keep, say=click.echo):
        sys.exit(1)


@cli.command()
@click.option("--recipe", default="quick", show_default=True, help="Recipe whose runs are listed.")
@click.option("--format", "style", type=click.Choice(["md", "csv", "latex"]), default="md", show_default=True)
@_read_from
def table(recipe: str, style: str, records: tuple[Path, ...]) -> None:
    """Print the results of one recipe beside the paper's.

    Mean, standard deviation and 95 % interval over seeds, for every trained encoding. Recipes on CIFAR-100
    are shown beside the paper's Table 1. An encoding without records is "not measured"; an unknown recipe
    without records is refused.

    \b
    Example: rollpe table --recipe quick
    Example: rollpe table --recipe strong --format latex
    """
    from rollpe_lab.evidence.table import results_table
    from rollpe_lab.training.recipe import recipes

    runs = _records(_record_folders(records))
    if recipe not in (known := sorted({*recipes(), *(record.recipe for record in runs)})):
        raise InputError(f"recipe {recipe!r} is unknown and has no records. Known: {', '.join(known)}.")
    results = results_table(runs, recipe)
    click.echo({"md": results.to_markdown, "csv": results.to_csv, "latex": results.to_latex}[style]())


@cli.command()
@click.argument("a")
@click.argument("b")
@_read_from
def compare(a: str, b: str, records: tuple[Path, ...]) -> None:
    """Compare two runs or groups of runs.

    A and B are each the file of a record, or recipe/encoding[@options] with all its seeds. Runs that differ
    in more than encoding, options and seed are refused with the reason.

    \b
    Example: rollpe compare quick/roll quick/learned
    Example: rollpe compare data/records/quick/roll/seed-0.json data/records/quick/learned/seed-0.json
    """
    from rollpe_lab.evidence import comparison

    folders = [] if all(name.endswith(".json") for name in (a, b)) else _record_folders(records)
    groups = [comparison.find_runs(name, folders) for name in (a, b)]
    click.echo(str(comparison.compare(*groups)))


# Equations and claims


@cli.command()
@click.argument("labels", nargs=-1)
@click.option("--json", "report", type=PATH, help="Also write the report that the book reads.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random cases.")
def equations(labels: tuple[str, ...], report: Path | None, seed: int) -> None:
    """Check every equation of the book.

    Each equation is computed in two independent ways on random cases, and the largest difference is printed.
    LABELS select equations; all by default. Exit status 1 if a check fails.

    \b
    Example: rollpe equations
    Example: rollpe equations eq-roll eq-roll-score
    """
    from rollpe_book.equations import EQUATIONS, run_checks, write_report
    from rollpe_lab.files import expect_file

    if report:
        expect_file(report)
    results = run_checks(labels or None, seed=seed)
    unchecked = [e for name, e in EQUATIONS.items() if e.reason is not None and name in (labels or EQUATIONS)]
    width = max(map(len, [r.label for r in results] + [e.label for e in unchecked]))
    click.echo(f"{'equation':{width}}  {'page':14} {'error':>9} {'tolerance':>9}  verdict  implemented by")
    for r in results:
        verdict = "ok" if r.passed else "FAILED"
        numbers = f"{r.error:9.1e} {r.tolerance:9.1e}"
        click.echo(f"{r.label:{width}}  {r.page:14} {numbers}  {verdict:7}  {', '.join(r.implements)}")
    for equation in unchecked:
        click.echo(f"{equation.label:{width}}  {equation.page:14} not checked: {equation.reason}")
    failed = [r.label for r in results if not r.passed]
    rest = f", {len(unchecked)} not checked" if unchecked else ""
    click.echo(f"{len(results)} checked, {len(failed)} failed{rest}")
    if report:
        write_report(report, results, seed)
    if failed:
        sys.exit(1)


@cli.command()
@click.option("--full", is_flag=True, help="Print every claim, not only the counts.")
@_read_from
def claims(full: bool, records: tuple[Path, ...]) -> None:
    """Print the verdicts on the paper's claims.

    Verdicts are computed from the checks of the equations and from the records. Exit status 1 if a check
    that a claim depends on fails.

    Example: rollpe claims --full
    """
    from rollpe_book.equations import run_checks
    from rollpe_lab.evidence.claims import counts, ledger, to_markdown
    from rollpe_lab.records.store import find_arrays

    folders = _record_folders(records)
    verdicts = ledger(run_checks(), _records(folders), arrays=partial(find_arrays, folders=folders))
    if full:
        click.echo(to_markdown(verdicts))
    for verdict, number in counts(verdicts).items():
        click.echo(f"{number:4}  {verdict}")
    if broken := [verdict.claim.id for verdict in verdicts if verdict.broken]:
        click.echo(f"these claims depend on checks that failed: {', '.join(broken)}", err=True)
        sys.exit(1)


@cli.command()
@_device
@click.option("--recipe", default="strong", show_default=True, help="Recipe whose models are timed.")
@_overrides
@click.option("--size", help="nano, tiny, small or base; the default depends on the device.")
@click.option("--batch", type=click.IntRange(min=1), help="Batch size; the default depends on the device.")
@click.option(
    "--encodings", help="Names separated by commas; by default all, also with 256 and 1,024 patches."
)
@_imports
@click.option("--eager", is_flag=True, help="Time without torch.compile.")
@click.option("--rounds", type=click.IntRange(2, 10_000), default=20, show_default=True)
@click.option("--timm/--no-timm", default=True, help="Also time timm's models.  [default: yes]")
@click.option("--profile", is_flag=True, help="Also list the kernels of a step; needs --records.")
@click.option(
    "--budget", callback=_seconds, help="Time limit: 90s, 10m. The report names the timings that did not fit."
)
@click.option("--records", type=PATH, help="Also write the report into this folder.")
def bench(
    device: str,
    recipe: str,
    overrides: tuple[str, ...],
    size: str | None,
    batch: int | None,
    encodings: str | None,
    eager: bool,
    rounds: int,
    timm: bool,
    profile: bool,
    budget: float | None,
    records: Path | None,
) -> None:
    """Time training steps of every encoding, of none, and of timm's own models.

    Example: rollpe bench --device cpu --encodings axial-rope,roll
    """
    from rollpe_lab.bench.run import benchmark
    from rollpe_lab.files import ensure_writable

    if profile and not records:
        raise click.UsageError("--profile writes files: name their folder with --records.")
    if records:
        ensure_writable(records)  # before the minutes of timing
    report = benchmark(
        recipe=recipe,
        overrides=_pairs(overrides, "--set"),
        device=device,
        size=size,
        batch=batch,
        encodings=None if encodings is None else encodings.split(","),
        compiled=not eager,
        rounds=rounds,
        timm=timm,
        profile=profile,
        budget=budget,
    )
    click.echo(report.to_markdown())
    if records:
        click.echo(str(report.write(records)))


@cli.command()
def gate() -> None:
    """Check that the executed notebooks are complete and up to date.

    Lists notebooks that are missing, failed, older than their source (stale), changed after their run
    (edited), run with other values than the defaults (reduced), with asserts switched off (unchecked) or
    without output (hollow); pairs that differ; and a report of the equations that is stale or edited. Each
    line ends with the command that repairs it. Exit status 1 if there is any.

    Example: rollpe gate
    """
    from rollpe_book.chapters.stamp import gate

    reasons = gate()
    for reason in reasons:
        click.echo(reason, err=True)
    if reasons:
        sys.exit(1)
    click.echo("every executed notebook is complete and up to date")


def main(arguments: list[str] | None = None) -> None:
    """Entry point: an error that a person can repair prints one line and exits with status 2."""
    words = sys.argv[1:] if arguments is None else arguments
    resume = next((hint for verb, hint in RESUME.items() if " ".join(words[:2]).startswith(verb)), "")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()
    except OSError:
        _stop("the working folder is gone. Go to another one.")
    if any("\0" in word for word in words):
        _stop("an argument holds the character NUL. Leave it out.")
    try:
        with _terminated_as_interrupted():
            cli.main(arguments, prog_name="rollpe", standalone_mode=False)
    except InputError as error:
        _stop(str(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "rollpe":
            raise
        _stop(f'{error.name} is not installed. Repair: pip install "rollpe[train]".')
    except click.exceptions.NoArgsIsHelpError:
        main([*words, "--help"])
    except click.ClickException as error:
        _stop(error.format_message())
    except click.Abort as error:  # before RuntimeError, which it is
        if isinstance(error.__cause__, EOFError):
            _stop(f"a file or the input ended too early ({error.__cause__}).")
        terminated = isinstance(error.__cause__, _Terminated)
        click.echo(f"rollpe: {'terminated' if terminated else 'interrupted'}{resume}", err=True)
        sys.exit(143 if terminated else 130)
    except RuntimeError as error:
        if type(error).__name__ != "TrainingError":  # by name: importing it would import torch
            raise
        click.echo(f"rollpe: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        if error.errno in NOT_WRITABLE:
            place = f"{error.filename}: " if error.filename else ""
            _stop(f"{place}{error.strerror}. Make room or choose another folder{resume}.")
        if not error.filename:
            raise
        _stop(f"{_cut(error.filename)}: {error.strerror}. Name another file or folder{resume}.")


class _Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM as SIGINT, so that locks are released and the message says how to resume.

    Processes of torchrun keep the default: while they wait for each other, Python handles no signal.
    """
    if threading.current_thread() is not threading.main_thread() or os.environ.get("WORLD_SIZE", "1") != "1":
        yield
        return

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _cut(text: str | bytes) -> str:
    text = os.fsdecode(text)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _stop(line: str) -> NoReturn:
    click.echo(f"rollpe: {' '.join(line.split())}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
