"""A folder of this machine, or one that all workers have mounted. It must be below the worker's `file.roots`."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, ClassVar
from urllib.parse import unquote, urlsplit

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.files.places.base import (
    FileChanged,
    FileInfo,
    OpenedFile,
    Place,
    is_hidden,
    put_aside,
)
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.sdk import files


class LocalFolder(Place):
    """`file:///folder`. Symbolic links in it are not followed."""

    scheme: ClassVar[str] = "file"

    def __init__(self, url: str, settings: ParsedConfig) -> None:
        self.path = _path_of(url)
        self.address = f"file://{self.path}"
        files.check(self.path)

    def check(self) -> None:
        if not os.path.isdir(self.path):
            raise ConnectorError(f"{self.path} is not a folder. Create it, or set one that every worker can read.")
        with os.scandir(self.path) as entries:
            next(entries, None)

    def check_writable(self) -> None:
        files.check_write(self.path)

    def list(self) -> Iterator[FileInfo]:
        files.check(self.path)
        for folder, folders, names in os.walk(self.path, onerror=_raise):
            folders[:] = [each for each in folders if not each.startswith(".")]
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.path)
                if is_hidden(relative):
                    continue
                try:
                    status = os.lstat(path)
                except FileNotFoundError:
                    continue  # deleted since the listing
                if stat.S_ISREG(status.st_mode):
                    yield FileInfo(relative, _etag(status), status.st_mtime)

    def open(self, file: FileInfo) -> OpenedFile:
        try:
            descriptor = files.open_allowed(self._path(file), os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise FileChanged(str(error)) from error
        opened = _OpenedFile(os.fdopen(descriptor, "rb", 1 << 20), file)
        try:
            opened.check()
        except FileChanged:
            opened.close()
            raise
        return opened

    def delete(self, file: FileInfo) -> None:
        if aside := self._put_aside(file):
            os.unlink(aside)

    def move(self, file: FileInfo, target: str) -> None:
        folder = _path_of(target)
        files.check_write(folder)
        place = Path(folder, file.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if aside := self._put_aside(file):
            try:
                os.rename(aside, _free_name(place))
            except OSError:
                os.rename(aside, self._path(file))  # so that the next try finds it
                raise

    def _put_aside(self, file: FileInfo) -> str | None:
        """Rename the file if it is still the one that was read. Returns None if it is gone or was replaced."""
        path = self._path(file)
        files.check_write(os.path.dirname(path))
        return put_aside(path, file.etag, os.rename, lambda aside: _etag(os.lstat(aside)))

    def _path(self, file: FileInfo) -> str:
        return os.path.join(self.path, file.name)


class _OpenedFile(OpenedFile):
    def __init__(self, stream: BinaryIO, file: FileInfo) -> None:
        self.stream = stream
        self._file = file

    def check(self) -> None:
        if _etag(os.fstat(self.stream.fileno())) != self._file.etag:
            raise FileChanged(self._file.name)

    def close(self) -> None:
        self.stream.close()


def _etag(status: os.stat_result) -> str:
    """Build an ETag from size and time, as web servers do: writing to a file changes it."""
    return f"{status.st_size:x}-{status.st_mtime_ns:x}"


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise ConnectorError(f"{URL} {url!r} must have the form file:///folder, with an absolute path.")
    return os.path.normpath(path)


def _free_name(place: Path) -> Path:
    """Return the path itself, or one with a number if it is taken."""
    number = 0
    free = place
    while free.exists():
        number += 1
        free = place.with_name(f"{place.name}.{number}")
    return free


def _raise(error: OSError) -> None:
    raise error
