"""Plans name cells in order of want; sweeps fill them, whatever happens to the workers."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
import yaml
from tqdm import tqdm

from refusals import FULL, interrupted, raising, refused
from rollpe.cli import main
from rollpe.errors import InputError
from rollpe_lab import sources
from rollpe_lab.records import environment, read_record, read_records, record_path, write_record
from rollpe_lab.training import TrainingError, load_dataset, load_plan, load_recipe, sweep
from rollpe_lab.training.checkpoint import checkpoint_path
from rollpe_lab.training.estimates import AGAIN, SLACK, Estimates, format_duration
from rollpe_lab.training.plan import Planned, failure_path, missing, seed_by_seed
from rollpe_lab.training.sweep import Report, Sweep, train_missing
from shared import ROOT

SEEDS = (-1, "0", True, 1.0, 10**20)  # none of them is one
QUICKEST = {"max_steps": 3, "depth": 1, "resolutions": []}


def plan_file(folder: Path, **changes) -> Path:
    block = {"encodings": ["none", "roll"], "seeds": [0, 1]}
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({"recipe": "smoke", "set": QUICKEST, "blocks": [block]} | changes))
    return path


def run(planned, folder, **settings):
    lines = []
    standard = {"checkpoints": folder / "checkpoints", "say": lines.append}
    report = Sweep(planned, folder / "records", device="cpu", progress=False, **standard | settings).run()
    return report, lines


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
    first, _ = run(planned[:2], tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*.json")}
    second, _ = run(planned, tmp_path)
    assert first.trained == planned[:2] and second.trained == planned[2:]
    assert second.missing == []
    digest = hashlib.sha256((tmp_path / "plan.yaml").read_bytes()).hexdigest()
    assert {r.provenance.plan for r in read_records(tmp_path / "records")} == {f"plan.yaml {digest}"}
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())


def test_nothing_is_begun_that_would_not_fit_the_budget(tmp_path, monkeypatch):
    planned = load_plan(plan_file(tmp_path))
    monkeypatch.setattr(Estimates, "seconds", lambda self, p: 1e6 if p.run_id.encoding == "none" else 0.0)
    report, lines = run(planned, tmp_path, budget=600.0)
    assert {p.run_id.encoding for p in report.trained} == {"roll"}
    assert {p.run_id.encoding for p in report.missing} == {"none"}
    assert sum("not begun" in line for line in lines) == 2
    assert run(planned, tmp_path, budget=0.0) == (Report([], [], report.missing), [])


def test_what_the_first_epoch_takes_longer_is_start_up_and_counts_once(tmp_path, monkeypatch):
    """A compiler's minute before the first step is not the speed of the steps."""
    rates = iter([(2.0, 62.0), (200.0, 2.6)])  # images per second, seconds with scoring
    record = read_record(next(Path(ROOT, "data/records/quick/none").glob("*.json")))
    rows = [
        record.history[0].model_copy(update={"steps": 2 * i, "images_per_second": rate, "seconds": seconds})
        for i, (rate, seconds) in enumerate(rates, 1)
    ]
    monkeypatch.setattr(
        "rollpe_lab.training.estimates.train", lambda *_, **__: record.model_copy(update={"history": rows})
    )
    recipe = load_recipe("quick", {"epochs": 10, "batch_size": 200, "resolutions": "[]"})
    planned = Planned(recipe, next(seed_by_seed(recipe.name, [("none", {})], [0])))
    expected = Estimates(tmp_path, "cpu", "data").seconds(planned) / SLACK
    steps = load_dataset("digits").train.images.shape[0] // 200
    assert expected == pytest.approx(10 * steps * 1.0 + 10 * 0.6, rel=0.05)  # 1 s a step, 0.6 s of scoring
    capped = Planned(recipe.model_copy(update={"max_steps": 8}), planned.run_id)
    assert Estimates(tmp_path, "cpu", "data").seconds(capped) < 12 * SLACK


def took(planned, seconds: float):
    """The record of a cell that took so long, on this machine."""
    record = read_record(next(Path(ROOT, "data/records/quick/none").glob("*.json")))
    traced = record.provenance.model_copy(update={"wall_seconds": seconds})
    here = {"environment": environment("cpu"), "provenance": traced}
    return record.model_copy(update=planned.run_id.model_dump() | here)


def test_what_this_sweep_took_counts_more_than_records_of_a_busier_machine(tmp_path, monkeypatch):
    blocks = [{"encodings": ["none", "roll", "learned", "shaw"], "seeds": [0]}]
    none, roll, learned, shaw = load_plan(plan_file(tmp_path, blocks=blocks))
    for planned, duration in ((none, 100.0), (roll, 300.0)):
        write_record(tmp_path, took(planned, duration))
    probes = []
    monkeypatch.setattr(Estimates, "_probe", lambda self, planned: probes.append(planned) or 7.0)

    old = Estimates(tmp_path, "cpu", "data")
    expected = [old.seconds(p) / SLACK for p in (none, roll, learned)]
    assert expected == pytest.approx([100, 300, 300]) and "--measure" in old.grounds(learned)
    old.learn(took(none, 10.0))  # it is quiet now
    expected = [old.seconds(none) / AGAIN, *(old.seconds(p) / SLACK for p in (roll, learned))]
    assert expected == pytest.approx([10, 30, 10]) and "pace of this sweep" in old.grounds(roll)
    assert not probes

    new = Estimates(tmp_path, "cpu", "data", measure=True)
    expected = [new.seconds(p) / SLACK for p in (roll, learned, shaw)]
    assert expected == pytest.approx([7, 7, 7]) and probes == [roll], "one recipe is probed once"
    assert new.grounds(roll) == "by a short run"
    new.learn(took(roll, 20.0))
    assert new.seconds(shaw) / SLACK == pytest.approx(20)


def test_a_compiler_counts_for_encodings_that_have_no_program_yet_and_for_no_later_seed(tmp_path):
    blocks = [{"encodings": ["none", "roll"], "seeds": [0, 1]}]
    none, roll, *_ = load_plan(plan_file(tmp_path, blocks=blocks))
    estimates = Estimates(tmp_path, "cpu", "data")
    estimates.learn(took(none, 150.0), waited=50.0)
    estimates.learn(took(none, 100.0))
    assert estimates.seconds(none) == pytest.approx(AGAIN * 100)
    assert estimates.seconds(roll) == pytest.approx(SLACK * 100 + 50)


def test_what_does_not_fit_says_how_that_was_estimated(tmp_path):
    planned = load_plan(plan_file(tmp_path))
    write_record(tmp_path / "records", took(planned[0], 1000.0))
    report, lines = run(planned[1:3], tmp_path, budget=600.0)
    assert report.trained == [] and all("by the slowest record on this device" in line for line in lines)
    report, _ = run(planned[1:3], tmp_path, budget=600.0, measure=True, checkpoints=None)
    assert report.trained == planned[1:3] and not list(tmp_path.rglob("*.pt"))


def test_what_a_checkpoint_holds_is_not_counted_again(tmp_path, monkeypatch):
    recipe = load_recipe("smoke", {"depth": 1, "epochs": 5, "resolutions": "[]"})
    planned = Planned(recipe, next(seed_by_seed(recipe.name, [("none", {})], [0])))
    monkeypatch.setattr(Estimates, "seconds", lambda self, p: 1000.0)
    with interrupted(4):
        run([planned], tmp_path)
    _, lines = run([planned], tmp_path, budget=390.0)
    assert "needs about 7 min" in lines[0], "two of its five epochs, one of which stands for start and end"
    with monkeypatch.context() as patch:
        patch.setattr("rollpe_lab.training.checkpoint.training_hash", lambda *_: "another source")
        _, lines = run([planned], tmp_path, budget=600.0)
        assert "needs about 17 min" in lines[0], "it would begin anew"
    report, _ = run([planned], tmp_path, budget=600.0)
    assert report.trained == [planned]


def test_a_cell_that_breaks_the_compiler_is_recorded_as_failed_and_two_in_a_row_are_raised(
    tmp_path, monkeypatch
):
    blocks = [{"encodings": ["roll", "none", "shaw", "lie", "learned"], "seeds": [0]}]
    planned = load_plan(plan_file(tmp_path, blocks=blocks))
    trained = sweep.train

    def breaking(recipe, encoding, **settings):
        if encoding in ("roll", "shaw", "lie"):  # graphs of torch fail by assertions
            raise (AssertionError if encoding == "shaw" else RuntimeError)(f"no kernel for {encoding}\nmore")
        return trained(recipe, encoding, **settings)

    monkeypatch.setattr("rollpe_lab.training.sweep.train", breaking)
    lines = []
    with pytest.raises(RuntimeError, match="no kernel for lie"):
        run(planned, tmp_path, say=lines.append)
    failed = [line for line in lines if "failed" in line]
    assert [line.rpartition(". ")[2] for line in failed] == [
        "RuntimeError: no kernel for roll",
        "AssertionError: no kernel for shaw",
    ]
    assert missing(planned, tmp_path / "records") == planned[3:], "lie was not judged"


def test_a_device_that_broke_fails_no_cell(tmp_path, monkeypatch):
    def breaking(*_, **__):
        monkeypatch.setattr(sweep, "_works", lambda device: False)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr("rollpe_lab.training.sweep.train", breaking)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run(load_plan(plan_file(tmp_path)), tmp_path)
    assert not list(tmp_path.rglob("*.failed"))


def test_a_cell_whose_checkpoint_is_of_another_source_begins_again(tmp_path, monkeypatch):
    planned = load_plan(plan_file(tmp_path))[:1]
    path = checkpoint_path(tmp_path / "checkpoints", planned[0].run_id)
    with monkeypatch.context() as patch:
        patch.setattr("rollpe_lab.training.checkpoint.training_hash", lambda *_: "another source")
        run(planned, tmp_path)
    record_path(tmp_path / "records", planned[0].run_id).unlink()
    left_over = path.with_name(f".{path.name}.123.tmp")
    left_over.write_bytes(b"half a checkpoint")
    report, lines = run(planned, tmp_path)
    assert report.trained == planned and any("starting over" in line for line in lines)
    assert not left_over.exists()


def test_a_run_that_cannot_be_finished_is_recorded_as_failed_and_the_sweep_goes_on(tmp_path, monkeypatch):
    blocks = [
        {"encodings": ["roll"], "seeds": [0], "set": {"learning_rate": 1e30, "optimizer": "sgd"}},
        {"encodings": ["roll"], "seeds": [0], "set": {"train_images": 10**6}},
        {"encodings": ["learned", "none"], "seeds": [0]},
    ]

    def seconds(self, planned):
        if planned.run_id.encoding == "learned":
            raise TrainingError("out of memory at batch_size=64.")
        return 0.0

    monkeypatch.setattr(Estimates, "seconds", seconds)
    planned = load_plan(plan_file(tmp_path, blocks=blocks, set=QUICKEST | {"max_steps": 12}))
    report, lines = run(planned, tmp_path, budget=600.0)
    assert report.failed == planned[:3] and report.trained == planned[3:]
    failed = [line for line in lines if "failed" in line]
    reasons = ("the loss", "train_images=1000000", "out of memory")
    assert all(reason in line for reason, line in zip(reasons, failed, strict=True))
    assert missing(planned, tmp_path / "records") == []
    assert missing(planned, tmp_path / "records", retry=True) == planned[:3]


@pytest.mark.parametrize("error", [FULL, FileNotFoundError(2, "no compiler")])
def test_a_full_disk_is_one_line_and_no_other_error_of_the_system_is_called_so(tmp_path, monkeypatch, error):
    planned = load_plan(plan_file(tmp_path))
    run(planned[:1], tmp_path)

    monkeypatch.setattr("rollpe_lab.training.sweep.train", raising(error))
    expected = InputError if error.errno == 28 else FileNotFoundError
    with pytest.raises(expected, match=error.strerror):
        run(planned, tmp_path)
    assert missing(planned, tmp_path / "records") == planned[1:]


def test_the_list_names_cells_that_failed_and_counts_records_alone(tmp_path, capsys):
    plan = plan_file(tmp_path)
    first, second, *_ = load_plan(plan)
    write_record(tmp_path / "records", took(first, 10.0))
    failure_path(tmp_path / "records", second.run_id).parent.mkdir(parents=True)
    failure_path(tmp_path / "records", second.run_id).write_text('{"reason": "the loss is nan."}')
    main(["sweep", str(plan), "--records", str(tmp_path / "records"), "--list"])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"failed: {second}: the loss is nan. Try it again with --retry."
    assert [line.split(":")[0] for line in said[1:3]] == ["missing", "missing"]
    assert said[3] == "1 of 4 cells have a record"


def test_absent_data_and_a_closed_folder_stop_a_sweep_and_fail_no_cell(tmp_path):
    planned = load_plan(plan_file(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write"):
        run(planned, tmp_path, checkpoints=tmp_path / "file")
    with pytest.raises(InputError):
        run(planned, tmp_path / "file")
    planned = load_plan(plan_file(tmp_path, set={"data": "cifar100", "patch_size": 4, "resolutions": []}))
    with pytest.raises(InputError, match="cifar"):
        run(planned, tmp_path, data_root=tmp_path)
    assert not list(tmp_path.rglob("*.failed"))


def test_nothing_that_a_killed_worker_held_stops_another():
    """A fork that dies inside tqdm leaves tqdm's lock locked, which must be nobody else's."""
    lock = tqdm.get_lock()
    child = os.fork()
    if child == 0:
        lock.acquire()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # ends one that waits for ever
        tqdm(range(2), file=io.StringIO()).update()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_live_records_are_taken_only_from_a_source_that_trains_the_same(tmp_path, monkeypatch):
    recipe = load_recipe("smoke", {k: str(v) for k, v in QUICKEST.items()})
    settings = {"device": "cpu", "checkpoints": None, "progress": False}
    src = shutil.copytree(sources.SRC, tmp_path / "src")
    monkeypatch.setattr(sources, "SRC", src)

    def fresh(edited=None, more=""):
        if edited:
            (src / edited).write_text((src / edited).read_text() + more)
            sources._first_digest.cache_clear()
            sources._first_meaning.cache_clear()
        return [now for _, now in train_missing(recipe, ["none"], 2, tmp_path / "records", **settings)]

    assert fresh() == [True, True]
    assert fresh("rollpe_book/extension/page.py", '"""About pages."""\n') == [False, False]
    assert fresh("rollpe_book/extension/page.py", "A = 1\n") == [False, False]
    assert fresh("rollpe/textbook.py", "# a comment\n") == [False, False]
    assert fresh("rollpe/textbook.py", "A = 1\n") == [True, True]


def test_durations_are_shown_in_the_unit_that_fits():
    assert [format_duration(x) for x in (45, 720, 12000)] == ["45 s", "12 min", "3 h 20 min"]
