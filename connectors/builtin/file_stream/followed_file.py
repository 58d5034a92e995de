"""A file that is followed while other programs append to it. Notices that it was replaced, truncated or deleted."""

import os
import stat

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.files import open_allowed

CHUNK_BYTES = 1 << 20


class FollowedFile:
    """An open file, read from a position on. Raises `ConnectorError` if it is shorter than that."""

    def __init__(self, path: str, position: int) -> None:
        self._path = path
        self._file = _open(path)
        self._read_to = position
        self.size = os.fstat(self._file).st_size
        """In bytes, when it was opened."""
        if self.size < position:
            self.close()
            raise _shorter(path, self.size, position)

    def read(self) -> bytes:
        """Return the next chunk; b"" at the end of the file. Raises `RetriableError`."""
        try:
            chunk = os.pread(self._file, CHUNK_BYTES, self._read_to)
        except OSError as error:
            raise RetriableError(f"File {self._path} cannot be read at byte {self._read_to}: {error}.") from error
        self._read_to += len(chunk)
        return chunk

    def check_still_the_same(self, delivered: int) -> None:
        """Compare what was read with the current file. Called only at the end of the file.

        delivered: the position after the last line that was delivered, for messages.
        """
        opened = os.fstat(self._file)
        if opened.st_size < self._read_to:
            raise _shorter(self._path, opened.st_size, self._read_to)
        try:
            current = os.stat(self._path)
        except OSError as error:
            raise ConnectorError(
                f"File {self._path} is gone ({error.strerror}). All lines up to byte {delivered} were "
                "delivered. Restore the file and restart the task, or delete the connector."
            ) from error
        if (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino):
            raise ConnectorError(
                f"File {self._path} was replaced by another file. All lines of the old file up to byte "
                f"{delivered} were delivered. To read the new file from its beginning, stop the connector, "
                "reset its offsets and resume it."
            )

    def close(self) -> None:
        os.close(self._file)


def _open(path: str) -> int:
    try:
        file = open_allowed(path)  # non-blocking: opening a pipe must not hang
    except OSError as error:
        raise ConnectorError(unreadable(path, error)) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ConnectorError(not_a_file(path))
    return file


def unreadable(path: str, error: OSError) -> str:
    """Return a message: why the file cannot be opened, and the remedy."""
    if isinstance(error, FileNotFoundError):
        return f"File {path} does not exist. Create it, or set the path of a file that every worker can read."
    return f"File {path} cannot be read ({error.strerror}). Give the worker's user the permission to read it."


def not_a_file(path: str) -> str:
    return f"{path} is not a regular file. Set the path of a regular file: only there do positions have a meaning."


def _shorter(path: str, size: int, position: int) -> ConnectorError:
    return ConnectorError(
        f"File {path} has {size} bytes, but was read up to byte {position} before: it was truncated or replaced. To "
        "read it from its beginning, stop the connector, reset its offsets and resume it."
    )
