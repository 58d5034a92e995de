"""The leader's reconcile loop: compare what is asked for with what is, take the next step. Every step is idempotent."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from ringfence.engine.leader.abandoned_transactions import AbandonedTransactions
from ringfence.engine.leader.commands import task_set
from ringfence.engine.leader.connector_instances import Instances
from ringfence.engine.leader.hanging_watch import report_ended
from ringfence.engine.leader.lost_attempts import LostAttempts
from ringfence.engine.leader.mode_check import ModeWatch
from ringfence.engine.leader.round_runner import RoundRunner
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, FencingError
from ringfence.fencing.ids import NO_GENERATION, ConnectorName, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.abandoned import find_abandoned
from ringfence.fencing.leader.assignment import Member
from ringfence.fencing.leader.fence import FenceResult
from ringfence.fencing.leader.forgetting import forget
from ringfence.fencing.leader.next_placement import REBALANCE_DELAY, status_of
from ringfence.fencing.leader.reconcile import Steps, decide, statuses_with_restart, statuses_without_slot
from ringfence.fencing.leader.round_plan import Round, finish
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.active_topics import key_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import ConfigRecord
from ringfence.fencing.topics.connector_state import ConnectorState, Placement, TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import (
    LOST,
    PLACED,
    RESTARTED,
    STARTING,
    ConnectorStatus,
    Removed,
    State,
    StatusRecord,
    StatusState,
    TaskStatus,
)

log = logging.getLogger(__name__)

_WRITE_SECONDS = 8.0
_SAY_AGAIN_SECONDS = 3.0
_SILENT_SECONDS = 60.0
_NOT_BEGUN = (PLACED, RESTARTED, STARTING)


class Reconciler:
    """One term's loop body. All methods are called on the leader's thread."""

    def __init__(
        self,
        term: Term,
        group_id: str,
        worker: WorkerId,
        reporter: Reporter,
        rounds: RoundRunner,
        abandoned_: AbandonedTransactions,
        instances: Instances,
        status: Callable[[], StatusState],
        settings: Mapping[str, str],
    ) -> None:
        """`settings`: the worker's."""
        self._term = term
        self._group_id = group_id
        self._worker = worker
        self._reporter = reporter
        self._rounds = rounds
        self._abandoned = abandoned_
        self._instances = instances
        self._status = status
        self._settings = settings
        self._losses = LostAttempts(int(settings[REBALANCE_DELAY]) / 1000 if REBALANCE_DELAY in settings else None)
        self._members: list[Member] = []
        self._modes = ModeWatch(worker, reporter)
        self._live: set[tuple[WorkerId, Incarnation]] = set()
        self._said: dict[str, tuple[StatusRecord, float]] = {}
        self._silent: dict[tuple[TaskId, int, int, int], float] = {}
        self.restarting: set[TaskId] = set()

    def step(self, members: list[Member]) -> None:
        """One pass: finish what has come to an end, then begin what is due."""
        self._members = members
        self._modes.look(members)
        self._live = {(member.worker, member.incarnation) for member in members}
        self._finish_rounds()
        self._write_task_sets()
        state, status = self._term.state, self._status()
        self._give_up_silent(state, status)
        self._losses.note(state, status, members, time.monotonic())
        due = self._decide(state)
        if due.placements:
            self._place()
        self._end_abandoned()
        for waits in statuses_without_slot(state, status, due.unassigned, self._reporter.now_ms()):
            self._say_without_slot(waits)
        for shown in statuses_with_restart(state, status, self._settings):
            self._say(f"status-task-{shown.task}", shown)
        for name in due.tasks_wanted:
            connector = state.connector(name)
            if connector.target is TargetState.STOPPED:
                self._write(task_set(name, connector.config_offset, ()))
            else:
                self._instances.ask(connector)
        for round_ in due.rounds:
            if self._rounds.start(round_, self._busy):
                self._report_round(round_, "fencing", "")
        if due.forgettable:
            self._write(forget)
        self._tend_instances(self._term.state)
        self._report_statuses()

    def _write(self, plan: Callable[[ClusterState], object]) -> None:
        def records(state: ClusterState) -> list[ConfigRecord]:
            return list(plan(state))  # type: ignore[call-overload,no-any-return]

        self._term.write(records, Deadline.after(_WRITE_SECONDS))

    def _finish_rounds(self) -> None:
        for running in self._rounds.take_finished():
            round_ = running.round
            try:
                fenced = running.result.result()
            except FencingError as error:
                pause = self._rounds.record_failure(round_, error)
                self._report_round(round_, "failed", f"{error}. It is tried again in {pause:g} s")
                continue
            try:
                self._write(lambda state, done=round_: finish(done, state))  # type: ignore[misc]
            except Conflict as error:
                self._report_round(round_, "cancelled", str(error))
                continue
            for one in fenced.hanging:
                report_ended(self._reporter, round_.connector, one, "round")
            elapsed = time.monotonic() - running.started
            self._report_round(
                round_, "done", f"{len(fenced.producers)} fenced in {elapsed:.3f} s{fenced.told}", fenced, elapsed
            )

    def _report_round(
        self,
        round_: Round,
        stage: str,
        message: str,
        fenced: FenceResult | None = None,
        elapsed: float = 0.0,
    ) -> None:
        shown = [
            {"id": one.transactional_id, "producer_id": one.producer_id, "epoch": one.epoch}
            for one in (fenced.producers if fenced else ())
        ]
        self._reporter.event(
            "round",
            round_.connector,
            generation=round_.generation,
            stage=stage,
            tasks=round_.tasks,
            fenced=shown,
            credentials=fenced.whose if fenced else "",
            ms=int(elapsed * 1000),
            message=message,
        )

    def _busy(self, round_: Round) -> bool:
        """Whether tasks of the generation before are still at work, as far as their reports tell. Any thread."""
        return any(
            found.generation != round_.generation and (found.worker, found.incarnation) in self._live
            for found in self._status().at_work(round_.connector)
        )

    def _end_abandoned(self) -> None:
        """Fence the ids of attempts that ended with a transaction open, where no next attempt was placed just now."""
        for ended in self._abandoned.take_finished():
            for last in ended.attempts:
                self._report_abandoned(last, ended.trouble)
                if not ended.trouble and last.ended:
                    self._say(f"status-task-{last.task}", replace(last, left_open=False))
        self._abandoned.start(find_abandoned(self._term.state, self._status(), self._live))

    def _report_abandoned(self, last: TaskStatus, trouble: str) -> None:
        stage = "its open transaction could not be ended" if trouble else "its open transaction was ended"
        told = trouble or "Its attempt left a transaction open, so the leader fenced its transactional id"
        attempt = {"generation": last.generation, "attempt": last.attempt, "worker": last.worker}
        self._reporter.event("task", last.task.connector, task=last.task.task, **attempt, stage=stage, message=told)

    def _write_task_sets(self) -> None:
        for answer in self._instances.answers():
            if answer.tasks is not None:
                self._write(task_set(answer.connector, answer.config_offset, answer.tasks))

    def _give_up_silent(self, state: ClusterState, status: StatusState) -> None:
        """An attempt that was placed, may run and says nothing for long is lost: its worker's Spark driver hangs.

        One that still starts says so every few seconds (STARTING): it is silent from its last word on.
        """
        before, self._silent = self._silent, {}
        for connector in state.existing():
            if not connector.runnable or connector.target is not TargetState.RUNNING:
                continue
            for number, placement in connector.placements.items():
                task = TaskId(connector.name, number)
                reported = status_of(status, task, placement)
                silent = reported is not None and reported.why in _NOT_BEGUN and not reported.ended
                if not silent:
                    continue
                key = (task, placement.generation, placement.attempt, reported.since_ms if reported else 0)
                began = self._silent[key] = before.get(key, time.monotonic())
                if reported is not None and time.monotonic() - began > _SILENT_SECONDS:
                    self._give_up(replace(reported, ended=True, why=LOST, since_ms=self._reporter.now_ms()))

    def _give_up(self, lost: TaskStatus) -> None:
        key = f"status-task-{lost.task}"
        held, when = self._said.get(key, (None, 0.0))
        if isinstance(held, TaskStatus) and held.key == lost.key and time.monotonic() - when <= _SAY_AGAIN_SECONDS:
            return
        told = (
            f"Placed on worker {lost.worker}, it has said nothing for {_SILENT_SECONDS:g} s, so it counts as lost "
            "and is placed again. Its worker's log says more; restart that worker if it comes again"
        )
        log.warning("Task %s, attempt %d: %s", lost.task, lost.attempt, told)
        attempt = {"generation": lost.generation, "attempt": lost.attempt, "worker": lost.worker}
        self._reporter.event("task", lost.task.connector, task=lost.task.task, **attempt, stage="lost", message=told)
        self._say(key, lost)

    def _decide(self, state: ClusterState) -> Steps:
        return decide(
            state,
            self._status(),
            self._members,
            self._group_id,
            self._losses.not_before,
            time.monotonic(),
            now_ms=self._reporter.now_ms(),
            settings=self._settings,
            held_until=self._losses.held_until,
        )

    def _place(self) -> None:
        def placements(state: ClusterState) -> list[ConfigRecord]:
            due = self._decide(state)
            self.restarting.update(due.restarting)
            return list(due.placements)

        before = self._term.state
        after, offset = self._term.write(placements, Deadline.after(_WRITE_SECONDS))
        if offset >= 0:  # else what is new was written by another leader, and this one does not know yet
            self.announce(before, after)

    def announce(self, before: ClusterState, after: ClusterState) -> None:
        """Statuses for attempts that were placed between the two states, before they can speak for themselves."""
        for connector in after.existing():
            old = before.connector(connector.name).placements
            for number, placement in connector.placements.items():
                if old.get(number) == placement or placement.after:
                    continue  # a reserved place is not told: the attempt that must end first still speaks
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

    def _report_restart(self, task: TaskId, placed: Placement) -> None:
        attempt = {"generation": placed.generation, "attempt": placed.attempt, "worker": placed.worker}
        told = {"stage": "restarted automatically", "message": f"Restart {placed.restarts} in a row"}
        self._reporter.event("task", task.connector, task=task.task, **attempt, **told)

    def _tend_instances(self, state: ClusterState) -> None:
        wanted = set()
        for connector in state.existing():
            if connector.target is TargetState.STOPPED or connector.unreadable is not None:
                continue
            wanted.add(connector.name)
            if not self._instances.runs(connector.name, connector.config_offset):
                self._instances.ask(connector)
        for name in self._instances.running():
            if name not in wanted:
                self._instances.forget(name)

    def _report_statuses(self) -> None:
        due = self._due_statuses(self._term.state, self._status())
        if any(not self._was_logged_lately(key, record) for key, record in due.items()):
            # A leader that slept would speak of a world that is gone: remove the statuses of what came in the meantime.
            due = self._due_statuses(self._term.refresh(Deadline.after(_WRITE_SECONDS)), self._status())
        for key, record in due.items():
            self._say(key, record)

    def _due_statuses(self, state: ClusterState, status: StatusState) -> dict[str, StatusRecord]:
        due: dict[str, StatusRecord] = {}
        for connector in state.existing():
            wanted = self._status_of(connector)
            if status.connectors.get(connector.name) != wanted:
                due[f"status-connector-{connector.name}"] = wanted
        gone = [f"status-connector-{name}" for name in status.connectors if name not in state]
        gone += [key_of(name, topic) for name in status.topics if name not in state for topic in status.topics[name]]
        due |= {key: Removed(key) for key in gone}
        for task in status.tasks:
            connector = state.connector(task.connector)
            if connector.round_pending:
                continue  # the round still asks who is at work
            if connector.config is None or connector.commit is None or task.task >= connector.commit.tasks:
                due[f"status-task-{task}"] = Removed(f"status-task-{task}")
        return due

    def _was_logged_lately(self, key: str, record: StatusRecord) -> bool:
        said, when = self._said.get(key, (None, 0.0))
        return said == record and time.monotonic() - when <= _SAY_AGAIN_SECONDS

    def _say(self, key: str, record: StatusRecord) -> None:
        """Once; again where it has not come back from the topic after a while."""
        if not self._was_logged_lately(key, record):
            self._said[key] = (record, time.monotonic())
            self._reporter.status(record)

    def _say_without_slot(self, waits: TaskStatus) -> None:
        """Once for each generation; again where it has not come back from the topic after a while."""
        key = f"status-task-{waits.task}"
        said = self._said.get(key)
        if said is not None and isinstance(said[0], TaskStatus) and said[0].key == waits.key:
            waits = said[0]  # with the time at which it began
        self._say(key, waits)

    def _status_of(self, connector: ConnectorState) -> ConnectorStatus:
        generation = connector.generation if connector.generation is not None else NO_GENERATION
        trace = connector.unreadable or self._instances.trace_of(connector.name, connector.config_offset)
        if trace is not None:
            shown = State.FAILED
        elif connector.target is TargetState.RUNNING:
            runs = self._instances.runs(connector.name, connector.config_offset)
            waiting = State.RESTARTING if self._instances.restarting(connector.name) else State.UNASSIGNED
            shown = State.RUNNING if runs else waiting
        else:
            shown = State.PAUSED if connector.target is TargetState.PAUSED else State.STOPPED
        version = self._instances.version_of(connector)
        return ConnectorStatus(connector.name, shown, self._worker, generation, trace, version)

    def reconfigure(self, name: ConnectorName) -> None:
        """A connector instance asked for new task configurations."""
        connector = self._term.state.connector(name)
        if connector.config is not None and connector.target is not TargetState.STOPPED:
            self._instances.ask(connector)
