"""Plans name runs in order of want; sweeps train them, whatever happens to the workers."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import yaml

from refusals import refused
from rollpe.cli import main
from rollpe.encodings import import_encodings
from rollpe.errors import InputError
from rollpe_lab.hashes import encoding_hash
from rollpe_lab.records import claim, read_records, record_path, write_record
from rollpe_lab.training import TrainingError, load_plan, load_recipe
from rollpe_lab.training.plan import missing
from rollpe_lab.training.recipe import FOLDER
from rollpe_lab.training.sweep import sweep, train_missing
from shared import make_record

SEEDS = (-1, "0", True, 1.0, 10**20)  # none of them is one
QUICKEST = {"max_steps": 3, "depth": 1, "resolutions": []}
ARM = "smoke@depth=1,max_steps=3,resolutions=[]/{}"


def plan_file(folder: Path, **changes) -> Path:
    block = {"encodings": ["none", "roll"], "seeds": [0, 1]}
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({"recipe": "smoke", "set": QUICKEST, "blocks": [block]} | changes))
    return path


def run(planned, folder, **settings):
    lines = []
    standard = {"checkpoints": folder / "checkpoints", "device": "cpu", "progress": False}
    failed = sweep(planned, folder / "records", say=lines.append, **standard | settings)
    return failed, lines


@pytest.fixture
def instant(monkeypatch):
    """Records that are written at once and say that they took an hour; three encodings fail."""

    def train(recipe, encoding, *, seed, records, encoding_options=None, **settings):
        if encoding == "learned":
            raise InputError("no data here.")
        if encoding == "lie":
            raise TrainingError("the loss is nan.")
        if encoding == "shaw":  # graphs of torch fail by assertions
            raise AssertionError("no kernel\nfor shaw")
        config = recipe.model_dump(mode="json")
        record = make_record(encoding, seed=seed, recipe=recipe.name, options=encoding_options, **config)
        took = record.provenance.model_copy(update={"wall_seconds": 3600.0})
        record = record.model_copy(update={"provenance": took})
        made.append(write_record(records, record))
        return record

    made: list[Path] = []
    monkeypatch.setattr("rollpe_lab.training.sweep.train", train)
    return made


def test_a_plan_is_balanced_seed_by_seed_and_names_each_cell_once(tmp_path):
    blocks = [{"encodings": ["none", "learned", {"roll": {"width": 15}}], "seeds": [4, 0, 2]}]
    blocks += [{"encodings": ["learned", "lie"], "seeds": [0], "set": {"epochs": 7}}]
    blocks += [{"encodings": ["none"], "seeds": [2]}]
    planned = load_plan(plan_file(tmp_path, blocks=blocks), {"attention": "math"})
    assert [p.run_id.seed for p in planned] == [4, 4, 4, 0, 0, 0, 2, 2, 2, 0, 0]
    assert [p.run_id.slug for p in planned] == ["none", "learned", "roll@width=15"] * 3 + ["learned", "lie"]
    assert {p.recipe.attention for p in planned} == {"math"} and planned[-1].recipe.epochs == 7
    assert "epochs=7" in planned[-1].run_id.recipe and "attention" not in planned[-1].run_id.recipe


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"recipe": "qick"}, ["qick", "quick"]),
        ({"blocks": [{"encodings": ["rolll"], "seeds": [0]}]}, ["rolll", "roll"]),
        ({"blocks": [{"encodings": [{"roll": {"widht": 3}}], "seeds": [0]}]}, ["widht", "width"]),
        ({"blocks": [{"encodings": ["roll"], "seed": [0]}]}, ["seed", "seeds"]),
        *(({"blocks": [{"encodings": ["roll"], "seeds": [s]}]}, ["seeds"]) for s in SEEDS),
        ({"blocks": []}, ["blocks"]),
        ({"set": {"epochz": 3}}, ["epochz", "epochs"]),
        ({"blocks": [{"encodings": [{"roll": {"width": 99}}], "seeds": [0]}]}, ['{"roll": {"width": 99}}']),
        ({"blocks": [{"encodings": [{"roll": {}, "torus-roll": {}}], "seeds": [0]}]}, ["torus-roll", "one"]),
        ({"blocks": [{"encodings": [{}], "seeds": [0]}]}, ["{}", "one encoding"]),
    ],
)
def test_a_typo_in_a_plan_is_one_line(tmp_path, changes, named):
    with refused() as error:
        load_plan(plan_file(tmp_path, **changes))
    assert all(word in str(error.value) for word in named), error.value


def test_a_plan_reads_numbers_as_set_does_and_building_its_encodings_draws_nothing(tmp_path):
    blocks = [{"encodings": [{"axial-rope": {"base": "1e2"}}, "mixed-rope", "lie"], "seeds": [0]}]
    before = torch.get_rng_state()
    planned = load_plan(plan_file(tmp_path, blocks=[*blocks, {"encodings": ["roll"], "seeds": [0]}]))
    assert planned[0].run_id.encoding_options in ({"base": 100.0}, {})
    assert torch.equal(before, torch.get_rng_state())


def test_a_sweep_trains_what_is_missing_and_nothing_else(tmp_path):
    planned = load_plan(plan_file(tmp_path))
    run(planned[:2], tmp_path)
    assert missing(planned, tmp_path / "records") == planned[2:]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*.json")}
    failed, _ = run(planned, tmp_path)
    assert not failed and not missing(planned, tmp_path / "records")
    digest = hashlib.sha256((tmp_path / "plan.yaml").read_bytes()).hexdigest()
    assert {r.provenance.plan for r in read_records(tmp_path / "records")} == {f"plan.yaml {digest}"}
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())


def test_a_run_starts_if_the_last_one_would_fit_into_what_is_left(tmp_path, instant):
    planned = load_plan(plan_file(tmp_path))
    for budget, trained in ((0.0, 0), (1800.0, 1), (3 * 3600.0, 4)):
        run(planned, tmp_path, budget=budget)
        assert missing(planned, tmp_path / "records") == planned[trained:]


OWN = """from rollpe.encodings import Encoding, register

@register("mine")
class Mine(Encoding):
    acts_on = "scores"

    def transform(self, x, tables):
        return x * 1
"""


@pytest.mark.usefixtures("known_encodings_are_put_back")
def test_a_plan_does_not_take_records_of_a_changed_recipe_or_file(tmp_path):
    recipe, own = tmp_path / "mine.yaml", tmp_path / "own.py"
    recipe.write_text((FOLDER / "smoke.yaml").read_text().replace("name: smoke\n", ""))
    own.write_text(OWN)
    import_encodings(own)
    plan = plan_file(tmp_path, recipe="mine.yaml", set={}, blocks=[{"encodings": ["mine"], "seeds": [0]}])
    (planned,) = load_plan(plan)
    record = make_record("mine", recipe="mine", **planned.recipe.model_dump(mode="json"))
    made_by = record.provenance.model_copy(update={"encoding_hash": encoding_hash([own])})
    write_record(tmp_path, record.model_copy(update={"provenance": made_by}))
    assert missing([planned], tmp_path) == []
    own.write_text(OWN.replace("* 1", "* 2"))
    with refused("not a run of this plan .the file that defines mine has changed since"):
        missing([planned], tmp_path)
    own.write_text(OWN + "# a comment changes nothing\n")
    assert missing([planned], tmp_path) == []
    recipe.write_text(recipe.read_text().replace("epochs: 1", "epochs: 4"))
    with refused("mine/seed-0.json: not a run of this plan .epochs: 1 and 4.*another name"):
        missing(load_plan(plan), tmp_path)


def test_a_run_that_another_sweep_trains_is_left_to_it(tmp_path, instant):
    planned = load_plan(plan_file(tmp_path))
    with ThreadPoolExecutor() as other, claim(tmp_path / "records", planned[0].run_id):
        failed, lines = other.submit(run, planned, tmp_path).result()
    assert not failed and f"{planned[0]}: another process trains it" in lines
    assert missing(planned, tmp_path / "records") == planned[:1]


def test_a_run_that_fails_is_reported_and_the_next_one_starts(tmp_path, instant, caplog):
    planned = load_plan(plan_file(tmp_path, blocks=[{"encodings": ["lie", "shaw", "none"], "seeds": [0]}]))
    failed, _ = run(planned, tmp_path)
    assert missing(planned, tmp_path / "records") == planned[:2]
    reasons = ("TrainingError: the loss is nan.", "AssertionError: no kernel for shaw")
    assert failed == dict(zip(map(str, planned), reasons, strict=False))
    assert [bool(said.exc_info) for said in caplog.records] == [False, True]
    planned = load_plan(plan_file(tmp_path, blocks=[{"encodings": ["learned", "none"], "seeds": [0]}]))
    with refused("no data here"):  # what a person can repair, for all runs alike
        run(planned, tmp_path)


def test_a_cell_whose_checkpoint_is_of_another_source_begins_again(tmp_path, monkeypatch):
    planned = load_plan(plan_file(tmp_path))[:1]
    with monkeypatch.context() as patch:
        patch.setattr("rollpe_lab.training.checkpoint.training_hash", lambda *_: "another source")
        run(planned, tmp_path)
    record_path(tmp_path / "records", planned[0].run_id).unlink()
    failed, lines = run(planned, tmp_path)
    assert not failed and any("starting over" in line for line in lines)
    assert not missing(planned, tmp_path / "records")


def test_the_command_trains_one_arm_and_names_what_is_missing_or_failed(tmp_path, instant, capsys):
    plan = plan_file(tmp_path, blocks=[{"encodings": ["lie", "roll"], "seeds": [0, 1]}])

    def said(*words: str, status: int = 0) -> list[str]:
        with pytest.raises(SystemExit, match=str(status)) if status else nullcontext():
            main(["sweep", str(plan), "--records", str(tmp_path / "records"), *words])
        return capsys.readouterr().out.splitlines()

    assert said("--only", ARM.format("roll"))[-1] == "2 of 2 runs have a record"
    absent = [f"{ARM.format('lie')} seed {seed}" for seed in (0, 1)]
    assert said("--list") == [*(f"missing: {run}" for run in absent), "2 of 4 runs have a record"]
    assert said(status=1)[-3:-1] == [f"failed: {run}: TrainingError: the loss is nan." for run in absent]
    assert said("--only", "smoke/rol", status=2) == []


def test_live_records_are_taken_only_from_a_source_that_trains_the_same(tmp_path, instant, monkeypatch):
    def trained_now():
        instant.clear()
        return len([*train_missing(load_recipe("smoke"), ["none"], 2, tmp_path)]), len(instant)

    monkeypatch.setattr("rollpe_lab.training.sweep.training_hash", lambda *_: None)  # that of these records
    assert trained_now() == (2, 2) and trained_now() == (2, 0)
    monkeypatch.setattr("rollpe_lab.training.sweep.training_hash", lambda *_: "another source")
    assert trained_now() == (2, 2)
