"""Workers that are too old for the cluster say so, take nothing, and go on from there when they may."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.consumer_groups import group_members
from ringfence.fencing.topics.config_records import encode
from ringfence.fencing.topics.config_records.format import FORMAT, OLDEST, FormatRecord
from tests.e2e.conftest import await_calm
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.waiting import eventually

pytestmark = pytest.mark.thorough


def write(up: Up, record: FormatRecord) -> None:
    """As the leader of a later version does."""
    key, value = encode(record)
    producer = Producer(up.connection.librdkafka())
    producer.produce("connect-configs", value, key)
    assert producer.flush(30) == 0


def refusals(up: Up) -> list[int]:
    """How often each worker has said it."""
    logs = [up.data / "logs" / f"{worker}.log" for worker in ("worker-1", "worker-2")]
    return [log.read_text(errors="replace").count("is too old for this cluster") for log in logs]


def test_it_takes_nothing_and_goes_on_when_it_may(platform: Up, flow: Callable[..., Flow]) -> None:
    one = flow(tasks=2)
    write(platform, FormatRecord(FORMAT + 1, FORMAT + 1))
    try:
        # It has ended in order, and the supervisor has started it again.
        eventually(lambda: min(refusals(platform)) >= 2, 120, lambda: refusals(platform), pause=0.3)
        eventually(lambda: not group_members(platform.connection, "ringfence", Deadline.after(30)), 30, pause=0.3)
        one.reader.read_to_end()
        before = {task: len(numbers) for task, numbers in one.reader.sequences.items()}
        one.reader.read_to_end()
        assert {task: len(numbers) for task, numbers in one.reader.sequences.items()} == before
    finally:
        write(platform, FormatRecord(FORMAT, OLDEST))
    await_calm(platform)
    one.await_progress()
    one.settle()
