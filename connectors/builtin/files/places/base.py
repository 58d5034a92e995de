"""Where files are. A new kind of place is a module beside this one, and a line in `places.PLACES`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from ringfence.connectors.api import ConfigDef, ParsedConfig, Password


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
    """The package that it needs beside Ringfence's own."""
    extra: ClassVar[str] = "files"
    """Of Ringfence: what brings that package."""
    least_settle_ms: ClassVar[int] = 0
    """The smallest `settle.ms` with which two contents of one size have two ETags, where times are coarse."""
    address: str
    """Without a slash at its end: files have the address `{address}/{name}`."""

    @classmethod
    def define(cls, definition: ConfigDef) -> ConfigDef:
        """Add the settings of its own."""
        return definition

    @classmethod
    def find_problems(cls, settings: ParsedConfig) -> list[tuple[str, str]]:
        """Of its own settings among themselves, by setting."""
        return []

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

    def check_target(self, target: str) -> None:  # noqa: B027 - optional to override
        """Raises `ConnectorError` where files cannot be moved from here to that address of the same kind of place."""

    @abstractmethod
    def delete(self, file: FileInfo) -> None:
        """Delete this content; one that took its place stays. Nothing happens where it is gone."""

    @abstractmethod
    def move(self, file: FileInfo, target: str) -> None:
        """Move this content to the same name below `target`, an address of the same kind of place."""

    def close(self) -> None:  # noqa: B027 - optional to override
        """End its connections. Files that are open cannot be read any more."""


def is_hidden(name: str) -> bool:
    """Whether the file is left out."""
    return name.startswith(".") or "/." in name


def secret(settings: ParsedConfig, name: str) -> str | None:
    """The text of a password; None where it is not set or empty."""
    value = settings.get(name)
    return value.value if isinstance(value, Password) and value.value else None
