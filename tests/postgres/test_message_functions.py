"""A message of the stream becomes the same JSON at once as value by value."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ringfence.connectors.api import Schema
from ringfence.connectors.api.schemas import FLOAT64, STRING
from ringfence.connectors.builtin.postgres.json_records import Form, WrittenColumn, message_function, row_function
from ringfence.connectors.converters.json_converter import JsonConverter, dumps

OID = 0x74000000
"""Looks like the beginning of a value."""
CONVERTER = JsonConverter()
CONVERTER.configure({}, is_key=False)


def write_as(schema: Schema, read: Any) -> Any:
    encode = CONVERTER.encoders.present(schema)
    return lambda raw: dumps(read(raw) if encode is None else encode(read(raw)))


def write_moment(raw: bytes) -> bytes:
    return b'"%b"' % raw.replace(b" ", b"T").replace(b"+00", b"Z")


COLUMNS = [
    WrittenColumn(b'"id"'),
    WrittenColumn(b'"50%b"', write_as(STRING, bytes.decode), form=Form.TEXT),
    WrittenColumn(b'"f"', write_as(FLOAT64, float), form=Form.FLOAT64),
    WrittenColumn(None),
    WrittenColumn(b'"ok"', {b"t": b"true", b"f": b"false"}.get),
    WrittenColumn(b'"at"', write_moment, form=Form.MOMENT),
    WrittenColumn(b'"more"', write_as(STRING, bytes.decode), b"null", Form.TEXT),
]
KEY = [0, 1]
HEAD, AROUND = b'{"%d":null,"after":', (b"<%d", b">")
Values = Sequence[bytes | None]


def message_of(values: Values, kind: bytes = b"I", lsn: int = 5, oid: int = OID) -> bytes:
    """As the server sends it."""
    columns = b"".join(b"n" if one is None else b"t" + struct.pack(">i", len(one)) + one for one in values)
    row = kind + struct.pack(">I", oid) + b"N" + struct.pack(">H", len(values)) + columns
    return b"w" + struct.pack(">QQq", lsn, lsn + 1, -3) + row


def write(message: bytes, operations: bytes = b"IU") -> tuple[bytes, bytes] | None:
    records: list[bytes | None] = []
    keys: list[bytes | None] = []
    function = message_function(OID, COLUMNS, KEY, operations=operations, head=HEAD, around_key=AROUND)
    done = function(records.append, keys.append, {b"I": b"/i", b"U": b"/u"}, b"[", b"|", message)
    assert len(records) == len(keys) == bool(done)
    return (records[0] or b"", keys[0] or b"") if done else None


texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=90).map(str.encode)
plain_texts = st.text("abnt u\\\"'01", max_size=255).map(str.encode)
numbers = st.floats(allow_nan=True, allow_infinity=True).map(lambda value: _as_postgres(value).encode())
moments = st.datetimes().map(lambda value: f"{value:%Y-%m-%d %H:%M:%S.%f}+00".encode())


def _as_postgres(value: float) -> str:
    text = repr(value).replace("inf", "Infinity").replace("nan", "NaN")
    return text.removesuffix(".0")


rows = st.tuples(
    st.integers(-(2**63), 2**63 - 1).map(lambda value: str(value).encode()),
    texts | plain_texts,
    numbers | st.floats(-1e8, 1e8).map(lambda value: _as_postgres(round(value, 3)).encode()),
    texts,
    st.sampled_from([b"t", b"f"]),
    moments,
    texts | plain_texts,
)


@given(rows, st.sampled_from([b"I", b"U"]))
@example((b"1", b"t", b"-0", b"", b"t", b"2026-01-31 12:34:56.1+00", b"n"), b"I")
@example((b"1", b"", b"0.001", b"t", b"f", b"2026-01-31 12:34:56.123456+00", b""), b"U")
@example((b"1", b"x" * 255, b"9999999.5", b"n", b"f", b"0044-03-15 12:00:00+00 BC", b"u"), b"U")
@example((b"1", b"x", b"10000000", b"n", b"f", b"infinity", b"u"), b"U")
@example((b"1", b"x", b"0.0001", b"n", b"f", b"-infinity", b"u"), b"U")
def test_it_is_the_json_of_the_values(values: Values, kind: bytes) -> None:
    message = message_of(values, kind, lsn=2**63 + 7)
    done = write(message)
    if any(len(value or b"") > 255 for value in values):
        assert done is None
        return
    known = row_function(COLUMNS, KEY)(message[25:], 8)
    assert known is not None
    row, key, _ = known
    tail = b"/" + kind.lower()
    assert key is not None
    assert done == (HEAD + row + b"[9223372036854775815|9223372036854775815" + tail, b"<%d" + key + b">")


@given(st.lists(plain_texts | st.none(), min_size=7, max_size=7).filter(lambda row: None in row))
@example([b"1", b"abct", None, b"n", b"t", b"x", b"y"])
def test_it_leaves_rows_with_nulls_alone(values: Values) -> None:
    assert write(message_of(values)) is None


def test_it_leaves_other_messages_alone() -> None:
    row = [b"1", b"x", b"1", b"", b"t", b"2026-01-31 12:34:56.123456+00", b"y"]
    assert write(message_of(row)) is not None
    assert write(message_of(row, b"U"), b"I") is None
    assert write(message_of(row, b"D")) is None
    assert write(message_of(row, oid=OID + 1)) is None
    assert write(message_of([*row, b"z"])) is None
    assert write(message_of([*row[:-1], b"x" * 256])) is None
    assert write(message_of(row).replace(b"N", b"K", 1)) is None
    assert write(message_of(row)[:-40]) is None


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Form.OTHER, b"1"),
        (Form.TEXT, b"plain"),
        (Form.FLOAT64, b"1.5"),
        (Form.FLOAT64, b"15"),
        (Form.MOMENT, b"2026-11-28 10:00:00.000000+00"),
    ],
)
@pytest.mark.parametrize("last", [None, b"x" * 256])
def test_a_value_that_does_not_fit_is_noticed_at_once(form: Form, value: bytes, last: bytes | None) -> None:
    """Behind 60 values, each of which can be read in two ways: 2**60 attempts would never end."""
    columns = [WrittenColumn(b'"c"', bytes, b"null", form)] * 61
    function = message_function(OID, columns, [], operations=b"IU", head=HEAD, around_key=AROUND)
    records: list[bytes | None] = []
    keys: list[bytes | None] = []
    assert function(records.append, keys.append, {}, b"", b"", message_of([*[value] * 60, last])) is None
    assert function(records.append, keys.append, {b"I": b""}, b"", b"", message_of([value] * 61)) is True
    assert len(records) == 1


def test_a_table_without_columns_has_records() -> None:
    function = message_function(OID, [], [], operations=b"IU", head=HEAD, around_key=AROUND)
    records: list[bytes | None] = []
    keys: list[bytes | None] = []
    assert function(records.append, keys.append, {b"I": b""}, b"", b"", message_of([])) is True
    assert function(records.append, keys.append, {b"I": b""}, b"", b"", message_of([b"1"])) is None
    assert len(records) == 1
