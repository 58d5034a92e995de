"""Objects of a bucket of Amazon S3, or of another server with its protocol, at allowed addresses only."""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from ringfence.connectors.api import ConfigDef, ConnectorError, Importance, ParsedConfig
from ringfence.connectors.builtin.files.places.base import FileChanged, FileInfo, OpenedFile, Place, is_hidden, secret
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.sdk import egress, worker_limits

SETTINGS: Final = ConfigDef()
_settings: Final = SETTINGS.group("S3")
ACCESS_KEY: Final = _settings.text("s3.access.key", "Access key. If it is not set, access is anonymous.", None)
SECRET_KEY: Final = _settings.secret("s3.secret.key", "Secret key.")
SESSION_TOKEN: Final = _settings.secret(
    "s3.session.token", "Session token of temporary keys.", importance=Importance.LOW
)
REGION: Final = _settings.text("s3.region", "Region of the bucket.", "us-east-1")
ENDPOINT: Final = _settings.text(
    "s3.endpoint.url",
    "The address of another server with S3's protocol, such as https://minio.example.com:9000.",
    None,
    importance=Importance.LOW,
)
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")


def connect(settings: ParsedConfig) -> Any:
    import s3fs

    region = settings.string(REGION)
    if not _REGION.fullmatch(region):
        raise ConnectorError(f"{REGION} {region!r} is not the name of a region, such as eu-central-1.")
    endpoint = str(settings.get(ENDPOINT) or "").strip() or None
    policy = egress.Policy(worker_limits.current().egress)
    _check_endpoint(endpoint or f"https://s3.{region}.amazonaws.com", policy)
    access_key = settings.get(ACCESS_KEY) or None
    judged: set[str] = set()
    return s3fs.S3FileSystem(
        anon=access_key is None,
        key=access_key,
        secret=secret(settings, SECRET_KEY),
        token=secret(settings, SESSION_TOKEN),
        endpoint_url=endpoint,
        client_kwargs={"region_name": region},
        config_kwargs={
            "connect_timeout": 5,
            "read_timeout": 30,
            "retries": {"max_attempts": 3, "mode": "standard"},
            # With virtual-hosted addresses, a bucket's name could lead to any host.
            "s3": {"addressing_style": "path" if endpoint else "auto"},
            "connector_args": {
                "resolver": _resolver(policy, judged),
                "socket_factory": _socket_factory(policy, judged),
            },
        },
        use_listings_cache=False,
        skip_instance_cache=True,
    )


def _check_endpoint(endpoint: str, policy: egress.Policy) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise ConnectorError(f"{ENDPOINT} must have the form https://host:port.")
    try:
        policy.addresses(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    except egress.EgressDenied as error:
        raise ConnectorError(f"{ENDPOINT}: {error}.") from error
    except (OSError, UnicodeError):
        pass  # the connection reports a name without an address


def _socket_factory(policy: egress.Policy, judged: set[str]) -> Any:
    """Return aiohttp's maker of sockets, which judges what no resolver has: addresses in place of a name."""

    def open_socket(info: Any) -> socket.socket:
        family, kind, protocol, _, where = info
        if where[0] not in judged:
            try:
                policy.addresses(where[0], where[1])
            except egress.EgressDenied as error:
                raise OSError(str(error)) from error
        client_socket = socket.socket(family, kind, protocol)
        client_socket.setblocking(False)
        return client_socket

    return open_socket


def _resolver(policy: egress.Policy, judged: set[str]) -> Any:
    """Return a resolver that looks a name up for each connection, and returns allowed addresses only. It adds them to
    `judged`."""
    from aiohttp.abc import AbstractResolver
    from aiohttp.resolver import ThreadedResolver

    class GuardedResolver(AbstractResolver):
        def __init__(self) -> None:
            self._inner: ThreadedResolver | None = None

        async def resolve(self, host: str, port: int = 0, family: Any = 0) -> Any:
            if self._inner is None:
                self._inner = ThreadedResolver()  # must be created in the loop that uses it
            addresses = await self._inner.resolve(host, port, family)
            try:
                policy.addresses(host, port, lambda *_: [each["host"] for each in addresses])
            except egress.EgressDenied as error:
                raise OSError(str(error)) from error
            judged.update(each["host"] for each in addresses)
            return addresses

        async def close(self) -> None:
            if self._inner is not None:
                await self._inner.close()

    return GuardedResolver()


_BLOCK_BYTES: Final = 8 << 20
_ADDRESS: Final = re.compile(r"s3://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]{1,254})(?:/(?P<prefix>.*))?")


class S3Prefix(Place):
    """`s3://bucket/prefix`.

    Signs in only with the credentials in the configuration, never with the worker's own keys. Without an access key,
    access is anonymous. Each block is requested with the ETag of the listing (S3's If-Match), so that an overwritten
    object is never read as a mixture of both.
    """

    scheme: ClassVar[str] = "s3"
    module: ClassVar[str | None] = "s3fs"
    settings: ClassVar[ConfigDef] = SETTINGS

    @classmethod
    def find_problems(cls, settings: ParsedConfig) -> list[tuple[str, str]]:
        if (settings.get(ACCESS_KEY) is None) != (settings.get(SECRET_KEY) is None):
            return [(SECRET_KEY, f"Set both {ACCESS_KEY} and {SECRET_KEY}, or neither.")]
        return []

    def __init__(self, url: str, settings: ParsedConfig) -> None:
        self._bucket, self._prefix = _parts_of(url)
        self.address = f"s3://{self._bucket}/{self._prefix}".rstrip("/")
        self._files = connect(settings)

    def check(self) -> None:
        try:
            with _errors():
                self._files.call_s3("list_objects_v2", Bucket=self._bucket, Prefix=self._folder, MaxKeys=1)
        except FileChanged as error:
            raise ConnectorError(
                f"There is no bucket {self._bucket}. Create it, or set another one in {URL}."
            ) from error

    def list(self) -> Iterator[FileInfo]:
        start = len(f"{self._bucket}/{self._folder}")
        self.check()
        try:
            with _errors():
                files = self._files.find(f"{self._bucket}/{self._folder}", detail=True)
        except FileChanged:
            files = {}  # nothing has the prefix
        for path, info in files.items():
            name = path[start:]
            if info["type"] == "file" and name and not name.endswith("/") and not is_hidden(name):
                yield FileInfo(name, info["ETag"].strip('"'), info["LastModified"].timestamp())

    def open(self, file: FileInfo) -> OpenedFile:
        with _errors():
            opened = self._files.open(
                self._path(file), "rb", block_size=_BLOCK_BYTES, cache_type="readahead", fill_cache=False
            )
        if opened.details["ETag"].strip('"') != file.etag:
            opened.close()
            raise FileChanged(file.name)
        return _OpenedObject(opened)

    def delete(self, file: FileInfo) -> None:
        with suppress(FileChanged), _errors():
            if self._still_there(file):
                self._files.rm_file(self._path(file))

    def move(self, file: FileInfo, target: str) -> None:
        bucket, prefix = _parts_of(target)
        place = "/".join(filter(None, (bucket, prefix.strip("/"), file.name)))
        with suppress(FileChanged), _errors():
            if self._still_there(file):
                self._files.copy(self._path(file), place)
                self._files.rm_file(self._path(file))

    def _still_there(self, file: FileInfo) -> bool:
        return bool(self._files.info(self._path(file), refresh=True)["ETag"].strip('"') == file.etag)

    @property
    def _folder(self) -> str:
        return f"{self._prefix.rstrip('/')}/" if self._prefix.strip("/") else ""

    def _path(self, file: FileInfo) -> str:
        return f"{self._bucket}/{self._folder}{file.name}"


class _OpenedObject(OpenedFile):
    """Reads fail if the object has changed, so there is nothing to check afterwards."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.stream = _Stream(opened)

    def check(self) -> None:
        pass

    def close(self) -> None:
        self._opened.close()


class _Stream:
    """A file of s3fs with translated errors."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._opened, name)
        return _translate_errors(attribute) if callable(attribute) else attribute

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line


def _translate_errors(call: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any, **options: Any) -> Any:
        with _errors():
            return call(*values, **options)

    return run


@contextmanager
def _errors() -> Iterator[None]:
    """Translate errors: permanent ones to `ConnectorError`, others to OSError or `FileChanged`."""
    from botocore.exceptions import BotoCoreError, ClientError
    from s3fs.utils import FileExpired

    try:
        yield
    except FileExpired as error:
        raise FileChanged(str(error)) from error
    except FileNotFoundError as error:
        raise FileChanged(str(error)) from error
    except PermissionError as error:
        raise ConnectorError(
            "The S3 server denies access with these keys. Check that they may list and read the bucket "
            "(s3:ListBucket, s3:GetObject; s3:PutObject and s3:DeleteObject to move and delete)."
        ) from error
    except (BotoCoreError, ClientError) as error:
        raise OSError(f"S3 cannot be read: {error}") from error


def _parts_of(url: str) -> tuple[str, str]:
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise ConnectorError(f"{URL} {url!r} must have the form s3://bucket or s3://bucket/prefix.")
    return match["bucket"], match["prefix"] or ""
