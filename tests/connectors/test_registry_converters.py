"""Converters with a Schema Registry that asks for tokens, is broken, or counts what it is asked.

What a real one takes and refuses, and what readers get, is in test_converters_with_a_registry.py.
"""

import base64
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from ringfence.connectors.api import (
    ConfigException,
    ConfigType,
    ConnectorError,
    DistantDate,
    DistantTimestamp,
    RetriableError,
    Schema,
    Struct,
)
from ringfence.connectors.api.schemas import DATE, INT64, STRING, TIMESTAMP, array, decimal, mapping, optional, struct
from ringfence.connectors.common_settings import source_config_def
from ringfence.connectors.converters import find_converter, value_converter
from ringfence.connectors.converters.registry.protobuf import ProtoFile
from tests.connectors.golden.records import FULL, MOMENT, SPARSE
from tests.support.examples import examples
from tests.support.registry import Registry

VALUE = SerializationContext("flights", MessageField.VALUE)
SMALL = struct({"id": INT64, "note": optional(STRING)}, "flights.Small")
ONE = Struct(SMALL, {"id": 1})


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as running:
        yield running


def written(registry: Registry, kind: str, value: object, **settings: str) -> bytes:
    own = {f"value.converter.{name.replace('_', '.')}": text for name, text in settings.items()}
    config = {"value.converter": kind, "value.converter.schema.registry.url": registry.url, **own}
    made = value_converter(config).from_record("flights", value)
    assert made is not None
    return made


def client(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def test_avro_schemas_tell_kafka_connect_what_they_were(registry: Registry) -> None:
    written(registry, "AvroConverter", FULL)
    shown = json.loads(registry.schema(1)["schema"])
    assert (shown["namespace"], shown["name"], shown["connect.version"]) == ("flights", "Flight", 3)
    fields = {field["name"]: field for field in shown["fields"]}
    assert fields["i8"]["type"] == {"type": "int", "connect.type": "int8"}
    assert (fields["maybe"]["type"][1], fields["maybe"]["default"]) == ("null", "none")
    assert (fields["i64"]["type"], fields["i64"]["default"]) == (["null", "long"], None)
    assert fields["price"]["type"]["logicalType"] == "decimal"


@pytest.mark.parametrize("kind", ["AvroConverter", "ProtobufConverter", "JsonSchemaConverter"])
@given(number=st.decimals(allow_nan=False, allow_infinity=False, places=18, min_value=-(10**20), max_value=10**20))
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_decimals_of_38_digits_are_exact(kind: str, number: Decimal, registry: Registry) -> None:
    made = written(registry, kind, Struct(struct({"a": decimal(18)}, "flights.Price"), {"a": number}))
    unscaled = int(number.scaleb(18, Context(prec=100)))
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    raw = unscaled.to_bytes(size, "big", signed=True)
    assert (base64.b64encode(raw) if kind == "JsonSchemaConverter" else raw) in made


def test_protobuf_comes_back_with_its_messages(registry: Registry) -> None:
    file = ProtoFile(FULL.schema)
    made = file.message_class()
    registry.serialized[file.text()] = made.DESCRIPTOR.file.serialized_pb
    read = ProtobufDeserializer(made, {"use.deprecated.format": False}, client(registry))
    found = read(written(registry, "ProtobufConverter", FULL), VALUE)
    assert (found.i32, found.text, list(found.list), dict(found.counts)) == (320000, "12", [1, 2], {"a": 1})
    assert (found.price.value, found.price.scale) == ((1230).to_bytes(2, "big"), 2)
    assert (found.day.year, found.day.month, found.day.day, found.at.nanos) == (2026, 2, 3, 789_000_000)
    assert (found.when.ToDatetime(UTC), found.inner.y, found.inner.HasField("x")) == (MOMENT, "why", False)
    sparse = read(written(registry, "ProtobufConverter", SPARSE), VALUE)
    assert [sparse.HasField(name) for name in ("i64", "when", "inner", "maybe")] == [False, False, False, True]


@pytest.mark.parametrize("kind", ["AvroConverter", "ProtobufConverter"])
def test_a_struct_may_stand_where_none_may_stand_too(kind: str, registry: Registry) -> None:
    """As numbers of PostgreSQL without a scale in a column that may be null: the field says so, not the struct."""
    row = struct({"number": optional(SMALL)}, "flights.Row")
    value = Struct.of(row, [ONE])
    assert written(registry, kind, value) == written(registry, kind, Struct(row, {"number": {"id": 1}}))
    other = struct({"id": INT64}, "flights.Other")
    with pytest.raises(ConnectorError, match="Mismatching schema"):
        written(registry, kind, Struct.of(row, [Struct(other, {"id": 1})]))


def test_a_proto_file_says_what_the_schema_says(registry: Registry) -> None:
    inner = struct({"x": decimal(1)}, "other.Inner")
    schema = struct({"id": INT64, "all": array(inner), "by_name": mapping(STRING, INT64), "s": optional(STRING)}, "a.B")
    written(registry, "ProtobufConverter", Struct(schema, {"id": 1, "all": [], "by_name": {}}))
    assert registry.schema(1)["schema"] == (
        'syntax = "proto3";\npackage a;\nimport "confluent/type/decimal.proto";\n\nmessage B {\n'
        "  int64 id = 1;\n  repeated .a.B.Inner all = 2;\n  map<string, int64> by_name = 3;\n  optional string s = 4;\n"
        "  message Inner {\n    .confluent.type.Decimal x = 1;\n  }\n}\n"
    )


def test_a_message_within_another_has_no_fields_name(registry: Registry) -> None:
    schema = struct({"inner": struct({"x": INT64}, "other.inner"), "y": INT64}, "a.B")
    written(registry, "ProtobufConverter", Struct(schema, {"inner": {"x": 1}, "y": 2}))
    assert registry.schema(1)["schema"] == (
        'syntax = "proto3";\npackage a;\n\nmessage B {\n  .a.B.innerMessage inner = 1;\n  int64 y = 2;\n'
        "  message innerMessage {\n    int64 x = 1;\n  }\n}\n"
    )


@pytest.mark.parametrize("keys", [INT64, optional(STRING)], ids=["numbers", "texts that may be null"])
def test_json_maps_whose_keys_are_no_texts_are_lists_of_entries(keys: Schema, registry: Registry) -> None:
    key = 7 if keys is INT64 else "seven"
    data = written(registry, "JsonSchemaConverter", Struct(struct({"m": mapping(keys, INT64)}), {"m": {key: 1}}))
    assert json.loads(data[5:]) == {"m": [{"key": key, "value": 1}]}
    shown = json.loads(registry.schema(1)["schema"])["properties"]["m"]
    assert (shown["type"], shown["connect.type"], shown["items"]["type"]) == ("array", "map", "object")
    entry = shown["items"]["properties"]
    assert [(name, entry[name]["connect.index"]) for name in entry] == [("key", 0), ("value", 1)]
    Draft7Validator(json.loads(registry.schema(1)["schema"])).validate(json.loads(data[5:]))


@pytest.mark.parametrize("kind", ["AvroConverter", "JsonSchemaConverter", "ProtobufConverter"])
def test_a_schema_is_registered_once_and_each_record_has_its_id(kind: str, registry: Registry) -> None:
    other = struct({"id": INT64}, "Other")
    converter = value_converter({"value.converter": kind, "value.converter.schema.registry.url": registry.url})
    forms, form = [], converter.form  # type: ignore[attr-defined] # a RegistryConverter

    def counted(schema: Schema) -> object:
        forms.append(schema)
        return form(schema)

    converter.form = counted  # type: ignore[attr-defined]
    made = [converter.from_record("flights", value) for value in (ONE, ONE, Struct(other, {"id": 2}), ONE, None)]
    assert [data and data[:5] for data in made] == [b"\0\0\0\0\1", b"\0\0\0\0\1", b"\0\0\0\0\2", b"\0\0\0\0\1", None]
    assert (len(registry.requests), forms) == (2, [SMALL, other])


def test_a_registry_that_does_not_answer_is_worth_another_try(registry: Registry) -> None:
    registry.broken = True
    with pytest.raises(RetriableError, match="temporarily unable to respond"):
        written(registry, "AvroConverter", ONE)
    with Registry() as gone:
        pass
    with pytest.raises(RetriableError, match="cannot reach the Schema Registry"):
        written(gone, "AvroConverter", ONE)


def test_user_and_password_are_shown_to_the_registry_and_to_nobody_else() -> None:
    with Registry(user="ada:secret-word") as registry:
        user = {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "ada:secret-word"}
        assert written(registry, "AvroConverter", ONE, **user)[:5] == b"\0\0\0\0\1"
        with pytest.raises(ConnectorError, match="refuses these credentials") as refused:
            written(registry, "AvroConverter", ONE, **(user | {"basic_auth_user_info": "ada:wrong-word"}))
        assert "wrong-word" not in str(refused.value)
    config = {"value.converter": "AvroConverter", "value.converter.basic.auth.user.info": "ada:secret-word"}
    config |= {"value.converter.schema.registry.url": "https://ada:secret-word@there"}
    values = {value.name: value for value in source_config_def(config).validate(config)}
    assert values["value.converter.basic.auth.user.info"].info(ConfigType.PASSWORD)["value"] == "[hidden]"
    assert "secret-word" not in str([value.errors for value in values.values()])
    with pytest.raises(ConfigException, match=r"use basic\.auth\.user\.info"):
        value_converter(config)


def test_bearer_tokens_are_given_or_fetched() -> None:
    with Registry(token="token-one") as registry:
        given = {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "token-one"}
        assert written(registry, "AvroConverter", ONE, **given)[:5] == b"\0\0\0\0\1"
        with pytest.raises(ConnectorError, match="refuses these credentials"):
            written(registry, "AvroConverter", ONE, **(given | {"bearer_auth_token": "token-two"}))
        fetched = {
            "bearer_auth_credentials_source": "OAUTHBEARER",
            "bearer_auth_issuer_endpoint_url": f"{registry.url}/token",
            "bearer_auth_client_id": "ada",
            "bearer_auth_client_secret": "secret-word",
            "bearer_auth_scope": "schemas",
        }
        assert written(registry, "AvroConverter", ONE, **fetched)[:5] == b"\0\0\0\0\1"
        assert registry.requests.count(("POST", "token")) == 1
        with pytest.raises(RetriableError, match="gets no token"):
            written(
                registry, "AvroConverter", ONE, **(fetched | {"bearer_auth_issuer_endpoint_url": f"{registry.url}/no"})
            )


def certificate(folder: Path) -> Path:
    """A PEM file with a key and the certificate of `localhost` that it signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    path = folder / "registry.pem"
    path.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(encoding)
    )
    return path


def test_a_registry_is_trusted_by_its_certificate(tmp_path: Path) -> None:
    pem = certificate(tmp_path)
    with Registry(certificate=pem) as registry:
        trusted = {"schema_registry_ssl_truststore_location": str(pem)}
        assert written(registry, "AvroConverter", ONE, **trusted)[:5] == b"\0\0\0\0\1"
        with pytest.raises(RetriableError, match="cannot reach"):
            written(registry, "AvroConverter", ONE)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("AvroConverter", {"a": 1}, "it needs a schema"),
        ("AvroConverter", Struct(struct({"a.b": INT64}), {"a.b": 1}), "not a name in Avro"),
        ("AvroConverter", Struct(SMALL), "is null"),
        ("ProtobufConverter", "text", "writes structs"),
        ("ProtobufConverter", Struct(struct({"a": array(array(INT64))}), {"a": []}), "no lists of lists"),
        ("JsonSchemaConverter", Struct(SMALL), "null field id"),
        ("ProtobufConverter", Struct(struct({"a": DATE}), {"a": DistantDate(10**7)}), "years are 1 to 9999"),
        ("ProtobufConverter", Struct(struct({"a": TIMESTAMP}), {"a": DistantTimestamp(10**18)}), "years are 1 to 9999"),
        ("AvroConverter", Struct(struct({"a": decimal(1)}), {"a": Decimal("NaN")}), "only finite numbers"),
    ],
)
def test_what_a_form_lacks_is_refused(kind: str, value: object, message: str, registry: Registry) -> None:
    with pytest.raises(ConnectorError, match=message):
        written(registry, kind, value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "schema.registry.url"),
        ({"use.latest.version": "true"}, "written with its own schema"),
        ({"value.subject.name.strategy": "Mine"}, "Available: TopicNameStrategy"),
        ({"schema.registry.ssl.truststore.type": "JKS"}, "only PEM"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "bearer.auth.issuer.endpoint.url"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, str], message: str) -> None:
    url = {"schema.registry.url": "http://localhost:1"} if settings else {}
    with pytest.raises(ConfigException, match=message):
        find_converter("value.converter", "AvroConverter")().configure(url | settings, is_key=False)


def test_a_trial_leaves_the_registry_alone(registry: Registry) -> None:
    converter = value_converter(
        {"value.converter": "AvroConverter", "value.converter.schema.registry.url": registry.url}
    )
    converter.trial()
    assert (converter.from_record("flights", ONE) or b"")[:5] == b"\0\0\0\0\0"
    assert registry.requests == []


def test_without_the_extra_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, registry: Registry) -> None:
    absent: Any = None
    monkeypatch.setitem(sys.modules, "fastavro", absent)
    with pytest.raises(ConfigException, match=r"pip install 'ringfence\[schema-registry\]'"):
        written(registry, "AvroConverter", ONE)
