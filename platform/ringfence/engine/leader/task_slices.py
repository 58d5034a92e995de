"""Divides a set of task records into transactions of bounded size, between which the leader serves others. Pure.

The commit record is the atom, as in Kafka Connect: task records before it have no effect, for any reader, until it is
there. So they may come in earlier transactions. What is still to be written follows from the state alone, so it does
not matter who has written the rest: after a change of the leader, or after an unknown outcome, the next slice is right.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import CommitRecord, ConfigRecord, TaskRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState

MAX_RECORDS: Final = 100
MAX_BYTES: Final = 512 * 1024
"""Of one transaction, about; a single larger record is a slice of its own."""

TaskConfigs = Sequence[Mapping[str, str]]


def fits(tasks: TaskConfigs) -> bool:
    """Return whether the set is written in one transaction, with the command that asks for it."""
    return len(tasks) <= MAX_RECORDS and sum(map(_size, tasks)) <= MAX_BYTES


def at_once(tasks: TaskConfigs | None) -> TaskConfigs | None:
    """Return the tasks, if they are few enough to be written with the command: the reconcile loop slices the others."""
    return tasks if tasks is None or fits(tasks) else None


def whole_set(name: ConnectorName, tasks: TaskConfigs) -> list[ConfigRecord]:
    """Return all records of the set, with the commit record."""
    records: list[ConfigRecord] = [TaskRecord(TaskId(name, n), config) for n, config in enumerate(tasks)]
    return [*records, CommitRecord(name, len(tasks))]


def plan_tasks(
    name: ConnectorName, config_offset: int, tasks: TaskConfigs
) -> Callable[[ClusterState], list[ConfigRecord]]:
    """Write the tasks of an unchanged configuration if they differ from the present ones, or if those are missing.

    Many tasks need several writes of this plan, until `is_written`.
    """

    def plan(state: ClusterState) -> list[ConfigRecord]:
        connector = state.connector(name)
        if connector.config is None or connector.config_offset != config_offset:
            return []
        if connector.target is TargetState.STOPPED:
            return whole_set(name, ()) if connector.tasks_stale else []
        if is_written(connector, config_offset, tasks):
            return []
        return next_slice(connector, tasks)

    return plan


def next_slice(connector: ConnectorState, tasks: TaskConfigs) -> list[ConfigRecord]:
    """Return the records of the next transaction. The last one ends with the commit record.

    A record of an interrupted set is used again if it says the same, and is newer than the connector's configuration.
    """
    records: list[ConfigRecord] = []
    size = 0
    for number, config in enumerate(tasks):
        pending = connector.pending.get(number)
        if pending is not None and pending.offset > connector.config_offset and pending.config == config:
            continue
        size += _size(config)
        if records and (len(records) == MAX_RECORDS or size > MAX_BYTES):
            return records
        records.append(TaskRecord(TaskId(connector.name, number), config))
    return [*records, CommitRecord(connector.name, len(tasks))]


def is_written(connector: ConnectorState, config_offset: int, tasks: TaskConfigs) -> bool:
    """Return whether nothing of the set is to be written any more: it is there, or nobody wants it now."""
    if connector.config is None or connector.config_offset != config_offset or connector.target is TargetState.STOPPED:
        return True
    current = [connector.tasks[n].config for n in sorted(connector.tasks)]
    return not connector.tasks_stale and current == [dict(task) for task in tasks]


def _size(config: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in config.items())
