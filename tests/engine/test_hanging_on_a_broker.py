"""Transactions that no coordinator knows (KIP-664): made on a broker that does not verify them, found and ended."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaAdminClient
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from fencing.clock import Deadline
from fencing.cluster_state import ClusterState, apply
from fencing.codec import ConnectorRecord
from fencing.ids import ConnectorName
from fencing.kafka.admin import TopicSpec, create_topics
from fencing.kafka.fencer import Fencer
from fencing.kafka.producer import TransactionalProducer
from fencing.kafka.settings import Connection
from ringfence.engine.hanging import end, find
from ringfence.engine.refusal import Refusal
from ringfence.engine.transactions import fence_id
from ringfence.local.kafka import EmbeddedKafka
from ringfence.worker_config import WorkerConfig
from tests.support.broker import new_kafka
from tests.support.waiting import eventually

NOBODYS = 987_654_321


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that appends to a transaction which its coordinator was not told of, as those before Kafka 3.6 do."""
    kafka = new_kafka(tmp_path_factory.mktemp("trusting"), transaction_partition_verification_enable="false")
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()


def append(bootstrap: str, topic: str, producer_id: int, epoch: int, at_ms: int, transactional_id: str = "x") -> None:
    """A transactional batch straight to the partition, without a word to the coordinator."""
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        batch_size=1000,
    )
    batch.append(0, at_ms, None, b"hangs", [])
    partition = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=bytes(batch.build()))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
        max_version=11,
    )
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    async def send() -> int:
        answer = await admin._manager.send(request)
        return int(answer.responses[0].partition_responses[0].error_code)

    try:
        assert admin._manager.run(send) == 0
    finally:
        admin.close()


@pytest.fixture
def stage(trusting: EmbeddedKafka, unique: Callable[[str], str]) -> tuple[Connection, WorkerConfig, str, ConnectorName]:
    """Where, the worker, a topic, and a connector that writes to it."""
    where, topic, group, name = Connection(trusting.bootstrap), unique("t"), unique("g"), ConnectorName(unique("c"))
    create_topics(where, [TopicSpec(topic, 1, 1)], Deadline.after(30))
    given = {"CONNECT_BOOTSTRAP_SERVERS": trusting.bootstrap, "CONNECT_GROUP_ID": group}
    return where, WorkerConfig.from_environment(given), topic, name


def stable_end(where: Connection, topic: str) -> int:
    """Up to where readers of committed records come."""
    consumer = Consumer({**where.librdkafka(), "group.id": "x", "isolation.level": "read_committed"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
    finally:
        consumer.close()


def now_ms() -> int:
    return int(time.time() * 1000)


def test_what_no_coordinator_knows_is_found_and_ended_and_what_one_knows_is_left_alone(
    stage: tuple[Connection, WorkerConfig, str, ConnectorName],
) -> None:
    where, worker, topic, name = stage
    config = {"connector.class": "VerifiableSource", "topic": topic}
    state = apply(ClusterState(), 0, ConnectorRecord(name, config))
    live = TransactionalProducer(where, f"{worker.group_id}-{name}-1")
    live.init(Deadline.after(30))
    live.begin()
    live.produce(topic, b"open")
    assert live.flush(20) == 0
    with Fencer(where) as fencer:
        (ours,) = fencer.fence([f"{worker.group_id}-{name}-0"], Deadline.after(30))
    append(where.bootstrap, topic, ours.producer_id, ours.epoch, now_ms(), ours.transactional_id)
    before = stable_end(where, topic)

    (row,) = find(name, 2, [config], [topic], worker, Deadline.after(30))
    assert (row["transactional_id"], row["producer_id"], row["why_not"]) == (
        ours.transactional_id,
        ours.producer_id,
        "",
    )
    fence_id(state, name, ours.transactional_id, worker)
    assert find(name, 2, [config], [topic], worker, Deadline.after(30)), "fencing does not end it"

    asked = {"topic": topic, "partition": 0, "tasks": 2, "topics": [topic], "earlier": []}
    with pytest.raises(Refusal) as refused:
        end(state, name, {**asked, "producer_id": live.producer_id}, worker)
    assert refused.value.status == 404, "a coordinator knows that one"
    with pytest.raises(Refusal) as refused:
        end(state, name, {**asked, "topic": "other", "producer_id": ours.producer_id}, worker)
    assert refused.value.status == 400
    (ended,) = end(state, name, {**asked, "producer_id": ours.producer_id}, worker)["ended"]
    assert ended["start_offset"] == row["start_offset"]
    assert find(name, 2, [config], [topic], worker, Deadline.after(30)) == []
    live.commit(Deadline.after(30))
    live.close()
    eventually(lambda: stable_end(where, topic) > before, 30, "readers to go on")


def test_that_of_an_unknown_producer_is_left_until_none_can_live_so_long(
    stage: tuple[Connection, WorkerConfig, str, ConnectorName],
) -> None:
    where, worker, topic, name = stage
    config = {"connector.class": "VerifiableSource", "topic": topic}
    state = apply(ClusterState(), 0, ConnectorRecord(name, config))
    append(where.bootstrap, topic, NOBODYS, 0, now_ms())
    append(where.bootstrap, topic, NOBODYS + 1, 0, now_ms() - 3_600_000)
    young, old = find(name, 1, [config], [topic], worker, Deadline.after(30))
    assert "transaction.max.timeout.ms" in str(young["why_not"])
    assert (old["producer_id"], old["why_not"]) == (NOBODYS + 1, "")
    asked = {"topic": topic, "partition": 0, "tasks": 1, "topics": [topic], "earlier": []}
    with pytest.raises(Refusal) as refused:
        end(state, name, {**asked, "producer_id": NOBODYS}, worker)
    assert refused.value.status == 409
    end(state, name, {**asked, "producer_id": NOBODYS + 1}, worker)
    (left,) = find(name, 1, [config], [topic], worker, Deadline.after(30))
    assert left["producer_id"] == NOBODYS
