"""The client with which dlt's rest_api reads: it refuses responses that are not JSON, and pages that do not end."""

import hashlib
import json
import threading
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any, Final
from urllib.parse import urlsplit

from dlt.common.json import json as dlt_json
from dlt.sources import rest_api
from dlt.sources.helpers.rest_client.client import RESTClient
from dlt.sources.helpers.rest_client.paginators import RangePaginator
from requests import HTTPError, PreparedRequest, Response
from requests.adapters import BaseAdapter
from requests.utils import guess_json_utf

from ringfence.connectors.api import ConnectorError

BUSY: Final = (408, 425, 429)
"""Statuses after which a request is repeated, as after those from 500 on."""
_NO_CONTENT: Final = 204
_NEXT_PAGE: Final = "The next page that the API names is a former one: correct the paginator in rest.config, or the API"
_COUNTED: Final = (
    "Set total_path, maximum_page or stop_after_empty_page of the paginator in rest.config, or the type "
    "single_page if the API has no pages"
)
_MOST_DIGITS: Final = 4000
"""Python converts at most 4300 digits: it takes a time that grows with their square."""


class ResponseError(ConnectorError):
    """A response that cannot be read, or pages that do not end. The message names the address, and the remedy."""


class HugeInteger:
    """An integer of JSON with more digits than Python converts. No dataclass: dlt's JSON has a form for those."""

    def __init__(self, digits: str) -> None:
        self.digits = digits

    def __str__(self) -> str:
        return self.digits


class NonFinite(float):
    """NaN or an infinity that is written so, unlike a number that is too large."""


class _Last(threading.local):
    address = ""


_last: Final = _Last()


def last_address() -> str:
    """Return where the newest response on this thread came from, without its query; "" if there was none."""
    return _last.address


def address_of(request: PreparedRequest) -> str:
    """Return method and URL. What the query holds may be a secret."""
    parts = urlsplit(str(request.url))
    query = "?…" if parts.query else ""
    return f"{request.method} {parts.scheme}://{parts.hostname}{_port(parts.netloc)}{parts.path}{query}"


def _port(netloc: str) -> str:
    _, colon, port = netloc.rpartition(":")
    return f":{port}" if colon and port.isdecimal() else ""


class Attempts:
    """How the newest attempt to send a request has failed; dlt itself repeats it with growing pauses. The thread that
    reads sets it, and any thread may look at it.
    """

    def __init__(self) -> None:
        self.failure: Exception | None = None
        """None if it has succeeded."""


class ObservedAdapter(BaseAdapter):
    """Sends requests by another adapter, and notes how each attempt ends."""

    def __init__(self, inner: BaseAdapter, attempts: Attempts) -> None:
        super().__init__()
        self._inner = inner
        self._attempts = attempts

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        try:
            response = self._inner.send(request, *args, **options)
        except Exception as error:
            self._attempts.failure = error
            raise
        failed = response.status_code in BUSY or response.status_code >= 500
        self._attempts.failure = HTTPError(response=response) if failed else None
        return response

    def close(self) -> None:
        self._inner.close()

    def __deepcopy__(self, memo: object) -> "ObservedAdapter":
        return self  # dlt copies a configuration with its session to validate it


class JsonResponse(Response):
    """A response whose `json` says what it is instead, if it is not JSON. It is parsed once."""

    _document: Any = None
    _has_content = False

    @classmethod
    def of(cls, response: Response) -> "JsonResponse":
        """Return the response as one of this class."""
        new = cls()
        new.__dict__.update(response.__dict__)
        return new

    def json(self, **_options: Any) -> Any:
        """Return the body; an empty list without content (204). Raises `ResponseError`."""
        if not self._has_content:
            self._document = [] if self.status_code == _NO_CONTENT else self._parse()
            self._has_content = True
        return self._document

    def _parse(self) -> Any:
        text = self._decode()
        if not text.strip():
            raise self._refuse("an empty body")
        try:
            try:
                return json.loads(text, parse_constant=NonFinite)
            except JSONDecodeError:
                raise
            except ValueError:  # an integer that is too long for Python
                return json.loads(text, parse_constant=NonFinite, parse_int=_parse_integer)
        except JSONDecodeError as error:
            raise self._refuse(self._describe(text, error)) from None
        except RecursionError:
            raise self._refuse("JSON that is nested too deeply") from None

    def _decode(self) -> str:
        content = bytes(self.content or b"")
        encoding = self.encoding or guess_json_utf(content) or "utf-8"  # type: ignore[no-untyped-call]
        try:
            return content.decode(encoding, "replace").removeprefix("\ufeff")
        except LookupError:
            raise self._refuse(f"text in the unknown encoding {encoding[:40]}") from None

    def _describe(self, text: str, error: JSONDecodeError) -> str:
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind in ("text/html", "application/xhtml+xml") or text.lstrip()[:5].lower() in ("<!doc", "<html"):
            return "an HTML page"
        return f"text that is not JSON (line {error.lineno}, column {error.colno})"

    def _refuse(self, what: str) -> ResponseError:
        return ResponseError(
            f"{address_of(self.request)} was answered with status {self.status_code} and {what}, and JSON is expected. "
            "Check the path, the sign-in, and whether the API is under maintenance"
        )


class PageWatch:
    """Follows the pages of one request for rows, and notices when they repeat themselves."""

    def __init__(self) -> None:
        self._requests: set[bytes] = set()
        self._pages: dict[bytes, int] = {}
        self._number = 0

    def look(self, request: PreparedRequest, rows: list[Any], *, counted: bool) -> None:
        """Look at the next page. Raises `ResponseError` at the first repetition.

        counted: whether the paginator counts pages or rows, and so would ask on after the last page.
        """
        self._number += 1
        request_digest = _digest(f"{request.method} {request.url}".encode(), _bytes(request.body))
        if request_digest in self._requests:
            raise ResponseError(
                f"The pages of {address_of(request)} do not end: page {self._number} is requested like one before it. "
                f"{_NEXT_PAGE}"
            )
        self._requests.add(request_digest)
        content = _digest(_encode(rows))
        former = self._pages.get(content)
        if former is not None and self._is_repetition(former, len(rows), counted=counted):
            what = "the same rows as" if rows else "no rows, as"
            raise ResponseError(
                f"The pages of {address_of(request)} do not end: page {self._number} has {what} page {former}. "
                f"{_COUNTED if counted else _NEXT_PAGE}"
            )
        self._pages[content] = self._number

    def _is_repetition(self, former: int, rows: int, *, counted: bool) -> bool:
        """A single row may look like another one, and a page that is empty may be followed by others, unless they are
        counted.
        """
        if rows == 0:
            return counted and former == self._number - 1
        return rows > 1 or former == self._number - 1


class WatchfulClient(RESTClient):
    """dlt's client, with responses of ours and a watch over the pages."""

    def paginate(self, *args: Any, **options: Any) -> Iterator[Any]:
        watch = PageWatch()
        for page in super().paginate(*args, **options):
            first = page.response.history[0] if page.response.history else page.response
            watch.look(first.request, page, counted=isinstance(page.paginator, RangePaginator))
            yield page

    def _send_request(self, request: Any, **options: Any) -> Response:
        response = JsonResponse.of(super()._send_request(request, **options))
        _last.address = address_of(response.request)
        return response


def install() -> None:
    """Have dlt's rest_api use this client."""
    rest_api.RESTClient = WatchfulClient  # type: ignore[attr-defined]


def _parse_integer(text: str) -> int | HugeInteger:
    return int(text) if len(text) <= _MOST_DIGITS else HugeInteger(text)


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _encode(rows: list[Any]) -> bytes:
    try:
        return dlt_json.dumpb(rows)
    except TypeError:  # a value that no record can hold
        return json.dumps(rows, default=str).encode()


def _bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else str(body or "").encode()
