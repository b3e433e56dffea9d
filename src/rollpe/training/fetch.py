"""Downloading the files of a data set and checking them.

Here: the download, its md5, the extraction of the expected members. Not here: reading the files (data.py).
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import os.path
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Full, Queue
from typing import Any, Literal

from filelock import FileLock, Timeout
from tqdm import tqdm

from rollpe.errors import InputError
from rollpe.files import ensure_writable
from rollpe.training import text

logger = logging.getLogger(__name__)

DATASETS = ("digits", "place", "offset", "cifar100", *text.TEXTS)

ARCHIVE_BYTES = 169_001_437  # of CIFAR-100's archive; torchvision has only its md5
ATTEMPTS = 5
TIMEOUT = 30.0  # seconds without a byte
PATIENCE = 2 * 3600.0  # seconds for one download, at least 24 kB a second
CHUNK = 1 << 18


@dataclass(frozen=True)
class FileCheck:
    """State of one file on disk, and the command that repairs it ("" if it is intact)."""

    path: Path
    state: Literal["ok", "missing", "damaged"]
    repair: str


def fetch(name: str, root: str | Path = "data", progress: bool = True) -> list[FileCheck]:
    """Download the files of a data set to `root` and return their checks, all "ok".

    Does nothing if they are intact. Otherwise downloads the archive, resuming a partial download, or takes an
    archive placed in `root` by hand; checks its md5; extracts only the expected members; and checks each of
    those before it gets its name. Nothing is unpickled. Without files, as for "digits", the list is empty;
    texts are installed packages and only checked.

    Of two processes that fetch at once, one waits for the other.

    Raises InputError if `root` cannot be made, if the server cannot be reached, sends more bytes than the
    archive has or takes longer than `PATIENCE`, if the archive is not the published one, and if the installed
    package of a text is not.
    """
    expect_known(name)
    root = Path(root)
    if not root.is_dir():
        ensure_writable(root)
    if name in text.TEXTS:
        text.read_text(name)
    checks = verify(name, root)
    if all(check.state == "ok" for check in checks):
        return checks
    source = cifar100_source()
    archive = root / source.archive
    try:
        with _alone(root / f".{source.archive}.lock"):
            if all(check.state == "ok" for check in verify(name, root)):
                return verify(name, root)
            if not os.path.lexists(archive):
                _download(source, archive, progress)
            elif not archive.is_file() or _md5(archive) != source.md5:
                raise InputError(
                    f"{archive} is damaged (its md5 is not {source.md5}): "
                    f"delete it and run `rollpe data fetch {name}` again"
                )
            _extract(source, archive, root)
    except OSError as error:
        raise InputError(
            f"cannot write to {root} ({error.strerror or error}): "
            f"make room or choose another folder and run `rollpe data fetch {name}` again"
        ) from error
    return verify(name, root)


def verify(name: str, root: str | Path = "data") -> list[FileCheck]:
    """Compare the md5 of every file of a data set with the published one; opens nothing else.

    The list is empty for "digits", which come with scikit-learn, and for "place" and "offset", made of them.
    A text has one entry: the installed package, by the sha256 of the text taken from it.
    """
    expect_known(name)
    if name in text.TEXTS:
        return [_verify_text(name)]
    if name != "cifar100":
        return []
    source = cifar100_source()
    checks = []
    for file in source.files:
        path = Path(root) / source.folder / file
        state: Literal["ok", "missing", "damaged"] = "ok"
        if not path.is_file():
            state = "missing"
        elif _md5(path) != source.files[file]:
            state = "damaged"
        checks.append(FileCheck(path, state, "" if state == "ok" else f"rollpe data fetch {name}"))
    return checks


def _verify_text(name: str) -> FileCheck:
    try:
        text.read_text(name)
    except InputError:
        return FileCheck(text.folder(name), "damaged", text.TEXTS[name].repair)
    return FileCheck(text.folder(name), "ok", "")


def expect_known(name: str) -> None:
    if name not in DATASETS:
        raise InputError(f"data set {name!r} is unknown: choose one of {', '.join(DATASETS)}")


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold this lock, which ends with its process, after waiting for any other holder."""
    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout:
        logger.warning("another process is fetching: waiting for it")
        held.acquire(timeout=-1)
    try:
        yield
    finally:
        held.release()


@dataclass(frozen=True)
class _Source:
    """The address of a data set's archive, and the md5 of each file."""

    url: str
    archive: str
    size: int
    md5: str
    folder: str
    files: dict[str, str]


def cifar100_source() -> _Source:
    # Here, since torchvision takes a second to load and the digits need none of it.
    from torchvision.datasets import CIFAR100  # noqa: PLC0415

    files = dict([*CIFAR100.train_list, *CIFAR100.test_list])
    files[CIFAR100.meta["filename"]] = CIFAR100.meta["md5"]
    return _Source(
        url=CIFAR100.url,
        archive=CIFAR100.filename,
        size=ARCHIVE_BYTES,
        md5=CIFAR100.tgz_md5,
        folder=CIFAR100.base_folder,
        files=files,
    )


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, new_md5).hexdigest()


def new_md5(data: bytes = b"") -> Any:
    # The publisher's checksum against damage, which FIPS allows.
    return hashlib.md5(data, usedforsecurity=False)


def _download(source: _Source, archive: Path, progress: bool) -> None:
    """Download to `<archive>.part`, resuming a partial one, and rename it if the md5 is right."""
    part = archive.with_name(archive.name + ".part")
    if os.path.lexists(part) and not part.is_file():
        raise InputError(f"{part} is not a file: delete it and run the command again")
    reason, deadline = "", time.monotonic() + PATIENCE
    for _ in range(ATTEMPTS):
        before = _size(part)
        reason = "" if before >= source.size else _receive(source, part, progress, deadline)
        if _size(part) >= source.size:
            if _size(part) == source.size and _md5(part) == source.md5:
                part.replace(archive)
                return
            part.unlink()
            reason = f"what it sends does not have the md5 {source.md5}"
            if not before:
                break  # a complete download was wrong: another would be, too
        elif time.monotonic() > deadline:
            reason = f"after {PATIENCE / 60:.0f} minutes {_size(part):,} of {source.size:,} bytes are here"
            break
        elif _size(part) <= before:
            break  # no progress: waiting longer is the user's decision
    raise InputError(
        f"cannot reach {source.url} ({reason}): check the network, "
        f"or place {source.archive} in {archive.parent}/ and run the command again"
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _receive(source: _Source, part: Path, progress: bool, deadline: float) -> str:
    """Append the missing bytes to `part`; returns "" if it is complete, otherwise the reason."""
    start = _size(part)
    pieces = _answer(source.url, start, deadline)
    try:
        status, length = next(pieces)
        if start and status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()  # it is no prefix of the server's file
            return _receive(source, part, progress, deadline)
        if status not in (http.client.OK, http.client.PARTIAL_CONTENT):
            return f"HTTP status {status}"
        if status == http.client.OK:
            start = 0  # the server sends everything from the beginning
        if length is not None and start + length != source.size:
            return f"it offers {start + length:,} bytes and the archive has {source.size:,}"
        with (
            part.open("ab" if start else "wb") as file,
            tqdm(
                total=source.size,
                initial=start,
                desc=part.stem,
                unit="B",
                unit_scale=True,
                disable=not progress,
            ) as bar,
        ):
            while (lacking := source.size - file.tell()) > 0:
                chunk = next(pieces)[:lacking]
                if not chunk:
                    return f"the connection closed after {file.tell():,} of {source.size:,} bytes"
                file.write(chunk)
                bar.update(len(chunk))
    except _Broken as error:
        return str(error)
    finally:
        pieces.close()
    return ""


class _Broken(Exception):
    """A connection failed before the end; the message is one line."""


def _answer(url: str, start: int, deadline: float) -> Generator[Any, None, None]:
    """Yield status and length (None if unknown) of an address from a byte on; then pieces, b"" at the end.

    A thread reads, so that a server that sends one byte of a header now and then cannot block forever.
    """
    pieces: Queue[Any] = Queue(maxsize=8)
    stop = threading.Event()

    def put(piece: Any) -> None:
        while not stop.is_set():
            with suppress(Full):
                return pieces.put(piece, timeout=1)

    def read() -> None:
        request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                put((response.status, response.length))
                while not stop.is_set() and (piece := response.read1(CHUNK)):
                    put(piece)
            put(b"")
        except urllib.error.HTTPError as error:
            error.close()
            put((error.code, None))
        except Exception as error:  # network, malformed answer, bad redirect
            put(_Broken(_one_line(getattr(error, "reason", error))))

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            piece = pieces.get(timeout=max(0.0, deadline - time.monotonic()))
            if isinstance(piece, _Broken):
                raise piece
            yield piece
    except Empty:
        raise _Broken("its time is up") from None
    finally:
        stop.set()


def _one_line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _extract(source: _Source, archive: Path, root: Path) -> None:
    """Write the expected members that are missing or damaged; other members are ignored."""
    folder = root / source.folder
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:gz") as tar:
        for file, md5 in source.files.items():
            path = folder / file
            if path.is_file() and _md5(path) == md5:
                continue
            stream = tar.extractfile(f"{source.folder}/{file}")
            content = stream.read() if stream else b""
            if new_md5(content).hexdigest() != md5:
                raise InputError(f"{archive} holds a damaged {file}: delete the archive and retry")
            temporary = path.with_name(path.name + ".part")
            temporary.write_bytes(content)
            temporary.replace(path)
