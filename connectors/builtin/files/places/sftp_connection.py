"""The connection to an SFTP server: its settings, SSH, and reading in blocks."""

import base64
import hashlib
import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ringfence.connectors import egress, worker_limits
from ringfence.connectors.api import ConfigDef, ConfigType, ConnectorError, Importance, ParsedConfig, Width
from ringfence.connectors.builtin.files.places.base import secret

if TYPE_CHECKING:
    import paramiko

USER: Final = "sftp.user"
PASSWORD: Final = "sftp.password"  # noqa: S105 - the name of a setting
PRIVATE_KEY: Final = "sftp.private.key"
PASSPHRASE: Final = "sftp.private.key.passphrase"  # noqa: S105
HOST_KEY: Final = "sftp.host.key"

_GROUP: Final = "SFTP"
BLOCK_BYTES: Final = 4 << 20
_SECONDS: Final = 30.0


def define(definition: ConfigDef) -> ConfigDef:
    """Add the settings."""
    return (
        definition.define(USER, ConfigType.STRING, None, group=_GROUP, documentation="User of the SFTP server.")
        .define(PASSWORD, ConfigType.PASSWORD, None, group=_GROUP, documentation="The user's password.")
        .define(
            PRIVATE_KEY,
            ConfigType.PASSWORD,
            None,
            group=_GROUP,
            documentation="The user's private key, instead of a password: the text of the key file.",
            width=Width.LONG,
        )
        .define(
            PASSPHRASE,
            ConfigType.PASSWORD,
            None,
            importance=Importance.LOW,
            group=_GROUP,
            documentation="The passphrase of the private key, if it has one.",
        )
        .define(
            HOST_KEY,
            ConfigType.LIST,
            [],
            group=_GROUP,
            documentation="Fingerprints of the server's key, as ssh-keygen -l prints them: SHA256:… A server with "
            "another key is refused.",
            width=Width.LONG,
        )
    )


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


class Blocks(io.RawIOBase):
    """Reads blocks, each with many parallel requests: SFTP returns at most 32 KiB per request."""

    def __init__(self, handle: "paramiko.SFTPFile", size: int) -> None:
        self._handle = handle
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._position)
        if count <= 0:
            return 0
        with connection_errors("The SFTP server"):
            data = b"".join(self._handle.readv([(self._position, count)]))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
