"""Plans: which runs are wanted, and which of them exist.

A plan is a short YAML file: blocks of encodings and seeds in order of priority, under one recipe.

A plan::

    recipe: strong
    set: {epochs: 50}                      # optional: keys of the recipe changed for all blocks
    blocks:
      - encodings: [learned, roll, {roll: {width: 31}}]
        seeds: [0, 1, 2]                   # seed by seed, so that every prefix is balanced
        later: [3]                         # optional: added when earlier runs were known, so exploratory
      - encodings: [roll-twin]
        seeds: [0, 1]
        set: {learning_rate: 5e-4}         # optional, for this block alone

A plan fixes its seeds before the first run: seeds that are added after a look at results make these
exploratory, and so is all of a plan called …-later. Each record that a sweep leaves holds name and sha256 of
its plan's file, so that a later change of the plan shows.

Listing a plan whose encodings have no options needs no torch, which takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import os.path
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollpe.errors import InputError, hint
from rollpe.names import EncodingName
from rollpe_lab.files import read_yaml_file
from rollpe_lab.hashes import encoding_hash
from rollpe_lab.records.record import RunId, unlike
from rollpe_lab.records.store import read_record, record_path
from rollpe_lab.training.datasets import DATASETS
from rollpe_lab.training.recipe import Recipe, load_recipe

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Block(BaseModel):
    """Some encodings with some seeds, and what differs from the plan's recipe."""

    model_config = ConfigDict(extra="forbid", strict=True)

    encodings: list[str | dict[str, dict[str, Any]]] = Field(min_length=1)
    seeds: list[Seed] = Field(min_length=1)
    later: list[Seed] = []
    set: dict[str, Any] = {}


class Plan(BaseModel):
    """A recipe and blocks of cells in order of want. recipe: its name, or a file seen from the plan's."""

    model_config = ConfigDict(extra="forbid", strict=True)

    recipe: str
    set: dict[str, Any] = {}
    blocks: list[Block] = Field(min_length=1)


@dataclass(frozen=True)
class Planned:
    """One wanted run: its recipe with all changes made, its identity, and the plan that it is from."""

    recipe: Recipe
    run_id: RunId
    later: bool = False  # it was added when earlier runs were known
    plan: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.run_id.arm} seed {self.run_id.seed}"


def load_plan(
    path: str | Path, overrides: Mapping[str, Any] | None = None, *, build: bool = True
) -> list[Planned]:
    """The cells of a plan, most wanted first, each once.

    Args:
        overrides: keys of the recipe changed for all blocks, after the plan's own.
        build: whether to try that each encoding fits its model.

    Raises InputError for a missing file, a typo in a key, an unknown encoding, option or recipe, and for an
    encoding that cannot be built.
    """
    path = Path(path)
    if not os.path.isfile(path):
        known = ", ".join(sorted(str(p) for p in Path("plans").glob("*.yaml"))) or "none here"
        raise InputError(f"{path}: no such plan. Plans: {known}.")
    try:
        plan = Plan.model_validate(read_yaml_file(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        allowed = f"{', '.join(Plan.model_fields)}; in a block {', '.join(Block.model_fields)}"
        raise InputError(f"{path}: {where}: {first['msg'].lower()}. Keys: {allowed}.") from None

    origin = f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    planned: dict[Path, Planned] = {}
    for block in plan.blocks:
        of_its_own = Path(plan.recipe).suffix in (".yaml", ".yml")  # beside the plan
        name = path.parent / plan.recipe if of_its_own else plan.recipe
        recipe = load_recipe(name, plan.set | block.set | dict(overrides or {}))
        encodings = [_named(entry, path) for entry in block.encodings]
        for name, options in encodings:
            try:
                if build:
                    _build(recipe, name, options)
                _changed(name, options)
            except InputError as error:
                raise InputError(f"{path}: entry {json.dumps({name: options})}: {error}") from None
        for run_id in seed_by_seed(recipe.name, encodings, [*block.seeds, *block.later]):
            later = run_id.seed in block.later or path.stem.endswith("-later")
            planned.setdefault(run_id.path, Planned(recipe, run_id, later, origin))
    return list(planned.values())


def _named(entry: str | dict[str, dict[str, Any]], path: Path) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, dict) and len(entry) != 1:
        raise InputError(f"{path}: entry {json.dumps(entry)} must name one encoding, not {len(entry)}.")
    return (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))


def _build(recipe: Recipe, name: str, options: Mapping[str, Any]) -> None:
    """Build an encoding as a run of this recipe would, without memory and without a warning."""
    import torch  # noqa: PLC0415 (takes seconds)

    from rollpe.encodings import create_encoding, encoding_options  # noqa: PLC0415
    from rollpe.vit import SIZES  # noqa: PLC0415

    known = encoding_options(name)
    if unknown := sorted(options.keys() - known.keys()):
        raise InputError(f"{name} has no option {unknown[0]!r}. Allowed: {', '.join(known) or 'none'}.")
    size = SIZES[recipe.size]
    side = DATASETS[recipe.data].image_shape[-1] // (recipe.patch_size or 1)
    grid = (recipe.context,) if recipe.context else (side, side)
    heads = recipe.heads or size.heads
    head_dim = (recipe.width or size.width) // heads
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        create_encoding(name, head_dim=head_dim, heads=heads, axes=len(grid), grid=grid, **options)


def seed_by_seed(
    recipe: str, encodings: Sequence[tuple[str, Mapping[str, Any]]], seeds: Sequence[int]
) -> Iterator[RunId]:
    """One cell for every encoding and seed, seed by seed, so that every prefix is balanced."""
    changes = [(name, _changed(name, options)) for name, options in encodings]
    for seed in seeds:
        for name, changed in changes:
            yield RunId(recipe=recipe, encoding=name, encoding_options=changed, seed=seed)


def _ours(name: str) -> bool:
    return {*name.split("+")} <= {*get_args(EncodingName)}


def _changed(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if _ours(name) and not options:
        return {}
    from rollpe.encodings import changed_options  # noqa: PLC0415 (torch takes seconds)

    return changed_options(name, options)


def _defined_in(name: str) -> list[Path]:
    if _ours(name):
        return []
    from rollpe.encodings import outside_files  # noqa: PLC0415 (torch takes seconds)

    return outside_files(name)


def missing(planned: Sequence[Planned], records: str | Path) -> list[Planned]:
    """The runs without a record. InputError for a record of another recipe, or encoding, of the same name."""
    return [run for run in planned if not _has_record(run, record_path(records, run.run_id))]


def _has_record(run: Planned, path: Path) -> bool:
    if not path.exists():
        return False
    record = read_record(path)
    wanted = run.recipe.model_dump(mode="json")
    undecided = {k for k, v in wanted.items() if v == "auto" or (k == "held_out" and v is None)}
    decided = {key: value for key, value in record.config.items() if key in undecided}
    reasons = unlike(record.config, wanted | decided)
    if record.provenance.encoding_hash != encoding_hash(_defined_in(run.run_id.encoding)):
        reasons.append(f"the file that defines {run.run_id.encoding} has changed since")
    if reasons:
        raise InputError(
            f"{path}: not a run of this plan ({'; '.join(reasons)}). Give the changed recipe or encoding"
            " another name, or name another folder of --records."
        )
    return True


def only(planned: Sequence[Planned], arm: str) -> list[Planned]:
    """The runs of one recipe and encoding, spelled ``strong/roll@width=7``. Raises InputError for none."""
    found = [run for run in planned if run.run_id.arm == unquote(arm)]
    if not found:
        arms = dict.fromkeys(run.run_id.arm for run in planned)
        raise InputError(f"{arm} is not in the plan.{hint(arm, arms)} It has {', '.join(arms)}.")
    return found
