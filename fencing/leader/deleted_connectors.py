"""Removes a deleted connector's records from the config topic. Otherwise it would keep some for every name ever used.

A tombstone is safe once the round of the deletion is done: every transactional id of the name is fenced, and no reader
lets an attempt run whose connector has no configuration. An attempt that slept until compaction had dropped the
tombstone is fenced, too, and ends itself (`fencing.task.config_view`). The task count record is kept if the name ever
had offsets outside of the worker's topic: a connector created with that name learns from it where they are.
"""

from itertools import islice
from typing import Final

from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import (
    ConfigRecord,
    PlacementRecord,
    TaskRecord,
    TombstonePrefix,
    TombstoneRecord,
)
from ringfence.fencing.topics.connector_state import ConnectorState

AT_ONCE: Final = 100
"""The maximum of names in one transaction, and of task numbers: after an upgrade, thousands may be due."""
_MAX_RECORDS: Final = 500


def find_forgettable(state: ClusterState) -> list[ConnectorName]:
    """Return deleted connectors with records that nobody needs, at most AT_ONCE."""
    due = (connector.name for connector in state.connectors.values() if tombstones(connector))
    return list(islice(due, AT_ONCE))


def tombstones(connector: ConnectorState) -> list[ConfigRecord]:
    """Return the records that remove what is left of a deleted connector; none while its round is pending.

    The commit record is removed before the count record, so a reader that stops between them sees no pending round.
    Of many tasks, the last ones come first, in transactions of their own: the next plan finds fewer.
    """
    if connector.config is not None or connector.unreadable is not None or connector.round_pending:
        return []
    records: list[ConfigRecord] = []
    first = max(0, connector.task_keys - AT_ONCE)
    for number in reversed(range(first, connector.task_keys)):
        task = TaskId(connector.name, number)
        records += [TaskRecord(task, None), PlacementRecord(task, None)]
    if first:
        return records
    if connector.commit is not None or records:
        records.append(TombstoneRecord(connector.name, TombstonePrefix.COMMIT))
    if connector.count is not None and connector.count.elsewhere is False:
        records += [
            TombstoneRecord(connector.name, TombstonePrefix.FENCING),
            TombstoneRecord(connector.name, TombstonePrefix.COUNT),
        ]
    return records


def forget(state: ClusterState) -> list[ConfigRecord]:
    """Plan the leader's next write."""
    records: list[ConfigRecord] = []
    for name in find_forgettable(state):
        records += tombstones(state.connector(name))
        if len(records) >= _MAX_RECORDS:
            break
    return records
