"""The config topic's records, both ways: Kafka Connect's forms are read and written, nothing is guessed."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import Signal
from ringfence.connectors.sdk.worker_limits import MAX_TASKS
from ringfence.fencing.errors import Unreadable
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.topics.active_topics import TopicsResetRecord
from ringfence.fencing.topics.config_record import ConnectorScopedRecord
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    DrainRecord,
    PlacementRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    UnknownKey,
    connector_of,
    decode,
    encode,
)
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.fencing.topics.signals import SignalsRecord
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.fencing.topics.topic_ids import Topic, TopicIds

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).map(ConnectorName)
tasks = st.builds(TaskId, names, st.integers(0, 99))
configs = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
numbers = st.integers(0, 2**40)
counts = st.integers(0, MAX_TASKS)
signals = st.builds(Signal, numbers, st.text(), st.dictionaries(st.text(), st.text()))
places = st.lists(st.tuples(st.text(), numbers, numbers, numbers)).map(tuple)
records: st.SearchStrategy[ConfigRecord] = st.one_of(
    st.builds(ConnectorRecord, names, st.none() | configs),
    st.builds(DrainRecord, names, numbers.map(str), numbers) | st.builds(DrainRecord, names, st.none()),
    st.builds(TaskRecord, tasks, st.none() | configs),
    st.builds(CommitRecord, names, counts),
    st.builds(TargetStateRecord, names, st.none() | st.sampled_from(TargetState)),
    st.builds(RestartRecord, names, st.booleans(), st.booleans()),
    st.builds(TaskCountRecord, names, counts, st.none()),
    st.builds(TaskCountRecord, names, counts, numbers.map(Generation), configs),
    st.builds(
        PlacementRecord,
        tasks,
        st.text(min_size=1).map(WorkerId),
        st.text().map(Incarnation),
        numbers,
        numbers.map(Generation),
    ),
    st.builds(PlacementRecord, tasks, st.none()),
    st.builds(TopicsResetRecord, names, st.none() | numbers),
    st.builds(ConnectorLevelRecord, names, st.text(), numbers),
    st.builds(TopicGrantRecord, names, st.none())
    | st.builds(TopicGrantRecord, names, st.lists(st.lists(st.text()).map(tuple)).map(tuple), st.text()),
    st.builds(SignalsRecord, names, st.none() | st.lists(signals).map(tuple)),
    st.builds(SweepRequestRecord, names, st.none()) | st.builds(SweepRequestRecord, names, places, numbers),
    st.builds(LoggerRecord, st.text(), st.none() | st.text()),
    st.builds(TopicIds, numbers, st.dictionaries(st.text(), st.builds(Topic, st.text(), st.text()))),
    st.builds(SessionKeyRecord, st.text(), st.text(), numbers),
)


@given(records)
def test_what_is_written_is_read_back(record: ConfigRecord) -> None:
    assert decode(*encode(record)) == record


@given(records)
def test_a_key_tells_its_connector_without_its_value(record: ConfigRecord) -> None:
    match record:
        case TaskRecord(task, _) | PlacementRecord(task):
            expected: str | None = task.connector
        case RestartRecord(connector) | ConnectorRecord(connector) | CommitRecord(connector):
            expected = connector
        case ConnectorScopedRecord():
            expected = record.owner
        case _:
            expected = None
    assert connector_of(encode(record)[0]) == expected


@given(st.none() | st.binary(), st.none() | st.binary())
def test_no_bytes_crash_the_reader(key: bytes | None, value: bytes | None) -> None:
    with contextlib.suppress(Unreadable):
        decode(key, value)
    connector_of(key or b"")


@pytest.mark.parametrize(
    "key, value, record",
    [
        ("connector-a", {"properties": {"k": "v"}}, ConnectorRecord(ConnectorName("a"), {"k": "v"})),
        ("connector-a-1", {"properties": {}}, ConnectorRecord(ConnectorName("a-1"), {})),
        ("connector-a", None, ConnectorRecord(ConnectorName("a"), None)),
        ("task-a-1-0", {"properties": {"k": "v"}}, TaskRecord(TaskId(ConnectorName("a-1"), 0), {"k": "v"})),
        ("task-a-1", {"properties": {}}, TaskRecord(TaskId(ConnectorName("a"), 1), {})),
        ("task-task-0", {"properties": {}}, TaskRecord(TaskId(ConnectorName("task"), 0), {})),
        ("commit-a-1", {"tasks": 3}, CommitRecord(ConnectorName("a-1"), 3)),
        ("target-state-a", {"state": "STARTED"}, TargetStateRecord(ConnectorName("a"), TargetState.RUNNING)),
        ("target-state-a", {"state": "PAUSED"}, TargetStateRecord(ConnectorName("a"), TargetState.PAUSED)),
        (
            "target-state-a",
            {"state": "PAUSED", "state.v2": "STOPPED"},
            TargetStateRecord(ConnectorName("a"), TargetState.STOPPED),
        ),
        (
            "target-state-a",
            {"state": "PAUSED", "state.v2": None},
            TargetStateRecord(ConnectorName("a"), TargetState.PAUSED),
        ),
        ("target-state-a", None, TargetStateRecord(ConnectorName("a"), None)),
        (
            "restart-connector-a",
            {"include-tasks": True, "only-failed": False},
            RestartRecord(ConnectorName("a"), True, False),
        ),
        ("tasks-fencing-a-1", {"task-count": 5}, TaskCountRecord(ConnectorName("a-1"), 5, None)),
        (
            "tasks-count-a",
            {"tasks": 5, "generation": 9, "target": {"bootstrap.servers": "b:9"}},
            TaskCountRecord(ConnectorName("a"), 5, Generation(9), {"bootstrap.servers": "b:9"}),
        ),
        (
            "session-key",
            {"key": "a2V5", "algorithm": "HmacSHA256", "creation-timestamp": 7},
            SessionKeyRecord("a2V5", "HmacSHA256", 7),
        ),
    ],
)
def test_kafka_connects_own_records_are_read(key: str, value: object, record: ConfigRecord) -> None:
    assert decode(key.encode(), None if value is None else json.dumps(value).encode()) == record


def test_a_stopped_connector_is_paused_for_readers_that_know_no_stop() -> None:
    key, value = encode(TargetStateRecord(ConnectorName("a"), TargetState.STOPPED))
    assert key == b"target-state-a"
    assert json.loads(value or b"") == {"state": "PAUSED", "state.v2": "STOPPED"}


def test_the_count_is_written_in_kafka_connects_form_and_in_ours() -> None:
    name = ConnectorName("a")
    assert encode(TaskCountRecord(name, 2, None)) == (b"tasks-fencing-a", b'{"task-count":2}')
    key, value = encode(TaskCountRecord(name, 2, Generation(41), {"client.id": "x"}))
    assert key == b"tasks-count-a"
    assert json.loads(value or b"") == {"tasks": 2, "generation": 41, "target": {"client.id": "x"}}


def test_values_that_are_no_strings_become_strings() -> None:
    raw = b'{"properties": {"number": 5, "flag": true, "list": [1], "nothing": null}}'
    decoded = decode(b"connector-a", raw)
    assert decoded == ConnectorRecord(ConnectorName("a"), {"number": "5", "flag": "true", "list": "[1]"})


@pytest.mark.parametrize(
    "key, value",
    [
        ("connector-a", b"not json"),
        ("connector-a", b"[]"),
        ("connector-a", b"{}"),
        ("connector-a", b'{"properties": 5}'),
        ("connector-a", b"\xff\xfe"),
        ("connector-a", b"[" * 100_000),
        ("task-a-0", b'{"no": "properties"}'),
        ("commit-a", b'{"tasks": -1}'),
        ("commit-a", b'{"tasks": true}'),
        ("commit-a", b'{"tasks": "3"}'),
        ("commit-a", b"{}"),
        ("target-state-a", b'{"state": "DANCING"}'),
        ("target-state-a", b"{}"),
        ("tasks-fencing-a", b'{"tasks": 1}'),
        ("tasks-count-a", b'{"tasks": 1, "generation": "x"}'),
        ("placement-a-0", b'{"worker": "w"}'),
        ("session-key", b"{}"),
    ],
)
def test_a_known_key_with_a_value_that_cannot_be_read_says_so(key: str, value: bytes) -> None:
    with pytest.raises(Unreadable, match=key):
        decode(key.encode(), value)


@pytest.mark.parametrize("key", [b"", b"connector-", b"task-a", b"task--0", b"whatever", b"\xff", b"placement-a-x"])
def test_an_unknown_key_is_kept_as_unknown(key: bytes) -> None:
    assert isinstance(decode(key, b"anything"[:0] or b"{}"), UnknownKey)


def test_a_task_number_of_a_thousand_digits_is_no_task_of_ours() -> None:
    key = b"task-a-" + b"9" * 5000
    assert isinstance(decode(key, b"{}"), UnknownKey)
    assert connector_of(key) is None


def test_no_record_with_an_unknown_key_is_ever_written() -> None:
    with pytest.raises(ValueError, match="never written"):
        encode(UnknownKey("mine"))
