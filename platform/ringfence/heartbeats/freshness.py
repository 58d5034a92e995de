"""How fresh the projection is: asks for the topics' ends, and notes the time once everything before them is applied."""

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
    """The ends that were asked for."""

    def is_answered(self) -> bool: ...

    def result(self) -> Positions: ...


class FreshnessWatch:
    """One thread calls `look`, often. `ask`: begins to ask for the ends, within a second. It may raise FencingError."""

    def __init__(self, ask: Callable[[], Ends], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asked_at = 0.0
        self._asked: Ends | None = None
        self._ends: Positions | None = None
        self._seen: Positions = {}
        self._next = 0.0

    def look(self, positions: Positions) -> None:
        """positions: how far each partition is applied. Raises DatabaseError."""
        now = self._clock()
        if self._asked is None:
            if now >= self._next:
                self._asked_at, self._next = now, now + EVERY_SECONDS
                try:
                    asked = self._ask()
                except FencingError:
                    return  # no broker answers, so nobody can tell how far the topics go
                self._asked, self._ends, self._seen = asked, None, dict(positions)
            return
        if self._ends is None:
            if not self._asked.is_answered():
                return
            try:
                self._ends = self._asked.result()
            except FencingError:
                self._asked = None  # nobody can tell how far the topics go
                return
        passed = all(positions.get(partition, 0) >= end for partition, end in self._ends.items())
        # A position may stop short of an end for ever, where compaction took a segment's last records.
        rests = now - self._asked_at > EVERY_SECONDS and dict(positions) == self._seen
        if passed or rests:
            self._asked = None
            write(now - self._asked_at)


def write(seconds_ago: float) -> None:
    """What the topics held so long ago is in the database."""
    as_of = Now() - timedelta(seconds=seconds_ago)
    if not Freshness.objects.filter(id=1).update(as_of=as_of):
        Freshness.objects.create(id=1, as_of=as_of)
