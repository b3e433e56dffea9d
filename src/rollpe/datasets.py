"""Images and labels: the two data sets, how their files are fetched, checked, read and split.

In here: the digits that scikit-learn carries, CIFAR-100 from its authors' server (addresses and
checksums are torchvision's), and the fixed held-out split. Not in here: augmentation, batches.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import logging
import os.path
import pickle
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
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor
from tqdm import tqdm

from rollpe.errors import InputError

logger = logging.getLogger(__name__)

DATASETS = ("digits", "cifar100")
HELD_OUT = {"digits": 180, "cifar100": 5000}
IMAGE_SIZE = {"digits": 8, "cifar100": 32}
"""Pixels along an image's side, known before a data set is on the disk."""
SHAPES = {"digits": (1, 10), "cifar100": (3, 100)}
"""Channels of an image and classes, likewise."""
DIGITS_TEST = 360
SPLIT_SEED = b"rollpe held-out split"
"""Key of the hash that orders the images. Another key gives another split."""

ARCHIVE_BYTES = 169_001_437  # of CIFAR-100's archive; torchvision knows its md5 alone
ATTEMPTS = 5
TIMEOUT = 30.0  # seconds without a byte
PATIENCE = 2 * 3600.0  # seconds for one download: slower than 24 kB a second is no way to get it
CHUNK = 1 << 18


@dataclass(frozen=True)
class Split:
    """Images uint8 [N, C, H, W] with their labels int64 [N]."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, place: torch.device) -> Split:
        return Split(self.images.to(place), self.labels.to(place))


@dataclass(frozen=True)
class ImageData:
    """One data set, split three ways.

    mean and std: per channel, in units where white is 1, over train and held_out together, so that
    they do not depend on how many images are held out. The test images never enter them.
    """

    name: str
    classes: list[str]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train: Split
    held_out: Split
    test: Split


@dataclass(frozen=True)
class FileCheck:
    """State of one file on disk, and what to do about it (empty when it is in order)."""

    path: Path
    state: Literal["ok", "missing", "damaged"]
    repair: str


def load_dataset(name: str, root: str | Path = "data", held_out: int | None = None) -> ImageData:
    """Read a data set and split it; the same call gives the same split on every machine.

    name: "digits" (1,797 images 1×8×8, inside scikit-learn) or "cifar100" (60,000 images 3×32×32,
        read from root/cifar-100-python).
    held_out: images taken from the training set for selection, in proportion to the classes; None
        means 180 of the digits and 5,000 of CIFAR-100; 0 trains on everything. A smaller held-out
        set is contained in a larger one wherever the proportions allow whole images.

    Raises InputError for an unknown name, an impossible held_out, a missing or damaged file.
    """
    _known(name)
    if name == "digits":
        return _digits(held_out)
    return _cifar100(Path(root), held_out)


def stand_in(name: str) -> ImageData:
    """One black image in the shape of a data set's, for what must be ready before its files are there."""
    _known(name)
    channels, classes = SHAPES[name]
    one = Split(
        torch.zeros(1, channels, IMAGE_SIZE[name], IMAGE_SIZE[name], dtype=torch.uint8),
        torch.zeros(1, dtype=torch.long),
    )
    gray = (0.5,) * channels
    return ImageData(name, [str(i) for i in range(classes)], gray, gray, train=one, held_out=one, test=one)


def test_labels(name: str, root: str | Path = "data") -> tuple[np.ndarray, list[str]]:
    """Labels int64 [N] of the test images, in the order of a record's bits, and the names of the classes.

    Needs no images: those of CIFAR-100 are read from root/labels/cifar100.json, a committed copy.
    Raises InputError for an unknown name, or if that file is missing or damaged.
    """
    _known(name)
    if name == "digits":
        data = _digits(None)
        return data.test.labels.numpy(), data.classes
    path = Path(root) / "labels" / f"{name}.json"
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a file")
        content = json.loads(path.read_text(encoding="utf8"))
        labels = np.frombuffer(base64.b64decode(content["labels"]), dtype=np.uint8).astype(np.int64)
        classes = list(content["classes"])
    except OSError as error:
        raise InputError(
            f"{path}: no labels to read ({error.strerror}). Restore it from the repository."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({_one_line(error)}). Restore it from the repository.") from None
    if np.bincount(labels, minlength=100).tolist() != [100] * 100 or len(classes) != 100:
        raise InputError(
            f"{path}: damaged, not 100 images of each of 100 classes. Restore it from the repository."
        )
    return labels, classes


def fetch(name: str, root: str | Path = "data", progress: bool = True) -> list[FileCheck]:
    """Bring the files of a data set to `root` and return their checks, all "ok".

    Does nothing when they are there and intact. Otherwise downloads the archive, continuing a
    partial download, or takes an archive placed in `root` by hand; checks its md5; extracts only
    the expected members; and checks each of those before it gets its name. Nothing is unpickled.
    For "digits" there is nothing to fetch and the list is empty.

    Of two processes that fetch at once, one waits and takes what the other got.

    Raises InputError when the server cannot be reached, sends more than the archive has or takes longer than
    `PATIENCE`, and when the archive is not the published one.
    """
    _known(name)
    root = Path(root)
    checks = verify(name, root)
    if all(check.state == "ok" for check in checks):
        return checks
    source = _cifar100_source()
    archive = root / source.archive
    try:
        root.mkdir(parents=True, exist_ok=True)
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

    The list is empty for "digits", which live inside scikit-learn.
    """
    _known(name)
    if name == "digits":
        return []
    source = _cifar100_source()
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


def _known(name: str) -> None:
    if name not in DATASETS:
        raise InputError(f"data set {name!r} is unknown: choose one of {', '.join(DATASETS)}")


# Files


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process holds this lock, which goes with its process, however that ends."""
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
    """Where the files of a data set come from, and the md5 of each."""

    url: str
    archive: str
    size: int
    md5: str
    folder: str
    files: dict[str, str]


def _cifar100_source() -> _Source:
    # Imported here: torchvision takes a second to load and the digits need none of it.
    from torchvision.datasets import CIFAR100

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
        return hashlib.file_digest(stream, _new_md5).hexdigest()


def _new_md5(data: bytes = b"") -> Any:
    # The checksum is the publisher's: it guards against damage, and is allowed under FIPS as such.
    return hashlib.md5(data, usedforsecurity=False)


def _download(source: _Source, archive: Path, progress: bool) -> None:
    """Download to `<archive>.part`, continuing what is there, and rename once the md5 is right."""
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
                break  # a whole download in one piece was wrong: asking again will not mend it
        elif time.monotonic() > deadline:
            reason = f"after {PATIENCE / 60:.0f} minutes {_size(part):,} of {source.size:,} bytes are here"
            break
        elif _size(part) <= before:
            break  # not a byte further: waiting longer is for the person to decide
    raise InputError(
        f"cannot reach {source.url} ({reason}): check the network, "
        f"or place {source.archive} in {archive.parent}/ and run the command again"
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _receive(source: _Source, part: Path, progress: bool, deadline: float) -> str:
    """Append what `part` still lacks; returns "" when complete, otherwise why not."""
    start = _size(part)
    pieces = _answer(source.url, start, deadline)
    try:
        status, length = next(pieces)
        if start and status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()  # what is there is no beginning of what the server has
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
    """A connection gave no answer or not all of it; the message says why, in one line."""


def _answer(url: str, start: int, deadline: float) -> Generator[Any, None, None]:
    """What is at an address from a byte on: status, length (None if not told); then pieces, b"" at the end.

    A thread reads: a server that sends a letter of a header now and then would keep whoever waits for years.
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
        except Exception as error:  # of the network, of the answer's form, of a redirect to nonsense
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
    """Write the expected members that are not yet in order; every other member is ignored."""
    folder = root / source.folder
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:gz") as tar:
        for file, md5 in source.files.items():
            path = folder / file
            if path.is_file() and _md5(path) == md5:
                continue
            stream = tar.extractfile(f"{source.folder}/{file}")
            content = stream.read() if stream else b""
            if _new_md5(content).hexdigest() != md5:
                raise InputError(f"{archive} holds a damaged {file}: delete the archive and retry")
            temporary = path.with_name(path.name + ".part")
            temporary.write_bytes(content)
            temporary.replace(path)


# Reading


class _ArraysOnly(pickle.Unpickler):
    """Unpickles plain containers and NumPy arrays; any other global is refused."""

    allowed: ClassVar = {
        # NumPy's own rebuild function, under its public name: its module moved in NumPy 2.
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong in a file of images")
        return self.allowed[module, name]


def _read_pickle(path: Path, md5: str, name: str) -> dict[str, Any]:
    """The content of one pickled file. The very bytes whose md5 was checked are the ones read."""
    try:
        if not path.is_file():
            raise FileNotFoundError  # a pipe would be waited for
        content = path.read_bytes()
    except OSError:
        raise InputError(f"{path} is missing: run `rollpe data fetch {name}`") from None
    if _new_md5(content).hexdigest() != md5:
        raise InputError(f"{path} is damaged: run `rollpe data fetch {name}`")
    loaded: dict[str, Any] = _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
    return loaded


def _cifar100(root: Path, held_out: int | None) -> ImageData:
    source = _cifar100_source()

    def read(file: str) -> dict[str, Any]:
        return _read_pickle(root / source.folder / file, source.files[file], "cifar100")

    def split(file: str) -> Split:
        content = read(file)
        images = torch.from_numpy(content["data"].reshape(-1, 3, 32, 32))
        return Split(images, torch.tensor(content["fine_labels"]))

    classes = read("meta")["fine_label_names"]
    return _image_data("cifar100", classes, split("train"), split("test"), held_out)


def _digits(held_out: int | None) -> ImageData:
    from sklearn.datasets import load_digits

    digits = load_digits()
    grey = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    everything = Split(torch.from_numpy(grey[:, None]), torch.from_numpy(digits.target).long())
    pool, test = _take(everything, DIGITS_TEST)
    return _image_data("digits", [str(digit) for digit in range(10)], pool, test, held_out)


# Splitting


def _image_data(name: str, classes: list[str], pool: Split, test: Split, held_out: int | None) -> ImageData:
    count = HELD_OUT[name] if held_out is None else held_out
    if not 0 <= count <= len(pool) // 2:
        raise InputError(
            f"held_out={count}: {name} allows 0 to {len(pool) // 2}; leave it out for {HELD_OUT[name]}"
        )
    mean, std = _mean_and_std(pool.images)
    train, selected = _take(pool, count)
    return ImageData(name, classes, mean, std, train, selected, test)


def _take(pool: Split, count: int) -> tuple[Split, Split]:
    """(rest, taken): `count` images chosen by the hash of their pixels, class by class.

    Both keep the order of the pool. An image that occurs twice is never taken, whatever its
    labels, so its copies stay on one side. Classes get count × share images; the images left over
    by rounding down go to the largest remainders, ties to the lower class.
    """
    labels = pool.labels.numpy()
    keys = np.array(
        [
            hashlib.blake2b(image.tobytes(), key=SPLIT_SEED, digest_size=16).hexdigest()
            for image in pool.images.numpy()
        ]
    )
    _, first, copies = np.unique(keys, return_index=True, return_counts=True)
    unique = first[copies == 1]  # in the order of the hash, which is as good as drawn by lot
    sizes = np.bincount(labels)
    shares = count * sizes
    quotas = shares // len(pool)
    by_remainder = np.argsort(-(shares % len(pool)), kind="stable")
    quotas[by_remainder[: count - quotas.sum()]] += 1
    taken = np.zeros(len(pool), dtype=bool)
    for label, quota in enumerate(quotas):
        taken[unique[labels[unique] == label][:quota]] = True
    chosen = torch.from_numpy(taken)
    return (
        Split(pool.images[~chosen], pool.labels[~chosen]),
        Split(pool.images[chosen], pool.labels[chosen]),
    )


def _mean_and_std(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Per channel, of pixels in [0, 1], exact up to float64: from the counts of the 256 values."""
    values = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in range(images.shape[1]):
        counts = torch.zeros(256, dtype=torch.float64)
        for chunk in images[:, channel].split(5000):
            counts += torch.bincount(chunk.flatten(), minlength=256)
        share = counts / counts.sum()
        mean = (share * values).sum()
        means.append(mean.item())
        stds.append((share * (values - mean) ** 2).sum().sqrt().item())
    return tuple(means), tuple(stds)
