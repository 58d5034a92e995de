"""What a share group's task makes of its input: where it begins, what it keeps of records, what it was told of them."""

import json

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ringfence.fencing.offsets.ledger_keys import LEDGER_PARTITION
from tests.guarantees.share_chaos import TROUBLED
from tests.guarantees.shares import Queue
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SOON = {**TROUBLED, "share_sweep_after_ms": "2000"}
HOUR_MS = 3_600_000


def read_all(queue: Queue, topic: str, number: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a partition."""
    reader = Consumer(queue.connection.librdkafka(group_id="none", enable_partition_eof=True))
    reader.assign([TopicPartition(topic, number, 0)])
    found: list[tuple[bytes | None, bytes | None]] = []
    while (message := reader.poll(10)) is not None and message.error() is None:
        found.append((message.key(), message.value()))
    reader.close()
    return found


def find_low(queue: Queue) -> int:
    """Everything of the input before this offset is done, as the ledger says; -1 where it says nothing."""
    told = [json.loads(value or b"{}") for _, value in read_all(queue, queue.topics.offsets, LEDGER_PARTITION)]
    return max((one["low"] for one in told if "low" in one), default=-1)


def test_a_new_topic_begins_at_its_end_where_told_and_records_stay_as_they_are(queue: Queue) -> None:
    queue.feed(range(20))  # and the marker of its transaction
    queue.configure(1, queue.settings(**SOON, share_start="latest"))
    queue.start(0)
    eventually(lambda: find_low(queue) == 21, 60, lambda: f"the beginning, not {find_low(queue)}")
    pen = Producer(queue.connection.librdkafka())
    headers: list[tuple[str, str | bytes | None]] = [("h", b"\x00\xff"), ("h", b"again"), ("empty", b"")]
    pen.produce(queue.source, b"\x00value", b"\xffkey", timestamp=HOUR_MS, headers=headers)
    pen.produce(queue.source, None, b"gone", timestamp=2 * HOUR_MS)
    pen.produce(queue.source, b"no key", None, timestamp=3 * HOUR_MS)
    assert pen.flush(30) == 0
    queue.wait_for(2, 60)
    eventually(lambda: find_low(queue) == 24, 60, lambda: f"all three, not {find_low(queue)}")
    queue.end()
    reader = Consumer(queue.connection.librdkafka(group_id="none", enable_partition_eof=True))
    reader.assign([TopicPartition(queue.target, 0, 0)])
    found = {}
    while (message := reader.poll(10)) is not None and message.error() is None:
        found[message.key()] = (message.value(), message.timestamp()[1], message.headers())
    reader.close()
    assert found == {
        b"\xffkey": (b"\x00value", HOUR_MS, headers),
        b"gone": (None, 2 * HOUR_MS, None),
        None: (b"no key", 3 * HOUR_MS, None),
    }


def process_first(queue: Queue) -> None:
    """Feed 80 records, and process them by one task, which ends."""
    queue.configure(1, queue.settings(**SOON))
    queue.feed(range(80))
    queue.start(0)
    queue.wait_for(80, 60)
    eventually(lambda: find_low(queue) >= 80, 60, "the first records in the ledger")
    queue.end()


def test_records_that_expire_before_they_are_processed_are_told_and_passed(queue: Queue) -> None:
    process_first(queue)
    queue.feed(range(80, 160))  # from offset 81 on
    admin = AdminClient(queue.connection.librdkafka())  # type: ignore[arg-type]
    for future in admin.delete_records([TopicPartition(queue.source, 0, 131)]).values():
        future.result(30)
    queue.start(0)
    queue.wait_for(110, 60)
    eventually(lambda: find_low(queue) == 162, 60, lambda: f"all of it, not {find_low(queue)}")
    queue.end()
    assert queue.visible() == {b"%d" % number: 1 for number in (*range(80), *range(130, 160))}
    said = (queue.folder / f"0-{queue.attempts[0]}.log").read_text()
    assert "offsets of partition 0" in said
    assert "expired, or were deleted, before they were processed: the topic begins at 131" in said


def test_a_task_rejects_and_releases_records(queue: Queue) -> None:
    """Rejected ones come never again, released ones do, and all others are accepted."""
    queue.configure(2, queue.settings(**{**SOON, "batch_size": "20"}, reject_value="3", release_value="7"))
    queue.feed(range(160))
    for task in range(2):
        queue.start(task)
    wanted = {b"%d" % number: 1 for number in range(160) if number % 10 != 3}
    queue.wait_for(len(wanted), 90)
    eventually(lambda: find_low(queue) == 162, 60, lambda: f"all of it, not {find_low(queue)}")
    queue.end()
    assert queue.visible() == wanted
    logs = "".join(path.read_text() for path in queue.folder.glob("*.log"))
    assert logs.count("Released ") >= 16


def test_a_record_that_ends_its_process_is_tried_again_until_it_does_not(queue: Queue) -> None:
    """`share.exhausted=retry`: no dead letter, though more tries were made than the broker would make."""
    letters = f"{queue.source}-dead"
    policy = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
    topic = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
    wanted = {**queue.settings(**SOON, share_exhausted="retry"), **policy, **topic}
    queue.configure(1, {**wanted, "kill.value": "37"})
    queue.feed(range(80))
    process = queue.start(0)

    def tried_often() -> bool:
        nonlocal process
        if process.poll() is not None:
            process = queue.start(0)
        return max((times for _, times in queue.tries()), default=0) >= 5

    eventually(tried_often, 240, "more tries than the limit and the two beside others", pause=0.2)
    queue.end()
    queue.configure(1, wanted)
    queue.start(0)
    queue.wait_for(80, 90)
    queue.end()
    assert queue.visible() == {b"%d" % number: 1 for number in range(80)}
    assert queue.read(letters) == {}


def test_a_partition_that_ends_before_what_was_done_fails_its_task(queue: Queue) -> None:
    """What stands there from now on may be other records under old offsets."""
    process_first(queue)
    # As after an unclean election: what the ledger has done is not there any more.
    told = [(key, json.loads(value or b"{}")) for key, value in read_all(queue, queue.topics.offsets, LEDGER_PARTITION)]
    key, state = [one for one in told if "low" in one[1]][-1]
    state |= {"low": 500, "done": []}
    pen = Producer(queue.connection.librdkafka())
    pen.produce(queue.topics.offsets, json.dumps(state), key, partition=LEDGER_PARTITION)
    assert pen.flush(30) == 0
    queue.start(0)
    eventually(lambda: queue.states().get(0) == "FAILED", 60, lambda: f"FAILED: {queue.states()}", pause=0.5)
    eventually(lambda: "it was truncated" in (queue.folder / f"0-{queue.attempts[0]}.log").read_text(), 20)
