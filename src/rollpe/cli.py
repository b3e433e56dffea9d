"""The command ``rollpe``: a table from each verb to its module, and what errors look like.

A verb's module is imported when the verb runs, so that ``rollpe --help`` answers at once. Bad input prints
one line on stderr and exits with status 2; a failed check or gate exits with status 1.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from rollpe import __version__
from rollpe.errors import NOT_WRITABLE, InputError, hint

try:
    import click
except ModuleNotFoundError:  # the library is installed alone, for its encodings
    print('rollpe: click is not installed. Repair: pip install "rollpe[train]".', file=sys.stderr)
    sys.exit(2)

VERBS = {
    "notebook": ("rollpe_book.commands", "Run a chapter with other values and write it as a page."),
    "data": ("rollpe_lab.commands.data", "Fetch and verify the data sets."),
    "train": ("rollpe_lab.commands.train", "Train one model and write its record."),
    "sweep": ("rollpe_lab.commands.sweep", "Train the missing runs of a plan, by priority."),
    "table": ("rollpe_lab.commands.results", "Print the results of one recipe beside the paper's."),
    "compare": ("rollpe_lab.commands.results", "Compare two runs or groups of runs."),
    "equations": ("rollpe_book.commands", "Check every equation of the book."),
    "claims": ("rollpe_book.commands", "Print the verdicts on the paper's claims."),
    "bench": ("rollpe_lab.commands.bench", "Time training steps of every encoding."),
    "gate": ("rollpe_book.commands", "Check that the executed notebooks are up to date."),
}
"""Module and summary of every verb, in the order in which a newcomer needs them."""

RESUME = {
    "train": "; the same command with --resume resumes from the last checkpoint",
    "sweep": "; the same command resumes",
}
"""How to resume an interrupted verb."""


class Verbs(click.Group):
    """A group that imports the module of a verb when it is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return getattr(import_module(VERBS[name][0]), name) if name in VERBS else None

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        if args[0] not in VERBS:
            context.fail(f"no command {args[0]!r}.{hint(args[0], VERBS)} There are {', '.join(VERBS)}.")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in VERBS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rollpe")
def cli() -> None:
    """Positional encodings for attention: rerun the book, train, compare.

    Start with a chapter of the book or a training run of seconds. Each verb has its own --help.

    \b
    Example: rollpe notebook notebooks/06-continuous.py -p n 30
    Example: rollpe train --encoding roll --recipe quick --set epochs=2
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point: an error that a person can repair prints one line and exits with status 2."""
    words = sys.argv[1:] if arguments is None else arguments
    resume = next((hint for verb, hint in RESUME.items() if " ".join(words[:2]).startswith(verb)), "")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _terminated_as_interrupted():
            cli.main(arguments, prog_name="rollpe", standalone_mode=False)
    except InputError as error:
        _stop(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "rollpe").partition(".")[0]
        if package == "rollpe_book":
            _stop("this verb is of the book, which is built from a clone of the project.")
        if package in ("rollpe", "rollpe_lab"):
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
        _stop(f"{os.fsdecode(error.filename)}: {error.strerror}. Name another file or folder{resume}.")


class _Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM as SIGINT, so that locks are released and the message says how to resume."""
    if threading.current_thread() is not threading.main_thread():
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


def _stop(line: str) -> NoReturn:
    click.echo(f"rollpe: {' '.join(line.split())}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
