"""Dates and timestamps outside the years 1 to 9999, which Kafka Connect's types hold and Python's do not.

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
