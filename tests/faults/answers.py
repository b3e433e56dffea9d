"""What nobody should type, and how the command line answers: in this process, bounded in time, judged."""

from __future__ import annotations

import io
import signal
import sys
from contextlib import contextmanager

from rollpe.cli import main

# fmt: off
YAML = [
    "[", "{", "&a [*a]", "!!python/object/apply:os.system [id]", "[" * 3000, "{a: 1, a: 2}", "{1: 2}", "1:30",
    "1_0_0_", "1e309", "-1", "1", "2", "9" * 5000, "[10, 99999999999999999999]", "[-4]", "null", "true",
    ".nan", ".inf", "''", "2.5", "[[]]", "{}", "[]", "? a", "- a", ">", "%", "@", "*a", "<<: 1", "\u2028",
    "\t", "0.5", "[0.5, 0.5]", "roll", "a" * 300, "2020-01-01", "[1, 2, 3]", "100000", "64",
    "", "~", "!!python/name:os.system", "!!set {a}", "1_000", "[999999999999999999999999]", "é", "'",
    "|", "&a 1", "{a: " * 500, "none.yaml", "/dev/zero", "[roll, roll]", "[-1]", "[1.5]", "['0']", "? x",
    "- x", "---\n---", "%TAG ! x", "%YAML 3.0",
]
# fmt: on
"""What nobody should write as a value in YAML."""

BOUND = 120  # seconds; a hang has no end


class Hang(BaseException):
    """The time is over."""


@contextmanager
def bounded():
    def stop(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(BOUND)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def complaint(words: list[str], monkeypatch) -> str:
    """What is wrong with the way that a command line ends; "" if nothing is."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="latin1") for _ in range(2))
    with monkeypatch.context() as patch, bounded():
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            main(words)
            status = 0
        except SystemExit as stop:
            status = stop.code or 0
        except Hang:
            return "hangs"
        except BaseException as error:
            return f"{type(error).__name__}: {error}"[:300]
    err.flush()
    said = err.buffer.getvalue().decode("latin1")
    if status not in (0, 1, 2):
        return f"status {status}"
    if status == 2 and (said.count("\n") != 1 or not said.startswith("rollpe: ")):
        return f"says {said!r}"[:300]
    return "says Traceback" if "Traceback" in said else ""
