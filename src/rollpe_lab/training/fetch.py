"""Downloading the files of a data set and checking them."""

from __future__ import annotations

import hashlib
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from rollpe.errors import InputError
from rollpe_lab.files import ensure_writable, expect_file, write_atomically
from rollpe_lab.training import text

DATASETS = ("digits", "place", "offset", "cifar100", *text.TEXTS)

RETRIES = 2  # after a download that failed
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 18


@dataclass(frozen=True)
class FileCheck:
    """State of one file on disk, and the command that repairs it ("" if it is intact)."""

    path: Path
    state: Literal["ok", "missing", "damaged"]
    repair: str


def fetch(name: str, root: str | Path = "data", progress: bool = True) -> list[FileCheck]:
    """Download the files of a data set to `root` and return their checks, all "ok".

    Does nothing if they are intact. Otherwise downloads the archive, or takes one with the published md5 that
    is in `root`, and extracts the expected members that are missing or damaged. Nothing is unpickled. Without
    files, as for "digits", the list is empty; texts are installed packages and only checked.

    Of two processes that fetch at once, one waits for the other.

    Raises InputError if `root` cannot be written, if the download fails, if the archive is not the published
    one, and if the installed package of a text is not.
    """
    expect_known(name)
    root = Path(root)
    if not root.is_dir():
        ensure_writable(root)
    if name in text.TEXTS:
        text.read_text(name)
    if _damaged(name, root):
        source = cifar100_source()
        try:
            with FileLock(root / f".{source.archive}.lock"):
                if damaged := _damaged(name, root):
                    _extract(source, _download(source, root, progress), damaged)
        except OSError as error:
            raise InputError(
                f"cannot write to {root} ({error.strerror or error}): "
                f"make room or choose another folder and run `rollpe data fetch {name}` again"
            ) from error
    return verify(name, root)


def _damaged(name: str, root: Path) -> list[Path]:
    return [check.path for check in verify(name, root) if check.state != "ok"]


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


@dataclass(frozen=True)
class _Source:
    """The address of a data set's archive, and the md5 of each file."""

    url: str
    archive: str
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


def _download(source: _Source, root: Path, progress: bool) -> Path:
    """The archive in `root`, downloaded unless it is there with its md5."""
    # Here, since most users have the files.
    import pooch  # noqa: PLC0415

    expect_file(root / source.archive)
    pooch.get_logger().setLevel("WARNING")
    files = pooch.create(
        path=root,
        base_url="",
        registry={source.archive: f"md5:{source.md5}"},
        urls={source.archive: source.url},
        retry_if_failed=RETRIES,
    )
    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=CHUNK, timeout=TIMEOUT)
    try:
        return Path(files.fetch(source.archive, downloader=downloader))
    except Exception as error:  # of the network, of a malformed answer, or another md5
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"cannot download {source.url} ({reason}): check the network and the room in {root}, "
            f"or place {source.archive} in {root}/, and run the command again"
        ) from error


def _extract(source: _Source, archive: Path, wanted: list[Path]) -> None:
    """Write these members; others are ignored."""
    with tarfile.open(archive, "r:gz") as tar:
        for path in wanted:
            stream = tar.extractfile(f"{source.folder}/{path.name}")
            assert stream is not None  # the archive has its md5
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, stream.read())
