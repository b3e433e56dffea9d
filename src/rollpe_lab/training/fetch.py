"""Downloading the files of a data set and checking them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pooch
from filelock import FileLock
from torchvision.datasets import CIFAR100
from torchvision.datasets.utils import check_md5

from rollpe.errors import InputError
from rollpe_lab.files import ensure_writable, expect_file
from rollpe_lab.training import text
from rollpe_lab.training.datasets import DATASETS

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
            with FileLock(root / f".{CIFAR100.filename}.lock"):
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
    """Compare the md5 of every file of a data set with the published one; opens nothing else.

    The list is empty for "digits", which come with scikit-learn, and for what is made of them.
    A text has one entry: the installed package, by the sha256 of the text taken from it.
    """
    dataset = DATASETS[name]
    if dataset.package:
        return [_verify_text(name, dataset.package.repair)]
    if dataset is not DATASETS["cifar100"]:
        return []
    return [_verify_file(path, md5) for path, md5 in _published(Path(root))]


def _published(root: Path) -> list[tuple[Path, str]]:
    """The files of CIFAR-100 in `root`, and their md5."""
    files = [*CIFAR100.train_list, *CIFAR100.test_list, [CIFAR100.meta["filename"], CIFAR100.meta["md5"]]]
    return [(root / CIFAR100.base_folder / file, md5) for file, md5 in files]


def _verify_file(path: Path, md5: str) -> FileCheck:
    if path.is_file() and check_md5(path, md5):  # the publisher's checksum against damage, which FIPS allows
        return FileCheck(path, "ok", "")
    return FileCheck(path, "damaged" if path.is_file() else "missing", "rollpe data fetch cifar100")


def _verify_text(name: str, repair: str) -> FileCheck:
    try:
        text.read_text(name)
    except InputError:
        return FileCheck(text.folder(name), "damaged", repair)
    return FileCheck(text.folder(name), "ok", "")


def _download(root: Path, progress: bool) -> None:
    """The archive's members in `root`, and the archive, downloaded unless it is there with its md5."""
    archive = CIFAR100.filename
    expect_file(root / archive)
    pooch.get_logger().setLevel("WARNING")
    files = pooch.create(
        path=root,
        base_url="",
        registry={archive: f"md5:{CIFAR100.tgz_md5}"},
        urls={archive: CIFAR100.url},
        retry_if_failed=RETRIES,
    )
    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=CHUNK, timeout=TIMEOUT)
    members = [f"{CIFAR100.base_folder}/{path.name}" for path, _ in _published(root)]
    try:
        files.fetch(archive, pooch.Untar(members, extract_dir="."), downloader)
    except Exception as error:  # of the network, of a malformed answer, or another md5
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"cannot download {CIFAR100.url} ({reason}): check the network and the room in {root}, "
            f"or place {archive} in {root}/, and run the command again"
        ) from error
