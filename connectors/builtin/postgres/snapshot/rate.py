"""Measures rows per second over the last minute."""

import time
from collections import deque
from typing import Final

_SECONDS: Final = 60.0
_APART: Final = 0.5


class Rate:
    """The rate of a growing number of rows."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def measure(self, rows: int) -> float | None:
        """Record the number of rows now. Return the rate, or None for the first measurement."""
        now = time.monotonic()
        if self._points and rows < self._points[-1][1]:
            self._points.clear()  # another snapshot
        if not self._points or now - self._points[-1][0] >= _APART:
            self._points.append((now, rows))
        while now - self._points[0][0] > _SECONDS:
            self._points.popleft()
        since, before = self._points[0]
        return (rows - before) / (now - since) if now > since else None
