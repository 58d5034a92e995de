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
    """What a transaction uses of a producer: `fencing.transactions.producer.Producer`, or librdkafka's."""

    @property
    def spent(self) -> bool: ...

    @property
    def produce(self) -> Produce: ...

    @property
    def producer_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    def init(self, deadline: Deadline) -> None: ...

    def begin(self) -> None: ...

    def commit(self, deadline: Deadline) -> None: ...

    def abort(self, deadline: Deadline) -> bool: ...

    def send_offsets(self, offsets: Sequence[Position], group_metadata: bytes, deadline: Deadline) -> None: ...

    def serve(self, seconds: float) -> int: ...

    def flush(self, seconds: float) -> int: ...

    def count_partitions(self, topics: Set[str]) -> int: ...

    def close(self) -> None: ...


class TaskClient(TransactionalClient, Protocol):
    """What a task uses, too: `fencing.kafka.transactional_producer.TransactionalProducer`."""

    @property
    def sender(self) -> BatchSender: ...
