"""Records of strangers, transformed and converted before they are accepted: none can fail the task."""

from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from ringfence.connectors.api import ConnectorError, RecordRefused, RetriableError, SourceRecord
from ringfence.fencing.clock import Deadline, SystemClock
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.records.prepared_batch import AdmittedRecord, GatheredOffsets
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.task.admission import Admission
from ringfence.fencing.task.runtime import Superseded
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.stage import Plain
from tests.support.broker import Broker
from tests.support.names import unique

PARTITION = {"source": "strangers"}


class Transforming(Plain):
    """What becomes of a record is in its value."""

    transforms = True

    def __init__(self) -> None:
        super().__init__(raw=False)

    def record(self, record: SourceRecord) -> SourceRecord | None:
        change = record.value
        assert callable(change)
        copy = record.copy()
        copy.value = b"value"
        changed = change(copy)
        return None if changed is None else copy


def admission(
    broker: Broker, convert: Plain, ensure: Callable[[str], None] | None = None, **settings: str
) -> Admission:
    spec = SimpleNamespace(connection=Connection(broker.bootstrap), worker_settings={}, connector_config={})
    plugin = SimpleNamespace(convert=convert, redact=lambda text: text.replace("secret", "[hidden]"))
    runtime: Any = SimpleNamespace(clock=SystemClock(), spec=spec, plugin=plugin)
    return Admission(runtime, RecordPath(convert, "the-offsets-topic", ensure=ensure), settings)


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = unique("admitted")
    create_topics(Connection(broker.bootstrap), [TopicSpec(name, 2)], Deadline.after(60))
    return name


def change(**fields: object) -> Callable[[SourceRecord], SourceRecord]:
    def apply(record: SourceRecord) -> SourceRecord:
        for name, value in fields.items():
            setattr(record, name, value)
        return record

    return apply


def fail(error: Exception) -> Callable[[SourceRecord], SourceRecord]:
    def apply(record: SourceRecord) -> SourceRecord:
        raise error

    return apply


@pytest.mark.parametrize(
    ("what", "too_large", "again"),
    [
        (fail(ValueError("secret")), False, False),
        (fail(RecursionError()), False, False),
        (fail(ConnectorError("no")), False, False),
        (fail(RetriableError("the registry is away")), False, True),
        (fail(TimeoutError()), False, True),
        (change(topic="the-offsets-topic"), False, False),
        (change(topic="no topic"), False, False),
        (change(topic="x" * 250), False, False),
        (change(topic=""), False, False),
        (change(partition=2), False, False),
        (change(partition=-7), False, False),
        (change(timestamp=-1), False, False),
        (change(timestamp=2**70), False, False),
        (change(timestamp="late"), False, False),
        (change(headers=[("\ud800", b"v")]), False, False),
        (change(headers=[("h", b"x" * 1_000_000)]), True, False),
        (change(key=b"x" * 1_000_000), True, False),
        (change(value=b"x" * 999_990), True, False),
    ],
)
def test_what_a_record_makes_fail_refuses_this_record_alone(
    broker: Broker, topic: str, what: Any, too_large: bool, again: bool
) -> None:
    good = SourceRecord(PARTITION, {"n": 1}, topic, change())
    bad = SourceRecord(PARTITION, {"n": 2}, topic, what)
    outcomes = admission(broker, Transforming()).admit([good, bad, good])
    assert isinstance(outcomes[0], AdmittedRecord)
    assert isinstance(outcomes[2], AdmittedRecord)
    refused = outcomes[1]
    assert isinstance(refused, RecordRefused)
    assert (refused.too_large, refused.again) == (too_large, again)
    assert "secret" not in str(refused)


def test_a_dropped_record_is_admitted_and_becomes_nothing(broker: Broker, topic: str) -> None:
    dropped = SourceRecord(PARTITION, {"n": 1}, topic, lambda _record: None)
    (admitted,) = admission(broker, Transforming()).admit([dropped])
    assert isinstance(admitted, AdmittedRecord)
    assert admitted.ready.columns == []


def test_a_topic_that_a_record_has_chosen_and_that_cannot_be_created_is_its_fault(broker: Broker, topic: str) -> None:
    def ensure(name: str) -> None:
        if name != topic:
            raise Fatal("it collides with another topic")

    record = SourceRecord(PARTITION, {"n": 1}, topic, change(topic="other"))
    (refused,) = admission(broker, Transforming(), ensure).admit([record])
    assert isinstance(refused, RecordRefused)


@pytest.mark.parametrize("error", [Retriable("no broker answers"), Superseded()])
def test_what_is_no_records_fault_is_raised(broker: Broker, topic: str, error: Exception) -> None:
    def ensure(name: str) -> None:
        raise error

    with pytest.raises(type(error)):
        admission(broker, Transforming(), ensure).admit([SourceRecord(PARTITION, {"n": 1}, topic, change())])


def test_a_topic_of_the_configuration_that_may_not_be_written_fails_the_task(broker: Broker) -> None:
    with pytest.raises(ConnectorError) as failure:
        admission(broker, Plain(raw=True)).admit([SourceRecord(PARTITION, {"n": 1}, "the-offsets-topic", b"v")])
    assert not isinstance(failure.value, RecordRefused)


def test_admitted_records_are_produced_as_they_are_in_batches_that_the_topic_takes(broker: Broker) -> None:
    name = unique("tight")
    tight = TopicSpec(name, config={"max.message.bytes": "10000"})
    create_topics(Connection(broker.bootstrap), [tight], Deadline.after(60))
    convert = Plain(raw=True)
    records = [SourceRecord(PARTITION, {"n": n}, name, b"x" * 3000, str(n).encode()) for n in range(7)]
    path = RecordPath(convert)
    ready = path.prepare(
        [each for each in admission(broker, convert).admit(records) if isinstance(each, AdmittedRecord)]
    )
    offsets = GatheredOffsets()
    with closing(Producer(Connection(broker.bootstrap), name)) as producer:
        producer.init(Deadline.after(30))
        producer.begin()
        path.send(ready, producer.produce_columns, offsets)
        assert ready.count == 7
        producer.commit(Deadline.after(30))
    log = TopicLog(Connection(broker.bootstrap), name)
    found = [(each.key, each.value) for each in log.read_to_end(Deadline.after(30))]
    log.close()
    assert found == [(str(n).encode(), b"x" * 3000) for n in range(7)]
    assert offsets.take() == [(PARTITION, {"n": 6})]
