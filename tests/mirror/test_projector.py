"""The projector on a real broker: it follows, starts over where it stood, and two of them count once."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import Producer

from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.platform_topics import present
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.fencing.topics import config_records as codec
from ringfence.fencing.topics import events
from ringfence.fencing.topics.config_log import Version
from ringfence.fencing.topics.config_records import ConnectorRecord, TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.projection import cluster_topics, positions
from ringfence.projection.change_notifications import Notice
from ringfence.projection.models import ClusterInfo, Connector, Event, GenerationRow, SourceOffset, TopicPosition
from ringfence.projection.projector import Projector
from ringfence.worker_config import WorkerConfig
from tests.support.broker import Broker
from tests.support.topics import connector, generation
from tests.support.waiting import eventually


@pytest.fixture
def config(broker: Broker, unique: Callable[[str], str]) -> WorkerConfig:
    names = {f"{role}.storage.topic": unique(role) for role in ("config", "offset", "status", "events")}
    made = WorkerConfig.from_environment(
        {
            "CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap,
            **{f"CONNECT_{key.upper().replace('.', '_')}": value for key, value in names.items()},
        }
    )
    create(made)
    return made


def create(config: WorkerConfig) -> None:
    topics = [(config.config_topic, 1), (config.offsets_topic, 3), (config.status_topic, 2), (config.events_topic, 2)]
    wanted = [TopicSpec(name, partitions, 1, {"cleanup.policy": "compact"}) for name, partitions in topics]
    deadline = Deadline.after(30)
    while not deadline.expired:
        with suppress(Exception):
            create_topics(config.connection(), wanted, deadline)
            return
        time.sleep(0.5)


@contextmanager
def projecting(
    config: WorkerConfig,
    count: int = 1,
    ids: TopicIds | None = None,
    before_write: Callable[[], None] = lambda: None,
    find_version: Callable[[str], Version | None] = lambda _topic_id: None,
) -> Iterator[list[Notice]]:
    """Projectors in threads of their own; yields the notices."""
    stop, notices = threading.Event(), list[Notice]()
    threads = [
        threading.Thread(
            target=Projector(config, notices.append, ids, before_write, find_version).run, args=(stop,), daemon=True
        )
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        yield notices
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


def write_config(config: WorkerConfig, *records: codec.ConfigRecord) -> int:
    """One transaction; returns the next offset after the last record, as the leader's answer has it."""
    producer = Producer({"bootstrap.servers": config.bootstrap, "transactional.id": config.config_topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    offsets: list[int] = []
    for record in records:
        key, value = codec.encode(record)
        producer.produce(
            config.config_topic,
            key=key,
            value=value,
            on_delivery=lambda _, message: offsets.append(message.offset() or 0),
        )
    producer.commit_transaction(20)
    return max(offsets) + 1


def test_what_is_written_shows_and_the_position_passes_it(config: WorkerConfig) -> None:
    with projecting(config) as notices:
        end = write_config(config, connector("c"), *generation("c", 2, 1))
        eventually(lambda: positions.shown_offset("config", 0) >= end, 20)
        row = Connector.objects.get()
        assert (row.name, row.task_count, row.fencing) == ("c", 2, False)
        eventually(lambda: positions.shown_offset("config", 0) == end + 1, 20)  # the commit marker, too
        eventually(lambda: any("c" in notice.changed for notice in notices), 20)  # it is told behind the commit
        assert ClusterInfo.objects.get().kafka_cluster_id


def test_whoever_answers_goes_first(config: WorkerConfig) -> None:
    """The leader's answer to a command, in the same process, comes before the rows of what the command has written."""
    answered, waits = threading.Event(), list[bool]()

    def let_pass() -> None:
        waits.append(Connector.objects.exists())
        answered.wait(20)

    with projecting(config, before_write=let_pass):
        end = write_config(config, connector("c"))
        eventually(lambda: bool(waits), 20)
        assert waits == [False]
        assert positions.shown_offset("config", 0) < end
        answered.set()
        eventually(lambda: positions.shown_offset("config", 0) >= end, 20)


def test_a_second_projector_goes_on_where_the_first_stood(config: WorkerConfig) -> None:
    with projecting(config):
        write_config(config, connector("a"))
        eventually(lambda: Connector.objects.filter(name="a").exists(), 20)
    write_config(config, connector("b"), ConnectorRecord(ConnectorName("a"), None))
    with projecting(config):
        eventually(lambda: list(Connector.objects.filter(known=True).values_list("name", flat=True)) == ["b"], 20)


def test_a_projector_goes_on_from_what_its_worker_has_read(
    config: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with projecting(config):
        end = write_config(config, connector("a"), *generation("a", 2, 1))
        eventually(lambda: positions.shown_offset("config", 0) == end + 1, 20)
    topic = ConfigTopic(config, config.connection())
    topic.read(Deadline.after(30))
    starts: list[object] = []
    real = TopicLog.restart

    def note(self: TopicLog, start: Mapping[int, int] | None = None) -> None:
        if self.topic == config.config_topic:
            starts.append(start)
        real(self, start)

    monkeypatch.setattr(TopicLog, "restart", note)
    with projecting(config, find_version=topic.version_of):
        end = write_config(config, TargetStateRecord(ConnectorName("a"), TargetState.PAUSED))
        eventually(lambda: positions.shown_offset("config", 0) >= end, 20)
        row = Connector.objects.get()
        assert (row.name, row.target, row.task_count, row.generation) == ("a", "PAUSED", 2, 3)
    assert starts == [{0: 6}]


def test_somebody_elses_open_transaction_holds_no_rows(config: WorkerConfig) -> None:
    """On neither topic that is written in transactions. What comes behind it is shown, once more when it has ended."""
    foreign = Producer({"bootstrap.servers": config.bootstrap, "transactional.id": f"{config.config_topic}-foreign"})
    foreign.init_transactions(20)
    with projecting(config):
        end = write_config(config, connector("a"))
        eventually(lambda: positions.shown_offset("config", 0) > end, 20)
        foreign.begin_transaction()
        for topic in (config.config_topic, config.offsets_topic):
            foreign.produce(topic, key=b"foreign", value=b"{}", partition=0)
        assert foreign.flush(20) == 0
        end = write_config(config, connector("b"), *generation("b", 2, end + 3))
        offsets = Producer({"bootstrap.servers": config.bootstrap})
        offsets.produce(config.offsets_topic, key=b'["b",{"p":1}]', value=b'{"at":7}', partition=0)
        assert offsets.flush(20) == 0
        eventually(lambda: positions.shown_offset("config", 0) >= end, 20)
        eventually(lambda: positions.shown_offset("offsets", 0) == 2, 20)
        assert Connector.objects.get(name="b").task_count == 2
        assert SourceOffset.objects.get().offset == '{"at":7}'
        held = TopicPosition.objects.get(role="config")
        assert held.applied_offset < held.shown_offset, "it was not held: this has shown nothing"
        later = write_config(config, ConnectorRecord(ConnectorName("b"), None))
        eventually(lambda: positions.shown_offset("config", 0) >= later, 20)
        assert list(Connector.objects.filter(known=True).values_list("name", flat=True)) == ["a"]
        foreign.abort_transaction(20)
        eventually(lambda: TopicPosition.objects.get(role="config").applied_offset > later, 20)
        assert list(Connector.objects.filter(known=True).values_list("name", flat=True)) == ["a"]
        assert GenerationRow.objects.filter(connector="b").count() == 1


def test_two_projectors_at_once_count_each_event_once(config: WorkerConfig) -> None:
    producer = Producer({"bootstrap.servers": config.bootstrap})
    with projecting(config, 2):
        for number in range(600):
            key, value = events.encode({"type": "note", "connector": "c", "time_ms": 10**13, "message": str(number)})
            producer.produce(config.events_topic, key=key, value=value, partition=number % 2)
            if number % 50 == 0:
                producer.flush(10)
                time.sleep(0.05)
        producer.flush(10)
        eventually(lambda: Event.objects.count() >= 600, 20)
        time.sleep(0.5)
    messages = [event.summary for event in Event.objects.all()]
    assert len(messages) == len(set(messages)) == 600


def replace_config_topic(config: WorkerConfig) -> None:
    delete_topics(config.connection(), [config.config_topic], Deadline.after(30))
    time.sleep(1)
    create(config)


def ids_of(config: WorkerConfig, version: int) -> TopicIds:
    found = present(config.connection(), config, Deadline.after(30))
    return TopicIds(version, {role: one for role, one in found.items() if one is not None})


def names() -> list[str]:
    return list(Connector.objects.filter(known=True).order_by("name").values_list("name", flat=True))


def test_a_replaced_config_topic_empties_nothing_and_is_told(config: WorkerConfig) -> None:
    before = ids_of(config, 1)
    with projecting(config, ids=before):
        write_config(config, connector("old"), *generation("old", 1, 1))
        eventually(lambda: names() == ["old"], 20)
        assert cluster_topics.find_lost() is None
        replace_config_topic(config)
        eventually(lambda: cluster_topics.find_lost() is not None, 20)
        assert names() == ["old"]
    for seen in (None, before, ids_of(config, 1)):  # nobody has accepted it: neither old knowledge nor a fresh start
        with projecting(config, ids=seen):
            time.sleep(2)
            assert names() == ["old"]
    lost = cluster_topics.find_lost()
    assert lost is not None
    assert "ringfence restore" in lost.reason
    assert config.config_topic in lost.reason


def test_an_accepted_config_topic_is_read_anew_and_the_lists_are_never_empty(config: WorkerConfig) -> None:
    with projecting(config, ids=ids_of(config, 1)):
        write_config(config, connector("gone"), connector("kept"))
        eventually(lambda: names() == ["gone", "kept"], 20)
    replace_config_topic(config)
    write_config(config, connector("kept"), connector("new"))
    seen: set[tuple[str, ...]] = set()
    with projecting(config, ids=ids_of(config, 2)):

        def there() -> bool:
            seen.add(tuple(names()))
            return names() == ["kept", "new"]

        eventually(there, 20)
    assert all("kept" in each for each in seen), seen
    assert cluster_topics.find_lost() is None


def test_a_deletion_whose_tombstone_is_compacted_away_is_noticed(config: WorkerConfig) -> None:
    with projecting(config):
        write_config(config, connector("a"), connector("b"))
        eventually(lambda: names() == ["a", "b"], 20)
    Connector.objects.filter(name="a").update(name="ghost")  # what the topic does not know at all
    with projecting(config):
        eventually(lambda: names() == ["b"], 20)


def test_the_database_away_is_waited_for(config: WorkerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    away = threading.Event()
    away.set()
    real = positions.move

    def move(*arguments: object) -> None:
        if away.is_set():
            raise OperationalError("disk I/O error")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(positions, "move", move)
    with projecting(config):
        write_config(config, connector("c"))
        time.sleep(1)
        assert not Connector.objects.exists()
        away.clear()
        eventually(lambda: Connector.objects.filter(name="c").exists(), 20)
