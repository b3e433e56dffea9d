"""What tests of several rooms share about things that go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from rollpe.errors import InputError
from rollpe_lab.training.checkpoint import Checkpoint

FULL = OSError(28, "No space left on device")
REAL = Checkpoint.save


@contextmanager
def refused(says: str | None = None, kind: type[Exception] = InputError) -> Iterator[pytest.ExceptionInfo]:
    """What is done inside is refused in one line that matches a regular expression."""
    with pytest.raises(kind, match=says) as error:
        yield error
    assert "\n" not in str(error.value), error.value


def raising(error: BaseException | type[BaseException]) -> Mock:
    """A function that raises this whatever it is called with, and keeps the call."""
    return Mock(side_effect=error)


@contextmanager
def interrupted(epochs: int) -> Iterator[None]:
    """A run inside is interrupted after the checkpoint of this epoch; one is written after each."""

    def save(self, state, finished=False):
        REAL(self, state, finished)
        if len(state["history"]) == epochs:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("rollpe_lab.training.run.CHECKPOINT_SECONDS", 0.0)
        patch.setattr(Checkpoint, "save", save)
        yield
