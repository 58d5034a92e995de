"""Work behind an answer: what must be done for a request, and need not be waited for by its sender.

Whoever reads in this web process afterwards waits for it (`settle`). If the process dies in between, it is not done:
so nothing may depend on it that is not complete without it, as an audit entry is (its outcome is then unknown).
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

log = logging.getLogger(__name__)

Work = Callable[[], None]
SETTLE_SECONDS: Final = 2.0
"""A reader waits no longer: something is wrong then, and what it reads is only not the newest."""

_collected: ContextVar[list[Work] | None] = ContextVar("work behind the answer", default=None)
_changed = threading.Condition()
_begun = _done = 0


@contextmanager
def collect() -> Iterator[list[Work]]:
    """Collect the work of this block in the list that it returns. Whoever collects it calls `carry_out`."""
    work: list[Work] = []
    token = _collected.set(work)
    try:
        yield work
    finally:
        _collected.reset(token)


def do(work: Work) -> None:
    """Do it behind the answer, or at once where nobody collects."""
    global _begun
    collected = _collected.get()
    if collected is None:
        work()
        return
    with _changed:
        _begun += 1
    collected.append(work)


def carry_out(collected: Sequence[Work]) -> None:
    """Do the work of one answer."""
    global _done
    for work in collected:
        try:
            work()
        except Exception:
            # The root of a thread: the answer is sent, and the next work is another's.
            log.exception("What was to be done behind an answer has failed")
        finally:
            with _changed:
                _done += 1
                _changed.notify_all()


def settle() -> None:
    """Wait until everything is done that was begun before this call."""
    with _changed:
        due = _begun
        _changed.wait_for(lambda: _done >= due, SETTLE_SECONDS)
