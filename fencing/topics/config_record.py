"""What every type of record in the config topic knows: its key, its value, and what it changes.

A new type is one class, in a module of its own, and one line in `config_records.RECORD_TYPES`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from ringfence.fencing.ids import ConnectorName, parse_task

if TYPE_CHECKING:  # what the records change is built from them
    from ringfence.fencing.topics.cluster_state import Fold
    from ringfence.fencing.topics.connector_state import ConnectorState

Fields = Mapping[str, object]
"""A value: a JSON object."""


class ConfigRecord(ABC):
    """One record. Subclasses are frozen dataclasses."""

    __slots__ = ()
    PREFIXES: ClassVar[tuple[str, ...]]
    """What its keys begin with."""

    @classmethod
    def decode(cls, prefix: str, rest: str, raw: bytes | None) -> "ConfigRecord | None":
        """The record under the key `prefix + rest`; None where that is not a key of this type.

        Raises KeyError, TypeError, ValueError or RecursionError for a value that cannot be read.
        """
        if raw is None:
            return cls.parse(prefix, rest, None)
        loaded: object = json.loads(raw)
        if not isinstance(loaded, dict):
            raise TypeError("a JSON object is expected")
        return cls.parse(prefix, rest, cast(dict[str, object], loaded))

    @classmethod
    @abstractmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "ConfigRecord | None":
        """As `decode`; `value` None is a tombstone."""

    @classmethod
    def connector_in(cls, rest: str) -> ConnectorName | None:
        """The connector that a key with this rest belongs to; None where it belongs to the cluster."""
        return None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Key and value, as Kafka Connect would write them."""
        value = self.to_value()
        return self.to_key().encode(), None if value is None else dump(value)

    @abstractmethod
    def to_key(self) -> str: ...

    @abstractmethod
    def to_value(self) -> Fields | None:
        """None for a tombstone."""

    @abstractmethod
    def apply(self, cluster: "Fold", offset: int) -> None:
        """Change the cluster's state; `offset` is this record's own."""


class ConnectorScopedRecord(ConfigRecord):
    """A record of one connector, whose name is the rest of the key."""

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
        """The connector's state after this record."""

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.set(self.apply_to(cluster.connector(self.owner), offset))


class TaskScopedRecord(ConnectorScopedRecord):
    """A record of one task: the rest of the key is `<connector>-<task>`."""

    __slots__ = ()

    @classmethod
    def connector_in(cls, rest: str) -> ConnectorName | None:
        task = parse_task(rest)
        return task.connector if task else None


def parse_strings(value: object) -> dict[str, str]:
    """An object of strings; other values become their JSON text, and null is left out. Raises TypeError."""
    if not isinstance(value, dict):
        raise TypeError("an object of strings is expected")
    return {
        str(key): item if isinstance(item, str) else json.dumps(item) for key, item in value.items() if item is not None
    }


def parse_integer(value: Fields, name: str, default: int | None = None) -> int:
    """A number from 0 on; `default` where the field is absent. Raises KeyError or ValueError."""
    if default is not None and name not in value:
        return default
    item = value[name]
    if isinstance(item, bool) or not isinstance(item, int) or item < 0:
        raise ValueError(f"{name} is no integer")
    return item


def dump(value: Fields) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
