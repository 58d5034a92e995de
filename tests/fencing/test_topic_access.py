"""Which topics take no records: known by name from the config topic, and asked for again whenever that changes."""

import pytest

from ringfence.connectors.api import SourceRecord
from ringfence.connectors.api.errors import ConnectorError
from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.records.writable_topics import OffsetsTopics, TopicAccess, tally_offsets_topics
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import (
    ConfigRecord,
    ConnectorRecord,
    TaskCountRecord,
    UnknownKey,
    decode,
    encode,
)
from ringfence.fencing.topics.topic_ids import Topics
from tests.support.upper_transform import Upper

OTHER = ConnectorName("other")
OWN = "offsets.storage.topic"


def log_record(record: ConfigRecord) -> LogRecord:
    key, value = encode(record)
    return LogRecord(0, 0, key, value, -1)


def test_offsets_topics_are_followed_as_the_folded_topic_has_them() -> None:
    """Of configurations and of count records, deleted connectors' too; a newer record of a key replaces an older."""
    followed, state, tally = OffsetsTopics(), ClusterState(), tally_offsets_topics()
    for record, expected in (
        (ConnectorRecord(OTHER, {OWN: " a "}), {"a"}),
        (TaskCountRecord(OTHER, 1, Generation(1), {OWN: "a"}), {"a"}),
        (ConnectorRecord(OTHER, {OWN: "b"}), {"a", "b"}),
        (ConnectorRecord(OTHER, {"topic": "c", "text": OWN}), {"a"}),
        (ConnectorRecord(OTHER, None), {"a"}),
        (TaskCountRecord(OTHER, 0, Generation(2), {}), set()),
    ):
        followed.apply(log_record(record))
        state = apply(state, state.end, record)
        assert followed.names == expected
        assert tally.sums(state).keys() == expected
    assert not followed.apply(LogRecord(0, 0, b"connector-x", b'"offsets.storage.topic" garbage', -1))
    assert isinstance(decode(b"else", None), UnknownKey)
    assert not followed.apply(LogRecord(0, 0, b"else", None, -1))


def test_a_topic_that_becomes_an_offsets_topic_takes_no_more_records() -> None:
    """Each name is looked at once, until the config topic says something new."""
    access = [TopicAccess(Topics("c", "o", "s", "e"))]
    path = RecordPath(Upper(), "own", access=lambda: access[0])

    def write(topic: str) -> None:
        path.prepare([SourceRecord({}, {}, topic, "x")])

    write("data")
    for closed in ("c", "o", "s", "e", "__consumer_offsets", "own"):
        with pytest.raises(ConnectorError, match=closed):
            write(closed)
    access[0] = TopicAccess(access[0].workers, frozenset({"data"}))
    with pytest.raises(ConnectorError, match="data is the offsets topic of a connector"):
        write("data")
