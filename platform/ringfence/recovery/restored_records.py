"""The records of a restored connector. Pure."""

from collections.abc import Container, Mapping, Sequence

from ringfence.fencing.ids import ConnectorName, Generation, parse_task_transactional_id
from ringfence.fencing.topics.config_records import ConfigRecord, ConnectorRecord, TargetStateRecord, TaskCountRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.recovery.copies import ConnectorCopy

NO_GENERATION_YET = Generation(0)
"""Of a restored count record: a round is due, since the record at offset 0 is never a commit."""


def count_records(name: ConnectorName, tasks: int, target: Mapping[str, str]) -> list[ConfigRecord]:
    """So many ids are still to be fenced by the next round."""
    return [TaskCountRecord(name, tasks, None), TaskCountRecord(name, tasks, NO_GENERATION_YET, target)]


def connector_records(name: ConnectorName, one: ConnectorCopy, tasks: int, *, stop: bool) -> list[ConfigRecord]:
    """Its configuration without a task set, which the next leader makes; a round is due before its tasks start."""
    state = TargetState.STOPPED if stop else one.state
    grant = [TopicGrantRecord(name, one.topics, one.saved_by)] if one.topics else []
    return [
        *count_records(name, tasks, one.target),
        *grant,
        TargetStateRecord(name, state),
        ConnectorRecord(name, one.config),
    ]


def count_ids(group_id: str, names: Container[str], fenced: Sequence[str]) -> dict[str, int]:
    """For each connector, how many of its ids there may be: from the highest task number that a coordinator knows."""
    counts: dict[str, int] = {}
    for one in fenced:
        task = parse_task_transactional_id(group_id, one)
        if task is not None and task.connector in names:
            counts[task.connector] = max(counts.get(task.connector, 0), task.task + 1)
    return counts
