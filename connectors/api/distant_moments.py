"""What Kafka Connect's types hold and Python's do not: dates and timestamps outside the years 1 to 9999, and 24:00.

Among them are the values that Java's drivers deliver for `infinity`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class DistantDate:
    """A value for the logical type Date. days: since 1970-01-01, negative before; 32 bits."""

    days: int


@dataclass(frozen=True, slots=True, order=True)
class DistantTimestamp:
    """A value for the logical type Timestamp. milliseconds: since 1970-01-01 in UTC, negative before; 64 bits."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class EndOfDay:
    """24:00, a value for the logical type Time: 86,400,000 ms."""
