"""The one exception that a person can repair.

Everything here is about bad input; a failed computation raises whatever it raises.
"""

import errno

NOT_WRITABLE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR),
    errno.ENAMETOOLONG,
)
"""What the system says of a full disk, a closed folder and a name too long: one can repair these, too."""


class InputError(ValueError):
    """A value from outside is unusable.

    Its message is one line: the value, what is allowed, the way out. The command line prints that
    line alone and exits with status 2.
    """
