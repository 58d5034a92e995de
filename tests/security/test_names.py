"""Names that no Kafka request or database column can hold are refused, and ignored where a topic has them already."""

import json

import pytest

from ringfence.connectors.api import ConfigException
from ringfence.connectors.common_settings import is_connector_name
from ringfence.connectors.sdk.names import MAX_NAME_BYTES
from ringfence.fencing.errors import Invalid
from ringfence.fencing.ids import ConnectorName, TaskId, task_transactional_id
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.offsets.source_offsets import encode_key
from ringfence.fencing.topics import events, status
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import fold
from ringfence.fencing.topics.config_records import (
    RECORD_TYPES,
    CommitRecord,
    ConnectorRecord,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    UnknownKey,
    decode,
    encode,
)
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import StatusState, StatusTombstone, TopicStatus
from ringfence.projection import offset_rows
from ringfence.worker_config import WorkerConfig
from tests.support.topics import connector_status, task_status

LONGEST = ConnectorName("n" * MAX_NAME_BYTES)
LONG = [ConnectorName(name) for name in ("n" * (MAX_NAME_BYTES + 1), "ü" * 125, "n" * 20_000, "n" * 40_000)]


def test_a_name_has_at_most_as_many_bytes_as_a_topics() -> None:
    for name in (LONGEST, "n", "ü" * 124):
        is_connector_name("name", name)
    for name in LONG:
        with pytest.raises(ConfigException, match="249 at most") as refused:
            is_connector_name("name", name)
        assert len(str(refused.value)) < 600


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_no_address_can_contain_is_refused(name: str) -> None:
    """`/connectors/../config` is another resource, and a list that somebody walks through would end there."""
    with pytest.raises(ConfigException, match="no address can contain"):
        is_connector_name("name", name)


def test_the_longest_names_make_a_transactional_id_that_kafka_takes() -> None:
    assert len(task_transactional_id("g" * MAX_NAME_BYTES, TaskId(LONGEST, 10**9 - 1))) < 1000
    with pytest.raises(Invalid, match=r"group\.id"):
        WorkerConfig.from_environment({"CONNECT_GROUP_ID": "g" * (MAX_NAME_BYTES + 1)})


@pytest.mark.parametrize("name", LONG, ids=lambda name: str(len(name)))
def test_a_record_with_a_long_name_is_ignored_wherever_it_is_read(name: ConnectorName) -> None:
    written = [
        ConnectorRecord(name, {"a": "b"}),
        TaskRecord(TaskId(name, 0), {"a": "b"}),
        CommitRecord(name, 1),
        TargetStateRecord(name, TargetState.PAUSED),
        TaskCountRecord(name, 1, None),
    ]
    for offset, record in enumerate(written):
        decoded = decode(*encode(record))
        assert isinstance(decoded, UnknownKey), record
        assert len(decoded.key) <= MAX_NAME_BYTES + 50
        key, value = encode(record)
        state = fold(ClusterState(), [LogRecord(0, offset, key, value, 0)], "t")
        assert not state.connectors, "no round is due for it"
    assert offset_rows.parse_key(encode_key(name, {"p": 1})) is None
    assert events.decode(json.dumps({"type": "task", "connector": name}).encode()) is None


def test_every_type_of_config_record_ignores_a_long_name() -> None:
    for cls in RECORD_TYPES:
        for prefix in cls.PREFIXES:
            key = f"{prefix}{'n' * 40_000}-0".encode()
            assert isinstance(decode(key, b"{}"), UnknownKey), prefix


@pytest.mark.parametrize("name", LONG[2:], ids=lambda name: str(len(name)))
def test_a_status_with_a_long_name_is_ignored(name: ConnectorName) -> None:
    for record in (
        connector_status(name, status.State.RUNNING),
        task_status(name, 0, status.State.RUNNING, 1),
        TopicStatus(name, "t", 0, 0),
        StatusTombstone(f"status-connector-{name}"),
    ):
        decoded = status.decode(*status.encode(record))
        assert decoded is None
        assert status.apply(StatusState(), decoded) == StatusState()


def test_the_longest_name_is_read_back() -> None:
    for record in (ConnectorRecord(LONGEST, {"a": "b"}), TaskRecord(TaskId(LONGEST, 99_999), {"a": "b"})):
        assert decode(*encode(record)) == record
    told = TopicStatus(LONGEST, "t" * 249, 0, 0)
    assert status.decode(*status.encode(told)) == told
