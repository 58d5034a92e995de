"""Reports go on when their producer can send no more: a leader that cannot report cannot lead."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.plain_producers import ReportProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from tests.support.broker import Broker

pytestmark = pytest.mark.broker


class Dying:
    """The real client until its broker has forgotten it: from then on each call raises, and nothing is sent."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._queued: list[tuple[Any, ...]] = []
        self.dead = False

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[..., None]) -> None:
        if self.dead:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        self._queued.append((topic, key, value, on_delivery))

    def poll(self, _seconds: float) -> int:
        return 0

    def purge(self) -> None:
        pass

    def flush(self, _seconds: float) -> int:
        """All that was queued comes back undelivered."""
        for topic, key, value, tell in self._queued:
            tell(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER), Returned(topic, key, value))
        self._queued.clear()
        return 0


class Returned:
    """What confluent-kafka's Message tells of one."""

    def __init__(self, topic: str, key: bytes, value: bytes) -> None:
        self._parts = topic, key, value

    def topic(self) -> str:
        return self._parts[0]

    def key(self) -> bytes:
        return self._parts[1]

    def value(self) -> bytes:
        return self._parts[2]


@pytest.fixture
def topic(broker: Broker, unique: Callable[[str], str]) -> str:
    name = unique("reports")
    create_topics(Connection(broker.bootstrap), [TopicSpec(name)], Deadline.after(30))
    return name


@pytest.fixture
def reports(broker: Broker) -> Iterator[ReportProducer]:
    made = ReportProducer(Connection(broker.bootstrap))
    yield made
    made.close()


def told(broker: Broker, topic: str) -> list[bytes | None]:
    log = TopicLog(Connection(broker.bootstrap), topic)
    try:
        return [record.value for record in log.read_to_end(Deadline.after(30))]
    finally:
        log.close()


def test_a_producer_that_can_send_no_more_is_replaced(broker: Broker, topic: str, reports: ReportProducer) -> None:
    dying = Dying(reports._producer)
    reports._producer = dying  # type: ignore[assignment]
    reports.send(topic, b"k", b"1")
    dying.dead = True
    reports.send(topic, b"k", b"2")  # raised for ever before
    reports.send(topic, b"k", b"3")
    reports.flush(30)
    assert told(broker, topic) == [b"1", b"2", b"3"]


def test_what_was_lost_in_silence_is_sent_again_at_the_end(broker: Broker, topic: str, reports: ReportProducer) -> None:
    reports._producer = Dying(reports._producer)  # type: ignore[assignment]
    reports.send(topic, b"k", b"1")
    reports.flush(30)
    assert told(broker, topic) == [b"1"]


_REPORTS_OF_REPORTS = """
import logging, sys, time
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.plain_producers import ReportProducer

reports, told = ReportProducer(Connection("127.0.0.1:1"), timeout_s=1.0), []

class Reporting(logging.Handler):
    def emit(self, record):
        reports.send("events", b"log", b"line")

logging.getLogger().addHandler(Reporting())
for number in range(20):
    reports.send("events", b"k", b"%d" % number, told.append)
deadline = time.monotonic() + 60
while len(told) < 20 and time.monotonic() < deadline:
    time.sleep(0.1)
    reports.send("events", b"k", b"again")
reports.flush(2)
sys.exit(told != [False] * 20)
"""


def test_a_handler_that_reports_what_is_logged_of_lost_reports_ends_no_process() -> None:
    """The client aborts the process when it is polled within its own callback."""
    script = [sys.executable, "-c", _REPORTS_OF_REPORTS]
    ended = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
