"""The data browser reads what was written with a Schema Registry: Avro and JSON Schema with a real one, Apicurio's.

Apicurio gives no compiled Protobuf files, as Confluent's does: those come from tests/support/registry.py.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ringfence.connectors.api import Struct
from ringfence.connectors.api.schemas import INT64, STRING, array, optional, struct
from ringfence.connectors.converters import value_converter
from ringfence.connectors.converters.registry.protobuf import ProtoFile
from ringfence.engine.browsing.records import read_records
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.questions import ReadRecords
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.worker_config import WorkerConfig
from tests.support.apicurio import Apicurio, running_registry
from tests.support.broker import Broker
from tests.support.readers import readers
from tests.support.registry import Registry

# The first run on a machine fetches the registry.
pytestmark = pytest.mark.timeout(600)

SECRET = "hunter22"
FLIGHT = {"number": 7, "note": SECRET, "legs": [{"to": "JFK"}, {"to": "Zürich"}]}
_LEG_AVRO = {"type": "record", "name": "Leg", "fields": [{"name": "to", "type": "string"}]}
_TIMESTAMP = {"type": "long", "logicalType": "timestamp-millis"}
AVRO = {
    "type": "record", "name": "Flight", "namespace": "air",
    "fields": [
        {"name": "number", "type": "long"}, {"name": "note", "type": ["null", "string"]},
        {"name": "legs", "type": {"type": "array", "items": _LEG_AVRO}}, {"name": "at", "type": _TIMESTAMP},
    ],
}  # fmt: skip
JSON_SCHEMA = {
    "title": "Flight", "type": "object",
    "properties": {"number": {"type": "integer"}, "note": {"type": "string"}, "legs": {"type": "array"}},
}  # fmt: skip
LEG = struct({"to": STRING}, "air.Leg")
STRUCT = struct({"number": INT64, "note": optional(STRING), "legs": array(LEG)}, "air.Flight")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def write_avro(url: str, topic: str) -> bytes:
    serializer = AvroSerializer(SchemaRegistryClient({"url": url}), json.dumps(AVRO))
    at = dt.datetime(2026, 11, 23, 8, 30, tzinfo=dt.UTC)
    return serializer({**FLIGHT, "at": at}, SerializationContext(topic, MessageField.VALUE)) or b""


def write_json(url: str, topic: str) -> bytes:
    serializer = JSONSerializer(json.dumps(JSON_SCHEMA), SchemaRegistryClient({"url": url}))
    return serializer(FLIGHT, SerializationContext(topic, MessageField.VALUE)) or b""


@pytest.fixture(scope="module")
def compiling() -> Iterator[Registry]:
    with Registry() as running:
        file = ProtoFile(STRUCT)
        running.serialized[file.text()] = file.message_class().DESCRIPTOR.file.serialized_pb
        yield running


def write_protobuf(url: str, topic: str) -> bytes:
    config = {"value.converter": "ProtobufConverter", "value.converter.schema.registry.url": url}
    legs = [Struct(LEG, leg) for leg in FLIGHT["legs"]]  # type: ignore[attr-defined]
    written = value_converter(config).from_record(topic, Struct(STRUCT, {**FLIGHT, "legs": legs}))
    return written or b""


@dataclass(frozen=True)
class Browsing:
    """A topic, the connector that writes to it, and what its records look like to people."""

    broker: Broker
    topic: str
    config: dict[str, str]

    def ask(self, **more: object) -> list[dict[str, Any]]:
        environment = {"CONNECT_BOOTSTRAP_SERVERS": self.broker.bootstrap, "CONNECT_GROUP_ID": f"{self.topic}-group"}
        worker = WorkerConfig.from_environment({**environment, "CONNECT_EGRESS_ALLOW": "public,private,loopback"})
        config = {"name": "c", "connector.class": "VerifiableSource", "pin": SECRET, **self.config}
        writers = [{"name": "c", "config": config, "secret": ["pin"], "topics": [self.topic]}]
        start = {"from": "earliest", "value": 0, "cursor": None}
        asked = ReadRecords(self.topic, "c", writers, False, start, None, 200, True, **more)  # type: ignore[arg-type]
        found = read_records(asked, worker, TopicRules(worker), readers(), Deadline.after(30))
        assert SECRET not in str(found)
        return found["records"]  # type: ignore[return-value]


@pytest.fixture
def browse(broker: Broker, unique: Callable[[str], str]) -> Callable[..., Browsing]:
    def write(data: Callable[[str], bytes], url: str) -> Browsing:
        topic = unique("flights")
        create_topics(Connection(broker.bootstrap), [TopicSpec(topic, 1, 1)], Deadline.after(30))
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(topic, data(topic), b"one")
        producer.produce(topic, b"plain", b"two")
        assert producer.flush(30) == 0
        return Browsing(broker, topic, {"value.converter.schema.registry.url": url} if url else {})

    return write


@pytest.mark.parametrize(
    ("which", "write", "kind", "name"),
    [
        pytest.param("registry", write_avro, "Avro", "air.Flight", marks=pytest.mark.thorough),
        pytest.param("registry", write_json, "JSON Schema", "Flight", marks=pytest.mark.thorough),
        ("compiling", write_protobuf, "Protobuf", "air.Flight"),
    ],
)
def test_values_are_read_with_their_schema_searched_and_without_secrets(
    request: pytest.FixtureRequest,
    browse: Callable[..., Browsing],
    which: str,
    write: Callable[[str, str], bytes],
    kind: str,
    name: str,
) -> None:
    """By the registry of the connector's converter, and by one that is named."""
    url = request.getfixturevalue(which).url
    for browsing, more in (
        (browse(lambda topic: write(url, topic), url), {}),
        (browse(lambda topic: write(url, topic), ""), {"registry": url}),
    ):
        record, plain = browsing.ask(**more)
        value = record["value"]
        assert (value["kind"], value["problem"]) == (kind, ""), value
        assert value["schema"].startswith(f"{name} (id ")
        shown = json.loads(value["text"])
        assert str(shown["number"]) == "7"
        assert (shown["note"], shown["legs"]) == ("[hidden]", FLIGHT["legs"])
        assert kind != "Avro" or shown["at"].startswith("2026-11-23")
        assert plain["value"]["kind"] == "string"
        assert [each["key"]["text"] for each in browsing.ask(contains="zürich", **more)] == ["one"]
        assert len(browsing.ask(where='value.note == "[hidden]"', **more)) == 1


def test_without_the_schema_bytes_are_shown_with_the_reason(
    registry: Apicurio, browse: Callable[..., Browsing]
) -> None:
    """None is known, the id is nobody's, the value is not of the schema, the registry is away."""
    (unknown, _) = browse(lambda topic: write_avro(registry.url, topic), "").ask()
    assert (unknown["value"]["kind"], "name one" in unknown["value"]["problem"]) == ("hex", True)
    (nobody, _) = browse(lambda _topic: b"\x00\x7f\xff\xff\xff\x02\xff\xfe", registry.url).ask()
    assert nobody["value"]["kind"] == "hex"
    assert "does not return schema" in nobody["value"]["problem"]
    (cut, _) = browse(lambda topic: write_avro(registry.url, topic)[:9] + b"\xff", registry.url).ask()
    assert cut["value"]["kind"] == "hex"
    assert "does not fit schema" in cut["value"]["problem"]
    (source, _) = browse(lambda topic: write_protobuf(registry.url, topic), registry.url).ask()
    assert "returns Protobuf only as source" in source["value"]["problem"]
    with Registry() as broken:
        browsing = browse(lambda topic: write_avro(broken.url, topic), broken.url)
        assert browsing.ask()[0]["value"]["kind"] == "Avro"
        broken.broken = True
        assert "HTTP 503" in browsing.ask()[0]["value"]["problem"]
