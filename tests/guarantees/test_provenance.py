"""Each record's transaction and source offset, found in Kafka alone, and the way back: on what the kernel writes."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.record_batches import Marker
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.provenance.committed_records import find_records
from ringfence.fencing.provenance.origin import Transaction, find_producer, find_transaction
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.stage import PARTITION, Script, Stage
from tests.support.broker import Broker
from tests.support.names import unique

LIMIT = 120
BATCH = 3


@dataclass
class Scene:
    stage: Stage
    topic: str
    records: list[LogRecord]

    def transaction_of(self, record: LogRecord) -> Transaction | None:
        limit, connection = Deadline.after(30), self.stage.connection
        producer = find_producer(connection, self.topic, record.partition, record.offset, limit)
        assert producer.segment is not None
        assert producer.segment.marker is Marker.COMMIT
        data, offsets = (connection, [self.topic]), [(connection, self.stage.topics.offsets)]
        return find_transaction(producer, data, offsets, limit)


@pytest.fixture(scope="module", params=[1, 3], ids=["one partition", "three partitions"])
def scene(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Forty transactions of three records each, as fast as they go, and a second life of the producer behind them."""
    stage = Stage(Connection(broker.bootstrap), unique("provenance"))
    topic = unique("traced")
    create_topics(stage.connection, [TopicSpec(topic, request.param)], Deadline.after(30))
    try:
        stage.data = topic
        stage.configure({"topic": topic})
        stage.count()
        stage.start(Script(limit=LIMIT // 2, batch=BATCH), {"topic": topic}).finish_after(LIMIT // 2)
        stage.start(Script(limit=LIMIT, batch=BATCH), {"topic": topic}, attempt=2).finish_after(LIMIT)
        log = TopicLog(stage.connection, topic)
        records = list(log.read_to_end(Deadline.after(30)))
        log.close()
        assert sorted(int(each.value or b"-1") for each in records) == list(range(LIMIT))
        yield Scene(stage, topic, records)
    finally:
        stage.close()


def test_every_record_is_traced_to_the_transaction_that_committed_its_source_offset(scene: Scene) -> None:
    exact = 0
    for record in scene.records[::9]:
        number = int(record.value or b"-1")
        found = scene.transaction_of(record)
        assert found is not None
        (committed,) = found.offsets
        assert committed.offset is not None
        end = int(str(committed.offset["next"]))
        assert end - BATCH <= number < end, f"record {number} is not of the transaction that commits {end}"
        assert (found.connector, found.task, found.generation) == ("numbers", 0, scene.stage.generation)
        assert found.attempt == (1 if number < LIMIT // 2 else 2)
        assert dict(committed.partition) == PARTITION
        if end > BATCH and number >= LIMIT // 2 + BATCH:
            assert committed.before == {"next": end - BATCH}
        exact += found.exact
    assert exact, "none was shown by the numbers"
    if len({each.partition for each in scene.records}) == 1:
        assert exact == len(scene.records[::9])


def test_a_source_offset_leads_back_to_its_records(scene: Scene) -> None:
    stage = scene.stage
    log = TopicLog(stage.connection, stage.topics.offsets)
    newest = max(log.read_to_end(Deadline.after(30)), key=lambda each: each.timestamp_ms)
    log.close()
    offsets, data = (stage.connection, stage.topics.offsets), (stage.connection, [scene.topic])
    offset = {"next": LIMIT}
    found = find_records("numbers", PARTITION, offset, newest.timestamp_ms, offsets, data, Deadline.after(30))
    assert found is not None
    inside = [
        int(record.value or b"-1")
        for record in scene.records
        for part in found.records
        if (part.partition, part.topic) == (record.partition, scene.topic) and part.first <= record.offset <= part.last
    ]
    assert sorted(inside) == list(range(LIMIT - BATCH, LIMIT))
    assert (found.exact, found.generation, found.task) == (True, stage.generation, 0)
    nobody = find_records("numbers", {"source": "else"}, offset, newest.timestamp_ms, offsets, data, Deadline.after(30))
    assert nobody is None


def test_a_marker_is_no_record(scene: Scene) -> None:
    after = max(scene.records, key=lambda each: each.offset)
    with pytest.raises(Invalid, match="no record"):
        find_producer(scene.stage.connection, scene.topic, after.partition, after.offset + 1, Deadline.after(30))
    with pytest.raises(Invalid, match="only"):
        find_producer(scene.stage.connection, scene.topic, after.partition, after.offset + 100, Deadline.after(30))
