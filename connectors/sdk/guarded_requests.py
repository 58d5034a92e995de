"""Sessions of requests that connect only to allowed addresses (`egress.allow`), including redirects, and whose requests
end.

Needs requests, which several extras install.
"""

import socket
import threading
import time
from contextlib import suppress
from typing import Any, Final

from requests import PreparedRequest, ReadTimeout, Response, Session
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.util import Retry

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.sdk import egress, worker_limits

SECONDS: Final = 300.0
"""For a whole request, from sending it to the last byte: a read's own timeout begins again with every byte."""
MOST_BYTES: Final = 64 << 20
"""Of a response, after decompression."""
_MOST_REDIRECTS: Final = 5
_PART: Final = 1 << 16


def restrict_session(session: Session, retries: Retry | None = None, seconds: float = SECONDS) -> None:
    """Make a session connect only to allowed addresses, without proxies and passwords from the environment.

    A refused connection raises `egress.EgressDenied`. Unless a response is streamed, it raises `ReadTimeout` after
    `seconds` in all, and `ConnectorError` if it is larger than `MOST_BYTES`.
    """
    session.trust_env = False
    session.max_redirects = _MOST_REDIRECTS
    adapter = _GuardedAdapter(egress.Policy(worker_limits.current().egress), retries, seconds)
    session.mount("http://", adapter)
    session.mount("https://", adapter)


class _GuardedAdapter(HTTPAdapter):
    def __init__(self, policy: egress.Policy, retries: Retry | None, seconds: float) -> None:
        self._policy = policy
        self._seconds = seconds
        super().__init__(max_retries=0 if retries is None else retries)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _pools(self._policy)

    def send(self, request: PreparedRequest, stream: bool = False, *args: Any, **options: Any) -> Response:
        watch = _watches.current = _Watch(self._seconds)
        try:
            response = super().send(request, True, *args, **options)
            if not stream:
                _read_all(response, watch)
            return response
        except (OSError, HTTPError) as error:
            if watch.is_over:
                raise ReadTimeout("The response takes too long", request=request) from error
            raise
        finally:
            _watches.current = None
            watch.close()

    def __deepcopy__(self, memo: object) -> "_GuardedAdapter":
        return self  # dlt copies a configuration with its session to validate it


def _read_all(response: Response, watch: "_Watch") -> None:
    """Read the content into the response. The watch ends a read that lasts."""
    try:
        content = bytearray()
        while part := response.raw.read(_PART, decode_content=True):
            content += part
            if len(content) > MOST_BYTES:
                raise ConnectorError(f"The server's response is larger than {MOST_BYTES >> 20} MB: read smaller pages.")
        if watch.is_over:
            raise ReadTimeout("The response takes too long", request=response.request)
    except BaseException:
        response.close()
        raise
    response.raw.release_conn()
    response._content = bytes(content)
    response._content_consumed = True  # type: ignore[attr-defined] # private; the canary test reads it


class _Watch:
    """Cuts the connections of one request after some seconds, in whatever they are."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._sockets: list[Any] = []
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def add(self, connected: Any) -> None:
        self._sockets.append(connected)
        if self.is_over:
            self._cut()

    def close(self) -> None:
        self._timer.cancel()
        self._sockets.clear()

    def _cut(self) -> None:
        for each in [*self._sockets]:
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)


class _Watches(threading.local):
    current: _Watch | None = None


_watches: Final = _Watches()


def _pools(policy: egress.Policy) -> dict[str, type]:
    """Return pools that resolve a name once and connect to the address that was checked (against DNS rebinding)."""

    class GuardedConnection(HTTPConnection):
        def _new_conn(self) -> Any:
            name = self._dns_host
            try:
                self._dns_host = policy.addresses(name, self.port or self.default_port)[0]
            except (OSError, UnicodeError) as error:
                raise NewConnectionError(self, f"The host {name} cannot be resolved") from error
            try:
                return super()._new_conn()
            finally:
                self._dns_host = name

        def getresponse(self) -> Any:
            if _watches.current is not None:
                _watches.current.add(self.sock)
            return super().getresponse()

    class Plain(HTTPConnectionPool):
        ConnectionCls = GuardedConnection

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = type("JudgedTls", (GuardedConnection, HTTPSConnection), {})

    return {"http": Plain, "https": EncryptedPool}
