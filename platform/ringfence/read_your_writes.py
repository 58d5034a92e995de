"""Read-your-writes: who reads after a command of theirs was answered sees what it wrote, in any web process.

A command may be answered as soon as its records are in Kafka. The rows follow a moment later, so the answering process
notes up to where, and each request of that account begins by waiting for it (`settle`). The worker writes it to Redis
with its answer, for the other web processes. If Redis loses it, a reader in another process may be a moment too early,
and nothing else happens.
"""

import logging
import re
import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final, cast

import redis

from ringfence import answer_ends, redis_client, redis_clock
from ringfence.answer_ends import KEPT_SECONDS, NOTED, Place, ends_in, key_of
from ringfence.fencing.clock import Deadline
from ringfence.projection import positions
from ringfence.quotas import Lane
from ringfence.requests.request import Refusal

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 5.0
"""A reader waits no longer: the projection has a problem then, which every page says."""
_REDIS_SECONDS: Final = 0.25
_SILENT_SECONDS: Final = 5.0
_PARTITION: Final = re.compile("[0-9]{1,9}")
_MOST_OFFSET: Final = 1 << 63


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
    """Up to where answered commands of each account have written. Thread-safe.

    An account waits for its own writes only: what another one writes may take the projection seconds.
    """

    def __init__(self, url: str = redis_client.URL) -> None:
        self._redis = redis_client.connect(url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS)
        self._silent_until = 0.0
        self._lock = threading.Lock()
        self._accounts: dict[str, _Ends] = {}

    def note(self, account: str, answer: Mapping[str, object]) -> None:
        """Note what a command has written, before it is answered: here, and in Redis unless the worker did so."""
        ends = ends_in(answer)
        self._merge(account, ends)
        if ends and answer.get(NOTED) is not True and time.monotonic() >= self._silent_until:
            try:
                with self._redis.pipeline(transaction=False) as pipe:
                    answer_ends.write(pipe, account, ends)
                    pipe.execute()
            except redis.RedisError as error:
                self._skip(error)

    def settle(self, account: str, places: Lane | None = None) -> None:
        """Wait until the rows show what the account was answered before this call, or for some seconds.

        places: whoever has to wait takes one of them. Raises `TooMany` if there is none.
        """
        self._merge(account, self._ask_others(account))
        with self._lock:
            ends = self._accounts.get(account)
            due = {} if ends is None else ends.due()
        awaited = {place: end for place, end in due.items() if positions.shown_offset(*place) < end}
        if awaited:
            with nullcontext() if places is None else places.take(account):
                deadline = Deadline.after(SETTLE_SECONDS)
                for (role, partition), end in awaited.items():
                    if not _is_shown(role, partition, end, deadline):
                        log.warning("The rows do not show the %s topic up to offset %d in time", role, end)
        with self._lock:
            if ends is not None:
                for place, end in due.items():
                    ends.settled[place] = max(end, ends.settled.get(place, 0))

    def _merge(self, account: str, ends: Mapping[Place, int]) -> None:
        if not ends:
            return
        now = time.monotonic()
        with self._lock:
            # An offset of a topic that was replaced must not stay; nor an account that writes no more.
            self._accounts = {name: each for name, each in self._accounts.items() if now - each.noted_at < KEPT_SECONDS}
            self._accounts.setdefault(account, _Ends()).merge(ends, now)

    def _ask_others(self, account: str) -> dict[Place, int]:
        """Return what other web processes have noted."""
        if time.monotonic() < self._silent_until:
            return {}
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.zrange(key_of(account), 0, 99, withscores=True)
                pipe.time()  # for the command that may follow
                answers = pipe.execute()
            entries = cast("list[tuple[bytes, float]]", answers[0])
            redis_clock.note(answers[1])
        except redis.RedisError as error:
            self._skip(error)
            return {}
        ends: dict[Place, int] = {}
        for name, end in entries:  # which anybody may have put there who reaches Redis
            role, _, partition = name.decode(errors="replace").partition(":")
            if role in ("config", "offsets", "status") and _PARTITION.fullmatch(partition) and 0 <= end < _MOST_OFFSET:
                ends[role, int(partition)] = int(end)
        return ends

    def _skip(self, error: redis.RedisError) -> None:
        self._silent_until = time.monotonic() + _SILENT_SECONDS
        log.info("Redis does not pass on what web processes have written (%s)", type(error).__name__)


class _Ends:
    """Of one account. settled: what was waited for already."""

    def __init__(self) -> None:
        self._ends: dict[Place, int] = {}
        self.settled: dict[Place, int] = {}
        self.noted_at = 0.0

    def merge(self, ends: Mapping[Place, int], now: float) -> None:
        for place, end in ends.items():
            if end > self._ends.get(place, 0):
                self._ends[place], self.noted_at = end, now

    def due(self) -> dict[Place, int]:
        return {place: end for place, end in self._ends.items() if end > self.settled.get(place, 0)}


answered: Final = Answered()
"""Of this process."""
