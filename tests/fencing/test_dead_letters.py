"""A dead letter holds its record so that it comes out equal, or says that it does not."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from ringfence.connectors.api import SchemaAndValue, SourceRecord, Struct
from ringfence.connectors.api.schemas import (
    BYTES,
    DATE,
    FLOAT32,
    INT8,
    STRING,
    TIME,
    TIMESTAMP,
    array,
    decimal,
    mapping,
    struct,
)
from ringfence.fencing.records.dead_letter import (
    DeadLetter,
    NotExact,
    as_bytes,
    mark,
    parse_replayed_offset,
    record_text,
)

INNER = struct({"n": INT8.but(default=7, doc="a number"), "f": FLOAT32.but(optional=True)}, name="inner", version=2)
ROW = struct(
    {
        "inner": INNER,
        "list": array(INNER, optional=True),
        "map": mapping(STRING, BYTES),
        "price": decimal(2),
        "day": DATE,
        "at": TIME,
        "when": TIMESTAMP.but(parameters={"a": "b"}),
    }
)
ONE = Struct(INNER, {"n": 3, "f": None})
VALUE = Struct(
    ROW,
    {
        "inner": ONE,
        "list": [ONE, ONE],
        "map": {"x": b"\x00\xff"},
        "price": Decimal("1.50"),
        "day": date(2026, 1, 2),
        "at": time(1, 2, 3),
        "when": datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
    },
)


def letter(record: SourceRecord) -> DeadLetter:
    key, value = as_bytes(record.key), as_bytes(record.value)
    told = {
        "topic": record.topic,
        "source.partition": json.dumps(record.source_partition),
        "source.offset": json.dumps(record.source_offset),
        "record": record_text(record, key, value),
    }
    strangers = [("__connect.errors.record", b"of a source that reads dead letters itself")]
    ours = [("__connect.errors." + name, text.encode()) for name, text in told.items()]
    return DeadLetter((0, 3), 5, key, value, [*strangers, *ours])


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"\x00raw",
        bytearray(b"raw"),
        "text \udcff \u20ac",
        "\udcc3\udca9",
        "half a pair \ud83d",
        True,
        2**80,
        0.1,
        float("inf"),
        {"a": [1, None, {"b": (b"x", 1.5)}], 3: "no text", ("t", 1): Decimal("0.10")},
        [date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 6, UTC), time(1, 2)],
    ],
    ids=str,
)
def test_plain_values_come_out_as_they_went_in(value: object) -> None:
    record = SourceRecord({"p": 1}, {"o": 2}, "t", value, value, [("h", value), ("h", b"again")], None, 4)
    back = letter(record).record()
    assert (back.value, back.key, back.headers) == (value, value, [("h", value), ("h", b"again")])
    assert type(back.value) is (bytes if isinstance(value, bytearray) else type(value))
    assert (back.topic, back.partition, back.timestamp) == ("t", 4, None)
    assert (back.source_partition, back.source_offset) == ({"p": 1}, {"o": 2})


def test_schemas_and_structs_come_out_equal() -> None:
    headers = [("h", SchemaAndValue(INT8, 5)), ("n", SchemaAndValue(None, "x"))]
    record = SourceRecord({}, None, "t", VALUE, ONE, headers, 9, None, INNER, ROW)
    back = letter(record).record()
    assert (back.value_schema, back.key_schema) == (ROW, INNER)
    assert isinstance(back.value, Struct)
    assert (back.value.schema, list(back.value.values), back.key) == (ROW, list(VALUE.values), ONE)
    assert back.headers == record.headers
    assert (back.timestamp, back.source_offset) == (9, None)
    assert len(json.loads(letter(record).header("record"))["schemas"]) == 13, "each schema once"


def test_what_cannot_be_kept_says_so() -> None:
    class Odd:
        pass

    circle: list[object] = []
    circle.append(circle)
    for value, why in ((Odd(), "type Odd"), ({"x" * 500_000: 1}, "at most 400000"), (circle, "RecursionError")):
        made = record_text(SourceRecord({}, None, "t", value), None, b"")
        kept = DeadLetter((0, 0), 0, None, b"", [("__connect.errors.record", made.encode())])
        with pytest.raises(NotExact, match=why):
            kept.record()


@pytest.mark.parametrize(
    "text", ["", "7", "[]", "{}", '{"version": 1}', '{"version": 2}', "{", '{"version":1,"schemas":[{"type":"?"}]}']
)
def test_what_nobody_wrote_is_not_taken_for_a_record(text: str) -> None:
    with pytest.raises(NotExact):
        DeadLetter((0, 0), 0, None, b"", [("__connect.errors.record", text.encode())]).record()


def test_a_mark_names_the_letter_in_its_own_partition() -> None:
    topic, value, key, partition, *_, headers = mark("bad", (3, 17), "c", {"by": "ann"})
    assert (topic, key, partition) == ("bad", b"replayed-3-17", 3)
    assert json.loads(value) == {"replayed": {"partition": 3, "offset": 17}, "by": "ann"}  # type: ignore[arg-type]
    assert parse_replayed_offset(headers) == 17  # type: ignore[arg-type]
    assert parse_replayed_offset([("__connect.errors.stage", b"1")]) is None
