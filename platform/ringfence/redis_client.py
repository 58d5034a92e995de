"""Connects to Redis: to the server at an address, to the one that Sentinel names as the primary, or to the one of a
cluster that has our keys.

An address of Sentinels has Celery's form: `sentinel://:password@one:26379;sentinel://two:26379/0`, with the login of
the servers behind them. Each new connection asks them again, so that a fail-over needs no restart here.

`cluster://:password@one:6379;cluster://two:6379/0` names servers in cluster mode. Celery waits for several queues in
one command, and a cluster takes only commands whose keys are in one of its slots. So all keys have one hash tag there,
and clients talk to the server with its slot as to one without cluster mode. Each new connection asks for that server
again. Redis-py's client for Sentinels does the same for another way to ask, so the classes here are derived from it.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.asyncio.sentinel import SentinelManagedConnection as AsyncSentinelManagedConnection
from redis.connection import parse_url
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, TryAgainError
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelManagedConnection

# Read here, at once: a worker removes its variables before it starts anything (`engine/spark/connector_limits.py`).
URL: Final = os.environ.get("RINGFENCE_REDIS_URL", "redis://127.0.0.1:6379/0")
_primary = os.environ.get("RINGFENCE_REDIS_PRIMARY", "").strip() or "mymaster"
_sentinel_password = os.environ.get("RINGFENCE_REDIS_SENTINEL_PASSWORD", "")
_SENTINEL: Final = "sentinel://"
_SENTINEL_SECONDS: Final = {"socket_timeout": 1, "socket_connect_timeout": 1}
"""One that does not answer is passed over soon, and the next one is asked."""


_CLUSTER: Final = "cluster://"
_TAG: Final = "{ringfence}"
_SLOT: Final = key_slot(_TAG.encode())
_OTHER_OWNER: Final = (AskError, ClusterDownError, TryAgainError)
"""What a server answers that does not have the slot, or not for certain. MovedError is an AskError."""


def is_sentinel(url: str) -> bool:
    return url.startswith(_SENTINEL)


def is_cluster(url: str) -> bool:
    return url.startswith(_CLUSTER)


def key_prefix(url: str = URL) -> str:
    """Return what all keys begin with: the hash tag in a cluster, else nothing."""
    return f"{_TAG}:" if is_cluster(url) else ""


def connect(url: str = URL, **options: Any) -> redis.Redis:
    """Return a client, which connects with its first command. options: those of `redis.Redis`."""
    if is_sentinel(url):
        servers, more = servers_of(url)
        sentinels = Sentinel(servers, sentinel_kwargs=_sentinel_options(), **more, **options)  # type: ignore[no-untyped-call]
        return sentinels.master_for(_primary, connection_class=PrimaryConnection)  # type: ignore[no-any-return, no-untyped-call]
    if is_cluster(url):
        servers, more = servers_of(url)
        nodes = ClusterNodes(servers, sentinel_kwargs=_node_options(more), **more, **options)  # type: ignore[no-untyped-call]
        return nodes.master_for(_TAG, connection_class=OwnerConnection)  # type: ignore[no-any-return, no-untyped-call]
    return redis.Redis.from_url(url, **options)


def connect_asynchronously(url: str = URL, **options: Any) -> redis.asyncio.Redis:
    """Like `connect`, for an event loop."""
    if is_sentinel(url):
        servers, more = servers_of(url)
        sentinels = AsyncSentinel(servers, sentinel_kwargs=_sentinel_options(), **more, **options)  # type: ignore[no-untyped-call]
        return sentinels.master_for(_primary)  # type: ignore[no-any-return]
    if is_cluster(url):
        servers, more = servers_of(url)
        nodes = _AsyncClusterNodes(servers, sentinel_kwargs=_node_options(more), **more, **options)  # type: ignore[no-untyped-call]
        return nodes.master_for(_TAG, connection_class=_AsyncOwnerConnection)  # type: ignore[no-any-return]
    return redis.asyncio.Redis.from_url(url, **options)


def celery_options(url: str = URL) -> dict[str, Any]:
    """Return what Celery needs beside the address, as options of its transport and of its store of results."""
    if is_sentinel(url):
        return {"master_name": _primary, "sentinel_kwargs": _sentinel_options()}
    if is_cluster(url):
        return {
            "master_name": _TAG,
            "sentinel_kwargs": _node_options(servers_of(url)[1]),
            "global_keyprefix": key_prefix(url),
        }
    return {}


def servers_of(url: str) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """Return host and port of each Sentinel, or server of a cluster, and the servers' login, as the first one says.

    Raises ValueError if the address cannot be used.
    """
    scheme, port = (_CLUSTER, 6379) if is_cluster(url) else (_SENTINEL, 26379)
    addresses = [parse_url(_as_redis(one.strip(), scheme, port)) for one in url.split(";")]  # type: ignore[no-untyped-call]
    servers = [(str(one["host"]), int(one.get("port") or port)) for one in addresses]
    login = {name: value for name, value in addresses[0].items() if name in ("username", "password", "db")}
    if is_cluster(url) and login.pop("db", 0):
        raise ValueError("RINGFENCE_REDIS_URL: a cluster has only the database 0")
    return servers, login


def _as_redis(url: str, scheme: str, port: int) -> str:
    if not url.startswith(scheme):
        raise ValueError(f"RINGFENCE_REDIS_URL: {scheme}host:{port};{scheme}host:{port}/0 is expected")
    return f"redis://{url.removeprefix(scheme)}"


def _sentinel_options() -> dict[str, Any]:
    return {**_SENTINEL_SECONDS, **({"password": _sentinel_password} if _sentinel_password else {})}


def _node_options(login: Mapping[str, Any]) -> dict[str, Any]:
    return {**_SENTINEL_SECONDS, **login}


class NoOwner(MasterNotFoundError):
    """No server of the cluster knows one that has our slot."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(f"no server of the cluster knows which one has slot {_SLOT}: {'; '.join(reasons)}")


class NoCluster(MasterNotFoundError):
    """The servers are not in cluster mode."""

    def __init__(self) -> None:
        super().__init__("the server is not in cluster mode: set RINGFENCE_REDIS_URL to redis://… or sentinel://…")


def _owner(slots: Iterable[Sequence[Any]], info: Mapping[str, str], node: Any) -> tuple[str, int]:
    """Return host and port of the server with our slot, as `node` says. Raises ConnectionError if it does not know it.

    slots, info: its answers to CLUSTER SLOTS and CLUSTER INFO.
    """
    if info.get("cluster_state") != "ok":
        raise redis.ConnectionError("it says that the cluster is down")  # it may have been cut off, and know an old one
    for first, last, (host, port, *_), *_ in slots:
        if int(first) <= _SLOT <= int(last):
            host = host.decode() if isinstance(host, bytes) else host
            return host or str(node.connection_pool.connection_kwargs["host"]), int(port)
    raise redis.ConnectionError("nobody has it")


@contextmanager
def _collect_reason(node: Any, reasons: list[str]) -> Iterator[None]:
    """Add why this server names no owner, and go on after the block. Raises NoCluster if it is in no cluster."""
    try:
        yield
    except (redis.ResponseError, redis.ConnectionError, redis.TimeoutError) as error:
        if isinstance(error, redis.ResponseError) and "cluster support disabled" in str(error):
            raise NoCluster from error
        options = node.connection_pool.connection_kwargs
        reasons.append(f"{options['host']}:{options['port']}: {str(error) or type(error).__name__}")


class ClusterNodes(Sentinel):
    """Servers of a cluster, which know the one with our slot."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return its host and port. Raises ConnectionError."""
        reasons: list[str] = []
        for number, node in enumerate(self.sentinels):
            with _collect_reason(node, reasons):
                ask: Any = node.execute_command
                owner = _owner(ask("CLUSTER SLOTS"), ask("CLUSTER INFO"), node)
                self.sentinels[0], self.sentinels[number] = node, self.sentinels[0]
                return owner
        raise NoOwner(reasons)


class _AsyncClusterNodes(AsyncSentinel):
    async def discover_master(self, service_name: str) -> tuple[str, int]:
        reasons: list[str] = []
        for number, node in enumerate(self.sentinels):
            with _collect_reason(node, reasons):
                ask: Any = node.execute_command
                owner = _owner(await ask("CLUSTER SLOTS"), await ask("CLUSTER INFO"), node)
                self.sentinels[0], self.sentinels[number] = node, self.sentinels[0]
                return owner
        raise NoOwner(reasons)


class PrimaryConnection(SentinelManagedConnection):
    """A connection to the server that takes writes.

    Redis-py's own connects again to the same server if it breaks during a command, and repeats a health check there: a
    server that hangs is tried four times before anybody asks whether another one has taken over.
    """

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send a command. Raises ConnectionError or TimeoutError."""
        if not self._sock:
            self.connect()  # type: ignore[no-untyped-call]
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

    def check_health(self) -> None:
        """Ping the server if nothing came for a while. Raises ConnectionError or TimeoutError."""
        if self.health_check_interval and time.monotonic() > self.next_health_check:
            try:
                self._send_ping()  # type: ignore[no-untyped-call]
            except (redis.ConnectionError, redis.TimeoutError) as error:
                self._ping_failed(error, 1)  # type: ignore[no-untyped-call]
                raise


class OwnerConnection(PrimaryConnection):
    """A connection to the server with our slot. It ends when another server gets the slot."""

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read a reply. Raises ConnectionError if this server does not have the slot any more."""
        try:
            return super().read_response(*args, **options)
        except _OTHER_OWNER as error:
            self.disconnect()  # type: ignore[no-untyped-call]
            raise redis.ConnectionError(f"Another server of the cluster has our keys now: {error}") from error


class _AsyncOwnerConnection(AsyncSentinelManagedConnection):
    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except _OTHER_OWNER as error:
            await self.disconnect()
            raise redis.ConnectionError(f"Another server of the cluster has our keys now: {error}") from error
