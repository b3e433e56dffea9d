"""Scripts of the project called as somebody calls them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def python(*words: object, status: int = 0, cwd: Path | None = None, **more) -> subprocess.CompletedProcess:
    """Python with these words, which ends with this status: what it said."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, **more)
    assert done.returncode == status, done.stderr
    return done
