"""kafka-python's client, for requests that librdkafka lacks.

kafka-python has no public way to send any request to a chosen broker. Only this module uses its private parts, so the
minor version is pinned, and `tests/fencing/test_python_client.py` is a canary.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, ClassVar, TypeVar

from kafka import KafkaAdminClient
from kafka.admin._transactions import AbortTransactionSpec as AbortTransactionSpec
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.inet import KafkaNetSocket
from kafka.net.sasl.oauth import AbstractTokenProvider

from ringfence.connectors.sdk import egress, worker_limits
from ringfence.connectors.sdk.kafka_settings.oauth_tokens import TokenSource
from ringfence.fencing.kafka.connection import Connection

if logging.getLogger("kafka").level == logging.NOTSET:
    logging.getLogger("kafka").setLevel(logging.WARNING)  # it logs each connection that it opens and closes
    logging.getLogger("kafka.net").setLevel(logging.CRITICAL)  # and each that breaks, as an error; the calls report it


_T = TypeVar("_T")
_NAMES_MS = 5_000


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """kafka-python's way to ask for a token."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        source.token()  # an error here has its reason; later it is a login that takes too long

    def token(self) -> str:
        return self._source.token().value

    def extensions(self) -> dict[str, str]:
        return dict(self._source.extensions)


class GuardedSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka-python has no types
    """Connects to the addresses that were checked, of another cluster's brokers. TLS still expects the name."""

    SCHEMES: ClassVar = ("guarded",)

    def dns_lookup(self, host: str, port: int, raise_error: bool = True) -> list[Any]:
        """Return the addresses of a broker as `socket.getaddrinfo` does. Raises `KafkaConnectionError`."""
        try:
            allowed = egress.Policy(worker_limits.current().egress).addresses(host, port)
            infos = [
                info
                for address in allowed
                for info in socket.getaddrinfo(
                    address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
                )
            ]
        except (egress.EgressDenied, OSError, UnicodeError) as error:
            raise KafkaConnectionError(f"{host}:{port}: {error}") from error
        return infos


class PythonClient(KafkaAdminClient):  # type: ignore[misc]  # kafka-python has no types
    """A client that its creator closes. If it cannot be created, it is closed before the error is raised.

    kafka-python starts its thread before it looks for a broker. Without the close, a thread would keep looking, and
    log errors, until the process ends.
    """

    def __init__(self, **configs: Any) -> None:
        try:
            super().__init__(**configs)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False  # otherwise kafka-python's `close` does nothing
                self.close()
            raise

    def forget_coordinators(self) -> None:
        """Look up the coordinators again: kafka-python caches them forever, even after they have moved."""
        self._manager.cluster._coordinators.clear()

    def run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Run this on kafka-python's thread, and wait for it. Raises `KafkaError`."""
        answer: _T = self._manager.run(work)
        return answer

    def send(self, request: object, node_id: int | None = None) -> Awaitable[Any]:
        """Return the response of a broker, any if None. Only for use inside `run`."""
        answer: Awaitable[Any] = self._manager.send(request, node_id=node_id)
        return answer

    def ask_coordinators(self, keys: Collection[str], **kind: object) -> Awaitable[dict[str, int]]:
        """Return the node of each group's coordinator; with `key_type`, of each id's. Only for use inside `run`."""
        answer: Awaitable[dict[str, int]] = self._find_coordinator_ids(list(keys), **kind)
        return answer

    def ask_groups(self, **filters: object) -> Awaitable[Any]:
        """Return the groups of every broker. Only for use inside `run`."""
        answer: Awaitable[Any] = self._async_list_groups(**filters)
        return answer

    def ask_group_offsets(self, groups: Mapping[str, None]) -> Awaitable[Any]:
        """Return the committed offsets of the groups. Only for use inside `run`."""
        answer: Awaitable[Any] = self._async_list_group_offsets(groups)
        return answer

    def ask_features(self) -> Awaitable[Mapping[str, Any]]:
        """Return the cluster's features. Only for use inside `run`."""
        answer: Awaitable[Mapping[str, Any]] = self._async_describe_features()
        return answer

    @property
    def broker_hosts(self) -> list[str]:
        return [str(broker.host) for broker in self._manager.cluster.brokers()]

    @property
    def broker_ids(self) -> list[int]:
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    @property
    def broker_version(self) -> tuple[int, ...]:
        """The broker's version, estimated: the newest one with the same protocol versions."""
        return tuple(int(part) for part in self._manager.broker_version_data.broker_version)

    def newest_version_of(self, request: type) -> int:
        """Return the request's newest version that client and broker support. Raises `IncompatibleBrokerVersion`."""
        return int(self._manager.broker_version_data.api_version(request))


def broker_hosts(connection: Connection) -> list[str]:
    """Return the hosts that a cluster names as its brokers'; none if it does not answer: its clients will say why."""
    try:
        client = PythonClient(**connection.kafka_python(), bootstrap_timeout_ms=_NAMES_MS)
    except KafkaError:
        return []
    try:
        return client.broker_hosts
    finally:
        client.close()
