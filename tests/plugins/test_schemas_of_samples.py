"""A sample record shows what will be in Kafka: its value in words, and the schema where the format has one."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from ringfence.connectors.api import SourceRecord, Struct
from ringfence.connectors.api.schemas import INT64, STRING, decimal, struct
from ringfence.engine.plugins.preview import TransformationChain
from ringfence.engine.plugins.secret_removal import Scrubber

ORDER = struct({"id": INT64, "item": STRING, "price": decimal(2)}, "shop.Order")
REGISTRY = {"value.converter.schema.registry.url": "http://registry.example.com"}


def walk(value: object, **settings: str) -> Mapping[str, Any]:
    config = {f"value.converter{'.' * bool(key)}{key}": text for key, text in settings.items()}
    chain = TransformationChain({"key.converter": "StringConverter", **config, **REGISTRY}, {}, Scrubber(["sesame"]))
    written = chain.walk(SourceRecord({}, None, "t", value))["written"]
    assert isinstance(written, dict)
    return dict(written["value"])


def order(item: str = "pear") -> Struct:
    return Struct(ORDER, {"id": 7, "item": item, "price": Decimal("1.50")})


def test_json_with_a_schema_is_told_apart_from_its_schema() -> None:
    shown = walk(order(), **{"": "JsonConverter", "schemas.enable": "true", "decimal.format": "NUMERIC"})
    assert json.loads(shown["payload"]["text"]) == {"id": 7, "item": "pear", "price": 1.5}
    assert shown["schema"]["format"] == "CONNECT"
    assert json.loads(shown["schema"]["text"])["name"] == "shop.Order"
    assert json.loads(shown["text"])["payload"]["id"] == 7, "the bytes as they are"


@pytest.mark.parametrize(
    ("converter", "kind"),
    [("AvroConverter", "AVRO"), ("JsonSchemaConverter", "JSON"), ("ProtobufConverter", "PROTOBUF")],
)
def test_bytes_with_the_id_of_a_schema_are_shown_as_what_they_mean(converter: str, kind: str) -> None:
    shown = walk(order(), **{"": converter})
    assert json.loads(shown["payload"]["text"]) == {"id": 7, "item": "pear", "price": 1.5}
    assert shown["schema"]["format"] == kind
    assert "Order" in shown["schema"]["text"]


def test_bytes_without_a_schema_are_shown_alone() -> None:
    shown = walk(order(), **{"": "JsonConverter", "schemas.enable": "false"})
    assert shown.keys() == {"type", "text", "cut"}
    shown = walk({"schema": "of my own", "payload": 1}, **{"": "JsonConverter", "schemas.enable": "false"})
    assert shown.keys() == {"type", "text", "cut"}


def test_a_long_schema_hides_no_value() -> None:
    wide = struct({f"a_column_with_a_long_name_{number}": INT64 for number in range(300)}, "Wide")
    shown = walk(Struct(wide, dict.fromkeys(wide.names, 1)), **{"": "JsonConverter", "schemas.enable": "true"})
    assert shown["payload"]["text"].startswith('{"a_column_with_a_long_name_0": 1')
    assert shown["cut"] > 0


def test_no_secret_is_in_a_payload() -> None:
    shown = walk(order("open sesame"), **{"": "AvroConverter"})
    assert "sesame" not in json.dumps(shown)
