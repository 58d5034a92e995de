"""Whatever value reaches a transform or converter: it is processed, or refused in Kafka Connect's words."""

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pytest

from ringfence.connectors.api import (
    ConfigException,
    ConnectorError,
    DistantDate,
    DistantTimestamp,
    Schema,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.converters import find_converter, find_header_converter
from ringfence.connectors.transforms import find_transform
from ringfence.testing.oddities import UNSUPPORTED, Kind, oddities
from tests.connectors.golden.codec import Json
from tests.connectors.golden.files import load
from tests.support.registry import Registry

_SCHEMAS = {
    Kind.INTEGER: connect.INT64,
    Kind.REAL: connect.FLOAT32,
    Kind.DOUBLE: connect.FLOAT64,
    Kind.BOOLEAN: connect.BOOLEAN,
    Kind.BYTES: connect.BYTES,
    Kind.DATE: connect.DATE,
    Kind.TIME: connect.TIME,
    Kind.TIMESTAMP: connect.TIMESTAMP,
    Kind.ZONED_TIMESTAMP: connect.TIMESTAMP,
}

_WRONG: list[tuple[Schema, object]] = [
    (connect.decimal(2), Decimal("NaN")),
    (connect.decimal(2), Decimal("1.234")),
    (connect.STRING, "\ud800"),
    (connect.array(connect.STRING), ["\ud800"]),
    (connect.INT8, 300),
    (connect.INT64, 2**70),
    (connect.FLOAT32, 1e300),
    (connect.DATE, DistantDate(2**31)),
    (connect.TIMESTAMP, DistantTimestamp(2**63)),
]
"""Values that do not fit their schema: a connector's mistake."""

_UNTYPED: list[object] = [
    *(2**70, float("nan"), Decimal("NaN"), {1: 2}, {None: 1}, object(), {1, 2}, (1, 2), b"\xff", 1j, "\ud800"),
    *(datetime.max.replace(tzinfo=UTC), date.min, time.max, timedelta(1), DistantDate(10**7)),
]


def _values() -> Iterator[tuple[Schema | None, object]]:
    for oddity in oddities():
        if oddity.value is UNSUPPORTED:
            continue
        schema = _SCHEMAS.get(oddity.kind, connect.STRING)
        if isinstance(oddity.value, Decimal):
            exponent = oddity.value.as_tuple().exponent
            assert isinstance(exponent, int)
            schema = connect.decimal(max(0, -exponent))
        yield schema, oddity.value
    yield from _WRONG
    for value in _UNTYPED:
        yield None, value


VALUES = list(_values())


def _shapes(schema: Schema | None, value: object) -> Iterator[tuple[Schema | None, object]]:
    """Yield the value alone and inside of others."""
    yield schema, value
    yield None, {"a": value}
    yield None, [value]
    if schema is not None:
        yield connect.array(schema), [value]
        outer = connect.struct({"a": schema})
        yield outer, Struct.of(outer, [value])


def _bare_errors(call: Callable[[Schema | None, object], object]) -> set[str]:
    """Return the errors that are not Kafka Connect's."""
    found = set()
    for schema, value in VALUES:
        for outer, content in _shapes(schema, value):
            try:
                call(outer, content)
            except ConnectorError:
                continue
            except Exception as error:
                found.add(f"{type(error).__name__}: {error} (a {type(value).__name__} in {outer})")
    return found


def _kinds(cases: str, *kinds: str) -> list[Json]:
    """Return one case for each class and configuration."""
    found: dict[str, Json] = {}
    for case in load(cases):
        if case["kind"] in kinds:
            found.setdefault(json.dumps([case["class"], case["kind"], case["config"], case.get("key")]), case)
    return [*found.values()]


def test_transforms_refuse_values_in_kafka_connects_words() -> None:
    applied, wrong = 0, set()
    for case in _kinds("transforms", "transform"):
        transform = find_transform("type", case["class"])()
        try:
            transform.configure(case["config"])
        except ConfigException:
            continue
        applied += 1
        texts = ",".join(map(str, case["config"].values())).replace(":", ",").split(",")
        names = list(dict.fromkeys(["a", *filter(str.isidentifier, texts)]))[:4]

        def apply(schema: Schema | None, value: object, names: list[str] = names, apply=transform.apply) -> None:  # type: ignore[no-untyped-def]
            apply(SourceRecord({}, {}, "t", value, value, (("h", value),), None, None, schema, schema))
            apply(SourceRecord({}, {}, "t", dict.fromkeys(names, value), dict.fromkeys(names, value)))
            if schema is not None:
                outer = connect.struct(dict.fromkeys(names, schema))
                row = Struct.of(outer, [value] * len(names))
                apply(SourceRecord({}, {}, "t", row, row, (), None, None, outer, outer))

        wrong |= {f"{case['class']}: {error}" for error in _bare_errors(apply)}
    assert applied > 50
    assert not wrong


def test_converters_refuse_values_in_kafka_connects_words() -> None:
    wrong = set()
    for case in _kinds("converters", "converter"):
        converter = find_converter("value.converter", case["class"])()
        converter.configure(case["config"], is_key=case["key"])

        def convert(schema: Schema | None, value: object, convert=converter.from_record) -> None:  # type: ignore[no-untyped-def]
            convert("flights", value, schema)

        wrong |= {f"{case['class']}: {error}" for error in _bare_errors(convert)}
    for case in _kinds("converters", "header"):
        headers = find_header_converter("header.converter", case["class"])()
        headers.configure_headers(case["config"])

        def convert_header(schema: Schema | None, value: object, convert=headers.from_header) -> None:  # type: ignore[no-untyped-def]
            convert("flights", "h", value, schema)

        wrong |= {f"{case['class']}, header: {error}" for error in _bare_errors(convert_header)}
    assert not wrong


@pytest.mark.parametrize("name", ["AvroConverter", "ProtobufConverter", "JsonSchemaConverter"])
def test_converters_with_a_registry_refuse_values_in_kafka_connects_words(name: str) -> None:
    with Registry() as registry:
        converter = find_converter("value.converter", name)()
        converter.configure({"schema.registry.url": registry.url}, is_key=False)
        topics = itertools.count()  # each with a subject of its own: schemas of one must be compatible
        wrong = _bare_errors(lambda schema, value: converter.from_record(f"t{next(topics)}", value, schema))
    assert not wrong
