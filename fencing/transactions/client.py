"""What the owner of a transaction uses of a producer: `fencing.transactions.producer.Producer`, or a test's."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ringfence.connectors.api.records import EncodedBatch, RawHeaders
from ringfence.fencing.clock import Deadline
from ringfence.fencing.transactions.record_columns import OnWritten, RecordColumns

Produce = Callable[..., None]
"""`TransactionalClient.produce`."""
Position = tuple[str, int, int]
"""Topic, partition, and the offset of the next record to read."""
HeldUp = tuple[float, str]
"""Since when the brokers hold a producer up (monotonic), and why."""


class TransactionalClient(Protocol):
    """The methods are those of `Producer`, where they are described."""

    waiting: Callable[[], None]

    @property
    def spent(self) -> bool: ...

    @property
    def producer_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def transactions_v2(self) -> bool: ...

    @property
    def held_up(self) -> HeldUp | None: ...

    def prepare(self, topics: Sequence[str], deadline: Deadline) -> None: ...

    def init(self, deadline: Deadline) -> None: ...

    def begin(self) -> None: ...

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: RawHeaders | None = None,
        on_written: OnWritten | None = None,
    ) -> None: ...

    def produce_columns(self, columns: RecordColumns, on_written: Sequence[OnWritten | None] | None = None) -> None: ...

    def encode_ahead(self, columns: RecordColumns) -> None: ...

    def send_batches(self, batches: Sequence[EncodedBatch]) -> None: ...

    def send_offsets(self, offsets: Sequence[Position], group_metadata: bytes, deadline: Deadline) -> None: ...

    def count_partitions(self, topic: str) -> int: ...

    def topic_id(self, topic: str) -> str: ...

    def flush(self, seconds: float) -> int: ...

    def commit(self, deadline: Deadline) -> None: ...

    def try_commit(self, seconds: float) -> bool: ...

    def abort(self, deadline: Deadline) -> bool: ...

    def close(self) -> None: ...
