"""The reader of record batches on real brokers: what a network, an election or an administrator does to it."""

import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.api.fetching import NotFetchable, OutOfRange, Run
from ringfence.connectors.builtin.kafka_source.cluster import consumer
from ringfence.connectors.builtin.kafka_source.task import BatchInput, ConsumerInput, Input
from ringfence.connectors.sdk.egress import EgressDenied
from ringfence.fencing.clock import Deadline
from ringfence.fencing.fetching import fetched_batches
from ringfence.fencing.fetching.fetched_batches import FetchResponse
from ringfence.fencing.fetching.partition_reader import PartitionReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.task.plugin_metrics import Gauges
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.broker_connection import BrokerConnection
from ringfence.fencing.transactions.messages import ErrorResponse
from ringfence.fencing.transactions.settings import access_of
from ringfence.fencing.transactions.wire import NO_TAGS, Reader, array, boolean, string
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.batch_copies import reader_of, send, started
from tests.guarantees.copies import Copy, await_topic, committed, copy_settings, write
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.fetched import run_of
from tests.support.proxy import Fate, Proxied
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

FETCH = 1


def new_topic(bootstrap: str, name: str, partitions: int = 1, replication: int = 1) -> str:
    create_topics(Connection(bootstrap), [TopicSpec(name, partitions, replication=replication)], Deadline.after(30))
    reader = reader_of(bootstrap)
    reader.add({(name, number): 0 for number in range(partitions)})
    assert reader.poll(0.5) == []
    reader.close()
    return name


def read(reader: PartitionReader, wanted: int) -> list[int]:
    """The offsets of the next records, at least as many as are wanted."""
    found: list[int] = []

    def more() -> bool:
        for batch in reader.poll(1.0):
            found.extend(run_of(batch).offsets)
        return len(found) >= wanted

    eventually(more, 60, f"{wanted} records", pause=0)
    return found


@pytest.fixture
def topic(broker: Broker, unique: Callable[[str], str]) -> str:
    return new_topic(broker.bootstrap, unique("read"))


@pytest.fixture
def reader(broker: Broker) -> Iterator[PartitionReader]:
    made = reader_of(broker.bootstrap)
    yield made
    made.close()


@pytest.mark.parametrize("fate", [Fate.HOLD, Fate.LOSE_ANSWER])
def test_lost_requests_and_answers(proxied: Proxied, unique: Callable[[str], str], fate: Fate) -> None:
    topic = new_topic(proxied.direct.bootstrap, unique("lost"))
    reader = reader_of(proxied.through.bootstrap)
    reader.add({(topic, 0): 0})
    found: list[int] = []
    for start in range(0, 500, 100):
        proxied.proxy.set_trap(lambda each: each.api == FETCH, fate, 2)
        send(proxied.direct.bootstrap, topic, range(start + 1, start + 101))
        found += read(reader, 100)
    reader.close()
    assert found == list(range(500))


def test_a_broker_that_says_nothing_is_left(proxied: Proxied, unique: Callable[[str], str]) -> None:
    topic = new_topic(proxied.direct.bootstrap, unique("silent"))
    reader = reader_of(proxied.through.bootstrap, socket_timeout_ms="500")
    proxied.proxy.set_trap(lambda each: each.api == FETCH, Fate.SILENCE, 1)
    send(proxied.direct.bootstrap, topic, range(1, 101))
    reader.add({(topic, 0): 0})
    assert read(reader, 100) == list(range(100))
    reader.close()


def test_records_that_are_deleted_while_they_are_read(broker: Broker, topic: str, reader: PartitionReader) -> None:
    send(broker.bootstrap, topic, range(1, 101))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 50)]).values():
        future.result()
    reader.add({(topic, 0): 30})
    with pytest.raises(OutOfRange) as lost:
        reader.poll(30)
    assert (lost.value.place, lost.value.position) == ((topic, 0), 30)
    assert reader.positions == {}
    reader.add({(topic, 0): 50})
    assert read(reader, 50) == list(range(50, 100))


def test_a_topic_that_is_created_again_while_it_is_read(broker: Broker, topic: str, reader: PartitionReader) -> None:
    """Its new records have offsets that look like the next ones."""
    send(broker.bootstrap, topic, range(1, 51))
    reader.add({(topic, 0): 0})
    read(reader, 50)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for gone in admin.delete_topics([topic], operation_timeout=30).values():
        gone.result()
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, 30, "the end of the topic")
    create_topics(Connection(broker.bootstrap), [TopicSpec(topic)], Deadline.after(30))
    send(broker.bootstrap, topic, range(1, 101))

    def poll() -> bool:
        try:
            assert reader.poll(1.0) == [], "records of another topic"
        except RetriableError:  # while the topic is away
            return False
        return False

    with pytest.raises(ConnectorError, match="deleted and created again while it was read"):
        eventually(poll, 30, "an error")


def test_a_deleted_topic_is_told(broker: Broker, topic: str, reader: PartitionReader) -> None:
    reader.add({(topic, 0): 0})
    assert reader.poll(0.5) == []
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for gone in admin.delete_topics([topic], operation_timeout=30).values():
        gone.result()
    with pytest.raises(RetriableError, match="deleted, or does not exist yet"):
        reader.poll(30)


def test_a_partition_that_is_read_no_more(broker: Broker, unique: Callable[[str], str]) -> None:
    topic = new_topic(broker.bootstrap, unique("two"), 2)
    reader = reader_of(broker.bootstrap)
    reader.add({(topic, 0): 0, (topic, 1): 0})
    assert reader.poll(0.2) == []  # a request is on its way
    reader.remove([(topic, 0)])
    send(broker.bootstrap, topic, range(1, 51))
    assert reader.poll(1.5) == []
    reader.add({(topic, 0): 20})
    assert read(reader, 30) == list(range(20, 50))
    reader.close()


def test_all_partitions_have_their_turn(broker: Broker, unique: Callable[[str], str]) -> None:
    """An answer has room for one of them."""
    topic = new_topic(broker.bootstrap, unique("turns"), 3)
    for start in range(0, 2400, 300):
        write(broker.bootstrap, topic, range(start + 1, start + 301))
    reader = reader_of(broker.bootstrap, fetch_max_bytes="1024", max_partition_fetch_bytes="1024")
    reader.add({(topic, number): 0 for number in range(3)})
    turns: list[int] = []
    while len(turns) < 12:
        turns += [batch.partition for batch in reader.poll(30)]
    reader.close()
    assert {turns.count(number) for number in range(3)} == {4}


def test_only_allowed_addresses_are_reached(broker: Broker, topic: str) -> None:
    """The broker tells its own address: that is asked about, too."""

    def allow_none(host: str, port: int) -> list[str]:
        raise EgressDenied(f"{host}:{port} is not allowed")

    reader = PartitionReader({"bootstrap.servers": broker.bootstrap}, "read_committed", 1000, allow_none)
    reader.add({(topic, 0): 0})
    with pytest.raises(ConnectorError, match="is not allowed"):
        reader.poll(5)
    reader.close()


def test_brokers_that_are_not_reached_are_told() -> None:
    reader = reader_of("127.0.0.1:1")
    reader.add({("t", 0): 0})
    with pytest.raises(RetriableError, match="No broker of the source cluster is reached"):
        reader.poll(60)
    reader.close()


@dataclass(frozen=True, slots=True)
class AlterQuota:
    """Limits the rate of a client's reading, in bytes a second (KIP-546)."""

    api: ClassVar = 49
    versions: ClassVar = (1, 1)
    client_id: str
    rate: float

    def encode(self, version: int) -> list[bytes]:
        entity = array([string("client-id") + string(self.client_id) + NO_TAGS])
        limit = string("consumer_byte_rate") + struct.pack(">d", self.rate) + boolean(False) + NO_TAGS
        return [array([entity + array([limit]) + NO_TAGS]), boolean(False), NO_TAGS]

    def decode(self, version: int, reader: Reader) -> ErrorResponse:
        return ErrorResponse(reader.i32(), reader.array(reader.i16)[0])


def test_a_broker_that_throttles_is_left_alone_for_so_long(
    broker: Broker, topic: str, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = unique("slow")
    host, _, port = broker.bootstrap.partition(":")
    connection = BrokerConnection((host, int(port)), access_of("admin", {}, lambda host, port: [host]))
    connection.send(1, AlterQuota(client, 1000.0), time.monotonic(), 1)
    ((_, answer),) = eventually(connection.read, 30, "an answer")
    connection.close()
    assert isinstance(answer, ErrorResponse)
    assert answer.error == 0
    for start in (0, 100):
        send(broker.bootstrap, topic, range(start + 1, start + 101))
    free_at = 0.0
    throttled: list[int] = []
    early: list[float] = []
    take, start_request = PartitionReader._take, PartitionReader._send

    def note_answer(reader: PartitionReader, number: int, answer: object, now: float) -> None:
        nonlocal free_at
        if isinstance(answer, FetchResponse) and answer.throttle_ms:
            throttled.append(answer.throttle_ms)
            free_at = now + answer.throttle_ms / 1000
        take(reader, number, answer, now)

    def note_request(reader: PartitionReader, node: int, request: object, *more: Any) -> bool:
        if isinstance(request, fetched_batches.Fetch) and more[1] < free_at:
            early.append(free_at - more[1])
        return start_request(reader, node, request, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(PartitionReader, "_take", note_answer)
    monkeypatch.setattr(PartitionReader, "_send", note_request)
    limits = {"fetch_max_bytes": "1", "max_partition_fetch_bytes": "1"}
    reader = reader_of(broker.bootstrap, client_id=client, **limits)
    reader.add({(topic, 0): 0})
    assert read(reader, 200) == list(range(200))
    reader.close()
    assert throttled
    assert early == []


def copy_all(stage: Stage, topic: str, during: Callable[[], int], wait_s: float = 60) -> None:
    """Copy what `during` writes beside it, as it tells at its end; check that nothing is missing and nothing twice."""
    bootstrap, target = stage.connection.bootstrap, f"here.{topic}"
    with started(copy_settings(stage, topic)) as connector:
        (config,) = connector.task_configs(1)
    stage.configure(config)
    stage.count()
    copy = Copy(stage, config, 1)
    written = during()
    eventually(
        lambda: copy.outcome is not None or len(committed(bootstrap, target)) >= written, wait_s, "all", pause=0.2
    )
    assert copy.end().trace is None
    assert committed(bootstrap, target) == committed(bootstrap, topic)
    assert len(committed(bootstrap, target)) == written


class NewerFetch:
    """A request in versions that no broker has."""

    api: ClassVar = fetched_batches.Fetch.api
    versions: ClassVar = (99, 99)


@pytest.mark.parametrize("what", ["brokers", "records"])
def test_a_consumer_goes_on_where_batches_cannot_be_read(
    stage: Stage, topic: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Brokers before Kafka 2.7, or records from before 0.11: from the very next record on."""
    send(stage.connection.bootstrap, topic, range(1, 101))
    if what == "brokers":
        real_version = PartitionReader._version_of

        def version_of(self: PartitionReader, connection: BrokerConnection, request: object) -> int:
            asked = NewerFetch() if isinstance(request, fetched_batches.Fetch) else request
            return real_version(self, connection, asked)  # type: ignore[arg-type]

        monkeypatch.setattr(PartitionReader, "_version_of", version_of)
    real = fetched_batches.split_batches

    def split(topic: str, partition: int, data: bytes, start: int, *more: int) -> Iterator[fetched_batches.Fetched]:
        if start >= 100 and data:
            raise NotFetchable("an old format")
        return real(topic, partition, data, start, *more)

    monkeypatch.setattr("ringfence.fencing.fetching.partition_reader.split_batches", split)

    def during() -> int:
        eventually(lambda: len(committed(stage.connection.bootstrap, f"here.{topic}")) >= 100, 60, "100", pause=0.1)
        send(stage.connection.bootstrap, topic, range(101, 201))
        return 200

    copy_all(stage, topic, during)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_leaders_that_are_killed(brokers: list[EmbeddedKafka], unique: Callable[[str], str]) -> None:
    connection = Connection(",".join(each.bootstrap for each in brokers))
    stage = Stage(connection, unique("leaders"))
    topic = new_topic(connection.bootstrap, unique("led"), 6, 3)
    await_topic(stage, topic, 6)

    def during() -> int:
        written = 0
        for broker in (brokers[1], brokers[2], brokers[1]):  # the first one is the controller
            for _ in range(3):
                write(connection.bootstrap, topic, range(written + 1, written + 301))
                write(connection.bootstrap, topic, range(10**6 + written, 10**6 + written + 300), commit=False)
                written += 300
            broker.kill()
            write(connection.bootstrap, topic, range(written + 1, written + 301))
            written += 300
            broker.start()
        return written

    try:
        copy_all(stage, topic, during, 180)
    finally:
        stage.close()


def test_reading_goes_on_after_a_pause(broker: Broker, topic: str, reader: PartitionReader) -> None:
    """The answer that was on its way counts."""
    reader.add({(topic, 0): 0})
    assert reader.poll(0.2) == []
    send(broker.bootstrap, topic, range(1, 51))
    time.sleep(0.6)
    assert read(reader, 50) == list(range(50))


@pytest.mark.thorough
def test_processes_that_are_killed(stage: Stage, unique: Callable[[str], str]) -> None:
    """Each in another poll, most of them in the midst of a commit."""
    bootstrap = stage.connection.bootstrap
    topic = new_topic(bootstrap, unique("killed"), 3)
    for number in range(0, 30_000, 1000):
        write(bootstrap, topic, range(number + 1, number + 1001), commit=number % 5000 != 2000)
    wanted = len(committed(bootstrap, topic))
    settings = copy_settings(stage, topic, batch_size="400")
    with started(settings) as connector:
        (config,) = connector.task_configs(1)
    stage.configure(config)
    stage.count()
    target = f"here.{topic}"
    worker = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "60000"}
    numbers = [0]
    for attempt in range(1, 6):
        place = stage.place(attempt)
        spec = TaskSpec(stage.connection, stage.group, stage.topics, stage.task, place, "", config, config, worker)
        command = [sys.executable, "-m", "tests.guarantees.copy_process", spec.dumps(), str(3 * attempt)]
        assert subprocess.run(command, timeout=120, check=False).returncode == -signal.SIGKILL
        numbers.append(len(committed(bootstrap, target)))
    assert all(one < other for one, other in pairwise(numbers))
    assert numbers[-1] < wanted
    last = Copy(stage, config, 6)
    eventually(lambda: len(committed(bootstrap, target)) >= wanted, 60, "all records", pause=0.2)
    assert last.end().trace is None
    assert committed(bootstrap, target) == committed(bootstrap, topic)
    assert stage.counted().records == wanted


@pytest.mark.parametrize("fate", [Fate.HOLD, Fate.SILENCE], ids=["away", "silent"])
@pytest.mark.parametrize("kind", ["batches", "single records"])
def test_a_source_that_is_away_is_not_one_with_nothing_new(
    proxied: Proxied, unique: Callable[[str], str], kind: str, fate: Fate
) -> None:
    """Two errors come within 15 seconds, and no poll between them says that the source has answered."""
    topic, bootstrap = unique("away"), proxied.through.bootstrap
    new_topic(proxied.direct.bootstrap, topic)
    reads: Input = (
        BatchInput(reader_of(bootstrap), None, Gauges())
        if kind == "batches"
        else ConsumerInput(consumer({"bootstrap.servers": bootstrap}, "read_committed"), 100)
    )
    reads.assign({(topic, 0): 0})
    taken: list[Run] = []
    taker = SimpleNamespace(take_run=taken.append, take_whole=taken.extend)

    def answers() -> bool:
        with suppress(RetriableError):
            reads.poll(0.3, taker)
        return reads.has_answered

    try:
        eventually(answers, 30, "the source answers", pause=0)
        proxied.proxy.set_trap(lambda request: True, fate, times=2**31)
        if fate is Fate.HOLD:
            proxied.proxy.cut()
        refusals, deadline = 0, Deadline.after(15)
        while refusals < 2:
            assert not deadline.expired, f"{refusals} refusals"
            try:
                reads.poll(0.3, taker)
            except RetriableError:
                refusals += 1
            else:
                assert not (refusals and reads.has_answered), "it has not answered"
        proxied.proxy.clear()
        eventually(answers, 30, "the source answers again", pause=0)
        send(proxied.direct.bootstrap, topic, [1])
        eventually(lambda: answers() and bool(taken), 30, "the new record", pause=0)
    finally:
        reads.close()
