"""The commands to pause, resume, stop, restart and delete a connector, and to signal its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringfence.engine.leader import task_slices
from ringfence.engine.leader.commands.command import (
    RECONFIGURED,
    OnConnector,
    Plan,
    Records,
    WritingCommand,
    require_existing,
)
from ringfence.engine.leader.task_slices import TaskConfigs
from ringfence.fencing.ids import ConnectorName, Generation, TaskId
from ringfence.fencing.leader.next_placement import status_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TargetStateRecord,
    tombstones_of,
)
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.signals import SignalsRecord, add_signal
from ringfence.fencing.topics.status import State, StatusState
from ringfence.requests.request import Refusal, always

if TYPE_CHECKING:
    from ringfence.engine.leader.command_service import CommandContext


def require_readable(connector: ConnectorState) -> dict[str, str]:
    """Return the configuration, to write it again. Raises `Refusal` if the newest record cannot be read."""
    if connector.unreadable is not None:
        raise Refusal(409, f"Connector {connector.name}: {connector.unreadable}")
    return dict(connector.config or {})


@dataclass(frozen=True)
class Pause(OnConnector, WritingCommand[None]):
    """The tasks commit their open transactions and wait. A stopped connector gets tasks again, for a resume."""

    name = "pause"

    def records(self, state: ClusterState) -> Records:
        connector = require_existing(state, self.target, f"Unknown connector {self.connector}")
        if connector.target is TargetState.PAUSED:
            return []
        records: list[ConfigRecord] = [TargetStateRecord(self.target, TargetState.PAUSED)]
        if connector.target is TargetState.STOPPED:
            return [*records, ConnectorRecord(self.target, require_readable(connector))]
        return records


@dataclass(frozen=True)
class Resume(OnConnector, WritingCommand[None]):
    name = "resume"
    starts = True

    def plan(self, context: "CommandContext") -> Plan:
        now = context.leader.state().connector(self.target)
        makes = now.config is not None and now.target is TargetState.STOPPED
        return plan_resume(
            self.target, context.make_tasks(self.target, now.config or {}, now.topic_grant) if makes else None
        )


def plan_resume(name: ConnectorName, tasks: TaskConfigs | None) -> Plan:
    """Run. tasks: those of a stopped connector, which has none; None leaves them to the reconcile loop."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Unknown connector {name}")
        if connector.target is TargetState.RUNNING:
            return []
        records: list[ConfigRecord] = [TargetStateRecord(name, TargetState.RUNNING)]
        if connector.target is TargetState.STOPPED:
            if (few := task_slices.at_once(tasks)) is not None:
                return [*records, *task_slices.whole_set(name, few)]
            # Written again, so that it is newer than the empty task set, and the tasks are requested.
            return [*records, ConnectorRecord(name, require_readable(connector))]
        return records

    return plan


@dataclass(frozen=True)
class Stop(OnConnector, WritingCommand[None]):
    """An empty generation, whose round fences the tasks of the last one (KIP-875).

    Answered when nothing of the old generation can commit.
    """

    name = "stop"

    def records(self, state: ClusterState) -> Records:
        connector = require_existing(state, self.target, f"Unknown connector {self.connector}")
        if connector.target is TargetState.STOPPED and not connector.tasks_stale:
            return []
        return [TargetStateRecord(self.target, TargetState.STOPPED), CommitRecord(self.target, 0)]

    def awaits_round(self) -> bool:
        return True


@dataclass(frozen=True)
class Delete(OnConnector, WritingCommand[None]):
    """An empty generation and the tombstones at once. The round that is then due survives a new leader. Where the last
    generation is empty, and its round is done, none is due.

    Answered when nothing of the old generation can commit.
    """

    name = "delete"

    def records(self, state: ClusterState) -> Records:
        name = self.target
        connector = require_existing(state, name, f"Connector {name} not found")
        return [
            *([] if _is_empty_and_fenced(connector) else [CommitRecord(name, 0)]),
            TargetStateRecord(name, None),
            ConnectorRecord(name, None),
            *tombstones_of(connector),
        ]

    def awaits_round(self) -> bool:
        return True


def _is_empty_and_fenced(connector: ConnectorState) -> bool:
    """Return whether the round of a deletion would have nothing to do: the last one has fenced all before the empty
    generation, and the connector never had offsets outside of the worker's topic. Else there is an id under which they
    are altered, and the count record stays, without secrets.
    """
    commit, count = connector.commit, connector.count
    if commit is None or count is None or connector.round_pending:
        return False
    return not commit.tasks and not count.tasks and count.elsewhere is False


@dataclass(frozen=True)
class Restart(OnConnector, WritingCommand[None]):
    """Restart the connector's instance, and with `include_tasks` its tasks; only_failed: only what has failed."""

    name = "restart"
    include_tasks: bool = always(False)
    only_failed: bool = always(False)
    reason: str = ""

    def plan(self, context: "CommandContext") -> Plan:
        leader, status = context.leader, context.leader.statuses()
        connector = leader.state().connector(self.target)
        if connector.config is not None:
            leader.mark_restarting(
                self.target, tasks_to_restart(connector, self.include_tasks, self.only_failed, status)
            )
            trace = leader.instances.trace_of(self.target, connector.config_offset)
            if not self.only_failed or trace is not None:
                leader.instances.restart(self.target)
        return plan_restart(self.target, self.include_tasks, self.only_failed, status)


def plan_restart(name: ConnectorName, tasks: bool, only_failed: bool, status: StatusState) -> Plan:
    """Place a new attempt of each chosen task on its worker; of no task if only the connector instance restarts."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Unknown connector: {name}")
        return [_next_attempt(connector, n) for n in tasks_to_restart(connector, tasks, only_failed, status)]

    return plan


def tasks_to_restart(connector: ConnectorState, tasks: bool, only_failed: bool, status: StatusState) -> list[int]:
    """Return the numbers of the tasks to restart. tasks: whether to restart tasks at all; only_failed: only those."""
    if not tasks:
        return []
    return [
        n
        for n, placement in sorted(connector.placements.items())
        if not only_failed or _has_failed(status, TaskId(connector.name, n), connector)
    ]


def _has_failed(status: StatusState, task: TaskId, connector: ConnectorState) -> bool:
    task_status = status_of(status, task, connector.placements.get(task.task))
    return task_status is not None and task_status.state is State.FAILED


def _next_attempt(connector: ConnectorState, task: int) -> PlacementRecord:
    old = connector.placements[task]
    return PlacementRecord(
        TaskId(connector.name, task),
        old.worker,
        old.incarnation,
        old.attempt + 1,
        old.generation,
        mode=old.mode,
        after=old.after,
    )


@dataclass(frozen=True)
class RestartTask(OnConnector, WritingCommand[None]):
    """Place a new attempt of one task (KIP-618). Its count of automatic restarts starts at 0."""

    name = "restart_task"
    task: int
    reason: str = ""

    def plan(self, context: "CommandContext") -> Plan:
        context.leader.mark_restarting(self.target, [self.task])
        return self.plan_for(context.leader.state().connector(self.target).generation)

    def plan_for(self, expected: Generation | None) -> Plan:
        """Return the plan, which is refused with 404 if the task no longer exists, and with 409 if the connector was
        changed since. expected: the generation when the request arrived.
        """

        def plan(state: ClusterState) -> Records:
            connector = require_existing(state, self.target, f"Unknown connector: {self.connector}")
            if connector.commit is None or self.task >= connector.commit.tasks:
                raise Refusal(404, f"Unknown task: {self.connector}-{self.task}")
            if connector.tasks_stale or expected not in (None, connector.generation):
                raise Refusal(409, RECONFIGURED, retry=True)
            if self.task not in connector.placements:
                return []  # not placed yet: it starts anyway
            return [_next_attempt(connector, self.task)]

        return plan


@dataclass(frozen=True)
class SendSignal(OnConnector, WritingCommand[None]):
    """Send the connector's tasks a signal: kind and data as its plugin expects them. Tasks that do not run now read it
    when they start.
    """

    name = "send_signal"
    kind: str
    data: Mapping[str, object]

    def plan(self, context: "CommandContext") -> Plan:
        now_ms = context.reporter.now_ms()

        def plan(state: ClusterState) -> Records:
            connector = require_existing(state, self.target, f"Connector {self.connector} not found")
            return [SignalsRecord(self.target, add_signal(connector.signals, self.kind, self.data, now_ms))]

        return plan

    def note(self) -> str:
        collections = self.data.get("data-collections")
        return " ".join([self.kind, *map(str, collections if isinstance(collections, list | tuple) else ())])
