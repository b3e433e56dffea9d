"""A turn on a rented GPU, rehearsed on a processor: what is killed goes on, and all that counts is kept."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from python import python

from rollpe.cli import main
from rollpe_lab.records import read_records
from rollpe_lab.training import load_plan
from shared import ROOT

SCRIPT = ROOT / "workflow" / "rented.py"

sys.path.insert(0, str(SCRIPT.parent))
import carry  # noqa: E402
import rented  # noqa: E402

PLAN = "recipe: short\nblocks:\n  - {encodings: [learned, roll], seeds: [0, 1]}\n"
QUICK = ("--set", "compile=false", "--set", "max_steps=3")


def turn(folder: Path, *more: str) -> subprocess.Popen:
    """Begin a rehearsal with two small encodings."""
    plan = folder / "plan.yaml"
    plan.write_text(PLAN)
    words = [sys.executable, SCRIPT, "--rehearse", "--out", folder / "turn", "--plan", plan, *QUICK, *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(process: subprocess.Popen) -> str:
    """What a turn says that ends well."""
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said
    return said


def unpacked(folder: Path) -> Path:
    with tarfile.open(folder / "turn" / "rented.tar.gz") as tar:
        tar.extractall(folder / "kept", filter="data")
    return folder / "kept"


def kept_records(out: Path) -> list[str]:
    """Names of the records in the tar, if there is one."""
    if not (out / "rented.tar.gz").exists():
        return []
    with tarfile.open(out / "rented.tar.gz") as tar:
        return [name for name in tar.getnames() if name.startswith("records/") and name.endswith(".json")]


def test_a_rehearsal_ends_with_a_tar_whose_records_make_a_table(tmp_path, capsys):
    finished(turn(tmp_path, "--stages", "wheels", "source", "data", "sweep", "bench"))
    kept = unpacked(tmp_path)
    assert [r.run_id.slug for r in read_records(kept / "records")] == ["learned", "learned", "roll", "roll"]
    assert json.loads(next(kept.glob("benchmarks/*.json")).read_text())["encodings"]
    assert next(kept.glob("benchmarks/*-profile.txt")).read_text()
    assert (kept / "log.txt").read_text().count(" done in ") == 5
    main(["table", "--recipe", "rehearsal", "--records", str(kept / "records")])
    assert "`learned`" in capsys.readouterr().out


def test_killed_at_any_moment_and_started_again_it_goes_on(tmp_path):
    """What is done is not done again; a sweep that the kill left running is ended."""
    moments, out = random.Random(3), tmp_path / "turn"
    for name in ("wheels", "warm", "tests", "bench"):
        (out / "done").mkdir(parents=True, exist_ok=True)
        (out / "done" / name).touch()
    process = turn(tmp_path)
    time.sleep(moments.uniform(1.0, 8.0))
    process.send_signal(signal.SIGKILL)
    process.communicate()

    process = turn(tmp_path)
    while process.poll() is None and not kept_records(out):
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert kept_records(out), "runs are kept one by one"

    finished(turn(tmp_path))
    records = read_records(unpacked(tmp_path) / "records")
    assert [r.run_id.slug for r in records] == ["learned", "learned", "roll", "roll"]
    log = (out / "log.txt").read_text()
    assert all(log.count(f"{stage} done in") == 1 for stage in ("source", "data", "sweep"))
    assert "..." not in finished(turn(tmp_path)), "nothing is left to do"


def test_what_a_killed_command_left_running_is_ended_and_that_of_another_turn_is_not(tmp_path):
    turns = [os.environ | {rented.TURN: str(tmp_path / name)} for name in ("turn", "another")]
    mine, stranger = (subprocess.Popen(["sleep", "60"], env=environment) for environment in turns)
    finished(turn(tmp_path, "--stages", "wheels"))
    assert mine.wait(10) == -signal.SIGKILL and stranger.poll() is None
    stranger.kill()
    stranger.wait()


# Pieces


def test_pieces_are_waited_for_in_turn_checked_and_joined(tmp_path):
    content, whole, carried = os.urandom(10_000), tmp_path / "whole.tar.xz", tmp_path / "carried"
    (tmp_path / "noise").write_bytes(content)
    with tarfile.open(whole, "w:xz") as tar:
        tar.add(tmp_path / "noise", "folder/noise")
    size = whole.stat().st_size
    assert carry.first_missing(carried) == carried / "0/pieces.json"
    assert carry.cut(whole, carried, 1 + size // 3, size // 4) == 4
    middle = carried / "1/piece"
    right = middle.read_bytes()
    middle.write_bytes(right[:-1])
    assert carry.first_missing(carried) == middle
    middle.write_bytes(bytes(len(right)))
    with pytest.raises(carry.Stop, match="damaged"):
        carry.unpack(carried, tmp_path / "data")
    middle.write_bytes(right)
    assert carry.first_missing(carried) is None
    carry.unpack(carried, tmp_path / "data")
    assert (tmp_path / "data/folder/noise").read_bytes() == content


def test_a_load_fits_beside_the_tree(monkeypatch):
    if not (ROOT / ".git").exists():
        pytest.skip("what travels is what git tracks")
    monkeypatch.setattr(carry, "TRAVELS", 1 << 30)  # however many runs are committed
    left = carry.beside_the_tree()
    monkeypatch.setattr(carry, "TRAVELS", carry.TRAVELS - left)
    with pytest.raises(carry.Stop, match="the tree has"):
        carry.beside_the_tree()


def test_the_plan_begins_with_the_encodings_that_are_compiled_first():
    plan = load_plan(ROOT / "plans/table1-short.yaml")
    first = [planned.run_id.slug for planned in plan[: rented.FIRST]]
    assert first == ["learned", "learned@every_block=true", "axial-rope", "roll"]


def test_programs_are_carried_in_the_order_of_the_plan_and_leave_room_for_the_archive(tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("roll", "learned", "axial-rope"):
        (programs / f"{name}-0123.bin.xz").write_bytes(bytes(carry.LEAST))
    plan = "encodings: [learned, axial-rope, roll]"
    left = carry.carry_programs(programs, tmp_path / "carried", 3 * carry.LEAST + 1, plan)
    kept = sorted(file.name for file in (tmp_path / "carried").iterdir())
    assert left == carry.LEAST + 1 and kept == ["axial-rope-0123.bin.xz", "learned-0123.bin.xz"]


def test_a_download_that_is_under_way_is_not_carried(tmp_path, monkeypatch):
    monkeypatch.setattr(carry, "ROOT", tmp_path)
    monkeypatch.setattr(carry, "output", lambda *_: "")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/cifar-100-python.tar.gz.part").touch()
    with pytest.raises(carry.Stop, match=r"cifar-100-python.tar.gz is missing"):
        carry.pack(tmp_path / "carried", 1, "3.12")


# What does not go as it should


def test_a_sweep_without_any_record_is_tried_again_with_other_settings_and_says_which(tmp_path):
    """This kernel of attention runs on no processor."""
    plan = tmp_path / "one.yaml"
    plan.write_text("recipe: short\nblocks:\n  - {encodings: [roll], seeds: [0]}\n")
    said = finished(turn(tmp_path, "--plan", str(plan), "--set", "attention=cudnn", "--stages", "sweep"))
    assert said.count("tried again with") == 1 and "tried again with attention=flash\n" in said
    assert "failed. attention='cudnn' cannot run" in said
    assert len(kept_records(tmp_path / "turn")) == 1
    assert not list((tmp_path / "turn/records").rglob("*.failed")), "they were tried again"


@pytest.mark.parametrize(
    ("told", "then", "ready"),
    [
        (["compiled in 9 s"] * 4, "time.sleep(60)", True),
        (["compiled in 9 s"] * 4 + ["cannot be compiled. no kernel"], "time.sleep(60)", True),
        (["compiled in 9 s"] * 3 + ["cannot be compiled. no kernel"], "time.sleep(60)", False),
        (["compiled in 9 s"] * 2, "exit(0)", True),
    ],
)
def test_training_begins_when_the_first_encodings_are_compiled_and_not_if_one_cannot_be(
    tmp_path, told, then, ready
):
    one = rented.Turn(rented.arguments(["--out", str(tmp_path / "turn"), "--rehearse"]))
    lines = "\n".join(f"x seed 0: {line}" for line in told)
    one.warming = time.monotonic()
    one.start("warm", "-c", f"import time; print({lines!r}, flush=True); {then}")
    assert one.compiled() == ready
    if "warm" in one.running:
        one.kill("warm")


def test_a_file_that_goes_away_while_the_tar_is_written_is_left_out(tmp_path, monkeypatch):
    """A run that is tried again and succeeds removes the reason of its failure."""
    one = rented.Turn(rented.arguments(["--out", str(tmp_path / "turn"), "--rehearse"]))
    folder = tmp_path / "turn/records/rehearsal/roll"
    folder.mkdir(parents=True)
    (folder / "seed-0.json").write_text("{}")
    found = [folder / "seed-0.failed", folder / "seed-0.json"]
    monkeypatch.setattr(one, "worth_keeping", lambda: iter(found))
    one.keep()
    assert kept_records(tmp_path / "turn") == ["records/rehearsal/roll/seed-0.json"]


def test_what_the_time_is_over_for_is_not_called_a_failure(tmp_path):
    said = finished(turn(tmp_path, "--stages", "bench", "tests", "--minutes", "0.76"))
    assert "bench: not finished" in said and "tests: not finished" in said and "FAILED" not in said


# From outside


def test_what_there_is_is_fetched_at_once_and_again_when_it_changes_and_programs_once(tmp_path):
    out, place = tmp_path / "turn", tmp_path / "home"
    (out / "programs").mkdir(parents=True)
    (out / "programs/roll-0.bin.xz").write_bytes(b"compiled")
    (out / "rented.tar.gz").write_bytes(b"one record")
    words = [sys.executable, str(SCRIPT), "--out", str(out), "--wait", "30", "--fetch"]
    process = subprocess.Popen([*words, str(place)], stdout=subprocess.DEVNULL)

    def arrives(content: bytes) -> None:
        until = time.monotonic() + 20
        while not (place / "rented.tar.gz").exists() or (place / "rented.tar.gz").read_bytes() != content:
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.1)

    arrives(b"one record")
    (out / "rented.tar.gz").write_bytes(b"two records")
    arrives(b"two records")
    assert (place / "programs/roll-0.bin.xz").read_bytes() == b"compiled"
    (out / "finished").touch()
    assert process.wait(20) == 0
    subprocess.run([*words, str(tmp_path / "again")], check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "again/rented.tar.gz").exists() and not list(tmp_path.glob("again/programs/*"))


def test_in_the_background_it_works_from_a_copy_that_the_next_load_does_not_touch(tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    for name in ("workflow/rented.py", "carried/1/piece", "data/cifar-100-python.tar.xz", ".git/HEAD"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    started = []
    monkeypatch.setattr(rented, "ROOT", tree)
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: started.append(words))
    words = ["--out", str(tmp_path / "out"), "--carried", str(tree / "carried"), "--background"]
    assert rented.main(words) == 0
    copy = tmp_path / "out/tree"
    assert [file.relative_to(copy).name for file in copy.rglob("*") if file.is_file()] == ["rented.py"]
    assert started[0][1] == copy / "workflow/rented.py" and "--background" not in started[0]
    assert started[0][-2:] == ["--carried", tree / "carried"]


def test_every_wheel_that_is_carried_is_locked():
    assert len(carry.locked()) == len(carry.WHEELS)


# What trains needs nothing of the book

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ImportError("only for the book: " + name)
sys.meta_path.insert(0, Blocked())
from rollpe.cli import main
small = ["--set", "max_steps=2", "--set", "depth=1", "--device", "cpu"]
main(["train", "--recipe", "smoke", "--encoding", "roll", "--records", "r", *small])
main(["sweep", "plan.yaml", "--records", "r", "--no-checkpoints", *small])
main(["table", "--recipe", "smoke@depth=1,max_steps=2", "--records", "r"])
small = ["--set", "compile=false", "--set", "batch_size=2", "--device", "cpu"]
main(["bench", *small, "--rounds", "2", "--no-timm", "--encodings", "none", "--records", "b", "--profile"])
"""


def test_nothing_that_trains_or_measures_imports_what_is_only_for_the_book(tmp_path):
    names = ["papermill", "seaborn", "matplotlib", "sphinx", "playwright", "jupytext", "nbformat", "nbclient"]
    names += ["IPython", "snakemake", "jupyter_book", "myst_nb", "pybtex", "docutils"]
    (tmp_path / "plan.yaml").write_text("recipe: smoke\nblocks: [{encodings: [none], seeds: [0]}]\n")
    done = python("-c", BLOCKED.format(names=names), cwd=tmp_path)
    assert "`roll`" in done.stdout and "1 of 1 cells have a record" in done.stdout
    assert [record.run_id.slug for record in read_records(tmp_path / "r")] == ["none", "roll"]
