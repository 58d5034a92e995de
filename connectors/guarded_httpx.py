"""httpx clients that connect only to allowed addresses (`egress.allow`).

httpx has no public API for checking the address that another library's client connects to. All private parts of httpx
that we use are in this module; the minor version is pinned, and `tests/security/test_guarded_httpx.py` is the canary
test.
"""

from typing import Any, Final

from ringfence.connectors.egress import Policy

_NOWHERE: Final = "unknown.invalid"


def restrict_client(client: Any, policy: Policy) -> None:
    """Make an httpx client connect only to allowed addresses, and follow no redirects.

    Each name is resolved once, and the connection goes to the address that was checked, so a name that changes between
    check and connection achieves nothing (DNS rebinding). A refused connection raises `egress.EgressDenied`.
    """
    client.follow_redirects = False
    for transport in {client._transport, *client._mounts.values()} - {None}:
        transport._pool._network_backend = _GuardedBackend(transport._pool._network_backend, policy)


class _GuardedBackend:
    """A network backend of httpcore."""

    def __init__(self, backend: Any, policy: Policy) -> None:
        self._backend, self._policy = backend, policy

    def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        try:
            (address, *_) = self._policy.addresses(host, port)
        except (OSError, UnicodeError):
            # The backend reports an unknown name with its own error. It gets another name, since this one may exist by
            # now.
            address = _NOWHERE
        return self._backend.connect_tcp(address, port, **options)

    def __getattr__(self, name: str) -> Any:
        if name == "connect_unix_socket":
            raise AttributeError(name)
        return getattr(self._backend, name)
