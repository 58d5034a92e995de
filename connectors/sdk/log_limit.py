"""Log lines that strangers can cause: one for each interval, with the number of those left out."""

import logging
import time
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 60.0
_MOST_SUBJECTS: Final = 1000


class LogLimit:
    """The lines about one kind of event. A subject, such as a connector, has its own interval. Not thread-safe: a line
    too many is no harm.
    """

    def __init__(self, seconds: float = _SECONDS, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._subjects: dict[str, tuple[float, int]] = {}
        """When each subject's next line may be written, and how many were left out since the last one."""

    def warning(self, logger: logging.Logger, text: str, *arguments: object, subject: str = "") -> None:
        """Log a warning, unless the subject has had one in this interval."""
        now = self._monotonic()
        until, left_out = self._subjects.get(subject, (now, 0))
        if now < until:
            self._subjects[subject] = (until, left_out + 1)
            return
        if len(self._subjects) >= _MOST_SUBJECTS:
            self._subjects.clear()  # strangers choose subjects
        self._subjects[subject] = (now + self._seconds, 0)
        if left_out:
            text += f" ({left_out:,} more since the last such line)"
        logger.warning(text, *arguments)
