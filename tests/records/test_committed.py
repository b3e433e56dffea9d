"""The committed runs: made by a clean commit, as their plan was, and lying where their names say."""

from __future__ import annotations

import hashlib
from functools import cache

from rollpe_lab.records import Record, read_records, record_path
from rollpe_lab.training import load_plan
from shared import ROOT

FOLDER = ROOT / "data/records"
EXTENDED = {
    "6e9de0a68a82b81b7f6a57bee2a833f141a33b8cf66662d09b9b8666fb3f8d03",
    "d0a976e6721bc35d131974cabde7b04fb3defbf8d769d0677485777a9d117239",
}
"""sha256 of text-later.yaml before encodings were added at its end, which records name."""


@cache
def committed() -> list[Record]:
    return read_records(FOLDER)


@cache
def plan_digest(name: str) -> str:
    return hashlib.sha256((ROOT / "plans" / name).read_bytes()).hexdigest()


def test_every_file_holds_the_run_of_its_name():
    files = {path for path in FOLDER.rglob("seed-*.json") if ".locks" not in path.parts}
    assert {record_path(FOLDER, record) for record in committed()} == files and len(files) > 1000


def test_every_run_was_made_by_a_clean_commit():
    assert [str(run.run_id) for run in committed() if run.provenance.dirty is not False] == []


def test_plans_are_what_their_runs_name():
    for origin in {run.provenance.plan for run in committed()} - {None}:
        name, _, digest = origin.partition(" ")
        extended = name == "text-later.yaml" and digest in EXTENDED
        assert extended or plan_digest(name) == digest, name


def test_a_plan_wants_every_run_and_no_seed_before_it_is_missing():
    wanted: dict[str, list[int]] = {}
    for plan in sorted((ROOT / "plans").glob("*.yaml")):
        for planned in load_plan(plan):
            wanted.setdefault(str(planned.run_id.path.parent), []).append(planned.run_id.seed)
    there: dict[str, set[int]] = {}
    for run in committed():
        there.setdefault(str(run.run_id.path.parent), set()).add(run.seed)
    for arm, seeds in there.items():
        assert there[arm] <= set(wanted.get(arm, [])), arm
        assert {seed for seed in wanted[arm] if seed < max(seeds)} <= there[arm], arm
