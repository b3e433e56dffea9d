"""Accidents and lies: one change to the bytes of a file, or to a value somewhere in JSON."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The bytes after one accident: a bit flipped, a block zeroed, the end lost, or others put in."""
    place, size = rng.randrange(len(content)), rng.choice((1, 64, 512, 4096))
    before, after = content[:place], content[place + size :]
    flipped = bytes([content[place] ^ 1 << rng.randrange(8)])
    zeroed = bytes(len(content) - len(before) - len(after))
    accidents = [flipped + content[place + 1 :], zeroed + after, b"", rng.randbytes(size) + content[place:]]
    return before + rng.choice(accidents)


def exchange(one: Path, two: Path) -> None:
    """Each file with the bytes of the other."""
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and mapping in JSON with each of its keys."""
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], dict | list):
            yield from places(content[key])


def changed(content: Any, rng: random.Random, odd: tuple = ()) -> Any:
    """JSON with one value gone, or another: one of ``odd``, else of its kind, as a lie would be."""
    content = copy.deepcopy(content)
    inside, key = rng.choice(list(places(content)))
    value = inside[key]
    if isinstance(value, dict | list) or rng.random() < 0.2:
        del inside[key]
    elif odd:
        inside[key] = rng.choice(odd)
    elif isinstance(value, str):
        inside[key] = f"{value}9"
    else:
        inside[key] = (value or 0) + 1
    return content
