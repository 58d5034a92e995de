"""Where files are. To add a kind of place, add a module here and a line in `places.PLACES`."""

import io
import posixpath
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from ringfence.connectors.api import ConfigDef, ParsedConfig, Password


class FileInfo(NamedTuple):
    """A file in a listing.

    name: its path below the place, with slashes. etag: changes whenever the content does. modified: seconds since the
    epoch, by the place's clock.
    """

    name: str
    etag: str
    modified: float


class FileChanged(Exception):
    """The file has changed since it was listed, or it is gone."""


class OpenedFile(ABC):
    """One content of one file."""

    stream: Any
    """A seekable, buffered stream of bytes. What it returned is valid only if `check` does not raise afterwards."""

    @abstractmethod
    def check(self) -> None:
        """Raise `FileChanged` unless everything read so far belongs to the content that was opened."""

    @abstractmethod
    def close(self) -> None: ...


class Place(ABC):
    """A folder with files at any depth. All methods raise OSError if the place cannot be reached."""

    scheme: ClassVar[str]
    """The scheme of its addresses."""
    module: ClassVar[str | None] = None
    """The package that it needs in addition to Ringfence's own."""
    extra: ClassVar[str] = "files"
    """The extra of Ringfence that installs the package."""
    least_settle_ms: ClassVar[int] = 0
    """The smallest `settle.ms` with which different contents of the same size get different ETags; for coarse times."""
    address: str
    """Its address without a trailing slash: files have the address `{address}/{name}`."""

    settings: ClassVar[ConfigDef] = ConfigDef()
    """Its own settings."""

    @classmethod
    def find_problems(cls, settings: ParsedConfig) -> list[tuple[str, str]]:
        """Find contradictions among its own settings. Returns (setting, error) pairs."""
        return []

    @abstractmethod
    def __init__(self, url: str, settings: ParsedConfig) -> None:
        """Raises `ConnectorError` for a malformed address, and for a place that the worker does not allow."""

    @abstractmethod
    def check(self) -> None:
        """Raise OSError or `ConnectorError` unless the folder can be listed. Fast for any number of files."""

    def check_writable(self) -> None:  # noqa: B027 - optional to override
        """Raise `ConnectorError` if connectors must not delete or move files here."""

    @abstractmethod
    def list(self) -> Iterable[FileInfo]:
        """Yield all files, in any order, without those that have a dot at the beginning of their own or a folder's
        name.
        """

    @abstractmethod
    def open(self, file: FileInfo) -> OpenedFile:
        """Open a file. Raises `FileChanged` if it is not as listed."""

    def check_target(self, target: str) -> None:  # noqa: B027 - optional to override
        """Raise `ConnectorError` if files cannot be moved from here to that address of the same kind of place."""

    @abstractmethod
    def delete(self, file: FileInfo) -> None:
        """Delete this content. Does nothing if it is gone, or if another content has its name."""

    @abstractmethod
    def move(self, file: FileInfo, target: str) -> None:
        """Move this content to the same name below `target`, an address of the same kind of place."""

    def close(self) -> None:  # noqa: B027 - optional to override
        """Close its connections. Open files cannot be read any more."""


_ASIDE: Final = ".ringfence-"
"""The prefix of a file's name while it is deleted or moved."""


def put_aside(path: str, etag: str, rename: Callable[[str, str], object], etag_of: Callable[[str], str]) -> str | None:
    """Rename the file if its ETag is still this one. Returns its new path, or None if it is gone or was replaced."""
    folder, name = posixpath.split(path)
    aside = posixpath.join(folder, f"{_ASIDE}{time.monotonic_ns()}-{name}"[:255])
    try:
        rename(path, aside)
    except FileNotFoundError:
        return None
    if etag_of(aside) == etag:
        return aside
    rename(aside, path)  # another file has taken the name: it must be read
    return None


def is_hidden(name: str) -> bool:
    """Return whether the file is left out."""
    return name.startswith(".") or "/." in name


def secret(settings: ParsedConfig, name: str) -> str | None:
    """Return the text of a password; None if it is not set, or empty."""
    value = settings.get(name)
    return value.value if isinstance(value, Password) and value.value else None


_BLOCK_BYTES: Final = 8 << 20

Fetch = Callable[[int, int], bytes]
"""fetch(start, count): returns these bytes of the content that was opened. Raises `FileChanged` and OSError."""


class OpenedObject(OpenedFile):
    """Each block is requested with the ETag, so there is nothing to check afterwards."""

    def __init__(self, size: int, fetch: Fetch) -> None:
        self.stream: Any = io.BufferedReader(Blocks(size, partial(_fetch_whole, fetch)), _BLOCK_BYTES)

    def check(self) -> None:
        pass

    def close(self) -> None:
        self.stream.close()


def _fetch_whole(fetch: Fetch, start: int, count: int) -> bytes:
    data = fetch(start, count)
    if len(data) != count:
        raise OSError(f"{count} bytes were requested, and {len(data)} received")
    return data


class Blocks(io.RawIOBase):
    """Content of this size that is fetched block by block."""

    def __init__(self, size: int, fetch: Fetch) -> None:
        self._size, self._fetch, self._at = size, fetch, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        data = self._fetch(self._at, count)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
