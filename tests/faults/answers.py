"""How the command line answers, run within this process: bounded in time, captured, judged."""

from __future__ import annotations

import io
import signal
import sys
from contextlib import contextmanager

from rollpe.cli import main

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
