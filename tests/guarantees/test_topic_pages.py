"""Pages of a topic's records on a real broker: every record once in either direction, and what readers see of each."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from ringfence.engine.browsing.records import read_records
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.questions import ReadRecords
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Invalid
from ringfence.fencing.fetching.topic_pages import Page, PageStart, PageStartKind, read_page
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.topic_records import Limits, Visibility
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig
from tests.support.broker import Broker
from tests.support.readers import readers
from tests.support.transactions import await_markers

TIME = 1_700_000_000_000


def make_topic(broker: Broker, name: str, partitions: int) -> str:
    create_topics(Connection(broker.bootstrap), [TopicSpec(name, partitions, 1)], Deadline.after(30))
    return name


def producer(broker: Broker, transactional_id: str) -> Producer:
    made = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id})
    made.init_transactions(30)
    return made


def read(broker: Broker, topic: str, place: PageStart, records: int, *, committed_only: bool = True) -> Page:
    connection = Connection(broker.bootstrap)
    limits = Limits(records, 1000)
    return read_page(connection, topic, place, Deadline.after(30), limits, committed_only=committed_only)


def test_pages_have_every_record_once_in_both_directions(broker: Broker, unique: Callable[[str], str]) -> None:
    topic = make_topic(broker, unique("pages"), 3)
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(50):
        plain.produce(topic, str(number), partition=number * number % 3, timestamp=TIME + number)
    assert plain.flush(30) == 0
    for kind, wanted in ((PageStartKind.EARLIEST, list(range(50))), (PageStartKind.LATEST, list(reversed(range(50))))):
        found: list[int] = []
        page = read(broker, topic, PageStart(kind), 7)
        while True:
            found += [int(record.value or b"-1") for record in page.records]
            if not page.more:
                break
            page = read(broker, topic, PageStart(kind, cursor=page.cursor), 7)
        assert found == wanted, kind
    later = read(broker, topic, PageStart(PageStartKind.TIME, TIME + 40), 100)
    assert [int(record.value or b"-1") for record in later.records] == list(range(40, 50))
    assert read(broker, topic, PageStart(PageStartKind.TIME, TIME + 50), 100).records == []
    from_offset = read(broker, topic, PageStart(PageStartKind.OFFSET, 10), 100)
    assert {record.offset for record in from_offset.records} == set(range(10, 33))
    with pytest.raises(Invalid, match="0 to 2"):
        read_page(
            Connection(broker.bootstrap),
            topic,
            PageStart(),
            Deadline.after(30),
            Limits(),
            partitions=[7],
            committed_only=True,
        )


def test_behind_an_open_transaction_records_are_told_apart(broker: Broker, unique: Callable[[str], str]) -> None:
    topic = make_topic(broker, unique("pages"), 1)
    other_id = unique("other")
    held, other = producer(broker, unique("held")), producer(broker, other_id)

    def send(who: Producer, value: str) -> None:
        who.produce(topic, value, b"k", 0)
        assert who.flush(30) == 0

    other.begin_transaction()
    send(other, "first")
    other.commit_transaction(30)
    held.begin_transaction()
    send(held, "open")
    other.begin_transaction()
    send(other, "waiting")
    other.commit_transaction(30)
    other.begin_transaction()
    send(other, "aborted")
    other.abort_transaction(30)
    await_markers(Connection(broker.bootstrap), other_id)
    for kind in (PageStartKind.EARLIEST, PageStartKind.LATEST):
        page = read(broker, topic, PageStart(kind), 50, committed_only=False)
        assert {record.value: record.visibility for record in page.records} == {
            b"first": Visibility.COMMITTED,
            b"open": Visibility.OPEN,
            b"waiting": Visibility.WAITING,
            b"aborted": Visibility.ABORTED,
        }
        # Not always 2: the marker of "first" may come after "open".
        assert list(page.holders[0].values()) == [record.offset for record in page.records if record.value == b"open"]
    only = read(broker, topic, PageStart(), 50)
    assert [record.value for record in only.records] == [b"first"]
    held.abort_transaction(30)


def test_a_worker_searches_decodes_and_hides(broker: Broker, unique: Callable[[str], str]) -> None:
    topic, group = make_topic(broker, unique("pages"), 2), unique("g")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(30):
        value = f'{{"n": {number}, "pin": "hunter22"}}' if number else "not json, hunter22"
        plain.produce(topic, value, f"k{number % 3}", headers=[("source", b"a" if number % 2 else b"b")])
    plain.produce(topic, b"\x00\x00\x00\x00\x07\x02\xff", b"avro")
    assert plain.flush(30) == 0
    worker = WorkerConfig.from_environment({"CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap, "CONNECT_GROUP_ID": group})
    config = {"name": "c", "connector.class": "VerifiableSource", "pin": "hunter22"}
    writers = [{"name": "c", "config": config, "secret": ["pin"], "topics": [topic]}]

    def ask(name: str = topic, *, internal: bool = False, **more: object) -> list[dict[str, dict[str, str]]]:
        start = {"from": "earliest", "value": 0, "cursor": None}
        asked = ReadRecords(name, "c", writers, internal, start, None, 200, True, **more)  # type: ignore[arg-type]
        found = read_records(asked, worker, TopicRules(worker), readers(), Deadline.after(30))
        assert "hunter22" not in str(found)
        return found["records"]  # type: ignore[return-value]

    assert len(ask()) == 31
    assert len(ask(key="k1")) == 10
    assert [each["value"]["kind"] for each in ask(contains="NOT json")] == ["string"]
    assert len(ask(where='value.n > 20 and headers.source == "a"')) == 5
    assert ask(where='value.pin contains "hunter"') == [], "a filter would tell a secret, letter by letter"
    assert len(ask(where='value.pin == "[hidden]"')) == 29
    (avro,) = ask(key="avro")
    assert (avro["value"]["kind"], avro["value"]["schema"]) == ("hex", "schema (id 7)")
    assert "name one" in avro["value"]["problem"]
    for asked, status in ((worker.config_topic, 403), (worker.offsets_topic, 403), ("__consumer_offsets", 403)):
        with pytest.raises(Refusal) as refused:
            ask(asked)
        assert refused.value.status == status
    with pytest.raises(Refusal) as refused:
        ask(worker.config_topic, internal=True)
    assert "never shown" in refused.value.message
    with pytest.raises(Refusal):
        ask(where="value =")
    (closed,) = ask(key="avro", registry="http://169.254.169.254/")
    assert "not allowed" in closed["value"]["problem"]
