"""Safe files: atomic writing, refusal of folders and devices, YAML of plain values; tables in Markdown."""

from __future__ import annotations

import os
import os.path
import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from rollpe.errors import InputError


def ensure_writable(folder: Path) -> None:
    """Make the folder now, so that an error shows before training and not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "no permission"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise InputError(
            f"{folder}: cannot write there ({reason}). Choose another folder, or, if the name is too long, "
            "another name of the recipe: --set name=mine."
        )


def expect_file(path: Path) -> None:
    """Refuse a folder, a device or a pipe: reading may wait forever, and writing would replace it."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: a folder, a device or a pipe, and no file. Give another path.")


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file so that a reader of `path` finds the old or the new content at any moment.

    A temporary file in the same folder is written, forced to disk and renamed over `path`. An OSError names
    `path`, even if the system names no file. InputError for a folder, a device or a pipe.
    """
    path = Path(path)
    expect_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{path.parent}: a file is where the folder should be. Give another path.") from None
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:  # never through a link that was laid there
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """A table in GitHub's Markdown, of its head and its rows; the first column is aligned left."""
    head, *body = rows
    rule = (":--", *["--:"] * (len(head) - 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def read_yaml_file(path: Path) -> Any:
    """The YAML of a file. Raises InputError for what is no regular file, no UTF-8 or no YAML."""
    if not os.path.isfile(path):
        what = "not a file" if os.path.lexists(path) else "no such file"
        raise InputError(f"{path}: {what}. Name a YAML file.")
    try:
        return read_yaml(path.read_text("utf-8-sig"), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Name another file.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not text in UTF-8. Save it anew in that encoding.") from None


def read_yaml(text: str, place: str) -> Any:
    """YAML text, found at ``place``, as plain Python values. Raises InputError for other text.

    Refused, before anything is built: aliases, tags, a hundred lists one in another, keys that are no words
    or come twice. Numbers are decimal: 1e-3 is one, 1:30 and 1_000 are text.
    """
    try:
        depth = 0
        for event in yaml.parse(text, _Parser):
            if isinstance(event, yaml.AliasEvent):
                raise _refusal("aliases are not read here: write the value again", event)
            if (tag := getattr(event, "tag", None)) not in (None, "!"):
                raise _refusal(f"tags are not read here: leave out {tag}", event)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth == DEEPEST:  # thousands end the process: what builds them calls itself
                raise _refusal("lists are nested too deep", event)
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        reason = f"{error.problem}{line}"
    except (yaml.YAMLError, ValueError) as error:  # ValueError: thousands of digits
        reason = " ".join(str(error).split())
    raise InputError(f"{place}: not YAML ({reason}). Write a plain value or a list.")


DEEPEST = 100
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast


class _Loader(_Parser):
    """YAML of plain values alone; see `read_yaml`."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != self.DEFAULT_SCALAR_TAG:
                raise _refusal("a key that is no word", key)
            if key.value in keys:
                raise _refusal(f"the key {key.value!r} comes twice", key)
            keys.add(key.value)
        return super().construct_mapping(node, deep)


def _refusal(reason: str, at: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, reason, at.start_mark)


_Loader.yaml_implicit_resolvers = {}  # none of YAML 1.1's, but these:
for _kind, _written, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"(?i:true|false|yes|no|on|off)", list("tTfFyYnNoO")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(?i:inf|nan)", list("-+.")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"(?:{_written})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
