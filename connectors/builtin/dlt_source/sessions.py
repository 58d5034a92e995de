"""HTTP sessions that connect to allowed addresses only, also after a redirect or to a next page elsewhere."""

from typing import Any

from dlt.sources.helpers.requests import Client
from requests import Session
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError

from ringfence.connectors import egress, worker_limits

_TIMEOUT = 60.0


def open_session() -> Session:
    """dlt's own, with its repetitions; no proxy and no password of the environment."""
    session: Session = Client(request_timeout=_TIMEOUT, raise_for_status=False).session
    session.trust_env = False
    adapter = _Guarded(egress.Policy(worker_limits.current().egress))
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


class _Guarded(HTTPAdapter):
    def __init__(self, policy: egress.Policy) -> None:
        self._policy = policy
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _pools(self._policy)

    def __deepcopy__(self, memo: object) -> "_Guarded":
        return self  # dlt copies a configuration with its session to validate it


def _pools(policy: egress.Policy) -> dict[str, type]:
    """A name is looked up once, judged, and that address is connected to (DNS rebinding)."""

    class Judged(HTTPConnection):
        def _new_conn(self) -> Any:
            name = self._dns_host
            try:
                self._dns_host = policy.addresses(name, self.port or self.default_port)[0]
            except (OSError, UnicodeError) as error:
                raise NewConnectionError(self, f"There is no host {name}") from error
            try:
                return super()._new_conn()
            finally:
                self._dns_host = name

    class Plain(HTTPConnectionPool):
        ConnectionCls = Judged

    class Encrypted(HTTPSConnectionPool):
        ConnectionCls = type("JudgedTls", (HTTPSConnection,), {"_new_conn": Judged._new_conn})

    return {"http": Plain, "https": Encrypted}
