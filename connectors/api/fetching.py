"""Record batches as brokers keep them: what the framework offers connectors that read Kafka, in place of a consumer.

Not for plugins: `SourceTaskContext` does not have it, since it is offered only where whole batches can be written.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from ringfence.connectors.api.records import EncodedBatch

Place = tuple[str, int]
"""Topic and partition."""

NOT_ALLOWED: Final = "Grant the source's principal READ and DESCRIBE on the topics to read."
NO_TOPIC: Final = "The topic was deleted, or does not exist yet: the next refresh looks for topics again."
"""What to do where a topic cannot be read, whichever client says so."""


class Run(NamedTuple):
    """Consecutive records of one partition, by columns. times: in ms, -1 for none."""

    topic: str
    partition: int
    values: list[bytes | None]
    keys: list[bytes | None]
    headers: list[Any]
    times: list[int]
    offsets: list[int]

    @classmethod
    def empty(cls, topic: str, partition: int) -> "Run":
        return cls(topic, partition, [], [], [], [], [])

    def part(self, rows: slice) -> "Run":
        """Return some successive records."""
        _, _, *columns = self
        return Run(self.topic, self.partition, *(column[rows] for column in columns))


class FetchedBatch(Protocol):
    """A record batch of committed records. Those before the reader's position are left out."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def count(self) -> int:
        """How many records it has."""
        ...

    @property
    def last(self) -> int:
        """The offset of its last record."""
        ...

    @property
    def obstacle(self) -> str:
        """Why it cannot be written as it is, as a name; "" if it can."""
        ...

    @property
    def has_headers(self) -> bool:
        """Whether any of its records has headers: all of them are looked at. Raises `ConnectorError` for bytes that are
        no records.
        """
        ...

    def encode_for(self, topic: str) -> EncodedBatch:
        """Return it for a topic, unless there is an obstacle. Its records are not looked at."""
        ...

    def add_to(self, run: Run) -> None:
        """Append its records to a run of its partition. Raises `ConnectorError` for bytes that are no records."""
        ...


class OutOfRange(Exception):
    """A partition has lost the records at the reader's position. It is not read any more, until it is added again."""

    def __init__(self, place: Place, position: int) -> None:
        super().__init__(f"{place[0]}-{place[1]} has no offset {position}")
        self.place = place
        self.position = position


class NotFetchable(Exception):
    """Brokers, or what they keep, are too old for a `BatchReader`: use a consumer."""


class BatchReader(Protocol):
    """Reads partitions, each from a position on."""

    @property
    def positions(self) -> Mapping[Place, int]:
        """Where each partition is read next, by what `poll` has returned."""
        ...

    @property
    def has_answered(self) -> bool:
        """Whether the brokers of all partitions answer: then a `poll` without batches means that there are none."""
        ...

    def add(self, positions: Mapping[Place, int]) -> None:
        """Read these partitions, too. positions: the offsets of the first records."""
        ...

    def remove(self, places: Sequence[Place]) -> None:
        """Read these partitions no more."""
        ...

    def poll(self, seconds: float) -> Sequence[FetchedBatch]:
        """Return the next batches, in order for each partition; none after `seconds` without any.

        Raises `ConnectorError`, `RetriableError`, `OutOfRange` and `NotFetchable`.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class FetchingContext(Protocol):
    """The context of a task that may return `EncodedBatches`."""

    encoded_batch_bytes: int
    """0 if the task must not return any."""

    def read_batches(self, settings: Mapping[str, str], isolation: str) -> BatchReader:
        """Return a reader of the cluster that these client settings name (librdkafka's names). isolation: as in
        `isolation.level`. Raises `ConnectorError` for settings that cannot be used. The task closes it.
        """
        ...
