"""Celery's connection to Redis, made to survive what somebody else has put into a queue.

Kombu ends the worker at an entry that is no message, and decompresses what it is told to. Whoever can write to Redis
could end all workers with one entry each. Here such an entry is dropped with a warning, and nothing of it is shown.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.transport import redis as kombu_redis

from ringfence.redis_client import ClusterNodes, OwnerConnection, PrimaryConnection, servers_of

log = logging.getLogger(__name__)

_MALFORMED: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What kombu and Celery raise for entries that they did not write. Errors of the connection are none of these."""

_NEVER: Final = ("compression", "eta", "expires")


_RETRY: Final = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2}
"""Seconds between a worker's tries to connect. Kombu waits 2, 4, 6, … 30: three times as long as a fail-over takes."""


class _Connection(Connection):
    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        """Connect, with tries at shorter intervals than kombu's."""
        return super().ensure_connection(*args, **{**_RETRY, **options})  # type: ignore[no-untyped-call]


class Broker(AMQP):  # type: ignore[misc]  # Celery has no types
    """Celery's part that connects to the broker."""

    Connection = _Connection


def use() -> None:
    """Use this connection for addresses of Redis, of its Sentinels and of a cluster, in this process."""
    TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), f"{__name__}:Transport"))
    TRANSPORT_ALIASES["sentinel"] = f"{__name__}:SentinelTransport"
    TRANSPORT_ALIASES["cluster"] = f"{__name__}:ClusterTransport"


def _warn(error: Exception) -> None:
    log.warning("Dropped an entry of a queue in Redis that is no message of ours (%s)", type(error).__name__)


def _drop_malformed(read: Callable[[], Any]) -> Callable[[], Any]:
    """Return a reader of replies that goes on after an entry that cannot be read."""

    def read_on() -> Any:
        try:
            return read()
        except _MALFORMED as error:
            _warn(error)
            return True

    return read_on


class _Message(virtual.Message):
    """Refuses headers that ours never have. They are in clear, and act before anything is authenticated: decompressing
    fills the memory, and a late start keeps the message there.
    """

    def __init__(self, payload: Any, *args: Any, **options: Any) -> None:
        if any(payload["headers"].get(name) is not None for name in _NEVER):
            raise ValueError("It has a header that no message of ours has")
        if not isinstance(payload["properties"]["delivery_info"], dict):
            raise TypeError("It does not say where it was sent")
        super().__init__(payload, *args, **options)  # type: ignore[no-untyped-call]


class _Channel(kombu_redis.Channel):
    Message = _Message
    ack_emulation = False
    """Kombu notes each message in Redis before it is delivered, and removes the note before its task runs: two round
    trips, so that another worker gets it after an hour if this one dies in between. A request's deadline has passed by
    then, and an alert's delivery is in the database.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self.handlers = {kind: _drop_malformed(read) for kind, read in self.handlers.items()}
        self.priority_steps = [0]  # our messages have one priority, and kombu asks for four
        self._requests: Any = None

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """Yield a client for requests. Kombu makes one for each message, which takes longer than the request."""
        if client is None and (self._requests is None or self._requests.connection_pool is not self.pool):
            self._requests = self._create_client()  # type: ignore[no-untyped-call]
        yield client or self._requests

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[[Any], object], *args: Any, **options: Any
    ) -> Any:
        """Consume. A message that Celery cannot take is rejected, or it would take up a place among the unread."""

        def take(message: Any) -> object:
            try:
                return callback(message)
            except _MALFORMED as error:
                _warn(error)
                if not message.acknowledged:
                    message.reject()
                return None

        return super().basic_consume(queue, no_ack, take, *args, **options)  # type: ignore[no-untyped-call]


class Transport(kombu_redis.Transport):
    """Kombu's for Redis, with the channel of this module."""

    Channel = _Channel


class _SentinelChannel(_Channel, kombu_redis.SentinelChannel):
    connection_class = PrimaryConnection


class SentinelTransport(Transport, kombu_redis.SentinelTransport):
    """The same, to the primary that Sentinel names."""

    Channel = _SentinelChannel
    default_port = kombu_redis.SentinelTransport.default_port


class _ClusterChannel(_SentinelChannel):
    connection_class = OwnerConnection
    master_name: str
    sentinel_kwargs: dict[str, Any]

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        """Return a pool of connections to the server of the cluster that has our keys."""
        client = self.connection.client
        servers, login = servers_of(";".join(client.alt or [client.as_uri(include_password=True)]))
        params = self._connparams(asynchronous)  # type: ignore[no-untyped-call]
        for name in ("host", "port", "username", "password", "db"):
            params.pop(name, None)
        nodes = ClusterNodes(servers, sentinel_kwargs=self.sentinel_kwargs, **params)  # type: ignore[no-untyped-call]
        return nodes.master_for(self.master_name, **login).connection_pool  # type: ignore[no-untyped-call]


class ClusterTransport(SentinelTransport):
    """The same, to the server of a cluster that has our keys."""

    Channel = _ClusterChannel
    default_port = 6379
