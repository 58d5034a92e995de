"""Sessions of requests that connect only to allowed addresses (`egress.allow`), including redirects.

Needs requests, which several extras install.
"""

from typing import Any

from requests import Session
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError
from urllib3.util import Retry

from ringfence.connectors import egress, worker_limits


def restrict_session(session: Session, retries: Retry | None = None) -> None:
    """Make a session connect only to allowed addresses, without proxies and passwords from the environment.

    A refused connection raises `egress.EgressDenied`.
    """
    session.trust_env = False
    adapter = _GuardedAdapter(egress.Policy(worker_limits.current().egress), retries)
    session.mount("http://", adapter)
    session.mount("https://", adapter)


class _GuardedAdapter(HTTPAdapter):
    def __init__(self, policy: egress.Policy, retries: Retry | None) -> None:
        self._policy = policy
        super().__init__(max_retries=0 if retries is None else retries)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _pools(self._policy)

    def __deepcopy__(self, memo: object) -> "_GuardedAdapter":
        return self  # dlt copies a configuration with its session to validate it


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

    class Plain(HTTPConnectionPool):
        ConnectionCls = GuardedConnection

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = type("JudgedTls", (HTTPSConnection,), {"_new_conn": GuardedConnection._new_conn})

    return {"http": Plain, "https": EncryptedPool}
