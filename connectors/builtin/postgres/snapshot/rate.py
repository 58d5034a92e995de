"""Rows a second, over the last minute."""

import time
from collections import deque
from typing import Final

_SECONDS: Final = 60.0
_APART: Final = 0.5


class Rate:
    """Told now and then how many rows there are."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def measure(self, rows: int) -> float | None:
        """None before the second look."""
        now = time.monotonic()
        if self._seen and rows < self._seen[-1][1]:
            self._seen.clear()  # another snapshot
        if not self._seen or now - self._seen[-1][0] >= _APART:
            self._seen.append((now, rows))
        while now - self._seen[0][0] > _SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return (rows - before) / (now - since) if now > since else None
