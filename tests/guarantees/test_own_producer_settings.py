"""What the settings of the producer of our own do, on a real broker."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from ringfence.connectors.sdk.kafka_settings.java_names import Role, translate
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fatal
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.fencing.transactions.producer import Producer
from ringfence.fencing.transactions.record_columns import RecordColumns
from tests.support.broker import running_kafka
from tests.support.encoded import read_numbers
from tests.support.proxy import Api, Fate, Proxied, Request
from tests.support.transaction_version import set_transaction_version
from tests.support.waiting import eventually

_Entry = AlterClientQuotasRequest.EntryData


def set_write_quota(connection: Connection, client_id: str, bytes_per_second: float) -> None:
    entry = _Entry(
        entity=[_Entry.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[_Entry.OpData(key="producer_byte_rate", value=bytes_per_second, remove=False)],
    )
    client = PythonClient(**connection.kafka_python())
    try:

        async def alter() -> int:
            answer = await client.send(AlterClientQuotasRequest(entries=[entry], validate_only=False))
            return int(answer.entries[0].error_code)

        assert client.run(alter) == 0
    finally:
        client.close()


pytestmark = pytest.mark.broker

METADATA = 3


class Scene:
    """A topic, and producers with Java's settings, through a proxy."""

    def __init__(self, proxied: Proxied, name: str) -> None:
        self.proxied, self.topic = proxied, name
        self._made: list[Producer] = []
        create_topics(proxied.direct, [TopicSpec(name)], Deadline.after(30))

    def producer(self, **settings: str) -> Producer:
        """Settings are given with `_` for `.`."""
        found = translate(Role.PRODUCER, {name.replace("_", "."): value for name, value in settings.items()})
        assert not found.errors
        producer = Producer(self.proxied.through, self.topic, overrides=found.settings)
        self._made.append(producer)
        producer.init(Deadline.after(30))
        producer.begin()
        return producer

    def watch(self, api: int) -> list[Request]:
        """The requests of a kind from now on."""
        return self.proxied.proxy.set_trap(lambda each: each.api == api, Fate.PASS, 1_000_000).caught

    def numbers(self) -> list[int]:
        return read_numbers(self.proxied.direct, self.topic, 1)[0]

    def close(self) -> None:
        for each in self._made:
            each.close()


@pytest.fixture
def scene(proxied: Proxied, unique: Callable[[str], str]) -> Iterator[Scene]:
    made = Scene(proxied, unique("settings"))
    yield made
    made.close()


def test_a_record_larger_than_a_request_is_refused_by_name_and_the_transaction_goes_on(scene: Scene) -> None:
    producer = scene.producer(max_request_size="20000")
    producer.produce(scene.topic, b"0")
    writes: list[Callable[[], None]] = [
        lambda: producer.produce(scene.topic, bytes(30_000)),
        lambda: producer.produce_columns(RecordColumns(scene.topic, -1, [bytes(30_000)])),
    ]
    for write in writes:
        says = rf"topic {scene.topic} takes 30,0\d\d bytes .* 20,000 .*max\.request\.size"
        with pytest.raises(Fatal, match=says) as info:
            write()
        assert info.value.code == "MESSAGE_TOO_LARGE"
    producer.produce(scene.topic, b"1")
    producer.commit(Deadline.after(30))
    assert scene.numbers() == [0, 1]


def test_a_record_larger_than_its_topic_accepts_names_topic_and_size(scene: Scene) -> None:
    small = f"{scene.topic}-small"
    create_topics(scene.proxied.direct, [TopicSpec(small, config={"max.message.bytes": "10000"})], Deadline.after(30))
    producer = scene.producer()
    producer.produce(small, bytes(20_000))
    says = rf"record for {small}-0 takes 20,0\d\d bytes .*MESSAGE_TOO_LARGE.*max\.message\.bytes"
    with pytest.raises(Fatal, match=says) as info:
        producer.commit(Deadline.after(30))
    assert info.value.code == "MESSAGE_TOO_LARGE"
    assert producer.abort(Deadline.after(30))


def test_no_request_is_larger_than_it_may_be(scene: Scene) -> None:
    producer = scene.producer(max_request_size="5000", batch_size="1000000")
    sent = scene.watch(Api.PRODUCE)
    for number in range(5000):
        producer.produce(scene.topic, b"%d" % number)
    producer.commit(Deadline.after(30))
    assert scene.numbers() == list(range(5000))
    assert len(sent) > 5
    assert max(len(each.frame) for each in sent) < 5000 + 200


def test_requests_go_one_at_a_time(scene: Scene) -> None:
    producer = scene.producer(max_in_flight_requests_per_connection="1", batch_size="100")
    most = 0
    for number in range(300):
        producer.produce(scene.topic, b"%d" % number)
        most = max(most, *producer.machine._in_flight.values(), 0)
    producer.commit(Deadline.after(30))
    assert most == 1
    assert scene.numbers() == list(range(300))


def test_a_batch_that_is_not_full_lingers(scene: Scene) -> None:
    """With the clock of the calls: nothing is sent without one, and nothing waits at a commit."""
    producer = scene.producer(linger_ms="1000")
    sent = scene.watch(Api.PRODUCE)
    started, size = time.monotonic(), 0
    while not sent:
        producer.produce_columns(RecordColumns(scene.topic, -1, [b"%d" % size]))
        size += 1
        time.sleep(0.01)
        assert time.monotonic() - started < 20
    assert time.monotonic() - started >= 1
    assert size > 1
    producer.produce(scene.topic, b"%d" % size)
    started = time.monotonic()
    producer.commit(Deadline.after(30))
    assert time.monotonic() - started < 1, "nothing waits at a commit"
    assert scene.numbers() == list(range(size + 1))


def test_a_small_transaction_is_one_request(scene: Scene) -> None:
    """Its records wait for the commit, which sends them together with what comes last."""
    other = f"{scene.topic}-offsets"
    create_topics(scene.proxied.direct, [TopicSpec(other)], Deadline.after(30))
    producer = scene.producer(linger_ms="1000")
    requests = []
    sent = scene.watch(Api.PRODUCE)
    for number in range(9):
        time.sleep(0.05)  # beyond the time in which the last one's markers may be missing
        before = len(sent)
        producer.produce_columns(RecordColumns(scene.topic, 0, [b"%d" % number]))
        producer.produce(other, b"2", b"key", 0)
        producer.commit(Deadline.after(30))
        requests.append(len(sent) - before)
        producer.begin()
    assert scene.numbers() == list(range(9))
    assert sorted(requests)[4] == 1  # more where one was refused, and sent again


def test_a_single_thread_that_only_produces_sends_what_is_due(scene: Scene) -> None:
    producer = scene.producer(linger_ms="0")
    sent = scene.watch(Api.PRODUCE)
    for number in range(200):
        producer.produce(scene.topic, b"%d" % number)
    eventually(lambda: sent, 30, "the first request")
    producer.commit(Deadline.after(30))
    assert scene.numbers() == list(range(200))


def test_calls_wait_for_metadata_no_longer_than_they_may(scene: Scene) -> None:
    producer = scene.producer(max_block_ms="300")
    scene.proxied.proxy.set_trap(lambda each: each.api == METADATA, Fate.SILENCE, 1_000_000)
    started = time.monotonic()
    with pytest.raises(Abortable, match=r"not found within 0\.3 s"):
        producer.produce(f"{scene.topic}-other", b"0")
    assert 0.3 <= time.monotonic() - started < 10


def test_calls_wait_for_room_no_longer_than_they_may(scene: Scene) -> None:
    producer = scene.producer(max_block_ms="300", buffer_memory="100000", batch_size="10000")
    scene.proxied.proxy.set_trap(lambda each: each.api == Api.PRODUCE, Fate.SILENCE, 1_000_000)
    started = time.monotonic()

    def write_on() -> None:
        for _ in range(100):
            producer.produce_columns(RecordColumns(scene.topic, -1, [bytes(1000)] * 20))

    with pytest.raises(Abortable, match=r"no room .* 0\.3 s \(max\.block\.ms\)"):
        write_on()
    assert 0.3 <= time.monotonic() - started < 10


def test_a_request_without_an_answer_is_given_up_and_sent_again(scene: Scene) -> None:
    producer = scene.producer(request_timeout_ms="300")
    trap = scene.proxied.proxy.set_trap(lambda each: each.api == Api.PRODUCE, Fate.SILENCE, 1)
    producer.produce(scene.topic, b"0")
    started = time.monotonic()
    producer.commit(Deadline.after(30))
    assert trap.caught
    assert 0.3 <= time.monotonic() - started < 10
    assert scene.numbers() == [0]


def test_a_broker_that_throttles_is_waited_for_and_not_given_up(scene: Scene) -> None:
    """It answers at once, says for how long it reads nothing more, and means it."""
    client = f"{scene.topic}-client"
    set_write_quota(scene.proxied.direct, client, 11_000)  # of the last ten seconds
    through = replace(scene.proxied.through, client_id=client)
    settings = translate(Role.PRODUCER, {"request.timeout.ms": "1000", "batch.size": "20000"}).settings
    producer = Producer(through, scene.topic, overrides=settings)
    producer.init(Deadline.after(30))
    muted: list[float] = []
    producer.begin()
    for number in range(100):
        producer.produce(scene.topic, b"%01500d" % number, None, 0)
        muted += producer.machine._muted_until.values()
    producer.commit(Deadline.after(60))
    producer.close()
    muted += producer.machine._muted_until.values()
    assert max(muted, default=0) > time.monotonic() - 60, "the broker has asked for pauses"
    assert producer._driver.last_trouble == "", "no connection was given up"
    assert scene.proxied.proxy.count(Api.PRODUCE) <= 12, "nothing was sent twice"
    assert scene.numbers() == list(range(100))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A broker that creates no topics by itself."""
    with running_kafka(tmp_path_factory.mktemp("strict"), auto_create_topics_enable="false") as kafka:
        yield Connection(kafka.bootstrap)


@pytest.mark.parametrize("version", [2, 1])
def test_a_topic_that_is_deleted_ends_the_transaction_soon_and_is_named(
    strict: Connection, unique: Callable[[str], str], version: int
) -> None:
    topic = unique("deleted")
    set_transaction_version(strict, version)
    create_topics(strict, [TopicSpec(topic)], Deadline.after(30))
    producer = Producer(strict, topic)
    producer.init(Deadline.after(30))

    def write(number: int) -> None:
        producer.produce(topic, b"%d" % number, None, 0)
        producer.flush(1)

    producer.begin()
    write(0)
    producer.commit(Deadline.after(30))
    delete_topics(strict, [topic], Deadline.after(30))
    producer.begin()
    started = time.monotonic()

    def write_on() -> None:
        for number in range(1000):
            write(number)

    with pytest.raises(Abortable, match=rf"topic {topic} was deleted\. Create it again") as info:
        write_on()
    assert info.value.code == "UNKNOWN_TOPIC_OR_PARTITION"
    assert time.monotonic() - started < 30, "not after the delivery timeout, which is 60 s"
    assert producer.abort(Deadline.after(30))
    create_topics(strict, [TopicSpec(topic)], Deadline.after(30))
    producer.begin()
    write(7)
    producer.commit(Deadline.after(30))
    assert read_numbers(strict, topic, 1)[0] == [7]
    producer.close()


def test_what_is_not_delivered_in_time_is_an_error(scene: Scene) -> None:
    producer = scene.producer(delivery_timeout_ms="500", request_timeout_ms="200")
    scene.proxied.proxy.set_trap(lambda each: each.api == Api.PRODUCE, Fate.SILENCE, 1_000_000)
    producer.produce(scene.topic, b"0")
    started = time.monotonic()
    with pytest.raises(Abortable, match=r"not written within 0\.5 s") as info:
        producer.commit(Deadline.after(30))
    assert info.value.code == "_MSG_TIMED_OUT"
    assert 0.5 <= time.monotonic() - started < 10


def test_requests_carry_the_clients_id_and_an_idle_connection_is_replaced(scene: Scene) -> None:
    producer = scene.producer(connections_max_idle_ms="100")
    sent = scene.watch(Api.PRODUCE)
    for number in range(2):
        producer.produce(scene.topic, b"%d" % number)
        producer.commit(Deadline.after(30))
        time.sleep(0.2)
        producer.begin()
    assert all(each.names(scene.proxied.through.client_id) for each in sent)
    # A connection begins to count anew. On a young broker the first request may be refused once, and repeated.
    assert sent[-1].correlation <= sent[0].correlation
    assert scene.numbers() == [0, 1]


def test_pauses_before_a_repetition_are_those_of_the_settings(scene: Scene) -> None:
    producer = scene.producer(reconnect_backoff_ms="400", reconnect_backoff_max_ms="400")
    times: list[float] = []

    def is_caught(request: Request) -> bool:
        if request.api == Api.PRODUCE:
            times.append(time.monotonic())
        return request.api == Api.PRODUCE

    scene.proxied.proxy.set_trap(is_caught, Fate.HOLD, 3)
    producer.produce(scene.topic, b"0")
    producer.commit(Deadline.after(30))
    assert len(times) >= 3
    assert all(later - earlier >= 0.3 for earlier, later in pairwise(times[:3]))
    assert scene.numbers() == [0]


@pytest.mark.parametrize("codec, level", [("gzip", "9"), ("lz4", "12"), ("zstd", "19")])
def test_a_codec_has_its_level(scene: Scene, codec: str, level: str) -> None:
    sizes = []
    for more in ({}, {f"compression_{codec}_level": level}):
        producer = scene.producer(compression_type=codec, **more)
        sent = scene.watch(Api.PRODUCE)
        for number in range(20_000):
            producer.produce(scene.topic, b"%d" % (number * 7919 % 20_000))
        producer.commit(Deadline.after(60))
        sizes.append(sum(len(each.frame) for each in sent))
        scene.proxied.proxy._traps.clear()
    assert sizes[1] != sizes[0]
    assert len(scene.numbers()) == 40_000
