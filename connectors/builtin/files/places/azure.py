"""Blobs of a container in Azure Blob Storage, including Data Lake Storage."""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from ringfence.connectors.api import ConfigDef, ConnectorError, Importance, ParsedConfig
from ringfence.connectors.builtin.files.places.base import (
    FileChanged,
    FileInfo,
    OpenedFile,
    OpenedObject,
    Place,
    is_hidden,
    secret,
)
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.sdk import egress

SETTINGS: Final = ConfigDef()
_settings: Final = SETTINGS.group("Azure")
ACCOUNT_KEY: Final = _settings.secret("azure.account.key", "An account key of the storage account.")
SAS_TOKEN: Final = _settings.secret(
    "azure.sas.token", "A shared access signature, instead of the key. If neither is set, access is anonymous."
)
ENDPOINT: Final = _settings.text(
    "azure.endpoint.url",
    "The account's address on another server or cloud, such as https://account.blob.core.chinacloudapi.cn.",
    None,
    importance=Importance.LOW,
)

_ADDRESS: Final = re.compile(
    r"abfss?://(?P<container>[a-z0-9$][a-z0-9-]{2,62})@(?P<account>[a-z0-9]{3,24})"
    r"(?:\.(?:dfs|blob)\.core\.windows\.net)?(?:/(?P<prefix>.*))?"
)
_COPY_SECONDS: Final = 0.5
_COPY_POLLS: Final = 600
"""How long to wait for a copy. Within an account a copy is immediate, except for very large blobs."""
_REFUSED: Final = (
    f"Azure denies access. Check {ACCOUNT_KEY} or {SAS_TOKEN}: it must allow listing and reading the container "
    "(sp=rl; rwdl to move and delete)."
)


class AzureFolder(Place):
    """`abfs://container@account.dfs.core.windows.net/prefix`.

    Signs in only with the credentials in the configuration, never with the worker's own identity. Without a key or
    token, access is anonymous. Each block is requested with the ETag of the listing (`If-Match`), so that an
    overwritten blob is never read as a mixture of both.
    """

    scheme: ClassVar[str] = "abfs"
    module: ClassVar[str | None] = "azure.storage.blob"
    settings: ClassVar[ConfigDef] = SETTINGS
    extra: ClassVar[str] = "azure"

    @classmethod
    def find_problems(cls, settings: ParsedConfig) -> list[tuple[str, str]]:
        if secret(settings, ACCOUNT_KEY) and secret(settings, SAS_TOKEN):
            return [(SAS_TOKEN, f"Set either {ACCOUNT_KEY} or {SAS_TOKEN}, not both.")]
        return []

    def __init__(self, url: str, settings: ParsedConfig) -> None:
        container, self._account, prefix = _parts_of(url)
        self._folder = f"{prefix}/" if prefix else ""
        self.address = f"abfs://{container}@{self._account}.dfs.core.windows.net/{prefix}".rstrip("/")
        self._service = _connect(self._account, settings)
        self._container = self._service.get_container_client(container)

    def check(self) -> None:
        try:
            with _errors():
                next(iter(self._container.list_blobs(self._folder, results_per_page=1)), None)
        except FileChanged as error:
            raise ConnectorError(
                f"There is no container {self._container.container_name} in the account {self._account}. Create it, "
                f"or set another one in {URL}."
            ) from error

    def list(self) -> Iterator[FileInfo]:
        with _errors():
            for blob in self._container.list_blobs(self._folder):
                name = blob.name[len(self._folder) :]
                folder = (blob.metadata or {}).get("hdi_isfolder") == "true"
                if name and not folder and not is_hidden(name):
                    yield FileInfo(name, blob.etag.strip('"'), blob.last_modified.timestamp())

    def open(self, file: FileInfo) -> OpenedFile:
        blob = self._container.get_blob_client(self._folder + file.name)
        with _errors():
            size = blob.get_blob_properties(**_match(file)).size

        def read(start: int, count: int) -> bytes:
            with _errors():
                return bytes(blob.download_blob(start, count, decompress=False, **_match(file)).readall())

        return OpenedObject(size, read)

    def check_target(self, target: str) -> None:
        if _parts_of(target)[1] != self._account:
            raise ConnectorError(f"Files can be moved within the account {self._account} only.")

    def delete(self, file: FileInfo) -> None:
        with suppress(FileChanged), _errors():
            self._container.get_blob_client(self._folder + file.name).delete_blob(**_match(file))

    def move(self, file: FileInfo, target: str) -> None:
        container, _, prefix = _parts_of(target)
        to = self._service.get_container_client(container)
        source = self._container.get_blob_client(self._folder + file.name)
        copied = to.get_blob_client(f"{prefix}/{file.name}" if prefix else file.name)
        with suppress(FileChanged), _errors():
            source.get_blob_properties(**_match(file))  # a copy reports a missing source and a missing target alike
            if not to.exists():
                raise ConnectorError(f"File {file.name} cannot be moved: there is no container {container}.")
            _copy(source, copied, file)
            source.delete_blob(**_match(file))

    def close(self) -> None:
        self._service.close()


def _match(file: FileInfo) -> dict[str, Any]:
    from azure.core import MatchConditions

    return {"etag": f'"{file.etag}"', "match_condition": MatchConditions.IfNotModified}


def _copy(source: Any, target: Any, file: FileInfo) -> None:
    """Copy the blob, and wait until the copy is complete."""
    conditions = {f"source_{key}": value for key, value in _match(file).items()}
    answer = target.start_copy_from_url(source.url, **conditions)
    status = answer["copy_status"]
    for _ in range(_COPY_POLLS):
        if status != "pending":
            break
        time.sleep(_COPY_SECONDS)
        status = target.get_blob_properties().copy.status
    if status != "success":
        raise OSError(f"File {file.name} cannot be moved: the copy has the status {status}")


@contextmanager
def _errors() -> Iterator[None]:
    """Translate errors: permanent ones to `ConnectorError`, others to OSError or `FileChanged`."""
    from azure.core.exceptions import (
        AzureError,
        ClientAuthenticationError,
        HttpResponseError,
        ResourceModifiedError,
        ResourceNotFoundError,
    )

    try:
        yield
    except egress.EgressDenied as error:
        raise ConnectorError(f"{ENDPOINT}: {error}.") from error
    except (ResourceModifiedError, ResourceNotFoundError) as error:
        raise FileChanged(type(error).__name__) from error
    except ClientAuthenticationError as error:
        raise ConnectorError(_REFUSED) from error
    except HttpResponseError as error:
        if error.status_code == 403:
            raise ConnectorError(_REFUSED) from error
        raise OSError(f"Azure cannot be read: HTTP {error.status_code} {getattr(error, 'error_code', '')}") from error
    except AzureError as error:
        raise OSError(f"Azure cannot be read: {type(error).__name__}") from error


def _parts_of(url: str) -> tuple[str, str, str]:
    """Return container, account, and the prefix without leading and trailing slashes."""
    match = _ADDRESS.fullmatch(url.strip())
    if match is None:
        raise ConnectorError(
            f"{URL} {url!r} must have the form abfs://container@account.dfs.core.windows.net, optionally with /prefix."
        )
    return match["container"], match["account"], (match["prefix"] or "").strip("/")


def _connect(account: str, settings: ParsedConfig) -> Any:
    from azure.core.pipeline.transport import RequestsTransport
    from azure.storage.blob import BlobServiceClient, ExponentialRetry
    from requests import Session

    from ringfence.connectors.sdk.guarded_requests import restrict_session

    logging.getLogger("azure.core.pipeline.policies.http_logging_policy").setLevel(logging.WARNING)
    session = Session()
    restrict_session(session)
    key = secret(settings, ACCOUNT_KEY)
    try:
        return BlobServiceClient(
            _endpoint(account, settings),
            credential={"account_name": account, "account_key": key} if key else secret(settings, SAS_TOKEN),
            transport=RequestsTransport(session=session, connection_timeout=5, read_timeout=30),
            retry_policy=ExponentialRetry(initial_backoff=1, increment_base=2, retry_total=3),
        )
    except ValueError as error:
        raise ConnectorError(f"{ACCOUNT_KEY} or {SAS_TOKEN} is malformed. Copy it again.") from error


def _endpoint(account: str, settings: ParsedConfig) -> str:
    text = str(settings.get(ENDPOINT) or "").strip().rstrip("/") or f"https://{account}.blob.core.windows.net"
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise ConnectorError(f"{ENDPOINT} must have the form https://host:port.")
    return text
