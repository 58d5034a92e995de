"""Parses numbers and times in queries and forms."""

import datetime as dt

from ringfence.http.errors import bad_request

BIGGEST = 2**63 - 1


def whole(text: str, what: str, lowest: int = 0, highest: int = BIGGEST) -> int:
    """Parse an integer of a query. Raises a 400 that names it if it is invalid or out of bounds."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and lowest <= int(text) <= highest):
        raise bad_request(f"{what} must be an integer from {lowest} to {highest}.")
    return int(text)


def moment(text: str, what: str) -> int:
    """Parse a time of a query. Raises a 400 that names it if it is invalid."""
    try:
        return parse_moment(text)
    except ValueError:
        raise bad_request(f"{what} must be {MOMENT}.") from None


MOMENT = "milliseconds since the epoch or a time like 2025-03-01T12:00:00Z"


def parse_moment(text: str) -> int:
    """Return milliseconds since the epoch, from that number or ISO 8601 (UTC without a zone). Raises ValueError."""
    if text.isascii() and text.isdigit():
        if len(text) >= 20 or int(text) > BIGGEST:
            raise ValueError("too large")
        return int(text)
    moment = dt.datetime.fromisoformat(text)
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    try:
        return int(zoned.timestamp() * 1000)
    except OverflowError as error:
        raise ValueError(str(error)) from error
