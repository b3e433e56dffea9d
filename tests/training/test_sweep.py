"""Plans name cells in order of want; sweeps fill them, whatever happens to the workers."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
import yaml
from tqdm import tqdm

from rollpe.cli import main
from rollpe.errors import InputError
from rollpe_lab import sources
from rollpe_lab.records import Cell, claim, environment, read_record, read_records, record_path, write_record
from rollpe_lab.training import TrainingError, checkpoint, load_dataset, load_plan, load_recipe, state, sweep
from rollpe_lab.training.checkpoint import checkpoint_path
from rollpe_lab.training.estimates import AGAIN, SLACK, Estimates, format_duration, parse_duration
from rollpe_lab.training.plan import Planned, failure_path, missing, seed_by_seed, select_cell
from rollpe_lab.training.sweep import Sweep, train_missing, warm
from shared import ROOT

QUICKEST = {"max_steps": 3, "depth": 1, "resolutions": []}


def plan_file(folder: Path, **changes) -> Path:
    block = {"encodings": ["none", "roll"], "seeds": [0, 1]}
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({"recipe": "smoke", "set": QUICKEST, "blocks": [block]} | changes))
    return path


def run(planned, folder, **settings):
    lines = []
    settings = {"device": "cpu", "checkpoints": folder / "checkpoints", "progress": False} | settings
    report = Sweep(planned, folder / "records", say=lines.append, **settings).run()
    return report, lines


def test_every_prefix_of_a_block_is_balanced_over_encodings(tmp_path):
    blocks = [{"encodings": ["none", "learned", {"roll": {"width": 15}}], "seeds": [4, 0, 2]}]
    cells = [p.cell for p in load_plan(plan_file(tmp_path, blocks=blocks))]
    assert [c.seed for c in cells] == [4, 4, 4, 0, 0, 0, 2, 2, 2]
    assert {c.slug for c in cells[:3]} == {c.slug for c in cells[3:6]} == {"none", "learned", "roll@width=15"}


def test_a_cell_wanted_twice_is_planned_once_at_its_first_place(tmp_path):
    blocks = [{"encodings": ["roll"], "seeds": [0]}, {"encodings": ["none", "roll"], "seeds": [0]}]
    assert [p.cell.encoding for p in load_plan(plan_file(tmp_path, blocks=blocks))] == ["roll", "none"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"recipe": "qick"}, ["qick", "quick"]),
        ({"blocks": [{"encodings": ["rolll"], "seeds": [0]}]}, ["rolll", "roll"]),
        ({"blocks": [{"encodings": [{"roll": {"widht": 3}}], "seeds": [0]}]}, ["widht", "width"]),
        ({"blocks": [{"encodings": ["roll"], "seed": [0]}]}, ["seed", "seeds"]),
        ({"blocks": [{"encodings": ["roll"], "seeds": [-1]}]}, ["seeds"]),
        ({"blocks": []}, ["blocks"]),
        ({"set": {"epochz": 3}}, ["epochz", "epochs"]),
        ({"blocks": [{"encodings": [{"roll": {"width": 99}}], "seeds": [0]}]}, ['{"roll": {"width": 99}}']),
        ({"blocks": [{"encodings": [{"roll": {}, "torus-roll": {}}], "seeds": [0]}]}, ["torus-roll", "one"]),
        ({"blocks": [{"encodings": [{}], "seeds": [0]}]}, ["{}", "one encoding"]),
    ],
)
def test_a_typo_in_a_plan_is_one_line(tmp_path, changes, named):
    with pytest.raises(InputError) as error:
        load_plan(plan_file(tmp_path, **changes))
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in named), error.value


def test_a_plan_reads_numbers_as_set_does_and_building_its_encodings_draws_nothing(tmp_path):
    blocks = [{"encodings": [{"axial-rope": {"base": "1e2"}}, "mixed-rope", "lie"], "seeds": [0]}]
    before = torch.get_rng_state()
    planned = load_plan(plan_file(tmp_path, blocks=[*blocks, {"encodings": ["roll"], "seeds": [0]}]))
    assert planned[0].cell.encoding_options in ({"base": 100.0}, {})
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("path", sorted((ROOT / "plans").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_plan_that_comes_with_the_project_loads(path):
    assert load_plan(path)


def test_a_sweep_trains_what_is_missing_and_nothing_else(tmp_path):
    planned = load_plan(plan_file(tmp_path))
    first, _ = run(planned[:2], tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*.json")}
    second, _ = run(planned, tmp_path)
    assert first.trained == planned[:2] and second.trained == planned[2:]
    assert second.missing == []
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())


def test_one_cell_is_named_as_its_record_is_and_an_unknown_one_is_one_line(tmp_path):
    planned = load_plan(plan_file(tmp_path))
    assert select_cell(planned, planned[2].cell.path.as_posix()) == [planned[2]]
    with pytest.raises(InputError, match="'roll/seed-9' is not in the plan") as error:
        select_cell(planned, "roll/seed-9")
    assert "\n" not in str(error.value)


def test_nothing_is_begun_that_would_not_fit_the_budget(tmp_path, monkeypatch):
    planned = load_plan(plan_file(tmp_path))
    monkeypatch.setattr(Estimates, "seconds", lambda self, p: 1e6 if p.cell.encoding == "none" else 0.0)
    report, lines = run(planned, tmp_path, budget=600.0)
    assert {p.cell.encoding for p in report.trained} == {"roll"}
    assert {p.cell.encoding for p in report.missing} == {"none"}
    assert sum("not begun" in line for line in lines) == 2


def test_no_budget_at_all_lists_what_is_missing_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rollpe_lab.training.sweep.train", lambda *args, **settings: pytest.fail("something was trained")
    )
    planned = load_plan(plan_file(tmp_path))
    report, lines = run(planned, tmp_path, budget=0.0)
    assert report.missing == planned and report.trained == [] and lines == []


def test_an_unknown_duration_is_estimated_from_a_few_steps(tmp_path):
    recipe = load_recipe("smoke", {"depth": 1, "epochs": 4, "resolutions": "[]"})
    planned = Planned(recipe, next(seed_by_seed(recipe.name, [("roll", {})], [0])))
    expected = Estimates(tmp_path, "cpu", "data").seconds(planned)
    begun = time.monotonic()
    run([planned], tmp_path)
    took = time.monotonic() - begun
    assert 0.2 * took < expected < 8 * took


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
    capped = Planned(recipe.model_copy(update={"max_steps": 8}), planned.cell)
    assert Estimates(tmp_path, "cpu", "data").seconds(capped) < 12 * SLACK


def took(planned, seconds: float):
    """The record of a cell that took so long, on this machine."""
    record = read_record(next(Path(ROOT, "data/records/quick/none").glob("*.json")))
    here = environment("cpu")
    return record.model_copy(
        update=planned.cell.model_dump()
        | {
            "environment": here,
            "provenance": record.provenance.model_copy(update={"wall_seconds": seconds}),
        }
    )


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
    expected = [
        old.seconds(none) / AGAIN,
        *(old.seconds(p) / SLACK for p in (roll, learned)),
    ]
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


def test_a_sweep_without_checkpoints_leaves_the_same_records_and_no_checkpoint(tmp_path):
    planned = load_plan(plan_file(tmp_path))[:2]
    run(planned, tmp_path / "with")
    report, _ = run(planned, tmp_path / "without", checkpoints=None, budget=600.0, measure=True)
    assert report.trained == planned and not list((tmp_path / "without").rglob("*.pt"))
    both = [read_records(tmp_path / folder / "records") for folder in ("with", "without")]
    assert [record.test for record in both[0]] == [record.test for record in both[1]]


def test_each_program_of_a_plan_is_made_ready_once_and_one_that_cannot_be_is_told(tmp_path):
    other = {"encodings": ["roll"], "seeds": [0], "set": {"attention": "cudnn"}}
    longer = {"encodings": ["none"], "seeds": [5], "set": {"epochs": 9}}
    blocks = [{"encodings": ["none"], "seeds": [0, 1]}, other, longer]
    lines = []
    planned = load_plan(plan_file(tmp_path, blocks=blocks))
    assert not warm(planned, device="cpu", jobs=2, keep=tmp_path, say=lines.append)
    assert len(lines) == 2 and "none seed 0: compiled in" in lines[0]
    assert "roll seed 0: cannot be compiled" in lines[1] and "cudnn" in lines[1]


def test_what_was_compiled_is_kept_packed_and_read_the_next_time(tmp_path, monkeypatch):
    (planned,) = load_plan(plan_file(tmp_path, blocks=[{"encodings": ["roll"], "seeds": [0]}]))
    loaded = []
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (bytes(10**6), None))
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", loaded.append)
    file = tmp_path / "roll.bin.xz"
    for damage in (b"", b"", b"damaged"):
        sweep._warm(planned, "cpu", file, None)
        assert 0 < file.stat().st_size < 10**4
        file.write_bytes(damage or file.read_bytes())
    sweep._warm(planned, "cpu", file, None)
    assert loaded == [bytes(10**6)] * 2


@pytest.mark.parametrize(("wrong", "reason"), [(float("nan"), "not finite"), (9.0, "loss 9.000 after 20")])
def test_a_compiled_step_that_is_wrong_is_found_on_noise(wrong, reason, monkeypatch):
    recipe = load_recipe("smoke", QUICKEST)
    with state._stand_in(recipe, Cell(recipe="smoke", encoding="roll", seed=0), "cpu") as program:
        program.try_out(8)
        monkeypatch.setattr(program.step, "loss", lambda *_: torch.tensor(wrong, requires_grad=True))
        with pytest.raises(TrainingError, match=f"compiled steps on noise: .*{reason}"):
            program.try_out(8)


def test_keys_may_be_changed_for_a_whole_plan(tmp_path):
    path = plan_file(tmp_path, blocks=[{"encodings": ["none"], "seeds": [0], "set": {"epochs": 7}}])
    (planned,) = load_plan(path, {"epochs": "9", "attention": "math"})
    assert planned.recipe.epochs == 9 and planned.recipe.attention == "math"
    assert "epochs=9" in planned.cell.recipe and "attention" not in planned.cell.recipe


def test_what_does_not_fit_says_how_that_was_estimated(tmp_path):
    planned = load_plan(plan_file(tmp_path))
    write_record(tmp_path / "records", took(planned[0], 1000.0))
    report, lines = run(planned[1:3], tmp_path, budget=600.0)
    assert report.trained == [] and all("by the slowest record on this device" in line for line in lines)
    report, _ = run(planned[1:3], tmp_path, budget=600.0, measure=True)
    assert report.trained == planned[1:3]


def test_what_a_checkpoint_holds_is_not_counted_again(tmp_path, monkeypatch):
    recipe = load_recipe("smoke", {"depth": 1, "epochs": 5, "resolutions": "[]"})
    planned = Planned(recipe, next(seed_by_seed(recipe.name, [("none", {})], [0])))
    monkeypatch.setattr("rollpe_lab.training.run.CHECKPOINT_SECONDS", 0.0)
    save = checkpoint.Checkpoint.save

    def stop_after_four(self, state, finished=False):
        save(self, state, finished)
        if len(state["history"]) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Estimates, "seconds", lambda self, p: 1000.0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(checkpoint.Checkpoint, "save", stop_after_four)
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
    settings = {"device": "cpu", "checkpoints": tmp_path / "checkpoints", "progress": False}
    with pytest.raises(RuntimeError, match="no kernel for lie"):
        Sweep(planned, tmp_path / "records", say=lines.append, **settings).run()
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


def test_memory_that_runs_out_while_estimating_fails_the_cell_and_not_the_sweep(tmp_path, monkeypatch):
    def seconds(self, planned):
        if planned.cell.encoding == "none":
            raise TrainingError("out of memory at batch_size=64.")
        return 0.0

    monkeypatch.setattr(Estimates, "seconds", seconds)
    report, _ = run(load_plan(plan_file(tmp_path)), tmp_path, budget=600.0)
    assert {p.cell.encoding for p in report.failed} == {"none"}
    assert {p.cell.encoding for p in report.trained} == {"roll"}


def test_a_cell_whose_checkpoint_is_of_another_source_begins_again(tmp_path, monkeypatch):
    planned = load_plan(plan_file(tmp_path))[:1]
    path = checkpoint_path(tmp_path / "checkpoints", planned[0].cell)
    with monkeypatch.context() as patch:
        patch.setattr("rollpe_lab.training.checkpoint.training_hash", lambda *_: "another source")
        run(planned, tmp_path)
    record_path(tmp_path / "records", planned[0].cell).unlink()
    left_over = path.with_name(f".{path.name}.123.tmp")
    left_over.write_bytes(b"half a checkpoint")
    report, lines = run(planned, tmp_path)
    assert report.trained == planned and any("starting over" in line for line in lines)
    assert not left_over.exists()


def test_an_error_of_the_system_that_is_not_the_folders_is_not_called_a_full_disk(tmp_path, monkeypatch):
    def absent(*_, **__):
        raise FileNotFoundError(2, "No such file or directory", "libcompiler.so")

    monkeypatch.setattr("rollpe_lab.training.sweep.train", absent)
    with pytest.raises(FileNotFoundError):
        run(load_plan(plan_file(tmp_path)), tmp_path)


def test_a_run_that_diverges_is_recorded_as_failed_and_the_sweep_goes_on(tmp_path):
    blocks = [
        {"encodings": ["roll"], "seeds": [0], "set": {"learning_rate": 1e30, "optimizer": "sgd"}},
        {"encodings": ["none"], "seeds": [0]},
    ]
    planned = load_plan(plan_file(tmp_path, blocks=blocks, set=QUICKEST | {"max_steps": 12}))
    report, lines = run(planned, tmp_path)
    assert report.failed == planned[:1] and report.trained == planned[1:]
    assert any("failed" in line and "the loss" in line for line in lines)
    assert missing(planned, tmp_path / "records") == []
    assert missing(planned, tmp_path / "records", retry=True) == planned[:1]


def test_the_list_names_cells_that_failed_and_counts_records_alone(tmp_path, capsys):
    plan = plan_file(tmp_path)
    first, second, *_ = load_plan(plan)
    write_record(tmp_path / "records", took(first, 10.0))
    failure_path(tmp_path / "records", second.cell).parent.mkdir(parents=True)
    failure_path(tmp_path / "records", second.cell).write_text('{"reason": "the loss is nan."}')
    main(["sweep", str(plan), "--records", str(tmp_path / "records"), "--list"])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"failed: {second}: the loss is nan. Try it again with --retry."
    assert [line.split(":")[0] for line in said[1:3]] == ["missing", "missing"]
    assert said[3] == "1 of 4 cells have a record"


def test_an_empty_name_is_no_cell(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Sweep, "run", lambda self: pytest.fail("it trains the whole plan"))
    with pytest.raises(SystemExit) as end:
        main(["sweep", str(plan_file(tmp_path)), "--only", ""])
    assert end.value.code == 2 and "cell '' is not in the plan" in capsys.readouterr().err


def test_a_record_keeps_the_hash_of_the_plan_that_asked_for_it(tmp_path):
    plan = plan_file(tmp_path)
    planned = load_plan(plan)[:1]
    run(planned, tmp_path)
    (record,) = read_records(tmp_path / "records")
    assert record.provenance.plan == f"plan.yaml {hashlib.sha256(plan.read_bytes()).hexdigest()}"
    plan.write_text(plan.read_text() + "# another seed\n")
    assert load_plan(plan)[0].plan != record.provenance.plan


def test_a_cell_that_is_refused_is_recorded_as_failed_and_the_sweep_goes_on(tmp_path):
    blocks = [
        {"encodings": ["roll"], "seeds": [0], "set": {"train_images": 10**6}},
        {"encodings": ["none"], "seeds": [0]},
    ]
    planned = load_plan(plan_file(tmp_path, blocks=blocks))
    report, lines = run(planned, tmp_path)
    assert report.failed == planned[:1] and report.trained == planned[1:]
    assert any("train_images=1000000" in line for line in lines)


def test_absent_data_and_a_closed_folder_stop_a_sweep_and_fail_no_cell(tmp_path):
    planned = load_plan(plan_file(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write"):
        run(planned, tmp_path, checkpoints=tmp_path / "file")
    planned = load_plan(plan_file(tmp_path, set={"data": "cifar100", "patch_size": 4, "resolutions": []}))
    with pytest.raises(InputError, match="cifar"):
        run(planned, tmp_path, data_root=tmp_path)
    assert not list(tmp_path.rglob("*.failed"))


def test_a_claimed_cell_is_left_to_its_holder(tmp_path):
    planned = load_plan(plan_file(tmp_path))
    with claim(tmp_path / "records", planned[0].cell) as free:
        assert free
        child = os.fork()
        if child == 0:
            with claim(tmp_path / "records", planned[0].cell) as second:
                os._exit(int(second))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_cell_may_be_claimed_whatever_the_length_of_its_names(tmp_path):
    cell = Cell(recipe="a" * 200, encoding="b" * 200, seed=0)
    with claim(tmp_path, cell) as free:
        assert free
    one, other = Cell(recipe="a~b", encoding="c", seed=0), Cell(recipe="a", encoding="b~c", seed=0)
    with claim(tmp_path, one) as first, claim(tmp_path, other) as second:
        assert first and second


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


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "records").write_text("a file where the folder should be")
    with pytest.raises(InputError) as error:
        run(load_plan(plan_file(tmp_path)), tmp_path)
    assert "\n" not in str(error.value)


def test_a_full_disk_is_one_line_and_keeps_what_was_finished(tmp_path, monkeypatch):
    planned = load_plan(plan_file(tmp_path))
    run(planned[:1], tmp_path)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rollpe_lab.training.sweep.train", full)
    with pytest.raises(InputError, match="No space left on device"):
        run(planned, tmp_path)
    assert missing(planned, tmp_path / "records") == planned[1:]


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


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("25m", 1500), ("1h30m", 5400), ("0.5h", 1800)]
)
def test_budgets_are_read_with_units(text, expected):
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "5x", "m5", "-3m"])
def test_a_budget_that_is_no_time_is_refused(text):
    with pytest.raises(InputError):
        parse_duration(text)


def test_durations_are_shown_in_the_unit_that_fits():
    assert [format_duration(x) for x in (45, 720, 12000)] == ["45 s", "12 min", "3 h 20 min"]
