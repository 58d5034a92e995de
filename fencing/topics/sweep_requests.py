"""Offsets that a share group's tasks must look at now, before their time: a config record. Pure.

It decides nothing: a task that reads it still checks the ledger first (docs/share-groups.md, "The sweep").
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields, parse_integer
from ringfence.fencing.topics.connector_state import ConnectorState

MOST = 1000
"""The maximum of ranges in one request."""

Place = tuple[str, int, int, int]
"""Topic id, partition, first and last offset."""


@dataclass(frozen=True, slots=True)
class SweepRequestRecord(ConnectorScopedRecord):
    """`sweep-<c>`: places None is a tombstone. time_ms: when it was requested; it distinguishes requests."""

    connector: ConnectorName
    places: Sequence[Place] | None
    time_ms: int = 0

    PREFIXES = ("sweep-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "SweepRequestRecord | None":
        if not rest:
            return None
        if value is None:
            return cls(ConnectorName(rest), None)
        return cls(ConnectorName(rest), _places(value["places"]), parse_integer(value, "time_ms"))

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"sweep-{self.connector}"

    def to_value(self) -> Fields | None:
        if self.places is None:
            return None
        return {"places": [list(place) for place in self.places], "time_ms": self.time_ms}

    @classmethod
    def tombstone_of(cls, connector: ConnectorState) -> "SweepRequestRecord | None":
        return cls(connector.name, None) if connector.sweep_request is not None else None

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        return replace(state, sweep_request=None if self.places is None else self)


def _places(value: object) -> tuple[Place, ...]:
    if not isinstance(value, list):
        raise TypeError("places must be a list")
    return tuple(_place(each) for each in value)


def _place(value: object) -> Place:
    if not isinstance(value, list) or len(value) != 4 or not isinstance(value[0], str):
        raise TypeError("a place must be a topic id and three integers")
    topic, *numbers = value
    if not all(type(one) is int and one >= 0 for one in numbers):
        raise ValueError("a place must have integers that are not negative")
    return topic, numbers[0], numbers[1], numbers[2]
