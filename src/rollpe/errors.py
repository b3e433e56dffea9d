"""The one exception that a person can repair.

Everything here is about bad input; a failed computation raises whatever it raises.
"""


class InputError(ValueError):
    """A value from outside is unusable.

    Its message is one line: the value, what is allowed, the way out. The command line prints that
    line alone and exits with status 2.
    """
