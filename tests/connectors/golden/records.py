"""The records that the cases are made of: one with every kind of value, with a schema and without."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

from ringfence.connectors.api import Schema, SchemaAndValue, SchemaType, SourceRecord, Struct
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

INNER = struct({"x": optional(INT32), "y": STRING.but(default="why")}, "Inner", optional=True)
DEFAULTED = struct({"n": INT32, "s": optional(STRING)}).but(optional=True)
OUTER = Schema(
    SchemaType.STRUCT,
    name="flights.Flight",
    version=3,
    doc="A flight",
    parameters={"p": "q"},
    fields=[
        ("i8", INT8),
        ("i16", INT16),
        ("i32", INT32.but(doc="counts", default=7)),
        ("i64", optional(INT64)),
        ("f32", FLOAT32),
        ("f64", FLOAT64.but(default=1.5)),
        ("yes", BOOLEAN),
        ("text", STRING.but(parameters={"unit": "m"})),
        ("raw", BYTES),
        ("price", decimal(2)),
        ("day", DATE),
        ("at", TIME),
        ("when", optional(TIMESTAMP)),
        ("maybe", STRING.but(optional=True, default="none")),
        ("list", array(INT32)),
        ("counts", mapping(STRING, INT64)),
        ("inner", INNER),
    ],
)
MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789000, UTC)
VALUES = {
    "i8": -8,
    "i16": 1600,
    "i32": 320000,
    "i64": 1_700_000_000_123,
    "f32": 1.1,
    "f64": -1.5e10,
    "yes": True,
    "text": "12",
    "raw": b"\x00\xfe",
    "price": Decimal("12.30"),
    "day": date(2026, 2, 3),
    "at": time(4, 5, 6, 789000),
    "when": MOMENT,
    "maybe": None,
    "list": [1, 2],
    "counts": {"a": 1},
    "inner": {"x": None, "y": None},
}
FULL = Struct(OUTER, VALUES)
SPARSE = Struct(OUTER, VALUES | {"i32": None, "i64": None, "f64": None, "when": None, "inner": None, "maybe": "said"})
FLAT = Schema(
    SchemaType.STRUCT,
    name="Flat",
    fields=[("id", INT64), ("name", optional(STRING)), ("deep", struct({"a.b": INT32, "c": INNER}))],
)
FLAT_VALUE = Struct(FLAT, {"id": 5, "name": "n", "deep": {"a.b": 1, "c": {"x": 9, "y": "z"}}})
PLAIN: dict[str, object] = {
    "i": 5,
    "big": 1_700_000_000_123,
    "f": 2.5,
    "yes": True,
    "text": "2026-02-03",
    "raw": b"\x01",
    "none": None,
    "list": [1, "a"],
    "deep": {"a": 1, "b": {"c": "d", "none": None}, "x.y": {"z": 3}},
}


def record(
    value: object,
    value_schema: Schema | None = None,
    key: object = None,
    key_schema: Schema | None = None,
    timestamp: int | None = 1_700_000_000_123,
) -> SourceRecord:
    """A record for topic `flights`; a struct brings its own schema."""
    if isinstance(value, Struct) and value_schema is None:
        value_schema = value.schema
    if isinstance(key, Struct) and key_schema is None:
        key_schema = key.schema
    headers = [("h", SchemaAndValue(STRING, "v")), ("n", SchemaAndValue(INT32, 3)), ("h", SchemaAndValue(None, None))]
    return SourceRecord({}, {}, "flights", value, key, headers, timestamp, 3, key_schema, value_schema)
