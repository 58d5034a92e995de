"""Ends the worker when the machine's clock is set back.

librdkafka waits until a time of day (C11 has no other wait). If the clock is set back, the current waits last longer by
as much: threads, heartbeats and polls hang for minutes, and nothing wakes them. A process that starts after the step
has no such wait. So the worker ends at once, and its supervisor starts it again. Measured with a step of ten minutes:
docs/exactly-once.md.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from ringfence.fencing.clock import SYSTEM_CLOCK, Clock

log = logging.getLogger(__name__)

MOST_SECONDS: Final = 15.0
"""The longest step that is tolerated: a restart stops the tasks for about as long."""
_LOOK_SECONDS: Final = 0.5


class ClockWatch:
    """Compares the wall clock with the monotonic one. Not shared between threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._between = self._measure()

    def _measure(self) -> float:
        return self._clock.wall() - self._clock.monotonic()

    def step_back(self) -> float:
        """Return how many seconds the clock was set back since the last call; 0 for less than `MOST_SECONDS`."""
        before, self._between = self._between, self._measure()
        step = before - self._between
        return step if step > MOST_SECONDS else 0.0


def watch(stop: threading.Event, end: Callable[[], None], clock: Clock = SYSTEM_CLOCK) -> None:
    """Run until `stop`, or until the clock is set back; then call `end`. It is the body of a thread."""
    clocks = ClockWatch(clock)
    while not stop.wait(_LOOK_SECONDS):
        if step := clocks.step_back():
            log.error(
                "This machine's clock was set back by %.0f s. Kafka's client would wait for as long, so this "
                "worker ends now: started again, it continues from what is committed. Let the time service correct a "
                "running machine slowly",
                step,
            )
            end()
            return
