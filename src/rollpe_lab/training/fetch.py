"""Downloading the files of a data set and checking them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pooch
from filelock import FileLock

from rollpe.errors import InputError
from rollpe_lab.files import ensure_writable, expect_file
from rollpe_lab.training import text
from rollpe_lab.training.datasets import DATASETS

RETRIES = 2  # after a download that failed
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 18
FOLDER = "cifar-100-python"
FILES = "train", "test", "meta"
ARCHIVE = f"{FOLDER}.tar.gz"
URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"

SHA256 = {
    ARCHIVE: "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    "train": "735e79b04f092ca3d2e6d07f368c0a7d70d48c48d28865950cc24454cf45129b",
    "test": "4b67687d9933c4db8f0831104447f15b93774f4f464bd0516f0f0f2ac83b7864",
    "meta": "a5d4786345c961390f865e93b434dbd5c6904ce880667e0cb888c97d449f28b9",
}
"""Of the archive, as Keras and TensorFlow Datasets have it, and of its files with the publisher's md5."""


@dataclass(frozen=True)
class FileCheck:
    """State of one file on disk, and the command that repairs it ("" if it is intact)."""

    path: Path
    state: Literal["ok", "missing", "damaged"]
    repair: str


def fetch(name: str, root: str | Path = "data", progress: bool = True) -> list[FileCheck]:
    """Download the files of a data set to `root` and return their checks, all "ok".

    Does nothing if they are intact. Otherwise downloads the archive, or takes one with the known SHA-256 that
    is in `root`, and extracts the expected members. Nothing is unpickled. Without files, as for "digits",
    the list is empty; texts are installed packages and only checked.

    Of two processes that fetch at once, one waits for the other.

    Raises InputError if `root` cannot be written, if the download fails, if the archive is not the published
    one, and if the installed package of a text is not.
    """
    dataset, root = DATASETS[name], Path(root)
    if not root.is_dir():
        ensure_writable(root)
    if dataset.package:
        text.read_text(name)
    elif _damaged(name, root):
        try:
            with FileLock(root / f".{ARCHIVE}.lock"):
                for path in (damaged := _damaged(name, root)):
                    path.unlink(missing_ok=True)
                if damaged:
                    _download(root, progress)
        except OSError as error:
            raise InputError(
                f"cannot write to {root} ({error.strerror or error}): "
                f"make room or choose another folder and run `rollpe data fetch {name}` again"
            ) from error
    return verify(name, root)


def _damaged(name: str, root: Path) -> list[Path]:
    return [check.path for check in verify(name, root) if check.state != "ok"]


def verify(name: str, root: str | Path = "data") -> list[FileCheck]:
    """Compare the SHA-256 of every file of a data set with the known one; opens nothing else.

    The list is empty for "digits", which come with scikit-learn, and for what is made of them.
    A text has one entry: the installed package, by the sha256 of the text taken from it.
    """
    dataset = DATASETS[name]
    if dataset.package:
        return [_verify_text(name, dataset.package.repair)]
    if dataset is not DATASETS["cifar100"]:
        return []
    return [_verify_file(Path(root, FOLDER, name)) for name in FILES]


def _verify_file(path: Path) -> FileCheck:
    if path.is_file() and pooch.file_hash(path) == SHA256[path.name]:
        return FileCheck(path, "ok", "")
    return FileCheck(path, "damaged" if path.is_file() else "missing", "rollpe data fetch cifar100")


def _verify_text(name: str, repair: str) -> FileCheck:
    try:
        text.read_text(name)
    except InputError:
        return FileCheck(text.folder(name), "damaged", repair)
    return FileCheck(text.folder(name), "ok", "")


def _download(root: Path, progress: bool) -> None:
    """The archive's members in `root`, and the archive, downloaded unless it is there with its SHA-256."""
    expect_file(root / ARCHIVE)
    pooch.get_logger().setLevel("WARNING")
    files = pooch.create(
        path=root,
        base_url="",
        registry={ARCHIVE: f"sha256:{SHA256[ARCHIVE]}"},
        urls={ARCHIVE: URL},
        retry_if_failed=RETRIES,
    )
    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=CHUNK, timeout=TIMEOUT)
    members = [f"{FOLDER}/{name}" for name in FILES]
    try:
        files.fetch(ARCHIVE, pooch.Untar(members, extract_dir="."), downloader)
    except Exception as error:  # of the network, of a malformed answer, or another digest
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"cannot download {URL} ({reason}): check the network and the room in {root}, "
            f"or place {ARCHIVE} in {root}/, and run the command again"
        ) from error
