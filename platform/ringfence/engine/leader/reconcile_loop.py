"""The leader's reconcile loop: compares the desired state with the actual one, and takes the next steps.

Every step is idempotent.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from ringfence.engine.leader.commands.command import Plan
from ringfence.engine.leader.connector_instances import LeaderInstances, TaskSet
from ringfence.engine.leader.fencing_round_runner import RoundRunner, RunningRound
from ringfence.engine.leader.hanging_watch import AbandonedTransactions, report_ended
from ringfence.engine.leader.members import LostAttempts, ModeWatch
from ringfence.engine.leader.reconfiguration_requests import TaskRequests
from ringfence.engine.leader.task_slices import fits, is_written, plan_tasks
from ringfence.engine.plugins.host import version_key
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, FencingError
from ringfence.fencing.ids import NO_GENERATION, ConnectorName, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.fence_generation import FenceResult
from ringfence.fencing.leader.fencing_round import Round, finish_all
from ringfence.fencing.leader.next_placement import REBALANCE_DELAY, LiveWorker, status_of
from ringfence.fencing.leader.older_epochs import find_abandoned
from ringfence.fencing.leader.reconcile import Steps, decide, forget, statuses_with_restart, statuses_without_slot
from ringfence.fencing.leader.term import Term
from ringfence.fencing.leader.work_list import WorkList
from ringfence.fencing.request_context import RequestContext, working_for
from ringfence.fencing.topics.active_topics import key_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import ConfigRecord
from ringfence.fencing.topics.connector_state import ConnectorState, Placement, TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import (
    LOST,
    NO_SLOT,
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

_REFRESH_SECONDS: Final = 8.0
_SAY_AGAIN_SECONDS: Final = 3.0
_SILENT_SECONDS: Final = 60.0
_AT_ONCE: Final = 100
"""Statuses in one pass: each is read by all workers, and written as a row."""
_MOST_REPORTS: Final = 1_000
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
        self._most_reports = _MOST_REPORTS
        self._silent: dict[tuple[TaskId, int, int, int], float] = {}
        self.restarting: set[TaskId] = set()
        """Tasks whose next attempt is a restart."""

    def announce(self, before: ClusterState, after: ClusterState) -> None:
        """Write statuses for attempts that were placed between these states, before they report themselves."""
        for name in after.changes_since(before):
            connector = after.connector(name)
            if connector.config is None:
                continue
            old = before.connector(name).placements
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

    def give_up_silent(self, state: ClusterState, status: StatusState) -> set[ConnectorName]:
        """Consider an attempt lost if it may run and has not reported for long: its worker's Spark driver hangs.

        An attempt that is starting reports so every few seconds (STARTING), and the time counts from its last report.
        Return the connectors with attempts that have not begun.
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
        return {task.connector for task, *_ in self._silent}

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

    def report(self, term: Term, scope: "Scope") -> set[ConnectorName]:
        """Write what has changed; of thousands of changes the first ones, and the next ones in the next pass. Return
        the connectors of all of them.
        """
        due = self._due_statuses(*scope(term.state))
        if any(not self._was_logged_lately(key, record) for _, key, record in due):
            # After being suspended, the leader would report on old state, and remove statuses that are newer.
            due = self._due_statuses(*scope(term.refresh(Deadline.after(_REFRESH_SECONDS))))
        due_now = ((key, record) for _, key, record in due if not self._was_logged_lately(key, record))
        for key, record in islice(due_now, _AT_ONCE):
            self.say(key, record)
        return {name for name, _, _ in due}

    def _due_statuses(self, state: ClusterState, status: StatusState) -> list[tuple[ConnectorName, str, StatusRecord]]:
        """Return the statuses to write, by connector and key."""
        due: list[tuple[ConnectorName, str, StatusRecord]] = []
        for connector in state.existing():
            record = self._status_of(connector)
            if status.connectors.get(connector.name) != record:
                due.append((connector.name, f"status-connector-{connector.name}", record))
        stale_keys = [(name, f"status-connector-{name}") for name in status.connectors if name not in state]
        stale_keys += [
            (name, key_of(name, topic)) for name in status.topics if name not in state for topic in status.topics[name]
        ]
        for task in status.tasks:
            connector = state.connector(task.connector)
            if connector.round_pending:
                continue  # the round still needs to know which attempts are at work
            if connector.config is None or connector.commit is None or task.task >= connector.commit.tasks:
                stale_keys.append((task.connector, f"status-task-{task}"))
        return [*due, *((name, key, StatusTombstone(key)) for name, key in stale_keys)]

    def _was_logged_lately(self, key: str, record: StatusRecord) -> bool:
        last, when = self._last_reports.get(key, (None, 0.0))
        return last == record and time.monotonic() - when <= _SAY_AGAIN_SECONDS

    def say(self, key: str, record: StatusRecord) -> None:
        """Write a status once, and again if it cannot be read from the topic after a while."""
        if not self._was_logged_lately(key, record):
            self._forget_old_reports()
            self._last_reports[key] = (record, time.monotonic())
            self._reporter.status(record)

    def _forget_old_reports(self) -> None:
        """Forget reports that decide nothing any more, or those of deleted connectors would never be forgotten."""
        if len(self._last_reports) < self._most_reports:
            return
        self._last_reports = {
            key: (record, when)
            for key, (record, when) in self._last_reports.items()
            if time.monotonic() - when <= _SAY_AGAIN_SECONDS
            or (isinstance(record, TaskStatus) and record.why == NO_SLOT)  # see `_first_report`
        }
        self._most_reports = max(_MOST_REPORTS, 2 * len(self._last_reports))

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


Scope = Callable[[ClusterState], tuple[ClusterState, StatusState]]
"""Returns what a pass looks at: of this newest state of the config topic, and of the status topic."""

log = logging.getLogger(__name__)

_WRITE_SECONDS = 8.0
_ROUNDS_AT_ONCE = 500
_SLICE_SECONDS = 0.03
_LONG_PASS_SECONDS = 0.05
_MOST_REST_SECONDS = 0.5
_QUIET_SECONDS, _MOST_QUIET_SECONDS = 0.25, 1.0
"""Between two passes while nothing has changed: what is due by time alone is due in seconds."""
_QUIET_FACTOR = 20.0
"""So many times as long as the last pass has taken, within these bounds."""
_BETWEEN_SLICES_SECONDS = 0.25
"""Of long sets of tasks, and of what a deleted one leaves: the rows of others' commands come behind theirs."""


class _Paced:
    """Something that is done again and again, with pauses."""

    def __init__(self) -> None:
        self._next_at = float("-inf")

    def is_due(self) -> bool:
        """Return whether it may be done now; if so, the next pause begins."""
        now = time.monotonic()
        if now < self._next_at:
            return False
        self._next_at = now + _BETWEEN_SLICES_SECONDS
        return True


class Reconciler:
    """The body of the loop, for one term. All methods are called on the leader's thread, unless they say otherwise."""

    def __init__(
        self,
        term: Term,
        group_id: str,
        worker: WorkerId,
        reporter: Reporter,
        rounds: RoundRunner,
        abandoned_transactions: AbandonedTransactions,
        instances: LeaderInstances,
        status: Callable[[], StatusState],
        settings: Mapping[str, str],
    ) -> None:
        """settings: the worker's."""
        self._term = term
        self._began = term.state.end
        self._group_id = group_id
        self._worker = worker
        self._reporter = reporter
        self._rounds = rounds
        self._abandoned_transactions = abandoned_transactions
        self._instances = instances
        self._status = status
        self._settings = settings
        delay_s = int(settings[REBALANCE_DELAY]) / 1000 if REBALANCE_DELAY in settings else None
        self._losses = LostAttempts(delay_s)
        self._work = WorkList(group_id, settings, delay_s)
        for name in instances.running():  # of an earlier term: neither topic may know the connector any more
            self._work.open(name)
        self._due: set[ConnectorName] = set()
        """The connectors for which this pass has found something that no decision shows."""
        self._has_warned = False
        self._members: list[LiveWorker] = []
        self._modes = ModeWatch(worker, reporter)
        self._task_requests = TaskRequests(instances.ask)
        self._live: set[tuple[WorkerId, Incarnation]] = set()
        self._unwritten: dict[ConnectorName, TaskSet] = {}
        """Task sets that are being written, a slice in each pass."""
        self._pass: Iterator[None] | None = None
        self._busy_seconds = 0.0
        self._next_pass_at = float("-inf")
        self._basis: tuple[object, object, object] = (None, None, None)
        self._quiet_until = float("-inf")
        self._next_slice, self._next_removal = _Paced(), _Paced()
        self.statuses = LeaderStatuses(worker, reporter, instances, status)

    def is_due(self, members: list[LiveWorker]) -> bool:
        """Return whether to do a step: something has changed since the last one, or that was a while ago."""
        state, status, members_then = self._basis
        is_same = self._term.state is state and self._status() is status and members == members_then
        is_halfway = self._pass is not None or bool(self._unwritten)
        return is_halfway or not is_same or time.monotonic() >= self._quiet_until

    def step(self, members: list[LiveWorker], waits: Callable[[], bool] = lambda: False) -> None:
        """Do one pass: handle what has finished, then start what is due.

        If a command `waits`, the pass stops after the current write, and the next call continues it. Each call does at
        least one part, so a steady stream of commands cannot block the later parts. After a pass that took long, since
        somebody has thousands of tasks, twice its time is left to the worker's other threads.
        """
        self._members = members
        self._live = {(member.worker, member.incarnation) for member in members}
        began = time.monotonic()
        if self._pass is None:
            if began < self._next_pass_at:
                self._quiet_until = self._next_pass_at
                return
            self._basis = self._term.state, self._status(), members  # a state that has changed is another object
            self._pass, self._busy_seconds = self._parts(), 0.0
        for _ in self._pass:
            if waits() and time.monotonic() >= began + _SLICE_SECONDS:
                self._busy_seconds += time.monotonic() - began
                return
        self._pass = None
        busy = self._busy_seconds + time.monotonic() - began
        self._quiet_until = time.monotonic() + min(max(_QUIET_SECONDS, _QUIET_FACTOR * busy), _MOST_QUIET_SECONDS)
        self._next_pass_at = time.monotonic() + (min(2 * busy, _MOST_REST_SECONDS) if busy > _LONG_PASS_SECONDS else 0)

    def _parts(self) -> Iterator[None]:
        """Do the parts of a pass, and yield after each. Commands may run in between, so each uses the newest state."""
        self._modes.look(self._members)
        yield from self._finish_rounds()
        yield from self._write_task_sets()
        self._begin_pass()
        state, status = self._scope(self._term.state)
        self._due |= self.statuses.give_up_silent(state, status)
        self._losses.note(state, status, self._members, time.monotonic())
        self._due |= self._task_requests.note(state, status, time.monotonic(), self._work.names)
        due = self._decide(self._term.state)
        if due.placements:
            self._place()
            yield
            due = self._decide(self._term.state)
        self._begin(due)
        yield
        for name in due.stale_connectors:
            yield from self._make_tasks(self._term.state.connector(name))
        if due.forgettable and self._next_removal.is_due():
            self._write(lambda newest: forget(self._scope(newest)[0]))
            yield
        if self._term.encryption.renewals(self._term.state):
            self._write(self._term.encryption.renewals)
            yield
        self._due |= self._tend_instances(self._scope(self._term.state)[0])
        self._due |= self.statuses.report(self._term, self._scope)
        self._end_pass()

    def _begin_pass(self) -> None:
        """Find out which connectors this pass looks at. For the others, nothing is due: it takes the time of what has
        changed, not of what exists.
        """
        self._due = set()
        self._note_instances()
        self._work.begin(
            self._term.state,
            self._status(),
            self._live,
            time.monotonic(),
            self._reporter.now_ms(),
            self._instances.running,
        )

    def _note_instances(self) -> None:
        """Look at the connectors about whose instances something has changed."""
        for name in self._instances.take_changes():
            self._work.open(name)
        if versions := self._instances.take_version_changes():
            for connector in self._work.state.existing():
                if version_key(connector.config or {}) in versions:
                    self._work.open(connector.name)

    def _scope(self, state: ClusterState) -> tuple[ClusterState, StatusState]:
        """Return what the pass looks at, as of the newest states."""
        self._note_instances()
        self._work.follow(state, self._status(), self._live, self._reporter.now_ms())
        return self._work.parts()

    def _end_pass(self) -> None:
        self._scope(self._term.state)
        names = self._work.settle(self._due, self._reporter.now_ms())
        if names and not self._has_warned:
            self._has_warned = True
            log.warning(
                "Something was due for %d connectors that the leader had not looked at, such as %s. It is done now. "
                "This is a defect of Ringfence: please report it, with this worker's log",
                len(names),
                names[0],
            )

    def _begin(self, due: Steps) -> None:
        """Start what other threads carry out."""
        state = self._term.state
        part, part_status = self._scope(state)
        self._end_abandoned(part, part_status)
        waits = statuses_without_slot(state, self._status(), due.unassigned_tasks, self._reporter.now_ms())
        self.statuses.say_without_slot(waits)
        for record in statuses_with_restart(part, part_status, self._settings):
            self._due.add(record.task.connector)
            self.statuses.say(f"status-task-{record.task}", record)
        for round_ in due.rounds:
            # A user waits for a generation of this term. Older ones are only due because the leader changed.
            request = state.connector(round_.connector).request
            if self._rounds.start(round_, self._busy, request, urgent=round_.generation >= self._began):
                self._report_round(round_, request, "fencing", "")

    def _make_tasks(self, connector: ConnectorState) -> Iterator[None]:
        if connector.config is None or not connector.tasks_stale or connector.name in self._unwritten:
            return
        if connector.target is TargetState.STOPPED:
            self._write(plan_tasks(connector.name, connector.config_offset, ()))
            yield
        else:
            self._instances.ask(connector)

    def _write(self, plan: Plan) -> None:
        self._term.write(plan, Deadline.after(_WRITE_SECONDS))

    def _finish_rounds(self) -> Iterator[None]:
        """Write all finished rounds in one transaction: after a restart of the platform there may be hundreds."""
        done: list[tuple[RunningRound, FenceResult]] = []
        for running in self._rounds.take_finished():
            try:
                done.append((running, running.result.result()))
            except FencingError as error:
                pause = self._rounds.record_failure(running.round, error)
                self._report_round(
                    running.round, running.request, "failed", f"{error}. It is tried again in {pause:g} s"
                )
        for first in range(0, len(done), _ROUNDS_AT_ONCE):
            self._write_counts(done[first : first + _ROUNDS_AT_ONCE])
            yield

    def _write_counts(self, done: Sequence[tuple[RunningRound, FenceResult]]) -> None:
        void: Mapping[ConnectorName, Conflict] = {}

        def counts(state: ClusterState) -> list[ConfigRecord]:
            nonlocal void
            records, void = finish_all([running.round for running, _ in done], state)
            return records

        self._write(counts)
        for running, result in done:
            round_ = running.round
            if round_.connector in void:
                self._report_round(round_, running.request, "cancelled", str(void[round_.connector]))
                continue
            for one in result.hanging:
                report_ended(self._reporter, round_.connector, one, "round")
            seconds = time.monotonic() - running.start_time
            self._report_round(round_, running.request, "done", result.message, result, seconds)

    def _report_round(
        self,
        round_: Round,
        request: RequestContext,
        stage: str,
        message: str,
        result: FenceResult | None = None,
        seconds: float = 0.0,
    ) -> None:
        producers = [
            {"id": one.transactional_id, "producer_id": one.producer_id, "epoch": one.epoch}
            for one in (result.producers if result else ())
        ]
        with working_for(request):
            self._reporter.event(
                "round",
                round_.connector,
                generation=round_.generation,
                stage=stage,
                tasks=round_.tasks,
                fenced=producers,
                credentials=result.whose if result else "",
                ms=int(seconds * 1000),
                message=message,
            )

    def _busy(self, round_: Round) -> bool:
        """Return whether tasks of the earlier generation still report to be at work. Any thread may call it."""
        return any(
            attempt.generation != round_.generation and (attempt.worker, attempt.incarnation) in self._live
            for attempt in self._status().at_work(round_.connector)
        )

    def _end_abandoned(self, state: ClusterState, status: StatusState) -> None:
        """Fence the ids of attempts that ended with an open transaction, unless a next attempt was just placed."""
        for result in self._abandoned_transactions.take_finished():
            for last in result.attempts:
                self._report_abandoned(last, result.trouble)
                if not result.trouble and last.ended:
                    self.statuses.say(f"status-task-{last.task}", replace(last, left_open=False))
        attempts = list(find_abandoned(state, status, self._live))
        self._due.update(last.task.connector for last in attempts)
        self._abandoned_transactions.start(attempts)

    def _report_abandoned(self, last: TaskStatus, trouble: str) -> None:
        stage = "its open transaction could not be ended" if trouble else "its open transaction was ended"
        message = trouble or "Its attempt left a transaction open, so the leader fenced its transactional id"
        attempt = {"generation": last.generation, "attempt": last.attempt, "worker": last.worker}
        self._reporter.event("task", last.task.connector, task=last.task.task, **attempt, stage=stage, message=message)

    def _write_task_sets(self) -> Iterator[None]:
        """Write the short sets, and a slice of a long one. In between, the thread serves its membership, commands and
        other parts.
        """
        for answer in self._instances.answers():
            self._unwritten[answer.connector] = answer
        for name, answer in list(self._unwritten.items()):
            if answer.tasks is not None:
                if not fits(answer.tasks):
                    if not self._next_slice.is_due():
                        continue
                    self._unwritten[name] = self._unwritten.pop(name)  # long sets take turns
                self._write(plan_tasks(name, answer.config_offset, answer.tasks))
                yield
            connector = self._term.state.connector(name)
            is_done = answer.tasks is None or is_written(connector, answer.config_offset, answer.tasks)
            if is_done and self._unwritten.get(name) is answer:
                del self._unwritten[name]

    def _decide(self, state: ClusterState) -> Steps:
        part, status = self._scope(state)
        return decide(
            part,
            status,
            self._members,
            self._group_id,
            self._losses.not_before,
            time.monotonic(),
            now_ms=self._reporter.now_ms(),
            settings=self._settings,
            held_until=self._losses.held_until,
            settled=self._work.settled,
        )

    def _place(self) -> None:
        def placements(state: ClusterState) -> list[ConfigRecord]:
            due = self._decide(state)
            self.statuses.restarting.update(due.restarting)
            return list(due.placements)

        before = self._term.state
        after, offset = self._term.write(placements, Deadline.after(_WRITE_SECONDS))
        if offset >= 0:  # otherwise another leader wrote the new records, and this one does not know it yet
            self.statuses.announce(before, after)

    def _tend_instances(self, state: ClusterState) -> set[ConnectorName]:
        """Have instances run for these connectors exactly if they need one. Return the connectors with a change."""
        changes = set()
        for name in self._work.names:
            connector = state.connector(name)
            if connector.config is None or connector.target is TargetState.STOPPED or connector.unreadable is not None:
                if self._instances.has(name):
                    changes.add(name)
                    self._instances.forget(name)
            elif not self._instances.runs(name, connector.config_offset):
                changes.add(name)
                self._instances.ask(connector)
        return changes

    def reconfigure(self, name: ConnectorName) -> None:
        """Handle a connector instance's request for new task configurations."""
        connector = self._term.state.connector(name)
        if connector.config is not None and connector.target is not TargetState.STOPPED:
            self._instances.ask(connector)
