"""The producer of our own while partition leaders and its coordinator are killed: each value once, in order."""

import threading

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from tests.support.encoded import read_numbers
from tests.support.transaction_version import set_transaction_version
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(600)]

BATCH = 50
PARTITIONS = 3


class Writer:
    """Writes the numbers from 0 on to each partition, and after an error continues from what is committed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stop = threading.Event()
        self.written = self.producers = self.failures = 0
        self.last_error: FencingError | None = None
        self.broken: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def committed(self) -> int:
        """How many values each partition has. Raises AssertionError unless all have the same, once and in order."""
        found = read_numbers(self._connection, "data", PARTITIONS)
        assert all(values == list(range(len(values))) for values in found.values())
        (size,) = {len(values) for values in found.values()}
        return size

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._live()
            except FencingError as error:
                self.failures += 1
                self.last_error = error
            except BaseException as error:
                self.broken = error
                raise

    def _live(self) -> None:
        producer = Producer(self._connection, "writer", transaction_timeout_ms=20_000)
        self.producers += 1
        try:
            producer.init(Deadline.after(30))
            self.written = self.committed()
            while not self._stop.is_set() and not producer.spent:
                producer.begin()
                for number in range(self.written, self.written + 2 * BATCH):
                    for partition in range(PARTITIONS):
                        producer.produce("data", b"%d" % number, None, partition)
                producer.produce("offsets", b"%d" % self.written, b"key")
                producer.commit(Deadline.after(20))
                self.written += 2 * BATCH
        finally:
            producer.close()

    def wait_for_more(self, more: int) -> None:
        wanted = self.written + more
        eventually(
            lambda: self.broken or self.written >= wanted, 120, lambda: f"{self.written} of {wanted}: {self.last_error}"
        )
        assert self.broken is None

    def end(self) -> None:
        self._stop.set()
        self.thread.join(120)
        assert not self.thread.is_alive()


@pytest.mark.parametrize("version", [2, 1])
def test_each_value_once_while_brokers_are_killed(brokers: list[EmbeddedKafka], version: int) -> None:
    connection = Connection(",".join(each.bootstrap for each in brokers))
    set_transaction_version(connection, version)
    specs = [TopicSpec("data", partitions=PARTITIONS, replication=3), TopicSpec("offsets", replication=3)]
    create_topics(connection, specs, Deadline.after(60))
    writer = Writer(connection)
    try:
        for broker in (brokers[1], brokers[2], brokers[1], brokers[2]):  # the first one is the controller
            writer.wait_for_more(10 * BATCH)
            broker.kill()
            writer.wait_for_more(10 * BATCH)
            broker.start()
        writer.wait_for_more(10 * BATCH)
    finally:
        writer.end()
    print(f"{writer.written} values, {writer.producers} producers, {writer.failures} failures: {writer.last_error}")
    assert writer.committed() >= writer.written
