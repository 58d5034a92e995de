"""How many requests without any credentials an address may send: each one takes a thread before it is refused."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from ringfence.access.client_address import group_of

BURST: Final = 300
PER_SECOND: Final = 30.0
"""A login page with its files is a dozen requests."""
_MOST_KNOWN: Final = 10_000


def has_credentials(headers: Iterable[tuple[bytes, bytes]], session_cookie: str) -> bool:
    """Return whether there is something to be checked: a header, or a session's cookie."""
    mark = f"{session_cookie}=".encode()
    return any(name == b"authorization" or (name == b"cookie" and mark in value) for name, value in headers)


class AnonymousRate:
    """The rates of this process, for one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def allows(self, address: str) -> bool:
        """Count one request. Returns whether it is answered."""
        group, now = group_of(address), self._clock()
        left, then = self._left.pop(group, (float(BURST), now))
        left = min(BURST, left + (now - then) * PER_SECOND)
        if len(self._left) >= _MOST_KNOWN:  # the one that was heard of the longest time ago has its whole burst again
            del self._left[next(iter(self._left))]
        self._left[group] = max(0.0, left - 1), now
        return left >= 1
