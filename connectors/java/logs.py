"""Turns the Java process's standard error into log records: one JSON object on a line, or anything a plugin prints."""

import json
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final

_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_PRINTED: Final = "java"
"""The logger of lines that are not log records."""


class LastLines:
    """Logs lines, and keeps the last ones for the error message of a process that has ended."""

    def __init__(self, most: int = 15) -> None:
        self._lines: deque[str] = deque(maxlen=most)
        self._rest = b""

    def follow(self, lines: Iterable[bytes]) -> None:
        """Log the lines until they end."""
        for raw in lines:
            level, logger, text = parse(raw.decode("utf-8", "replace").rstrip())
            self._lines.append(text)
            logging.getLogger(logger).log(level, "%s", text)

    def take(self, piece: bytes) -> None:
        """Log the lines that end in this piece of the log; keep the rest for the next piece."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self.follow(lines)

    def __str__(self) -> str:
        return "\n".join(self._lines)


def parse(line: str) -> tuple[int, str, str]:
    """Return level, logger and text of a line."""
    try:
        record = json.loads(line)
        level, logger, text, trace = (str(record[name]) for name in ("level", "logger", "message", "trace"))
    except (ValueError, KeyError, TypeError):
        return logging.INFO, _PRINTED, line
    return _LEVELS.get(level, logging.INFO), logger or _PRINTED, f"{text}\n{trace}".rstrip() if trace else text
