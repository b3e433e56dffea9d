"""The texts that language models are trained on: Python sources of a package, character by character.

Both packages are installed for other reasons, so nothing is downloaded: SymPy comes with torch, scikit-learn
holds the digits. Their licenses are BSD; none of them is copied into this project.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch
from torch import Tensor

from rollpe.errors import InputError
from rollpe_lab.training.datasets import DATASETS, Package

CHARACTERS = ("\n", *map(chr, range(32, 127)))
"""The alphabet: the new line and the printable characters of ASCII. Files with any other are left out."""
SIZES = range(1_000, 50_001)
"""Characters of a file that is taken: short ones say little, and no long one should rule the test text."""
TEST, HELD_OUT = 65_536, 32_768
"""Characters of the test text and of the text held out for selection."""


def package_of(name: str) -> Package:
    """The package of a text."""
    package = DATASETS[name].package
    assert package, f"{name} is no text"
    return package


def folder(name: str) -> Path:
    """Where the package of a text is installed. InputError if it is not."""
    package = package_of(name)
    try:
        return Path(str(distribution(package.distribution).locate_file(name)))
    except PackageNotFoundError:
        raise InputError(f"the text {name!r} is not installed: `{package.repair}`.") from None


@cache
def read_text(name: str = "sympy") -> tuple[str, str, str]:
    """Training, held-out and test text; each of whole files but the last, and no file in two of them.

    Files are ordered by the hash of their names: the test text first, then the held-out text, the rest is for
    training. The package's tests are left out. Raises InputError if a file is not as published.
    """
    root, package = folder(name), package_of(name)
    names = [
        p.relative_to(root).as_posix() for p in root.rglob("*.py") if "tests" not in p.relative_to(root).parts
    ]
    names.sort(key=lambda name: hashlib.blake2b(name.encode(), digest_size=16).digest())
    allowed = set(CHARACTERS)
    texts = (root.joinpath(name).read_text("utf8", "replace") for name in names)
    taken = [text for text in texts if len(text) in SIZES and allowed.issuperset(text)]

    def take(size: int) -> str:
        part = ""
        while taken and len(part) <= size:
            part += taken.pop(0)
        return part[: size + 1]  # one more, which the last character predicts

    test, held_out = take(TEST), take(HELD_OUT)
    train = "".join(taken)
    found = hashlib.sha256("".join((train, held_out, test)).encode()).hexdigest()
    if found != package.sha256:
        raise InputError(
            f"{root}: not the files of {package.distribution} {package.version}. Install them: "
            f"`{package.repair}`."
        )
    return train, held_out, test


def encode(text: str) -> Tensor:
    """The places of its characters in `CHARACTERS`, uint8 [len(text)]."""
    codes = torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8)
    return torch.where(codes == 10, 0, codes - 31)


def decode(codes: Tensor) -> str:
    """The inverse of `encode`."""
    return "".join(CHARACTERS[code] for code in codes.tolist())


def windows(text: str, length: int) -> tuple[Tensor, Tensor]:
    """A text cut into windows uint8 [N, length], and the characters that follow, int64 [N, length].

    The windows lie one after another; the rest of the text, shorter than a window, is left out.
    """
    codes = encode(text)
    count = (len(codes) - 1) // length
    return codes[: count * length].view(count, length), codes[1 : count * length + 1].long().view(
        count, length
    )
