"""Requests the group's members on a separate thread, so that commands need not wait for the brokers' answer."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from ringfence.engine.leader.members import live_records
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.group_members import GroupMember, group_members
from ringfence.fencing.leader.assignment import LiveWorker
from ringfence.fencing.modes import parse_mode
from ringfence.fencing.topics.status import StatusState

_SECONDS = 0.5
_ANSWER_SECONDS = 5.0
Ask = Callable[[], Iterable[GroupMember]]


def find_members(connection: Connection, group_id: str) -> list[GroupMember]:
    """Ask the brokers for at most 5 s. Raises as `group_members`."""
    return group_members(connection, group_id, Deadline.after(_ANSWER_SECONDS))


class MemberWatch:
    """The live members as of the newest answer. All methods are called on the leader's thread."""

    def __init__(self, ask: Ask) -> None:
        """ask: returns the members; called on the other thread, at most every half second."""
        self._ask = ask
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="members")
        self._request: Future[Iterable[GroupMember]] | None = None
        self._asked_at = 0.0
        self._answer: Iterable[GroupMember] | None = None

    def begin(self) -> None:
        """Forget the answers of an earlier term."""
        if self._request is not None:
            self._request.cancel()
        self._request = self._answer = None
        self._asked_at = 0.0

    def find(self, status: StatusState) -> list[LiveWorker] | None:
        """Return the members whose status record has the same incarnation. None until the first answer of the term, and
        from a question that failed until the next answer; its error is raised once.
        """
        if self._request is not None and self._request.done():
            future, self._request, self._answer = self._request, None, None
            self._answer = future.result()
        if self._request is None and time.monotonic() - self._asked_at >= _SECONDS:
            self._asked_at = time.monotonic()
            self._request = self._pool.submit(self._ask)
        if self._answer is None:
            return None
        records = live_records(self._answer, status)
        return [
            LiveWorker(record.worker, record.incarnation, record.slots, parse_mode(record.mode), record.format)
            for record in records
        ]

    def close(self) -> None:
        """End the thread, which may still wait for an answer."""
        self._pool.shutdown(wait=False, cancel_futures=True)
