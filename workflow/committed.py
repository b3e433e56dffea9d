"""Ask whether data/records and the labels beside it are what was committed, and name every file that is not.

Run by hand as ``python workflow/committed.py``, and by tests/faults/test_committed_data.py. A record is asked
whether it was made by the sources of the commit that it names, clean; whether its accuracy is that of its
bits; whether a plan wants its seed, with all seeds before it; and whether it and its arrays are what was
committed: a record stays as it is. A run that never was, told consistently and committed once, is not found
by looking: only training it again finds it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rollpe.errors import InputError
from rollpe.records import Record, read_record, record_path
from rollpe.training import load_plan
from rollpe.training.data import read_test_labels

ROOT = Path(__file__).resolve().parents[1]
RECORDS = "data/records"
LABELS = {
    "cifar100": "d88226d8861c2caab730e0f3ecf5566b4769ead1318366494d51e7c41064b99d",
    "digits": "08b15e280da2f918a4b842e1218c717e3ca9b42aa24436a26a29487fb33c33d6",
    "offset": "9c990431358d70eab7a0db849362754b8d5b1c143905885a4ed77fbd3b762340",
    "place": "54221e4fa480c2b216667e50b3f6755c622e540702a10f4e264b3d3df99d07d0",
}
"""sha256 of the test images' labels and of the names of their classes."""


# ----------------------------------------------------------------------------------------------- git


class History(NamedTuple):
    """git's hashes of all that was ever committed of a record or its arrays, by its path below RECORDS."""

    root: Path
    versions: Mapping[str, set[str]]


def read_history(root: Path = ROOT) -> History | None:
    """What git knows of the records; None in a copy without git, and in a shallow clone."""
    try:
        if _git(root, "rev-parse", "--is-shallow-repository").strip() != b"false":
            return None
        log = _git(root, "log", *"-m --raw -z --no-renames --abbrev=40 --format=".split(), "--", RECORDS)
    except (OSError, subprocess.CalledProcessError):
        return None
    versions = defaultdict(set)
    fields = iter(log.decode().split("\0"))
    for field in fields:  # ":<mode> <mode> <hash before> <hash after> <kind>", and then the path
        if field.startswith(":") and (path := Path(next(fields))).suffix in (".json", ".npz"):
            after = field.split()[3]
            if int(after, 16):  # zeros where the file was deleted
                versions[path.relative_to(RECORDS).as_posix()].add(after)
    return History(root, dict(versions))


@cache
def source_hash(root: Path, commit: str) -> str | None:
    """What `rollpe.sources.source_hash` says in a checkout of the commit; None without such a commit."""
    try:
        listed = _git(root, "ls-tree", "-r", "-z", f"{commit}:src/rollpe").decode().split("\0")[:-1]
    except subprocess.CalledProcessError:
        return None
    blobs = {name: about.split()[2] for about, name in (line.split("\t") for line in listed)}
    names = sorted(name for name in blobs if Path(name).suffix in (".py", ".yaml"))
    asked = "".join(f"{blobs[name]}\n" for name in names)
    answer = _git(root, "cat-file", "--batch", given=asked.encode())
    digest = hashlib.sha256()
    for name in names:
        about, _, answer = answer.partition(b"\n")
        size = int(about.split()[2])
        digest.update(f"{name}\0{size}\0".encode() + answer[:size])
        answer = answer[size + 1 :]
    return digest.hexdigest()


def _git(root: Path, *words: str, given: bytes | None = None) -> bytes:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout


def blob(content: bytes) -> str:
    """git's hash of a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


# ------------------------------------------------------------------------------------------- records


@cache
def planned(root: Path = ROOT) -> dict[str, list[str]]:
    """The seeds that the plans want of each arm, in their order: "<recipe>/<encoding>" → paths of cells."""
    arms: dict[str, list[str]] = defaultdict(list)
    for plan in sorted((root / "plans").glob("*.yaml")):
        for wanted in load_plan(plan):
            path = wanted.cell.path
            if str(path) not in arms[str(path.parent)]:
                arms[str(path.parent)].append(str(path))
    return arms


def refuse(
    folder: Path, history: History | None, plans: Mapping[str, list[str]], data: Path
) -> Iterator[str]:
    """Why records may not be read: one line for every fault, none if there is none.

    folder: the records. data: the folder that holds labels/. Without a history only what a record says of
    itself is looked at, its place in the plans, and the labels.
    """
    for path in sorted(folder.glob("*/*/seed-*.json")):
        name = path.relative_to(folder).as_posix()
        try:
            record = read_record(path)
        except InputError as error:
            yield str(error)
            continue
        if record_path(folder, record) != path:
            yield f"{name}: holds the run of {record.cell.path}"
        yield from (f"{name}: {fault}" for fault in _faults(record, path, history))
    yield from _unplanned(folder, plans)
    yield from _moved(folder, history) if history else ()
    yield from _labels(data)


def _faults(record: Record, path: Path, history: History | None) -> Iterator[str]:
    source = record.provenance
    if source.dirty is not False:
        yield "made by sources with changes that no commit has"
    arrays, named = path.with_suffix(".npz"), record.arrays_sha256
    if named and (not arrays.exists() or hashlib.sha256(arrays.read_bytes()).hexdigest() != named):
        yield "the arrays beside it are not those of its run"
    if history is None:
        return
    expected = source_hash(history.root, source.commit)
    if expected is None:
        yield f"made by commit {source.commit[:10]}, which is not here"
    elif source.source_hash != expected:
        yield f"its sources are not those of commit {source.commit[:10]}"


def _unplanned(folder: Path, plans: Mapping[str, list[str]]) -> Iterator[str]:
    """Seeds that no plan wants, and seeds that are missing though a later one of their arm was run."""
    for arm in sorted({path.parent for path in folder.glob("*/*/seed-*.json")}):
        wanted = plans.get(arm.relative_to(folder).as_posix(), [])
        there = {path.with_suffix("").relative_to(folder).as_posix() for path in arm.glob("seed-*.*")}
        yield from (f"{cell}: no plan wants it" for cell in sorted(there - set(wanted)))
        run = [cell in there for cell in wanted]
        last = max((i for i, done in enumerate(run) if done), default=-1)
        yield from (f"{wanted[i]}: missing, and a later seed is there" for i in range(last) if not run[i])


def _moved(folder: Path, history: History) -> Iterator[str]:
    """Files that are gone, that are not what was committed, and arrays that belong to another run."""
    owners: dict[str, set[str]] = defaultdict(set)
    for name, versions in history.versions.items():
        for version in versions:
            owners[version].add(name)
    files = (path for path in folder.glob("*/*/seed-*.*") if path.suffix in (".json", ".npz"))
    there = {path.relative_to(folder).as_posix(): path for path in files}
    gone = sorted(history.versions.keys() - there.keys())
    yield from (f"{name}: was committed and is gone" for name in gone)
    for name, path in sorted(there.items()):
        version = blob(path.read_bytes())
        versions = history.versions.get(name, set())
        if versions and version not in versions:
            yield f"{name}: is not what was committed"
        elif path.suffix == ".json" and len(versions) > 1:
            yield f"{name}: was committed more than once, and a record stays as it is"
        yield from (f"{name}: is a copy of {other}" for other in sorted(owners[version] - {name}))


def _labels(data: Path) -> Iterator[str]:
    for name, expected in LABELS.items():
        try:
            labels, classes = read_test_labels(name, data)
        except InputError as error:
            yield str(error)
            continue
        if hashlib.sha256(labels.tobytes() + "\n".join(classes).encode()).hexdigest() != expected:
            yield f"{name}: the labels of its test images are not the published ones"


def main() -> None:
    history = read_history()
    if history is None:
        print("git knows no history here: commits and committed versions are not compared", file=sys.stderr)
    reasons = list(refuse(ROOT / RECORDS, history, planned(), ROOT / "data"))
    print("\n".join(reasons) or "every committed record is what its run left")
    sys.exit(1 if reasons else 0)


if __name__ == "__main__":
    main()
