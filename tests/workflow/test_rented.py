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

from rollpe.cli import main
from rollpe.evidence.table import LARGE
from rollpe.records import read_records
from rollpe.training import load_recipe
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
    words = [sys.executable, str(SCRIPT), "--rehearse", "--out", str(folder / "turn"), "--plan", str(plan)]
    return subprocess.Popen(
        [*words, *QUICK, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


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
    process = turn(tmp_path, "--stages", "wheels,source,data,bench,sweep")
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said
    kept = unpacked(tmp_path)
    assert [r.cell.slug for r in read_records(kept / "records")] == ["learned", "learned", "roll", "roll"]
    assert json.loads(next(kept.glob("benchmarks/*.json")).read_text())["encodings"]
    assert next(kept.glob("benchmarks/*-profile-roll.txt")).read_text()
    assert (kept / "log.txt").read_text().count(" done in ") == 5
    assert (tmp_path / "turn/data/practice/noise").stat().st_size == 3000
    main(["table", "--recipe", "rehearsal", "--records", str(kept / "records")])
    assert "`learned`" in capsys.readouterr().out


def test_killed_at_any_moment_and_started_again_it_goes_on(tmp_path):
    """What is done is not done again; a sweep that the kill left running is ended."""
    moments, out = random.Random(3), tmp_path / "turn"
    for name in ("wheels", "warm", "tests", "bench", "fallbacks"):
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

    last = turn(tmp_path)
    said, _ = last.communicate(timeout=400)
    assert last.returncode == 0, said
    records = read_records(unpacked(tmp_path) / "records")
    assert [(r.cell.slug, r.seed) for r in records] == [
        ("learned", 0),
        ("learned", 1),
        ("roll", 0),
        ("roll", 1),
    ]
    log = (out / "log.txt").read_text()
    assert all(log.count(f"{stage} done in") == 1 for stage in ("source", "data", "sweep"))
    assert not list((out / "running").iterdir())

    again = turn(tmp_path)
    said, _ = again.communicate(timeout=60)
    assert again.returncode == 0 and "..." not in said, "nothing is left to do"


def test_what_a_killed_command_left_running_is_ended_and_a_stranger_is_not(tmp_path):
    sleeping = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2)]
    running = tmp_path / "turn" / "running"
    running.mkdir(parents=True)
    (running / "sweep").write_text(f"{sleeping[0].pid} {rented.born(sleeping[0].pid)}")
    (running / "bench").write_text(f"{sleeping[1].pid} another time")
    process = turn(tmp_path, "--stages", "wheels")
    process.communicate(timeout=60)
    assert sleeping[0].wait(10) == -signal.SIGKILL and sleeping[1].poll() is None
    sleeping[1].kill()
    sleeping[1].wait()


def test_a_stage_that_does_not_exist_is_one_line(tmp_path):
    process = turn(tmp_path, "--stages", "sweep,bensh")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2 and "rented: --stages bensh" in said and "Traceback" not in said


# Pieces


def test_pieces_are_waited_for_in_turn_checked_and_joined(tmp_path):
    content = os.urandom(10_000)
    (tmp_path / "noise").write_bytes(content)
    with tarfile.open(tmp_path / "whole.tar.xz", "w:xz") as tar:
        tar.add(tmp_path / "noise", "folder/noise")
    size = (tmp_path / "whole.tar.xz").stat().st_size
    carried = tmp_path / "carried"
    assert carry.first_missing(carried) == carried / "0/pieces.json"
    assert carry.cut(tmp_path / "whole.tar.xz", carried, 1 + size // 3, size // 4) == 4
    assert carry.first_missing(carried) is None
    carry.unpack(carried, tmp_path / "data")
    assert (tmp_path / "data/folder/noise").read_bytes() == content

    assert carry.cut(tmp_path / "whole.tar.xz", tmp_path / "other", 1 + size // 3, 1 + size // 3) == 3
    middle = tmp_path / "other/1/piece"
    whole = middle.read_bytes()
    middle.write_bytes(whole[:-1])
    assert carry.first_missing(tmp_path / "other") == middle
    middle.write_bytes(bytes(len(whole)))
    assert carry.first_missing(tmp_path / "other") == middle, "perhaps it is still on its way"
    os.utime(middle, (0, 0))
    with pytest.raises(carry.Stop, match="damaged"):
        carry.first_missing(tmp_path / "other")


# How long the runs are


def benchmark(folder: Path, **speeds: float) -> Path:
    folder.mkdir(exist_ok=True)
    timings = [{"name": name, "images_per_second_augmented": s} for name, s in speeds.items()]
    (folder / "cuda.json").write_text(json.dumps({"encodings": timings}))
    return folder


@pytest.mark.parametrize(("speed", "epochs"), [(20e3, 50), (33_999, 50), (34e3, 60), (45e3, 100), (9e4, 100)])
def test_the_speed_of_the_tables_encodings_decides_how_long_the_runs_are(tmp_path, speed, epochs):
    speeds = benchmark(tmp_path / "b", **dict.fromkeys(rented.TIMED, speed), none=1e6)
    assert rented.decide(tmp_path / "records", speeds)["epochs"] == epochs


def test_speeds_are_weighed_by_the_time_they_take(tmp_path):
    uneven = dict.fromkeys(rented.TIMED, 60e3) | {"multiplexed-roll": 15e3}
    assert rented.decide(tmp_path, benchmark(tmp_path / "b", **uneven))["epochs"] == 60, "not 48,750"


def test_runs_that_there_are_decide_for_those_to_come_and_no_speed_changes_nothing(tmp_path):
    assert rented.decide(tmp_path / "records", tmp_path / "b")["epochs"] == 50
    some = benchmark(tmp_path / "b", learned=1e6)
    assert rented.decide(tmp_path / "records", some)["epochs"] == 50, "one of four encodings is no speed"
    path = tmp_path / "records/short@epochs=60/roll/seed-0.json"
    path.parent.mkdir(parents=True)
    path.touch()
    fast = benchmark(tmp_path / "b", **dict.fromkeys(rented.TIMED, 1e6))
    assert rented.decide(tmp_path / "records", fast)["epochs"] == 60


def test_tables_and_the_recipe_know_every_length_that_may_be_decided():
    lengths = [epochs for _, epochs in rented.EPOCHS]
    assert load_recipe("short").epochs == lengths[-1]
    assert set(LARGE) == {"strong", "short", *(f"short@epochs={epochs}" for epochs in lengths[:-1])}


def test_packages_are_installed_that_are_absent_or_older():
    import numpy

    assert carry.satisfied(f"numpy-{numpy.__version__}-cp311-cp311-any.whl")
    assert carry.satisfied("numpy-1.0-cp311-cp311-any.whl") and not carry.satisfied("numpy-99.0-x.whl")
    assert not carry.satisfied("no_such_package-1.0-x.whl")


def test_every_wheel_that_is_carried_is_locked():
    assert all(carry._locked(name) for name in carry.WHEELS)


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
main(["bench", "--device", "cpu", "--eager", "--rounds", "2", "--batch", "2", "--no-timm", "--no-scaling",
      "--encodings", "none", "--records", "b", "--profile"])
"""


def test_nothing_that_trains_or_measures_imports_what_is_only_for_the_book(tmp_path):
    names = ["papermill", "seaborn", "matplotlib", "sphinx", "playwright", "jupytext", "nbformat", "nbclient"]
    names += ["IPython", "snakemake", "jupyter_book", "myst_nb", "pybtex", "docutils"]
    (tmp_path / "plan.yaml").write_text("recipe: smoke\nblocks: [{encodings: [none], seeds: [0]}]\n")
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(names=names)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "`roll`" in done.stdout and "1 of 1 cells have a record" in done.stdout
    assert [record.cell.slug for record in read_records(tmp_path / "r")] == ["none", "roll"]
