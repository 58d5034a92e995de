"""The records of a restored connector. Pure."""

from collections.abc import Container, Mapping, Sequence

from ringfence.fencing.ids import ConnectorName, Generation, parse_task_transactional_id
from ringfence.fencing.topics.config_records import ConfigRecord, ConnectorRecord, TargetStateRecord, TaskCountRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.recovery.backup_format import ConnectorCopy

NO_GENERATION_YET = Generation(0)
"""The generation in a restored count record: a round is pending, since the record at offset 0 is never a commit."""


def count_records(name: ConnectorName, tasks: int, target: Mapping[str, str]) -> list[ConfigRecord]:
    """Return records after which the next round fences this number of ids."""
    return [TaskCountRecord(name, tasks, None), TaskCountRecord(name, tasks, NO_GENERATION_YET, target)]


def connector_records(name: ConnectorName, one: ConnectorCopy, tasks: int, *, stop: bool) -> list[ConfigRecord]:
    """Return its configuration without tasks, which the next leader makes. A round is pending before they start."""
    state = TargetState.STOPPED if stop else one.state
    # Also if the account may write to all topics now: a later limit on the account must reach the connector.
    grant = [TopicGrantRecord(name, one.topics, one.saved_by)] if one.topics or one.saved_by else []
    return [
        *count_records(name, tasks, one.target),
        *grant,
        TargetStateRecord(name, state),
        ConnectorRecord(name, one.config),
    ]


def count_ids(group_id: str, names: Container[str], fenced: Sequence[str]) -> dict[str, int]:
    """Return the number of ids for each connector: from the highest task number that a coordinator knows."""
    counts: dict[str, int] = {}
    for one in fenced:
        task = parse_task_transactional_id(group_id, one)
        if task is not None and task.connector in names:
            counts[task.connector] = max(counts.get(task.connector, 0), task.task + 1)
    return counts
