"""Hands over the leadership: the leader leaves the group, waits until another worker leads, and joins again.

Its tasks keep running. They do not need the membership, and its status record says that it will be back soon
(`WorkerRecord.away_until_ms`), so the next leader does not place them elsewhere. The group chooses the next leader.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace

from ringfence.engine.leader.leader_jobs import TRY_SECONDS
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import WorkerId
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.leader.term import Term, TopicRecord
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import LeaderRecord, StatusState, WorkerRecord
from ringfence.fencing.topics.topic_ids import TopicIds, dumps, offsets_key
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig


def remember_topics(ids: TopicIds, config: WorkerConfig, term: Term, status: StatusState, reporter: Reporter) -> None:
    """Write the ids to each topic that has older ones or none."""
    stored_ids = term.state.topic_ids
    if stored_ids is None or stored_ids.version < ids.version:
        copy = TopicRecord(config.offsets_topic, offsets_key(config.group_id), dumps(ids))
        term.write(lambda _state: [ids, copy], Deadline.after(TRY_SECONDS))
    stored_ids = status.topic_ids
    if stored_ids is None or stored_ids.version < ids.version:
        reporter.status(ids)


_PATIENCE_SECONDS = 20.0
_AWAY_SECONDS = _PATIENCE_SECONDS + 15.0
"""The time that it waits, and the time to become a member again."""
_POLL_SECONDS = 0.05

_ALONE = "There is no other live worker that could lead: start one, then hand over"
_NOBODY = "No other worker took the leadership within {seconds:g} s: this one leads again. Look at the others' logs"
_LATE = "Request timed out while the leadership was handed over: check which worker leads before you send it once more"


class Resignation:
    """One thread, of a command, requests the resignation; the leader's thread carries it out."""

    def __init__(self, worker: WorkerRecord, reporter: Reporter, statuses: Callable[[], StatusState]) -> None:
        self._worker = worker
        self._reporter = reporter
        self._statuses = statuses
        self._lock = threading.Lock()
        self._request: Future[WorkerId] | None = None

    def ask(self, members: list[LiveWorker], limit: Deadline) -> WorkerId:
        """Resign, and return the next leader. Raises `Refusal`, also if no other worker can lead."""
        if all(member.incarnation == self._worker.incarnation for member in members):
            raise Refusal(409, _ALONE)
        with self._lock:
            self._request = future = self._request or Future()
        try:
            return future.result(limit.remaining)
        except FutureTimeout:
            raise Refusal(500, _LATE) from None

    def due(self) -> bool:
        """Return whether to leave the group now. If so, the status record already says that the worker will be back."""
        if self._request is None:
            return False
        until = self._reporter.now_ms() + int(_AWAY_SECONDS * 1000)
        self._reporter.status(replace(self._worker, away_until_ms=until))
        self._reporter.flush(5)
        return True

    def await_successor(self, poll: Callable[[], None], stop: threading.Event) -> None:
        """After leaving the group, follow the status topic (`poll`) until another worker reports that it leads."""
        with self._lock:
            future = self._request
        if future is None:
            return
        before = self._statuses().leader
        patience = Deadline.after(_PATIENCE_SECONDS)
        try:
            while not patience.expired and not stop.is_set():
                poll()
                if (successor := self._successor(before)) is not None:
                    future.set_result(successor)
                    return
                time.sleep(_POLL_SECONDS)
            future.set_exception(Refusal(500, _NOBODY.format(seconds=_PATIENCE_SECONDS)))
        finally:
            with self._lock:
                self._request = None

    def _successor(self, before: LeaderRecord | None) -> WorkerId | None:
        leader = self._statuses().leader
        if leader is None or leader == before or leader.incarnation == self._worker.incarnation:
            return None
        return leader.worker
