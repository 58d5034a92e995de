"""Caches rendered fragments for a moment, because after a change all open pages request the same ones at once.

A page sends the time of the event that woke it. Any fragment whose rendering began after that time serves it, even if
it is still being rendered. Keys contain everything that a fragment depends on, above all who may see it.
"""

import gzip
import threading
import time
from collections.abc import Callable, Hashable
from functools import cached_property

from django.http import HttpResponse

LONGEST_MS = 2_000
"""No fragment older than this is returned, whatever time a page sends."""
_PACK_LEVEL = 3
_MOST = 500


class Fragment:
    """A piece of a page. Compressed once, for all browsers that accept gzip."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def gzip_bytes(self) -> bytes:
        return gzip.compress(self.text.encode(), _PACK_LEVEL, mtime=0)


class FragmentResponse(HttpResponse):
    """A response with a fragment that other requests share."""

    def __init__(self, part: Fragment) -> None:
        super().__init__(part.text)
        self.part = part


class _Making:
    """A fragment that a thread is rendering. `part` stays None if that failed."""

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.over = threading.Event()
        self.part: Fragment | None = None


class FragmentCache:
    """The fragments of this process. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[Hashable, tuple[int, Fragment]] = {}
        self._making: dict[Hashable, _Making] = {}

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def find(self, key: Hashable, since_ms: int) -> Fragment | None:
        """Return the fragment if it was made at or after that time. 0: always None."""
        entry = self._entries.get(key)
        if entry is None or not 0 < since_ms <= entry[0] or self.now_ms() - entry[0] > LONGEST_MS:
            return None
        return entry[1]

    def keep(self, key: Hashable, began_ms: int, text: str) -> Fragment:
        """Store a fragment. began_ms: a time before its data was read."""
        if len(self._entries) >= _MOST:
            self._entries.clear()  # cheaper than finding the old ones: all expire within two seconds
        part = Fragment(text)
        self._entries[key] = began_ms, part
        return part

    def get(self, key: Hashable, since_ms: int, make: Callable[[], str]) -> Fragment:
        """Return the fragment, rendering it if necessary, in one thread. Other threads that accept that fragment wait
        for it.
        """
        while True:
            with self._lock:
                fragment, at_work = self.find(key, since_ms), self._making.get(key)
                if fragment is not None:
                    return fragment
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
    """Parse the time that a page sends. Returns 0 if it is missing or invalid."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
