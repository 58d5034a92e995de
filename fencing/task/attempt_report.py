"""What an attempt reports about itself: its status, its stage, and its numbers once a second."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ringfence.connectors.api import Endpoint
from ringfence.fencing.clock import Clock
from ringfence.fencing.kafka.open_transactions import Hanging
from ringfence.fencing.metrics import Measures, StateTimes
from ringfence.fencing.offsets.record_counts import RecordCounts
from ringfence.fencing.share.offset_ranges import LockedRanges
from ringfence.fencing.task.plugin_metrics import Gauges
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.task.traced_transactions import TracedTransactions
from ringfence.fencing.topics.active_topics import TopicStatus
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import FAILED, KAFKA, SUPERSEDED, PollRetry, State, TaskStatus
from ringfence.fencing.topics.status.failed_record import RecordFailure, shorten
from ringfence.fencing.topics.status_entry import error_of
from ringfence.fencing.transactions.client import TransactionalClient


@dataclass(slots=True)
class Counters:
    """Cumulative counts since the attempt's start. The task's thread writes them, the reporting thread reads them.

    Times are wall clock. last_answer: when the source last answered, with records or without; data_as_of: all that the
    source had then is committed.
    """

    records: int = 0
    bytes: int = 0
    transactions: int = 0
    aborted: int = 0
    aborted_records: int = 0
    committed: RecordCounts = field(default_factory=RecordCounts)
    open_records: int = 0
    open_since: float = 0.0
    last_poll: float = 0.0
    last_commit: float = 0.0
    last_answer: float = 0.0
    data_as_of: float = 0.0
    commit_s: float = 0.0
    measures: Measures = field(default_factory=Measures)
    traced: TracedTransactions | None = None
    """Where a worker traces transactions."""

    def note_data_as_of(self, at: float) -> None:
        """Note that all that the source had then is committed. An older time says nothing new."""
        self.data_as_of = max(self.data_as_of, at)


log = logging.getLogger(__name__)

_EVERY_S = 1.0
_STARTING_EVERY_S = 5.0
_GAUGES_EVERY_S = 5.0
_GAUGES_AGAIN_S = 30.0
_RETRYING_AFTER_S = 5.0
_HELD_UP_AGAIN_S = 15.0
_IDLE_EVERY_S = 10.0
BEHIND = "behind"
"""The name of the gauge in seconds by which a plugin tells the age of its data."""
_RETRYING = "retrying: the source refuses"
_NO_START = frozenset({"", "running", "paused", "copying offsets", _RETRYING})


class TaskReport:
    """The reports of one attempt. `tick` is called on another thread than the rest; each report is one call."""

    def __init__(
        self,
        spec: TaskSpec,
        reporter: Reporter,
        counters: Counters,
        clock: Clock,
        version: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """version: the plugin's. redact: takes secrets out of messages and stack traces."""
        self._spec = spec
        self._reporter = reporter
        self._counters = counters
        self._clock = clock
        self._last = self._last_progress = clock.monotonic()
        self._last_numbers: tuple[object, ...] = ()
        self._was_active = False
        self.locked_ranges: Callable[[], LockedRanges] = tuple
        """The records of a share group that the task holds."""
        self._producer: TransactionalClient | None = None
        self._state: State | None = None  # RUNNING or PAUSED, None before
        self._held_up_at = 0.0
        self._held_up_by = ""
        self._lock = threading.RLock()  # a status of `tick` never follows the last one
        self._stage = ""
        self.on_stage: Callable[[], None] = lambda: None
        """Called with each stage."""
        self._stage_since = self._stage_reported_at = self._last
        self._has_waiting_status = self._over = False
        self._version = version
        self._redact = redact
        self._tracks = spec.worker_settings.get("topic.tracking.enable", "true").strip().lower() != "false"
        self._topics: set[tuple[str, str]] = set()
        self._topics_reset = -1
        self._times = StateTimes(self._last)
        self.endpoint: Endpoint | None = None
        """Where the plugin listens; reported while it runs."""
        self._reconfigure_ms = 0
        self._refused_since: float | None = None
        self._retry: PollRetry | None = None
        self.gauges = Gauges()
        """The metrics that the plugin reports itself."""
        self._gauges_at = -_GAUGES_EVERY_S
        self._last_gauges: list[dict[str, object]] = []

    def _fields(self) -> dict[str, object]:
        placement = self._spec.placement
        return {
            "task": self._spec.task.task,
            "generation": placement.generation,
            "attempt": placement.attempt,
            "worker": placement.worker,
        }

    def stage(self, stage: str, message: str = "") -> None:
        """Report a stage, for people who wait."""
        if (stage, message) != (self._stage, ""):
            self._stage_reported_at = self._clock.monotonic()
            if stage != self._stage:
                self._stage_since = self._stage_reported_at
            self._stage = stage
            self.on_stage()
            connector = self._spec.task.connector
            message = self._redact(message)
            self._reporter.event("task", connector, **self._fields(), **self._writer(), stage=stage, message=message)

    def _writer(self) -> dict[str, object]:
        """Return what names the transactions of this attempt on the cluster."""
        if self._producer is None:
            return {}
        return {"transactional_id": self._spec.transactional_id, **self._report_producer()}

    @property
    def start_stage(self) -> tuple[str, float] | None:
        """Return the start's stage of this attempt, and for how many seconds; None if it is not starting.
        Thread-safe.
        """
        if self._stage in _NO_START or self._over:
            return None
        return self._stage, self._clock.monotonic() - self._stage_since

    def waiting(self, stage: str, text: str) -> None:
        """Report what the attempt waits for: in its status, on its page, in the log and as an event. Thread-safe.

        stage: of the start. Does nothing if the attempt is not in it any more: nobody would correct the status.
        """
        text = self._redact(text)
        with self._lock:
            if self.start_stage is None or self._stage != stage:
                return
            self._has_waiting_status = True
            log.warning("Task %s, attempt %d waits: %s", self._spec.task, self._spec.placement.attempt, text)
            connector = self._spec.task.connector
            self._reporter.event("task", connector, **self._fields(), stage="waiting", message=text)
            self._status(State.UNASSIGNED, text)

    def retrying(self, cause: str, attempts: int, pause_s: float) -> None:
        """Report that the source refuses: at once as an event, and in the status if that lasts.

        attempts: in a row; pause_s: until the next one.
        """
        now = self._clock.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        self.stage(_RETRYING, cause)
        lasted = now - self._refused_since
        if lasted >= _RETRYING_AFTER_S:
            now_ms = self._reporter.now_ms()
            since_ms, next_ms = now_ms - round(lasted * 1000), now_ms + round(pause_s * 1000)
            self._retry = PollRetry(shorten(self._redact(cause)), since_ms, attempts, next_ms)
            self._status(State.RUNNING, "")

    def source_answers(self) -> None:
        """Report that the source answers again, after `retrying`."""
        self._refused_since = None
        if self._retry is None:
            self.stage("running")
        else:
            self.running(State.RUNNING)

    def going_on(self) -> None:
        """Report that the attempt continues after an interruption, in which `waiting` may have been called."""
        with self._lock:
            if self._has_waiting_status:
                self.running(State.RUNNING)
            else:
                self.stage("running")

    def hanging_ended(self, one: Hanging) -> None:
        """Report that a hanging transaction of an older epoch of the task's producer was ended (invariant 13).
        Thread-safe.
        """
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
            message=one.message,
        )

    def starting(self, stage: str, message: str) -> None:
        """Report a long stage of a start every few seconds, also in the status."""
        if self._clock.monotonic() - self._stage_reported_at >= _STARTING_EVERY_S:
            with self._lock:
                self.stage(stage, message)
                self._has_waiting_status = True
                self._status(State.UNASSIGNED, f"{stage}: {message}")

    def producer(self, producer: TransactionalClient) -> None:
        """Report the producer of the next transactions. Its epoch changes with each of them in transactions v2."""
        self._producer = producer

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
                retry=self._retry if state is State.RUNNING else None,
            )
        )

    def running(self, state: State) -> None:
        """Report RUNNING or PAUSED."""
        with self._lock:
            self._has_waiting_status = False
            self._refused_since = self._retry = None
            self._held_up_by, self._state = "", state
            self.stage(state.lower())
            self._status(state, "")
        self._times.enter(state, self._clock.monotonic())
        self.progress()

    def request_task_reconfiguration(self) -> None:
        """Ask the leader to have the connector make its task configurations again. Plugins call it on any thread.

        Before the task runs, its next status asks.
        """
        with self._lock:
            self._reconfigure_ms = self._reporter.now_ms()
            if self._state is not None and not self._over and not self._has_waiting_status:
                self._status(self._state, "")

    def report_failed(
        self, trace: str, why: str = FAILED, *, left_open: bool = False, failure: RecordFailure | None = None
    ) -> None:
        """Report FAILED, with the stack trace. why: tells whether a restart may help (`fencing.leader.next_placement`);
        left_open, failure: see `TaskStatus`.
        """
        self.progress()
        with self._lock:
            self._over = True
            self._status(State.FAILED, why, trace=trace, ended=True, left_open=left_open, failure=failure)
        self.stage("failed", error_of(trace))

    def report_ended(self, reason: str) -> None:
        """Report a normal end. The status tells a fencing round not to wait; it never replaces that of a
        newer attempt.
        """
        self.progress()
        with self._lock:
            self._over = True
            self._status(State.UNASSIGNED, SUPERSEDED, ended=True)
        self.stage(reason)

    def topics(self, topics: frozenset[str], reset: int) -> None:
        """Report the topics of a committed transaction: each once, and once more after a reset (KIP-558), or when it is
        another topic of that name.

        reset: the config-topic offset of the newest reset.
        """
        if reset != self._topics_reset:
            self._topics_reset = reset
            self._topics.clear()
        if not self._tracks or not topics:
            return
        producer = self._producer
        now = {(topic, "" if producer is None else producer.topic_id(topic)) for topic in topics}
        for topic, topic_id in sorted(now - self._topics):
            task = self._spec.task
            self._reporter.status(TopicStatus(task.connector, topic, task.task, self._reporter.now_ms(), topic_id))
        self._topics |= now

    def tick(self) -> None:
        """Report progress: once a second while there is some, once more when it has ended, and then every ten seconds,
        so that silence means that nothing is known. Report, too, that Kafka takes no records. Call it often.
        """
        now = self._clock.monotonic()
        if now - self._last < _EVERY_S:
            return
        counters = self._counters
        numbers = (counters.records, counters.transactions, counters.open_records, self.locked_ranges())
        is_active = numbers != self._last_numbers
        is_due = self._state is State.RUNNING and now - self._last_progress >= _IDLE_EVERY_S
        self._last = now
        if is_active or self._was_active or is_due or self._gauges_due(now):
            self._was_active, self._last_numbers = is_active, numbers
            self.progress()
        self._tell_held_up(now)

    def _tell_held_up(self, now: float) -> None:
        held_up = None if self._producer is None else self._producer.held_up
        with self._lock:
            if self._over or self._state is not State.RUNNING or self._has_waiting_status:
                return
            if held_up is None or now - held_up[0] < _RETRYING_AFTER_S:
                if self._held_up_by:
                    self._held_up_by, self._retry = "", None
                    self._status(State.RUNNING, "")
                return
            since, words = held_up
            if words != self._held_up_by or now - self._held_up_at >= _HELD_UP_AGAIN_S:
                self._held_up_by, self._held_up_at = words, now
                since_ms = self._reporter.now_ms() - round((now - since) * 1000)
                self._retry = PollRetry(
                    shorten(self._redact(f"Kafka takes no records: {words}")), since_ms, 0, 0, KAFKA
                )
                self._status(State.RUNNING, "")

    def _gauges_due(self, now: float) -> bool:
        """Return whether to report the gauges. Unchanged ones are repeated from time to time, since old values count as
        unknown.
        """
        gauges, since = self.gauges.report(), now - self._gauges_at
        return since >= (_GAUGES_EVERY_S if gauges != self._last_gauges else _GAUGES_AGAIN_S) and bool(
            gauges or self._last_gauges
        )

    def _report_gauges(self, now: float) -> dict[str, object]:
        """Report the gauges with the numbers, every few seconds."""
        if now - self._gauges_at < _GAUGES_EVERY_S and not self._over:
            return {}
        gauges = self.gauges.report()
        if not gauges and not self._last_gauges:
            return {}
        self._gauges_at, self._last_gauges = now, gauges
        return {"gauges": [self._redact_gauge(each) for each in gauges]}

    def _redact_gauge(self, gauge: dict[str, object]) -> dict[str, object]:
        return {key: self._redact(each) if isinstance(each, str) else each for key, each in gauge.items()}

    def progress(self) -> None:
        """Report the attempt's numbers."""
        counters = self._counters
        now = self._last_progress = self._clock.monotonic()
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
            last_answer_ms=int(counters.last_answer * 1000),
            data_as_of_ms=int(self._data_as_of() * 1000),
            commit_ms=round(counters.commit_s * 1000, 2),
            **counters.measures.report(now),
            **self._times.report(now),
            **self._report_gauges(now),
            **({"held": ranges} if (ranges := self.locked_ranges()) else {}),
            **({"traced": samples} if counters.traced and (samples := counters.traced.take()) else {}),
            transactional_id=self._spec.transactional_id,
            **self._report_producer(),
        )

    def _report_producer(self) -> dict[str, object]:
        producer = self._producer
        if producer is None:
            return {"producer_id": -1, "epoch": -1}
        version = {"transactions_v2": producer.transactions_v2}
        return {"producer_id": producer.producer_id, "epoch": producer.epoch, **version}

    def _data_as_of(self) -> float:
        """Return the time by the task's count, or by the plugin's own if it measures how far it is behind."""
        behind = self.gauges.read(BEHIND, "seconds")
        return self._counters.data_as_of if behind is None else self._clock.wall() - max(0.0, behind)

    def flush(self) -> None:
        """Wait a moment for the last reports."""
        self._reporter.flush(5)
