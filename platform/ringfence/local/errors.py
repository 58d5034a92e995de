"""The one error of this package: something outside of the code is missing or in the way."""

import errno


class LocalError(Exception):
    """Something the person at the keyboard can put right.

    The message is one line: what is wrong, then the remedy. The command line prints it without a traceback.
    """

    code = 1
    """The exit code."""


def explain_os_error(error: OSError) -> str:
    """What the operating system refused, with the remedy where it is known."""
    if error.errno == errno.ENOSPC:
        return "the disk is full: make room on it"
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
