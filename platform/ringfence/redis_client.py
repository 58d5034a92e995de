"""Connects to Redis: to the server at an address, or to the one that Sentinel names as the primary.

An address of Sentinels has Celery's form: `sentinel://:password@one:26379;sentinel://two:26379/0`, with the login of
the servers behind them. Each new connection asks them again, so that a fail-over needs no restart here.
"""

import os
from typing import Any, Final

import redis
import redis.asyncio
from redis.connection import parse_url
from redis.sentinel import Sentinel

# Read here, at once: a worker removes its variables before it starts anything (`engine/spark/connector_limits.py`).
URL: Final = os.environ.get("RINGFENCE_REDIS_URL", "redis://127.0.0.1:6379/0")
_primary = os.environ.get("RINGFENCE_REDIS_PRIMARY", "").strip() or "mymaster"
_sentinel_password = os.environ.get("RINGFENCE_REDIS_SENTINEL_PASSWORD", "")
_SENTINEL: Final = "sentinel://"
_SENTINEL_SECONDS: Final = {"socket_timeout": 1, "socket_connect_timeout": 1}
"""One that does not answer is passed over soon, and the next one is asked."""


def is_sentinel(url: str) -> bool:
    return url.startswith(_SENTINEL)


def connect(url: str = URL, **options: Any) -> redis.Redis:
    """Return a client, which connects with its first command. options: those of `redis.Redis`."""
    if not is_sentinel(url):
        return redis.Redis.from_url(url, **options)
    servers, more = _servers_of(url)
    sentinels = Sentinel(servers, sentinel_kwargs=_sentinel_options(), **more, **options)  # type: ignore[no-untyped-call]
    return sentinels.master_for(_primary)  # type: ignore[no-any-return, no-untyped-call]


def connect_asynchronously(url: str = URL, **options: Any) -> redis.asyncio.Redis:
    """Like `connect`, for an event loop."""
    if not is_sentinel(url):
        return redis.asyncio.Redis.from_url(url, **options)
    servers, more = _servers_of(url)
    sentinels = redis.asyncio.Sentinel(servers, sentinel_kwargs=_sentinel_options(), **more, **options)  # type: ignore[no-untyped-call]
    return sentinels.master_for(_primary)  # type: ignore[no-any-return]


def celery_options(url: str = URL) -> dict[str, Any]:
    """Return what Celery needs beside the address, as options of its transport and of its store of results."""
    if not is_sentinel(url):
        return {}
    return {"master_name": _primary, "sentinel_kwargs": _sentinel_options()}


def _servers_of(url: str) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """Return host and port of each Sentinel, and how to log in to the servers behind them, as the first one says."""
    addresses = [parse_url(_as_redis(one)) for one in url.split(";")]  # type: ignore[no-untyped-call]
    servers = [(str(one["host"]), int(one.get("port") or 26379)) for one in addresses]
    return servers, {name: value for name, value in addresses[0].items() if name in ("username", "password", "db")}


def _as_redis(url: str) -> str:
    if not is_sentinel(url.strip()):
        raise ValueError("RINGFENCE_REDIS_URL: sentinel://host:26379;sentinel://host:26379/0 is expected")
    return f"redis://{url.strip().removeprefix(_SENTINEL)}"


def _sentinel_options() -> dict[str, Any]:
    return {**_SENTINEL_SECONDS, **({"password": _sentinel_password} if _sentinel_password else {})}
