"""What a plugin's log says of connections that fail.

Many plugins tell the host nothing while their source is away: `poll` returns no records, or does not return, and a
client library tries again in the background, as Kafka's and MongoDB's do. But such libraries log each try. So a task
that gets no records, while its log repeats that connections fail, is said to try again. A plugin that does not log it
either cannot be told from one whose source has nothing new.
"""

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Final

PREFIX: Final = "The plugin logs that it cannot connect: "

_EXCEPTION: Final = re.compile(
    r"java\.net\.(Connect|UnknownHost|NoRouteToHost|SocketTimeout|Socket|PortUnreachable)Exception"
    r"|UnresolvedAddressException|HttpConnectTimeoutException|Mongo(Socket|Timeout)\w{0,40}Exception|CommunicationsException"
)
_WORDS: Final = re.compile(
    r"Connection (refused|reset|timed out)|connect(ion)? timed out|No route to host|Network is unreachable"
    r"|could not be established|Bootstrap broker \S"
    r"|(unable|failed|cannot|could not|couldn't) (to )?connect|Communications link failure",
    re.IGNORECASE,
)
_CAUSE: Final = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)
_CLIENT: Final = re.compile(r"^\[[^\]]*clientId[^\]]*\] ")
"""Kafka's clients begin each line with their name."""
_LEAST_SECONDS: Final = 3.0
"""How long lines must have come. One alone may be a connection that was closed, and opened again."""
_QUIET_SECONDS: Final = 15.0
_MOST_QUIET_SECONDS: Final = 120.0
_QUIET_GAPS: Final = 2.5
_MOST_CHARACTERS: Final = 300


class ConnectionTrouble:
    """Thread-safe: lines are noted on the thread that reads the log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._first = self._last = self._longest_gap = 0.0
        self._lines = 0
        self._cause = ""

    def note(self, level: int, text: str) -> None:
        """Note a line of the log. text: the message, and the stack trace below it."""
        message = text.partition("\n")[0]
        is_told = level >= logging.WARNING and (_WORDS.search(message) or _EXCEPTION.search(text))
        if not is_told and not (level >= logging.INFO and _EXCEPTION.search(text)):
            return
        with self._lock:
            now = self._clock()
            if self._lines == 0 or now - self._last > self._patience:
                self._first, self._lines, self._longest_gap = now, 0, 0.0
            else:
                self._longest_gap = max(self._longest_gap, now - self._last)
            self._last, self._cause = now, _describe(message, text)
            self._lines += 1

    def clear(self) -> None:
        """Note that records have come."""
        with self._lock:
            self._lines = 0

    @property
    def cause(self) -> str:
        """Why the plugin cannot connect, in a sentence; "" while nothing says so, or no longer."""
        with self._lock:
            lasts = self._lines > 1 and self._last - self._first >= _LEAST_SECONDS
            return self._cause if lasts and self._clock() - self._last <= self._patience else ""

    @property
    def _patience(self) -> float:
        """For how long the last line counts: some libraries wait longer before each try."""
        return min(_MOST_QUIET_SECONDS, max(_QUIET_SECONDS, _QUIET_GAPS * self._longest_gap))


def _describe(message: str, text: str) -> str:
    """Return the message, and what caused it in the end where that says more."""
    words = _CLIENT.sub("", message)
    causes = _CAUSE.findall(text.removeprefix(message))
    if causes and causes[-1] not in words:
        words = f"{words} ({causes[-1]})"
    return PREFIX + words[:_MOST_CHARACTERS]
