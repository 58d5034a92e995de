"""The client's exit codes: the same for every command, so that scripts can tell what happened."""

from enum import IntEnum

from ringfence.local.errors import LocalError


class Exit(IntEnum):
    """0 done, 1 local error, 2 wrong usage, 9 a wait that was too short, 10 a dry run that found changes; the others
    say what the server answered.
    """

    DONE = 0
    LOCAL = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    INVALID = 6
    UNKNOWN = 7
    NOT_REACHED = 8
    WAITED = 9
    CHANGES = 10


class ClientError(LocalError):
    """An error with a one-line message for the user, and the exit code."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = int(code)


def exit_of(status: int) -> Exit:
    """Return the exit code for an HTTP status. UNKNOWN: the request may or may not have been carried out."""
    match status:
        case 404:
            return Exit.NOT_FOUND
        case 401 | 403 | 429:
            return Exit.NOT_ALLOWED
        case 409 | 412:
            return Exit.CONFLICT
        case 503:
            return Exit.NOT_REACHED
        case _ if status < 500:
            return Exit.INVALID
        case _:
            return Exit.UNKNOWN
