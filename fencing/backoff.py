"""Pauses between failed attempts."""

import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles each pause, up to a maximum. All values are in seconds.

    Each pause is shortened by up to a fifth at random, so that tasks that failed together do not retry together.
    """

    first: float
    longest: float
    jitter: float = 0.2

    def pause(self, failures: int) -> float:
        """Return the pause after this many failures in a row: 0.0 after none."""
        if failures < 1:
            return 0.0
        full = min(self.longest, self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        return full * random.uniform(1 - self.jitter, 1)  # noqa: S311
