"""Kafka Connect's converters, on values of every kind, with and without schemas."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal

from ringfence.connectors.api import Schema, Struct
from ringfence.connectors.api.schemas import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    array,
    decimal,
    mapping,
    optional,
    struct,
)
from tests.connectors.golden.codec import Json, schema_json, value_json
from tests.connectors.golden.records import FLAT_VALUE, FULL, MOMENT, SPARSE

CONVERTERS = "org.apache.kafka.connect.converters."
STORAGE = "org.apache.kafka.connect.storage."
NUMBERS = ("Short", "Integer", "Long", "Float", "Double", "Boolean")
JSON = "org.apache.kafka.connect.json.JsonConverter"
KEYED = Schema(optional(STRING).type, optional=True)


def given() -> Iterator[tuple[Schema | None, object]]:  # noqa: C901 - a case for each type
    """Schemas and values."""
    yield None, None
    for schema in (INT8, INT16, INT32, INT64):
        for number in (0, -1, 127):
            yield schema, number
    yield INT64, -(2**63)
    for real in (0.0, -0.0, 1.0, 0.1, 1e7, 9999999.0, 1e-3, 9.9e-4, 1.5e300, -2.5e-10, float("nan"), float("inf")):
        yield FLOAT64, real
    for real in (0.0, 1.0, 0.1, 1e7, 3.4e38, 1e-45, 16777216.0, float("-inf")):
        yield FLOAT32, Struct(struct({"f": FLOAT32}), {"f": real})["f"]
    for text in ("", "text", "ü€😀", 'a"b\\c/d', "\x00\x1f\x7f\n\t\r\b\f", "\u2028</script>", "\\u001f", "null"):
        yield STRING, text
    for flag in (True, False):
        yield BOOLEAN, flag
    for data in (b"", b"\x00\xff", b"text"):
        yield BYTES, data
    for digits in ("0", "0.00", "12.30", "-12.30", "1.27", "1.28", "-1.28", "-1.29", "123456789012345678901.23"):
        number_ = Decimal(digits)
        exponent = number_.as_tuple().exponent
        assert isinstance(exponent, int)
        yield decimal(-exponent), number_
    yield decimal(-3), Decimal("1E+3")
    yield decimal(8), Decimal("0.00000001")
    yield decimal(2), Decimal("1.5")  # not its scale
    for day in (date(1970, 1, 1), date(2026, 2, 3), date(1969, 12, 31), date(1600, 2, 29)):
        yield DATE, day
    for hour in (time(0), time(4, 5, 6, 789000), time(23, 59, 59, 999000)):
        yield TIME, hour
    for moment in (MOMENT, datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)):
        yield TIMESTAMP, moment
    yield TIMESTAMP, datetime(2026, 2, 3, tzinfo=UTC)
    yield array(INT32), [1, 2]
    yield array(optional(STRING)), ["a", None, 'b"']
    yield array(array(FLOAT64)), [[1.0], []]
    yield array(DATE), [date(2026, 2, 3)]
    yield mapping(STRING, INT32), {"a": 1}
    yield mapping(INT32, STRING), {1: "a"}
    yield mapping(KEYED, optional(BYTES)), {"b": b"\x01"}
    yield FULL.schema, FULL
    yield SPARSE.schema, SPARSE
    yield FLAT_VALUE.schema, FLAT_VALUE
    plain = struct({"id": INT64, "name": STRING, "yes": BOOLEAN, "more": optional(STRING)}, "Plain", version=2)
    yield plain, Struct(plain, {"id": 1, "name": "n", "yes": True, "more": "m"})
    yield plain, Struct(plain, {"id": 1, "name": "n", "yes": True})
    yield plain, Struct(plain, {"id": 1, "yes": True})
    for schema in (INT32, optional(INT32), INT32.but(default=5), STRING.but(optional=True, default="d")):
        yield schema, None
    yield plain.but(optional=True), None
    yield INT32.but(name="custom", version=7, doc="d", parameters={"a": "b", "c": "d"}), 5
    yield array(INT32).but(default=[1, 2]), [3]
    yield decimal(2).but(default=Decimal("1.00")), Decimal("2.00")
    yield TIMESTAMP.but(default=MOMENT), MOMENT
    for bare in (
        5,
        2.5,
        True,
        "text",
        b"\x01",
        [1, "a", None],
        {"a": 1, "b": [True, {"c": None}]},
        {"n": float("nan")},
    ):
        yield None, bare
    yield None, {1: "a", "b": 2}
    yield None, MOMENT
    yield None, Decimal("1.5")


def cases() -> Iterator[Json]:
    simple = [f"{CONVERTERS}{name}Converter" for name in (*NUMBERS, "ByteArray")]
    configs: tuple[tuple[str, dict[str, str]], ...] = (
        (JSON, {}),
        (JSON, {"schemas.enable": "false"}),
        (JSON, {"decimal.format": "NUMERIC", "replace.null.with.default": "false"}),
        (JSON, {"schemas.enable": "false", "decimal.format": "numeric"}),
        (JSON, {"schema.content": '{"type":"int32"}'}),
        (STORAGE + "StringConverter", {}),
        (STORAGE + "StringConverter", {"converter.encoding": "UTF-16BE"}),
        *((name, {}) for name in simple),
    )
    for schema, value in given():
        shown = {"schema": schema_json(schema), "value": value_json(schema, value)}
        for name, config in configs:
            yield {"kind": "converter", "class": name, "config": config, "key": False, **shown}
        for name in (STORAGE + "SimpleHeaderConverter", STORAGE + "StringConverter", JSON, *simple):
            yield {"kind": "header", "class": name, "config": {}, **shown}
    for name in (JSON, STORAGE + "StringConverter", STORAGE + "SimpleHeaderConverter", *simple):
        yield {"kind": "settings", "class": name}
