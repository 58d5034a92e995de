"""What the config topic may forget of a deleted connector: else it keeps some records of every name that was ever used.

A tombstone is safe once the round of the deletion is done: every transactional id of the name is fenced, and no reader
lets an attempt run whose connector has no configuration. Whoever slept so long that compaction has taken the tombstone,
too, is fenced all the same, and ends by itself (`fencing.task.view`). The task count record is kept where the name ever
had its offsets outside of the worker's topic: it says where they are to a connector that is created under that name.
"""

from itertools import islice
from typing import Final

from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import (
    ConfigRecord,
    Forgotten,
    ForgottenRecord,
    PlacementRecord,
    TaskRecord,
)
from ringfence.fencing.topics.connector_state import ConnectorState

AT_ONCE: Final = 200
"""Names in one transaction: after an upgrade thousands may be due."""


def find_forgettable(state: ClusterState) -> list[ConnectorName]:
    """Deleted connectors of which something is left that nobody needs; at most AT_ONCE."""
    due = (connector.name for connector in state.connectors.values() if tombstones(connector))
    return list(islice(due, AT_ONCE))


def tombstones(connector: ConnectorState) -> list[ConfigRecord]:
    """The records that remove what is left of a deleted connector; none while its round is pending.

    The commit's comes before the count's: a reader that stops between them sees no round that is due.
    """
    if connector.config is not None or connector.unreadable is not None or connector.round_pending:
        return []
    found: list[ConfigRecord] = []
    for number in range(connector.task_keys):
        task = TaskId(connector.name, number)
        found += [TaskRecord(task, None), PlacementRecord(task, None)]
    if connector.commit is not None or found:
        found.append(ForgottenRecord(connector.name, Forgotten.COMMIT))
    if connector.count is not None and connector.count.elsewhere is False:
        found += [
            ForgottenRecord(connector.name, Forgotten.FENCING),
            ForgottenRecord(connector.name, Forgotten.COUNT),
        ]
    return found


def forget(state: ClusterState) -> list[ConfigRecord]:
    """The plan of the leader's write."""
    return [record for name in find_forgettable(state) for record in tombstones(state.connector(name))]
