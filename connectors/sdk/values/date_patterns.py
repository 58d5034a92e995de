"""Formats and parses dates by a pattern such as `yyyy-MM-dd'T'HH:mm:ss.SSS`: Java's SimpleDateFormat, in UTC and
English.

As in Java, parsing is lenient: numbers out of range carry over, and text after the last part of the pattern is ignored.
Week fields (w, W, F, Y), whose meaning is specific to Java, are refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from ringfence.connectors.sdk.values.moments import MILLIS_PER_DAY, to_datetime

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", re.DOTALL)
_LETTERS: Final = "GyMLdDEuaHkKhmsSzZX"
_NUMBER: Final = re.compile(r"[0-9]+")
_ZONE: Final = re.compile(r"(?:GMT|UTC|UT)?([+-])([0-9]{1,2}):?([0-9]{2})?|Z|GMT|UTC|UT")
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


class PatternError(ValueError):
    """The pattern cannot be used; the message contains the reason."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A field of a date (`letter`, `count` times), or a string (`letter` is empty). exact: it has exactly `count`
    digits.
    """

    letter: str
    count: int
    text: str = ""
    exact: bool = False


class DatePattern:
    """One pattern; formats and parses times in milliseconds since the epoch."""

    def __init__(self, pattern: str) -> None:
        """Raises `PatternError`."""
        self.pattern = pattern
        parts: list[_Part] = []
        at = 0
        while at < len(pattern):
            match = _PIECE.match(pattern, at)
            if match is None:
                raise PatternError("a quote is never closed")
            at = match.end()
            quoted, letter = match[1], match[2]
            if quoted is not None:
                parts.append(_Part("", 0, quoted.replace("''", "'") if quoted else "'"))
            elif letter is None:
                parts.append(_Part("", 0, match[0]))
            elif letter not in _LETTERS:
                raise PatternError(f"{letter} is not supported in it; known are {', '.join(_LETTERS)}")
            else:
                parts.append(_Part(letter, len(match[0])))
        follows = [*parts[1:], _Part("", 0)]
        self._parts = [
            _Part(part.letter, part.count, part.text, bool(after.letter) and _is_number(after))
            for part, after in zip(parts, follows, strict=False)
        ]

    def format(self, moment: int) -> str:
        """Return the text of a time."""
        at = to_datetime(moment)
        return "".join(part.text if not part.letter else _format(part, at) for part in self._parts)

    def parse(self, text: str) -> int | None:
        """Return the time of a text; None if it does not fit the pattern."""
        at = 0
        numbers: dict[str, int] = {}
        for part in self._parts:
            if not part.letter:
                if not text.startswith(part.text, at):
                    return None
                at += len(part.text)
                continue
            while at < len(text) and text[at] in " \t":
                at += 1
            read = _read(part, text, at)
            if read is None:
                return None
            numbers[part.letter], at = read
        return _moment(numbers)


def _is_number(part: _Part) -> bool:
    return part.letter not in "GEazZX" and not (part.letter in "ML" and part.count > 2)


def _format(part: _Part, at: datetime) -> str:
    letter, count = part.letter, part.count
    match letter:
        case "G":
            return "AD"
        case "y":
            return f"{at.year % 100:02d}" if count == 2 else f"{at.year:0{count}d}"
        case "M" | "L" if count > 2:
            name = _MONTHS[at.month - 1]
            return name if count > 3 else name[:3]
        case "E":
            name = _DAYS[at.weekday()]
            return name if count > 3 else name[:3]
        case "a":
            return "AM" if at.hour < 12 else "PM"
        case "z":
            return "Coordinated Universal Time" if count > 3 else "UTC"
        case "Z":
            return "+0000"
        case "X":
            return "Z"
        case _:
            return f"{_NUMBERS[letter](at):0{count}d}"


_NUMBERS: Final[dict[str, Callable[[datetime], int]]] = {
    "M": lambda at: at.month,
    "L": lambda at: at.month,
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "u": lambda at: at.isoweekday(),
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
    "S": lambda at: at.microsecond // 1000,
}


def _read(part: _Part, text: str, at: int) -> tuple[int, int] | None:
    """Return the number that the text has for this field, and where the next field begins."""
    letter, count = part.letter, part.count
    if letter == "E":
        return _name(_DAYS, text, at)
    if letter in "ML" and count > 2:
        return _name(_MONTHS, text, at)
    if letter == "a":
        return _name(("AM", "PM"), text, at)
    if letter == "G":
        return _name(("BC", "AD"), text, at)
    if letter in "zZX":
        return _zone(text, at)
    match = _NUMBER.match(text, at, at + count) if part.exact else _NUMBER.match(text, at)
    if match is None or len(match[0]) > 18:
        return None
    number = int(match[0])
    if letter == "y" and count <= 2 and len(match[0]) == 2:  # the nearest century: 80 years back, 20 ahead
        first = datetime.now(UTC).year - 80
        number = first + (number - first) % 100
    return number, match.end()


def _name(names: tuple[str, ...], text: str, at: int) -> tuple[int, int] | None:
    """Return the number of the name at this position, in full or as its first three letters."""
    rest = text[at:].lower()
    for number, name in enumerate(names, start=1):
        for spelling in (name, name[:3]):
            if rest.startswith(spelling.lower()):
                return number, at + len(spelling)
    return None


def _zone(text: str, at: int) -> tuple[int, int] | None:
    """Return minutes east of Greenwich, and where the next field begins."""
    match = _ZONE.match(text, at)
    if match is None:
        return None
    minutes = int(match[2] or 0) * 60 + int(match[3] or 0)
    return (-minutes if match[1] == "-" else minutes), match.end()


def _moment(fields: Mapping[str, int]) -> int | None:
    year, month = fields.get("y", 1970), fields.get("M", fields.get("L", 1))
    if fields.get("G") == 1:
        return None
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    if not 1 <= year <= 9999:
        return None
    day = fields["D"] if "D" in fields and not {"d", "M", "L"} & fields.keys() else fields.get("d", 1)
    days = date(year, month, 1).toordinal() - _EPOCH_DAY + day - 1
    hour = fields.get("H", fields["k"] % 24 if "k" in fields else -1)
    if hour < 0:
        hour = fields.get("K", fields.get("h", 0) % 12) + (12 if fields.get("a") == 2 else 0)
    minutes = hour * 60 + fields.get("m", 0)
    for zone in "zZX":
        minutes -= fields.get(zone, 0)
    return days * MILLIS_PER_DAY + (minutes * 60 + fields.get("s", 0)) * 1000 + fields.get("S", 0)
