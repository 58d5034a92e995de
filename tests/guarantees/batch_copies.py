"""What the record batches of topics are, and copies of such topics that pass them on whole."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.fencing.fetching.fetched_batches import Fetched
from ringfence.fencing.fetching.partition_reader import PartitionReader
from tests.guarantees.copies import START, Context, Copy, committed
from tests.guarantees.stage import Stage
from tests.support.waiting import eventually

_LARGE = 2**31


class Seen(NamedTuple):
    """A committed batch, without what a copy has of its own."""

    partition: int
    number: int
    codec: int
    first_ms: int
    newest_ms: int
    records: bytes


def reader_of(bootstrap: str, isolation: str = "read_committed", **settings: str) -> PartitionReader:
    given = {"bootstrap.servers": bootstrap, **{name.replace("_", "."): value for name, value in settings.items()}}
    return PartitionReader(given, isolation, _LARGE, lambda host, port: [host])


def fetched(bootstrap: str, topic: str, partitions: int = 1) -> list[Fetched]:
    """The topic's committed batches, by partition and in their order; reads until nothing comes for a second."""
    reader = reader_of(bootstrap)
    found: list[Fetched] = []
    try:
        reader.add({(topic, number): 0 for number in range(partitions)})
        while batches := reader.poll(1.0):
            found += batches
    finally:
        reader.close()
    return sorted(found, key=lambda batch: batch.partition)


def batches_of(bootstrap: str, topic: str, partitions: int = 1) -> list[Seen]:
    """The same, without what differs in a copy."""
    encoded = [(batch.count, batch.encode_for("")) for batch in fetched(bootstrap, topic, partitions)]
    return [
        Seen(one.partition, count, one.codec, one.first_ms, one.newest_ms, bytes(one.data)) for count, one in encoded
    ]


def offsets_of(bootstrap: str, topic: str) -> list[int]:
    """The offsets of partition 0's committed records, as a consumer gets them."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, 0, 0)])
    offsets = []
    try:
        while (message := reader.poll(60)) is not None and message.error() is None:
            offsets.append(int(message.offset() or 0))
    finally:
        reader.close()
    return offsets


def send(bootstrap: str, topic: str, numbers: Sequence[int], *, with_headers: bool = True, **settings: object) -> None:
    """Write keys, headers, a tombstone for each fifth number and a time each to partition 0, as one batch."""
    more = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000, "batch.num.messages": 100_000, **more})
    producer.list_topics(topic, 30)  # records that wait for the topic's partitions can go out as several batches
    for number in numbers:
        value = None if number % 5 == 0 else b"v%d" % number * 20
        headers: list[tuple[str, Any]] = [("h", b"%d" % number), ("none", None), ("h", b"again")]
        if not with_headers or not number % 2:
            headers = []
        producer.produce(topic, value, b"k%d" % number, 0, timestamp=START + number, headers=headers)
    assert producer.flush(30) == 0


def counted(copy: Copy) -> dict[str, float]:
    """How many records went whole (""), and how many did not, by what was in their way."""
    numbers: dict[str, float] = {}
    for gauge in copy.run._report.gauges.report():
        labels, value = gauge.get("labels", {}), gauge["value"]
        assert isinstance(labels, Mapping)
        assert isinstance(value, float)
        numbers[str(labels.get("why", ""))] = value
    return numbers


@contextmanager
def started(settings: Mapping[str, str]) -> Iterator[KafkaSourceConnector]:
    connector = KafkaSourceConnector()
    connector.context = Context()
    connector.start(settings)
    try:
        yield connector
    finally:
        connector.stop()


def copied(stage: Stage, settings: Mapping[str, str], records: int, attempt: int = 1) -> dict[str, float]:
    """Run an attempt until the target has that many records in all; return what `counted` does."""
    bootstrap, targets = stage.connection.bootstrap, [f"here.{topic}" for topic in settings["topics"].split(",")]
    with started(settings) as connector:
        (config,) = connector.task_configs(1)
        if attempt == 1:
            stage.configure(config)
            stage.count()
        copy = Copy(stage, config, attempt)
        try:
            eventually(
                lambda: (
                    copy.outcome is not None or sum(len(committed(bootstrap, target)) for target in targets) >= records
                ),
                60,
                f"{records} records at the target",
                pause=0.1,
            )
            return counted(copy)
        finally:
            outcome = copy.end()
            assert outcome.trace is None, outcome.trace
