"""The connection to the server."""

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ringfence.client.output import ClientError, Exit, exit_of
from ringfence.local.data_directory import default_root

DEFAULT_URL = "http://127.0.0.1:8083"


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address, and the token for it ("" for none)."""

    url: str
    token: str = ""

    def __repr__(self) -> str:
        return f"Server({self.url!r})"


def path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "ringfence" / "contexts.json"


def load() -> dict[str, Any]:
    """{"current": name, "contexts": {name: {"url", "token"}}}."""
    try:
        content = json.loads(path().read_text())
        if not isinstance(content, dict) or not isinstance(content.get("contexts"), dict):
            raise TypeError
    except FileNotFoundError:
        return {"current": "", "contexts": {}}
    except (OSError, ValueError, TypeError) as error:
        message = f"{path()} cannot be read ({type(error).__name__}): correct or delete it"
        raise ClientError(Exit.LOCAL, message) from error
    return content


def save(contexts: dict[str, Any]) -> None:
    """Replace the whole file. It is never readable by others, not even for a moment."""
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=target.parent)  # mode 0600
    with os.fdopen(descriptor, "w") as file:
        json.dump(contexts, file, indent=2)
    Path(name).replace(target)


def _local(url: str, token: str) -> Server:
    """Return the token that this user's `ringfence up` has left in its data folder. It is only sent to that address."""
    root = default_root()
    if not token:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if url == f"http://{json.loads((root / 'state.json').read_text()).get('http')}":
                token = (root / "token").read_text().strip()
    return Server(url, token)


def server(url: str | None, context: str | None) -> Server:
    """Return the first of --url, --context, RINGFENCE_URL, the current context, and loopback that is set.

    RINGFENCE_TOKEN takes precedence over a context's token. A context's token is only sent to its own server.
    """
    token = os.environ.get("RINGFENCE_TOKEN", "")
    if url or (not context and os.environ.get("RINGFENCE_URL")):
        return _local((url or os.environ["RINGFENCE_URL"]).rstrip("/"), token)
    content = load()
    name = context or content.get("current", "")
    if not name:
        return _local(DEFAULT_URL, token)
    if name not in content["contexts"]:
        names = ", ".join(sorted(content["contexts"])) or "none yet"
        raise ClientError(Exit.USAGE, f"There is no context {name!r} (known: {names}): see `ringfence contexts set`")
    entry = content["contexts"][name]
    return Server(str(entry.get("url", "")).rstrip("/"), token or str(entry.get("token", "")))


TIMEOUT_SECONDS = 100.0
"""Longer than the server waits for the leader."""


_PAGE = 1000


def segment(name: str) -> str:
    """Return a connector's name as one segment of a path."""
    return quote(name, safe="")


class Rest:
    """Calls Kafka Connect's REST API and the native one. Raises `ClientError` with the server's message."""

    def __init__(self, server: Server, timeout: float = TIMEOUT_SECONDS, transport: Any = None) -> None:
        # Imported here, because help and completion need no HTTP.
        import httpx

        headers = {"Accept": "application/json"}
        if server.token:
            headers["Authorization"] = f"Bearer {server.token}"
        try:
            self._http = httpx.Client(base_url=server.url, headers=headers, timeout=timeout, transport=transport)
        except (httpx.InvalidURL, ValueError) as error:
            raise ClientError(Exit.USAGE, f"{server.url!r} is no URL: {error}") from error
        self._url = server.url
        self.warning = ""
        """The warning of the last answer."""

    def call(self, method: str, path: str, body: object = None, *, match: str = "", **query: str) -> Any:
        """Return the answer's JSON, None if it has no body. match: the ETag of the version to change."""
        return self._json(self._send(method, path, body, match, query))

    def get_text(self, path: str, **query: str) -> str:
        """Return a GET's answer as text."""
        return str(self._send("GET", path, None, "", query).text)

    def get_with_etag(self, path: str) -> tuple[Any, str]:
        """Return a GET's JSON with its ETag."""
        response = self._send("GET", path, None, "", {})
        return self._json(response), str(response.headers.get("ETag", ""))

    def get_rows(self, path: str, most: int | None = None, query: Mapping[str, str] | None = None) -> list[Any]:
        """Return the rows of a list of the native API, at most that many, page after page."""
        rows: list[Any] = []
        while most is None or len(rows) < most:
            limit = _PAGE if most is None else min(_PAGE, most - len(rows))
            page = self.call("GET", path, **{**(query or {}), "limit": str(limit), "offset": str(len(rows))})
            rows += page["results"]
            if not page["next"] or not page["results"]:
                break
        return rows

    def _send(self, method: str, path: str, body: object, match: str, query: Mapping[str, str]) -> Any:
        import httpx

        headers = {"If-Match": match} if match else None
        # An empty `params` would remove the path's own query.
        request = self._http.build_request(method, path, params=query or None, json=body, headers=headers)
        try:
            response = self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            message = f"{self._url} cannot be reached ({error}): is it running, and is the URL right?"
            raise ClientError(Exit.NOT_REACHED, message) from error
        except httpx.HTTPError as error:
            message = f"No answer from {self._url} ({type(error).__name__})"
            hint = "" if method == "GET" else ": whether it was carried out is unknown, check before you try again"
            raise ClientError(Exit.UNKNOWN, message + hint) from error
        self.warning = _warning(response)
        if response.is_error:
            if response.status_code == 404 and path.startswith("/api/") and not _is_ours(response):
                message = f"{self._url} has no {path}: it is not a Ringfence server, or an older version"
                raise ClientError(Exit.NOT_FOUND, message)
            raise ClientError(exit_of(response.status_code), _words(response))
        return response

    def _json(self, response: Any) -> Any:
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            message = f"{self._url} did not answer with JSON: is it a Ringfence or Kafka Connect REST URL?"
            raise ClientError(Exit.UNKNOWN, message) from error

    def find(self, path: str) -> Any:
        """Do a GET; None if the object does not exist."""
        try:
            return self.call("GET", path)
        except ClientError as error:
            if error.code == Exit.NOT_FOUND:
                return None
            raise


def _is_ours(response: Any) -> bool:
    """Return whether it is a 404 of the native API about a missing object, and not about the path."""
    kind = str(response.headers.get("content-type", ""))
    return kind.startswith("application/problem+json") and "HTTP 404 Not Found" not in response.text


def _warning(response: Any) -> str:
    """Return the text of `Warning: 299 ringfence "text"`."""
    return str(response.headers.get("Warning", "")).partition('"')[2].rstrip('"')


def _words(response: Any) -> str:
    try:
        body = response.json()
    except ValueError:
        body = None
    text = body.get("message") or body.get("detail") if isinstance(body, dict) else ""
    return str(text or f"HTTP {response.status_code} {response.reason_phrase}")
