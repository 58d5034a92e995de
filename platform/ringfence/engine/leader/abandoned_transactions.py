"""Fences the ids of tasks that ended with a transaction open (`fencing.leader.abandoned`), beside the leader's
thread.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName, task_transactional_id
from ringfence.fencing.leader.fence_generation import SECONDS, AdminAccess, FenceResult, fence
from ringfence.fencing.topics.connector_logs import about
from ringfence.fencing.topics.status import Attempt, TaskStatus

log = logging.getLogger(__name__)

_THREADS = 4
_AGAIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class AbandonedAttempts:
    """One connector's attempts, and `trouble` if fencing their ids failed; then it is tried again."""

    attempts: Sequence[TaskStatus]
    result: FenceResult
    trouble: str = ""


class AbandonedTransactions:
    """At most one fence at a time for each connector. All methods are called on the leader's thread."""

    def __init__(
        self,
        group_id: str,
        accesses: Callable[[ConnectorName], Sequence[AdminAccess]],
        wake: Callable[[], None],
        seconds: float = SECONDS,
    ) -> None:
        """accesses: returns the connections with which a connector's ids may be fenced; seconds: the limit for each."""
        self._seconds = seconds
        self._group_id = group_id
        self._accesses = accesses
        self._wake = wake
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="abandoned")
        self._running: dict[ConnectorName, tuple[Sequence[TaskStatus], Future[FenceResult]]] = {}
        self._not_before: dict[ConnectorName, float] = {}
        self._done: set[Attempt] = set()

    def start(self, due: Iterable[TaskStatus]) -> None:
        """Fence the ids of these attempts, each attempt once."""
        by_connector: dict[ConnectorName, list[TaskStatus]] = defaultdict(list)
        keys = set()
        for last in due:
            keys.add(last.key)
            if last.key not in self._done:
                by_connector[last.task.connector].append(last)
        self._done &= keys
        for name, attempts in by_connector.items():
            if name not in self._running and time.monotonic() >= self._not_before.get(name, 0.0):
                future = self._pool.submit(self._fence, name, attempts)
                self._running[name] = (attempts, future)
                future.add_done_callback(lambda _: self._wake())

    def _fence(self, name: ConnectorName, attempts: Sequence[TaskStatus]) -> FenceResult:
        with about(name):
            ids = [task_transactional_id(self._group_id, last.task) for last in attempts]
            result = fence(ids, self._accesses(name), self._seconds)
            log.info("Fenced %s: the last attempt ended with a transaction open%s", ", ".join(ids), result.message)
            return result

    def take_finished(self) -> list[AbandonedAttempts]:
        """Return what has finished since the last call."""
        results = []
        for name, (attempts, future) in list(self._running.items()):
            if not future.done():
                continue
            del self._running[name]
            try:
                result = future.result()
            except FencingError as error:
                log.warning("What the last attempts of %s left open could not be ended: %s", name, error)
                self._not_before[name] = time.monotonic() + _AGAIN_SECONDS
                results.append(AbandonedAttempts(attempts, FenceResult(), str(error)))
                continue
            self._not_before.pop(name, None)
            self._done.update(last.key for last in attempts)
            results.append(AbandonedAttempts(attempts, result))
        return results

    def close(self) -> None:
        """Start no more fences. Those that run end by themselves and do no harm."""
        self._pool.shutdown(wait=False, cancel_futures=True)
