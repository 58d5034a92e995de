"""The freshness of the projection: reads the topics' ends, and records the time once everything before
them is applied.
"""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol

from django.db.models.functions import Now

from ringfence.fencing.errors import FencingError
from ringfence.heartbeats.models import Freshness

EVERY_SECONDS = 2.0

Positions = Mapping[tuple[str, int], int]
"""The next offset of each (topic, partition)."""


class Ends(Protocol):
    """Ends that were requested."""

    def is_answered(self) -> bool: ...

    def result(self) -> Positions: ...


class FreshnessWatch:
    """One thread calls `look`, often. ask: starts a request for the ends, and returns within a second. It may raise
    FencingError.
    """

    def __init__(self, ask: Callable[[], Ends], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asked_at = 0.0
        self._request: Ends | None = None
        self._ends: Positions | None = None
        self._last_positions: Positions = {}
        self._next = 0.0

    def look(self, positions: Positions) -> None:
        """Check the progress. positions: how far each partition is applied. Raises DatabaseError."""
        now = self._clock()
        if self._request is None:
            if now >= self._next:
                self._asked_at, self._next = now, now + EVERY_SECONDS
                try:
                    request = self._ask()
                except FencingError:
                    return  # no broker answers, so the topics' ends are unknown
                self._request, self._ends, self._last_positions = request, None, dict(positions)
            return
        if self._ends is None:
            if not self._request.is_answered():
                return
            try:
                self._ends = self._request.result()
            except FencingError:
                self._request = None  # the topics' ends are unknown
                return
        passed = all(positions.get(partition, 0) >= end for partition, end in self._ends.items())
        # A position may never reach an end, if compaction removed the last records of a segment.
        rests = now - self._asked_at > EVERY_SECONDS and dict(positions) == self._last_positions
        if passed or rests:
            self._request = None
            write(now - self._asked_at)


def write(seconds_ago: float) -> None:
    """Record that the database contains everything that the topics held this long ago."""
    as_of = Now() - timedelta(seconds=seconds_ago)
    if not Freshness.objects.filter(id=1).update(as_of=as_of):
        Freshness.objects.create(id=1, as_of=as_of)
