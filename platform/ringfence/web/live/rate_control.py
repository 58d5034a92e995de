"""Controls how often open pages get events, by the processor time that each event costs.

A page fetches a fragment for each event. Fragments that many pages share are made once and cost little, others cost
much. So the cost is measured: the process's processor time, divided by its events.
"""

import time
from collections.abc import Callable

SHORTEST, LONGEST = 0.8, 10.0
"""Bounds on the seconds between two number events, for each page."""
SHARE = 0.6
"""The share of one core that number events may use."""
_LOOK_SECONDS, _ENOUGH = 1.0, 10
"""Seconds between two measurements, and the fewest events for one. With fewer, the process's other work
would distort it.
"""
_MORE, _LESS = 0.3, 0.8
"""The weight of a new measurement, if it is higher, or lower, than the average. A costly second is forgotten quickly:
often it is an exception, such as the start of the process, and users notice late numbers.
"""
_STATES = 0.3


class RateControl:
    """The rate control of one process."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu_clock: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._since, self._then = clock(), cpu_clock()
        self._events = 0
        self._cost = 0.0

    def count_event(self) -> None:
        """Count an event that was sent to a page."""
        self._events += 1
        now = self._clock()
        if now - self._since < _LOOK_SECONDS:
            return
        cpu_seconds = self._cpu_clock()
        if self._events >= _ENOUGH:
            cost = (cpu_seconds - self._then) / self._events
            self._cost += (cost - self._cost) * (_MORE if cost > self._cost else _LESS)
        self._since, self._then, self._events = now, cpu_seconds, 0

    def numbers_s(self, pages: int) -> float:
        """Return the seconds between two events, if only numbers have changed."""
        return min(LONGEST, max(SHORTEST, pages * self._cost / SHARE))

    def states_s(self, pages: int) -> float:
        """Return the seconds between two events, if a state has changed: never long, because users wait for it."""
        return min(SHORTEST, self.numbers_s(pages) * _STATES)
