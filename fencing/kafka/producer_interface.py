"""The interface of transactional producers, which tests and the model also implement."""

from collections.abc import Callable, Sequence, Set
from typing import Protocol

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.batch_sender import BatchSender

Produce = Callable[..., None]
"""confluent-kafka's `produce(topic, value, key, partition, on_delivery, timestamp, headers)`."""
Position = tuple[str, int, int]
"""Topic, partition, and the offset of the next record to read."""


class TransactionalClient(Protocol):
    """The part of `fencing.kafka.transactional_producer.TransactionalProducer` that a transaction uses."""

    produce: Produce
    spent: bool

    @property
    def producer_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def sender(self) -> BatchSender: ...

    def init(self, deadline: Deadline) -> None: ...

    def begin(self) -> None: ...

    def commit(self, deadline: Deadline) -> None: ...

    def abort(self, deadline: Deadline) -> bool: ...

    def send_offsets(self, offsets: Sequence[Position], group_metadata: bytes, deadline: Deadline) -> None: ...

    def serve(self, seconds: float) -> int: ...

    def flush(self, seconds: float) -> int: ...

    def count_partitions(self, topics: Set[str]) -> int: ...

    def close(self) -> None: ...
