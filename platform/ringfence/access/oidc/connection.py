"""A short conversation with an OpenID provider: under `egress.allow`, bounded in time and bytes, without redirects."""

import json
import ssl
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from ringfence.access.oidc.errors import Unavailable
from ringfence.connectors.sdk import egress
from ringfence.connectors.sdk.guarded_httpx import restrict_client

SECONDS: Final = 10.0
_MOST_BYTES: Final = 1024 * 1024


class _Answer:
    """The part of a response that Authlib's client uses."""

    def __init__(self, status: int, content: bytes) -> None:
        self.status_code, self._content = status, content

    def json(self) -> Any:
        return json.loads(self._content)

    def raise_for_status(self) -> None:
        if self.status_code >= 400:
            raise Unavailable(f"HTTP {self.status_code}")


class Connection:
    """A connection to the provider. Authlib uses it as its session."""

    def __init__(self, policy: egress.Policy) -> None:
        self._client = httpx.Client(timeout=SECONDS, verify=_create_context())
        restrict_client(self._client, policy)

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the JSON object at a URL. Raises Unavailable."""
        answer = self._send("GET", url, dict(headers or {}), b"")
        if answer.status_code != 200:
            raise Unavailable(f"{_place(url)} answered HTTP {answer.status_code}")
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise Unavailable(f"{_place(url)} answered with something other than a JSON object")
        return document

    def post(self, url: str, *, data: Mapping[str, str], headers: Mapping[str, str], auth: Any) -> _Answer:
        """Send a form. auth: Authlib's client authentication. Raises Unavailable."""
        _, all_headers, body = auth.prepare("POST", url, dict(headers), urlencode(data))
        return self._send("POST", url, all_headers, body.encode())

    def _send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> _Answer:
        deadline, content = time.monotonic() + SECONDS, b""
        try:
            with self._client.stream(method, url, headers=headers, content=body or None) as answer:
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES or time.monotonic() > deadline:
                        raise Unavailable(f"the answer of {_place(url)} is too long or too slow")
                return _Answer(answer.status_code, content)
        except egress.EgressDenied as refused:
            raise Unavailable(str(refused)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{_place(url)} cannot be reached ({type(error).__name__})") from None

    def close(self) -> None:
        self._client.close()


@lru_cache(maxsize=1)
def _create_context() -> ssl.SSLContext:
    """Return a context with the trusted certificate authorities. It is created once, since loading them is slow."""
    return httpx.create_ssl_context()


def _place(url: str) -> str:
    """Return a URL without its query, for messages."""
    return url.partition("?")[0]
