"""KafkaSource passes record batches on whole: the target has the same bytes, and records as exact as one by one."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from ringfence.connectors.api.fetching import Run
from ringfence.fencing.clock import Deadline
from ringfence.fencing.fetching import fetched_batches
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.batch_copies import batches_of, copied, counted, fetched, offsets_of, reader_of, send, started
from tests.guarantees.copies import Copy, await_topic, committed, copy_settings, write
from tests.guarantees.stage import Stage
from tests.support.broker import running_kafka
from tests.support.waiting import eventually

HAS_DELETE_HORIZON = 0x40
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NewTopic = Callable[..., dict[str, str]]


def new_topic(stage: Stage, name: str, partitions: int = 1, **config: str) -> str:
    topic = f"{stage.data}-{name}"
    given = {key.replace("_", "."): value for key, value in config.items()}
    create_topics(stage.connection, [TopicSpec(topic, partitions, config=given)], Deadline.after(30))
    await_topic(stage, topic, partitions)
    return topic


def assert_same(stage: Stage, topic: str) -> None:
    bootstrap = stage.connection.bootstrap
    assert committed(bootstrap, f"here.{topic}") == committed(bootstrap, topic)


@pytest.mark.parametrize("codec", CODECS)
def test_batches_arrive_as_they_came(stage: Stage, codec: str) -> None:
    """In one topic compressed by librdkafka, in the other by the broker's Java."""
    bootstrap = stage.connection.bootstrap
    ours, java = (
        new_topic(stage, "client"),
        new_topic(stage, "broker", compression_type=codec.replace("none", "uncompressed")),
    )
    for start in (1, 1001):
        send(bootstrap, ours, range(start, start + 200), compression_type=codec)
        send(bootstrap, java, range(start, start + 200))
    for topic in (ours, java):
        create_topics(stage.connection, [TopicSpec(f"here.{topic}")], Deadline.after(30))  # keeps any compression
        await_topic(stage, f"here.{topic}", 1)
    assert copied(stage, copy_settings(stage, f"{ours},{java}"), 800) == {"": 800}
    for topic in (ours, java):
        found = batches_of(bootstrap, topic)
        assert [(batch.number, batch.codec) for batch in found] == [(200, CODECS.index(codec))] * 2
        assert batches_of(bootstrap, f"here.{topic}") == found
        assert_same(stage, topic)
    assert stage.counted().records == 800


def test_aborted_records_and_markers_are_left_out(stage: Stage) -> None:
    topic = new_topic(stage, "mixed", 3)
    bootstrap = stage.connection.bootstrap
    write(bootstrap, topic, range(1, 151))
    write(bootstrap, topic, range(1000, 1150), commit=False)
    write(bootstrap, topic, range(151, 301))
    write(bootstrap, topic, range(2000, 2150), commit=False)
    assert copied(stage, copy_settings(stage, topic), 300) == {"": 300}
    assert_same(stage, topic)
    assert len(committed(bootstrap, f"here.{topic}")) == 300
    offsets = stage._read_offsets()
    for partition in range(3):
        # 50 records and a marker, four times; the last delivered record is of the third transaction.
        place = {"cluster": "here", "topic": topic, "partition": partition}
        assert offsets.offset(place) == {"offset": 151}
    assert stage.counted().records == 300


def test_records_behind_an_open_transaction_wait_for_its_end(stage: Stage) -> None:
    from confluent_kafka import Producer

    topic = new_topic(stage, "open")
    bootstrap = stage.connection.bootstrap
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(50):
        producer.produce(topic, b"%d" % number, None, 0)
    producer.flush(30)
    send(bootstrap, topic, range(100, 150))
    reader = reader_of(bootstrap)
    try:
        reader.add({(topic, 0): 0})
        assert reader.poll(1.0) == []
        uncommitted = reader_of(bootstrap, "read_uncommitted")
        uncommitted.add({(topic, 0): 0})
        assert sum(batch.count for batch in uncommitted.poll(30)) == 100
        uncommitted.close()
        producer.commit_transaction(30)
        assert sum(batch.count for batch in reader.poll(30)) == 100
    finally:
        reader.close()


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that compacts at once."""
    with running_kafka(tmp_path_factory.mktemp("cleaning"), log_cleaner_backoff_ms="100") as kafka:
        yield kafka


def compact(stage: Stage, topic: str) -> None:
    """Wait until the topic's first batches have gaps, and one that is whole has a delete horizon."""
    bootstrap = stage.connection.bootstrap

    def is_clean() -> bool:
        batches = fetched(bootstrap, topic)
        gaps = [batch.count < batch.last - batch.first + 1 for batch in batches]
        horizons = [bool(batch.attributes & HAS_DELETE_HORIZON) for batch in batches]
        return (True, True) in zip(gaps, horizons, strict=True) and (False, True) in zip(gaps, horizons, strict=True)

    eventually(is_clean, 90, "compaction", pause=0.2)


def compacted_topic(stage: Stage) -> str:
    topic = new_topic(
        stage,
        "compacted",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_ms="100",
        delete_retention_ms="86400000",
    )
    bootstrap = stage.connection.bootstrap
    send(bootstrap, topic, range(1, 101))
    send(bootstrap, topic, range(40, 61))  # the same keys: a gap in the midst of the first batch
    send(bootstrap, topic, range(200, 300))  # stays whole, with tombstones
    for number in range(400, 403):  # rolls the segment
        send(bootstrap, topic, [number])
    compact(stage, topic)
    return topic


def copy_compacted(stage: Stage) -> dict[str, float]:
    """Copy a compacted topic, and check the copy; return how its records went."""
    topic = compacted_topic(stage)
    records = len(committed(stage.connection.bootstrap, topic))
    settings = copy_settings(stage, topic, config_properties_exclude="cleanup.policy,segment.ms")
    numbers = copied(stage, settings, records)
    assert_same(stage, topic)
    offsets = offsets_of(stage.connection.bootstrap, f"here.{topic}")
    assert all(one < other for one, other in pairwise(offsets))
    assert stage.counted().records == records
    return numbers


@pytest.fixture
def cleaned(cleaning: EmbeddedKafka, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(cleaning.bootstrap), unique("clean"))
    yield made
    made.close()


def test_compacted_batches_go_record_by_record(cleaned: Stage) -> None:
    numbers = copy_compacted(cleaned)
    assert numbers[fetched_batches.GAPS] == 79
    assert numbers[""] == 100
    assert numbers[fetched_batches.SMALL] == 24


@pytest.mark.thorough
def test_batches_with_gaps_must_not_go_whole(cleaned: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker takes them, and gives the next batch offsets that some of their records have already."""
    ignore(fetched_batches.GAPS)(monkeypatch)
    with pytest.raises(AssertionError, match="where False = all"):
        copy_compacted(cleaned)


def test_reading_that_begins_in_the_midst_of_a_batch(stage: Stage) -> None:
    topic = new_topic(stage, "midst")
    bootstrap, target = stage.connection.bootstrap, f"here.{topic}"
    send(bootstrap, topic, range(1, 101))
    send(bootstrap, topic, range(101, 201))
    settings = copy_settings(stage, topic, batch_size="30")
    with started(settings) as connector:
        (config,) = connector.task_configs(1)
        stage.configure(config)
        stage.count()
        died = Copy(stage, config, 1, die_at=3).ended()
    assert "the task dies here" in str(died.trace)
    delivered = len(committed(bootstrap, target))
    assert delivered in (30, 60)
    del settings["batch.size"]
    assert copied(stage, settings, 200, 2) == {"midst": 100 - delivered, "": 100}
    assert_same(stage, topic)
    assert stage.counted().records == 200


def test_the_brokers_times_are_kept(stage: Stage) -> None:
    topic = new_topic(stage, "append", message_timestamp_type="LogAppendTime")
    send(stage.connection.bootstrap, topic, range(1, 101))
    settings = copy_settings(stage, topic, config_properties_exclude="message.timestamp.type")
    assert copied(stage, settings, 100) == {"": 0, "append_time": 100}
    assert_same(stage, topic)


def test_a_target_that_takes_less(stage: Stage) -> None:
    """The broker refuses the whole batch, and gets its records in parts."""
    topic = new_topic(stage, "large")
    bootstrap = stage.connection.bootstrap
    send(bootstrap, topic, range(1, 1001))
    (batch,) = batches_of(bootstrap, topic)
    assert len(batch.records) > 50_000
    create_topics(
        stage.connection, [TopicSpec(f"here.{topic}", 1, config={"max.message.bytes": "20000"})], Deadline.after(30)
    )
    await_topic(stage, f"here.{topic}", 1)
    assert copied(stage, copy_settings(stage, topic), 1000) == {"": 1000}
    assert_same(stage, topic)


def test_a_producer_that_sends_less(stage: Stage) -> None:
    topic = new_topic(stage, "limited")
    send(stage.connection.bootstrap, topic, range(1, 1001))
    settings = copy_settings(stage, topic, producer_override_max_request_size="30000")
    assert copied(stage, settings, 1000) == {"": 0, "large": 1000}
    assert_same(stage, topic)


def test_the_partition_stays_where_the_target_has_more(stage: Stage) -> None:
    topic = new_topic(stage, "few", 3)
    create_topics(stage.connection, [TopicSpec(f"here.{topic}", 5)], Deadline.after(30))
    await_topic(stage, f"here.{topic}", 5)
    write(stage.connection.bootstrap, topic, range(1, 151))
    assert copied(stage, copy_settings(stage, topic), 150) == {"": 150}
    assert_same(stage, topic)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batches_without_headers_go_whole_past_a_header_converter(stage: Stage, codec: str) -> None:
    topic, bootstrap = new_topic(stage, "plain"), stage.connection.bootstrap
    send(bootstrap, topic, range(1, 201), with_headers=False, compression_type=codec)
    send(bootstrap, topic, range(201, 301), compression_type=codec)
    settings = copy_settings(stage, topic, header_converter="org.apache.kafka.connect.storage.SimpleHeaderConverter")
    assert copied(stage, settings, 300) == {"": 200, "headers": 100}
    assert_same(stage, topic)
    assert batches_of(bootstrap, f"here.{topic}")[0] == batches_of(bootstrap, topic)[0]


def test_small_batches_are_joined(stage: Stage) -> None:
    topic = new_topic(stage, "small")
    bootstrap = stage.connection.bootstrap
    send(bootstrap, topic, range(1, 101), batch_num_messages=5)
    assert copied(stage, copy_settings(stage, topic), 100) == {"": 0, "small": 100}
    assert_same(stage, topic)
    assert len(batches_of(bootstrap, f"here.{topic}")) < len(batches_of(bootstrap, topic)) == 20


def test_batch_size_holds_where_it_is_set(stage: Stage) -> None:
    topic = new_topic(stage, "size")
    bootstrap = stage.connection.bootstrap
    for start in range(0, 1000, 100):
        send(bootstrap, topic, range(start + 1, start + 101 if start else 151))
    assert copied(stage, copy_settings(stage, topic, batch_size="120"), 1050) == {"": 900, "batch_size": 150}
    assert_same(stage, topic)
    # A transaction a poll: no marker is further from the next one than that.
    firsts = [batch.newest_ms for batch in batches_of(bootstrap, f"here.{topic}")]
    assert all(one <= other for one, other in pairwise(firsts))
    assert max(batch.number for batch in batches_of(bootstrap, f"here.{topic}")) <= 120


def test_a_damaged_batch_is_refused_by_the_target(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was read; the checksum is the source's, so nobody vouches for what came after it."""
    topic = new_topic(stage, "damaged")
    send(stage.connection.bootstrap, topic, range(1, 101))
    real = fetched_batches.split_batches

    def damage(topic: str, partition: int, data: bytes, *more: int) -> Iterator[fetched_batches.Fetched]:
        changed = bytearray(data)
        if changed:
            changed[len(changed) // 2] ^= 1
        return real(topic, partition, bytes(changed), *more)

    monkeypatch.setattr("ringfence.fencing.fetching.partition_reader.split_batches", damage)
    with started(copy_settings(stage, topic)) as connector:
        (config,) = connector.task_configs(1)
        stage.configure(config)
        stage.count()
        assert "came damaged from their source" in str(Copy(stage, config, 1).ended().trace)
    checking = {**config, "source.consumer.check.crcs": "true"}
    stage.configure(checking)
    stage.count()
    assert "is damaged (its checksum" in str(Copy(stage, checking, 2).ended().trace)
    assert committed(stage.connection.bootstrap, f"here.{topic}") == []


def test_committed_batches_arrive_once_over_crashes(stage: Stage) -> None:
    topic = new_topic(stage, "crash", 3)
    bootstrap, target = stage.connection.bootstrap, f"here.{topic}"
    for start in range(9):
        write(bootstrap, topic, range(start * 200 + 1, start * 200 + 201), commit=start % 3 != 1)
    with started(copy_settings(stage, topic, batch_size="150")) as connector:
        (config,) = connector.task_configs(1)
        stage.configure(config)
        stage.count()
        for attempt, die_at in enumerate((2, 3, 4), 1):
            assert "the task dies here" in str(Copy(stage, config, attempt, die_at=die_at).ended().trace)
        assert 0 < len(committed(bootstrap, target)) < 1200
        last = Copy(stage, config, 4)
        eventually(lambda: len(committed(bootstrap, target)) >= 1200, 60, "all records", pause=0.2)
        assert counted(last)[""] > 0
        last.end()
    assert_same(stage, topic)
    assert len(committed(bootstrap, target)) == 1200
    assert stage.counted().records == 1200


def ignore(obstacle: str) -> Callable[[pytest.MonkeyPatch], None]:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        find = fetched_batches.Fetched._find_obstacle

        def find_others(batch: fetched_batches.Fetched, size: int, most_bytes: int) -> str:
            found = find(batch, size, most_bytes)
            return "" if found == obstacle else found

        monkeypatch.setattr(fetched_batches.Fetched, "_find_obstacle", find_others)

    return patch


def ignore_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    real = fetched_batches.select_committed
    monkeypatch.setattr(
        "ringfence.fencing.fetching.partition_reader.select_committed", lambda batches, aborted: real(batches, ())
    )


def ignore_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_batches.Fetched, "is_control", False)


def keep_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_batches, "remove_first", lambda whole, *_: whole)


def deliver_the_midst_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is taken apart, but its first records are not left out."""
    add_to = fetched_batches.Fetched.add_to

    def add_all(batch: fetched_batches.Fetched, run: Run) -> None:
        batch.start = 0
        add_to(batch, run)

    monkeypatch.setattr(fetched_batches.Fetched, "add_to", add_all)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("leave_out", "test"),
    [
        (ignore_aborts, test_aborted_records_and_markers_are_left_out),
        (ignore_controls, test_aborted_records_and_markers_are_left_out),
        (keep_checksum, test_the_partition_stays_where_the_target_has_more),
        (ignore(fetched_batches.APPEND_TIME), test_the_brokers_times_are_kept),
        (ignore(fetched_batches.MIDST), test_reading_that_begins_in_the_midst_of_a_batch),
        (deliver_the_midst_again, test_reading_that_begins_in_the_midst_of_a_batch),
    ],
)
def test_no_rule_can_be_left_out(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    leave_out: Callable[[pytest.MonkeyPatch], None],
    test: Callable[[Stage], None],
) -> None:
    leave_out(monkeypatch)
    with pytest.raises(AssertionError):
        test(stage)
