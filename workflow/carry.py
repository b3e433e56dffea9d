"""What a machine without a network needs to be given: packed at home, received there.

At home, with a clean tree, a network and the archive of CIFAR-100 in data/::

    python workflow/carry.py

It writes loads, carried/0, carried/1, ..., each of which fits into `TRAVELS` beside the tree: wheels, the
commit, what earlier turns compiled, and the archive in pieces. Standard library only: the other half, which
rented.py uses, runs before anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARRIED = ROOT / "carried"
WHEELS = ("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions", "timm")
WHEELS += ("pooch", "platformdirs")
"""What a machine with torch, torchvision and the usual packages was found to lack, or to have too old."""

PROGRAMS = ROOT / "data" / "programs"
"""What earlier turns compiled, put here by hand: the next one on such a machine starts with it."""

PLAN = ROOT / "plans" / "table1-short.yaml"
"""What is trained there; programs are carried in its order."""

TRAVELS = 60 << 20
"""Bytes that go along with one command, the tree and a load; services allow 64 MiB or more."""

LEAST = 1 << 20
"""Bytes of the archive in the first load, at least."""


class Stop(Exception):
    """One line on why it cannot go on."""


# At home


def pack(carried: Path, load: int, python: str) -> None:
    """Write loads of so many bytes: wheels, the commit, earlier programs, and the archive in pieces."""
    if output("git", "status", "--porcelain"):
        raise Stop("the tree has changes that no commit holds: commit them, so that records can name theirs.")
    names = ("cifar-100-python.tar.xz", "cifar-100-python.tar.gz")  # no download that is under way
    archive = next((ROOT / "data" / name for name in names if (ROOT / "data" / name).exists()), None)
    if archive is None:
        raise Stop(f"data/{names[1]} is missing: rollpe data fetch cifar100 brings it.")
    shutil.rmtree(carried, ignore_errors=True)
    first = carried / "0"
    first.mkdir(parents=True)
    tags = ["manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux1"]
    platforms = [word for tag in tags for word in ("--platform", f"{tag}_x86_64")]
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    words += ["--implementation", "cp", "--python-version", python, *platforms]
    subprocess.run([*words, "-d", str(first / "wheels"), *locked()], check=True)
    commit = output("git", "rev-parse", "HEAD")
    source = output(sys.executable, "-c", "from rollpe_lab.sources import source_hash; print(source_hash())")
    (first / "source").write_text(f"{commit} {source}")
    room = load - sum(path.stat().st_size for path in first.rglob("*") if path.is_file())
    room = carry_programs(PROGRAMS, first / "programs", room, PLAN.read_text())
    loads = cut(archive, carried, load, room)
    print(f"{loads} loads in {carried}, of commit {commit[:10]}")


def beside_the_tree() -> int:
    """Bytes of a load that travels with the tree, of which a sparse checkout leaves files at home."""
    names = output("git", "ls-files", "-z", "--full-name", ":/").split("\0")
    files = (ROOT / name for name in names if name)
    tree = sum(file.stat().st_size for file in files if file.is_file())
    if TRAVELS - tree < 10 * LEAST:
        raise Stop(
            f"the tree has {tree >> 20} MiB, which leaves no room: see --load, or leave files at home."
        )
    return TRAVELS - tree


def carry_programs(programs: Path, place: Path, room: int, plan: str) -> int:
    """Copy compiled programs in the order of a plan, as far as there is room; the bytes that are left."""
    order = re.findall(r"[\w-]+", "".join(re.findall(r"encodings: (\[.*?\])", plan)))
    files = [file for file in programs.glob("*.bin.xz") if file.name.rpartition("-")[0] in order]
    place.mkdir()
    for file in sorted(files, key=lambda file: order.index(file.name.rpartition("-")[0])):
        if (size := file.stat().st_size) <= room - LEAST:
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


def locked() -> list[str]:
    """The wheels that are carried, each with the version of the lock."""
    pattern = rf"^(?:{'|'.join(WHEELS)})==\S+"
    return re.findall(pattern, (ROOT / "requirements.lock").read_text(), re.MULTILINE)


def output(*words: str) -> str:
    """What a command prints in the folder of the packages."""
    return subprocess.check_output(words, cwd=ROOT / "src", text=True).strip()


# There


def first_missing(carried: Path) -> Path | None:
    """The first piece that is not there whole, or the list of pieces; None if all are."""
    listed = carried / "0" / "pieces.json"
    if not listed.exists():
        return listed
    for i, piece in enumerate(json.loads(listed.read_text())):
        path = carried / str(i) / "piece"
        if not path.exists() or path.stat().st_size < piece["bytes"]:
            return path
    return None


def unpack(carried: Path, place: Path) -> None:
    """The archive that the pieces are, checked; by Python alone, since the machine may have no xz."""
    whole = place.with_name(f"{place.name}.tar")
    with whole.open("wb") as file:
        for i, piece in enumerate(json.loads((carried / "0" / "pieces.json").read_text())):
            content = (carried / str(i) / "piece").read_bytes()
            if hashlib.sha256(content).hexdigest() != piece["sha256"]:
                raise Stop(f"{carried / str(i) / 'piece'} is damaged: carry it again.")
            file.write(content)
    with tarfile.open(whole) as tar:
        tar.extractall(place, filter="data")
    whole.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--carried", type=Path, default=CARRIED, help="folder of the loads")
    parser.add_argument("--load", type=int, help="MiB of each load; by default what fits beside the tree")
    parser.add_argument("--python", default="3.12", help="version of Python there")
    arguments = parser.parse_args()
    try:
        load = arguments.load << 20 if arguments.load else beside_the_tree()
        pack(arguments.carried, load, arguments.python)
    except Stop as reason:
        sys.exit(f"carry: {reason}")
