"""What a Java task's record batches become: whole batches in the topic, keys where Kafka's own producer puts them."""

from collections import Counter
from pathlib import Path

import pytest
from kafka.partitioner.default import murmur2

from ringfence.fencing.clock import Deadline
from ringfence.fencing.fetching.raw_reader import RawReader
from ringfence.fencing.kafka.record_batches import Batch
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.lines import LinesJob
from tests.guarantees.stage import Stage
from tests.support.waiting import eventually

PARTITIONS = 5
POLL = 900
LINES = 5_000
"""Of the last poll, too, all are handed over, since its batch is not full."""
LINE_AS_KEY = {
    "transforms": "hoist,key,flatKey,flatValue",
    "transforms_hoist_type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms_hoist_field": "line",
    "transforms_key_type": "org.apache.kafka.connect.transforms.ValueToKey",
    "transforms_key_fields": "line",
    "transforms_flatKey_type": "org.apache.kafka.connect.transforms.ExtractField$Key",
    "transforms_flatKey_field": "line",
    "transforms_flatValue_type": "org.apache.kafka.connect.transforms.ExtractField$Value",
    "transforms_flatValue_field": "line",
}


def run(stage: Stage, folder: Path, **more: str) -> LinesJob:
    """A job that has copied its lines, and has ended."""
    job = LinesJob(stage, folder, batch_size=str(POLL), **more)
    job.write(LINES)
    try:
        attempt = job.start()
        eventually(lambda: len(records_of(stage)) >= LINES, 60, "all lines", pause=0.5)
        assert attempt.stop()["trace"] is None
    finally:
        job.close()
    return job


def records_of(stage: Stage) -> list[tuple[int, bytes | None, int]]:
    """Partition, key and line of what a read_committed reader sees."""
    log = TopicLog(stage.connection, stage.data)
    try:
        read = log.read_to_end(Deadline.after(60))
        return [(record.partition, record.key, int(record.value or b"-1")) for record in read]
    finally:
        log.close()


def batches_of(stage: Stage, partition: int) -> list[int]:
    """The number of records of each batch."""
    batches: list[Batch] = []
    end = sum(1 for where, _, _ in records_of(stage) if where == partition)
    with RawReader(stage.connection, stage.data) as fetcher:
        fetcher.read({partition: 0}, {partition: end}, Deadline.after(60), lambda _, batch: batches.append(batch))
    return [batch.records for batch in batches if not batch.control]


def test_each_key_is_in_the_partition_that_kafkas_producer_chooses(stage: Stage, tmp_path: Path) -> None:
    stage.data += "-wide"
    create_topics(stage.connection, [TopicSpec(stage.data, PARTITIONS)], Deadline.after(30))
    job = run(stage, tmp_path, **LINE_AS_KEY)
    records = records_of(stage)
    assert sorted(line for _, _, line in records) == list(range(job.written))
    for partition, key, line in records:
        assert key == b"%d" % line
        assert partition == (murmur2(key) & 0x7FFFFFFF) % PARTITIONS
    assert len(Counter(partition for partition, _, _ in records)) == PARTITIONS
    assert max(batches_of(stage, 0)) > 100, "some 180 of the 900 lines of a poll"


def test_records_without_keys_are_written_as_whole_batches_also_to_a_new_topic(stage: Stage, tmp_path: Path) -> None:
    stage.data += "-new"
    run(stage, tmp_path)
    assert batches_of(stage, 0)[:3] == [POLL, POLL, POLL]


@pytest.mark.thorough
def test_with_compression_librdkafka_makes_the_batches(stage: Stage, tmp_path: Path) -> None:
    job = run(stage, tmp_path, producer_override_compression_type="lz4", producer_override_batch_size="2000")
    job.check()
    assert max(batches_of(stage, 0)) < POLL


@pytest.mark.thorough
def test_batches_are_no_larger_than_the_setting(stage: Stage, tmp_path: Path) -> None:
    job = run(stage, tmp_path, producer_override_batch_size="1000")
    job.check()
    assert 50 < max(batches_of(stage, 0)) < 150, "a line takes some 10 bytes"
