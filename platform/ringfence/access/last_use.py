"""Notes of last use: reading a page must not depend on a writable database."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from django.db import OperationalError

_AGAIN_SECONDS: Final = 30.0

log = logging.getLogger(__name__)
_lock = threading.Lock()
_not_before = 0.0


def write(note: Callable[[], object]) -> None:
    """Write a note, or skip it if the database refuses writes: then no request tries again for half a minute."""
    global _not_before
    with _lock:
        if time.monotonic() < _not_before:
            return
    try:
        note()
    except OperationalError as error:
        log.warning("The time of last use is not stored, because the database refuses writes: %s", error)
        with _lock:
            _not_before = time.monotonic() + _AGAIN_SECONDS
