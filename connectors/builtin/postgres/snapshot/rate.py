"""Measures rows per second over the last minute."""

import time
from collections import deque
from typing import Final

_SECONDS: Final = 60.0
_APART: Final = 0.5


class Rate:
    """The rate of a growing number of rows."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def measure(self, rows: int) -> float | None:
        """Record the number of rows now. Return the rate, or None for the first measurement."""
        now = time.monotonic()
        if self._seen and rows < self._seen[-1][1]:
            self._seen.clear()  # another snapshot
        if not self._seen or now - self._seen[-1][0] >= _APART:
            self._seen.append((now, rows))
        while now - self._seen[0][0] > _SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return (rows - before) / (now - since) if now > since else None
