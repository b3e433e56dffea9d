"""The exception for errors that a person can repair."""

import errno

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
