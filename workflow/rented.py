"""Half an hour on a rented GPU: from a bare Linux machine with CUDA and torch, without a network, to records.

In a copy of the tree with carried/0, which carry.py packs at home. Other loads may come while it works::

    python workflow/rented.py --out /tmp/turn --minutes 26 --background
    python workflow/rented.py --out /tmp/turn --fetch HERE --wait 540      # again and again

`--rehearse` runs the same stages on a processor, with tiny models and an archive made for the purpose.

The stages, in order:

- wheels: install what is missing here.
- source: which commit is this, and is it that commit?
- warm: compile every encoding of the plan side by side, in the background.
- tests: tests/training/test_cuda.py.
- data: wait for the pieces of the archive, check them, unpack.
- bench: the speed of a step, which decides the number of epochs.
- sweep: train what the plan lacks, while the minutes last.

A stage that is done is skipped when the command is given again, unless --stages names it. What a killed
command has left running is ended first. After each stage and each run everything worth keeping is in one
file, OUT/rented.tar.gz. OUT/programs.tar.gz is what was compiled; as data/programs.tar.gz it goes along next
time.

Standard library only: it runs before anything is installed. What it starts are the project's own commands.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from carry import CARRIED, PROGRAMS, ROOT, Stop, cut, first_missing, satisfied, unpack

EPOCHS = ((45_000, 100), (34_000, 60), (0, 50))
"""From so many images/s on, `short` trains so many epochs, so that twelve runs fit into some 20 minutes."""
TIMED = ("learned", "axial-rope", "roll", "multiplexed-roll")
"""The encodings whose common speed decides."""

LAST = 45  # seconds kept for the last tar
TESTS, BENCH = 240, 150  # seconds at most
JOBS = 6  # encodings compiled side by side
LOG_BYTES = 200_000  # of each log, its end goes into the tar

TINY = (
    *("name=rehearsal", "data=digits", "size=nano", "depth=1", "patch_size=2", "batch_size=64"),
    *("train_images=256", "epochs=2", "warmup_epochs=1", "augmentation.policy=none", "resolutions=[]"),
    *("shifts=[]", "compile=true"),
)
FALLBACKS = {
    "attention": "attention=math",
    "graphs": "compile=default",
    "batch": "batch_size=32",
}
"""What to try with --set if a machine does not do as it should; a rehearsal trains one run with each."""


class Turn:
    """One turn on a machine: its folder, its minutes, its stages."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.out: Path = arguments.out.resolve()
        self.carried: Path = arguments.carried.resolve()
        self.rehearse: bool = arguments.rehearse
        self.plan: str = arguments.plan
        self.settings = [*(TINY if self.rehearse else ()), *arguments.set]
        self.device = "cpu" if self.rehearse else "cuda"
        self.begun = time.monotonic()
        self.end = self.begun + 60 * arguments.minutes
        self.named = arguments.stages.split(",") if arguments.stages else []
        self.running: dict[str, subprocess.Popen] = {}
        self.packed = -1
        for folder in ("logs", "done", "running", "records"):
            (self.out / folder).mkdir(parents=True, exist_ok=True)
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])),
            "PYTHONUNBUFFERED": "1",
            "PIP_BREAK_SYSTEM_PACKAGES": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(self.out / "compiled"),
            "TORCHINDUCTOR_COMPILE_THREADS": "4",  # of each of the processes that warm up side by side
        }
        source = self.carried / "0" / "source"
        if source.exists():
            self.environment["ROLLPE_SOURCE"] = source.read_text()

    # ------------------------------------------------------------------------------------ the whole

    def run(self) -> None:
        """All stages that are wanted and not done. Raises Stop."""
        stages: dict[str, Callable[[], None]] = {
            "wheels": self.wheels,
            "source": self.source,
            "warm": self.warm,
            "tests": self.tests,
            "data": self.data,
            "bench": self.bench,
            "sweep": self.sweep,
        }
        if self.rehearse:
            stages["fallbacks"] = self.fallbacks
        unknown = ", ".join(set(self.named) - stages.keys())
        if unknown:
            raise Stop(f"--stages {unknown}: there is no such stage. Allowed: {', '.join(stages)}.")
        self.end_left_over()
        wanted = {
            name: stage
            for name, stage in stages.items()
            if (name in self.named if self.named else not (self.out / "done" / name).exists())
        }
        try:
            for name, stage in wanted.items():
                begun = time.monotonic()
                self.say(f"{name} ...")
                stage()
                if name != "warm":  # which goes on in the background
                    self.done(name, begun)
            if "warm" in self.running:
                self.await_warm()
        finally:
            for name in list(self.running):
                self.kill(name)
            self.keep(last=True)

    def say(self, line: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {time.monotonic() - self.begun:6.1f} s  {line}"
        print(line, flush=True)
        with (self.out / "log.txt").open("a") as log:
            log.write(line + "\n")

    def done(self, name: str, begun: float) -> None:
        seconds = time.monotonic() - begun
        (self.out / "done" / name).write_text(f"{seconds:.1f}\n")
        self.say(f"{name} done in {seconds:.1f} s")
        self.keep()

    def left(self) -> float:
        return self.end - LAST - time.monotonic()

    # ------------------------------------------------------------------------------- other processes

    def start(self, name: str, words: list[str]) -> None:
        """Start a command in a process group of its own; what it prints goes to logs/<name>.txt."""
        with (self.out / "logs" / f"{name}.txt").open("ab") as log:
            process = subprocess.Popen(
                words,
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (self.out / "running" / name).write_text(f"{process.pid} {born(process.pid)}")
        self.running[name] = process

    def wait(self, name: str, seconds: float) -> int:
        """Its exit status; keeps what is new meanwhile. A command that takes longer is ended."""
        process, until = self.running[name], time.monotonic() + max(0.0, seconds)
        while process.poll() is None and time.monotonic() < until:
            self.keep()
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
        if process.poll() is None:
            self.say(f"{name}: {seconds:.0f} s are over, ended")
        self.kill(name)
        return process.returncode

    def kill(self, name: str) -> None:
        """End a command and all that it started, asking first."""
        process = self.running.pop(name)
        for sign in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
        (self.out / "running" / name).unlink(missing_ok=True)

    def end_left_over(self) -> None:
        """End what an earlier command that was killed has left running."""
        for file in (self.out / "running").iterdir():
            number, _, when = file.read_text().partition(" ")
            if when and born(int(number)) == when:
                with suppress(ProcessLookupError):
                    os.killpg(int(number), signal.SIGKILL)
                self.say(f"{file.name}: left running by an earlier command, ended")
            file.unlink()

    def rollpe(self, name: str, words: list[str], seconds: float) -> int:
        self.start(name, [sys.executable, "-m", "rollpe.cli", *words])
        return self.wait(name, seconds)

    def last_line(self, name: str) -> str:
        lines = (self.out / "logs" / f"{name}.txt").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing printed"

    def overrides(self, *more: str) -> list[str]:
        return [word for setting in (*self.settings, *more) for word in ("--set", setting)]

    # ---------------------------------------------------------------------------------------- stages

    def wheels(self) -> None:
        """Install what is carried and not there, or older there, into this interpreter."""
        files = [f for f in sorted(self.carried.glob("0/wheels/*.whl")) if not satisfied(f.name)]
        self.say(f"to install: {', '.join(f.name.split('-')[0] for f in files) or 'nothing'}")
        if files:
            words = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-compile"]
            self.start("wheels", [*words, "--no-cache-dir", "--upgrade", *map(str, files)])
            if self.wait("wheels", 120):
                raise Stop(f"the wheels could not be installed: {self.last_line('wheels')}")

    def source(self) -> None:
        """Refuse a copy whose commit is not known, or that differs from it, and a machine without CUDA."""
        ask = (
            "import torch; from rollpe.records import loaded_source as s; "
            "print(s().commit, s().dirty, torch.cuda.is_available())"
        )
        self.start("source", [sys.executable, "-c", ask])
        if self.wait("source", 120):
            raise Stop(f"rollpe cannot be imported here: {self.last_line('source')}")
        commit, dirty, cuda = self.last_line("source").split()
        self.say(f"commit {commit}, changes: {dirty}, CUDA: {cuda}")
        if self.rehearse:
            return
        if cuda != "True":
            raise Stop("there is no CUDA device here: --rehearse runs the stages on a processor.")
        if dirty != "False":
            raise Stop("the source is of no known commit, or differs from it: commit, pack, copy again.")

    def warm(self) -> None:
        """Begin to compile every encoding of the plan."""
        programs = self.out / "programs"
        carried = self.carried / "0" / PROGRAMS.name
        if carried.exists() and not programs.exists():
            with tarfile.open(carried) as tar:
                tar.extractall(programs, filter="data")
        words = ["warm", self.plan, "--device", self.device, "--jobs", str(2 if self.rehearse else JOBS)]
        words += ["--keep", str(programs), *self.overrides()]
        self.warming = time.monotonic()
        self.start("warm", [sys.executable, "-m", "rollpe.cli", *words])

    def await_warm(self) -> None:
        status = self.wait("warm", self.left())
        with tarfile.open(self.out / PROGRAMS.name, "w:gz") as tar:
            for path in sorted((self.out / "programs").glob("*.bin")):
                tar.add(path, path.name)
        self.done("warm", self.warming)
        if status:
            self.say(f"some encodings cannot be compiled: {self.last_line('warm')}")

    def tests(self) -> None:
        """The tests that only this machine can run. A failure is told, and stops nothing."""
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/training/test_cuda.py",
        ]
        self.start("tests", [*words, "--override-ini", "addopts="])
        status = self.wait("tests", min(TESTS, self.left()))
        self.say(f"tests: {'passed' if status == 0 else 'FAILED'}. {self.last_line('tests')}")

    def data(self) -> None:
        """Wait for all pieces of the archive, check them and unpack them."""
        if not self.rehearse and (ROOT / "data/cifar-100-python/train").exists():
            return
        carried = self.carried
        if self.rehearse:
            carried = self.out / "practice"
            threading.Thread(target=practice_pieces, args=(carried,), daemon=True).start()
        while (missing := first_missing(carried)) is not None:
            if self.left() < 0:
                raise Stop(f"{missing} has not arrived")
            self.keep()
            time.sleep(0.5)
        unpack(carried, self.out / "data")
        verify = ["data", "verify", "cifar100", "--root", str(self.out / "data")]
        if not self.rehearse and self.rollpe("data", verify, 120):
            raise Stop(f"the data are not the published ones: {self.last_line('data')}")

    def bench(self) -> None:
        """Time a step of the table's encodings, once everything is compiled."""
        if "warm" in self.running:
            self.await_warm()
        tiny = ["--set", "depth=1", "--size", "nano", "--batch", "8", "--rounds", "2", "--eager"]
        words = ["bench", "--device", self.device, "--recipe", self.recipe(), "--no-timm", "--no-scaling"]
        words += ["--encodings", ",".join(["none", *TIMED, "roll-twin"]), "--profile"]
        words += ["--budget", f"{BENCH}s", "--records", str(self.out / "benchmarks")]
        words += tiny if self.rehearse else self.overrides()
        if self.rollpe("bench", words, min(2 * BENCH, self.left())):
            self.say(f"no benchmark: {self.last_line('bench')}")

    def sweep(self) -> None:
        """Train what the plan lacks, in the time that is left."""
        if "warm" in self.running:
            self.await_warm()
        # the sweep looks for what there is where it writes
        shutil.copytree(ROOT / "data/records", self.out / "records", dirs_exist_ok=True)
        epochs = self.epochs()
        data = self.out / "data"
        words = ["sweep", self.plan, "--device", self.device, "--records", str(self.out / "records")]
        words += ["--data-root", str(data if data.exists() else ROOT / "data"), "--no-checkpoints"]
        words += ["--no-progress", "--budget", f"{max(0, self.left() - 15):.0f}s", *self.overrides(*epochs)]
        if self.rollpe("sweep", words, self.left()):
            raise Stop(f"the sweep broke off: {self.last_line('sweep')}")
        self.say(self.last_line("sweep"))

    def fallbacks(self) -> None:
        """Train one run with each switch that a machine may make necessary."""
        for name, setting in FALLBACKS.items():
            words = ["sweep", self.plan, "--device", self.device, "--no-checkpoints", "--no-progress"]
            words += ["--records", str(self.out / "fallbacks" / name), *self.overrides(setting)]
            cell = f"rehearsal/{TIMED[0]}/seed-0"
            if self.rollpe(name, [*words, "--only", cell], self.left()):
                raise Stop(f"fallback {name}: {self.last_line(name)}")

    # ------------------------------------------------------------------------------------ decisions

    def recipe(self) -> str:
        """The recipe that the plan names."""
        found = re.search(r"^recipe: *(\S+)", (ROOT / self.plan).read_text(), re.MULTILINE)
        if not found:
            raise Stop(f"{self.plan} names no recipe.")
        return found[1]

    def epochs(self) -> list[str]:
        """How long the runs of `short` are: as earlier ones, else by measured speed. Decided once."""
        file = self.out / "epochs.json"
        if self.recipe() != "short" or any(setting.startswith("epochs=") for setting in self.settings):
            return []
        if not file.exists():
            file.write_text(json.dumps(decide(ROOT / "data/records", self.out / "benchmarks")))
        decision = json.loads(file.read_text())
        self.say(f"{decision['epochs']} epochs: {decision['why']}")
        return [] if decision["epochs"] == EPOCHS[-1][1] else [f"epochs={decision['epochs']}"]

    # ------------------------------------------------------------------------------------ what stays

    def worth_keeping(self) -> Iterator[Path]:
        """What the tree did not come with."""
        for pattern in ("records/**/seed-*", "fallbacks/**/seed-*", "benchmarks/*", "done/*", "epochs.json"):
            for path in sorted(self.out.glob(pattern)):
                if path.suffix != ".lock" and not (ROOT / "data" / path.relative_to(self.out)).exists():
                    yield path

    def keep(self, last: bool = False) -> None:
        """Write OUT/rented.tar.gz anew if there is more to keep than before."""
        found = list(self.worth_keeping())
        if len(found) == self.packed and not last:
            return
        self.packed = len(found)
        temporary = self.out / ".rented.tar.gz"
        with tarfile.open(temporary, "w:gz") as tar:
            for path in found:
                tar.add(path, str(path.relative_to(self.out)))
            for path in [self.out / "log.txt", *sorted((self.out / "logs").iterdir())]:
                content = path.read_bytes()[-LOG_BYTES:] if path.exists() else b""
                info = tarfile.TarInfo(str(path.relative_to(self.out)))
                info.size, info.mtime = len(content), int(time.time())
                tar.addfile(info, io.BytesIO(content))
        os.replace(temporary, self.out / "rented.tar.gz")


def born(number: int) -> str:
    """When a process began, in the system's own count; "" if there is none. Numbers are used again."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def practice_pieces(carried: Path) -> None:
    """An archive of noise in three pieces, of which two arrive late."""
    made = carried.with_name("practice.tar.xz")
    with tarfile.open(made, "w:xz") as tar:
        content = os.urandom(3000)
        info = tarfile.TarInfo("practice/noise")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    whole = carried.with_name("whole")
    third = 1 + made.stat().st_size // 3
    count = cut(made, whole, third, third)
    for i in range(count):
        shutil.copytree(whole / str(i), carried / str(i), dirs_exist_ok=True)
        time.sleep(0.5)


def decide(records: Path, benchmarks: Path) -> dict:
    """Epochs of `short`, and why: those of earlier runs; else by the speed measured here; else as written."""
    for folder in sorted(records.glob("short*")):
        length = re.fullmatch(r"short(?:@epochs=(\d+))?", folder.name)
        if length and any(folder.rglob("seed-*.json")):
            return {"epochs": int(length[1] or EPOCHS[-1][1]), "why": "as the runs that there are"}
    files = sorted(benchmarks.glob("*.json"), key=lambda file: file.stat().st_mtime)
    if not files:
        return {"epochs": EPOCHS[-1][1], "why": "no speed was measured"}
    timings = json.loads(files[-1].read_text())["encodings"]
    speeds = [t["images_per_second_augmented"] for t in timings if t["name"] in TIMED]
    if len(speeds) < len(TIMED):
        return {"epochs": EPOCHS[-1][1], "why": f"{len(speeds)} of {len(TIMED)} encodings were timed"}
    speed = len(speeds) / sum(1 / each for each in speeds)  # images of all over seconds of all
    epochs = next(epochs for least, epochs in EPOCHS if speed >= least)
    return {"epochs": epochs, "why": f"{speed:,.0f} images/s over the four encodings of the table"}


# From outside


def background(out: Path, words: list[str]) -> None:
    """Start this command again so that it outlives the one that calls it."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "finished").unlink(missing_ok=True)
    with (out / "background.txt").open("ab") as log:
        subprocess.Popen(
            [sys.executable, __file__, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def fetch(out: Path, place: Path, wait: float) -> None:
    """Copy both tars to `place` when the turn is over or the seconds are; print the end of the log."""
    until = time.monotonic() + wait
    while time.monotonic() < until and not (out / "finished").exists():
        time.sleep(1)
    place.mkdir(parents=True, exist_ok=True)
    for tar in out.glob("*.tar.gz"):
        if not tar.name.startswith("."):
            shutil.copy(tar, place)
    log = out / "log.txt"
    print("\n".join(log.read_text().splitlines()[-25:]) if log.exists() else "nothing yet")
    print("finished" if (out / "finished").exists() else "still at work")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("rented"), help="folder of all that is written")
    parser.add_argument("--minutes", type=float, default=28, help="until the last tar must be there")
    parser.add_argument("--plan", default="plans/table1-short.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the recipe")
    parser.add_argument("--stages", help="only these, again if they are done: wheels,source,...")
    parser.add_argument("--carried", type=Path, default=CARRIED, help="folder of the loads")
    parser.add_argument("--rehearse", action="store_true", help="on a processor, with tiny models")
    parser.add_argument("--background", action="store_true", help="return at once and work on")
    parser.add_argument("--fetch", type=Path, metavar="PLACE", help="copy the tar of a turn under way")
    parser.add_argument("--wait", type=float, default=0, help="seconds that --fetch waits for the end")
    arguments = parser.parse_args(words)
    try:
        if arguments.fetch:
            fetch(arguments.out, arguments.fetch, arguments.wait)
        elif arguments.background:
            background(arguments.out, [word for word in words if word != "--background"])
        else:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            turn, finished = Turn(arguments), arguments.out / "finished"
            finished.unlink(missing_ok=True)
            try:
                turn.run()
            finally:
                finished.touch()
    except Stop as reason:
        print(f"rented: {reason}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
