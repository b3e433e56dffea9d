"""The text that language models are trained on: Python sources of SymPy, character by character.

SymPy comes with torch, so nothing is downloaded. Its license is BSD; none of it is copied into this project.
Here: reading its files, checking them, splitting them three ways, cutting windows. Not here: images.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch
from torch import Tensor

from rollpe.errors import InputError

VERSION = "1.14.0"
REPAIR = f"pip install --force-reinstall --no-deps sympy=={VERSION}"
CHARACTERS = ("\n", *map(chr, range(32, 127)))
"""The alphabet: the new line and the printable characters of ASCII. Files with any other are left out."""
SIZES = range(1_000, 50_001)
"""Characters of a file that is taken: short ones say little, and no long one should rule the test text."""
TEST, HELD_OUT = 65_536, 32_768
"""Characters of the test text and of the text held out for selection."""
SHA256 = "4b7eb8e240f6e2cd66d996985442bb84da6bc7ee965e60a2ccae076d851d1076"
"""Of the three texts, one after another."""


def folder() -> Path:
    """Where SymPy is installed. InputError if it is not."""
    try:
        return Path(str(distribution("sympy").locate_file("sympy")))
    except PackageNotFoundError:
        raise InputError(f"the text is SymPy's: install it, `pip install sympy=={VERSION}`.") from None


@cache
def read_text() -> tuple[str, str, str]:
    """Training, held-out and test text; each of whole files but the last, and no file in two of them.

    Files are ordered by the hash of their names: the test text first, then the held-out text, the rest is for
    training. SymPy's tests are left out. Raises InputError if a file is not as published in version 1.14.0.
    """
    root = folder()
    names = [
        p.relative_to(root).as_posix() for p in root.rglob("*.py") if "tests" not in p.relative_to(root).parts
    ]
    names.sort(key=lambda name: hashlib.blake2b(name.encode(), digest_size=16).digest())
    allowed = set(CHARACTERS)
    texts = (root.joinpath(name).read_bytes().decode("utf8", "replace") for name in names)
    taken = [text for text in texts if len(text) in SIZES and allowed.issuperset(text)]

    def take(size: int) -> str:
        part = ""
        while taken and len(part) <= size:
            part += taken.pop(0)
        return part[: size + 1]  # one more, which the last character predicts

    test, held_out = take(TEST), take(HELD_OUT)
    train = "".join(taken)
    found = hashlib.sha256("".join((train, held_out, test)).encode()).hexdigest()
    if found != SHA256:
        raise InputError(f"{root}: not the files of SymPy {VERSION}. Install them: `{REPAIR}`.")
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
