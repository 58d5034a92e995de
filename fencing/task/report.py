"""What one attempt says about itself: its status, its stage, its numbers once a second."""

import logging
from collections.abc import Callable

from ringfence.connectors.api import Endpoint
from ringfence.fencing.clock import Clock
from ringfence.fencing.kafka.hanging import Hanging
from ringfence.fencing.kafka.protocols import TransactionalClient
from ringfence.fencing.metrics import StateTimes
from ringfence.fencing.share.held import Held
from ringfence.fencing.task.counters import Counters
from ringfence.fencing.task.gauges import Gauges
from ringfence.fencing.task.spec import TaskSpec
from ringfence.fencing.topics.active_topics import TopicStatus
from ringfence.fencing.topics.record_failures import RecordFailure, error_of
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import FAILED, SUPERSEDED, State, TaskStatus

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_STARTING_EVERY_S = 5.0
_GAUGES_EVERY_S = 5.0
_GAUGES_AGAIN_S = 30.0
_NO_START = frozenset({"", "running", "paused", "copying offsets"})


class TaskReport:
    """Reports for one attempt. `tick` comes from another thread than the rest; each report is one call."""

    def __init__(
        self,
        spec: TaskSpec,
        reporter: Reporter,
        counters: Counters,
        clock: Clock,
        version: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """`version`: the plugin's. `redact`: takes secrets out of messages and traces."""
        self._spec = spec
        self._reporter = reporter
        self._counters = counters
        self._clock = clock
        self._last = clock.monotonic()
        self._seen: tuple[object, ...] = ()
        self.held: Callable[[], Held] = tuple
        """What the task holds of a share group's records."""
        self._producer_id = -1
        self._epoch = -1
        self._stage = ""
        self._stage_since = self._stage_told = self._last
        self._told_waiting = self._over = False
        self._version = version
        self._redact = redact
        self._tracks = spec.worker_settings.get("topic.tracking.enable", "true").strip().lower() != "false"
        self._topics: set[str] = set()
        self._topics_reset = -1
        self._times = StateTimes(self._last)
        self.endpoint: Endpoint | None = None
        """Where the plugin listens; told while it runs."""
        self._reconfigure_ms = 0
        self.gauges = Gauges()
        """What the plugin measures itself."""
        self._gauges_at = -_GAUGES_EVERY_S
        self._gauges_told: list[dict[str, object]] = []

    def _fields(self) -> dict[str, object]:
        placement = self._spec.placement
        return {
            "task": self._spec.task.task,
            "generation": placement.generation,
            "attempt": placement.attempt,
            "worker": placement.worker,
        }

    def stage(self, stage: str, message: str = "") -> None:
        """A step on the way, for people who wait."""
        if (stage, message) != (self._stage, ""):
            self._stage_told = self._clock.monotonic()
            if stage != self._stage:
                self._stage_since = self._stage_told
            self._stage = stage
            connector = self._spec.task.connector
            self._reporter.event("task", connector, **self._fields(), stage=stage, message=self._redact(message))

    @property
    def start_stage(self) -> tuple[str, float] | None:
        """The step that this attempt is at, and for how many seconds; None where it is none of a start. Any thread."""
        if self._stage in _NO_START or self._over:
            return None
        return self._stage, self._clock.monotonic() - self._stage_since

    def waiting(self, text: str) -> None:
        """It waits, and for what: in its status and on its page, in the log, among the events. Any thread."""
        self._told_waiting = True
        log.warning("Task %s, attempt %d waits: %s", self._spec.task, self._spec.placement.attempt, self._redact(text))
        connector = self._spec.task.connector
        self._reporter.event("task", connector, **self._fields(), stage="waiting", message=self._redact(text))
        self._status(State.UNASSIGNED, self._redact(text))

    def going_on(self) -> None:
        """After an interruption, in which `waiting` may have been told."""
        if self._told_waiting:
            self.running(State.RUNNING)
        else:
            self.stage("running")

    def hanging_ended(self, one: Hanging) -> None:
        """A transaction of an older epoch of the task's producer hung, and was ended (invariant 13). Any thread."""
        self._reporter.event(
            "hanging",
            self._spec.task.connector,
            **self._fields(),
            stage="ended",
            by="task",
            transactional_id=self._spec.transactional_id,
            topic=one.topic,
            partition=one.partition,
            producer_id=one.producer_id,
            epoch=one.epoch,
            start_offset=one.start_offset,
            message=one.told,
        )

    def starting(self, stage: str, message: str) -> None:
        """A long step of a start goes on: told every few seconds, in the status, too."""
        if self._clock.monotonic() - self._stage_told >= _STARTING_EVERY_S:
            self.stage(stage, message)
            self._told_waiting = True
            self._status(State.UNASSIGNED, f"{stage}: {message}")

    def producer(self, producer: TransactionalClient) -> None:
        """The producer that the next transactions go through."""
        self._producer_id, self._epoch = producer.producer_id, producer.epoch

    def _status(
        self,
        state: State,
        why: str,
        *,
        trace: str | None = None,
        ended: bool = False,
        left_open: bool = False,
        failure: RecordFailure | None = None,
    ) -> None:
        placement = self._spec.placement
        self._reporter.status(
            TaskStatus(
                self._spec.task,
                state,
                placement.worker,
                placement.generation,
                placement.attempt,
                placement.incarnation,
                None if trace is None else self._redact(trace),
                ended,
                why,
                self._reporter.now_ms(),
                placement.restarts,
                version=self._version,
                left_open=left_open,
                failure=failure,
                endpoint=self.endpoint if state is State.RUNNING else None,
                reconfigure_ms=self._reconfigure_ms,
            )
        )

    def running(self, state: State) -> None:
        """RUNNING or PAUSED."""
        self._told_waiting = False
        self.stage(state.lower())
        self._status(state, "")
        self._times.enter(state, self._clock.monotonic())
        self.progress()

    def request_task_reconfiguration(self) -> None:
        """Tell the leader that the connector shall make its task configurations again."""
        self._reconfigure_ms = self._reporter.now_ms()
        self._status(State.RUNNING, "")

    def report_failed(
        self, trace: str, why: str = FAILED, *, left_open: bool = False, failure: RecordFailure | None = None
    ) -> None:
        """FAILED, with the trace. `why` tells whether a restart may help (`fencing.leader.restarts`); left_open,
        failure: see `TaskStatus`."""
        self._over = True
        self.progress()
        self._status(State.FAILED, why, trace=trace, ended=True, left_open=left_open, failure=failure)
        self.stage("failed", error_of(trace))

    def report_ended(self, reason: str) -> None:
        """A normal end. The status tells a round that it need not wait; it replaces no newer attempt's."""
        self._over = True
        self.progress()
        self._status(State.UNASSIGNED, SUPERSEDED, ended=True)
        self.stage(reason)

    def topics(self, topics: frozenset[str], reset: int) -> None:
        """Topics of a committed transaction: each is told once, and once more after a reset (KIP-558).

        `reset`: the config-topic offset of the newest one.
        """
        if reset != self._topics_reset:
            self._topics_reset = reset
            self._topics.clear()
        if not self._tracks or topics <= self._topics:
            return
        for topic in sorted(topics - self._topics):
            task = self._spec.task
            self._reporter.status(TopicStatus(task.connector, topic, task.task, self._reporter.now_ms()))
        self._topics |= topics

    def tick(self) -> None:
        """Called often; reports progress at most once a second, and only where there is some."""
        now = self._clock.monotonic()
        if now - self._last >= _EVERY_S:
            self._last = now
            counters = self._counters
            seen = (counters.records, counters.transactions, counters.open_records, self.held())
            if seen != self._seen or self._gauges_due(now):
                self._seen = seen
                self.progress()

    def _gauges_due(self, now: float) -> bool:
        """Where none has changed they are told again after a while: what is old counts as unknown."""
        found, since = self.gauges.report(), now - self._gauges_at
        return since >= (_GAUGES_EVERY_S if found != self._gauges_told else _GAUGES_AGAIN_S) and bool(
            found or self._gauges_told
        )

    def _report_gauges(self, now: float) -> dict[str, object]:
        """A part of the numbers every few seconds."""
        if now - self._gauges_at < _GAUGES_EVERY_S and not self._over:
            return {}
        found = self.gauges.report()
        if not found and not self._gauges_told:
            return {}
        self._gauges_at, self._gauges_told = now, found
        return {"gauges": [self._redact_gauge(each) for each in found]}

    def _redact_gauge(self, gauge: dict[str, object]) -> dict[str, object]:
        return {key: self._redact(each) if isinstance(each, str) else each for key, each in gauge.items()}

    def progress(self) -> None:
        """The attempt's numbers."""
        counters = self._counters
        now = self._clock.monotonic()
        self._reporter.event(
            "progress",
            self._spec.task.connector,
            **self._fields(),
            records=counters.records,
            bytes=counters.bytes,
            transactions=counters.transactions,
            aborted=counters.aborted,
            aborted_records=counters.aborted_records,
            committed=list(counters.committed),
            errors=counters.measures.record_errors,
            open_records=counters.open_records,
            open_since_ms=int(counters.open_since * 1000),
            last_poll_ms=int(counters.last_poll * 1000),
            last_commit_ms=int(counters.last_commit * 1000),
            commit_ms=round(counters.commit_s * 1000, 2),
            **counters.measures.report(now),
            **self._times.report(now),
            **self._report_gauges(now),
            **({"held": held} if (held := self.held()) else {}),
            transactional_id=self._spec.transactional_id,
            producer_id=self._producer_id,
            epoch=self._epoch,
        )

    def flush(self) -> None:
        """Give the last reports a moment."""
        self._reporter.flush(5)
