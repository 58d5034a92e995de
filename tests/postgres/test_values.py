"""Single values as Debezium writes them: far dates and times as Kafka Connect's types, shapes, and values not sent."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import EndOfDay, Struct
from ringfence.connectors.api.schemas import DATE_NAME, TIME, TIME_NAME, TIMESTAMP_NAME, struct
from ringfence.connectors.builtin.postgres import text_values
from ringfence.connectors.builtin.postgres.types import ColumnType, PgType, Types, TypeSettings, unavailable_value
from ringfence.connectors.converters.json_converter import JsonConverter
from ringfence.connectors.sdk.values.exact import Reading, Writing
from ringfence.connectors.sdk.values.moments import encode, format_date

_FIRST_DAY, _LAST_DAY = -2_440_587, 2_145_042_905
"""PostgreSQL's dates."""


def _postgres_date(day: int) -> str:
    """Return the date as PostgreSQL writes it."""
    year, month, of_month = format_date(day).removeprefix("+").rsplit("-", 2)
    number = int(year)
    return f"{number:04d}-{month}-{of_month}" if number > 0 else f"{1 - number:04d}-{month}-{of_month} BC"


@given(st.integers(_FIRST_DAY, _LAST_DAY))
def test_every_date_is_its_number_of_days(day: int) -> None:
    raw = _postgres_date(day).encode()
    assert text_values.day_of(raw) == day
    assert encode(DATE_NAME, text_values.connect_date(raw)) == day


@given(st.integers(_FIRST_DAY, 106_741_034), st.integers(0, 86_399_999_999))
def test_every_timestamp_is_its_number_of_milliseconds(day: int, micros: int) -> None:
    date, _, era = _postgres_date(day).partition(" ")
    seconds, fraction = divmod(micros, 1_000_000)
    time = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"
    raw = f"{date} {time} {era}".strip().encode()
    milliseconds = day * 86_400_000 + micros // 1000
    assert text_values.millis_of(raw) == milliseconds
    assert encode(TIMESTAMP_NAME, text_values.connect_timestamp(raw)) == milliseconds


@pytest.mark.parametrize(
    ("raw", "name", "read", "number"),
    [
        (b"infinity", DATE_NAME, text_values.connect_date, 2_146_033_979),
        (b"-infinity", DATE_NAME, text_values.connect_date, -2_147_472_691),
        (b"infinity", TIMESTAMP_NAME, text_values.connect_timestamp, 9_223_372_036_825_200_000),
        (b"-infinity", TIMESTAMP_NAME, text_values.connect_timestamp, -9_223_372_036_832_400_000),
        (b"24:00:00", TIME_NAME, text_values.connect_time, 86_400_000),
        (b"23:59:59.999999", TIME_NAME, text_values.connect_time, 86_399_999),
    ],
)
def test_the_ends_of_time_are_debeziums_numbers(raw: bytes, name: str, read: object, number: int) -> None:
    assert callable(read)
    assert encode(name, read(raw)) == number


@pytest.mark.parametrize(
    ("type_", "raw", "wkb", "extensions"),
    [
        (
            "box",
            b"(3,4),(1,2)",
            "AQMAAAABAAAABQAAAAAAAAAAAAhAAAAAAAAAEEAAAAAAAAAIQAAAAAAAAABAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAPA/AAAAAAAAEEAA"
            "AAAAAAAIQAAAAAAAABBA",
            {"type": "box"},
        ),
        (
            "path",
            b"((1,2),(3,4))",
            "AQIAAAACAAAAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAAhAAAAAAAAAEEA=",
            {"type": "path", "closed": "true"},
        ),
        (
            "path",
            b"[(1,2),(3,4)]",
            "AQIAAAACAAAAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAAhAAAAAAAAAEEA=",
            {"type": "path", "closed": "false"},
        ),
        (
            "polygon",
            b"((1,2),(3,4),(5,6))",
            "AQMAAAABAAAABAAAAAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAIQAAAAAAAABBAAAAAAAAAFEAAAAAAAAAYQAAAAAAAAPA/AAAAAAAAAEA=",
            {"type": "polygon"},
        ),
    ],
)
def test_shapes_are_debeziums_geometries(type_: str, raw: bytes, wkb: str, extensions: dict[str, str]) -> None:
    read, _ = text_values.SHAPES[type_]
    assert list(read(raw).values) == [base64.b64decode(wkb), None, extensions]


def test_lines_and_circles_are_structs_of_numbers() -> None:
    line, circle = text_values.read_line(b"{1,-2.5,1e+300}"), text_values.read_circle(b"<(1,2),3>")
    assert list(line.values) == [1.0, -2.5, 1e300]
    center = circle["center"]
    assert isinstance(center, Struct)
    assert (center["x"], center["y"], circle["radius"]) == (1.0, 2.0, 3.0)


def _column(name: str, *, element: bool, settings: TypeSettings | None = None) -> ColumnType:
    scalar = PgType(1, name, "b", 0, -1, 0, (), ",")
    kinds = {1: scalar, 2: PgType(2, f"_{name}", "b", 0, -1, 1, (), ",")}
    made = Types(settings or TypeSettings(), kinds.__getitem__).column(2 if element else 1, -1)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("name", "element", "value"),
    [
        ("text", False, "gone"),
        ("bytea", False, b"gone"),
        ("numeric", False, None),
        ("text", True, ["gone"]),
        ("bytea", True, [b"gone"]),
        ("int4", True, [103, 111, 110, 101]),
        ("int8", True, [103, 111, 110, 101]),
        ("date", True, [103, 111, 110, 101]),
        ("timestamp", True, None),
        ("bool", True, None),
    ],
)
def test_a_large_value_that_was_not_sent_is_debeziums_placeholder(name: str, element: bool, value: object) -> None:
    assert unavailable_value(_column(name, element=element), "gone") == value


def test_the_placeholder_of_a_uuid_is_javas_uuid_of_its_name() -> None:
    column = _column("uuid", element=True)
    assert unavailable_value(column, "__debezium_unavailable_value") == ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]


def test_elements_of_boxes_are_separated_by_semicolons() -> None:
    assert text_values.unescape_array("{(3,4),(1,2);(1,1),(0,0);NULL}", ";") == ["(3,4),(1,2)", "(1,1),(0,0)", None]


def test_24_oclock_is_a_time_that_can_be_stored_and_converted() -> None:
    writing = Writing()
    assert Reading([]).value(json.loads(json.dumps(writing.value(EndOfDay())))) == EndOfDay()
    row = struct({"at": TIME}, "row")
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    assert converter.from_record("t", Struct.of(row, [EndOfDay()]), row) == b'{"at":86400000}'
