"""How often open pages are told: as often as the process can bear.

A page fetches its part for each event. Parts that many ask for are made once and cost little, others much, so what an
event costs is measured: the processor time that the process used, for each event that it told.
"""

import time
from collections.abc import Callable

SHORTEST, LONGEST = 0.8, 10.0
"""Seconds between two events about numbers, for each page."""
SHARE = 0.6
"""Of one core: so much may the pages cost that are told of numbers as often as that allows."""
_LOOK_SECONDS, _ENOUGH = 1.0, 10
"""Between two looks, and the events that make one worth it: the rest of the process costs something, too."""
_MORE, _LESS = 0.3, 0.8
"""How much a look counts beside those before it. A second that cost much is forgotten soon: often it was something
else, as when the process begins, and numbers that come late are what people see."""
_STATES = 0.3


class RateControl:
    """Of one process."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, used: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._used = clock, used
        self._looked, self._then = clock(), used()
        self._told = 0
        self._cost = 0.0

    def count_event(self) -> None:
        """An event was told to a page."""
        self._told += 1
        now = self._clock()
        if now - self._looked < _LOOK_SECONDS:
            return
        used = self._used()
        if self._told >= _ENOUGH:
            cost = (used - self._then) / self._told
            self._cost += (cost - self._cost) * (_MORE if cost > self._cost else _LESS)
        self._looked, self._then, self._told = now, used, 0

    def numbers_s(self, pages: int) -> float:
        """Between two events, where only numbers have changed."""
        return min(LONGEST, max(SHORTEST, pages * self._cost / SHARE))

    def states_s(self, pages: int) -> float:
        """Between two events, where a state has changed: never long, since somebody waits for it."""
        return min(SHORTEST, self.numbers_s(pages) * _STATES)
