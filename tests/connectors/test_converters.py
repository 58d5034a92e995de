import base64
import json
from datetime import date
from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import ConfigException, ConnectorError, SchemaAndValue, Struct
from ringfence.connectors.api.schemas import DATE, INT64, decimal, struct
from ringfence.connectors.converters import (
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
    convert = configured(JsonConverter, schemas_enable="false").from_record
    value = {"a": [1, None, "ü"], "b": b"\x00\xff"}
    encoded = convert("t", value)
    assert encoded == '{"a":[1,null,"ü"],"b":"AP8="}'.encode()
    assert json.loads(encoded)["a"] == [1, None, "ü"]
    assert convert("t", None) is None


@pytest.mark.parametrize("value", [{1, 2}, "\udcff", 2**70])
def test_json_refuses_what_it_cannot_carry(value: object) -> None:
    with pytest.raises(ConnectorError, match="JsonConverter cannot convert"):
        configured(JsonConverter).from_record("flights", value)


@given(
    st.lists(
        st.one_of(st.none(), st.binary(max_size=3), st.text(max_size=3), st.builds(bytearray, st.binary(max_size=3)))
    )
)
def test_byte_array_converter_does_the_same_for_many_values(values: list[object]) -> None:
    converter = configured(ByteArrayConverter)
    one_by_one = [converter.from_record("t", value) for value in values]
    together = converter.from_batch("t", values)
    assert together == one_by_one
    assert {type(each) for each in together} <= {bytes, type(None)}


def test_byte_array_converter_refuses_a_structure_among_bytes() -> None:
    with pytest.raises(ConnectorError, match="cannot convert an object for topic flights"):
        configured(ByteArrayConverter).from_batch("flights", [b"a", {}])


def test_byte_array_converter_refuses_structures() -> None:
    with pytest.raises(ConnectorError, match="cannot convert an object for topic flights"):
        configured(ByteArrayConverter).from_record("flights", {})


def test_a_mapping_does_for_a_struct_and_a_struct_brings_its_schema() -> None:
    schema = struct({"id": INT64, "inner": struct({"day": DATE})}, "Named")
    value = {"id": 5, "inner": {"day": date(1970, 1, 3)}}
    convert = configured(JsonConverter).from_record
    assert (
        convert("t", Struct(schema, value))
        == convert("t", value, schema)
        == convert("t", Struct(schema, value), schema)
    )
    assert json.loads(convert("t", value, schema) or b"")["payload"] == {"id": 5, "inner": {"day": 2}}


def test_a_value_that_its_schema_does_not_know_is_refused_and_never_shown() -> None:
    schema = struct({"id": INT64})
    for bad in ({"id": "secret"}, {"id": 2**63}, {"id": True}, {"other": "secret"}, {"id": None}, "secret"):
        with pytest.raises(ConnectorError) as refused:
            configured(JsonConverter).from_record("t", bad, schema)
        assert "secret" not in str(refused.value)


def test_a_header_can_say_what_it_is() -> None:
    headers = [("plain", "a"), ("day", SchemaAndValue(DATE, date(1970, 1, 3))), ("none", SchemaAndValue(DATE, None))]
    simple = header_converter({})
    assert simple.from_headers("t", headers) == [("plain", b"a"), ("day", b"1970-01-03"), ("none", None)]
    as_json = header_converter({"header.converter": "JsonConverter", "header.converter.schemas.enable": "false"})
    assert as_json.from_headers("t", headers[:2]) == [("plain", b'"a"'), ("day", b"2")]


def test_the_connectors_converter_wins_over_the_workers_with_its_own_settings() -> None:
    worker = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    assert isinstance(value_converter({}, worker), JsonConverter)
    assert isinstance(key_converter({}, worker), StringConverter)
    own = {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
    assert isinstance(value_converter(own, worker), ByteArrayConverter)
    with pytest.raises(ConfigException, match="Available: StringConverter, JsonConverter"):
        value_converter({"value.converter": "io.confluent.connect.avro.Nothing"})


def test_headers_have_a_converter_too() -> None:
    convert = header_converter({}).from_header
    assert [convert("t", "h", value) for value in ("a", b"\xff", 3, None)] == [b"a", b"\xff", b"3", None]
    header_converter({"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"})


@given(number=st.decimals(allow_nan=False, allow_infinity=False, places=18, min_value=-(10**20), max_value=10**20))
def test_decimals_of_38_digits_are_exact(number: Decimal) -> None:
    schema = struct({"a": decimal(18)})
    for form in ("BASE64", "NUMERIC"):
        converter = JsonConverter()
        converter.configure({"schemas.enable": "false", "decimal.format": form}, is_key=False)
        text = converter.from_record("t", Struct(schema, {"a": number}), schema)
        (value,) = json.loads(text or b"", parse_float=Decimal, parse_int=Decimal).values()
        if form == "NUMERIC":
            assert value == number
        else:
            unscaled = int.from_bytes(base64.b64decode(value), "big", signed=True)
            assert Decimal(unscaled).scaleb(-18, Context(prec=100)) == number


@pytest.mark.parametrize("form", ["BASE64", "NUMERIC"])
@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_decimals_that_are_no_numbers_are_refused(form: str, number: str) -> None:
    schema = struct({"a": decimal(2)})
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false", "decimal.format": form}, is_key=False)
    with pytest.raises(ConnectorError, match=f"A decimal is {number}, but only finite"):
        converter.from_record("t", Struct(schema, {"a": Decimal(number)}), schema)
