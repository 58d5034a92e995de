"""Probers that are kept for the next question: a login costs more than all that is asked after it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fencing.kafka.probes import Prober
from fencing.kafka.settings import Connection

_IDLE_SECONDS: Final = 30.0
_MOST_IDLE: Final = 8

Login = tuple[str, frozenset[tuple[str, str]]]


def login_of(connection: Connection) -> Login:
    """What tells two principals apart: where they log in, and as whom."""
    return connection.bootstrap, frozenset(connection.settings.items())


class ProberPool:
    """Thread-safe; each prober is one caller's at a time. One that met an error is not used again."""

    def __init__(self, make: Callable[[Connection], Prober] = Prober) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Login, Prober]] = []

    @contextmanager
    def lease(self, connection: Connection) -> Iterator[Prober]:
        """A prober with this connection's login. Raises as `Prober` does."""
        login = login_of(connection)
        prober = self._taken(login) or self._make(connection)
        try:
            yield prober
        except BaseException:
            prober.close()
            raise
        with self._lock:
            self._idle.append((time.monotonic(), login, prober))
        self._close_old()

    def _taken(self, login: Login) -> Prober | None:
        self._close_old()
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place][1] == login:
                    return self._idle.pop(place)[2]
        return None

    def _close_old(self) -> None:
        now = time.monotonic()
        with self._lock:
            fresh = [entry for entry in self._idle if now - entry[0] < _IDLE_SECONDS][-_MOST_IDLE:]
            old = [entry[2] for entry in self._idle if entry not in fresh]
            self._idle = fresh
        for prober in old:
            prober.close()

    def close(self) -> None:
        """Close those that are idle."""
        with self._lock:
            old, self._idle = self._idle, []
        for _, _, prober in old:
            prober.close()
