"""What the config topic means for an attempt (invariants 2, 4 and 5)."""

import contextvars
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from ringfence.connectors.api import Signal
from ringfence.fencing.clock import Deadline, boot_seconds
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.modes import Mode
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.fencing.task.joint_reads import ConfigFollower
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord

log = logging.getLogger(__name__)

HAND_OVER_SECONDS: Final = 0.3
"""So long a task goes on after a newer generation was written, while that one's processes start and connect. About what
they need on a machine that is not busy.
"""


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
    """The connector's state as this attempt sees it. `condition` is notified when the desired state changes."""

    def __init__(
        self,
        spec: TaskSpec,
        tick: Callable[[], None],
        on_level: Callable[[ConnectorLevelRecord | None], None] = lambda _level: None,
        follower: ConfigFollower | None = None,
    ) -> None:
        """tick: called on the follower's thread about every quarter of a second. on_level: called with the connector's
        log level when it changes. follower: of the process's attempts; None for one of its own.
        """
        self._spec = spec
        self._tick = tick
        self._on_level = on_level
        self._context = contextvars.copy_context()
        self._state = ConnectorState(spec.task.connector)
        self._access = TopicAccess(spec.topics)
        self.condition = threading.Condition()
        self._verdict = DesiredState.WAIT
        self._hands_over_until: float | None = None
        self._is_open = self._ending = False
        self._follower = follower or ConfigFollower(spec.connection, spec.topics)
        self._follower.join(self)

    def open(self, deadline: Deadline) -> None:
        """Read the topic to its end, and follow it from there. What the follower has read before may be older than the
        attempt.
        """
        self._context = contextvars.copy_context()  # what is logged for the attempt on other threads is this task's
        self._follower.start()
        self._follower.refresh(deadline)
        self._is_open = True
        self._judge(at_once=True)

    @property
    def connector(self) -> ConnectorName:
        return self._spec.task.connector

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
        self._follower.refresh(deadline)
        self._judge(at_once=True)
        return self._verdict

    def check_topics(self, deadline: Deadline) -> None:
        """End the attempt if the config or offsets topic was replaced. Call it after reading."""
        self._follower.check_topics(deadline)
        self._judge()

    def lose(self, why: str) -> None:
        """End the attempt, since what it knows of the config topic can no longer be relied on."""
        if not self._ending:
            self._context.copy().run(
                log.warning, "Task %s ends: %s, so it is unknown whether this attempt may run", self._spec.task, why
            )
        self.end()

    def take(self, state: ConnectorState, offsets_topics: frozenset[str]) -> None:
        """Take the connector's new state, and all connectors' offsets topics. The follower calls it."""
        self._context.copy().run(self._take, state, offsets_topics)

    def _take(self, state: ConnectorState, offsets_topics: frozenset[str]) -> None:
        before, self._state = self._state, state
        access = replace(self._access, offsets=offsets_topics, grant=state.topic_grant)
        if access != self._access:
            self._access = access
        if state.unreadable is not None and state.unreadable != before.unreadable:
            log.warning("%s", state.unreadable)
        if state.log_level != before.log_level:
            self._on_level(state.log_level)

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
            self._hands_over_until = boot_seconds() + HAND_OVER_SECONDS
        return boot_seconds() < self._hands_over_until

    @property
    def is_calm(self) -> bool:
        """Whether nobody waits for the end of the attempt, or for its start."""
        return self._verdict in _CALM and not self._ending and self._hands_over_until is None

    def turn(self) -> None:
        """Judge what the follower has found, and let the attempt report. The follower calls it."""
        self._context.copy().run(self._turn)

    def _turn(self) -> None:
        if self._is_open:
            self._judge()
        self._tick()

    def end(self) -> None:
        """End the attempt soon, whatever the config topic says. Safe to call in a signal handler."""
        self._ending = True

    def wait_while(self, states: frozenset[DesiredState], timeout: float) -> DesiredState:
        """Wait until the desired state is none of `states`, at most `timeout` seconds."""
        with self.condition:
            self.condition.wait_for(lambda: self._verdict not in states, timeout)
        return self._verdict

    def close(self) -> None:
        """Follow the topic no more."""
        self._follower.leave(self)
