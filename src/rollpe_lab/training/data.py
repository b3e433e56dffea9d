"""The data sets: images and labels, or text, split into training, held-out and test parts."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rollpe.errors import InputError
from rollpe_lab.training import text
from rollpe_lab.training.canvas import COPIES, TEST_COPIES, arrangements, draw
from rollpe_lab.training.fetch import cifar100_source, expect_known, new_md5

HELD_OUT = {"digits": 180, "place": 720, "offset": 720, "cifar100": 5000}
IMAGE_SIZE = {"digits": 8, "place": 16, "offset": 16, "cifar100": 32}
"""Pixels along an image's side, known before a data set is downloaded."""
SHAPES = {"digits": (1, 10), "place": (1, 16), "offset": (1, 48), "cifar100": (3, 100)}
"""Channels of an image and number of classes, likewise."""
DIGITS_TEST = 360
SPLIT_SEED = b"rollpe held-out split"
"""Key of the hash that orders the images. Another key gives another split."""


@dataclass(frozen=True)
class Split:
    """Images uint8 [N, C, H, W] with their labels int64 [N].

    Of text, windows of characters uint8 [N, L] with the characters that follow each, int64 [N, L].
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Split:
        return Split(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True)
class ImageData:
    """One data set, split three ways.

    mean and std: per channel, in units where white is 1, over train and held_out together, so that
    they do not depend on the number of held-out images. Test images are excluded. Canvases have
    those of the digits.
    """

    name: str
    classes: list[str]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train: Split
    held_out: Split
    test: Split


@dataclass(frozen=True)
class TextData:
    """One text, split three ways by file and cut into windows of `context` characters."""

    name: str
    classes: list[str]
    context: int
    train: Split
    held_out: Split
    test: Split


Data = ImageData | TextData


def load_dataset(
    name: str, root: str | Path = "data", held_out: int | None = None, context: int | None = None
) -> Data:
    """Read a data set and split it; the same call gives the same split on every machine.

    Args:
        name: "digits" (1,797 images 1×8×8, inside scikit-learn), "place" or "offset" (canvases 1×16×16
            made of them, see canvas.py), "cifar100" (60,000 images 3×32×32, read from
            root/cifar-100-python), "sympy" or "sklearn" (texts, see text.py).
        held_out: images taken from the training set for selection, in proportion to the classes; None
            means 180 of the digits, 4 canvases of each of these and 5,000 of CIFAR-100; 0 trains on
            everything. A smaller held-out set is contained in a larger one wherever the proportions
            allow whole images. Of text, the first windows of the held-out text; None means all.
        context: characters of a window, of text alone.

    Returns ImageData, or TextData for text. Raises InputError for an unknown name, an impossible held_out or
    context, a missing or damaged file.
    """
    expect_known(name)
    if name in text.TEXTS:
        return _text(name, held_out, context)
    if name == "digits":
        return _digits(held_out)
    if name in ("place", "offset"):
        return _canvases(name, held_out)
    return _cifar100(Path(root), held_out)


def stand_in(name: str, context: int | None = None) -> Data:
    """A data set of one black image or one window in the right shape, for work that precedes the download."""
    expect_known(name)
    if name in text.TEXTS:
        one = Split(
            torch.zeros(1, context or 1, dtype=torch.uint8), torch.zeros(1, context or 1, dtype=torch.long)
        )
        return TextData(name, list(text.CHARACTERS), context or 1, train=one, held_out=one, test=one)
    channels, classes = SHAPES[name]
    one = Split(
        torch.zeros(1, channels, IMAGE_SIZE[name], IMAGE_SIZE[name], dtype=torch.uint8),
        torch.zeros(1, dtype=torch.long),
    )
    gray = (0.5,) * channels
    return ImageData(name, [str(i) for i in range(classes)], gray, gray, train=one, held_out=one, test=one)


def read_test_labels(name: str, root: str | Path = "data") -> tuple[np.ndarray, list[str]]:
    """Labels int64 [N] of the test images, in the order of a record's bits, and the names of the classes.

    Needs no images: the labels of CIFAR-100 are read from root/labels/cifar100.json, a committed copy.
    Raises InputError for an unknown name, or if that file is missing or damaged.
    """
    expect_known(name)
    if name != "cifar100":
        data = load_dataset(name)
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
        raise InputError(
            f"{path}: damaged ({' '.join(str(error).split())}). Restore it from the repository."
        ) from None
    if np.bincount(labels, minlength=100).tolist() != [100] * 100 or len(classes) != 100:
        raise InputError(
            f"{path}: damaged, not 100 images of each of 100 classes. Restore it from the repository."
        )
    return labels, classes


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
    """The content of one pickled file, read from the bytes whose md5 was checked."""
    try:
        if not path.is_file():
            raise FileNotFoundError  # reading a pipe would wait forever
        content = path.read_bytes()
    except OSError:
        raise InputError(f"{path} is missing: run `rollpe data fetch {name}`") from None
    if new_md5(content).hexdigest() != md5:
        raise InputError(f"{path} is damaged: run `rollpe data fetch {name}`")
    loaded: dict[str, Any] = _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
    return loaded


def _cifar100(root: Path, held_out: int | None) -> ImageData:
    source = cifar100_source()

    def read(file: str) -> dict[str, Any]:
        return _read_pickle(root / source.folder / file, source.files[file], "cifar100")

    def split(file: str) -> Split:
        content = read(file)
        images = torch.from_numpy(content["data"].reshape(-1, 3, 32, 32))
        return Split(images, torch.tensor(content["fine_labels"]))

    classes = read("meta")["fine_label_names"]
    return _image_data("cifar100", classes, split("train"), split("test"), held_out)


def _digits(held_out: int | None) -> ImageData:
    # Here, since scikit-learn takes a second to load and CIFAR-100 needs none of it.
    from sklearn.datasets import load_digits  # noqa: PLC0415

    digits = load_digits()
    gray = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    everything = Split(torch.from_numpy(gray[:, None]), torch.from_numpy(digits.target).long())
    pool, test = _take(everything, DIGITS_TEST)
    return _image_data("digits", [str(digit) for digit in range(10)], pool, test, held_out)


def _text(name: str, held_out: int | None, context: int | None) -> TextData:
    if context is None or not 1 <= context <= text.TEST:
        raise InputError(f"context={context}: the windows of a text have 1 to {text.TEST} characters.")
    train, selected, test = (Split(*text.windows(part, context)) for part in text.read_text(name))
    count = len(selected) if held_out is None else held_out
    if not 0 <= count <= len(selected):
        raise InputError(
            f"held_out={held_out}: {name} allows 0 to {len(selected)} windows of {context} characters."
        )
    selected = Split(selected.images[:count], selected.labels[:count])
    return TextData(name, list(text.CHARACTERS), context, train, selected, test)


def _canvases(task: str, held_out: int | None) -> ImageData:
    """Canvases of the digits, split as the digits are: no digit is in two parts.

    Mean and standard deviation are those of the digits. The canvases are nearly empty: their own would make
    the pixels of a digit so large that a learned code beside them hardly trains.
    """
    count = HELD_OUT[task] if held_out is None else held_out
    if count % COPIES:
        raise InputError(f"held_out={count}: {task} has {COPIES} canvases a digit; give a multiple.")
    digits = _digits(count // COPIES)
    train, selected, test = (
        Split(*draw(task, part.images, copies))
        for part, copies in (
            (digits.train, COPIES),
            (digits.held_out, COPIES),
            (digits.test, TEST_COPIES),
        )
    )
    return ImageData(task, list(arrangements(task)), digits.mean, digits.std, train, selected, test)


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
    unique = first[copies == 1]  # in the order of the hash, a random order
    sizes = np.bincount(labels)
    shares = count * sizes
    quotas = shares // len(pool)
    by_remainder = np.argsort(-(shares % len(pool)), kind="stable")
    quotas[by_remainder[: count - quotas.sum()]] += 1
    held = np.zeros(len(pool), dtype=bool)
    for label, quota in enumerate(quotas):
        held[unique[labels[unique] == label][:quota]] = True
    mask = torch.from_numpy(held)
    return (
        Split(pool.images[~mask], pool.labels[~mask]),
        Split(pool.images[mask], pool.labels[mask]),
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
