"""Read-your-writes: whoever reads after a command was answered sees what it wrote, in any web process.

A command may be answered as soon as its records are in Kafka. The rows follow a moment later, so the answering process
notes up to where, and each request begins by waiting for that (`settle`). Redis passes it on to the other web
processes. If Redis loses it, a reader in another process may be a moment too early, and nothing else happens.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final, cast

import redis

from ringfence.celery import REDIS_URL
from ringfence.fencing.clock import Deadline
from ringfence.projection import positions
from ringfence.requests.refusal import Refusal

log = logging.getLogger(__name__)

Place = tuple[str, int]
"""The role of a topic, and a partition."""

SETTLE_SECONDS: Final = 5.0
"""A reader waits no longer: the projection has a problem then, which every page says."""
_KEPT_SECONDS: Final = 120
"""So long ends are remembered. After that, the rows show them, or never will."""
_REDIS_SECONDS: Final = 0.25
_SILENT_SECONDS: Final = 5.0
_KEY: Final = "ringfence:answered"


def ends_in(answer: Mapping[str, object]) -> dict[Place, int]:
    """Return up to where a command has written: `offset` of the config topic, `offsets_end` and `status_end`.

    The latter two: {partition: next offset} of the offsets or status topic, for commands that write there.
    """
    ends: dict[Place, int] = {}
    offset = answer.get("offset")
    if isinstance(offset, int):
        ends["config", 0] = offset + 1
    for role in ("offsets", "status"):
        partitions = answer.get(f"{role}_end")
        if isinstance(partitions, dict):
            ends |= {(role, int(partition)): int(end) for partition, end in partitions.items()}
    return ends


def wait_for_rows(answer: Mapping[str, object], deadline: Deadline) -> None:
    """Wait until the database shows what a command has written. Raises `Refusal` if it does not by the deadline."""
    for (role, partition), end in ends_in(answer).items():
        if not _is_shown(role, partition, end, deadline):
            raise Refusal(
                500,
                f"Request timed out. It was written to Kafka, and the database does not show it yet: waited for offset "
                f"{end - 1} of the {role} topic. It is in effect; read it again.",
            )


def _is_shown(role: str, partition: int, end: int, deadline: Deadline) -> bool:
    """Wait until the rows show a topic up to this offset; return False at the deadline."""
    pause = 0.002
    while positions.shown_offset(role, partition) < end:
        if deadline.expired:
            return False
        time.sleep(deadline.slice(pause))
        pause = min(pause * 1.5, 0.1)
    return True


class Answered:
    """Up to where answered commands have written. Thread-safe."""

    def __init__(self, url: str = REDIS_URL) -> None:
        self._redis = redis.Redis.from_url(url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS)
        self._silent_until = 0.0
        self._lock = threading.Lock()
        self._ends: dict[Place, int] = {}
        self._settled: dict[Place, int] = {}
        self._noted_at = time.monotonic()

    def note(self, answer: Mapping[str, object]) -> None:
        """Note what a command has written, before it is answered."""
        ends = ends_in(answer)
        self._merge(ends)
        if ends and time.monotonic() >= self._silent_until:
            try:
                with self._redis.pipeline(transaction=False) as pipe:
                    pipe.zadd(_KEY, {f"{role}:{partition}": end for (role, partition), end in ends.items()}, gt=True)
                    pipe.expire(_KEY, _KEPT_SECONDS)
                    pipe.execute()
            except redis.RedisError as error:
                self._skip(error)

    def settle(self) -> None:
        """Wait until the rows show everything that was answered before this call, or for some seconds."""
        self._merge(self._ask_others())
        with self._lock:
            due = {place: end for place, end in self._ends.items() if end > self._settled.get(place, 0)}
        deadline = Deadline.after(SETTLE_SECONDS)
        for (role, partition), end in due.items():
            if not _is_shown(role, partition, end, deadline):
                log.warning("The rows do not show the %s topic up to offset %d in time", role, end)
            with self._lock:
                self._settled[role, partition] = max(end, self._settled.get((role, partition), 0))

    def _merge(self, ends: Mapping[Place, int]) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._noted_at > _KEPT_SECONDS:  # an offset of a topic that was replaced must not stay
                self._ends.clear()
                self._settled.clear()
            for place, end in ends.items():
                if end > self._ends.get(place, 0):
                    self._ends[place], self._noted_at = end, now

    def _ask_others(self) -> dict[Place, int]:
        """Return what other web processes have noted."""
        if time.monotonic() < self._silent_until:
            return {}
        try:
            entries = cast("list[tuple[bytes, float]]", self._redis.zrange(_KEY, 0, 99, withscores=True))
        except redis.RedisError as error:
            self._skip(error)
            return {}
        ends: dict[Place, int] = {}
        for name, end in entries:
            role, _, partition = name.decode(errors="replace").partition(":")
            if role in ("config", "offsets", "status") and partition.isdecimal():
                ends[role, int(partition)] = int(end)
        return ends

    def _skip(self, error: redis.RedisError) -> None:
        self._silent_until = time.monotonic() + _SILENT_SECONDS
        log.info("Redis does not pass on what web processes have written (%s)", type(error).__name__)


answered: Final = Answered()
"""Of this process."""
