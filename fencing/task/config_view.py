"""An attempt's view of the config topic, and what that means for the attempt (invariants 2, 4 and 5).

A thread follows the topic, so that a pause, a stop or a newer generation reaches the task within milliseconds, even
while its plugin waits for the source.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from ringfence.connectors.api import Signal
from ringfence.connectors.sdk import worker_limits
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable, TopicLost, Unreadable
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.topic_admin import TopicWatch, topic_ids
from ringfence.fencing.modes import Mode
from ringfence.fencing.records.writable_topics import OffsetsTopics, TopicAccess
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics import log_levels
from ringfence.fencing.topics.cluster_state import apply_connector
from ringfence.fencing.topics.config_records import LOGGER, connector_of, decode
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.fencing.topics.topic_log import PATIENCE_SECONDS, ReadingTurns, TopicLog

log = logging.getLogger(__name__)

_TRUSTED_SECONDS = 3600.0
"""Well below `delete.retention.ms` (a day, with which the config topic is created): no tombstone is missed
within it.
"""


HAND_OVER_SECONDS: Final = 0.3
"""So long a task goes on after a newer generation was written, while that one's processes start and connect. About what
they need on a machine that is not busy.
"""


_TURN_SECONDS: Final = 0.05
_CALM_SECONDS: Final = 0.25


def _now() -> float:
    """Return seconds that also count while the process, or the whole machine, sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class DesiredState(StrEnum):
    """What this attempt may do now."""

    RUN = "run"
    PAUSE = "paused"
    WAIT = "waiting for the fence of the generation before"
    END = "superseded"


_CALM: Final = frozenset({DesiredState.RUN, DesiredState.PAUSE})


def judge(state: ConnectorState, spec: TaskSpec) -> DesiredState:
    """Return the desired state of the attempt that `spec` describes, given its connector's state. Pure."""
    generation = spec.placement.generation
    if state.unreadable is not None or state.config is None or state.target is TargetState.STOPPED:
        return DesiredState.END
    if state.generation != generation or not state.may_run(spec.task.task, spec.placement):
        return DesiredState.END
    if state.round_pending:
        return DesiredState.WAIT
    return DesiredState.PAUSE if state.target is TargetState.PAUSED else DesiredState.RUN


def may_hand_over(state: ConnectorState, spec: TaskSpec) -> bool:
    """Return whether a running attempt may go on for a moment (`HAND_OVER_SECONDS`). Pure.

    Its successors are another generation's, which starts behind a fence of this one. That fence waits for its end.
    """
    runs = state.unreadable is None and state.config is not None and state.target is TargetState.RUNNING
    follows = state.commit is not None and state.commit.tasks > 0 and state.round_pending
    ours = state.count is not None and state.count.generation == spec.placement.generation
    return spec.mode is Mode.ENABLED and runs and follows and ours


class TaskView:
    """The connector's state as this attempt sees it. `changed` is notified when the desired state changes."""

    def __init__(
        self,
        spec: TaskSpec,
        tick: Callable[[], None],
        on_level: Callable[[ConnectorLevelRecord | None], None] = lambda _level: None,
    ) -> None:
        """tick: called on the view's thread about every half second, and after each change. on_level: called with the
        connector's log level when it changes."""
        self._spec = spec
        self._tick = tick
        self._on_level = on_level
        self._state = ConnectorState(spec.task.connector)
        self._stable = self._state  # without records that the log holds ahead of its position, which come again
        self._offsets_topics = OffsetsTopics()
        self._access = TopicAccess(spec.topics)
        self._log = TopicLog(spec.connection, spec.topics.config, patience_s=PATIENCE_SECONDS)
        ids = {spec.topics.config: spec.topics.config_id, spec.topics.offsets: spec.topics.offsets_id}
        self._topics = {name: topic_id for name, topic_id in ids.items() if topic_id}
        self._watch = TopicWatch(spec.connection, self._topics)
        self._read_at = _now()
        self._turns = ReadingTurns()
        self.condition = threading.Condition()
        self._verdict = DesiredState.WAIT
        self._hands_over_until: float | None = None
        self._closing = self._ending = False
        self._parent = os.getppid()
        self._thread = threading.Thread(target=self._follow, name=f"view-{spec.task}", daemon=True)

    def open(self, deadline: Deadline) -> None:
        """Read to the end, then start to follow."""
        self.refresh(deadline)
        self._thread.start()

    @property
    def verdict(self) -> DesiredState:
        return self._verdict

    @property
    def tasks(self) -> int:
        """How many tasks this attempt's generation has; 0 if a newer one exists."""
        commit = self._state.commit
        ours = commit is not None and commit.generation == self._spec.placement.generation
        return commit.tasks if commit is not None and ours else 0

    @property
    def topics_reset(self) -> int:
        """The offset of the newest reset of the connector's active topics, -1 for none."""
        return self._state.topics_reset

    @property
    def sweep_request(self) -> SweepRequestRecord | None:
        """What the share group's tasks are asked to look at now."""
        return self._state.sweep_request

    @property
    def signals(self) -> Sequence[Signal]:
        """The signals that users have sent to the connector's tasks."""
        return self._state.signals

    @property
    def topic_access(self) -> TopicAccess:
        """Which topics the connector may write to; another object after each change."""
        return self._access

    def refresh(self, deadline: Deadline) -> DesiredState:
        """Return the desired state at the current end of the config topic (invariant 6).

        An open transaction is ignored, even the leader's. The leader acts on a commit only after it has read it with
        its marker. So an open transaction has caused no fence yet, and the fence that it will cause comes after this
        attempt's init and ends the attempt.
        """
        with self._turns.read():
            try:
                self._take(self._log.catch_up(deadline))
                self._note_reading()
            except TopicLost as error:
                self._lose(str(error))
        self.check_topics(deadline)
        self._judge(at_once=True)
        return self._verdict

    def check_topics(self, deadline: Deadline) -> None:
        """End the attempt if the config or offsets topic is not the one that it was created for: then what was read
        there means nothing. Call it after reading; topic ids are never reused.
        """
        if self._topics:
            ids = topic_ids(self._spec.connection, list(self._topics), deadline)
            self._compare({name: id_ for name, id_ in ids.items() if id_ != self._topics[name]})
            self._judge()

    def _compare(self, odd: Mapping[str, str | None]) -> None:
        for name, topic_id in odd.items():
            self._lose(f"topic {name} is gone" if topic_id is None else f"topic {name} was deleted and created again")

    def _lose(self, what: str) -> None:
        if not self._ending:
            log.warning("Task %s ends: %s, so it is unknown whether this attempt may run", self._spec.task, what)
        self.end()

    def _note_reading(self) -> None:
        """Note that the topic was read now. If the last read is longer ago than tombstones are kept, some may be
        missed.
        """
        now = _now()
        if now - self._read_at > _TRUSTED_SECONDS:
            log.warning(
                "Task %s ends: it was suspended for %d minutes, and may have missed that it is superseded",
                self._spec.task,
                (now - self._read_at) / 60,
            )
            self.end()
        self._read_at = now

    def _take(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            if record.key is not None and record.key.startswith(LOGGER.encode()):
                self._set_level(record)
            self._offsets_topics.apply(record)
            self._stable = self._after(self._stable, record)
        state = self._stable
        for record in self._log.ahead:
            if record.offset >= self._log.positions[record.partition]:
                self._offsets_topics.apply(record)
                state = self._after(state, record)
        access = replace(self._access, offsets=self._offsets_topics.names, grant=state.topic_grant)
        if access != self._access:
            self._access = access
            worker_limits.set_offsets_topics(access.offsets)  # for tasks that read Kafka
        before, self._state = self._state.log_level, state
        if state.log_level != before:
            self._on_level(state.log_level)

    def _after(self, state: ConnectorState, record: LogRecord) -> ConnectorState:
        if record.key is None or connector_of(record.key) != self._spec.task.connector:
            return state
        try:
            return apply_connector(state, record.offset, decode(record.key, record.value))
        except Unreadable as error:
            # The leader stops this connector and reports why; this attempt ends, unless a newer configuration follows.
            log.warning("%s@%d: %s", self._spec.topics.config, record.offset, error)
            return replace(state, unreadable=str(error))

    def _set_level(self, record: LogRecord) -> None:
        if not self._thread.is_alive():
            return  # older than this attempt
        try:
            config_record = decode(record.key, record.value)
        except Unreadable as error:
            log.warning("%s@%d: %s", self._spec.topics.config, record.offset, error)
            return
        if isinstance(config_record, LoggerRecord):
            log_levels.apply(config_record)

    def _judge(self, *, at_once: bool = False) -> None:
        """at_once: whoever asks has a reason to end, and only asks whether it is that one."""
        verdict = DesiredState.END if self._ending else judge(self._state, self._spec)
        if verdict is DesiredState.END and not at_once and self._hands_over():
            return
        if verdict is not self._verdict:
            with self.condition:
                self._verdict = verdict
                self.condition.notify_all()

    def _hands_over(self) -> bool:
        if self._ending or self._verdict is not DesiredState.RUN or not may_hand_over(self._state, self._spec):
            return False
        if self._hands_over_until is None:
            self._hands_over_until = _now() + HAND_OVER_SECONDS
        return _now() < self._hands_over_until

    def _follow(self) -> None:
        try:
            while not self._closing:
                self._turn_once()
        except Exception:
            # The root of the thread. An attempt that cannot learn that it is superseded must not continue.
            log.exception("The config topic cannot be followed any more; the attempt ends and is placed again")
            self.end()
            self._judge()
        self._log.close()

    def _turn_once(self) -> None:
        try:
            with self._turns.follow():
                self._take(self._log.follow(self._find_patience()))
                self._note_reading()
            self._compare(self._watch.look(time.monotonic()))
        except Retriable as error:
            log.info("%s", error)
        if os.getppid() != self._parent:
            log.warning("The process that started this task is gone; the attempt ends")
            self.end()
        self._judge()
        self._tick()

    def _find_patience(self) -> float:
        """Return how many seconds to wait for a record. Waiting on is most of what a task costs that has nothing to do;
        but who refreshes, or ends this attempt, waits for it.
        """
        is_calm = self._verdict in _CALM and not self._ending and self._hands_over_until is None
        return _CALM_SECONDS if is_calm else _TURN_SECONDS

    def end(self) -> None:
        """End the attempt soon, whatever the config topic says. Safe to call in a signal handler."""
        self._ending = True

    def wait_while(self, states: frozenset[DesiredState], timeout: float) -> DesiredState:
        """Wait until the desired state is none of `states`, at most `timeout` seconds."""
        with self.condition:
            self.condition.wait_for(lambda: self._verdict not in states, timeout)
        return self._verdict

    def close(self) -> None:
        """End the thread and close the consumer."""
        self._closing = True
        if self._thread.is_alive():
            self._thread.join(5)
