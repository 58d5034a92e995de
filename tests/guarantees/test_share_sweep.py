"""What the sweep does at once when it is asked to, and what the ledger forgets, on the real broker."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import Answer, ShareMember, alter_share_group
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics, topic_ids
from ringfence.fencing.offsets.ledger_keys import LEDGER_PARTITION
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from tests.guarantees.shares import Queue
from tests.support.broker import Broker
from tests.support.waiting import eventually

LATER = {"share_sweep_after_ms": "3600000", "batch_size": "50"}


@pytest.fixture
def queue(broker: Broker, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Queue]:
    made = Queue(Connection(broker.bootstrap), unique("sweep"), tmp_path, partitions=1)
    yield made
    made.close()


def identify(queue: Queue) -> str:
    found = topic_ids(queue.connection, [queue.source], Deadline.after(20))[queue.source]
    assert found is not None
    return found


def archive(queue: Queue) -> int:
    """Take the first records as often as the broker gives them. Returns how many that were."""
    settings = {"auto.offset.reset": "earliest", "delivery.count.limit": "2", "isolation.level": "read_committed"}
    alter_share_group(queue.connection, queue.share_group, settings, Deadline.after(20))
    member = ShareMember(queue.connection, queue.share_group, [queue.source], "stranger", 80)
    taken = 0
    for _ in range(2):
        messages = eventually(lambda: member.poll(1.0), 30, "records", pause=0.0)
        assert messages[0].offset() == 0
        taken = len(messages)
        for message in messages:
            member.answer(message, Answer.RELEASE)
        member.send_answers(10)
    member.close()
    return taken


@pytest.mark.slow
def test_archived_records_are_processed_when_somebody_asks(queue: Queue) -> None:
    """In an hour the sweep would read them by itself."""
    queue.feed(range(240))
    taken = archive(queue)
    queue.configure(1, queue.settings(**LATER, share_delivery_limit="2"))
    queue.start(0)
    queue.wait_for(240 - taken, 60)
    assert queue.visible().total() == 240 - taken
    queue.write(SweepRequestRecord(queue.connector, [(identify(queue), 0, 0, taken + 500)], 1))
    queue.wait_for(240, 30)
    queue.end()
    assert queue.verdict() == (0, 0)


def states(queue: Queue) -> set[str]:
    """The topics of which the ledger still says something, after compaction."""
    reader = Consumer(queue.connection.librdkafka(group_id="none", enable_partition_eof=True))
    reader.assign([TopicPartition(queue.topics.offsets, LEDGER_PARTITION, 0)])
    newest: dict[bytes, bool] = {}
    while (message := reader.poll(10)) is not None and message.error() is None:
        if b'"topic_id"' in (message.key() or b""):
            newest[message.key() or b""] = message.value() is not None
    reader.close()
    return {key.split(b'"topic_id":"')[1].split(b'"')[0].decode() for key, there in newest.items() if there}


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_ledger_forgets_a_topic_that_was_deleted(queue: Queue) -> None:
    """And reads the one that has its name now from its beginning."""
    queue.feed(range(160))
    queue.configure(2, queue.settings(batch_size="50", forget_ms="2000"))
    for task in range(2):
        queue.start(task)
    queue.wait_for(160, 60)
    before = identify(queue)
    assert states(queue) == {before}
    delete_topics(queue.connection, [queue.source], Deadline.after(30))

    def made() -> bool:
        return queue.source in create_topics(queue.connection, [TopicSpec(queue.source, 1, 1)], Deadline.after(5))

    eventually(made, 60, "the topic again", pause=0.5)
    queue.feed(range(160, 320))
    queue.wait_for(320, 90)
    after = identify(queue)
    eventually(lambda: states(queue) == {after}, 60, lambda: f"only {after}: {states(queue)}", pause=0.5)
    queue.end()
    assert set(queue.visible().values()) == {1}
