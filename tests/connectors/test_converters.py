import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.api import ConfigException, ConnectorError
from connectors.converters import (
    ByteArrayConverter,
    Converter,
    JsonConverter,
    StringConverter,
    header_converter,
    key_converter,
    value_converter,
)


def configured(cls: type[Converter], **settings: str) -> Converter:
    converter = cls()
    converter.configure({name.replace("_", "."): value for name, value in settings.items()}, is_key=False)
    return converter


@given(st.binary())
def test_any_bytes_come_back_unharmed_through_text(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for cls in (StringConverter, ByteArrayConverter):
        assert configured(cls).from_record("t", text) == data
        assert configured(cls).from_record("t", data) == data


def test_string_converter_writes_other_values_as_text() -> None:
    convert = configured(StringConverter).from_record
    assert [convert("t", value) for value in (None, 17, True, 1.5, {"a": "ü"})] == [
        None,
        b"17",
        b"true",
        b"1.5",
        '{"a":"ü"}'.encode(),
    ]


def test_a_batch_gives_what_single_records_give() -> None:
    for cls in (StringConverter, JsonConverter):
        converter = configured(cls)
        for values in (["a", "ü", ""], ["a", None, 3]):
            assert converter.from_batch("t", values) == [converter.from_record("t", value) for value in values]


def test_only_converters_that_leave_bytes_alone_say_so() -> None:
    assert configured(StringConverter).to_bytes_is_identity
    assert configured(ByteArrayConverter).to_bytes_is_identity
    assert not configured(JsonConverter).to_bytes_is_identity
    latin = configured(StringConverter, converter_encoding="ISO-8859-1")
    assert not latin.to_bytes_is_identity
    assert latin.from_record("t", "ü") == b"\xfc"


def test_json_is_compact_utf8_and_bytes_become_base64() -> None:
    convert = configured(JsonConverter).from_record
    value = {"a": [1, None, "ü"], "b": b"\x00\xff"}
    encoded = convert("t", value)
    assert encoded == '{"a":[1,null,"ü"],"b":"AP8="}'.encode()
    assert json.loads(encoded)["a"] == [1, None, "ü"]
    assert convert("t", None) is None


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, "\udcff"])
def test_json_refuses_what_it_cannot_carry(value: object) -> None:
    with pytest.raises(ConnectorError, match="JsonConverter cannot convert"):
        configured(JsonConverter).from_record("flights", value)


def test_byte_array_converter_refuses_structures() -> None:
    with pytest.raises(ConnectorError, match="type dict for topic flights"):
        configured(ByteArrayConverter).from_record("flights", {})


def test_schemas_are_refused_with_the_reason() -> None:
    configured(JsonConverter, schemas_enable="false")
    with pytest.raises(ConfigException, match=r"schemas\.enable=false"):
        configured(JsonConverter, schemas_enable="true")


def test_the_connectors_converter_wins_over_the_workers_with_its_own_settings() -> None:
    worker = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    assert isinstance(value_converter({}, worker), JsonConverter)
    assert isinstance(key_converter({}, worker), StringConverter)
    own = {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
    assert isinstance(value_converter(own, worker), ByteArrayConverter)
    with pytest.raises(ConfigException, match="Known are: StringConverter, JsonConverter"):
        value_converter({"value.converter": "io.confluent.connect.avro.AvroConverter"})


def test_headers_have_a_converter_too() -> None:
    convert = header_converter({}).from_header
    assert [convert("t", "h", value) for value in ("a", b"\xff", 3, None)] == [b"a", b"\xff", b"3", None]
    header_converter({"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"})
