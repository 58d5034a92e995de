"""The error of this package: something outside of the code is missing or prevents the action."""

import errno


class LocalError(Exception):
    """An error that the user at the terminal can fix.

    The message is one line: the error, then the remedy. The command line prints it without a traceback.
    """

    code = 1
    """The exit code."""


def explain_os_error(error: OSError) -> str:
    """Return the operating system's error, with the remedy if it is known."""
    if error.errno == errno.ENOSPC:
        return "the disk is full: free some space"
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
