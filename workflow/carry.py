"""What a machine without a network needs to be given: packed at home, received there.

At home, with a clean tree, a network and the archive of CIFAR-100 in data/::

    python workflow/carry.py

It writes loads of a size that can be set, carried/0, carried/1, ...: wheels, the commit, what earlier turns
compiled, and the archive in pieces. Standard library only: the other half, which rented.py uses, runs before
anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARRIED = ROOT / "carried"
WHEELS = ("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions", "timm")
"""What a machine with torch, torchvision and the usual packages was found to lack, or to have too old."""

PROGRAMS = ROOT / "data" / "programs"
"""What earlier turns compiled, put here by hand: the next one on such a machine starts with it."""

PLAN = ROOT / "plans" / "table1-short.yaml"
"""What is trained there; programs are carried in its order."""

LEAST = 1 << 20
"""Bytes of the archive in the first load, at least."""

ARRIVING = 15  # seconds after its last change in which a piece may still be on its way


class Stop(Exception):
    """One line on why it cannot go on."""


# At home


def pack(carried: Path, load: int, python: str) -> None:
    """Write loads of so many bytes: wheels, the commit, earlier programs, and the archive in pieces."""
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout.strip():
        raise Stop("the tree has changes that no commit holds: commit them, so that records can name theirs.")
    names = ("cifar-100-python.tar.xz", "cifar-100-python.tar.gz")  # no download that is under way
    archive = next((ROOT / "data" / name for name in names if (ROOT / "data" / name).exists()), None)
    if archive is None:
        raise Stop(f"data/{names[1]} is missing: rollpe data fetch cifar100 brings it.")
    shutil.rmtree(carried, ignore_errors=True)
    first = carried / "0"
    first.mkdir(parents=True)
    wheels = [f"{name}=={_locked(name)}" for name in WHEELS]
    tags = ["manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux1"]
    platforms = [word for tag in tags for word in ("--platform", f"{tag}_x86_64")]
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    words += ["--implementation", "cp", "--python-version", python, *platforms]
    subprocess.run([*words, "-d", str(first / "wheels"), *wheels], check=True)
    commit = _output(["git", "rev-parse", "HEAD"])
    source = _output(
        [sys.executable, "-c", "from rollpe_lab.sources import source_hash; print(source_hash())"]
    )
    (first / "source").write_text(f"{commit} {source}")
    room = load - sum(path.stat().st_size for path in first.rglob("*") if path.is_file())
    room = carry_programs(PROGRAMS, first / "programs", room, PLAN.read_text())
    loads = cut(archive, carried, load, room)
    print(f"{loads} loads in {carried}, of commit {commit[:10]}")


def carry_programs(programs: Path, place: Path, room: int, plan: str) -> int:
    """Copy compiled programs in the order of a plan, as far as there is room; the bytes that are left."""
    order = re.findall(r"[\w-]+", "".join(re.findall(r"encodings: (\[.*?\])", plan)))
    names = {file: file.name.rpartition("-")[0] for file in programs.glob("*.bin.xz")}
    for file in (file for name in dict.fromkeys(order) for file in names if names[file] == name):
        if (size := file.stat().st_size) <= room - LEAST:
            place.mkdir(exist_ok=True)
            shutil.copy2(file, place)
            room -= size
    return room


def cut(archive: Path, carried: Path, piece: int, first: int) -> int:
    """Cut an archive into pieces, carried/<i>/piece, and list them in carried/0/pieces.json; how many."""
    listed: list[dict] = []
    with archive.open("rb") as file:
        while content := file.read(piece if listed else first):
            place = carried / str(len(listed)) / "piece"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            listed.append({"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    (carried / "0" / "pieces.json").write_text(json.dumps(listed))
    return len(listed)


def _locked(name: str) -> str:
    found = re.search(rf"^{name}==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert found, name
    return found[1]


def _output(words: list[str]) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


# There


def satisfied(wheel: str) -> bool:
    """Whether the package of a wheel is here in its version or a later one."""
    name, version = wheel.split("-")[:2]
    try:
        here = metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    numbers = [[int(n) for n in re.findall(r"\d+", v)] for v in (here, version)]
    if name.startswith("pydantic"):  # the two halves must be of one release
        return here == version
    return numbers[0] >= numbers[1]


def first_missing(carried: Path) -> Path | None:
    """The first piece that is not there whole, or the list of pieces; None if all are."""
    listed = carried / "0" / "pieces.json"
    if not listed.exists():
        return listed
    for i, piece in enumerate(json.loads(listed.read_text())):
        path = carried / str(i) / "piece"
        if not path.exists() or path.stat().st_size < piece["bytes"]:
            return path
        if path.with_name("checked").exists():
            continue
        if hashlib.sha256(path.read_bytes()).hexdigest() != piece["sha256"]:
            if time.time() - path.stat().st_mtime > ARRIVING:
                raise Stop(f"{path} is damaged: carry it again.")
            return path
        path.with_name("checked").touch()
    return None


class Joined(io.RawIOBase):
    """Files read one after another as if they were one."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = iter(paths)
        self.file: io.BufferedReader | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while True:
            count = self.file.readinto(buffer) if self.file else 0
            if count:
                return count
            if self.file:
                self.file.close()
            path = next(self.paths, None)
            if path is None:
                return 0
            self.file = path.open("rb")


def unpack(carried: Path, place: Path) -> None:
    """The archive that the pieces are, by Python alone, since the machine may have no xz."""
    count = len(json.loads((carried / "0" / "pieces.json").read_text()))
    joined = io.BufferedReader(Joined([carried / str(i) / "piece" for i in range(count)]), 1 << 20)
    half = place.with_name(place.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    with tarfile.open(fileobj=joined, mode="r|*") as tar:
        tar.extractall(half, filter="data")
    shutil.rmtree(place, ignore_errors=True)
    os.replace(half, place)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--carried", type=Path, default=CARRIED, help="folder of the loads")
    parser.add_argument("--load", type=int, default=46, help="MiB of each load")
    parser.add_argument("--python", default="3.12", help="version of Python there")
    arguments = parser.parse_args()
    try:
        pack(arguments.carried, arguments.load << 20, arguments.python)
    except Stop as reason:
        sys.exit(f"carry: {reason}")
