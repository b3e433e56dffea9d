"""Paths of records, the right to write them, writing and reading.

A record is plain JSON; large arrays are in one .npz beside it, whose digest the record holds. Writing is
atomic, reading checks everything, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import reprlib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from pydantic import ValidationError

from rollpe.errors import InputError
from rollpe_lab.files import ensure_writable, expect_file, write_atomically
from rollpe_lab.records.record import SCHEMA_VERSION, Record, RunId


def record_path(root: str | Path, record_or_run_id: Record | RunId) -> Path:
    """`<root>/<recipe>/<encoding slug>/seed-<n>.json`."""
    run_id = record_or_run_id.run_id if isinstance(record_or_run_id, Record) else record_or_run_id
    return Path(root) / run_id.path.with_suffix(".json")


# The right to write


@contextmanager
def claim(root: str | Path, run_id: RunId) -> Iterator[bool]:
    """Hold the right to train a run; yields whether it was free, or already held by this thread.

    root: folder of records or of checkpoints. The claim is a lock of the operating system, which ends with
    its process, however that ends; a file that a killed process leaves in `.locks` blocks nobody.
    Raises InputError on a filesystem without locks.
    """
    path = Path(root) / ".locks" / run_id.path.with_suffix(".lock")
    ensure_writable(path.parent)
    lock = FileLock(path, timeout=0, is_singleton=True, fallback_to_soft=False)  # its holder may ask again
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    except OSError as error:
        raise InputError(
            f"{path}: no lock to be had ({error.strerror}), so two processes could train one run. "
            "Choose a folder on another filesystem."
        ) from None
    try:
        yield True
    finally:
        if lock.lock_counter == 1:
            path.unlink(missing_ok=True)
        lock.release()


def write_record(root: str | Path, record: Record, **arrays: np.ndarray) -> Path:
    """Write a record under `root`, atomically, and return its path. An older one is replaced.

    arrays: written first, into the .npz beside the record, which then holds their digest.
    """
    path = record_path(root, record)
    if arrays:
        digest = hashlib.sha256(write_arrays(path, **arrays).read_bytes()).hexdigest()
        record = record.model_copy(update={"arrays_sha256": digest})
    write_atomically(path, record.model_dump_json(indent=1).encode() + b"\n")
    return path


def write_arrays(path: str | Path, **arrays: np.ndarray) -> Path:
    """Write arrays into the .npz beside the record at `path`, atomically."""
    if any(np.asarray(array).dtype.hasobject for array in arrays.values()):
        raise TypeError("only plain numbers, bits and text can be written: an array holds objects")
    buffer = io.BytesIO()
    plain: dict[str, Any] = dict(arrays)
    np.savez_compressed(buffer, **plain)
    beside = Path(path).with_suffix(".npz")
    write_atomically(beside, buffer.getvalue())
    return beside


# Reading


MEMBERS, BYTES = 1000, 10**8
"""Most arrays beside a record, and most bytes of them; the paper's model with 100 frames leaves fewer."""


def read_record(path: str | Path) -> Record:
    """Read and check one record. Raises InputError, one line naming the file, if it is unusable."""
    path = Path(path)
    try:
        expect_file(path)
        text = path.read_text(encoding="utf8")
        # as it stands; where it has escapes, with those that can be read in their place
        if not _harmless(text) and not _harmless(json.dumps(json.loads(text), ensure_ascii=False)):
            raise InputError(f"{path}: refused, its text holds <, > or characters that cannot be printed.")
    except OSError as error:
        raise InputError(
            f"{path}: no record to read ({error.strerror}). Train it, or give another path."
        ) from None
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged, not JSON ({error}). Restore it or train anew.") from None
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{path}: {_reason(error.errors())}") from None


def _harmless(text: str) -> bool:
    """Whether a terminal and a page may meet this JSON: no markup, no escapes, nothing unprintable."""
    bare = text.replace("\n", "").replace(r"\\", "").replace(r"\"", "")
    return bare.isprintable() and not set(bare) & set(r"\<>")


def _reason(errors: list[Any]) -> str:
    first = errors[0]
    if first["type"] == "json_invalid":
        return f"damaged, not JSON ({first['ctx']['error']}). Restore it or train anew."
    for error in errors:
        if error["loc"] in ((), ("schema_version",)):  # no record at all, or one of another version
            version = error["input"] if error["type"] == "literal_error" else None
            return (
                f"schema_version={reprlib.repr(version)}, readable is {SCHEMA_VERSION}. "
                "Read it with the rollpe that wrote it, or train anew."
            )
    place = ascii(".".join(str(part) for part in first["loc"]))[1:-1]
    return f"damaged, {place}: {first['msg']}. Restore it or train anew."


def read_records(root: str | Path, recipe: str | None = None, encoding: str | None = None) -> list[Record]:
    """Every record under `root`, sorted by recipe, encoding and seed; [] if the folder is absent.

    encoding is a slug: "roll" is roll with its default options only.
    Raises InputError naming the first unreadable file, or a file at another run's path.
    """
    root = Path(root)
    records = []
    for path in (root / recipe).glob("*/seed-*.json") if recipe else root.glob("*/*/seed-*.json"):
        record = read_record(path)
        if path != record_path(root, record):
            raise InputError(
                f"{path}: holds the run of {record_path(root, record)}. Move it there or delete it."
            )
        if encoding in (None, record.run_id.slug):
            records.append(record)
    return sorted(records, key=lambda record: (record.recipe, record.run_id.slug, record.seed))


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays beside the record at `path`; {} if it has none.

    Raises InputError, one line, if they are damaged or have not the digest that the record names.
    """
    path = Path(path)
    beside = path.with_suffix(".npz")
    if not beside.exists():
        return {}
    expect_file(beside)
    content = beside.read_bytes()
    expected = read_record(path).arrays_sha256 if path.exists() else None
    if expected not in (None, hashlib.sha256(content).hexdigest()):
        raise InputError(
            f"{beside}: not the arrays of the record beside it, which names another digest. Restore both, "
            "or train anew."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sizes = [member.file_size for member in archive.infolist()]
        if len(sizes) > MEMBERS or sum(sizes) > BYTES:
            raise ValueError(f"{len(sizes)} arrays of {sum(sizes):,} bytes, more than any run writes")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # damaged bytes may raise anything, in zipfile, zlib or numpy
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{beside}: damaged ({reason}). Restore it or train anew.") from None


def find_arrays(record: Record, folders: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """The arrays of a run from the first of several folders of records that has any; {} if none does."""
    candidates = (read_arrays(record_path(folder, record)) for folder in folders)
    return next(filter(None, candidates), {})
