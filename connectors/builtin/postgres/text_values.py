"""Parses PostgreSQL's text of dates, times, intervals, numbers, bits, arrays and geometric types.

The session uses ISO dates, the UTC time zone, and intervals in the `postgres` style (`session.py`), so each type has
one format. PostgreSQL's range of years is wider than Python's: years outside the latter are calculated.

Debezium's schemas of geometric types are optional, also for required columns; that of a point is not.
"""

import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any, Final

from ringfence.connectors.api import DistantDate, DistantTimestamp, EndOfDay, Struct
from ringfence.connectors.api.schemas import BYTES, FLOAT64, INT32, STRING, mapping
from ringfence.connectors.api.schemas import struct as struct_of
from ringfence.connectors.converters.json_converter import to_signed_bytes
from ringfence.connectors.sdk.values.moments import date_of_day, day_number, timestamp_of_millis, to_time

_DAY_US: Final = 86_400_000_000
_MONTH_US: Final = 30.4375 * _DAY_US
"""A month of an interval, as in Debezium: a twelfth of 365.25 days."""
_INTERVAL: Final = re.compile(
    r"(?:(-?\+?\d{1,19}) (year|mon|day)s?)|(?:([+-])?(\d{1,19}):(\d\d):(\d\d)(?:\.(\d{1,19}))?)"
)

INFINITE_DAYS: Final = {b"infinity": 2_146_033_979, b"-infinity": -2_147_472_691}
INFINITE_US: Final = {b"infinity": (1 << 63) - 1, b"-infinity": -(1 << 63)}
INFINITE_MS: Final = {b"infinity": 9_223_372_036_825_200_000, b"-infinity": -9_223_372_036_832_400_000}
"""Debezium's values for infinite dates and timestamps."""


def day_of(raw: bytes) -> int:
    """Return days since 1970."""
    match = INFINITE_DAYS.get(raw)
    return _day(raw.decode()) if match is None else match


def _day(text: str) -> int:
    before_christ = text.endswith(" BC")
    year, month, day = text[:-3].split("-") if before_christ else text.split("-")
    number = 1 - int(year) if before_christ else int(year)
    return day_number(number, int(month), int(day))


def micros_of_day(text: str) -> int:
    """Return the microseconds since midnight of `12:34:56.789`."""
    whole = int(text[:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])
    return whole * 1_000_000 + (int(text[9:].ljust(6, "0")) if len(text) > 8 else 0)


def micros_of(raw: bytes) -> int:
    """Return the microseconds since 1970 of a timestamp without time zone."""
    match = INFINITE_US.get(raw)
    return _micros(raw.decode()) if match is None else match


def _micros(text: str) -> int:
    day, _, time = text.partition(" ")
    if time.endswith(" BC"):
        day, time = f"{day} BC", time[:-3]
    return _day(day) * _DAY_US + micros_of_day(time)


def millis_of(raw: bytes) -> int:
    """Return the milliseconds since 1970 of a timestamp without time zone."""
    match = INFINITE_MS.get(raw)
    return _micros(raw.decode()) // 1000 if match is None else match


def time_millis(raw: bytes) -> int:
    return micros_of_day(raw.decode()) // 1000


def time_micros(raw: bytes) -> int:
    return micros_of_day(raw.decode())


def zoned_timestamp(digits: int) -> Callable[[bytes], str]:
    """Return a function that converts a timestamp with time zone, in UTC, to ISO 8601.

    digits: the minimum number of digits of a fraction of a second.
    """

    def read(raw: bytes) -> str:
        if raw in INFINITE_US:
            return raw.decode()
        text = raw.decode()
        sign = ""
        if text.endswith(" BC"):
            text = text[:-3]
            year, rest = text.split("-", 1)
            number = int(year) - 1
            sign, text = ("-" if number else ""), f"{number:04d}-{rest}"
        elif text.index("-") > 4:
            sign = "+"
        moment = text[: text.rindex("+")]  # the session's time zone is UTC: +00
        whole, _, fraction = moment.partition(".")
        second = f"{whole}.{fraction.ljust(digits, '0')}" if fraction or digits else whole
        return f"{sign}{second.replace(' ', 'T', 1)}Z"

    return read


def zoned_time(raw: bytes) -> str:
    """Convert a time with time zone to UTC."""
    text = raw.decode()
    cut = max(text.rfind("+"), text.rfind("-"))
    zone = [int(part) for part in text[cut + 1 :].split(":")]
    away = sum(part * unit for part, unit in zip(zone, (3600, 60, 1), strict=False)) * 1_000_000
    micros = (micros_of_day(text[:cut]) - (away if text[cut] == "+" else -away)) % _DAY_US
    seconds, rest = divmod(micros, 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}Z"


def _interval_parts(text: str) -> tuple[int, int, int]:
    """Return months, days and microseconds."""
    months = days = micros = 0
    for number, unit, sign, hours, minutes, seconds, fraction in _INTERVAL.findall(text):
        if unit:
            amount = int(number)
            months += amount * 12 if unit == "year" else amount if unit == "mon" else 0
            days += amount if unit == "day" else 0
        else:
            time = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)
            micros += -time if sign == "-" else time
    return months, days, micros


def interval_micros(raw: bytes) -> int:
    """Return an interval in microseconds; a month has 30.4375 days.

    What has more than 64 bits becomes the largest or smallest integer of 64 bits, as in Debezium.
    """
    months, days, micros = _interval_parts(raw.decode())
    return min(max(round(months * _MONTH_US) + days * _DAY_US + micros, -(1 << 63)), (1 << 63) - 1)


def interval_iso(raw: bytes) -> str:
    """Return an interval in ISO 8601, with all parts: `P1Y2M3DT4H5M6.789S`."""
    months, days, micros = _interval_parts(raw.decode())
    years, months = (abs(months) // 12, abs(months) % 12) if months >= 0 else (-(-months // 12), -(-months % 12))
    sign = -1 if micros < 0 else 1
    seconds, fraction = divmod(abs(micros), 1_000_000)
    second = Decimal(sign * (seconds % 60)) + sign * Decimal(fraction).scaleb(-6)
    seconds_text = f"{second.normalize():f}" if second else "0"
    return f"P{years}Y{months}M{days}DT{sign * (seconds // 3600)}H{sign * (seconds // 60 % 60)}M{seconds_text}S"


def bits_of(raw: bytes) -> bytes:
    """Return a bit string as a little-endian number with as few bytes as possible."""
    number = int(raw or b"0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def depth_of(elements: list[object]) -> int:
    """Return the number of dimensions of an array that is not empty."""
    return 1 + depth_of(elements[0]) if isinstance(elements[0], list) else 1


def convert_elements(elements: list[object], read: Callable[[bytes], object]) -> list[object]:
    """Convert the elements of an array, at any depth."""
    return [
        read(each.encode()) if isinstance(each, str) else each if each is None else _convert_inner(each, read)
        for each in elements
    ]


def _convert_inner(elements: object, read: Callable[[bytes], object]) -> list[object]:
    assert isinstance(elements, list)
    return convert_elements(elements, read)


def unescape_array(text: str, delimiter: str = ",") -> list[object]:
    """Return an array's elements as strings, None for NULL, and a list for a nested array.

    Lower bounds (`[0:1]={1,2}`) are ignored: JSON and Kafka Connect do not have them.
    """
    at = text.index("{") + 1
    bare = _COMMA if delimiter == "," else _bare(delimiter)
    stack: list[list[object]] = [[]]
    while True:
        char = text[at]
        if char == "{":
            stack.append([])
            at += 1
        elif char == "}":
            done = stack.pop()
            if not stack:
                return done
            stack[-1].append(done)
            at += 1
        elif char == delimiter:
            at += 1
        elif char == '"':
            value, at = _read_quoted(text, at + 1)
            stack[-1].append(value)
        else:
            match = bare.match(text, at)
            assert match is not None
            at = match.end()
            stack[-1].append(None if match[0].upper() == "NULL" else match[0])


@cache
def _bare(delimiter: str) -> re.Pattern[str]:
    """Return the pattern of an element without quotes."""
    return re.compile(rf'[^{{}}"{re.escape(delimiter)}]+')


_COMMA: Final = _bare(",")
_PLAIN: Final = re.compile(r'[^"\\]*')


def _read_quoted(text: str, at: int) -> tuple[str, int]:
    """Return the quoted element that starts at `at`, after its quote, and the position after the closing quote."""
    parts: list[str] = []
    while True:
        match = _PLAIN.match(text, at)
        assert match is not None
        parts.append(match[0])
        at = match.end()
        if text[at] == '"':
            return "".join(parts), at + 1
        parts.append(text[at + 1])
        at += 2


_PAIR: Final = re.compile(r'(?:, )?"((?:[^"\\]|\\.)*+)"=>(?:"((?:[^"\\]|\\.)*+)"|NULL)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def hstore_pairs(text: str) -> dict[str, str | None]:
    """Return the keys and values of an hstore. Raises `ValueError` if the text is not one."""
    pairs: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            raise ValueError(f"an hstore cannot be read from character {at} on")
        pairs[_ESCAPED.sub(r"\1", match[1])] = None if match[2] is None else _ESCAPED.sub(r"\1", match[2])
        at = match.end()
    return pairs


MIDNIGHT: Final = time()


def connect_date(raw: bytes) -> date | DistantDate:
    return date_of_day(day_of(raw))


def connect_timestamp(raw: bytes) -> datetime | DistantTimestamp:
    return timestamp_of_millis(millis_of(raw))


def connect_time(raw: bytes) -> time | EndOfDay:
    if raw.startswith(b"24:"):
        return EndOfDay()
    return to_time(time_millis(raw))


Read = Callable[[bytes], Any]
Handle = Callable[[str, bytes], None]
"""`(reason, raw)`: see `TypeSettings.handle_unsupported`."""
_NOT_FINITE: Final = "a decimal cannot be NaN or infinite"

VARIABLE_SCALE_DECIMAL: Final = struct_of(
    {"scale": INT32, "value": BYTES},
    "io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)


def variable_decimal(unsupported: Handle) -> Read:
    """Return a reader of decimals of any scale. unsupported: for NaN and infinities."""

    def read(raw: bytes) -> Struct | None:
        text = raw.decode()
        whole, _, fraction = text.partition(".")
        if not whole.lstrip("-").isdecimal():
            unsupported(_NOT_FINITE, raw)
            return None
        fraction = fraction.rstrip("0")
        return Struct.of(VARIABLE_SCALE_DECIMAL, [len(fraction), to_signed_bytes(int(whole + fraction))])

    return read


def exact_decimal(scale: int, unsupported: Handle) -> Read:
    """Return a reader of decimals with this scale. unsupported: for NaN and infinities."""

    def read(raw: bytes) -> Decimal | None:
        number = Decimal(raw.decode())
        if not number.is_finite():
            unsupported(_NOT_FINITE, raw)
            return None
        return number if scale >= 0 else number.quantize(Decimal(1).scaleb(-scale))

    return read


def money(digits: int) -> Read:
    """Return a reader of money in the C locale: `$1,234.50`, `-$1.00`."""

    def read(raw: bytes) -> Decimal:
        text = raw.decode()
        number = Decimal("".join(char for char in text if char in "0123456789."))
        negative = "-" in text or text.startswith("(")
        return (-number if negative else number).quantize(Decimal(1).scaleb(-digits))

    return read


POINT: Final = struct_of(
    {"x": FLOAT64, "y": FLOAT64, "wkb": BYTES.but(optional=True), "srid": INT32.but(optional=True)},
    "io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
LINE: Final = struct_of(
    {"a": FLOAT64, "b": FLOAT64, "c": FLOAT64},
    "io.debezium.data.geometry.Line",
    version=1,
    doc="Geometry (LINE)",
    optional=True,
)
CIRCLE: Final = struct_of(
    {"center": POINT, "radius": FLOAT64},
    "io.debezium.data.geometry.Circle",
    version=1,
    doc="Geometry (CIRCLE)",
    optional=True,
)
GEOMETRY: Final = struct_of(
    {"wkb": BYTES, "srid": INT32.but(optional=True), "extensions": mapping(STRING, STRING).but(optional=True)},
    "io.debezium.data.geometry.Geometry",
    version=2,
    doc="Geometry",
    optional=True,
)
_NUMBER: Final = re.compile(rb"[^\[\](){}<>,]+")
_LINE_STRING: Final = 2
_POLYGON: Final = 3
Points = Sequence[tuple[float, float]]
ReadShape = Callable[[bytes], Struct]


def _numbers(raw: bytes) -> list[float]:
    return [float(number) for number in _NUMBER.findall(raw)]


def _points(raw: bytes) -> list[tuple[float, float]]:
    numbers = _numbers(raw)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _wkb(kind: int, points: Points) -> bytes:
    """Return a line string, or a polygon of one ring, in little-endian WKB."""
    rings = struct.pack("<I", 1) if kind == _POLYGON else b""
    coordinates = b"".join(struct.pack("<dd", *point) for point in points)
    return struct.pack("<BI", 1, kind) + rings + struct.pack("<I", len(points)) + coordinates


def _geometry(kind: int, points: Points, **extensions: str) -> Struct:
    return Struct.of(GEOMETRY, [_wkb(kind, points), None, extensions])


def read_point(raw: bytes) -> Struct:
    x, y = _numbers(raw)
    return Struct.of(POINT, [x, y, struct.pack("<BIdd", 1, 1, x, y), None])


def read_line(raw: bytes) -> Struct:
    return Struct.of(LINE, [*_numbers(raw)])


def read_circle(raw: bytes) -> Struct:
    x, y, radius = _numbers(raw)
    return Struct.of(CIRCLE, [read_point(b"(%r,%r)" % (x, y)), radius])


def read_segment(raw: bytes) -> Struct:
    return _geometry(_LINE_STRING, _points(raw), type="lseg")


def read_box(raw: bytes) -> Struct:
    (x, y), (other_x, other_y) = _points(raw)
    corners = [(x, y), (x, other_y), (other_x, other_y), (other_x, y), (x, y)]
    return _geometry(_POLYGON, corners, type="box")


def read_path(raw: bytes) -> Struct:
    closed = "false" if raw.startswith(b"[") else "true"
    return _geometry(_LINE_STRING, _points(raw), type="path", closed=closed)


def read_polygon(raw: bytes) -> Struct:
    points = _points(raw)
    return _geometry(_POLYGON, [*points, points[0]], type="polygon")


SHAPES: Final[dict[str, tuple[ReadShape, Struct]]] = {
    "line": (read_line, read_line(b"{0,1,0}")),
    "circle": (read_circle, read_circle(b"<(0,0),0>")),
    "lseg": (read_segment, read_segment(b"[(0,0),(1,0)]")),
    "box": (read_box, read_box(b"(0,0),(1,1)")),
    "path": (read_path, _geometry(_LINE_STRING, [(0, 0), (1, 0)], type="path")),
    "polygon": (read_polygon, read_polygon(b"((0,0),(1,0),(0,1))")),
}
"""By type: the reader, and Debezium's value for an unknown one in a required column."""
