"""The one error of this package: something outside of the code is missing or in the way."""


class LocalError(Exception):
    """Something the person at the keyboard can put right.

    The message is one line: what is wrong, then the remedy. The command line prints it without a traceback.
    """

    code = 1
    """The exit code."""
