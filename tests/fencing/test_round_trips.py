"""Each field of each record is read back as it was written. The records are made from the types of their fields."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import Endpoint
from ringfence.connectors.sdk.worker_limits import MAX_TASKS
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics import config_records, status
from ringfence.fencing.topics.active_topics import TopicStatus
from ringfence.fencing.topics.config_record import ConfigRecord
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    PlacementRecord,
    SessionKeyRecord,
    TaskCountRecord,
    TaskRecord,
)
from ringfence.fencing.topics.status import ConnectorStatus, StatusRecord, TaskStatus
from ringfence.fencing.topics.status_entry import StatusEntry
from ringfence.fencing.topics.topic_ids import TopicIds
from tests.support.examples import examples
from tests.support.strategies import NAME, record_strategy

QUICK = settings(
    max_examples=examples(60), phases=[Phase.generate, Phase.shrink], suppress_health_check=[HealthCheck.too_slow]
)  # without an explanation, which takes minutes
TOPIC = NAME.filter(lambda name: ":" not in name)
TASK = st.builds(TaskId, NAME.map(ConnectorName), st.integers(0, 999))
SOME_TEXT = st.none() | NAME
"""In a status nothing and an empty text are one."""
TASKS = st.integers(0, MAX_TASKS)
FIELDS: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    TopicStatus: {"topic": TOPIC},
    ConnectorStatus: {"trace": SOME_TEXT, "version": SOME_TEXT},
    TaskRecord: {"task": TASK},
    CommitRecord: {"tasks": TASKS},
    TaskCountRecord: {"tasks": TASKS},
    PlacementRecord: {"task": TASK},
    TaskStatus: {
        "task": TASK,
        "trace": SOME_TEXT,
        "version": SOME_TEXT,
        "endpoint": st.none() | record_strategy(Endpoint, {"port": st.integers(1, 65535)}),
    },
}
"""Fields whose values their types do not tell."""


def strategy(kind: type[Any]) -> st.SearchStrategy[Any]:
    if kind is SessionKeyRecord:  # it holds the key in one of two forms
        none = st.just("")
        return record_strategy(kind, {"ciphertext": none}) | record_strategy(kind, {"key": none, "ciphertext": NAME})
    return record_strategy(kind, FIELDS.get(kind, {}))


def form(record: ConfigRecord) -> ConfigRecord:
    """The record with what its form holds. A tombstone holds its key only, Kafka Connect's count its number only."""
    if record.to_value() is None or (isinstance(record, TaskCountRecord) and record.generation is None):
        shortened = config_records.decode(*config_records.encode(record))
        assert config_records.encode(shortened) == config_records.encode(record)
        return shortened
    return record


@pytest.mark.parametrize("kind", config_records.RECORD_TYPES, ids=lambda kind: kind.__name__)
@QUICK
@given(data=st.data())
def test_each_field_of_a_config_record_is_read_back(kind: type[ConfigRecord], data: st.DataObject) -> None:
    record = data.draw(strategy(kind))
    assert config_records.decode(*config_records.encode(record)) == form(record)


@pytest.mark.parametrize("kind", [*status.RECORD_TYPES, TopicIds], ids=lambda kind: kind.__name__)
@QUICK
@given(data=st.data())
def test_each_field_of_a_status_is_read_back(kind: type[StatusEntry | TopicIds], data: st.DataObject) -> None:
    record: StatusRecord = data.draw(strategy(kind))
    assert status.decode(*status.encode(record)) == record
