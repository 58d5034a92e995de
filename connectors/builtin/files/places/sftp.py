"""A folder of an SFTP server, over one SSH connection per task, to allowed addresses only."""

import base64
import hashlib
import io
import posixpath
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from ringfence.connectors.api import ConfigDef, ConnectorError, Importance, ParsedConfig
from ringfence.connectors.builtin.files.places.base import (
    Blocks,
    FileChanged,
    FileInfo,
    OpenedFile,
    Place,
    is_hidden,
    put_aside,
    secret,
)
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.sdk import egress, worker_limits

if TYPE_CHECKING:
    import paramiko

SETTINGS: Final = ConfigDef()
_settings: Final = SETTINGS.group("SFTP")
USER: Final = _settings.text("sftp.user", "User of the SFTP server.", None)
PASSWORD: Final = _settings.secret("sftp.password", "The user's password.")
PRIVATE_KEY: Final = _settings.secret(
    "sftp.private.key", "The user's private key, instead of a password: the text of the key file."
)
PASSPHRASE: Final = _settings.secret(
    "sftp.private.key.passphrase", "The passphrase of the private key, if it has one.", importance=Importance.LOW
)
HOST_KEY: Final = _settings.items(
    "sftp.host.key",
    "Fingerprints of the server's key, as ssh-keygen -l prints them: SHA256:… A server with another key is refused.",
)

BLOCK_BYTES: Final = 4 << 20
_SECONDS: Final = 30.0


class Login(NamedTuple):
    """The user's credentials, and the server's expected host keys."""

    user: str
    password: str | None
    key: "paramiko.PKey | None"
    host_keys: tuple[str, ...]
    """Fingerprints."""

    @staticmethod
    def of(settings: ParsedConfig) -> "Login":
        """Read the settings. Raises `ConnectorError` if one is missing, or the key cannot be read."""
        user = str(settings.get(USER) or "").strip()
        password, text = secret(settings, PASSWORD), secret(settings, PRIVATE_KEY)
        if not user or (password is None and text is None):
            raise ConnectorError(f"Set {USER}, and {PASSWORD} or {PRIVATE_KEY}, to sign in.")
        key = _read_key(text, secret(settings, PASSPHRASE)) if text is not None else None
        return Login(user, password, key, tuple(each.rstrip("=") for each in settings.strings(HOST_KEY)))


def connect(host: str, port: int, login: Login) -> "paramiko.SFTPClient":
    """Open the connection. Raises OSError, `ConnectorError` and paramiko's errors; see `connection_errors`."""
    import paramiko

    transport = paramiko.Transport(_open_socket(host, port))
    try:
        transport.banner_timeout = transport.auth_timeout = transport.channel_timeout = _SECONDS
        transport.start_client(timeout=_SECONDS)
        _check_host_key(host, login, transport.get_remote_server_key())
        if login.key is not None:
            transport.auth_publickey(login.user, login.key)
        else:
            transport.auth_password(login.user, login.password or "")
        transport.set_keepalive(15)
        client = paramiko.SFTPClient.from_transport(transport)
        if client is None:
            raise OSError(f"{host} has no SFTP")
        client.get_channel().settimeout(_SECONDS)  # type: ignore[union-attr]
        return client
    except BaseException:
        transport.close()
        raise


def _check_host_key(host: str, login: Login, key: "paramiko.PKey") -> None:
    """Check the server's key, before anything secret is sent."""
    fingerprint = "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    if fingerprint in login.host_keys:
        return
    if not login.host_keys:
        raise ConnectorError(
            f"{HOST_KEY} is not set. {host} showed the key {fingerprint} ({key.get_name()}): confirm it with the "
            "server's administrator, and set it."
        )
    raise ConnectorError(
        f"{host} showed the key {fingerprint} ({key.get_name()}), which is not in {HOST_KEY}. Either the server has "
        "a new key, which its administrator can confirm, or another server is impersonating it."
    )


@contextmanager
def connection_errors(host: str) -> Iterator[None]:
    """Translate errors: permanent ones to `ConnectorError`, others to OSError."""
    import paramiko

    try:
        yield
    except paramiko.AuthenticationException as error:
        raise ConnectorError(
            f"{host} refuses the user or the credentials. Check {USER}, and {PASSWORD} or {PRIVATE_KEY}."
        ) from error
    except PermissionError as error:
        raise ConnectorError(
            f"{host} denies access: {error}. Give the user the permission to read the folder, and to write to it if "
            "files are deleted or moved."
        ) from error
    except (paramiko.SSHException, EOFError) as error:
        raise OSError(f"{host} closed the connection: {str(error) or 'it is closed'}") from error


def _open_socket(host: str, port: int) -> socket.socket:
    """Open a connection to an allowed address."""
    policy = egress.Policy(worker_limits.current().egress)
    try:
        addresses = policy.addresses(host, port)
    except egress.EgressDenied as error:
        raise ConnectorError(f"{error}.") from error
    except UnicodeError as error:
        raise ConnectorError(f"{host!r} is not a host name.") from error
    for number, address in enumerate(addresses, 1):
        try:
            return socket.create_connection((address, port), timeout=10)
        except OSError:
            if number == len(addresses):
                raise
    raise OSError(f"{host} has no address")


def _read_key(text: str, passphrase: str | None) -> "paramiko.PKey":
    import paramiko

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with suppress(paramiko.SSHException, ValueError, TypeError, IndexError):
            return kind.from_private_key(io.StringIO(text), passphrase)
    raise ConnectorError(
        f"{PRIVATE_KEY} cannot be read. Set the whole text of an Ed25519, ECDSA or RSA key file in OpenSSH's or PEM "
        f"format, and {PASSPHRASE} if it has a passphrase."
    )


_DEEPEST: Final = 100
"""A server could name folders in folders without end."""


class SftpFolder(Place):
    """`sftp://host:port/folder`. Symbolic links in it are not followed.

    SFTP reports modification times in whole seconds. Two contents of the same size and second would look alike, so a
    file is read only after it has stayed the same for a second.
    """

    scheme: ClassVar[str] = "sftp"
    module: ClassVar[str | None] = "paramiko"
    settings: ClassVar[ConfigDef] = SETTINGS
    least_settle_ms: ClassVar[int] = 1000

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
        return put_aside(self._path_of(file), file.etag, client.rename, lambda aside: _etag(client.lstat(aside)))

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
        self.stream = io.BufferedReader(Blocks(size, self._fetch), BLOCK_BYTES)

    def _fetch(self, start: int, count: int) -> bytes:
        """Fetch a block with many parallel requests: SFTP returns at most 32 KiB per request."""
        with connection_errors("The SFTP server"):
            return b"".join(self._handle.readv([(start, count)]))

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
