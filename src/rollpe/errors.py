"""The exception for errors that a person can repair, and the plain checks of arguments that raise it."""

import difflib
import errno
import math
from collections.abc import Collection, Iterable
from numbers import Integral
from typing import Any

NOT_WRITABLE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR),
    errno.ENAMETOOLONG,
)
"""System errors that a person can repair: a full disk, a closed folder, a name too long."""


class InputError(ValueError):
    """A value from outside is unusable.

    Its message is one line: the value, what is allowed, the way out. The command line prints that
    line alone and exits with status 2.
    """


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a message: Did you mean 'roll'? Nothing where no known name is like this one."""
    close = difflib.get_close_matches(name.lower().replace("_", "-"), list(known), 1)
    return f" Did you mean {close[0]!r}?" if close else ""


def check_choice(label: str, value: Any, allowed: Collection[Any]) -> None:
    """Refuse a value that is not one of those allowed."""
    if value not in allowed:
        raise InputError(f"{label}={value!r} must be one of {', '.join(map(str, allowed))}.")


def check_whole(least: int, **values: Any) -> None:
    """Refuse values that are no integers of at least ``least``; True is none."""
    for label, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise InputError(f"{label}={value!r} must be an integer of at least {least}.")


def check_positive(**values: Any) -> None:
    """Refuse values that are no finite numbers above 0."""
    for label, value in values.items():
        if not 0 < value < math.inf:
            raise InputError(f"{label}={value!r} must be positive.")
