"""Redis' clock, which web processes and workers share, and how far a process's own clock is from it.

A transmitted deadline is a time on this clock, so that differences between machines' clocks do not matter. The
differences are measured and displayed, because users see times, and tokens expire, by each machine's own clock.
"""

import json
import math
import time
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ringfence import redis_client

TOLD_SECONDS = 10.0
_FORGOTTEN_SECONDS = 60.0
_KEY = f"{redis_client.key_prefix()}ringfence:clocks"
_MOST_PROCESSES = 1000
_LATELY_SECONDS: Final = 0.1
_last_answer: ContextVar[tuple[float, float] | None] = ContextVar("Redis' time", default=None)
"""Redis' time, and when it was received by this process's monotonic clock."""


def connect(url: str) -> redis.Redis:
    """Connect, with one immediate retry: a pooled connection may be dead after a restart of Redis."""
    return redis_client.connect(url, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 1))


@cache
def _own() -> redis.Redis:
    return connect(redis_client.URL)


def now(client: redis.Redis | None = None) -> float:
    """Return seconds since the epoch, by Redis' clock. Raises RedisError."""
    return _seconds((client or _own()).time())


def note(answer: object) -> None:
    """Note what Redis has just answered to TIME, which was asked beside something else, for this thread's `lately`."""
    _last_answer.set((_seconds(answer), time.monotonic()))


def lately(client: redis.Redis | None = None) -> float:
    """Return as `now`, without a request if this thread got the time a moment ago. Raises RedisError."""
    then, at = _last_answer.get() or (0.0, -math.inf)
    age = time.monotonic() - at
    return then + age if age <= _LATELY_SECONDS else now(client)


def _seconds(answer: Any) -> float:
    seconds, microseconds = answer
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
