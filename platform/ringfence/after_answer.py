"""Work behind an answer: what must be done for a request, and need not be waited for by its sender.

Whoever reads in this web process under the same account afterwards waits for it (`settle`). If the process dies in
between, it is not done: so nothing may depend on it that is not complete without it, as an audit entry is (its outcome
is then unknown).
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, NamedTuple

from ringfence.quotas import Lane

log = logging.getLogger(__name__)


class Work(NamedTuple):
    """account: who waits for it."""

    account: str
    do: Callable[[], None]


MOST: Final = 12
MOST_OF_ACCOUNT: Final = 6
"""Each work may occupy a thread for seconds, where the projection lags, and its sender has the answer: so there is no
more of it. Beyond that, the answer waits.
"""
SETTLE_SECONDS: Final = 2.0
"""A reader waits no longer: something is wrong then, and what it reads is only not the newest."""

_collected: ContextVar[list[Work] | None] = ContextVar("work behind the answer", default=None)
_changed = threading.Condition()
_begun: Counter[str] = Counter()
_done: Counter[str] = Counter()
"""Of each account with work that is not done yet."""


@contextmanager
def collect() -> Iterator[list[Work]]:
    """Collect the work of this block in the list that it returns. Whoever collects it calls `carry_out`."""
    work: list[Work] = []
    token = _collected.set(work)
    try:
        yield work
    finally:
        _collected.reset(token)


def do(account: str, work: Callable[[], None]) -> None:
    """Do it behind the answer, or at once where nobody collects, or where too much is collected."""
    collected = _collected.get()
    if collected is None or not _begin(account):
        work()
        return
    collected.append(Work(account, work))


def _begin(account: str) -> bool:
    with _changed:
        of_account = _begun[account] - _done[account]
        if of_account >= MOST_OF_ACCOUNT or _begun.total() - _done.total() >= MOST:
            return False
        _begun[account] += 1
        return True


def carry_out(collected: Sequence[Work]) -> None:
    """Do the work of one answer."""
    for account, work in collected:
        try:
            work()
        except Exception:
            # The root of a thread: the answer is sent, and the next work is another's.
            log.exception("What was to be done behind an answer has failed")
        finally:
            with _changed:
                _done[account] += 1
                if _done[account] == _begun[account]:
                    del _done[account], _begun[account]
                _changed.notify_all()


def settle(account: str, places: Lane | None = None) -> None:
    """Wait until what the account has begun before this call is done, or for some seconds.

    places: whoever has to wait takes one of them. Raises `TooMany` if there is none.
    """
    with _changed:
        due = _begun[account]
    if not due:
        return
    with nullcontext() if places is None else places.take(account), _changed:
        _changed.wait_for(lambda: account not in _begun or _done[account] >= due, SETTLE_SECONDS)
