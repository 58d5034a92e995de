"""httpx clients that connect only to allowed addresses (`egress.allow`), and whose requests end.

httpx has no public API for checking the address that another library's client connects to, and its timeouts begin again
with every byte. All private parts of httpx that we use are in this module; the minor version is pinned, and
`tests/security/test_guarded_httpx.py` is the canary test.
"""

import threading
import time
from typing import Any, Final

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.sdk.egress import Policy

SECONDS: Final = 30.0
MOST_BYTES: Final = 4 << 20
_NOWHERE: Final = "unknown.invalid"


def restrict_client(client: Any, policy: Policy, seconds: float = SECONDS, *, with_bodies: bool = True) -> None:
    """Make an httpx client connect only to allowed addresses, follow no redirects, and accept at most `MOST_BYTES`.

    Each name is resolved once, and the connection goes to the address that was checked, so a name that changes between
    check and connection achieves nothing (DNS rebinding). A refused connection raises `egress.EgressDenied`.

    seconds: for a whole request, from connecting to the last byte. A later one raises `httpx.ReadTimeout`. A larger
    response raises `ConnectorError`. Responses are requested without compression, and refused with.

    with_bodies: False for a client that only needs the status; a response has no body and no headers then, whatever the
    server sends.
    """
    client.follow_redirects = False
    limit = _Limit(seconds)
    for transport in {client._transport, *client._mounts.values()} - {None}:
        transport._pool._network_backend = _GuardedBackend(transport._pool._network_backend, policy, limit)
    client._transport = _BoundedTransport(client._transport, limit, with_bodies)
    client._mounts = {
        pattern: transport and _BoundedTransport(transport, limit, with_bodies)
        for pattern, transport in client._mounts.items()
    }


class _Limit(threading.local):
    """The time at which this thread's request ends."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = float("inf")

    def begin(self) -> None:
        self._end = time.monotonic() + self._seconds

    def cut_timeout(self, timeout: float | None) -> float:
        """Return the timeout, cut to what is left."""
        left = max(0.001, self._end - time.monotonic())
        return left if timeout is None else min(left, timeout)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end


class _BoundedTransport:
    """A transport that reads the whole response within its limits, or its status only."""

    def __init__(self, transport: Any, limit: _Limit, with_bodies: bool) -> None:
        self._transport, self._limit, self._with_bodies = transport, limit, with_bodies

    def handle_request(self, request: Any) -> Any:
        import httpx

        self._limit.begin()
        request.headers["Accept-Encoding"] = "identity"
        response = self._transport.handle_request(request)
        if not self._with_bodies:
            response.close()
            return httpx.Response(response.status_code)
        try:
            if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("identity", ""):
                raise ConnectorError("The server compresses its response, although it was asked not to.")
            content = bytearray()
            for part in response.stream:
                content += part
                if len(content) > MOST_BYTES:
                    raise ConnectorError(f"The server's response is larger than {MOST_BYTES >> 20} MB.")
                if self._limit.is_over:
                    raise httpx.ReadTimeout("The response takes too long", request=request)
        finally:
            response.close()
        return httpx.Response(
            response.status_code, headers=response.headers, content=bytes(content), extensions=response.extensions
        )

    def __enter__(self) -> "_BoundedTransport":
        self._transport.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._transport.__exit__(*error)

    def close(self) -> None:
        self._transport.close()


class _GuardedBackend:
    """A network backend of httpcore."""

    def __init__(self, backend: Any, policy: Policy, limit: _Limit) -> None:
        self._backend, self._policy, self._limit = backend, policy, limit

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> Any:
        try:
            (address, *_) = self._policy.addresses(host, port)
        except (OSError, UnicodeError):
            # The backend reports an unknown name with its own error. It gets another name, since this one may exist by
            # now.
            address = _NOWHERE
        stream = self._backend.connect_tcp(address, port, timeout=self._limit.cut_timeout(timeout), **options)
        return _BoundedStream(stream, self._limit)

    def __getattr__(self, name: str) -> Any:
        if name == "connect_unix_socket":
            raise AttributeError(name)
        return getattr(self._backend, name)


class _BoundedStream:
    """A network stream of httpcore, whose timeouts are cut to what is left of the request's time."""

    def __init__(self, stream: Any, limit: _Limit) -> None:
        self._stream, self._limit = stream, limit

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        return self._stream.read(max_bytes, timeout=self._limit.cut_timeout(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout=self._limit.cut_timeout(timeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> Any:
        stream = self._stream.start_tls(ssl_context, server_hostname, timeout=self._limit.cut_timeout(timeout))
        return _BoundedStream(stream, self._limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
