"""A folder of an SFTP server, over one SSH connection per task."""

import io
import posixpath
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import unquote, urlsplit

from ringfence.connectors.api import ConfigDef, ConnectorError, ParsedConfig
from ringfence.connectors.builtin.files.places.base import FileChanged, FileInfo, OpenedFile, Place, is_hidden
from ringfence.connectors.builtin.files.places.sftp_connection import (
    BLOCK_BYTES,
    PASSPHRASE,
    PASSWORD,
    PRIVATE_KEY,
    USER,
    Blocks,
    Login,
    connect,
    connection_errors,
    define,
)
from ringfence.connectors.builtin.files.settings import URL

if TYPE_CHECKING:
    import paramiko

_DEEPEST: Final = 100
"""A server could name folders in folders without end."""
_ASIDE: Final = ".ringfence-"
"""The prefix of a file's name while it is deleted or moved."""


class SftpFolder(Place):
    """`sftp://host:port/folder`. Symbolic links in it are not followed.

    SFTP reports modification times in whole seconds. Two contents of the same size and second would look alike, so a
    file is read only after it has stayed the same for a second.
    """

    scheme: ClassVar[str] = "sftp"
    module: ClassVar[str | None] = "paramiko"
    least_settle_ms: ClassVar[int] = 1000

    @classmethod
    def define(cls, definition: ConfigDef) -> ConfigDef:
        return define(definition)

    @classmethod
    def find_problems(cls, settings: ParsedConfig) -> list[tuple[str, str]]:
        problems = []
        if settings.get(PASSWORD) is not None and settings.get(PRIVATE_KEY) is not None:
            problems.append((PRIVATE_KEY, f"Set {PASSWORD} or {PRIVATE_KEY}, not both."))
        if settings.get(PASSPHRASE) is not None and settings.get(PRIVATE_KEY) is None:
            problems.append((PASSPHRASE, f"Needs {PRIVATE_KEY}."))
        return problems

    def __init__(self, url: str, settings: ParsedConfig) -> None:
        self._host, self._port, self._path = _parts_of(url)
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.address = f"sftp://{host}{'' if self._port == 22 else f':{self._port}'}{self._path}".rstrip("/")
        self._login = Login.of(settings)
        self._client: paramiko.SFTPClient | None = None

    def check(self) -> None:
        with self._connection() as client:
            try:
                folder = client.stat(self._path or "/")
            except FileNotFoundError as error:
                raise ConnectorError(f"There is no folder {self._path} on {self._host}. Create it.") from error
            if not stat.S_ISDIR(folder.st_mode or 0):
                raise ConnectorError(f"{self._path} on {self._host} is not a folder.")

    def check_target(self, target: str) -> None:
        host, port, _ = _parts_of(target)
        if (host, port) != (self._host, self._port):
            raise ConnectorError(f"Files can be moved only within {self._host}: set a folder of the same server.")

    def list(self) -> Iterator[FileInfo]:
        with self._connection() as client:
            folders = [""]
            while folders:
                folder = folders.pop()
                for entry in client.listdir_attr(posixpath.join(self._path or "/", folder)):
                    if "/" in entry.filename or "\0" in entry.filename or not entry.filename:
                        continue  # not a name: no file of the folder can have it
                    name = posixpath.join(folder, entry.filename)
                    if is_hidden(name):
                        continue
                    if stat.S_ISDIR(entry.st_mode or 0):
                        if name.count("/") < _DEEPEST:
                            folders.append(name)
                    elif stat.S_ISREG(entry.st_mode or 0):
                        yield FileInfo(name, _etag(entry), float(entry.st_mtime or 0))

    def open(self, file: FileInfo) -> OpenedFile:
        with self._connection() as client:
            try:
                handle = client.open(self._path_of(file), "rb")
            except FileNotFoundError as error:
                raise FileChanged(str(error)) from error
            opened = _OpenedFile(handle, file)
            try:
                opened.check()
            except BaseException:
                opened.close()
                raise
            return opened

    def delete(self, file: FileInfo) -> None:
        with self._connection() as client:
            if aside := self._put_aside(client, file):
                client.remove(aside)

    def move(self, file: FileInfo, target: str) -> None:
        self.check_target(target)
        place = posixpath.join(_parts_of(target)[2] or "/", file.name)
        with self._connection() as client:
            _make_folders(client, posixpath.dirname(place))
            if aside := self._put_aside(client, file):
                try:
                    client.rename(aside, _free_name(client, place))
                except OSError:
                    client.rename(aside, self._path_of(file))  # so that the next try finds it
                    raise

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.get_channel().get_transport().close()  # type: ignore[union-attr]

    def _put_aside(self, client: "paramiko.SFTPClient", file: FileInfo) -> str | None:
        """Rename the file if it is still the one that was read. Returns None if it is gone or was replaced."""
        path = self._path_of(file)
        folder, name = posixpath.split(path)
        aside = posixpath.join(folder, f"{_ASIDE}{time.monotonic_ns()}-{name}"[:255])
        try:
            client.rename(path, aside)
        except FileNotFoundError:
            return None
        if _etag(client.lstat(aside)) == file.etag:
            return aside
        client.rename(aside, path)  # another file has taken the name: it must be read
        return None

    def _path_of(self, file: FileInfo) -> str:
        return posixpath.join(self._path or "/", file.name)

    @contextmanager
    def _connection(self) -> "Iterator[paramiko.SFTPClient]":
        """Yield the client. After a connection error, the next call makes a new one."""
        with connection_errors(self._host):
            if self._client is not None and not _is_open(self._client):
                self.close()
            if self._client is None:
                self._client = connect(self._host, self._port, self._login)
            try:
                yield self._client
            except (FileNotFoundError, PermissionError, FileChanged, ConnectorError, GeneratorExit):
                raise
            except BaseException:
                self.close()
                raise


class _OpenedFile(OpenedFile):
    def __init__(self, handle: "paramiko.SFTPFile", file: FileInfo) -> None:
        self._handle = handle
        self._file = file
        size = int(file.etag.partition("-")[0], 16)
        self.stream = io.BufferedReader(Blocks(handle, size), BLOCK_BYTES)

    def check(self) -> None:
        with connection_errors("The SFTP server"):
            if _etag(self._handle.stat()) != self._file.etag:
                raise FileChanged(self._file.name)

    def close(self) -> None:
        with suppress(Exception):  # the connection may be gone, and the handle with it
            self._handle.close()


def _parts_of(url: str) -> tuple[str, int, str]:
    """Return host, port and folder."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port or 22
    except ValueError:
        host, port, parts = None, 22, urlsplit("")
    path = posixpath.normpath(unquote(parts.path)) if parts.path else "/"
    if parts.scheme != "sftp" or not host or not path.startswith("/") or parts.query or parts.fragment:
        raise ConnectorError(f"{URL} {url!r} must have the form sftp://host/folder or sftp://host:port/folder.")
    if parts.username is not None:
        raise ConnectorError(f"{URL}: set the user in {USER}, not in the address.")
    return host, port, path.rstrip("/")


def _is_open(client: "paramiko.SFTPClient") -> bool:
    channel = client.get_channel()
    return channel is not None and not channel.closed


def _etag(attributes: "paramiko.SFTPAttributes") -> str:
    """Build an ETag from size and time, as web servers do."""
    return f"{attributes.st_size or 0:x}-{int(attributes.st_mtime or 0):x}"


def _make_folders(client: "paramiko.SFTPClient", path: str) -> None:
    missing = []
    while path not in ("", "/") and not _exists(client, path):
        missing.append(path)
        path = posixpath.dirname(path)
    for each in reversed(missing):
        client.mkdir(each)


def _free_name(client: "paramiko.SFTPClient", place: str) -> str:
    """Return the path itself, or one with a number if it is taken."""
    number, free = 0, place
    while _exists(client, free):
        number += 1
        free = f"{place}.{number}"
    return free


def _exists(client: "paramiko.SFTPClient", path: str) -> bool:
    try:
        client.lstat(path)
    except FileNotFoundError:
        return False
    return True
