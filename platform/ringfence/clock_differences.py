"""The clock differences between workers and this web process, for pages and metrics; measured from time to time."""

import threading
import time

from redis.exceptions import RedisError

from ringfence import redis_clock, transport

WARN_SECONDS = 2.0
_ASKED_SECONDS = 10.0
HERE = "web"


class Clocks:
    """The clocks as this process sees them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._offsets: dict[str, float] = {}

    def offsets(self) -> dict[str, float]:
        """Return how many seconds each process's clock is ahead of Redis'; empty while Redis is away."""
        with self._lock:
            if time.monotonic() < self._until:
                return self._offsets
            self._until = time.monotonic() + _ASKED_SECONDS  # so that others need not wait for the same answer
        try:
            offsets = {**redis_clock.offsets(transport.results), HERE: redis_clock.offset(transport.results)}
        except RedisError:
            offsets = {}
        self._offsets = offsets
        return offsets

    def forget(self) -> None:
        self._until = 0.0


clocks = Clocks()


def describe_largest(offsets: dict[str, float]) -> str:
    """Describe the largest difference between two processes; "" if it is small."""
    if not offsets:
        return ""
    ahead, behind = max(offsets, key=lambda name: offsets[name]), min(offsets, key=lambda name: offsets[name])
    seconds = offsets[ahead] - offsets[behind]
    return f"{ahead} is {seconds:.1f} s ahead of {behind}" if seconds > WARN_SECONDS else ""
