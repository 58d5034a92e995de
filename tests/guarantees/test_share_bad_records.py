"""Records of a share group that a transform refuses, on the real broker and through the real transforms."""

import json
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.records.dead_letter import PREFIX, text_of
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.share_chaos import TROUBLED
from tests.guarantees.shares import Queue
from tests.support.waiting import eventually

RECORDS = 60
BAD = {b"%d" % number: 1 for number in range(0, RECORDS, 7)}
GOOD = {b"%d" % number: 1 for number in range(RECORDS) if number % 7}
EXTRACT = {
    "transforms": "pick",
    "transforms.pick.type": "ExtractField$Value",
    "transforms.pick.field": "id",
    "transforms.pick.predicate": "broken",
    "predicates": "broken",
    "predicates.broken.type": "HasHeaderKey",
    "predicates.broken.name": "broken",
}
"""It wants a structure, and is given the bytes of those records that have the header."""
KILLED = 9


def feed(queue: Queue) -> None:
    pen = Producer(queue.connection.librdkafka())
    for number in range(RECORDS):
        value = b"%d" % number
        pen.produce(queue.source, value, partition=0, headers=[("broken", b"")] if value in BAD else [])
        if number % 10 == 9:  # a broker hands out whole batches
            assert pen.flush(30) == 0


def read_letters(queue: Queue, topic: str) -> dict[bytes | None, Callable[[str], str]]:
    """What the headers of each dead letter say, by its value."""
    log = TopicLog(queue.connection, topic)
    try:
        records = log.read_to_end(Deadline.after(60))
        return {one.value: partial(text_of, one.headers) for one in records}
    finally:
        log.close()


@pytest.mark.slow
def test_a_transform_refuses_records(queue: Queue) -> None:
    """By default the first one fails the task, and is named; with tolerance each of them is one dead letter.

    The process dies in the middle: what it had not committed is processed again, and no record is in both topics or
    in one of them twice.
    """
    letters = f"{queue.source}-dead"
    config = {**queue.settings(**{**TROUBLED, "batch_size": "5"}), **EXTRACT}
    feed(queue)
    queue.configure(1, config)
    queue.start(0)
    eventually(lambda: queue.states().get(0) == "FAILED", 60, lambda: f"FAILED: {queue.states()}")
    queue.end()
    failure = queue.statuses()[0].failure
    assert failure is not None
    assert (failure.stage, failure.class_name, failure.alias) == ("TRANSFORMATION", "ExtractFieldValue", "pick")
    assert json.loads(failure.partition) == {"topic": queue.source, "partition": 0}
    assert (json.loads(failure.offset)["offset"], failure.value) == (0, "0")
    assert queue.visible() == {}

    policy = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
    topic = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
    queue.configure(1, {**config, **policy, **topic, "kill.value": "37"})
    assert queue.start(0).wait(60) == KILLED
    assert len(queue.visible()) < len(GOOD)  # in the midst of it
    queue.configure(1, {**config, **policy, **topic})
    queue.start(0)
    eventually(lambda: len(queue.visible()) + len(queue.read(letters)) >= RECORDS, 60, "all records", pause=0.2)
    queue.end()
    assert (queue.visible(), queue.read(letters)) == (GOOD, BAD)
    for value, say in read_letters(queue, letters).items():
        assert [say(PREFIX + name) for name in ("stage", "class.name")] == ["TRANSFORMATION", "ExtractFieldValue"]
        assert json.loads(say(PREFIX + "source.offset"))["offset"] == int(value or b"-1")
