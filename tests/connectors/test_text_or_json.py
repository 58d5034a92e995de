"""What is written where neither the connector nor the worker names a converter."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from ringfence.connectors.api import Schema, SchemaType, Struct
from ringfence.connectors.api.schemas import array, decimal, struct
from ringfence.connectors.converters import TextOrJsonConverter, value_converter
from ringfence.connectors.java.runtime import JavaRuntime, converters_of
from ringfence.worker_config import WorkerConfig

ROW = struct({"id": Schema(SchemaType.INT64), "name": Schema(SchemaType.STRING), "amount": decimal(2)})
ANN = Struct(ROW, {"id": 7, "name": "Ann", "amount": Decimal("12.50")})
WORKER = {
    name: value
    for name, value in WorkerConfig.of_settings({"group.id": "g", "bootstrap.servers": "k:1"}).settings.items()
    if name.endswith(".converter")
}
JSON = b'{"id":7,"name":"Ann","amount":12.50}'


@pytest.mark.parametrize(
    ("value", "schema", "written"),
    [
        ("one line", None, b"one line"),
        (b"\xff\x00", None, b"\xff\x00"),
        (None, None, None),
        (3, Schema(SchemaType.INT32), b"3"),
        (True, None, b"true"),
        ({"id": 7, "tags": ["a"]}, None, b'{"id":7,"tags":["a"]}'),
        ([1, 2], array(Schema(SchemaType.INT32)), b"[1,2]"),
        (ANN, ROW, JSON),
        (ANN, None, JSON),
    ],
)
def test_text_stays_text_and_a_row_becomes_json(value: object, schema: Schema | None, written: bytes | None) -> None:
    converter = value_converter({}, WORKER)
    assert isinstance(converter, TextOrJsonConverter)
    assert converter.from_record("t", value, schema) == written
    several: Sequence[object] = [value, value]
    assert converter.from_batch("t", several, schema) == [written, written]


def test_a_converter_that_is_named_is_used_as_in_kafka_connect() -> None:
    strings = "org.apache.kafka.connect.storage.StringConverter"
    for config, worker in (({"value.converter": strings}, {}), ({}, {"value.converter": strings})):
        assert value_converter(config, worker).from_record("t", ANN, ROW) == b"Struct{id=7,name=Ann,amount=12.50}"


def test_java_connectors_get_a_converter_that_java_has() -> None:
    assert {value for name, value in converters_of(WORKER).items() if name in ("key.converter", "value.converter")} == {
        "io.ringfence.connect.TextOrJsonConverter"
    }


def test_python_connectors_beside_them_get_the_one_of_python() -> None:
    """The settings of a task contain those of its worker's Java."""
    java = JavaRuntime("java", "classes", "plugins", worker=converters_of(WORKER))
    assert {**WORKER, **java.as_settings()}["value.converter"] == WORKER["value.converter"]
