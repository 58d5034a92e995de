"""Converters with a real Schema Registry, Apicurio's: what it takes and refuses, and what readers get out of it.

What a real one cannot be made to do (tokens, TLS, 503) is in test_registry_converters.py.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ringfence.connectors.api import ConnectorError, RetriableError, Schema, SourceRecord, Struct
from ringfence.connectors.api.schemas import INT64, STRING, array, decimal, mapping, optional, struct
from ringfence.connectors.converters import key_converter, value_converter
from ringfence.connectors.converters.base import Converter
from ringfence.connectors.converters.registry.protobuf import ProtoFile
from ringfence.engine.spark.task_process import Conversion
from ringfence.fencing.kafka.connection import Connection
from tests.connectors.golden.records import FULL, MOMENT, SPARSE, VALUES
from tests.guarantees.stage import PARTITION, Counting, Script, Stage
from tests.support.apicurio import Apicurio, Json, running_registry
from tests.support.broker import Broker
from tests.support.waiting import eventually

# The first run on a machine fetches the registry.
pytestmark = pytest.mark.timeout(600)

KINDS = {"AvroConverter": "AVRO", "JsonSchemaConverter": "JSON", "ProtobufConverter": "PROTOBUF"}
SMALL = struct({"id": INT64, "note": optional(STRING)}, "flights.Small")
GROWN = struct({"id": INT64, "note": optional(STRING), "more": optional(INT64)}, "flights.Small")
OTHER = struct({"id": STRING, "note": optional(STRING)}, "flights.Small")
ONE = Struct(SMALL, {"id": 1})
INNER = struct({"x": INT64}, "other.Inner")
DEEP = struct({"all": array(INNER), "by_name": mapping(STRING, INNER), "price": decimal(1)}, "a.B")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@dataclass(frozen=True)
class Side:
    """A topic of a test's own, and the registry."""

    registry: Apicurio
    topic: str
    _converters: dict[object, Converter] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    @property
    def client(self) -> SchemaRegistryClient:
        return SchemaRegistryClient({"url": self.registry.url})

    @property
    def value(self) -> SerializationContext:
        return SerializationContext(self.topic, MessageField.VALUE)

    def config(self, kind: str, **settings: str) -> dict[str, str]:
        own = {"schema.registry.url": self.registry.url, **settings}
        return {"value.converter": kind} | {f"value.converter.{k.replace('_', '.')}": own[k] for k in own}

    def written(self, kind: str, value: object, **settings: str) -> bytes:
        asked = (kind, *settings.items())
        if asked not in self._converters:  # each has a client of its own, which takes a moment
            self._converters[asked] = value_converter(self.config(kind, **settings))
        made = self._converters[asked].from_record(self.topic, value)
        assert made is not None
        return made

    def versions(self) -> list[Json]:
        """What the topic's values were registered with, oldest first."""
        found = self.registry.get(f"subjects/{self.subject}/versions")
        return [self.registry.get(f"subjects/{self.subject}/versions/{version}") for version in found]


@pytest.fixture
def side(registry: Apicurio, unique: Callable[[str], str]) -> Side:
    return Side(registry, unique("flights"))


def number(data: bytes) -> int:
    """The id in the wire form."""
    assert data[0] == 0
    return int.from_bytes(data[1:5], "big")


@pytest.mark.parametrize("kind", KINDS)
def test_the_registry_takes_each_schema_once_and_records_have_its_id(kind: str, side: Side) -> None:
    nested = Struct(DEEP, {"all": [], "by_name": {}, "price": Decimal("0.1")})
    made = [side.written(kind, each) for each in (FULL, SPARSE, nested)]
    full, deep = side.versions()
    assert [number(data) for data in made] == [full["id"], full["id"], deep["id"]]
    assert {(found["schemaType"], *found["references"]) for found in (full, deep)} == {(KINDS[kind],)}
    again = value_converter(side.config(kind))
    assert [again.from_record(side.topic, each) for each in (FULL, SPARSE, FULL)] == [made[0], made[1], made[0]]
    assert len(side.versions()) == 2


def test_avro_comes_back_with_its_dates_and_decimals(side: Side) -> None:
    read = AvroDeserializer(side.client)
    found = read(side.written("AvroConverter", FULL), side.value)
    assert found == {**VALUES, "f32": pytest.approx(1.1), "maybe": "none", "inner": {"x": None, "y": "why"}}
    sparse = read(side.written("io.confluent.connect.avro.AvroConverter", SPARSE), side.value)
    assert (sparse["i32"], sparse["i64"], sparse["inner"], sparse["when"]) == (7, None, None, None)


def test_json_is_valid_for_its_schema_and_comes_back(side: Side) -> None:
    read = JSONDeserializer(None, schema_registry_client=side.client)
    found = read(side.written("JsonSchemaConverter", FULL, decimal_format="NUMERIC"), side.value)
    assert (found["i32"], found["price"], found["day"], found["raw"]) == (320000, 12.3, 20487, "AP4=")
    assert (found["when"], found["inner"]) == (int(MOMENT.timestamp() * 1000), {"x": None, "y": "why"})


def test_protobuf_comes_back_with_its_messages(side: Side) -> None:
    # Without the registry: this one does not give descriptors, which the client asks for.
    read = ProtobufDeserializer(ProtoFile(FULL.schema).message_class(), {"use.deprecated.format": False})
    found = read(side.written("ProtobufConverter", FULL), side.value)
    assert (found.i32, found.text, list(found.list), dict(found.counts)) == (320000, "12", [1, 2], {"a": 1})
    assert (found.price.value, found.day.year, found.at.nanos) == ((1230).to_bytes(2, "big"), 2026, 789_000_000)
    assert (found.inner.y, found.inner.HasField("x")) == ("why", False)


@pytest.mark.parametrize(("kind", "level"), list(zip(KINDS, ("BACKWARD", "FORWARD", "BACKWARD"), strict=True)))
def test_a_schema_may_grow_as_the_registry_allows(kind: str, level: str, side: Side) -> None:
    # One more field is backward compatible, but not in JSON Schema: an older record may hold anything in its place.
    first = number(side.written(kind, ONE))
    side.registry.compatible(side.subject, level)
    second = number(side.written(kind, Struct(GROWN, {"id": 2, "more": 3})))
    assert [each["id"] for each in side.versions()] == [first, second]
    with pytest.raises(ConnectorError, match=r"not compatible with earlier ones under .*: change it, or") as refused:
        side.written(kind, Struct(OTHER, {"id": "text"}))
    assert not isinstance(refused.value, RetriableError)
    side.registry.compatible(side.subject, "NONE")
    assert number(side.written(kind, Struct(OTHER, {"id": "text"}))) > second


def test_json_structs_that_hold_nothing_else_may_grow(side: Side) -> None:
    side.written("JsonSchemaConverter", ONE, object_additional_properties="false")
    side.registry.compatible(side.subject, "BACKWARD")
    side.written("JsonSchemaConverter", Struct(GROWN, {"id": 2, "more": 3}), object_additional_properties="false")
    assert len(side.versions()) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_not_be_registered_has_to_be_known(kind: str, side: Side) -> None:
    for value in (ONE, Struct(GROWN, {"id": 1})):  # no subject, then no such schema under it
        with pytest.raises(ConnectorError, match=r"does not know this schema under .* \(auto\.register\.schemas\)"):
            side.written(kind, value, auto_register_schemas="false")
        data = side.written(kind, ONE)
    assert side.written(kind, ONE, auto_register_schemas="false") == data
    assert len(side.versions()) == 1


@pytest.mark.parametrize("kind", ["AvroConverter", "JsonSchemaConverter"])
def test_a_schema_in_other_words_is_found_where_schemas_are_normalized(kind: str, side: Side) -> None:
    side.written(kind, ONE)
    text = side.versions()[0]["schema"]
    turned = json.dumps(dict(reversed(json.loads(text).items())), indent=1)
    other = Side(side.registry, f"{side.topic}-turned")
    known = other.client.register_schema(other.subject, Registered(turned, KINDS[kind]))
    assert number(other.written(kind, ONE, auto_register_schemas="false", normalize_schemas="true")) == known
    with pytest.raises(ConnectorError, match="does not know this schema"):
        other.written(kind, ONE, auto_register_schemas="false")


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "{topic}-key"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "{name}"),
        ("TopicRecordNameStrategy", "{topic}-{name}"),
    ],
)
def test_subjects_are_named_as_the_strategy_says(strategy: str, subject: str, side: Side) -> None:
    schema = struct({"id": INT64}, f"{side.topic.replace('-', '_')}.Small")
    config = {"key.converter": "AvroConverter", "key.converter.schema.registry.url": side.registry.url}
    converter = key_converter(config | {"key.converter.key.subject.name.strategy": strategy})
    data = converter.from_record(side.topic, Struct(schema, {"id": 1}))
    found = side.registry.get(f"subjects/{subject.format(topic=side.topic, name=schema.name)}/versions/latest")
    assert number(data or b"") == found["id"]


@dataclass
class Configured:
    connector_config: Mapping[str, str]
    worker_settings: Mapping[str, str] = field(default_factory=dict)


class Growing(Counting):
    """Its records have one more field from the hundredth on."""

    def record(self, number: int) -> SourceRecord:
        schema, more = (SMALL, {}) if number < 100 else (GROWN, {"more": number * 2})
        return SourceRecord(
            PARTITION, {"next": number + 1}, self.topic, Struct(schema, {"id": number, **more}), Struct(INNER, {"x": 7})
        )


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("registered"))
    yield made
    made.close()


def consumed(stage: Stage) -> list[Message]:
    """All committed records, as a consumer gets them."""
    reading = {"isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": stage.connection.bootstrap, "group.id": stage.data, **reading})
    consumer.assign([TopicPartition(stage.data, 0, 0)])
    found: list[Message] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, f"only {len(found)} records within 30 s"
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise AssertionError(str(error))
    finally:
        consumer.close()


def test_a_consumer_reads_what_a_connector_wrote(stage: Stage, registry: Apicurio) -> None:
    side = Side(registry, stage.data)
    key = {"key.converter": "ProtobufConverter", "key.converter.schema.registry.url": registry.url}
    config = {"topic": stage.data} | side.config("JsonSchemaConverter") | key
    stage.configure(config)
    stage.count()
    running = stage.start(Script(limit=200), config, kind=Growing, raw=False, convert=Conversion(Configured(config)))
    eventually(lambda: stage.offset() == 200, 60, lambda: running.outcome, pause=0.1)
    records = consumed(stage)
    values = JSONDeserializer(None, schema_registry_client=side.client)
    wanted = [{"id": each, "note": None, **({"more": each * 2} if each >= 100 else {})} for each in range(200)]
    assert [values(record.value(), side.value) for record in records] == wanted
    keys = ProtobufDeserializer(ProtoFile(INNER).message_class(), {"use.deprecated.format": False})
    place = SerializationContext(stage.data, MessageField.KEY)
    assert {keys(record.key(), place).x for record in records} == {7}


@pytest.mark.slow
def test_a_connector_outlasts_its_registry(stage: Stage, registry: Apicurio) -> None:
    side = Side(registry, stage.data)
    config = {"topic": stage.data, "errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "300"}
    config |= {"key.converter": "StringConverter", **side.config("AvroConverter", http_read_timeout_ms="3000")}
    refused: list[RetriableError] = []
    convert = Conversion(Configured(config))
    value = convert.value

    def watched(topic: str, given: object, schema: Schema | None) -> bytes | None:
        try:
            return value(topic, given, schema)
        except RetriableError as error:
            refused.append(error)
            raise

    convert.value = watched

    def stopping(task: Counting) -> None:
        if task.next == 50:
            registry.stop()

    stage.configure(config)
    stage.count()
    script = Script(limit=200, before_poll=stopping)
    running = stage.start(script, config, kind=Growing, raw=False, convert=convert)
    # What it knows goes on without the registry; the new schema cannot.
    eventually(lambda: len(refused) >= 2, 60, lambda: running.outcome)
    assert stage.offset() == 100
    assert "cannot reach the Schema Registry" in str(refused[0])
    registry.start()
    eventually(lambda: stage.offset() == 200, 60, lambda: running.outcome, pause=0.1)
    records, read = consumed(stage), AvroDeserializer(side.client)
    wanted = [{"id": each, "note": None, **({"more": each * 2} if each >= 100 else {})} for each in range(200)]
    assert [read(record.value(), side.value) for record in records] == wanted
    assert [each["id"] for each in side.versions()] == sorted({number(record.value() or b"") for record in records})
