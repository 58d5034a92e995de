"""Schemas and values for Confluent's AvroConverter, whose code for them Apicurio's has, too."""

from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal

from ringfence.connectors.api import Schema, Struct
from ringfence.connectors.api.schemas import (
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL_NAME,
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
    fit,
    mapping,
    optional,
    single,
    struct,
)
from tests.connectors.golden.codec import Json, schema_json, value_json
from tests.connectors.golden.converter_cases import given
from tests.connectors.golden.records import MOMENT

CLASS = "io.apicurio.registry.utils.converter.AvroConverter"
DOC = "io.confluent.connect.avro."
POINT = struct({"x": INT32, "y": optional(INT32)}, "shapes.Point")
NAMELESS = struct({"n": INT64})
_EACH: tuple[tuple[Schema, object], ...] = (
    (INT8, 5),
    (INT16, -300),
    (INT32, 70000),
    (INT64, 2**40),
    (FLOAT32, 1.5),
    (FLOAT64, -2.5e10),
    (BOOLEAN, True),
    (STRING, "text ü"),
    (BYTES, b"\x00\xff\x80"),
    (decimal(2), Decimal("12.34")),
    (DATE, date(2026, 2, 3)),
    (TIME, time(4, 5, 6, 789000)),
    (TIMESTAMP, MOMENT),
    (array(INT8), [1, -1]),
    (array(optional(POINT)), [{"x": 1}, None]),
    (mapping(STRING, optional(INT64)), {"a": None}),
    (mapping(INT32, STRING), {1: "a"}),
    (mapping(optional(STRING), INT32), {"a": 1}),
    (POINT, {"x": 1, "y": 2}),
)


def _given() -> Iterator[tuple[Schema | None, object]]:
    yield from given()
    for schema, value in _EACH:
        plain = schema is POINT or schema.values == optional(POINT)  # a default of a struct has a schema of its own
        more = () if plain else (schema.but(default=value), schema.but(optional=True, default=value))
        for inner in (schema, optional(schema), *more):
            around = struct({"f": inner}, "around.It")
            yield around, Struct(around, {"f": value})
            yield inner, fit(inner, value)
            if inner is not schema:
                yield around, Struct(around, {})
                yield inner, None
        yield array(optional(schema)), [fit(optional(schema), value), None]
        yield mapping(STRING, schema), {"k": fit(schema, value)}
    for schema, value in (
        (INT32.but(name="my.Number", version=2, doc="why", parameters={"b": "1", "a": "2"}), 5),
        (STRING.but(name="my.Text", doc="why"), "t"),
        (POINT.but(doc="a point", version=7, parameters={"p": "q"}), None),
        (struct({"a": POINT, "b": POINT, "c": optional(POINT)}, "shapes.Twice"), None),
        (struct({"a": POINT, "b": array(POINT), "c": mapping(STRING, POINT)}, "Bare"), None),
        (struct({"a": struct({"n": INT32}, "Within")}, "shapes.Around"), None),
        (struct({"a": struct({"n": INT32}, "other.Within")}, "shapes.Around"), None),
        (struct({"a": NAMELESS}), None),
        (struct({"a": array(mapping(STRING, array(INT32)))}, "deep.Er"), None),
        (struct({"a": mapping(INT64, mapping(INT64, STRING))}, "differs.Pairs"), None),
        (struct({"a": mapping(INT64, POINT), "b": mapping(optional(STRING), DATE)}, "differs.Pairs"), None),
        (struct({"a": mapping(INT64, STRING), "b": mapping(INT64, STRING)}, "deep.Er"), None),
        (struct({"a": mapping(INT64, STRING).but(name="deep.In"), "b": mapping(INT32, DATE)}, "deep.Er"), None),
        (struct({"a": NAMELESS, "b": optional(NAMELESS), "c": struct({"o": INT64})}), None),
        (struct({"a": struct({"n": INT32}, "In"), "b": struct({"n": INT32}, "In")}, "differs.Near"), None),
        (mapping(INT32, STRING).but(name="my.Map"), {1: "a"}),
        (mapping(INT32, STRING).but(name="Map", optional=True), {1: "a"}),
        (struct({"a": mapping(INT32, STRING).but(default={})}, "default.Ed"), None),
        (struct({"a": array(optional(STRING)).but(default=["a"])}, "default.Ed"), None),
        (struct({"a": array(optional(STRING)).but(default=[None, "a"])}, "default.Ed"), None),
        (struct({"a": mapping(STRING, optional(INT64)).but(default={"a": 1})}, "default.Ed"), None),
        (struct({"a": FLOAT64.but(default=float("nan")), "b": FLOAT32.but(default=1.0)}, "default.Ed"), {}),
        (struct({"a": FLOAT32.but(default=single(1.1)), "b": FLOAT64.but(default=1e-7)}, "default.Ed"), {}),
        (struct({"a": decimal(2).but(parameters={"scale": "2", "connect.decimal.precision": "9"})}, "exact.It"), None),
        (struct({"a": STRING.but(parameters={"avro.java.string": "String", "z": "1", "b": "2"})}, "exact.It"), None),
        (struct({"a": INT32}, "d.D").but(parameters={DOC + "record.doc": "of it", DOC + "field.doc.a": "of a"}), None),
        (array(STRING).but(name="my.List", doc="texts", version=1), ["a"]),
        (mapping(STRING, INT32).but(default={"a": 1}), {}),
        (struct({"a": POINT.but(doc="of the field"), "b": INT32.but(doc="count")}, "doc.Ed", optional=True), None),
        (struct({"no-name": INT32}, "odd.Field"), None),
        (struct({"n": INT32}, "odd-name.Struct-1"), None),
    ):
        yield schema, sample(schema) if value is None else fit(schema, value)


def sample(schema: Schema) -> object:
    """Some value of that schema."""
    if schema.fields:
        return Struct(schema, {name: sample(inner) for name, _, inner in schema.fields})
    if schema.name == DECIMAL_NAME:
        return Decimal("12.34")
    if schema.values is not None and schema.keys is not None:
        return {sample(schema.keys): sample(schema.values)}
    if schema.values is not None:
        return [sample(schema.values)]
    return {DATE.name: date(2026, 2, 3), None: "k" if schema.type is STRING.type else 3}[schema.name]


def cases() -> Iterator[Json]:
    seen = set()
    for schema, value in _given():
        shown = {"schema": schema_json(schema), "value": value_json(schema, value)}
        if repr(shown) not in seen:
            seen.add(repr(shown))
            yield {"kind": "converter", "class": CLASS, "config": {}, "key": False, **shown}
