"""Hanging transactions (KIP-664), made on purpose: batches straight to a partition, without a word to a coordinator."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from ringfence.local.kafka import EmbeddedKafka
from tests.support.broker import running_kafka
from tests.support.waiting import eventually


def group_offset_key(group: str, topic: str) -> bytes:
    """The key of an offset of a group. A coordinator that cannot read one serves no group of its partition."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in (group, topic))
    return struct.pack(">h", 1) + names + struct.pack(">i", 0)


@contextmanager
def trusting_kafka(root: Path) -> Iterator[EmbeddedKafka]:
    """A broker that appends to a transaction which its coordinator was not told of, as those before Kafka 3.6 do.

    It compacts soon, not after fifteen seconds.
    """
    quick = {"log_cleaner_backoff_ms": "250"}
    with running_kafka(root, transaction_partition_verification_enable="false", **quick) as kafka:
        yield kafka


def append(
    bootstrap: str,
    topic: str,
    producer_id: int,
    epoch: int,
    at_ms: int,
    transactional_id: str = "x",
    *,
    key: bytes | None = None,
    value: bytes | None = b"hangs",
    partition: int = 0,
) -> None:
    """One transactional record."""
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        batch_size=1000,
    )
    batch.append(0, at_ms, key, value, [])
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=bytes(batch.build()))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        max_version=11,
    )
    # The one client that the broker lets write to its own topics.
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="__admin_client")

    async def send() -> int:
        answer = await admin._manager.send(request)
        return int(answer.responses[0].partition_responses[0].error_code)

    try:
        # A partition's leader may be new, and the coordinator busy with the id's last transaction.
        eventually(lambda: admin._manager.run(send) == 0, 20, "the broker takes the record", pause=0.1)
    finally:
        admin.close()
