"""Waits for the worker's threads, which were told to end."""

import logging
import threading
from collections.abc import Iterable
from typing import Final

from ringfence.fencing.clock import Deadline

log = logging.getLogger(__name__)

END_SECONDS: Final = 10.0
"""How long all threads together have to end."""
LOST_SECONDS: Final = 2.0
"""The same if a topic is lost: then some of them ask brokers for it, and end only when they give up."""


def join_all(threads: Iterable[threading.Thread], seconds: float) -> list[str]:
    """Wait at most `seconds` for all of them together. Return the names of those that still run."""
    all_threads, deadline = list(threads), Deadline.after(seconds)
    for thread in all_threads:
        thread.join(deadline.remaining)
    late = [thread.name for thread in all_threads if thread.is_alive()]
    if late:
        log.info("These threads are still busy and end with the process: %s", ", ".join(late))
    return late
