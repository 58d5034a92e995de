"""httpx clients that connect to allowed addresses only (`egress.allow`).

httpx has no public way to judge the address that a client of somebody else connects to. All private parts of httpx that
we use are in this module, so the minor version is pinned; `tests/security/test_guarded_httpx.py` is their canary.
"""

from typing import Any, Final

from ringfence.connectors.egress import Policy

_NOWHERE: Final = "unknown.invalid"


def guard(client: Any, policy: Policy) -> None:
    """Have an httpx client connect to allowed addresses only, and follow no redirect.

    Each name is looked up once; the address found is the one that is judged and connected to, so a name that changes
    between a check and the connection gains nothing (DNS rebinding). A refused connection raises `egress.Refused`.
    """
    client.follow_redirects = False
    for transport in {client._transport, *client._mounts.values()} - {None}:
        transport._pool._network_backend = _Guarded(transport._pool._network_backend, policy)


class _Guarded:
    """httpcore's network backend."""

    def __init__(self, backend: Any, policy: Policy) -> None:
        self._backend, self._policy = backend, policy

    def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        try:
            (address, *_) = self._policy.addresses(host, port)
        except (OSError, UnicodeError):
            # The backend reports an unknown name in its client's own words. It gets another name, since this one may
            # exist by now.
            address = _NOWHERE
        return self._backend.connect_tcp(address, port, **options)

    def __getattr__(self, name: str) -> Any:
        if name == "connect_unix_socket":
            raise AttributeError(name)
        return getattr(self._backend, name)
