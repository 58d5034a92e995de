"""A connector with an offsets topic of its own, on the real broker (KIP-618, "Per-connector offsets topics")."""

from collections.abc import Mapping, Sequence

import pytest

from ringfence.connectors.api import SourceRecord
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_identity, topic_setting
from ringfence.fencing.offsets.source_offsets import Offset, SourceOffsets, encode_key, encode_value, read_offsets
from ringfence.fencing.offsets.stores import resolve, stores_of
from ringfence.fencing.task import task_offsets as task_offsets
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.stage import PARTITION, Counting, Script, Stage
from tests.support.transactions import await_markers
from tests.support.waiting import eventually

# What the worker says of its offsets topic; a deleting one is not taken over.
WORKER = {
    "offset.storage.partitions": "4",
    "offset.storage.replication.factor": "1",
    "offset.storage.segment.ms": "3600000",
    "offset.storage.cleanup.policy": "delete",
}


def own_topic(stage: Stage) -> str:
    return f"{stage.data}-offsets"


def ready(stage: Stage, **more: str) -> dict[str, str]:
    config = {"topic": stage.data, "offsets.storage.topic": own_topic(stage)}
    made = {**config, **{key.replace("_", "."): value for key, value in more.items()}}
    stage.configure(made)
    stage.count()
    return made


def kept(stage: Stage, topic: str) -> SourceOffsets:
    return read_offsets(stage.connection, topic, stage.connector, Deadline.after(60))


def next_of(offset: Offset | None) -> int:
    return int(str(offset["next"])) if offset else 0


def write_offset(stage: Stage, topic: str, offset: Mapping[str, object] | None) -> None:
    producer = Producer(stage.connection, f"{topic}-by-hand")
    producer.init(Deadline.after(30))
    producer.begin()
    producer.produce(topic, encode_value(offset), encode_key(stage.connector, PARTITION))
    producer.commit(Deadline.after(30))
    producer.close()
    await_markers(stage.connection, producer.transactional_id)


def test_records_and_the_topics_own_offset_agree_and_the_workers_gets_a_copy(stage: Stage) -> None:
    attempt = stage.start(Script(limit=3000), ready(stage), worker=WORKER)
    stage.wait_for(3000)
    assert next_of(kept(stage, own_topic(stage)).offset(PARTITION)) == 3000
    attempt.run.end()
    assert attempt.ended().trace is None
    assert stage.exact(3000) == 3000  # this reads the worker's topic: the copy's thread has ended with the task


def test_the_missing_topic_is_created_like_the_workers_but_always_compacted(stage: Stage) -> None:
    stage.start(Script(limit=10), ready(stage), worker=WORKER)
    stage.wait_for(10)
    name, limit = own_topic(stage), Deadline.after(30)
    assert topic_identity(stage.connection, name, limit)[1] == [0, 1, 2, 3]
    assert topic_setting(stage.connection, name, "cleanup.policy", limit) == "compact"
    assert topic_setting(stage.connection, name, "segment.ms", limit) == "3600000"


def test_a_topic_that_would_lose_offsets_is_refused_with_the_remedy(stage: Stage) -> None:
    spec = TopicSpec(own_topic(stage), 1, config={"cleanup.policy": "delete"})
    create_topics(stage.connection, [spec], Deadline.after(30))
    attempt = stage.start(Script(limit=10), ready(stage), worker=WORKER)
    trace = attempt.ended().trace or ""
    assert "cleanup.policy=delete" in trace
    assert "Set cleanup.policy=compact" in trace
    assert stage.visible() == []


def test_a_fresh_topic_takes_the_workers_offsets_over(stage: Stage) -> None:
    write_offset(stage, stage.topics.offsets, {"next": 700})
    script = Script(limit=1000)
    stage.start(script, ready(stage), worker=WORKER)
    stage.wait_for(300)
    assert stage.visible() == list(range(700, 1000))


def test_the_own_topic_goes_before_the_workers_also_where_it_has_a_tombstone(stage: Stage) -> None:
    create_topics(
        stage.connection, [TopicSpec(own_topic(stage), config={"cleanup.policy": "compact"})], Deadline.after(30)
    )
    write_offset(stage, stage.topics.offsets, {"next": 300})
    write_offset(stage, own_topic(stage), {"next": 700})
    made = ready(stage)
    stage.start(Script(limit=1000), made, worker=WORKER).finish_after(1000)
    assert stage.visible() == list(range(700, 1000))
    write_offset(stage, own_topic(stage), None)
    script = Script(limit=0)
    stage.start(script, made, attempt=2, worker=WORKER)
    eventually(lambda: bool(script.instances) and script.instances[0].polls > 0, 60, "the second attempt polls")
    assert script.instances[0].next == 0


def test_a_task_may_not_write_to_its_own_offsets_topic(stage: Stage) -> None:
    made = ready(stage)
    attempt = stage.start(Script(limit=10), {**made, "topic": own_topic(stage)}, worker=WORKER)
    assert "holds its own source offsets" in (attempt.ended().trace or "")
    assert kept(stage, own_topic(stage)).all() == []


class Forgetting(Counting):
    """Deletes its offset with the record 99."""

    def record(self, number: int) -> SourceRecord:
        found = super().record(number)
        if number == 99:
            found.source_offset = None
        return found


def test_a_deleted_offset_is_gone_from_both_topics(stage: Stage) -> None:
    attempt = stage.start(Script(limit=100), ready(stage), kind=Forgetting, worker=WORKER)
    stage.wait_for(100)
    attempt.run.end()
    assert attempt.ended().trace is None
    for topic in (own_topic(stage), stage.topics.offsets):
        found = kept(stage, topic)
        assert found.present() == []
        assert len(found.all()) == 1


def test_a_producer_that_goes_to_another_cluster_keeps_its_offsets_there(
    stage: Stage, own_broker: EmbeddedKafka
) -> None:
    there = Connection(own_broker.bootstrap)
    create_topics(there, [TopicSpec(stage.data)], Deadline.after(30))
    made = {"topic": stage.data, "producer.override.bootstrap.servers": own_broker.bootstrap}
    stage.configure(made)
    stage.count()
    write_offset(stage, stage.topics.offsets, {"next": 200})
    stage.start(Script(limit=1000), made, worker=WORKER).finish_after(1000)
    log = TopicLog(there, stage.data)
    try:
        assert [int(record.value or b"-1") for record in log.read_to_end(Deadline.after(60))] == list(range(200, 1000))
    finally:
        log.close()
    assert stage.visible() == []
    name, limit = stage.topics.offsets, Deadline.after(60)
    assert read_offsets(there, name, stage.connector, limit).offset(PARTITION) == {"next": 1000}
    assert topic_setting(there, name, "cleanup.policy", limit) == "compact"
    assert stage.offset() == 1000, "and a copy at home"


def test_the_workers_own_cluster_by_another_address_is_no_other_cluster(stage: Stage) -> None:
    alias = stage.connection.bootstrap.replace("127.0.0.1", "localhost")
    assert alias != stage.connection.bootstrap
    made = {"topic": stage.data, "producer.override.bootstrap.servers": alias}
    found = stores_of(stage.connection, stage.topics.offsets, WORKER, made, transactional=True)
    assert found.own is not None, "by the addresses alone it looks like one"
    known = resolve(found, Deadline.after(30))
    assert (known.own, known.effective.name) == (None, stage.topics.offsets)


class Refusing(PlainProducer):
    """The workers' topic cannot be written."""

    def write(
        self, topic: str, records: Sequence[tuple[bytes, bytes | None]], deadline: Deadline, last: object = ()
    ) -> None:
        raise Fatal("writing the workers' topic: denied")


def test_nothing_is_committed_where_the_workers_topic_does_not_take_the_tombstone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_offsets, "PlainProducer", Refusing)
    attempt = stage.start(Script(limit=100, batch=50), ready(stage), kind=Forgetting, worker=WORKER)
    assert "denied" in (attempt.ended().trace or "")
    assert stage.visible() == list(range(50))
    assert next_of(kept(stage, own_topic(stage)).offset(PARTITION)) == 50


def test_a_copy_that_fails_does_not_disturb_the_task(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_offsets, "PlainProducer", Refusing)
    attempt = stage.start(Script(limit=1000), ready(stage), worker=WORKER)
    attempt.finish_after(1000)
    assert attempt.ended().trace is None
    assert stage.visible() == list(range(1000))
    assert next_of(kept(stage, own_topic(stage)).offset(PARTITION)) == 1000
    assert kept(stage, stage.topics.offsets).all() == []


def wait_a_little(task: Counting) -> None:
    """Else half a million records are there at the end."""
    task.context.wait(0.01)


def test_two_attempts_in_turn_stay_exact(stage: Stage) -> None:
    made = ready(stage, transaction_boundary="interval", transaction_boundary_interval_ms="300")
    stage.start(Script(before_poll=wait_a_little), made, worker=WORKER)
    stage.wait_for(200)
    newer = stage.start(Script(before_poll=wait_a_little), made, attempt=2, worker=WORKER)
    before = len(stage.visible())
    stage.wait_for(before + 200)
    newer.run.end()
    newer.ended()
    seen = stage.visible()
    assert seen == list(range(len(seen)))
    eventually(lambda: next_of(kept(stage, own_topic(stage)).offset(PARTITION)) == len(seen), 30, "the own offset")
