"""Options that several verbs share."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from rollpe.errors import InputError

DATASETS = click.Choice(
    ["digits", "place", "offset", "points", "points-rounded", "cifar100", "sympy", "sklearn"]
)
RECORD_FOLDERS = (Path("data/records"), Path("_build/records"))


class Named(click.Path):
    """A path of at least one character: the empty one would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty. Name a file or folder; . is the working folder.", param, ctx)
        return super().convert(value, param, ctx)


PATH = Named(path_type=Path)


def folder_option(name: str, default: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=PATH, default=Path(default), show_default=True, help=text)


def pairs(context: click.Context, option: click.Parameter, items: tuple[str, ...]) -> dict[str, str]:
    """("a=1", "b=2") → {"a": "1", "b": "2"}."""
    pairs = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not separator or not key:
            name = option.opts[0]
            raise InputError(f"{name} {item}: write key=value, for example {name} epochs=5.")
        pairs[key] = value
    return pairs


pairs_option = partial(click.option, multiple=True, metavar="KEY=VALUE", callback=pairs)
device_option = click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps."
)
set_option = pairs_option("--set", "overrides", help="Change a key of the recipe (repeatable).")
root_option = folder_option("--root", "data", "Folder of the data.")
data_root_option = folder_option("--data-root", "data", "Folder of the data.")
checkpoints_option = folder_option(
    "--checkpoints", "checkpoints", "Folder of checkpoints, from which an interrupted run resumes."
)
keep_option = click.option(
    "--keep-weights", is_flag=True, help="Leave the trained weights among the checkpoints, for load_model."
)
read_option = click.option(
    "--records",
    multiple=True,
    type=PATH,
    help="Folders to read (repeatable).  [default: data/records, then _build/records]",
)


def seconds(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """ "90", "90s", "25m", "1.5h", "1h30m" → seconds. Raises InputError for anything else."""
    if text is None:
        return None
    number = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
    parts = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", text.replace(" ", ""))
    if not parts or not any(parts.groups()):
        raise InputError(f"budget {text!r}: write seconds, or a time such as 90s, 25m, 1h30m.")
    return sum(float(part or 0) * unit for part, unit in zip(parts.groups(), (3600, 60, 1), strict=True))


def register(context: click.Context, option: click.Parameter, files: tuple[Path, ...]) -> None:
    for file in files:
        from rollpe.encodings import import_encodings  # noqa: PLC0415 (torch takes seconds)

        import_encodings(file)


files_option = partial(
    click.option,
    "--import",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="A Python file of your own that registers encodings (repeatable).",
)
import_option = files_option(callback=register, expose_value=False)


def record_folders(folders: tuple[Path, ...]) -> list[Path]:
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


def all_records(folders: list[Path], recipe: str | None = None) -> list[Any]:
    from rollpe_lab.records.store import read_records  # noqa: PLC0415 (numpy and pydantic)

    return [record for folder in folders for record in read_records(folder, recipe)]
