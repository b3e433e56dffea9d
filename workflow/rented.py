"""Half an hour on a rented GPU: from a bare Linux machine with CUDA and torch, without a network, to records.

In a copy of the tree with carried/0, which carry.py packs at home. Other loads may come while it works::

    python workflow/rented.py --out /tmp/turn --background
    python workflow/rented.py --out /tmp/turn --fetch HERE --wait 240      # again and again

`--rehearse` runs the same stages on a processor, with tiny models and digits in the place of the archive.

The stages, in order:

- wheels: install what is missing here.
- source: which commit is this, and is it that commit?
- warm: compile every encoding of the plan side by side and try it on noise, in the background.
- data: wait for the pieces of the archive, check them, unpack.
- sweep: once the first encodings are compiled, train what the plan lacks, while the minutes last.
- bench: in what is left, the speed of a step, with a profile.
- tests: tests/training/test_cuda.py.

If nothing can be compiled or trained, it is tried again with the next of `FALLBACKS`, which change no
record's name.

A stage that is done is skipped when the command is given again, unless --stages names it. What a killed
command has left running is ended first. After each stage and each run everything worth keeping is in one
file, OUT/rented.tar.gz. OUT/programs is what was compiled; as data/programs it goes along next time.

Standard library only: it runs before anything is installed. What it starts are the project's own commands.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from carry import CARRIED, ROOT, WHEELS, Stop, first_missing, unpack

STAGES = ("wheels", "source", "warm", "data", "sweep", "bench", "tests")
FALLBACKS = (
    (),
    ("attention=flash",),
    ("attention=flash", "compile=default"),  # no CUDA graphs
    ("attention=flash", "compile=false"),
)
"""Settings of the recipe that are tried one after another."""

FIRST = 4
"""Encodings that are compiled before the first run: those of the paper's table, the first of the plan."""

TURN = "ROLLPE_TURN"
"""A variable of all that a turn starts, with its folder."""

LAST = 45  # seconds kept for the last tar
WARM, BENCH, TESTS = 300, 150, 240  # seconds at most
JOBS = 8  # processes that compile side by side

TINY = (
    *("name=rehearsal", "data=digits", "size=nano", "depth=1", "patch_size=2", "batch_size=64"),
    *("train_images=256", "epochs=2", "warmup_epochs=1", "augmentation.policy=none", "resolutions=[]"),
    *("shifts=[]", "compile=true"),
)


class Turn:
    """One turn on a machine: its folder, its minutes, its stages."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.out: Path = asked.out.resolve()
        self.carried: Path = asked.carried.resolve()
        self.rehearse: bool = asked.rehearse
        self.plan: str = asked.plan
        self.settings = [*(TINY if self.rehearse else ()), *asked.set]
        self.device = "cpu" if self.rehearse else "cuda"
        self.begun = time.monotonic()
        self.end = self.begun + 60 * asked.minutes
        self.named: list[str] = asked.stages
        self.running: dict[str, subprocess.Popen] = {}
        self.logs: dict[str, Path] = {}
        self.packed = -1
        self.fallback = 0  # which of `FALLBACKS` is in use
        for folder in ("logs", "done", "records"):
            (self.out / folder).mkdir(parents=True, exist_ok=True)
        # what is installed for this turn alone is found before what is there
        paths = [str(ROOT / "src"), str(self.out / "site"), os.environ.get("PYTHONPATH")]
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONUNBUFFERED": "1",
            "PIP_BREAK_SYSTEM_PACKAGES": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(self.out / "compiled"),
            "TORCHINDUCTOR_COMPILE_THREADS": "4",  # of each of the processes that warm up side by side
            TURN: str(self.out),
        }
        source = self.carried / "0" / "source"
        if source.exists():
            self.environment["ROLLPE_SOURCE"] = source.read_text()

    # ------------------------------------------------------------------------------------ the whole

    def run(self) -> None:
        """All stages that are wanted and not done. Raises Stop."""
        end_left_over(self.out)
        wanted = self.named or [name for name in STAGES if not (self.out / "done" / name).exists()]
        try:
            for name in (name for name in STAGES if name in wanted):
                begun = time.monotonic()
                self.say(f"{name} ...")
                getattr(self, name)()
                if name != "warm":  # which goes on in the background
                    self.done(name, begun)
            if "warm" in self.running:
                self.await_warm(self.left())
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

    def start(self, name: str, *words: str) -> None:
        """Start Python in a process group of its own; what it prints goes to a file in logs/."""
        self.logs[name] = self.out / "logs" / f"{name}-{time.time_ns() // 10**6}.txt"
        with self.logs[name].open("wb") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def rollpe(self, verb: str, *words: str) -> None:
        """Start a verb of the command line."""
        self.start(verb, "-m", "rollpe.cli", verb, *words)

    def wait(self, name: str, seconds: float, enough: Callable[[], bool] = lambda: False) -> int | None:
        """Its exit status; None if it was ended, since the time was over or since it was enough.

        Keeps what is new meanwhile.
        """
        process, until = self.running[name], time.monotonic() + max(0.0, seconds)
        while process.poll() is None and time.monotonic() < until and not enough():
            self.keep()
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
        status = process.poll()
        self.kill(name)
        return status

    def kill(self, name: str) -> None:
        """End a command and all that it started, asking first."""
        process = self.running.pop(name)
        for sign in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)

    def printed(self, name: str) -> str:
        return self.logs[name].read_text(errors="replace")

    def last_line(self, name: str) -> str:
        lines = self.printed(name).strip().splitlines()
        return lines[-1] if lines else "nothing printed"

    def overrides(self) -> list[str]:
        settings = (*self.settings, *FALLBACKS[self.fallback])
        return [word for setting in settings for word in ("--set", setting)]

    # ---------------------------------------------------------------------------------------- stages

    def wheels(self) -> None:
        """Install what is carried and not there, or older there, into this interpreter or beside it."""
        wheels = self.carried / "0" / "wheels"
        if wheels.exists():
            words = ["--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade"]
            if not os.access(sysconfig.get_path("purelib"), os.W_OK):
                words += ["--target", str(self.out / "site")]
            self.start("wheels", "-m", "pip", "install", *words, "--find-links", str(wheels), *WHEELS)
            if self.wait("wheels", 120) != 0:
                raise Stop(f"the wheels could not be installed: {self.last_line('wheels')}")
            self.say(self.last_line("wheels"))

    def source(self) -> None:
        """Refuse a copy whose commit is not known, or that differs from it, and a machine without CUDA."""
        ask = (
            "import torch; from rollpe_lab.records import loaded_source as s; "
            "print(s().commit, s().dirty, torch.cuda.is_available())"
        )
        self.start("source", "-c", ask)
        if self.wait("source", 120) != 0:
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
        if "warm" in self.running:  # with other settings
            self.kill("warm")
        (self.out / "done" / "warm").unlink(missing_ok=True)
        carried = self.carried / "0" / "programs"
        if carried.exists():
            shutil.copytree(carried, self.out / "programs", dirs_exist_ok=True)
        words = ["--jobs", str(2 if self.rehearse else JOBS), "--keep", str(self.out / "programs")]
        self.warming = time.monotonic()
        self.rollpe("warm", self.plan, "--device", self.device, *words, *self.overrides())

    def await_warm(self, seconds: float) -> None:
        if self.wait("warm", seconds) == 0:
            self.done("warm", self.warming)

    def data(self) -> None:
        """Wait for all pieces of the archive, check them and unpack them."""
        if self.rehearse or (ROOT / "data/cifar-100-python/train").exists():
            return
        while (missing := first_missing(self.carried)) is not None:
            if self.left() < 0:
                raise Stop(f"{missing} has not arrived")
            self.keep()
            time.sleep(0.5)
        unpack(self.carried, self.out / "data")
        self.rollpe("data", "verify", "cifar100", "--root", str(self.out / "data"))
        if self.wait("data", 120) != 0:
            raise Stop(f"the data are not the published ones: {self.last_line('data')}")

    def sweep(self) -> None:
        """Train what the plan lacks in the time that is left, with the first of `FALLBACKS` that works."""
        # the sweep looks for what there is where it writes; some files may have been left at home
        for recipe in (ROOT / "data/records").glob("*/"):
            shutil.copytree(recipe, self.out / "records" / recipe.name, dirs_exist_ok=True)
        while True:
            before = self.records()
            if (self.compiled() and self.train()) or self.left() < 0:
                return
            if self.records() == before:
                if self.fallback + 1 == len(FALLBACKS):
                    raise Stop("nothing can be trained here; the lines above and logs/ say why.")
                self.fallback += 1
                self.say(f"tried again with {' '.join(FALLBACKS[self.fallback])}")
                self.warm()

    def compiled(self) -> bool:
        """Wait until the first encodings are compiled; False if one cannot be."""
        until = time.monotonic() + min(WARM, self.left())
        while "warm" in self.running and time.monotonic() < until:
            over = self.running["warm"].poll() is not None
            told = re.findall(r".*: (?:compiled in|cannot be compiled).*", self.printed("warm"))[:FIRST]
            if failed := next((line for line in told if "cannot be compiled" in line), None):
                self.say(failed)
                return False
            if over:
                self.await_warm(0)
            elif len(told) == FIRST:
                break
            self.keep()
            time.sleep(0.5)
        return True

    def train(self) -> bool:
        """Sweep; whether it worked. It is ended if a run fails before there is any record."""
        data = self.out / "data"
        words = ["--device", self.device, "--records", str(self.out / "records"), "--no-checkpoints"]
        words += ["--data-root", str(data if data.exists() else ROOT / "data"), "--no-progress", "--retry"]
        words += ["--budget", f"{max(0, self.left() - 15):.0f}s", *self.overrides()]
        self.rollpe("sweep", self.plan, *words)

        def failure() -> re.Match | None:
            return None if self.records() else re.search(r".*: failed\. .*", self.printed("sweep"))

        others = self.fallback + 1 < len(FALLBACKS)
        status = self.wait("sweep", self.left(), lambda: others and failure() is not None)
        failed = failure()
        self.say(failed[0] if failed else self.last_line("sweep"))
        return status == 0 and not failed

    def bench(self) -> None:
        """Time a step of the plan's first encodings, if there is time."""
        recipe = re.search(r"^recipe: *(\S+)", (ROOT / self.plan).read_text(), re.MULTILINE)
        words = ["--device", self.device, "--recipe", recipe[1] if recipe else "short", "--no-timm"]
        words += ["--encodings", "none,learned,axial-rope,roll,multiplexed-roll,twisted-roll", "--profile"]
        words += ["--budget", f"{max(0.0, min(BENCH, self.left())):.0f}s"]
        words += ["--records", str(self.out / "benchmarks")]
        tiny = "--set size=nano --set depth=1 --set batch_size=8 --set compile=false --rounds 2".split()
        self.rollpe("bench", *words, *(tiny if self.rehearse else self.overrides()))
        self.tell("bench", self.wait("bench", min(2 * BENCH, self.left())))

    def tests(self) -> None:
        """The tests that only this machine can run."""
        words = ["-q", "-p", "no:cacheprovider", "--override-ini", "addopts="]
        self.start("tests", "-m", "pytest", *words, "tests/training/test_cuda.py")
        self.tell("tests", self.wait("tests", min(TESTS, self.left())))

    def tell(self, name: str, status: int | None) -> None:
        word = "not finished" if status is None else "FAILED" if status else "passed"
        self.say(f"{name}: {word}. {self.last_line(name)}")

    # ------------------------------------------------------------------------------------ what stays

    def records(self) -> list[Path]:
        """Records that the tree did not come with."""
        return [path for path in self.worth_keeping() if re.fullmatch(r"seed-\d+\.json", path.name)]

    def worth_keeping(self) -> Iterator[Path]:
        """What the tree did not come with."""
        for pattern in ("records/**/seed-*", "benchmarks/*", "done/*"):
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
            for path in [*found, self.out / "log.txt", *sorted((self.out / "logs").iterdir())]:
                with suppress(FileNotFoundError):  # the reason of a failure whose run succeeded
                    tar.add(path, path.relative_to(self.out))
        os.replace(temporary, self.out / "rented.tar.gz")


def end_left_over(out: Path) -> None:
    """End what an earlier command of this turn that was killed has left running."""
    mark = f"{TURN}={out}".encode()
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # of another user, or over meanwhile
            if mark in place.read_bytes().split(b"\0"):
                os.kill(int(place.parent.name), signal.SIGKILL)


# From outside


def background(out: Path, carried: Path, words: list[str]) -> None:
    """Start this command again so that it outlives the one that calls it, from a copy of the tree.

    The next load overwrites the tree, and processes would import half of it.
    """
    tree, finished = out / "tree", out / "finished"
    shutil.rmtree(tree, ignore_errors=True)
    finished.unlink(missing_ok=True)
    left_out = (".*", carried.name, out.name, "_build", "checkpoints", "node_modules", "*.tar.?z", "*.part*")
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*left_out))
    with (out / "background.txt").open("ab") as log:
        subprocess.Popen(
            [sys.executable, tree / "workflow" / Path(__file__).name, *words, "--carried", carried.resolve()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def fetch(out: Path, place: Path, wait: float) -> None:
    """Copy what there is to `place` at once and whenever it changes, until the turn or the seconds are over.

    Programs are large: those that an earlier call brought are left out. Prints the end of the log.
    """
    until, brought = time.monotonic() + wait, out / "brought"
    copied: dict[Path, float] = {}
    for folder in (place / "programs", brought):
        folder.mkdir(parents=True, exist_ok=True)
    while True:
        over = (out / "finished").exists() or time.monotonic() >= until
        new = [p for p in sorted((out / "programs").glob("*.bin.xz")) if not (brought / p.name).exists()]
        for path in [out / "rented.tar.gz", *new]:
            if path.exists() and copied.get(path) != (changed := path.stat().st_mtime):
                target = place / path.relative_to(out)
                shutil.copy(path, target.with_suffix(".half"))
                os.replace(target.with_suffix(".half"), target)
                copied[path] = changed
        if over:
            break
        time.sleep(1)
    for path in new:
        (brought / path.name).touch()
    log = out / "log.txt"
    print("\n".join(log.read_text().splitlines()[-25:]) if log.exists() else "nothing yet")
    print("finished" if (out / "finished").exists() else "still at work")


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("rented"), help="folder of all that is written")
    parser.add_argument("--minutes", type=float, default=24, help="until the last tar must be there")
    parser.add_argument("--plan", default="plans/table1-short.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the recipe")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=[], help="only these, done or not")
    parser.add_argument("--carried", type=Path, default=CARRIED, help="folder of the loads")
    parser.add_argument("--rehearse", action="store_true", help="on a processor, with tiny models")
    parser.add_argument("--background", action="store_true", help="return at once and work on")
    parser.add_argument("--fetch", type=Path, metavar="PLACE", help="copy what a turn has made so far")
    parser.add_argument("--wait", type=float, default=240, help="seconds that --fetch waits for the end")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    asked = arguments(words)
    try:
        if asked.fetch:
            fetch(asked.out, asked.fetch, asked.wait)
        elif asked.background:
            words.remove("--background")
            background(asked.out, asked.carried, words)
        else:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            turn, finished = Turn(asked), asked.out / "finished"
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
