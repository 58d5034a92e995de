"""Carries out fencing rounds on their own threads: waits for the old tasks, fences, and returns the result.

A round has five steps: 1 the old tasks get some time to commit and end; 2 every id of the old count is fenced, and the
hanging transactions of its producers on the connector's topics are ended (invariant 13); 3 the config topic is read to
its end; 4 the offsets are copied if their topic changed; 5 the count records are written. Steps 3 and 5 are the
leader's write, after `take_finished` has returned the result.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from ringfence import telemetry
from ringfence.engine.leader.offset_migration import OffsetMigration
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, FencingError
from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.leader.fence_generation import FenceResult, fence
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.leader.fencing_round import Round
from ringfence.fencing.leader.older_epochs import end_leftovers
from ringfence.fencing.request_context import NOBODYS, RequestContext, working_for
from ringfence.fencing.topics.connector_logs import about

log = logging.getLogger(__name__)

_BACKOFF = Backoff(0.25, 30)

_THREADS = 32  # most of them wait, for old tasks or for a cluster that does not answer
_URGENT_THREADS = 16
_AT_ONCE = 4
"""The maximum of concurrent fences on the worker's cluster that are not urgent. With 32, all of them together took as
long, and they slowed the leader's writes.
"""


WaitUntil = Callable[[Callable[[], bool], float], bool]

_LOOK_SECONDS = 0.25
"""How soon a round that waits for old tasks learns that a newer one has replaced it, or that their worker is gone."""


@dataclass(slots=True)
class RunningRound:
    """A running round. result: what was fenced, or the error that stopped it."""

    round: Round
    result: Future[FenceResult]
    request: RequestContext = NOBODYS
    start_time: float = field(default_factory=time.monotonic)


class RoundRunner:
    """At most one running round per connector; a newer generation's round replaces an older one at once."""

    def __init__(
        self,
        accesses: Callable[[Round], Sequence[AdminAccess]],
        topics: Callable[[Round], Collection[str]],
        graceful_s: float,
        wake: Callable[[], None],
        migration: OffsetMigration,
        wait_until: WaitUntil,
    ) -> None:
        """accesses: returns the connections with which a round's ids may be fenced; topics: returns the topics that its
        tasks wrote to, as far as is known; graceful_s: the time of step 1; wake: called when a round has finished.
        wait_until: see `StatusLog.wait_until`.
        """
        self._accesses = accesses
        self._topics = topics
        self._migration = migration
        self._graceful_s = graceful_s
        self._wait_until = wait_until
        self._wake = wake
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="round")
        self._urgent = ThreadPoolExecutor(_URGENT_THREADS, thread_name_prefix="urgent-round")
        self._gate = threading.BoundedSemaphore(_AT_ONCE)
        self._running: dict[ConnectorName, RunningRound] = {}
        self._newest: dict[ConnectorName, Generation] = {}
        self._not_before: dict[tuple[ConnectorName, Generation], tuple[int, float]] = {}

    def start(
        self,
        due: Round,
        busy: Callable[[Round], bool],
        request: RequestContext = NOBODYS,
        *,
        urgent: bool = False,
    ) -> bool:
        """Start the round unless it runs already, or has just failed; return whether it was started.

        busy: returns whether old tasks are still at work. request: the one that led to it. urgent: it does not wait for
        rounds that are not urgent.
        """
        running = self._running.get(due.connector)
        if running is not None and running.round.generation == due.generation:
            return False
        _, not_before = self._not_before.get((due.connector, due.generation), (0, 0.0))
        if time.monotonic() < not_before:
            return False
        self._newest[due.connector] = due.generation  # before its thread starts, which checks it
        result = (self._urgent if urgent else self._pool).submit(self._carry_out, due, busy, urgent, request)
        self._running[due.connector] = RunningRound(due, result, request)
        result.add_done_callback(lambda _: self._wake())
        return True

    def _carry_out(
        self, due: Round, busy: Callable[[Round], bool], urgent: bool, request: RequestContext
    ) -> FenceResult:
        attributes: telemetry.Attributes = {
            "ringfence.connector": due.connector,
            "ringfence.generation": due.generation,
            "ringfence.tasks": due.tasks,
        }
        tracing = telemetry.span_of(request, "fencing round", attributes=attributes)
        with about(due.connector), working_for(request), tracing:
            return self._steps(due, busy, urgent)

    def _steps(self, due: Round, busy: Callable[[Round], bool], urgent: bool) -> FenceResult:
        ids = due.ids or self._migration.ids_to_fence(due)
        result = FenceResult()
        if ids:
            graceful = Deadline.after(self._graceful_s)  # 1
            while busy(due) and not graceful.expired and not self._is_cancelled(due):
                self._wait_until(lambda: not busy(due), graceful.slice(_LOOK_SECONDS))
            # Another cluster may not answer, and other credentials may fail: such a fence must not delay others.
            elsewhere = due.writes if due.target is None else due.target
            with nullcontext() if urgent or elsewhere else self._gate:
                if self._is_cancelled(due):  # a late fence would hit tasks that may run by now
                    raise Conflict(f"Connector {due.connector} has a newer generation than {due.generation}")
                accesses = self._accesses(due)
                result = fence(ids, accesses)  # 2
                result = replace(result, hanging=end_leftovers(self._topics(due), result.epochs, accesses).hanging)
        self._migration.migrate(due)  # 4
        return result

    def _is_cancelled(self, due: Round) -> bool:
        """Return whether the round of a newer generation has replaced this one."""
        return self._newest.get(due.connector, due.generation) != due.generation

    def take_finished(self) -> list[RunningRound]:
        """Return the rounds that have finished since the last call."""
        done = [running for running in self._running.values() if running.result.done()]
        for running in done:
            del self._running[running.round.connector], self._newest[running.round.connector]
        return done

    def record_failure(self, round_: Round, error: FencingError) -> float:
        """Note a failure, and return the pause in seconds before the next attempt. The pauses grow."""
        key = (round_.connector, round_.generation)
        times, _ = self._not_before.get(key, (0, 0.0))
        pause = _BACKOFF.pause(times + 1)
        self._not_before[key] = (times + 1, time.monotonic() + pause)
        log.warning("The fencing round of %s failed, again in %.2f s: %s", round_.connector, pause, error)
        return pause

    def retry_now(self, connector: ConnectorName) -> None:
        """End the pause before the next attempt, after a user has fixed the cause. Any thread may call it."""
        for key in [key for key in self._not_before if key[0] == connector]:
            self._not_before.pop(key, None)
        self._wake()

    def close(self) -> None:
        """Start no more rounds. Those that run end by themselves and do no harm."""
        for pool in (self._pool, self._urgent):
            pool.shutdown(wait=False, cancel_futures=True)
