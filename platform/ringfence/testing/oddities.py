"""Legal values that few tests contain, by type, with what a record has to hold for each: for the tests of any source.

A source that delivers a type in another form, such as a decimal as text, compares `text` instead of `value`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import Final

from ringfence.connectors.api import DistantDate, DistantTimestamp


class Kind(StrEnum):
    """The type of the source's column."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    REAL = "real"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    ZONED_TIMESTAMP = "zoned timestamp"
    INTERVAL = "interval"
    UUID = "uuid"
    JSON = "json"


class Unsupported:
    """Stands for a value that Kafka Connect's type cannot hold: null, text or an error, by a setting."""

    def __repr__(self) -> str:
        return "UNSUPPORTED"


UNSUPPORTED: Final = Unsupported()


@dataclass(frozen=True, slots=True)
class Oddity:
    """literal: the value as PostgreSQL writes it. value: in Kafka Connect's data model, with the type's usual schema.
    text: as a string, losing nothing.
    """

    kind: Kind
    literal: str
    value: object
    text: str


def oddities(*kinds: Kind) -> Iterable[Oddity]:
    """Return the values of these types, of all without arguments."""
    return [oddity for oddity in _ODDITIES if not kinds or oddity.kind in kinds]


def _same(kind: Kind, pairs: Iterable[tuple[str, object]]) -> list[Oddity]:
    """Return oddities whose text is their literal."""
    return [Oddity(kind, literal, value, literal) for literal, value in pairs]


def _decimals() -> list[Oddity]:
    digits = (
        "99999999999999999999999999999999999999",
        "-99999999999999999999999999999999999999",
        "12345678901234567890.123456789012345678",
        "-0.000000000000000001",
    )
    largest = "9" * 20 + "." + "9" * 18
    finite = [(text, Decimal(text)) for text in (*digits, largest, "0", "0.0", "-1.50", "1" + "0" * 60)]
    return _same(Kind.DECIMAL, [*finite, *((text, UNSUPPORTED) for text in ("NaN", "Infinity", "-Infinity"))])


def _reals() -> list[Oddity]:
    infinite = float("inf")
    special: list[tuple[str, object]] = [("NaN", float("nan")), ("Infinity", infinite), ("-Infinity", -infinite)]
    double = [("5e-324", 5e-324), ("1.7976931348623157e+308", 1.7976931348623157e308), ("0.1", 0.1), ("-0", -0.0)]
    single = [("1e-45", 1.401298464324817e-45), ("3.4028235e+38", 3.4028234663852886e38), ("-0", -0.0)]
    return _same(Kind.DOUBLE, [*double, *special]) + _same(Kind.REAL, [*single, *special])


def _dates() -> list[Oddity]:
    usual = [
        (text, date.fromisoformat(text))
        for text in ("0001-01-01", "1582-10-10", "1970-01-01", "2024-02-29", "9999-12-31")
    ]
    distant = [
        ("12345-01-02", DistantDate(3_789_392)),
        ("5874897-12-31", DistantDate(2_145_042_905)),
        ("0044-03-15 BC", DistantDate(-735_160)),
        ("4713-01-01 BC", DistantDate(-2_440_550)),
    ]
    return _same(Kind.DATE, [*usual, *distant, ("infinity", UNSUPPORTED), ("-infinity", UNSUPPORTED)])


def _times() -> list[Oddity]:
    usual = [("00:00:00", time()), ("23:59:59.999", time(23, 59, 59, 999_000)), ("12:00:00.001", time(12, 0, 0, 1000))]
    return _same(Kind.TIME, [*usual, ("24:00:00", UNSUPPORTED)])


def _timestamps(kind: Kind, zone: str) -> list[Oddity]:
    day = 86_400_000
    usual = [("0001-01-01 00:00:00", datetime(1, 1, 1, tzinfo=UTC)), ("1969-12-31 23:59:59.999", _last_of_1969())]
    last = ("9999-12-31 23:59:59.999", datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))
    distant = [
        ("12345-01-02 03:04:05", "", DistantTimestamp(3_789_392 * day + 11_045_000)),
        ("294276-12-31 00:00:00", "", DistantTimestamp(106_762_939 * day)),
        ("0044-03-15 00:00:00", " BC", DistantTimestamp(-735_160 * day)),
    ]
    return [
        *_same(kind, [(text + zone, value) for text, value in (*usual, last)]),
        *_same(kind, [(text + zone + era, value) for text, era, value in distant]),
        *_same(kind, [("infinity", UNSUPPORTED), ("-infinity", UNSUPPORTED)]),
    ]


def _last_of_1969() -> datetime:
    return datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def _intervals() -> list[Oddity]:
    pairs = [
        ("1 mon 2 days", "P1M2D"),
        ("00:00:00", "PT0S"),
        ("-1 years -2 mons +3 days -04:05:06.789", "P-1Y-2M3DT-4H-5M-6.789S"),
        ("00:00:00.000001", "PT0.000001S"),
        ("178000000 years", "P178000000Y"),
    ]
    endless = _same(Kind.INTERVAL, [("infinity", UNSUPPORTED), ("-infinity", UNSUPPORTED)])
    return [Oddity(Kind.INTERVAL, literal, text, text) for literal, text in pairs] + endless


def _texts() -> list[Oddity]:
    texts = (
        "",
        " ",
        "a\tb\nc\rd",
        "\\N",
        "NULL",
        '{"a": 1}',
        "'\"",
        "\u00e9",
        "e\u0301",
        "\U0001f600",
        "\ufeff",
        "\x7f",
        "x" * 9000,
    )
    return _same(Kind.TEXT, [(text, text) for text in texts])


def _others() -> list[Oddity]:
    integers = [(str(number), number) for number in (0, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))]
    binary = [b"", b"\x00", b"\xff\xfe", b"\\", bytes(range(256))]
    uuids = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
    documents = ("null", "[]", "{}", '"a"', "1e400", '{"a": 1, "a": 2}', "123456789012345678901234567890")
    return [
        *_same(Kind.INTEGER, integers),
        *_same(Kind.BOOLEAN, [("true", True), ("false", False)]),
        *(Oddity(Kind.BYTES, f"\\x{each.hex()}", each, each.hex()) for each in binary),
        *_same(Kind.UUID, [(text, text) for text in uuids]),
        *_same(Kind.JSON, [(text, text) for text in documents]),
    ]


_ODDITIES: Final = (
    *_decimals(),
    *_reals(),
    *_dates(),
    *_times(),
    *_timestamps(Kind.TIMESTAMP, ""),
    *_timestamps(Kind.ZONED_TIMESTAMP, "+00"),
    *_intervals(),
    *_texts(),
    *_others(),
)
