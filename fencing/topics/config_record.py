"""The base class of the config topic's record types: each knows its key, its value, and its effect.

A new type is one class, in its own module, and one line in `config_records.RECORD_TYPES`. What it says about a
connector is a field of `ConnectorState`, which `apply_to` sets and `tombstone_of` looks at.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from ringfence.connectors.sdk.worker_limits import MAX_TASKS
from ringfence.fencing.ids import ConnectorName, parse_task

if TYPE_CHECKING:  # what the records change is built from them
    from ringfence.fencing.topics.cluster_state import Fold
    from ringfence.fencing.topics.connector_state import ConnectorState

Fields = Mapping[str, object]
"""A value: a JSON object."""


class ConfigRecord(ABC):
    """A record. Subclasses are frozen dataclasses."""

    __slots__ = ()
    PREFIXES: ClassVar[tuple[str, ...]]
    """The prefixes of its keys."""

    @classmethod
    def decode(cls, prefix: str, rest: str, raw: bytes | None) -> "ConfigRecord | None":
        """Decode the record with the key `prefix + rest`; None if that is not a key of this type.

        Raises KeyError, TypeError, ValueError or RecursionError for a value that cannot be read.
        """
        if raw is None:
            return cls.parse(prefix, rest, None)
        fields: object = json.loads(raw)
        if not isinstance(fields, dict):
            raise TypeError("a JSON object is expected")
        return cls.parse(prefix, rest, cast(dict[str, object], fields))

    @classmethod
    @abstractmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "ConfigRecord | None":
        """Parse as in `decode`; `value` None is a tombstone."""

    @classmethod
    def connector_in(cls, rest: str) -> ConnectorName | None:
        """Return the connector that a key with this rest belongs to; None if it belongs to the cluster."""
        return None

    @classmethod
    def tombstone_of(cls, connector: "ConnectorState") -> "ConfigRecord | None":
        """Return the tombstone that the connector's deletion writes for its record of this type. None if it has none,
        or if another step removes it: `fencing.leader.reconcile` does that for what a round must still know.
        """
        return None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return key and value, as Kafka Connect would write them."""
        value = self.to_value()
        return self.to_key().encode(), None if value is None else dump(value)

    @abstractmethod
    def to_key(self) -> str: ...

    @abstractmethod
    def to_value(self) -> Fields | None:
        """Return the value; None for a tombstone."""

    @abstractmethod
    def apply(self, cluster: "Fold", offset: int) -> None:
        """Apply the record to the cluster's state; offset: the record's own."""


class ConnectorScopedRecord(ConfigRecord):
    """A record of one connector; its name is the rest of the key."""

    __slots__ = ()

    @classmethod
    def connector_in(cls, rest: str) -> ConnectorName | None:
        return ConnectorName(rest) if rest else None

    @property
    @abstractmethod
    def owner(self) -> ConnectorName:
        """The connector."""

    @abstractmethod
    def apply_to(self, state: "ConnectorState", offset: int) -> "ConnectorState":
        """Return the connector's state after this record."""

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.set(self.apply_to(cluster.connector(self.owner), offset))


class TaskScopedRecord(ConnectorScopedRecord):
    """A record of one task; the rest of the key is `<connector>-<task>`."""

    __slots__ = ()

    @classmethod
    def connector_in(cls, rest: str) -> ConnectorName | None:
        task = parse_task(rest)
        return task.connector if task else None


def parse_strings(value: object) -> dict[str, str]:
    """Parse an object of strings; other values become JSON strings, and null is left out. Raises `TypeError`."""
    if not isinstance(value, dict):
        raise TypeError("an object of strings is expected")
    return {
        str(key): item if isinstance(item, str) else json.dumps(item) for key, item in value.items() if item is not None
    }


def parse_integer(value: Fields, name: str, default: int | None = None) -> int:
    """Parse a non-negative integer; `default` if the field is missing. Raises `KeyError` or `ValueError`."""
    if default is not None and name not in value:
        return default
    item = value[name]
    if isinstance(item, bool) or not isinstance(item, int) or item < 0:
        raise ValueError(f"{name} is no integer")
    return item


def parse_tasks(value: Fields, name: str) -> int:
    """Parse a number of tasks. Raises `KeyError` or `ValueError`, also for more than a connector can have: readers
    count them one by one.
    """
    tasks = parse_integer(value, name)
    if tasks > MAX_TASKS:
        raise ValueError(f"{name} is {tasks}, and a connector has {MAX_TASKS} tasks at most")
    return tasks


def dump(value: Fields) -> bytes:
    """Return compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class UnknownKey(ConfigRecord):
    """A record with a key that neither Ringfence nor Kafka Connect 4.3 writes.

    It is kept, with a warning in the log, and never written.
    """

    key: str

    PREFIXES = ()

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "UnknownKey":
        return cls(prefix + rest)

    def to_key(self) -> str:
        return self.key

    def to_value(self) -> Fields | None:
        raise ValueError(f"a record with the unknown key {self.key!r} is never written")

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.unknown.add(self.key)
