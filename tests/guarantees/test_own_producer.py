"""The producer of our own on real brokers, with each version of transactions: whole, once, in order, or not at all.

Requests are lost, late and doubled on their way; connections break; partition leaders die.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from ringfence.connectors.api import ConnectorError
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fatal, Fenced, FencingError, Retriable, UnknownOutcome
from ringfence.fencing.fetching.partition_reader import PartitionReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.open_transactions import TransactionProber
from ringfence.fencing.kafka.partitioner import partition_of
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.broker_connection import Lane
from ringfence.fencing.transactions.compression import CODECS
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.kafka_login import KafkaLogin
from ringfence.local.ports import free_port
from tests.support.broker import new_kafka
from tests.support.encoded import encode, read_numbers
from tests.support.fetched import run_of
from tests.support.older_kafka import OlderKafka
from tests.support.proxy import Api, Fate, Proxied, proxied_kafka
from tests.support.transaction_version import set_transaction_version
from tests.support.waiting import eventually

DESCRIBE_CONFIGS = 32
DATA = 2
"""Partitions of the topic with the numbers."""
_numbers = count()


@dataclass
class World:
    """A broker with transactions of this version, behind a proxy."""

    version: int
    proxied: Proxied


OLDER = -1
"""In place of a level: a broker of an older release, which has no such levels."""


@pytest.fixture(
    scope="module",
    params=[
        2,
        pytest.param(1, marks=pytest.mark.thorough),
        pytest.param(0, marks=pytest.mark.thorough),
        pytest.param(OLDER, marks=pytest.mark.slow),
    ],
    ids=lambda level: "v3.9" if level == OLDER else f"v{level}",
)
def _world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    older = request.param == OLDER
    with proxied_kafka(tmp_path_factory.mktemp("world"), OlderKafka if older else EmbeddedKafka) as made:
        if not older:
            set_transaction_version(made.direct, request.param)
        yield World(request.param, made)


class Scene:
    """Topics of their own, and producers with one transactional id, through the proxy."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.proxy = world.proxied.proxy
        self.direct, self.through = world.proxied.direct, world.proxied.through
        self.data, self.offsets, self.id = f"{name}-data", f"{name}-offsets", f"{name}-id"
        specs = [TopicSpec(self.data, partitions=DATA), TopicSpec(self.offsets)]
        create_topics(self.direct, specs, Deadline.after(30))
        self._producers: list[Producer] = []

    @property
    def implicit(self) -> bool:
        return self.world.version == 2

    def new_producer(self, **overrides: object) -> Producer:
        producer = Producer(self.through, self.id, transaction_timeout_ms=20_000, overrides=overrides or None)
        self._producers.append(producer)
        producer.init(Deadline.after(30))
        assert producer.machine.implicit == self.implicit
        return producer

    def write(self, producer: Producer, first: int, size: int) -> None:
        """Begin a transaction with these numbers in each partition, and their end in the other topic."""
        producer.begin()
        for number in range(first, first + size):
            for partition in range(DATA):
                producer.produce(self.data, b"%d" % number, None, partition)
        producer.produce(self.offsets, b"%d" % (first + size), b"key")

    def visible(self) -> list[int]:
        """What a read_committed reader sees, which must be the same in each partition."""
        found = read_numbers(self.direct, self.data, DATA)
        assert found[0] == found[1], "a torn transaction"
        return found[0]

    def committed(self) -> int:
        return max(read_numbers(self.direct, self.offsets, 1)[0], default=0)

    def is_over(self) -> bool:
        with TransactionProber(self.direct) as prober:
            return not prober.transactions([self.id], Deadline.after(30))[0].open

    def close(self) -> None:
        for producer in self._producers:
            producer.close()


@pytest.fixture
def scene(_world: World, unique: Callable[[str], str]) -> Iterator[Scene]:
    made = Scene(_world, unique("own"))
    yield made
    made.close()
    _world.proxied.proxy.clear()


def test_transactions_are_whole_and_in_order(scene: Scene) -> None:
    producer = scene.new_producer()
    for number in range(6):
        scene.write(producer, number * 500, 500)
        producer.commit(Deadline.after(30))
        assert not producer.spent
    assert scene.visible() == list(range(3000))
    epochs = 6 if scene.implicit else 0
    assert producer.epoch == epochs, "each transaction has an epoch of its own, and only with transactions v2"


def test_small_transactions_ask_once_how_long_leaders_wait(scene: Scene) -> None:
    """The embedded broker's wait a millisecond, so with transactions v2 partitions are added by Produce requests."""
    producer = scene.new_producer()
    asked = scene.proxy.set_trap(lambda each: each.api in (Api.ADD_PARTITIONS, DESCRIBE_CONFIGS), Fate.PASS, 1000)
    for number in range(30):
        scene.write(producer, number, 1)
        producer.commit(Deadline.after(30))
    assert scene.visible() == list(range(30))
    kinds = [each.api for each in asked.caught]
    assert kinds.count(DESCRIBE_CONFIGS) == (1 if scene.implicit else 0)
    if scene.implicit:
        assert kinds.count(Api.ADD_PARTITIONS) <= 5, "after the answer there are no more"


def test_an_abort_takes_everything_back_and_the_producer_goes_on(scene: Scene) -> None:
    producer = scene.new_producer()
    scene.write(producer, 0, 100)
    producer.commit(Deadline.after(30))
    for wait in (True, False):  # with all answers, and with requests on their way
        scene.write(producer, 100, 3000)
        assert not wait or producer.flush(30) == 0
        assert producer.abort(Deadline.after(30))
        assert not producer.spent
    scene.write(producer, 100, 100)
    producer.commit(Deadline.after(30))
    assert scene.visible() == list(range(200))


def test_nothing_and_little_can_be_committed_and_aborted(scene: Scene) -> None:
    producer = scene.new_producer()
    for _ in range(2):
        producer.begin()
        producer.commit(Deadline.after(30))
        producer.begin()
        assert producer.abort(Deadline.after(30))
    scene.write(producer, 0, 1)
    producer.commit(Deadline.after(30))
    assert scene.visible() == [0]


@pytest.mark.parametrize("codec", CODECS)
def test_brokers_and_clients_read_each_codec(scene: Scene, codec: str) -> None:
    producer = scene.new_producer(**{"compression.type": codec})
    scene.write(producer, 0, 20_000)
    producer.commit(Deadline.after(30))
    assert scene.visible() == list(range(20_000))


def test_keys_headers_times_and_tombstones_arrive(scene: Scene) -> None:
    producer = scene.new_producer()
    producer.begin()
    now_ms = int(time.time() * 1000)
    for number in range(20):
        key = b"%d" % number
        value = None if number % 2 else key
        producer.produce(scene.data, value, key, -1, now_ms - number, [("h", key)])
    producer.commit(Deadline.after(30))
    log = TopicLog(scene.direct, scene.data)
    records = list(log.read_to_end(Deadline.after(30)))
    log.close()
    assert {(each.key, each.value) for each in records} == {
        (b"%d" % number, None if number % 2 else b"%d" % number) for number in range(20)
    }
    assert all(each.partition == partition_of(each.key or b"", DATA) for each in records)


def test_records_without_keys_come_to_all_partitions(scene: Scene) -> None:
    producer = scene.new_producer(**{"batch.size": 200})
    producer.begin()
    for number in range(300):
        producer.produce(scene.data, b"%d" % number)
    producer.commit(Deadline.after(30))
    found = read_numbers(scene.direct, scene.data, DATA)
    assert sorted(found[0] + found[1]) == list(range(300))
    assert found[0] == sorted(found[0])
    assert found[1] == sorted(found[1])
    assert min(map(len, found.values())) > 50


def test_a_batch_too_large_for_its_topic_is_split(scene: Scene) -> None:
    small = f"{scene.data}-small"
    create_topics(scene.direct, [TopicSpec(small, config={"max.message.bytes": "10000"})], Deadline.after(30))
    producer = scene.new_producer()
    producer.begin()
    for number in range(8000):
        producer.produce(small, b"%d" % number)
    producer.commit(Deadline.after(30))
    assert read_numbers(scene.direct, small, 1)[0] == list(range(8000))
    producer.begin()
    producer.produce(small, bytes(20_000))
    with pytest.raises(Fatal, match="MESSAGE_TOO_LARGE"):
        producer.commit(Deadline.after(30))
    assert producer.abort(Deadline.after(30))
    eventually(scene.is_over, 10, "the markers")


def test_encoded_batches_are_in_the_transaction(scene: Scene) -> None:
    producer = scene.new_producer()
    producer.begin()
    for first in range(0, 100, 10):
        values = [b"%d" % number for number in range(first, first + 10)]
        producer.send_batches([encode(values, scene.data, partition) for partition in range(DATA)])
    producer.produce(scene.offsets, b"100", b"key")
    producer.commit(Deadline.after(30))
    assert scene.visible() == list(range(100))


def test_a_successor_fences(scene: Scene) -> None:
    older = scene.new_producer()
    scene.write(older, 0, 10)
    assert older.flush(30) == 0
    newer = scene.new_producer()
    with pytest.raises(Fenced):
        older.commit(Deadline.after(30))
    assert older.spent
    scene.write(newer, 0, 5)
    newer.commit(Deadline.after(30))
    with pytest.raises(Fenced):
        older.begin()
    assert scene.visible() == list(range(5))


def test_a_topic_that_does_not_exist_and_a_partition_that_does_not(scene: Scene) -> None:
    producer = scene.new_producer()
    producer.begin()
    producer.produce(scene.data, b"0", None, 7)
    with pytest.raises(Fatal, match=r"names partition 7 of topic .* which has 2"):
        producer.commit(Deadline.after(30))
    assert producer.abort(Deadline.after(30))
    producer.begin()
    with pytest.raises(FencingError, match="INVALID_TOPIC"):
        producer.produce("no topic has such a name", b"0")
    assert producer.abort(Deadline.after(30))


@pytest.mark.parametrize("partitions", [DATA, 1])
def test_a_topic_that_is_created_again_in_the_midst_is_an_error_at_once(scene: Scene, partitions: int) -> None:
    """Whatever the version: of the transaction's records, those of the first topic are gone."""
    producer = scene.new_producer()
    scene.write(producer, 0, 10)
    assert producer.flush(30) == 0
    delete_topics(scene.direct, [scene.data], Deadline.after(30))
    create_topics(scene.direct, [TopicSpec(scene.data, partitions=partitions)], Deadline.after(30))
    started = time.monotonic()

    def write_on() -> None:
        for number in range(10, 1000):
            producer.produce(scene.data, b"%d" % number, None, partitions - 1)
            producer.flush(30)

    with pytest.raises(FencingError, match=r"created again|names partition"):
        write_on()
    assert time.monotonic() - started < 10
    if producer.abort(Deadline.after(30)):
        producer.begin()
        producer.produce(scene.data, b"7", None, 0)
        producer.commit(Deadline.after(30))
        assert read_numbers(scene.direct, scene.data, partitions)[0] == [7]


def test_a_partition_that_a_new_topic_does_not_have_is_an_error_at_once(scene: Scene) -> None:
    producer = scene.new_producer()
    scene.write(producer, 0, 10)
    assert producer.flush(30) == 0
    delete_topics(scene.direct, [scene.data], Deadline.after(30))
    create_topics(scene.direct, [TopicSpec(scene.data)], Deadline.after(30))
    started = time.monotonic()
    producer.produce(scene.data, b"10", None, 1)
    with pytest.raises(FencingError, match=r"created again|names partition"):
        producer.commit(Deadline.after(30))
    assert time.monotonic() - started < 10


def test_group_offsets_are_committed_with_the_transaction(scene: Scene) -> None:
    group = f"{scene.id}-group"
    consumer = Consumer(
        scene.direct.for_reading(group_id=group, enable_auto_commit=False, auto_offset_reset="earliest")
    )
    try:
        consumer.subscribe([scene.data])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), 30, "the assignment")
        metadata = consumer.consumer_group_metadata()
        producer = scene.new_producer()
        for position, ending in ((7, "abort"), (5, "commit")):
            scene.write(producer, 0, 5)
            producer.send_offsets([(scene.data, 0, position)], metadata, Deadline.after(30))
            if ending == "commit":
                producer.commit(Deadline.after(30))
            else:
                assert producer.abort(Deadline.after(30))
        eventually(scene.is_over, 10, "the markers")
        ((where),) = consumer.committed([each for each in consumer.assignment() if each.partition == 0], timeout=30)
        assert where.offset == 5
        lanes = {each.lane for each in producer._driver._connections}
        assert lanes == ({Lane.ALL, Lane.GROUP} if producer.transactions_v2 else {Lane.ALL})
        consumer.unsubscribe()
        eventually(lambda: consumer.poll(0.1) is None and not consumer.assignment(), 30, "leaving the group")
        scene.write(producer, 5, 5)
        with pytest.raises(Fenced):
            producer.send_offsets([(scene.data, 0, 9)], metadata, Deadline.after(30))
    finally:
        consumer.close()
    assert scene.visible() == list(range(5))


REQUESTS = [Api.PRODUCE, Api.ADD_PARTITIONS, Api.END_TXN, Api.INIT_PRODUCER_ID]
FATES = [Fate.HOLD, Fate.LOSE_ANSWER, Fate.SILENCE, Fate.PASS]


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.name.lower())
@pytest.mark.parametrize("api", REQUESTS, ids=lambda api: api.name.lower())
def test_lost_late_and_doubled_requests_change_nothing(scene: Scene, api: Api, fate: Fate) -> None:
    """PASS: the request goes its way. Each caught request comes to the broker again in the next transaction."""
    producer = scene.new_producer()
    position = 0
    for ending in ("commit", "abort", "commit", "commit"):
        trap = scene.proxy.set_trap(lambda request: request.api == api, fate)
        scene.write(producer, position, 50)
        if ending == "abort":
            producer.flush(0.01)
            confirmed = producer.abort(Deadline.after(30))
        else:
            producer.commit(Deadline.after(30))
            position, confirmed = position + 50, True
        if producer.spent:
            assert not scene.implicit
            assert not confirmed
            producer = scene.new_producer()
        scene.write(producer, position, 50)
        producer.flush(30)
        if trap.caught and not (fate is Fate.PASS and not scene.implicit):
            # Doubled without any sign of it: with older transactions no client can tell.
            for each in trap.caught:
                scene.proxy.deliver(each)
        scene.proxy._traps.clear()
        try:
            producer.commit(Deadline.after(30))
            position += 50
        except (Fenced, Abortable):
            # A late InitProducerId fences even its own producer: nothing is lost, and another one goes on.
            assert api is Api.INIT_PRODUCER_ID
            producer = scene.new_producer()
    eventually(scene.is_over, 10, "the markers")
    assert scene.visible() == list(range(position))
    assert scene.committed() == position


def test_with_transactions_v2_requests_that_are_doubled_do_nothing(scene: Scene) -> None:
    """Each request of a transaction comes to the broker again, over another connection: beside the next ones, or later.

    With older transactions no client survives that, since nobody can tell the copy from a request of the next one.
    """
    if not scene.implicit:
        pytest.skip("nothing protects older transactions from it")
    chance, over = random.Random(7), threading.Event()
    apis = (Api.PRODUCE, Api.ADD_PARTITIONS, Api.END_TXN)
    trap = scene.proxy.set_trap(lambda request: request.api in apis, Fate.PASS, 1_000_000)
    copies = 0

    def double() -> None:
        nonlocal copies
        while not over.is_set() or copies < len(trap.caught):
            if copies < len(trap.caught):
                scene.proxy.deliver(trap.caught[copies])
                copies += 1
            over.wait(chance.choice([0, 0, 0.001, 0.05]))

    thread = threading.Thread(target=double, daemon=True)
    thread.start()
    producer, position = scene.new_producer(), 0
    try:
        for number in range(80):
            scene.write(producer, position, 20)
            if number % 5 == 4:
                producer.flush(0.001)
                assert producer.abort(Deadline.after(30))
            else:
                producer.commit(Deadline.after(30))
                position += 20
            assert not producer.spent
    finally:
        over.set()
        thread.join(120)
    assert copies >= 160
    eventually(scene.is_over, 10, "the markers")
    assert scene.visible() == list(range(position))
    assert scene.committed() == position


def test_connections_that_break_at_any_moment(scene: Scene) -> None:
    """A task's way: after an error, go on from what is committed."""
    chance = random.Random(scene.world.version)
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(chance.uniform(0, 0.1)):
            scene.proxy.cut()

    thread = threading.Thread(target=cut, daemon=True)
    thread.start()
    producer, position, errors = scene.new_producer(), 0, 0
    try:
        for _ in range(60):
            try:
                scene.write(producer, position, 400)
                if chance.random() < 0.2:
                    producer.abort(Deadline.after(30))
                else:
                    producer.commit(Deadline.after(30))
                    position += 400
            except (UnknownOutcome, Abortable, Fenced):
                errors += 1
                producer = scene.new_producer()
                position = scene.committed()
            if producer.spent:
                producer = scene.new_producer()
                position = scene.committed()
    finally:
        stop.set()
        thread.join()
    eventually(scene.is_over, 10, "the markers")
    assert scene.visible() == list(range(position))
    print(f"{position} numbers, {errors} errors")
    assert not scene.implicit or errors == 0, "with transactions v2 nothing is left to doubt"


def test_a_fence_that_meets_a_commit_fails_neither_side_for_good(scene: Scene) -> None:
    """A coordinator that is asked for both at once answers one of them with UNKNOWN_SERVER_ERROR."""
    chance, over, due, failures = random.Random(scene.world.version), threading.Event(), threading.Event(), list[str]()

    def fence() -> None:
        with Fencer(scene.direct) as fencer:
            while not over.is_set():
                if due.wait(0.1):
                    due.clear()
                    time.sleep(chance.uniform(0, 0.004))
                    try:
                        fencer.fence([scene.id], Deadline.after(30))
                    except FencingError as error:
                        failures.append(str(error))

    thread = threading.Thread(target=fence, daemon=True)
    producer, position, codes = scene.new_producer(), 0, Counter[str]()
    thread.start()
    try:
        for number in range(120):
            try:
                scene.write(producer, position, 3)
                if number % 2:
                    due.set()
                producer.commit(Deadline.after(30))
                position += 3
            except (UnknownOutcome, Abortable, Fenced) as error:
                codes[str(error.code)] += 1
                producer = scene.new_producer()
                position = scene.committed()
    finally:
        over.set()
        thread.join(60)
    eventually(scene.is_over, 10, "the markers")
    assert scene.visible() == list(range(scene.committed()))
    print(f"{scene.committed()} numbers, {dict(codes)}")
    assert failures == []


def test_versions_that_change_while_a_producer_lives(proxied: Proxied, unique: Callable[[str], str]) -> None:
    scene = Scene(World(2, proxied), unique("changing"))
    producer = scene.new_producer()
    position, implicit = 0, []
    try:
        for level in (2, 1, 2, 1):
            set_transaction_version(scene.direct, level)
            for cut in (False, True):
                if cut:
                    scene.proxy.cut()
                for _ in range(3):
                    try:
                        scene.write(producer, position, 20)
                        producer.commit(Deadline.after(30))
                    except Abortable:
                        assert producer.spent
                        producer = Producer(scene.through, scene.id)
                        producer.init(Deadline.after(30))
                        assert scene.committed() == position
                        scene.write(producer, position, 20)
                        producer.commit(Deadline.after(30))
                    position += 20
            implicit.append(producer.machine.implicit)
        assert implicit == [True, False, True, False], "a new connection tells"
        assert scene.visible() == list(range(position))
    finally:
        set_transaction_version(scene.direct, 2)
        scene.close()


@pytest.mark.thorough
def test_a_version_that_was_lowered_to_0_says_what_ends_the_trouble(tmp_path: Path) -> None:
    """A bug of Kafka (4.3): its coordinator cannot write an id that has had a transaction of version 2 in the form of
    version 0, keeps the failed change as one under way, and refuses the id to every client from then on.
    """
    kafka = new_kafka(tmp_path)
    kafka.start()
    direct = Connection(kafka.bootstrap)
    made: list[Producer] = []

    def write(number: int) -> None:
        made.append(Producer(direct, "lowered"))
        made[-1].init(Deadline.after(3))
        made[-1].begin()
        made[-1].produce("t", b"%d" % number)
        made[-1].commit(Deadline.after(30))

    try:
        create_topics(direct, [TopicSpec("t")], Deadline.after(30))
        write(0)
        set_transaction_version(direct, 0)
        with pytest.raises(Fatal, match=r"UNSUPPORTED_VERSION.*lowered.*set transaction\.version to 1.*restart"):
            write(1)
        with pytest.raises(
            Retriable, match=r"CONCURRENT_TRANSACTIONS.*lowered.*set transaction\.version to 1.*restart"
        ):
            write(1)
        set_transaction_version(direct, 1)
        kafka.stop()
        kafka.start()
        write(1)
        assert read_numbers(direct, "t", 1)[0] == [0, 1]
    finally:
        for each in made:
            each.close()
        kafka.kill()


def test_a_login_by_scram_and_one_that_is_refused(tmp_path: Path, unique: Callable[[str], str]) -> None:
    login = KafkaLogin.new()
    kafka = EmbeddedKafka(
        tmp_path / "kafka",
        free_port(),
        tmp_path / "log",
        login=login,
        short_lived=True,
        properties={"connections.max.reauth.ms": "2000"},
    )
    kafka.start()
    try:
        good = Connection(kafka.bootstrap, login.librdkafka_settings())
        create_topics(good, [TopicSpec("t")], Deadline.after(30))
        producer = Producer(good, unique("login"))
        producer.init(Deadline.after(30))
        cluster = {**login.librdkafka_settings(), "bootstrap.servers": kafka.bootstrap}
        reader = PartitionReader(cluster, "read_committed", 2**31, lambda host, _: [host])
        reader.add({("t", 0): 0})
        values: list[bytes | None] = []
        end = time.monotonic() + 5  # longer than a login is good for
        written = 0
        while time.monotonic() < end:
            producer.begin()
            producer.produce("t", b"%d" % written)
            producer.commit(Deadline.after(30))
            written += 1
            for batch in reader.poll(0.1):
                values += run_of(batch).values
        assert read_numbers(good, "t", 1)[0] == list(range(written))
        while len(values) < written:
            for batch in reader.poll(30):
                values += run_of(batch).values
        reader.close()
        assert values == [b"%d" % number for number in range(written)]
        producer.close()
        bad = Producer(Connection(kafka.bootstrap, {**login.librdkafka_settings(), "sasl.password": "wrong"}), "bad")
        with pytest.raises(Fatal, match=r"login .* was refused"):
            bad.init(Deadline.after(30))
        bad.close()
        stranger = PartitionReader({**cluster, "sasl.password": "wrong"}, "read_committed", 1, lambda host, _: [host])
        stranger.add({("t", 0): 0})
        with pytest.raises(ConnectorError, match=r"login .* was refused"):
            stranger.poll(30)
        stranger.close()
    finally:
        kafka.kill()
