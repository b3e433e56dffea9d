"""What a run leaves behind, and how it is read back.

In here: the shape of a record, where it lies, who may write it, atomic writing, checked reading, the facts
about machine and source that belong in it, and when two records may be compared. Not in here: training,
statistics over records. A record is plain JSON; arrays too large for it lie beside it in one .npz, whose
digest it names. Nothing is ever unpickled.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import io
import json
import logging
import math
import os
import platform
import reprlib
import subprocess
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

import numpy as np
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rollpe.errors import InputError

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 1
PACKAGE = Path(__file__).parent

RECORD_BYTES, ARRAYS_BYTES = 2**26, 2**30
"""Larger files are no record, and no arrays of one."""

HOW = frozenset({"compile", "attention", "score_every"})
"""Keys of a recipe that say how a machine is used and not what is trained: changing them changes no name."""

NOT_COMPARED = HOW | {"name", "resolutions", "shifts"}
"""Keys of a configuration that leave the test result of a run unchanged in distribution."""

ADDED: dict[str, Any] = {"qkv_bias": True, "augmentation.mix_probability": 1.0}
"""Keys that recipes have had for some time only, and what every run before that did."""


Share = Annotated[float, Field(ge=0, le=1)]
RecipeName = Annotated[str, Field(pattern=r"^[\w~+-][\w.~%@=,+-]*$")]
"""Names a recipe and a folder: no slash, no space, no leading dot."""


class _Plain(BaseModel):
    """Frozen, no unknown fields, no NaN: a record that says nonsense cannot be built."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Cell(_Plain):
    """The identity of a run: which recipe, which encoding with which options, which seed."""

    recipe: RecipeName
    encoding: str = Field(min_length=1)
    encoding_options: dict[str, Any] = {}
    seed: int = Field(ge=0)

    @property
    def slug(self) -> str:
        """The encoding with its options, as it is written in paths and tables."""
        return slug(self.encoding, self.encoding_options)

    @property
    def path(self) -> Path:
        """<recipe>/<encoding slug>/seed-<n>, without a suffix."""
        return Path(self.recipe, self.slug, f"seed-{self.seed}")


class EpochMetrics(_Plain):
    """One pass over the training images. Losses in nats; the held-out ones are None without any."""

    epoch: int = Field(ge=1)
    steps: int = Field(ge=1)  # optimizer steps so far
    learning_rate: float = Field(ge=0)  # of the last step
    train_loss: float
    held_out_loss: float | None
    held_out_accuracy: float | None = Field(ge=0, le=1)
    images_per_second: float = Field(gt=0)  # of the training steps alone
    seconds: float = Field(ge=0)  # training steps and held-out evaluation


class FinalMetrics(_Plain):
    """The one scoring of the test set. `correct` is base64 of one bit per image, in file order."""

    loss: float
    accuracy: float = Field(ge=0, le=1)
    images: int = Field(ge=1)
    correct: str

    @model_validator(mode="after")
    def _bits_agree(self) -> FinalMetrics:
        bits = self.bits()
        if not math.isclose(bits.mean(), self.accuracy, abs_tol=1e-9):
            raise ValueError(f"accuracy={self.accuracy}, but {bits.sum()} bits of {bits.size} set")
        return self

    def bits(self) -> np.ndarray:
        """bool [images]: which test images the model got right, in file order."""
        return unpack_bits(self.correct, self.images)


class Environment(_Plain):
    """The machine and the versions that a run used; nothing that names a person or a host."""

    python: str
    platform: str
    torch: str
    timm: str
    numpy: str
    device: str  # "cpu", "cuda" or "mps"
    device_name: str
    driver: str | None
    threads: int = Field(ge=1)


class Provenance(_Plain):
    """Which source produced a run, by which command, and when. Times are UTC, ISO 8601.

    The source is what the process had loaded. (Older versions of the library noted what lay there when the
    run ended: the same, unless it was edited or committed meanwhile.)

    plan: of a run that a sweep trained, name and sha256 of its plan's file, see `rollpe.sweeps`: the seeds
    were fixed if the project's history has this plan before the run. (Older records have none.)
    """

    commit: str
    dirty: bool | None  # None: not known, because there is no repository
    source_hash: str
    command: str
    started: str
    finished: str
    wall_seconds: float = Field(ge=0)
    plan: str | None = Field(None, pattern=r"^\S.* [0-9a-f]{64}$")


class Record(_Plain):
    """Everything one run left behind. Accuracies are fractions in [0, 1].

    config: the full resolved recipe, so that it alone repeats the run.
    protocol: version of the training procedure; see rollpe.training.PROTOCOL.
    parameters: trained numbers in the model.
    resolutions: test accuracy by image size in pixels, the model seeing the larger or smaller grid.
    shifts: test accuracy by how many pixels the images were moved right and down.
    throughput: training images per second, evaluation left out; the median over epochs. (Of records made
    before 2026-11-21 18:00 UTC, the mean over the whole run, compiling included.)
    arrays_sha256: of the .npz beside the record; None without one. (Older records do not name it.)
    """

    schema_version: Literal[1] = 1
    protocol: int = Field(ge=1)
    recipe: RecipeName
    encoding: str = Field(min_length=1)
    encoding_options: dict[str, Any]
    seed: int = Field(ge=0)
    config: dict[str, Any]
    parameters: int = Field(ge=1)
    history: list[EpochMetrics]
    test: FinalMetrics
    resolutions: dict[Annotated[str, Field(pattern=r"^\d+$")], Share] = {}
    shifts: dict[Annotated[str, Field(pattern=r"^-?\d+$")], Share] = {}
    throughput: float = Field(gt=0)
    environment: Environment
    provenance: Provenance
    arrays_sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")

    @property
    def cell(self) -> Cell:
        return Cell(
            recipe=self.recipe,
            encoding=self.encoding,
            encoding_options=self.encoding_options,
            seed=self.seed,
        )

    def correct_bits(self) -> np.ndarray:
        """bool [images]: which test images the model got right, in file order."""
        return self.test.bits()


# Bits


def pack_bits(correct: np.ndarray) -> str:
    """bool [N] → base64 text, eight images to a byte, first image in the highest bit."""
    return base64.b64encode(np.packbits(np.asarray(correct, dtype=bool)).tobytes()).decode()


def unpack_bits(text: str, images: int) -> np.ndarray:
    """The inverse of pack_bits. Raises ValueError when the text does not hold `images` bits."""
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except binascii.Error as error:
        raise ValueError(f"correct is not base64 ({error})") from None
    if packed.size != -(-images // 8):
        raise ValueError(f"correct holds {packed.size} bytes, {images} images need {-(-images // 8)}")
    return np.unpackbits(packed, count=images).astype(bool)


# Names and places


def slug(name: str, options: dict[str, Any]) -> str:
    """`name@key=value,key=value` with sorted keys; just `name` without options.

    Everything but letters, digits and _.-~+ is percent-encoded, so a slug is one folder name and
    different options never share one.
    """
    text = quote(name, safe="+")
    if options:
        pairs = (
            f"{quote(key, safe='')}={quote(_value(value), safe='+')}"
            for key, value in sorted(options.items())
        )
        text += "@" + ",".join(pairs)
    return text


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def record_path(root: str | Path, record_or_cell: Record | Cell) -> Path:
    """`<root>/<recipe>/<encoding slug>/seed-<n>.json`."""
    cell = record_or_cell.cell if isinstance(record_or_cell, Record) else record_or_cell
    return Path(root) / cell.path.with_suffix(".json")


# Who may write


_held: set[tuple[int, int, Path]] = set()
"""The claims of this process, by process and thread: a fork holds none of its parent's."""


@contextmanager
def claim(root: str | Path, cell: Cell) -> Iterator[bool]:
    """Hold the right to train a cell; yields whether it was free, or held here already.

    root: folder of records or of checkpoints. The claim is a lock of the operating system, so that it is gone
    with its process, however that ends; a file in `.locks` that a killed process leaves holds nobody up.
    Where the filesystem has no locks, every cell is free, with a warning.
    """
    path = Path(root) / ".locks" / cell.path.with_suffix(".lock")
    holder = (os.getpid(), threading.get_ident(), path.resolve())
    if holder in _held:
        yield True
        return
    ensure_writable(path.parent)
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError) as error:
        if getattr(error, "errno", errno.ENOSYS) not in NO_LOCKS:
            raise
        logger.warning("%s: no locks on this filesystem. Let no two processes train one run.", root)
    _held.add(holder)
    try:
        yield True
    finally:
        _held.discard(holder)
        if lock.is_locked:
            with suppress(OSError):  # some systems remove no open file
                path.unlink()
        lock.release()


NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""What a filesystem says that has no locks."""


def sweep_up(path: Path) -> None:
    """Remove what processes that were killed while they wrote this record or checkpoint have left.

    For the holder of its claim alone: nobody else is writing then.
    """
    for left_over in path.parent.glob(f".{path.stem}.*.tmp"):
        left_over.unlink(missing_ok=True)


def ensure_writable(folder: Path) -> None:
    """Make the folder now: what forbids it must not be found after the last epoch."""
    way_out = "Choose another folder"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "no permission"
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.ENAMETOOLONG:
            way_out = "Name the recipe with --set name=mine"
    if reason:
        raise InputError(f"{folder}: cannot write there ({reason}). {way_out}.")


def expect_file(path: Path) -> None:
    """Refuse a folder, a device or a pipe: reading may wait for ever, and writing would replace it."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: a folder, a device or a pipe, and no file. Give another path.")


# Writing


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file so that whoever reads `path`, at whatever moment, finds the old or the new one.

    A temporary file in the same folder is written, forced to disk and renamed over `path`. An OSError names
    `path`, also where the system names no file. Raises InputError for what is no file.
    """
    path = Path(path)
    expect_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{path.parent}: a file is where the folder should be. Give another path.") from None
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself must survive a power cut, too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_record(root: str | Path, record: Record, **arrays: np.ndarray) -> Path:
    """Write a record under `root`, atomically, and return its path. An older one is replaced.

    arrays: what is too large for JSON; they are written first, into the .npz beside the record, which then
    names their digest.
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


def read_record(path: str | Path) -> Record:
    """Read and check one record. Raises InputError, one line naming the file, if it is unusable."""
    path = Path(path)
    try:
        content = json.loads(_content(path, RECORD_BYTES))
    except OSError as error:
        raise InputError(
            f"{path}: no record to read ({error.strerror}). Train it, or give another path."
        ) from None
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged, not JSON ({error}). Restore it or train anew.") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version={reprlib.repr(version)}, readable is {SCHEMA_VERSION}. "
            "Read it with the rollpe that wrote it, or train anew."
        )
    try:
        return Record.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ascii(".".join(str(part) for part in first["loc"]) or "record")[1:-1]
        raise InputError(f"{path}: damaged, {place}: {first['msg']}. Restore it or train anew.") from None


def _content(path: Path, most: int) -> bytes:
    """What a file holds, if it is one and has no more bytes than this."""
    expect_file(path)
    if path.stat().st_size > most:
        raise InputError(f"{path}: more than {most:,} bytes. Restore it or train anew.")
    return path.read_bytes()


def read_records(root: str | Path, recipe: str | None = None, encoding: str | None = None) -> list[Record]:
    """Every record under `root`, sorted by recipe, encoding and seed; [] if the folder is absent.

    encoding is a slug: "roll" means roll with its default options alone, never mixed with others.
    Raises InputError naming the first unreadable file, or a file that lies at another run's place.
    """
    root = Path(root)
    records = []
    for path in root.glob("*/*/seed-*.json"):
        record = read_record(path)
        if path != record_path(root, record):
            raise InputError(
                f"{path}: holds the run of {record_path(root, record)}. Move it there or delete it."
            )
        if recipe in (None, record.recipe) and encoding in (None, record.cell.slug):
            records.append(record)
    return sorted(records, key=lambda record: (record.recipe, record.cell.slug, record.seed))


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays beside the record at `path`; {} if it has none.

    Raises InputError, one line, if they are damaged or have not the digest that the record names.
    """
    path = Path(path)
    beside = path.with_suffix(".npz")
    if not beside.exists():
        return {}
    content = _content(beside, ARRAYS_BYTES)
    named = read_record(path).arrays_sha256 if path.exists() else None
    if named not in (None, hashlib.sha256(content).hexdigest()):
        raise InputError(
            f"{beside}: not the arrays of the record beside it, which names another digest. Restore both, "
            "train anew, or look into the model again with rollpe observe."
        )
    try:
        return _unpacked(content)
    except Exception as error:  # damaged bytes may raise anything, in zipfile, zlib or numpy
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{beside}: damaged ({reason}). Restore it or train anew.") from None


def _unpacked(content: bytes) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(member.file_size for member in archive.infolist()) > ARRAYS_BYTES:
            raise ValueError(f"it unpacks to more than {ARRAYS_BYTES:,} bytes")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def find_arrays(record: Record, folders: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """The arrays of a run from the first of several folders of records that has any; {} if none does."""
    found = (read_arrays(record_path(folder, record)) for folder in folders)
    return next(filter(None, found), {})


# Comparing


def comparable(a: Record, b: Record) -> list[str]:
    """Why the test results of two runs must not be compared; [] if they may.

    Encodings, their options and seeds may differ: they are what is compared. Everything else in
    the configuration has to agree, except the keys NOT_COMPARED. Machine and commit may differ;
    the version of the training procedure may not.
    """
    reasons = []
    if a.protocol != b.protocol:
        reasons.append(f"protocol: {a.protocol} and {b.protocol}")
    left, right = ADDED | flatten(a.config), ADDED | flatten(b.config)
    for key in sorted(left.keys() | right.keys()):
        if key in NOT_COMPARED:
            continue
        if key not in left or key not in right:
            reasons.append(f"{key}: only in {a.cell.path if key in left else b.cell.path}")
        elif left[key] != right[key]:
            reasons.append(f"{key}: {left[key]} and {right[key]}")
    if a.test.images != b.test.images:
        reasons.append(f"test images: {a.test.images} and {b.test.images}")
    return reasons


def flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} → {"a.b": 1}: keys as `--set` spells them."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


# Machine and source


def source_hash(only: Sequence[str] = ("",), also: Sequence[Path] = ()) -> str:
    """sha256 over names and contents of the package's .py and .yaml files, sorted by name.

    only: beginnings of the relative names to include; the default includes everything.
    also: files outside of the package that belong to it, such as that of an encoding.
    """
    return _with_files(_package_digest(PACKAGE, tuple(only)), also)


def loaded_hash(only: Sequence[str] = ("",), also: Sequence[Path] = ()) -> str:
    """`source_hash` of what this process runs: of the package as it was when the process first asked.

    A process keeps the code that it has imported, whatever is edited while it works.
    """
    return _with_files(_first_digest(PACKAGE, tuple(only)), also)


def _package_digest(package: Path, only: tuple[str, ...]) -> Any:
    inside = {
        path.relative_to(package).as_posix(): path
        for path in package.rglob("*")
        if path.suffix in (".py", ".yaml")
    }
    digest = hashlib.sha256()
    for name, path in sorted(inside.items()):
        if name.startswith(only):
            _add_file(digest, name, path)
    return digest


def _with_files(digest: Any, also: Sequence[Path]) -> str:
    whole = digest.copy()
    for path in also:
        _add_file(whole, path.name, path)
    hexadecimal: str = whole.hexdigest()
    return hexadecimal


def _add_file(digest: Any, name: str, path: Path) -> None:
    content = path.read_bytes()
    digest.update(f"{name}\0{len(content)}\0".encode() + content)


_first_digest = cache(_package_digest)


def environment(device: str) -> Environment:
    """Versions and hardware of this process, for a run on `device` ("cpu", "cuda:0", "mps")."""
    import timm
    import torch

    kind = torch.device(device).type
    cuda = kind == "cuda"
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        torch=torch.__version__,
        timm=timm.__version__,
        numpy=np.__version__,
        device=kind,
        device_name=torch.cuda.get_device_name(device) if cuda else _processor(),
        driver=_driver() if cuda else None,
        threads=torch.get_num_threads(),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine() or "unknown"


def _driver() -> str | None:
    listed = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return listed.split("\n")[0] if listed else None


def now() -> str:
    """The time in UTC to the second, as records hold it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Source(NamedTuple):
    """Commit, whether files differ from it, and hash; see `Provenance`."""

    commit: str
    dirty: bool | None
    source_hash: str


def loaded_source(outside: Sequence[Path] = ()) -> Source:
    """The source that this process runs, to be asked for before a run; see `loaded_hash`.

    outside: the files outside of the package that define its encoding, as they are now; the commit says
    nothing of them, the hash does.
    """
    return Source(*_first_commit(PACKAGE), loaded_hash(also=outside))


def provenance(
    command: str,
    started: str,
    wall_seconds: float,
    source: Source | None = None,
    plan: str | None = None,
) -> Provenance:
    """Of a run that has just finished: its source, beside what the caller knows of it.

    source: what `loaded_source` said before the run; by default the package as it lies there now.
    """
    source = source or Source(*_commit(PACKAGE), source_hash())
    return Provenance(
        **source._asdict(),
        command=command,
        started=started,
        finished=now(),
        wall_seconds=wall_seconds,
        plan=plan,
    )


SOURCE_VARIABLE = "ROLLPE_SOURCE"
"""Variable for a machine without the repository: the commit that the source was copied from and, after a
space, its `source_hash` there."""


def _commit(package: Path) -> tuple[str, bool | None]:
    """The commit a package belongs to, and whether it has changes; ("unknown", None) if to none."""
    git = ("git", "-C", str(package))
    # A package installed inside somebody else's repository must not borrow its commit.
    tracked = _output(*git, "ls-files", "--error-unmatch", "records.py")
    commit = _output(*git, "rev-parse", "HEAD") if tracked else None
    changes = _output(*git, "status", "--porcelain", "--", ".") if commit else None
    if not commit and SOURCE_VARIABLE in os.environ:
        commit, _, there = os.environ[SOURCE_VARIABLE].partition(" ")
        return commit, there != _package_digest(package, ("",)).hexdigest()
    return commit or "unknown", None if changes is None else bool(changes)


_first_commit = cache(_commit)


def _output(*command: str) -> str | None:
    """What a command prints, stripped; None if it is absent, fails, or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
