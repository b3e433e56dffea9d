"""The origin of a run: its machine, source and time, as a record holds them."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rollpe_lab import hashes
from rollpe_lab.records.record import Environment, Provenance


def environment(device: str) -> Environment:
    """Versions and hardware of this process, for a run on `device` ("cpu", "cuda:0", "mps")."""
    import torch  # noqa: PLC0415 (stamps of notebooks and the build graph load this module without it)

    kind = torch.device(device).type
    cuda = kind == "cuda"
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        torch=torch.__version__,
        timm=version("timm"),
        numpy=np.__version__,
        device=kind,
        device_name=torch.cuda.get_device_name(device) if cuda else processor(),
        driver=_driver() if cuda else None,
        threads=torch.get_num_threads(),
    )


def processor() -> str:
    """The processor's name, or what the system says in its place."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine() or "unknown"


def _driver() -> str | None:
    names = output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return names.split("\n")[0] if names else None


def now() -> str:
    """The time in UTC to the second, as records hold it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Source(NamedTuple):
    """Commit, whether files differ from it, and hashes; see `Provenance`."""

    commit: str
    dirty: bool | None
    source_hash: str
    training_hash: str | None = None
    encoding_hash: str | None = None


def loaded_source(outside: Sequence[Path] = ()) -> Source:
    """The source that this process runs; call it before a run. See `loaded_hash`.

    outside: the files outside of the package that define its encoding. The hashes cover them, the commit does
    not.
    """
    both = hashes.loaded_hash(outside), hashes.training_hash(outside)
    return Source(*_first_commit(hashes.SRC), *both, hashes.encoding_hash(outside))


def provenance(
    command: str,
    started: str,
    wall_seconds: float,
    source: Source | None = None,
    plan: str | None = None,
) -> Provenance:
    """The provenance of a run that has just finished.

    source: the result of `loaded_source` before the run; by default the packages as they are on disk now.
    """
    source = source or Source(*_commit(hashes.SRC), hashes.source_hash())
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


def _commit(src: Path) -> tuple[str, bool | None]:
    """The commit of the packages that train, and whether they have changes; ("unknown", None) without one."""
    git = ("git", "-C", str(src))
    # A package installed inside somebody else's repository must not borrow its commit.
    tracked = output(*git, "ls-files", "--error-unmatch", "rollpe/errors.py")
    commit = output(*git, "rev-parse", "HEAD") if tracked else None
    changes = output(*git, "status", "--porcelain", "--", *hashes.TRAINS) if commit else None
    if not commit and SOURCE_VARIABLE in os.environ:
        commit, _, there = os.environ[SOURCE_VARIABLE].partition(" ")
        return commit, there != hashes.source_digest(src).hexdigest()
    return commit or "unknown", None if changes is None else bool(changes)


_first_commit = cache(_commit)


def output(*command: str) -> str | None:
    """The stripped output of a command; None if it is absent, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
