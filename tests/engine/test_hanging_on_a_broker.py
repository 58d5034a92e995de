"""Transactions that no coordinator knows (KIP-664): made on a broker that does not verify them, found and ended."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from ringfence.engine.leader.commands import EndHanging
from ringfence.engine.leader.fencing_round_runner import RoundRunner
from ringfence.engine.leader.offset_migration import OffsetMigration
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.hanging_transactions import end, fence_id, find
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.open_transactions import Hanging, HangingProber
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.leader.fencing_round import Round
from ringfence.fencing.leader.older_epochs import end_leftovers
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import ConnectorRecord
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.guarded_process import wait_until
from ringfence.local.kafka import EmbeddedKafka
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig
from tests.support.hanging import append
from tests.support.waiting import eventually

NOBODYS = 987_654_321


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
    live = Producer(where, f"{worker.group_id}-{name}-1")
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

    asked = EndHanging(name, "", topic, partition=0, producer_id=0, tasks=2, topics=[topic], earlier=[])
    with pytest.raises(Refusal) as refused:
        end(state, replace(asked, producer_id=live.producer_id), worker)
    assert refused.value.status == 404, "a coordinator knows that one"
    with pytest.raises(Refusal) as refused:
        end(state, replace(asked, topic="other", producer_id=ours.producer_id), worker)
    assert refused.value.status == 400
    (ended,) = end(state, replace(asked, producer_id=ours.producer_id), worker)
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
    asked = EndHanging(name, "", topic, partition=0, producer_id=0, tasks=1, topics=[topic], earlier=[])
    with pytest.raises(Refusal) as refused:
        end(state, replace(asked, producer_id=NOBODYS), worker)
    assert refused.value.status == 409
    end(state, replace(asked, producer_id=NOBODYS + 1), worker)
    (left,) = find(name, 1, [config], [topic], worker, Deadline.after(30))
    assert left["producer_id"] == NOBODYS


def test_a_round_ends_what_hangs_of_its_ids_and_leaves_everybody_elses_alone(
    stage: tuple[Connection, WorkerConfig, str, ConnectorName],
) -> None:
    where, worker, topic, name = stage
    id_ = f"{worker.group_id}-{name}-0"
    with Fencer(where) as fencer:
        (ours,) = fencer.fence([id_], Deadline.after(30))
    append(where.bootstrap, topic, ours.producer_id, ours.epoch, now_ms(), id_)
    append(where.bootstrap, topic, NOBODYS + 2, 0, now_ms())
    ways = [AdminAccess("the worker's", where)]
    round_ = Round(name, Generation(1), [id_], 1, {}, {})
    migration = OffsetMigration(ConnectorOffsets(worker, "offsets"))
    runner = RoundRunner(lambda _: ways, lambda _: [topic, "no-such-topic"], 0, lambda: None, migration, wait_until)
    try:
        assert runner.start(round_, lambda _: False)
        (done,) = eventually(runner.take_finished, 60, "the round ends")
        fenced = done.result.result()
    finally:
        runner.close()
    (ended,) = fenced.hanging
    assert (ended.topic, ended.partition, ended.producer_id) == (topic, 0, ours.producer_id)
    assert f"Ended what hung on {topic}-0" in fenced.message
    with HangingProber(where) as prober:
        assert [one.producer_id for one in prober._open([topic]).values()] == [NOBODYS + 2]


def test_one_that_cannot_be_ended_is_named_with_the_command_that_ends_it(
    stage: tuple[Connection, WorkerConfig, str, ConnectorName], monkeypatch: pytest.MonkeyPatch
) -> None:
    where, worker, topic, name = stage
    id_ = f"{worker.group_id}-{name}-0"
    with Fencer(where) as fencer:
        (old,) = fencer.fence([id_], Deadline.after(30))
        append(where.bootstrap, topic, old.producer_id, old.epoch, now_ms(), id_)
        (new,) = fencer.fence([id_], Deadline.after(30))

    def refuse(prober: HangingProber, one: Hanging) -> None:
        raise Fatal("ClusterAuthorizationFailedError. Grant Alter on the Cluster")

    monkeypatch.setattr(HangingProber, "abort", refuse)
    with pytest.raises(Retriable) as raised:
        end_leftovers([topic], {new.producer_id: new.epoch}, [AdminAccess("the worker's", where)])
    assert f"{topic}-0, producer id {old.producer_id}, epoch {old.epoch}" in str(raised.value)
    assert "Grant Alter on the Cluster" in str(raised.value)
    assert f"kafka-transactions.sh --bootstrap-server {where.bootstrap} abort --topic {topic}" in str(raised.value)
