"""Carries out fencing rounds beside the leader's thread: wait for the old tasks, fence, hand the result back.

Numbers as in the design: 1 the old tasks get a moment to commit and end, 2 every id of the old count is fenced, and
what hangs of its producer on the connector's topics is ended (invariant 13), 4 the offsets are carried where their
topic changed. Steps 3 (the config topic to the end) and 5 (the count records) are the
leader's own write, when `done` brings the result.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from ringfence.engine.leader.offset_migration import OffsetMigration
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, FencingError
from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.leader.fence import FenceResult, fence
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.leader.older_epochs import end_leftovers
from ringfence.fencing.leader.round_plan import Round
from ringfence.fencing.topics.connector_logs import about

log = logging.getLogger(__name__)

_BACKOFF = Backoff(0.25, 30)

_THREADS = 32  # most wait: for old tasks, or for a cluster that does not answer while others' rounds go on
_URGENT_THREADS = 16
_AT_ONCE = 4
"""Fences on the worker's own cluster that nobody waits for. 32 took as long in all, and slowed the leader's writes."""


@dataclass(slots=True)
class RunningRound:
    """A round under way. `result` holds what was fenced, or raises what stopped it."""

    round: Round
    result: Future[FenceResult]
    started: float = field(default_factory=time.monotonic)


class RoundRunner:
    """At most one running round per connector; a newer generation's round replaces an older one at once."""

    def __init__(
        self,
        ways: Callable[[Round], Sequence[AdminAccess]],
        topics: Callable[[Round], Collection[str]],
        graceful_s: float,
        wake: Callable[[], None],
        migration: OffsetMigration,
    ) -> None:
        """`ways`: how a round's ids are reached; `topics`: where they wrote, as far as is known; `wake` is called when
        a round has come to its end."""
        self._ways = ways
        self._topics = topics
        self._migration = migration
        self._graceful_s = graceful_s
        self._wake = wake
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="round")
        self._urgent = ThreadPoolExecutor(_URGENT_THREADS, thread_name_prefix="urgent-round")
        self._gate = threading.BoundedSemaphore(_AT_ONCE)
        self._running: dict[ConnectorName, RunningRound] = {}
        self._newest: dict[ConnectorName, Generation] = {}
        self._not_before: dict[tuple[ConnectorName, Generation], tuple[int, float]] = {}

    def start(self, due: Round, busy: Callable[[Round], bool], *, urgent: bool = False) -> bool:
        """Start the round unless it runs, or failed a moment ago. `busy`: old tasks of it are still at work.

        urgent: it does not queue behind those that are not.
        """
        running = self._running.get(due.connector)
        if running is not None and running.round.generation == due.generation:
            return False
        _, not_before = self._not_before.get((due.connector, due.generation), (0, 0.0))
        if time.monotonic() < not_before:
            return False
        self._newest[due.connector] = due.generation  # before its thread begins, which looks there
        result = (self._urgent if urgent else self._pool).submit(self._carry_out, due, busy, urgent)
        self._running[due.connector] = RunningRound(due, result)
        result.add_done_callback(lambda _: self._wake())
        return True

    def _carry_out(self, due: Round, busy: Callable[[Round], bool], urgent: bool) -> FenceResult:
        with about(due.connector):
            return self._steps(due, busy, urgent)

    def _steps(self, due: Round, busy: Callable[[Round], bool], urgent: bool) -> FenceResult:
        ids = due.ids or self._migration.guards(due)
        fenced = FenceResult()
        if ids:
            graceful = Deadline.after(self._graceful_s)  # 1
            while busy(due) and not graceful.expired and not self._is_cancelled(due):
                time.sleep(0.01)
            # Another cluster, or other credentials, may not answer: such a fence holds up no other.
            elsewhere = due.writes if due.target is None else due.target
            with nullcontext() if urgent or elsewhere else self._gate:
                if self._is_cancelled(due):  # a late fence would hit tasks that may run by now
                    raise Conflict(f"Connector {due.connector} has a newer generation than {due.generation}")
                ways = self._ways(due)
                fenced = fence(ids, ways)  # 2
                fenced = replace(fenced, hanging=end_leftovers(self._topics(due), fenced.epochs, ways).hanging)
        self._migration.migrate(due)  # 4
        return fenced

    def _is_cancelled(self, due: Round) -> bool:
        """Whether a newer generation's round has taken this one's place."""
        return self._newest.get(due.connector, due.generation) != due.generation

    def take_finished(self) -> list[RunningRound]:
        """Rounds that have come to an end since the last call."""
        done = [running for running in self._running.values() if running.result.done()]
        for running in done:
            del self._running[running.round.connector], self._newest[running.round.connector]
        return done

    def record_failure(self, round_: Round, error: FencingError) -> float:
        """Note a failure; the round is started again after growing pauses. Returns the pause in seconds."""
        key = (round_.connector, round_.generation)
        times, _ = self._not_before.get(key, (0, 0.0))
        pause = _BACKOFF.pause(times + 1)
        self._not_before[key] = (times + 1, time.monotonic() + pause)
        log.warning("The fencing round of %s failed, again in %.2f s: %s", round_.connector, pause, error)
        return pause

    def retry_now(self, connector: ConnectorName) -> None:
        """Somebody has mended what stopped its round: the pause before the next try is over. Any thread."""
        for key in [key for key in self._not_before if key[0] == connector]:
            self._not_before.pop(key, None)
        self._wake()

    def close(self) -> None:
        """Begin no more; what runs ends by itself and is harmless."""
        for pool in (self._pool, self._urgent):
            pool.shutdown(wait=False, cancel_futures=True)
