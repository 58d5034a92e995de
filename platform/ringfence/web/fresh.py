"""Rendered parts, kept for a moment: when something changes, all open pages ask for the same at once.

A page says since when it wants to know (the time in the event that woke it). A part that was begun to be made after
that serves it, too. Keys name everything that a part depends on: above all who may see it.
"""

import time
from collections.abc import Callable, Hashable

LONGEST_MS = 2_000
"""Nothing older is given away, whatever a page asks for."""
_MOST = 500


class Fresh:
    """Of this process. Any thread may use it: two that miss at once both make the part."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: dict[Hashable, tuple[int, str]] = {}

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def find(self, key: Hashable, since_ms: int) -> str | None:
        """The part, if it was made at or after that time. 0: only a new one will do."""
        made_ms, text = self._kept.get(key, (0, ""))
        return text if 0 < since_ms <= made_ms and self.now_ms() - made_ms <= LONGEST_MS else None

    def keep(self, key: Hashable, began_ms: int, text: str) -> None:
        """`began_ms`: before its data was read."""
        if len(self._kept) >= _MOST:
            self._kept.clear()  # cheaper than to know which ones are old; they last two seconds
        self._kept[key] = began_ms, text

    def get(self, key: Hashable, since_ms: int, make: Callable[[], str]) -> str:
        """The part, made if need be."""
        found = self.find(key, since_ms)
        if found is None:
            began_ms = self.now_ms()
            found = make()
            self.keep(key, began_ms, found)
        return found


parts = Fresh()


def since_of(text: str) -> int:
    """The time that a page sends, 0 for none or for nonsense."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
