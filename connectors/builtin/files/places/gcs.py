"""Objects of a bucket of Google Cloud Storage, through its JSON API."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit

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
_settings: Final = SETTINGS.group("Google Cloud Storage")
CREDENTIALS: Final = _settings.secret(
    "gcs.credentials", "The JSON text of a service account's key file. If it is not set, access is anonymous."
)
ENDPOINT: Final = _settings.text(
    "gcs.endpoint.url",
    "The address of another server with the JSON API of Google Cloud Storage.",
    None,
    importance=Importance.LOW,
)

_GOOGLE: Final = "https://storage.googleapis.com"
_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_ADDRESS: Final = re.compile(r"gs://(?P<bucket>[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(?P<prefix>.*))?")
_TIMEOUT: Final = (5, 30)
_MOST_JSON: Final = 16 << 20
_KEEPS_NOTHING: Final = "The bucket's server cannot be read"


class GcsPrefix(Place):
    """`gs://bucket/prefix`.

    Signs in only with the credentials in the configuration, never with the worker's own account. Without a key, access
    is anonymous. An object's ETag is its generation. Each block is requested with it, so that an overwritten object is
    never read as a mixture of both.
    """

    scheme: ClassVar[str] = "gs"
    module: ClassVar[str | None] = "google.auth"
    settings: ClassVar[ConfigDef] = SETTINGS
    extra: ClassVar[str] = "gcs"

    def __init__(self, url: str, settings: ParsedConfig) -> None:
        self._bucket, prefix = _parts_of(url)
        self._folder = f"{prefix}/" if prefix else ""
        self.address = f"gs://{self._bucket}/{prefix}".rstrip("/")
        self._server = _endpoint(settings)
        self._session = _sign_in(secret(settings, CREDENTIALS))

    def check(self) -> None:
        try:
            self._ask("GET", self._objects(), {"prefix": self._folder, "maxResults": "1"})
        except FileChanged as error:
            raise ConnectorError(
                f"There is no bucket {self._bucket}. Create it, or set another one in {URL}."
            ) from error

    def list(self) -> Iterator[FileInfo]:
        query = {"prefix": self._folder, "fields": "items(name,generation,updated,size),nextPageToken"}
        while True:
            page = self._ask("GET", self._objects(), query)
            for item in page.get("items", []):
                name = item["name"][len(self._folder) :]
                if name and not name.endswith("/") and not is_hidden(name):
                    yield FileInfo(name, item["generation"], datetime.fromisoformat(item["updated"]).timestamp())
            if not (token := page.get("nextPageToken")):
                return
            query = {**query, "pageToken": token}

    def open(self, file: FileInfo) -> OpenedFile:
        size = int(self._ask("GET", self._object(file), {"generation": file.etag})["size"])
        return OpenedObject(size, lambda start, count: self._read(file, start, count))

    def delete(self, file: FileInfo) -> None:
        if self._still_there(file):
            self._change("DELETE", self._object(file), {"ifGenerationMatch": file.etag})

    def move(self, file: FileInfo, target: str) -> None:
        if not self._still_there(file):
            return
        bucket, prefix = _parts_of(target)
        to = f"b/{bucket}/o/{quote(f'{prefix}/{file.name}' if prefix else file.name, safe='')}"
        query = {"ifSourceGenerationMatch": file.etag}
        try:
            while not (answer := self._ask("POST", f"{self._object(file)}/rewriteTo/{to}", query)).get("done", True):
                query = {**query, "rewriteToken": answer["rewriteToken"]}
        except FileChanged as error:
            if self._still_there(file):
                raise ConnectorError(f"File {file.name} cannot be moved: there is no bucket {bucket}.") from error
            return
        self._change("DELETE", self._object(file), {"ifGenerationMatch": file.etag})

    def close(self) -> None:
        self._session.close()

    def _read(self, file: FileInfo, start: int, count: int) -> bytes:
        query = {"alt": "media", "generation": file.etag}
        # Content with the encoding gzip is sent as it is stored, and not decompressed here either.
        headers = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "gzip"}
        with self._response("GET", self._object(file), query, headers) as response:
            if response.headers.get("x-goog-generation", file.etag) != file.etag:
                raise FileChanged(file.name)
            return bytes(response.raw.read(decode_content=False))

    def _still_there(self, file: FileInfo) -> bool:
        try:
            info = self._ask("GET", self._object(file), {"fields": "generation"})
        except FileChanged:
            return False
        return bool(info["generation"] == file.etag)

    def _change(self, method: str, path: str, query: Mapping[str, str]) -> None:
        try:
            with self._response(method, path, query, {}):
                pass
        except FileChanged:
            pass  # the object is gone or was replaced: nothing to do

    def _ask(self, method: str, path: str, query: Mapping[str, str]) -> Any:
        with self._response(method, path, query, {}) as response:
            text = response.raw.read(_MOST_JSON + 1, decode_content=True)
            if len(text) > _MOST_JSON:
                raise OSError(f"{_KEEPS_NOTHING}: its answer is larger than {_MOST_JSON >> 20} MB")
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                raise OSError(f"{_KEEPS_NOTHING}: its answer is not JSON") from error

    @contextmanager
    def _response(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[Any]:
        """Yield the response. Raises `FileChanged` if the object is gone or has changed; see `_errors` for other
        errors.
        """
        with _errors():
            response = self._session.request(
                method,
                f"{self._server}/storage/v1/{path}",
                params=dict(query),
                headers=dict(headers),
                timeout=_TIMEOUT,
                stream=True,
                allow_redirects=False,
            )
            try:
                _judge(response.status_code)
                yield response
            finally:
                response.close()

    def _objects(self) -> str:
        return f"b/{self._bucket}/o"

    def _object(self, file: FileInfo) -> str:
        return f"{self._objects()}/{quote(self._folder + file.name, safe='')}"


def _judge(status: int) -> None:
    if status in (404, 412):
        raise FileChanged(f"HTTP {status}")
    if status in (401, 403):
        raise ConnectorError(
            f"Google Cloud Storage denies access (HTTP {status}). Check that the account of {CREDENTIALS} may list "
            "and read the bucket (the role Storage Object Viewer; Storage Object User to move and delete)."
        )
    if status not in (200, 204, 206):
        raise OSError(f"{_KEEPS_NOTHING}: HTTP {status}")


@contextmanager
def _errors() -> Iterator[None]:
    """Translate errors: permanent ones to `ConnectorError`, others to OSError."""
    from google.auth.exceptions import GoogleAuthError, RefreshError
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except egress.EgressDenied as error:
        raise ConnectorError(f"{ENDPOINT}: {error}.") from error
    except RefreshError as error:
        raise ConnectorError(
            f"{CREDENTIALS}: the service account's key is refused. Check that it has not been deleted or disabled."
        ) from error
    except (GoogleAuthError, RequestException, HTTPError) as error:
        raise OSError(f"{_KEEPS_NOTHING}: {type(error).__name__}") from error


def _parts_of(url: str) -> tuple[str, str]:
    """Return the bucket, and the prefix without leading and trailing slashes."""
    match = _ADDRESS.fullmatch(url.strip())
    if match is None:
        raise ConnectorError(f"{URL} {url!r} must have the form gs://bucket or gs://bucket/prefix.")
    return match["bucket"], (match["prefix"] or "").strip("/")


def _endpoint(settings: ParsedConfig) -> str:
    text = str(settings.get(ENDPOINT) or "").strip().rstrip("/") or _GOOGLE
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.path:
        raise ConnectorError(f"{ENDPOINT} must have the form https://host:port.")
    return text


def _sign_in(key: str | None) -> Any:
    """Return a session that connects only to allowed addresses, also for signing in."""
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport import requests as transport
    from google.oauth2 import service_account
    from requests import Session
    from urllib3.util import Retry

    from ringfence.connectors.sdk.guarded_requests import restrict_session

    retries = Retry(3, backoff_factor=0.2, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False)
    plain = Session()
    restrict_session(plain, retries)
    if key is None:
        return plain
    try:
        account = json.loads(key)
        if account.get("type") != "service_account":
            raise ValueError("another type")  # other types name files, programs and addresses to get tokens from
        accounts: Any = service_account.Credentials  # its functions are not typed
        credentials = accounts.from_service_account_info(account, scopes=[_SCOPE])
    except (ValueError, AttributeError, GoogleAuthError) as error:
        raise ConnectorError(
            f"{CREDENTIALS} is not the JSON of a service account's key. Create one at IAM, Service accounts, Keys."
        ) from error
    sessions: Any = transport.AuthorizedSession
    session = sessions(credentials, auth_request=transport.Request(session=plain))
    restrict_session(session, retries)
    return session
