"""The data sets: images and labels, or text, split into training, held-out and test parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rollpe.errors import InputError
from rollpe_lab.training import points, text
from rollpe_lab.training.canvas import COPIES, TEST_COPIES, arrangements, draw
from rollpe_lab.training.datasets import CLOUDS, DATASETS
from rollpe_lab.training.fetch import verify

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
class Data:
    """One data set, split three ways."""

    name: str
    classes: list[str]
    train: Split
    held_out: Split
    test: Split


@dataclass(frozen=True)
class ImageData(Data):
    """Images, or clouds of points (see points.py).

    mean and std: per channel, in units where white is 1, over train and held_out together, so that
    they do not depend on the number of held-out images. Test images are excluded. Canvases and clouds
    have those of the digits.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class TextData(Data):
    """One text, split three ways by file and cut into windows of `context` characters."""

    context: int


def load_dataset(
    name: str, root: str | Path = "data", held_out: int | None = None, context: int | None = None
) -> Data:
    """Read a data set and split it; the same call gives the same split on every machine.

    Args:
        name: "digits" (1,797 images 1×8×8, inside scikit-learn), "place" or "offset" (canvases 1×16×16
            made of them, see canvas.py), "points" or "points-rounded" (clouds 3×4×8 made of them, see
            points.py), "cifar100" (60,000 images 3×32×32, read from root/cifar-100-python), "sympy" or
            "sklearn" (texts, see text.py).
        held_out: images taken from the training set for selection, in proportion to the classes; None
            means 180 of the digits, 4 canvases or clouds of each of these and 5,000 of CIFAR-100; 0 trains on
            everything. A smaller held-out set is contained in a larger one wherever the proportions
            allow whole images. Of text, the first windows of the held-out text; None means all.
        context: characters of a window, of text alone.

    Returns ImageData, or TextData for text. Raises InputError for an unknown name, an impossible held_out or
    context, a missing or damaged file.
    """
    if name == "cifar100":
        return _cifar100(Path(root), held_out)
    if name == "digits":
        return _digits(held_out)
    if DATASETS[name].package:
        return _text(name, held_out, context)
    return _made_of_digits(name, held_out)


# Reading


def _cifar100(root: Path, held_out: int | None) -> ImageData:
    from torchvision.datasets import CIFAR100  # noqa: PLC0415 (takes seconds)

    for check in verify("cifar100", root):
        if check.state != "ok":
            raise InputError(f"{check.path} is {check.state}: run `{check.repair}`")
    files = [CIFAR100(root, train=train) for train in (True, False)]
    pool, test = (
        Split(torch.from_numpy(file.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(file.targets))
        for file in files
    )
    return _image_data("cifar100", files[0].classes, pool, test, held_out)


def _digits(held_out: int | None) -> ImageData:
    # the file of sklearn.datasets.load_digits, without the seconds that importing scikit-learn takes
    rows = np.loadtxt(text.folder("sklearn") / "datasets/data/digits.csv.gz", delimiter=",")
    gray = np.rint(rows[:, :-1] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    everything = Split(torch.from_numpy(gray), torch.from_numpy(rows[:, -1]).long())
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
    return TextData(name, list(text.CHARACTERS), train, selected, test, context)


def _made_of_digits(name: str, held_out: int | None) -> ImageData:
    """Canvases or clouds of the digits, split as the digits are: no digit is in two parts.

    Mean and standard deviation are those of the digits. The canvases are nearly empty: their own would make
    the pixels of a digit so large that a learned code beside them hardly trains.
    """
    count = DATASETS[name].held_out if held_out is None else held_out
    if count % COPIES:
        raise InputError(f"held_out={count}: {name} has {COPIES} images a digit; give a multiple.")
    digits = _digits(count // COPIES)
    parts = (digits.train, digits.held_out, digits.test)
    if name in CLOUDS:
        train, selected, test = (
            Split(points.draw(part.images, name == "points-rounded"), part.labels.repeat_interleave(COPIES))
            for part in parts
        )
        mean, std = (*digits.mean, points.MEAN, points.MEAN), (*digits.std, points.STD, points.STD)
        return ImageData(name, digits.classes, train, selected, test, mean, std)
    copies = (COPIES, COPIES, TEST_COPIES)
    train, selected, test = (
        Split(*draw(name, part.images, n)) for part, n in zip(parts, copies, strict=True)
    )
    return ImageData(name, list(arrangements(name)), train, selected, test, digits.mean, digits.std)


# Splitting


def _image_data(name: str, classes: list[str], pool: Split, test: Split, held_out: int | None) -> ImageData:
    default = DATASETS[name].held_out
    count = default if held_out is None else held_out
    if not 0 <= count <= len(pool) // 2:
        raise InputError(f"held_out={count}: {name} allows 0 to {len(pool) // 2}; leave it out for {default}")
    return ImageData(name, classes, *_take(pool, count), test, *_mean_and_std(pool.images))


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
