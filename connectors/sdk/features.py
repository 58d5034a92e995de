"""What a connector contributes beside its class: tabs of its page, requests that it receives, preflight checks.

A package declares it by an entry point of the group `ringfence.features`, under the name of its connector's entry
point. Web processes and workers import it themselves, unlike the connector, which runs in processes of its own: it
needs no driver and no client library of the source.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple, Protocol

from ringfence.connectors.api import SourceOffset, SourcePartition
from ringfence.connectors.sdk.foreign_names import ForeignNames

GROUP: Final = "ringfence.features"

Config = Mapping[str, str]
ReadOffset = Callable[[SourcePartition], SourceOffset | None]


class QueuedTable(Protocol):
    """A table that an incremental snapshot reads. name: schema.table; rows: their estimated number."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> int: ...


class IncrementalProgress(Protocol):
    """The committed state of incremental snapshots.

    queue: the tables to read; the first one is being read, with `rows` rows so far. total: rows of all tables since the
    queue was empty; rows_left: the estimated number of others, 0 without an estimate. note: the result of the newest
    request or table. has_work: there is something to read now.
    """

    @property
    def queue(self) -> Sequence[QueuedTable]: ...

    @property
    def rows(self) -> int: ...

    @property
    def total(self) -> int: ...

    @property
    def rows_left(self) -> int: ...

    @property
    def paused(self) -> bool: ...

    @property
    def note(self) -> str: ...

    @property
    def has_work(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class TableProgress:
    """name: schema.table; rows: in Kafka; rows_estimated: by the database when the plan was made."""

    name: str
    rows: int
    rows_estimated: int
    ranges: int
    ranges_read: int

    @property
    def finished(self) -> bool:
        return self.ranges_read == self.ranges


class InitialProgress(NamedTuple):
    """The committed progress of an initial snapshot. began_ms: since 1970."""

    began_ms: int
    tables: Sequence[TableProgress]


class Snapshots(ABC):
    """Reads the progress of snapshots from committed offsets. Incremental ones are requested by `snapshot_signals`."""

    @abstractmethod
    def read_initial(self, config: Config, offset: ReadOffset) -> InitialProgress | None:
        """Return the progress; None if no snapshot was planned. Raises `ConnectorError` for invalid offsets."""

    @abstractmethod
    def incremental_partition(self, config: Config) -> SourcePartition:
        """Return the source partition of the connector's incremental snapshots."""

    @abstractmethod
    def read_incremental(self, offset: SourceOffset | None) -> IncrementalProgress:
        """Return the progress in an offset of that partition. Raises `ConnectorError` for an invalid one."""

    def find_refusal(self, config: Config) -> str:
        """Return why a connector with this configuration takes no requests; "" if it does."""
        return ""


class ShareInput(NamedTuple):
    """The share group's cluster. clients: settings of its clients, by librdkafka's names, "bootstrap.servers" among
    them; None if the connector's are invalid. topics: their names, or regular expressions.
    """

    clients: Mapping[str, str] | None
    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class Features:
    """What a connector contributes.

    receives_requests: requests to `/hooks/<connector>` go to the `Endpoint` of its task, by `request_frames`.
    snapshots: for the Snapshots tab, and the API of incremental snapshots. share_input: for preflight checks of the
    share group that its tasks join. foreign_names: for `ringfence check`. sections: which sections of our documentation
    explain settings, as patterns of their names, document#anchor, and title.
    """

    receives_requests: bool = False
    snapshots: Snapshots | None = None
    share_input: Callable[[Config], ShareInput] | None = None
    foreign_names: ForeignNames = field(default_factory=ForeignNames)
    sections: Sequence[tuple[str, str, str]] = ()


def features_of(class_name: str) -> Features:
    """Return what a connector contributes, by any name of its class; nothing if it declares nothing."""
    return _load(class_name.strip().rpartition(".")[2].removesuffix("Connector"))


def all_features() -> Mapping[str, Features]:
    """Return what all connectors contribute, by their names."""
    return {name: _load(name) for name in sorted(_entry_points())}


@cache
def _load(name: str) -> Features:
    point = _entry_points().get(name)
    features = None if point is None else point.load()
    return features if isinstance(features, Features) else Features()


@cache
def _entry_points() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
