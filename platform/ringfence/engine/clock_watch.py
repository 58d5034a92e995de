"""A clock that is set back while the worker runs.

librdkafka waits until a time of day (C11 has no other wait), so a wait under way lasts longer by as much as the clock
was set back: threads, heartbeats and polls stand still for minutes, and nothing wakes them. A process that began after
the step has no such wait. So the worker ends at once, and others start it again. Measured with a step of ten minutes:
docs/exactly-once.md.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from ringfence.fencing.clock import SYSTEM_CLOCK, Clock

log = logging.getLogger(__name__)

MOST_SECONDS: Final = 15.0
"""What a step back may be: starting again would stop the tasks for about as long as the clients stand still."""
_LOOK_SECONDS: Final = 0.5


class ClockWatch:
    """Compares the clock that people set with the one that nobody does. Not shared between threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._between = self._measure()

    def _measure(self) -> float:
        return self._clock.wall() - self._clock.monotonic()

    def step_back(self) -> float:
        """By how many seconds the clock was set back since the last look; 0 for less than `MOST_SECONDS`."""
        before, self._between = self._between, self._measure()
        step = before - self._between
        return step if step > MOST_SECONDS else 0.0


def watch(stop: threading.Event, end: Callable[[], None], clock: Clock = SYSTEM_CLOCK) -> None:
    """The thread: until `stop`, or until the clock is set back, which calls `end`."""
    clocks = ClockWatch(clock)
    while not stop.wait(_LOOK_SECONDS):
        if step := clocks.step_back():
            log.error(
                "This machine's clock was set back by %.0f s. Kafka's client would stand still for as long, so this "
                "worker ends now: started again, it goes on from what is committed. Let the time service correct a "
                "running machine slowly",
                step,
            )
            end()
            return
