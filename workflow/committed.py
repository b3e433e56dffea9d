"""Ask whether the data that the book reads are what was committed, and name every file that is not.

The build runs it before any chapter, tests/faults/test_committed_data.py with the tests. data/digests.txt
lists the sha256 of every committed record, benchmark and photograph, and of the labels; where git is,
a file that it tracks must be listed. ``python workflow/committed.py --list`` adds what git tracks. A listed
record or benchmark keeps its digest, the others get new ones. Files that are in no commit are counted and
stop nothing.

A record is also asked whether it was made by the sources of the commit that it names, clean; whether its
accuracy is that of its bits; whether its plan is still the one that it names and wants its seed, with all
seeds before it; and whether it is what git has: a record stays as it is. A run that never was, told
consistently and committed once, is not found by looking: only training it again finds it.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rollpe.errors import InputError
from rollpe_lab.files import write_atomically
from rollpe_lab.records import Record, read_record, record_path
from rollpe_lab.sources import files_below
from rollpe_lab.training import load_plan
from rollpe_lab.training.data import read_test_labels

ROOT = Path(__file__).resolve().parents[1]
RECORDS, LIST = "data/records", "data/digests.txt"
STAY = (f"{RECORDS}/", "data/benchmarks/")
"""What is never made anew."""
READ = (*STAY, "data/labels", "data/photo")
FIRST = "b9b99c593ebdd452b6c9b71a1444b0b1de62eb37"
"""The first commit: a repository without it has another history than the one that records name."""
TEXT_LATER = "981769819ce82068fe1fa79e59d04ae3a86b287ed62b496ae1ad7b6b9abf990f"
EARLIER = {
    "6e9de0a68a82b81b7f6a57bee2a833f141a33b8cf66662d09b9b8666fb3f8d03": TEXT_LATER,
    "d0a976e6721bc35d131974cabde7b04fb3defbf8d769d0677485777a9d117239": TEXT_LATER,
}
"""Plans that were changed after runs that name them: their sha256, and that of the file as it is. In
text-later.yaml encodings were added, and the first line counts the questions."""
LABELS = {
    "cifar100": "d88226d8861c2caab730e0f3ecf5566b4769ead1318366494d51e7c41064b99d",
    "digits": "08b15e280da2f918a4b842e1218c717e3ca9b42aa24436a26a29487fb33c33d6",
    "offset": "9c990431358d70eab7a0db849362754b8d5b1c143905885a4ed77fbd3b762340",
    "place": "54221e4fa480c2b216667e50b3f6755c622e540702a10f4e264b3d3df99d07d0",
    "points": "a5c31a0ab9c68a0d4a87cc2f2b9e8e91b27b72bdfd83d7ebde4b8f87aaadedad",
    "points-rounded": "a5c31a0ab9c68a0d4a87cc2f2b9e8e91b27b72bdfd83d7ebde4b8f87aaadedad",
}
"""sha256 of the test images' labels and of the names of their classes."""


# ----------------------------------------------------------------------------------------------- git


class History(NamedTuple):
    """git's hashes of all that was ever committed of a record, its arrays or a benchmark, by its path."""

    root: Path
    versions: Mapping[str, set[str]]


def read_history(root: Path = ROOT) -> History | None:
    """What git knows of the records; None in a copy without git or without its beginning."""
    log = _git(root, "log", *"-m --raw -z --no-renames --abbrev=40 --format=".split(), "--", *STAY)
    if log is None or _git(root, "merge-base", "--is-ancestor", FIRST, "HEAD") is None:
        return None
    versions = defaultdict(set)
    fields = iter(log.decode().split("\0"))
    for field in fields:  # ":<mode> <mode> <hash before> <hash after> <kind>", and then the path
        if field.startswith(":") and (path := Path(next(fields))).suffix in (".json", ".npz"):
            after = field.split()[3]
            if int(after, 16):  # zeros where the file was deleted
                versions[path.as_posix()].add(after)
    return History(root, dict(versions))


def read_tracked(root: Path = ROOT) -> set[str]:
    """What the book reads and git tracks, or is about to; nothing in a copy without git."""
    names = (_git(root, "ls-files", "-z", "--", *READ) or b"").decode().split("\0")
    return {name for name in names if name and not name.endswith(".failed")}


@cache
def source_hash(root: Path, commit: str) -> str | None:
    """What `rollpe_lab.sources.source_hash` says in a checkout of the commit; None without such a commit."""
    archive = _git(root, "archive", f"{commit}:src")
    if archive is None:
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
    files = {name: content for name, content in files.items() if name.startswith(("rollpe/", "rollpe_lab/"))}
    if not any(name.startswith("rollpe_lab/") for name in files):  # one package, seen from inside
        files = {name.removeprefix("rollpe/"): content for name, content in files.items()}
    digest = hashlib.sha256()
    for name in sorted(files):
        if Path(name).suffix in (".py", ".yaml"):
            digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return digest.hexdigest()


def _git(root: Path, *words: str) -> bytes | None:
    """What git prints; None if it refuses, or is not there."""
    try:
        return subprocess.run(["git", "-C", root, *words], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def blob(content: bytes) -> str:
    """git's hash of a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


# ---------------------------------------------------------------------------------------------- list


def read_list(root: Path = ROOT) -> dict[str, str]:
    """The sha256 of every committed file by its path."""
    lines = (root / LIST).read_text(encoding="utf8").splitlines() if (root / LIST).is_file() else []
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def write_list(root: Path = ROOT) -> None:
    """List what git tracks; a listed record or benchmark keeps its digest."""
    stay = {name: digest for name, digest in read_list(root).items() if name.startswith(STAY)}
    now = {name: sha256(root / name) for name in read_tracked(root) if (root / name).is_file()}
    lines = (f"{digest}  {name}\n" for name, digest in sorted((now | stay).items()))
    write_atomically(root / LIST, "".join(lines).encode())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _differing(root: Path, listed: Mapping[str, str], tracked: Iterable[str]) -> Iterator[str]:
    if not listed:
        yield f"{LIST}: missing or empty"
    for name in sorted(set(tracked) - listed.keys()):
        yield f"{name}: is committed and not in {LIST}; run: python workflow/committed.py --list"
    for name, digest in listed.items():
        if not (root / name).is_file():
            yield f"{name}: is in {LIST} and gone"
        elif sha256(root / name) != digest:
            anew = "restore it" if name.startswith(STAY) else "restore it, or list it if it was made anew"
            yield f"{name}: is not what {LIST} has; {anew}"


# ------------------------------------------------------------------------------------------- records


@cache
def planned(root: Path = ROOT) -> dict[str, list[str]]:
    """The seeds that the plans want of each arm: "<recipe>/<encoding>" → paths of cells."""
    arms: dict[str, list[str]] = defaultdict(list)
    for plan in sorted((root / "plans").glob("*.yaml")):
        for wanted in load_plan(plan):
            path = wanted.run_id.path
            if str(path) not in arms[str(path.parent)]:
                arms[str(path.parent)].append(str(path))
    return arms


def refuse(
    root: Path, history: History | None, tracked: Iterable[str], plans: Mapping[str, list[str]]
) -> Iterator[str]:
    """Why the book may not read its data: one line for every fault, none if there is none.

    Without a history a file is compared with the list, and a record with itself and the plans.
    """
    listed = read_list(root)
    yield from _differing(root, listed, tracked)
    known = sorted(name for name in {*listed, *tracked} if name.startswith(STAY) and (root / name).is_file())
    named = defaultdict(set)
    for name in known:
        if not name.startswith(RECORDS) or not name.endswith(".json"):
            continue
        try:
            record = read_record(root / name)
        except InputError as error:
            yield str(error)
            continue
        if record_path(RECORDS, record) != Path(name):
            yield f"{name}: holds the run of {record.run_id.path}"
        named[record.provenance.plan].add(name)
        yield from (f"{name}: {fault}" for fault in _faults(record, root / name, history))
    yield from _replanned(root, named)
    yield from _unplanned(root, known, plans)
    yield from _moved(known, history, root) if history else ()
    yield from _labels(root / "data")


def _faults(record: Record, path: Path, history: History | None) -> Iterator[str]:
    source = record.provenance
    if source.dirty is not False:
        yield "made by sources with changes that no commit has"
    arrays, named = path.with_suffix(".npz"), record.arrays_sha256
    if named and (not arrays.exists() or sha256(arrays) != named):
        yield "the arrays beside it are not those of its run"
    if history is None:
        return
    expected = source_hash(history.root, source.commit)
    if expected is None:
        yield f"made by commit {source.commit[:10]}, which is not here"
    elif source.source_hash != expected:
        yield f"its sources are not those of commit {source.commit[:10]}"


def _replanned(root: Path, named: Mapping[str | None, set[str]]) -> Iterator[str]:
    """Plans that are no longer what records name; those of older records name none."""
    for origin, names in named.items():
        plan, _, digest = (origin or "").rpartition(" ")
        path = root / "plans" / plan
        if plan and (not path.is_file() or sha256(path) != EARLIER.get(digest, digest)):
            yield f"plans/{plan}: is not the plan that {len(names)} records name, such as {min(names)}"


def _unplanned(root: Path, known: Iterable[str], plans: Mapping[str, list[str]]) -> Iterator[str]:
    """Seeds that no plan wants, and seeds that are missing though a later one of their arm was run."""
    arms = defaultdict(set)
    for path in (Path(name).relative_to(RECORDS) for name in known if name.startswith(RECORDS)):
        arms[path.parent].add(path.with_suffix("").as_posix())
    for arm, there in sorted(arms.items()):
        failed = (root / RECORDS / arm).glob("seed-*.failed")
        there |= {path.with_suffix("").relative_to(root / RECORDS).as_posix() for path in failed}
        wanted = sorted(plans.get(arm.as_posix(), []), key=lambda cell: int(cell.rpartition("-")[2]))
        yield from (f"{cell}: no plan wants it" for cell in sorted(there - set(wanted)))
        run = [cell in there for cell in wanted]
        last = max((i for i, done in enumerate(run) if done), default=-1)
        yield from (f"{wanted[i]}: missing, and a later seed is there" for i in range(last) if not run[i])


def _moved(known: Iterable[str], history: History, root: Path) -> Iterator[str]:
    """Files that are gone, that are not what was committed, and arrays that belong to another run."""
    owners: dict[str, set[str]] = defaultdict(set)
    for name, versions in history.versions.items():
        for version in versions:
            owners[version].add(name)
    gone = sorted(name for name in history.versions if not (root / name).is_file())
    yield from (f"{name}: was committed and is gone" for name in gone)
    for name in known:
        version = blob((root / name).read_bytes())
        versions = history.versions.get(name, set())
        if versions and version not in versions:
            yield f"{name}: is not what was committed"
        elif name.startswith(RECORDS) and name.endswith(".json") and len(versions) > 1:
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
    if sys.argv[1:] == ["--list"]:
        return write_list()
    history, tracked = read_history(), read_tracked()
    if history is None:
        print("git knows no history here: commits and committed versions are not compared", file=sys.stderr)
    there = (path.relative_to(ROOT).as_posix() for path in files_below(ROOT / name for name in READ))
    new = sorted(name for name in {*there} - {*read_list(), *tracked} if not name.endswith(".failed"))
    if new:
        print(f"{len(new)} files are in no commit and not compared, such as {new[0]}", file=sys.stderr)
    reasons = list(refuse(ROOT, history, tracked, planned()))
    print("\n".join(reasons) or "the data are what was committed")
    sys.exit(1 if reasons else 0)


if __name__ == "__main__":
    main()
