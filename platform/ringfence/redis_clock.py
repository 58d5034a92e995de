"""Redis' clock, which web processes and workers share, and how far a process's own clock is from it.

A transmitted deadline is a time on this clock, so that differences between machines' clocks do not matter. The
differences are measured and displayed, because users see times, and tokens expire, by each machine's own clock.
"""

import json
import math
import time
from functools import cache

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ringfence import redis_client

TOLD_SECONDS = 10.0
_FORGOTTEN_SECONDS = 60.0
_KEY = f"{redis_client.key_prefix()}ringfence:clocks"
_MOST_PROCESSES = 1000


def connect(url: str) -> redis.Redis:
    """Connect, with one immediate retry: a pooled connection may be dead after a restart of Redis."""
    return redis_client.connect(url, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 1))


@cache
def _own() -> redis.Redis:
    return connect(redis_client.URL)


def now(client: redis.Redis | None = None) -> float:
    """Return seconds since the epoch, by Redis' clock. Raises RedisError."""
    seconds, microseconds = (client or _own()).time()
    return int(seconds) + int(microseconds) / 1e6


def offset(client: redis.Redis | None = None) -> float:
    """Return how many seconds this process's clock is ahead of Redis', to half a round trip. Raises RedisError."""
    before = time.time()
    there = now(client)
    return (before + time.time()) / 2 - there


def publish_offset(process: str, client: redis.Redis | None = None) -> None:
    """Publish this process's offset. Raises RedisError."""
    client = client or _own()
    client.hset(_KEY, process, json.dumps([offset(client), now(client)]))
    client.expire(_KEY, int(_FORGOTTEN_SECONDS * 2))


def offsets(client: redis.Redis) -> dict[str, float]:
    """Return the offsets of the processes that published one in the last minute. Raises RedisError.

    What is not a measurement is left out, and a hash with too many entries is not read: whoever reaches Redis can
    write there.
    """
    there = now(client)
    if int(client.hlen(_KEY)) > _MOST_PROCESSES:
        return {}
    seconds: dict[str, float] = {}
    for process, measurement in client.hgetall(_KEY).items():
        try:
            ahead, at = (float(number) for number in json.loads(measurement))
            name = process.decode() if isinstance(process, bytes) else process
        except (ValueError, TypeError, OverflowError, RecursionError):
            continue
        if math.isfinite(ahead) and abs(there - at) <= _FORGOTTEN_SECONDS:
            seconds[name] = ahead
    return dict(sorted(seconds.items()))
