"""The signals that users have sent to a connector's running tasks: a config record with the latest ones. Pure.

A task commits the number of the last one that it has handled, so the record may also hold older ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ringfence.connectors.api import Signal
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields
from ringfence.fencing.topics.connector_state import ConnectorState

KEPT = 20
"""The maximum kept, the latest ones: a task that is not running only reads these when it starts."""


@dataclass(frozen=True, slots=True)
class SignalsRecord(ConnectorScopedRecord):
    """`signals-<c>`: signals None is a tombstone; else ascending by number."""

    connector: ConnectorName
    signals: Sequence[Signal] | None

    PREFIXES = ("signals-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "SignalsRecord | None":
        if not rest:
            return None
        return cls(ConnectorName(rest), None if value is None else _signals(value["signals"]))

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"signals-{self.connector}"

    def to_value(self) -> Fields | None:
        if self.signals is None:
            return None
        return {"signals": [[one.number, one.kind, dict(one.data)] for one in self.signals]}

    @classmethod
    def tombstone_of(cls, connector: ConnectorState) -> "SignalsRecord | None":
        return cls(connector.name, None) if connector.signals else None

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        return replace(state, signals=tuple(self.signals or ()))


def add_signal(signals: Sequence[Signal], kind: str, data: Mapping[str, object], now_ms: int) -> tuple[Signal, ...]:
    """Return the signals with a new one. Its number is a time, so that it is larger than those of a deleted
    connector.
    """
    number = max(now_ms, signals[-1].number + 1 if signals else 0)
    return (*signals, Signal(number, kind, data))[-KEPT:]


def _signals(value: object) -> tuple[Signal, ...]:
    if not isinstance(value, list):
        raise TypeError("signals must be a list")
    return tuple(_signal(each) for each in value)


def _signal(value: object) -> Signal:
    if not isinstance(value, list) or len(value) != 3:
        raise TypeError("a signal must be a number, its kind and its data")
    number, kind, data = value
    if type(number) is not int or not isinstance(kind, str) or not isinstance(data, dict):
        raise TypeError("a signal must be a number, its kind and its data")
    return Signal(number, kind, data)
