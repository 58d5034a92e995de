"""Limits the open event streams of a session, of an account, and of this process.

Each one occupies a connection for as long as its page is open. A page without a stream fetches its parts by itself.
"""

import threading
from collections import Counter
from collections.abc import AsyncIterator
from functools import lru_cache

from django.conf import settings

from ringfence.environment import RequestLimits


class TooManyStreams(Exception):
    """message: for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Places:
    """The open streams. Thread-safe."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._sessions: Counter[str] = Counter()
        self._accounts: Counter[str] = Counter()

    def take(self, account: str, session: str) -> "Place":
        """Occupy a place until it is left. session: "" without one. Raises `TooManyStreams`."""
        limits = self._limits
        with self._lock:
            if self._accounts.total() >= limits.streams_total:
                raise TooManyStreams("This server has no room for more event streams.")
            if self._accounts[account] >= limits.streams_per_account:
                raise TooManyStreams(f"{limits.streams_per_account} event streams of your account are open.")
            if session and self._sessions[session] >= limits.streams_per_session:
                raise TooManyStreams(f"{limits.streams_per_session} event streams of your session or token are open.")
            self._accounts[account] += 1
            if session:
                self._sessions[session] += 1
        return Place(self, account, session)

    def leave(self, account: str, session: str) -> None:
        with self._lock:
            for counter, key in ((self._accounts, account), (self._sessions, session)):
                counter[key] -= 1
                if counter[key] <= 0:
                    del counter[key]


class Place:
    """One stream's place. `leave` may be called again."""

    def __init__(self, places: Places, account: str, session: str) -> None:
        self._places = places
        self._of = account, session
        self._active = True

    def leave(self) -> None:
        if self._active:
            self._active = False
            self._places.leave(*self._of)


class PlacedStream:
    """Events that occupy a place. Django calls `close` with the response, whether or not anything was read."""

    def __init__(self, events: AsyncIterator[str], place: Place) -> None:
        self._events = events
        self._place = place

    def __aiter__(self) -> AsyncIterator[str]:
        return self._events

    def close(self) -> None:
        self._place.leave()


@lru_cache(maxsize=1)
def process_places() -> Places:
    """Return the places of this process."""
    return Places(settings.REQUEST_LIMITS)
