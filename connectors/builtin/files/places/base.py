"""Where files are. A new kind of place is a module beside this one, and a line in `places.PLACES`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from ringfence.connectors.api import ParsedConfig


class FileInfo(NamedTuple):
    """A file as it was listed.

    name: its path below the place, with slashes; etag: changes whenever its content does; modified: seconds since the
    epoch, by the clock of the place.
    """

    name: str
    etag: str
    modified: float


class FileChanged(Exception):
    """The file is not the one that was listed any more, or it is gone."""


class OpenedFile(ABC):
    """One content of one file."""

    stream: Any
    """Seekable, of bytes, buffered. What it reads counts only if `check` says nothing afterwards."""

    @abstractmethod
    def check(self) -> None:
        """Raises `FileChanged` unless all that was read so far belongs to the content that was opened."""

    @abstractmethod
    def close(self) -> None: ...


class Place(ABC):
    """A folder with the files in it, at any depth. All methods raise OSError where the place cannot be reached."""

    scheme: ClassVar[str]
    """The first part of its addresses."""
    module: ClassVar[str | None] = None
    """The package that it needs beside Ringfence's own, which the extra `files` brings."""
    address: str
    """Without a slash at its end: files have the address `{address}/{name}`."""

    @abstractmethod
    def __init__(self, url: str, settings: ParsedConfig) -> None:
        """Raises `ConnectorError` for a place that the worker does not allow, and for an address without sense."""

    @abstractmethod
    def check(self) -> None:
        """Raises OSError or `ConnectorError` unless the folder can be listed. Quick, whatever is in it."""

    def check_writable(self) -> None:  # noqa: B027 - optional to override
        """Raises `ConnectorError` where connectors may not delete or move files here."""

    @abstractmethod
    def list(self) -> Iterable[FileInfo]:
        """All files, in no order; none whose name, or the name of whose folder, begins with a dot."""

    @abstractmethod
    def open(self, file: FileInfo) -> OpenedFile:
        """Raises `FileChanged` where it is not as it was listed."""

    @abstractmethod
    def delete(self, file: FileInfo) -> None:
        """Delete this content; one that took its place stays. Nothing happens where it is gone."""

    @abstractmethod
    def move(self, file: FileInfo, target: str) -> None:
        """Move this content to the same name below `target`, an address of the same kind of place."""


def is_hidden(name: str) -> bool:
    """Whether the file is left out."""
    return name.startswith(".") or "/." in name
