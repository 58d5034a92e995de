"""Time as a parameter: a clock that tests can set, and a deadline that is passed down a call chain."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """A monotonic and a wall clock, both in seconds."""

    def monotonic(self) -> float:
        """Seconds that never go back, for durations and deadlines."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch, for timestamps that people and other machines read."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


SYSTEM_CLOCK = SystemClock()


def boot_seconds() -> float:
    """Return seconds that also count while the process, or the whole machine, sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def epoch_ms() -> int:
    """Return the milliseconds since the epoch, for rows and records with a time."""
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time after which the caller no longer waits."""

    at: float
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def after(cls, seconds: float, clock: Clock = SYSTEM_CLOCK) -> "Deadline":
        return cls(clock.monotonic() + seconds, clock)

    @property
    def remaining(self) -> float:
        """The seconds left, never negative."""
        return max(0.0, self.at - self.clock.monotonic())

    @property
    def expired(self) -> bool:
        return self.clock.monotonic() >= self.at

    def slice(self, seconds: float) -> float:
        """Return how long one wait of at most `seconds` may take within this deadline."""
        return min(seconds, self.remaining)
