"""Rendered parts, kept for a moment: when something changes, all open pages ask for the same at once.

A page says since when it wants to know (the time in the event that woke it). A part that was begun to be made after
that serves it, too, even while it is still being made. Keys name everything that a part depends on: above all who may
see it.
"""

import gzip
import threading
import time
from collections.abc import Callable, Hashable
from functools import cached_property

from django.http import HttpResponse

LONGEST_MS = 2_000
"""Nothing older is given away, whatever a page asks for."""
PACK_LEVEL = 3
_MOST = 500


class Fragment:
    """A piece of a page. Packed once, for all who take it so."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.text.encode(), PACK_LEVEL, mtime=0)


class FragmentResponse(HttpResponse):
    """Answers with a part that others may have, too."""

    def __init__(self, part: Fragment) -> None:
        super().__init__(part.text)
        self.part = part


class _Making:
    """A part that a thread is at. `part` stays None where that failed."""

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.over = threading.Event()
        self.part: Fragment | None = None


class FragmentCache:
    """Of this process; any thread may use it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[int, Fragment]] = {}
        self._making: dict[Hashable, _Making] = {}

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def find(self, key: Hashable, since_ms: int) -> Fragment | None:
        """The part, if it was made at or after that time. 0: only a new one will do."""
        kept = self._kept.get(key)
        if kept is None or not 0 < since_ms <= kept[0] or self.now_ms() - kept[0] > LONGEST_MS:
            return None
        return kept[1]

    def keep(self, key: Hashable, began_ms: int, text: str) -> Fragment:
        """`began_ms`: before its data was read."""
        if len(self._kept) >= _MOST:
            self._kept.clear()  # cheaper than to know which ones are old; they last two seconds
        part = Fragment(text)
        self._kept[key] = began_ms, part
        return part

    def get(self, key: Hashable, since_ms: int, make: Callable[[], str]) -> Fragment:
        """The part, made if need be; by one thread, while the others that want no newer one wait for it."""
        while True:
            with self._lock:
                found, at_work = self.find(key, since_ms), self._making.get(key)
                if found is not None:
                    return found
                if at_work is None or not 0 < since_ms <= at_work.began_ms:
                    making = self._making[key] = _Making(self.now_ms())
                    break
            at_work.over.wait()
            if at_work.part is not None:
                return at_work.part
        try:
            making.part = self.keep(key, making.began_ms, make())
            return making.part
        finally:
            with self._lock:
                if self._making.get(key) is making:
                    del self._making[key]
            making.over.set()


parts = FragmentCache()


def since_of(text: str) -> int:
    """The time that a page sends, 0 for none or for nonsense."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
