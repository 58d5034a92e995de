"""The plans of restarts: new attempts of the same tasks on the same workers. Pure, like `plans`."""

from ringfence.engine.leader.command_plans import RECONFIGURED, Plan, Records, require_existing
from ringfence.fencing.ids import ConnectorName, Generation, TaskId
from ringfence.fencing.leader.next_placement import status_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import PlacementRecord
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.status import State, StatusState
from ringfence.requests.request import Refusal


def restart(name: ConnectorName, tasks: bool, only_failed: bool, status: StatusState) -> Plan:
    """Place a new attempt of each chosen task on its worker; of no task if only the connector instance restarts."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Unknown connector: {name}")
        return [_again(connector, n) for n in tasks_to_restart(connector, tasks, only_failed, status)]

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


def restart_task(name: ConnectorName, task: int, expected: Generation | None = None) -> Plan:
    """Place a new attempt of one task (KIP-618). Its count of automatic restarts starts at 0.

    expected: the generation when the request arrived. Refused with 404 if the task no longer exists, and with 409 if
    the connector was changed since.
    """

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Unknown connector: {name}")
        if connector.commit is None or task >= connector.commit.tasks:
            raise Refusal(404, f"Unknown task: {name}-{task}")
        if connector.tasks_stale or expected not in (None, connector.generation):
            raise Refusal(409, RECONFIGURED, retry=True)
        if task not in connector.placements:
            return []  # not placed yet: it starts anyway
        return [_again(connector, task)]

    return plan


def _again(connector: ConnectorState, task: int) -> PlacementRecord:
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
