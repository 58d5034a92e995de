"""Writes the status of connectors and tasks for which no attempt reports: the leader writes it to the status topic."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from ringfence.engine.leader.connector_instances import LeaderInstances
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import NO_GENERATION, TaskId, WorkerId
from ringfence.fencing.leader.next_placement import status_of
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.active_topics import key_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, Placement, TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import (
    LOST,
    PLACED,
    RESTARTED,
    STARTING,
    ConnectorStatus,
    State,
    StatusRecord,
    StatusState,
    StatusTombstone,
    TaskStatus,
)

log = logging.getLogger(__name__)

_REFRESH_SECONDS: Final = 8.0
_SAY_AGAIN_SECONDS: Final = 3.0
_SILENT_SECONDS: Final = 60.0
_AT_ONCE: Final = 100
"""Statuses in one pass: each is read by all workers, and written as a row."""
_NOT_BEGUN: Final = (PLACED, RESTARTED, STARTING)


class LeaderStatuses:
    """The leader's statuses in one term. All methods are called on the leader's thread."""

    def __init__(
        self, worker: WorkerId, reporter: Reporter, instances: LeaderInstances, status: Callable[[], StatusState]
    ) -> None:
        self._worker = worker
        self._reporter = reporter
        self._instances = instances
        self._status = status
        self._last_reports: dict[str, tuple[StatusRecord, float]] = {}
        self._silent: dict[tuple[TaskId, int, int, int], float] = {}
        self.restarting: set[TaskId] = set()
        """Tasks whose next attempt is a restart."""

    def announce(self, before: ClusterState, after: ClusterState) -> None:
        """Write statuses for attempts that were placed between these states, before they report themselves."""
        for connector in after.existing():
            old = before.connector(connector.name).placements
            for number, placement in connector.placements.items():
                if old.get(number) == placement or placement.after:
                    continue  # only a reserved place: the attempt that must end first still reports
                task = TaskId(connector.name, number)
                again = task in self.restarting
                self.restarting.discard(task)
                self._reporter.status(
                    TaskStatus(
                        task,
                        State.RESTARTING if again else State.UNASSIGNED,
                        placement.worker,
                        placement.generation,
                        placement.attempt,
                        placement.incarnation,
                        why=RESTARTED if again else PLACED,
                        since_ms=self._reporter.now_ms(),
                        restarts=placement.restarts,
                    )
                )
                if again and placement.restarts:
                    self._report_restart(task, placement)

    def _report_restart(self, task: TaskId, placement: Placement) -> None:
        attempt = {"generation": placement.generation, "attempt": placement.attempt, "worker": placement.worker}
        fields = {"stage": "restarted automatically", "message": f"Restart {placement.restarts} in a row"}
        self._reporter.event("task", task.connector, task=task.task, **attempt, **fields)

    def give_up_silent(self, state: ClusterState, status: StatusState) -> None:
        """Consider an attempt lost if it may run and has not reported for long: its worker's Spark driver hangs.

        An attempt that is starting reports so every few seconds (STARTING), and the time counts from its last report.
        """
        before, self._silent = self._silent, {}
        for connector in state.existing():
            if not connector.runnable or connector.target is not TargetState.RUNNING:
                continue
            for number, placement in connector.placements.items():
                task = TaskId(connector.name, number)
                task_status = status_of(status, task, placement)
                silent = task_status is not None and task_status.why in _NOT_BEGUN and not task_status.ended
                if not silent:
                    continue
                key = (task, placement.generation, placement.attempt, task_status.since_ms if task_status else 0)
                began = self._silent[key] = before.get(key, time.monotonic())
                if task_status is not None and time.monotonic() - began > _SILENT_SECONDS:
                    self._give_up(replace(task_status, ended=True, why=LOST, since_ms=self._reporter.now_ms()))

    def _give_up(self, lost: TaskStatus) -> None:
        key = f"status-task-{lost.task}"
        record, when = self._last_reports.get(key, (None, 0.0))
        if isinstance(record, TaskStatus) and record.key == lost.key and time.monotonic() - when <= _SAY_AGAIN_SECONDS:
            return
        message = (
            f"Placed on worker {lost.worker}, it has not reported for {_SILENT_SECONDS:g} s, so it counts as lost and "
            "is placed again. Its worker's log shows more; restart that worker if this happens again"
        )
        log.warning("Task %s, attempt %d: %s", lost.task, lost.attempt, message)
        attempt = {"generation": lost.generation, "attempt": lost.attempt, "worker": lost.worker}
        self._reporter.event("task", lost.task.connector, task=lost.task.task, **attempt, stage="lost", message=message)
        self.say(key, lost)

    def report(self, term: Term) -> None:
        """Write what has changed; of thousands of changes the first ones, and the next ones in the next pass."""
        due = self._due_statuses(term.state, self._status())
        if any(not self._was_logged_lately(key, record) for key, record in due.items()):
            # After being suspended, the leader would report on old state, and remove statuses that are newer.
            due = self._due_statuses(term.refresh(Deadline.after(_REFRESH_SECONDS)), self._status())
        due_now = ((key, record) for key, record in due.items() if not self._was_logged_lately(key, record))
        for key, record in islice(due_now, _AT_ONCE):
            self.say(key, record)

    def _due_statuses(self, state: ClusterState, status: StatusState) -> dict[str, StatusRecord]:
        due: dict[str, StatusRecord] = {}
        for connector in state.existing():
            record = self._status_of(connector)
            if status.connectors.get(connector.name) != record:
                due[f"status-connector-{connector.name}"] = record
        stale_keys = [f"status-connector-{name}" for name in status.connectors if name not in state]
        stale_keys += [
            key_of(name, topic) for name in status.topics if name not in state for topic in status.topics[name]
        ]
        due |= {key: StatusTombstone(key) for key in stale_keys}
        for task in status.tasks:
            connector = state.connector(task.connector)
            if connector.round_pending:
                continue  # the round still needs to know which attempts are at work
            if connector.config is None or connector.commit is None or task.task >= connector.commit.tasks:
                due[f"status-task-{task}"] = StatusTombstone(f"status-task-{task}")
        return due

    def _was_logged_lately(self, key: str, record: StatusRecord) -> bool:
        last, when = self._last_reports.get(key, (None, 0.0))
        return last == record and time.monotonic() - when <= _SAY_AGAIN_SECONDS

    def say(self, key: str, record: StatusRecord) -> None:
        """Write a status once, and again if it cannot be read from the topic after a while."""
        if not self._was_logged_lately(key, record):
            self._last_reports[key] = (record, time.monotonic())
            self._reporter.status(record)

    def say_without_slot(self, statuses: Iterable[TaskStatus]) -> None:
        """Write each once for each generation, and again if it cannot be read from the topic after a while. Of
        thousands, the others follow in the next passes.
        """
        pairs = ((f"status-task-{waits.task}", self._first_report(waits)) for waits in statuses)
        due_now = ((key, waits) for key, waits in pairs if not self._was_logged_lately(key, waits))
        for key, waits in islice(due_now, _AT_ONCE):
            self.say(key, waits)

    def _first_report(self, waits: TaskStatus) -> TaskStatus:
        """Return the status with the time of its first report."""
        last, _ = self._last_reports.get(f"status-task-{waits.task}", (None, 0.0))
        return last if isinstance(last, TaskStatus) and last.key == waits.key else waits

    def _status_of(self, connector: ConnectorState) -> ConnectorStatus:
        generation = connector.generation if connector.generation is not None else NO_GENERATION
        trace = connector.unreadable or self._instances.trace_of(connector.name, connector.config_offset)
        if trace is not None:
            state = State.FAILED
        elif connector.target is TargetState.RUNNING:
            runs = self._instances.runs(connector.name, connector.config_offset)
            waiting = State.RESTARTING if self._instances.restarting(connector.name) else State.UNASSIGNED
            state = State.RUNNING if runs else waiting
        else:
            state = State.PAUSED if connector.target is TargetState.PAUSED else State.STOPPED
        version = self._instances.version_of(connector)
        return ConnectorStatus(connector.name, state, self._worker, generation, trace, version)
